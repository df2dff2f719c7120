import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parse as parseYaml } from "yaml";
import { parseCard } from "../../lib/board/card.ts";
import { editFront, type Front, readFront, readPlainFront } from "../../lib/board/front.ts";

const entriesOf = (front: Front | undefined) => front && [...front];

/** What the YAML parser says, if it does not throw: every scalar the string that it is written as. */
function yaml(text: string): [string, string][] {
	const value: unknown = parseYaml(text, { schema: "failsafe", logLevel: "error" });
	return Object.entries((value ?? {}) as object).map(([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)]);
}

async function code(act: Promise<unknown>): Promise<string | undefined> {
	try {
		await act;
	} catch (error) {
		return (error as { code?: string }).code;
	}
	return undefined;
}

/** ms of the processor, the least of three times. */
async function cost(act: () => Promise<unknown>): Promise<number> {
	const times: number[] = [];
	for (let time = 0; time < 3; time++) {
		const before = process.cpuUsage();
		await act();
		const { user, system } = process.cpuUsage(before);
		times.push((user + system) / 1000);
	}
	return Math.min(...times);
}

const keys = ["id", "title", "a", "A", "_x-9", "constructor", "toString", "__proto__", "hasOwnProperty", "no", "y", "null", "on", "e1"];
const values = [
	"plain words",
	"Re x",
	"a, b [c] {d}",
	"it's",
	'say "hi"',
	"a - b",
	"a -- b",
	"$& $1 $$ $`",
	"100%",
	"@alice",
	"no",
	"null",
	"~",
	"1e3",
	"0x10",
	"2026-11-30",
	"2026-11-30T12:00:00.000Z",
	"2026-11-30T12:00:00Z",
	"a: b",
	"a:",
	"a #b",
	"a#b",
	"#",
	"'a'",
	'"a"',
	'""',
	'"a: b # c"',
	'"a\\nb"',
	'"a"b"',
	'"',
	"[a, b]",
	"[",
	"{a: b}",
	"{}",
	"|",
	">-",
	"- a",
	"-",
	"? a",
	"&a b",
	"*a",
	"!!str a",
	"!js x",
	"%a",
	"`a`",
	"---",
	"...",
	"a ---",
	"Jörg",
	"\u00a0",
	"a\u00a0",
	"\u0085",
	"a\u0085b",
	"\u2028",
	"a\ufeffb",
	"日本",
	"a\tb",
	"a\t",
	" a",
	"a ",
	"",
	"a\rb",
	"a\u0007",
	"a | b > c & d * e ! f",
	"\u1680",
];
const key = fc.oneof(fc.constantFrom(...keys), fc.string({ maxLength: 4 }));
const value = fc.oneof(
	fc.constantFrom(...values),
	fc.string({ unit: "binary", maxLength: 6 }),
	fc.string({ maxLength: 8 }).map((text) => `x${text}`),
);
const sourceLine = fc.oneof(
	{ weight: 8, arbitrary: fc.tuple(key, fc.constantFrom(": ", ": ", ": ", ":", ":  ", " : "), value).map((parts) => parts.join("")) },
	{ weight: 1, arbitrary: fc.constantFrom("", "# comment", "  continued", "- a", "---", "...", " ", "\t", "%YAML 1.1") },
);
const source = fc
	.tuple(fc.array(sourceLine, { maxLength: 5 }), fc.constantFrom("\n", "\n", "\r\n"), fc.boolean())
	.map(([lines, end, last]) => lines.join(end) + (last && lines.length > 0 ? end : ""));

describe("Reading a front matter", () => {
	test("without a parser agrees with the YAML parser on all that it accepts", () => {
		let accepted = 0;
		fc.assert(
			fc.property(source, (text) => {
				const plain = readPlainFront(text);
				if (!plain) return;
				accepted++;
				// A mapping of JavaScript can't say which order it has, so the parser's is sorted like the other one.
				expect([...plain].sort()).toEqual(yaml(text).sort());
			}),
			{ numRuns: 20_000 },
		);
		expect(accepted).toBeGreaterThan(1000);
	});

	test("without a parser agrees with the YAML parser on each value, alone and quoted", () => {
		for (let char = 0; char < 0x3000; char++) {
			for (const text of [
				`a: x${String.fromCharCode(char)}y\n`,
				`a: ${String.fromCharCode(char)}\n`,
				`a: x${String.fromCharCode(char)}\n`,
				`a: "${String.fromCharCode(char)}"\n`,
			]) {
				const plain = readPlainFront(text);
				if (plain) expect([text, ...plain]).toEqual([text, ...yaml(text)]);
			}
		}
	});

	test("without a parser leaves keys that are too long for YAML to the parser", async () => {
		expect(await code(readFront(`a: [b]\n${"k".repeat(1100)}: v\n`))).toBe("EUNREADABLE");
		expect(readPlainFront(`${"k".repeat(1100)}: v\n`)).toBeUndefined();
	});

	test("without a parser is what a Card costs that we wrote", () => {
		for (const end of ["\n", "\r\n"]) {
			const text = ["id: k3f9q2", 'title: "No: 1"', "created_by: alice", "created_at: 2026-11-30T12:00:00.000Z", "owner: Jörg", ""].join(
				end,
			);
			expect(entriesOf(readPlainFront(text))).toEqual([
				["id", "k3f9q2"],
				["title", "No: 1"],
				["created_by", "alice"],
				["created_at", "2026-11-30T12:00:00.000Z"],
				["owner", "Jörg"],
			]);
		}
	});

	test("is the same with and without a parser, and as the parser says", async () => {
		await fc.assert(
			fc.asyncProperty(source, async (text) => {
				fc.pre(!/^\.\.\./m.test(text)); // has a test of its own
				const read = await readFront(text).catch(() => undefined);
				if (!read) return;
				expect([...read].sort()).toEqual(yaml(text).sort());
				const forced = await readFront(`${text}${text === "" || text.endsWith("\n") ? "" : "\n"}zz: [z]\n`).catch(() => undefined);
				if (forced && !text.includes("zz")) expect([...forced].filter(([key]) => key !== "zz").sort()).toEqual([...read].sort());
			}),
			{ numRuns: 1000 },
		);
	});

	test.each([
		[
			"a scalar is the string that it is written as",
			"a: no\nb: 0x10\nc: ~\nd: 2026-11-30\ne: 1e3\nf: true\ng: [x]\n",
			["no", "0x10", "~", "2026-11-30", "1e3", "true", '["x"]'],
		],
		["quoted strings lose their quotes", "a: 'it''s'\nb: \"x\\ty\"\n", ["it's", "x\ty"]],
		["block scalars", "a: |\n  one\n  two\nb: >-\n  one\n  two\n", ["one\ntwo\n", "one two"]],
		["lists and mappings are JSON", "a:\n  - x\n  - y: z\nb: {c: d}\n", ['["x",{"y":"z"}]', '{"c":"d"}']],
		["comments are none", "# c\na: x # d\nb: y#z\n", ["x", "y#z"]],
		["an empty value", 'a:\nb: ""\n', ["", ""]],
		["flow style", "{a: x, 'b': y}\n", ["x", "y"]],
		["a line that continues", "a: x\n  y\n", ["x y"]],
		["nothing", "", []],
		["a comment only", "# x\n", []],
		["an explicit key", "? a\n: b\n", ["b"]],
	])("%s", async (_, text, expected) => {
		expect([...(await readFront(text)).values()]).toEqual(expected);
	});

	test("takes names of JavaScript's own for keys like any other", async () => {
		for (const value of ["x", "[x]"]) {
			const read = await readFront(`__proto__: ${value}\nconstructor: y\ntoString: z\n`);
			expect([...read.keys()]).toEqual(["__proto__", "constructor", "toString"]);
			expect(({} as { x?: unknown }).x).toBeUndefined();
		}
	});

	test.each([
		["a tag", "a: !!str x\n"],
		["a tag of JavaScript", "a: !!js/function 'function () { globalThis.pwned = 1 }'\n"],
		["a tag of one's own", "a: !js x\n"],
		["a tag on a list", "a: !!set [x]\n"],
		["a tag on a key", "!!str a: x\n"],
		["a tag on all of it", "!!map\na: x\n"],
		["a directive", "%TAG ! tag:x,2000:\n---\na: x\n"],
		["an anchor", "a: &x y\n"],
		["an alias", "a: *x\n"],
		["an anchor and its alias", "a: &x [y]\nb: *x\n"],
		["a merge key", "a: &x {y: z}\nb:\n  <<: *x\n"],
		["the same key twice", "a: x\nb: [y]\na: z\n"],
		["broken quotes", 'a: "x\n'],
		["broken brackets", "a: [x\n"],
		["a tab before a key", "a:\n\tb: c\n"],
		["a list", "- a\n- b\n"],
		["a word", "hello\n"],
		["two documents", "a: [x]\n---\nb: y\n"],
		["a line that begins with ---", "a: [x]\n---js\nb: y\n"],
		["a language", "---js\n{ a: (globalThis.pwned = 1) }\n"],
		["a language after it", "js\n{ a: (globalThis.pwned = 1) }\n"],
		["code", "{ toString() { globalThis.pwned = 1 } }\n"],
		["an unknown escape", 'a: "\\q"\n'],
	])("refuses %s, every time that it is asked", async (_, text) => {
		for (let time = 0; time < 3; time++) {
			expect(await code(readFront(text))).toBe("EUNREADABLE");
			expect(readPlainFront(text)).toBeUndefined();
			expect(await code(editFront(text, "a", "x"))).toBe("EUNREADABLE");
		}
		expect("pwned" in globalThis).toBe(false);
	});

	// The parser says so only when it may speak.
	test("refuses a second document behind the end of the first", async () => {
		expect(await code(readFront("a: [x]\n...\nb: y\n"))).toBe("EUNREADABLE");
	});

	test("executes nothing, whatever language a Card asks for", async () => {
		for (const language of ["js", "javascript", "coffee", "json", "toml", "yaml", " js", "JS"]) {
			for (const end of ["\n", "\r\n"]) {
				const file = Buffer.from([`---${language}`, "{ a: (globalThis.pwned = 1) }", "---", "hello", ""].join(end));
				const card = parseCard(file);
				expect([language, card.front.end, card.warnings]).toEqual([language, 0, ["front-matter"]]);
				await readFront(file.toString()).catch(() => {});
				await readFront(file.toString().slice(3)).catch(() => {});
			}
		}
		expect("pwned" in globalThis).toBe(false);
	});

	test.each([
		[
			"aliases that grow a thousandfold at each level",
			`a: &a [x,x,x,x,x,x,x,x,x,x]\n${[..."bcdefghijklm"].map((name, index) => `${name}: &${name} [${Array(10).fill(`*${"abcdefghijklm"[index]}`).join()}]`).join("\n")}\n`,
		],
		["an alias of itself", "a: &a [*a]\n"],
		["30,000 open brackets", `a: ${"[".repeat(30_000)}\n`],
		["30,000 brackets", `a: ${"[".repeat(30_000)}${"]".repeat(30_000)}\n`],
		["20,000 mappings in each other", `a: ${"{a: ".repeat(15_000)}\n`],
		["30,000 dashes", `a:\n  ${"- ".repeat(30_000)}x\n`],
		["30,000 question marks", `${"? ".repeat(30_000)}x\n`],
		["60,000 quotes", `a: ${"'".repeat(60_001)}\n`],
		["60,000 anchors", `a: ${"&".repeat(60_000)}\n`],
		["60,000 exclamation marks", `a: ${"!".repeat(60_000)}\n`],
	])("refuses %s, without being long about it", async (_, text) => {
		expect(await code(readFront(text))).toBe("EUNREADABLE");
	});

	const isQuick = async (act: (size: number) => Promise<unknown>) => {
		const done = (size: number) => act(size).catch(() => {}); // or it is refused
		await done(10);
		expect((await cost(() => done(32_000))) / (await cost(() => done(2000)))).toBeLessThan(60); // about 16, or 256
	};

	test.each<[string, (size: number) => Promise<unknown>]>([
		["reading blank lines", (size) => readFront(`a: [b]\n${"\n".repeat(size)}c: d\n`)],
		["reading lines of blanks", (size) => readFront(`a: [b]\n${" \n".repeat(size / 2)}c: d\n`)],
		["reading a line of blanks", (size) => readFront(`a: [b]\n${" ".repeat(size)}#\nc: d\n`)],
		["changing a value behind blanks", (size) => editFront(`a: "${" ".repeat(size)}x"\nb: c\n`, "b", "d")],
	])("%s takes time in proportion to their number", async (_, act) => {
		await isQuick(act);
	});

	test.each(["\r", "\u2028"])("reading many %j takes time in proportion to their number", async (end) => {
		await isQuick((size) => readFront(`a: "${end.repeat(size)}"\nb: [c]\n`));
	});
});

describe("Changing a key", () => {
	/** Parts of a front matter: a key, how it is written, and how it is written with the value `New: $&`. */
	const parts: [name: string, key: string, before: string, after: string][] = [
		["a plain value", "k", "k: old words", 'k: "New: $&"'],
		["a value in quotes", "k", 'k: "old: \\" words"', 'k: "New: $&"'],
		["single quotes", "k", "k: 'it''s'", 'k: "New: $&"'],
		["blanks around it", "k", "k:   old   ", 'k:   "New: $&"   '],
		["a comment behind it", "k", "k: old # keep: this", 'k: "New: $&" # keep: this'],
		["nothing", "k", "k:", 'k: "New: $&"'],
		["nothing but a comment", "k", "k: # keep", 'k: "New: $&" # keep'],
		["an empty string", "k", 'k: ""', 'k: "New: $&"'],
		["a block scalar", "k", "k: |\n  one\n\n  two: three\n  # no comment", 'k: "New: $&"'],
		["a folded scalar", "k", "k: >-\n    one\n    two", 'k: "New: $&"'],
		["lines that continue", "k", "k: one\n  two\n  three", 'k: "New: $&"'],
		["a list", "k", "k:\n  - one\n  - two", 'k: "New: $&"'],
		["a list that is not indented", "k", "k:\n- one\n- two", 'k: "New: $&"'],
		["a mapping", "k", "k:\n  title: inner\n  k: inner", 'k: "New: $&"'],
		["a flow list", "k", "k: [one, two]", 'k: "New: $&"'],
		["a flow list on two lines", "k", "k: [one,\n  two] # keep", 'k: "New: $&" # keep'],
		["a flow mapping", "k", "k: {k: x}", 'k: "New: $&"'],
		["a quoted key", "k", '"k": old', '"k": "New: $&"'],
		["a key in single quotes", "k", "'k' : old", "'k' : \"New: $&\""],
		["an explicit key", "k", "? k\n: old", '? k\n: "New: $&"'],
	];
	const before = "# the Card\nid: k3f9q2 # never changes\nunknown_key: {k: 'x', title: \"y\"}\n\n";
	const after = "\n# about time\nmulti: |\n  k: not this one\n  title: nor this\n'created at': now\nlast: \"k: no\"   # end\n";

	test.each(parts)("of %s changes that and not a byte beside it", async (_, key, old, written) => {
		for (const end of ["\n", "\r\n"]) {
			const text = (middle: string) => `${before}${middle}\n${after}`.replaceAll("\n", end);
			for (const [first, last] of [
				[text(old), text(written)],
				[`${old}\n${after}`, `${written}\n${after}`],
				[`${before}${old}`, `${before}${written}`],
			] as const) {
				expect(await editFront(first, key, "New: $&")).toBe(last);
			}
		}
	});

	test("keeps every other line, order and comment, whatever the value", async () => {
		const item = fc.constantFrom(...parts.map(([, , source]) => source));
		await fc.assert(
			fc.asyncProperty(
				fc.array(item, { minLength: 1, maxLength: 5 }),
				fc.nat(4),
				fc.oneof(fc.constantFrom(...values), fc.string({ unit: "grapheme" })),
				fc.constantFrom("\n", "\r\n"),
				async (items, at, value, end) => {
					const own = items.map((source, index) => source.replace("k", `k${index}`).replaceAll("\n", end));
					const chosen = at % own.length;
					const text = own.map((source) => source + end).join("");
					const changed = await editFront(text, `k${chosen}`, value);
					const [lead, tail] = [own.slice(0, chosen), own.slice(chosen + 1)].map((some) => some.map((source) => source + end).join(""));
					expect(changed.startsWith(lead ?? "")).toBe(true);
					expect(changed.endsWith(end + (tail ?? ""))).toBe(true);
					const [was, is] = [await readFront(text), await readFront(changed)];
					expect([...is.keys()]).toEqual([...was.keys()]);
					for (const [key, value] of is) if (key !== `k${chosen}`) expect([key, value]).toEqual([key, was.get(key)]);
					expect(is.get(`k${chosen}`)).toBe(value);
					expect(yaml(changed).find(([key]) => key === `k${chosen}`)?.[1]).toBe(value);
					// The new value is on one line.
					expect(changed.slice((lead ?? "").length, changed.length - (tail ?? "").length).split("\n").length).toBe(
						own[chosen]?.startsWith("?") ? 3 : 2,
					);
				},
			),
			{ numRuns: 500 },
		);
	});

	test("that is not there adds a line at the end, with the line end of the file", async () => {
		for (const [text, expected] of [
			["", "k: new\n"],
			["a: b\n", "a: b\nk: new\n"],
			["a: b\r\n", "a: b\r\nk: new\r\n"],
			["# only\n", "# only\nk: new\n"],
			["a:\n  - k: x\n", "a:\n  - k: x\nk: new\n"],
			["a: |\n  x\n\n", "a: |\n  x\n\nk: new\n"],
		] as const)
			expect(await editFront(text, "k", "new")).toBe(expected);
	});

	test("keeps a comment on a line of its own before the value", async () => {
		expect(await editFront("k:\n  # keep\n  old\na: b\n", "k", "new")).toContain("# keep");
	});

	test("takes a value with every character, in a string that YAML reads as it is", async () => {
		for (let from = 0; from < 0x3000; from += 64) {
			const value = Array.from({ length: 64 }, (_, at) => String.fromCharCode(from + at)).join("");
			const changed = await editFront("a: b\n", "k", value);
			expect([from, yaml(changed)[1]?.[1] === value, changed.split("\n").length]).toEqual([from, true, 3]);
		}
	});

	test.each([
		["a key that is none", "a: b\n", "a b", "x"],
		["a key with a colon", "a: b\n", "a:", "x"],
		["an empty key", "a: b\n", "", "x"],
		["a key that would begin a line of its own", "a: b\n", "a\nb", "x"],
		["half a character", "a: b\n", "a", "\ud800"],
		["a new key in flow style", "{a: b}\n", "k", "x"],
	])("refuses %s", async (_, text, key, value) => {
		expect(await code(editFront(text, key, value))).toBe("EINPUT");
	});
});

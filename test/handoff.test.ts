import fs from "node:fs";
import path from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parse as parseYaml } from "yaml";
import { formatHeader, formatValue, headerLimit, parseHeader, readHandoff, type Value } from "../lib/handoff.ts";
import { project } from "./helpers.ts";

type Repeated = { repeat: string; times: number };
interface Vector {
	name: string;
	about: string;
	/** base64, with what is repeated written once */
	bytes: string | (string | Repeated)[];
	header: boolean;
	fields: Record<string, Value | Repeated>;
	ignored?: Record<string, string>;
	body: { offset: number; bytes: number };
	warnings: string[];
}

const vectors: Vector[] = JSON.parse(fs.readFileSync(path.join(project, "spec/vectors/parse.json"), "utf8"));

function bytesOf(bytes: Vector["bytes"]): Buffer {
	const parts = typeof bytes === "string" ? [bytes] : bytes;
	return Buffer.concat(
		parts.map((part) =>
			typeof part === "string"
				? Buffer.from(part, "base64")
				: Buffer.concat(Array.from({ length: part.times }, () => Buffer.from(part.repeat, "base64"))),
		),
	);
}

const file = (...lines: string[]) => Buffer.from(["---", ...lines, "---", "body\n"].join("\n"));
const fieldsOf = (bytes: Buffer) => Object.fromEntries(parseHeader(bytes).fields);
/** Surrogates that stand alone are no text: UTF-8 can't say them, and they are written as U+FFFD. */
const wellFormed = (value: Value): Value => (typeof value === "string" ? value.toWellFormed() : value.map((item) => item.toWellFormed()));

/** Text that some reader takes for something else. */
const nasty = [
	..."- ? : , [ ] { } # & * ! | > ' \" % @ ` = ~ \\ / .".split(" "),
	...["no", "No", "NO", "yes", "on", "off", "y", "N", "true", "False", "null", "Null", "~", "nan", ".nan", ".inf", "-.INF"],
	...[
		"1e3",
		"1E+3",
		"1.5",
		"1.",
		".5",
		"-1",
		"+1",
		"0",
		"007",
		"0o17",
		"017",
		"0x10",
		"0XFF",
		"0b11",
		"1_000",
		"1_000.5",
		"12:30",
		"190:20:30",
	],
	...["2026-11-30", "2026-1-1", "2026-11-30 12:00:00", "2026-11-30T12:00:00Z", "12e", "1e", "0x", "1.2.3", "1-2"],
	...[
		"Re: x",
		"Re: hello #12 @alice [urgent]",
		"@a",
		"[b] c",
		"[a, b]",
		"*d*",
		"'tis",
		"a #b",
		"\\$&",
		"$1",
		"$$",
		"a: b",
		"a:",
		": a",
		"- a",
		"? a",
	],
	...[
		"!!js/function x",
		"!!binary aGk=",
		"&a b",
		"*a",
		"<<",
		"<<: *a",
		"{a: b}",
		"| x",
		"> x",
		"%YAML 1.1",
		"---",
		"--- x",
		"...",
		"---js",
		"`x`",
	],
	...['"', '"a', 'a"', '"a" b', '"a"', "'a'", '"\\u0041"', '"\\x41"', '""', "\\", "\\n", "\\u0041", "a\\"],
	...["__proto__", "constructor", "toString", "hasOwnProperty"],
	...[" a", "a ", "\ta", "a\t", " ", "\t", "a  b", "a\tb", "a\nb", "a\r\nb", "\n", "\r", "a\rb", "---\nfrom: evil\n---\n", "a\n---\nb"],
	...[
		"\0",
		"a\0b",
		"\x07",
		"\x1b[2J",
		"\x7f",
		"\x80",
		"\x85",
		"\x9b",
		"\xa0",
		"\u2028",
		"\u2029",
		"\u200b",
		"\u202e",
		"\u2066",
		"\ufeff",
		"\ufeffa",
		"\ufffe",
		"\uffff",
	],
	...["é", "e\u0301", "日本", "😀", "👩‍👩‍👧", "\ud83d", "\ude00", "a\ud800b", "ﷺ".repeat(20), "x".repeat(30_000), `${" ".repeat(5000)}x`],
];

const text = fc.oneof(
	fc.string(),
	fc.string({ unit: "binary" }),
	fc.string({ unit: "grapheme" }),
	// every UTF-16 code unit, so also halves of surrogate pairs
	fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 12 }).map((units) => String.fromCharCode(...units)),
	fc.stringMatching(/^[0-9xobeE._+:-]{1,8}$/),
	fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9 ._/@+-]{0,20}$/),
	fc.constantFrom(...nasty.filter((value) => value.length < 1000)),
);
const keys = ["from", "kind", "subject", "re", "thread", "priority", "key", "hops", "instance", "cwd", "repo", "branch", "commit"];
const instant = fc.date({ min: new Date(0), max: new Date("9999-12-31T23:59:59Z"), noInvalidDate: true }).map((date) => date.toISOString());
const header = fc.record(
	{
		...Object.fromEntries(keys.map((key) => [key, text])),
		to: fc.oneof(text, fc.array(text.filter(Boolean), { minLength: 1, maxLength: 4 })),
		date: instant,
		expires: instant,
	},
	{ requiredKeys: [] },
);

describe("a header", () => {
	test.each(vectors)("$name: $about", (vector) => {
		const bytes = bytesOf(vector.bytes);
		const { header, warnings } = readHandoff("1.a", bytes, 0);
		const { present, fields, body } = header;
		const expected = Object.fromEntries(
			Object.entries(vector.fields).map(([key, value]) => [
				key,
				typeof value === "object" && "repeat" in value ? value.repeat.repeat(value.times) : value,
			]),
		);
		expect(present).toBe(vector.header);
		expect(Object.fromEntries(fields)).toEqual({ ...expected, ...vector.ignored });
		expect({ offset: body, bytes: bytes.length - body }).toEqual(vector.body);
		expect([...warnings].sort()).toEqual(vector.warnings);
	});

	test("reads the same the second time", () => {
		for (const { bytes } of vectors) {
			const same = bytesOf(bytes).subarray(0, 70_000);
			expect(parseHeader(same)).toEqual(parseHeader(same));
		}
	});

	test("has a value verbatim, whatever a YAML reader would make of it", () => {
		for (const value of nasty) {
			if (/[\n\r]|^[ \t]|[ \t]$|^"/.test(value) || value !== value.toWellFormed()) continue; // no line can say these verbatim
			expect(fieldsOf(file(`subject: ${value}`))).toEqual({ subject: value });
		}
	});

	test("is data: an engine, a tag, an anchor, an alias or a bomb does nothing", () => {
		const global = globalThis as { evil?: boolean };
		for (const bytes of [
			Buffer.from("---js\nmodule.exports = (globalThis.evil = true)\n---\nbody\n"),
			file("subject: !!js/function 'globalThis.evil = true'", "from: !!python/object/apply:os.system [true]"),
			file("a: &a [x,x,x,x,x,x,x,x,x]", "b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]", "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]"),
			file("__proto__: x", "constructor: y", "<<: *a"),
		]) {
			parseHeader(bytes);
			readHandoff("1.a", bytes, 0);
		}
		expect(global.evil).toBeUndefined();
		expect({}).not.toHaveProperty("x");
		expect(parseHeader(file("__proto__: x", "constructor: y")).fields).toEqual(
			new Map([
				["__proto__", "x"],
				["constructor", "y"],
			]),
		);
		expect(readHandoff("1.a", file("__proto__: x"), 0)).toMatchObject({ from: "unknown", kind: "task" });
		expect(parseHeader(Buffer.from("---js\nx\n---\n"))).toMatchObject({ present: false, body: 0 });
	});

	test("folds ASCII letters in a key, and takes no other letter for one", () => {
		expect(fieldsOf(file("SUBJECT: x", "Kind: note"))).toEqual({ subject: "x", kind: "note" });
		for (const key of ["\u212aind", "ſubject", "ﬁ", "кind", "kınd"]) {
			expect(parseHeader(file(`${key}: note`))).toMatchObject({ fields: new Map(), warnings: ["line"] });
		}
	});

	test("closes within 65,536 bytes of the file, or the file is all body", () => {
		for (const over of [0, 1]) {
			const bytes = Buffer.from(`---\nsubject: ${"x".repeat(headerLimit - 18 + over)}\n---\nbody`);
			expect(bytes.indexOf("body")).toBe(headerLimit + over);
			expect(parseHeader(bytes)).toMatchObject(
				over ? { present: false, body: 0, warnings: ["unclosed"] } : { present: true, body: headerLimit, warnings: [] },
			);
		}
	});

	test("reads the same from more than 65,536 bytes of a file as from all of it", () => {
		for (const end of ["\n---", "\n---\n", "\n---x", "\n---\r\n", "\n--"]) {
			for (let size = headerLimit - 12; size < headerLimit + 3; size++) {
				const all = Buffer.from(`---\na: ${"x".repeat(size - 7 - end.length)}${end}${end.endsWith("\n") ? "" : "\n"}rest\n---\n`);
				expect(parseHeader(all.subarray(0, headerLimit + 1))).toEqual(parseHeader(all));
			}
		}
	});

	test("is read from any bytes, without a throw", () => {
		const piece = fc.oneof(
			fc.constantFrom(
				"---",
				"\n",
				"\r\n",
				"\r",
				": ",
				":",
				"to: [",
				"[",
				"]",
				",",
				'"',
				"\\",
				'\\"',
				"\\u00",
				"\0",
				" ",
				"\t",
				"from: a",
				"date: ",
				"hops: ",
			),
			fc.constantFrom("\ufeff", "---\n", "\n---\n", "2026-11-30T12:00:00Z", "a"),
			fc.string({ unit: "binary", maxLength: 6 }),
		);
		const shaped = fc.tuple(fc.boolean(), fc.array(piece, { maxLength: 40 }), fc.boolean()).map(([open, parts, close]) => {
			return Buffer.from((open ? "---\n" : "") + parts.join("") + (close ? "\n---\nbody" : ""));
		});
		const bytes = fc.oneof(
			fc.uint8Array({ maxLength: 300 }).map((array) => Buffer.from(array)),
			shaped,
			fc.tuple(shaped, fc.uint8Array({ maxLength: 8 }), fc.nat()).map(([buffer, some, at]) => {
				const cut = at % (buffer.length + 1);
				return Buffer.concat([buffer.subarray(0, cut), some, buffer.subarray(cut)]);
			}),
		);
		fc.assert(
			fc.property(bytes, fc.constantFrom("1.a", "hello", "1700000000.M000001Rk3f9q2ab.box", "99999999999.x"), (buffer, id) => {
				const read = parseHeader(buffer);
				expect(read.body).toBeLessThanOrEqual(buffer.length);
				if (!read.present) expect([read.body, read.fields.size]).toEqual([0, 0]);
				else expect(buffer.subarray(0, read.body).toString("latin1")).toMatch(/^---\r?\n(.*\n)?---(\r?\n)?$/s);
				for (const [key, value] of read.fields) {
					expect(key).toMatch(/^[a-z_][a-z0-9_-]*$/);
					expect(value.length).toBeGreaterThan(0);
					expect(wellFormed(value)).toEqual(value);
					if (key !== "to") expect(value).toBeTypeOf("string");
				}
				expect(new Set(read.warnings).size).toBe(read.warnings.length);
				const handoff = readHandoff(id, buffer, 0);
				expect(Number.isInteger(handoff.hops)).toBe(true);
				expect(new Date(handoff.date).toISOString()).toBeTruthy();
				expect(handoff.subject.length + handoff.from.length + handoff.kind.length).toBeGreaterThan(0);
				expect(parseHeader(buffer)).toEqual(read);
			}),
			{ numRuns: 3000 },
		);
	});
});

describe("parsing takes linear time", () => {
	const repeated = (piece: string) => (size: number) => piece.repeat(Math.floor(size / Buffer.byteLength(piece)));
	/** What fills the header, `size` bytes of it. */
	const shapes: [string, (size: number) => string][] = [
		["blanks in a value", (size) => `a: x${" ".repeat(size)}x`],
		["blanks and tabs in a value", (size) => `a: x${repeated(" \t")(size)}x`],
		["blanks at the end of a value", (size) => `a: x${" ".repeat(size)}`],
		["blanks before a value", (size) => `a: ${" ".repeat(size)}x`],
		["carriage returns", (size) => `a: x${"\r".repeat(size)}x`],
		["opening brackets", (size) => `to: ${"[".repeat(size)}`],
		["closing brackets", (size) => `to: [${"]".repeat(size)}`],
		["quotes in a list", (size) => `to: [${'"'.repeat(size)}]`],
		["quoted strings without commas", (size) => `to: [${repeated('"a"')(size)}x]`],
		["a quote that does not close in a list", (size) => `to: [${'a,"'}${"a".repeat(size)}]`],
		["escaped quotes in a list", (size) => `to: ["${repeated('\\"')(size)}]`],
		["backslashes in a list", (size) => `to: ["${"\\".repeat(size)}]`],
		["backslashes and quotes in a list", (size) => `to: [${repeated('"\\\\"')(size)}]`],
		["commas in a list", (size) => `to: [${",".repeat(size)}]`],
		["items in a list", (size) => `to: [${repeated("a, ")(size)}a]`],
		["quoted items in a list", (size) => `to: [${repeated('"a",')(size)}"a"]`],
		["blanks in a list", (size) => `to: [a${" ".repeat(size)}"]`],
		["blanks around items", (size) => `to: [${repeated(`${" ".repeat(300)}a,`)(size)}a]`],
		["backslashes in a string", (size) => `a: "${"\\".repeat(size)}`],
		["escapes in a string", (size) => `a: "${repeated("\\u0041")(size)}"`],
		["quotes in a value", (size) => `a: ${'"'.repeat(size)}`],
		["colons", (size) => ":".repeat(size)],
		["letters of a key", (size) => "a".repeat(size)],
		["letters of a key with a colon", (size) => `${"a".repeat(size)}: x`],
		["digits of a date", (size) => `date: ${"1".repeat(size)}`],
		["digits of hops", (size) => `hops: ${"1".repeat(size)}`],
		["empty lines", (size) => "\n".repeat(size)],
		["lines of one key", (size) => repeated("a: b\n")(size)],
		["lines that are nearly a fence", (size) => repeated("--\n---x\n")(size)],
		["lines that are no header lines", (size) => repeated("x\n")(size)],
		["bytes of 4-byte characters", (size) => `a: ${repeated("😀")(size)}`],
	];

	/** The best of three, in ms. */
	function time(act: () => void): number {
		const times = Array.from({ length: 3 }, () => {
			const start = performance.now();
			act();
			return performance.now() - start;
		});
		return Math.min(...times);
	}

	// Quadratic time makes seconds of 64 KiB, and four times those of 32 KiB. Linear time makes a few ms.
	test.each(shapes)("in %s", (_name, fill) => {
		for (const closing of ["\n---\n", ""]) {
			const [half, whole] = [32_000, 65_000].map((size) => {
				const bytes = Buffer.from(`---\n${fill(size)}${closing}`);
				return time(() => readHandoff("1.a", bytes, 0));
			}) as [number, number];
			expect(whole < 150 || whole < 3 * half, `${half} ms for 32 KiB, ${whole} ms for 64 KiB`).toBe(true);
		}
	});

	test("in a body of blanks whose first line is looked for", () => {
		for (const piece of [" ", "\n", " \n", "\t", "\r", "\u2003"]) {
			const bytes = Buffer.from(piece.repeat(1_000_000));
			expect(time(() => readHandoff("1.a", bytes, 0))).toBeLessThan(1000);
		}
	});
});

describe("what a Handoff says", () => {
	const at = Date.parse("2026-11-30T12:00:00Z");

	test("has the protocol's standard values for all that is missing", () => {
		expect(readHandoff("hello", Buffer.from("\n \t\nfirst line\nsecond\n"), at)).toMatchObject({
			id: "hello",
			from: "unknown",
			to: [],
			kind: "task",
			subject: "first line",
			date: at,
			re: undefined,
			thread: undefined,
			priority: undefined,
			expires: undefined,
			key: undefined,
			hops: 0,
		});
		expect(readHandoff("1.a", Buffer.alloc(0), at)).toMatchObject({ from: "unknown", subject: "", kind: "task" });
	});

	test("has the date of the header, else the time in the id, else the file's", () => {
		expect(readHandoff("1700000000.x", file("date: 2026-11-30T12:00:00.5Z"), 5).date).toBe(at + 500);
		expect(readHandoff("1700000000.x", file("date: yesterday"), 5).date).toBe(1_700_000_000_000);
		expect(readHandoff("hello", file("date: 2026-02-30T12:00:00Z"), 5).date).toBe(5);
	});

	test("has an expiry only when it is a UTC time", () => {
		expect(readHandoff("1.a", file("expires: 2026-11-30T12:00:00Z"), 0).expires).toBe(at);
		expect(readHandoff("1.a", file('expires: "2026-11-30T12:00:00Z"'), 0).expires).toBe(at);
		for (const bad of ["2026-11-30", "2026-11-30T12:00:00", "2026-11-30T12:00:00+01:00", "soon", "0"]) {
			const read = readHandoff("1.a", file(`expires: ${bad}`), 0);
			expect(read.expires).toBeUndefined();
			expect(read.warnings).toEqual(["date"]);
		}
	});

	test("has one recipient or a list of them", () => {
		const to = (value: string) => readHandoff("1.a", file(`to: ${value}`), 0).to;
		expect(to("alice")).toEqual(["alice"]);
		expect(to('[alice, "bob" , codex]')).toEqual(["alice", "bob", "codex"]);
		expect(to('["a,b", c]')).toEqual(["a,b", "c"]);
		for (const verbatim of ["[a", "[a]x", "[a,]", "[,a]", "[]", '["a]', "[[a]]", '[a"b"]']) expect(to(verbatim)).toEqual([verbatim]);
	});

	test("keeps a Kind that nobody knows, and no priority that nobody knows", () => {
		expect(readHandoff("1.a", file("kind: riddle", "priority: whenever"), 0)).toMatchObject({ kind: "riddle", priority: undefined });
		for (const priority of ["urgent", "normal", "low"])
			expect(readHandoff("1.a", file(`priority: ${priority}`), 0).priority).toBe(priority);
	});

	test("counts hops as a decimal number, else 0 with a warning", () => {
		expect(readHandoff("1.a", file("hops: 3"), 0).hops).toBe(3);
		expect(readHandoff("1.a", file("hops: three"), 0)).toMatchObject({ hops: 0, warnings: ["number"] });
	});

	test("has a subject of one line, cut to a length that fits a list", () => {
		expect(readHandoff("1.a", Buffer.from(`${"x".repeat(3000)}\ny`), 0).subject.length).toBeLessThanOrEqual(200);
		expect(readHandoff("1.a", file("from: bob"), 0).subject).toBe("body");
		expect(readHandoff("1.a", file("subject: given"), 0).subject).toBe("given");
	});
});

describe("what we write", () => {
	const write = (fields: Record<string, Value | undefined>) => Buffer.from(formatHeader(Object.entries(fields)));
	const between = (bytes: Buffer) => bytes.subarray(4, -4).toString();
	const expected = (fields: Record<string, Value | undefined>) =>
		Object.fromEntries(Object.entries(fields).flatMap(([key, value]) => (value?.length ? [[key, wellFormed(value)]] : [])));

	function check(fields: Record<string, Value | undefined>): void {
		const bytes = write(fields);
		const same = expected(fields);
		// our reader, with a body that tries to be taken for header
		const read = parseHeader(Buffer.concat([bytes, Buffer.from("---\nfrom: evil\n---\n")]));
		expect(read.warnings).toEqual([]);
		expect(read.present).toBe(true);
		expect(read.body).toBe(bytes.length);
		expect(Object.fromEntries(read.fields)).toEqual(same);
		expect(formatHeader(read.fields)).toBe(bytes.toString());
		// everybody else's
		const lines = between(bytes);
		expect(lines).toMatch(/^([a-z]+: .+\n)*$/);
		expect(lines).not.toMatch(/[^\P{Cc}\n]|[\u2028\u2029\ufeff\u202a-\u202e\u2066-\u2069]/u);
		for (const schema of ["core", "yaml-1.1"] as const) {
			const yaml = parseYaml(lines, { version: schema === "core" ? "1.2" : "1.1", schema, logLevel: "error" }) ?? {};
			// YAML 1.1 has a type for dates, and reads the same instant
			for (const key of ["date", "expires"]) if (yaml[key] instanceof Date) yaml[key] = yaml[key].toISOString();
			expect(yaml).toEqual(same);
		}
	}

	test("reads back identically, with our reader and as YAML 1.1 and 1.2: all nasty values", () => {
		for (const value of nasty) {
			for (const key of ["subject", "key", "from", "to"]) check({ [key]: value });
			check({ to: ["a", value || "b", value] });
		}
	});

	test("reads back identically, with our reader and as YAML 1.1 and 1.2: any text", () => {
		fc.assert(fc.property(header, check), { numRuns: 1000 });
	});

	test("has no value that is missing or empty", () => {
		expect(
			formatHeader([
				["subject", ""],
				["key", undefined],
				["to", []],
				["from", "bob"],
			]),
		).toBe("---\nfrom: bob\n---\n");
	});

	test("has plain words, numbers of issues and dates bare, as a person would write them", () => {
		for (const plain of ["alice", "Fix the flaky widget test", "a.b/c@d+e-f", "1700000000.M000001Rk3f9q2ab.box"]) {
			expect(formatValue("subject", plain)).toBe(plain);
		}
		expect(formatValue("date", "2026-11-30T12:00:00.000Z")).toBe("2026-11-30T12:00:00.000Z");
		expect(formatValue("subject", "2026-11-30T12:00:00.000Z")).toBe('"2026-11-30T12:00:00.000Z"');
		expect(formatValue("to", ["alice", "no"])).toBe('[alice, "no"]');
	});

	test("has every text quoted that some YAML reads as another type, and nothing bare that the protocol wants quoted", () => {
		const bare = /^[A-Za-z0-9][A-Za-z0-9 ._/@+-]*(?<! )$/;
		fc.assert(
			fc.property(text, (value) => {
				const written = formatValue("subject", value);
				if (written.startsWith('"')) expect(JSON.parse(written)).toBe(value.toWellFormed());
				else expect(written).toMatch(bare);
			}),
			{ numRuns: 2000 },
		);
		for (const typed of ["no", "Y", "null", "true", "on", "1e3", "1", "0x10", "0b1", "0o7", "1_0", "1.5", "2026-11-30"]) {
			expect(formatValue("subject", typed)).toBe(`"${typed}"`);
		}
	});
});

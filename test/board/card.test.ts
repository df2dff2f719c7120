import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
	type Card,
	type Entry,
	entryType,
	escapeText,
	formatCard,
	formatEntry,
	hashId,
	parseCard,
	sidesOf,
	unescapeText,
} from "../../lib/board/card.ts";
import { claimHost, stateOfCard, usualClaim } from "../../lib/board/claims.ts";

const noon = Date.parse("2026-11-30T12:00:00.000Z");
const minute = 60_000;
const at = (minutes: number) => new Date(noon + minutes * minute).toISOString();
const head = `---\nid: k3f9q2\ntitle: Cache layer\ncreated_by: alice\ncreated_at: ${at(-60)}\n---\n`;

/** A whole Entry, as a writer leaves it. */
function entry(id: string, text = id, { type = "note", author = "alice", date = 0 } = {}): string {
	return formatEntry({ id, type, author, date: noon + date * minute, text: Buffer.from(text) }).toString("latin1");
}

/** Parses parts that are Latin-1 or UTF-8 text. */
const read = (...parts: string[]): Card => parseCard(Buffer.from(parts.join(""), "latin1"));
const utf8 = (text: string) => Buffer.from(text).toString("latin1");
const texts = (card: Card) => card.entries.map(({ text }) => text.toString());
const seen = (card: Card) => card.entries.map((entry) => [entry.id, entry.text.toString(), ...entry.flaws]);
const introductionOf = ({ bytes, introduction }: Card) => bytes.toString("utf8", introduction.begin, introduction.end);

/** What looks like structure, or breaks readers that are careless with bytes. */
const nasty = [
	"### k3f9q2ab · note · alice · 2026-11-30T12:00:00.000Z",
	"### note · bob",
	"### Heading",
	"### ",
	"###",
	"<!-- k3f9q2ab -->",
	"<!-- aaaaaaaa -->",
	"<!-- x -->",
	"<!-- ",
	"---",
	"---js",
	"<<<<<<< ours",
	"<<<<<<<",
	"||||||| base",
	"=======",
	">>>>>>> theirs",
	"\\### ",
	"\\\\\\<!-- x -->",
	"\\",
	"\\=======",
	"title: x",
	"@alice",
	"\u001b[31m",
	"\0",
	" · ",
	"",
	" ",
	"\u00a0",
	"\ufeff",
	"\ud83d\ude00",
].map((text) => Buffer.from(text));
const line = fc.oneof(fc.constantFrom(...nasty), fc.uint8Array({ maxLength: 6 }).map(Buffer.from));
const lineEnd = fc.constantFrom("\n", "\n", "\r\n", "\r", "").map(Buffer.from);
const bytes = fc.array(fc.tuple(line, lineEnd), { maxLength: 12 }).map((lines) => Buffer.concat(lines.flat()));
const card = fc.tuple(fc.constantFrom("", head, head.replaceAll("\n", "\r\n"), `\xef\xbb\xbf${head}`), bytes).map(([front, rest]) => {
	return Buffer.concat([Buffer.from(front, "latin1"), rest]);
});

describe("What is written", () => {
	test("is an empty line, the header, the text and the closing line", () => {
		const date = noon;
		const bytes = formatEntry({ id: "k3f9q2ab", type: "finding", author: "alice", date, text: Buffer.from("They are read twice.") });
		expect(bytes.toString()).toBe(
			"\n### k3f9q2ab · finding · alice · 2026-11-30T12:00:00.000Z\n\nThey are read twice.\n<!-- k3f9q2ab -->\n",
		);
	});

	test("is read back as given, whatever bytes it is and whatever else is in the Card", () => {
		const file = fc.oneof(
			card,
			bytes.map((rest) => Buffer.concat([Buffer.from(head), rest])),
		);
		fc.assert(
			fc.property(file, bytes, bytes, (before, text, after) => {
				const made = formatEntry({ id: "q7w8e9rt", type: "finding", author: "bob", date: noon, text });
				const found = parseCard(Buffer.concat([before, made, after])).entries.filter(({ id }) => id === "q7w8e9rt");
				expect(found.map((entry) => [entry.type, entry.author, entry.dated, entry.flaws])).toEqual([["finding", "bob", at(0), []]]);
				expect(found[0]?.text.toString("latin1")).toBe(text.toString("latin1"));
				expect(found[0]?.raw.equals(made.subarray(1, -1))).toBe(true);
			}),
			{ numRuns: 2000 },
		);
	});

	test.each(["---\nid: x\n", "---", "---\n\nA rule above\n"])(
		"is read back as given, also a line --- in a Card whose front matter is never closed (%j)",
		(front) => {
			const card = read(front, entry("aaaaaaaa"), entry("bbbbbbbb", "a\n---\nb"));
			expect(seen(card)).toEqual([
				["aaaaaaaa", "aaaaaaaa"],
				["bbbbbbbb", "a\n---\nb"],
			]);
		},
	);

	test("may be 1 MiB of any bytes, or nothing", () => {
		const all = Buffer.alloc(1024 * 1024, Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)));
		for (const text of [all, Buffer.alloc(0), Buffer.from("\n"), Buffer.from("\r\n"), Buffer.from("\n\n\n"), Buffer.from("\r")]) {
			const made = formatEntry({ id: "k3f9q2ab", type: "note", author: "bob", date: noon, text });
			const [found, ...others] = parseCard(Buffer.concat([Buffer.from(head), made])).entries;
			expect(found?.text.equals(text)).toBe(true);
			expect(others).toEqual([]);
		}
	});

	test("as a Card has the introduction as given, and no Entry of it", () => {
		const introduction = "Where?\n\n### Heading · of · four · parts\n<!-- k3f9q2ab -->\n=======\nno last newline";
		const made = formatCard({ id: "k3f9q2", title: "A", author: "alice", date: noon, introduction: Buffer.from(introduction) });
		const card = parseCard(made);
		expect(card.entries).toEqual([]);
		expect(card.warnings).toEqual([]);
		expect(unescapeText(Buffer.from(introductionOf(card))).toString()).toBe(introduction);
		expect(made.at(-1)).toBe(10);
	});

	test("as a Card without an introduction is the front matter alone", () => {
		const made = formatCard({ id: "k3f9q2", title: "No: 1", author: "alice", date: noon, introduction: Buffer.alloc(0) });
		expect(made.toString()).toBe(`---\nid: k3f9q2\ntitle: "No: 1"\ncreated_by: alice\ncreated_at: ${at(0)}\n---\n`);
	});
});

describe("Escaping", () => {
	test.each(
		["### ", "<!-- ", "<<<<<<<", "=======", ">>>>>>>", "|||||||"].flatMap((structure) => [
			structure,
			`${structure}x`,
			`\\${structure}`,
			`\\\\\\${structure}`,
		]),
	)("puts one backslash before %j, and takes one off", (text) => {
		expect(escapeText(Buffer.from(`${text}\n${text}`)).toString()).toBe(`\\${text}\n\\${text}`);
		expect(unescapeText(Buffer.from(`\\${text}\n\\${text}`)).toString()).toBe(`${text}\n${text}`);
	});

	test.each(["###", "####", " ### x", "<!--x", "<<<<<<", "a ### b", "\\", "\\x", "\r### x", "---", "- - -"])("leaves %j alone", (text) => {
		expect(escapeText(Buffer.from(text)).toString()).toBe(text);
		expect(unescapeText(Buffer.from(text)).toString()).toBe(text);
	});

	test("is undone byte for byte, whatever it was given", () => {
		fc.assert(
			fc.property(bytes, (given) => {
				const escaped = escapeText(given);
				expect(unescapeText(escaped).equals(given)).toBe(true);
				for (const line of escaped.toString("latin1").split("\n")) expect(line).not.toMatch(/^(### |<!-- |<{7}|={7}|>{7}|\|{7})/);
			}),
			{ numRuns: 1000 },
		);
	});
});

describe("Reading a Card", () => {
	/** The bytes that a reader is shown, each where it stands; what is left over is blank, a fence, a BOM, or stands in an Entry a second time. */
	function leftOver(bytes: Buffer): string[] {
		const { front, introduction, entries } = parseCard(bytes);
		const parts = [front, introduction, ...entries].filter(({ begin, end }) => end > begin).sort((a, b) => a.begin - b.begin);
		const gaps: string[] = [];
		let from = 0;
		for (const { begin, end } of parts) {
			expect(begin).toBeGreaterThanOrEqual(from);
			gaps.push(bytes.toString("latin1", from, begin));
			from = end;
		}
		gaps.push(bytes.toString("latin1", from));
		return gaps.filter((gap) => gap.replace(/[ \t\r\n\f\v]+/g, "") !== "");
	}

	/** Repeated Entries, or beginnings of them, stand in one that is shown. */
	function isShown(gap: string, bytes: Buffer): boolean {
		const fences = /^(?:\xef\xbb\xbf)?(?:---\r?(?:\n|$)){0,2}/;
		const rest = parseCard(Buffer.from(`\n${gap.replace(fences, "")}`, "latin1"));
		const whole = parseCard(bytes).entries.map(({ raw }) => raw.toString("latin1"));
		const between = rest.bytes.toString("latin1", rest.introduction.begin, rest.introduction.end);
		return (
			(/^[ \t\r\n\f\v]*$/.test(between) || whole.includes(between)) &&
			rest.entries.every(({ raw }) => whole.some((other) => other.startsWith(raw.toString("latin1"))))
		);
	}

	test("never throws, shows every byte in an Entry, the introduction or the front matter, and finds each Entry where it says", () => {
		const whole = fc
			.tuple(fc.constantFrom("aaaaaaaa", "bbbbbbbb"), fc.constantFrom("x", "x\ny", ""), fc.nat({ max: 120 }))
			.map(([id, text, cut]) => Buffer.from(entry(id, text), "latin1").subarray(0, cut));
		const file = fc
			.tuple(card, fc.array(fc.oneof(bytes, whole), { maxLength: 8 }))
			.map(([first, others]) => Buffer.concat([first, ...others.flatMap((part) => [Buffer.from("\n"), part])]));
		fc.assert(
			fc.property(file, (bytes) => {
				const card = parseCard(bytes);
				for (const gap of leftOver(bytes)) expect([gap, isShown(gap, bytes)]).toEqual([gap, true]);
				for (const { begin, end, raw } of card.entries) expect(bytes.subarray(begin, end).equals(raw)).toBe(true);
				for (const { id, type } of card.entries) expect(`${id} ${type}`).toMatch(/^[0-9a-hjkmnp-tv-z]{8} [a-z][a-z0-9_-]{0,31}$/);
				stateOfCard(card.entries, noon);
			}),
			{ numRuns: 3000 },
		);
	});

	test("takes time in proportion to its size, whatever it holds", () => {
		// Quadratic time is minutes here; the limit of the test catches it.
		const size = 4 * 1024 * 1024;
		for (const part of [
			"\n",
			"\r",
			" \n",
			"### \n",
			"<!-- \n",
			"### a · b\n",
			"\\",
			"\n\\",
			" · ",
			"<<<<<<<\n",
			"=======\n",
			"<!-- aaaaaaaa -->\n",
			"### ",
		])
			for (const front of ["", head]) {
				const bytes = Buffer.concat([Buffer.from(front), Buffer.alloc(size, part)]);
				const card = parseCard(bytes);
				if (part !== "### a · b\n") stateOfCard(card.entries, noon);
			}
	});

	test("finds front matter, introduction and Entries in the order of the file", () => {
		const card = read(
			head,
			"\nWhere do we keep them?\n\nHere?\n",
			entry("bbbbbbbb"),
			entry("aaaaaaaa", "x", { type: "finding", author: "bob" }),
		);
		expect(card.bytes.toString("utf8", card.front.begin, card.front.end)).toBe(head.slice(4, -4));
		expect(introductionOf(card)).toBe("Where do we keep them?\n\nHere?");
		expect(card.entries.map(({ id, type, author, date }) => [id, type, author, date])).toEqual([
			["bbbbbbbb", "note", "alice", noon],
			["aaaaaaaa", "finding", "bob", noon],
		]);
		expect(card.warnings).toEqual([]);
	});

	test("reads a Card whose line ends are CR LF as the same, and keeps those inside of a text", () => {
		const card = read(
			(head + entry("aaaaaaaa", "one\ntwo") + entry("bbbbbbbb", "") + entry("cccccccc", "\n\n### x\n")).replaceAll("\n", "\r\n"),
		);
		expect(seen(card)).toEqual([
			["aaaaaaaa", "one\r\ntwo"],
			["bbbbbbbb", ""],
			["cccccccc", "\r\n\r\n### x\r\n"],
		]);
		expect(card.warnings).toEqual([]);
	});

	test("needs no last newline", () => {
		expect(seen(read(head, entry("aaaaaaaa").trimEnd()))).toEqual([["aaaaaaaa", "aaaaaaaa"]]);
		expect(introductionOf(read(head, "hi"))).toBe("hi");
		expect(read(head.trimEnd()).front.end).toBeGreaterThan(0);
	});

	test.each([
		["no front matter", "hello\n", ["front-matter"], "hello"],
		["nothing", "", ["front-matter"], ""],
		["front matter that is never closed", "---\nid: x\nhello\n", ["unclosed"], "---\nid: x\nhello"],
		["---js", "---js\n{ a: process.exit(9) }\n---\nhello\n", ["front-matter"], "---js\n{ a: process.exit(9) }\n---\nhello"],
		["a rule above", "-----\nhello\n", ["front-matter"], "-----\nhello"],
		["a BOM", `\xef\xbb\xbf${head}\nhello\n`, ["bom"], "hello"],
		["a blank line first", `\n${head}`, ["front-matter"], head.trimEnd()],
		["an empty front matter", "---\n---\nhello\n", [], "hello"],
	])("shows a Card with %s, and says so", (_, text, warnings, introduction) => {
		const card = read(text, entry("aaaaaaaa"));
		expect(card.warnings).toEqual(warnings);
		expect(introductionOf(card)).toBe(introduction);
		expect(seen(card)).toEqual([["aaaaaaaa", "aaaaaaaa"]]);
	});

	test("looks for the end of the front matter in the first 64 KiB", () => {
		const pad = (bytes: number) => `---\nid: x\n#${"x".repeat(bytes)}\n---\nhello\n`;
		expect(read(pad(65_000)).warnings).toEqual([]);
		expect(read(pad(65_536)).warnings).toEqual(["unclosed"]);
	});

	test("marks an Entry without a closing line as torn, up to the next one", () => {
		const torn = entry("aaaaaaaa", "half of").split("\n<!--")[0] ?? "";
		expect(seen(read(head, torn, entry("bbbbbbbb")))).toEqual([
			["aaaaaaaa", "half of", "torn"],
			["bbbbbbbb", "bbbbbbbb"],
		]);
		expect(seen(read(head, entry("bbbbbbbb"), torn))).toEqual([
			["bbbbbbbb", "bbbbbbbb"],
			["aaaaaaaa", "half of", "torn"],
		]);
	});

	test("takes an Entry for torn wherever it was cut, and loses nothing that stood before or comes after", () => {
		const all = entry("aaaaaaaa", "one\n\ntwo");
		for (let cut = 0; cut < all.length - 1; cut++) {
			const card = read(head, entry("bbbbbbbb"), all.slice(0, cut), entry("cccccccc"));
			const [first, last] = [card.entries[0], card.entries.at(-1)];
			expect([first?.id, first?.flaws, last?.id, last?.flaws]).toEqual(["bbbbbbbb", [], "cccccccc", []]);
			for (const middle of card.entries.slice(1, -1)) expect([cut, middle.is("torn")]).toEqual([cut, true]);
			expect(card.entries.length).toBe(all.slice(0, cut).trim() === "" ? 2 : 3);
		}
	});

	test("shows the whole one of two with one id when the other is a beginning of it, in either order", () => {
		const whole = entry("aaaaaaaa", "one\ntwo");
		const header = whole.indexOf("Z\n") + 1;
		for (let cut = 1; cut < whole.length - 1; cut++) {
			const torn = whole.slice(0, cut);
			for (const parts of [
				[torn, whole],
				[whole, torn],
			]) {
				const found = seen(read(head, ...parts));
				// What ends within its header may be text.
				if (cut < header) expect([cut, found]).toEqual([cut, expect.arrayContaining([["aaaaaaaa", "one\ntwo"]])]);
				else expect([cut, found]).toEqual([cut, [["aaaaaaaa", "one\ntwo"]]]);
			}
		}
	});

	test("shows an Entry once that stands there twice", () => {
		expect(seen(read(head, entry("aaaaaaaa"), entry("bbbbbbbb"), entry("aaaaaaaa")))).toEqual([
			["aaaaaaaa", "aaaaaaaa"],
			["bbbbbbbb", "bbbbbbbb"],
		]);
	});

	test("shows both of two that differ under one id, the second under an id made of its bytes", () => {
		const other = entry("aaaaaaaa", "other");
		const card = read(head, entry("aaaaaaaa"), other);
		expect(seen(card)).toEqual([
			["aaaaaaaa", "aaaaaaaa"],
			[hashId(Buffer.from(other.trim(), "latin1")), "other", "duplicate"],
		]);
	});

	test("shows each id once, also when what was typed by hand or has another's id stands there twice", () => {
		for (const parts of [
			[entry("aaaaaaaa"), "\nthanks\n", entry("bbbbbbbb"), "\nthanks\n"],
			[entry("aaaaaaaa"), entry("aaaaaaaa", "b"), entry("aaaaaaaa", "b")],
		]) {
			const ids = read(head, ...parts).entries.map(({ id }) => id);
			expect(ids).toEqual([...new Set(ids)]);
		}
	});

	test("gives an id of 40 bits of the SHA-256 of its bytes to what has none", () => {
		const card = read(head, utf8("\n### note · bob\n\nhi\n\n\n"));
		// printf '### note · bob\n\nhi' | sha256sum
		const digest = process.getBuiltinModule("node:crypto").createHash("sha256").update("### note · bob\n\nhi").digest();
		let id = "";
		for (let bit = 0; bit < 40; bit += 5) {
			let value = 0;
			for (let at = bit; at < bit + 5; at++) value = value * 2 + (((digest[at >> 3] ?? 0) >> (7 - (at & 7))) & 1);
			id += "0123456789abcdefghjkmnpqrstvwxyz"[value];
		}
		expect(seen(card)).toEqual([[id, "hi", "torn", "typed"]]);
	});

	test.each([
		["### note · bob", "note", "bob", undefined],
		["### note · Bob", "note", "Bob", undefined],
		["### bob · 2026-11-30T12:00:00Z", "bob", "unknown", "2026-11-30T12:00:00Z"],
		["### Bob · 2026-11-30T12:00:00Z", "note", "Bob", "2026-11-30T12:00:00Z"],
		["### finding · Bob · 2026-11-30T12:00:00Z", "finding", "Bob", "2026-11-30T12:00:00Z"],
		["### note · bob · 2026-11-30", "note", "bob", "2026-11-30T00:00:00Z"],
		["### aaaaaaa1 · finding · bob", "finding", "bob", undefined],
		["### aaaaaaa1 · finding", "finding", "unknown", undefined],
		["### aaaaaaa1 · bob · 2026-11-30T12:00:00Z", "bob", "unknown", "2026-11-30T12:00:00Z"],
		["### aaaaaaa1 · finding · bob · 2026-11-30T12:0", "finding", "bob", undefined],
		["### aaaaaaa1 · finding · bob · 2026-13-30T12:00:00Z", "finding", "bob", undefined],
		["###  note  ·  bob  ", "note", "bob", undefined],
	])("reads %j, typed by hand, as far as it goes", (header, type, author, dated) => {
		const card = read(head, utf8(`\n${header}\n\nhi\n`), entry("bbbbbbbb"));
		const [typed, whole] = card.entries;
		expect([typed?.type, typed?.author, typed?.dated, typed?.text.toString(), typed?.is("typed")]).toEqual([
			type,
			author,
			dated,
			"hi",
			true,
		]);
		expect([typed?.id === "aaaaaaa1", whole?.flaws]).toEqual([header.includes("aaaaaaa1"), []]);
	});

	test.each([
		"### Results · 2026 · Jörg Müller: the parser is slow",
		"### note · bob · yesterday",
		"### Bob Smith · 2026-11-30T12:00:00Z",
		"### Jörg · Ünal",
		"### What · why · how",
		"### note·bob",
		"###  · ",
		"### note ·  · ",
		"#### note · bob",
		" ### note · bob",
	])("takes the heading %j for text", (heading) => {
		const text = `before\n${heading}\nafter`;
		expect(introductionOf(parseCard(Buffer.from(head + text)))).toBe(text);
		expect(texts(parseCard(Buffer.from(`${head}\n### note · bob\n\n${text}\n`)))).toEqual([text]);
	});

	// It is blank only as a character of Latin-1.
	test("shows a byte A0 between Entries", () => {
		expect(read(head, entry("aaaaaaaa"), "\n\xa0\n").entries.length).toBe(2);
	});

	test("takes a heading without ` · ` for text", () => {
		expect(introductionOf(read(head, "### Heading\n\nhi\n"))).toBe("### Heading\n\nhi");
		expect(texts(read(head, utf8("### note · bob\n### Heading\n#### x · y\n"))).join()).toBe(
			utf8("### Heading\n#### x · y") && "### Heading\n#### x · y",
		);
	});

	test("ends an Entry only at its own closing line", () => {
		const inside = entry("aaaaaaaa", "a\nX\nb").replace("X", "<!-- bbbbbbbb -->");
		expect(seen(read(head, inside))).toEqual([["aaaaaaaa", "a\n<!-- bbbbbbbb -->\nb"]]);
		for (const closing of ["<!-- aaaaaaaa --> ", "<!--aaaaaaaa-->", " <!-- aaaaaaaa -->", "<!-- AAAAAAAA -->"]) {
			const card = read(head, entry("aaaaaaaa").replace("<!-- aaaaaaaa -->", closing));
			expect([closing, card.entries[0]?.flaws]).toEqual([closing, ["torn"]]);
		}
	});

	test("shows text between Entries as one without a header", () => {
		const card = read(head, entry("aaaaaaaa"), "\nI agree.\n\n+1\n", entry("bbbbbbbb"), "\n  \n\nlast\n");
		expect(card.entries.map(({ author, text, flaws }) => [author, text.toString(), flaws])).toEqual([
			["alice", "aaaaaaaa", []],
			["unknown", "I agree.\n\n+1", ["torn", "typed"]],
			["alice", "bbbbbbbb", []],
			["unknown", "  \n\nlast", ["torn", "typed"]],
		]);
	});

	test("keeps bytes that are no UTF-8", () => {
		const text = Buffer.from([0xff, 0xfe, 0x80, 0xc2, 10, 0xe2, 0x28]);
		const made = formatEntry({ id: "aaaaaaaa", type: "note", author: "bob", date: noon, text });
		expect(parseCard(Buffer.concat([Buffer.from(head), made])).entries[0]?.text).toEqual(text);
	});
});

describe("What git left as two sides", () => {
	const both = "a\n<<<<<<< HEAD\nb\n||||||| base\nc\n=======\nd\n>>>>>>> other\ne\n";

	test("is found with its base, and what stands outside is on both", () => {
		const sides = sidesOf(Buffer.from(both));
		expect([sides?.ours.toString(), sides?.base?.toString(), sides?.theirs.toString()]).toEqual(["a\nb\ne\n", "a\nc\ne\n", "a\nd\ne\n"]);
		const crlf = sidesOf(Buffer.from(both.replaceAll("\n", "\r\n")));
		expect(crlf?.theirs.toString()).toBe("a\r\nd\r\ne\r\n");
		expect(sidesOf(Buffer.from(both.replace("||||||| base\nc\n", "")))?.base).toBeUndefined();
	});

	test.each([
		["no marker", "a\n"],
		["one without an end", both.replace(">>>>>>> other\n", "")],
		["one within another", both.replace("b\n", both)],
		["more than 7 characters", both.replaceAll("<<<<<<<", "<<<<<<<<")],
		["escaped ones", escapeText(Buffer.from(both)).toString()],
		["indented ones", both.replaceAll(/^(?=[<>=|])/gm, " ")],
	])("is not found in a text with %s", (_, text) => {
		expect(sidesOf(Buffer.from(text))).toBeUndefined();
		expect(read(head, text).warnings).toEqual([]);
	});

	test("is said of the Card", () => {
		expect(read(head, both).warnings).toEqual(["conflict"]);
		expect(read(both).warnings).toEqual(["front-matter", "conflict"]);
	});
});

describe("What Entries come to", () => {
	/** `claim alice 0 60`: at minute 0, until minute 60. */
	function state(
		now: number,
		...lines: string[]
	): { holder: string | undefined; until: number | undefined; done: boolean; removed: boolean } {
		const file = lines.map((line, index) => {
			const [type = "", author = "alice", date = "0", until = "0", host = "box"] = line.split(" ");
			const text =
				type === "claim" ? `until ${at(Number(until))} on ${host}` : type === "release" ? `on ${until === "0" ? "box" : until}` : "";
			return entry(`aaaaaaa${"0123456789abcdefgh"[index]}`, text, { type, author, date: Number(date) });
		});
		const { holder, done, removed } = stateOfCard(read(head, ...file).entries, noon + now * minute);
		return { holder: holder?.name, until: holder && (holder.until - noon) / minute, done, removed };
	}

	test.each<[string, number, string[], string | undefined, number?]>([
		["nobody has claimed it", 1, ["note bob"], undefined],
		["one has", 1, ["claim alice 0 60"], "alice", 60],
		["the first of two has", 1, ["claim alice 0 60", "claim bob 0 90"], "alice", 60],
		["whatever their dates say: the file's order counts", 1, ["claim alice 5 60", "claim bob 0 90"], "alice", 60],
		["the second one when the first has ended", 61, ["claim alice 0 60", "claim bob 0 90"], "bob", 90],
		["a claim has ended at its end", 60, ["claim alice 0 60"], undefined],
		["it was released", 1, ["claim alice 0 60", "release alice 1"], undefined],
		["another's release changes nothing", 1, ["claim alice 0 60", "release bob 1"], "alice", 60],
		["a release on another host changes nothing", 1, ["claim alice 0 60", "release alice 1 elsewhere"], "alice", 60],
		["the other holds after a release", 1, ["claim alice 0 60", "claim bob 0 90", "release alice 1"], "bob", 90],
		["a second claim extends the first", 1, ["claim alice 0 60", "claim bob 1 90", "claim alice 2 120"], "alice", 120],
		["a shorter second claim takes nothing off", 1, ["claim alice 0 60", "claim alice 2 30"], "alice", 60],
		["a claim after one's own has ended stands behind others", 61, ["claim alice 0 60", "claim bob 1 90", "claim alice 61 120"], "bob", 90],
		["one name on two hosts is two holders", 1, ["claim alice 0 60 box", "claim alice 0 90 elsewhere", "release alice 1"], "alice", 90],
		["done ends every claim", 1, ["claim alice 0 60", "claim bob 0 60", "done alice 1"], undefined],
		["a claim on what is done counts for nothing", 3, ["claim alice 0 60", "done alice 1", "claim bob 2 60"], undefined],
		["a claim on what was done holds when it was opened again", 4, ["done alice 1", "note alice 2", "claim bob 3 60"], "bob", 60],
	])("holder: %s", (_, now, lines, holder, until) => {
		const found = state(now, ...lines);
		expect([found.holder, found.until]).toEqual([holder, until]);
	});

	test.each<[string[], boolean, boolean]>([
		[["note"], false, false],
		[["done"], true, false],
		[["done", "release"], true, false],
		[["done", "note"], false, false],
		[["done", "claim alice 0 60"], true, false],
		[["removed"], false, true],
		[["removed", "note"], false, true],
		[["removed", "restored"], false, false],
		[["removed", "restored", "removed"], false, true],
		[["done", "removed", "restored"], false, false],
	])("after %j: done %s, removed %s", (lines, done, removed) => {
		expect(state(0, ...lines)).toMatchObject({ done, removed });
	});

	test("a claim that does not say how long holds for two hours, and one without a date for no time", () => {
		const bare = entry("aaaaaaaa", "mine!", { type: "claim" });
		const until = (text: string, now: number) => stateOfCard(read(head, text).entries, now).holder?.until;
		expect(until(bare, noon + usualClaim - 1)).toBe(noon + 2 * 3600 * 1000);
		expect(until(bare, noon + usualClaim)).toBeUndefined();
		expect(until(utf8("\n### claim · alice\n\nmine!\n"), 0)).toBeUndefined();
	});

	test("a host is named with what a claim can hold", () => {
		expect(["box.local", "a b·c", ""].map((host) => claimHost({ host }))).toEqual(["box.local", "a_b_c", "_"]);
	});
});

test.each(["note", "a", "k-9_x", "a".repeat(32)])("%j is a type", (type) => {
	expect(entryType(type)).toBe(type);
});

test.each(["", "Note", "9a", "a b", "a·b", "a".repeat(33), "note\n", "-a"])("%j is no type", (type) => {
	expect(() => entryType(type)).toThrow(expect.objectContaining({ code: "EINPUT" }));
});

test("an Entry knows what it is", () => {
	const [typed] = read(head, utf8("\n### note · bob\n\nhi\n")).entries as [Entry];
	expect([typed.is("typed"), typed.is("torn"), typed.is("duplicate"), typed.date, typed.dated]).toEqual([
		true,
		true,
		false,
		undefined,
		undefined,
	]);
});

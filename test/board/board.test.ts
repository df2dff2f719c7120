import { execFileSync } from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { type Board, openBoard } from "../../lib/board/board.ts";
import { formatEntry, hashId, parseCard } from "../../lib/board/card.ts";
import type { ContextOptions } from "../../lib/context.ts";
import { openTree } from "../../lib/index.ts";
import { ls, onTestFinished, project, run, tempDir, tempTree, until } from "../helpers.ts";

const noon = Date.parse("2026-11-30T12:00:00.000Z");
const minute = 60_000;
const hour = 60 * minute;
const at = (ms: number) => new Date(noon + ms).toISOString();

/** Random bytes that are not: 1, 2, 3, … */
function counting(from = 0): (bytes: number) => Uint8Array {
	let count = from;
	return (bytes) => {
		const made = Buffer.alloc(bytes);
		made.writeUInt32BE((++count * 0x9e3779b1) >>> 0, 0);
		return made;
	};
}

interface World {
	root: string;
	/** The Board's directory. */
	dir: string;
	board: Board;
	/** The clock: ms since noon. */
	time: { now: number };
	/** The same Board as somebody else, or some other host, sees it. */
	open: (options?: ContextOptions) => Board;
	/** Puts a file there and returns its name. */
	put: (name: string, text: string | Buffer) => string;
	/** A file's bytes. */
	get: (name: string) => string;
}

function world(options: ContextOptions = {}): World {
	const { root } = tempTree();
	const time = { now: 0 };
	const random = counting();
	// The look for late writers after a replacement is 250 ms of this clock: a hundredth of that here.
	const monotonic = () => performance.now() * 100;
	const open = (other: ContextOptions = {}) =>
		openBoard(
			openTree({ root, env: {}, durable: false, host: "box", random, monotonic, clock: () => noon + time.now, ...options, ...other }),
		);
	const dir = path.join(root, "board");
	fs.mkdirSync(dir, { recursive: true });
	const put = (name: string, text: string | Buffer) => {
		fs.writeFileSync(path.join(dir, name), text);
		return name;
	};
	return { root, dir, board: open(), time, open, put, get: (name) => fs.readFileSync(path.join(dir, name), "utf8") };
}

async function code(act: () => unknown): Promise<string | undefined> {
	try {
		await act();
	} catch (error) {
		return (error as { code?: string }).code ?? String(error);
	}
	return undefined;
}

function entry(id: string, text: string, { type = "note", author = "alice", date = 0 } = {}): string {
	return formatEntry({ id, type, author, date: noon + date, text: Buffer.from(text) }).toString();
}

const head = `---\nid: k3f9q2\ntitle: Cache layer\ncreated_by: alice\ncreated_at: ${at(0)}\n---\n`;
const title = async (board: Board, file: string) => (await board.read(file)).title;
const texts = async (board: Board, file: string) => (await board.read(file)).entries.map(({ text }) => text.toString());
const types = async (board: Board, file: string) => (await board.read(file)).entries.map(({ type }) => type);

describe("A new Card", () => {
	test("is its front matter and its introduction, in a file of mode 0600 named by title and id", () => {
		const { board, dir, get } = world();
		const made = board.create({ title: "Cache layer", author: "alice", text: "Where?" });
		expect(made.file).toBe(`cache-layer-${made.id}.md`);
		expect(made.id).toMatch(/^[0-9a-hjkmnp-tv-z]{6}$/);
		expect(made.path).toBe(path.join(fs.realpathSync(dir), made.file));
		expect(get(made.file)).toBe(`---\nid: ${made.id}\ntitle: Cache layer\ncreated_by: alice\ncreated_at: ${at(0)}\n---\n\nWhere?\n`);
		expect(fs.statSync(made.path).mode & 0o777).toBe(0o600);
		expect(fs.readdirSync(path.join(dir, ".locks"))).toEqual([]);
	});

	test.each([
		["Cache layer", "cache-layer"],
		["  Two\r\n\tlines ", "two-lines"],
		["$& $1 $$ $`", "1"],
		["../../etc/passwd", "etc-passwd"],
		["v1.2.3", "v1.2.3"],
		[".hidden", "hidden"],
		["Jörg & Söhne", "j-rg-s-hne"],
		["日本", "card"],
		["all", "card"],
		["x".repeat(100), "x".repeat(48)],
		[`${"x".repeat(47)} y`, "x".repeat(47)],
		["-rf", "rf"],
		["a: b # c [d] @e 'f' \"g\"", "a-b-c-d-e-f-g"],
		["---", "card"],
		["null", "null"],
		["\u001b[31mred\u0007", "31mred"],
		["no\0null", "no-null"],
	])("titled %j lies under %s-ID.md and has that title", async (given, slug) => {
		const { board, dir } = world();
		const { file, id } = board.create({ title: given, author: "alice" });
		expect(file).toBe(`${slug}-${id}.md`);
		expect(await title(board, file)).toBe(given.trim().replace(/\s*[\r\n]\s*/, " "));
		expect(ls(dir)).toEqual([".locks", file]);
	});

	test.each(["a file", "a symlink"])("takes another name when its first one is %s's", (what) => {
		const fives = (...numbers: number[]) => world({ instance: "aaaaaaaa", random: () => new Uint8Array(5).fill(numbers.shift() ?? 9) });
		const taken = fives(1).board.create({ title: "T", author: "alice" }).file;
		const { board, dir, put, get } = fives(1, 1, 2);
		if (what === "a file") put(taken, "mine");
		else fs.symlinkSync("nowhere", path.join(dir, taken));
		const made = board.create({ title: "T", author: "alice" });
		expect(made.file).not.toBe(taken);
		expect(ls(dir)).toEqual([".locks", made.file, taken].sort());
		if (what === "a file") expect(get(taken)).toBe("mine");
		else expect(fs.readlinkSync(path.join(dir, taken))).toBe("nowhere");
	});

	test("is refused without a title, an author that is a Node's name, or with a text over the limit; then nothing is made", async () => {
		const { board, dir } = world({ maxBytes: 10 });
		for (const title of ["", " ", "\n\r\n"]) expect(await code(() => board.create({ title, author: "alice" }))).toBe("EINPUT");
		for (const author of ["", "a b", "../x", "unknown", "all"])
			expect(await code(() => board.create({ title: "T", author }))).toBe("ENAME");
		expect(await code(() => board.create({ title: "T", author: "alice", text: "x".repeat(11) }))).toBe("ESIZE");
		expect(ls(dir).filter((name) => name !== ".locks")).toEqual([]);
	});

	test("is refused when its title is too long to be read back", async () => {
		const { board } = world();
		expect(await code(() => board.create({ title: "x".repeat(70_000), author: "alice" }))).toBe("ESIZE");
	});

	test("has its introduction read back as it was given", async () => {
		const { board } = world();
		const text = "### a · b\n<!-- x -->\n=======\nend";
		expect((await board.read(board.create({ title: "T", author: "alice", text }).file)).introduction.toString()).toBe(text);
	});
});

describe("Finding a Card", () => {
	const files = [
		"cache-layer-k3f9q2.md",
		"cache-warmer-aaaaaa.md",
		"cache.md",
		"Notes.md",
		"ab.md",
		"flaky-k3f9q3.md",
		"x-cccccc.md",
		"y-cccccc.md",
	];
	const board = () => {
		const { board, put } = world();
		for (const file of files) put(file, head.replace("k3f9q2", /([0-9a-z]{6})\.md$/.exec(file)?.[1] ?? "zzzzzz"));
		return board;
	};

	test.each([
		["k3f9q2", "cache-layer-k3f9q2.md"],
		["K3F9Q2", "cache-layer-k3f9q2.md"],
		["layer", "cache-layer-k3f9q2.md"],
		["warm", "cache-warmer-aaaaaa.md"],
		["cache", "cache.md"],
		["CACHE.MD", "cache.md"],
		["cache-layer-k3f9q2.md", "cache-layer-k3f9q2.md"],
		["/some/where/cache-layer-k3f9q2.md", "cache-layer-k3f9q2.md"],
		["../board/flaky-k3f9q3", "flaky-k3f9q3.md"],
		["notes", "Notes.md"],
		["ab", "ab.md"],
		["r-k3", "cache-layer-k3f9q2.md"],
		["x-c", "x-cccccc.md"],
	])("by %j finds %s", async (piece, file) => {
		expect(await board().find(piece)).toBe(file);
	});

	test.each([
		["cach", "EAMBIGUOUS"],
		["k3f9q", "EAMBIGUOUS"],
		["cccccc", "EAMBIGUOUS"],
		["nothing", "ECARD"],
		["$&.", "ECARD"],
		["", "EINPUT"],
		["k3", "EINPUT"],
		["x/", "EINPUT"],
		[".md", "EINPUT"],
	])("by %j fails with %s", async (piece, expected) => {
		expect(await code(() => board().find(piece))).toBe(expected);
	});

	test("names those that it could be", async () => {
		await expect(board().find("cach")).rejects.toMatchObject({
			cure: expect.stringContaining("cache-layer-k3f9q2, cache-warmer-aaaaaa, cache"),
		});
	});

	test("finds it by the id in its front matter when its file was renamed", async () => {
		const { board, put } = world();
		put("renamed.md", head);
		put("other.md", head.replace("k3f9q2", "q9w8e7"));
		put("broken.md", "---\n[\n---\n");
		expect(await board.find("K3F9Q2")).toBe("renamed.md");
		expect(await board.find("f9q")).toBe("renamed.md");
	});

	test("finds none where there is no Board yet", async () => {
		const { root } = tempTree();
		const board = openBoard(openTree({ root, env: {} }));
		expect(await code(() => board.find("cache"))).toBe("ECARD");
		expect(await board.list()).toEqual({ cards: [], skipped: [] });
		expect(fs.existsSync(root)).toBe(false);
	});
});

describe("The list", () => {
	test("has the newest activity first, with what each Card says", async () => {
		const { board, put } = world();
		put("old-aaaaaa.md", head.replace("k3f9q2", "aaaaaa").replace(at(0), at(hour)));
		put("busy-bbbbbb.md", head.replace("k3f9q2", "bbbbbb") + entry("aaaaaaaa", "x", { date: 2 * hour, author: "bob" }));
		put("past-cccccc.md", head.replace("k3f9q2", "cccccc") + entry("aaaaaaaa", "x", { date: -hour }));
		const { cards, skipped } = await board.list();
		expect(skipped).toEqual([]);
		expect(
			cards.map(({ file, id, count, last, createdBy, warnings }) => [file, id, count, last.author, last.date - noon, createdBy, warnings]),
		).toEqual([
			["busy-bbbbbb.md", "bbbbbb", 1, "bob", 2 * hour, "alice", []],
			["old-aaaaaa.md", "aaaaaa", 0, "alice", hour, "alice", []],
			["past-cccccc.md", "cccccc", 1, "alice", -hour, "alice", []],
		]);
	});

	test("takes from the file what the front matter does not say", async () => {
		const { board, put, dir } = world();
		const file = put("some-thing-k3f9q2.md", "hello\n");
		put("plain.md", "---\ntitle: [a, b]\n---\n");
		fs.utimesSync(path.join(dir, file), 1000, 1000);
		const { cards } = await board.list();
		expect(cards.find((card) => card.file === file)).toMatchObject({
			id: "k3f9q2",
			title: "some-thing-k3f9q2",
			createdBy: "unknown",
			createdAt: 1_000_000,
			warnings: ["front-matter"],
		});
		expect(cards.find((card) => card.file === "plain.md")).toMatchObject({ id: "plain", title: '["a","b"]' });
	});

	test("says who holds a Card, whether it is done, and whether removed", async () => {
		const { board, time } = world();
		const [a, b, c] = ["A", "B", "C"].map((title) => board.create({ title, author: "alice" }).file) as [string, string, string];
		await board.claim(a, "bob", hour);
		await board.done(b, { author: "bob", text: "" });
		await board.remove(c, "bob");
		const look = async () =>
			Object.fromEntries((await board.list()).cards.map((card) => [card.title, [card.holder?.name, card.done, card.removed]]));
		expect(await look()).toEqual({ A: ["bob", false, false], B: [undefined, true, false], C: [undefined, false, true] });
		time.now = hour;
		expect((await look()).A).toEqual([undefined, false, false]);
	});

	test("reads a Board that is a symlink, and names where it leads", async () => {
		const { root } = tempTree();
		const [elsewhere] = [tempDir()];
		fs.mkdirSync(root);
		fs.symlinkSync(elsewhere, path.join(root, "board"));
		const board = openBoard(openTree({ root, env: {}, durable: false }));
		const { file } = board.create({ title: "T", author: "alice" });
		board.add(file, { author: "alice", text: "x" });
		expect((await board.list()).cards.map(({ path, count }) => [path, count])).toEqual([[`${elsewhere}/${file}`, 1]]);
	});
});

describe("Adding an Entry", () => {
	test("appends exactly what the protocol says, and touches nothing before it", () => {
		for (const before of [head, "", "no newline", `${head.replaceAll("\n", "\r\n")}x`, "---\nunclosed"]) {
			const { board, put, get } = world();
			const file = put("c.md", before);
			const made = board.add(file, { author: "Bob", text: "They are read twice.\n### x · y", type: "finding" });
			expect(get(file)).toBe(
				`${before}\n### ${made.id} · finding · bob · ${at(0)}\n\nThey are read twice.\n\\### x · y\n<!-- ${made.id} -->\n`,
			);
			expect([made.text.toString(), made.flaws]).toEqual(["They are read twice.\n### x · y", []]);
		}
	});

	test("gives back what was given, byte for byte", async () => {
		const { board } = world();
		const { file } = board.create({ title: "T", author: "alice" });
		const given = [Buffer.from([0, 1, 255, 10, 13, 10]), Buffer.alloc(1024 * 1024, "### x\n"), Buffer.from("---\n<!-- x -->\n\\=======\n")];
		for (const text of given) board.add(file, { author: "alice", text });
		expect((await board.read(file)).entries.map(({ text }) => text)).toEqual(given);
	});

	test("needs a text within the limit, a type and an author; else nothing is written", async () => {
		const { board, put, get } = world({ maxBytes: 10 });
		const file = put("c.md", head);
		expect(await code(() => board.add(file, { author: "bob", text: "" }))).toBe("EINPUT");
		expect(await code(() => board.add(file, { author: "bob", text: "x".repeat(11) }))).toBe("ESIZE");
		expect(await code(() => board.add(file, { author: "bob", text: "é".repeat(6) }))).toBe("ESIZE");
		for (const type of ["", "Note", "a b", "a·b", "a\n"])
			expect(await code(() => board.add(file, { author: "bob", text: "x", type }))).toBe("EINPUT");
		for (const author of ["", "a b", "a\nb", "unknown"]) expect(await code(() => board.add(file, { author, text: "x" }))).toBe("ENAME");
		expect(await code(() => board.add("gone.md", { author: "bob", text: "x" }))).toBe("ECARD");
		expect(get(file)).toBe(head);
	});

	test("dates several of one author in the same ms in their order, in which a merge puts them", async () => {
		const { board, put } = world();
		const file = put("c.md", head);
		const dates = ["alice", "alice", "bob", "alice"].map((author) => board.add(file, { author, text: "x" }).date);
		expect(dates).toEqual([noon, noon + 1, noon, noon + 2]);
	});

	test("costs no reading of the Card: it works on one that can't be read as anything", async () => {
		const { board, put } = world();
		const file = put("c.md", Buffer.concat([Buffer.from("---\n[broken\n---\n"), Buffer.alloc(100_000, 0xff)]));
		board.add(file, { author: "bob", text: "x" });
		expect((await board.read(file)).entries.at(-1)?.text.toString()).toBe("x");
	});
});

describe("Claims", () => {
	test("of one holder keep others out until they end, by the clock", async () => {
		const { board, time, get } = world();
		const { file } = board.create({ title: "T", author: "alice" });
		const claim = await board.claim(file, "alice", hour);
		expect(claim).toMatchObject({ name: "alice", host: "box", until: noon + hour });
		const before = get(file);
		expect(before.endsWith(`\n### ${claim.id} · claim · alice · ${at(0)}\n\nuntil ${at(hour)} on box\n<!-- ${claim.id} -->\n`)).toBe(true);
		for (const act of [
			() => board.claim(file, "bob"),
			() => board.release(file, "bob"),
			() => board.done(file, { author: "bob", text: "" }),
		])
			expect(await code(act)).toBe("EHELD");
		expect(get(file)).toBe(before);
		await expect(board.claim(file, "bob")).rejects.toThrow(new RegExp(`claimed by alice on box until ${at(hour)}`));
		time.now = hour - 1;
		expect(await code(() => board.claim(file, "bob"))).toBe("EHELD");
		time.now = hour;
		expect(await board.claim(file, "bob")).toMatchObject({ name: "bob", until: noon + 3 * hour });
	});

	test("of the holder extend, and never shorten", async () => {
		const { board, time } = world();
		const { file } = board.create({ title: "T", author: "alice" });
		const first = await board.claim(file, "alice", hour);
		time.now = minute;
		expect(await board.claim(file, "alice", minute)).toMatchObject({ id: first.id, until: noon + hour });
		expect(await board.claim(file, "Alice", 2 * hour)).toMatchObject({ id: first.id, until: noon + minute + 2 * hour });
	});

	test("are of name and host", async () => {
		const { board, open } = world();
		const { file } = board.create({ title: "T", author: "alice" });
		await board.claim(file, "alice");
		const elsewhere = open({ host: "other host" });
		for (const act of [
			() => elsewhere.claim(file, "alice"),
			() => elsewhere.release(file, "alice"),
			() => elsewhere.done(file, { author: "alice", text: "" }),
		])
			expect(await code(act)).toBe("EHELD");
		await board.release(file, "alice");
		expect(await elsewhere.claim(file, "alice")).toMatchObject({ host: "other_host" });
	});

	test("typed by hand without a host are of the name, wherever it is", async () => {
		const { board, put } = world();
		const file = put("c.md", `${head}\n### claim · alice · ${at(0)}\n\nmine\n`);
		expect(await code(() => board.release(file, "bob"))).toBe("EHELD");
		expect(await board.claim(file, "alice", hour)).toMatchObject({ name: "alice" });
		await board.release(file, "alice");
		expect((await board.read(file)).holder).toBeUndefined();
	});

	test("that lose by the read back are released", async () => {
		const { board, open, put, get, dir } = world();
		const file = put("c.md", head);
		// Somebody writes after our look and before our claim: just when that gets its id.
		let count = 0;
		const random = () => {
			if (get(file) === head)
				fs.appendFileSync(path.join(dir, file), entry("zzzzzzzz", `until ${at(hour)} on far`, { type: "claim", author: "bob" }));
			return Buffer.from([++count, 0, 0, 0, 0]);
		};
		const mine = open({ random, instance: "aaaaaaaa" });
		expect(await code(() => mine.claim(file, "alice"))).toBe("EHELD");
		expect(await types(board, file)).toEqual(["claim", "claim", "release"]);
		expect((await board.read(file)).holder).toMatchObject({ name: "bob", host: "far" });
	});

	test("that are to go on from one that ends before they are written go behind those that came meanwhile", async () => {
		const { board, open, put, get, dir, time } = world();
		const file = put("c.md", head);
		await board.claim(file, "alice", hour);
		const before = get(file);
		time.now = hour - 1;
		let count = 0;
		const random = () => {
			if (get(file) === before) {
				time.now = hour + 1;
				const bobs = { type: "claim", author: "bob", date: hour + 1 };
				fs.appendFileSync(path.join(dir, file), entry("zzzzzzzz", `until ${at(2 * hour)} on far`, bobs));
			}
			return Buffer.from([++count, 0, 0, 0, 0]);
		};
		const mine = open({ random, instance: "aaaaaaaa" });
		expect(await code(() => mine.claim(file, "alice", hour))).toBe("EHELD");
		expect(await types(board, file)).toEqual(["claim", "claim", "claim", "release"]);
		expect((await board.read(file)).holder).toMatchObject({ name: "bob", host: "far" });
		await board.add(file, { author: "alice", text: "waits" });
		time.now = 2 * hour;
		expect(await mine.claim(file, "alice", hour)).toMatchObject({ name: "alice", until: noon + 3 * hour });
	});

	test("of no length, or of one that no date can hold, are refused, and nothing is written", async () => {
		const { board, get } = world();
		const { file } = board.create({ title: "T", author: "alice" });
		const before = get(file);
		for (const hold of [0, -1, Number.NaN, Number.POSITIVE_INFINITY, 1e17, 9000 * 365 * 24 * hour])
			expect([hold, await code(() => board.claim(file, "alice", hold))]).toEqual([hold, "EINPUT"]);
		expect(get(file)).toBe(before);
		const far = Date.UTC(9999, 0) - noon;
		expect(await board.claim(file, "alice", far)).toMatchObject({ until: noon + far });
	});

	test("and what follows them are dated later than the author's Entries before, though a clock was set back a little", async () => {
		const { board, time } = world();
		const { file } = board.create({ title: "T", author: "alice" });
		await board.claim(file, "alice");
		time.now = -30_000;
		await board.release(file, "alice");
		await board.claim(file, "alice");
		await board.done(file, { author: "alice", text: "" });
		const dates = (await board.read(file)).entries.map(({ date = Number.NaN }) => date);
		expect(dates).toEqual([...dates].sort((a, b) => a - b));
		expect(new Set(dates).size).toBe(4);
	});

	test("released when nobody holds the Card write nothing", async () => {
		const { board, get } = world();
		const { file } = board.create({ title: "T", author: "alice" });
		const before = get(file);
		expect(await board.release(file, "bob")).toBeUndefined();
		expect(get(file)).toBe(before);
		await board.claim(file, "bob");
		expect(await board.release(file, "bob")).toMatchObject({ type: "release", author: "bob" });
		expect((await board.read(file)).holder).toBeUndefined();
	});
});

describe("Done and removed", () => {
	test("done ends the claims, takes any text, and an Entry afterwards opens the Card again", async () => {
		const { board } = world();
		const { file } = board.create({ title: "T", author: "alice" });
		await board.claim(file, "bob");
		expect(await board.done(file, { author: "bob", text: "" })).toMatchObject({ type: "done" });
		expect(await board.read(file)).toMatchObject({ done: true, holder: undefined });
		await board.done(file, { author: "bob", text: "until then\n### x" });
		expect(await texts(board, file)).toEqual([expect.stringMatching(/^until/), "", "until then\n### x"]);
		board.add(file, { author: "alice", text: "no" });
		expect((await board.read(file)).done).toBe(false);
	});

	test("removing is an Entry, once, and is taken back by another", async () => {
		const { board, get } = world();
		const { file } = board.create({ title: "T", author: "alice", text: "intro" });
		const before = get(file);
		expect(await board.remove(file, "bob", false)).toBeUndefined();
		expect(await board.remove(file, "bob")).toMatchObject({ type: "removed", author: "bob" });
		expect(await board.remove(file, "carol")).toBeUndefined();
		expect(await board.read(file)).toMatchObject({ removed: true });
		expect(await board.remove(file, "carol", false)).toMatchObject({ type: "restored" });
		expect(await board.read(file)).toMatchObject({ removed: false });
		expect(get(file).startsWith(before)).toBe(true);
		expect(await types(board, file)).toEqual(["removed", "restored"]);
	});

	test("purging deletes the file and leaves nothing beside it", async () => {
		const { board, dir } = world();
		const [a, b] = ["A", "B"].map((title) => board.create({ title, author: "alice" }).file) as [string, string];
		await board.purge(a);
		expect(ls(dir)).toEqual([".locks", b]);
		expect(ls(dir, ".locks")).toEqual([]);
		expect(await code(() => board.purge(a))).toBe("ECARD");
	});
});

describe("Editing the front matter", () => {
	const text = `---\r\n# first\r\nid: k3f9q2\r\nowner:   'al''ice'   # why\r\ntitle: >-\r\n  Old\r\n  title\r\nlist: [a, b]\r\n---\r\n\r\ntitle: no\r\n${entry("aaaaaaaa", "title: x\n---\ntitle: y")}`;

	test.each([
		"New",
		"$& $1 $$ $` $'",
		"a: b # c",
		"---",
		"'",
		'"',
		"\\",
		"null",
		"2026-11-30",
		"日本 😀",
		"\u001b[31m",
		"a\u2028b",
		"@alice",
		"- x",
	])("to the title %j changes that line, and not a byte beside it", async (value) => {
		for (const mark of ["", "\ufeff"]) {
			const { board, put, get } = world();
			const file = put("old-title-k3f9q2.md", mark + text);
			expect(await board.edit(file, { title: value })).toBe(true);
			const [before, after] = (mark + text).split("title: >-\r\n  Old\r\n  title\r\n") as [string, string];
			const now = get(file);
			expect([now.startsWith(`${before}title: `), now.endsWith(`\r\n${after}`)]).toEqual([true, true]);
			expect(now.slice(before.length, now.length - after.length)).not.toMatch(/\n./);
			expect(await board.read(file)).toMatchObject({ title: value, id: "k3f9q2", file });
			expect((await board.read(file)).front.get("owner")).toBe("al'ice");
			expect(ls(path.dirname((await board.read(file)).path))).toEqual([".locks", file]);
		}
	});

	test("keeps the file's mode, says when there was nothing to change, and leaves no lock and no old file", async () => {
		const { board, put, dir } = world();
		const file = put("c.md", head);
		fs.chmodSync(path.join(dir, file), 0o640);
		const inode = () => fs.statSync(path.join(dir, file)).ino;
		const before = inode();
		expect(await board.edit(file, { title: "Cache layer" })).toBe(false);
		expect(inode()).toBe(before);
		expect(await board.edit(file, { title: "Other", owner: "bob" })).toBe(true);
		expect(fs.statSync(path.join(dir, file)).mode & 0o777).toBe(0o640);
		expect(ls(dir, ".locks")).toEqual([]);
		expect((await board.read(file)).front.get("owner")).toBe("bob");
	});

	test.each<[string, string | Buffer, Record<string, string>, string]>([
		["another id", head, { id: "aaaaaa" }, "EINPUT"],
		["an empty title", head, { title: " \n" }, "EINPUT"],
		["a key that is none", head, { "a b": "x" }, "EINPUT"],
		["a Card without front matter", "hello\n", { title: "x" }, "EUNREADABLE"],
		["a front matter that is never closed", "---\ntitle: x\n", { title: "y" }, "EUNREADABLE"],
		["broken YAML", "---\ntitle: [x\n---\nhello\n", { title: "y" }, "EUNREADABLE"],
		["a tag", "---\ntitle: !!js/function x\n---\n", { title: "y" }, "EUNREADABLE"],
		["an anchor", "---\ntitle: &a x\nb: *a\n---\n", { title: "y" }, "EUNREADABLE"],
		["---js", "---js\n{ title: 'x' }\n---\n", { title: "y" }, "EUNREADABLE"],
		["two sides that git left", `${head}<<<<<<< a\nx\n=======\ny\n>>>>>>> b\n`, { title: "y" }, "EUNREADABLE"],
		["bytes that are no UTF-8", Buffer.from("---\ntitle: \xff\n---\n", "latin1"), { owner: "y" }, "EUNREADABLE"],
	])("refuses %s, and leaves the file as it is", async (_, text, changes, error) => {
		const { board, put, dir } = world();
		const file = put("c.md", text);
		const stat = fs.statSync(path.join(dir, file));
		expect(await code(() => board.edit(file, changes))).toBe(error);
		expect(fs.readFileSync(path.join(dir, file))).toEqual(Buffer.from(text));
		expect(fs.statSync(path.join(dir, file)).ino).toBe(stat.ino);
		expect(ls(dir, ".locks")).toEqual([]);
	});

	test("refuses a value with which the front matter could not be read back", async () => {
		const { board, put } = world();
		const file = put("c.md", head);
		expect(await code(() => board.edit(file, { notes: "x".repeat(70_000) }))).toBe("ESIZE");
		expect(await title(board, file)).toBe("Cache layer");
	});

	test("by several at once loses neither an edit nor an Entry", async () => {
		const { board, put, open } = world({ monotonic: () => performance.now() });
		const file = put("c.md", head);
		let adding = true;
		const edits = Promise.all(Array.from({ length: 4 }, (_, index) => open().edit(file, { [`key${index}`]: String(index) }))).finally(
			() => {
				adding = false;
			},
		);
		let added = 0;
		while (adding) {
			board.add(file, { author: "bob", text: String(added++) });
			await new Promise((resolve) => setTimeout(resolve, 5));
		}
		await edits;
		const card = await board.read(file);
		expect(Array.from({ length: 4 }, (_, index) => card.front.get(`key${index}`))).toEqual(["0", "1", "2", "3"]);
		expect(card.entries.map(({ text }) => Number(text)).sort((a, b) => a - b)).toEqual(Array.from({ length: added }, (_, index) => index));
		expect(card.entries.flatMap(({ flaws }) => flaws)).toEqual([]);
	});

	const whole = entry("bbbbbbbb", "late");
	test.each<[what: string, before: string, more: string, meanwhile: string, introduction: string, texts: string[]]>([
		["an Entry", "", whole, "", "hello", ["x", "late"]],
		["an Entry that was begun", whole.slice(0, -20), whole.slice(-20), "", "hello", ["x", "late"]],
		["text typed by hand", "aaa\n", "bbb\n", "", "hello", ["x", "aaa\nbbb"]],
		["text in the middle of a line", "aa", "a\n", "", "hello", ["x", "aaa"]],
		["text and an Entry behind it", "aaa\n", `bbb\n${whole}`, "", "hello", ["x", "aaa\nbbb", "late"]],
		["text under a header without an id", "\n### note · bob\n\naaa\n", "bbb\n", "", "hello", ["x", "aaa\nbbb"]],
		["text that others have added to meanwhile", "aaa\n", "bbb\n", entry("cccccccc", "y"), "hello", ["x", "aaa", "y", "bbb"]],
		["introduction", "no Entry", "more\n", "", "hello\nmore", []],
		["introduction and an Entry behind it", "no Entry", `more\n${whole}`, "", "hello\nmore", ["late"]],
	])("takes along what a slow >> adds to the replaced file, once: %s", async (_, before, more, meanwhile, introduction, expected) => {
		// The clock stands until it was added, and then goes on by a ms with each look.
		const clock = { ms: 0, step: 0 };
		const { board, put, dir } = world({ monotonic: () => (clock.ms += clock.step) });
		const file = put("c.md", `${head}\nhello\n${before === "no Entry" ? "" : `${entry("aaaaaaaa", "x")}${before}`}`);
		const card = path.join(dir, file);
		const fd = fs.openSync(card, "a");
		const { ino } = fs.statSync(card);
		const edited = board.edit(file, { owner: "bob" });
		await until(() => fs.statSync(card).ino !== ino);
		if (meanwhile) fs.appendFileSync(card, meanwhile);
		fs.writeSync(fd, more);
		fs.closeSync(fd);
		clock.step = 1;
		expect(await edited).toBe(true);
		expect((await board.read(file)).introduction.toString().trim()).toBe(introduction);
		expect(await texts(board, file)).toEqual(expected);
		expect(ls(dir, ".locks")).toEqual([]);
	});
});

describe("Repairing", () => {
	test("makes whole what was typed by hand, once, and nothing else", async () => {
		const { board, put, get } = world();
		const typed = "### finding · bob\n\nby hand";
		const file = put("c.md", `${head}${entry("aaaaaaaa", "x")}\n${typed}\n\n${entry("bbbbbbbb", "y")}`);
		expect(await board.repair(file)).toBe(true);
		const id = hashId(Buffer.from(typed));
		expect(get(file)).toBe(
			`${head}${entry("aaaaaaaa", "x")}\n### ${id} · finding · bob · ${at(0)}\n\nby hand\n<!-- ${id} -->\n\n${entry("bbbbbbbb", "y")}`,
		);
		expect(await board.repair(file)).toBe(false);
	});

	test("unites what git left as two sides", async () => {
		const { board, put, get } = world();
		const file = put(
			"c.md",
			`${head}<<<<<<< HEAD\n${entry("aaaaaaaa", "x")}=======\n${entry("bbbbbbbb", "y", { date: 1 })}>>>>>>> other\n`,
		);
		expect((await board.read(file)).warnings).toEqual(["conflict"]);
		expect(await texts(board, file)).toEqual(["x", "y"]);
		expect(await board.repair(file)).toBe(true);
		expect(get(file)).toBe(head + entry("aaaaaaaa", "x") + entry("bbbbbbbb", "y", { date: 1 }));
		expect((await board.read(file)).warnings).toEqual([]);
	});

	test("does nothing to a good Card, or one whose front matter only a person can mend", async () => {
		for (const text of [head, head + entry("aaaaaaaa", "x"), "---\n[broken\n---\n\nhello\n", "hello\n", "", "\ufeff---\nx: y\n---\n"]) {
			const { board, put, get } = world();
			const file = put("c.md", text);
			expect(await board.repair(file)).toBe(false);
			expect(get(file)).toBe(text);
		}
	});

	test("brings back what a killed edit had not carried over, also when only somebody reads", async () => {
		for (const act of ["read", "list", "repair"] as const) {
			const { board, put, dir } = world();
			const file = put("c.md", head + entry("aaaaaaaa", "x"));
			fs.mkdirSync(path.join(dir, ".locks"));
			fs.writeFileSync(path.join(dir, ".locks", `${file}.old`), head + entry("aaaaaaaa", "x") + entry("bbbbbbbb", "late"));
			if (act === "list") await board.list();
			else await board[act](file);
			expect(await texts(board, file)).toEqual(["x", "late"]);
			expect(ls(dir, ".locks")).toEqual([]);
		}
	});
});

describe("What is done or removed", () => {
	test("can't be claimed until somebody adds to it, also by a claim that comes behind it, and leaves no Entry", async () => {
		const { board, put } = world();
		const file = put("c.md", head);
		await board.done(file, { author: "alice", text: "" });
		const before = (await board.read(file)).entries.length;
		expect(await code(() => board.claim(file, "bob"))).toBe("EHELD");
		expect((await board.read(file)).entries.length).toBe(before);
		board.add(file, { author: "alice", text: "there is more" });
		expect((await board.claim(file, "bob")).name).toBe("bob");
		await board.remove(file, "bob");
		expect(await code(() => board.claim(file, "bob"))).toBe("EHELD");
		await board.remove(file, "bob", false);
		expect((await board.claim(file, "bob")).name).toBe("bob");
	});
});

describe("What is strange on a Board", () => {
	/** Every kind of file that could lie there, and one that is good. */
	async function strange(): Promise<World & { good: string; files: string[]; snapshot: () => Record<string, string> }> {
		const made = world();
		const { put, dir, root } = made;
		const at = (name: string) => path.join(dir, name);
		const good = put("good-k3f9q2.md", head + entry("aaaaaaaa", "x"));
		const outside = path.join(root, "outside.md");
		fs.writeFileSync(outside, head.replace("Cache layer", "Secret"));
		fs.symlinkSync(outside, at("link.md"));
		fs.symlinkSync(good, at("link-to-card.md"));
		fs.symlinkSync("nowhere", at("dangling.md"));
		fs.symlinkSync("loop.md", at("loop.md"));
		fs.mkdirSync(at("directory.md"));
		fs.writeFileSync(at("directory.md/inner.md"), head);
		execFileSync("mkfifo", [at("fifo.md")]);
		const server = net.createServer().listen(at("socket.md"));
		await until(() => server.listening);
		onTestFinished(() => void server.close());
		put(".hidden.md", head);
		put("notes.txt", head);
		put("README", "x");
		put("UPPER.MD", head);
		const snapshot = () =>
			Object.fromEntries(
				[...ls(dir), "../outside.md", "directory.md/inner.md"].map((name) => {
					const stat = fs.lstatSync(at(name));
					return [
						name,
						`${stat.ino} ${stat.mode} ${stat.isDirectory() ? "" : stat.mtimeMs} ${stat.isFile() ? fs.readFileSync(at(name), "latin1") : ""}`,
					];
				}),
			);
		return {
			...made,
			good,
			files: ["link.md", "link-to-card.md", "dangling.md", "loop.md", "directory.md", "fifo.md", "socket.md"],
			snapshot,
		};
	}

	test("is skipped with a reason, opened by nobody, and hides no other", async () => {
		const { board, good, files, snapshot } = await strange();
		const before = snapshot();
		const { cards, skipped } = await board.list();
		expect(cards.map(({ file, warnings }) => [file, warnings])).toEqual([[good, []]]);
		expect(Object.fromEntries(skipped.map(({ file, reason }) => [file, reason]))).toEqual({
			"link.md": "a symlink, no Card",
			"link-to-card.md": "a symlink, no Card",
			"dangling.md": "a symlink, no Card",
			"loop.md": "a symlink, no Card",
			"directory.md": "a directory, no Card",
			"fifo.md": "a FIFO, no Card",
			"socket.md": "a socket, no Card",
		});
		expect(skipped.length).toBe(files.length);
		expect(await board.find("good")).toBe(good);
		expect(await code(() => board.find("fifo"))).toBe("ECARD");
		expect(await code(() => board.find("hidden"))).toBe("ECARD");
		expect(snapshot()).toEqual(before);
	});

	test("is refused by everything that is named, waits for nobody, and stays as it is", async () => {
		const { board, files, snapshot, dir } = await strange();
		await board.edit("good-k3f9q2.md", { title: "Cache layer" }); // makes .locks
		const before = snapshot();
		for (const file of files) {
			const acts: Record<string, () => unknown> = {
				read: () => board.read(file),
				add: () => board.add(file, { author: "bob", text: "x" }),
				claim: () => board.claim(file, "bob"),
				release: () => board.release(file, "bob"),
				done: () => board.done(file, { author: "bob", text: "x" }),
				remove: () => board.remove(file, "bob"),
				edit: () => board.edit(file, { title: "x" }),
				repair: () => board.repair(file),
				purge: () => board.purge(file),
			};
			for (const [name, act] of Object.entries(acts)) expect([file, name, await code(act)]).toEqual([file, name, "ECARD"]);
		}
		expect(snapshot()).toEqual(before);
		expect(ls(dir, ".locks")).toEqual([]);
	});

	test("but is a regular file is listed with a warning, read, and added to, never overwritten", async () => {
		const cases: [string, string | Buffer, string[]][] = [
			["broken.md", "---\ntitle: [x\n---\nhello\n", ["yaml"]],
			["list.md", "---\n- a\n---\nhello\n", ["yaml"]],
			["tag.md", "---\ntitle: !!js/function 'process.exit(9)'\n---\nhello\n", ["yaml"]],
			["bomb.md", "---\na: &a [x, x]\nb: [*a, *a]\n---\nhello\n", ["yaml"]],
			["js.md", "---js\n{ title: (globalThis.pwned = 1) }\n---\nhello\n", ["front-matter"]],
			["nothing.md", "", ["front-matter"]],
			["none.md", "hello\n", ["front-matter"]],
			["unclosed.md", "---\ntitle: x\nhello\n", ["unclosed"]],
			["bom.md", `\ufeff${head}hello\n`, ["bom"]],
			["crlf.md", `${head}\nhello\n`.replaceAll("\n", "\r\n"), []],
			["binary.md", Buffer.from("\xff\xfe\0\x1b[31m\n", "latin1"), ["front-matter"]],
			["conflict.md", `${head}\n<<<<<<< a\nx\n=======\ny\n>>>>>>> b\n`, ["conflict"]],
			["half.md", `${head}\n<<<<<<< a\nx\n`, []],
		];
		const { board, put, dir } = world();
		for (const [name, text] of cases) put(name, text);
		put("good-k3f9q2.md", head);
		const { cards, skipped } = await board.list();
		expect(skipped).toEqual([]);
		expect(Object.fromEntries(cards.map(({ file, warnings }) => [file, warnings]))).toEqual(
			Object.fromEntries([...cases.map(([name, , warnings]) => [name, warnings]), ["good-k3f9q2.md", []]]),
		);
		for (const [name, text] of cases) {
			const card = await board.read(name);
			if (!["bom.md", "crlf.md"].includes(name))
				expect([name, card.title]).toEqual([name, name === "conflict.md" || name === "half.md" ? "Cache layer" : name.slice(0, -3)]);
			board.add(name, { author: "bob", text: "added" });
			const last = (await board.read(name)).entries.at(-1);
			if (name !== "conflict.md") expect([name, last?.text.toString()]).toEqual([name, "added"]);
			expect(fs.readFileSync(path.join(dir, name)).subarray(0, Buffer.byteLength(text)).equals(Buffer.from(text))).toBe(true);
		}
		expect("pwned" in globalThis).toBe(false);
	});

	test("and larger than 16 MiB is listed by its front matter, and read whole when it is named", async () => {
		const { board, put, dir } = world();
		const file = put("large-k3f9q2.md", `${head}\n`);
		put("good-aaaaaa.md", head);
		fs.truncateSync(path.join(dir, file), 50 * 1024 * 1024); // a hole: 50 MiB of NUL that take no disk
		const made = board.add(file, { author: "bob", text: "at the end" });
		const { cards } = await board.list();
		expect(cards.map((card) => [card.file, card.title, card.count, card.warnings]).sort()).toEqual([
			["good-aaaaaa.md", "Cache layer", 0, []],
			[file, "Cache layer", undefined, ["large"]],
		]);
		const card = await board.read(file);
		expect([card.entries.map(({ id }) => id), card.warnings, card.count]).toEqual([[made.id], [], 1]);
		expect(card.introduction.length).toBeGreaterThan(49 * 1024 * 1024);
		expect(await board.find("large")).toBe(file);
	});

	test("and larger than 16 MiB has no holder that was not read to its end", async () => {
		const { board, put, dir } = world();
		const file = put("large-k3f9q2.md", head + entry("aaaaaaaa", `until ${at(hour)} on box`, { type: "claim" }));
		fs.truncateSync(path.join(dir, file), 17 * 1024 * 1024);
		fs.appendFileSync(path.join(dir, file), entry("bbbbbbbb", "on box", { type: "release" }));
		expect((await board.read(file)).holder).toBeUndefined();
		expect((await board.list()).cards[0]?.holder).toBeUndefined();
	});

	test.each(["tags: [a]", "# comment", "[broken"])(
		"and larger than 16 MiB is not read whole to be listed, whatever its front matter says (%s)",
		async (line) => {
			const { board, put, dir } = world();
			const file = put("large-k3f9q2.md", head.replace("title", `${line}\ntitle`));
			fs.truncateSync(path.join(dir, file), 17 * 1024 * 1024);
			const [card] = (await board.list()).cards;
			expect([card?.count, card?.warnings.includes("large")]).toEqual([undefined, true]);
		},
	);

	test("and is a repository's README is no Card", async () => {
		const { board, put } = world();
		for (const name of ["README.md", "readme.md"]) put(name, head);
		expect(await board.list()).toEqual({ cards: [], skipped: [] });
		expect(await code(() => board.find("readme"))).toBe("ECARD");
	});

	/** What somebody sees who owns the Board but may not read what `forbidden` names. */
	async function asNobody(dir: string, forbidden: string, source: string): Promise<unknown> {
		const all = [path.dirname(path.dirname(dir)), path.dirname(dir), dir];
		for (const name of fs.readdirSync(dir, { recursive: true }) as string[]) all.push(path.join(dir, name));
		if (process.getuid?.() === 0) for (const file of all) fs.chownSync(file, 65534, 65534);
		fs.chmodSync(path.join(dir, forbidden), 0);
		const script = `
			import { openBoard, openTree } from ${JSON.stringify(path.join(project, "lib/index.ts"))};
			import "yaml"; import "gray-matter"; import "proper-lockfile";
			if (process.getuid() === 0) { process.setgroups([]); process.setgid(65534); process.setuid(65534); }
			const board = openBoard(openTree({ root: ${JSON.stringify(path.dirname(dir))}, env: {}, durable: false }));
			const code = async (act) => { try { await act(); } catch (error) { return error.code; } };
			console.log(JSON.stringify(await (${source})(board, code)));`;
		const {
			code: exit,
			out,
			err,
		} = await run([process.execPath, "--input-type=module", "-e", script], {
			env: { PATH: process.env.PATH },
			cwd: project,
		});
		expect([exit, err]).toEqual([0, ""]);
		return JSON.parse(out);
	}

	test("and can't be read by us is skipped with the reason, and hides no other", async () => {
		const { put, dir } = world();
		put("good-k3f9q2.md", head);
		put("secret-aaaaaa.md", head);
		const seen = await asNobody(
			dir,
			"secret-aaaaaa.md",
			`async (board, code) => {
				const { cards, skipped } = await board.list();
				return [cards.map(({ file }) => file), skipped, await board.find("good"), await board.find("secret"),
					await code(() => board.read("secret-aaaaaa.md")), await code(() => board.add("secret-aaaaaa.md", { author: "bob", text: "x" })),
					await code(() => board.edit("secret-aaaaaa.md", { title: "x" }))];
			}`,
		);
		expect(seen).toEqual([
			["good-k3f9q2.md"],
			[{ file: "secret-aaaaaa.md", reason: "can't be read (EACCES)" }],
			"good-k3f9q2.md",
			"secret-aaaaaa.md",
			"EACCES",
			"EACCES",
			"EACCES",
		]);
		expect(fs.readFileSync(path.join(dir, "secret-aaaaaa.md"), "utf8")).toBe(head);
	});

	test("and can't be read by us does not keep others from being found by the id in their front matter", async () => {
		const { put, dir } = world();
		put("a-secret.md", head);
		put("renamed.md", head);
		expect(
			await asNobody(dir, "a-secret.md", `async (board, code) => [await code(() => board.find("nothing")), await board.find("k3f9q2")]`),
		).toEqual(["ECARD", "renamed.md"]);
	});

	test("in .locks and can't be read by us hides no Card", async () => {
		const { put, dir } = world();
		put("a.md", head);
		put("b.md", head);
		fs.mkdirSync(path.join(dir, ".locks"));
		put(".locks/a.md.old", head);
		expect(await asNobody(dir, ".locks/a.md.old", "async (board) => (await board.list()).cards.length")).toBe(2);
	});

	test.each(["directory", "symlink", "FIFO"])("in .locks as a %s hides no Card", async (what) => {
		const { board, put, dir } = world();
		put("a.md", head);
		put("b.md", head);
		fs.mkdirSync(path.join(dir, ".locks"));
		const old = path.join(dir, ".locks/a.md.old");
		if (what === "directory") fs.mkdirSync(old);
		else if (what === "symlink") fs.symlinkSync("/nowhere", old);
		else execFileSync("mkfifo", [old]);
		expect((await board.list()).cards.length).toBe(2);
	});
});

test("a Card that is just being written is read again until it is whole", async () => {
	const { dir, put, open } = world();
	const whole = entry("aaaaaaaa", "x".repeat(100));
	const file = path.join(dir, put("c.md", head + whole.slice(0, -30)));
	const board = open({ clock: () => fs.statSync(file).mtimeMs }); // it has always changed just now
	const reading = board.read("c.md");
	setTimeout(() => fs.appendFileSync(file, whole.slice(-30)), 30);
	expect((await reading).entries.map(({ flaws }) => flaws)).toEqual([[]]);
});

test("an Entry that stays torn is shown as torn", async () => {
	const { dir, put } = world();
	const board = openBoard(openTree({ root: path.dirname(dir), env: {}, durable: false }));
	const file = put("c.md", head + entry("aaaaaaaa", "half of it").slice(0, -22));
	expect((await board.read(file)).entries.map(({ flaws, text }) => [text.toString(), flaws])).toEqual([["half of", ["torn"]]]);
	expect(parseCard(fs.readFileSync(path.join(dir, file))).entries.length).toBe(1);
});

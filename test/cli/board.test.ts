/** `xfer board`: what each sub-command prints, changes and refuses, in a pipe and on a terminal. */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { openBoard, openTree } from "../../lib/index.ts";
import { cli, ls, type Result, run, start, tempTree, until } from "../helpers.ts";

const quote = (word: string) => `'${word.replaceAll("'", "'\\''")}'`;
const host = os.hostname().replace(/[^A-Za-z0-9._-]/g, "_");
const DATE = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
/** A line that says what to do. */
const cure = /^xfer: [^\n]+ \([^\n]+\)\n$/;

function make() {
	const { root, env, home } = tempTree();
	const tree = openTree({ root, durable: false });
	const board = openBoard(tree);
	const mine: NodeJS.ProcessEnv = { ...env, XFER_NODE: "alice", TERM: "xterm-256color", XFER_DURABILITY: "none" };
	const dir = path.join(root, "board");
	const at = (file: string) => path.join(dir, file);
	const text = (file: string) => fs.readFileSync(at(file), "latin1");
	/** A file of one's own making. */
	const put = (file: string, bytes: string | Buffer) => {
		fs.mkdirSync(dir, { recursive: true });
		fs.writeFileSync(at(file), bytes);
		return file;
	};
	const card = (title: string, author = "alice", text = "") => board.create({ title, author, text }).file;
	const x = (...args: string[]) => run([...cli, "board", ...args], { env: mine });
	const bob = (...args: string[]) => run([...cli, "board", ...args], { env: { ...mine, XFER_NODE: "bob" } });
	const piped = (input: string | Buffer, ...args: string[]) => run([...cli, "board", ...args], { env: mine, input });
	/** Runs it on a terminal, standard error included; `input` is typed. */
	const tty = (args: string[], { columns = 100, input }: { columns?: number; input?: string } = {}) => {
		const line = `stty cols ${columns} rows 24; exec ${[...cli, "board", ...args].map(quote).join(" ")}`;
		return run(["script", "-qec", line, "/dev/null"], { env: mine, ...(input !== undefined && { input }) });
	};
	const json = async (...args: string[]) => {
		const { code, err, out } = await x(...args, "--json");
		expect([args, code, err]).toEqual([args, 0, ""]);
		expect(out.split("\n").length).toBe(2);
		return JSON.parse(out);
	};
	return { root, home, env: mine, tree, board, dir, at, text, put, card, x, bob, piped, tty, json };
}

function rows({ out }: Result): string[][] {
	return out
		.split("\n")
		.slice(0, -1)
		.map((line) => line.split("\t"));
}

/** Standard output is empty, and standard error one line with a cure. */
function expectRefused(result: Result, code: number, why: RegExp | string = ""): void {
	expect(result).toMatchObject({ code, out: "", err: expect.stringMatching(cure) });
	expect(result.err).toMatch(why);
}

const idOf = (file: string) => file.slice(-9, -3);

describe("new", () => {
	test("prints the id and the path of a Card with the title, who and when", async () => {
		const { x, dir, text, board } = make();
		const result = await x("new", "Cache layer");
		expect(result).toMatchObject({ code: 0, err: "" });
		const [[id = "", file = ""] = []] = rows(result);
		expect(id).toMatch(/^[0-9a-hjkmnp-tv-z]{6}$/);
		expect(file).toBe(path.join(dir, `cache-layer-${id}.md`));
		expect(text(path.basename(file))).toMatch(
			new RegExp(`^---\nid: "?${id}"?\ntitle: Cache layer\ncreated_by: alice\ncreated_at: [\\dT:.-]+Z\n---\n$`),
		);
		expect(fs.statSync(file).mode & 0o777).toBe(0o600);
		expect(ls(dir, ".locks")).toEqual([]);
		expect((await board.read(path.basename(file))).entries).toEqual([]);
	});

	test("takes an introduction as words, from standard input, or none; each byte of it is kept", async () => {
		const { x, piped, board } = make();
		const odd = "### k3f9q2ab · note · x · y\n<!-- k3f9q2ab -->\n---\r\n<<<<<<< x\n\\### a\n";
		const all = await Promise.all([
			x("new", "One", "some", "words"),
			piped(odd, "new", "Two", "-"),
			x("new", "Three"),
			piped("", "new", "Four", "-"),
		]);
		const cards = await Promise.all(all.map((result) => board.read(path.basename(rows(result)[0]?.[1] ?? ""))));
		expect(cards.map(({ introduction, entries }) => [introduction.toString(), entries.length])).toEqual([
			["some words", 0],
			[odd.trimEnd(), 0],
			["", 0],
			["", 0],
		]);
	});

	test("keeps any title as it is, on one line, and names the file after it", async () => {
		const { x, json, dir } = make();
		const titles = [
			["$& and $1 and $` too", /^and-1-and-too-/],
			["---", /^card-/],
			["日本語", /^card-/],
			["null", /^null-/],
			["1e3", /^1e3-/],
			["a: b # c", /^a-b-c-/],
			['"quoted" \\ back', /^quoted-back-/],
			["../../etc/passwd", /^etc-passwd-/],
			["  blanks  ", /^blanks-/],
			["x".repeat(300), /^x{48}-/],
			["- a list", /^a-list-/],
			["@at `tick`", /^at-tick-/],
			["e\u0301\x1b[2J", /^.*-/],
		] as const;
		for (const [title, name] of titles) {
			const [[id = "", file = ""] = []] = rows(await x("new", "--", title));
			expect([title, path.dirname(file), path.basename(file)]).toEqual([title, dir, expect.stringMatching(name)]);
			expect((await json("show", id)).title).toBe(title.trim());
		}
		const [[id = ""] = []] = rows(await x("new", "two\nlines"));
		expect((await json("show", id)).title).toBe("two lines");
	});

	test("without a title, or with too much, is refused and makes nothing", async () => {
		const { x, piped, env, root } = make();
		const refused = [
			await x("new"),
			await x("new", " "),
			await x("new", "A", "b", "-"),
			await piped("y".repeat(1024 * 1024 + 1), "new", "A", "-"),
		];
		for (const result of refused) expectRefused(result, 2);
		expect(refused.at(-1)?.err).toMatch(/1048577 bytes.*1048576/);
		expectRefused(await run([...cli, "board", "new", "A"], { env: { ...env, XFER_NODE: "Not a name!" } }), 2);
		expect(ls(root, "board")).toEqual([]);
	});

	test("--json is one document", async () => {
		const { json, at } = make();
		const made = await json("new", "A title");
		expect(made).toEqual({
			schema: "xfer.change/1",
			change: "created",
			changed: true,
			id: made.id,
			file: `a-title-${made.id}.md`,
			path: at(`a-title-${made.id}.md`),
		});
	});
});

describe("add", () => {
	test("appends one Entry, and not a byte of what was there changes", async () => {
		const { x, card, text } = make();
		const file = card("Cache", "bob", "Introduction.");
		const before = text(file);
		const result = await x("add", "cache", "some", "words", "--type", "finding");
		const [[added, id, name] = []] = rows(result);
		expect([result.code, result.err, added, name]).toEqual([0, "", "added", file]);
		expect(text(file)).toMatch(
			new RegExp(
				`^${before.replaceAll(".", "\\.")}\n### ${id} \xc2\xb7 finding \xc2\xb7 alice \xc2\xb7 [\\dT:.-]+Z\n\nsome words\n<!-- ${id} -->\n$`,
			),
		);
	});

	test("is a note unless it has a type; a type is a word", async () => {
		const { x, card, json } = make();
		const file = card("Cache");
		await x("add", "cache", "one");
		await x("add", "cache", "two", "--type=my_own-type2");
		for (const type of ["", "Note", "two words", "a · b", "x".repeat(33), "1a"])
			expectRefused(await x("add", "cache", "x", "--type", type), 2, /type/);
		const { entries } = await json("show", file);
		expect(entries.map(({ type, text }: { type: string; text: string }) => [type, text])).toEqual([
			["note", "one"],
			["my_own-type2", "two"],
		]);
	});

	test("reads standard input with -, and without words; each byte is read back: no last newline, CRLF, NUL, bad UTF-8, structure", async () => {
		const { piped, card, board } = make();
		const file = card("Cache");
		const texts = [
			"no last newline",
			"two\n\n",
			"\n\nlines before",
			"crlf\r\n",
			"nul \0 and esc \x1b[2J",
			Buffer.from([0xff, 0xfe, 0x0a, 0xc3]),
			"### k3f9q2ab · note · a · b\n\nx\n<!-- k3f9q2ab -->",
			"<!-- x -->\n---\ntitle: x\n---\n\\### y\n\\\\<!-- z",
			"<<<<<<< a\nb\n||||||| c\n=======\nd\n>>>>>>> e",
			"---js\nprocess.exit(1)\n---",
			"@ me@x.org @\n",
		].map((text) => Buffer.from(text as string));
		for (const [n, text] of texts.entries())
			expect(await piped(text, "add", "cache", ...(n % 2 ? ["-"] : []))).toMatchObject({ code: 0, err: "" });
		const { entries, warnings } = await board.read(file);
		expect(entries.map((entry) => entry.text.toString("latin1"))).toEqual(texts.map((text) => text.toString("latin1")));
		expect([entries.flatMap(({ flaws }) => flaws), warnings]).toEqual([[], []]);
	});

	test("takes 1 MiB, and refuses a byte more, with both numbers; XFER_MAX_BYTES raises it", async () => {
		const { env, piped, card, board, text } = make();
		const file = card("Cache");
		const most = Buffer.alloc(1024 * 1024, "### a line of text that looks like one\n");
		expect(await piped(most, "add", "cache", "-")).toMatchObject({ code: 0, err: "" });
		expect((await board.read(file)).entries[0]?.text.equals(most)).toBe(true);
		const before = text(file);
		const more = Buffer.concat([most, Buffer.from("x")]);
		expectRefused(await piped(more, "add", "cache", "-"), 2, /1048577 bytes.*1048576/);
		expectRefused(await piped(Buffer.alloc(5 * 1024 * 1024, "x"), "add", "cache", "-"), 2, /5242880 bytes.*1048576/);
		expect(text(file) === before).toBe(true);
		expect(await run([...cli, "board", "add", "cache", "-"], { env: { ...env, XFER_MAX_BYTES: "2000000" }, input: more })).toMatchObject({
			code: 0,
		});
		expect((await board.read(file)).entries[1]?.text.equals(more)).toBe(true);
	});

	test("of nothing is refused; on a terminal it says how to give a text", async () => {
		const { x, piped, tty, card, text } = make();
		const file = card("Cache");
		const before = text(file);
		expectRefused(await piped("", "add", "cache"), 2, /empty/);
		expectRefused(await x("add", "cache", ""), 2, /empty/);
		expectRefused(await piped("x", "add", "cache", "words", "-"), 2, /not both/);
		expectRefused(await x("add"), 2, /needs CARD/);
		const terminal = await tty(["add", "cache"]);
		expect([terminal.code, terminal.out]).toEqual([
			2,
			expect.stringMatching(/^xfer: standard input is a terminal \(xfer board add cache "…", or: … \| xfer board add cache -\)\r\n$/),
		]);
		expect(text(file)).toBe(before);
	});

	test("--json is the Entry, and who was told of it", async () => {
		const { json, card, tree } = make();
		const file = card("Cache");
		tree.join("bob");
		const added = await json("add", "cache", "@bob look");
		expect(added).toEqual({
			schema: "xfer.entry/1",
			file,
			id: added.id,
			type: "note",
			author: "alice",
			date: expect.stringMatching(DATE),
			text: "@bob look",
			flaws: [],
			mentioned: [{ to: "bob", id: expect.stringMatching(new RegExp(`^\\d+\\.M000000R${added.id}\\.${idOf(file)}\\.bob$`)) }],
		});
	});

	test("hands those it mentions a note with the Card, the Entry and its text, once each; an unknown name is a warning", async () => {
		const { x, card, tree } = make();
		const file = card("Cache");
		for (const name of ["alice", "bob", "carol"]) tree.join(name);
		const result = await x("add", "cache", "@bob, @carol and @bob: see @nobody, me@bob.org, `@carol`, @alice");
		expect(result).toMatchObject({ code: 0, err: expect.stringMatching(/^xfer: @nobody was not told: no Node "nobody" \([^\n]+\)\n$/) });
		const [[, id] = []] = rows(result);
		for (const name of ["bob", "carol"]) {
			const { items } = tree.node(name).inbox.list();
			expect(items.map(({ from, kind }) => [from, kind])).toEqual([["alice", "note"]]);
			const body = fs.readFileSync(path.join(tree.node(name).directory, "new", items[0]?.id ?? ""), "utf8");
			for (const part of [id, idOf(file), "see @nobody"]) expect(body).toContain(part);
		}
		expect(tree.node("alice").inbox.list().items).toEqual([]);
		expect(tree.names()).not.toContain("nobody");
		expect(await x("add", "cache", "@bob again", "--no-mention")).toMatchObject({ code: 0, err: "" });
		expect(tree.node("bob").inbox.list().items.length).toBe(1);
	});

	test("to a removed Card says so; to one that is done brings it back", async () => {
		const { x, card } = make();
		const [one, two] = [card("Removed"), card("Finished")];
		await x("rm", one);
		await x("done", two);
		expect(rows(await x("list"))).toEqual([]);
		expect(await x("add", one, "more")).toMatchObject({ code: 0, err: expect.stringMatching(/was removed.*--undo/) });
		expect(await x("add", two, "more")).toMatchObject({ code: 0, err: "" });
		expect(rows(await x("list")).map(([id]) => id)).toEqual([idOf(two)]);
	});
});

describe("a CARD", () => {
	test("is any piece of its name of 3 characters or more, or a path; a whole name or id comes first, case is folded", async () => {
		const { x, card, put, at } = make();
		const file = card("Cache layer");
		put("cache.md", "---\ntitle: short\n---\n");
		put(`other-about-${idOf(file)}-and-more.md`, "---\ntitle: other\n---\n");
		const own = fs.readFileSync(at(file)).toString();
		for (const piece of ["cache-la", "LAYER", idOf(file), idOf(file).toUpperCase(), file, file.slice(0, -3), at(file), `./${file}`])
			expect([piece, await x("show", piece)]).toEqual([piece, expect.objectContaining({ code: 0, err: "", out: own })]);
		expect((await x("show", "cache")).out).toBe("---\ntitle: short\n---\n");
	});

	test("that fits several is refused with the candidates; one that is too short, and one that is not there, are refused too", async () => {
		const { x, piped, card, text } = make();
		const files = [card("Cache layer"), card("Cache size")];
		const before = files.map(text);
		const commands = [
			["show"],
			["add"],
			["claim"],
			["release"],
			["done"],
			["edit", "--title", "x"],
			["rm"],
			["rm", "--purge", "--yes"],
			["watch"],
			["repair"],
		];
		for (const [command = "", ...more] of commands) {
			const ambiguous = await piped("text", command, "cache", ...more);
			expectRefused(ambiguous, 2, /fits 2 Cards/);
			for (const file of files) expect(ambiguous.err).toContain(file.slice(0, -3));
			expectRefused(await piped("text", command, "ca", ...more), 2, /too short/);
			expectRefused(await piped("text", command, "nothing-like-it", ...more), 3, /no Card "nothing-like-it"/);
			expectRefused(await piped("text", command, "../../etc/passwd", ...more), 3, /no Card/);
		}
		expect(files.map(text)).toEqual(before);
		expect(await x("show", "cache-s")).toMatchObject({ code: 0 });
	});

	test("where there is no Board yet is not there; a list is empty; and nothing is made", async () => {
		const { x, root } = make();
		expect(await x("list")).toMatchObject({ code: 0, out: "", err: "" });
		expect(await x()).toMatchObject({ code: 0, out: "", err: "" });
		expectRefused(await x("show", "cache"), 3);
		expectRefused(await x("add", "cache", "x"), 3);
		expect(await x("repair")).toMatchObject({ code: 0, out: "", err: "nothing to repair\n" });
		expect(ls(root)).toEqual([]);
	});
});

describe("list", () => {
	test("is a line a Card, newest activity first, with tabs: id, title, by, Entries, date and author of the last, holder, whether done", async () => {
		const { x, bob, put, card } = make();
		put("old-aaaaaa.md", "---\nid: aaaaaa\ntitle: Old\ncreated_by: carol\ncreated_at: 2020-01-02T03:04:05.000Z\n---\n");
		put("new-bbbbbb.md", "---\nid: bbbbbb\ntitle: In the middle\ncreated_by: carol\ncreated_at: 2021-01-02T03:04:05.000Z\n---\n");
		const file = card("Cache");
		await bob("add", "cache", "one");
		await bob("claim", "cache");
		const result = await x("list");
		expect(result).toMatchObject({ code: 0, err: "" });
		const last = expect.stringMatching(DATE);
		expect(rows(result)).toEqual([
			[idOf(file), "Cache", "alice", "2", last, "bob", "bob", ""],
			["bbbbbb", "In the middle", "carol", "0", "2021-01-02T03:04:05.000Z", "carol", "", ""],
			["aaaaaa", "Old", "carol", "0", "2020-01-02T03:04:05.000Z", "carol", "", ""],
		]);
		await x("add", "old", "fresh");
		expect(rows(await x()).map(([id]) => id)).toEqual(["aaaaaa", idOf(file), "bbbbbb"]);
	});

	test("leaves out what is done or removed, unless --all; --mine is what I began or hold", async () => {
		const { x, bob, card } = make();
		const [open, done, removed, held] = [card("Open"), card("Done"), card("Removed"), card("Held", "bob")];
		card("Another's", "bob");
		await Promise.all([x("done", done), x("rm", removed), x("claim", held), bob("claim", open)]);
		const ids = async (...args: string[]) =>
			rows(await x(...args))
				.map(([, title]) => title)
				.sort();
		expect(await ids("list")).toEqual(["Another's", "Held", "Open"]);
		expect(await ids("list", "--all")).toEqual(["Another's", "Done", "Held", "Open", "Removed"]);
		expect(await ids("list", "--mine")).toEqual(["Held", "Open"]);
		expect(await ids("--mine", "--all")).toEqual(["Done", "Held", "Open", "Removed"]);
		expect(await ids("list", "--mine", "--as", "bob")).toEqual(["Another's", "Held", "Open"]);
		expect(await ids("list", "--mine", "--as", "carol")).toEqual([]);
	});

	test("--json is one document, with what is no Card and why", async () => {
		const { x, json, card, at, dir } = make();
		const file = card("Cache");
		await x("claim", "cache", "--for", "1d");
		fs.mkdirSync(at("a-directory.md"));
		fs.symlinkSync("/etc/passwd", at("a-link.md"));
		fs.writeFileSync(at(".hidden.md"), "x");
		fs.writeFileSync(at("notes.txt"), "x");
		const list = await json("list");
		expect(list).toEqual({
			schema: "xfer.board/1",
			directory: dir,
			cards: [
				{
					id: idOf(file),
					file,
					path: at(file),
					title: "Cache",
					created_by: "alice",
					created_at: expect.stringMatching(DATE),
					count: 1,
					last: { author: "alice", date: expect.stringMatching(DATE) },
					holder: { name: "alice", host, until: expect.stringMatching(DATE) },
					done: false,
					removed: false,
					warnings: [],
				},
			],
			skipped: [
				{ file: "a-directory.md", reason: expect.stringContaining("a directory") },
				{ file: "a-link.md", reason: expect.stringContaining("a symlink") },
			],
		});
		expect(await x("list")).toMatchObject({
			code: 0,
			err: "xfer: a-directory.md is left alone: a directory, no Card\nxfer: a-link.md is left alone: a symlink, no Card\n",
		});
	});

	test("on a terminal is aligned, fits its width, and says so when there is nothing", async () => {
		const { x, tty, card } = make();
		const empty = await tty(["list"]);
		expect([empty.code, empty.out]).toEqual([0, expect.stringMatching(/^no Cards yet: xfer board new "Title"\r\n$/)]);
		const [one, other] = [card("A title that is rather long, and goes on and on until it does not fit"), card("日本語のカード")];
		await x("claim", one);
		for (const columns of [50, 80, 120]) {
			const { out } = await tty(["list"], { columns });
			const lines = plain(out);
			expect(lines.length).toBe(2);
			for (const line of lines)
				expect([columns, [...line].reduce((sum, char) => sum + (char > "\u2e7f" ? 2 : 1), 0) <= columns]).toEqual([columns, true]);
			expect(lines.join("\n")).toMatch(/claimed/);
		}
		await Promise.all([x("done", one), x("rm", other)]);
		expect(plain((await tty(["list"])).out)).toEqual(["all Cards are done or removed (--all lists them)"]);
	});
});

const colours = new RegExp(`${"\x1b"}\\[\\d*m`, "g");
/** The lines of a terminal, without colours. */
function plain(out: string): string[] {
	return out.replace(colours, "").split("\r\n").slice(0, -1);
}

describe("show", () => {
	test("in a pipe is the bytes of the file, whatever they are", async () => {
		const { x, put } = make();
		const cards = [
			"---\r\ntitle: x\r\n---\r\n\r\n### typed · by\r\nhand",
			"\ufeffno front matter\n",
			Buffer.from([0xff, 0x00, 0x1b, 0x5b, 0x32, 0x4a]),
			"",
			"---\ntitle: x\n---\n<<<<<<< a\none\n=======\ntwo\n>>>>>>> b\n",
			"---js\nprocess.exit(9)\n---\n",
		];
		for (const [n, bytes] of cards.entries()) {
			put(`card-${n}.md`, bytes);
			const { code, bytes: out } = await x("show", `card-${n}`);
			expect([n, code, out.equals(Buffer.from(bytes as string))]).toEqual([n, 0, true]);
		}
	});

	test("--last and --since choose Entries: their bytes, or in JSON", async () => {
		const { x, json, put } = make();
		const entry = (id: string, hours: number) =>
			`### ${id} · note · bob · ${new Date(Date.now() - hours * 3600_000).toISOString()}\n\ntext ${id}\n<!-- ${id} -->\n`;
		const parts = [entry("aaaaaaaa", 50), entry("bbbbbbbb", 3), entry("cccccccc", 1), "### note · bob\n\nwithout a date\n"];
		put("cache.md", `---\ntitle: x\n---\n\nintro\n\n${parts.join("\n")}`);
		expect(await x("show", "cache", "--last", "2")).toMatchObject({ code: 0, err: "", out: `${parts[2]}${parts[3]}` });
		expect((await x("show", "cache", "--last", "99")).out).toBe(parts.join(""));
		expect((await x("show", "cache", "--since", "2h")).out).toBe(parts[2]);
		expect((await x("show", "cache", "--since", "7d", "--last", "1")).out).toBe(parts[2]);
		expect((await x("show", "cache", "--since", "10s")).out).toBe("");
		expect((await json("show", "cache", "--since", "4h")).entries.map(({ id }: { id: string }) => id)).toEqual(["bbbbbbbb", "cccccccc"]);
		for (const wrong of [
			["--last", "0"],
			["--last", "-1"],
			["--last=-1"],
			["--last", "many"],
			["--last", "1.5"],
			["--since", "yesterday"],
			["--since", "1"],
			["--last"],
		])
			expectRefused(await x("show", "cache", ...wrong), 2, /--(last|since)/);
	});

	test("--json is one document with everything", async () => {
		const { json, put, at } = make();
		put(
			"cache-layer-k3f9q2.md",
			Buffer.concat([
				Buffer.from("---\nid: k3f9q2\ntitle: 'It''s'\ncreated_by: bob\ncreated_at: 2026-01-01T00:00:00.000Z\ntags: [a, b]\n---\n\nintro\n"),
				Buffer.from(
					"\n### aaaaaaaa · claim · bob · 2026-01-01T00:00:00.000Z\n\nuntil 2999-01-01T00:00:00.000Z on there\n<!-- aaaaaaaa -->\n",
				),
				Buffer.from("\n### bbbbbbbb · note · bob · 2026-01-02T00:00:00.000Z\n\n"),
				Buffer.from([0xff, 0xfe]),
				Buffer.from("\n<!-- bbbbbbbb -->\n\n### finding · carol\n\ntyped"),
			]),
		);
		const shown = await json("show", "k3f9q2");
		expect(shown).toEqual({
			schema: "xfer.card/1",
			id: "k3f9q2",
			file: "cache-layer-k3f9q2.md",
			path: at("cache-layer-k3f9q2.md"),
			title: "It's",
			created_by: "bob",
			created_at: "2026-01-01T00:00:00.000Z",
			count: 3,
			last: { author: "carol", date: expect.stringMatching(DATE) },
			front: { id: "k3f9q2", title: "It's", created_by: "bob", created_at: "2026-01-01T00:00:00.000Z", tags: '["a","b"]' },
			introduction: "intro",
			entries: [
				{
					id: "aaaaaaaa",
					type: "claim",
					author: "bob",
					date: "2026-01-01T00:00:00.000Z",
					text: "until 2999-01-01T00:00:00.000Z on there",
					flaws: [],
				},
				{ id: "bbbbbbbb", type: "note", author: "bob", date: "2026-01-02T00:00:00.000Z", textBase64: "//4=", flaws: [] },
				{
					id: expect.stringMatching(/^[0-9a-z]{8}$/),
					type: "finding",
					author: "carol",
					date: null,
					text: "typed",
					flaws: ["torn", "typed"],
				},
			],
			holder: { name: "bob", host: "there", until: "2999-01-01T00:00:00.000Z" },
			done: false,
			removed: false,
			warnings: [],
		});
	});

	test("says on standard error what is wrong with a Card, and shows it all the same", async () => {
		const { x, put } = make();
		const cards = [
			["no front matter", "just text\n", "front-matter"],
			["does not close", "---\ntitle: x\n", "unclosed"],
			["byte order mark", "\ufeff---\ntitle: x\n---\n", "bom"],
			["can't be read", "---\ntitle: [x\n---\n", "yaml"],
			["can't be read", "---\ntitle: !!js/function 'function () {}'\n---\n", "yaml"],
			["git left two sides", "---\ntitle: x\n---\n<<<<<<< a\none\n=======\ntwo\n>>>>>>> b\n", "conflict"],
		] as const;
		for (const [n, [why, bytes, warning]] of cards.entries()) {
			put(`card-${n}.md`, bytes);
			const { code, out, err } = await x("show", `card-${n}`);
			expect([code, out, err]).toEqual([0, bytes, expect.stringMatching(new RegExp(`^xfer: card-${n}\\.md: [^\n]*${why}[^\n]*\n$`))]);
			const shown = await x("show", `card-${n}`, "--json");
			expect([shown.code, JSON.parse(shown.out).warnings]).toEqual([0, [warning]]);
		}
		const list = await x("list");
		expect([list.code, rows(list).length]).toEqual([0, cards.length]);
		for (const [why] of cards) expect(list.err).toContain(why);
	});

	test("on a terminal is rendered: title, who, when, the holder, and each Entry with who and how old", async () => {
		const { x, bob, tty, card, at } = make();
		const file = card("Cache layer", "alice", "The introduction.");
		await bob("add", "cache", "first\n\tsecond", "--type", "finding");
		await x("claim", "cache");
		fs.appendFileSync(at(file), "\n### note · carol\n\ntyped by her\n");
		const { code, out } = await tty(["show", "cache"]);
		expect([code, plain(out)]).toEqual([
			0,
			[
				"Cache layer",
				expect.stringMatching(
					new RegExp(`^${idOf(file)} · by alice · \\d+ s ago · claimed by alice on ${host} until \\d\\d:\\d\\d|.* until \\d{4}-`),
				),
				"",
				"The introduction.",
				"",
				expect.stringMatching(/^finding · bob · \d+ s ago · [0-9a-z]{8}$/),
				"first",
				"\tsecond",
				"",
				expect.stringMatching(/^claim · alice · \d+ s ago · [0-9a-z]{8}$/),
				expect.stringMatching(/^until /),
				"",
				expect.stringMatching(/^note · carol · no date · [0-9a-z]{8} \(without a closing line, typed by hand\)$/),
				"typed by her",
			],
		]);
		expect(plain((await tty(["show", "cache", "--last", "1"])).out).slice(2)).toEqual([
			"",
			"(2 more)",
			"",
			expect.stringMatching(/^note · carol/),
			"typed by her",
		]);
	});
});

describe("claim, release and done", () => {
	test("a claim is for the name and the host: printed, exit 5 for others with the holder and until when, nothing appended by who sees it", async () => {
		const { x, bob, card, text, json } = make();
		const file = card("Cache");
		const before = Date.now();
		const claimed = await x("claim", "cache");
		const [[word, id, until = ""] = []] = rows(claimed);
		expect([claimed.code, claimed.err, word]).toEqual([0, "", "claimed"]);
		expect(until).toMatch(/^until \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
		const end = Date.parse(until.slice(6));
		expect(end - before).toBeGreaterThanOrEqual(2 * 3600_000);
		expect(end - Date.now()).toBeLessThanOrEqual(2 * 3600_000);
		const shown = await json("show", "cache");
		expect([shown.holder, shown.entries.map(({ id }: { id: string }) => id)]).toEqual([
			{ name: "alice", host, until: until.slice(6) },
			[id],
		]);
		const bytes = text(file);
		for (const words of [
			["claim", "cache"],
			["release", "cache"],
			["done", "cache"],
			["done", "cache", "mine"],
		])
			expectRefused(await bob(...words), 5, new RegExp(`claimed by alice on ${host} until ${until.slice(6)}`));
		expect(text(file)).toBe(bytes);
		expect((await bob("add", "cache", "anybody may")).code).toBe(0);
	});

	test("another host of the same name is another", async () => {
		const { x, put, text } = make();
		const file = put(
			"cache.md",
			"---\ntitle: x\n---\n\n### aaaaaaaa · claim · alice · 2026-01-01T00:00:00.000Z\n\nuntil 2999-01-01T00:00:00.000Z on elsewhere\n<!-- aaaaaaaa -->\n",
		);
		const bytes = text(file);
		for (const words of [
			["claim", "cache"],
			["release", "cache"],
			["done", "cache"],
		])
			expectRefused(await x(...words), 5, /claimed by alice on elsewhere until 2999-/);
		expect(text(file)).toBe(bytes);
	});

	test("a second claim of the holder extends, never shortens; --for says how long", async () => {
		const { x, card, json } = make();
		card("Cache");
		const end = async (...args: string[]) => {
			const [[, , until = ""] = []] = rows(await x("claim", "cache", ...args));
			return Math.round((Date.parse(until.slice(6)) - Date.now()) / 60_000);
		};
		expect([await end("--for", "30m"), await end("--for", "3h"), await end("--for", "10m"), await end("--for", "7d")]).toEqual([
			30,
			180,
			180,
			7 * 24 * 60,
		]);
		expect((await json("show", "cache")).holder.name).toBe("alice");
		for (const wrong of [["--for", "0s"], ["--for", "soon"], ["--for", "2"], ["--for"], ["--for", "-1h"]])
			expectRefused(await x("claim", "cache", ...wrong), 2, /--for/);
	});

	test("an expired one can be taken by another, and is no longer released by who had it", async () => {
		const { x, bob, card } = make();
		const file = card("Cache");
		expect((await bob("claim", "cache", "--for", "1s")).code).toBe(0);
		const taken = await until(async () => {
			const result = await x("claim", "cache");
			return result.code === 0 ? result : undefined;
		}, "the claim to end");
		expect(taken.out).toMatch(/^claimed\t/);
		expectRefused(await bob("release", "cache"), 5, /claimed by alice/);
		expect(await x("release", "cache")).toMatchObject({ code: 0, out: `released\t${file}\n`, err: "" });
	});

	test("who releases what nobody holds is told so, exit 0, and nothing is appended", async () => {
		const { x, card, text } = make();
		const file = card("Cache");
		const before = text(file);
		expect(await x("release", "cache")).toMatchObject({ code: 0, out: `released\t${file}\n`, err: `nobody held ${file.slice(0, -3)}\n` });
		expect(text(file)).toBe(before);
	});

	test("done ends the claim and hides the Card; its text is words or standard input, or none", async () => {
		const { x, piped, bob, card, board, json } = make();
		const [one, two, three] = [card("One"), card("Two"), card("Three")];
		await x("claim", one);
		const done = await x("done", one, "merged", "in", "4f2a1c");
		expect(done).toMatchObject({ code: 0, err: "", out: expect.stringMatching(new RegExp(`^done\t[0-9a-z]{8}\t${one}\n$`)) });
		await piped("from a pipe\n", "done", two, "-");
		await x("done", three);
		const cards = await Promise.all([one, two, three].map((file) => board.read(file)));
		expect(cards.map(({ done, holder, entries }) => [done, holder, entries.at(-1)?.text.toString()])).toEqual([
			[true, undefined, "merged in 4f2a1c"],
			[true, undefined, "from a pipe\n"],
			[true, undefined, ""],
		]);
		expect(rows(await x("list"))).toEqual([]);
		expect(await bob("claim", one)).toMatchObject({ code: 5, out: "", err: expect.stringContaining("is done, says alice") });
		await bob("add", one, "there is more");
		expect((await bob("claim", one)).code).toBe(0);
		expect((await json("show", one)).done).toBe(false);
	});

	test("the last words of done mention too", async () => {
		const { x, card, tree } = make();
		card("Cache");
		tree.join("bob");
		expect(await x("done", "cache", "@bob it is merged")).toMatchObject({ code: 0, err: "" });
		expect(
			tree
				.node("bob")
				.inbox.list()
				.items.map(({ from, kind }) => [from, kind]),
		).toEqual([["alice", "note"]]);
	});

	test("--json of each is one document", async () => {
		const { json, x, card } = make();
		const file = card("Cache");
		const claimed = await json("claim", "cache");
		expect(claimed).toEqual({
			schema: "xfer.claim/1",
			file,
			id: claimed.id,
			holder: { name: "alice", host, until: expect.stringMatching(DATE) },
		});
		expect(await json("release", "cache")).toEqual({ schema: "xfer.change/1", file, change: "released", changed: true });
		const again = await x("release", "cache", "--json");
		expect(JSON.parse(again.out)).toEqual({ schema: "xfer.change/1", file, change: "released", changed: false });
		const done = await json("done", "cache", "x");
		expect(done).toEqual({
			schema: "xfer.entry/1",
			file,
			id: done.id,
			type: "done",
			author: "alice",
			date: expect.stringMatching(DATE),
			text: "x",
			flaws: [],
			mentioned: [],
		});
	});
});

describe("edit", () => {
	const front = [
		"# a comment of mine",
		"title: 'Old title' # why",
		"id: k3f9q2",
		"tags: [a, b]",
		"z_own: |",
		"  two",
		"  lines",
		"created_by:   bob",
		"created_at: 2026-01-01T00:00:00.000Z",
		"",
	];
	const rest =
		"\r\n\nintro\r\n\n### aaaaaaaa · note · bob · 2026-01-01T00:00:00.000Z\n\ntitle: not this\n<!-- aaaaaaaa -->\nno last newline";

	test.each([
		["LF", "\n"],
		["CRLF", "\r\n"],
	])("changes one line and not a byte beside it: comments, order, unknown keys, %s", async (_, newline) => {
		const { x, put, text } = make();
		const of = (lines: string[]) => Buffer.from(`---${newline}${lines.join(newline)}---${rest}`).toString("latin1");
		const file = put("cache-k3f9q2.md", Buffer.from(of(front), "latin1"));
		expect(await x("edit", "cache", "--title", "New title")).toMatchObject({ code: 0, err: "", out: `edited\t${file}\n` });
		expect(text(file)).toBe(of(front.with(1, "title: New title # why")));
		expect((await x("edit", "cache", "--set", "created_by=carol")).code).toBe(0);
		expect(text(file)).toBe(of(front.with(1, "title: New title # why").with(7, "created_by:   carol")));
		expect((await x("edit", "cache", "--set", "owner=api")).code).toBe(0);
		expect(text(file)).toBe(of([...front.with(1, "title: New title # why").with(7, "created_by:   carol").slice(0, -1), "owner: api", ""]));
	});

	test("takes any value as it is: $& and $1, colons, quotes, what YAML reads as another type, nothing; the file keeps its name and id", async () => {
		const { x, card, json, dir } = make();
		const file = card("Cache");
		const values = [
			"$& and $1 $$ $` $'",
			"a: b # c",
			"'single' \"double\" \\",
			"null",
			"1e3",
			"true",
			"- x",
			"[a",
			"{",
			"&a",
			"*a",
			"!t",
			"@x",
			"`x`",
			"日本語 🎉",
			"---",
			"...",
			" blanks ",
			"tab\there",
			"x".repeat(5000),
		];
		for (const value of values) {
			expect([value, await x("edit", "cache", `--title=${value}`)]).toEqual([value, expect.objectContaining({ code: 0, err: "" })]);
			const { title, id, warnings } = await json("show", "cache");
			expect([title, id, warnings]).toEqual([value.trim(), idOf(file), []]);
		}
		for (const value of ["$& $1", "=a=b", "", "null", "~"]) {
			expect((await x("edit", "cache", "--set", `key=${value}`)).code).toBe(0);
			expect((await json("show", "cache")).front.key).toBe(value);
		}
		expect(ls(dir)).toEqual([".locks", file]);
		expect(ls(dir, ".locks")).toEqual([]);
	});

	test("takes __proto__ for a key as any other", async () => {
		const { x, card, text } = make();
		const file = card("Cache");
		expect(await x("edit", "cache", "--set", "__proto__=x", "--set", "a=b")).toMatchObject({ code: 0, err: "" });
		expect(text(file)).toMatch(/^__proto__: x$/m);
	});

	test("several --set and --title at once are all done, or none", async () => {
		const { x, card, json, text } = make();
		const file = card("Cache");
		expect(
			await x("edit", "cache", "--set", "a=1", "--title", "T", "--set", "b=2", "--set", "a=3", "--set", "constructor=x"),
		).toMatchObject({ code: 0 });
		const { front } = await json("show", "cache");
		expect([front.a, front.b, front.title, front.constructor]).toEqual(["3", "2", "T", "x"]);
		const before = text(file);
		expectRefused(await x("edit", "cache", "--set", "c=1", "--set", "not a key=2"), 2, /not a key/);
		expect(text(file)).toBe(before);
	});

	test("is refused for the id, for what is no KEY=VALUE, without a change, and on what can't be read; nothing changes", async () => {
		const { x, card, put, text } = make();
		const file = card("Cache");
		const before = text(file);
		for (const [words, why] of [
			[["--set", "id=zzzzzz"], /keeps its id/],
			[["--set", "novalue"], /KEY=VALUE/],
			[["--set", "=x"], /KEY=VALUE/],
			[["--set", "a b=x"], /not a key/],
			[["--set", "1a=x"], /not a key/],
			[["--set"], /needs a value/],
			[["--title"], /needs a value/],
			[["--title", " \n "], /needs a title/],
			[[], /nothing to change/],
			[["words"], /too many words/],
		] as const)
			expectRefused(await x("edit", "cache", ...words), 2, why);
		expect(text(file)).toBe(before);
		for (const [n, bytes] of [
			"no front matter\n",
			"---\ntitle: [x\n---\n",
			"---\ntitle: x\n",
			"---\ntitle: !!js/function 'x'\n---\n",
			"---js\nx\n---\n",
			"---\na: &x b\nc: *x\n---\n",
			"---\n- a\n- list\n---\n",
		].entries()) {
			const other = put(`other-${n}.md`, bytes);
			expectRefused(await x("edit", `other-${n}`, "--title", "x"), 1);
			expect(text(other)).toBe(bytes);
		}
	});

	test("of the same value again changes nothing, and keeps the file's mode", async () => {
		const { x, card, at, text } = make();
		const file = card("Cache");
		fs.chmodSync(at(file), 0o640);
		await x("edit", "cache", "--title", "Other");
		const [before, { ino, mode }] = [text(file), fs.statSync(at(file))];
		expect(mode & 0o777).toBe(0o640);
		expect(await x("edit", "cache", "--title", "Other")).toMatchObject({ code: 0, out: `edited\t${file}\n` });
		expect([text(file), fs.statSync(at(file)).ino]).toEqual([before, ino]);
	});

	test("--json is one document", async () => {
		const { json, card } = make();
		const file = card("Cache");
		expect(await json("edit", "cache", "--set", "a=b")).toEqual({ schema: "xfer.change/1", file, change: "edited", changed: true });
		expect(await json("edit", "cache", "--set", "a=b")).toEqual({ schema: "xfer.change/1", file, change: "edited", changed: false });
	});
});

describe("rm", () => {
	test("is an Entry, and --undo another; said again nothing is appended", async () => {
		const { x, card, board, text } = make();
		const file = card("Cache");
		const name = file.slice(0, -3);
		expect(await x("rm", "cache")).toMatchObject({ code: 0, err: "", out: `removed\t${file}\n` });
		expect(rows(await x("list"))).toEqual([]);
		const bytes = text(file);
		expect(await x("rm", "cache")).toMatchObject({ code: 0, err: `${name} was removed already\n`, out: `removed\t${file}\n` });
		expect(text(file)).toBe(bytes);
		expect(await x("rm", "cache", "--undo")).toMatchObject({ code: 0, err: "", out: `restored\t${file}\n` });
		expect(await x("rm", "cache", "--undo")).toMatchObject({ code: 0, err: `${name} was not removed\n` });
		expect((await board.read(file)).entries.map(({ type }) => type)).toEqual(["removed", "restored"]);
		expect(rows(await x("list")).length).toBe(1);
	});

	test("--purge deletes the file for who says --yes, or y on a terminal; without either nothing", async () => {
		const { x, piped, tty, card, dir } = make();
		const [one, two] = [card("One"), card("Two")];
		await x("add", "one", "an Entry");
		expectRefused(await x("rm", "one", "--purge"), 2, /--yes/);
		expectRefused(await piped("y\n", "rm", "one", "--purge"), 2, /--yes/);
		expectRefused(await x("rm", "one", "--purge", "--undo", "--yes"), 2, /--undo/);
		for (const input of ["\n", "n\n", "yes please\n"]) {
			const { code, out } = await tty(["rm", "one", "--purge"], { input });
			expect([code, out]).toEqual([1, expect.stringContaining("nothing was deleted")]);
			expect(out).toContain(`delete ${one} and its 1 Entry for good? [y/N] `);
		}
		expect(ls(dir)).toEqual([".locks", one, two].sort());
		expect(await tty(["rm", "one", "--purge"], { input: "y\n" })).toMatchObject({
			code: 0,
			out: expect.stringContaining(`purged  ${one}`),
		});
		expect(ls(dir)).toEqual([".locks", two]);
		expect(await x("rm", "two", "--purge", "--yes")).toMatchObject({ code: 0, err: "", out: `purged\t${two}\n` });
		expect([ls(dir), ls(dir, ".locks")]).toEqual([[".locks"], []]);
		expectRefused(await x("rm", "two", "--purge", "--yes"), 3);
	});
});

describe("repair", () => {
	test("gives what was typed by hand an id and a closing line, and what has none a new one; then there is nothing to mend", async () => {
		const { x, put, board, card } = make();
		const good = card("Good one");
		const file = put(
			"cache.md",
			"---\ntitle: x\n---\n\nintro\n\n### finding · carol\n\nby hand\n\n### aaaaaaaa · note · bob · 2026-01-01T00:00:00.000Z\n\nwhole\n<!-- aaaaaaaa -->\nstray words\n\n### aaaaaaaa · note · bob · 2026-01-01T00:00:00.000Z\n\nsame id\n<!-- aaaaaaaa -->\n\n### bbbbbbbb · note · bob · 2026-01-01T00:00:00.000Z\n\ntorn",
		);
		const texts = ["by hand", "whole", "stray words", "same id", "torn"];
		const before = await board.read(file);
		expect(before.entries.map(({ text }) => text.toString().trim())).toEqual(texts);
		expect(before.entries.map(({ flaws }) => flaws.length > 0)).toEqual([true, false, true, true, true]);
		expect(await x("repair")).toMatchObject({ code: 0, err: "", out: `repaired\t${file}\n` });
		const { entries, introduction } = await board.read(file);
		expect([entries.map(({ text }) => text.toString().trim()), introduction.toString()]).toEqual([texts, "intro"]);
		expect(entries.flatMap(({ flaws }) => flaws)).toEqual([]);
		expect(entries.map(({ id }) => id)).toEqual(before.entries.map(({ id }) => id));
		const [again, one] = [await x("repair"), await x("repair", good)];
		for (const result of [again, one]) expect(result).toMatchObject({ code: 0, out: "", err: "nothing to repair\n" });
	});

	test("unites what git left as two sides, and nothing of either is lost", async () => {
		const { x, json, put, text } = make();
		const entry = (id: string, words: string) => `### ${id} · note · bob · 2026-01-01T00:00:00.000Z\n\n${words}\n<!-- ${id} -->\n`;
		const file = put(
			"cache.md",
			`---\nid: k3f9q2\n<<<<<<< HEAD\ntitle: Ours\n=======\ntitle: Theirs\n>>>>>>> there\n---\n\n${entry("aaaaaaaa", "both")}\n<<<<<<< HEAD\n${entry("bbbbbbbb", "ours")}=======\n${entry("cccccccc", "theirs")}>>>>>>> there\n`,
		);
		const before = text(file);
		const shown = await x("show", "cache");
		expect([shown.code, Buffer.from(shown.bytes).toString("latin1"), shown.err]).toEqual([
			0,
			before,
			expect.stringMatching(/git left two sides[^\n]*\(xfer board repair cache\)\n$/),
		]);
		const texts = (document: { entries: { text: string }[] }) => document.entries.map(({ text }) => text);
		const document = JSON.parse((await x("show", "cache", "--json")).out);
		expect([texts(document).slice(0, 3), document.warnings]).toEqual([["both", "ours", "theirs"], ["conflict"]]);
		expectRefused(await x("edit", "cache", "--title", "x"), 1, /board repair cache/);
		expect(await x("repair", "cache")).toMatchObject({ code: 0, err: "", out: `repaired\t${file}\n` });
		const repaired = await json("show", "cache");
		expect([repaired.title, repaired.warnings, texts(repaired).slice(0, 3)]).toEqual(["Theirs", [], ["both", "ours", "theirs"]]);
		expect(JSON.stringify(repaired)).toContain("Ours");
		expect(text(file)).not.toMatch(/^[<=>]{7}/m);
	});

	test("of several says which it could not mend, and mends the others; --json is one document", async () => {
		const { x, put, dir, json } = make();
		fs.mkdirSync(dir, { recursive: true });
		put("broken.md", "---\ntitle: [x\n---\n\n### note · bob\n\nhand\n");
		const file = put("cache.md", "### note · bob\n\nhand\n");
		expect(await json("repair")).toEqual({ schema: "xfer.repair/1", repaired: ["broken.md", file] });
		expect((await x("show", "broken")).out).toMatch(/^---\ntitle: \[x\n---\n/); // what can't be read is not rewritten
	});
});

describe("watch", () => {
	/** Starts `xfer board watch`, and returns when it prints what comes; `lines` are those after that, as fields. */
	async function watch({ env, board, card }: ReturnType<typeof make>, args: string[] = [], probed?: string) {
		const child = start([...cli, "board", "watch", ...args], { env, stdio: ["ignore", "pipe", "pipe"] });
		const streams = { out: "", err: "" };
		child.stdout?.on("data", (chunk) => {
			streams.out += chunk;
		});
		child.stderr?.on("data", (chunk) => {
			streams.err += chunk;
		});
		const code = new Promise((resolve) => child.on("close", resolve));
		const file = probed ?? card("Probe");
		await until(() => {
			board.add(file, { author: "probe", text: "probe" });
			return streams.out.includes("probe");
		}, "the watch to begin");
		const lines = () =>
			streams.out
				.split("\n")
				.slice(0, -1)
				.filter((line) => !line.includes("probe"));
		return { child, code, lines, errors: () => streams.err };
	}
	const entry = (id: string, words: string, author = "carol") =>
		`\n### ${id} · note · ${author} · 2026-01-01T00:00:00.000Z\n\n${words}\n<!-- ${id} -->\n`;

	test("prints date, Card, id, type, author and the first line of each Entry once, as it comes: by the CLI, >>, an editor, a rename, on a new Card", async () => {
		const made = make();
		const { x, card, at, put, dir, board, env } = made;
		const file = card("Cache");
		await x("add", "cache", "before the watch");
		const { lines, errors } = await watch(made);
		const fields = () => lines().map((line) => line.split("\t"));
		const next = async (count: number) => {
			await until(() => lines().length >= count, `line ${count}`);
			return fields();
		};

		const [[, id] = []] = rows(await x("add", "cache", "by the CLI\nand more", "--type", "finding"));
		expect((await next(1))[0]).toEqual([expect.stringMatching(DATE), idOf(file), id, "finding", "alice", "by the CLI"]);

		await run(["sh", "-c", `printf '%s' "$1" >>"$2"`, "sh", entry("aaaaaaaa", "by a shell"), at(file)], { env });
		expect((await next(2))[1]).toEqual(["2026-01-01T00:00:00.000Z", idOf(file), "aaaaaaaa", "note", "carol", "by a shell"]);

		fs.writeFileSync(at(file), fs.readFileSync(at(file)) + entry("bbbbbbbb", "in place")); // as some editors do
		expect((await next(3))[2]?.slice(2)).toEqual(["bbbbbbbb", "note", "carol", "in place"]);

		fs.writeFileSync(path.join(dir, ".cache.swp"), fs.readFileSync(at(file)) + entry("cccccccc", "by a rename"));
		fs.renameSync(path.join(dir, ".cache.swp"), at(file)); // as others do, and git
		expect((await next(4))[3]?.slice(2)).toEqual(["cccccccc", "note", "carol", "by a rename"]);

		fs.rmSync(at(file));
		put(file, `---\nid: ${idOf(file)}\ntitle: x\n---\n${entry("dddddddd", "in another file")}`);
		expect((await next(5))[4]?.slice(2)).toEqual(["dddddddd", "note", "carol", "in another file"]);

		fs.appendFileSync(at(file), "\n### finding · dave\n\ntyped by hand, without an end\n");
		expect((await next(6))[5]).toEqual([
			"",
			idOf(file),
			expect.stringMatching(/^[0-9a-z]{8}$/),
			"finding",
			"dave",
			"typed by hand, without an end",
		]);

		const other = card("Another");
		board.add(other, { author: "bob", text: "on a new Card" });
		expect((await next(7))[6]?.slice(1)).toEqual([idOf(other), expect.any(String), "note", "bob", "on a new Card"]);

		expect((await x("edit", other, "--title", "x")).code).toBe(0);
		expect((await x("claim", other)).code).toBe(0);
		expect((await next(8))[7]?.slice(3)).toEqual(["claim", "alice", expect.stringMatching(/^until /)]);
		expect(lines().length).toBe(8);
		expect(errors()).toBe("");
	});

	test("prints the second of two that come within 50 ms as soon as the first", async () => {
		const made = make();
		const { board, card } = made;
		const file = card("Cache");
		const { lines } = await watch(made, [], file);
		for (const gap of [2, 5, 10, 20]) {
			board.add(file, { author: "bob", text: "one" });
			await new Promise((resolve) => setTimeout(resolve, gap));
			board.add(file, { author: "bob", text: `two ${gap}` });
			await until(() => lines().some((line) => line.endsWith(`two ${gap}`)), "the second", 3000);
			await new Promise((resolve) => setTimeout(resolve, 100));
		}
	});

	test("of one Card is silent about the others; --json is a document a line", async () => {
		const made = make();
		const { board, card } = made;
		const [file, other] = [card("Cache"), card("Other")];
		const { lines, errors } = await watch(made, ["cache", "--json"], file);
		board.add(other, { author: "bob", text: "elsewhere" });
		const { id } = board.add(file, { author: "bob", text: "here\nand there" });
		await until(() => lines().length > 0, "a line");
		expect(lines().map((line) => JSON.parse(line))).toEqual([
			{
				schema: "xfer.entry/1",
				card: idOf(file),
				title: "Cache",
				file,
				id,
				type: "note",
				author: "bob",
				date: expect.stringMatching(DATE),
				text: "here\nand there",
				flaws: [],
			},
		]);
		expect(errors()).toBe("");
	});

	test("says nothing twice of a Card that was away for a moment, as while git writes it", async () => {
		const made = make();
		const { board, card, at, put } = made;
		const [file, other] = [card("Cache"), card("Other")];
		board.add(file, { author: "bob", text: "there before" });
		const { lines } = await watch(made);
		board.add(file, { author: "bob", text: "seen" });
		await until(() => lines().length === 1, "the first line");
		const bytes = fs.readFileSync(at(file), "utf8");
		fs.rmSync(at(file));
		// That it is away has been noticed when what came later has.
		await new Promise((resolve) => setTimeout(resolve, 200));
		board.add(other, { author: "bob", text: "meanwhile" });
		await until(() => lines().length === 2, "the second line");
		put(file, bytes + entry("aaaaaaaa", "new"));
		await until(() => lines().some((line) => line.endsWith("\tnew")), "the last line");
		expect(lines().map((line) => line.split("\t").at(-1))).toEqual(["seen", "meanwhile", "new"]);
	});

	test("begins where there is no Board yet", async () => {
		const made = make();
		const { lines } = await watch(made);
		const file = made.card("Cache");
		made.board.add(file, { author: "bob", text: "the first" });
		await until(() => lines().length > 0, "a line");
		expect(lines()[0]).toContain("the first");
	});

	test("an Entry that comes in pieces is one line, when it is whole", async () => {
		const made = make();
		const { at, card } = made;
		const file = card("Cache");
		const { lines } = await watch(made, [], file);
		const bytes = entry("aaaaaaaa", "one\ntwo");
		for (let from = 0; from < bytes.length; from += 20) {
			fs.appendFileSync(at(file), bytes.slice(from, from + 20));
			await new Promise((resolve) => setTimeout(resolve, 60));
		}
		await until(() => lines().length > 0, "a line");
		made.board.add(file, { author: "bob", text: "another" });
		await until(() => lines().some((line) => line.endsWith("another")), "the next");
		expect(lines().map((line) => line.split("\t").slice(2))).toEqual([
			["aaaaaaaa", "note", "carol", "one"],
			[expect.any(String), "note", "bob", "another"],
		]);
	});

	test("ends with --timeout, exit 4; a wrong one is refused", async () => {
		const { x, card } = make();
		card("Cache");
		expect(await x("watch", "--timeout", "1s")).toMatchObject({ code: 4, out: "" });
		expectRefused(await x("watch", "--timeout", "soon"), 2, /--timeout/);
	});

	test("ends when nobody reads it any more", async () => {
		const made = make();
		const { child, code } = await watch(made);
		child.stdout?.destroy();
		const file = made.card("Cache");
		await until(() => {
			if (child.exitCode === null) made.board.add(file, { author: "bob", text: "more" });
			return child.exitCode !== null;
		}, "its end");
		expect(await code).toBe(1);
	});
});

describe("the command line", () => {
	const names = ["list", "new", "show", "add", "edit", "claim", "release", "done", "rm", "watch", "init", "sync", "repair"];

	test("help of board names every sub-command; of each it has examples, a line to type and its flags; all fit 80 columns", async () => {
		const { x, env, root } = make();
		const all = await Promise.all([["--help"], ["-h"], ...names.map((name) => [name, "--help"])].map((words) => x(...words)));
		for (const { code, out, err } of all) {
			expect([code, err]).toEqual([0, ""]);
			for (const line of out.split("\n")) expect([...line].length).toBeLessThanOrEqual(80);
		}
		const [board, short, ...others] = all;
		expect(short?.out).toBe(board?.out);
		for (const [n, name] of names.entries()) {
			expect(board?.out).toMatch(new RegExp(`^ +xfer board ${name} +\\S`, "m"));
			expect(others[n]?.out).toMatch(new RegExp(`^(?:.*\\| )?xfer board ${name}\\b`, "m"));
			for (const flag of ["--as", "--json", "--help"]) expect(others[n]?.out).toMatch(new RegExp(`^ +${flag} `, "m"));
		}
		const flags = {
			list: ["--all", "--mine"],
			show: ["--last", "--since"],
			add: ["--type", "--no-mention"],
			claim: ["--for"],
			edit: ["--title", "--set"],
			rm: ["--undo", "--purge", "--yes"],
			watch: ["--timeout"],
			init: ["--remote"],
			sync: ["--every", "--no-mention"],
		};
		for (const [name, some] of Object.entries(flags))
			for (const flag of some) expect(others[names.indexOf(name)]?.out).toMatch(new RegExp(`^ +${flag} `, "m"));
		expect(board?.out).not.toContain("merge-driver"); // for git
		expect((await x("merge-driver", "--help")).out).toContain("xfer board merge-driver BASE OURS THEIRS");
		expect((await run([...cli, "help", "board"], { env })).out).toBe(board?.out);
		expect((await run([...cli, "help", "board", "add"], { env })).out).toBe(others[names.indexOf("add")]?.out);
		expect((await run([...cli, "--help"], { env })).out).toMatch(/^ +xfer board +\S/m);
		expect(ls(root)).toEqual([]);
	});

	test("what is no sub-command is refused, with the one that is meant", async () => {
		const { x, card } = make();
		card("Cache");
		for (const [typed, meant] of [
			["lst", "list"],
			["shwo", "show"],
			["calim", "claim"],
			["relase", "release"],
			["repiar", "repair"],
		])
			expectRefused(await x(typed as string), 2, new RegExp(`no command "${typed}" \\(did you mean xfer board ${meant}\\?\\)`));
		for (const typed of ["frobnicate", "cache", ""]) expectRefused(await x(typed), 2, /xfer board --help lists them/);
		expectRefused(await x("\x1b[2Jx"), 2, /no command "\\/);
	});

	test("a flag that is not there, a word too many, a word that is missing: exit 2, with the right line", async () => {
		const { x, card, text } = make();
		const file = card("Cache");
		const before = text(file);
		for (const [words, why] of [
			[["list", "extra"], /too many words: extra/],
			[["show", "cache", "extra"], /too many words: extra/],
			[["claim", "cache", "extra"], /too many words/],
			[["release", "cache", "extra"], /too many words/],
			[["rm", "cache", "extra"], /too many words/],
			[["repair", "cache", "extra"], /too many words/],
			...["show", "add", "claim", "release", "done", "edit", "rm"].map(
				(name) => [[name], new RegExp(`board ${name} needs CARD \\(xfer board ${name} CARD`)] as const,
			),
			[["new"], /needs TITLE \(xfer board new TITLE/],
			[["list", "--foo"], /no flag --foo here \(xfer board list\)/],
			[["add", "cache", "--typ", "x"], /no flag --typ here \(--type TYPE\)/],
			[["add", "cache", "-x"], /after --: xfer board add CARD -- -x\)/],
			[["add", "cache", "--message", "x"], /xfer board add CARD "…"/],
			[["show", "cache", "--json=yes"], /--json takes no value/],
			[["--foo"], /no flag --foo here/],
		] as const)
			expectRefused(await x(...words), 2, why);
		expect(text(file)).toBe(before);
		expect((await x("add", "cache", "--", "-x", "--foo")).code).toBe(0);
		expect(text(file)).toContain("\n-x --foo\n");
	});

	test("--as and --json stand before or after board and its sub-command", async () => {
		const { env, card, board } = make();
		const file = card("Cache");
		const lines = [
			["--as", "bob", "board", "add", "cache", "x"],
			["board", "--as", "bob", "add", "cache", "x"],
			["board", "add", "--as", "bob", "cache", "x"],
			["board", "add", "cache", "--as=bob", "x"],
			["board", "add", "cache", "x", "--as", "Bob"],
			["--as", "add", "board", "add", "cache", "x"],
			["board", "--as", "list", "add", "cache", "x"],
		];
		for (const words of lines) expect(await run([...cli, ...words], { env })).toMatchObject({ code: 0, err: "" });
		expect((await board.read(file)).entries.map(({ author }) => author)).toEqual(["bob", "bob", "bob", "bob", "bob", "add", "list"]);
		for (const words of [
			["--json", "board"],
			["board", "--json"],
			["--json", "board", "list"],
			["board", "--json", "list"],
			["board", "list", "--json"],
		])
			expect(JSON.parse((await run([...cli, ...words], { env })).out).schema).toBe("xfer.board/1");
		expectRefused(await run([...cli, "board", "add", "cache", "x", "--as", "no name!"], { env }), 2);
	});

	test("acts as the login name when nobody is said, as a Node by its other names too", async () => {
		const { root, env, card, tree, board } = make();
		const file = card("Cache");
		tree.join("bobby");
		fs.symlinkSync("bobby", path.join(root, "nodes/bob"));
		const { XFER_NODE: _, ...nobody } = env;
		await run([...cli, "board", "add", "cache", "x"], { env: nobody });
		await run([...cli, "board", "add", "cache", "x", "--as", "bob"], { env });
		expect((await board.read(file)).entries.map(({ author }) => author)).toEqual([os.userInfo().username, "bobby"]);
	});

	test("a reader that has gone away is no crash: exit 1 and silence; what was to be written is written", async () => {
		const { env, card, board } = make();
		const file = card("Cache");
		for (const words of [["show", "cache"], ["list"], ["list", "--json"], ["add", "cache", "hello"]]) {
			const child = start([...cli, "board", ...words], { env, stdio: ["ignore", "pipe", "pipe"] });
			child.stdout?.destroy();
			let err = "";
			child.stderr?.on("data", (chunk) => {
				err += chunk;
			});
			expect([words, await new Promise((resolve) => child.on("close", resolve)), err]).toEqual([words, 1, ""]);
		}
		expect((await board.read(file)).entries.map(({ text }) => text.toString())).toEqual(["hello"]);
	});

	describe.skipIf(process.getuid?.() !== 0)("of another user, on a Board that may be read and not written", () => {
		function shared() {
			const made = make();
			const file = made.card("Cache");
			for (const name of ["", ".xfer", ".xfer/board"]) fs.chmodSync(path.join(made.home, name), 0o755);
			fs.chmodSync(made.at(file), 0o644);
			const as = (...words: string[]) => run([...cli, "board", ...words], { env: made.env, uid: 65534 });
			return { ...made, file, as };
		}

		test("is refused what changes it, exit 1, with a word about permissions; it can be read", async () => {
			const { dir, file, as, text } = shared();
			fs.chmodSync(path.join(dir, ".locks"), 0o755);
			const before = text(file);
			for (const words of [
				["add", "cache", "x"],
				["claim", "cache"],
				["edit", "cache", "--title", "x"],
				["new", "T"],
				["rm", "cache"],
				["done", "cache"],
				["rm", "cache", "--purge", "--yes"],
			]) {
				const result = await as(...words);
				expect([words, result]).toEqual([words, { ...result, code: 1, out: "", err: expect.stringMatching(cure) }]);
				expect(result.err).toMatch(/EACCES|EROFS|EPERM/);
			}
			expect([text(file), ls(dir)]).toEqual([before, [".locks", file]]);
			expect(await as("show", "cache")).toMatchObject({ code: 0, err: "", out: before });
			expect(rows(await as("list")).length).toBe(1);
		});

		test("can read it where .locks may not be entered", async () => {
			const { as } = shared();
			expect(await as("show", "cache")).toMatchObject({ code: 0, err: "" });
			expect(rows(await as("list")).length).toBe(1);
		});
	});
});

describe("a Board", () => {
	test("may be a symlink to a directory elsewhere, such as a clone", async () => {
		const { x, root, home, dir } = make();
		const elsewhere = path.join(home, "clone");
		fs.mkdirSync(elsewhere);
		fs.mkdirSync(root, { recursive: true });
		fs.symlinkSync(elsewhere, dir);
		const [[id = "", file = ""] = []] = rows(await x("new", "Cache"));
		expect(path.dirname(file)).toBe(elsewhere);
		for (const words of [
			["add", id, "x"],
			["edit", id, "--title", "y"],
			["claim", id],
			["show", id],
		])
			expect(await x(...words)).toMatchObject({ code: 0, err: "" });
		expect(rows(await x("list")).map((row) => row.slice(0, 4))).toEqual([[id, "y", "alice", "2"]]);
		expect(ls(elsewhere)).toEqual([".locks", path.basename(file)]);
	});

	test("of one bad Card shows the others, and what is no Card is never opened, changed or deleted", async () => {
		const { x, card, dir, at, put } = make();
		const file = card("Cache");
		put("odd-one.md", Buffer.from([0, 1, 2, 0xff, 0xfe]));
		put("odd-two.md", "---\ntitle: *anchor\n---\n");
		fs.mkdirSync(at("odd-three.md"));
		fs.symlinkSync("/etc/passwd", at("odd-four.md"));
		await run(["mkfifo", at("odd-five.md")], { env: { PATH: process.env.PATH } });
		put("large.md", "---\ntitle: Large\n---\n");
		fs.truncateSync(at("large.md"), 50 * 1024 * 1024);
		const before = ls(dir);
		const list = await x("list");
		expect(list.code).toBe(0);
		expect(
			rows(list)
				.map(([, title]) => title)
				.sort(),
		).toEqual(["Cache", "Large", "odd-one", "odd-two"]);
		for (const name of ["odd-two", "odd-three", "odd-four", "odd-five", "large"])
			expect(list.err).toMatch(new RegExp(`^xfer: ${name}\\.md\\b`, "m"));
		for (const name of ["odd-three", "odd-four", "odd-five"])
			for (const words of [["show"], ["add"], ["claim"], ["edit", "--title", "x"], ["rm"], ["rm", "--purge", "--yes"], ["repair"]]) {
				const [command = "", ...more] = words;
				const result = await x(command, `${name}.md`, ...(command === "add" ? ["text"] : more));
				expect([name, words, result.code, result.out]).toEqual([name, words, 3, ""]);
			}
		expect([ls(dir), (await x("show", file)).code]).toEqual([before, 0]);
	});

	test("says what stands in the way in .locks, exit 1", async () => {
		const { x, card, dir } = make();
		const file = card("Cache");
		fs.mkdirSync(path.join(dir, ".locks", `${file}.old`));
		for (const words of [
			["edit", file, "--title", "x"],
			["repair", file],
		])
			expectRefused(await x(...words), 1, /\.old/);
	});
});

describe("completion", () => {
	const complete = async (env: NodeJS.ProcessEnv, ...words: string[]) => {
		const { code, err, out } = await run([...cli, "--get-yargs-completions", "xfer", ...words], { env });
		expect([code, err]).toEqual([0, ""]);
		return out.split("\n").slice(0, -1).sort();
	};

	test("of sub-commands, of Cards by their names, of types", async () => {
		const { env, card, put } = make();
		const files = [card("Cache layer"), card("Flaky tests")];
		const names = files.map((file) => file.slice(0, -3));
		put("we\x1b[2J$(x) `y`.md", "x");
		expect(await complete(env, "boa")).toEqual(["board"]);
		expect(await complete(env, "board", "re")).toEqual(["release", "repair"]);
		expect(await complete(env, "board", "m")).toEqual([]); // merge-driver is for git
		for (const command of ["show", "add", "edit", "claim", "release", "done", "rm", "watch", "repair"])
			expect(await complete(env, "board", command, "")).toEqual(names);
		expect(await complete(env, "board", "show", "cache")).toEqual([names[0]]);
		expect(await complete(env, "board", "add", "--type", "note", "fl")).toEqual([names[1]]);
		expect(await complete(env, "board", "add", "cache", "--type", "")).toEqual(["answer", "decision", "finding", "note", "question"]);
		for (const words of [
			["list", ""],
			["new", ""],
			["show", "cache", ""],
			["add", "cache", ""],
		])
			expect(await complete(env, "board", ...words)).toEqual([]);
	});

	test("without a Board is nothing, and none is made", async () => {
		const { env, root } = make();
		expect(await complete(env, "board", "show", "")).toEqual([]);
		expect(ls(root)).toEqual([]);
	});

	test("of the flags of a sub-command is its own; of --as, the Nodes", async () => {
		const { env, tree } = make();
		tree.join("bob");
		expect(await complete(env, "board", "show", "--as", "")).toEqual(["bob"]);
		expect(await complete(env, "board", "--as", "")).toEqual(["bob"]);
		expect(await complete(env, "board", "add", "--")).toEqual(["--as", "--help", "--json", "--no-mention", "--type"]);
		expect(await complete(env, "board", "edit", "cache", "--s")).toEqual(["--set"]);
	});
});

describe("control characters of a Card are shown and never obeyed", () => {
	/** Everything that a terminal might obey: CSI, OSC, backspace, CR, bell, DEL, C1 as UTF-8, line separator, bidi override, NUL. */
	const evil = "a\x1b[2J\x1b]0;title\x07b\bc\rd\x7fe\u009b31mf\u2028g\u202eh\u2066i\0j";
	const shown = "a\\x1b[2J\\x1b]0;title\\x07b\\x08c\\x0dd\\x7fe\\x9b31mf\\u2028g\\u202eh\\u2066i\\x00j";
	const controls = (text: string) =>
		[...text.replace(colours, "").replaceAll("\r\n", "\n")].filter(
			(char) => /[\p{Cc}\u2028-\u202e\u2066-\u2069]/u.test(char) && !/[\n\t]/.test(char),
		);

	function fill({ put }: ReturnType<typeof make>) {
		const value = JSON.stringify(`said ${evil}`);
		put(
			"evil-k3f9q2.md",
			`---\nid: ${JSON.stringify(`id ${evil}`)}\ntitle: ${value}\ncreated_by: ${value}\ncreated_at: ${value}\n---\n\nintro ${evil}\n\n### finding · ${evil.replace(/[\n\r]/g, "")} · x\n\ntext ${evil}\n\tsecond line\n\n### aaaaaaaa · claim · bob · 2026-01-01T00:00:00.000Z\n\nuntil 2999-01-01T00:00:00.000Z on ${evil.replace(/\s/g, "")}\n<!-- aaaaaaaa -->\n`,
		);
		put("evil-\x1b[2J\u009b\u202e.md", "x");
		put("evil-\x1b[31m.md", "x");
	}

	test("on a terminal and in a pipe, by every sub-command, also in file names and errors", async () => {
		const made = make();
		fill(made);
		fs.mkdirSync(made.at("dir\x1b[2J.md"));
		const commands = [
			["list"],
			["list", "--all", "--mine"],
			[],
			["show", "k3f9q2"],
			["show", "k3f9q2", "--last", "1"],
			["show", "evil"],
			["show", evil.replaceAll("\0", "")],
			["claim", "k3f9q2"],
			["release", "k3f9q2"],
			["done", "k3f9q2"],
			["edit", "k3f9q2", "--set", evil.replaceAll("\0", "")],
			["add", "evil-\x1b[31", "hi"],
			["claim", "evil-\x1b[31"],
			["release", "evil-\x1b[31"],
			["rm", "evil-\x1b[31"],
			["rm", "evil-\x1b[31", "--undo"],
			["edit", "evil-\x1b[31", "--title", "x"],
			["repair", "evil-\x1b[31"],
			["done", "evil-\x1b[31"],
			["rm", "evil-\x1b[31", "--purge"],
		];
		for (const words of commands) {
			const [terminal, pipe] = [
				await made.tty(words, { columns: 1000, ...(words.includes("--purge") && { input: "n\n" }) }),
				await made.x(...words),
			];
			expect([words, controls(terminal.out)]).toEqual([words, []]);
			const piped = words[0] === "show" ? pipe.err : pipe.out + pipe.err; // a pipe gets the file's bytes
			expect([words, controls(piped), pipe.out.includes("\n\n") && words[0] !== "show"]).toEqual([words, [], false]);
		}
		const { out } = await made.tty(["show", "k3f9q2"], { columns: 1000 });
		for (const part of [`said ${shown}`, `intro ${shown}`, `text ${shown}`, "\tsecond line"]) expect(out).toContain(part);
		expect(rows(await made.x("list")).find(([, title]) => title === `said ${shown}`)).toBeDefined();
	});

	test("in JSON they are escaped, and read back the same", async () => {
		const made = make();
		fill(made);
		for (const words of [["list"], ["show", "k3f9q2"]]) {
			const { out } = await made.x(...words, "--json");
			expect(controls(out)).toEqual([]);
			expect(JSON.stringify(JSON.parse(out))).toContain(JSON.stringify(`said ${evil}`).slice(1, -1));
		}
	});

	test("in what watch prints, on a terminal and in a pipe", async () => {
		const { env, board, card } = make();
		const file = card("Cache");
		for (const argv of [
			["script", "-qec", `stty cols 1000; exec ${[...cli, "board", "watch"].map(quote).join(" ")}`, "/dev/null"],
			[...cli, "board", "watch"],
		]) {
			const child = start(argv, { env, stdio: ["ignore", "pipe", "pipe"] });
			let out = "";
			for (const stream of [child.stdout, child.stderr])
				stream?.on("data", (chunk) => {
					out += chunk;
				});
			await until(() => {
				board.add(file, { author: "bob", text: `text ${evil}` });
				return out.includes("text");
			}, "the watch to print");
			child.kill();
			expect(out).toContain(`text ${shown}`);
			expect(controls(out)).toEqual([]);
		}
	});
});

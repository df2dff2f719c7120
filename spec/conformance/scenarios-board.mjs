// Scenarios: Cards on the Board.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { scenario as anyScenario, asAlice, asBob, check, equal } from "./scenario.mjs";
import { assertSame, build } from "./tree.mjs";

/** `t.send` and `t.take` are handed on here, for one to do what the other reads. */
const scenario = (name, run) =>
	anyScenario(
		`board: ${name}`,
		(t) => {
			for (const which of ["send", "take"]) t[which] = t[which].bind(t);
			return run(t);
		},
		["board"],
	);

const HOST = os.hostname().replace(/[^A-Za-z0-9._-]/g, "_");
const ID = "[0-9a-hjkmnp-tv-z]";
const FUTURE = "2999-01-01T00:00:00.000Z";
const card = (id, title = "x", entries = "") =>
	`---\nid: ${id}\ntitle: ${title}\ncreated_by: eve\ncreated_at: 2026-01-01T00:00:00.000Z\n---\n${entries}`;
const entry = (id, type, by, date, text) => `\n### ${id} · ${type} · ${by} · ${date}\n\n${text}\n<!-- ${id} -->\n`;
const read = (t, file) => fs.readFileSync(t.path("board", file), "utf8");
const cards = (t) => t.ls("board");

/** Makes a Card with a command, and returns its id and file name. */
async function make(run, title, ...args) {
	const { text } = await run(["board", "new", title, ...args]);
	const [, id, file] = new RegExp(`^(${ID}{6})\\t(/[^\\t\\n]*)\\n$`).exec(text) ?? [];
	check(id && fs.existsSync(file), `new prints ${JSON.stringify(text)}`);
	check(file.endsWith(`-${id}.md`), `the file of ${id} is ${file}`);
	return { id, file: path.basename(file) };
}

/** The rows that `list` prints: id, title, by, Entries, date, author, holder, whether done or removed. */
async function list(run, ...args) {
	const { text } = await run(["board", "list", ...args]);
	return text
		.split("\n")
		.slice(0, -1)
		.map((line) => line.split("\t"));
}

/** The whole Entries of a Card as it was written by implementations: `[id, type, author, text]`; what is between them fails. */
function entriesIn(t, file) {
	const text = read(t, file);
	const begin = text.indexOf("\n### ");
	const found = [];
	const rest = text
		.slice(begin < 0 ? text.length : begin)
		.replace(
			new RegExp(`\\n### (${ID}{8}) · (\\S+) · (\\S+) · (\\S+)\\n\\n([^]*?)\\n<!-- \\1 -->\\n`, "g"),
			(_, id, type, author, date, text) => {
				check(Math.abs(Date.parse(date) - Date.now()) < 60_000, `an Entry's date is ${date}`);
				found.push([id, type, author, text]);
				return "";
			},
		);
	equal(rest, "", `what is no whole Entry in ${file}`);
	return found;
}

const types = (t, file) => entriesIn(t, file).map(([, type, author]) => `${type} ${author}`);

// A Card is made

scenario("new makes a Card whole, for its owner alone, and list shows it", async (t) => {
	const { id, file } = await make(t.send, "Cache layer", "Where do we", "keep it?", "--as", "alice");
	equal([cards(t), file], [[file], `cache-layer-${id}.md`], "board/");
	equal((fs.statSync(t.path("board", file)).mode & 0o777).toString(8), "600", "its mode");
	equal((fs.statSync(t.path("board")).mode & 0o777).toString(8), "700", "the mode of board/");
	const [, date] = /^created_at: (\S+Z)$/m.exec(read(t, file)) ?? [];
	check(Math.abs(Date.parse(date) - Date.now()) < 60_000, `it was created at ${date}`);
	const lines = read(t, file).replace(/"/g, ""); // a value may be quoted
	equal(lines, `---\nid: ${id}\ntitle: Cache layer\ncreated_by: alice\ncreated_at: ${date}\n---\n\nWhere do we keep it?\n`, "the file");
	const [row, ...more] = await list(t.take);
	equal([row, more], [[id, "Cache layer", "alice", "0", row?.[4], "alice", "", ""], []], "the list");
	equal(Date.parse(row[4]), Date.parse(date), "the date in the list");
	equal((await t.take(["board", "show", id])).text, read(t, file), "what show prints");
});
scenario("new takes an introduction from standard input, and refuses a missing title", async (t) => {
	const { file } = await make((args) => t.send(args, { stdin: "one\r\n\n### a · b\n<<<<<<< x\ntwo" }), "x", "-", "--as", "alice");
	equal(read(t, file).split("---\n").slice(2).join("---\n"), "\none\r\n\n\\### a · b\n\\<<<<<<< x\ntwo\n", "what follows the front matter");
	equal((await list(t.take))[0]?.[3], "0", "the number of its Entries");
	for (const args of [[], [""]]) await t.send(["board", "new", ...args, "--as", "alice"], { exit: 2 });
	equal(cards(t), [file], "board/");
});
scenario("the file is named after the title", async (t) => {
	for (const [title, slug] of [
		["Cache layer", "cache-layer"],
		["Fix: the #1 Bug!", "fix-the-1-bug"],
		["  --leading_and v1.2--  ", "leading_and-v1.2"],
		["../../etc/passwd", "etc-passwd"],
		["a".repeat(60), "a".repeat(48)],
		[`${"a".repeat(47)} b`, "a".repeat(47)],
		["é 漢字", "card"],
		[".md", "md"],
		["Version 1.2.", "version-1.2"],
		["Why...?", "why"],
		[`${"a".repeat(46)}.-b`, "a".repeat(46)],
		["All", "card"],
	]) {
		const { id, file } = await make(t.send, "--as", "alice", "--", title);
		equal(file, `${slug}-${id}.md`, `the file for ${JSON.stringify(title)}`);
	}
});
scenario("a title is shown as it was given, whatever is in it", async (t) => {
	const titles = [
		"Re: x #12 @a [b]",
		"$& $1 $(touch x) `touch x`",
		"no",
		"1e3",
		"'q' \"r\" \\",
		"- x",
		"* y",
		"é 漢字 😀",
		"a: b",
		"# c",
		"---",
		"{a}",
		"%s\\n",
	];
	for (const title of titles) await make(t.send, "--as", "alice", "--", title);
	equal((await list(t.take)).map((row) => row[1]).sort(), titles.sort(), "the titles");
	equal((await list(t.send)).map((row) => row[1]).sort(), titles.sort(), "the titles that their maker lists");
});
scenario("20 of one title at once are 20 Cards", async (t) => {
	const made = await Promise.all(Array.from({ length: 20 }, (_, i) => make(i % 2 ? t.send : t.take, "Same", "--as", "alice")));
	equal(cards(t), made.map(({ file }) => file).sort(), "board/");
	equal([new Set(made.map(({ id }) => id)).size, (await list(t.take)).length], [20, 20], "the number of Cards");
});

// A Card is named

scenario("a Card is named by a piece of its file's name", async (t) => {
	build(t.root, {
		"board/cache-layer-k3f9q2.md": card("k3f9q2", "Cache layer"),
		"board/cache-store-k3f9q3.md": card("k3f9q3", "Cache store"),
		"board/k3f9q3-is-wrong-aaaaaa.md": card("aaaaaa", "about the other"),
		"board/Notes.md": "# Notes\n",
		"board/notes-b-bbbbbb.md": card("bbbbbb"),
	});
	const before = t.snapshot();
	const shows = async (piece, file) => equal((await t.take(["board", "show", piece])).text, read(t, file), `what show ${piece} prints`);
	for (const piece of [
		"k3f9q2",
		"K3F9Q2",
		"layer",
		"LAYER-k3",
		"cache-layer-k3f9q2",
		"cache-layer-k3f9q2.md",
		t.path("board/cache-layer-k3f9q2.md"),
	])
		await shows(piece, "cache-layer-k3f9q2.md");
	await shows("k3f9q3", "cache-store-k3f9q3.md"); // an exact id wins
	await shows("notes", "Notes.md"); // an exact name too
	await shows("notes-b", "notes-b-bbbbbb.md");
	for (const verb of [["show"], ["add"], ["claim"], ["release"], ["done"]]) {
		const run = (piece, exit) => t.take(asAlice("board", ...verb, piece, ...(verb[0] === "add" ? ["x"] : [])), { exit });
		const { err } = await run("cache-", 2);
		for (const name of ["cache-layer-k3f9q2", "cache-store-k3f9q3"]) check(err.includes(name), `it does not name ${name}: ${err}`);
		check(!err.includes("aaaaaa"), `it names another: ${err}`);
		for (const piece of ["ca", "k", ""]) await run(piece, 2);
		for (const piece of ["nothing", "zzzzzz", "*", "?????", "[a-z]*", "../nodes"]) await run(piece, piece.length < 3 ? 2 : 3);
	}
	assertSame(before, t.snapshot());
});
scenario("where there is no Board, the list is empty and no Card is found", async (t) => {
	equal(await list(t.take, "--all"), [], "the list");
	for (const args of [
		["show", "abc"],
		["add", "abc", "x"],
		["claim", "abc"],
		["release", "abc"],
		["done", "abc"],
	])
		await t.take(asAlice("board", ...args), { exit: 3 });
	equal(cards(t), [], "board/");
});
scenario("wrong usage is refused, and nothing changes", async (t) => {
	build(t.root, { "board/x-aaaaaa.md": card("aaaaaa") });
	const before = t.snapshot();
	for (const args of [
		["nonsense"],
		["show"],
		["add"],
		["claim"],
		["add", "aaaaaa", "x", "--type", "A b"],
		["add", "aaaaaa", "x", "--type", "a".repeat(33)],
	])
		await t.take(asAlice("board", ...args), { exit: 2 });
	for (const time of ["0s", "soon", "2", "-1h", "1.5h", "h"])
		await t.take(asAlice("board", "claim", "aaaaaa", `--for=${time}`), { exit: 2 });
	await t.take(asAlice("board", "add", "aaaaaa", ""), { exit: 2 });
	await t.take(asAlice("board", "add", "aaaaaa", "-"), { exit: 2, stdin: "" });
	for (const args of [
		["add", "aaaaaa"],
		["done", "aaaaaa"],
		["new", "title"],
	]) {
		await t.take(asAlice("board", ...args, "123456"), { exit: 2, env: { XFER_MAX_BYTES: "5" } });
		await t.take(asAlice("board", ...args, "-"), { exit: 2, stdin: "123456", env: { XFER_MAX_BYTES: "5" } });
	}
	await t.take(["board", "add", "aaaaaa", "x", "--as", "a b"], { exit: 2 });
	await t.take(asAlice("board", "list"), { exit: 2, env: { XFER_HOME: "tree" } });
	assertSame(before, t.snapshot());
});

// Entries are added

scenario("add appends, and what was there stays byte for byte", async (t) => {
	const strange = card("aaaaaa", "x", "\r\nhello\n\n### typed · bob\nno end");
	build(t.root, { "board/x-aaaaaa.md": strange });
	for (const [run, as, words, type] of [
		[t.send, asBob, ["two", " words"], []],
		[t.take, asAlice, ["x"], ["--type", "finding"]],
	]) {
		const before = read(t, "x-aaaaaa.md");
		const { text } = await run(as("board", "add", "AAAAAA", ...words, ...type));
		const [, id] = new RegExp(`^added\\t(${ID}{8})\\tx-aaaaaa\\.md\\n$`).exec(text) ?? [];
		check(id, `add prints ${JSON.stringify(text)}`);
		const after = read(t, "x-aaaaaa.md");
		check(after.startsWith(before), "what was there has changed");
		const name = as().at(-1);
		check(
			new RegExp(`^\\n### ${id} · ${type[1] ?? "note"} · ${name} · \\S+Z\\n\\n${words.join(" ")}\\n<!-- ${id} -->\\n$`).test(
				after.slice(before.length),
			),
			`it appended ${JSON.stringify(after.slice(before.length))}`,
		);
		const [row] = await list(t.take);
		equal([row[0], row[5], Math.abs(Date.parse(row[4]) - Date.now()) < 60_000], ["aaaaaa", name, true], "the list");
	}
	equal((await list(t.send))[0][3], "3", "the number of Entries");
});
scenario("an author needs no Node, and none is made; its name is folded", async (t) => {
	build(t.root, { "board/x-aaaaaa.md": card("aaaaaa") });
	await t.take(["board", "add", "aaaaaa", "x", "--as", "Carol"]);
	await t.send(["board", "add", "aaaaaa", "x"], { env: { XFER_NODE: "Dave" } });
	equal(types(t, "x-aaaaaa.md"), ["note carol", "note dave"], "the Entries");
	equal(t.ls("nodes"), [], "nodes/");
});
scenario("the author is the Node's own name, whatever it was called by", async (t) => {
	build(t.root, { "board/x-aaaaaa.md": card("aaaaaa"), "nodes/alice": { dir: true }, "nodes/al": { symlink: "alice" } });
	for (const args of [
		["add", "aaaaaa", "x"],
		["claim", "aaaaaa"],
		["done", "aaaaaa"],
	])
		await t.take(["board", ...args, "--as", "al"]);
	equal(types(t, "x-aaaaaa.md"), ["note alice", "claim alice", "done alice"], "the Entries");
	const { file } = await make(t.send, "y", "--as", "Al");
	check(/^created_by: alice$/m.test(read(t, file)), `the Card says ${read(t, file)}`);
});
scenario("an Entry is dated after its author's last one, unless a clock is off", async (t) => {
	const at = (ms) => new Date(Date.now() + ms).toISOString();
	const [soon, late] = [at(30_000), at(3_600_000)];
	build(t.root, {
		"board/x-aaaaaa.md": card("aaaaaa", "x", entry("aaaaaaaa", "note", "alice", soon, "x") + entry("bbbbbbbb", "note", "bob", late, "x")),
	});
	await t.take(asAlice("board", "claim", "aaaaaa"));
	await t.send(asAlice("board", "release", "aaaaaa"));
	await t.send(asBob("board", "claim", "aaaaaa"));
	const dates = [...read(t, "x-aaaaaa.md").matchAll(/^### \w{8} · \w+ · \w+ · (\S+)$/gm)].map(([, date]) => date);
	check(dates[2] > soon && dates[3] > dates[2], `alice's are of ${dates[0]}, ${dates[2]}, ${dates[3]}`);
	check(dates[4] < soon, `bob's are of ${dates[1]}, ${dates[4]}`);
});
scenario("20 who add at once lose nothing", async (t) => {
	const { id, file } = await make(t.send, "Busy", "--as", "alice");
	const texts = Array.from({ length: 20 }, (_, i) => `${i}: ${"lines\n### of · text\n".repeat(i % 4 ? 3 : 5000)}`);
	const added = await Promise.all(
		texts.map(
			async (stdin, i) => (await (i % 2 ? t.send : t.take)(["board", "add", id, "-", "--as", `node${i}`], { stdin })).text.split("\t")[1],
		),
	);
	const found = entriesIn(t, file);
	equal(found.map(([entry]) => entry).sort(), added.sort(), "the ids");
	const expected = texts.map((text, i) => `node${i} ${text.replaceAll("### ", "\\### ")}`);
	equal(found.map(([, , author, text]) => `${author} ${text}`).sort(), expected.sort(), "the texts");
	equal((await list(t.take))[0][3], "20", "the number of Entries");
});

// Claims

scenario("a claim: one holds, others are told, the holder extends and releases", async (t) => {
	const { id, file } = await make(t.send, "Job", "--as", "alice");
	const { text } = await t.take(asAlice("board", "claim", id, "--for", "30m"));
	const [, entry, until] = new RegExp(`^claimed\\t(${ID}{8})\\tuntil (\\S+Z)\\n$`).exec(text) ?? [];
	check(entry, `claim prints ${JSON.stringify(text)}`);
	check(Math.abs(Date.parse(until) - Date.now() - 1_800_000) < 60_000, `it holds until ${until}`);
	const [[first, type, author, said]] = entriesIn(t, file);
	equal([first, type, author, said], [entry, "claim", "alice", `until ${until} on ${HOST}`], "the Entry");
	for (const args of [
		["claim", id],
		["release", id],
		["done", id],
		["done", id, "text"],
	]) {
		const { err } = await t.send(asBob("board", ...args), { exit: 5 });
		check(err.includes("alice") && err.includes(until.slice(0, 16)), `it does not say who holds it until when: ${err}`);
	}
	equal(types(t, file), ["claim alice"], "the Entries");
	equal((await list(t.send))[0][6], "alice", "the holder");
	await t.send(asBob("board", "add", id, "may I?")); // a claim keeps nobody from adding
	const longer = (await t.take(asAlice("board", "claim", id))).text;
	check(Math.abs(Date.parse(/until (\S+)/.exec(longer)?.[1]) - Date.now() - 7_200_000) < 60_000, `extended, it prints ${longer}`);
	equal((await t.take(asAlice("board", "release", id))).text, `released\t${file}\n`, "what release prints");
	equal((await list(t.send))[0][6], "", "the holder after the release");
	equal((await t.take(asAlice("board", "release", id))).text, `released\t${file}\n`, "what a second release prints");
	equal((await t.send(asBob("board", "release", id))).text, `released\t${file}\n`, "what another's release prints");
	await t.send(asBob("board", "claim", id));
	equal(types(t, file), ["claim alice", "note bob", "claim alice", "release alice", "claim bob"], "the Entries");
	equal(entriesIn(t, file)[3][3], `on ${HOST}`, "the text of the release");
});
scenario("a claim of the same name on another host is another's", async (t) => {
	build(t.root, {
		"board/x-aaaaaa.md": card(
			"aaaaaa",
			"x",
			entry("aaaaaaaa", "claim", "alice", "2026-01-01T00:00:00.000Z", `until ${FUTURE} on elsewhere.x`),
		),
	});
	const before = t.snapshot();
	for (const verb of ["claim", "release", "done"]) {
		const { err } = await t.take(asAlice("board", verb, "aaaaaa"), { exit: 5 });
		check(err.includes("alice") && err.includes("elsewhere.x") && err.includes("2999"), `it says ${err}`);
	}
	assertSame(before, t.snapshot());
	equal((await list(t.take, "--all"))[0][6], "alice", "the holder");
});
scenario("a claim of the same name that names no host is one's own", async (t) => {
	const at = new Date(Date.now() - 1000).toISOString();
	build(t.root, { "board/x-aaaaaa.md": card("aaaaaa", "x", entry("aaaaaaaa", "claim", "alice", at, "mine")) });
	await t.send(asBob("board", "claim", "aaaaaa"), { exit: 5 });
	equal((await list(t.take, "--mine", "--as", "alice")).length, 1, "the number of alice's Cards");
	await t.take(asAlice("board", "claim", "aaaaaa"));
	await t.send(asAlice("board", "release", "aaaaaa"));
	equal((await list(t.take))[0][6], "", "the holder");
	await t.send(asBob("board", "claim", "aaaaaa"));
});
scenario("a claim that has ended keeps nobody out", async (t) => {
	const old = entry("aaaaaaaa", "claim", "bob", "2026-01-01T00:00:00.000Z", `until 2026-01-01T02:00:00.000Z on ${HOST}`);
	build(t.root, { "board/x-aaaaaa.md": card("aaaaaa", "x", old) });
	equal((await list(t.take))[0][6], "", "the holder");
	await t.take(asAlice("board", "claim", "aaaaaa"));
	equal((await list(t.take))[0][6], "alice", "the holder");
	await t.send(asBob("board", "claim", "aaaaaa"), { exit: 5 });
});
scenario("10 who claim at once: one has it, nine release", async (t) => {
	const { id, file } = await make(t.send, "Job", "--as", "alice");
	const results = await Promise.all(
		Array.from({ length: 10 }, async (_, i) => ({
			name: `node${i}`,
			...(await (i % 2 ? t.send : t.take)(["board", "claim", id, "--as", `node${i}`], { exit: [0, 5] })),
		})),
	);
	const winners = results.filter(({ code }) => code === 0).map(({ name }) => name);
	equal(winners.length, 1, "the number of winners");
	for (const { code, err } of results) check(code === 0 || err.includes(winners[0]), `a loser is not told who won: ${err}`);
	equal((await list(t.take))[0][6], winners[0], "the holder");
	const all = types(t, file);
	for (const { name } of results) {
		const own = all.filter((line) => line.endsWith(` ${name}`)).map((line) => line.split(" ")[0]);
		const fine = name === winners[0] ? ["claim"] : own.length === 0 ? [] : ["claim", "release"];
		equal(own, fine, `the Entries of ${name}`);
	}
	await t.take(["board", "release", id, "--as", winners[0]]);
	equal((await list(t.send))[0][6], "", "the holder when the winner has released");
});

// Done

scenario("done ends the claim and hides the Card until somebody adds to it", async (t) => {
	const { id, file } = await make(t.send, "Job", "--as", "alice");
	await t.take(asAlice("board", "claim", id));
	const { text } = await t.take(asAlice("board", "done", id, "all", "of it"));
	check(new RegExp(`^done\\t${ID}{8}\\t${file}\\n$`).test(text), `done prints ${JSON.stringify(text)}`);
	equal(entriesIn(t, file).at(-1).slice(1), ["done", "alice", "all of it"], "the Entry");
	await t.take(asBob("board", "claim", id), { exit: 5 }); // what is done is not to be done again
	equal([await list(t.send), (await list(t.send, "--all")).map((row) => [row[0], row[6], row[7]])], [[], [[id, "", "done"]]], "the lists");
	await t.send(asBob("board", "add", id, "it came back"));
	equal(
		(await list(t.take)).map((row) => row[0]),
		[id],
		"the list after another Entry",
	);
	await t.send(asBob("board", "done", id));
	await t.take(asAlice("board", "done", id, "-"), { stdin: "twice\n" });
	equal(
		entriesIn(t, file)
			.slice(-2)
			.map((one) => one.slice(1)),
		[
			["done", "bob", ""],
			["done", "alice", "twice\n"],
		],
		"the Entries",
	);
	equal(await list(t.take), [], "the list");
});

// What list shows

scenario("the list: newest activity first; what is done or removed only with --all", async (t) => {
	const at = (n) => `2026-01-0${n}T00:00:00.000Z`;
	build(t.root, {
		"board/old-aaaaa1.md": card("aaaaa1", "old", entry("aaaaaaaa", "note", "bob", at(2), "x")),
		"board/new-aaaaa2.md": card("aaaaa2", "new", entry("aaaaaaaa", "note", "bob", at(8), "x")),
		"board/none-aaaaa3.md": card("aaaaa3", "none"),
		"board/done-aaaaa4.md": card("aaaaa4", "done", entry("aaaaaaaa", "done", "bob", at(5), "x")),
		"board/removed-aaaaa5.md": card("aaaaa5", "removed", entry("aaaaaaaa", "removed", "bob", at(6), "x")),
		"board/back-aaaaa6.md": card(
			"aaaaa6",
			"back",
			entry("aaaaaaaa", "removed", "bob", at(3), "x") + entry("bbbbbbbb", "restored", "al", at(4), "x"),
		),
		"board/torn-aaaaa7.md": card("aaaaa7", "torn", entry("aaaaaaaa", "note", "bob", "2026-01-07T00:00:00.5Z", "x").slice(0, -6)),
		"board/held-aaaaa8.md": card("aaaaa8", "held", entry("aaaaaaaa", "claim", "bob", "2026-01-07T00:00:00.25Z", `until ${FUTURE} on h`)),
	});
	const before = t.snapshot();
	const row = (n, title, count, date, author, holder = "", over = "") => [
		`aaaaa${n}`,
		title,
		"eve",
		`${count}`,
		Date.parse(date),
		author,
		holder,
		over,
	];
	const seen = async (...args) => (await list(t.take, ...args)).map((row) => row.map((field, i) => (i === 4 ? Date.parse(field) : field)));
	const [a, b, c, d] = [
		[
			row(2, "new", 1, at(8), "bob"),
			row(7, "torn", 1, "2026-01-07T00:00:00.500Z", "bob"),
			row(8, "held", 1, "2026-01-07T00:00:00.250Z", "bob", "bob"),
		],
		[row(5, "removed", 1, at(6), "bob", "", "removed"), row(4, "done", 1, at(5), "bob", "", "done")],
		[row(6, "back", 2, at(4), "al"), row(1, "old", 1, at(2), "bob")],
		[row(3, "none", 0, at(1), "eve")],
	];
	equal(await seen(), [...a, ...c, ...d], "the list");
	equal(await seen("--all"), [...a, ...b, ...c, ...d], "the list with --all");
	assertSame(before, t.snapshot());
});
scenario("the list with --mine: what one began, or holds on this host", async (t) => {
	const begun = await make(t.send, "begun", "--as", "alice");
	const held = await make(t.send, "held", "--as", "bob");
	await make(t.send, "other", "--as", "bob");
	build(t.root, {
		"board/z-aaaaaa.md": card("aaaaaa", "z", entry("aaaaaaaa", "claim", "alice", "2026-01-01T00:00:00Z", `until ${FUTURE} on x.y`)),
	});
	await t.take(asAlice("board", "claim", held.id));
	equal((await list(t.take, "--mine", "--as", "alice")).map((row) => row[0]).sort(), [begun.id, held.id].sort(), "the list");
});
scenario("control characters of a title, an author or a name are shown and not obeyed", async (t) => {
	build(t.root, {
		"board/x-aaaaaa.md": card("aaaaaa", '"a\\u001b[2J\\tb\\nc\\u009b2J"').replace("eve", "e\x1b[31m\x07\x7fve"),
		"board/y\x1b[2J\n\tz-bbbbbb.md": "# no title\n",
	});
	const { text } = await t.take(["board", "list"]);
	// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not come out
	check(!/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/.test(text), `it prints ${JSON.stringify(text)}`);
	const rows = text
		.toLowerCase()
		.split("\n")
		.slice(0, -1)
		.map((line) => line.split("\t"));
	check(rows.length === 2 && rows.every((row) => row.length === 8), `it prints ${JSON.stringify(text)}`);
	const [x, y] = [rows.find((row) => row[0] === "aaaaaa"), rows.find((row) => row[0] === "bbbbbb")];
	check(x[1].startsWith("a\\x1b[2j\\x09b\\x0ac\\x"), `the title is ${x[1]}`);
	check(y[1].includes("y\\x1b[2j\\x0a\\x09z"), `the title is ${y[1]}`);
	const added = (await t.take(asAlice("board", "add", "bbbbbb", "x"))).text;
	check(/^added\t\w{8}\t[^\t\n]+\n$/.test(added) && !added.includes("\x1b"), `add prints ${JSON.stringify(added)}`);
});
scenario("what is no regular file with a Card's name is skipped, never opened, and hides nothing", async (t) => {
	t.extra = ["outside"];
	build(t.base, { "outside/secret.md": card("zzzzzz", "secret") });
	build(t.root, {
		"board/good-aaaaa1.md": card("aaaaa1", "good"),
		"board/fifo-aaaaa2.md": { fifo: true },
		"board/link-aaaaa3.md": { symlink: "../../outside/secret.md" },
		"board/loop-aaaaa4.md": { symlink: "loop-aaaaa4.md" },
		"board/dangling-aaaaa5.md": { symlink: "nowhere.md" },
		"board/dir-aaaaa6.md": { dir: true },
		"board/inner-link-aaaaa7.md": { symlink: "good-aaaaa1.md" },
		"board/.hidden-aaaaa8.md": card("aaaaa8", "hidden"),
		"board/text-aaaaa9.txt": card("aaaaa9", "text"),
		"board/README.md": card("aaaaag", "about this Board"),
		"board/ReadMe.md": card("aaaaah", "about this Board"),
		"board/sub/deep-aaaaab.md": card("aaaaab", "deep"),
		"board/.git/x-aaaaac.md": card("aaaaac", "git"),
		"board/empty-aaaaad.md": "",
		"board/-n-aaaaae.md": card("aaaaae", "dash"),
		"board/a=b $(touch x)-aaaaaf.md": card("aaaaaf", "assignment"),
	});
	const before = t.snapshot();
	const titles = ["assignment", "dash", "empty-aaaaad", "good"];
	equal((await list(t.take, "--all")).map((row) => row[1]).sort(), titles, "the titles");
	for (const piece of [
		"aaaaa2",
		"aaaaa3",
		"aaaaa4",
		"aaaaa5",
		"aaaaa6",
		"aaaaa7",
		"aaaaa8",
		"aaaaa9",
		"aaaaab",
		"aaaaac",
		"README",
		"readme.md",
	])
		for (const args of [
			["show", piece],
			["add", piece, "x"],
			["claim", piece],
			["done", piece],
		])
			await t.take(asAlice("board", ...args), { exit: 3 });
	assertSame(before, t.snapshot());
	for (const piece of ["aaaaad", "aaaaae", "aaaaaf"]) {
		await t.take(asAlice("board", "add", piece, "x"), { env: { XFER_DURABILITY: undefined } });
		check((await t.take(["board", "show", piece])).text.endsWith(" -->\n"), `${piece} is not shown`);
	}
	equal(
		(await list(t.take, "--all")).map((row) => [row[1], row[3]]).sort(),
		titles.map((title) => [title, title === "good" ? "0" : "1"]),
		"what was added",
	);
});
scenario("a Card that can't be read as one hides no other, and is not changed", async (t) => {
	build(t.root, {
		"board/yaml-aaaaa1.md": "---\ntitle: [a\n---\n",
		"board/js-aaaaa2.md": "---js\n{ title: process.exit(7) }\n---\n",
		"board/binary-aaaaa3.md": { base64: [Buffer.from([0xff, 0xfe, 0, 10, 0x80, 0, 0]).toString("base64")] },
		"board/unclosed-aaaaa4.md": "---\ntitle: x\n",
		"board/bom-aaaaa5.md": `\ufeff${card("aaaaa5", "bom")}`,
		"board/crlf-aaaaa6.md": card("aaaaa6", "crlf", entry("aaaaaaaa", "note", "bob", "2026-01-02T00:00:00Z", "x")).replaceAll("\n", "\r\n"),
		"board/large-aaaaa7.md": {
			base64: [
				Buffer.from(card("aaaaa7", "large")).toString("base64"),
				{ repeat: Buffer.from(`${"x".repeat(1023)}\n`).toString("base64"), times: 17 * 1024 },
			],
		},
		"board/conflict-aaaaa8.md": card(
			"aaaaa8",
			"conflict",
			`<<<<<<< a${entry("aaaaaaaa", "note", "bob", "2026-01-03T00:00:00Z", "x")}=======${entry("bbbbbbbb", "note", "al", "2026-01-02T00:00:00Z", "x")}>>>>>>> b\n`,
		),
	});
	const before = t.snapshot();
	const rows = Object.fromEntries((await list(t.take, "--all")).map((row) => [row[0], row]));
	equal(
		Object.keys(rows).sort(),
		[1, 2, 3, 4, 5, 6, 7, 8].map((n) => `aaaaa${n}`),
		"the ids",
	);
	equal([rows.aaaaa2[1], rows.aaaaa4[1], rows.aaaaa6[1], rows.aaaaa7[1]], ["js-aaaaa2", "unclosed-aaaaa4", "crlf", "large"], "the titles");
	equal([rows.aaaaa6[3], rows.aaaaa6[5], rows.aaaaa8[3], rows.aaaaa8[5]], ["1", "bob", "2", "bob"], "the Entries");
	for (const n of [1, 2, 3, 4, 5, 6, 8]) {
		const { out } = await t.take(["board", "show", `aaaaa${n}`]);
		check(
			out.equals(
				fs.readFileSync(
					t.path(
						"board",
						cards(t).find((name) => name.includes(`aaaaa${n}`)),
					),
				),
			),
			`aaaaa${n} is shown with other bytes`,
		);
	}
	assertSame(before, t.snapshot());
});

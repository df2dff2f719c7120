// Scenarios: what is sent, and to whom.
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import fs from "node:fs";
import { asAlice, asBob, check, equal, idIn, nodes, rows, scenario, sendAlice, written } from "./scenario.mjs";
import { assertSame } from "./tree.mjs";

// Bytes

/** Sends a body, reads it, and looks that it came out as it went in. */
async function roundTrip(t, body) {
	await nodes(t);
	const id = await sendAlice(t, ["-"], { stdin: body });
	const file = fs.readFileSync(t.path("nodes/alice/new", id));
	check(written(t, "alice/new", id).body.equals(body), "the body in the tree has other bytes");
	const { out } = await t.take(asAlice("read"));
	check(out.equals(file), `read shows ${out.length} bytes, not the ${file.length} of the file`);
	equal(t.ls("nodes/alice/cur"), [`${id}:2,S`], "cur/");
	check(fs.readFileSync(t.path("nodes/alice/cur", `${id}:2,S`)).equals(file), "the file was changed");
}

const ALL = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
for (const [name, body, needs] of [
	["all 256 byte values survive", ALL, ["nul"]],
	["bytes that are not UTF-8 survive", ALL.subarray(1)],
	["CRLF survives", Buffer.from("a\r\nb\r\n")],
	["a missing last newline survives", Buffer.from("a\nb")],
	["blank lines at both ends survive", Buffer.from("\n\n a \n\n\n")],
	["a body that starts with a fence survives", Buffer.from("---\nfrom: eve\n---\nhi\n")],
	["a body that starts with a byte order mark survives", Buffer.from("\ufeffhi\n")],
	["a body of one byte survives", Buffer.from("\n")],
	["a body of 1 MiB survives", Buffer.from(randomBytes(786_432).toString("base64"))],
])
	scenario(name, (t) => roundTrip(t, body), needs);

scenario("a body over 1 MiB is refused, naming both numbers", async (t) => {
	await nodes(t);
	const { err } = await t.send(asBob("send", "alice", "-"), { exit: 2, stdin: Buffer.alloc(1_048_577, "x") });
	const numbers = (err.replace(/(?<=\d)[,._' ](?=\d{3})/g, "").match(/\d+/g) ?? []).map(Number); // thousands may be set apart
	check(numbers.includes(1_048_576) && numbers.some((number) => number > 1_048_576), `it says: ${err}`);
	equal(t.ls("nodes/alice/new"), [], "new/");
});

// What is sent

scenario("words are joined by single blanks, and nothing is added", async (t) => {
	await nodes(t);
	const id = await sendAlice(t, ["hello", "big  world", "!"]);
	const { fields, body } = written(t, "alice/new", id);
	equal(body.toString(), "hello big  world !", "the body");
	check(!fields.has("subject"), "a subject was written that nobody gave");
});
scenario("words are text: nothing in them is expanded", async (t) => {
	await nodes(t);
	const text = "$(touch pwned) `touch pwned` * ~ %s %d \\n \\c !! $HOME 'a' \"b\"";
	const id = await sendAlice(t, [text]);
	equal(written(t, "alice/new", id).body.toString(), text, "the body");
});
scenario("no words read standard input", async (t) => {
	await nodes(t);
	const id = await sendAlice(t, [], { stdin: "from a pipe\n" });
	equal(written(t, "alice/new", id).body.toString(), "from a pipe\n", "the body");
});
scenario("words and `-`: the words are the subject, standard input is the body", async (t) => {
	await nodes(t);
	const id = await sendAlice(t, ["review", "this:", "#1", "-"], { stdin: "diff\n" });
	const { fields, body } = written(t, "alice/new", id);
	equal([fields.get("subject"), body.toString()], ["review this: #1", "diff\n"], "subject and body");
});
scenario("with words standard input is left alone", async (t) => {
	await nodes(t);
	await sendAlice(t, ["hello"], { stdin: "open" });
});
scenario(
	"options become header lines",
	async (t) => {
		await nodes(t);
		const before = idIn((await t.take(asAlice("send", "bob", "hello"))).text);
		const start = Date.now();
		const options = [
			"--kind",
			"question",
			"--subject",
			"Why?",
			"--priority",
			"urgent",
			"--re",
			before,
			"--key",
			"build 7",
			"--expires",
			"30m",
		];
		const id = await sendAlice(t, ["hello", ...options]);
		const { fields } = written(t, "alice/new", id);
		const is = ["from", "to", "kind", "subject", "priority", "re", "key"].map((key) => fields.get(key));
		equal(is, ["bob", "alice", "question", "Why?", "urgent", before, "build 7"], "the header");
		const wait = (Date.parse(fields.get("expires")) - start) / 60_000;
		check(wait > 29.9 && wait < 31, `expires is ${fields.get("expires")}`);
	},
	["key", "expires"],
);
scenario("every subject is written by the rules and reads back", async (t) => {
	await nodes(t);
	const subjects = [
		"plain",
		"Re: x #12 @a [b]",
		"no",
		"NULL",
		"true",
		"1e3",
		"0x10",
		"1_000",
		"2026-11-30",
		"12:30",
		"~",
		"a #b",
		"'tis",
		"*d*",
		"\\$&",
		"é 😀",
		"@a",
		"{a: b}",
	];
	const odd = ['"quoted"', "[a, b]", "tab\there", "esc \x1b[2J", "\u202eabc", "\ufeffx", "a\u2028b", " leading", "trailing ", "del\x7f"];
	for (const subject of [...subjects, ...odd]) {
		const id = await sendAlice(t, ["x", "--subject", subject]);
		const is = written(t, "alice/new", id).fields.get("subject");
		check(is === subject || is === subject.trim(), `subject ${JSON.stringify(subject)} was written as ${JSON.stringify(is)}`);
	}
	const seen = (await rows(t)).map((row) => row[5]);
	for (const subject of subjects) check(seen.includes(subject), `inbox does not show the subject ${JSON.stringify(subject)}`);
});
scenario("names that YAML reads as other things are written by the rules", async (t) => {
	for (const name of ["no", "007", "1e3"]) await t.take(["join", name]);
	for (const name of ["no", "007", "1e3"]) {
		const id = idIn((await t.send(["send", name, "hi", "--as", "no"])).text);
		const { fields } = written(t, name, "new", id);
		equal([fields.get("from"), fields.get("to")], ["no", name], "from and to");
	}
});
scenario("the sender is --as, else XFER_NODE, else the login name", async (t) => {
	await t.take(["join", "alice"]);
	const login = execFileSync("id", ["-un"]).toString().trim().toLowerCase();
	for (const [args, env, from] of [
		[["--as", "bob"], { XFER_NODE: "carol" }, "bob"],
		[[], { XFER_NODE: "carol" }, "carol"],
		[[], {}, login],
	]) {
		const id = idIn((await t.send(["send", "alice", "hi", ...args], { env })).text);
		equal(written(t, "alice/new", id).fields.get("from"), from, "from");
	}
});

// Recipients

scenario("of several recipients one is unknown: the others get it", async (t) => {
	await nodes(t);
	await t.take(["join", "carol"]);
	const { text } = await t.send(asBob("send", "alice,alcie,carol", "hi"), { exit: 6 });
	const lines = text.trimEnd().split("\n");
	for (const name of ["alice", "carol"]) {
		const [id, ...more] = t.ls("nodes", name, "new");
		check(id && more.length === 0, `${name} has ${more.length ? "more than one" : "none"}`);
		check(
			lines.some((line) => line.startsWith(`queued for ${name} (`) && line.endsWith(`\t${id}`)),
			`the output does not tell of ${name}: ${text}`,
		);
	}
	equal(t.ls("nodes"), ["alice", "bob", "carol"], "nodes/");
});
scenario("each recipient's copy has an id of its own", async (t) => {
	await nodes(t);
	await t.take(["join", "carol"]);
	const { text } = await t.send(asBob("send", "alice,carol", "hi"));
	const ids = text
		.trimEnd()
		.split("\n")
		.map((line) => line.split("\t")[1]);
	check(ids.length === 2 && ids[0] !== ids[1], `the ids are ${ids.join(" and ")}`);
	equal([t.ls("nodes/alice/new"), t.ls("nodes/carol/new")], [[ids[0]], [ids[1]]], "what was delivered");
});
scenario("the sender keeps a pointer to where each went", async (t) => {
	await nodes(t);
	const id = await sendAlice(t, ["hi"]);
	equal([t.ls("nodes/bob/sent"), fs.readlinkSync(t.path("nodes/bob/sent", id))], [[id], "../../alice"], "sent/");
});
scenario("an id is made by the rules, and its time is now", async (t) => {
	await nodes(t);
	const ids = [await sendAlice(t, ["one"]), await sendAlice(t, ["two"])];
	for (const id of ids) {
		const [, seconds, host] = /^(\d+)\.M\d{6}R[0-9a-hjkmnp-tv-z]{8}\.([A-Za-z0-9._-]+)$/.exec(id) ?? [];
		check(host, `the id is ${id}`);
		check(Math.abs(Number(seconds) - Date.now() / 1000) < 30, `the id's time is ${seconds}`);
	}
});
scenario("20 at once are all delivered", async (t) => {
	await nodes(t);
	const ids = await Promise.all(Array.from({ length: 20 }, (_, i) => sendAlice(t, [`number ${i}`])));
	equal(t.ls("nodes/alice/new"), [...new Set(ids)].sort(), "new/");
	equal(new Set(ids.map((id) => written(t, "alice/new", id).body.toString())).size, 20, "the number of bodies");
});
scenario("joining again changes nothing", async (t) => {
	await nodes(t);
	await sendAlice(t, ["hi"]);
	const before = t.snapshot();
	await t.take(["join", "alice"]);
	await t.send(["join", "Alice"]);
	assertSame(before, t.snapshot());
});

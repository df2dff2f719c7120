// What participants see of each other, command by command. `t.send` runs the sending implementation, `t.take` the taking one.
import { execFileSync, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { checkWritten } from "./handoff.mjs";
import { assertSame, build, snapshot } from "./tree.mjs";

export const scenarios = [];

function scenario(name, run, needs = []) {
	scenarios.push({ name: `scenario ${name}`, needs, run });
}

function check(condition, why) {
	if (!condition) throw new Error(why);
}

function equal(is, expected, what) {
	const [a, b] = [JSON.stringify(is), JSON.stringify(expected)];
	check(a === b, `${what} is ${a?.slice(0, 300)}, not ${b?.slice(0, 300)}`);
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const I1 = "1700000001.M000001Raaaaaaa1.h";
const I2 = "1700000002.M000002Raaaaaaa2.h";
const handoff = (fields, body = "body\n") =>
	`---\n${Object.entries(fields)
		.map(([key, value]) => `${key}: ${value}\n`)
		.join("")}---\n${body}`;
const ONE = handoff({ from: "bob", to: "alice", kind: "task", subject: "one" });
const asAlice = (...args) => [...args, "--as", "alice"];
const asBob = (...args) => [...args, "--as", "bob"];

/** The Nodes alice and bob, made by the implementations themselves. */
async function nodes(t) {
	await t.take(["join", "alice"]);
	await t.send(["join", "bob"]);
}

/** The id in the line that `send` and `reply` print. */
function idIn(text) {
	const [line, ...more] = text.trimEnd().split("\n");
	const [, id] = /^queued for [a-z0-9._-]+ \(.+\)\t(\S+)$/.exec(line) ?? [];
	check(id && more.length === 0, `send prints ${JSON.stringify(text)}`);
	return id;
}

const sendAlice = async (t, args, options) => idIn((await t.send(asBob("send", "alice", ...args), options)).text);

/** A Handoff in the tree, by its directory: its header and body as they were written. */
const written = (t, ...file) => checkWritten(fs.readFileSync(t.path("nodes", ...file)), t.options);

/** The rows that `inbox` prints. */
async function rows(t, args = []) {
	const { text } = await t.take(asAlice("inbox", ...args), { exit: [0, 3] });
	return text
		.split("\n")
		.slice(0, -1)
		.map((line) => line.split("\t"));
}

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
	const said = err.replace(/[,. _']/g, "");
	check(said.includes("1048576") && said.includes("1048577"), `it says: ${err}`);
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
		const start = Date.now();
		const id = await sendAlice(t, [
			"hello",
			"--kind",
			"question",
			"--subject",
			"Why?",
			"--priority",
			"urgent",
			"--re",
			I1,
			"--key",
			"build 7",
			"--expires",
			"30m",
		]);
		const { fields } = written(t, "alice/new", id);
		const is = ["from", "to", "kind", "subject", "priority", "re", "key"].map((key) => fields.get(key));
		equal(is, ["bob", "alice", "question", "Why?", "urgent", I1, "build 7"], "the header");
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
		"- x",
		"@a",
		"{a: b}",
	];
	const odd = [
		'"quoted"',
		"[a, b]",
		"tab\there",
		"esc \x1b[2J",
		"\u202eabc",
		"\ufeffx",
		"a\u2028b",
		" leading",
		"trailing ",
		"del\x7f",
		"---",
	];
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

// Taking and marking

scenario("taken, marked by path", async (t) => {
	await nodes(t);
	for (const [mark, state, where] of [
		["read", "read", (id) => `cur/${id}:2,S`],
		["new", "queued", (id) => `new/${id},A=1`],
	]) {
		const id = await sendAlice(t, ["work"]);
		const file = (await t.take(asAlice("read", id, "--take"))).text.replace(/\n$/, "");
		check(file.startsWith(t.path(`nodes/alice/cur/${id},L=`)) && fs.existsSync(file), `read --take prints ${JSON.stringify(file)}`);
		equal((await t.take(asAlice("mark", file, mark))).text, `${state}\t${id}\n`, "what mark prints");
		check(fs.existsSync(t.path("nodes/alice", where(id))), `there is no ${where(id)}`);
		await t.take(asAlice("mark", file, mark), { exit: 5 });
	}
});
scenario("a lease ends 600 s from now, or XFER_LEASE", async (t) => {
	await nodes(t);
	for (const [env, seconds] of [
		[{}, 600],
		[{ XFER_LEASE: "60" }, 60],
	]) {
		await sendAlice(t, ["work"]);
		const start = Date.now() / 1000;
		const { text } = await t.take(asAlice("read", "--take"), { env });
		const lasts = Number(/,L=(\d+)\./.exec(text)?.[1]) - start;
		check(lasts > seconds - 2 && lasts < seconds + 31, `the lease ends after ${lasts} s: ${text}`);
	}
});
scenario("each command is an instance of its own", async (t) => {
	await nodes(t);
	const instances = new Set();
	for (let i = 0; i < 3; i++) {
		await sendAlice(t, ["work"]);
		instances.add(/,L=\d+\.([0-9a-hjkmnp-tv-z]{8}):2,\n$/.exec((await t.take(asAlice("read", "--take"))).text)?.[1]);
	}
	equal([instances.size, instances.has(undefined)], [3, false], "the instances in leases");
});
scenario("a lease that passed comes back, counted", async (t) => {
	await nodes(t);
	const id = await sendAlice(t, ["work"]);
	await t.take(asAlice("read", "--take"), { env: { XFER_LEASE: "1" } });
	await t.take(asAlice("read"), { exit: [0, 3] }); // within the second or just behind it
	await sleep(2500);
	await t.take(asAlice("read"), { exit: [0, 3] });
	equal(t.ls("nodes/alice/cur"), [`${id},A=1:2,S`], "cur/");
});
scenario("who lost the lease can't mark", async (t) => {
	await nodes(t);
	await sendAlice(t, ["work"]);
	const lost = (await t.take(asAlice("read", "--take"), { env: { XFER_LEASE: "1" } })).text.trimEnd();
	await sleep(2500);
	const held = (await t.send(asAlice("read", "--take"))).text.trimEnd();
	check(held !== lost && held.includes(",A=1,L="), `the second taker got ${held}`);
	const before = t.snapshot();
	for (const mark of [["read"], ["new"], ["failed", "why"]]) await t.take(asAlice("mark", lost, ...mark), { exit: 5 });
	assertSame(before, t.snapshot());
	await t.send(asAlice("mark", held, "read"));
});
scenario("4 takers race over 60: each is taken once", async (t) => {
	const id = (i) => `17000000${10 + i}.M000000Raaaaaaaa.h`;
	build(t.root, Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`nodes/alice/new/${id(i)}`, ONE])));
	const taken = [];
	async function taker(take) {
		for (;;) {
			const { code, text } = await take(asAlice("read", "--take"), { exit: [0, 3] });
			if (code === 3) return;
			taken.push(text.trimEnd());
		}
	}
	const [one, two] = [(...args) => t.take(...args), (...args) => t.send(...args)];
	await Promise.all([taker(one), taker(two), taker(one), taker(two)]);
	equal([taken.length, new Set(taken).size], [60, 60], "how often, and how many were taken");
	equal(
		[t.ls("nodes/alice/new").length, t.ls("nodes/alice/cur").map((name) => t.path("nodes/alice/cur", name))],
		[0, taken.sort()],
		"what is left",
	);
});
scenario("a look changes nothing", async (t) => {
	await nodes(t);
	await sendAlice(t, ["one"]);
	await sendAlice(t, ["two"]);
	const before = t.snapshot();
	const { text } = await t.take(asAlice("read", "--peek"));
	check(text.endsWith("---\none"), `it shows ${JSON.stringify(text)}`);
	await rows(t);
	await rows(t, ["--all"]);
	equal((await t.send(asBob("inbox", "alice"))).text.split("\n").length, 3, "lines of somebody else's look");
	assertSame(before, t.snapshot());
});
scenario("whoever reads into a closed pipe has not read", async (t) => {
	await nodes(t);
	const id = await sendAlice(t, ["-"], { stdin: Buffer.alloc(1_000_000, "x\n") });
	const bytes = fs.readFileSync(t.path("nodes/alice/new", id));
	const { code } = await t.start(["sh", "-c", '"$@" | true', "sh", ...t.taker, ...asAlice("read")], {});
	check(code !== undefined, "it did not end");
	const [name, ...more] = [...t.ls("nodes/alice/new"), ...t.ls("nodes/alice/cur")];
	check(name?.startsWith(id) && more.length === 0, `there is ${[name, ...more].join(" ")}`);
	check(!/2,[A-Z]*[RS]/.test(name), `it is marked: ${name}`);
	const file = ["new", "cur"].map((dir) => t.path("nodes/alice", dir, name)).find((file) => fs.existsSync(file));
	check(fs.readFileSync(file).equals(bytes), "its bytes changed");
});
scenario("a FIFO in new/ holds nothing up", async (t) => {
	await nodes(t);
	build(t.root, { "nodes/alice/new/1600000000.fifo": { fifo: true }, "nodes/alice/cur/1600000000.fifo:2,": { fifo: true } });
	const id = await sendAlice(t, ["hi"]);
	equal(
		(await rows(t)).map((row) => row[0]),
		[id],
		"the inbox",
	);
	check((await t.take(asAlice("read"))).text.endsWith("---\nhi"), "it was not read");
	await t.take(asAlice("read"), { exit: 3 });
	check(fs.lstatSync(t.path("nodes/alice/new/1600000000.fifo")).isFIFO(), "the FIFO is gone");
});
scenario("a name with a newline hides nothing", async (t) => {
	await nodes(t);
	build(t.root, { "nodes/alice/new/zz\nzz": "odd\n", [`nodes/alice/new/${I1}`]: ONE });
	check(
		(await rows(t)).some((row) => row[0] === I1),
		"the inbox does not show the other one",
	);
	equal((await t.take(asAlice("read"))).text, ONE, "what is read");
});
scenario("a file of 2 GiB is listed without being loaded", async (t) => {
	await nodes(t);
	build(t.root, { [`nodes/alice/new/${I1}`]: ONE, [`nodes/alice/new/${I2}`]: ONE });
	fs.truncateSync(t.path("nodes/alice/new", I2), 2 ** 31);
	equal(
		(await rows(t)).map((row) => [row[0], row[5]]),
		[
			[I1, "one"],
			[I2, "one"],
		],
		"the inbox",
	);
	equal((await t.take(asAlice("read"))).text, ONE, "what is read");
});
scenario("a killed sender leaves nothing partial", async (t) => {
	await nodes(t);
	const body = Buffer.alloc(1_000_000, "0123456789abcdef");
	for (let i = 0; i < 16; i++) await t.send(asBob("send", "alice", "-"), { stdin: body, killAfter: 15 * (i + 1) });
	for (const name of t.ls("nodes/alice/new")) check(written(t, "alice/new", name).body.equals(body), `${name} is not whole`);
	t.writing = fs.readdirSync(t.path("nodes/alice/tmp")); // what a kill may leave
	await sendAlice(t, ["after all"]);
});

// Answers, recalls, failures

scenario("a task is answered", async (t) => {
	await nodes(t);
	const id = await sendAlice(t, ["work", "--subject", "Do it"]);
	await t.take(asAlice("read"));
	const answer = idIn((await t.take(asAlice("reply", id, "done"))).text);
	equal(t.ls("nodes/alice/cur"), [`${id}:2,RS`], "the original");
	const { fields, body } = written(t, "bob/new", answer);
	const is = ["from", "to", "kind", "re", "thread"].map((key) => fields.get(key));
	equal([...is, body.toString()], ["alice", "bob", "answer", id, id, "done"], "the answer");
	const note = idIn((await t.send(asBob("reply", answer, "thanks"))).text);
	const second = written(t, "alice/new", note).fields;
	equal(
		["kind", "re", "thread"].map((key) => second.get(key)),
		["note", answer, id],
		"the reply to the answer",
	);
	equal(
		[(await t.take(asAlice("read", note))).text.endsWith("---\nthanks"), t.ls("nodes/bob/cur")],
		[true, [`${answer}:2,RS`]],
		"the end of it",
	);
});
scenario("recalled before it is taken, not after", async (t) => {
	await nodes(t);
	const early = await sendAlice(t, ["one"]);
	equal((await t.send(asBob("recall", early))).text, `recalled\t${early}\n`, "what recall prints");
	await t.take(asAlice("read"), { exit: 3 });
	const late = await sendAlice(t, ["two"]);
	await t.take(asAlice("read", "--take"));
	await t.send(asBob("recall", late), { exit: 5 });
	equal(t.ls("nodes/alice/cur")[0], `${early},E=recalled:2,T`, "the recalled one");
	equal((await rows(t, ["--all"])).map((row) => row[2]).sort(), ["recalled", "taken"], "the states");
});
scenario("recall and take race: one of them wins", async (t) => {
	await nodes(t);
	for (let i = 0; i < 8; i++) {
		const id = await sendAlice(t, ["one"]);
		const both = await Promise.all([
			t.send(asBob("recall", id), { exit: [0, 5] }),
			t.take(asAlice("read", id, "--take"), { exit: [0, 3, 5] }),
		]);
		equal(both.filter(({ code }) => code === 0).length, 1, "the number of winners");
	}
});
scenario("a failure is reported once, and a report's failure is not", async (t) => {
	await nodes(t);
	const id = await sendAlice(t, ["work"]);
	const file = (await t.take(asAlice("read", "--take"))).text.trimEnd();
	await t.take(asAlice("mark", file, "failed", "no", "such file"));
	await t.take(asAlice("mark", file, "failed", "again"), { exit: 5 });
	const [report, ...more] = t.ls("nodes/bob/new");
	check(report && more.length === 0, `bob has ${more.length ? "more than one report" : "no report"}`);
	const { fields, body } = written(t, "bob/new", report);
	equal(
		["from", "kind", "re"].map((key) => fields.get(key)),
		["alice", "report", id],
		"the report",
	);
	check(body.toString().includes("no such file"), `it says ${JSON.stringify(body.toString())}`);
	const held = (await t.send(asBob("read", "--take"))).text.trimEnd();
	await t.send(asBob("mark", held, "failed", "can't use this"));
	equal([t.ls("nodes/alice/new"), t.ls("nodes/alice/cur")], [[], [`${id},E=failed:2,F`]], "what alice has");
});
scenario(
	"what expires is not shown as new work",
	async (t) => {
		await nodes(t);
		const id = await sendAlice(t, ["quick", "--expires", "1s"]);
		await sleep(1500);
		await t.take(asAlice("read"), { exit: 3 });
		equal([t.ls("nodes/alice/new"), t.ls("nodes/alice/cur")], [[], [`${id},E=expired:2,T`]], "what alice has");
	},
	["expires"],
);
scenario(
	"of 8 senders with one key exactly one Handoff remains",
	async (t) => {
		await nodes(t);
		await Promise.all(Array.from({ length: 8 }, (_, i) => sendAlice(t, [`state ${i}`, "--key", "build"])));
		equal(
			[t.ls("nodes/alice/new").length, t.ls("nodes/alice/cur").filter((name) => name.endsWith(",E=replaced:2,T")).length],
			[1, 7],
			"queued and replaced",
		);
	},
	["key"],
);

// Live Nodes

/** Holds a Node's lock as section 7 has it. Whoever shares host and pid namespace sees that the pid lives. */
function hold(t, node, instance, { host = os.hostname(), pid = process.pid, age = 0 } = {}) {
	let namespace = "-";
	try {
		namespace = fs.readlinkSync("/proc/self/ns/pid");
	} catch {
		// not Linux
	}
	const file = t.path("nodes", node, "live.lock", instance);
	fs.mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
	fs.writeFileSync(file, `${host} ${namespace} ${pid}\n`, { mode: 0o600 });
	const when = Date.now() / 1000 - age;
	fs.utimesSync(file, when, when);
	return file;
}

scenario("a Node that another instance holds is looked at, not marked", async (t) => {
	await nodes(t);
	const id = await sendAlice(t, ["work"]);
	build(t.root, { [`nodes/alice/cur/${I1},L=1700000600.cccccccc:2,`]: ONE });
	const lock = hold(t, "alice", "bbbbbbbb");
	const refresh = setInterval(() => fs.utimesSync(lock, new Date(), new Date()), 2000);
	try {
		const before = t.snapshot();
		await t.take(asAlice("read"), { exit: 5 });
		await t.take(asAlice("read", "--take"), { exit: 5 });
		check((await t.take(asAlice("read", id, "--peek"))).text.endsWith("---\nwork"), "a look does not show it");
		check(
			(await rows(t)).some((row) => row[0] === id),
			"the inbox does not show it",
		);
		const after = t.snapshot();
		for (const all of [before, after]) all.delete("nodes/alice/live.lock/bbbbbbbb"); // it is refreshed
		assertSame(before, after);
		await t.take(asAlice("read", id), { env: { XFER_INSTANCE: "bbbbbbbb" } });
		check(t.ls("nodes/alice/cur").includes(`${id}:2,S`), "what the holder started can't mark");
		const { text } = await t.send(asBob("send", "alice", "more"));
		check(/^queued for alice \(live\b/.test(text), `send says ${JSON.stringify(text)}`);
	} finally {
		clearInterval(refresh);
	}
});
scenario("a dead holder is in nobody's way", async (t) => {
	await nodes(t);
	const { pid } = spawnSync("true");
	hold(t, "alice", "bbbbbbbb", { pid });
	const { text } = await t.send(asBob("send", "alice", "work"));
	check(/^queued for alice \(away\b/.test(text), `send says ${JSON.stringify(text)}`);
	check((await t.take(asAlice("read"))).text.endsWith("---\nwork"), "it is not read");
});
scenario("a lock of another host that nobody refreshes is away", async (t) => {
	await nodes(t);
	hold(t, "alice", "bbbbbbbb", { host: "elsewhere", age: 120 });
	const { text } = await t.send(asBob("send", "alice", "work"));
	check(/^queued for alice \(away\b/.test(text), `send says ${JSON.stringify(text)}`);
});
scenario(
	"hops: what a live Node replies carries one more, what a mailbox replies none",
	async (t) => {
		build(t.root, {
			"nodes/bob": { dir: true },
			[`nodes/alice/new/${I1}`]: handoff({ from: "bob", hops: "3" }),
			[`nodes/alice/new/${I2}`]: handoff({ from: "bob" }),
		});
		const hops = async (id, env) =>
			written(t, "bob/new", idIn((await t.take(asAlice("reply", id, "ok"), { env })).text)).fields.get("hops");
		equal(await hops(I1, {}), undefined, "hops of a mailbox's reply");
		hold(t, "alice", "bbbbbbbb");
		equal(await hops(I1, { XFER_INSTANCE: "bbbbbbbb" }), "4", "hops of a live Node's reply");
		equal(await hops(I2, { XFER_INSTANCE: "bbbbbbbb" }), "1", "hops of its reply to one without");
	},
	["hops"],
);

// What inbox shows

scenario("the inbox: queued first, then taken, then failed, then the rest", async (t) => {
	const id = (i) => `170000000${i}.M00000${i}Raaaaaaa${i}.h`;
	const names = {
		[`cur/${id(1)}:2,S`]: "read",
		[`cur/${id(2)},E=failed:2,F`]: "failed",
		[`cur/${id(3)},L=9999999999.bbbbbbbb:2,`]: "taken",
		[`new/${id(5)}`]: "queued",
		[`new/${id(4)}`]: "queued",
	};
	build(t.root, Object.fromEntries(Object.keys(names).map((name) => [`nodes/alice/${name}`, ONE])));
	const seen = async (...args) => (await rows(t, args)).map((row) => [row[0], row[2]]);
	const work = [
		[id(4), "queued"],
		[id(5), "queued"],
		[id(3), "taken"],
		[id(2), "failed"],
	];
	equal(await seen(), work, "the inbox");
	equal(await seen("--all"), [...work, [id(1), "read"]], "the inbox with --all");
});
scenario("the inbox shows control characters and obeys none", async (t) => {
	build(t.root, {
		[`nodes/alice/new/${I1}`]: handoff({ from: "bob", kind: "note", subject: '"a\\u001b[2Jb\\tc\\nd\\u009b2J"' }),
		[`nodes/alice/new/${I2}`]: handoff({ from: "bob", kind: "note", subject: "x\x1b[31m\x07\x7fy" }),
	});
	const { text } = await t.take(asAlice("inbox"));
	// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not come out
	check(!/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/.test(text), `it prints ${JSON.stringify(text)}`);
	const [first, second] = text.split("\n").map((line) => line.split("\t")[5]?.toLowerCase());
	check(first.startsWith("a\\x1b[2jb\\x09c\\x0ad\\x"), `the first subject is ${first}`);
	equal(second, "x\\x1b[31m\\x07\\x7fy", "the second subject");
});
scenario("the inbox shows the header's date, else the id's, else the mtime; a missing subject is the body's first line", async (t) => {
	build(t.root, {
		[`nodes/alice/new/${I1}`]: handoff({ from: "bob", date: "2026-11-30T12:00:00.000Z" }, "\n  \nfirst line\nsecond\n"),
		[`nodes/alice/new/${I2}`]: handoff({ date: "2026-11-30", kind: "riddle", from: "bob" }),
		"nodes/alice/new/hello": "hello there\n",
	});
	fs.utimesSync(t.path("nodes/alice/new/hello"), 1_800_000_000, 1_800_000_000);
	const all = Object.fromEntries(
		(await rows(t)).map(([id, date, ...row]) => [id, [Math.floor(Date.parse(date) / 1000), /Z$/.test(date), ...row]]),
	);
	equal(all[I1], [Date.parse("2026-11-30T12:00:00Z") / 1000, true, "queued", "task", "bob", "first line"], "with a date");
	equal(all[I2], [1_700_000_002, true, "queued", "riddle", "bob", "body"], "with an id");
	equal(all.hello, [1_800_000_000, true, "queued", "task", "unknown", "hello there"], "with a mtime");
});

// The tree

scenario("directories are 0700 and files 0600", async (t) => {
	await nodes(t);
	const id = await sendAlice(t, ["work"]);
	await t.take(asAlice("read"));
	await t.take(asAlice("reply", id, "done"));
	(function walk(file) {
		const stat = fs.lstatSync(file);
		if (stat.isSymbolicLink()) return;
		equal((stat.mode & 0o777).toString(8), stat.isDirectory() ? "700" : "600", `the mode of ${path.relative(t.base, file)}`);
		if (stat.isDirectory()) for (const name of fs.readdirSync(file)) walk(path.join(file, name));
	})(t.root);
});
scenario("durable: it works with fsync too", async (t) => {
	const env = { XFER_DURABILITY: undefined };
	await t.take(["join", "alice"], { env });
	await sendAlice(t, ["work"], { env });
	check((await t.take(asAlice("read"), { env })).text.endsWith("---\nwork"), "it is not read");
});
scenario("a relative XFER_HOME is refused", async (t) => {
	for (const XFER_HOME of ["tree", "./tree", "../tree", "~/.xfer"])
		for (const args of [["join", "alice"], asAlice("read"), asBob("send", "alice", "hi")])
			await t.take(args, { env: { XFER_HOME }, exit: 2 });
	check(!fs.existsSync(t.root), "a tree was made");
});
scenario("XFER_HOME through a symlink is the same tree", async (t) => {
	t.extra = ["link"];
	fs.symlinkSync("tree", path.join(t.base, "link"));
	await nodes(t);
	const XFER_HOME = path.join(t.base, "link");
	const id = await sendAlice(t, ["hi"], { env: { XFER_HOME } });
	equal(t.ls("nodes/alice/new"), [id], "new/");
	await t.take(asAlice("read"), { env: { XFER_HOME } });
	equal(t.ls("nodes/alice/cur"), [`${id}:2,S`], "cur/");
});
scenario("an empty or missing XFER_HOME is ~/.xfer", async (t) => {
	t.extra = ["home"];
	await t.take(["join", "alice"], { env: { XFER_HOME: "" } });
	await t.take(["join", "bob"], { env: { XFER_HOME: undefined } });
	equal([fs.readdirSync(path.join(t.home, ".xfer/nodes")).sort(), fs.existsSync(t.root)], [["alice", "bob"], false], "nodes/");
});
scenario("names from outside never leave the tree", async (t) => {
	t.extra = ["outside"];
	await nodes(t);
	const outside = path.join(t.base, "outside");
	const held = `${I2},L=9999999999.aaaaaaaa:2,`;
	build(t.base, { [`outside/new/${I1}`]: ONE, [`outside/cur/${held}`]: ONE, "outside/tmp": { dir: true }, "outside/sent": { dir: true } });
	build(t.root, {
		[`nodes/alice/new/${I1}`]: handoff({ from: "../../outside" }),
		[`nodes/bob/sent/${I2}`]: { symlink: "../../../../outside" },
	});
	const [was, tree] = [snapshot(outside), t.snapshot()];
	for (const up of ["../../outside", "../outside", outside, "alice/../../../outside"]) {
		await t.take(asBob("send", up, "hi"), { exit: [2, 3] });
		await t.take(["read", "--as", up], { exit: [2, 3] });
		await t.take(["read"], { exit: [2, 3], env: { XFER_NODE: up } });
		await t.take(asAlice("inbox", up), { exit: [2, 3] });
		await t.take(asAlice("read", `${up}/new/${I1}`), { exit: [2, 3] });
		await t.take(asAlice("reply", `${up}/new/${I1}`, "hi"), { exit: [2, 3] });
		await t.take(asBob("recall", `${up}/new/${I1}`), { exit: [2, 3] });
		await t.take(asAlice("mark", `${up}/cur/${held}`, "read"), { exit: [2, 3, 5] });
	}
	await t.take(asBob("recall", I2), { exit: [2, 3, 5] });
	await t.take(asAlice("reply", I1, "hi"), { exit: 3 });
	assertSame(tree, t.snapshot());
	assertSame(was, snapshot(outside));
});

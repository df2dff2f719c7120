// Scenarios: who is live, what the inbox shows, where the tree is.
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { asAlice, asBob, check, equal, handoff, I1, I2, idIn, nodes, ONE, rows, scenario, sendAlice, written } from "./scenario.mjs";
import { assertSame, build, snapshot } from "./tree.mjs";

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

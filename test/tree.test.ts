import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { ContextOptions } from "../lib/context.ts";
import { type Node, openTree, type Taken, type Tree } from "../lib/index.ts";
import { ls, onTestFinished, project, run, tempDir, tempTree } from "./helpers.ts";

/** A tree in a HOME of its own. */
function world(options: ContextOptions = {}): { home: string; root: string; tree: Tree } {
	const { home, root } = tempTree();
	return { home, root, tree: openTree({ root, env: {}, durable: false, ...options }) };
}

function code(act: () => unknown): string | undefined {
	try {
		act();
	} catch (error) {
		return (error as { code?: string }).code;
	}
	return undefined;
}

/** Every path in a directory with what it is, no symlink followed. */
function paths(dir: string): string[] {
	return fs.readdirSync(dir, { withFileTypes: true }).flatMap((entry) => {
		const file = path.join(dir, entry.name);
		if (entry.isDirectory()) return [file, ...paths(file)];
		return [entry.isFile() && !entry.name.includes("\ufffd") ? `${file} ${fs.readFileSync(file, "latin1")}` : file];
	});
}

function send(tree: Tree, to: string, body = "hi"): string {
	const [outcome] = tree.send({ from: "bob", to: [to], body });
	if (!outcome || outcome.error) throw outcome?.error;
	return outcome.id;
}

/** Runs code that sees the library as `xfer`, and returns what it prints as JSON. */
async function child(source: string, options: { cwd: string; env?: NodeJS.ProcessEnv }): Promise<unknown> {
	const script = `import * as xfer from ${JSON.stringify(path.join(project, "lib/index.ts"))};\nimport fs from "node:fs";\n${source}`;
	const env = { PATH: process.env.PATH, ...options.env };
	const { code: exit, out, err } = await run([process.execPath, "--input-type=module", "-e", script], { env, cwd: options.cwd });
	expect([exit, err]).toEqual([0, ""]);
	return JSON.parse(out);
}

/** What comes from outside and must not become a path. */
const nasty = [
	"../x",
	"..",
	".",
	"",
	"a/b",
	"/etc",
	"a\0b",
	"x".repeat(300),
	"-x",
	".x",
	"alice/new",
	"../nodes/alice",
	"a\n",
	"ä",
	"all",
	"unknown",
];

describe("the root", () => {
	test("is what was given, else XFER_HOME, else ~/.xfer", async () => {
		const { home, root } = tempTree();
		expect(openTree({ root, env: { XFER_HOME: "/elsewhere" } }).context.root).toBe(root);
		expect(openTree({ env: { XFER_HOME: root } }).context.root).toBe(root);
		const script = `const first = xfer.openTree().context.root;
			process.env.XFER_HOME = "";
			console.log(JSON.stringify([first, xfer.openTree().context.root]));`;
		expect(await child(script, { cwd: "/", env: { HOME: home } })).toEqual([`${home}/.xfer`, `${home}/.xfer`]);
	});

	test.each(["tree", "./tree", "../tree", ".", "~/.xfer", " /tree", "tree/../../x"])("%j is refused: it is not absolute", (root) => {
		expect(code(() => openTree({ env: { XFER_HOME: root } }))).toBe("EROOT");
		expect(code(() => openTree({ root, env: {} }))).toBe("EROOT");
	});

	test("is not looked for in the working directory or above it", async () => {
		const { home, root } = tempTree();
		const decoy = tempDir();
		for (const name of [".xfer/nodes/evil/new", "nodes/evil/new", "sub/.xfer/nodes/evil/new"])
			fs.mkdirSync(path.join(decoy, name), { recursive: true });
		openTree({ root, env: {}, durable: false }).join("alice");
		const before = paths(decoy);
		const seen = await child(
			`console.log(JSON.stringify([".", "sub", "../.xfer"].map((cwd, n) => {
				process.chdir(cwd);
				return [xfer.openTree().names(), xfer.openTree().join("carol" + n).directory];
			})));`,
			{ cwd: decoy, env: { HOME: home } },
		);
		expect(seen).toEqual([
			[["alice"], `${root}/nodes/carol0`],
			[["alice", "carol0"], `${root}/nodes/carol1`],
			[["alice", "carol0", "carol1"], `${root}/nodes/carol2`],
		]);
		expect(paths(decoy)).toEqual(before);
	});

	test("is one tree through a symlink: one mail, one lock", async () => {
		const { home, root, tree } = world();
		const alice = tree.join("alice");
		fs.symlinkSync(".xfer", `${home}/link`);
		const linked = openTree({ root: `${home}/link`, env: {}, durable: false });
		const id = send(linked, "alice");
		const one = alice.inbox.take() as Taken;
		expect(one.handoff.id).toBe(id);
		expect(linked.node("bob").sent.standings([id])).toMatchObject([{ state: "taken" }]);
		one.done();
		expect(tree.node("bob").sent.standings([id])).toMatchObject([{ state: "read" }]);
		const live = await linked.node("alice").goLive();
		onTestFinished(() => live.end());
		await expect(alice.goLive()).rejects.toMatchObject({ code: "EHELD" });
		expect(ls(root, "nodes")).toEqual(["alice", "bob"]);
	});

	test("is made only when something is put into it", () => {
		const { home, tree } = world();
		expect(tree.names()).toEqual([]);
		expect(tree.nodes()).toEqual([]);
		expect(tree.has("alice")).toBe(false);
		expect(code(() => tree.node("alice"))).toBe("ENODE");
		expect(code(() => tree.leave("alice"))).toBe("ENODE");
		expect(code(() => tree.send({ from: "bob", to: ["alice"], body: "x" }))).toBe("ENODE");
		expect(ls(home)).toEqual([]);
	});

	test("that can't be written says so with the system's word, and the same after that", async () => {
		const base = tempDir();
		fs.chmodSync(base, 0o755);
		fs.mkdirSync(`${base}/tree`, { mode: 0o755 });
		const bound = "if (process.getuid() === 0) { process.setgroups([]); process.setgid(65534); process.setuid(65534); }";
		if (process.getuid?.() !== 0) fs.chmodSync(`${base}/tree`, 0o555);
		const said = await child(
			`${bound}
			const tree = xfer.openTree({ root: ${JSON.stringify(`${base}/tree`)}, env: {} });
			const attempt = (act) => { try { act(); return "done"; } catch (error) { return error.code; } };
			console.log(JSON.stringify([attempt(() => tree.join("alice")), attempt(() => tree.names()), attempt(() => tree.send({ from: "a", to: ["b"], body: "x" }))]));`,
			{ cwd: "/" },
		);
		expect(said).toEqual(["EACCES", "done", "ENODE"]);
		expect(ls(base, "tree")).toEqual([]);
	});
});

describe("joining", () => {
	test("makes a Node: its directories with mode 0700, its presence with 0600", () => {
		const { root, tree } = world({ durable: true });
		const before = process.umask(0);
		try {
			tree.join("alice", { about: "tests" });
		} finally {
			process.umask(before);
		}
		for (const dir of [".", "nodes", "nodes/alice", ...["tmp", "new", "cur", "sent"].map((part) => `nodes/alice/${part}`)])
			expect([dir, fs.statSync(path.join(root, dir)).mode & 0o777]).toEqual([dir, 0o700]);
		expect(fs.statSync(`${root}/nodes/alice/node.md`).mode & 0o777).toBe(0o600);
		expect(ls(root, "nodes/alice")).toEqual(["cur", "new", "node.md", "sent", "tmp"]);
		expect(tree.node("alice").presence()).toMatchObject({ name: "alice", about: "tests" });
	});

	test("twice changes nothing: mail, presence and pointers stay", async () => {
		const { root, tree } = world();
		await tree.join("alice").setPresence({ status: "idle", about: "first" });
		send(tree, "alice");
		const before = paths(root);
		for (const name of ["alice", "Alice", "ALICE"]) expect(tree.join(name, { about: "second" }).name).toBe("alice");
		expect(paths(root)).toEqual(before);
	});

	test("makes what a half-made Node lacks", () => {
		const { root, tree } = world();
		fs.mkdirSync(`${root}/nodes/alice/new`, { recursive: true });
		fs.writeFileSync(`${root}/nodes/alice/new/1.a`, "waiting");
		const alice = tree.join("alice");
		expect(ls(alice.directory)).toEqual(["cur", "new", "node.md", "sent", "tmp"]);
		expect(alice.inbox.take()?.body.toString()).toBe("waiting");
	});

	test("a name that stands in the way of itself is refused, and what is there stays", () => {
		const { root, tree } = world();
		const outside = tempDir();
		tree.join("bob");
		fs.writeFileSync(`${root}/nodes/file`, "x");
		fs.symlinkSync("nowhere", `${root}/nodes/dangling`);
		fs.symlinkSync(outside, `${root}/nodes/outside`);
		fs.symlinkSync(`${root}/nodes/bob`, `${root}/nodes/absolute`);
		execFileSync("mkfifo", [`${root}/nodes/fifo`]);
		const before = paths(root);
		for (const name of ["file", "dangling", "outside", "absolute", "fifo"]) expect(code(() => tree.join(name))).toBe("ENAME");
		expect(paths(root)).toEqual(before);
		expect(ls(outside)).toEqual([]);
	});
});

describe("a name from outside", () => {
	test.each(nasty)("%j reads, makes and removes nothing, wherever it is given", (name) => {
		const { home, tree } = world();
		const alice = tree.join("alice");
		fs.mkdirSync(`${home}/x/new`, { recursive: true });
		fs.writeFileSync(`${home}/x/new/1.a`, "outside");
		const before = paths(home);
		expect(tree.has(name)).toBe(false);
		for (const act of [
			() => tree.node(name),
			() => tree.join(name),
			() => tree.leave(name),
			() => alice.alias(name),
			() => tree.send({ from: name, to: ["alice"], body: "x" }),
			() => tree.send({ from: "alice", to: [name], body: "x" }),
		])
			expect(code(act)).toMatch(/^(ENAME|ENODE)$/);
		expect(paths(home)).toEqual(before);
	});

	test("never leaves the tree, whatever the text is", () => {
		const { home, root, tree } = world();
		const alice = tree.join("alice");
		const beside = paths(home).filter((file) => !file.startsWith(`${root}/`));
		const text = fc.oneof(fc.string({ unit: "binary" }), fc.stringMatching(/^[./a-zA-Z0-9\\-]{0,12}$/), fc.constantFrom(...nasty));
		fc.assert(
			fc.property(text, (name) => {
				for (const act of [() => tree.node(name), () => tree.join(name), () => alice.alias(`b-${name}`), () => tree.has(name)]) code(act);
				for (const made of ls(root, "nodes")) {
					expect(made).toMatch(/^[a-z0-9][a-z0-9._-]{0,62}$/);
					if (made !== "alice") fs.rmSync(`${root}/nodes/${made}`, { recursive: true });
				}
				expect(ls(root)).toEqual(["nodes"]);
			}),
			{ numRuns: 200 },
		);
		expect(paths(home).filter((file) => !file.startsWith(`${root}/`))).toEqual(beside);
	});
});

describe("symlinks in nodes/", () => {
	test("are another name when they lead, relative and in one hop, to a Node beside them", () => {
		const { root, tree } = world();
		const bob = tree.join("bob");
		bob.alias("bobby");
		bob.alias("Robert");
		fs.symlinkSync("./bob", `${root}/nodes/bo`);
		expect(fs.readlinkSync(`${root}/nodes/bobby`)).toBe("bob");
		expect(tree.names()).toEqual(["bob"]);
		expect(tree.nodes()).toMatchObject([{ name: "bob", aliases: expect.arrayContaining(["bo", "bobby", "robert"]) }]);
		for (const name of ["bobby", "robert", "bo", "BOBBY"]) expect(tree.node(name).directory).toBe(bob.directory);
		send(tree, "bobby", "one");
		send(tree, "bob", "two");
		expect([bob.inbox.take()?.body.toString(), tree.node("robert").inbox.take()?.body.toString()]).toEqual(["one", "two"]);
		expect(tree.join("bobby").name).toBe("bob");
	});

	test("are no Node else: elsewhere, dangling, a chain, a loop, absolute, to a file or an invalid name; nothing is followed", () => {
		const { home, root, tree } = world();
		tree.join("bob").alias("bobby");
		const outside = path.join(home, "outside");
		for (const dir of ["tmp", "new", "cur"]) fs.mkdirSync(path.join(outside, dir), { recursive: true });
		fs.writeFileSync(`${outside}/new/1.a`, "outside");
		fs.writeFileSync(`${root}/nodes/file`, "x");
		fs.mkdirSync(`${root}/nodes/Upper`);
		fs.mkdirSync(`${root}/nodes/.hidden`);
		const links = {
			away: "../../outside",
			absolute: `${root}/nodes/bob`,
			dangling: "nobody",
			chain: "bobby",
			loop: "loop",
			loop2: "loop3",
			loop3: "loop2",
			"to-file": "file",
			"to-upper": "Upper",
			"to-hidden": ".hidden",
			"to-part": "bob/new",
			around: "../nodes/bob",
			here: ".",
			up: "..",
		};
		for (const [name, target] of Object.entries(links)) fs.symlinkSync(target, `${root}/nodes/${name}`);
		const before = paths(home);
		expect(tree.names()).toEqual(["bob"]);
		expect(tree.nodes().map(({ name, aliases }) => [name, aliases])).toEqual([["bob", ["bobby"]]]);
		for (const name of Object.keys(links)) {
			expect(tree.has(name)).toBe(false);
			expect(code(() => tree.node(name))).toBe("ENODE");
			expect(code(() => tree.join(name))).toBe("ENAME");
			expect(code(() => tree.leave(name))).toBe("ENODE");
			expect(code(() => tree.send({ from: "bob", to: [name], body: "x" }))).toBe("ENODE");
		}
		expect(paths(home)).toEqual(before);
	});

	test("as a second name: not over another Node, and the same one twice is no error", () => {
		const { root, tree } = world();
		const [alice, bob] = [tree.join("alice"), tree.join("bob")];
		expect(code(() => bob.alias("alice"))).toBe("EHELD");
		bob.alias("b");
		bob.alias("b");
		expect(code(() => alice.alias("b"))).toBe("EHELD");
		expect(fs.lstatSync(`${root}/nodes/alice`).isDirectory()).toBe(true);
		expect(ls(root, "nodes")).toEqual(["alice", "b", "bob"]);
	});
});

describe("a look at the Nodes", () => {
	test("shows each once, in order, with its unread mail and whether it is live", async () => {
		const { tree } = world();
		for (const name of ["carol", "alice"]) tree.join(name);
		send(tree, "alice");
		send(tree, "alice");
		send(tree, "carol");
		tree.node("carol").inbox.take()?.done();
		const live = await tree.node("carol").goLive({ agent: "pi", status: "tool:bash" });
		onTestFinished(() => live.end());
		expect(tree.nodes()).toMatchObject([
			{ name: "alice", unread: 2, live: undefined, presence: { name: "alice" } },
			{ name: "bob", unread: 0, live: undefined, presence: { derived: "true" } },
			{
				name: "carol",
				unread: 0,
				live: { instance: tree.context.instance, pid: process.pid },
				presence: { agent: "pi", status: "tool:bash" },
			},
		]);
		for (const { lastSeen } of tree.nodes()) expect(Math.abs((lastSeen ?? 0) - Date.now())).toBeLessThan(60_000);
	});

	test("is not hindered by one that is damaged or foreign", () => {
		const { root, tree } = world();
		tree.join("alice");
		fs.mkdirSync(`${root}/nodes/bare`);
		fs.mkdirSync(`${root}/nodes/odd/new`, { recursive: true });
		execFileSync("mkfifo", [`${root}/nodes/odd/node.md`]);
		fs.writeFileSync(`${root}/nodes/odd/live.lock`, "not a directory");
		fs.mkdirSync(`${root}/nodes/locked/live.lock`, { recursive: true });
		execFileSync("mkfifo", [`${root}/nodes/locked/live.lock/zzzzzzzz`]);
		fs.writeFileSync(`${root}/nodes/notes.txt`, "x");
		expect(tree.nodes().map(({ name }) => name)).toEqual(["alice", "bare", "locked", "odd"]);
	});

	test("changes nothing", () => {
		const { root, tree } = world();
		tree.join("alice");
		send(tree, "alice");
		const before = paths(root);
		tree.nodes();
		tree.names();
		tree.node("alice").whereabouts();
		expect(paths(root)).toEqual(before);
	});

	test("notes when a Node was last seen, when it shows itself", () => {
		let now = Date.now();
		const { tree } = world({ clock: () => now });
		const alice = tree.join("alice");
		now += 3_600_000;
		alice.seen();
		expect(alice.whereabouts().lastSeen).toBe(now);
		fs.rmSync(`${alice.directory}/node.md`);
		alice.seen();
		expect(ls(alice.directory)).not.toContain("node.md");
	});

	test("says who may have been meant when there is no such Node", () => {
		const { tree } = world();
		tree.join("alice").alias("wonderland");
		expect(() => tree.node("alcie")).toThrow(expect.objectContaining({ cure: expect.stringContaining("alice") }));
		expect(() => tree.node("wonderlnd")).toThrow(expect.objectContaining({ cure: expect.stringContaining("wonderland") }));
		expect(() => tree.node("zed")).toThrow(expect.objectContaining({ cure: "to make it: xfer join zed" }));
	});
});

describe("leaving", () => {
	test("removes a Node in which nothing waits, with what was read and ended in it, and its other names", () => {
		const { root, tree } = world();
		const alice = tree.join("alice");
		alice.alias("al");
		send(tree, "alice");
		alice.inbox.take()?.done();
		tree.node("bob").sent.recall(send(tree, "alice"));
		tree.send({ from: "alice", to: ["bob"], body: "x" });
		expect(tree.leave("alice")).toEqual({ removed: "alice", handoffs: 2 });
		expect(ls(root, "nodes")).toEqual(["bob"]);
		expect(ls(root, "nodes/bob/new")).toHaveLength(1);
	});

	test("by a second name takes only that name away", () => {
		const { root, tree } = world();
		tree.join("alice").alias("al");
		send(tree, "alice");
		expect(tree.leave("al")).toEqual({ removed: "al", handoffs: 0 });
		expect(ls(root, "nodes")).toEqual(["alice", "bob"]);
		expect(tree.node("alice").inbox.list().items).toHaveLength(1);
	});

	test.each([
		"new/1.a",
		"new/1.a,A=1:2,S",
		"cur/1.a",
		"cur/1.a:2,F",
		"cur/1.a,L=9999999999.bbbbbbbb:2,",
		"cur/1.a,L=1.bbbbbbbb:2,S",
		"cur/1.a,E=failed:2,F",
		"cur/1.a,E=unreadable:2,F",
	])("is refused while a Handoff needs a reader: %s", (file) => {
		const { root, tree } = world();
		fs.writeFileSync(`${tree.join("alice").directory}/${file}`, "hi");
		const before = paths(root);
		expect(code(() => tree.leave("alice"))).toBe("EHELD");
		expect(paths(root)).toEqual(before);
	});

	test.each<[string, (dir: string) => void]>([
		["a directory in new/", (dir) => fs.mkdirSync(`${dir}/new/x`)],
		["a symlink in new/", (dir) => fs.symlinkSync("x", `${dir}/new/x`)],
		["a FIFO in new/", (dir) => execFileSync("mkfifo", [`${dir}/new/x`])],
		["a name in new/ that is not UTF-8", (dir) => fs.writeFileSync(Buffer.concat([Buffer.from(`${dir}/new/`), Buffer.from([0xff])]), "x")],
		["a directory in cur/", (dir) => fs.mkdirSync(`${dir}/cur/x`)],
		["a name in cur/ that is not UTF-8", (dir) => fs.writeFileSync(Buffer.concat([Buffer.from(`${dir}/cur/`), Buffer.from([0xff])]), "x")],
		["a delivery under way", (dir) => fs.writeFileSync(`${dir}/tmp/1.a`, "half")],
		["a file of somebody's", (dir) => fs.writeFileSync(`${dir}/notes.md`, "x")],
	])("keeps what it does not know: %s", (_what, make) => {
		const { root, tree } = world();
		const alice = tree.join("alice");
		make(alice.directory);
		const known = /(node\.md.*|\/(cur|new|tmp|sent))$/s;
		const before = paths(root).filter((file) => !known.test(file));
		expect(code(() => tree.leave("alice"))).toBe("EHELD");
		expect(paths(root).filter((file) => !known.test(file))).toEqual(before);
		// and the Node is one that can be sent to
		expect(tree.has("alice")).toBe(true);
		send(tree, "alice");
		expect(tree.node("alice").inbox.take()).toBeDefined();
	});

	test("is refused while another is live there, and a stranger is ENODE", async () => {
		const { root, tree } = world();
		const live = await openTree({ root, env: {}, durable: false }).join("alice").goLive();
		onTestFinished(() => live.end());
		const before = paths(root);
		expect(code(() => tree.leave("alice"))).toBe("EHELD");
		expect(code(() => tree.leave("nobody"))).toBe("ENODE");
		expect(paths(root)).toEqual(before);
	});
});

describe("being there", () => {
	const open = (root: string, instance: string, now = () => Date.now()) =>
		openTree({ root, env: {}, durable: false, instance, clock: now });

	async function live(node: Node, ...args: Parameters<Node["goLive"]>): ReturnType<Node["goLive"]> {
		const one = await node.goLive(...args);
		onTestFinished(() => one.end());
		return one;
	}

	test("holds the lock, says who and what, and lets go", async () => {
		const { root } = tempTree();
		const tree = open(root, "aaaaaaaa", () => Date.parse("2026-11-30T12:00:00Z"));
		const alice = tree.join("alice", { about: "tests" });
		const one = await live(alice, { agent: "pi", model: "m" });
		expect(alice.live()).toMatchObject({ instance: "aaaaaaaa", pid: process.pid });
		expect(alice.presence()).toEqual({
			name: "alice",
			instance: "aaaaaaaa",
			host: tree.context.host,
			pid: String(process.pid),
			agent: "pi",
			model: "m",
			status: "idle",
			wake: "now",
			since: "2026-11-30T12:00:00.000Z",
			started: "2026-11-30T12:00:00.000Z",
			about: "tests",
		});
		await one.publish({ status: "waiting", holding: "quiet" });
		expect(alice.presence()).toMatchObject({ status: "waiting", holding: "quiet", agent: "pi", about: "tests" });
		await one.publish({ holding: undefined });
		expect(alice.presence()).not.toHaveProperty("holding");
		one.end();
		expect(alice.live()).toBeUndefined();
		expect(ls(alice.directory)).not.toContain("live.lock");
		await one.publish({ status: "thinking" });
		expect(alice.presence().status).toBe("waiting");
	});

	test("is for one instance at a time", async () => {
		const { root } = tempTree();
		const alice = open(root, "aaaaaaaa").join("alice");
		const one = await live(alice);
		const before = alice.presence();
		await expect(open(root, "bbbbbbbb").node("alice").goLive({ status: "mine" })).rejects.toMatchObject({ code: "EHELD" });
		expect(alice.presence()).toEqual(before);
		one.end();
		await live(open(root, "bbbbbbbb").node("alice"));
		expect(alice.live()?.instance).toBe("bbbbbbbb");
	});

	test("returns at once what the former instance had in hand, and what no lease protects; nobody else's", async () => {
		const { root } = tempTree();
		const dead = open(root, "dddddddd").join("alice");
		for (const body of ["one", "two", "three"]) send(open(root, "aaaaaaaa"), "alice", body);
		const former = await dead.goLive();
		const one = dead.inbox.take() as Taken;
		former.end(); // as a kill would leave it: with one in hand, and its name in node.md
		open(root, "eeeeeeee").node("alice").inbox.take();
		const lapsed = open(root, "ffffffff", () => Date.now() - 3_600_000)
			.node("alice")
			.inbox.take() as Taken;
		await live(open(root, "aaaaaaaa").node("alice"));
		const names = ls(dead.directory, "new");
		expect(names).toEqual([`${one.handoff.id},A=1`, `${lapsed.handoff.id},A=1`].sort());
		expect(ls(dead.directory, "cur")).toEqual([expect.stringContaining(".eeeeeeee:2,")]);
		expect(code(() => one.done())).toBe("ELOST");
	});

	test("leaves in hand what its own instance took", async () => {
		const { root } = tempTree();
		const alice = open(root, "aaaaaaaa").join("alice");
		send(open(root, "aaaaaaaa"), "alice");
		(await alice.goLive()).end();
		const one = alice.inbox.take() as Taken;
		await live(open(root, "aaaaaaaa").node("alice"));
		one.done();
		expect(ls(alice.directory, "cur")).toEqual([`${one.handoff.id}:2,S`]);
	});

	test("is not hindered by what can't be cleared away", async () => {
		const { root } = tempTree();
		const alice = open(root, "aaaaaaaa").join("alice");
		fs.mkdirSync(`${alice.directory}/sent/directory`);
		fs.mkdirSync(`${alice.directory}/tmp/directory`);
		execFileSync("mkfifo", [`${alice.directory}/sent/fifo`]);
		fs.mkdirSync(`${alice.directory}/.gc`);
		await live(alice);
		expect(alice.live()?.instance).toBe("aaaaaaaa");
	});
});

describe("an instance", () => {
	test("is made anew by each tree that is opened, and handed down by XFER_INSTANCE", () => {
		const { root } = tempTree();
		const made = Array.from({ length: 100 }, () => openTree({ root, env: {} }).context.instance);
		expect(new Set(made).size).toBe(100);
		expect(openTree({ root, env: { XFER_INSTANCE: "k3f9q2ab" } }).context.instance).toBe("k3f9q2ab");
	});

	test("from outside that is none is not used: it would become a file name", () => {
		const { root } = tempTree();
		for (const bad of ["", "../../../x", "k3f9q2a", "k3f9q2abc", "K3F9Q2AB", "k3f9q2al", "k3f9q2a/", "k3f9q2a\0"])
			expect(openTree({ root, env: { XFER_INSTANCE: bad } }).context.instance).toMatch(/^[0-9a-hjkmnp-tv-z]{8}$/);
	});
});

import { execFileSync } from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import path from "node:path";
import { describe, expect, test } from "vitest";
import type { ContextOptions } from "../lib/context.ts";
import { type Diagnosis, diagnose, inspect, type Node, openTree, type Tree } from "../lib/index.ts";
import { ls, onTestFinished, project, run, start, tempDir, tempTree, until } from "./helpers.ts";

const hour = 3_600_000;
const isRoot = process.getuid?.() === 0;

function world(options: ContextOptions = {}): { root: string; tree: Tree; alice: Node } {
	const { root } = tempTree();
	const tree = openTree({ root, env: {}, durable: false, instance: "aaaaaaaa", ...options });
	return { root, tree, alice: tree.join("alice") };
}

/** What is found in the tree itself; what this machine's filesystem can't do is no matter here. */
function found({ findings, checks }: Diagnosis): { code: string; path: string; what: string; cure: string }[] {
	return findings.filter(({ code, what }) => !checks.some(({ name, ok, detail }) => !ok && name === code && detail === what));
}

/** Codes and paths of what is found, `unwatched` mail aside unless asked for. */
async function codes(tree: Tree): Promise<[code: string, path: string][]> {
	const findings = found(await diagnose(tree));
	for (const { what, cure } of findings) expect([what, cure]).toEqual([expect.stringMatching(/./), expect.stringMatching(/./)]);
	return findings.filter(({ code }) => code !== "unwatched").map(({ code, path: at }) => [code, at]);
}

function code(act: () => unknown): string | undefined {
	try {
		act();
	} catch (error) {
		return (error as { code?: string }).code;
	}
	return undefined;
}

function paths(dir: string): string[] {
	return fs.readdirSync(dir, { withFileTypes: true }).flatMap((entry) => {
		const file = path.join(dir, entry.name);
		const { mode, size } = fs.lstatSync(file);
		return [`${file} ${mode} ${entry.isFile() ? size : ""}`, ...(entry.isDirectory() ? paths(file) : [])];
	});
}

/** Runs `diagnose` on a tree as an account that modes bind. */
async function bound(root: string, before = "", uid = 65534): Promise<Diagnosis> {
	const script = `
		import fs from "node:fs";
		import { diagnose, openTree } from ${JSON.stringify(path.join(project, "lib/index.ts"))};
		if (process.getuid() === 0) { process.setgroups([]); process.setgid(${uid}); process.setuid(${uid}); }
		const tree = openTree({ root: ${JSON.stringify(root)}, env: {} });
		${before}
		console.log(JSON.stringify(await diagnose(tree)));`;
	const { code: exit, out, err } = await run([process.execPath, "--input-type=module", "-e", script], { env: { PATH: process.env.PATH } });
	expect([exit, err]).toEqual([0, ""]);
	return JSON.parse(out);
}

describe("a diagnosis", () => {
	test("of a tree that is as it should be finds nothing, and names what was looked at", async () => {
		const { tree, alice } = world();
		alice.alias("al");
		tree.send({ from: "bob", to: ["alice"], body: "hi" });
		alice.inbox.take()?.done();
		const diagnosis = await diagnose(tree);
		expect(found(diagnosis)).toEqual([]);
		expect(diagnosis.checks.map(({ name }) => name)).toEqual(["write", "rename", "sync", "link", "symlink", "clock", "events"]);
		for (const { name, ok, detail } of diagnosis.checks) if (name !== "events") expect([name, ok, detail]).toEqual([name, true, detail]);
	});

	test("of a tree that is not there makes none", async () => {
		const { home, root } = tempTree();
		expect(await diagnose(openTree({ root, env: {} }))).toEqual({
			findings: [],
			checks: [{ name: "tree", ok: true, detail: expect.stringContaining(root) }],
		});
		expect(ls(home)).toEqual([]);
	});

	test("changes nothing that stays", async () => {
		const { root, tree, alice } = world();
		fs.writeFileSync(`${alice.directory}/new/1.a`, "---\nexpires: 2020-01-01T00:00:00Z\n---\nhi");
		fs.writeFileSync(`${alice.directory}/cur/2.a,L=1.bbbbbbbb:2,`, "hi");
		fs.mkdirSync(`${alice.directory}/new/3.a`);
		fs.symlinkSync("nowhere", `${root}/nodes/dangling`);
		const before = paths(root);
		await diagnose(tree);
		expect(paths(root)).toEqual(before);
	});

	test("may be made by many at once", async () => {
		const { tree } = world();
		const others = Array.from({ length: 4 }, () => openTree({ root: tree.context.root, env: {} }));
		for (const diagnosis of await Promise.all(others.map((other) => diagnose(other)))) expect(found(diagnosis)).toEqual([]);
		expect(ls(tree.context.root)).toEqual(["nodes"]);
	});
});

describe("it is found", () => {
	test.each<[string, string, string, (node: Node, tree: Tree) => void]>([
		["a Handoff that failed", "failed", "cur/1.a,E=failed:2,F", (node) => fs.writeFileSync(`${node.directory}/cur/1.a,E=failed:2,F`, "hi")],
		[
			"one that could not be read",
			"unreadable",
			"cur/1.a,E=unreadable:2,F",
			(node) => fs.writeFileSync(`${node.directory}/cur/1.a,E=unreadable:2,F`, "hi"),
		],
		[
			"one in hand though its lease has ended",
			"stuck",
			"cur/1.a,L=1.bbbbbbbb:2,",
			(node) => fs.writeFileSync(`${node.directory}/cur/1.a,L=1.bbbbbbbb:2,`, "hi"),
		],
		[
			"one from the future",
			"clock",
			"new/1.a",
			(node) => fs.writeFileSync(`${node.directory}/new/1.a`, "---\ndate: 9999-01-01T00:00:00Z\n---\nhi"),
		],
		[
			"one that is too large to be read unasked",
			"large",
			"new/1.a",
			(node, tree) => fs.writeFileSync(`${node.directory}/new/1.a`, Buffer.alloc(tree.context.maxBytes + 1, 1)),
		],
		[
			"one whose header reads with warnings",
			"header",
			"new/1.a",
			(node) => fs.writeFileSync(`${node.directory}/new/1.a`, "---\nfrom bob\n---\nhi"),
		],
		[
			"one whose name has no room for a lease",
			"name",
			`new/1.${"x".repeat(230)}`,
			(node) => fs.writeFileSync(`${node.directory}/new/1.${"x".repeat(230)}`, "hi"),
		],
		["a directory in new/", "strange", "new/1.a", (node) => fs.mkdirSync(`${node.directory}/new/1.a`)],
		["a symlink in new/", "strange", "new/1.a", (node) => fs.symlinkSync("/etc/passwd", `${node.directory}/new/1.a`)],
		["a FIFO in cur/", "strange", "cur/1.a", (node) => execFileSync("mkfifo", [`${node.directory}/cur/1.a`])],
		["a file in nodes/", "no-node", "../notes.txt", (node) => fs.writeFileSync(`${node.directory}/../notes.txt`, "x")],
		["a directory in nodes/ with no Node's name", "no-node", "../Upper Case", (node) => fs.mkdirSync(`${node.directory}/../Upper Case`)],
		["a dangling symlink in nodes/", "no-node", "../gone", (node) => fs.symlinkSync("nowhere", `${node.directory}/../gone`)],
		["a symlink out of the tree", "no-node", "../away", (node) => fs.symlinkSync("/etc", `${node.directory}/../away`)],
		["a tree that others may enter", "mode", "../..", (_node, tree) => fs.chmodSync(tree.context.root, 0o755)],
		["nodes/ that others may enter", "mode", "..", (node) => fs.chmodSync(path.dirname(node.directory), 0o710)],
		["a Node that others may enter", "mode", ".", (node) => fs.chmodSync(node.directory, 0o707)],
		["an Inbox that others may enter", "mode", "new", (node) => fs.chmodSync(`${node.directory}/new`, 0o770)],
	])("%s", async (_what, expected, where, make) => {
		const { tree, alice } = world();
		make(alice, tree);
		expect(await codes(tree)).toEqual([[expected, path.join(alice.directory, where)]]);
	});

	test("a socket, and a name that is not UTF-8", async () => {
		const { tree, alice } = world();
		const server = net.createServer().listen(`${alice.directory}/new/1.a`);
		onTestFinished(() => {
			server.close();
		});
		await until(() => server.listening);
		fs.writeFileSync(Buffer.concat([Buffer.from(`${alice.directory}/new/2.a`), Buffer.from([0xff])]), "x");
		expect((await codes(tree)).map(([what]) => what)).toEqual(["strange", "strange"]);
	});

	test("mail that nobody watches, and how much", async () => {
		const { tree, alice } = world();
		for (let n = 0; n < 3; n++) tree.send({ from: "bob", to: ["alice"], body: "hi" });
		expect(found(await diagnose(tree))).toMatchObject([
			{ code: "unwatched", path: alice.directory, what: expect.stringContaining("3"), cure: expect.stringContaining("alice") },
		]);
	});

	test("mail that a live Node lets wait for more than a day, with the reason that it gives", async () => {
		let later = 0;
		const { tree, alice } = world({ clock: () => Date.now() + later });
		const live = await alice.goLive({ holding: "quiet" });
		onTestFinished(() => live.end());
		later = -25 * hour;
		tree.send({ from: "bob", to: ["alice"], body: "hi" });
		later = -2 * hour;
		expect(found(await diagnose(tree)).filter(({ code: what }) => what === "waiting")).toEqual([]);
		later = 0;
		expect(found(await diagnose(tree))).toMatchObject([{ code: "waiting", path: alice.directory, what: expect.stringContaining("quiet") }]);
	});

	test("one in hand is not stuck while its lease lasts", async () => {
		const { tree, alice } = world();
		tree.send({ from: "bob", to: ["alice"], body: "hi" });
		alice.inbox.take();
		expect(await codes(tree)).toEqual([]);
	});

	test("everything at once, in every Node", async () => {
		const { root, tree, alice } = world();
		const carol = tree.join("carol");
		fs.mkdirSync(`${alice.directory}/new/1.a`);
		fs.writeFileSync(`${carol.directory}/cur/2.a,E=failed:2,F`, "hi");
		fs.writeFileSync(`${root}/nodes/notes.txt`, "x");
		fs.mkdirSync(`${root}/nodes/bare`, { mode: 0o700 });
		expect((await codes(tree)).map(([what]) => what).sort()).toEqual(["failed", "no-node", "strange"]);
	});

	test.runIf(isRoot)("a tree of another account", async () => {
		const { root, tree, alice } = world();
		fs.chownSync(root, 65534, 65534);
		fs.chownSync(alice.directory, 65534, 65534);
		expect(await codes(tree)).toEqual([
			["owner", root],
			["owner", alice.directory],
		]);
	});

	test("a tree that can't be written, and that a sandbox may be why", async () => {
		const root = path.join(tempDir(), "tree");
		openTree({ root, env: {}, durable: false }).join("alice");
		fs.chmodSync(path.dirname(root), 0o755);
		for (const dir of [root, `${root}/nodes`]) fs.chmodSync(dir, 0o555);
		const { findings, checks } = await bound(root);
		expect(findings).toContainEqual(expect.objectContaining({ code: "writable", path: root, cure: expect.stringContaining("sandbox") }));
		expect(findings).toContainEqual(expect.objectContaining({ code: "write", path: root, cure: expect.stringContaining("sandbox") }));
		expect(checks).toEqual([{ name: "write", ok: false, detail: expect.stringContaining("EACCES") }]);
		for (const dir of [root, `${root}/nodes`]) fs.chmodSync(dir, 0o755);
	});

	test("a Node that can't be entered, and a Handoff that can't be read: they hide nothing", async () => {
		const root = path.join(tempDir(), "tree");
		fs.chmodSync(path.dirname(root), 0o777);
		const { findings } = await bound(
			root,
			`for (const name of ["alice", "carol", "dan"]) tree.join(name);
			for (const name of ["alice", "dan"]) for (const id of ["1.a", "2.a"]) fs.writeFileSync(tree.node(name).directory + "/new/" + id, "hi");
			fs.chmodSync(tree.node("alice").directory + "/new/1.a", 0);
			fs.chmodSync(tree.node("carol").directory, 0);
			fs.chmodSync(tree.node("dan").directory, 0o755);
			process.on("exit", () => fs.chmodSync(${JSON.stringify(root)} + "/nodes/carol", 0o700));`,
		);
		const seen = findings.map(({ code: what, path: at }) => [what, path.relative(`${root}/nodes`, at)]);
		expect(seen).toContainEqual(["unreadable", "alice/new/1.a"]);
		expect(seen).toContainEqual(["mode", "dan"]);
		expect(seen.map(([, at]) => at)).toContain("carol");
		for (const name of ["alice", "dan"]) expect(seen).toContainEqual(["unwatched", name]);
	});

	test("that the filesystem's clock is not ours", async () => {
		for (const off of [-60_000, 60_000]) {
			const { root, tree } = world({ clock: () => Date.now() + off });
			const { findings, checks } = await diagnose(tree);
			expect(findings).toMatchObject([{ code: "clock", path: root, what: expect.stringContaining("60 s") }]);
			expect(checks.find(({ name }) => name === "clock")?.ok).toBe(false);
		}
	});

	const instances = Number(
		fs.existsSync("/proc/sys/fs/inotify/max_user_instances") && fs.readFileSync("/proc/sys/fs/inotify/max_user_instances", "utf8"),
	);
	// A private account, so that nobody else is left without file events meanwhile.
	test.runIf(isRoot && instances > 0 && instances < 1000)("that no file events arrive, and which limits may be why", async () => {
		const root = path.join(tempDir(), "tree");
		fs.chmodSync(path.dirname(root), 0o777);
		const uses =
			"import ctypes, os, sys\nos.setgid(65531); os.setuid(65531)\nwhile ctypes.CDLL(None).inotify_init() >= 0: pass\nprint('ready', flush=True)\nsys.stdin.read()";
		const holder = start(["python3", "-c", uses], { stdio: ["pipe", "pipe", "inherit"] });
		let said = "";
		holder.stdout?.on("data", (chunk: Buffer) => {
			said += chunk;
		});
		await until(() => said.includes("ready"), "the last inotify instance");
		const { findings, checks } = await bound(root, 'tree.join("alice");', 65531);
		expect(findings).toMatchObject([{ code: "events", cure: expect.stringContaining("max_user_instances") }]);
		expect(checks.find(({ name }) => name === "events")).toMatchObject({ ok: false });
	});
});

describe("a file that is inspected", () => {
	const file = (bytes: string | Uint8Array) => {
		const at = path.join(tempDir(), "file.md");
		fs.writeFileSync(at, bytes);
		return at;
	};

	test("shows what a reader would see", () => {
		const at = file("---\nfrom: bob\nto: [a, b]\nSubject: x\nsubject: y\n__proto__: z\n---\nbody\n");
		const seen = inspect(at);
		expect(seen).toMatchObject({ file: at, header: true, body: { offset: 64, bytes: 5 }, warnings: ["duplicate"] });
		expect(Object.entries(seen.fields)).toEqual([
			["from", "bob"],
			["to", ["a", "b"]],
			["subject", "x"],
			["__proto__", "z"],
		]);
	});

	test("may be all body, empty, or too large to be loaded", () => {
		expect(inspect(file("text"))).toMatchObject({ header: false, fields: {}, body: { offset: 0, bytes: 4 }, warnings: [] });
		expect(inspect(file(""))).toMatchObject({ header: false, body: { offset: 0, bytes: 0 } });
		expect(inspect(file("---\nfrom: bob\n"))).toMatchObject({ header: false, warnings: ["unclosed"] });
		const large = file("---\nfrom: bob\n---\n");
		fs.truncateSync(large, 2 ** 31);
		expect(inspect(large)).toMatchObject({ header: true, fields: { from: "bob" }, body: { offset: 18, bytes: 2 ** 31 - 18 } });
	});

	test("that is none is EHANDOFF: nothing there, a directory, a FIFO, a symlink", () => {
		const dir = tempDir();
		fs.mkdirSync(`${dir}/directory`);
		execFileSync("mkfifo", [`${dir}/fifo`]);
		fs.symlinkSync("nowhere", `${dir}/dangling`);
		for (const name of ["nothing", "directory", "fifo", "dangling"]) expect(code(() => inspect(`${dir}/${name}`))).toBe("EHANDOFF");
	});
});

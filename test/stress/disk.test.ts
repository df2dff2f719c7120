import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { openTree } from "../../lib/index.ts";
import { cli, ls, project, type Result, run, sh, tempDir, tempTree } from "../helpers.ts";

const commands = { cli, dash: sh("dash"), busybox: sh("busybox") };
const root = process.getuid?.() === 0;
const strace = spawnSync("strace", ["-V"]).status === 0;

const mounts: string[] = [];
afterEach(() => {
	for (const dir of mounts.splice(0)) {
		spawnSync("umount", ["-l", dir]);
		fs.rmdirSync(dir);
	}
});

/** A tree with alice and bob on a disk of its own; undefined where none can be mounted. */
function smallDisk(size: string) {
	const { home, env } = tempTree();
	const disk = fs.mkdtempSync(path.join(path.dirname(home), "xfer-disk-"));
	mounts.push(disk);
	const mount = (options: string) => spawnSync("mount", ["-t", "tmpfs", "-o", options, "tmpfs", disk]);
	const { status, stderr } = mount(`size=${size}`);
	if (status !== 0) throw new Error(`mount: ${stderr}`);
	const tree = openTree({ root: path.join(disk, "xfer") });
	tree.join("alice");
	tree.join("bob");
	return { env: { ...env, XFER_HOME: tree.context.root }, tree, inbox: tree.node("alice").directory, mount };
}

/** A line that says what to do. A shell's tools say why before. */
const error = { cli: /^xfer: [^\n]+ \([^\n]+\)\n$/, dash: /(^|\n)xfer: [^\n]+ \([^\n]+\)\n$/, busybox: /(^|\n)xfer: [^\n]+ \([^\n]+\)\n$/ };
const each = (["cli", "dash", "busybox"] as const).map((name) => [name, commands[name]] as const);

/** A clear error, nothing on standard output, and nothing of the Handoff anywhere. */
function expectRefused(result: Result, who: keyof typeof commands, inbox: string, why: RegExp): void {
	expect(result).toMatchObject({ code: 1, out: "", err: expect.stringMatching(error[who]) });
	expect(result.err).toMatch(why);
	for (const dir of ["tmp", "new", "cur"]) expect(ls(inbox, dir), dir).toEqual([]);
	expect(ls(path.dirname(inbox), "bob/sent")).toEqual([]);
}

describe.skipIf(!root)("on a disk of its own", () => {
	const input = randomBytes(300 * 1024);

	test.each(each)("a send by %s that fills the disk in mid-write is refused whole, and the next one fits", async (who, argv) => {
		const { env, inbox } = smallDisk("128k");
		const send = [...argv, "send", "alice", "--as", "bob"];
		expectRefused(await run([...send, "-"], { env, input }), who, inbox, /disk|space/);
		expect(await run([...send, "hello"], { env })).toMatchObject({ code: 0 });
		expect(ls(inbox, "new").length).toBe(1);
	});

	test("the library throws ENOSPC for a write that came out short, with nothing delivered", () => {
		const { tree, inbox } = smallDisk("128k");
		const [outcome] = tree.send({ from: "bob", to: ["alice"], body: input });
		expect(outcome?.error).toMatchObject({ code: "ENOSPC" });
		for (const dir of ["tmp", "new"]) expect(ls(inbox, dir)).toEqual([]);
	});

	test("of several recipients those on a full disk are named, and the others have it", async () => {
		const { env, tree, inbox } = smallDisk("512k");
		fs.writeFileSync(path.join(tree.context.root, "ballast"), Buffer.alloc(100 * 1024));
		tree.join("carol");
		const result = await run([...cli, "send", "alice,carol", "-", "--as", "bob"], { env, input });
		expect(result.code).toBe(6);
		expect(result.out).toMatch(/^queued for alice .*\n$/);
		expect(result.err).toMatch(/^xfer: carol: not delivered: .*ENOSPC.*\n$/);
		expect([ls(inbox, "new").length, ls(inbox, "../carol/new").length, ls(inbox, "../carol/tmp").length]).toEqual([1, 0, 0]);
	});

	test.each(each)("on a disk that is read-only a send by %s is refused, and so is a read", async (who, argv) => {
		const { env, tree, inbox, mount } = smallDisk("1m");
		mount("remount,ro");
		expectRefused(await run([...argv, "send", "alice", "hello", "--as", "bob"], { env }), who, inbox, /[Rr]ead-only/);
		expectRefused(await run([...argv, "send", "alice", "-", "--as", "bob"], { env, input }), who, inbox, /[Rr]ead-only/);
		mount("remount,rw");
		tree.send({ from: "bob", to: ["alice"], body: "hello" });
		mount("remount,ro");
		const before = ls(inbox, "new");
		const reading = await run([...argv, "read", "--as", "alice"], { env });
		expect(reading).toMatchObject({ code: 1, out: "", err: expect.stringMatching(error[who]) });
		expect([before.length, ls(inbox, "new"), ls(inbox, "cur")]).toEqual([1, before, []]);
		expect((await run([...argv, "read", "--peek", "--as", "alice"], { env })).out).toMatch(/hello$/);
	});
});

describe.skipIf(!root)("as another user", () => {
	test.each(each)("a send by %s into a tree that may be read but not written is refused", async (who, argv) => {
		const { root, home, env } = tempTree();
		openTree({ root }).join("alice");
		openTree({ root }).join("bob");
		for (const dir of [home, root, ...fs.readdirSync(root, { recursive: true }).map((name) => path.join(root, String(name)))])
			fs.chmodSync(dir, 0o755);
		const inbox = path.join(root, "nodes/alice");
		const result = await run([...argv, "send", "alice", "hello", "--as", "bob"], { env, uid: 65534 });
		expectRefused(result, who, inbox, who === "cli" ? /EACCES: a sandbox may forbid it: allow writing to / : /denied/);
		fs.writeFileSync(path.join(inbox, "new/1.x"), "hello", { mode: 0o644 });
		const reading = await run([...argv, "read", "--as", "alice"], { env, uid: 65534 });
		expect(reading).toMatchObject({ code: 1, out: "", err: expect.stringMatching(error[who]) });
		expect([ls(inbox, "new"), ls(inbox, "cur")]).toEqual([["1.x"], []]);
	});

	test.each(each)("a send by %s into a tree that may not be entered is refused", async (who, argv) => {
		const { root, home, env } = tempTree();
		openTree({ root }).join("alice");
		openTree({ root }).join("bob");
		fs.chmodSync(home, 0o755);
		const result = await run([...argv, "send", "alice", "hello", "--as", "bob"], { env, uid: 65534 });
		expect(result).toMatchObject({ out: "", err: expect.stringMatching(error[who]) });
		if (who === "cli") expect(result).toMatchObject({ code: 1, err: expect.stringMatching(/EACCES: a sandbox may forbid it/) });
		else expect([1, 3]).toContain(result.code); // `test` tells a shell no more than that it is not there
		expect(ls(root, "nodes/alice/new")).toEqual([]);
	});
});

describe("with no file descriptors left", () => {
	/** Runs the CLI in a process that may open so many files more. */
	const exhausted = (free: number, args: string[]) => {
		const script = `
			const fs = require("node:fs"), Module = require("node:module"), path = require("node:path");
			const [, file, free, ...args] = process.argv;
			const main = new Module(file);
			main.filename = file;
			main.paths = Module._nodeModulePaths(path.dirname(file));
			process.argv = [process.execPath, file, ...args];
			const source = fs.readFileSync(file, "utf8").replace(/^#!.*/, "");
			const open = [];
			try { for (;;) open.push(fs.openSync("/dev/null")); } catch (error) { if (error.code !== "EMFILE") throw error; }
			for (const fd of open.slice(0, Number(free))) fs.closeSync(fd);
			main._compile(source, file);`;
		return ["sh", "-c", 'ulimit -n 64; exec "$@"', "sh", process.execPath, "-e", script, cli[1] as string, String(free), ...args];
	};

	test("a send is refused, or delivered whole", async () => {
		const { root, env } = tempTree();
		openTree({ root }).join("alice");
		openTree({ root }).join("bob");
		const inbox = path.join(root, "nodes/alice");
		const refused = await run(exhausted(0, ["send", "alice", "hello", "--as", "bob"]), { env });
		expectRefused(refused, "cli", inbox, /EMFILE.*ulimit -n/);
		let delivered = 0;
		for (const free of [1, 2, 3]) {
			const result = await run(exhausted(free, ["send", "alice", "hello", "--as", "bob"]), { env });
			if (result.code === 0) delivered++;
			else expect(result).toMatchObject({ code: 1, out: "", err: expect.stringMatching(/EMFILE.*ulimit -n/) });
			expect(ls(inbox, "new").length).toBe(delivered);
			expect(ls(inbox, "tmp")).toEqual([]);
		}
		expect(delivered).toBeGreaterThan(0);
		for (const id of ls(inbox, "new")) expect(fs.readFileSync(path.join(inbox, "new", id), "utf8")).toMatch(/\n---\nhello$/);
	});

	test("a read leaves the Handoff unread, or shows it", async () => {
		const { root, env } = tempTree();
		const tree = openTree({ root });
		const inbox = tree.join("alice").directory;
		tree.send({ from: "bob", to: ["alice"], body: "hello" });
		const refused = await run(exhausted(0, ["read", "--as", "alice"]), { env });
		expect(refused).toMatchObject({ code: 1, out: "", err: expect.stringMatching(/EMFILE.*ulimit -n/) });
		expect(ls(inbox, "new").length).toBe(1);
		// A host is not told of it: what a hook ends with may stop an agent.
		expect(await run(exhausted(0, ["hook", "claude", "Stop"]), { env })).toMatchObject({ code: 0, out: "" });
		for (let free = 1; ls(inbox, "new").length > 0; free++) {
			expect(free).toBeLessThan(8);
			const result = await run(exhausted(free, ["read", "--as", "alice"]), { env });
			if (ls(inbox, "new").length === 0) expect(result).toMatchObject({ code: 0, out: expect.stringMatching(/hello$/) });
			else expect(result).toMatchObject({ code: 1, out: "" });
		}
		expect(ls(inbox, "cur")).toEqual([expect.stringMatching(/:2,S$/)]);
	});

	test("the library throws EMFILE, and delivers as soon as it can", () => {
		const script = `
			import fs from "node:fs";
			import { openTree } from ${JSON.stringify(path.join(project, "lib/index.ts"))};
			const tree = openTree();
			const open = [];
			try { for (;;) open.push(fs.openSync("/dev/null")); } catch {}
			const send = () => tree.send({ from: "bob", to: ["alice"], body: "hello" })[0];
			const first = send().error?.code;
			for (const fd of open) fs.closeSync(fd);
			console.log(first, send().durability);`;
		const { root, env } = tempTree();
		const inbox = openTree({ root }).join("alice").directory;
		openTree({ root }).join("bob");
		const argv = ["-c", 'ulimit -n 64; exec "$@"', "sh", process.execPath, "--input-type=module", "-e", script];
		const { stdout, stderr } = spawnSync("sh", argv, { env });
		expect(String(stdout), String(stderr)).toBe("EMFILE synced\n");
		expect([ls(inbox, "new").length, ls(inbox, "tmp").length]).toEqual([1, 0]);
	});

	test.each(["dash", "busybox"] as const)("a shell (%s) delivers whole or not at all", async (shell) => {
		const { root, env } = tempTree();
		const inbox = openTree({ root }).join("alice").directory;
		openTree({ root }).join("bob");
		let delivered = 0;
		for (let limit = 3; limit <= 16; limit++) {
			const limited = ["sh", "-c", `ulimit -n ${limit}; exec "$@"`, "sh", ...sh(shell), "send", "alice", "-", "--as", "bob"];
			const { code } = await run(limited, { env, input: "hello" });
			if (code === 0) delivered++;
			expect(ls(inbox, "new").length).toBe(delivered);
		}
		expect(delivered).toBeGreaterThan(0);
		for (const id of ls(inbox, "new")) expect(fs.readFileSync(path.join(inbox, "new", id), "utf8")).toMatch(/\n---\nhello$/);
	});
});

describe.skipIf(!strace)("when the disk fails at fsync", () => {
	/** The CLI's send with the nth fsync failing. */
	async function failing(nth: number) {
		const { root, env } = tempTree();
		const inbox = openTree({ root }).join("alice").directory;
		openTree({ root }).join("bob");
		const inject = ["strace", "-f", "-o", path.join(tempDir(), "trace"), "-e", "trace=fsync", "-e", `inject=fsync:error=EIO:when=${nth}`];
		return { inbox, result: await run([...inject, ...cli, "send", "alice", "hello", "--as", "bob"], { env }) };
	}

	test("of the file: nothing is delivered", async () => {
		const { inbox, result } = await failing(1);
		expect(result).toMatchObject({ code: 1, out: "", err: expect.stringMatching(/^xfer: .*EIO/) });
		expect([ls(inbox, "tmp"), ls(inbox, "new")]).toEqual([[], []]);
	});

	test("of the directory: it is delivered, and nobody is asked to send it again", async () => {
		const { inbox, result } = await failing(2);
		expect(result).toMatchObject({ code: 0, out: expect.stringMatching(/^queued for alice .*durability unknown/) });
		expect(ls(inbox, "new").length).toBe(1);
	});
});

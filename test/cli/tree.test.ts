/** Which tree a command uses, that it reads nothing else, and what strange things in it and names from outside can't do. */
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { openTree } from "../../lib/index.ts";
import { cli, ls, onTestFinished, run, tempDir, tempTree } from "../helpers.ts";

function make(...names: string[]) {
	const { root, home, env } = tempTree();
	const tree = openTree({ root, durable: false });
	for (const name of names) tree.join(name);
	const xfer = (...args: string[]) => run([...cli, ...args], { env });
	return { root, home, env, tree, xfer };
}

describe("the tree", () => {
	test("is one, from any working directory and through a symlink", async () => {
		const { root, env } = make("alice", "bob");
		const elsewhere = tempDir();
		const link = path.join(elsewhere, "link");
		fs.symlinkSync(root, link);
		const by = (XFER_HOME: string, cwd: string, ...args: string[]) => run([...cli, ...args], { env: { ...env, XFER_HOME }, cwd });
		const sent = await Promise.all([
			by(root, "/", "send", "alice", "1", "--as", "bob"),
			by(link, elsewhere, "send", "alice", "2", "--as", "bob"),
			by(`${root}//`, root, "send", "alice", "3", "--as", "bob"),
			by(`${elsewhere}/../${path.basename(elsewhere)}/link`, path.join(root, "nodes/alice/new"), "send", "alice", "4", "--as", "bob"),
		]);
		expect(sent.map(({ code, err }) => [code, err])).toEqual(sent.map(() => [0, ""]));
		expect(ls(root, "nodes/alice/new")).toHaveLength(4);
		const file = (await by(link, elsewhere, "read", "--take", "--as", "alice")).out.trimEnd();
		expect((await by(root, "/", "mark", file, "read")).code).toBe(0);
		const lists = await Promise.all([
			by(root, "/", "inbox", "alice"),
			by(link, root, "inbox", "alice"),
			by(link, "/", "nodes"),
			by(root, elsewhere, "nodes"),
		]);
		expect(lists[0]?.out.split("\n")).toHaveLength(4);
		expect(lists[1]?.out).toBe(lists[0]?.out);
		expect(lists[2]?.out).toBe(lists[3]?.out);
	});

	test("is $XFER_HOME, else ~/.xfer; an empty XFER_HOME is as none", async () => {
		const { home, env } = tempTree();
		const { XFER_HOME: _, ...none } = env;
		expect((await run([...cli, "join", "alice"], { env: none })).code).toBe(0);
		expect((await run([...cli, "join", "bob"], { env: { ...env, XFER_HOME: "" } })).code).toBe(0);
		expect(ls(home, ".xfer/nodes")).toEqual(["alice", "bob"]);
		expect((await run([...cli, "join", "carl"], { env: { ...env, XFER_HOME: path.join(home, "other") } })).code).toBe(0);
		expect(ls(home, "other/nodes")).toEqual(["carl"]);
	});

	test("that is relative is refused by every command, with what to do, and nothing is made", async () => {
		const { env } = tempTree();
		const cwd = tempDir();
		const commands = [
			["send", "alice", "hi"],
			["reply", "abcd", "hi"],
			["inbox"],
			["read"],
			["mark", "abcd", "read"],
			["sent"],
			["recall", "abcd"],
			["watch"],
			["nodes"],
			["join", "alice"],
			["leave", "alice"],
			["gc"],
			["doctor"],
			[],
		];
		const relative = (args: string[], XFER_HOME: string) => run([...cli, ...args], { env: { ...env, XFER_HOME }, cwd });
		const results = await Promise.all([
			...commands.map((args) => relative(args, ".xfer")),
			...["./x", "~/.xfer", "..", "nodes"].map((root) => relative(["join", "alice"], root)),
		]);
		for (const result of results)
			expect(result).toMatchObject({ code: 2, out: "", err: expect.stringMatching(/^xfer: .*absolute.*\(.*XFER_HOME.*\)\n$/) });
		expect(ls(cwd)).toEqual([]);
	});
});

describe("the working directory", () => {
	const traps = [
		"package.json",
		"node_modules",
		"node_modules/yargs",
		"node_modules/yargs/index.js",
		".xfer",
		".xfer/nodes",
		".xfer/nodes/alice",
		".xfer/nodes/alice/new",
		".git",
		".git/config",
		"xfer.json",
		".xferrc",
		".env",
		".yargsrc",
		"alice",
		"bob",
		"nodes",
		"locales",
		"tsconfig.json",
	];

	test.each([
		[
			"send",
			[
				["send", "bob", "hi"],
				["send", "bob", "-"],
			],
		],
		["read", [["read"], ["read", "--take"], ["mark", "1000.x", "failed", "why"], ["reply", "1001.x", "hi"]]],
		["lists", [["inbox"], ["sent"], ["nodes"], [], ["watch", "--timeout", "1s"], ["watch", "@all", "--timeout", "1s"]]],
		["Nodes", [["join", "carl", "--about", "x"], ["leave", "carl"], ["gc"], ["doctor"]]],
		[
			"help and errors",
			[["--help"], ["send", "--help"], ["frobnicate"], ["completion", "bash"], ["--get-yargs-completions", "xfer", "send", ""]],
		],
	])("is not read: no file below it is opened or looked at by %s", async (_, commands) => {
		const { root, env } = make("alice", "bob");
		for (const name of ["1000.x", "1001.x", "1002.x"]) fs.writeFileSync(path.join(root, "nodes/alice/new", name), "---\nfrom: bob\n---\nx");
		const cwd = tempDir();
		for (const trap of traps) {
			const file = path.join(cwd, trap);
			if (/\.\w+$/.test(trap) && !trap.startsWith(".xfer") && !trap.endsWith(".git"))
				fs.writeFileSync(file, "throw new Error('read from the working directory')");
			else fs.mkdirSync(file, { recursive: true });
		}
		for (const args of commands) {
			const log = path.join(root, ".strace");
			// Every call that has a path; with -y the directory that a descriptor stands for is shown.
			const traced = ["strace", "-f", "-y", "-qq", "-s", "4096", "-e", "trace=%file", "-o", log, ...cli, ...args];
			const result = await run(traced, { env: { ...env, XFER_NODE: "alice" }, cwd, input: "text" });
			expect(result.err).not.toContain("working directory'");
			const calls = fs.readFileSync(log, "utf8").split("\n");
			expect(calls.length).toBeGreaterThan(20);
			const paths = calls.flatMap((call) => {
				const at =
					/\(AT_FDCWD<[^>]*>, "((?:[^"\\]|\\.)*)"/.exec(call)?.[1] ??
					/^\d+ +(?!execve|getcwd|readlink|symlink)\w+\("((?:[^"\\]|\\.)*)"/.exec(call)?.[1];
				return at === undefined ? [] : [at];
			});
			const below = paths.filter((file) => path.resolve(cwd, file).startsWith(`${cwd}/`));
			// doctor looks for hooks where a project's host has them, and for nothing else.
			const hooks =
				args[0] === "doctor"
					? [".git", ".claude/settings.json", ".codex/hooks.json", ".gemini/settings.json", ".opencode/plugins/xfer.js"]
					: [];
			const others = below.filter((file) => !hooks.some((hook) => path.resolve(cwd, file) === path.join(cwd, hook)));
			expect([args, others]).toEqual([args, []]);
		}
	});

	test("that was removed is no reason to fail", async () => {
		const { env } = make("alice");
		const script = `mkdir "$HOME/gone" && cd "$HOME/gone" && rmdir "$HOME/gone" && exec "$@"`;
		for (const args of [["send", "alice", "hi"], ["inbox", "alice"], ["read", "--as", "alice"], ["nodes"]])
			expect(await run(["sh", "-c", script, "sh", ...cli, ...args], { env })).toMatchObject({ code: 0 });
	});
});

describe("strange things in new/ never hang, crash or hide the others:", () => {
	/** Each kind of it, around two Handoffs. */
	function fill(root: string) {
		const dir = path.join(root, "nodes/alice/new");
		execFileSync("mkfifo", [path.join(dir, "0001.fifo")]);
		fs.mkdirSync(path.join(dir, "0002.directory"));
		fs.symlinkSync("/etc/passwd", path.join(dir, "0003.symlink"));
		fs.symlinkSync("nowhere", path.join(dir, "0004.dangling"));
		fs.symlinkSync("0006.loop", path.join(dir, "0006.loop"));
		fs.symlinkSync("/dev/zero", path.join(dir, "0007.device"));
		fs.writeFileSync(path.join(dir, ".hidden"), "hidden");
		fs.writeFileSync(path.join(dir, "0008.empty"), "");
		fs.writeFileSync(path.join(dir, "0009.text"), "the first text");
		fs.closeSync(fs.openSync(path.join(dir, "0010.sparse"), "w"));
		fs.truncateSync(path.join(dir, "0010.sparse"), 2 ** 31);
		fs.writeFileSync(Buffer.concat([Buffer.from(`${dir}/0011.`), Buffer.from([0xff, 0xfe])]), "bytes");
		fs.writeFileSync(path.join(dir, `0012.${"n".repeat(240)}`), "a long name");
		fs.writeFileSync(path.join(dir, "0013.last"), "---\nfrom: bob\n---\nthe last text");
		const server = net.createServer().listen(path.join(dir, "0005.socket"));
		onTestFinished(() => void server.close());
		return new Promise((resolve) => server.on("listening", resolve));
	}

	test("what is a regular file is listed, and nothing else; nothing is changed by looking", async () => {
		const { root, env, xfer } = make("alice", "bob");
		await fill(root);
		const before = fs.readdirSync(path.join(root, "nodes/alice/new")).sort();
		const [inbox, nodes, home, doctor] = await Promise.all([
			xfer("inbox", "alice"),
			xfer("nodes"),
			run([...cli], { env: { ...env, XFER_NODE: "alice" } }),
			xfer("doctor"),
		]);
		for (const { code } of [inbox, nodes, home]) expect(code).toBe(0);
		expect(doctor.code).toBe(1);
		const ids = inbox.out
			.split("\n")
			.slice(0, -1)
			.map((line) => line.split("\t")[0]);
		for (const id of ["0008.empty", "0009.text", "0010.sparse", "0013.last"]) expect(ids).toContain(id);
		for (const id of ids) expect(id).not.toMatch(/fifo|directory|symlink|dangling|socket|loop|device|hidden/);
		expect(fs.readdirSync(path.join(root, "nodes/alice/new")).sort()).toEqual(before);
	});

	test("those that can be read are read, one after another and all at once, and the strange ones stay", async () => {
		const { root, xfer } = make("alice", "bob");
		await fill(root);
		const first = await xfer("read", "--as", "alice");
		expect(first).toMatchObject({ code: 0, out: "" }); // 0 bytes are read as they are
		const second = await xfer("read", "--as", "alice");
		expect(second).toMatchObject({ code: 0, out: "the first text" });
		const rest = await xfer("read", "--all", "--as", "alice");
		expect(rest.code).toBe(0);
		expect(rest.out).toContain("the last text");
		expect(rest.out).not.toMatch(/root:|hidden/);
		const left = ls(root, "nodes/alice/new");
		for (const name of [
			"0001.fifo",
			"0002.directory",
			"0003.symlink",
			"0004.dangling",
			"0005.socket",
			"0006.loop",
			"0007.device",
			"0010.sparse",
			".hidden",
		])
			expect(left).toContain(name);
		expect(fs.readFileSync("/etc/passwd", "utf8")).toContain("root");
	});

	test("sending, --key, watching, recalling, gc and leaving go on among them", async () => {
		const { root, xfer } = make("alice", "bob");
		await fill(root);
		const sent = await xfer("send", "alice", "hi", "--as", "bob", "--key", "k");
		const again = await xfer("send", "alice", "ho", "--as", "bob", "--key", "k");
		const [id = ""] = again.out.trimEnd().split("\t").slice(-1);
		const results = await Promise.all([
			xfer("recall", id, "--as", "bob"),
			xfer("gc"),
			xfer("watch", "alice", "--timeout", "1s"),
			xfer("sent", "--as", "bob"),
		]);
		for (const { code, err } of [sent, again, ...results.slice(0, 2), results[3] as (typeof results)[0]])
			expect([code, err]).toEqual([0, ""]);
		expect((await xfer("leave", "alice")).code).toBe(5);
		expect(ls(root, "nodes/alice/new")).toContain("0001.fifo");
	});

	test("named by a person, they are not there", async () => {
		const { root, xfer } = make("alice", "bob");
		await fill(root);
		for (const name of ["0001.fifo", "0002.directory", "0003.symlink", "0005.socket", "0006.loop", "0007.device", ".hidden"]) {
			const results = await Promise.all([
				xfer("read", name, "--as", "alice"),
				xfer("read", name, "--peek", "--as", "alice"),
				xfer("mark", name, "failed", "--as", "alice"),
				xfer("mark", path.join(root, "nodes/alice/new", name), "failed"),
				xfer("reply", name, "hi", "--as", "alice"),
			]);
			for (const { code, out } of results) expect([name, code, out]).toEqual([name, 3, ""]);
		}
	});

	test("a symlink in place of new/, cur/ or tmp/ leads nobody out of the tree unnoticed", async () => {
		const { root, home, xfer } = make("alice", "bob");
		fs.mkdirSync(path.join(home, "outside"));
		fs.writeFileSync(path.join(home, "outside/1000.secret"), "secret");
		fs.rmdirSync(path.join(root, "nodes/alice/tmp"));
		fs.symlinkSync("nowhere", path.join(root, "nodes/alice/tmp"));
		const result = await xfer("send", "alice", "hi", "--as", "bob");
		if (result.code !== 0) expect(result).toMatchObject({ out: "", err: expect.stringMatching(/^xfer: [^\n]+ \([^\n]+\)\n$/) });
		expect(ls(home, "outside")).toEqual(["1000.secret"]);
	});
});

describe("a name from outside never leaves the tree", () => {
	const names = [
		"../x",
		"../../x",
		"a/b",
		"/etc",
		".",
		"..",
		"",
		" ",
		"-x",
		"x".repeat(300),
		"alice/../../x",
		"a\nb",
		"a\\b",
		"ALICE/..",
		"~",
		"$HOME",
		"%2e%2e",
		"\u0130x",
	];

	test("as recipient, Node, --as and $XFER_NODE", async () => {
		const { root, home, env } = make("alice");
		fs.mkdirSync(path.join(home, "x/new"), { recursive: true });
		fs.mkdirSync(path.join(root, "x/new"), { recursive: true });
		const before = fs.readdirSync(home, { recursive: true }).sort();
		const by = (...args: string[]) => run([...cli, ...args], { env });
		for (const [n, name] of names.entries()) {
			const results = await Promise.all([
				by("send", "--", name, "hi"),
				by("join", "--", name),
				by("send", "alice", "hi", `--as=${name}`),
				// Every place for a name is one function's: the rest is asked for the first few only.
				...(n < 4 ? ["inbox", "watch", "leave"].map((command) => by(command, "--", name)) : []),
				...(n < 4 ? [by("read", `--as=${name}`), run([...cli, "send", "alice", "hi"], { env: { ...env, XFER_NODE: name } })] : []),
			]);
			for (const { code, out, err } of results) {
				expect([name, code, out]).toEqual([name, 2, ""]);
				expect(err).toMatch(/^xfer: [^\n]+ \([^\n]+\)\n$/);
			}
		}
		expect(fs.readdirSync(home, { recursive: true }).sort()).toEqual(before);
	});

	test("Alice is alice", async () => {
		const { root, xfer } = make("alice");
		expect((await xfer("send", "Alice", "hi", "--as", "BOB")).code).toBe(0);
		expect(ls(root, "nodes")).toEqual(["alice", "bob"]);
		expect((await xfer("read", "--as", "ALICE")).code).toBe(0);
	});

	test("in a header, a pointer or a lease it is text: nothing outside is made, read or marked", async () => {
		const { root, home, xfer } = make("alice");
		for (const part of ["new", "cur", "tmp", "sent"]) fs.mkdirSync(path.join(home, "x", part), { recursive: true });
		fs.writeFileSync(path.join(home, "x/new/1000.secret"), "secret");
		const from = ["../../../x", "/etc", `../../../${path.basename(home)}/x`, "alice/../../../x", "a\0b", "x".repeat(300)];
		for (const [n, name] of from.entries())
			fs.writeFileSync(
				path.join(root, "nodes/alice/new", `${2000 + n}.x`),
				`---\nfrom: ${JSON.stringify(name)}\nto: ${JSON.stringify(name)}\nre: ${JSON.stringify(name)}\nkey: ${JSON.stringify(name)}\n---\nx`,
			);
		fs.symlinkSync("../../../x", path.join(root, "nodes/alice/sent/1000.secret"));
		fs.writeFileSync(path.join(root, "nodes/alice/cur/3000.x,L=1.../../../../x:2,".replaceAll("/", "%")), "x");
		const outside = () => fs.readdirSync(path.join(home, "x"), { recursive: true }).sort();
		const before = outside();
		for (let n = 0; n < from.length; n++) {
			expect((await xfer("reply", `${2000 + n}.x`, "hi", "--as", "alice")).code).toBe(3);
			expect((await xfer("mark", `${2000 + n}.x`, "failed", "--as", "alice")).code).toBe(0);
		}
		const looks = await Promise.all([
			xfer("sent", "--as", "alice"),
			xfer("sent", "1000.secret", "--as", "alice"),
			xfer("reply", "1000.secret", "hi", "--as", "alice"),
			xfer("recall", "1000.secret", "--as", "alice"),
			xfer("gc", "--keep", "0s"),
		]);
		for (const { out } of looks) expect(out).not.toMatch(/: secret$/m);
		expect(outside()).toEqual(before);
		expect(ls(root, "nodes")).toEqual(["alice"]);
		expect(ls(home).sort()).toEqual([".xfer", "x"]);
	});

	test("a Node that is a symlink to elsewhere, dangling, absolute or a chain is none", async () => {
		const { root, home, tree, xfer } = make("bob");
		fs.mkdirSync(path.join(home, "elsewhere/new"), { recursive: true });
		tree.node("bob").alias("bobby");
		const links = {
			outside: "../../elsewhere",
			dangling: "nobody",
			absolute: path.join(root, "nodes/bob"),
			chain: "bobby",
			self: "self",
			up: "..",
			here: ".",
		};
		for (const [name, target] of Object.entries(links)) fs.symlinkSync(target, path.join(root, "nodes", name));
		for (const name of Object.keys(links)) {
			const results = await Promise.all([xfer("send", name, "hi"), xfer("inbox", name), xfer("leave", name), xfer("read", "--as", name)]);
			for (const { code, out } of results) expect([name, code, out]).toEqual([name, 3, ""]);
			expect((await xfer("join", name)).code).toBe(2);
		}
		expect(ls(home, "elsewhere/new")).toEqual([]);
		expect((await xfer("send", "bobby", "hi")).code).toBe(0);
		expect(ls(root, "nodes/bob/new")).toHaveLength(1);
	});
});

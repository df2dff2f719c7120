/** What a remote holds that no xfer put there. */
import fs from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { run, tempDir } from "../helpers.ts";
import { cardsOf, expectSame, type Machine, script, settle, textsOf, twoMachines, withGit } from "../machine.ts";

withGit();

/** Pushes a commit in which the remote's tree has these entries more: `MODE TYPE OID\tNAME`, names as Latin-1. */
async function plant(at: Machine, entries: { mode?: string; name: string; text?: string; type?: string; oid?: string }[]): Promise<void> {
	const git = async (args: string[], input?: string | Buffer) => {
		const done = await run(["git", ...args], {
			env: { ...at.env, GIT_AUTHOR_NAME: "x", GIT_AUTHOR_EMAIL: "x@x", GIT_COMMITTER_NAME: "x", GIT_COMMITTER_EMAIL: "x@x" },
			cwd: at.directory,
			...(input !== undefined && { input }),
		});
		expect(done, args.join(" ")).toMatchObject({ code: 0 });
		return done.bytes;
	};
	const raw = await git(["cat-file", "tree", "HEAD^{tree}"]);
	const parts: { name: string; bytes: Buffer }[] = [];
	for (let from = 0; from < raw.length; ) {
		const end = raw.indexOf(0, from);
		const head = raw.toString("latin1", from, end);
		parts.push({ name: head.slice(head.indexOf(" ") + 1), bytes: raw.subarray(from, end + 21) });
		from = end + 21;
	}
	for (const { mode = "100644", name, text = "", oid } of entries) {
		const id = oid ?? (await git(["hash-object", "-w", "--stdin"], text)).toString().trim();
		const bytes = Buffer.concat([Buffer.from(`${mode} ${name}\0`, "latin1"), Buffer.from(id, "hex")]);
		const at = parts.findIndex((part) => part.name === name);
		if (at >= 0) parts[at] = { name, bytes };
		else parts.push({ name, bytes });
	}
	parts.sort((a, b) => (a.name < b.name ? -1 : 1));
	const tree = (await git(["hash-object", "-t", "tree", "-w", "--literally", "--stdin"], Buffer.concat(parts.map(({ bytes }) => bytes))))
		.toString()
		.trim();
	const commit = (await git(["commit-tree", tree, "-p", "HEAD", "-m", "planted"])).toString().trim();
	await git(["push", "--quiet", "origin", `${commit}:refs/heads/main`]);
}

const card = (id: string, text = "planted") =>
	`---\nid: ${id}\ntitle: Planted\ncreated_by: mallory\ncreated_at: 2026-11-30T12:00:00.000Z\n---\n\n${text}\n`;

/** Syncs with a limit: a hang is a failure with a name. */
async function syncWithin(at: Machine, ...args: string[]) {
	return await run(["timeout", "-s", "KILL", "20", "xfer", "board", "sync", ...args], { env: at.env });
}

test("a symlink named like a Card is no Card: nothing is read or written through it", async () => {
	const { one, two } = await twoMachines();
	const victim = path.join(tempDir(), "victim.md");
	fs.writeFileSync(victim, card("vvvvvv", "secret"));
	await plant(one, [{ mode: "120000", name: "x-aaaaaa.md", text: victim }]);
	const { file } = two.board.create({ title: "Mine", author: "two" });
	expect(await syncWithin(two)).toMatchObject({ code: 0 });
	expect(two.board.files()).toEqual([file]);
	expect(await two.xfer("board", "add", "x-aaaaaa", "hello")).toMatchObject({ code: 3 });
	const list = await two.xfer("board", "list");
	expect(list.out).not.toContain("Planted");
	expect(list.err).toContain("x-aaaaaa.md");
	expect(await syncWithin(two)).toMatchObject({ code: 0 });
	expect(fs.readFileSync(victim, "utf8")).toBe(card("vvvvvv", "secret"));
});

test("a Card that became a symlink there does not take the place of one that was changed here", async () => {
	const { one, two } = await twoMachines();
	const { file } = two.board.create({ title: "Mine", author: "two" });
	await settle(two, one);
	await plant(one, [{ mode: "120000", name: file, text: "/etc/hostname" }]);
	two.board.add(file, { author: "two", text: "mine" });
	const done = await syncWithin(two);
	expect(done).toMatchObject({ code: 1, out: "", err: expect.stringContaining(file) });
	expect(fs.lstatSync(path.join(two.directory, file)).isFile()).toBe(true);
	expect(textsOf(two, file)).toEqual(["mine"]);
});

test("a directory and a submodule named like Cards are left to git and do not stop a sync", async () => {
	const { one, two } = await twoMachines();
	const tree = (
		await run(["git", "mktree"], {
			env: one.env,
			cwd: one.directory,
			input: `100644 blob ${await one.ask("rev-parse", "HEAD:.gitignore")}\tinner.md\n`,
		})
	).out.trim();
	await plant(one, [
		{ mode: "40000", name: "y-bbbbbb.md", oid: tree },
		{ mode: "160000", name: "z-cccccc.md", oid: await one.ask("rev-parse", "HEAD") },
		{ name: ".gitmodules", text: '[submodule "z"]\n\tpath = z-cccccc.md\n\turl = --upload-pack=touch /tmp/pwned\n' },
	]);
	const { file } = two.board.create({ title: "Mine", author: "two" });
	expect(await syncWithin(two)).toMatchObject({ code: 0 });
	expect(two.board.files()).toEqual([file]);
	expect((await two.xfer("board", "list")).out.trim().split("\n").length).toBe(1);
	two.board.add(file, { author: "two", text: "more" });
	expect(await syncWithin(two)).toMatchObject({ code: 0 });
	await settle(one, two);
	expect(cardsOfFiles(one)).toEqual(cardsOfFiles(two));
});

function cardsOfFiles({ board, read }: Machine): Record<string, string> {
	return Object.fromEntries(board.files().map((file) => [file, read(file)]));
}

test("a submodule named like a Card that somebody removed does not stop the sync", async () => {
	const { one, two } = await twoMachines();
	await plant(one, [{ mode: "160000", name: "z-cccccc.md", oid: await one.ask("rev-parse", "HEAD") }]);
	expect(await syncWithin(two)).toMatchObject({ code: 0 });
	fs.rmSync(path.join(two.directory, "z-cccccc.md"), { recursive: true, force: true });
	const { file } = two.board.create({ title: "Mine", author: "two" });
	expect(await syncWithin(two)).toMatchObject({ code: 0, out: expect.stringContaining(`committed\t${file}`) });
});

test.each([
	["a path out of the Board", "x/../../../evil-dddddd.md", "ahead"],
	["a path into it", "x/evil-dddddd.md", "ahead"],
	["a path from the root", "/evil-dddddd.md", "ahead"],
])("a Card whose name in git's tree is %s (%s) is written nowhere when the remote is %s", async (_, name, way) => {
	const { one, two } = await twoMachines();
	fs.mkdirSync(path.join(two.directory, "x"));
	fs.mkdirSync(path.join(two.directory, ".locks/x"), { recursive: true });
	await plant(one, [{ name, text: card("dddddd") }]);
	if (way !== "ahead") two.board.create({ title: "Mine", author: "two" });
	const home = path.dirname(two.root);
	const before = fs.readdirSync(home).sort();
	const done = await syncWithin(two);
	expect(fs.readdirSync(home).sort()).toEqual(before);
	expect(fs.readdirSync(path.join(two.directory, "x"))).toEqual([]);
	expect(done).toMatchObject({ code: 1, signal: null, out: "", err: expect.stringContaining("evil-dddddd.md") });
});

test("a tree with a path for a name is not merged", async () => {
	const { one, two } = await twoMachines();
	await plant(one, [{ name: "x/../../../evil-dddddd.md", text: card("dddddd") }]);
	const { file } = two.board.create({ title: "Mine", author: "two" });
	const done = await syncWithin(two);
	expect(done).toMatchObject({ code: 1, signal: null, out: "", err: expect.stringContaining("evil-dddddd.md") });
	expect(two.board.files()).toEqual([file]);
});

test("a Card that can't be written ends the sync, which does not hang", async () => {
	const { one, two } = await twoMachines();
	await plant(one, [{ name: "nowhere/evil-dddddd.md", text: card("dddddd") }]);
	const done = await run(["timeout", "-s", "KILL", "5", "xfer", "board", "sync"], { env: two.env });
	expect(done).toMatchObject({ code: 1, signal: null, out: "" });
});

test("Cards with odd bytes in their names keep them, and two names stay two", async () => {
	const { one, two } = await twoMachines();
	const names = [
		"a b\t-aaaaaa.md",
		"q\"uo'te-bbbbbb.md",
		"new\nline-cccccc.md",
		":(top)x-eeeeee.md",
		"-dash-ffffff.md",
		"*-gggggg.md",
		"é-hhhhhh.md",
	];
	await plant(
		one,
		names.map((name, n) => ({ name: Buffer.from(name).toString("latin1"), text: card(`${n}`) })),
	);
	const { file } = two.board.create({ title: "Mine", author: "two" });
	expect(await syncWithin(two)).toMatchObject({ code: 0 });
	expect(two.board.files().sort()).toEqual([...names, file].sort());
	for (const name of names) two.board.add(name, { author: "two", text: "added" });
	expect(await syncWithin(two)).toMatchObject({ code: 0 });
	await settle(one, two);
	await expectSame(one, two);
	for (const name of names) expect(textsOf(one, name)).toEqual(["added"]);
	const log = await one.ask("log", "--format=%B");
	expect(log).not.toContain("\x1b");
});

test("README.md is no Card, and comes as other files do", async () => {
	const { one, two } = await twoMachines();
	await plant(one, [{ name: "README.md", text: "# Our Board\n" }]);
	const { file } = two.board.create({ title: "Mine", author: "two" });
	expect(await syncWithin(two)).toMatchObject({ code: 0, out: `committed\t${file}\npushed\torigin\n` });
	expect(two.board.files()).toEqual([file]);
	expect(two.read("README.md")).toBe("# Our Board\n");
	// Changed by the user, it is his to commit.
	two.write("README.md", "# Mine\n");
	expect(await syncWithin(two)).toMatchObject({ code: 0, out: "" });
	expect(two.read("README.md")).toBe("# Mine\n");
	expect(await two.ask("diff", "--name-only")).toBe("README.md");
});

test("names that are not UTF-8 are not changed by a sync", async () => {
	const { one, two } = await twoMachines();
	await plant(one, [
		{ name: "caf\xe9-aaaaaa.md", text: card("aaaaaa", "the first") },
		{ name: "caf\xe8-aaaaaa.md", text: card("aaaaaa", "the second") },
	]);
	two.board.create({ title: "Mine", author: "two" });
	const names = async () =>
		(await run(["git", "ls-tree", "-z", "--name-only", "origin/main"], { env: two.env, cwd: two.directory })).bytes
			.toString("latin1")
			.split("\0");
	expect((await syncWithin(two)).signal).toBe(null);
	await two.ask("fetch", "--quiet");
	expect(await names()).toEqual(expect.arrayContaining(["caf\xe8-aaaaaa.md", "caf\xe9-aaaaaa.md"]));
	expect((await names()).filter((name) => name.includes("\xef\xbf\xbd"))).toEqual([]);
});

test("an executable Card is merged, and syncs come to rest", async () => {
	const { one, two } = await twoMachines();
	await plant(one, [{ mode: "100755", name: "x-aaaaaa.md", text: card("aaaaaa") }]);
	expect(await syncWithin(two)).toMatchObject({ code: 0 });
	two.board.add("x-aaaaaa.md", { author: "two", text: "added" });
	await settle(two, one);
	one.board.add("x-aaaaaa.md", { author: "one", text: "too" });
	await settle(one, two);
	expect(cardsOf(one)).toEqual(cardsOf(two));
	expect(textsOf(two, "x-aaaaaa.md").sort()).toEqual(["added", "too"]);
	expect(fs.statSync(path.join(two.directory, "x-aaaaaa.md")).mode & 0o111).toBe(0);
});

test("a Card that somebody made executable does not keep two machines committing for ever", async () => {
	const { one, two } = await twoMachines();
	const { file } = one.board.create({ title: "Mine", author: "one" });
	await settle(one, two);
	fs.chmodSync(path.join(one.directory, file), 0o755);
	await settle(one, two);
	expect(one.read(file)).toBe(two.read(file));
});

test("attributes and hooks of the remote change no byte of a Card, run nothing and stop nothing", async () => {
	const { one, two } = await twoMachines();
	const proof = path.join(tempDir(), "proof");
	// Filters that are set up here, for other files.
	for (const at of [one, two]) {
		await at.ask("config", "filter.x.clean", `touch ${proof}; tr a-z A-Z`);
		await at.ask("config", "filter.x.smudge", `touch ${proof}; tr a-z A-Z`);
	}
	const ignore = await one.ask("rev-parse", "HEAD:.gitignore");
	const input = `100755 blob ${ignore}\tpost-checkout\n`;
	const hooks = (await run(["git", "mktree"], { env: one.env, cwd: one.directory, input })).out.trim();
	await plant(one, [
		{ name: ".gitattributes", text: "*.md text eol=crlf ident filter=x merge=union\n" },
		{ mode: "40000", name: "hooks", oid: hooks },
		{ name: "x-aaaaaa.md", text: card("aaaaaa", "$Id$ lf\n") },
	]);
	const { file } = two.board.create({ title: "Mine", author: "two", text: "crlf\r\nlf\n$Id$\n" });
	const mine = two.read(file);
	expect(await syncWithin(two)).toMatchObject({ code: 0 });
	two.board.add(file, { author: "two", text: "cr\r\nlf\n" });
	two.board.add("x-aaaaaa.md", { author: "two", text: "added" });
	expect(await syncWithin(two)).toMatchObject({ code: 0 });
	await settle(one, two);
	expect(two.read(file).startsWith(mine)).toBe(true);
	expect(two.read("x-aaaaaa.md").startsWith(card("aaaaaa", "$Id$ lf\n"))).toBe(true);
	for (const name of [file, "x-aaaaaa.md"]) {
		expect(one.read(name)).toBe(two.read(name));
		const stored = await run(["git", "cat-file", "blob", `HEAD:${name}`], { env: two.env, cwd: two.directory });
		expect(stored.bytes.toString("latin1")).toBe(two.read(name));
	}
	expect(fs.existsSync(proof), "a filter ran").toBe(false);
});

test("a remote that says Cards are UTF-16 stops no sync", async () => {
	const { one, two } = await twoMachines();
	await plant(one, [{ name: ".gitattributes", text: "*.md -text merge=xfer working-tree-encoding=UTF-16\n" }]);
	await syncWithin(two);
	const { file } = two.board.create({ title: "Mine", author: "two" });
	expect(await syncWithin(two)).toMatchObject({ code: 0, out: expect.stringContaining(`committed\t${file}`) });
});

test("a remote's .locks is not taken over", async () => {
	const { one, two } = await twoMachines();
	const { file } = one.board.create({ title: "Mine", author: "one" });
	await settle(one, two);
	const victim = tempDir();
	fs.rmSync(path.join(two.directory, ".locks"), { recursive: true, force: true });
	await plant(one, [{ mode: "120000", name: ".locks", text: victim }]);
	await syncWithin(two);
	await two.xfer("board", "edit", file, "--title", "Other");
	await syncWithin(two);
	expect(fs.readdirSync(victim)).toEqual([]);
	expect(fs.lstatSync(path.join(two.directory, ".locks")).isSymbolicLink()).toBe(false);
	expect(two.read(file)).toContain("title: Other");
});

test("other files come with a sync, but never over what is here and uncommitted", async () => {
	const { one, two } = await twoMachines();
	one.write("plan.txt", "first\n");
	fs.mkdirSync(path.join(one.directory, "sub"));
	one.write("sub/old.txt", "old\n");
	await one.ask("add", "plan.txt", "sub");
	await one.ask("commit", "--quiet", "-m", "others");
	await settle(one, two);
	expect(two.read("plan.txt")).toBe("first\n");
	await expectSame(one, two);

	// Removed there, and added to a directory that is here too.
	await one.ask("rm", "--quiet", "sub/old.txt", "plan.txt");
	fs.mkdirSync(path.join(one.directory, "sub"), { recursive: true });
	one.write("sub/new.txt", "new\n");
	await one.ask("add", "sub");
	await one.ask("commit", "--quiet", "-m", "others");
	await settle(one, two);
	expect(fs.existsSync(path.join(two.directory, "plan.txt"))).toBe(false);
	expect(fs.readdirSync(path.join(two.directory, "sub"))).toEqual(["new.txt"]);
	await expectSame(one, two);
});

test("an untracked file in a directory that git has is not overwritten by one that comes", async () => {
	const { one, two } = await twoMachines();
	fs.mkdirSync(path.join(one.directory, "sub"));
	one.write("sub/first.txt", "first\n");
	await one.ask("add", "sub");
	await one.ask("commit", "--quiet", "-m", "others");
	await settle(one, two);
	two.write("sub/mine.txt", "of two, uncommitted\n");
	one.write("sub/mine.txt", "of one\n");
	await one.ask("add", "sub");
	await one.ask("commit", "--quiet", "-m", "others");
	await one.sync();
	const { file } = two.board.create({ title: "Mine", author: "two" });
	const done = await syncWithin(two);
	expect(two.read("sub/mine.txt")).toBe("of two, uncommitted\n");
	expect(done).toMatchObject({ code: 1, out: "", err: expect.stringContaining("sub") });
	fs.rmSync(path.join(two.directory, "sub/mine.txt"));
	expect(await syncWithin(two)).toMatchObject({ code: 0 });
	expect(two.read("sub/mine.txt")).toBe("of one\n");
	await settle(one, two);
	expect(Object.keys(cardsOfFiles(one))).toEqual([file]);
});

// Fails: what is no Card is compared without its mode, too.
test("that another file can be executed comes with a sync", async () => {
	const { one, two } = await twoMachines();
	script(path.join(one.directory, "run.sh"), "echo hi");
	fs.chmodSync(path.join(one.directory, "run.sh"), 0o644);
	await one.ask("add", "run.sh");
	await one.ask("commit", "--quiet", "-m", "others");
	await settle(one, two);
	fs.chmodSync(path.join(one.directory, "run.sh"), 0o755);
	await one.ask("commit", "--quiet", "--all", "-m", "executable");
	await one.sync();
	two.board.create({ title: "Mine", author: "two" });
	await settle(two, one);
	expect(await one.ask("ls-files", "--stage", "run.sh")).toMatch(/^100755 /);
	expect(fs.statSync(path.join(two.directory, "run.sh")).mode & 0o111).not.toBe(0);
	await expectSame(one, two);
});

test.each(["..", ".git", ".GIT"])("a tree that holds %s further down is not checked out", async (name) => {
	const { one, two } = await twoMachines();
	const blob = await one.ask("rev-parse", "HEAD:.gitignore");
	const tree = async (entry: string, oid: string, mode = "100644") => {
		const input = Buffer.concat([Buffer.from(`${mode} ${entry}\0`), Buffer.from(oid, "hex")]);
		const args = ["git", "hash-object", "-t", "tree", "-w", "--literally", "--stdin"];
		return (await run(args, { env: one.env, cwd: one.directory, input })).out.trim();
	};
	const inner = await tree(name, await tree("evil", blob), "40000");
	await plant(one, [{ mode: "40000", name: "sub", oid: inner }]);
	const before = fs.readdirSync(two.directory).sort();
	const done = await syncWithin(two);
	expect(done).toMatchObject({ code: 1, signal: null, out: "" });
	expect(fs.readdirSync(two.directory).filter((each) => each !== ".locks")).toEqual(before.filter((each) => each !== ".locks"));
	expect(fs.existsSync(path.join(two.directory, ".git/evil"))).toBe(false);
	// And one's own work goes on being committed.
	const { file } = two.board.create({ title: "Mine", author: "two" });
	await syncWithin(two);
	expect(await two.ask("show", "--format=", "--name-only")).toBe(file);
});

test("a Card that was replaced by a directory here is left alone, and said so", async () => {
	const { one, two } = await twoMachines();
	const { file } = one.board.create({ title: "Cache", author: "alice" });
	await settle(one, two);
	fs.rmSync(path.join(two.directory, file));
	fs.mkdirSync(path.join(two.directory, file));
	two.write(`${file}/mine`, "mine");
	one.board.add(file, { author: "alice", text: "there" });
	await one.sync();
	expect(await syncWithin(two)).toMatchObject({ code: 1, signal: null, out: "", err: expect.stringContaining(file) });
	expect(two.read(`${file}/mine`)).toBe("mine");
	fs.rmSync(path.join(two.directory, file), { recursive: true });
	await settle(two, one);
	await expectSame(one, two);
});

test("a remote that says no is told with git's words, and nothing is lost", async () => {
	const { one, two, url } = await twoMachines();
	script(path.join(url, "hooks/pre-receive"), "echo not on a Monday >&2; exit 1");
	const { file } = one.board.create({ title: "Mine", author: "one" });
	const done = await syncWithin(one);
	expect(done).toMatchObject({ code: 1, out: "" });
	expect(done.err).toContain("not on a Monday");
	fs.rmSync(path.join(url, "hooks/pre-receive"));
	expect(await syncWithin(one)).toMatchObject({ code: 0 });
	await settle(one, two);
	expect(two.board.files()).toEqual([file]);
});

import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import { expect, test } from "vitest";
import { initBoard, isRepository, parseCard } from "../../lib/index.ts";
import { cli, ls, onTestFinished, run, start, tempDir, until } from "../helpers.ts";
import { cardsOf, expectSame, type Machine, machine, remote, script, settle, textsOf, twoMachines, withGit } from "../machine.ts";

withGit();

test("init makes the Board a repository, with the merge driver and what git shall know of Cards", async () => {
	const one = machine("one");
	expect(await one.xfer("board", "init")).toMatchObject({ code: 0, out: `initialized\t${one.directory}\n` });
	expect(isRepository(one.board)).toBe(true);
	expect(one.read(".gitignore")).toBe(".locks/\n");
	expect(one.read(".gitattributes")).toBe("*.md -text merge=xfer\n");
	expect(await one.ask("config", "--local", "merge.xfer.driver")).toMatch(/^xfer board merge-driver %O %A %B /);
	expect(await one.ask("config", "--local", "merge.renames")).toBe("false");
	expect(await one.ask("symbolic-ref", "HEAD")).toBe("refs/heads/main");
});

test("init is safe to repeat and keeps what the user has", async () => {
	const one = machine("one");
	const url = await remote();
	fs.mkdirSync(one.directory, { recursive: true });
	one.write(".gitignore", "drafts/\r\n*.tmp"); // no last newline
	one.write(".gitattributes", "*.png binary\n");
	await one.ask("init", "--quiet", "-b", "trunk");
	await one.ask("config", "merge.xfer.driver", "my-driver %O %A %B");
	for (let time = 0; time < 3; time++) expect(await one.xfer("board", "init", "--remote", url)).toMatchObject({ code: 0 });
	expect(one.read(".gitignore")).toBe("drafts/\r\n*.tmp\n.locks/\n");
	expect(one.read(".gitattributes")).toBe("*.png binary\n*.md -text merge=xfer\n");
	expect(await one.ask("config", "--get-all", "merge.xfer.driver")).toBe("my-driver %O %A %B");
	expect(await one.ask("symbolic-ref", "HEAD")).toBe("refs/heads/trunk");
	expect(await one.ask("remote", "get-url", "--all", "origin")).toBe(url);
	const other = await one.xfer("board", "init", "--remote", "elsewhere");
	expect(other).toMatchObject({ code: 2, out: "" });
	expect(other.err).toContain(url);
	expect(await one.ask("remote", "get-url", "origin")).toBe(url);
});

test("init calls its branch as the remote does", async () => {
	const url = await remote();
	const [one, two] = [machine("one"), machine("two")];
	await initBoard(one.board, url);
	await one.ask("symbolic-ref", "HEAD", "refs/heads/trunk");
	const { file } = one.board.create({ title: "One", author: "one" });
	await one.sync();
	await run(["git", "--git-dir", url, "symbolic-ref", "HEAD", "refs/heads/trunk"], { env: one.env });
	await initBoard(two.board, url);
	await settle(two, one);
	expect(Object.keys(cardsOf(two))).toEqual([file]);
	expect(await two.ask("symbolic-ref", "HEAD")).toBe("refs/heads/trunk");
	await expectSame(one, two);
});

test("sync without a repository says how to make one; without a remote it commits and says so", async () => {
	const one = machine("one");
	one.board.create({ title: "One", author: "one" });
	expect(await one.xfer("board", "sync")).toMatchObject({ code: 1, out: "", err: expect.stringContaining("xfer board init") });
	await one.xfer("board", "init");
	const done = await one.xfer("board", "sync");
	expect(done).toMatchObject({ code: 0, err: expect.stringContaining("--remote") });
	expect(await one.ask("status", "--porcelain")).toBe("");
});

test("sync tells what it committed, merged and pushed, and its commit names Cards and authors", async () => {
	const { one, two } = await twoMachines();
	const a = one.board.create({ title: "Cache layer", author: "alice" });
	one.board.add(a.file, { author: "bob", text: "read twice" });
	const done = await one.xfer("board", "sync");
	expect(done).toMatchObject({ code: 0, out: `committed\t${a.file}\npushed\torigin\n` });
	expect(await one.ask("log", "-1", "--format=%B")).toBe(`board: cache-layer-${a.id} (alice, bob)`);
	expect(await one.ask("log", "-1", "--format=%an")).toBe("one");
	expect(await two.xfer("board", "sync")).toMatchObject({ code: 0, out: `merged\t${a.file}\n` });
	const b = two.board.create({ title: "Flaky tests", author: "carol" });
	two.board.add(a.file, { author: "carol", text: "once is enough" });
	const json = await two.xfer("board", "sync", "--json");
	expect(JSON.parse(json.out)).toEqual({
		schema: "xfer.sync/1",
		committed: [a.file, b.file].sort(),
		merged: [],
		pushed: true,
		remote: "origin",
		mentioned: [],
	});
	const message = await two.ask("log", "-1", "--format=%B");
	expect(message).toContain("board: 2 Cards\n");
	expect(message).toContain(`cache-layer-${a.id} (carol)\n`);
	expect(message).toContain(`flaky-tests-${b.id} (carol)`);
	await settle(one, two);
	await expectSame(one, two);
	expect(textsOf(one, a.file)).toEqual(["read twice", "once is enough"]);
	expect(await one.xfer("board", "sync")).toMatchObject({ code: 0, out: "" });
});

test("a sync commits Cards and nothing else: what else is staged, changed or new stays as it is", async () => {
	const { one, two } = await twoMachines();
	const lines = Array.from({ length: 40 }, (_, n) => `line ${n}`);
	one.write("notes.txt", `${lines.join("\n")}\n`);
	one.write("plan.txt", "plan\n");
	fs.mkdirSync(path.join(one.directory, "sub"));
	one.write("sub/inner.md", "no Card\n");
	await one.ask("add", "notes.txt", "plan.txt", "sub/inner.md");
	await one.ask("commit", "--quiet", "-m", "mine");
	// One hunk staged, another not; a new file staged, another not; one removed in the index only; a change in a directory below.
	one.write("notes.txt", `${["STAGED", ...lines.slice(1)].join("\n")}\n`);
	await one.ask("add", "notes.txt");
	one.write("notes.txt", `${["STAGED", ...lines.slice(1, -1), "NOT STAGED"].join("\n")}\n`);
	one.write("new.txt", "staged\n");
	await one.ask("add", "new.txt");
	one.write("new.txt", "staged, and changed since\n");
	one.write("untracked.txt", "untracked\n");
	await one.ask("rm", "--quiet", "--cached", "plan.txt");
	one.write("sub/inner.md", "changed\n");
	const state = async () => [await one.ask("diff", "--cached"), await one.ask("diff"), await one.ask("status", "--porcelain")];
	const before = await state();

	const { file } = one.board.create({ title: "Cache", author: "alice" });
	expect(await one.sync()).toMatchObject({ committed: [file], pushed: true });
	expect(await state()).toEqual(before);
	expect(await one.ask("show", "--format=", "--name-only")).toBe(file);

	// The same through a merge of both sides.
	await two.sync();
	two.board.add(file, { author: "carol", text: "there" });
	two.board.create({ title: "Other", author: "carol" });
	await two.sync();
	one.board.add(file, { author: "alice", text: "here" });
	const merging = await one.sync();
	expect(merging.merged.length).toBe(2);
	expect(await state()).toEqual(before);
	expect(textsOf(one, file).sort()).toEqual(["here", "there"]);
	expect(await one.ask("show", "--format=", "--name-only", "HEAD^1")).toBe(file);
	await two.sync();
	expect(await two.ask("ls-files")).toBe(await one.ask("ls-tree", "-r", "--name-only", "HEAD"));
});

test("offline: git's words, exit 1, nothing lost, and the next sync goes on", async () => {
	const { one, two, url } = await twoMachines();
	const away = `${url}.away`;
	fs.renameSync(url, away);
	const { file } = one.board.create({ title: "Cache", author: "alice" });
	for (let time = 0; time < 2; time++) {
		one.board.add(file, { author: "alice", text: `offline ${time}` });
		const done = await one.xfer("board", "sync");
		expect(done).toMatchObject({ code: 1, out: "" });
		expect(done.err).toMatch(/^xfer: git fetch: .*does not appear to be a git repository.*next sync goes on/s);
	}
	expect(await one.ask("status", "--porcelain")).toBe("");
	fs.renameSync(away, url);
	expect(await one.xfer("board", "sync")).toMatchObject({ code: 0, out: "pushed\torigin\n" });
	await settle(two, one);
	await expectSame(one, two);
	expect(textsOf(two, file)).toEqual(["offline 0", "offline 1"]);
});

test("--every goes on, also while the remote is away, until it is stopped", async () => {
	const { one, two, url } = await twoMachines();
	const { file } = one.board.create({ title: "Cache", author: "alice" });
	fs.renameSync(url, `${url}.away`);
	const child = start([...cli, "board", "sync", "--every", "1s"], { env: one.env, stdio: ["ignore", "pipe", "pipe"] });
	let out = "";
	let err = "";
	child.stdout?.on("data", (chunk) => (out += chunk));
	child.stderr?.on("data", (chunk) => (err += chunk));
	await until(() => (err.match(/^xfer: git fetch/gm) ?? []).length >= 2, "two failures");
	fs.renameSync(`${url}.away`, url);
	await until(() => out.includes("pushed\torigin\n"), "a push");
	await two.sync();
	two.board.add(file, { author: "carol", text: "there" });
	await two.sync();
	await until(() => textsOf(one, file).includes("there"), "what two pushed");
	await until(() => out.includes(`merged\t${file}\n`), "its line");
	child.kill("SIGTERM");
	await until(() => child.exitCode !== null || child.signalCode !== null, "its end");
	expect(out).toBe(
		`committed\t${file}\npushed\torigin\nmerged\t${file}\n`.replace(/^committed.*\n/, out.startsWith("committed") ? "$&" : ""),
	);
	for (const wrong of ["0s", "soon"]) expect(await one.xfer("board", "sync", "--every", wrong)).toMatchObject({ code: 2, out: "" });
});

test("without git in PATH: a message and exit 1, and the Board works all the same", async () => {
	const { one } = await twoMachines();
	const env = { ...one.env, PATH: tempDir() };
	for (const args of [["sync"], ["init"], ["init", "--remote", "x"]]) {
		const done = await run([...cli, "board", ...args], { env });
		expect(done).toMatchObject({ code: 1, out: "", err: expect.stringMatching(/^xfer: .*git.*install git/) });
	}
	const made = await run([...cli, "board", "new", "Cache"], { env });
	expect(made).toMatchObject({ code: 0 });
	expect(await run([...cli, "board", "add", made.out.split("\t")[0] ?? "", "text"], { env })).toMatchObject({ code: 0 });
	expect(await run([...cli, "board", "list"], { env })).toMatchObject({ code: 0, err: "" });
	const fresh = machine("fresh");
	expect(await run([...cli, "board", "init"], { env: { ...fresh.env, PATH: env.PATH } })).toMatchObject({ code: 1, out: "" });
	expect(await fresh.xfer("board", "init")).toMatchObject({ code: 0 });
	expect(fresh.read(".gitattributes")).toBe("*.md -text merge=xfer\n");
});

test.each([
	["GIT_SSH_COMMAND", (ssh: string) => ({ GIT_SSH_COMMAND: ssh })],
	["GIT_SSH", (ssh: string) => ({ GIT_SSH: ssh })],
	["core.sshCommand", () => ({})],
	["ssh in PATH", (ssh: string) => ({ PATH: `${path.dirname(ssh)}:${process.env.PATH}` })],
])("ssh is told never to ask (%s)", async (how, env) => {
	const one = machine("one");
	await initBoard(one.board);
	const directory = tempDir();
	const said = path.join(directory, "said");
	// As ssh: it asks on the terminal unless it is told not to.
	const ssh = script(
		path.join(directory, "ssh"),
		`echo "$*" >>${said}
		case "$*" in *-G*) exit 1;; *BatchMode=yes*) echo 'me@there: Permission denied (publickey).' >&2; exit 255;; esac
		printf "me@there's password: " >/dev/tty; read answer </dev/tty; exit 255`,
	);
	if (how === "core.sshCommand") await one.ask("config", "core.sshCommand", ssh);
	await one.ask("remote", "add", "origin", "me@there:board.git");
	const { file } = one.board.create({ title: "Cache", author: "alice" });
	const log = path.join(directory, "log");
	// On a terminal, which is where a question would be seen, and answered with nothing.
	const command = `'${cli[0]}' '${cli[1]}' board sync; echo "code $?"`;
	const done = await run(["timeout", "-s", "KILL", "20", "script", "-qec", command, log], { env: { ...one.env, ...env(ssh) }, input: "" });
	expect(done.out).toContain("Permission denied (publickey)");
	expect(done.out).toContain("code 1");
	expect(done.out).not.toContain("password:");
	expect(fs.readFileSync(said, "utf8")).toContain("BatchMode=yes");
	expect(await one.ask("show", "--format=", "--name-only")).toContain(file);
	expect(await one.ask("config", "-l", "--local")).not.toContain("BatchMode");
});

test("a GIT_SSH with blanks in its path is run as git runs it", async () => {
	const one = machine("one");
	await initBoard(one.board);
	const directory = path.join(tempDir(), "my tools");
	fs.mkdirSync(directory);
	const ssh = script(path.join(directory, "ssh"), "echo 'it was run' >&2; exit 255");
	await one.ask("remote", "add", "origin", "me@there:board.git");
	const done = await run([...cli, "board", "sync"], { env: { ...one.env, GIT_SSH: ssh } });
	expect(done).toMatchObject({ code: 1, out: "", err: expect.stringContaining("it was run") });
});

test("a server that wants a password gets none, and no helper is asked", async () => {
	const one = machine("one");
	await initBoard(one.board);
	let requests = 0;
	const server = http.createServer((_, response) => {
		requests++;
		response.writeHead(401, { "WWW-Authenticate": 'Basic realm="board"' }).end();
	});
	await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
	onTestFinished(() => void server.close());
	const asked = path.join(tempDir(), "asked");
	const ask = script(path.join(path.dirname(asked), "ask"), `echo "$1" >>${asked}; echo secret`);
	await one.ask("config", "core.askPass", ask);
	await one.ask("remote", "add", "origin", `http://127.0.0.1:${(server.address() as { port: number }).port}/board.git`);
	one.board.create({ title: "Cache", author: "alice" });
	const env = { ...one.env, GIT_ASKPASS: ask, SSH_ASKPASS: ask, DISPLAY: ":0" };
	const command = `'${cli[0]}' '${cli[1]}' board sync; echo "code $?"`;
	const done = await run(["timeout", "-s", "KILL", "20", "script", "-qec", command, "/dev/null"], { env, input: "" });
	expect(requests).toBeGreaterThan(0);
	expect(done.out).toContain("code 1");
	expect(done.out).toContain("xfer: git fetch: ");
	expect(done.out).not.toMatch(/^(?:Username|Password)/m);
	expect(fs.existsSync(asked)).toBe(false);
});

test("a sync in the hook of another repository works on the Board, and leaves that repository alone", async () => {
	const { one, two } = await twoMachines();
	const { file } = one.board.create({ title: "Cache", author: "alice" });
	const other = tempDir();
	const env = { ...one.env, GIT_AUTHOR_NAME: "x", GIT_AUTHOR_EMAIL: "x@x", GIT_COMMITTER_NAME: "x", GIT_COMMITTER_EMAIL: "x@x" };
	const git = async (...args: string[]) => {
		const done = await run(["git", "-C", other, ...args], { env });
		expect(done, args.join(" ")).toMatchObject({ code: 0 });
		return done;
	};
	await git("init", "--quiet", "-b", "work");
	for (const hook of ["pre-commit", "post-commit"])
		script(
			path.join(other, ".git/hooks", hook),
			`xfer board add ${file} "${hook}" --as alice >&2 && env | grep ^GIT_ >&2; xfer board sync >&2`,
		);
	fs.writeFileSync(path.join(other, "a.txt"), "a\n");
	fs.writeFileSync(path.join(other, "b.txt"), "b\n");
	await git("add", "a.txt");
	// Of several kinds: the index is another file in the second, and settings come along in the third.
	const first = await git("commit", "-m", "first");
	expect(first.err).toContain("GIT_INDEX_FILE");
	await git("add", "b.txt");
	fs.appendFileSync(path.join(other, "a.txt"), "more\n");
	await git("commit", "--quiet", "-m", "second", "--only", "a.txt");
	await git("-c", "core.bare=false", "-c", `core.worktree=${other}`, "commit", "--quiet", "-m", "third");
	expect((await git("log", "--format=%s", "--name-only")).out).toBe("third\n\nb.txt\nsecond\n\na.txt\nfirst\n\na.txt\n");
	expect((await git("status", "--porcelain")).out).toBe("");
	await settle(one, two);
	await expectSame(one, two);
	expect(textsOf(two, file)).toEqual(["pre-commit", "post-commit", "pre-commit", "post-commit", "pre-commit", "post-commit"]);
});

test("a sync in a hook that may not change refs of its own repository changes those of the Board", async () => {
	const { one, two } = await twoMachines();
	const { file } = one.board.create({ title: "Cache", author: "alice" });
	await settle(one, two);
	two.board.add(file, { author: "two", text: "there" });
	await two.sync();
	one.board.add(file, { author: "one", text: "here" });
	const bare = await remote();
	script(path.join(bare, "hooks/pre-receive"), "xfer board sync >&2");
	const other = tempDir();
	const env = { ...one.env, GIT_AUTHOR_NAME: "x", GIT_AUTHOR_EMAIL: "x@x", GIT_COMMITTER_NAME: "x", GIT_COMMITTER_EMAIL: "x@x" };
	for (const args of [
		["init", "--quiet", "-b", "main"],
		["commit", "--quiet", "--allow-empty", "-m", "x"],
		["push", "--quiet", bare, "main"],
	])
		expect(await run(["git", "-C", other, ...args], { env })).toMatchObject({ code: 0 });
	await settle(one, two);
	await expectSame(one, two);
	expect(textsOf(two, file).sort()).toEqual(["here", "there"]);
	expect(await one.git("fsck", "--strict", "--no-dangling")).toMatchObject({ code: 0 });
});

test("init completes what a killed init left", async () => {
	const one = machine("one");
	fs.mkdirSync(path.join(one.directory, ".git/objects"), { recursive: true });
	expect(await one.xfer("board", "init")).toMatchObject({ code: 0 });
	expect(await one.xfer("board", "sync")).toMatchObject({ code: 0 });
});

test("a Board in a directory that another repository has is a repository of its own", async () => {
	const one = machine("one");
	fs.mkdirSync(one.directory, { recursive: true });
	await run(["git", "init", "--quiet", one.root], { env: one.env });
	const { file } = one.board.create({ title: "Cache", author: "alice" });
	expect(await one.xfer("board", "sync")).toMatchObject({ code: 1, out: "", err: expect.stringContaining("board init") });
	expect(await one.xfer("board", "init")).toMatchObject({ code: 0 });
	expect(await one.xfer("board", "sync")).toMatchObject({ code: 0, out: `committed\t${file}\n` });
	expect((await run(["git", "-C", one.root, "status", "--porcelain"], { env: one.env })).out).toBe("?? board/\n");
	expect((await run(["git", "-C", one.root, "rev-parse", "--verify", "HEAD"], { env: one.env })).code).not.toBe(0);
});

test("a sync tells whom an Entry from elsewhere mentions: once for an Entry and a Node, never its author", async () => {
	const { one, two } = await twoMachines();
	for (const at of [one, two]) for (const name of ["alice", "bob", "carol"]) at.tree.join(name);
	const inbox = (at: Machine, name: string) => [...ls(at.root, "nodes", name, "new"), ...ls(at.root, "nodes", name, "cur")];
	const { file } = one.board.create({ title: "Cache", author: "alice" });
	await settle(one, two);
	const first = two.board.add(file, { author: "carol", text: "@alice and @bob, see; @carol too, @nobody, `@bob`" });
	await two.sync("carol");
	const done = await one.xfer("board", "sync", "--as", "bob", "--json");
	const notes = JSON.parse(done.out).mentioned;
	expect(notes.map(({ to }: { to: string }) => to).sort()).toEqual(["alice", "bob", "nobody"]);
	expect(notes.find(({ to }: { to: string }) => to === "nobody").error).toContain("nobody");
	expect(inbox(one, "alice").length).toBe(1);
	expect(inbox(one, "bob").length).toBe(1);
	expect(inbox(one, "carol").length).toBe(0);
	// Again, and read in between, and after a merge that touches the same Card: nobody is told twice.
	expect(await one.xfer("read", "--as", "alice")).toMatchObject({ code: 0, out: expect.stringContaining(first.id) });
	await one.sync("alice");
	one.board.add(file, { author: "alice", text: "@carol yes" });
	two.board.add(file, { author: "carol", text: "no mention" });
	await settle(two, one);
	await expectSame(one, two);
	expect(inbox(one, "alice").length).toBe(1);
	expect(inbox(one, "bob").length).toBe(1);
	expect(inbox(two, "carol").length).toBe(1);
	expect(inbox(two, "alice").length).toBe(0);
	// Not when it is not wanted.
	two.board.add(file, { author: "carol", text: "@bob quiet" });
	await two.sync();
	expect(await one.xfer("board", "sync", "--no-mention")).toMatchObject({ code: 0 });
	expect(inbox(one, "bob").length).toBe(1);
});

test("a name that no Node has is a warning of the sync, and no failure", async () => {
	const { one, two } = await twoMachines();
	const { file } = one.board.create({ title: "Cache", author: "alice" });
	await settle(one, two);
	two.board.add(file, { author: "carol", text: "@nobody" });
	await two.sync();
	expect(await one.xfer("board", "sync")).toMatchObject({ code: 0, err: expect.stringContaining("@nobody"), out: `merged\t${file}\n` });
	expect(fs.existsSync(path.join(one.root, "nodes/nobody"))).toBe(false);
});

test("who held a Card that another claimed earlier elsewhere is told so, once; the earlier claim stands", async () => {
	const { one, two } = await twoMachines();
	for (const at of [one, two]) for (const name of ["alice", "carol"]) at.tree.join(name);
	const { file } = one.board.create({ title: "Cache", author: "alice" });
	await settle(one, two);
	await one.board.claim(file, "alice");
	await until(() => Date.now() > Date.parse(lastDate(one, file)), "the next millisecond");
	await two.board.claim(file, "carol");
	await one.sync();
	const { notes } = await two.sync();
	expect(notes.map(({ to }) => to)).toEqual(["carol"]);
	await settle(one, two);
	await expectSame(one, two);
	for (const at of [one, two]) expect((await at.board.read(file)).holder).toMatchObject({ name: "alice", host: "one" });
	const told = await two.xfer("read", "--as", "carol");
	expect(told).toMatchObject({ code: 0, out: expect.stringContaining("alice on one") });
	expect(told.out).toContain(file.slice(-9, -3));
	for (const name of ["alice", "carol"]) expect((await two.xfer("read", "--as", name)).code).toBe(3);
	expect((await one.xfer("read", "--as", "alice")).code).toBe(3);
	// And carol, who lost, is refused from now on.
	await expect(two.board.claim(file, "carol")).rejects.toMatchObject({ code: "EHELD" });
});

function lastDate(at: Machine, file: string): string {
	return parseCard(fs.readFileSync(path.join(at.directory, file))).entries.at(-1)?.dated ?? "";
}

test("an identity that git has is used; without one the commit has the Node's name", async () => {
	const { one, two } = await twoMachines();
	await one.ask("config", "user.name", "Alice Adams");
	await one.ask("config", "user.email", "alice@example.org");
	one.board.create({ title: "Cache", author: "alice" });
	expect(await one.xfer("board", "sync", "--as", "bob")).toMatchObject({ code: 0 });
	expect(await one.ask("log", "-1", "--format=%an <%ae> %cn")).toBe("Alice Adams <alice@example.org> Alice Adams");
	await two.sync();
	two.board.create({ title: "Cache", author: "carol" });
	expect(await two.xfer("board", "sync", "--as", "carol")).toMatchObject({ code: 0 });
	expect(await two.ask("log", "-1", "--format=%an %cn")).toBe("carol carol");
});

test("of several remotes the branch's own is used, and else origin", async () => {
	const { one, url } = await twoMachines();
	const backup = await remote();
	await one.ask("remote", "add", "backup", backup);
	const { file } = one.board.create({ title: "Cache", author: "alice" });
	expect(await one.sync()).toMatchObject({ remote: "origin", pushed: true });
	expect((await run(["git", "--git-dir", url, "ls-tree", "--name-only", "main"], { env: one.env })).out).toContain(file);
	await one.ask("config", "branch.main.remote", "backup");
	await one.ask("config", "branch.main.merge", "refs/heads/board");
	expect(await one.sync()).toMatchObject({ remote: "backup", pushed: true });
	expect((await run(["git", "--git-dir", backup, "ls-tree", "--name-only", "board"], { env: one.env })).out).toContain(file);
});

test("on no branch a sync commits nothing", async () => {
	const { one } = await twoMachines();
	const { file } = one.board.create({ title: "Cache", author: "alice" });
	await one.sync();
	await one.ask("checkout", "--quiet", "--detach");
	const head = await one.ask("rev-parse", "HEAD");
	one.board.add(file, { author: "alice", text: "on no branch" });
	expect(await one.xfer("board", "sync")).toMatchObject({ code: 1, out: "", err: expect.stringContaining("branch") });
	expect(await one.ask("rev-parse", "HEAD")).toBe(head);
	await one.ask("checkout", "--quiet", "main");
	expect(await one.xfer("board", "sync")).toMatchObject({ code: 0, out: `committed\t${file}\npushed\torigin\n` });
});

test("Cards that were added to git and are gone again do not stop a sync", async () => {
	const { one } = await twoMachines();
	const made = ["N", "A"].map((flag) => ({ flag, ...one.board.create({ title: "Cache", author: "alice" }) }));
	for (const { flag, file } of made) {
		await one.ask("add", `-${flag}`, "--", file);
		fs.rmSync(path.join(one.directory, file));
	}
	const { file } = one.board.create({ title: "Other", author: "alice" });
	expect(await one.xfer("board", "sync")).toMatchObject({ code: 0, out: expect.stringContaining(`committed\t${file}\n`) });
	expect(await one.ask("status", "--porcelain")).toBe("");
});

test("a Board that is a symlink is synced where it leads", async () => {
	const { one, two, url } = await twoMachines();
	const three = machine("three");
	fs.mkdirSync(three.root, { recursive: true });
	fs.symlinkSync(tempDir(), three.directory);
	await initBoard(three.board, url);
	const { file } = three.board.create({ title: "Cache", author: "alice" });
	expect(await three.xfer("board", "sync")).toMatchObject({ code: 0, out: `committed\t${file}\npushed\torigin\n` });
	await settle(one, two);
	expect(cardsOf(one)).toEqual(cardsOf(three));
});

test("settings that a user has for git change nothing", async () => {
	const { one, two } = await twoMachines();
	const settings = `[core]
	autocrlf = true
	safecrlf = true
	quotePath = true
	excludesFile = ~/ignored
[status]
	showUntrackedFiles = no
	relativePaths = true
	short = true
[color]
	ui = always
[commit]
	verbose = true
	template = /nowhere
	cleanup = scissors
[push]
	default = nothing
	followTags = true
[fetch]
	prune = true
[diff]
	renames = copies
	noprefix = true
	external = false
[merge]
	ff = only
	conflictStyle = diff3
[pull]
	rebase = true
[branch]
	autoSetupRebase = always
[alias]
	commit = "!false"
[init]
	defaultBranch = trunk
[user]
	useConfigOnly = true
`;
	for (const { env } of [one, two]) fs.writeFileSync(path.join(String(env.HOME), ".gitconfig"), settings);
	const { file } = one.board.create({ title: "Café", author: "alice", text: "crlf\r\nlf\n" });
	one.board.add(file, { author: "alice", text: "a\r\nb\n# c" });
	const before = one.read(file);
	expect(await one.xfer("board", "sync")).toMatchObject({ code: 0, out: `committed\t${file}\npushed\torigin\n`, err: "" });
	expect(await two.xfer("board", "sync")).toMatchObject({ code: 0, out: `merged\t${file}\n` });
	expect(two.read(file)).toBe(before);
	for (const at of [one, two]) at.board.add(file, { author: at.host, text: `by\r\n${at.host}` });
	expect(await one.xfer("board", "sync")).toMatchObject({ code: 0 });
	expect(await two.xfer("board", "sync")).toMatchObject({ code: 0, out: `committed\t${file}\nmerged\t${file}\npushed\torigin\n` });
	expect(await one.xfer("board", "sync")).toMatchObject({ code: 0, out: `merged\t${file}\n` });
	expect(cardsOf(one)).toEqual(cardsOf(two));
	expect(textsOf(one, file).sort()).toEqual(["a\r\nb\n# c", "by\r\none", "by\r\ntwo"]);
	expect(await one.ask("status", "--porcelain")).toBe("");
});

test("a commit that git refuses is told with git's words, and the next sync goes on", async () => {
	const { one } = await twoMachines();
	const { file } = one.board.create({ title: "Cache", author: "alice" });
	const hook = script(path.join(one.directory, ".git/hooks/pre-commit"), "echo 'no commits today' >&2; exit 1");
	expect(await one.xfer("board", "sync")).toMatchObject({ code: 1, out: "", err: expect.stringContaining("no commits today") });
	fs.rmSync(hook);
	expect(await one.xfer("board", "sync")).toMatchObject({ code: 0, out: `committed\t${file}\npushed\torigin\n` });
});

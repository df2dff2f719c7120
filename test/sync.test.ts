import fs from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { initBoard, isRepository } from "../lib/index.ts";
import { run } from "./helpers.ts";
import { cardsOf, expectSame, machine, remote, settle, textsOf, twoMachines, withGit } from "./machine.ts";

withGit();

test("init makes the Board a repository, with the merge driver and what git shall know of Cards", async () => {
	const one = machine("one");
	expect(await one.xfer("board", "init")).toMatchObject({ code: 0, out: `initialized\t${one.directory}\n` });
	expect(isRepository(one.board)).toBe(true);
	expect(one.read(".gitignore")).toBe(".locks/\n");
	expect(one.read(".gitattributes")).toBe("*.md -text merge=xfer\n");
	expect(await one.ask("config", "--local", "merge.xfer.driver")).toBe("xfer board merge-driver %O %A %B");
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
		notes: [],
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
	expect(textsOf(one, file)).toEqual(["there", "here"]);
	expect(await one.ask("show", "--format=", "--name-only", "HEAD^1")).toBe(file);
	await two.sync();
	expect(await two.ask("ls-files")).toBe(await one.ask("ls-tree", "-r", "--name-only", "HEAD"));
});

/** Merging by git itself, with our driver and without it, and what sync makes of that. */
import fs from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { initBoard, openBoard, openTree, parseCard } from "../../lib/index.ts";
import { ls, run, tempDir } from "../helpers.ts";
import { cardsOf, expectSame, type Machine, machine, remote, script, settle, textsOf, twoMachines, withGit } from "../machine.ts";

withGit();

const code = Array.from({ length: 30 }, (_, n) => `\tif (line[${n}] === undefined) return ${n};`).join("\n");

/** A merge by git of both directions, from two branches of one repository; the trees that come of them. */
async function bothWays(at: Machine, a: string, b: string): Promise<[string, string]> {
	const trees: string[] = [];
	for (const [into, from] of [
		[a, b],
		[b, a],
	] as const) {
		await at.ask("checkout", "--quiet", "--detach", into);
		await at.ask("merge", "--quiet", "--no-edit", from);
		trees.push(await at.ask("rev-parse", "HEAD^{tree}"));
	}
	return trees as [string, string];
}

test("git merges Cards with the driver: A into B is B into A, byte for byte, and the same as sync", async () => {
	const { one, two } = await twoMachines();
	const cache = one.board.create({ title: "Cache", author: "alice", text: "Introduction\n" });
	const tests = one.board.create({ title: "Tests", author: "alice" });
	one.board.add(cache.file, { author: "alice", text: code });
	await settle(one, two);
	// On both sides: Entries with the same lines, edits of one key and of different ones, the introduction, what is typed by hand, a Card of one title.
	for (const [at, name] of [
		[one, "alice"],
		[two, "carol"],
	] as const) {
		at.board.add(cache.file, { author: name, text: `${code}\nof ${name}` });
		await at.board.edit(cache.file, { title: `Cache of ${name}`, [name]: "x" });
		at.write(cache.file, at.read(cache.file).replace("Introduction", `Introduction of ${name}`));
		fs.appendFileSync(path.join(at.directory, cache.file), `\n### finding · ${name}\n\nby hand\n`);
		at.board.add(tests.file, { author: name, text: "no newline" });
		at.board.create({ title: "Same title", author: name });
		await at.ask("add", "--all");
		await at.ask("commit", "--quiet", "-m", name);
	}
	await one.ask("fetch", "--quiet", two.directory, "main:theirs");
	const [a, b] = await bothWays(one, "main", "theirs");
	expect(a).toBe(b);
	await one.ask("checkout", "--quiet", "main");
	await settle(two, one);
	await expectSame(one, two);
	expect(await one.ask("rev-parse", "HEAD^{tree}")).toBe(a);
	const texts = textsOf(one, cache.file);
	expect(texts.filter((text) => text.startsWith(code)).sort()).toEqual([code, `${code}\nof alice`, `${code}\nof carol`].sort());
	expect(texts.filter((text) => text === "by hand").length).toBe(2);
	for (const what of ["Cache of alice", "Cache of carol", "Introduction of alice", "Introduction of carol", "alice: x", "carol: x"])
		expect(one.read(cache.file)).toContain(what);
});

/** Three Cards that are alike but for their id, on both machines; one purges the first and makes one more, two makes one more and adds to all. */
async function similarCards() {
	const { one, two } = await twoMachines();
	const make = (at: Machine, author: string) => {
		const card = at.board.create({ title: "Cache layer", author, text: `${code}\n` });
		at.board.add(card.file, { author, text: code });
		return card;
	};
	const made = [1, 2, 3].map(() => make(one, "alice"));
	const [purged, renamed, kept] = made as [(typeof made)[0], (typeof made)[0], (typeof made)[0]];
	await settle(one, two);
	await one.board.purge(purged.file);
	const fresh = make(one, "alice");
	const other = make(two, "carol");
	for (const { file, id } of made) two.board.add(file, { author: "carol", text: `to ${id}` });
	return { one, two, purged, renamed, kept, fresh, other };
}

test("of similar Cards one is purged and another renamed by hand: a sync puts nothing into another Card", async () => {
	const { one, two, purged, renamed, kept, fresh, other } = await similarCards();
	fs.renameSync(path.join(one.directory, renamed.file), path.join(one.directory, "moved.md"));
	await one.sync();
	await settle(two, one);
	await expectSame(one, two);
	expect(one.board.files()).toEqual([purged.file, renamed.file, kept.file, fresh.file, other.file, "moved.md"].sort());
	for (const { file, id } of [purged, renamed, kept]) expect(textsOf(one, file)).toEqual([code, `to ${id}`]);
	for (const file of [fresh.file, other.file, "moved.md"]) expect(textsOf(one, file)).toEqual([code]);
});

test("of similar Cards one is purged: a git pull with the driver, and the sync after it, put nothing into another Card", async () => {
	const { one, two, purged, renamed, kept, fresh, other } = await similarCards();
	for (const at of [one, two]) {
		await at.ask("add", "--all");
		await at.ask("commit", "--quiet", "-m", "mine");
	}
	await one.ask("push", "--quiet", "origin", "main");
	// A Card that was deleted here and changed there is for a person to settle; sync keeps it.
	expect(await two.git("pull", "--quiet", "--no-rebase", "--no-edit", "origin", "main")).toMatchObject({ code: 1 });
	await settle(two, one);
	await expectSame(one, two);
	expect(one.board.files()).toEqual([purged.file, renamed.file, kept.file, fresh.file, other.file].sort());
	for (const { file, id } of [purged, renamed, kept]) expect(textsOf(one, file)).toEqual([code, `to ${id}`]);
	for (const file of [fresh.file, other.file]) expect(textsOf(one, file)).toEqual([code]);
});

test("what one purges and nobody else has changed is gone everywhere", async () => {
	const { one, two } = await twoMachines();
	const { file } = one.board.create({ title: "Cache", author: "alice" });
	const kept = one.board.create({ title: "Cache", author: "alice" });
	await settle(one, two);
	await one.board.purge(file);
	two.board.add(kept.file, { author: "carol", text: "more" });
	await settle(one, two);
	await expectSame(one, two);
	expect(two.board.files()).toEqual([kept.file]);
});

test("two machines that began by themselves share a remote: each has all Cards of both, also one of the same name", async () => {
	const url = await remote();
	const [one, two] = [machine("one"), machine("two")];
	const files: string[] = [];
	for (const at of [one, two]) {
		await initBoard(at.board);
		at.write(".gitignore", `.locks/\n${at.host}.tmp\n`);
		files.push(at.board.create({ title: "Mine", author: at.host, text: `of ${at.host}` }).file);
		at.write("shared.md", `---\nid: aaaaaa\ntitle: Of ${at.host}\n---\n`);
		at.board.add("shared.md", { author: at.host, text: `by ${at.host}` });
		await at.sync();
		await initBoard(at.board, url);
	}
	await settle(one, two);
	await expectSame(one, two);
	expect(one.board.files()).toEqual([...files, "shared.md"].sort());
	expect(textsOf(one, "shared.md")).toEqual(expect.arrayContaining(["by one", "by two"]));
	for (const at of [one, two]) {
		expect(at.read("shared.md")).toContain("Of one");
		expect(at.read("shared.md")).toContain("Of two");
		expect(at.read(".gitignore").trim().split("\n").sort()).toEqual([".locks/", "one.tmp", "two.tmp"]);
	}
});

test.each(["git", "sync"])("criss-cross merges, where there is more than one common ancestor, lose nothing by %s", async (how) => {
	const { one, two } = await twoMachines();
	const { file } = one.board.create({ title: "Cache", author: "alice", text: "Introduction\n" });
	await settle(one, two);
	const act = async (at: Machine, round: number) => {
		at.board.add(file, { author: at.host, text: `${code} ${round} ${at.host}` });
		await at.board.edit(file, { [`of-${at.host}`]: `${round}`, both: `${round} ${at.host}` });
		await at.ask("commit", "--quiet", "--all", "-m", `${round}`);
	};
	for (let round = 0; round < 3; round++) {
		for (const at of [one, two]) await act(at, round);
		// Each merges what the other had before it merged.
		const [a, b] = [await one.ask("rev-parse", "HEAD"), await two.ask("rev-parse", "HEAD")];
		await one.ask("fetch", "--quiet", two.directory, b);
		await two.ask("fetch", "--quiet", one.directory, a);
		await one.ask("merge", "--quiet", "--no-edit", b);
		await two.ask("merge", "--quiet", "--no-edit", a);
		expect(await one.ask("rev-parse", "HEAD^{tree}")).toBe(await two.ask("rev-parse", "HEAD^{tree}"));
	}
	for (const at of [one, two]) await act(at, 3);
	expect((await one.ask("merge-base", "--all", "HEAD", "HEAD")).split("\n").length).toBe(1);
	if (how === "git") {
		await one.ask("fetch", "--quiet", two.directory, "main:theirs");
		expect((await one.ask("merge-base", "--all", "main", "theirs")).split("\n").length).toBe(2);
		const [a, b] = await bothWays(one, "main", "theirs");
		expect(a).toBe(b);
		await one.ask("checkout", "--quiet", "main");
	}
	await settle(one, two);
	await expectSame(one, two);
	const expected = [0, 1, 2, 3].flatMap((round) => [one, two].map(({ host }) => `${code} ${round} ${host}`));
	expect(textsOf(one, file).filter((text) => text.startsWith(code))).toEqual(expected);
	for (const at of [one, two]) expect(one.read(file)).toContain(`of-${at.host}: "3"`);
	for (const at of [one, two]) expect(one.read(file)).toContain(`both: 3 ${at.host}`);
});

/** A merge by git without our driver, as in a clone that was not initialized: both sides stand between markers. */
async function withoutDriver(style?: string): Promise<{ one: Machine; two: Machine; file: string }> {
	const { one, two, url } = await twoMachines();
	const { file } = one.board.create({ title: "Cache", author: "alice", text: "Introduction\n" });
	one.board.add(file, { author: "alice", text: "before" });
	await settle(one, two);
	fs.rmSync(two.directory, { recursive: true });
	fs.mkdirSync(two.directory);
	await two.ask("clone", "--quiet", url, ".");
	if (style) await two.ask("config", "merge.conflictStyle", style);
	for (const at of [one, two]) {
		at.board.add(file, { author: at.host, text: `${code}\nby ${at.host}` });
		await at.board.edit(file, { title: `Of ${at.host}` });
	}
	await one.sync();
	await two.ask("commit", "--quiet", "--all", "-m", "mine");
	expect(await two.git("pull", "--quiet", "--no-rebase", "--no-edit", "origin", "main")).toMatchObject({ code: 1 });
	expect(two.read(file)).toMatch(/^<{7} /m);
	return { one, two, file };
}

test.each([undefined, "diff3"])("a merge that git left (%s): every reader says so and shows both sides", async (style) => {
	const { two, file } = await withoutDriver(style);
	const bytes = two.read(file);
	const show = await two.xfer("board", "show", file);
	expect(show).toMatchObject({ code: 0, err: expect.stringContaining("board repair") });
	const json = JSON.parse((await two.xfer("board", "show", file, "--json")).out);
	expect(json.warnings).toContain("conflict");
	const list = await two.xfer("board", "list");
	expect(list.err).toContain(file);
	const all = json.entries.map(({ text }: { text: string }) => text);
	expect(all).toEqual(expect.arrayContaining(["before", `${code}\nby one`, `${code}\nby two`]));
	for (const title of ["Of one", "Of two"]) expect(show.out).toContain(title);
	expect(two.read(file)).toBe(bytes);
	// One may go on all the same.
	expect(await two.xfer("board", "add", file, "meanwhile")).toMatchObject({ code: 0 });
	expect(await two.xfer("board", "edit", file, "--title", "x")).toMatchObject({
		code: 1,
		out: "",
		err: expect.stringContaining("board repair"),
	});
	expect(JSON.parse((await two.xfer("board", "show", file, "--json")).out).entries.length).toBe(json.entries.length + 1);
});

test.each([
	[undefined, "repair"],
	["diff3", "repair"],
	[undefined, "sync"],
	["diff3", "sync"],
])("a merge that git left (%s) is united by %s, with what was added since", async (style, how) => {
	const { one, two, file } = await withoutDriver(style);
	two.board.add(file, { author: "bob", text: "meanwhile" });
	if (how === "repair") {
		expect(await two.xfer("board", "repair", file)).toMatchObject({ code: 0, out: `repaired\t${file}\n` });
		expect(two.read(file)).not.toMatch(/^[<=>|]{7}/m);
		expect(await two.xfer("board", "repair", file)).toMatchObject({ code: 0, out: "" });
	}
	const done = await two.xfer("board", "sync");
	expect(done).toMatchObject({ code: 0 });
	expect(await two.git("rev-parse", "--verify", "--quiet", "MERGE_HEAD")).toMatchObject({ code: 1 });
	await settle(two, one);
	await expectSame(one, two);
	const texts = textsOf(one, file);
	for (const text of ["before", `${code}\nby one`, `${code}\nby two`, "meanwhile"])
		expect(
			texts.filter((each) => each === text),
			text,
		).toEqual([text]);
	for (const title of ["Of one", "Of two"]) expect(one.read(file)).toContain(title);
	expect(parseCard(Buffer.from(one.read(file), "latin1")).warnings).toEqual([]);
});

test("a driver that can't be run leaves a conflict, which sync settles with both sides", async () => {
	const { one, two } = await twoMachines();
	const { file } = one.board.create({ title: "Cache", author: "alice" });
	await settle(one, two);
	for (const at of [one, two]) at.board.add(file, { author: at.host, text: `by ${at.host}` });
	await one.sync();
	await two.ask("commit", "--quiet", "--all", "-m", "mine");
	await two.ask("config", "merge.xfer.driver", "/nowhere/xfer board merge-driver %O %A %B");
	expect((await two.git("pull", "--quiet", "--no-rebase", "--no-edit", "origin", "main")).code).not.toBe(0);
	expect(await two.xfer("board", "sync")).toMatchObject({ code: 0 });
	await settle(two, one);
	await expectSame(one, two);
	expect(textsOf(one, file).sort()).toEqual(["by one", "by two"]);
});

test("what is staged during a merge that git left is not committed with it", async () => {
	const { one, two } = await twoMachines();
	const { file } = one.board.create({ title: "Cache", author: "alice" });
	await settle(one, two);
	await two.ask("config", "merge.xfer.driver", "false");
	for (const at of [one, two]) at.board.add(file, { author: at.host, text: `by ${at.host}` });
	one.write("theirs.txt", "of one\n");
	await one.ask("add", "theirs.txt");
	await one.ask("commit", "--quiet", "-m", "others");
	await one.sync();
	await two.ask("commit", "--quiet", "--all", "-m", "mine");
	expect((await two.git("pull", "--quiet", "--no-rebase", "--no-edit", "origin", "main")).code).not.toBe(0);
	two.write("mine.txt", "staged\n");
	await two.ask("add", "mine.txt");
	const done = await two.xfer("board", "sync");
	expect(await two.ask("ls-tree", "-r", "--name-only", "HEAD")).not.toContain("mine.txt");
	expect(await two.ask("diff", "--cached", "--name-only", "--", "mine.txt")).toBe("mine.txt");
	// Either it can, or it says that it can't.
	if (done.code !== 0) {
		expect(done).toMatchObject({ code: 1, out: "", err: expect.stringContaining("mine.txt") });
		await two.ask("rm", "--quiet", "--cached", "mine.txt");
		expect(await two.xfer("board", "sync")).toMatchObject({ code: 0 });
	}
	await settle(one, two);
	expect(textsOf(one, file).sort()).toEqual(["by one", "by two"]);
	expect(one.board.files()).toEqual(two.board.files());
	expect(two.read("theirs.txt")).toBe("of one\n");
});

test.each(["pulled by git", "left by git, and settled by a sync"])("a mention in what was %s is told", async (how) => {
	const { one, two } = await twoMachines();
	two.tree.join("bob");
	const { file } = one.board.create({ title: "Cache", author: "alice" });
	await settle(one, two);
	one.board.add(file, { author: "alice", text: "@bob look" });
	await one.sync();
	if (how !== "pulled by git") {
		await two.ask("config", "merge.xfer.driver", "false");
		two.board.add(file, { author: "two", text: "meanwhile" });
		await two.ask("commit", "--quiet", "--all", "-m", "mine");
	}
	await two.git("pull", "--quiet", "--no-rebase", "--no-edit", "origin", "main");
	expect(await two.xfer("board", "sync")).toMatchObject({ code: 0 });
	expect(ls(two.root, "nodes/bob/new").length).toBe(1);
	expect(await two.xfer("board", "sync")).toMatchObject({ code: 0 });
	expect(ls(two.root, "nodes/bob/new").length).toBe(1);
});

test("git took two Cards for one, in a clone without our settings: sync mixes nothing, says what to do, and that works", async () => {
	const { one, two, purged, renamed, kept, fresh, other } = await similarCards();
	await two.ask("config", "--unset", "pull.twohead");
	await two.ask("config", "--unset", "merge.renames");
	for (const at of [one, two]) {
		await at.ask("add", "--all");
		await at.ask("commit", "--quiet", "-m", "mine");
	}
	await one.ask("push", "--quiet", "origin", "main");
	expect(await two.git("pull", "--quiet", "--no-rebase", "--no-edit", "origin", "main")).toMatchObject({ code: 1 });
	const done = await two.xfer("board", "sync");
	expect(done).toMatchObject({ code: 1, out: "", err: expect.stringContaining("git merge --abort") });
	await two.ask("merge", "--abort");
	await settle(two, one);
	await expectSame(one, two);
	expect(one.board.files()).toEqual([purged.file, renamed.file, kept.file, fresh.file, other.file].sort());
	for (const { file, id } of [purged, renamed, kept]) expect(textsOf(one, file)).toEqual([code, `to ${id}`]);
	for (const file of [fresh.file, other.file]) expect(textsOf(one, file)).toEqual([code]);
});

test("a rebase by git with the driver unites as a merge does", async () => {
	const { one, two } = await twoMachines();
	const { file } = one.board.create({ title: "Cache", author: "alice" });
	await settle(one, two);
	for (const at of [one, two]) at.board.add(file, { author: at.host, text: `${code}\nby ${at.host}` });
	await one.sync();
	await two.ask("commit", "--quiet", "--all", "-m", "mine");
	await two.ask("pull", "--quiet", "--rebase", "origin", "main");
	await settle(one, two);
	await expectSame(one, two);
	expect(textsOf(one, file).sort()).toEqual([`${code}\nby one`, `${code}\nby two`]);
});

test("a remote of which the history was rewritten loses nothing that is here", async () => {
	const { one, two } = await twoMachines();
	const { file } = one.board.create({ title: "Cache", author: "alice" });
	one.board.add(file, { author: "alice", text: "first" });
	await settle(one, two);
	one.board.add(file, { author: "alice", text: "second" });
	await settle(one, two);
	await one.ask("reset", "--quiet", "--hard", "HEAD~1");
	await one.ask("push", "--quiet", "--force", "origin", "main");
	await settle(two, one);
	await expectSame(one, two);
	expect(textsOf(one, file)).toEqual(["first", "second"]);
});

test("two Cards that are renamed to one name on two machines are both there, in one", async () => {
	const { one, two } = await twoMachines();
	const a = one.board.create({ title: "Cache", author: "alice" });
	const b = one.board.create({ title: "Cache", author: "alice" });
	one.board.add(a.file, { author: "alice", text: "in a" });
	one.board.add(b.file, { author: "alice", text: "in b" });
	await settle(one, two);
	fs.renameSync(path.join(one.directory, a.file), path.join(one.directory, "same.md"));
	fs.renameSync(path.join(two.directory, b.file), path.join(two.directory, "same.md"));
	await settle(one, two);
	await expectSame(one, two);
	expect(textsOf(one, "same.md")).toEqual(expect.arrayContaining(["in a", "in b"]));
});

test("after criss-cross merges a sync takes the new value of a key that only one side has changed", async () => {
	const { one, two } = await twoMachines();
	const { file } = one.board.create({ title: "Cache", author: "alice" });
	await settle(one, two);
	for (const at of [one, two]) {
		await at.board.edit(file, { [`of-${at.host}`]: "later" });
		await at.ask("commit", "--quiet", "--all", "-m", "first");
	}
	const [a, b] = [await one.ask("rev-parse", "HEAD"), await two.ask("rev-parse", "HEAD")];
	await one.ask("fetch", "--quiet", two.directory, b);
	await two.ask("fetch", "--quiet", one.directory, a);
	await one.ask("merge", "--quiet", "--no-edit", b);
	await two.ask("merge", "--quiet", "--no-edit", a);
	for (const at of [one, two]) await at.board.edit(file, { [`of-${at.host}`]: "earlier" });
	await settle(one, two);
	await expectSame(one, two);
	for (const at of [one, two]) expect(one.read(file)).toContain(`of-${at.host}: earlier`);
	expect(textsOf(one, file)).toEqual([]);
});

test("a conflict in what is no Card is left to the user, and loses nothing", async () => {
	const { one, two } = await twoMachines();
	const { file } = one.board.create({ title: "Cache", author: "alice" });
	for (const at of [one, two]) {
		at.write("plan.txt", `of ${at.host}\n`);
		await at.ask("add", "plan.txt");
		await at.ask("commit", "--quiet", "-m", "plan");
	}
	await one.sync();
	two.board.create({ title: "Other", author: "two" });
	const done = await two.xfer("board", "sync");
	expect(done).toMatchObject({ code: 1, out: "", err: expect.stringContaining("plan.txt") });
	expect(two.read("plan.txt")).toBe("of two\n");
	// As the message says: merge it, settle it, sync again.
	expect(await two.git("merge", "--quiet", "--no-edit", "origin/main")).toMatchObject({ code: 1 });
	const again = await two.xfer("board", "sync");
	expect(again).toMatchObject({ code: 1, out: "", err: expect.stringContaining("plan.txt") });
	two.write("plan.txt", "of both\n");
	await two.ask("add", "plan.txt");
	expect(await two.xfer("board", "sync")).toMatchObject({ code: 0 });
	await settle(one, two);
	await expectSame(one, two);
	expect(one.read("plan.txt")).toBe("of both\n");
	expect(one.board.files()).toContain(file);
});

test("a merge driver refuses two Cards that git took for one", async () => {
	const { one } = await twoMachines();
	const directory = tempDir();
	const files = ["base", "ours", "theirs"].map((name) => path.join(directory, name));
	const [base, ours, theirs] = files as [string, string, string];
	fs.writeFileSync(base, "---\nid: aaaaaa\ntitle: A\n---\n");
	fs.writeFileSync(ours, "---\nid: aaaaaa\ntitle: A\n---\n\nours\n");
	fs.writeFileSync(theirs, "---\nid: bbbbbb\ntitle: B\n---\n\ntheirs\n");
	expect(await one.xfer("board", "merge-driver", base, ours, theirs)).toMatchObject({
		code: 1,
		out: "",
		err: expect.stringContaining("merge.renames"),
	});
	expect(fs.readFileSync(ours, "utf8")).toContain("ours");
});

test("a rejected push is repeated after what came in between was merged", async () => {
	const { one, two } = await twoMachines();
	const { file } = one.board.create({ title: "Cache", author: "alice" });
	await settle(one, two);
	// Each of the first three pushes of one finds that two was faster.
	const count = path.join(tempDir(), "count");
	script(
		path.join(one.directory, ".git/hooks/pre-push"),
		`unset $(git rev-parse --local-env-vars)
		echo >>${count}
		test $(wc -l <${count}) -gt 3 && exit 0
		export HOME=${two.env.HOME} XFER_HOME=${two.root}
		xfer board add ${file} "faster $(wc -l <${count})" --as carol >/dev/null && xfer board sync --as carol >/dev/null`,
	);
	one.board.add(file, { author: "alice", text: "slower" });
	expect(await one.xfer("board", "sync")).toMatchObject({ code: 0, out: `committed\t${file}\nmerged\t${file}\npushed\torigin\n` });
	expect(fs.readFileSync(count, "utf8").length).toBe(4);
	await settle(one, two);
	await expectSame(one, two);
	expect(textsOf(one, file).sort()).toEqual(["faster 1", "faster 2", "faster 3", "slower"]);
	// Nothing was ever forced: what two pushed is in the history.
	expect(await one.ask("log", "--format=%an", "--", file)).toContain("carol");
});

test("many machines that sync at once all succeed", async () => {
	const url = await remote();
	const all = ["a", "b", "c", "d"].map((host) => machine(host));
	for (const each of all) await initBoard(each.board, url);
	await settle(...all);
	const { file } = all[0]?.board.create({ title: "Cache", author: "a" }) ?? { file: "" };
	await settle(...all);
	for (let round = 0; round < 2; round++)
		await Promise.all(
			all.map(async (each) => {
				each.board.add(file, { author: each.host, text: `${each.host} ${round}` });
				await each.sync();
			}),
		);
	await settle(...all);
	await expectSame(...all);
	expect(textsOf(all[0] as Machine, file).sort()).toEqual(all.flatMap(({ host }) => [`${host} 0`, `${host} 1`]).sort());
});

test("the same Board by git alone: clone, init, pull and push", async () => {
	const { one, two, url } = await twoMachines();
	const { file } = one.board.create({ title: "Cache", author: "alice" });
	await settle(one, two);
	const three = machine("three");
	fs.mkdirSync(three.root, { recursive: true });
	expect(await run(["git", "clone", "--quiet", url, three.directory], { env: three.env })).toMatchObject({ code: 0 });
	expect(await three.xfer("board", "init")).toMatchObject({ code: 0 });
	expect(await three.ask("status", "--porcelain")).toBe("");
	for (const at of [one, three]) at.board.add(file, { author: at.host, text: `${code}\nby ${at.host}` });
	await one.sync();
	await three.ask("commit", "--quiet", "--all", "-m", "mine");
	await three.ask("pull", "--quiet", "--no-rebase", "--no-edit");
	await three.ask("push", "--quiet");
	await settle(one, two);
	expect(cardsOf(three)).toEqual(cardsOf(one));
	expect(textsOf(two, file).sort()).toEqual([`${code}\nby one`, `${code}\nby three`]);
	expect(openBoard(openTree({ root: three.root })).files()).toEqual([file]);
});

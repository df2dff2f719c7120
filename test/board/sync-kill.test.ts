/** Syncs while others write, and syncs that are killed. */
import fs from "node:fs";
import path from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { cli, ls, run, start, tempDir, until } from "../helpers.ts";
import { expectSame, type Machine, script, settle, textsOf, twoMachines, withGit } from "../machine.ts";

withGit();

/** One writer each on both machines: Entries by the CLI, `>>`, and new Cards, until it is told to end. What was acknowledged is given. */
function writer(at: Machine, files: readonly string[], ended: () => boolean): Promise<{ file: string; text: string }[]> {
	const done: { file: string; text: string }[] = [];
	const work = async () => {
		for (let n = 0; !ended(); n++) {
			const file = files[n % files.length] ?? "";
			const text = `${at.host} ${n}`;
			if (n % 5 === 4) {
				const made = await at.xfer("board", "new", text, `introduction ${text}`);
				expect(made).toMatchObject({ code: 0 });
				done.push({ file: path.basename(made.out.trim().split("\t")[1] ?? ""), text: `introduction ${text}` });
				continue;
			}
			expect(await at.xfer("board", "add", file, text)).toMatchObject({ code: 0 });
			done.push({ file, text });
		}
		return done;
	};
	return work();
}

test("what others add all the while, on both machines, is lost by no sync", async () => {
	const { one, two } = await twoMachines();
	const files = [1, 2].map((n) => one.board.create({ title: `Card ${n}`, author: "one" }).file);
	await settle(one, two);
	let syncs = 0;
	const ended = () => syncs >= 14;
	const writing = [one, two].flatMap((at) => [writer(at, files, ended), appender(at, files, ended)]);
	await Promise.all(
		[one, two].map(async (at) => {
			while (!ended()) {
				expect(await at.xfer("board", "sync")).toMatchObject({ code: 0 });
				syncs++;
			}
		}),
	);
	const written = (await Promise.all(writing)).flat();
	await settle(one, two);
	await expectSame(one, two);
	for (const { file, text } of written) expect(one.read(file).split(`\n${text}\n`).length, `${text} in ${file}`).toBe(2);
	expect(written.length).toBeGreaterThan(30);
});

/** Appends in this process, as fast as a sync gives way. */
async function appender({ board, host }: Machine, files: readonly string[], ended: () => boolean) {
	const done: { file: string; text: string }[] = [];
	for (let n = 0; !ended(); n++) {
		const file = files[n % files.length] ?? "";
		const text = `${host} appends ${n}`;
		board.add(file, { author: host, text });
		done.push({ file, text });
		await new Promise((resolve) => setTimeout(resolve, 30));
	}
	return done;
}

test("what is added to a Card while a sync is about to delete it, is not deleted", async () => {
	const { one, two } = await twoMachines();
	const { file } = one.board.create({ title: "Cache", author: "alice" });
	await settle(one, two);
	await one.board.purge(file);
	await one.sync();
	// Somebody edits the Card just now, and the sync waits.
	const lock = path.join(two.directory, ".locks", `${file}.lock`);
	fs.mkdirSync(lock, { recursive: true });
	const syncing = two.xfer("board", "sync");
	const origin = async () => (await two.git("rev-parse", "origin/main")).out;
	const before = await origin();
	await until(async () => (await origin()) !== before, "the fetch");
	let waits = 0;
	await until(() => ++waits > 40, "the sync to wait"); // nothing shows it: it has half a second
	const adding = await two.xfer("board", "add", file, "in between");
	expect(adding).toMatchObject({ code: 0 });
	fs.rmdirSync(lock);
	expect(await syncing).toMatchObject({ code: 0 });
	await settle(two, one);
	await expectSame(one, two);
	expect(two.board.files()).toEqual([file]);
	expect(textsOf(one, file)).toEqual(["in between"]);
});

test("two syncs of one Board at once spoil nothing", async () => {
	const { one, two } = await twoMachines();
	const files = [1, 2, 3].map((n) => one.board.create({ title: `Card ${n}`, author: "one" }).file);
	await settle(one, two);
	for (let round = 0; round < 3; round++) {
		for (const file of files) for (const at of [one, two]) at.board.add(file, { author: at.host, text: `${round} ${at.host}` });
		await one.sync();
		const all = await Promise.all([1, 2, 3].map(() => two.xfer("board", "sync")));
		// One may find git's lock, or HEAD moved: then it says so with git's words.
		for (const { code, err } of all) if (code !== 0) expect(err).toMatch(/^xfer: git /);
		expect(all.some(({ code }) => code === 0)).toBe(true);
	}
	await settle(two, one);
	await expectSame(one, two);
	const expected = [0, 1, 2].flatMap((round) => [`${round} one`, `${round} two`]);
	for (const file of files) expect(textsOf(one, file).sort()).toEqual(expected);
});

/** Changes of all kinds on both sides, of which the one is pushed and the other is not committed yet; in what is no Card, too. */
async function changed() {
	const { one, two } = await twoMachines();
	const make = (title: string) => one.board.create({ title, author: "one" }).file;
	const [both, here, there, gone] = [make("Both"), make("Here"), make("There"), make("Gone")];
	one.write("plan.txt", "first\n");
	one.write("old.txt", "old\n");
	await one.ask("add", "plan.txt", "old.txt");
	await one.ask("commit", "--quiet", "-m", "others");
	await settle(one, two);
	one.board.add(both, { author: "one", text: "by one" });
	await one.board.edit(both, { title: "Of one" });
	one.board.add(there, { author: "one", text: "by one" });
	await one.board.purge(gone);
	const fresh = one.board.create({ title: "Fresh", author: "one" }).file;
	one.write("plan.txt", "second\n");
	one.write("new.txt", "new\n");
	await one.ask("add", "plan.txt", "new.txt");
	await one.ask("rm", "--quiet", "old.txt");
	await one.ask("commit", "--quiet", "-m", "others");
	await one.sync();
	two.board.add(both, { author: "two", text: "by two" });
	await two.board.edit(both, { title: "Of two" });
	two.board.add(here, { author: "two", text: "by two" });
	const mine = two.board.create({ title: "Mine", author: "two" }).file;
	const check = async () => {
		expect(await two.xfer("board", "sync")).toMatchObject({ code: 0 });
		await settle(two, one);
		await expectSame(one, two);
		expect(one.board.files()).toEqual([both, here, there, fresh, mine].sort());
		expect(textsOf(one, both).filter((text) => text.startsWith("by"))).toEqual(["by one", "by two"]);
		for (const title of ["Of one", "Of two"]) expect(one.read(both)).toContain(title);
		expect(textsOf(one, here)).toEqual(["by two"]);
		expect(textsOf(one, there)).toEqual(["by one"]);
		expect(one.read("plan.txt")).toBe("second\n");
		expect(one.read("new.txt")).toBe("new\n");
		expect(fs.existsSync(path.join(one.directory, "old.txt"))).toBe(false);
	};
	return { one, two, check };
}

/** A `git` in PATH that kills who called it at the nth call, before or after git has done it; it counts the calls. */
function deadly(two: Machine, at: number, when: "before" | "after"): { env: NodeJS.ProcessEnv; calls: () => string[] } {
	const directory = tempDir();
	const log = path.join(directory, "calls");
	const real = "/usr/bin/git";
	script(
		path.join(directory, "git"),
		`echo "$*" | tr '\\n' ' ' >>${log}; echo >>${log}
		test $(wc -l <${log}) -eq ${at} || exec ${real} "$@"
		${when === "after" ? `${real} "$@" >/dev/null` : ""}
		kill -KILL $PPID`,
	);
	const env = { ...two.env, PATH: `${directory}:${process.env.PATH}` };
	return { env, calls: () => fs.readFileSync(log, "utf8").trim().split("\n") };
}

/** Calls of git that change something; one that only looks is killed as well by the one before it or after it. */
const changing = ["add", "commit", "fetch", "hash-object", "mktree", "commit-tree", "update-ref", "update-index", "checkout", "rm", "push"];

test("a sync that is killed at whichever of its calls of git is made good by the next one", async () => {
	const { two, check } = await changed();
	const { env, calls } = deadly(two, 0, "before");
	expect(await run([...cli, "board", "sync"], { env })).toMatchObject({ code: 0 });
	await check();
	const names = calls().map((call) => call.replace(/^(-c \S+ )*/, "").split(" ")[0] ?? "");
	const places = names.flatMap((name, n) => (changing.includes(name) ? [n + 1] : []));
	expect(places.length).toBeGreaterThan(8);
	for (const at of places) {
		const { two, check } = await changed();
		const { env } = deadly(two, at, "after");
		const died = await run([...cli, "board", "sync"], { env });
		expect(died.signal, names[at - 1]).toBe("SIGKILL");
		await check().catch((error) => {
			throw new Error(`killed after call ${at}, git ${names[at - 1]}`, { cause: error });
		});
	}
});

test("a sync that is killed at any moment, ten times, is made good by the next one, and nothing is lost", async () => {
	const { one, two } = await twoMachines();
	const files = [1, 2, 3].map((n) => one.board.create({ title: `Card ${n}`, author: "one" }).file);
	await settle(one, two);
	const written: { file: string; text: string }[] = [];
	for (const [round, after] of fc.sample(fc.integer({ min: 60, max: 900 }), 10).entries()) {
		for (const [n, file] of files.entries())
			for (const at of [one, two]) {
				const text = `${at.host} ${round}`;
				at.board.add(file, { author: at.host, text });
				written.push({ file, text });
				if (n === 0) await at.board.edit(file, { [at.host]: `${round}` });
			}
		await one.sync();
		const child = start([...cli, "board", "sync"], { env: two.env, stdio: "ignore" });
		const end = new Promise((resolve) => child.on("exit", resolve));
		const timer = setTimeout(() => child.kill("SIGKILL"), after);
		await end;
		clearTimeout(timer);
		// What it had started ends by itself.
		await until(() => !fs.existsSync(path.join(two.directory, ".git/index.lock")), "git's end");
		two.board.add(files[1] ?? "", { author: "two", text: `after ${round}` });
		written.push({ file: files[1] ?? "", text: `after ${round}` });
	}
	await until(async () => (await two.xfer("board", "sync")).code === 0, "a sync that succeeds");
	for (const at of [one, two]) {
		// Who looks takes back what a killed one left aside, as soon as its lock is stale.
		await until(async () => {
			await at.board.list();
			return !ls(at.directory, ".locks").some((name) => name.endsWith(".old"));
		}, "what was left aside");
	}
	await settle(one, two);
	await expectSame(one, two);
	for (const { file, text } of written) expect(textsOf(one, file).filter((each) => each === text)).toEqual([text]);
});

import { spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { type ContextOptions, openTree, type Tree } from "../../lib/index.ts";
import { LiveLock } from "../../lib/lock.ts";
import { cli, ls, onTestFinished, run, sh, start, tempDir, tempTree, until } from "../helpers.ts";
import { type Actor, actor, watched } from "./actor.ts";
import type { Command, ContenderOptions } from "./contender.ts";

const shells = ["dash", "busybox"] as const;

/** ms; what is 5 s and 15 s in earnest. */
const lock = { refresh: 300, stale: 2000 };
const now = () => Number(process.hrtime.bigint()) / 1e6;

/** A process that contends for locks as it is told. */
async function contender(env: NodeJS.ProcessEnv, options: ContenderOptions = {}, by: string[] = []) {
	const one = actor("contender.ts", options, env, by);
	const said = (line: string) =>
		until(() => {
			expect(one.errors()).toBe("");
			return one.lines.find((some) => some.startsWith(line));
		}, line);
	const [, pid = "", instance = ""] = (await said("ready ")).split(" ");
	return { ...one, said, tell: (command: Command) => one.tell(command), pid: Number(pid), instance };
}

type Contender = Awaited<ReturnType<typeof contender>>;

/** A tree with so many Nodes. */
function nodes(count: number) {
	const { root, env } = tempTree();
	const tree = openTree({ root, durable: false });
	const names = Array.from({ length: count }, (_, n) => tree.join(`n${n}`).name);
	return { root, env, names, locks: (name: string) => path.join(root, "nodes", name, "live.lock") };
}

interface Held {
	name: string;
	from: number;
	to: number;
}

/** Who is known to have held what, from when to when. */
function heldBy(contenders: readonly Actor[]): Held[] {
	const lines = contenders.flatMap((one) => one.lines.filter((line) => line.startsWith("had ")));
	return lines.map((line) => {
		const [, name = "", from, to] = line.split(" ");
		return { name, from: Number(from), to: Number(to) };
	});
}

/** Nobody held a name before another had let it go, and each name was held by somebody. */
function expectOneAtATime(held: readonly Held[], names: readonly string[]): void {
	const byTime = [...held].sort((a, b) => a.name.localeCompare(b.name) || a.from - b.from);
	expect(byTime.filter(({ name, from }, at) => name === byTime[at - 1]?.name && from < (byTime[at - 1]?.to ?? 0))).toEqual([]);
	expect([...new Set(byTime.map(({ name }) => name))]).toEqual([...names].sort((a, b) => a.localeCompare(b)));
}

/** Lets them contend for these names, for all at once. */
async function contest(contenders: readonly Contender[], names: string[]): Promise<void> {
	const rounds = ({ lines }: Actor) => lines.filter((line) => line === "done").length;
	const before = contenders.map(rounds);
	for (const one of contenders) one.tell({ contend: names });
	await until(() => {
		expect(contenders.map((one) => one.errors()).join("")).toBe("");
		return contenders.every((one, at) => rounds(one) > (before[at] ?? 0));
	}, "the contenders");
}

function batches<T>(all: readonly T[], size: number): T[][] {
	return Array.from({ length: Math.ceil(all.length / size) }, (_, n) => all.slice(n * size, (n + 1) * size));
}

/** A lock that somebody on another host left an hour ago. */
function leaveStale(directory: string): void {
	fs.mkdirSync(directory);
	fs.writeFileSync(path.join(directory, "zzzzzzzz"), "elsewhere pid:[1] 4242\n");
	const old = Date.now() / 1000 - 3600;
	fs.utimesSync(path.join(directory, "zzzzzzzz"), old, old);
}

describe("of 8 contenders in 80 rounds never do two hold", () => {
	const eight = (env: NodeJS.ProcessEnv, options: ContenderOptions) =>
		Promise.all(Array.from({ length: 8 }, () => contender(env, options)));

	test("a fresh lock", async () => {
		const { names, env, locks } = nodes(80);
		const contenders = await eight(env, {});
		for (const batch of batches(names, 8)) await contest(contenders, batch);
		expectOneAtATime(heldBy(contenders), names);
		expect(contenders.flatMap(({ lines }) => lines.filter((line) => line.startsWith("lost ")))).toEqual([]);
		expect(names.filter((name) => fs.existsSync(locks(name)))).toEqual([]);
	});

	test("a stale lock, and nobody does before it was seen to be stale for long enough", async () => {
		const { names, env, locks } = nodes(80);
		const contenders = await eight(env, { lock });
		for (const batch of batches(names, 20)) {
			for (const name of batch) leaveStale(locks(name));
			const began = now();
			await contest(contenders, batch);
			const firsts = heldBy(contenders).filter(({ name }) => batch.includes(name));
			expect(Math.min(...firsts.map(({ from }) => from))).toBeGreaterThanOrEqual(began + lock.stale);
		}
		expectOneAtATime(heldBy(contenders), names);
		expect(names.filter((name) => fs.existsSync(locks(name)))).toEqual([]);
	});

	test("the lock of a suspended process, which finds out and does not steal it back", async () => {
		const { names, env, locks } = nodes(80);
		const holder = await contender(env, { lock });
		holder.tell({ hold: names, check: [] });
		await Promise.all(names.map((name) => holder.said(`holds ${name} `)));
		holder.tell({ check: names });
		await Promise.all(names.map((name) => holder.said(`still ${name} `)));
		holder.kill("SIGSTOP");

		const contenders = await eight(env, { lock });
		for (const batch of batches(names, 20)) await contest(contenders, batch);
		const [last] = contenders as [Contender];
		last.tell({ hold: names.slice(0, 40) }); // half of the names are held when it wakes, half are free
		await Promise.all(names.slice(0, 40).map((name) => last.said(`holds ${name} `)));
		holder.kill("SIGCONT");
		await Promise.all(names.map((name) => holder.said(`lost ${name}`)));
		const own = names.filter((name) => ls(locks(name)).includes(holder.instance));
		expect(own).toEqual([]);

		// It goes on: what is held is refused to it, what is free it gets anew.
		holder.tell({ hold: [names[0] as string, names[79] as string] });
		await holder.said(`refused ${names[0]}`);
		await until(() => holder.lines.filter((line) => line.startsWith(`holds ${names[79]} `)).length === 2, "the name it gets anew");
		last.tell({ check: names.slice(0, 40) });
		await Promise.all(names.slice(0, 40).map((name) => last.said(`still ${name} `)));

		const time = (word: string, name: string) => Number(holder.lines.find((line) => line.startsWith(`${word} ${name} `))?.split(" ")[2]);
		const before = names.map((name): Held => ({ name, from: time("holds", name), to: time("still", name) }));
		expectOneAtATime([...heldBy(contenders), ...before], names);
	});
});

/** alice, as seen by this process: on a clock that stands still nothing ever becomes stale. */
function alice(options: ContextOptions = {}) {
	const { root, env } = tempTree();
	const tree = openTree({ root, durable: false });
	const { directory } = tree.join("alice");
	const seenBy = (more: ContextOptions = {}): Tree => openTree({ root, durable: false, ...options, ...more });
	/** Acquires alice's lock as another instance. */
	const acquire = (more: ContextOptions = {}) => LiveLock.acquire(seenBy(more).context, directory);
	return { root, env, directory, seenBy, acquire };
}

const timeless = { monotonic: () => 0 };
const refused = { code: "EHELD" };

describe("the name of a holder that was killed", () => {
	test("is free at once on its own host", async () => {
		const { env, seenBy, acquire } = alice();
		const holder = await contender(env);
		holder.tell({ hold: ["alice"] });
		await holder.said("holds alice");
		expect(seenBy().node("alice").live()).toMatchObject({ pid: holder.pid, instance: holder.instance, host: os.hostname() });
		await expect(acquire(timeless)).rejects.toMatchObject(refused);
		holder.kill("SIGKILL");
		await holder.ended;
		expect(seenBy().node("alice").live()).toBeUndefined();
		const live = await seenBy(timeless).node("alice").goLive();
		expect(live.lock.held()).toBe(true);
		live.end();
	});

	test("is free at once, though its parent never asks for it (a zombie)", async () => {
		const { env, seenBy, acquire } = alice();
		const holder = await contender(env, {}, ["sh", "-c", '"$@" & exec sleep 600', "sh"]);
		holder.tell({ hold: ["alice"] });
		await holder.said("holds alice");
		process.kill(holder.pid, "SIGKILL");
		await until(() => / Z /.test(fs.readFileSync(`/proc/${holder.pid}/stat`, "utf8")), "a zombie");
		expect(seenBy().node("alice").live()).toBeUndefined();
		const lock = await acquire(timeless);
		expect(lock.held()).toBe(true);
		lock.release();
	});

	test.each([
		["another host", { host: "elsewhere" }],
		["another pid namespace", { pidNamespace: "pid:[1]" }],
		["a host without pid namespaces", { pidNamespace: "-" }],
	])("is free for %s when it is stale, not before", async (_, place) => {
		const { env, acquire } = alice({ ...place, lock });
		const holder = await contender(env, { lock });
		holder.tell({ hold: ["alice"] });
		await holder.said("holds alice");
		await expect(acquire({ lock: { refresh: 5000, stale: 15_000 } })).rejects.toMatchObject(refused); // it is alive, if slow
		holder.kill("SIGKILL");
		await holder.ended;
		const began = performance.now();
		const taken = await until(() => acquire().catch(() => undefined), "a stale lock");
		expect(performance.now() - began).toBeGreaterThanOrEqual(lock.stale);
		taken.release();
	});

	test("is free for another host within 30 s, by the numbers of the protocol", async () => {
		const { env, acquire } = alice({ host: "elsewhere" });
		const holder = await contender(env);
		holder.tell({ hold: ["alice"] });
		await holder.said("holds alice");
		holder.kill("SIGKILL");
		await holder.ended;
		const began = performance.now();
		const taken = await until(() => acquire().catch(() => undefined), "a stale lock");
		expect(performance.now() - began).toBeGreaterThanOrEqual(15_000);
		expect(performance.now() - began).toBeLessThan(30_000);
		taken.release();
	});
});

test("a lock is stale when it was seen so twice, 15 s apart on the observer's clock", async () => {
	const { directory, acquire } = alice({ host: "elsewhere" });
	leaveStale(path.join(directory, "live.lock"));
	const clock = [0, 5000, 10_000, 14_999, 15_000];
	const taken = await acquire({ monotonic: () => clock.shift() ?? Number.NaN });
	expect(clock).toEqual([]);
	expect(taken.held()).toBe(true);
	taken.release();
});

test("a live Node whose name another took finds out, says nothing more, and leaves the other's lock alone", async () => {
	const { root, directory, seenBy } = alice();
	const first = await seenBy().node("alice").goLive({ status: "idle" });
	for (const file of ls(directory, "live.lock")) fs.rmSync(path.join(directory, "live.lock", file)); // as who finds it stale does
	const second = await seenBy().node("alice").goLive({ status: "thinking" });
	expect(first.lock.held()).toBe(false);
	expect(first.lock.lost.reason).toMatchObject({ code: "ELOST" });
	await first.publish({ status: "waiting" });
	first.end();
	expect(second.lock.held()).toBe(true);
	const node = seenBy().node("alice");
	expect([node.presence().status, ls(directory, "live.lock").length]).toEqual(["thinking", 1]);
	await expect(node.goLive()).rejects.toMatchObject(refused);
	second.end();
	expect(openTree({ root }).node("alice").live()).toBeUndefined();
});

describe.each(shells)("a shell (%s) that is live", (shell) => {
	/** `xfer.sh live alice` with a command that runs until its standard input ends, in a process group of its own. */
	async function liveShell(env: NodeJS.ProcessEnv, tree: Tree) {
		const child = start([...sh(shell), "live", "alice", "cat"], { env, stdio: ["pipe", "pipe", "pipe"], detached: true });
		const one = watched(child);
		onTestFinished(() => {
			try {
				process.kill(-(child.pid as number), "SIGKILL");
			} catch {
				// all of it has ended
			}
		});
		await until(() => tree.node("alice").live()?.pid === child.pid || child.exitCode !== null, "a shell that is live");
		expect(child.exitCode, one.errors()).toBe(null);
		return { ...one, end: () => child.stdin?.end(), group: (signal: NodeJS.Signals) => process.kill(-(child.pid as number), signal) };
	}

	test("is respected, and lets the name go at its end", async () => {
		const { env, seenBy, acquire } = alice();
		const holder = await liveShell(env, seenBy());
		await expect(acquire()).rejects.toMatchObject(refused);
		expect(await run([...cli, "read", "--as", "alice"], { env })).toMatchObject({ code: 5, out: "" });
		for (const other of shells)
			expect(await run([...sh(other), "live", "alice", "echo", "live"], { env })).toMatchObject({ code: 5, out: "" });
		holder.end();
		expect(await holder.ended, holder.errors()).toBe(0);
		(await acquire(timeless)).release();
	});

	test("and is killed, has let the name go", async () => {
		const { env, seenBy, acquire } = alice();
		const holder = await liveShell(env, seenBy());
		holder.kill("SIGKILL"); // the shell alone: what refreshes the lock for it lives a little longer
		await until(() => holder.child.signalCode !== null, "its end");
		expect(seenBy().node("alice").live()).toBeUndefined();
		(await acquire(timeless)).release();
		holder.end();
	});

	test("and is suspended, finds out that another took the name, and leaves it alone", async () => {
		const { env: base, directory, seenBy, acquire } = alice({ lock: { refresh: 500, stale: 3000 } });
		const env = { ...base, XFER_REFRESH: "1", XFER_STALE: "3" };
		const holder = await liveShell(env, seenBy());
		holder.group("SIGSTOP");
		const taken = await until(() => acquire().catch(() => undefined), "a stale lock");
		holder.group("SIGCONT");
		await until(() => /lost/.test(holder.errors()), "word of it");
		expect(taken.held()).toBe(true);
		expect(ls(directory, "live.lock").length).toBe(1);
		holder.end(); // its command ran all the time
		expect(await holder.ended).toBe(0);
		expect(taken.held()).toBe(true);
		taken.release();
	});

	test("respects a holder, and takes over when it is killed, or suspended for long", async () => {
		const { env: base, seenBy } = alice();
		const env = { ...base, XFER_REFRESH: "1", XFER_STALE: "3" };
		const lock = { refresh: 500, stale: 3000 };
		const tries = () => run([...sh(shell), "live", "alice", "echo", "live"], { env });
		const first = await contender(env, { lock });
		first.tell({ hold: ["alice"] });
		await first.said("holds alice");
		expect(await tries()).toMatchObject({ code: 5, out: "", err: expect.stringMatching(/^xfer: .*alice is live.*\(.+\)\n$/) });
		first.kill("SIGKILL");
		await first.ended;
		expect(await tries()).toMatchObject({ code: 0, out: "live\n" });

		const second = await contender(env, { lock });
		second.tell({ hold: ["alice"] });
		await second.said("holds alice");
		second.kill("SIGSTOP");
		await until(async () => (await tries()).code === 0, "a stale lock");
		second.kill("SIGCONT");
		await second.said("lost alice");
		expect(seenBy().node("alice").live()).toBeUndefined();
	});
});

test("library, dash and busybox never hold a lock together, fresh or stale", async () => {
	const { names, env: base, locks } = nodes(12);
	const env = { ...base, XFER_REFRESH: "1", XFER_STALE: "3" };
	for (const name of names.slice(6)) leaveStale(locks(name));
	const contenders = await Promise.all(Array.from({ length: 6 }, () => contender(env, { lock: { refresh: 500, stale: 3000 } })));
	const script = path.join(import.meta.dirname, "contender.ts");
	const asShell = (shell: (typeof shells)[number], under: string) =>
		watched(
			start([...sh(shell), "live", under, process.execPath, script, JSON.stringify({ under })], { env, stdio: ["ignore", "pipe", "pipe"] }),
		);
	const byShell = names.flatMap((name) => shells.map((shell) => asShell(shell, name)));
	await Promise.all([contest(contenders, names), ...byShell.map((one) => one.ended)]);
	const ends = await Promise.all(byShell.map((one) => one.ended));
	expect(
		ends.filter((end) => end !== 0 && end !== 5),
		byShell.map((one) => one.errors()).join(""),
	).toEqual([]);
	expectOneAtATime([...heldBy(contenders), ...heldBy(byShell)], names);
	expect(heldBy(byShell).length).toBeGreaterThan(0);
	expect(names.filter((name) => fs.existsSync(locks(name)))).toEqual([]);
});

describe("neither coarse mtimes nor a clock that is 20 s off", () => {
	const mounts: string[] = [];
	afterEach(() => {
		for (const dir of mounts.splice(0)) {
			spawnSync("umount", ["-l", dir]);
			fs.rmdirSync(dir);
		}
	});

	/** A directory on a disk whose inodes have no room for parts of a second. */
	function disk(): string {
		const image = path.join(tempDir(), "image");
		fs.writeFileSync(image, "");
		fs.truncateSync(image, 4 * 1024 * 1024);
		const dir = fs.mkdtempSync(path.join(os.tmpdir(), "xfer-disk-"));
		mounts.push(dir);
		for (const argv of [
			["mkfs.ext2", "-q", "-I", "128", image],
			["mount", "-o", "loop", image, dir],
		] as [string, ...string[]][]) {
			const { status, stderr } = spawnSync(argv[0], argv.slice(1));
			if (status !== 0) throw new Error(`${argv[0]}: ${stderr}`);
		}
		return dir;
	}

	/** Holds alice for a while with four watching who want it, two of them off by 20 s; then is killed. */
	async function watchedByFour(root: string, env: NodeJS.ProcessEnv, stale: number): Promise<void> {
		const lock = { refresh: 500, stale };
		const holder = await contender({ ...env, XFER_HOME: root }, { lock });
		openTree({ root, durable: false }).join("alice");
		holder.tell({ hold: ["alice"] });
		await holder.said("holds alice");
		const observers = [0, 20_000, -20_000, 3].map((skew) =>
			openTree({ root, durable: false, host: "elsewhere", lock, clock: () => Date.now() + skew }),
		);
		const acquire = (tree: Tree) => LiveLock.acquire(tree.context, tree.node("alice").directory);
		const began = now();
		const refusals: unknown[] = [];
		await Promise.all(
			observers.map(async (tree) => {
				while (now() < began + 1.5 * stale) {
					expect(tree.node("alice").live()).toMatchObject({ pid: holder.pid });
					refusals.push(
						await acquire(tree).then(
							() => "acquired",
							(error) => error.code,
						),
					);
				}
			}),
		);
		expect(new Set(refusals)).toEqual(new Set(["EHELD"]));
		holder.tell({ check: ["alice"] });
		await holder.said("still alice");

		holder.kill("SIGKILL");
		await holder.ended;
		const killed = now();
		const held = await Promise.all(
			observers.map(async (tree): Promise<Held> => {
				const mine = await until(() => acquire(tree).catch(() => undefined), "a stale lock");
				const from = now();
				await new Promise((resolve) => setTimeout(resolve, 20));
				const to = now();
				expect(mine.held()).toBe(true);
				mine.release();
				return { name: "alice", from, to };
			}),
		);
		expectOneAtATime(held, ["alice"]);
		expect(Math.min(...held.map(({ from }) => from))).toBeGreaterThanOrEqual(killed + stale);
		expect(observers.map((tree) => tree.node("alice").live())).toEqual([undefined, undefined, undefined, undefined]);
	}

	test("of 2 s takes a name from who is there, or gives it to two", async () => {
		const { root, env } = tempTree();
		const { directory } = openTree({ root, durable: false }).join("alice");
		const floor = actor("coarse.ts", { directory: path.join(directory, "live.lock") }, env);
		await until(() => floor.lines.length > 0, "coarse mtimes");
		await watchedByFour(root, env, 5000);
		expect(floor.errors()).toBe("");
	});

	test.skipIf(process.getuid?.() !== 0)("of 1 s, on such a disk, takes a name from who is there, or gives it to two", async () => {
		const { env } = tempTree();
		await watchedByFour(path.join(disk(), "xfer"), env, 4000);
	});

	test("takes a name from who is there when it is a shell that looks", async () => {
		const { root, env: base } = tempTree();
		openTree({ root, durable: false }).join("alice");
		const bin = tempDir();
		const date = `#!/bin/sh\ncase " $* " in *" -r "*) exec /usr/bin/date "$@" ;; esac\nexec /usr/bin/date -d "\${SKEW} seconds" "$@"\n`;
		fs.writeFileSync(path.join(bin, "date"), date, { mode: 0o755 });
		const env = { ...base, PATH: `${bin}:${base.PATH}` };
		const holder = await contender(env);
		holder.tell({ hold: ["alice"] });
		await holder.said("holds alice");
		for (const SKEW of ["+20", "-20"]) {
			const skewed = { ...env, SKEW };
			expect(Number((await run(["date", "+%s"], { env: skewed })).out) - Date.now() / 1000).toSatisfy((off: number) => Math.abs(off) > 10);
			expect(await run([...sh("dash"), "live", "alice", "echo", "live"], { env: skewed })).toMatchObject({ code: 5, out: "" });
			expect(await run([...sh("dash"), "read", "--as", "alice"], { env: skewed })).toMatchObject({ code: 5, out: "" });
		}
		holder.tell({ check: ["alice"] });
		await holder.said("still alice");
	});
});

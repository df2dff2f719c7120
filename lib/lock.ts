import { closeSync, lstatSync, mkdirSync, openSync, readFileSync, readSync, rmdirSync, rmSync, writeFileSync, writeSync } from "node:fs";
import type { Context } from "./context.ts";
import { errno, XferError } from "./errors.ts";
import { isFile, listNames, readBeginning } from "./files.ts";
import { ancestors } from "./processes.ts";

/** Who holds a Node's live lock, as its file says. */
export interface Holder {
	readonly instance: string;
	readonly host: string;
	readonly pid: number;
}

/** How long two contenders keep out of each other's way, at the most. */
const backoff = 80;
/** A file that has been there for longer than this, in ms, is a holder's: contenders take theirs away at once. */
const settled = 1000;

/** Who is there, at one look; undefined when the Node is away (protocol 7). */
export function whoIsLive(context: Context, node: string): Holder | undefined {
	let first: { holder: Holder; born: number } | undefined;
	for (const instance of listNames(`${node}/live.lock`)) {
		const file = `${node}/live.lock/${instance}`;
		const holder = readHolder(file, instance);
		if (!holder || isDead(context, holder)) continue;
		const stat = lstatSync(file, { throwIfNoEntry: false });
		if (!stat) continue;
		const age = filesystemTime(context, node) - stat.mtimeMs;
		if (age >= context.lock.stale + context.lock.refresh || isAhead(context, age)) continue;
		if (instance === context.instance) return holder;
		// Who tries to hold it has a file there too, for a moment: the one that was first is the holder.
		if (!first || stat.birthtimeMs < first.born) first = { holder, born: stat.birthtimeMs };
	}
	return first?.holder;
}

/** The instance that holds the live lock as a process that this one descends from: what it started may act as it (protocol 3). */
export function instanceAbove(context: Context, node: string): string | undefined {
	if (context.pidNamespace === "-") return undefined; // a pid says nothing
	const holders = listNames(`${node}/live.lock`).map((instance) => readHolder(`${node}/live.lock/${instance}`, instance));
	const here = holders.filter((holder) => holder?.host === context.host && holder.pidNamespace === context.pidNamespace);
	if (here.length === 0) return undefined;
	const above = new Set(Array.from(ancestors(), ({ pid }) => pid));
	return here.find((holder) => holder && above.has(holder.pid))?.instance;
}

/** When a Node's live lock was refreshed last, unix ms by the filesystem's clock. */
export function lastRefresh(node: string): number | undefined {
	const times = listNames(`${node}/live.lock`).map(
		(name) => lstatSync(`${node}/live.lock/${name}`, { throwIfNoEntry: false })?.mtimeMs ?? 0,
	);
	return times.length > 0 ? Math.max(...times) : undefined;
}

/** Removes the lock files of processes that are known to be dead, or that have not been refreshed for `age` ms; returns how many. */
export function removeDeadLocks(context: Context, node: string, age: number, dryRun: boolean): number {
	const directory = `${node}/live.lock`;
	let removed = 0;
	for (const instance of listNames(directory)) {
		const file = `${directory}/${instance}`;
		const holder = readHolder(file, instance);
		const touched = lstatSync(file, { throwIfNoEntry: false })?.mtimeMs;
		if (!holder || touched === undefined || !(isDead(context, holder) || filesystemTime(context, node) - touched > age)) continue;
		removed++;
		if (!dryRun) withdraw(file);
	}
	return removed;
}

/** Removes the locks that nobody refreshes any more and that are of this process: it knows so, others have to watch them for as long again. */
export function dropStale(context: Context, node: string, pid: number): void {
	const directory = `${node}/live.lock`;
	for (const instance of listNames(directory)) {
		const file = `${directory}/${instance}`;
		const holder = readHolder(file, instance);
		if (holder?.pid !== pid || holder.host !== context.host || holder.pidNamespace !== context.pidNamespace) continue;
		const touched = lstatSync(file, { throwIfNoEntry: false })?.mtimeMs;
		if (touched !== undefined && filesystemTime(context, node) - touched > context.lock.stale) withdraw(file);
	}
}

/**
 * Holds a Node's live lock until `release`, or until it is lost.
 *
 * Killed at any point it leaves a file that its own host may remove at once, others when it is stale.
 */
export class LiveLock {
	readonly #file: string;
	readonly #lost = new AbortController();
	readonly #timer: NodeJS.Timeout;

	private constructor(context: Context, node: string) {
		this.#file = `${node}/live.lock/${context.instance}`;
		this.#timer = setInterval(() => this.held(), context.lock.refresh);
		this.#timer.unref();
	}

	/** Aborted when the lock was lost: somebody took it over while this process slept. It never comes back. */
	get lost(): AbortSignal {
		return this.#lost.signal;
	}

	/** Refreshes, and says whether the lock is still held. */
	held(): boolean {
		if (this.#lost.signal.aborted) return false;
		if (refresh(this.#file)) return true;
		clearInterval(this.#timer);
		this.#lost.abort(new XferError("ELOST", "the live lock was lost", "this process slept for too long and another took the name"));
		return false;
	}

	/** Lets the name go. */
	release(): void {
		clearInterval(this.#timer);
		this.#lost.abort(new XferError("ELOST", "the live lock was released"));
		withdraw(this.#file);
	}

	/**
	 * Acquires the live lock of the Node in this directory. Takes a few ms; up to about `lock.stale` when the one who holds it seems to be gone but can't be known to be dead.
	 * @param pid the process that is there: the lock is dead when it is
	 * @throws {XferError} EHELD when another instance holds it · the signal's reason · the system's error
	 */
	static async acquire(context: Context, node: string, signal?: AbortSignal, pid = process.pid): Promise<LiveLock> {
		const directory = `${node}/live.lock`;
		const file = `${directory}/${context.instance}`;
		const seen = new Map<string, { mtime: number; since: number }>();
		const { setTimeout: sleep } = await import("node:timers/promises"); // only here: a command that sends does not need it
		for (let tries = 0; ; tries++) {
			signal?.throwIfAborted();
			const rival = contend(context, directory, file, pid, seen);
			if (rival === undefined) return new LiveLock(context, node);
			// One that was there before and is fresh is a holder. One that has missed a refresh is watched until it makes up for it, or is stale.
			const late = rival !== "retry" && (rival.age >= 2 * context.lock.refresh || isAhead(context, rival.age));
			if (rival !== "retry" && !late && (rival.age > settled || tries > 20)) throw held(node, rival.holder);
			const pause = late ? context.lock.stale / 15 : backoff;
			await sleep(Math.random() * pause, undefined, { signal });
		}
	}
}

interface Rival {
	holder: Holder;
	/** ms since its last refresh, on the filesystem's clock */
	age: number;
}

/** One round of protocol 7, steps 1 to 3. Undefined: the lock is held. Otherwise nothing of ours is left in the directory. */
function contend(
	context: Context,
	directory: string,
	file: string,
	pid: number,
	seen: Map<string, { mtime: number; since: number }>,
): Rival | "retry" | undefined {
	try {
		mkdirSync(directory, { mode: 0o700 });
	} catch (error) {
		if (errno(error) !== "EEXIST") throw error;
	}
	try {
		writeFileSync(file, `${context.host} ${context.pidNamespace} ${pid}\n`, { flag: "wx", mode: 0o600 });
	} catch (error) {
		if (errno(error) === "ENOENT") return "retry"; // a holder that left took the directory with it
		const former = errno(error) === "EEXIST" ? readHolder(file, context.instance) : undefined;
		if (former && isDead(context, former)) {
			rmSync(file, { force: true }); // a former process of this instance, that was killed
			return "retry";
		}
		if (errno(error) === "EEXIST") throw held(directory, readHolder(file, context.instance)); // this instance holds it already
		withdraw(file); // a full disk may have made an empty file
		throw error;
	}
	for (;;) {
		const others = listNames(directory).filter((name) => name !== context.instance && isFile(`${directory}/${name}`));
		if (others.length === 0) {
			if (lstatSync(file, { throwIfNoEntry: false })) return undefined;
			return "retry"; // taken for a stale one, after this process slept between the two steps
		}
		let oldest: Rival | undefined;
		for (const instance of others) {
			const rival = look(directory, file, instance);
			if (!rival) continue; // it went away
			if (isDead(context, rival.holder) || isStale(context, instance, rival, seen)) rmSync(`${directory}/${instance}`, { force: true });
			else if (!oldest || rival.age > oldest.age) oldest = rival;
		}
		if (oldest) {
			withdraw(file);
			return oldest;
		}
	}
}

function look(directory: string, own: string, instance: string): (Rival & { mtime: number }) | undefined {
	const now = lstatSync(own, { throwIfNoEntry: false })?.mtimeMs;
	const stat = lstatSync(`${directory}/${instance}`, { throwIfNoEntry: false });
	if (!stat?.isFile()) return undefined; // it went away, or is not ours to mind
	const mtime = stat.mtimeMs;
	const holder = readHolder(`${directory}/${instance}`, instance) ?? { instance, host: "", pid: 0 };
	return { holder, mtime, age: now === undefined ? 0 : now - mtime };
}

/** Stale: old by the filesystem's clock, and seen with this mtime for as long on ours. */
function isStale(
	context: Context,
	instance: string,
	rival: Rival & { mtime: number },
	seen: Map<string, { mtime: number; since: number }>,
): boolean {
	const now = context.monotonic();
	const before = seen.get(instance);
	if (before?.mtime !== rival.mtime) {
		seen.set(instance, { mtime: rival.mtime, since: now });
		return false;
	}
	return (rival.age >= context.lock.stale || isAhead(context, rival.age)) && now - before.since >= context.lock.stale;
}

/** Refreshed in the future: a clock was set back since, and the age means nothing. */
function isAhead(context: Context, age: number): boolean {
	return age < -context.lock.refresh;
}

function isDead(context: Context, holder: Holder & { pidNamespace?: string }): boolean {
	if (holder.host !== context.host || holder.pidNamespace !== context.pidNamespace || context.pidNamespace === "-") return false;
	try {
		process.kill(holder.pid, 0);
	} catch (error) {
		return errno(error) === "ESRCH";
	}
	return isZombie(holder.pid);
}

/** Ended, but its parent has not asked for its exit code: in a container often for ever. */
function isZombie(pid: number): boolean {
	try {
		return /^\d+ \(.*\) [ZX]/s.test(readFileSync(`/proc/${pid}/stat`, "latin1"));
	} catch {
		return false; // gone since, or no /proc: the next look tells
	}
}

function readHolder(file: string, instance: string): (Holder & { pidNamespace: string }) | undefined {
	const text = readBeginning(file, 1000);
	if (text === undefined) return undefined;
	const [host = "", pidNamespace = "", pid = ""] = text.trim().split(" ");
	return { instance, host, pidNamespace, pid: /^[1-9]\d*$/.test(pid) ? Number(pid) : 0 };
}

/** Sets the file's mtime by the filesystem's clock, not by ours, and makes none: a write of one byte does both. */
function refresh(file: string): boolean {
	try {
		const fd = openSync(file, "r+");
		try {
			const first = Buffer.alloc(1);
			if (readSync(fd, first, 0, 1, 0) === 1) writeSync(fd, first, 0, 1, 0);
		} finally {
			closeSync(fd);
		}
		return lstatSync(file, { throwIfNoEntry: false }) !== undefined;
	} catch (error) {
		return errno(error) !== "ENOENT"; // EMFILE and the like: not lost, and the next refresh follows
	}
}

function withdraw(file: string): void {
	rmSync(file, { force: true });
	try {
		rmdirSync(file.slice(0, file.lastIndexOf("/")));
	} catch {
		// another is in it, or removed it first
	}
}

/** The filesystem's now in ms: the mtime of a file just made. Falls back to our clock where nothing can be made. */
function filesystemTime(context: Context, node: string): number {
	const probe = `${node}/tmp/.now-${context.instance}`;
	try {
		rmSync(probe, { force: true }); // never opened through a symlink
		closeSync(openSync(probe, "wx", 0o600));
		return lstatSync(probe).mtimeMs;
	} catch {
		return context.now();
	} finally {
		rmSync(probe, { force: true });
	}
}

function held(node: string, holder: Holder | undefined): XferError {
	const name = node.split("/").findLast((part) => part !== "live.lock") ?? node;
	const who = holder?.host ? ` by process ${holder.pid} on ${holder.host}` : "";
	return new XferError("EHELD", `${name} is live, held${who}`, "choose another name, or end that one");
}

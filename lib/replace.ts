import { accessSync, chmodSync, constants, fstatSync, linkSync, renameSync, rmSync } from "node:fs";
import { basename, dirname } from "node:path";
import { type Card, parseCard } from "./card.ts";
import { type Context, sleep } from "./context.ts";
import { errno, XferError } from "./errors.ts";
import {
	append,
	isFile,
	isSameFile,
	listNames,
	makeDirectories,
	OpenFile,
	publish,
	readBytes,
	syncDirectory,
	syncFile,
	writeNew,
} from "./files.ts";

/** ms for which a replaced file must not have grown before it is let go. */
const quiet = 250;
/** ms for which an Entry may be in the middle of being written. */
const settle = 300;
/** ms that an edit waits for the lock. Who died with it is found out after 10 s. */
const patience = 60_000;

/**
 * Replaces a Card by what `change` makes of it, while others append: one at a time, and nothing that they add is lost (protocol 14). Killed at any point it leaves the old Card or the new one, and perhaps `NAME.old`, from which
 * `recover` adds what the new one lacks.
 * @returns false when there was nothing to change
 * @throws {XferError} EHELD when another holds the lock for a minute · the system's error; `ENOENT`, `EFTYPE` when it is no regular file
 */
export async function replaceCard(context: Context, path: string, change: (bytes: Buffer) => Buffer | Promise<Buffer>): Promise<boolean> {
	for (const end = performance.now() + patience; ; ) {
		const lock = await acquire(path, end - performance.now());
		try {
			recoverOne(context, path);
			const done = await replaceOnce(context, path, change, lock);
			if (done !== undefined) return done;
		} finally {
			await lock.release();
		}
	}
}

/** Undefined when it has to be begun again: another took the lock, which was stale by then, or somebody replaced the Card without it, an editor perhaps. */
async function replaceOnce(
	context: Context,
	path: string,
	change: (bytes: Buffer) => Buffer | Promise<Buffer>,
	lock: Lock,
): Promise<boolean | undefined> {
	const old = oldPath(path);
	const temporary = `${locksOf(path)}/${basename(path)}.${context.instance}.new`;
	const file = await openSettled(context, path);
	try {
		const before = file.read(0, file.size);
		const after = await change(before);
		if (after.equals(before)) return false;
		rmSync(temporary, { force: true });
		writeNew(temporary, after, context.durable);
		chmodSync(temporary, fstatSync(file.fd).mode & 0o777);
		if (lock.isLost() || !link(path, old)) return undefined;
		// What others add meanwhile comes along: then nothing is between the last look and the rename.
		let copied = before.length;
		for (const end = context.monotonic() + settle; file.measure() > copied; ) {
			const more = file.read(copied, file.size - copied);
			if (isUnfinished(more, true) && context.monotonic() < end) await sleep(5);
			else {
				append(temporary, more, false);
				copied += more.length;
			}
		}
		if (!isSameFile(file.fd, path) || file.size < copied) {
			rmSync(old, { force: true });
			return undefined;
		}
		renameSync(temporary, path);
		if (context.durable) {
			syncFile(path); // until then it stands in `NAME.old`
			syncDirectory(dirname(path));
		}
		await absorb(context, file, copied, path);
		rmSync(old, { force: true });
		return true;
	} finally {
		file.close();
		rmSync(temporary, { force: true });
	}
}

/** Opens a Card; after a moment when its last Entry may be just being written. */
async function openSettled(context: Context, path: string): Promise<OpenFile> {
	for (let tries = 0; ; tries++) {
		const file = new OpenFile(path, true);
		try {
			const young = Math.abs(context.now() - file.modified) < settle && tries < settle / 10;
			if (!young || !isUnfinished(file.read(0, file.size))) return file;
		} catch (error) {
			file.close();
			throw error;
		}
		file.close();
		await sleep(10);
	}
}

/**
 * Removes a Card's file, when nobody is just replacing it.
 * @param expected only when the file is still that, and gets nothing in the moment of its end: else it stays, or is there again
 * @returns whether it was removed
 */
export async function purgeCard(context: Context, path: string, expected?: Buffer): Promise<boolean> {
	const lock = await acquire(path, patience);
	try {
		recoverOne(context, path);
		if (!expected) {
			rmSync(path);
			return true;
		}
		const file = new OpenFile(path, true);
		try {
			if (!file.read(0, file.size).equals(expected)) return false;
			rmSync(path);
			for (const end = context.monotonic() + quiet; context.monotonic() < end && file.measure() === expected.length; ) await sleep(10);
			if (file.measure() === expected.length) return true;
			publish(path, `${locksOf(path)}/${basename(path)}.${context.instance}.new`, file.read(0, file.size), context.durable);
			return false;
		} finally {
			file.close();
		}
	} finally {
		await lock.release();
	}
}

/** Adds to each Card of a directory what a killed `replaceCard` left behind. Costs one listing when there is nothing. */
export async function recover(context: Context, directory: string): Promise<void> {
	for (const name of leftovers(directory)) {
		const path = `${directory}/${name}`;
		const lock = isFile(path) ? await acquire(path, 0).catch(notNow) : undefined;
		if (!lock) continue;
		try {
			recoverOne(context, path);
		} catch {
			// what lies there can't be read, or is no file: doctor tells, and no other Card is the worse for it
		} finally {
			await lock.release();
		}
	}
}

/** The names of the Cards of which a replaced file is still there: just now, or since somebody was killed. */
export function leftovers(directory: string): string[] {
	try {
		return listNames(`${directory}/.locks`).flatMap((name) => (name.endsWith(".md.old") ? [name.slice(0, -4)] : []));
	} catch (error) {
		if (["EACCES", "EPERM", "ENOTDIR"].includes(errno(error) ?? "")) return []; // who may only read the Board recovers nothing
		throw error;
	}
}

function recoverOne(context: Context, path: string): void {
	// With the lock in hand nobody else writes one.
	for (const name of listNames(locksOf(path))) {
		// After the Card's name an instance, and nothing else: another Card's may begin alike.
		if (name.length === basename(path).length + 13 && name.startsWith(`${basename(path)}.`) && name.endsWith(".new"))
			rmSync(`${locksOf(path)}/${name}`, { force: true });
	}
	const old = readBytes(oldPath(path), Number.POSITIVE_INFINITY);
	if (!old) return;
	addMissing(context, old, path);
	rmSync(oldPath(path), { force: true });
}

/** Adds what the replaced file still gets: a writer may have opened it before it was replaced, and write to it only now. */
async function absorb(context: Context, file: OpenFile, size: number, path: string): Promise<void> {
	let seen = size;
	for (let since = context.monotonic(); context.monotonic() - since < quiet; await sleep(10)) {
		if (file.measure() === seen) continue;
		seen = file.size;
		since = context.monotonic();
		const old = file.read(0, seen);
		if (!isUnfinished(old)) addMissing(context, old, path);
	}
	if (seen > size) addMissing(context, file.read(0, seen), path); // what is torn by now is torn
}

/** Whether the end of it may be just being written: a large write is seen page by page. */
function isUnfinished(bytes: Buffer, isTail = false): boolean {
	const { entries, introduction } = parseCard(bytes);
	const last = entries.at(-1);
	return last ? last.is("torn") : isTail && introduction.end > introduction.begin; // a header whose end is to come is no header yet
}

function addMissing(context: Context, old: Buffer, path: string): void {
	const known = entriesById(parseCard(readBytes(path, Number.POSITIVE_INFINITY) ?? Buffer.alloc(0)));
	for (const [id, entry] of entriesById(parseCard(old))) {
		const there = known.get(id);
		if (!there || (there.is("torn") && !entry.is("torn")))
			append(path, Buffer.concat([Buffer.from("\n"), entry.raw, Buffer.from("\n")]), context.durable);
	}
}

function entriesById(card: Card): Map<string, Card["entries"][number]> {
	return new Map(card.entries.map((entry) => [entry.id, entry]));
}

/** Whether the Card is just being replaced: what is read now may lack an Entry of a moment ago, or have one too few a moment later. */
export function isBeingReplaced(path: string): boolean {
	return isFile(oldPath(path));
}

function locksOf(path: string): string {
	return `${dirname(path)}/.locks`;
}

function oldPath(path: string): string {
	return `${locksOf(path)}/${basename(path)}.old`;
}

/** False when another's is there: then two believe that they have the lock. */
function link(path: string, old: string): boolean {
	try {
		linkSync(path, old);
		return true;
	} catch (error) {
		const code = errno(error) ?? "";
		if (code === "EEXIST") return false;
		// No hard links here: then a kill in the moment after the rename loses what was added in the moment before it.
		if (["EPERM", "ENOTSUP", "EMLINK"].includes(code)) return true;
		throw error;
	}
}

/** The lock of a Card's file, in hand. */
interface Lock {
	/** Whether another has taken it, because this process slept too long. */
	isLost(): boolean;
	release(): Promise<void>;
}

/** @throws {XferError} EHELD when another has it for longer than `wait` ms */
async function acquire(path: string, wait: number): Promise<Lock> {
	const locks = locksOf(path);
	makeDirectories(locks);
	accessSync(locks, constants.W_OK); // else the lock would be waited for
	new OpenFile(path).close();
	const { lock } = await import("proper-lockfile");
	let lost = false;
	const options = {
		realpath: false,
		lockfilePath: `${locks}/${basename(path)}.lock`,
		stale: 10_000,
		update: 2000,
		onCompromised: () => {
			lost = true;
		},
	};
	for (const end = performance.now() + wait; ; await sleep(10 + Math.random() * 40)) {
		try {
			const release = await lock(path, options);
			return {
				isLost: () => lost,
				release: () => (lost ? Promise.resolve() : release().catch(() => {})), // another's by now: nothing to let go
			};
		} catch (error) {
			// ENOENT: another who found it stale removed it under our hands.
			if (errno(error) !== "ELOCKED" && errno(error) !== "ENOENT") throw error;
			if (performance.now() >= end) throw new XferError("EHELD", `${basename(path)} is just being changed`, "try again");
		}
	}
}

/** What can't be locked just now is being changed, or can only be read: whoever comes next recovers it. */
function notNow(): undefined {}

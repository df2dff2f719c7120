import { accessSync, chmodSync, constants, fstatSync, linkSync, renameSync, rmSync } from "node:fs";
import { basename, dirname } from "node:path";
import { type Context, sleep } from "../context.ts";
import { errno, XferError } from "../errors.ts";
import {
	append,
	isFile,
	isSameFile,
	listNames,
	makeDirectories,
	noHardLinks,
	OpenFile,
	readBytes,
	syncDirectory,
	syncFile,
	writeNew,
} from "../files.ts";
import { type Card, Entry, parseCard } from "./card.ts";
import { locksOf, mayGrow, oldPath, publishCard, settle, stem, temporaryPath } from "./card-file.ts";

/** ms for which a replaced file must not have grown before it is let go. */
const quiet = 250;
/** ms that an edit waits for others. Who died with the lock is found out after 10 s. */
const patience = 60_000;

/**
 * Replaces a Card by what `change` makes of it, while others append: one at a time, and nothing that they add is lost (protocol 14). Killed at any
 * point it leaves the old Card or the new one, perhaps a temporary file, and perhaps `FILE.old`, from which `recover` adds what the new one lacks.
 * @param change called again when the Card was not what it was any more
 * @returns false when there was nothing to change
 * @throws {XferError} EHELD when others are at it for a minute · the system's error; `ENOENT`, `EFTYPE` when it is no regular file
 */
export async function replaceCard(context: Context, path: string, change: (bytes: Buffer) => Buffer | Promise<Buffer>): Promise<boolean> {
	for (const end = context.monotonic() + patience; ; ) {
		const lock = await acquire(context, path, end);
		try {
			recoverOne(context, path);
			const done = await replaceOnce(context, path, change, lock, end);
			if (done !== undefined) return done;
		} finally {
			await lock.release();
		}
		if (context.monotonic() > end) throw busy(path);
	}
}

/** Undefined when it has to be begun again: another took the lock, which was stale by then, or an editor, which takes none, saved the Card. */
async function replaceOnce(
	context: Context,
	path: string,
	change: (bytes: Buffer) => Buffer | Promise<Buffer>,
	lock: Lock,
	end: number,
): Promise<boolean | undefined> {
	const old = oldPath(path);
	const temporary = temporaryPath(context, path);
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
		for (const late = context.monotonic() + settle; file.measure() > copied; ) {
			const more = file.read(copied, file.size - copied);
			if (isUnfinished(more) && context.monotonic() < late) await sleep(5);
			else {
				append(temporary, more, false);
				copied += more.length;
			}
		}
		if (!isSameFile(file.fd, path) || file.size < copied || !file.read(0, before.length).equals(before)) {
			rmSync(old, { force: true });
			return undefined;
		}
		renameSync(temporary, path);
		if (context.durable) {
			syncFile(path); // until then it stands in `FILE.old`
			syncDirectory(dirname(path));
		}
		await absorb(context, file, copied, path, end);
		rmSync(old, { force: true });
		return true;
	} catch (error) {
		// Whoever else believes that he has the lock has cleared it away.
		if (errno(error) === "ENOENT" && (error as NodeJS.ErrnoException).path === temporary) return undefined;
		throw error;
	} finally {
		file.close();
		rmSync(temporary, { force: true });
	}
}

/**
 * Removes a Card's file, when nobody is just replacing it. Killed in the middle it leaves `FILE.old`, of which `recover` makes the Card again.
 * @param expected only when the file is still that, and gets nothing in the moment of its end: else it stays, or is there again
 * @returns whether it was removed
 * @throws as `replaceCard`
 */
export async function purgeCard(context: Context, path: string, expected?: Buffer): Promise<boolean> {
	const lock = await acquire(context, path, context.monotonic() + patience);
	try {
		recoverOne(context, path);
		if (!expected) {
			rmSync(path);
			return true;
		}
		const file = new OpenFile(path, true);
		try {
			if (!file.read(0, file.size).equals(expected) || !link(path, oldPath(path))) return false;
			rmSync(path);
			for (const end = context.monotonic() + quiet; context.monotonic() < end && file.measure() === expected.length; ) await sleep(10);
			const grew = file.measure() !== expected.length;
			if (grew) publishCard(context, path, file.read(0, file.size));
			rmSync(oldPath(path), { force: true });
			return !grew;
		} finally {
			file.close();
		}
	} finally {
		await lock.release();
	}
}

/** Gives each Card of a directory what a killed `replaceCard` or `purgeCard` left behind. Costs one listing when there is nothing. */
export async function recover(context: Context, directory: string): Promise<void> {
	for (const name of leftovers(directory)) {
		const path = `${directory}/${name}`;
		try {
			const lock = await acquire(context, path, 0);
			try {
				recoverOne(context, path);
			} finally {
				await lock.release();
			}
		} catch {
			// It is being changed just now, or what lies there can't be read, or is no file: doctor tells, and no other Card is the worse for it.
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

/** Whether the Card is just being replaced: what is read now may lack an Entry of a moment ago, or have one too few a moment later. */
export function isBeingReplaced(path: string): boolean {
	return isFile(oldPath(path));
}

/** With the lock in hand: nobody else replaces the Card. */
function recoverOne(context: Context, path: string): void {
	for (const name of listNames(locksOf(path))) {
		// Behind the Card's name stands an instance, and nothing else: another Card's name may begin alike.
		const isOurs = name.length === basename(path).length + 13 && name.startsWith(`${basename(path)}.`) && name.endsWith(".new");
		if (isOurs) rmSync(`${locksOf(path)}/${name}`, { force: true });
	}
	const old = readBytes(oldPath(path), Number.POSITIVE_INFINITY);
	if (!old) return;
	if (isFile(path)) addMissing(context, old, path);
	else publishCard(context, path, old);
	rmSync(oldPath(path), { force: true });
}

/** Opens a Card; after a moment when its last Entry may be just being written. */
async function openSettled(context: Context, path: string): Promise<OpenFile> {
	for (let tries = 0; ; tries++) {
		const file = new OpenFile(path, true);
		try {
			if (tries > settle / 10 || !mayGrow(parseCard(file.read(0, file.size)), file.modified, context)) return file;
		} catch (error) {
			file.close();
			throw error;
		}
		file.close();
		await sleep(10);
	}
}

/** Adds what the replaced file still gets: a writer may have opened it before it was replaced, and write to it only now. */
async function absorb(context: Context, file: OpenFile, size: number, path: string, end: number): Promise<void> {
	let [seen, taken] = [size, size];
	for (let since = context.monotonic(); context.monotonic() - since < quiet && context.monotonic() < end; await sleep(10)) {
		if (file.measure() === seen) continue;
		seen = file.size;
		since = context.monotonic();
		const old = file.read(0, seen);
		if (parseCard(old).entries.at(-1)?.is("torn") ?? true) continue;
		addLater(context, old, taken, path);
		taken = seen;
	}
	if (seen > taken) addLater(context, file.read(0, seen), taken, path); // what is torn by now is torn
}

/** Adds to a Card what its old file got behind `taken`. */
function addLater(context: Context, old: Buffer, taken: number, path: string): void {
	const { introduction, entries } = parseCard(old);
	const now = readBytes(path, Number.POSITIVE_INFINITY) ?? Buffer.alloc(0);
	const known = entriesById(parseCard(now));
	const newline = Buffer.from("\n");
	const parts: Buffer[] = [];
	for (const part of [introduction, ...entries]) {
		const { begin, end } = part;
		if (end <= taken) continue;
		const isOwn = part instanceof Entry && (begin >= taken || !part.isHashed || part.is("duplicate"));
		if (isOwn && isMissing(part, known)) parts.push(newline, part.raw, newline);
		if (isOwn) continue;
		// Text that nothing is known by: what was there of it has come along, and it goes on where that ends.
		const goesOn = begin < taken && parts.length === 0 && now.length > 0 && old.subarray(begin, taken).equals(now.subarray(begin - taken));
		parts.push(...(goesOn ? [] : [newline]), old.subarray(Math.max(begin, taken), end), newline);
	}
	if (parts.length > 0) append(path, Buffer.concat(parts), context.durable);
}

/** Whether the end of what was added may be just being written. A header whose end is to come is no header yet. */
function isUnfinished(added: Buffer): boolean {
	const { entries, introduction } = parseCard(added);
	return entries.at(-1)?.is("torn") ?? introduction.end > introduction.begin;
}

function addMissing(context: Context, old: Buffer, path: string): void {
	const known = entriesById(parseCard(readBytes(path, Number.POSITIVE_INFINITY) ?? Buffer.alloc(0)));
	const missing = parseCard(old).entries.filter((entry) => isMissing(entry, known));
	if (missing.length === 0) return;
	const newline = Buffer.from("\n");
	append(path, Buffer.concat(missing.flatMap(({ raw }) => [newline, raw, newline])), context.durable);
}

function isMissing(entry: Entry, known: ReadonlyMap<string, Entry>): boolean {
	const there = known.get(entry.id);
	return !there || (there.is("torn") && !entry.is("torn"));
}

function entriesById(card: Card): Map<string, Entry> {
	return new Map(card.entries.map((entry) => [entry.id, entry]));
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
		if (noHardLinks.has(code)) return true;
		throw error;
	}
}

/** The lock of a Card's file, in hand. */
interface Lock {
	/** Whether another has taken it, because this process slept too long. */
	isLost(): boolean;
	release(): Promise<void>;
}

/**
 * @param end on the monotonic clock: when to wait no longer
 * @throws {XferError} EHELD when another has it until then
 */
async function acquire(context: Context, path: string, end: number): Promise<Lock> {
	if (!isFile(oldPath(path))) new OpenFile(path).close(); // a Card that is missing is said at once, and gets no lock
	const locks = locksOf(path);
	makeDirectories(locks);
	accessSync(locks, constants.W_OK); // else the lock would be waited for
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
	for (;;) {
		try {
			const release = await lock(path, options);
			return {
				isLost: () => lost,
				release: () => (lost ? Promise.resolve() : release().catch(() => {})), // another's by now: nothing to let go
			};
		} catch (error) {
			// ENOENT: another who found it stale removed it under our hands.
			if (errno(error) !== "ELOCKED" && errno(error) !== "ENOENT") throw error;
			if (context.monotonic() >= end) throw busy(path);
			await sleep(10 + (context.random(5)[0] ?? 0) / 6); // not all at once
		}
	}
}

function busy(path: string): XferError {
	return new XferError("EHELD", `${stem(basename(path))} is just being changed by somebody else`, "try again");
}

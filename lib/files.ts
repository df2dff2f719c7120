import {
	closeSync,
	constants,
	type Dirent,
	fstatSync,
	fsyncSync,
	linkSync,
	lstatSync,
	mkdirSync,
	openSync,
	readdirSync,
	readSync,
	renameSync,
	rmSync,
	type Stats,
	statSync,
	writeSync,
} from "node:fs";
import { dirname } from "node:path";
import { errno } from "./errors.ts";

const { O_CREAT, O_EXCL, O_APPEND, O_WRONLY, O_RDONLY, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = constants;

/** What a directory may answer to fsync without anything being wrong (protocol 9). */
const noDirectorySync = new Set(["EINVAL", "EPERM", "EISDIR", "ENOTSUP"]);

/**
 * Writes a new file of mode 0600, whole and synced, or leaves none. Killed at any point it leaves a part of the file under `path`.
 * @throws the system's error (`EEXIST`, `ENOENT`, `ENOSPC`, …)
 */
export function writeNew(path: string, bytes: Uint8Array, durable: boolean): void {
	const fd = openSync(path, O_CREAT | O_EXCL | O_WRONLY, 0o600);
	let open = true;
	try {
		for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at); // a short write is continued: the next one says ENOSPC
		if (durable) fsyncSync(fd);
		open = false;
		closeSync(fd); // some network filesystems report a full disk only here
	} catch (error) {
		if (open) closeSync(fd);
		rmSync(path, { force: true });
		throw error;
	}
}

/** What a filesystem without hard links says to one; and one on which this file has as many as it may. */
export const noHardLinks: ReadonlySet<string> = new Set(["EPERM", "ENOTSUP", "EMLINK"]);

/**
 * Publishes a new file, whole, never over another. Killed at any point it leaves `temporary`, or nothing else.
 * @returns false when the name is taken
 * @throws the system's error
 */
export function publish(path: string, temporary: string, bytes: Buffer, durable: boolean): boolean {
	rmSync(temporary, { force: true });
	try {
		writeNew(temporary, bytes, durable);
		try {
			linkSync(temporary, path);
		} catch (error) {
			if (!noHardLinks.has(errno(error) ?? "")) throw error;
			writeNew(path, bytes, durable); // for a moment it is seen in parts
		}
	} catch (error) {
		if (errno(error) === "EEXIST") return false;
		throw error;
	} finally {
		rmSync(temporary, { force: true });
	}
	if (durable) syncDirectory(dirname(path));
	return true;
}

/**
 * Appends to a regular file in one write, synced, whatever others append at the same time; and once more when meanwhile another file took
 * its place. Killed at any point, or on a full disk, it leaves all of the bytes, a beginning of them, or none, behind what was there.
 * @throws the system's error (`ENOENT`, `ENOSPC`, …); `EFTYPE` when it is no regular file
 */
export function append(path: string, bytes: Uint8Array, durable: boolean): void {
	for (let cut = 0; ; ) {
		requireFile(path);
		const fd = openSync(path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK);
		try {
			// A write that was cut short is never continued: others may have appended in between. The next one is whole, or says what is wrong.
			if (writeSync(fd, bytes) < bytes.length) {
				if (++cut > 2) throw Object.assign(new Error(`ENOSPC: no space left on device, write '${path}'`), { code: "ENOSPC", path });
				continue;
			}
			if (durable) fsyncSync(fd);
			if (isSameFile(fd, path)) return;
		} finally {
			closeSync(fd);
		}
	}
}

/** Whether a path names the file that is open. */
export function isSameFile(fd: number, path: string): boolean {
	const there = lstatSync(path, { bigint: true, throwIfNoEntry: false });
	const here = fstatSync(fd, { bigint: true });
	return there !== undefined && there.ino === here.ino && there.dev === here.dev;
}

/**
 * fsyncs a directory, where that exists.
 * @throws the system's error when the directory can't be opened or its disk fails
 */
export function syncDirectory(path: string): void {
	if (process.platform === "win32") return;
	const fd = openSync(path, O_RDONLY);
	try {
		fsyncSync(fd);
	} catch (error) {
		if (!noDirectorySync.has(errno(error) ?? "")) throw error;
	} finally {
		closeSync(fd);
	}
}

/**
 * fsyncs a regular file.
 * @throws the system's error
 */
export function syncFile(path: string): void {
	const file = new OpenFile(path);
	try {
		fsyncSync(file.fd);
	} finally {
		file.close();
	}
}

/** A regular file, open for reading: never a FIFO that blocks, never what a symlink points to. */
export class OpenFile {
	readonly fd: number;
	/** Bytes, when it was opened or last measured. */
	size: number;
	/** ms */
	readonly modified: number;

	/**
	 * @param changing others may replace it meanwhile, as they do a Card: what is measured is what was opened. Only for a name that a listing gave.
	 * @throws the system's error; `ENOENT` when it is gone, `EFTYPE` when it is no regular file
	 */
	constructor(path: string, changing = false) {
		// Looked at before it is opened: opening a FIFO lets its writer go on. What takes its place in between neither blocks nor leads elsewhere.
		const before = changing ? undefined : requireFile(path);
		this.fd = openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
		const { size, mtimeMs } = before ?? this.#stat(path);
		this.size = size;
		this.modified = mtimeMs;
	}

	#stat(path: string): Stats {
		const stat = fstatSync(this.fd);
		if (stat.isFile()) return stat;
		this.close();
		throw noFile(path);
	}

	/**
	 * Up to `length` bytes from `start`; fewer only at the file's end.
	 * @param into memory to use, when it is large enough: for who reads many files, fresh memory is the largest part of the time
	 */
	read(start: number, length: number, into?: Buffer): Buffer {
		const wanted = Math.max(0, Math.min(length, this.size - start));
		const buffer = into && into.length >= wanted ? into.subarray(0, wanted) : Buffer.allocUnsafe(wanted);
		let filled = 0;
		while (filled < buffer.length) {
			const count = readSync(this.fd, buffer, filled, buffer.length - filled, start + filled);
			if (count === 0) break;
			filled += count;
		}
		return filled === buffer.length ? buffer : buffer.subarray(0, filled);
	}

	/** Looks how large it is now. */
	measure(): number {
		this.size = fstatSync(this.fd).size;
		return this.size;
	}

	close(): void {
		closeSync(this.fd);
	}
}

/**
 * Up to `limit` bytes of a regular file; undefined when it has gone.
 * @throws the system's error
 */
export function readBytes(path: string, limit: number): Buffer | undefined {
	let file: OpenFile | undefined;
	try {
		file = new OpenFile(path);
		return file.read(0, limit);
	} catch (error) {
		if (errno(error) === "ENOENT") return undefined;
		throw error;
	} finally {
		file?.close();
	}
}

/** The beginning of a small regular file as text; undefined when it can't be read, for whatever reason. */
export function readBeginning(path: string, bytes: number): string | undefined {
	try {
		return readBytes(path, bytes)?.toString("utf8");
	} catch {
		return undefined;
	}
}

/** The names in a directory, in bytewise order; without those that begin with a dot unless `hidden`. None when it is not there. */
export function listNames(dir: string, hidden = false): string[] {
	if (isLink(dir)) return [];
	try {
		return readdirSync(dir)
			.filter((name) => hidden || !name.startsWith("."))
			.sort();
	} catch (error) {
		if (errno(error) === "ENOENT") return []; // a foreign or half-made Node: nothing is in a directory that is not there
		throw error;
	}
}

/** The names of the regular files in a directory without those that begin with a dot, in bytewise order; `keep` is asked before a file's type. */
export function listFiles(dir: string, keep: (name: string) => boolean = () => true): string[] {
	const names: string[] = [];
	for (const entry of readDirectory(dir)) {
		if (entry.name.startsWith(".") || !keep(entry.name)) continue;
		if (entry.name.includes("\ufffd") && !isFile(`${dir}/${entry.name}`)) continue; // not UTF-8: there is no way to name it
		// Some filesystems name no types: then, and only then, each file is asked.
		if (entry.isFile() || (!known(entry) && isFile(`${dir}/${entry.name}`))) names.push(entry.name);
	}
	return names.sort();
}

/**
 * Makes a directory of mode 0700, and those above it, unless it is there. Not Node.js's recursive mkdir, which never returns where
 * nothing can be made (`/proc/x`).
 * @throws the system's error
 */
export function makeDirectories(path: string): void {
	const make = () => {
		try {
			mkdirSync(path, { mode: 0o700 });
		} catch (error) {
			if (errno(error) !== "EEXIST" || !statSync(path).isDirectory()) throw error;
		}
	};
	try {
		make();
	} catch (error) {
		if (errno(error) !== "ENOENT" || dirname(path) === path) throw error;
		makeDirectories(dirname(path));
		make();
	}
}

/** Whether there is a regular file under this very name. */
export function isFile(path: string): boolean {
	return lstatSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
}

/** The mtime of what has this name, in ms; undefined when there is nothing. */
export function modified(path: string): number | undefined {
	return lstatSync(path, { throwIfNoEntry: false })?.mtimeMs;
}

/** Renames; false when `from` is not there any more. Makes the directory of `to` when a damaged tree lacks it. */
export function move(from: string, to: string): boolean {
	try {
		renameSync(from, to);
		return true;
	} catch (error) {
		if (errno(error) !== "ENOENT") throw error;
		if (!lstatSync(from, { throwIfNoEntry: false })) return false;
		makeDirectories(dirname(to));
	}
	try {
		renameSync(from, to);
		return true;
	} catch (error) {
		if (errno(error) === "ENOENT") return false; // somebody was first, after all
		throw error;
	}
}

function requireFile(path: string): Stats {
	const stat = lstatSync(path);
	if (stat.isFile()) return stat;
	throw noFile(path);
}

function noFile(path: string): Error {
	return Object.assign(new Error(`not a regular file: ${path}`), { code: "EFTYPE", path });
}

function readDirectory(dir: string): Dirent[] {
	if (isLink(dir)) return [];
	try {
		return readdirSync(dir, { withFileTypes: true });
	} catch (error) {
		if (errno(error) === "ENOENT") return []; // a foreign or half-made Node: nothing is in a directory that is not there
		throw error;
	}
}

/** A Node's parts are directories: what a symlink leads to is somebody else's, not to be taken or cleared away. */
function isLink(path: string): boolean {
	return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
}

function known(entry: Dirent): boolean {
	return (
		entry.isDirectory() ||
		entry.isSymbolicLink() ||
		entry.isFIFO() ||
		entry.isSocket() ||
		entry.isCharacterDevice() ||
		entry.isBlockDevice()
	);
}

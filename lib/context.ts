import { closeSync, openSync, readlinkSync, readSync } from "node:fs";
import { homedir, hostname } from "node:os";
import { isAbsolute, join, resolve } from "node:path";
import { XferError } from "./errors.ts";

/** What an instance is and what it stands on: the one place where time, randomness, host and limits come from. */
export interface Context {
	/** Absolute path of the tree. */
	readonly root: string;
	/** Unix time in ms. */
	readonly now: () => number;
	/** A clock in ms that only goes forward; its zero means nothing. */
	readonly monotonic: () => number;
	/** Bytes from a cryptographic source. */
	readonly random: (bytes: number) => Uint8Array;
	readonly host: string;
	/** The pid namespace as the live lock names it, or `-` (protocol 7). */
	readonly pidNamespace: string;
	/** This instance: 8 characters of Crockford base32. */
	readonly instance: string;
	/** fsync what is delivered (protocol 9). */
	readonly durable: boolean;
	/** Most bytes of a body (protocol 10). */
	readonly maxBytes: number;
	/** How long a taken Handoff is in hand, in ms. */
	readonly lease: number;
	/** Hops that what is sent carries at least: of what the agent that started this process works on, and one (`XFER_HOPS`, protocol 15). */
	readonly hops: number;
	/** The live lock: refreshed every `refresh` ms, stale after `stale` ms. */
	readonly lock: { readonly refresh: number; readonly stale: number };
	/** What stands between a file name and its flags. */
	readonly separator: ":" | ";";
}

export type ContextOptions = Partial<Omit<Context, "now">> & {
	/** The clock: unix time in ms. */
	readonly clock?: () => number;
	/** Where `XFER_*` are read from; `process.env` unless given. */
	readonly env?: Readonly<Record<string, string | undefined>>;
};

const digits = "0123456789abcdefghjkmnpqrstvwxyz";

/** 8 characters of Crockford base32: 40 random bits (protocol 3 and 4). */
export function unique(random: Context["random"]): string {
	const [a = 0, b = 0, c = 0, d = 0, e = 0] = random(5);
	const high = (a << 12) | (b << 4) | (c >> 4);
	const low = ((c & 15) << 16) | (d << 8) | e;
	let text = "";
	for (const part of [high, low]) for (let shift = 15; shift >= 0; shift -= 5) text += digits[(part >> shift) & 31];
	return text;
}

/** Waits for so many ms; a timer of Node.js can't wait for longer than 24 days. (`node:timers/promises` takes longer to load than most waits.) */
export function sleep(ms: number): Promise<void> {
	return new Promise((resolve) => {
		setTimeout(resolve, Math.min(ms, 2 ** 31 - 1));
	});
}

/** Bytes from the kernel. `node:crypto` reads the same source, but loading it takes a tenth of a command's time. */
function systemRandom(bytes: number): Uint8Array {
	let fd: number;
	try {
		fd = openSync("/dev/urandom", "r");
	} catch {
		return process.getBuiltinModule("node:crypto").randomBytes(bytes); // no such device here, or none to be opened
	}
	try {
		const buffer = Buffer.alloc(bytes);
		if (readSync(fd, buffer, 0, bytes, null) !== bytes) throw new Error("/dev/urandom gave too few bytes");
		return buffer;
	} finally {
		closeSync(fd);
	}
}

/** @throws {XferError} EROOT when the root is not absolute, EINPUT when a variable is not what it should be. */
export function createContext(options: ContextOptions = {}): Context {
	const { env = process.env, clock = Date.now, ...given } = options;
	const random = given.random ?? systemRandom;
	return {
		now: clock,
		monotonic: () => performance.now(),
		random,
		host: hostname(),
		pidNamespace: pidNamespace(),
		durable: env.XFER_DURABILITY !== "none",
		maxBytes: number(env, "XFER_MAX_BYTES", 1024 * 1024),
		lease: number(env, "XFER_LEASE", 600) * 1000,
		hops: number(env, "XFER_HOPS", 0),
		lock: { refresh: 5000, stale: 15_000 },
		separator: process.platform === "win32" ? ";" : ":",
		...given,
		instance: given.instance ?? givenInstance(env.XFER_INSTANCE) ?? unique(random),
		root: root(given.root ?? (env.XFER_HOME || join(homedir(), ".xfer"))),
	};
}

function root(given: string): string {
	if (isAbsolute(given)) return resolve(given);
	throw new XferError(
		"EROOT",
		`the tree's root is not an absolute path: ${given}`,
		"set XFER_HOME to an absolute path, or unset it to use ~/.xfer",
	);
}

function givenInstance(value: string | undefined): string | undefined {
	return value && /^[0-9a-hjkmnp-tv-z]{8}$/.test(value) ? value : undefined;
}

function number(env: Readonly<Record<string, string | undefined>>, key: string, standard: number): number {
	const value = env[key];
	if (!value) return standard;
	if (/^\d{1,9}$/.test(value)) return Number(value);
	throw new XferError("EINPUT", `${key} is not a whole number of at most 9 digits: ${value}`, `such as ${key}=${standard}, or unset it`);
}

function pidNamespace(): string {
	try {
		return readlinkSync("/proc/self/ns/pid");
	} catch {
		return "-"; // no /proc: nobody believes a dead pid, all go by age
	}
}

import { lstatSync, rmSync } from "node:fs";
import type { Context } from "./context.ts";
import { errno } from "./errors.ts";
import { listNames, move, OpenFile, writeNew } from "./files.ts";
import { formatHeader, headerLimit, parseHeader } from "./handoff.ts";

/** What a Node says of itself in `node.md` (protocol 8): each key may be missing, and none is proved. */
export interface Presence {
	readonly name?: string | undefined;
	readonly instance?: string | undefined;
	readonly host?: string | undefined;
	readonly pid?: string | undefined;
	/** The program that acts as this Node: `pi`, `claude`, `sh`. */
	readonly agent?: string | undefined;
	readonly model?: string | undefined;
	readonly cwd?: string | undefined;
	readonly session?: string | undefined;
	/** Path of the file that the agent keeps its session in. */
	readonly session_file?: string | undefined;
	/** `idle`, `thinking`, `tool:<name>`, `waiting`, `retrying`, `compacting`; others are kept and shown. */
	readonly status?: string | undefined;
	/** Why mail waits: `quiet`, `brake`, `digest`, `no-model`, `error`. */
	readonly holding?: string | undefined;
	/** `now`: a Handoff starts it; `turn`: it looks at its next prompt; `none`. */
	readonly wake?: string | undefined;
	/** Date of the status. */
	readonly since?: string | undefined;
	/** Date of the instance. */
	readonly started?: string | undefined;
	/** `true`: nobody chose this name, and an empty Node of it may be removed. */
	readonly derived?: string | undefined;
	/** What this Node is for, in free text. */
	readonly about?: string | undefined;
}

const keys = [
	"name",
	"instance",
	"host",
	"pid",
	"agent",
	"model",
	"cwd",
	"session",
	"session_file",
	"status",
	"holding",
	"wake",
	"since",
	"started",
	"derived",
] as const;

/** A Node's presence; empty when it has none or it can't be read. */
export function readPresence(directory: string): Presence {
	let file: OpenFile;
	try {
		file = new OpenFile(`${directory}/node.md`);
	} catch {
		return {}; // missing, a symlink, forbidden: the Node has said nothing that anybody could believe
	}
	try {
		file.measure(); // it may have been replaced since it was looked at
		const bytes = file.read(0, 2 * headerLimit);
		const header = parseHeader(bytes);
		const presence: Record<string, string> = {};
		for (const key of keys) {
			const value = header.fields.get(key);
			if (typeof value === "string") presence[key] = value;
		}
		const about = bytes.subarray(header.body).toString("utf8").trim();
		return about ? { ...presence, about } : presence;
	} finally {
		file.close();
	}
}

/** The names of a Node's presence and of what a killed writer of it left behind. */
export function presenceFiles(directory: string): string[] {
	return listNames(directory).filter((name) => name === "node.md" || /^node\.md\.\d+$/.test(name));
}

/**
 * Replaces a Node's presence whole. Not synced: losing one is harmless, the next one follows.
 * @throws the system's error
 */
export async function writePresence(directory: string, presence: Presence): Promise<void> {
	const { default: writeFileAtomic } = await import("write-file-atomic");
	const file = `${directory}/node.md`;
	// write-file-atomic replaces what a symlink points to; nobody's file outside of the tree is ours to write.
	if (lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink()) rmSync(file, { force: true });
	await writeFileAtomic(file, formatPresence(presence), { mode: 0o600, fsync: false });
}

/**
 * As `writePresence`, for a process that lives for a few ms: what that one stands on takes longer to load than all else that a hook does.
 * @param instance whose file in `tmp/` it is until then
 * @throws the system's error
 */
export function replacePresence(directory: string, presence: Presence, instance: string): void {
	const temporary = `${directory}/tmp/.node-${instance}-${process.pid}`;
	rmSync(temporary, { force: true });
	writeNew(temporary, Buffer.from(formatPresence(presence)), false);
	move(temporary, `${directory}/node.md`);
}

/** The first presence of a Node that is just being made: what is there already stays. */
export function createPresence(directory: string, presence: Presence): void {
	try {
		writeNew(`${directory}/node.md`, Buffer.from(formatPresence(presence)), false);
	} catch (error) {
		if (errno(error) !== "EEXIST") throw error;
	}
}

/** The present time as presence and headers write it. */
export function timestamp(context: Pick<Context, "now">): string {
	return new Date(context.now()).toISOString();
}

function formatPresence(presence: Presence): string {
	const header = formatHeader(keys.map((key) => [key, presence[key]]));
	return presence.about ? `${header}${presence.about.replace(/\n*$/, "\n")}` : header;
}

import { lstatSync, rmSync } from "node:fs";
import { errno } from "./errors.ts";
import { isOver, isOverdue, stateOf } from "./filename.ts";
import { isFile, listNames, writeNew } from "./files.ts";
import { removeDeadLocks } from "./lock.ts";
import { presenceFiles } from "./presence.ts";
import type { Node, Tree } from "./tree.ts";

export interface GcOptions {
	/** How long what has been read or has ended is kept after that, in ms; 30 days unless given. */
	readonly keep?: number | undefined;
	/** Say what would be done, and do nothing. */
	readonly dryRun?: boolean | undefined;
	/** Do nothing if it was done for this Node within a day. */
	readonly daily?: boolean | undefined;
}

/** What was, or would be, done for a Node. */
export interface GcReport {
	readonly node: string;
	/** Handoffs removed: read, answered, recalled, expired, replaced. */
	readonly handoffs: number;
	/** Pointers in `sent/` to what is gone. */
	readonly pointers: number;
	/** Abandoned files in `tmp/`, and of writers of presence. */
	readonly temporary: number;
	/** Live lock files of the dead. */
	readonly locks: number;
	/** Handoffs whose lease had passed, back in the Inbox. */
	readonly returned: number;
	/** Queued Handoffs that expired. */
	readonly expired: number;
	/** Whether the Node itself was removed: empty, away, and its name chosen by nobody. */
	readonly removed: boolean;
}

const day = 24 * 3600 * 1000;
/** ms after which nobody is still writing a file in `tmp/` (protocol 2). */
const abandoned = 36 * 3600 * 1000;

/**
 * Clears a Node of what has ended. Never touches what is queued (save expired ones), taken or failed.
 * Killed at any point it leaves the rest for the next time.
 */
export function collect(tree: Tree, node: Node, options: GcOptions = {}): GcReport | undefined {
	const { keep = 30 * day, dryRun = false } = options;
	const now = tree.context.now();
	const { directory, inbox } = node;
	if (options.daily && ageOf(`${directory}/.gc`, now) < day) return undefined;
	const holder = node.live();
	const mine = !holder || holder.instance === tree.context.instance;
	const remove = (path: string) => {
		if (!dryRun) rmSync(path, { force: true });
		return 1;
	};

	let returned = 0;
	let expired = 0;
	if (mine) {
		if (dryRun)
			returned = inbox
				.list({ states: (state) => state === "taken" })
				.items.filter(({ message }) => isOverdue(message.dir, message, now)).length;
		else returned = inbox.returnLeases().returned;
		for (const { message, state } of inbox.list({ states: (state) => state === "queued" || state === "expired" }).items) {
			if (state !== "expired" || stateOf(message.dir, message) !== "queued") continue;
			try {
				if (dryRun || inbox.maildir.end(message, "expired")) expired++;
			} catch (error) {
				if (errno(error) !== "ENAMETOOLONG") throw error; // no room for the word in its name: doctor says so
			}
		}
	}
	let handoffs = 0;
	for (const message of inbox.maildir.list("cur")) {
		const file = inbox.maildir.file(message);
		// The inode's change is the rename that ended it; its mtime is when it was sent.
		if (isOver(stateOf("cur", message)) && now - (lstatSync(file, { throwIfNoEntry: false })?.ctimeMs ?? now) >= keep)
			handoffs += remove(file);
	}
	let pointers = 0;
	const { sent } = node;
	const ids = sent.ids();
	const found = sent.locate(ids); // of what is a pointer; anything else in there is not ours
	for (const [id, { message, unknown }] of found) if (!message && !unknown) pointers += remove(`${directory}/sent/${id}`);
	let temporary = 0;
	const left = presenceFiles(directory).filter((name) => name !== "node.md");
	for (const name of [...listNames(`${directory}/tmp`, true).map((name) => `tmp/${name}`), ...left]) {
		const file = `${directory}/${name}`;
		if (isFile(file) && ageOf(file, now) > abandoned) temporary += remove(file);
	}
	const locks = removeDeadLocks(tree.context, directory, abandoned, dryRun);

	const { presence, lastSeen } = node.whereabouts();
	const empty = [`${directory}/new`, `${directory}/cur`, `${directory}/tmp`, `${directory}/sent`].every(
		(path) => listNames(path, true).length === 0,
	);
	const removed = !options.daily && presence.derived === "true" && !holder && empty && now - (lastSeen ?? now) >= keep;
	if (removed && !dryRun) tree.leave(node.name);
	else if (!dryRun) {
		rmSync(`${directory}/.gc`, { force: true }); // never written through a symlink
		writeNew(`${directory}/.gc`, Buffer.alloc(0), false);
	}
	return { node: node.name, handoffs, pointers, temporary, locks, returned, expired, removed };
}

function ageOf(path: string, now: number): number {
	return now - (lstatSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Number.NEGATIVE_INFINITY);
}

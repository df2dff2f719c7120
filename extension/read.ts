import { XferError } from "../lib/errors.ts";
import type { Shown } from "../lib/fence.ts";
import { shellWord, shortId } from "../lib/filename.ts";
import { OpenFile } from "../lib/files.ts";
import type { Inbox, Listed } from "../lib/inbox.ts";
import { readWhole } from "../lib/reading.ts";
import type { Here } from "./here.ts";

/** Bytes that are shown of a text over the size limit. */
const beginning = 4096;
/** States in which a Handoff is nobody's work any more, and is not shown as such. */
const over = new Set(["expired", "recalled", "replaced", "unreadable"]);

/** A Handoff that was asked for. */
export interface Opened<T> {
	readonly shown: Shown;
	/** What the take gave, when it waited; undefined when it was only looked at. */
	readonly taken: T | undefined;
	/** What to know beside its text. */
	readonly note: string | undefined;
}

/**
 * Opens the Handoff that a piece of an id means: one that waits is taken, another is only looked at.
 * @param take takes the one with this id
 * @throws {XferError} EHANDOFF, EAMBIGUOUS, EUNREADABLE · EHELD when it has ended, or moved just now
 */
export function openHandoff<T extends Shown>({ me }: Here, piece: string, take: (id: string) => T | undefined): Opened<T> {
	const { inbox } = me.node;
	const { maxBytes, now } = me.tree.context;
	const { id } = inbox.maildir.find(piece);
	const item = look(inbox, id);
	const head = item.size > maxBytes ? readBeginning(item) : undefined; // before the take, which moves the file
	const waits = item.state === "queued" || (item.state === "taken" && (item.lease?.end ?? 0) * 1000 <= now());
	const taken = waits ? take(id) : undefined;
	const after = taken ? item : look(inbox, id);
	if (over.has(after.state)) throw new XferError("EHELD", `${shortId(id)} was ${after.state}`, "there is nothing to do about it");
	const body = head ?? taken?.body ?? readWhole(after.file, id, maxBytes)?.body;
	if (!body) throw moved(id);
	// The star stands for the marks in the file's name, which change.
	const whole = `all of it: ${shellWord(`${inbox.maildir.path}/cur/${id}`)}*`;
	const large = head && `It is ${item.size} bytes, the limit is ${maxBytes}: this is its beginning; ${whole}`;
	const note = large ?? (taken ? undefined : `It is ${after.state} already: nothing was marked.`);
	return { shown: { handoff: item, body, attempts: item.attempts }, taken, note };
}

function look(inbox: Inbox, id: string): Listed {
	const message = inbox.maildir.get(id);
	const item = message && inbox.look(message);
	if (!item) throw moved(id);
	return item;
}

function moved(id: string): XferError {
	return new XferError("EHELD", `${shortId(id)} was moved just now`, "try again");
}

function readBeginning({ file, header }: Listed): Buffer {
	const open = new OpenFile(file);
	try {
		return open.read(header.body, beginning);
	} finally {
		open.close();
	}
}

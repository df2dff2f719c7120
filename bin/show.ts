import { formatAge } from "../lib/duration.ts";
import { errno, XferError } from "../lib/errors.ts";
import { type State, shortId } from "../lib/filename.ts";
import { OpenFile } from "../lib/files.ts";
import type { Inbox, Listed } from "../lib/inbox.ts";
import type { Taken } from "../lib/taken.ts";
import { visible, visibleLines } from "../lib/visible.ts";
import { isTerminal, paint, print } from "./output.ts";

/** A Handoff that is about to be shown, and what happens to it once it was. */
export interface Shown {
	readonly handoff: Listed;
	/** Its state once it was shown. */
	readonly after: State;
	/** Path of its file now. */
	file(): string;
	/** It reached its reader. */
	done(): void;
	/** It did not. */
	release(): void;
}

/** One in hand: read once it was shown, given back else. */
export function inHand(inbox: Inbox, taken: Taken): Shown {
	let handoff: Listed | undefined;
	// A mail reader may rename it in between.
	for (let tries = 0; !handoff && tries < 10; tries++) {
		handoff = inbox.look(inbox.maildir.message("cur", taken.file.slice(taken.file.lastIndexOf("/") + 1)));
	}
	if (!handoff)
		throw new XferError("ELOST", `${shortId(taken.handoff.id)} is not in hand any more`, "xfer inbox --all shows where it stands");
	return { handoff, after: "read", file: () => taken.file, done: () => taken.done(), release: () => taken.release() };
}

/** One that is only looked at. */
export function lookedAt(inbox: Inbox, handoff: Listed): Shown {
	const file = () => inbox.maildir.file(inbox.maildir.get(handoff.id) ?? handoff.message);
	return { handoff, after: handoff.state, file, done: () => {}, release: () => {} };
}

/** Shows, then marks: what could not be shown is given back. Each is finished, whatever happens to the others. */
export function showAndMark(some: readonly Shown[], show: () => void): void {
	let failure: { error: unknown } | undefined;
	try {
		show();
	} catch (error) {
		failure = { error };
	}
	const shown = failure === undefined;
	for (const one of some) {
		try {
			if (shown) one.done();
			else one.release();
		} catch (error) {
			failure ??= { error };
		}
	}
	if (failure) throw failure.error;
}

/** Prints a Handoff: its file's own bytes, or for a person its facts, subject and text. */
export function printHandoff(one: Shown, now: number): void {
	if (!isTerminal()) {
		printBytes(one, 0);
		return;
	}
	const { from, kind, subject, id, date, re, priority, header } = one.handoff;
	const facts = [kind, priority, shortId(id), formatAge(date, now), re && `re ${shortId(re)}`].filter((fact) => fact !== undefined);
	print(`${paint("bold", `from ${visible(from)}`)} ${paint("dim", `· ${visible(facts.join(" · "))}`)}\n`);
	if (header.fields.has("subject")) print(`${paint("cyan", visible(subject))}\n`);
	print("\n");
	printText(one, 1);
}

/** Prints the text of a Handoff: its own bytes, or for a person with its control characters shown. */
export function printBody(one: Shown, fd: 1 | 2): void {
	if (fd === 2 || isTerminal()) printText(one, fd);
	else printBytes(one, one.handoff.header.body);
}

/** A Handoff for JSON. The text of one over the limit is not loaded: then `file` says where it is. */
export function document(one: Shown, limit: number): object {
	const { id, attempts, size, header, warnings } = one.handoff;
	const words = {
		id,
		state: one.after,
		attempts,
		size,
		...describe(one.handoff),
		header: Object.fromEntries(header.fields),
		warnings,
	};
	if (size > limit) return { ...words, file: one.file() };
	const body = Buffer.concat([...chunks(one, header.body)]);
	const text = body.toString("utf8");
	return { ...words, ...(Buffer.from(text).equals(body) ? { body: text } : { bodyBase64: body.toString("base64") }) };
}

/** A Handoff's own words for JSON, with dates as text. */
export function describe({ from, to, kind, subject, date, re, thread, priority, expires, key, hops }: Listed): object {
	const time = (ms: number | undefined) => (ms === undefined ? undefined : new Date(ms).toISOString());
	return { from, to, kind, subject, date: time(date), re, thread, priority, expires: time(expires), key, hops };
}

function printBytes(one: Shown, from: number): void {
	for (const chunk of chunks(one, from)) print(chunk);
}

function printText(one: Shown, fd: 1 | 2): void {
	const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
	let rest = ""; // a CR at a chunk's end, whose LF may follow
	let end = "\n";
	const put = (text: string) => {
		const whole = rest + text;
		rest = whole.endsWith("\r") ? "\r" : "";
		const now = whole.slice(0, whole.length - rest.length);
		print(visibleLines(now), fd);
		end = now.at(-1) ?? end;
	};
	for (const chunk of chunks(one, one.handoff.header.body)) put(decoder.decode(chunk, { stream: true }));
	put(decoder.decode());
	print(visibleLines(rest) + (end === "\n" && rest === "" ? "" : "\n"), fd);
}

/** Opens a file under the name that it has now: a mail reader may rename it while we look. */
function open(one: Shown): OpenFile {
	for (let tries = 0; ; tries++) {
		try {
			return new OpenFile(one.file());
		} catch (error) {
			if (errno(error) !== "ENOENT" || tries === 10) throw error;
		}
	}
}

/** A file's bytes from an offset, without holding them all. */
function* chunks(one: Shown, from: number): Generator<Buffer> {
	const file = open(one);
	try {
		for (let at = from; at < file.size; ) {
			const chunk = file.read(at, 65_536);
			if (chunk.length === 0) return;
			yield chunk;
			at += chunk.length;
		}
	} finally {
		file.close();
	}
}

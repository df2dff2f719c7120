import { OpenFile } from "../../lib/files.ts";
import { type Inbox, type Listed, type Message, shortId, type Taken, XferError } from "../../lib/index.ts";
import { type Command, timeout } from "../command.ts";
import { formatAge, parseDuration } from "../duration.ts";
import { exit } from "../errors.ts";
import { isTerminal, note, paint, print, printJson, visible, visibleLines } from "../output.ts";
import type { Session } from "../session.ts";

export const read: Command = {
	name: "read",
	usage: "[ID]",
	summary: "show the oldest Handoff, or this one, and mark it read",
	examples: [
		["xfer read", "the oldest one"],
		["xfer read k3f9q2ab --peek", "looks at it, changes nothing"],
		["f=$(xfer read --wait --take)", "the path of the next one, left in hand for a worker that ends with xfer mark"],
		["xfer read --all --budget 16000", "whole ones, as many as fit"],
	],
	options: {
		all: { type: "boolean", help: "all that are queued" },
		peek: { type: "boolean", help: "change nothing" },
		budget: { type: "string", value: "BYTES", help: "whole ones until this is used up" },
		wait: { type: "boolean", help: "wait for the next one" },
		take: { type: "boolean", help: "leave it in hand and print its path" },
		timeout,
	},
	words: [0, 1],
	completes: "ids",
	async run(session, [piece], values) {
		const { all, peek, take, wait } = values;
		const budget = values.budget === undefined ? Number.POSITIVE_INFINITY : bytes(values.budget);
		const limit = typeof values.timeout === "string" ? parseDuration(values.timeout, "--timeout") : undefined;
		if (limit !== undefined && !wait) throw new XferError("EINPUT", "--timeout goes with --wait", "add --wait, or leave it away");
		if (peek && (take || wait))
			throw new XferError("EINPUT", "--peek changes nothing: it goes with neither --take nor --wait", "leave one away");
		if (piece && (all || wait))
			throw new XferError("EINPUT", "an ID names one Handoff: it goes with neither --all nor --wait", "leave one away");
		if (take && (all || values.budget !== undefined))
			throw new XferError("EINPUT", "--take takes one: it goes with neither --all nor --budget", "leave one away");
		const node = session.node();
		const { inbox } = node;
		if (!peek) node.seen();

		let source: Iterator<Show>;
		if (piece) source = [named(session, inbox, piece, peek === true, take === true)].values();
		else if (peek) source = peeks(inbox);
		else source = takes(inbox);
		let shown: Show | undefined;
		if (wait) {
			const signal = limit === undefined ? undefined : AbortSignal.timeout(limit);
			const tell = (directory: string, reason: string) => note(`xfer: no file events in ${directory} (${reason}): looking every second`);
			const taken = await inbox.takeNext({ persistent: true, signal, onPolling: tell });
			if (!taken) {
				note(`xfer: nothing arrived for ${node.name} in time (its Inbox: ${node.directory})`);
				return exit.timeout;
			}
			shown = fromTaken(inbox, taken);
		} else shown = source.next().value;
		if (!shown) throw nothing(inbox, node.name, node.directory);

		if (take) {
			// Shown, then marked: when the path can't be printed, nobody will end what is in hand.
			const one = shown;
			ending(one, () => {
				if (session.json) printJson("xfer.read/1", { handoffs: [{ ...document(one), path: one.file() }] });
				else print(`${one.file()}\n`);
			});
			return exit.done;
		}
		let left = budget;
		const documents: object[] = [];
		const ends: Show[] = [];
		let count = 0;
		for (; shown; shown = all || values.budget !== undefined ? source.next().value : undefined) {
			const one: Show = shown;
			if (one.size > left) {
				one.release();
				break;
			}
			left -= one.size;
			count++;
			if (session.json) {
				documents.push(document(one));
				ends.push(one);
				continue;
			}
			ending(one, () => show(one, session.tree.context.now()));
			one.done();
		}
		if (session.json && count > 0) {
			try {
				printJson("xfer.read/1", { handoffs: documents, more: inbox.maildir.names("new").length });
			} catch (error) {
				for (const one of ends) one.release();
				throw error;
			}
			for (const one of ends) one.done();
		}
		const more = inbox.maildir.names("new").length - (peek && !piece ? count : 0);
		if (count === 0) {
			note(`xfer: nothing fits into ${budget} bytes: ${more} remain (raise --budget, or read one by its ID: xfer inbox)`);
			return exit.missing;
		}
		if (more > 0 && !session.json) note(all || values.budget !== undefined ? `${more} remain` : `${more} more`);
		return exit.done;
	},
};

/** One Handoff that is about to be shown, and what happens once it was. */
interface Show {
	readonly handoff: Listed;
	/** bytes */
	readonly size: number;
	file(): string;
	done(): void;
	release(): void;
}

/** Acts, and gives the Handoff back when that fails. */
function ending(one: Show, act: () => void): void {
	try {
		act();
	} catch (error) {
		one.release();
		throw error;
	}
}

function* takes(inbox: Inbox): Generator<Show, undefined> {
	for (let taken = inbox.take(); taken; taken = inbox.take()) yield fromTaken(inbox, taken);
	return undefined;
}

function* peeks(inbox: Inbox): Generator<Show, undefined> {
	for (const handoff of inbox.list({ states: (state) => state === "queued" }).items) yield looked(inbox, handoff);
	return undefined;
}

function fromTaken(inbox: Inbox, taken: Taken): Show {
	const handoff = inbox.look(inbox.maildir.message("cur", taken.file.slice(taken.file.lastIndexOf("/") + 1)));
	if (!handoff) throw new XferError("ELOST", `${shortId(taken.handoff.id)} is not in hand any more`);
	return {
		handoff,
		size: handoff.header.body + handoff.size,
		file: () => taken.file,
		done: () => taken.done(),
		release: () => taken.release(),
	};
}

function looked(inbox: Inbox, handoff: Listed): Show {
	const file = () => inbox.maildir.file(inbox.maildir.find(handoff.id));
	return { handoff, size: handoff.header.body + handoff.size, file, done: () => {}, release: () => {} };
}

/** The one that was named: taken if it is queued, else shown as it stands. */
function named({ instance }: Session, inbox: Inbox, piece: string, peek: boolean, take: boolean): Show {
	const message = inbox.maildir.find(piece);
	const handoff = inbox.look(message);
	if (!handoff) throw new XferError("EHELD", `${shortId(message.id)} was moved just now`, "try again");
	const over = handoff.state === "taken" && (handoff.lease?.end ?? 0) * 1000 <= Date.now();
	if (peek || !(handoff.state === "queued" || over)) {
		const mine = handoff.lease !== undefined && handoff.lease.instance === instance;
		if (!peek && handoff.state === "taken" && !mine) {
			throw new XferError(
				"EHELD",
				`${shortId(message.id)} is in the hand of ${handoff.lease?.instance}`,
				"look with --peek; it comes back when that one's lease ends",
			);
		}
		if (take && !mine)
			throw new XferError(
				"EHELD",
				`${shortId(message.id)} is ${handoff.state}: there is nothing to take`,
				`xfer mark ${shortId(message.id)} new gives it back first`,
			);
		if (!peek && !mine) note(`xfer: ${shortId(message.id)} is ${handoff.state} already: nothing is marked`);
		return looked(inbox, handoff);
	}
	const taken = inbox.take({ message });
	if (taken) return fromTaken(inbox, taken);
	const now: Message = inbox.maildir.find(message.id);
	throw new XferError("EHELD", `${shortId(message.id)} is ${inbox.look(now)?.state ?? "gone"} just now`, "look with --peek");
}

function nothing(inbox: Inbox, name: string, directory: string): XferError {
	const { items } = inbox.list({ states: (state) => state === "queued" });
	const [large] = items;
	if (large)
		return new XferError(
			"EHANDOFF",
			`nothing to read unasked: ${items.length} too large for it`,
			`name it: xfer read ${shortId(large.id)} --as ${name}; it is ${large.size} bytes`,
		);
	return new XferError("EHANDOFF", `nothing to read for ${name}`, `its Inbox is ${directory}`);
}

function show(one: Show, now: number): void {
	const file = new OpenFile(one.file());
	try {
		if (!isTerminal()) {
			copy(file, 1, 0);
			return;
		}
		const { from, kind, subject, id, date, re, priority, header } = one.handoff;
		const facts = [kind, priority, shortId(id), formatAge(date, now), re && `re ${shortId(re)}`].filter((fact) => fact !== undefined);
		print(`${paint("bold", `from ${visible(from)}`)} ${paint("dim", `· ${visible(facts.join(" · "))}`)}\n`);
		if (header.fields.has("subject")) print(`${paint("cyan", visible(subject))}\n`);
		const body = file.read(header.body, file.size).toString("utf8");
		print(`\n${visibleLines(body)}${body.endsWith("\n") ? "" : "\n"}`);
	} finally {
		file.close();
	}
}

/** Copies a file's bytes from an offset to standard output (1) or error (2), without holding them all. */
export function copy(file: OpenFile, fd: 1 | 2, from: number): void {
	for (let at = from; at < file.size; ) {
		const chunk = file.read(at, 65_536);
		if (chunk.length === 0) break;
		print(chunk, fd);
		at += chunk.length;
	}
}

function document(one: Show): object {
	const { id, state, attempts, size, header } = one.handoff;
	const file = new OpenFile(one.file());
	try {
		const body = file.read(header.body, file.size);
		const text = body.toString("utf8");
		const content = Buffer.from(text).equals(body) ? { body: text } : { bodyBase64: body.toString("base64") };
		return {
			id,
			state,
			attempts,
			size,
			...describe(one.handoff),
			header: Object.fromEntries(header.fields),
			warnings: header.warnings,
			...content,
		};
	} finally {
		file.close();
	}
}

/** A Handoff's own words for JSON, with dates as text. */
export function describe({ from, to, kind, subject, date, re, thread, priority, expires, key, hops }: Listed): object {
	const time = (ms: number | undefined) => (ms === undefined ? undefined : new Date(ms).toISOString());
	return { from, to, kind, subject, date: time(date), re, thread, priority, expires: time(expires), key, hops };
}

function bytes(text: string | boolean): number {
	if (typeof text === "string" && /^\d{1,12}$/.test(text)) return Number(text);
	throw new XferError("EINPUT", `--budget ${text} is not a number of bytes`, "such as --budget 16000");
}

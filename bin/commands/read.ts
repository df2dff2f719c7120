import { parseDuration, timeoutSignal } from "../../lib/duration.ts";
import { XferError } from "../../lib/errors.ts";
import { shellWord, shortId } from "../../lib/filename.ts";
import type { Inbox } from "../../lib/inbox.ts";
import { visible } from "../../lib/visible.ts";
import { type Command, timeout, type Values } from "../command.ts";
import { exit } from "../errors.ts";
import { isTerminal, note, print, printJson, tellPolling } from "../output.ts";
import type { Session } from "../session.ts";
import { document, inHand, lookedAt, printHandoff, type Shown, showAndMark } from "../show.ts";

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
		if (limit !== undefined && !wait) refuse("--timeout goes with --wait", "add --wait, or leave it away");
		if (peek && (take || wait)) refuse("--peek changes nothing: it goes with neither --take nor --wait");
		if (piece && (all || wait)) refuse("an ID names one Handoff: it goes with neither --all nor --wait");
		if (take && (all || values.budget !== undefined)) refuse("--take takes one: it goes with neither --all nor --budget");
		const node = session.node();
		const { inbox } = node;
		const { maxBytes } = session.tree.context;
		if (wait) {
			const signal = limit === undefined ? undefined : timeoutSignal(limit);
			const taken = await inbox.takeNext({ persistent: true, signal, onPolling: tellPolling });
			if (!taken) {
				note(`xfer: nothing arrived for ${node.name} in time (its Inbox: ${node.directory})`);
				return exit.timeout;
			}
			node.seen();
			show(session, [inHand(inbox, taken)], take === true);
			return exit.done;
		}
		const many = all === true || values.budget !== undefined;
		let left = budget;
		let count = 0;
		const together: Shown[] = []; // one JSON document holds them all
		const source = piece
			? [named(session, inbox, piece, peek === true, take === true)].values()
			: peek
				? peeks(inbox, maxBytes)
				: takes(inbox, () => left);
		try {
			for (const one of source) {
				const size = one.handoff.header.body + one.handoff.size;
				if (size > left) {
					one.release();
					break;
				}
				left -= size;
				count++;
				if (!peek) node.seen();
				if (session.json) together.push(one);
				else show(session, [one], take === true);
				if (!many) break;
			}
		} catch (error) {
			showAndMark(together, () => {
				throw error; // none of them will be shown
			});
		}
		const waiting = inbox.maildir.names("new").length - (peek && !piece ? count : 0);
		if (count === 0) {
			if (waiting === 0 || budget === Number.POSITIVE_INFINITY) throw nothing(inbox, node.name, node.directory);
			note(`xfer: nothing fits into ${budget} bytes: ${waiting} remain (raise --budget, or read one by its ID: xfer inbox)`);
			return exit.missing;
		}
		if (session.json) show(session, together, take === true, waiting);
		else if (waiting > 0 && !take) note(many ? `${waiting} remain` : `${waiting} more`);
		return exit.done;
	},
};

/** Shows and marks; with `take` the path is all that is shown, and what is in hand stays there. */
function show({ json, tree }: Session, some: readonly Shown[], take: boolean, more?: number): void {
	const { maxBytes, now } = tree.context;
	const shown = take ? some.map((one): Shown => ({ ...one, after: "taken", done: () => {} })) : some;
	showAndMark(shown, () => {
		if (json) {
			const handoffs = shown.map((one) => ({ ...document(one, maxBytes), ...(take && { path: one.file() }) }));
			printJson("xfer.read/1", { handoffs, more });
		} else if (take) for (const one of some) print(`${isTerminal() ? visible(one.file()) : one.file()}\n`);
		else for (const one of some) printHandoff(one, now());
	});
}

function* takes(inbox: Inbox, left: () => number): Generator<Shown, undefined> {
	for (let taken = inbox.take({ within: left() }); taken; taken = inbox.take({ within: left() })) yield inHand(inbox, taken);
	return undefined;
}

function* peeks(inbox: Inbox, limit: number): Generator<Shown, undefined> {
	for (const handoff of inbox.survey({ states: (state) => state === "queued" }).items)
		if (handoff.size <= limit) yield lookedAt(inbox, handoff);
	return undefined;
}

/** The one that was named: taken if it is queued, else shown as it stands. */
function named({ instance, json, tree }: Session, inbox: Inbox, piece: string, peek: boolean, take: boolean): Shown {
	const message = inbox.maildir.find(piece);
	const short = shortId(message.id);
	const handoff = inbox.look(message);
	if (!handoff) throw new XferError("EHELD", `${short} was moved just now`, "try again");
	const { state, lease } = handoff;
	const over = state === "taken" && (lease?.end ?? 0) * 1000 <= tree.context.now();
	if (json && handoff.size > tree.context.maxBytes && !take) {
		note(`xfer: ${short} is ${handoff.size} bytes, too many for JSON: read its file, then xfer mark ${shellWord(short)} read`);
		return lookedAt(inbox, handoff);
	}
	if (!peek && (state === "queued" || over)) {
		const taken = inbox.take({ message });
		if (taken) return inHand(inbox, taken);
		throw new XferError(
			"EHELD",
			`${short} is ${inbox.look(inbox.maildir.get(message.id) ?? message)?.state ?? "gone"} just now`,
			"look with --peek",
		);
	}
	const mine = lease !== undefined && lease.instance === instance;
	if (!peek && !mine) {
		if (state === "taken")
			throw new XferError(
				"EHELD",
				`${short} is in the hand of ${lease?.instance}`,
				"look with --peek; it comes back when that one's lease ends",
			);
		if (take)
			throw new XferError(
				"EHELD",
				`${short} is ${state}: there is nothing to take`,
				`xfer mark ${shellWord(short)} new gives it back first`,
			);
		note(`xfer: ${short} is ${state} already: nothing is marked`);
	}
	return lookedAt(inbox, handoff);
}

function nothing(inbox: Inbox, name: string, directory: string): XferError {
	const [large, ...others] = inbox.list({ states: (state) => state === "queued" }).items;
	if (!large) return new XferError("EHANDOFF", `nothing to read for ${name}`, `its Inbox is ${directory}`);
	const many = others.length > 0 ? `, and ${others.length} others` : "";
	return new XferError(
		"EHANDOFF",
		`nothing to read unasked: ${shortId(large.id)} is ${large.size} bytes${many}`,
		`name it: xfer read ${shellWord(shortId(large.id))} --as ${name}`,
	);
}

function refuse(what: string, cure = "leave one away"): never {
	throw new XferError("EINPUT", what, cure);
}

function bytes(text: Values[string]): number {
	if (typeof text === "string" && /^\d{1,12}$/.test(text)) return Number(text);
	throw new XferError("EINPUT", `--budget ${text} is not a number of bytes`, "such as --budget 16000");
}

import { formatInjection, type Hints, mostLines } from "../fence.ts";
import { compare, shellWord } from "../filename.ts";
import type { Handoff } from "../handoff.ts";
import type { Listed } from "../inbox.ts";
import { floods, isWork, joins, type Moment, wakes } from "../interrupt.ts";
import type { Taken } from "../taken.ts";
import type { Node, Tree } from "../tree.ts";

/** What joins an agent's context now: in hand, until it was shown or could not be. */
export interface Offer {
	readonly text: string;
	readonly shown: readonly Taken[];
	/** What is named because it came in a flood, or is too large: it waits to be asked for. */
	readonly digest: readonly Handoff[];
	/** Most hops of it. */
	readonly hops: number;
}

export interface OfferOptions {
	readonly moment: Moment;
	/** Most bytes. */
	readonly limit: number;
	/** Only if something of it starts a run, or prolongs one. */
	readonly waking: boolean;
	/** What was named before. */
	readonly named: ReadonlySet<string>;
}

/** Most Handoffs that are looked at. */
const most = 200;
/** Bytes that stand around a text, and around all of them. */
const around = 500;
const reserve = 4096;

/**
 * What joins now (protocol 15), each in the hand of this instance alone; undefined when nothing does.
 * @throws {XferError} EHELD when another instance is live on this Node · the system's error. Then nothing is in hand.
 */
export function offer(tree: Tree, node: Node, { moment, limit, waking, named }: OfferOptions): Offer | undefined {
	const now = tree.context.now();
	const { inbox } = node;
	const { items, counts } = inbox.list({ states: (state) => state === "queued", except: named, limit: most });
	const flooding = floods(items);
	const isDigest = ({ from, priority, size }: Listed) => (flooding.has(from) && priority !== "urgent") || size > tree.context.maxBytes;
	const fresh = items.filter((item) => joins(item, moment, now));
	if (fresh.length === 0 || (waking && !fresh.some(wakes))) return undefined;
	const digest = fresh.filter(isDigest);
	const candidates = fresh
		.filter((item) => !isDigest(item))
		.sort((a, b) => Number(b.priority === "urgent") - Number(a.priority === "urgent") || compare(a.id, b.id));
	const shown: Taken[] = [];
	let size = 0;
	let works = false;
	for (const item of candidates) {
		if ((isWork(item) && works) || (shown.length > 0 && size + item.size + around > limit - reserve)) continue;
		let taken: Taken | undefined;
		try {
			taken = inbox.take({ message: item.message });
		} catch {
			continue; // it can't be read, or renamed: it hides no other, and doctor tells
		}
		if (!taken) continue; // somebody was first
		shown.push(taken);
		size += item.size + around;
		works ||= isWork(item);
	}
	const woken = [...shown.map(({ handoff }) => handoff), ...digest].some(wakes);
	if ((shown.length === 0 && digest.length === 0) || (waking && !woken)) {
		for (const taken of shown) taken.release();
		return undefined;
	}
	const inHand = new Set(shown.map(({ handoff }) => handoff.id));
	const others = items.filter(({ id }) => !inHand.has(id));
	const waiting = others.slice(0, mostLines);
	const hints = hintsFor(node.name);
	const rest = (counts.queued ?? 0) - shown.length - waiting.length;
	const text = formatInjection({ me: node.name, shown, waiting, more: rest, moment, now, hints, limit });
	return { text, shown, digest, hops: Math.max(0, ...shown.map(({ handoff }) => handoff.hops), ...digest.map(({ hops }) => hops)) };
}

/** How an agent with a shell answers and reads. */
function hintsFor(name: string): Hints {
	return {
		reply: (id) => `xfer reply ${shellWord(id)} "…" --as ${name}`,
		read: (id) => `xfer read ${shellWord(id)} --as ${name}`,
	};
}

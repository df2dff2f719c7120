import { existsSync } from "node:fs";
import type { ExtensionAPI, ExtensionContext, SessionBoundaryDraft } from "@earendil-works/pi-coding-agent";
import { Doorbell } from "../lib/doorbell.ts";
import { formatInjection, type Hints, mostLines, oneLine, type Shown, textLimit } from "../lib/fence.ts";
import { compare, idOf } from "../lib/filename.ts";
import type { Handoff } from "../lib/handoff.ts";
import type { Listed } from "../lib/inbox.ts";
import { floods, isWork, joins, type Moment, mostHops, wakes } from "../lib/interrupt.ts";
import type { Taken } from "../lib/taken.ts";
import { hasModel, messageType } from "./here.ts";
import type { Participant } from "./participant.ts";

/** What an injected message holds: by this the session knows what it has been shown. */
export interface Details {
	readonly handoffs: readonly Pick<Handoff, "id" | "from" | "kind" | "subject" | "date">[];
	/** The ids of what it only names. */
	readonly named: readonly string[];
}

interface Message {
	readonly customType: string;
	readonly content: string;
	readonly display: true;
	readonly details: Details;
}

/** What was taken, as it is offered to pi. */
interface Offer {
	readonly message: Message;
	readonly shown: readonly Shown[];
	/** Whether a run is to start, or to go on, for it. */
	readonly wakes: boolean;
}

/** Why mail waits, as `node.md` says it. */
export type Holding = "quiet" | "brake" | "digest" | "no-model" | "error";

/** How this agent answers and reads. */
export const hints: Hints = {
	reply: (id) => `xfer_to with re "${id}" (or: xfer reply ${id} "…")`,
	read: (id, offset) => `xfer_read with id "${id}"${offset ? `, offset ${offset}` : ""}`,
};

/** ms from the start of a session to its first injection: before, a run would make the person's own first prompt fail. */
const startDelay = 400;
/** ms after an aborted run: it may be the first half of a change of session, and what is appended now would go down with the old one. */
const abortDelay = 250;
/** ms without runs of our own after one that ended in an error: else a model that is down would be sent all of the Inbox. */
const errorPause = 60_000;
/** Most Handoffs that are looked at for one injection. */
const most = 200;
const minute = 60_000;
/** Bytes that stand around a text. */
const around = 500;

/** The person wants no mail now: in this process, whichever session it has. `/reload` evaluates this module anew, and is not to undo it. */
const quietKey = Symbol.for("xfer.quiet");
const wish: { [quietKey]?: boolean } = globalThis as object;

/**
 * From the Inbox into the session. What joins is taken, offered to pi, and marked read once the session's entries hold it (protocol 15);
 * what they do not hold in the end is given back.
 */
export class Inbound {
	readonly #pi: ExtensionAPI;
	readonly #context: ExtensionContext;
	readonly #me: Participant;
	readonly #changed: () => void;
	readonly #bell: Doorbell;
	/** Offered to pi, and not yet seen in the session. */
	readonly #hand = new Map<string, { taken: Taken; renewed: number }>();
	/** Named in a digest: these wait to be asked for. */
	readonly #digested = new Set<string>();
	/** When a sender's last digest was, unix ms. */
	readonly #digests = new Map<string, number>();
	/** Who was shown in the last minute. */
	#recent: { from: string; date: number }[] = [];
	/** Named to this session. */
	readonly #named = new Set<string>();
	#timer: NodeJS.Timeout | undefined;
	/** Not before this, on the monotonic clock. */
	#notBefore: number;
	/** The person stopped the last run: what comes starts none until the next. */
	#aborted = false;
	/** Work was appended since. */
	#appended = false;
	#failed = false;
	#braked = false;

	constructor(pi: ExtensionAPI, context: ExtensionContext, me: Participant, changed: () => void) {
		this.#pi = pi;
		this.#context = context;
		this.#me = me;
		this.#changed = changed;
		this.#notBefore = performance.now() + startDelay;
		this.#bell = new Doorbell(`${me.node.directory}/new`, (name) => this.#ring(name));
		this.#soon(startDelay);
	}

	/** Whether mail is held back because the person wants it so. */
	get quiet(): boolean {
		return wish[quietKey] === true;
	}

	set quiet(on: boolean) {
		wish[quietKey] = on;
		if (!on) this.#aborted = false;
		this.#soon(0);
	}

	/** Why mail waits, if something holds it. */
	get holding(): Holding | undefined {
		if (this.quiet) return "quiet";
		if (!hasModel(this.#context)) return "no-model";
		if (this.#failed) return "error";
		if (this.#digested.size > 0) return "digest";
		return this.#braked ? "brake" : undefined;
	}

	/** How many wait. */
	count(): number {
		return this.#me.node.inbox.maildir.names("new").length;
	}

	/** How many wait, and since when, unix ms. */
	waiting(): { count: number; oldest: number } {
		const { items, counts } = this.#me.node.inbox.list({ states: (state) => state === "queued", limit: most });
		// Some that lie in new/ may have expired.
		return { count: items.length < most ? items.length : (counts.queued ?? 0), oldest: items[0]?.date ?? 0 };
	}

	/** What joins at a boundary of a run, as what pi is to append there, and whether the run goes on for it. */
	boundary(
		moment: "turn" | "end",
		entries: readonly SessionBoundaryDraft[],
	): { entries: SessionBoundaryDraft[]; continue: boolean } | undefined {
		this.confirm();
		if (this.quiet) return undefined;
		const offer = this.#offer(moment, !this.#context.hasPendingMessages()); // what a person typed goes first
		return offer && { entries: [...entries, { type: "custom_message", ...offer.message }], continue: offer.wakes };
	}

	/** A run has begun: whatever held mail back before it is over. */
	started(): void {
		this.#aborted = false;
		this.#appended = false;
		this.#braked = false;
		this.#changed();
	}

	/** A turn has ended in an error, or has not. */
	turned(failed: boolean): void {
		if (failed || this.#failed) this.#notBefore = failed ? performance.now() + errorPause : 0;
		this.#failed = failed;
		this.confirm();
	}

	/** A run has ended. What another extension kept out of the session goes back into the Inbox, and comes again by another way. */
	settled(aborted: boolean): void {
		this.confirm();
		this.#giveBack(this.#inSession());
		this.#aborted = aborted;
		if (this.#failed) this.#soon(errorPause);
		else this.#soon(aborted ? abortDelay : 0);
		this.#changed();
	}

	/** Looks for mail soon: something that may have held it back has changed. */
	look(): void {
		this.#soon(20);
	}

	/** Takes one that is asked for; it counts as read when the session holds an entry with its id in `details.handoffs`. */
	take(piece: string): Shown | undefined {
		const { inbox } = this.#me.node;
		const taken = inbox.take({ message: inbox.maildir.find(piece) });
		if (!taken) return undefined;
		this.#digested.delete(taken.handoff.id);
		this.#keep(taken);
		return taken;
	}

	/** Marks read what the session's entries hold, once they are on the disk: before anybody has spoken in it, pi keeps a session in memory. */
	confirm(): void {
		if (this.#hand.size === 0 || !this.#isSaved()) return;
		const held = this.#inSession();
		for (const [id, { taken }] of this.#hand) if (held.has(id)) this.#finish(id, () => taken.done());
	}

	/** The session ends: what it does not hold goes back, and all of it when nothing was saved. */
	close(): void {
		this.#bell.close();
		clearTimeout(this.#timer);
		this.#timer = undefined;
		this.confirm();
		this.#giveBack(new Set());
	}

	#ring(name: string | undefined): void {
		this.#soon(20);
		if (name !== undefined) return;
		// The sweep. In an idle session nothing is on its way: what it does not hold by now it will not.
		this.confirm();
		if (this.#context.isIdle()) this.#giveBack(this.#inSession());
		this.#renew();
	}

	/** An exception in a timer would end pi. */
	#soon(ms: number): void {
		clearTimeout(this.#timer);
		this.#timer = setTimeout(() => {
			try {
				this.#push();
			} catch {
				this.#changed(); // a tree that can't be read just now: the bell rings again in a few seconds
			}
		}, ms);
		this.#timer.unref();
	}

	/** Into an idle session. */
	#push(): void {
		this.#changed();
		const { mode, ui } = this.#context;
		const late = this.#notBefore - performance.now();
		if ((mode !== "tui" && mode !== "rpc") || !hasModel(this.#context) || this.quiet || !this.#context.isIdle()) return;
		const typing = mode === "tui" && ui.getEditorText().trim() !== ""; // what a person types goes first
		if (late > 0 || typing) {
			this.#soon(Math.max(late + 1, typing ? 1000 : 0));
			return;
		}
		if (!this.#me.live.lock.held()) return;
		this.confirm();
		this.#failed = false;
		const offer = this.#offer("idle", !(this.#aborted && this.#appended));
		if (!offer) return;
		const start = offer.wakes && !this.#aborted;
		if (!start) this.#appended ||= offer.shown.some(({ handoff }) => isWork(handoff));
		this.#pi.sendMessage(offer.message, start ? { triggerTurn: true } : undefined);
		if (start) return;
		this.confirm(); // there is no turn that would
		this.#soon(20); // more of it may join
	}

	/** What joins now, in hand; undefined when nothing does, or the Inbox can't be read: then the bell rings again in a few seconds. */
	#offer(moment: Moment, work: boolean): Offer | undefined {
		try {
			return this.#gather(moment, work);
		} catch {
			return undefined; // what was taken by then is given back when the run has ended
		}
	}

	#gather(moment: Moment, work: boolean): Offer | undefined {
		const now = this.#me.tree.context.now();
		const { inbox } = this.#me.node;
		this.#forget();
		const { items, counts } = inbox.list({ states: (state) => state === "queued", except: this.#digested, limit: most });
		if (items.length < most && (counts.queued ?? 0) > items.length + this.#digested.size) this.#endExpired();
		this.#recent = this.#recent.filter(({ date }) => now - date < minute);
		const flooding = floods([...items, ...this.#recent]);
		const isDigest = ({ from, priority, size }: Listed) =>
			(flooding.has(from) && priority !== "urgent") || size > this.#me.tree.context.maxBytes;
		const fresh = items.filter((item) => joins(item, moment, now));
		const digest = fresh.filter((item) => isDigest(item) && now - (this.#digests.get(item.from) ?? 0) >= minute);
		const candidates = fresh
			.filter((item) => !isDigest(item) && (work || !isWork(item)))
			.sort((a, b) => Number(b.priority === "urgent") - Number(a.priority === "urgent") || compare(a.id, b.id));
		const shown: (Taken & Shown)[] = [];
		let size = 0;
		let has = false;
		for (const item of candidates) {
			if ((isWork(item) && has) || (shown.length > 0 && size + item.size + around > textLimit)) continue;
			const taken = this.#takeNew(item);
			if (!taken) continue;
			shown.push(taken);
			size += item.size + around;
			has ||= isWork(item);
		}
		if (shown.length === 0 && digest.length === 0) return undefined;
		for (const { id, from } of digest) {
			this.#digested.add(id);
			this.#digests.set(from, now);
		}
		this.#recent.push(...shown.map(({ handoff }) => ({ from: handoff.from, date: now })));
		const inHand = new Set(shown.map(({ handoff }) => handoff.id));
		const others = items.filter((item) => !inHand.has(item.id));
		const waiting = others.filter((item) => !this.#named.has(item.id)).slice(0, mostLines); // each is named once
		for (const { id } of waiting) this.#named.add(id);
		const content = formatInjection({
			me: this.#me.name,
			shown,
			waiting,
			more: (counts.queued ?? 0) - shown.length - waiting.length,
			moment,
			now,
			hints,
		});
		const handoffs = shown.map(({ handoff }) => describe(handoff));
		const all: readonly Handoff[] = [...shown.map(({ handoff }) => handoff), ...digest];
		this.#me.worksOn(Math.max(...all.map(({ hops }) => hops)), moment === "idle");
		this.#braked ||= all.some(({ hops }) => hops > mostHops);
		this.#changed();
		return {
			message: { customType: messageType, content, display: true, details: { handoffs, named: waiting.map(({ id }) => id) } },
			shown,
			wakes: all.some(wakes),
		};
	}

	/** What was named in a digest and waits no more was read, or has ended. */
	#forget(): void {
		if (this.#digested.size === 0) return;
		const queued = new Set(this.#me.node.inbox.maildir.names("new").map(idOf));
		for (const id of this.#digested) if (!queued.has(id)) this.#digested.delete(id);
	}

	/** What has expired is no work, and would be counted as what waits: a take ends it. */
	#endExpired(): void {
		const { inbox } = this.#me.node;
		for (const message of inbox.maildir.list("new")) if (inbox.look(message)?.state === "expired") this.#takeNew({ message });
	}

	/** Takes one that this session has not been shown: one that it holds already is only marked. */
	#takeNew(item: Pick<Listed, "message">): Taken | undefined {
		let taken: Taken | undefined;
		try {
			taken = this.#me.node.inbox.take({ message: item.message });
		} catch {
			return undefined; // it can't be read, or renamed: it hides no other, and doctor tells
		}
		if (!taken) return undefined;
		this.#keep(taken);
		if (!this.#inSession().has(taken.handoff.id)) return taken;
		this.confirm();
		return undefined;
	}

	#keep(taken: Taken): void {
		this.#hand.set(taken.handoff.id, { taken, renewed: performance.now() });
	}

	/** @param held what stays in hand */
	#giveBack(held: ReadonlySet<string>): void {
		for (const [id, { taken }] of this.#hand) if (!held.has(id)) this.#finish(id, () => taken.release());
	}

	#isSaved(): boolean {
		const file = this.#context.sessionManager.getSessionFile();
		return file === undefined || existsSync(file);
	}

	#finish(id: string, step: () => void): void {
		try {
			step();
		} catch {
			// its lease has ended, or the tree can't be written: then it is shown again, which is better than never
		}
		this.#hand.delete(id);
	}

	/** A model may think for longer than a lease. */
	#renew(): void {
		const { lease } = this.#me.tree.context;
		for (const [id, one] of this.#hand) {
			if (performance.now() - one.renewed < lease / 3) continue;
			try {
				one.taken.renew();
				one.renewed = performance.now();
			} catch {
				this.#hand.delete(id); // lost: somebody else has it
			}
		}
	}

	/** The ids of what the session has been shown, by injection or by a tool. */
	#inSession(): Set<string> {
		const ids = new Set<string>();
		for (const entry of this.#context.sessionManager.getEntries()) {
			const details =
				entry.type === "custom_message" && entry.customType === messageType
					? entry.details
					: entry.type === "message" && entry.message.role === "toolResult" && entry.message.toolName === "xfer_read"
						? entry.message.details
						: undefined;
			const handoffs = (details as Partial<Details> | undefined)?.handoffs; // a session file may hold anything
			if (Array.isArray(handoffs)) for (const one of handoffs) if (typeof one?.id === "string") ids.add(one.id);
		}
		return ids;
	}
}

/** A Handoff as a session keeps it, and a screen shows it. */
export function describe({ id, from, kind, subject, date }: Handoff): Details["handoffs"][number] {
	return { id, from: oneLine(from, 63), kind: oneLine(kind, 32), subject: oneLine(subject, 200), date };
}

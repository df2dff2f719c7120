import { lstatSync } from "node:fs";
import type { Context } from "./context.ts";
import { Doorbell } from "./doorbell.ts";
import { errno, XferError } from "./errors.ts";
import { attemptsOf, compare, idOf, isOverdue, isTimed, type Lease, leaseOf, type State, shortId, stateOf } from "./filename.ts";
import { isFile } from "./files.ts";
import { type Handoff, readHandoff } from "./handoff.ts";
import { whoIsLive } from "./lock.ts";
import { Maildir, type Message } from "./maildir.ts";
import { readHead, readWhole } from "./reading.ts";
import { type Bounce, hold, type Taken } from "./taken.ts";
import { type WatchOptions, watchMaildir } from "./watch.ts";

/** A Handoff in an Inbox as a look shows it: its header and where it stands, never its body. */
export interface Listed extends Handoff {
	readonly state: State;
	/** How often it was in hand before. */
	readonly attempts: number;
	readonly lease: Lease | undefined;
	/** Bytes of the body. */
	readonly size: number;
	/** Path of the file: right until somebody renames it. */
	readonly file: string;
	readonly message: Message;
}

/** How many Handoffs of an Inbox are in each state. */
export type Counts = Readonly<Record<string, number>>;

export interface ListOptions {
	/** Only these states; those that wait for somebody unless given: queued, taken, failed, unreadable. */
	readonly states?: ((state: State) => boolean) | undefined;
	/** Queued ones to leave out, by their ids: they are counted, and not read. */
	readonly except?: ReadonlySet<string> | undefined;
	/** Most Handoffs to read the headers of; 0 is no limit. */
	readonly limit?: number | undefined;
}

export interface TakeOptions {
	/** Take this one, whatever its size; else the oldest queued. */
	readonly message?: Message | undefined;
	/** Nothing when the oldest one is larger than this many bytes, with its header. */
	readonly within?: number | undefined;
}

/** The order in which a person needs to see states. */
const order: readonly State[] = ["queued", "taken", "failed", "unreadable"];
/** ms for which a listing of `new/` serves takes, and after which `cur/` is looked at for ended leases. */
const listingServes = 1000;
const sweepEvery = 30_000;

/** The Inbox of a Node: the maildir, and what the headers in it mean. */
export class Inbox {
	readonly maildir: Maildir;
	readonly #context: Context;
	readonly #bounce: Bounce;
	#waiting: string[] = [];
	/** What a mail reader moved to `cur/` unread. */
	#strays: Message[] = [];
	#listed = Number.NEGATIVE_INFINITY;
	#sweep = Number.NEGATIVE_INFINITY;

	constructor(context: Context, directory: string, bounce: Bounce) {
		this.#context = context;
		this.#bounce = bounce;
		this.maildir = new Maildir(context, directory);
	}

	/**
	 * Those in the given states: what needs a reader first, the oldest first; of what has ended, the newest first.
	 * @returns `items`, and how many more there are
	 */
	list(options: ListOptions = {}): { items: Listed[]; more: number; counts: Counts } {
		const survey = this.survey(options);
		const items = [...survey.items];
		return { items, more: survey.more(), counts: survey.counts };
	}

	/** As `list`, for long Inboxes: each file is read when its item is asked for, and `more` tells how many have not been. */
	survey(options: ListOptions = {}): { items: Iterable<Listed>; more: () => number; counts: Counts } {
		const { states = (state) => order.includes(state), limit = 0, except } = options;
		const all = this.maildir.names("new");
		const waiting = except?.size ? all.filter((name) => !except.has(idOf(name))) : all;
		const others = this.maildir.list("cur").map((message) => ({ message, state: stateOf("cur", message) }));
		const counts: Record<string, number> = Object.assign(Object.create(null), { queued: all.length });
		for (const { state } of others) counts[state] = (counts[state] ?? 0) + 1;
		const wanted = others.filter(({ state }) => states(state));
		const queued = states("queued") || states("expired") ? waiting : [];
		let left = queued.length + wanted.length;
		const messages = this.#inOrder(queued, wanted);
		const look = (message: Message) => this.look(message);
		function* items(): Generator<Listed> {
			const expired: Listed[] = [];
			let count = 0;
			for (const message of messages) {
				left--;
				const item = look(message);
				if (!item || !states(item.state)) continue;
				// What its header has ended stands with what has ended, not with what needs a reader.
				if (item.state === "expired" && stateOf(message.dir, message) === "queued") expired.push(item);
				else yield item;
				if (++count === limit) break;
			}
			yield* expired;
		}
		return { items: items(), more: () => left, counts };
	}

	/** What needs a reader first, the oldest first; then what has ended, the newest first. Names of `new/` are parsed only as far as they are asked for. */
	*#inOrder(waiting: readonly string[], others: readonly { message: Message; state: State }[]): Generator<Message> {
		const inState = (state: State) => others.filter((other) => other.state === state).map(({ message }) => message);
		const strays = inState("queued");
		if (strays.length === 0) for (const name of waiting) yield this.maildir.message("new", name);
		else yield* [...waiting.map((name) => this.maildir.message("new", name)), ...strays].sort((a, b) => compare(a.id, b.id));
		for (const state of order.slice(1)) yield* inState(state).sort((a, b) => compare(a.id, b.id));
		const ended = others.filter(({ state }) => !order.includes(state)).map(({ message }) => message);
		yield* ended.sort((a, b) => compare(b.id, a.id));
	}

	/** One Handoff as a look shows it; undefined when it was moved meanwhile. */
	look(message: Message): Listed | undefined {
		const file = this.maildir.file(message);
		const named = stateOf(message.dir, message);
		const facts = { message, file, attempts: attemptsOf(message), lease: leaseOf(message) };
		try {
			const read = readHead(file, message.id);
			if (!read) return undefined;
			const state = named === "queued" && this.#isExpired(read.handoff) ? "expired" : named;
			return { ...read.handoff, ...facts, state, size: read.size };
		} catch (error) {
			if (errno(error) !== "EUNREADABLE") throw error;
			const nothing = readHandoff(message.id, Buffer.alloc(0), 0);
			return { ...nothing, ...facts, state: "unreadable", size: 0, subject: "(can't be read)" };
		}
	}

	/**
	 * Takes a Handoff: the oldest queued one, or the given one. Ends on the way those that have expired, were replaced or can't be read.
	 * @returns undefined when there is nothing to take, or the given one was taken by another
	 * @throws {XferError} EHELD when another instance is live on this Node, EUNREADABLE when the given one can't be read · the system's error
	 */
	take(options: TakeOptions = {}): Taken | undefined {
		this.assertMine();
		if (options.message) return this.#take(options.message, true);
		this.#returnEnded();
		// What can't be taken stays in the listing: each name is tried once, and the directory is listed anew at most once.
		for (let fresh = false; ; ) {
			if (!fresh && (this.#waiting.length === 0 || this.#context.monotonic() - this.#listed > listingServes)) {
				this.#waiting = this.maildir.names("new").reverse();
				this.#listed = this.#context.monotonic();
				fresh = true;
			}
			const message = this.#strays.shift() ?? this.#nextWaiting();
			if (!message && fresh) return undefined;
			if (!message) continue;
			if (options.within !== undefined && this.#sizeOf(message) > options.within) {
				if (message.dir === "new") this.#waiting.push(message.name);
				else this.#strays.unshift(message);
				return undefined;
			}
			const taken = this.#take(message, false);
			if (taken) return taken;
		}
	}

	/**
	 * @param only who may have the message in hand; anybody unless given
	 * @throws {XferError} EHELD when another instance is live on this Node: only that one marks (protocol 6); or when another has the message in hand
	 */
	assertMine(message?: Message, only?: string): void {
		const lease = message && stateOf(message.dir, message) === "taken" ? leaseOf(message) : undefined;
		if (message && only !== undefined && lease && lease.instance !== only) {
			throw new XferError(
				"EHELD",
				`${shortId(message.id)} is in the hand of ${lease.instance}`,
				"it comes back when that one's lease ends",
			);
		}
		const holder = whoIsLive(this.#context, this.maildir.path);
		if (!holder || holder.instance === this.#context.instance) return;
		const name = this.maildir.path.slice(this.maildir.path.lastIndexOf("/") + 1);
		const who = `process ${holder.pid} on ${holder.host}`;
		throw new XferError("EHELD", `${name} is live (${who}) and reads its own mail`, "look with xfer inbox, or xfer read --peek");
	}

	/**
	 * Marks a Handoff in whatever state: `read` finishes it or clears a failed one, `new` gives it back, `failed` fails it with a report to its sender.
	 * @param only who may have it in hand; anybody unless given
	 * @throws {XferError} EHELD when another instance is live on this Node, or has it in hand · EHANDOFF when it moved just now
	 */
	mark(message: Message, as: "read" | "answered" | "new" | "failed", reason = "", only?: string): void {
		this.assertMine(message, only);
		const before = as === "failed" && stateOf(message.dir, message) !== "failed" ? this.look(message) : undefined;
		const { maildir } = this;
		const step = {
			read: () => maildir.done(message),
			answered: () => maildir.done(message, true),
			new: () => this.#giveBack(message),
			failed: () => maildir.end(message, "failed"),
		};
		if (!step[as]()) {
			throw new XferError("EHELD", `${shortId(message.id)} was moved just now by somebody else`, "xfer inbox --all shows where it stands");
		}
		if (before) this.#bounce(before, reason);
	}

	#giveBack(message: Message): Message | undefined {
		return message.dir === "new" ? message : this.maildir.release(message);
	}

	/**
	 * Returns what is in hand and should not be: whose lease has passed, or all of an instance that is known to be dead.
	 * @returns how many were returned, and when (unix ms) the next lease ends
	 */
	returnLeases(dead?: string): { returned: number; next: number } {
		let returned = 0;
		let next = Number.POSITIVE_INFINITY;
		for (const message of this.maildir.list("cur", (name) => name.includes(",L="))) {
			const lease = leaseOf(message);
			if (!lease || stateOf("cur", message) !== "taken") continue;
			if (!isOverdue("cur", message, this.#context.now()) && lease.instance !== dead) next = Math.min(next, lease.end * 1000);
			else if (this.#tryRelease(message)) returned++;
		}
		return { returned, next };
	}

	/** One that can't be renamed (a name in the way, or too long) does not keep the others in hand. */
	#tryRelease(message: Message): boolean {
		try {
			return this.maildir.release(message) !== undefined;
		} catch {
			return false; // it stays where it is, and doctor tells
		}
	}

	/**
	 * Each Handoff as it arrives, or comes back: a look, nothing is taken. Ends when the signal is aborted.
	 * Keeps the process alive only if `persistent`.
	 */
	watch(options: WatchOptions = {}): AsyncGenerator<Message, void, undefined> {
		return watchMaildir(this.maildir, "new", options);
	}

	/**
	 * Takes the next Handoff as soon as there is one.
	 * @returns undefined once the signal is aborted
	 * @throws as `take`
	 */
	async takeNext(options: Omit<WatchOptions, "waiting"> = {}): Promise<Taken | undefined> {
		const { signal } = options;
		let wake = () => {};
		let rung = false;
		const ring = () => {
			rung = true;
			wake();
		};
		const bell = new Doorbell(`${this.maildir.path}/new`, ring, options);
		signal?.addEventListener("abort", ring);
		try {
			for (;;) {
				rung = false;
				this.#listed = Number.NEGATIVE_INFINITY;
				const taken = signal?.aborted ? undefined : this.take();
				if (taken || signal?.aborted) return taken;
				await new Promise<void>((resolve) => {
					const timer = setTimeout(resolve, Math.max(10, this.#sweep - this.#context.now()));
					if (!options.persistent) timer.unref();
					wake = () => {
						clearTimeout(timer);
						resolve();
					};
					if (rung) wake();
				});
			}
		} finally {
			signal?.removeEventListener("abort", ring);
			bell.close();
		}
	}

	#nextWaiting(): Message | undefined {
		const name = this.#waiting.pop();
		return name === undefined ? undefined : this.maildir.message("new", name);
	}

	/** Ended leases come back, and what a mail reader moved to `cur/` unread; rarely, for `cur/` may be long. */
	#returnEnded(): void {
		const now = this.#context.now();
		if (now < this.#sweep && this.#sweep - now <= sweepEvery) return;
		const { next } = this.returnLeases();
		this.#strays = this.#unread();
		this.#sweep = Math.min(next, now + sweepEvery);
	}

	/** What a mail reader moved to `cur/` and left unread there. */
	#unread(): Message[] {
		return this.maildir.list("cur").filter((message) => stateOf("cur", message) === "queued");
	}

	#take(message: Message, named: boolean): Taken | undefined {
		let from = message;
		if (isOverdue(from.dir, from, this.#context.now())) from = this.maildir.release(from) ?? from;
		if (stateOf(from.dir, from) !== "queued" || !isFile(this.maildir.file(from))) return undefined;
		if (!named && this.#isLarge(from)) return undefined; // never loaded unasked: it waits to be named
		let inHand: Message | undefined;
		try {
			inHand = this.maildir.take(from);
		} catch (error) {
			if (errno(error) === "ENAMETOOLONG" && !named) return undefined; // no room for a lease in its name (protocol 10)
			throw error;
		}
		if (!inHand) return undefined;
		try {
			let read = readWhole(this.maildir.file(inHand), inHand.id, this.#context.maxBytes);
			// A mail reader may have added a flag since: it is in this hand still, under another name.
			for (let tries = 0; !read && tries < 10; tries++) {
				const same: Message | undefined = this.maildir.inHand(inHand.id, this.#context.instance);
				if (!same || attemptsOf(same) !== attemptsOf(inHand)) return undefined;
				inHand = same;
				read = readWhole(this.maildir.file(inHand), inHand.id, this.#context.maxBytes);
			}
			if (!read) return undefined;
			const why = this.#isExpired(read.handoff) ? "expired" : this.#isReplaced(read.handoff) ? "replaced" : undefined;
			if (!why) return hold(this.#context, this.maildir, inHand, read.handoff, read.body, this.#bounce);
			this.maildir.end(inHand, why);
		} catch (error) {
			if (errno(error) !== "EUNREADABLE") {
				this.maildir.release(inHand); // not its fault: it is not to wait for the lease to end
				throw error;
			}
			this.maildir.end(inHand, "unreadable");
			if (named) throw error;
		}
		return undefined;
	}

	#sizeOf(message: Message): number {
		return lstatSync(this.maildir.file(message), { throwIfNoEntry: false })?.size ?? 0;
	}

	#isLarge(message: Message): boolean {
		if (this.#sizeOf(message) <= this.#context.maxBytes) return false;
		try {
			return (readHead(this.maildir.file(message), message.id)?.size ?? 0) > this.#context.maxBytes;
		} catch (error) {
			if (errno(error) === "EUNREADABLE") return false; // the take says so, and steps over it
			throw error;
		}
	}

	#isExpired(handoff: Handoff): boolean {
		return handoff.expires !== undefined && handoff.expires <= this.#context.now();
	}

	/** Whether a newer one of this sender and key waits in `new/`: newer by an id that a sender of keys makes. */
	#isReplaced(handoff: Handoff): boolean {
		return (
			handoff.key !== undefined &&
			this.sameKey(handoff, this.maildir.list("new")).some((other) => isTimed(other.id) && compare(other.id, handoff.id) > 0)
		);
	}

	/** Those of these messages, all queued ones unless given, that have this sender and key. */
	sameKey(
		handoff: Pick<Handoff, "from" | "key">,
		messages: readonly Message[] = [...this.maildir.list("new"), ...this.#unread()],
	): Listed[] {
		return messages.flatMap((message) => {
			const other = this.look(message);
			return other?.key === handoff.key && other?.from === handoff.from ? [other] : [];
		});
	}
}

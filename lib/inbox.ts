import { lstatSync } from "node:fs";
import type { Context } from "./context.ts";
import { Doorbell } from "./doorbell.ts";
import { errno, XferError } from "./errors.ts";
import { attemptsOf, compare, type Lease, leaseOf, type State, shortId, stateOf } from "./filename.ts";
import { isFile, OpenFile } from "./files.ts";
import { type Handoff, headerLimit, parseHeader, readHandoff } from "./handoff.ts";
import { whoIsLive } from "./lock.ts";
import { Maildir, type Message } from "./maildir.ts";
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
	/** Most Handoffs to read the headers of; 0 is no limit. */
	readonly limit?: number | undefined;
}

export interface TakeOptions {
	/** Take this one, whatever its size; else the oldest queued. */
	readonly message?: Message | undefined;
	/** Nothing when the oldest one is larger than this many bytes, with its header. */
	readonly within?: number | undefined;
}

/** A Handoff in hand: until the lease ends, nobody else gets it. Every method throws ELOST once it did. */
export interface Taken {
	readonly handoff: Handoff;
	/** The body. Of one over the size limit, which is taken only when it is asked for, nothing: see `file`. */
	readonly body: Buffer;
	readonly attempts: number;
	/** Path of the file; a renewal changes it. */
	readonly file: string;
	/** It reached its reader: read, and answered if `replied`. */
	done(replied?: boolean): void;
	/** It can't be done: failed, and its sender gets a report with the reason. */
	fail(reason: string): void;
	/** Back to the Inbox for another try. */
	release(): void;
	/** A new lease. */
	renew(): void;
}

/** Tells the sender of a Handoff why it failed. */
export type Bounce = (handoff: Handoff, reason: string) => void;

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
		const { states = (state) => order.includes(state), limit = 0 } = options;
		const waiting = this.maildir.names("new");
		const others = this.maildir.list("cur").map((message) => ({ message, state: stateOf("cur", message) }));
		const counts: Record<string, number> = Object.assign(Object.create(null), { queued: waiting.length });
		for (const { state } of others) counts[state] = (counts[state] ?? 0) + 1;
		const wanted = others.filter(({ state }) => states(state));
		const queued = states("queued") || states("expired") ? waiting : [];
		const items: Listed[] = [];
		const expired: Listed[] = [];
		let seen = 0;
		for (const message of this.#inOrder(queued, wanted)) {
			if (limit !== 0 && items.length + expired.length >= limit) break;
			seen++;
			const item = this.look(message);
			if (!item || !states(item.state)) continue;
			// What its header has ended stands with what has ended, not with what needs a reader.
			if (item.state === "expired" && stateOf(message.dir, message) === "queued") expired.push(item);
			else items.push(item);
		}
		items.push(...expired);
		return { items, more: queued.length + wanted.length - seen, counts };
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
		let read: { handoff: Handoff; size: number } | undefined;
		let named = stateOf(message.dir, message);
		try {
			read = this.#head(message);
		} catch (error) {
			if (errno(error) !== "EUNREADABLE") throw error;
			read = { handoff: { ...readHandoff(message.id, Buffer.alloc(0), 0), subject: "(can't be read)" }, size: 0 };
			named = "unreadable";
		}
		if (!read) return undefined;
		const { handoff, size } = read;
		const state = named === "queued" && this.#isExpired(handoff) ? "expired" : named;
		return { ...handoff, state, size, message, attempts: attemptsOf(message), lease: leaseOf(message), file: this.maildir.file(message) };
	}

	/**
	 * Takes a Handoff: the oldest queued one, or the given one. Ends on the way those that have expired, were replaced or can't be read.
	 * @returns undefined when there is nothing to take, or the given one was taken by another
	 * @throws {XferError} EHELD when another instance is live on this Node
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

	/** @throws {XferError} EHELD when another instance is live on this Node: only that one marks (protocol 6) */
	assertMine(): void {
		const holder = whoIsLive(this.#context, this.maildir.path);
		if (!holder || holder.instance === this.#context.instance) return;
		const name = this.maildir.path.slice(this.maildir.path.lastIndexOf("/") + 1);
		throw new XferError(
			"EHELD",
			`${name} is live (process ${holder.pid} on ${holder.host}) and reads its own mail`,
			"look with xfer inbox, or xfer read --peek",
		);
	}

	/**
	 * Marks a Handoff in whatever state: `read` finishes it or clears a failed one, `new` gives it back, `failed` fails it with a report to its sender.
	 * @param only who may have it in hand; anybody unless given
	 * @throws {XferError} EHELD when another instance is live on this Node, or has it in hand · EHANDOFF when it moved just now
	 */
	mark(message: Message, as: "read" | "answered" | "new" | "failed", reason = "", only?: string): void {
		this.assertMine();
		const lease = leaseOf(message);
		if (only !== undefined && stateOf(message.dir, message) === "taken" && lease?.instance !== only) {
			throw new XferError(
				"EHELD",
				`${shortId(message.id)} is in the hand of ${lease?.instance}`,
				"it comes back when that one's lease ends",
			);
		}
		const before = as === "failed" && stateOf(message.dir, message) !== "failed" ? this.look(message) : undefined;
		const { maildir } = this;
		const step = {
			read: () => maildir.done(message),
			answered: () => maildir.done(message, true),
			new: () => this.#giveBack(message),
			failed: () => maildir.end(message, "failed"),
		};
		if (!step[as]())
			throw new XferError("EHELD", `${shortId(message.id)} was moved just now by somebody else`, "xfer inbox --all shows where it stands");
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
			if (lease.end * 1000 > this.#context.now() && lease.instance !== dead) next = Math.min(next, lease.end * 1000);
			else if (this.maildir.release(message)) returned++;
		}
		return { returned, next };
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
		if ((leaseOf(from)?.end ?? 0) * 1000 <= this.#context.now() && stateOf(from.dir, from) === "taken")
			from = this.maildir.release(from) ?? from;
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
		let read: { handoff: Handoff; body: Buffer } | undefined;
		try {
			read = this.#whole(inHand);
		} catch (error) {
			if (errno(error) !== "EUNREADABLE") {
				this.maildir.release(inHand);
				throw error;
			}
			this.maildir.end(inHand, "unreadable");
			if (named) throw error;
			return undefined;
		}
		if (!read) return undefined;
		const why = this.#isExpired(read.handoff) ? "expired" : this.#isReplaced(read.handoff) ? "replaced" : undefined;
		if (!why) return this.#taken(inHand, read.handoff, read.body);
		this.maildir.end(inHand, why);
		return undefined;
	}

	#sizeOf(message: Message): number {
		return lstatSync(this.maildir.file(message), { throwIfNoEntry: false })?.size ?? 0;
	}

	#isLarge(message: Message): boolean {
		return this.#sizeOf(message) > this.#context.maxBytes && (this.#head(message)?.size ?? 0) > this.#context.maxBytes;
	}

	#taken(message: Message, handoff: Handoff, body: Buffer): Taken {
		const { maildir } = this;
		const instance = this.#context.instance;
		const bounce = this.#bounce;
		let now = message;
		let ended = false;
		const step = (rename: (message: Message) => Message | undefined, end = true) => {
			let next = ended ? undefined : rename(now);
			if (!next && !ended) {
				// Somebody may have added a flag: it is ours as long as our instance stands in the name.
				const same = maildir.inHand(message.id, instance);
				next = same && rename(same);
			}
			if (!next)
				throw new XferError(
					"ELOST",
					`${shortId(message.id)} is not in hand any more: its lease has ended`,
					"it is, or was, somebody else's: do nothing more about it",
				);
			now = next;
			ended = end;
		};
		return {
			handoff,
			body,
			attempts: attemptsOf(message),
			get file() {
				return maildir.file(now);
			},
			done: (replied = false) => step((from) => maildir.done(from, replied)),
			release: () => step((from) => maildir.release(from)),
			renew: () => step((from) => maildir.renew(from), false),
			fail: (reason) => {
				step((from) => maildir.end(from, "failed"));
				bounce(handoff, reason);
			},
		};
	}

	/** The header of a message; undefined when it has gone. */
	#head(message: Message): { handoff: Handoff; size: number } | undefined {
		return this.#read(message, (file) => {
			let head = file.read(0, 4096);
			let header = parseHeader(head);
			if (head.length < file.size && (header.warnings.includes("unclosed") || header.body === head.length)) {
				head = file.read(0, headerLimit + 4096);
				header = parseHeader(head);
			}
			// Without a subject the beginning of the body stands for it.
			if (!header.fields.has("subject") && head.length < Math.min(file.size, header.body + 4096)) head = file.read(0, header.body + 4096);
			return { handoff: readHandoff(message.id, head, file.modified, header), size: file.size - header.body };
		});
	}

	/** A message with its body, if that is not over the limit. */
	#whole(message: Message): { handoff: Handoff; body: Buffer } | undefined {
		return this.#read(message, (file) => {
			const bytes = file.read(0, headerLimit + this.#context.maxBytes);
			const handoff = readHandoff(message.id, bytes, file.modified);
			const body = bytes.subarray(handoff.header.body);
			return { handoff, body: file.size - handoff.header.body > this.#context.maxBytes ? Buffer.alloc(0) : body };
		});
	}

	#read<T>(message: Message, read: (file: OpenFile) => T): T | undefined {
		let file: OpenFile | undefined;
		try {
			file = new OpenFile(this.maildir.file(message));
			return read(file);
		} catch (error) {
			const code = errno(error);
			if (code === "ENOENT" || code === "EFTYPE" || code === "ELOOP" || code === "ENXIO") return undefined; // gone, or no Handoff at all
			if (code === "EMFILE" || code === "ENFILE" || code === "ENOMEM" || code === undefined) throw error; // ours, not the file's
			throw Object.assign(new Error(`${this.maildir.file(message)}: can't be read (${code})`), { code: "EUNREADABLE", cause: error });
		} finally {
			file?.close();
		}
	}

	#isExpired(handoff: Handoff): boolean {
		return handoff.expires !== undefined && handoff.expires <= this.#context.now();
	}

	/** Whether a newer one of this sender and key waits in `new/`. */
	#isReplaced(handoff: Handoff): boolean {
		return handoff.key !== undefined && this.sameKey(handoff).some((other) => compare(other.id, handoff.id) > 0);
	}

	/** The queued ones with this Handoff's sender and key. */
	sameKey(handoff: Pick<Handoff, "from" | "key">): Listed[] {
		return [...this.maildir.list("new"), ...this.#unread()].flatMap((message) => {
			const other = this.look(message);
			return other?.key === handoff.key && other?.from === handoff.from ? [other] : [];
		});
	}
}

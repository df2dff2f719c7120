import type { Context } from "../context.ts";
import { Doorbell, type DoorbellOptions } from "../doorbell.ts";
import { errno, XferError } from "../errors.ts";
import { shortId, stateOf } from "../filename.ts";
import type { Handoff } from "../handoff.ts";
import { LogFile } from "../log-file.ts";
import type { Message } from "../maildir.ts";
import { slug } from "../names.ts";
import { timestamp } from "../presence.ts";
import type { Taken } from "../taken.ts";
import type { Live, Node, Tree } from "../tree.ts";
import { type AdapterEvent, type AttemptOptions, Attempts, facts, messageOf } from "./attempt.ts";
import { Guardian } from "./guardian.ts";
import { Lanes, type Waiting } from "./lanes.ts";
import { reportFailures } from "./unfinished.ts";

export type { AdapterEvent } from "./attempt.ts";

export interface AdapterOptions extends AttemptOptions {
	/** What it is called in the Node's status, `tool:NAME`. */
	readonly called: string;
	/** Most handlers at a time. */
	readonly concurrency: number;
	/** End when nothing waits any more. */
	readonly once: boolean;
	/** Aborted: nothing more is begun, and what runs is waited for. */
	readonly stop: AbortSignal;
	/** Aborted: what runs is ended, and tried again by the next daemon. */
	readonly kill: AbortSignal;
	readonly onPolling: NonNullable<DoorbellOptions["onPolling"]>;
	readonly onEvent: (event: AdapterEvent) => void;
}

/** ms: the first wait before another try, doubled for each further one, and the longest. */
const backoff = { first: 1000, longest: 300_000 };
/** ms between two looks for what events do not tell of. */
const sweepEvery = 30_000;
/** How many headers are read before others have their turn. */
const together = 200;
/** ms between two writes of the presence. */
const publishEvery = 200;

/**
 * Is an Adapter Daemon: live on the Node, it runs a program for each Handoff, until it is stopped or, with `once`, nothing waits any more.
 *
 * Killed at any point it leaves what was in hand to the next one, which tries it again; what has ended is not handled again.
 * Its handlers are killed with it.
 * @throws {XferError} EHELD when the Node is live already, ELOST when another took the name while this process slept · the system's error
 */
export async function runAdapter(tree: Tree, name: string, options: AdapterOptions): Promise<void> {
	const node = tree.join(name);
	const { lastSeen } = node.whereabouts();
	const live = await node.goLive({ agent: "adapter", cwd: options.cwd, status: "idle", wake: "now" }, options.stop);
	const guardian = new Guardian();
	try {
		await new Adapter(tree, live, guardian, options).run(lastSeen);
	} finally {
		guardian.end();
		live.end();
	}
}

class Adapter {
	readonly #tree: Tree;
	readonly #context: Context;
	readonly #live: Live;
	readonly #node: Node;
	readonly #options: AdapterOptions;
	readonly #log: LogFile;
	readonly #attempts: Attempts;
	readonly #lanes = new Lanes();
	readonly #running = new Map<string, Taken>();
	/** Ids of what is not to be handled, and was told of. */
	readonly #skipped = new Set<string>();
	/** Ends the handlers. */
	readonly #kill = new AbortController();
	#end = () => {};
	readonly #ended = new Promise<void>((resolve) => {
		this.#end = resolve;
	});
	#failure: { error: unknown } | undefined;
	#listing: Promise<void> | undefined;
	/** Names that events told of while the directory was being listed. */
	#rung: string[] = [];
	#wake: NodeJS.Timeout | undefined;
	#publishing: NodeJS.Timeout | undefined;
	/** Since when there may be failures that nobody was told of, unix ms. */
	#untold: number | undefined;
	#status = "idle";

	constructor(tree: Tree, live: Live, guardian: Guardian, options: AdapterOptions) {
		this.#tree = tree;
		this.#context = tree.context;
		this.#live = live;
		this.#node = live.node;
		this.#options = options;
		this.#log = new LogFile(tree.context, `${live.node.directory}/adapter.log`);
		this.#attempts = new Attempts({
			tree,
			node: live.node,
			guardian,
			options,
			kill: this.#kill.signal,
			overtaken: () => this.#failure !== undefined,
			tell: (event) => this.#tell(event),
		});
	}

	/** @param before when the Node showed itself last before this daemon, unix ms */
	async run(before: number | undefined): Promise<void> {
		const { stop, kill, program, onPolling } = this.#options;
		const { lost } = this.#live.lock;
		const stopped = () => this.#pump();
		const killed = () => this.#kill.abort();
		const overtaken = () => this.#fail(lost.reason);
		stop.addEventListener("abort", stopped);
		kill.addEventListener("abort", killed);
		lost.addEventListener("abort", overtaken);
		if (kill.aborted) killed();
		this.#tell({
			what: "live",
			text: `${this.#node.name} is live, as process ${process.pid}: ${[program.file, ...program.args].join(" ")}`,
		});
		this.#reportFailures(before);
		const { maildir } = this.#node.inbox;
		// The watcher before the first listing: nothing falls between the two.
		const bell = new Doorbell(`${maildir.path}/new`, (name) => this.#ring(name), { persistent: true, onPolling });
		const sweep = setInterval(() => this.#sweep(), sweepEvery);
		const renewal = setInterval(() => this.#renew(), this.#context.lease / 3);
		try {
			this.#sweep();
			await this.#ended;
		} finally {
			bell.close();
			for (const timer of [sweep, renewal]) clearInterval(timer);
			for (const timer of [this.#wake, this.#publishing]) clearTimeout(timer);
			stop.removeEventListener("abort", stopped);
			kill.removeEventListener("abort", killed);
			lost.removeEventListener("abort", overtaken);
		}
		if (this.#failure) throw this.#failure.error;
		this.#tell({ what: "ended", text: `${this.#node.name} has ended` });
	}

	/** Ends all that runs, marks nothing more, and throws. */
	#fail(error: unknown): void {
		if (!this.#failure) this.#tell({ what: "error", text: `ends: ${messageOf(error)}` });
		this.#failure ??= { error };
		this.#kill.abort();
		this.#pump();
	}

	#ring(name: string | undefined): void {
		if (name?.startsWith(".")) return;
		if (this.#listing && name !== undefined) this.#rung.push(name);
		else if (name === undefined) this.#list();
		else {
			this.#notice(this.#node.inbox.maildir.message("new", name));
			this.#pump();
		}
	}

	/** Looks at all that waits; others have their turn in between, and what events tell of comes after it, as it is younger. */
	#list(): void {
		this.#listing ??= this.#listAll()
			.catch((error: unknown) => this.#tell({ what: "error", text: `can't list new/: ${messageOf(error)}` }))
			.then(() => {
				this.#listing = undefined;
				for (const name of this.#rung.splice(0)) this.#notice(this.#node.inbox.maildir.message("new", name));
				this.#pump();
			});
	}

	async #listAll(): Promise<void> {
		const { maildir } = this.#node.inbox;
		let count = 0;
		for (const name of maildir.names("new")) {
			if (!this.#notice(maildir.message("new", name)) || ++count % together > 0) continue;
			this.#pump();
			await new Promise((resolve) => setImmediate(resolve));
		}
	}

	/** Puts a Handoff in its sender's lane; true when its header was read for that. */
	#notice(message: Message): boolean {
		if (this.#lanes.knows(message) || this.#skipped.has(message.id)) return false;
		let look: ReturnType<Node["inbox"]["look"]>;
		try {
			look = this.#node.inbox.look(message);
		} catch (error) {
			this.#tell({
				what: "error",
				text: `${shortId(message.id)} can't be looked at just now: ${messageOf(error)}`,
			});
			return true; // EMFILE: the next listing tries again
		}
		if (!look) return true; // it has moved on
		if (look.size > this.#context.maxBytes) this.#skip(look, `${look.size} bytes are over the limit: xfer read shows it when it is named`);
		else this.#lanes.add(message, look.from);
		return true;
	}

	#skip(handoff: Handoff, why: string): void {
		this.#skipped.add(handoff.id);
		this.#tell({ what: "skipped", handoff, text: `${facts(handoff)}: stays queued: ${why}` });
	}

	/** What events do not tell of: ended leases, what a mail reader moved to `cur/` unread, a day's clearing away. */
	#sweep(): void {
		try {
			this.#renew(); // before ended leases are looked for: this machine may have slept
			const { inbox } = this.#node;
			inbox.returnLeases();
			for (const message of inbox.maildir.list("cur")) if (stateOf("cur", message) === "queued") this.#notice(message);
			this.#node.tidy();
			const since = this.#untold;
			this.#untold = undefined;
			this.#reportFailures(since);
		} catch (error) {
			this.#tell({ what: "error", text: `can't look through cur/: ${messageOf(error)}` });
		}
		this.#list();
	}

	#renew(): void {
		for (const taken of this.#running.values()) {
			try {
				taken.renew();
			} catch {
				// not in hand any more: it is said when its handler has ended
			}
		}
	}

	/** Begins what may begin, and ends when there is nothing left to do. */
	#pump(): void {
		const { stop, once, concurrency } = this.#options;
		const stopping = () => stop.aborted || this.#kill.signal.aborted || this.#failure !== undefined;
		while (!stopping() && this.#running.size < concurrency) {
			const entry = this.#lanes.next(this.#context.monotonic());
			if (!entry) break;
			this.#begin(entry);
		}
		clearTimeout(this.#wake);
		if (this.#running.size === 0 && stopping()) this.#end();
		else if (this.#running.size === 0 && once && this.#lanes.size === 0 && !this.#listing) this.#endIfEmpty();
		const pause = this.#lanes.wakeAt() - this.#context.monotonic();
		if (!stopping() && this.#running.size < concurrency && Number.isFinite(pause))
			this.#wake = setTimeout(() => this.#pump(), Math.max(1, pause));
		this.#publish();
	}

	/** Events may be late or lost: what is there is decided by listing it. */
	#endIfEmpty(): void {
		const { maildir } = this.#node.inbox;
		for (const name of maildir.names("new")) this.#notice(maildir.message("new", name));
		if (this.#lanes.size === 0) this.#end();
		else this.#wake = setTimeout(() => this.#pump(), 1);
	}

	#begin(entry: Waiting): void {
		let taken: Taken | undefined;
		try {
			taken = this.#take(entry);
		} catch (error) {
			this.#notTaken(entry, error);
			return;
		}
		if (!taken) {
			this.#lanes.done(entry); // recalled, expired, replaced, or somebody else's
			return;
		}
		const { id } = entry;
		this.#running.set(id, taken);
		const ended = (again: boolean) => {
			this.#running.delete(id);
			if (again) this.#lanes.again(entry, this.#context.monotonic() + pauseBefore(entry.tries));
			else this.#lanes.done(entry);
			this.#pump();
		};
		this.#attempts.handle(entry, taken).then(ended, (error: unknown) => {
			this.#tell({
				what: "error",
				handoff: (taken as Taken).handoff,
				text: `${shortId(id)}: ${messageOf(error)}`,
			});
			ended(false); // what is in hand still comes back with its lease
		});
	}

	#take(entry: Waiting): Taken | undefined {
		const { inbox } = this.#node;
		const taken = inbox.take({ message: entry.message });
		if (taken) return taken;
		const now = inbox.maildir.get(entry.id); // it may have another name since: given back, or flagged
		if (!now || now.name === entry.message.name || stateOf(now.dir, now) !== "queued") return undefined;
		return inbox.take({ message: now });
	}

	#notTaken(entry: Waiting, error: unknown): void {
		const code = error instanceof XferError ? error.code : undefined;
		const text = `${shortId(entry.id)} can't be taken: ${messageOf(error)}`;
		if (code === "EHELD") {
			this.#lanes.again(entry, Number.POSITIVE_INFINITY);
			this.#fail(error); // another is live here
			return;
		}
		this.#tell({ what: "error", text });
		if (code === "EUNREADABLE") {
			this.#lanes.done(entry); // marked so
		} else if (errno(error) === "ENAMETOOLONG") {
			this.#skipped.add(entry.id); // no room for a lease in its name (protocol 10): it stays, and hides no other
			this.#lanes.done(entry);
		} else {
			const pause = pauseBefore(++entry.tries); // a full disk, a directory that can't be written just now
			this.#lanes.again(entry, this.#context.monotonic() + pause);
			if (this.#options.once && entry.tries >= this.#options.attempts) this.#fail(error);
		}
	}

	/** A daemon may have been killed between marking a Handoff failed and telling its sender, or the disk was full just then: then it is told now. */
	#reportFailures(before: number | undefined): void {
		if (before === undefined) return;
		try {
			for (const { handoff, error } of reportFailures(this.#tree, this.#node, before, this.#log)) {
				const text = `${facts(handoff)}: its sender is told late that it failed${error ? `: ${error.message}` : ""}`;
				this.#tell({ what: "failed", handoff, text });
				if (error) this.#untold = before;
			}
		} catch (error) {
			this.#tell({ what: "error", text: `can't look for failures that nobody was told of: ${messageOf(error)}` });
		}
	}

	#tell(event: AdapterEvent): void {
		if (event.what === "error" && event.handoff) this.#untold ??= this.#context.now();
		this.#log.write(`${event.what} ${event.text}`);
		this.#options.onEvent(event);
	}

	/** Publishes whether it works, a few times a second at most: a Handoff may take no longer than that. */
	#publish(): void {
		const status = () => (this.#running.size > 0 ? `tool:${slug(this.#options.called) ?? "handler"}` : "idle");
		if (this.#publishing || status() === this.#status) return;
		this.#publishing = setTimeout(() => {
			this.#publishing = undefined;
			if (status() === this.#status) return;
			this.#status = status();
			// Presence is a courtesy: a full disk is no reason to stop.
			this.#live.publish({ status: this.#status, since: timestamp(this.#context) }).catch(() => {});
		}, publishEvery);
	}
}

/** ms to wait before another try, after so many. */
function pauseBefore(tries: number): number {
	return Math.min(backoff.first * 2 ** (tries - 1), backoff.longest);
}

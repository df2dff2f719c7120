import { lstatSync } from "node:fs";
import type { Context } from "./context.ts";
import { Doorbell, type DoorbellOptions } from "./doorbell.ts";
import { formatDuration } from "./duration.ts";
import { XferError } from "./errors.ts";
import { shortId, stateOf, timeOf } from "./filename.ts";
import { Guardian } from "./guardian.ts";
import { type Ended, environment, type Program, runHandler } from "./handler.ts";
import type { Handoff } from "./handoff.ts";
import { isWork, mostHops } from "./interrupt.ts";
import { Lanes, type Waiting } from "./lanes.ts";
import { LogFile } from "./log-file.ts";
import type { Message } from "./maildir.ts";
import { slug } from "./names.ts";
import { timestamp } from "./presence.ts";
import { threadOf } from "./send.ts";
import type { Taken } from "./taken.ts";
import type { Live, Node, Tree } from "./tree.ts";

export interface AdapterOptions {
	/** What is run for each Handoff. */
	readonly program: Program;
	/** What it is called in the Node's status, `tool:NAME`. */
	readonly called: string;
	/** Hand the standard output for a task or a question back to its sender. */
	readonly reply: boolean;
	/** How often a Handoff is tried before it fails. */
	readonly attempts: number;
	/** Most handlers at a time. */
	readonly concurrency: number;
	/** ms after which a handler is ended. */
	readonly limit: number;
	/** End when nothing waits any more. */
	readonly once: boolean;
	readonly cwd: string | undefined;
	/** Aborted: nothing more is begun, and what runs is waited for. */
	readonly stop: AbortSignal;
	/** Aborted: what runs is ended, and tried again by the next daemon. */
	readonly kill: AbortSignal;
	readonly onPolling: NonNullable<DoorbellOptions["onPolling"]>;
	readonly onOutput: (fd: 1 | 2, chunk: Buffer) => void;
	readonly onEvent: (event: AdapterEvent) => void;
}

/** Something that an Adapter Daemon did. */
export interface AdapterEvent {
	readonly what: "live" | "started" | "done" | "again" | "returned" | "failed" | "braked" | "skipped" | "lost" | "error" | "ended";
	/** A line for a person, and for the log. */
	readonly text: string;
	readonly handoff?: Handoff;
	readonly attempt?: number;
	readonly ended?: Ended;
}

/** What a program says that wants to be tried again (EX_TEMPFAIL of sysexits.h). */
const tryAgain = 75;
/** ms: the first wait before another try, doubled for each further one, and the longest. */
const backoff = { first: 1000, longest: 300_000 };
/** ms between two looks for what events do not tell of. */
const sweepEvery = 30_000;
/** How many headers are read before others have their turn. */
const together = 200;
/** ms between two writes of the presence. */
const publishEvery = 200;
/** ms by which the clocks that write ids and file times may differ. */
const skew = 10_000;

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
	readonly #guardian: Guardian;
	readonly #log: LogFile;
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
	#status = "idle";

	constructor(tree: Tree, live: Live, guardian: Guardian, options: AdapterOptions) {
		this.#tree = tree;
		this.#context = tree.context;
		this.#live = live;
		this.#node = live.node;
		this.#guardian = guardian;
		this.#options = options;
		this.#log = new LogFile(tree.context, `${live.node.directory}/adapter.log`);
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
		if (!this.#failure) this.#tell({ what: "error", text: `ends: ${error instanceof Error ? error.message : error}` });
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
			.catch((error: unknown) => this.#tell({ what: "error", text: `can't list new/: ${error instanceof Error ? error.message : error}` }))
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
				text: `${shortId(message.id)} can't be looked at just now: ${error instanceof Error ? error.message : error}`,
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
		} catch (error) {
			this.#tell({ what: "error", text: `can't look through cur/: ${error instanceof Error ? error.message : error}` });
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
			if (again) this.#lanes.again(entry, this.#context.monotonic() + Math.min(backoff.first * 2 ** (entry.tries - 1), backoff.longest));
			else this.#lanes.done(entry);
			this.#pump();
		};
		this.#handle(entry, taken).then(ended, (error: unknown) => {
			this.#tell({
				what: "error",
				handoff: (taken as Taken).handoff,
				text: `${shortId(id)}: ${error instanceof Error ? error.message : error}`,
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
		const text = `${shortId(entry.id)} can't be taken: ${error instanceof Error ? error.message : error}`;
		if (code === "EHELD") {
			this.#lanes.again(entry, Number.POSITIVE_INFINITY);
			this.#fail(error); // another is live here
			return;
		}
		this.#tell({ what: "error", text });
		if (code === "EUNREADABLE")
			this.#lanes.done(entry); // marked so
		else if (++entry.tries < this.#options.attempts) this.#lanes.again(entry, this.#context.monotonic() + backoff.first);
		else {
			this.#skipped.add(entry.id); // a name too long for a lease, a directory that can't be written: it stays, and hides no other
			this.#lanes.done(entry);
		}
	}

	/** Handles what is in hand; true when it is to be tried again. */
	async #handle(entry: Waiting, taken: Taken): Promise<boolean> {
		const { handoff } = taken;
		const attempt = taken.attempts + 1;
		const about = facts(handoff);
		if (handoff.hops > mostHops) return this.#brake(taken, about);
		const mayReply = this.#options.reply && isWork(handoff);
		// A daemon may have been killed between the reply and the mark: then the work is done.
		if (mayReply && taken.attempts > 0 && entry.tries === 0 && this.#sentAbout(timeOf(handoff.id) ?? 0).has(handoff.id)) {
			this.#mark(taken, attempt, `${about}: was answered by the daemon before`, () => taken.done(true));
			return false;
		}
		entry.tries++;
		this.#tell({ what: "started", handoff, attempt, text: `${about}: attempt ${attempt}` });
		const { program, limit, onOutput } = this.#options;
		const ended = await runHandler({
			program,
			env: environment(this.#context, this.#node.name, taken),
			input: taken.body,
			limit,
			keep: mayReply ? this.#context.maxBytes : 0,
			signal: this.#kill.signal,
			guardian: this.#guardian,
			onOutput: (fd, chunk) => (fd === 1 && mayReply ? undefined : onOutput(fd, chunk)),
		});
		if (this.#failure) return true; // the name is another's: it has what was in hand
		if (ended.how === "aborted") {
			this.#mark(taken, attempt, `${about}: ended with the daemon, queued again`, () => taken.release(), "returned", ended);
			return true;
		}
		const took = formatDuration(ended.duration);
		if (ended.how === "itself" && ended.code === 0) {
			this.#succeed(taken, attempt, `${about}: done in ${took}`, mayReply, ended);
			return false;
		}
		const how = howItEnded(ended, limit);
		if (isTemporary(ended) && attempt < this.#options.attempts) {
			this.#mark(taken, attempt, `${about}: ${how} after ${took}, is tried again`, () => taken.release(), "again", ended);
			return true;
		}
		const count = attempt > 1 ? `, at attempt ${attempt}` : "";
		const reason = `${how}${count}, after ${took}\n${ended.stderr && `\nThe end of its standard error:\n\n${ended.stderr}`}`;
		const last = ended.stderr.trimEnd().split("\n").at(-1);
		// Told before it is marked: when this process is killed in between, the log has the reason.
		this.#mark(taken, attempt, `${about}: ${how}${count}, after ${took}${last && `: ${last}`}`, () => taken.fail(reason), "failed", ended);
		return false;
	}

	#succeed(taken: Taken, attempt: number, text: string, mayReply: boolean, ended: Ended): void {
		if (!mayReply || ended.size === 0) {
			this.#mark(taken, attempt, text, () => taken.done(), "done", ended);
			return;
		}
		this.#mark(
			taken,
			attempt,
			`${text}, ${ended.size} bytes to ${taken.handoff.from}`,
			() => {
				taken.renew(); // its handler may have answered it by itself
				try {
					this.#answer(taken.handoff, ended);
				} catch (error) {
					taken.fail(`It was done, and its output could not be handed back: ${error instanceof Error ? error.message : error}`);
					throw error;
				}
				taken.done(true);
			},
			"done",
			ended,
		);
	}

	/** The output goes back: as an answer to a question, as a report on a task. What is over the limit is cut at its end. */
	#answer(handoff: Handoff, { stdout, size }: Ended): void {
		const { maxBytes } = this.#context;
		const note = Buffer.from(`\n[cut: it has ${size} bytes, the limit is ${maxBytes}]\n`);
		const body = size > stdout.length ? Buffer.concat([stdout.subarray(0, Math.max(0, maxBytes - note.length)), note]) : stdout;
		const question = handoff.kind === "question";
		const [outcome] = this.#tree.send({
			from: this.#node.name,
			to: [handoff.from],
			kind: question ? "answer" : "report",
			subject: question ? undefined : `done: ${handoff.subject}`.slice(0, 200),
			body,
			re: handoff.id,
			thread: threadOf(handoff),
			hops: handoff.hops + 1,
			cwd: this.#options.cwd,
		});
		if (outcome?.error) throw outcome.error;
	}

	/** More replies than a person had a word in: it wakes nobody (protocol 15). Who waits for work is told. */
	#brake(taken: Taken, about: string): boolean {
		const { handoff } = taken;
		const why = `not run: ${handoff.hops} replies since a person or a script last spoke, the limit is ${mostHops}`;
		const mark = () => (isWork(handoff) ? taken.fail(why) : taken.done());
		this.#mark(taken, taken.attempts + 1, `${about}: ${why}`, mark, "braked");
		return false;
	}

	/** Tells, then marks. */
	#mark(taken: Taken, attempt: number, text: string, mark: () => void, what: AdapterEvent["what"] = "done", ended?: Ended): void {
		const { handoff } = taken;
		this.#tell({ what, handoff, attempt, text, ...(ended && { ended }) });
		try {
			mark();
		} catch (error) {
			if (error instanceof XferError && error.code === "ELOST") {
				this.#tell({
					what: "lost",
					handoff,
					text: `${shortId(handoff.id)} was not in hand any more: its handler, or another, has marked it`,
				});
				return;
			}
			this.#tell({ what: "error", handoff, text: `${shortId(handoff.id)}: ${error instanceof Error ? error.message : error}` });
		}
	}

	/** A daemon may have been killed between marking a Handoff failed and telling its sender: then it is told now. */
	#reportFailures(before: number | undefined): void {
		if (before === undefined) return;
		try {
			const { inbox } = this.#node;
			const since = before - skew;
			const failed = inbox.maildir.list("cur", (name) => name.includes(",E=failed")).flatMap((message) => inbox.look(message) ?? []);
			const recent = failed.filter(({ file, kind, from }) => changed(file) >= since && kind !== "report" && this.#tree.has(from));
			if (recent.length === 0) return;
			const told = this.#sentAbout(since);
			for (const handoff of recent) {
				if (told.has(handoff.id)) continue;
				const [outcome] = this.#tree.send({
					from: this.#node.name,
					to: [handoff.from],
					kind: "report",
					subject: `failed: ${handoff.subject}`.slice(0, 200),
					body: this.#log.last(shortId(handoff.id)) ?? "failed; the daemon was killed before it could say why",
					re: handoff.id,
					thread: threadOf(handoff),
					hops: handoff.hops + 1,
				});
				this.#tell({
					what: "failed",
					handoff,
					text: `${facts(handoff)}: its sender is told late that it failed${outcome?.error ? `: ${outcome.error.message}` : ""}`,
				});
			}
		} catch (error) {
			this.#tell({
				what: "error",
				text: `can't look for failures that nobody was told of: ${error instanceof Error ? error.message : error}`,
			});
		}
	}

	/** The ids of the Handoffs that this Node has sent something about since then, unix ms. */
	#sentAbout(since: number): Set<string> {
		const { sent } = this.#node;
		const ids = sent.ids().filter((id) => (timeOf(id) ?? since) >= since - skew);
		return new Set(sent.standings(ids).flatMap(({ handoff }) => handoff?.re ?? []));
	}

	#tell(event: AdapterEvent): void {
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

function facts({ id, kind, from }: Handoff): string {
	return `${shortId(id)} ${kind} from ${from}`;
}

/** ms at which the inode of a file changed last: a rename does that. */
function changed(file: string): number {
	return lstatSync(file, { throwIfNoEntry: false })?.ctimeMs ?? Number.NEGATIVE_INFINITY;
}

function howItEnded({ how, code, signal, error }: Ended, limit: number): string {
	if (how === "unstarted") return `could not be started: ${error}`;
	if (how === "limit") return `did not end within ${formatDuration(limit)}`;
	return signal === undefined ? `exit code ${code}` : `ended by ${signal}`;
}

/** Whether another try may help: 75, a signal, also as a shell tells of one (128 and its number), the limit, no start. */
function isTemporary({ how, code, signal }: Ended): boolean {
	return how !== "itself" || signal !== undefined || code === tryAgain || (code !== undefined && code > 128 && code < 160);
}

import { formatDuration } from "../duration.ts";
import { XferError } from "../errors.ts";
import { shortId } from "../filename.ts";
import type { Handoff } from "../handoff.ts";
import { isWork, mostHops } from "../interrupt.ts";
import type { Taken } from "../taken.ts";
import type { Node, Tree } from "../tree.ts";
import type { Guardian } from "./guardian.ts";
import { type Ended, environment, type Program, runHandler } from "./handler.ts";
import type { Waiting } from "./lanes.ts";
import { answerTo, howItEnded, isTemporary } from "./outcome.ts";
import { wasAnswered } from "./unfinished.ts";

export interface AttemptOptions {
	/** What is run for each Handoff. */
	readonly program: Program;
	/** Hand the standard output for a task or a question back to its sender. */
	readonly reply: boolean;
	/** How often a Handoff is tried before it fails. */
	readonly attempts: number;
	/** ms after which a handler is ended. */
	readonly limit: number;
	readonly cwd: string | undefined;
	readonly onOutput: (fd: 1 | 2, chunk: Buffer) => void;
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

/** What an attempt needs of its daemon. */
interface Desk {
	readonly tree: Tree;
	readonly node: Node;
	readonly guardian: Guardian;
	readonly options: AttemptOptions;
	/** Ends the handlers when aborted. */
	readonly kill: AbortSignal;
	/** Whether the name is another's now, who has what was in hand. */
	readonly overtaken: () => boolean;
	readonly tell: (event: AdapterEvent) => void;
}

/** What an Adapter Daemon does with one Handoff in its hand: run, then mark. What goes wrong is told, and not thrown. */
export class Attempts {
	readonly #desk: Desk;

	constructor(desk: Desk) {
		this.#desk = desk;
	}

	/** Handles what is in hand; true when it is to be tried again. */
	async handle(entry: Waiting, taken: Taken): Promise<boolean> {
		const { handoff } = taken;
		const attempt = taken.attempts + 1;
		const about = facts(handoff);
		if (handoff.hops > mostHops) return this.#brake(taken, about);
		const mayReply = this.#desk.options.reply && isWork(handoff);
		// A daemon may have been killed between the reply and the mark: then the work is done.
		if (mayReply && taken.attempts > 0 && entry.tries === 0 && wasAnswered(this.#desk.node, handoff)) {
			this.#mark(taken, attempt, `${about}: was answered by the daemon before`, () => taken.done(true));
			return false;
		}
		entry.tries++;
		this.#desk.tell({ what: "started", handoff, attempt, text: `${about}: attempt ${attempt}` });
		const { program, limit, onOutput } = this.#desk.options;
		const ended = await runHandler({
			program,
			env: environment(this.#desk.tree.context, this.#desk.node.name, taken),
			input: taken.body,
			limit,
			keep: mayReply ? this.#desk.tree.context.maxBytes : 0,
			signal: this.#desk.kill,
			guardian: this.#desk.guardian,
			onOutput: (fd, chunk) => (fd === 1 && mayReply ? undefined : onOutput(fd, chunk)),
		});
		if (this.#desk.overtaken()) return true; // the name is another's: it has what was in hand
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
		if (isTemporary(ended) && attempt < this.#desk.options.attempts) {
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
					taken.fail(`It was done, and its output could not be handed back: ${messageOf(error)}`);
					throw error;
				}
				taken.done(true);
			},
			"done",
			ended,
		);
	}

	#answer(handoff: Handoff, ended: Ended): void {
		const answer = answerTo(handoff, ended, this.#desk.tree.context.maxBytes);
		const [outcome] = this.#desk.tree.send({ ...answer, from: this.#desk.node.name, cwd: this.#desk.options.cwd });
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
		this.#desk.tell({ what, handoff, attempt, text, ...(ended && { ended }) });
		try {
			mark();
		} catch (error) {
			if (error instanceof XferError && error.code === "ELOST") {
				this.#desk.tell({
					what: "lost",
					handoff,
					text: `${shortId(handoff.id)} was not in hand any more: its handler, or another, has marked it`,
				});
				return;
			}
			this.#desk.tell({ what: "error", handoff, text: `${shortId(handoff.id)}: ${messageOf(error)}` });
		}
	}
}

/** A Handoff in few words. */
export function facts({ id, kind, from }: Handoff): string {
	return `${shortId(id)} ${kind} from ${from}`;
}

export function messageOf(error: unknown): string {
	return error instanceof Error ? error.message : String(error);
}

import type { ExtensionAPI, ExtensionContext } from "@earendil-works/pi-coding-agent";
import { formatDuration } from "../lib/duration.ts";
import { XferError } from "../lib/errors.ts";
import { nodeName, slug } from "../lib/names.ts";
import type { Presence } from "../lib/presence.ts";
import type { Here } from "./here.ts";
import type { Inbound } from "./inbound.ts";
import type { Wish } from "./names.ts";
import type { Participant } from "./participant.ts";
import { explain, statusLine } from "./screen.ts";
import { Status } from "./status.ts";

/** ms that the end of a session waits for a start that is still going on. */
const endLimit = 1000;
/** ms after its start in which a session is no Node yet: a person waits for it, and nobody for the Node. */
const startPause = 50;

/** One session of pi, from its start to its end. */
export class Session {
	readonly status: Status;
	/** As a Node; undefined before it is one, and when it can't be. */
	here: Here | undefined;
	/** Why it is none. */
	problem: Error | undefined;
	readonly #pi: ExtensionAPI;
	readonly #context: ExtensionContext;
	readonly #arrived: () => void;
	readonly #ended = new AbortController();
	#starting: Promise<void> | undefined;
	#given = false;
	/** Unix ms. */
	readonly #began = Date.now();

	/** @param arrived called when it has become a Node */
	constructor(pi: ExtensionAPI, context: ExtensionContext, arrived: () => void) {
		this.#pi = pi;
		this.#context = context;
		this.#arrived = arrived;
		this.status = new Status(() => this.here?.me.live);
	}

	/** Ends when this session has become a Node, or is known to be none. */
	get started(): Promise<void> | undefined {
		return this.#starting;
	}

	start(): Promise<void> {
		this.#starting = this.#start();
		return this.#starting;
	}

	async #start(): Promise<void> {
		try {
			// pi is ready first: what makes a Node of the session is not loaded before.
			if (this.#context.mode === "tui" || this.#context.mode === "rpc") await new Promise((resolve) => setTimeout(resolve, startPause));
			if (this.#ended.signal.aborted) return;
			const { names } = await import("./names.ts");
			const called = this.#pi.getSessionName();
			for (const name of names(this.#pi, this.#context)) {
				try {
					await this.#be(name);
					const now = this.#pi.getSessionName();
					if (now !== called) this.renamed(now); // while it was none yet
					return;
				} catch (error) {
					if (name.given !== "before" || !(error instanceof XferError)) throw error;
				}
			}
		} catch (error) {
			if (!this.#ended.signal.aborted) this.#tell(error);
		}
	}

	async #be({ name, given }: Wish): Promise<void> {
		const { Participant } = await import("./participant.ts");
		const me = await Participant.start({ name, given: given !== false }, this.#presence(), this.#ended.signal);
		if (this.#ended.signal.aborted) return me.end();
		this.#given = given === true;
		this.problem = undefined;
		const inbound = await this.#receive(me);
		this.here = { me, inbound, context: this.#context };
		this.status.resume();
		this.#watchLock();
		this.#arrived();
		const { count, oldest } = inbound.waiting();
		const age = formatDuration(me.tree.context.now() - oldest);
		if (count > 0 && oldest < this.#began && this.#context.hasUI)
			this.#context.ui.notify(`${count === 1 ? "1 Handoff waiting," : `${count} Handoffs waiting, the oldest`} ${age} old`, "info");
		this.show();
	}

	async #receive(me: Participant): Promise<Inbound> {
		const { Inbound } = await import("./inbound.ts");
		return new Inbound(this.#pi, this.#context, me, () => this.show());
	}

	/** Says who this is and what waits, on the screen and in the tree. */
	show(): void {
		if (!this.here || this.#ended.signal.aborted) return;
		const { me, inbound } = this.here;
		const count = countOf(inbound);
		this.status.set({ holding: count > 0 || inbound.holding === "brake" ? inbound.holding : undefined });
		if (this.#context.hasUI) this.#context.ui.setStatus("xfer", statusLine(me.name, count, inbound.holding));
	}

	/** What it does after something that was done meanwhile. */
	calm(): void {
		this.status.set({ status: this.#context.isIdle() ? "idle" : "thinking" });
		this.here?.inbound.look();
	}

	/** The session has another name in pi. */
	renamed(name: string | undefined): void {
		const wanted = slug(name ?? "");
		if (!wanted || this.#given || !this.here) return;
		this.rename(wanted).catch((error) => this.#tell(error));
	}

	/** @throws {XferError} as `Extension.name` */
	async rename(name: string): Promise<string> {
		const wanted = nodeName(name);
		if (!this.here) {
			await this.#be({ name: wanted, given: true });
			return wanted;
		}
		const { me } = this.here;
		if (me.name !== wanted) me.node.alias(wanted);
		this.show();
		return wanted;
	}

	async end(): Promise<void> {
		if (this.#ended.signal.aborted) return;
		this.#ended.abort();
		// A start that waits for a stale lock ends by the signal; nothing may keep pi from ending.
		await Promise.race([this.#starting, new Promise((resolve) => setTimeout(resolve, endLimit).unref())]);
		this.status.close();
		const { here } = this;
		this.here = undefined;
		here?.inbound.close();
		here?.me.end();
	}

	#presence(): Presence & { cwd: string } {
		const { cwd, model, sessionManager } = this.#context;
		return {
			agent: "pi",
			model: model?.provider === "unknown" ? undefined : model?.id,
			cwd,
			session: sessionManager.getSessionId(),
			session_file: sessionManager.getSessionFile(),
			status: "idle",
			holding: undefined,
			wake: "now",
		};
	}

	/** A laptop that slept comes back, and another may have its name. */
	#watchLock(): void {
		const { here } = this;
		here?.me.live.lock.lost.addEventListener("abort", () => {
			if (this.#ended.signal.aborted || this.here !== here) return;
			const before = here.me.name;
			here.inbound.close();
			here.me.again(this.#presence(), this.#ended.signal).then(
				async (name) => {
					if (this.#ended.signal.aborted) return;
					this.here = { ...here, inbound: await this.#receive(here.me) };
					this.#watchLock();
					if (name !== before) this.#say(`xfer: ${before} was taken while this process slept: this session is ${name} now`, "warning");
					this.show();
				},
				(error) => {
					if (this.#ended.signal.aborted) return;
					this.here = undefined;
					here.me.end(); // what this process starts is not to speak as a Node that nobody is
					if (this.#context.hasUI) this.#context.ui.setStatus("xfer", undefined);
					this.#tell(error);
				},
			);
		});
	}

	#tell(error: unknown): void {
		const isName = error instanceof XferError && (error.code === "EHELD" || error.code === "ENAME");
		this.problem = isName ? new XferError(error.code, error.message, `${error.cure}: /xfer name NAME`) : new Error(explain(error));
		this.#say(`xfer: ${explain(this.problem)}`, "error");
	}

	#say(text: string, type: "warning" | "error"): void {
		if (this.#context.hasUI) this.#context.ui.notify(text, type);
		else console.error(text);
	}
}

function countOf(inbound: Inbound): number {
	try {
		return inbound.count();
	} catch {
		return 0; // the Inbox can't be listed just now
	}
}

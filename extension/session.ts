import type { ExtensionAPI, ExtensionContext } from "@earendil-works/pi-coding-agent";
import { formatDuration } from "../lib/duration.ts";
import { XferError } from "../lib/errors.ts";
import { derivedName, nodeOfSession } from "../lib/identity.ts";
import { nodeName, slug } from "../lib/names.ts";
import type { Presence } from "../lib/presence.ts";
import { openTree } from "../lib/tree.ts";
import type { Here } from "./here.ts";
import { Inbound } from "./inbound.ts";
import { type Name, Participant } from "./participant.ts";
import { explain, statusLine } from "./screen.ts";
import { Status } from "./status.ts";

/** ms that the end of a session waits for a start that is still going on. */
const endLimit = 1000;

/** One session of pi, from its start to its end. */
export class Session {
	readonly status: Status;
	/** As a Node; undefined before it is one, and when it can't be. */
	here: Here | undefined;
	/** Why it is none. */
	problem: string | undefined;
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

	start(): Promise<void> {
		this.#starting = this.#start();
		return this.#starting;
	}

	async #start(): Promise<void> {
		try {
			for (const name of this.#names()) {
				try {
					await this.#be(name);
					return;
				} catch (error) {
					if (name.given !== "before" || !(error instanceof XferError)) throw error;
				}
			}
		} catch (error) {
			if (!this.#ended.signal.aborted) this.#tell(error);
		}
	}

	/** The names to try, in this order. */
	*#names(): Generator<{ name: string; given: boolean | "before" }> {
		const flag = this.#pi.getFlag("xfer");
		if (typeof flag === "string" && flag !== "") {
			yield { name: nodeName(flag), given: true };
			return;
		}
		const { mode, sessionManager, cwd } = this.#context;
		if (mode === "print" || mode === "json") return; // it is over before anybody could write to it
		const tree = openTree({ instance: "00000000" });
		const before = nodeOfSession(tree, sessionManager.getSessionId());
		if (before) yield { name: before, given: "before" };
		const named = slug(this.#pi.getSessionName() ?? "");
		if (named) yield { name: named, given: false };
		else yield inherited(tree) ?? { name: derivedName(cwd, "pi"), given: false };
	}

	async #be({ name, given }: { name: string; given: boolean | "before" }): Promise<void> {
		const me = await Participant.start({ name, given: given !== false }, this.#presence(), this.#ended.signal);
		if (this.#ended.signal.aborted) return me.end();
		this.#given = given === true;
		this.problem = undefined;
		const inbound = new Inbound(this.#pi, this.#context, me, () => this.show());
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
				(name) => {
					if (this.#ended.signal.aborted) return;
					this.here = { ...here, inbound: new Inbound(this.#pi, this.#context, here.me, () => this.show()) };
					this.#watchLock();
					if (name !== before) this.#say(`xfer: ${before} was taken while this process slept: this session is ${name} now`, "warning");
					this.show();
				},
				(error) => {
					this.here = undefined;
					if (!this.#ended.signal.aborted) this.#tell(error);
				},
			);
		});
	}

	#tell(error: unknown): void {
		this.problem = explain(error);
		this.#say(`xfer: ${this.problem}`, "error");
	}

	#say(text: string, type: "warning" | "error"): void {
		if (this.#context.hasUI) this.#context.ui.notify(text, type);
		else console.error(text);
	}
}

/** `$XFER_NODE`, unless another process that is live as that Node handed it down: then it is that one's name. */
function inherited(tree: ReturnType<typeof openTree>): Name | undefined {
	const { XFER_NODE: name, XFER_INSTANCE: instance } = process.env;
	if (!name) return undefined;
	const given = nodeName(name);
	const live = tree.has(given) ? tree.node(given).live() : undefined;
	return live && live.instance === instance && live.pid !== process.pid ? undefined : { name: given, given: true };
}

function countOf(inbound: Inbound): number {
	try {
		return inbound.count();
	} catch {
		return 0; // the Inbox can't be listed just now
	}
}

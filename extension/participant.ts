import { goLiveAs, goLiveNear } from "../lib/identity.ts";
import type { Presence } from "../lib/presence.ts";
import type { Outcome, Outgoing } from "../lib/send.ts";
import { type Live, openTree, type Tree } from "../lib/tree.ts";

/** How a session came to its name. `given`: by a person, for this Node alone; it is refused when it is taken. */
export interface Name {
	readonly name: string;
	readonly given: boolean;
}

/** What processes that this one starts see, so that they speak as the same Node. */
const handedDown = ["XFER_NODE", "XFER_INSTANCE", "XFER_HOME", "XFER_HOPS"] as const;

/** A pi session as a Node: what it is called, that it is there, and what it sends. */
export class Participant {
	readonly tree: Tree;
	readonly cwd: string;
	#live: Live;
	/** Hops of what the agent is working on; undefined when a person has spoken last. */
	#working: number | undefined;
	readonly #environment = new Map<string, string | undefined>();

	private constructor(tree: Tree, live: Live, cwd: string) {
		this.tree = tree;
		this.#live = live;
		this.cwd = cwd;
		for (const key of handedDown) this.#environment.set(key, process.env[key]);
		this.#handDown();
	}

	/**
	 * Goes live.
	 * @throws {XferError} ENAME, EHELD for a given name · the system's error
	 */
	static async start({ name, given }: Name, presence: Presence & { cwd: string }, signal: AbortSignal): Promise<Participant> {
		const { XFER_INSTANCE: _, XFER_HOPS: __, ...env } = process.env; // an instance is made anew by each session, and hops are its own
		const tree = openTree({ env });
		const live = await (given ? goLiveAs : goLiveNear)(tree, name, presence, signal);
		return new Participant(tree, live, presence.cwd);
	}

	get live(): Live {
		return this.#live;
	}

	get node(): Live["node"] {
		return this.#live.node;
	}

	get name(): string {
		return this.#live.node.name;
	}

	/** Hops that what is sent now carries: replies since a person or a script last spoke (protocol 15). */
	get hops(): number {
		return this.#working === undefined ? 0 : this.#working + 1;
	}

	/** A person has spoken: what follows is no reply to a program. */
	spokenTo(): void {
		this.#working = undefined;
		this.#handDown();
	}

	/**
	 * The agent works on what carries so many hops.
	 * @param anew on nothing else; in a run that goes on it works on what it worked on, too
	 */
	worksOn(hops: number, anew = false): void {
		this.#working = anew ? hops : Math.max(this.#working ?? 0, hops);
		this.#handDown();
	}

	/**
	 * Hands off as this Node.
	 * @throws as `Tree.send`
	 */
	send(outgoing: Omit<Outgoing, "from" | "cwd">): Outcome[] {
		const hops = Math.max(this.hops, outgoing.hops ?? 0);
		return this.tree.send({ ...outgoing, from: this.name, cwd: this.cwd, hops });
	}

	/** After the lock was lost: under the same name when it is free, else under another; says which. */
	async again(presence: Presence, signal: AbortSignal): Promise<string> {
		this.#live = await goLiveNear(this.tree, this.name, presence, signal);
		this.#handDown();
		return this.name;
	}

	/** Lets the name go. */
	end(): void {
		for (const [key, value] of this.#environment) {
			if (value === undefined) delete process.env[key];
			else process.env[key] = value;
		}
		try {
			this.#live.end();
		} catch {
			// the tree is gone, or can't be written to: so is the lock, or it becomes stale
		}
	}

	#handDown(): void {
		const { root, instance } = this.tree.context;
		process.env.XFER_NODE = this.name;
		process.env.XFER_INSTANCE = instance;
		process.env.XFER_HOME = root;
		if (this.hops > 0) process.env.XFER_HOPS = String(this.hops);
		else delete process.env.XFER_HOPS;
	}
}

import {
	type Dirent,
	lstatSync,
	mkdirSync,
	readdirSync,
	readlinkSync,
	rmdirSync,
	rmSync,
	symlinkSync,
	unlinkSync,
	utimesSync,
} from "node:fs";
import { type Context, type ContextOptions, createContext } from "./context.ts";
import { errno, XferError } from "./errors.ts";
import { isOver, stateOf } from "./filename.ts";
import { listNames, makeDirectories, modified, syncDirectory } from "./files.ts";
import { collect } from "./gc.ts";
import type { Handoff } from "./handoff.ts";
import { Inbox } from "./inbox.ts";
import { type Holder, LiveLock, lastRefresh, removeDeadLocks, whoIsLive } from "./lock.ts";
import { logFiles } from "./log-file.ts";
import { fold, isNodeName, nodeName, similar } from "./names.ts";
import { createPresence, type Presence, presenceFiles, readPresence, timestamp, writePresence } from "./presence.ts";
import { type Outcome, type Outgoing, send, threadOf } from "./send.ts";
import { Sent } from "./sent.ts";

/** Whether a Node is there, and what it says of itself. */
export interface Whereabouts {
	readonly presence: Presence;
	/** Who is there; undefined: the Node is away. */
	readonly live: Holder | undefined;
	/** When the Node last showed itself, unix ms. */
	readonly lastSeen: number | undefined;
}

/** What a look at a Node shows. */
export interface NodeInfo extends Whereabouts {
	readonly name: string;
	/** Its other names. */
	readonly aliases: readonly string[];
	/** How many Handoffs wait in `new/`. */
	readonly unread: number;
	/** Why nothing could be seen of it, if so: the system's code. */
	readonly problem: string | undefined;
}

/**
 * Opens a tree: nothing is read or made before it is needed.
 * @param options what the tree stands on: `root` (else `$XFER_HOME`, else `~/.xfer`), clock, randomness, limits
 * @throws {XferError} EROOT when the root is not an absolute path
 */
export function openTree(options?: ContextOptions): Tree {
	return new Tree(createContext(options));
}

export class Tree {
	readonly context: Context;
	readonly #nodes: string;

	constructor(context: Context) {
		this.context = context;
		this.#nodes = `${context.root}/nodes`;
	}

	/**
	 * The Node of this name, or of which this is another name.
	 * @throws {XferError} ENAME when it is no Node name, ENODE when there is no such Node
	 */
	node(name: string): Node {
		const given = nodeName(name);
		const real = this.#resolve(given);
		if (real) return new Node(this, real, `${this.#nodes}/${real}`);
		const { names, aliases } = this.#names();
		const meant = similar(given, [...names, ...aliases.keys()]);
		const hint = meant ? `did you mean ${meant}? ` : "";
		throw new XferError("ENODE", `no Node "${given}"`, `${hint}to make it: xfer join ${given}`);
	}

	/** Whether there is a Node of this name. */
	has(name: string): boolean {
		const given = fold(name);
		return isNodeName(given) && this.#resolve(given) !== undefined;
	}

	/** The names of all Nodes, without their other names, in order. */
	names(): string[] {
		return this.#names().names;
	}

	/** All Nodes as a look shows them. */
	nodes(): NodeInfo[] {
		const { names, aliases } = this.#names();
		return names.flatMap((name) => {
			if (!this.has(name)) return []; // it has left meanwhile
			const node = new Node(this, name, `${this.#nodes}/${name}`);
			const others = [...aliases].filter(([, to]) => to === name).map(([alias]) => alias);
			try {
				return { name, aliases: others, unread: node.inbox.maildir.names("new").length, problem: undefined, ...node.whereabouts() };
			} catch (error) {
				// One Node that can't be entered does not hide the others.
				return {
					name,
					aliases: others,
					unread: 0,
					problem: errno(error) ?? String(error),
					presence: {},
					live: undefined,
					lastSeen: undefined,
				};
			}
		});
	}

	/**
	 * Makes a Node, or finds the one that is there.
	 * @throws {XferError} ENAME · the system's error
	 */
	join(name: string, presence: Pick<Presence, "about" | "derived"> = {}): Node {
		const given = nodeName(name);
		const real = this.#resolve(given);
		const directory = `${this.#nodes}/${real ?? given}`;
		if (!real) {
			makeDirectories(this.#nodes);
			try {
				mkdirSync(directory, { mode: 0o700 });
			} catch (error) {
				const here = lstatSync(directory, { throwIfNoEntry: false });
				if (errno(error) !== "EEXIST") throw error;
				if (!here?.isDirectory())
					throw new XferError("ENAME", `${directory} is no Node and in the way`, "remove it, or choose another name");
			}
		}
		for (const part of ["tmp", "cur", "sent", "new"]) makeDirectories(`${directory}/${part}`);
		createPresence(directory, { name: given, since: timestamp(this.context), ...presence });
		if (!real && this.context.durable) for (const path of [directory, this.#nodes, this.context.root]) syncDirectory(path);
		return new Node(this, real ?? given, directory);
	}

	/**
	 * Removes a Node in which nothing waits, with what has been read and ended in it; or only a second name.
	 * A Handoff that arrives meanwhile is kept, and the Node with it.
	 * @throws {XferError} ENODE · EHELD when it is live, has unread mail, or gets some just now
	 */
	leave(name: string): { removed: string; handoffs: number } {
		const given = nodeName(name);
		const path = `${this.#nodes}/${given}`;
		const node = this.node(given);
		if (node.name !== given) {
			unlinkSync(path);
			return { removed: given, handoffs: 0 };
		}
		const live = node.live();
		if (live && live.instance !== this.context.instance)
			throw new XferError("EHELD", `${given} is live (process ${live.pid} on ${live.host})`, "end that one first");
		const waiting = node.inbox.list();
		const [first] = waiting.items;
		if (first) {
			const what = `${waiting.items.length} that wait (the first is ${first.state}, from ${first.from})`;
			throw new XferError("EHELD", `${given} has ${what}`, `read or mark them first: xfer inbox ${given}`);
		}
		const { maildir } = node.inbox;
		const aliases = [...this.#names().aliases].flatMap(([alias, to]) => (to === given ? [alias] : []));
		// What its header has ended does not wait, though it lies in new/ still.
		for (const { message } of node.inbox.list({ states: (state) => state === "expired" }).items) maildir.end(message, "expired");
		const ended = maildir.list("cur").filter((message) => isOver(stateOf("cur", message)));
		const strange = strangers(path, new Set(ended.map(({ name }) => name)), node);
		if (strange) throw new XferError("EHELD", `${strange} is not ours to remove`, "look at it, then try again");
		let part = "live.lock";
		const removePart = (name: string) => {
			part = name;
			removeEmpty(`${path}/${name}`);
		};
		try {
			removeDeadLocks(this.context, path, this.context.lock.stale + this.context.lock.refresh, false);
			removePart("live.lock"); // nobody is there, and who comes now makes it anew: then the last step fails
			for (const name of ["new", "tmp"]) removePart(name); // from here on nothing can arrive without making them again
			for (const message of ended) rmSync(maildir.file(message), { force: true });
			for (const id of node.sent.ids()) if (node.sent.recipient(id) !== undefined) rmSync(`${path}/sent/${id}`, { force: true });
			for (const name of ["cur", "sent"]) removePart(name);
			for (const name of [...presenceFiles(path), ...logFiles(path), ".gc"]) rmSync(`${path}/${name}`, { force: true });
			rmSync(`${path}/.hook`, { recursive: true, force: true });
			removePart("");
		} catch (error) {
			this.join(given); // what was removed of its parts is made again
			throw new XferError(
				"EHELD",
				`${path}/${part} is not empty (${errno(error)}): something arrived just now, or is not ours`,
				"look at it, then try again",
			);
		}
		for (const alias of aliases) unlinkSync(`${this.#nodes}/${alias}`);
		return { removed: given, handoffs: ended.length };
	}

	/**
	 * Hands off to each recipient: durable, one file each (protocol 6). What is delivered stays delivered whatever happens to the others.
	 * @returns an outcome for each recipient, in order, with `error` where it failed
	 * @throws {XferError} EINPUT, ESIZE, ENAME when nothing was delivered because of what was given
	 */
	send(outgoing: Outgoing): Outcome[] {
		return send(this, outgoing);
	}

	#resolve(name: string): string | undefined {
		const path = `${this.#nodes}/${name}`;
		const stat = lstatSync(path, { throwIfNoEntry: false });
		if (stat?.isDirectory()) return name;
		if (!stat?.isSymbolicLink()) return undefined;
		let target: string;
		try {
			target = readlinkSync(path).replace(/^\.\//, "");
		} catch {
			return undefined; // removed meanwhile
		}
		return isNodeName(target) && lstatSync(`${this.#nodes}/${target}`, { throwIfNoEntry: false })?.isDirectory() ? target : undefined;
	}

	#names(): { names: string[]; aliases: Map<string, string> } {
		let entries: Dirent[];
		try {
			entries = readdirSync(this.#nodes, { withFileTypes: true });
		} catch (error) {
			if (errno(error) !== "ENOENT") throw error;
			entries = []; // no tree yet: nobody is here
		}
		const names: string[] = [];
		const aliases = new Map<string, string>();
		for (const { name } of entries) {
			const real = isNodeName(name) ? this.#resolve(name) : undefined;
			if (real === name) names.push(name);
			else if (real) aliases.set(name, real);
		}
		return { names: names.sort(), aliases };
	}
}

/** What in a Node's directory a `leave` would not remove: one name of it, so that nothing is removed when not all can be. */
function strangers(path: string, ended: ReadonlySet<string>, node: Node): string | undefined {
	const parts = new Set(["tmp", "new", "cur", "sent", "live.lock", ".gc", ".hook", ...presenceFiles(path), ...logFiles(path)]);
	const inCur = listNames(`${path}/cur`, true).find((name) => !ended.has(name));
	const inSent = listNames(`${path}/sent`, true).find((name) => node.sent.recipient(name) === undefined);
	const beside = listNames(path, true).find((name) => !parts.has(name));
	const found = beside ?? (inCur && `cur/${inCur}`) ?? (inSent && `sent/${inSent}`);
	return found && `${path}/${found}`;
}

/** Removes a directory with nothing in it, if it is there. */
function removeEmpty(path: string): void {
	try {
		rmdirSync(path);
	} catch (error) {
		if (errno(error) !== "ENOENT") throw error;
	}
}

/** One participant: a directory with an Inbox. */
export class Node {
	readonly name: string;
	readonly directory: string;
	readonly inbox: Inbox;
	readonly sent: Sent;
	readonly #tree: Tree;

	/** @internal */
	constructor(tree: Tree, name: string, directory: string) {
		this.#tree = tree;
		this.name = name;
		this.directory = directory;
		this.inbox = new Inbox(tree.context, directory, (handoff, reason) => this.#bounce(handoff, reason));
		this.sent = new Sent(tree, directory);
	}

	presence(): Presence {
		return readPresence(this.directory);
	}

	/** Replaces what the Node says of itself. */
	async setPresence(presence: Presence): Promise<void> {
		await writePresence(this.directory, { name: this.name, ...presence });
	}

	/** Who is there; undefined: the Node is away. */
	live(): Holder | undefined {
		return whoIsLive(this.#tree.context, this.directory);
	}

	whereabouts(): Whereabouts {
		const lastSeen = Math.max(modified(`${this.directory}/node.md`) ?? 0, lastRefresh(this.directory) ?? 0);
		return { presence: this.presence(), live: this.live(), lastSeen: lastSeen || undefined };
	}

	/** Notes that the Node showed itself just now. */
	seen(): void {
		try {
			const now = new Date(this.#tree.context.now());
			utimesSync(`${this.directory}/node.md`, now, now);
		} catch {
			// no presence, or a tree that can only be read: then nobody was seen
		}
	}

	/**
	 * A second name of this Node.
	 * @throws {XferError} EHELD when the name is another Node's
	 */
	alias(name: string): void {
		const given = nodeName(name);
		try {
			symlinkSync(this.name, `${this.#tree.context.root}/nodes/${given}`);
		} catch (error) {
			if (errno(error) !== "EEXIST") throw error;
			if (this.#tree.node(given).name !== this.name) throw new XferError("EHELD", `${given} is another Node`, "choose another name");
		}
	}

	/**
	 * Is there: holds the live lock, returns what the former instance had in hand, and publishes presence.
	 * The process may end without `end`; then the name is free at once on this host, and soon elsewhere.
	 * It is this process that is there, or the one whose `pid` the presence has: that one, or who acts for it, refreshes the lock then.
	 * @throws {XferError} EHELD when another instance is live on this Node
	 */
	async goLive(presence: Presence = {}, signal?: AbortSignal): Promise<Live> {
		const { context } = this.#tree;
		this.#tree.join(this.name); // also when somebody else makes it leave just now
		const lock = await LiveLock.acquire(context, this.directory, signal, presence.pid === undefined ? undefined : Number(presence.pid));
		try {
			const before = this.presence();
			this.inbox.returnLeases(before.instance === context.instance ? undefined : before.instance);
			const live = new Live(this, lock, { about: before.about, started: timestamp(context), ...presence }, context);
			await live.publish({});
			this.tidy();
			return live;
		} catch (error) {
			lock.release();
			throw error;
		}
	}

	/** Clears away what has ended long ago, once a day. */
	tidy(): void {
		try {
			collect(this.#tree, this, { daily: true });
		} catch {
			// not worth not being there: xfer gc and xfer doctor say what is wrong
		}
	}

	/** A failed Handoff comes back to its sender as a report: never for a report, and not to where nobody is. */
	#bounce(handoff: Handoff, reason: string): void {
		if (handoff.kind === "report") return;
		if (!this.#tree.has(handoff.from)) return; // nobody to tell; the failure stands in the tree
		const [outcome] = this.#tree.send({
			from: this.name,
			to: [handoff.from],
			kind: "report",
			subject: `failed: ${handoff.subject}`.slice(0, 200),
			body: reason.slice(0, 4096) || "failed, without a reason",
			re: handoff.id,
			thread: threadOf(handoff),
			hops: handoff.hops + 1,
		});
		if (outcome?.error) throw outcome.error;
	}
}

/** A Node that this process is. */
export class Live {
	readonly node: Node;
	/** The live lock; `lock.lost` is aborted when another took the name while this process slept. */
	readonly lock: LiveLock;
	#presence: Presence;

	/** @internal */
	constructor(node: Node, lock: LiveLock, presence: Presence, context: Context) {
		this.node = node;
		this.lock = lock;
		const { instance, host } = context;
		this.#presence = { instance, host, pid: String(process.pid), status: "idle", wake: "now", since: timestamp(context), ...presence };
	}

	/** Changes what the Node says of itself; what is not named stays. */
	async publish(change: Presence): Promise<void> {
		const { about } = this.node.presence(); // others may have said what it is for
		this.#presence = { ...this.#presence, ...(about && { about }), ...change };
		if (!this.lock.lost.aborted) await this.node.setPresence(this.#presence);
	}

	/** Lets the name go: the Node is a mailbox from now on. */
	end(): void {
		this.node.seen();
		this.lock.release();
	}
}

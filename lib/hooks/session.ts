import { XferError } from "../errors.ts";
import { mostSuffixes, projectName, suffixed } from "../identity.ts";
import { dropStale, type Holder } from "../lock.ts";
import { isNodeName } from "../names.ts";
import { readPresence } from "../presence.ts";
import { ancestors } from "../processes.ts";
import { type Node, openTree, type Tree } from "../tree.ts";
import { startHolder } from "./holder.ts";
import type { Host } from "./hosts/host.ts";

/** One session of a host, as its hooks tell of it. */
export interface HostSession {
	readonly host: Host;
	/** The host's own id of it. */
	readonly id: string;
	readonly cwd: string;
	/** The process of the host. */
	readonly pid: number;
	/** A name that a person gave. */
	readonly name: string | undefined;
	readonly model: string | undefined;
	readonly file: string | undefined;
	readonly env: Readonly<Record<string, string | undefined>>;
}

/** The Node that a session is. */
export interface Me {
	readonly tree: Tree;
	readonly node: Node;
	readonly instance: string;
}

/** ms for which what a hook has in hand is in hand: it lives for less, and what it could not finish comes back soon. */
const lease = 10_000;
/** ms that another hook of the same process gets to say which session it is. */
const patience = 800;

/** The tree as this session's own: what started the host hands down nothing that is the session's. */
function open(env: HostSession["env"], instance?: string): Tree {
	return openTree({ env: { ...env, XFER_INSTANCE: instance, XFER_HOPS: undefined }, lease });
}

/** The Node that the session is already: live, and of its host's process. */
export function find(session: HostSession): Me | undefined {
	const tree = open(session.env, "00000000");
	const { live } = search(tree, session);
	return live && as(session, live.node.name, live.holder);
}

/**
 * The Node that the session is, and else becomes: the one that it was before, or the first free one of its name.
 * @param begins it may go on what another session in the same process has left
 * @throws {XferError} EHELD when none is free · the signal's reason · the system's error
 */
export async function become(session: HostSession, begins: boolean, signal: AbortSignal): Promise<Me> {
	const tree = open(session.env, "00000000");
	const { live, away, former } = search(tree, session);
	if (live) return as(session, live.node.name, live.holder);
	if (begins && session.host.single) for (const node of former) letGo(node); // of this very process, which has one session at a time
	const given = session.name ?? inherited(tree, session.env);
	const names = [...(away ? [away.name] : []), ...nearNames(given ?? derived(session))];
	for (let at = 0; at < names.length; ) {
		const name = names[at] ?? "";
		const there = tree.has(name) ? tree.node(name) : undefined;
		const holder = there && (await whoIsThere(there, session));
		if (holder) return as(session, name, holder);
		if (holder === null || (there && there !== away && !given && (there.name !== name || isElsewhere(there, session)))) {
			at++;
			continue;
		}
		if (there) dropStale(tree.context, there.directory, session.pid); // its holder was killed, and a hook has no time to watch it
		try {
			return await goLive(session, name, given === undefined, signal);
		} catch (error) {
			// Another was faster, perhaps another hook of this session: it is looked at again.
			if (!(error instanceof XferError) || error.code !== "EHELD") throw error;
			signal.throwIfAborted();
		}
	}
	throw new XferError("EHELD", `${names[0]} and its like are all live, or of other directories`, "give a name of its own: --name NAME");
}

/** The session has ended: its name is free. */
export function end(me: Me): void {
	me.node.seen();
	letGo(me.node, me.instance);
}

/** What the agent's own processes see, so that they speak as the same Node. */
export function environment({ tree, node, instance }: Me): Readonly<Record<string, string>> {
	return { XFER_NODE: node.name, XFER_INSTANCE: instance, XFER_HOME: tree.context.root };
}

async function goLive(session: HostSession, name: string, isDerived: boolean, signal: AbortSignal): Promise<Me> {
	const tree = open(session.env);
	const { instance } = tree.context;
	const node = tree.join(name, isDerived ? { derived: "true" } : {});
	const { host, id, cwd, pid, model, file } = session;
	const before = node.presence();
	await node.goLive(
		{
			agent: host.name,
			model,
			cwd,
			session: id,
			session_file: file,
			pid: String(pid),
			status: "idle",
			wake: "turn",
			derived: before.derived,
		},
		signal,
	);
	startHolder(node, instance, pid);
	return { tree, node, instance };
}

function as({ env }: HostSession, name: string, { instance }: Holder): Me {
	const tree = open(env, instance);
	return { tree, node: tree.node(name), instance };
}

interface Found {
	/** Live, of this process if any is. */
	live?: { node: Node; holder: Holder };
	/** Nobody is there: to be regained. */
	away?: Node;
	/** Live as another session, of this process. */
	former: Node[];
}

function search(tree: Tree, session: HostSession): Found {
	const { host, id, pid } = session;
	const found: Found = { former: [] };
	const above = new Set(Array.from(ancestors(), (process) => process.pid)).add(pid); // a program between the host and us is no other host
	const base = session.name ?? session.env.XFER_NODE ?? derived(session);
	for (const name of likely(tree, base)) {
		try {
			const node = tree.node(name);
			const presence = node.presence();
			if (presence.agent !== host.name) continue;
			if (presence.session !== id && presence.pid !== String(pid)) continue;
			const holder = node.live();
			if (presence.session !== id) {
				if (holder?.pid === pid) found.former.push(node);
			} else if (!holder) found.away ??= node;
			else if (above.has(holder.pid)) return { ...found, live: { node, holder } };
			// else the same session in another terminal: there are two of it now
		} catch {
			// it can't be entered
		}
	}
	return found;
}

/** The names of all Nodes, those first that it most likely is: the others are listed only if it is none of them. */
function* likely(tree: Tree, base: string): Generator<string> {
	const first = Array.from({ length: 3 }, (_, at) => suffixed(base, at + 1));
	for (const name of first) if (isNodeName(name) && tree.has(name)) yield name;
	for (const name of tree.names()) if (!first.includes(name)) yield name;
}

function derived({ host, cwd }: HostSession): string {
	const project = projectName(cwd);
	return project ? suffixed(`${host.name}-${project}`, 1) : host.name;
}

function nearNames(name: string): string[] {
	return Array.from({ length: mostSuffixes }, (_, at) => suffixed(name, at + 1));
}

/** `$XFER_NODE`, unless another process that is live as that Node handed it down: then it is that one's name. */
function inherited(tree: Tree, { XFER_NODE: name, XFER_INSTANCE: instance }: HostSession["env"]): string | undefined {
	if (!name || !isNodeName(name)) return undefined;
	const live = tree.has(name) ? tree.node(name).live() : undefined;
	return live && live.instance === instance ? undefined : name;
}

function isElsewhere(node: Node, { cwd }: HostSession): boolean {
	const there = node.presence().cwd;
	return there !== undefined && there !== cwd;
}

/**
 * Who is live there for this session: another hook of it, which may just be about to say so. Undefined: nobody; null: somebody else.
 * @throws {XferError} EHELD when a hook of this process does not say: a second Node would be one too many, and the next hook finds this one
 */
async function whoIsThere(node: Node, { host, id, pid }: HostSession): Promise<Holder | null | undefined> {
	for (const end = performance.now() + patience; ; ) {
		const holder = node.live(); // of several that try at once, another one at the next look
		if (!holder) return undefined;
		if (holder.pid !== pid) return null;
		const { instance, session, agent } = readPresence(node.directory);
		if (instance === holder.instance) return session === id && agent === host.name ? holder : null;
		if (performance.now() > end) throw new XferError("EHELD", `another hook of this process is just becoming ${node.name}`);
		await new Promise((resolve) => setTimeout(resolve, 10));
	}
}

function letGo(node: Node, instance = node.live()?.instance): void {
	if (instance === undefined) return;
	const { rmSync, rmdirSync } = process.getBuiltinModule("node:fs");
	rmSync(`${node.directory}/live.lock/${instance}`, { force: true }); // its holder sees that, and ends
	try {
		rmdirSync(`${node.directory}/live.lock`);
	} catch {
		// another is in it, or removed it first
	}
}

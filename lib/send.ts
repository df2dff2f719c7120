import { numberOn, slip } from "./desk.ts";
import { XferError } from "./errors.ts";
import { compare, idAbove, idMaker } from "./filename.ts";
import { formatHeader, type Handoff, headerLimit, type Kind, type Priority } from "./handoff.ts";
import type { Listed } from "./inbox.ts";
import type { Durability } from "./maildir.ts";
import { nodeName, oneMachine } from "./names.ts";
import { timestamp } from "./presence.ts";
import type { Node, Tree } from "./tree.ts";

/** What is to be handed off. */
export interface Outgoing {
	readonly from: string;
	/** Node names; `@all` is every live Node but the sender. */
	readonly to: readonly string[];
	/** The bytes as they shall be read. */
	readonly body: Uint8Array | string;
	/** `task` unless given; to `@all` a `note`, and nothing else. */
	readonly kind?: Kind | undefined;
	readonly subject?: string | undefined;
	readonly priority?: Priority | undefined;
	/** Unix ms after which it is not shown as new work. */
	readonly expires?: number | undefined;
	/** Replaces the unread older one of this sender with this key. */
	readonly key?: string | undefined;
	readonly re?: string | undefined;
	readonly thread?: string | undefined;
	readonly hops?: number | undefined;
	readonly cwd?: string | undefined;
	readonly repo?: string | undefined;
	readonly branch?: string | undefined;
	readonly commit?: string | undefined;
	/** The id, for one recipient: sent again under it, it is delivered once. */
	readonly id?: string | undefined;
}

/** What became of one recipient's copy. */
export type Outcome =
	| { readonly to: string; readonly id: string; readonly durability: Durability | "again"; readonly error?: undefined }
	| { readonly to: string; readonly error: Error };

/** An id maker for each tree: its ids sort in the order in which they were made. */
const makers = new WeakMap<Tree, () => string>();

/** See `Tree.send`. */
export function send(tree: Tree, outgoing: Outgoing): Outcome[] {
	const { context } = tree;
	const sender = nodeName(outgoing.from);
	const body = typeof outgoing.body === "string" ? Buffer.from(outgoing.body) : outgoing.body;
	if (body.length === 0) throw new XferError("EINPUT", "nothing to send: the text is empty", "give some words, or text on standard input");
	if (body.length > context.maxBytes) {
		throw new XferError(
			"ESIZE",
			`the text is ${body.length} bytes, the limit is ${context.maxBytes}`,
			"write it to a file and send its path, or raise XFER_MAX_BYTES",
		);
	}
	const broadcast = outgoing.to.includes("@all");
	const kind = outgoing.kind ?? (broadcast ? "note" : "task");
	if (broadcast && kind !== "note")
		throw new XferError("EINPUT", `to @all only notes go, not a ${kind}`, "name the Nodes, or leave --kind away");

	const recipients = new Map<string, Node | Error>();
	for (const name of outgoing.to) {
		if (name === "@all") for (const node of live(tree, sender)) recipients.set(node.name, node);
		else find(tree, name, recipients);
	}
	const found = [...recipients].filter(([, node]) => !(node instanceof Error));
	if (found.length === 0) {
		const [error] = recipients.values();
		if (error instanceof Error && recipients.size === 1) throw error;
		if (recipients.size === 0)
			throw new XferError("ENODE", "nobody is live", "xfer nodes shows who is away; name them to leave it in their Inbox");
		return [...recipients].map(([to, error]) => ({ to, error: error as Error }));
	}
	if (outgoing.id !== undefined && (recipients.size > 1 || !isChosenId(outgoing.id))) {
		throw new XferError("EINPUT", "a chosen id is for one recipient, and a file name without : ; , of at most 180 bytes");
	}
	if (outgoing.id !== undefined && outgoing.key !== undefined)
		throw new XferError("EINPUT", "a chosen id and a key do not go together", "leave one away");
	const to = found.map(([name]) => name);
	// What is sent again under its id must be the same bytes, whenever and by whichever process.
	const again = outgoing.id !== undefined;
	const hops = Math.max(outgoing.hops ?? 0, context.hops, hopsOfWork(tree, sender));
	const header = Buffer.from(
		formatHeader([
			["from", sender],
			["to", to.length === 1 ? to[0] : to],
			["kind", kind],
			[
				"subject",
				outgoing.subject
					?.split(/[\r\n]+/)
					.map((line) => line.trim())
					.join(" ")
					.trim(),
			],
			["date", again ? undefined : timestamp(context)],
			["re", outgoing.re],
			["thread", outgoing.thread],
			["priority", outgoing.priority],
			["expires", outgoing.expires === undefined ? undefined : new Date(outgoing.expires).toISOString()],
			["key", outgoing.key],
			["hops", hops > 0 ? String(hops) : undefined],
			["instance", again ? undefined : context.instance],
			["cwd", outgoing.cwd],
			["repo", outgoing.repo],
			["branch", outgoing.branch],
			["commit", outgoing.commit],
		]),
	);
	if (header.length > headerLimit) {
		throw new XferError(
			"ESIZE",
			`the header is ${header.length} bytes, the limit is ${headerLimit}`,
			"shorten the subject: the text belongs into the body",
		);
	}
	const bytes = Buffer.concat([header, body]);
	const own = tree.has(sender) ? tree.node(sender) : tree.join(sender, { derived: "true" });
	own.seen();
	return [...recipients].map(([name, node]): Outcome => {
		if (node instanceof Error) return { to: name, error: node };
		try {
			return { to: name, ...deliver(tree, own, node, bytes, outgoing, sender) };
		} catch (error) {
			return { to: name, error: error instanceof Error ? error : new Error(String(error)) };
		}
	});
}

/** Hops that what a live agent sends carries, when its hooks have noted what it works on: by whatever way it sends (protocol 15). */
function hopsOfWork(tree: Tree, sender: string): number {
	if (!tree.has(sender)) return 0;
	const { directory } = tree.node(sender);
	const text = slip(directory, "hops");
	return text !== undefined && tree.node(sender).live() ? numberOn(directory, "hops") + 1 : 0;
}

function deliver(
	tree: Tree,
	from: Node,
	to: Node,
	bytes: Buffer,
	{ id: chosen, key }: Outgoing,
	sender: string,
): { id: string; durability: Durability | "again" } {
	let maker = makers.get(tree);
	if (!maker) {
		maker = idMaker(tree.context);
		makers.set(tree, maker);
	}
	const { inbox } = to;
	const same = () => (key === undefined ? [] : inbox.sameKey({ from: sender, key: key.toWellFormed() }));
	const before = same();
	const id = chosen ?? before.reduce((id, other) => idAbove(id, other.id), maker());
	const durability = chosen ? inbox.maildir.deliverAs(id, bytes) : inbox.maildir.deliver(id, bytes);
	from.sent.point(id, to.name);
	try {
		// Published first, so that there is no moment with none. Then what was there before is ended; and of those that came at the same time,
		// one's own among them, all but the highest: only what has a higher one beside it.
		for (const other of before) inbox.maildir.end(other.message, "replaced");
		const all = same();
		const highest = all.reduce((top, other) => (compare(other.id, top) > 0 ? other.id : top), "");
		for (const other of all) if (other.id !== highest) inbox.maildir.end(other.message, "replaced");
	} catch {
		// It is delivered, and must not be sent again for this; whoever takes the older one looks for a newer one too.
	}
	return { id, durability };
}

function find(tree: Tree, name: string, recipients: Map<string, Node | Error>): void {
	try {
		if (/.@/.test(name)) throw new XferError("ENODE", `no Node "${name}"`, oneMachine);
		const node = tree.node(name);
		recipients.set(node.name, node);
	} catch (error) {
		if (!(error instanceof XferError)) throw error;
		recipients.set(name, error);
	}
}

function live(tree: Tree, sender: string): Node[] {
	const own = tree.has(sender) ? tree.node(sender).name : sender;
	return tree
		.names()
		.filter((name) => name !== own && tree.has(name))
		.map((name) => tree.node(name))
		.filter((node) => {
			try {
				return node.live();
			} catch {
				return false; // it can't be entered: nobody can say that it is live
			}
		});
}

/** A file name that nobody reads a field, a flag or a hidden file into (protocol 4 and 10). */
function isChosenId(id: string): boolean {
	return !/^\.|[/\0:;,]/.test(id) && id.length > 0 && Buffer.byteLength(id) <= 180;
}

/** The thread of what answers this: no file name is longer than 255 bytes, and what is longer is no id. */
export function threadOf({ id, thread }: Pick<Handoff, "id" | "thread">): string {
	return thread !== undefined && Buffer.byteLength(thread) <= 255 ? thread : id;
}

/** What a reply to a Handoff says of it: to whom, and what it is about. `node` is who replies. */
export function replyTo(
	original: Listed,
	own: boolean,
	recipient: string,
	live: boolean,
): Pick<Outgoing, "to" | "kind" | "re" | "thread" | "hops"> {
	const conversation = original.kind === "answer" || original.kind === "report";
	return {
		to: [own ? recipient : original.from],
		kind: conversation ? "note" : "answer",
		re: original.id,
		thread: threadOf(original),
		hops: live ? original.hops + 1 : undefined,
	};
}

import { XferError } from "./errors.ts";
import { pickId, stateOf } from "./filename.ts";
import type { Listed } from "./inbox.ts";
import type { Message } from "./maildir.ts";
import { type Outgoing, replyTo } from "./send.ts";
import type { Tree } from "./tree.ts";

/** A reply to a Handoff that a Node received, or once more about one that it sent. */
export interface Reply extends Pick<Outgoing, "to" | "kind" | "re" | "thread" | "hops"> {
	/**
	 * Marks what it answers, once the reply is delivered. What was read stays as it is where only another instance may mark (protocol 6).
	 * @returns what went wrong; nothing that takes the reply back
	 */
	answered(): unknown;
}

/**
 * What a reply by Node `me` says of what it answers.
 * @param piece of the Handoff's id
 * @param instance who may have it in hand; anybody unless given
 * @throws {XferError} EHANDOFF, EAMBIGUOUS · EHELD when it is unread or in hand, and not ours to mark
 */
export function replyAbout(tree: Tree, me: string, piece: string, instance: string | undefined): Reply {
	const node = tree.node(me);
	const { inbox, sent } = node;
	let message: Message | undefined;
	let original: Listed | undefined;
	let recipient = "";
	try {
		message = inbox.maildir.find(piece);
		original = inbox.look(message);
	} catch (error) {
		if (!(error instanceof XferError) || error.code !== "EHANDOFF") throw error;
		const [standing] = sent.standings([pickId(sent.ids(), piece, `what ${me} received and sent: the ID comes first`)]);
		original = standing?.handoff;
		recipient = standing?.to ?? "";
	}
	if (!original) throw new XferError("EHANDOFF", `the Handoff ${piece} is not there any more`, "xfer send writes to its sender anew");
	const done = message !== undefined && ["read", "answered"].includes(stateOf(message.dir, message));
	if (message && !done) inbox.assertMine(message, instance); // before anything is sent: it is marked afterwards
	const reply = replyTo(original, message === undefined, recipient, node.live() !== undefined);
	return {
		...reply,
		answered() {
			try {
				if (message) inbox.mark(inbox.maildir.get(message.id) ?? message, "answered", "", instance);
			} catch (error) {
				if (!(done && error instanceof XferError && error.code === "EHELD")) return error;
			}
			return undefined;
		},
	};
}

/** @throws {XferError} ENODE when nobody could read the reply */
export function requireSender(tree: Tree, { to: [to = ""] }: Reply): void {
	if (!tree.has(to)) throw new XferError("ENODE", `its sender ${JSON.stringify(to)} is no Node`, "nobody could read the reply");
}

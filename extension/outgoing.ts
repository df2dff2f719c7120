import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
import { describeNode } from "../lib/describe.ts";
import { XferError } from "../lib/errors.ts";
import { plainText } from "../lib/fence.ts";
import { shortId } from "../lib/filename.ts";
import type { Listed } from "../lib/inbox.ts";
import type { Message } from "../lib/maildir.ts";
import { type Outcome, type Outgoing, replyTo } from "../lib/send.ts";
import type { Tree } from "../lib/tree.ts";
import type { Here } from "./here.ts";
import { explain, type Sent, sentType } from "./screen.ts";

/** What became of one recipient's copy, for the model and for a person. */
export interface Delivery {
	readonly to: string;
	readonly id?: string;
	readonly state?: "queued";
	/** Where the recipient is. */
	readonly where?: string;
	readonly error?: string;
	/** All of it on a line. */
	readonly words: string;
}

/** What a reply says of what it answers, and how that is marked once the reply is there. */
export interface Reply extends Pick<Outgoing, "to" | "kind" | "re" | "thread" | "hops"> {
	/** @returns what went wrong; nothing that takes the reply back */
	answered(): string | undefined;
}

/**
 * Hands off as this Node; the transcript shows it, at no cost of context.
 * @throws as `Tree.send`
 */
export function handOff(pi: ExtensionAPI, { me }: Here, outgoing: Omit<Outgoing, "from" | "cwd" | "body"> & { body: string }): Delivery[] {
	const outcomes = me.send(outgoing);
	const kind = outgoing.kind ?? (outgoing.to.includes("@all") ? "note" : "task");
	const subject = outgoing.subject || (outgoing.body.trim().split("\n", 1)[0] ?? "").slice(0, 200);
	for (const outcome of outcomes) {
		if (outcome.error) continue;
		const { to, id } = outcome;
		try {
			pi.appendEntry<Sent>(sentType, { to, id, kind, subject, from: me.name });
		} catch {
			// the session has just been replaced: it is delivered all the same
		}
	}
	return outcomes.map((outcome) => describe(me.tree, outcome));
}

function describe(tree: Tree, outcome: Outcome): Delivery {
	const { to } = outcome;
	if (outcome.error) {
		const error = explain(outcome.error);
		return { to, error, words: `${to}: not delivered: ${error}` };
	}
	const { id, durability } = outcome;
	const where = whereIs(tree, to);
	const doubt = durability === "unknown" ? "; durability unknown: do not send it again" : "";
	return { to, id, state: "queued", where, words: `queued for ${to} (${where}), id ${shortId(id)}${doubt}` };
}

function whereIs(tree: Tree, to: string): string {
	try {
		return plainText(describeNode(tree.node(to).whereabouts(), tree.context.now()));
	} catch {
		return "where it is can't be seen"; // and no reason to say that it was not delivered
	}
}

/**
 * A reply to a Handoff that this Node received, or once more about one that it sent.
 * @throws {XferError} EHANDOFF, EAMBIGUOUS · EHELD when another has it in hand
 */
export function replyAbout({ me }: Here, piece: string): Reply {
	const { inbox, sent } = me.node;
	const { instance } = me.tree.context;
	let message: Message | undefined;
	let original: Listed | undefined;
	let recipient = "";
	try {
		message = inbox.maildir.find(piece);
		original = inbox.look(message);
	} catch (error) {
		if (!(error instanceof XferError) || error.code !== "EHANDOFF") throw error;
		const [standing] = sent.standings([sent.find(piece)]);
		original = standing?.handoff;
		recipient = standing?.to ?? "";
	}
	if (!original) throw new XferError("EHANDOFF", `the Handoff ${piece} is not there any more`, "write to its sender anew");
	if (message) inbox.assertMine(message, instance); // before anything is sent: it is marked afterwards
	return {
		...replyTo(original, message === undefined, recipient, true),
		answered() {
			if (!message) return undefined;
			try {
				inbox.mark(inbox.maildir.get(message.id) ?? message, "answered", "", instance);
				return undefined;
			} catch (error) {
				return `the reply is delivered, and ${shortId(message.id)} could not be marked answered: ${explain(error)}`;
			}
		},
	};
}

/** @throws {XferError} ENODE when nobody could read the reply */
export function requireSender({ me }: Here, { to: [to = ""] }: Reply): void {
	if (!me.tree.has(to)) throw new XferError("ENODE", `its sender ${JSON.stringify(to)} is no Node`, "nobody could read the reply");
}

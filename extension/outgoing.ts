import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
import { describeNode } from "../lib/describe.ts";
import { plainText } from "../lib/fence.ts";
import { shortId } from "../lib/filename.ts";
import type { Outcome, Outgoing } from "../lib/send.ts";
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

/** That a reply is delivered, and what it answers is not marked. */
export function unmarked(error: unknown): string {
	return `the reply is delivered, and what it answers could not be marked answered: ${explain(error)}`;
}

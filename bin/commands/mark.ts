import { realpathSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { XferError } from "../../lib/errors.ts";
import { attemptsOf, leaseOf, parseFileName, shortId } from "../../lib/filename.ts";
import type { Message } from "../../lib/maildir.ts";
import { lost } from "../../lib/taken.ts";
import type { Node } from "../../lib/tree.ts";
import type { Command } from "../command.ts";
import { isTerminal, printJson, printLine } from "../output.ts";
import type { Session } from "../session.ts";

const states = { read: "read", new: "queued", failed: "failed" } as const;

export const mark: Command = {
	name: "mark",
	usage: "ID|PATH read|new|failed [WHY…]",
	summary: "finish, give back or fail what is in hand",
	examples: [
		['xfer mark "$f" read', "finishes what xfer read --take printed"],
		["xfer mark k3f9q2ab new", "gives it back for another try"],
		["xfer mark k3f9q2ab failed no such branch", "its sender gets a report"],
	],
	options: {},
	words: [2, Number.POSITIVE_INFINITY],
	completes: "ids",
	run(session, [what = "", as = "", ...why]) {
		if (!Object.hasOwn(states, as))
			throw new XferError("EINPUT", `can't mark ${what} "${as}"`, `xfer mark ${what} read, or new, or failed`);
		if (as !== "failed" && why.length > 0) throw new XferError("EINPUT", "only failed takes a reason", `xfer mark ${what} ${as}`);
		const { node, message, only } = what.includes("/") ? byPath(session, what) : byId(session, what);
		node.inbox.mark(message, as as keyof typeof states, why.join(" "), only);
		node.seen();
		const state = states[as as keyof typeof states];
		if (session.json) printJson("xfer.mark/1", { id: message.id, state });
		else printLine(state, isTerminal() ? shortId(message.id) : message.id);
	},
};

interface Target {
	node: Node;
	message: Message;
	/** Who must have it in hand. */
	only: string | undefined;
}

function byId(session: Session, piece: string): Target {
	const node = session.node();
	return { node, message: node.inbox.maildir.find(piece), only: session.instance };
}

/** A path that `read --take` printed: exact, for the lease in its name says who took it. */
function byPath({ tree, instance }: Session, given: string): Target {
	const [, name = "", file = ""] = /\/([^/]+)\/(?:new|cur)\/([^/]+)$/.exec(resolve(given)) ?? [];
	const node = tree.has(name) ? tree.node(name) : undefined;
	if (!node || !sameDirectory(dirname(dirname(resolve(given))), node.directory)) {
		throw new XferError("EHANDOFF", `${given} is no Handoff of this tree`, "give the path that xfer read --take printed, or an ID");
	}
	const parsed = parseFileName(file);
	const taker = leaseOf(parsed)?.instance;
	const message = node.inbox.maildir.get(parsed.id);
	if (taker !== undefined && (!message || leaseOf(message)?.instance !== taker || attemptsOf(message) !== attemptsOf(parsed)))
		throw lost(parsed.id);
	if (!message) throw new XferError("EHANDOFF", `${shortId(parsed.id)} is gone`, "xfer inbox --all lists what is there");
	return { node, message, only: taker ?? instance };
}

function sameDirectory(a: string, b: string): boolean {
	try {
		return realpathSync(a) === realpathSync(b);
	} catch {
		return false; // one of them is not there
	}
}

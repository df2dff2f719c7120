import { XferError } from "../../lib/errors.ts";
import { shortId } from "../../lib/filename.ts";
import type { Listed } from "../../lib/inbox.ts";
import type { Message } from "../../lib/maildir.ts";
import { replyTo } from "../../lib/send.ts";
import type { Command } from "../command.ts";
import { explain } from "../errors.ts";
import { note } from "../output.ts";
import { deliver, handoffOptions } from "./send.ts";

export const reply: Command = {
	name: "reply",
	usage: "ID [WORDS…|-]",
	summary: "answer a Handoff",
	examples: [
		['xfer reply k3f9q2ab "port 8080"', "answers its sender, and marks it answered"],
		["make test 2>&1 | xfer reply k3f9q2ab test results -", "the words are the subject"],
	],
	options: handoffOptions,
	words: [1, Number.POSITIVE_INFINITY],
	completes: "ids",
	speaks: "ID",
	run(session, [piece = "", ...words], values) {
		const { tree, me } = session;
		const node = tree.node(me);
		let message: Message | undefined;
		let original: Listed | undefined;
		let recipient = "";
		try {
			message = node.inbox.maildir.find(piece);
			original = node.inbox.look(message);
		} catch (error) {
			if (!(error instanceof XferError) || error.code !== "EHANDOFF") throw error;
			const [standing] = node.sent.standings([node.sent.find(piece)]);
			original = standing?.handoff;
			recipient = standing?.to ?? "";
		}
		if (!original) throw new XferError("EHANDOFF", `the Handoff ${piece} is not there any more`, "xfer send writes to its sender anew");
		if (message) node.inbox.assertMine(message, session.instance); // before anything is sent: the original is marked afterwards
		const live = node.live() !== undefined;
		const to = replyTo(original, message === undefined, recipient, live);
		if (!tree.has(to.to[0] ?? ""))
			throw new XferError("ENODE", `its sender ${JSON.stringify(to.to[0])} is no Node`, "nobody could read the reply");
		const how = `xfer reply ${piece} "…", or: … | xfer reply ${piece} -`;
		return deliver(session, { from: me, ...to }, words, values, how, () => {
			if (!message) return;
			try {
				node.inbox.mark(node.inbox.maildir.get(message.id) ?? message, "answered", "", session.instance);
			} catch (error) {
				note(`xfer: the reply is delivered, and ${shortId(message.id)} could not be marked answered: ${explain(error)}`);
			}
		});
	},
};

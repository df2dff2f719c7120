import { replyAbout, requireSender } from "../../lib/reply.ts";
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
		const reply = replyAbout(tree, me, piece, session.instance);
		requireSender(tree, reply);
		const how = `xfer reply ${piece} "…", or: … | xfer reply ${piece} -`;
		const { answered, ...about } = reply;
		return deliver(session, { from: me, ...about }, words, values, how, () => {
			const error = answered();
			if (error) note(`xfer: the reply is delivered, and what it answers could not be marked answered: ${explain(error)}`);
		});
	},
};

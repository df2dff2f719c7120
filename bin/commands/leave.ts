import type { Command } from "../command.ts";
import { count, printJson, printLine } from "../output.ts";

export const leave: Command = {
	name: "leave",
	usage: "NAME",
	summary: "remove a Node for which nothing waits",
	examples: [["xfer leave alice", "refused while alice has unread mail"]],
	options: {},
	words: [1, 1],
	completes: "nodes",
	run(session, [name = ""]) {
		const { removed, handoffs } = session.tree.leave(name);
		if (session.json) printJson("xfer.leave/1", { removed, handoffs });
		else printLine(`${removed} has left${handoffs > 0 ? `, and ${count(handoffs, "Handoff")} that had ended with it` : ""}`);
		return undefined;
	},
};

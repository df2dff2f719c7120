import { shortId } from "../../lib/filename.ts";
import type { Command } from "../command.ts";
import { isTerminal, printJson, printLine } from "../output.ts";

export const recall: Command = {
	name: "recall",
	usage: "ID",
	summary: "take back what nobody has taken yet",
	examples: [["xfer recall k3f9q2ab", "exit 5: somebody was first"]],
	options: {},
	words: [1, 1],
	completes: "sent",
	run(session, [piece = ""]) {
		const { sent } = session.node();
		const { id, to } = sent.recall(sent.find(piece));
		if (session.json) printJson("xfer.recall/1", { id, to, state: "recalled" });
		else if (isTerminal()) printLine(`recalled from ${to}`, shortId(id));
		else printLine("recalled", id);
		return undefined;
	},
};

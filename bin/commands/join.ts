import { formatDuration } from "../../lib/duration.ts";
import type { Node } from "../../lib/tree.ts";
import type { Command } from "../command.ts";
import { printJson, printLine } from "../output.ts";

export const join: Command = {
	name: "join",
	usage: "NAME",
	summary: "make a Node, or see what waits for it",
	examples: [['xfer join alice --about "reviews, and fixes tests"', "a Node with an Inbox"]],
	options: { about: { type: "string", value: "TEXT", help: "what this Node is for" } },
	words: [1, 1],
	async run(session, [name = ""], values) {
		const { tree } = session;
		const made = !tree.has(name);
		const about = typeof values.about === "string" ? values.about : undefined;
		const node = tree.join(name, { about });
		const before = node.presence();
		// A name that somebody joins by is a chosen one, also when a first send had made the Node.
		if ((about !== undefined && before.about !== about) || before.derived)
			await node.setPresence({ ...before, about: about ?? before.about, derived: undefined });
		node.tidy();
		const { count, oldest } = waiting(node);
		if (session.json) {
			printJson("xfer.join/1", { name: node.name, path: node.directory, made, unread: count });
			return;
		}
		const mail = count > 0 ? `: ${count} waiting, the oldest ${formatDuration(tree.context.now() - oldest)} old` : "";
		printLine(`${node.name} ${made ? "is here" : "was here already"}${mail} (${node.directory})`);
	},
};

/** What waits for who takes a name over, and since when. */
export function waiting(node: Node): { count: number; oldest: number } {
	const { items, counts } = node.inbox.list({ states: (state) => state === "queued", limit: 1 });
	const [oldest] = items;
	return oldest ? { count: counts.queued ?? 1, oldest: oldest.date } : { count: 0, oldest: 0 };
}

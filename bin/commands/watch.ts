import { parseDuration, timeoutSignal } from "../../lib/duration.ts";
import { shortId } from "../../lib/filename.ts";
import type { Listed } from "../../lib/inbox.ts";
import { visible } from "../../lib/visible.ts";
import { type Change, watchTree } from "../../lib/watch.ts";
import { type Command, timeout } from "../command.ts";
import { exit } from "../errors.ts";
import { isTerminal, paint, print, printJson, printLine, tellPolling } from "../output.ts";
import { describe } from "../show.ts";

export const watch: Command = {
	name: "watch",
	usage: "[NODE|@all]",
	summary: "a line for each arrival, as it comes; marks nothing",
	examples: [
		["xfer watch", "my own Inbox"],
		["xfer watch @all", "all traffic in one pane, marks included"],
		["xfer watch --json | jq .subject", "a JSON document a line"],
	],
	options: { timeout },
	words: [0, 1],
	completes: "nodes",
	async run(session, [name], values) {
		const { tree } = session;
		const signal = typeof values.timeout === "string" ? timeoutSignal(parseDuration(values.timeout, "--timeout")) : undefined;
		const options = { signal, persistent: true, onPolling: tellPolling };
		const tell = ({ node, state, message }: Change) => {
			const { inbox } = tree.node(node);
			// It may have moved on already; that it came is worth a line all the same.
			const now = inbox.look(message) ?? inbox.look(inbox.maildir.get(message.id) ?? message);
			if (now) line(session.json, node, state, now, name === "@all");
		};
		if (name === "@all") for await (const change of watchTree(tree, options)) tell(change);
		else {
			const node = name === undefined ? session.node() : tree.node(name);
			for await (const message of node.inbox.watch({ ...options, waiting: false })) tell({ node: node.name, state: "queued", message });
		}
		return exit.timeout; // nothing else ends it but a signal
	},
};

function line(json: boolean, node: string, state: string, handoff: Listed, all: boolean): void {
	const { id, kind, from, subject } = handoff;
	if (json) printJson("xfer.watch/1", { node, id, state, attempts: handoff.attempts, ...describe(handoff) });
	else if (!isTerminal()) printLine(new Date().toISOString(), state, node, id, kind, from, subject);
	else {
		const clock = new Date().toTimeString().slice(0, 8);
		const what = all ? `${state} ${from} → ${node}` : `from ${from}`;
		print(`${paint("dim", clock)} ${visible(shortId(id))} ${paint("bold", visible(what))} ${visible(kind)}: ${visible(subject)}\n`);
	}
}

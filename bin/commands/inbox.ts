import { formatAge } from "../../lib/duration.ts";
import { XferError } from "../../lib/errors.ts";
import { type State, shortId } from "../../lib/filename.ts";
import type { Listed } from "../../lib/inbox.ts";
import type { Command, Values } from "../command.ts";
import { type Cell, isTerminal, note, printJson, printTable } from "../output.ts";
import { describe } from "../show.ts";

const colours: Readonly<Record<string, "yellow" | "cyan" | "red" | "dim">> = {
	queued: "yellow",
	taken: "cyan",
	failed: "red",
	unreadable: "red",
};

export const inbox: Command = {
	name: "inbox",
	usage: "[NODE]",
	summary: "list what waits, what needs a reader first",
	examples: [
		["xfer inbox", "my own"],
		["xfer inbox alice --all", "with those read and ended"],
		["xfer inbox --failed --json", "what failed, for a script"],
	],
	options: {
		all: { type: "boolean", help: "with those that have been read or have ended" },
		failed: { type: "boolean", help: "only those that failed or can't be read" },
		limit: { type: "string", value: "N", help: "the first N (50); 0 for all" },
	},
	words: [0, 1],
	completes: "nodes",
	async run(session, [name], values) {
		const { tree } = session;
		const node = name === undefined ? session.node() : tree.node(name);
		const now = tree.context.now();
		const failed = (state: State) => state === "failed" || state === "unreadable";
		const states = values.failed ? failed : values.all ? () => true : undefined;
		const { items, more, counts } = node.inbox.survey({ states, limit: limitOf(values.limit) });
		if (session.json) {
			const handoffs = Array.from(items, (item) => {
				const { id, state, attempts, lease, size, warnings } = item;
				return { id, state, attempts, lease, size, ...describe(item), warnings };
			});
			printJson("xfer.inbox/1", { node: node.name, handoffs, more: more(), counts });
			return;
		}
		const count = await printTable(rows(items, now));
		if (count === 0 && isTerminal()) note(`nothing waits for ${node.name}`);
		if (more() > 0) note(`${more()} more (--limit 0 lists all)`);
	},
};

function* rows(items: Iterable<Listed>, now: number): Generator<readonly (string | Cell)[]> {
	const terminal = isTerminal();
	for (const { id, date, state, kind, from, subject } of items) {
		if (terminal) yield [shortId(id), formatAge(date, now), { text: state, colour: colours[state] ?? "dim" }, kind, from, subject];
		else yield [id, new Date(date).toISOString(), state, kind, from, subject];
	}
}

export function limitOf(text: Values[string]): number {
	if (text === undefined) return 50;
	if (typeof text === "string" && /^\d{1,9}$/.test(text)) return Number(text);
	throw new XferError("EINPUT", `--limit ${text} is not a number`, "such as --limit 100, or 0 for all");
}

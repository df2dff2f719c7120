import { formatAge } from "../../lib/duration.ts";
import type { NodeInfo } from "../../lib/tree.ts";
import type { Command } from "../command.ts";
import { isTerminal, note, printJson, printTable } from "../output.ts";

export const nodes: Command = {
	name: "nodes",
	usage: "",
	summary: "who is here, what they do, what is unread",
	examples: [["xfer nodes --json | jq '.nodes[] | select(.live) | .name'", "the names of the live ones"]],
	options: {},
	words: [0, 0],
	async run(session) {
		const { tree } = session;
		const infos = tree.nodes();
		if (session.json) {
			printJson("xfer.nodes/1", { nodes: infos.map((info) => document(info)) });
			return;
		}
		await printNodes(infos, tree.context.now());
		if (infos.length === 0 && isTerminal()) note("no Nodes yet (to make one: xfer join NAME)");
		for (const { name, problem } of infos) if (problem) note(`${name} can't be seen (${problem}): xfer doctor`);
		for (const { name, unread, live } of infos)
			if (unread > 0 && !live) note(`${name}: ${unread} unread and nobody watches (xfer read --as ${name})`);
	},
};

export async function printNodes(infos: readonly NodeInfo[], now: number): Promise<void> {
	const terminal = isTerminal();
	await printTable(
		infos.map(({ name, aliases, presence, live, unread, lastSeen }) => {
			const seen = lastSeen === undefined ? "never" : terminal ? formatAge(lastSeen, now) : new Date(lastSeen).toISOString();
			const status = live ? [presence.status, presence.holding && `holds mail: ${presence.holding}`].filter(Boolean).join("; ") : "";
			const names = aliases.length > 0 ? `${name} (${aliases.join(", ")})` : name;
			const state = live ? { text: "live", colour: "green" as const } : { text: "away", colour: "dim" as const };
			return [
				terminal ? names : name,
				state,
				status,
				terminal ? `${unread} unread` : String(unread),
				seen,
				presence.agent ?? "",
				presence.cwd ?? "",
			];
		}),
	);
}

function document({ name, aliases, presence, live, unread, lastSeen, problem }: NodeInfo): object {
	const { name: _, status, holding, wake, ...rest } = presence;
	const now = live && { status, holding, wake }; // of an away Node they mean nothing
	return {
		name,
		aliases,
		live: live !== undefined,
		holder: live,
		unread,
		problem,
		lastSeen: lastSeen === undefined ? undefined : new Date(lastSeen).toISOString(),
		...rest,
		...now,
	};
}

import { describeStanding } from "../../lib/describe.ts";
import { formatAge } from "../../lib/duration.ts";
import { XferError } from "../../lib/errors.ts";
import { shellWord, shortId, timeOf } from "../../lib/filename.ts";
import type { Standing } from "../../lib/sent.ts";
import { visible } from "../../lib/visible.ts";
import type { Command } from "../command.ts";
import { isTerminal, note, print, printJson, printTable } from "../output.ts";
import type { Session } from "../session.ts";
import { describe } from "../show.ts";
import { limitOf } from "./inbox.ts";

export const sent: Command = {
	name: "sent",
	usage: "[ID]",
	summary: "where what I sent stands now, and why it waits",
	examples: [
		["xfer sent", "the newest 50"],
		["xfer sent k3f9q2ab", "the whole story of one"],
	],
	options: { limit: { type: "string", value: "N", help: "the newest N (50); 0 for all" } },
	words: [0, 1],
	completes: "sent",
	async run(session, [piece], values) {
		const node = session.node();
		if (piece) return story(session, node.sent.standings([node.sent.find(piece)])[0]);
		const limit = limitOf(values.limit);
		const ids = node.sent.ids();
		const some = limit === 0 ? ids : ids.slice(0, limit);
		const standings = node.sent.standings(some);
		const now = session.tree.context.now();
		if (session.json) {
			printJson("xfer.sent/1", { node: node.name, handoffs: standings.map((one) => json(session, one)), more: ids.length - some.length });
			return;
		}
		const terminal = isTerminal();
		await printTable(
			standings.map(({ id, to, state, handoff }) => {
				const date = handoff?.date ?? timeOf(id);
				const when = date === undefined ? "" : terminal ? formatAge(date, now) : new Date(date).toISOString();
				return [
					terminal ? shortId(id) : id,
					when,
					{ text: state, colour: state === "failed" ? ("red" as const) : ("cyan" as const) },
					handoff?.kind ?? "",
					to,
					handoff?.subject ?? "",
				];
			}),
		);
		if (ids.length === 0 && terminal) note(`${node.name} has sent nothing`);
		if (ids.length > some.length) note(`${ids.length - some.length} more (--limit 0 lists all)`);
	},
};

function story(session: Session, standing: Standing | undefined): undefined {
	if (!standing) throw new XferError("EHANDOFF", "its pointer in sent/ can't be read", "xfer doctor");
	if (session.json) {
		printJson("xfer.sent/1", { node: session.me, handoffs: [json(session, standing)], more: 0 });
		return;
	}
	const { id, to, handoff } = standing;
	const now = session.tree.context.now();
	const info = session.tree.has(to) ? session.tree.node(to).whereabouts() : undefined;
	const lines = [`${shortId(id)} to ${to}`];
	if (handoff) lines.push(`${handoff.kind}: ${handoff.subject}`, `sent ${formatAge(handoff.date, now)}`);
	if (handoff?.attempts) lines.push(`given back ${handoff.attempts} ${handoff.attempts === 1 ? "time" : "times"}`);
	lines.push(describeStanding(standing, info, now));
	if (handoff?.state === "queued") lines.push(`to take it back: xfer recall ${shellWord(shortId(id))}${session.asMe}`);
	print(lines.map((line) => `${visible(line)}\n`).join(""));
}

function json({ tree }: Session, standing: Standing): object {
	const { id, to, state, handoff, changed } = standing;
	const info = tree.has(to) ? tree.node(to).whereabouts() : undefined;
	const when = changed === undefined ? undefined : new Date(changed).toISOString();
	return {
		...(handoff && describe(handoff)),
		id,
		to,
		state,
		changed: when,
		attempts: handoff?.attempts,
		story: describeStanding(standing, info, tree.context.now()),
	};
}

import { formatDuration } from "../../lib/duration.ts";
import { note, paint, print, printJson } from "../output.ts";
import type { Session } from "../session.ts";
import { waiting } from "./join.ts";
import { printNodes } from "./nodes.ts";

/** Bare `xfer`: who is live, what waits for me, and what I most likely want to type next. */
export async function home({ tree, me, asMe, json }: Session): Promise<undefined> {
	const now = tree.context.now();
	const infos = tree.nodes();
	const live = infos.filter((info) => info.live);
	const mail = tree.has(me) ? waiting(tree.node(me)) : undefined;
	if (json) {
		printJson("xfer.home/1", { me, unread: mail?.count ?? 0, live: live.map(({ name }) => name), nodes: infos.length });
		return;
	}
	await printNodes(live, now);
	const others = infos.length - live.length;
	if (live.length === 0) print(`nobody is live${others > 0 ? `, ${others} away (xfer nodes)` : ""}\n`);
	const [other] = live.filter(({ name }) => name !== me);
	let next = `xfer send ${other?.name ?? infos.find(({ name }) => name !== me)?.name ?? me} "…"`;
	if (!mail) {
		print(`you are ${me}, not a Node yet\n`);
		next = `xfer join ${me}`;
	} else if (mail.count > 0) {
		print(`${paint("yellow", `✉ ${mail.count}`)} for ${me}, the oldest ${formatDuration(now - mail.oldest)} old\n`);
		next = `xfer read${asMe}`;
	} else print(`nothing waits for ${me}\n`);
	note(`next: ${next}   (xfer --help)`);
}

import { lstatSync } from "node:fs";
import { shortId, timeOf } from "../filename.ts";
import type { Handoff } from "../handoff.ts";
import type { Listed } from "../inbox.ts";
import type { LogFile } from "../log-file.ts";
import { threadOf } from "../send.ts";
import type { Node, Tree } from "../tree.ts";

/** ms by which the clocks that write ids and file times may differ. */
const skew = 10_000;

/** The subject of the report on a task that was done. */
export function doneSubject({ subject }: Pick<Handoff, "subject">): string {
	return `done: ${subject}`.slice(0, 200);
}

/** Whether the daemon before answered it, and was killed before it could mark that. */
export function wasAnswered(node: Node, { id, kind, subject }: Handoff): boolean {
	return sentSince(node, timeOf(id) ?? 0).some((sent) => {
		if (sent.re !== id) return false; // and what a handler tells of its progress is no answer
		return kind === "question" ? sent.kind === "answer" : sent.kind === "report" && sent.subject === doneSubject({ subject });
	});
}

/**
 * Tells the senders of what the daemon before marked failed and was killed before telling of.
 * @param before when the Node showed itself last before this daemon, unix ms
 * @param log of the daemons: it has the reasons
 * @returns those that were told now, with the error when that did not work
 */
export function reportFailures(tree: Tree, node: Node, before: number, log: LogFile): { handoff: Handoff; error: Error | undefined }[] {
	const since = before - skew;
	const failed = node.inbox.maildir.list("cur", (name) => name.includes(",E=failed")).flatMap((message) => node.inbox.look(message) ?? []);
	const recent = failed.filter(({ file, kind, from }) => changed(file) >= since && kind !== "report" && tree.has(from));
	if (recent.length === 0) return [];
	const told = new Set(sentSince(node, since).map(({ re }) => re));
	return recent
		.filter(({ id }) => !told.has(id))
		.map((handoff) => {
			const [outcome] = tree.send({
				from: node.name,
				to: [handoff.from],
				kind: "report",
				subject: `failed: ${handoff.subject}`.slice(0, 200),
				body:
					log.last(` failed ${shortId(handoff.id)}`) ??
					log.last(shortId(handoff.id)) ??
					"failed; the daemon was killed before it could say why",
				re: handoff.id,
				thread: threadOf(handoff),
				hops: handoff.hops + 1,
			});
			return { handoff, error: outcome?.error };
		});
}

/** What this Node has sent since then, unix ms, as far as it is there still. */
function sentSince({ sent }: Node, since: number): Listed[] {
	const ids = sent.ids().filter((id) => (timeOf(id) ?? since) >= since - skew);
	return sent.standings(ids).flatMap(({ handoff }) => handoff ?? []);
}

/** ms at which the inode of a file changed last: a rename does that. */
function changed(file: string): number {
	return lstatSync(file, { throwIfNoEntry: false })?.ctimeMs ?? Number.NEGATIVE_INFINITY;
}

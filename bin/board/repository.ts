import { readFileSync, writeFileSync } from "node:fs";
import { openBoard } from "../../lib/board.ts";
import { parseCard } from "../../lib/card.ts";
import { sleep } from "../../lib/context.ts";
import { XferError } from "../../lib/errors.ts";
import { readPlainFront } from "../../lib/front.ts";
import { mergeCards } from "../../lib/merge.ts";
import { initBoard } from "../../lib/repository.ts";
import { type SyncReport, syncBoard } from "../../lib/sync.ts";
import type { Values } from "../command.ts";
import { parseDuration } from "../duration.ts";
import { exit, explain, report } from "../errors.ts";
import { count, note, printJson, printLine } from "../output.ts";
import type { Session } from "../session.ts";
import { noteMentions } from "./write.ts";

export async function init(session: Session, _: readonly string[], values: Values): Promise<undefined> {
	const board = openBoard(session.tree);
	await initBoard(board, typeof values.remote === "string" ? values.remote : undefined);
	if (session.json) printJson("xfer.init/1", { directory: board.directory });
	else printLine("initialized", board.directory);
	note("next: xfer board sync");
}

export async function sync(session: Session, _: readonly string[], values: Values): Promise<number> {
	const board = openBoard(session.tree);
	const every = typeof values.every === "string" ? parseDuration(values.every, "--every") : undefined;
	if (every === 0) throw new XferError("EINPUT", "--every 0 is no pause", "such as --every 30s");
	for (;;) {
		let code: number = exit.done;
		try {
			const done = await syncBoard(session.tree, board, session.me, { mention: !values["no-mention"] });
			if (every === undefined || done.committed.length > 0 || done.merged.length > 0 || done.pushed) print(session, done);
		} catch (error) {
			if (every === undefined) throw error;
			code = report(error); // and again after the pause: it may be the network
		}
		if (every === undefined) return code;
		await sleep(every);
	}
}

function print(session: Session, done: SyncReport): void {
	const { committed, merged, pushed, remote, notes } = done;
	if (session.json) {
		const told = notes.map((outcome) =>
			outcome.error ? { to: outcome.to, error: explain(outcome.error) } : { to: outcome.to, id: outcome.id },
		);
		printJson("xfer.sync/1", { committed, merged, pushed, remote: remote ?? null, notes: told });
		return;
	}
	for (const file of committed) printLine("committed", file);
	for (const file of merged) printLine("merged", file);
	if (pushed) printLine("pushed", remote ?? "");
	if (committed.length + merged.length === 0 && !pushed) note("nothing new, here or there");
	if (remote === undefined) note(`no remote: ${count(committed.length, "Card")} committed here only (xfer board init --remote URL)`);
	noteMentions(notes);
}

/** What git calls with three files: unites them into the second. Exit 1 leaves the Card to git as a conflict. */
export function mergeDriver(_: Session, [base = "", ours = "", theirs = ""]: readonly string[]): number {
	const [before, mine, other] = [readFileSync(base), readFileSync(ours), readFileSync(theirs)];
	const ids = [mine, other].map((bytes) => {
		const { front } = parseCard(bytes);
		return readPlainFront(bytes.toString("utf8", front.begin, front.end))?.get("id");
	});
	// git takes a similar file for a renamed one, unless merge.renames is false.
	if (ids[0] !== undefined && ids[1] !== undefined && ids[0] !== ids[1])
		throw new XferError(
			"EGIT",
			`two different Cards, ${ids.join(" and ")}, are not merged`,
			"git config merge.renames false, then merge again",
		);
	writeFileSync(ours, mergeCards(before.length > 0 ? before : undefined, mine, other));
	return exit.done;
}

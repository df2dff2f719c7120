import { readFileSync, writeFileSync } from "node:fs";
import { openBoard } from "../../lib/board/board.ts";
import { idOf } from "../../lib/board/front.ts";
import { mergeCards } from "../../lib/board/merge.ts";
import { initBoard } from "../../lib/board/repository.ts";
import { type SyncReport, syncBoard } from "../../lib/board/sync.ts";
import { sleep } from "../../lib/context.ts";
import { parseDuration } from "../../lib/duration.ts";
import { XferError } from "../../lib/errors.ts";
import type { Values } from "../command.ts";
import { exit, report } from "../errors.ts";
import { count, note, printJson, printLine } from "../output.ts";
import type { Session } from "../session.ts";
import { mentionDocument, tellMentioned } from "./write.ts";

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
		try {
			const done = await syncBoard(session.tree, board, session.author(), { mention: !values["no-mention"] });
			if (every === undefined || done.committed.length > 0 || done.merged.length > 0 || done.pushed) print(session, done);
		} catch (error) {
			if (every === undefined) throw error;
			report(error); // and again after the pause: it may be the network
		}
		if (every === undefined) return exit.done;
		await sleep(every);
	}
}

function print(session: Session, { committed, merged, pushed, remote, notes }: SyncReport): void {
	if (session.json) {
		printJson("xfer.sync/1", { committed, merged, pushed, remote: remote ?? null, mentioned: notes.map(mentionDocument) });
		return;
	}
	for (const file of committed) printLine("committed", file);
	for (const file of merged) printLine("merged", file);
	if (pushed) printLine("pushed", remote ?? "");
	if (committed.length + merged.length === 0 && !pushed) note("nothing new, here or there");
	if (remote === undefined) note(`no remote: ${count(committed.length, "Card")} committed here only (xfer board init --remote URL)`);
	tellMentioned(notes);
}

/** What git calls with three files: unites them into the second. Exit 1 leaves the Card to git as a conflict. */
export async function mergeDriver(_: Session, [base = "", ours = "", theirs = ""]: readonly string[]): Promise<number> {
	const [before, mine, other] = [readFileSync(base), readFileSync(ours), readFileSync(theirs)];
	const [one, two] = [await idOf(mine), await idOf(other)];
	// git takes a similar file for a renamed one, unless merge.renames is false.
	if (one !== undefined && two !== undefined && one !== two)
		throw new XferError(
			"EGIT",
			`two different Cards, ${one} and ${two}, are not merged`,
			"git config merge.renames false, then merge again",
		);
	writeFileSync(ours, mergeCards(before.length > 0 ? before : undefined, mine, other));
	return exit.done;
}

import { type Board, openBoard } from "../../lib/board/board.ts";
import type { Entry } from "../../lib/board/card.ts";
import { stem } from "../../lib/board/card-file.ts";
import { mentionsIn, notifyMentioned } from "../../lib/board/mentions.ts";
import { isRepository } from "../../lib/board/repository.ts";
import { parseDuration } from "../../lib/duration.ts";
import { XferError } from "../../lib/errors.ts";
import { shellWord } from "../../lib/filename.ts";
import type { Outcome } from "../../lib/send.ts";
import type { Values } from "../command.ts";
import { exit, explain, report } from "../errors.ts";
import { count, isTerminal, note, printJson, printLine, readAnswer, readInput } from "../output.ts";
import type { Session } from "../session.ts";
import { entryDocument } from "./look.ts";

export function create(session: Session, [title = "", ...words]: readonly string[]): undefined {
	const board = openBoard(session.tree);
	const text = words.length === 0 ? "" : given(board, words, 'xfer board new "Title" "…", or: … | xfer board new "Title" -');
	const { id, file, path } = board.create({ title, author: session.author(), text });
	if (session.json) printJson("xfer.change/1", { file, change: "created", changed: true, id, path });
	else printLine(id, path);
}

export async function add(session: Session, [piece = "", ...words]: readonly string[], values: Values): Promise<undefined> {
	const board = openBoard(session.tree);
	const file = await board.find(piece);
	const type = typeof values.type === "string" ? values.type : undefined;
	const text = given(board, words, `xfer board add ${piece} "…", or: … | xfer board add ${piece} -`);
	const entry = board.add(file, { author: session.author(), text, type });
	await printEntry(session, board, "added", file, entry, values);
}

export async function edit(session: Session, [piece = ""]: readonly string[], values: Values): Promise<undefined> {
	const board = openBoard(session.tree);
	const file = await board.find(piece);
	const changes: Record<string, string> = Object.create(null); // __proto__ is a key as any other
	for (const text of Array.isArray(values.set) ? values.set.map(String) : []) {
		const at = text.indexOf("=");
		if (at <= 0) throw new XferError("EINPUT", `--set ${text} is not KEY=VALUE`, "such as --set owner=api");
		changes[text.slice(0, at)] = text.slice(at + 1);
	}
	if (typeof values.title === "string") changes.title = values.title;
	if (Object.keys(changes).length === 0)
		throw new XferError(
			"EINPUT",
			"nothing to change: edit needs --title or --set",
			`the text is edited by hand: ${board.directory}/${file}`,
		);
	printChange(session, "edited", file, await board.edit(file, changes));
}

export async function claim(session: Session, [piece = ""]: readonly string[], values: Values): Promise<undefined> {
	const board = openBoard(session.tree);
	const file = await board.find(piece);
	const hold = typeof values.for === "string" ? parseDuration(values.for, "--for") : undefined;
	const { id, until, name, host } = await board.claim(file, session.author(), hold);
	const end = new Date(until).toISOString();
	if (session.json) printJson("xfer.claim/1", { file, id, holder: { name, host, until: end } });
	else printLine("claimed", id, `until ${end}`);
}

export async function release(session: Session, [piece = ""]: readonly string[]): Promise<undefined> {
	const board = openBoard(session.tree);
	const file = await board.find(piece);
	const entry = await board.release(file, session.author());
	printChange(session, "released", file, entry !== undefined);
	if (!entry) note(`nobody held ${stem(file)}`);
}

export async function done(session: Session, [piece = "", ...words]: readonly string[], values: Values): Promise<undefined> {
	const board = openBoard(session.tree);
	const file = await board.find(piece);
	const text = words.length === 0 ? "" : given(board, words, `xfer board done ${piece} "…"`);
	const entry = await board.done(file, { author: session.author(), text });
	await printEntry(session, board, "done", file, entry, values);
}

export async function remove(session: Session, [piece = ""]: readonly string[], values: Values): Promise<number | undefined> {
	const board = openBoard(session.tree);
	const file = await board.find(piece);
	if (values.yes && !values.purge) throw new XferError("EINPUT", "--yes goes with --purge", "leave it away, or add --purge");
	if (values.purge && values.undo) throw new XferError("EINPUT", "--purge and --undo do not go together", "leave one away");
	if (values.purge) return await purge(session, board, file, values.yes === true);
	const word = values.undo ? "restored" : "removed";
	const entry = await board.remove(file, session.author(), !values.undo);
	printChange(session, word, file, entry !== undefined);
	if (!entry) note(`${stem(file)} ${values.undo ? "was not removed" : "was removed already"}`);
	return exit.done;
}

async function purge(session: Session, board: Board, file: string, sure: boolean): Promise<number> {
	if (!sure) {
		const { entries } = await board.read(file);
		const answer = readAnswer(`delete ${file} and its ${count(entries.length, "Entry", "Entries")} for good? [y/N] `, "add --yes");
		if (!/^y(es)?$/i.test(answer)) {
			note("nothing was deleted");
			return exit.failed;
		}
	}
	await board.purge(file);
	printChange(session, "purged", file, true);
	if (isRepository(board)) note("its text stays in git's history, here and wherever that was pushed");
	return exit.done;
}

export async function repair(session: Session, [piece]: readonly string[]): Promise<number> {
	const board = openBoard(session.tree);
	const files = piece === undefined ? board.files() : [await board.find(piece)];
	let code: number = exit.done;
	const mended: string[] = [];
	for (const file of files) {
		try {
			if (await board.repair(file)) mended.push(file);
		} catch (error) {
			code = report(error); // and on with the others
		}
	}
	if (session.json) printJson("xfer.repair/1", { repaired: mended });
	else for (const file of mended) printLine("repaired", file);
	if (mended.length === 0 && code === exit.done && !session.json) note("nothing to repair");
	return code;
}

/** The text that the words are, or that stands on standard input. */
function given(board: Board, words: readonly string[], how: string): Buffer | string {
	const input = words.length === 0 || words.at(-1) === "-";
	if (!input) return words.join(" ");
	if (words.length > 1) throw new XferError("EINPUT", "either words or -, not both", how);
	return readInput(board.context.maxBytes, how);
}

/** Says how it is now; for a program, whether that is a change. */
function printChange(session: Session, change: string, file: string, changed: boolean): void {
	if (session.json) printJson("xfer.change/1", { file, change, changed });
	else printLine(change, file);
}

/** Says that an Entry is there, and tells whom it mentions. It is there: what can't be done after that is no failure, or a script would add it again. */
async function printEntry(session: Session, board: Board, word: string, file: string, entry: Entry, values: Values): Promise<void> {
	let told: readonly Outcome[] = [];
	let hidden = false;
	try {
		// The Card is read only for these: so an Entry on a large one costs as much as on a small one.
		if (!values["no-mention"] && mentionsIn(entry.text.toString()).length > 0)
			told = notifyMentioned(session.tree, await board.read(file), entry, session.author());
		hidden = await board.isRemoved(file);
	} catch (error) {
		note(`xfer: it was added, but not looked at again: ${explain(error)}`);
	}
	if (session.json) printJson("xfer.entry/1", { file, ...entryDocument(entry), mentioned: told.map(mentionDocument) });
	else printLine(word, entry.id, file);
	tellMentioned(told);
	if (told.some(({ error }) => error) && isRepository(board)) note("who is on another machine is told there, by xfer board sync");
	if (hidden) note(`xfer: ${stem(file)} was removed: to have it back in the lists, xfer board rm ${shellWord(stem(file))} --undo`);
}

export function mentionDocument(outcome: Outcome): object {
	return outcome.error ? { to: outcome.to, error: explain(outcome.error) } : { to: outcome.to, id: outcome.id };
}

/** Says who was told of an Entry, and who could not be. */
export function tellMentioned(outcomes: readonly Outcome[]): void {
	for (const { to, error } of outcomes) {
		if (error) note(`xfer: @${to} was not told: ${explain(error)}`);
		else if (isTerminal()) note(`told ${to}`);
	}
}

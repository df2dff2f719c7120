import { type Board, openBoard, stem } from "../../lib/board.ts";
import type { Entry } from "../../lib/card.ts";
import { XferError } from "../../lib/errors.ts";
import { mentionsIn, notifyMentioned } from "../../lib/mentions.ts";
import type { Outcome } from "../../lib/send.ts";
import type { Values } from "../command.ts";
import { parseDuration } from "../duration.ts";
import { exit, explain, report } from "../errors.ts";
import { count, isTerminal, note, printJson, printLine, readAnswer, readInput } from "../output.ts";
import type { Session } from "../session.ts";
import { entryDocument } from "./look.ts";

export function create(session: Session, [title = "", ...words]: readonly string[]): undefined {
	const board = openBoard(session.tree);
	const text = words.length === 0 ? "" : given(board, words, 'xfer board new "Title" "…", or: … | xfer board new "Title" -');
	const { id, file, path } = board.create({ title, author: session.author(), text });
	if (session.json) printJson("xfer.card/1", { id, file, path });
	else printLine(id, path);
}

export async function add(session: Session, [piece = "", ...words]: readonly string[], values: Values): Promise<undefined> {
	const board = openBoard(session.tree);
	const file = await board.find(piece);
	const type = typeof values.type === "string" ? values.type : undefined;
	const text = given(board, words, `xfer board add ${piece} "…", or: … | xfer board add ${piece} -`);
	const entry = board.add(file, { author: session.author(), text, type });
	const told = await mention(session, board, file, entry, values);
	printEntry(session, "added", file, entry, { mentioned: told.map(documentOf) });
	noteMentions(told);
	if (await board.isRemoved(file))
		note(`xfer: ${stem(file)} was removed: to have it back in the lists, xfer board rm ${stem(file)} --undo`);
}

export async function edit(session: Session, [piece = ""]: readonly string[], values: Values): Promise<undefined> {
	const board = openBoard(session.tree);
	const file = await board.find(piece);
	const changes: Record<string, string> = {};
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
	await board.edit(file, changes);
	printDone(session, "edited", file);
}

export async function claim(session: Session, [piece = ""]: readonly string[], values: Values): Promise<undefined> {
	const board = openBoard(session.tree);
	const file = await board.find(piece);
	const hold = typeof values.for === "string" ? parseDuration(values.for, "--for") : undefined;
	if (hold === 0) throw new XferError("EINPUT", "--for 0 claims nothing", "such as --for 2h");
	const { id, until, name, host } = await board.claim(file, session.author(), hold);
	const end = new Date(until).toISOString();
	if (session.json) printJson("xfer.claim/1", { file, id, holder: { name, host, until: end } });
	else printLine("claimed", id, `until ${end}`);
}

export async function release(session: Session, [piece = ""]: readonly string[]): Promise<undefined> {
	const board = openBoard(session.tree);
	const file = await board.find(piece);
	const entry = await board.release(file, session.author());
	printDone(session, "released", file);
	if (!entry) note(`nobody held ${stem(file)}`);
}

export async function done(session: Session, [piece = "", ...words]: readonly string[], values: Values): Promise<undefined> {
	const board = openBoard(session.tree);
	const file = await board.find(piece);
	const text = words.length === 0 ? "" : given(board, words, `xfer board done ${piece} "…"`);
	const entry = await board.done(file, { author: session.author(), text });
	const told = await mention(session, board, file, entry, values);
	printEntry(session, "done", file, entry, { mentioned: told.map(documentOf) });
	noteMentions(told);
}

export async function remove(session: Session, [piece = ""]: readonly string[], values: Values): Promise<number | undefined> {
	const board = openBoard(session.tree);
	const file = await board.find(piece);
	if (values.purge && values.undo) throw new XferError("EINPUT", "--purge and --undo do not go together", "leave one away");
	if (values.purge) return await purge(session, board, file, values.yes === true);
	const word = values.undo ? "restored" : "removed";
	const entry = await board.remove(file, session.author(), !values.undo);
	printDone(session, word, file);
	if (!entry) note(`${stem(file)} ${values.undo ? "was not removed" : "was removed already"}`);
	return exit.done;
}

async function purge(session: Session, board: Board, file: string, sure: boolean): Promise<number> {
	if (!sure) {
		const { entries } = await board.read(file);
		const answer = readAnswer(
			`delete ${file} and its ${count(entries.length, "Entry").replace("Entrys", "Entries")} for good? [y/N] `,
			"add --yes",
		);
		if (!/^y(es)?$/i.test(answer)) {
			note("nothing was deleted");
			return exit.failed;
		}
	}
	await board.purge(file);
	printDone(session, "purged", file);
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

/** Tells who is mentioned in an Entry. The Card is read only then: so an Entry on a large one costs as much as on a small one. */
async function mention(session: Session, board: Board, file: string, entry: Entry, values: Values): Promise<readonly Outcome[]> {
	if (values["no-mention"] || mentionsIn(entry.text.toString()).length === 0) return [];
	const { id, title } = await board.read(file);
	return notifyMentioned(session.tree, { card: id, title }, entry, session.author());
}

/** The text that the words are, or that stands on standard input. */
function given(board: Board, words: readonly string[], how: string): Buffer | string {
	const input = words.length === 0 || words.at(-1) === "-";
	if (!input) return words.join(" ");
	if (words.length > 1) throw new XferError("EINPUT", "either words or -, not both", how);
	return readInput(board.context.maxBytes, how);
}

function printDone(session: Session, word: string, file: string): void {
	if (session.json) printJson("xfer.card/1", { file, [word]: true });
	else printLine(word, file);
}

function printEntry(session: Session, word: string, file: string, entry: Entry, more: object = {}): void {
	if (session.json) printJson("xfer.entry/1", { file, ...entryDocument(entry), ...more });
	else printLine(word, entry.id, file);
}

function documentOf(outcome: Outcome): object {
	return outcome.error ? { to: outcome.to, error: explain(outcome.error) } : { to: outcome.to, id: outcome.id };
}

/** Says who was told of an Entry, and who could not be. */
export function noteMentions(outcomes: readonly Outcome[]): void {
	for (const { to, error } of outcomes) {
		if (error) note(`xfer: @${to} was not told: ${explain(error)}`);
		else if (isTerminal()) note(`told ${to}`);
	}
}

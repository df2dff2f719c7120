import { type CardInfo, type OpenCard, openBoard } from "../../lib/board/board.ts";
import { cardWarnings, type Entry, entryFlaws } from "../../lib/board/card.ts";
import { stem } from "../../lib/board/card-file.ts";
import { claimHost, holderWords, isHeldBy } from "../../lib/board/claims.ts";
import { formatAge, formatClock, parseDuration, timeoutSignal } from "../../lib/duration.ts";
import { XferError } from "../../lib/errors.ts";
import { shellWord } from "../../lib/filename.ts";
import type { Tree } from "../../lib/tree.ts";
import { visible, visibleLines } from "../../lib/visible.ts";
import type { Values } from "../command.ts";
import { exit } from "../errors.ts";
import { type Cell, isTerminal, note, paint, print, printJson, printLine, printTable } from "../output.ts";
import type { Session } from "../session.ts";

export async function list(session: Session, _: readonly string[], values: Values): Promise<undefined> {
	const board = openBoard(session.tree);
	const { cards, skipped } = await board.list();
	const [me, host] = [values.mine ? session.author() : "", claimHost(board.context)];
	const mine = ({ createdBy, holder }: CardInfo) => createdBy === me || (holder !== undefined && isHeldBy(holder, me, host));
	const shown = cards.filter((card) => (values.all || !(card.done || card.removed)) && (!values.mine || mine(card)));
	if (session.json) {
		printJson("xfer.board/1", { directory: board.directory, cards: shown.map(infoDocument), skipped });
		return;
	}
	const now = board.context.now();
	const count = await printTable(isTerminal() ? shown.map((card) => row(card, now)) : shown.map(plainRow));
	if (count === 0 && isTerminal()) {
		if (values.mine) note(`no Card is ${me}'s`);
		else note(cards.length > 0 ? "all Cards are done or removed (--all lists them)" : 'no Cards yet: xfer board new "Title"');
	}
	for (const card of shown) tellWarnings(card);
	for (const { file, reason } of skipped) note(`xfer: ${visible(file)} is left alone: ${reason}`);
}

function tellWarnings({ file, warnings }: CardInfo): void {
	for (const warning of warnings) {
		const { what, cure = `xfer board repair ${shellWord(stem(file))}` } = cardWarnings[warning];
		note(`xfer: ${visible(file)}: ${what} (${visible(cure)})`);
	}
}

/** What a CARD completes to: the names, each of which begins with a title and ends with an id. */
export function names(tree: Tree): string[] {
	// A file name is a peer's text, and some shells expand what is completed.
	return openBoard(tree)
		.files()
		.map(stem)
		.filter((word) => /^[A-Za-z0-9._+@=-]+$/.test(word));
}

function row({ id, title, createdBy, count, last, holder, done, removed }: CardInfo, now: number): readonly (string | Cell)[] {
	const state: Cell = removed
		? { text: "removed", colour: "red" }
		: done
			? { text: "done", colour: "green" }
			: holder
				? { text: `claimed by ${holder.name}`, colour: "yellow" }
				: { text: `by ${createdBy}`, colour: "dim" };
	return [id, count === undefined ? "?" : String(count), formatAge(last.date, now), last.author, state, title];
}

function plainRow({ id, title, createdBy, count, last, holder, done, removed }: CardInfo): readonly string[] {
	return [
		id,
		title,
		createdBy,
		String(count ?? "?"),
		isoDate(last.date),
		last.author,
		holder?.name ?? "",
		removed ? "removed" : done ? "done" : "",
	];
}

export async function show(session: Session, [piece = ""]: readonly string[], values: Values): Promise<undefined> {
	const board = openBoard(session.tree);
	const card = await board.read(await board.find(piece));
	const now = board.context.now();
	const some = chosen(card, values, now);
	const entries = some ?? card.entries;
	if (session.json) {
		printJson("xfer.card/1", { ...cardDocument(card), entries: entries.map(entryDocument) });
		return;
	}
	tellWarnings(card);
	if (!isTerminal()) {
		if (some) for (const { raw } of some) print(Buffer.concat([raw, Buffer.from("\n")]));
		else print(card.bytes);
		return;
	}
	print(`${paint("bold", visible(card.title))}\n`);
	const facts = [card.id, `by ${card.createdBy}`, formatAge(card.createdAt, now), ...states(card, now)];
	print(`${paint("dim", visible(facts.join(" · ")))}\n`);
	if (!some && card.introduction.length > 0) print(`\n${visibleLines(card.introduction.toString()).trimEnd()}\n`);
	const hidden = card.entries.length - entries.length;
	if (hidden > 0) print(`\n${paint("dim", `(${hidden} more)`)}\n`);
	for (const entry of entries) printEntry(entry, now);
}

function states({ holder, done, removed }: CardInfo, now: number): string[] {
	const words = holder ? [`claimed by ${holderWords(holder)} until ${formatClock(holder.until, now)}`] : [];
	if (done) words.push("done");
	if (removed) words.push("removed");
	return words;
}

function printEntry(entry: Entry, now: number): void {
	const { type, author, date, id } = entry;
	const facts = [author, date === undefined ? "no date" : formatAge(date, now), id].join(" · ");
	const wrong = entry.flaws.length > 0 ? paint("yellow", ` (${entry.flaws.map((flaw) => entryFlaws[flaw]).join(", ")})`) : "";
	print(`\n${paint("cyan", visible(type))} ${paint("dim", `· ${visible(facts)}`)}${wrong}\n`);
	const text = visibleLines(entry.text.toString()).trimEnd();
	if (text) print(`${text}\n`);
}

/** The Entries that --last and --since ask for; undefined when all are meant. */
function chosen(card: OpenCard, values: Values, now: number): readonly Entry[] | undefined {
	if (values.last === undefined && values.since === undefined) return undefined;
	let entries = card.entries;
	if (typeof values.since === "string") {
		const from = now - parseDuration(values.since, "--since");
		entries = entries.filter(({ date }) => date !== undefined && date >= from);
	}
	if (values.last === undefined) return entries;
	if (typeof values.last !== "string" || !/^[1-9]\d{0,8}$/.test(values.last))
		throw new XferError("EINPUT", `--last ${values.last} is no count`, "1 or more, such as --last 5");
	return entries.slice(-Number(values.last));
}

export async function watch(session: Session, [piece]: readonly string[], values: Values): Promise<number> {
	const board = openBoard(session.tree);
	const signal = typeof values.timeout === "string" ? timeoutSignal(parseDuration(values.timeout, "--timeout")) : undefined;
	const file = piece === undefined ? undefined : await board.find(piece);
	const { watchBoard } = await import("../../lib/board/watch.ts");
	for await (const { card, entry } of watchBoard(board, { file, signal, persistent: true })) {
		const [line = ""] = entry.text.toString().trim().split("\n");
		if (session.json) printJson("xfer.entry/1", { card: card.id, title: card.title, file: card.file, ...entryDocument(entry) });
		else if (!isTerminal()) printLine(entry.dated ?? "", card.id, entry.id, entry.type, entry.author, line);
		else {
			const clock = new Date().toTimeString().slice(0, 8);
			print(
				`${paint("dim", clock)} ${visible(card.id)} ${paint("bold", visible(entry.author))} ${visible(entry.type)} on ${visible(card.title)}: ${visible(line)}\n`,
			);
		}
	}
	return exit.timeout; // nothing else ends it but a signal
}

function infoDocument(card: CardInfo): object {
	const { id, file, path, title, createdBy, createdAt, count, last, holder, done, removed, warnings } = card;
	return {
		id,
		file,
		path,
		title,
		created_by: createdBy,
		created_at: isoDate(createdAt),
		count: count ?? null,
		last: { author: last.author, date: isoDate(last.date) },
		holder: holder ? { name: holder.name, host: holder.host, until: isoDate(holder.until) } : null,
		done,
		removed,
		warnings,
	};
}

function cardDocument(card: OpenCard): object {
	return { ...infoDocument(card), front: Object.fromEntries(card.front), introduction: card.introduction.toString() };
}

/** An Entry for JSON; text that is not UTF-8 as base64. */
export function entryDocument({ id, type, author, date, text, flaws }: Entry): object {
	const words = text.toString();
	const body = Buffer.from(words).equals(text) ? { text: words } : { textBase64: text.toString("base64") };
	return { id, type, author, date: date === undefined ? null : isoDate(date), ...body, flaws };
}

/** A date that any clock may have given: some filesystems keep times that no date can hold. */
function isoDate(ms: number): string {
	return new Date(Math.abs(ms) <= 8.64e15 ? ms : 0).toISOString();
}

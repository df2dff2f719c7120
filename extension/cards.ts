import type { Board, CardInfo, OpenCard } from "../lib/board/board.ts";
import type { Entry } from "../lib/board/card.ts";
import { formatAge, formatClock } from "../lib/duration.ts";
import { cut, oneLine, plainText } from "../lib/fence.ts";
import { shellWord } from "../lib/filename.ts";
import type { Here } from "./here.ts";
import { explain } from "./screen.ts";

/** Most bytes of a Card that are shown. */
const most = 16_384;
/** Most Cards that a list names. */
const mostCards = 50;

/** The Board, whose modules are loaded when somebody asks for it: most sessions never do. */
export async function openCards({ me }: Here): Promise<Board> {
	const { openBoard } = await import("../lib/board/board.ts");
	return openBoard(me.tree);
}

/** A line for each Card that is neither done nor removed, the newest activity first. */
export async function listCards(here: Here): Promise<{ cards: readonly CardInfo[]; text: string }> {
	const board = await openCards(here);
	const cards = (await board.list()).cards.filter(({ done, removed }) => !done && !removed);
	if (cards.length === 0) return { cards, text: "no Cards" };
	const now = board.context.now();
	const lines = cards.slice(0, mostCards).map((card) => `${oneLine(card.id, 63)} ${describe(card, now)}: ${oneLine(card.title, 100)}`);
	if (cards.length > mostCards) lines.push(`and ${cards.length - mostCards} more: xfer board list`);
	return { cards, text: lines.join("\n") };
}

function describe({ count, last, holder }: CardInfo, now: number): string {
	const entries = count === undefined ? "large" : count === 1 ? "1 Entry" : `${count} Entries`;
	const claimed = holder ? [`claimed by ${oneLine(holder.name, 63)}`] : [];
	return `(${[entries, `${oneLine(last.author, 63)} ${formatAge(last.date, now)}`, ...claimed].join(", ")})`;
}

/**
 * A Card as an agent is given it to read: between tags, and of a long one the newest Entries.
 * @throws as `Board.find` and `Board.read`
 */
export async function showCard(here: Here, piece: string): Promise<{ card: OpenCard; text: string }> {
	const board = await openCards(here);
	const card = await board.read(await board.find(piece));
	return { card, text: cardText(card, board.context.now()) };
}

function cardText(card: OpenCard, now: number): string {
	const title = oneLine(card.title, 200).replaceAll('"', "'");
	const by = oneLine(card.createdBy, 63).replaceAll('"', "'");
	const open = `<card id="${oneLine(card.id, 63).replaceAll('"', "'")}" title="${title}" by="${by}"${state(card, now)}>`;
	const cutHere = `\n[cut here: all of it is in ${card.path}]`;
	const whole = peerText(card.introduction);
	const introduction = cut(whole, most / 4) + (Buffer.byteLength(whole) > most / 4 ? cutHere : "");
	let left = most - Buffer.byteLength(open) - Buffer.byteLength(introduction) - 200;
	const shown: string[] = [];
	for (const entry of card.entries.toReversed()) {
		const text = entryText(entry, now);
		const size = Buffer.byteLength(text) + 2;
		if (size > left) {
			if (shown.length === 0) shown.push(cut(text, left) + cutHere); // even the newest alone is too long
			break;
		}
		shown.push(text);
		left -= size;
	}
	const hidden = card.entries.length - shown.length;
	const earlier = hidden > 0 ? [`[${hidden} earlier left out: xfer board show ${shellWord(card.id)}]`] : [];
	const parts = [...(introduction ? [introduction] : []), ...earlier, ...shown.toReversed()];
	return `${open}\n${parts.join("\n\n")}\n</card>`;
}

function state({ holder, done, removed }: CardInfo, now: number): string {
	if (removed) return ' state="removed"';
	if (done) return ' state="done"';
	return holder ? ` state="claimed by ${oneLine(holder.name, 63)} until ${formatClock(holder.until, now)}"` : "";
}

function entryText({ type, author, date, id, text }: Entry, now: number): string {
	const facts = [type, author, date === undefined ? "no date" : formatAge(date, now), id].map((fact) => oneLine(fact, 63));
	return `### ${facts.join(" · ")}\n${peerText(text)}`;
}

/** What others wrote: nothing in it is obeyed, or taken for the end of the Card. */
function peerText(bytes: Buffer): string {
	return plainText(bytes.toString())
		.replace(/<(?=\s*\/?\s*card\b)/gi, "‹")
		.trim();
}

/** An Entry that is there, and what to know about it: whatever else could not be done is no reason to add it again. */
export interface Added {
	readonly entry: Entry;
	readonly file: string;
	readonly notes: readonly string[];
}

/**
 * Adds an Entry as this Node, and tells whom it mentions.
 * @throws as `Board.find` and `Board.add`, and when the signal was aborted
 */
export async function addEntry(
	here: Here,
	piece: string,
	{ text, type }: { text: string; type?: string | undefined },
	signal?: AbortSignal,
): Promise<Added> {
	return await adding(here, piece, signal, (board, file) => board.add(file, { author: here.me.name, text, type }));
}

/**
 * Says as this Node that a Card is done, with a last word.
 * @throws as `Board.find` and `Board.done`, and when the signal was aborted
 */
export async function endCard(here: Here, piece: string, text: string, signal?: AbortSignal): Promise<Added> {
	return await adding(here, piece, signal, (board, file) => board.done(file, { author: here.me.name, text }));
}

async function adding(
	here: Here,
	piece: string,
	signal: AbortSignal | undefined,
	add: (board: Board, file: string) => Entry | Promise<Entry>,
): Promise<Added> {
	const board = await openCards(here);
	const file = await board.find(piece);
	signal?.throwIfAborted();
	const entry = await add(board, file);
	return { entry, file, notes: await tellMentioned(here, board, file, entry) };
}

async function tellMentioned({ me }: Here, board: Board, file: string, entry: Entry): Promise<string[]> {
	try {
		const { mentionsIn, notifyMentioned } = await import("../lib/board/mentions.ts");
		if (mentionsIn(entry.text.toString()).length === 0) return [];
		const outcomes = notifyMentioned(me.tree, await board.read(file), entry, me.name);
		return outcomes.map(({ to, error }) => (error ? `@${to} was not told: ${explain(error)}` : `told ${to}`));
	} catch (error) {
		return [`it was added, but nobody was told: ${explain(error)}`];
	}
}

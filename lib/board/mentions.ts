import { errno, XferError } from "../errors.ts";
import { shellWord } from "../filename.ts";
import { fold } from "../names.ts";
import type { Outcome } from "../send.ts";
import type { Tree } from "../tree.ts";
import type { Entry } from "./card.ts";

/** What a note names a Card by. */
export interface CardRef {
	readonly id: string;
	readonly title: string;
}

/** Most bytes of an Entry's text in a note; all of it stands on the Card. */
const most = 16 * 1024;

/**
 * The names that a text mentions with `@`, in order, each once: not in code, not in an address, not in a path (protocol 14).
 * Whether there are such Nodes is not asked.
 */
export function mentionsIn(text: string): string[] {
	const names = new Set<string>();
	for (const [, name = ""] of withoutCode(text).matchAll(
		/(?<![\p{L}\p{N}._%+\-/@])@([A-Za-z0-9][A-Za-z0-9._-]{0,62})(?![A-Za-z0-9._-]*\/|[A-Za-z0-9_-])/gu,
	)) {
		names.add(fold(name).replace(/[._-]+$/, "")); // the end of a sentence, not of a name
	}
	return [...names];
}

/** What stands before the text of a line in a quotation or a list. */
const container = /^(?: {0,3}>[ \t]?| {0,3}(?:[-+*]|\d{1,9}[.)])(?:[ \t]{1,4}|$))/;

/** The paragraphs of a Markdown text without its code: fenced and indented blocks, and spans. */
function withoutCode(text: string): string {
	const paragraphs: string[] = [];
	let paragraph = "";
	let fence = ""; // the backticks or tildes that began the block that is open, and in how many quotations
	let depth = 0;
	let list = false;
	const end = () => {
		if (paragraph) paragraphs.push(withoutSpans(paragraph));
		paragraph = "";
	};
	for (const given of text.split("\n")) {
		let line = given.replace(/\r$/, "");
		if (fence) {
			for (let quotes = 0; quotes < depth; quotes++) line = line.replace(/^ {0,3}>[ \t]?/, "");
			const [, indent = "", close = ""] = /^(\s*)(`{3,}|~{3,})[ \t]*$/.exec(line) ?? [];
			if (close.startsWith(fence) && (list || indent.length < 4)) fence = "";
			continue;
		}
		let quotes = 0;
		let inside = false;
		for (let found = isRule(line) ? null : container.exec(line); found; found = container.exec(line)) {
			inside = true;
			if (found[0].includes(">")) quotes++;
			else list = true;
			line = line.slice(found[0].length);
		}
		const [, mark = "", info = ""] = /^\s*(`{3,}|~{3,})(.*)$/.exec(line) ?? [];
		const indented = /^(?: {4}| {0,3}\t)/.test(line);
		if (line.trim() === "" || isRule(line)) end();
		else if (mark && !(mark.startsWith("`") && info.includes("`")) && (list || !indented)) {
			end();
			fence = mark;
			depth = quotes;
		} else if (indented && !paragraph && !list) {
			// a block of code; in a list it may be a paragraph of an item
		} else {
			if (inside && quotes === 0) end(); // an item of its own
			if (!inside && !/^\s/.test(line)) list = list && paragraph !== "";
			paragraph += `${line}\n`;
			if (/^ {0,3}(?:#{1,6}(?:\s|$)|=+\s*$|-+\s*$)/.test(line)) end(); // a heading
		}
	}
	end();
	return paragraphs.join("\n");
}

/** Three dashes or stars and more, with nothing else: no list. */
function isRule(line: string): boolean {
	return /^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,})$/.test(line);
}

/** A paragraph without its code spans: each ends at a run of as many backticks as it began with; a run without such an end is text. */
function withoutSpans(paragraph: string): string {
	const runs = [...paragraph.matchAll(/`+/g)];
	const ends = new Map<number, number[]>(); // where runs of a length stand, the last one first
	for (let at = runs.length - 1; at >= 0; at--) {
		const length = runs[at]?.[0].length ?? 0;
		const same = ends.get(length);
		if (same) same.push(at);
		else ends.set(length, [at]);
	}
	let text = "";
	let from = 0;
	for (let at = 0; at < runs.length; at++) {
		const { 0: run, index } = runs[at] as RegExpExecArray;
		// A backslash before it makes the first backtick text; in a span it would mean nothing.
		const escaped = isEscaped(paragraph, index) ? 1 : 0;
		const same = ends.get(run.length - escaped) ?? [];
		while ((same.at(-1) ?? Number.POSITIVE_INFINITY) <= at) same.pop();
		const end = same.at(-1);
		if (end === undefined) continue;
		text += `${paragraph.slice(from, index + escaped)} `;
		from = (runs[end]?.index ?? 0) + run.length - escaped;
		at = end;
	}
	return text + paragraph.slice(from);
}

function isEscaped(text: string, at: number): boolean {
	let slashes = 0;
	while (text[at - slashes - 1] === "\\") slashes++;
	return slashes % 2 === 1;
}

/**
 * Hands a note to each Node that an Entry mentions, once for each, whoever asks for it and how often; never to its author.
 * @param from who hands it over
 * @returns an outcome for each; with ENODE for a name that no Node has
 */
export function notifyMentioned(
	tree: Tree,
	card: CardRef,
	entry: Pick<Entry, "id" | "type" | "author" | "date" | "text">,
	from: string,
): Outcome[] {
	const text = entry.text.toString();
	const author = real(tree, entry.author);
	const outcomes = new Map<string, Outcome>();
	for (const name of mentionsIn(text)) {
		const to = real(tree, name);
		if (outcomes.has(to) || to === author) continue;
		const by = author === real(tree, from) ? "" : ` by ${entry.author}`;
		const subject = `@${to} in "${card.title}"${by}`;
		const body = `Entry ${entry.id} (${entry.type}) by ${entry.author} on Card ${card.id}:\n\n${beginning(entry.text)}\nTo answer: xfer board add ${shellWord(card.id)} "…"\n`;
		outcomes.set(to, note(tree, { from, to, entry, place: card.id, subject, body }));
	}
	return [...outcomes.values()];
}

/** Tells who held a Card that another claimed earlier, in another copy of the Board. */
export function notifyLostClaim(
	tree: Tree,
	card: CardRef,
	lost: Pick<Entry, "id" | "author" | "date">,
	holder: string,
	from: string,
): Outcome {
	const body = `A merge brought an earlier claim of ${holder}: your claim ${lost.id} on Card ${card.id} does not hold.\n\nTo see it: xfer board show ${shellWord(card.id)}\n`;
	const subject = `"${card.title}" is claimed by ${holder}`;
	return note(tree, { from, to: real(tree, lost.author), entry: lost, place: `${card.id}.claim`, subject, body });
}

/** As much of a text as a note holds, with a line end. */
function beginning(text: Buffer): string {
	if (text.length <= most) return text.toString().replace(/\n?$/, "\n");
	return `${text
		.subarray(0, most)
		.toString()
		.replace(/\ufffd$/, "")}…\n(the rest stands on the Card)\n`;
}

interface Note {
	readonly from: string;
	readonly to: string;
	/** What it is about. */
	readonly entry: Pick<Entry, "id" | "date">;
	/** Where that stands. */
	readonly place: string;
	readonly subject: string;
	readonly body: string;
}

/** Hands over a note with the id that everybody gives it (protocol 14): so it is delivered once. */
function note(tree: Tree, { from, to, entry, place, subject, body }: Note): Outcome {
	const seconds = Math.max(0, Math.floor((entry.date ?? 0) / 1000));
	const id = `${seconds}.M000000R${entry.id}.${place.replace(/[^A-Za-z0-9._-]/g, "_").slice(0, 60)}.${to}`;
	try {
		if (tree.node(to).inbox.maildir.get(id)) return { to, id, durability: "again" };
		const [outcome] = tree.send({ from, to: [to], kind: "note", subject: subject.slice(0, 200), body, id });
		return outcome ?? { to, id, durability: "again" };
	} catch (error) {
		if (error instanceof XferError || errno(error) !== undefined) return { to, error: error as Error };
		throw error;
	}
}

/** A Node's own name, for any of its names; a name that no Node has stays what it is. */
function real(tree: Tree, name: string): string {
	try {
		return tree.node(name).name;
	} catch {
		return name; // no Node's, or no name at all
	}
}

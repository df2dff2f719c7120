import { unique } from "../context.ts";
import { XferError } from "../errors.ts";
import { findHeader, formatHeader, headerLimit, parseDate } from "../handoff.ts";
import { fold } from "../names.ts";

/** What a Card is not as a writer leaves it (protocol 14). */
export type CardWarning = "front-matter" | "unclosed" | "bom" | "yaml" | "conflict" | "large";
/** `torn`: no closing line · `typed`: no header, or not all of it · `duplicate`: its id stood before, so it has another one. */
export type Flaw = "torn" | "typed" | "duplicate";

/** For a person: what each warning means, and what to do about it; without a cure `xfer board repair` is one. */
export const cardWarnings: Readonly<Record<CardWarning, { readonly what: string; readonly cure?: string }>> = {
	"front-matter": { what: "no front matter", cure: "give it one in an editor: id, title, created_by, created_at between two lines ---" },
	unclosed: { what: "its front matter does not close", cure: "end it with a line ---" },
	bom: { what: "begins with a byte order mark", cure: "save it without" },
	yaml: { what: "its front matter can't be read as YAML of strings, lists and mappings", cure: "mend it in an editor" },
	conflict: { what: "git left two sides in it" },
	large: { what: "too large to be read unless it is named", cure: "begin another Card: xfer board new" },
};

/** For a person: what each flaw of an Entry means. `xfer board repair` mends them. */
export const entryFlaws: Readonly<Record<Flaw, string>> = {
	torn: "without a closing line",
	typed: "typed by hand",
	duplicate: "with an id that stood before",
};

/** What is to be appended. */
export interface NewEntry {
	readonly id: string;
	/** A label, such as `finding`. */
	readonly type: string;
	readonly author: string;
	/** Unix ms. */
	readonly date: number;
	/** The bytes as they shall be read. */
	readonly text: Uint8Array;
}

/** A Card's bytes, and where in them what stands; of several bytes nothing is copied or decoded before it is asked for. */
export interface Card {
	/** What was read; by `readCard` of a file in which git left two sides, what they unite to. */
	readonly bytes: Buffer;
	/** The lines of the front matter, as bytes from … to; both 0 when there is none. */
	readonly front: { readonly begin: number; readonly end: number };
	/** The introduction, as bytes from … to, without the empty lines around it. */
	readonly introduction: { readonly begin: number; readonly end: number };
	/** In the order of the file; each id once. */
	readonly entries: readonly Entry[];
	/** Torn beginnings of what stands in another place, and copies of what is to be made whole: no Entries of their own. */
	readonly beginnings: readonly Beginning[];
	readonly warnings: readonly CardWarning[];
}

/** Bytes from … to, and the Entry that stands in their place, when they came first. */
export interface Beginning {
	readonly begin: number;
	readonly end: number;
	readonly of: Entry | undefined;
}

// A file is scanned as Latin-1, in which a character is a byte: so offsets are bytes, and what is no UTF-8 stays what it is.
const separator = " \xc2\xb7 ";
const id = "[0-9a-hjkmnp-tv-z]{8}";
const idPattern = new RegExp(`^${id}$`);
const typePattern = /^[a-z][a-z0-9_-]{0,31}$/;
/** A whole line, where `lastIndex` says. */
const closePattern = new RegExp(`<!-- ${id} -->(?=\\r?\\n|$)`, "y");
/** A Node name, or `unknown`. */
const author = "[a-z0-9][a-z0-9._-]{0,62}";
export const authorPattern = new RegExp(`^${author}$`);
/** A header as a writer leaves it. */
const headerPattern = new RegExp(
	`^### ${id}${separator}[a-z][a-z0-9_-]{0,31}${separator}${author}${separator}\\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\\d|3[01])T(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?Z$`,
);
/** What begins a line that is structure; with backslashes before it, text that looked like it. */
const structure = "\\\\*(?:### |<!-- |<{7}|={7}|>{7}|\\|{7})";
const toEscape = new RegExp(`(^|\\n)(${structure})`, "g");
const toUnescape = new RegExp(`(^|\\n)\\\\(${structure})`, "g");

/** One contribution, as it stands in a Card. */
export class Entry {
	readonly type: string;
	/** As it is written; `unknown` when nobody is named. */
	readonly author: string;
	/** As it is written. */
	readonly dated: string | undefined;
	readonly flaws: readonly Flaw[];
	/** Its place in the Card's bytes: from the header line to the end of the closing line, without the line end. */
	readonly begin: number;
	readonly end: number;
	readonly #bytes: Buffer;
	readonly #textBegin: number;
	readonly #textEnd: number;
	#id: string | undefined;

	constructor(bytes: Buffer, id: string | undefined, { typed, begin, end, textBegin, textEnd }: Part, flaws: readonly Flaw[]) {
		this.#bytes = bytes;
		this.#id = id;
		this.#textBegin = textBegin;
		this.#textEnd = Math.max(textBegin, textEnd);
		this.begin = begin;
		this.end = end;
		this.type = typed.type;
		this.author = typed.author;
		this.dated = typed.date;
		this.flaws = flaws;
	}

	/** Its own id; of one that has none, or not for itself, one that is made of its bytes. */
	get id(): string {
		this.#id ??= hashId(this.raw);
		return this.#id;
	}

	/** Whether its id is one that is made of its bytes: when it grows it has another. */
	get isHashed(): boolean {
		return this.flaws.length > 0 && this.id === hashId(this.raw);
	}

	/** Unix ms. */
	get date(): number | undefined {
		return parseDate(this.dated);
	}

	/** Its bytes in the Card. */
	get raw(): Buffer {
		return this.#bytes.subarray(this.begin, this.end);
	}

	/** The bytes as they were given. */
	get text(): Buffer {
		return unescapeText(this.#bytes.subarray(this.#textBegin, this.#textEnd));
	}

	is(flaw: Flaw): boolean {
		return this.flaws.includes(flaw);
	}
}

/** The fields of a header line, as far as they are there. */
interface Typed {
	readonly id: string | undefined;
	readonly type: string;
	readonly author: string;
	readonly date: string | undefined;
	/** All four, as a writer leaves them. */
	readonly whole: boolean;
}

/** A part of a Card that is an Entry. */
interface Part {
	readonly typed: Typed;
	readonly begin: number;
	readonly end: number;
	readonly textBegin: number;
	/** Before `textBegin` when there is none. */
	readonly textEnd: number;
	/** It has no closing line. */
	readonly torn: boolean;
}

/** An id for what has none, made of its bytes: everybody makes the same. */
export function hashId(bytes: Uint8Array): string {
	const digest = process.getBuiltinModule("node:crypto").createHash("sha256").update(bytes).digest();
	return unique(() => digest);
}

/** An Entry as it is appended: with an empty line before it, so that it begins a line whatever stands there. */
export function formatEntry({ id, type, author, date, text }: NewEntry): Buffer {
	const head = `\n### ${id} · ${type} · ${author} · ${new Date(date).toISOString()}\n\n`;
	return Buffer.concat([Buffer.from(head), escapeText(text), Buffer.from(`\n<!-- ${id} -->\n`)]);
}

/** A new Card. */
export function formatCard(card: { id: string; title: string; author: string; date: number; introduction: Uint8Array }): Buffer {
	const header = formatHeader([
		["id", card.id],
		["title", card.title],
		["created_by", card.author],
		["created_at", new Date(card.date).toISOString()],
	]);
	if (header.length > headerLimit) throw longFront(header.length);
	if (card.introduction.length === 0) return Buffer.from(header);
	const end = card.introduction.at(-1) === 10 ? "" : "\n";
	return Buffer.concat([Buffer.from(`${header}\n`), escapeText(card.introduction), Buffer.from(end)]);
}

/** The error for a front matter that no reader would find the end of. */
export function longFront(length: number): XferError {
	return new XferError("ESIZE", `the front matter is ${length} bytes, the limit is ${headerLimit}`, "the text belongs into an Entry");
}

/** Text as it stands in a Card: no line of it looks like structure. */
export function escapeText(text: Uint8Array): Buffer {
	return Buffer.from(Buffer.from(text).toString("latin1").replace(toEscape, "$1\\$2"), "latin1");
}

/** A Card's bytes in which nothing is taken for what git left as two sides: where those lines are text. */
export function escapeMarkers(bytes: Buffer): Buffer {
	if (!sidesOf(bytes)) return bytes;
	return Buffer.from(bytes.toString("latin1").replace(/(^|\n)(?=<{7}|={7}|>{7}|\|{7})/g, "$1\\"), "latin1");
}

/** What `escapeText` was given. */
export function unescapeText(text: Buffer): Buffer {
	return text.includes(92) ? Buffer.from(text.toString("latin1").replace(toUnescape, "$1$2"), "latin1") : text;
}

/** Types with a meaning, and what says them: as a label they would go around its checks. */
const commands: Readonly<Record<string, string>> = {
	claim: "claim",
	release: "release",
	done: "done",
	removed: "rm",
	restored: "rm --undo",
};

/**
 * An Entry's type as a person gives it.
 * @throws {XferError} EINPUT
 */
export function entryType(text: string): string {
	if (Object.hasOwn(commands, text)) throw new XferError("EINPUT", `"${text}" is no label`, `xfer board ${commands[text]} CARD`);
	if (typePattern.test(text)) return text;
	throw new XferError("EINPUT", `${JSON.stringify(text)} is not an Entry's type`, "such as note, finding, question, answer, decision");
}

/** Reads a Card, whatever the bytes are. What git left as two sides it warns of and does not unite: `readCard` does. */
export function parseCard(bytes: Buffer): Card {
	const warnings: CardWarning[] = [];
	const mark = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0;
	if (mark > 0) warnings.push("bom");
	let header = findHeader(bytes.subarray(mark));
	// A line --- in an Entry does not close a front matter that nobody closed.
	if (header.body > 0 && hasEntry(bytes.toString("latin1", mark + header.begin, mark + header.end)))
		header = { begin: 0, end: 0, body: 0, warnings: ["unclosed"] };
	if (header.body === 0) warnings.push(header.warnings.includes("unclosed") ? "unclosed" : "front-matter");
	const body = mark + header.body;
	const text = bytes.toString("latin1");
	if ((text.startsWith("<<<<<<<") || text.includes("\n<<<<<<<")) && sidesOf(bytes)) warnings.push("conflict");
	const entries: Entry[] = [];
	let beginnings: Beginning[] = [];
	const seen = new Map<string, number>();
	const end = scan(text, body, (part) => {
		const { typed, torn } = part;
		const flaws = flawsOf(torn, !typed.whole);
		const entry = new Entry(bytes, typed.id, part, flaws);
		const at = seen.get(entry.id);
		const before = at === undefined ? undefined : entries[at];
		if (at === undefined || !before) {
			seen.set(entry.id, entries.length);
			entries.push(entry);
		} else if (entry.raw.equals(before.raw) || (torn && startsWith(before.raw, entry.raw))) {
			// The same once more is nothing, until the first one is made whole: then it would be another.
			const goes = entry.raw.length < before.raw.length || before.flaws.length > 0;
			if (goes) beginnings.push({ begin: entry.begin, end: entry.end, of: undefined });
		} else if (before.is("torn") && entry.raw.length > before.raw.length && startsWith(entry.raw, before.raw)) {
			entries[at] = entry; // its writer began again
			beginnings = beginnings.map((one) => (one.of === before ? { ...one, of: entry } : one));
			beginnings.push({ begin: before.begin, end: before.end, of: entry });
		} else {
			const other = new Entry(bytes, undefined, part, [...flaws, "duplicate"]);
			if (seen.has(other.id)) return;
			seen.set(other.id, entries.length);
			entries.push(other);
		}
	});
	const begin = skipBlank(text, body, end);
	return {
		bytes,
		front: header.body === 0 ? { begin: 0, end: 0 } : { begin: mark + header.begin, end: mark + header.end },
		introduction: { begin, end: trimEnd(text, begin, end) },
		entries,
		beginnings,
		warnings,
	};
}

function hasEntry(front: string): boolean {
	if (!front.includes("### ")) return false;
	return front.split("\n").some((line) => headerPattern.test(line.replace(/\r$/, "")));
}

const none: readonly Flaw[] = [];
/** Text between Entries: nobody said whose. */
const headless: Typed = { id: undefined, type: "note", author: "unknown", date: undefined, whole: false };

function flawsOf(torn: boolean, typed: boolean): readonly Flaw[] {
	if (torn) return typed ? ["torn", "typed"] : ["torn"];
	return typed ? ["typed"] : none;
}

/** Finds the Entries from a place on; where the first one begins, else the end. */
function scan(text: string, from: number, found: (part: Part) => void): number {
	let first = text.length;
	let open: { typed: Typed; begin: number; textBegin: number; crlf: boolean } | undefined;
	let free = -1; // where text begins that belongs to no Entry, after the first one
	const stray = (end: number) => {
		const begin = free < 0 ? end : skipBlank(text, free, end);
		if (begin === end || !/[^ \t\r\n\v\f]/.test(text.slice(begin, end))) return; // blank, in bytes
		const textEnd = trimEnd(text, begin, end);
		found({ typed: headless, begin, end: textEnd, textBegin: begin, textEnd, torn: true });
	};
	const close = (textEnd: number, end: number, torn: boolean) => {
		if (!open) return;
		const { typed, begin, textBegin } = open;
		found({ typed, begin, end: trimEnd(text, begin, end), textBegin, textEnd: torn ? trimEnd(text, textBegin, textEnd) : textEnd, torn });
		open = undefined;
	};
	// The next lines that may be a header and a closing line: whichever comes first.
	let header = text.startsWith("### ", from) ? from : lineAfter(text, "\n### ", from);
	let closing = text.startsWith("<!-- ", from) ? from : lineAfter(text, "\n<!-- ", from);
	while (header < text.length || closing < text.length) {
		const begin = Math.min(header, closing);
		const newline = text.indexOf("\n", begin);
		const next = newline < 0 ? text.length : newline + 1;
		if (closing < header) {
			closing = lineAfter(text, "\n<!-- ", begin);
			closePattern.lastIndex = begin;
			if (!open || !closePattern.test(text)) continue;
			if (open.typed.id !== undefined && !text.startsWith(open.typed.id, begin + 5)) continue; // a comment in a text typed by hand
			close(begin - (open.crlf && text[begin - 2] === "\r" ? 2 : 1), newline < 0 ? next : newline, false);
			free = next;
			continue;
		}
		header = lineAfter(text, "\n### ", begin);
		const crlf = newline > begin && text[newline - 1] === "\r";
		const typed = parseEntryHeader(text.slice(begin, newline < 0 ? text.length : crlf ? newline - 1 : newline));
		if (!typed) continue;
		if (open) close(begin, begin, true);
		else stray(begin);
		free = -1;
		if (begin < first) first = begin;
		const blank = text.startsWith("\r\n", next) ? 2 : text[next] === "\n" ? 1 : 0;
		open = { typed, begin, textBegin: next + blank, crlf };
	}
	if (open) close(text.length, text.length, true);
	else stray(text.length);
	return first;
}

function lineAfter(text: string, what: string, at: number): number {
	const found = text.indexOf(what, at);
	return found < 0 ? text.length : found + 1;
}

/** The header of an Entry, written or typed by hand; undefined for a heading. */
function parseEntryHeader(line: string): Typed | undefined {
	if (headerPattern.test(line)) {
		// Cut at what the pattern has found, which costs a third of its groups: a Board has tens of thousands of these.
		const type = line.indexOf(separator) + 4;
		const between = line.indexOf(separator, type);
		const author = line.lastIndexOf(separator);
		const date = line.slice(author + 4);
		if (isDay(date))
			return { id: line.slice(4, 12), type: line.slice(type, between), author: line.slice(between + 4, author), date, whole: true };
	}
	if (!line.includes(separator)) return undefined;
	const rest = line
		.slice(4)
		.split(separator)
		.map((field) => field.trim());
	// Of two fields the first may be a type of 8 letters: an id has a digit, nearly always.
	const own = idPattern.test(rest[0] ?? "") && (rest.length > 2 || /\d/.test(rest[0] ?? "")) ? rest.shift() : undefined;
	const label = typePattern.test(rest[0] ?? "") ? rest.shift() : undefined;
	const dated = dateIn(rest.at(-1));
	// Of one that has an id the date may be torn.
	if (dated !== undefined || (own !== undefined && rest.length > 1 && /^[0-9TZ:.-]*$/.test(rest.at(-1) ?? ""))) rest.pop();
	const [name = "unknown", ...more] = rest;
	if (more.length > 0 || !authorPattern.test(fold(name))) return undefined; // words with a dot between them
	return { id: own, type: label ?? "note", author: name, date: dated, whole: false };
}

/** Whether there is such a day: most of it the pattern has seen to. */
function isDay(date: string): boolean {
	return !(date.startsWith("31", 8) || date.startsWith("02", 5)) || parseDate(date) !== undefined;
}

/** A date as people type it too: `2026-11-30`. */
function dateIn(text: string | undefined): string | undefined {
	const date = text && /^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00:00Z` : text;
	return parseDate(date) === undefined ? undefined : date;
}

/** The sides of what git left between its markers: lines outside of them are in each. Undefined when there are none that fit together. */
export function sidesOf(bytes: Buffer): { ours: Buffer; base: Buffer | undefined; theirs: Buffer } | undefined {
	const sides = { ours: "", base: "", theirs: "" };
	let side: keyof typeof sides | undefined;
	let found = false;
	let hasBase = false;
	const text = bytes.toString("latin1");
	for (let at = 0; at < text.length; ) {
		const newline = text.indexOf("\n", at);
		const next = newline < 0 ? text.length : newline + 1;
		const line = text.slice(at, next);
		at = next;
		if (/^<{7}(?: |\r?\n?$)/.test(line)) {
			if (side) return undefined; // nested: nobody can say what belongs where
			side = "ours";
			found = true;
		} else if (side === "ours" && /^\|{7}(?: |\r?\n?$)/.test(line)) {
			side = "base";
			hasBase = true;
		} else if ((side === "ours" || side === "base") && /^={7}\r?\n?$/.test(line)) side = "theirs";
		else if (side === "theirs" && /^>{7}(?: |\r?\n?$)/.test(line)) side = undefined;
		else if (side) sides[side] += line;
		else for (const each of ["ours", "base", "theirs"] as const) sides[each] += line;
	}
	if (!found || side) return undefined;
	const [ours, base, theirs] = [sides.ours, sides.base, sides.theirs].map((part) => Buffer.from(part, "latin1"));
	return ours && theirs ? { ours, base: hasBase ? base : undefined, theirs } : undefined;
}

function startsWith(bytes: Buffer, beginning: Buffer): boolean {
	return bytes.length >= beginning.length && bytes.subarray(0, beginning.length).equals(beginning);
}

/** The end of a part without line ends behind it. */
function trimEnd(text: string, begin: number, end: number): number {
	let at = end;
	while (at > begin && (text[at - 1] === "\n" || text[at - 1] === "\r")) at--;
	return at;
}

/** The beginning of a part without the empty lines before it. */
function skipBlank(text: string, begin: number, end: number): number {
	let at = begin;
	while (at < end && (text[at] === "\n" || text[at] === "\r")) at++;
	return at;
}

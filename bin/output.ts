import { fstatSync, readSync, writeSync } from "node:fs";
import { XferError } from "../lib/errors.ts";
import { control, visible, visibleLines } from "../lib/visible.ts";

/** Standard output was closed by who reads it: nothing more can be shown. */
export class ClosedOutput extends Error {
	override name = "ClosedOutput";

	/** The commands of the Board are a bundle of their own, with this class of their own. */
	static override [Symbol.hasInstance](value: unknown): boolean {
		return value instanceof Error && value.name === "ClosedOutput";
	}
}

/**
 * Writes all of it to standard output, now: when this returns, it has reached the pipe, file or terminal.
 * @throws {ClosedOutput} when nobody reads it
 */
export function print(text: string | Uint8Array, fd: 1 | 2 = 1): void {
	write(fd, text);
}

/** A line to standard error: what to know, never the result. Control characters of peers' text in it are shown. */
export function note(text: string): void {
	try {
		write(2, `${visibleLines(text)}\n`);
	} catch {
		// nobody reads standard error: there is no other place to say so
	}
}

/** One result on one line: for a person, or with tabs between its parts. */
export function printLine(...parts: readonly string[]): void {
	print(`${parts.map(visible).join(isTerminal() ? "  " : "\t")}\n`);
}

/** A document on one line. What a terminal would obey in it is escaped: JSON itself escapes C0 only. */
export function printJson(schema: string, document: object): void {
	const text = JSON.stringify({ schema, ...document });
	print(`${text.replace(control, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`)}\n`);
}

/** Says that a directory gives no events. */
export function tellPolling(directory: string, reason: string): void {
	note(`xfer: no file events in ${directory} (${reason}): looking every second`);
}

let terminal: boolean | undefined;
/** Whether a person looks at standard output. */
export function isTerminal(): boolean {
	terminal ??= isatty(1);
	return terminal;
}

/** `node:tty` brings the network along, so it is loaded only for what may be a terminal. */
export function isatty(fd: number): boolean {
	try {
		return fstatSync(fd).isCharacterDevice() && process.getBuiltinModule("node:tty").isatty(fd);
	} catch {
		return false; // closed
	}
}

const paints = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 } as const;

/** Colours text for a terminal, as NO_COLOR and FORCE_COLOR have it. */
export function paint(colour: keyof typeof paints, text: string): string {
	const { FORCE_COLOR: force, NO_COLOR: no, TERM } = process.env;
	const on = force ? force !== "0" && force !== "false" : !no && isTerminal() && TERM !== "dumb";
	return on && text ? `\x1b[${paints[colour]}m${text}\x1b[0m` : text;
}

/** `1 Handoff`, `2 Handoffs`. */
export function count(number: number, what: string, many = `${what}s`): string {
	return `${number} ${number === 1 ? what : many}`;
}

export interface Cell {
	readonly text: string;
	readonly colour?: keyof typeof paints;
}

/**
 * Rows of peers' text: aligned and cut to the terminal's width for a person, else separated by tabs.
 * @returns how many there were
 */
export async function printTable(rows: Iterable<readonly (string | Cell)[]>): Promise<number> {
	if (!isTerminal()) return printPlain(rows);
	const cells = Array.from(rows, (row) =>
		row.map((cell) => (typeof cell === "string" ? { text: visible(cell) } : { ...cell, text: visible(cell.text) })),
	);
	// Only text of more than ASCII needs the table of character widths.
	const ascii = cells.every((row) => row.every(({ text }) => /^[\x20-\x7e]*$/.test(text)));
	const width = ascii ? (text: string) => text.length : (await import("string-width")).default;
	const columns = process.stdout.columns || 80;
	const widths: number[] = [];
	for (const row of cells) for (const [at, { text }] of row.entries()) widths[at] = Math.max(widths[at] ?? 0, Math.min(width(text), 24));
	shrink(widths, columns);
	let out = "";
	for (const row of cells) {
		let left = columns;
		let line = "";
		for (const [at, { text, colour }] of row.entries()) {
			const last = at === row.length - 1;
			const shown = cut(text, Math.max(1, last ? left : Math.min(left, widths[at] ?? 0)), width);
			line += colour ? paint(colour, shown) : shown;
			if (!last) line += " ".repeat(Math.max(0, (widths[at] ?? 0) - width(shown)) + 2);
			left = Math.max(0, left - (widths[at] ?? 0) - 2);
			if (left === 0) break;
		}
		out += `${line.trimEnd()}\n`;
	}
	print(out);
	return cells.length;
}

/** Takes from the widest columns until the last one, which says what it is about, has a quarter of the line. */
function shrink(widths: number[], columns: number): void {
	const others = widths.slice(0, -1);
	for (let over = others.reduce((sum, width) => sum + width + 2, 0) + Math.floor(columns / 4) - columns; over > 0; over--) {
		const widest = others.indexOf(Math.max(...others));
		const width = others[widest] ?? 0;
		if (width <= 9) break; // a short id and an age stay whole
		others[widest] = width - 1;
	}
	widths.splice(0, others.length, ...others);
}

function printPlain(rows: Iterable<readonly (string | Cell)[]>): number {
	let count = 0;
	let out = "";
	for (const row of rows) {
		count++;
		let separator = "";
		for (const cell of row) {
			out += separator + visible(typeof cell === "string" ? cell : cell.text);
			separator = "\t";
		}
		out += "\n";
		if (out.length < 65_536) continue;
		print(out);
		out = "";
	}
	print(out);
	return count;
}

function cut(text: string, columns: number, width: (text: string) => number): string {
	if (width(text) <= columns) return text;
	let shown = "";
	for (const char of text) {
		if (width(shown + char) > columns - 1) break;
		shown += char;
	}
	return `${shown}…`;
}

/** Bytes over the limit after which a text is not counted to its end: it may have none. */
const endless = 64 * 1024 * 1024;

/**
 * All of standard input.
 * @param limit most bytes to keep
 * @param how what to type instead, when standard input is a terminal
 * @throws {XferError} EINPUT when it is a terminal, ESIZE when it is over the limit
 */
export function readInput(limit: number, how: string): Buffer {
	if (isatty(0)) throw new XferError("EINPUT", "standard input is a terminal", how);
	const chunks: Buffer[] = [];
	let size = 0;
	while (size <= limit + endless) {
		const chunk = Buffer.allocUnsafe(65_536);
		const count = retry(() => readSync(0, chunk, 0, chunk.length, null), ["EOF", "EBADF"]) ?? 0;
		if (count === 0 && size <= limit) return Buffer.concat(chunks);
		if (count === 0) throw tooLarge(`${size} bytes`, limit);
		size += count;
		if (size <= limit) chunks.push(chunk.subarray(0, count));
	}
	throw tooLarge(`more than ${size} bytes`, limit);
}

/**
 * Asks a person a question on the terminal: the line that is the answer.
 * @param how what to type instead, when nobody is there to be asked
 * @throws {XferError} EINPUT when standard input is no terminal
 */
export function readAnswer(question: string, how: string): string {
	if (!isatty(0)) throw new XferError("EINPUT", "nobody is there to be asked: standard input is no terminal", how);
	write(2, visible(question));
	let answer = "";
	const chunk = Buffer.alloc(1024);
	while (!answer.includes("\n")) {
		const count = retry(() => readSync(0, chunk, 0, chunk.length, null), ["EOF", "EBADF"]) ?? 0;
		if (count === 0) break;
		answer += chunk.toString("utf8", 0, count);
	}
	return answer.trim();
}

function tooLarge(size: string, limit: number): XferError {
	return new XferError(
		"ESIZE",
		`the text is ${size}, the limit is ${limit}`,
		"write it to a file and send its path, or raise XFER_MAX_BYTES",
	);
}

type Writer = (bytes: Uint8Array) => void;
const writers = new Map<1 | 2, Writer>();
/** From now on what is printed to a descriptor goes to this. */
export function divert(fd: 1 | 2, writer: Writer): void {
	writers.set(fd, writer);
}

function write(fd: 1 | 2, text: string | Uint8Array): void {
	const bytes = typeof text === "string" ? Buffer.from(text) : text;
	const writer = writers.get(fd);
	if (writer) {
		writer(bytes);
		return;
	}
	for (let at = 0; at < bytes.length; ) {
		const count = retry(() => writeSync(fd, bytes, at), ["EPIPE", "EBADF"]);
		if (count === undefined) throw new ClosedOutput();
		at += count;
	}
}

/** Tries again while a non-blocking pipe is full or empty; undefined for the errors that mean its end. */
function retry(act: () => number, ends: readonly string[]): number | undefined {
	for (;;) {
		try {
			return act();
		} catch (error) {
			const code = (error as NodeJS.ErrnoException).code ?? "";
			if (ends.includes(code)) return undefined;
			if (code !== "EAGAIN") throw error;
			Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
		}
	}
}

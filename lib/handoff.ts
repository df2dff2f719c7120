import { isUtf8 } from "node:buffer";
import { timeOf } from "./filename.ts";

/** Kinds with a meaning of their own; others are kept and treated as `task`. */
export const kinds = ["task", "question", "answer", "report", "note"] as const;
export type Kind = (typeof kinds)[number] | (string & {});

export const priorities = ["urgent", "normal", "low"] as const;
export type Priority = (typeof priorities)[number];

/** Why a header did not read as its writer may have meant (protocol 5). */
export type Warning = "bom" | "unclosed" | "line" | "duplicate" | "utf8" | "date" | "number";

export type Value = string | readonly string[];

/** A header as it stands in a file: every key that counts, in lower case. */
export interface Header {
	/** Whether the file begins with a header; else it is all body. */
	readonly present: boolean;
	readonly fields: ReadonlyMap<string, Value>;
	/** Where the body begins, in bytes. */
	readonly body: number;
	/** About its form; `Handoff.warnings` has those about its values too. */
	readonly warnings: readonly Warning[];
}

/** What a Handoff says of itself, with the standard values for what it does not say (protocol 5). Nothing in it is proved. */
export interface Handoff {
	readonly id: string;
	readonly from: string;
	readonly to: readonly string[];
	readonly kind: Kind;
	/** One line; of the body when the header has none. */
	readonly subject: string;
	/** Unix time in ms. */
	readonly date: number;
	readonly re: string | undefined;
	readonly thread: string | undefined;
	readonly priority: Priority | undefined;
	/** Unix time in ms. */
	readonly expires: number | undefined;
	readonly key: string | undefined;
	readonly hops: number;
	readonly header: Header;
	/** Those of the header, and of values that can't be used. */
	readonly warnings: readonly Warning[];
}

/** Most bytes of a header with both its fences. */
export const headerLimit = 65_536;

const dateKeys = new Set(["date", "expires", "created_at"]);
const keyPattern = /^[A-Za-z_][A-Za-z0-9_-]*$/;
const datePattern = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z$/;

/**
 * Reads a header from the beginning of a file: all of it, or more than `headerLimit` bytes. Whatever the bytes are, it returns.
 * No YAML: values are verbatim, or a JSON string, or in `to` a list (protocol 5).
 */
export function parseHeader(bytes: Buffer): Header {
	const { begin, end, body, warnings } = findHeader(bytes);
	if (body === 0) return { present: false, fields: new Map(), body, warnings };
	return { present: true, body, ...parseLines(bytes, begin, end) };
}

/** Where the lines of a header begin and end, and the body after it begins: at 0 when there is no header. */
export function findHeader(bytes: Buffer): { begin: number; end: number; body: number; warnings: readonly Warning[] } {
	const begin = fence(bytes, 0);
	if (begin === undefined) {
		const bom = bytes.length >= 6 && bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf && fence(bytes, 3) !== undefined;
		return { begin: 0, end: 0, body: 0, warnings: bom ? ["bom"] : [] };
	}
	for (let at = begin; at < bytes.length && at < headerLimit; ) {
		const end = fence(bytes, at);
		if (end !== undefined && end <= headerLimit) return { begin, end: at, body: end, warnings: [] };
		const next = bytes.indexOf(10, at);
		if (next < 0) break;
		at = next + 1;
	}
	return { begin: 0, end: 0, body: 0, warnings: ["unclosed"] };
}

/** Where the line after the fence begins, when a line that is exactly `---` stands at `at`. */
function fence(bytes: Buffer, at: number): number | undefined {
	if (bytes[at] !== 45 || bytes[at + 1] !== 45 || bytes[at + 2] !== 45) return undefined;
	const end = at + (bytes[at + 3] === 13 ? 4 : 3);
	if (end >= bytes.length) return end === at + 3 ? end : undefined; // the file ends here; a lone CR is no line end
	return bytes[end] === 10 ? end + 1 : undefined;
}

function parseLines(bytes: Buffer, begin: number, end: number): Pick<Header, "fields" | "warnings"> {
	const text = bytes.toString("utf8", begin, end);
	const fields = new Map<string, Value>();
	const warnings: Warning[] = [];
	const warn = (warning: Warning) => {
		if (!warnings.includes(warning)) warnings.push(warning);
	};
	if (text.includes("\ufffd") && !isUtf8(bytes.subarray(begin, end))) warn("utf8");
	const lines = text.split("\n");
	lines.pop(); // behind the last newline
	for (const line of lines) {
		const colon = line.indexOf(":");
		const end = line.endsWith("\r") ? line.length - 1 : line.length;
		const name = line.slice(0, Math.max(colon, 0));
		if (!keyPattern.test(name) || (colon + 1 < end && !isBlank(line.charCodeAt(colon + 1)))) {
			warn("line");
			continue;
		}
		const key = name.toLowerCase();
		const value = parseValue(key, trim(line, colon + 1, end));
		if (value.length === 0) continue;
		if (fields.has(key)) warn("duplicate");
		else fields.set(key, value);
	}
	return { fields, warnings };
}

function parseValue(key: string, text: string): Value {
	if (text.startsWith('"')) return parseString(text) ?? text;
	if (key === "to" && text.startsWith("[") && text.endsWith("]")) return parseList(text.slice(1, -1)) ?? text;
	return text;
}

function parseString(text: string): string | undefined {
	try {
		const value: unknown = JSON.parse(text);
		return typeof value === "string" ? value.toWellFormed() : undefined;
	} catch {
		return undefined; // no JSON string: it is verbatim
	}
}

/** Items between commas, each a JSON string or verbatim; undefined when it is no such list. */
function parseList(text: string): readonly string[] | undefined {
	const items: string[] = [];
	const item = /((?:"(?:[^"\\]|\\.)*"|[^",[\]])*)(,|$)/y; // linear: each character can match in one way only
	while (item.lastIndex < text.length) {
		const [, raw = "", comma] = item.exec(text) ?? [];
		if (comma === undefined) return undefined;
		const value = trim(raw);
		const read = value.startsWith('"') ? parseString(value) : value;
		if (!read || (read === value && read.includes('"'))) return undefined;
		items.push(read);
		if (comma === "") return items;
	}
	return undefined; // empty, or ends with a comma
}

/** A part of a text without the spaces and tabs around it. Not a regular expression: those take quadratic time on long runs of blanks. */
function trim(text: string, from = 0, to = text.length): string {
	let start = from;
	let end = to;
	while (start < end && isBlank(text.charCodeAt(start))) start++;
	while (end > start && isBlank(text.charCodeAt(end - 1))) end--;
	return text.slice(start, end);
}

function isBlank(code: number): boolean {
	return code === 32 || code === 9;
}

/** Unix time in ms of an RFC 3339 date with `Z`; undefined for all else. */
export function parseDate(value: Value | undefined): number | undefined {
	if (typeof value !== "string" || !datePattern.test(value)) return undefined;
	const ms = Date.parse(value);
	// Date.parse rolls 30 February over to March
	const day = Number(value.slice(8, 10));
	const rolled = day > 28 && !Number.isNaN(ms) && new Date(ms).getUTCDate() !== day;
	return Number.isNaN(ms) || rolled ? undefined : ms;
}

function isNumber(value: Value | undefined): value is string {
	return typeof value === "string" && /^\d{1,9}$/.test(value);
}

/**
 * What a file says, from its header and the beginning of its body.
 * @param head the beginning of the file, with the whole header
 * @param modified the file's mtime in ms
 */
export function readHandoff(id: string, head: Buffer, modified: number, header: Header = parseHeader(head)): Handoff {
	const text = (key: string) => {
		const value = header.fields.get(key);
		return typeof value === "string" ? value : value?.join(", ");
	};
	const to = header.fields.get("to") ?? [];
	const [date, expires] = [parseDate(header.fields.get("date")), parseDate(header.fields.get("expires"))];
	const hops = header.fields.get("hops");
	const warnings = [...header.warnings];
	if ((header.fields.has("date") && date === undefined) || (header.fields.has("expires") && expires === undefined)) warnings.push("date");
	if (hops !== undefined && !isNumber(hops)) warnings.push("number");
	return {
		id,
		from: text("from") ?? "unknown",
		to: typeof to === "string" ? [to] : to,
		kind: text("kind") ?? "task",
		subject: text("subject") ?? firstLine(head.subarray(header.body)),
		date: date ?? timeOf(id) ?? (Math.abs(modified) <= 8.64e15 ? modified : 0), // some filesystems keep times that no date can hold
		re: text("re"),
		thread: text("thread"),
		priority: priorities.find((priority) => priority === text("priority")),
		expires,
		key: text("key"),
		hops: isNumber(hops) ? Number(hops) : 0,
		header,
		warnings,
	};
}

/** The first line that is not blank, at most 200 characters of it. */
function firstLine(body: Buffer): string {
	for (const line of body.subarray(0, 4096).toString("utf8").split("\n")) {
		const text = line.trim();
		if (text) return text.slice(0, 200);
	}
	return "";
}

/** Characters that a terminal or a YAML reader would take for something else than text. */
const escaped = /[\u007f-\u009f\u2028\u2029\ufeff\u202a-\u202e\u2066-\u2069]/g;
/** What YAML 1.1 or 1.2 reads as null, a boolean, a number or a date (numbers with `:` are quoted for their colon). */
const typed =
	/^(?:null|true|false|yes|no|on|off|y|n|\d[\d_]*(?:\.[\d_]*)?(?:e[+-]?\d+)?|0x[\da-f_]+|0o?[0-7_]+|0b[01_]+|e[+-]?\d+|\d{4}-\d\d?-\d\d?)$/i;

/** One header value as a writer writes it: bare when every reader of ours and of YAML's reads that same string, else a JSON string. */
export function formatValue(key: string, value: Value): string {
	if (typeof value !== "string") return `[${value.map((item) => formatValue(key, item)).join(", ")}]`;
	if (dateKeys.has(key) && parseDate(value) !== undefined) return value;
	if (/^[A-Za-z0-9][A-Za-z0-9 ._/@+-]*$/.test(value) && !value.endsWith(" ") && !typed.test(value)) return value;
	return JSON.stringify(value.toWellFormed()).replace(escaped, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** A header with its fences. Undefined and empty values are left out. */
export function formatHeader(fields: Iterable<readonly [key: string, value: Value | undefined]>): string {
	let text = "---\n";
	for (const [key, value] of fields) if (value?.length) text += `${key}: ${formatValue(key, value)}\n`;
	return `${text}---\n`;
}

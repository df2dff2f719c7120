import { XferError } from "../errors.ts";

/** A value in a JSON text with comments and trailing commas, and where it stands in it. */
export interface Value {
	readonly start: number;
	readonly end: number;
	readonly members?: readonly Member[];
	readonly items?: readonly Value[];
	/** Of what is neither an object nor an array. */
	readonly scalar?: unknown;
}

export interface Member {
	readonly key: string;
	readonly start: number;
	readonly value: Value;
}

/** Blanks and comments. */
const gap = /(?:\s|\/\/[^\n]*|\/\*[\s\S]*?\*\/|\ufeff)*/y;
const token = /"(?:[^"\\\n]|\\.)*"|-?\d[\d.eE+-]*|true|false|null/y;

/**
 * Parses a JSON text as hosts let people write it.
 * @throws {XferError} EINPUT when it is none, with the line
 */
export function parseJsonc(text: string): Value {
	let at = 0;
	const skip = () => {
		gap.lastIndex = at;
		gap.exec(text);
		at = gap.lastIndex;
	};
	const fail = (): never => {
		throw new XferError("EINPUT", `no JSON in line ${text.slice(0, at).split("\n").length}`, "mend it first: nothing was changed");
	};
	const next = (char: string): boolean => {
		skip();
		if (text[at] !== char) return false;
		at++;
		return true;
	};
	const scalar = (): unknown => {
		token.lastIndex = at;
		const [found] = token.exec(text) ?? fail();
		try {
			const value: unknown = JSON.parse(found);
			at += found.length;
			return value;
		} catch {
			return fail();
		}
	};
	const list = <T>(close: string, one: () => T): T[] => {
		const all: T[] = [];
		while (!next(close)) {
			all.push(one());
			if (next(",")) continue;
			if (!next(close)) fail();
			break;
		}
		return all;
	};
	const member = (depth: number): Member => {
		skip();
		const start = at;
		const key = scalar();
		if (typeof key !== "string" || !next(":")) return fail();
		return { key, start, value: value(depth) };
	};
	const value = (depth: number): Value => {
		skip();
		const start = at;
		if (depth > 200) fail();
		if (next("{")) {
			const members = list("}", () => member(depth + 1));
			return { start, end: at, members };
		}
		if (next("[")) {
			const items = list("]", () => value(depth + 1));
			return { start, end: at, items };
		}
		const found = scalar();
		return { start, end: at, scalar: found };
	};
	const found = value(0);
	skip();
	if (at < text.length) fail();
	return found;
}

/** What a value is, without where it stands. */
export function plain({ members, items, scalar }: Value): unknown {
	if (members) return Object.fromEntries(members.map(({ key, value }) => [key, plain(value)]));
	return items ? items.map(plain) : scalar;
}

/** The value at a path of keys, or of numbers in arrays; undefined when there is none. */
export function at(root: Value, path: readonly (string | number)[]): Value | undefined {
	let found: Value | undefined = root;
	for (const name of path)
		found = typeof name === "number" ? found?.items?.[name] : found?.members?.findLast(({ key }) => key === name)?.value;
	return found;
}

/**
 * Appends an item to the array at a path, which is made where it is not there; every other byte stays.
 * @throws {XferError} EINPUT when something else than an array is there
 */
export function append(text: string, path: readonly string[], item: unknown): string {
	const root = parseJsonc(text);
	for (let length = path.length; length >= 0; length--) {
		const found = at(root, path.slice(0, length));
		if (!found) continue;
		const rest = path.slice(length);
		if (rest.length === 0 ? !found.items : !found.members)
			throw new XferError(
				"EINPUT",
				`${path.slice(0, length).join(".") || "it"} is something else than expected`,
				"look at it: nothing was changed",
			);
		if (rest.length === 0) return insert(text, found, item);
		const inner = rest.slice(1).reduceRight<unknown>((value, key) => ({ [key]: value }), [item]);
		return insert(text, found, inner, rest[0]);
	}
	return text;
}

/** Puts a member or an item at the end of an object or an array, in the layout that is there. */
function insert(text: string, into: Value, value: unknown, key?: string): string {
	const children = into.members?.map((member) => ({ start: member.start, end: member.value.end })) ?? into.items ?? [];
	const last = children.at(-1);
	const inside = text.slice(last?.end ?? into.start + 1, into.end - 1);
	const lines = last ? text.slice(into.start, into.end).includes("\n") : text.includes("\n") || !/\S/.test(text.slice(into.end));
	const eol = text.includes("\r\n") ? "\r\n" : "\n";
	const unit = /\n([ \t]+)["\]}[{]/.exec(text)?.[1] ?? "  ";
	const outer = indentOf(text, into.start);
	const inner = last && lines ? indentOf(text, last.start) : outer + unit;
	const body = JSON.stringify(value, undefined, lines ? unit : undefined).replaceAll("\n", eol + inner);
	const written = (lines ? eol + inner : last ? " " : "") + (key === undefined ? "" : `${JSON.stringify(key)}: `) + body;
	const comma = trailingComma(inside);
	if (!last) {
		const rest = inside.trimEnd(); // a comment in an empty one stays
		return splice(text, into.start + 1, into.end - 1, rest + written + (lines ? eol + outer : ""));
	}
	// Behind a comment that belongs to the last one, and before the blanks that stand in front of the bracket.
	const end = last.end + inside.trimEnd().length;
	if (comma >= 0) return splice(text, end, end, `${written},`);
	return splice(splice(text, end, end, written), last.end, last.end, ",");
}

/** Where in what follows a last item the trailing comma is, outside of comments; -1 when there is none. */
function trailingComma(text: string): number {
	gap.lastIndex = 0;
	gap.exec(text);
	return text[gap.lastIndex] === "," ? gap.lastIndex : -1;
}

/**
 * Removes what `mine` knows from the array at a path, and then what has nothing left in it, up to `keep` keys; every other byte stays.
 * Of what `append` has put there, nothing is left.
 */
export function remove(text: string, path: readonly (string | number)[], mine: (item: unknown) => boolean): string {
	for (;;) {
		const items = at(parseJsonc(text), path)?.items;
		const index = items?.findIndex((item) => mine(plain(item))) ?? -1;
		if (!items || index < 0) return text;
		text = take(text, path, index);
		for (let length = path.length; length > 0; length--) {
			const root = parseJsonc(text);
			const found = at(root, path.slice(0, length));
			const parent = at(root, path.slice(0, length - 1));
			if (!found || !parent?.members || !isEmpty(text, found)) break;
			const name = path[length - 1];
			text = take(
				text,
				path.slice(0, length - 1),
				parent.members.findLastIndex(({ key }) => key === name),
			);
		}
	}
}

/** Whether nothing is in it, not even a comment. */
function isEmpty(text: string, { start, end }: Value): boolean {
	return text.slice(start + 1, end - 1).trim() === "";
}

/** Takes a member or an item out, with the comma that it had. */
function take(text: string, path: readonly (string | number)[], index: number): string {
	const into = at(parseJsonc(text), path);
	const children = into?.members?.map((member) => ({ start: member.start, end: member.value.end })) ?? into?.items ?? [];
	const child = children[index];
	if (!into || !child) return text;
	const before = children[index - 1];
	const after = children[index + 1];
	const from = before?.end ?? into.start + 1;
	const gapBefore = text.slice(from, child.start);
	const comma = trailingComma(text.slice(child.end, after?.start ?? into.end - 1));
	const end = comma >= 0 ? child.end + comma + 1 : child.end;
	const inComment = /\/\/[^\n]*\n\s*$/.test(gapBefore); // to the end of its line, which stays the end
	const start = inComment && !/^[ \t]*\r?\n/.test(text.slice(end)) ? child.start : from + gapBefore.trimEnd().length;
	const nothing = text.slice(end, into.end - 1).trim() === "" && !inComment;
	if (!before && !after) return splice(text, start, nothing ? into.end - 1 : end, "");
	if (comma >= 0) return splice(text, start, end, "");
	// The last one, without a comma of its own: the one before it has one that it had not.
	const cut = splice(text, start, end, "");
	const its = before ? before.end + trailingComma(text.slice(before.end, child.start)) : -1;
	return its < 0 ? cut : splice(cut, its, its + 1, "");
}

function indentOf(text: string, at: number): string {
	const line = text.slice(text.lastIndexOf("\n", at - 1) + 1, at);
	return /^[ \t]*/.exec(line)?.[0] ?? "";
}

function splice(text: string, start: number, end: number, by: string): string {
	return text.slice(0, start) + by + text.slice(end);
}

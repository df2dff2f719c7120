import { XferError } from "../errors.ts";
import { formatValue } from "../handoff.ts";
import { type Card, parseCard } from "./card.ts";

/** What a Card's front matter says: its strings, in the order of the file. */
export type Front = ReadonlyMap<string, string>;

const keyPattern = /^[A-Za-z_][A-Za-z0-9_-]{0,99}$/;
/** A plain scalar that every reader of YAML reads as itself, on one line: no `:`, no `#`, and nothing special at its beginning. */
const plain = /^[A-Za-z0-9](?:[ !-"$-9;-~\u00a1-\u1fff]*[!-"$-9;-~\u00a1-\u1fff])?$/;
const date = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/;

/**
 * Reads the lines of a front matter as we write them, and as most people do; undefined when it needs a YAML parser. That takes as long to load
 * as all else that a command does, and a tenth of a millisecond for each Card (see `bench`).
 */
export function readPlainFront(text: string): Front | undefined {
	const front = new Map<string, string>();
	for (const line of text.split("\n")) {
		if (line === "" || line === "\r") continue;
		const end = line.endsWith("\r") ? line.length - 1 : line.length;
		const colon = line.indexOf(": ");
		const key = line.slice(0, Math.max(0, colon));
		const value = line.slice(colon + 2, end);
		if (!keyPattern.test(key) || front.has(key)) return undefined;
		if (plain.test(value) || date.test(value)) front.set(key, value);
		else if (/^"[ !#-[\]-~]*"$/.test(value))
			front.set(key, value.slice(1, -1)); // a quoted string without escapes
		else return undefined;
	}
	return front;
}

/**
 * Reads a front matter. Every scalar is the string that it is written as, and what is no string (a list, a mapping) is given as JSON; nothing in it is executed.
 * @param text its lines, without the fences
 * @throws {XferError} EUNREADABLE when it can't be read as YAML, or has tags, anchors or aliases
 */
export async function readFront(text: string): Promise<Front> {
	const simple = readPlainFront(text);
	if (simple) return simple;
	const { default: matter } = await import("gray-matter");
	const { parse } = await yaml();
	const fail = (): never => {
		throw new Error("a language that is not read");
	};
	// Its own engines would execute JavaScript. With options it keeps no cache, in which a failure becomes a success the second time.
	const engines = { yaml: { parse, stringify: fail }, json: { parse: fail }, javascript: { parse: fail }, js: { parse: fail } };
	let file: { data: object; matter: string };
	// On these it takes quadratic time.
	for (const [blank] of text.matchAll(/\s+/g)) if (blank.length > 1000) throw unreadable(new Error("a thousand blanks in a row"));
	try {
		file = matter(`---\n${text}\n---\n`, { engines, language: "yaml" });
	} catch (error) {
		throw unreadable(error);
	}
	// It ends at a line that only begins with dashes: what follows would be lost.
	if (file.matter.trim() !== text.trim() && text.trim() !== "") throw unreadable(new Error("a line that begins with ---"));
	return new Map(Object.entries(file.data).map(([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)]));
}

/** The lines of a Card's front matter. */
export function frontText({ bytes, front }: Pick<Card, "bytes" | "front">): string {
	return bytes.toString("utf8", front.begin, front.end);
}

/** What a Card's front matter says; nothing when it can't be read. */
export async function frontOf(card: Pick<Card, "bytes" | "front">): Promise<Front> {
	try {
		return await readFront(frontText(card));
	} catch (error) {
		if (error instanceof XferError) return new Map();
		throw error;
	}
}

/** The id that a Card's front matter gives it. */
export async function idOf(bytes: Buffer): Promise<string | undefined> {
	return (await frontOf(parseCard(bytes))).get("id");
}

/**
 * The same lines with one value changed, or a line added, and every other byte as it was.
 * @throws {XferError} EUNREADABLE when they can't be read, EINPUT when the key can't be changed
 */
export async function editFront(text: string, key: string, value: string): Promise<string> {
	if (!keyPattern.test(key))
		throw new XferError("EINPUT", `${JSON.stringify(key)} is not a key`, "letters, digits, _ and -, as in owner=bob");
	const before = await readFront(text);
	const written = formatValue(key, value) || '""';
	const end = text.endsWith("\r\n") ? "\r\n" : "\n";
	const place = (await yaml()).place(text, key);
	const after = place
		? text.slice(0, place.begin) + place.lead + written + text.slice(place.end)
		: `${text}${text === "" || text.endsWith("\n") ? "" : end}${key}: ${written}${end}`;
	const read = await readFront(after).catch(() => new Map<string, string>()); // can't be read any more: it is not written
	const same = [...before].every(([other, is]) => other === key || read.get(other) === is);
	if (same && read.get(key) === value && read.size === before.size + (before.has(key) ? 0 : 1)) return after;
	throw new XferError("EINPUT", `"${key}" can't be changed without changing more`, "edit the file by hand");
}

function unreadable(error: unknown): XferError {
	const [why = ""] = (error instanceof Error ? error.message : String(error)).split("\n");
	return new XferError("EUNREADABLE", `the front matter can't be read: ${why}`, "mend it in an editor");
}

/** What `yaml` does for us: strings, lists and mappings, and nothing that stands for something else. */
async function yaml() {
	const { isAlias, isMap, isNode, isScalar, parseDocument, visit } = await import("yaml");
	const open = (source: string) => {
		const document = parseDocument(source, { schema: "failsafe", logLevel: "silent" });
		const [error] = [...document.errors, ...document.warnings];
		if (error) throw error;
		if (/^\.\.\.(?:\s|$)/m.test(source)) throw new Error("an end of a document: what follows would be lost");
		visit(document, (_, node) => {
			if (isAlias(node) || (isNode(node) && (node.tag || ("anchor" in node && node.anchor))))
				throw new Error("tags, anchors and aliases are not read");
		});
		return document;
	};
	return {
		parse(source: string): object {
			const value: unknown = open(source).toJS({ maxAliasCount: 0 });
			if (value === null) return {};
			if (typeof value !== "object" || Array.isArray(value)) throw new Error("it is no list of KEY: VALUE");
			return value;
		},
		/** Where the value of a key stands. */
		place(source: string, key: string): { begin: number; end: number; lead: string } | undefined {
			const { contents } = open(source);
			const pair = isMap(contents) ? contents.items.find((item) => isScalar(item.key) && item.key.value === key) : undefined;
			if (!pair || !isScalar(pair.key) || !pair.key.range) return undefined;
			const after = source.indexOf(":", pair.key.range[1]) + 1;
			const [begin, valueEnd] = (isNode(pair.value) && pair.value.range) || [after, after];
			// On the key's line, or under a comment that has to stay.
			const between = source.slice(after, begin);
			const direct = begin > after && (between.trim() !== "" || !between.includes("\n"));
			const end = Math.max(after, source.slice(0, valueEnd).trimEnd().length);
			return direct && end >= begin ? { begin, end, lead: "" } : { begin: after, end, lead: " " };
		},
	};
}

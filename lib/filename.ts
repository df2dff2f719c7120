import { type Context, unique } from "./context.ts";
import { XferError } from "./errors.ts";

/** The subdirectory that a Handoff lies in. */
export type Dir = "new" | "cur";

/** What the name of a maildir file says: `ID[,FIELD…][:2,FLAGS]` (protocol 4). */
export interface FileName {
	readonly id: string;
	/** `KEY` or `KEY=VALUE`, as they stand. */
	readonly fields: readonly string[];
	/** Maildir flags, as they stand. */
	readonly flags: string;
}

/** Where a Handoff stands (protocol 4). Other words come from `E=` fields of later versions. */
export type State =
	| "queued"
	| "taken"
	| "read"
	| "answered"
	| "failed"
	| "recalled"
	| "expired"
	| "replaced"
	| "unreadable"
	| (string & {});

const over: ReadonlySet<State> = new Set(["read", "answered", "recalled", "expired", "replaced"]);

/** Whether nobody needs to do anything about a Handoff in this state any more. */
export function isOver(state: State): boolean {
	return over.has(state);
}

/** In hand until `end` (unix seconds, 0 when unreadable), by `instance`. */
export interface Lease {
	readonly end: number;
	readonly instance: string;
}

/** The id in a file name: all up to the first `:`, `;` or `,`. */
export function idOf(name: string): string {
	const end = name.search(/[:;,]/);
	return end < 0 ? name : name.slice(0, end);
}

const none: readonly string[] = [];

export function parseFileName(name: string): FileName {
	if (!/[:;,]/.test(name)) return { id: name, fields: none, flags: "" };
	const info = name.search(/[:;]/);
	const [id = "", ...fields] = (info < 0 ? name : name.slice(0, info)).split(",");
	return { id, fields, flags: info >= 0 && name.startsWith("2,", info + 1) ? name.slice(info + 3) : "" };
}

/** The name for a directory: in `new/` without an info part when there are no flags. */
export function formatFileName(file: FileName, dir: Dir, separator: Context["separator"]): string {
	const fields = [...file.fields].sort((a, b) => compare(keyOf(a), keyOf(b)));
	const info = dir === "cur" || file.flags ? `${separator}2,${file.flags}` : "";
	return [file.id, ...fields].join(",") + info;
}

/** The value of the first `KEY=VALUE` with this key; a bare `KEY` is no such field. */
export function field(file: FileName, key: string): string | undefined {
	return file.fields.find((text) => text.startsWith(`${key}=`))?.slice(key.length + 1);
}

/** The same name with these fields set, or dropped (undefined), and these flags added and dropped. */
export function change(file: FileName, fields: Readonly<Record<string, string | undefined>>, add = "", drop = ""): FileName {
	const kept = file.fields.filter((text) => !Object.hasOwn(fields, keyOf(text)));
	const set = Object.entries(fields).flatMap(([key, value]) => (value === undefined ? [] : [`${key}=${value}`]));
	const flags = new Set([...file.flags, ...add].filter((flag) => add.includes(flag) || !drop.includes(flag)));
	return { id: file.id, fields: [...kept, ...set], flags: [...flags].sort(compare).join("") };
}

export function stateOf(dir: Dir, file: FileName): State {
	if (dir === "new") return "queued";
	const end = field(file, "E");
	if (end !== undefined) return end || "failed";
	if (field(file, "L") !== undefined) return "taken";
	if (file.flags.includes("R")) return "answered";
	if (file.flags.includes("S")) return "read";
	return file.flags.includes("T") ? "recalled" : "queued";
}

export function leaseOf(file: FileName): Lease | undefined {
	const text = field(file, "L");
	if (text === undefined) return undefined;
	const [, end = "0", instance = ""] = /^(\d{1,12})\.(.+)$/.exec(text) ?? [];
	return { end: Number(end), instance };
}

/** Whether it is in nobody's hand any more, though its name still says so. */
export function isOverdue(dir: Dir, file: FileName, now: number): boolean {
	return stateOf(dir, file) === "taken" && (leaseOf(file)?.end ?? 0) * 1000 <= now;
}

/** How often it was in hand before. */
export function attemptsOf(file: FileName): number {
	const text = field(file, "A") ?? "";
	return /^\d{1,9}$/.test(text) ? Number(text) : 0;
}

/** An id maker: ids of one maker sort in the order in which they were made, within one millisecond too. */
export function idMaker(context: Pick<Context, "now" | "random" | "host">): () => string {
	const host = context.host.replace(/[^A-Za-z0-9._-]/g, "_").slice(0, 100) || "_";
	let millisecond = -1;
	let micros = 0;
	return () => {
		const now = Math.floor(context.now());
		micros = now === millisecond && micros < 999 ? micros + 1 : 0;
		millisecond = now;
		const fraction = String((now % 1000) * 1000 + micros).padStart(6, "0");
		return `${Math.floor(now / 1000)}.M${fraction}R${unique(context.random)}.${host}`;
	};
}

/** Whether an id is of the form that we write: then it sorts by time. */
export function isTimed(id: string): boolean {
	return /^\d{1,11}\.M\d{6}R/.test(id);
}

/** The same id, or when it does not sort above `other`, one of the microsecond after that: another clock was ahead. */
export function idAbove(id: string, other: string): string {
	const [, seconds = "", micros = "999999"] = /^(\d{1,11})\.(?:M(\d{6}))?/.exec(other) ?? [];
	if (compare(id, other) > 0 || seconds === "") return id;
	const carry = micros === "999999";
	return id.replace(
		/^\d+\.M\d{6}/,
		`${Number(seconds) + (carry ? 1 : 0)}.M${carry ? "000000" : String(Number(micros) + 1).padStart(6, "0")}`,
	);
}

/** The 8 characters that name a Handoff to a person; of a foreign name, all of it. */
export function shortId(id: string): string {
	return /^\d+\.M\d{6}R([0-9a-hjkmnp-tv-z]{8})\./.exec(id)?.[1] ?? id;
}

/** A word as a person can paste it into a shell: quoted when it holds anything that a shell reads as more than a word. */
export function shellWord(text: string): string {
	return /^[A-Za-z0-9._/:,=@+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/**
 * The id that a person means by a piece of it, 4 characters or more: the whole id before a short id before any part.
 * @param where what to call the place when it is not there
 * @throws {XferError} EHANDOFF when there is none, EAMBIGUOUS when there are several, EINPUT when the piece is too short
 */
export function pickId(ids: readonly string[], piece: string, where: string): string {
	if (ids.includes(piece)) return piece;
	if (piece.length < 4) throw new XferError("EINPUT", `"${piece}" is too short for a piece of an id`, "4 characters or more");
	const found = [(id: string) => shortId(id) === piece, (id: string) => id.includes(piece)]
		.map((same) => [...new Set(ids.filter(same))])
		.find((some) => some.length > 0);
	if (!found)
		throw new XferError("EHANDOFF", `no Handoff ${JSON.stringify(piece)} in ${where}`, "xfer inbox --all and xfer sent list them");
	const [first = "", ...others] = found;
	if (others.length === 0) return first;
	const names = found.slice(0, 8).map(shortId).join(", ");
	throw new XferError("EAMBIGUOUS", `"${piece}" fits ${found.length} Handoffs`, `say which: ${names}${found.length > 8 ? ", …" : ""}`);
}

/** The time in an id, in ms, if it begins with one. */
export function timeOf(id: string): number | undefined {
	const seconds = /^(\d{1,11})\./.exec(id)?.[1];
	return seconds === undefined ? undefined : Number(seconds) * 1000;
}

/** Order of file names: bytewise, as `LC_ALL=C sort` has it, for all that we write. */
export function compare(a: string, b: string): number {
	return a < b ? -1 : a > b ? 1 : 0;
}

function keyOf(text: string): string {
	const end = text.indexOf("=");
	return end < 0 ? text : text.slice(0, end);
}

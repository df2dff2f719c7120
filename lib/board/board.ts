import { lstatSync, realpathSync } from "node:fs";
import { basename } from "node:path";
import { type Context, sleep, unique } from "../context.ts";
import { errno, XferError } from "../errors.ts";
import { compare, shellWord } from "../filename.ts";
import { append, listFiles, makeDirectories, OpenFile } from "../files.ts";
import { headerLimit, parseDate } from "../handoff.ts";
import { nodeName, slug } from "../names.ts";
import type { Tree } from "../tree.ts";
import { type Card, type CardWarning, type Entry, entryType, formatCard, formatEntry, longFront, parseCard, unescapeText } from "./card.ts";
import { idIn, isCardName, mayGrow, publishCard, settle, stem } from "./card-file.ts";
import { type CardState, type Claim, claimHost, holderWords, isHeldBy, stateOfCard, usualClaim } from "./claims.ts";
import { editFront, type Front, frontText, readFront, readPlainFront } from "./front.ts";
import { mendCard, readCard } from "./merge.ts";
import { isBeingReplaced, purgeCard, recover, replaceCard } from "./replace.ts";

/** A Card as a list shows it. */
export interface CardInfo extends CardState {
	/** Of its front matter, else of its file name. */
	readonly id: string;
	/** Name of the file in the Board's directory. */
	readonly file: string;
	readonly path: string;
	readonly title: string;
	readonly createdBy: string;
	/** Unix ms; the file's mtime when the Card does not say. */
	readonly createdAt: number;
	/** When the file last changed, unix ms. */
	readonly modified: number;
	/** How many Entries; undefined when the Card is too large to be read unasked. */
	readonly count: number | undefined;
	/** The last Entry, else how the Card began. */
	readonly last: { readonly author: string; readonly date: number };
	/** What the front matter says, every key. */
	readonly front: Front;
	readonly warnings: readonly CardWarning[];
}

/** A Card with all that stands in it. */
export interface OpenCard extends CardInfo {
	/** The bytes of its file. */
	readonly bytes: Buffer;
	readonly introduction: Buffer;
	readonly entries: readonly Entry[];
}

/** What is in the Board's directory and is no Card that could be read. */
export interface Skipped {
	readonly file: string;
	readonly reason: string;
}

/** What is to be added; `type` is `note` unless given. */
export interface Addition {
	readonly author: string;
	readonly text: Uint8Array | string;
	readonly type?: string | undefined;
}

/** Bytes of a Card that is not read unless it is named. */
const large = 16 * 1024 * 1024;
/** ms by which the clocks of who shares a Board may differ (protocol 12). */
const skew = 60_000;
/** ms that a claim waits for a Card that is just being replaced. */
const patience = 30_000;

/** The Board of a tree: nothing is read or made before it is needed. */
export function openBoard(tree: Tree): Board {
	return new Board(tree.context);
}

/** A directory of Cards. A Card is given by the name of its file, as `find`, `list` and `create` say it. */
export class Board {
	readonly context: Context;
	#directory: string | undefined;
	/** Dates of the last Entries that were added here, by Card and author, unix ms: two of one ms would stand in any order after a merge. */
	readonly #added = new Map<string, number>();

	constructor(context: Context) {
		this.context = context;
	}

	/** Its directory; of a Board that is a symlink, where that leads. */
	get directory(): string {
		const given = `${this.context.root}/board`;
		try {
			this.#directory ??= realpathSync(given);
		} catch {
			return given; // not there yet; or not to be entered, which whoever opens it is told
		}
		return this.#directory;
	}

	/** The names of the Cards' files, in order. */
	files(): string[] {
		return listFiles(this.directory, isCardName);
	}

	/**
	 * The Card that a person means by a piece of its file's name, 3 characters or more: its whole name or id before any part. When no name has it, by a
	 * piece of its title, or of the id in its front matter.
	 * @returns the name of its file
	 * @throws {XferError} ECARD when there is none, EAMBIGUOUS when there are several, EINPUT when the piece is too short
	 */
	async find(piece: string): Promise<string> {
		const text = stem(basename(piece).toLowerCase());
		const files = this.files();
		const named = (same: (name: string) => boolean) => files.filter((file) => same(stem(file).toLowerCase()));
		let found = named((name) => name === text);
		if (found.length !== 1) found = named((name) => idIn(name) === text);
		if (found.length !== 1 && text.length < 3)
			throw new XferError(
				"EINPUT",
				`"${piece}" is too short for a piece of a Card's name`,
				"3 characters or more; xfer board list shows them",
			);
		if (found.length !== 1) found = named((name) => name.includes(text));
		if (found.length === 0) {
			const memory = Buffer.allocUnsafe(65_536);
			for (const file of files) {
				try {
					const { id, title } = await this.#look(file, memory);
					if (id.toLowerCase().includes(text) || title.toLowerCase().includes(text)) found.push(file);
				} catch {
					// gone, or not to be read: not the one that is meant
				}
			}
		}
		const [first, ...others] = found;
		if (first === undefined)
			throw new XferError(
				"ECARD",
				`no Card ${JSON.stringify(piece)}`,
				"a piece of its id, name or title; xfer board list --all shows them",
			);
		if (others.length === 0) return first;
		const names = found.slice(0, 8).map(stem).join(", ");
		throw new XferError("EAMBIGUOUS", `"${piece}" fits ${found.length} Cards`, `say which: ${names}${found.length > 8 ? ", …" : ""}`);
	}

	/** All Cards, newest activity first, and what is in their place and can't be read. */
	async list(): Promise<{ cards: CardInfo[]; skipped: Skipped[] }> {
		const { directory } = this;
		await this.#recover();
		const named: string[] = [];
		const files = listFiles(directory, (name) => isCardName(name) && named.push(name) > 0);
		const known = new Set(files);
		const skipped = named
			.filter((name) => !known.has(name))
			.map((file) => ({ file, reason: `${kindOf(`${directory}/${file}`)}, no Card` }));
		const cards: CardInfo[] = [];
		const memory = Buffer.allocUnsafe(65_536);
		for (const file of files) {
			try {
				cards.push(await this.#look(file, memory));
			} catch (error) {
				if (error instanceof XferError && error.code === "ECARD") continue; // it has gone
				skipped.push({ file, reason: `can't be read (${errno(error) ?? error})` });
			}
		}
		return { cards: cards.sort((a, b) => b.last.date - a.last.date || compare(a.file, b.file)), skipped };
	}

	/**
	 * A Card with all that stands in it, whatever its size. Waits a moment for an Entry that is just being written.
	 * @throws {XferError} ECARD · the system's error
	 */
	async read(file: string): Promise<OpenCard> {
		await this.#recover();
		return await this.#open(file);
	}

	/**
	 * A new Card.
	 * @param text its introduction
	 * @returns the name of its file
	 * @throws {XferError} EINPUT, ENAME, ESIZE
	 */
	create({ title, author, text = "" }: { title: string; author: string; text?: Uint8Array | string }): {
		id: string;
		file: string;
		path: string;
	} {
		const { context } = this;
		const line = oneLine(title);
		if (line === "") throw new XferError("EINPUT", "a Card needs a title", 'xfer board new "Title"');
		const introduction = bytesOf(text, context);
		makeDirectories(this.directory);
		for (;;) {
			const id = unique(context.random).slice(0, 6);
			const file = `${(slug(line) ?? "card").slice(0, 48).replace(/[.-]+$/, "")}-${id}.md`;
			const path = this.#path(file);
			const bytes = formatCard({ id, title: line, author: nodeName(author), date: context.now(), introduction });
			if (publishCard(context, path, bytes)) return { id, file, path }; // else it is taken: another id
		}
	}

	/**
	 * Adds an Entry: one write, synced, without a lock. Killed, or on a full disk, it leaves all of it, a beginning that readers see as torn, or nothing.
	 * @throws {XferError} ECARD, EINPUT, ENAME, ESIZE · the system's error
	 */
	add(file: string, { author, text, type = "note" }: Addition): Entry {
		const bytes = bytesOf(text, this.context);
		if (bytes.length === 0)
			throw new XferError("EINPUT", "nothing to add: the text is empty", "give some words, or text on standard input");
		return this.#append(file, author, entryType(type), bytes);
	}

	/**
	 * Claims a Card for its author on this host, or extends that claim. Waits for half a minute while the Card is being replaced.
	 * @param hold for how many ms
	 * @throws {XferError} EHELD when another holds it, or it is done or removed: then nothing of ours stands · ECARD, EINPUT · the system's error
	 */
	async claim(file: string, author: string, hold: number = usualClaim): Promise<Claim> {
		const { context } = this;
		const until = context.now() + hold;
		if (!(hold > 0 && until < Date.UTC(10_000)))
			throw new XferError("EINPUT", "a claim holds for some time, and ends before the year 10000", "such as --for 2h");
		const before = await this.read(file);
		this.#requireFree(before, author);
		if (before.done || before.removed) throw over(before);
		const host = claimHost(context);
		const text = Buffer.from(`until ${new Date(until).toISOString()} on ${host}`);
		const entry = this.#append(file, author, "claim", text, lastDate(before, author));
		// What others see decides: and while the Card is being replaced, they may not see it yet.
		const changing = () => isBeingReplaced(this.#path(file));
		let after: OpenCard;
		for (const end = context.monotonic() + patience; ; ) {
			for (let tries = 0; changing() && context.monotonic() < end; tries++) {
				await sleep(20);
				if (tries % 50 === 0) await this.#recover(); // it may be what a killed one left
			}
			after = await this.read(file);
			// Else what was read may lack a claim, or have it in another place: two that believed it would each yield to the other.
			if (!changing() || context.monotonic() >= end) break;
		}
		const { holder } = after;
		const isOurs = holder && isHeldBy(holder, entry.author, host) && !changing();
		// When the former claim ended before this one stood there to go on from it, another may have claimed in between.
		const lapsed = isOurs && holder.id !== entry.id && before.holder && before.holder.until <= context.now();
		if (isOurs && !lapsed) return holder;
		this.#append(file, author, "release", Buffer.from(`on ${host}`), entry.date);
		if (lapsed) return await this.claim(file, author, hold); // a new one, behind the others
		if (holder && !isHeldBy(holder, entry.author, host)) throw held(file, holder);
		if (after.done) throw over(after);
		throw new XferError(
			"EHELD",
			`${stem(file)} could not be claimed: it was changed all the while, or somebody ended the claim`,
			"try again",
		);
	}

	/**
	 * Ends one's claims on a Card.
	 * @returns undefined when nobody held it
	 * @throws {XferError} EHELD when another holds it · ECARD · the system's error
	 */
	async release(file: string, author: string): Promise<Entry | undefined> {
		const card = await this.read(file);
		this.#requireFree(card, author);
		return card.holder && this.#append(file, author, "release", Buffer.from(`on ${claimHost(this.context)}`), lastDate(card, author));
	}

	/**
	 * Says that a Card is done: it leaves the lists until somebody adds to it.
	 * @throws {XferError} EHELD when another holds it · ECARD, ESIZE · the system's error
	 */
	async done(file: string, { author, text }: Omit<Addition, "type">): Promise<Entry> {
		const card = await this.read(file);
		this.#requireFree(card, author);
		return this.#append(file, author, "done", bytesOf(text, this.context), lastDate(card, author));
	}

	/** Whether a Card was taken out of the lists. It is read, and parsed only when an Entry may say so. */
	async isRemoved(file: string): Promise<boolean> {
		const { bytes } = readFile(this.#path(file), file, undefined);
		return bytes.includes(" · removed · ") && (await this.read(file)).removed;
	}

	/** Takes a Card out of the lists, or back into them; undefined when it is there already. Nothing is deleted. */
	async remove(file: string, author: string, removed = true): Promise<Entry | undefined> {
		const card = await this.read(file);
		return card.removed === removed ? undefined : this.#append(file, author, removed ? "removed" : "restored", Buffer.alloc(0));
	}

	/**
	 * Deletes a Card's file, for good.
	 * @throws {XferError} ECARD, EHELD · the system's error
	 */
	async purge(file: string): Promise<void> {
		await this.#present(file, (path) => purgeCard(this.context, path));
	}

	/**
	 * Changes keys of the front matter, and not a byte beside them. The file keeps its name.
	 * @returns false when they are as they shall be already
	 * @throws {XferError} EUNREADABLE when the front matter can't be read, EINPUT when a key can't be changed · ESIZE, EHELD, ECARD · the system's error
	 */
	async edit(file: string, changes: Readonly<Record<string, string>>): Promise<boolean> {
		for (const [key, value] of Object.entries(changes)) {
			if (key === "id") throw new XferError("EINPUT", "a Card keeps its id", "make another one: xfer board new");
			if (key === "title" && oneLine(value) === "")
				throw new XferError("EINPUT", "a Card needs a title", 'xfer board edit CARD --title "…"');
		}
		return await this.#replace(file, async (bytes) => {
			const { front, warnings } = parseCard(bytes);
			if (warnings.includes("conflict"))
				throw new XferError("EUNREADABLE", `git left two sides in ${file}`, `xfer board repair ${shellWord(stem(file))}`);
			if (front.end === 0) throw new XferError("EUNREADABLE", `${file} has no front matter`, "give it one in an editor");
			const before = bytes.toString("utf8", front.begin, front.end);
			if (!Buffer.from(before).equals(bytes.subarray(front.begin, front.end)))
				throw new XferError("EUNREADABLE", `the front matter of ${file} is not UTF-8`, "mend it in an editor");
			let text = before;
			for (const [key, value] of Object.entries(changes)) text = await editFront(text, key, key === "title" ? oneLine(value) : value);
			if (Buffer.byteLength(text) > headerLimit - 16) throw longFront(Buffer.byteLength(text));
			return Buffer.concat([bytes.subarray(0, front.begin), Buffer.from(text), bytes.subarray(front.end)]);
		});
	}

	/**
	 * Makes whole what was typed by hand, and unites what git left as two sides.
	 * @returns false when there was nothing to mend
	 * @throws {XferError} ECARD, EHELD · the system's error
	 */
	async repair(file: string): Promise<boolean> {
		const { modified } = await this.read(file);
		return await this.#replace(file, (bytes) => mendCard(bytes, Math.abs(modified) <= 8.64e15 ? Math.floor(modified) : 0));
	}

	/** @throws {XferError} EHELD when another than the author, on this host, holds the Card */
	#requireFree({ file, holder }: OpenCard, author: string): void {
		if (holder && !isHeldBy(holder, nodeName(author), claimHost(this.context))) throw held(file, holder);
	}

	/**
	 * Where a Card's file is. A name from outside is looked at before it becomes part of a path (protocol 11).
	 * @throws {XferError} ECARD
	 */
	#path(file: string): string {
		if (isCardName(file)) return `${this.directory}/${file}`;
		throw new XferError("ECARD", `${JSON.stringify(file)} is no Card's name`, "xfer board list --all shows them");
	}

	/** @param after unix ms: the Entry is dated later */
	#append(file: string, author: string, type: string, text: Buffer, after = 0): Entry {
		const { context } = this;
		const now = context.now();
		const own = `${file} ${nodeName(author)}`;
		const before = [after, this.#added.get(own) ?? 0].filter((date) => date < now + skew);
		const date = Math.max(now, ...before.map((date) => date + 1));
		const entry = { id: unique(context.random), type, author: nodeName(author), date, text };
		const bytes = formatEntry(entry);
		try {
			append(this.#path(file), bytes, context.durable);
		} catch (error) {
			throw missing(file, error);
		}
		this.#added.set(own, date);
		const [made] = parseCard(bytes).entries;
		if (!made) throw new Error("an Entry that does not read back");
		return made;
	}

	async #replace(file: string, change: (bytes: Buffer) => Buffer | Promise<Buffer>): Promise<boolean> {
		return await this.#present(file, (path) => replaceCard(this.context, path, change));
	}

	async #present<T>(file: string, act: (path: string) => Promise<T>): Promise<T> {
		try {
			return await act(this.#path(file));
		} catch (error) {
			throw missing(file, error);
		}
	}

	async #recover(): Promise<void> {
		await recover(this.context, this.directory);
	}

	/**
	 * What a list shows of a Card.
	 * @param memory to read it into; none of it is kept
	 */
	#look(file: string, memory: Buffer): CardInfo | Promise<CardInfo> {
		const loaded = this.#load(file, memory);
		if (isUnfinished(loaded, this.context)) return this.#open(file);
		const front = readPlainFront(frontText(loaded.card));
		return front ? this.#describe(loaded, front) : this.#describeFully(loaded);
	}

	async #open(file: string): Promise<OpenCard> {
		let loaded = this.#load(file);
		for (let tries = 0; isUnfinished(loaded, this.context) && tries < settle / 10; tries++) {
			await sleep(10);
			loaded = this.#load(file);
		}
		const { bytes, card } = loaded;
		const introduction = unescapeText(card.bytes.subarray(card.introduction.begin, card.introduction.end));
		return { ...(await this.#describeFully(loaded)), bytes, introduction, entries: card.entries };
	}

	/** With a front matter that needs a YAML parser, or that none can read. */
	async #describeFully(loaded: Loaded): Promise<CardInfo> {
		try {
			return this.#describe(loaded, await readFront(frontText(loaded.card)));
		} catch (error) {
			if (!(error instanceof XferError)) throw error;
			const info = this.#describe(loaded, new Map());
			return { ...info, warnings: [...info.warnings, "yaml"] };
		}
	}

	/** @param memory for a look, which reads no large Card */
	#load(file: string, memory?: Buffer): Loaded {
		const now = this.context.now(); // before it is read: a claim that ends in between may be one that goes on
		const loaded = readFile(this.#path(file), file, memory);
		return { file, now, ...loaded, card: readCard(loaded.bytes), isLarge: loaded.size > loaded.bytes.length };
	}

	#describe({ file, card, modified, isLarge, now }: Loaded, front: Front): CardInfo {
		const { entries } = card;
		const name = stem(file);
		const createdBy = front.get("created_by") || "unknown";
		const createdAt = parseDate(front.get("created_at")) ?? modified;
		const last = entries.at(-1);
		const { holder, done, removed } = stateOfCard(isLarge ? [] : entries, now); // a part of them says nothing
		return {
			id: front.get("id") || idIn(name) || name,
			file,
			path: this.#path(file),
			title: front.get("title") || name,
			createdBy,
			createdAt,
			modified,
			count: isLarge ? undefined : entries.length,
			last:
				last && !isLarge
					? { author: last.author, date: last.date ?? modified }
					: { author: createdBy, date: isLarge ? modified : createdAt },
			front,
			warnings: isLarge ? [...card.warnings, "large"] : card.warnings,
			holder,
			done,
			removed,
		};
	}
}

/** A Card's file as it was read. */
interface Loaded {
	readonly file: string;
	/** When it was read, unix ms. */
	readonly now: number;
	readonly bytes: Buffer;
	readonly card: Card;
	/** ms */
	readonly modified: number;
	/** Only its beginning was read. */
	readonly isLarge: boolean;
}

function isUnfinished({ card, modified, isLarge }: Loaded, context: Context): boolean {
	return !isLarge && mayGrow(card, modified, context);
}

/** When the author last added to a Card, in unix ms: what ends or follows that must be later, since merges order by date. */
function lastDate({ entries }: OpenCard, author: string): number | undefined {
	return entries.findLast((entry) => entry.author === nodeName(author))?.date;
}

function readFile(path: string, name: string, memory: Buffer | undefined): { bytes: Buffer; modified: number; size: number } {
	let file: OpenFile | undefined;
	try {
		file = new OpenFile(path, true);
		const { size, modified } = file;
		return { bytes: file.read(0, memory && size > large ? headerLimit : size, memory), modified, size };
	} catch (error) {
		throw missing(name, error);
	} finally {
		file?.close();
	}
}

/** The error for a Card that is not there, or is none; every other error as it is, also of a file beside it. */
function missing(file: string, error: unknown): unknown {
	const code = errno(error);
	const { path } = error as NodeJS.ErrnoException;
	if (error instanceof XferError || !path?.endsWith(`/${file}`)) return error;
	if (code === "ENOENT") return new XferError("ECARD", `no Card ${file}`, "xfer board list --all shows them");
	if (!["EFTYPE", "ELOOP", "ENXIO", "ENOTDIR"].includes(code ?? "")) return error;
	return new XferError("ECARD", `${file} is no Card: not a regular file`, "it is left alone");
}

function held(file: string, holder: Claim): XferError {
	const until = new Date(holder.until).toISOString();
	return new XferError("EHELD", `${stem(file)} is claimed by ${holderWords(holder)} until ${until}`, "take another, or wait");
}

function over({ file, removed, last }: OpenCard): XferError {
	const word = shellWord(stem(file));
	const cure = removed ? `xfer board rm ${word} --undo` : `to open it again: xfer board add ${word} "…"`;
	return new XferError("EHELD", `${stem(file)} is ${removed ? "removed" : "done"}, says ${last.author}`, cure);
}

function bytesOf(text: Uint8Array | string, context: Context): Buffer {
	const bytes = Buffer.from(text as string);
	if (bytes.length <= context.maxBytes) return bytes;
	throw new XferError(
		"ESIZE",
		`the text is ${bytes.length} bytes, the limit is ${context.maxBytes}`,
		"write it to a file and name that, or raise XFER_MAX_BYTES",
	);
}

function oneLine(text: string): string {
	return text
		.split(/\s*[\r\n]+\s*/)
		.join(" ")
		.trim();
}

function kindOf(path: string): string {
	const stat = lstatSync(path, { throwIfNoEntry: false });
	if (!stat) return "gone";
	if (stat.isDirectory()) return "a directory";
	if (stat.isSymbolicLink()) return "a symlink";
	return stat.isFIFO() ? "a FIFO" : stat.isSocket() ? "a socket" : "a device";
}

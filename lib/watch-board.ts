import { lstatSync } from "node:fs";
import type { Board, OpenCard } from "./board.ts";
import { isCardName } from "./board.ts";
import type { Entry } from "./card.ts";
import { XferError } from "./errors.ts";
import { Stream } from "./watch.ts";

/** An Entry that came to be on the Board. */
export interface NewEntryOnCard {
	readonly card: OpenCard;
	readonly entry: Entry;
}

/** ms between two looks at everything, because events get lost. */
const sweepEvery = 5000;
/** ms after which an Entry without a closing line is taken as it is: who writes it in an editor may never close it. */
const patience = 1000;

/**
 * Each Entry as it appears on the Board, whoever wrote it and however: the CLI, `>>`, an editor, git. What is there at the start is not yielded.
 * @param file only this Card's
 */
export async function* watchBoard(
	board: Board,
	options: { file?: string | undefined; signal?: AbortSignal | undefined; persistent?: boolean | undefined } = {},
): AsyncGenerator<NewEntryOnCard, void, undefined> {
	if (options.signal?.aborted) return;
	const stream = new Stream<NewEntryOnCard>(options.signal);
	const { watch } = await import("chokidar");
	const persistent = options.persistent ?? false;
	/** Ids of the Entries that have been seen, of each Card. */
	const seen = new Map<string, Set<string>>();
	const waiting = new Map<string, NodeJS.Timeout>();
	let closed = false;

	const look = async (file: string, tell: boolean) => {
		try {
			const card = await board.read(file);
			const known = seen.get(file) ?? new Set();
			seen.set(file, known);
			for (const entry of card.entries) {
				if (known.has(entry.id)) continue;
				if (tell && entry.is("torn") && entry === card.entries.at(-1) && isYoung(card)) {
					later(file);
					continue;
				}
				known.add(entry.id);
				if (tell) stream.push({ card, entry });
			}
		} catch (error) {
			if (error instanceof XferError && error.code === "ECARD") seen.delete(file); // removed, or no Card
			// else it can't be read just now: the next look tries again
		}
	};
	/** What is torn may be whole soon; and its id, made of its bytes, another one. */
	const later = (file: string) => {
		if (waiting.has(file) || closed) return;
		const timer = setTimeout(() => {
			waiting.delete(file);
			enqueue(file);
		}, patience / 4);
		if (!persistent) timer.unref();
		waiting.set(file, timer);
	};
	const isYoung = (card: OpenCard) => Math.abs(board.context.now() - card.modified) < patience;

	// One look after the other: two at once would tell of an Entry twice.
	let queue = Promise.resolve();
	const queued = new Set<string>();
	const enqueue = (file: string) => {
		if (queued.has(file) || closed || (options.file !== undefined && file !== options.file)) return;
		queued.add(file);
		queue = queue.then(async () => {
			queued.delete(file);
			if (!closed) await look(file, true);
		});
	};
	/** What a Card's file looked like at the last sweep. */
	const looks = new Map<string, string>();
	const sweep = () => {
		try {
			for (const file of board.files()) {
				const stat = lstatSync(`${board.directory}/${file}`, { throwIfNoEntry: false });
				const look = `${stat?.ino} ${stat?.size} ${stat?.mtimeMs}`;
				if (look !== looks.get(file)) enqueue(file);
				looks.set(file, look);
			}
		} catch {
			// the Board can't be listed just now: the next sweep tries again
		}
	};

	const watcher = watch(board.directory, {
		depth: 0,
		ignoreInitial: true,
		persistent,
		ignored: (path) => path.includes("/.locks") || path.includes("/.git/"),
	});
	watcher.on("all", (_, path) => {
		const file = path.slice(path.lastIndexOf("/") + 1);
		if (isCardName(file)) enqueue(file);
	});
	watcher.on("error", () => {}); // no events here: the sweep looks all the same
	const timer = setInterval(sweep, sweepEvery);
	if (!persistent) timer.unref();
	// After the watcher was started: nothing falls between the two.
	for (const file of board.files()) if (options.file === undefined || file === options.file) await look(file, false);
	yield* stream.read(() => {
		closed = true;
		clearInterval(timer);
		for (const each of waiting.values()) clearTimeout(each);
		void watcher.close();
	});
}

import { lstatSync } from "node:fs";
import { basename, relative } from "node:path";
import { Stream, type WatchOptions } from "../watch.ts";
import type { Board, OpenCard } from "./board.ts";
import type { Entry } from "./card.ts";
import { isCardName } from "./card-file.ts";

/** An Entry that came to be on the Board. */
export interface Arrival {
	readonly card: OpenCard;
	readonly entry: Entry;
}

/** ms between two looks at everything, because events get lost. */
const sweepEvery = 5000;
/** ms after which an Entry without a closing line is taken as it is: who writes it in an editor may never close it. */
const patience = 1000;

/**
 * Each Entry as it appears on the Board, whoever wrote it and however: the CLI, `>>`, an editor, git. What is there at the start is not yielded.
 * @param options `file`: only this Card's
 */
export async function* watchBoard(
	board: Board,
	options: Pick<WatchOptions, "signal" | "persistent"> & { readonly file?: string | undefined } = {},
): AsyncGenerator<Arrival, void, undefined> {
	if (options.signal?.aborted) return;
	const stream = new Stream<Arrival>(options.signal);
	const watcher = new BoardWatcher(board, (arrival) => stream.push(arrival), options.file);
	try {
		await watcher.start(options.persistent ?? false);
		yield* stream.read(() => {});
	} finally {
		watcher.close();
	}
}

class BoardWatcher {
	readonly #board: Board;
	readonly #tell: (arrival: Arrival) => void;
	readonly #file: string | undefined;
	/** Ids of the Entries that have been seen, of each Card; also of one that went: what comes back is not new. */
	readonly #seen = new Map<string, Set<string>>();
	/** What each Card's file looked like at the last sweep. */
	readonly #looks = new Map<string, string>();
	readonly #later = new Map<string, NodeJS.Timeout>();
	readonly #queued = new Set<string>();
	#queue = Promise.resolve();
	#sweep: NodeJS.Timeout | undefined;
	#stop: () => void = () => {};
	#closed = false;

	constructor(board: Board, tell: (arrival: Arrival) => void, file: string | undefined) {
		this.#board = board;
		this.#tell = tell;
		this.#file = file;
	}

	async start(persistent: boolean): Promise<void> {
		const { watch } = await import("chokidar");
		const { directory } = this.#board;
		const isHidden = (path: string) => /^\.(?:locks|git)\b/.test(relative(directory, path));
		const watcher = watch(directory, { depth: 0, ignoreInitial: true, persistent, ignored: isHidden });
		this.#stop = () => void watcher.close();
		watcher.on("all", (_, path) => this.#enqueue(basename(path)));
		watcher.on("error", () => {}); // no events here: the sweep looks all the same
		this.#sweep = setInterval(() => this.#lookForChanges(), sweepEvery);
		if (!persistent) this.#sweep.unref();
		// After the watcher was started: nothing falls between the two.
		for (const file of this.#board.files()) if (this.#isWanted(file)) await this.#look(file, false);
	}

	close(): void {
		this.#closed = true;
		clearInterval(this.#sweep);
		for (const timer of this.#later.values()) clearTimeout(timer);
		this.#stop();
	}

	#isWanted(file: string): boolean {
		return isCardName(file) && (this.#file === undefined || file === this.#file);
	}

	#lookForChanges(): void {
		try {
			for (const file of this.#board.files()) {
				const stat = lstatSync(`${this.#board.directory}/${file}`, { throwIfNoEntry: false });
				const look = `${stat?.ino} ${stat?.size} ${stat?.mtimeMs}`;
				if (look !== this.#looks.get(file)) this.#enqueue(file);
				this.#looks.set(file, look);
			}
		} catch {
			// the Board can't be listed just now: the next sweep tries again
		}
	}

	/** One look after the other: two at once would tell of an Entry twice. */
	#enqueue(file: string): void {
		if (this.#closed || this.#queued.has(file) || !this.#isWanted(file)) return;
		this.#queued.add(file);
		this.#queue = this.#queue.then(async () => {
			this.#queued.delete(file);
			if (!this.#closed) await this.#look(file, true);
		});
	}

	async #look(file: string, tell: boolean): Promise<void> {
		let card: OpenCard;
		try {
			card = await this.#board.read(file);
		} catch {
			return; // it has gone, or can't be read just now: the next look tries again
		}
		const known = this.#seen.get(file) ?? new Set();
		this.#seen.set(file, known);
		const young = Math.abs(this.#board.context.now() - card.modified) < patience;
		for (const entry of card.entries) {
			if (known.has(entry.id)) continue;
			// What is torn may be whole soon, and until then its id may be made of a half of it.
			if (tell && young && entry.is("torn") && entry === card.entries.at(-1)) this.#lookLater(file);
			else {
				known.add(entry.id);
				if (!tell) continue;
				this.#tell({ card, entry });
				this.#lookLater(file); // chokidar tells of one of several changes within 50 ms
			}
		}
	}

	#lookLater(file: string): void {
		if (this.#later.has(file) || this.#closed) return;
		const timer = setTimeout(() => {
			this.#later.delete(file);
			this.#enqueue(file);
		}, patience / 4);
		this.#later.set(file, timer);
	}
}

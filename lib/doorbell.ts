import { type FSWatcher, statSync, watch } from "node:fs";
import { basename } from "node:path";
import { errno } from "./errors.ts";

export interface DoorbellOptions {
	/** Keep the process alive; no unless set. */
	readonly persistent?: boolean | undefined;
	/** Called when the system gives no file events for a directory, with the reason: from then on it is looked at every second. */
	readonly onPolling?: ((directory: string, reason: string) => void) | undefined;
}

/** ms between two looks at a directory that gives events, and at one that gives none. */
const sweepEvery = 5000;
const pollEvery = 1000;

/**
 * Rings when something may have changed in a directory: with a name at once for each event, and without one from time to time, because events get lost.
 * What is there is decided by listing it (protocol 6). A directory that is removed and made again is watched again.
 */
export class Doorbell {
	readonly #directory: string;
	readonly #ring: (name: string | undefined) => void;
	readonly #options: DoorbellOptions;
	#watcher: FSWatcher | undefined;
	#inode: number | undefined;
	#timer: NodeJS.Timeout | undefined;
	#told = false;

	constructor(directory: string, ring: (name: string | undefined) => void, options: DoorbellOptions = {}) {
		this.#directory = directory;
		this.#ring = ring;
		this.#options = options;
		this.#watch();
		this.#schedule();
	}

	close(): void {
		clearTimeout(this.#timer);
		this.#timer = undefined;
		this.#watcher?.close();
		this.#watcher = undefined;
	}

	#watch(): void {
		try {
			this.#watcher = watch(this.#directory, { persistent: this.#options.persistent ?? false }, (event, name) => {
				// Content is never changed in place here, so only names matter. The directory's own name: it was moved or removed.
				if (event === "rename" && name !== basename(this.#directory)) this.#ring(name ?? undefined);
				else if (event === "rename") this.#again();
			});
			this.#watcher.on("error", () => this.#again());
			this.#inode = inode(this.#directory);
		} catch (error) {
			this.#watcher = undefined;
			const code = errno(error) ?? String(error);
			if (this.#told || code === "ENOENT") return; // not there (yet): each look tries again
			this.#told = true;
			const reason = code === "ENOSPC" || code === "EMFILE" ? `${code}: no inotify watches left` : code;
			this.#options.onPolling?.(this.#directory, reason);
		}
	}

	#again(): void {
		this.#watcher?.close();
		this.#watcher = undefined;
		this.#watch();
		this.#schedule(); // at once at the other pace
		this.#ring(undefined);
	}

	#schedule(): void {
		clearTimeout(this.#timer);
		this.#timer = setTimeout(
			() => {
				this.#schedule();
				if (!this.#watcher || inode(this.#directory) !== this.#inode) this.#again();
				else this.#ring(undefined);
			},
			this.#watcher ? sweepEvery : pollEvery,
		);
		if (!this.#options.persistent) this.#timer.unref();
	}
}

function inode(directory: string): number | undefined {
	return statSync(directory, { throwIfNoEntry: false })?.ino;
}

import { type FSWatcher, statfsSync, statSync, watch } from "node:fs";
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
	#poll = false;
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
		this.#poll = false;
		try {
			this.#watcher = watch(this.#directory, { persistent: this.#options.persistent ?? false }, (event, name) => {
				// Content is never changed in place here, so only names matter. The directory's own name: it was moved or removed.
				if (event === "rename" && name !== basename(this.#directory)) this.#ring(name ?? undefined);
				else if (event === "rename") this.#again();
			});
			this.#watcher.on("error", () => this.#again());
			this.#inode = inode(this.#directory);
			if (isSilent(this.#directory)) this.#tellPolling("a filesystem that others may write to unseen");
		} catch (error) {
			this.#watcher = undefined;
			const code = errno(error) ?? String(error);
			if (code === "ENOENT") return; // not there (yet): each look tries again
			this.#tellPolling(code === "ENOSPC" || code === "EMFILE" ? `${code}: no inotify watches left` : code);
		}
	}

	#tellPolling(reason: string): void {
		this.#poll = true;
		if (!this.#told) this.#options.onPolling?.(this.#directory, reason);
		this.#told = true;
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
			this.#watcher && !this.#poll ? sweepEvery : pollEvery,
		);
		if (!this.#options.persistent) this.#timer.unref();
	}
}

function inode(directory: string): number | undefined {
	try {
		return statSync(directory).ino;
	} catch {
		return undefined; // not there, or forbidden: each look tries again
	}
}

/** Filesystems on which other hosts' changes ring no bell here: NFS, SMB, 9p, and FUSE, which may be one of them. */
const silent = new Set([0x6969, 0x517b, 0xff534d42, 0xfe534d42, 0x01021997, 0x65735546]);

function isSilent(directory: string): boolean {
	return process.platform === "linux" && silent.has(statfsSync(directory).type);
}

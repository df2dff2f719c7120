import { Doorbell, type DoorbellOptions } from "./doorbell.ts";
import { errno } from "./errors.ts";
import type { Dir, State } from "./filename.ts";
import { stateOf } from "./filename.ts";
import { isFile } from "./files.ts";
import type { Maildir, Message } from "./maildir.ts";
import type { Tree } from "./tree.ts";

export interface WatchOptions extends DoorbellOptions {
	/** Ends the iteration when aborted. */
	readonly signal?: AbortSignal | undefined;
	/** Yield what is there already too; yes unless false. */
	readonly waiting?: boolean | undefined;
}

/** Something that came to be in a tree: a Handoff arrived, or its name changed. */
export interface Change {
	/** The Node in whose Inbox it is. */
	readonly node: string;
	readonly state: State;
	readonly message: Message;
}

/** A stream that others push into: an async iterator that ends when its signal is aborted, and cleans up after itself. */
class Stream<T> {
	readonly #arrived: T[] = [];
	readonly #signal: AbortSignal | undefined;
	#wake = () => {};
	#error: unknown;

	constructor(signal: AbortSignal | undefined) {
		this.#signal = signal;
	}

	push(value: T): void {
		this.#arrived.push(value);
		this.#wake();
	}

	fail(error: unknown): void {
		this.#error ??= error;
		this.#wake();
	}

	async *read(close: () => void): AsyncGenerator<T, void, undefined> {
		const stop = () => this.#wake();
		this.#signal?.addEventListener("abort", stop);
		try {
			for (;;) {
				for (const value of this.#arrived.splice(0)) {
					if (this.#signal?.aborted) return;
					yield value;
				}
				if (this.#error !== undefined) throw this.#error;
				if (this.#signal?.aborted) return;
				if (this.#arrived.length > 0) continue;
				await new Promise<void>((resolve) => {
					this.#wake = resolve;
				});
			}
		} finally {
			this.#signal?.removeEventListener("abort", stop);
			close();
		}
	}
}

/** Each message that comes into one directory of a maildir, as it comes, from the first `next()` on. A look: nothing is taken. */
export async function* watchMaildir(maildir: Maildir, dir: Dir, options: WatchOptions = {}): AsyncGenerator<Message, void, undefined> {
	if (options.signal?.aborted) return;
	const stream = new Stream<Message>(options.signal);
	const watcher = new DirectoryWatcher(maildir, dir, (message) => stream.push(message), options);
	yield* stream.read(() => watcher.close());
}

/**
 * Each change in all Inboxes of a tree, also of Nodes that are made meanwhile. A look: nothing is taken.
 * What is there at the start is not yielded.
 */
export async function* watchTree(tree: Tree, options: Omit<WatchOptions, "waiting"> = {}): AsyncGenerator<Change, void, undefined> {
	if (options.signal?.aborted) return;
	const stream = new Stream<Change>(options.signal);
	const watchers = new Map<string, DirectoryWatcher[]>();
	const look = (waiting: boolean) => {
		for (const name of tree.names()) {
			if (watchers.has(name)) continue;
			const { maildir } = tree.node(name).inbox;
			const tell = (message: Message) => stream.push({ node: name, state: stateOf(message.dir, message), message });
			watchers.set(
				name,
				(["new", "cur"] as const).map((dir) => new DirectoryWatcher(maildir, dir, tell, { ...options, waiting })),
			);
		}
	};
	const { watch } = await import("chokidar");
	const nodes = watch(`${tree.context.root}/nodes`, { depth: 0, ignoreInitial: true, persistent: options.persistent ?? false });
	const again = () => {
		try {
			look(true);
		} catch (error) {
			stream.fail(error);
		}
	};
	nodes.on("all", again);
	nodes.on("error", () => {}); // no events here: the timer looks all the same
	const timer = setInterval(again, 5000);
	if (!options.persistent) timer.unref();
	look(false);
	yield* stream.read(() => {
		clearInterval(timer);
		void nodes.close();
		for (const pair of watchers.values()) for (const watcher of pair) watcher.close();
	});
}

/** Tells of each file that comes into a directory: at once when an event names it, else at the next look. */
class DirectoryWatcher {
	readonly #maildir: Maildir;
	readonly #dir: Dir;
	readonly #tell: (message: Message) => void;
	readonly #bell: Doorbell;
	#seen = new Set<string>();

	constructor(maildir: Maildir, dir: Dir, tell: (message: Message) => void, options: WatchOptions) {
		this.#maildir = maildir;
		this.#dir = dir;
		this.#tell = tell;
		this.#bell = new Doorbell(`${maildir.path}/${dir}`, (name) => this.#ring(name), options);
		this.#list(options.waiting ?? true); // after the watcher was started: nothing falls between the two
	}

	close(): void {
		this.#bell.close();
	}

	#ring(name: string | undefined): void {
		if (name === undefined) {
			try {
				this.#list(true);
			} catch (error) {
				if (errno(error) === undefined) throw error; // else it can't be read just now: the next look tries again
			}
		} else if (!isFile(`${this.#maildir.path}/${this.#dir}/${name}`)) this.#seen.delete(name);
		else if (!name.startsWith(".") && !this.#seen.has(name)) this.#push(name);
	}

	#list(tell: boolean): void {
		const names = this.#maildir.names(this.#dir);
		for (const name of names) if (tell && !this.#seen.has(name)) this.#push(name);
		this.#seen = new Set(names); // forgets what has left
	}

	#push(name: string): void {
		this.#seen.add(name);
		this.#tell(this.#maildir.message(this.#dir, name));
	}
}

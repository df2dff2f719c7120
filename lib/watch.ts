import { lstatSync } from "node:fs";
import { Doorbell, type DoorbellOptions } from "./doorbell.ts";
import { errno } from "./errors.ts";
import type { Dir, State } from "./filename.ts";
import { stateOf } from "./filename.ts";
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
export class Stream<T> {
	readonly #arrived: T[] = [];
	readonly #signal: AbortSignal | undefined;
	#wake = () => {};

	constructor(signal: AbortSignal | undefined) {
		this.#signal = signal;
	}

	push(value: T): void {
		this.#arrived.push(value);
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
	const close = (name: string) => {
		for (const watcher of watchers.get(name) ?? []) watcher.close();
		watchers.delete(name);
	};
	const look = (waiting: boolean) => {
		try {
			const names = new Set(tree.names());
			for (const name of watchers.keys()) if (!names.has(name)) close(name);
			for (const name of names) if (!watchers.has(name)) watchNode(name, waiting);
		} catch {
			// nodes/ can't be listed just now: the next look tries again
		}
	};
	const watchNode = (name: string, waiting: boolean) => {
		try {
			const { maildir } = tree.node(name).inbox;
			const tell = (message: Message) => stream.push({ node: name, state: stateOf(message.dir, message), message });
			const pair: DirectoryWatcher[] = [];
			watchers.set(name, pair);
			for (const dir of ["new", "cur"] as const) pair.push(new DirectoryWatcher(maildir, dir, tell, { ...options, waiting }));
		} catch {
			close(name); // it can't be entered, or has left: it hides no other, and the next look tries again
		}
	};
	const { watch } = await import("chokidar");
	const nodes = watch(`${tree.context.root}/nodes`, { depth: 0, ignoreInitial: true, persistent: options.persistent ?? false });
	nodes.on("all", () => look(true));
	nodes.on("error", () => {}); // no events here: the timer looks all the same
	const timer = setInterval(() => look(true), 5000);
	if (!options.persistent) timer.unref();
	look(false);
	yield* stream.read(() => {
		clearInterval(timer);
		void nodes.close();
		for (const name of [...watchers.keys()]) close(name);
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
		try {
			this.#list(options.waiting ?? true); // after the watcher was started: nothing falls between the two
		} catch (error) {
			this.#bell.close();
			throw error;
		}
	}

	close(): void {
		this.#bell.close();
	}

	#ring(name: string | undefined): void {
		try {
			if (name === undefined) this.#list(true);
			else if (!name.startsWith(".")) this.#look(name);
		} catch (error) {
			if (errno(error) === undefined) throw error; // else it can't be read just now: the next look tries again
		}
	}

	#look(name: string): void {
		const there = lstatSync(`${this.#maildir.path}/${this.#dir}/${name}`, { throwIfNoEntry: false });
		if (there && !there.isFile()) return; // no Handoff
		const known = this.#seen.has(name);
		if (!known)
			this.#push(name); // also when it has left again: that event is still to come, and makes it unknown
		else if (!there) this.#seen.delete(name);
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

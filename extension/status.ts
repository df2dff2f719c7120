import type { Presence } from "../lib/presence.ts";
import type { Live } from "../lib/tree.ts";

/** ms between two writes of `node.md`. */
const pace = 200;

/** What the Node says of itself, written at most five times a second and never in the way of a turn. */
export class Status {
	readonly #live: () => Live | undefined;
	#change: Presence = {};
	#said = new Map<string, unknown>();
	#timer: NodeJS.Timeout | undefined;
	#last = Number.NEGATIVE_INFINITY;
	#writing: Promise<void> | undefined;

	/** @param live the Node as it is just then: it has another name after its lock was lost */
	constructor(live: () => Live | undefined) {
		this.#live = live;
	}

	/** Says something new of the Node; what is not named stays. */
	set(change: Presence): void {
		const news = Object.entries(change).filter(([key, value]) => this.#said.get(key) !== value);
		if (news.length === 0) return;
		for (const [key, value] of news) this.#said.set(key, value);
		this.#change = { ...this.#change, ...Object.fromEntries(news) };
		this.#schedule();
	}

	/** Writes what was said before there was a Node to say it of. */
	resume(): void {
		if (Object.keys(this.#change).length > 0) this.#schedule();
	}

	close(): void {
		clearTimeout(this.#timer);
		this.#change = {};
	}

	#schedule(): void {
		if (this.#timer || this.#writing) return;
		this.#timer = setTimeout(
			() => {
				this.#timer = undefined;
				this.#write();
			},
			Math.max(0, this.#last + pace - performance.now()),
		);
		this.#timer.unref();
	}

	#write(): void {
		const live = this.#live();
		if (!live) return;
		const change = { ...this.#change, ...(this.#change.status !== undefined && { since: new Date().toISOString() }) };
		this.#change = {};
		this.#last = performance.now();
		this.#writing = live
			.publish(change)
			.catch(() => {}) // a full disk, a tree that can only be read: the next change tries again, and no turn waits for it
			.finally(() => {
				this.#writing = undefined;
				if (Object.keys(this.#change).length > 0) this.#schedule();
			});
	}
}

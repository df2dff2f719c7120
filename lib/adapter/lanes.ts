import { compare } from "../filename.ts";
import type { Message } from "../maildir.ts";

/** A Handoff that waits for its turn, or has it. */
export interface Waiting {
	readonly id: string;
	readonly from: string;
	/** Its file as it was seen last. */
	message: Message;
	/** How often it was tried since this process began. */
	tries: number;
}

interface Lane {
	/** In order; the first one may have its turn. */
	readonly waiting: Waiting[];
	busy: boolean;
	/** When its first may be tried, in ms of whichever clock. */
	from: number;
}

/** Handoffs in order of each sender: a sender's next one has its turn when the one before has ended, while other senders' go on. */
export class Lanes {
	readonly #lanes = new Map<string, Lane>();
	readonly #known = new Map<string, Waiting>();

	/** How many there are, those that have their turn too. */
	get size(): number {
		return this.#known.size;
	}

	/** Whether it is here; if so, its file is this one from now on. */
	knows(message: Message): boolean {
		const known = this.#known.get(message.id);
		if (known) known.message = message;
		return known !== undefined;
	}

	add(message: Message, from: string): void {
		const entry: Waiting = { id: message.id, from, message, tries: 0 };
		this.#known.set(entry.id, entry);
		const lane = this.#lanes.get(from);
		if (!lane) {
			this.#lanes.set(from, { waiting: [entry], busy: false, from: Number.NEGATIVE_INFINITY });
			return;
		}
		// Nearly always behind the last one; never before one that has its turn.
		const { waiting } = lane;
		let at = waiting.length;
		const first = lane.busy ? 1 : 0;
		while (at > first && compare((waiting[at - 1] as Waiting).id, entry.id) > 0) at--;
		if (at === 0) lane.from = Number.NEGATIVE_INFINITY;
		waiting.splice(at, 0, entry);
	}

	/** Gives the oldest that may have its turn now its turn. */
	next(now: number): Waiting | undefined {
		let oldest: { lane: Lane; entry: Waiting } | undefined;
		for (const lane of this.#lanes.values()) {
			const [entry] = lane.waiting;
			if (lane.busy || !entry || lane.from > now) continue;
			if (!oldest || compare(entry.id, oldest.entry.id) < 0) oldest = { lane, entry };
		}
		if (oldest) oldest.lane.busy = true;
		return oldest?.entry;
	}

	/** When the first of those that wait for a time may be tried; infinite when none does. */
	wakeAt(): number {
		let first = Number.POSITIVE_INFINITY;
		for (const lane of this.#lanes.values()) if (!lane.busy) first = Math.min(first, lane.from);
		return first;
	}

	/** Its turn has ended, and it has. */
	done(entry: Waiting): void {
		const lane = this.#lanes.get(entry.from) as Lane;
		lane.waiting.shift();
		lane.busy = false;
		lane.from = Number.NEGATIVE_INFINITY;
		this.#known.delete(entry.id);
		if (lane.waiting.length === 0) this.#lanes.delete(entry.from);
	}

	/** Its turn has ended; it stays the first of its sender, and is tried again from then on. */
	again(entry: Waiting, from: number): void {
		const lane = this.#lanes.get(entry.from) as Lane;
		lane.busy = false;
		lane.from = from;
	}
}

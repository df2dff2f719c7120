import type { Context } from "./context.ts";
import { XferError } from "./errors.ts";
import { attemptsOf, shortId } from "./filename.ts";
import { isFile } from "./files.ts";
import type { Handoff } from "./handoff.ts";
import type { Maildir, Message } from "./maildir.ts";

/** A Handoff in hand: until the lease ends, nobody else gets it. Every method throws ELOST once it did. */
export interface Taken {
	readonly handoff: Handoff;
	/** The body. Of one over the size limit, which is taken only when it is asked for, nothing: see `file`. */
	readonly body: Buffer;
	readonly attempts: number;
	/** Path of the file; a renewal changes it. */
	readonly file: string;
	/** It reached its reader: read, and answered if `replied`. */
	done(replied?: boolean): void;
	/** It can't be done: failed, and its sender gets a report with the reason. */
	fail(reason: string): void;
	/** Back to the Inbox for another try. */
	release(): void;
	/** A new lease. */
	renew(): void;
}

/** Tells the sender of a Handoff why it failed. */
export type Bounce = (handoff: Handoff, reason: string) => void;

/** What its taker can do with a message that was just taken. */
export function hold(context: Context, maildir: Maildir, message: Message, handoff: Handoff, body: Buffer, bounce: Bounce): Taken {
	let now = message;
	let ended = false;
	/** What is in this hand, under whatever name: a mail reader may add a flag at any time. Not what was returned and taken anew. */
	const mine = (): Message | undefined => {
		const same = maildir.inHand(message.id, context.instance);
		return same && attemptsOf(same) === attemptsOf(message) ? same : undefined;
	};
	const step = (rename: (message: Message) => Message | undefined, end = true) => {
		let from: Message | undefined = ended ? undefined : now;
		let next: Message | undefined;
		// Each try that fails is a rename by somebody else in between.
		for (let tries = 0; from && !next && tries < 10; tries++) {
			next = rename(from);
			if (!next) from = mine();
		}
		if (!next) throw lost(message.id);
		now = next;
		ended = end;
	};
	return {
		handoff,
		body,
		attempts: attemptsOf(message),
		get file() {
			const file = maildir.file(now);
			return ended || isFile(file) ? file : maildir.file(mine() ?? now);
		},
		done: (replied = false) => step((from) => maildir.done(from, replied)),
		release: () => step((from) => maildir.release(from)),
		renew: () => step((from) => maildir.renew(from), false),
		fail: (reason) => {
			step((from) => maildir.end(from, "failed"));
			bounce(handoff, reason);
		},
	};
}

/** A lease that has ended: what was in hand is, or was, somebody else's. */
export function lost(id: string): XferError {
	return new XferError(
		"ELOST",
		`${shortId(id)} is not in hand any more: its lease has ended`,
		"it is, or was, somebody else's: do nothing more about it",
	);
}

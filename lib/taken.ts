import type { Context } from "./context.ts";
import { XferError } from "./errors.ts";
import { attemptsOf, shortId } from "./filename.ts";
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
	const step = (rename: (message: Message) => Message | undefined, end = true) => {
		let next = ended ? undefined : rename(now);
		if (!next && !ended) {
			// Somebody may have added a flag: it is ours as long as our instance stands in the name, and it has not been returned meanwhile.
			const same = maildir.inHand(message.id, context.instance);
			next = same && attemptsOf(same) === attemptsOf(message) ? rename(same) : undefined;
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
			return maildir.file(now);
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

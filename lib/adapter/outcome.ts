import { formatDuration } from "../duration.ts";
import type { Handoff } from "../handoff.ts";
import { type Outgoing, threadOf } from "../send.ts";
import type { Ended } from "./handler.ts";
import { doneSubject } from "./unfinished.ts";

/** What a program says that wants to be tried again (EX_TEMPFAIL of sysexits.h). */
const tryAgain = 75;

/** How a handler ended, in words. `limit` in ms. */
export function howItEnded({ how, code, signal, error }: Ended, limit: number): string {
	if (how === "unstarted") return `could not be started: ${error}`;
	if (how === "limit") return `did not end within ${formatDuration(limit)}`;
	return signal === undefined ? `exit code ${code}` : `ended by ${signal}`;
}

/** Whether another try may help: 75, a signal, also as a shell tells of one (128 and its number), the limit, no start. */
export function isTemporary({ how, code, signal }: Ended): boolean {
	return how !== "itself" || signal !== undefined || code === tryAgain || (code !== undefined && code > 128 && code < 160);
}

/** What a handler printed, for who asked: an answer to a question, a report on a task. What is over the limit, in bytes, is cut at its end. */
export function answerTo(handoff: Handoff, { stdout, size }: Ended, limit: number): Omit<Outgoing, "from"> {
	const note = Buffer.from(`\n[cut: it has ${size} bytes, the limit is ${limit}]\n`);
	const question = handoff.kind === "question";
	return {
		to: [handoff.from],
		kind: question ? "answer" : "report",
		subject: question ? undefined : doneSubject(handoff),
		body: size > stdout.length ? Buffer.concat([stdout.subarray(0, Math.max(0, limit - note.length)), note]) : stdout,
		re: handoff.id,
		thread: threadOf(handoff),
		hops: handoff.hops + 1,
	};
}

import { statSync } from "node:fs";
import { Doorbell, type DoorbellOptions } from "./doorbell.ts";
import { XferError } from "./errors.ts";
import { idOf, type State, timeOf } from "./filename.ts";
import type { Listed } from "./inbox.ts";
import type { Node } from "./tree.ts";

/** How a Handoff ended for who waited for its reply. */
export interface Ending {
	/** The reply, or the report of a failure. */
	readonly reply: Listed | undefined;
	/** Where the Handoff itself stands. */
	readonly state: State | "gone" | "unknown";
}

/** States after which no reply will come. */
const hopeless = new Set<string>(["failed", "recalled", "expired", "replaced", "unreadable", "gone"]);
/** ms after a failure in which its report arrives, unless whoever failed it died in between. */
const reportsWithin = 2000;
/** ms by which two clocks that write ids may differ. */
const skew = 5 * 60 * 1000;

/**
 * Waits for the reply to what a Node sent. It is found wherever it lies: also when the Node's live instance took it first.
 * @returns undefined once the signal is aborted
 * @throws the system's error when the Inbox can't be listed
 */
export async function waitForReply(
	node: Node,
	id: string,
	signal: AbortSignal,
	options: DoorbellOptions = {},
): Promise<Ending | undefined> {
	const from = (timeOf(id) ?? 0) - skew;
	const examined = new Set<string>();
	const { maildir } = node.inbox;
	const find = (): Listed | undefined => {
		for (const dir of ["new", "cur"] as const) {
			const names = maildir.names(dir, (name) => !examined.has(idOf(name)) && (timeOf(idOf(name)) ?? from) >= from);
			for (const name of names) {
				const found = node.inbox.look(maildir.message(dir, name));
				if (found?.re === id) return found;
				if (found) examined.add(found.id); // else it moved: the other listing, or the next, has it
			}
		}
		return undefined;
	};
	const recipient = node.sent.inboxOf(id);
	let wake = () => {};
	let deadline: number | undefined;
	let rung = false;
	const ring = () => {
		rung = true;
		wake();
	};
	const directories = [`${maildir.path}/new`, `${maildir.path}/cur`, ...(recipient ? [`${recipient}/cur`] : [])];
	const bells = directories.map((directory) => new Doorbell(directory, ring, options));
	signal.addEventListener("abort", ring);
	try {
		for (;;) {
			rung = false;
			if (signal.aborted) return undefined;
			if (!statSync(node.directory, { throwIfNoEntry: false }))
				throw new XferError("ENODE", `${node.name} has left: no reply can reach it`);
			const reply = find();
			const state = node.sent.standings([id])[0]?.state ?? "unknown"; // without its pointer nobody can tell: the reply will
			// A failure is marked before it is reported: the report gets a moment to arrive.
			if (state === "failed" && !reply) deadline ??= performance.now() + reportsWithin;
			const late = deadline === undefined || performance.now() >= deadline;
			if (reply || (hopeless.has(state) && late)) return { reply, state };
			if (rung) continue;
			await new Promise<void>((resolve) => {
				const timer = deadline === undefined ? undefined : setTimeout(resolve, 50);
				wake = () => {
					clearTimeout(timer);
					resolve();
				};
			});
		}
	} finally {
		signal.removeEventListener("abort", ring);
		for (const bell of bells) bell.close();
	}
}

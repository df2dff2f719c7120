import type { Handoff } from "./handoff.ts";

/** ms that work waits for a busy agent's present work to end. */
export const patience = 600_000;
/** Replies since a person or a script last spoke, above which a Handoff wakes nobody. */
export const mostHops = 8;
/** Handoffs a minute from one sender, above which they become a digest. */
export const mostPerMinute = 30;

/** When Handoffs may join an agent's context: nothing runs · a turn of a run has ended · a run would end. */
export type Moment = "idle" | "turn" | "end";

type Facts = Pick<Handoff, "kind" | "priority" | "hops" | "to">;

/** Whether it starts a run, or prolongs one: what is urgent does, notes and what has low priority do not (protocol 15). */
export function wakes({ kind, priority, hops, to }: Facts): boolean {
	if (hops > mostHops || (kind === "note" && to.length > 1)) return false;
	return priority === "urgent" || (kind !== "note" && priority !== "low");
}

/** Whether it asks for work; a Kind that nobody knows does. One injection holds at most one. */
export function isWork({ kind }: Pick<Handoff, "kind">): boolean {
	return kind !== "answer" && kind !== "report" && kind !== "note";
}

/** Whether it has waited for so long that it joins before the present work has ended. */
export function isOverPatience({ date }: Pick<Handoff, "date">, now: number): boolean {
	return now - date >= patience;
}

/** Whether it joins at this moment; at another it waits. */
export function joins(handoff: Facts & Pick<Handoff, "date">, moment: Moment, now: number): boolean {
	const waits = moment === "turn" && isWork(handoff) && wakes(handoff) && handoff.priority !== "urgent";
	return !waits || isOverPatience(handoff, now);
}

/** The senders of whom more than `mostPerMinute` came within a minute. */
export function floods(handoffs: readonly Pick<Handoff, "from" | "date">[]): Set<string> {
	const dates = new Map<string, number[]>();
	for (const { from, date } of handoffs) {
		const some = dates.get(from);
		if (some) some.push(date);
		else dates.set(from, [date]);
	}
	const isFlood = (sorted: readonly number[]) =>
		sorted.some((date, at) => (sorted[at + mostPerMinute] ?? Number.POSITIVE_INFINITY) - date < 60_000);
	return new Set([...dates].flatMap(([from, some]) => (isFlood(some.sort((a, b) => a - b)) ? [from] : [])));
}

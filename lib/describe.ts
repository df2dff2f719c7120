import { formatAge, formatClock } from "./duration.ts";
import type { Standing } from "./sent.ts";
import type { Whereabouts } from "./tree.ts";
import { visible } from "./visible.ts";

/** Where a Node is, in a few words: `live, idle; looks at its next prompt`, `away, last seen 3 h ago`. */
export function describeNode(info: Whereabouts, now: number): string {
	if (!info.live) return info.lastSeen === undefined ? "away, never seen" : `away, last seen ${formatAge(info.lastSeen, now)}`;
	const { status, holding, wake } = info.presence;
	const words = [`live${status ? `, ${visible(status)}` : ""}`];
	if (holding) words.push(`holds mail: ${visible(holding)}`);
	else if (wake === "turn") words.push("looks at its next prompt");
	else if (wake === "none") words.push("nothing wakes it");
	return words.join("; ");
}

/** Why a Handoff stands where it does, in a few words. */
export function describeStanding(standing: Standing, info: Whereabouts | undefined, now: number): string {
	const { to, state, handoff, changed } = standing;
	const at = changed === undefined ? "" : ` ${formatClock(changed, now)}`;
	const away = info && !info.live && info.lastSeen !== undefined ? `; ${to} away since ${formatClock(info.lastSeen, now)}` : "";
	if (state === "queued" && handoff) {
		const waited = `queued ${formatAge(handoff.date, now).replace(" ago", "")}`;
		if (!info?.live) return `${waited}: nobody watches ${to}`;
		const { status, holding } = info.presence;
		if (holding) return `${waited}: ${to} holds mail: ${visible(holding)}`;
		if (!status || status === "idle") return `${waited}: ${to} is ${describeNode(info, now).replace("live, ", "")}`;
		const patience = handoff.date + 600_000;
		const waits = ["task", "question"].includes(handoff.kind) && handoff.priority === undefined && patience > now;
		return `${waited}: ${to} is busy (${visible(status)}), joins ${waits ? `by ${formatClock(patience, now)}` : "at its next turn"}`;
	}
	if (state === "taken")
		return `in the hand of ${to} since${at}${handoff?.lease ? `, until ${formatClock(handoff.lease.end * 1000, now)}` : ""}${away}`;
	if (state === "read") return `read by ${to}${at}, unanswered${away}`;
	if (state === "answered") return `answered by ${to}${at}`;
	if (state === "gone") return `gone: ${to} has cleared it away`;
	return `${state}${at}`;
}

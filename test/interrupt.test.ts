import { describe, expect, test } from "vitest";
import type { Handoff } from "../lib/handoff.ts";
import { floods, isOverPatience, isWork, joins, type Moment, wakes } from "../lib/interrupt.ts";

const noon = Date.parse("2026-11-30T12:00:00.000Z");
const minute = 60_000;
type Facts = Pick<Handoff, "kind" | "priority" | "hops" | "to" | "date">;
const handoff = (kind: string, more: Partial<Facts> = {}): Facts => ({
	kind,
	priority: undefined,
	hops: 0,
	to: ["alice"],
	date: noon,
	...more,
});

describe("Interrupting an agent", () => {
	// For each Kind and priority: whether it wakes, and whether it joins when a turn ends.
	const kinds = ["task", "question", "answer", "report", "note", "strange"] as const;
	const table: readonly [priority: Handoff["priority"], wakes: string[], waits: string[]][] = [
		[undefined, ["task", "question", "answer", "report", "strange"], ["task", "question", "strange"]],
		["normal", ["task", "question", "answer", "report", "strange"], ["task", "question", "strange"]],
		["urgent", [...kinds], []],
		["low", [], []],
	];
	test.each(table)("with priority %s wakes for some Kinds, and makes some wait for the end of the work", (priority, waking, waiting) => {
		expect(kinds.filter((kind) => wakes(handoff(kind, { priority })))).toEqual(waking);
		expect(kinds.filter((kind) => !joins(handoff(kind, { priority }), "turn", noon))).toEqual(waiting);
		for (const moment of ["idle", "end"] satisfies Moment[])
			for (const kind of kinds) expect(joins(handoff(kind, { priority }), moment, noon)).toBe(true);
	});

	test("has an end of its patience after 10 minutes", () => {
		expect([9.9, 10].map((minutes) => joins(handoff("task"), "turn", noon + minutes * minute))).toEqual([false, true]);
		expect(isOverPatience({ date: noon }, noon + 10 * minute)).toBe(true);
	});

	test("is not done above 8 hops, nor by a broadcast, however urgent", () => {
		expect([8, 9].map((hops) => wakes(handoff("task", { hops, priority: "urgent" })))).toEqual([true, false]);
		expect(wakes(handoff("note", { to: ["alice", "bob"], priority: "urgent" }))).toBe(false);
		expect(wakes(handoff("task", { to: ["alice", "bob"] }))).toBe(true);
		expect(joins(handoff("task", { hops: 9 }), "turn", noon)).toBe(true); // it prolongs nothing, so there is nothing to wait for
	});

	test("holds for work at most once: what asks for some", () => {
		expect(kinds.filter((kind) => isWork({ kind }))).toEqual(["task", "question", "strange"]);
	});
});

test("More than 30 within a minute from one sender are a flood, whenever that was", () => {
	const from = (name: string, count: number, apart: number, date = noon) =>
		Array.from({ length: count }, (_, at) => ({ from: name, date: date + at * apart }));
	const all = [...from("bob", 31, 0), ...from("carol", 30, 0), ...from("dave", 100, 2000), ...from("erin", 40, 1900, noon - 60 * minute)];
	expect([...floods(all.reverse())].sort()).toEqual(["bob", "erin"]);
});

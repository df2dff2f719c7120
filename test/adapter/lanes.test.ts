/** The order in which an Adapter Daemon gives Handoffs their turn. */
import { expect, test } from "vitest";
import { Lanes } from "../../lib/adapter/lanes.ts";
import { parseFileName } from "../../lib/filename.ts";
import type { Message } from "../../lib/maildir.ts";

const message = (id: string): Message => ({ dir: "new", name: id, ...parseFileName(id) });

/** Lanes with these, each `sender id`. */
function make(...some: string[]): Lanes {
	const lanes = new Lanes();
	for (const one of some) {
		const [from = "", id = ""] = one.split(" ");
		lanes.add(message(id), from);
	}
	return lanes;
}

test("the oldest of all has its turn first, a sender's next one when the one before has ended", () => {
	const lanes = make("bob 3", "bob 1", "carol 2", "bob 4");
	const first = lanes.next(0);
	expect([first?.id, lanes.next(0)?.id, lanes.next(0)]).toEqual(["1", "2", undefined]);
	if (first) lanes.done(first);
	expect([lanes.next(0)?.id, lanes.next(0), lanes.size]).toEqual(["3", undefined, 3]);
});

test("what is tried again holds up its sender only, until its time", () => {
	const lanes = make("bob 1", "bob 2", "carol 3");
	const first = lanes.next(0);
	if (first) lanes.again(first, 50);
	expect([lanes.next(10)?.id, lanes.next(10), lanes.wakeAt()]).toEqual(["3", undefined, 50]);
	expect(lanes.next(50)?.id).toBe("1");
	if (first) lanes.done(first);
	expect(lanes.next(51)?.id).toBe("2");
});

test("an older one that comes late goes before those that wait, and never before the one that has its turn", () => {
	const lanes = make("bob 5", "bob 7");
	const first = lanes.next(0);
	lanes.add(message("4"), "bob");
	expect([first?.id, lanes.next(0)]).toEqual(["5", undefined]);
	if (first) lanes.done(first);
	expect(lanes.next(0)?.id).toBe("4");
});

test("one id is there once, under the name that was seen last", () => {
	const lanes = make("bob 1");
	expect([lanes.knows(message("1,A=1")), lanes.knows(message("2"))]).toEqual([true, false]);
	expect(lanes.next(0)?.message.name).toBe("1,A=1");
	expect(lanes.size).toBe(1);
});

import type { CustomEntry, EntryRenderer, ExtensionAPI, MessageRenderer, Theme } from "@earendil-works/pi-coding-agent";
import { type Component, visibleWidth } from "@earendil-works/pi-tui";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { registerRenderers, statusLine } from "../../extension/screen.ts";

const theme = {
	fg: (_: string, text: string) => text,
	bg: (_: string, text: string) => text,
	bold: (text: string) => text,
} as unknown as Theme;
const hints = { keyHint: (_: string, what: string) => `ctrl+o ${what}`, keyText: () => "ctrl+o" };
const noon = Date.parse("2026-11-30T12:00:00.000Z");

let drawMessage: MessageRenderer | undefined;
let drawEntry: EntryRenderer | undefined;
registerRenderers({
	registerMessageRenderer: (_: string, renderer: MessageRenderer) => {
		drawMessage = renderer;
	},
	registerEntryRenderer: (_: string, renderer: EntryRenderer) => {
		drawEntry = renderer;
	},
} as unknown as ExtensionAPI);

function message(content: unknown, details: unknown, expanded = false, outputPad = 1): Component | undefined {
	const held = { role: "custom", customType: "xfer", content, details, display: true, timestamp: noon } as Parameters<MessageRenderer>[0];
	return drawMessage?.(held, { expanded, outputPad, ...hints }, theme);
}

function entry(data: unknown): Component | undefined {
	const held: CustomEntry = { type: "custom", customType: "xfer-sent", data, id: "1", parentId: null, timestamp: "" };
	return drawEntry?.(held, { expanded: false, ...hints }, theme);
}

const drawn = (component: Component | undefined, width = 60) => component?.render(width).map((line) => line.trim());

const injected =
	'[xfer] For alice\n\n<handoff id="k3f9q2ab" from="bob">\nIt fails.\n\none\ntwo\nthree\nfour\n</handoff>\nTo answer: xfer_to with re "k3f9q2ab"';
const details = {
	handoffs: [{ id: "1790000000.M000001Rk3f9q2ab.box", from: "bob", kind: "task", subject: "Fix it", date: noon - 600_000 }],
	named: [],
};

describe("The transcript", () => {
	test("says of a Handoff from whom, of what Kind, how old, and how it begins", () => {
		expect(drawn(message(injected, details))).toEqual([
			"✉ bob · task · 10 min ago",
			"Fix it",
			"It fails.",
			"one",
			"two",
			"three",
			"… and 1 more",
			"ctrl+o to expand",
		]);
	});

	test("shows all that the model was given when it is expanded", () => {
		const lines = drawn(message(injected, details, true));
		expect(lines?.slice(0, 2)).toEqual(["✉ bob · task · 10 min ago · k3f9q2ab", "Fix it"]);
		expect(lines).toEqual(expect.arrayContaining(["[xfer] For alice", "four", "</handoff>"]));
	});

	test("says to whom something was sent", () => {
		expect(
			drawn(entry({ to: "bob", id: "1790000000.M000001Rk3f9q2ab.box", kind: "question", subject: "Which port?", from: "alice" })),
		).toEqual(["↗ bob · question · k3f9q2ab · Which port?"]);
	});

	test("is never wider than the terminal, throws nothing and obeys nothing, whatever the session's file holds", () => {
		const text = fc.oneof(
			fc.string({ unit: "binary", maxLength: 300 }),
			fc.constantFrom("日本語\t".repeat(40), "👨‍👩‍👧 \u001b[5A\u001b]0;x\u0007".repeat(20), injected),
		);
		const handoff = fc.record({ id: text, from: text, kind: text, subject: text, date: fc.double() }, { requiredKeys: [] });
		const held = fc.oneof(
			fc.anything(),
			handoff,
			fc.record({ handoffs: fc.oneof(fc.anything(), fc.array(fc.oneof(handoff, fc.anything()))) }),
		);
		const content = fc.oneof(fc.anything(), text, fc.array(fc.record({ type: fc.constant("text"), text })));
		fc.assert(
			fc.property(held, content, fc.boolean(), fc.nat(3), fc.integer({ min: 1, max: 120 }), (data, content, expanded, pad, width) => {
				for (const component of [message(content, data, expanded, pad), entry(data)]) {
					for (const line of component?.render(width) ?? []) {
						expect(visibleWidth(line)).toBeLessThanOrEqual(width);
						expect(line.replaceAll("\u001b[0m", "")).not.toMatch(/\p{Cc}/u); // what pi ends a cut line with
					}
				}
			}),
		);
	});

	test("draws the same lines once", () => {
		const component = message(injected, details);
		expect(component?.render(60)).toBe(component?.render(60));
	});

	test("says in the status who this is and what waits", () => {
		expect(statusLine("alice", 0, undefined)).toBe("✉ alice");
		expect(statusLine("alice", 2, "quiet")).toBe("✉ alice · 2 waiting (quiet)");
	});
});

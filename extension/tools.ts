import type { AgentToolResult, ExtensionAPI } from "@earendil-works/pi-coding-agent";
import { type Static, type TSchema, Type } from "typebox";
import { plainText } from "../lib/fence.ts";
import { kinds, priorities } from "../lib/handoff.ts";
import type { Extension, Here } from "./here.ts";
import { explain } from "./screen.ts";

/** One of these words. */
const oneOf = <T extends string>(words: readonly T[]) => Type.Unsafe<T>({ type: "string", enum: words });
const maybe = (description?: string) => Type.Optional(Type.String(description === undefined ? {} : { description }));

const handingOff = Type.Object({
	to: maybe("Node, or several with commas; @all for notes"),
	subject: maybe(),
	text: Type.String(),
	kind: Type.Optional(oneOf(kinds)),
	re: maybe("id that this answers"),
	priority: Type.Optional(oneOf(priorities)),
});
const reading = Type.Object({ id: maybe(), offset: Type.Optional(Type.Integer()) });
const boarding = Type.Object({
	action: oneOf(["list", "show", "add", "new", "claim", "release", "done"]),
	card: maybe("id or part of its title"),
	title: maybe(),
	text: maybe(),
	type: maybe("note, finding, question, answer, decision, …"),
});

export type HandingOff = Static<typeof handingOff>;
export type Boarding = Static<typeof boarding>;

/** What a tool gives back: text for the model, and the same as data. */
export interface Result<T> {
	readonly text: string;
	readonly details: T;
	readonly failed?: boolean;
}

/** What the tools do. */
type Acts = typeof import("./tool-acts.ts");

/** Registers what the model can do with the tree. Every description is part of each request: together they stay under 1.5 KB. */
export function registerTools(pi: ExtensionAPI, extension: Extension): void {
	const register = <P extends TSchema, T>(
		name: string,
		label: string,
		description: string,
		parameters: P,
		act: (acts: Acts, here: Here, input: Static<P>, signal: AbortSignal | undefined) => Result<T> | Promise<Result<T>>,
	) =>
		pi.registerTool<P, T>({
			name,
			label,
			description,
			parameters,
			defaultActive: false, // see chooseTools
			exposure: "model-only", // called by another tool it has no result of its own in the session, by which a Handoff would be known as read
			async execute(_, input, signal): Promise<AgentToolResult<T>> {
				try {
					const acts = await import("./tool-acts.ts"); // loaded when the model uses one: that is no part of the time in which pi starts
					signal?.throwIfAborted();
					const { text, details, failed } = await act(acts, extension.here(), input, signal);
					return { content: [{ type: "text", text }], details, ...(failed && { isError: true }) };
				} catch (error) {
					throw new Error(plainText(explain(error))); // which pi gives to the model as the result
				}
			},
		});
	register(
		"xfer_to",
		"hand off",
		"Hand work or words to another agent (Node). One-way: an answer comes by itself, as a message; don't wait or poll. kind: required unless re.",
		handingOff,
		(acts, here, input) => acts.handTo(pi, here, input),
	);
	register("xfer_nodes", "Nodes", "The other Nodes: live or away, what they do and are for.", Type.Object({}), (acts, here) =>
		acts.listNodes(here),
	);
	register("xfer_read", "Inbox", "Your Inbox: what waits; with id, its text.", reading, (acts, here, { id, offset }) =>
		id ? acts.readOne(here, id, offset ?? 0) : acts.listInbox(here),
	);
	register(
		"xfer_board",
		"Board",
		"The Board of Cards that all Nodes share. Claim a Card before work on it.",
		boarding,
		(acts, here, input, signal) => acts.useBoard(here, input, signal),
	);
}

/** The tools for other Nodes, and those for one's own. */
const forOthers = ["xfer_to", "xfer_nodes"];
const forOneself = ["xfer_read", "xfer_board"];

/** What was last wished for each session, so that what others choose meanwhile stays as it is. */
const wishes = new WeakMap<ExtensionAPI, readonly string[]>();

/** Shows the model the tools for other Nodes only while there are any, and none while this session is no Node; what others have chosen stays. */
export function chooseTools(pi: ExtensionAPI, extension: Extension): void {
	try {
		const here = extension.isHere() ? extension.here() : undefined;
		const wish = [...(here ? forOneself : []), ...(here && here.me.tree.names().length > 1 ? forOthers : [])];
		const before = wishes.get(pi);
		// A session that goes on has its tools from before: the first wish is for all of them.
		const off = (before ?? [...forOneself, ...forOthers]).filter((name) => !wish.includes(name));
		const on = wish.filter((name) => !before?.includes(name));
		if (off.length === 0 && on.length === 0) return;
		const active = pi.getActiveTools();
		const next = [...new Set([...active.filter((name) => !off.includes(name)), ...on])];
		if (next.join() !== active.join()) pi.setActiveTools(next);
		wishes.set(pi, wish);
	} catch {
		// a tree that can't be read just now: the tools stay as they are
	}
}

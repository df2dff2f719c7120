import { waitForReply } from "../../lib/await.ts";
import { describeNode, describeStanding } from "../../lib/describe.ts";
import { parseDuration, timeoutSignal } from "../../lib/duration.ts";
import { XferError } from "../../lib/errors.ts";
import { shellWord, shortId } from "../../lib/filename.ts";
import { kinds, priorities } from "../../lib/handoff.ts";
import { similar } from "../../lib/names.ts";
import type { Outcome, Outgoing } from "../../lib/send.ts";
import type { Tree, Whereabouts } from "../../lib/tree.ts";
import { type Command, timeout, type Values } from "../command.ts";
import { exit, exitCode, explain } from "../errors.ts";
import { isTerminal, note, printJson, printLine, readInput, tellPolling } from "../output.ts";
import type { Session } from "../session.ts";
import { document, inHand, lookedAt, printBody, showAndMark } from "../show.ts";

/** The options that describe a Handoff, for `send` and `reply`. */
export const handoffOptions = {
	kind: { type: "string", value: "KIND", help: `${kinds.join(", ")}` },
	subject: { type: "string", value: "LINE", help: "one line; else the first line of the text stands for it" },
	priority: { type: "string", value: "HOW", help: `${priorities.join(", ")}` },
	expires: { type: "string", value: "30m", help: "not to be shown as new work after this time" },
	key: { type: "string", value: "K", help: "replaces my unread older one with this key" },
	wait: { type: "boolean", help: "wait for the reply and print it, and nothing else" },
	timeout,
} as const;

export const send: Command = {
	name: "send",
	usage: "TO[,TO…] [WORDS…|-]",
	summary: "hand off to Nodes",
	examples: [
		['xfer send alice "fix the flaky test"', "a task for alice"],
		["git diff | xfer send bob review this -", "the words are the subject, the diff is the text"],
		["xfer send @all building, please wait", "a note for every live Node"],
		['xfer send api --kind question --wait "which port?"', "prints the answer"],
	],
	options: { ...handoffOptions, re: { type: "string", value: "ID", help: "about this Handoff" } },
	words: [1, Number.POSITIVE_INFINITY],
	completes: "nodes",
	speaks: "alice",
	run(session, [to = "", ...words], values) {
		const re = typeof values.re === "string" ? about(session, values.re) : {};
		return deliver(
			session,
			{ from: session.me, to: recipients(to), ...re },
			words,
			values,
			`xfer send ${to} "…", or: … | xfer send ${to} -`,
		);
	},
};

function recipients(text: string): string[] {
	const names = text.split(",").filter((name) => name !== "");
	if (names.length === 0) throw new XferError("EINPUT", "no recipient", 'xfer send alice "…"');
	return names;
}

/** The thread of what a Handoff is about, whether it was received or sent. */
function about({ tree, me }: Session, piece: string): Pick<Outgoing, "re" | "thread" | "hops"> {
	const node = tree.node(me);
	let original: { id: string; thread?: string | undefined; hops?: number } | undefined;
	try {
		original = node.inbox.look(node.inbox.maildir.find(piece));
	} catch (error) {
		if (!(error instanceof XferError) || error.code !== "EHANDOFF") throw error;
		const id = node.sent.find(piece);
		original = node.sent.standings([id])[0]?.handoff ?? { id };
	}
	if (!original) throw new XferError("EHANDOFF", `no Handoff ${piece}`);
	return { re: original.id, thread: original.thread ?? original.id, hops: node.live() ? (original.hops ?? 0) + 1 : undefined };
}

/** Delivers what the words and options say, prints a line for each recipient, and waits for the reply if asked to. */
export async function deliver(
	session: Session,
	base: Pick<Outgoing, "from" | "to" | "re" | "thread" | "hops" | "kind">,
	words: readonly string[],
	values: Values,
	how: string,
	delivered: () => void = () => {},
): Promise<number> {
	const { tree } = session;
	const wait = values.wait === true;
	if (values.timeout !== undefined && !wait) throw new XferError("EINPUT", "--timeout goes with --wait", "add --wait, or leave it away");
	const limit = typeof values.timeout === "string" ? parseDuration(values.timeout, "--timeout") : undefined;
	if (wait && (base.to.length !== 1 || base.to[0] === "@all"))
		throw new XferError("EINPUT", "--wait waits for one recipient's reply", "send to one Node");
	const input = words.at(-1) === "-" || words.length === 0;
	const spoken = (input ? words.slice(0, -1) : words).join(" ");
	if (!input && spoken.trim() === "") throw new XferError("EINPUT", "nothing to send: the text is empty", how);
	outgoing(values, 0); // what can't be used is refused before standard input is read, which may take long
	const body = input ? readInput(tree.context.maxBytes, how) : spoken;
	const options = outgoing(values, tree.context.now());
	const subject = options.subject ?? (input && spoken ? spoken : undefined);
	const outcomes = tree.send({ ...base, ...options, kind: options.kind ?? base.kind, subject, body, cwd: workingDirectory() });
	if (outcomes.some(({ error }) => !error)) delivered();
	if (!wait) return printOutcomes(session, outcomes);
	const [outcome] = outcomes;
	if (!outcome || outcome.error) throw outcome?.error ?? new Error("nothing was delivered");
	return waitFor(session, outcome.id, outcome.to, limit);
}

function workingDirectory(): string | undefined {
	try {
		return process.cwd();
	} catch {
		return undefined; // it was removed under us: no reason not to send
	}
}

function outgoing(values: Values, now: number): Pick<Outgoing, "kind" | "subject" | "priority" | "expires" | "key"> {
	const text = (key: string) => (typeof values[key] === "string" ? values[key] : undefined);
	const kind = text("kind");
	if (kind !== undefined && !(kinds as readonly string[]).includes(kind)) {
		const meant = similar(kind, kinds);
		if (meant || !/^[a-z][a-z0-9_-]{0,31}$/.test(kind))
			throw new XferError("EINPUT", `no Kind "${kind}"`, `${meant ? `did you mean ${meant}? ` : ""}one of ${kinds.join(", ")}`);
	}
	const priority = priorities.find((known) => known === values.priority);
	if (values.priority !== undefined && !priority)
		throw new XferError("EINPUT", `no priority "${values.priority}"`, `one of ${priorities.join(", ")}`);
	const expires = text("expires");
	return {
		kind,
		subject: text("subject"),
		priority,
		expires: expires === undefined ? undefined : now + parseDuration(expires, "--expires"),
		key: text("key"),
	};
}

function printOutcomes(session: Session, outcomes: readonly Outcome[]): number {
	const { tree, json } = session;
	const delivered = outcomes.flatMap((outcome) => (outcome.error ? [] : [outcome]));
	const failed = outcomes.length - delivered.length;
	const code = failed === 0 ? exit.done : delivered.length > 0 ? exit.partly : Math.max(...outcomes.map(({ error }) => exitCode(error)));
	for (const { to, error } of outcomes) if (error) note(`xfer: ${outcomes.length > 1 ? `${to}: not delivered: ` : ""}${explain(error)}`);
	try {
		if (json && delivered.length > 0) printJson("xfer.send/1", { handoffs: outcomes.map((outcome) => documentOf(session, outcome)) });
		if (json) return code;
		for (const { to, id, durability } of delivered) {
			const where = describe(tree, to);
			const doubt = durability === "unknown" ? ", durability unknown: do not send it again" : "";
			printLine(`queued for ${to} (${where})${doubt}`, isTerminal() ? shortId(id) : id);
		}
	} catch (error) {
		const ids = delivered.map(({ id }) => shortId(id)).join(", ");
		note(`xfer: delivered, as ${ids}, and that could not be printed (do not send it again)`);
		if (process.env.XFER_DEBUG) throw error;
		return exit.failed;
	}
	return code;
}

function describe(tree: Tree, to: string): string {
	try {
		return describeNode(tree.node(to).whereabouts(), tree.context.now());
	} catch {
		return "where it is can't be seen"; // and no reason to say that it was not delivered
	}
}

function documentOf({ tree }: Session, outcome: Outcome): object {
	if (outcome.error) return { to: outcome.to, error: explain(outcome.error) };
	const { to, id, durability } = outcome;
	let seen: Whereabouts | undefined;
	try {
		seen = tree.node(to).whereabouts();
	} catch {
		return { to, id, state: "queued", durability }; // delivered; where its reader is, nobody can say
	}
	const { live, presence } = seen;
	const { status, holding, wake } = presence;
	return { to, id, state: "queued", durability, live: live !== undefined, ...(live && { status, holding, wake }) };
}

/** Waits for the reply and prints its text, and nothing else. */
async function waitFor(session: Session, id: string, to: string, limit: number | undefined): Promise<number> {
	const { tree, me, json } = session;
	const node = tree.node(me);
	const { inbox } = node;
	const story = () => {
		const [standing] = node.sent.standings([id]);
		return standing ? describeStanding(standing, tree.has(to) ? tree.node(to).whereabouts() : undefined, tree.context.now()) : "gone";
	};
	note(`${shortId(id)} ${story()}`);
	const signal = limit === undefined ? new AbortController().signal : timeoutSignal(limit);
	const ending = await waitForReply(node, id, signal, { persistent: true, onPolling: tellPolling });
	if (!ending) {
		note(
			`xfer: no reply in time: ${story()} (to take it back: xfer recall ${shellWord(shortId(id))} --as ${me}; to wait on: xfer inbox --as ${me})`,
		);
		return exit.timeout;
	}
	const { reply, state } = ending;
	// The original may have been cleared since: its report says all the same that it failed.
	const failed = reply?.kind === "report" && (state === "failed" || reply.subject.startsWith("failed: "));
	if (!reply || failed)
		note(
			`xfer: no reply will come: ${shortId(id)} ${failed || state === "failed" ? `failed at ${to}` : state === "gone" ? "is gone" : `was ${state}`}`,
		);
	if (!reply) return exit.failed;
	// In the Inbox still: ours to take, unless a live instance of this Node reads its own mail. Taken already: only shown.
	const holder = node.live();
	const mine = !holder || holder.instance === tree.context.instance;
	const taken = mine ? inbox.take({ message: inbox.maildir.get(reply.id) ?? reply.message }) : undefined;
	const one = taken ? inHand(inbox, taken) : lookedAt(inbox, reply);
	showAndMark([one], () => {
		if (failed) printBody(one, 2);
		else if (json) printJson("xfer.read/1", { handoffs: [document(one, tree.context.maxBytes)] });
		else printBody(one, 1);
	});
	return failed ? exit.failed : exit.done;
}

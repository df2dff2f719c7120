import { appendFileSync } from "node:fs";
import { numberOn, setSlip, slip } from "../desk.ts";
import { shellWord } from "../filename.ts";
import { type Presence, replacePresence, timestamp } from "../presence.ts";
import { caller } from "../processes.ts";
import { keepHolder } from "./holder.ts";
import type { Action, Host, Input, Output } from "./hosts/host.ts";
import { output } from "./hosts/host.ts";
import type { Offer } from "./offer.ts";
import { become, end, environment, find, type HostSession, type Me } from "./session.ts";

/** What a hook's process is asked. */
export interface Call {
	readonly host: Host;
	/** The host's own name of the event, and what it means. */
	readonly event: string;
	readonly action: Action;
	/** What standard input said. */
	readonly input: Input;
	/** A name for the Node that a person gave. */
	readonly name: string | undefined;
	readonly env: Readonly<Record<string, string | undefined>>;
	/** Aborted when the time is up. */
	readonly signal: () => AbortSignal;
}

/** What is to be given to the host, and to be done once that has happened, or could not. */
export interface Answer {
	readonly output: Output;
	/**
	 * The host has it: what it shows is read.
	 * @throws {XferError} ELOST · the system's error, the first of them: what could not be marked is shown again
	 */
	taken(): void;
	/** It could not be given: what it shows goes back. */
	lost(): void;
}

/**
 * What one hook does. What it shows is in hand until `taken` or `lost` is called; killed before, it comes back within seconds.
 * @returns undefined when it is nothing of ours: a sub-agent's, another host's
 * @throws {XferError} · the system's error. Then nothing is in hand, and the host is to get its silence.
 */
export async function hook(call: Call): Promise<Answer | undefined> {
	const { host, action, input, env, signal } = call;
	const session = host.foreign?.(input) ? undefined : sessionOf(call);
	if (!session) return undefined;
	if (action === "wait") {
		if (!host.wake || host.waits?.(env) === false) return silence(host);
		const { waitForMail } = await import("./waiter.ts");
		const me = await waitForMail(() => find(session), session.pid, signal());
		return me ? speak(call, me.me, me.offer) : silence(host);
	}
	if (action === "end") {
		const me = find(session);
		if (me) end(me);
		return silence(host);
	}
	const me = (action === "start" ? undefined : find(session)) ?? (await become(session, action === "start", signal()));
	keepHolder(me.node, me.instance, session.pid);
	if (action === "tool") say(me, { status: `tool:${text(input[host.tool ?? ""]) ?? "unknown"}` });
	else if (action === "asks") {
		if (asksPermission(input)) say(me, { status: "waiting" });
	} else return await boundary(call, me);
	return silence(host);
}

/** Mail may join here. */
async function boundary(call: Call, me: Me): Promise<Answer> {
	const { host, action, event } = call;
	const { directory } = me.node;
	const stopping = action === "stop";
	if (action === "start") handDown(me, call.env);
	if (action === "prompt") for (const name of ["hops", "stops"] as const) setSlip(directory, name, undefined); // a person has spoken
	const stops = stopping ? numberOn(directory, "stops") : 0;
	const found = stops < host.stops ? await look(me, host, stopping ? "end" : "idle") : undefined;
	if (found) return speak(call, me, found);
	if (stopping) setSlip(directory, "stops", undefined);
	say(me, { status: action === "prompt" ? "thinking" : "idle" });
	if (action !== "start") return silence(host);
	return { ...silence(host), output: host.context({ text: greeting(me.node.name), event, env: environment(me), ids: [] }) };
}

/** What joins now. Nothing is loaded for an Inbox in which nothing waits. */
export async function look(me: Me, host: Host, moment: "idle" | "end", waking = moment === "end"): Promise<Offer | undefined> {
	const { inbox, directory } = me.node;
	inbox.returnLeases(); // a hook that was killed had them
	if (inbox.maildir.names("new").length === 0) return undefined;
	const { offer } = await import("./offer.ts");
	const named = new Set((slip(directory, "named") ?? "").split("\n"));
	return offer(me.tree, me.node, { moment, limit: host.limit - greeting(me.node.name).length - 10, waking, named });
}

/** Gives what was found to the host, by the way that this event has. */
function speak({ host, action, event }: Call, me: Me, found: Offer): Answer {
	const { node } = me;
	const { directory } = node;
	const { shown, digest, hops } = found;
	const text = action === "start" ? `${greeting(node.name)}\n\n${found.text}` : found.text;
	const speech = { text, event, env: environment(me), ids: shown.map(({ handoff }) => handoff.id) };
	try {
		setSlip(directory, "hops", Math.max(numberOn(directory, "hops"), hops)); // before it can be answered
		if (action === "stop") setSlip(directory, "stops", numberOn(directory, "stops") + 1);
		if (action === "wait") setSlip(directory, "stops", undefined);
		if (action !== "start") say(me, { status: "thinking" });
	} catch (error) {
		for (const taken of shown) taken.release();
		throw error;
	}
	const ways = { start: host.context, prompt: host.context, stop: host.goOn, wait: host.wake ?? host.goOn };
	return {
		output: (ways[action as keyof typeof ways] ?? host.context)(speech),
		taken() {
			const failures: unknown[] = [];
			for (const taken of shown) {
				try {
					taken.done();
				} catch (error) {
					failures.push(error); // it comes back with its lease; the others are marked all the same
				}
			}
			if (digest.length > 0) {
				const named = (slip(directory, "named") ?? "").split("\n");
				setSlip(directory, "named", [...named, ...digest.map(({ id }) => id)].slice(-500).join("\n"));
			}
			if (failures.length > 0) throw failures[0];
		},
		lost() {
			for (const taken of shown) taken.release();
		},
	};
}

/** What it says of itself changes; what is not named stays. */
export function say(me: Me, change: Presence): void {
	const before = me.node.presence();
	const entries = Object.entries(change) as [keyof Presence, string][];
	if (entries.every(([key, value]) => before[key] === value)) return;
	const since = change.status === undefined ? before.since : timestamp(me.tree.context);
	replacePresence(me.node.directory, { ...before, ...change, since }, me.instance);
}

/** Who the session is, for whoever has not heard of xfer. */
function greeting(name: string): string {
	return `[xfer] You are ${name} among the programs and people of this machine who hand work to each other: xfer send NAME "…" --as ${name}, xfer nodes; xfer help agents says more.`;
}

/** Where the host has a file of variables for the shells that it starts, they speak as this Node. */
function handDown(me: Me, env: Call["env"]): void {
	if (!env.CLAUDE_ENV_FILE) return;
	const words = Object.entries(environment(me)).map(([key, value]) => `${key}=${shellWord(value)}`);
	appendFileSync(env.CLAUDE_ENV_FILE, `export ${words.join(" ")}\n`);
}

/** The session that a host tells of; undefined when it tells of none. */
function sessionOf({ host, input, name, env }: Call): HostSession | undefined {
	const id = text(input.session_id);
	if (!id) return undefined;
	const cwd = text(input.cwd) ?? process.cwd();
	return { host, id, cwd, pid: caller(), name, env, model: text(input.model), file: text(input.transcript_path) };
}

/** A field that is a line of text. */
function text(value: unknown): string | undefined {
	return typeof value === "string" && value !== "" && value.length < 4096 ? value.replace(/[\r\n]+/g, " ") : undefined;
}

/** Whether a notification is about a permission: others say that nothing runs, which everybody knows. */
function asksPermission({ notification_type: type, hook_event_name: event }: Input): boolean {
	return event === "PermissionRequest" || (typeof type === "string" && /permission/i.test(type));
}

function silence({ silence }: Host): Answer {
	return { output: output(silence), taken() {}, lost() {} };
}

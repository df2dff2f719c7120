import type { Context } from "../context.ts";
import { parseDate } from "../handoff.ts";
import type { Entry } from "./card.ts";

/** Who has claimed a Card, until when. */
export interface Claim {
	readonly name: string;
	readonly host: string;
	/** Unix ms. */
	readonly until: number;
	/** Id of the Entry that made it. */
	readonly id: string;
}

/** What the Entries of a Card come to. */
export interface CardState {
	/** Who has the first claim that has not ended. */
	readonly holder: Claim | undefined;
	readonly done: boolean;
	readonly removed: boolean;
}

/** ms that a claim holds which does not say how long. */
export const usualClaim = 2 * 3600 * 1000;

/** What the Entries come to, in their order. */
export function stateOfCard(entries: Iterable<Entry>, now: number): CardState {
	const claims = new Map<string, Claim>();
	let done = false;
	let removed = false;
	for (const entry of entries) {
		const { type } = entry;
		if (type !== "claim" && type !== "release") done = type === "done";
		if (type === "claim" && !done)
			claim(claims, entry); // what is done is not to be done again
		else if (type === "release") release(claims, entry);
		else if (type === "done") claims.clear();
		else if (type === "removed") removed = true;
		else if (type === "restored") removed = false;
	}
	return { holder: [...claims.values()].find(({ until }) => until > now), done, removed };
}

function claim(claims: Map<string, Claim>, entry: Entry): void {
	const date = entry.date ?? Number.NEGATIVE_INFINITY;
	const [, end, host = ""] = /^until (\S+) on (\S+)/.exec(entry.text.toString()) ?? [];
	const until = parseDate(end) ?? date + usualClaim;
	const key = holderKey(entry.author, host);
	const before = claims.get(key);
	if (before && before.until > date) claims.set(key, { ...before, until: Math.max(before.until, until) });
	else {
		claims.delete(key); // behind those that came meanwhile
		claims.set(key, { name: entry.author, host, until, id: entry.id });
	}
}

/** On a host, those there and those that name none; without a host all of its author's. */
function release(claims: Map<string, Claim>, { author, text }: Entry): void {
	const on = /^on (\S+)/.exec(text.toString())?.[1];
	for (const [key, { name, host }] of claims) if (name === author && (on === undefined || host === on || host === "")) claims.delete(key);
}

function holderKey(name: string, host: string): string {
	return `${name} ${host}`;
}

/** A host as a claim names it. */
export function claimHost(context: Pick<Context, "host">): string {
	return context.host.replace(/[^A-Za-z0-9._-]/g, "_") || "_";
}

/** Whether it is the claim of this name on this host; one that names no host is its author's on every host. */
export function isHeldBy(claim: Pick<Claim, "name" | "host">, name: string, host: string): boolean {
	return claim.name === name && (claim.host === host || claim.host === "");
}

/** Who holds it, for a person. */
export function holderWords({ name, host }: Pick<Claim, "name" | "host">): string {
	return `${name} on ${host || "an unknown host"}`;
}

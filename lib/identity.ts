import { existsSync } from "node:fs";
import { userInfo } from "node:os";
import { basename, dirname } from "node:path";
import { XferError } from "./errors.ts";
import { slug } from "./names.ts";
import type { Presence } from "./presence.ts";
import type { Live, Tree } from "./tree.ts";

/** Most Nodes of one name that get a suffix. */
export const mostSuffixes = 99;

/** A name for who runs in a directory: that of its repository, else its own; never the login name, which is the person's (protocol 3). */
export function derivedName(cwd: string, agent: string): string {
	const name = projectName(cwd);
	if (!name) return agent;
	return name === login() ? `${name}-${agent}` : name;
}

/** What the project that a directory is in is called, as a name; undefined when nothing is left of it. */
export function projectName(cwd: string): string | undefined {
	return slug(basename(projectDirectory(cwd)));
}

/** The name of the Node that a session had, if somebody else is not there now. */
export function nodeOfSession(tree: Tree, session: string): string | undefined {
	return tree.names().find((name) => {
		try {
			const node = tree.node(name);
			return node.presence().session === session && !node.live();
		} catch {
			return false; // it can't be entered
		}
	});
}

/**
 * Goes live under a name that a person gave.
 * @throws {XferError} ENAME · EHELD when it is live elsewhere · the system's error
 */
export async function goLiveAs(tree: Tree, name: string, presence: Presence, signal?: AbortSignal): Promise<Live> {
	return await tree.join(name).goLive(presence, signal);
}

/**
 * Goes live under a name that nobody chose, or under the first of `NAME-2`, `NAME-3`, … that is free: not live, and not the Node of another directory.
 * @throws {XferError} EHELD when none is · the system's error
 */
export async function goLiveNear(tree: Tree, name: string, presence: Presence, signal?: AbortSignal): Promise<Live> {
	for (let count = 1; count <= mostSuffixes; count++) {
		const wanted = suffixed(name, count);
		if (tree.has(wanted) && !isFree(tree, wanted, presence.cwd)) continue;
		try {
			return await tree.join(wanted, { derived: "true" }).goLive(presence, signal);
		} catch (error) {
			if (!(error instanceof XferError) || error.code !== "EHELD") throw error;
		}
	}
	throw new XferError("EHELD", `${name} and its like are all live, or of other directories`, "give a name of its own");
}

/** The name, `NAME-2`, `NAME-3`, …: cut so that it stays a name. */
export function suffixed(name: string, count: number): string {
	const suffix = count === 1 ? "" : `-${count}`;
	return `${name.slice(0, 63 - suffix.length)}${suffix}`;
}

function isFree(tree: Tree, name: string, cwd: string | undefined): boolean {
	const node = tree.node(name);
	if (node.name !== name) return false; // another name of a Node
	const there = node.presence().cwd;
	return (there === undefined || there === cwd) && !node.live();
}

/** The directory of the repository that a directory is in, else that directory. */
export function projectDirectory(cwd: string): string {
	for (let at = cwd; ; at = dirname(at)) {
		if (existsSync(`${at}/.git`)) return at;
		if (at === dirname(at)) return cwd;
	}
}

function login(): string | undefined {
	try {
		return slug(userInfo().username);
	} catch {
		return undefined; // no such user here: then its name can't be taken either
	}
}

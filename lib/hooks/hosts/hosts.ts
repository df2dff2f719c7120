import { claude } from "./claude.ts";
import { codex } from "./codex.ts";
import { gemini } from "./gemini.ts";
import type { Action, Host } from "./host.ts";
import { opencode } from "./opencode.ts";

/** Every host that has hooks of ours. */
export const hosts: readonly Host[] = [claude, codex, gemini, opencode];

export function hostOf(name: string | undefined): Host | undefined {
	return hosts.find((host) => host.name === name);
}

/** An event by any spelling of its name (`SessionStart`, `session-start`), and what is to be done at it. */
export function eventOf({ events }: Host, word: string): { event: string; action: Action } | undefined {
	const plain = (text: string) => text.toLowerCase().replace(/[^a-z]/g, "");
	const found = Object.entries(events).find(([event]) => plain(event) === plain(word));
	return found && { event: found[0], action: found[1] };
}

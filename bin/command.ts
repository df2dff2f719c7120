import type { Session } from "./session.ts";

export interface Option {
	readonly type: "string" | "boolean";
	/** What stands for the value in the help. */
	readonly value?: string;
	readonly help: string;
	/** It may be given more than once: its value is a list. */
	readonly multiple?: boolean;
}

export type Values = Readonly<Record<string, string | boolean | readonly (string | boolean)[] | undefined>>;

/** One command: the declaration that drives the fast path, the help and the completion, and what it does. */
export interface Command {
	readonly name: string;
	/** What follows the name on the right line. */
	readonly usage: string;
	readonly summary: string;
	readonly examples: readonly (readonly [line: string, what: string])[];
	readonly options: Readonly<Record<string, Option>>;
	/** Fewest and most words after the name. */
	readonly words: readonly [least: number, most: number];
	/** What the words complete to. */
	readonly completes?: "nodes" | "ids" | "sent" | "cards" | readonly string[];
	/** Its words are a text, behind this on an example line. */
	readonly speaks?: string;
	/** For programs: not in lists. */
	readonly hidden?: boolean;
	/** Its sub-commands; the name of each begins with this one's. */
	readonly commands?: readonly Command[];
	/** Does it; the exit code, 0 unless returned. */
	run(session: Session, words: readonly string[], values: Values): number | undefined | Promise<number | undefined>;
}

/** The options that every command has, and that mean the same everywhere. */
export const common: Readonly<Record<string, Option>> = {
	as: { type: "string", value: "NAME", help: "act as this Node (else $XFER_NODE, else the login name)" },
	json: { type: "boolean", help: "print JSON" },
	help: { type: "boolean", help: "show this" },
};

export const timeout: Option = { type: "string", value: "10m", help: "wait no longer than this; exit 4 then" };

/** What a person types for it after the words before: `list` of `board list`. */
export function lastWord({ name }: Pick<Command, "name">): string {
	return name.slice(name.lastIndexOf(" ") + 1);
}

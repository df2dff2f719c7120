import type { ExtensionCommandContext, ExtensionContext } from "@earendil-works/pi-coding-agent";
import { visibleLines } from "../lib/visible.ts";

/** What `/xfer WORD …` does. */
export interface SubCommand {
	/** What stands behind its name. */
	readonly usage: string;
	readonly summary: string;
	run(rest: string, context: ExtensionCommandContext): Promise<void> | void;
	/** What the words behind its name may be. */
	completions?(rest: string): Promise<readonly Completion[]> | readonly Completion[];
}

export interface Completion {
	/** All of the words behind the name. */
	readonly value: string;
	/** For a person; peers' text in it is made visible before it is shown. */
	readonly description?: string | undefined;
	/** Set when it is meant by what is typed, though it does not begin so. */
	readonly meant?: boolean;
}

/** The first word, and what stands behind it as it is. */
export function firstWord(text: string): { first: string; rest: string } {
	const [, first = "", rest = ""] = /^\s*(\S*)\s*([\s\S]*?)\s*$/.exec(text) ?? [];
	return { first, rest };
}

/** Says something to the person; peers' text in it is shown and not obeyed. */
export function tell(
	{ hasUI, ui }: Pick<ExtensionContext, "hasUI" | "ui">,
	text: string,
	type: "info" | "warning" | "error" = "info",
): void {
	if (hasUI) ui.notify(visibleLines(text), type);
	else console.error(visibleLines(text));
}

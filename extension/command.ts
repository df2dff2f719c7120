import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
import type { XferCommand } from "./commands.ts";
import type { Extension } from "./here.ts";
import { explain } from "./screen.ts";
import { tell } from "./sub-command.ts";

/** Registers `/xfer`. What it does is loaded when somebody types it: that is no part of the time in which pi starts. */
export function registerCommand(pi: ExtensionAPI, extension: Extension): void {
	let loaded: Promise<XferCommand> | undefined;
	const load = () => {
		loaded ??= import("./commands.ts").then(({ XferCommand }) => new XferCommand(pi, extension));
		return loaded;
	};
	pi.registerCommand("xfer", {
		description: "hand work to other agents and see who is there (/xfer help)",
		async handler(args, context) {
			try {
				await extension.started();
				await (await load()).run(args, context);
			} catch (error) {
				tell(context, explain(error), "error");
			}
		},
		async getArgumentCompletions(prefix) {
			try {
				return await (await load()).completions(prefix);
			} catch {
				return null; // no Node, or a tree that can't be read: then nothing is offered
			}
		},
	});
}

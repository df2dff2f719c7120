import { XferError } from "../../lib/errors.ts";
import type { Command } from "../command.ts";

const shells = ["bash", "zsh", "fish"] as const;

export const completion: Command = {
	name: "completion",
	usage: "bash|zsh|fish",
	summary: "print a completion script for your shell",
	examples: [
		["source <(xfer completion bash)", "in ~/.bashrc; the same with zsh in ~/.zshrc"],
		["xfer completion fish >~/.config/fish/completions/xfer.fish", "once, for fish"],
	],
	options: {},
	words: [1, 1],
	completes: shells,
	async run(_, [given = ""]) {
		const shell = shells.find((known) => known === given);
		if (!shell) throw new XferError("EINPUT", `no completion for ${JSON.stringify(given)}`, `one of ${shells.join(", ")}`);
		const { printCompletion } = await import("../help.ts");
		await printCompletion(shell);
		return undefined;
	},
};

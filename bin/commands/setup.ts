import { hostNames } from "../../lib/hooks/hosts/names.ts";
import type { Command } from "../command.ts";

export const setup: Command = {
	name: "setup",
	usage: hostNames.join("|"),
	summary: "have a coding agent's hooks bring it its mail",
	examples: [
		["xfer setup claude", "shows what it changes in ~/.claude/settings.json"],
		["xfer setup codex --project --dry-run", "for this project only; changes nothing"],
		["xfer setup claude --remove", "each file as it was before"],
	],
	options: {
		project: { type: "boolean", help: "in this project's configuration, not in yours" },
		name: { type: "string", value: "NAME", help: "its sessions' name, else HOST-PROJECT" },
		allow: { type: "boolean", help: "it may run xfer send, reply, read and the like unasked, and write the tree from its sandbox" },
		pointer: { type: "boolean", help: "a few lines for it in the project's CLAUDE.md or AGENTS.md" },
		remove: { type: "boolean", help: "take away what was added" },
		"dry-run": { type: "boolean", help: "show the changes and make none" },
	},
	words: [1, 1],
	completes: hostNames,
	async run(session, words, values) {
		return await (await (await import("#upkeep")).setup()).setup(session, words, values);
	},
};

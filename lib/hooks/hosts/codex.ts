import { type Host, json, output, type Place } from "./host.ts";

const directory = ({ project, home, env }: Place) => (project ? `${project}/.codex` : env.CODEX_HOME || `${home}/.codex`);

/**
 * Codex. https://developers.openai.com/codex/hooks
 *
 * It skips a hook that nobody has trusted (`/hooks`), without a word, and trust is by a hash of the entry: the command line stays as it
 * is, and what it does changes behind it. Text that looks like JSON and is none is an error, so it is always JSON. It can't be woken.
 */
export const codex: Host = {
	name: "codex",
	events: { SessionStart: "start", UserPromptSubmit: "prompt", Stop: "stop", PreToolUse: "tool", PermissionRequest: "asks" },
	limit: 16_384,
	stops: 7,
	single: true,
	silence: "",
	tool: "tool_name",
	context: ({ text, event }) => output(json({ hookSpecificOutput: { hookEventName: event, additionalContext: text } })),
	goOn: ({ text }) => output(json({ decision: "block", reason: text })),
	setup: {
		hooks: (place, line) => [
			{
				file: `${directory(place)}/hooks.json`,
				entries: ["SessionStart", "UserPromptSubmit", "Stop"].map((event) => ({
					path: ["hooks", event],
					item: { hooks: [{ type: "command", command: line(event), timeout: 10 }] },
				})),
			},
		],
		allow: (place, commands) => [
			{
				file: `${directory(place)}/rules/xfer.rules`,
				whole: `prefix_rule(pattern = ["xfer", ${JSON.stringify(commands)}], decision = "allow")\n`,
			},
			{
				file: `${directory(place)}/config.toml`,
				block: `[sandbox_workspace_write]\nwritable_roots = [${JSON.stringify(place.root)}]`,
				unless: /^\s*\[?\s*sandbox_workspace_write\b|\bwritable_roots\b/m,
			},
		],
		memory: "AGENTS.md",
		wants: [
			"trust the hooks: start Codex and type /hooks; until then it skips them without a word (xfer doctor says when one was run last)",
			"codex exec asks nobody: trust them in a session first",
		],
	},
	foreign: ({ agent_id }) => agent_id !== undefined,
};

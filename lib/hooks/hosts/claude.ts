import { type Host, json, output, type Place, waitLimit } from "./host.ts";

const directory = ({ project, home, env }: Place) => (project ? `${project}/.claude` : env.CLAUDE_CONFIG_DIR || `${home}/.claude`);
const command = (line: string, more: object = {}) => ({ type: "command", command: line, timeout: 10, ...more });

/**
 * Claude Code. https://code.claude.com/docs/en/hooks
 *
 * Only exit 2 blocks, so nothing else may exit 2. `additionalContext` is cut at 10,000 characters. A stop may be blocked 8 times in a row
 * (`CLAUDE_CODE_STOP_HOOK_BLOCK_CAP`). A hook with `asyncRewake` runs on after the stop, and its exit 2 wakes the session with what is on
 * standard error; at `SessionStart` it has been seen to block a headless run, so it waits at `Stop` only.
 */
export const claude: Host = {
	name: "claude",
	events: {
		SessionStart: "start",
		UserPromptSubmit: "prompt",
		Stop: "stop",
		wait: "wait",
		PreToolUse: "tool",
		Notification: "asks",
		SessionEnd: "end",
	},
	limit: 10_000,
	stops: 7,
	single: true,
	silence: "",
	tool: "tool_name",
	context: ({ text, event }) => output(json({ hookSpecificOutput: { hookEventName: event, additionalContext: text } })),
	goOn: ({ text }) => output(json({ decision: "block", reason: text })),
	wake: ({ text }) => output("", `${text}\n`, 2),
	// A run without a person ends with its last turn: nobody is there to be woken.
	waits: (env) => !env.CLAUDE_CODE_ENTRYPOINT?.startsWith("sdk"),
	setup: {
		hooks: (place, line) => [
			{
				file: `${directory(place)}/settings.json`,
				entries: [
					{ path: ["hooks", "SessionStart"], item: { hooks: [command(line("SessionStart"))] } },
					{ path: ["hooks", "UserPromptSubmit"], item: { hooks: [command(line("UserPromptSubmit"))] } },
					{
						path: ["hooks", "Stop"],
						item: { hooks: [command(line("Stop")), command(line("wait"), { asyncRewake: true, timeout: waitLimit })] },
					},
					{
						path: ["hooks", "Notification"],
						item: { matcher: "permission_prompt", hooks: [command(line("Notification"), { async: true })] },
					},
					{ path: ["hooks", "SessionEnd"], item: { hooks: [command(line("SessionEnd"))] } },
				],
			},
		],
		allow: (place, commands) => [
			{
				file: `${directory(place)}/settings.json`,
				entries: [
					...commands.map((word) => ({ path: ["permissions", "allow"], item: `Bash(xfer ${word}:*)` })),
					{ path: ["sandbox", "filesystem", "allowWrite"], item: place.root },
				],
			},
		],
		memory: "CLAUDE.md",
		wants: ["start Claude Code anew (or look at /hooks): it reads its hooks when it starts"],
	},
	foreign: ({ agent_id }) => agent_id !== undefined, // what a sub-agent does is no turn of the session
};

import { type Host, json, output, type Place } from "./host.ts";

const file = ({ project, home }: Place) => `${project ?? home}/.gemini/settings.json`;

/**
 * Gemini CLI. https://geminicli.com/docs/hooks/reference
 *
 * Standard output is JSON always, and any exit code above 1 may deny: so 0, and `{}` when there is nothing to say. Its timeouts are in ms.
 * `stop_hook_active` has been false all the time. It can't be woken.
 */
export const gemini: Host = {
	name: "gemini",
	events: {
		SessionStart: "start",
		BeforeAgent: "prompt",
		AfterAgent: "stop",
		BeforeTool: "tool",
		Notification: "asks",
		SessionEnd: "end",
	},
	limit: 16_384,
	stops: 7,
	single: true,
	silence: "{}\n",
	tool: "tool_name",
	setup: {
		hooks: (place, line) => [
			{
				file: file(place),
				entries: ["SessionStart", "BeforeAgent", "AfterAgent", "SessionEnd"].map((event) => ({
					path: ["hooks", event],
					item: { hooks: [{ name: "xfer", type: "command", command: line(event), timeout: 10_000 }] },
				})),
			},
		],
		allow: (place, commands) => [
			{
				file: file(place),
				entries: commands.map((word) => ({ path: ["tools", "allowed"], item: `run_shell_command(xfer ${word})` })),
			},
		],
		memory: "GEMINI.md",
		wants: [
			"start Gemini CLI anew; it asks once whether a project's hooks are to be trusted",
			"in its sandbox the tree must be mounted: SANDBOX_MOUNTS=~/.xfer:~/.xfer:rw",
		],
	},
	context: ({ text, event }) => output(json({ hookSpecificOutput: { hookEventName: event, additionalContext: text } })),
	goOn: ({ text }) => output(json({ decision: "deny", reason: text })),
};

/** The events of each host as its documents have them, and what these say that a hook may print. */
import { expect } from "vitest";
import type { HookResult } from "./host.ts";

/** Standard input of each event, besides session_id, transcript_path, cwd and hook_event_name. */
export const recorded: Record<string, { event: string; input: object }[]> = {
	claude: [
		{ event: "SessionStart", input: { source: "startup", model: "claude-opus-4-6", permission_mode: "default" } },
		{ event: "UserPromptSubmit", input: { permission_mode: "default", prompt: "fix the flaky test" } },
		{
			event: "PreToolUse",
			input: { tool_name: "Bash", tool_input: { command: "ls" }, tool_use_id: "toolu_01", permission_mode: "default" },
		},
		{ event: "Notification", input: { message: "Claude needs your permission to use Bash", notification_type: "permission_prompt" } },
		{ event: "Stop", input: { permission_mode: "default", stop_hook_active: false, last_assistant_message: "done" } },
		{ event: "Stop", input: { permission_mode: "default", stop_hook_active: true, last_assistant_message: "done" } },
		{ event: "SessionEnd", input: { reason: "prompt_input_exit" } },
	],
	codex: [
		{ event: "SessionStart", input: { source: "resume", model: "gpt-5.4-codex", permission_mode: "default" } },
		{ event: "UserPromptSubmit", input: { turn_id: "t1", model: "gpt-5.4-codex", permission_mode: "default", prompt: "go" } },
		{ event: "PreToolUse", input: { turn_id: "t1", tool_name: "Bash", tool_use_id: "c1", tool_input: { command: "ls" } } },
		{ event: "PermissionRequest", input: { turn_id: "t1", tool_name: "Bash", tool_input: { command: "rm x" } } },
		{ event: "Stop", input: { turn_id: "t1", stop_hook_active: false, last_assistant_message: null } },
	],
	gemini: [
		{ event: "SessionStart", input: { timestamp: "2026-11-30T12:00:00Z", source: "startup" } },
		{ event: "BeforeAgent", input: { timestamp: "2026-11-30T12:00:00Z", prompt: "go" } },
		{ event: "BeforeTool", input: { timestamp: "2026-11-30T12:00:00Z", tool_name: "run_shell_command", tool_input: { command: "ls" } } },
		{ event: "Notification", input: { notification_type: "ToolPermission", message: "?", details: {} } },
		{ event: "AfterAgent", input: { prompt: "go", prompt_response: "done", stop_hook_active: false } },
		{ event: "SessionEnd", input: { reason: "exit" } },
	],
	opencode: ["start", "prompt", "idle", "end"].map((event) => ({ event, input: {} })),
};

const context = new Set(["SessionStart", "UserPromptSubmit", "BeforeAgent"]);
const stops: Record<string, string> = { claude: "block", codex: "block", gemini: "deny" };

/** The fields that the documents of the three name for these events; what else there is would be refused by Codex, which allows no others. */
export function accepts(host: string, event: string, { code, out }: HookResult): void {
	expect(code).toBe(0);
	if (host === "opencode") {
		const { text, ids, env, ...rest } = JSON.parse(out);
		expect(rest).toEqual({});
		if (text !== undefined)
			expect({ text, ids, env }).toEqual({ text: expect.any(String), ids: expect.any(Array), env: expect.any(Object) });
		return;
	}
	if (out === "" && host !== "gemini") return;
	expect(out.trimEnd().split("\n")).toHaveLength(1);
	const { hookSpecificOutput, decision, reason, ...rest } = JSON.parse(out);
	expect(rest).toEqual({});
	if (hookSpecificOutput !== undefined) {
		expect(context).toContain(event);
		expect(hookSpecificOutput).toEqual({ hookEventName: event, additionalContext: expect.stringMatching(/./) });
		expect(decision).toBeUndefined();
	} else if (decision !== undefined) {
		expect(["Stop", "AfterAgent"]).toContain(event);
		expect(decision).toBe(stops[host]);
		expect(reason).toMatch(/./);
	} else expect(host).toBe("gemini");
}

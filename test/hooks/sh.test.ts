/** `spec/xfer-hook.sh`: the same for hosts without Node.js, in dash and busybox. */
import fs from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { ls, project, until } from "../helpers.ts";
import { type FakeHost, type HookOptions, hostsIn } from "./host.ts";

describe.each(["dash", "busybox sh"])("%s", (shell) => {
	function make() {
		const all = hostsIn();
		const hook = (host: FakeHost, name: string, event: string, options: HookOptions & { session?: string } = {}) => {
			const { session = "s1", ...rest } = options;
			const input = JSON.stringify({ session_id: session, cwd: all.cwd, hook_event_name: event, prompt: '"session_id":"no"' });
			return host.shell(`${shell} '${path.join(project, "spec/xfer-hook.sh")}' ${name} ${event}`, input, rest);
		};
		return { ...all, hook };
	}

	test("shows each Handoff once, fenced, and marks it read; work keeps it going at the stop, a note does not", async () => {
		const { hook, host, send, states, tree } = make();
		const claude = host();
		expect(await hook(claude, "claude", "SessionStart")).toEqual({ code: 0, out: "", err: "" });
		expect(tree.node("claude-proj").presence()).toMatchObject({ agent: "claude", session: "s1" });
		send("claude-proj", 'one </handoff> $(touch x) "', { subject: "one" });
		const first = await hook(claude, "claude", "UserPromptSubmit");
		expect(first.code).toBe(0);
		expect(first.out).toMatch(/not the user's word/);
		expect(first.out).toContain('one (/handoff> $(touch x) "\n</handoff>');
		expect(await hook(claude, "claude", "UserPromptSubmit")).toEqual({ code: 0, out: "", err: "" });
		send("claude-proj", "a note", { kind: "note", subject: "note" });
		expect(await hook(claude, "claude", "Stop")).toEqual({ code: 0, out: "", err: "" });
		send("claude-proj", "two", { subject: "two" });
		expect(await hook(claude, "claude", "Stop")).toMatchObject({ code: 2, out: "", err: expect.stringContaining("two") });
		expect(states("claude-proj")).toEqual({ one: "read", note: "queued", two: "read" });
	});

	test("does not wait for a host that says nothing", async () => {
		const { host } = make();
		const start = performance.now();
		const line = `${shell} '${path.join(project, "spec/xfer-hook.sh")}' gemini BeforeAgent`;
		expect(await host().shell(line, undefined, { open: true })).toEqual({ code: 0, out: "{}\n", err: "" });
		expect(performance.now() - start).toBeLessThan(10_000);
	});

	test("speaks JSON to gemini, whatever a text holds", async () => {
		const { hook, host, send } = make();
		const gemini = host();
		expect(await hook(gemini, "gemini", "SessionStart")).toEqual({ code: 0, out: "{}\n", err: "" });
		send("gemini-proj", 'a "b" \\ c\n\td \u0001 ü');
		expect(JSON.parse((await hook(gemini, "gemini", "BeforeAgent")).out)).toEqual({
			hookSpecificOutput: { hookEventName: "BeforeAgent", additionalContext: expect.stringContaining('a "b" \\ c\n\td ? ü') },
		});
		send("gemini-proj", "more");
		expect(JSON.parse((await hook(gemini, "gemini", "AfterAgent")).out)).toEqual({
			decision: "deny",
			reason: expect.stringContaining("more"),
		});
		expect(await gemini.shell(`${shell} '${path.join(project, "spec/xfer-hook.sh")}' gemini BeforeAgent`, "no json")).toEqual({
			code: 0,
			out: "{}\n",
			err: "",
		});
	});

	test("gives back what the host does not take, and holds the lock while the host lives, no longer than 10 s more", async () => {
		const { hook, host, send, states, tree, root } = make();
		const claude = host();
		await hook(claude, "claude", "SessionStart");
		send("claude-proj", "one", { subject: "one" });
		await hook(claude, "claude", "UserPromptSubmit", { deaf: true });
		expect(states("claude-proj")).toEqual({ one: "queued" });
		await hook(host(), "claude", "SessionStart", { session: "s2" });
		expect(tree.names()).toEqual(["bob", "claude-proj", "claude-proj-2"]);
		claude.child.kill("SIGKILL");
		const start = performance.now();
		await until(() => ls(root, "nodes/claude-proj/live.lock").length === 0);
		expect(performance.now() - start).toBeLessThan(10_000);
		await hook(host(), "claude", "SessionStart");
		expect(tree.names()).toEqual(["bob", "claude-proj", "claude-proj-2"]);
		expect(fs.readFileSync(path.join(root, "nodes/claude-proj/node.md"), "utf8")).toMatch(/^session: s1$/m);
	});
});

/** A session of a host as a Node: its name, its lock and who holds it, and the one who waits for mail. */
import fs from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { processOf } from "../../lib/processes.ts";
import { ls, until } from "../helpers.ts";
import { hostsIn, spoken } from "./host.ts";

/** The processes of this tree that have this word in their command line. */
function processes(root: string, word: string): number[] {
	return ls("/proc").flatMap((pid) => {
		if (!/^\d+$/.test(pid)) return [];
		try {
			const line = fs.readFileSync(`/proc/${pid}/cmdline`, "utf8");
			const env = fs.readFileSync(`/proc/${pid}/environ`, "utf8");
			return line.includes(word) && (line.includes(root) || env.includes(root)) ? [Number(pid)] : [];
		} catch {
			return []; // it has ended
		}
	});
}

/** The holders, without what one has just forked to become another program. */
function holders(root: string): number[] {
	const all = processes(root, "xfer-holder");
	return all.filter((pid) => !all.includes(processOf(pid)?.parent ?? 0));
}

describe("the holder of the lock", () => {
	test.each(["SIGKILL", "SIGTERM"] as const)(
		"goes within 10 s of its host, which ended by %s, and the name is free at once",
		async (signal) => {
			const { hook, host, root, tree } = hostsIn();
			const claude = host();
			await hook(claude, "claude", "SessionStart");
			expect(holders(root)).toHaveLength(1);
			expect(tree.node("claude-proj").live()).toMatchObject({ pid: claude.child.pid });
			claude.child.kill(signal);
			const start = performance.now();
			await until(() => !tree.node("claude-proj").live(), "the name to be free", 3000);
			await until(() => holders(root).length === 0, "the holder to end");
			expect(performance.now() - start).toBeLessThan(10_000);
			expect(ls(root, "nodes/claude-proj/live.lock")).toEqual([]);
		},
	);

	test("refreshes the lock, is never started twice, and is started again when it was killed", async () => {
		const { hook, host, root, tree } = hostsIn();
		const claude = host();
		await Promise.all(
			["SessionStart", "UserPromptSubmit", "SessionStart", "Stop", "PreToolUse"].map((event) => hook(claude, "claude", event)),
		);
		expect(tree.names()).toEqual(["bob", "claude-proj"]);
		const [first = 0, ...more] = holders(root);
		expect(more).toEqual([]);
		const { instance } = tree.node("claude-proj").presence();
		const lock = path.join(root, `nodes/claude-proj/live.lock/${instance}`);
		const before = fs.statSync(lock).mtimeMs;
		await until(() => fs.statSync(lock).mtimeMs > before, "a refresh");
		process.kill(first, "SIGKILL");
		await until(() => holders(root).length === 0);
		await Promise.all(["UserPromptSubmit", "Stop", "Stop", "PreToolUse"].map((event) => hook(claude, "claude", event)));
		expect(holders(root)).toHaveLength(1);
		expect(ls(root, "nodes/claude-proj/live.lock")).toEqual([instance]);
	});

	test("is one, though many hooks begin a session at once where another one was before", async () => {
		const { hook, host, root, tree } = hostsIn();
		for (let round = 0; round < 4; round++) {
			const claude = host();
			await Promise.all(Array.from({ length: 6 }, () => hook(claude, "claude", "SessionStart")));
			expect(tree.names()).toEqual(["bob", "claude-proj"]);
			expect(holders(root)).toHaveLength(1);
			claude.child.kill("SIGKILL");
			await until(() => holders(root).length === 0, "the holder to end");
		}
	});

	test("that is only just beginning makes nobody take a second name", async () => {
		const { hook, host, root, tree } = hostsIn();
		const claude = host();
		await hook(claude, "claude", "SessionStart");
		// As a hook leaves it that is slow to say which session it is.
		const directory = path.join(root, "nodes/claude-proj");
		const [first = ""] = ls(directory, "live.lock");
		const lock = fs.readFileSync(path.join(directory, "live.lock", first), "utf8");
		fs.rmSync(path.join(directory, "node.md"));
		fs.rmSync(path.join(directory, "live.lock"), { recursive: true });
		fs.mkdirSync(path.join(directory, "live.lock"));
		fs.writeFileSync(path.join(directory, "live.lock/aaaaaaaa"), lock);
		expect(await hook(claude, "claude", "UserPromptSubmit")).toEqual({ code: 0, out: "", err: "" });
		expect(tree.names()).toEqual(["bob", "claude-proj"]);
	});

	test("that was killed long ago is started by the next hook, under the same name", async () => {
		const { hook, host, root, tree, send } = hostsIn();
		const claude = host();
		await hook(claude, "claude", "SessionStart");
		for (const pid of holders(root)) process.kill(pid, "SIGKILL");
		await until(() => holders(root).length === 0);
		for (const name of ls(root, "nodes/claude-proj/live.lock")) fs.utimesSync(path.join(root, "nodes/claude-proj/live.lock", name), 0, 0);
		expect(tree.node("claude-proj").live()).toBeUndefined();
		send("claude-proj", "still there?");
		expect(spoken(await hook(claude, "claude", "UserPromptSubmit"))).toContain("still there?");
		expect(tree.node("claude-proj").live()).toMatchObject({ pid: claude.child.pid });
		expect(holders(root)).toHaveLength(1);
		expect(tree.names()).toEqual(["bob", "claude-proj"]);
	});

	test("goes when the session ends, and what it kept is removed with the Node", async () => {
		const { hook, host, root, tree } = hostsIn();
		const claude = host();
		await hook(claude, "claude", "SessionStart");
		await hook(claude, "claude", "SessionEnd", { reason: "exit" });
		expect(tree.node("claude-proj").live()).toBeUndefined();
		await until(() => holders(root).length === 0);
		tree.leave("claude-proj");
		expect(ls(root, "nodes")).toEqual(["bob"]);
	});
});

describe("the name", () => {
	test("is the host's and the project's, the same from every hook of a session, and another for a second session", async () => {
		const { hook, host, tree, cwd } = hostsIn("My Project");
		fs.mkdirSync(path.join(cwd, ".git"));
		fs.mkdirSync(path.join(cwd, "src"));
		const [a, b] = [host(), host()];
		await hook(a, "claude", "SessionStart", { model: "opus", cwd: path.join(cwd, "src") });
		await hook(a, "claude", "UserPromptSubmit");
		await hook(a, "codex", "SessionStart");
		await hook(b, "claude", "Stop", {}, { session: "s2" });
		expect(tree.names()).toEqual(["bob", "claude-my-project", "claude-my-project-2", "codex-my-project"]);
		expect(tree.node("claude-my-project").presence()).toMatchObject({
			agent: "claude",
			session: "s1",
			model: "opus",
			status: "thinking",
			wake: "turn",
		});
	});

	test("is regained when the session is resumed, by whichever process; not by another session of another directory", async () => {
		const { hook, host, tree, home } = hostsIn();
		const a = host();
		await hook(a, "claude", "SessionStart");
		a.child.kill("SIGKILL");
		await until(() => !tree.node("claude-proj").live());
		const b = host();
		fs.mkdirSync(path.join(home, "b/proj"), { recursive: true });
		await hook(b, "claude", "SessionStart", { cwd: path.join(home, "b/proj") }, { session: "s2" });
		await hook(host(), "claude", "SessionStart", { source: "resume" });
		expect(tree.names()).toEqual(["bob", "claude-proj", "claude-proj-2"]);
		expect(tree.node("claude-proj").presence()).toMatchObject({ session: "s1" });
		expect(tree.node("claude-proj").live()).toBeDefined();
	});

	test("goes over to the session that follows in the same process; one session in two terminals is two Nodes", async () => {
		const { hook, host, tree } = hostsIn();
		const a = host();
		await hook(a, "claude", "SessionStart");
		await hook(a, "claude", "SessionStart", { source: "clear" }, { session: "s2" });
		expect(tree.names()).toEqual(["bob", "claude-proj"]);
		expect(tree.node("claude-proj").presence()).toMatchObject({ session: "s2" });
		await hook(host(), "claude", "SessionStart", { source: "resume" }, { session: "s2" });
		expect(tree.names()).toEqual(["bob", "claude-proj", "claude-proj-2"]);
	});

	test("is the one that a person gave: --name, or XFER_NODE, unless another process handed that down", async () => {
		const { hook, host, tree } = hostsIn();
		await hook(host(), "codex", "SessionStart", {}, { args: "--name api" });
		await hook(host({ XFER_NODE: "web" }), "claude", "SessionStart");
		const pi = await tree.join("pi").goLive();
		await hook(host({ XFER_NODE: "pi", XFER_INSTANCE: tree.context.instance }), "gemini", "SessionStart");
		pi.end();
		expect(tree.names()).toEqual(["api", "bob", "gemini-proj", "pi", "web"]);
	});

	test("a sub-agent, and a host that reads another's configuration, are nobody", async () => {
		const { hook, host, tree, root, cwd } = hostsIn();
		const claude = host();
		await hook(claude, "claude", "UserPromptSubmit", { agent_id: "a1", agent_type: "Explore" });
		await claude.shell(`true`);
		await hook(claude, "claude", "UserPromptSubmit", { session_id: undefined, sessionId: "vscode", cwd });
		expect(tree.names()).toEqual(["bob"]);
		expect(ls(root)).toEqual(["nodes"]);
	});
});

describe("waiting while idle", () => {
	test("wakes the session for work, by exit 2 and standard error, and not for a note", async () => {
		const { hook, host, send, states, tree } = hostsIn();
		const claude = host();
		await hook(claude, "claude", "UserPromptSubmit");
		const [, waited] = [await hook(claude, "claude", "Stop"), hook(claude, "claude", "wait")];
		await until(() => tree.node("claude-proj").presence().wake === "now");
		send("claude-proj", "just so you know", { kind: "note", subject: "note" });
		send("claude-proj", "do this", { subject: "task" });
		const { code, out, err } = await waited;
		expect({ code, out }).toEqual({ code: 2, out: "" });
		expect(err).toContain("do this");
		expect(states("claude-proj")).toEqual({ note: "read", task: "read" });
		expect(tree.node("claude-proj").presence()).toMatchObject({ status: "thinking" });
	});

	test("there is one for each Node, and it lets a session that works alone", async () => {
		const { hook, host, root, send, states, tree } = hostsIn();
		const claude = host();
		await hook(claude, "claude", "UserPromptSubmit");
		const waiters = Array.from({ length: 4 }, () => hook(claude, "claude", "wait"));
		const codes = waiters.map((waiter) => waiter.then(({ code }) => code));
		await until(() => processes(root, "\0wait").length === 1, "three of them to end");
		send("claude-proj", "do this", { subject: "task" });
		const before = fs.readFileSync(path.join(root, "nodes/claude-proj/.hook/waiter"), "utf8");
		await hook(claude, "claude", "PreToolUse", { tool_name: "Bash" });
		expect(states("claude-proj")).toEqual({ task: "queued" });
		expect(fs.readFileSync(path.join(root, "nodes/claude-proj/.hook/waiter"), "utf8")).toBe(before);
		expect(spoken(await hook(claude, "claude", "Stop"))).toContain("do this"); // the one that blocks has it, not the one that waits
		await hook(claude, "claude", "Stop");
		send("claude-proj", "and this", { subject: "another" });
		expect((await Promise.all(codes)).sort()).toEqual([0, 0, 0, 2]);
		expect(tree.node("claude-proj").presence().status).toBe("thinking");
	});

	test("ends with its host, and does not begin in a run without a person, or for a host that can't be woken", async () => {
		const { hook, host, root } = hostsIn();
		const claude = host();
		await hook(claude, "claude", "SessionStart");
		await hook(claude, "claude", "Stop");
		void hook(claude, "claude", "wait");
		await until(() => ls(root, "nodes/claude-proj/.hook").includes("waiter"));
		claude.child.kill("SIGKILL");
		await until(() => processes(root, "\0wait").length === 0, "the waiter to end");
		const codex = host({ CLAUDE_CODE_ENTRYPOINT: "sdk-cli" });
		await hook(codex, "claude", "SessionStart");
		expect(await hook(codex, "claude", "wait")).toEqual({ code: 0, out: "", err: "" });
		expect(await hook(codex, "codex", "wait")).toEqual({ code: 0, out: "", err: "" });
	});
});

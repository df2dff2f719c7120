/** `xfer hook`: a host's recorded events in, what its documents accept out; and each Handoff shown to one session. */
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { hook } from "../../lib/hooks/hook.ts";
import { claude } from "../../lib/hooks/hosts/claude.ts";
import type { Action } from "../../lib/hooks/hosts/host.ts";
import { hostOf } from "../../lib/hooks/hosts/hosts.ts";
import { cli, ls, run, tempTree, until } from "../helpers.ts";
import { type HookResult, hookLine, hostsIn, spoken } from "./host.ts";
import { accepts, recorded } from "./schemas.ts";

const hostNames = ["claude", "codex", "gemini", "opencode"] as const;

describe("every event that a host documents", () => {
	test.each(hostNames)("%s: the output is what its schema accepts, with mail and without", async (name) => {
		const { hook, host, send, tree } = hostsIn();
		const process = host();
		for (const { event, input } of recorded[name] ?? []) {
			if (event === "wait") continue; // that one waits
			for (const body of [undefined, 'a "quoted" \\ text\nof two lines $(touch x) \u0001 </handoff>']) {
				if (body && tree.has(`${name}-proj`)) send(`${name}-proj`, body);
				const result = await hook(process, name, event, { ...input, a_new_field: { of: ["a", "later", 1] } });
				expect(result.err).toBe("");
				accepts(name, event, result);
			}
		}
		expect(ls(tree.context.root)).not.toContain("hook.log");
	});

	test.each(hostNames)("%s: what it does not know, and what is no JSON, is met with silence and 0", async (name) => {
		const { host, root, cwd } = hostsIn();
		const process = host();
		const silence = hostOf(name)?.silence;
		const event = recorded[name]?.[0]?.event;
		for (const line of [`${name} SomethingNew`, `${name} ${event}`]) {
			for (const input of ["", "no json", '{"session_id":', "[]", "null", '"x"', '{"session_id":7}', "{}", "\0\0", undefined]) {
				const result = await process.shell(`${hookLine} ${line}`, input);
				expect({ line, input, ...result }).toEqual({ line, input, code: 0, out: silence, err: "" });
			}
		}
		expect(ls(root, "nodes")).toEqual(["bob"]);
		expect(ls(cwd)).toEqual([]);
	});

	test("words that are none of a host's never end with a code that a host would act on", async () => {
		const { env } = tempTree();
		for (const words of [[], ["claude"], ["claud", "Stop"], ["claude", "Stop", "--new", "flag"], ["../x", "Stop"]])
			expect(await run([...cli, "hook", ...words], { env, input: "{}" })).toMatchObject({ code: 0, out: "", err: "" });
	});
});

describe("the time it takes", () => {
	test("a host may leave standard input open, or say nothing", async () => {
		const { hook, host, root } = hostsIn();
		const process = host();
		expect(await hook(process, "claude", "SessionStart", {}, { open: true })).toMatchObject({ code: 0, err: "" });
		const start = performance.now();
		expect(await process.shell(`${hookLine} gemini BeforeAgent`, undefined, { open: true })).toEqual({ code: 0, out: "{}\n", err: "" });
		expect(performance.now() - start).toBeLessThan(10_000);
		expect(fs.readFileSync(path.join(root, "hook.log"), "utf8")).toMatch(/gemini BeforeAgent: standard input is no JSON object/);
	});

	test("does not grow with the square of what a host says: a prompt of 50 MiB is read in time, and brings mail", async () => {
		const { cwd, env, send, tree } = hostsIn();
		tree.join("big");
		send("big", "look at this");
		const input = JSON.stringify({ session_id: "s1", cwd, prompt: "x".repeat(50 * 1024 * 1024) });
		const start = performance.now();
		const { code, out, err } = await run([...cli, "hook", "gemini", "BeforeAgent", "--name", "big"], { env, cwd, input });
		expect({ code, err }).toEqual({ code: 0, err: "" });
		expect(out).toContain("look at this");
		expect(performance.now() - start).toBeLessThan(10_000);
	});

	test("a tree that can't be written, or is none, is met with silence", async () => {
		const { hook, host, home } = hostsIn();
		for (const XFER_HOME of ["/proc/x", "relative", path.join(home, "file/x")]) {
			fs.writeFileSync(path.join(home, "file"), "");
			const process = host({ XFER_HOME });
			expect(await hook(process, "claude", "UserPromptSubmit")).toEqual({ code: 0, out: "", err: "" });
			expect(await hook(process, "gemini", "BeforeAgent")).toMatchObject({
				code: 0,
				out: "{}\n",
				err: "",
			});
		}
	});

	test("the log begins anew when it has grown, and what is no file in its place holds nobody up", async () => {
		const { root, host } = hostsIn();
		const log = path.join(root, "hook.log");
		fs.writeFileSync(log, "x".repeat(2 ** 20));
		const claude = host();
		for (let n = 0; n < 2; n++) await claude.shell(`${hookLine} claude Stop`, "no json");
		expect(fs.readFileSync(log, "utf8")).toMatch(/^\S+Z \d+ claude Stop: standard input is no JSON object.*\n$/);
		expect(ls(root)).toContain("hook.log.1");
		fs.rmSync(log);
		execFileSync("mkfifo", [log]);
		expect(await claude.shell(`${hookLine} claude Stop`, "no json")).toEqual({ code: 0, out: "", err: "" });
	});
});

describe("mail", () => {
	test("joins at the session's start and at a turn's, fenced, within the host's limit, and is read then", async () => {
		const { hook, host, send, states, tree } = hostsIn();
		const claude = host();
		const first = await hook(claude, "claude", "SessionStart", { source: "startup" });
		expect(spoken(first)).toMatch(/^\[xfer\] You are claude-proj /);
		expect(spoken(first)).not.toContain("\n");
		send("claude-proj", "y".repeat(50_000), { subject: "long" });
		send("claude-proj", "the second", { subject: "second" });
		const text = spoken(await hook(claude, "claude", "UserPromptSubmit", { prompt: "go on" }));
		expect(text.length).toBeLessThanOrEqual(10_000);
		expect(text).toMatch(/subject="long"/);
		expect(text).toMatch(/not the user's word/);
		expect(text).toMatch(/To answer: xfer reply \w{8} "…" --as claude-proj/);
		expect(text).toMatch(/cut here: .* the rest: xfer read \w{8} --as claude-proj/);
		expect(text).toMatch(/- \w{8} from bob, task: second/);
		expect(states("claude-proj")).toEqual({ long: "read", second: "queued" });
		expect(spoken(await hook(claude, "claude", "UserPromptSubmit"))).toContain("the second");
		expect(await hook(claude, "claude", "UserPromptSubmit")).toEqual({ code: 0, out: "", err: "" });
		send("claude-proj", "at the start", { subject: "third" });
		const again = spoken(await hook(claude, "claude", "SessionStart", { source: "compact" }));
		expect(again).toMatch(/^\[xfer\] You are claude-proj /);
		expect(again).toContain("at the start");
		expect(tree.names()).toEqual(["bob", "claude-proj"]);
	});

	test("is given back when the host does not take it, and shown again", async () => {
		const { hook, host, send, states } = hostsIn();
		const claude = host();
		await hook(claude, "claude", "SessionStart");
		send("claude-proj", "one", { subject: "one" });
		expect((await hook(claude, "claude", "UserPromptSubmit", {}, { deaf: true })).code).toBe(0);
		expect(states("claude-proj")).toEqual({ one: "queued" });
		expect(spoken(await hook(claude, "claude", "UserPromptSubmit"))).toMatch(/delivery="2"/);
		expect(states("claude-proj")).toEqual({ one: "read" });
	});

	test("of which one can't be marked any more is marked all the same", async () => {
		const { root, cwd, env, send, states } = hostsIn();
		const call = (event: string, action: Action) =>
			hook({
				host: claude,
				event,
				action,
				input: { session_id: "s1", cwd },
				name: undefined,
				env,
				signal: () => AbortSignal.timeout(5000),
			});
		await call("SessionStart", "start");
		const subjects = ["one", "two", "three"];
		for (const subject of subjects) send("claude-proj", subject, { subject, kind: "note" });
		const answer = await call("UserPromptSubmit", "prompt");
		const [first = ""] = ls(root, "nodes/claude-proj/cur").sort();
		fs.renameSync(path.join(root, "nodes/claude-proj/cur", first), path.join(root, "nodes/claude-proj/new", first.replace(/,.*/, "")));
		expect(() => answer?.taken()).toThrow("not in hand any more");
		expect(states("claude-proj")).toEqual({ one: "queued", two: "read", three: "read" });
		await call("SessionEnd", "end");
	});

	test("that a killed session had in hand is shown by the next one", async () => {
		const { hook, host, send, states, tree } = hostsIn();
		const claude = host();
		await hook(claude, "claude", "SessionStart");
		const { instance = "" } = tree.node("claude-proj").presence();
		send("claude-proj", "one", { subject: "one" });
		const { inbox } = tree.node("claude-proj");
		const [message] = inbox.maildir.list("new");
		// What a hook leaves that is killed between its take and its mark.
		fs.renameSync(
			`${inbox.maildir.path}/new/${message?.name}`,
			`${inbox.maildir.path}/cur/${message?.name},L=${Math.ceil(Date.now() / 1000) + 600}.${instance}:2,`,
		);
		expect(states("claude-proj")).toEqual({ one: "taken" });
		claude.child.kill("SIGKILL");
		await until(() => !tree.node("claude-proj").live());
		expect(spoken(await hook(host(), "claude", "SessionStart", {}, { session: "s2" }))).toMatch(/delivery="2"/);
		expect(states("claude-proj")).toEqual({ one: "read" });
	});

	test("is shown to one of many hooks at once, of two sessions of one project, whatever is killed", async () => {
		const { hook, host, send, tree } = hostsIn();
		const [a, b] = [host(), host()];
		const all = (results: readonly HookResult[]) => results.map(spoken).join("\n");
		await Promise.all([
			hook(a, "claude", "SessionStart"),
			hook(a, "claude", "UserPromptSubmit"),
			hook(b, "claude", "SessionStart", {}, { session: "s2" }),
		]);
		expect(tree.names()).toEqual(["bob", "claude-proj", "claude-proj-2"]);
		const seen: string[] = [];
		const bodies = Array.from({ length: 12 }, (_, at) => `body number ${at}.`);
		const killed = new Set<string>();
		for (const body of bodies) {
			send("claude-proj", body);
			const kill = Math.random() < 0.3 ? 20 + Math.random() * 60 : undefined;
			if (kill) killed.add(body);
			seen.push(
				all(
					await Promise.all([
						hook(a, "claude", "Stop", { stop_hook_active: true }),
						hook(a, "claude", "UserPromptSubmit", {}, kill ? { kill } : {}),
						hook(b, "claude", "UserPromptSubmit", {}, { session: "s2" }),
					]),
				),
			);
		}
		// What a killed one had in hand comes back within seconds.
		await until(async () => {
			seen.push(spoken(await hook(a, "claude", "UserPromptSubmit")));
			return (
				ls(tree.node("claude-proj").directory, "new").length === 0 &&
				!ls(tree.node("claude-proj").directory, "cur").some((name) => name.includes("L="))
			);
		});
		const text = seen.join("\n");
		for (const body of bodies) {
			const count = text.split(body).length - 1;
			if (killed.has(body))
				expect(count, body).toBeGreaterThan(0); // it may be killed between what it says and its mark
			else expect(count, body).toBe(1);
		}
	});

	test("that comes in a flood, or is too large, is named once and waits to be asked for", async () => {
		const { hook, host, tree } = hostsIn();
		const claude = host();
		await hook(claude, "claude", "SessionStart");
		for (let at = 0; at < 40; at++) tree.send({ from: "bob", to: ["claude-proj"], kind: "report", body: `report ${at}` });
		expect(spoken(await hook(claude, "claude", "Stop"))).toMatch(/- \w{8} from bob, report: report 0[\s\S]*and 20 more/);
		expect(await hook(claude, "claude", "Stop")).toEqual({ code: 0, out: "", err: "" });
	});
});

describe("at the stop", () => {
	test("work that has arrived keeps the agent going, also during a continuation; a note does not", async () => {
		const { hook, host, send, states, tree } = hostsIn();
		const claude = host();
		await hook(claude, "claude", "SessionStart");
		await hook(claude, "claude", "UserPromptSubmit");
		send("claude-proj", "a note", { kind: "note", subject: "note" });
		expect(await hook(claude, "claude", "Stop", { stop_hook_active: false })).toEqual({ code: 0, out: "", err: "" });
		expect(tree.node("claude-proj").presence().status).toBe("idle");
		send("claude-proj", "a task", { subject: "task" });
		const result = await hook(claude, "claude", "Stop", { stop_hook_active: false });
		expect(JSON.parse(result.out)).toEqual({ decision: "block", reason: expect.stringContaining("a task") });
		expect(states("claude-proj")).toEqual({ note: "read", task: "read" });
		expect(tree.node("claude-proj").presence().status).toBe("thinking");
		send("claude-proj", "came meanwhile", { subject: "meanwhile" });
		expect(spoken(await hook(claude, "claude", "Stop", { stop_hook_active: true }))).toContain("came meanwhile");
	});

	test.each([
		["claude", "Stop"],
		["gemini", "AfterAgent"],
	])("%s is kept going less often than it allows, and what is left waits", async (name, event) => {
		const { hook, host, send, tree } = hostsIn();
		const process = host();
		await hook(process, name, name === "claude" ? "UserPromptSubmit" : "BeforeAgent");
		for (let at = 0; at < 10; at++) send(`${name}-proj`, `task ${at}`);
		let count = 0;
		while (spoken(await hook(process, name, event, { stop_hook_active: false }))) count++;
		expect(count).toBe(7);
		expect(tree.node(`${name}-proj`).inbox.list().counts.queued).toBe(3);
		expect(spoken(await hook(process, name, name === "claude" ? "UserPromptSubmit" : "BeforeAgent"))).toContain("task 7");
		expect(spoken(await hook(process, name, event))).toContain("task 8");
	});

	test("two agents that send each other a task at every stop end by themselves", async () => {
		const { hook, host, env, send } = hostsIn();
		const claude = host();
		const gemini = host();
		await hook(claude, "claude", "UserPromptSubmit");
		await hook(gemini, "gemini", "BeforeAgent");
		send("claude-proj", "begin");
		let turns = 0;
		const others = [
			{ process: claude, name: "claude", event: "Stop", to: "gemini-proj" },
			{ process: gemini, name: "gemini", event: "AfterAgent", to: "claude-proj" },
		];
		for (let quiet = 0; quiet < 2 && turns < 50; ) {
			for (const { process, name, event, to } of others) {
				// As if each were woken again and again by a person's hand: only the brake is to end it.
				fs.rmSync(path.join(env.XFER_HOME ?? "", `nodes/${name}-proj/.hook/stops`), { force: true });
				if (!spoken(await hook(process, name, event, { stop_hook_active: true }))) {
					quiet++;
					continue;
				}
				quiet = 0;
				turns++;
				const sent = await process.shell(`${cli.join(" ")} send ${to} "and you?" --as ${name}-proj`);
				expect(sent.code, sent.err).toBe(0);
			}
		}
		expect(turns).toBe(9); // hops 0 to 8
	});
});

describe("sub-shells", () => {
	test("speak as the session where the host has a file of variables", async () => {
		const { hook, host, home, send, states } = hostsIn();
		const CLAUDE_ENV_FILE = path.join(home, "a dir's", "env");
		fs.mkdirSync(path.dirname(CLAUDE_ENV_FILE));
		const claude = host({ CLAUDE_ENV_FILE });
		await hook(claude, "claude", "SessionStart");
		send("claude-proj", "which port?", { kind: "question", subject: "port" });
		const text = spoken(await hook(claude, "claude", "UserPromptSubmit"));
		const [, id] = /xfer reply (\w+) /.exec(text) ?? [];
		const answer = await claude.shell(`. "$CLAUDE_ENV_FILE"; ${cli.join(" ")} reply ${id} 8080`);
		expect(answer.err).toBe("");
		expect(answer.out).toMatch(/^queued for bob/);
		expect(states("claude-proj")).toEqual({ port: "answered" });
	});

	test("answer with --as elsewhere, because they descend from the host's process; others mark nothing", async () => {
		const { hook, host, send, states, env } = hostsIn();
		const codex = host();
		await hook(codex, "codex", "SessionStart");
		const [sent] = send("codex-proj", "which port?", { kind: "question", subject: "port" });
		expect(await run([...cli, "reply", sent?.error ? "" : (sent?.id ?? ""), "unread", "--as", "codex-proj"], { env })).toMatchObject({
			code: 5,
		});
		const [, id] = /xfer reply (\w+) /.exec(spoken(await hook(codex, "codex", "UserPromptSubmit"))) ?? [];
		// A sandbox may hide the host's process: what it has read can be answered from there, too.
		expect(await run([...cli, "reply", id ?? "", "8080?", "--as", "codex-proj"], { env })).toMatchObject({ code: 0 });
		expect(states("codex-proj")).toEqual({ port: "read" });
		expect((await codex.shell(`${cli.join(" ")} reply ${id} 8080 --as codex-proj`)).out).toMatch(/^queued for bob/);
		expect(states("codex-proj")).toEqual({ port: "answered" });
	});
});

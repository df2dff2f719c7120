/** Which Node a session of pi is: who gave the name, what happens when it is taken, and that it comes back. */
import fs from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { openTree } from "../../lib/index.ts";
import { ls, until } from "../helpers.ts";
import { makeAgent, makeWorld, type Pi, type PiOptions, startPi, type World } from "./pi.ts";

/** The Node that this pi is. */
const nodeOf = (world: World, pi: Pi) =>
	until(
		() => world.tree.nodes().find(({ live, presence }) => live?.pid === pi.pid && presence.pid === String(pi.pid))?.name,
		"pi to be a Node",
	);

/** Starts a pi in this directory of the HOME, and says which Node it is. */
async function be(world: World, directory: string, options: PiOptions = {}): Promise<{ pi: Pi; name: string }> {
	const cwd = path.join(world.home, directory);
	const pi = await startPi(world, { cwd, ...options });
	return { pi, name: await nodeOf(world, pi) };
}

/** Waits until pi says something that has these words; then it is no Node. */
async function refused(world: World, pi: Pi, words: RegExp): Promise<void> {
	await until(() => pi.notices().some((notice) => words.test(notice)), `it to say ${words}`);
	expect(world.tree.nodes().filter(({ live }) => live?.pid === pi.pid)).toEqual([]);
	await pi.prompt("still there?");
	await pi.idle();
	expect(pi.model.requests).toHaveLength(1);
}

describe("a name that is given", () => {
	test("is the Node's, folded to lower case", async () => {
		const world = makeWorld();
		const { name } = await be(world, "work", { args: ["--xfer", "Alice"] });
		expect(name).toBe("alice");
		expect(world.tree.names()).toEqual(["alice"]);
	});

	test("goes before the session's name and the environment, and stays when the session is renamed", async () => {
		const world = makeWorld();
		const { pi, name } = await be(world, "work", { args: ["--xfer", "alice", "--name", "other"], env: { XFER_NODE: "third" } });
		expect(name).toBe("alice");
		await pi.send({ type: "set_session_name", name: "fourth" });
		await pi.prompt("hello");
		await pi.idle();
		expect(ls(world.root, "nodes")).toEqual(["alice"]);
	});

	test("is refused when it does not fit, with what fits", async () => {
		const world = makeWorld();
		const pi = await startPi(world, { args: ["--xfer", "My Agent!"] });
		await refused(world, pi, /My Agent!.*is not a Node name.*a-z/);
		expect(ls(world.root, "nodes")).toEqual([]);
	});

	test("is refused while another pi has it; that one keeps it, and its mail", async () => {
		const world = makeWorld();
		const first = await startPi(world, { node: "alice" });
		const second = await startPi(world, { args: ["--xfer", "alice"] });
		await refused(world, second, /alice is live/);
		expect(world.tree.node("alice").live()?.pid).toBe(first.pid);
		const id = world.send("alice", "for the first");
		await until(() => world.state("alice", id) === "read", "it to be read");
		expect((await first.injected()).flatMap(({ ids }) => ids)).toEqual([id]);
		expect(await second.injected()).toEqual([]);
	});

	test("is free at once when the one who had it was killed", async () => {
		const world = makeWorld();
		const first = await startPi(world, { node: "alice" });
		await first.kill("SIGKILL");
		const { name } = await be(world, "elsewhere", { args: ["--xfer", "alice"] });
		expect(name).toBe("alice");
	});
});

describe("the session's name", () => {
	test("becomes the Node's: with capitals and spaces a slug", async () => {
		const world = makeWorld();
		const { name } = await be(world, "work", { args: ["--name", "My Cool  Session: v2"] });
		expect(name).toBe("my-cool-session-v2");
	});

	test("gets a suffix when it is taken", async () => {
		const world = makeWorld();
		await startPi(world, { node: "reviewer" });
		const { name } = await be(world, "work", { args: ["--name", "Reviewer"] });
		expect(name).toBe("reviewer-2");
	});

	test("changed later is one more name of the same Node", async () => {
		const world = makeWorld();
		const { pi, name } = await be(world, "work");
		expect(name).toBe("work");
		await pi.send({ type: "set_session_name", name: "The Second Name" });
		await until(() => world.tree.has("the-second-name"), "the other name");
		expect(fs.readlinkSync(path.join(world.root, "nodes/the-second-name"))).toBe("work");
		const id = world.send("the-second-name", "under the new name");
		await until(() => world.state("work", id) === "read", "it to be read");
	});

	test("changed before the session is a Node is not missed", async () => {
		const world = makeWorld();
		// A holder that is elsewhere and has missed its refreshes: its lock is watched for a while before it is taken over.
		const lock = path.join(world.tree.join("work").directory, "live.lock");
		const holder = path.join(lock, "zzzzzzzz");
		fs.mkdirSync(lock);
		fs.writeFileSync(holder, "elsewhere - 1\n");
		fs.utimesSync(holder, 0, 0);
		const tried = new Promise<void>((resolve) => fs.watch(lock, { persistent: false }).once("change", resolve));
		const pi = await startPi(world, { cwd: path.join(world.home, "work") });
		await tried;
		await pi.send({ type: "set_session_name", name: "renamed meanwhile" });
		expect(world.isLive("work")).toBe(false);
		fs.rmSync(holder);
		await until(() => world.tree.has("renamed-meanwhile"), "the other name");
		expect(world.tree.node("renamed-meanwhile").name).toBe("work");
	});

	test("changed to another Node's is refused, and nothing changes", async () => {
		const world = makeWorld();
		world.tree.join("bob");
		const { pi } = await be(world, "work");
		await pi.send({ type: "set_session_name", name: "bob" });
		await until(() => pi.notices().some((notice) => /bob is another Node/.test(notice)), "it to say so");
		expect(fs.lstatSync(path.join(world.root, "nodes/bob")).isDirectory()).toBe(true);
		const id = world.send("work", "still there");
		await until(() => world.state("work", id) === "read", "it to be read");
	});
});

describe("$XFER_NODE", () => {
	test("names it", async () => {
		const world = makeWorld();
		const { name } = await be(world, "work", { env: { XFER_NODE: "carol" } });
		expect(name).toBe("carol");
	});

	test("that a live pi handed down to its shell does not: what runs in there is another Node, and not that instance", async () => {
		const world = makeWorld();
		const outer = await startPi(world, { node: "outer" });
		await outer.prompt('TOOL:echo "$XFER_NODE $XFER_INSTANCE $XFER_HOME"END');
		await outer.idle();
		const [node, instance, home] = outer.model.requests.at(-1)?.last.trim().split(" ") ?? [];
		expect([node, instance, home]).toEqual(["outer", world.tree.node("outer").live()?.instance, world.root]);
		const env = { XFER_NODE: node, XFER_INSTANCE: instance };
		const { pi, name } = await be(world, "inner", { env });
		expect(name).toBe("inner");
		expect(world.tree.node("inner").live()?.instance).not.toBe(instance);
		expect(world.tree.node("outer").live()?.pid).toBe(outer.pid);
		await pi.prompt('TOOL:echo "$XFER_NODE $XFER_INSTANCE"END');
		await pi.idle();
		expect(pi.model.requests.at(-1)?.last.trim()).toBe(`inner ${world.tree.node("inner").live()?.instance}`);
	});

	test("that a live pi handed down before its /new does not either", async () => {
		const world = makeWorld();
		const outer = await startPi(world, { node: "outer" });
		const before = world.tree.node("outer").live()?.instance;
		await outer.send({ type: "new_session" });
		await until(() => ![undefined, before].includes(world.tree.node("outer").live()?.instance), "another instance");
		const { name } = await be(world, "inner", { env: { XFER_NODE: "outer", XFER_INSTANCE: before } });
		expect(name).toBe("inner");
	});

	test("left over by one that has ended does", async () => {
		const world = makeWorld();
		const { name } = await be(world, "work", { env: { XFER_NODE: "carol", XFER_INSTANCE: "k3f9q2ab" } });
		expect(name).toBe("carol");
	});
});

describe("a derived name", () => {
	test("is that of the repository, else of the directory", async () => {
		const world = makeWorld();
		fs.mkdirSync(path.join(world.home, "My Project/.git"), { recursive: true });
		fs.mkdirSync(path.join(world.home, "My Project/src/deep"), { recursive: true });
		expect((await be(world, "My Project/src/deep")).name).toBe("my-project");
		expect((await be(world, "Some Where")).name).toBe("some-where");
	});

	test("is never a word with a meaning, nor the person's", async () => {
		const world = makeWorld();
		for (const directory of ["all", "unknown", "root", "---", "日本"]) {
			const { pi, name } = await be(world, directory);
			expect(name).not.toMatch(/^(?:all|unknown|root)$/);
			await pi.stop();
		}
	});

	test("gets a suffix while it is live, and each Node its own mail", async () => {
		const world = makeWorld();
		const all = [await be(world, "work"), await be(world, "work"), await be(world, "work")];
		expect(all.map(({ name }) => name)).toEqual(["work", "work-2", "work-3"]);
		const ids = all.map(({ name }) => world.send(name, `for ${name}`));
		for (const [n, { pi, name }] of all.entries()) {
			await until(() => world.state(name, ids[n] as string) === "read", `${name} to read`);
			expect((await pi.injected()).flatMap((one) => one.ids)).toEqual([ids[n]]);
		}
	});

	test("is had by one each, when several start at once", async () => {
		const world = makeWorld();
		const all = await Promise.all(Array.from({ length: 4 }, () => be(world, "work")));
		expect(all.map(({ name }) => name).sort()).toEqual(["work", "work-2", "work-3", "work-4"]);
		for (const { pi, name } of all) expect(world.tree.node(name).live()?.pid).toBe(pi.pid);
	});

	test("is not the Node of another directory: its mail is not for this one", async () => {
		const world = makeWorld();
		const first = await be(world, "a/api");
		await first.pi.stop();
		const id = world.send("api", "for the one in a");
		const second = await be(world, "b/api");
		expect(second.name).toBe("api-2");
		const marker = world.send("api-2", "marker");
		await until(() => world.state("api-2", marker) === "read", "the marker");
		expect(world.state("api", id)).toBe("queued");
		expect((await be(world, "a/api")).name).toBe("api");
		await until(() => world.state("api", id) === "read", "the first to read");
	});
});

describe("a resumed session", () => {
	test("is the Node that it was, though another name would be nearer", async () => {
		const world = makeWorld();
		const first = await be(world, "work");
		const second = await be(world, "work");
		expect(second.name).toBe("work-2");
		await second.pi.prompt("remember me");
		await second.pi.idle();
		await second.pi.stop();
		await first.pi.stop();
		const id = world.send("work-2", "while you were away");
		const again = await be(world, "work", { agent: second.pi.agent, args: ["--continue"] });
		expect(again.name).toBe("work-2");
		await until(() => world.state("work-2", id) === "read", "it to be read");
	});

	test("in two processes is two Nodes, and each Handoff reaches one of them", async () => {
		const world = makeWorld();
		const first = await be(world, "work", { args: ["--session-id", "shared"] });
		await first.pi.prompt("remember me");
		await first.pi.idle();
		const second = await be(world, "work", { agent: first.pi.agent, args: ["--session-id", "shared"] });
		expect([first.name, second.name]).toEqual(["work", "work-2"]);
		const ids = [world.send("work", "for one"), world.send("work-2", "for two")];
		await until(() => world.all("work", "read") && world.all("work-2", "read"), "both to be read");
		for (const { pi } of [first, second]) await pi.idle();
		expect((await first.pi.injected()).flatMap((one) => one.ids)).toEqual([ids[0]]);
		expect((await second.pi.injected()).flatMap((one) => one.ids)).toEqual([ids[1]]);
	});
});

describe("the end of pi", () => {
	test("lets the name go: the Node is a mailbox, and nothing of the instance is left", async () => {
		const world = makeWorld();
		const pi = await startPi(world, { node: "alice" });
		expect(await pi.stop()).toEqual({ code: 0, signal: null });
		expect(world.isLive("alice")).toBe(false);
		expect(ls(world.root, "nodes/alice")).not.toContain("live.lock");
		expect(ls(world.root, "nodes/alice/tmp")).toEqual([]);
	});

	test("by SIGTERM too", async () => {
		const world = makeWorld();
		const pi = await startPi(world, { node: "alice" });
		await pi.kill("SIGTERM");
		expect(ls(world.root, "nodes/alice")).not.toContain("live.lock");
	});
});

test("a process that slept while another took its name takes a suffix, says so, and goes on", { timeout: 300_000 }, async () => {
	const world = makeWorld();
	const pi = await startPi(world, { node: "alice" });
	await pi.prompt("before the sleep");
	await pi.idle();
	pi.child.kill("SIGSTOP");
	// 40 s: what holds a name without refreshing it has lost it after 15 s, seen twice that far apart.
	const slept = Date.now() + 40_000;
	const other = openTree({ root: world.root, durable: false, env: {} });
	const live = await until(
		async () =>
			await other
				.node("alice")
				.goLive({ agent: "other", cwd: "/elsewhere" })
				.catch(() => undefined),
		"the name to be free",
		120_000,
	);
	const held = world.send("alice", "for whoever has the name");
	await until(() => Date.now() > slept, "40 s");
	pi.child.kill("SIGCONT");
	const name = await until(
		() => world.tree.nodes().find((node) => node.live?.pid === pi.pid)?.name,
		"the one that slept to have another name",
	);
	expect(name).toBe("alice-2");
	await until(() => pi.notices().some((notice) => notice.includes("alice-2")), "it to say so");
	expect(world.tree.node("alice").live()?.instance).toBe(live.lock && other.context.instance);
	expect(world.state("alice", held)).toBe("queued");
	const id = world.send("alice-2", "good morning");
	await until(() => world.state("alice-2", id) === "read", "it to be read");
	await pi.idle();
	await pi.prompt('TOOL:echo "$XFER_NODE"END');
	await pi.idle();
	expect(pi.model.requests.at(-1)?.last.trim()).toBe("alice-2");
	live.end();
});

test("a process that slept while nobody took its name has it still", { timeout: 300_000 }, async () => {
	const world = makeWorld();
	const pi = await startPi(world, { node: "alice" });
	pi.child.kill("SIGSTOP");
	const slept = Date.now() + 20_000;
	const id = world.send("alice", "while you sleep");
	await until(() => Date.now() > slept, "20 s");
	pi.child.kill("SIGCONT");
	await until(() => world.state("alice", id) === "read", "it to be read");
	expect(world.tree.node("alice").live()?.pid).toBe(pi.pid);
	expect(world.tree.names()).toEqual(["alice", "bob"]);
});

test("a session without a name to have is none, and says what to do", async () => {
	const world = makeWorld();
	const agent = await makeAgent(world, { node: "work" });
	fs.mkdirSync(world.root);
	fs.writeFileSync(path.join(world.root, "nodes"), "in the way");
	const pi = await startPi(world, { agent });
	await until(() => pi.notices().length > 0, "it to say so");
	await pi.prompt("still there?");
	await pi.idle();
	expect(pi.model.requests).toHaveLength(1);
});

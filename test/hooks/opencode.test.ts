/** The plugin for opencode, run as opencode runs it: a module in a process that holds many sessions, which calls back. */
import fs from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";
import { expect, test } from "vitest";
import { plugin } from "../../lib/hooks/hosts/opencode-plugin.ts";
import { cli, start, until } from "../helpers.ts";
import { hostsIn } from "./host.ts";

/** Calls the plugin's hooks by the lines of its standard input, and prints what it is asked to do, a JSON array a line. */
const program = `
import { createInterface } from "node:readline";
const { xfer } = await import(process.argv[1]);
const tell = (...what) => process.stdout.write(JSON.stringify(what) + "\\n");
let refuse = false;
const client = { session: {
	get: async ({ path }) => ({ data: path.id.startsWith("sub") ? { parentID: "s1" } : {} }),
	promptAsync: async ({ path, body }) => { tell("prompt", path.id, body.parts[0].text); if (refuse) throw new Error("gone"); },
} };
const hooks = await xfer({ client, directory: process.cwd() });
createInterface({ input: process.stdin }).on("line", async (line) => {
	const [what, id] = JSON.parse(line);
	refuse = what === "idle, and then gone";
	if (what === "message") {
		const parts = [{ type: "text", text: "hi" }];
		await hooks["chat.message"]({ sessionID: id }, { message: { id: "m" }, parts });
		tell("message", id, ...parts.slice(1).map(({ text }) => text));
	} else if (what === "env") {
		const output = { env: {} };
		await hooks["shell.env"]({ sessionID: id }, output);
		tell("env", output.env.XFER_NODE);
	} else if (what === "deleted") await hooks.event({ event: { type: "session.deleted", properties: { info: { id } } } });
	else await hooks.event({ event: { type: "session.idle", properties: { sessionID: id } } });
});
`;

function opencode() {
	const all = hostsIn();
	const file = path.join(all.home, "plugin.mjs");
	fs.writeFileSync(file, plugin(cli));
	const argv = [process.execPath, "--input-type=module", "-e", program, file];
	const child = start(argv, { env: { ...all.env, XFER_DURABILITY: "none" }, cwd: all.cwd, stdio: ["pipe", "pipe", "inherit"] });
	const told: string[][] = [];
	if (child.stdout) createInterface({ input: child.stdout }).on("line", (line) => told.push(JSON.parse(line)));
	const say = (what: string, id: string) => child.stdin?.write(`${JSON.stringify([what, id])}\n`);
	const next = async () => {
		await until(() => told.length > 0, "a word of the plugin");
		return told.shift() as string[];
	};
	const wake = (name: string) =>
		until(() => all.tree.has(name) && all.tree.node(name).presence().wake === "now", `${name} to wait for mail`);
	return { ...all, child, say, next, told, wake };
}

test("a session is a Node from its first message on, mail joins it, and its shells speak as it; another session is another Node", async () => {
	const { say, next, send, states } = opencode();
	say("message", "s1");
	expect(await next()).toEqual(["message", "s1", expect.stringContaining("You are opencode-proj")]);
	send("opencode-proj", "look at this", { kind: "note", subject: "note" });
	say("message", "s1");
	expect(await next()).toEqual(["message", "s1", expect.stringMatching(/<handoff id="\w+" from="bob"[\s\S]*look at this/)]);
	await until(() => states("opencode-proj").note === "read");
	say("env", "s1");
	expect(await next()).toEqual(["env", "opencode-proj"]);
	say("message", "s2");
	expect(await next()).toEqual(["message", "s2", expect.stringContaining("You are opencode-proj-2")]);
	say("message", "sub1"); // a sub-agent is nobody
	expect(await next()).toEqual(["message", "sub1"]);
});

test("an idle session is woken by work, and by work that came while it ran; not by a note", async () => {
	const { say, next, send, states, wake, told } = opencode();
	say("message", "s1");
	await next();
	send("opencode-proj", "while you ran", { subject: "first" });
	say("idle", "s1");
	expect(await next()).toEqual(["prompt", "s1", expect.stringContaining("while you ran")]);
	say("idle", "s1");
	await wake("opencode-proj");
	send("opencode-proj", "just so you know", { kind: "note", subject: "note" });
	send("opencode-proj", "wake up", { subject: "second" });
	expect(await next()).toEqual(["prompt", "s1", expect.stringContaining("wake up")]);
	await until(() => Object.values(states("opencode-proj")).every((state) => state === "read"));
	expect(told).toEqual([]);
});

test("what the session did not take waits again", async () => {
	const { say, next, send, states, wake } = opencode();
	say("message", "s1");
	await next();
	say("idle, and then gone", "s1");
	await wake("opencode-proj");
	send("opencode-proj", "wake up", { subject: "task" });
	expect(await next()).toEqual(["prompt", "s1", expect.stringContaining("wake up")]);
	await until(() => states("opencode-proj").task === "queued");
	say("message", "s1");
	expect(await next()).toEqual(["message", "s1", expect.stringContaining("wake up")]);
});

test("a session that is deleted, and a process that is killed, are live no more", async () => {
	const { say, next, tree, child } = opencode();
	for (const id of ["s1", "s2"]) {
		say("message", id);
		await next();
	}
	expect(["opencode-proj", "opencode-proj-2"].map((name) => tree.node(name).live() !== undefined)).toEqual([true, true]);
	say("deleted", "s1");
	await until(() => !tree.node("opencode-proj").live());
	child.kill("SIGKILL");
	await until(() => !tree.node("opencode-proj-2").live(), "the lock to go");
});

/** What a pi says of itself in node.md, and what the processes that it starts know of it. */
import fs from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { until } from "../helpers.ts";
import { gate, makeWorld, type Pi, startPi, type World } from "./pi.ts";

const says = (world: World, status: string) => until(() => world.presence("alice").status === status, `node.md to say ${status}`);

describe("node.md", () => {
	test("says who it is: pi, its model, directory and session, and that mail starts it", async () => {
		const world = makeWorld();
		const pi = await startPi(world, { node: "alice" });
		await says(world, "idle");
		const { data } = await pi.send({ type: "get_state" });
		expect(world.presence("alice")).toMatchObject({
			name: "alice",
			agent: "pi",
			model: "stub-1",
			cwd: pi.agent.cwd,
			session: data.sessionId,
			pid: String(pi.pid),
			wake: "now",
			status: "idle",
			instance: world.tree.node("alice").live()?.instance,
		});
		expect(world.presence("alice").holding).toBeUndefined();
	});

	test("follows a run: thinking, the tool, thinking, and idle only when nothing goes on any more", async () => {
		const world = makeWorld();
		const pi = await startPi(world, { node: "alice" });
		const [first, tool, last] = [gate(world), gate(world), gate(world)];
		pi.model.answer = async (_, index) => {
			if (index === 0) return first.opened.then(() => `TOOL:${tool.command}END`);
			return last.opened.then(() => "done");
		};
		await pi.prompt("work");
		await says(world, "thinking");
		first.open();
		await says(world, "tool:bash");
		tool.open();
		await says(world, "thinking");
		last.open();
		await says(world, "idle");
		expect(pi.count("agent_settled")).toBe(1);
	});

	test("says that it waits for a person while a dialog is open", async () => {
		const world = makeWorld();
		const file = path.join(world.home, "asks.ts");
		fs.writeFileSync(
			file,
			'export default (pi: any) => pi.registerCommand("ask", { handler: async (_: string, context: any) => { await context.ui.confirm("May I?", "Really?"); } });',
		);
		const pi = await startPi(world, { node: "alice", after: [file] });
		const asked = pi.next((record) => record.type === "extension_ui_request" && record.method === "confirm");
		const answered = pi.prompt("/ask");
		const { id } = await asked;
		await says(world, "waiting");
		pi.child.stdin?.write(`${JSON.stringify({ type: "extension_ui_response", id, confirmed: true })}\n`);
		await answered;
		await says(world, "idle");
	});

	test("follows the model", async () => {
		const world = makeWorld();
		const pi = await startPi(world, { node: "alice" });
		const models = path.join(pi.agent.directory, "models.json");
		await pi.stop();
		const { providers } = JSON.parse(fs.readFileSync(models, "utf8"));
		providers.stub.models.push({ id: "stub-2" });
		fs.writeFileSync(models, JSON.stringify({ providers }));
		const again = await startPi(world, { node: "alice", agent: pi.agent });
		expect((await again.send({ type: "set_model", provider: "stub", modelId: "stub-2" })).success).toBe(true);
		await until(() => world.presence("alice").model === "stub-2", "node.md to name the model");
	});

	test("names another session after /new", async () => {
		const world = makeWorld();
		const pi = await startPi(world, { node: "alice" });
		const before = world.presence("alice").session;
		await pi.send({ type: "new_session" });
		const { data } = await pi.send({ type: "get_state" });
		expect(data.sessionId).not.toBe(before);
		await until(() => world.presence("alice").session === data.sessionId, "node.md to name the session");
	});

	test("keeps what others say the Node is for", async () => {
		const world = makeWorld();
		world.tree.join("alice", { about: "Reviews everything." });
		const pi = await startPi(world, { node: "alice" });
		await pi.prompt("work");
		await pi.idle();
		await says(world, "idle");
		expect(world.presence("alice").about).toBe("Reviews everything.");
	});

	test("is written five times a second at the most, and says at last what is", async () => {
		const world = makeWorld();
		const pi = await startPi(world, { node: "alice" });
		const tools = 40;
		pi.model.answer = (_, index) => (index < tools ? "TOOL:trueEND" : "done");
		const file = path.join(world.root, "nodes/alice/node.md");
		let writes = 0;
		const watcher = fs.watch(path.dirname(file), (_, name) => {
			if (name === "node.md") writes++;
		});
		const started = Date.now();
		await pi.prompt("work");
		await pi.next("agent_settled", 0);
		await says(world, "idle");
		watcher.close();
		// A replacement is one or two events of the directory.
		expect(writes).toBeLessThanOrEqual(2 * (5 * ((Date.now() - started) / 1000) + 3));
	});
});

describe("what it starts", () => {
	const show = 'TOOL:echo "[$XFER_NODE|$XFER_INSTANCE|$XFER_HOME|$XFER_HOPS]"END';
	const seen = async (pi: Pi) => {
		await pi.idle();
		return pi.model.requests.findLast(({ last }) => last.startsWith("["))?.last.trim();
	};

	test("knows the Node, the instance and the tree", async () => {
		const world = makeWorld();
		const pi = await startPi(world, { node: "alice" });
		await pi.prompt(show);
		expect(await seen(pi)).toBe(`[alice|${world.tree.node("alice").live()?.instance}|${world.root}|]`);
	});

	test("carries one hop more than what the agent works on, until a person speaks", async () => {
		const world = makeWorld();
		const pi = await startPi(world, { node: "alice" });
		const hopsIn = async () => /\|(\d*)\]$/.exec((await seen(pi)) ?? "")?.[1];
		const first = world.send("alice", show, { hops: 3 });
		await until(() => world.state("alice", first) === "read", "it to be read");
		expect(await hopsIn()).toBe("4");
		const second = world.send("alice", show);
		await until(() => world.state("alice", second) === "read", "it to be read");
		await pi.idle();
		expect(await hopsIn()).toBe("1");
		await pi.prompt(show);
		expect(await hopsIn()).toBe("");
	});

	test("does not know them any more once the session is no Node", async () => {
		const world = makeWorld();
		const pi = await startPi(world, { args: ["--xfer", "Not A Name"] });
		await pi.prompt(show);
		expect(await seen(pi)).toBe(`[||${world.root}|]`);
	});
});

/** Two agents that answer each other, by the tool and by the shell: their exchange ends by itself. */
import { describe, expect, test } from "vitest";
import { cli, until } from "../helpers.ts";
import { type Answer, gate, makeWorld, type Pi, runPi, startPi, type World } from "./pi.ts";

const shell = cli.map((word) => `'${word}'`).join(" ");

/** How an agent answers each Handoff of the other: with a new one that wakes. */
const ways: Record<string, (other: string, id: string) => string> = {
	"by the tool": (other, id) => `CALL:xfer_to {"to":"${other}","re":"${id}","kind":"answer","text":"and another thing"}END`,
	"by the tool, without saying what it answers": (other) =>
		`CALL:xfer_to {"to":"${other}","kind":"question","text":"and another thing"}END`,
	"by the shell": (other) => `TOOL:${shell} send ${other} --kind question "and another thing"END`,
	"by the shell, with urgency": (other) => `TOOL:${shell} send ${other} --kind report --priority urgent "and another thing"END`,
	"by the shell's reply": (other, id) => `TOOL:${shell} reply ${id} "and another thing" || ${shell} send ${other} "and another thing"END`,
};

/** Answers what comes from the other, and nothing else. */
const answering =
	(other: string, way: (other: string, id: string) => string): Answer =>
	({ last, messages }) => {
		const id = new RegExp(`^<handoff id="([^"]+)" from="${other}"`, "m").exec(last)?.[1];
		if (last === "begin" || (messages.at(-1)?.role === "user" && id)) return way(other, id ?? "");
		return undefined;
	};

const exchanged = (world: World) =>
	[...world.inbox("alice"), ...world.inbox("bob")].filter(({ from }) => from === "alice" || from === "bob");

async function pair(way: (other: string, id: string) => string): Promise<{ world: World; alice: Pi; bob: Pi }> {
	const world = makeWorld();
	const alice = await startPi(world, { node: "alice", answer: answering("bob", way) });
	const bob = await startPi(world, { node: "bob", answer: answering("alice", way) });
	return { world, alice, bob };
}

describe("two agents that answer each other", () => {
	for (const [how, way] of Object.entries(ways)) {
		test(`${how}: the exchange stops within 8 hops, and all of it is read`, async () => {
			const { world, alice, bob } = await pair(way);
			await alice.prompt('CALL:xfer_to {"to":"bob","kind":"question","text":"the first"}END');
			/** Whether nothing of theirs is on its way: what comes from somebody else has started a run in each, and there is no more of theirs than before. */
			const isOver = async () => {
				const before = exchanged(world).length;
				for (const pi of [alice, bob]) await pi.idle();
				const markers = ["alice", "bob"].map((name) => [name, world.send(name, "a marker", { from: "carol", kind: "question" })] as const);
				for (const [name, id] of markers) await until(() => world.state(name, id) === "read", "the marker");
				for (const pi of [alice, bob]) await pi.idle();
				return before > 0 && exchanged(world).length === before;
			};
			await until(isOver, "the end of the exchange");
			await until(() => exchanged(world).every(({ state }) => state === "read" || state === "answered"), "all of it to be read");
			const hops = exchanged(world).map((item) => item.hops);
			expect(hops.length).toBeLessThanOrEqual(10);
			expect(hops.length).toBeGreaterThanOrEqual(2);
			expect(Math.max(...hops)).toBeLessThanOrEqual(9);
			expect(new Set(hops).size).toBe(hops.length);
		});
	}

	test("work again once a person speaks", async () => {
		const { world, alice, bob } = await pair(ways["by the tool, without saying what it answers"] as (typeof ways)[string]);
		await alice.prompt("begin");
		await until(() => exchanged(world).some(({ hops, state }) => hops > 8 && state === "read"), "the brake");
		for (const pi of [alice, bob]) await pi.idle();
		const before = exchanged(world).length;
		await alice.prompt("begin");
		await until(() => exchanged(world).length >= before + 2, "them to speak again");
		expect(exchanged(world).filter(({ hops }) => hops === 0)).toHaveLength(2);
	});

	test("work again once somebody else hands them new work", async () => {
		const { world, alice, bob } = await pair(ways["by the tool, without saying what it answers"] as (typeof ways)[string]);
		await alice.prompt("begin");
		await until(() => exchanged(world).some(({ hops, state }) => hops > 8 && state === "read"), "the brake");
		for (const pi of [alice, bob]) await pi.idle();
		const before = exchanged(world).length;
		for (const pi of [alice, bob]) pi.model.answer = () => undefined;
		const asked = bob.model.requests.length;
		world.send("alice", 'CALL:xfer_to {"to":"bob","kind":"task","text":"something new"}END', { from: "carol" });
		await until(() => exchanged(world).length === before + 1 && world.all("bob", "read"), "the new work");
		expect(world.inbox("bob").find(({ subject }) => subject === "something new")?.hops).toBe(1);
		await bob.idle();
		expect(bob.model.requests.slice(asked).map(({ last }) => last)).toEqual([expect.stringContaining("something new")]);
	});

	test("and the one that was braked says so", async () => {
		const { world, alice } = await pair(ways["by the tool, without saying what it answers"] as (typeof ways)[string]);
		await alice.prompt("begin");
		await until(() => ["alice", "bob"].some((name) => world.presence(name).holding === "brake"), "a Node to say why mail waits");
	});
});

test("an agent asks another and gets its answer in the same run, if it comes while it works", async () => {
	const world = makeWorld();
	const bob = await startPi(world, {
		node: "bob",
		answer: ({ last }) => {
			const id = /^<handoff id="([^"]+)" from="alice"/m.exec(last)?.[1];
			return id ? `CALL:xfer_to {"re":"${id}","text":"It is 80."}END` : undefined;
		},
	});
	const alice = await startPi(world, { node: "alice" });
	const { command, open } = gate(world);
	alice.model.answer = (_, index) =>
		['CALL:xfer_to {"to":"bob","kind":"question","text":"Which port?"}END', `TOOL:${command}END`, "done"][index] ?? undefined;
	await alice.prompt("work");
	await until(() => world.inbox("alice").length === 1, "the answer");
	open();
	await alice.idle();
	await bob.idle();
	expect(alice.model.requests[2]?.last).toContain("It is 80.");
	expect(alice.model.requests).toHaveLength(3);
	expect(alice.count("agent_settled")).toBe(1);
	expect(world.inbox("bob")).toMatchObject([{ state: "answered", from: "alice" }]);
});

test("a shell of a pi that is a Node speaks as that Node, and marks its mail", async () => {
	const world = makeWorld();
	const pi = await startPi(world, { node: "alice" });
	world.tree.join("bob");
	await pi.prompt(`TOOL:${shell} send bob --kind note "from the shell"END`);
	await pi.idle();
	expect(world.inbox("bob")).toMatchObject([{ from: "alice", kind: "note", hops: 0 }]);
	const id = world.send("alice", "Which port?", { kind: "question" });
	await until(() => world.state("alice", id) === "read", "it to be read");
	await pi.idle();
	await pi.prompt(`TOOL:${shell} reply ${id} "It is 80."END`);
	await pi.idle();
	expect(world.state("alice", id)).toBe("answered");
});

test("a pi -p without a name, started by an agent's shell, sends as that agent and with its hops", async () => {
	const world = makeWorld();
	const alice = await startPi(world, { node: "alice" });
	world.tree.join("bob");
	const id = world.send("alice", `TOOL:printf '%s|%s|%s' "$XFER_NODE" "$XFER_INSTANCE" "$XFER_HOPS"END`, { from: "carol", hops: 2 });
	await until(() => world.state("alice", id) === "read", "it to be read");
	await alice.idle();
	const [node, instance, hops] = alice.model.requests.at(-1)?.last.split("|") ?? [];
	expect(hops).toBe("3");
	const env = { XFER_NODE: node, XFER_INSTANCE: instance, XFER_HOPS: hops };
	const { code } = await runPi(world, `TOOL:${shell} send bob "from the inner one"END`, { env });
	expect(code).toBe(0);
	expect(world.inbox("bob")).toMatchObject([{ from: "alice", hops: 3 }]);
	expect(world.tree.node("alice").live()?.pid).toBe(alice.pid);
});

import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { openTree } from "../../lib/index.ts";
import { cli, ls, run, sh, tempDir, tempTree, until } from "../helpers.ts";
import { actor } from "./actor.ts";
import type { SenderOptions } from "./sender.ts";
import type { TakerOptions } from "./taker.ts";

const commands = { cli, dash: sh("dash"), busybox: sh("busybox") };
const strace = spawnSync("strace", ["-V"]).status === 0;

function aliceAndBob() {
	const { root, env } = tempTree();
	const tree = openTree({ root, durable: false });
	tree.join("bob");
	return { root, env, tree, inbox: tree.join("alice").directory };
}

/** Every Handoff of alice, the lowest id first, and what its name says of it. */
function states(inbox: string): { id: string; state: string }[] {
	const state = (dir: string, name: string) => {
		if (dir === "new") return "queued";
		const [, word] = /,E=(\w+)/.exec(name) ?? [];
		return word ?? (name.includes(",L=") ? "taken" : name.endsWith("S") ? "read" : name);
	};
	const all = ["new", "cur"].flatMap((dir) => ls(inbox, dir).map((name) => ({ id: name.replace(/[,:].*/, ""), state: state(dir, name) })));
	return all.sort((a, b) => (a.id < b.id ? -1 : 1));
}

/** Twenty processes that send with one key, as close to the same moment as can be. */
async function twenty(env: NodeJS.ProcessEnv, only?: SenderOptions): Promise<void> {
	const options: SenderOptions = only ?? { node: "alice", key: "k" };
	const library = await Promise.all(
		Array.from({ length: only ? 20 : 8 }, async () => {
			const sender = actor("sender.ts", options, env);
			await until(() => sender.lines.includes("ready"), "a sender");
			return sender;
		}),
	);
	const commands = only ? [] : [...Array(8).fill(cli), ...Array(2).fill(sh("dash")), ...Array(2).fill(sh("busybox"))];
	const results = commands.map((argv) => run([...argv, "send", "alice", "--key", "k", "--as", "bob", "hello"], { env }));
	for (const sender of library) sender.tell("send");
	for (const sender of library) expect(await sender.ended, sender.errors()).toBe(0);
	for (const result of await Promise.all(results)) expect(result).toMatchObject({ code: 0, err: "" });
}

/** Looks while the work goes on, and says when of these states there was none any more. */
async function noneOf(inbox: string, wanted: string[], work: Promise<unknown>): Promise<string[]> {
	let working = true;
	const found: string[] = [];
	const there = () => states(inbox).some(({ state }) => wanted.includes(state));
	const done = work.finally(() => {
		working = false;
	});
	for (let begun = false; working; ) {
		begun ||= there();
		// A listing is no snapshot: it misses one that ends for another that comes meanwhile. That can't happen to more looks than there are sends.
		if (begun && !Array.from({ length: 25 }, there).includes(true)) found.push(JSON.stringify(states(inbox)));
		await new Promise((resolve) => setTimeout(resolve, 2));
	}
	await done;
	return found;
}

test.each([
	["from the CLI, the library and shells", undefined],
	["in the same microsecond", { node: "alice", key: "k", clock: 1_800_000_000_000 }],
])("of 20 sends with one key at once, %s, exactly one stays queued, the highest, and never none is", async (_, only) => {
	const { env, inbox } = aliceAndBob();
	expect(await noneOf(inbox, ["queued"], twenty(env, only))).toEqual([]);
	const all = states(inbox);
	expect(all.map(({ state }) => state)).toEqual([...Array(19).fill("replaced"), "queued"]);
	expect(new Set(all.map(({ id }) => id)).size).toBe(20);
});

test("with takers there is always one that is queued, in hand or read, and the highest is not replaced", async () => {
	for (let round = 0; round < 3; round++) {
		const { env, inbox, tree } = aliceAndBob();
		const takers = [{ next: true }, { stay: true }].map((how) => actor("taker.ts", { node: "alice", ...how } satisfies TakerOptions, env));
		let sending = true;
		const senders = twenty(env).finally(() => {
			sending = false;
		});
		const read = async () => {
			while (sending) expect([0, 3, 5]).toContain((await run([...cli, "read", "--as", "alice"], { env })).code);
		};
		const [none] = await Promise.all([noneOf(inbox, ["queued", "taken", "read"], senders), read()]);
		expect(none).toEqual([]);
		for (const taker of takers) taker.tell(0);
		for (const taker of takers) expect(await taker.ended, taker.errors()).toBe(0);

		const all = states(inbox);
		expect(all.length).toBe(20);
		expect(all.filter(({ state }) => state === "queued").length).toBeLessThanOrEqual(1);
		expect(["queued", "read"]).toContain(all.at(-1)?.state);
		tree.node("alice").inbox.take()?.done();
		expect(states(inbox).filter(({ state }) => state !== "read" && state !== "replaced")).toEqual([]);
	}
});

test.each(Object.entries(commands))(
	"what %s sends replaces what was sent before, though the time in the id of that is later",
	async (_, argv) => {
		const { root, env, inbox } = aliceAndBob();
		const ahead = openTree({ root, durable: false, clock: () => Date.now() + 2000 });
		ahead.send({ from: "bob", to: ["alice"], key: "k", body: "the older" });
		expect(await run([...argv, "send", "alice", "--key", "k", "--as", "bob", "the newer"], { env })).toMatchObject({ code: 0 });
		expect(
			states(inbox)
				.map(({ state }) => state)
				.sort(),
		).toEqual(["queued", "replaced"]);
		const { out } = await run([...cli, "read", "--as", "alice"], { env });
		expect(out).toMatch(/the newer$/);
	},
);

test.skipIf(!strace).each(Object.entries(commands))(
	"a send by %s that is held up before it publishes has ended nothing until then, and does not stay beside the one that overtook it",
	async (_, argv) => {
		const { env, inbox } = aliceAndBob();
		const send = (text: string) => ["send", "alice", "--key", "k", "--as", "bob", text];
		expect(await run([...cli, ...send("the oldest")], { env })).toMatchObject({ code: 0 });
		const renames = "rename,renameat,renameat2";
		const held = ["-e", `trace=${renames}`, "-e", `inject=${renames}:delay_enter=2s:when=1`, "-o", path.join(tempDir(), "trace")];
		const first = run(["strace", "-f", ...held, ...argv, ...send("held up")], { env });
		const writing = () => ls(inbox, "tmp").some((name) => name.includes(".M"));
		await until(writing, "the first one's file");
		const meanwhile = states(inbox).map(({ state }) => state);
		if (writing()) expect(meanwhile).toEqual(["queued"]);
		expect(await run([...cli, ...send("overtakes")], { env })).toMatchObject({ code: 0 });
		expect(await first).toMatchObject({ code: 0 });
		expect(states(inbox).map(({ state }) => state)).toEqual(["replaced", "replaced", "queued"]);
	},
);

test("no id collides and nothing is overwritten on a clock that stands still or goes backwards", () => {
	const { root, inbox } = aliceAndBob();
	let time = 1_800_000_000_000;
	const clocks = [
		() => 1_800_000_000_000,
		() => 1_800_000_000_000,
		() => (time -= 7),
		() => 1_800_000_000_000 + Math.round(Math.random() * 3),
	];
	const bodies = clocks.flatMap((now, clock) => {
		const tree = openTree({ root, durable: false, clock: now });
		return Array.from({ length: 1500 }, (_, n) => {
			const body = `${clock} ${n}`;
			expect(tree.send({ from: "bob", to: ["alice"], body })[0]?.error).toBeUndefined();
			return body;
		});
	});
	const found = ls(inbox, "new").map((id) => fs.readFileSync(path.join(inbox, "new", id), "utf8").replace(/^.*\n---\n/s, ""));
	expect(found.sort()).toEqual(bodies.sort());
});

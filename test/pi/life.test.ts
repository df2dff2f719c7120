/** What a session of pi lives through while mail is on its way: nothing is lost, nothing comes twice, and pi goes on. */
import fs from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { project, run, until } from "../helpers.ts";
import {
	type Agent,
	atEnd,
	extension,
	gate,
	makeAgent,
	makeWorld,
	type Pi,
	type PiOptions,
	piCli,
	type Request,
	reloader,
	runPi,
	startPi,
	times,
	type World,
} from "./pi.ts";

/** Holds the model's answer to this prompt until the gate opens; everything else is answered at once. */
function think(world: World, pi: Pi, prompt = "think") {
	const { opened, open } = gate(world);
	const asked = pi.model.requests.length + 1;
	const before = pi.model.answer;
	pi.model.answer = (request, index) => (request.last === prompt ? opened.then(() => "a thought") : before(request, index));
	return {
		open,
		/** Sends the prompt, and waits until the model is asked. */
		begin: async () => {
			await pi.prompt(prompt);
			await until(() => pi.model.requests.length === asked, "the model to be asked");
		},
	};
}

const idsIn = async (pi: Pi) => (await pi.injected()).flatMap(({ ids }) => ids);
const textsOf = (pi: Pi) => pi.model.requests.map(({ last }) => last);

describe("at the start", () => {
	test("what waits does not get in the way of a client's prompt, and comes after it", async () => {
		const world = makeWorld();
		const id = world.send("alice", "waiting for you");
		const pi = await startPi(world, { args: ["--xfer", "alice"] });
		await pi.prompt("the first word is mine");
		await until(() => world.state("alice", id) === "read", "the mail to be read");
		await pi.idle();
		expect(textsOf(pi)[0]).toBe("the first word is mine");
		expect(pi.model.requests.map((request) => times(request, "waiting for you"))).toEqual([0, 1]);
	});

	test("what waits gives a client time for its prompt when the session is a Node", async () => {
		const world = makeWorld();
		const id = world.send("alice", "waiting for you");
		const pi = await startPi(world, { node: "alice" });
		await pi.prompt("the first word is mine");
		await until(() => world.state("alice", id) === "read", "the mail to be read");
		await pi.idle();
		expect(textsOf(pi)[0]).toBe("the first word is mine");
	});

	test("the first request has the tools already, and what it starts speaks as the Node", async () => {
		const world = makeWorld();
		world.tree.join("bob");
		const pi = await startPi(world, { args: ["--xfer", "alice"] });
		await pi.prompt('TOOL:echo "$XFER_NODE"END');
		await pi.idle();
		expect(pi.model.requests[0]?.tools).toEqual(expect.arrayContaining(["xfer_to", "xfer_nodes", "xfer_read", "xfer_board"]));
		expect(pi.model.requests[1]?.last.trim()).toBe("alice");
	});

	test("what waits is read though nobody says anything", async () => {
		const world = makeWorld();
		const id = world.send("alice", "waiting for you");
		const pi = await startPi(world, { node: "alice" });
		await until(() => world.state("alice", id) === "read", "the mail to be read");
		expect(pi.model.requests).toHaveLength(1);
	});
});

describe("Esc", () => {
	for (const [how, commands] of [
		["Esc, as a client does it", ["clear_queue", "abort"]],
		["abort alone", ["abort"]],
	] as const) {
		test(`${how}: what came meanwhile is kept, shown and starts nothing`, async () => {
			const world = makeWorld();
			const pi = await startPi(world, { node: "alice" });
			const { begin } = think(world, pi);
			await begin();
			const ids = [world.send("alice", "a result", { kind: "answer" }), world.send("alice", "some work")];
			for (const type of commands) await pi.send({ type });
			await until(async () => (await idsIn(pi)).length === 2, "both to be in the session");
			await until(() => world.all("alice", "read", ids), "both to be read");
			await pi.idle();
			expect(pi.model.requests).toHaveLength(1);
			await pi.prompt("go on");
			await pi.idle();
			expect(pi.model.requests).toHaveLength(2);
			for (const words of ["a result", "some work"]) expect(times(pi.model.requests[1], words)).toBe(1);
		});
	}

	test("of a tool: the same, and the tool is gone", async () => {
		const world = makeWorld();
		const pi = await startPi(world, { node: "alice" });
		const { command } = gate(world);
		await pi.prompt(`TOOL:${command}END`);
		await pi.next("tool_execution_start", 0);
		const id = world.send("alice", "a result", { kind: "answer" });
		await pi.send({ type: "clear_queue" });
		await pi.send({ type: "abort" });
		await until(() => world.state("alice", id) === "read", "it to be read");
		await pi.idle();
		expect(pi.model.requests).toHaveLength(1);
		await pi.prompt("go on");
		await pi.idle();
		expect(times(pi.model.requests.at(-1), "a result")).toBe(1);
		await until(() => world.presence("alice").status === "idle", "the status to be idle");
	});

	test("of a run that mail had started: what it shows is in the session, and is not started again", async () => {
		const world = makeWorld();
		const pi = await startPi(world, { node: "alice" });
		const { opened } = gate(world);
		pi.model.answer = ({ last }) => (last.includes("long work") ? opened.then(() => "done") : undefined);
		const id = world.send("alice", "long work");
		await until(() => pi.model.requests.length === 1, "the run");
		await pi.send({ type: "abort" });
		await until(() => world.state("alice", id) === "read", "it to be read");
		const note = world.send("alice", "by the way", { kind: "note" });
		await until(() => world.state("alice", note) === "read", "the note to be read");
		expect(pi.model.requests).toHaveLength(1);
		expect(await idsIn(pi)).toEqual([id, note]);
	});
});

describe("another session in the same process", () => {
	test("/new: the Node stays, what comes later is in the new session, and what the old one was shown is not", async () => {
		const world = makeWorld();
		const pi = await startPi(world, { node: "alice" });
		const first = world.send("alice", "for the first session");
		await until(() => world.state("alice", first) === "read", "the first to be read");
		await pi.idle();
		await pi.send({ type: "new_session" });
		await until(() => world.isLive("alice"), "the Node to be live again");
		const second = world.send("alice", "for the second session");
		await until(() => world.state("alice", second) === "read", "the second to be read");
		await pi.idle();
		expect(await idsIn(pi)).toEqual([second]);
		expect(pi.model.requests.map((request) => times(request, "for the first session"))).toEqual([1, 0]);
		expect(world.tree.names()).toEqual(["alice", "bob"]);
	});

	test("/new while the model answers: what had come lands in the new session, once", async () => {
		const world = makeWorld();
		const pi = await startPi(world, { node: "alice" });
		const { begin } = think(world, pi);
		await begin();
		const ids = [world.send("alice", "a result", { kind: "answer" }), world.send("alice", "some work")];
		await pi.send({ type: "new_session" });
		await until(() => world.all("alice", "read", ids), "both to be read");
		await pi.idle();
		expect((await idsIn(pi)).sort()).toEqual([...ids].sort());
		expect(textsOf(pi).filter((text) => text.includes("a result"))).toHaveLength(1);
	});

	test("/new while mail's own run goes on: what that session was shown is not shown to the next one", async () => {
		const world = makeWorld();
		const pi = await startPi(world, { node: "alice" });
		const { opened } = gate(world);
		pi.model.answer = ({ last }) => (last.includes("long work") ? opened.then(() => "done") : undefined);
		const id = world.send("alice", "long work");
		await until(() => pi.model.requests.length === 1, "the run");
		await pi.send({ type: "new_session" });
		await until(() => world.state("alice", id) === "read", "it to be read");
		const marker = world.send("alice", "marker", { kind: "answer" });
		await until(() => world.state("alice", marker) === "read", "the marker");
		await pi.idle();
		expect(await idsIn(pi)).toEqual([marker]);
	});

	test("again and again leaves nothing open behind it", async () => {
		const world = makeWorld();
		const file = path.join(world.home, "counts.ts");
		fs.writeFileSync(
			file,
			`export default (pi: any) => pi.registerCommand("count", { handler: async (_: string, { ui }: any) => ui.notify("watchers: " + (process.report.getReport() as any).libuv.filter(({ type }: any) => type === "fs_event").length) });`,
		);
		const pi = await startPi(world, { node: "alice", before: [reloader(world), file] });
		const watchers = async () => {
			const from = pi.records.length;
			await pi.prompt("/count");
			const { message } = await pi.next(({ message }) => /^watchers: /.test(message), from);
			return Number(message.slice("watchers: ".length));
		};
		const before = await until(watchers, "it to watch its Inbox");
		for (let n = 0; n < 8; n++) {
			for (const step of [() => pi.send({ type: "new_session" }), () => pi.prompt("/again")]) {
				const from = pi.records.length;
				await step();
				await pi.next(({ statusText }) => statusText === "✉ alice", from); // it watches by then
			}
		}
		const id = world.send("alice", "after all of them");
		await until(() => world.state("alice", id) === "read", "it to be read");
		expect(await watchers()).toBeLessThanOrEqual(before + 1);
		expect(fs.readdirSync(path.join(world.root, "nodes/alice/live.lock"))).toHaveLength(1);
	});

	test("/reload: the Node stays, and mail goes on", async () => {
		const world = makeWorld();
		const pi = await startPi(world, { node: "alice", before: [reloader(world)] });
		const first = world.send("alice", "before");
		await until(() => world.state("alice", first) === "read", "the first to be read");
		await pi.idle();
		for (let n = 0; n < 3; n++) await pi.prompt("/again");
		await until(() => world.isLive("alice"), "the Node to be live again");
		const second = world.send("alice", "after");
		await until(() => world.state("alice", second) === "read", "the second to be read");
		await pi.idle();
		expect(await idsIn(pi)).toEqual([first, second]);
		expect(pi.model.requests).toHaveLength(2);
	});

	test("/fork: what the fork holds is not shown again, though its file comes back; what it does not hold is", async () => {
		const world = makeWorld();
		const pi = await startPi(world, { node: "alice" });
		await pi.prompt("hello"); // from here on the session is on the disk
		await pi.idle();
		const before = world.send("alice", "before the fork", { kind: "note" });
		await until(() => world.state("alice", before) === "read", "it to be read");
		await pi.prompt("here it forks");
		await pi.idle();
		const after = world.send("alice", "after the fork", { kind: "note" });
		await until(() => world.state("alice", after) === "read", "it to be read");
		const { data } = await pi.send({ type: "get_fork_messages" });
		const { data: forked } = await pi.send({ type: "fork", entryId: data.messages.at(-1).entryId });
		expect(forked.cancelled).toBe(false);
		await until(() => world.isLive("alice"), "the Node to be live again");
		for (const id of [before, after]) putBack(world, id);
		await until(() => world.all("alice", "read", [before, after]), "both to be read again");
		expect((await idsIn(pi)).sort()).toEqual([before, after].sort());
	});

	test("a switch to an older session while the model answers: what had come lands there, once", async () => {
		const world = makeWorld();
		const pi = await startPi(world, { node: "alice" });
		await pi.prompt("the older session");
		await pi.idle();
		const { data: older } = await pi.send({ type: "get_state" });
		await pi.send({ type: "new_session" });
		const { begin } = think(world, pi);
		await begin();
		const id = world.send("alice", "a result", { kind: "answer" });
		const { data } = await pi.send({ type: "switch_session", sessionPath: older.sessionFile });
		expect(data.cancelled).toBe(false);
		await until(() => world.state("alice", id) === "read", "it to be read");
		await pi.idle();
		expect(await idsIn(pi)).toEqual([id]);
		expect(pi.model.requests.at(-1)?.messages.map(({ text }) => text)).toContain("the older session");
		expect((await pi.send({ type: "get_state" })).data.sessionId).toBe(older.sessionId);
	});

	test("a resumed session is not shown again what it holds", async () => {
		const world = makeWorld();
		const pi = await startPi(world, { node: "alice" });
		const first = world.send("alice", "yesterday");
		await until(() => world.state("alice", first) === "read", "it to be read");
		await pi.idle();
		await pi.stop();
		expect(world.isLive("alice")).toBe(false);
		putBack(world, first);
		const second = world.send("alice", "today");
		const again = await startPi(world, { node: "alice", agent: pi.agent, args: ["--continue"] });
		await until(() => world.all("alice", "read", [first, second]), "both to be read");
		await again.idle();
		expect(await idsIn(again)).toEqual([first, second]);
		expect(times(again.model.requests.at(-1), "yesterday")).toBe(1);
	});
});

/** Puts one that has been read back into `new/`, as a crash before the mark does. */
function putBack(world: World, id: string): void {
	const item = world.inbox("alice").find((item) => item.id === id);
	if (!item) throw new Error(`${id} is not there`);
	fs.renameSync(item.file, path.join(world.root, "nodes/alice/new", id));
}

describe("killed while the model answers a Handoff", () => {
	async function killed(before: (pi: Pi) => Promise<void>) {
		const world = makeWorld();
		const pi = await startPi(world, { node: "alice", args: ["--session-id", "the-session"] });
		await before(pi);
		const { opened, open } = gate(world);
		pi.model.answer = ({ last }) => (last.includes("long work") ? opened.then(() => "done") : undefined);
		const id = world.send("alice", "long work");
		const asked = pi.model.requests.length + 1;
		await until(() => pi.model.requests.length === asked, "the run");
		await pi.kill("SIGKILL");
		open();
		pi.model.requests.length = 0;
		return { world, pi, id };
	}

	test("a session of which nothing was saved yet is shown it again, and answers", async () => {
		const { world, pi, id } = await killed(async () => {});
		const again = await startPi(world, { node: "alice", agent: pi.agent, args: ["--session-id", "the-session"] });
		await until(() => world.state("alice", id) === "read", "it to be read");
		await again.idle();
		expect(await idsIn(again)).toEqual([id]);
		expect(times(again.model.requests.at(-1), "long work")).toBe(1);
	});

	test("a session that holds it does so once", async () => {
		const { world, pi, id } = await killed(async (pi) => {
			await pi.prompt("hello");
			await pi.idle();
		});
		const again = await startPi(world, { node: "alice", agent: pi.agent, args: ["--session-id", "the-session"] });
		await until(() => world.state("alice", id) === "read", "it to be read");
		await again.idle();
		await again.prompt("go on");
		await again.idle();
		expect(await idsIn(again)).toEqual([id]);
		expect(times(again.model.requests.at(-1), "long work")).toBe(1);
	});
});

describe("nothing is lost", () => {
	test("when pi is killed before it has saved anything: what it was shown comes again", async () => {
		const world = makeWorld();
		const pi = await startPi(world, { node: "alice", args: ["--session-id", "the-session"] });
		const id = world.send("alice", "a remark", { kind: "note" });
		await until(async () => (await idsIn(pi)).includes(id), "it to be in the session");
		// Whatever comes next is looked at after it.
		const second = world.send("alice", "another remark", { kind: "note" });
		await until(async () => (await idsIn(pi)).includes(second), "the second to be in the session");
		expect(await pi.saved()).toEqual([]);
		await pi.kill("SIGKILL");
		const again = await startPi(world, { node: "alice", agent: pi.agent, args: ["--session-id", "the-session"] });
		await until(async () => (await idsIn(again)).length === 2, "both to be in the session again");
		await again.prompt("hello");
		await again.idle();
		for (const words of ["a remark", "another remark"]) expect(times(again.model.requests.at(-1), words)).toBe(1);
		await until(() => world.all("alice", "read", [id, second]), "both to be read");
	});

	test("when a session ends before it has saved anything: the next one is shown what came to it", async () => {
		const world = makeWorld();
		const pi = await startPi(world, { node: "alice" });
		const id = world.send("alice", "a remark", { kind: "note" });
		await until(async () => (await idsIn(pi)).includes(id), "it to be in the session");
		expect(world.state("alice", id)).toBe("taken");
		await pi.send({ type: "new_session" });
		await until(async () => (await idsIn(pi)).includes(id), "it to be in the next session");
		await pi.prompt("hello");
		await pi.idle();
		expect(times(pi.model.requests[0], "a remark")).toBe(1);
		expect(await idsIn(pi)).toEqual([id]);
		expect(world.state("alice", id)).toBe("read");
		await pi.stop();
		expect(world.inbox("alice").map(({ state }) => state)).toEqual(["read"]);
	});

	test("when it is killed at any time, again and again: in the end the session's file holds each", { timeout: 600_000 }, async () => {
		const world = makeWorld();
		const ids: string[] = [];
		const args = ["--session-id", "the-session"];
		let pi = await startPi(world, { node: "alice", args, answer: () => `SLOW:${Math.floor(Math.random() * 60)}ENDdone` });
		await pi.prompt("hello");
		for (let round = 0; round < 8; round++) {
			const kinds = ["task", "answer", "note", "report"];
			for (let n = 0; n < 6; n++) ids.push(world.send("alice", `of round ${round}: ${n}`, { kind: kinds[n % 4], from: `sender-${n}` }));
			if (round % 2) await pi.prompt("TOOL:sleep 0.2END", { streamingBehavior: "steer" });
			await new Promise((resolve) => setTimeout(resolve, Math.random() * 900));
			await pi.kill("SIGKILL");
			pi = await startPi(world, { node: "alice", agent: pi.agent, args });
		}
		await until(() => world.all("alice", "read", ids), "all to be read");
		await pi.idle();
		const held = (await pi.saved()).filter(({ customType }) => customType === "xfer").flatMap(({ details }) => details.handoffs);
		const counts = ids.map((id) => held.filter((handoff: { id: string }) => handoff.id === id).length);
		expect(counts).toEqual(ids.map(() => 1));
	});

	test("when one session follows another while mail pours in: each is shown in one of them", { timeout: 600_000 }, async () => {
		const world = makeWorld();
		const pi = await startPi(world, { node: "alice" });
		const ids: string[] = [];
		for (let n = 0; n < 12; n++) {
			for (const kind of ["answer", "note", "task"]) ids.push(world.send("alice", `${kind} ${n}`, { kind, from: `sender-${n}` }));
			await pi.send({ type: "new_session" });
			// Now and then a session lives for long enough to be shown some.
			if (n % 4 === 3) await until(async () => (await idsIn(pi)).length > 0, "something to be shown");
		}
		await until(() => world.all("alice", "read", ids), "all to be read");
		await pi.idle();
		const sessions = path.join(pi.agent.directory, "sessions");
		const files = fs.readdirSync(sessions, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".jsonl"));
		const entries = files
			.flatMap((file) => fs.readFileSync(path.join(sessions, file), "utf8").trim().split("\n"))
			.map((line) => JSON.parse(line));
		const saved = entries.filter(({ customType }) => customType === "xfer").flatMap(({ details }) => details.handoffs);
		const shown = [...saved.map(({ id }: { id: string }) => id), ...(await idsIn(pi))];
		expect([...new Set(shown)].sort()).toEqual([...ids].sort());
		expect(world.tree.names().filter((name) => name.startsWith("alice"))).toEqual(["alice"]);
		expect(pi.notices().filter((notice) => /live|error/i.test(notice))).toEqual([]);
	});

	test("when it is in hand for longer than a lease: nobody else gets it", { timeout: 300_000 }, async () => {
		const world = makeWorld();
		const env = { XFER_LEASE: "18" };
		const pi = await startPi(world, { node: "alice", env });
		const { opened, open } = gate(world);
		pi.model.answer = ({ last }) => (last.includes("long work") ? opened.then(() => "done") : undefined);
		const id = world.send("alice", "long work");
		await until(() => pi.model.requests.length === 1, "the run");
		// Another has been shown one that it can't save yet, for nobody has spoken to it.
		const other = await startPi(world, { node: "carol", env });
		const note = world.send("carol", "a remark", { kind: "note" });
		await until(async () => (await idsIn(other)).includes(note), "the note to be in the session");
		const end = Date.now() + 25_000;
		const states = new Set<string>();
		await until(() => {
			for (const { state, attempts, lease } of [...world.inbox("alice"), ...world.inbox("carol")])
				states.add(`${state} ${attempts} ${(lease?.end ?? 0) * 1000 > Date.now() ? "leased" : "overdue"}`);
			return Date.now() > end;
		}, "a lease and more to pass");
		expect([...states]).toEqual(["taken 0 leased"]);
		open();
		await until(() => world.state("alice", id) === "read", "it to be read");
		await pi.idle();
		expect(await idsIn(pi)).toEqual([id]);
		await other.prompt("hello");
		await until(() => world.state("carol", note) === "read", "the note to be read");
		expect(await idsIn(other)).toEqual([note]);
	});
});

test("a file that is put back into new/ is not shown to the same session again", async () => {
	const world = makeWorld();
	const pi = await startPi(world, { node: "alice" });
	const id = world.send("alice", "only once");
	await until(() => world.state("alice", id) === "read", "it to be read");
	await pi.idle();
	for (let n = 0; n < 3; n++) {
		putBack(world, id);
		await until(() => world.state("alice", id) === "read", "it to be marked read again");
	}
	const marker = world.send("alice", "marker", { kind: "answer" });
	await until(() => world.state("alice", marker) === "read", "the marker");
	expect(await idsIn(pi)).toEqual([id, marker]);
	expect(pi.model.requests).toHaveLength(2);
});

describe("a neighbour that", () => {
	const neighbours = {
		"drops what others append": "{ entries: [] }",
		"voids what others append by a draft of its own": '{ entries: [{ type: "nonsense" }] }',
		throws: "(() => { throw new Error('neighbour'); })()",
	};
	for (const [does, result] of Object.entries(neighbours))
		for (const side of ["before", "after"] as const) {
			test(`${does}, loaded ${side} ours, loses no mail, and none comes twice`, async () => {
				const world = makeWorld();
				const file = path.join(world.home, "neighbour.ts");
				fs.writeFileSync(
					file,
					`export default (pi: any) => { for (const event of ["turn_end", "agent_before_settle"]) pi.on(event, () => ${result}); };`,
				);
				const pi = await startPi(world, { node: "alice", [side]: [file] });
				pi.forgive = true; // its own errors are told
				const { command, open } = gate(world);
				await pi.prompt(`TOOL:${command}END`);
				await pi.next("tool_execution_start", 0);
				const ids = [
					world.send("alice", "a result", { kind: "answer" }),
					world.send("alice", "a remark", { kind: "note" }),
					world.send("alice", "some work", { kind: "task" }),
				];
				open();
				await until(() => world.all("alice", "read", ids), "all to be read");
				await pi.idle();
				expect((await idsIn(pi)).sort()).toEqual([...ids].sort());
				for (const words of ["a result", "a remark", "some work"]) {
					const counts = pi.model.requests.map((request) => times(request, words));
					expect(counts.at(-1)).toBe(1);
					expect(Math.max(...counts)).toBe(1);
				}
				for (const { extensionPath } of pi.records.filter(({ type }) => type === "extension_error")) expect(extensionPath).toBe(file);
			});
		}
});

test("compaction: what comes meanwhile waits, and is delivered after it", async () => {
	const world = makeWorld();
	const pi = await startPi(world, { node: "alice", settings: { compaction: { keepRecentTokens: 1 } } });
	for (const words of ["one", "two", "three"]) {
		await pi.prompt(`${words} ${"x".repeat(2000)}`);
		await pi.idle();
	}
	const { opened, open } = gate(world);
	const isSummary = ({ messages }: Request) => messages[0]?.text.includes("summarization assistant") === true;
	const prompted = () => pi.model.requests.filter((request) => !isSummary(request));
	pi.model.answer = (request) => (isSummary(request) ? opened.then(() => "a summary") : undefined);
	const compacted = pi.send({ type: "compact" });
	await until(() => pi.model.requests.some(isSummary), "the compaction's request");
	await until(() => world.presence("alice").status === "compacting", "the status");
	const ids = [world.send("alice", "some work"), world.send("alice", "a remark", { kind: "note" })];
	// The extension has seen both when it says so, and leaves them.
	await until(() => pi.records.some(({ method, statusText }) => method === "setStatus" && /2 waiting/.test(statusText)), "it to see both");
	expect((await pi.send({ type: "get_state" })).data.isCompacting).toBe(true);
	expect(prompted()).toHaveLength(3);
	open();
	expect((await compacted).success).toBe(true);
	await until(() => world.all("alice", "read", ids), "both to be read");
	await pi.idle();
	expect((await idsIn(pi)).sort()).toEqual([...ids].sort());
	expect(prompted()).toHaveLength(4);
	expect(times(prompted().at(-1), "some work")).toBe(1);
	await until(() => world.presence("alice").status === "idle", "the status to be idle");
});

test("compaction by pi itself, when the context is full: what the run was shown before and after it is shown once", async () => {
	const world = makeWorld();
	const pi = await startPi(world, { node: "alice", settings: { compaction: { keepRecentTokens: 1 } } });
	const isSummary = ({ messages }: Request) => messages[0]?.text.includes("summarization assistant") === true;
	const summing = gate(world);
	const { command, open } = gate(world);
	pi.model.answer = (request) => {
		if (isSummary(request)) return summing.opened.then(() => "a summary");
		if (request.last === "fill") return `USED:125000ENDTOOL:${command}END`;
		return request.messages.at(-1)?.role === "tool" ? "USED:125000ENDfull" : undefined;
	};
	await pi.prompt(`before ${"x".repeat(3000)}`);
	await pi.idle();
	const started = pi.next("tool_execution_start");
	await pi.prompt("fill");
	await started;
	const ids = [world.send("alice", "a result", { kind: "answer" }), world.send("alice", "some work")];
	open();
	await until(() => pi.count("compaction_start") > 0, "the compaction");
	ids.push(world.send("alice", "a late remark", { kind: "note" }), world.send("alice", "late work"));
	summing.open();
	await until(() => world.all("alice", "read", ids), "all to be read");
	await pi.idle();
	expect((await idsIn(pi)).sort()).toEqual([...ids].sort());
	for (const words of ["some work", "late work"])
		expect(pi.model.requests.some((request) => !isSummary(request) && times(request, words) === 1)).toBe(true);
});

describe("pi -p", () => {
	test("without a name it is no Node: the prompt is answered, the mail stays, the tree is as it was", async () => {
		const world = makeWorld();
		const id = world.send("work", "for whoever works here");
		const before = world.tree.nodes();
		for (const mode of ["print", "json"] as const) {
			const { code, out, err, model } = await runPi(world, "hello", { mode, env: { XFER_NODE: "work" } });
			expect({ code, err }).toEqual({ code: 0, err: "" });
			expect(out).toContain("echo(1): hello");
			expect(model.requests).toHaveLength(1);
		}
		expect(world.state("work", id)).toBe("queued");
		expect(world.tree.nodes()).toEqual(before);
	});

	test("makes no tree where none is", async () => {
		const world = makeWorld();
		expect((await runPi(world, "hello")).code).toBe(0);
		expect(fs.existsSync(world.root)).toBe(false);
	});

	test("with a name it answers the prompt, reads what waits in the same run, and ends by itself", async () => {
		const world = makeWorld();
		for (const mode of ["print", "json"] as const) {
			const ids = [world.send("alice", `a result for ${mode}`, { kind: "answer" }), world.send("alice", `work for ${mode}`)];
			const { code, err, model } = await runPi(world, "hello", { mode, node: "alice" });
			expect({ code, err }).toEqual({ code: 0, err: "" });
			expect(model.requests[0]?.last).toBe("hello");
			expect(times(model.requests.at(-1), `a result for ${mode}`)).toBe(1);
			expect(times(model.requests.at(-1), `work for ${mode}`)).toBe(1);
			expect(world.all("alice", "read", ids)).toBe(true);
			expect(world.isLive("alice")).toBe(false);
		}
	});

	test("with a name reads what comes while its model answers, and has no answer to wait for afterwards", async () => {
		const world = makeWorld();
		const { opened, open } = gate(world);
		const agent = await makeAgent(world, {
			node: "alice",
			answer: ({ last }) => (last === "think" ? opened.then(() => "a thought") : undefined),
		});
		const running = runPi(world, "think", { node: "alice", agent });
		await until(() => agent.model.requests.length === 1, "the model to be asked");
		await until(() => world.isLive("alice"), "alice to be live");
		const id = world.send("alice", "a result", { kind: "answer" });
		open();
		expect(await running).toMatchObject({ code: 0, err: "" });
		expect(world.state("alice", id)).toBe("read");
		expect(times(agent.model.requests[1], "a result")).toBe(1);
	});

	test("with a name and no tree to be in: it says so, answers the prompt and ends", async () => {
		const world = makeWorld();
		fs.writeFileSync(world.root, "not a tree");
		const { code, out, err } = await runPi(world, "hello", { node: "alice" });
		expect({ code, out: out.trim() }).toEqual({ code: 0, out: "echo(1): hello" });
		expect(err).not.toMatch(/^\s+at /m);
	});

	test("ends as soon as it does without the extension", async () => {
		const world = makeWorld();
		const kinds: PiOptions[] = [{ bare: true }, {}, { node: "alice" }];
		const agents = await Promise.all(kinds.map((options) => makeAgent(world, options)));
		const least = kinds.map(() => Number.POSITIVE_INFINITY);
		// The best of some, for the machine may be busy.
		for (let round = 0; round < 5; round++) {
			for (const [n, options] of kinds.entries()) {
				const began = performance.now();
				await runPi(world, "hello", { ...options, agent: agents[n] as Agent });
				least[n] = Math.min(least[n] as number, performance.now() - began);
			}
		}
		const [bare = 0, ...ours] = least;
		for (const took of ours) expect(took - bare).toBeLessThan(500);
	});

	test("with a name that somebody holds: it says so, and the prompt is answered", async () => {
		const world = makeWorld();
		await startPi(world, { node: "alice" });
		const id = world.tree.node("alice").presence().instance;
		const { code, out } = await runPi(world, "hello", { node: "alice" });
		expect(code).toBe(0);
		expect(out).toContain("echo(1): hello");
		expect(world.tree.node("alice").live()?.instance).toBe(id);
	});
});

describe("the model", () => {
	test("fails: pi goes on, what it was asked is in the session, and the rest waits for a run that works", async () => {
		const world = makeWorld();
		const pi = await startPi(world, { node: "alice", answer: ({ last }) => (last.includes("bad luck") ? "ERROR:400END" : undefined) });
		const first = world.send("alice", "bad luck");
		await until(() => world.state("alice", first) === "read", "the first to be read");
		await pi.idle();
		const second = world.send("alice", "more work");
		await until(() => world.presence("alice").holding === "error", "the Node to say why mail waits");
		expect(pi.model.requests).toHaveLength(1);
		expect(world.state("alice", second)).toBe("queued");
		await pi.prompt("are you well?");
		await until(() => world.state("alice", second) === "read", "the second to be read");
		await pi.idle();
		expect(textsOf(pi)[1]).toBe("are you well?");
		expect(times(pi.model.requests.at(-1), "bad luck")).toBe(1);
		await until(() => world.presence("alice").holding === undefined, "nothing to hold mail any more");
	});

	test("is well again: what comes then does not wait any more", async () => {
		const world = makeWorld();
		const pi = await startPi(world, { node: "alice", answer: ({ last }) => (last.includes("bad luck") ? "ERROR:400END" : undefined) });
		const first = world.send("alice", "bad luck");
		await until(() => world.state("alice", first) === "read", "the first to be read");
		await pi.idle();
		await pi.prompt("are you well?");
		await pi.idle();
		const second = world.send("alice", "more work");
		await until(() => world.state("alice", second) === "read", "the second to be read", 20_000);
	});

	test("fails for a while: it is asked again by pi, and what was shown is not shown twice", async () => {
		const world = makeWorld();
		let failures = 2;
		const answer = () => (failures-- > 0 ? "ERROR:503END" : undefined);
		const pi = await startPi(world, { node: "alice", answer, settings: { retry: { baseDelayMs: 300 } } });
		const id = world.send("alice", "try hard");
		await until(() => world.presence("alice").status === "retrying", "the status");
		await until(() => world.state("alice", id) === "read", "it to be read");
		await pi.idle();
		expect(pi.model.requests.map((request) => times(request, "try hard"))).toEqual([1, 1, 1]);
		await until(() => world.presence("alice").status === "idle", "the status to be idle");
	});

	test("is not there: mail waits, the Node says why, and pi lives", async () => {
		const world = makeWorld();
		const id = world.send("alice", "is anybody there?");
		const pi = await startPi(world, { node: "alice", noModel: true });
		const started = Date.now();
		await until(() => world.presence("alice").holding === "no-model", "the Node to say why mail waits");
		await until(() => Date.now() > started + 1000, "longer than mail waits at a start");
		const second = world.send("alice", "hello?");
		await until(() => pi.records.some(({ statusText }) => statusText === "✉ alice · 2 waiting (no-model)"), "it to see both");
		expect(world.all("alice", "queued", [id, second])).toBe(true);
		expect(await idsIn(pi)).toEqual([]);
	});
});

describe("the tree", () => {
	const mount = (...args: string[]) => run(["mount", ...args], { env: { PATH: process.env.PATH } });

	test("can only be read for a while: pi works on, and mail comes when it can be written again", async () => {
		const world = makeWorld();
		world.tree.join("alice");
		expect((await mount("--bind", world.root, world.root)).code).toBe(0);
		// At the end, when pi has ended.
		atEnd(async () => expect((await run(["umount", world.root], { env: { PATH: process.env.PATH } })).err).toBe(""));
		const pi = await startPi(world, { node: "alice" });
		const { command, open } = gate(world);
		await pi.prompt(`TOOL:${command}END`);
		await pi.next("tool_execution_start", 0);
		const id = world.send("alice", "a result", { kind: "answer" });
		// Not while something is open for writing: a refresh of the lock, say.
		await until(async () => (await mount("-o", "remount,bind,ro", world.root)).code === 0, "the tree to be read-only");
		open();
		await pi.next((record) => record.type === "agent_settled", 0);
		await pi.prompt("are you there?");
		await pi.idle();
		expect(pi.model.requests.at(-1)?.last).toBe("are you there?");
		expect((await mount("-o", "remount,bind,rw", world.root)).code).toBe(0);
		await until(() => world.state("alice", id) === "read", "it to be read");
		await pi.idle();
		expect((await idsIn(pi)).filter((one) => one === id)).toHaveLength(1);
	});

	test("can only be read, and has lost the lock: the session is no Node, looks like none, and is one again by its name", async () => {
		const world = makeWorld();
		world.tree.join("alice");
		expect((await mount("--bind", world.root, world.root)).code).toBe(0);
		atEnd(async () => expect((await run(["umount", world.root], { env: { PATH: process.env.PATH } })).err).toBe(""));
		const pi = await startPi(world, { node: "alice" });
		const status = () => pi.records.filter(({ method }) => method === "setStatus").at(-1)?.statusText;
		fs.rmSync(path.join(world.root, "nodes/alice/live.lock"), { recursive: true });
		await until(async () => (await mount("-o", "remount,bind,ro", world.root)).code === 0, "the tree to be read-only");
		await until(() => pi.notices().some((notice) => notice.includes("EROFS")), "it to say so");
		await until(() => status() === undefined, "the status to be gone");
		await pi.prompt('TOOL:echo "node: $XFER_NODE"END');
		await pi.idle();
		expect(pi.model.requests.at(-1)?.last.trim()).toBe("node:");
		expect((await mount("-o", "remount,bind,rw", world.root)).code).toBe(0);
		await pi.prompt("/xfer name alice");
		await until(() => status() === "✉ alice", "the status to be back");
		const id = world.send("alice", "welcome back");
		await until(() => world.state("alice", id) === "read", "it to be read");
	});

	test("is on a full disk: pi works on, and reads its mail", async () => {
		const world = makeWorld();
		fs.mkdirSync(world.root);
		expect((await mount("-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", world.root)).code).toBe(0);
		atEnd(async () => expect((await run(["umount", world.root], { env: { PATH: process.env.PATH } })).err).toBe(""));
		const pi = await startPi(world, { node: "alice" });
		const { command, open } = gate(world);
		await pi.prompt(`TOOL:${command}END`);
		await pi.next("tool_execution_start", 0);
		const id = world.send("alice", "a result", { kind: "answer" });
		expect(() => fs.writeFileSync(path.join(world.root, "fill"), Buffer.alloc(2 ** 20))).toThrow("ENOSPC");
		open();
		await until(() => world.state("alice", id) === "read", "it to be read");
		await pi.idle();
		expect(await idsIn(pi)).toEqual([id]);
		fs.rmSync(path.join(world.root, "fill"));
		await pi.prompt("hello");
		await until(() => world.presence("alice").status === "idle" && world.presence("alice").name === "alice", "the Node to speak again");
	});

	test("is removed: pi works on, and is a Node again", async () => {
		const world = makeWorld();
		const pi = await startPi(world, { node: "alice" });
		await pi.prompt("hello");
		await pi.idle();
		fs.rmSync(world.root, { recursive: true, force: true });
		await pi.prompt("are you there?");
		await pi.idle();
		expect(textsOf(pi)).toEqual(["hello", "are you there?"]);
		await until(() => world.isLive("alice"), "it to be a Node again");
		const id = world.send("alice", "in the new tree");
		await until(() => world.state("alice", id) === "read", "it to be read");
	});

	test("is no directory any more: pi works on, and ends well", async () => {
		const world = makeWorld();
		const pi = await startPi(world, { node: "alice" });
		fs.rmSync(world.root, { recursive: true, force: true });
		fs.writeFileSync(world.root, "not a tree");
		await pi.prompt("TOOL:echo working; sleep 6END");
		await pi.idle();
		await pi.prompt("are you there?");
		await pi.idle();
		expect(textsOf(pi).at(-1)).toBe("are you there?");
		expect(await pi.stop()).toEqual({ code: 0, signal: null });
	});

	test("is no directory at the start: it says so once, and pi works", async () => {
		const world = makeWorld();
		fs.writeFileSync(world.root, "not a tree");
		const pi = await startPi(world, { args: ["--xfer", "alice"] });
		await until(() => pi.notices().length > 0, "it to say so");
		await pi.prompt("are you there?");
		await pi.idle();
		expect(textsOf(pi)).toEqual(["are you there?"]);
		expect(pi.notices()).toHaveLength(1);
	});
});

test("installed as a package, twice too, it is there, and given by -e besides it is there once", async () => {
	const world = makeWorld();
	const agent = await makeAgent(world, { node: "alice" });
	const env = { PATH: process.env.PATH, HOME: world.home, PI_CODING_AGENT_DIR: agent.directory, PI_OFFLINE: "1" };
	for (let n = 0; n < 2; n++) {
		const { code, err } = await run([process.execPath, piCli, "install", project], { env, cwd: agent.cwd });
		expect({ code, err }).toEqual({ code: 0, err: "" });
	}
	for (const bare of [true, false]) {
		const pi = await startPi(world, { agent, bare, args: ["--xfer", "alice"] });
		const id = world.send("alice", "once");
		await until(() => world.state("alice", id) === "read", "it to be read");
		await pi.idle();
		expect(await idsIn(pi)).toEqual([id]);
		await pi.stop();
	}
});

test("pi --help names the flag, and makes nothing", async () => {
	const world = makeWorld();
	const agent = await makeAgent(world);
	const env = { PATH: process.env.PATH, HOME: world.home, XFER_HOME: world.root, PI_CODING_AGENT_DIR: agent.directory, PI_OFFLINE: "1" };
	const { code, out } = await run([process.execPath, piCli, "-e", extension, "--help"], { env, cwd: agent.cwd });
	expect(code).toBe(0);
	expect(out).toMatch(/--xfer/);
	expect(fs.existsSync(world.root)).toBe(false);
});

test("without a session's file it reads its mail all the same", async () => {
	const world = makeWorld();
	const pi = await startPi(world, { node: "alice", args: ["--no-session"] });
	const ids = [world.send("alice", "a remark", { kind: "note" }), world.send("alice", "some work")];
	await until(() => world.all("alice", "read", ids), "both to be read");
	await pi.idle();
	expect((await idsIn(pi)).sort()).toEqual([...ids].sort());
});

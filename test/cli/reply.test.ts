/** `xfer reply`: answers the sender of a Handoff, and marks it answered. */
import fs from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { openTree } from "../../lib/index.ts";
import { cli, ls, onTestFinished, run, tempTree } from "../helpers.ts";

function make() {
	const { root, env } = tempTree();
	const tree = openTree({ root, durable: false });
	for (const name of ["alice", "bob"]) tree.join(name);
	const xfer = (...args: string[]) => run([...cli, ...args], { env });
	/** Sends by the library; the id. */
	const send = (from: string, to: string, body: string, more = {}) => {
		const [outcome] = tree.send({ from, to: [to], body, ...more });
		if (!outcome || outcome.error) throw outcome?.error ?? new Error("not sent");
		return outcome.id;
	};
	const text = (name: string) =>
		ls(root, "nodes", name, "new").map((file) => fs.readFileSync(path.join(root, "nodes", name, "new", file), "utf8"));
	return { root, env, tree, xfer, send, text };
}

const short = (id: string) => /R(.{8})\./.exec(id)?.[1] as string;

describe("an answer", () => {
	test("goes to the sender with re and thread, and sets R on the original", async () => {
		const { root, xfer, send, text } = make();
		const id = send("bob", "alice", "which port?", { kind: "question" });
		const result = await xfer("reply", short(id), "port", "8080", "--as", "alice");
		expect(result).toMatchObject({ code: 0, err: "" });
		expect(result.out).toMatch(/^queued for bob \(away, last seen .+ ago\)\t/);
		expect(result.out.split("\t")[1]).toBe(`${ls(root, "nodes/bob/new")[0]}\n`);
		const [reply = ""] = text("bob");
		for (const line of ["from: alice", "to: bob", "kind: answer", `re: ${id}`, `thread: ${id}`]) expect(reply.split("\n")).toContain(line);
		expect(reply.endsWith("\n---\nport 8080")).toBe(true);
		expect(ls(root, "nodes/alice/cur")).toEqual([`${id}:2,RS`]);
		expect((await xfer("sent", id, "--as", "bob")).out).toMatch(/answered by alice/);
	});

	test.each([
		["task", "answer"],
		["question", "answer"],
		["note", "answer"],
		["answer", "note"],
		["report", "note"],
	])("to a %s is of Kind %s", async (kind, expected) => {
		const { xfer, send, text } = make();
		const id = send("bob", "alice", "x", { kind });
		expect((await xfer("reply", id, "y", "--as", "alice")).code).toBe(0);
		expect(text("bob")[0]?.split("\n")).toContain(`kind: ${expected}`);
	});

	test("carries the thread on, and its Kind, subject and other options can be given", async () => {
		const { xfer, send, text } = make();
		const id = send("bob", "alice", "x", { thread: "1.first", kind: "answer" });
		await xfer("reply", id, "y", "--as", "alice", "--kind", "report", "--subject", "done", "--priority", "low");
		const lines = text("bob")[0]?.split("\n") ?? [];
		for (const line of ["thread: 1.first", `re: ${id}`, "kind: report", "subject: done", "priority: low"]) expect(lines).toContain(line);
	});

	test("reads standard input as send does: with -, with no words, and words with - are the subject", async () => {
		const { env, send, text } = make();
		const ids = [1, 2, 3].map((n) => send("bob", "alice", String(n)));
		const answer = (id: string | undefined, ...words: string[]) =>
			run([...cli, "reply", id as string, ...words, "--as", "alice"], { env, input: `text of ${words}` });
		expect((await answer(ids[0], "-")).code).toBe(0);
		expect((await answer(ids[1])).code).toBe(0);
		expect((await answer(ids[2], "test", "results", "-")).code).toBe(0);
		const replies = text("bob");
		expect(replies.map((reply) => reply.split("\n---\n")[1])).toEqual(["text of -", "text of ", "text of test,results,-"]);
		expect(replies[2]?.split("\n")).toContain("subject: test results");
	});

	test("to what is in hand finishes it; to what was read marks it answered; twice sends twice", async () => {
		const { root, xfer, send, text } = make();
		const [taken, read] = [send("bob", "alice", "1"), send("bob", "alice", "2")];
		await xfer("read", taken, "--take", "--as", "alice");
		await xfer("read", read, "--as", "alice");
		for (const id of [taken, read, read]) expect((await xfer("reply", id, "y", "--as", "alice")).code).toBe(0);
		expect(ls(root, "nodes/alice/cur")).toEqual([`${taken}:2,RS`, `${read}:2,RS`]);
		expect(text("bob")).toHaveLength(3);
	});

	test("of a live Node carries the hops on; of one that is away it carries none", async () => {
		const { root, env, xfer, send, text } = make();
		const [first, second] = [send("bob", "alice", "1", { hops: 3 }), send("bob", "alice", "2", { hops: 3 })];
		await xfer("reply", first, "y", "--as", "alice");
		const holder = openTree({ root, durable: false });
		const live = await holder.node("alice").goLive();
		onTestFinished(() => live.end());
		await run([...cli, "reply", second, "y", "--as", "alice"], { env: { ...env, XFER_INSTANCE: holder.context.instance } });
		expect(text("bob").map((reply) => /^hops: "?(\d+)"?$/m.exec(reply)?.[1])).toEqual([undefined, "4"]);
	});

	test("to what oneself sent goes to its recipient, and marks nothing", async () => {
		const { root, xfer, send, text } = make();
		const id = send("bob", "alice", "fix it");
		const result = await xfer("reply", short(id), "and hurry", "--as", "bob");
		expect(result).toMatchObject({ code: 0, out: expect.stringMatching(/^queued for alice /) });
		expect(ls(root, "nodes/alice/new")).toHaveLength(2);
		expect(ls(root, "nodes/alice/cur")).toEqual([]);
		expect(text("alice")[1]).toContain(`re: ${id}\nthread: ${id}\n`);
		expect(ls(root, "nodes/bob/new")).toEqual([]);
	});

	test("as JSON: one document, as send's", async () => {
		const { root, xfer, send } = make();
		const { out } = await xfer("reply", send("bob", "alice", "x"), "y", "--json", "--as", "alice");
		expect(JSON.parse(out)).toMatchObject({
			schema: "xfer.send/1",
			handoffs: [{ to: "bob", id: ls(root, "nodes/bob/new")[0], state: "queued" }],
		});
	});
});

describe("is refused, with nothing changed,", () => {
	/** Every name and all text under the tree, without Nodes' own times. */
	const snapshot = (root: string) =>
		fs.readdirSync(root, { recursive: true, withFileTypes: true }).map((entry) => {
			const file = path.join(entry.parentPath, entry.name);
			return [file, entry.isFile() ? fs.readFileSync(file, "utf8") : ""];
		});

	test("when the original is not there: exit 3", async () => {
		const { root, xfer } = make();
		const before = snapshot(root);
		const result = await xfer("reply", "zzzzzz", "x", "--as", "alice");
		expect(result).toMatchObject({ code: 3, out: "", err: expect.stringMatching(/^xfer: no Handoff "zzzzzz".*\(.+\)\n$/) });
		expect(snapshot(root)).toEqual(before);
	});

	test("when what oneself sent is gone: exit 3", async () => {
		const { root, xfer, send } = make();
		const id = send("bob", "alice", "x");
		fs.rmSync(path.join(root, "nodes/alice/new", id));
		const before = snapshot(root);
		expect(await xfer("reply", id, "x", "--as", "bob")).toMatchObject({
			code: 3,
			out: "",
			err: expect.stringMatching(/^xfer: .+ \(.+\)\n$/),
		});
		expect(snapshot(root)).toEqual(before);
	});

	test.each(["nobody", "unknown", "../bob", "@all", "bob/../bob", "a,b", "alice\0bob", "x".repeat(300), "\x1b[2J"])(
		"when its sender %j is no Node: exit 3",
		async (from) => {
			const { root, xfer } = make();
			fs.writeFileSync(path.join(root, "nodes/alice/new/100.x"), `---\nfrom: ${JSON.stringify(from)}\n---\nx`);
			const before = snapshot(root);
			const result = await xfer("reply", "100.x", "y", "--as", "alice");
			expect(result).toMatchObject({ code: 3, out: "", err: expect.stringMatching(/^xfer: .+ \(.+\)\n$/) });
			expect(result.err).not.toContain("\x1b");
			expect(snapshot(root)).toEqual(before);
		},
	);

	test("when there is nothing to say: exit 2", async () => {
		const { root, xfer, send } = make();
		const id = send("bob", "alice", "x");
		const before = snapshot(root);
		const results = await Promise.all([
			xfer("reply", id, "", "--as", "alice"),
			xfer("reply", id, "--as", "alice"),
			xfer("reply", id, "s", "-", "--as", "alice"),
		]);
		for (const result of results) expect(result).toMatchObject({ code: 2, out: "", err: expect.stringMatching(/text is empty \(.+\)\n$/) });
		expect(snapshot(root)).toEqual(before);
	});

	test("when another live instance holds the Node: exit 5", async () => {
		const { root, xfer, send } = make();
		const id = send("bob", "alice", "x");
		const live = await openTree({ root, durable: false }).node("alice").goLive();
		onTestFinished(() => live.end());
		expect(await xfer("reply", id, "y", "--as", "alice")).toMatchObject({ code: 5, out: "" });
		expect(ls(root, "nodes/bob/new")).toEqual([]);
		expect(ls(root, "nodes/alice/new")).toEqual([id]);
	});

	test("what was read is answered though another live instance holds the Node, which alone marks it", async () => {
		const { root, xfer, send } = make();
		const id = send("bob", "alice", "x");
		await xfer("read", "--as", "alice");
		const live = await openTree({ root, durable: false }).node("alice").goLive();
		onTestFinished(() => live.end());
		expect(await xfer("reply", id, "y", "--as", "alice")).toMatchObject({ code: 0, err: expect.not.stringContaining("marked") });
		expect(ls(root, "nodes/bob/new").length).toBe(1);
		expect(ls(root, "nodes/alice/cur")).toEqual([`${id}:2,S`]);
	});

	test("when the ID fits several: exit 2", async () => {
		const { root, xfer, send } = make();
		const id = send("bob", "alice", "1");
		send("bob", "alice", "2");
		expect(await xfer("reply", id.slice(0, 6), "y", "--as", "alice")).toMatchObject({ code: 2, out: "" });
		expect(ls(root, "nodes/bob/new")).toEqual([]);
	});
});

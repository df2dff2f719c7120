/** `xfer send --wait`: blocks until the reply is there, and prints it and nothing else. */
import { describe, expect, test } from "vitest";
import { openTree } from "../../lib/index.ts";
import { cli, ls, onTestFinished, type Result, run, start, tempTree, until } from "../helpers.ts";

function make(...names: string[]) {
	const { root, env } = tempTree();
	const tree = openTree({ root, durable: false });
	for (const name of names) tree.join(name);
	const xfer = (...args: string[]) => run([...cli, ...args], { env });
	return { root, env, tree, xfer };
}

const short = (id: string) => /R(.{8})\./.exec(id)?.[1] as string;

/** The id of the only Handoff that waits for a Node, as soon as there is one. */
const arrival = (root: string, name: string) => until(() => ls(root, "nodes", name, "new")[0], `mail for ${name}`);

describe("the reply", () => {
	test("is printed byte for byte with nothing else on standard output, is then read, and the state goes to standard error", async () => {
		const { root, env, xfer } = make("alice");
		const waiting = xfer("send", "alice", "--wait", "which port?", "--as", "bob");
		const id = await arrival(root, "alice");
		const bytes = Buffer.concat([Buffer.from("---\r\n\0 port 8080\n\n"), Buffer.from([0xff, 0x80]), Buffer.from("no end")]);
		await run([...cli, "reply", id, "-", "--as", "alice"], { env, input: bytes });
		const result = await waiting;
		expect(result.code).toBe(0);
		expect(result.bytes.equals(bytes)).toBe(true);
		expect(result.err).toMatch(new RegExp(`^${short(id)} queued \\d+ s: nobody watches alice\n$`));
		expect(ls(root, "nodes/bob/new")).toEqual([]);
		expect(ls(root, "nodes/bob/cur")).toEqual([expect.stringMatching(/:2,S$/)]);
		expect(ls(root, "nodes/alice/cur")).toEqual([expect.stringMatching(/:2,RS$/)]);
	});

	test("is also one that a shell or `send --re` writes, and other mail that comes meanwhile stays unread", async () => {
		const { root, xfer } = make("alice");
		const waiting = xfer("send", "alice", "--wait", "which port?", "--as", "bob");
		const id = await arrival(root, "alice");
		await xfer("send", "bob", "by the way", "--as", "alice");
		await xfer("send", "bob", "8080", "--re", id, "--as", "alice");
		expect(await waiting).toMatchObject({ code: 0, out: "8080" });
		const { out } = await xfer("inbox", "--as", "bob");
		expect(out.trim().split("\n")).toEqual([expect.stringMatching(/queued\ttask\talice\tby the way$/)]);
	});

	test("is found when a live holder of the same Node took it first, and is not marked a second time", async () => {
		const { root, env, tree } = make("alice", "bob");
		const holder = openTree({ root, durable: false });
		const live = await holder.node("bob").goLive();
		onTestFinished(() => live.end());
		const child = start([...cli, "send", "alice", "--wait", "which port?", "--as", "bob"], { env, stdio: ["ignore", "pipe", "pipe"] });
		const ended = collect(child);
		const id = await arrival(root, "alice");
		child.kill("SIGSTOP"); // so that the holder is first
		tree.send({ from: "alice", to: ["bob"], kind: "answer", body: "8080", re: id, thread: id });
		const taken = live.node.inbox.take();
		expect(taken?.handoff.re).toBe(id);
		child.kill("SIGCONT");
		expect(await ended).toMatchObject({ code: 0, out: "8080" });
		expect(ls(root, "nodes/bob/cur")).toEqual([expect.stringMatching(`,L=\\d+\\.${holder.context.instance}:2,$`)]);
		taken?.done();
		expect(ls(root, "nodes/bob/cur")).toEqual([expect.stringMatching(/:2,S$/)]);
	});

	test("is found when another reader of the same Node took it first", async () => {
		const { root, env, tree } = make("alice", "bob");
		const child = start([...cli, "send", "alice", "--wait", "which port?", "--as", "bob"], { env, stdio: ["ignore", "pipe", "pipe"] });
		const ended = collect(child);
		const id = await arrival(root, "alice");
		child.kill("SIGSTOP");
		tree.send({ from: "alice", to: ["bob"], kind: "answer", body: "8080", re: id, thread: id });
		const taken = openTree({ root, durable: false }).node("bob").inbox.take();
		child.kill("SIGCONT");
		expect(await ended).toMatchObject({ code: 0, out: "8080" });
		taken?.done(); // it is in that one's hand still
	});

	test("is found when a live holder has read and marked it already", async () => {
		const { root, env, tree } = make("alice", "bob");
		const live = await openTree({ root, durable: false }).node("bob").goLive();
		onTestFinished(() => live.end());
		const child = start([...cli, "send", "alice", "--wait", "which port?", "--as", "bob"], { env, stdio: ["ignore", "pipe", "pipe"] });
		const ended = collect(child);
		const id = await arrival(root, "alice");
		child.kill("SIGSTOP");
		tree.send({ from: "alice", to: ["bob"], kind: "answer", body: "8080", re: id, thread: id });
		live.node.inbox.take()?.done();
		child.kill("SIGCONT");
		expect(await ended).toMatchObject({ code: 0, out: "8080" });
		expect(ls(root, "nodes/bob/cur")).toEqual([expect.stringMatching(/:2,S$/)]);
	});

	test("is printed and left alone when a live holder of the same Node has not taken it yet", async () => {
		const { root, tree, xfer } = make("alice", "bob");
		const live = await openTree({ root, durable: false }).node("bob").goLive();
		onTestFinished(() => live.end());
		const waiting = xfer("send", "alice", "--wait", "which port?", "--as", "bob");
		const id = await arrival(root, "alice");
		tree.send({ from: "alice", to: ["bob"], kind: "answer", body: "8080", re: id, thread: id });
		expect(await waiting).toMatchObject({ code: 0, out: "8080" });
		expect(ls(root, "nodes/bob/new")).toHaveLength(1);
	});

	test("is waited for by `reply --wait` too", async () => {
		const { root, tree, xfer } = make("alice", "bob");
		const [first] = tree.send({ from: "bob", to: ["alice"], kind: "question", body: "which port?" });
		if (!first || first.error) throw new Error("not sent");
		const waiting = xfer("reply", first.id, "--wait", "of which host?", "--as", "alice");
		const id = await arrival(root, "bob");
		await xfer("reply", id, "of box", "--as", "bob");
		expect(await waiting).toMatchObject({ code: 0, out: "of box" });
	});

	test("is one JSON document with --json", async () => {
		const { root, xfer } = make("alice");
		const waiting = xfer("send", "alice", "--wait", "--json", "which port?", "--as", "bob");
		await xfer("reply", await arrival(root, "alice"), "8080", "--as", "alice");
		const { code, out } = await waiting;
		expect(code).toBe(0);
		expect(JSON.parse(out).schema).toMatch(/^xfer\.\w+\/1$/);
		expect(out).toContain('"8080"');
		expect(out.trimEnd().split("\n")).toHaveLength(1);
	});

	test("that can't be printed stays unread", async () => {
		const { root, env, xfer } = make("alice");
		const waiting = run(["sh", "-c", `exec "$@" >/dev/full`, "sh", ...cli, "send", "alice", "--wait", "hi", "--as", "bob"], { env });
		await xfer("reply", await arrival(root, "alice"), "8080", "--as", "alice");
		expect((await waiting).code).toBe(1);
		expect(ls(root, "nodes/bob/new")).toHaveLength(1);
	});
});

describe("no reply", () => {
	test("after a failure: exit 1, the report's reason on standard error, nothing on standard output", async () => {
		const { root, xfer } = make("alice");
		const waiting = xfer("send", "alice", "--wait", "hi", "--as", "bob");
		const id = await arrival(root, "alice");
		await xfer("mark", id, "failed", "no such branch", "--as", "alice");
		const result = await waiting;
		expect(result).toMatchObject({ code: 1, out: "" });
		expect(result.err).toMatch(new RegExp(`${short(id)}.* failed .*alice`));
		expect(result.err).toContain("no such branch");
		expect(ls(root, "nodes/bob/new")).toEqual([]); // shown, so read
	});

	test("after a recall: exit 1, and who recalled it is not said to be the recipient", async () => {
		const { root, xfer } = make("alice");
		const waiting = xfer("send", "alice", "--wait", "hi", "--as", "bob");
		const id = await arrival(root, "alice");
		await xfer("recall", id, "--as", "bob");
		const result = await waiting;
		expect(result).toMatchObject({ code: 1, out: "" });
		expect(result.err).toContain("recalled");
		expect(result.err).not.toContain("recalled by alice");
	});

	test("after its time ran out: exit 1", async () => {
		const { root, xfer } = make("alice");
		const result = await xfer("send", "alice", "--wait", "--expires", "1s", "hi", "--as", "bob");
		expect(result).toMatchObject({ code: 1, out: "" });
		expect(result.err).toContain("expired");
		expect(ls(root, "nodes/bob/new")).toEqual([]);
	});

	test("within --timeout: exit 4, the state, and a line that recalls it", async () => {
		const { root, env, xfer } = make("alice");
		const result = await xfer("send", "alice", "--wait", "--timeout", "1s", "hi", "--as", "bob");
		expect(result).toMatchObject({ code: 4, out: "" });
		const last = result.err.trimEnd().split("\n").at(-1) as string;
		expect(last).toMatch(/^xfer: no reply in time: queued \d+ s: nobody watches alice \(.+\)$/);
		const line = /xfer (recall \w+( --as \w+)?)/.exec(last)?.[1]?.split(" ") ?? [];
		expect(await run([...cli, ...line], { env })).toMatchObject({ code: 0, err: "" });
		expect(ls(root, "nodes/alice/cur")).toEqual([expect.stringMatching(/,E=recalled:2,T$/)]);
	});

	test("within --timeout, when it was read: exit 4 says so", async () => {
		const { root, xfer } = make("alice");
		await until(async () => {
			const waiting = xfer("send", "alice", "--wait", "--timeout", "1s", "hi", "--as", "bob");
			await arrival(root, "alice");
			await xfer("read", "--as", "alice");
			const result = await waiting;
			expect(result).toMatchObject({ code: 4, out: "" });
			return /no reply in time: read by alice \d\d:\d\d, unanswered/.test(result.err); // else the reader was too slow
		});
	});

	test("from an unknown recipient, or several: an error at once", async () => {
		const { root, xfer } = make("alice", "carl");
		const [unknown, several, all] = await Promise.all([
			xfer("send", "alcie", "--wait", "hi"),
			xfer("send", "alice,carl", "--wait", "hi"),
			xfer("send", "@all", "--wait", "hi"),
		]);
		expect(unknown).toMatchObject({ code: 3, out: "" });
		for (const result of [several, all]) expect(result).toMatchObject({ code: 2, out: "", err: expect.stringContaining("--wait") });
		expect(ls(root, "nodes/alice/new")).toEqual([]);
	});
});

/** What a process says until it ends. */
function collect(child: ReturnType<typeof start>): Promise<Pick<Result, "code" | "out" | "err">> {
	let out = "";
	let err = "";
	child.stdout?.on("data", (chunk) => {
		out += chunk;
	});
	child.stderr?.on("data", (chunk) => {
		err += chunk;
	});
	return new Promise((resolve) => child.on("close", (code) => resolve({ code, out, err })));
}

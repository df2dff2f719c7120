/** `xfer sent`: where what was sent stands now, and why it waits. */
import fs from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { openTree } from "../../lib/index.ts";
import { cli, ls, onTestFinished, run, tempTree } from "../helpers.ts";

const minute = 60_000;

function make() {
	const { root, env } = tempTree();
	const tree = openTree({ root, durable: false });
	for (const name of ["api", "bob"]) tree.join(name);
	const xfer = (...args: string[]) => run([...cli, ...args], { env: { ...env, XFER_NODE: "bob" } });
	/** Bob sends to api by the library, so many minutes ago; the id. */
	const send = (body: string, ago = 0, more = {}) => {
		const then = ago === 0 ? tree : openTree({ root, durable: false, clock: () => Date.now() - ago * minute });
		const [outcome] = then.send({ from: "bob", to: ["api"], body, ...more });
		if (!outcome || outcome.error) throw outcome?.error ?? new Error("not sent");
		return outcome.id;
	};
	const goLive = async (presence: object) => {
		const live = await openTree({ root, durable: false }).node("api").goLive(presence);
		onTestFinished(() => live.end());
		return live;
	};
	return { root, env, tree, api: tree.node("api"), xfer, send, goLive };
}

const short = (id: string) => /R(.{8})\./.exec(id)?.[1] as string;

describe("the list", () => {
	test("has a line each with id, date, state, kind, recipient and subject, the newest first, in the words of the tree", async () => {
		const { root, api, xfer, send } = make();
		const ids = ["gone", "taken", "read", "answered", "failed", "recalled", "expired", "replaced", "unreadable", "queued"].map((subject) =>
			send("x", 0, { subject }),
		) as [string, ...string[]];
		const name = (n: number) => path.join(root, "nodes/api/new", ids[n] as string);
		fs.rmSync(name(0));
		for (const [n, end] of [
			[1, `,L=${Math.floor(Date.now() / 1000) + 9999}.aaaaaaaa:2,`],
			[2, ":2,S"],
			[3, ":2,RS"],
			[4, ",E=failed:2,F"],
			[5, ",E=recalled:2,T"],
			[6, ",E=expired:2,T"],
			[7, ",E=replaced:2,T"],
			[8, ",E=unreadable:2,F"],
		] as const)
			fs.renameSync(name(n), path.join(root, "nodes/api/cur", `${ids[n]}${end}`));
		expect(api.inbox.list().items).toHaveLength(4);
		const { code, out, err } = await xfer("sent");
		expect({ code, err }).toEqual({ code: 0, err: "" });
		const lines = out
			.split("\n")
			.slice(0, -1)
			.map((line) => line.split("\t"));
		expect(lines.map(([id]) => id)).toEqual(ids.toReversed());
		expect(lines.map(([, , state]) => state)).toEqual([
			"queued",
			"unreadable",
			"replaced",
			"expired",
			"recalled",
			"failed",
			"answered",
			"read",
			"taken",
			"gone",
		]);
		expect(lines[0]?.slice(3)).toEqual(["task", "api", "queued"]);
		expect(Math.abs(Date.parse(lines[0]?.[1] ?? "") - Date.now())).toBeLessThan(10 * minute);
	});

	test("is the newest 50 unless --limit says otherwise, and how many more there are goes to standard error", async () => {
		const { xfer, send } = make();
		const ids = Array.from({ length: 60 }, (_, n) => send(String(n)));
		const [standard, two, all] = await Promise.all([xfer("sent"), xfer("sent", "--limit", "2"), xfer("sent", "--limit", "0")]);
		expect(standard.out.trim().split("\n")).toHaveLength(50);
		expect(standard.err).toMatch(/^10 more \(.*--limit 0.*\)\n$/);
		expect(
			two.out
				.trim()
				.split("\n")
				.map((line) => line.split("\t")[0]),
		).toEqual(ids.slice(-2).reverse());
		expect(two.err).toMatch(/^58 more /);
		expect(all.out.trim().split("\n")).toHaveLength(60);
	});

	test("is empty for who has sent nothing, and an error for who is no Node", async () => {
		const { xfer } = make();
		expect(await xfer("sent")).toMatchObject({ code: 0, out: "", err: "" });
		expect(await xfer("sent", "--as", "carl")).toMatchObject({ code: 3, out: "", err: expect.stringContaining("xfer join carl") });
	});

	test("as JSON: one document", async () => {
		const { api, xfer, send } = make();
		const id = send("which port?", 0, { kind: "question" });
		api.inbox.take()?.done(true);
		const { out } = await xfer("sent", "--json");
		expect(JSON.parse(out)).toMatchObject({
			schema: "xfer.sent/1",
			node: "bob",
			handoffs: [{ id, to: "api", state: "answered", kind: "question" }],
			more: 0,
		});
	});
});

describe("the story of one", () => {
	test("that waits where nobody is: says that nobody watches, and how to recall it, in a line that works", async () => {
		const { root, env, xfer, send } = make();
		const id = send("fix it", 12);
		const { code, out, err } = await xfer("sent", short(id));
		expect({ code, err }).toEqual({ code: 0, err: "" });
		expect(out).toContain("queued 12 min: nobody watches api\n");
		expect(out).toContain("task: fix it\n");
		expect(out).toMatch(/sent 12 min ago/);
		expect(out).toContain("xfer recall ");
		// As another would see it who passes --as: the line that is told has to work as it stands.
		const told = await run([...cli, "sent", id, "--as", "bob"], { env });
		const line = /xfer (recall .*)/.exec(told.out)?.[1]?.split(" ") ?? [];
		expect(await run([...cli, ...line], { env })).toMatchObject({ code: 0, err: "" });
		expect(ls(root, "nodes/api/new")).toEqual([]);
	});

	test("that waits for a busy Node: with what it is busy, and until when", async () => {
		const { xfer, send, goLive } = make();
		await goLive({ status: "tool:bash" });
		expect((await xfer("sent", send("fix it", 4))).out).toMatch(/^queued 4 min: api is busy \(tool:bash\), joins by \d\d:\d\d$/m);
		// Patience has an end: after ten minutes there is no time to name any more.
		expect((await xfer("sent", send("fix it", 3))).out).toMatch(/^queued 3 min: api is busy \(tool:bash\), joins by \d\d:\d\d$/m);
		// It has waited for as long as it has to: it joins at once, whatever the clock says.
		expect((await xfer("sent", send("fix it", 12))).out).toMatch(
			/^queued 12 min: api is busy \(tool:bash\), joins (by \d\d:\d\d|at its next turn)$/m,
		);
	});

	test("that waits for a Node that holds its mail: why", async () => {
		const { xfer, send, goLive } = make();
		await goLive({ status: "idle", holding: "quiet" });
		expect((await xfer("sent", send("fix it", 3))).out).toMatch(/^queued 3 min: api holds mail: quiet$/m);
	});

	test("that waits for one that looks at its next prompt: that", async () => {
		const { xfer, send, goLive } = make();
		await goLive({ status: "idle", wake: "turn" });
		expect((await xfer("sent", send("fix it", 3))).out).toMatch(/^queued 3 min: api is idle; looks at its next prompt$/m);
	});

	test("that is in hand: since when and until when", async () => {
		const { api, xfer, send } = make();
		const id = send("fix it");
		api.inbox.take();
		expect((await xfer("sent", id)).out).toMatch(/in the hand of api since \d\d:\d\d, until \d\d:\d\d/);
	});

	test("that was read: when, that it is unanswered, and what is known of the reader", async () => {
		const { api, xfer, send, goLive } = make();
		const id = send("fix it");
		api.inbox.take()?.done();
		expect((await xfer("sent", id)).out).toMatch(/^read by api \d\d:\d\d, unanswered; api away since \d\d:\d\d$/m);
		await goLive({ status: "idle" });
		expect((await xfer("sent", id)).out).toMatch(/^read by api \d\d:\d\d, unanswered$/m);
	});

	test("that was answered, failed, or is gone", async () => {
		const { root, api, xfer, send } = make();
		const [answered, failed, gone] = [send("1"), send("2"), send("3")];
		api.inbox.take()?.done(true);
		api.inbox.take()?.fail("why");
		fs.rmSync(path.join(root, "nodes/api/new", gone));
		const results = await Promise.all([answered, failed, gone].map((id) => xfer("sent", id)));
		for (const [n, word] of [/^answered by api \d\d:\d\d/m, /^failed \d\d:\d\d/m, /^gone: /m].entries())
			expect(results[n]?.out).toMatch(word);
	});

	test("that was given back: how often", async () => {
		const { api, xfer, send } = make();
		const id = send("fix it");
		api.inbox.take()?.release();
		expect((await xfer("sent", id)).out).toMatch(/given back 1 time\n/);
	});

	test("as JSON: one document with the story", async () => {
		const { xfer, send } = make();
		const id = send("fix it", 12);
		const { out } = await xfer("sent", id, "--json");
		expect(JSON.parse(out)).toMatchObject({
			schema: "xfer.sent/1",
			handoffs: [{ id, to: "api", state: "queued", story: "queued 12 min: nobody watches api" }],
		});
	});

	test("that was not sent: exit 3; that fits several: exit 2", async () => {
		const { xfer, send } = make();
		const [id] = [send("1"), send("2")];
		const [none, several] = await Promise.all([xfer("sent", "zzzzzz"), xfer("sent", id.slice(0, 6))]);
		expect(none).toMatchObject({ code: 3, out: "", err: expect.stringMatching(/^xfer: .+ \(.+\)\n$/) });
		expect(several).toMatchObject({ code: 2, out: "", err: expect.stringContaining(short(id)) });
	});

	test("whose pointer leads out of the tree is not followed", async () => {
		const { root, xfer } = make();
		const outside = path.join(path.dirname(root), "outside/new");
		fs.mkdirSync(outside, { recursive: true });
		fs.writeFileSync(path.join(outside, "1.x"), "secret");
		for (const target of ["../../../../outside", "../..", "/etc", "../../../outside", "../../bob/../../../outside"]) {
			fs.symlinkSync(target, path.join(root, "nodes/bob/sent", "1234.x"));
			const results = await Promise.all([xfer("sent"), xfer("sent", "1234.x"), xfer("recall", "1234.x")]);
			for (const { out, err } of results) expect(out + err).not.toMatch(/secret|\n {4}at /);
			expect(results[0]?.code).toBe(0);
			expect(results[2]?.code).toBe(3);
			fs.unlinkSync(path.join(root, "nodes/bob/sent", "1234.x"));
		}
		expect(ls(outside)).toEqual(["1.x"]);
	});
});

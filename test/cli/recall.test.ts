/** `xfer recall`: takes back what nobody has taken yet. */
import fs from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { openTree } from "../../lib/index.ts";
import { cli, ls, run, tempTree } from "../helpers.ts";

/** A tree in which bob has sent so many Handoffs to alice. */
function make(count = 1) {
	const { root, env } = tempTree();
	const tree = openTree({ root, durable: false });
	const alice = tree.join("alice");
	const ids = Array.from({ length: count }, (_, n) => tree.send({ from: "bob", to: ["alice"], body: `text ${n}` })[0]).map((outcome) =>
		outcome && "id" in outcome ? outcome.id : "",
	);
	const xfer = (...args: string[]) => run([...cli, ...args], { env });
	return { root, env, tree, alice, ids: ids as [string, ...string[]], xfer };
}

const short = (id: string) => /R(.{8})\./.exec(id)?.[1] as string;

test("takes it back: the recipient never reads it, and both see that it was recalled", async () => {
	const { root, ids, xfer } = make();
	expect(await xfer("recall", short(ids[0]), "--as", "bob")).toMatchObject({ code: 0, out: `recalled\t${ids[0]}\n`, err: "" });
	expect(ls(root, "nodes/alice/new")).toEqual([]);
	expect(ls(root, "nodes/alice/cur")).toEqual([`${ids[0]},E=recalled:2,T`]);
	expect((await xfer("read", "--as", "alice")).code).toBe(3);
	expect((await xfer("sent", "--as", "bob")).out).toMatch(/\trecalled\t/);
	expect((await xfer("inbox", "alice", "--all")).out).toMatch(/\trecalled\t/);
});

test.each([
	["in hand", async ({ alice }: ReturnType<typeof make>) => void alice.inbox.take()],
	["read", async ({ alice }: ReturnType<typeof make>) => alice.inbox.take()?.done()],
	["answered", async ({ alice }: ReturnType<typeof make>) => alice.inbox.take()?.done(true)],
	["failed", async ({ alice }: ReturnType<typeof make>) => alice.inbox.take()?.fail("why")],
])("when it is %s already: exit 5, and nothing changes", async (_, act) => {
	const made = make();
	const { root, ids, xfer } = made;
	await act(made);
	const before = ls(root, "nodes/alice/cur");
	const result = await xfer("recall", ids[0], "--as", "bob");
	expect(result).toMatchObject({ code: 5, out: "", err: expect.stringMatching(/^xfer: .+ \(.+\)\n$/) });
	expect(result.err).toContain(short(ids[0]));
	expect(ls(root, "nodes/alice/cur")).toEqual(before);
});

test("when it was recalled already: it does not say that the recipient has it", async () => {
	const { ids, xfer } = make();
	await xfer("recall", ids[0], "--as", "bob");
	const result = await xfer("recall", ids[0], "--as", "bob");
	expect([0, 5]).toContain(result.code);
	expect(result.out + result.err).toContain("recalled");
	expect(result.out + result.err).not.toContain("alice has it");
});

test("of what one did not send, or what is gone: exit 3; of several: exit 2", async () => {
	const { root, ids, xfer } = make(2);
	const results = await Promise.all([
		xfer("recall", ids[0], "--as", "alice"),
		xfer("recall", "zzzzzz", "--as", "bob"),
		xfer("recall", ids[0].slice(0, 6), "--as", "bob"),
	]);
	expect(results.map(({ code, out }) => [code, out])).toEqual([
		[3, ""],
		[3, ""],
		[2, ""],
	]);
	for (const { err } of results) expect(err).toMatch(/^xfer: .+ \(.+\)\n$/);
	fs.rmSync(path.join(root, "nodes/alice/new", ids[0]));
	expect(await xfer("recall", ids[0], "--as", "bob")).toMatchObject({ code: 3, out: "", err: expect.stringMatching(/gone.*\(.+\)\n$/) });
	expect(ls(root, "nodes/alice/new")).toEqual([ids[1]]);
});

test("of what a mail reader moved to cur/ unread takes it back too", async () => {
	const { root, ids, xfer } = make();
	fs.renameSync(path.join(root, "nodes/alice/new", ids[0]), path.join(root, "nodes/alice/cur", `${ids[0]}:2,F`));
	expect(await xfer("recall", ids[0], "--as", "bob")).toMatchObject({ code: 0, out: `recalled\t${ids[0]}\n` });
	expect(ls(root, "nodes/alice/cur")).toEqual([expect.stringMatching(/,E=recalled:2,F?T$/)]);
});

test("of many while the recipient reads them: each is either recalled or read, never both", { timeout: 120_000 }, async () => {
	const { root, ids, xfer } = make(24);
	const recalls = ids.map((id) => xfer("recall", id, "--as", "bob"));
	const reads = [1, 2, 3].map(() => xfer("read", "--all", "--as", "alice"));
	const recalled = await Promise.all(recalls);
	const texts = (await Promise.all(reads)).map(({ out }) => out).join("\n");
	expect(ls(root, "nodes/alice/new")).toEqual([]);
	for (const [n, id] of ids.entries()) {
		const { code, out, err } = recalled[n] as (typeof recalled)[0];
		const times = texts.split(new RegExp(`text ${n}(?!\\d)`)).length - 1;
		const name = ls(root, "nodes/alice/cur").find((file) => file.startsWith(id));
		if (code === 0) expect([out, times, name]).toEqual([`recalled\t${id}\n`, 0, `${id},E=recalled:2,T`]);
		else expect([code, out, times, name, err.startsWith("xfer: ")]).toEqual([5, "", 1, `${id}:2,S`, true]);
	}
});

test("as JSON: one document", async () => {
	const { ids, xfer } = make();
	const { out } = await xfer("recall", ids[0], "--json", "--as", "bob");
	expect(JSON.parse(out)).toEqual({ schema: "xfer.recall/1", id: ids[0], to: "alice", state: "recalled" });
});

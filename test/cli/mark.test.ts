/** `xfer mark`: finishes, gives back or fails what is in hand, and clears what failed. */
import fs from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { openTree } from "../../lib/index.ts";
import { cli, ls, onTestFinished, run, tempTree } from "../helpers.ts";

/** A tree in which bob has sent these texts to alice, and the CLI for alice on it. */
function make(...bodies: string[]) {
	const { root, env } = tempTree();
	const tree = openTree({ root, durable: false });
	const alice = tree.join("alice");
	tree.join("bob");
	const ids = bodies
		.map((body) => tree.send({ from: "bob", to: ["alice"], body })[0])
		.map((outcome) => (outcome && "id" in outcome ? outcome.id : ""));
	const mine = { ...env, XFER_NODE: "alice" };
	const xfer = (...args: string[]) => run([...cli, ...args], { env: mine });
	const take = async () => (await xfer("read", "--take")).out.trimEnd();
	return { root, env: mine, tree, alice, ids: ids as [string, string, ...string[]], xfer, take };
}

const short = (id: string) => /R(.{8})\./.exec(id)?.[1] as string;
const states = (root: string, name = "alice") => ({ new: ls(root, "nodes", name, "new"), cur: ls(root, "nodes", name, "cur") });

describe("by the path that `read --take` printed", () => {
	test("read finishes it, new gives it back with its count, failed fails it", async () => {
		const { root, ids, xfer, take } = make("one");
		expect(await xfer("mark", await take(), "new")).toMatchObject({ code: 0, out: `queued\t${ids[0]}\n`, err: "" });
		expect(states(root)).toEqual({ new: [`${ids[0]},A=1`], cur: [] });
		expect(await xfer("mark", await take(), "failed", "no such", "branch")).toMatchObject({ code: 0, out: `failed\t${ids[0]}\n`, err: "" });
		expect(states(root)).toEqual({ new: [], cur: [`${ids[0]},A=1,E=failed:2,F`] });
		expect(await xfer("mark", ids[0], "new")).toMatchObject({ code: 0, out: `queued\t${ids[0]}\n` });
		expect(states(root)).toEqual({ new: [`${ids[0]},A=2`], cur: [] });
		expect(await xfer("mark", await take(), "read")).toMatchObject({ code: 0, out: `read\t${ids[0]}\n`, err: "" });
		expect(states(root)).toEqual({ new: [], cur: [`${ids[0]},A=2:2,S`] });
	});

	test("needs no --as: the path says whose it is; a relative one and one through a symlink are the same path", async () => {
		const { root, env, ids, take } = make("one", "two");
		const [one, two] = [await take(), await take()];
		const link = path.join(path.dirname(root), "link");
		fs.symlinkSync(root, link);
		const cwd = path.dirname(one);
		const elsewhere = { ...env, XFER_NODE: "bob" };
		const results = [
			await run([...cli, "mark", `./${path.basename(one)}`, "read"], { env: elsewhere, cwd }),
			await run([...cli, "mark", two.replace(root, link), "read"], { env: elsewhere }),
		];
		expect(results.map(({ code, err }) => [code, err])).toEqual([
			[0, ""],
			[0, ""],
		]);
		expect(states(root).cur).toEqual(ids.map((id) => `${id}:2,S`));
	});

	test("when the lease was lost to another: exit 5, and nothing changes", async () => {
		const { root, alice, ids, xfer, take } = make("one");
		const file = await take();
		const [name = ""] = states(root).cur;
		fs.renameSync(file, path.join(root, "nodes/alice/new", `${ids[0]},A=1`));
		for (const as of ["read", "new", "failed"]) {
			const result = await xfer("mark", file, as);
			expect(result).toMatchObject({ code: 5, out: "", err: expect.stringMatching(/^xfer: .+ \(.+\)\n$/) });
			expect(result.err).toContain(short(ids[0]));
		}
		expect(states(root)).toEqual({ new: [`${ids[0]},A=1`], cur: [] });
		alice.inbox.take(); // another has it now
		const before = states(root);
		expect(before.cur[0]).not.toBe(name);
		expect(await xfer("mark", file, "read")).toMatchObject({ code: 5, out: "" });
		expect(states(root)).toEqual(before);
		expect(states(root, "bob").new).toEqual([]);
	});

	test("after a flag was added by a mail reader, it is still the same lease", async () => {
		const { root, ids, xfer, take } = make("one");
		const file = await take();
		fs.renameSync(file, `${file}F`);
		expect(await xfer("mark", file, "read")).toMatchObject({ code: 0, err: "" });
		expect(states(root).cur).toEqual([`${ids[0]}:2,FS`]);
	});

	test("that lies outside of the tree, or names nothing: exit 3; a lease on what is gone: exit 5", async () => {
		const { root, env, xfer } = make("one");
		const outside = path.join(path.dirname(root), "alice/cur");
		fs.mkdirSync(outside, { recursive: true });
		fs.writeFileSync(path.join(outside, "1.x"), "x");
		const results = await Promise.all([
			xfer("mark", path.join(outside, "1.x"), "failed"),
			xfer("mark", path.join(root, "nodes/alice/cur/999.x:2,S"), "read"),
			xfer("mark", path.join(root, "nodes/nobody/cur/1.x"), "read"),
			run([...cli, "mark", "../../etc/passwd", "read"], { env }),
			xfer("mark", path.join(root, "nodes/alice/cur/999.x,L=9.aaaaaaaa:2,"), "read"),
		]);
		for (const { out, err } of results) {
			expect(out).toBe("");
			expect(err).toMatch(/^xfer: .+ \(.+\)\n$/);
		}
		expect(results.map(({ code }) => code)).toEqual([3, 3, 3, 3, 5]);
		expect(ls(outside)).toEqual(["1.x"]);
	});

	test("of a Handoff in another tree that has the same Node and id: refused, and nothing changes here", async () => {
		const { root, ids, xfer } = make("one");
		const other = path.join(path.dirname(root), "other/nodes/alice/new");
		fs.mkdirSync(other, { recursive: true });
		fs.writeFileSync(path.join(other, ids[0]), "x");
		expect(await xfer("mark", path.join(other, ids[0]), "read")).toMatchObject({ code: 3, out: "" });
		expect(states(root)).toEqual({ new: [ids[0]], cur: [] });
	});
});

describe("by an ID", () => {
	test("marks what is queued, in hand, or failed", async () => {
		const { root, ids, xfer, take } = make("one", "two");
		expect(await xfer("mark", short(ids[1]), "read")).toMatchObject({ code: 0, out: `read\t${ids[1]}\n` });
		await take();
		expect(await xfer("mark", short(ids[0]), "read")).toMatchObject({ code: 0, out: `read\t${ids[0]}\n` });
		expect(states(root)).toEqual({ new: [], cur: ids.map((id) => `${id}:2,S`) });
		expect(await xfer("mark", short(ids[0]), "new")).toMatchObject({ code: 0, out: `queued\t${ids[0]}\n` });
		expect(states(root).new).toEqual([`${ids[0]},A=1`]);
	});

	test("read clears a failed one: it is listed as failed no more", async () => {
		const { root, ids, xfer } = make("one");
		await xfer("mark", ids[0], "failed", "why");
		expect((await xfer("inbox", "--failed")).out).toContain(ids[0]);
		expect(await xfer("mark", ids[0], "read")).toMatchObject({ code: 0, out: `read\t${ids[0]}\n` });
		expect(states(root).cur).toEqual([`${ids[0]}:2,S`]);
		expect((await xfer("inbox", "--failed")).out).toBe("");
	});

	test("that is not there: exit 3; that fits several: exit 2; too short: exit 2", async () => {
		const { ids, xfer } = make("one", "two");
		const results = await Promise.all([
			xfer("mark", "zzzzzz", "read"),
			xfer("mark", ids[0].slice(0, 6), "read"),
			xfer("mark", "abc", "read"),
		]);
		expect(results.map(({ code, out }) => [code, out])).toEqual([
			[3, ""],
			[2, ""],
			[2, ""],
		]);
	});

	test("with $XFER_INSTANCE, what is in another's hand is not marked", async () => {
		const { root, env, alice, ids } = make("one");
		alice.inbox.take();
		const before = states(root);
		const result = await run([...cli, "mark", ids[0], "read"], { env: { ...env, XFER_INSTANCE: "0123456z" } });
		expect(result).toMatchObject({ code: 5, out: "", err: expect.stringMatching(/^xfer: .*in the hand of .* \(.+\)\n$/) });
		expect(states(root)).toEqual(before);
	});

	test("on a Node that another live instance holds: exit 5; the holder's own children mark", async () => {
		const { root, env, ids, xfer } = make("one");
		const holder = openTree({ root, durable: false });
		const live = await holder.node("alice").goLive();
		onTestFinished(() => live.end());
		expect(await xfer("mark", ids[0], "read")).toMatchObject({ code: 5, out: "" });
		expect(states(root)).toEqual({ new: ids, cur: [] });
		const child = await run([...cli, "mark", ids[0], "read"], { env: { ...env, XFER_INSTANCE: holder.context.instance } });
		expect(child).toMatchObject({ code: 0, err: "" });
	});
});

describe("failed", () => {
	test("sends the sender a report with the reason, and with what it is about", async () => {
		const { root, ids, xfer } = make("fix the test");
		await xfer("mark", ids[0], "failed", "no such", "branch");
		const [name = ""] = states(root, "bob").new;
		const report = fs.readFileSync(path.join(root, "nodes/bob/new", name), "utf8");
		expect(report).toMatch(/^from: alice$/m);
		expect(report).toMatch(/^kind: report$/m);
		expect(report).toMatch(new RegExp(`^re: ${ids[0]}$`, "m"));
		expect(report).toMatch(new RegExp(`^thread: ${ids[0]}$`, "m"));
		expect(report.endsWith("\n---\nno such branch")).toBe(true);
	});

	test("without a reason has a report too", async () => {
		const { root, ids, xfer } = make("one");
		expect((await xfer("mark", ids[0], "failed")).code).toBe(0);
		expect(states(root, "bob").new).toHaveLength(1);
	});

	test("of a report, or of one whose sender is no Node, sends nothing", async () => {
		const { root, xfer } = make();
		const dir = path.join(root, "nodes/alice/new");
		fs.writeFileSync(path.join(dir, "100.report"), "---\nfrom: bob\nkind: report\n---\nx");
		fs.writeFileSync(path.join(dir, "101.nobody"), "---\nfrom: nobody\n---\nx");
		fs.writeFileSync(path.join(dir, "102.outside"), "---\nfrom: ../../bob\n---\nx");
		fs.writeFileSync(path.join(dir, "103.all"), '---\nfrom: "@all"\n---\nx');
		for (const id of ["100.report", "101.nobody", "102.outside", "103.all"]) expect((await xfer("mark", id, "failed", "why")).code).toBe(0);
		expect(states(root).cur).toHaveLength(4);
		expect(states(root, "bob").new).toEqual([]);
		expect(ls(root, "nodes")).toEqual(["alice", "bob"]);
	});
});

test("with another word than read, new, failed: exit 2 and the right words; a reason goes only with failed", async () => {
	const { root, ids, xfer } = make("one");
	const [done, reason, missing] = await Promise.all([
		xfer("mark", ids[0], "done"),
		xfer("mark", ids[0], "read", "because"),
		xfer("mark", ids[0]),
	]);
	expect(done).toMatchObject({ code: 2, out: "", err: expect.stringMatching(/"done" \(xfer mark \S+ read.*new.*failed\)/) });
	expect(reason).toMatchObject({ code: 2, out: "", err: expect.stringMatching(/failed.*\(xfer mark \S+ read\)/) });
	expect(missing).toMatchObject({ code: 2, out: "", err: expect.stringMatching(/\(xfer mark ID\|PATH read\|new\|failed.*\)/) });
	expect(states(root)).toEqual({ new: ids, cur: [] });
});

test("as JSON: one document", async () => {
	const { ids, xfer } = make("one");
	expect(JSON.parse((await xfer("mark", ids[0], "read", "--json")).out)).toEqual({ schema: "xfer.mark/1", id: ids[0], state: "read" });
});

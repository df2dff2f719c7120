/** `xfer gc`: clears away what was read or ended long ago, and nothing else. */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { openTree } from "../../lib/index.ts";
import { cli, ls, onTestFinished, run, tempTree } from "../helpers.ts";

const hour = 3600 * 1000;
const future = Math.floor(Date.now() / 1000) + 100_000;

function make() {
	const { root, env } = tempTree();
	const tree = openTree({ root, durable: false });
	for (const name of ["alice", "bob"]) tree.join(name);
	const dir = path.join(root, "nodes/alice");
	const put = (place: string, text = "---\nfrom: bob\n---\nx") => fs.writeFileSync(path.join(dir, place), text);
	const xfer = (...args: string[]) => run([...cli, ...args], { env });
	return { root, env, tree, dir, put, xfer };
}

/** One of each state, and of all else that gc looks at. */
function fill({ dir, put }: ReturnType<typeof make>) {
	for (const name of [
		"100.read:2,S",
		"101.answered:2,RS",
		"102.recalled,E=recalled:2,T",
		"103.expired,E=expired:2,T",
		"104.replaced,E=replaced:2,T",
	])
		put(`cur/${name}`);
	for (const name of [
		"200.failed,E=failed:2,F",
		`201.taken,L=${future}.aaaaaaaa:2,`,
		"202.unreadable,E=unreadable:2,F",
		"203.stray:2,",
		"204.later,E=someday:2,",
	])
		put(`cur/${name}`);
	put("cur/300.lost,L=100.aaaaaaaa:2,");
	put("new/301.queued");
	put("new/302.late", "---\nexpires: 2020-01-01T00:00:00Z\n---\nx");
	for (const [name, age] of [
		["old", 37 * hour],
		["fresh", 35 * hour],
	] as const) {
		put(`tmp/${name}`, "half");
		const then = new Date(Date.now() - age);
		fs.utimesSync(path.join(dir, "tmp", name), then, then);
	}
	fs.symlinkSync("../../bob", path.join(dir, "sent/400.dangling"));
	fs.symlinkSync("../../alice", path.join(dir, "sent/301.queued"));
	fs.mkdirSync(path.join(dir, "live.lock"));
	const namespace = fs.readlinkSync("/proc/self/ns/pid");
	const dead = 4_194_305; // more than any process has
	fs.writeFileSync(path.join(dir, "live.lock/zzzzzzzz"), `${os.hostname()} ${namespace} ${dead}\n`);
}

describe("gc", () => {
	test("removes what was read or ended past the age, and never what is queued, in hand or failed", async () => {
		const made = make();
		fill(made);
		const { dir, xfer } = made;
		const result = await xfer("gc", "--keep", "0s");
		expect(result).toMatchObject({ code: 0, err: "" });
		// What expires only now may or may not have an age yet.
		expect(ls(dir, "cur").filter((name) => !name.startsWith("302"))).toEqual([
			"200.failed,E=failed:2,F",
			`201.taken,L=${future}.aaaaaaaa:2,`,
			"202.unreadable,E=unreadable:2,F",
			"203.stray:2,",
			"204.later,E=someday:2,",
		]);
		expect(ls(dir, "new")).toEqual(["300.lost,A=1", "301.queued"]);
		expect(ls(dir, "tmp")).toEqual(["fresh"]);
		expect(ls(dir, "sent")).toEqual(["301.queued"]);
		expect(ls(dir, "live.lock")).toEqual([]);
		const [line = ""] = result.out.split("\n").filter((text) => text.startsWith("alice: "));
		expect(line).toMatch(/\b[56] ended/);
		for (const word of [/1 pointer/, /1 abandoned/, /1 dead lock/, /1 returned/, /1 expired/]) expect(line).toMatch(word);
		expect(result.out).toMatch(/^bob: nothing to do$/m);
	});

	test("keeps for 30 days unless --keep says otherwise", async () => {
		const made = make();
		fill(made);
		const { dir, xfer } = made;
		await xfer("gc");
		const ended = ls(dir, "cur").filter((name) => /:2,R?S$|E=(recalled|expired|replaced)/.test(name));
		expect(ended.map((name) => name.slice(0, 3))).toEqual(["100", "101", "102", "103", "104", "302"]);
		await xfer("gc", "--keep", "1h");
		expect(ls(dir, "cur").filter((name) => name.startsWith("1"))).toHaveLength(5);
	});

	test("--dry-run says the same, and does nothing", async () => {
		const made = make();
		fill(made);
		const { root, xfer } = made;
		const tree = () => fs.readdirSync(root, { recursive: true }).sort();
		const before = tree();
		const dry = await xfer("gc", "--dry-run", "--keep", "0s");
		expect(tree()).toEqual(before);
		expect(dry).toMatchObject({ code: 0, err: "" });
		for (const word of [/would/, /5 ended/, /1 pointer/, /1 abandoned/, /1 dead lock/, /1 returned/, /1 expired/])
			expect(dry.out.split("\n").find((line) => line.startsWith("alice: "))).toMatch(word);
	});

	test("says one of one and two of two", async () => {
		const { put, dir, xfer } = make();
		put("cur/100.read:2,S");
		expect((await xfer("gc", "--keep", "0s")).out).toMatch(/^alice: 1 ended Handoff removed$/m);
		put("cur/100.read:2,S");
		put("cur/101.read:2,S");
		expect((await xfer("gc", "--keep", "0s")).out).toMatch(/^alice: 2 ended Handoffs removed$/m);
		expect(ls(dir, "cur")).toEqual([]);
	});

	test("removes an empty derived Node that is away, and no Node that somebody chose", async () => {
		const { root, tree, xfer } = make();
		tree.send({ from: "cron", to: ["alice"], body: "x" }); // makes the Node cron
		tree.node("alice").inbox.take()?.done();
		expect(ls(root, "nodes")).toEqual(["alice", "bob", "cron"]);
		await xfer("gc", "--keep", "0s");
		await xfer("gc", "--keep", "0s"); // the pointer may have led to something the first time
		expect(ls(root, "nodes")).toEqual(["alice", "bob"]);
	});

	test("on a Node that another holds touches nothing that is the holder's: no lease, no lock", async () => {
		const { root, dir, put, xfer } = make();
		const holder = openTree({ root, durable: false });
		const live = await holder.node("alice").goLive();
		onTestFinished(() => live.end());
		put("cur/300.lost,L=100.aaaaaaaa:2,");
		put("new/301.queued");
		await xfer("gc", "--keep", "0s");
		expect(ls(dir, "cur")).toEqual(["300.lost,L=100.aaaaaaaa:2,"]);
		expect(ls(dir, "new")).toEqual(["301.queued"]);
		expect(ls(dir, "live.lock")).toEqual([holder.context.instance]);
		expect(live.lock.held()).toBe(true);
	});

	test("follows no symlink and removes nothing outside of the tree", async () => {
		const { root, dir, xfer } = make();
		const outside = path.join(path.dirname(root), "outside");
		for (const part of ["new", "cur", "tmp", "sent"]) fs.mkdirSync(path.join(outside, part), { recursive: true });
		fs.writeFileSync(path.join(outside, "cur/100.read:2,S"), "x");
		fs.symlinkSync("../../outside", path.join(root, "nodes/mallory"));
		fs.symlinkSync("../../../../outside/cur/100.read:2,S", path.join(dir, "cur/100.link:2,S"));
		expect((await xfer("gc", "--keep", "0s")).code).toBe(0);
		expect(ls(outside, "cur")).toEqual(["100.read:2,S"]);
	});

	test("as JSON: one document", async () => {
		const made = make();
		fill(made);
		const { out } = await made.xfer("gc", "--dry-run", "--keep", "0s", "--json");
		expect(JSON.parse(out)).toMatchObject({
			schema: "xfer.gc/1",
			dryRun: true,
			nodes: [
				{ node: "alice", handoffs: 5, pointers: 1, temporary: 1, locks: 1, returned: 1, expired: 1, removed: false },
				{ node: "bob" },
			],
		});
	});

	test("--keep that is no duration is refused", async () => {
		const { xfer } = make();
		for (const keep of ["7", "-1d", "forever", ""])
			expect(await xfer("gc", `--keep=${keep}`)).toMatchObject({
				code: 2,
				out: "",
				err: expect.stringMatching(/^xfer: --keep .*\(.*7d.*\)\n$/),
			});
	});
});

describe("joining", () => {
	test("runs it for that Node once a day", async () => {
		const { dir, put, xfer } = make();
		put("cur/300.lost,L=100.aaaaaaaa:2,");
		put("cur/100.read:2,S");
		await xfer("join", "alice");
		expect(ls(dir, "new")).toEqual(["300.lost,A=1"]);
		expect(ls(dir, "cur")).toEqual(["100.read:2,S"]); // read just now
		fs.renameSync(path.join(dir, "new/300.lost,A=1"), path.join(dir, "cur/300.lost,A=1,L=100.aaaaaaaa:2,"));
		await xfer("join", "alice");
		expect(ls(dir, "new")).toEqual([]); // was done today
		const stamp = fs.readdirSync(dir).filter((name) => name.startsWith("."));
		const yesterday = new Date(Date.now() - 25 * hour);
		for (const name of stamp) fs.utimesSync(path.join(dir, name), yesterday, yesterday);
		await xfer("join", "alice");
		expect(ls(dir, "new")).toEqual(["300.lost,A=2"]);
	});

	test("or starting on a Node, runs it too", async () => {
		const { root, dir, put } = make();
		put("cur/300.lost,L=100.aaaaaaaa:2,");
		put("tmp/old");
		const then = new Date(Date.now() - 37 * hour);
		fs.utimesSync(path.join(dir, "tmp/old"), then, then);
		const live = await openTree({ root, durable: false }).node("alice").goLive();
		onTestFinished(() => live.end());
		expect(ls(dir, "new")).toEqual(["300.lost,A=1"]);
		expect(ls(dir, "tmp")).toEqual([]);
	});
});

/** `xfer inbox`: what waits, what needs a reader first. */
import fs from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { openTree } from "../../lib/index.ts";
import { cli, onTestFinished, run, tempTree } from "../helpers.ts";

/** A tree in which alice has one Handoff in each state, and the CLI for alice on it. */
function make() {
	const { root, env } = tempTree();
	openTree({ root, durable: false }).join("alice");
	const put = (dir: string, name: string, text = `---\nfrom: bob\nsubject: ${name}\n---\nbody of ${name}\n`) =>
		fs.writeFileSync(path.join(root, "nodes/alice", dir, name), text);
	const mine = { ...env, XFER_NODE: "alice" };
	const xfer = (...args: string[]) => run([...cli, ...args], { env: mine });
	return { root, env: mine, put, xfer };
}

const future = Math.floor(Date.now() / 1000) + 100_000;

function fill(put: ReturnType<typeof make>["put"]) {
	put("cur", "1000.failed,E=failed:2,F");
	put("cur", `1001.taken,L=${future}.aaaaaaaa:2,`);
	put("cur", "1002.read:2,S");
	put("cur", "1003.answered:2,RS");
	put("cur", "1004.recalled,E=recalled:2,T");
	put("cur", "1005.expired,E=expired:2,T");
	put("cur", "1006.replaced,E=replaced:2,T");
	put("cur", "1007.unreadable,E=unreadable:2,F");
	put("cur", "1008.stray:2,");
	put("cur", "1009.later,E=someday:2,");
	put("new", "1010.second", "---\nfrom: carl\nkind: question\ndate: 2026-11-30T12:00:00.5Z\nsubject: which port?\n---\nx");
	put("new", "1009.first");
	put("new", "1011.late", "---\nexpires: 2020-01-01T00:00:00Z\n---\nlate");
}

const lines = (out: string) =>
	out
		.split("\n")
		.slice(0, -1)
		.map((line) => line.split("\t"));
/** The name after the seconds, and the state. */
const outline = (out: string) => lines(out).map(([id, , state]) => `${id?.slice(5)} ${state}`);

describe("the list", () => {
	test("is a line each with id, date, state, kind, from and subject, separated by tabs", async () => {
		const { put, xfer } = make();
		fill(put);
		const { code, out, err } = await xfer("inbox");
		expect({ code, err }).toEqual({ code: 0, err: "" });
		expect(lines(out)[2]).toEqual(["1010.second", "2026-11-30T12:00:00.500Z", "queued", "question", "carl", "which port?"]);
		expect(lines(out)[1]).toEqual(["1009.first", "1970-01-01T00:16:49.000Z", "queued", "task", "bob", "1009.first"]);
	});

	test("has what needs a reader first: queued, the oldest first, then in hand, then failed and unreadable; nothing that was read or ended", async () => {
		const { put, xfer } = make();
		fill(put);
		expect(outline((await xfer("inbox")).out)).toEqual([
			"stray queued",
			"first queued",
			"second queued",
			"taken taken",
			"failed failed",
			"unreadable unreadable",
		]);
	});

	test("has with --all those that were read or ended behind, the newest first", async () => {
		const { put, xfer } = make();
		fill(put);
		const all = outline((await xfer("inbox", "--all")).out);
		expect(all.slice(0, 6)).toEqual([
			"stray queued",
			"first queued",
			"second queued",
			"taken taken",
			"failed failed",
			"unreadable unreadable",
		]);
		expect(all.slice(6).filter((line) => line !== "late expired")).toEqual([
			"later someday",
			"replaced replaced",
			"expired expired",
			"recalled recalled",
			"answered answered",
			"read read",
		]);
		expect(all.slice(6)).toContain("late expired"); // by its header only: nobody has looked for work since
	});

	test("has with --failed only those that failed or can't be read", async () => {
		const { put, xfer } = make();
		fill(put);
		expect(outline((await xfer("inbox", "--failed")).out)).toEqual(["failed failed", "unreadable unreadable"]);
	});

	test("takes for a subject the first line of the body that is not blank; shows control characters and keeps to one line", async () => {
		const { put, xfer } = make();
		put("new", "1.a", "\n  \n\t first line \r\nsecond");
		put("new", "2.b", '---\nsubject: "a\\nb\\tc\\u001b[2J\\u009b"\nfrom: e\x1b[31mvil\nkind: \x07\n---\nx');
		put("new", "3.c", "");
		const { out } = await xfer("inbox");
		expect(lines(out).map((line) => line.slice(3))).toEqual([
			["task", "unknown", "first line"],
			["\\x07", "e\\x1b[31mvil", "a\\x0ab\\x09c\\x1b[2J\\x9b"],
			["task", "unknown", ""],
		]);
	});

	test("changes nothing", async () => {
		const { root, put, xfer } = make();
		fill(put);
		const before = fs.readdirSync(root, { recursive: true }).sort();
		await Promise.all([xfer("inbox"), xfer("inbox", "--all")]);
		expect(fs.readdirSync(root, { recursive: true }).sort()).toEqual(before);
	});

	test("is of me, or of the Node that is named, by any of its names; also while another instance is live on it", async () => {
		const { root, env, put } = make();
		fill(put);
		const tree = openTree({ root, durable: false });
		tree.node("alice").alias("al");
		const live = await tree.node("alice").goLive();
		onTestFinished(() => live.end());
		const mine = await run([...cli, "inbox"], { env });
		const others = { ...env, XFER_NODE: "bob" };
		const results = await Promise.all([
			run([...cli, "inbox", "alice"], { env: others }),
			run([...cli, "inbox", "ALICE"], { env: others }),
			run([...cli, "inbox", "al"], { env: others }),
			run([...cli, "inbox", "--as", "alice"], { env: others }),
		]);
		expect(mine.out).not.toBe("");
		for (const result of results) expect(result).toMatchObject({ code: 0, out: mine.out });
	});

	test("of a Node that is not there: exit 3 and how to make it; of nothing: no line", async () => {
		const { root, xfer } = make();
		const [none, empty, mine] = await Promise.all([xfer("inbox", "alcie"), xfer("inbox"), xfer("inbox", "--as", "bob")]);
		expect(none).toMatchObject({ code: 3, out: "", err: 'xfer: no Node "alcie" (did you mean alice? to make it: xfer join alcie)\n' });
		expect(empty).toMatchObject({ code: 0, out: "", err: "" });
		expect(mine).toMatchObject({ code: 3, out: "", err: expect.stringContaining("xfer join bob") });
		expect(fs.readdirSync(path.join(root, "nodes"))).toEqual(["alice"]);
	});
});

describe("the length", () => {
	test("is 50 unless --limit says otherwise, and how many more there are is told on standard error", async () => {
		const { put, xfer } = make();
		for (let i = 0; i < 120; i++) put("new", `${1000 + i}.x`, "x");
		const [standard, ten, all, none] = await Promise.all([
			xfer("inbox"),
			xfer("inbox", "--limit", "10"),
			xfer("inbox", "--limit", "0"),
			xfer("inbox", "--limit", "120"),
		]);
		expect(lines(standard.out)).toHaveLength(50);
		expect(standard.err).toMatch(/^70 more \(.*--limit 0.*\)\n$/);
		expect(lines(ten.out).map(([id]) => id)).toEqual(Array.from({ length: 10 }, (_, i) => `${1000 + i}.x`));
		expect(ten.err).toMatch(/^110 more /);
		expect(lines(all.out)).toHaveLength(120);
		expect(all.err).toBe("");
		expect(none.err).toBe("");
	});

	test.each(["ten", "-1", "1.5", ""])("--limit %s is refused", async (limit) => {
		const { xfer } = make();
		expect(await xfer("inbox", `--limit=${limit}`)).toMatchObject({
			code: 2,
			out: "",
			err: expect.stringMatching(/^xfer: --limit .*\(.+\)\n$/),
		});
	});
});

test("as JSON: one document with the list, how many more and how many in each state", async () => {
	const { root, put, xfer } = make();
	fill(put);
	fs.rmSync(path.join(root, "nodes/alice/new/1011.late")); // only its header says that it has expired
	const { out } = await xfer("inbox", "--json", "--limit", "3");
	expect(out.trimEnd().split("\n")).toHaveLength(1);
	const document = JSON.parse(out);
	expect(document).toMatchObject({
		schema: "xfer.inbox/1",
		node: "alice",
		handoffs: [
			{ id: "1008.stray", state: "queued" },
			{ id: "1009.first" },
			{ id: "1010.second", kind: "question", from: "carl", subject: "which port?" },
		],
		more: 3,
		counts: { queued: 3, taken: 1, read: 1, answered: 1, failed: 1, recalled: 1, unreadable: 1 },
	});
	expect(document.handoffs[2].date).toBe("2026-11-30T12:00:00.500Z");
	expect(out).not.toContain("body of");
	const taken = JSON.parse((await xfer("inbox", "--json")).out).handoffs.find(({ state }: { state: string }) => state === "taken");
	expect(taken.lease).toEqual({ end: future, instance: "aaaaaaaa" });
});

test("a body is never in memory: three of 1.5 GiB are listed by a process that can't hold one", async () => {
	const { root, env } = make();
	for (const name of ["1.a", "2.b", "3.c"]) {
		const file = path.join(root, "nodes/alice/new", name);
		fs.writeFileSync(file, "---\nsubject: big\n---\n");
		fs.truncateSync(file, 1.5 * 1024 ** 3);
	}
	const result = await run(["sh", "-c", `ulimit -d $((900 * 1024)); exec "$@"`, "sh", ...cli, "inbox"], { env });
	expect(result).toMatchObject({ code: 0, err: "" });
	expect(lines(result.out).map((line) => line[5])).toEqual(["big", "big", "big"]);
});

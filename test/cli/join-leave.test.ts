/** `xfer join` and `xfer leave`: Nodes come and go. */
import fs from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { openTree } from "../../lib/index.ts";
import { cli, ls, onTestFinished, run, tempTree } from "../helpers.ts";

function make(...names: string[]) {
	const { root, home, env } = tempTree();
	const tree = openTree({ root, durable: false });
	for (const name of names) tree.join(name);
	const xfer = (...args: string[]) => run([...cli, ...args], { env });
	return { root, home, env, tree, xfer };
}

describe("join", () => {
	test("makes a Node with all its parts, for nobody else to enter, and says where", async () => {
		const { root, xfer } = make();
		const result = await xfer("join", "alice");
		expect(result).toMatchObject({ code: 0, err: "" });
		expect(result.out).toContain("alice");
		expect(result.out).toContain(path.join(root, "nodes/alice"));
		expect(ls(root, "nodes/alice").filter((name) => !name.startsWith("."))).toEqual(["cur", "new", "node.md", "sent", "tmp"]);
		for (const part of ["", "nodes", "nodes/alice", "nodes/alice/new", "nodes/alice/cur", "nodes/alice/tmp", "nodes/alice/sent"])
			expect([part, fs.statSync(path.join(root, part)).mode & 0o777]).toEqual([part, 0o700]);
		expect(fs.statSync(path.join(root, "nodes/alice/node.md")).mode & 0o777).toBe(0o600);
	});

	test("is idempotent: again it changes nothing, loses nothing, and tells what waits and how old it is", async () => {
		const { root, xfer } = make();
		await xfer("join", "alice", "--about", "fixes tests");
		openTree({ root, durable: false, clock: () => Date.now() - 3 * 3600 * 1000 }).send({ from: "alice", to: ["alice"], body: "x" });
		const before = fs.readFileSync(path.join(root, "nodes/alice/node.md"), "utf8");
		const result = await xfer("join", "Alice");
		expect(result).toMatchObject({ code: 0, err: "" });
		expect(result.out).toMatch(/alice was here already: 1 waiting, the oldest 3 h/);
		expect(fs.readFileSync(path.join(root, "nodes/alice/node.md"), "utf8")).toBe(before);
		expect(ls(root, "nodes")).toEqual(["alice"]);
		expect(ls(root, "nodes/alice/new")).toHaveLength(1);
	});

	test("--about says what the Node is for, and replaces it later without touching the rest", async () => {
		const { root, tree, xfer } = make();
		await xfer("join", "alice", "--about", "reviews,\nand fixes tests");
		expect(tree.node("alice").presence().about).toBe("reviews,\nand fixes tests");
		await xfer("join", "alice", "--about", "reviews");
		expect(tree.node("alice").presence()).toMatchObject({ name: "alice", about: "reviews" });
		expect(fs.readFileSync(path.join(root, "nodes/alice/node.md"), "utf8")).toMatch(/^---\n(.+\n)+---\nreviews\n$/);
	});

	test("mends a Node of which a part is missing", async () => {
		const { root, xfer } = make("alice");
		fs.rmdirSync(path.join(root, "nodes/alice/tmp"));
		fs.rmSync(path.join(root, "nodes/alice/node.md"));
		expect((await xfer("join", "alice")).code).toBe(0);
		expect(ls(root, "nodes/alice").filter((name) => !name.startsWith("."))).toEqual(["cur", "new", "node.md", "sent", "tmp"]);
	});

	test.each([
		"all",
		"ALL",
		"unknown",
		"",
		"a b",
		"-x",
		".x",
		"_x",
		"../x",
		"a/b",
		"a\nb",
		"é",
		"x".repeat(64),
		"x".repeat(300),
		"bob@box",
		"@all",
		"a,b",
	])("refuses %j, says what fits, and makes nothing", async (name) => {
		const { home, xfer } = make();
		const result = await xfer("join", "--", name);
		expect(result).toMatchObject({ out: "", err: expect.stringMatching(/^xfer: .+ \(.+\)\n$/) });
		expect([2, 3]).toContain(result.code);
		expect(result.code).toBe(2);
		expect(ls(home)).toEqual([]);
	});

	test("of 20 at once is one Node, and nobody fails", async () => {
		const { root, xfer } = make();
		const results = await Promise.all(Array.from({ length: 20 }, () => xfer("join", "alice")));
		expect(results.map(({ code, err }) => [code, err])).toEqual(results.map(() => [0, ""]));
		expect(ls(root, "nodes")).toEqual(["alice"]);
	});

	test("of a name in whose place is something else says so, and leaves it", async () => {
		const { root, xfer } = make("bob");
		fs.writeFileSync(path.join(root, "nodes/file"), "x");
		fs.symlinkSync("/", path.join(root, "nodes/link"));
		for (const name of ["file", "link"])
			expect(await xfer("join", name)).toMatchObject({ code: 2, out: "", err: expect.stringMatching(/^xfer: .*in the way.* \(.+\)\n$/) });
		expect(ls(root, "nodes")).toEqual(["bob", "file", "link"]);
	});

	test("of another name of a Node joins that Node", async () => {
		const { root, tree, xfer } = make("bob");
		tree.node("bob").alias("bobby");
		expect(await xfer("join", "bobby")).toMatchObject({ code: 0, out: expect.stringMatching(/^bob /) });
		expect(fs.lstatSync(path.join(root, "nodes/bobby")).isSymbolicLink()).toBe(true);
	});

	test("as JSON: one document", async () => {
		const { root, xfer } = make();
		expect(JSON.parse((await xfer("join", "alice", "--json")).out)).toEqual({
			schema: "xfer.join/1",
			name: "alice",
			path: path.join(root, "nodes/alice"),
			made: true,
			unread: 0,
		});
		expect(JSON.parse((await xfer("join", "alice", "--json")).out)).toMatchObject({ made: false });
	});
});

describe("leave", () => {
	test("removes an empty Node, with what was read and ended in it, and its other names", async () => {
		const { root, tree, xfer } = make("alice", "bob");
		tree.node("alice").alias("al");
		tree.send({ from: "bob", to: ["alice"], body: "x" });
		tree.node("alice").inbox.take()?.done();
		const result = await xfer("leave", "alice");
		expect(result).toMatchObject({ code: 0, err: "" });
		expect(result.out).toMatch(/^alice has left.*1 Handoff\b.*\n$/);
		expect(ls(root, "nodes")).toEqual(["bob"]);
	});

	test.each([
		["unread", () => {}],
		["in hand", ({ inbox }: { inbox: { take(): unknown } }) => void inbox.take()],
	])("refuses one with mail that is %s, and removes nothing", async (_, act) => {
		const { root, tree, xfer } = make("alice", "bob");
		tree.send({ from: "bob", to: ["alice"], body: "x" });
		act(tree.node("alice"));
		const before = fs.readdirSync(root, { recursive: true }).sort();
		const result = await xfer("leave", "alice");
		expect(result).toMatchObject({ code: 5, out: "", err: expect.stringMatching(/^xfer: alice .*1 .*bob.* \(.*xfer inbox alice.*\)\n$/) });
		expect(fs.readdirSync(root, { recursive: true }).sort()).toEqual(before);
	});

	test("refuses one that is live", async () => {
		const { root, xfer } = make();
		const live = await openTree({ root, durable: false }).join("alice").goLive();
		onTestFinished(() => live.end());
		expect(await xfer("leave", "alice")).toMatchObject({
			code: 5,
			out: "",
			err: expect.stringMatching(/^xfer: alice is live.* \(.+\)\n$/),
		});
		expect(ls(root, "nodes")).toEqual(["alice"]);
	});

	test("keeps what can't be read or is not a Handoff, and says where it is", async () => {
		const { root, xfer } = make("alice");
		const strange = path.join(root, "nodes/alice/new/directory");
		fs.mkdirSync(strange);
		const result = await xfer("leave", "alice");
		expect(result).toMatchObject({ code: 5, out: "", err: expect.stringMatching(/^xfer: .+ \(.+\)\n$/) });
		expect(fs.existsSync(strange)).toBe(true);
		expect((await xfer("send", "alice", "still here")).code).toBe(0);
	});

	test("of another name removes only that name", async () => {
		const { root, tree, xfer } = make("bob");
		tree.node("bob").alias("bobby");
		expect((await xfer("leave", "bobby")).code).toBe(0);
		expect(ls(root, "nodes")).toEqual(["bob"]);
	});

	test("of what is no Node: exit 3; of what is no name: exit 2; nothing outside of the tree is touched", async () => {
		const { root, home, xfer } = make("bob");
		fs.mkdirSync(path.join(home, "x/new"), { recursive: true });
		fs.symlinkSync("../../x", path.join(root, "nodes/x"));
		const results = await Promise.all(["alcie", "x", "../../x", "..", ".", "bob/../bob"].map((name) => xfer("leave", name)));
		expect(results.map(({ code, out }) => [code, out])).toEqual([
			[3, ""],
			[3, ""],
			[2, ""],
			[2, ""],
			[2, ""],
			[2, ""],
		]);
		expect(ls(home, "x")).toEqual(["new"]);
		expect(ls(root, "nodes")).toEqual(["bob", "x"]);
	});

	test("loses nothing to a sender who is faster: the Handoff is delivered or refused", { timeout: 120_000 }, async () => {
		const { root, xfer } = make("bob");
		for (let round = 0; round < 5; round++) {
			await xfer("join", "alice");
			const [left, ...sent] = await Promise.all([
				xfer("leave", "alice"),
				...[1, 2, 3].map(() => xfer("send", "alice", "x", "--as", "bob")),
			]);
			const delivered = sent.filter(({ code }) => code === 0).length;
			expect([0, 5]).toContain(left?.code);
			expect(ls(root, "nodes/alice/new")).toHaveLength(delivered);
			if (delivered > 0) await xfer("read", "--all", "--as", "alice");
		}
	});

	test("as JSON: one document", async () => {
		const { xfer } = make("alice");
		expect(JSON.parse((await xfer("leave", "alice", "--json")).out)).toEqual({ schema: "xfer.leave/1", removed: "alice", handoffs: 0 });
	});
});

/** `xfer watch`: a line per arrival as it comes. A look: nothing is marked. */
import fs from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { openTree } from "../../lib/index.ts";
import { cli, ls, onTestFinished, run, start, tempTree, until } from "../helpers.ts";

function make() {
	const { root, env } = tempTree();
	const tree = openTree({ root, durable: false });
	for (const name of ["alice", "bob"]) tree.join(name);
	const mine = { ...env, XFER_NODE: "alice" };
	const send = (to: string, body: string, more = {}) => {
		const [outcome] = tree.send({ from: "bob", to: [to], body, ...more });
		if (!outcome || outcome.error) throw outcome?.error ?? new Error("not sent");
		return outcome.id;
	};
	/** Starts `xfer watch`, and returns when it prints what arrives; `lines` are those after that. */
	const watch = async (...args: string[]) => {
		const child = start([...cli, "watch", ...args], { env: mine, stdio: ["ignore", "pipe", "pipe"] });
		let out = "";
		let err = "";
		let code: number | null | undefined;
		child.stdout?.on("data", (chunk) => {
			out += chunk;
		});
		child.stderr?.on("data", (chunk) => {
			err += chunk;
		});
		child.on("close", (status) => {
			code = status;
		});
		const to = args[0] === "bob" ? "bob" : "alice";
		await until(() => {
			send(to, "probe");
			return out.includes("probe");
		}, "the watch to begin");
		const lines = () =>
			out
				.split("\n")
				.slice(0, -1)
				.filter((line) => !line.includes("probe"));
		return { child, lines, errors: () => err, code: () => code };
	};
	return { root, env: mine, tree, send, watch };
}

describe("of one Node", () => {
	test("prints date, state, Node, id, kind, from and subject of each arrival once, as it comes, and marks nothing", async () => {
		const { root, send, watch } = make();
		const { lines, errors } = await watch();
		const before = ls(root, "nodes/alice/new").length;
		const first = send("alice", "which port?", { kind: "question" });
		await until(() => lines().length === 1, "the first line");
		const second = send("alice", "two");
		await until(() => lines().length === 2, "the second line");
		const fields = lines().map((line) => line.split("\t"));
		expect(fields[0]?.slice(1)).toEqual(["queued", "alice", first, "question", "bob", "which port?"]);
		expect(fields[1]?.slice(1)).toEqual(["queued", "alice", second, "task", "bob", "two"]);
		expect(fields[0]?.[0]).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
		expect(ls(root, "nodes/alice/new")).toHaveLength(before + 2);
		expect(ls(root, "nodes/alice/cur")).toEqual([]);
		expect(errors()).toBe("");
	});

	test("is silent about other Nodes, about what is not a Handoff, and about marks", async () => {
		const { root, tree, send, watch } = make();
		const { lines } = await watch();
		send("bob", "not for alice");
		fs.mkdirSync(path.join(root, "nodes/alice/new/1.directory"));
		fs.symlinkSync("/etc/passwd", path.join(root, "nodes/alice/new/2.link"));
		fs.writeFileSync(path.join(root, "nodes/alice/new/.hidden"), "x");
		tree.node("alice").inbox.take()?.done();
		const id = send("alice", "last");
		await until(() => lines().length > 0, "the line");
		expect(lines().map((line) => line.split("\t")[3])).toEqual([id]);
	});

	test("sees what a shell puts there, and what another gives back", async () => {
		const { root, tree, send, watch } = make();
		const { lines } = await watch("bob");
		const dir = path.join(root, "nodes/bob");
		await run(["sh", "-c", `printf 'by hand' >tmp/1.hand && mv tmp/1.hand new/1.hand`], { env: { PATH: process.env.PATH }, cwd: dir });
		await until(() => lines().length === 1, "the line");
		expect(lines()[0]).toMatch(/\tqueued\tbob\t1\.hand\ttask\tunknown\tby hand$/);
		const id = send("bob", "back and forth");
		await until(() => lines().length === 2, "the second line");
		const { inbox } = tree.node("bob");
		inbox.take({ message: inbox.maildir.find(id) })?.release();
		await until(() => lines().length === 3, "the third line");
		expect(lines()[2]).toContain(id);
	});

	test("works on a Node that another instance holds", async () => {
		const { root, send, watch } = make();
		const live = await openTree({ root, durable: false }).node("alice").goLive();
		onTestFinished(() => live.end());
		const { lines } = await watch("alice");
		send("alice", "looked at");
		await until(() => lines().length === 1, "the line");
	});

	test("that is not there is an error: exit 3", async () => {
		const { env } = make();
		expect(await run([...cli, "watch", "alcie"], { env })).toMatchObject({
			code: 3,
			out: "",
			err: expect.stringContaining("did you mean alice?"),
		});
	});
});

describe("of @all", () => {
	test("is one pane for all traffic, marks included, also of Nodes that are made meanwhile", { timeout: 120_000 }, async () => {
		const { tree, send, watch } = make();
		const { lines } = await watch("@all");
		const ids = [send("alice", "one"), send("bob", "two")] as const;
		await until(() => lines().length === 2, "both arrivals");
		expect(
			lines()
				.map((line) => line.split("\t").slice(1, 4).join(" "))
				.sort(),
		).toEqual([`queued alice ${ids[0]}`, `queued bob ${ids[1]}`]);

		const { inbox } = tree.node("bob");
		const taken = inbox.take();
		await until(() => lines().some((line) => line.includes(`\ttaken\tbob\t${ids[1]}\t`)), "the taking");
		taken?.done();
		await until(() => lines().some((line) => line.includes(`\tread\tbob\t${ids[1]}\t`)), "the mark");

		tree.join("late");
		const late = send("late", "three");
		await until(() => lines().some((line) => line.includes(`\tqueued\tlate\t${late}\t`)), "the new Node's mail");
		expect(new Set(lines()).size).toBe(lines().length);
	});
});

test("--json prints a document a line", async () => {
	const { send, watch } = make();
	const { lines } = await watch("--json");
	const ids = [send("alice", "one"), send("alice", "two", { kind: "note", subject: "a\u001b[2J" })];
	await until(() => lines().length === 2, "both lines");
	const documents = lines().map((line) => JSON.parse(line));
	expect(documents.map(({ schema, id, node, state }) => [schema, id, node, state])).toEqual(
		ids.map((id) => ["xfer.watch/1", id, "alice", "queued"]),
	);
	expect(documents[1]).toMatchObject({ kind: "note", from: "bob", subject: "a\u001b[2J" });
});

test("--timeout ends it", async () => {
	const { env } = make();
	const results = await Promise.all([
		run([...cli, "watch", "--timeout", "1s"], { env }),
		run([...cli, "watch", "@all", "--timeout", "1s"], { env }),
	]);
	for (const { signal, out } of results) expect({ signal, out }).toEqual({ signal: null, out: "" });
});

test("a pipe that nobody reads any more ends it", async () => {
	const { env, send } = make();
	const child = start(["bash", "-c", `"$@" | head -n 1; exit "\${PIPESTATUS[0]}"`, "bash", ...cli, "watch"], { env, stdio: "ignore" });
	let ended = false;
	child.on("exit", () => {
		ended = true;
	});
	await until(() => {
		send("alice", "again");
		return ended;
	}, "the end of the watch");
});

test("SIGINT and SIGTERM end it at once, and leave nothing in the tree", async () => {
	const { root, watch } = make();
	for (const signal of ["SIGINT", "SIGTERM"] as const) {
		const { child, code } = await watch();
		child.kill(signal);
		await until(() => code() !== undefined, `the end by ${signal}`);
		expect(ls(root, "nodes/alice/tmp")).toEqual([]);
		expect(ls(root, "nodes/alice/live.lock")).toEqual([]);
	}
});

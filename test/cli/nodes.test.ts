/** `xfer nodes` and bare `xfer`: who is here, and what I most likely want to type next. */
import fs from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { openTree } from "../../lib/index.ts";
import { cli, onTestFinished, run, tempTree } from "../helpers.ts";

function make(...names: string[]) {
	const { root, home, env } = tempTree();
	const tree = openTree({ root, durable: false });
	for (const name of names) tree.join(name);
	const xfer = (...args: string[]) => run([...cli, ...args], { env: { ...env, XFER_NODE: "me" } });
	const send = (to: string, body = "x", ago = 0) =>
		openTree({ root, durable: false, clock: () => Date.now() - ago }).send({ from: "bob", to: [to], body });
	const goLive = async (name: string, presence = {}) => {
		const live = await openTree({ root, durable: false }).join(name).goLive(presence);
		onTestFinished(() => live.end());
	};
	return { root, home, env, tree, xfer, send, goLive };
}

describe("nodes", () => {
	test("is a line each with name, live or away, status, unread, last seen, agent and cwd", async () => {
		const { root, xfer, send, goLive } = make("alice", "bob");
		await goLive("api", { status: "tool:bash", holding: "quiet", agent: "pi", cwd: "/src/api" });
		for (let n = 0; n < 3; n++) send("api");
		const seen = new Date("2026-01-02T03:04:05Z");
		for (const name of ["node.md", "sent"]) fs.utimesSync(path.join(root, "nodes/alice", name), seen, seen);
		const { code, out } = await xfer("nodes");
		expect(code).toBe(0);
		const lines = out
			.split("\n")
			.slice(0, -1)
			.map((line) => line.split("\t"));
		expect(lines.map(([name]) => name)).toEqual(["alice", "api", "bob"]);
		expect(lines[0]).toEqual(["alice", "away", "", "0", "2026-01-02T03:04:05.000Z", "", ""]);
		expect(lines[1]?.slice(0, 4)).toEqual(["api", "live", "tool:bash; holds mail: quiet", "3"]);
		expect(lines[1]?.slice(5)).toEqual(["pi", "/src/api"]);
	});

	test("points on standard error at unread mail that nobody watches, and only at that", async () => {
		const { xfer, send, goLive } = make("alice", "empty");
		await goLive("api");
		for (const name of ["alice", "alice", "api"]) send(name);
		const { err } = await xfer("nodes");
		expect(err).toMatch(/^alice: 2 unread.*nobody watches \(.*xfer read --as alice.*\)\n$/);
	});

	test("lists an alias with its Node, once; and what is no Node not at all", async () => {
		const { root, home, tree, xfer } = make("bob");
		tree.node("bob").alias("bobby");
		const nodes = path.join(root, "nodes");
		fs.mkdirSync(path.join(home, "elsewhere/new"), { recursive: true });
		fs.symlinkSync("../../elsewhere", path.join(nodes, "mallory"));
		fs.symlinkSync("missing", path.join(nodes, "dangling"));
		fs.symlinkSync("bobby", path.join(nodes, "chain"));
		fs.mkdirSync(path.join(nodes, "Upper"));
		fs.mkdirSync(path.join(nodes, ".hidden"));
		fs.writeFileSync(path.join(nodes, "file"), "");
		const [plain, json] = await Promise.all([xfer("nodes"), xfer("nodes", "--json")]);
		expect(
			plain.out
				.split("\n")
				.slice(0, -1)
				.map((line) => line.split("\t")[0]),
		).toEqual(["bob"]);
		expect(JSON.parse(json.out).nodes).toMatchObject([{ name: "bob", aliases: ["bobby"] }]);
	});

	test("as JSON: one document", async () => {
		const { xfer, send, goLive } = make("bob");
		await goLive("api", { status: "idle", wake: "turn", agent: "pi" });
		send("api");
		const { out } = await xfer("nodes", "--json");
		expect(out.trimEnd().split("\n")).toHaveLength(1);
		expect(JSON.parse(out)).toMatchObject({
			schema: "xfer.nodes/1",
			nodes: [
				{ name: "api", live: true, unread: 1, status: "idle", wake: "turn", agent: "pi", holder: { pid: process.pid } },
				{ name: "bob", live: false, unread: 0 },
			],
		});
	});

	test("of no tree at all: nothing, and no error", async () => {
		const { home, xfer } = make();
		expect(await xfer("nodes")).toMatchObject({ code: 0, out: "", err: "" });
		expect(fs.readdirSync(home)).toEqual([]);
	});

	test("one Node that can't be entered does not hide the others", async () => {
		const { root, env, goLive } = make("alice", "bob");
		await goLive("api");
		fs.chmodSync(path.join(root, "nodes/alice"), 0);
		const plain = process.getuid?.() === 0 ? ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--"] : [];
		const [list, home] = await Promise.all([run([...plain, ...cli, "nodes"], { env }), run([...plain, ...cli], { env })]);
		fs.chmodSync(path.join(root, "nodes/alice"), 0o700);
		expect(list.out).toMatch(/^api\tlive\t/m);
		expect(list.out).toMatch(/^bob\taway\t/m);
		expect(list.out + list.err).toContain("alice");
		expect(home.out).toMatch(/^api\tlive\t/m);
	});
});

describe("bare xfer", () => {
	const text = ({ out, err }: { out: string; err: string }) => out + err;

	test("shows the live Nodes, how many are away, my mail and how old it is, and reading as the next command", async () => {
		const { xfer, send, goLive } = make("me", "away");
		await goLive("api", { status: "idle" });
		send("me", "x", 3 * 3600 * 1000);
		send("me");
		const result = await xfer();
		expect(result.code).toBe(0);
		expect(result.out).toMatch(/^api\tlive\tidle\t/m);
		expect(result.out).not.toMatch(/^away\t/m);
		expect(text(result)).toMatch(/2 for me, the oldest 3 h/);
		expect(text(result)).toMatch(/next: xfer read\b/);
		expect(text(result)).toContain("xfer --help");
	});

	test("with no mail proposes to send to somebody who is there", async () => {
		const { xfer, goLive } = make("me", "away");
		await goLive("api");
		const result = await xfer();
		expect(text(result)).toMatch(/nothing waits for me/);
		expect(text(result)).toMatch(/next: xfer send api "/);
	});

	test("with nobody live says so, and who is away", async () => {
		const { xfer } = make("me", "alice");
		const result = await xfer();
		expect(text(result)).toMatch(/nobody is live.*2 away.*xfer nodes/);
		expect(text(result)).toMatch(/next: xfer send alice "/);
	});

	test("for who is no Node yet proposes to join, in a line that works, and makes nothing by itself", async () => {
		const { home, env, xfer } = make();
		const result = await xfer();
		expect(result.code).toBe(0);
		expect(text(result)).toMatch(/me.*not a Node yet/);
		expect(fs.readdirSync(home)).toEqual([]);
		const line = /next: xfer (.*?)\s+\(/.exec(text(result))?.[1]?.split(" ") ?? [];
		expect(line).toEqual(["join", "me"]);
		expect((await run([...cli, ...line], { env })).code).toBe(0);
	});

	test("with --as shows the mail of that Node, and the next command names it", async () => {
		const { env, send } = make("alice", "bob");
		send("alice");
		const result = await run([...cli, "--as", "alice"], { env: { ...env, XFER_NODE: "bob" } });
		expect(text(result)).toMatch(/1 for alice/);
		const line = /next: xfer (.*?)\s+\(/.exec(text(result))?.[1]?.split(" ") ?? [];
		expect((await run([...cli, ...line], { env: { ...env, XFER_NODE: "bob" } })).code).toBe(0);
	});

	test("as JSON: one document", async () => {
		const { xfer, send, goLive } = make("me", "away");
		await goLive("api");
		send("me");
		expect(JSON.parse((await xfer("--json")).out)).toMatchObject({ schema: "xfer.home/1", me: "me", unread: 1, live: ["api"] });
	});
});

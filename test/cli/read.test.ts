/** `xfer read`: takes, shows, marks. */
import fs from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { openTree } from "../../lib/index.ts";
import { cli, ls, onTestFinished, run, start, tempTree, until } from "../helpers.ts";

/** A tree in which bob has sent these texts to alice, and the CLI for alice on it. */
function make(...bodies: (string | Uint8Array)[]) {
	const { root, env } = tempTree();
	const tree = openTree({ root, durable: false });
	const alice = tree.join("alice");
	const ids = bodies
		.map((body) => tree.send({ from: "bob", to: ["alice"], body })[0])
		.map((outcome) => (outcome && "id" in outcome ? outcome.id : ""));
	const mine = { ...env, XFER_NODE: "alice" };
	const xfer = (...args: string[]) => run([...cli, ...args], { env: mine });
	const file = (id: string) => {
		const found = ["new", "cur"].flatMap((dir) => ls(root, "nodes/alice", dir).map((name) => path.join(root, "nodes/alice", dir, name)));
		return found.find((name) => path.basename(name).startsWith(id)) ?? "";
	};
	return { root, env: mine, tree, alice, ids: ids as [string, string, string, ...string[]], xfer, file };
}

const short = (id: string) => /R(.{8})\./.exec(id)?.[1] as string;
const states = (root: string) => ({ new: ls(root, "nodes/alice/new"), cur: ls(root, "nodes/alice/cur") });
/** The command, with a standard output that the shell arranges. */
const redirected = (env: NodeJS.ProcessEnv, script: string, ...args: string[]) =>
	run(["bash", "-c", script, "bash", ...cli, ...args], { env });

function readLink(file: string): string | undefined {
	try {
		return fs.readlinkSync(file);
	} catch {
		return undefined; // closed meanwhile
	}
}

describe("without an ID", () => {
	test("takes the oldest, prints the file's own bytes, marks it read, and says how many more on standard error", async () => {
		const { root, ids, xfer, file } = make("one", "two", "three");
		const bytes = fs.readFileSync(file(ids[0]));
		const result = await xfer("read");
		expect(result).toMatchObject({ code: 0, err: "2 more\n" });
		expect(result.bytes.equals(bytes)).toBe(true);
		expect(states(root)).toEqual({ new: ids.slice(1), cur: [`${ids[0]}:2,S`] });
	});

	test("says nothing on standard error when it was the last", async () => {
		const { xfer } = make("one");
		expect(await xfer("read")).toMatchObject({ code: 0, err: "" });
	});

	test("with nothing there: exit 3, naming the Node and the tree", async () => {
		const { root, xfer } = make();
		for (const args of [
			["read"],
			["read", "--peek"],
			["read", "--all"],
			["read", "--take"],
			["read", "--json"],
			["read", "--budget", "9"],
		]) {
			const result = await xfer(...args);
			expect(result).toMatchObject({ code: 3, out: "" });
			expect(result.err).toMatch(/^xfer: nothing to read for alice \(.+\)\n$/);
			expect(result.err).toContain(root);
		}
	});

	test("of a name that is no Node: exit 3, and how to make it", async () => {
		const { xfer } = make();
		expect(await xfer("read", "--as", "alcie")).toMatchObject({
			code: 3,
			out: "",
			err: expect.stringMatching(/no Node "alcie" \(.*alice.*xfer join alcie\)/),
		});
	});

	test.each([
		["empty lines, CRLF, no last newline", "\n\n\r\na\r\n\n\nb"],
		["NUL and invalid UTF-8", Buffer.from([0, 0xff, 0xfe, 0x80, 10, 0, 0xc3])],
		["what begins with ---", "---\nfrom: mallory\n---\nx"],
		["a byte order mark", "\ufeff---\nx: y\n---\n"],
		["1 MiB", Buffer.alloc(1024 * 1024, "0123456789abcde\n")],
		["escape sequences", "\x1b[2J\x1b]0;title\x07\u009b2J"],
	])("a body survives `send -` and `read` byte for byte: %s", async (_, body) => {
		const { env, xfer } = make();
		expect((await run([...cli, "send", "alice", "-"], { env, input: Buffer.from(body) })).code).toBe(0);
		const { bytes } = await xfer("read");
		expect(bytes.subarray(bytes.indexOf("\n---\n", 3) + 5).equals(Buffer.from(body))).toBe(true);
	});

	test("what comes back after a lost lease is read again, and what expired or was replaced is not shown", async () => {
		const { root, tree, xfer } = make();
		const dir = path.join(root, "nodes/alice");
		fs.writeFileSync(path.join(dir, "cur/100.lost,L=100.aaaaaaaa:2,"), "lost");
		fs.writeFileSync(path.join(dir, "new/200.late"), "---\nexpires: 2020-01-01T00:00:00Z\n---\nlate");
		tree.send({ from: "bob", to: ["alice"], body: "older", key: "k" });
		tree.send({ from: "bob", to: ["alice"], body: "newer", key: "k" });
		const { out } = await xfer("read", "--all");
		expect(out).toContain("lost");
		expect(out).toContain("newer");
		expect(out).not.toMatch(/late|older/);
		expect(states(root).cur).toEqual(
			expect.arrayContaining([expect.stringMatching(/^100\.lost,A=1:2,S$/), expect.stringMatching(/^200\.late,E=expired:2,T$/)]),
		);
	});
});

describe("with an ID", () => {
	test("takes that one, by its id, its short id or any unambiguous piece of it", async () => {
		const { root, ids, xfer } = make("one", "two", "three");
		for (const [piece, id, body] of [
			[ids[2], ids[2], "three"],
			[short(ids[0]), ids[0], "one"],
			[short(ids[1]).slice(2, 8), ids[1], "two"],
		] as const) {
			const { code, out } = await xfer("read", piece);
			expect(code).toBe(0);
			expect(out.endsWith(`\n---\n${body}`)).toBe(true);
			expect(states(root).cur).toContain(`${id}:2,S`);
		}
	});

	test("refuses a piece that is too short, or that fits several, naming them; and what is not there", async () => {
		const { root, ids, xfer } = make("one", "two");
		const before = states(root);
		const [brief, several, none] = await Promise.all([xfer("read", "abc"), xfer("read", ids[0].slice(0, 6)), xfer("read", "zzzzzz")]);
		expect(brief).toMatchObject({ code: 2, out: "", err: expect.stringMatching(/too short.*\(4 characters.*\)/) });
		expect(several).toMatchObject({ code: 2, out: "" });
		for (const id of ids) expect(several.err).toContain(short(id));
		expect(none).toMatchObject({ code: 3, out: "", err: expect.stringMatching(/^xfer: no Handoff "zzzzzz" .*\(.*\)\n$/) });
		expect(states(root)).toEqual(before);
	});

	test("shows what was read already, and changes nothing", async () => {
		const { root, ids, xfer } = make("one");
		await xfer("read");
		const before = states(root);
		const result = await xfer("read", ids[0]);
		expect(result).toMatchObject({ code: 0, out: expect.stringContaining("one"), err: expect.stringContaining("read already") });
		expect(states(root)).toEqual(before);
	});

	test("in another's hand: exit 5, and nothing is shown", async () => {
		const { root, alice, ids, xfer } = make("one");
		alice.inbox.take();
		const before = states(root);
		const result = await xfer("read", ids[0]);
		expect(result).toMatchObject({ code: 5, out: "", err: expect.stringMatching(/^xfer: .*in the hand of .*\(.*--peek.*\)\n$/) });
		expect(states(root)).toEqual(before);
		expect((await xfer("read", ids[0], "--peek")).out).toContain("one");
	});
});

describe("what can't be shown is not marked", () => {
	test.each([
		["a closed pipe", [] as string[]],
		["a closed pipe, with --all", ["--all"]],
		["a closed pipe, with --take", ["--take"]],
		["a closed pipe, as JSON", ["--json"]],
		["a closed pipe, all as JSON", ["--json", "--all"]],
	])("%s", async (_, options) => {
		const { root, env, ids } = make("one", "two");
		// The pipe's reader has ended before the command starts.
		const result = await redirected(env, `exec 3> >(exit 0); wait $!; exec "$@" >&3 3>&-`, "read", ...options);
		expect(result.code).toBe(1);
		expect(result.err).toBe(""); // nobody looks
		expect(states(root).cur).toEqual([]);
		expect(states(root).new.map((name) => name.split(",")[0])).toEqual(ids);
	});

	test("a reader that stops in the middle of a long one", async () => {
		const { root, env, ids } = make("x".repeat(300_000), "two");
		const result = await redirected(env, `"$@" | head -c 10; exit "\${PIPESTATUS[0]}"`, "read");
		expect(result).toMatchObject({ code: 1, out: "---\nfrom: " });
		expect(states(root)).toEqual({ new: [`${ids[0]},A=1`, ids[1]], cur: [] });
	});

	test("a full disk, which is told", async () => {
		const { root, env, ids } = make("one");
		const result = await redirected(env, `exec "$@" >/dev/full`, "read");
		expect(result.code).toBe(1);
		expect(result.err).toMatch(/^xfer: .*ENOSPC.*\(.+\)\n$/);
		expect(states(root)).toEqual({ new: [`${ids[0]},A=1`], cur: [] });
	});

	test("with --all, those that were shown are read and the one that could not be is not", async () => {
		const { root, env, ids } = make("one", "x".repeat(300_000), "three");
		const result = await redirected(env, `"$@" | head -c 400 >/dev/null; exit "\${PIPESTATUS[0]}"`, "read", "--all");
		expect(result.code).toBe(1);
		expect(states(root)).toEqual({ new: [`${ids[1]},A=1`, ids[2]], cur: [`${ids[0]}:2,S`] });
	});
});

describe("options", () => {
	test("--all reads all that are queued, the oldest first", async () => {
		const { root, ids, xfer } = make("one", "two", "three");
		const result = await xfer("read", "--all");
		expect(result).toMatchObject({ code: 0, err: "" });
		expect(result.out).toMatch(/one[\s\S]*two[\s\S]*three$/);
		expect(states(root)).toEqual({ new: [], cur: ids.map((id) => `${id}:2,S`) });
	});

	test("--peek prints and changes nothing: no name, no time", async () => {
		const { root, ids, xfer, file } = make("one", "two");
		const tree = () =>
			fs
				.readdirSync(root, { recursive: true })
				.sort()
				.map((name) => [name, fs.lstatSync(path.join(root, String(name))).mtimeMs]);
		const before = tree();
		const bytes = fs.readFileSync(file(ids[0]));
		const [first, all, named] = await Promise.all([
			xfer("read", "--peek"),
			xfer("read", "--peek", "--all"),
			xfer("read", "--peek", ids[1]),
		]);
		expect(first).toMatchObject({ code: 0, err: "1 more\n" });
		expect(first.bytes.equals(bytes)).toBe(true);
		expect(all.out).toMatch(/one[\s\S]*two$/);
		expect(named.out).toMatch(/two$/);
		// Live locks of others may be looked at by a probe in tmp/, which changes that directory's time and nothing else.
		expect(tree().filter(([name]) => name !== "nodes/alice/tmp")).toEqual(before.filter(([name]) => name !== "nodes/alice/tmp"));
	});

	test("--budget reads whole ones until it is used up, and says how many remain", async () => {
		const { root, ids, xfer, file } = make("one", "two", "three");
		const sizes = ids.map((id) => fs.statSync(file(id)).size);
		const budget = (sizes[0] as number) + (sizes[1] as number);
		const result = await xfer("read", "--budget", String(budget));
		expect(result).toMatchObject({ code: 0, err: "1 remain\n" });
		expect(result.bytes).toHaveLength(budget);
		expect(states(root).cur).toEqual(ids.slice(0, 2).map((id) => `${id}:2,S`));
		expect(states(root).new.map((name) => name.split(",")[0])).toEqual([ids[2]]);
	});

	test("--budget too small for the first one: nothing is shown or marked, how many remain is told", async () => {
		const { root, ids, xfer } = make("one", "two");
		const result = await xfer("read", "--budget", "10");
		expect(result).toMatchObject({ code: 3, out: "", err: expect.stringMatching(/^xfer: .*10 bytes.*2 remain \(.*\)\n$/) });
		expect(states(root).cur).toEqual([]);
		expect(states(root).new.map((name) => name.split(",")[0])).toEqual(ids);
	});

	test("--budget with --peek changes nothing", async () => {
		const { root, ids, xfer, file } = make("one", "two");
		const result = await xfer("read", "--peek", "--budget", String(fs.statSync(file(ids[0])).size));
		expect(result).toMatchObject({ code: 0, err: "1 remain\n" });
		expect(states(root)).toEqual({ new: ids, cur: [] });
	});

	test("--take leaves it in hand and prints the path of the file, for a worker that ends with mark", async () => {
		const { root, ids, xfer } = make("one", "two");
		const result = await xfer("read", "--take");
		expect(result.code).toBe(0);
		const [file = ""] = states(root).cur;
		expect(file).toMatch(new RegExp(`^${ids[0]},L=\\d+\\.[0-9a-z]{8}:2,$`));
		expect(result.out).toBe(`${path.join(root, "nodes/alice/cur", file)}\n`);
		expect(fs.readFileSync(result.out.trimEnd(), "utf8")).toMatch(/\none$|---\none$/);
		expect(await xfer("mark", result.out.trimEnd(), "read")).toMatchObject({ code: 0, out: `read\t${ids[0]}\n` });
		expect(states(root).cur).toEqual([`${ids[0]}:2,S`]);
	});

	test("--take of one that is named, and a lease of $XFER_LEASE seconds", async () => {
		const { root, env, ids } = make("one", "two");
		const before = Date.now() / 1000;
		const { code } = await run([...cli, "read", short(ids[1]), "--take"], { env: { ...env, XFER_LEASE: "7000" } });
		expect(code).toBe(0);
		const end = Number(/,L=(\d+)/.exec(states(root).cur[0] ?? "")?.[1]);
		expect(end).toBeGreaterThanOrEqual(Math.floor(before + 7000));
		expect(end).toBeLessThanOrEqual(Math.ceil(Date.now() / 1000 + 7001));
	});

	test("--wait blocks until the next one is there", async () => {
		const { root, env, tree } = make();
		const child = start([...cli, "read", "--wait"], { env, stdio: ["ignore", "pipe", "inherit"] });
		let out = "";
		child.stdout?.on("data", (chunk) => {
			out += chunk;
		});
		const ended = new Promise((resolve) => child.on("close", resolve));
		const fds = `/proc/${child.pid}/fd`;
		await until(() => ls(fds).some((fd) => readLink(`${fds}/${fd}`) === "anon_inode:inotify"), "the command to watch the Inbox");
		expect(out).toBe("");
		tree.send({ from: "bob", to: ["alice"], body: "at last" });
		expect(await ended).toBe(0);
		expect(out).toMatch(/---\nat last$/);
		expect(states(root).cur).toEqual([expect.stringMatching(/:2,S$/)]);
	});

	test("--wait --take prints the path of the next one", async () => {
		const { root, tree, xfer } = make();
		const waiting = xfer("read", "--wait", "--take");
		tree.send({ from: "bob", to: ["alice"], body: "work" });
		const { code, out } = await waiting;
		expect(code).toBe(0);
		expect(out).toBe(`${path.join(root, "nodes/alice/cur", states(root).cur[0] ?? "")}\n`);
	});

	test("--wait with something there does not wait, and --timeout ends it with exit 4", async () => {
		const { xfer } = make("one");
		expect(await xfer("read", "--wait", "--timeout", "10m")).toMatchObject({ code: 0, out: expect.stringContaining("one") });
		const result = await xfer("read", "--wait", "--timeout", "1s");
		expect(result).toMatchObject({ code: 4, out: "", err: expect.stringMatching(/^xfer: nothing arrived for alice in time \(.+\)\n$/) });
	});

	test("two that wait for one Handoff: one gets it, the other goes on waiting", async () => {
		const { tree, xfer } = make();
		let done = 0;
		const waiting = [1, 2].map(() =>
			xfer("read", "--wait").then((result) => {
				done++;
				return result.out.slice(-4);
			}),
		);
		tree.send({ from: "bob", to: ["alice"], body: "1st." });
		await until(() => done === 1);
		tree.send({ from: "bob", to: ["alice"], body: "2nd." });
		expect((await Promise.all(waiting)).sort()).toEqual(["1st.", "2nd."]);
	});

	test("--json is one document with the body and what is said of it", async () => {
		const { root, ids, xfer } = make("one", Buffer.from([0xff, 0]), "three");
		const result = await xfer("read", "--json", "--all");
		expect(result.code).toBe(0);
		expect(result.out.trimEnd().split("\n")).toHaveLength(1);
		expect(JSON.parse(result.out)).toMatchObject({
			schema: "xfer.read/1",
			handoffs: [
				{ id: ids[0], from: "bob", kind: "task", body: "one", header: { from: "bob", to: "alice" } },
				{ id: ids[1], bodyBase64: "/wA=" },
				{ id: ids[2], body: "three" },
			],
		});
		expect(states(root).new).toEqual([]);
		expect(JSON.parse((await xfer("read", ids[0], "--json", "--peek")).out).handoffs[0]).toMatchObject({ state: "read", body: "one" });
	});

	test("--take --json names the path", async () => {
		const { root, xfer } = make("one");
		const { out } = await xfer("read", "--take", "--json");
		expect(JSON.parse(out)).toMatchObject({
			schema: "xfer.read/1",
			handoffs: [{ path: path.join(root, "nodes/alice/cur", states(root).cur[0] ?? "") }],
		});
	});

	test.each([
		[["--timeout", "1s"], /--timeout .*\(.*--wait.*\)/],
		[["--peek", "--take"], /--peek .*\(.+\)/],
		[["--peek", "--wait"], /--peek .*\(.+\)/],
		[["--take", "--all"], /--take .*\(.+\)/],
		[["--take", "--budget", "10"], /--take .*\(.+\)/],
		[["abcdefgh", "--all"], /ID .*\(.+\)/],
		[["abcdefgh", "--wait"], /ID .*\(.+\)/],
		[["--budget", "1k"], /--budget 1k .*\(.*16000.*\)/],
		[["--budget", "-1"], /--budget.*\(.+\)/],
	])("%j is refused with what would be right", async (options, error) => {
		const { root, ids, xfer } = make("one");
		const result = await xfer("read", ...options);
		expect(result).toMatchObject({ code: 2, out: "" });
		expect(result.err).toMatch(error);
		expect(states(root)).toEqual({ new: ids, cur: [] });
	});
});

describe("a Node that another live instance holds", () => {
	test("is looked at by everybody, and read by the holder and what it started only", async () => {
		const { root, env, ids, xfer } = make("one", "two");
		const holder = openTree({ root, durable: false });
		const live = await holder.node("alice").goLive();
		onTestFinished(() => live.end());
		for (const options of [[], ["--all"], ["--take"], [ids[0]], ["--wait"]])
			expect(await xfer("read", ...options)).toMatchObject({
				code: 5,
				out: "",
				err: expect.stringMatching(/^xfer: alice is live .*\(.*--peek.*\)\n$/),
			});
		expect(states(root)).toEqual({ new: ids, cur: [] });
		expect((await xfer("read", "--peek")).out).toContain("one");
		const child = { ...env, XFER_INSTANCE: holder.context.instance };
		expect(await run([...cli, "read"], { env: child })).toMatchObject({ code: 0, out: expect.stringContaining("one") });
	});
});

describe("a Handoff over the limit", () => {
	test("is never loaded unasked: those behind it are read, and it is named in the end", async () => {
		const { root, env, ids } = make("a text of more than ten bytes", "short");
		const small = { ...env, XFER_MAX_BYTES: "10" };
		const xfer = (...args: string[]) => run([...cli, ...args], { env: small });
		expect((await xfer("read", "--peek")).out).toMatch(/short$/);
		expect((await xfer("read")).out).toMatch(/short$/);
		for (const options of [[], ["--peek"], ["--all"]]) {
			const result = await xfer("read", ...options);
			expect(result).toMatchObject({ code: 3, out: "", err: expect.stringMatching(/^xfer: .*29 bytes.* \(.*xfer read .*\)\n$/) });
			expect(result.err).toContain(short(ids[0]));
		}
		expect(states(root).new).toEqual([ids[0]]);
		expect((await xfer("read", short(ids[0]))).out).toMatch(/a text of more than ten bytes$/);
	});

	test("of 2 GiB hides nothing; as JSON its file is named instead of the body, under the name that it has then", async () => {
		const { root, ids, xfer } = make("small");
		const file = path.join(root, "nodes/alice/new/100.big");
		fs.closeSync(fs.openSync(file, "w"));
		fs.truncateSync(file, 2 ** 31);
		expect(await xfer("read")).toMatchObject({ code: 0, out: expect.stringMatching(/small$/) });
		expect(states(root)).toEqual({ new: ["100.big"], cur: [`${ids[0]}:2,S`] });
		for (const options of [["--peek"], []]) {
			const { code, out, err } = await xfer("read", "100.big", "--json", ...options);
			if (code === 0) {
				const [document] = JSON.parse(out).handoffs;
				expect(document).toMatchObject({ size: 2 ** 31, file: expect.any(String) });
				expect(fs.statSync(document.file).size).toBe(2 ** 31);
			} else {
				expect(out).toBe("");
				expect(err).toMatch(/^xfer: (?!.*out of range).+ \(.+\)\n$/);
				expect(states(root).new.map((name) => name.split(",")[0])).toEqual(["100.big"]); // not in hand, not lost
			}
		}
	});
});

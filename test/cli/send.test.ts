/** `xfer send`: who gets it, what is sent, and what is said about it. */
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { openTree } from "../../lib/index.ts";
import { cli, ls, onTestFinished, run, start, tempTree, until } from "../helpers.ts";

/** A tree with these Nodes, and the CLI on it. */
function make(...names: string[]) {
	const { root, home, env } = tempTree();
	const tree = openTree({ root, durable: false });
	for (const name of names) tree.join(name);
	const xfer = (...args: string[]) => run([...cli, ...args], { env });
	return { root, home, env, tree, xfer };
}

/** The text of the only Handoff that waits for a Node. */
function only(root: string, name: string): string {
	const names = ls(root, "nodes", name, "new");
	expect(names).toHaveLength(1);
	return fs.readFileSync(path.join(root, "nodes", name, "new", names[0] as string), "utf8");
}

const headerOf = (text: string) => text.slice(4, text.indexOf("\n---\n", 3)).split("\n");
const bodyOf = (text: string) => text.slice(text.indexOf("\n---\n", 3) + 5);
const login = execFileSync("id", ["-un"], { encoding: "utf8" }).trim();

/** Makes a Node live in this process, until the test ends. */
async function goLive(root: string, name: string, presence = {}) {
	const live = await openTree({ root, durable: false }).join(name).goLive(presence);
	onTestFinished(() => live.end());
}

/** Runs a command on a terminal. */
const tty = (env: NodeJS.ProcessEnv, ...args: string[]) =>
	run(["script", "-qec", [...cli, ...args].map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(" "), "/dev/null"], { env });

describe("the text", () => {
	test("several words join with single blanks, with nothing added at the end", async () => {
		const { root, xfer } = make("alice");
		const result = await xfer("send", "alice", "fix  the", "flaky", "test", "--as", "bob");
		expect(result).toMatchObject({ code: 0, err: "" });
		const text = only(root, "alice");
		expect(bodyOf(text)).toBe("fix  the flaky test");
		expect(headerOf(text).slice(0, 3)).toEqual(["from: bob", "to: alice", "kind: task"]);
		expect(text).not.toContain("subject:");
	});

	test("standard input is the text with - and with no words at all, byte for byte", async () => {
		const { root, env } = make("alice", "bob");
		const bytes = Buffer.concat([
			Buffer.from("---\r\nx: y\r\n\r\n\0\ufeff"),
			Buffer.from([0xff, 0xfe, 0x80]),
			Buffer.from("\n\nno newline at the end"),
		]);
		const results = await Promise.all([
			run([...cli, "send", "alice", "-"], { env, input: bytes }),
			run([...cli, "send", "bob"], { env, input: bytes }),
		]);
		for (const { code, err } of results) expect({ code, err }).toEqual({ code: 0, err: "" });
		for (const name of ["alice", "bob"]) {
			const [file = ""] = ls(root, "nodes", name, "new");
			const sent = fs.readFileSync(path.join(root, "nodes", name, "new", file));
			expect(sent.subarray(sent.indexOf("\n---\n") + 5).equals(bytes)).toBe(true);
		}
	});

	test("words and - make the words the subject and standard input the text", async () => {
		const { root, env } = make("bob");
		const result = await run([...cli, "send", "bob", "review", "this", "-"], { env, input: "diff --git a b\n+1\n" });
		expect(result).toMatchObject({ code: 0, err: "" });
		expect(headerOf(only(root, "bob"))).toContain("subject: review this");
		expect(bodyOf(only(root, "bob"))).toBe("diff --git a b\n+1\n");
	});

	test("a - that is not the last word is a word, and what follows -- is text", async () => {
		const { root, env, xfer } = make("alice", "bob");
		const results = await Promise.all([
			xfer("send", "alice", "a", "-", "b"),
			run([...cli, "send", "bob", "--", "--as", "-x"], { env, input: "" }),
		]);
		expect(results.map(({ code }) => code)).toEqual([0, 0]);
		expect(bodyOf(only(root, "alice"))).toBe("a - b");
		expect(bodyOf(only(root, "bob"))).toBe("--as -x");
	});

	test("standard input is not waited for when words are given, though its writer never closes it", async () => {
		const { root, env } = make("alice");
		const child = start([...cli, "send", "alice", "some words"], { env, stdio: ["pipe", "pipe", "pipe"] });
		const code = await new Promise((resolve) => child.on("exit", resolve));
		expect(code).toBe(0);
		expect(bodyOf(only(root, "alice"))).toBe("some words");
	});

	test("standard input is not touched when words are given: the next process finds all of it", async () => {
		const { env } = make("alice");
		const script = `printf untouched | { "$@" >/dev/null; cat; }`;
		expect(await run(["sh", "-c", script, "sh", ...cli, "send", "alice", "words"], { env })).toMatchObject({ code: 0, out: "untouched" });
	});

	test("a terminal as standard input is an error that says how to give the text", async () => {
		const { root, env } = make("alice");
		const results = await Promise.all([tty(env, "send", "alice"), tty(env, "send", "alice", "a subject", "-")]);
		for (const { code, out } of results) {
			expect(code).toBe(2);
			expect(out.trimEnd()).toBe('xfer: standard input is a terminal (xfer send alice "…", or: … | xfer send alice -)');
		}
		expect(ls(root, "nodes", "alice", "new")).toEqual([]);
	});

	test("a directory as standard input is an error that says what to do", async () => {
		const { home, env } = make("alice");
		const result = await run(["sh", "-c", `exec "$@" <"$HOME"`, "sh", ...cli, "send", "alice", "-"], { env: { ...env, HOME: home } });
		expect(result).toMatchObject({ out: "" });
		expect([1, 2]).toContain(result.code);
		expect(result.err).toMatch(/^xfer: .+ \(.+\)\n$/);
	});

	test("an empty text is refused, and nothing is delivered or made", async () => {
		const { root, env, xfer } = make("alice");
		const results = await Promise.all([
			xfer("send", "alice", ""),
			xfer("send", "alice", "", " "),
			xfer("send", "alice", "-"),
			xfer("send", "alice"),
			xfer("send", "alice", "a subject", "-"),
			run(["sh", "-c", `exec "$@" <&-`, "sh", ...cli, "send", "alice"], { env }),
		]);
		for (const { code, out, err } of results) {
			expect({ code, out }).toEqual({ code: 2, out: "" });
			expect(err).toMatch(/^xfer: nothing to send: the text is empty \(.+\)\n$/);
		}
		expect(ls(root, "nodes")).toEqual(["alice"]);
		expect(ls(root, "nodes", "alice", "new")).toEqual([]);
	});

	test("a text over the limit is refused with both numbers, and one at the limit is not", async () => {
		const { root, env } = make("alice");
		const small = { ...env, XFER_MAX_BYTES: "10" };
		const [words, input, fits] = await Promise.all([
			run([...cli, "send", "alice", "12345678901"], { env: small }),
			run([...cli, "send", "alice", "-"], { env: small, input: "x".repeat(200_000) }),
			run([...cli, "send", "alice", "1234567890"], { env: small }),
		]);
		for (const result of [words, input]) expect(result).toMatchObject({ code: 2, out: "" });
		expect(words.err).toMatch(/^xfer: .*\b11 bytes.*\b10 \(.+\)\n$/);
		expect(input.err).toMatch(/^xfer: .*\b(200000|more than \d+) bytes.*\b10 \(.+\)\n$/);
		expect(fits.code).toBe(0);
		expect(bodyOf(only(root, "alice"))).toBe("1234567890");
	});

	test("a text that never ends is refused as soon as it is over the limit", async () => {
		const { root, env } = make("alice");
		const result = await run(["sh", "-c", `yes | "$@"`, "sh", ...cli, "send", "alice", "-"], { env: { ...env, XFER_MAX_BYTES: "10" } });
		expect(result).toMatchObject({ code: 2, out: "", err: expect.stringMatching(/^xfer: .*\b10 \(.+\)\n$/) });
		expect(ls(root, "nodes/alice/new")).toEqual([]);
	});

	test("a text of 1 MiB is within the standard limit, and one byte more is not", async () => {
		const { root, env } = make("alice");
		const [fits, over] = await Promise.all([
			run([...cli, "send", "alice"], { env, input: Buffer.alloc(1024 * 1024, "x") }),
			run([...cli, "send", "alice"], { env, input: Buffer.alloc(1024 * 1024 + 1, "x") }),
		]);
		expect([fits.code, over.code]).toEqual([0, 2]);
		expect(over.err).toMatch(/1048577.*1048576/);
		expect(bodyOf(only(root, "alice"))).toHaveLength(1024 * 1024);
	});
});

describe("recipients", () => {
	test("an unknown one is an error with a suggestion, and nothing is created", async () => {
		const { root, xfer } = make("alice");
		const before = fs.readdirSync(root, { recursive: true }).sort();
		const [meant, strange] = await Promise.all([xfer("send", "alcie", "hi", "--as", "bob"), xfer("send", "zebra", "hi", "--as", "bob")]);
		expect(meant).toMatchObject({ code: 3, out: "", err: 'xfer: no Node "alcie" (did you mean alice? to make it: xfer join alcie)\n' });
		expect(strange).toMatchObject({ code: 3, out: "", err: 'xfer: no Node "zebra" (to make it: xfer join zebra)\n' });
		expect(fs.readdirSync(root, { recursive: true }).sort()).toEqual(before);
	});

	test("an unknown one on a machine without a tree makes no tree", async () => {
		const { home, xfer } = make();
		expect(await xfer("send", "alice", "hi")).toMatchObject({ code: 3, out: "" });
		expect(ls(home)).toEqual([]);
	});

	test("NAME@HOST is refused with the word that a tree is one machine's", async () => {
		const { root, xfer } = make("bob");
		const result = await xfer("send", "bob@box", "hi");
		expect(result).toMatchObject({ code: 3, out: "" });
		expect(result.err).toMatch(/^xfer: .*bob@box.*\(.*one machine.*\)\n$/);
		expect(ls(root, "nodes")).toEqual(["bob"]);
	});

	test("several each get a copy under an id of its own, and a line with their state", async () => {
		const { root, xfer } = make("alice", "bob");
		const result = await xfer("send", "alice,bob", "hello");
		expect(result).toMatchObject({ code: 0, err: "" });
		const [a = "", b = ""] = [only(root, "alice"), only(root, "bob")];
		expect(headerOf(a)).toContain("to: [alice, bob]");
		expect(a).toBe(b);
		const ids = ["alice", "bob"].map((name) => ls(root, "nodes", name, "new")[0]);
		expect(new Set(ids).size).toBe(2);
		expect(result.out.split("\n").map((line) => line.split("\t")[1])).toEqual([...ids, undefined]);
		expect(result.out).toMatch(/^queued for alice \(away, .+\)\t\S+\nqueued for bob \(away, .+\)\t\S+\n$/);
	});

	test("of several, what is delivered stays delivered, each one's outcome is in the output, and the exit code says that some failed", async () => {
		const { root, xfer } = make("alice", "bob");
		const result = await xfer("send", "alice,alcie,bob,x@y", "hello");
		expect(result.code).toBe(6);
		expect(result.out).toMatch(/^queued for alice .+\nqueued for bob .+\n$/);
		expect(result.err).toMatch(/^xfer: alcie: .*no Node.*did you mean alice.*\nxfer: x@y: .*\n$/);
		expect(ls(root, "nodes", "alice", "new")).toHaveLength(1);
		expect(ls(root, "nodes", "bob", "new")).toHaveLength(1);
		expect(ls(root, "nodes")).toEqual(["alice", "bob", login.toLowerCase()].sort());
	});

	test("of several that all fail, nothing is delivered and standard output is empty", async () => {
		const { root, xfer } = make("alice");
		const result = await xfer("send", "alcie,bob", "hello");
		expect(result).toMatchObject({ code: 3, out: "" });
		expect(result.err.trim().split("\n")).toHaveLength(2);
		expect(ls(root, "nodes")).toEqual(["alice"]);
	});

	test("one that is named twice, or by another name, gets one copy", async () => {
		const { root, tree, xfer } = make("bob");
		tree.node("bob").alias("bobby");
		const result = await xfer("send", "bob,BOB,bobby", "hello");
		expect(result.code).toBe(0);
		expect(ls(root, "nodes", "bob", "new")).toHaveLength(1);
	});

	test("oneself is a recipient like others", async () => {
		const { root, xfer } = make("alice");
		const result = await xfer("send", "alice", "to myself", "--as", "alice");
		expect(result).toMatchObject({ code: 0, err: "" });
		expect(bodyOf(only(root, "alice"))).toBe("to myself");
		expect((await xfer("read", "--as", "alice")).out).toContain("to myself");
	});

	test("@all is every live Node but oneself, with a note", async () => {
		const { root, xfer } = make("alice", "away");
		for (const name of ["alice", "bob", "carl"]) await goLive(root, name);
		const result = await xfer("send", "@all", "building,", "please wait", "--as", "alice");
		expect(result).toMatchObject({ code: 0, err: "" });
		expect(result.out).toMatch(/^queued for bob \(live, idle\)\t\S+\nqueued for carl \(live, idle\)\t\S+\n$/);
		expect(headerOf(only(root, "bob"))).toContain("kind: note");
		expect(ls(root, "nodes", "alice", "new")).toEqual([]);
		expect(ls(root, "nodes", "away", "new")).toEqual([]);
	});

	test("@all with another Kind is refused, and with nobody live it says so", async () => {
		const { root, xfer } = make("away");
		expect(await xfer("send", "@all", "hi")).toMatchObject({
			code: 3,
			out: "",
			err: expect.stringMatching(/^xfer: nobody is live \(.+\)\n$/),
		});
		await goLive(root, "bob");
		const [task, note] = await Promise.all([xfer("send", "@all", "hi", "--kind", "task"), xfer("send", "@all", "hi", "--kind", "note")]);
		expect(task).toMatchObject({ code: 2, out: "", err: expect.stringMatching(/^xfer: .*note.*\(.+\)\n$/) });
		expect(note.code).toBe(0);
		expect(headerOf(only(root, "bob"))).toContain("kind: note");
	});
});

describe("the sender", () => {
	test("is --as NAME, else $XFER_NODE, else the login name", async () => {
		const { root, env } = make("x", "y", "z");
		const named = { ...env, XFER_NODE: "Carl" };
		const results = await Promise.all([
			run([...cli, "send", "x", "hi", "--as", "Bob"], { env: named }),
			run([...cli, "send", "y", "hi"], { env: named }),
			run([...cli, "send", "z", "hi"], { env }),
		]);
		expect(results.map(({ code }) => code)).toEqual([0, 0, 0]);
		expect(["x", "y", "z"].map((name) => headerOf(only(root, name))[0])).toEqual([
			"from: bob",
			"from: carl",
			`from: ${login.toLowerCase()}`,
		]);
	});

	test("becomes a Node by its first send, so that it can be answered", async () => {
		const { root, xfer } = make("alice");
		await xfer("send", "alice", "nightly build failed", "--as", "cron");
		expect(ls(root, "nodes", "cron")).toEqual(["cur", "new", "node.md", "sent", "tmp"]);
		const [id = ""] = ls(root, "nodes", "alice", "new");
		expect(fs.readlinkSync(path.join(root, "nodes/cron/sent", id))).toBe("../../alice");
		expect((await xfer("reply", id, "on it", "--as", "alice")).code).toBe(0);
		expect((await xfer("read", "--as", "cron")).out).toContain("on it");
	});
});

describe("the state that is told", () => {
	test("of a Node that is away: when it was last seen", async () => {
		const { root, xfer } = make("alice");
		const then = new Date(Date.now() - 3 * 3600 * 1000);
		for (const name of ["node.md", "sent"]) fs.utimesSync(path.join(root, "nodes/alice", name), then, then);
		const result = await xfer("send", "alice", "hi");
		expect(result.out).toBe(`queued for alice (away, last seen 3 h ago)\t${ls(root, "nodes/alice/new")[0]}\n`);
	});

	test.each([
		[{ status: "idle", wake: "turn" }, "live, idle; looks at its next prompt"],
		[{ status: "idle", wake: "now" }, "live, idle"],
		[{ status: "tool:bash", wake: "now" }, "live, tool:bash"],
		[{ status: "idle", wake: "none" }, "live, idle; nothing wakes it"],
		[{ status: "idle", holding: "quiet" }, "live, idle; holds mail: quiet"],
	])("of a live Node that says %o", async (presence, told) => {
		const { root, xfer } = make();
		await goLive(root, "codex-api", presence);
		const result = await xfer("send", "codex-api", "hi");
		expect(result).toMatchObject({ code: 0, out: `queued for codex-api (${told})\t${ls(root, "nodes/codex-api/new")[0]}\n` });
	});

	test("as JSON: one document with each recipient's outcome", async () => {
		const { root, xfer } = make("alice");
		await goLive(root, "bob", { status: "idle", wake: "turn" });
		const result = await xfer("send", "alice,bob,zed", "hi", "--json");
		expect(result.code).toBe(6);
		const document = JSON.parse(result.out);
		expect(document).toMatchObject({
			schema: "xfer.send/1",
			handoffs: [
				{ to: "alice", id: ls(root, "nodes/alice/new")[0], state: "queued", live: false },
				{ to: "bob", id: ls(root, "nodes/bob/new")[0], state: "queued", live: true, status: "idle", wake: "turn" },
				{ to: "zed", error: expect.stringContaining("no Node") },
			],
		});
	});

	test("when it can't be printed any more: standard error says that the Handoff is delivered, and no word of another try", async () => {
		const { root, env } = make("alice");
		const { err } = await run(["sh", "-c", `exec "$@" >/dev/full`, "sh", ...cli, "send", "alice", "hi"], { env });
		const [id = ""] = ls(root, "nodes/alice/new");
		expect(err).toMatch(/delivered/);
		expect(err).toContain(/R(.{8})\./.exec(id)?.[1]);
		expect(err).not.toContain("try again");
	});
});

describe("options", () => {
	test("--kind, --subject, --priority, --expires and --key stand in the header", async () => {
		const { root, xfer } = make("alice");
		const before = Date.now();
		const options = ["--kind", "question", "--subject", "Re: x #12 @a [b]", "--priority", "urgent", "--expires", "30m", "--key", "nightly"];
		expect(await xfer("send", "alice", "which port?", ...options)).toMatchObject({ code: 0, err: "" });
		const after = Date.now();
		const header = headerOf(only(root, "alice"));
		expect(header).toEqual(expect.arrayContaining(["kind: question", 'subject: "Re: x #12 @a [b]"', "priority: urgent", "key: nightly"]));
		const expires = Date.parse(header.find((line) => line.startsWith("expires: "))?.slice(9) ?? "");
		expect(expires).toBeGreaterThanOrEqual(before + 30 * 60_000);
		expect(expires).toBeLessThanOrEqual(after + 30 * 60_000);
		expect(only(root, "alice")).toMatch(/^cwd: /m);
	});

	test("--key replaces the unread older one of this sender, and nobody else's", async () => {
		const { root, xfer } = make("alice");
		await xfer("send", "alice", "one", "--key", "k", "--as", "bob");
		await xfer("send", "alice", "another's", "--key", "k", "--as", "carl");
		await xfer("send", "alice", "another key", "--key", "l", "--as", "bob");
		await xfer("send", "alice", "two", "--key", "k", "--as", "bob");
		const { out } = await xfer("inbox", "alice", "--all");
		expect(
			out
				.split("\n")
				.map((line) => line.split("\t"))
				.map(([, , state, , , subject]) => [state, subject]),
		).toEqual([
			["queued", "another's"],
			["queued", "another key"],
			["queued", "two"],
			["replaced", "one"],
			[undefined, undefined],
		]);
		expect(ls(root, "nodes/alice/cur")[0]).toMatch(/,E=replaced:2,T$/);
	});

	test("--re carries the id and the thread of what was received, and of what was sent", async () => {
		const { root, xfer } = make("alice", "bob");
		await xfer("send", "alice", "a question", "--as", "bob");
		const [id = ""] = ls(root, "nodes/alice/new");
		await xfer("send", "bob", "received", "--re", id, "--as", "alice");
		expect(headerOf(only(root, "bob"))).toEqual(expect.arrayContaining([`re: ${id}`, `thread: ${id}`]));
		const [second = ""] = ls(root, "nodes/bob/new");
		const piece = /R(.{8})\./.exec(second)?.[1] as string;
		await xfer("send", "carl,alice", "sent", "--re", piece, "--as", "alice"); // carl is no Node: alice still gets hers
		const last = ls(root, "nodes/alice/new").at(-1) as string;
		expect(headerOf(fs.readFileSync(path.join(root, "nodes/alice/new", last), "utf8"))).toEqual(
			expect.arrayContaining([`re: ${second}`, `thread: ${id}`]),
		);
	});

	test("--re of nothing that is there is an error, and nothing is sent", async () => {
		const { root, xfer } = make("alice", "bob");
		expect(await xfer("send", "alice", "hi", "--re", "zzzz", "--as", "bob")).toMatchObject({ code: 3, out: "" });
		expect(ls(root, "nodes/alice/new")).toEqual([]);
	});

	test.each([
		[["--kind", "tsk"], /Kind "tsk" \(did you mean task\?.*question.*\)/],
		[["--kind", "A b"], /Kind "A b" \(.*task, question.*\)/],
		[["--priority", "high"], /priority "high" \(.*urgent.*\)/],
		[["--expires", "30"], /--expires 30 .*\(.*30s.*10m.*\)/],
		[["--expires", "soon"], /--expires soon .*\(.*30s.*10m.*\)/],
		[["--timeout", "1s"], /--timeout .*\(.*--wait.*\)/],
		[["--subject"], /--subject .*\(--subject .*\)/],
	])("%j is refused with what would be right", async (options, error) => {
		const { root, xfer } = make("alice");
		const result = await xfer("send", "alice", "hi", ...options);
		expect(result).toMatchObject({ code: 2, out: "" });
		expect(result.err).toMatch(error);
		expect(ls(root, "nodes/alice/new")).toEqual([]);
	});
});

test("a Node that is made meanwhile is found, for nothing is remembered between commands", async () => {
	const { tree, xfer } = make();
	expect((await xfer("send", "late", "hi")).code).toBe(3);
	tree.join("late");
	await until(async () => (await xfer("send", "late", "hi")).code === 0);
});

/** spec/xfer.sh under dash, and under busybox with no tool but its own applets. */
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { busyboxApplets, ls, type Result, run, sh, start, tempTree, until } from "./helpers.ts";

vi.setConfig({ testTimeout: 60_000 }); // hundreds of processes, on a machine that may be busy

const applets = busyboxApplets();

const idPattern = /^\d{10}\.M\d{6}R[0-9a-hjkmnp-tv-z]{8}\.[A-Za-z0-9._-]+$/;
const instance = (text: string) => text.padEnd(8, "0");

describe.each(["dash", "busybox"] as const)("xfer.sh in %s", (shell) => {
	let home: string;
	let root: string;
	let env: NodeJS.ProcessEnv;
	const script = sh(shell).at(-1) as string;

	beforeEach(() => {
		({ home, root, env } = tempTree());
		env = { ...env, XFER_DURABILITY: "none", ...(shell === "busybox" && { PATH: applets }) };
	});

	/** Runs a command as a Node. */
	const xfer = (
		as: string,
		args: string[],
		options: { input?: string | Buffer; env?: NodeJS.ProcessEnv; cwd?: string } = {},
	): Promise<Result> => run([...sh(shell), ...args], { cwd: home, ...options, env: { ...env, XFER_NODE: as, ...options.env } });
	/** Runs a script in this shell. */
	const source = (text: string, options: { input?: string; env?: NodeJS.ProcessEnv } = {}) =>
		run([...sh(shell).slice(0, -1), "-c", text, "script", script], { cwd: home, ...options, env: { ...env, ...options.env } });
	const join = async (...names: string[]) => {
		for (const name of names) expect((await xfer(name, ["join", name])).code).toBe(0);
	};
	const node = (name: string, ...parts: string[]) => path.join(root, "nodes", name, ...parts);
	/** Puts a file in an Inbox, as any program may. */
	const put = (name: string, file: string, text: string | Buffer = "text") => fs.writeFileSync(node(name, file), text);
	/** Sends as bob, and returns the id. */
	const send = async (to: string, ...args: string[]) => {
		const result = await xfer("bob", ["send", to, ...args]);
		expect(result.err).toBe("");
		return result.out.trim().split("\t")[1] as string;
	};
	const doctor = async (file: string) => JSON.parse((await xfer("bob", ["doctor", "--json", file])).out).files[0];

	describe("join", () => {
		test("makes a Node for its owner alone, and again changes nothing", async () => {
			await join("alice", "alice");
			expect(ls(root, "nodes")).toEqual(["alice"]);
			expect(ls(node("alice"))).toEqual(["cur", "new", "sent", "tmp"]);
			expect(fs.statSync(node("alice", "new")).mode & 0o777).toBe(0o700);
		});

		test("folds a name, and refuses what is none", async () => {
			await join("Alice");
			for (const name of ["../x", "a/b", "-x", "", ".x", "a b", "a\nb", "a\n", "all", "Unknown", "ä", "a".repeat(300), "a".repeat(64)]) {
				const result = await xfer("alice", ["join", "--", name]);
				expect([name, result.code, result.out]).toEqual([name, 2, ""]);
				expect(result.err).toMatch(/^xfer: [^\n]*\n$/);
			}
			expect(ls(root, "nodes")).toEqual(["alice"]);
			expect(ls(home)).toEqual([".xfer"]);
		});

		test("refuses a relative tree, and an option that it does not know", async () => {
			expect((await xfer("alice", ["join", "alice"], { env: { XFER_HOME: "tree" } })).code).toBe(2);
			expect((await xfer("alice", ["join", "--to", "alice"])).code).toBe(2);
			expect((await xfer("alice", [])).code).toBe(2);
			expect((await xfer("alice", ["help"])).out).toContain("xfer.sh send");
		});
	});

	describe("send", () => {
		test("delivers one file, with a pointer to where it went", async () => {
			await join("alice");
			const result = await xfer("bob", ["send", "alice", "fix", "the  test"]);
			expect(result.out).toMatch(/^queued for alice \(away\)\t\S+\n$/);
			const [id] = ls(node("alice", "new")) as [string];
			expect(id).toMatch(idPattern);
			expect(result.out).toContain(`\t${id}\n`);
			expect(fs.readFileSync(node("alice", "new", id), "utf8")).toMatch(
				/^---\nfrom: bob\nto: alice\nkind: task\ndate: \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.000Z\n---\nfix the {2}test$/,
			);
			expect(fs.statSync(node("alice", "new", id)).mode & 0o777).toBe(0o600);
			expect(fs.readlinkSync(node("bob", "sent", id))).toBe("../../alice");
			expect(ls(node("alice", "tmp"))).toEqual([]);
		});

		test("syncs what it can, and says when somebody was last there", async () => {
			await join("alice");
			put("alice", "node.md", "---\nname: alice\n---\n");
			const past = Date.now() / 1000 - 3 * 3600 - 60;
			fs.utimesSync(node("alice", "node.md"), past, past);
			const result = await xfer("bob", ["send", "alice", "x"], { env: { XFER_DURABILITY: "" } });
			expect(result.out).toMatch(/^queued for alice \(away, last seen 3 h ago\)\t/);
		});

		test("makes nothing for an unknown recipient, an empty text or wrong usage", async () => {
			await join("alice");
			expect((await xfer("bob", ["send", "nobody", "x"])).code).toBe(3);
			expect((await xfer("bob", ["send", "alice", ""])).code).toBe(2);
			expect((await xfer("bob", ["send", "alice", "-"], { input: "" })).code).toBe(2);
			expect((await xfer("bob", ["send", "a/b", "x"])).code).toBe(2);
			expect((await xfer("bob", ["send", ","])).code).toBe(2);
			expect((await xfer("bob", ["send", "alice", "--priority", "high", "x"])).code).toBe(2);
			expect((await xfer("bob", ["send", "alice", "--expires", "soon", "x"])).code).toBe(2);
			expect((await xfer("bob", ["send", "alice", "--subject"])).code).toBe(2);
			expect((await xfer("a b", ["send", "alice", "x"])).code).toBe(2);
			expect(ls(root, "nodes")).toEqual(["alice"]);
			expect([...ls(node("alice", "new")), ...ls(node("alice", "tmp"))]).toEqual([]);
		});

		test("reaches several under ids of their own, a second name as the Node that it leads to, and each once", async () => {
			await join("alice", "carol");
			fs.symlinkSync("carol", node("cc"));
			fs.symlinkSync("cc", node("chain"));
			fs.symlinkSync("/tmp", node("away"));
			const result = await xfer("bob", ["send", "alice,cc,carol", "--kind", "note", "x"]);
			expect(result.code).toBe(0);
			const [first, second, ...more] = result.out.trim().split("\n");
			expect(more).toEqual([]);
			expect(second).toMatch(/^queued for carol \(away\)\t/);
			const [a, c] = [first, second].map((line) => line?.split("\t")[1] as string) as [string, string];
			expect(await doctor(node("carol", "new", c))).toMatchObject({ fields: { to: ["alice", "carol"], kind: "note", thread: a } });
			expect((await doctor(node("alice", "new", a))).fields.thread).toBe(a);
			for (const name of ["chain", "away"]) expect((await xfer("bob", ["send", name, "x"])).code).toBe(3);
			const some = await xfer("bob", ["send", "alice,nobody", "x"]);
			expect([some.code, some.out.split("\n").length]).toEqual([6, 2]);
			expect(some.err).toContain("no Node 'nobody'");
		});

		test("acts as the login name when it is told no other", async () => {
			await join("alice");
			const result = await run([...sh(shell), "send", "alice", "x"], { cwd: home, env });
			expect(result.code).toBe(0);
			expect(ls(root, "nodes")).toContain(os.userInfo().username.toLowerCase());
		});

		const nasty = ["-n", "\\n", "%s", "$(touch x)", "`touch x`", "*", "'", '"', "a\\", "$HOME", "~", "é\u{1f600}", "-- x", "#", "& ;"];
		test("takes words and subjects as they are", async () => {
			await join("alice");
			fs.mkdirSync(path.join(home, "empty"));
			for (const text of nasty) {
				const result = await xfer("bob", ["send", "alice", `--subject=${text}`, "--", text, text], { cwd: path.join(home, "empty") });
				const file = node("alice", "new", result.out.trim().split("\t")[1] as string);
				const bytes = fs.readFileSync(file);
				const { fields, body, warnings } = await doctor(file);
				expect([fields.subject, bytes.subarray(body.offset).toString(), warnings]).toEqual([text, `${text} ${text}`, []]);
			}
			expect(ls(home, "empty")).toEqual([]);
			expect(ls(root, "nodes")).toEqual(["alice", "bob"]);
		});

		test("writes a header value that reads back as it was", async () => {
			await join("alice");
			const values = [
				"Re: x #12 @a [b]",
				"[a, b]",
				'"x"',
				'"',
				" x ",
				"a\nb",
				"a\tb",
				"\x1b[2J",
				"\x7f",
				"\u0085",
				"no",
				"---",
				"x\r",
				"\\",
				'é\n"\\',
			];
			for (const value of values) {
				const id = await send("alice", "--subject", value, "--kind", value, "--key", value, "x");
				const { fields, warnings } = await doctor(node("alice", "new", id));
				expect([fields.subject, fields.kind, fields.key, warnings]).toEqual([value, value, value, []]);
			}
			const [first] = values;
			expect(fs.readFileSync(node("alice", "new", await send("alice", "--subject", first as string, "x")), "utf8")).toContain(
				`\nsubject: ${first}\n`,
			);
		});

		test.each([
			["CRLF", "a\r\nb\r\n"],
			["no last newline", "\n\na"],
			["a fence", "---\nfrom: eve\n---\nx"],
			["NUL", Buffer.from([0, 97, 0, 10, 0])],
			["bytes that are not UTF-8", Buffer.from([0xff, 0xfe, 0x80, 10])],
			["newlines alone", "\n\n\n"],
			["a MiB", Buffer.alloc(1_048_576, "x\n")],
		])("keeps a body from standard input byte for byte: %s", async (_, input) => {
			await join("alice", "carol");
			const result = await xfer("bob", ["send", "alice,carol", "see", "below", "-"], { input });
			expect([result.err, result.code]).toEqual(["", 0]);
			for (const name of ["alice", "carol"]) {
				const [id] = ls(node(name, "new")) as [string];
				const { body, fields } = await doctor(node(name, "new", id));
				expect(fields.subject).toBe("see below");
				const read = await xfer(name, ["read"]);
				expect(read.bytes.subarray(body.offset).equals(Buffer.from(input))).toBe(true);
				expect(ls(node(name, "tmp"))).toEqual([]);
			}
		});

		test("refuses more than the limit, naming both numbers, and a full disk", async () => {
			await join("alice");
			const limited = { env: { XFER_MAX_BYTES: "5" } };
			const words = await xfer("bob", ["send", "alice", "123456"], limited);
			expect([words.code, words.err]).toEqual([2, expect.stringContaining("6 bytes, the limit is 5")]);
			const input = await xfer("bob", ["send", "alice"], { ...limited, input: "1234567" });
			expect([input.code, input.err]).toEqual([2, expect.stringContaining("6 bytes or more, the limit is 5")]);
			expect((await xfer("bob", ["send", "alice", "é234"], limited)).code).toBe(0);
			fs.rmSync(node("alice", "tmp"), { recursive: true });
			fs.symlinkSync("/dev/null/none", node("alice", "tmp"));
			const broken = await xfer("bob", ["send", "alice", "x"]);
			expect([broken.code, broken.out]).toEqual([1, ""]);
			expect(ls(node("alice", "new")).length).toBe(1);
		});

		test("gives ids that sort as they were sent, within one second too", async () => {
			await join("alice");
			const ids: string[] = [];
			for (let i = 0; i < 6; i++) ids.push(await send("alice", `${i}`));
			expect(ls(node("alice", "new"))).toEqual(ids);
		});

		test("does not act as a symlink that leads out of the tree", async () => {
			await join("alice");
			fs.mkdirSync(path.join(home, "outside"));
			fs.symlinkSync("../../outside", node("away"));
			for (const args of [["send", "alice", "x"], ["join", "away"], ["read"], ["live", "away", "true"]]) {
				const result = await xfer("away", args);
				expect([args, [2, 3].includes(result.code ?? 0), result.out]).toEqual([args, true, ""]);
			}
			expect([...ls(home, "outside"), ...ls(node("alice", "new"))]).toEqual([]);
		});

		test("does not touch standard input when words are given", async () => {
			await join("alice");
			const child = start([...sh(shell), "send", "alice", "x"], {
				cwd: home,
				env: { ...env, XFER_NODE: "bob" },
				stdio: ["pipe", "ignore", "inherit"],
			});
			expect(await new Promise((resolve) => child.on("exit", resolve))).toBe(0);
		});

		test("replaces the unread older one with the same key, also within one second", async () => {
			await join("alice");
			for (let i = 0; i < 4; i++) await send("alice", "--key", "build", `${i}`);
			await send("alice", "--key", "other", "x");
			await xfer("eve", ["send", "alice", "--key", "build", "eve"]);
			const bodies = ls(node("alice", "new")).map((id) => fs.readFileSync(node("alice", "new", id), "utf8").split("---\n")[2]);
			expect(bodies.sort()).toEqual(["3", "eve", "x"]);
			expect(ls(node("alice", "cur")).every((name) => name.endsWith(",E=replaced:2,T"))).toBe(true);
		});
	});

	describe("read", () => {
		test("shows the oldest as it stands, then marks it, until nothing is left", async () => {
			await join("alice");
			put("alice", "new/1.b", "one\n");
			put("alice", "new/0.a", "zero");
			put("alice", "new/10.c", "ten");
			for (const [name, text] of [
				["0.a", "zero"],
				["1.b", "one\n"],
				["10.c", "ten"],
			]) {
				expect((await xfer("alice", ["read", "--peek"])).out).toBe(text);
				expect((await xfer("alice", ["read"])).out).toBe(text);
				expect(ls(node("alice", "cur"))).toContain(`${name}:2,S`);
			}
			expect(ls(node("alice", "cur")).length).toBe(3);
			const empty = await xfer("alice", ["read"]);
			expect([empty.code, empty.out, empty.err.split("\n").length]).toEqual([3, "", 2]);
			expect((await xfer("nobody", ["read"])).code).toBe(3);
		});

		test("finds one by a piece of its id, and says when it fits several or none", async () => {
			await join("alice");
			const name = "1700000000.M000001Rabcdefgh.box";
			for (const file of [name, "1700000000.M000002Rbcdefghj.box", "other.id.box"]) put("alice", `new/${file}`, file);
			expect((await xfer("alice", ["read", "--peek", "abcdefgh"])).out).toBe(name);
			expect((await xfer("alice", ["read", "--peek", "ther."])).out).toBe("other.id.box");
			expect((await xfer("alice", ["read", "--peek", "cdefgh"])).code).toBe(2);
			expect((await xfer("alice", ["read", "--peek", "ab"])).code).toBe(2);
			expect((await xfer("alice", ["read", "--peek", "nosuch"])).code).toBe(3);
			expect((await xfer("alice", ["read", "--peek", "../../../new/nosuch"])).code).toBe(3);
			expect((await xfer("alice", ["read", "abcdefgh"])).out).toBe(name);
			expect((await xfer("alice", ["read", "abcdefgh"])).out).toBe(name); // again, changing nothing
			expect(ls(node("alice", "cur"))).toEqual([`${name}:2,S`]);
		});

		test("leaves unread what it could not show whole", async () => {
			await join("alice");
			put("alice", "new/1.x", Buffer.alloc(300_000, "x"));
			const result = await source(`(XFER_NODE=alice "$0" "$1" read; echo $? >code) | true`.replace('"$0" "$1"', sh(shell).join(" ")));
			expect(result.err).toContain("unread again");
			await until(() => ls(home).includes("code"));
			expect(fs.readFileSync(path.join(home, "code"), "utf8")).toBe("1\n");
			expect(ls(node("alice", "new"))).toEqual(["1.x,A=1"]);
		});

		test("is not held up by what is no Handoff, nor by one that is huge", async () => {
			await join("alice");
			execFileSync("mkfifo", [node("alice", "new", "0.fifo")]);
			fs.symlinkSync("/etc/passwd", node("alice", "new", "0.link"));
			fs.symlinkSync("0.fifo", node("alice", "new", "0.pipe"));
			fs.mkdirSync(node("alice", "new", "0.dir"));
			put("alice", "new/.dot", "dot");
			put("alice", "new/1.empty", "");
			put("alice", "new/2.huge", "");
			fs.truncateSync(node("alice", "new", "2.huge"), 2 ** 31);
			put("alice", "new/3.\nline", "three");
			put("alice", "new/4.good", "four");
			const inbox = await xfer("alice", ["inbox"]);
			expect(inbox.out.split("\n").map((line) => line.split("\t")[0])).toEqual(["1.empty", "2.huge", "3.\\x0aline", "4.good", ""]);
			expect((await xfer("alice", ["read"])).out).toBe("");
			expect((await xfer("alice", ["read"])).out).toBe("three");
			expect((await xfer("alice", ["read"])).out).toBe("four");
			const rest = await xfer("alice", ["read"]);
			expect([rest.code, rest.err]).toEqual([3, expect.stringContaining("2.huge")]);
			for (const piece of ["fifo", "link", "pipe", "0.dir"]) expect((await xfer("alice", ["read", piece])).code).toBe(3);
			expect(ls(node("alice", "new"))).toEqual([".dot", "0.dir", "0.fifo", "0.link", "0.pipe", "2.huge"]);
		});

		test("takes what a mail reader moved to cur/ unread, and keeps what it does not know in a name", async () => {
			await join("alice");
			put("alice", "cur/1.x,B=1,Z=2,q:2,Px", "x");
			put("alice", "cur/2.x:2,S", "seen");
			put("alice", "cur/3.x", "plain");
			put("alice", "cur/4.x;2,", "windows");
			put("alice", "new/5.x,Z=1,A=08:2,DS", "five");
			const taken = [];
			for (let i = 0; i < 4; i++) taken.push((await xfer("alice", ["read"])).out);
			expect(taken.sort()).toEqual(["five", "plain", "windows", "x"]);
			expect(ls(node("alice", "cur"))).toEqual(["1.x,B=1,Z=2,q:2,PSx", "2.x:2,S", "3.x:2,S", "4.x:2,S", "5.x,A=08,Z=1:2,DS"]);
			await xfer("alice", ["mark", "5.x,", "new"]).then((short) => expect(short.code).toBe(2));
			put("alice", "cur/6666.x,A=08,E=failed,Z=1:2,DFS", "six");
			expect((await xfer("alice", ["mark", "6666", "new"])).out).toBe("queued\t6666.x\n");
			expect(ls(node("alice", "new"))).toEqual(["6666.x,A=9,Z=1:2,D"]);
		});

		test("ends what has expired, and what a newer one with its key has replaced", async () => {
			await join("alice");
			put("alice", "new/1.x", "---\nexpires: 2020-01-01T00:00:00Z\n---\nold");
			put("alice", "new/2.x", "---\nfrom: bob\nkey: k\n---\nolder");
			put("alice", "new/3.x", "---\nfrom: eve\nkey: k\n---\neve's");
			put("alice", "new/4.x", "---\nfrom: bob\nkey: k\nexpires: 2020-02-30T00:00:00Z\n---\nnewer");
			expect((await xfer("alice", ["read", "--peek"])).out).toMatch(/older$/);
			expect((await xfer("alice", ["read"])).out).toMatch(/eve's$/);
			expect((await xfer("alice", ["read"])).out).toMatch(/newer$/);
			expect(ls(node("alice", "cur"))).toEqual(["1.x,E=expired:2,T", "2.x,E=replaced:2,T", "3.x:2,S", "4.x:2,S"]);
			const id = await send("alice", "--expires", "2h", "x");
			const { expires, date } = (await doctor(node("alice", "new", id))).fields;
			expect(Date.parse(expires) - Date.parse(date)).toBe(7_200_000);
		});

		test("of takers that race, one gets each", async () => {
			await join("alice");
			for (let i = 0; i < 24; i++) put("alice", `new/${100 + i}.x`, `${i}\n`);
			const loop = `while XFER_NODE=alice ${sh(shell).join(" ")} read 2>/dev/null; do :; done`;
			const outs = await Promise.all([1, 2, 3, 4].map(() => source(loop)));
			const got = outs.flatMap((result) => result.out.trim().split("\n").filter(Boolean));
			expect(got.map(Number).sort((a, b) => a - b)).toEqual(Array.from({ length: 24 }, (_, i) => i));
			expect(ls(node("alice", "cur")).every((name) => /^\d+\.x:2,S$/.test(name))).toBe(true);
		});
	});

	describe("take and mark", () => {
		test("leave one in hand, and finish it by its path", async () => {
			await join("alice");
			const id = await send("alice", "x");
			const before = Math.floor(Date.now() / 1000);
			const file = (await xfer("alice", ["read", "--take"])).out.trim();
			expect(path.dirname(file)).toBe(node("alice", "cur"));
			const [, name, end] = /^(.*),L=(\d+)\.[0-9a-z]{8}:2,$/.exec(path.basename(file)) ?? [];
			expect(name).toBe(id);
			expect(Number(end) - before).toBeGreaterThanOrEqual(600);
			expect((await xfer("alice", ["read"])).code).toBe(3);
			expect((await xfer("alice", ["read", id])).code).toBe(5);
			expect((await xfer("alice", ["mark", id, "read"], { env: { XFER_INSTANCE: instance("ther") } })).code).toBe(5);
			expect((await xfer("alice", ["mark", `${home}/cur/${path.basename(file)}`, "read"])).code).toBe(3);
			expect((await xfer("bob", ["mark", file, "read"])).out).toBe(`read\t${id}\n`);
			expect(ls(node("alice", "cur"))).toEqual([`${id}:2,S`]);
			expect((await xfer("alice", ["mark", file, "new"])).code).toBe(5);
			expect(ls(node("alice", "cur"))).toEqual([`${id}:2,S`]);
			expect((await xfer("alice", ["mark", id, "done"])).code).toBe(2);
		});

		test("return what is in hand when its lease has passed, and the former taker notices", async () => {
			await join("alice");
			const id = await send("alice", "x");
			const file = (await xfer("alice", ["read", "--take"], { env: { XFER_LEASE: "0" } })).out.trim();
			const again = (await xfer("alice", ["read", "--take"])).out.trim();
			expect(path.basename(again)).toMatch(/,A=1,L=/);
			expect((await xfer("alice", ["mark", file, "read"])).code).toBe(5);
			expect((await xfer("alice", ["reply", file, "x"])).code).toBe(5);
			expect((await xfer("alice", ["mark", again, "new"])).out).toBe(`queued\t${id}\n`);
			expect(ls(node("alice", "new"))).toEqual([`${id},A=2`]);
			put("alice", "cur/9999.x,L=nonsense:2,", "y");
			expect((await xfer("alice", ["read", "--peek", "9999"])).out).toBe("y");
			await xfer("alice", ["read"]);
			expect(ls(node("alice", "new"))).toEqual(["9999.x,A=1"]);
		});

		test("fail one, and tell its sender unless it is a report", async () => {
			await join("alice");
			const id = await send("alice", "x");
			expect((await xfer("alice", ["mark", id, "failed", "no", "disk"])).out).toBe(`failed\t${id}\n`);
			expect(ls(node("alice", "cur"))).toEqual([`${id},E=failed:2,F`]);
			const [report] = ls(node("bob", "new")) as [string];
			expect((await doctor(node("bob", "new", report))).fields).toMatchObject({ from: "alice", kind: "report", re: id, thread: id });
			expect((await xfer("bob", ["read", "--peek"])).out).toMatch(/\n---\nno disk$/);
			expect((await xfer("bob", ["mark", report, "failed"])).code).toBe(0);
			put("alice", "new/9999.x", "from nobody");
			expect((await xfer("alice", ["mark", "9999", "failed"])).code).toBe(0);
			expect(ls(node("alice", "new"))).toEqual([]);
			expect((await xfer("alice", ["mark", id, "read"])).code).toBe(0);
			expect(ls(node("alice", "cur"))).toContain(`${id}:2,S`);
		});
	});

	describe("reply", () => {
		test("answers the sender and marks the original", async () => {
			await join("alice");
			const id = await send("alice", "--kind", "question", "x");
			const result = await xfer("alice", ["reply", id, "forty", "two"]);
			expect(result.out).toMatch(/^queued for bob \(away\)\t/);
			expect(ls(node("alice", "cur"))).toEqual([`${id}:2,RS`]);
			const [answer] = ls(node("bob", "new")) as [string];
			const { fields, body } = await doctor(node("bob", "new", answer));
			expect(fields).toMatchObject({ from: "alice", to: "bob", kind: "answer", re: id, thread: id });
			expect(fields.hops).toBeUndefined();
			expect(
				fs
					.readFileSync(node("bob", "new", answer))
					.subarray(body.offset)
					.toString(),
			).toBe("forty two");
			await xfer("bob", ["reply", answer, "-"], { input: "thanks\n" });
			const [note] = ls(node("alice", "new")) as [string];
			expect((await doctor(node("alice", "new", note))).fields).toMatchObject({ kind: "note", re: answer, thread: id });
		});

		test("changes nothing when there is nobody to answer, nothing to say, or no such Handoff", async () => {
			await join("alice");
			for (const from of ["", "from: nobody\n", "from: ../alice\n", "from: unknown\n"]) {
				put("alice", "new/9999.x", `---\nkind: task\n${from}---\nx`);
				expect([from, (await xfer("alice", ["reply", "9999", "x"])).code]).toEqual([from, 3]);
			}
			const id = await send("alice", "x");
			expect((await xfer("alice", ["reply", id, ""])).code).toBe(2);
			expect((await xfer("alice", ["reply", "nosuch", "x"])).code).toBe(3);
			expect(ls(node("alice", "cur"))).toEqual([]);
			expect(ls(node("bob", "new"))).toEqual([]);
		});
	});

	test("recall takes back what nobody has taken", async () => {
		await join("alice");
		const [one, two, three] = [await send("alice", "1"), await send("alice", "2"), await send("alice", "3")];
		expect((await xfer("bob", ["recall", one])).out).toBe(`recalled\t${one}\n`);
		expect(ls(node("alice", "cur"))).toEqual([`${one},E=recalled:2,T`]);
		expect((await xfer("bob", ["recall", one])).code).toBe(5);
		await xfer("alice", ["read", two]);
		expect((await xfer("bob", ["recall", two])).code).toBe(5);
		fs.rmSync(node("alice", "new", three));
		expect((await xfer("bob", ["recall", three])).code).toBe(3);
		expect((await xfer("alice", ["recall", one])).code).toBe(3);
	});

	test("inbox shows a line for each, what needs a reader first, and nothing that a terminal would obey", async () => {
		await join("alice");
		const box = "alice";
		put(box, "new/1700000002.x", "---\r\nfrom: bob\r\nsubject: \x1b[2J\t\u0085 \r\ndate: 2026-11-30T12:00:00.5Z\r\n---\r\nbody");
		put(box, "new/1700000001.y,A=1", '\n \nfirst "line"\x07 é\nsecond');
		put(box, "new/1700000003.z", "---\nexpires: 2020-01-01T00:00:00Z\nsubject: late\n---\n");
		put(box, "cur/1.taken,L=99999999999.abcdefgh:2,", '---\nkind: "a\\u0000b\\ud83d\\ude00\\ud800"\n---\n');
		put(box, "cur/2.failed,E=failed:2,F");
		put(box, "cur/3.read:2,S");
		put(box, "cur/4.answered:2,RS");
		put(box, "cur/5.recalled:2,T");
		put(box, "cur/6.other,E=x\x1b", "---\nunclosed");
		put(box, "cur/name", "x");
		const time = new Date(fs.statSync(node(box, "cur/name")).mtimeMs).toISOString().replace(/\.\d+/, ".000");
		const expected = [
			'1700000001.y\t2023-11-14T22:13:21.000Z\tqueued\ttask\tunknown\tfirst "line"\\x07 é',
			"1700000002.x\t2026-11-30T12:00:00.500Z\tqueued\ttask\tbob\t\\x1b[2J\\x09\\x85",
			`name\t${time}\tqueued\ttask\tunknown\tx`,
			"1.taken\t1970-01-01T00:00:01.000Z\ttaken\ta\\x00b\u{1f600}\ufffd\tunknown\t",
			"2.failed\t1970-01-01T00:00:02.000Z\tfailed\ttask\tunknown\ttext",
		];
		expect((await xfer("alice", ["inbox"])).out.split("\n")).toEqual([...expected, ""]);
		const all = (await xfer("bob", ["inbox", "alice", "--all"])).out.split("\n").slice(0, -1);
		expect(all.slice(0, 5)).toEqual(expected);
		const rest = all.slice(5).map((line) => line.split("\t"));
		expect(rest.map(([, , state]) => state).sort()).toEqual(["answered", "expired", "read", "recalled", "x\\x1b"]);
		expect(rest.find(([id]) => id === "6.other")?.[5]).toBe("---");
		expect(await xfer("alice", ["inbox", "nobody"])).toMatchObject({ code: 3, out: "" });
	});

	test("doctor shows what a reader sees, and warns", async () => {
		const look = async (bytes: string | Buffer) => {
			fs.writeFileSync(path.join(home, "f"), bytes);
			const result = await xfer("bob", ["doctor", "--json", "f"]);
			const { schema, files } = JSON.parse(result.out);
			expect([schema, result.code]).toEqual(["xfer.doctor/1", files[0].warnings.length ? 1 : 0]);
			return files[0];
		};
		expect(await look('---\nFrom: "b\\u006fb"\nto: [a, "b,c"]\nsubject: no #x\n---\nbody')).toEqual({
			file: "f",
			header: true,
			fields: { from: "bob", to: ["a", "b,c"], subject: "no #x" },
			body: { offset: 55, bytes: 4 },
			warnings: [],
		});
		expect(await look("\ufeff---\na: b\n---\n")).toMatchObject({ header: false, body: { offset: 0, bytes: 16 }, warnings: ["bom"] });
		expect(await look("---\na: b\n")).toMatchObject({ header: false, fields: {}, warnings: ["unclosed"] });
		const bad = await look(Buffer.from("---\nx\nhops: many\ndate: 2026-02-30T00:00:00Z\nhops: 2\nk: \xff\n---", "latin1"));
		expect(bad).toMatchObject({
			fields: { hops: "many", date: "2026-02-30T00:00:00Z", k: "\ufffd" },
			warnings: ["utf8", "line", "duplicate", "date", "number"],
		});
		expect((await xfer("bob", ["doctor", "--json", "nosuch"])).code).toBe(3);
		execFileSync("mkfifo", [path.join(home, "fifo")]);
		expect((await xfer("bob", ["doctor", "--json", "fifo"])).code).toBe(3);
	});

	describe("live", () => {
		/** Starts a holder, and waits until it runs its command, which waits for the file `go`. */
		const hold = async (name: string, options: { env?: NodeJS.ProcessEnv; command?: string } = {}) => {
			const command =
				options.command ?? "env >env; echo $$ >pid; i=0; while [ ! -e go ] && [ $((i += 1)) -lt 1000 ]; do sleep 0.05; done; exit 7";
			const child = start([...sh(shell), "live", name, "sh", "-c", command], {
				cwd: home,
				env: { ...env, XFER_REFRESH: "1", ...options.env },
				stdio: ["ignore", "ignore", "pipe"],
			});
			const holder = { child, err: "", exit: new Promise<number | null>((resolve) => child.on("exit", resolve)) };
			child.stderr?.on("data", (data) => {
				holder.err += data;
			});
			await until(() => ls(home).includes("pid"), "the command to run");
			return holder;
		};
		const locks = (name: string) => ls(node(name, "live.lock"));

		test("holds the name while the command runs, says so, and ends with its status", async () => {
			await join("alice");
			put("alice", "node.md", "---\nstatus: busy\n---\nreviews things\n");
			const { child, exit } = await hold("alice");
			const variables = fs.readFileSync(path.join(home, "env"), "utf8");
			const [, id] = /^XFER_INSTANCE=([0-9a-hjkmnp-tv-z]{8})$/m.exec(variables) as unknown as [string, string];
			expect(variables).toMatch(/^XFER_NODE=alice$/m);
			expect(variables).toMatch(/^LC_ALL=C.UTF-8$/m);
			expect(locks("alice")).toEqual([id]);
			const [host, space, pid] = fs.readFileSync(node("alice", "live.lock", id), "utf8").split(/\s/);
			expect([host, space, pid]).toEqual([os.hostname(), fs.readlinkSync("/proc/self/ns/pid"), `${child.pid}`]);
			const { fields } = await doctor(node("alice", "node.md"));
			expect(fields).toMatchObject({ name: "alice", instance: id, host, pid, agent: "sh", status: "idle", wake: "none" });
			expect(fields.started).toBe(fields.since);
			expect(fs.readFileSync(node("alice", "node.md"), "utf8")).toMatch(/\n---\nreviews things\n$/);
			expect((await xfer("bob", ["send", "alice", "x"])).out).toMatch(/^queued for alice \(live, idle\)\t/);

			const second = await xfer("x", ["live", "alice", "true"]);
			expect([second.code, second.out]).toEqual([5, ""]);
			expect(second.err).toContain(`process ${pid} on ${host}`);
			const [handoff] = ls(node("alice", "new")) as [string];
			expect((await xfer("alice", ["read", "--peek"])).code).toBe(0);
			for (const args of [["read"], ["mark", handoff, "read"], ["reply", handoff, "x"]])
				expect([args, (await xfer("alice", args)).code]).toEqual([args, 5]);
			expect(ls(node("alice", "new"))).toEqual([handoff]);
			await xfer("alice", ["reply", handoff, "x"], { env: { XFER_INSTANCE: id } });
			const [answer] = ls(node("bob", "new")) as [string];
			expect((await doctor(node("bob", "new", answer))).fields).toMatchObject({ hops: "1", instance: id });
			expect(ls(node("alice", "cur"))).toEqual([`${handoff}:2,RS`]);

			fs.writeFileSync(path.join(home, "go"), "");
			expect(await exit).toBe(7);
			expect(ls(node("alice"))).not.toContain("live.lock");
		});

		test("gives the command its standard input and umask", async () => {
			const result = await source(`umask 022; echo text | ${sh(shell).join(" ")} live alice sh -c 'cat; umask'`);
			expect(result).toMatchObject({ code: 0, err: "" });
			expect(result.out).toMatch(/^text\n0*22\n$/);
		});

		test("passes a signal on, and lets the name go", async () => {
			const { child, exit } = await hold("alice", {
				command: "trap 'exit 9' TERM; echo $$ >pid; i=0; while [ $((i += 1)) -lt 1000 ]; do sleep 0.05; done",
			});
			child.kill("SIGTERM");
			expect(await exit).toBe(9);
			expect(locks("alice")).toEqual([]);
		});

		/** The pid that the command wrote. Waited for: an empty file reads as 0, which would end this process's own group. */
		const pidOfCommand = () =>
			until(() => Number(ls(home).includes("pid") && fs.readFileSync(path.join(home, "pid"), "utf8")), "the command's pid");

		test("a holder that is killed frees the name at once, and what it had in hand", async () => {
			await join("alice");
			const id = await send("alice", "x");
			const { child, exit } = await hold("alice", {
				command: "X read --take >taken; echo $$ >pid; sleep 60".replace("X", sh(shell).join(" ")),
			});
			const [lock] = locks("alice") as [string];
			expect(ls(node("alice", "cur"))[0]).toMatch(new RegExp(`^${id},L=\\d+\\.${lock}:2,$`));
			child.kill("SIGKILL");
			await exit;
			const command = await pidOfCommand();
			process.kill(command, "SIGKILL");
			const result = await xfer("x", ["live", "alice", ...sh(shell), "read"]);
			expect([result.code, result.out]).toEqual([0, expect.stringMatching(/x$/)]);
			expect(ls(node("alice", "cur"))).toEqual([`${id},A=1:2,S`]);
		});

		test("the refresher ends with a holder that is killed", async () => {
			const { child, exit } = await hold("alice", { command: "echo $$ >pid; exec sleep 60" });
			const children = () =>
				execFileSync("ps", ["-eo", "pid,ppid,args"], { encoding: "utf8" })
					.split("\n")
					.filter((line) => line.includes(script) && line.includes("live alice"));
			expect(children().length).toBeGreaterThanOrEqual(2);
			child.kill("SIGKILL");
			await exit;
			process.kill(await pidOfCommand(), "SIGKILL");
			await until(() => children().length === 0, "the refresher to end", 10_000);
		});

		test("notices that the lock was lost, and does not make it again", async () => {
			const holder = await hold("alice");
			fs.rmSync(node("alice", "live.lock"), { recursive: true });
			await until(() => holder.err.includes("lost"), "the message");
			expect(locks("alice")).toEqual([]);
			const other = await xfer("x", ["live", "alice", "sh", "-c", "echo here"]);
			expect(other.out).toBe("here\n");
			fs.writeFileSync(path.join(home, "go"), "");
			expect(await holder.exit).toBe(7);
		});

		test("gives way to a fresh lock of another host, and takes a stale one over", async () => {
			await join("alice");
			fs.mkdirSync(node("alice", "live.lock"));
			const other = node("alice", "live.lock", instance("far"));
			fs.writeFileSync(other, "elsewhere pid:[1] 1\n");
			const refused = await xfer("x", ["live", "alice", "true"]);
			expect([refused.code, refused.err]).toEqual([5, expect.stringContaining("elsewhere")]);
			expect(locks("alice")).toEqual([instance("far")]);
			const old = Date.now() / 1000 - 60;
			fs.utimesSync(other, old, old);
			const begin = Date.now();
			expect(
				(await xfer("x", ["live", "alice", "sh", "-c", "ls $XFER_HOME/nodes/alice/live.lock"], { env: { XFER_STALE: "2" } })).out,
			).toMatch(/^[0-9a-z]{8}\n$/);
			expect(Date.now() - begin).toBeGreaterThanOrEqual(2000);
			expect(locks("alice")).toEqual([]);
		});

		test("of contenders for one name, one at a time holds it", async () => {
			await join("alice");
			const critical = "mkdir held && sleep 0.3 && rmdir held && echo won || echo TWO";
			for (let round = 0; round < 3; round++) {
				fs.mkdirSync(node("alice", "live.lock"));
				fs.writeFileSync(
					node("alice", "live.lock", instance("dead")),
					`${os.hostname()} ${fs.readlinkSync("/proc/self/ns/pid")} 4194305\n`,
				);
				const results = await Promise.all(Array.from({ length: 5 }, () => xfer("x", ["live", "alice", "sh", "-c", critical])));
				expect(results.filter(({ out }) => out === "won\n").length).toBeGreaterThanOrEqual(1);
				for (const { code, out, err } of results) expect([0, 5], `${out}${err}`).toContain(code);
				expect(results.map(({ out }) => out).join("")).not.toContain("TWO");
				expect(locks("alice")).toEqual([]);
			}
		});
	});

	describe("sourced", () => {
		test("offers the commands as functions, and leaves the shell as it was", async () => {
			const text = `
				set -ue -f -C; IFS=x; cd /; umask 022; xname=kept; _name=x
				. "$1"
				xfer_join alice >|"$HOME/out"
				XFER_NODE=bob; export XFER_NODE
				xfer_send alice -- -n '*' >|"$HOME/out"
				xfer_send nobody x 2>|"$HOME/err" || printf 'status %s\\n' $?
				printf 'body\\n' | xfer_send alice - >|"$HOME/out"
				XFER_NODE=alice xfer_read >|"$HOME/out"
				printf '%s %s %s %s ' "$PWD" "$xname" "$IFS" "$-"; umask`;
			const result = await source(text);
			expect(result).toMatchObject({ code: 0, err: "" });
			expect(result.out).toMatch(/^status 3\n\/ kept x \w*e\w* 0*22\n$/);
			expect(ls(node("alice", "new")).length).toBe(1);
			expect(ls(node("alice", "cur")).length).toBe(1);
		});

		test("lets a script be a Node", async () => {
			const text = `
				. "$1"
				XFER_INSTANCE=$(xfer_instance); export XFER_INSTANCE
				xfer_lock_acquire alice || exit
				read -r host space pid <"$XFER_HOME/nodes/alice/live.lock/$XFER_INSTANCE"
				[ "$pid" = $$ ] || echo "not the pid: $pid"
				(XFER_INSTANCE=$(xfer_instance); xfer_lock_acquire alice 2>/dev/null); echo $?
				xfer_lock_refresh alice; echo $?
				rm "$XFER_HOME/nodes/alice/live.lock/$XFER_INSTANCE"
				xfer_lock_refresh alice; echo $?
				xfer_lock_acquire alice; echo $?
				xfer_lock_release alice; echo $?
				xfer_lock_refresh ../alice 2>/dev/null; echo $?
				ls "$XFER_HOME/nodes/alice"`;
			const result = await source(text);
			expect(result.err).toBe("");
			expect(result.out.split("\n")).toEqual(["5", "0", "1", "0", "0", "2", "cur", "new", "sent", "tmp", ""]);
		});
	});
});

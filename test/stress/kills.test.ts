import { type SpawnSyncReturns, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { crc32 } from "node:zlib";
import { describe, expect, test } from "vitest";
import { openTree, type Taken } from "../../lib/index.ts";
import { cli, ls, run, sh, start, tempDir, tempTree, until } from "../helpers.ts";
import { actor, watched } from "./actor.ts";
import type { SenderOptions } from "./sender.ts";
import type { TakerOptions } from "./taker.ts";

const strace = spawnSync("strace", ["-V"]).status === 0;

/** All names in alice's Inbox, and the bytes behind them. */
function inboxOf(root: string): Record<string, string> {
	const inbox = path.join(root, "nodes/alice");
	const files = ["tmp", "new", "cur"].flatMap((dir) => ls(inbox, dir).map((name) => path.join(dir, name)));
	return Object.fromEntries(files.map((file) => [file, fs.readFileSync(path.join(inbox, file), "latin1")]));
}

/** How many bytes of the body that `sender.ts` was writing are missing from a file; not a number when it is not what it wrote. */
function missing(file: string): number {
	const bytes = fs.readFileSync(file);
	const [, length, checksum] = /^subject: "?(\d+) (\d+)"?$/m.exec(bytes.subarray(0, 500).toString("latin1")) ?? [];
	const body = bytes.subarray(bytes.indexOf("\n---\n", 3) + 5);
	if (body.length === Number(length) && crc32(body) !== Number(checksum)) return Number.NaN;
	return length === undefined ? Number.POSITIVE_INFINITY : Number(length) - body.length;
}

test("500 senders that are killed at any moment leave no partial file in new/", async () => {
	const { root, env } = tempTree();
	const tree = openTree({ root });
	tree.join("bob");
	const warm = actor("sender.ts", { node: tree.join("warm").name } satisfies SenderOptions, env);
	const began = Date.now();
	await until(() => ls(root, "nodes/warm/new").length > 0, "a first delivery");
	const life = 1.5 * (Date.now() - began);
	warm.tell(0);
	await warm.ended;

	const count = { kills: 0, delivered: 0, partial: 0 };
	/** One Node's senders, one after the other. A third is killed after any time; the others when, or soon after, a file appears in `tmp/`. */
	const lane = async (name: string) => {
		const inbox = tree.join(name).directory;
		for (let n = 0; n < 250; n++) {
			const sender = actor("sender.ts", { node: name } satisfies SenderOptions, env);
			const kill = () => sender.kill("SIGKILL");
			let files = Math.floor(Math.random() * 5);
			const watcher = fs.watch(path.join(inbox, "tmp"), () => {
				if (n % 3 === 0 || files-- !== 0) return;
				if (n % 3 === 1) kill();
				else setTimeout(kill, Math.random() * 20);
			});
			if (n % 3 === 0) setTimeout(kill, Math.random() * life);
			expect(await sender.ended, sender.errors()).toBe("SIGKILL");
			watcher.close();
			count.kills++;
			for (const id of ls(inbox, "new")) {
				expect(missing(path.join(inbox, "new", id)), `${id} is not whole`).toBe(0);
				count.delivered++;
			}
			for (const file of ls(inbox, "tmp")) if (missing(path.join(inbox, "tmp", file)) > 0) count.partial++;
			for (const dir of ["new", "tmp"]) for (const file of ls(inbox, dir)) fs.rmSync(path.join(inbox, dir, file));
		}
	};
	await Promise.all([lane("alice"), lane("carol")]);
	expect(count.kills).toBe(500);
	expect(count.delivered).toBeGreaterThan(0);
	expect(count.partial).toBeGreaterThan(0); // some were killed while they wrote
});

const commands = { cli, dash: sh("dash"), busybox: sh("busybox") };

test.each(Object.entries(commands))("a send by %s that is killed leaves all of the Handoff or none", async (_, argv) => {
	const { root, env } = tempTree();
	const tree = openTree({ root });
	tree.join("alice");
	tree.join("bob");
	const body = randomBytes(1024 * 1024);
	const whole = [...argv, "send", "alice", "--as", "bob", "-"];
	const began = Date.now();
	expect(await run(whole, { env, input: body })).toMatchObject({ code: 0 });
	const life = Date.now() - began;
	for (let n = 0; n < 40; n++) {
		const child = start(whole, { env, stdio: ["pipe", "pipe", "pipe"], detached: true });
		const sender = watched(child);
		child.stdin?.on("error", () => {}); // killed before it has read all
		child.stdin?.end(body);
		// A shell alone, or with what it has started.
		const pid = child.pid as number;
		const kill = () => child.exitCode === null && process.kill(n % 2 ? -pid : pid, "SIGKILL");
		const timer = setTimeout(kill, Math.random() * life);
		const end = await sender.ended; // also of what it has started: they hold its output
		clearTimeout(timer);
		expect([0, "SIGKILL"], sender.errors()).toContain(end);
	}
	const bodies = ls(root, "nodes/alice/new").map((id) => fs.readFileSync(path.join(root, "nodes/alice/new", id)));
	expect(bodies.length).toBeGreaterThan(0);
	expect(bodies.filter((bytes) => !bytes.subarray(bytes.indexOf("\n---\n", 3) + 5).equals(body)).length).toBe(0);
	const delivered = new Set(ls(root, "nodes/alice/new"));
	expect(ls(root, "nodes/bob/sent").filter((id) => !delivered.has(id))).toEqual([]); // a pointer comes after what it points to
});

describe.skipIf(!strace)("under strace", () => {
	/** The system calls of a command and its children on the tree, in order, without what is neither written nor renamed. */
	function calls(argv: string[], env: NodeJS.ProcessEnv, root: string): string[] {
		const dir = tempDir();
		const traced =
			"trace=open,openat,write,writev,pwrite64,pwritev,fsync,fdatasync,rename,renameat,renameat2,link,linkat,symlink,symlinkat";
		const [file, ...args] = ["strace", "-ff", "-ttt", "-y", "-s", "200", "-e", traced, "-o", path.join(dir, "trace"), ...argv] as [
			string,
			...string[],
		];
		const result: SpawnSyncReturns<Buffer> = spawnSync(file, args, { env });
		expect(result.status, result.stderr.toString()).toBe(0);
		const lines = ls(dir).flatMap((name) => fs.readFileSync(path.join(dir, name), "utf8").split("\n"));
		const steps = lines
			.sort()
			.map((line) => line.replaceAll(`${root}/nodes/`, "@").replaceAll("@alice/", "@"))
			.flatMap((line) => {
				const [, call = "", rest = ""] = /^[\d.]+ (\w+?)(?:at2?|v|64)?\((.*)$/.exec(line) ?? [];
				const names = rest.match(/(?<=["@])(?:tmp|new|bob\/sent)\/[^">,]+|(?<=@)new(?=>)/g) ?? [];
				const id = names[0]?.replace(/.*\//, "") ?? "";
				if (id.endsWith(".in") || names.length === 0) return []; // where a shell keeps standard input
				if (call === "open") return rest.includes("O_EXCL") ? [`open ${names[0]}`] : [];
				return [`${call} ${[...new Set(names)].join(" ")}`];
			});
		return steps.filter((step, at) => step !== steps[at - 1]);
	}

	test.each(Object.entries(commands))("%s writes, syncs, renames, syncs the directory, and then points at it", (_, argv) => {
		const { root, env } = tempTree();
		const tree = openTree({ root });
		tree.join("alice");
		tree.join("bob");
		const steps = calls([...argv, "send", "alice", "hello", "--as", "bob"], env, root);
		const [id] = ls(root, "nodes/alice/new");
		expect(steps).toEqual([
			`open tmp/${id}`,
			`write tmp/${id}`,
			`fsync tmp/${id}`,
			`rename tmp/${id} new/${id}`,
			"fsync new",
			`symlink bob/sent/${id}`,
		]);
	});

	const after: [call: string, nth: number, left: string][] = [
		["fsync", 1, "tmp"],
		["rename", 1, "tmp new"],
		["fsync", 2, "new"],
		["symlink", 1, "new"],
	];
	test.each(after)("a kill at %s number %i leaves the whole file in: %s", async (call, nth, left) => {
		const { root, env } = tempTree();
		const tree = openTree({ root });
		tree.join("alice");
		tree.join("bob");
		const inject = ["strace", "-f", "-o", "/dev/null", "-e", `trace=${call}`, "-e", `inject=${call}:signal=SIGKILL:when=${nth}`];
		expect(await run([...inject, ...cli, "send", "alice", "hello", "--as", "bob"], { env })).toMatchObject({ code: null, out: "" });
		const files = Object.entries(inboxOf(root));
		expect(files.length).toBe(1);
		expect(left.split(" ")).toContain(files[0]?.[0].replace(/\/.*/, ""));
		expect(files[0]?.[1]).toMatch(/^---\n(.+\n)+---\nhello$/);
	});
});

/** alice with one Handoff from bob. */
function oneQueued(): { root: string; env: NodeJS.ProcessEnv; at: (seconds: number) => ReturnType<typeof openTree> } {
	const { root, env } = tempTree();
	const tree = openTree({ root, durable: false });
	tree.join("alice");
	tree.send({ from: "bob", to: ["alice"], body: "hello" });
	/** The tree as another instance sees it after so many seconds. */
	const at = (seconds: number) => openTree({ root, durable: false, clock: () => Date.now() + 1000 * seconds });
	return { root, env, at };
}

test("what a killed taker had in hand comes back when its lease has passed, with its count", async () => {
	const { root, env, at } = oneQueued();
	const taker = actor("taker.ts", { node: "alice", die: 10 } satisfies TakerOptions, env);
	expect(await taker.ended, taker.errors()).toBe("SIGKILL");
	expect(taker.lines.length).toBe(1);
	expect(at(500).node("alice").inbox.take()).toBeUndefined();
	const again = at(601).node("alice").inbox.take();
	expect(again).toMatchObject({ attempts: 1, body: Buffer.from("hello") });
	again?.release();
	expect(at(0).node("alice").inbox.take()).toMatchObject({ attempts: 2 });
	expect(Object.values(inboxOf(root))).toEqual([expect.stringMatching(/hello$/)]);
});

test.each(Object.entries(commands))("%s gives out again what its last taker has not marked within the lease", async (_, argv) => {
	const { root, env: base } = oneQueued();
	const env = { ...base, XFER_LEASE: "1" };
	const first = await run([...argv, "read", "--take", "--as", "alice"], { env });
	expect(first).toMatchObject({ code: 0, err: "" });
	const second = await until(async () => {
		const taking = await run([...argv, "read", "--take", "--as", "alice"], { env });
		return taking.code === 0 ? taking : undefined;
	});
	expect(second.out).toContain(",A=1,L=");
	// Who is late now names a hand that is not the one that has it.
	const before = inboxOf(root);
	for (const as of [["read"], ["new"], ["failed", "why"]]) {
		const marking = await run([...argv, "mark", first.out.trimEnd(), ...as, "--as", "alice"], { env });
		expect(marking).toMatchObject({ code: 5, out: "", err: expect.stringMatching(/^xfer: .+\n$/) });
	}
	expect(inboxOf(root)).toEqual(before);
	expect(ls(root, "nodes/bob/new")).toEqual([]); // and nobody was told of a failure
	expect(await run([...argv, "mark", second.out.trimEnd(), "read", "--as", "alice"], { env })).toMatchObject({ code: 0 });
	fs.rmSync(path.join(root, "nodes/alice/cur", ls(root, "nodes/alice/cur")[0] as string)); // cleared away
	expect(await run([...argv, "mark", first.out.trimEnd(), "read", "--as", "alice"], { env })).toMatchObject({ code: 5, out: "" });
});

test("what a killed holder had in hand comes back at once when the Node is live again, with its count", async () => {
	const { env, at } = oneQueued();
	const holder = actor("taker.ts", { node: "alice", live: true, die: 10 } satisfies TakerOptions, env);
	expect(await holder.ended, holder.errors()).toBe("SIGKILL");
	expect(holder.lines.length).toBe(1);
	const node = at(0).node("alice");
	const live = await node.goLive();
	expect(node.inbox.list().items).toMatchObject([{ state: "queued", attempts: 1 }]);
	expect(node.inbox.take()).toMatchObject({ attempts: 1 });
	live.end();
});

test("a taker that outlives its lease is told so, and changes nothing", () => {
	const steps: ((taken: Taken) => void)[] = [
		(t) => t.done(),
		(t) => t.done(true),
		(t) => t.renew(),
		(t) => t.release(),
		(t) => t.fail("why"),
	];
	for (const step of steps) {
		const { root, at } = oneQueued();
		const late = at(0).node("alice").inbox.take() as Taken;
		const expectLost = () => {
			const before = inboxOf(root);
			expect(() => step(late)).toThrow(expect.objectContaining({ code: "ELOST" }));
			expect(inboxOf(root)).toEqual(before);
			expect(ls(root, "nodes/bob/new")).toEqual([]); // nobody is told of a failure
		};
		const other = at(601).node("alice").inbox.take() as Taken;
		expectLost(); // in another's hand
		other.release();
		expectLost(); // queued again
		const third = at(0).node("alice").inbox.take() as Taken;
		third.done();
		expectLost(); // read by another
	}
});

test("of two takers of one instance the late one does not end what the other has in hand", () => {
	const { root } = oneQueued();
	let time = Date.now();
	const { inbox } = openTree({ root, durable: false, clock: () => time }).node("alice");
	const late = inbox.take() as Taken;
	time += 601_000;
	const other = inbox.take() as Taken;
	expect(other.attempts).toBe(1);
	expect(() => late.done()).toThrow(expect.objectContaining({ code: "ELOST" }));
	other.done();
});

test("a taker that is late, or renews in time, ends what nobody else has taken", () => {
	const { root, at } = oneQueued();
	const taken = at(0).node("alice").inbox.take() as Taken;
	expect(at(599).node("alice").inbox.take()).toBeUndefined();
	taken.renew();
	expect(ls(root, "nodes/alice/cur").length).toBe(1);
	taken.done();
	expect(ls(root, "nodes/alice/cur")).toEqual([expect.stringMatching(/^[^,]+:2,S$/)]);
});

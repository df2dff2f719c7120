import { randomBytes } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { openTree } from "../../lib/index.ts";
import { cli, ls, run, sh, tempTree, until } from "../helpers.ts";
import { type Actor, actor } from "./actor.ts";
import type { TakerOptions } from "./taker.ts";

/** Fills alice's Inbox; the bytes of each file by its id. */
function fill(root: string, count: number): Map<string, Buffer> {
	const tree = openTree({ root, durable: false });
	const inbox = tree.join("alice").directory;
	const sent = new Map<string, Buffer>();
	for (let n = 0; n < count; n++) {
		const [outcome] = tree.send({ from: "bob", to: ["alice"], body: Buffer.concat([Buffer.from(`${n}\n`), randomBytes(n % 1024)]) });
		if (!outcome || outcome.error) throw outcome?.error;
		sent.set(outcome.id, fs.readFileSync(path.join(inbox, "new", outcome.id)));
	}
	return sent;
}

function idOf(file: string): string {
	return path.basename(file).replace(/[,:].*/s, "");
}

function words(takers: readonly Actor[], word: string): string[] {
	return takers.flatMap(({ lines }) => lines.filter((line) => line.startsWith(`${word} `)).map((line) => line.split(" ")[1] ?? ""));
}

/** Nothing is queued or in hand, each Handoff is read once, and its bytes are those that were sent. */
function expectAllRead(root: string, sent: Map<string, Buffer>, name: RegExp): void {
	const inbox = path.join(root, "nodes/alice");
	expect(ls(inbox, "new")).toEqual([]);
	expect(ls(inbox, "tmp")).toEqual([]);
	const files = ls(inbox, "cur");
	expect(files.map(idOf).sort()).toEqual([...sent.keys()].sort());
	expect(files.filter((file) => !name.test(file))).toEqual([]);
	expect(files.filter((file) => !sent.get(idOf(file))?.equals(fs.readFileSync(path.join(inbox, "cur", file))))).toEqual([]);
}

test("each of 2,000 Handoffs is taken by exactly one of 8 racing processes: library, CLI, dash and busybox", async () => {
	const { root, env } = tempTree();
	const sent = fill(root, 2000);
	const idByBytes = new Map([...sent].map(([id, bytes]) => [bytes.toString("latin1"), id]));
	const takers = [{}, {}, { next: true }, { next: true }].map((options) =>
		actor("taker.ts", { node: "alice", paced: true, ...options } satisfies TakerOptions, env),
	);
	for (const taker of takers) taker.tell(1);
	await until(() => takers.every(({ lines }) => lines.length > 0), "a first one by each of the library");

	const quota = 12;
	const counts = new Map<string, number>();
	/** The library is a hundred times as fast: it goes on when a slow one has got something, until each of them had enough. */
	const pace = (who: string) => {
		counts.set(who, (counts.get(who) ?? 0) + 1);
		const enough = counts.size === 4 && [...counts.values()].every((count) => count >= quota);
		for (const taker of takers) taker.tell(enough ? null : 4);
	};

	const byCommands: string[] = [];
	const takeAndMark = async (who: string, argv: string[]) => {
		for (;;) {
			const taking = await run([...argv, "read", "--take", "--as", "alice"], { env });
			if (taking.code === 3) return;
			expect(taking).toMatchObject({ code: 0, err: "" });
			const file = taking.out.trimEnd();
			byCommands.push(idOf(file));
			const marking = await run([...argv, "mark", file, "read", "--as", "alice"], { env });
			expect(marking).toMatchObject({ code: 0, err: "", out: `read\t${idOf(file)}\n` });
			pace(who);
		}
	};
	const read = async (who: string, argv: string[]) => {
		for (;;) {
			const reading = await run([...argv, "read", "--as", "alice"], { env });
			if (reading.code === 3) return;
			expect(reading).toMatchObject({ code: 0 });
			byCommands.push(idByBytes.get(reading.bytes.toString("latin1")) ?? "other bytes than were sent");
			pace(who);
		}
	};
	const ends = await Promise.all([
		takeAndMark("cli", cli),
		read("cli read", cli),
		takeAndMark("dash", sh("dash")),
		takeAndMark("busybox", sh("busybox")),
	]).then(() => {
		for (const taker of takers) taker.tell(0);
		return Promise.all(takers.map(({ ended }) => ended));
	});

	expect(ends, takers.map((taker) => taker.errors()).join("")).toEqual([0, 0, 0, 0]);
	expect([...counts.values()].every((count) => count >= quota)).toBe(true);
	const had = [...byCommands, ...words(takers, "done")];
	expect(had.length).toBe(2000);
	expect(had.sort()).toEqual([...sent.keys()].sort());
	expect(words(takers, "took").length).toBe(words(takers, "done").length);
	expectAllRead(root, sent, /^[^,:]+:2,S$/);
});

test("each of 1,000 leases that have ended is returned by exactly one of 8 who see it at the same time", async () => {
	const { root, env } = tempTree();
	const sent = fill(root, 1000);
	const before = openTree({ root, durable: false, clock: () => Date.now() - 3600_000 }).node("alice").inbox;
	for (const _ of sent) before.take();
	const inbox = path.join(root, "nodes/alice");
	expect(ls(inbox, "new")).toEqual([]);
	const all = Array.from({ length: 8 }, () => actor("taker.ts", { node: "alice", sweep: true } satisfies TakerOptions, env));
	await until(() => all.every(({ lines }) => lines.includes("ready")), "all of them");
	for (const one of all) one.tell(1);
	for (const one of all) expect(await one.ended, one.errors()).toBe(0);

	const returned = words(all, "returned").map(Number);
	expect(returned.reduce((sum, count) => sum + count)).toBe(1000);
	expect(ls(inbox, "cur")).toEqual([]);
	expect(ls(inbox, "new")).toEqual([...sent.keys()].sort().map((id) => `${id},A=1`));
	for (const [id, bytes] of sent) expect(fs.readFileSync(path.join(inbox, "new", `${id},A=1`)).equals(bytes), id).toBe(true);
});

test("nothing is lost, overwritten or emptied while leases of 1 s expire in the hands of takers that die or are late", async () => {
	const { root, env: base } = tempTree();
	const env = { ...base, XFER_LEASE: "1" };
	const sent = fill(root, 300);
	const inbox = path.join(root, "nodes/alice");
	const done: string[] = [];
	let late = 0;

	const finished = () => ls(inbox, "cur").filter((name) => name.endsWith(":2,S")).length === sent.size;

	/** Takes until all are read. One in five is forgotten, as if its taker had been killed; one in five is marked late. */
	const work = async (argv: string[]) => {
		while (!finished()) {
			const taking = await run([...argv, "read", "--take", "--as", "alice"], { env });
			if (taking.code === 3 || taking.code === 5) continue; // nothing, or so late that its lease had passed before it could be shown
			expect(taking).toMatchObject({ code: 0, err: "" });
			const lot = Math.random() * 5;
			if (lot < 1) continue;
			if (lot < 2) await new Promise((resolve) => setTimeout(resolve, 1000 + Math.random() * 2000));
			const file = taking.out.trimEnd();
			const marking = await run([...argv, "mark", file, "read", "--as", "alice"], { env });
			if (marking.code === 0) done.push(idOf(file));
			else {
				expect(marking).toMatchObject({ code: 5, out: "" });
				late++;
			}
		}
	};
	/** Starts takers anew as they die. */
	const takers: Actor[] = [];
	const workers = async () => {
		while (!finished()) {
			const options: TakerOptions = { node: "alice", lease: 1000, hands: 4, outlive: 3, die: 0.3, stay: true };
			const taker = actor("taker.ts", options, env);
			takers.push(taker);
			await until(() => finished() || taker.child.exitCode !== null || taker.child.signalCode !== null, "the last to be read", 240_000);
			taker.tell(0);
			expect([0, "SIGKILL"], taker.errors()).toContain(await taker.ended);
		}
	};
	const strange: string[] = [];
	const look = async () => {
		while (!finished()) {
			for (const dir of ["new", "cur"]) {
				for (const name of ls(inbox, dir)) {
					const size = fs.statSync(path.join(inbox, dir, name), { throwIfNoEntry: false })?.size;
					if (size !== undefined && size !== sent.get(idOf(name))?.length) strange.push(`${dir}/${name} has ${size} bytes`);
				}
			}
			await new Promise((resolve) => setTimeout(resolve, 20));
		}
	};
	await Promise.all([workers(), workers(), workers(), workers(), work(cli), work(cli), work(sh("dash")), work(sh("busybox")), look()]);

	expect(strange).toEqual([]);
	const all = [...done, ...words(takers, "done")];
	expect(all.length).toBe(sent.size);
	expect(all.sort()).toEqual([...sent.keys()].sort()); // marked once each, whoever was late
	expect(late + words(takers, "lost").length).toBeGreaterThan(0);
	expect(takers.length).toBeGreaterThan(4);
	expectAllRead(root, sent, /^[^,:]+(,A=\d+)?:2,S$/);
	expect(ls(inbox, "cur").filter((name) => name.includes(",A=")).length).toBeGreaterThan(0);
});

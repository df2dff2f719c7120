import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parse as parseYaml } from "yaml";
import type { ContextOptions } from "../lib/context.ts";
import { parseHeader } from "../lib/handoff.ts";
import { type Node, type Outcome, type Outgoing, openTree, replyTo, type Taken, type Tree } from "../lib/index.ts";
import { ls, onTestFinished, project, run, tempTree, until } from "./helpers.ts";

/** Every path in a directory, no symlink followed. */
function paths(dir: string): string[] {
	return fs.readdirSync(dir, { withFileTypes: true }).flatMap((entry) => {
		const file = path.join(dir, entry.name);
		return entry.isDirectory() ? [file, ...paths(file)] : [file];
	});
}

const start = Date.parse("2026-11-30T12:00:00Z");

/** A tree with the Node alice, whose clock is set by hand. */
class World {
	readonly home: string;
	readonly root: string;
	now = start;
	readonly tree: Tree;
	readonly alice: Node;

	constructor(options: ContextOptions = {}) {
		const { home, root } = tempTree();
		this.home = home;
		this.root = root;
		this.tree = openTree({ root, env: {}, durable: false, instance: "aaaaaaaa", clock: () => this.now, ...options });
		this.alice = this.tree.join("alice");
	}

	/** bob sends to alice. */
	send(more: Partial<Outgoing> = {}): Outcome[] {
		return this.tree.send({ from: "bob", to: ["alice"], body: "hi", ...more });
	}

	/** The same, when nothing should go wrong; the id. */
	id(more: Partial<Outgoing> = {}): string {
		const [outcome] = this.send(more);
		if (!outcome || outcome.error) throw outcome?.error;
		return outcome.id;
	}

	/** The only Handoff that waits for a Node, as bytes. */
	file(node = this.alice): Buffer {
		const [name, ...more] = ls(node.directory, "new");
		expect(more).toEqual([]);
		return fs.readFileSync(`${node.directory}/new/${name}`);
	}

	states(node = this.alice): Record<string, string> {
		return Object.fromEntries(node.inbox.list({ states: () => true }).items.map(({ id, state }) => [id, state]));
	}

	/** Every path under the HOME that the tree is in. */
	paths(): string[] {
		return paths(this.home);
	}
}

function code(act: () => unknown): string | undefined {
	try {
		act();
	} catch (error) {
		return (error as { code?: string }).code;
	}
	return undefined;
}

const fieldsOf = (bytes: Buffer) => Object.fromEntries(parseHeader(bytes).fields);
const bodyOf = (bytes: Buffer) => bytes.subarray(parseHeader(bytes).body);

describe("what is sent", () => {
	test("is one file in new/, with a header that says who, to whom, what and when, and the body", () => {
		const world = new World();
		const id = world.id({ body: "Look at it.", subject: "Fix the widget" });
		expect(id).toMatch(/^1796040000\.M000000R[0-9a-hjkmnp-tv-z]{8}\./);
		expect(ls(world.alice.directory, "new")).toEqual([id]);
		expect(ls(world.alice.directory, "tmp")).toEqual([]);
		expect(world.file().toString()).toBe(
			"---\nfrom: bob\nto: alice\nkind: task\nsubject: Fix the widget\ndate: 2026-11-30T12:00:00.000Z\ninstance: aaaaaaaa\n---\nLook at it.",
		);
	});

	test("says all that was given, and nothing of what was not", () => {
		const world = new World();
		const all = {
			kind: "question",
			subject: "s",
			re: "1.a",
			thread: "2.b",
			priority: "urgent",
			key: "k",
			cwd: "/home/x y",
			repo: "r",
			branch: "b",
			commit: "0123abc",
		} as const;
		world.id({ ...all, hops: 3, expires: start + 1500 });
		expect(fieldsOf(world.file())).toEqual({
			...all,
			from: "bob",
			to: "alice",
			hops: "3",
			date: "2026-11-30T12:00:00.000Z",
			expires: "2026-11-30T12:00:01.500Z",
			instance: "aaaaaaaa",
		});
		const none = new World();
		none.id({ subject: undefined, key: undefined, hops: 0 });
		expect(Object.keys(fieldsOf(none.file()))).toEqual(["from", "to", "kind", "date", "instance"]);
	});

	test("reads back as it was given, whatever the text, with our reader and as YAML", () => {
		const text = fc.oneof(
			fc.string({ unit: "binary" }),
			fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 10 }).map((units) => String.fromCharCode(...units)),
			fc.constantFrom(
				"no",
				"1e3",
				"0x10",
				"e7",
				"2026-11-30",
				"a: b",
				"a #b",
				'"x"',
				"'tis",
				"[b] c",
				"*d*",
				"\\$&",
				"\x1b[2J",
				"\u202e",
				"😀",
				"\ud800",
			),
		);
		const keys = ["subject", "key", "re", "thread", "cwd", "repo", "branch", "commit", "kind"] as const;
		const world = new World();
		fc.assert(
			fc.property(fc.dictionary(fc.constantFrom(...keys), text), fc.uint8Array({ minLength: 1 }), (given, body) => {
				const bytes = Buffer.from(body);
				const id = world.id({ ...given, body: bytes });
				const file = world.file();
				fs.rmSync(`${world.alice.directory}/new/${id}`);
				const expected = Object.fromEntries(
					Object.entries(given).flatMap(([key, value]) => {
						// a subject is one line
						const line =
							key === "subject"
								? value
										.split(/[\r\n]+/)
										.map((part) => part.trim())
										.join(" ")
										.trim()
								: value;
						return line ? [[key, line.toWellFormed()]] : [];
					}),
				);
				const common = {
					from: "bob",
					to: "alice",
					date: "2026-11-30T12:00:00.000Z",
					instance: "aaaaaaaa",
					...("kind" in given ? {} : { kind: "task" }),
				};
				expect(fieldsOf(file)).toEqual({ ...common, ...expected });
				expect(parseHeader(file).warnings).toEqual([]);
				expect(bodyOf(file).equals(bytes)).toBe(true);
				const yaml = file.subarray(4, parseHeader(file).body - 4).toString();
				expect(parseYaml(yaml)).toEqual({ ...common, ...expected });
				expect(parseYaml(yaml, { version: "1.1" })).toEqual({ ...common, ...expected, date: new Date(start) });
			}),
			{ numRuns: 300 },
		);
	});

	test("has a subject of one line, in time linear in its length", () => {
		const world = new World();
		world.id({ subject: " one\r\n\r\n  two\nthree " });
		expect(fieldsOf(world.file()).subject).toBe("one two three");
		// Quadratic time would take minutes for the first of these, and is cut off by the test's limit.
		expect(code(() => world.send({ subject: `a${" ".repeat(2_000_000)}b` }))).toBe("ESIZE");
		expect(code(() => world.send({ subject: `a${"\n ".repeat(1_000_000)}b` }))).not.toBe("EINPUT");
	});

	test("goes to each of several in a file of its own, which names them all", () => {
		const world = new World();
		const carol = world.tree.join("carol");
		const outcomes = world.send({ to: ["carol", "alice"], body: "both" });
		expect(outcomes).toMatchObject([
			{ to: "carol", durability: "none" },
			{ to: "alice", durability: "none" },
		]);
		const ids = outcomes.map((outcome) => ("id" in outcome ? outcome.id : ""));
		expect(new Set(ids).size).toBe(2);
		expect([ls(carol.directory, "new"), ls(world.alice.directory, "new")]).toEqual([[ids[0]], [ids[1]]]);
		for (const node of [carol, world.alice]) expect(fieldsOf(world.file(node)).to).toEqual(["carol", "alice"]);
	});

	test("goes once to a Node that was named twice, in whatever case and by whichever name", () => {
		const world = new World();
		world.alice.alias("al");
		expect(world.send({ to: ["alice", "Alice", "al", "ALICE"] })).toMatchObject([{ to: "alice" }]);
		expect(fieldsOf(world.file()).to).toBe("alice");
	});

	test("may go to oneself", () => {
		const world = new World();
		world.tree.send({ from: "alice", to: ["alice"], body: "remember" });
		expect(fieldsOf(world.file())).toMatchObject({ from: "alice", to: "alice" });
	});

	test("has different ids while the clock stands still, and they sort as they were sent", () => {
		const world = new World();
		const ids = Array.from({ length: 4 }, () => {
			world.now += 1;
			return Array.from({ length: 100 }, () => world.id());
		}).flat();
		expect(new Set(ids).size).toBe(400);
		expect(ls(world.alice.directory, "new")).toEqual(ids);
	});

	test("overwrites nothing when the clock goes backwards", () => {
		const world = new World();
		const sent = Array.from({ length: 200 }, (_, n) => {
			world.now += n % 3 ? -1 : 1;
			return [world.id({ body: `body ${n}` }), `body ${n}`];
		});
		expect(ls(world.alice.directory, "new")).toHaveLength(200);
		for (const [id, body] of sent) expect(bodyOf(fs.readFileSync(`${world.alice.directory}/new/${id}`)).toString()).toBe(body);
	});

	test("leaves a pointer in the sender's sent/, relative, that leads to the Node", () => {
		const world = new World();
		const id = world.id();
		const pointer = `${world.root}/nodes/bob/sent/${id}`;
		expect(fs.readlinkSync(pointer)).toBe("../../alice");
		expect(fs.realpathSync(pointer)).toBe(fs.realpathSync(world.alice.directory));
	});

	test("is delivered also when no pointer can be made", () => {
		const world = new World();
		const bob = world.tree.join("bob");
		fs.rmdirSync(`${bob.directory}/sent`);
		fs.writeFileSync(`${bob.directory}/sent`, "in the way");
		const id = world.id();
		expect(ls(world.alice.directory, "new")).toEqual([id]);
	});

	test("makes sent/ when the sender's Node lacks it", () => {
		const world = new World();
		fs.rmdirSync(`${world.tree.join("bob").directory}/sent`);
		const id = world.id();
		expect(ls(world.root, "nodes/bob/sent")).toEqual([id]);
	});
});

describe("a sender", () => {
	test("who is no Node becomes one, so that it can be answered: a derived one", () => {
		const world = new World();
		world.id();
		expect(ls(world.root, "nodes")).toEqual(["alice", "bob"]);
		const bob = world.tree.node("bob");
		expect(ls(bob.directory)).toEqual(["cur", "new", "node.md", "sent", "tmp"]);
		expect(bob.presence()).toMatchObject({ name: "bob", derived: "true" });
	});

	test("is folded to lower case, and refused when that is no name", () => {
		const world = new World();
		world.id({ from: "Bob" });
		expect(fieldsOf(world.file()).from).toBe("bob");
		const before = world.paths();
		for (const from of ["", "../x", "a/b", "a\0b", "-x", "x".repeat(300), "all", "unknown", "bob@box"])
			expect(code(() => world.send({ from }))).toBe("ENAME");
		expect(world.paths()).toEqual(before);
	});

	test("that exists stays as it is", () => {
		const world = new World();
		world.tree.join("bob", { about: "the build" });
		const before = fs.readFileSync(`${world.root}/nodes/bob/node.md`);
		world.id();
		expect(fs.readFileSync(`${world.root}/nodes/bob/node.md`).equals(before)).toBe(true);
	});
});

describe("what can't be sent makes nothing", () => {
	test.each(["carol", "alcie", "../alice", "a/b", "a\0b", "-x", "x".repeat(300), "", ".", "alice@box", "unknown", "nodes/alice", "*"])(
		"to %j",
		(to) => {
			const world = new World();
			const before = world.paths();
			expect(code(() => world.send({ to: [to] }))).toMatch(/^(ENODE|ENAME)$/);
			expect(world.paths()).toEqual(before);
		},
	);

	test("says who may have been meant, and how to make the Node", () => {
		const world = new World();
		expect(() => world.send({ to: ["alcie"] })).toThrow(
			expect.objectContaining({ code: "ENODE", cure: expect.stringMatching(/alice.*xfer join alcie/) }),
		);
	});

	test("to NAME@HOST: a tree is one machine's", () => {
		const world = new World();
		expect(() => world.send({ to: ["alice@box"] })).toThrow(expect.objectContaining({ cure: expect.stringContaining("one machine") }));
	});

	test("an empty body, an empty list of recipients", () => {
		const world = new World();
		const before = world.paths();
		expect(code(() => world.send({ body: "" }))).toBe("EINPUT");
		expect(code(() => world.send({ body: Buffer.alloc(0) }))).toBe("EINPUT");
		expect(code(() => world.send({ to: [] }))).toBe("ENODE");
		expect(world.paths()).toEqual(before);
	});

	test("a body over the limit, naming both numbers; one at the limit is sent", () => {
		const world = new World({ maxBytes: 1000 });
		world.id({ body: "x".repeat(1000) });
		const before = world.paths();
		expect(() => world.send({ body: "x".repeat(1001) })).toThrow(
			expect.objectContaining({ code: "ESIZE", message: expect.stringMatching(/1001.*1000/) }),
		);
		expect(code(() => world.send({ body: "é".repeat(501) }))).toBe("ESIZE");
		expect(world.paths()).toEqual(before);
	});

	test("a body over XFER_MAX_BYTES, or over 1 MiB without it", () => {
		const { root } = tempTree();
		const small = openTree({ root, env: { XFER_MAX_BYTES: "10" }, durable: false });
		const normal = openTree({ root, env: { XFER_MAX_BYTES: "" }, durable: false });
		const alice = small.join("alice");
		const send = (tree: Tree, size: number) => code(() => tree.send({ from: "bob", to: ["alice"], body: Buffer.alloc(size, 1) }));
		expect([send(small, 10), send(small, 11)]).toEqual([undefined, "ESIZE"]);
		expect([send(normal, 1024 * 1024), send(normal, 1024 * 1024 + 1)]).toEqual([undefined, "ESIZE"]);
		expect(ls(alice.directory, "new")).toHaveLength(2);
		for (const bad of ["x", "-1", "1e6", "10k"]) expect(code(() => openTree({ root, env: { XFER_MAX_BYTES: bad } }))).toBe("EINPUT");
	});

	test("a header over 65,536 bytes; one at the limit is sent and read", () => {
		const world = new World();
		world.id({ subject: "x" });
		const rest = parseHeader(world.file()).body - 1;
		world.alice.inbox.take()?.done();
		const id = world.id({ subject: "x".repeat(65_536 - rest) });
		expect(world.alice.inbox.list().items).toMatchObject([{ id, header: { body: 65_536, warnings: [] }, size: 2 }]);
		const before = world.paths();
		expect(() => world.send({ subject: "x".repeat(65_537 - rest) })).toThrow(
			expect.objectContaining({ code: "ESIZE", message: expect.stringMatching(/65537.*65536/) }),
		);
		expect(world.paths()).toEqual(before);
	});

	test("to several of whom none is known: each has its error", () => {
		const world = new World();
		const before = world.paths();
		expect(world.send({ to: ["carol", "../x"] })).toMatchObject([
			{ to: "carol", error: { code: "ENODE" } },
			{ to: "../x", error: { code: "ENAME" } },
		]);
		expect(world.paths()).toEqual(before);
	});
});

describe("of several recipients", () => {
	test("those who are known get it, named alone in it, and the others have their errors", () => {
		const world = new World();
		const outcomes = world.send({ to: ["carol", "alice", "a/b"] });
		expect(outcomes).toMatchObject([
			{ to: "carol", error: { code: "ENODE" } },
			{ to: "alice", durability: "none" },
			{ to: "a/b", error: { code: "ENAME" } },
		]);
		expect(fieldsOf(world.file()).to).toBe("alice");
		expect(ls(world.root, "nodes")).toEqual(["alice", "bob"]);
	});

	test("one whose Inbox is broken hinders no other, and what was delivered stays", () => {
		const world = new World();
		const [broken, carol] = [world.tree.join("broken"), world.tree.join("carol")];
		fs.rmdirSync(`${broken.directory}/tmp`);
		fs.writeFileSync(`${broken.directory}/tmp`, "in the way");
		const outcomes = world.send({ to: ["alice", "broken", "carol"] });
		expect(outcomes.map(({ error }) => error?.message.slice(0, 7))).toEqual([undefined, "ENOTDIR", undefined]);
		for (const node of [world.alice, carol]) expect(bodyOf(world.file(node)).toString()).toBe("hi");
		expect(ls(world.root, "nodes/bob/sent")).toHaveLength(2);
	});
});

describe("@all", () => {
	async function live(world: World, ...names: string[]): Promise<void> {
		for (const name of names) {
			const tree = openTree({ root: world.root, env: {}, durable: false });
			const one = await tree.join(name).goLive();
			onTestFinished(() => one.end());
		}
	}

	test("is every live Node but the sender, and a note", async () => {
		const world = new World();
		world.tree.join("away");
		await live(world, "bob", "carol", "dan");
		world.tree.node("bob").alias("bobby");
		expect(world.send({ from: "bobby", to: ["@all"] })).toMatchObject([{ to: "carol" }, { to: "dan" }]);
		expect(fieldsOf(world.file(world.tree.node("dan")))).toMatchObject({ kind: "note", to: ["carol", "dan"] });
		for (const name of ["alice", "away", "bob"]) expect(ls(world.root, "nodes", name, "new")).toEqual([]);
	});

	test("may stand beside names, and nobody gets it twice", async () => {
		const world = new World();
		await live(world, "carol");
		expect(world.send({ to: ["carol", "@all", "alice"] })).toMatchObject([{ to: "carol" }, { to: "alice" }]);
	});

	test("takes no other Kind, and says so when nobody is live", async () => {
		const world = new World();
		const before = world.paths();
		expect(code(() => world.send({ to: ["@all"] }))).toBe("ENODE");
		expect(code(() => world.send({ to: ["@all"], kind: "task" }))).toBe("EINPUT");
		expect(world.paths()).toEqual(before);
		await live(world, "carol");
		expect(code(() => world.send({ to: ["@all"], kind: "task" }))).toBe("EINPUT");
		expect(world.send({ to: ["@all"], kind: "note" })).toHaveLength(1);
	});
});

describe("a chosen id", () => {
	test("is delivered once, however often it is sent, also later and by another instance", () => {
		const world = new World();
		const again = openTree({ root: world.root, env: {}, durable: false, instance: "bbbbbbbb", clock: () => start + 3_600_000 });
		expect(world.send({ id: "nightly" })).toMatchObject([{ id: "nightly", durability: "none" }]);
		world.now += 1000;
		expect(world.send({ id: "nightly" })).toMatchObject([{ id: "nightly", durability: "again" }]);
		expect(again.send({ from: "bob", to: ["alice"], body: "hi", id: "nightly" })).toMatchObject([{ id: "nightly", durability: "again" }]);
		const one = world.alice.inbox.take() as Taken;
		expect(world.send({ id: "nightly" })).toMatchObject([{ durability: "again" }]);
		one.done();
		expect(world.send({ id: "nightly" })).toMatchObject([{ durability: "again" }]);
		expect(world.states()).toEqual({ nightly: "read" });
		expect(ls(world.root, "nodes/bob/sent")).toEqual(["nightly"]);
	});

	test("with other bytes is refused, and the first stays", () => {
		const world = new World();
		world.id({ id: "nightly", body: "first" });
		expect(world.send({ id: "nightly", body: "second" })).toMatchObject([{ to: "alice", error: { code: "EINPUT" } }]);
		expect(bodyOf(world.file()).toString()).toBe("first");
	});

	test.each(["", ".hidden", "a/b", "../a", "a:2,S", "a,A=1", "a;b", "a\0", "a".repeat(181), `a${"é".repeat(90)}`])(
		"%j is refused, and makes nothing",
		(id) => {
			const world = new World();
			const before = world.paths();
			expect(code(() => world.send({ id }))).toBe("EINPUT");
			expect(world.paths()).toEqual(before);
		},
	);

	test("is for one recipient", () => {
		const world = new World();
		world.tree.join("carol");
		expect(code(() => world.send({ id: "nightly", to: ["alice", "carol"] }))).toBe("EINPUT");
	});

	test("goes with no key: both say what is the same", () => {
		const world = new World();
		const before = world.paths();
		expect(code(() => world.send({ id: "nightly", key: "k" }))).toBe("EINPUT");
		expect(world.paths()).toEqual(before);
	});

	test("may be as long as 180 bytes, and is taken and ended as others", () => {
		const world = new World();
		for (const id of ["x".repeat(180), "é".repeat(90), "a b", "nightly 2026"]) {
			world.id({ id });
			world.alice.inbox.take()?.release();
			world.alice.inbox.take()?.fail("no");
			expect(world.states()[id]).toBe("failed");
		}
	});
});

describe("a key", () => {
	test("replaces the unread older one of the same sender with the same key, and no other", () => {
		const world = new World();
		const old = world.id({ key: "k" });
		const others = [world.id({ key: "other" }), world.id({ from: "carol", key: "k" }), world.id()];
		const next = world.id({ key: "k" });
		expect(world.states()).toEqual({ [old]: "replaced", [next]: "queued", ...Object.fromEntries(others.map((id) => [id, "queued"])) });
		expect(ls(world.alice.directory, "cur")).toEqual([`${old},E=replaced:2,T`]);
	});

	test("leaves alone what somebody has in hand or has read", () => {
		const world = new World();
		const read = world.id({ key: "k" });
		world.alice.inbox.take()?.done();
		const inHand = world.id({ key: "k" });
		const one = world.alice.inbox.take() as Taken;
		const next = world.id({ key: "k" });
		expect(world.states()).toEqual({ [read]: "read", [inHand]: "taken", [next]: "queued" });
		one.done();
		expect(world.states()).toEqual({ [read]: "read", [inHand]: "read", [next]: "queued" });
	});

	test("replaces what a mail reader left unread in cur/ too", () => {
		const world = new World();
		const old = world.id({ key: "k" });
		fs.renameSync(`${world.alice.directory}/new/${old}`, `${world.alice.directory}/cur/${old}:2,P`);
		const next = world.id({ key: "k" });
		expect(world.states()).toEqual({ [old]: "replaced", [next]: "queued" });
		expect(ls(world.alice.directory, "cur")).toEqual([`${old},E=replaced:2,PT`]);
	});

	test("is any text", () => {
		const world = new World();
		for (const key of ["a b", '"k"', "k: #1", "\ud800", "😀", " k ", "null"]) {
			const [old, next] = [world.id({ key }), world.id({ key })];
			expect(world.states()).toMatchObject({ [old]: "replaced", [next]: "queued" });
		}
		const [first, second] = [world.id({ key: "" }), world.id({ key: "" })];
		expect(world.states()).toMatchObject({ [first]: "queued", [second]: "queued" });
	});

	test("replaces the older one also when the clock went back between the two, or another's was ahead", () => {
		const world = new World();
		const first = world.id({ key: "k" });
		world.now -= 3_600_000;
		const [second, third] = [world.id({ key: "k" }), world.id({ key: "k" })];
		expect(world.states()).toEqual({ [first]: "replaced", [second]: "replaced", [third]: "queued" });
		expect([first, second, third]).toEqual([first, second, third].toSorted());
		expect(third).toMatch(/^\d{10}\.M\d{6}R[0-9a-hjkmnp-tv-z]{8}\./);
		expect(world.alice.inbox.take()?.handoff).toMatchObject({ id: third, date: world.now });
		expect(world.alice.inbox.take()).toBeUndefined();
	});

	test("of many senders at once leaves exactly one, also while others take: the newest, never none", async () => {
		const world = new World();
		const script = `
			import fs from "node:fs";
			import { openTree } from ${JSON.stringify(path.join(project, "lib/index.ts"))};
			const tree = openTree({ root: ${JSON.stringify(world.root)}, env: {}, durable: false });
			const wait = (file) => { while (!fs.existsSync(file)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1); };
			for (const name of ["carol", "alice"]) {
				fs.writeFileSync(${JSON.stringify(world.root)} + "/ready-" + name + process.pid, "");
				wait(${JSON.stringify(world.root)} + "/go-" + name);
				for (let n = 0; n < 10; n++) tree.send({ from: "bob", to: [name], body: "b" + n, key: "k" });
			}`;
		const carol = world.tree.join("carol");
		world.tree.join("bob");
		const children = Array.from({ length: 4 }, () =>
			run([process.execPath, "--input-type=module", "-e", script], { env: { PATH: process.env.PATH } }),
		);
		const ready = (name: string) => until(() => ls(world.root).filter((file) => file.startsWith(`ready-${name}`)).length === 4);
		await ready("carol");
		fs.writeFileSync(`${world.root}/go-carol`, "");
		await ready("alice");
		// nobody took meanwhile: the newest is queued; an older one that was published later waits to be found by a taker
		const newest = Object.keys(world.states(carol)).sort().at(-1);
		expect(Object.keys(world.states(carol))).toHaveLength(40);
		expect(carol.inbox.take()?.handoff.id).toBe(newest);
		expect(carol.inbox.take()).toBeUndefined();
		expect(Object.values(world.states(carol)).sort()).toEqual([...Array(39).fill("replaced"), "taken"]);
		// and while others take
		fs.writeFileSync(`${world.root}/go-alice`, "");
		const ended = Promise.all(children).then((results) => results.map(({ code: exit, err }) => [exit, err]));
		let running = true;
		void ended.then(() => {
			running = false;
		});
		const rival = openTree({ root: world.root, env: {}, durable: false }).node("alice").inbox;
		while (running) {
			world.alice.inbox.take()?.done();
			rival.take()?.done();
			await new Promise((resolve) => setImmediate(resolve));
		}
		expect(await ended).toEqual(children.map(() => [0, ""]));
		const left = openTree({ root: world.root, env: {}, durable: false }).node("alice").inbox;
		for (let one = left.take(); one; one = left.take()) one.done();
		const states = world.states();
		expect(Object.keys(states)).toHaveLength(40);
		expect(states[Object.keys(states).sort().at(-1) ?? ""]).toBe("read");
		expect(new Set(Object.values(states))).toEqual(new Set(Object.values(states).includes("replaced") ? ["read", "replaced"] : ["read"]));
	});
});

describe("what was sent", () => {
	test("stands where it lies: from queued to read, by its own tree's words", () => {
		const world = new World();
		const id = world.id();
		const { sent } = world.tree.node("bob");
		const state = () => sent.standings([id])[0]?.state;
		expect(sent.standings([id])).toMatchObject([
			{ id, to: "alice", state: "queued", handoff: { from: "bob" }, changed: expect.any(Number) },
		]);
		const one = world.alice.inbox.take() as Taken;
		expect(state()).toBe("taken");
		one.release();
		expect(state()).toBe("queued");
		world.alice.inbox.take()?.fail("no");
		expect(state()).toBe("failed");
		world.alice.inbox.mark(world.alice.inbox.maildir.find(id), "answered");
		expect(state()).toBe("answered");
		fs.rmSync(world.alice.inbox.maildir.file(world.alice.inbox.maildir.find(id)));
		expect(sent.standings([id])).toEqual([{ id, to: "alice", state: "gone", handoff: undefined, changed: undefined }]);
	});

	test("is listed newest first, and found by a piece of its id", () => {
		const world = new World();
		const ids = [world.id(), world.id(), world.id()];
		const { sent } = world.tree.node("bob");
		expect(sent.ids()).toEqual(ids.toReversed());
		expect(sent.find(ids[1] ?? "")).toBe(ids[1]);
		expect(code(() => sent.find("zzzzzzzz"))).toBe("EHANDOFF");
		expect(code(() => sent.find("../../alice"))).toBe("EHANDOFF");
		expect(world.alice.sent.ids()).toEqual([]);
	});

	test("is gone when the Node that it went to is", () => {
		const world = new World();
		const id = world.id();
		fs.rmSync(world.alice.directory, { recursive: true });
		const { sent } = world.tree.node("bob");
		expect(sent.standings([id])).toMatchObject([{ state: "gone", to: "alice" }]);
		expect(code(() => sent.recall(id))).toBe("EHANDOFF");
	});

	test("may be pointed to by a file where there are no symlinks; what is no pointer is passed over", () => {
		const world = new World();
		const id = world.id();
		const { sent, directory } = world.tree.node("bob");
		fs.rmSync(`${directory}/sent/${id}`);
		fs.writeFileSync(`${directory}/sent/${id}`, "../../alice\n");
		fs.writeFileSync(`${directory}/sent/1.text`, "hello");
		fs.writeFileSync(`${directory}/sent/1.large`, "");
		fs.truncateSync(`${directory}/sent/1.large`, 2 ** 31);
		fs.symlinkSync("../../../../etc", `${directory}/sent/1.away`);
		fs.symlinkSync("/etc", `${directory}/sent/1.absolute`);
		fs.symlinkSync("../../../alice", `${directory}/sent/1.up`);
		fs.mkdirSync(`${directory}/sent/1.dir`);
		execFileSync("mkfifo", [`${directory}/sent/1.fifo`]);
		expect(sent.standings(sent.ids())).toMatchObject([{ id, to: "alice", state: "queued" }]);
	});

	test("is taken back as long as nobody took it: recalled", () => {
		const world = new World();
		const id = world.id();
		const { sent } = world.tree.node("bob");
		expect(sent.recall(id)).toMatchObject({ id, to: "alice", state: "recalled" });
		expect(ls(world.alice.directory, "cur")).toEqual([`${id},E=recalled:2,T`]);
		expect(world.alice.inbox.take()).toBeUndefined();
	});

	test("can't be taken back by then: it was taken, read, failed or gone, and nothing changes; recalling twice is recalling once", () => {
		const world = new World();
		const { sent } = world.tree.join("bob");
		const taken = world.id();
		world.alice.inbox.take();
		const read = world.id();
		world.alice.inbox.take()?.done();
		const failed = world.id();
		world.alice.inbox.take()?.fail("no");
		const recalled = world.id();
		sent.recall(recalled);
		const before = world.paths();
		for (const id of [taken, read, failed]) expect(code(() => sent.recall(id))).toBe("EHELD");
		expect(sent.recall(recalled).state).toBe("recalled");
		expect(world.paths()).toEqual(before);
		const gone = world.id();
		fs.rmSync(`${world.alice.directory}/new/${gone}`);
		expect(code(() => sent.recall(gone))).toBe("EHANDOFF");
		expect(code(() => sent.recall("never"))).toBe("EHANDOFF");
	});

	test("is taken back though its count stands in its name, or a mail reader moved it unread", () => {
		const world = new World();
		const { sent } = world.tree.join("bob");
		const returned = world.id();
		world.alice.inbox.take()?.release();
		expect(sent.recall(returned).state).toBe("recalled");
		const moved = world.id();
		fs.renameSync(`${world.alice.directory}/new/${moved}`, `${world.alice.directory}/cur/${moved}:2,`);
		expect(sent.recall(moved).state).toBe("recalled");
	});
});

describe("a reply", () => {
	const original = (more: Partial<Outgoing> = {}) => {
		const world = new World();
		const id = world.id(more);
		const [item] = world.alice.inbox.list().items;
		if (!item) throw new Error("nothing was delivered");
		return { item, id };
	};

	test("goes to the sender, says what it answers, and keeps the thread", () => {
		const { item, id } = original();
		expect(replyTo(item, false, "", false)).toEqual({ to: ["bob"], kind: "answer", re: id, thread: id, hops: undefined });
		expect(replyTo(original({ thread: "t" }).item, false, "", false).thread).toBe("t");
	});

	test("to an answer or a report is a note, and goes to the recipient of what oneself sent", () => {
		for (const kind of ["answer", "report"]) expect(replyTo(original({ kind }).item, false, "", false).kind).toBe("note");
		for (const kind of ["task", "question", "note", "riddle"])
			expect(replyTo(original({ kind }).item, false, "", false).kind).toBe("answer");
		expect(replyTo(original().item, true, "carol", false).to).toEqual(["carol"]);
	});

	test("carries one hop more when its sender is live, else none", () => {
		expect(replyTo(original({ hops: 4 }).item, false, "", true).hops).toBe(5);
		expect(replyTo(original().item, false, "", true).hops).toBe(1);
		expect(replyTo(original({ hops: 4 }).item, false, "", false).hops).toBeUndefined();
	});
});

import { execFileSync } from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import path from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { ContextOptions } from "../lib/context.ts";
import { type Inbox, type Node, type Outgoing, openTree, type Taken, type Tree, XferError } from "../lib/index.ts";
import { ls, onTestFinished, project, run, tempDir, tempTree, until } from "./helpers.ts";

/** A tree whose clock is set by hand, with the Nodes alice and bob. Its Inboxes list anew at each take. */
class World {
	readonly root = tempTree().root;
	now = Date.parse("2026-11-30T12:00:00Z");
	#monotonic = 0;
	readonly #options: ContextOptions;
	readonly tree: Tree;
	readonly alice: Node;
	readonly bob: Node;

	constructor(options: ContextOptions = {}) {
		this.#options = options;
		this.tree = this.as("aaaaaaaa");
		this.alice = this.tree.join("alice");
		this.bob = this.tree.join("bob");
	}

	/** The tree as another instance sees it. */
	as(instance: string): Tree {
		this.#monotonic += 10_000;
		return openTree({
			root: this.root,
			env: {},
			durable: false,
			instance,
			clock: () => this.now,
			monotonic: () => {
				this.#monotonic += 10_000;
				return this.#monotonic;
			},
			...this.#options,
		});
	}

	get inbox(): Inbox {
		return this.alice.inbox;
	}

	/** bob sends to alice; the id. */
	send(body: Outgoing["body"] = "hi", more: Partial<Outgoing> = {}): string {
		const [outcome] = this.tree.send({ from: "bob", to: ["alice"], body, ...more });
		if (!outcome || outcome.error) throw outcome?.error;
		return outcome.id;
	}

	/** A file as somebody else leaves it. */
	put(file: string, bytes: string | Uint8Array = "put\n"): void {
		fs.writeFileSync(`${this.alice.directory}/${file}`, bytes, { mode: 0o600 });
	}

	files(node = this.alice): string[] {
		return ["new", "cur"].flatMap((dir) => ls(node.directory, dir).map((name) => `${dir}/${name}`));
	}

	/** State by id of all that is in alice's Inbox. */
	states(): Record<string, string> {
		return Object.fromEntries(this.inbox.list({ states: () => true }).items.map(({ id, state }) => [id, state]));
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

function taken(inbox: Inbox): Taken {
	const one = inbox.take();
	if (!one) throw new Error("there is nothing to take");
	return one;
}

function end(one: Taken, method: "done" | "release" | "renew" | "fail"): void {
	if (method === "fail") one.fail("no");
	else one[method]();
}

/**
 * Runs code as an account that modes bind, on a tree of its own, and returns what it prints as JSON.
 * The code sees `fs`, `tree`, and `alice`.
 */
async function bound(source: string): Promise<unknown> {
	const root = path.join(tempDir(), "tree");
	fs.chmodSync(path.dirname(root), 0o777);
	const script = `
		import fs from "node:fs";
		import { openTree } from ${JSON.stringify(path.join(project, "lib/index.ts"))};
		if (process.getuid() === 0) { process.setgroups([]); process.setgid(65534); process.setuid(65534); }
		const tree = openTree({ root: ${JSON.stringify(root)}, env: {}, durable: false });
		const alice = tree.join("alice");
		tree.join("bob");
		const attempt = (act) => { try { return act(); } catch (error) { return error.code; } };
		${source}`;
	const { code: exit, out, err } = await run([process.execPath, "--input-type=module", "-e", script], { env: { PATH: process.env.PATH } });
	expect([exit, err]).toEqual([0, ""]);
	return JSON.parse(out);
}

const minute = 60_000;

describe("taking", () => {
	test("gives the oldest queued one, in this instance's hand until the lease ends", () => {
		const world = new World();
		const [first, second] = [world.send("one"), world.send("two")];
		const one = taken(world.inbox);
		expect(one.handoff).toMatchObject({ id: first, from: "bob", to: ["alice"], kind: "task", subject: "one" });
		expect(one.body.toString()).toBe("one");
		expect(one.attempts).toBe(0);
		expect(world.files()).toEqual([`new/${second}`, `cur/${first},L=${world.now / 1000 + 600}.aaaaaaaa:2,`]);
		expect(one.file).toBe(`${world.alice.directory}/${world.files()[1]}`);
		expect(taken(world.inbox).handoff.id).toBe(second);
		expect(world.inbox.take()).toBeUndefined();
	});

	test.each([
		["empty lines", "\n\n\n"],
		["CRLF", "a\r\nb\r\n"],
		["no last newline", "a\nb"],
		["a NUL", "a\0b"],
		["invalid UTF-8", Buffer.from([0xff, 0xc3, 0x28, 0xed, 0xa0, 0x80])],
		["a byte order mark", "\ufeffhi"],
		["a fence first", "---\nfrom: evil\n---\n"],
		["a fence at the end", "hi\n---"],
		["one blank", " "],
		["every byte", Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))],
		["1 MiB", Buffer.alloc(1024 * 1024, "0123456789\n")],
	])("gives the bytes that were sent: %s", (_name, body) => {
		const world = new World();
		const id = world.send(body);
		const bytes = Buffer.from(body as string);
		expect(world.inbox.list().items[0]).toMatchObject({ id, size: bytes.length, header: { warnings: [] } });
		const one = taken(world.inbox);
		expect(one.body.equals(bytes)).toBe(true);
		expect(fs.readFileSync(one.file).subarray(one.handoff.header.body).equals(bytes)).toBe(true);
	});

	test("gives any regular file, with or without a header", () => {
		const world = new World();
		world.put("new/1.a", "just text\n");
		world.put("new/2.b", "");
		world.put("new/hello", "---\nfrom: carol\n---\nbody");
		const [text, empty, named] = [taken(world.inbox), taken(world.inbox), taken(world.inbox)];
		expect(text.handoff).toMatchObject({ id: "1.a", from: "unknown", kind: "task", subject: "just text" });
		expect(text.body.toString()).toBe("just text\n");
		expect(empty.handoff).toMatchObject({ id: "2.b", subject: "" });
		expect(empty.body).toHaveLength(0);
		expect(named.handoff).toMatchObject({ id: "hello", from: "carol", subject: "body" });
	});

	test("steps over FIFOs, sockets, directories, symlinks and hidden files, and leaves them alone", async () => {
		const world = new World();
		const dir = `${world.alice.directory}/new`;
		const outside = path.join(tempDir(), "outside");
		fs.writeFileSync(outside, "outside");
		fs.symlinkSync(outside, `${dir}/0.link`);
		fs.symlinkSync("nowhere", `${dir}/0.dangling`);
		fs.mkdirSync(`${dir}/0.dir`);
		fs.writeFileSync(`${dir}/.hidden`, "hidden");
		execFileSync("mkfifo", [`${dir}/0.fifo`]);
		const server = net.createServer().listen(`${dir}/0.socket`);
		onTestFinished(() => {
			server.close();
		});
		await until(() => server.listening);
		execFileSync("mkfifo", [`${world.alice.directory}/cur/0.fifo:2,`]);
		const id = world.send();
		const strange = ls(dir).filter((name) => name !== id);
		expect(world.inbox.list().items.map((item) => item.id)).toEqual([id]);
		expect(taken(world.inbox).handoff.id).toBe(id);
		expect(world.inbox.take()).toBeUndefined();
		expect(ls(dir)).toEqual(strange);
		for (const name of strange) {
			const message = world.inbox.maildir.message("new", name);
			if (!name.startsWith(".")) expect(world.inbox.take({ message })).toBeUndefined();
		}
		expect(ls(dir)).toEqual(strange);
	});

	test("steps over a name that is not UTF-8", () => {
		const world = new World();
		fs.writeFileSync(Buffer.concat([Buffer.from(`${world.alice.directory}/new/1.x`), Buffer.from([0xff])]), "x");
		const id = world.send();
		expect(taken(world.inbox).handoff.id).toBe(id);
		expect(world.inbox.take()).toBeUndefined();
		expect(world.inbox.list().items).toHaveLength(1);
		expect(ls(world.alice.directory, "new")).toHaveLength(1);
	});

	test("steps over a name that has no room for a lease", () => {
		const world = new World();
		const long = `1.${"x".repeat(250)}`;
		world.put(`new/${long}`);
		const id = world.send();
		expect(world.inbox.list().items.map((item) => item.id)).toEqual([long, id]);
		expect(taken(world.inbox).handoff.id).toBe(id);
		expect(world.inbox.take()).toBeUndefined();
		expect(ls(world.alice.directory, "new")).toEqual([long]);
	});

	test("never loads one over the size limit unasked, and hands it over without its body when it is named", () => {
		const world = new World({ maxBytes: 100 });
		const header = "---\nfrom: bob\nsubject: large\n---\n";
		world.put("new/1.over", header + "x".repeat(101));
		world.put("new/2.at", header + "y".repeat(100));
		fs.writeFileSync(`${world.alice.directory}/new/3.sparse`, header);
		fs.truncateSync(`${world.alice.directory}/new/3.sparse`, 2 ** 31 + header.length);
		expect(world.inbox.list().items).toMatchObject([
			{ id: "1.over", size: 101, subject: "large", from: "bob" },
			{ id: "2.at", size: 100 },
			{ id: "3.sparse", size: 2 ** 31, subject: "large" },
		]);
		expect(taken(world.inbox)).toMatchObject({ handoff: { id: "2.at" }, body: Buffer.from("y".repeat(100)) });
		expect(world.inbox.take()).toBeUndefined();
		expect(ls(world.alice.directory, "new")).toEqual(["1.over", "3.sparse"]);
		for (const piece of ["1.over", "3.sparse"]) {
			const one = world.inbox.take({ message: world.inbox.maildir.find(piece) }) as Taken;
			expect(one.handoff).toMatchObject({ id: piece, from: "bob", subject: "large" });
			expect(one.body).toHaveLength(0);
			expect(fs.statSync(one.file).size).toBeGreaterThan(100);
			one.done();
		}
		expect(world.states()).toEqual({ "1.over": "read", "2.at": "taken", "3.sparse": "read" });
	});

	test("gives the named one, and nothing when that is not queued", () => {
		const world = new World();
		const [first, second] = [world.send("one"), world.send("two")];
		const message = world.inbox.maildir.find(second);
		expect(world.inbox.take({ message })?.handoff.id).toBe(second);
		expect(world.inbox.take({ message })).toBeUndefined();
		for (const file of ["cur/1.a:2,S", "cur/2.a:2,RS", "cur/3.a,E=failed:2,F", "cur/4.a,E=recalled:2,T", "cur/5.a:2,T"]) {
			world.put(file);
			const name = file.slice(4);
			expect(world.inbox.take({ message: world.inbox.maildir.message("cur", name) })).toBeUndefined();
			expect(world.files()).toContain(file);
		}
		expect(taken(world.inbox).handoff.id).toBe(first);
	});

	test("has one winner among instances", () => {
		const world = new World();
		const rival = world.as("bbbbbbbb").node("alice").inbox;
		const ids = Array.from({ length: 50 }, (_, n) => world.send(`body ${n}`));
		const got: string[] = [];
		for (let n = 0; n < 60; n++) {
			const one = (n % 2 ? rival : world.inbox).take();
			if (one) got.push(one.handoff.id);
		}
		expect(got).toEqual(ids);
	});

	test("sees what arrives after it listed, also when its id sorts first", () => {
		const world = new World();
		const second = world.send("second");
		expect(taken(world.inbox).handoff.id).toBe(second);
		world.now -= 5 * minute; // the clock goes back
		const first = world.send("first");
		expect(first < second).toBe(true);
		expect(taken(world.inbox).handoff.id).toBe(first);
	});
});

describe("what is in hand", () => {
	test("is read when done, answered when replied to", () => {
		const world = new World();
		const [first, second] = [world.send(), world.send()];
		taken(world.inbox).done();
		taken(world.inbox).done(true);
		expect(world.files()).toEqual([`cur/${first}:2,S`, `cur/${second}:2,RS`]);
		expect(world.states()).toEqual({ [first]: "read", [second]: "answered" });
	});

	test("comes back when released, and counts", () => {
		const world = new World();
		const id = world.send();
		for (let n = 0; n < 3; n++) {
			const one = taken(world.inbox);
			expect(one.attempts).toBe(n);
			one.release();
			expect(world.files()).toEqual([`new/${id},A=${n + 1}`]);
		}
	});

	test("can be renewed, again and again", () => {
		const world = new World();
		const id = world.send();
		const one = taken(world.inbox);
		for (let n = 0; n < 3; n++) {
			world.now += 9 * minute;
			one.renew();
			expect(one.file).toBe(`${world.alice.directory}/cur/${id},L=${world.now / 1000 + 600}.aaaaaaaa:2,`);
			expect(fs.existsSync(one.file)).toBe(true);
			expect(world.inbox.take()).toBeUndefined();
		}
		one.done();
		expect(world.states()).toEqual({ [id]: "read" });
	});

	test("stays this instance's when a mail reader flags it meanwhile", () => {
		const after = { done: "cur/ID:2,FPS", release: "new/ID,A=1:2,FP", renew: "cur/ID,L=LEASE:2,FP", fail: "cur/ID,E=failed:2,FP" };
		for (const [method, name] of Object.entries(after)) {
			const world = new World();
			const id = world.send();
			const one = taken(world.inbox);
			fs.renameSync(one.file, `${one.file}FP`);
			end(one, method as keyof typeof after);
			expect(world.files()).toEqual([name.replace("ID", id).replace("LEASE", `${world.now / 1000 + 600}.aaaaaaaa`)]);
		}
	});

	test.each(["done", "release", "renew", "fail"] as const)(
		"is lost once the lease has ended and another took it: %s does no harm",
		(method) => {
			const world = new World();
			const rival = world.as("bbbbbbbb").node("alice").inbox;
			const id = world.send();
			const late = taken(world.inbox);
			world.now += 10 * minute;
			const other = taken(rival);
			expect(other).toMatchObject({ attempts: 1, handoff: { id } });
			const files = world.files();
			expect(code(() => end(late, method))).toBe("ELOST");
			expect(world.files()).toEqual(files);
			expect(world.files(world.bob)).toEqual([]);
			other.done();
			expect(code(() => end(late, method))).toBe("ELOST");
			expect(world.states()).toEqual({ [id]: "read" });
		},
	);

	test("is lost once its own instance took it again", () => {
		for (const method of ["done", "release", "renew", "fail"] as const) {
			const world = new World();
			const id = world.send();
			const late = taken(world.inbox);
			world.now += 10 * minute;
			const again = taken(world.inbox);
			expect(again).toMatchObject({ attempts: 1, handoff: { id } });
			const files = world.files();
			expect(code(() => end(late, method))).toBe("ELOST");
			expect(world.files()).toEqual(files);
			again.done();
			expect(world.states()).toEqual({ [id]: "read" });
		}
	});

	test("is lost once it was returned, recalled by hand, or removed", () => {
		const world = new World();
		world.send();
		const one = taken(world.inbox);
		world.now += 10 * minute;
		expect(world.inbox.returnLeases().returned).toBe(1);
		expect(code(() => one.done())).toBe("ELOST");
		const again = taken(world.inbox);
		fs.rmSync(again.file);
		expect(code(() => again.fail("x"))).toBe("ELOST");
		expect(world.files()).toEqual([]);
		expect(world.files(world.bob)).toEqual([]);
	});

	test("is ended once: no method does anything after that", () => {
		for (const first of ["done", "release", "fail"] as const) {
			for (const second of ["done", "release", "renew", "fail"] as const) {
				const world = new World();
				world.send();
				const one = taken(world.inbox);
				end(one, first);
				const [files, reports] = [world.files(), world.files(world.bob)];
				expect(code(() => end(one, second))).toBe("ELOST");
				expect([world.files(), world.files(world.bob)]).toEqual([files, reports]);
			}
		}
	});

	test("is nobody else's while the lease lasts, and comes back with its count when it has passed", () => {
		const world = new World();
		const rival = world.as("bbbbbbbb").node("alice").inbox;
		const id = world.send();
		const one = taken(world.inbox);
		world.now += 10 * minute - 1000;
		expect(rival.take()).toBeUndefined();
		expect(rival.take({ message: rival.maildir.find(id) })).toBeUndefined();
		world.now += 1000;
		expect(taken(rival)).toMatchObject({ attempts: 1, handoff: { id } });
		expect(code(() => one.done())).toBe("ELOST");
	});

	test("can be taken by its name once the lease has passed, before anybody looked for work", () => {
		const world = new World();
		const id = world.send();
		const one = taken(world.inbox);
		world.now += 10 * minute;
		const rival = world.as("bbbbbbbb").node("alice").inbox;
		expect(rival.take({ message: rival.maildir.find(id) })).toMatchObject({ attempts: 1, handoff: { id } });
		expect(code(() => one.done())).toBe("ELOST");
	});

	test("comes back when its lease can't be read", () => {
		const world = new World();
		for (const lease of ["", "?", "soon.bbbbbbbb", "1700000000"]) world.put(`cur/${lease.length}.x,L=${lease}:2,`);
		expect(world.inbox.returnLeases().returned).toBe(4);
		expect(ls(world.alice.directory, "new")).toHaveLength(4);
	});

	test("says when the next lease ends", () => {
		const world = new World();
		world.send();
		world.send();
		taken(world.inbox);
		world.now += minute;
		taken(world.inbox);
		expect(world.inbox.returnLeases()).toEqual({ returned: 0, next: world.now + 9 * minute });
	});

	test("of a dead instance comes back at once, and of no other", () => {
		const world = new World();
		const [first] = [world.send(), world.send()];
		taken(world.as("dddddddd").node("alice").inbox);
		taken(world.as("bbbbbbbb").node("alice").inbox);
		expect(world.inbox.returnLeases("dddddddd").returned).toBe(1);
		expect(ls(world.alice.directory, "new")).toEqual([`${first},A=1`]);
	});

	test("has the lease that was asked for, in ms", () => {
		const world = new World({ lease: 1500 });
		world.send();
		expect(taken(world.inbox).file).toContain(`,L=${world.now / 1000 + 2}.`);
		const tree = openTree({ root: tempTree().root, env: { XFER_LEASE: "7" } });
		expect(tree.context.lease).toBe(7000);
	});
});

describe("what ends without a reader", () => {
	test("is what has expired: listed as that, never taken, and ended by who looks for work", () => {
		const world = new World();
		const expires = world.now + minute;
		const [late, next] = [world.send("late", { expires }), world.send("next")];
		expect(world.states()).toEqual({ [late]: "queued", [next]: "queued" });
		world.now = expires;
		expect(world.states()).toEqual({ [late]: "expired", [next]: "queued" });
		expect(world.inbox.list().items.map(({ id }) => id)).toEqual([next]);
		expect(taken(world.inbox).handoff.id).toBe(next);
		expect(world.files()).toContain(`cur/${late},E=expired:2,T`);
		expect(world.files(world.bob)).toEqual([]);
	});

	test("is not taken by its name either once it has expired", () => {
		const world = new World();
		const id = world.send("late", { expires: world.now + minute });
		world.now += 2 * minute;
		expect(world.inbox.take({ message: world.inbox.maildir.find(id) })).toBeUndefined();
		expect(world.states()).toEqual({ [id]: "expired" });
	});

	test("is not what is in hand or read by then", () => {
		const world = new World();
		const id = world.send("hi", { expires: world.now + minute });
		const one = taken(world.inbox);
		world.now += 2 * minute;
		expect(world.states()).toEqual({ [id]: "taken" });
		one.done();
		expect(world.states()).toEqual({ [id]: "read" });
	});

	test("is what was replaced: a taker that finds a newer one of the same sender and key ends the older", () => {
		const world = new World();
		const put = (id: string, from: string, key: string) => world.put(`new/${id}`, `---\nfrom: ${from}\nkey: ${key}\n---\n${id}`);
		for (const [id, from, key] of [
			["1700000001.M000000Raaaaaaa1.h", "bob", "k"],
			["1700000002.M000000Raaaaaaa2.h", "carol", "k"],
			["1700000003.M000000Raaaaaaa3.h", "bob", "other"],
			["1700000004.M000000Raaaaaaa4.h", "bob", "k"],
		] as const)
			put(id, from, key);
		expect(taken(world.inbox).handoff.id).toBe("1700000002.M000000Raaaaaaa2.h");
		expect(taken(world.inbox).handoff.id).toBe("1700000003.M000000Raaaaaaa3.h");
		expect(taken(world.inbox).handoff.id).toBe("1700000004.M000000Raaaaaaa4.h");
		expect(world.inbox.take()).toBeUndefined();
		expect(world.files()).toContain("cur/1700000001.M000000Raaaaaaa1.h,E=replaced:2,T");
	});

	test("is what can't be read: marked, kept whole, and hiding nothing", async () => {
		const result = await bound(`
			const send = (body) => tree.send({ from: "bob", to: ["alice"], body })[0].id;
			const [bad, good] = [send("secret"), send("good")];
			const file = alice.directory + "/new/" + bad;
			fs.chmodSync(file, 0);
			const listed = alice.inbox.list().items.map(({ id, state, subject }) => [id === bad, state, subject]);
			const taken = alice.inbox.take();
			const marked = fs.readdirSync(alice.directory + "/cur").find((name) => name.startsWith(bad)).slice(bad.length);
			const message = alice.inbox.maildir.find(bad);
			const named = attempt(() => alice.inbox.take({ message }));
			fs.chmodSync(alice.inbox.maildir.file(message), 0o600);
			alice.inbox.mark(message, "new");
			const again = alice.inbox.take();
			console.log(JSON.stringify([listed, taken.handoff.id === good, marked, named ?? null, again.handoff.id === bad, again.body.toString()]));`);
		expect(result).toEqual([
			[
				[true, "unreadable", "(can't be read)"],
				[false, "queued", "good"],
			].sort(([a], [b]) => Number(b) - Number(a)),
			true,
			",E=unreadable:2,F",
			null,
			true,
			"secret",
		]);
	});

	test("says so when the one that can't be read was asked for", async () => {
		const result = await bound(`
			const [{ id }] = tree.send({ from: "bob", to: ["alice"], body: "secret" });
			fs.chmodSync(alice.directory + "/new/" + id, 0);
			const said = attempt(() => alice.inbox.take({ message: alice.inbox.maildir.find(id) }));
			const reports = fs.readdirSync(tree.node("bob").directory + "/new").length;
			console.log(JSON.stringify([said, fs.readdirSync(alice.directory + "/cur").map((name) => name.slice(id.length)), reports]));`);
		expect(result).toEqual([expect.stringMatching(/^E[A-Z]+$/), [",E=unreadable:2,F"], 0]);
	});
});

describe("what a mail reader does", () => {
	/** A move or mark as mutt, mblaze or a person with mv makes it: what was there, what they leave, what state that is. */
	const moves: [what: string, before: string, after: string, state: string][] = [
		["looks at the Inbox and leaves it unread (mutt, minc)", "new/1.a", "cur/1.a:2,", "queued"],
		["moves it and adds no info part", "new/1.a", "cur/1.a", "queued"],
		["moves it with its count", "new/1.a,A=2", "cur/1.a,A=2:2,", "queued"],
		["reads it", "new/1.a", "cur/1.a:2,S", "read"],
		["replies to it", "new/1.a", "cur/1.a:2,RS", "answered"],
		["flags it (F)", "new/1.a", "cur/1.a:2,F", "queued"],
		["passes it on (P)", "new/1.a", "cur/1.a:2,P", "queued"],
		["makes a draft of it (D)", "new/1.a", "cur/1.a:2,D", "queued"],
		["passes on and flags what it has read", "cur/1.a:2,S", "cur/1.a:2,FPS", "read"],
		["trashes it unread", "new/1.a", "cur/1.a:2,T", "recalled"],
		["trashes what it has read", "cur/1.a:2,S", "cur/1.a:2,ST", "read"],
		["marks it unread again", "cur/1.a:2,S", "cur/1.a:2,", "queued"],
		["marks it new again by moving it back", "cur/1.a:2,S", "new/1.a:2,S", "queued"],
		["flags what is in hand", "cur/1.a,L=9999999999.bbbbbbbb:2,", "cur/1.a,L=9999999999.bbbbbbbb:2,FS", "taken"],
		["flags what failed", "cur/1.a,E=failed:2,F", "cur/1.a,E=failed:2,FS", "failed"],
		["adds a flag that nobody knows", "new/1.a", "cur/1.a:2,a", "queued"],
		["writes an info part of another kind", "new/1.a", "cur/1.a:1,x", "queued"],
	];

	test.each(moves)("%s", (_what, before, after, state) => {
		const world = new World();
		world.put(before, "the bytes");
		fs.renameSync(`${world.alice.directory}/${before}`, `${world.alice.directory}/${after}`);
		expect(world.states()).toEqual({ "1.a": state });
		const one = world.inbox.take();
		expect(one?.body.toString()).toBe(state === "queued" ? "the bytes" : undefined);
		if (one) {
			one.release();
			expect(taken(world.inbox).body.toString()).toBe("the bytes");
		} else expect(world.files()).toEqual([after]);
		const unknown = (name: string) => name.replace(/^.*[:;]2,|[SRTF]|^[^:;]*$|^.*[:;].*$/g, "");
		expect(unknown(world.files()[0] ?? "")).toBe(unknown(after));
		expect(fs.readFileSync(`${world.alice.directory}/${world.files()[0]}`, "utf8")).toBe("the bytes");
	});

	test("whatever it left queued in cur/ is taken, also when its info part only looks like flags", () => {
		const world = new World();
		const names = ["1.a", "2.a:2,", "3.a;2,", "4.a:2,DFP", "5.a:1:2,S", "6.a:2", "7.a:,S", "8.a,Z=1:2,", "9.a,E:2,", "10.a,A=1:2,x"];
		for (const name of names) world.put(`cur/${name}`);
		expect(Object.values(world.states())).toEqual(names.map(() => "queued"));
		for (const _ of names) taken(world.inbox).done();
		expect(Object.values(world.states())).toEqual(names.map(() => "read"));
	});
});

describe("marking", () => {
	test.each([
		["read", "cur/1.a:2,S"],
		["answered", "cur/1.a:2,RS"],
		["new", "new/1.a,A=1"],
		["failed", "cur/1.a,E=failed:2,F"],
	] as const)("as %s, from any state", (as, after) => {
		for (const before of [
			"cur/1.a,L=9999999999.bbbbbbbb:2,",
			"cur/1.a,E=failed:2,F",
			"cur/1.a,E=recalled:2,T",
			"cur/1.a,E=unreadable:2,F",
			"new/1.a",
		]) {
			const world = new World();
			world.put(before);
			world.inbox.mark(world.inbox.maildir.find("1.a"), as, "why");
			expect(world.files()).toEqual([before === "new/1.a" && as === "new" ? "new/1.a" : after]);
		}
	});

	test("of what another has in hand is refused when only one's own is meant", () => {
		const world = new World();
		const id = world.send();
		taken(world.as("bbbbbbbb").node("alice").inbox);
		const message = world.inbox.maildir.find(id);
		const files = world.files();
		for (const as of ["read", "new", "failed"] as const) expect(code(() => world.inbox.mark(message, as, "", "aaaaaaaa"))).toBe("EHELD");
		expect(world.files()).toEqual(files);
		world.inbox.mark(message, "read", "", "bbbbbbbb");
		expect(world.states()).toEqual({ [id]: "read" });
	});

	test("of what was moved just now is refused, and sends no report", () => {
		const world = new World();
		world.send();
		const [stale] = world.inbox.maildir.list("new");
		if (!stale) throw new Error("nothing was delivered");
		taken(world.inbox).done();
		const files = world.files();
		for (const as of ["read", "failed"] as const) expect(code(() => world.inbox.mark(stale, as))).toBe("EHELD");
		expect(world.files()).toEqual(files);
		expect(world.files(world.bob)).toEqual([]);
	});
});

describe("a failure", () => {
	test("is told to the sender once, with the reason, in the same thread", () => {
		const world = new World();
		const id = world.send("do it", { subject: "Work", thread: "the-thread", hops: 2 });
		taken(world.inbox).fail("no such branch\n");
		expect(world.states()).toEqual({ [id]: "failed" });
		expect(world.bob.inbox.list().items).toMatchObject([
			{ from: "alice", to: ["bob"], kind: "report", subject: "failed: Work", re: id, thread: "the-thread" },
		]);
		expect(taken(world.bob.inbox).body.toString()).toBe("no such branch\n");
		expect(world.bob.inbox.take()).toBeUndefined();
	});

	test("that is marked is told once too, also when it is marked again", () => {
		const world = new World();
		const id = world.send();
		for (let n = 0; n < 3; n++) world.inbox.mark(world.inbox.maildir.find(id), "failed", "no");
		expect(world.bob.inbox.list().items).toMatchObject([{ kind: "report", re: id, thread: id }]);
	});

	test("is told again when it failed again", () => {
		const world = new World();
		const id = world.send();
		taken(world.inbox).fail("first");
		world.inbox.mark(world.inbox.maildir.find(id), "new");
		taken(world.inbox).fail("second");
		expect(world.bob.inbox.list().items.map(({ subject, re }) => [subject, re])).toEqual([
			["failed: hi", id],
			["failed: hi", id],
		]);
	});

	test("without a reason says so: a report is never empty", () => {
		const world = new World();
		world.send();
		taken(world.inbox).fail("");
		expect(taken(world.bob.inbox).body.length).toBeGreaterThan(0);
	});

	test("of a report is told to nobody: no loop of bounces", () => {
		const world = new World();
		world.send("it failed", { kind: "report" });
		world.send("it failed too", { kind: "report" });
		taken(world.inbox).fail("can't read this report");
		world.inbox.mark(world.inbox.maildir.list("new")[0] as never, "failed", "nor this");
		expect(Object.values(world.states())).toEqual(["failed", "failed"]);
		expect(world.files(world.bob)).toEqual([]);
	});

	test.each(["carol", "unknown", "all", "../bob", "bob/new", "", "bob@box", "\u0000"])(
		"of one from %j, who is no Node, is told to nobody and makes nothing",
		(from) => {
			const world = new World();
			world.put("new/1.a", `---\nfrom: ${JSON.stringify(from)}\n---\nhi`);
			taken(world.inbox).fail("no");
			expect(world.states()).toEqual({ "1.a": "failed" });
			expect(ls(world.root, "nodes")).toEqual(["alice", "bob"]);
			expect(world.files(world.bob)).toEqual([]);
		},
	);

	test("is told to a sender whose name stands there in capitals", () => {
		const world = new World();
		world.put("new/1.a", "---\nfrom: Bob\n---\nhi");
		taken(world.inbox).fail("no");
		expect(world.bob.inbox.list().items).toMatchObject([{ kind: "report", re: "1.a" }]);
	});

	test("of one that was sent to oneself is told to oneself, once", () => {
		const world = new World();
		const [sent] = world.tree.send({ from: "alice", to: ["alice"], body: "hi" });
		taken(world.inbox).fail("no");
		const report = taken(world.inbox);
		expect(report.handoff).toMatchObject({ kind: "report", re: sent && "id" in sent ? sent.id : "" });
		report.fail("nor this");
		expect(world.inbox.take()).toBeUndefined();
	});
});

describe("a listing", () => {
	test("has what needs a reader first: queued, taken, failed, unreadable; the oldest first; then what has ended, the newest first", () => {
		const world = new World();
		for (const file of [
			"cur/7.a:2,S",
			"cur/8.a:2,RS",
			"cur/9.a,E=recalled:2,T",
			"cur/5.a,E=failed:2,F",
			"cur/6.a,E=unreadable:2,F",
			"cur/4.a,L=9999999999.bbbbbbbb:2,",
			"cur/3.a,L=9999999999.bbbbbbbb:2,",
			"new/2.a",
			"new/1.a,A=1",
			"cur/0.a:2,",
		])
			world.put(file);
		const ids = (items: readonly { id: string }[]) => items.map(({ id }) => id);
		const { items, more, counts } = world.inbox.list();
		expect(ids(items)).toEqual(["0.a", "1.a", "2.a", "3.a", "4.a", "5.a", "6.a"]);
		expect(more).toBe(0);
		expect(counts).toMatchObject({ queued: 3, taken: 2, failed: 1, unreadable: 1, read: 1, answered: 1, recalled: 1 });
		expect(ids(world.inbox.list({ states: () => true }).items)).toEqual([...ids(items), "9.a", "8.a", "7.a"]);
		expect(ids(world.inbox.list({ states: (state) => state === "failed" }).items)).toEqual(["5.a"]);
	});

	test("has as many as were asked for, and says how many more there are", () => {
		const world = new World();
		for (let n = 10; n < 20; n++) world.put(`new/${n}.a`);
		const { items, more, counts } = world.inbox.list({ limit: 4 });
		expect(items.map(({ id }) => id)).toEqual(["10.a", "11.a", "12.a", "13.a"]);
		expect(more).toBe(6);
		expect(counts.queued).toBe(10);
		expect(world.inbox.list({ limit: 0 }).items).toHaveLength(10);
	});

	test("changes nothing", () => {
		const world = new World();
		world.send("late", { expires: world.now - 1 });
		for (const file of ["cur/1.a,L=1.bbbbbbbb:2,", "cur/2.a:2,S", "cur/3.a", "new/4.a,E=x:2,Z"]) world.put(file);
		const before = world.files();
		world.inbox.list({ states: () => true });
		for (const dir of ["new", "cur"] as const) for (const message of world.inbox.maildir.list(dir)) world.inbox.look(message);
		expect(world.files()).toEqual(before);
	});

	test("shows a header that is longer than the first read, to its limit", () => {
		const world = new World();
		for (const size of [4080, 4090, 4096, 4100, 20_000, 60_000]) {
			world.put(`new/${size}.a`, `---\nfrom: carol\nx-pad: ${"x".repeat(size)}\nsubject: behind it\n---\nbody\n`);
		}
		for (let size = 4060; size < 4100; size++) world.put(`new/${size}.b`, `---\nx: ${"x".repeat(size)}\n---y: z\n---\nbody of it`);
		for (const item of world.inbox.list().items) {
			if (item.id.endsWith(".a")) expect(item).toMatchObject({ from: "carol", subject: "behind it", size: 5 });
			else expect(item).toMatchObject({ subject: "body of it", size: 10, header: { warnings: ["line"] } });
		}
	});

	test("shows what was there: a file that moves meanwhile is left out", () => {
		const world = new World();
		world.send();
		const [message] = world.inbox.maildir.list("new");
		if (!message) throw new Error("nothing was delivered");
		taken(world.inbox);
		expect(world.inbox.look(message)).toBeUndefined();
	});
});

describe("on a Node that another instance holds", () => {
	test("everybody may look, and only the holder and what it started may take and mark", async () => {
		const world = new World();
		const live = await world.as("bbbbbbbb").node("alice").goLive();
		onTestFinished(() => live.end());
		const id = world.send();
		const message = world.inbox.maildir.find(id);
		expect(world.states()).toEqual({ [id]: "queued" });
		const before = world.files();
		expect(code(() => world.inbox.take())).toBe("EHELD");
		expect(code(() => world.inbox.take({ message }))).toBe("EHELD");
		for (const as of ["read", "answered", "new", "failed"] as const) expect(code(() => world.inbox.mark(message, as))).toBe("EHELD");
		await expect(world.inbox.takeNext()).rejects.toMatchObject({ code: "EHELD" });
		expect(world.files()).toEqual(before);
		// the same instance in another process
		const child = world.as("bbbbbbbb").node("alice").inbox;
		taken(child).release();
		child.mark(child.maildir.find(id), "read");
		expect(world.states()).toEqual({ [id]: "read" });
	});

	test("and that has ended, everybody may again", async () => {
		const world = new World();
		const live = await world.as("bbbbbbbb").node("alice").goLive();
		const id = world.send();
		live.end();
		expect(taken(world.inbox).handoff.id).toBe(id);
	});
});

describe("waiting for the next one", () => {
	test("takes what is there at once, and else what arrives", async () => {
		const world = new World();
		const first = world.send("first");
		expect((await world.inbox.takeNext())?.handoff.id).toBe(first);
		const next = world.inbox.takeNext({ persistent: true });
		const second = world.send("second");
		expect((await next)?.handoff.id).toBe(second);
	});

	test("ends with nothing when it is aborted, before or while it waits, and takes nothing then", async () => {
		const world = new World();
		const abort = new AbortController();
		const waiting = world.inbox.takeNext({ signal: abort.signal, persistent: true });
		abort.abort();
		expect(await waiting).toBeUndefined();
		const id = world.send();
		expect(await world.inbox.takeNext({ signal: abort.signal })).toBeUndefined();
		expect(world.files()).toEqual([`new/${id}`]);
	});

	test("takes what another let lapse", async () => {
		const world = new World();
		world.send();
		taken(world.as("bbbbbbbb").node("alice").inbox);
		const next = world.inbox.takeNext({ persistent: true });
		world.now += 11 * minute;
		fs.writeFileSync(`${world.alice.directory}/new/.ring`, ""); // a doorbell: it looks again
		const one = await until(() => next, "the lapsed one");
		expect(one.attempts).toBe(1);
	});
});

/** What stands in a directory name by name, read without the library: protocol 4 once more. */
interface Seen {
	dir: string;
	name: string;
	fields: string[];
	flags: string;
	state: string;
	bytes: string;
}

function snapshot(node: Node): Map<string, Seen> {
	const seen = new Map<string, Seen>();
	for (const dir of ["new", "cur"]) {
		for (const name of ls(node.directory, dir)) {
			const [, id = "", list = "", info = ""] = /^([^,:;]*)((?:,[^,:;]*)*)(?:[:;](.*))?$/s.exec(name) ?? [];
			if (seen.has(id)) throw new Error(`${id} is there twice: ${name} and ${seen.get(id)?.name}`);
			const fields = list.split(",").slice(1);
			const flags = info.startsWith("2,") ? info.slice(2) : "";
			const word = (key: string) => fields.find((text) => text.startsWith(`${key}=`))?.slice(2);
			const byFlag = flags.includes("R") ? "answered" : flags.includes("S") ? "read" : flags.includes("T") ? "recalled" : "queued";
			const state = dir === "new" ? "queued" : (word("E") ?? (word("L") === undefined ? byFlag : "taken"));
			seen.set(id, { dir, name, fields, flags, state, bytes: fs.readFileSync(`${node.directory}/${dir}/${name}`, "latin1") });
		}
	}
	return seen;
}

const fieldOf = (seen: Seen | undefined, key: string) => seen?.fields.find((text) => text.startsWith(`${key}=`))?.slice(2);
const attempts = (seen: Seen | undefined) => Number(fieldOf(seen, "A") ?? 0);
const unknown = (seen: Seen | undefined) => [seen?.fields.filter((text) => !/^[AEL]=/.test(text)), seen?.flags.replace(/[SRTF]/g, "")];

describe("any sequence of steps", () => {
	interface Sent {
		bytes: string;
		key?: string;
		expires?: number;
		large?: true;
	}
	interface Held {
		taken: Taken;
		instance: string;
		ended: boolean;
	}
	const pick = fc.nat({ max: 1000 });
	const who = fc.constantFrom("aaaaaaaa", "bbbbbbbb");
	const step = fc.oneof(
		{
			weight: 4,
			arbitrary: fc.record({
				do: fc.constant("send" as const),
				body: fc.uint8Array({ minLength: 1, maxLength: 40 }),
				key: fc.constantFrom(undefined, undefined, "k", "l"),
				lasts: fc.constantFrom(undefined, undefined, 1000, 20 * minute),
			}),
		},
		{
			weight: 2,
			arbitrary: fc.record({
				do: fc.constant("put" as const),
				dir: fc.constantFrom("new", "cur"),
				tail: fc.constantFrom("", ",A=3", ",Z=z,k", ":2,", ":2,DP", ";2,a", ",B:2,FS", ":2,T", ",E=archived:2,S"),
				body: fc.string({ unit: "binary", maxLength: 300 }),
			}),
		},
		{ weight: 5, arbitrary: fc.record({ do: fc.constant("take" as const), who }) },
		{ weight: 1, arbitrary: fc.record({ do: fc.constant("take-named" as const), who, pick }) },
		{
			weight: 5,
			arbitrary: fc.record({ do: fc.constant("end" as const), pick, how: fc.constantFrom("done", "replied", "release", "renew", "fail") }),
		},
		{
			weight: 2,
			arbitrary: fc.record({ do: fc.constant("clock" as const), ms: fc.constantFrom(1, 1000, 5 * minute, 11 * minute, -7000) }),
		},
		{ weight: 1, arbitrary: fc.record({ do: fc.constant("return" as const), who }) },
		{
			weight: 3,
			arbitrary: fc.record({
				do: fc.constant("mail-reader" as const),
				pick,
				way: fc.constantFrom("cur", "cur-bare", "read", "F", "P", "D", "S", "R", "T", "no-info", "new"),
			}),
		},
		{ weight: 1, arbitrary: fc.record({ do: fc.constant("recall" as const), pick }) },
		{
			weight: 2,
			arbitrary: fc.record({ do: fc.constant("mark" as const), pick, as: fc.constantFrom("read", "answered", "new", "failed") }),
		},
		{ weight: 1, arbitrary: fc.record({ do: fc.constant("gc" as const) }) },
	);
	type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

	test("loses, doubles and changes no Handoff, and every one is in the state that the protocol says", async () => {
		const { collect } = await import("../lib/index.ts");
		fc.assert(
			fc.property(fc.array(step, { maxLength: 40, size: "max" }), (steps: Step[]) => {
				const world = new World({ maxBytes: 200 });
				const trees: Record<string, Tree> = { aaaaaaaa: world.tree, bbbbbbbb: world.as("bbbbbbbb") };
				const inboxes = Object.fromEntries(Object.entries(trees).map(([instance, tree]) => [instance, tree.node("alice").inbox]));
				const sent = new Map<string, Sent>();
				const held: Held[] = [];
				let reports = 0;
				let puts = 0;
				const alive = (id: string, seen: Seen | undefined) => seen?.state === "queued" && (sent.get(id)?.expires ?? Infinity) > world.now;
				const lapsed = (seen: Seen | undefined) => seen?.state === "taken" && Number(fieldOf(seen, "L")?.split(".")[0]) * 1000 <= world.now;
				/** Whether a newer one of its key is in new/, or comes back there as its lease has passed. */
				const newer = (id: string, seen: Map<string, Seen>, returning = false) => {
					const key = sent.get(id)?.key;
					const there = (other: Seen) => other.dir === "new" || (returning && lapsed(other));
					return key !== undefined && [...seen].some(([other, file]) => there(file) && other > id && sent.get(other)?.key === key);
				};

				for (const action of steps) {
					const before = snapshot(world.alice);
					const ids = [...before.keys()];
					/** What this step may do to those it is not about. */
					let others = (_id: string, _was: Seen, _is: Seen) => false;
					/** Those that it is about, with the state that they must be in. */
					const expected = new Map<string, string>();

					if (action.do === "send") {
						const expires = action.lasts === undefined ? undefined : world.now + action.lasts;
						const id = world.send(action.body, { key: action.key, expires });
						expect(before.has(id)).toBe(false);
						sent.set(id, { bytes: "", ...(action.key && { key: action.key }), ...(expires && { expires }) });
						const file = snapshot(world.alice).get(id);
						expect(file?.bytes.endsWith(`\n---\n${Buffer.from(action.body).toString("latin1")}`)).toBe(true);
						sent.set(id, { ...sent.get(id), bytes: file?.bytes ?? "" });
						expected.set(id, "queued");
						for (const [other, was] of before) {
							if (action.key !== undefined && was.state === "queued" && other < id && sent.get(other)?.key === action.key)
								expected.set(other, "replaced");
						}
					} else if (action.do === "put") {
						const id = `${10 + puts++}.put`;
						const bytes = Buffer.from(action.body);
						world.put(`${action.dir}/${id}${action.tail}`, bytes);
						sent.set(id, { bytes: bytes.toString("latin1"), ...(bytes.length > 200 && { large: true }) });
						expected.set(id, snapshot(world.alice).get(id)?.state ?? "");
					} else if (action.do === "clock") world.now += action.ms;
					else if (action.do === "take" || action.do === "take-named") {
						const inbox = inboxes[action.who] as Inbox;
						const wanted = action.do === "take-named" ? ids[action.pick % ids.length] : undefined;
						if (action.do === "take-named" && wanted === undefined) continue;
						const one = wanted === undefined ? inbox.take() : inbox.take({ message: inbox.maildir.find(wanted) });
						others = (id, was, is) =>
							(lapsed(was) && is.dir === "new" && attempts(is) === attempts(was) + 1) ||
							((was.state === "queued" || lapsed(was)) && is.state === "expired" && !alive(id, { ...was, state: "queued" })) ||
							((was.state === "queued" || lapsed(was)) && is.state === "replaced" && newer(id, before, true));
						const after = snapshot(world.alice);
						if (one) {
							const { id } = one.handoff;
							const was = before.get(id) as Seen;
							held.push({ taken: one, instance: action.who, ended: false });
							expect(wanted ?? id).toBe(id);
							expect(alive(id, was) || (lapsed(was) && alive(id, { ...was, state: "queued" }))).toBe(true);
							expect(newer(id, after)).toBe(false);
							expect(fieldOf(after.get(id), "L")).toBe(`${Math.ceil((world.now + 600_000) / 1000)}.${action.who}`);
							expect(one.attempts).toBe(attempts(was) + (lapsed(was) ? 1 : 0));
							if (sent.get(id)?.large) expect(wanted).toBe(id);
							else expect(sent.get(id)?.bytes.endsWith(one.body.toString("latin1"))).toBe(true);
							if (wanted === undefined && was.dir === "new") {
								// nothing older was there to be taken
								for (const [other, { dir, state }] of before)
									if (other < id && dir === "new" && after.get(other)?.state === state) expect(sent.get(other)?.large).toBe(true);
							}
							expected.set(id, "taken");
						} else if (wanted !== undefined) {
							const was = before.get(wanted) as Seen;
							const free = was.state === "queued" || lapsed(was);
							expect(free && alive(wanted, { ...was, state: "queued" }) && !newer(wanted, before)).toBe(false);
						} else for (const [id, { dir }] of after) if (dir === "new") expect(sent.get(id)?.large).toBe(true);
					} else if (action.do === "end") {
						const mine = held[action.pick % held.length];
						if (!mine) continue;
						const { id } = mine.taken.handoff;
						const was = before.get(id);
						const inHand = was?.state === "taken" && fieldOf(was, "L")?.endsWith(`.${mine.instance}`);
						const stillMine = !mine.ended && inHand && attempts(was) === mine.taken.attempts;
						const ways: Record<string, () => void> = {
							done: () => mine.taken.done(),
							replied: () => mine.taken.done(true),
							release: () => mine.taken.release(),
							renew: () => mine.taken.renew(),
							fail: () => mine.taken.fail("why"),
						};
						expect(code(ways[action.how] as () => void)).toBe(stillMine ? undefined : "ELOST");
						if (stillMine) {
							const answered = action.how === "replied" || was.flags.includes("R") ? "answered" : "read";
							const states: Record<string, string> = {
								done: answered,
								replied: "answered",
								release: "queued",
								renew: "taken",
								fail: "failed",
							};
							expected.set(id, states[action.how] ?? "");
							mine.ended = action.how !== "renew";
							if (action.how === "fail" && sent.get(id)?.bytes.startsWith("---\nfrom: bob")) reports++;
						}
					} else if (action.do === "return" || action.do === "gc") {
						if (action.do === "return") inboxes[action.who]?.returnLeases();
						else collect(world.tree, world.alice);
						for (const [id, was] of before) {
							if (lapsed(was)) expected.set(id, "queued");
							else if (action.do === "gc" && was.state === "queued" && !alive(id, was)) expected.set(id, "expired");
						}
						if (action.do === "gc")
							for (const [id, was] of before) if (lapsed(was) && !alive(id, { ...was, state: "queued" })) expected.set(id, "expired");
					} else if (action.do === "mail-reader") {
						const id = ids[action.pick % ids.length];
						const was = id !== undefined && before.get(id);
						if (!was) continue;
						const flag = /^[A-Z]$/.test(action.way) ? action.way : "";
						const head = was.name.replace(/[:;].*$/s, "");
						const flags = [...new Set(was.flags + flag)].sort().join("");
						const moved: Record<string, [string, string]> = {
							cur: ["cur", `${head}:2,${flags}`],
							"cur-bare": ["cur", was.dir === "new" && !flags ? head : was.name],
							read: ["cur", `${head}:2,${[...new Set(`${flags}S`)].sort().join("")}`],
							"no-info": ["cur", was.flags.replace(/[SRTF]/g, "") ? was.name : head],
							new: ["new", was.name],
						};
						const [dir, name] = moved[action.way] ?? ["cur", `${head}:2,${flags}`];
						fs.renameSync(`${world.alice.directory}/${was.dir}/${was.name}`, `${world.alice.directory}/${dir}/${name}`);
						expected.set(id, snapshot(world.alice).get(id)?.state ?? "");
					} else if (action.do === "recall") {
						const mine = world.bob.sent.ids();
						const id = mine[action.pick % mine.length];
						const was = id !== undefined && before.get(id);
						if (!was) continue;
						expect(code(() => world.bob.sent.recall(id))).toBe(/^(queued|recalled)$/.test(was.state) ? undefined : "EHELD");
						expected.set(id, was.state === "queued" ? "recalled" : was.state);
					} else if (action.do === "mark") {
						const id = ids[action.pick % ids.length];
						const was = id !== undefined && before.get(id);
						if (!was) continue;
						world.inbox.mark(world.inbox.maildir.find(id), action.as, "why");
						const read = was.flags.includes("R") ? "answered" : "read";
						expected.set(id, { read, answered: "answered", new: "queued", failed: "failed" }[action.as]);
						if (action.as === "failed" && was.state !== "failed" && sent.get(id)?.bytes.startsWith("---\nfrom: bob")) reports++;
					}

					const after = snapshot(world.alice);
					expect([...after.keys()].sort()).toEqual([...sent.keys()].sort());
					for (const [id, is] of after) {
						const was = before.get(id);
						expect(is.bytes).toBe(sent.get(id)?.bytes);
						if (was && action.do !== "mail-reader") expect(unknown(is)).toEqual(unknown(was));
						if (expected.has(id)) expect([id, is.state]).toEqual([id, expected.get(id)]);
						else if (was && `${was.dir}/${was.name}` !== `${is.dir}/${is.name}`)
							expect(others(id, was, is), `${JSON.stringify(action)}: ${was.dir}/${was.name} became ${is.dir}/${is.name}`).toBe(true);
					}
					const listed = world.inbox.list({ states: () => true }).items;
					expect(listed.map(({ id }) => id).sort()).toEqual([...after.keys()].sort());
					for (const { id, state } of listed) {
						const { state: named } = after.get(id) as Seen;
						expect(state).toBe(named === "queued" && !alive(id, after.get(id)) ? "expired" : named);
					}
					expect(ls(world.bob.directory, "new")).toHaveLength(reports);
					expect(ls(world.alice.directory, "tmp")).toEqual([]);
				}
				fs.rmSync(world.root, { recursive: true });
			}),
			{ numRuns: 60 },
		);
	});
});

test("an error names the Node and what to do", () => {
	const world = new World();
	const one = (() => {
		world.send();
		return taken(world.inbox);
	})();
	one.done();
	try {
		one.done();
	} catch (error) {
		expect(error).toBeInstanceOf(XferError);
		expect((error as XferError).cure).toBeTruthy();
	}
});

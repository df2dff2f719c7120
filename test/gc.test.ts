import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { collect, type GcOptions, type GcReport, type Node, openTree, type Tree } from "../lib/index.ts";
import { ls, onTestFinished, project, run, tempDir, tempTree } from "./helpers.ts";

const hour = 3_600_000;
const day = 24 * hour;

/** A tree that is looked at `later` ms from now: what the filesystem dates can't be set back, so the clock goes on. */
class World {
	readonly root = tempTree().root;
	later = 0;
	readonly tree: Tree;
	readonly alice: Node;
	readonly bob: Node;

	constructor() {
		this.tree = this.as("aaaaaaaa");
		this.alice = this.tree.join("alice");
		this.bob = this.tree.join("bob");
	}

	as(instance: string): Tree {
		return openTree({ root: this.root, env: {}, durable: false, instance, clock: () => Date.now() + this.later });
	}

	/** Files in alice's Node, by path from it. */
	put(...files: string[]): void {
		for (const file of files) fs.writeFileSync(`${this.alice.directory}/${file}`, `bytes of ${file}`, { mode: 0o600 });
	}

	collect(options?: GcOptions, node = this.alice): GcReport {
		const report = collect(this.tree, node, options);
		if (!report) throw new Error("nothing was done");
		return report;
	}

	/** Everything in the tree, with bytes and times. */
	snapshot(): string[] {
		const walk = (dir: string): string[] =>
			fs.readdirSync(dir, { withFileTypes: true }).flatMap((entry) => {
				const file = path.join(dir, entry.name);
				const { mtimeMs, mode } = fs.lstatSync(file);
				return [`${file} ${mtimeMs} ${mode}`, ...(entry.isDirectory() ? walk(file) : [])];
			});
		return walk(this.root);
	}
}

const nothing = { node: "alice", handoffs: 0, pointers: 0, temporary: 0, locks: 0, returned: 0, expired: 0, removed: false };
const ended = [
	"1.a:2,S",
	"2.a:2,RS",
	"3.a:2,R",
	"4.a,E=recalled:2,T",
	"5.a,E=expired:2,T",
	"6.a,E=replaced:2,T",
	"7.a:2,T",
	"8.a,Z=z;2,FS",
];
/** A file that a process leaves which is not there any more, and could be known to be dead here. */
const dead = `${os.hostname()} ${fs.existsSync("/proc/self/ns/pid") ? fs.readlinkSync("/proc/self/ns/pid") : "-"} 2147483646\n`;

describe("clearing away", () => {
	test("removes what has been read or has ended, 30 days after that and not before", () => {
		const world = new World();
		world.put(...ended.map((name) => `cur/${name}`));
		world.later = 30 * day - hour;
		expect(world.collect()).toEqual(nothing);
		world.later = 30 * day + hour;
		expect(world.collect()).toEqual({ ...nothing, handoffs: ended.length });
		expect(ls(world.alice.directory, "cur")).toEqual([]);
		expect(world.collect()).toEqual(nothing);
	});

	test("counts from when it ended, not from when it was sent", () => {
		const world = new World();
		world.put("new/1700000000.M000001Rk3f9q2ab.box");
		fs.utimesSync(`${world.alice.directory}/new/1700000000.M000001Rk3f9q2ab.box`, 1_700_000_000, 1_700_000_000);
		world.alice.inbox.take()?.done();
		expect(world.collect()).toEqual(nothing);
		expect(ls(world.alice.directory, "cur")).toHaveLength(1);
	});

	test("keeps for as long as it is told", () => {
		const world = new World();
		world.put("cur/1.a:2,S");
		world.later = 2 * hour;
		expect(world.collect({ keep: 3 * hour })).toEqual(nothing);
		expect(world.collect({ keep: hour })).toEqual({ ...nothing, handoffs: 1 });
	});

	test("never removes what is queued, taken, failed or unreadable, nor what it does not know, however old", () => {
		const world = new World();
		const kept = [
			"new/1.a",
			"new/2.a,A=3:2,S",
			"new/3.a,E=failed:2,F",
			"new/.hidden",
			"cur/4.a",
			"cur/5.a:2,",
			"cur/6.a:2,DFP",
			`cur/7.a,L=${Math.floor(Date.now() / 1000) + 400 * 86_400}.bbbbbbbb:2,S`,
			"cur/8.a,E=failed:2,FS",
			"cur/9.a,E=unreadable:2,F",
			"cur/10.a,E=archived:2,S",
			"cur/11.a:1,S",
			"cur/.hidden:2,S",
			"node.md.bak",
			".note",
		];
		world.put(...kept);
		fs.mkdirSync(`${world.alice.directory}/cur/12.a:2,S`);
		fs.symlinkSync("nowhere", `${world.alice.directory}/cur/13.a:2,S`);
		const before = world.snapshot();
		world.later = 365 * day;
		expect(world.collect({ keep: 0 })).toEqual(nothing);
		const names = (lines: string[]) => lines.map((line) => line.split(" ")[0]).filter((line) => !line?.endsWith("/.gc"));
		expect(names(world.snapshot())).toEqual(names(before));
		for (const file of kept) expect(fs.readFileSync(`${world.alice.directory}/${file}`, "utf8")).toBe(`bytes of ${file}`);
	});

	test("returns what is in hand and whose lease has passed", () => {
		const world = new World();
		world.put("cur/1.a,L=1.bbbbbbbb:2,", "cur/2.a,A=4,L=9999999999.bbbbbbbb:2,", "cur/3.a,A=1,L=?:2,P");
		expect(world.collect()).toEqual({ ...nothing, returned: 2 });
		expect(ls(world.alice.directory, "new")).toEqual(["1.a,A=1", "3.a,A=2:2,P"]);
		expect(ls(world.alice.directory, "cur")).toEqual(["2.a,A=4,L=9999999999.bbbbbbbb:2,"]);
	});

	test("ends what is queued and has expired, in new/ and where a mail reader left it", () => {
		const world = new World();
		const header = (when: string) => `---\nexpires: ${when}\n---\nhi`;
		for (const [file, when] of [
			["new/1.a", "2020-01-01T00:00:00Z"],
			["new/2.a", "9999-01-01T00:00:00Z"],
			["cur/3.a:2,", "2020-01-01T00:00:00Z"],
			["cur/4.a,E=failed:2,F", "2020-01-01T00:00:00Z"],
			["cur/5.a,L=9999999999.b:2,", "2020-01-01T00:00:00Z"],
		] as const)
			fs.writeFileSync(`${world.alice.directory}/${file}`, header(when));
		expect(world.collect()).toEqual({ ...nothing, expired: 2 });
		expect(ls(world.alice.directory, "new")).toEqual(["2.a"]);
		expect(ls(world.alice.directory, "cur")).toEqual([
			"1.a,E=expired:2,T",
			"3.a,E=expired:2,T",
			"4.a,E=failed:2,F",
			"5.a,L=9999999999.b:2,",
		]);
	});

	test("removes pointers to what is gone, and no others", () => {
		const world = new World();
		const send = (to: string) => {
			const [outcome] = world.tree.send({ from: "alice", to: [to], body: "hi" });
			return outcome && !outcome.error ? outcome.id : "";
		};
		const [queued, read, gone] = [send("bob"), send("bob"), send("bob")];
		world.bob.inbox.take({ message: world.bob.inbox.maildir.find(read) })?.done();
		fs.rmSync(`${world.bob.directory}/new/${gone}`);
		world.tree.join("carol");
		const lost = send("carol");
		fs.rmSync(`${world.root}/nodes/carol`, { recursive: true });
		const sent = `${world.alice.directory}/sent`;
		fs.writeFileSync(`${sent}/as-a-file`, "../../bob\n");
		fs.writeFileSync(`${sent}/note.txt`, "hello");
		fs.symlinkSync("../../../../etc", `${sent}/elsewhere`);
		fs.symlinkSync("/nowhere", `${sent}/absolute`);
		fs.mkdirSync(`${sent}/directory`);
		expect(world.collect()).toEqual({ ...nothing, pointers: 3 });
		expect(ls(sent)).toEqual([queued, read, "note.txt", "elsewhere", "absolute", "directory"].sort());
		expect([lost, gone].some((id) => ls(sent).includes(id))).toBe(false);
	});

	test("removes what was abandoned in tmp/ for more than 36 hours, and nothing that is being written", () => {
		const world = new World();
		world.put("tmp/1.a", "tmp/2.b");
		fs.mkdirSync(`${world.alice.directory}/tmp/directory`);
		world.later = 35 * hour;
		expect(world.collect()).toEqual(nothing);
		world.later = 37 * hour;
		const future = new Date(Date.now() + 2 * hour);
		fs.utimesSync(`${world.alice.directory}/tmp/2.b`, future, future);
		expect(world.collect()).toEqual({ ...nothing, temporary: 1 });
		expect(ls(world.alice.directory, "tmp")).toEqual(["2.b", "directory"]);
	});

	test("removes what a killed writer of presence left, after 36 hours too, and no presence", () => {
		const world = new World();
		world.put("node.md.123456789", "node.md.bak");
		world.later = 35 * hour;
		expect(world.collect()).toEqual(nothing);
		world.later = 37 * hour;
		expect(world.collect()).toEqual({ ...nothing, temporary: 1 });
		expect(ls(world.alice.directory).filter((name) => name.startsWith("node"))).toEqual(["node.md", "node.md.bak"]);
	});

	test("keeps the pointers to an Inbox that can't be listed: not gone, for all that is known", async () => {
		const root = path.join(tempDir(), "tree");
		fs.chmodSync(path.dirname(root), 0o777);
		const script = `
			import fs from "node:fs";
			import { collect, openTree } from ${JSON.stringify(path.join(project, "lib/index.ts"))};
			if (process.getuid() === 0) { process.setgroups([]); process.setgid(65534); process.setuid(65534); }
			const tree = openTree({ root: ${JSON.stringify(root)}, env: {}, durable: false });
			const [alice, bob] = [tree.join("alice"), tree.join("bob")];
			const [{ id }] = tree.send({ from: "alice", to: ["bob"], body: "hi" });
			fs.chmodSync(bob.directory + "/new", 0);
			const report = collect(tree, alice);
			const [{ state }] = alice.sent.standings([id]);
			fs.chmodSync(bob.directory + "/new", 0o700);
			console.log(JSON.stringify([report.pointers, state, alice.sent.standings([id])[0].state]));`;
		const { out, err } = await run([process.execPath, "--input-type=module", "-e", script], { env: { PATH: process.env.PATH } });
		expect([err, out.trim()]).toEqual(["", '[0,"unknown","queued"]']);
	});

	test("removes the lock of the dead, and no other", async () => {
		const world = new World();
		fs.mkdirSync(`${world.alice.directory}/live.lock`);
		world.put("live.lock/elsewher");
		fs.writeFileSync(`${world.alice.directory}/live.lock/elsewher`, "another-host pid:[1] 1\n");
		fs.writeFileSync(`${world.alice.directory}/live.lock/deaddead`, dead);
		expect(world.collect()).toEqual({ ...nothing, locks: 1 });
		expect(ls(world.alice.directory, "live.lock")).toEqual(["elsewher"]);
		fs.rmSync(`${world.alice.directory}/live.lock`, { recursive: true });
		const live = await world.alice.goLive();
		onTestFinished(() => live.end());
		expect(world.collect()).toEqual(nothing);
		expect(world.alice.live()?.instance).toBe("aaaaaaaa");
	});

	test("does nothing of a holder's on a Node that another instance holds", async () => {
		const world = new World();
		const live = await world.as("bbbbbbbb").node("alice").goLive();
		onTestFinished(() => live.end());
		world.put("cur/1.a,L=1.bbbbbbbb:2,");
		fs.writeFileSync(`${world.alice.directory}/new/2.a`, "---\nexpires: 2020-01-01T00:00:00Z\n---\nhi");
		expect(world.collect()).toEqual(nothing);
		expect(ls(world.alice.directory, "new")).toEqual(["2.a"]);
		expect(collect(world.as("bbbbbbbb"), world.as("bbbbbbbb").node("alice"))).toEqual({ ...nothing, returned: 1, expired: 1 });
	});

	test("of a Node that lacks its parts does nothing, and no harm", () => {
		const world = new World();
		for (const part of ["tmp", "new", "cur", "sent", "node.md"]) fs.rmSync(`${world.alice.directory}/${part}`, { recursive: true });
		expect(world.collect()).toEqual(nothing);
		expect(ls(world.root, "nodes")).toEqual(["alice", "bob"]);
	});
});

describe("a dry run", () => {
	/** A look at the live lock makes and removes a file in tmp/, which dates that directory. */
	const dated = (lines: string[]) => lines.filter((line) => !line.includes("/tmp "));

	test("says the same as the run, and changes nothing", () => {
		const world = new World();
		world.put(...ended.map((name) => `cur/${name}`), "cur/20.a,L=1.bbbbbbbb:2,", "new/21.a", "tmp/22.a", "cur/23.a,E=failed:2,F");
		fs.symlinkSync("../../bob", `${world.alice.directory}/sent/25.gone`);
		fs.mkdirSync(`${world.alice.directory}/live.lock`);
		fs.writeFileSync(`${world.alice.directory}/live.lock/deaddead`, dead);
		world.later = 40 * day;
		const before = world.snapshot();
		const planned = world.collect({ dryRun: true });
		expect(dated(world.snapshot())).toEqual(dated(before));
		expect(planned).toEqual({ ...nothing, handoffs: ended.length, pointers: 1, temporary: 1, locks: 1, returned: 1 });
		expect(world.collect()).toEqual(planned);
		expect(world.collect({ dryRun: true })).toEqual(nothing);
	});

	test("says what has expired, and ends nothing", () => {
		const world = new World();
		fs.writeFileSync(`${world.alice.directory}/new/1.a`, "---\nexpires: 2020-01-01T00:00:00Z\n---\nhi");
		const before = world.snapshot();
		expect(world.collect({ dryRun: true })).toEqual({ ...nothing, expired: 1 });
		expect(dated(world.snapshot())).toEqual(dated(before));
		expect(world.collect()).toEqual({ ...nothing, expired: 1 });
	});

	test("removes no Node", () => {
		const world = new World();
		const derived = world.tree.join("derived", { derived: "true" });
		world.later = 40 * day;
		expect(world.collect({ dryRun: true }, derived).removed).toBe(true);
		expect(world.tree.has("derived")).toBe(true);
		expect(world.collect({}, derived).removed).toBe(true);
		expect(world.tree.has("derived")).toBe(false);
	});
});

describe("an empty Node", () => {
	test("whose name nobody chose is removed when it was not used for as long, with its other names", () => {
		const world = new World();
		const derived = world.tree.join("derived", { derived: "true" });
		derived.alias("d");
		world.later = 29 * day;
		expect(world.collect({}, derived).removed).toBe(false);
		world.later = 31 * day;
		expect(world.collect({}, derived).removed).toBe(true);
		expect(ls(world.root, "nodes")).toEqual(["alice", "bob"]);
	});

	test("stays when somebody chose its name", () => {
		const world = new World();
		world.later = 400 * day;
		expect(world.collect().removed).toBe(false);
		expect(world.tree.has("alice")).toBe(true);
	});

	test.each<[string, (node: Node, world: World) => void]>([
		["a Handoff waits in it", (node) => fs.writeFileSync(`${node.directory}/new/1.a`, "x")],
		["something that is no Handoff is in new/", (node) => fs.mkdirSync(`${node.directory}/new/x`)],
		["one is in hand", (node) => fs.writeFileSync(`${node.directory}/cur/1.a,L=9999999999.b:2,`, "x")],
		["one has failed", (node) => fs.writeFileSync(`${node.directory}/cur/1.a,E=failed:2,F`, "x")],
		["it has a receipt", (node, world) => void world.tree.send({ from: node.name, to: ["alice"], body: "x" })],
		[
			"somebody writes to it",
			(node, { later }) => {
				fs.writeFileSync(`${node.directory}/tmp/1.a`, "x");
				const then = new Date(Date.now() + later);
				fs.utimesSync(`${node.directory}/tmp/1.a`, then, then);
			},
		],
		["it showed itself", (node) => node.seen()],
	])("stays although nobody chose its name when %s", (_what, use) => {
		const world = new World();
		const derived = world.tree.join("derived", { derived: "true" });
		world.later = 31 * day;
		use(derived, world);
		expect(world.collect({}, derived).removed).toBe(false);
		expect(world.tree.has("derived")).toBe(true);
	});

	test("stays although nobody chose its name while it is live", async () => {
		const world = new World();
		const derived = world.tree.join("derived", { derived: "true" });
		const live = await derived.goLive({ derived: "true" });
		onTestFinished(() => live.end());
		world.later = 31 * day;
		expect(world.collect({}, derived).removed).toBe(false);
		expect(derived.live()).toBeDefined();
	});
});

describe("once a day", () => {
	test("it is done, and then nothing until a day has passed", () => {
		const world = new World();
		world.put("cur/1.a:2,S");
		world.later = 31 * day;
		const first = collect(world.tree, world.alice, { daily: true });
		expect(first).toMatchObject({ handoffs: 1 });
		// the mark is dated by the filesystem
		world.later = 23 * hour;
		expect(collect(world.tree, world.alice, { daily: true })).toBeUndefined();
		world.later = 25 * hour;
		expect(collect(world.tree, world.alice, { daily: true })).toEqual(nothing);
		expect(collect(world.tree, world.alice)).toEqual(nothing);
	});

	test("starting on a Node does it", async () => {
		const world = new World();
		world.put("cur/1.a:2,S");
		world.later = 31 * day;
		const live = await world.alice.goLive();
		onTestFinished(() => live.end());
		expect(ls(world.alice.directory, "cur")).toEqual([]);
	});

	test("removes no Node: it is just being used", () => {
		const world = new World();
		const derived = world.tree.join("derived", { derived: "true" });
		world.later = 400 * day;
		expect(collect(world.tree, derived, { daily: true })?.removed).toBe(false);
		expect(world.tree.has("derived")).toBe(true);
	});
});

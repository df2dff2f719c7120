import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parse as parseYaml } from "yaml";
import { type Node, openTree, type Presence } from "../lib/index.ts";
import { createPresence, readPresence, timestamp, writePresence } from "../lib/presence.ts";
import { ls, tempDir, tempTree } from "./helpers.ts";

const now = Date.parse("2026-11-30T12:00:00Z");
const node = (): Node => openTree({ root: tempTree().root, env: {}, clock: () => now, durable: false }).join("alice");
const file = (of: Node) => `${of.directory}/node.md`;

const all: Presence = {
	name: "alice",
	instance: "k3f9q2ab",
	host: "box",
	pid: "42",
	agent: "pi",
	model: "large-1.5",
	cwd: "/home/x/my project",
	session: "abc",
	status: "tool:bash",
	holding: "quiet",
	wake: "turn",
	since: "2026-11-30T12:00:00.000Z",
	started: "2026-11-30T11:00:00.000Z",
	derived: "true",
	about: "Builds and tests.\n\nAsk me about CI.",
};

describe("presence", () => {
	test("reads as it was written: every key, and what the Node is for", async () => {
		const alice = node();
		await alice.setPresence(all);
		expect(alice.presence()).toEqual(all);
		expect(fs.readFileSync(file(alice), "utf8")).toMatch(/^---\nname: alice\n.*\n---\nBuilds and tests\.\n\nAsk me about CI\.\n$/s);
	});

	test("reads as it was written, whatever the text, and as YAML too", async () => {
		const text = fc.oneof(
			fc.string({ unit: "binary", minLength: 1 }),
			fc.constantFrom("no", "1e3", "a: b", "\x1b[2J", "\u202e", "---", "\n---\n", "\ud800", '"x"', " x "),
		);
		const keys = ["name", "agent", "model", "cwd", "session", "status", "holding", "wake"] as const;
		const alice = node();
		await fc.assert(
			fc.asyncProperty(fc.dictionary(fc.constantFrom(...keys), text), fc.string({ unit: "grapheme" }), async (presence, about) => {
				await writePresence(alice.directory, { ...presence, about });
				const expected = Object.fromEntries(Object.entries(presence).map(([key, value]) => [key, value.toWellFormed()]));
				const said = about.trim();
				expect(readPresence(alice.directory)).toEqual(said ? { ...expected, about: said } : expected);
				const [, header = ""] = /^---\n(.*?)^---$/ms.exec(fs.readFileSync(file(alice), "utf8")) ?? [];
				expect(parseYaml(header) ?? {}).toEqual(expected);
			}),
			{ numRuns: 200 },
		);
	});

	test("is replaced whole: a reader sees the former or the next, and nothing else is left", async () => {
		const alice = node();
		const before = process.umask(0);
		try {
			await alice.setPresence({ status: "idle", about: "x".repeat(50_000) });
		} finally {
			process.umask(before);
		}
		expect(fs.statSync(file(alice)).mode & 0o777).toBe(0o600);
		const writes = Array.from({ length: 20 }, (_, n) => alice.setPresence({ status: String(n), about: String(n).repeat(20_000) }));
		let ended = false;
		const end = Promise.all(writes).then(() => {
			ended = true;
		});
		while (!ended) {
			const { status = "", about = "" } = alice.presence();
			if (status !== "idle") expect(about).toBe(status.repeat(20_000));
			await new Promise((resolve) => setImmediate(resolve));
		}
		await end;
		expect(ls(alice.directory)).toEqual(["cur", "new", "node.md", "sent", "tmp"]);
	});

	test("keeps words that nobody knows, and has no key that nobody knows", () => {
		const alice = node();
		fs.writeFileSync(file(alice), "---\nstatus: daydreaming\nwake: perhaps\nmood: good\nstatus: idle\n__proto__: x\n---\n  for tests  \n");
		expect(alice.presence()).toEqual({ status: "daydreaming", wake: "perhaps", about: "for tests" });
	});

	test("may be what a shell printed, or only text", () => {
		const alice = node();
		fs.writeFileSync(file(alice), "---\nname: alice\ncwd: /tmp/a [b] #c\n---\n");
		expect(alice.presence()).toEqual({ name: "alice", cwd: "/tmp/a [b] #c" });
		fs.writeFileSync(file(alice), "I build things.\n");
		expect(alice.presence()).toEqual({ about: "I build things." });
	});

	test("is nothing when it is missing, no file of the Node's own, or not text", () => {
		const secret = path.join(tempDir(), "secret");
		fs.writeFileSync(secret, "---\nagent: secret\n---\n");
		const ways: [string, (at: string) => void][] = [
			["missing", () => {}],
			["empty", (at) => fs.writeFileSync(at, "")],
			["a directory", (at) => fs.mkdirSync(at)],
			["a FIFO", (at) => execFileSync("mkfifo", [at])],
			["a symlink to elsewhere", (at) => fs.symlinkSync(secret, at)],
			["a dangling symlink", (at) => fs.symlinkSync("nowhere", at)],
			["a loop", (at) => fs.symlinkSync("node.md", at)],
		];
		for (const [what, make] of ways) {
			const alice = node();
			fs.rmSync(file(alice));
			make(file(alice));
			expect(alice.presence(), what).toEqual({});
			expect(alice.whereabouts().presence, what).toEqual({});
		}
	});

	test("is read from any bytes without a throw, and not beyond what a header and a text need", () => {
		const alice = node();
		fc.assert(
			fc.property(fc.uint8Array({ maxLength: 200 }), fc.boolean(), (bytes, open) => {
				fs.writeFileSync(file(alice), Buffer.concat([Buffer.from(open ? "---\nstatus: x\n" : ""), bytes]));
				for (const value of Object.values(alice.presence())) expect(value).toBeTypeOf("string");
			}),
			{ numRuns: 300 },
		);
		fs.writeFileSync(file(alice), "---\nstatus: idle\n---\n");
		fs.truncateSync(file(alice), 2 ** 31);
		expect(alice.presence().status).toBe("idle");
		expect(alice.presence().about?.length ?? 0).toBeLessThan(1_000_000);
	});

	test("of a Node that is just being made stays when it has one already", () => {
		const alice = node();
		const before = fs.readFileSync(file(alice), "utf8");
		createPresence(alice.directory, { name: "other" });
		expect(fs.readFileSync(file(alice), "utf8")).toBe(before);
		fs.rmSync(file(alice));
		createPresence(alice.directory, { name: "other" });
		expect(alice.presence()).toEqual({ name: "other" });
		expect(fs.statSync(file(alice)).mode & 0o777).toBe(0o600);
	});

	test("is replaced where a FIFO or a symlink stood, and what the symlink led to stays", async () => {
		const alice = node();
		const outside = path.join(tempDir(), "outside");
		fs.writeFileSync(outside, "outside");
		for (const make of [(at: string) => fs.symlinkSync("../../../outside", at), (at: string) => execFileSync("mkfifo", [at])]) {
			fs.rmSync(file(alice));
			make(file(alice));
			await alice.setPresence({ status: "idle" });
			expect(alice.presence().status).toBe("idle");
		}
		fs.rmSync(file(alice));
		fs.symlinkSync(outside, file(alice));
		await alice.setPresence({ status: "idle" });
		expect(fs.readFileSync(outside, "utf8")).toBe("outside");
	});

	test("has times as RFC 3339 in UTC, by the clock of the tree", () => {
		expect(timestamp({ now: () => now + 5 })).toBe("2026-11-30T12:00:00.005Z");
		expect(node().presence()).toEqual({ name: "alice", since: "2026-11-30T12:00:00.000Z" });
	});
});

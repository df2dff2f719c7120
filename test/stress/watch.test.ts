import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { openTree, type Tree } from "../../lib/index.ts";
import { cli, ls, project, run, start, tempTree, until } from "../helpers.ts";
import { type Actor, actor, watched } from "./actor.ts";
import type { WatcherOptions } from "./watcher.ts";

function aliceAndBob(): { tree: Tree; env: NodeJS.ProcessEnv; inbox: string } {
	const { root, env } = tempTree();
	const tree = openTree({ root, durable: false });
	tree.join("bob");
	return { tree, env, inbox: tree.join("alice").directory };
}

function deliver(tree: Tree): string {
	const [outcome] = tree.send({ from: "bob", to: ["alice"], body: "hello" });
	if (!outcome || outcome.error) throw outcome?.error;
	return outcome.id;
}

/** The ids that a watching process has told of: `saw ID`, or the CLI's line. */
function seen({ lines }: Actor): string[] {
	return lines.flatMap((line) => (line.startsWith("saw ") ? [line.slice(4)] : line.includes("\t") ? [line.split("\t")[3] ?? ""] : []));
}

const kinds = ["inbox.watch", "xfer watch", "xfer watch @all"] as const;

/** A process that watches alice's Inbox and has seen a first arrival. */
async function watching(kind: (typeof kinds)[number], tree: Tree, env: NodeJS.ProcessEnv, by: string[] = []): Promise<Actor> {
	const command = (node: string) => watched(start([...by, ...cli, "watch", node], { env, stdio: ["ignore", "pipe", "pipe"] }));
	const options: WatcherOptions = { node: "alice", persistent: true };
	const watcher = kind === "inbox.watch" ? actor("watcher.ts", options, env, by) : command(kind === "xfer watch" ? "alice" : "@all");
	// Nothing says when the command is ready, and what comes before that is none of its business.
	const sent = new Set<string>();
	await until(() => {
		expect(watcher.child.exitCode, watcher.errors()).toBe(null);
		sent.add(deliver(tree));
		return seen(watcher).some((id) => sent.has(id));
	}, "a first arrival");
	return watcher;
}

test.each(kinds)(
	"%s sees each of 20,000 that arrive while it is stopped, once, though the system's event queue is too short",
	async (kind) => {
		const queue = Number(fs.readFileSync("/proc/sys/fs/inotify/max_queued_events", "utf8")); // 16,384 unless somebody raised it
		const count = Math.max(20_000, queue + 1000);
		const { tree, env } = aliceAndBob();
		const watcher = await watching(kind, tree, env);
		watcher.kill("SIGSTOP");
		const { maildir } = tree.node("alice").inbox;
		const sent = Array.from({ length: count }, (_, n) => `1800000000.M${String(n).padStart(6, "0")}R00000000.host`);
		for (const id of sent) maildir.deliver(id, Buffer.from("hello"));
		watcher.kill("SIGCONT");
		const some = () => seen(watcher).filter((id) => id.startsWith("1800000000."));
		await until(() => some().length >= count, "all of them", 120_000);
		const last = deliver(tree);
		await until(() => seen(watcher).includes(last), "the last one");
		expect(some().sort()).toEqual(sent);
		watcher.kill("SIGKILL");
		await watcher.ended;
	},
);

/** A command that runs another in a user namespace where nothing is left of this. */
const without = (limit: string) => ["unshare", "-Ur", "sh", "-c", `echo 0 >/proc/sys/user/${limit} && exec "$@"`, "sh"];
const namespaces = spawnSync("unshare", ["-Ur", "true"]).status === 0;

describe.skipIf(!namespaces).each([
	["max_inotify_instances", "EMFILE"],
	["max_inotify_watches", "ENOSPC"],
])("with %s used up", (limit, code) => {
	test.each(kinds)("%s looks from time to time, says so, and sees what arrives", async (kind) => {
		const { tree, env } = aliceAndBob();
		const watcher = await watching(kind, tree, env, without(limit));
		const said = kind === "inbox.watch" ? watcher.lines.join("\n") : watcher.errors();
		expect(said).toMatch(
			kind === "inbox.watch" ? new RegExp(`^polling ${code}`, "m") : new RegExp(`^xfer: .*${code}.*looking every second`, "m"),
		);
		const sent = [deliver(tree), deliver(tree)];
		await until(() => sent.every((id) => seen(watcher).includes(id)), "the next two");
		expect(new Set(seen(watcher)).size).toBe(seen(watcher).length);
		if (kind !== "inbox.watch")
			expect(
				watcher
					.errors()
					.split("\n")
					.filter((line) => line.includes("nodes/alice/new")).length,
			).toBe(1);
	});

	test("xfer read --wait says so, and wakes all the same", async () => {
		const { tree, env, inbox } = aliceAndBob();
		const reader = watched(
			start([...without(limit), ...cli, "read", "--wait", "--as", "alice"], { env, stdio: ["ignore", "pipe", "pipe"] }),
		);
		await until(() => reader.errors().includes("looking every second"), "word of it");
		deliver(tree);
		expect(await reader.ended, reader.errors()).toBe(0);
		expect(ls(inbox, "cur")).toEqual([expect.stringMatching(/:2,S$/)]);
	});
});

test.each(kinds)("%s goes on when the directory is removed and made again", async (kind) => {
	const { tree, env, inbox } = aliceAndBob();
	const watcher = await watching(kind, tree, env);
	const sees = async () => {
		const id = deliver(tree);
		await until(() => seen(watcher).includes(id), "what came after");
	};
	const empty = () => {
		fs.rmSync(path.join(inbox, "new"), { recursive: true });
	};
	empty();
	fs.mkdirSync(path.join(inbox, "new"));
	await sees();
	empty(); // the delivery makes it again
	await sees();
	fs.renameSync(path.join(inbox, "new"), path.join(inbox, "old"));
	fs.mkdirSync(path.join(inbox, "new"));
	await sees();
	fs.rmSync(inbox, { recursive: true });
	tree.join("alice");
	await sees();
	expect(new Set(seen(watcher)).size).toBe(seen(watcher).length);
	expect(watcher.errors()).toBe("");
});

describe("an iteration", () => {
	test("ends without an error when its signal is aborted: before, while it waits, and with arrivals left", async () => {
		const { tree } = aliceAndBob();
		const { inbox } = tree.node("alice");
		const all: string[] = [];
		for await (const { id } of inbox.watch({ signal: AbortSignal.abort() })) all.push(id);
		const end = new AbortController();
		const waiting = (async () => {
			for await (const { id } of inbox.watch({ signal: end.signal, persistent: true })) all.push(id);
		})();
		end.abort(new Error("never to be seen"));
		await waiting;
		expect(all).toEqual([]);
		deliver(tree);
		deliver(tree);
		const enough = new AbortController();
		for await (const { id } of inbox.watch({ signal: enough.signal })) {
			all.push(id);
			enough.abort();
		}
		expect(all.length).toBe(1);
		expect(await inbox.takeNext({ signal: AbortSignal.abort() })).toBeUndefined();
	});

	test("that has ended keeps no process alive", async () => {
		const { tree, env } = aliceAndBob();
		const watcher = actor("watcher.ts", { node: "alice", persistent: true } satisfies WatcherOptions, env);
		await until(() => watcher.lines.includes("watching"), "the watcher");
		const id = deliver(tree);
		await until(() => watcher.lines.includes(`saw ${id}`), "an arrival");
		expect(watcher.child.exitCode).toBe(null);
		watcher.tell("end");
		expect(await watcher.ended, watcher.errors()).toBe(0);
		expect(watcher.lines.at(-1)).toBe("ended");
	});

	/** Runs a script with alice's `inbox` and `tree`; what it printed. It has to end by itself. */
	async function script(body: string, env: NodeJS.ProcessEnv): Promise<string> {
		const lib = JSON.stringify(path.join(project, "lib/index.ts"));
		const source = `import { openTree, watchTree } from ${lib}; const tree = openTree(); const { inbox } = tree.node("alice"); (async () => { ${body} })();`;
		const result = await run([process.execPath, "--input-type=module", "-e", source], { env });
		expect(result).toMatchObject({ code: 0, err: "" });
		return result.out;
	}

	test("keeps no process alive unless it is persistent", async () => {
		const { tree, env } = aliceAndBob();
		const id = deliver(tree);
		expect(await script("for await (const { id } of inbox.watch()) console.log(id);", env)).toBe(`${id}\n`);
		expect(await script("for await (const { state } of watchTree(tree)) console.log(state);", env)).toBe("");
		expect(await script("const taken = await inbox.takeNext(); taken.done(); await inbox.takeNext();", env)).toBe("");
		expect(tree.node("alice").inbox.list().items).toEqual([]);
	});

	test("that is left, or aborted before it began, keeps no process alive", async () => {
		const { tree, env } = aliceAndBob();
		const id = deliver(tree);
		const left = "for await (const { id } of inbox.watch({ persistent: true })) { console.log(id); break; }";
		expect(await script(left, env)).toBe(`${id}\n`);
		const aborted = "const end = new AbortController(); const watch = inbox.watch({ persistent: true, signal: end.signal }); end.abort();";
		expect(await script(`${aborted} console.log((await watch.next()).done);`, env)).toBe("true\n");
		expect(await script(aborted, env)).toBe("");
	});
});

/** Waits until a process has an inotify instance: it is past its start and waits for events. */
async function listening(reader: Actor): Promise<void> {
	const fds = `/proc/${reader.child.pid}/fd`;
	const links = () =>
		ls(fds).map((fd) => {
			try {
				return fs.readlinkSync(path.join(fds, fd));
			} catch {
				return "";
			}
		});
	await until(() => links().includes("anon_inode:inotify"), "a reader that waits");
}

test("of readers that wait each wakes for one Handoff, and nobody gets the same", async () => {
	const { tree, env, inbox } = aliceAndBob();
	const readers = Array.from({ length: 3 }, () =>
		watched(start([...cli, "read", "--wait", "--as", "alice"], { env, stdio: ["ignore", "pipe", "pipe"] })),
	);
	await Promise.all(readers.map(listening));
	const ended = () => readers.filter(({ child }) => child.exitCode !== null);
	for (let n = 1; n <= 3; n++) {
		deliver(tree);
		await until(() => ended().length >= n, `reader ${n}`);
		expect(ended().map(({ child }) => child.exitCode)).toEqual(Array(n).fill(0));
	}
	await Promise.all(readers.map((reader) => reader.ended));
	expect(readers.map(({ lines }) => lines.filter((line) => line === "---").length)).toEqual([2, 2, 2]);
	expect(ls(inbox, "new")).toEqual([]);
	expect(ls(inbox, "cur").length).toBe(3);
});

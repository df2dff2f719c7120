/**
 * Prints the table of the README: `npm run bench [-- ROW…]`. Every number is a ratio within one run, the best of several interleaved
 * rounds, all on the same Node.js; absolute times of a shared machine mean nothing.
 */
import { type SpawnOptions, spawn, spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { openBoard, openTree, type Tree } from "../../lib/index.ts";
import { measurePi } from "./pi.ts";

const project = path.resolve(import.meta.dirname, "../..");
const cli = path.join(project, "dist/bin/xfer.cjs");
const base = fs.mkdtempSync(path.join(os.tmpdir(), "xfer-bench-"));
const env = { PATH: process.env.PATH, HOME: base, XFER_HOME: path.join(base, "tree"), XFER_NODE: "bench", LC_ALL: "C.UTF-8" };
const rows: [what: string, reach: string, got: string][] = [];

/** Times every case once a round, and gives the best of each in ms. */
function best<K extends string>(cases: Record<K, () => void>, rounds: number): Record<K, number> {
	const times = {} as Record<K, number>;
	for (let round = 0; round < rounds; round++) {
		for (const key of Object.keys(cases) as K[]) {
			const start = process.hrtime.bigint();
			cases[key]();
			const took = Number(process.hrtime.bigint() - start) / 1e6;
			times[key] = Math.min(times[key] ?? Number.POSITIVE_INFINITY, took);
		}
	}
	return times;
}

function command(file: string, args: string[], more: SpawnOptions = {}): () => void {
	return () => {
		const { status, stderr } = spawnSync(file, args, { env, stdio: ["ignore", "pipe", "pipe"], maxBuffer: 1 << 26, ...more });
		if (status !== 0) throw new Error(`${file} ${args.join(" ")}: exit ${status}: ${stderr}`);
	};
}

const node = (...args: string[]) => command(process.execPath, args);
const has = (name: string) => spawnSync("sh", ["-c", `command -v ${name}`]).status === 0;
const times = (ratio: number) => ratio.toFixed(2);

function freshTree(durability = "none"): Tree {
	fs.rmSync(env.XFER_HOME, { recursive: true, force: true });
	const tree = openTree({ root: env.XFER_HOME, env: { XFER_DURABILITY: durability } });
	tree.join("alice");
	tree.join("bench");
	return tree;
}

function fill(tree: Tree, count: number): void {
	for (let at = 0; at < count; at++) tree.send({ from: "bench", to: ["alice"], subject: `number ${at}`, body: "hello" });
}

const benches: Record<string, () => void | Promise<void>> = {
	send() {
		freshTree();
		const { empty, ours } = best({ empty: node("-e", "0"), ours: node(cli, "send", "alice", "hello") }, 30);
		rows.push(["`xfer send alice hello`, whole process ÷ `node -e 0`", "≤ 1.5", times(ours / empty)]);
	},

	hook() {
		freshTree();
		const hook = (event: string) => () => {
			const input = JSON.stringify({ session_id: "s", cwd: base, hook_event_name: event, prompt: "x" });
			const { status, stdout } = spawnSync(process.execPath, [cli, "hook", "claude", event], { env, cwd: base, input });
			if (status !== 0 || (event !== "SessionStart" && stdout.length > 0)) throw new Error(`${event}: ${status} ${stdout}`);
		};
		hook("SessionStart")();
		const { empty, turn, stop } = best({ empty: node("-e", "0"), turn: hook("UserPromptSubmit"), stop: hook("Stop") }, 30);
		hook("SessionEnd")();
		rows.push([
			"`xfer hook` at a turn's start / at the stop, nothing waits ÷ `node -e 0`",
			"≤ 1.5",
			`${times(turn / empty)} / ${times(stop / empty)}`,
		]);
	},

	inbox() {
		fill(freshTree(), 10_000);
		const inbox = path.join(env.XFER_HOME, "nodes/alice");
		const cases: Record<string, () => void> = {
			empty: node("-e", "0"),
			first: node(cli, "inbox", "alice"),
			all: node(cli, "inbox", "alice", "--limit", "0"),
		};
		if (has("mlist")) cases.mblaze = command("sh", ["-c", 'mlist "$0" | mscan >/dev/null', inbox]);
		const { empty = 1, first = 0, all = 0, mblaze } = best(cases, 10);
		rows.push([
			"`xfer inbox`, 10,000 Handoffs ÷ `node -e 0`: the first 50 / all",
			"≤ 2 / ≤ 8",
			`${times(first / empty)} / ${times(all / empty)}`,
		]);
		if (mblaze) rows.push(["beside it: `mlist | mscan`, all ÷ `node -e 0`", "", times(mblaze / empty)]);
	},

	library() {
		const tree = freshTree("");
		const alice = path.join(env.XFER_HOME, "nodes/alice");
		const bytes = Buffer.from("---\nfrom: bench\nto: alice\nkind: task\ndate: 2026-11-30T12:00:00.000Z\ninstance: 00000000\n---\nhello");
		let count = 0;
		const bare = () => {
			const name = `${1_800_000_000 + count++}.bare`;
			const fd = fs.openSync(`${alice}/tmp/${name}`, "wx", 0o600);
			fs.writeSync(fd, bytes);
			fs.fsyncSync(fd);
			fs.closeSync(fd);
			fs.renameSync(`${alice}/tmp/${name}`, `${alice}/new/${name}`);
			const dir = fs.openSync(`${alice}/new`, "r");
			fs.fsyncSync(dir);
			fs.closeSync(dir);
			fs.symlinkSync("../../alice", `${env.XFER_HOME}/nodes/bench/sent/${name}`);
		};
		const ours = () => void tree.send({ from: "bench", to: ["alice"], body: "hello" });
		const some = (act: () => void) => () => {
			for (let at = 0; at < 50; at++) act();
		};
		const got = best({ bare: some(bare), ours: some(ours) }, 30);
		rows.push(["durable send in the library ÷ the bare system calls", "≤ 1.3", times(got.ours / got.bare)]);
		if (has("mdeliver")) {
			const foreign: Record<string, () => void> = {
				cli: node(cli, "send", "alice", "hello"),
				mdeliver: command("sh", ["-c", 'printf "a: b\\n\\nhello" | mdeliver "$0"', alice]),
			};
			if (has("safecat")) foreign.safecat = command("sh", ["-c", 'printf hello | safecat "$0/tmp" "$0/new"', alice]);
			const { cli: own = 1, ...others } = best(foreign, 20);
			for (const [name, took] of Object.entries(others))
				rows.push([`beside it: \`${name}\`, whole process ÷ \`xfer send\``, "", times(took / own)]);
		}
	},

	shell() {
		freshTree();
		const alice = path.join(env.XFER_HOME, "nodes/alice");
		const xfer = path.join(project, "spec/xfer.sh");
		const got = best(
			{
				bare: command("sh", ["-c", 'printf hello >"$0/tmp/x" && mv "$0/tmp/x" "$0/new/x"', alice]),
				synced: command("sh", [xfer, "send", "alice", "hello"]),
				unsynced: command("sh", [xfer, "send", "alice", "hello"], { env: { ...env, XFER_DURABILITY: "none" } }),
			},
			100,
		);
		rows.push([
			"`sh spec/xfer.sh send` ÷ `sh -c 'printf … >tmp && mv'`: with fsync / without",
			"≤ 6 / ≤ 3.5",
			`${times(got.synced / got.bare)} / ${times(got.unsynced / got.bare)}`,
		]);
	},

	async board() {
		const tree = freshTree();
		const board = openBoard(tree);
		const text = "They are read twice: once for the list and once for the take. See lib/inbox.ts, and what mblaze does about it.";
		const card = (title: string, entries: number) => {
			const { file, id } = board.create({ title, author: "bench", text: "Where do we keep the parsed headers?" });
			for (let at = 0; at < entries; at++) board.add(file, { author: "bench", text });
			return id;
		};
		for (let at = 0; at < 1000; at++) card(`Number ${at} of the Cards`, 20);
		const cases: Record<string, () => void> = { empty: node("-e", "0"), list: node(cli, "board", "list") };
		const backlog = path.join(base, "backlog");
		if (has("backlog")) {
			fs.mkdirSync(backlog);
			const cwd = { cwd: backlog };
			command("git", ["init", "-q", "."], cwd)();
			command("backlog", ["init", "bench", "--defaults", "--integration-mode", "none"], cwd)();
			const [begin, end] = ["<!-- SECTION:DESCRIPTION:BEGIN -->", "<!-- SECTION:DESCRIPTION:END -->"];
			for (let at = 1; at <= 1000; at++) {
				const front = `id: TASK-${at}\ntitle: Number ${at}\nstatus: To Do\nassignee: []\ncreated_date: '2026-11-30 12:00'\nlabels: []\ndependencies: []`;
				const body = `## Description\n\n${begin}\n${`${text}\n\n`.repeat(20)}${end}\n`;
				fs.writeFileSync(path.join(backlog, `backlog/tasks/task-${at} - Number-${at}.md`), `---\n${front}\n---\n\n${body}`);
			}
			cases.backlog = command("backlog", ["task", "list", "--plain"], cwd);
		}
		const got = best(cases, 15);
		rows.push(["`xfer board list`, 1,000 Cards of 20 Entries ÷ `node -e 0`", "≤ 4", times((got.list ?? 0) / (got.empty ?? 1))]);
		if (got.backlog)
			rows.push(["beside it: `backlog task list --plain`, 1,000 tasks ÷ `node -e 0`", "", times(got.backlog / (got.empty ?? 1))]);
		const [small, big] = [card("Small", 50), card("Big", 5000)];
		const added = best({ small: node(cli, "board", "add", small, text), big: node(cli, "board", "add", big, text) }, 30);
		rows.push(["`xfer board add` to a Card of 5,000 Entries ÷ one of 50", "≤ 1.3", times(added.big / added.small)]);
	},

	async pi() {
		const got = await measurePi(freshTree(), path.join(base, "pi"));
		const ms = (count: number) => `${count.toFixed(0)} ms`;
		rows.push([
			"pi, ready with the extension: over one that does nothing / over none (median)",
			"< 15 ms",
			`${ms(got.ours - got.empty)} / ${ms(got.ours - got.none)}`,
		]);
		rows.push(["pi, idle: file in `new/` → request sent, over a bare push (p50)", "< 60 ms", ms(got.delivered - got.bare)]);
	},

	async watch() {
		for (const waiting of [0, 10_000]) {
			const tree = freshTree();
			fill(tree, waiting);
			const { path: alice } = tree.node("alice").inbox.maildir;
			const stop = new AbortController();
			const arrivals: Record<"bare" | "ours", Map<string, number>> = { bare: new Map(), ours: new Map() };
			const watcher = fs.watch(`${alice}/new`, (_, name) => {
				if (name) arrivals.bare.set(name, performance.now());
			});
			const done = (async () => {
				for await (const { name } of tree.node("alice").inbox.watch({ signal: stop.signal, waiting: false }))
					arrivals.ours.set(name, performance.now());
			})();
			const started = new Map<string, number>();
			for (let at = 0; at < 400; at++) {
				const name = `${1_900_000_000 + at}.x`;
				fs.writeFileSync(`${alice}/tmp/${name}`, "hello");
				started.set(name, performance.now());
				fs.renameSync(`${alice}/tmp/${name}`, `${alice}/new/${name}`);
				await sleep(5);
			}
			await sleep(200);
			stop.abort();
			watcher.close();
			await done;
			const spans = (which: "bare" | "ours") =>
				[...started].map(([name, at]) => (arrivals[which].get(name) ?? Number.POSITIVE_INFINITY) - at).sort((a, b) => a - b);
			const at = (list: number[], share: number) => list[Math.floor(list.length * share)] ?? 0;
			const [bare, ours] = [spans("bare"), spans("ours")];
			rows.push([
				`rename into \`new/\` → handler called, ${waiting ? "10,000 waiting" : "none waiting"}: p50 ÷ bare \`fs.watch\`; p99`,
				"≤ 2; < 20 ms",
				`${times(at(ours, 0.5) / at(bare, 0.5))}; ${at(ours, 0.99).toFixed(1)} ms`,
			]);
		}
	},

	take() {
		const got: Record<string, number> = {};
		const trees = [0, 100_000].map((read) => {
			const root = path.join(base, `take-${read}`);
			const tree = openTree({ root, env: { XFER_DURABILITY: "none" } });
			const { maildir } = tree.join("alice").inbox;
			tree.join("bench");
			for (let at = 0; at < read; at++) fs.writeFileSync(`${maildir.path}/cur/${1_700_000_000 + at}.M000000R00000000.x:2,S`, "");
			return { read, tree };
		});
		for (let round = 0; round < 10; round++) {
			for (const { read, tree } of trees) {
				for (let at = 0; at < 200; at++) tree.send({ from: "bench", to: ["alice"], body: "hello" });
				const { inbox } = tree.node("alice");
				inbox.take()?.done(); // the listing of cur/ for leases, which happens every half minute
				const start = process.hrtime.bigint();
				for (let taken = inbox.take(); taken; taken = inbox.take()) taken.done();
				const took = Number(process.hrtime.bigint() - start) / 1e6;
				got[read] = Math.min(got[read] ?? Number.POSITIVE_INFINITY, took);
			}
		}
		rows.push(["one take, 100,000 read files in `cur/` ÷ none", "≤ 1.2", times((got[100_000] ?? 0) / (got[0] ?? 1))]);
	},

	async rest() {
		freshTree();
		const child = spawn(process.execPath, [cli, "watch", "alice"], { env, stdio: "ignore" });
		try {
			await sleep(3000);
			const ticks = () => {
				const fields = fs
					.readFileSync(`/proc/${child.pid}/stat`, "latin1")
					.replace(/^.*\) /s, "")
					.split(" ");
				return Number(fields[11]) + Number(fields[12]);
			};
			const before = ticks();
			await sleep(60_000);
			const cpu = ((ticks() - before) / 100 / 60) * 100;
			const rss = /VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${child.pid}/status`, "latin1"))?.[1];
			rows.push([
				"`xfer watch` at rest: CPU over a minute; RSS",
				"0 %; ≤ 80 MB",
				`${cpu.toFixed(2)} %; ${Math.round(Number(rss) / 1024)} MB`,
			]);
		} finally {
			child.kill();
		}
	},
};

try {
	const wanted = process.argv.slice(2);
	for (const [name, bench] of Object.entries(benches)) if (wanted.length === 0 || wanted.includes(name)) await bench();
} finally {
	fs.rmSync(base, { recursive: true, force: true });
}
console.log(`| what | to reach | ${new Date().toISOString().slice(0, 10)}, Node.js ${process.version} |\n|---|---|---|`);
for (const row of rows) console.log(`| ${row.join(" | ")} |`);

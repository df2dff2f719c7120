/** An Adapter Daemon that is killed again and again, with handlers that do what handlers do. */
import fs from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { openTree } from "../../lib/index.ts";
import { cli, ls, start, tempTree, until } from "../helpers.ts";
import { watched } from "./actor.ts";

const count = 5000;
const kills = 20;
const attempts = 3;
const senders = Array.from({ length: 50 }, (_, n) => `s${n}`);

/**
 * What a handler does is the text that it is given: at each attempt the next word of it, at last the last one.
 * It tells of its beginning and its end, each by one write.
 */
const handler = `
read -r plan
set -- $plan
shift $((XFER_ATTEMPT > $# ? $# - 1 : XFER_ATTEMPT - 1))
echo "begin $XFER_ID $XFER_ATTEMPT" >>"$HOME/log"
case $1 in
ok) echo "ok $XFER_ID $XFER_ATTEMPT" >>"$HOME/log" ;;
broken) echo "why it broke" >&2; exit 3 ;;
later) exit 75 ;;
crash) kill -9 $$ ;;
hang) exec sleep 1000 ;;
esac
`;

function draw(): string {
	const lot = Math.random() * 1000;
	const some = ["later", "crash", "hang"][Math.floor(Math.random() * 3)];
	if (lot < 900) return "ok";
	if (lot < 940) return "broken";
	if (lot < 975) return `${Math.random() < 0.8 ? "later" : "crash"} ok`;
	if (lot < 995) return `${some} broken`;
	return `${some} ${Math.random() < 0.5 ? "later" : "crash"} ${Math.random() < 0.5 ? "later" : "hang"}`;
}

/** The processes that work for a tree. */
function processesOf(root: string): string[] {
	return fs.readdirSync("/proc").filter((pid) => {
		try {
			return /^\d+$/.test(pid) && fs.readFileSync(`/proc/${pid}/environ`, "utf8").includes(`XFER_HOME=${root}\0`);
		} catch {
			return false; // it has ended
		}
	});
}

test(`of ${count} Handoffs each is handled, those of a sender in order, each failure is reported once, whatever handlers do and though the daemon is killed ${kills} times`, {
	timeout: 900_000,
}, async () => {
	const { root, home, env } = tempTree();
	const tree = openTree({ root, durable: false });
	tree.join("ci");
	const sent: { id: string; from: string; plan: string }[] = [];
	for (let n = 0; n < count; n++) {
		const from = senders[n % senders.length] as string;
		const plan = draw();
		const [outcome] = tree.send({ from, to: ["ci"], body: `${plan}\n` });
		if (!outcome || outcome.error) throw outcome?.error ?? new Error("not sent");
		sent.push({ id: outcome.id, from, plan });
	}
	fs.writeFileSync(path.join(home, "handler"), handler);
	const log = () => {
		try {
			return fs.readFileSync(path.join(home, "log"), "utf8").split("\n").slice(0, -1);
		} catch {
			return [];
		}
	};
	const daemon = () => {
		const args = ["--concurrency", "8", "--attempts", `${attempts}`, "--limit", "2s", "--once", "--", "sh", path.join(home, "handler")];
		const own = { ...env, XFER_DURABILITY: "none" };
		return watched(start([...cli, "adapter", "ci", ...args], { env: own, cwd: home, stdio: ["ignore", "ignore", "pipe"] }));
	};
	for (let kill = 0; kill < kills; kill++) {
		const running = daemon();
		const enough = (count * 0.9 * (kill + Math.random())) / kills;
		await until(() => log().length / 2 > enough && log().length > 0, "some progress", 300_000);
		running.kill("SIGKILL");
		expect(await running.ended, running.errors()).toBe("SIGKILL");
	}
	const last = daemon();
	expect(await last.ended, last.errors()).toBe(0);

	const states = new Map(ls(root, "nodes/ci/cur").map((name) => [name.replace(/[:,].*/, ""), name.replace(/^[^:,]+(,A=\d+)?/, "")]));
	expect([ls(root, "nodes/ci/new"), states.size]).toEqual([[], count]);
	const began = new Map<string, number[]>();
	const succeeded = new Map<string, number[]>();
	for (const [what = "", id = "", attempt = ""] of log().map((line) => line.split(" "))) {
		const map = what === "begin" ? began : succeeded;
		map.set(id, [...(map.get(id) ?? []), Number(attempt)]);
	}
	const told = new Map<string, number>();
	for (const from of senders)
		for (const name of ls(root, "nodes", from, "new")) {
			const text = fs.readFileSync(path.join(root, "nodes", from, "new", name), "utf8");
			const re = /^re: (\S+)$/m.exec(text)?.[1] ?? "";
			expect(text).toMatch(/^---\nfrom: ci\n(.+\n)*kind: report\nsubject: "failed: /);
			told.set(`${from} ${re}`, (told.get(`${from} ${re}`) ?? 0) + 1);
		}
	let twice = 0;
	for (const { id, from, plan } of sent) {
		const tries = began.get(id) ?? [];
		expect(tries.length, `${id} was handled`).toBeGreaterThan(0);
		expect(tries, "each attempt once, in order").toEqual([...new Set(tries)].sort((a, b) => a - b));
		const failed = states.get(id) === ",E=failed:2,F";
		if (!failed) expect(states.get(id)).toBe(":2,S");
		expect(told.get(`${from} ${id}`) ?? 0, `reports on ${id}: ${plan}`).toBe(failed ? 1 : 0);
		// A kill is an attempt too: what would have been done at the next one may have failed.
		if (plan === "ok") expect(failed).toBe(false);
		if (plan.endsWith("broken") || plan.split(" ").length === 3) expect(failed).toBe(true);
		if (!failed) expect(succeeded.get(id)?.length).toBeGreaterThan(0);
		if ((succeeded.get(id)?.length ?? 0) > 1) twice++;
	}
	// Done, and not marked yet when the daemon was killed: only what was in hand then.
	expect(twice).toBeLessThanOrEqual(kills * 8);
	const order = new Map<string, string[]>();
	const sender = new Map(sent.map(({ id, from }) => [id, from]));
	for (const line of log()) {
		const id = line.split(" ")[1] as string;
		const ids = order.get(sender.get(id) as string) ?? [];
		if (ids.at(-1) !== id) ids.push(id);
		order.set(sender.get(id) as string, ids);
	}
	for (const from of senders) expect(order.get(from)).toEqual(sent.filter((one) => one.from === from).map(({ id }) => id));
	await until(() => processesOf(root).length === 0, "the end of all handlers", 20_000);
	// A daemon that is killed while it asks the filesystem for its time leaves an empty file, as a sender does in `tmp/`: it goes in time.
	expect(ls(root, "nodes/ci/tmp").filter((name) => !name.startsWith(".now-"))).toEqual([]);
	expect(ls(root, "nodes/ci/live.lock")).toEqual([]);
});

/**
 * Contends for live locks as it is told, and prints how it went. Times are of the machine's monotonic clock, in ms.
 *
 * - `{ contend: NODES }` tries once for each, all at the same time: `had NODE FROM TO` when it held it for sure from the one time to the other,
 *   `lost NODE`, or `refused NODE`; and `done` after the last
 * - `{ hold: NODES }` acquires and keeps them: `holds NODE FROM`, or `refused NODE`; and when it loses one, `lost NODE`
 * - `{ check: NODES }` says `still NODE TO` of those that it still holds
 */
import fs from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { openTree, XferError } from "../../lib/index.ts";
import { LiveLock } from "../../lib/lock.ts";

export interface ContenderOptions {
	lock?: { refresh: number; stale: number };
	/** It is a command under `xfer.sh live` for this Node: says what it had, and ends. */
	under?: string;
}

export interface Command {
	contend?: string[];
	hold?: string[];
	check?: string[];
}

const options: ContenderOptions = JSON.parse(process.argv[2] ?? "{}");
const now = () => Number(process.hrtime.bigint()) / 1e6;
const moment = () => sleep(2 + Math.random() * 30);

if (options.under) {
	const file = path.join(process.env.XFER_HOME ?? "", "nodes", options.under, "live.lock", process.env.XFER_INSTANCE ?? "-");
	const from = now();
	await moment();
	const to = now();
	console.log(fs.existsSync(file) ? `had ${options.under} ${from} ${to}` : `lost ${options.under}`);
	process.exit(0);
}

await import("./orphan.ts");
const tree = openTree({ ...(options.lock && { lock: options.lock }) });
const locks = new Map<string, LiveLock>();

async function acquire(name: string): Promise<LiveLock | undefined> {
	try {
		return await LiveLock.acquire(tree.context, tree.node(name).directory);
	} catch (error) {
		if (!(error instanceof XferError) || error.code !== "EHELD") throw error;
		console.log(`refused ${name}`);
		return undefined;
	}
}

async function contend(name: string): Promise<void> {
	const lock = await acquire(name);
	if (!lock) return;
	const from = now();
	await moment();
	const to = now(); // before the look: if it is held then, it was held at that time
	console.log(lock.held() ? `had ${name} ${from} ${to}` : `lost ${name}`);
	lock.release();
}

async function hold(name: string): Promise<void> {
	const lock = await acquire(name);
	if (!lock) return;
	locks.set(name, lock);
	lock.lost.addEventListener("abort", () => console.log(`lost ${name}`));
	console.log(`holds ${name} ${now()}`);
}

process.on("message", async (command: Command) => {
	if (command.contend) await Promise.all(command.contend.map(contend)).then(() => console.log("done"));
	if (command.hold) await Promise.all(command.hold.map(hold));
	for (const name of command.check ?? []) {
		const to = now();
		if (locks.get(name)?.held()) console.log(`still ${name} ${to}`);
	}
});
console.log(`ready ${process.pid} ${tree.context.instance}`);

/** Takes Handoffs from an Inbox and prints what became of each. What it does with one is drawn by lot. */
import { setTimeout as sleep } from "node:timers/promises";
import { openTree, type Taken, XferError } from "../../lib/index.ts";
import "./orphan.ts";

export interface TakerOptions {
	node: string;
	/** Be live on the Node before. */
	live?: boolean;
	/** Wait for each with `takeNext`. */
	next?: boolean;
	/** Take only as many as the parent has allowed by messages; a message of 0 is the end. */
	paced?: boolean;
	/** ms */
	lease?: number;
	/** How many takers are in this process, each an instance of its own. */
	hands?: number;
	/** Of ten Handoffs: how many are held for longer than the lease, and with how many in hand this process is killed. */
	outlive?: number;
	die?: number;
	/** Take nothing: at a word of the parent return the ended leases, and print how many it was. */
	sweep?: boolean;
	/** Go on when there is nothing until the parent ends it. */
	stay?: boolean;
}

const options: TakerOptions = JSON.parse(process.argv[2] ?? "{}");
const { lease = 600_000, hands = 1, outlive = 0, die = 0 } = options;
const end = new AbortController();
let allowed = options.paced ? 0 : Number.POSITIVE_INFINITY;
let wake = () => {};
process.on("message", (more: number | null) => {
	if (more === 0) end.abort();
	allowed += more ?? Number.POSITIVE_INFINITY;
	wake();
});

async function take(): Promise<void> {
	const node = openTree({ lease, durable: false }).node(options.node);
	if (options.live) await node.goLive();
	let { inbox } = node;
	while (!end.signal.aborted) {
		if (allowed < 1) {
			await new Promise<void>((resolve) => {
				wake = resolve;
			});
			continue;
		}
		const taken = options.next ? await inbox.takeNext({ signal: end.signal, persistent: true }) : inbox.take();
		if (!taken) {
			if (!options.stay) return;
			await sleep(100);
			inbox = openTree({ lease, durable: false }).node(options.node).inbox; // a new one looks for ended leases at once
			continue;
		}
		allowed--;
		console.log(`took ${taken.handoff.id} ${taken.attempts}`);
		await handle(taken);
	}
}

async function handle(taken: Taken): Promise<void> {
	const lot = Math.random() * 10;
	if (lot < die) process.kill(process.pid, "SIGKILL");
	if (lot < die + outlive) await sleep(lease + 1000 * Math.random() * 2);
	try {
		taken.done();
		console.log(`done ${taken.handoff.id}`);
	} catch (error) {
		if (!(error instanceof XferError) || error.code !== "ELOST") throw error;
		console.log(`lost ${taken.handoff.id}`);
	}
}

if (options.sweep) {
	const { inbox } = openTree().node(options.node);
	console.log("ready");
	await new Promise((resolve) => process.once("message", resolve));
	console.log(`returned ${inbox.returnLeases().returned}`);
	process.exit(0);
}
await Promise.all(Array.from({ length: hands }, take));
process.exit(0);

/**
 * Sends until it is killed or told to end: bodies of up to 1 MiB whose size and checksum stand in the subject.
 * With a key it waits for a word to send one, prints its id, and ends.
 */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { setImmediate as turn } from "node:timers/promises";
import { crc32 } from "node:zlib";
import { openTree } from "../../lib/index.ts";
import "./orphan.ts";

export interface SenderOptions {
	node: string;
	key?: string;
	/** A clock that stands still, unix ms. */
	clock?: number;
}

const { node, key, clock }: SenderOptions = JSON.parse(process.argv[2] ?? "{}");
const tree = openTree({ ...(clock !== undefined && { clock: () => clock }) });

if (key !== undefined) {
	console.log("ready");
	await once(process, "message");
	console.log(tree.send({ from: "bob", to: [node], key, body: "hello" })[0]);
	process.exit(0);
}

process.on("message", () => process.exit(0));
const limit = 1024 * 1024;
const noise = randomBytes(2 * limit);
for (;;) {
	await turn();
	const start = Math.floor(Math.random() * limit);
	const body = noise.subarray(start, start + 1 + Math.floor(Math.random() * limit));
	const [outcome] = tree.send({ from: "bob", to: [node], subject: `${body.length} ${crc32(body)}`, body });
	if (!outcome || outcome.error) throw outcome?.error;
}

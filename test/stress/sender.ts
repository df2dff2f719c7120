/** Sends until it is killed: bodies of up to 1 MiB whose size and checksum stand in the subject. */
import { randomBytes } from "node:crypto";
import { setImmediate as turn } from "node:timers/promises";
import { crc32 } from "node:zlib";
import { openTree } from "../../lib/index.ts";

export interface SenderOptions {
	node: string;
}

const { node }: SenderOptions = JSON.parse(process.argv[2] ?? "{}");
process.on("disconnect", () => process.exit(1)); // never outlives the test

const limit = 1024 * 1024;
const noise = randomBytes(2 * limit);
const tree = openTree();
for (;;) {
	await turn();
	const start = Math.floor(Math.random() * limit);
	const body = noise.subarray(start, start + 1 + Math.floor(Math.random() * limit));
	const [outcome] = tree.send({ from: "bob", to: [node], subject: `${body.length} ${crc32(body)}`, body });
	if (!outcome || outcome.error) throw outcome?.error;
}

/** Works on one Card, or on those that it is told, as long as it is told. What it does and what came of it are its lines. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import fs from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { crc32 } from "node:zlib";
import { parseCard } from "../../lib/board/card.ts";
import { type OpenCard, openBoard, openTree, XferError } from "../../lib/index.ts";
import "./orphan.ts";

export interface WriterOptions {
	/** Who it is. */
	node: string;
	does: "add" | "edit" | "repair" | "read" | "claim" | "set";
	/** The Card; who claims, or sets a key of its own name, is told it again and again. */
	file?: string;
	/** How many Entries or edits; until it is killed unless given. A reader reads until it is told to end. */
	count?: number;
	/** Most bytes of a text. */
	size?: number;
	/** Most ms between two. */
	pause?: number;
	durable?: boolean;
}

const {
	node,
	does,
	file = "",
	count = Number.POSITIVE_INFINITY,
	size = 300,
	pause = 0,
	durable = false,
}: WriterOptions = JSON.parse(process.argv[2] ?? "{}");
const tree = openTree({ durable });
const board = openBoard(tree);

/** What must not be seen in a Card that has nothing in it but whole Entries. */
function wrongWith({ entries, warnings }: Pick<OpenCard, "entries" | "warnings">, lastMayBeTorn: boolean): string[] {
	const flawed = entries.filter(({ flaws }, at) => flaws.length > 0 && !(lastMayBeTorn && at === entries.length - 1));
	return [...warnings, ...flawed.map(({ raw, flaws }) => `${flaws}: ${JSON.stringify(raw.toString().slice(0, 200))}`)];
}

async function add(): Promise<void> {
	const noise = randomBytes(size).toString("hex");
	for (let n = 0; n < count; n++) {
		const filler = noise.slice(0, Math.floor(Math.random() ** 2 * size));
		const text = `${node} ${n} ${filler.length} ${crc32(filler)}\n### k3f9q2ab · note · x · y\n${filler}`;
		const { id } = board.add(file, { author: node, text });
		console.log(`added ${id} ${crc32(text)}`);
		await sleep(Math.random() * pause);
	}
}

async function edit(): Promise<void> {
	for (let n = 0; n < count; n++) {
		await board.edit(file, { title: `Title of ${node} ${n}` });
		console.log(`edited ${n}`);
		await sleep(Math.random() * pause);
	}
}

async function repair(): Promise<void> {
	for (let n = 0; n < count; n++) {
		if (await board.repair(file)) console.log("repaired something");
		await sleep(Math.random() * pause);
	}
}

async function read(): Promise<void> {
	const path = `${board.directory}/${file}`;
	let reads = 0;
	let end = false;
	process.once("message", () => {
		end = true;
	});
	for (; !end; reads++) {
		const raw = parseCard(fs.readFileSync(path));
		for (const wrong of wrongWith(raw, true)) console.log(`wrong in the file: ${wrong}`);
		const card = await board.read(file);
		for (const wrong of wrongWith(card, false)) console.log(`wrong as it is read: ${wrong}`);
		if (!card.title.startsWith("Title of ")) console.log(`wrong title: ${card.title}`);
		await sleep(Math.random() * pause);
	}
	console.log(`read ${reads}`);
}

/** One claim a round, with the name of its winner. */
async function claim(): Promise<void> {
	for (;;) {
		const [card] = (await once(process, "message")) as [string];
		if (card === "") return;
		try {
			await board.claim(card, node);
			console.log(`${card} claimed`);
		} catch (error) {
			if (!(error instanceof XferError) || error.code !== "EHELD") throw error;
			console.log(`${card} held`);
		}
	}
}

/** Sets a key of several Cards at the time that it is told, unix ms. */
async function set(): Promise<void> {
	for (;;) {
		const [{ cards, value, at }] = (await once(process, "message")) as [{ cards: string[]; value: string; at: number }];
		await sleep(at - Date.now());
		const change = async (card: string) => {
			await board.edit(card, { [node]: value }).then(
				() => console.log(`set ${card}`),
				(error) => console.log(`failed ${card} ${error.message}`),
			);
		};
		await Promise.all(cards.map(change));
		console.log(`end ${value}`);
	}
}

console.log("ready");
if (does !== "claim" && does !== "set") await once(process, "message");
await { add, edit, repair, read, claim, set }[does]();
process.exit(0);

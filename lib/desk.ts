import { mkdirSync, rmSync } from "node:fs";
import { errno } from "./errors.ts";
import { move, readBeginning, writeNew } from "./files.ts";

/**
 * What the hooks of one session keep between two of them, each in a file of the Node's directory `.hook`:
 *
 * - `hops` those of what the agent works on: what it sends carries one more (protocol 15)
 * - `stops` how often in a row it was kept from stopping
 * - `named` the ids of what was named to it and waits to be asked for
 * - `holder` the process that refreshes the live lock
 * - `waiter` the process that waits for mail while nothing runs
 *
 * Losing one is harmless. Killed at any point a writer leaves the former text.
 */
export type Slip = "hops" | "stops" | "named" | "holder" | "waiter";

/** What a slip says; undefined when there is none. */
export function slip(node: string, name: Slip): string | undefined {
	return readBeginning(`${node}/.hook/${name}`, 65_536)?.trim();
}

/** As `slip`, a whole number; 0 when there is none. */
export function numberOn(node: string, name: Slip): number {
	const text = slip(node, name);
	return text && /^\d{1,9}$/.test(text) ? Number(text) : 0;
}

/** Replaces a slip; takes it away when there is nothing to say. */
export function setSlip(node: string, name: Slip, text: string | number | undefined): void {
	const file = `${node}/.hook/${name}`;
	if (text === undefined) {
		rmSync(file, { force: true });
		return;
	}
	const temporary = `${file}.${process.pid}`;
	const write = () => {
		rmSync(temporary, { force: true });
		writeNew(temporary, Buffer.from(`${text}\n`), false);
	};
	try {
		write();
	} catch (error) {
		if (errno(error) !== "ENOENT") throw error;
		try {
			mkdirSync(`${node}/.hook`, { mode: 0o700 });
		} catch (error) {
			if (errno(error) !== "EEXIST") throw error; // another hook of the session was first
		}
		write();
	}
	move(temporary, file);
}

/** Takes a slip that says this away for oneself: of several that try, one gets true. */
export function takeSlip(node: string, name: Slip, text: string): boolean {
	const file = `${node}/.hook/${name}`;
	const mine = `${file}.${process.pid}`;
	if (!move(file, mine)) return false;
	if (readBeginning(mine, 65_536)?.trim() !== text) {
		move(mine, file); // another was first, and has left a new one
		return false;
	}
	rmSync(mine, { force: true });
	return true;
}

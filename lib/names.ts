import { XferError } from "./errors.ts";

/** Names that address something else than one Node (protocol 3). */
const reserved = new Set(["all", "unknown"]);

/** What to do about `bob@box`. */
export const oneMachine = "a tree is one machine's: try ssh HOST xfer send NAME -";

/** Whether this is a Node's name as it stands in the tree: lower case, 1 to 63 characters. */
export function isNodeName(text: string): boolean {
	return /^[a-z0-9][a-z0-9._-]{0,62}$/.test(text) && !reserved.has(text);
}

/**
 * The Node name that a person means: folded to lower case, else refused (protocol 3).
 * @throws {XferError} ENAME
 */
export function nodeName(text: string): string {
	const name = fold(text);
	if (isNodeName(name)) return name;
	if (reserved.has(name))
		throw new XferError(
			"ENAME",
			`"${name}" can't be a Node's name`,
			name === "all" ? "@all addresses every live Node" : "it stands for a missing sender: choose another",
		);
	if (/.@/.test(text)) throw new XferError("ENAME", `${quote(text)} is not a Node name`, oneMachine);
	throw new XferError("ENAME", `${quote(text)} is not a Node name`, "1 to 63 of a-z 0-9 . _ -, the first a letter or digit");
}

/** Upper-case ASCII to lower case, and nothing else. */
export function fold(text: string): string {
	return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}

/** A name made of any text, or undefined when nothing is left of it (protocol 3, derived names). */
export function slug(text: string): string | undefined {
	const name = fold(text)
		.replace(/[^a-z0-9._-]+/g, "-")
		.replace(/^[^a-z0-9]+/, "")
		.slice(0, 63)
		.replace(/-+$/, "");
	return isNodeName(name) ? name : undefined;
}

/** The one of `names` that `text` most likely means: at most two letters off, and fewer than half of them. */
export function similar(text: string, names: readonly string[]): string | undefined {
	let best: string | undefined;
	let least = Math.min(2, Math.floor(text.length / 2)) + 1;
	for (const name of names) {
		const far = distance(text.toLowerCase(), name);
		if (far < least) [best, least] = [name, far];
	}
	return best;
}

/** Letters added, dropped, changed or swapped with their neighbour between two short words. */
function distance(a: string, b: string): number {
	let before: number[] = [];
	let last = Array.from({ length: b.length + 1 }, (_, j) => j);
	for (let i = 1; i <= a.length; i++) {
		const row = [i];
		for (let j = 1; j <= b.length; j++) {
			const same = a[i - 1] === b[j - 1];
			let cost = Math.min((last[j - 1] ?? 0) + (same ? 0 : 1), (last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1);
			if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) cost = Math.min(cost, (before[j - 2] ?? 0) + 1);
			row.push(cost);
		}
		[before, last] = [last, row];
	}
	return last[b.length] ?? 0;
}

function quote(text: string): string {
	return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
}

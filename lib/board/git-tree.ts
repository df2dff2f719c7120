import { XferError } from "../errors.ts";
import { isCardName } from "./card-file.ts";
import type { Git } from "./git.ts";

/** What has a name in a tree of git. */
export interface TreeItem {
	readonly mode: string;
	readonly type: string;
	readonly oid: string;
}

/** The items of a tree by their names; as Latin-1, since a name is bytes, and what is no UTF-8 must stay what it is. */
export type Tree = Map<string, TreeItem>;

/**
 * The items of a commit or tree, without those in directories.
 * @throws {XferError} EGIT with git's words; for a name that git itself would not check out, but fetches
 */
export async function readTree(git: Git, id: string | undefined): Promise<Tree> {
	const tree: Tree = new Map();
	if (id === undefined) return tree;
	const out = await git.run(["ls-tree", "-z", id]);
	for (const line of out.toString("latin1").split("\0")) {
		const [, mode = "", type = "", oid = "", name] = /^(\d+) (\w+) (\w+)\t(.*)$/s.exec(line) ?? [];
		if (name === undefined) continue;
		if (name.includes("/") || /^(?:\.{0,2}|\.git)$/i.test(name))
			throw new XferError("EGIT", `${id} holds a name that is no file name: ${name}`, "do not merge it");
		tree.set(name, { mode, type, oid });
	}
	return tree;
}

/** Stores a tree. */
export async function writeTree(git: Git, tree: Tree): Promise<string> {
	const lines = [...tree].map(([name, { mode, type, oid }]) => `${mode} ${type} ${oid}\t${name}\0`).join("");
	return (await git.run(["mktree", "-z"], Buffer.from(lines, "latin1"))).toString().trim();
}

/** A name as a tree has it, of one as the filesystem has it; and back. */
export function latin1Name(name: string): string {
	return Buffer.from(name).toString("latin1");
}

export function nameOf(latin1: string): string {
	return Buffer.from(latin1, "latin1").toString();
}

/** Whether it is a Card in each of these trees that has it. */
export function isCardItem(latin1: string, ...items: (TreeItem | undefined)[]): boolean {
	const name = nameOf(latin1);
	return isCardName(name) && latin1Name(name) === latin1 && items.every((item) => item === undefined || isFileItem(item));
}

/** Of a Card only the bytes count: whether it may be executed is nothing that two machines need to agree about. */
export function isSame(latin1: string, a: TreeItem | undefined, b: TreeItem | undefined): boolean {
	return a?.oid === b?.oid && a?.type === b?.type && (a?.mode === b?.mode || isCardItem(latin1, a, b));
}

export function blobOf(item: TreeItem | undefined): string[] {
	return item && isFileItem(item) ? [item.oid] : [];
}

function isFileItem(item: TreeItem | undefined): boolean {
	return item?.mode === "100644" || item?.mode === "100755";
}

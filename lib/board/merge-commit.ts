import { lstatSync } from "node:fs";
import { errno, XferError } from "../errors.ts";
import { compare } from "../filename.ts";
import { isFile } from "../files.ts";
import type { Board } from "./board.ts";
import { publishCard } from "./card-file.ts";
import type { Git } from "./git.ts";
import { blobOf, isCardItem, isSame, latin1Name, nameOf, readTree, type Tree, type TreeItem, writeTree } from "./git-tree.ts";
import { mergeCards } from "./merge.ts";
import { purgeCard, replaceCard } from "./replace.ts";
import { ownFiles } from "./repository.ts";

/** What becomes of a Card; undefined where there is none. */
export interface CardChange {
	readonly file: string;
	readonly before: Buffer | undefined;
	readonly after: Buffer | undefined;
}

/** A merge that was thought out, and of which nothing is seen yet. */
export interface Merge {
	/** The commit of HEAD; undefined when there is none yet. */
	readonly head: string | undefined;
	readonly theirs: string;
	/** HEAD has nothing that theirs has not: their commit is the merged one. */
	readonly isForward: boolean;
	/** What the merged tree holds, and its id. */
	readonly tree: Tree;
	readonly treeId: string;
	readonly cards: readonly CardChange[];
	/** Of what is no Card, the paths that change, as Latin-1, with git's letter for how. */
	readonly paths: readonly { readonly code: string; readonly path: string }[];
}

/**
 * Thinks a merge out, Card by Card; of what is no Card only one side may have changed. Stores objects, and touches nothing.
 * @param settled the index of a merge that git left, as the user has settled it
 * @returns undefined when there is nothing to merge
 * @throws {XferError} EGIT when both sides changed what is no Card
 */
export async function planMerge(git: Git, head: string | undefined, theirs: string, settled?: Tree): Promise<Merge | undefined> {
	const bases = head === undefined ? [] : await mergeBases(git, head, theirs);
	if (theirs === head || bases.includes(theirs)) return undefined;
	const [o, t] = [await readTree(git, head), await readTree(git, theirs)];
	const ancestors = await Promise.all(bases.map((base) => readTree(git, base)));
	/** What both come from; undefined when nothing, or, after merges that crossed, several. */
	const baseOf = (name: string) => {
		const [first, ...others] = ancestors.map((tree) => tree.get(name));
		return others.every((other) => isSame(name, first, other)) ? first : undefined;
	};
	const names = [...new Set([...o.keys(), ...t.keys()])].filter((name) => !isSame(name, o.get(name), t.get(name)));
	const all = [...ancestors, o, t];
	const isOurs = (name: string) => isCardItem(name) || ownFiles.includes(name);
	const blobs = await git.blobs(names.filter(isOurs).flatMap((name) => all.flatMap((tree) => blobOf(tree.get(name)))));
	const bytesOf = (item: TreeItem | undefined) => (item ? blobs.get(item.oid) : undefined);

	const tree: Tree = new Map(o);
	const cards: CardChange[] = [];
	const others = new Set<string>();
	for (const name of names) {
		const [base, ours, their] = [baseOf(name), o.get(name), t.get(name)];
		if (isSame(name, base, their)) continue;
		let item = their;
		if (!isSame(name, base, ours)) {
			const bytes = [bytesOf(ours), bytesOf(their)] as const;
			if (isCardItem(name, ours, their)) {
				if (!their) continue; // deleted there, changed here
				if (bytes[0] && bytes[1]) {
					const common = ancestors.flatMap((ancestor) => bytesOf(ancestor.get(name)) ?? []);
					const one = common.length > 0 ? common.reduce((a, b) => mergeCards(undefined, a, b)) : undefined;
					item = await store(git, blobs, mergeCards(one, bytes[0], bytes[1]));
				}
			} else if (ownFiles.includes(name) && bytes[0] && bytes[1]) item = await store(git, blobs, uniteLines(bytes[0], bytes[1]));
			else if (settled) {
				// It lies in the directory and the index as the user has settled it.
				const own = settled.get(name);
				if (own) tree.set(name, own);
				else tree.delete(name);
				continue;
			} else if (ours || base)
				throw new XferError("EGIT", `${nameOf(name)} was changed here and there`, "git merge it, settle that, then sync again");
		}
		if (item) tree.set(name, item);
		else tree.delete(name);
		if (isSame(name, item, ours)) continue;
		if (isCardItem(name, ours, item)) cards.push({ file: nameOf(name), before: bytesOf(ours), after: bytesOf(item) });
		else if (name.toLowerCase() !== ".locks") others.add(name); // those are this machine's
	}
	const treeId = await writeTree(git, tree);
	const paths = others.size === 0 ? [] : await changedPaths(git, head, treeId, others);
	return { head, theirs, isForward: head === undefined || bases.includes(head), tree, treeId, cards, paths };
}

/**
 * What is no Card is left to git, which must not overwrite the user's own changes.
 * @throws {XferError} EGIT when it would
 */
export async function requireClean(board: Board, git: Git, { head, treeId, paths }: Merge): Promise<void> {
	if (paths.length === 0) return;
	const differs = async (tree: string) =>
		new Set((await git.run(["diff", "--name-only", "-z", "--no-renames", tree])).toString("latin1").split("\0"));
	const [fromOld, fromNew] = [await differs(head ?? (await emptyTree(git))), await differs(treeId)];
	for (const { code, path } of paths) {
		const file = Buffer.concat([Buffer.from(`${board.directory}/`), Buffer.from(path, "latin1")]);
		if (code === "A" ? !isThere(file) : !fromOld.has(path)) continue;
		if (!fromNew.has(path)) continue; // it is there already: a sync was killed
		throw new XferError("EGIT", `your changes to ${nameOf(path)} would be overwritten`, "commit or move them, then sync again");
	}
}

/**
 * Brings a merge into the directory, the index and HEAD, in this order. Killed before the last step it leaves Cards, files and an index that have what HEAD has
 * not yet: the next sync commits the Cards, and merges again into what is there.
 * @param from what to call theirs
 * @throws {XferError} EGIT, EHELD · the system's error
 */
export async function bringIn(board: Board, git: Git, merge: Merge, me: string, from: string): Promise<void> {
	const { head, theirs, isForward, tree, treeId, cards, paths } = merge;
	let commit = theirs;
	if (head !== undefined && !isForward) {
		const args = [...(await git.identity(me, board.context.host)), "commit-tree", treeId, "-p", head, "-p", theirs];
		commit = (await git.run([...args, "-m", `board: merge ${from}`])).toString().trim();
	}
	await writeCards(board, cards);
	const some = (isWanted: (code: string) => boolean) =>
		Buffer.from(
			paths
				.filter(({ code }) => isWanted(code))
				.map(({ path }) => path)
				.join("\0"),
			"latin1",
		);
	const [present, gone] = [some((code) => code !== "D"), some((code) => code === "D")];
	const fromInput = ["--pathspec-from-file=-", "--pathspec-file-nul"];
	if (present.length > 0) await git.run(["checkout", "--quiet", commit, ...fromInput], present);
	if (gone.length > 0) await git.run(["rm", "--quiet", "--force", "--ignore-unmatch", ...fromInput], gone);
	const zero = "0".repeat(commit.length);
	const index = cards.map(({ file }) => {
		const item = tree.get(latin1Name(file));
		return item ? `${item.mode} ${item.oid}\t${file}\0` : `0 ${zero}\t${file}\0`;
	});
	await git.run(["update-index", "-z", "--index-info"], index.join(""));
	await git.run(["update-ref", "-m", "xfer board sync", "HEAD", commit, head ?? zero]);
	await git.try(["update-index", "-q", "--refresh"]);
}

/** Of several anyone is as good, but both sides must take them in the same order. */
async function mergeBases(git: Git, head: string, theirs: string): Promise<string[]> {
	const { code, out, words } = await git.try(["merge-base", "--all", head, theirs]);
	if (code > 1) throw new XferError("EGIT", `git merge-base: ${words}`);
	const bases: string[] = out.toString().match(/\S+/g) ?? [];
	return bases.sort(compare);
}

async function emptyTree(git: Git): Promise<string> {
	return await writeTree(git, new Map());
}

async function changedPaths(git: Git, head: string | undefined, tree: string, names: ReadonlySet<string>): Promise<Merge["paths"]> {
	const out = await git.run(["diff-tree", "-r", "-z", "--no-renames", "--name-status", head ?? (await emptyTree(git)), tree]);
	const words = out.toString("latin1").split("\0");
	const paths: { code: string; path: string }[] = [];
	for (let at = 0; at + 1 < words.length; at += 2) {
		const [code = "", path = ""] = words.slice(at, at + 2);
		if (names.has(path.split("/", 1)[0] ?? "")) paths.push({ code, path });
	}
	return paths;
}

function isThere(path: Buffer): boolean {
	try {
		lstatSync(path);
		return true;
	} catch (error) {
		if (errno(error) === "ENOENT" || errno(error) === "ENOTDIR") return false;
		throw error;
	}
}

async function store(git: Git, blobs: Map<string, Buffer>, bytes: Buffer): Promise<TreeItem> {
	const oid = (await git.run(["hash-object", "-w", "--stdin"], bytes)).toString().trim();
	blobs.set(oid, bytes);
	return { mode: "100644", type: "blob", oid };
}

function uniteLines(ours: Buffer, theirs: Buffer): Buffer {
	const lines: string[] = ours.toString().match(/[^\n]+/g) ?? [];
	for (const line of theirs.toString().match(/[^\n]+/g) ?? []) if (!lines.includes(line)) lines.push(line);
	return Buffer.from(`${lines.join("\n")}\n`);
}

/** Brings Cards into the directory, each with what others have added to it since it was committed. */
async function writeCards(board: Board, cards: readonly CardChange[]): Promise<void> {
	// A few at a time: each waits a moment for late writers.
	const rest = [...cards];
	const worker = async () => {
		for (let card = rest.shift(); card; card = rest.shift()) await writeCard(board, card);
	};
	await Promise.all(Array.from({ length: 32 }, worker));
}

async function writeCard({ context, directory }: Board, { file, before, after }: CardChange): Promise<void> {
	const path = `${directory}/${file}`;
	if (!after) {
		if (before && isFile(path)) await purgeCard(context, path, before);
		return; // what was changed meanwhile stays
	}
	for (let tries = 0; ; tries++) {
		try {
			if (!lstatSync(path, { throwIfNoEntry: false }) && publishCard(context, path, after)) return;
			await replaceCard(context, path, (now) => mergeCards(before, now, after));
			return;
		} catch (error) {
			if (errno(error) !== "ENOENT" || tries > 10) throw error; // removed just now: then it is new
		}
	}
}

import { lstatSync } from "node:fs";
import { type Board, isCardName } from "./board.ts";
import { errno, XferError } from "./errors.ts";
import { compare } from "./filename.ts";
import { isFile, makeDirectories, publish } from "./files.ts";
import type { Git } from "./git.ts";
import { mergeCards } from "./merge.ts";
import { purgeCard, replaceCard } from "./replace.ts";
import { ownFiles } from "./repository.ts";

/** A file's place in a tree of git. */
export interface Place {
	readonly mode: string;
	readonly type: string;
	readonly oid: string;
}

/** What becomes of a Card in a merge; undefined where there is none. */
export interface Change {
	readonly file: string;
	readonly before: Buffer | undefined;
	readonly after: Buffer | undefined;
}

/** What is merged where. */
export interface Merge {
	readonly board: Board;
	readonly git: Git;
	/** Who commits. */
	readonly me: string;
	/** The commit of HEAD; undefined when there is none yet. */
	readonly head: string | undefined;
	readonly theirs: string;
	/** What to call theirs. */
	readonly from: string;
}

/**
 * Merges a commit into HEAD, the Board's directory and the index.
 * @param told called with each Card that changes, before it does
 * @returns the Cards that changed
 */
export async function mergeCommit({ board, git, me, head, theirs, from }: Merge, told: (change: Change) => void): Promise<string[]> {
	if (theirs === head) return [];
	const bases: string[] =
		head === undefined ? [] : ((await git.try(["merge-base", "--all", head, theirs])).out.toString().match(/\S+/g) ?? []);
	if (bases.includes(theirs)) return [];
	const [o, t] = [await listTree(git, head), await listTree(git, theirs)];
	const before = await Promise.all(bases.sort(compare).map((base) => listTree(git, base)));
	/** What both come from; undefined when nothing, or, after merges that crossed, several. */
	const baseOf = (name: string) => {
		const [first, ...others] = before.map((places) => places.get(name));
		return others.every((other) => isSame(first, other)) ? first : undefined;
	};
	const names = [...new Set([...o.keys(), ...t.keys()])].filter((name) => !isSame(o.get(name), t.get(name)));
	const blobs = await git.blobs(
		names.flatMap((name) =>
			isCard(name) || ownFiles.includes(name) ? [...before, o, t].flatMap((places) => blobOf(places.get(name))) : [],
		),
	);
	const bytesOf = (place: Place | undefined) => (place ? blobs.get(place.oid) : undefined);

	// The merged tree, and what becomes of each file in it.
	const result = new Map(o);
	const cards: Change[] = [];
	const others: string[] = [];
	for (const name of names) {
		const [base, ours, their] = [baseOf(name), o.get(name), t.get(name)];
		let place = their;
		if (isSame(base, their)) continue;
		if (!isSame(base, ours)) {
			const [mine, other] = [bytesOf(ours), bytesOf(their)];
			if (isCard(name, ours, their)) {
				if (!their) continue; // deleted there, changed here
				if (ours && mine && other) {
					const bytes = before.flatMap((places) => bytesOf(places.get(name)) ?? []);
					const common = bytes.length > 0 ? bytes.reduce((one, next) => mergeCards(undefined, one, next)) : undefined;
					place = await store(git, mergeCards(common, mine, other));
				}
			} else if (ownFiles.includes(name) && ours && mine && other) place = await store(git, uniteLines(mine, other));
			else if (ours || base)
				throw new XferError("EGIT", `${name} was changed here and there`, `git merge ${from}, settle it, then sync again`);
		}
		if (place) result.set(name, place);
		else result.delete(name);
		if (isSame(place, ours)) continue;
		if (isCard(name, ours, place)) {
			if (place && !blobs.has(place.oid)) for (const [oid, bytes] of await git.blobs([place.oid])) blobs.set(oid, bytes);
			cards.push({ file: nameOf(name), before: bytesOf(ours), after: bytesOf(place) });
		} else if (name !== ".locks") others.push(name); // those are this machine's
	}
	const lines = [...result].map(([name, { mode, type, oid }]) => `${mode} ${type} ${oid}\t${name}\0`).join("");
	const merged = (await git.run(["mktree", "-z"], Buffer.from(lines, "latin1"))).toString().trim();
	const old = head ?? (await git.run(["mktree"], "")).toString().trim();
	const paths = others.length === 0 ? [] : await changedPaths(board, git, old, merged, others);
	let commit = theirs;
	if (head !== undefined && !bases.includes(head)) {
		const args = [...(await git.identity(me, board.context.host)), "commit-tree", merged, "-p", head, "-p", theirs];
		commit = (await git.run([...args, "-m", `board: merge ${from}`])).toString().trim();
	}
	// Notes first: should we be killed now, the next sync finds the same Cards new, and each note has its id.
	for (const card of cards) told(card);
	await write(board, cards);
	const [present, gone] = [paths.filter(({ code }) => code !== "D"), paths.filter(({ code }) => code === "D")];
	const fromFile = ["--pathspec-from-file=-", "--pathspec-file-nul"];
	if (present.length > 0) await git.run(["checkout", "--quiet", commit, ...fromFile], listed(present.map(({ path }) => path)));
	if (gone.length > 0) await git.run(["rm", "--quiet", "--force", "--ignore-unmatch", ...fromFile], listed(gone.map(({ path }) => path)));
	const index = cards.map(({ file }) => {
		const place = result.get(raw(file));
		return place ? `${place.mode} ${place.oid}\t${file}\0` : `0 ${"0".repeat(commit.length)}\t${file}\0`;
	});
	await git.run(["update-index", "-z", "--index-info"], index.join(""));
	// Last: should we be killed before, the next sync merges again, into what is there already.
	await git.run(["update-ref", "-m", "xfer board sync", "HEAD", commit, head ?? "0".repeat(commit.length)]);
	await git.try(["update-index", "-q", "--refresh"]);
	return cards.map(({ file }) => file);
}

/**
 * The paths in which two trees differ, of what is no Card: that is left to git, which must not overwrite the user's own changes.
 * @throws {XferError} EGIT when it would
 */
async function changedPaths(
	board: Board,
	git: Git,
	before: string,
	after: string,
	names: readonly string[],
): Promise<{ code: string; path: string }[]> {
	const out = await git.run(["diff-tree", "-r", "-z", "--no-renames", "--name-status", before, after]);
	const words = out.toString("latin1").split("\0");
	const paths: { code: string; path: string }[] = [];
	for (let at = 0; at + 1 < words.length; at += 2) {
		const [code = "", path = ""] = words.slice(at, at + 2);
		if (names.includes(path.split("/", 1)[0] ?? "")) paths.push({ code, path });
	}
	for (const { code, path } of paths) {
		const file = Buffer.concat([Buffer.from(`${board.directory}/`), Buffer.from(path, "latin1")]);
		const isAs = async (tree: string) => (await git.try(["diff", "--quiet", tree, "--", nameOf(path)])).code === 0;
		const clean = code === "A" ? !isThere(file) : await isAs(before);
		if (!clean && !(await isAs(after)))
			throw new XferError("EGIT", `your changes to ${nameOf(path)} would be overwritten`, "commit or move them, then sync again");
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

async function store(git: Git, bytes: Buffer): Promise<Place> {
	return { mode: "100644", type: "blob", oid: (await git.run(["hash-object", "-w", "--stdin"], bytes)).toString().trim() };
}

function uniteLines(ours: Buffer, theirs: Buffer): Buffer {
	const lines: string[] = ours.toString().match(/[^\n]+/g) ?? [];
	for (const line of theirs.toString().match(/[^\n]+/g) ?? []) if (!lines.includes(line)) lines.push(line);
	return Buffer.from(`${lines.join("\n")}\n`);
}

/** Brings merged Cards into the directory, each with what others have added to it since it was committed. */
async function write(
	board: Board,
	cards: readonly { file: string; before: Buffer | undefined; after: Buffer | undefined }[],
): Promise<void> {
	const { context, directory } = board;
	makeDirectories(`${directory}/.locks`);
	const one = async ({ file, before, after }: Change) => {
		const path = `${directory}/${file}`;
		if (!after) {
			if (before && isFile(path)) await purgeCard(context, path, before);
			return; // what was changed meanwhile stays
		}
		for (let tries = 0; ; tries++) {
			try {
				if (
					!lstatSync(path, { throwIfNoEntry: false }) &&
					publish(path, `${directory}/.locks/${file}.${context.instance}.new`, after, context.durable)
				)
					return;
				await replaceCard(context, path, (now) => mergeCards(before, now, after));
				return;
			} catch (error) {
				if (errno(error) !== "ENOENT" || tries > 10) throw error; // removed just now: then it is new
			}
		}
	};
	// A few at a time: each waits a moment for late writers.
	const rest = [...cards];
	const worker = async () => {
		for (let card = rest.shift(); card; card = rest.shift()) await one(card);
	};
	await Promise.all(Array.from({ length: 32 }, worker));
}

/** The names in a tree of git, as Latin-1: a name is bytes, and what is no UTF-8 must stay what it is. */
export async function listTree(git: Git, tree: string | undefined): Promise<Map<string, Place>> {
	const places = new Map<string, Place>();
	if (tree === undefined) return places;
	const out = await git.run(["ls-tree", "-z", tree]);
	for (const line of out.toString("latin1").split("\0")) {
		const [, mode = "", type = "", oid = "", name] = /^(\d+) (\w+) (\w+)\t(.*)$/s.exec(line) ?? [];
		if (name === undefined) continue;
		// git itself would not check such a tree out; but it fetches it.
		if (name.includes("/") || /^(?:\.{0,2}|\.git)$/i.test(name))
			throw new XferError("EGIT", `${tree} holds a name that is no file name: ${name}`, "do not merge it");
		places.set(name, { mode, type, oid });
	}
	return places;
}

/** A file's name as `listTree` has it, and back. */
export function raw(name: string): string {
	return Buffer.from(name).toString("latin1");
}

export function nameOf(raw: string): string {
	return Buffer.from(raw, "latin1").toString();
}

/** Paths for git, one after the other. */
function listed(names: readonly string[]): Buffer {
	return Buffer.from(names.join("\0"), "latin1");
}

/** Of a Card only the bytes count. */
function isSame(a: Place | undefined, b: Place | undefined): boolean {
	return a?.oid === b?.oid && a?.type === b?.type && (a?.mode === b?.mode || (isFileMode(a) && isFileMode(b)));
}

function isFileMode(place: Place | undefined): boolean {
	return place?.mode === "100644" || place?.mode === "100755";
}

export function isCard(name: string, ...places: (Place | undefined)[]): boolean {
	const file = nameOf(name);
	return isCardName(file) && raw(file) === name && places.every((place) => place === undefined || isFileMode(place));
}

export function blobOf(place: Place | undefined): string[] {
	return place && isFileMode(place) ? [place.oid] : [];
}

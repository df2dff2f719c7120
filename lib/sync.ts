import { lstatSync } from "node:fs";
import { type Board, isCardName, publish, stem } from "./board.ts";
import { claimHost, type Entry, parseCard, stateOfCard } from "./card.ts";
import { sleep } from "./context.ts";
import { errno, XferError } from "./errors.ts";
import { compare } from "./filename.ts";
import { isFile, makeDirectories, readBytes } from "./files.ts";
import { readPlainFront } from "./front.ts";
import { Git } from "./git.ts";
import { notifyLostClaim, notifyMentioned } from "./mentions.ts";
import { mendCard, mergeCards, readCard } from "./merge.ts";
import { purgeCard, replaceCard } from "./replace.ts";
import { isRepository, ownFiles, setAttributes } from "./repository.ts";
import type { Outcome } from "./send.ts";
import type { Tree } from "./tree.ts";

/** What a `sync` did. */
export interface SyncReport {
	/** The Cards that were committed, by the names of their files. */
	readonly committed: readonly string[];
	/** The Cards that came, or changed, from elsewhere. */
	readonly merged: readonly string[];
	readonly pushed: boolean;
	/** The remote; undefined when there is none. */
	readonly remote: string | undefined;
	/** Notes that were handed over for what came. */
	readonly notes: readonly Outcome[];
}

/**
 * Commits what changed on the Board, fetches, merges and pushes, while others write to its Cards: they are merged with what they are at that moment, and
 * replaced as an edit does. What else the user has staged or changed stays as it is. Killed at any point it leaves Cards that have too much, never too little.
 * @param me who commits, and hands notes over for what came
 * @throws {XferError} EGIT with git's words: then what was committed is committed, and the next sync goes on
 */
export async function syncBoard(tree: Tree, board: Board, me: string, options: { mention?: boolean } = {}): Promise<SyncReport> {
	if (!isRepository(board)) throw new XferError("EGIT", "the Board is no git repository", "xfer board init [--remote URL]");
	const git = new Git(board.directory);
	await setAttributes(git);
	await settleMerge(board, git, me);
	const committed = await commit(board, git, me);
	const branch = await git.ask(["symbolic-ref", "--quiet", "--short", "HEAD"]);
	if (branch === undefined) throw new XferError("EGIT", "the repository is on no branch", "git switch main");
	const remote = (await git.ask(["config", `branch.${branch}.remote`])) ?? (await git.ask(["remote"]));
	const merged = new Set<string>();
	const notes: Outcome[] = [];
	if (!remote) return { committed, merged: [], pushed: false, remote: undefined, notes };
	const there = (await git.ask(["config", `branch.${branch}.merge`])) ?? `refs/heads/${branch}`;
	await git.neverAsk();
	for (let tries = 0; ; tries++) {
		const fetched = await git.try(["fetch", "--quiet", "--no-tags", remote]);
		if (fetched.code !== 0) throw new XferError("EGIT", `git fetch: ${fetched.words}`, kept);
		const head = await git.ask(["rev-parse", "--verify", "--quiet", "HEAD"]);
		const theirs = await git.ask(["rev-parse", "--verify", "--quiet", `refs/remotes/${remote}/${there.replace(/^refs\/heads\//, "")}`]);
		if (theirs !== undefined && theirs !== head) {
			const done = await merge(board, git, me, head, theirs, `${remote}/${branch}`, ({ file, before, after }) => {
				if (head !== undefined && after) notes.push(...tell(tree, board, me, file, before, after, options.mention ?? true));
			});
			for (const file of done) merged.add(file);
		}
		const now = await git.ask(["rev-parse", "--verify", "--quiet", "HEAD"]);
		if (now === undefined || now === theirs) return { committed, merged: [...merged], pushed: false, remote, notes };
		const push = await git.try(["push", "--porcelain", remote, `HEAD:${there}`]);
		if (push.code === 0) return { committed, merged: [...merged], pushed: true, remote, notes };
		// Somebody else pushed first: fetch what that was, and again.
		const again =
			/^!\t.*\t\[(?:rejected|remote rejected)\] \((?:fetch first|non-fast-forward|stale info|.*(?:cannot lock|failed to update) ref.*)\)/m;
		if (!again.test(push.out.toString()) || tries >= 20)
			throw new XferError(
				"EGIT",
				`git push: ${push.words || push.out.toString().trim()}`,
				"what is here is committed; the next sync goes on",
			);
		await sleep(Math.random() * 100 * (tries + 1));
	}
}

const kept = "what is here is committed; the next sync goes on";

/** A file's place in a tree of git. */
interface Place {
	readonly mode: string;
	readonly type: string;
	readonly oid: string;
}

/** Commits the Cards that changed, those paths and no others, and names them. */
async function commit(board: Board, git: Git, me: string): Promise<string[]> {
	const out = await git.run(["status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--", "."]);
	const changed = out
		.toString()
		.split("\0")
		.filter((line) => line !== "")
		.map((line) => ({ code: line.slice(0, 2), path: line.slice(3) }))
		.filter(({ path }) => !/[/\ufffd]/.test(path) && (isCardName(path) || ownFiles.includes(path)))
		.filter(
			({ path }) =>
				isFile(`${board.directory}/${path}`) || lstatSync(`${board.directory}/${path}`, { throwIfNoEntry: false }) === undefined,
		);
	if (changed.length === 0) return [];
	const added = changed.filter(({ code }) => code === "??").map(({ path }) => path);
	if (added.length > 0) await git.run(["add", "--intent-to-add", "--pathspec-from-file=-", "--pathspec-file-nul"], added.join("\0"));
	const paths = changed.map(({ path }) => path);
	const cards = paths.filter(isCardName);
	const message = await describe(board, git, cards);
	const args = [...(await git.identity(me, board.context.host)), "commit", "--quiet", "--only", "-m", message];
	const done = await git.try([...args, "--pathspec-from-file=-", "--pathspec-file-nul"], paths.join("\0"));
	if (done.code === 0) return cards;
	if (/nothing (?:added )?to commit|no changes added/.test(done.out.toString())) return []; // somebody else did
	throw new XferError("EGIT", `git commit: ${done.words || done.out.toString().trim()}`);
}

/** Says of each Card who added to it. */
async function describe(board: Board, git: Git, files: readonly string[]): Promise<string> {
	const head = await listTree(git, await git.ask(["rev-parse", "--verify", "--quiet", "HEAD^{tree}"]));
	const blobs = await git.blobs(files.flatMap((file) => blobOf(head.get(raw(file)))));
	const lines = files.map((file) => {
		const now = readBytes(`${board.directory}/${file}`, Number.POSITIVE_INFINITY);
		if (!now) return `${stem(file)} (deleted)`;
		const before = blobs.get(head.get(raw(file))?.oid ?? "");
		const fresh = newEntries(before, now).map(({ author }) => author);
		const creator = before ? undefined : readPlainFront(frontOf(now))?.get("created_by");
		const authors = [...new Set([...(creator ? [creator] : []), ...fresh])];
		return `${stem(file)} (${authors.slice(0, 5).join(", ") || "edited"}${authors.length > 5 ? ", …" : ""})`;
	});
	if (lines.length === 0) return "board: settings";
	const [first = ""] = lines;
	return lines.length === 1 ? `board: ${first}` : `board: ${lines.length} Cards\n\n${lines.join("\n")}`;
}

function frontOf(bytes: Buffer): string {
	const { front } = parseCard(bytes);
	return bytes.toString("utf8", front.begin, front.end);
}

function newEntries(before: Buffer | undefined, now: Buffer): Entry[] {
	const known = new Set(before && readCard(before).entries.map(({ id }) => id));
	return readCard(now).entries.filter(({ id }) => !known.has(id));
}

/** The names in a tree of git, as Latin-1: a name is bytes, and what is no UTF-8 must stay what it is. */
async function listTree(git: Git, tree: string | undefined): Promise<Map<string, Place>> {
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
function raw(name: string): string {
	return Buffer.from(name).toString("latin1");
}

function nameOf(raw: string): string {
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

function isCard(name: string, ...places: (Place | undefined)[]): boolean {
	const file = nameOf(name);
	return isCardName(file) && raw(file) === name && places.every((place) => place === undefined || isFileMode(place));
}

function blobOf(place: Place | undefined): string[] {
	return place && isFileMode(place) ? [place.oid] : [];
}

/** What becomes of a Card in a merge; undefined where there is none. */
interface Change {
	readonly file: string;
	readonly before: Buffer | undefined;
	readonly after: Buffer | undefined;
}

/**
 * Merges a commit into HEAD, the Board's directory and the index.
 * @returns the Cards that changed
 */
async function merge(
	board: Board,
	git: Git,
	me: string,
	head: string | undefined,
	theirs: string,
	from: string,
	told: (change: Change) => void,
): Promise<string[]> {
	const bases: string[] =
		head === undefined ? [] : ((await git.try(["merge-base", "--all", head, theirs])).out.toString().match(/\S+/g) ?? []);
	if (bases.includes(theirs)) return [];
	const base = bases.sort(compare)[0]; // of several anyone, but on both sides the same
	const [b, o, t] = [await listTree(git, base), await listTree(git, head), await listTree(git, theirs)];
	const names = [...new Set([...o.keys(), ...t.keys()])].filter((name) => !isSame(o.get(name), t.get(name)));
	const blobs = await git.blobs(
		names.flatMap((name) => (isCard(name) || ownFiles.includes(name) ? [b, o, t].flatMap((places) => blobOf(places.get(name))) : [])),
	);
	const bytesOf = (place: Place | undefined) => (place ? blobs.get(place.oid) : undefined);

	// The merged tree, and what becomes of each file in it.
	const result = new Map(o);
	const cards: Change[] = [];
	const others: string[] = [];
	for (const name of names) {
		const [base, ours, their] = [b.get(name), o.get(name), t.get(name)];
		let place = their;
		if (isSame(base, their)) continue;
		if (!isSame(base, ours)) {
			const [mine, other] = [bytesOf(ours), bytesOf(their)];
			if (isCard(name, ours, their)) {
				if (!their) continue; // deleted there, changed here
				if (ours && mine && other) place = await store(git, mergeCards(bytesOf(base), mine, other));
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
	const before = head ?? (await git.run(["mktree"], "")).toString().trim();
	const paths = others.length === 0 ? [] : await changedPaths(board, git, before, merged, others);
	let commit = theirs;
	if (head !== undefined && !bases.includes(head)) {
		const args = [...(await git.identity(me, board.context.host)), "commit-tree", merged, "-p", head, "-p", theirs];
		commit = (await git.run([...args, "-m", `board: merge ${from}`])).toString().trim();
	}
	// Notes first: should we be killed now, the next sync finds the same Cards new, and each note has its id.
	for (const card of cards) told(card);
	await write(board, cards);
	await git.run(["update-ref", "-m", "xfer board sync", "HEAD", commit, head ?? "0".repeat(commit.length)]);
	const index = cards.map(({ file }) => {
		const place = result.get(raw(file));
		return place ? `${place.mode} ${place.oid}\t${file}\0` : `0 ${"0".repeat(commit.length)}\t${file}\0`;
	});
	await git.run(["update-index", "-z", "--index-info"], index.join(""));
	const fromFile = ["--pathspec-from-file=-", "--pathspec-file-nul"];
	const [present, gone] = [paths.filter(({ code }) => code !== "D"), paths.filter(({ code }) => code === "D")];
	if (present.length > 0) await git.run(["checkout", "--quiet", commit, ...fromFile], listed(present.map(({ path }) => path)));
	if (gone.length > 0) await git.run(["rm", "--quiet", "--force", "--ignore-unmatch", ...fromFile], listed(gone.map(({ path }) => path)));
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
		const clean = code === "A" ? !isThere(file) : (await git.try(["diff", "--quiet", "HEAD", "--", nameOf(path)])).code === 0;
		if (!clean) throw new XferError("EGIT", `your changes to ${nameOf(path)} would be overwritten`, "commit or move them, then sync again");
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
			if (before && readBytes(path, Number.POSITIVE_INFINITY)?.equals(before)) await purgeCard(path);
			return; // else it was changed meanwhile, and stays
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

/** Hands notes over for what came with a merge: mentions, and a claim that does not hold any more. */
function tell(tree: Tree, board: Board, me: string, file: string, before: Buffer | undefined, after: Buffer, mention: boolean): Outcome[] {
	const front = readPlainFront(frontOf(after));
	const place = { card: front?.get("id") ?? stem(file), title: front?.get("title") ?? stem(file) };
	const notes = mention ? newEntries(before, after).flatMap((entry) => notifyMentioned(tree, place, entry, me)) : [];
	const now = board.context.now();
	const held = before && stateOfCard(readCard(before).entries, now).holder;
	const { holder } = stateOfCard(readCard(after).entries, now);
	if (!held || !holder || (held.name === holder.name && held.host === holder.host)) return notes;
	if (held.host !== claimHost(board.context) || !tree.has(held.name)) return notes;
	const date = readCard(after).entries.find(({ id }) => id === held.id)?.date;
	return [
		...notes,
		notifyLostClaim(tree, place, { id: held.id, author: held.name, date }, `${holder.name} on ${holder.host || "an unknown host"}`, me),
	];
}

/** Finishes a merge that git left, as far as it is about Cards. */
async function settleMerge(board: Board, git: Git, me: string): Promise<void> {
	const { directory, context } = board;
	const out = (await git.run(["ls-files", "--unmerged", "-z"])).toString();
	const stages = new Map<string, Map<string, string>>();
	for (const line of out.split("\0")) {
		const [, oid = "", stage = "", name] = /^\d+ (\w+) (\d)\t(.*)$/s.exec(line) ?? [];
		if (name === undefined) continue;
		stages.set(name, (stages.get(name) ?? new Map()).set(stage, oid));
	}
	const other = [...stages.keys()].find((name) => !isCardName(name) || name.includes("/"));
	if (other !== undefined) throw new XferError("EGIT", `git could not merge ${other}`, "settle it and git add it, then sync again");
	for (const [name, oids] of stages) {
		const blobs = await git.blobs([...oids.values()]);
		const [base, ours, theirs] = ["1", "2", "3"].map((stage) => blobs.get(oids.get(stage) ?? ""));
		const path = `${directory}/${name}`;
		makeDirectories(`${directory}/.locks`);
		if (!isFile(path))
			publish(path, `${directory}/.locks/${name}.${context.instance}.new`, ours ?? theirs ?? Buffer.alloc(0), context.durable);
		await replaceCard(context, path, (now) => {
			const mended = mendCard(now);
			return theirs ? mergeCards(base, mended, theirs) : mended;
		});
		await git.run(["add", "--", name]);
	}
	if ((await git.ask(["rev-parse", "--verify", "--quiet", "MERGE_HEAD"])) !== undefined)
		await git.run([...(await git.identity(me, context.host)), "commit", "--quiet", "--no-edit"]);
}

import { lstatSync } from "node:fs";
import { type Board, isCardName, stem } from "./board.ts";
import { claimHost, type Entry, parseCard, stateOfCard } from "./card.ts";
import { sleep } from "./context.ts";
import { XferError } from "./errors.ts";
import { isFile, makeDirectories, publish, readBytes } from "./files.ts";
import { readPlainFront } from "./front.ts";
import { Git } from "./git.ts";
import { notifyLostClaim, notifyMentioned } from "./mentions.ts";
import { mendCard, mergeCards, readCard } from "./merge.ts";
import { blobOf, type Change, isCard, listTree, mergeCommit, nameOf, raw } from "./merge-commit.ts";
import { replaceCard } from "./replace.ts";
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
	const branch = await git.ask(["symbolic-ref", "--quiet", "--short", "HEAD"]);
	if (branch === undefined)
		throw new XferError("EGIT", "the repository is on no branch, perhaps in a rebase", "finish that, or: git switch main");
	await setAttributes(git);
	const notes: Outcome[] = [];
	const told = (change: Change) => notes.push(...tell(tree, board, me, change, options.mention ?? true));
	// What came by a plain git pull since the last sync, and what comes with a merge that git left.
	const start = await git.ask(["rev-parse", "--verify", "--quiet", "HEAD"]);
	const last = await git.ask(["rev-parse", "--verify", "--quiet", toldRef]);
	if (last !== undefined && start !== undefined) for (const change of await between(git, last, start)) told(change);
	const left = await settleMerge(board, git);
	if (left !== undefined && start !== undefined) for (const change of await between(git, start, left)) told(change);
	const committed = await commit(board, git, me);
	const merged = new Set<string>();
	const merge = async (theirs: string, from: string) => {
		const head = await git.ask(["rev-parse", "--verify", "--quiet", "HEAD"]);
		for (const file of await mergeCommit({ board, git, me, head, theirs, from }, head === undefined ? () => {} : told)) merged.add(file);
	};
	if (left !== undefined) await merge(left, "what git left");
	const remote = await remoteOf(git, branch);
	const done = async (pushed: boolean) => {
		await git.try(["update-ref", toldRef, "HEAD"]);
		return { committed, merged: [...merged], pushed, remote, notes };
	};
	if (!remote) return await done(false);
	const there = (await git.ask(["config", `branch.${branch}.merge`])) ?? `refs/heads/${branch}`;
	await git.neverAsk();
	for (let tries = 0; ; tries++) {
		const fetched = await git.try(["fetch", "--quiet", "--no-tags", remote]);
		if (fetched.code !== 0) throw new XferError("EGIT", `git fetch: ${fetched.words}`, kept);
		const theirs = await git.ask(["rev-parse", "--verify", "--quiet", `refs/remotes/${remote}/${there.replace(/^refs\/heads\//, "")}`]);
		if (theirs !== undefined) await merge(theirs, `${remote}/${branch}`);
		const head = await git.ask(["rev-parse", "--verify", "--quiet", "HEAD"]);
		if (head === undefined || head === theirs) return await done(false);
		const push = await git.try(["push", "--porcelain", remote, `HEAD:${there}`]);
		if (push.code === 0) return await done(true);
		// Somebody else pushed first: fetch what that was, and again.
		const again =
			/^!\t.*\t\[(?:rejected|remote rejected)\] \((?:fetch first|non-fast-forward|stale info|.*(?:cannot lock|failed to update) ref.*)\)/m;
		if (!again.test(push.out.toString()) || tries >= 20)
			throw new XferError("EGIT", `git push: ${push.words || push.out.toString().trim()}`, kept);
		await sleep(Math.random() * 100 * (tries + 1));
	}
}

/** The commit up to which who is mentioned was told. */
const toldRef = "refs/xfer/told";
const kept = "what is here is committed; the next sync goes on";

/** What a commit says of each Card that another has otherwise: with all that both say. */
async function between(git: Git, before: string, after: string): Promise<Change[]> {
	if (before === after) return [];
	const [old, now] = [await listTree(git, before), await listTree(git, after)];
	const names = [...now.keys()].filter((name) => isCard(name, old.get(name), now.get(name)) && old.get(name)?.oid !== now.get(name)?.oid);
	const blobs = await git.blobs(names.flatMap((name) => [...blobOf(old.get(name)), ...blobOf(now.get(name))]));
	return names.map((name) => {
		const [one, two] = [old, now].map((places) => blobs.get(places.get(name)?.oid ?? ""));
		return { file: nameOf(name), before: one, after: one && two ? mergeCards(undefined, one, two) : two };
	});
}

/** The remote of a branch: its own, else `origin`, else the only one. */
async function remoteOf(git: Git, branch: string): Promise<string | undefined> {
	const own = await git.ask(["config", `branch.${branch}.remote`]);
	if (own) return own;
	const all: string[] = (await git.run(["remote"])).toString().match(/\S+/g) ?? [];
	if (all.length < 2 || all.includes("origin")) return all.find((name) => name === "origin") ?? all[0];
	throw new XferError(
		"EGIT",
		`several remotes, and ${branch} has none of its own: ${all.join(", ")}`,
		`git config branch.${branch}.remote NAME`,
	);
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
	if (/nothing (?:added )?to commit|no changes added/.test(done.out.toString())) {
		// HEAD has it already, and only the index does not: the user's next commit would take it back.
		await git.try(["reset", "--quiet", "--pathspec-from-file=-", "--pathspec-file-nul"], paths.join("\0"));
		return [];
	}
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

function idOf(bytes: Buffer): string | undefined {
	return readPlainFront(frontOf(bytes))?.get("id");
}

function newEntries(before: Buffer | undefined, now: Buffer): Entry[] {
	const known = new Set(before && readCard(before).entries.map(({ id }) => id));
	return readCard(now).entries.filter(({ id }) => !known.has(id));
}

/** Hands notes over for what came: mentions, and a claim that does not hold any more. */
function tell(tree: Tree, board: Board, me: string, { file, before, after }: Change, mention: boolean): Outcome[] {
	if (!after) return [];
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

/**
 * Takes a merge that git left out of its hands, as far as it is about Cards: unites them, and leaves the rest to an ordinary merge.
 * @returns the commit that was being merged
 */
async function settleMerge(board: Board, git: Git): Promise<string | undefined> {
	const { directory, context } = board;
	const left = await git.ask(["rev-parse", "--verify", "--quiet", "MERGE_HEAD"]);
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
		if (ours && theirs && idOf(ours) !== idOf(theirs))
			throw new XferError(
				"EGIT",
				`git took two Cards for one that was renamed: ${name}`,
				"git merge --abort, then sync again: it does not",
			);
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
	if (left !== undefined) await git.run(["merge", "--quit"]);
	return left;
}

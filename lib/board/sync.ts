import { lstatSync } from "node:fs";
import { sleep } from "../context.ts";
import { XferError } from "../errors.ts";
import { shellWord } from "../filename.ts";
import { isFile, readBytes } from "../files.ts";
import type { Outcome } from "../send.ts";
import type { Tree } from "../tree.ts";
import type { Board } from "./board.ts";
import { isCardName, publishCard, stem } from "./card-file.ts";
import { claimHost, holderWords, stateOfCard } from "./claims.ts";
import { frontOf, idOf } from "./front.ts";
import { Git } from "./git.ts";
import { blobOf, type Tree as Index, isCardItem, latin1Name, nameOf, readTree } from "./git-tree.ts";
import { notifyLostClaim, notifyMentioned } from "./mentions.ts";
import { mendCard, mergeCards, readCard } from "./merge.ts";
import { bringIn, type CardChange, planMerge, requireClean } from "./merge-commit.ts";
import { recover, replaceCard } from "./replace.ts";
import { isRepository, ownFiles, setAttributes } from "./repository.ts";

/** The commit up to which who is mentioned was told. */
const toldRef = "refs/xfer/told";
/** Whether a Card may be executed is nothing that two machines need to agree about. */
const bytesOnly = ["-c", "core.fileMode=false"];
const committedCure = "what is here is committed; the next sync goes on";

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
 * @throws {XferError} EGIT with git's words: what was committed is committed, and the next sync goes on · EHELD · the system's error
 */
export async function syncBoard(tree: Tree, board: Board, me: string, options: { mention?: boolean } = {}): Promise<SyncReport> {
	if (!isRepository(board)) throw new XferError("EGIT", "the Board is no git repository", "xfer board init [--remote URL]");
	const git = new Git(board.directory);
	let branch = await git.ask(["symbolic-ref", "--quiet", "--short", "HEAD"]);
	if (branch === undefined)
		throw new XferError(
			"EGIT",
			"the repository is on no branch, perhaps in a rebase",
			`finish that, or: git -C ${shellWord(board.directory)} switch main`,
		);
	await recover(board.context, board.directory);
	await setAttributes(git);
	const remote = await remoteOf(git, branch);
	const [committed, merged, notes]: [string[], Set<string>, Outcome[]] = [[], new Set(), []];
	const tell = async (changes: readonly CardChange[]) => {
		for (const change of changes) notes.push(...(await notify(tree, board, me, change, options.mention ?? true)));
	};
	const merge = async (theirs: string, from: string, settled?: Index) => {
		const plan = await planMerge(git, await headOf(git), theirs, settled);
		if (!plan) return;
		await requireClean(board, git, plan);
		// Notes first: should we be killed then, the next sync finds the same Cards new, and each note has its id. None for a Board that is new here.
		if (plan.head !== undefined) await tell(plan.cards);
		await bringIn(board, git, plan, me, from);
		for (const { file } of plan.cards) merged.add(file);
	};
	const finish = async (pushed: boolean) => {
		await git.try(["update-ref", toldRef, "HEAD"]);
		return { committed, merged: [...merged], pushed, remote, notes };
	};

	// What came by a plain git pull since the last sync, and what comes with a merge that git left.
	const [start, told] = [await headOf(git), await git.ask(["rev-parse", "--verify", "--quiet", toldRef])];
	if (told !== undefined && start !== undefined) await tell(await between(git, told, start));
	const left = await settleMerge(board, git, start);
	if (left && start !== undefined) await tell(await between(git, start, left.commit));
	committed.push(...(await commit(board, git, me)));
	if (left) await merge(left.commit, "what git left", left.settled);
	if (!remote) return await finish(false);
	await git.neverAsk();
	for (let tries = 0; ; tries++) {
		const fetched = await git.try(["fetch", "--quiet", "--no-tags", remote]);
		if (fetched.code !== 0) throw new XferError("EGIT", `git fetch: ${fetched.words}`, committedCure);
		branch = await sharedBranch(git, branch, remote);
		const there = (await git.ask(["config", `branch.${branch}.merge`])) ?? `refs/heads/${branch}`;
		const tracking = `${remote}/${there.replace(/^refs\/heads\//, "")}`;
		const theirs = await git.ask(["rev-parse", "--verify", "--quiet", `refs/remotes/${tracking}`]);
		if (theirs !== undefined) await merge(theirs, tracking);
		const head = await headOf(git);
		if (head === undefined || head === theirs) return await finish(false);
		const push = await git.try(["push", "--porcelain", remote, `HEAD:${there}`]);
		if (push.code === 0) return await finish(true);
		// Somebody else pushed first: fetch what that was, and again.
		const again =
			/^!\t.*\t\[(?:rejected|remote rejected)\] \((?:fetch first|non-fast-forward|stale info|.*(?:cannot lock|failed to update) ref.*)\)/m;
		if (!again.test(push.out.toString()) || tries >= 20)
			throw new XferError("EGIT", `git push: ${push.words || push.out.toString().trim()}`, committedCure);
		await sleep(((board.context.random(5)[0] ?? 0) / 2.56) * (tries + 1)); // not all at once
	}
}

async function headOf(git: Git): Promise<string | undefined> {
	return await git.ask(["rev-parse", "--verify", "--quiet", "HEAD"]);
}

/** What a commit says of each Card that another has otherwise: with all that both say. */
async function between(git: Git, before: string, after: string): Promise<CardChange[]> {
	if (before === after) return [];
	const [old, now] = [await readTree(git, before), await readTree(git, after)];
	const names = [...now.keys()].filter(
		(name) => isCardItem(name, old.get(name), now.get(name)) && old.get(name)?.oid !== now.get(name)?.oid,
	);
	const blobs = await git.blobs(names.flatMap((name) => [...blobOf(old.get(name)), ...blobOf(now.get(name))]));
	return names.map((name) => {
		const [one, two] = [old, now].map((tree) => blobs.get(tree.get(name)?.oid ?? ""));
		return { file: nameOf(name), before: one, after: one && two ? mergeCards(undefined, one, two) : two };
	});
}

/**
 * The branch that is pushed: this one, which the remote must have, unless it has none. A Board in which nothing was committed goes onto the remote's.
 * @throws {XferError} EGIT when the remote has others: two branches would be two Boards
 */
async function sharedBranch(git: Git, branch: string, remote: string): Promise<string> {
	const out = await git.run(["for-each-ref", "--format=%(refname:strip=3)", `refs/remotes/${remote}`]);
	const all = (out.toString().match(/\S+/g) ?? []).filter((name) => name !== "HEAD");
	const own = ((await git.ask(["config", `branch.${branch}.merge`])) ?? branch).replace(/^refs\/heads\//, "");
	if (all.length === 0 || all.includes(own)) return branch;
	const [first = branch, ...others] = all;
	const other = all.includes("main") ? "main" : first;
	const where = `git -C ${shellWord(git.directory)}`;
	if ((await headOf(git)) !== undefined || (others.length > 0 && other !== "main"))
		throw new XferError(
			"EGIT",
			`the Board is on "${branch}", and ${remote} has ${all.join(", ")}`,
			`${where} switch ${other}; or, to have it there too: ${where} push ${remote} ${branch}`,
		);
	await git.run(["symbolic-ref", "HEAD", `refs/heads/${other}`]);
	return other;
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
	const out = await git.run([...bytesOnly, "status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--", "."]);
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
	const args = [...bytesOnly, ...(await git.identity(me, board.context.host)), "commit", "--quiet", "--only", "-m", message];
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
	const head = await readTree(git, await headOf(git));
	const blobs = await git.blobs(files.flatMap((file) => blobOf(head.get(latin1Name(file)))));
	const lines: string[] = [];
	for (const file of files) {
		const now = readBytes(`${board.directory}/${file}`, Number.POSITIVE_INFINITY);
		const before = blobs.get(head.get(latin1Name(file))?.oid ?? "");
		const authors = new Set(now ? await authorsOf(before, now) : []);
		const words = now ? [...authors].slice(0, 5).join(", ") || "edited" : "deleted";
		lines.push(`${stem(file)} (${words}${authors.size > 5 ? ", …" : ""})`);
	}
	if (lines.length === 0) return "board: settings";
	return lines.length === 1 ? `board: ${lines[0]}` : `board: ${lines.length} Cards\n\n${lines.join("\n")}`;
}

async function authorsOf(before: Buffer | undefined, now: Buffer): Promise<string[]> {
	const card = readCard(now);
	const known = new Set(before && readCard(before).entries.map(({ id }) => id));
	const authors = card.entries.filter(({ id }) => !known.has(id)).map(({ author }) => author);
	const creator = before ? undefined : (await frontOf(card)).get("created_by");
	return creator ? [creator, ...authors] : authors;
}

/** Hands notes over for what came: mentions, and a claim that does not hold any more. */
async function notify(tree: Tree, board: Board, me: string, { file, before, after }: CardChange, mention: boolean): Promise<Outcome[]> {
	if (!after) return [];
	const [old, card] = [before && readCard(before), readCard(after)];
	const front = await frontOf(card);
	const ref = { id: front.get("id") || stem(file), title: front.get("title") || stem(file) };
	const known = new Set(old?.entries.map(({ id }) => id));
	const fresh = mention ? card.entries.filter(({ id }) => !known.has(id)) : [];
	const notes = fresh.flatMap((entry) => notifyMentioned(tree, ref, entry, me));
	const now = board.context.now();
	const [held, holder] = [old && stateOfCard(old.entries, now).holder, stateOfCard(card.entries, now).holder];
	if (!held || !holder || (held.name === holder.name && held.host === holder.host)) return notes;
	if (held.host !== claimHost(board.context) || !tree.has(held.name)) return notes;
	const date = card.entries.find(({ id }) => id === held.id)?.date;
	return [...notes, notifyLostClaim(tree, ref, { id: held.id, author: held.name, date }, holderWords(holder), me)];
}

/**
 * Takes a merge that git left out of its hands: unites its Cards, and leaves the rest to a merge of ours.
 * @returns the commit that was being merged, and what the user has settled
 * @throws {XferError} EGIT when the user has something to settle yet: then git's merge goes on
 */
async function settleMerge(board: Board, git: Git, head: string | undefined): Promise<{ commit: string; settled: Index } | undefined> {
	const { directory, context } = board;
	const left = await git.ask(["rev-parse", "--verify", "--quiet", "MERGE_HEAD"]);
	const out = (await git.run(["ls-files", "--unmerged", "-z"])).toString();
	const stages = new Map<string, Map<string, string>>();
	for (const line of out.split("\0")) {
		const [, oid = "", stage = "", name] = /^\d+ (\w+) (\d)\t(.*)$/s.exec(line) ?? [];
		if (name === undefined) continue;
		stages.set(name, (stages.get(name) ?? new Map()).set(stage, oid));
	}
	const other = [...stages.keys()].find((name) => !isCardName(name));
	if (other !== undefined) throw new XferError("EGIT", `git could not merge ${other}`, "settle it and git add it, then sync again");
	for (const [name, oids] of stages) {
		const blobs = await git.blobs([...oids.values()]);
		const [base, ours, theirs] = ["1", "2", "3"].map((stage) => blobs.get(oids.get(stage) ?? ""));
		const path = `${directory}/${name}`;
		const bytes = ours ?? theirs;
		if (!bytes) {
			await git.run(["rm", "--cached", "--quiet", "--ignore-unmatch", "--", name]); // renamed on both sides: it stands elsewhere
			continue;
		}
		const [one, two] = [ours && (await idOf(ours)), theirs && (await idOf(theirs))];
		if (one !== undefined && two !== undefined && one !== two)
			throw new XferError(
				"EGIT",
				`git took two Cards for one that was renamed: ${name}`,
				"git merge --abort, then sync again: it does not",
			);
		if (!isFile(path)) publishCard(context, path, bytes);
		await replaceCard(context, path, (now) => (theirs ? mergeCards(base, mendCard(now), theirs) : mendCard(now)));
		await git.run(["add", "--", name]);
	}
	if (left === undefined) return undefined;
	const settled = await readTree(git, (await git.run(["write-tree"])).toString().trim());
	await planMerge(git, head, left, settled); // before git lets it go: whether it can be done
	await git.run(["merge", "--quit"]);
	return { commit: left, settled };
}

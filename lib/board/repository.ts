import { lstatSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { XferError } from "../errors.ts";
import { shellWord } from "../filename.ts";
import { append, makeDirectories, readBytes, writeNew } from "../files.ts";
import type { Board } from "./board.ts";
import { Git } from "./git.ts";

/** What is ours in the repository besides Cards. */
export const ownFiles = [".gitignore", ".gitattributes"];
const ignored = ".locks/";
/** Bytes as they are, and the merge driver. */
const attributes = "*.md -text merge=xfer";
const localAttributes = "*.md -text !eol -filter -ident -working-tree-encoding merge=xfer";

/**
 * Makes the Board a git repository, or completes one: what the user has in it stays.
 * @param remote URL of the remote `origin`
 * @throws {XferError} EGIT with git's words, EINPUT when there is another remote of that name
 */
export async function initBoard(board: Board, remote?: string): Promise<void> {
	makeDirectories(board.directory);
	const git = new Git(board.directory);
	await git.run(["init", "--quiet", "-b", "main"]); // completes one, whose branch stays
	addLine(`${board.directory}/.gitignore`, ignored);
	addLine(`${board.directory}/.gitattributes`, attributes);
	const settings = [
		["merge.xfer.name", "xfer: unites the Entries of both sides"],
		// Where git finds no xfer, its own markers are better than one side alone: repair and sync unite them.
		["merge.xfer.driver", "xfer board merge-driver %O %A %B || { test $? -ne 127 || git merge-file -q %A %O %B; exit 1; }"],
		// git takes two similar Cards for one that was renamed; and before 2.50 its usual strategy does not ask merge.renames.
		["merge.renames", "false"],
		["pull.twohead", "recursive"],
		["pull.rebase", "false"], // so that a plain git pull merges
	] as const;
	for (const [key, value] of settings) {
		if ((await git.ask(["config", "--local", key])) === undefined) await git.run(["config", "--local", key, value]);
	}
	await setAttributes(git);
	if (remote !== undefined) await addRemote(git, remote);
}

/** Says here, above what any commit may bring, that a Card's bytes are its bytes: a filter or an encoding would make two copies of the Board differ. */
export async function setAttributes(git: Git): Promise<void> {
	const path = await git.ask(["rev-parse", "--git-path", "info/attributes"]);
	if (path !== undefined) addLine(resolve(git.directory, path), localAttributes);
}

/** Adds a line to a file that does not have it. */
function addLine(path: string, line: string): void {
	const text = readBytes(path, Number.POSITIVE_INFINITY);
	if (text?.toString().split(/\r?\n/).includes(line)) return;
	makeDirectories(dirname(path));
	const end = text && text.length > 0 && text.at(-1) !== 10 ? "\n" : "";
	if (text) append(path, Buffer.from(`${end}${line}\n`), false);
	else writeNew(path, Buffer.from(`${line}\n`), false);
}

async function addRemote(git: Git, given: string): Promise<void> {
	const url = lstatSync(given, { throwIfNoEntry: false }) ? resolve(given) : given; // a directory is meant from here, not from the Board
	const before = await git.ask(["config", "--local", "remote.origin.url"]);
	if (before !== undefined && before !== url)
		throw new XferError(
			"EINPUT",
			`origin is ${before} already`,
			`to change it: git -C ${shellWord(git.directory)} remote set-url origin URL`,
		);
	if (before === undefined) await git.run(["remote", "add", "--", "origin", url]);
	if ((await git.ask(["rev-parse", "--verify", "--quiet", "HEAD"])) === undefined) {
		// Nothing here yet: the branch is called as it is there.
		await git.neverAsk();
		const head = /^ref: (refs\/heads\/\S+)\tHEAD$/m.exec((await git.try(["ls-remote", "--symref", "origin", "HEAD"])).out.toString())?.[1];
		if (head) await git.run(["symbolic-ref", "HEAD", head]);
	}
	// So that a plain git pull knows where from.
	const branch = await git.ask(["symbolic-ref", "--quiet", "--short", "HEAD"]);
	if (branch === undefined || (await git.ask(["config", `branch.${branch}.remote`])) !== undefined) return;
	await git.run(["config", "--local", `branch.${branch}.remote`, "origin"]);
	await git.run(["config", "--local", `branch.${branch}.merge`, `refs/heads/${branch}`]);
}

/** Whether the Board's directory is a repository of its own. */
export function isRepository(board: Board): boolean {
	return lstatSync(`${board.directory}/.git`, { throwIfNoEntry: false }) !== undefined;
}

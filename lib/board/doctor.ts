import { accessSync, constants, lstatSync, readlinkSync } from "node:fs";
import type { Finding } from "../doctor.ts";
import { errno, XferError } from "../errors.ts";
import { shellWord } from "../filename.ts";
import { isFile, readBeginning } from "../files.ts";
import type { Tree } from "../tree.ts";
import { type Board, type CardInfo, openBoard } from "./board.ts";
import { cardWarnings, entryFlaws } from "./card.ts";
import { stem } from "./card-file.ts";
import { Git } from "./git.ts";
import { leftovers } from "./replace.ts";
import { isRepository } from "./repository.ts";

/** Looks at the Board: Cards that do not read as a writer leaves them, what is no Card, what a killed edit left, and git. Changes nothing but what every reader recovers. */
export async function diagnoseBoard(tree: Tree): Promise<Finding[]> {
	const board = openBoard(tree);
	const path = board.directory;
	try {
		const wrong = checkDirectory(path);
		if (wrong) return [wrong];
		const findings = await checkCards(board);
		for (const name of leftovers(path)) {
			const old = `${path}/.locks/${name}.old`;
			const what = isFile(old) ? "what was left of a Card by an edit that was killed, or that goes on" : "in the way of an edit: no file";
			findings.push({ code: "leftover", path: old, what, cure: `xfer board show ${shellWord(stem(name))}, or remove it` });
		}
		if (isRepository(board)) findings.push(...(await checkRepository(path)));
		return findings;
	} catch (error) {
		return [
			{
				code: "access",
				path,
				what: `can't be looked at (${errno(error) ?? error})`,
				cure: "it is a directory that only you may enter: chmod 700",
			},
		];
	}
}

/** What is in the place of the Board's directory, or keeps everybody from writing to it. */
function checkDirectory(path: string): Finding | undefined {
	const code = "access";
	const own = lstatSync(path, { throwIfNoEntry: false });
	if (!own) return undefined; // no Board yet
	if (own.isSymbolicLink())
		return {
			code,
			path,
			what: `a symlink to ${readlinkSync(path)}, which is not there`,
			cure: `remove it, or: mkdir -p ${shellWord(readlinkSync(path))}`,
		};
	if (!own.isDirectory()) return { code, path, what: "not a directory", cure: "move it away" };
	try {
		accessSync(path, constants.R_OK | constants.W_OK | constants.X_OK);
		return undefined;
	} catch (error) {
		return {
			code,
			path,
			what: `can't be read and written (${errno(error)})`,
			cure: `chmod u+rwx ${shellWord(path)}; a sandbox may forbid it`,
		};
	}
}

async function checkCards(board: Board): Promise<Finding[]> {
	const { cards, skipped } = await board.list();
	const findings: Finding[] = skipped.map(({ file, reason }) => {
		const path = `${board.directory}/${file}`;
		return { code: "no-card", path, what: `${reason}: ignored`, cure: `look at it: ls -l ${shellWord(path)}` };
	});
	const ids = new Map<string, string>();
	for (const card of cards) {
		const { file, path, id } = card;
		const other = ids.get(id);
		if (other !== undefined)
			findings.push({
				code: "card",
				path,
				what: `has the id ${id}, as ${other} has`,
				cure: "one is a copy: remove it, or change its id in an editor",
			});
		ids.set(id, file);
		try {
			findings.push(...(await checkCard(board, card)));
		} catch (error) {
			if (error instanceof XferError && error.code === "ECARD") continue; // it has gone
			findings.push({ code: "access", path, what: `can't be read (${errno(error) ?? error})`, cure: `chmod 600 ${shellWord(path)}` });
		}
	}
	return findings;
}

async function checkCard(board: Board, { file, path, warnings }: CardInfo): Promise<Finding[]> {
	const repair = `xfer board repair ${shellWord(stem(file))}`;
	const findings: Finding[] = warnings.map((warning) => {
		const { what, cure = repair } = cardWarnings[warning];
		return { code: "card", path, what, cure };
	});
	if (warnings.includes("large")) return findings;
	for (const { id, flaws } of (await board.read(file)).entries) {
		if (flaws.length === 0) continue;
		findings.push({ code: "entry", path, what: `Entry ${id} is ${flaws.map((flaw) => entryFlaws[flaw]).join(", ")}`, cure: repair });
	}
	return findings;
}

async function checkRepository(path: string): Promise<Finding[]> {
	const git = new Git(path);
	const findings: Finding[] = [];
	const add = (what: string, cure: string) => findings.push({ code: "git", path, what, cure });
	try {
		const asked = readBeginning(`${path}/.gitattributes`, 65_536)?.includes("merge=xfer");
		if (!asked || (await git.ask(["config", "merge.xfer.driver"])) === undefined)
			add("git does not know how to merge Cards here", "xfer board init");
		if ((await git.run(["ls-files", "--unmerged"])).length > 0) add("git left a merge unfinished", "xfer board sync");
	} catch (error) {
		add(error instanceof Error ? error.message : String(error), `git -C ${shellWord(path)} status`);
	}
	return findings;
}

import { readFileSync } from "node:fs";
import { type Board, openBoard, stem } from "./board.ts";
import type { CardWarning, Flaw } from "./card.ts";
import type { Finding } from "./doctor.ts";
import { errno } from "./errors.ts";
import { shellWord } from "./filename.ts";
import { isFile, listNames } from "./files.ts";
import { Git } from "./git.ts";
import { leftovers } from "./replace.ts";
import { isRepository } from "./repository.ts";
import type { Tree } from "./tree.ts";

/** What is said of a Card for each of its warnings. */
const warned: Record<CardWarning, readonly [what: string, cure: string]> = {
	"front-matter": [
		"no front matter: it is titled by its file name",
		"give it one in an editor: id, title, created_by, created_at between two lines ---",
	],
	unclosed: ["its front matter does not close", "end it with a line ---"],
	bom: ["begins with a byte order mark", "save it without"],
	yaml: ["its front matter can't be read as YAML of strings, lists and mappings", "mend it in an editor"],
	conflict: ["git left two sides in it", "repair"],
	large: ["too large to be read unless it is named", "begin another Card: xfer board new"],
};
const flawed: Record<Flaw, string> = {
	torn: "without a closing line",
	typed: "typed by hand",
	duplicate: "with an id that stood before",
};

/** Looks at the Board: Cards that do not read as a writer leaves them, what is no Card, and git. Changes nothing. */
export async function diagnoseBoard(tree: Tree): Promise<Finding[]> {
	const board = openBoard(tree);
	const findings: Finding[] = [];
	try {
		const { cards, skipped } = await board.list();
		for (const { file, reason } of skipped) {
			const path = `${board.directory}/${file}`;
			findings.push({ code: "no-card", path, what: `${reason}: ignored`, cure: `look at it: ls -l ${shellWord(path)}` });
		}
		const ids = new Map<string, string>();
		for (const { file, path, id, warnings } of cards) {
			const repair = `xfer board repair ${shellWord(stem(file))}`;
			for (const warning of warnings) {
				const [what, cure] = warned[warning];
				findings.push({ code: "card", path, what, cure: cure === "repair" ? repair : cure });
			}
			const other = ids.get(id);
			if (other)
				findings.push({
					code: "card",
					path,
					what: `has the id ${id}, as ${other} has`,
					cure: "one is a copy: remove it, or change its id in an editor",
				});
			ids.set(id, file);
			if (!warnings.includes("large")) findings.push(...(await checkEntries(board, file, repair)));
		}
	} catch (error) {
		findings.push({ code: "access", path: board.directory, what: `can't be looked at (${errno(error) ?? error})`, cure: `chmod 700 it` });
	}
	for (const name of leftovers(board.directory)) {
		if (isFile(`${board.directory}/${name}`)) continue; // the next command on the Board sees to it
		findings.push({
			code: "leftover",
			path: `${board.directory}/.locks/${name}.old`,
			what: "what was left of a Card that has gone",
			cure: "remove it, or move it back",
		});
	}
	if (isRepository(board)) findings.push(...(await checkRepository(board)));
	return findings;
}

async function checkEntries(board: Board, file: string, repair: string): Promise<Finding[]> {
	const { entries, path } = await board.read(file);
	return entries
		.filter(({ flaws }) => flaws.length > 0)
		.map(({ id, flaws }) => ({
			code: "entry",
			path,
			what: `Entry ${id} is ${flaws.map((flaw) => flawed[flaw]).join(", ")}`,
			cure: repair,
		}));
}

async function checkRepository(board: Board): Promise<Finding[]> {
	const path = board.directory;
	const findings: Finding[] = [];
	const git = new Git(path);
	try {
		const asked = listNames(path, true).includes(".gitattributes") && readFileSync(`${path}/.gitattributes`, "utf8").includes("merge=xfer");
		if (!asked || (await git.ask(["config", "merge.xfer.driver"])) === undefined)
			findings.push({ code: "git", path, what: "git does not know how to merge Cards here", cure: "xfer board init" });
	} catch (error) {
		findings.push({ code: "git", path, what: error instanceof Error ? error.message : String(error), cure: "xfer board init" });
	}
	return findings;
}

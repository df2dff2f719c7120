import { accessSync, constants, statSync } from "node:fs";
import { delimiter, join } from "node:path";
import type { Program } from "../lib/adapter/handler.ts";
import { XferError } from "../lib/errors.ts";

/**
 * The program behind `--` on our own command line: a flag behind it is the program's, which the words alone don't tell.
 * @param line how to type it
 * @throws {XferError} EINPUT when there are more words before it than `before`
 */
export function programBehind(
	words: readonly string[],
	before: number,
	line: string,
): { own: readonly string[]; program: Program | undefined } {
	const at = process.argv.indexOf("--");
	const given = at < 0 ? [] : process.argv.slice(at + 1);
	const own = words.slice(0, words.length - given.length);
	if (own.length > before)
		throw new XferError("EINPUT", `what is ${JSON.stringify(own.slice(before).join(" "))}?`, `a command goes behind --: ${line}`);
	const [file, ...args] = given;
	if (at >= 0 && !file) throw new XferError("EINPUT", "no command behind --", line);
	return { own, program: file === undefined ? undefined : { file, args } };
}

/**
 * Looks for a program as the system will.
 * @throws {XferError} EINPUT when it can't be run
 */
export function assertRunnable({ file }: Program): void {
	const places = file.includes("/") ? [file] : (process.env.PATH ?? "").split(delimiter).map((directory) => join(directory || ".", file));
	if (!places.some(isRunnable))
		throw new XferError(
			"EINPUT",
			`no program ${JSON.stringify(file)}${file.includes("/") ? "" : " on the PATH"}`,
			"give its path, or a shell line with --on-handoff",
		);
}

function isRunnable(path: string): boolean {
	try {
		accessSync(path, constants.X_OK);
		return statSync(path).isFile();
	} catch {
		return false;
	}
}

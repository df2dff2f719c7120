import { realpathSync } from "node:fs";
import { homedir } from "node:os";
import { XferError } from "../../lib/errors.ts";
import { shellWord } from "../../lib/filename.ts";
import { hostOf } from "../../lib/hooks/hosts/hosts.ts";
import { hostNames } from "../../lib/hooks/hosts/names.ts";
import { allowed, type Change, make, planRemoval, planSetup } from "../../lib/hooks/setup.ts";
import { projectDirectory } from "../../lib/identity.ts";
import { nodeName } from "../../lib/names.ts";
import { visible } from "../../lib/visible.ts";
import type { Values } from "../command.ts";
import { diff } from "../diff.ts";
import { exit, report } from "../errors.ts";
import { note, paint, print, printJson, readAnswer } from "../output.ts";
import type { Session } from "../session.ts";

/** Shows what changes in a host's files, and makes it. */
export async function setup({ tree, json }: Session, [word = ""]: readonly string[], values: Values): Promise<number> {
	const host = hostOf(word);
	if (!host)
		throw new XferError("EINPUT", `no host ${JSON.stringify(word)} here`, `one of ${hostNames.join(", ")}; any other: xfer adapter`);
	const dry = values["dry-run"] === true;
	const removing = values.remove === true;
	const directory = projectDirectory(process.cwd());
	const root = tree.context.root;
	const place = { home: homedir(), project: values.project ? directory : undefined, env: process.env, root };
	const pointer = `${directory}/${host.setup.memory}`;
	const wants = (key: string, question: string) => values[key] === true || (!removing && !dry && agrees(question));
	const base = { place, ...ourselves(), name: typeof values.name === "string" ? nodeName(values.name) : undefined };
	const options = removing
		? { ...base, allow: true, pointer }
		: {
				...base,
				allow: wants("allow", `Let it run xfer ${allowed.join("|")} unasked, and write ${root} from its sandbox? [y/N] `),
				pointer: wants("pointer", `Add a few lines about xfer to ${pointer}? [y/N] `) ? pointer : undefined,
			};
	const changes = removing ? planRemoval(host, options) : planSetup(host, options);
	const now = removing || dry ? [] : host.setup.wants;
	let code: number = exit.done;
	if (changes.length === 0 && !json) print(`${host.name}: ${removing ? "nothing of ours is there" : "it is set up already"}\n`);
	const made: Change[] = [];
	for (const change of changes) {
		const { before, after } = change;
		if (!json) show(change);
		try {
			if (!dry && before !== after) make(change, removing);
			made.push(change);
		} catch (error) {
			code = report(error); // and on with the others
		}
	}
	if (json) printJson("xfer.setup/1", { host: host.name, dryRun: dry, changes: made, now: code === exit.done ? now : [] });
	if (removing || dry || code !== exit.done) return code;
	const same = `${values.project ? " --project" : ""}${base.name ? ` --name ${base.name}` : ""}`;
	if (!options.allow) note(`to let it run xfer unasked: xfer setup ${word}${same} --allow`);
	if (!json) for (const want of now) print(`now: ${want}\n`);
	return code;
}

function show({ file, before, after, note: why }: Change): void {
	print(`${paint("bold", visible(file))}${after === undefined ? " is removed" : before === undefined ? " is made" : ""}\n`);
	for (const line of diff(before ?? "", after ?? ""))
		print(`${paint(line.startsWith("+") ? "green" : line.startsWith("-") ? "red" : "dim", visible(line.replaceAll("\t", "    ")))}\n`);
	if (why) print(`${visible(why)}\n`);
}

/** Whether a person says yes; nobody is asked where nobody could answer. */
function agrees(question: string): boolean {
	return process.stdin.isTTY === true && process.stderr.isTTY === true && /^y(es)?$/i.test(readAnswer(question, ""));
}

/** How a host calls us: by name where the name leads to us, else by where we are. */
function ourselves(): { words: string[]; line: string } {
	const script = realpathSync(process.argv[1] ?? "");
	for (const directory of (process.env.PATH ?? "").split(":")) {
		if (directory.endsWith("node_modules/.bin")) continue; // npx puts it there, for this run only
		try {
			const found = realpathSync(`${directory || "."}/xfer`);
			if (found !== script) break; // another xfer: then not by name
			return { words: ["xfer"], line: "xfer" };
		} catch {
			// not there: the next one
		}
	}
	const words = [process.execPath, script];
	return { words, line: words.map(shellWord).join(" ") };
}

import { realpathSync } from "node:fs";
import { homedir } from "node:os";
import { XferError } from "../../lib/errors.ts";
import { shellWord } from "../../lib/filename.ts";
import { hostOf, hosts } from "../../lib/hosts/hosts.ts";
import { projectDirectory } from "../../lib/identity.ts";
import { nodeName } from "../../lib/names.ts";
import { visible } from "../../lib/visible.ts";
import type { Command } from "../command.ts";
import { exit, report } from "../errors.ts";
import { note, paint, print, readAnswer } from "../output.ts";

const names = hosts.map(({ name }) => name);

export const setup: Command = {
	name: "setup",
	usage: names.join("|"),
	summary: "have a coding agent's hooks bring it its mail",
	examples: [
		["xfer setup claude", "shows what it changes in ~/.claude/settings.json"],
		["xfer setup codex --project --dry-run", "for this project only; changes nothing"],
		["xfer setup claude --remove", "each file as it was before"],
	],
	options: {
		project: { type: "boolean", help: "in this project's configuration, not in yours" },
		name: { type: "string", value: "NAME", help: "its sessions' name, else HOST-PROJECT" },
		allow: { type: "boolean", help: "it may run xfer send, reply, read and the like unasked, and write the tree from its sandbox" },
		pointer: { type: "boolean", help: "a few lines for it in the project's CLAUDE.md or AGENTS.md" },
		remove: { type: "boolean", help: "take away what was added" },
		"dry-run": { type: "boolean", help: "show the changes and make none" },
	},
	words: [1, 1],
	completes: names,
	async run({ tree }, [word = ""], values) {
		const host = hostOf(word);
		if (!host) throw new XferError("EINPUT", `no host ${JSON.stringify(word)} here`, `one of ${names.join(", ")}; any other: xfer adapter`);
		const { allowed, make, planRemoval, planSetup } = await import("../../lib/setup.ts");
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
		let code: number = exit.done;
		if (changes.length === 0) print(`${host.name}: ${removing ? "nothing of ours is there" : "it is set up already"}\n`);
		const { diff } = await import("../diff.ts");
		for (const change of changes) {
			const { file, before, after } = change;
			print(`${paint("bold", visible(file))}${after === undefined ? " is removed" : before === undefined ? " is made" : ""}\n`);
			for (const line of diff(before ?? "", after ?? ""))
				print(`${paint(line.startsWith("+") ? "green" : line.startsWith("-") ? "red" : "dim", visible(line.replaceAll("\t", "    ")))}\n`);
			if (change.note) print(`${visible(change.note)}\n`);
			if (dry || before === after) continue;
			try {
				make(change, removing);
			} catch (error) {
				code = report(error); // and on with the others
			}
		}
		if (removing || dry || code !== exit.done) return code;
		if (!options.allow) note(`to let it run xfer unasked: xfer setup ${word} --allow`);
		for (const want of host.setup.wants) print(`now: ${want}\n`);
		return code;
	},
};

/** Whether a person says yes; nobody is asked where nobody could answer. */
function agrees(question: string): boolean {
	return process.stdin.isTTY === true && process.stderr.isTTY === true && /^y(es)?$/i.test(readAnswer(question, ""));
}

/** How a host calls us: by name where the name leads to us, else by where we are. */
function ourselves(): { words: string[]; line: string } {
	const script = realpathSync(process.argv[1] ?? "");
	for (const directory of (process.env.PATH ?? "").split(":")) {
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

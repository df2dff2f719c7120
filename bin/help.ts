import yargs, { type Argv } from "yargs";
import { openTree, shortId } from "../lib/index.ts";
import manifest from "../package.json" with { type: "json" };
import { type Command, common } from "./command.ts";
import { commands } from "./commands.ts";
import { exit } from "./errors.ts";
import { print } from "./output.ts";
import { openSession } from "./session.ts";

/** Serves `--help`, `--version` and what a shell asks for completion. It costs about one more start of Node.js, so nothing else goes through it. */
export async function help(name: string, words: readonly string[]): Promise<number> {
	if (name === "--get-yargs-completions") return complete(words);
	const command = commands.find((known) => known.name === name);
	if (name === "--version") print(`${manifest.version}\n`);
	else print(`${await (command ? commandHelp(command) : overview()).getHelp()}\n`);
	return exit.done;
}

function parser(): Argv {
	return yargs([]).scriptName("xfer").wrap(80).version(false).help(false).exitProcess(false);
}

function overview(): Argv {
	const examples: Command["examples"] = [
		['xfer send alice "fix the flaky test"', "hand it off"],
		["git diff | xfer send bob review this -", "text from a pipe"],
		["xfer read", "the oldest one for me"],
		["xfer watch @all", "all traffic in one pane"],
	];
	const all = commands.reduce((parser, { name, summary }) => parser.command(name, summary), parser());
	return all.usage(table(examples)).epilogue("Everywhere: --as NAME, --json, --help; --timeout 10m where it waits.");
}

function commandHelp({ name, usage, summary, examples, options }: Command): Argv {
	const described = Object.entries({ ...options, ...common }).map(([key, { type, help: text, value }]) => {
		return [key, { type, describe: value ? `${value}: ${text}` : text }] as const;
	});
	return parser()
		.usage(`${table(examples)}\n\n${`xfer ${name} ${usage}`.trim()}\n${summary}`)
		.options(Object.fromEntries(described));
}

/** Examples, a line each while they fit. Not a hanging indent: yargs takes blanks at the beginning of a line away. */
function table(examples: Command["examples"]): string {
	const width = Math.max(...examples.map(([line]) => line.length)) + 2;
	return examples.map(([line, what]) => (width + what.length < 80 ? `${line.padEnd(width)}# ${what}` : `# ${what}\n${line}`)).join("\n");
}

/** One candidate a line for the words that were typed, the last of them to be completed. */
function complete(typed: readonly string[]): number {
	const words = typed[0] === "xfer" ? typed.slice(1) : typed;
	const last = words.at(-1) ?? "";
	const command = commands.find(({ name }) => name === words[0]);
	let found: readonly string[] = [];
	if (!command || words.length < 2) found = commands.map(({ name }) => name);
	else if (last.startsWith("-")) found = Object.keys({ ...command.options, ...common }).map((name) => `--${name}`);
	else if (words.at(-2) === "--as") found = names();
	else if (words.length === 2) found = candidates(command);
	else if (command.name === "mark" && words.length === 3) found = ["read", "new", "failed"];
	print(
		found
			.filter((word) => word.startsWith(last))
			.map((word) => `${word}\n`)
			.join(""),
	);
	return exit.done;
}

function names(): string[] {
	return openTree().names();
}

function candidates({ completes, name }: Command): readonly string[] {
	if (typeof completes === "object") return completes;
	try {
		if (completes === "nodes") return name === "send" || name === "watch" ? ["@all", ...names()] : names();
		const node = openSession({}).node();
		if (completes === "ids") return node.inbox.list({ limit: 100 }).items.map(({ id }) => shortId(id));
		if (completes === "sent") return node.sent.ids().slice(0, 100).map(shortId);
	} catch {
		// no tree or no Node yet: nothing to complete, and a shell's prompt is no place for an error
	}
	return [];
}

const fish = `complete -c xfer -f -a '(xfer --get-yargs-completions (commandline -opc) (commandline -ct))'\n`;

/** Prints the script that makes a shell ask us. */
export async function printCompletion(shell: "bash" | "zsh" | "fish"): Promise<void> {
	if (shell === "fish") {
		print(fish);
		return;
	}
	process.env.SHELL = shell; // what yargs looks at
	delete process.env.ZSH_NAME;
	let script = "";
	const { log } = console;
	console.log = (text: string) => {
		script += `${text}\n`;
	};
	try {
		parser().showCompletionScript();
	} finally {
		console.log = log;
	}
	print(script);
}

import yargs, { type Argv } from "yargs";
import { shortId } from "../lib/filename.ts";
import { kinds, priorities } from "../lib/handoff.ts";
import { openTree } from "../lib/tree.ts";
import { visible } from "../lib/visible.ts";
import manifest from "../package.json" with { type: "json" };
import { type Command, common, lastWord } from "./command.ts";
import { commands } from "./commands.ts";
import { exit } from "./errors.ts";
import { print } from "./output.ts";
import { openSession } from "./session.ts";

/** Serves `--help`, `--version` and what a shell asks for completion. It costs about one more start of Node.js, so nothing else goes through it. */
export async function help(command: Command | undefined, name: string, words: readonly string[]): Promise<number> {
	if (name === "--get-yargs-completions") return await complete(words);
	if (name === "--version") print(`${manifest.version}\n`);
	else print(`${await (command ? commandHelp(command) : overview()).getHelp()}\n`);
	return exit.done;
}

function parser(): Argv {
	return yargs([], "/").scriptName("xfer").wrap(80).version(false).help(false).exitProcess(false);
}

function overview(): Argv {
	const examples: Command["examples"] = [
		['xfer send alice "fix the flaky test"', "hand it off"],
		["git diff | xfer send bob review this -", "text from a pipe"],
	];
	return listed(commands)
		.usage(table(examples))
		.epilogue("Everywhere: --as NAME, --json, --help; --timeout 10m. Agents: xfer help agents.");
}

/** Commands with a line for each. */
function listed(some: readonly Command[]): Argv {
	return some.filter(({ hidden }) => !hidden).reduce((parser, { name, summary }) => parser.command(name, summary), parser());
}

function commandHelp({ name, usage, summary, examples, options, commands }: Command): Argv {
	const described = Object.entries({ ...options, ...common }).map(([key, { help: text, value }]) => {
		return [key, { describe: value ? `${value}: ${text}` : text }] as const;
	});
	return (commands ? listed(commands) : parser())
		.usage(`${table(examples)}\n\n${`xfer ${name} ${usage}`.trim()}\n${summary}`)
		.options(Object.fromEntries(described));
}

/** Examples, a line each while they fit. Not a hanging indent: yargs takes blanks at the beginning of a line away. */
function table(examples: Command["examples"]): string {
	const width = Math.max(...examples.map(([line]) => line.length)) + 2;
	return examples
		.map(([line, what]) => (width + what.length + 2 <= 80 ? `${line.padEnd(width)}# ${what}` : `# ${what}\n${line}`))
		.join("\n");
}

/** One candidate a line for the words that were typed, the last of them to be completed. */
async function complete(typed: readonly string[]): Promise<number> {
	const words = typed[0] === "xfer" ? typed.slice(1) : typed;
	const last = words.at(-1) ?? "";
	const found = await candidatesFor(commands, words);
	print(
		found
			.filter((word) => word.startsWith(last))
			.map((word) => `${visible(word)}\n`)
			.join(""),
	);
	return exit.done;
}

/** Commands, sub-commands, or what a command's words may be. */
async function candidatesFor(among: readonly Command[], words: readonly string[]): Promise<readonly string[]> {
	const [first, ...rest] = words;
	const command = among.find((known) => lastWord(known) === first);
	if (!command || rest.length === 0) return among.filter(({ hidden }) => !hidden).map(lastWord);
	const sub = command.commands?.some((known) => rest.slice(0, -1).includes(lastWord(known)));
	if (command.commands && (sub || (rest.length === 1 && !rest[0]?.startsWith("-")))) return await candidatesFor(command.commands, rest);
	return await candidates(command, rest.slice(0, -1), rest.at(-1) ?? "");
}

async function candidates(command: Command, before: readonly string[], last: string): Promise<readonly string[]> {
	const options = { ...command.options, ...common };
	const takesValue = (word: string | undefined) => word?.startsWith("--") && options[word.slice(2)]?.type === "string";
	if (last.startsWith("-")) return Object.keys(options).map((name) => `--${name}`);
	const flag = before.at(-1);
	if (flag === "--kind" && takesValue(flag)) return kinds;
	if (flag === "--priority" && takesValue(flag)) return priorities;
	if (flag === "--type" && takesValue(flag)) return ["note", "finding", "question", "answer", "decision"];
	try {
		if (flag === "--as") return openTree().names();
		if (takesValue(flag)) return [];
		const given = before.filter((word, at) => !word.startsWith("-") && !takesValue(before[at - 1]));
		if (command.name === "mark" && given.length === 1) return ["read", "new", "failed"];
		if (given.length > 0) return [];
		if (command.completes === "cards") return (await (await import("#board")).look()).names(openTree());
		return wordsFor(command, last, before.includes("--as") ? before[before.indexOf("--as") + 1] : undefined);
	} catch {
		return []; // no tree or no such Node: nothing to complete, and a shell's prompt is no place for an error
	}
}

/** What the first word completes to. */
function wordsFor({ name, completes }: Command, last: string, as: string | undefined): readonly string[] {
	if (typeof completes === "object") return completes;
	if (completes === "nodes") {
		const names = name === "send" || name === "watch" ? ["@all", ...openTree().names()] : openTree().names();
		const others = last.slice(0, last.lastIndexOf(",") + 1); // alice,bob: the last of them is completed
		return names.map((one) => others + one);
	}
	const node = openSession(as === undefined ? {} : { as }).node();
	const ids =
		completes === "ids"
			? node.inbox.list({ limit: 100 }).items.map(({ id }) => id)
			: completes === "sent"
				? node.sent.ids().slice(0, 100)
				: [];
	// A file name is a peer's text, and some shells expand what is completed.
	return ids.map(shortId).filter((word) => /^[A-Za-z0-9._+@=-]+$/.test(word));
}

const fish = `# xfer completion fish >~/.config/fish/completions/xfer.fish
complete -c xfer -f -n 'not __fish_seen_subcommand_from doctor' -a '(xfer --get-yargs-completions (commandline -opc) (commandline -ct))'
complete -c xfer -F -n '__fish_seen_subcommand_from doctor'
`;

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
	print(
		script.replace(/^# (?:Installation:| {3}or) .*\n/gm, (line) =>
			line.includes("Installation") ? `# source <(xfer completion ${shell})\n` : "",
		),
	);
}

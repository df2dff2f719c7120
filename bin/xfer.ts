import { parseArgs } from "node:util";
import { XferError } from "../lib/index.ts";
import { similar } from "../lib/names.ts";
import { type Command, common, type Option, type Values } from "./command.ts";
import { home } from "./commands/home.ts";
import { commands } from "./commands.ts";
import { report } from "./errors.ts";
import { openSession } from "./session.ts";

/** What people type for a flag of ours that has another name. */
const synonyms: Readonly<Record<string, string>> = {
	from: "as",
	s: "subject",
	title: "subject",
	type: "kind",
	ttl: "expires",
	t: "timeout",
	n: "limit",
	f: "follow",
};
/** What people type for the text and the recipient, which take no flag. */
const plain = new Set(["to", "m", "message", "body", "text", "file"]);

/** The fast path: one table, no more than the command uses is loaded. Help, completion and `--version` come from yargs. */
async function main(given: readonly string[]): Promise<number> {
	const argv = commandFirst(given);
	const words = argv.includes("--") ? argv.slice(0, argv.indexOf("--")) : argv;
	// Among the words of a text, -h is more likely one of them: then it is refused, with a word about --.
	const help = words.includes("--help") || (speaks(argv[0]) ? words[1] === "-h" : words.includes("-h")) || argv[0] === "help";
	const [name = ""] = argv[0] === "help" ? argv.slice(1) : argv;
	const command = commands.find((known) => known.name === name);
	if (!command && name !== "" && !name.startsWith("-")) throw unknownCommand(name);
	if (help || name === "--version" || name === "--get-yargs-completions") return (await import("./help.ts")).help(name, argv.slice(1));
	const { values, positionals } = parse(command, command ? argv.slice(1) : argv);
	const session = openSession(values);
	if (!command) return (await home(session)) ?? 0;
	const [least, most] = command.words;
	const line = `xfer ${command.name} ${command.usage}`.trim();
	if (positionals.length < least)
		throw new XferError("EINPUT", `${command.name} needs ${command.usage.split(" ").slice(0, least).join(" ")}`, line);
	if (positionals.length > most) throw new XferError("EINPUT", `too many words: ${positionals.slice(most).join(" ")}`, line);
	return (await command.run(session, positionals, values)) ?? 0;
}

/** Whether a command's words are a text. */
function speaks(command: string | undefined): boolean {
	return command === "send" || command === "reply";
}

/** `xfer --as alice inbox` is `xfer inbox --as alice`. */
function commandFirst(argv: readonly string[]): readonly string[] {
	if (!argv[0]?.startsWith("-") || argv[0] === "--get-yargs-completions") return argv;
	const names = new Set(commands.map(({ name }) => name));
	const isValue = (at: number) => argv[at - 1] === "--as" || argv[at - 1] === "--timeout";
	const at = argv.findIndex((word, at) => names.has(word) && !isValue(at));
	return at < 0 ? argv : [argv[at] ?? "", ...argv.slice(0, at), ...argv.slice(at + 1)];
}

function unknownCommand(name: string): XferError {
	const names = commands.map((known) => known.name);
	const meant = similar(name, names);
	return new XferError("EINPUT", `no command ${JSON.stringify(name)}`, meant ? `did you mean xfer ${meant}?` : "xfer --help lists them");
}

function parse(command: Command | undefined, args: readonly string[]): { values: Values; positionals: string[] } {
	const options: Record<string, Option> = { ...command?.options, ...common };
	try {
		return parseArgs({ args: [...args], options, allowPositionals: command !== undefined });
	} catch (error) {
		const line = `xfer ${command ? `${command.name} ${command.usage}` : "--help"}`.trim();
		const { code, message } = error as NodeJS.ErrnoException;
		const [, flag = ""] = /'-{0,2}([^' ,=]+)/.exec(message) ?? [];
		if (code === "ERR_PARSE_ARGS_UNKNOWN_OPTION") {
			const typed = args.find((word) => word.startsWith(flag.length > 1 ? `--${flag}` : `-${flag}`)) ?? `--${flag}`;
			throw new XferError("EINPUT", `no flag ${typed.split("=")[0]} here`, rightLine(command, flag, typed, options, line));
		}
		const option = options[flag];
		if (option?.type === "string")
			throw new XferError(
				"EINPUT",
				`--${flag} needs a value`,
				`--${flag} ${option.value ?? "VALUE"}; one that begins with a dash: --${flag}=-…`,
			);
		if (option) throw new XferError("EINPUT", `--${flag} takes no value`, line);
		throw new XferError("EINPUT", message.split("\n")[0] ?? message, line);
	}
}

/** What to type instead of a flag that does not exist. */
function rightLine(
	command: Command | undefined,
	flag: string,
	typed: string,
	options: Readonly<Record<string, Option>>,
	line: string,
): string {
	const text = speaks(command?.name);
	if (text && command && plain.has(flag)) {
		const example = command.name === "send" ? "xfer send alice" : "xfer reply ID";
		return `${example} "…", or: … | ${example} -`;
	}
	const synonym = synonyms[flag];
	if (synonym === "follow") return "xfer watch";
	const meant = synonym && options[synonym] ? synonym : similar(flag, Object.keys(options));
	if (meant) return `--${meant}${options[meant]?.value ? ` ${options[meant].value}` : ""}`;
	return text && command
		? `text that begins with a dash goes after --: xfer ${command.name} ${command.name === "send" ? "alice" : "ID"} -- ${typed}`
		: line;
}

main(process.argv.slice(2)).then(
	(code) => {
		process.exitCode = code;
	},
	(error: unknown) => {
		process.exitCode = report(error);
	},
);

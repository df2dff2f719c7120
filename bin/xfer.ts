import { parseArgs } from "node:util";
import { XferError } from "../lib/errors.ts";
import { similar } from "../lib/names.ts";
import { type Command, common, lastWord, type Option, type Values } from "./command.ts";
import { home } from "./commands/home.ts";
import { commands } from "./commands.ts";
import { report } from "./errors.ts";
import { print } from "./output.ts";
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
	const argv = commandFirst(given, commands);
	const asked = argv[0] === "help" || (argv[0] === "board" && argv[1] === "help");
	if (argv[0] === "help" && argv[1] === "agents") {
		print((await import("./agents.ts")).agents);
		return 0;
	}
	const named = asked ? argv.filter((word) => word !== "help") : argv;
	const [name = ""] = named;
	const { command, args } = choose(named);
	if (!command && name !== "" && !name.startsWith("-")) throw unknownCommand(name, commands);
	const words = args.includes("--") ? args.slice(0, args.indexOf("--")) : args;
	// Among the words of a text, -h is more likely one of them: then it is refused, with a word about --.
	const help = asked || words.includes("--help") || (command?.speaks ? words[0] === "-h" : words.includes("-h"));
	if (help || name === "--version" || name === "--get-yargs-completions")
		return (await import("./help.ts")).help(command, name, argv.slice(1));
	const [first] = args;
	if (command?.commands && first !== undefined && !first.startsWith("-")) throw unknownCommand(first, command.commands);
	const { values, positionals } = parse(command, args);
	const session = openSession(values);
	if (!command) return (await home(session)) ?? 0;
	if (command.commands && positionals[0] !== undefined) throw unknownCommand(positionals[0], command.commands);
	const [least, most] = command.words;
	const line = `xfer ${command.name} ${command.usage}`.trim();
	if (positionals.length < least)
		throw new XferError("EINPUT", `${command.name} needs ${command.usage.split(" ").slice(0, least).join(" ")}`, line);
	if (positionals.length > most) throw new XferError("EINPUT", `too many words: ${positionals.slice(most).join(" ")}`, line);
	return (await command.run(session, positionals, values)) ?? 0;
}

/** The command that the first word names, or the first two, and the words after it. */
function choose(argv: readonly string[]): { command: Command | undefined; args: readonly string[] } {
	const [name, ...rest] = argv;
	const command = commands.find((known) => known.name === name);
	if (!command) return { command, args: argv };
	if (!command.commands) return { command, args: rest };
	const [second, ...args] = commandFirst(rest, command.commands);
	const sub = command.commands.find((known) => lastWord(known) === second);
	return sub ? { command: sub, args } : { command, args: rest };
}

/** `xfer --as alice inbox` is `xfer inbox --as alice`. */
function commandFirst(argv: readonly string[], among: readonly Command[]): readonly string[] {
	if (!argv[0]?.startsWith("-") || argv[0] === "--get-yargs-completions") return argv;
	const names = new Set(among.map(lastWord));
	const isValue = (at: number) => argv[at - 1] === "--as" || argv[at - 1] === "--timeout";
	const at = argv.findIndex((word, at) => names.has(word) && !isValue(at));
	return at < 0 ? argv : [argv[at] ?? "", ...argv.slice(0, at), ...argv.slice(at + 1)];
}

function unknownCommand(name: string, among: readonly Command[]): XferError {
	const meant = similar(name, among.map(lastWord));
	const command = among.find((known) => lastWord(known) === meant);
	const sub = commands.flatMap(({ commands }) => commands ?? []).find((known) => lastWord(known) === name);
	if (sub) return new XferError("EINPUT", `no command ${JSON.stringify(name)}`, `did you mean xfer ${sub.name}?`);
	const list = among === commands ? "xfer --help" : "xfer board --help";
	return new XferError(
		"EINPUT",
		`no command ${JSON.stringify(name)}`,
		command ? `did you mean xfer ${command.name}?` : `${list} lists them`,
	);
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
	const text = command?.speaks;
	const example = `xfer ${command?.name} ${text}`;
	if (text && (plain.has(flag) || (flag === "title" && !options.subject))) {
		return `${example} "…", or: … | ${example} -`;
	}
	const synonym = options.type && flag === "kind" ? "type" : synonyms[flag];
	if (synonym === "follow") return "xfer watch";
	const meant = synonym && options[synonym] ? synonym : similar(flag, Object.keys(options));
	if (meant) return `--${meant}${options[meant]?.value ? ` ${options[meant].value}` : ""}`;
	return text ? `text that begins with a dash goes after --: ${example} -- ${typed}` : line;
}

main(process.argv.slice(2)).then(
	(code) => {
		process.exitCode = code;
	},
	(error: unknown) => {
		process.exitCode = report(error);
	},
);

import { parseArgs } from "node:util";
import { XferError } from "../lib/index.ts";
import { similar } from "../lib/names.ts";
import { type Command, common, type Option, type Values } from "./command.ts";
import { home } from "./commands/home.ts";
import { commands } from "./commands.ts";
import { report } from "./errors.ts";
import { openSession } from "./session.ts";

/** What people type for what we call otherwise, and the right line. */
const guesses: Readonly<Record<string, string>> = {
	to: 'the recipient comes first: xfer send alice "…"',
	m: 'the text needs no flag: xfer send alice "…"',
	message: 'the text needs no flag: xfer send alice "…"',
	body: 'the text needs no flag: xfer send alice "…", or: … | xfer send alice -',
	text: 'the text needs no flag: xfer send alice "…"',
	file: "xfer send alice - <FILE",
	f: "xfer send alice - <FILE",
	from: "who you are is --as NAME",
	s: "--subject LINE",
	title: "--subject LINE",
	type: "--kind task, question, answer, report, note",
	ttl: "--expires 30m",
	follow: "xfer watch",
	h: "--help",
	v: "--version",
};

/** The fast path: one table, no more than the command uses is loaded. Help, completion and `--version` come from yargs. */
async function main(argv: readonly string[]): Promise<number> {
	const words = argv.includes("--") ? argv.slice(0, argv.indexOf("--")) : argv;
	const [name = ""] = argv;
	if (words.includes("--help") || words.includes("-h") || name === "--version" || name === "help" || name === "--get-yargs-completions") {
		const { help } = await import("./help.ts");
		return help(argv);
	}
	const command = commands.find((known) => known.name === name);
	if (!command && name !== "" && !name.startsWith("-")) {
		const meant = similar(
			name,
			commands.map((known) => known.name),
		);
		throw new XferError("EINPUT", `no command ${JSON.stringify(name)}`, meant ? `did you mean xfer ${meant}?` : "xfer --help lists them");
	}
	const { values, positionals } = parse(command, command ? argv.slice(1) : argv);
	const session = openSession(values);
	if (!command) return (await home(session)) ?? 0;
	const [least, most] = command.words;
	if (positionals.length < least || positionals.length > most) {
		throw new XferError(
			"EINPUT",
			positionals.length < least ? "something is missing" : `too many words: ${positionals.slice(most).join(" ")}`,
			`xfer ${command.name} ${command.usage}`,
		);
	}
	return (await command.run(session, positionals, values)) ?? 0;
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
			const meant = similar(flag, Object.keys(options));
			const dash = flag.length > 1 ? "--" : "-";
			const cure = guesses[flag] ?? (meant ? `did you mean --${meant}?` : `${line}; text that begins with a dash goes after --`);
			throw new XferError("EINPUT", `no flag ${dash}${flag} here`, cure);
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

main(process.argv.slice(2)).then(
	(code) => {
		process.exitCode = code;
	},
	(error: unknown) => {
		process.exitCode = report(error);
	},
);

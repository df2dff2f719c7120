import type { Program } from "../../lib/adapter/handler.ts";
import { parseDuration } from "../../lib/duration.ts";
import { XferError } from "../../lib/errors.ts";
import { nodeName } from "../../lib/names.ts";
import type { Command, Values } from "../command.ts";
import { assertRunnable, programBehind } from "../program.ts";

const standard = { attempts: 5, concurrency: 1, limit: "10m" };
const line = "xfer adapter NAME --on-handoff 'LINE', or: xfer adapter NAME -- PROGRAM ARGS…";

export const adapter: Command = {
	name: "adapter",
	usage: "NAME [-- PROGRAM ARGS…]",
	summary: "be a Node that runs a command for each Handoff",
	examples: [
		["xfer adapter codex --reply -- codex exec -", "a Codex that can be woken: it reads the text, its output goes back"],
		["xfer adapter ci --on-handoff 'make test'", "exit 0: read; 75 or a signal: tried again; else failed, and the sender is told"],
		["xfer adapter ci --on-handoff ./ci.sh --print-unit", "to have it run always"],
	],
	options: {
		"on-handoff": {
			type: "string",
			value: "LINE",
			help: "a shell line: text on standard input, XFER_ID, XFER_FROM, XFER_SUBJECT, … in the environment",
		},
		reply: { type: "boolean", help: "hand what it prints for a task or question back to the sender" },
		attempts: {
			type: "string",
			value: `${standard.attempts}`,
			help: "how often to try what exits with 75, or by a signal, or not in time",
		},
		concurrency: { type: "string", value: `${standard.concurrency}`, help: "how many at a time; those of one sender stay in order" },
		limit: { type: "string", value: standard.limit, help: "how long it may run: TERM then, and KILL 5 s later" },
		once: { type: "boolean", help: "end when nothing waits any more" },
		"print-unit": { type: "boolean", help: "print what systemd or launchd needs to run this, and do nothing" },
	},
	words: [1, Number.POSITIVE_INFINITY],
	completes: "nodes",
	async run(session, words, values) {
		const { own, program: behind } = programBehind(words, 1, line);
		const [given] = own;
		if (given === undefined) throw new XferError("EINPUT", "no name before the --", line);
		const name = nodeName(given);
		const shell = values["on-handoff"];
		if ((typeof shell === "string") === (behind !== undefined))
			throw new XferError("EINPUT", behind ? "--on-handoff and a program: which of them?" : "nothing to run", line);
		if (typeof values.as === "string" && nodeName(values.as) !== name)
			throw new XferError("EINPUT", `--as ${values.as}: this is ${name}`, line);
		if (typeof shell === "string" && (shell.trim() === "" || shell.includes("\0")))
			throw new XferError("EINPUT", "the shell line is empty", line);
		const program: Program = behind ?? { file: "/bin/sh", args: ["-c", shell as string] };
		assertRunnable(program);
		const limits = {
			attempts: count(values.attempts, "--attempts", standard.attempts, 1000),
			concurrency: count(values.concurrency, "--concurrency", standard.concurrency, 256),
			limit: parseDuration(typeof values.limit === "string" ? values.limit : standard.limit, "--limit"),
		};
		if (limits.limit === 0) throw new XferError("EINPUT", "--limit 0 leaves no time to run", "such as --limit 2h");
		const { printUnit, runDaemon } = await (await import("#adapter")).daemon();
		if (values["print-unit"]) {
			printUnit(name, limits.limit, session.tree.context.root);
			return undefined;
		}
		const options = {
			...limits,
			program,
			called: nameOf(behind?.file ?? (shell as string)),
			reply: values.reply === true,
			once: values.once === true,
		};
		await runDaemon(name, options, session.json);
		return undefined;
	},
};

function count(value: Values[string], flag: string, standard: number, most: number): number {
	if (value === undefined) return standard;
	const number = /^\d{1,4}$/.test(String(value)) ? Number(value) : 0;
	if (number < 1 || number > most)
		throw new XferError("EINPUT", `${flag} ${value} is no number from 1 to ${most}`, `such as ${flag} ${standard}`);
	return number;
}

/** What a command is called: the last part of its first word. */
function nameOf(command: string): string {
	return command.trim().split(/\s/)[0]?.split("/").at(-1) ?? "";
}

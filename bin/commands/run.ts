import type { RunResult } from "../../lib/adapter/run.ts";
import { XferError } from "../../lib/errors.ts";
import { shellWord, shortId } from "../../lib/filename.ts";
import { priorities } from "../../lib/handoff.ts";
import type { Outcome } from "../../lib/send.ts";
import type { Command } from "../command.ts";
import { exit, explain } from "../errors.ts";
import { note, print } from "../output.ts";
import { programBehind } from "../program.ts";

const line = "xfer run --to NODE -- COMMAND ARGS…";
/** What a terminal's keys send: to the command too, which is not to get it twice. */
const keys = ["SIGINT", "SIGQUIT"] as const;
const signals = ["SIGTERM", "SIGHUP"] as const;

export const run: Command = {
	name: "run",
	usage: "--to NODE[,NODE…] -- COMMAND ARGS…",
	summary: "run a command, and report how it ended",
	examples: [
		["xfer run --to api -- make test", "how it ended, how long it took, its last lines, and where all of them are"],
		["xfer run --to me --as ci -- sh -c 'make && make install' &", "in the background"],
	],
	options: {
		to: { type: "string", value: "NODE", help: "who is told when it has ended" },
		subject: { type: "string", value: "LINE", help: "of the report; else how it ended, and the command" },
		priority: { type: "string", value: "HOW", help: `${priorities.join(", ")}` },
	},
	words: [0, Number.POSITIVE_INFINITY],
	async run(session, words, values) {
		const { program } = programBehind(words, 0, line);
		if (!program) throw new XferError("EINPUT", "nothing to run", line);
		const to = typeof values.to === "string" ? values.to.split(",").filter((name) => name !== "") : [];
		if (to.length === 0) throw new XferError("EINPUT", "who is told when it has ended?", line);
		if (to.includes("@all")) throw new XferError("EINPUT", "to @all only notes go, not a report", "name the Nodes");
		const priority = priorities.find((known) => known === values.priority);
		if (values.priority !== undefined && !priority)
			throw new XferError("EINPUT", `no priority "${values.priority}"`, `one of ${priorities.join(", ")}`);
		const { tree, me } = session;
		for (const name of to) tree.node(name); // who can't be told is said before it runs, not hours later
		const adapter = await import("#adapter");
		const { describeLost, describeRun, newLog, runCommand } = await adapter.run();
		const { Witness } = await adapter.witness();
		const log = newLog(tree.context);
		const cwd = workingDirectory();
		const command = [program.file, ...program.args].map(shellWord).join(" ");
		const lost = describeLost(command, cwd, log);
		const about = ["--as", me, "--kind", "report", "--subject", lost.subject, ...(priority ? ["--priority", priority] : [])];
		const witness = new Witness([process.execPath, process.argv[1] ?? "", "send", ...about, to.join(","), "--", lost.body]);
		const atTerminal = process.getBuiltinModule("node:tty").isatty(0);
		// What the command gets too, or what comes when it has ended already, does not end us: its end is told first.
		for (const signal of [...signals, ...keys]) process.on(signal, () => {});
		let result: RunResult;
		let outcomes: Outcome[];
		try {
			result = await runCommand({ program, log, onOutput: passOn, forward: [...signals, ...(atTerminal ? [] : keys)] });
			if (result.error !== undefined) note(`xfer: ${program.file} could not be started: ${result.error}`);
			const { subject, body } = describeRun(command, cwd, log, result);
			const given = typeof values.subject === "string" ? values.subject : subject;
			try {
				outcomes = tree.send({ from: me, to, kind: "report", subject: given, body, priority, cwd });
			} catch (error) {
				outcomes = [{ to: to.join(","), error: error instanceof Error ? error : new Error(String(error)) }];
			}
		} finally {
			witness.release();
		}
		const failed = outcomes.filter(({ error }) => error);
		for (const { to, error } of failed) note(`xfer: ${to} was not told how it ended: ${explain(error)} (its output: ${log})`);
		if (session.json) {
			const { code, signal, duration } = result;
			const reports = outcomes.map((outcome) =>
				outcome.error ? { to: outcome.to, error: explain(outcome.error) } : { to: outcome.to, id: outcome.id },
			);
			note(JSON.stringify({ schema: "xfer.run/1", code, signal, ms: Math.round(duration), log, reports }));
		} else
			for (const outcome of outcomes)
				if (!outcome.error) note(`xfer: ${outcome.to} is told (${shortId(outcome.id)}); all of the output: ${log}`);
		return result.code || (failed.length > 0 ? exit.failed : exit.done);
	},
};

/** What the command prints is its user's own: as it is. */
function passOn(fd: 1 | 2, chunk: Buffer): void {
	try {
		print(chunk, fd);
	} catch {
		// nobody looks any more: the log has it, and the command goes on
	}
}

function workingDirectory(): string | undefined {
	try {
		return process.cwd();
	} catch {
		return undefined; // it was removed under us
	}
}

import { type ChildProcessByStdio, spawn } from "node:child_process";
import { closeSync, constants, lstatSync, openSync, rmSync, writeSync } from "node:fs";
import { constants as system } from "node:os";
import type { Readable } from "node:stream";
import { type Context, unique } from "../context.ts";
import { formatDuration } from "../duration.ts";
import { errno } from "../errors.ts";
import { listNames, makeDirectories } from "../files.ts";
import { timestamp } from "../presence.ts";
import { End, type Program } from "./handler.ts";

export interface RunOptions {
	readonly program: Program;
	/** Where its output is kept whole. */
	readonly log: string;
	readonly onOutput: (fd: 1 | 2, chunk: Buffer) => void;
	/** Signals that are passed on to it. */
	readonly forward: readonly NodeJS.Signals[];
}

/** How a command ended. */
export interface RunResult {
	/** As a shell has it: 128 and the number of the signal; 127 or 126 when it could not be started. */
	readonly code: number;
	readonly signal: string | undefined;
	/** Why it could not be started. */
	readonly error: string | undefined;
	/** ms */
	readonly duration: number;
	/** The end of its output. */
	readonly tail: string;
	/** Why its output could not be kept whole, if so. */
	readonly logError: string | undefined;
}

const { O_APPEND, O_CREAT, O_EXCL, O_WRONLY } = constants;
/** How much of the end of the output a report holds. */
const lastBytes = 4096;
const lastLines = 20;
/** ms for which logs are kept, and for which output is waited for after the end of the command. */
const kept = 30 * 24 * 3600 * 1000;
const lingering = 1000;

/** The path of a new log, in a directory of the tree that only we know; logs of long ago are removed from it. */
export function newLog(context: Context): string {
	const directory = `${context.root}/.runs`;
	makeDirectories(directory);
	for (const name of listNames(directory)) {
		const file = `${directory}/${name}`;
		if (name.endsWith(".log") && context.now() - (lstatSync(file, { throwIfNoEntry: false })?.mtimeMs ?? context.now()) > kept)
			rmSync(file, { force: true });
	}
	return `${directory}/${timestamp(context).slice(0, 19).replaceAll(":", "")}-${unique(context.random)}.log`;
}

/**
 * Runs a command to its end, with our standard input, and keeps what it prints. It does not throw for what goes wrong with the command.
 * @throws the system's error when the log can't be made
 */
export async function runCommand({ program, log, onOutput, forward }: RunOptions): Promise<RunResult> {
	const began = performance.now();
	const fd = openSync(log, O_WRONLY | O_APPEND | O_CREAT | O_EXCL, 0o600);
	const end = new End(lastBytes);
	let logError: string | undefined;
	const result = (code: number, rest: Partial<RunResult> = {}): RunResult => ({
		code,
		signal: undefined,
		error: undefined,
		duration: performance.now() - began,
		tail: end.text().trimEnd().split("\n").slice(-lastLines).join("\n"),
		logError,
		...rest,
	});
	const unstarted = (error: unknown) =>
		result(errno(error) === "ENOENT" ? 127 : 126, { error: error instanceof Error ? error.message : String(error) });
	let child: ChildProcessByStdio<null, Readable, Readable>;
	try {
		child = spawn(program.file, program.args, { stdio: ["inherit", "pipe", "pipe"] });
	} catch (error) {
		closeSync(fd);
		return unstarted(error); // ENOTDIR is thrown, ENOENT is told by an event
	}
	const keep = (to: 1 | 2) => (chunk: Buffer) => {
		end.add(chunk);
		try {
			for (let at = 0; at < chunk.length; ) at += writeSync(fd, chunk, at);
		} catch (error) {
			logError ??= errno(error) ?? String(error); // a full disk: the command goes on
		}
		onOutput(to, chunk);
	};
	child.stdout.on("data", keep(1));
	child.stderr.on("data", keep(2));
	const pass = (signal: NodeJS.Signals) => child.kill(signal);
	for (const signal of forward) process.on(signal, pass);
	try {
		return await new Promise<RunResult>((resolve) => {
			child.once("error", (error) => {
				if (child.pid === undefined) resolve(unstarted(error));
			});
			child.once("exit", (code, signal) => {
				const finish = () => {
					clearTimeout(timer);
					child.stdout.destroy();
					child.stderr.destroy();
					resolve(result(code ?? 128 + (signal ? system.signals[signal] : 0), { signal: signal ?? undefined }));
				};
				child.once("close", finish);
				const timer = setTimeout(finish, lingering); // what it left in the background may hold the output open
			});
		});
	} finally {
		for (const signal of forward) process.off(signal, pass);
		closeSync(fd);
	}
}

/** What a report says when it was not we who saw the end of the command. */
export function describeLost(line: string, cwd: string | undefined, log: string): { subject: string; body: string } {
	const facts = `command: ${line.slice(0, 8192)}\nended: not known\n${cwd === undefined ? "" : `in: ${cwd}\n`}log: ${log}\n`;
	return { subject: `xfer run was killed: ${line}`.slice(0, 200), body: `${facts}\nWhat ran it was killed; the command may still run.\n` };
}

/** What a report says of a command that has ended: how, how long it took, where its output is, and the end of that. */
export function describeRun(line: string, cwd: string | undefined, log: string, result: RunResult): { subject: string; body: string } {
	const { code, signal, error, duration, tail, logError } = result;
	const how = error !== undefined ? `could not be started (${error})` : signal === undefined ? `exit ${code}` : `ended by ${signal}`;
	const took = formatDuration(duration);
	const facts = [
		["command", line],
		["ended", how],
		["took", took],
		["in", cwd],
		["log", logError === undefined ? log : `${log} (not whole: ${logError})`],
	];
	const lines = facts.flatMap(([key, value]) => (value === undefined ? [] : [`${key}: ${value}\n`])).join("");
	return {
		subject: `${how.slice(0, 60)} in ${took}: ${line}`.slice(0, 200),
		body: tail === "" ? `${lines}\nIt printed nothing.\n` : `${lines}\nIts last lines:\n\n${tail}\n`,
	};
}

import { type ChildProcess, spawn } from "node:child_process";
import type { Context } from "../context.ts";
import type { Taken } from "../taken.ts";
import { control } from "../visible.ts";
import type { Guardian } from "./guardian.ts";

/** What is run: a file, looked for on the PATH unless it holds a `/`, and its arguments as they are. */
export interface Program {
	readonly file: string;
	readonly args: readonly string[];
}

export interface HandlerOptions {
	readonly program: Program;
	readonly env: NodeJS.ProcessEnv;
	/** What it reads from standard input. */
	readonly input: Uint8Array;
	/** ms after which it is ended. */
	readonly limit: number;
	/** Most bytes of its standard output to keep, from the beginning. */
	readonly keep: number;
	/** Ends it when aborted. */
	readonly signal: AbortSignal;
	readonly guardian: Guardian;
	readonly onOutput: (fd: 1 | 2, chunk: Buffer) => void;
}

/** How a handler ended. */
export interface Ended {
	/** By itself, or since its time was up, or because `signal` was aborted; or it could not be started. */
	readonly how: "itself" | "limit" | "aborted" | "unstarted";
	readonly code: number | undefined;
	readonly signal: string | undefined;
	/** Why it could not be started. */
	readonly error: string | undefined;
	/** The beginning of its standard output, and how many bytes there were in all. */
	readonly stdout: Buffer;
	readonly size: number;
	/** The last 2 KB of its standard error. */
	readonly stderr: string;
	/** ms */
	readonly duration: number;
}

/** Bytes of standard error that are kept, the last ones. */
const keptErrors = 2048;
/** ms between TERM and KILL, and between two looks whether a group has ended. */
const grace = 5000;
const lookEvery = 50;
/** ms for which output is waited for after the end: what was started in the background may hold it open. */
const lingering = 1000;
/** Most bytes of a value in the environment: the system takes 128 KiB, and nobody needs more. */
const longest = 8192;

/** The environment for a Handoff in hand: its fields as single lines, and who its handler speaks as (protocol 3 and 15). */
export function environment(context: Context, node: string, { handoff, file, attempts }: Taken): NodeJS.ProcessEnv {
	const { id, from, kind, subject, re, thread, hops } = handoff;
	const fields = { ID: id, FROM: from, KIND: kind, SUBJECT: subject, RE: re ?? "", THREAD: thread ?? id, FILE: file };
	const env: NodeJS.ProcessEnv = { ...process.env };
	for (const [key, value] of Object.entries(fields)) env[`XFER_${key}`] = key === "FILE" ? value : oneLine(value);
	return {
		...env,
		XFER_ATTEMPT: String(attempts + 1),
		XFER_NODE: node,
		XFER_INSTANCE: context.instance,
		XFER_HOME: context.root,
		XFER_HOPS: String(Math.min(Math.max(hops + 1, context.hops), 999_999_999)),
	};
}

/** A peer's text as the value of a variable: no line ends, no NUL, which ends it, no other control characters, and not too long. */
function oneLine(text: string): string {
	const line = text.replace(/[\r\n\t\u2028\u2029]+/g, " ").replace(control, "");
	return Buffer.byteLength(line) <= longest
		? line
		: Buffer.from(line)
				.subarray(0, longest)
				.toString("utf8")
				.replace(/\ufffd+$/, "");
}

/** Runs a program to its end, in a process group of its own. It does not throw: what went wrong is how it ended. */
export async function runHandler(options: HandlerOptions): Promise<Ended> {
	const began = performance.now();
	const out = new Beginning(options.keep);
	const errors = new End(keptErrors);
	const ended = (how: Ended["how"], rest: Partial<Ended> = {}): Ended => ({
		how,
		code: undefined,
		signal: undefined,
		error: undefined,
		stdout: out.bytes(),
		size: out.size,
		stderr: errors.text(),
		duration: performance.now() - began,
		...rest,
	});
	let child: ChildProcess;
	try {
		const { file, args } = options.program;
		child = spawn(file, args, { env: options.env, detached: true, stdio: ["pipe", "pipe", "pipe"] });
	} catch (error) {
		return ended("unstarted", { error: String(error) }); // E2BIG is thrown, ENOENT is told by an event
	}
	const { pid, stdin, stdout, stderr } = child;
	const exit = new Promise<{ code: number | null; signal: string | null } | Error>((resolve) => {
		child.once("error", resolve);
		child.once("exit", (code, signal) => resolve({ code, signal }));
	});
	const closed = new Promise<void>((resolve) => child.once("close", resolve));
	if (pid === undefined) return ended("unstarted", { error: String(await exit) });
	options.guardian.add(pid);
	stdin?.on("error", () => {}); // it may end before it has read all
	stdin?.end(options.input);
	stdout?.on("data", (chunk: Buffer) => {
		out.add(chunk);
		options.onOutput(1, chunk);
	});
	stderr?.on("data", (chunk: Buffer) => {
		errors.add(chunk);
		options.onOutput(2, chunk);
	});
	let how: Ended["how"] = "itself";
	let ending: Promise<void> | undefined;
	const end = (why: Ended["how"]) => {
		if (ending) return;
		how = why;
		ending = endGroup(pid);
	};
	const abort = () => end("aborted");
	const timer = setTimeout(() => end("limit"), Math.min(options.limit, 2 ** 31 - 1));
	options.signal.addEventListener("abort", abort);
	if (options.signal.aborted) abort();
	const result = await exit;
	clearTimeout(timer);
	options.signal.removeEventListener("abort", abort);
	// A crash ends all of it: what is left would work beside the next try.
	if (!(result instanceof Error) && result.signal !== null) ending ??= endGroup(pid);
	await ending;
	options.guardian.remove(pid);
	await within(closed, lingering);
	for (const stream of [stdin, stdout, stderr]) stream?.destroy();
	if (result instanceof Error) return ended("unstarted", { error: String(result) });
	return ended(how, { code: result.code ?? undefined, signal: result.signal ?? undefined });
}

/** Ends a process group: TERM, and KILL when something of it is there 5 s later. */
async function endGroup(group: number): Promise<void> {
	kill(group, "SIGTERM");
	const end = performance.now() + grace;
	while (performance.now() < end) {
		if (!kill(group, 0)) return;
		await new Promise((resolve) => setTimeout(resolve, lookEvery));
	}
	kill(group, "SIGKILL");
}

/** Whether there was anything in the group to get the signal. */
function kill(group: number, signal: NodeJS.Signals | 0): boolean {
	try {
		return process.kill(-group, signal);
	} catch {
		return false; // nothing is left of it
	}
}

async function within(done: Promise<void>, ms: number): Promise<void> {
	let timer: NodeJS.Timeout | undefined;
	await Promise.race([
		done,
		new Promise<void>((resolve) => {
			timer = setTimeout(resolve, ms);
		}),
	]);
	clearTimeout(timer);
}

/** The first bytes of a stream. */
class Beginning {
	size = 0;
	readonly #limit: number;
	readonly #chunks: Buffer[] = [];

	constructor(limit: number) {
		this.#limit = limit;
	}

	add(chunk: Buffer): void {
		if (this.size < this.#limit) this.#chunks.push(chunk.subarray(0, this.#limit - this.size));
		this.size += chunk.length;
	}

	bytes(): Buffer {
		return Buffer.concat(this.#chunks);
	}
}

/** The last bytes of a stream. */
export class End {
	readonly #limit: number;
	#bytes = Buffer.alloc(0);

	constructor(limit: number) {
		this.#limit = limit;
	}

	add(chunk: Buffer): void {
		this.#bytes = Buffer.concat([this.#bytes, chunk.subarray(-this.#limit)]).subarray(-this.#limit);
	}

	/** As text; of a character that was cut, nothing. */
	text(): string {
		let start = 0;
		if (this.#bytes.length === this.#limit) while (start < 4 && ((this.#bytes[start] ?? 0) & 0xc0) === 0x80) start++;
		return this.#bytes.subarray(start).toString("utf8");
	}
}

/** Child processes that run the library from its sources, as the suites here start them. */
import type { ChildProcess } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { afterAll } from "vitest";
import { start } from "../helpers.ts";

// Hundreds of processes load the same sources: they are stripped of their types once.
const cache = fs.mkdtempSync(path.join(os.tmpdir(), "xfer-cache-"));
afterAll(() => fs.rmSync(cache, { recursive: true, force: true }));

export interface Actor {
	readonly child: ChildProcess;
	/** What it printed so far. */
	readonly lines: readonly string[];
	/** Its exit code or signal, once it has ended and all that it printed has been read. */
	readonly ended: Promise<number | string>;
	errors(): string;
	tell(message: unknown): void;
	kill(signal: NodeJS.Signals): void;
}

/** Runs a script of this directory, by way of another command if need be. `options` reach it as JSON in its first argument. */
export function actor(script: string, options: object, env: NodeJS.ProcessEnv, by: string[] = []): Actor {
	const argv = [...by, process.execPath, path.join(import.meta.dirname, script), JSON.stringify(options)];
	return watched(start(argv, { env: { NODE_COMPILE_CACHE: cache, ...env }, stdio: ["ignore", "pipe", "pipe", "ipc"] }));
}

/** The same view of any child process. */
export function watched(child: ChildProcess): Actor {
	const lines: string[] = [];
	let rest = "";
	let errors = "";
	child.stdout?.setEncoding("utf8").on("data", (text: string) => {
		const parts = (rest + text).split("\n");
		rest = parts.pop() ?? "";
		lines.push(...parts);
	});
	child.stderr?.setEncoding("utf8").on("data", (text: string) => {
		errors += text;
	});
	child.on("error", () => {}); // told to one that has just been killed
	const ended = new Promise<number | string>((resolve) => child.on("close", (code, signal) => resolve(signal ?? code ?? -1)));
	return {
		child,
		lines,
		ended,
		errors: () => errors,
		tell: (message) => child.send(message as object, () => {}),
		kill: (signal) => child.kill(signal),
	};
}

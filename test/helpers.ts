/** What every suite needs: a tree and a HOME that are removed afterwards, and processes that are ended by their id. */
import { type ChildProcess, execFileSync, type SpawnOptions, spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { afterAll, afterEach, beforeAll, onTestFinished } from "vitest";

export const project = path.resolve(import.meta.dirname, "..");
export const cli = [process.execPath, path.join(project, "dist/bin/xfer.cjs")];
export const sh = (shell: "dash" | "busybox" = "dash") => [
	...(shell === "busybox" ? ["busybox", "sh"] : ["dash"]),
	path.join(project, "spec/xfer.sh"),
];

const dirs: string[] = [];
const children = new Set<ChildProcess>();

afterEach(() => {
	for (const child of children) child.kill("SIGKILL");
	children.clear();
	for (const dir of dirs.splice(0)) fs.rmSync(dir, { recursive: true, force: true });
});

/** A temporary directory, removed after the test. `under` is the directory it is made in. */
export function tempDir(under = os.tmpdir()): string {
	const dir = fs.mkdtempSync(path.join(fs.realpathSync(under), "xfer-test-"));
	dirs.push(dir);
	return dir;
}

/** A fresh HOME with a tree in it, and the environment that a process needs to use them and nothing of the real ones. */
export function tempTree(): { home: string; root: string; env: NodeJS.ProcessEnv } {
	const home = tempDir();
	const root = path.join(home, ".xfer");
	return { home, root, env: { PATH: process.env.PATH, HOME: home, XFER_HOME: root, LC_ALL: "C.UTF-8" } };
}

/** For a suite: a directory to be the PATH, with no tool but busybox's own applets. It is there while the suite's tests run. */
export function busyboxApplets(): string {
	const applets = path.join(os.tmpdir(), `xfer-applets-${process.pid}-${Date.now()}`);
	beforeAll(() => {
		fs.mkdirSync(applets);
		execFileSync("busybox", ["--install", "-s", applets]);
		fs.symlinkSync(fs.readlinkSync(path.join(applets, "sh")), path.join(applets, "busybox"));
	});
	afterAll(() => fs.rmSync(applets, { recursive: true, force: true }));
	return applets;
}

export interface Result {
	code: number | null;
	signal: NodeJS.Signals | null;
	out: string;
	err: string;
	bytes: Buffer;
}

/** Starts a process that the test's end kills. */
export function start(argv: string[], options: SpawnOptions): ChildProcess {
	const [file, ...args] = argv as [string, ...string[]];
	const child = spawn(file, args, options);
	children.add(child);
	child.on("exit", () => children.delete(child));
	return child;
}

/** Runs a process to its end. Standard input is `input`, or closed. */
export function run(
	argv: string[],
	options: { env: NodeJS.ProcessEnv; cwd?: string; input?: string | Buffer; uid?: number },
): Promise<Result> {
	const { input, ...rest } = options;
	return new Promise((resolve, reject) => {
		const child = start(argv, { ...rest, stdio: [input === undefined ? "ignore" : "pipe", "pipe", "pipe"] });
		const out: Buffer[] = [];
		const err: Buffer[] = [];
		child.stdout?.on("data", (chunk: Buffer) => out.push(chunk));
		child.stderr?.on("data", (chunk: Buffer) => err.push(chunk));
		child.stdin?.on("error", () => {}); // the process may end before it reads all of its input
		child.stdin?.end(input);
		child.on("error", reject);
		child.on("close", (code, signal) => {
			const bytes = Buffer.concat(out);
			resolve({ code, signal, bytes, out: bytes.toString(), err: Buffer.concat(err).toString() });
		});
	});
}

/** Waits for a condition, looking every few ms; throws after `limit` ms. */
export async function until<T>(condition: () => T | Promise<T>, what = "the condition", limit = 60_000): Promise<NonNullable<T>> {
	const end = Date.now() + limit;
	for (;;) {
		const value = await condition();
		if (value) return value;
		if (Date.now() > end) throw new Error(`waited ${limit} ms for ${what}`);
		await new Promise((resolve) => setTimeout(resolve, 15));
	}
}

/** The names in a directory, sorted; none when it is not there. */
export function ls(...parts: string[]): string[] {
	try {
		return fs.readdirSync(path.join(...parts)).sort();
	} catch {
		return [];
	}
}

export { onTestFinished };

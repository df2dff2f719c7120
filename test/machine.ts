/** Machines that share a Board through git: each a tree, a HOME and a Board of its own, as a library and as processes. */
import fs from "node:fs";
import path from "node:path";
import { afterEach, beforeEach, expect } from "vitest";
import {
	type Board,
	type ContextOptions,
	initBoard,
	openBoard,
	openTree,
	readCard,
	type SyncReport,
	syncBoard,
	type Tree,
} from "../lib/index.ts";
import { cli, ls, type Result, run, tempDir } from "./helpers.ts";

const outer = { ...process.env };
let shims = "";

/** Nothing of the real HOME and of git's settings, and an `xfer` in PATH as the merge driver calls it. */
export function withGit(): void {
	beforeEach(() => {
		shims = tempDir();
		script(path.join(shims, "xfer"), `exec '${cli[0]}' '${cli[1]}' "$@"`);
		for (const key of Object.keys(process.env)) if (key.startsWith("GIT_") || key.startsWith("SSH_")) delete process.env[key];
		Object.assign(process.env, { GIT_CONFIG_NOSYSTEM: "1", HOME: tempDir(), PATH: `${shims}:${outer.PATH}` });
	});
	afterEach(() => {
		for (const key of Object.keys(process.env)) if (!(key in outer)) delete process.env[key];
		Object.assign(process.env, outer);
	});
}

/** A shell script that can be run. */
export function script(file: string, text: string): string {
	fs.writeFileSync(file, `#!/bin/sh\n${text}\n`, { mode: 0o755 });
	return file;
}

export interface Machine {
	readonly host: string;
	readonly root: string;
	readonly directory: string;
	readonly env: NodeJS.ProcessEnv;
	readonly tree: Tree;
	readonly board: Board;
	/** Runs git on its Board, as a person named `host`. */
	git(...args: string[]): Promise<Result>;
	/** What git prints; the call has to work. */
	ask(...args: string[]): Promise<string>;
	/** Runs the CLI. */
	xfer(...args: string[]): Promise<Result>;
	sync(me?: string): Promise<SyncReport>;
	/** A file of the Board, a character a byte; and back. */
	read(file: string): string;
	write(file: string, text: string | Buffer): void;
}

/** A machine whose Board is not there yet. */
export function machine(host: string, options: ContextOptions = {}): Machine {
	const home = tempDir();
	const root = path.join(home, ".xfer");
	const directory = path.join(root, "board");
	const tree = openTree({ root, host, durable: false, ...options });
	const board = openBoard(tree);
	const env: NodeJS.ProcessEnv = {
		PATH: process.env.PATH,
		HOME: home,
		XFER_HOME: root,
		XFER_NODE: host,
		XFER_DURABILITY: "none",
		LC_ALL: "C.UTF-8",
		GIT_CONFIG_NOSYSTEM: "1",
	};
	const person = {
		GIT_AUTHOR_NAME: host,
		GIT_AUTHOR_EMAIL: `${host}@example.org`,
		GIT_COMMITTER_NAME: host,
		GIT_COMMITTER_EMAIL: `${host}@example.org`,
	};
	const git = (...args: string[]) => run(["git", ...args], { env: { ...env, ...person }, cwd: directory });
	return {
		host,
		root,
		directory,
		env,
		tree,
		board,
		git,
		ask: async (...args) => {
			const done = await git(...args);
			expect(done, args.join(" ")).toMatchObject({ code: 0 });
			return done.out.trimEnd();
		},
		xfer: (...args) => run([...cli, ...args], { env }),
		sync: (me = host) => syncBoard(tree, board, me),
		read: (file) => fs.readFileSync(path.join(directory, file), "latin1"),
		write: (file, text) => fs.writeFileSync(path.join(directory, file), text, "latin1"),
	};
}

/** An empty repository to push to. */
export async function remote(): Promise<string> {
	const directory = path.join(tempDir(), "board.git");
	expect(await run(["git", "init", "--quiet", "--bare", "-b", "main", directory], { env: process.env })).toMatchObject({ code: 0 });
	return directory;
}

/** Two machines with Boards that share a remote. */
export async function twoMachines(options: ContextOptions = {}): Promise<{ one: Machine; two: Machine; url: string }> {
	const url = await remote();
	const [one, two] = [machine("one", options), machine("two", options)];
	for (const each of [one, two]) await initBoard(each.board, url);
	await settle(one, two);
	return { one, two, url };
}

/** The files that are not hidden, and their bytes. */
export function cardsOf({ directory }: Machine): Record<string, string> {
	const cards: Record<string, string> = {};
	for (const name of (fs.readdirSync(directory, { recursive: true }) as string[]).sort())
		if (!name.startsWith(".") && fs.lstatSync(path.join(directory, name)).isFile())
			cards[name] = fs.readFileSync(path.join(directory, name), "latin1");
	return cards;
}

/** Syncs each in turn until none has anything to tell the others. */
export async function settle(...all: Machine[]): Promise<void> {
	for (let round = 0; ; round++) {
		expect(round, "rounds until nothing is new").toBeLessThan(6);
		let news = 0;
		for (const each of all) {
			const { committed, merged, pushed } = await each.sync();
			news += committed.length + merged.length + Number(pushed);
		}
		if (news === 0) break;
	}
}

/** All Boards are the same, byte for byte, and nothing is left to commit. */
export async function expectSame(...all: Machine[]): Promise<void> {
	const [first, ...others] = all as [Machine, ...Machine[]];
	for (const other of others) {
		expect(cardsOf(other)).toEqual(cardsOf(first));
		expect(await other.ask("rev-parse", "HEAD")).toBe(await first.ask("rev-parse", "HEAD"));
	}
	for (const each of all) {
		expect(await each.ask("status", "--porcelain")).toBe("");
		expect(ls(each.directory, ".locks").filter((name) => !name.endsWith(".lock"))).toEqual([]);
	}
}

/** The texts of a Card's Entries, in the order of the file. */
export function textsOf(one: Machine, file: string): string[] {
	return readCard(fs.readFileSync(path.join(one.directory, file))).entries.map(({ text }) => text.toString("latin1"));
}

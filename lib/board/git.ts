import { spawn } from "node:child_process";
import { dirname } from "node:path";
import { errno, XferError } from "../errors.ts";
import { shellWord } from "../filename.ts";

/** What `git rev-parse --local-env-vars` lists: a hook that runs us names its own repository, and this is another one. */
const localVariables = [
	"GIT_ALTERNATE_OBJECT_DIRECTORIES",
	"GIT_CONFIG",
	"GIT_CONFIG_PARAMETERS",
	"GIT_OBJECT_DIRECTORY",
	"GIT_DIR",
	"GIT_WORK_TREE",
	"GIT_IMPLICIT_WORK_TREE",
	"GIT_GRAFT_FILE",
	"GIT_INDEX_FILE",
	"GIT_NO_REPLACE_OBJECTS",
	"GIT_REPLACE_REF_BASE",
	"GIT_PREFIX",
	"GIT_SHALLOW_FILE",
	"GIT_COMMON_DIR",
	"GIT_INTERNAL_SUPER_PREFIX",
	"GIT_QUARANTINE_PATH",
	"GIT_NAMESPACE",
];
/** A server that says nothing for a minute is gone. */
const settings = ["-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=60"];

/** How a call of git ended. */
export interface GitResult {
	readonly code: number;
	readonly out: Buffer;
	/** git's words on one line, without its hints. */
	readonly words: string;
}

/** git, in one directory. It never asks anything: whoever runs us may not see the question. */
export class Git {
	readonly directory: string;
	#ssh: string | undefined;
	#identity: string[] | undefined;

	constructor(directory: string) {
		this.directory = directory;
	}

	/**
	 * Runs git, whatever comes of it.
	 * @throws {XferError} EGIT when there is no git
	 */
	try(args: readonly string[], input?: string | Buffer): Promise<GitResult> {
		const env: NodeJS.ProcessEnv = { ...process.env };
		for (const name of localVariables) delete env[name];
		Object.assign(env, {
			LC_ALL: "C",
			GIT_LITERAL_PATHSPECS: "1",
			GIT_EDITOR: ":",
			GIT_TERMINAL_PROMPT: "0",
			GIT_ASKPASS: "false",
			SSH_ASKPASS_REQUIRE: "never",
			GIT_CEILING_DIRECTORIES: dirname(this.directory), // a repository around the Board is another one
			...(this.#ssh && { GIT_SSH_COMMAND: this.#ssh }),
		});
		return new Promise((resolve, reject) => {
			const child = spawn("git", [...settings, ...args], { cwd: this.directory, env, stdio: ["pipe", "pipe", "pipe"] });
			const out: Buffer[] = [];
			const err: Buffer[] = [];
			child.stdout.on("data", (chunk: Buffer) => out.push(chunk));
			child.stderr.on("data", (chunk: Buffer) => err.push(chunk));
			child.stdin.on("error", () => {}); // it ended before it read all: its exit code says why
			child.stdin.end(input);
			child.on("error", (error) => {
				const what =
					errno(error) === "ENOENT" ? "git can't be run: it is not installed, or the Board's directory is missing" : String(error);
				reject(new XferError("EGIT", what, "install git; xfer board init makes the Board a repository"));
			});
			child.on("close", (code) => resolve({ code: code ?? 1, out: Buffer.concat(out), words: oneLine(Buffer.concat(err).toString()) }));
		});
	}

	/**
	 * What git prints, for a call that has to work.
	 * @throws {XferError} EGIT with git's words
	 */
	async run(args: readonly string[], input?: string | Buffer): Promise<Buffer> {
		const { code, out, words } = await this.try(args, input);
		if (code === 0) return out;
		throw new XferError("EGIT", `git ${args.find((word) => /^[a-z]/.test(word))}: ${words || out.toString().trim() || `exit ${code}`}`);
	}

	/**
	 * The first line of what git prints; undefined when it says no, which is exit 1.
	 * @throws {XferError} EGIT with git's words
	 */
	async ask(args: readonly string[]): Promise<string | undefined> {
		const { code, out, words } = await this.try(args);
		if (code === 0) return out.toString().split("\n")[0];
		if (code === 1) return undefined;
		throw new XferError("EGIT", `git ${args[0]}: ${words || `exit ${code}`}`);
	}

	/** Talks to remotes without a question: ssh would ask on the terminal by itself. */
	async neverAsk(): Promise<void> {
		const { GIT_SSH_COMMAND: command, GIT_SSH: program } = process.env;
		const own = command || (await this.ask(["config", "core.sshCommand"])) || (program ? shellWord(program) : "ssh");
		this.#ssh = `${own} -o BatchMode=yes -o ConnectTimeout=30`;
	}

	/** Options with which a commit has an author also where nobody told git who it is. */
	async identity(name: string, host: string): Promise<readonly string[]> {
		this.#identity ??= (await this.ask(["config", "user.email"])) ? [] : ["-c", `user.name=${name}`, "-c", `user.email=${name}@${host}`];
		return this.#identity;
	}

	/** The contents of blobs. */
	async blobs(ids: readonly string[]): Promise<Map<string, Buffer>> {
		const wanted = [...new Set(ids)];
		const found = new Map<string, Buffer>();
		if (wanted.length === 0) return found;
		const out = await this.run(["cat-file", "--batch"], `${wanted.join("\n")}\n`);
		for (let at = 0, next = 0; next < wanted.length; next++) {
			const line = out.indexOf(10, at);
			const [id = "", type, size] = out.toString("latin1", at, line).split(" ");
			if (type !== "blob") throw new XferError("EGIT", `git cat-file: ${id} is ${type}, no blob`);
			found.set(id, out.subarray(line + 1, line + 1 + Number(size)));
			at = line + 1 + Number(size) + 1;
		}
		return found;
	}
}

function oneLine(words: string): string {
	return words
		.split("\n")
		.map((line) => line.trim())
		.filter((line) => line !== "" && !/^(?:hint:|Please make sure|and the repository exists)/.test(line))
		.join("; ");
}

/** A process that calls hooks as a host does: through a shell, with the event on standard input. It is the host's process, and can be killed. */
import type { ChildProcess } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";
import { openTree } from "../../lib/index.ts";
import { cli, start, tempTree } from "../helpers.ts";

export interface HookResult {
	code: number | null;
	out: string;
	err: string;
}

export interface HookOptions {
	/** Reads nothing of its standard output: closed at once. */
	deaf?: boolean;
	/** Never closes its standard input. */
	open?: boolean;
	/** Kills it after so many ms. */
	kill?: number;
	env?: NodeJS.ProcessEnv;
}

const program = `
const { spawn } = require("node:child_process");
require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
	const { id, command, input, deaf, open, kill, env } = JSON.parse(line);
	const child = spawn(command, { shell: true, stdio: ["pipe", "pipe", "pipe"], env: { ...process.env, ...env } });
	let out = "", err = "";
	if (deaf) child.stdout.destroy();
	else child.stdout.on("data", (chunk) => { out += chunk; });
	child.stderr.on("data", (chunk) => { err += chunk; });
	child.stdin.on("error", () => {});
	if (input !== undefined) child.stdin.write(input);
	if (!open) child.stdin.end();
	if (kill) setTimeout(() => child.kill("SIGKILL"), kill);
	child.on("close", (code) => process.stdout.write(JSON.stringify({ id, code, out, err }) + "\\n"));
});
`;

export class FakeHost {
	readonly child: ChildProcess;
	readonly #waiting = new Map<number, (result: HookResult) => void>();
	#count = 0;

	constructor(env: NodeJS.ProcessEnv, cwd: string) {
		this.child = start([process.execPath, "-e", program], { env, cwd, stdio: ["pipe", "pipe", "inherit"] });
		if (!this.child.stdout) throw new Error("no output");
		createInterface({ input: this.child.stdout }).on("line", (line) => {
			const { id, ...result } = JSON.parse(line);
			this.#waiting.get(id)?.(result);
			this.#waiting.delete(id);
		});
	}

	/** Runs a shell line with this on its standard input, as a child of the host. */
	shell(command: string, input?: string, options: HookOptions = {}): Promise<HookResult> {
		const id = ++this.#count;
		this.child.stdin?.write(`${JSON.stringify({ id, command, input, ...options })}\n`);
		return new Promise((resolve) => this.#waiting.set(id, resolve));
	}
}

/** A tree, a project, and hosts that run in it. */
export function hostsIn(project = "proj") {
	const { root, home, env } = tempTree();
	const cwd = path.join(home, project);
	fs.mkdirSync(cwd);
	const tree = openTree({ root, durable: false });
	tree.join("bob");
	const hook = (
		host: FakeHost,
		name: string,
		event: string,
		more: object = {},
		options: HookOptions & { args?: string; session?: string } = {},
	) => {
		const { args = "", session = "s1", ...rest } = options;
		const input = JSON.stringify({ session_id: session, transcript_path: `${home}/t.jsonl`, cwd, hook_event_name: event, ...more });
		return host.shell(`${hookLine} ${name} ${event} ${args}`, input, rest);
	};
	return {
		root,
		home,
		cwd,
		env,
		tree,
		hook,
		host: (more: NodeJS.ProcessEnv = {}) => new FakeHost({ ...env, ...more }, cwd),
		send: (to: string, body: string, more: object = {}) => tree.send({ from: "bob", to: [to], body, ...more }),
		states: (name: string) =>
			Object.fromEntries(
				tree
					.node(name)
					.inbox.list({ states: () => true })
					.items.map(({ subject, state }) => [subject, state]),
			),
	};
}

export const hookLine = cli
	.map((word) => `'${word}'`)
	.join(" ")
	.concat(" hook");

/** The text that a hook's standard output puts into the context, or keeps its host going with. */
export function spoken({ out }: HookResult): string {
	if (out === "") return "";
	const { hookSpecificOutput, reason } = JSON.parse(out);
	return hookSpecificOutput?.additionalContext ?? reason ?? "";
}

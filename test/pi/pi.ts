/**
 * The real pi, driven from outside: a model on the loopback that records what it is asked, `pi --mode rpc`, `pi -p`, and the TUI in tmux.
 * No network, no key, nothing of the real HOME. What a test starts is ended after it, and must have ended well.
 */
import { type ChildProcess, execFileSync } from "node:child_process";
import fs from "node:fs";
import http from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { afterEach, expect } from "vitest";
import { type Listed, openTree, type Presence, type Tree } from "../../lib/index.ts";
import { onTestFinished, project, type Result, run, start, tempTree, until } from "../helpers.ts";

export const piCli = path.join(project, "node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js");
export const extension = path.join(project, "extension/index.ts");

/** Run before the temporary directories go: the last first. */
const closers: (() => void | Promise<void>)[] = [];
/** What did not end well; told when the directories are gone, for what fails in an `afterEach` keeps the next one from running. */
const failures: unknown[] = [];
afterEach(async () => {
	for (const close of closers.splice(0).reverse()) {
		try {
			await close();
		} catch (error) {
			failures.push(error);
		}
	}
});

/** Something to be done at the end of the test, before its directories are removed. */
export function atEnd(close: () => void | Promise<void>): void {
	closers.push(close);
}

// The model

export interface Said {
	readonly role: string;
	readonly text: string;
}

/** One request to the model. */
export interface Request {
	readonly at: number;
	readonly messages: readonly Said[];
	/** The text of the last message. */
	readonly last: string;
	/** The names of the tools it may call. */
	readonly tools: readonly string[];
	/** As it came. */
	readonly body: { readonly tools?: readonly { function: { name: string; description?: string; parameters?: unknown } }[] };
}

/**
 * What the model does: words to say, and in them commands, each ended by `END`: `TOOL:shell command` and `CALL:tool {json}` call tools,
 * `SLOW:ms` waits before the first word, `ERROR:status` is an error of the provider, `USED:n` is how many tokens the context has. Undefined: what is standard.
 */
export type Answer = (request: Request, index: number) => string | undefined | Promise<string | undefined>;

export interface Model {
	readonly port: number;
	readonly requests: Request[];
	/** Standard: it obeys the commands in the last message if that is a user's, and else says `echo(n): ` and the beginning of it. */
	answer: Answer;
}

/** Starts a model that speaks OpenAI's chat completions. */
export async function startModel(answer: Answer = () => undefined): Promise<Model> {
	const model = { requests: [] as Request[], answer, port: 0 };
	const server = http.createServer((request, response) => {
		const parts: Buffer[] = [];
		request.on("data", (part: Buffer) => parts.push(part));
		request.on("end", () =>
			reply(model, Buffer.concat(parts).toString(), request.method === "POST", response).catch(() => response.destroy()),
		);
	});
	await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
	model.port = (server.address() as AddressInfo).port;
	atEnd(
		() =>
			new Promise((resolve) => {
				server.closeAllConnections();
				server.close(() => resolve());
			}),
	);
	return model;
}

async function reply(model: Model, raw: string, isPost: boolean, response: http.ServerResponse): Promise<void> {
	if (!isPost) {
		response.writeHead(200, { "content-type": "application/json" }).end('{"data":[]}');
		return;
	}
	const body = JSON.parse(raw);
	const text = (content: string | { text?: string }[] | null) =>
		typeof content === "string" ? content : (content ?? []).map((part) => part.text ?? "").join("");
	const messages: Said[] = body.messages.map(({ role, content }: { role: string; content: string }) => ({ role, text: text(content) }));
	const last = messages.at(-1) ?? { role: "user", text: "" };
	const tools = (body.tools ?? []).map((tool: { function: { name: string } }) => tool.function.name);
	const request = { at: Date.now(), messages, last: last.text, tools, body };
	const index = model.requests.push(request);
	const given = await model.answer(request, index - 1);
	const words = given ?? (last.role === "user" ? last.text : "");
	const slow = /SLOW:(\d+)END/.exec(words);
	if (slow) await new Promise((resolve) => setTimeout(resolve, Number(slow[1])));
	const error = /ERROR:(\d+)END/.exec(words);
	if (error) {
		response.writeHead(Number(error[1]), { "content-type": "application/json" }).end('{"error":{"message":"the model is unwell"}}');
		return;
	}
	response.writeHead(200, { "content-type": "text/event-stream" });
	const used = Number(/USED:(\d+)END/.exec(words)?.[1] ?? 10);
	const head = { id: `c${index}`, object: "chat.completion.chunk", created: 1, model: body.model };
	const chunk = (delta: object, finish_reason: string | null = null) => {
		const usage = finish_reason ? { usage: { prompt_tokens: used, completion_tokens: 5, total_tokens: used + 5 } } : {};
		response.write(`data: ${JSON.stringify({ ...head, choices: [{ index: 0, delta, finish_reason }], ...usage })}\n\n`);
	};
	const calls = [...words.matchAll(/TOOL:([\s\S]*?)END|CALL:(\w+) ([\s\S]*?)END/g)].map(([, command, name, json], n) => ({
		index: n,
		id: `call_${index}_${n}`,
		type: "function",
		function: command === undefined ? { name, arguments: json } : { name: "bash", arguments: JSON.stringify({ command }) },
	}));
	if (calls.length > 0) {
		chunk({ role: "assistant", tool_calls: calls });
		chunk({}, "tool_calls");
	} else {
		const said = given?.replace(/(?:SLOW|USED):\d+END/g, "") ?? `echo(${index}): ${last.text.slice(0, 60)}`;
		chunk({ role: "assistant", content: said.slice(0, 10) });
		chunk({ content: said.slice(10) });
		chunk({}, "stop");
	}
	response.end("data: [DONE]\n\n");
}

/** Something that is closed until the test opens it; `command` is a shell's wait for it, which also ends when the test does. */
export interface Gate {
	readonly command: string;
	readonly opened: Promise<void>;
	open(): void;
}

export function gate(world: World): Gate {
	const file = path.join(world.home, `gate-${Math.random().toString(36).slice(2)}`);
	let open = () => {};
	const opened = new Promise<void>((resolve) => {
		open = resolve;
	});
	atEnd(open);
	return {
		command: `while [ -d '${world.home}' ] && ! [ -e '${file}' ]; do sleep 0.05; done`,
		opened,
		open() {
			fs.writeFileSync(file, "");
			open();
		},
	};
}

/** An extension with the command `/again` that reloads, as a person does by `/reload`; a client of rpc has none. */
export function reloader(world: World): string {
	const file = path.join(world.home, "reloader.ts");
	fs.writeFileSync(
		file,
		`export default (pi: any) => pi.registerCommand("again", { handler: async (_: string, context: any) => { await context.reload(); } });`,
	);
	return file;
}

// The tree

/** A HOME with a tree, and what a test does in it. */
export interface World {
	readonly home: string;
	readonly root: string;
	readonly tree: Tree;
	/** Hands off, from bob unless said otherwise; returns the id. The recipient is made if it is not there. */
	send(to: string, body: string | Uint8Array, more?: Partial<Parameters<Tree["send"]>[0]>): string;
	/** Puts a file into `new/` by hand, as a shell does; returns its name. */
	drop(to: string, name: string, text: string | Uint8Array): string;
	/** All of a Node's Inbox, in whatever state. */
	inbox(node: string): Listed[];
	/** The state of one Handoff. */
	state(node: string, id: string): string;
	/** Whether all these, or all there are, are in this state. */
	all(node: string, state: string, ids?: readonly string[]): boolean;
	presence(node: string): Presence;
	isLive(node: string): boolean;
}

export function makeWorld(): World {
	onTestFinished(() => {
		const [failure] = failures.splice(0);
		if (failure) throw failure;
	});
	const { home, root } = tempTree();
	const tree = openTree({ root, durable: false, env: {} });
	const inbox = (node: string) => (tree.has(node) ? tree.node(node).inbox.list({ states: () => true }).items : []);
	return {
		home,
		root,
		tree,
		send(to, body, more = {}) {
			tree.join(to);
			const [outcome] = tree.send({ from: "bob", to: [to], body, ...more });
			if (!outcome || outcome.error) throw outcome?.error ?? new Error("not sent");
			return outcome.id;
		},
		drop(to, name, text) {
			const { directory } = tree.join(to);
			fs.writeFileSync(path.join(directory, "tmp", name), text);
			fs.renameSync(path.join(directory, "tmp", name), path.join(directory, "new", name));
			return name;
		},
		inbox,
		state: (node, id) => inbox(node).find((item) => item.id === id)?.state ?? "gone",
		all(node, state, ids) {
			const items = inbox(node);
			const wanted = ids ? items.filter((item) => ids.includes(item.id)) : items;
			return wanted.length === (ids?.length ?? items.length) && wanted.every((item) => item.state === state);
		},
		presence: (node) => (tree.has(node) ? tree.node(node).presence() : {}),
		isLive: (node) => tree.has(node) && tree.node(node).live() !== undefined,
	};
}

// pi

/** The settings, sessions and model of one pi: what a second process of it finds again. */
export interface Agent {
	readonly directory: string;
	readonly cwd: string;
	readonly model: Model;
}

export interface PiOptions {
	/** The Node's name, given by `--xfer`. Undefined: derived. */
	readonly node?: string | undefined;
	readonly args?: readonly string[];
	readonly env?: NodeJS.ProcessEnv;
	readonly settings?: object;
	readonly cwd?: string;
	/** Extensions that are loaded before ours, and after it. */
	readonly before?: readonly string[];
	readonly after?: readonly string[];
	/** The pi whose settings, sessions, cwd and model it shares. */
	readonly agent?: Agent;
	readonly answer?: Answer;
	/** No model is configured. */
	readonly noModel?: boolean;
	/** Without our extension. */
	readonly bare?: boolean;
}

let agents = 0;

/** Makes what a pi needs to start. */
export async function makeAgent(world: World, options: PiOptions = {}): Promise<Agent> {
	const directory = path.join(world.home, `agent-${++agents}`);
	const cwd = options.cwd ?? path.join(world.home, options.node ?? "work");
	fs.mkdirSync(cwd, { recursive: true });
	fs.mkdirSync(directory, { recursive: true });
	const model = await startModel(options.answer);
	const providers = {
		stub: { baseUrl: `http://127.0.0.1:${model.port}/v1`, api: "openai-completions", apiKey: "x", models: [{ id: "stub-1" }] },
	};
	if (!options.noModel) fs.writeFileSync(path.join(directory, "models.json"), JSON.stringify({ providers }));
	const settings = {
		...(options.noModel ? {} : { defaultProvider: "stub", defaultModel: "stub-1" }),
		quietStartup: true,
		...options.settings,
	};
	fs.writeFileSync(path.join(directory, "settings.json"), JSON.stringify(settings));
	return { directory, cwd, model };
}

function environment(world: World, agent: Agent, more: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
	return {
		PATH: process.env.PATH,
		LC_ALL: "C.UTF-8",
		HOME: world.home,
		XFER_HOME: world.root,
		XFER_DURABILITY: "none",
		PI_CODING_AGENT_DIR: agent.directory,
		PI_OFFLINE: "1",
		...more,
	};
}

function command(options: PiOptions, ...mode: string[]): string[] {
	const extensions = [...(options.before ?? []), ...(options.bare ? [] : [extension]), ...(options.after ?? [])];
	const name = options.node === undefined ? [] : ["--xfer", options.node];
	return [process.execPath, piCli, ...mode, ...extensions.flatMap((file) => ["-e", file]), ...name, ...(options.args ?? [])];
}

// biome-ignore lint/suspicious/noExplicitAny: the records of pi's protocol, of which a test looks at what it needs
export type Rec = any;

/** What our extension put into a session: one message, with the Handoffs it shows. */
export interface Injected {
	readonly content: string;
	readonly ids: readonly string[];
	// biome-ignore lint/suspicious/noExplicitAny: as above
	readonly details: any;
}

/** A running `pi --mode rpc`. */
export interface Pi {
	readonly agent: Agent;
	readonly model: Model;
	readonly child: ChildProcess;
	readonly pid: number;
	readonly records: Rec[];
	/** What it wrote to standard error. */
	stderr(): string;
	/** Sends a command and returns its response. */
	send(command: Rec): Promise<Rec>;
	/** Sends what a person types. Throws when it is refused. */
	prompt(message: string, more?: Rec): Promise<Rec>;
	/** Waits for a record of this type, or of this shape, that comes from now on, or after `from` records. */
	next(what: string | ((record: Rec) => boolean), from?: number): Promise<Rec>;
	/** How many records of this type there were. */
	count(type: string): number;
	/** Waits until no run goes on, nothing is compacted, and the Node says that it is idle. */
	idle(): Promise<void>;
	entries(): Promise<Rec[]>;
	/** The entries that are in the session's file. */
	saved(): Promise<Rec[]>;
	/** What was put into this session, in order. */
	injected(): Promise<Injected[]>;
	/** What it told the person. */
	notices(): string[];
	/** Ends it as a client does that closes its standard input, and waits. */
	stop(): Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
	/** Ends it by a signal, and waits. */
	kill(signal?: NodeJS.Signals): Promise<void>;
	/** Errors that this test expects: no look at them at the end. */
	forgive: boolean;
}

export async function startPi(world: World, options: PiOptions = {}): Promise<Pi> {
	const agent = options.agent ?? (await makeAgent(world, options));
	const child = start(command(options, "--mode", "rpc"), {
		cwd: options.cwd ?? agent.cwd,
		env: environment(world, agent, options.env),
		stdio: ["pipe", "pipe", "pipe"],
	});
	const records: Rec[] = [];
	let pending = "";
	let stderr = "";
	let end: { code: number | null; signal: NodeJS.Signals | null } | undefined;
	let killed = false;
	child.stdout?.setEncoding("utf8").on("data", (text: string) => {
		const lines = (pending + text).split("\n");
		pending = lines.pop() ?? "";
		for (const line of lines) if (line) records.push(JSON.parse(line));
	});
	child.stderr?.on("data", (chunk) => {
		stderr += chunk;
	});
	child.stdin?.on("error", () => {});
	child.on("close", (code, signal) => {
		end = { code, signal };
	});
	const state = () =>
		`stderr: ${stderr}\nlast records: ${records
			.slice(-4)
			.map((record) => JSON.stringify(record).slice(0, 400))
			.join("\n")}`;
	const patiently = async <T>(condition: () => T | Promise<T>, what: string) => {
		try {
			return await until(() => {
				const value = condition();
				if (!value && end) throw new Error(`pi ended (${JSON.stringify(end)})`);
				return value;
			}, what);
		} catch (error) {
			throw new Error(`${error instanceof Error ? error.message : error}\n${state()}`);
		}
	};
	let sequence = 0;
	const pi: Pi = {
		agent,
		model: agent.model,
		child,
		pid: child.pid ?? 0,
		records,
		forgive: false,
		stderr: () => stderr,
		async send(command) {
			const id = `r${++sequence}`;
			const from = records.length;
			child.stdin?.write(`${JSON.stringify({ id, ...command })}\n`);
			return pi.next((record) => record.type === "response" && record.id === id, from);
		},
		async prompt(message, more = {}) {
			const response = await pi.send({ type: "prompt", message, ...more });
			if (!response.success) throw new Error(`refused: ${response.error}`);
			return response;
		},
		next(what, from = records.length) {
			const matches = typeof what === "string" ? (record: Rec) => record.type === what : what;
			let looked = from;
			return patiently(() => {
				while (looked < records.length) {
					const record = records[looked++];
					if (matches(record)) return record;
				}
				return undefined;
			}, `a record: ${what}`);
		},
		count: (type) => records.filter((record) => record.type === type).length,
		async idle() {
			await patiently(async () => {
				const { data } = await pi.send({ type: "get_state" });
				return !data.isStreaming && !data.isCompacting && pi.count("agent_start") <= pi.count("agent_end");
			}, "pi to be idle");
		},
		entries: async () => (await pi.send({ type: "get_entries" })).data.entries,
		async saved() {
			const { data } = await pi.send({ type: "get_state" });
			if (!fs.existsSync(data.sessionFile)) return [];
			return fs
				.readFileSync(data.sessionFile, "utf8")
				.trim()
				.split("\n")
				.map((line) => JSON.parse(line));
		},
		injected: async () =>
			(await pi.entries())
				.filter((entry: Rec) => entry.type === "custom_message" && entry.customType === "xfer")
				.map((entry: Rec) => ({
					content: typeof entry.content === "string" ? entry.content : entry.content.map((part: { text: string }) => part.text).join(""),
					details: entry.details,
					ids: (entry.details?.handoffs ?? []).map((handoff: { id: string }) => handoff.id),
				})),
		notices: () =>
			records.filter((record) => record.type === "extension_ui_request" && record.method === "notify").map((record) => record.message),
		async stop() {
			child.stdin?.end();
			return until(() => end, "pi to end", 30_000);
		},
		async kill(signal = "SIGKILL") {
			killed = true;
			child.kill(signal);
			await until(() => end, `pi to end by ${signal}`, 30_000);
		},
	};
	atEnd(async () => {
		if (!end) child.kill("SIGCONT");
		const ended = await pi.stop();
		if (killed || pi.forgive) return;
		expect(ended).toEqual({ code: 0, signal: null });
		expect(stderr).not.toMatch(/error|^\s+at /im);
		expect(records.filter((record) => record.type === "extension_error")).toEqual([]);
	});
	await pi.send({ type: "get_state" });
	// It is a Node once it says so on the screen: the lock and node.md are there a moment before.
	const isNode = ({ method, statusText }: Rec) => method === "setStatus" && statusText?.startsWith(`✉ ${options.node}`);
	if (options.node && !options.bare) await patiently(() => records.some(isNode), `${options.node} to be a Node`);
	return pi;
}

/** Runs `pi -p` to its end. */
export async function runPi(
	world: World,
	prompt: string,
	options: PiOptions & { mode?: "print" | "json" } = {},
): Promise<Result & { agent: Agent; model: Model }> {
	const agent = options.agent ?? (await makeAgent(world, options));
	const mode = options.mode === "json" ? ["--mode", "json"] : ["-p"];
	const result = await run([...command(options, ...mode), prompt], {
		cwd: options.cwd ?? agent.cwd,
		env: environment(world, agent, options.env),
	});
	return { ...result, agent, model: agent.model };
}

// The terminal

/** A pi in a terminal of tmux. */
export interface Tui {
	readonly agent: Agent;
	readonly model: Model;
	/** Presses keys, in tmux's names: `Enter`, `Escape`, `C-c`. */
	keys(...keys: string[]): void;
	/** Types text as it stands. */
	type(text: string): void;
	/** What the screen shows. */
	screen(): string;
	/** The same with colours. */
	colours(): string;
	/** Waits until the screen shows this. */
	shows(what: string | RegExp): Promise<string>;
	resize(columns: number, rows: number): void;
	/** The end of the process: its exit code; undefined while it runs. */
	code(): number | undefined;
	stderr(): string;
}

let terminals = 0;

export async function openTui(world: World, options: PiOptions & { columns?: number; rows?: number; words?: string[] } = {}): Promise<Tui> {
	const agent = options.agent ?? (await makeAgent(world, options));
	const { columns = 100, rows = 40 } = options;
	const socket = `xfer-test-${process.pid}-${++terminals}`;
	const tmux = (...args: string[]) =>
		execFileSync("tmux", ["-L", socket, "-f", "/dev/null", "-u", ...args], {
			encoding: "utf8",
			env: { PATH: process.env.PATH, HOME: world.home, TMUX_TMPDIR: world.home, LC_ALL: "C.UTF-8", TERM: "xterm-256color" },
			stdio: ["ignore", "pipe", "pipe"],
		});
	const quote = (word: string) => `'${word.replaceAll("'", "'\\''")}'`;
	const errors = path.join(world.home, `${socket}.stderr`);
	const code = path.join(world.home, `${socket}.code`);
	const variables = Object.entries(environment(world, agent, options.env)).map(([key, value]) => `${key}=${value}`);
	const words = [
		"env",
		"-i",
		"TERM=tmux-256color",
		"COLORTERM=truecolor",
		...variables,
		...command(options, "--tui-mode", "regular"),
		...(options.words ?? []),
	];
	// What it shows last stays on the screen until the test ends.
	const line = `${words.map(quote).join(" ")} 2>${quote(errors)}; echo $? >${quote(code)}; exec sleep 600`;
	tmux("new-session", "-d", "-s", "pi", "-x", String(columns), "-y", String(rows), "-c", options.cwd ?? agent.cwd, line);
	const pane = Number(tmux("list-panes", "-t", "pi", "-F", "#{pane_pid}"));
	atEnd(async () => {
		const pids = processesUnder(pane);
		try {
			tmux("kill-server");
		} catch {
			// it has ended already
		}
		for (const pid of pids) await until(() => !isRunning(pid) || void process.kill(pid, "SIGKILL"), "the terminal to end", 10_000);
	});
	const tui: Tui = {
		agent,
		model: agent.model,
		keys: (...keys) => void tmux("send-keys", "-t", "pi", ...keys),
		type: (text) => void tmux("send-keys", "-t", "pi", "-l", text),
		screen: () => tmux("capture-pane", "-p", "-t", "pi"),
		colours: () => tmux("capture-pane", "-e", "-p", "-t", "pi"),
		async shows(what) {
			const matches = (screen: string) => (typeof what === "string" ? screen.includes(what) : what.test(screen));
			try {
				return await until(() => [tui.screen()].find(matches), `the screen to show ${what}`);
			} catch (error) {
				throw new Error(`${error instanceof Error ? error.message : error}\n${tui.screen()}\n${tui.stderr()}`);
			}
		},
		resize: (width, height) => void tmux("resize-window", "-t", "pi", "-x", String(width), "-y", String(height)),
		code: () => (fs.existsSync(code) && fs.readFileSync(code, "utf8") ? Number(fs.readFileSync(code, "utf8")) : undefined),
		stderr: () => fs.readFileSync(errors, "utf8"),
	};
	await tui.shows(/─{5,}\n[\s\S]*─{5,}/); // the editor
	return tui;
}

function isRunning(pid: number): boolean {
	try {
		return !/^\d+ \(.*\) [ZX]/s.test(fs.readFileSync(`/proc/${pid}/stat`, "latin1"));
	} catch {
		return false;
	}
}

/** A process and all below it. */
function processesUnder(pid: number): number[] {
	let children = "";
	try {
		children = fs.readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8");
	} catch {
		// it has ended
	}
	return [
		pid,
		...children
			.split(" ")
			.filter(Boolean)
			.flatMap((child) => processesUnder(Number(child))),
	];
}

// What the tests look for

/** The short ids of the Handoffs that a text shows, in order. */
export const shown = (text: string) => [...text.matchAll(/^<handoff id="([^"]+)"/gm)].map(([, id]) => id ?? "");

/** How many lines of what the model is asked are this one: a body is on lines of its own, a subject is not. */
export const times = (request: Request | undefined, line: string) =>
	(request?.messages ?? []).flatMap((message) => message.text.split("\n")).filter((one) => one === line).length;

// Runs a case in a temporary directory of its own, and an implementation's processes for it.
import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { list, nodeDirs, snapshot } from "./tree.mjs";

const LIMIT = 30_000; // ms; what takes longer hangs

const bases = new Set();
const groups = new Set();

for (const [signal, number] of [
	["SIGINT", 2],
	["SIGTERM", 15],
])
	process.on(signal, () => {
		groups.forEach(killGroup);
		for (const base of bases) fs.rmSync(base, { recursive: true, force: true });
		process.exit(128 + number);
	});

function killGroup(pid) {
	try {
		process.kill(-pid, "SIGKILL");
	} catch {
		// it ended by itself
	}
}

/** Runs one case; returns why it failed, or undefined. */
export async function runCase(one, options) {
	const base = fs.mkdtempSync(path.join(fs.realpathSync(os.tmpdir()), "xfer-conformance-"));
	bases.add(base);
	const t = new Trial(base, one, options);
	try {
		await one.run(t);
		t.finish();
		return undefined;
	} catch (error) {
		return error instanceof Error ? error.message || String(error) : String(error);
	} finally {
		await t.end();
		fs.rmSync(base, { recursive: true, force: true });
		bases.delete(base);
	}
}

/** What a case is given: a place for a tree, and the two implementations (the same one, unless they are mixed). */
class Trial {
	constructor(base, one, options) {
		this.base = base;
		this.root = path.join(base, "tree");
		this.home = path.join(base, "home");
		this.cwd = path.join(base, "cwd");
		this.sender = one.sender;
		this.taker = one.taker;
		this.options = options;
		this.running = new Map(); // pid → promise of its end
		fs.mkdirSync(this.home);
		fs.mkdirSync(this.cwd);
	}

	/** Runs a command of the sending implementation. */
	send(args, options) {
		return this.run(this.sender, args, options);
	}

	/** Runs a command of the taking implementation. */
	take(args, options) {
		return this.run(this.taker, args, options);
	}

	/**
	 * Runs a process to its end and holds it against what is true of every command.
	 * `exit`: what it must be, or a list. `stdin`: text or bytes, "open" for a pipe that never ends; else there is none.
	 * `killAfter`: ms after which it is killed, and its end not judged.
	 */
	async run(command, args, { exit = 0, stdin, env, killAfter } = {}) {
		const result = await this.start([...command, ...args], { stdin, env, killAfter });
		if (killAfter !== undefined) return result;
		const what = `\`${args.join(" ").slice(0, 200)}\``;
		const said = result.err ? `: ${result.err.trim().slice(0, 400)}` : "";
		if (result.code === undefined) throw new Error(`${what} did not end within ${LIMIT / 1000} s`);
		if (![exit].flat().includes(result.code)) throw new Error(`${what} ended with ${result.code ?? result.signal}, not ${exit}${said}`);
		if (/^\s+at .*:\d+:\d+\)?$/m.test(result.err)) throw new Error(`${what} shows a stack${said}`);
		if (result.code !== 0 && result.code !== 6 && args[0] !== "doctor") {
			if (result.out.length > 0) throw new Error(`${what} failed and wrote to stdout: ${JSON.stringify(result.text.slice(0, 200))}`);
			if (!/^xfer: ./m.test(result.err)) throw new Error(`${what} failed without a line \`xfer: …\` on stderr${said}`);
		}
		return result;
	}

	/** The process itself. It leads a group of its own, so that a shell's children end with it. */
	start(argv, { stdin, env, killAfter }) {
		if (this.over) return Promise.reject(new Error("the case has ended"));
		let pid;
		const result = new Promise((resolve, reject) => {
			const child = spawn(argv[0], argv.slice(1), {
				cwd: this.cwd,
				detached: true,
				env: { PATH: process.env.PATH, HOME: this.home, XFER_HOME: this.root, XFER_DURABILITY: "none", LC_ALL: "C.UTF-8", ...env },
				stdio: [stdin === undefined ? "ignore" : "pipe", "pipe", "pipe"],
			});
			let timedOut = false;
			pid = child.pid;
			groups.add(pid);
			const timer = setTimeout(() => {
				timedOut = killAfter === undefined;
				killGroup(pid);
			}, killAfter ?? LIMIT);
			const out = [];
			const err = [];
			child.stdout.on("data", (chunk) => out.push(chunk));
			child.stderr.on("data", (chunk) => err.push(chunk));
			child.stdin?.on("error", () => {}); // it may end without reading all of its input
			if (stdin !== "open") child.stdin?.end(stdin);
			child.on("exit", () => child.stdin?.destroy());
			child.on("error", (error) => {
				clearTimeout(timer);
				reject(error);
			});
			child.on("close", (code, signal) => {
				clearTimeout(timer);
				groups.delete(pid);
				this.running.delete(pid);
				const bytes = Buffer.concat(out);
				resolve({ code: timedOut ? undefined : code, signal, out: bytes, text: bytes.toString(), err: Buffer.concat(err).toString() });
			});
		});
		if (pid !== undefined) this.running.set(pid, result);
		return result;
	}

	/** Ends what still runs of a case that failed half-way. */
	async end() {
		this.over = true;
		for (const pid of this.running.keys()) killGroup(pid);
		await Promise.allSettled(this.running.values());
	}

	path(...parts) {
		return path.join(this.root, ...parts);
	}

	ls(...parts) {
		return list(this.path(...parts)).filter((name) => !name.startsWith("."));
	}

	snapshot() {
		return snapshot(this.root);
	}

	/** What is true after every case: nothing outside of the tree, nothing left in tmp/. `extra`: what the case itself made. */
	finish() {
		const strange = list(this.base).filter((name) => !["tree", "home", "cwd", ...(this.extra ?? [])].includes(name));
		if (strange.length > 0) throw new Error(`made outside of the tree: ${strange.join(" ")}`);
		for (const dir of [this.home, this.cwd]) {
			const made = this.extra?.includes(path.basename(dir)) ? [] : list(dir);
			if (made.length > 0) throw new Error(`made in ${path.basename(dir)}/: ${made.join(" ")}`);
		}
		for (const dir of nodeDirs(this.root)) {
			const left = list(path.join(dir, "tmp")).filter((name) => !this.writing?.includes(name));
			if (left.length > 0) throw new Error(`left in tmp/: ${left.join(" ")}`);
		}
	}
}

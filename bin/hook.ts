import { closeSync, openSync, readSync, utimesSync } from "node:fs";
import { createContext } from "../lib/context.ts";
import { errno } from "../lib/errors.ts";
import { hook } from "../lib/hooks/hook.ts";
import { type Input, waitLimit } from "../lib/hooks/hosts/host.ts";
import { eventOf, hostOf } from "../lib/hooks/hosts/hosts.ts";
import { LogFile } from "../lib/log-file.ts";
import { slug } from "../lib/names.ts";
import { explain } from "./errors.ts";
import { print } from "./output.ts";

/** ms that a hook may take, from the start of its process. */
const budget = 2000;
/** ms that a session is waited for while idle: a little less than the host lets it. */
const window = (waitLimit - 5) * 1000;
/** Most bytes of an event. */
const mostInput = 256 * 1024 * 1024;

/** What a host's hooks call: `xfer hook HOST EVENT [--name NAME]`, with the event on standard input. Ends with 0 whatever goes wrong. */
async function main(args: readonly string[]): Promise<number> {
	const { words, given } = parseWords(args);
	const [name = "", word = ""] = words;
	const root = rootOf();
	const host = hostOf(name);
	const known = host && eventOf(host, word);
	if (!host || !known) {
		log(root, `${name} ${word}`, "no such host, or not an event of it");
		if (host) tryPrint(host.silence);
		return 0;
	}
	let silent = true;
	let time: AbortController | undefined;
	const waiting = known.action === "wait";
	const left = waiting ? window : budget - process.uptime() * 1000;
	const timer = setTimeout(() => {
		time?.abort(new Error("took too long"));
		if (waiting) return;
		// What it has in hand comes back by itself.
		setTimeout(() => {
			log(root, `${name} ${word}`, "took too long");
			if (silent) tryPrint(host.silence);
			process.exit(0);
		}, 100);
	}, left);
	try {
		const input = readEvent(waiting ? budget : left - 500);
		const answer = await hook({
			host,
			...known,
			input,
			name: given,
			env: process.env,
			signal: () => {
				time ??= new AbortController(); // what it takes to load one is only spent by who waits
				return time.signal;
			},
		});
		silent = false;
		if (!answer) {
			tryPrint(host.silence);
			return 0;
		}
		try {
			if (answer.output.stdout) print(answer.output.stdout);
			if (answer.output.stderr) print(answer.output.stderr, 2);
		} catch (error) {
			answer.lost();
			throw error;
		}
		try {
			answer.taken();
		} catch (error) {
			log(root, `${name} ${word}`, `shown, and not marked: ${explain(error)}`); // the host has it: the code still says so
		}
		fired(root, host.name);
		return answer.output.code;
	} catch (error) {
		log(root, `${name} ${word}`, explain(error));
		if (silent) tryPrint(host.silence);
		return 0;
	} finally {
		clearTimeout(timer);
	}
}

/** Where the tree is; empty when that can't be told: then there is nothing to be done, and no log. */
function rootOf(): string {
	try {
		return createContext({ instance: "00000000" }).root;
	} catch {
		return "";
	}
}

/** Words, and `--name`: what else there is is ignored, for a host may have more to say one day. */
function parseWords(args: readonly string[]): { words: string[]; given: string | undefined } {
	const words: string[] = [];
	let given: string | undefined;
	for (let at = 0; at < args.length; at++) {
		const word = args[at] ?? "";
		if (word === "--name") given = args[++at];
		else if (word.startsWith("--name=")) given = word.slice(7);
		else if (!word.startsWith("-")) words.push(word);
	}
	return { words, given: given === undefined ? undefined : slug(given) };
}

/**
 * What the host says on standard input: the first JSON object on it. A host may leave it open, or say nothing.
 *
 * Read without the stream of Node.js, which takes longer to load than all else that is done here.
 */
function readEvent(limit: number): Input {
	unblock();
	const end = process.uptime() * 1000 + limit;
	const chunk = Buffer.alloc(65_536);
	const chunks: Buffer[] = [];
	for (let size = 0; ; ) {
		let count = 0;
		try {
			count = readSync(0, chunk, 0, chunk.length, null);
		} catch (error) {
			if (errno(error) === "EAGAIN" && process.uptime() * 1000 < end) {
				Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3);
				continue;
			}
			// closed, a directory, or silent: nothing more comes
		}
		const part = Buffer.from(chunk.subarray(0, count));
		chunks.push(part);
		size += count;
		// Looked at as a whole only where it may end: at each part, the time for a large one would grow with its square.
		const text = count === 0 || part.toString("latin1").trimEnd().endsWith("}") ? Buffer.concat(chunks).toString("utf8") : "";
		const event = text === "" ? undefined : parse(text);
		if (event) return event;
		if (count === 0) throw new Error(`standard input is no JSON object: ${JSON.stringify(text.slice(0, 100))}`);
		if (size > mostInput || process.uptime() * 1000 > end) throw new Error("standard input does not end"); // no timer fires in here
	}
}

/** Lets a read of standard input say that nothing is there yet: else a host that says nothing would be waited for. */
function unblock(): void {
	try {
		const { Pipe, constants } = (process as unknown as { binding(name: string): unknown }).binding("pipe_wrap") as {
			Pipe: new (type: number) => { open(fd: number): number };
			constants: { SOCKET: number };
		};
		new Pipe(constants.SOCKET).open(0);
	} catch {
		// a file, or a Node.js without it: then the host's own limit is the limit
	}
}

function parse(text: string): Input | undefined {
	try {
		const value: unknown = JSON.parse(text);
		return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Input) : undefined;
	} catch {
		return undefined; // not all of it, or no JSON
	}
}

/** A line for who looks why nothing came. Never a reason to be in the host's way. */
function log(root: string, what: string, why: string): void {
	if (root !== "") new LogFile({ now: Date.now }, `${root}/hook.log`).write(`${process.pid} ${what}: ${why.replace(/\s+/g, " ")}`);
}

/** Notes that a hook of this host was run: a host that does not trust it never does that, and says nothing. */
function fired(root: string, host: string): void {
	const file = `${root}/.hook-${host}`;
	const now = new Date();
	try {
		utimesSync(file, now, now);
	} catch {
		try {
			closeSync(openSync(file, "a", 0o600));
		} catch {
			// no tree, or none that can be written to
		}
	}
}

function tryPrint(text: string): void {
	try {
		print(text);
	} catch {
		// nobody reads it
	}
}

main(process.argv.slice(3)).then(
	(code) => {
		process.exitCode = code;
	},
	() => {
		process.exitCode = 0; // a tree that can't be: a host is not to hear of it
	},
);

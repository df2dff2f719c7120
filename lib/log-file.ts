import { closeSync, constants, fstatSync, openSync, renameSync, writeSync } from "node:fs";
import type { Context } from "./context.ts";
import { listNames, readBytes } from "./files.ts";
import { timestamp } from "./presence.ts";
import { visible } from "./visible.ts";

const { O_APPEND, O_CREAT, O_NOFOLLOW = 0, O_NONBLOCK = 0, O_WRONLY } = constants;

/** Bytes of a log, after which a new one is begun; one former is kept, under the same name with `.1`. */
const most = 1024 * 1024;

/** The logs in a Node's directory, which `leave` removes with it. */
export function logFiles(directory: string): string[] {
	return listNames(directory).filter((name) => /^adapter\.log(\.1)?$/.test(name));
}

/** A log of one line for each thing that happened: date, then text in which control characters are shown. Several may write it; of two that find it full at once, one may take the former log of the other away. */
export class LogFile {
	readonly path: string;
	readonly #context: Pick<Context, "now">;

	constructor(context: Pick<Context, "now">, path: string) {
		this.#context = context;
		this.path = path;
	}

	/** Adds a line. Never throws: a log that can't be written is no reason to stop what it tells of. */
	write(text: string): void {
		try {
			const fd = openSync(this.path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o600);
			let full = false;
			try {
				const stat = fstatSync(fd);
				if (!stat.isFile()) return; // a FIFO or a device in its place
				writeSync(fd, `${timestamp(this.#context)} ${visible(text)}\n`);
				full = stat.size >= most;
			} finally {
				closeSync(fd);
			}
			if (full) renameSync(this.path, `${this.path}.1`);
		} catch {
			// a full disk, no right to write: see above
		}
	}

	/** The last line that holds this text, without its date; undefined when there is none, or it can't be read. */
	last(text: string): string | undefined {
		for (const path of [this.path, `${this.path}.1`]) {
			try {
				const lines =
					readBytes(path, 2 * most)
						?.toString("utf8")
						.split("\n") ?? [];
				const line = lines.findLast((line) => line.includes(text));
				if (line !== undefined) return line.slice(line.indexOf(" ") + 1);
			} catch {
				// as if it was not there
			}
		}
		return undefined;
	}
}

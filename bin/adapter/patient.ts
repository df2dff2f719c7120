import { constants, fstatSync, openSync, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { errno } from "../../lib/errors.ts";
import { isatty } from "../output.ts";

const { O_NOCTTY, O_NONBLOCK, O_WRONLY } = constants;
/** Bytes that wait for who does not read; what comes then is left out. */
const most = 16 * 1024 * 1024;
/** ms between two tries, and how many in a row may be in vain once the daemon was told to end. */
const pause = 100;
const lastTries = 20;

/** A pipe or a terminal of ours that is never waited for: a pager that was stopped must not stop a daemon, whose lock would go stale. */
export class PatientOutput {
	readonly #fd: number;
	#waiting: Buffer[] = [];
	#size = 0;
	#timer: NodeJS.Timeout | undefined;
	#left = 0;

	/** Bytes that were left out. */
	get left(): number {
		return this.#left;
	}

	/** @returns undefined for a file, and for what can't be opened anew: to those who share our descriptor it is to stay as it is */
	static on(fd: 1 | 2): PatientOutput | undefined {
		try {
			if (fstatSync(fd).isFIFO() || isatty(fd)) return new PatientOutput(openSync(`/dev/fd/${fd}`, O_WRONLY | O_NONBLOCK | O_NOCTTY));
		} catch {
			// a socket, or no /dev/fd
		}
		return undefined;
	}

	private constructor(fd: number) {
		this.#fd = fd;
	}

	write(bytes: Uint8Array): void {
		if (this.#size + bytes.length > most) {
			this.#left += bytes.length;
			return;
		}
		this.#waiting.push(Buffer.from(bytes));
		this.#size += bytes.length;
		this.#drain();
	}

	/** Waits for what is still to be read: by whoever reads it as long as that takes, and by nobody only until `stop`. */
	async end(stop: AbortSignal): Promise<void> {
		for (let vain = 0; this.#size > 0 && (vain < lastTries || !stop.aborted); vain++) {
			const before = this.#size;
			await sleep(pause);
			this.#drain();
			if (this.#size < before) vain = 0;
		}
		clearTimeout(this.#timer);
	}

	#drain(): void {
		clearTimeout(this.#timer);
		try {
			for (let [first] = this.#waiting; first; [first] = this.#waiting) {
				const count = writeSync(this.#fd, first);
				this.#size -= count;
				if (count < first.length) this.#waiting[0] = first.subarray(count);
				else this.#waiting.shift();
			}
		} catch (error) {
			if (errno(error) === "EAGAIN") this.#timer = setTimeout(() => this.#drain(), pause).unref();
			else [this.#waiting, this.#size] = [[], 0]; // nobody reads it any more
		}
	}
}

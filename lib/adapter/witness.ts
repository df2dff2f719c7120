import { type ChildProcess, spawn } from "node:child_process";

/** Waits for a line, or for the end of its input without one: then whoever was to write it has been killed. */
const script = `
trap '' HUP INT TERM
read -r line || exec "$@"
`;

/**
 * Runs a command once this process has ended without `release`, however it ended: a shell that waits for the end of its input.
 * When the witness itself is killed, or could not be started, nobody runs it.
 */
export class Witness {
	readonly #shell: ChildProcess;

	/** @param argv the command, with an absolute path */
	constructor(argv: readonly string[]) {
		// In a session of its own, so that what is sent to our group does not reach it.
		this.#shell = spawn("/bin/sh", ["-c", script, "sh", ...argv], { detached: true, stdio: ["pipe", "ignore", "ignore"] });
		this.#shell.on("error", () => {}); // no such shell here
		this.#shell.stdin?.on("error", () => {});
		this.#shell.unref();
	}

	/** Nothing is to be run any more. */
	release(): void {
		this.#shell.stdin?.end("\n");
	}
}

import { type ChildProcess, spawn } from "node:child_process";

/** Reads `+ GROUP` and `- GROUP`; when its input ends, whoever wrote it has ended, and what is left of the groups ends too. */
const script = `
trap '' HUP INT TERM
groups=' '
while read -r sign group; do
	case $sign in
	+) groups="$groups$group " ;;
	-) case $groups in *" $group "*) groups="\${groups%% $group *} \${groups#* $group }" ;; esac ;;
	esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
`;

/**
 * Ends process groups when this process dies, however it dies: a shell that waits for the end of its input.
 * Without it a handler would outlive a daemon that was killed, and run beside the next daemon's for the same Handoff.
 * A kill in the moment between a start and `add`, or of the guardian itself, leaves that group alive.
 */
export class Guardian {
	readonly #shell: ChildProcess;

	constructor() {
		// In a session of its own, so that what is sent to our group does not reach it.
		this.#shell = spawn("/bin/sh", ["-c", script], { detached: true, stdio: ["pipe", "ignore", "ignore"], cwd: "/", env: {} });
		this.#shell.on("error", () => {}); // no such shell here: then nobody guards
		this.#shell.stdin?.on("error", () => {});
		this.#shell.unref();
		(this.#shell.stdin as { unref?: () => void } | null)?.unref?.();
	}

	add(group: number): void {
		this.#shell.stdin?.write(`+ ${group}\n`); // into an empty pipe: written when this returns
	}

	remove(group: number): void {
		this.#shell.stdin?.write(`- ${group}\n`);
	}

	/** Lets go what is guarded still. */
	end(): void {
		this.#shell.stdin?.end();
	}
}

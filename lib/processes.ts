import { readFileSync } from "node:fs";

/** One process of this machine. */
export interface Process {
	readonly pid: number;
	readonly parent: number;
	/** The name of its program, without directories. */
	readonly program: string;
	/** When it began, in a form that only another process's differs from; empty where that can't be told. */
	readonly born: string;
}

/** Programs that only start another one: never who called us. */
const between = /^-?(?:sh|dash|ash|bash|zsh|fish|ksh|mksh|busybox|env|timeout|nice|xfer-hook\.sh)$/;

/** A process that runs; undefined when there is none of this pid, or it is a zombie. */
export function processOf(pid: number): Process | undefined {
	let stat: string;
	try {
		stat = readFileSync(`/proc/${pid}/stat`, "latin1");
	} catch {
		return hasProc() ? undefined : byPs(pid);
	}
	const end = stat.lastIndexOf(")"); // a program's name may hold anything
	const [state = "", parent = "", ...rest] = stat.slice(end + 2).split(" ");
	if (state === "Z" || state === "X") return undefined;
	return { pid, parent: Number(parent), program: stat.slice(stat.indexOf("(") + 1, end), born: rest[17] ?? "" };
}

/** The processes that this one descends from, the nearest first. */
export function* ancestors(): Generator<Process> {
	for (let pid = process.ppid; pid > 1; ) {
		const found = processOf(pid);
		if (!found) return;
		yield found;
		pid = found.parent;
	}
}

/** Who called us: the nearest ancestor that is no shell; our parent when all of them are. */
export function caller(): number {
	for (const { pid, program } of ancestors()) if (!between.test(program)) return pid;
	return process.ppid;
}

let proc: boolean | undefined;
function hasProc(): boolean {
	proc ??= (() => {
		try {
			readFileSync("/proc/self/stat");
			return true;
		} catch {
			return false;
		}
	})();
	return proc;
}

/** Where there is no /proc. */
function byPs(pid: number): Process | undefined {
	const { spawnSync } = process.getBuiltinModule("node:child_process");
	const { stdout } = spawnSync("ps", ["-o", "ppid=,stat=,comm=", "-p", String(pid)], { encoding: "utf8", timeout: 1000 });
	const [, parent = "", state = "", program = ""] = /^\s*(\d+)\s+(\S+)\s+(.*\S)/.exec(stdout ?? "") ?? [];
	if (parent === "" || state.startsWith("Z")) return undefined;
	return { pid, parent: Number(parent), program: program.slice(program.lastIndexOf("/") + 1), born: "" };
}

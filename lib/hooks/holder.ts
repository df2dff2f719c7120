import { setSlip, slip, takeSlip } from "../desk.ts";
import { processOf } from "../processes.ts";
import type { Node } from "../tree.ts";

/**
 * Refreshes a live lock (protocol 7) while a process lives: a shell, for it stays as long as the session and does nothing else.
 * $1 the lock's file, $2 the process, $3 when that began, or nothing where this can't be told. Another that has got its pid is not it.
 */
const loop = `
trap '' HUP INT
lock=$1 pid=$2 born=$3
while [ -e "$lock" ]; do
	if [ -r /proc/self/stat ]; then
		stat=
		{ read -r stat <"/proc/$pid/stat"; } 2>/dev/null || break
		set -- \${stat##*) }
		case $1 in [ZX]) break ;; esac
		[ -z "$born" ] || [ "$born" = "\${20}" ] || break
	else
		kill -0 "$pid" 2>/dev/null || break
	fi
	touch -c "$lock" 2>/dev/null
	sleep 4
done
rm -f "$lock"
rmdir "\${lock%/*}" 2>/dev/null
`;

/** Starts the holder of a live lock that was just acquired for the process `pid`. It ends within 5 s when that one does, and when the lock is gone. */
export function startHolder(node: Node, instance: string, pid: number): void {
	const { spawn } = process.getBuiltinModule("node:child_process");
	const lock = `${node.directory}/live.lock/${instance}`;
	const holder = spawn("/bin/sh", ["-c", loop, "xfer-holder", lock, String(pid), processOf(pid)?.born ?? ""], {
		cwd: "/",
		detached: true, // what ends the host's processes together does not end this one: it sees for itself
		env: { PATH: process.env.PATH },
		stdio: "ignore",
	});
	holder.on("error", () => {}); // no shell: then the lock goes stale, and the next hook acquires it anew
	holder.unref();
	if (holder.pid !== undefined) setSlip(node.directory, "holder", `${instance} ${holder.pid} ${processOf(holder.pid)?.born ?? ""}`);
}

/** Starts the holder again when somebody has killed it; never a second one. */
export function keepHolder(node: Node, instance: string, pid: number): void {
	const text = slip(node.directory, "holder");
	const [whose, holder = "", born = ""] = text?.split(" ") ?? [];
	if (text === undefined || whose !== instance) return; // another hook is just starting it, or the lock goes stale and is acquired anew
	if (processOf(Number(holder))?.born === born) return;
	if (takeSlip(node.directory, "holder", text)) startHolder(node, instance, pid);
}

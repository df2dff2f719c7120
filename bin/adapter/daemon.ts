import { type AdapterEvent, type AdapterOptions, runAdapter } from "../../lib/adapter/adapter.ts";
import { launchdPlist, systemdUnit } from "../../lib/adapter/unit.ts";
import { XferError } from "../../lib/errors.ts";
import { openTree } from "../../lib/tree.ts";
import { visible, visibleLines } from "../../lib/visible.ts";
import { divert, isTerminal, note, print, printJson, tellPolling } from "../output.ts";
import { PatientOutput } from "./patient.ts";

/** Is an Adapter Daemon until a signal, or with `once` until nothing waits. */
export async function runDaemon(
	name: string,
	options: Omit<AdapterOptions, "cwd" | "stop" | "kill" | "onPolling" | "onOutput" | "onEvent">,
	json: boolean,
): Promise<void> {
	// A daemon is an instance of its own, also when an agent starts it, and not bound to what that works on.
	const tree = openTree({ env: { ...process.env, XFER_INSTANCE: undefined, XFER_HOPS: undefined } });
	const stop = new AbortController();
	const kill = new AbortController();
	const onSignal = () => {
		if (stop.signal.aborted) kill.abort();
		else note(`xfer: ${name} ends when what runs has ended; a second signal ends that`);
		stop.abort();
	};
	for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.on(signal, onSignal);
	const onEvent = (event: AdapterEvent) => {
		if (json) quietly(() => printJson("xfer.adapter/1", documentOf(name, event)));
		else note(`xfer: ${visible(event.text)}`); // on a line: a name may hold line ends
	};
	const onOutput = (fd: 1 | 2, chunk: Buffer) => {
		const to = json ? 2 : fd; // standard output is for the documents then
		quietly(() => print(isTerminal() ? visibleLines(chunk.toString("utf8")) : chunk, to));
	};
	const outputs = ([1, 2] as const).map((fd) => {
		const output = PatientOutput.on(fd);
		if (output) divert(fd, (bytes) => output.write(bytes));
		return output;
	});
	try {
		await runAdapter(tree, name, {
			...options,
			cwd: workingDirectory(),
			stop: stop.signal,
			kill: kill.signal,
			onPolling: tellPolling,
			onOutput,
			onEvent,
		});
	} catch (error) {
		if (!stop.signal.aborted || error !== stop.signal.reason) throw error;
	} finally {
		await Promise.all(outputs.map((output) => output?.end(stop.signal)));
		const left = outputs.reduce((sum, output) => sum + (output?.left ?? 0), 0);
		if (left > 0) note(`xfer: ${left} bytes of output were left out: nobody read them (adapter.log has what happened)`);
	}
}

/** Nobody may look at what a daemon prints any more: no reason to end. */
function quietly(act: () => void): void {
	try {
		act();
	} catch {
		// see above; adapter.log has it
	}
}

function documentOf(node: string, { what, text, handoff, attempt, ended }: AdapterEvent): object {
	const { id, from, kind, subject } = handoff ?? {};
	const { how, code, signal, duration } = ended ?? {};
	return {
		node,
		event: what,
		text,
		id,
		from,
		kind,
		subject,
		attempt,
		how,
		code,
		signal,
		ms: duration === undefined ? undefined : Math.round(duration),
	};
}

/**
 * Prints what a service manager needs to run this command line.
 * @param limit ms that a handler may take
 */
export function printUnit(name: string, limit: number, root: string): void {
	const cwd = workingDirectory();
	if (cwd === undefined) throw new XferError("EINPUT", "the working directory is gone", "cd to where the command is to run");
	const args = process.argv.slice(2);
	const end = args.includes("--") ? args.indexOf("--") : args.length;
	const own = args.filter((word, at) => at >= end || word !== "--print-unit");
	const script = process.argv[1] ?? "";
	const path = process.env.PATH;
	const unit = {
		node: name,
		argv: [process.execPath, script, ...own],
		cwd,
		env: { XFER_HOME: root, ...(path && { PATH: path }) },
		stop: Math.ceil(limit / 1000) + 10,
	};
	print(process.platform === "darwin" ? launchdPlist(unit) : systemdUnit(unit));
}

function workingDirectory(): string | undefined {
	try {
		return process.cwd();
	} catch {
		return undefined; // it was removed under us
	}
}

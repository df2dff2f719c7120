import { XferError, type XferErrorCode } from "../lib/errors.ts";
import { visible } from "../lib/visible.ts";
import { ClosedOutput, note } from "./output.ts";

/** Exit codes: 0 done · 1 failed · 2 wrong usage or refused input · 3 not there · 4 timed out · 5 somebody else was first · 6 done for some, not for all. */
export const exit = { done: 0, failed: 1, usage: 2, missing: 3, timeout: 4, held: 5, partly: 6 } as const;

const codes: Record<XferErrorCode, number> = {
	EROOT: exit.usage,
	ENAME: exit.usage,
	EINPUT: exit.usage,
	ESIZE: exit.usage,
	EAMBIGUOUS: exit.usage,
	ENODE: exit.missing,
	EHANDOFF: exit.missing,
	ECARD: exit.missing,
	EUNREADABLE: exit.failed,
	EGIT: exit.failed,
	EHELD: exit.held,
	ELOST: exit.held,
};

export function exitCode(error: unknown): number {
	return error instanceof XferError ? codes[error.code] : exit.failed;
}

/** The one line that a person gets for an error: what, and what to do. */
export function explain(error: unknown): string {
	if (error instanceof XferError) return visible(error.cure ? `${error.message} (${error.cure})` : error.message);
	if (!(error instanceof Error)) return visible(String(error));
	const { code, path } = error as NodeJS.ErrnoException;
	const cure: Record<string, string> = {
		EACCES: `a sandbox may forbid it: allow writing to ${process.env.XFER_HOME || "~/.xfer"}`,
		EPERM: `a sandbox may forbid it: allow writing to ${process.env.XFER_HOME || "~/.xfer"}`,
		EROFS: `the filesystem is read-only, or a sandbox makes it so: allow writing to ${process.env.XFER_HOME || "~/.xfer"}`,
		ENOSPC: "the disk is full: make room, then try again",
		EDQUOT: "the disk quota is used up: make room, then try again",
		EISDIR: "it is a directory: give a file, or words",
		EMFILE: "too many open files: raise ulimit -n",
		ENFILE: "too many open files on this machine",
	};
	const hint = code && (cure[code] ?? "xfer doctor looks at the tree");
	return visible(hint ? `${path ? `can't use ${path}` : error.message} (${code}: ${hint})` : error.message);
}

/** Prints an error, and says how the process ends. */
export function report(error: unknown): number {
	if (error instanceof ClosedOutput) return exit.failed; // nobody looks any more
	note(`xfer: ${explain(error)}`);
	if (process.env.XFER_DEBUG && error instanceof Error) note(error.stack ?? "");
	return exitCode(error);
}

/**
 * What can go wrong, for a caller to tell apart:
 *
 * - `EROOT` the tree's root is not an absolute path
 * - `ENAME` not a Node name · `EINPUT` refused input · `ESIZE` over a limit · `EAMBIGUOUS` a piece of an id that fits several
 * - `ENODE` no such Node · `EHANDOFF` no such Handoff · `ECARD` no such Card
 * - `EUNREADABLE` a file that is there and can't be read: it stays, marked, and hides no other
 * - `EGIT` git could not do it: the message has its words
 * - `EHELD` another instance holds it, or was first · `ELOST` a lease or a lock that was held is not any more
 *
 * Errors of the system (`EACCES`, `ENOSPC`, …) are passed on as Node.js throws them.
 */
export type XferErrorCode =
	| "EROOT"
	| "ENAME"
	| "EINPUT"
	| "ESIZE"
	| "EAMBIGUOUS"
	| "ENODE"
	| "EHANDOFF"
	| "ECARD"
	| "EUNREADABLE"
	| "EGIT"
	| "EHELD"
	| "ELOST";

/** An error of the protocol: `message` says what, `cure` what to do about it. */
export class XferError extends Error {
	readonly code: XferErrorCode;
	readonly cure: string | undefined;

	constructor(code: XferErrorCode, message: string, cure?: string) {
		super(message);
		this.name = "XferError";
		this.code = code;
		this.cure = cure;
	}

	/** Also for an error of another copy of the library in this process. */
	static override [Symbol.hasInstance](value: unknown): boolean {
		return value instanceof Error && value.name === "XferError";
	}
}

/** The system's code of an error (`ENOENT`), if it has one. */
export function errno(error: unknown): string | undefined {
	return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
}

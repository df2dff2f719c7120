import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
import { XferError } from "../lib/errors.ts";
import type { Holding } from "./inbound.ts";

/** Registers how messages and entries of ours look. */
export function registerRenderers(_pi: ExtensionAPI): void {}

/** The status item: `✉ alice · 2 waiting`. */
export function statusLine(name: string, count: number, holding: Holding | undefined): string {
	return `✉ ${name}${count > 0 ? ` · ${count} waiting` : ""}${count > 0 && holding ? ` (${holding})` : ""}`;
}

/** An error for a person: what, and what to do. */
export function explain(error: unknown): string {
	if (error instanceof XferError) return error.cure ? `${error.message} (${error.cure})` : error.message;
	return error instanceof Error ? error.message : String(error);
}

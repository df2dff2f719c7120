import type { ExtensionContext } from "@earendil-works/pi-coding-agent";
import type { Inbound } from "./inbound.ts";
import type { Participant } from "./participant.ts";

/** What an injected message is in pi's session. */
export const messageType = "xfer";

/** A session that is a Node. */
export interface Here {
	readonly me: Participant;
	readonly inbound: Inbound;
	readonly context: ExtensionContext;
}

/** What the tools, the command and the screen need of the extension. */
export interface Extension {
	/** @throws {XferError} ENODE when this session is no Node */
	here(): Here;
	/** Waits until this session is a Node, or is known to be none. */
	started(): Promise<void>;
	/** Whether this session is a Node. */
	isHere(): boolean;
	/**
	 * Another name: one more for a Node, the first for a session that is none.
	 * @throws {XferError} ENAME, EHELD
	 */
	name(name: string): Promise<string>;
	/** Shows anew what the screen says of the Inbox. */
	show(): void;
}

/** Whether there is a model to be asked; pi stands in one that is unknown where none is configured. */
export function hasModel({ model }: ExtensionContext): boolean {
	return model !== undefined && model.provider !== "unknown";
}

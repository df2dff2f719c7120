import type { ExtensionAPI, ExtensionContext } from "@earendil-works/pi-coding-agent";
import { derivedName, nodeOfSession } from "../lib/identity.ts";
import { nodeName, slug } from "../lib/names.ts";
import { openTree } from "../lib/tree.ts";

/** A name that a session may have. `before`: it had it before, and wants it again if nobody else has it now. */
export interface Wish {
	readonly name: string;
	readonly given: boolean | "before";
}

/** The names to try, in this order. */
export function* names(pi: ExtensionAPI, { mode, sessionManager, cwd }: ExtensionContext): Generator<Wish> {
	const flag = pi.getFlag("xfer");
	if (typeof flag === "string" && flag !== "") {
		yield { name: nodeName(flag), given: true };
		return;
	}
	if (mode === "print" || mode === "json") return; // it is over before anybody could write to it
	const tree = openTree({ instance: "00000000" });
	const before = nodeOfSession(tree, sessionManager.getSessionId());
	if (before) yield { name: before, given: "before" };
	const named = slug(pi.getSessionName() ?? "");
	if (named) yield { name: named, given: false };
	else yield inherited(tree) ?? { name: derivedName(cwd, "pi"), given: false };
}

/** `$XFER_NODE`, unless it was handed down by a process, and another is live as that Node: the same in a later session, mostly. Then it is that one's name. */
function inherited(tree: ReturnType<typeof openTree>): Wish | undefined {
	const { XFER_NODE: name, XFER_INSTANCE: instance } = process.env;
	if (!name) return undefined;
	const given = nodeName(name);
	const live = tree.has(given) ? tree.node(given).live() : undefined;
	return live && instance && live.pid !== process.pid ? undefined : { name: given, given: true };
}

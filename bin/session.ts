import { existsSync } from "node:fs";
import { userInfo } from "node:os";
import { XferError } from "../lib/errors.ts";
import { instanceAbove } from "../lib/lock.ts";
import { fold, isNodeName, nodeName, slug } from "../lib/names.ts";
import { type Node, openTree, type Tree } from "../lib/tree.ts";
import type { Values } from "./command.ts";

/** Who runs a command, and on which tree. */
export interface Session {
	readonly tree: Tree;
	/** The Node that is spoken for; it may not exist yet. */
	readonly me: string;
	/** What a line to type must end with to speak as the same Node: ` --as NAME`, or nothing. */
	readonly asMe: string;
	readonly json: boolean;
	/** The instance that started us, when a live one did: what is in another's hand is then not ours to mark. */
	readonly instance: string | undefined;
	/** Whose an Entry is: the Node's own name, by whichever of its names it is called. */
	author(): string;
	/**
	 * The Node that is spoken for.
	 * @throws {XferError} ENODE
	 */
	node(): Node;
}

export function openSession(values: Values): Session {
	const given = openTree();
	const above = startedBy(given, values.as ?? process.env.XFER_NODE);
	const tree = above ? openTree({ instance: above }) : given;
	let me: string | undefined;
	return {
		tree,
		// Asked of the system only when somebody wants to know: that takes a while.
		get me() {
			me ??= whoAmI(values.as);
			return me;
		},
		asMe: typeof values.as === "string" ? ` --as ${nodeName(values.as)}` : "",
		json: values.json === true,
		instance: above ?? (process.env.XFER_INSTANCE === tree.context.instance ? tree.context.instance : undefined),
		author() {
			return tree.has(this.me) ? tree.node(this.me).name : this.me;
		},
		node() {
			return tree.node(this.me);
		},
	};
}

/** The instance that is live as a Node and that we descend from, though nobody handed it down: its host keeps variables to itself. */
function startedBy(tree: Tree, name: Values[string]): string | undefined {
	if (typeof name !== "string" || !isNodeName(fold(name))) return undefined;
	if (!existsSync(`${tree.context.root}/nodes/${fold(name)}/.hook`)) return undefined; // no host with hooks: others hand down who they are
	try {
		return instanceAbove(tree.context, tree.node(name).directory);
	} catch {
		return undefined; // what can't be looked at is somebody else's to explain
	}
}

function whoAmI(as: Values[string]): string {
	if (typeof as === "string") return nodeName(as);
	if (process.env.XFER_NODE) return nodeName(process.env.XFER_NODE);
	const login = userInfo().username;
	const name = slug(login);
	if (name) return name;
	throw new XferError(
		"ENAME",
		`no Node name can be made of the login name ${JSON.stringify(login)}`,
		"say who you are: --as NAME, or set XFER_NODE",
	);
}

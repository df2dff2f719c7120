import { lstatSync, mkdirSync, readlinkSync, symlinkSync, writeFileSync } from "node:fs";
import { errno, XferError } from "./errors.ts";
import { idOf, pickId, type State, shortId, stateOf } from "./filename.ts";
import { listNames, readBeginning } from "./files.ts";
import type { Listed } from "./inbox.ts";
import type { Message } from "./maildir.ts";
import { isNodeName } from "./names.ts";
import type { Tree } from "./tree.ts";

/** What a Node sent, and where it stands now: read from the recipient's Inbox, for nobody else keeps it. */
export interface Standing {
	readonly id: string;
	/** The Node that it went to. */
	readonly to: string;
	readonly state: State | "gone" | "unknown";
	/** The Handoff as it lies there, unless it is gone. */
	readonly handoff: Listed | undefined;
	/** When its state last changed, unix ms. */
	readonly changed: number | undefined;
}

const ended = new Set<string>(["failed", "expired", "replaced", "unreadable"]);

interface Located {
	readonly to: string;
	readonly message: Message | undefined;
	/** The recipient's Inbox can't be looked at. */
	readonly unknown: boolean;
}

/** The pointers of a Node to what it sent: `sent/ID -> ../../NODE`. */
export class Sent {
	readonly #tree: Tree;
	readonly #directory: string;

	constructor(tree: Tree, node: string) {
		this.#tree = tree;
		this.#directory = `${node}/sent`;
	}

	/** Keeps where a Handoff went. Failing is no failure: the Handoff is delivered, and only its receipt is lost. */
	point(id: string, to: string): void {
		const target = `../../${to}`;
		try {
			this.#link(target, id);
		} catch {
			// a full disk, a read-only directory: see above
		}
	}

	#link(target: string, id: string): void {
		const path = `${this.#directory}/${id}`;
		try {
			symlinkSync(target, path);
		} catch (error) {
			const code = errno(error);
			if (code === "EEXIST") return;
			if (code === "ENOENT") {
				mkdirSync(this.#directory, { mode: 0o700 });
				symlinkSync(target, path);
			} else if (code === "EPERM" || code === "ENOTSUP" || code === "ENOSYS")
				writeFileSync(path, `${target}\n`, { mode: 0o600 }); // no symlinks here (protocol 12)
			else throw error;
		}
	}

	/** The ids of all that was sent, the newest first. */
	ids(): string[] {
		return listNames(this.#directory).reverse();
	}

	/** The name of the Node that a Handoff went to; undefined when the pointer is not one. */
	recipient(id: string): string | undefined {
		const path = `${this.#directory}/${id}`;
		let target: string;
		try {
			target = lstatSync(path).isSymbolicLink() ? readlinkSync(path) : (readBeginning(path, 100)?.trim() ?? "");
		} catch {
			return undefined; // removed meanwhile
		}
		const name = /^\.\.\/\.\.\/([^/]+)$/.exec(target)?.[1];
		return name !== undefined && isNodeName(name) ? name : undefined;
	}

	/** The directory of the Node that a Handoff went to. */
	inboxOf(id: string): string | undefined {
		const to = this.recipient(id);
		return to !== undefined && this.#tree.has(to) ? this.#tree.node(to).directory : undefined;
	}

	/** Where each of these stands. */
	standings(ids: readonly string[]): Standing[] {
		const found = this.locate(ids);
		return ids.flatMap((id) => {
			const at = found.get(id);
			return at ? this.#standing(id, at) : [];
		});
	}

	/** Which Node each of these went to, and the message there unless it is gone. Every recipient's Inbox is listed together. */
	locate(ids: readonly string[]): Map<string, Located> {
		const wanted = new Map<string, Set<string>>();
		for (const id of ids) {
			const to = this.recipient(id);
			if (to === undefined) continue;
			const some = wanted.get(to);
			if (some) some.add(id);
			else wanted.set(to, new Set([id]));
		}
		const found = new Map<string, Located>();
		for (const [to, some] of wanted) {
			try {
				const messages = this.#messages(to, some);
				for (const id of some) found.set(id, { to, message: messages.get(id), unknown: false });
			} catch {
				for (const id of some) found.set(id, { to, message: undefined, unknown: true }); // that Inbox can't be listed: not gone, for all we know
			}
		}
		return found;
	}

	/**
	 * The id of what was sent that a person means by a piece of it.
	 * @throws {XferError} as `pickId`
	 */
	find(piece: string): string {
		return pickId(this.ids(), piece, this.#directory);
	}

	/**
	 * Takes a Handoff back, if nobody has taken it.
	 * @throws {XferError} EHELD when somebody was first, EHANDOFF when it is gone
	 */
	recall(id: string): Standing {
		const { to, message } = this.locate([id]).get(id) ?? {};
		if (to === undefined || !message) throw new XferError("EHANDOFF", `${shortId(id)} is gone`, "xfer sent lists what is there");
		const state = stateOf(message.dir, message);
		if (state === "queued" && this.#tree.node(to).inbox.maildir.end(message, "recalled")) return this.standings([id])[0] as Standing;
		const [now] = this.standings([id]);
		if (now?.state === "recalled") return now;
		if (now && ended.has(now.state))
			throw new XferError("EHELD", `${shortId(id)} has ended already (${now.state})`, "there is nothing to take back");
		throw new XferError(
			"EHELD",
			`too late to recall ${shortId(id)}: ${to} has it (${now?.state ?? "gone"})`,
			`tell ${to} so in another Handoff`,
		);
	}

	/** A listing that overlaps a rename may miss what is renamed, so nothing is believed to be gone at the first look. */
	#messages(to: string, ids: ReadonlySet<string>): Map<string, Message> {
		const found = new Map<string, Message>();
		if (!this.#tree.has(to)) return found;
		const { maildir } = this.#tree.node(to).inbox;
		for (let looks = 0; looks < 3 && found.size < ids.size; looks++) {
			for (const dir of ["cur", "new", "cur"] as const) {
				for (const message of maildir.list(dir, (name) => ids.has(idOf(name)))) if (!found.has(message.id)) found.set(message.id, message);
			}
		}
		return found;
	}

	#standing(id: string, { to, message, unknown }: Located): Standing {
		const handoff = message && this.#tree.node(to).inbox.look(message);
		if (handoff) return { id, to, state: handoff.state, handoff, changed: lstatSync(handoff.file, { throwIfNoEntry: false })?.ctimeMs };
		const state = message ? stateOf(message.dir, message) : unknown ? "unknown" : "gone";
		return { id, to, state, handoff: undefined, changed: undefined };
	}
}

import { linkSync, lstatSync, rmSync, statSync } from "node:fs";
import { basename } from "node:path";
import { type Context, unique } from "./context.ts";
import { errno, XferError } from "./errors.ts";
import { attemptsOf, change, type Dir, type FileName, field, formatFileName, idOf, leaseOf, parseFileName, pickId } from "./filename.ts";
import { isFile, listFiles, makeDirectories, move, readBytes, syncDirectory, writeNew } from "./files.ts";

/** One file of a maildir. */
export interface Message extends FileName {
	readonly dir: Dir;
	readonly name: string;
}

/** How a Handoff can end other than by being read, and the flag that tells a mail reader. */
const ends = { failed: "F", unreadable: "F", recalled: "T", expired: "T", replaced: "T" } as const;
export type End = keyof typeof ends;

/** Whether what was delivered is on the disk too. `unknown`: it is delivered, its directory could not be synced; never send again for this. */
export type Durability = "synced" | "unknown" | "none";

/**
 * A maildir: bytes under names, and the renames between them (protocol 6). It knows no headers.
 *
 * Each transition is one rename. It returns the message under its new name, or undefined when somebody else was first.
 */
export class Maildir {
	readonly path: string;
	readonly #context: Context;

	constructor(context: Context, directory: string) {
		this.#context = context;
		this.path = directory;
	}

	/** The path of a message's file. */
	file(message: Message): string {
		return `${this.path}/${message.dir}/${message.name}`;
	}

	/** The messages of a directory, the oldest first. `keep` sees each name before anything else is done with it. */
	list(dir: Dir, keep?: (name: string) => boolean): Message[] {
		return this.names(dir, keep).map((name) => this.message(dir, name));
	}

	/** As `list`, the names alone. */
	names(dir: Dir, keep?: (name: string) => boolean): string[] {
		return listFiles(`${this.path}/${dir}`, keep);
	}

	message(dir: Dir, name: string): Message {
		return { dir, name, ...parseFileName(name) };
	}

	/** The message with this id, wherever it lies. */
	get(id: string): Message | undefined {
		return this.#named(id)[0];
	}

	/**
	 * The one message that a person means by a piece of its id.
	 * @throws {XferError} as `pickId`
	 */
	find(piece: string): Message {
		const found = (["cur", "new", "cur"] as const).flatMap((dir) => this.list(dir, (name) => idOf(name).includes(piece)));
		const id = pickId(
			found.map((message) => message.id),
			piece,
			this.path,
		);
		return found.find((message) => message.id === id) as Message;
	}

	/**
	 * Delivers `bytes` under an id that nobody else has. Killed at any point it leaves a file in `tmp/`, or the message.
	 * @throws {XferError} ENODE when the maildir is gone; the system's error when it can't be written. Then nothing is delivered.
	 */
	deliver(id: string, bytes: Uint8Array): Durability {
		const temporary = this.#write(id, bytes);
		try {
			if (!move(temporary, `${this.path}/new/${id}`)) throw this.#gone();
		} catch (error) {
			rmSync(temporary, { force: true });
			throw error;
		}
		return this.#sync();
	}

	/**
	 * Delivers under an id that the caller chose, once however often it is called (protocol 6).
	 * @returns `again` when it had been delivered before with the same bytes
	 * @throws {XferError} EINPUT when the id is taken by other bytes
	 */
	deliverAs(id: string, bytes: Uint8Array): Durability | "again" {
		const before = this.#named(id, 1);
		if (before.length > 0) return this.#same(before, bytes, id);
		const temporary = this.#write(`${id}.${unique(this.#context.random)}`, bytes); // a killed one's file is not in the way
		const file = `${this.path}/new/${id}`;
		try {
			linkSync(temporary, file);
		} catch (error) {
			const code = errno(error);
			if (code === "EEXIST") return this.#same([this.message("new", id)], bytes, id);
			if (code !== "EPERM" && code !== "ENOTSUP" && code !== "EMLINK") throw error;
			move(temporary, file); // no hard links here (protocol 12)
		} finally {
			rmSync(temporary, { force: true });
		}
		const others = this.#named(id, 1).filter(({ dir, name }) => dir !== "new" || name !== id);
		if (others.length === 0) return this.#sync();
		rmSync(file, { force: true });
		return this.#same(others, bytes, id);
	}

	/** Takes a queued message: it is in this instance's hand until the lease ends. */
	take(message: Message): Message | undefined {
		return this.#rename(message, "cur", change(message, { E: undefined, L: this.#lease() }, "", "SRT"));
	}

	/** A new lease on what is in hand. */
	renew(message: Message): Message | undefined {
		return this.#rename(message, "cur", change(message, { L: this.#lease() }));
	}

	/** Read, and answered if `replied`. */
	done(message: Message, replied = false): Message | undefined {
		const failed = field(message, "E") !== undefined;
		return this.#rename(message, "cur", change(message, { L: undefined, E: undefined }, replied ? "RS" : "S", failed ? "FT" : ""));
	}

	/** Back into `new/`, delivered once more than before. */
	release(message: Message): Message | undefined {
		const failed = field(message, "E") !== undefined;
		// A rename overwrites: when a restored copy has that name, the count goes on until one is free.
		for (let count = attemptsOf(message) + 1; ; count++) {
			const to = change(message, { L: undefined, E: undefined, A: String(count) }, "", failed ? "FSRT" : "SRT");
			const name = formatFileName(to, "new", this.#context.separator);
			if (!lstatSync(`${this.path}/new/${name}`, { throwIfNoEntry: false })) return this.#rename(message, "new", to);
		}
	}

	/** Ended, for this reason. */
	end(message: Message, why: End): Message | undefined {
		return this.#rename(message, "cur", change(message, { L: undefined, E: why }, ends[why], "SRTF"));
	}

	/** This instance's message of an id, wherever others have renamed it to meanwhile; undefined when it is not in its hand any more. */
	inHand(id: string, instance: string): Message | undefined {
		return this.#named(id).find((message) => message.dir === "cur" && leaseOf(message)?.instance === instance);
	}

	#rename(message: Message, dir: Dir, to: FileName): Message | undefined {
		const name = formatFileName(to, dir, this.#context.separator);
		if (dir === message.dir && name === message.name) return isFile(this.file(message)) ? message : undefined;
		return move(this.file(message), `${this.path}/${dir}/${name}`) ? { dir, name, ...to } : undefined;
	}

	#lease(): string {
		return `${Math.ceil((this.#context.now() + this.#context.lease) / 1000)}.${this.#context.instance}`;
	}

	#write(name: string, bytes: Uint8Array): string {
		const file = `${this.path}/tmp/${name}`;
		try {
			writeNew(file, bytes, this.#context.durable);
		} catch (error) {
			if (errno(error) !== "ENOENT") throw error;
			if (!statSync(this.path, { throwIfNoEntry: false })?.isDirectory()) throw this.#gone();
			for (const dir of ["tmp", "cur", "new"]) makeDirectories(`${this.path}/${dir}`);
			writeNew(file, bytes, this.#context.durable);
		}
		return file;
	}

	#sync(): Durability {
		if (!this.#context.durable) return "none";
		try {
			syncDirectory(`${this.path}/new`);
			return "synced";
		} catch {
			return "unknown"; // delivered all the same: an error here would make the caller send it again
		}
	}

	/** All with this id. A listing that overlaps a rename may miss what is renamed, so nothing is believed to be gone at the first look. */
	#named(id: string, looks = 3): Message[] {
		const look = () => (["cur", "new", "cur"] as const).flatMap((dir) => this.list(dir, (name) => idOf(name) === id));
		for (let tries = 0; tries < looks; tries++) {
			const found = new Map(look().map((message) => [`${message.dir}/${message.name}`, message]));
			if (found.size > 0) return [...found.values()];
		}
		return [];
	}

	/** Whether what has this id is these bytes. */
	#same(messages: readonly Message[], bytes: Uint8Array, id: string): "again" {
		let found = messages;
		for (let tries = 0; tries < 10; tries++) {
			for (const message of found) {
				const other = readBytes(this.file(message), bytes.length + 1);
				if (!other) continue; // it moved on meanwhile
				if (other.equals(bytes)) return "again";
				throw new XferError("EINPUT", `another Handoff has the id ${id}`, "choose a new id");
			}
			found = this.#named(id);
		}
		throw new XferError("EINPUT", `a Handoff with the id ${id} is there, and could not be compared`, "try again, or choose a new id");
	}

	#gone(): XferError {
		return new XferError("ENODE", `no Node "${basename(this.path)}": its directory is gone`);
	}
}

import {
	accessSync,
	constants,
	type Dirent,
	existsSync,
	linkSync,
	lstatSync,
	mkdirSync,
	readdirSync,
	readFileSync,
	renameSync,
	rmSync,
	type Stats,
	statSync,
	symlinkSync,
	watch,
} from "node:fs";
import { dirname, normalize } from "node:path";
import { errno, XferError } from "./errors.ts";
import { shellWord } from "./filename.ts";
import { OpenFile, syncDirectory, writeNew } from "./files.ts";
import { headerLimit, readHandoff, type Value, type Warning } from "./handoff.ts";
import { isNodeName } from "./names.ts";
import type { Node, Tree } from "./tree.ts";

/** Something that is not as it should be, and what to do about it. */
export interface Finding {
	/** One word for the kind of finding. */
	readonly code: string;
	readonly path: string;
	readonly what: string;
	readonly cure: string;
}

export interface Diagnosis {
	readonly findings: readonly Finding[];
	/** What was looked at, and how it is. */
	readonly checks: readonly { readonly name: string; readonly ok: boolean; readonly detail: string }[];
}

/** What a reader sees in a file. */
export interface Inspection {
	readonly file: string;
	readonly header: boolean;
	readonly fields: Readonly<Record<string, Value>>;
	readonly body: { readonly offset: number; readonly bytes: number };
	readonly warnings: readonly Warning[];
}

const hour = 3600 * 1000;

/**
 * What a reader sees in a file.
 * @throws {XferError} EHANDOFF when there is no regular file
 */
export function inspect(file: string): Inspection {
	let opened: OpenFile;
	try {
		opened = new OpenFile(file);
	} catch (error) {
		throw new XferError(
			"EHANDOFF",
			`${file}: ${errno(error) === "ENOENT" ? "no such file" : `can't be read (${errno(error)})`}`,
			"a Handoff is a regular file",
		);
	}
	try {
		const head = opened.read(0, headerLimit + 4096);
		const { header, warnings } = readHandoff("", head, opened.modified);
		const { present, fields, body } = header;
		return { file, header: present, fields: Object.fromEntries(fields), body: { offset: body, bytes: opened.size - body }, warnings };
	} finally {
		opened.close();
	}
}

/** Looks at the tree, and at what the filesystem under it can do. Changes nothing that stays. */
export async function diagnose(tree: Tree): Promise<Diagnosis> {
	const { root } = tree.context;
	if (!lstatSync(root, { throwIfNoEntry: false })) {
		return { findings: [], checks: [{ name: "tree", ok: true, detail: `${root} does not exist yet: the first xfer join makes it` }] };
	}
	const findings: Finding[] = [];
	const look = (path: string, check: () => Finding[]) => {
		try {
			findings.push(...check());
		} catch (error) {
			findings.push({
				code: "access",
				path,
				what: `can't be looked at (${errno(error) ?? error})`,
				cure: `chmod 700 it; a sandbox may forbid it: allow reading and writing ${root}`,
			});
		}
	};
	for (const path of [root, `${root}/nodes`]) look(path, () => checkMode(path, root));
	look(`${root}/nodes`, () => checkNames(tree));
	look(`${root}/nodes`, () => {
		for (const name of tree.names()) {
			const node = tree.node(name);
			for (const part of ["", "/tmp", "/new", "/cur", "/sent"]) look(node.directory + part, () => checkMode(node.directory + part, root));
			look(node.directory, () => checkNode(tree, node));
		}
		return [];
	});
	const { checks, found } = await checkFilesystem(tree);
	return { findings: [...found, ...findings], checks };
}

function checkNames(tree: Tree): Finding[] {
	const directory = `${tree.context.root}/nodes`;
	return entries(directory)
		.filter(({ name }) => !name.startsWith(".") && !(isNodeName(name) && tree.has(name)))
		.map((entry) => ({
			code: "no-node",
			path: `${directory}/${entry.name}`,
			what: entry.isSymbolicLink() ? "a symlink that does not lead to a Node beside it: ignored" : "not a Node: ignored",
			cure: "remove it, or rename it to a-z 0-9 . _ -",
		}));
}

function checkMode(path: string, root: string): Finding[] {
	const stat = statSync(path, { throwIfNoEntry: false });
	if (!stat || process.platform === "win32") return [];
	const found: Finding[] = [];
	const inNode = dirname(dirname(dirname(path))) === root;
	if (inNode && lstatSync(path).isSymbolicLink())
		found.push({
			code: "symlink",
			path,
			what: "a symlink where a directory should be: nothing in it is seen",
			cure: `rm ${shellWord(path)}`,
		});
	const mode = (stat.mode & 0o777).toString(8);
	if (stat.mode & 0o077) found.push({ code: "mode", path, what: `others may enter (mode ${mode})`, cure: `chmod 700 ${shellWord(path)}` });
	if (process.getuid && stat.uid !== process.getuid()) {
		found.push({
			code: "owner",
			path,
			what: `belongs to uid ${stat.uid}`,
			cure: "a tree is one account's: chown it, or use another XFER_HOME",
		});
	}
	try {
		accessSync(path, constants.R_OK | constants.W_OK | constants.X_OK);
	} catch (error) {
		const cure = `a sandbox may forbid it: allow writing to ${root}`;
		found.push({ code: "writable", path, what: `can't be read and written (${errno(error)})`, cure });
	}
	return found;
}

function checkNode(tree: Tree, node: Node): Finding[] {
	const found: Finding[] = [];
	const now = tree.context.now();
	const { directory } = node;
	for (const dir of ["new", "cur"] as const) {
		for (const entry of entries(`${directory}/${dir}`)) {
			const file = `${directory}/${dir}/${entry.name}`;
			const stat = lstatSync(file, { throwIfNoEntry: false });
			if (entry.name.startsWith(".")) continue;
			if (!stat && entry.name.includes("\ufffd"))
				found.push({ code: "strange", path: file, what: "a name that is not UTF-8", cure: "rename it to a plain name" });
			else if (stat && !stat.isFile())
				found.push({
					code: "strange",
					path: file,
					what: `${kindOf(stat)}, not a Handoff: ignored`,
					cure: `remove it: rm -r ${shellWord(file)}`,
				});
			else if (Buffer.byteLength(entry.name) > 200)
				found.push({ code: "name", path: file, what: "a name so long that it may not be taken", cure: "rename it to a shorter one" });
		}
	}
	let oldest = now;
	let waiting = 0;
	const live = node.live();
	for (const handoff of node.inbox.list().items) {
		const { file, state, lease, date } = handoff;
		const word = shellWord(handoff.id);
		if (state === "unreadable")
			found.push({
				code: "unreadable",
				path: file,
				what: "can't be read",
				cure: `chmod 600 it, then: xfer mark ${word} new --as ${node.name}`,
			});
		if (state === "failed")
			found.push({
				code: "failed",
				path: file,
				what: `failed, from ${handoff.from}`,
				cure: `xfer mark ${word} new --as ${node.name} tries again, xfer mark ${word} read --as ${node.name} clears it`,
			});
		if (state === "taken" && lease && lease.end * 1000 < now - hour / 60) {
			const cure = live ? `process ${live.pid} should return it` : `it comes back with the next xfer read --as ${node.name}, or xfer gc`;
			found.push({ code: "stuck", path: file, what: `in the hand of ${lease.instance}, whose lease has ended`, cure });
		}
		if (date > now + hour / 12)
			found.push({
				code: "clock",
				path: file,
				what: `dated ${new Date(date).toISOString()}: in the future`,
				cure: "set the clock of the machine that sent it",
			});
		if (handoff.size > tree.context.maxBytes)
			found.push({
				code: "large",
				path: file,
				what: `${handoff.size} bytes: read only when it is named`,
				cure: `xfer read ${word} --as ${node.name}`,
			});
		if (state === "queued") {
			waiting++;
			oldest = Math.min(oldest, date);
			if (handoff.warnings.length > 0)
				found.push({
					code: "header",
					path: file,
					what: `its header reads with warnings: ${handoff.warnings.join(", ")}`,
					cure: `xfer doctor ${shellWord(file)}`,
				});
		}
	}
	if (waiting > 0 && !live)
		found.push({ code: "unwatched", path: directory, what: `${waiting} unread and nobody watches`, cure: `xfer read --as ${node.name}` });
	if (waiting > 0 && live && now - oldest > 24 * hour) {
		const { holding, status } = node.presence();
		found.push({
			code: "waiting",
			path: directory,
			what: `live, and something waits for more than a day (${holding ?? status ?? "no reason given"})`,
			cure: `look at process ${live.pid}`,
		});
	}
	return found;
}

async function checkFilesystem(tree: Tree): Promise<{ checks: Diagnosis["checks"]; found: Finding[] }> {
	const { root } = tree.context;
	const checks: { name: string; ok: boolean; detail: string }[] = [];
	const found: Finding[] = [];
	const directory = `${root}/.doctor-${tree.context.instance}`;
	const check = async (name: string, cure: string, act: () => string | Promise<string>) => {
		try {
			checks.push({ name, ok: true, detail: await act() });
		} catch (error) {
			const detail = error instanceof Error ? error.message : String(error);
			checks.push({ name, ok: false, detail });
			found.push({ code: name, path: root, what: detail, cure });
		}
	};
	try {
		await check("write", `a sandbox may forbid it: allow writing to ${root}`, () => {
			mkdirSync(directory, { mode: 0o700 });
			writeNew(`${directory}/a`, Buffer.from("x"), true);
			return "a file can be written and synced";
		});
		if (!existsSync(`${directory}/a`)) return { checks, found };
		await check("rename", "put the tree on a local filesystem (XFER_HOME)", () => {
			renameSync(`${directory}/a`, `${directory}/b`);
			return "atomic";
		});
		await check("sync", "a power cut may lose the last Handoffs here", () => {
			syncDirectory(directory);
			return "directories can be synced";
		});
		await check("link", "a Handoff with a chosen id may be delivered twice here", () => {
			linkSync(`${directory}/b`, `${directory}/c`);
			return "hard links work";
		});
		await check("symlink", "second names do not work here", () => {
			symlinkSync("b", `${directory}/d`);
			return "symlinks work";
		});
		await check("clock", "set the clock of this machine, or of the one that serves the filesystem", () => {
			const before = tree.context.now();
			writeNew(`${directory}/now`, Buffer.alloc(0), false);
			const skew = clockSkew(statSync(`${directory}/now`).mtimeMs, before, tree.context.now());
			if (Math.abs(skew) > 5000) throw new Error(`the filesystem's clock is ${Math.round(skew / 1000)} s off ours`);
			return "the filesystem's clock is ours";
		});
		await check(
			"events",
			"Inboxes are looked at every second instead; sysctl fs.inotify.max_user_watches and max_user_instances may be too low",
			() => event(directory),
		);
	} finally {
		rmSync(directory, { recursive: true, force: true });
	}
	return { checks, found };
}

/** ms by which the mtime of a file lies outside of the time in which it was made. */
function clockSkew(mtime: number, before: number, after: number): number {
	return mtime < before ? mtime - before : Math.max(0, mtime - after);
}

/** Whether a file event really arrives. */
async function event(directory: string): Promise<string> {
	const { setTimeout: sleep } = await import("node:timers/promises");
	const done = new AbortController();
	let arrived = false;
	const watcher = watch(directory, { persistent: false }, () => {
		arrived = true;
		done.abort();
	});
	watcher.on("error", () => done.abort());
	try {
		renameSync(`${directory}/b`, `${directory}/e`);
		await sleep(2000, undefined, { signal: done.signal }).catch(() => {}); // the abort is what is waited for
	} finally {
		watcher.close();
	}
	if (!arrived) throw new Error("no file event arrived within 2 s");
	const [watches, instances] = ["max_user_watches", "max_user_instances"].map((name) => readLimit(name));
	return watches === undefined ? "file events arrive" : `file events arrive (inotify: ${watches} watches, ${instances} instances)`;
}

function readLimit(name: string): string | undefined {
	try {
		return readFileSync(`/proc/sys/fs/inotify/${name}`, "utf8").trim();
	} catch {
		return undefined; // not Linux
	}
}

function kindOf(stat: Stats): string {
	if (stat.isDirectory()) return "a directory";
	if (stat.isSymbolicLink()) return "a symlink";
	if (stat.isFIFO()) return "a FIFO";
	return stat.isSocket() ? "a socket" : "a device";
}

function entries(directory: string): Dirent[] {
	try {
		return readdirSync(normalize(directory), { withFileTypes: true });
	} catch {
		return []; // missing or forbidden: what reports that is elsewhere
	}
}

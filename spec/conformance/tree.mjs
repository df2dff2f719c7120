// Builds a tree from its description in a vector, and holds what is there afterwards against patterns.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { checkWritten } from "./handoff.mjs";

const CROCKFORD = "[0-9a-hjkmnp-tv-z]";
const PLACEHOLDERS = {
	id: `\\d+\\.M\\d{6}R${CROCKFORD}{8}\\.[A-Za-z0-9._-]+`,
	lease: `\\d+\\.${CROCKFORD}{8}`,
	end: "\\d+",
	info: "(?:[:;]2,[A-Za-z]*)?",
	any: "[^/\\n]*",
	text: "[^]*",
};

/** Turns a pattern (literal text with `{id}` and the like) into a regular expression for the whole of a text. */
export function pattern(text) {
	const source = text.replace(/\{(\w+)\}|[\\^$.*+?()[\]{}|]/g, (match, name) => PLACEHOLDERS[name] ?? match.replace(/\W/g, "\\$&"));
	return new RegExp(`^${source}$`);
}

/** The bytes of a value that is text, `{ base64 }`, or a list of base64 parts and `{ repeat, times }`. */
export function bytesOf(value) {
	if (typeof value === "string") return Buffer.from(value, "base64");
	const parts = value.map((part) =>
		typeof part === "string" ? Buffer.from(part, "base64") : Buffer.from(Buffer.from(part.repeat, "base64").toString().repeat(part.times)),
	);
	return Buffer.concat(parts);
}

/** What was delivered long ago has an old mtime, so that a touch is seen. */
const LONG_AGO = 1_700_000_000;

/** Makes the files that a vector's `before` describes. Nodes get the directories that they lack, unless `bare`. */
export function build(root, before, bare = false) {
	for (const [name, entry] of Object.entries(before)) {
		const file = path.join(root, name);
		fs.mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
		if (typeof entry === "string" || entry.base64 !== undefined) {
			fs.writeFileSync(file, typeof entry === "string" ? entry : bytesOf(entry.base64), { mode: 0o600 });
			fs.utimesSync(file, LONG_AGO, LONG_AGO);
		} else if (entry.symlink !== undefined) fs.symlinkSync(entry.symlink.replaceAll("{root}", root), file);
		else if (entry.fifo) execFileSync("mkfifo", ["-m", "600", "--", file]);
		else fs.mkdirSync(file, { recursive: true, mode: 0o700 });
	}
	if (bare) return;
	for (const node of nodeDirs(root))
		for (const part of ["tmp", "new", "cur", "sent"]) fs.mkdirSync(path.join(node, part), { recursive: true, mode: 0o700 });
}

/** The directories of Nodes, without second names. */
export function nodeDirs(root) {
	const nodes = path.join(root, "nodes");
	return list(nodes)
		.filter((name) => /^[a-z0-9]/.test(name))
		.map((name) => path.join(nodes, name))
		.filter((dir) => fs.lstatSync(dir).isDirectory());
}

/** The names in a directory, sorted; none when it is not there. */
export function list(dir) {
	try {
		return fs.readdirSync(dir).sort();
	} catch {
		return [];
	}
}

/** Everything below a directory: relative path → what it is. Nothing but regular files is opened. */
export function snapshot(root) {
	const found = new Map();
	(function walk(dir) {
		for (const name of list(path.join(root, dir))) {
			const relative = path.posix.join(dir, name);
			const file = path.join(root, relative);
			const stat = fs.lstatSync(file);
			if (stat.isDirectory()) {
				found.set(relative, { kind: "dir" });
				walk(relative);
			} else if (stat.isSymbolicLink()) found.set(relative, { kind: "symlink", target: fs.readlinkSync(file) });
			else if (stat.isFile()) found.set(relative, { kind: "file", ino: stat.ino, mtime: stat.mtimeMs, bytes: fs.readFileSync(file) });
			else found.set(relative, { kind: stat.isFIFO() ? "fifo" : "other" });
		}
	})("");
	return found;
}

/** Presence, locks and hidden names are the implementation's affair where a vector does not speak of them. */
function ownAffair(name) {
	return /(^|\/)\./.test(name) || /^nodes\/[^/]+\/(node\.md|live\.lock(\/|$))/.test(name);
}

/** Throws unless the two snapshots are the same. A Node may always say anew that it is there. */
export function assertSame(before, after) {
	const show = (name) => JSON.stringify(name);
	for (const [name, was] of before) {
		if (/^nodes\/[^/]+\/node\.md$/.test(name)) continue;
		const is = after.get(name);
		if (!is) throw new Error(`${show(name)} is gone`);
		const why = difference(was, is);
		if (why) throw new Error(`${show(name)} ${why}`);
	}
	for (const name of after.keys()) if (!before.has(name) && !ownAffair(name)) throw new Error(`${show(name)} was made`);
}

function difference(was, is) {
	if (was.kind !== is.kind) return `was a ${was.kind} and is a ${is.kind}`;
	if (was.target !== is.target) return `points to ${is.target} now`;
	if (was.kind !== "file") return undefined;
	if (!was.bytes.equals(is.bytes)) return "has other bytes";
	if (was.mtime !== is.mtime) return "was touched";
	return was.ino === is.ino ? undefined : "was copied, not renamed";
}

/**
 * Throws unless every pattern fits one file of the tree, every file of the tree is what a pattern says, and none is left over.
 * Directories count only where a pattern asks for one.
 */
export function assertAfter(expected, before, after, options) {
	const left = new Set([...after.keys()].filter((name) => after.get(name).kind !== "dir" && (before.has(name) || !ownAffair(name))));
	for (const [text, entry] of Object.entries(expected)) {
		const regexp = pattern(text);
		const names = [...after.keys()].filter((name) => regexp.test(name) && (name === text || !Object.hasOwn(expected, name)));
		if (names.length !== 1) throw new Error(`${names.length ? "more than one" : "no"} ${text}; there are: ${[...left].sort().join(" ")}`);
		left.delete(names[0]);
		assertEntry(names[0], entry, before, after.get(names[0]), options);
	}
	if (left.size > 0) throw new Error(`not expected: ${[...left].join(" ")}`);
}

function assertEntry(name, entry, before, is, options) {
	const fail = (why) => {
		throw new Error(`${name} ${why}`);
	};
	const kind = typeof entry === "string" ? "file" : ["dir", "fifo", "symlink"].find((word) => entry[word] !== undefined && word !== "same");
	if (entry.same !== undefined) {
		const why = difference(before.get(entry.same), is);
		if (why) fail(`${why} (compared with ${entry.same})`);
	} else if (typeof entry === "string") {
		if (is.kind !== "file" || is.bytes.toString() !== entry) fail("has other bytes");
	} else if (kind) {
		if (is.kind !== kind) fail(`is a ${is.kind}`);
		if (kind === "symlink" && !pattern(entry.symlink).test(is.target)) fail(`points to ${is.target}`);
	} else {
		if (is.kind !== "file") fail(`is a ${is.kind}`);
		const { fields, body } = checkWritten(is.bytes, options);
		for (const [key, value] of Object.entries(entry.fields ?? {}))
			if (fields.get(key) !== value) fail(`has ${key} ${JSON.stringify(fields.get(key))}, not ${JSON.stringify(value)}`);
		for (const key of entry.absent ?? []) if (fields.has(key)) fail(`has a ${key}`);
		if (entry.body !== undefined && !pattern(entry.body).test(body.toString()))
			fail(`has the body ${JSON.stringify(body.toString().slice(0, 200))}`);
	}
}

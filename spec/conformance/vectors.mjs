// The vectors as cases. Each file is run through the command that shows what it is about.
import { deepStrictEqual } from "node:assert";
import fs from "node:fs";
import path from "node:path";
import { assertAfter, assertSame, build, bytesOf, list, pattern } from "./tree.mjs";

const DIR = path.join(import.meta.dirname, "../vectors");

/** All vectors as cases. What a whole file needs is a feature too: who has no `doctor` can't show what it parses. */
export function vectors() {
	return [
		...load("parse", ["doctor"], parse),
		...load("names", ["join"], name),
		...load("ids", ["inbox"], id),
		...load("states", [], state),
	];
}

function load(file, needs, run) {
	return JSON.parse(fs.readFileSync(path.join(DIR, `${file}.json`), "utf8")).map((vector) => ({
		name: `${file} ${vector.name}`,
		needs: [...needs, ...(vector.needs ?? [])],
		run: (t) => run(t, vector),
	}));
}

async function parse(t, vector) {
	t.extra = ["handoff"];
	const file = path.join(t.base, "handoff");
	fs.writeFileSync(file, bytesOf(vector.bytes));
	const { text } = await t.take(["doctor", "--json", file], { exit: vector.warnings.length > 0 ? 1 : 0 });
	const seen = JSON.parse(text).files[0];
	for (const [key, value] of Object.entries(vector.ignored ?? {})) if (seen.fields[key] === value) delete seen.fields[key];
	const entries = (fields) => Object.entries(fields).sort(([a], [b]) => (a < b ? -1 : 1));
	const expected = entries(vector.fields).map(([key, value]) => [
		key,
		value.repeat === undefined || typeof value === "string" ? value : value.repeat.repeat(value.times),
	]);
	same("header", seen.header, vector.header);
	same("fields", entries(seen.fields), expected);
	same("body", { offset: seen.body.offset, bytes: seen.body.bytes }, vector.body);
	same("warnings", [...seen.warnings].sort(), vector.warnings);
}

function same(what, is, expected) {
	try {
		deepStrictEqual(is, expected);
	} catch {
		throw new Error(`${what} is ${JSON.stringify(is)?.slice(0, 300)}, not ${JSON.stringify(expected).slice(0, 300)}`);
	}
}

async function name(t, vector) {
	const input = vector.input.replaceAll("{root}", t.root);
	await t.take(["join", input], { exit: vector.refused ? 2 : 0 });
	const made = list(t.path("nodes")).filter((file) => !file.startsWith("."));
	same("nodes/", made, vector.refused ? [] : [vector.node]);
	if (!vector.refused)
		same(
			"the Node",
			t.ls("nodes", vector.node).filter((part) => /^(tmp|new|cur)$/.test(part)),
			["cur", "new", "tmp"],
		);
}

const HANDOFF = "---\nfrom: bob\nto: alice\nkind: note\nsubject: S\n---\nB\n";

async function id(t, vector) {
	build(t.root, { "nodes/alice": { dir: true }, [`nodes/alice/${vector.file}`]: HANDOFF });
	const before = t.snapshot();
	const { text } = await t.take(["inbox", "--all", "--as", "alice"], { exit: vector.ignored ? [0, 3] : 0 });
	const rows = text
		.split("\n")
		.slice(0, -1)
		.map((line) => line.split("\t"));
	if (vector.ignored) same("the inbox", rows, []);
	else {
		const [[shown, , ...rest]] = [rows[0] ?? []];
		same("the inbox", [rows.length, shown, ...rest], [1, vector.id, vector.state, "note", "bob", "S"]);
		if (vector.state === "queued" && /^\w/.test(vector.short)) {
			const { text } = await t.take(["read", vector.short, "--peek", "--as", "alice"]);
			same("what the short id shows", text, HANDOFF);
		}
	}
	assertSame(before, t.snapshot());
}

async function state(t, vector) {
	build(t.root, vector.before, vector.bare);
	t.writing = Object.keys(vector.before)
		.filter((file) => /^nodes\/[^/]+\/tmp\/./.test(file))
		.map((file) => path.basename(file));
	const before = t.snapshot();
	const fill = (text) => text.replaceAll("{root}", t.root);
	const { text, err } = await t.take(vector.run.map(fill), { exit: vector.exit, env: vector.env, stdin: vector.stdin });
	if (vector.stdout !== undefined && !pattern(fill(vector.stdout)).test(text))
		throw new Error(`stdout is ${JSON.stringify(text.slice(0, 300))}`);
	for (const piece of vector.stderr ?? []) if (!err.includes(piece)) throw new Error(`stderr does not say ${piece}: ${err}`);
	const after = t.snapshot();
	if (vector.after === "same") assertSame(before, after);
	else assertAfter(vector.after, before, after, t.options);
}

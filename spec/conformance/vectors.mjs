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
		...load("cards", [], card),
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

const CARD = "---\nid: k3f9q2\ntitle: Cache layer\ncreated_by: alice\ncreated_at: 2026-11-30T12:00:00.000Z\n---\n";

function card(t, vector) {
	if (vector.added !== undefined) return added(t, vector);
	return vector.merged === undefined ? shown(t, vector) : merged(t, vector);
}

/** What a reader sees in a Card. Keys that the vector does not name are the implementation's affair. */
async function shown(t, vector) {
	const file = vector.file ?? "cache-layer-k3f9q2.md";
	build(t.root, { [`board/${file}`]: vector.card });
	const before = t.snapshot();
	const { text } = await t.take(["board", "show", file, "--json"]);
	const seen = JSON.parse(text);
	same("what is shown", [text.split("\n").length, seen.schema, seen.file, seen.path], [2, "xfer.card/1", file, t.path("board", file)]);
	const { entries, ...rest } = vector.shows;
	for (const [key, value] of Object.entries(rest)) same(key, plain(key, seen[key]), plain(key, value));
	if (entries) {
		const pick = (entry, i) => Object.keys(entries[i] ?? entry).map((key) => [key, plain(key, entry[key])]);
		same("entries", seen.entries.map(pick), entries.map(pick));
	}
	assertSame(before, t.snapshot());
}

/** Dates as times; lists that have no order, sorted; what is missing, empty and null, alike. */
function plain(key, value) {
	if (key === "holder" && value) return { name: value.name, host: value.host || null, until: plain("date", value.until) };
	if ((key === "date" || key === "created_at") && value) return Date.parse(value);
	if (key === "flaws" || key === "warnings") return [...(value ?? [])].sort();
	return key === "text" ? value : value || (value === false ? false : null);
}

const bytesIn = (value) => (typeof value === "string" ? Buffer.from(value) : bytesOf(value.base64));

/** What is appended to a Card, to the byte. */
async function added(t, vector) {
	build(t.root, { "board/cache-layer-k3f9q2.md": vector.card ?? CARD });
	const args = ["board", "add", "k3f9q2", "-", ...(vector.type ? ["--type", vector.type] : []), "--as", "alice"];
	const { text } = await t.take(args, { stdin: bytesIn(vector.text) });
	const [, id] = /^added\t([0-9a-hjkmnp-tv-z]{8})\tcache-layer-k3f9q2\.md\n$/.exec(text) ?? [];
	if (id === undefined) throw new Error(`it prints ${JSON.stringify(text)}`);
	const bytes = fs.readFileSync(t.path("board/cache-layer-k3f9q2.md")).toString("latin1");
	const before = bytesIn(vector.card ?? CARD).toString("latin1");
	const header = bytes.indexOf(`### ${id} `);
	const [, date] = /· (\S+)$/.exec(Buffer.from(bytes.slice(header, bytes.indexOf("\n", header)), "latin1").toString()) ?? [];
	if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/.test(date) || Math.abs(Date.parse(date) - Date.now()) > 60_000)
		throw new Error(`the date is ${date}`);
	const expected = bytesIn(vector.added).toString("latin1").replaceAll("{id}", id).replaceAll("{date}", date);
	same("the Card", bytes, `${before}\n${expected}`);
}

/** What two versions of a Card come to, whichever is called ours. */
async function merged(t, vector) {
	t.extra = ["merge"];
	for (const [i, [ours, theirs]] of [
		[vector.ours, vector.theirs],
		[vector.theirs, vector.ours],
	].entries()) {
		build(path.join(t.base, "merge"), { [`${i}/base`]: vector.base, [`${i}/ours`]: ours, [`${i}/theirs`]: theirs });
		const files = ["base", "ours", "theirs"].map((side) => path.join(t.base, "merge", `${i}`, side));
		await t.take(["board", "merge-driver", ...files]);
		same(
			i === 0 ? "the merge" : "the merge the other way round",
			fs.readFileSync(files[1]).toString("latin1"),
			bytesIn(vector.merged).toString("latin1"),
		);
	}
}

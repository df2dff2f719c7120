/** One Card, many writers: what was added is there, once and whole, whoever wrote it and whoever was killed meanwhile. */
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { crc32 } from "node:zlib";
import { afterEach, describe, expect, test } from "vitest";
import { formatEntry, parseCard } from "../../lib/board/card.ts";
import { type Board, type OpenCard, openBoard, openTree } from "../../lib/index.ts";
import { cli, ls, type Result, run, sh, start, tempDir, tempTree, until } from "../helpers.ts";
import { type Actor, actor } from "./actor.ts";
import type { WriterOptions } from "./writer.ts";

const commands = { cli, dash: sh("dash"), busybox: sh("busybox") };

/** A Board with one Card. */
function make(root?: string) {
	const { env, ...temp } = tempTree();
	const at = root ?? temp.root;
	const board = openBoard(openTree({ root: at, durable: false }));
	const { file, path: card } = board.create({ title: "Title of nobody", author: "alice", text: "The introduction." });
	return { root: at, env: { ...env, XFER_HOME: at, XFER_DURABILITY: "none" }, board, file, card, id: file.slice(-9, -3) };
}

function writer(options: WriterOptions, env: NodeJS.ProcessEnv): Actor {
	return actor("writer.ts", options, env);
}

/** Lets them begin, all at once. */
async function begin(actors: readonly Actor[]): Promise<void> {
	await until(() => actors.every(({ lines }) => lines[0] === "ready"), "all to be ready");
	for (const one of actors) one.tell("go");
}

/** Their lines that begin with a word, without it. */
function lines(actors: readonly Actor[], word: string): string[] {
	return actors.flatMap(({ lines }) => lines.filter((line) => line.startsWith(`${word} `)).map((line) => line.slice(word.length + 1)));
}

/** Id and checksum of each Entry, in the order of the ids. */
function sums(entries: OpenCard["entries"]): string[] {
	return entries.map(({ id, text }) => `${id} ${crc32(text)}`).sort();
}

/** Nobody waits, and nothing of a writer that ended well is left. */
function expectNothingLeft(board: Board): void {
	expect(ls(board.directory, ".locks")).toEqual([]);
}

test("20 processes that add 50 Entries each to one Card at once: 1,000 Entries, none torn, none twice", async () => {
	const { env, board, file } = make();
	const writers = Array.from({ length: 20 }, (_, n) => writer({ node: `node${n}`, does: "add", file, count: 50, durable: true }, env));
	await begin(writers);
	for (const one of writers) expect(await one.ended, one.errors()).toBe(0);

	const { entries, warnings, introduction } = await board.read(file);
	const added = lines(writers, "added");
	expect(new Set(added).size).toBe(1000);
	expect(sums(entries)).toEqual(added.sort());
	expect(entries.filter(({ flaws }) => flaws.length > 0)).toEqual([]);
	expect([warnings, introduction.toString()]).toEqual([[], "The introduction."]);
	for (let n = 0; n < 20; n++) {
		const own = entries.filter(({ author }) => author === `node${n}`).map(({ text }) => Number(text.toString().split(/[ \n]/)[1]));
		expect(own).toEqual(Array.from({ length: 50 }, (_, n) => n)); // each writer's in the order in which they were added
	}
	expectNothingLeft(board);
});

test("20 processes of the library, the CLI, two shells and plain >> add 50 Entries each, while two others edit and three read: nothing is lost, nothing broken is seen", async () => {
	const { env, board, file, card, id } = make();
	/** Runs a line of a shell 50 times; $i is a number of three digits. */
	const fifty = (line: string, name: string) =>
		run(["sh", "-c", `for i in $(seq -w 101 150); do ${line} || exit; done`, name], { env: { ...env, XFER_NODE: name } });
	const words = (argv: readonly string[]) => argv.map((word) => `'${word}'`).join(" ");
	const command = (argv: readonly string[], name: string) => fifty(`${words(argv)} board add ${id} "${name} $i" '' '### x · y'`, name);
	const append = (name: string) =>
		fifty(
			`printf '\\n### %s · note · %s · 2026-11-30T12:00:00.000Z\\n\\n%s\\n<!-- %s -->\\n' ${name}0$i ${name} "${name} $i" ${name}0$i >>'${card}'`,
			name,
		);

	const writers = Array.from({ length: 8 }, (_, n) => writer({ node: `node${n}`, does: "add", file, count: 50, pause: 200 }, env));
	const editor = writer({ node: "editor", does: "edit", file, pause: 100 }, env);
	const readers = [1, 2].map((n) => writer({ node: `reader${n}`, does: "read", file, pause: 10 }, env));
	await begin([...writers, editor, ...readers]);
	let writing = true;
	let [edits, shows] = [0, 0];
	const edit = async () => {
		for (; writing; edits++) {
			const result = await run([...cli, "board", "edit", id, "--title", `Title of cli ${edits}`], { env });
			expect(result).toMatchObject({ code: 0, err: "" });
		}
	};
	const show = async () => {
		for (; writing; shows++) {
			const { code, err, out } = await run([...cli, "board", "show", id, "--json"], { env });
			expect([code, err]).toEqual([0, ""]);
			const shown: { entries: { flaws: string[] }[]; warnings: string[]; title: string } = JSON.parse(out);
			expect(shown.entries.filter(({ flaws }) => flaws.length > 0)).toEqual([]);
			expect([shown.warnings, shown.title]).toEqual([[], expect.stringMatching(/^Title of /)]);
		}
	};
	const others = [edit(), show()];
	const names = { cli: ["cl1a", "cl1b", "cl1c"], dash: ["dash1", "dash2", "dash3"], busybox: ["busy1", "busy2", "busy3"] };
	const adding = Object.entries(names).flatMap(([who, own]) => own.map((name) => command(commands[who as keyof typeof commands], name)));
	const appending = ["aaaa", "bbbb", "cccc"].map(append);
	for (const result of await Promise.all([...adding, ...appending])) expect(result).toMatchObject({ code: 0, err: "" });
	for (const one of writers) expect(await one.ended, one.errors()).toBe(0);
	writing = false;
	await Promise.all(others);
	editor.kill("SIGTERM");
	await editor.ended;
	for (const reader of readers) reader.tell("end");
	for (const reader of readers) expect(await reader.ended, reader.errors()).toBe(0);

	expect(lines(readers, "wrong")).toEqual([]);
	expect(edits).toBeGreaterThan(3);
	expect(shows).toBeGreaterThan(3);
	const { entries, warnings, introduction } = await board.read(file);
	expect([entries.length, warnings, introduction.toString()]).toEqual([1000, [], "The introduction."]);
	expect(entries.filter(({ flaws }) => flaws.length > 0)).toEqual([]);
	const written = new Set(sums(entries));
	expect(lines(writers, "added").filter((line) => !written.has(line))).toEqual([]);
	for (const name of Object.values(names).flat()) {
		const own = entries.filter(({ author }) => author === name).map(({ text }) => text.toString());
		expect(own.sort()).toEqual(Array.from({ length: 50 }, (_, n) => `${name} ${101 + n}  ### x · y`));
	}
	for (const name of ["aaaa", "bbbb", "cccc"])
		expect(
			entries
				.filter(({ id }) => id.startsWith(`${name}0`))
				.map(({ text }) => text.toString())
				.sort(),
		).toEqual(Array.from({ length: 50 }, (_, n) => `${name} ${101 + n}`));
});

/** Appends as a write is seen that takes a while: piece by piece. */
async function trickle(fd: number, bytes: Buffer, pieces: number): Promise<void> {
	const size = Math.ceil(bytes.length / pieces);
	for (let at = 0; at < bytes.length; at += size) {
		fs.writeSync(fd, bytes.subarray(at, at + size));
		await new Promise((resolve) => setTimeout(resolve, 30));
	}
}

describe("an Entry whose bytes are seen to come", () => {
	const bytes = formatEntry({ id: "k3f9q2ab", type: "note", author: "bob", date: 0, text: Buffer.from("one\n\ntwo\n".repeat(10)) });
	const whole = [
		["aaaaaaaa", "before", ""],
		["k3f9q2ab", "one\n\ntwo\n".repeat(10), ""],
	];
	/** A Card with an Entry, open. */
	function open() {
		const made = make();
		fs.appendFileSync(made.card, formatEntry({ id: "aaaaaaaa", type: "note", author: "bob", date: 0, text: Buffer.from("before") }));
		return { ...made, fd: fs.openSync(made.card, "a") };
	}
	const shown = ({ entries }: OpenCard) => entries.map(({ id, text, flaws }) => [id, text.toString(), flaws.join(" ")]);

	test("is shown when it is whole", async () => {
		const { env, board, file, id, fd } = open();
		const writing = trickle(fd, bytes, 5);
		const [read, result] = await Promise.all([board.read(file), run([...cli, "board", "show", id], { env })]);
		expect(shown(read)).toEqual(whole);
		expect(result.bytes.includes(bytes)).toBe(true);
		await writing;
		fs.closeSync(fd);
	});

	test("is not mended in the middle", async () => {
		const { board, file, fd } = open();
		let written = false;
		const writing = trickle(fd, bytes, 6).then(() => {
			written = true;
		});
		while (!written) {
			await board.repair(file);
			await new Promise((resolve) => setTimeout(resolve, 10));
		}
		await writing;
		fs.closeSync(fd);
		expect(shown(await board.read(file))).toEqual(whole);
	});

	test("is there once when the Card was replaced in the middle", async () => {
		const { board, file, fd } = open();
		const writing = trickle(fd, bytes, 6);
		await board.edit(file, { title: "Title of an editor" });
		await writing;
		fs.closeSync(fd);
		expect(shown(await board.read(file))).toEqual(whole);
	});
});

test("a Card that is replaced all the while by a longer and a shorter one is read as one of them", async () => {
	const { board, file, card, env } = make();
	fs.appendFileSync(card, formatEntry({ id: "aaaaaaaa", type: "note", author: "bob", date: 0, text: Buffer.from("text") }));
	const reader = writer({ node: "reader", does: "read", file }, env);
	await begin([reader]);
	const bytes = fs.readFileSync(card).toString();
	const old = new Date(Date.now() - 60_000);
	for (let n = 0; n < 10_000 && lines([reader], "wrong").length === 0; n++) {
		const other = path.join(board.directory, ".locks", "x.new");
		fs.writeFileSync(other, bytes.replace("of nobody", `of ${"nobody ".repeat(1 + (n % 2))}`));
		fs.utimesSync(other, old, old);
		fs.renameSync(other, card);
		if (n % 50 === 0) await new Promise((resolve) => setImmediate(resolve));
	}
	reader.tell("end");
	expect(await reader.ended, reader.errors()).toBe(0);
	expect(lines([reader], "wrong")).toEqual([]);
});

test("Entries of up to 600 kB are whole while others edit and repair: no half of one is mended, moved or shown twice", async () => {
	const { env, board, file } = make();
	const writers = Array.from({ length: 6 }, (_, n) =>
		writer({ node: `node${n}`, does: "add", file, count: 20, size: 600_000, pause: 400 }, env),
	);
	const others = [
		writer({ node: "editor", does: "edit", file }, env),
		writer({ node: "mender", does: "repair", file }, env),
		writer({ node: "reader", does: "read", file }, env),
	];
	await begin([...writers, ...others]);
	for (const one of writers) expect(await one.ended, one.errors()).toBe(0);
	others[2]?.tell("end");
	expect(await others[2]?.ended, others[2]?.errors()).toBe(0);
	for (const one of others) one.kill("SIGTERM");
	for (const one of others) await one.ended;

	const added = lines(writers, "added").sort();
	expect(added.length).toBe(120);
	const { entries, warnings } = await board.read(file);
	expect([sums(entries), warnings]).toEqual([added, []]);
	expect(entries.flatMap(({ flaws }) => flaws)).toEqual([]);
	expect(others.flatMap(({ lines }) => lines.filter((line) => /^(wrong|repaired)/.test(line)))).toEqual([]);
});

/** Whether it is all of what writer.ts wrote. */
function isWhole(text: string): boolean {
	const [, length, checksum, filler = ""] = /^\S+ \d+ (\d+) (\d+)\n### k3f9q2ab · note · x · y\n(.*)$/.exec(text) ?? [];
	return filler.length === Number(length) && crc32(filler) === Number(checksum);
}

test("writers and editors that are killed at any moment lose nothing that was added, leave no half unmarked, and hold up nobody for more than 15 s", async () => {
	const delays: number[] = [];
	const seen = { torn: 0, left: 0 };
	/** One Card, on which its writers and its editor are killed again and again. */
	const lane = async (lane: number) => {
		const { env, board, file } = make();
		const adder = () => writer({ node: "adder", does: "add", file, size: 200_000, pause: 300 }, env);
		const editor = () => writer({ node: "editor", does: "edit", file }, env);
		const all: Actor[] = [];
		let [adders, editing] = [[adder(), adder(), adder()], editor()];
		for (let round = 0; round < 2; round++) {
			const fresh = [adder(), adder(), adder()];
			const next = editor();
			all.push(...adders, editing);
			if (round === 0) await begin([...adders, editing]);
			await until(() => lines(adders, "added").length > 5 && lines([editing], "edited").length > 0, "some progress");
			await until(() => next.lines.length > 0 && fresh.every(({ lines }) => lines.length > 0), "those who come after");
			// At any time, or when the Card is just being replaced.
			if (lane % 2 === 0) await until(() => ls(board.directory, ".locks").some((name) => name.endsWith(".old")), "a replacement");
			else await new Promise((resolve) => setTimeout(resolve, Math.random() * 400));
			for (const one of [...adders, editing]) one.kill("SIGKILL");
			const killed = performance.now();
			for (const one of [...adders, editing]) expect(await one.ended, one.errors()).toBe("SIGKILL");
			seen.left += ls(board.directory, ".locks").filter((name) => name.endsWith(".old")).length;
			[adders, editing] = [fresh, next];
			await begin([...adders, editing]);
			await until(() => editing.lines.includes("edited 0"), "the next edit");
			delays.push(performance.now() - killed);
		}
		all.push(...adders, editing);
		for (const one of [...adders, editing]) one.kill("SIGKILL");
		for (const one of [...adders, editing]) await one.ended;

		const added = lines(all, "added").sort();
		await until(
			async () => {
				const written = new Set(sums((await board.read(file)).entries));
				return added.every((line) => written.has(line));
			},
			"all that was added",
			15_000,
		);
		const { entries, warnings } = await board.read(file);
		expect(warnings).toEqual([]);
		const half = entries.filter(({ text, flaws }) => flaws.length === 0 && !isWhole(text.toString()));
		expect(half.map(({ raw }) => raw.toString().slice(0, 200))).toEqual([]);
		expect(entries.filter(({ flaws }) => flaws.includes("duplicate"))).toEqual([]);
		seen.torn += entries.filter(({ flaws }) => flaws.includes("torn")).length;
	};
	await Promise.all([lane(0), lane(1), lane(2), lane(3)]);
	expect(delays.length).toBe(8);
	for (const delay of delays) expect(delay).toBeLessThan(25_000); // 15 s for the lock, the rest for a machine that is busy
	expect(seen.left).toBeGreaterThan(0);
});

describe("an editor that was killed in the middle", () => {
	/** A Card whose editor was killed when it had just replaced it, or was about to. */
	async function killed() {
		const made = make();
		const editor = writer({ node: "editor", does: "edit", file: made.file }, made.env);
		await begin([editor]);
		await until(() => ls(made.board.directory, ".locks").some((name) => name.endsWith(".old")), "a replacement");
		editor.kill("SIGKILL");
		await editor.ended;
		expect(ls(made.board.directory, ".locks")).toContain(`${made.file}.old`);
		return { ...made, since: performance.now() };
	}

	test("is in the way of no add, show, list, watch or done", async () => {
		const { env, board, file, id, since } = await killed();
		const commands = [["add", id, "hello"], ["show", id], ["list"], ["rm", id], ["rm", id, "--undo"], ["done", id]];
		for (const words of commands) expect(await run([...cli, "board", ...words], { env })).toMatchObject({ code: 0 });
		expect(ls(board.directory, ".locks")).toContain(`${file}.old`); // the lock is not stale yet
		expect(performance.now() - since).toBeLessThan(10_000);
	});

	test("is in the way of a claim for 15 s at most", async () => {
		const { env, id, since } = await killed();
		const claiming = run([...cli, "board", "claim", id], { env });
		const late = new Promise((resolve) => setTimeout(resolve, 20_000 - (performance.now() - since))); // it begins and ends on a busy machine
		expect(await Promise.race([claiming, late])).toMatchObject({ code: 0 });
	});

	// Two take it for theirs, and one of them gives up.
	test("leaves a lock of which none fails who finds it stale at the same moment", async () => {
		const { env, board } = make();
		const cards = Array.from({ length: 8 }, () => board.create({ title: "x", author: "alice" }).file);
		const setters = Array.from({ length: 4 }, (_, n) => writer({ node: `node${n}`, does: "set" }, env));
		await until(() => setters.every(({ lines }) => lines[0] === "ready"), "all to be ready");
		const long = new Date(Date.now() - 20_000);
		for (let round = 0; round < 8; round++) {
			for (const card of cards) {
				fs.mkdirSync(path.join(board.directory, ".locks", `${card}.lock`));
				fs.utimesSync(path.join(board.directory, ".locks", `${card}.lock`), long, long);
			}
			for (const one of setters) one.tell({ cards, value: `${round}`, at: Date.now() + 50 });
			await until(() => setters.every(({ lines }) => lines.includes(`end ${round}`)), "all to have set theirs");
			expect(lines(setters, "failed")).toEqual([]);
			for (const card of cards) {
				const { front } = await board.read(card);
				expect(setters.map((_, n) => front.get(`node${n}`))).toEqual(setters.map(() => `${round}`));
			}
			expectNothingLeft(board);
		}
	});

	test("is cleared away by whoever comes next: what it left is added once, and all pass that waited, each with its own change", async () => {
		const { env, board, file, id } = await killed();
		const old = path.join(board.directory, ".locks", `${file}.old`);
		const entry = { id: "k3f9q2ab", type: "note", author: "bob", date: 0, text: Buffer.from("to the old one") };
		fs.appendFileSync(old, formatEntry(entry));
		const keys = Array.from({ length: 8 }, (_, n) => `key${n}`);
		const results = await Promise.all([
			...keys.map((key) => run([...cli, "board", "edit", id, "--set", `${key}=${key}`], { env })),
			run([...cli, "board", "add", id, "hello"], { env }),
		]);
		expect(results.map(({ code, err }) => [code, err])).toEqual(results.map(() => [0, ""]));
		const { front, entries } = await board.read(file);
		expect(keys.filter((key) => front.get(key) !== key)).toEqual([]);
		expect(entries.map(({ text }) => text.toString()).sort()).toEqual(["hello", "to the old one"]);
		expectNothingLeft(board);
	});

	test("or slept for longer than its lock, begins again when it wakes up after others, and takes nothing back", async () => {
		const { env, board, file, card } = make();
		const trace = path.join(tempDir(), "trace");
		const strace = ["strace", "-f", "-o", trace, "-e", "trace=rename", "-e", "inject=rename:delay_enter=14000000:when=1"];
		const late = run([...strace, ...cli, "board", "edit", file, "--title", "Title of one who slept"], { env });
		await until(() => fs.existsSync(trace) && fs.readFileSync(trace, "utf8").includes("rename("), "the one who sleeps");
		board.add(file, { author: "alice", text: "before" });
		expect(await run([...cli, "board", "edit", file, "--set", "key=value"], { env })).toMatchObject({ code: 0, err: "" });
		board.add(file, { author: "alice", text: "after" });
		expect((await late).code).toBe(0);
		const { front, entries, title } = await board.read(file);
		expect([title, front.get("key"), entries.map(({ text }) => text.toString())]).toEqual([
			"Title of one who slept",
			"value",
			["before", "after"],
		]);
		expect(fs.readFileSync(card, "utf8").split("before").length).toBe(2);
		expectNothingLeft(board);
	});
});

const refused = {
	cli: /^xfer: [^\n]+ \([^\n]+\)\n$/,
	dash: /(^|\n)xfer: [^\n]+ \([^\n]+\)\n$/,
	busybox: /(^|\n)xfer: [^\n]+ \([^\n]+\)\n$/,
};
const each = Object.entries(commands) as [keyof typeof commands, string[]][];

/** What readers see: the same Entries as before, and after them nothing, or what is marked as torn. */
async function expectMarked(board: Board, file: string, before: readonly string[], env: NodeJS.ProcessEnv): Promise<OpenCard["entries"]> {
	const { entries, warnings } = await board.read(file);
	expect(warnings).toEqual([]);
	expect(entries.slice(0, before.length).map(({ id }) => id)).toEqual(before);
	const rest = entries.slice(before.length);
	expect(rest.filter(({ flaws }) => !flaws.includes("torn")).map(({ raw }) => raw.toString())).toEqual([]);
	const shown = await run([...cli, "board", "show", file, "--json"], { env });
	expect([shown.code, shown.err]).toEqual([0, ""]);
	expect(JSON.parse(shown.out).entries.map(({ id }: { id: string }) => id)).toEqual(entries.map(({ id }) => id));
	return rest;
}

describe("a write that is cut short", () => {
	// A limit for the size of files lets a write end anywhere.
	test.each(each)("by %s is refused, what it left is marked, and what comes after it is whole", async (who, argv) => {
		const limit = 8192;
		for (const written of [1, 3, 5, 9, 16, 40, 60, 63, 70, 90, 104]) {
			const { env, board, file, card } = make();
			const entry = board.add(file, { author: "alice", text: "before" });
			fs.appendFileSync(card, `\n### ${"y".repeat(limit - written - fs.statSync(card).size - 6)}\n`);
			expect(fs.statSync(card).size).toBe(limit - written);
			const limited = ["dash", "-c", `ulimit -f ${limit / 512}; exec "$@"`, "dash", ...argv];
			const result = await run([...limited, "board", "add", file, "some text that is twenty-five"], { env });
			expect([written, result]).toEqual([written, { ...result, code: 1, out: "", err: expect.stringMatching(refused[who]) }]);
			const parts = parseCard(fs.readFileSync(card)).entries;
			expect(parts[0]?.id).toBe(entry.id);
			const left = parts.slice(1).filter(({ raw }) => !raw.toString().startsWith("### yyy"));
			for (const { flaws } of left) expect(flaws).toContain("torn");
			expect(await run([...argv, "board", "add", file, "afterwards"], { env })).toMatchObject({ code: 0, err: "" });
			const { entries } = await board.read(file);
			expect(entries.at(-1)?.text.toString()).toBe("afterwards");
			expect(entries.at(-1)?.flaws).toEqual([]);
			expect(fs.readFileSync(card).includes("yyy")).toBe(true);
		}
	});
});

const mounts: string[] = [];
afterEach(() => {
	for (const dir of mounts.splice(0)) {
		spawnSync("umount", ["-l", dir]);
		fs.rmdirSync(dir);
	}
});

describe.skipIf(process.getuid?.() !== 0)("on a disk that is full", () => {
	/** A Card with an Entry on a disk of its own. */
	function smallDisk(size: string) {
		const disk = fs.mkdtempSync(path.join(path.dirname(tempTree().home), "xfer-disk-"));
		mounts.push(disk);
		const { status, stderr } = spawnSync("mount", ["-t", "tmpfs", "-o", `size=${size}`, "tmpfs", disk]);
		if (status !== 0) throw new Error(`mount: ${stderr}`);
		const made = make(path.join(disk, "xfer"));
		const { id } = made.board.add(made.file, { author: "alice", text: "before" });
		const ballast = path.join(disk, "ballast");
		/** Leaves so many bytes free. */
		const fill = (free: number) => {
			fs.rmSync(ballast, { force: true });
			const { bavail, bsize } = fs.statfsSync(disk);
			fs.writeFileSync(ballast, Buffer.alloc(Math.max(0, bavail * bsize - free)));
		};
		return { ...made, before: [id], fill, room: () => fs.rmSync(ballast) };
	}

	test("an add that fills it in the middle is refused: the Card is readable, the torn Entry marked, and there is room for the next", async () => {
		const { env, board, file, before, fill, room } = smallDisk("1m");
		fill(16 * 1024);
		const input = "a line of some text\n".repeat(5000);
		const result = await run([...cli, "board", "add", file, "-"], { env, input });
		expect(result).toMatchObject({ code: 1, out: "", err: expect.stringMatching(refused.cli) });
		expect(result.err).toMatch(/ENOSPC: the disk is full: make room/);
		const torn = await expectMarked(board, file, before, env);
		expect(torn.length).toBe(1);
		expect(input.startsWith(torn[0]?.text.toString().replace(/[^\n]*$/, "") ?? "-")).toBe(true);
		expect(await run([...cli, "board", "list"], { env })).toMatchObject({ code: 0, err: "" });
		room();
		expect(await run([...cli, "board", "add", file, "-"], { env, input })).toMatchObject({ code: 0, err: "" });
		const { entries } = await board.read(file);
		expect(entries.map(({ text, flaws }) => [text.length, flaws])).toEqual([
			[6, []],
			[torn[0]?.text.length, ["torn"]],
			[input.length, []],
		]);
		expect(await run([...cli, "board", "repair"], { env })).toMatchObject({ code: 0, out: `repaired\t${file}\n` });
		expect((await board.read(file)).entries.flatMap(({ flaws }) => flaws)).toEqual([]);
	});

	test.each(each.slice(1))("an add by %s is refused, and the Card as good as before", async (who, argv) => {
		const { env, board, file, before, fill, room } = smallDisk("1m");
		fill(16 * 1024);
		const input = "a line of some text\n".repeat(5000);
		const result = await run([...argv, "board", "add", file, "-"], { env, input });
		expect(result).toMatchObject({ code: 1, out: "", err: expect.stringMatching(refused[who]) });
		await expectMarked(board, file, before, env);
		room();
		expect(await run([...argv, "board", "add", file, "-"], { env, input })).toMatchObject({ code: 0, err: "" });
	});

	test("new, edit, claim and done are refused, the Card and the Board stay as they were, and no lock is left", async () => {
		const { env, board, file, card, fill, room } = smallDisk("1m");
		fill(0);
		const { bsize } = fs.statfsSync(board.directory);
		fs.appendFileSync(card, " ".repeat(bsize - (fs.statSync(card).size % bsize))); // no room in its last block either
		const bytes = fs.readFileSync(card);
		for (const words of [
			["new", "Another"],
			["edit", file, "--title", "Title of an editor"],
			["claim", file],
			["done", file],
			["rm", file],
		]) {
			const result = await run([...cli, "board", ...words], { env });
			expect([words, result]).toEqual([words, { ...result, code: 1, out: "", err: expect.stringMatching(refused.cli) }]);
			expect(result.err).toContain("ENOSPC");
		}
		expect(fs.readFileSync(card).equals(bytes)).toBe(true);
		expect(ls(board.directory)).toEqual([".locks", file]);
		expectNothingLeft(board);
		room();
		expect(await run([...cli, "board", "edit", file, "--title", "Title of an editor"], { env })).toMatchObject({ code: 0, err: "" });
	});
});

/** Who has claims on a Card that have neither been released nor lost: at most one may. */
function claimants({ entries }: OpenCard): string[] {
	const claims = new Map<string, number>();
	for (const { type, author } of entries) {
		if (type === "claim") claims.set(author, (claims.get(author) ?? 0) + 1);
		if (type === "release") claims.delete(author);
	}
	return [...claims.keys()];
}

describe("of claims at once one holds", () => {
	/** Ten processes that claim what they are told. */
	async function claimers(env: NodeJS.ProcessEnv): Promise<{ claim: (file: string) => Promise<string[]> }> {
		const all = Array.from({ length: 10 }, (_, n) => writer({ node: `node${n}`, does: "claim" }, env));
		await until(() => all.every(({ lines }) => lines[0] === "ready"), "all to be ready");
		let round = 0;
		/** One round: the names of those who got it. */
		const claim = async (file: string) => {
			round++;
			for (const one of all) one.tell(file);
			await until(() => all.every(({ child, lines }) => lines.length > round || child.exitCode !== null), "all to have claimed");
			expect(all.map((one) => one.errors()).join("")).toBe("");
			return all.flatMap(({ lines }, n) => (lines[round] === `${file} claimed` ? [`node${n}`] : []));
		};
		return { claim };
	}

	test("of 10 in 200 rounds", async () => {
		const { env, board } = make();
		const { claim } = await claimers(env);
		for (let round = 0; round < 200; round++) {
			const { file } = board.create({ title: `Round ${round}`, author: "alice" });
			const winners = await claim(file);
			const card = await board.read(file);
			expect([winners.length, card.holder?.name, claimants(card)]).toEqual([1, winners[0], winners]);
		}
	});

	test("of 10 in 15 rounds while another replaces the file all the while; what is released can be claimed", async () => {
		const { env, board, file } = make();
		const { claim } = await claimers(env);
		const editor = writer({ node: "editor", does: "edit", file, pause: 50 }, env);
		await begin([editor]);
		const edits = () => lines([editor], "edited").length;
		for (let round = 0; round < 15 || edits() <= 3; round++) {
			const winners = await claim(file);
			await until(async () => claimants(await board.read(file)).length === 1, "the others' releases", 10_000);
			const card = await board.read(file);
			expect([winners, card.holder?.name]).toEqual([[card.holder?.name], winners[0]]);
			expect((await board.release(file, winners[0] ?? ""))?.type).toBe("release");
			await until(async () => (await board.read(file)).holder === undefined, "the release to be seen", 10_000);
		}
	});

	test("of 10 by CLI, dash and busybox in 8 rounds", async () => {
		const { env, board } = make();
		for (let round = 0; round < 8; round++) {
			const { file } = board.create({ title: `Round ${round}`, author: "alice" });
			const who = [...Array(4).fill(cli), ...Array(3).fill(sh("dash")), ...Array(3).fill(sh("busybox"))];
			const results: Result[] = await Promise.all(
				who.map((argv, n) => run([...argv, "board", "claim", file, "--as", `node${n}`], { env })),
			);
			const winners = results.flatMap(({ code }, n) => (code === 0 ? [`node${n}`] : []));
			const card = await board.read(file);
			expect([winners.length, card.holder?.name, claimants(card)]).toEqual([1, winners[0], winners]);
			for (const { code, out, err } of results) {
				if (code === 0) expect([out, err]).toEqual([expect.stringMatching(/^claimed\t[0-9a-z]{8}\tuntil \d{4}-[\dT:.-]+Z\n$/), ""]);
				else expect([code, out, err]).toEqual([5, "", expect.stringContaining(`${winners[0]} on `)]);
			}
		}
	});

	/** Alice claims what is just being replaced; then bob what took its place, before her Entry is brought over. */
	async function whileReplaced(argv: string[]) {
		const { env, board, file, card } = make();
		const locks = path.join(board.directory, ".locks");
		const old = path.join(locks, `${file}.old`);
		fs.mkdirSync(path.join(locks, `${file}.lock`));
		fs.linkSync(card, old);
		const before = fs.readFileSync(card);
		fs.writeFileSync(path.join(locks, "x.new"), before);
		const claims = () => [card, old].flatMap((file) => (fs.existsSync(file) ? parseCard(fs.readFileSync(file)).entries : []));
		const alice = run([...argv, "board", "claim", file, "--as", "alice"], { env });
		await until(() => claims().length > 0, "alice's claim");
		// Until she has ended, or waits.
		await Promise.race([alice, new Promise((resolve) => setTimeout(resolve, 500))]);
		fs.renameSync(path.join(locks, "x.new"), card);
		const bob = run([...cli, "board", "claim", file, "--as", "bob"], { env });
		await until(() => parseCard(fs.readFileSync(card)).entries.some(({ author }) => author === "bob"), "bob's claim");
		fs.appendFileSync(card, fs.readFileSync(old).subarray(before.length));
		fs.rmSync(old);
		fs.rmdirSync(path.join(locks, `${file}.lock`));
		const codes = [(await alice).code, (await bob).code];
		return { codes, holder: (await board.read(file)).holder?.name };
	}

	test("of two while the Card is being replaced", async () => {
		const { codes, holder } = await whileReplaced(cli);
		expect([codes, holder]).toEqual(holder === "alice" ? [[0, 5], holder] : [[5, 0], "bob"]);
	});

	test.each(each.slice(1))("of two while the Card is being replaced, one of them by %s", async (_, argv) => {
		const { codes, holder } = await whileReplaced(argv);
		expect([codes, holder]).toEqual(holder === "alice" ? [[0, 5], holder] : [[5, 0], "bob"]);
	});
});

test("20 Cards of one title made at once are 20 Cards", async () => {
	const { env, board } = make();
	const before = board.files();
	const who = [...Array(12).fill(cli), ...Array(4).fill(sh("dash")), ...Array(4).fill(sh("busybox"))];
	const results: Result[] = await Promise.all(
		who.map((argv, n) => run([...argv, "board", "new", "One title", `text ${n}`, "--as", `node${n}`], { env })),
	);
	const made = board.files().filter((file) => !before.includes(file));
	expect(results.map(({ code, err }) => [code, err])).toEqual(who.map(() => [0, ""]));
	expect(results.map(({ out }) => out).sort()).toEqual(
		made.map((file) => `${file.slice(-9, -3)}\t${path.join(board.directory, file)}\n`).sort(),
	);
	expect(made.length).toBe(20);
	const cards = await Promise.all(made.map((file) => board.read(file)));
	expect(new Set(cards.map(({ id }) => id)).size).toBe(20);
	for (const { title, createdBy, introduction, warnings } of cards)
		expect([title, createdBy, warnings]).toEqual(["One title", introduction.toString().trim().replace("text ", "node"), []]);
	expectNothingLeft(board);
});

describe.skipIf(spawnSync("strace", ["-V"]).status !== 0)("an add that is held up", () => {
	/** Runs an add of which the system call is held up for a while, and meanwhile another command. */
	async function heldUp(argv: string[], call: string, meanwhile: (made: ReturnType<typeof make>) => Promise<unknown>) {
		const made = make();
		const trace = path.join(tempDir(), "trace");
		const strace = ["strace", "-f", "-o", trace, "-P", made.card, "-e", `trace=${call}`, "-e", `inject=${call}:delay_enter=1500000:when=1`];
		const adding = run([...strace, ...argv, "board", "add", made.file, "held up", "--as", "bob"], {
			env: { ...made.env, XFER_DURABILITY: "" },
		});
		// strace writes the beginning of a call when it is entered.
		await until(() => fs.existsSync(trace) && fs.readFileSync(trace, "utf8").includes(`${call}(`), "the call");
		await meanwhile(made);
		return { ...made, result: await adding };
	}

	test.each(each)("before it writes, by %s, finds that the Card was replaced, and adds to the one that is there, once", async (_, argv) => {
		const { result, board, file, card } = await heldUp(argv, "write", async ({ env, file }) => {
			expect(await run([...cli, "board", "edit", file, "--title", "Title of cli"], { env })).toMatchObject({ code: 0 });
		});
		expect(result).toMatchObject({ code: 0, err: "" });
		const [, id] = result.out.split("\t");
		const { entries, title } = await board.read(file);
		expect([title, entries.map(({ id, text, flaws }) => [id, text.toString(), flaws])]).toEqual(["Title of cli", [[id, "held up", []]]]);
		expect(fs.readFileSync(card, "utf8").split("held up").length).toBe(2);
	});

	test.each(each)("before it writes, by %s, finds that the Card was deleted, and says so", async (_, argv) => {
		const { result, board } = await heldUp(argv, "write", async ({ env, file }) => {
			expect(await run([...cli, "board", "rm", file, "--purge", "--yes"], { env })).toMatchObject({ code: 0 });
		});
		expect(result).toMatchObject({ code: 3, out: "", err: expect.stringMatching(/^xfer: [^\n]+\n$/) });
		expect(board.files()).toEqual([]);
	});
});

describe("a command that is killed", () => {
	/** Runs it so often, and kills it and all that it has started at any moment of its life. How many of them have ended by themselves. */
	async function killing(
		count: number,
		argv: string[],
		options: { env: NodeJS.ProcessEnv; input: Buffer },
		look: () => Promise<void>,
	): Promise<number> {
		const began = performance.now();
		expect(await run(argv, options)).toMatchObject({ code: 0 });
		const life = performance.now() - began;
		let ended = 1;
		for (let n = 0; n < count; n++) {
			const child = start(argv, { env: options.env, stdio: ["pipe", "ignore", "pipe"], detached: true });
			child.stdin?.on("error", () => {}); // killed before it has read all
			child.stdin?.end(options.input);
			const { pid = 0 } = child;
			const timer = setTimeout(() => child.exitCode === null && process.kill(n % 2 ? -pid : pid, "SIGKILL"), Math.random() * life * 1.2);
			const code = await new Promise((resolve) => child.on("close", resolve)); // also of what it has started: they hold its output
			clearTimeout(timer);
			if (code === 0) ended++;
			await look();
		}
		return ended;
	}
	const input = Buffer.from("a line of some text\n".repeat(50_000));

	test.each(each)("add by %s leaves the Entry whole, a beginning that is marked, or nothing", async (_, argv) => {
		const { env, board, file } = make();
		const options = { env: { ...env, XFER_NODE: "bob" }, input };
		let whole = 0;
		const ended = await killing(25, [...argv, "board", "add", file, "-"], options, async () => {
			const { entries, warnings } = await board.read(file);
			expect(warnings).toEqual([]);
			const good = entries.filter(({ flaws }) => flaws.length === 0);
			expect(good.filter(({ text, author }) => !text.equals(input) || author !== "bob").length).toBe(0);
			for (const { flaws } of entries.filter((entry) => !good.includes(entry))) expect(flaws).toContain("torn");
			whole = good.length;
		});
		expect(whole).toBeGreaterThanOrEqual(ended);
	});

	test.each(each)("new by %s leaves the Card whole, or none", async (_, argv) => {
		const { env, board } = make();
		const before = board.files().length;
		const ended = await killing(25, [...argv, "board", "new", "Killed", "-", "--as", "bob"], { env, input }, async () => {
			for (const file of board.files().filter((name) => name.startsWith("killed"))) {
				const { introduction, createdBy, warnings } = await board.read(file);
				expect([introduction.equals(input.subarray(0, -1)), createdBy, warnings]).toEqual([true, "bob", []]);
			}
		});
		expect(board.files().length - before).toBeGreaterThanOrEqual(ended);
	});

	test("edit leaves the old Card or the new one", async () => {
		const { env, board, file, card } = make();
		const { id } = board.add(file, { author: "alice", text: input });
		const sleeping = fs.readFileSync(card);
		let n = 0;
		for (let round = 0; round < 10; round++) {
			const child = start([...cli, "board", "edit", file, "--title", `Title of ${n++}`], { env, stdio: "ignore" });
			const timer = setTimeout(() => child.kill("SIGKILL"), Math.random() * 300);
			await new Promise((resolve) => child.on("close", resolve));
			clearTimeout(timer);
			const bytes = fs.readFileSync(card);
			const title = /^title: (.*)$/m.exec(bytes.subarray(0, 500).toString())?.[1] ?? "";
			expect(title).toMatch(/^Title of (nobody|\d+)$/);
			expect(bytes.toString()).toBe(sleeping.toString().replace("Title of nobody", title));
			fs.rmSync(path.join(board.directory, ".locks"), { recursive: true, force: true }); // as if the lock had become stale
		}
		expect((await board.read(file)).entries.map((entry) => [entry.id, entry.text.length, entry.flaws])).toEqual([[id, input.length, []]]);
	});
});

test("a Card that is deleted while others add, edit and claim is gone: they are told so, and none makes it anew", async () => {
	const { env, board } = make();
	for (let round = 0; round < 5; round++) {
		const { file } = board.create({ title: "Gone", author: "alice" });
		const commands = [cli, sh("dash"), sh("busybox")].flatMap((argv) => [
			[...argv, "board", "add", file, "hello"],
			[...argv, "board", "claim", file, "--as", "bob"],
			[...argv, "board", "done", file, "--as", "carol"],
		]);
		commands.push([...cli, "board", "edit", file, "--title", "x"], [...cli, "board", "repair", file], [...cli, "board", "rm", file]);
		const running = commands.map((argv) => run(argv, { env }));
		await new Promise((resolve) => setTimeout(resolve, Math.random() * 100));
		expect(await run([...cli, "board", "rm", file, "--purge", "--yes"], { env })).toMatchObject({ code: 0, err: "" });
		for (const [n, { code, err }] of (await Promise.all(running)).entries()) {
			if (code === 3) expect(err).toMatch(/^xfer: [^\n]+\n$/);
			else expect([commands[n], code, err]).toEqual([commands[n], expect.toBeOneOf([0, 5]), expect.anything()]);
		}
		expect(board.files()).not.toContain(file);
		expectNothingLeft(board);
	}
});

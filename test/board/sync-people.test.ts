/** People on two machines do what they like, in any order: at the end both Boards are the same, and nothing is lost. */
import fs from "node:fs";
import path from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { initBoard, parseCard, XferError } from "../../lib/index.ts";
import { cardsOf, expectSame, type Machine, machine, remote, settle, withGit } from "../machine.ts";

withGit();

const code = Array.from({ length: 30 }, (_, n) => `\t\tif (line[${n}] === undefined) return { value: ${n} };`).join("\n");
/** What Entries hold; each gets a mark of its own at its end. */
const texts = [
	"short",
	"two\nlines\n",
	code,
	`${code}\n\n${code}\n`,
	"### k3f9q2ab · note · a · 2026-11-30T12:00:00.000Z\n\n<!-- k3f9q2ab -->\n---\n",
	"<<<<<<< HEAD\nours\n=======\ntheirs\n>>>>>>> there\n",
	"\\### x\n\\\\<!-- k3f9q2ab -->\n\\<<<<<<< \\\n",
	"carriage\r\nreturns\r\n",
	"\x1b[2J\x00\x07 \u202e @alice $& $1\n\n\n",
];
/** Titles of which files are alike but for their id. */
const titles = ["Cache layer", "Cache layer", "Flaky tests"];

/** Mostly one of the first two Cards, so that people meet. */
const card = fc.oneof({ weight: 5, arbitrary: fc.nat(1) }, { weight: 1, arbitrary: fc.nat(7) });
const who = fc.nat(2);

/** What somebody does by himself. */
const act: fc.Arbitrary<Step> = fc.oneof(
	{ weight: 2, arbitrary: fc.record({ do: fc.constant("new"), who, which: fc.nat(2) }) },
	{ weight: 5, arbitrary: fc.record({ do: fc.constant("add"), who, card, which: fc.nat(texts.length - 1) }) },
	{ weight: 6, arbitrary: fc.record({ do: fc.constantFrom("edit", "rewrite"), who, card, which: fc.nat(1) }) },
	{ weight: 3, arbitrary: fc.record({ do: fc.constantFrom("type", "tear"), who, card }) },
	{ weight: 3, arbitrary: fc.record({ do: fc.constantFrom("claim", "release", "done", "remove", "restore", "repair"), who, card }) },
	{ weight: 3, arbitrary: fc.record({ do: fc.constantFrom("amend", "amend", "dos"), who, card }) },
	{ weight: 1, arbitrary: fc.record({ do: fc.constantFrom("purge", "rename"), who, card }) },
);
/** How machines meet. */
const meet: fc.Arbitrary<Step> = fc.record({ do: fc.constantFrom("sync", "sync", "pull", "cross"), who });
/** Two on two machines change the same. */
const clash = fc
	.record({ do: fc.constantFrom("edit", "rewrite", "amend", "amend"), card: fc.nat(1), which: fc.nat(1) })
	.map((same): Step[] => [0, 2].map((who) => ({ ...same, who })));
const round = fc
	.tuple(fc.array(act, { minLength: 3, maxLength: 8, size: "max" }), clash, meet, meet)
	.map(([acts, clashes, ...meets]) => [...acts, ...clashes, ...meets]);

interface Step {
	readonly do: string;
	readonly who: number;
	readonly card?: number;
	readonly which?: number;
}

/** What somebody wrote, and has to be found in the end. */
interface Written {
	readonly mark: string;
	/** The file of its Card. */
	readonly file: string;
	/** Id of the Entry, and its text. */
	readonly entry?: { id: string; text: string };
	/** It was overwritten or deleted by somebody who saw it. */
	gone: boolean;
}

async function play({ steps, skew, cloned }: { steps: Step[]; skew: number; cloned: boolean }): Promise<void> {
	let time = Date.parse("2026-11-30T12:00:00Z");
	const options = (number: number, ahead: number) => {
		let count = 0;
		return {
			clock: () => time + ahead,
			random: () => {
				count++;
				return Uint8Array.of(count & 255, count >> 8, number, count & 255, count >> 8);
			},
		};
	};
	const [one, two] = [machine("one", options(1, 0)), machine("two", options(2, skew))];
	const url = await remote();
	await initBoard(one.board, url);
	if (cloned) {
		await one.sync();
		fs.mkdirSync(two.directory, { recursive: true });
		await two.ask("clone", "--quiet", url, ".");
	}
	await initBoard(two.board, url);
	const people = [
		{ name: "alice", at: one },
		{ name: "bob", at: one },
		{ name: "carol", at: two },
	] as const;
	const written: Written[] = [];
	const wrote = (file: string, entry?: Written["entry"], mark = `mark${written.length}.`) => {
		written.push({ mark, file, ...(entry && { entry }), gone: false });
		return mark;
	};
	const nextMark = () => `mark${written.length}.`;

	const first: Step[] = [
		{ do: "new", who: 0, which: 0 },
		{ do: "new", who: 0, which: 2 },
		{ do: "sync", who: 0 },
		{ do: "sync", who: 2 },
		{ do: "sync", who: 0 },
	];
	for (const it of [...first, ...steps]) {
		time += 1000;
		const { name, at } = people[it.who] ?? people[0];
		if (it.do === "sync") {
			await at.sync(name);
			continue;
		}
		if (it.do === "pull") {
			await pull(at);
			continue;
		}
		if (it.do === "cross") {
			await cross(one, two);
			continue;
		}
		if (it.do === "new") {
			const mark = nextMark();
			const { file } = at.board.create({ title: titles[it.which ?? 0] ?? "", author: name, text: `Introduction\n${mark}\n` });
			wrote(file);
			continue;
		}
		const files = at.board.files();
		const file = files[(it.card ?? 0) % files.length];
		if (file === undefined) continue;
		const before = at.read(file);
		try {
			switch (it.do) {
				case "add": {
					const text = `${texts[it.which ?? 0]}${nextMark()}`;
					const { id } = at.board.add(file, { author: name, text });
					wrote(file, { id, text: Buffer.from(text).toString("latin1") });
					break;
				}
				case "edit": {
					const key = ["title", "owner", "area"][it.which ?? 0] ?? "title";
					const mark = nextMark();
					await at.board.edit(file, { [key]: mark });
					const value = new RegExp(`^${key}: (mark\\d+\\.)\\r?$`, "m").exec(before)?.[1];
					for (const each of written) if (each.mark === value) each.gone = true;
					wrote(file);
					break;
				}
				case "rewrite": {
					// The introduction, in an editor.
					const value = /^Introduction\r?\n(mark\d+\.)\r?$/m.exec(before)?.[1];
					if (value === undefined) break;
					at.write(file, before.replace(value, nextMark()));
					for (const each of written) if (each.mark === value) each.gone = true;
					wrote(file);
					break;
				}
				case "amend": {
					// An Entry of somebody, in an editor.
					const value = written.find(({ entry, mark }) => entry && before.includes(mark));
					if (!value) break;
					at.write(file, before.replaceAll(value.mark, nextMark()));
					value.gone = true;
					wrote(file);
					break;
				}
				case "dos":
					// An editor that ends all lines its own way.
					at.write(file, before.replace(/(?<!\r)\n/g, "\r\n"));
					break;
				case "type":
					fs.appendFileSync(path.join(at.directory, file), `\n### finding · ${name}\n\ntyped by hand\n${nextMark()}\n`);
					wrote(file);
					break;
				case "tear":
					fs.appendFileSync(
						path.join(at.directory, file),
						`\n### tttttt${String(10 + (written.length % 90))} · note · ${name} · ${new Date(time).toISOString()}\n\ntorn ${nextMark()}`,
					);
					wrote(file);
					break;
				case "claim":
					await at.board.claim(file, name, 5000);
					break;
				case "release":
					await at.board.release(file, name);
					break;
				case "done": {
					const text = nextMark();
					const { id } = await at.board.done(file, { author: name, text });
					wrote(file, { id, text });
					break;
				}
				case "remove":
				case "restore":
					await at.board.remove(file, name, it.do === "remove");
					break;
				case "repair":
					await at.board.repair(file);
					break;
				case "purge":
					await at.board.purge(file);
					for (const each of written) if (before.includes(each.mark)) each.gone = true;
					break;
				case "rename":
					fs.renameSync(path.join(at.directory, file), path.join(at.directory, `moved-${time % 1e6}-${file}`));
					break;
			}
		} catch (error) {
			if (!(error instanceof XferError) || error.code !== "EHELD") throw error;
		}
	}

	await settle(one, two);
	await expectSame(one, two);
	const cards = cardsOf(one);
	const all = Object.values(cards).join("\n");
	for (const each of written) {
		if (each.gone) continue;
		expect(all).toContain(each.mark);
		const { entry } = each;
		if (!entry) continue;
		const found = Object.values(cards).flatMap((card) =>
			parseCard(Buffer.from(card, "latin1")).entries.filter(({ id }) => id === entry.id),
		);
		expect(found.length, entry.id).toBeGreaterThan(0);
		for (const { text } of found) expect(unix(text.toString("latin1"))).toBe(unix(entry.text));
	}
	// Nothing is there twice, and nothing of git's is left in a Card.
	for (const [file, card] of Object.entries(cards)) {
		for (const { mark, entry } of written) if (entry) expect(card.split(mark).length, `${mark} in ${file}`).toBeLessThanOrEqual(2);
		expect(parseCard(Buffer.from(card, "latin1")).warnings).toEqual([]);
	}
}

/** Without what an editor may have done to its line ends. */
function unix(text: string): string {
	return text.replace(/\r\n/g, "\n");
}

/** What a person does who knows git and not us: with the merge driver that `init` registered. */
async function pull(at: Machine): Promise<void> {
	await at.git("add", "--all");
	await at.git("commit", "--quiet", "-m", "mine");
	const pulled = await at.git("pull", "--quiet", "--no-rebase", "--no-edit", "origin", "main");
	if (pulled.code === 0) await at.git("push", "--quiet", "origin", "HEAD:main");
}

/** Each merges what the other had: A into B and B into A, which are the same. */
async function cross(one: Machine, two: Machine): Promise<void> {
	const heads: string[] = [];
	for (const at of [one, two]) {
		await at.git("add", "--all");
		await at.git("commit", "--quiet", "-m", "mine");
		heads.push((await at.git("rev-parse", "HEAD")).out.trim());
	}
	const merged: boolean[] = [];
	for (const [at, other, head] of [
		[one, two, heads[1]],
		[two, one, heads[0]],
	] as const) {
		if (head === undefined || (await at.git("fetch", "--quiet", other.directory, head)).code !== 0) return;
		merged.push((await at.git("merge", "--quiet", "--no-edit", head)).code === 0);
	}
	expect(merged[0]).toBe(merged[1]);
	if (merged[0]) expect(await two.ask("rev-parse", "HEAD^{tree}")).toBe(await one.ask("rev-parse", "HEAD^{tree}"));
}

test("whatever three people do on two machines, by sync and by git, both Boards become the same and nothing is lost", async () => {
	await fc.assert(
		fc.asyncProperty(
			fc.record({
				steps: fc.array(round, { minLength: 4, maxLength: 7, size: "max" }).map((rounds) => rounds.flat()),
				skew: fc.constantFrom(0, 0, 3500, -3500),
				cloned: fc.boolean(),
			}),
			play,
		),
		{
			numRuns: Number(process.env.XFER_TEST_RUNS) || 8,
			endOnFailure: true,
			...(process.env.XFER_TEST_SEED && { seed: Number(process.env.XFER_TEST_SEED) }),
		},
	);
});

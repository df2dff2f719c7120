#!/usr/bin/env node
// Holds an implementation, given as a command, against the vectors and a set of scenarios. See README.md.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { runCase } from "./process.mjs";
import { scenarios } from "./scenario.mjs";
import "./scenarios-board.mjs";
import "./scenarios-sending.mjs";
import "./scenarios-taking.mjs";
import "./scenarios-tree.mjs";
import { vectors } from "./vectors.mjs";

const USAGE = `usage: node run.mjs [--without FEATURE,…] [--only TEXT] [--with "SECOND COMMAND"] [--jobs N] -- COMMAND [ARG…]`;

function usage(why) {
	process.stderr.write(`${why}\n${USAGE}\n`);
	process.exit(2);
}

/** Cases run in directories of their own: a file among the words of a command is named from here. */
function command(words) {
	return words.map((word) => (word.includes("/") && fs.existsSync(word) ? path.resolve(word) : word));
}

function options() {
	try {
		return parseArgs({
			allowPositionals: true,
			options: {
				without: { type: "string", multiple: true },
				only: { type: "string" },
				with: { type: "string" },
				jobs: { type: "string" },
			},
		});
	} catch (error) {
		usage(error.message);
	}
}

const { values, positionals } = options();
if (positionals.length === 0) usage("no command given");
const without = new Set((values.without ?? []).flatMap((text) => text.split(",")));
const first = command(positionals);
const second = values.with === undefined ? undefined : command(values.with.split(/\s+/).filter(Boolean));
const jobs = Number(values.jobs ?? os.availableParallelism());
if (!(jobs >= 1)) usage("--jobs takes a number");

const cases = second
	? scenarios.flatMap((one) => [
			{ ...one, name: `${one.name} (first sends)`, sender: first, taker: second },
			{ ...one, name: `${one.name} (second sends)`, sender: second, taker: first },
		])
	: [...vectors(), ...scenarios].map((one) => ({ ...one, sender: first, taker: first }));
const chosen = cases.filter((one) => one.name.includes(values.only ?? ""));

process.umask(0o022); // a usual one, so that modes are seen to be chosen
const count = { ok: 0, "not ok": 0, skip: 0 };
const report = (word, name, why) => {
	count[word]++;
	console.log(visible(`${word} ${name}${why ? `: ${why.replace(/\s*\n\s*/g, " | ")}` : ""}`));
};

/** One line, and nothing in it that a terminal obeys: cases are made of such things. */
function visible(text) {
	return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (char) => `\\u${char.codePointAt(0).toString(16).padStart(4, "0")}`);
}

async function worker() {
	for (let one = chosen.shift(); one; one = chosen.shift()) {
		const missing = (one.needs ?? []).filter((feature) => without.has(feature));
		if (missing.length > 0) {
			report("skip", one.name, `needs ${missing.join(", ")}`);
			continue;
		}
		const why = await runCase(one, { quoting: !without.has("quoting") });
		report(why === undefined ? "ok" : "not ok", one.name, why);
	}
}

await Promise.all(Array.from({ length: jobs }, worker));
console.log(`${count.ok} passed, ${count["not ok"]} failed, ${count.skip} skipped`);
process.exitCode = count["not ok"] > 0 || count.ok + count.skip === 0 ? 1 : 0;

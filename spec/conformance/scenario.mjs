// What the scenarios have in common. `t.send` runs the sending implementation, `t.take` the taking one.
import fs from "node:fs";
import { checkWritten } from "./handoff.mjs";

export const scenarios = [];

export function scenario(name, run, needs = []) {
	scenarios.push({ name: `scenario ${name}`, needs, run });
}

export function check(condition, why) {
	if (!condition) throw new Error(why);
}

export function equal(is, expected, what) {
	const [a, b] = [JSON.stringify(is), JSON.stringify(expected)];
	check(a === b, `${what} is ${a?.slice(0, 300)}, not ${b?.slice(0, 300)}`);
}

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
export const I1 = "1700000001.M000001Raaaaaaa1.h";
export const I2 = "1700000002.M000002Raaaaaaa2.h";
export const handoff = (fields, body = "body\n") =>
	`---\n${Object.entries(fields)
		.map(([key, value]) => `${key}: ${value}\n`)
		.join("")}---\n${body}`;
export const ONE = handoff({ from: "bob", to: "alice", kind: "task", subject: "one" });
export const asAlice = (...args) => [...args, "--as", "alice"];
export const asBob = (...args) => [...args, "--as", "bob"];

/** The Nodes alice and bob, made by the implementations themselves. */
export async function nodes(t) {
	await t.take(["join", "alice"]);
	await t.send(["join", "bob"]);
}

/** The id in the line that `send` and `reply` print. */
export function idIn(text) {
	const [line, ...more] = text.trimEnd().split("\n");
	const [, id] = /^queued for [a-z0-9._-]+ \(.+\)\t(\S+)$/.exec(line) ?? [];
	check(id && more.length === 0, `send prints ${JSON.stringify(text)}`);
	return id;
}

export const sendAlice = async (t, args, options) => idIn((await t.send(asBob("send", "alice", ...args), options)).text);

/** A Handoff in the tree, by its directory: its header and body as they were written. */
export const written = (t, ...file) => checkWritten(fs.readFileSync(t.path("nodes", ...file)), t.options);

/** The rows that `inbox` prints. */
export async function rows(t, args = []) {
	const { text } = await t.take(asAlice("inbox", ...args), { exit: [0, 3] });
	return text
		.split("\n")
		.slice(0, -1)
		.map((line) => line.split("\t"));
}

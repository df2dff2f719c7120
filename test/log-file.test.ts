/** The log of an Adapter Daemon. */
import fs from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { openTree } from "../lib/index.ts";
import { LogFile, logFiles } from "../lib/log-file.ts";
import { ls, tempDir, tempTree } from "./helpers.ts";

const context = { now: () => Date.UTC(2026, 10, 30) };

test("has a line of date and visible text for each thing, and is for its owner only", () => {
	const file = path.join(tempDir(), "adapter.log");
	const log = new LogFile(context, file);
	log.write("one");
	log.write("two\nlines \u001b[2J");
	expect(fs.readFileSync(file, "utf8")).toBe("2026-11-30T00:00:00.000Z one\n2026-11-30T00:00:00.000Z two\\x0alines \\x1b[2J\n");
	expect(fs.statSync(file).mode & 0o777).toBe(0o600);
	expect([log.last("one"), log.last("three")]).toEqual(["one", undefined]);
});

test("begins anew at 1 MiB and keeps one former", () => {
	const dir = tempDir();
	const log = new LogFile(context, path.join(dir, "adapter.log"));
	for (let n = 0; n < 2500; n++) log.write(`${n} ${"x".repeat(1000)}`);
	expect(ls(dir)).toEqual(["adapter.log", "adapter.log.1"]);
	for (const name of ls(dir)) expect(fs.statSync(path.join(dir, name)).size).toBeLessThan(1.1 * 1024 * 1024);
	expect(logFiles(dir)).toEqual(ls(dir));
	expect([log.last("2499 "), log.last("1500 ")].map((line) => line?.split(" ")[0])).toEqual(["2499", "1500"]);
});

test("that can't be written stops nobody, and no symlink or FIFO leads it elsewhere", () => {
	const dir = tempDir();
	new LogFile(context, path.join(dir, "missing/adapter.log")).write("x");
	fs.symlinkSync("elsewhere", path.join(dir, "adapter.log"));
	new LogFile(context, path.join(dir, "adapter.log")).write("x");
	expect(ls(dir)).toEqual(["adapter.log"]);
});

test("goes with its Node", () => {
	const { root } = tempTree();
	const tree = openTree({ root, durable: false });
	const { directory } = tree.join("ci");
	for (const name of ["adapter.log", "adapter.log.1"]) fs.writeFileSync(path.join(directory, name), "x");
	tree.leave("ci");
	expect(fs.existsSync(directory)).toBe(false);
});

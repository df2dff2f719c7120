import fs from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { field, parseFileName, shortId } from "../lib/filename.ts";
import { cli, project, run, sh, tempTree } from "./helpers.ts";

async function conformance(...args: string[]) {
	const { env } = tempTree();
	const { code, out, err } = await run([process.execPath, path.join(project, "spec/conformance/run.mjs"), ...args], { env });
	const failed = out.split("\n").filter((line) => line.startsWith("not ok"));
	expect(failed.join("\n") + err).toBe("");
	expect(out).toMatch(/\n\d{2,} passed, 0 failed, \d+ skipped\n$/);
	expect(code).toBe(0);
}

test("the command line conforms", () => conformance("--", ...cli));
test("spec/xfer.sh conforms under dash", () => conformance("--without", "quoting,cards", "--", ...sh("dash")));
test("spec/xfer.sh conforms under busybox", () => conformance("--without", "quoting,cards", "--", ...sh("busybox")));
test("one sends and the other takes, both ways", () =>
	conformance("--without", "quoting,cards", "--with", sh("dash").join(" "), "--", ...cli));

const vectors = <T>(name: string): T[] => JSON.parse(fs.readFileSync(path.join(project, "spec/vectors", name), "utf8"));

test("there are at least 150 vectors, each with a name of its own", () => {
	const names = fs
		.readdirSync(path.join(project, "spec/vectors"))
		.flatMap((file) => vectors<{ name: string }>(file).map(({ name }) => `${file} ${name}`));
	expect(names.length).toBeGreaterThanOrEqual(150);
	expect(new Set(names).size).toBe(names.length);
});

test("the library reads the fields and flags of file names as the vectors say", () => {
	for (const { file, ignored, id, short, fields, flags } of vectors<{
		file: string;
		ignored?: true;
		id: string;
		short: string;
		fields: Record<string, string>;
		flags: string;
	}>("ids.json")) {
		if (ignored) continue;
		const parsed = parseFileName(path.basename(file));
		expect({ file, id: parsed.id, short: shortId(parsed.id), flags: parsed.flags }).toEqual({ file, id, short, flags });
		for (const [key, value] of Object.entries(fields)) expect([file, key, field(parsed, key) ?? ""]).toEqual([file, key, value]);
	}
});

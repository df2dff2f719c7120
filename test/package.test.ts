import fs from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { project, run, tempDir, tempTree } from "./helpers.ts";

test("the packed package holds nothing unneeded, installs into an empty prefix, and works from any directory, with its types", async () => {
	const dir = tempDir();
	const { env } = tempTree();
	const npm = { ...process.env, ...env, npm_config_update_notifier: "false" };
	const packed = await run(["npm", "pack", "--ignore-scripts", "--json", "--pack-destination", dir], { env: npm, cwd: project });
	expect(packed.err).not.toMatch(/ERR/);
	const files = (await run(["tar", "-tzf", path.join(dir, "xfer-0.1.0.tgz")], { env })).out.trim().split("\n");
	expect(files).toContain("package/dist/bin/xfer.cjs");
	expect(files).toContain("package/dist/lib/index.d.ts");
	expect(files).toContain("package/spec/protocol.md");
	expect(files).toContain("package/spec/xfer.sh");
	expect(files).toContain("package/extension/index.ts"); // pi loads these as they are
	expect(files).toContain("package/lib/tree.ts");
	for (const file of files) expect(file).not.toMatch(/\.map$|\.test\.|package\/test|tsconfig|biome|\.ci|package\/bin\//);

	const prefix = path.join(dir, "prefix");
	const installed = await run(["npm", "install", "--global", "--prefix", prefix, path.join(dir, "xfer-0.1.0.tgz")], { env: npm, cwd: dir });
	expect(installed.code, installed.err).toBe(0);
	const xfer = path.join(prefix, "bin/xfer");
	expect((await run([xfer, "join", "alice"], { env, cwd: "/" })).out).toMatch(/alice is here/);
	expect((await run([xfer, "send", "alice", "hello"], { env, cwd: "/tmp" })).code).toBe(0);
	expect((await run([xfer, "read", "--as", "alice"], { env, cwd: dir })).out).toMatch(/hello$/);
	expect((await run([xfer, "--help"], { env, cwd: "/" })).out).toMatch(/xfer send alice/);

	const user = path.join(dir, "user");
	fs.mkdirSync(path.join(user, "node_modules"), { recursive: true });
	fs.symlinkSync(path.join(prefix, "lib/node_modules/xfer"), path.join(user, "node_modules/xfer"));
	fs.writeFileSync(path.join(user, "package.json"), '{"type":"module"}');
	fs.writeFileSync(
		path.join(user, "use.ts"),
		`import { openTree, type Taken } from "xfer";
const tree = openTree();
tree.send({ from: "bob", to: ["alice"], body: "typed" });
const taken: Taken | undefined = tree.node("alice").inbox.take();
console.log(taken?.handoff.from, taken?.body.toString());
taken?.done();
`,
	);
	const checked = await run(
		[
			path.join(project, "node_modules/.bin/tsc"),
			"--noEmit",
			"--strict",
			"--module",
			"nodenext",
			"--types",
			"node",
			"--typeRoots",
			path.join(project, "node_modules/@types"),
			"use.ts",
		],
		{ env, cwd: user },
	);
	expect(checked.out).toBe("");
	expect((await run([process.execPath, "use.ts"], { env, cwd: user })).out).toBe("bob typed\n");
});

/** What the hooks of a session keep. */
import fs from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { numberOn, setSlip } from "../../lib/desk.ts";
import { ls, run, tempDir, until } from "../helpers.ts";

test("many hooks that are the first to keep something all keep it", async () => {
	const node = tempDir();
	const module = path.resolve(import.meta.dirname, "../../lib/desk.ts");
	const program = `import fs from "node:fs";
import { setSlip } from ${JSON.stringify(module)};
fs.writeFileSync("${node}/ready." + process.pid, "");
while (!fs.existsSync("${node}/go"));
for (let n = 0; n < 200; n++) setSlip(\`${node}/\${n}\`, "stops", n);`;
	for (let n = 0; n < 200; n++) fs.mkdirSync(path.join(node, String(n)));
	const writers = Array.from({ length: 4 }, () => run([process.execPath, "--input-type=module", "-e", program], { env: process.env }));
	await until(() => ls(node).filter((name) => name.startsWith("ready.")).length === writers.length);
	fs.writeFileSync(path.join(node, "go"), "");
	for (const { code, err } of await Promise.all(writers)) expect({ code, err: err.includes("EEXIST") }).toEqual({ code: 0, err: false });
	expect(numberOn(path.join(node, "7"), "stops")).toBe(7);
});

test("nothing is made for a Node that has gone", () => {
	const node = path.join(tempDir(), "gone");
	expect(() => setSlip(node, "stops", 1)).toThrow("ENOENT");
	expect(fs.existsSync(node)).toBe(false);
});

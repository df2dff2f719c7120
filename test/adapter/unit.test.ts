/** What runs an Adapter Daemon for good: a systemd user unit, a launchd agent. */
import { execFileSync, spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { launchdPlist, systemdUnit } from "../../lib/adapter/unit.ts";
import { cli, project, run, tempDir, tempTree } from "../helpers.ts";

const strange = `a "b" \\c $HOME \${X} 100% 'd' ; \t\n end`;
const unit = (cwd: string, argv: string[]) => ({ node: "ci", argv, cwd, env: { XFER_HOME: "/x y%/$z", PATH: "/bin" }, stop: 610 });

const verifies = spawnSync("systemd-analyze", ["--version"]).status === 0;

describe("for systemd", () => {
	test.skipIf(!verifies)("is what systemd accepts", () => {
		const dir = tempDir();
		const file = path.join(dir, "xfer-ci.service");
		fs.writeFileSync(file, systemdUnit(unit(dir, [process.execPath, strange])));
		const { status, stderr } = spawnSync("systemd-analyze", ["--user", "verify", file], {
			env: { PATH: process.env.PATH, HOME: dir, XDG_RUNTIME_DIR: dir, SYSTEMD_LOG_LEVEL: "warning" },
			encoding: "utf8",
		});
		expect({ status, about: stderr.split("\n").filter((line) => line.includes("xfer-ci")) }).toEqual({ status: 0, about: [] });
	});

	test("quotes what would mean something else, and waits for handlers when it stops", () => {
		const text = systemdUnit(unit("/a b/50%", ["/bin/echo", strange, "plain"]));
		const escaped = strange
			.replace(/["\\]/g, "\\$&")
			.replaceAll("%", "%%")
			.replaceAll("$", "$$$$")
			.replace("\t", "\\x09")
			.replace("\n", "\\x0a");
		expect(text.split("\n")).toEqual(
			expect.arrayContaining([
				`ExecStart=/bin/echo "${escaped}" plain`,
				"WorkingDirectory=/a b/50%%",
				'Environment="XFER_HOME=/x y%%/$z"',
				"KillMode=mixed",
				"TimeoutStopSec=610",
			]),
		);
	});
});

describe("for launchd", () => {
	test("is a property list that reads back as what was given", () => {
		const dir = tempDir();
		const file = path.join(dir, "ci.plist");
		fs.writeFileSync(file, launchdPlist(unit("/a <b> & c", ["/bin/echo", strange])));
		const read = execFileSync("python3", [
			"-c",
			"import json,plistlib,sys; print(json.dumps(plistlib.load(open(sys.argv[1],'rb'))))",
			file,
		]);
		expect(JSON.parse(read.toString())).toMatchObject({
			Label: "xfer.ci",
			ProgramArguments: ["/bin/echo", strange],
			WorkingDirectory: "/a <b> & c",
			EnvironmentVariables: { XFER_HOME: "/x y%/$z", PATH: "/bin" },
			KeepAlive: { SuccessfulExit: false },
		});
	});

	test("refuses what it can't hold", () => {
		expect(() => launchdPlist(unit("/", ["/bin/echo", "\u001b"]))).toThrow(expect.objectContaining({ code: "EINPUT" }));
	});
});

test("xfer adapter --print-unit prints one for this command line, and makes no Node", async () => {
	const { root, env, home } = tempTree();
	const args = ["adapter", "ci", "--limit", "1h", "--print-unit", "--", "sh", "-c", "echo --print-unit"];
	const { code, out, err } = await run([...cli, ...args], { env, cwd: home });
	expect({ code, err, there: fs.existsSync(root) }).toEqual({ code: 0, err: "", there: false });
	const script = path.join(project, "dist/bin/xfer.cjs");
	if (process.platform === "linux")
		expect(out.split("\n")).toEqual(
			expect.arrayContaining([
				`ExecStart=${process.execPath} ${script} adapter ci --limit 1h -- sh -c "echo --print-unit"`,
				`WorkingDirectory=${home}`,
				`Environment=XFER_HOME=${root}`,
				"TimeoutStopSec=3610",
			]),
		);
});

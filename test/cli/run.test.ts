/** `xfer run`: a command's end, handed off. */
import fs from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { openTree } from "../../lib/index.ts";
import { cli, ls, run, start, tempTree, until } from "../helpers.ts";

function make() {
	const { root, home, env } = tempTree();
	const tree = openTree({ root, durable: false });
	for (const name of ["alice", "ci"]) tree.join(name);
	const mine = { ...env, XFER_NODE: "ci", XFER_DURABILITY: "none" };
	const argv = (...command: string[]) => [...cli, "run", "--to", "alice", "--", ...command];
	const xfer = (...command: string[]) => run(argv(...command), { env: mine, cwd: home });
	const reports = () => ls(root, "nodes/alice/new").map((name) => fs.readFileSync(path.join(root, "nodes/alice/new", name), "utf8"));
	const log = () => fs.readFileSync(path.join(root, ".runs", ls(root, ".runs")[0] as string), "utf8");
	return { root, home, env: mine, argv, xfer, reports, log };
}

test("passes input and output through, exits as the command does, and reports how it ended, with its last lines and where all are", async () => {
	const { root, home, env, argv, reports, log } = make();
	const line = "cat; for n in $(seq 100); do echo line $n; done; echo oops >&2; exit 3";
	const { code, out, err } = await run(argv("sh", "-c", line), { env, cwd: home, input: "in\0put\n" });
	const all = `in\0put\n${Array.from({ length: 100 }, (_, n) => `line ${n + 1}\n`).join("")}`;
	expect({ code, out }).toEqual({ code: 3, out: all });
	expect(err).toMatch(/^oops\nxfer: alice is told \(\w{8}\); all of the output: \S+\.runs\/\S+\.log\n$/);
	expect(log().split("\n").sort()).toEqual(`${all}oops\n`.split("\n").sort());
	const [report = "", ...others] = reports();
	expect(others).toEqual([]);
	expect(report).toMatch(/^---\nfrom: ci\nto: alice\nkind: report\nsubject: "exit 3 in 0 s: sh -c 'cat; for n/);
	const body = report.slice(report.indexOf("\n---\n") + 5);
	expect(body).toMatch(/^command: sh -c 'cat.*'\nended: exit 3\ntook: 0 s\nin: .*\nlog: .*\n\nIts last lines:\n\n(line \d+\n|oops\n){20}$/);
	const [, file = ""] = /^log: (.*)$/m.exec(body) ?? [];
	expect(file).toBe(path.join(root, ".runs", ls(root, ".runs")[0] as string));
	expect([fs.statSync(file).mode & 0o777, fs.statSync(path.dirname(file)).mode & 0o777]).toEqual([0o600, 0o700]);
});

test.each([
	["true", 0, "exit 0"],
	["kill -9 $$", 137, "ended by SIGKILL"],
	["kill $$", 143, "ended by SIGTERM"],
	["exit 255", 255, "exit 255"],
])("%s: exits with %i, and reports %s", async (line, code, words) => {
	const { xfer, reports } = make();
	expect(await xfer("sh", "-c", line)).toMatchObject({ code, out: "" });
	expect(reports()).toEqual([expect.stringMatching(new RegExp(`\\nended: ${words}\\n(.+\\n)*\\nIt printed nothing\\.\\n$`))]);
});

test.each([
	["no-such-program-here", 127],
	["/etc/passwd/program", 126],
])("%s, which is not there, is reported too", async (program, code) => {
	const { xfer, reports } = make();
	expect(await xfer(program)).toMatchObject({ code, err: expect.stringContaining("could not be started") });
	expect(reports()).toEqual([expect.stringContaining("ended: could not be started")]);
});

test.each(["SIGTERM", "SIGINT", "SIGHUP"] as const)(
	"%s is passed on: the command ends as it likes, and that is reported",
	async (signal) => {
		const { env, home, argv, reports } = make();
		const line = `trap 'echo got ${signal}; exit 9' ${signal.slice(3)}; echo ready; while :; do sleep 0.05; done`;
		const child = start(argv("sh", "-c", line), { env, cwd: home, stdio: ["ignore", "pipe", "ignore"] });
		let out = "";
		child.stdout?.on("data", (chunk) => {
			out += chunk;
		});
		const ended = new Promise((resolve) => child.on("close", resolve));
		await until(() => out.includes("ready"), "the command");
		child.kill(signal);
		expect(await ended).toBe(9);
		expect(reports()).toEqual([
			expect.stringMatching(new RegExp(`ended: exit 9\\n(.+\\n)*\\nIts last lines:\\n\\nready\\ngot ${signal}\\n$`)),
		]);
	},
);

test("a signal that comes again while its end is being told does not keep anybody from hearing of it", async () => {
	const { env, home, argv, reports } = make();
	const child = start(argv("sh", "-c", "echo ready; exec sleep 60"), { env, cwd: home, stdio: ["ignore", "pipe", "ignore"] });
	let out = "";
	child.stdout?.on("data", (chunk) => {
		out += chunk;
	});
	const ended = new Promise((resolve) => child.on("close", resolve));
	await until(() => out.includes("ready"), "the command");
	const again = setInterval(() => child.kill("SIGTERM"), 1);
	await ended;
	clearInterval(again);
	expect(reports()).toEqual([expect.stringContaining("ended: ended by SIGTERM")]);
});

test("output that nobody reads any more does not end the command", async () => {
	const { env, home, argv, reports, log } = make();
	const words = argv("sh", "-c", "seq 20000; echo done").map((word) => `'${word}'`);
	expect((await run(["bash", "-c", `${words.join(" ")} | head -n 1; exit \${PIPESTATUS[0]}`], { env, cwd: home })).code).toBe(0);
	expect(log().split("\n").length).toBe(20_002);
	expect(reports()).toEqual([expect.stringContaining("ended: exit 0")]);
});

test("what it left in the background does not keep it", async () => {
	const { home, xfer, reports } = make();
	expect((await xfer("sh", "-c", "sleep 1000 & echo $! >pid")).code).toBe(0);
	process.kill(Number(fs.readFileSync(path.join(home, "pid"), "utf8")), "SIGKILL");
	expect(reports().length).toBe(1);
});

test("that it was killed itself is reported too, once, and nothing when it was not", async () => {
	const { root, env, home, argv, reports } = make();
	const child = start(argv("sh", "-c", "echo $$ >pid; exec sleep 1000"), { env, cwd: home, stdio: "ignore" });
	await until(() => ls(home).includes("pid") && fs.statSync(path.join(home, "pid")).size > 0, "the command");
	child.kill("SIGKILL");
	await until(() => reports().length > 0, "the report");
	process.kill(Number(fs.readFileSync(path.join(home, "pid"), "utf8")), "SIGKILL");
	const [report = "", ...others] = reports();
	expect(others).toEqual([]);
	expect(report).toMatch(/^---\nfrom: ci\nto: alice\nkind: report\nsubject: "xfer run was killed: sh -c 'echo/);
	expect(report).toContain(`\nlog: ${root}/.runs/${ls(root, ".runs")[0]}\n`);
	expect(report).toContain("may still run");
});

test("several are told, and --subject, --priority and --json are as elsewhere", async () => {
	const { root, env, home, reports } = make();
	const args = ["run", "--to", "alice,ci", "--subject", "nightly", "--priority", "urgent", "--json", "--", "echo", "--subject"];
	const { code, out, err } = await run([...cli, ...args], { env, cwd: home });
	expect({ code, out }).toEqual({ code: 0, out: "--subject\n" });
	const document = JSON.parse(err);
	expect(document).toMatchObject({ schema: "xfer.run/1", code: 0, reports: [{ to: "alice" }, { to: "ci" }] });
	expect(reports()[0]).toMatch(/\nsubject: nightly\n(.+\n)*priority: urgent\n/);
	expect(ls(root, "nodes/ci/new")).toEqual([document.reports[1].id]);
});

test("logs of long ago are cleared away", async () => {
	const { root, xfer } = make();
	await xfer("true");
	const [old = ""] = ls(root, ".runs");
	fs.writeFileSync(path.join(root, ".runs/mine.txt"), "");
	for (const name of [old, "mine.txt"]) fs.utimesSync(path.join(root, ".runs", name), 1, 1);
	await xfer("true");
	expect(ls(root, ".runs")).toEqual([expect.stringMatching(/\.log$/), "mine.txt"]);
	expect(ls(root, ".runs")).not.toContain(old);
});

test.each([
	[["--to", "alice"], 2, /nothing to run/],
	[["--", "true"], 2, /who is told/],
	[["--to", "alice", "true"], 2, /"true".* goes behind --/],
	[["--to", "@all", "--", "touch", "ran"], 2, /only notes/],
	[["--to", "alcie", "--", "touch", "ran"], 3, /did you mean alice/],
	[["--to", "alice", "--priority", "high", "--", "touch", "ran"], 2, /no priority/],
])("refuses %j with exit %i before anything runs", async (args, code, message) => {
	const { env, home } = make();
	expect(await run([...cli, "run", ...args], { env, cwd: home })).toMatchObject({ code, out: "", err: expect.stringMatching(message) });
	expect(ls(home)).toEqual([".xfer"]);
});

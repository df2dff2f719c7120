/** Help, usage errors, exit codes: what the command line says when it is asked, and when it is misused. */
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { openTree } from "../../lib/index.ts";
import { cli, ls, project, type Result, run, tempTree } from "../helpers.ts";

const names = [
	"send",
	"reply",
	"inbox",
	"read",
	"mark",
	"sent",
	"recall",
	"watch",
	"adapter",
	"run",
	"nodes",
	"join",
	"leave",
	"gc",
	"doctor",
	"completion",
];

function make(...nodes: string[]) {
	const { root, home, env } = tempTree();
	const tree = openTree({ root, durable: false });
	for (const name of nodes) tree.join(name);
	const xfer = (...args: string[]) => run([...cli, ...args], { env });
	return { root, home, env, tree, xfer };
}

/** Columns that a line takes; nothing wide is printed here. */
const columns = (line: string) => [...line].length;

describe("xfer --help", () => {
	test("fits a screen of 24 lines and 80 columns, and starts with examples", async () => {
		const { xfer } = make();
		const { code, out, err } = await xfer("--help");
		expect({ code, err }).toEqual({ code: 0, err: "" });
		const lines = out.trimEnd().split("\n");
		expect(lines.length).toBeLessThanOrEqual(24);
		for (const line of lines) expect(columns(line)).toBeLessThanOrEqual(80);
		expect(lines.slice(0, 3).join("\n")).toMatch(/xfer send alice "/);
		expect(out.indexOf('xfer send alice "')).toBeLessThan(out.indexOf("completion"));
	});

	test("names every command with what it does", async () => {
		const { xfer } = make();
		const { out } = await xfer("--help");
		for (const name of names) expect(out).toMatch(new RegExp(`^ *(xfer )?${name}\\b.* {2,}\\S.{4,}`, "m"));
		for (const option of ["--as", "--json", "--timeout"]) expect(out).toContain(option);
	});

	test("is what -h and help print too", async () => {
		const { xfer } = make();
		const results = await Promise.all([xfer("--help"), xfer("-h"), xfer("help")]);
		expect(new Set(results.map(({ out }) => out)).size).toBe(1);
	});

	test("makes no tree", async () => {
		const { home, xfer } = make();
		await Promise.all([xfer("--help"), xfer("send", "--help"), xfer("--version")]);
		expect(ls(home)).toEqual([]);
	});
});

describe("the help of a command", () => {
	const texts = new Map<string, Result>();
	beforeAll(async () => {
		const { env } = make();
		for (const name of names) texts.set(name, await run([...cli, name, "--help"], { env }));
	});

	test.each(names)("%s has its usage, an example on a line of its own, and its options; within 80 columns", (name) => {
		const { code, out, err } = texts.get(name) as Result;
		expect({ code, err }).toEqual({ code: 0, err: "" });
		const lines = out.trimEnd().split("\n");
		for (const line of lines) expect([line, columns(line) <= 80]).toEqual([line, true]);
		const own = lines.filter((line) => new RegExp(`\\bxfer ${name}\\b`).test(line));
		expect(own.length).toBeGreaterThanOrEqual(2); // the usage and an example
		for (const option of [/--as\b.*\bNAME\b/, /--json\b/, /--help\b/]) expect(out).toMatch(option);
		expect(out).not.toMatch(/\S\[(string|boolean)\]/);
	});

	test("shows what stands for the value of an option", () => {
		const { out } = texts.get("send") as Result;
		for (const option of [/--subject\b.*\bLINE\b/, /--expires\b.*\b30m\b/, /--re\b.*\bID\b/, /--key\b.*\bK\b/]) expect(out).toMatch(option);
	});

	test("names --timeout where something waits, and only there", () => {
		for (const name of names)
			expect([name, texts.get(name)?.out.includes("--timeout")]).toEqual([name, ["send", "reply", "read", "watch"].includes(name)]);
	});

	test("is what `help NAME` and -h print too, also among other words", async () => {
		const { xfer } = make();
		const results = await Promise.all([xfer("help", "send"), xfer("send", "-h"), xfer("send", "alice", "text", "--help")]);
		for (const { code, out } of results) expect({ code, out }).toEqual({ code: 0, out: texts.get("send")?.out });
	});

	test("of what is no command is an error with the nearest one", async () => {
		const { xfer } = make();
		for (const args of [["help", "snd"], ["snd", "--help"], ["snd"]])
			expect(await xfer(...args)).toMatchObject({
				code: 2,
				out: "",
				err: expect.stringMatching(/^xfer: no command "snd" \(.*xfer send.*\)\n$/),
			});
		expect(await xfer("frobnicate")).toMatchObject({
			code: 2,
			out: "",
			err: expect.stringMatching(/^xfer: no command "frobnicate" \(.*xfer --help.*\)\n$/),
		});
	});
});

test("--version prints the package's version", async () => {
	const { xfer } = make();
	const { version } = JSON.parse(fs.readFileSync(path.join(project, "package.json"), "utf8"));
	expect(await xfer("--version")).toMatchObject({ code: 0, out: `${version}\n`, err: "" });
});

describe("a flag that is not there", () => {
	test.each([
		["send --to alice hi", /xfer send alice "/],
		["send alice -m hi", /xfer send alice "/],
		["send alice --message hi", /xfer send alice "/],
		["send alice --body hi", /xfer send alice "/],
		["send alice --text=hi", /xfer send alice "/],
		["send alice --from bob hi", /--as/],
		["send alice -s x hi", /--subject/],
		["send alice --title x hi", /--subject/],
		["send alice --type task hi", /--kind/],
		["send alice --ttl 30m hi", /--expires/],
		["send alice --subjct x hi", /--subject\b/],
		["send alice --prioriy low hi", /--priority\b/],
		["reply abcdefgh -m hi", /xfer reply /],
		["reply abcdefgh --body hi", /xfer reply /],
		["read --peak", /--peek\b/],
		["read --from bob", /xfer read|--as/],
		["inbox --al", /--all\b/],
		["inbox --to bob", /xfer inbox/],
		["watch --follow", /xfer watch/],
		["nodes --live", /xfer nodes/],
		["gc --dryrun", /--dry-run\b/],
		["doctor --zzz", /xfer doctor/],
	])("%s: exit 2, and the right line", async (line, cure) => {
		const { root, xfer } = make("alice");
		const result = await xfer(...line.split(" "));
		expect(result).toMatchObject({ code: 2, out: "" });
		const flag = line
			.split(" ")
			.find((word) => word.startsWith("-"))
			?.split("=")[0] as string;
		expect(result.err).toMatch(/^xfer: .+ \(.+\)\n$/);
		expect(result.err).toContain(flag);
		expect(result.err.slice(result.err.indexOf("("))).toMatch(cure);
		if (!/^(send|reply)/.test(line)) expect(result.err).not.toContain("xfer send");
		expect(ls(root, "nodes/alice/new")).toEqual([]);
	});

	test("text that begins with a dash: says that it goes after --, and there it does", async () => {
		const { root, xfer } = make("alice");
		for (const word of ["-hello", "--zzzzzz", "-5"]) {
			const result = await xfer("send", "alice", word);
			expect(result).toMatchObject({ code: 2, out: "", err: expect.stringMatching(/\(.*--(?= |").*\)\n$/) });
			expect(result.err).not.toMatch(/\(--help\)/);
		}
		expect((await xfer("send", "alice", "--", "-hello")).code).toBe(0);
		expect(ls(root, "nodes/alice/new")).toHaveLength(1);
	});

	test("a flag without its value, a value too many, too many words, too few", async () => {
		const { xfer } = make("alice");
		const results = await Promise.all([
			xfer("send", "alice", "hi", "--subject"),
			xfer("send", "alice", "--subject", "--kind", "task", "hi"),
			xfer("read", "--all=3"),
			xfer("read", "abcd", "efgh"),
			xfer("send"),
			xfer("join"),
			xfer("mark", "abcd"),
			xfer("recall"),
			xfer("reply"),
		]);
		const cures = [
			"--subject LINE",
			"--subject LINE",
			"xfer read",
			"xfer read [ID]",
			"xfer send TO",
			"xfer join NAME",
			"xfer mark ID|PATH",
			"xfer recall ID",
			"xfer reply ID",
		];
		for (const [n, { code, out, err }] of results.entries()) {
			expect([code, out]).toEqual([2, ""]);
			expect(err.slice(err.indexOf("("))).toContain(cures[n]);
		}
	});

	test("a flag before the command works, or the right line is told; its value is never taken for a command", async () => {
		const { root, xfer, tree } = make("alice", "read");
		tree.send({ from: "alice", to: ["read"], body: "x" });
		const plain = await xfer("--as", "alice", "inbox");
		if (plain.code !== 0) expect(plain).toMatchObject({ code: 2, out: "", err: expect.stringMatching(/\(.*xfer inbox --as alice.*\)\n$/) });
		const named = await xfer("--as", "read", "inbox");
		if (named.code !== 0) expect(named).toMatchObject({ code: 2, out: "" });
		else expect(named.out).toMatch(/\tqueued\t/);
		expect(ls(root, "nodes/read/new")).toHaveLength(1);
	});
});

describe("every error", () => {
	/** A line to type, and the exit code of DESIGN's table. */
	const lines: [code: number, ...args: string[]][] = [
		[2, "send", "alice", ""],
		[2, "send", "alice", "hi", "--kind", "A B"],
		[2, "inbox", "--as", "../x"],
		[2, "inbox", "a/b"],
		[2, "read", "abc"],
		[2, "join", "unknown"],
		[2, "join", "all"],
		[2, "mark", "abcd", "done"],
		[2, "completion", "tcsh"],
		[2, "gc", "--keep", "7"],
		[3, "send", "alcie", "hi"],
		[3, "inbox", "alcie"],
		[3, "read"],
		[3, "read", "zzzz"],
		[3, "mark", "zzzz", "read"],
		[3, "mark", "/a/b/cur/c", "read"],
		[3, "reply", "zzzz", "hi"],
		[3, "sent", "zzzz"],
		[3, "recall", "zzzz"],
		[3, "watch", "alcie"],
		[3, "leave", "alcie"],
		[3, "doctor", "missing.md"],
		[4, "read", "--wait", "--timeout", "1s"],
		[5, "leave", "full"],
	];

	test("is one line on standard error, `xfer: what (what to do)`, with nothing on standard output; with --json too", async () => {
		const { env, tree } = make("alice", "full");
		tree.send({ from: "alice", to: ["full"], body: "x" });
		const mine = { ...env, XFER_NODE: "alice" };
		for (const [code, ...args] of lines) {
			const [words, json] = await Promise.all([run([...cli, ...args], { env: mine }), run([...cli, ...args, "--json"], { env: mine })]);
			for (const result of [words, json]) {
				expect([args, result.code, result.out]).toEqual([args, code, ""]);
				expect(result.err).toMatch(/^xfer: [^\n]+ \([^\n]+\)\n$/);
			}
		}
	});

	test("has a stack with XFER_DEBUG, and only then", async () => {
		const { env } = make("alice");
		const [plain, empty, debug] = await Promise.all([
			run([...cli, "send", "alcie", "hi"], { env }),
			run([...cli, "send", "alcie", "hi"], { env: { ...env, XFER_DEBUG: "" } }),
			run([...cli, "send", "alcie", "hi"], { env: { ...env, XFER_DEBUG: "1" } }),
		]);
		expect(plain.err).not.toMatch(/\n {4}at /);
		expect(empty.err).toBe(plain.err);
		expect(debug).toMatchObject({ code: 3, out: "" });
		expect(debug.err.startsWith(plain.err)).toBe(true);
		expect(debug.err).toMatch(/\n {4}at /);
	});

	test("of what was typed shows control characters, and sends none to the terminal", async () => {
		const { xfer } = make("alice");
		const bad = "x\x1b[2J\x07\u009b2J\ny";
		const results = await Promise.all([
			xfer(bad),
			xfer("send", bad, "hi"),
			xfer("send", "alice", "hi", "--kind", bad),
			xfer("send", "alice", "hi", "--priority", bad),
			xfer("send", "alice", "hi", "--expires", bad),
			xfer("inbox", bad),
			xfer("read", bad),
			xfer("mark", bad, "read"),
			xfer("mark", "abcd", bad),
			xfer("mark", `/${bad}/cur/x`, "read"),
			xfer("doctor", bad),
			xfer("join", bad),
			xfer(`--${bad}`),
			xfer("send", "alice", "hi", `--${bad}`),
			xfer("read", "a", bad),
			xfer("completion", bad),
		]);
		for (const { code, out, err } of results) {
			expect([2, 3]).toContain(code);
			expect(out).toBe("");
			expect([...err.trimEnd()].filter((char) => char < " " || (char >= "\x7f" && char < "\xa0"))).toEqual([]);
		}
	});
});

describe("the environment", () => {
	test("an XFER_NODE, XFER_MAX_BYTES or XFER_LEASE that is no such thing is an error that names it", async () => {
		const { env } = make("alice");
		for (const [key, value] of [
			["XFER_NODE", "../x"],
			["XFER_MAX_BYTES", "1k"],
			["XFER_LEASE", "-1"],
		] as const) {
			const result = await run([...cli, "inbox"], { env: { ...env, [key]: value } });
			expect(result).toMatchObject({ code: 2, out: "", err: expect.stringMatching(/^xfer: .+ \(.+\)\n$/) });
			expect(result.err).toContain(value);
		}
	});

	test("an empty variable is as none", async () => {
		const { env } = make("alice");
		const empty = { ...env, XFER_NODE: "", XFER_INSTANCE: "", XFER_MAX_BYTES: "", XFER_LEASE: "", XFER_DURABILITY: "" };
		const login = execFileSync("id", ["-un"], { encoding: "utf8" }).trim();
		expect(JSON.parse((await run([...cli, "--json"], { env: empty })).out).me).toBe(login.toLowerCase());
	});
});

describe("a tree that forbids it", () => {
	const plain = process.getuid?.() === 0 ? ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--"] : [];

	test("EACCES: says that a sandbox may forbid it, and what to allow; nothing is half-done", async () => {
		const { root, env, tree } = make("alice", "bob");
		tree.send({ from: "bob", to: ["alice"], body: "x" });
		const before = fs.readdirSync(root, { recursive: true }).sort();
		const places = ["nodes", "nodes/alice/new", "nodes/alice/tmp", "nodes/alice/cur", "nodes/alice"].map((place) => path.join(root, place));
		for (const place of places) fs.chmodSync(place, 0o500);
		const results = await Promise.all(
			[
				["send", "alice", "hi", "--as", "bob"],
				["join", "carl"],
				["read", "--as", "alice"],
				["read", "--take", "--as", "alice"],
			].map((args) => run([...plain, ...cli, ...args], { env })),
		);
		for (const place of places) fs.chmodSync(place, 0o700);
		for (const result of results) {
			expect(result).toMatchObject({ code: 1, out: "", err: expect.stringMatching(/^xfer: .*EACCES.*sandbox.*allow.*\)\n$/) });
			expect(result.err).toContain(`allow writing to ${root}`);
		}
		expect(fs.readdirSync(root, { recursive: true }).sort()).toEqual(before);
	});

	test("another account: the same words", async () => {
		if (process.getuid?.() !== 0) return; // only root can be another
		const { root, env } = make("alice");
		const probe = await run([...cli, "--version"], { env, uid: 65534 }).catch(() => undefined);
		if (probe?.code !== 0) return; // the program itself is where others may not read
		for (const args of [["send", "alice", "hi"], ["inbox", "alice"], ["nodes"], ["join", "x"]]) {
			const result = await run([...cli, ...args], { env, uid: 65534 });
			expect(result).toMatchObject({ code: 1, out: "", err: expect.stringMatching(/^xfer: .*EACCES.*sandbox.*\)\n$/) });
			expect(result.err).toContain(root);
		}
	});

	test("EROFS: says so, reading works, and a Handoff that can't be taken is not shown", async () => {
		const { env, tree } = make("alice", "bob");
		tree.send({ from: "bob", to: ["alice"], body: "x" });
		const mounted = (...args: string[]) => {
			const script = `mount --bind "$XFER_HOME" "$XFER_HOME" && mount -o remount,ro,bind "$XFER_HOME" || exit 77; exec "$@"`;
			return run(["unshare", "-rm", "sh", "-c", script, "sh", ...cli, ...args], { env });
		};
		const [probe, ...results] = await Promise.all([
			mounted("--version"),
			mounted("send", "alice", "hi", "--as", "bob"),
			mounted("join", "carl"),
			mounted("read", "--as", "alice"),
			mounted("recall", tree.node("bob").sent.ids()[0] as string, "--as", "bob"),
		]);
		if (probe?.code !== 0) return; // mounts are not allowed here
		for (const result of results)
			expect(result).toMatchObject({ code: 1, out: "", err: expect.stringMatching(/^xfer: .*EROFS.*read-only.*sandbox.*allow.*\)\n$/) });
		const [peek, inbox, nodes] = await Promise.all([
			mounted("read", "--peek", "--as", "alice"),
			mounted("inbox", "alice"),
			mounted("nodes"),
		]);
		for (const { code } of [peek, inbox, nodes]) expect(code).toBe(0);
	});
});

describe("--json", () => {
	test("is one document with a schema, of every command that has something to say", async () => {
		const { env, tree } = make("alice", "bob");
		const ids = [1, 2, 3, 4]
			.map((n) => tree.send({ from: "bob", to: ["alice"], body: `text ${n}\u0085\u2028` })[0])
			.map((outcome) => (outcome && "id" in outcome ? outcome.id : ""));
		const mine = { ...env, XFER_NODE: "alice" };
		const commands: string[][] = [
			["send", "bob", "hi"],
			["inbox"],
			["read"],
			["mark", ids[1] as string, "read"],
			["reply", ids[2] as string, "ok"],
			["sent"],
			["recall", ids[3] as string, "--as", "bob"],
			["nodes"],
			["join", "carl"],
			["leave", "carl"],
			["gc"],
			["doctor"],
			[],
		];
		for (const args of commands) {
			const { out } = await run([...cli, ...args, "--json"], { env: mine });
			expect(out.endsWith("\n")).toBe(true);
			expect(out.trimEnd().split("\n")).toHaveLength(1);
			expect(JSON.parse(out).schema).toBe(`xfer.${args[0] === "reply" ? "send" : (args[0] ?? "home")}/1`);
		}
	});

	test("--as means the same everywhere", async () => {
		const { xfer, tree } = make("alice", "bob");
		tree.send({ from: "bob", to: ["alice"], body: "x" });
		const [inbox, read, sent, home] = await Promise.all([
			xfer("inbox", "--as", "alice", "--json"),
			xfer("read", "--peek", "--as=Alice", "--json"),
			xfer("sent", "--as", "bob", "--json"),
			xfer("--as", "alice", "--json"),
		]);
		expect(JSON.parse(inbox?.out ?? "")).toMatchObject({ node: "alice", handoffs: [{ from: "bob" }] });
		expect(JSON.parse(read?.out ?? "")).toMatchObject({ handoffs: [{ from: "bob" }] });
		expect(JSON.parse(sent?.out ?? "")).toMatchObject({ node: "bob", handoffs: [{ to: "alice" }] });
		expect(JSON.parse(home?.out ?? "")).toMatchObject({ me: "alice", unread: 1 });
	});
});

/** `xfer doctor`: what is wrong with the tree, each finding with its cure; and how a file would be read. */
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { openTree } from "../../lib/index.ts";
import { cli, onTestFinished, run, tempTree } from "../helpers.ts";

function make() {
	const { root, home, env } = tempTree();
	const tree = openTree({ root, durable: false });
	tree.join("alice");
	const dir = path.join(root, "nodes/alice");
	const put = (place: string, text = "---\nfrom: bob\n---\nx") => {
		fs.writeFileSync(path.join(dir, place), text);
		return path.join(dir, place);
	};
	const xfer = (...args: string[]) => run([...cli, ...args], { env });
	const findings = async (more: NodeJS.ProcessEnv = {}, before: string[] = []) => {
		const { out } = await run([...before, ...cli, "doctor", "--json"], { env: { ...env, ...more } });
		return JSON.parse(out).findings as { code: string; path: string; what: string; cure: string }[];
	};
	return { root, home, env, tree, dir, put, xfer, findings };
}

describe("of a tree", () => {
	test("that is well: says what was looked at, finds nothing, exit 0, and leaves nothing behind", async () => {
		const { root, xfer } = make();
		const before = fs.readdirSync(root, { recursive: true }).sort();
		const { code, out, err } = await xfer("doctor");
		expect({ code, err }).toEqual({ code: 0, err: "" });
		expect(out).toContain(root);
		for (const check of ["rename", "sync", "link", "symlink", "clock", "events"]) expect(out).toMatch(new RegExp(`^ok ${check}: `, "m"));
		expect(out).toMatch(/^ok events: .*inotify.*\d+ watches.*\d+ instances/m);
		expect(fs.readdirSync(root, { recursive: true }).sort()).toEqual(before);
	});

	test("that is not there yet: says so, exit 0, and makes nothing", async () => {
		const { env } = tempTree();
		const result = await run([...cli, "doctor"], { env });
		expect(result).toMatchObject({ code: 0, err: "", out: expect.stringContaining("does not exist yet") });
		expect(fs.readdirSync(env.HOME as string)).toEqual([]);
	});

	test("with findings: a line each with its cure, exit 1", async () => {
		const { put, xfer } = make();
		put("cur/2000.failed,E=failed:2,F");
		const { code, out, err } = await xfer("doctor");
		expect({ code, err }).toEqual({ code: 1, err: "" });
		expect(out).toMatch(/^failed \S+2000\.failed,E=failed:2,F: .*bob.* \(.*xfer mark 2000\.failed new --as alice.*\)$/m);
	});

	test("as JSON: one document, exit 1 if any", async () => {
		const { put, env } = make();
		const well = await run([...cli, "doctor", "--json"], { env });
		expect(well.code).toBe(0);
		expect(JSON.parse(well.out)).toMatchObject({ schema: "xfer.doctor/1", findings: [], checks: expect.any(Array), files: [] });
		put("cur/2000.failed,E=failed:2,F");
		const ill = await run([...cli, "doctor", "--json"], { env });
		expect(ill.code).toBe(1);
		expect(ill.out.trimEnd().split("\n")).toHaveLength(1);
		expect(JSON.parse(ill.out).findings).toMatchObject([
			{ code: "failed", path: expect.any(String), what: expect.any(String), cure: expect.any(String) },
		]);
	});
});

describe("finds, and says what to do:", () => {
	test("what others may enter", async () => {
		const { dir, findings } = make();
		fs.chmodSync(dir, 0o755);
		expect(await findings()).toMatchObject([{ path: dir, what: expect.stringContaining("755"), cure: `chmod 700 ${dir}` }]);
	});

	const plain = process.getuid?.() === 0 ? ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--"] : [];

	test.each(["nodes", "nodes/alice", "nodes/alice/new", "nodes/alice/cur", "nodes/alice/tmp"])(
		"%s where nothing can be written",
		async (place) => {
			const { root, findings } = make();
			fs.chmodSync(path.join(root, place), 0o500);
			const found = await findings({}, plain);
			fs.chmodSync(path.join(root, place), 0o700);
			expect(found).toMatchObject([
				{ path: path.join(root, place), what: expect.stringContaining("EACCES"), cure: expect.stringContaining("sandbox") },
			]);
		},
	);

	test.each(["nodes", "nodes/alice", "nodes/alice/new"])("%s that can't be entered", async (place) => {
		const { root, findings } = make();
		fs.chmodSync(path.join(root, place), 0);
		const found = await findings({}, plain);
		fs.chmodSync(path.join(root, place), 0o700);
		expect(found.map((finding) => finding.path)).toContain(path.join(root, place));
	});

	test("what is stuck: in hand though its lease has ended", async () => {
		const { put, findings } = make();
		const file = put("cur/100.stuck,L=100.aaaaaaaa:2,");
		expect(await findings()).toMatchObject([
			{ path: file, what: expect.stringMatching(/aaaaaaaa.*lease/), cure: expect.stringMatching(/xfer read --as alice|xfer gc/) },
		]);
	});

	test("unread mail that nobody watches, and not that of a live Node", async () => {
		const { root, tree, dir, findings } = make();
		tree.send({ from: "alice", to: ["alice"], body: "x" });
		expect(await findings()).toMatchObject([
			{ path: dir, what: expect.stringMatching(/1 unread.*nobody watches/), cure: expect.stringContaining("xfer read --as alice") },
		]);
		const live = await openTree({ root, durable: false }).node("alice").goLive();
		onTestFinished(() => live.end());
		expect(await findings()).toEqual([]);
	});

	test("mail that waits for more than a day on a live Node, and why", async () => {
		const { root, findings } = make();
		const then = openTree({ root, durable: false, clock: () => Date.now() - 25 * 3600 * 1000 });
		then.send({ from: "alice", to: ["alice"], body: "x" });
		const live = await openTree({ root, durable: false }).node("alice").goLive({ holding: "quiet" });
		onTestFinished(() => live.end());
		expect(await findings()).toMatchObject([
			{ what: expect.stringContaining("quiet"), cure: expect.stringContaining(String(process.pid)) },
		]);
	});

	test("what failed, and what can't be read", async () => {
		const { put, env, findings } = make();
		const [failed, unreadable] = [put("cur/1001.failed,E=failed:2,F"), put("cur/1002.unreadable,E=unreadable:2,F")];
		const found = await findings();
		expect(found.map((finding) => finding.path)).toEqual([failed, unreadable]);
		for (const { cure } of found) {
			const line = /xfer (mark \S+ new --as alice)/.exec(cure)?.[1]?.split(" ") ?? [];
			expect(await run([...cli, ...line], { env })).toMatchObject({ code: 0, err: "" }); // the cure works as it stands
		}
	});

	test("strange files in new/ and cur/: a FIFO, a socket, a directory, a symlink", async () => {
		const { dir, findings } = make();
		execFileSync("mkfifo", [path.join(dir, "new/1.fifo")]);
		fs.mkdirSync(path.join(dir, "new/2.directory"));
		fs.symlinkSync("/etc/passwd", path.join(dir, "cur/3.symlink:2,S"));
		const server = net.createServer().listen(path.join(dir, "new/4.socket"));
		await new Promise((resolve) => server.on("listening", resolve));
		onTestFinished(() => void server.close());
		const found = await findings();
		expect(found.map((finding) => path.basename(finding.path)).sort()).toEqual(["1.fifo", "2.directory", "3.symlink:2,S", "4.socket"]);
		for (const { path: file, what, cure } of found) {
			expect(what).toContain(/\.(\w+)/.exec(path.basename(file))?.[1]?.replace("fifo", "FIFO"));
			expect(cure).toContain("rm ");
		}
	});

	test("a name that is not UTF-8, and one too long to be taken", async () => {
		const { dir, findings } = make();
		fs.writeFileSync(Buffer.concat([Buffer.from(`${dir}/new/1.`), Buffer.from([0xff])]), "x");
		fs.writeFileSync(path.join(dir, "new", `2.${"x".repeat(220)}`), "x");
		const found = await findings();
		expect(found.map(({ what }) => what).join("\n")).toMatch(/UTF-8[\s\S]*long|long[\s\S]*UTF-8/);
	});

	test("what is too large to be read unasked", async () => {
		const { put, findings } = make();
		const file = put("new/1000.large", "more than ten bytes");
		const found = await findings({ XFER_MAX_BYTES: "10" });
		expect(found).toContainEqual(
			expect.objectContaining({
				path: file,
				what: expect.stringContaining("19 bytes"),
				cure: expect.stringContaining("xfer read 1000.large"),
			}),
		);
	});

	test("a header that does not read as its writer meant, with the line that tells more", async () => {
		const { put, env, findings } = make();
		const file = put("new/1000.header", "---\nfrom bob\nexpires: tomorrow\n---\nx");
		const found = await findings();
		const header = found.find((finding) => finding.path === file);
		expect(header?.what).toMatch(/line.*date|date.*line/);
		expect(header?.cure).toContain(`xfer doctor ${file}`);
		expect((await run([...cli, "doctor", file], { env })).code).toBe(1);
	});

	test("a clock that is ahead", async () => {
		const { put, findings } = make();
		const file = put("new/1000.future", "---\ndate: 2099-01-01T00:00:00Z\n---\nx");
		expect(await findings()).toContainEqual(
			expect.objectContaining({ path: file, what: expect.stringContaining("2099"), cure: expect.stringContaining("clock") }),
		);
	});

	test("what is in nodes/ and no Node", async () => {
		const { root, findings } = make();
		fs.symlinkSync("missing", path.join(root, "nodes/dangling"));
		fs.symlinkSync("/etc", path.join(root, "nodes/elsewhere"));
		fs.mkdirSync(path.join(root, "nodes/Upper"));
		fs.writeFileSync(path.join(root, "nodes/file"), "");
		fs.mkdirSync(path.join(root, "nodes/.ours"));
		expect((await findings()).map((finding) => path.basename(finding.path)).sort()).toEqual(["Upper", "dangling", "elsewhere", "file"]);
	});

	test("a tree that is read-only: says that a sandbox may forbid it, and what to allow", async () => {
		const { root, env } = make();
		const mounted = `mount --bind "$XFER_HOME" "$XFER_HOME" && mount -o remount,ro,bind "$XFER_HOME" || exit 77; exec "$@"`;
		const result = await run(["unshare", "-rm", "sh", "-c", mounted, "sh", ...cli, "doctor", "--json"], { env });
		if (result.code === 77 || !result.out) return; // mounts are not allowed here
		expect(result.code).toBe(1);
		const found = JSON.parse(result.out).findings as { what: string; cure: string }[];
		expect(found[0]).toMatchObject({ what: expect.stringContaining("EROFS"), cure: expect.stringMatching(/sandbox.*allow/) });
		expect(found[0]?.cure).toContain(root);
	});
});

test("a cure can be pasted into a shell: names that peers chose are quoted in it", async () => {
	const { home, dir, env, findings } = make();
	const names = ["1.a; touch pwned;", "2.b $(touch pwned)", "3.c 'd' \"e\"", "4.`touch pwned`"];
	for (const name of names) fs.mkdirSync(path.join(dir, "new", name));
	const found = await findings();
	expect(found).toHaveLength(names.length);
	for (const { cure } of found) {
		const [line = ""] = /rm .*$/s.exec(cure) ?? [];
		await run(["sh", "-c", line], { env, cwd: home });
	}
	expect(fs.readdirSync(path.join(dir, "new"))).toEqual([]);
	expect(fs.readdirSync(home)).toEqual([".xfer"]);
});

describe("of files", () => {
	test("says whether there is a header, what a reader would see, and how much body", async () => {
		const { home, env, xfer } = make();
		const file = path.join(home, "draft.md");
		fs.writeFileSync(file, '---\nfrom: bob\nto: [a, "b"]\nsubject: Re: x #12\n---\nthe body');
		expect(await xfer("doctor", file)).toMatchObject({
			code: 0,
			err: "",
			out: `${file}: a header and 8 bytes of body\n  from: bob\n  to: a, b\n  subject: Re: x #12\n`,
		});
		const { code, out } = await run([...cli, "doctor", "--json", "draft.md"], { env, cwd: home });
		expect(code).toBe(0);
		expect(JSON.parse(out)).toEqual({
			schema: "xfer.doctor/1",
			findings: [],
			files: [
				{
					file: "draft.md",
					header: true,
					fields: { from: "bob", to: ["a", "b"], subject: "Re: x #12" },
					body: { offset: 50, bytes: 8 },
					warnings: [],
				},
			],
		});
	});

	test("of text without a header: all body", async () => {
		const { home, xfer } = make();
		fs.writeFileSync(path.join(home, "a.md"), "# title\n");
		expect(await xfer("doctor", path.join(home, "a.md"))).toMatchObject({
			code: 0,
			out: expect.stringMatching(/: no header and 8 bytes of body\n$/),
		});
	});

	test.each([
		["bom", "\ufeff---\nfrom: bob\n---\nx"],
		["unclosed", "---\nfrom: bob\nx"],
		["line", "---\nfrom bob\n---\nx"],
		["duplicate", "---\nfrom: bob\nfrom: eve\n---\nx"],
		["utf8", Buffer.from([...Buffer.from("---\nsubject: "), 0xff, ...Buffer.from("\n---\nx")])],
		["date", "---\nexpires: tomorrow\n---\nx"],
		["number", "---\nhops: many\n---\nx"],
	])("warns of %s in words that say what happens, exit 1", async (code, text) => {
		const { home, xfer } = make();
		const file = path.join(home, "x.md");
		fs.writeFileSync(file, text);
		const [words, json] = await Promise.all([xfer("doctor", file), xfer("doctor", "--json", file)]);
		expect(words).toMatchObject({ code: 1, err: "", out: expect.stringMatching(new RegExp(`^ {2}${code}: .{15,}$`, "m")) });
		expect(json.code).toBe(1);
		expect(JSON.parse(json.out).files[0].warnings).toEqual([code]);
	});

	test("that are not there or no regular files: an error with the name, exit 3, and no FIFO is waited for", async () => {
		const { home, xfer } = make();
		const fifo = path.join(home, "fifo");
		execFileSync("mkfifo", [fifo]);
		const results = await Promise.all([
			xfer("doctor", "missing.md"),
			xfer("doctor", fifo),
			xfer("doctor", home),
			xfer("doctor", "/dev/zero"),
		]);
		for (const result of results) expect(result).toMatchObject({ code: 3, out: "", err: expect.stringMatching(/^xfer: .+ \(.+\)\n$/) });
		expect(results[0]?.err).toContain("missing.md");
	});

	test("of 2 GiB takes no more memory than others", async () => {
		const { home, env } = make();
		const file = path.join(home, "big");
		fs.writeFileSync(file, "---\nfrom: bob\n---\n");
		fs.truncateSync(file, 2 ** 31);
		const result = await run(["sh", "-c", `ulimit -d $((900 * 1024)); exec "$@"`, "sh", ...cli, "doctor", file], { env });
		expect(result).toMatchObject({ code: 0, out: expect.stringContaining(`a header and ${2 ** 31 - 18} bytes of body`) });
	});

	test("needs no tree", async () => {
		const { env, home } = tempTree();
		fs.writeFileSync(path.join(home, "a.md"), "x");
		expect((await run([...cli, "doctor", path.join(home, "a.md")], { env })).code).toBe(0);
		expect(fs.readdirSync(home)).toEqual(["a.md"]);
	});
});

test("of a host's hooks: whether they are configured, and when one was run last", async () => {
	const { env, root, xfer, findings } = make();
	const cwd = env.HOME as string;
	const of = async () => (await run([...cli, "doctor"], { env, cwd })).out.split("\n").filter((line) => /hooks/.test(line));
	expect(await of()).toEqual([]);
	expect((await xfer("setup", "codex")).code).toBe(0);
	expect((await of())[0]).toMatch(/^bad hooks of codex: configured in \S+\/\.codex\/hooks\.json, never run$/);
	expect(await findings()).toMatchObject([{ code: "hooks", cure: expect.stringContaining("/hooks") }]);
	await run([...cli, "hook", "codex", "SessionStart"], { env, cwd, input: JSON.stringify({ session_id: "s", cwd }) });
	expect((await of())[0]).toMatch(/^ok hooks of codex: .*, last run \d+ s ago$/);
	fs.rmSync(`${root}/nodes/codex-${cwd.split("/").pop()?.toLowerCase()}/live.lock`, { recursive: true, force: true }); // its holder ends
});

/** What a person sees on a terminal, and what a pipe gets: alignment, colour, and text of peers that is shown and never obeyed. */
import fs from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { openTree } from "../../lib/index.ts";
import { cli, ls, onTestFinished, run, start, tempTree, until } from "../helpers.ts";

const quote = (word: string) => `'${word.replaceAll("'", "'\\''")}'`;
const command = (args: string[], columns: number) => `stty cols ${columns} rows 24; exec ${[...cli, ...args].map(quote).join(" ")}`;

function make() {
	const { root, env } = tempTree();
	const tree = openTree({ root, durable: false });
	for (const name of ["alice", "bob"]) tree.join(name);
	const mine = { ...env, XFER_NODE: "alice", TERM: "xterm-256color" };
	const put = (place: string, text: string) => fs.writeFileSync(path.join(root, "nodes/alice", place), text);
	const piped = (...args: string[]) => run([...cli, ...args], { env: mine });
	/** Runs it on a terminal, standard error included. */
	const tty = (args: string[], { columns = 80, more = {} }: { columns?: number; more?: NodeJS.ProcessEnv } = {}) =>
		run(["script", "-qec", command(args, columns), "/dev/null"], { env: { ...mine, ...more } });
	const goLive = async (name: string, presence: object) => {
		const live = await openTree({ root, durable: false }).join(name).goLive(presence);
		onTestFinished(() => live.end());
	};
	return { root, env: mine, tree, put, piped, tty, goLive };
}

const ESC = "\x1b";
const colours = new RegExp(`${ESC}\\[\\d*m`, "g");
/** The text without the colours that we ourselves give it. */
const uncoloured = (text: string) => text.replace(colours, "");
/** Lines of a terminal, which writes CR LF. */
const lines = (text: string) => uncoloured(text).split("\r\n").slice(0, -1);
/** What a terminal may obey in a text, other than tabs and line ends: C0, DEL, C1 as UTF-8 writes it, line separators, bidi controls. */
const controls = (text: string) =>
	[...text].filter((char) => {
		const code = char.codePointAt(0) as number;
		if (char === "\n" || char === "\t") return false;
		return (
			code < 32 ||
			(code >= 127 && code < 160) ||
			[0x2028, 0x2029].includes(code) ||
			(code >= 0x202a && code <= 0x202e) ||
			(code >= 0x2066 && code <= 0x2069)
		);
	});
/** The same of what a terminal got, save our own colours. */
const raw = (text: string) => controls(uncoloured(text).replaceAll("\r\n", "\n"));

describe("a table on a terminal", () => {
	function fill({ tree, put }: ReturnType<typeof make>) {
		tree.send({ from: "bob", to: ["alice"], body: "fix the flaky widget test" });
		tree.send({ from: "a-longer-name", to: ["alice"], kind: "question", body: "日本語の件名です" });
		put("cur/1000.x,E=failed:2,F", "---\nfrom: bob\nkind: report\nsubject: failed\n---\nx");
	}

	test("is aligned, also with wide characters, with short ids and ages, and each line fits the terminal", async () => {
		const made = make();
		fill(made);
		const width = (text: string) => [...text].reduce((sum, char) => sum + (char > "\u2e7f" ? 2 : 1), 0);
		for (const columns of [60, 80, 200]) {
			const { code, out } = await made.tty(["inbox"], { columns });
			expect(code).toBe(0);
			const rows = lines(out);
			expect(rows).toHaveLength(3);
			for (const row of rows) expect(width(row)).toBeLessThanOrEqual(columns);
			expect(rows[0]).toMatch(/^[0-9a-z]{8} +\d+ s ago +queued +task +bob +fix/);
			const starts = ["fix", "日", "fai"].map((word, n) => {
				const row = rows[n] as string;
				return width(row.slice(0, row.lastIndexOf(word)));
			});
			expect(new Set(starts).size).toBe(1);
		}
	});

	test("keeps room for the subject on a narrow one, whatever is long before it", async () => {
		const made = make();
		fill(made);
		made.put(
			"new/1001.a-foreign-name-of-a-mail-tool-that-is-long.example.org",
			"---\nfrom: someone-with-a-long-name\nsubject: hello\n---\nx",
		);
		const { out } = await made.tty(["inbox"], { columns: 60 });
		expect(out).toContain("hel");
		for (const row of lines(out)) expect(row.length).toBeLessThanOrEqual(60);
	});

	test("says so when nothing waits", async () => {
		const { tty } = make();
		expect(uncoloured((await tty(["inbox"])).out)).toBe("nothing waits for alice\r\n");
	});

	test("is coloured by state; piped it is the same words without colour, separated by tabs", async () => {
		const made = make();
		fill(made);
		const [terminal, pipe] = await Promise.all([made.tty(["inbox"]), made.piped("inbox")]);
		expect(terminal.out).toMatch(new RegExp(`${ESC}\\[\\d+mqueued${ESC}\\[0m`));
		expect(terminal.out).toContain(`${ESC}[31mfailed${ESC}[0m`);
		expect(pipe.out).not.toContain("\x1b");
		expect(pipe.out.split("\n")[0]?.split("\t")).toHaveLength(6);
	});
});

describe("colour", () => {
	test("NO_COLOR, FORCE_COLOR=0 and TERM=dumb turn it off on a terminal", async () => {
		const { tree, tty } = make();
		tree.send({ from: "bob", to: ["alice"], body: "x" });
		for (const more of [{ NO_COLOR: "1" }, { FORCE_COLOR: "0" }, { TERM: "dumb" }] as NodeJS.ProcessEnv[])
			for (const args of [["inbox"], [], ["read", "--peek"], ["doctor"]]) expect((await tty(args, { more })).out).not.toContain("\x1b");
	});

	test("FORCE_COLOR turns it on in a pipe, and beats NO_COLOR; an empty NO_COLOR is as none", async () => {
		const { env, tree, tty } = make();
		tree.send({ from: "bob", to: ["alice"], body: "x" });
		const [forced, both, neither, empty] = await Promise.all([
			run([...cli, "doctor"], { env: { ...env, FORCE_COLOR: "1" } }),
			run([...cli, "doctor"], { env: { ...env, FORCE_COLOR: "1", NO_COLOR: "1" } }),
			run([...cli, "doctor"], { env }),
			tty(["doctor"], { more: { NO_COLOR: "" } }),
		]);
		expect(forced?.out).toContain("\x1b[32mok");
		expect(both?.out).toContain("\x1b[32mok");
		expect(neither?.out).not.toContain("\x1b");
		expect(empty?.out).toContain("\x1b[32mok");
	});

	test("the columns that a program reads stay plain whatever the environment says", async () => {
		const { env, tree } = make();
		tree.send({ from: "bob", to: ["alice"], body: "x" });
		for (const args of [["inbox"], ["nodes"], ["sent", "--as", "bob"], ["read", "--peek"], ["inbox", "--json"]]) {
			const [plain, forced] = await Promise.all([
				run([...cli, ...args], { env }),
				run([...cli, ...args], { env: { ...env, FORCE_COLOR: "1" } }),
			]);
			expect(forced.out).toBe(plain.out);
		}
	});
});

/** Everything that a terminal might obey: CSI, OSC, backspace, CR, bell, DEL, C1 as UTF-8, line separator, bidi override, NUL. */
const evil = "a\x1b[2J\x1b]0;title\x07b\bc\rd\x7fe\u009b31mf\u2028g\u202eh\u2066i\0j";
/** The same as it has to look. */
const shown = "a\\x1b[2J\\x1b]0;title\\x07b\\x08c\\x0dd\\x7fe\\x9b31mf\\u2028g\\u202eh\\u2066i\\x00j";

describe("control characters of peers are shown and never obeyed", () => {
	const header = (extra = "") =>
		`---\nfrom: ${JSON.stringify(`from ${evil}`)}\nkind: ${JSON.stringify(`kind ${evil}`)}\nsubject: ${JSON.stringify(`subject ${evil}`)}\nre: ${JSON.stringify(`re ${evil}`)}\n${extra}---\n`;

	test("in from, kind and subject of a list, on a terminal and in a pipe", async () => {
		const { put, piped, tty } = make();
		put("new/1000.x", `${header()}x`);
		const [terminal, pipe] = await Promise.all([tty(["inbox"], { columns: 1000 }), piped("inbox")]);
		expect(raw(terminal.out)).toEqual([]);
		expect(terminal.out).toContain(`subject ${shown}`);
		expect(controls(pipe.out)).toEqual([]);
		expect(pipe.out.split("\n")).toHaveLength(2);
		expect(pipe.out).toContain(`\tkind ${shown}\tfrom ${shown}\tsubject ${shown}\n`);
	});

	test("in a subject as long as the line: a cut leaves no half of an escape", async () => {
		const { put, tty } = make();
		for (let n = 0; n < 12; n++)
			put(`new/${1000 + n}.x`, `---\nfrom: b\nsubject: ${JSON.stringify("x".repeat(20 + n) + evil.repeat(3))}\n---\nx`);
		const { out } = await tty(["inbox"], { columns: 60 });
		expect(raw(out)).toEqual([]);
		for (const row of lines(out)) expect(row.length).toBeLessThanOrEqual(60);
	});

	test("in the body and the header of what is read on a terminal; its lines and tabs stay", async () => {
		const { put, tty } = make();
		put("new/1000.x", `${header()}first\tline ${evil}\nsecond line\n`);
		const { code, out } = await tty(["read"], { columns: 1000 });
		expect(code).toBe(0);
		expect(raw(out)).toEqual([]);
		expect(out).toContain(`first\tline ${shown}\r\nsecond line\r\n`);
		for (const word of ["from", "kind", "subject", "re"]) expect(uncoloured(out)).toContain(`${word} ${shown}`);
	});

	test("piped, what is read is the file's own bytes", async () => {
		const { root, put, piped } = make();
		put("new/1000.x", `${header()}body ${evil}\xff`);
		const bytes = fs.readFileSync(path.join(root, "nodes/alice/new/1000.x"));
		expect((await piped("read")).bytes.equals(bytes)).toBe(true);
	});

	test("in what a Node says of itself: status, holding, agent, cwd", async () => {
		const { put, piped, tty, goLive } = make();
		await goLive("api", { status: `status ${evil}`, holding: `holding ${evil}`, agent: `agent ${evil}`, cwd: `cwd ${evil}` });
		put("node.md", `---\nagent: ${JSON.stringify(evil)}\n---\n${evil}`);
		for (const args of [
			["nodes"],
			[],
			["send", "api", "hi"],
			["send", "@all", "hi"],
			["send", "api", "hi", "--wait", "--timeout", "1s"],
			["sent"],
			["doctor"],
			["leave", "api"],
			["read", "--as", "api"],
		]) {
			const [terminal, pipe] = await Promise.all([tty(args, { columns: 1000 }), piped(...args)]);
			expect([args, raw(terminal.out)]).toEqual([args, []]);
			expect([args, controls(pipe.out + pipe.err)]).toEqual([args, []]);
		}
		expect((await piped("nodes")).out).toContain(`status ${shown}`);
		expect((await piped("send", "api", "hi")).out).toContain(shown);
	});

	test("in the story of what was sent", async () => {
		const { tree, piped, tty, goLive } = make();
		await goLive("api", { status: `tool:${evil}` });
		const [outcome] = tree.send({ from: "alice", to: ["api"], subject: `subject ${evil}`, kind: "task", body: evil });
		if (!outcome || outcome.error) throw new Error("not sent");
		for (const args of [["sent"], ["sent", outcome.id]]) {
			const [terminal, pipe] = await Promise.all([tty(args, { columns: 1000 }), piped(...args)]);
			expect(raw(terminal.out)).toEqual([]);
			expect(controls(pipe.out)).toEqual([]);
		}
	});

	test("in file names, wherever an id is shown; piped, a path is the path", async () => {
		const { root, put, piped, tty } = make();
		const name = "1000.we\x1b[2Jird\u009b2J\rname";
		const fill = (place: string) => put(place, "---\nfrom: bob\n---\nx");
		const commands: [place: string, ...args: string[]][] = [
			[`new/${name}`, "inbox"],
			[`new/${name}`, "read", "--peek"],
			[`new/${name}`, "read", "--take"],
			[`new/${name}`, "mark", "1000.we", "read"],
			[`new/${name}`, "mark", "1000.we", "failed"],
			[`new/${name}`, "reply", "1000.we", "hi"],
			[`cur/${name}:2,S`, "read", "1000.we"],
			[`cur/${name}:2,S`, "inbox", "--all"],
			[`cur/${name},L=9999999999.aaaaaaaa:2,`, "read", "1000.we"],
			[`cur/${name},E=failed:2,F`, "doctor"],
			[`cur/${name},E=failed:2,F`, "inbox", "--failed"],
			[`new/${name}`, "leave", "alice"],
			[`new/${name}`, "read", "1000"],
		];
		for (const [place, ...args] of commands) {
			for (const dir of ["new", "cur"])
				for (const file of ls(root, "nodes/alice", dir)) fs.rmSync(path.join(root, "nodes/alice", dir, file));
			fill(place);
			fill(place.replace("1000.", "1000.2")); // so that a piece may fit several
			const terminal = await tty(args, { columns: 1000 });
			expect([args, raw(terminal.out)]).toEqual([args, []]);
			for (const dir of ["new", "cur"])
				for (const file of ls(root, "nodes/alice", dir)) fs.rmSync(path.join(root, "nodes/alice", dir, file));
			fill(place);
			const pipe = await piped(...args);
			if (args.includes("--take")) expect(pipe.out).toBe(`${path.join(root, "nodes/alice/cur", ls(root, "nodes/alice/cur")[0] ?? "")}\n`);
			else if (args[0] !== "read") expect([args, controls(pipe.out + pipe.err)]).toEqual([args, []]);
		}
	});

	test("in a line of `mark` in a pipe: one line whatever the file name holds", async () => {
		const { put, piped } = make();
		put("new/1000.a\nb\tc", "x");
		const { code, out } = await piped("mark", "1000.a", "read");
		expect(code).toBe(0);
		expect(out).toBe("read\t1000.a\\x0ab\\x09c\n");
	});

	test("in the reply and the failure report that `send --wait` shows on a terminal", async () => {
		const { root, env, tree } = make();
		const wait = async (answer: (id: string) => void) => {
			const child = start(["script", "-qec", command(["send", "bob", "hi", "--wait"], 1000), "/dev/null"], {
				env,
				stdio: ["ignore", "pipe", "ignore"],
			});
			let out = "";
			child.stdout?.on("data", (chunk) => {
				out += chunk;
			});
			const ended = new Promise((resolve) => child.on("close", resolve));
			answer(await until(() => ls(root, "nodes/bob/new")[0], "the question"));
			await ended;
			return out;
		};
		const answered = await wait((id) => {
			tree.node("bob").inbox.take()?.done(true);
			tree.send({ from: "bob", to: ["alice"], kind: "answer", body: `answer ${evil}`, re: id });
		});
		expect(raw(answered)).toEqual([]);
		expect(answered).toContain(`answer ${shown}`);
		const failed = await wait(() => tree.node("bob").inbox.take()?.fail(`reason ${evil}`));
		expect(raw(failed)).toEqual([]);
		expect(failed).toContain(`reason ${shown}`);
	});

	test("in what `watch` prints, on a terminal and in a pipe", async () => {
		const { root, env, put } = make();
		for (const argv of [
			["script", "-qec", command(["watch"], 1000), "/dev/null"],
			[...cli, "watch"],
			["script", "-qec", command(["watch", "@all"], 1000), "/dev/null"],
		]) {
			const child = start(argv, { env, stdio: ["ignore", "pipe", "pipe"] });
			let out = "";
			for (const stream of [child.stdout, child.stderr])
				stream?.on("data", (chunk) => {
					out += chunk;
				});
			let n = 0;
			await until(() => {
				fs.writeFileSync(path.join(root, "nodes/alice/tmp/x"), `${header()}x`);
				fs.renameSync(path.join(root, "nodes/alice/tmp/x"), path.join(root, `nodes/alice/new/${n++}.we\x1b[2Jird\rname`));
				return out.includes("subject");
			}, "the watch to print");
			child.kill();
			expect(out).toContain(`subject ${shown}`);
			expect(raw(out)).toEqual([]);
		}
		put("node.md", "");
	});

	test("in JSON too, where they are escaped and read back the same", async () => {
		const { put, piped, goLive } = make();
		await goLive("api", { status: evil });
		put("new/1000.x", `${header()}body ${evil}`);
		for (const args of [["inbox"], ["read", "--peek"], ["nodes"]]) {
			const { out } = await piped(...args, "--json");
			expect(controls(out)).toEqual([]);
			expect(JSON.stringify(JSON.parse(out))).toContain(JSON.stringify(evil).slice(1, -1));
		}
	});

	test("in the files that `doctor` is given", async () => {
		const { root, piped, tty } = make();
		const file = path.join(root, "draft\x1b[2J.md");
		fs.writeFileSync(file, `${header(`we: ${evil.replace("\r", "")}\n`)}x`);
		const [terminal, pipe] = await Promise.all([tty(["doctor", file], { columns: 1000 }), piped("doctor", file)]);
		for (const { out } of [terminal, pipe]) {
			expect(raw(out)).toEqual([]);
			expect(out).toContain(`subject ${shown}`);
		}
	});
});

describe("what is read on a terminal", () => {
	test("is rendered: who, what kind, which id, how old, the subject, and the body with an end of line", async () => {
		const { tree, tty } = make();
		const [outcome] = tree.send({
			from: "bob",
			to: ["alice"],
			kind: "question",
			priority: "urgent",
			subject: "Re: ports",
			body: "which one?\nthis?",
		});
		if (!outcome || outcome.error) throw new Error("not sent");
		const { code, out } = await tty(["read"]);
		expect(code).toBe(0);
		const text = lines(out);
		expect(text[0]).toContain("from bob");
		for (const fact of ["question", "urgent", /R(.{8})\./.exec(outcome.id)?.[1] as string, "ago"]) expect(text[0]).toContain(fact);
		expect(text.slice(1)).toEqual(["Re: ports", "", "which one?", "this?"]);
		expect(out).not.toContain("---");
	});

	test("has a CRLF body without a sign at each end of line, and shows a CR that stands elsewhere", async () => {
		const { tree, tty } = make();
		tree.send({ from: "bob", to: ["alice"], body: "one\r\ntw\ro\r\n" });
		expect(lines((await tty(["read"])).out).slice(-2)).toEqual(["one", "tw\\x0do"]);
	});

	test("is shown once and whole, wherever a piece of a long body ends", async () => {
		const { tree, tty } = make();
		const bodies = [
			["a character in two pieces", Buffer.from(`${"x".repeat(65_535)}\u00e9 end`), `${"x".repeat(65_535)}\u00e9 end`],
			[
				"an unfinished character at the end",
				Buffer.concat([Buffer.from(`${"x".repeat(65_535)}\n`), Buffer.from([0xe2])]),
				`${"x".repeat(65_535)}\n\ufffd`,
			],
			["an end of line in two pieces", Buffer.from(`${"x".repeat(65_535)}\r\nend`), `${"x".repeat(65_535)}\nend`],
			["a byte order mark", Buffer.from("\ufeffend"), "\\ufeffend"],
		] as const;
		for (const [what, body, text] of bodies) {
			tree.send({ from: "bob", to: ["alice"], body });
			const { out } = await tty(["read"], { columns: 1000 });
			expect([what, lines(out).slice(2).join("\n") === text]).toEqual([what, true]);
		}
	});
});

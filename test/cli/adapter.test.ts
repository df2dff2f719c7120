/** `xfer adapter`: a command for each Handoff. */
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { openTree } from "../../lib/index.ts";
import { cli, ls, onTestFinished, run, start, tempTree, until } from "../helpers.ts";

function make(more: NodeJS.ProcessEnv = {}) {
	const { root, home, env: base } = tempTree();
	const env = { ...base, XFER_DURABILITY: "none", ...more };
	const tree = openTree({ root, durable: false, env });
	for (const name of ["ci", "bob", "carol"]) tree.join(name);
	const send = (subject: string, more = {}) => {
		const [outcome] = tree.send({ from: "bob", to: ["ci"], subject, body: subject, ...more });
		if (!outcome || outcome.error) throw outcome?.error ?? new Error("not sent");
		return outcome.id;
	};
	/** Starts the daemon of the Node ci; `daemon.live()` returns when it is live. */
	const daemon = (...args: string[]) => {
		const child = start([...cli, "adapter", "ci", ...args], { env, cwd: home, stdio: ["ignore", "pipe", "pipe"] });
		const pid = child.pid as number;
		let out = "";
		let err = "";
		child.stdout?.on("data", (chunk) => {
			out += chunk;
		});
		child.stderr?.on("data", (chunk) => {
			err += chunk;
		});
		const ended = new Promise<number | string>((resolve) => child.on("close", (code, signal) => resolve(signal ?? code ?? -1)));
		const live = () => until(() => tree.node("ci").live()?.pid === pid, "the daemon to be live");
		return { child, pid, live, ended, out: () => out, err: () => err };
	};
	const once = (...args: string[]) => run([...cli, "adapter", "ci", "--once", ...args], { env, cwd: home });
	const file = (name: string) => path.join(home, name);
	/** The lines that handlers have written to `$HOME/log` so far. */
	const lines = () => (fs.existsSync(file("log")) ? fs.readFileSync(file("log"), "utf8").split("\n").slice(0, -1) : []);
	const states = () => ls(root, "nodes/ci/cur").map((name) => name.replace(/^[^,:]+/, ""));
	const reports = (to = "bob") =>
		ls(root, "nodes", to, "new").map((name) => fs.readFileSync(path.join(root, "nodes", to, "new", name), "utf8"));
	const log = () => fs.readFileSync(path.join(root, "nodes/ci/adapter.log"), "utf8");
	return { root, home, env, tree, send, daemon, once, file, lines, states, reports, log };
}

/** Whether a process is there, and not only as a zombie that nobody has looked after yet. */
function isThere(pid: number): boolean {
	try {
		return !/^State:\s+Z/m.test(fs.readFileSync(`/proc/${pid}/status`, "utf8"));
	} catch {
		return false;
	}
}

const say = (what: string) => `echo "${what}" >>"$HOME/log"`;

describe("a Handoff", () => {
	test("is text on standard input and fields in the environment, and read when the command exits with 0", async () => {
		const { root, send, once, file, states } = make();
		const id = send("hello", { body: "the text\0\r\nno end", thread: "1.first", re: "2.other", kind: "note", hops: 3 });
		const result = await once("--on-handoff", 'cat >body; env >env; test -f "$XFER_FILE"; ps -o pgid= -p $$ >group');
		expect(result).toMatchObject({ code: 0, out: "" });
		expect(fs.readFileSync(file("body"), "latin1")).toBe("the text\0\r\nno end");
		const env = fs.readFileSync(file("env"), "utf8").split("\n");
		const name = `${id},L=`;
		for (const line of ["ID", "FROM=bob", "KIND=note", "SUBJECT=hello", "RE=2.other", "THREAD=1.first", "ATTEMPT=1", "NODE=ci", "HOPS=4"])
			expect(env).toContain(line === "ID" ? `XFER_ID=${id}` : `XFER_${line}`);
		expect(env).toContain(`XFER_HOME=${root}`);
		expect(env.find((line) => line.startsWith("XFER_FILE="))).toContain(`XFER_FILE=${root}/nodes/ci/cur/${name}`);
		expect(env.find((line) => line.startsWith("XFER_INSTANCE="))).toMatch(/=[0-9a-z]{8}$/);
		expect(states()).toEqual([":2,S"]);
	});

	test("is given to a program behind -- without a shell, its flags untouched", async () => {
		const { send, once } = make();
		send("x", { body: "text" });
		const print = "process.stdin.pipe(process.stdout); console.log(process.argv.slice(1))";
		const { out, code } = await once("--", process.execPath, "-e", print, "--", "--limit", "$HOME", "a b");
		expect({ code, out }).toEqual({ code: 0, out: "[ '--limit', '$HOME', 'a b' ]\ntext" });
	});

	test("that arrives while the daemon is there wakes it; its presence says what it is and does", async () => {
		const { tree, send, daemon, lines, states } = make();
		const { child, ended, live } = daemon("--on-handoff", `${say("$XFER_SUBJECT")}; until test -e go; do sleep 0.05; done`);
		await live();
		await until(() => tree.node("ci").presence().agent === "adapter", "its presence");
		expect(tree.node("ci").presence()).toMatchObject({ status: "idle", wake: "now", pid: String(child.pid) });
		send("one");
		await until(() => tree.node("ci").presence().status?.startsWith("tool:"), "the status");
		expect(tree.node("ci").presence().status).toBe("tool:echo");
		fs.writeFileSync(path.join(tree.context.root, "../go"), "");
		await until(() => states().includes(":2,S"), "the mark");
		send("two");
		await until(() => lines().length === 2, "the second");
		await until(() => tree.node("ci").presence().status === "idle", "rest");
		child.kill("SIGTERM");
		expect(await ended).toBe(0);
		expect(lines()).toEqual(["one", "two"]);
		expect(tree.node("ci").live()).toBeUndefined();
	});

	test("that expired, was replaced, recalled or is over the limit is not run", async () => {
		const { root, tree, send, once, lines } = make({ XFER_MAX_BYTES: "1000" });
		const recalled = send("recalled");
		tree.node("bob").sent.recall(recalled);
		send("older", { key: "k" });
		send("expired", { expires: Date.now() - 1000 });
		fs.writeFileSync(path.join(root, "nodes/ci/new/1.large"), "x".repeat(2000));
		fs.mkdirSync(path.join(root, "nodes/ci/new/2.directory"));
		send("newer", { key: "k" });
		expect(await once("--on-handoff", say("$XFER_SUBJECT"))).toMatchObject({ code: 0, err: expect.stringContaining("2000 bytes") });
		expect(lines()).toEqual(["newer"]);
		expect(ls(root, "nodes/ci/new")).toEqual(["1.large", "2.directory"]);
	});

	test("that a mail reader moved to cur/ unread is run too", async () => {
		const { root, once, lines, states } = make();
		fs.writeFileSync(path.join(root, "nodes/ci/cur/1.mutt:2,"), "subject");
		expect((await once("--on-handoff", say("$XFER_SUBJECT"))).code).toBe(0);
		expect({ lines: lines(), states: states() }).toEqual({ lines: ["subject"], states: [":2,S"] });
	});

	test("after more than 8 replies without a person is not run: work fails, with a report, the rest is read", async () => {
		const { send, once, lines, states, reports } = make();
		send("runs", { hops: 8 });
		send("work", { hops: 9 });
		send("talk", { hops: 9, kind: "answer" });
		expect((await once("--reply", "--on-handoff", `${say("$XFER_SUBJECT $XFER_HOPS")}`)).code).toBe(0);
		expect(lines()).toEqual(["runs 9"]);
		expect(states()).toEqual([":2,S", ",E=failed:2,F", ":2,S"]);
		expect(reports()).toEqual([
			expect.stringMatching(/kind: report\nsubject: "failed: work"\n(.+\n)*hops: "10"\n(.+\n)*---\nnot run: 9 replies/),
		]);
	});
});

const hostile = `$(touch x) \`touch x\` ; touch x | ' " \\ %s -n --help ü`;

test("text never reaches a command line, and never breaks the environment", async () => {
	const { root, send, once, file } = make();
	const subject = `a\0b ${hostile}\nXFER_NODE=evil\r\u001b[2J\u2028\u202e end`;
	const body = Buffer.concat([Buffer.from(`${hostile}\0\n`), Buffer.alloc(1024 * 1024 - 100, "$(touch x)\n\0")]);
	const write = (name: string, header: object) => {
		const lines = Object.entries(header).map(([key, value]) => `${key}: ${JSON.stringify(value)}\n`);
		fs.writeFileSync(path.join(root, "nodes/ci/new", name), Buffer.concat([Buffer.from(`---\n${lines.join("")}---\n`), body]));
	};
	write("1.$(touch x)'\"", { from: hostile, kind: hostile, subject, re: hostile, thread: subject });
	const bad = Buffer.concat([Buffer.from("---\nsubject: "), Buffer.alloc(60_000, 0xff), Buffer.from("\n---\nbad")]);
	fs.writeFileSync(path.join(root, "nodes/ci/new/1.bad"), bad);
	send("third", { body: "\0" });
	const line =
		'cat >"body$XFER_ATTEMPT.$(ls | grep -c ^body)"; cat /proc/self/environ >env.$(ls | grep -c ^env); cat /proc/$$/cmdline >>cmdlines';
	expect(await once("--on-handoff", line)).toMatchObject({ code: 0 });
	expect(fs.readFileSync(file("body1.0"))).toEqual(body);
	expect([fs.readFileSync(file("body1.1"), "utf8"), fs.readFileSync(file("body1.2"), "utf8")]).toEqual(["bad", "\0"]);
	expect(ls(file("")).filter((name) => name === "x" || name.startsWith("touch"))).toEqual([]);
	const env = fs.readFileSync(file("env.0"), "utf8").split("\0");
	for (const key of ["XFER_FROM", "XFER_KIND", "XFER_RE"]) expect(env).toContain(`${key}=${hostile}`);
	expect(env).toContain(`XFER_SUBJECT=ab ${hostile} XFER_NODE=evil [2J  end`);
	expect(env).toContain("XFER_ID=1.$(touch x)'\"");
	expect(env.filter((entry) => entry.startsWith("XFER_NODE="))).toEqual(["XFER_NODE=ci"]);
	expect(new Set(fs.readFileSync(file("cmdlines"), "utf8").split("/bin/sh"))).toEqual(new Set(["", `\0-c\0${line}\0`]));
});

describe("the end of a handler", () => {
	test("with another code than 0 and 75 fails it at once: its sender gets the code and the last 2 KB of standard error", async () => {
		const { send, once, lines, states, reports } = make();
		const id = send("broken");
		const noise = "head -c 5000 /dev/zero | tr '\\0' e >&2; echo last words >&2";
		expect((await once("--on-handoff", `${say("$XFER_ATTEMPT")}; ${noise}; exit 3`)).code).toBe(0);
		expect({ lines: lines(), states: states() }).toEqual({ lines: ["1"], states: [",E=failed:2,F"] });
		const [report = "", ...others] = reports();
		expect(others).toEqual([]);
		expect(report.split("\n")).toEqual(expect.arrayContaining(["kind: report", `re: ${id}`, 'subject: "failed: broken"', "from: ci"]));
		expect(report).toMatch(/---\nexit code 3, after \d+ s\n\nThe end of its standard error:\n\ne+last words\n$/);
		expect(report.slice(report.indexOf("\n\ne")).length).toBe(2 + 2048);
	});

	test.each([
		["exit 75", "exit code 75"],
		["kill -9 $$", "ended by SIGKILL"],
		["sh -c 'kill -9 $$'; exit $?", "exit code 137"],
	])("%s: it is tried again, then fails; those of its sender wait, other senders' go on", async (how, words) => {
		const { send, once, lines, states, reports } = make();
		send("one");
		send("two");
		send("other", { from: "carol" });
		const line = `${say("$XFER_SUBJECT $XFER_ATTEMPT")}; if [ $XFER_SUBJECT = one ]; then ${how}; fi`;
		expect((await once("--attempts", "2", "--on-handoff", line)).code).toBe(0);
		expect(lines()).toEqual(["one 1", "other 1", "one 2", "two 1"]);
		expect(states()).toEqual([",A=1,E=failed:2,F", ":2,S", ":2,S"]);
		expect(reports()).toEqual([expect.stringContaining(`---\n${words}, at attempt 2, after`)]);
	});

	test("that is to be tried again counts on over restarts, waits in new/, and can be recalled there", async () => {
		const { root, tree, send, daemon, lines, states, reports } = make();
		const id = send("one");
		for (const attempt of [1, 2]) {
			const { child, ended } = daemon("--attempts", "3", "--on-handoff", `${say("$XFER_ATTEMPT")}; exit 75`);
			await until(() => ls(root, "nodes/ci/new").includes(`${id},A=${attempt}`), "its return");
			child.kill("SIGTERM");
			expect(await ended).toBe(0);
		}
		expect(lines()).toEqual(["1", "2"]);
		const third = daemon("--attempts", "9", "--on-handoff", `${say("$XFER_ATTEMPT")}; exit 75`);
		await until(() => ls(root, "nodes/ci/new").includes(`${id},A=3`), "its return");
		tree.node("bob").sent.recall(id);
		send("next", { kind: "note" });
		await until(() => lines().length > 3, "the next one");
		third.child.kill("SIGTERM");
		await third.ended;
		expect(lines()).toEqual(["1", "2", "3", "1"]);
		expect(states()).toEqual([",A=3,E=recalled:2,T"]);
		expect(reports()).toEqual([]);
	});

	test("comes by force when its time is up: TERM, then KILL, for all of its group", { timeout: 120_000 }, async () => {
		const { send, once, lines, states, reports } = make();
		send("one");
		const line = `trap '${say("term")}' TERM; echo $$ >>pids; sh -c 'trap "" TERM; echo $$ >>pids; while :; do sleep 0.1; done' & while :; do sleep 0.1; done`;
		const { code } = await once("--limit", "1s", "--attempts", "1", "--on-handoff", line);
		expect(code).toBe(0);
		expect(lines()).toEqual(["term"]);
		expect(states()).toEqual([",E=failed:2,F"]);
		expect(reports()).toEqual([expect.stringContaining("did not end within 1 s")]);
	});

	test("is not waited for by way of what it left in the background", async () => {
		const { home, send, once, states } = make();
		send("one");
		expect((await once("--on-handoff", "sleep 1000 & echo $! >pid")).code).toBe(0);
		expect(states()).toEqual([":2,S"]);
		const pid = Number(fs.readFileSync(path.join(home, "pid"), "utf8"));
		onTestFinished(() => {
			process.kill(pid, "SIGKILL");
		});
		expect(isThere(pid)).toBe(true); // started on purpose, and left alone
	});
});

describe("--reply", () => {
	test("hands the output back: an answer to a question, a report on a task; nothing for no output, a note, or a failure", async () => {
		const { send, once, states, reports } = make();
		const ids = [send("why?", { kind: "question" }), send("do it", { thread: "1.first" })];
		send("silent");
		send("note", { kind: "note" });
		send("fails");
		const line = 'case $XFER_SUBJECT in silent) ;; fails) echo no; exit 1;; *) printf "<%s>" "$XFER_SUBJECT";; esac';
		const { code, out } = await once("--reply", "--on-handoff", line);
		expect({ code, out }).toEqual({ code: 0, out: "<note>" });
		expect(states()).toEqual([":2,RS", ":2,RS", ":2,S", ":2,S", ",E=failed:2,F"]);
		const [answer, report, failure, ...others] = reports().map((text) => text.split("\n"));
		expect(others).toEqual([]);
		expect(answer).toEqual(expect.arrayContaining(["kind: answer", `re: ${ids[0]}`, `thread: ${ids[0]}`, 'hops: "1"', "<why?>"]));
		expect(report).toEqual(
			expect.arrayContaining(["kind: report", `re: ${ids[1]}`, "thread: 1.first", 'subject: "done: do it"', "<do it>"]),
		);
		expect(failure).toContain('subject: "failed: fails"');
	});

	test("is what send --wait waits for", async () => {
		const { env, daemon } = make();
		const { child, live, ended } = daemon("--reply", "--on-handoff", "tr a-z A-Z");
		await live();
		const result = await run([...cli, "send", "ci", "--as", "bob", "--wait", "hello"], { env });
		expect(result).toMatchObject({ code: 0, out: "HELLO" });
		child.kill("SIGINT");
		expect(await ended).toBe(0);
	});

	test("cuts what is over the limit, and leaves alone what the handler has answered by itself", async () => {
		const { send, once, states, reports } = make({ XFER_MAX_BYTES: "1000" });
		send("long");
		send("itself", { kind: "question" });
		const own = `${cli.map((word) => `'${word}'`).join(" ")} reply "$XFER_ID" own answer`;
		expect((await once("--reply", "--on-handoff", `if [ $XFER_SUBJECT = long ]; then yes | head -c 5000; else ${own}; fi`)).code).toBe(0);
		expect(states()).toEqual([":2,RS", ":2,RS"]);
		const [long = "", itself = "", ...others] = reports();
		expect(others).toEqual([]);
		const body = long.slice(long.indexOf("\n---\n") + 5);
		expect(body.length).toBe(1000);
		expect(body).toMatch(/^(y\n)+y?\n\[cut: it has 5000 bytes, the limit is 1000\]\n$/);
		expect(itself).toMatch(/from: ci\n(.+\n)*hops: "1"\n(.+\n)*---\nown answer$/);
	});

	test("answers once, though the daemon that answered was killed before it marked; what a handler told of its progress is no answer", async () => {
		const { tree, send, once, lines, states, reports } = make();
		const told = { work: "done: work", unfinished: "half way" };
		for (const [subject, words] of Object.entries(told)) {
			tree.send({ from: "ci", to: ["bob"], kind: "report", subject: words, body: "x", re: send(subject) });
			const { maildir } = tree.node("ci").inbox;
			for (const message of maildir.list("new", (name) => !name.includes(",A="))) maildir.release(maildir.take(message) ?? message); // in hand once
		}
		expect((await once("--reply", "--on-handoff", `${say("$XFER_SUBJECT")}; echo again`)).code).toBe(0);
		expect({ lines: lines(), states: states() }).toEqual({ lines: ["unfinished"], states: [",A=1:2,RS", ",A=1:2,RS"] });
		expect(reports().length).toBe(3);
	});
});

describe("the daemon", () => {
	test("is one for a name: the second exits with 5, and says who is there", async () => {
		const { env, daemon } = make();
		const first = daemon("--on-handoff", "cat");
		await first.live();
		expect(await run([...cli, "adapter", "ci", "--on-handoff", "cat"], { env })).toMatchObject({
			code: 5,
			out: "",
			err: expect.stringContaining(`ci is live, held by process ${first.pid} `),
		});
		first.child.kill("SIGTERM");
		expect(await first.ended).toBe(0);
	});

	test.each(["SIGTERM", "SIGINT"] as const)("waits at %s for what runs, and leaves queued what does not", async (signal) => {
		const { root, file, send, daemon, lines, states } = make();
		const ids = ["one", "two"].map((subject) => send(subject));
		const { child, ended, err } = daemon(
			"--on-handoff",
			`${say("begin $XFER_SUBJECT")}; until test -e go; do sleep 0.05; done; ${say("end")}`,
		);
		await until(() => lines().length === 1, "the first");
		child.kill(signal);
		await until(() => err().includes("ends when what runs has ended"), "word of it");
		fs.writeFileSync(file("go"), "");
		expect(await ended).toBe(0);
		expect(lines()).toEqual(["begin one", "end"]);
		expect(states()).toEqual([":2,S"]);
		expect(ls(root, "nodes/ci/new")).toEqual([ids[1]]);
		expect(ls(root, "nodes/ci/live.lock")).toEqual([]);
	});

	test("ends what runs at a second signal: it is queued again", async () => {
		const { root, file, send, daemon, lines } = make();
		const id = send("one");
		const { child, ended, err } = daemon("--on-handoff", `echo $$ >pid; ${say("begin")}; exec sleep 1000`);
		await until(() => lines().length === 1, "the first");
		child.kill("SIGTERM");
		await until(() => err().includes("ends when what runs has ended"), "word of it");
		child.kill("SIGTERM");
		expect(await ended).toBe(0);
		expect(ls(root, "nodes/ci/new")).toEqual([`${id},A=1`]);
		expect(isThere(Number(fs.readFileSync(file("pid"), "utf8")))).toBe(false);
	});

	test("that is killed takes its handlers with it, and the next one tries again what was in hand, at once", async () => {
		const { root, file, send, daemon, lines, once } = make();
		const id = send("one");
		const { child, ended } = daemon("--on-handoff", `${say("begin $XFER_ATTEMPT")}; echo $$ >pid; sleep 1000; ${say("never")}`);
		await until(() => fs.existsSync(file("pid")) && fs.readFileSync(file("pid"), "utf8"), "the handler");
		const pid = Number(fs.readFileSync(file("pid"), "utf8"));
		child.kill("SIGKILL");
		expect(await ended).toBe("SIGKILL");
		await until(() => !isThere(pid), "the end of the handler");
		expect(ls(root, "nodes/ci/cur")).toEqual([expect.stringContaining(`${id},L=`)]);
		expect((await once("--on-handoff", say("again $XFER_ATTEMPT"))).code).toBe(0);
		expect(lines()).toEqual(["begin 1", "again 2"]);
	});

	test("whose name was taken from it ends what runs, marks nothing, and exits with 5", async () => {
		const { root, file, send, daemon, lines } = make();
		const id = send("one");
		const { ended, err } = daemon("--on-handoff", `echo $$ >pid; ${say("begin")}; exec sleep 1000`);
		await until(() => lines().length === 1, "the handler");
		const before = ls(root, "nodes/ci/cur");
		fs.rmSync(path.join(root, "nodes/ci/live.lock", ls(root, "nodes/ci/live.lock")[0] as string)); // as who takes over a stale one does
		expect(await ended).toBe(5);
		expect(err()).toContain("the live lock was lost");
		expect(isThere(Number(fs.readFileSync(file("pid"), "utf8")))).toBe(false);
		expect(ls(root, "nodes/ci/cur")).toEqual(before);
		expect(before).toEqual([expect.stringContaining(`${id},L=`)]);
	});

	test("says each thing on one line, whatever a file's name holds", async () => {
		const { root, once, log } = make();
		fs.writeFileSync(path.join(root, "nodes/ci/new/1.x\nforged"), "---\nfrom: bob\n---\nx");
		const { err } = await once("--on-handoff", "cat >/dev/null");
		expect(err).toContain("forged");
		for (const text of [err, log()]) expect(text).not.toMatch(/^forged/m);
	});

	test("is not held up by who does not read what it prints, and a slow reader gets all of it", async () => {
		const { root, home, env, tree, send, states } = make();
		execFileSync("mkfifo", [path.join(home, "fifo")]);
		const reader = fs.openSync(path.join(home, "fifo"), fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
		onTestFinished(() => fs.closeSync(reader));
		const adapter = (to: string, ...args: string[]) => ["sh", "-c", `exec "$@" ${to}`, "sh", ...cli, "adapter", "ci", ...args];
		const child = start(adapter(">fifo 2>&1", "--on-handoff", "head -c 900000 /dev/zero"), { env, cwd: home, stdio: "ignore" });
		const ended = new Promise((resolve) => child.on("close", resolve));
		for (let n = 0; n < 3; n++) send(`number ${n}`);
		await until(() => states().filter((state) => state === ":2,S").length === 3, "the end of the third");
		expect(tree.node("ci").live()).toBeDefined();
		child.kill("SIGTERM");
		expect(await ended).toBe(0);
		const bytes = Buffer.alloc(200);
		expect(bytes.toString("utf8", 0, fs.readSync(reader, bytes))).toMatch(/^xfer: ci is live/);

		send("slow");
		const line = adapter("| { sleep 4; wc -c; }", "--once", "--on-handoff", "head -c 9000000 /dev/zero").map((word) =>
			word.replace("exec ", ""),
		);
		expect((await run(line, { env, cwd: home })).out.trim()).toBe("9000000"); // later than a daemon that is told to end would wait
		expect(ls(root, "nodes/ci/new")).toEqual([]);
	});

	test("renews the leases of what takes longer", async () => {
		const { root, file, send, daemon, lines, states } = make({ XFER_LEASE: "1" });
		send("one");
		const { child, ended } = daemon("--on-handoff", `${say("begin")}; until test -e go; do sleep 0.05; done`);
		const leases = new Set<string>();
		await until(() => {
			for (const name of ls(root, "nodes/ci/cur")) leases.add(name);
			return leases.size > 3;
		}, "renewals");
		fs.writeFileSync(file("go"), "");
		await until(() => states().includes(":2,S"), "the mark");
		child.kill("SIGTERM");
		expect(await ended).toBe(0);
		expect(lines()).toEqual(["begin"]);
	});

	test("runs several at a time, those of one sender in order", async () => {
		const { file, send, daemon, lines } = make();
		for (const subject of ["b1", "b2"]) send(subject);
		for (const subject of ["c1", "c2"]) send(subject, { from: "carol" });
		const line = `${say("begin $XFER_SUBJECT")}; until test -e go; do sleep 0.05; done; ${say("end $XFER_SUBJECT")}`;
		const { child, ended } = daemon("--concurrency", "3", "--on-handoff", line);
		await until(() => lines().length === 2, "two at a time");
		expect(lines().sort()).toEqual(["begin b1", "begin c1"]);
		fs.writeFileSync(file("go"), "");
		await until(() => lines().length === 8, "all of them");
		for (const sender of ["b", "c"])
			expect(lines().filter((line) => line.includes(` ${sender}`))).toEqual(
				[1, 2].flatMap((n) => [`begin ${sender}${n}`, `end ${sender}${n}`]),
			);
		child.kill("SIGTERM");
		expect(await ended).toBe(0);
	});

	test("tells a sender late of a failure that it was killed before telling of", async () => {
		const { tree, send, once, reports } = make();
		const id = send("broken");
		const { inbox } = tree.node("ci");
		await tree.node("ci").setPresence({ agent: "adapter" });
		const message = inbox.maildir.get(id);
		if (message) inbox.maildir.end(message, "failed");
		for (let n = 0; n < 2; n++) expect((await once("--on-handoff", "cat")).code).toBe(0);
		expect(reports()).toEqual([expect.stringMatching(new RegExp(`subject: "failed: broken"\\n(.+\\n)*re: ${id}\\n`))]);
	});

	test("tells a sender late of a failure that could not be told at once", { timeout: 120_000 }, async () => {
		const { root, send, daemon, states, reports } = make();
		const bob = path.join(root, "nodes/bob/tmp");
		fs.rmSync(bob, { recursive: true });
		fs.writeFileSync(bob, ""); // nothing can be delivered there
		const { live, child, ended } = daemon("--on-handoff", "echo why not >&2; exit 3");
		await live();
		send("broken");
		await until(() => states()[0] === ",E=failed:2,F", "the failure");
		fs.rmSync(bob);
		fs.mkdirSync(bob);
		await until(() => reports().length > 0, "the report");
		expect(reports()).toEqual([expect.stringMatching(/subject: "failed: broken"\n(.+\n)*---\n.*exit code 3, .*why not/)]);
		child.kill("SIGTERM");
		expect(await ended).toBe(0);
	});

	test("has a log, and with --json a document a line", async () => {
		const { send, once, log } = make();
		const id = send("one");
		send("two");
		const { code, out } = await once("--json", "--on-handoff", "cat; [ $XFER_SUBJECT = one ] || exit 4");
		expect(code).toBe(0);
		const documents = out
			.trimEnd()
			.split("\n")
			.map((line) => JSON.parse(line));
		expect(documents.map(({ schema, node, event }) => `${schema} ${node} ${event}`)).toEqual(
			["live", "started", "done", "started", "failed", "ended"].map((event) => `xfer.adapter/1 ci ${event}`),
		);
		expect(documents[2]).toMatchObject({ id, from: "bob", kind: "task", subject: "one", attempt: 1, how: "itself", code: 0 });
		expect(log()).toMatch(
			/^\d{4}-\S+Z live ci is live.*\n(.+\n)*\S+ failed \S+ task from bob: exit code 4, after 0 s\n(.+\n)*\S+ ended ci has ended\n$/,
		);
	});

	test("is an instance of its own, not bound to the agent that started it", async () => {
		const { env, send, once, file } = make();
		Object.assign(env, { XFER_INSTANCE: "0123abcd", XFER_NODE: "bob", XFER_HOPS: "20" });
		send("one");
		expect((await once("--reply", "--on-handoff", "env >env")).code).toBe(0);
		const lines = fs.readFileSync(file("env"), "utf8").split("\n");
		expect(lines).toEqual(expect.arrayContaining(["XFER_NODE=ci", "XFER_HOPS=1"]));
		expect(lines).not.toContain("XFER_INSTANCE=0123abcd");
	});
});

test.each([
	[[], /adapter needs NAME/],
	[["ci"], /nothing to run .*--on-handoff/],
	[["ci", "--on-handoff", "cat", "--", "cat"], /which of them/],
	[["ci", "cat"], /"cat".* goes behind --/],
	[["ci", "--"], /no command behind --/],
	[["--", "ci", "cat"], /no name before the --/],
	[["ci", "--", "no-such-program-here"], /no program "no-such-program-here" on the PATH/],
	[["ci", "--on-handoff", "cat", "--attempts", "0"], /--attempts 0 .*from 1 to 1000/],
	[["ci", "--on-handoff", "cat", "--concurrency", "x"], /--concurrency x .*from 1 to 256/],
	[["ci", "--on-handoff", "cat", "--limit", "10"], /--limit 10 is not a duration/],
	[["ci", "--as", "bob", "--on-handoff", "cat"], /this is ci/],
	[["Not a name", "--on-handoff", "cat"], /name/],
])("refuses %j with exit 2, and makes no Node", async (args, message) => {
	const { env, root } = tempTree();
	const result = await run([...cli, "adapter", ...args], { env });
	expect(result).toMatchObject({ code: 2, out: "", err: expect.stringMatching(message) });
	expect(ls(root)).toEqual([]);
});

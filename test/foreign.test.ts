/**
 * Foreign maildir tools on our Inboxes: mblaze, safecat, and Python's `mailbox` see what we deliver and mark, and we see what they do.
 * Neither loses anything to the other.
 */
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { openTree } from "../lib/index.ts";
import { cli, ls, run, tempTree } from "./helpers.ts";

const has = (program: string, ...args: string[]) => spawnSync(program, args, { input: "" }).error === undefined;
const mblaze = has("mlist");
const safecat = has("safecat");
const python = has("python3", "-c", "import mailbox");

const future = Math.floor(Date.now() / 1000) + 100_000;

function make() {
	const { root, home, env } = tempTree();
	const tree = openTree({ root, durable: false });
	for (const name of ["alice", "bob"]) tree.join(name);
	fs.mkdirSync(path.join(home, ".mblaze"));
	fs.writeFileSync(path.join(home, ".mblaze/seq"), ""); // else it complains that it has none
	const dir = path.join(root, "nodes/alice");
	const mine = { ...env, XFER_NODE: "alice", MBLAZE: path.join(home, ".mblaze") };
	const xfer = (...args: string[]) => run([...cli, ...args], { env: mine });
	/** Runs a shell script with the Inbox as $1; what it prints. */
	const sh = async (script: string, input = "") => {
		const { code, out, err } = await run(["sh", "-euc", script, "sh", dir], { env: mine, input });
		expect([code, err]).toEqual([0, ""]);
		return out;
	};
	/** Runs Python with `inbox` open; what it prints, as JSON. Python itself may need the real HOME. */
	const py = async (script: string) => {
		const whole = `import json, mailbox, os, sys\ninbox = mailbox.Maildir(sys.argv[1], create=False)\n${script}`;
		const { code, out, err } = await run(["python3", "-c", whole, dir], { env: { ...mine, HOME: process.env.HOME } });
		expect([code, err]).toEqual([0, ""]);
		return out === "" ? undefined : JSON.parse(out);
	};
	const send = (body: string | Uint8Array, more = {}) => {
		const [outcome] = tree.send({ from: "bob", to: ["alice"], body, ...more });
		if (!outcome || outcome.error) throw outcome?.error ?? new Error("not sent");
		return outcome.id;
	};
	/** Id and state of all, as the CLI lists them. */
	const states = async () =>
		Object.fromEntries(
			(await xfer("inbox", "--all", "--limit", "0")).out
				.split("\n")
				.slice(0, -1)
				.map((line) => line.split("\t"))
				.map(([id, , state]) => [id, state]),
		);
	const names = (place: string) => ls(dir, place);
	return { root, home, dir, env: mine, tree, xfer, sh, py, send, states, names };
}

/** One Handoff in each state; their ids by state. */
function inEachState({ dir, send }: ReturnType<typeof make>) {
	const ids: Record<string, string> = {};
	for (const [state, name] of Object.entries({
		queued: "",
		taken: `,L=${future}.aaaaaaaa:2,`,
		read: ":2,S",
		answered: ":2,RS",
		failed: ",E=failed:2,F",
		recalled: ",E=recalled:2,T",
		expired: ",E=expired:2,T",
		replaced: ",E=replaced:2,T",
		unreadable: ",E=unreadable:2,F",
	})) {
		const id = send(`body of ${state}`, { subject: state });
		ids[state] = id;
		if (name) fs.renameSync(path.join(dir, "new", id), path.join(dir, "cur", `${id}${name}`));
	}
	return ids as Record<"queued" | "taken" | "read" | "answered" | "failed" | "recalled" | "expired" | "replaced" | "unreadable", string>;
}

describe.skipIf(!mblaze)("mblaze", () => {
	test("lists what we delivered and marked, by directory and by flag", async () => {
		const made = make();
		const ids = inEachState(made);
		const list = async (options: string) =>
			(await made.sh(`mlist ${options} "$1"`))
				.split("\n")
				.slice(0, -1)
				.map((file) => path.basename(file).replace(/[,:].*/, ""))
				.sort();
		const of = (...states: (keyof typeof ids)[]) => states.map((state) => ids[state]).sort();
		expect(await list("")).toEqual(Object.values(ids).sort());
		expect(await list("-N")).toEqual(of("queued"));
		expect(await list("-S")).toEqual(of("read", "answered"));
		expect(await list("-R")).toEqual(of("answered"));
		expect(await list("-F")).toEqual(of("failed", "unreadable"));
		expect(await list("-T")).toEqual(of("recalled", "expired", "replaced"));
		expect(await list("-C -sft")).toEqual(of("taken"));
	});

	test("shows our headers", async () => {
		const { sh, send } = make();
		send("x", { subject: "fix the widget", kind: "question" });
		expect(await sh(`mlist "$1" | mscan -f '%s'`)).toContain("fix the widget");
		for (const [field, value] of [
			["subject", "fix the widget"],
			["kind", "question"],
			["to", "alice"],
		])
			expect(await sh(`mlist "$1" | mhdr -h ${field}`)).toBe(`${value}\n`);
		const shown = await sh(`mshow $(mlist "$1")`);
		expect(shown).toContain("To: alice");
	});

	test("minc moves what is new to cur/: it stays queued, in order, with its count, and is read and recalled as before", async () => {
		const { dir, sh, xfer, send, states, names } = make();
		const ids = [send("one"), send("two"), send("three"), send("four")] as const;
		fs.renameSync(path.join(dir, "new", ids[1]), path.join(dir, "new", `${ids[1]},A=3`));
		await sh(`minc "$1" >/dev/null`);
		expect(names("new")).toEqual([]);
		expect(names("cur")).toEqual([`${ids[0]}:2,`, `${ids[1]},A=3:2,`, `${ids[2]}:2,`, `${ids[3]}:2,`]);
		expect(await states()).toEqual(Object.fromEntries(ids.map((id) => [id, "queued"])));
		expect((await xfer("sent", ids[0], "--as", "bob")).out).toMatch(/^queued /m);
		expect(await xfer("recall", ids[2], "--as", "bob")).toMatchObject({ code: 0 });
		const taken = await xfer("read", "--take");
		expect(path.basename(taken.out.trimEnd())).toMatch(new RegExp(`^${ids[0]},L=\\d+\\.[0-9a-z]{8}:2,$`));
		expect(await xfer("mark", taken.out.trimEnd(), "new")).toMatchObject({ code: 0 });
		expect(names("new")).toEqual([`${ids[0]},A=1`]);
		const { out } = await xfer("read", "--all");
		for (const text of ["one", "two", "four"]) expect(out).toContain(`---\n${text}`);
		expect(out).not.toContain("three");
		expect(await states()).toEqual({ [ids[0]]: "read", [ids[1]]: "read", [ids[2]]: "recalled", [ids[3]]: "read" });
		expect(names("cur")).toContain(`${ids[1]},A=3:2,S`);
	});

	test.each([
		["S", "read"],
		["R", "answered"],
		["RS", "answered"],
		["T", "recalled"],
		["ST", "read"],
		["F", "queued"],
		["P", "queued"],
		["D", "queued"],
	])("mflag -%s after minc makes it %s", async (flags, state) => {
		const { sh, xfer, send, states, names } = make();
		const id = send("one");
		await sh(`minc "$1" >/dev/null; mflag -${flags} $(mlist "$1")`);
		expect(names("cur")).toEqual([`${id}:2,${flags}`]);
		expect(await states()).toEqual({ [id]: state });
		const read = await xfer("read");
		if (state !== "queued") expect(read.code).toBe(3);
		else {
			expect(read.out).toMatch(/---\none$/);
			expect(names("cur")).toEqual([`${id}:2,${[...flags, "S"].sort().join("")}`]); // what we don't know survives
		}
	});

	test("mflag -s gives a read one back to be read again", async () => {
		const { sh, xfer, send, states } = make();
		const id = send("one");
		await xfer("read");
		await sh(`mflag -s $(mlist "$1")`);
		expect(await states()).toEqual({ [id]: "queued" });
		expect((await xfer("read")).out).toMatch(/---\none$/);
	});

	test("mflag on what is in hand, failed or recalled changes no state and loses no lease", async () => {
		const made = make();
		const ids = inEachState(made);
		const { sh, xfer, states, names } = made;
		const { out } = await xfer("read", "--take"); // the queued one
		await sh(`mlist -C "$1" | mflag -FP`);
		expect(await states()).toEqual({ ...Object.fromEntries(Object.entries(ids).map(([state, id]) => [id, state])), [ids.queued]: "taken" });
		expect(await xfer("mark", out.trimEnd(), "read")).toMatchObject({ code: 0, err: "" });
		expect(names("cur")).toContain(`${ids.queued}:2,FPS`);
	});

	test("mdeliver: a mail without our header is all body from unknown, byte for byte", async () => {
		const { sh, xfer, names } = make();
		const mail = "From: Carl <carl@example.org>\nSubject: hello\n\n--- not ours\n\nbody\r\nno end";
		await sh(`mdeliver "$1"`, mail);
		const { handoffs } = JSON.parse((await xfer("inbox", "--json")).out);
		expect(handoffs).toMatchObject([
			{ state: "queued", from: "unknown", kind: "task", subject: "From: Carl <carl@example.org>", size: Buffer.byteLength(mail) },
		]);
		expect((await xfer("read")).out).toBe(mail);
		expect(names("cur")).toEqual([expect.stringMatching(/:2,S$/)]);
	});

	test("mdeliver: a Handoff's text keeps its header, and can be answered", async () => {
		const { root, sh, xfer } = make();
		await sh(`mdeliver "$1"`, "---\nfrom: bob\nkind: question\nsubject: Re: x #1 [y]\n---\n\nwhich port?\n");
		const [line = ""] = (await xfer("inbox")).out.split("\n");
		const [id = "", , ...rest] = line.split("\t");
		expect(rest).toEqual(["queued", "question", "bob", "Re: x #1 [y]"]);
		expect(await xfer("reply", id, "8080")).toMatchObject({ code: 0 });
		expect(ls(root, "nodes/bob/new")).toHaveLength(1);
	});

	test("mdeliver with flags: into new/ it is queued whatever they say, into cur/ they count", async () => {
		const { sh, xfer, states, names } = make();
		await sh(`mdeliver -X S "$1"; mdeliver -X FS "$1" </dev/null`, "seen in new");
		await sh(`mdeliver -c "$1"`, "unread in cur");
		await sh(`mdeliver -c -X S "$1"`, "seen in cur");
		expect(Object.values(await states()).sort()).toEqual(["queued", "queued", "queued", "read"]);
		const { out } = await xfer("read", "--all");
		expect(out).toContain("seen in new");
		expect(out).toContain("unread in cur");
		expect(out).not.toContain("seen in cur");
		expect(names("new")).toEqual([]);
		expect(names("cur").every((name) => /:2,F?S$/.test(name))).toBe(true);
	});

	test("mrefile takes what was read to an archive, and brings it back: no text is lost, and flags count", async () => {
		const { home, dir, sh, xfer, send, states, names } = make();
		const archive = path.join(home, "archive");
		for (const part of ["new", "cur", "tmp"]) fs.mkdirSync(path.join(archive, part), { recursive: true });
		const ids = [send("one"), send("two")] as const;
		await xfer("read");
		await sh(`mlist -S "$1" | mrefile "$HOME/archive"`);
		expect(await states()).toEqual({ [ids[1]]: "queued" });
		expect((await xfer("sent", ids[0], "--as", "bob")).out).toMatch(/^gone/m);
		await sh(`mlist "$HOME/archive" | mrefile -k "$1"`);
		const [back = ""] = names("cur");
		expect(Object.values(await states()).sort()).toEqual(["queued", "read"]);
		expect(fs.readFileSync(path.join(dir, "cur", back), "utf8")).toMatch(/---\none$/);
		expect(ls(archive, "cur")).toHaveLength(1);
	});

	test("mdeliver, minc and mflag race with our takers and senders: each text is read exactly once, and none is lost", {
		timeout: 120_000,
	}, async () => {
		const { sh, tree, env, send, states, names } = make();
		const count = 30;
		const foreign = sh(`i=0; while [ $i -lt ${count} ]; do i=$((i+1)); printf 'foreign-%s.' $i | mdeliver "$1"; done`);
		const moves = sh(
			`i=0; while [ $i -lt 60 ]; do i=$((i+1)); minc "$1" >/dev/null 2>&1 || :; mlist -C "$1" | mflag -P 2>/dev/null || :; done`,
		);
		const texts: string[] = [];
		const errors: string[] = [];
		const read = async () => {
			const { code, out, err } = await run([...cli, "read", "--all"], { env });
			if (code !== 0 && code !== 3) errors.push(err);
			texts.push(out);
		};
		let open = true;
		const readers = [1, 2].map(async () => {
			while (open) await read();
		});
		const inbox = openTree({ root: tree.context.root, durable: false }).node("alice").inbox;
		for (let n = 1; n <= count; n++) {
			send(`ours-${n}.`);
			const taken = n % 3 === 0 ? inbox.take() : undefined;
			if (taken) {
				await new Promise((resolve) => setTimeout(resolve, 1));
				texts.push(taken.body.toString());
				taken.done();
			}
		}
		await Promise.all([foreign, moves]);
		open = false;
		await Promise.all(readers);
		await read(); // what the last move left in cur/ unread
		expect(errors).toEqual([]);
		expect(names("new")).toEqual([]);
		expect(names("cur").filter((name) => !/:2,P?S$/.test(name))).toEqual([]); // none in a hand still, none unread
		expect(names("cur")).toHaveLength(2 * count);
		const all = texts.join("\n");
		for (let n = 1; n <= count; n++)
			for (const text of [`ours-${n}.`, `foreign-${n}.`]) expect([text, all.split(text).length - 1]).toEqual([text, 1]);
		expect(new Set(Object.values(await states()))).toEqual(new Set(["read"]));
	});
});

describe.skipIf(!safecat)("safecat", () => {
	test("delivers: its text is read byte for byte, with a header or without", async () => {
		const { dir, env, xfer, names } = make();
		const texts = [Buffer.from([0, 0xff, 10, 13, 10, 0x80]), Buffer.from("---\nfrom: bob\nkind: note\n---\nhi\r\n")];
		for (const text of texts) {
			const result = await run(["safecat", path.join(dir, "tmp"), path.join(dir, "new")], { env, input: text });
			expect(result.code).toBe(0);
			expect(names("new")).toEqual([result.out.trim()]);
			const listed = JSON.parse((await xfer("inbox", "--json")).out).handoffs[0];
			expect(listed).toMatchObject(text === texts[0] ? { from: "unknown", kind: "task" } : { from: "bob", kind: "note", subject: "hi" });
			expect((await xfer("read")).bytes.equals(text)).toBe(true);
		}
		expect(names("tmp")).toEqual([]);
	});
});

describe.skipIf(!python)("Python's mailbox", () => {
	test("sees our Handoffs, where they are, with our flags and byte for byte", async () => {
		const made = make();
		const ids = inEachState(made);
		const seen = await made.py(
			`print(json.dumps({key: [m.get_subdir(), m.get_flags(), inbox.get_bytes(key).decode()] for key, m in inbox.items()}))`,
		);
		const byId = Object.fromEntries(
			Object.entries(seen as Record<string, [string, string, string]>).map(([key, value]) => [key.replace(/,.*/, ""), value]),
		);
		expect(Object.keys(byId).sort()).toEqual(Object.values(ids).sort());
		const flags = {
			queued: "",
			taken: "",
			read: "S",
			answered: "RS",
			failed: "F",
			recalled: "T",
			expired: "T",
			replaced: "T",
			unreadable: "F",
		};
		for (const [state, flag] of Object.entries(flags)) {
			const [subdir, found, text] = byId[ids[state as keyof typeof ids]] ?? [];
			expect([state, subdir, found]).toEqual([state, state === "queued" ? "new" : "cur", flag]);
			expect(text?.startsWith("---\nfrom: bob\n")).toBe(true);
			expect(text?.endsWith(`\n---\nbody of ${state}`)).toBe(true);
		}
	});

	test("delivers: a mail is all body from unknown, a Handoff's text keeps its header, and flags in cur/ count", async () => {
		const { xfer, py } = make();
		await py(`
inbox.add(b"From: carl@example.org\\nSubject: hello\\n\\nbody\\n")
inbox.add(b"---\\nfrom: bob\\nkind: question\\n---\\nwhich port?\\n")
for flags in ["S", "RS", "T", "F", ""]:
    message = mailbox.MaildirMessage(b"Subject: in cur, flags=%s\\n\\nx" % flags.encode())
    message.set_subdir("cur")
    message.set_flags(flags)
    inbox.add(message)
`);
		const { handoffs } = JSON.parse((await xfer("inbox", "--all", "--json")).out);
		const seen = handoffs.map(({ state, from, kind, subject }: Record<string, string>) => [subject, state, from, kind].join("; ")).sort();
		expect(seen).toEqual([
			"From: carl@example.org; queued; unknown; task",
			"Subject: in cur, flags=; queued; unknown; task",
			"Subject: in cur, flags=F; queued; unknown; task",
			"Subject: in cur, flags=RS; answered; unknown; task",
			"Subject: in cur, flags=S; read; unknown; task",
			"Subject: in cur, flags=T; recalled; unknown; task",
			"which port?; queued; bob; question",
		]);
		const { out } = await xfer("read", "--all");
		for (const text of ["body\n", "which port?\n", "in cur, flags=F", "in cur, flags=\n"]) expect(out).toContain(text);
		expect((await xfer("read")).code).toBe(3);
	});

	test("marks by renaming: what it says is the state, and the bytes stay", async () => {
		const { dir, send, py, xfer, states, names } = make();
		const ids = ["S", "R", "T", "F", "P", ""].map((flags) => send(`flags ${flags}`));
		await py(`
for key, flags in zip(sorted(inbox.keys()), ["S", "R", "T", "F", "P", ""]):
    path = os.path.join(sys.argv[1], inbox._lookup(key))
    os.rename(path, os.path.join(sys.argv[1], "cur", key + ":2," + flags))
`);
		expect(await states()).toEqual(
			Object.fromEntries(["read", "answered", "recalled", "queued", "queued", "queued"].map((state, n) => [ids[n], state])),
		);
		const { out } = await xfer("read", "--all");
		expect(out.match(/flags .?(?=$|---)/gm)).toEqual(["flags F", "flags P", "flags "]);
		for (const name of names("cur")) expect(fs.readFileSync(path.join(dir, "cur", name), "utf8")).toMatch(/^---\nfrom: bob\n/);
	});

	test("rewrites a file when a message is assigned: the flags count, the whole text is still there", async () => {
		const { dir, send, py, states, names } = make();
		const id = send("a text\nof lines");
		await py(`
key, = inbox.keys()
message = inbox[key]
message.set_subdir("cur")
message.set_flags("S")
inbox[key] = message
`);
		expect(await states()).toEqual({ [id]: "read" });
		expect(fs.readFileSync(path.join(dir, "cur", names("cur")[0] ?? ""), "utf8")).toMatch(/from: bob\n[\s\S]*a text\nof lines$/);
	});

	test("removes and pops: to us it is gone", async () => {
		const { send, py, xfer } = make();
		const id = send("one");
		await py(`inbox.pop(inbox.keys()[0])`);
		expect((await xfer("sent", id, "--as", "bob")).out).toMatch(/^gone/m);
		expect((await xfer("read")).code).toBe(3);
	});

	test("takes part in a race of takers by rename: each Handoff has one winner", { timeout: 120_000 }, async () => {
		const { send, py, tree } = make();
		const ids = Array.from({ length: 200 }, (_, n) => send(String(n)));
		const theirs = py(`
won = []
for name in sorted(os.listdir(os.path.join(sys.argv[1], "new"))):
    try:
        os.rename(os.path.join(sys.argv[1], "new", name), os.path.join(sys.argv[1], "cur", name + ":2,S"))
        won.append(name)
    except FileNotFoundError:
        pass
print(json.dumps(won))
`);
		const { inbox } = tree.node("alice");
		const ours: string[] = [];
		for (let taken = inbox.take(); taken; taken = inbox.take()) {
			ours.push(taken.handoff.id);
			taken.done();
			await new Promise((resolve) => setImmediate(resolve));
		}
		const won = (await theirs) as string[];
		expect([...ours, ...won].sort()).toEqual(ids.sort());
	});
});

test.skipIf(!mblaze)("a sender in pure shell and a mail reader: no program of ours is needed for a Handoff to be read", async () => {
	const { sh, names } = make();
	await sh(`printf -- '---\\nfrom: cron\\nsubject: nightly\\n---\\nfailed\\n' >"$1/tmp/1.cron" && mv "$1/tmp/1.cron" "$1/new/1.cron"`);
	expect(await sh(`minc "$1" | mscan -f '%s'`)).toContain("nightly");
	await sh(`mflag -S $(mlist "$1")`);
	expect(names("cur")).toEqual(["1.cron:2,S"]);
});

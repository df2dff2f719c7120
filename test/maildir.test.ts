import { execFileSync } from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import path from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { ContextOptions } from "../lib/context.ts";
import { openTree, XferError } from "../lib/index.ts";
import type { End, Maildir, Message } from "../lib/maildir.ts";
import { ls, onTestFinished, project, run, tempDir, tempTree, until } from "./helpers.ts";

const now = 1_700_000_000_000;
const lease = "L=1700000600.aaaaaaaa";

/** The maildir of a Node in a new tree, at a fixed time; not synced unless asked for. */
function maildir(options: ContextOptions = {}): Maildir {
	const tree = openTree({ root: tempTree().root, env: {}, clock: () => now, durable: false, instance: "aaaaaaaa", ...options });
	return tree.join("alice").inbox.maildir;
}

/** The same maildir as another instance sees it. */
function other({ path: directory }: Maildir, instance: string): Maildir {
	const root = path.resolve(directory, "../..");
	return openTree({ root, env: {}, clock: () => now, durable: false, instance }).node("alice").inbox.maildir;
}

function put(mail: Maildir, file: string, bytes: string | Buffer = `bytes of ${file}`): Message {
	fs.writeFileSync(`${mail.path}/${file}`, bytes, { mode: 0o600 });
	const [dir, name = ""] = file.split("/") as ["new" | "cur", string];
	return mail.message(dir, name);
}

const all = (mail: Maildir) => ["new", "cur"].flatMap((dir) => ls(mail.path, dir).map((name) => `${dir}/${name}`));

function code(act: () => unknown): string | undefined {
	try {
		act();
	} catch (error) {
		return (error as { code?: string }).code;
	}
	return undefined;
}

/**
 * Runs code as an account that modes bind, on a tree of its own, and returns what it prints as JSON.
 * The code sees `fs`, `tree`, and `mail`, the maildir of alice.
 */
async function bound(source: string, options = "{}"): Promise<unknown> {
	const root = path.join(tempDir(), "tree");
	fs.chmodSync(path.dirname(root), 0o777);
	const script = `
		import fs from "node:fs";
		import { openTree } from ${JSON.stringify(path.join(project, "lib/index.ts"))};
		if (process.getuid() === 0) { process.setgroups([]); process.setgid(65534); process.setuid(65534); }
		const tree = openTree({ root: ${JSON.stringify(root)}, env: {}, ...${options} });
		const mail = tree.join("alice").inbox.maildir;
		const attempt = (act) => { try { return act(); } catch (error) { return { code: error.code, message: error.message }; } };
		${source}`;
	const { code: exit, out, err } = await run([process.execPath, "--input-type=module", "-e", script], { env: { PATH: process.env.PATH } });
	expect([exit, err]).toEqual([0, ""]);
	return JSON.parse(out);
}

/** Bytes that a careless reader or writer changes. */
const bodies: [string, Buffer][] = [
	["nothing", Buffer.alloc(0)],
	["empty lines", Buffer.from("\n\n\n")],
	["CRLF", Buffer.from("a\r\nb\r\n")],
	["no last newline", Buffer.from("a\nb")],
	["a NUL", Buffer.from("a\0b\n")],
	["invalid UTF-8", Buffer.from([0xff, 0xfe, 0xc3, 0x28, 0xed, 0xa0, 0x80])],
	["a byte order mark", Buffer.from("\ufeffa\n")],
	["fences", Buffer.from("---\n---\n---\n")],
	["every byte", Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))],
	["1 MiB", Buffer.alloc(1024 * 1024, "0123456789abcde\n")],
];

describe("a delivery", () => {
	test("is one file of mode 0600 in new/, under its id, and nothing else", () => {
		const mail = maildir({ durable: true });
		const before = process.umask(0);
		onTestFinished(() => {
			process.umask(before);
		});
		expect(mail.deliver("1.a", Buffer.from("hi"))).toBe("synced");
		expect(all(mail)).toEqual(["new/1.a"]);
		expect(ls(mail.path, "tmp")).toEqual([]);
		expect(fs.statSync(`${mail.path}/new/1.a`).mode & 0o777).toBe(0o600);
	});

	test.each(bodies)("keeps the bytes: %s", (_name, bytes) => {
		const mail = maildir();
		mail.deliver("1.a", bytes);
		mail.deliverAs("2.b", bytes);
		for (const name of ["1.a", "2.b"]) expect(fs.readFileSync(`${mail.path}/new/${name}`).equals(bytes)).toBe(true);
	});

	test("makes the directories that a damaged Node lacks, with mode 0700", () => {
		for (const missing of [["tmp"], ["new"], ["tmp", "new", "cur"]]) {
			const mail = maildir();
			for (const dir of missing) fs.rmdirSync(`${mail.path}/${dir}`);
			mail.deliver("1.a", Buffer.from("hi"));
			expect(all(mail)).toEqual(["new/1.a"]);
			for (const dir of missing) expect(fs.statSync(`${mail.path}/${dir}`).mode & 0o777).toBe(0o700);
		}
	});

	test("to a Node that is gone is ENODE, and makes nothing", () => {
		for (const name of ["deliver", "deliverAs"] as const) {
			const mail = maildir();
			fs.rmSync(mail.path, { recursive: true });
			expect(code(() => mail[name]("1.a", Buffer.from("hi")))).toBe("ENODE");
			expect(fs.existsSync(mail.path)).toBe(false);
		}
	});

	test("writes over nothing in tmp/, and leaves there what is not its own", () => {
		const mail = maildir();
		fs.writeFileSync(`${mail.path}/tmp/1.a`, "another's");
		expect(code(() => mail.deliver("1.a", Buffer.from("hi")))).toBe("EEXIST");
		expect(all(mail)).toEqual([]);
		expect(fs.readFileSync(`${mail.path}/tmp/1.a`, "utf8")).toBe("another's");
	});

	test("says `none` of its durability when that is switched off", () => {
		expect(maildir({ durable: false }).deliver("1.a", Buffer.from("hi"))).toBe("none");
		const tree = openTree({ root: tempTree().root, env: { XFER_DURABILITY: "none" } });
		expect(tree.join("alice").inbox.maildir.deliver("1.a", Buffer.from("hi"))).toBe("none");
	});

	test("says `unknown` when new/ can't be synced after the rename, and is a delivery all the same", async () => {
		const result = await bound(`
			fs.chmodSync(mail.path + "/new", 0o300); // names can be made in it, and it can't be opened
			const said = [mail.deliver("1.a", Buffer.from("hi")), tree.send({ from: "bob", to: ["alice"], body: "hi" })[0].durability];
			fs.chmodSync(mail.path + "/new", 0o700);
			console.log(JSON.stringify([...said, mail.names("new").length, fs.readdirSync(mail.path + "/tmp")]));`);
		expect(result).toEqual(["unknown", "unknown", 2, []]);
	});

	test("that is forbidden says so, and leaves nothing behind", async () => {
		const result = await bound(`
			const said = ["tmp", "new"].flatMap((dir) => {
				fs.chmodSync(mail.path + "/" + dir, 0o500);
				const codes = [attempt(() => mail.deliver("1.a", Buffer.from("hi"))).code, attempt(() => mail.deliverAs("2.a", Buffer.from("hi"))).code];
				fs.chmodSync(mail.path + "/" + dir, 0o700);
				return codes;
			});
			console.log(JSON.stringify([...said, mail.names("new"), fs.readdirSync(mail.path + "/tmp")]));`);
		expect(result).toEqual(["EACCES", "EACCES", "EACCES", "EACCES", [], []]);
	});
});

describe("a delivery under a chosen id", () => {
	const bytes = Buffer.from("the bytes");

	test("is made once however often it is made", () => {
		const mail = maildir({ durable: true });
		expect(mail.deliverAs("nightly", bytes)).toBe("synced");
		for (let time = 0; time < 3; time++) expect(mail.deliverAs("nightly", bytes)).toBe("again");
		expect(all(mail)).toEqual(["new/nightly"]);
		expect(ls(mail.path, "tmp")).toEqual([]);
		expect(fs.statSync(`${mail.path}/new/nightly`).nlink).toBe(1);
	});

	test.each([
		"new/nightly,A=2",
		"cur/nightly,L=1.bbbbbbbb:2,",
		"cur/nightly:2,S",
		"cur/nightly,E=failed:2,F",
		"cur/nightly;2,RS",
		"new/nightly:2,",
	])("was made before when it is %s by now", (file) => {
		const mail = maildir();
		put(mail, file, bytes);
		expect(mail.deliverAs("nightly", bytes)).toBe("again");
		expect(all(mail)).toEqual([file]);
		expect(ls(mail.path, "tmp")).toEqual([]);
	});

	test("is made once when another made it, and it was read, while this one was being written", () => {
		for (const [theirs, said] of [
			["the bytes", "again"],
			["other", "EINPUT"],
		]) {
			const mail = maildir();
			const slow = Buffer.from("the bytes");
			// The bytes are asked for their length after the first look for the id, and before the link.
			Object.defineProperty(slow, "length", {
				get: () => {
					if (all(mail).length === 0) put(mail, "cur/nightly:2,S", theirs);
					return 9;
				},
			});
			let result: string | undefined;
			result =
				code(() => {
					result = mail.deliverAs("nightly", slow);
				}) ?? result;
			expect(result).toBe(said);
			expect(all(mail)).toEqual(["cur/nightly:2,S"]);
			expect(ls(mail.path, "tmp")).toEqual([]);
		}
	});

	test("is refused when the id has other bytes, wherever they are, and changes nothing", () => {
		for (const file of ["new/nightly", "cur/nightly:2,S", "new/nightly,A=1"]) {
			for (const different of [Buffer.from("other"), Buffer.concat([bytes, bytes]), Buffer.alloc(0)]) {
				const mail = maildir();
				put(mail, file, different);
				expect(code(() => mail.deliverAs("nightly", bytes))).toBe("EINPUT");
				expect(all(mail)).toEqual([file]);
				expect(fs.readFileSync(`${mail.path}/${file}`).equals(different)).toBe(true);
				expect(ls(mail.path, "tmp")).toEqual([]);
			}
		}
	});

	test("takes a name of which its id is a part for another one", () => {
		const mail = maildir();
		for (const file of ["new/nightly2", "new/x-nightly", "cur/nightly.2:2,S"]) put(mail, file, "other");
		expect(mail.deliverAs("nightly", bytes)).toBe("none");
		expect(ls(mail.path, "new")).toContain("nightly");
	});

	test("neither follows nor replaces what is no file", () => {
		const mail = maildir();
		const outside = path.join(tempDir(), "outside");
		fs.writeFileSync(outside, bytes);
		fs.symlinkSync(outside, `${mail.path}/new/link`);
		fs.mkdirSync(`${mail.path}/new/dir`);
		execFileSync("mkfifo", [`${mail.path}/new/fifo`]);
		for (const id of ["link", "dir", "fifo"]) expect(() => mail.deliverAs(id, bytes)).toThrow();
		expect(ls(mail.path, "new")).toEqual(["dir", "fifo", "link"]);
		expect(ls(mail.path, "tmp")).toEqual([]);
	});

	test("is made once by many processes at once", async () => {
		const mail = maildir();
		const root = path.resolve(mail.path, "../..");
		const script = `
			import fs from "node:fs";
			import { openTree } from ${JSON.stringify(path.join(project, "lib/index.ts"))};
			const mail = openTree({ root: ${JSON.stringify(root)}, env: {}, durable: false }).node("alice").inbox.maildir;
			fs.writeFileSync(${JSON.stringify(root)} + "/ready-" + process.pid, "");
			while (!fs.existsSync(${JSON.stringify(root)} + "/go")) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
			console.log(Array.from({ length: 100 }, (_, n) => mail.deliverAs("job-" + n, Buffer.from("job " + n))).join("\\n"));`;
		const children = Array.from({ length: 4 }, () =>
			run([process.execPath, "--input-type=module", "-e", script], { env: { PATH: process.env.PATH } }),
		);
		await until(() => ls(root).filter((name) => name.startsWith("ready-")).length === 4);
		fs.writeFileSync(`${root}/go`, "");
		const results = await Promise.all(children);
		for (const { code: exit, err } of results) expect([exit, err]).toEqual([0, ""]);
		const said = results.map(({ out }) => out.trim().split("\n"));
		for (let n = 0; n < 100; n++) expect(said.map((lines) => lines[n]).sort()).toEqual(["again", "again", "again", "none"]);
		expect(ls(mail.path, "new").sort()).toEqual(Array.from({ length: 100 }, (_, n) => `job-${n}`).sort());
		for (const name of ls(mail.path, "new")) expect(fs.readFileSync(`${mail.path}/new/${name}`, "utf8")).toBe(name.replace("-", " "));
		expect(ls(mail.path, "tmp")).toEqual([]);
	});
});

type Step = (mail: Maildir, message: Message) => Message | undefined;
const take: Step = (mail, message) => mail.take(message);
const renew: Step = (mail, message) => mail.renew(message);
const done: Step = (mail, message) => mail.done(message);
const replied: Step = (mail, message) => mail.done(message, true);
const release: Step = (mail, message) => mail.release(message);
const end =
	(why: End): Step =>
	(mail, message) =>
		mail.end(message, why);

const steps: [name: string, step: Step, before: string, after: string][] = [
	["take", take, "new/1.a", `cur/1.a,${lease}:2,`],
	["take", take, "new/1.a,A=2", `cur/1.a,A=2,${lease}:2,`],
	["take", take, "new/1.a,A=2,Z=z,k:2,DPS", `cur/1.a,A=2,${lease},Z=z,k:2,DP`],
	["take", take, "new/1.a,E=failed,L=1.b:2,FRST", `cur/1.a,${lease}:2,F`],
	["take what a mail reader left in cur/", take, "cur/1.a:2,", `cur/1.a,${lease}:2,`],
	["take what a mail reader left in cur/", take, "cur/1.a", `cur/1.a,${lease}:2,`],
	["renew", renew, "cur/1.a,A=1,L=1700000001.aaaaaaaa,Z:2,P", `cur/1.a,A=1,${lease},Z:2,P`],
	["done", done, "cur/1.a,L=1.aaaaaaaa:2,", "cur/1.a:2,S"],
	["done", done, "cur/1.a,A=1,L=1.aaaaaaaa,Z=z:2,Px", "cur/1.a,A=1,Z=z:2,PSx"],
	["done, replied", replied, "cur/1.a,L=1.aaaaaaaa:2,F", "cur/1.a:2,FRS"],
	["clear a failed one", done, "cur/1.a,E=failed:2,F", "cur/1.a:2,S"],
	["release", release, "cur/1.a,L=1.aaaaaaaa:2,", "new/1.a,A=1"],
	["release", release, "cur/1.a,A=9,L=1.aaaaaaaa,Z=z:2,P", "new/1.a,A=10,Z=z:2,P"],
	["try a failed one again", release, "cur/1.a,A=1,E=failed:2,F", "new/1.a,A=2"],
	["fail", end("failed"), "cur/1.a,A=1,L=1.aaaaaaaa,Z:2,", "cur/1.a,A=1,E=failed,Z:2,F"],
	["recall", end("recalled"), "new/1.a", "cur/1.a,E=recalled:2,T"],
	["recall", end("recalled"), "new/1.a,A=3", "cur/1.a,A=3,E=recalled:2,T"],
	["expire", end("expired"), "new/1.a", "cur/1.a,E=expired:2,T"],
	["replace", end("replaced"), "new/1.a,Z=z:2,x", "cur/1.a,E=replaced,Z=z:2,Tx"],
	["can't be read", end("unreadable"), "cur/1.a,L=1.aaaaaaaa:2,", "cur/1.a,E=unreadable:2,F"],
];

describe("a step", () => {
	test.each(steps)("%s", (_name, step, before, after) => {
		const mail = maildir();
		const message = put(mail, before);
		const result = step(mail, message);
		expect(all(mail)).toEqual([after]);
		expect(result && `${result.dir}/${result.name}`).toBe(after);
	});

	test.each(steps)("leaves the file itself alone: %s", (_name, step, before, after) => {
		const mail = maildir();
		const message = put(mail, before, Buffer.from([0, 255, 13, 10]));
		fs.utimesSync(mail.file(message), 1000, 1000);
		const { ino, mode } = fs.statSync(mail.file(message));
		step(mail, message);
		const stat = fs.statSync(`${mail.path}/${after}`);
		expect([stat.ino, stat.mode, stat.mtimeMs, stat.size, stat.nlink]).toEqual([ino, mode, 1_000_000, 4, 1]);
	});

	test.each(steps)("has one winner, and the others get nothing and change nothing: %s", (_name, step, before, after) => {
		const mail = maildir();
		const rival = other(mail, "bbbbbbbb");
		const message = put(mail, before);
		expect(step(mail, message)).toBeDefined();
		for (const [, another] of steps) if (before !== after) expect(another(rival, message)).toBeUndefined();
		expect(all(mail)).toEqual([after]);
	});

	test("ends what is in hand only for who has it in hand", () => {
		const mail = maildir();
		const taken = mail.take(put(mail, "new/1.a")) as Message;
		expect(mail.inHand("1.a", "aaaaaaaa")).toEqual(taken);
		expect(mail.inHand("1.a", "bbbbbbbb")).toBeUndefined();
		fs.renameSync(mail.file(taken), `${mail.file(taken)}F`); // a mail reader flags it
		expect(mail.inHand("1.a", "aaaaaaaa")?.flags).toBe("F");
		mail.done(mail.inHand("1.a", "aaaaaaaa") as Message);
		expect(mail.inHand("1.a", "aaaaaaaa")).toBeUndefined();
	});

	test("keeps bytes, id, unknown fields and unknown flags, whatever the steps and the name", () => {
		const chars = fc.stringMatching(/^[^\0/,:;=.][^\0/,:;=]{0,9}$/);
		const unknown = fc.oneof(fc.constantFrom("B", "Z=1", "a=b=c", "constructor=1", "toString", "__proto__=x", "valueOf"), chars);
		const fields = fc.array(fc.oneof(unknown, fc.constantFrom("A=3", "A=x", "L=1.b", "L=?", "E=failed", "E=other", "E=")), {
			maxLength: 4,
		});
		const info = fc.constantFrom("", ":2,", ";2,", ":2,S", ":2,FPS", ";2,abRT", ":2,DDaa");
		const ways: [string, Step][] = [
			["take", take],
			["renew", renew],
			["done", done],
			["replied", replied],
			["release", release],
			...(["failed", "recalled", "expired", "replaced", "unreadable"] as const).map((why): [string, Step] => [why, end(why)]),
		];
		const mail = maildir();
		const known = (text: string) => /^[AEL](=|$)/.test(text);
		fc.assert(
			fc.property(
				chars,
				fields,
				info,
				fc.constantFrom("new", "cur"),
				fc.array(fc.constantFrom(...ways), { maxLength: 6 }),
				(id, some, flags, dir, sequence) => {
					const bytes = Buffer.from(`${id}\0${sequence.length}`);
					let message = put(mail, `${dir}/${[id, ...some].join(",")}${flags}`, bytes);
					const { ino } = fs.statSync(mail.file(message));
					const strange = (text: string) => text.replace(/[SRTF]/g, "");
					const kept = strange([...new Set(message.flags)].sort().join(""));
					for (const [, step] of sequence) {
						const next = step(mail, message);
						expect(next).toBeDefined();
						message = next as Message;
						expect(message.id).toBe(id);
						expect(message.fields.filter((text) => !known(text)).sort()).toEqual(some.filter((text) => !known(text)).sort());
						expect(strange(message.flags)).toBe(kept);
						expect(all(mail)).toEqual([`${message.dir}/${message.name}`]);
					}
					expect(fs.statSync(mail.file(message)).ino).toBe(ino);
					expect(fs.readFileSync(mail.file(message)).equals(bytes)).toBe(true);
					fs.rmSync(mail.file(message));
				},
			),
			{ numRuns: 500 },
		);
	});

	test("makes a directory that a damaged Node lacks", () => {
		const mail = maildir();
		const message = put(mail, "new/1.a");
		fs.rmdirSync(`${mail.path}/cur`);
		expect(mail.take(message)?.dir).toBe("cur");
		expect(all(mail)).toEqual([`cur/1.a,${lease}:2,`]);
	});

	test("writes `;` where `:` can't stand in a name, and reads both", () => {
		const mail = maildir({ separator: ";" });
		mail.done(put(mail, "cur/1.a,L=1.aaaaaaaa:2,P"));
		expect(all(mail)).toEqual(["cur/1.a;2,PS"]);
	});
});

describe("a listing", () => {
	test("has regular files alone, and is not hindered by what else is there", async () => {
		const mail = maildir();
		const dir = `${mail.path}/new`;
		fs.writeFileSync(`${dir}/3.empty`, "");
		fs.writeFileSync(`${dir}/2.sparse`, "");
		fs.truncateSync(`${dir}/2.sparse`, 2 ** 31);
		fs.writeFileSync(`${dir}/1.file`, "hi");
		fs.writeFileSync(`${dir}/.hidden`, "hi");
		fs.mkdirSync(`${dir}/0.directory`);
		fs.symlinkSync("1.file", `${dir}/0.link`);
		fs.symlinkSync("nowhere", `${dir}/0.dangling`);
		fs.symlinkSync("0.loop", `${dir}/0.loop`);
		execFileSync("mkfifo", [`${dir}/0.fifo`]);
		const server = net.createServer().listen(`${dir}/0.socket`);
		onTestFinished(() => {
			server.close();
		});
		await until(() => server.listening);
		expect(mail.names("new")).toEqual(["1.file", "2.sparse", "3.empty"]);
		expect(mail.list("new").map(({ id }) => id)).toEqual(["1.file", "2.sparse", "3.empty"]);
		expect(ls(dir)).toHaveLength(10);
	});

	test("is in bytewise order, whatever the locale says", () => {
		const mail = maildir();
		const names = ["10.a", "9.a", "B", "a", "_", "1700000000.a", "1700000000.a,A=1", "ä"];
		for (const name of names) put(mail, `new/${name}`);
		expect(mail.names("new")).toEqual(
			names
				.map((name) => Buffer.from(name))
				.sort(Buffer.compare)
				.map(String),
		);
	});

	test("of a directory that is not there is empty", () => {
		const mail = maildir();
		fs.rmSync(mail.path, { recursive: true });
		expect(mail.list("new")).toEqual([]);
		expect(mail.list("cur")).toEqual([]);
	});

	test("finds a message by a piece of its id, and never by a path", () => {
		const mail = maildir();
		put(mail, "new/1700000000.M000001Rk3f9q2ab.box");
		put(mail, "cur/1700000000.M000002Rk3f9zzzz.box,A=1:2,S");
		expect(mail.find("k3f9zzzz")).toMatchObject({ dir: "cur", id: "1700000000.M000002Rk3f9zzzz.box" });
		expect(code(() => mail.find("k3f9"))).toBe("EAMBIGUOUS");
		for (const piece of ["../../alice/new/1700000000.M000001Rk3f9q2ab.box", "nothing", "A=1:"])
			expect(code(() => mail.find(piece))).toBe("EHANDOFF");
		expect(() => mail.find("abc")).toThrow(XferError);
	});
});

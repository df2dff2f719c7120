/** The Board of spec/xfer.sh under dash, and under busybox with no tool but its own applets. What every client does is in spec/conformance. */
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { busyboxApplets, ls, project, type Result, run, sh, tempTree, until } from "../helpers.ts";

vi.setConfig({ testTimeout: 60_000 });

const applets = busyboxApplets();

type Bytes = string | { base64: string | (string | { repeat: string; times: number })[] };
interface Shown {
	name: string;
	card: Bytes;
	shows: {
		title?: string;
		created_by?: string;
		entries?: { author?: string; date?: string | null }[];
		holder?: { name: string; host: string; until: string } | null;
		done?: boolean;
		removed?: boolean;
		warnings?: string[];
	};
}

function bytesOf(value: Bytes): Buffer {
	if (typeof value === "string") return Buffer.from(value);
	const decode = (text: string) => Buffer.from(text, "base64");
	return Buffer.concat(
		[value.base64].flat().flatMap((part) => (typeof part === "string" ? [decode(part)] : Array(part.times).fill(decode(part.repeat)))),
	);
}

describe.each(["dash", "busybox"] as const)("xfer.sh board in %s", (shell) => {
	let home: string;
	let root: string;
	let env: NodeJS.ProcessEnv;
	const script = sh(shell).at(-1) as string;

	beforeEach(() => {
		({ home, root, env } = tempTree());
		env = { ...env, XFER_DURABILITY: "none", ...(shell === "busybox" && { PATH: applets }) };
	});

	const board = (as: string, args: string[], options: { input?: string | Buffer; env?: NodeJS.ProcessEnv } = {}): Promise<Result> =>
		run([...sh(shell), "board", ...args], { cwd: home, ...options, env: { ...env, XFER_NODE: as, ...options.env } });
	const file = (name: string) => path.join(root, "board", name);
	const card = (name: string, text: Bytes = "---\ntitle: x\ncreated_by: eve\ncreated_at: 2026-01-01T00:00:00.000Z\n---\n") => {
		fs.mkdirSync(path.join(root, "board"), { recursive: true });
		fs.writeFileSync(file(name), bytesOf(text));
		return file(name);
	};
	const rows = async (...args: string[]) => {
		const { out, err, code } = await board("alice", ["list", ...args]);
		expect([err, code]).toEqual(["", 0]);
		return out
			.split("\n")
			.slice(0, -1)
			.map((line) => line.split("\t"));
	};
	/** Puts a tool of one's own before the real one: `text` runs with the real one in $real. */
	const instead = (tool: string, text: string): NodeJS.ProcessEnv => {
		const bin = path.join(home, "bin");
		const real = execFileSync("sh", ["-c", `command -v ${tool}`], { env, encoding: "utf8" }).trim();
		fs.mkdirSync(bin, { recursive: true });
		fs.writeFileSync(path.join(bin, tool), `#!/bin/sh\nreal=${real}\n${text}\n`, { mode: 0o755 });
		return { PATH: `${bin}:${env.PATH}` };
	};

	test("reads Cards as the vectors say", async () => {
		const vectors: Shown[] = JSON.parse(fs.readFileSync(path.join(project, "spec/vectors/cards.json"), "utf8")).filter(
			// it shows no Entries that a merge makes
			({ name, shows }: Shown) => shows && name !== "card conflict-title",
		);
		const ids = vectors.map((_, i) => `${100_000 + i}`);
		vectors.forEach((vector, i) => {
			card(`x-${ids[i]}.md`, vector.card);
		});
		const all = new Map((await rows("--all")).map((row) => [row[0], row]));
		const some = new Set((await rows()).map(([id]) => id));
		expect(all.size).toBe(vectors.length);
		for (const [i, { name, shows }] of vectors.entries()) {
			const id = ids[i] as string;
			const [, title, by, count, date, author, holder] = all.get(id) as string[];
			const last = shows.entries?.at(-1);
			if (shows.entries) expect([name, count]).toEqual([name, `${shows.entries.length}`]);
			if (shows.holder !== undefined) expect([name, holder]).toEqual([name, shows.holder?.name ?? ""]);
			if (shows.done !== undefined) expect([name, some.has(id)]).toEqual([name, !shows.done && !shows.removed]);
			if (last?.date) expect([name, Date.parse(date as string)]).toEqual([name, Math.floor(Date.parse(last.date))]);
			if (last?.author) expect([name, author]).toEqual([name, last.author]);
			if (shows.created_by) expect([name, by]).toEqual([name, shows.created_by]);
			// of YAML it reads keys with one line of text
			if (shows.holder) {
				const { err, code } = await board("eve", ["claim", id]);
				const { name: who, host, until } = shows.holder;
				expect([name, code, err]).toEqual([
					name,
					5,
					`xfer: ${who} on ${host || "no host"} holds x-${id}.md until ${new Date(until).toISOString()}\n`,
				]);
			}
			if (shows.title && !shows.warnings?.includes("yaml") && !/title-(folded|next-line)/.test(name))
				expect([name, title]).toEqual([name, shows.title.replace("\t", "\\x09").replace("cache-layer-k3f9q2", `x-${id}`)]);
		}
	});

	test("appends an Entry of a MiB with one write", async () => {
		card("x-aaaaaa.md");
		const trace = path.join(home, "trace");
		const input = Buffer.alloc(1_048_576, "### x\n");
		const strace = ["strace", "-f", "-y", "-qq", "-e", "trace=write,writev", "-e", "signal=none", "-o", trace];
		const added = await run([...strace, ...sh(shell), "board", "add", "aaaaaa", "-"], {
			cwd: home,
			env: { ...env, XFER_NODE: "bob", PATH: `${env.PATH}:${process.env.PATH}` },
			input,
		});
		expect([added.err, added.code]).toEqual(["", 0]);
		const writes = fs
			.readFileSync(trace, "utf8")
			.split("\n")
			.filter((line) => line.includes("/board/x-aaaaaa.md>"));
		expect(writes.map((line) => Number(line.split("= ").at(-1)) > input.length)).toEqual([true]);
		expect((await rows())[0]?.slice(3, 6)).toEqual(["1", expect.stringMatching(/Z$/), "bob"]);
	});

	test("a Card that is replaced while it is added to has the Entry all the same, once", async () => {
		const target = card("x-aaaaaa.md");
		const tools = instead(
			"dd",
			`[ -e "$HOME/once" ] || { : >"$HOME/once"; cp "${target}" "${target}.new" && mv "${target}.new" "${target}"; }; exec $real "$@"`,
		);
		const { out, code } = await board("bob", ["add", "aaaaaa", "hello"], { env: tools });
		expect([code, ls(home)]).toEqual([0, expect.arrayContaining(["once"])]);
		const id = out.split("\t")[1] as string;
		expect(fs.readFileSync(target, "utf8").split(`### ${id} · note · bob · `).length).toBe(2);
		expect((await rows())[0]?.[3]).toBe("1");
		expect(ls(root, "board", ".locks")).toEqual([]);
	});

	test("a Card that is deleted meanwhile is not made again", async () => {
		const target = card("x-aaaaaa.md");
		const { code, out, err } = await board("bob", ["add", "aaaaaa", "hello"], {
			env: instead("dd", `rm -f "${target}"; exec $real "$@"`),
		});
		expect([code, out, err]).toEqual([3, "", "xfer: x-aaaaaa.md is gone\n"]);
		expect([ls(root, "board"), ls(root, "board", ".locks")]).toEqual([[".locks"], []]);
		card("x-aaaaaa.md");
		const claimed = await board("bob", ["claim", "aaaaaa"], { env: instead("awk", `rm -f "${target}"; exec $real "$@"`) });
		expect(claimed).toMatchObject({ code: 3, out: "", err: "xfer: x-aaaaaa.md is gone\n" });
		expect([ls(root, "board"), ls(root, "board", ".locks")]).toEqual([[".locks"], []]);
	});

	test("a write that fails is said, and what it left is torn", async () => {
		card("x-aaaaaa.md");
		await board("bob", ["add", "aaaaaa", "first"]);
		const { code, out, err } = await board("bob", ["add", "aaaaaa", "hello"], { env: instead("dd", "head -c 60; exit 1") });
		expect([code, out]).toEqual([1, ""]);
		expect(err).toMatch(/^xfer: can't add to [^\n]*\n$/);
		expect((await rows())[0]?.[3]).toBe("2");
		expect((await board("bob", ["add", "aaaaaa", "again"])).code).toBe(0);
		expect((await rows())[0]?.[3]).toBe("3");
		expect(ls(root, "board", ".locks")).toEqual([]);
	});

	test("a disk that is full before the write leaves the Card as it was", async () => {
		const target = card("x-aaaaaa.md");
		const before = fs.readFileSync(target);
		const { code, out } = await board("bob", ["add", "aaaaaa", "hello"], { env: instead("sed", "exit 1") });
		expect([code, out]).toEqual([1, ""]);
		expect(fs.readFileSync(target).equals(before)).toBe(true);
		const made = await board("bob", ["new", "Title", "text"], { env: instead("sed", "exit 1") });
		expect([made.code, made.out]).toEqual([1, ""]);
		expect([ls(root, "board"), ls(root, "board", ".locks")]).toEqual([[".locks", "x-aaaaaa.md"], []]);
	});

	test("syncs what it writes", async () => {
		const options = { env: { XFER_DURABILITY: "" } };
		const made = await board("bob", ["new", "Title", "text"], options);
		expect([made.err, made.code]).toEqual(["", 0]);
		const added = await board("bob", ["add", made.out.split("\t")[0] as string, "hello"], options);
		expect([added.err, added.code]).toEqual(["", 0]);
	});

	test("takes its text from where it is told, and does not wait for another", async () => {
		card("x-aaaaaa.md");
		for (const args of [
			["add", "aaaaaa", "words", "-"],
			["add", "aaaaaa", "", "-"],
			["new", "title", "words", "-"],
			["add", "aaaaaa", "--type"],
		]) {
			const { code, out } = await board("bob", args, { input: "input" });
			expect([args, code, out]).toEqual([args, 2, ""]);
		}
		expect((await board("bob", ["add", "aaaaaa"], { input: "input" })).code).toBe(0);
		expect(fs.readFileSync(file("x-aaaaaa.md"), "utf8")).toMatch(/Z\n\ninput\n<!-- \w{8} -->\n$/);
		expect((await board("bob", ["done", "aaaaaa"], { input: "input" })).code).toBe(0);
		expect(fs.readFileSync(file("x-aaaaaa.md"), "utf8")).toMatch(/Z\n\n\n<!-- \w{8} -->\n$/);
		expect([ls(root, "board"), ls(root, "board", ".locks")]).toEqual([[".locks", "x-aaaaaa.md"], []]);
	});

	test("dates of all that one adds go up, also within one second: a merge puts it in their order", async () => {
		const target = card("x-aaaaaa.md");
		for (const args of [["claim"], ["claim"], ["release"], ["claim"], ["done"], ["add", "one"], ["add", "two"], ["add", "three"]])
			expect((await board("bob", [args[0] as string, "aaaaaa", ...args.slice(1)])).code).toBe(0);
		const dates = [...fs.readFileSync(target, "utf8").matchAll(/^### \w{8} · \w+ · bob · (\S+)$/gm)].map(([, date]) => date);
		expect(dates.length).toBe(8);
		expect([...new Set(dates)].sort()).toEqual(dates);
	});

	test("a claim waits until the Card has been replaced: what was copied late stands behind", async () => {
		const target = card("x-aaaaaa.md");
		const before = fs.readFileSync(target, "utf8");
		const locks = path.join(root, "board", ".locks");
		fs.mkdirSync(path.join(locks, "x-aaaaaa.md.lock"), { recursive: true });
		fs.linkSync(target, path.join(locks, "x-aaaaaa.md.old"));
		const claiming = board("bob", ["claim", "aaaaaa"]);
		const late = await until(() => /### \w{8} · claim.*<!-- \w{8} -->\n$/s.exec(fs.readFileSync(target, "utf8"))?.[0], "the claim");
		const date = "2026-01-01T00:00:00.000Z";
		const first = `### cccccccc · claim · carol · ${date}\n\nuntil 2999-01-01T00:00:00.000Z on box\n<!-- cccccccc -->\n`;
		fs.writeFileSync(`${target}.new`, `${before}\n${first}\n${late}`);
		fs.renameSync(`${target}.new`, target);
		fs.rmSync(path.join(locks, "x-aaaaaa.md.old"));
		fs.rmdirSync(path.join(locks, "x-aaaaaa.md.lock"));
		const { code, out, err } = await claiming;
		expect([code, out, err]).toEqual([5, "", expect.stringContaining("carol")]);
		expect(fs.readFileSync(target, "utf8")).toMatch(/### \w{8} · release · bob/);
	});

	test("a claim that is to go on from one that ends before it is written goes behind those that came meanwhile", async () => {
		const end = Date.now() + 3000;
		const claim = (id: string, by: string, from: number, to: number) =>
			`\n### ${id} · claim · ${by} · ${new Date(from).toISOString()}\n\nuntil ${new Date(to).toISOString()} on ${os.hostname()}\n<!-- ${id} -->\n`;
		const target = card("x-aaaaaa.md");
		fs.appendFileSync(target, claim("bbbbbbbb", "bob", end - 9000, end));
		const slow = instead("dd", `while [ ! -e '${home}/go' ]; do sleep 0.05; done; exec $real "$@"`);
		const claiming = board("bob", ["claim", "aaaaaa"], { env: slow });
		await until(() => ls(root, "board", ".locks").some((name) => name.endsWith(".new")) && Date.now() > end, "its time to be over");
		fs.appendFileSync(target, claim("cccccccc", "carol", end + 1, end + 3_600_000));
		fs.writeFileSync(path.join(home, "go"), "");
		const { code, out, err } = await claiming;
		expect([code, out, err]).toEqual([5, "", expect.stringContaining("carol")]);
		expect(fs.readFileSync(target, "utf8")).toMatch(/ · claim · carol · .* · claim · bob · .* · release · bob · /s);
	});

	test("a claim is given back when what was replaced stays there: nobody knows what it will still add", async () => {
		const target = card("x-aaaaaa.md");
		fs.mkdirSync(path.join(root, "board", ".locks"));
		fs.linkSync(target, path.join(root, "board", ".locks", "x-aaaaaa.md.old"));
		const { code, out, err } = await board("bob", ["claim", "aaaaaa"], { env: instead("sleep", "exit 0") });
		expect([code, out, err]).toEqual([5, "", expect.stringContaining(".locks/x-aaaaaa.md.old")]);
		expect(fs.readFileSync(target, "utf8")).toMatch(/ · claim · bob · .* · release · bob · /s);
	});

	test("an Entry that is just being written is read when it is whole", async () => {
		const entry = (id: string, type: string, text: string) => `\n### ${id} · ${type} · carol · 2026-01-01T00:00:00.000Z\n\n${text}`;
		const target = card(
			"x-aaaaaa.md",
			`${entry("aaaaaaa1", "claim", "until 2999-01-01T00:00:00Z on den\n<!-- aaaaaaa1 -->\n")}${entry("aaaaaaa2", "release", "")}`,
		);
		const tools = instead(
			"date",
			`[ -e "$HOME/once" ] || case "$*" in -r*) : >"$HOME/once"; printf 'on box\\n<!-- aaaaaaa2 -->\\n' >>'${target}' ;; esac; exec $real "$@"`,
		);
		const { code, out, err } = await board("bob", ["claim", "aaaaaa"], { env: tools });
		expect([code, out, err]).toEqual([5, "", expect.stringContaining("carol on den holds")]);
		// what stays torn, or was typed by hand, keeps nobody waiting for long
		fs.writeFileSync(target, `${fs.readFileSync(target, "utf8")}\n### note · bob\nx`);
		expect((await board("carol", ["release", "aaaaaa"])).code).toBe(5);
	});

	test("a Card that can't be read is nobody's to be done with", async () => {
		const target = card("x-aaaaaa.md");
		const before = fs.readFileSync(target);
		const { code, out, err } = await board("bob", ["done", "aaaaaa", "-"], { input: "x", env: instead("awk", "exit 1") });
		expect([code, out, err]).toEqual([1, "", `xfer: can't read ${target}\n`]);
		expect([fs.readFileSync(target).equals(before), ls(root, "board", ".locks")]).toEqual([true, []]);
	});

	test("what another holds stays theirs, and a text for it is thrown away", async () => {
		card("x-aaaaaa.md");
		await board("alice", ["claim", "aaaaaa"]);
		const { code, out } = await board("bob", ["done", "aaaaaa", "-"], { input: "finished\n" });
		expect([code, out, ls(root, "board", ".locks")]).toEqual([5, "", []]);
	});

	test("extends to the later end, and prints it", async () => {
		card("x-aaaaaa.md");
		const [long, short] = [await board("bob", ["claim", "aaaaaa", "--for", "3h"]), await board("bob", ["claim", "aaaaaa", "--for", "1m"])];
		expect(short.out.split("\t")[2]).toBe(long.out.split("\t")[2]);
	});

	test("nothing in a Card, a name or a text is run", async () => {
		const nasty = "$(touch made) `touch made`; touch made \\$(touch made) '\" * \\";
		card(`${nasty}-aaaaaa.md`, `---\ntitle: ${nasty}\n---\n\n### claim · $(touch made) · x\n\n${nasty}\n`);
		for (const args of [
			["list"],
			["show", "aaaaaa"],
			["add", "aaaaaa", nasty],
			["claim", "aaaaaa"],
			["release", "aaaaaa"],
			["done", "aaaaaa", nasty],
		])
			expect([args, (await board("bob", args)).code]).toEqual([args, 0]);
		expect((await board("bob", ["new", nasty, nasty])).code).toBe(0);
		expect([ls(home), ls(root, "board").length]).toEqual([[".xfer"], 3]);
	});

	test("does not act as a symlink that leads out of the tree", async () => {
		card("x-aaaaaa.md");
		fs.mkdirSync(path.join(root, "nodes"));
		fs.symlinkSync("/tmp", path.join(root, "nodes", "away"));
		for (const args of [
			["add", "aaaaaa", "x"],
			["claim", "aaaaaa"],
			["new", "x"],
		])
			expect((await board("away", args)).code).toBe(2);
		expect(ls(root, "board")).toEqual(["x-aaaaaa.md"]);
	});

	test("sourced, it leaves the shell as it was", async () => {
		const text = `
			set -ue -f -C; IFS=x; cd /; umask 022; _card=kept; exec 3>|"$HOME/three"
			. "$1"
			XFER_NODE=bob; export XFER_NODE
			card=$(xfer_board new 'A title' | cut -f 1)
			xfer_board add "$card" -- -n '*' >|"$HOME/out"
			xfer_board claim "$card" >|"$HOME/out"
			xfer_board show nothing 2>|"$HOME/err" || printf 'status %s\\n' $?
			xfer_board list >|"$HOME/out"
			echo three >&3
			printf '%s %s %s %s ' "$PWD" "$_card" "$IFS" "$-"; umask`;
		const result = await run([...sh(shell).slice(0, -1), "-c", text, "script", script], { cwd: home, env });
		expect(result).toMatchObject({ code: 0, err: "" });
		expect(result.out).toMatch(/^status 3\n\/ kept x \w*e\w* 0*22\n$/);
		expect(fs.readFileSync(path.join(home, "three"), "utf8")).toBe("three\n");
		expect(fs.readFileSync(path.join(home, "out"), "utf8")).toMatch(/^\w{6}\tA title\tbob\t2\t\S+\tbob\tbob\t\n$/);
	});
});

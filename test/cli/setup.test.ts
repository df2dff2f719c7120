/** `xfer setup`: the smallest change to a host's own files, and back again byte for byte. */
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { hosts } from "../../lib/hooks/hosts/hosts.ts";
import { parseJsonc, plain } from "../../lib/hooks/jsonc.ts";
import { cli, project, run, tempTree } from "../helpers.ts";

const files = {
	claude: ".claude/settings.json",
	codex: ".codex/hooks.json",
	gemini: ".gemini/settings.json",
	opencode: ".config/opencode/plugins/xfer.js",
} as const;
const names = Object.keys(files) as (keyof typeof files)[];

function make() {
	const { home, env } = tempTree();
	const cwd = path.join(home, "proj");
	fs.mkdirSync(path.join(cwd, ".git"), { recursive: true });
	const setup = (...args: string[]) => run([...cli, "setup", ...args], { env, cwd });
	const put = (file: string, text: string) => {
		fs.mkdirSync(path.dirname(path.join(home, file)), { recursive: true });
		fs.writeFileSync(path.join(home, file), text);
	};
	/** Every file under HOME but the tree, with its text. */
	const all = () =>
		Object.fromEntries(
			fs
				.readdirSync(home, { recursive: true, withFileTypes: true })
				.filter((entry) => entry.isFile() && !entry.parentPath.includes(".xfer"))
				.map((entry) => [
					path.relative(home, path.join(entry.parentPath, entry.name)),
					fs.readFileSync(path.join(entry.parentPath, entry.name), "utf8"),
				]),
		);
	return { home, env, cwd, setup, put, all };
}

const texts: Record<string, string> = {
	"an empty one": "",
	"an empty object": "{}",
	"one line": '{"model":"opus","hooks":{"Stop":[{"hooks":[{"type":"command","command":"say done"}]}]}}',
	"tabs, comments and trailing commas":
		'// mine\n{\n\t"model": "opus", // the good one\n\t/* before */ "hooks": {\n\t\t"Stop": [\n\t\t\t{ "hooks": [{ "type": "command", "command": "say done" }] }, // say it\n\t\t],\n\t\t"SessionStart": [ /* none yet */ ],\n\t},\n\t"permissions": { "allow": ["Bash(ls:*)",], },\n\t// the end\n}\n',
	"CR LF, four blanks and no last newline":
		'{\r\n    "permissions": {\r\n        "allow": [\r\n            "Bash(ls:*)"\r\n        ]\r\n    },\r\n    "hooks": {}\r\n}',
	"a byte order mark": '\ufeff{\n  "hooks": { "Stop": [] }\n}\n',
	"what looks like ours in a string": '{ "note": "xfer hook claude Stop, \\"hooks\\": {", "hooks": { "Stop": [ ] } }\n',
};

describe.each(names)("%s", (name) => {
	test("a missing file is made, the second time nothing changes, and it goes with the directories that were made for it", async () => {
		const { setup, all, home } = make();
		const before = fs.readdirSync(home, { recursive: true }).sort();
		const first = await setup(name);
		expect({ code: first.code }).toEqual({ code: 0 });
		expect(first.out).toContain(`${path.join(home, files[name])} is made`);
		expect(first.out).toMatch(/^now: /m);
		const made = all();
		expect(Object.keys(made)).toEqual([files[name]]);
		expect((await setup(name)).out).toMatch(/set up already/);
		expect(all()).toEqual(made);
		expect((await setup(name, "--remove")).code).toBe(0);
		expect(all()).toEqual({});
		const left = fs.readdirSync(home, { recursive: true }).filter((entry) => !String(entry).startsWith(".xfer"));
		expect(left.length).toBeLessThanOrEqual(before.length + 2); // ~/.config and the like may stay
	});

	test("set up once more, otherwise, it is removed all the same", async () => {
		const { setup, all } = make();
		await setup(name);
		await setup(name, "--allow", "--name", "api");
		await setup(name, "--name", "web");
		await setup(name, "--remove");
		expect(all()).toEqual({});
	});

	test("--dry-run changes nothing; --project is for the project only; --name is in the command", async () => {
		const { setup, all, cwd } = make();
		expect((await setup(name, "--dry-run", "--allow", "--pointer")).out).toMatch(/^\+ /m);
		expect(all()).toEqual({});
		await setup(name, "--project", "--name", "api");
		const [[file = "", text = ""] = []] = Object.entries(all());
		expect(file).toMatch(/^proj\/\./);
		expect(text).toMatch(/--name"?[ ,]+"?api/);
		await setup(name, "--project", "--remove");
		expect(all()).toEqual({});
		expect(fs.readdirSync(cwd)).toContain(".git");
	});
});

describe.each(["claude", "codex", "gemini"] as const)("what is in %s's file stays:", (name) => {
	test.each(Object.keys(texts))("%s", async (kind) => {
		const { setup, all, put, home } = make();
		const text = texts[kind] ?? "";
		put(files[name], text);
		const { code, err } = await setup(name, "--allow");
		expect({ code, err }).toEqual({ code: 0, err: "" });
		const now = fs.readFileSync(path.join(home, files[name]), "utf8");
		const value = plain(parseJsonc(now)) as { hooks: Record<string, { hooks: { command: string }[] }[]> };
		const commands = Object.values(value.hooks).flatMap((groups) => groups.flatMap(({ hooks }) => hooks.map(({ command }) => command)));
		expect(commands.filter((command) => command.includes(`hook ${name} `)).length).toBeGreaterThanOrEqual(3);
		if (text.includes("say done")) expect(commands).toContain("say done");
		for (const comment of text.match(/\/\/.*|\/\*.*?\*\//g) ?? []) expect(now).toContain(comment.trimEnd());
		await setup(name, "--allow");
		expect(fs.readFileSync(path.join(home, files[name]), "utf8")).toBe(now);
		await setup(name, "--remove");
		expect(all()).toEqual({ [files[name]]: text });
	});

	test("what was changed since stays too", async () => {
		const { setup, put, all, home } = make();
		const text = (texts["tabs, comments and trailing commas"] ?? "").replace("/* none yet */ ]", "/* none yet */]"); // this blank is not known any more
		put(files[name], text);
		await setup(name);
		const file = path.join(home, files[name]);
		fs.writeFileSync(file, fs.readFileSync(file, "utf8").replace('"model": "opus"', '"model": "haiku"'));
		await setup(name, "--remove");
		expect(all()).toEqual({ [files[name]]: text.replace('"model": "opus"', '"model": "haiku"') });
	});

	test("a comment in what is empty otherwise stays a line, whatever was changed since", async () => {
		const { setup, put, all, home } = make();
		const text = '{\n  // mine\n  "hooks": {\n    // none yet\n  },\n  "model": "opus"\n}\n';
		put(files[name], text);
		await setup(name);
		const file = path.join(home, files[name]);
		fs.writeFileSync(file, fs.readFileSync(file, "utf8").replace('"opus"', '"haiku"'));
		expect(await setup(name, "--name", "other")).toMatchObject({ code: 0, err: expect.not.stringContaining("no JSON") });
		await setup(name, "--remove");
		expect(all()).toEqual({ [files[name]]: text.replace('"opus"', '"haiku"') });
	});

	test("a hook that a person put beside ours stays alone", async () => {
		const { setup, home } = make();
		await setup(name);
		const file = path.join(home, files[name]);
		const read = () => plain(parseJsonc(fs.readFileSync(file, "utf8"))) as { hooks: Record<string, { hooks: unknown[] }[]> };
		const [event = ""] = Object.keys(read().hooks);
		const theirs = { type: "command", command: "say done" };
		const changed = read();
		changed.hooks[event]?.[0]?.hooks.push(theirs);
		fs.writeFileSync(file, JSON.stringify(changed));
		await setup(name, "--name", "other");
		expect(fs.readFileSync(file, "utf8").match(new RegExp(`hook ${name} ${event}`, "g"))).toHaveLength(1);
		await setup(name, "--remove");
		expect(read()).toEqual({ hooks: { [event]: [{ hooks: [theirs] }] } });
	});

	test("a symlink stays one, and what it leads to keeps its mode", async () => {
		const { setup, put, home } = make();
		put("dotfiles/x.json", '{ "a": 1 }\n');
		fs.chmodSync(path.join(home, "dotfiles/x.json"), 0o640);
		fs.mkdirSync(path.dirname(path.join(home, files[name])));
		fs.symlinkSync("../dotfiles/x.json", path.join(home, files[name]));
		await setup(name);
		expect(fs.readlinkSync(path.join(home, files[name]))).toBe("../dotfiles/x.json");
		expect(fs.readFileSync(path.join(home, "dotfiles/x.json"), "utf8")).toContain("SessionStart");
		expect(fs.statSync(path.join(home, "dotfiles/x.json")).mode & 0o777).toBe(0o640);
		await setup(name, "--remove");
		expect(fs.readFileSync(path.join(home, "dotfiles/x.json"), "utf8")).toBe('{ "a": 1 }\n');
		expect(fs.readdirSync(path.join(home, "dotfiles"))).toEqual(["x.json"]);
	});
	test("a symlink that leads nowhere stays one, and the file that it leads to is made", async () => {
		const { setup, home, all } = make();
		const link = path.join(home, files[name]);
		fs.mkdirSync(path.dirname(link));
		fs.symlinkSync("../dotfiles/x.json", link);
		await setup(name);
		expect(fs.readlinkSync(link)).toBe("../dotfiles/x.json");
		expect(fs.readFileSync(path.join(home, "dotfiles/x.json"), "utf8")).toContain("SessionStart");
		await setup(name, "--remove");
		expect(fs.readlinkSync(link)).toBe("../dotfiles/x.json");
		expect(all()).toEqual({});
	});
});

test("a rule that a person had already stays, though something else was changed since", async () => {
	const { setup, put, home } = make();
	const read = () => JSON.parse(fs.readFileSync(path.join(home, files.claude), "utf8"));
	const own = { permissions: { allow: ["Bash(xfer send:*)"] }, model: "opus" };
	for (const args of [[], ["--allow"]]) {
		put(files.claude, JSON.stringify(own));
		await setup("claude", ...args);
		put(files.claude, JSON.stringify({ ...read(), model: "haiku" }));
		await setup("claude", "--remove");
		expect(read()).toEqual({ ...own, model: "haiku" });
	}
});

test("a file that can't be understood, or not be written, is left alone, and it says so", async () => {
	const { setup, put, all, home, env, cwd } = make();
	for (const text of ["{ not json", '{"hooks": [}', '{"hooks": []}', '{"hooks": {"Stop": "x"}}', "[]"]) {
		put(files.claude, text);
		expect(await setup("claude")).toMatchObject({ code: 2, err: expect.stringContaining("nothing was changed") });
		expect(all()).toEqual({ [files.claude]: text });
	}
	put(files.claude, "{}\n");
	fs.chmodSync(path.join(home, files.claude), 0o444);
	const plainly = process.getuid?.() === 0 ? ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--"] : [];
	const result = await run([...plainly, ...cli, "setup", "claude"], { env, cwd });
	expect(result).toMatchObject({ code: 1, err: expect.stringContaining("EACCES") });
	expect(all()).toEqual({ [files.claude]: "{}\n" });
});

test("a file of that name that a person wrote is not taken for ours, and is back after the removal", async () => {
	const { setup, put, all, home } = make();
	const own = 'prefix_rule(pattern = ["ls"], decision = "allow")\n';
	put(".codex/rules/xfer.rules", own);
	await setup("codex", "--remove");
	expect(all()).toEqual({ ".codex/rules/xfer.rules": own });
	await setup("codex", "--allow");
	fs.appendFileSync(path.join(home, ".codex/rules/xfer.rules"), "# more\n");
	await setup("codex", "--remove");
	expect(all()).toEqual({ ".codex/rules/xfer.rules": own });
});

test("--json prints a document, and the line that would allow more says the same place and name", async () => {
	const { setup, home } = make();
	const first = await setup("claude", "--project", "--name", "api", "--json");
	const file = path.join(home, "proj", files.claude);
	expect(JSON.parse(first.out)).toMatchObject({ schema: "xfer.setup/1", host: "claude", dryRun: false, changes: [{ file }] });
	expect(first.err).toContain("xfer setup claude --project --name api --allow");
	const second = await setup("claude", "--project", "--name", "api", "--json");
	expect(JSON.parse(second.out)).toMatchObject({ changes: [] });
	const dry = await setup("claude", "--project", "--remove", "--dry-run", "--json");
	expect(JSON.parse(dry.out)).toMatchObject({ dryRun: true, changes: [{ file, before: fs.readFileSync(file, "utf8") }], now: [] });
});

test("a pointer goes to the project's file, and nothing else of it changes", async () => {
	const { setup, cwd } = make();
	for (const text of [undefined, "# Rules\n\nBe kind.\n", "no newline"]) {
		const file = path.join(cwd, "AGENTS.md");
		if (text !== undefined) fs.writeFileSync(file, text);
		await setup("codex", "--pointer");
		const lines = fs.readFileSync(file, "utf8");
		expect(lines).toContain("xfer help agents");
		if (text) expect(lines.startsWith(text)).toBe(true);
		await setup("codex", "--pointer");
		expect(fs.readFileSync(file, "utf8")).toBe(lines);
		await setup("codex", "--remove");
		expect(fs.existsSync(file) ? fs.readFileSync(file, "utf8") : undefined).toBe(text);
	}
});

test("Codex's own table of sandbox roots is not changed; what to add to it is said", async () => {
	const { setup, put, all } = make();
	const toml = '[sandbox_workspace_write]\nwritable_roots = ["/srv"] # mine\n';
	put(".codex/config.toml", toml);
	expect((await setup("codex", "--allow")).out).toMatch(/add to it by hand: \[sandbox_workspace_write\]/);
	expect(all()[".codex/config.toml"]).toBe(toml);
});

test("rules never allow what runs other commands", async () => {
	const { setup, all } = make();
	for (const { name } of hosts) await setup(name, "--allow");
	for (const text of Object.values(all())) expect(text).not.toMatch(/xfer (?:run|adapter)|"(?:run|adapter)"|xfer:\*/);
	expect(all()[".claude/settings.json"]).toContain("Bash(xfer help:*)"); // what a session's first words point to
});

test("the plugin for opencode is a module, and does nothing when xfer is not there", async () => {
	const { setup, home, env } = make();
	await setup("opencode");
	const file = path.join(home, files.opencode);
	fs.writeFileSync(file, fs.readFileSync(file, "utf8").replace(/^const words = .*/m, 'const words = ["/nowhere/xfer"];'));
	fs.copyFileSync(file, path.join(home, "plugin.mjs"));
	const script = `
		const { xfer } = await import(${JSON.stringify(path.join(home, "plugin.mjs"))});
		const hooks = await xfer({ client: { session: { get: async () => ({ data: {} }) } }, directory: "/" });
		const parts = [];
		await hooks["chat.message"]({ sessionID: "s" }, { message: { id: "m" }, parts });
		await hooks.event({ event: { type: "session.idle", properties: { sessionID: "s" } } });
		console.log(JSON.stringify(parts));`;
	expect(execFileSync(process.execPath, ["--input-type=module", "-e", script], { env, cwd: project, encoding: "utf8" })).toBe("[]\n");
});

test("help agents: what an agent needs to know, in 1.5 KB", async () => {
	const { env } = make();
	const { code, bytes } = await run([...cli, "help", "agents"], { env });
	expect(code).toBe(0);
	expect(bytes.length).toBeLessThanOrEqual(1536);
});

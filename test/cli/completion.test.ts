/** `xfer completion`: scripts that really complete, in the shells themselves, with the Nodes and ids that are there now. */
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { openTree } from "../../lib/index.ts";
import { cli, run, tempTree } from "../helpers.ts";

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
	"board",
	"nodes",
	"join",
	"leave",
	"gc",
	"doctor",
	"setup",
	"completion",
];

/** A tree with alice and bob, in which bob has sent one to alice, and an `xfer` on the PATH. */
function make() {
	const { root, home, env } = tempTree();
	const tree = openTree({ root, durable: false });
	for (const name of ["alice", "bob"]) tree.join(name);
	const [outcome] = tree.send({ from: "bob", to: ["alice"], body: "x" });
	const id = /R(.{8})\./.exec(outcome && "id" in outcome ? outcome.id : "")?.[1] as string;
	const bin = path.join(home, "bin");
	fs.mkdirSync(bin);
	fs.writeFileSync(path.join(bin, "xfer"), `#!/bin/sh\nexec ${cli.map((word) => `'${word}'`).join(" ")} "$@"\n`, { mode: 0o755 });
	const own: NodeJS.ProcessEnv = {
		...env,
		PATH: `${bin}:${env.PATH}`,
		XFER_NODE: "alice",
		ZDOTDIR: home,
		XDG_CONFIG_HOME: home,
		XDG_DATA_HOME: home,
	};
	return { root, home, env: own, tree, id };
}

/** What is to be completed, as the words up to the cursor, and what it completes to. */
const cases = (id: string): [words: string[], candidates: string[]][] => [
	[[""], names],
	[["re"], ["reply", "read", "recall"]],
	[
		["send", ""],
		["@all", "alice", "bob"],
	],
	[["send", "al"], ["alice"]],
	[["read", ""], [id]],
	[["reply", id.slice(0, 3)], [id]],
	[
		["mark", id, ""],
		["read", "new", "failed"],
	],
	[["sent", "--as", "bob", ""], [id]],
	[["recall", "--as", "bob", ""], [id]],
	[
		["read", "--as", ""],
		["alice", "bob"],
	],
	[["read", "--as", "bob", ""], []],
	[["inbox", "b"], ["bob"]],
	[["watch", "@"], ["@all"]],
	[
		["leave", ""],
		["alice", "bob"],
	],
	[
		["completion", ""],
		["bash", "zsh", "fish"],
	],
	[["send", "--su"], ["--subject"]],
	[
		["send", "alice", "--kind", ""],
		["task", "question", "answer", "report", "note"],
	],
	[["send", "alice", "--priority", "u"], ["urgent"]],
];

const has = (program: string) => spawnSync(program, ["-c", "exit 0"]).status === 0;

describe("what is asked", () => {
	test("is answered with a candidate a line, and an exit code of 0", async () => {
		const { env, id } = make();
		const answers = await Promise.all(cases(id).map(([words]) => run([...cli, "--get-yargs-completions", "xfer", ...words], { env })));
		for (const [n, [words, candidates]] of cases(id).entries()) {
			const { code, out, err } = answers[n] as (typeof answers)[0];
			expect([words, code, err, out.split("\n").slice(0, -1).sort()]).toEqual([words, 0, "", [...candidates].sort()]);
		}
	});

	test("without a tree is answered too, and none is made", async () => {
		const { env, home } = tempTree();
		for (const words of [
			["send", ""],
			["read", ""],
			["sent", ""],
			["inbox", ""],
			["read", "--as", ""],
		])
			expect(await run([...cli, "--get-yargs-completions", "xfer", ...words], { env })).toMatchObject({ code: 0, err: "" });
		expect(fs.readdirSync(home)).toEqual([]);
	});

	test("follows the tree: a Node that is made just now is a candidate", async () => {
		const { env, tree } = make();
		tree.join("carl");
		expect((await run([...cli, "--get-yargs-completions", "xfer", "send", "c"], { env })).out).toBe("carl\n");
	});

	test("holds no control character of a peer's file name", async () => {
		const { root, env } = make();
		fs.writeFileSync(path.join(root, "nodes/alice/new/1.\x1b[2J\nx"), "x");
		const { out } = await run([...cli, "--get-yargs-completions", "xfer", "read", ""], { env });
		expect(out).not.toContain("\x1b");
		expect(out.trimEnd().split("\n").length).toBeLessThanOrEqual(2);
	});
});

describe.skipIf(!has("bash"))("in bash", () => {
	test("the script completes", async () => {
		const { env, id } = make();
		const ask = cases(id).map(([words]) => {
			const line = ["xfer", ...words].map((word) => `'${word}'`).join(" ");
			return `COMP_WORDS=(${line}); COMP_CWORD=${words.length}; COMPREPLY=(); "$function" xfer '${words.at(-1)}' '${words.at(-2) ?? "xfer"}'; echo "\${COMPREPLY[*]}"`;
		});
		const script = `source <(xfer completion bash) || exit; function=$(complete -p xfer | sed 's/.* -F \\([^ ]*\\) .*/\\1/')\n${ask.join("\n")}`;
		const { out, err } = await run(["bash", "--norc", "--noprofile", "-c", script], { env });
		expect(err).toBe("");
		const replies = out
			.split("\n")
			.slice(0, -1)
			.map((line) => line.split(" ").filter(Boolean).sort());
		expect(replies).toEqual(cases(id).map(([, candidates]) => [...candidates].sort()));
	});

	test("a tab after `xfer send al` at a prompt types the rest", async () => {
		const { home, env } = make();
		// Standard input of an interactive bash on a terminal: what a person types.
		const typed = "source <(xfer completion bash)\nxfer send al\t 'by tab'\nexit\n";
		const result = await run(["script", "-qec", "bash --norc --noprofile -i", "/dev/null"], {
			env: { ...env, TERM: "dumb", HOME: home },
			input: typed,
		});
		expect(result.out).toContain("queued for alice");
	});
});

describe.skipIf(!has("fish"))("in fish", () => {
	test("the script completes", async () => {
		const { env, id } = make();
		const ask = cases(id).map(([words]) => `echo (complete -C '${["xfer", ...words].join(" ")}' | string replace -r '\\t.*' '')`);
		const { out, err } = await run(["fish", "--no-config", "-c", `xfer completion fish | source\n${ask.join("\n")}`], { env });
		expect(err).toBe("");
		const replies = out
			.split("\n")
			.slice(0, -1)
			.map((line) => line.split(" ").filter(Boolean).sort());
		expect(replies).toEqual(cases(id).map(([, candidates]) => [...candidates].sort()));
	});
});

describe.skipIf(!has("zsh"))("in zsh", () => {
	test("the script loads, as a file to source and as one in $fpath", async () => {
		const { home, env } = make();
		const load = "autoload -Uz compinit && compinit -u -D && source <(xfer completion zsh) && print -r -- $_comps[xfer]";
		const sourced = await run(["zsh", "-f", "-c", load], { env });
		expect(sourced).toMatchObject({ code: 0, err: "", out: expect.stringMatching(/^_\w+\n$/) });
		const functions = path.join(home, "functions");
		fs.mkdirSync(functions);
		fs.writeFileSync(path.join(functions, "_xfer"), (await run([...cli, "completion", "zsh"], { env })).out);
		const found = await run(
			["zsh", "-f", "-c", "fpath=($HOME/functions $fpath); autoload -Uz compinit && compinit -u -D && print -r -- $_comps[xfer]"],
			{ env },
		);
		expect(found).toMatchObject({ code: 0, err: "", out: "_xfer\n" });
	});

	test("a tab after `xfer send al` at a prompt types the rest", async () => {
		const { env } = make();
		const script = `
			zmodload zsh/zpty
			zpty shell 'TERM=dumb zsh -f -i'
			zpty -w shell 'autoload -Uz compinit; compinit -u -D; source <(xfer completion zsh); print ready-$((1+1))'
			zpty -r -m shell seen '*ready-2*'
			zpty -n -w shell $'xfer send al\\t'
			zpty -r -m shell seen '*alice*'
			print -r -- "$seen"
			zpty -d shell`;
		const { out } = await run(["timeout", "120", "zsh", "-f", "-c", script], { env });
		expect(out).toContain("xfer send alice");
	});
});

test("without a shell, or with another one, is an error that names those there are", async () => {
	const { env } = make();
	const [none, other] = await Promise.all([run([...cli, "completion"], { env }), run([...cli, "completion", "tcsh"], { env })]);
	for (const result of [none, other])
		expect(result).toMatchObject({ code: 2, out: "", err: expect.stringMatching(/^xfer: .*\(.*bash.*zsh.*fish.*\)\n$/) });
});

test("names in the script no line that fails", async () => {
	const { env } = make();
	for (const shell of ["bash", "zsh", "fish"]) {
		const { code, out, err } = await run([...cli, "completion", shell], { env });
		expect({ code, err }).toEqual({ code: 0, err: "" });
		expect(out).not.toMatch(/xfer completion(?! (bash|zsh|fish))/);
	}
});

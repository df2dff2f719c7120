/** One task around a ring without any AI: pure sh, a session driven by Claude's events, `xfer adapter`, the library, a Python script with `mailbox`. */
import { expect, test } from "vitest";
import { cli, run, sh, start, until } from "../helpers.ts";
import { hostsIn, spoken } from "./host.ts";

const python = `
import mailbox, subprocess, sys
box = mailbox.Maildir(sys.argv[1], create=False)
for key, message in list(box.items()):
    if message.get_subdir() != "new":
        continue
    body = message.as_bytes().decode().split("---\\n", 2)[2].strip()
    subprocess.run(sys.argv[2:] + ["send", "shell", body + " python", "--as", "snake"], check=True)
    message.set_subdir("cur")
    message.add_flag("S")
    box[key] = message
`;

test("a task goes around the ring, each adds its name, and each has read it", async () => {
	const { host, hook, tree, env, root, cwd } = hostsIn();
	for (const name of ["shell", "lib", "snake"]) tree.join(name);
	const own = { env, cwd };
	const claude = host();
	await hook(claude, "claude", "SessionStart");
	await hook(claude, "claude", "UserPromptSubmit");
	const words = cli.join(" ");
	start([...cli, "adapter", "daemon", "--on-handoff", `{ cat; printf ' adapter'; } | ${words} send lib - --as daemon`], {
		...own,
		stdio: "ignore",
	});
	await until(() => tree.has("daemon") && tree.node("daemon").live());

	expect((await run([...sh(), "send", "claude-proj", "begin: shell", "--as", "shell"], own)).code).toBe(0);

	const [, body = ""] = /^(begin: .*)$/m.exec(spoken(await hook(claude, "claude", "Stop", { stop_hook_active: false }))) ?? [];
	expect((await claude.shell(`${words} send daemon "${body} claude" --as claude-proj`)).code).toBe(0);

	const taken = await until(() => tree.node("lib").inbox.take());
	expect(taken.handoff.from).toBe("daemon");
	expect(taken.handoff.hops).toBeGreaterThan(0);
	tree.send({ from: "lib", to: ["snake"], body: `${taken.body} library`, hops: taken.handoff.hops + 1 });
	taken.done();

	const snake = await run(["python3", "-c", python, `${root}/nodes/snake`, ...cli], own);
	expect(snake.code, snake.err).toBe(0);

	const back = await run([...sh(), "read", "--as", "shell"], own);
	expect(back.out).toMatch(/\nbegin: shell claude adapter library python\n?$/);
	const states = (name: string) =>
		tree
			.node(name)
			.inbox.list({ states: () => true })
			.items.map(({ state }) => state);
	for (const name of ["shell", "claude-proj", "daemon", "lib", "snake"]) await until(() => states(name).join() === "read", name);
});

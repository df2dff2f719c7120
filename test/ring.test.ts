/** One task around a ring of Nodes that have nothing in common but the tree, without any AI. */
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { openTree } from "../lib/index.ts";
import { cli, ls, onTestFinished, sh, start, tempTree, until } from "./helpers.ts";

const python = spawnSync("python3", ["-c", "import mailbox"]).status === 0;

/** A Node of nothing but a shell: no client of ours, only the tree. */
const pureShell = `
cd "$XFER_HOME/nodes/$1" || exit
end=$(($(date +%s) + 300))
while [ "$(date +%s)" -lt "$end" ]; do
	for file in new/*; do
		[ -f "$file" ] || continue
		id=\${file#new/}
		mv "$file" "cur/$id:2,S" || continue
		reply=$(date +%s).M000001R0000$1.sh
		{
			printf -- '---\\nfrom: %s\\nto: %s\\nre: %s\\n---\\n' "$1" "$2" "$id"
			sed '1,/^---$/{/^---$/!d;}' "cur/$id:2,S" | sed '1,/^---$/d'
			printf '%s\\n' "$1"
		} >"tmp/$reply"
		mv "tmp/$reply" "../$2/new/$reply"
		exit
	done
	sleep 0.05
done
`;

/** A Node that knows maildirs and nothing of us. */
const pythonScript = `
import mailbox, os, sys, time
nodes = os.environ["XFER_HOME"] + "/nodes/"
inbox = mailbox.Maildir(nodes + sys.argv[1], create=False)
end = time.time() + 300
while time.time() < end:
    for key in inbox.keys():
        message = inbox[key]
        if message.get_subdir() != "new": continue
        body = inbox.get_bytes(key).split(b"\\n---\\n", 1)[1]
        message.set_subdir("cur")
        message.add_flag("S")
        inbox[key] = message
        header = "---\\nfrom: %s\\nto: %s\\n---\\n" % (sys.argv[1], sys.argv[2])
        mailbox.Maildir(nodes + sys.argv[2], create=False).add(header.encode() + body + sys.argv[1].encode() + b"\\n")
        sys.exit()
    time.sleep(0.05)
`;

test.skipIf(!python)(
	"a task goes from a shell to an adapter, a program, Python's mailbox, xfer.sh, and comes back with all their names",
	async () => {
		const { root, home, env } = tempTree();
		const ring = ["shell", "adapted", "program", "python", "posix"];
		const tree = openTree({ root, durable: false });
		for (const name of [...ring, "origin"]) tree.join(name);
		const next = (name: string) => ring[ring.indexOf(name) + 1] ?? "origin";
		const begin = (argv: string[], more: NodeJS.ProcessEnv = {}) => {
			const child = start(argv, { env: { ...env, ...more }, cwd: home, stdio: ["ignore", "ignore", "pipe"] });
			let errors = "";
			child.stderr?.on("data", (chunk) => {
				errors += chunk;
			});
			return { ended: new Promise((resolve) => child.on("close", (code, signal) => resolve(signal ?? code))), errors: () => errors, child };
		};
		const xfer = cli.map((word) => `'${word}'`).join(" ");
		const adapter = begin([...cli, "adapter", "adapted", "--on-handoff", `{ cat; echo $XFER_NODE; } | ${xfer} send ${next("adapted")} -`]);
		const others = [
			begin(["dash", "-c", pureShell, "sh", "shell", next("shell")]),
			begin(["python3", "-c", pythonScript, "python", next("python")], { HOME: process.env.HOME }),
			begin([
				"dash",
				"-c",
				// Waits for mail by looking, then works with the client in a shell.
				`until [ -n "$(ls "$XFER_HOME/nodes/posix/new")" ]; do sleep 0.05; done
			${sh().join(" ")} read --as posix | sed '1,/^---$/{/^---$/!d;}' | sed '1,/^---$/d' >text
			echo posix >>text
			${sh().join(" ")} send ${next("posix")} - --as posix <text`,
			]),
		];
		const { inbox } = tree.node("program");
		const end = new AbortController();
		onTestFinished(() => end.abort());
		const program = inbox.takeNext({ persistent: true, signal: end.signal }).then((taken) => {
			if (!taken) return;
			tree.send({ from: "program", to: [next("program")], body: `${taken.body}program\n` });
			taken.done();
		});
		tree.send({ from: "origin", to: ["shell"], body: "who was here?\n" });
		const arrived = await until(
			() => ls(root, "nodes/origin/new")[0],
			`the task to come back (${[adapter, ...others].map(({ errors }) => errors()).join("")})`,
		);
		expect(fs.readFileSync(path.join(root, "nodes/origin/new", arrived), "utf8").split("\n---\n")[1]).toBe(
			["who was here?", ...ring, ""].join("\n"),
		);
		await program;
		adapter.child.kill("SIGTERM");
		expect(await Promise.all([adapter, ...others].map(({ ended }) => ended))).toEqual([0, 0, 0, 0]);
		for (const name of ring) {
			expect(ls(root, "nodes", name, "new")).toEqual([]);
			expect(ls(root, "nodes", name, "cur")).toEqual([expect.stringMatching(/:2,S$/)]);
		}
	},
);

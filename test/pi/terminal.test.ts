/** pi in a terminal: what a person sees of mail, and that nothing in it disturbs the screen, the keys or pi. */
import fs from "node:fs";
import path from "node:path";
import stringWidth from "string-width";
import { describe, expect, test } from "vitest";
import { shortId } from "../../lib/index.ts";
import { until } from "../helpers.ts";
import { gate, makeWorld, openTui, startPi, times, type World } from "./pi.ts";

async function open(options: Parameters<typeof openTui>[1] = {}, world: World = makeWorld()) {
	world.tree.join("bob");
	const tui = await openTui(world, { node: "alice", ...options });
	await tui.shows(`✉ ${options.node ?? "alice"}`.slice(0, 6));
	const isRead = (id: string) => until(() => world.state("alice", id) === "read", "it to be read");
	return { world, tui, isRead, requests: tui.model.requests };
}

describe("what arrives", () => {
	test("shows who, what, how old and how it begins; expanded, all of it", async () => {
		const { world, tui, isRead } = await open();
		const body = Array.from({ length: 12 }, (_, n) => `line ${n} of the text`).join("\n");
		const id = world.send("alice", body, { subject: "a long story", kind: "report" });
		await isRead(id);
		const screen = await tui.shows("a long story");
		expect(screen).toMatch(/✉ bob · report · \d+ s ago/);
		expect(screen).toContain("line 0 of the text");
		expect(screen).not.toContain("line 11 of the text");
		expect(screen).toMatch(/to expand/);
		tui.keys("C-o");
		expect(await tui.shows("line 11 of the text")).toContain(shortId(id));
		tui.keys("C-o");
		await until(() => !tui.screen().includes("line 11 of the text"), "it to be short again");
	});

	test("can't move the cursor, clear the screen, set the title or hide what stands above it", async () => {
		const { world, tui, isRead } = await open();
		tui.type("what stands above");
		tui.keys("Enter");
		await tui.shows("echo(1): what stands above");
		const nasty = "\u001b[5A\u001b[2J\u001b]0;title\u0007\u009b2J\u001b[31mred\u001b[?25l\u001b[8mhidden\rover it";
		const id = world.send("alice", `${nasty}\nthe end of it`, { subject: `subject ${nasty}` });
		await isRead(id);
		const screen = await tui.shows("the end of it");
		expect(screen).toContain("echo(1): what stands above");
		expect(screen).toContain("hidden");
		expect(screen).not.toMatch(/[^\P{Cc}\n]/u);
	});

	for (const columns of [12, 20, 40]) {
		test(`fits a terminal of ${columns} columns, whatever it holds`, async () => {
			const { world, tui, isRead } = await open({ columns, rows: 60 });
			const words = `${"x".repeat(300)} 日本語の長い文章がここにあります👩‍👩‍👧‍👦🇩🇪 ${"\t".repeat(9)}e\u0301\u200b${"é".repeat(100)}`;
			const id = world.send("alice", `${words}\n${words}`, {
				subject: words,
				from: "a-name-of-63-characters".padEnd(63, "x"),
				kind: "a-kind-that-nobody-knows",
			});
			await isRead(id);
			await until(() => tui.screen().includes("✉ a-"), "it to show");
			tui.keys("C-o");
			tui.type("hi");
			tui.keys("Enter");
			await until(() => tui.model.requests.some(({ last }) => last === "hi"), "pi to go on");
			for (const width of [80, 9, 30]) {
				tui.resize(width, 30);
				await until(
					() =>
						tui
							.screen()
							.split("\n")
							.every((line) => stringWidth(line) <= width),
					"the new width",
				);
			}
			tui.type("still here");
			tui.keys("Enter");
			await until(() => tui.model.requests.some(({ last }) => last === "still here"), "pi to go on");
			expect(tui.code()).toBeUndefined();
		});
	}

	test("is drawn whatever a session file holds in its place", async () => {
		const { world, tui, isRead } = await open();
		const id = world.send("alice", "to be spoilt", { kind: "answer" });
		await isRead(id);
		await tui.shows("echo(1)");
		tui.keys("C-d");
		await until(() => tui.code() !== undefined, "pi to end");
		const sessions = path.join(tui.agent.directory, "sessions");
		const [file] = fs.readdirSync(sessions, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".jsonl"));
		const lines = fs
			.readFileSync(path.join(sessions, file ?? ""), "utf8")
			.trim()
			.split("\n");
		const original = lines.map((line) => JSON.parse(line)).find(({ customType }) => customType === "xfer");
		let parent = JSON.parse(lines.at(-1) ?? "{}").id;
		const spoilt = [
			null,
			"text",
			7,
			[],
			{ handoffs: 3 },
			{ handoffs: [null, 3, "x", {}, { id: 5, from: {}, date: "x" }] },
			{ handoffs: [{ id: "\u001b[5A" }] },
		];
		for (const [n, details] of spoilt.entries()) {
			const entry = {
				...original,
				id: `aaaaaaa${n}`,
				parentId: parent,
				details,
				content: n % 2 ? [{ type: "text", text: "as parts" }] : "",
			};
			lines.push(JSON.stringify(entry));
			lines.push(
				JSON.stringify({
					type: "custom",
					customType: "xfer-sent",
					id: `bbbbbbb${n}`,
					parentId: entry.id,
					timestamp: original.timestamp,
					data: details,
				}),
			);
			parent = `bbbbbbb${n}`;
		}
		fs.writeFileSync(path.join(sessions, file ?? ""), `${lines.join("\n")}\n`);
		const again = await openTui(world, { node: "alice", agent: tui.agent, args: ["--continue"], rows: 100 });
		await again.shows("as parts");
		const marker = world.send("alice", "after all of them");
		await until(() => world.state("alice", marker) === "read", "the marker");
		await again.shows("after all of them");
		expect(again.code()).toBeUndefined();
	});
});

describe("what a person types", () => {
	test("goes first: mail waits while there are words in the editor, and the status says how much", async () => {
		const { world, tui, isRead, requests } = await open();
		world.send("alice", "a remark", { kind: "note" });
		await tui.shows("a remark"); // from here on nothing else keeps mail back
		tui.type("half a sentence");
		await tui.shows("half a sentence");
		const id = world.send("alice", "some work");
		await tui.shows(/✉ alice · 1 waiting/);
		const later = world.send("alice", "another remark", { kind: "note" });
		await tui.shows(/✉ alice · 2 waiting/);
		expect(world.all("alice", "queued", [id, later])).toBe(true);
		tui.type(" and the rest");
		tui.keys("Enter");
		await isRead(id);
		expect(requests[0]?.last).toBe("half a sentence and the rest");
		await until(() => requests.length === 2, "the second request");
		expect(times(requests[1], "some work")).toBe(1);
		await until(() => !/waiting/.test(tui.screen()), "nothing to wait any more");
	});

	test("is not needed: when the editor is empty again, what waited comes", async () => {
		const { world, tui, isRead, requests } = await open();
		tui.type("half a sentence");
		await tui.shows("half a sentence");
		const id = world.send("alice", "some work");
		await tui.shows(/✉ alice · 1 waiting/);
		tui.keys("C-u");
		await isRead(id);
		expect(requests[0]?.last).toContain("some work");
	});

	test("on the command line goes first too", async () => {
		const world = makeWorld();
		const id = world.send("alice", "some work");
		const { tui, isRead, requests } = await open({ words: ["the first words"] }, world);
		await isRead(id);
		await tui.shows("echo(1): the first words");
		expect(requests[0]?.last).toBe("the first words");
		expect(times(requests.at(-1), "some work")).toBe(1);
	});

	test("Escape stops a run; what came meanwhile shows, and starts nothing", async () => {
		const { world, tui, isRead, requests } = await open();
		const { opened } = gate(world);
		tui.model.answer = ({ last }) => (last === "think" ? opened.then(() => "") : undefined);
		tui.type("think");
		tui.keys("Enter");
		await until(() => requests.length === 1, "the model to be asked");
		const ids = [world.send("alice", "a result", { kind: "answer" }), world.send("alice", "some work")];
		await tui.shows(/waiting/);
		tui.keys("Escape");
		for (const id of ids) await isRead(id);
		await tui.shows("a result");
		await tui.shows("some work");
		tui.type("go on");
		tui.keys("Enter");
		await until(() => requests.length === 2, "the next request");
		for (const words of ["a result", "some work"]) expect(times(requests[1], words)).toBe(1);
		expect(requests[1]?.last).toBe("go on");
	});
});

describe("/xfer", () => {
	test("offers its sub-commands, the Nodes that are live, and the Cards", async () => {
		const { world, tui } = await open();
		await startPi(world, { node: "carol" });
		await until(() => world.isLive("carol"), "carol"); // what is offered is looked up as it is typed
		tui.type("/xfer ");
		expect(await tui.shows("inbox")).toMatch(/list +the Nodes/);
		tui.type("car");
		await tui.shows(/carol.*idle/);
		tui.keys("C-u");
		tui.type("/xfer send c");
		await tui.shows(/carol.*idle/);
		tui.keys("C-u");
		tui.type("/xfer board new The cache");
		await until(() => !/carol.*idle/.test(tui.screen()), "what was offered before to be gone"); // else the Enter would choose it
		tui.keys("Enter");
		await tui.shows("began Card");
		tui.type("/xfer board read ");
		await tui.shows(/[0-9a-z]{6}.*The cache/);
		tui.keys("C-u");
	});

	test("runs a sub-command that is typed in full, though a Node's name begins like it", async () => {
		const { world, tui } = await open();
		await startPi(world, { node: "listener" });
		tui.type("/xfer lis");
		await tui.shows(/listener.*idle/);
		tui.type("t");
		await until(() => !/listener.*idle/.test(tui.screen()), "nothing to be offered");
		tui.keys("Enter");
		await tui.shows(/alice +this session/);
	});

	test("sends what is typed, in one Enter, and shows it as a line that costs nothing", async () => {
		const { world, tui, requests } = await open();
		tui.type("/xfer send bob fix the flaky test");
		tui.keys("Enter");
		await until(() => world.inbox("bob").length === 1, "the handoff");
		await tui.shows(/↗ bob · task · [0-9a-z]{8} · fix the flaky test/);
		expect(requests).toEqual([]);
	});

	test("quiet shows why mail waits", async () => {
		const { world, tui } = await open();
		tui.type("/xfer quiet on");
		tui.keys("Enter");
		await tui.shows(/quiet: mail waits/);
		const ids = [world.send("alice", "one"), world.send("alice", "two")];
		await tui.shows(/✉ alice · 2 waiting \(quiet\)/);
		tui.type("/xfer quiet off");
		tui.keys("Enter");
		await until(() => world.all("alice", "read", ids), "both to be read");
	});
});

describe("pi in a terminal", () => {
	test("/new, /reload and the end by C-d leave the Node and the terminal as they should be", async () => {
		const { world, tui, isRead, requests } = await open();
		await isRead(world.send("alice", "in the first session"));
		for (const command of ["/new", "/reload", "/name Other Name"]) {
			tui.type(command);
			tui.keys("Enter");
			await until(() => world.isLive("alice"), "alice to be live");
			const before = requests.length;
			const id = world.send("alice", `after ${command}`);
			await isRead(id);
			await until(() => requests.length === before + 1, "the run");
			await tui.shows(`after ${command}`);
		}
		tui.keys("C-d");
		await until(() => tui.code() !== undefined, "pi to end");
		expect(tui.code()).toBe(0);
		expect(world.isLive("alice")).toBe(false);
		expect(tui.stderr()).not.toMatch(/error|^\s+at /im);
	});

	test("goes on when the tree is removed, and when a file stands in its place", async () => {
		const { world, tui } = await open();
		fs.rmSync(world.root, { recursive: true, force: true });
		fs.writeFileSync(world.root, "");
		for (const words of ["one", "TOOL:sleep 6END", "two"]) {
			const before = tui.model.requests.length;
			tui.type(words);
			tui.keys("Enter");
			await until(() => tui.model.requests.length > before, "the run");
		}
		await tui.shows(/echo\(\d+\): two/);
		expect(tui.screen().match(/ENOTDIR|ENOENT/g)?.length ?? 0).toBeLessThanOrEqual(1); // it may say once why it is no Node
		tui.keys("C-d");
		await until(() => tui.code() === 0, "pi to end");
	});

	test("is a pair: what one hands to the other shows in both", async () => {
		const world = makeWorld();
		const { tui } = await open({}, world);
		const { tui: other } = await open({ node: "carol" }, world);
		await until(() => world.isLive("carol"), "carol to be live");
		tui.type("/xfer send carol which port do you use?");
		tui.keys("Enter");
		await tui.shows("↗ carol");
		await other.shows(/✉ alice · task/);
		await other.shows("which port do you use?");
	});
});

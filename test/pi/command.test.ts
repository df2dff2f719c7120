/** `/xfer`: what the person at the terminal does with the tree. */
import { describe, expect, test } from "vitest";
import { openBoard, shortId } from "../../lib/index.ts";
import { ls, until } from "../helpers.ts";
import { gate, makeWorld, type Pi, reloader, startPi, times, type World } from "./pi.ts";

/** Types the command, and returns what it says. */
async function xfer(pi: Pi, words: string): Promise<{ text: string; type: string }> {
	const from = pi.records.length;
	await pi.prompt(`/xfer ${words}`.trim());
	const { message, notifyType } = await pi.next(({ type, method }) => type === "extension_ui_request" && method === "notify", from);
	return { text: message, type: notifyType ?? "info" };
}

async function make(options = {}): Promise<{ world: World; pi: Pi }> {
	const world = makeWorld();
	world.tree.join("bob", { about: "Reviews what others write." });
	return { world, pi: await startPi(world, { node: "alice", ...options }) };
}

describe("/xfer", () => {
	test("alone says who this is, what waits and who else is here", async () => {
		const { world, pi } = await make();
		await startPi(world, { node: "carol" });
		const { text } = await xfer(pi, "");
		expect(text).toContain("this session is alice");
		expect(text).toContain(world.root);
		expect(text).toMatch(/nothing waits/);
		expect(text).toMatch(/^bob .*away.*Reviews what others write/m);
		expect(text).toMatch(/^carol .*idle/m);
		expect(pi.model.requests).toEqual([]);
	});

	test("list, and help, which names every sub-command", async () => {
		const { pi } = await make();
		expect((await xfer(pi, "list")).text.split("\n").map((line) => line.split(" ")[0])).toEqual(["alice", "bob"]);
		const { text } = await xfer(pi, "help");
		for (const word of ["list", "name", "inbox", "read", "sent", "send", "reply", "board", "quiet", "help"])
			expect(text).toContain(`/xfer ${word}`);
	});

	test("in a session that is no Node says so, and with which words it becomes one", async () => {
		const world = makeWorld();
		const pi = await startPi(world, { args: ["--xfer", "Not A Name"] });
		await until(() => pi.notices().length > 0, "it to say so");
		const { text, type } = await xfer(pi, "list");
		expect({ text, type }).toEqual({ type: "error", text: expect.stringMatching(/\/xfer name/) });
		expect((await xfer(pi, "name alice")).type).toBe("info");
		const id = world.send("alice", "welcome");
		await until(() => world.state("alice", id) === "read", "it to be read");
		await pi.idle();
	});

	test("name, with another name of a Node that is away, says which Node the session is", async () => {
		const world = makeWorld();
		world.tree.join("work").alias("other");
		const pi = await startPi(world, { args: ["--xfer", "Not A Name"] });
		await until(() => pi.notices().length > 0, "it to say so");
		expect((await xfer(pi, "name other")).text).toBe("this session is work");
	});

	test("typed right at the start waits until the session is a Node", async () => {
		const world = makeWorld();
		const pi = await startPi(world, { args: ["--xfer", "alice"] });
		expect((await xfer(pi, "list")).text).toMatch(/^alice/);
	});

	test("with a word that is nothing says what may be meant", async () => {
		const { pi } = await make();
		expect(await xfer(pi, "lst")).toEqual({ type: "error", text: expect.stringMatching(/did you mean \/xfer list/) });
		expect(await xfer(pi, "bbo do something")).toEqual({ type: "error", text: expect.stringMatching(/did you mean \/xfer bob/) });
		expect((await xfer(pi, "constructor")).type).toBe("error");
		expect((await xfer(pi, "__proto__ x")).type).toBe("error");
		expect(pi.model.requests).toEqual([]);
	});
});

describe("/xfer name", () => {
	test("says the name, gives one more, and refuses what another has", async () => {
		const { world, pi } = await make();
		expect((await xfer(pi, "name")).text).toBe("alice");
		expect((await xfer(pi, "name Reviewer")).text).toMatch(/reviewer/);
		expect(ls(world.root, "nodes")).toEqual(["alice", "bob", "reviewer"]);
		expect((await xfer(pi, "name")).text).toMatch(/alice \(also reviewer\)/);
		expect(await xfer(pi, "name bob")).toEqual({ type: "error", text: expect.stringMatching(/bob is another Node/) });
		expect((await xfer(pi, "name not a name!")).type).toBe("error");
		const id = world.send("reviewer", "by the new name");
		await until(() => world.state("alice", id) === "read", "it to be read");
	});
});

describe("/xfer quiet", () => {
	test("holds mail and counts it; off, it comes", async () => {
		const { world, pi } = await make();
		expect((await xfer(pi, "quiet on")).text).toMatch(/quiet/);
		const ids = [world.send("alice", "one", { kind: "answer", subject: "first" }), world.send("alice", "two", { priority: "urgent" })];
		await until(() => pi.records.some(({ statusText }) => /2 waiting/.test(statusText ?? "")), "the count on the screen");
		await until(() => world.presence("alice").holding === "quiet", "the Node to say why mail waits");
		await pi.prompt("TOOL:echo workingEND");
		await pi.idle();
		expect(world.all("alice", "queued", ids)).toBe(true);
		expect(pi.model.requests).toHaveLength(2);
		expect((await xfer(pi, "inbox")).text).toMatch(new RegExp(`${shortId(ids[0] as string)}.*answer from bob: first`));
		expect((await xfer(pi, "quiet")).text).toMatch(/2 now/);
		await xfer(pi, "quiet off");
		await until(() => world.all("alice", "read", ids), "both to be read");
		await until(() => world.presence("alice").holding === undefined, "nothing to hold mail any more");
		expect((await xfer(pi, "quiet maybe")).type).toBe("error");
	});
});

test("/xfer quiet stays over another session, and over /reload", async () => {
	const world = makeWorld();
	const pi = await startPi(world, { node: "alice", before: [reloader(world)] });
	await xfer(pi, "quiet on");
	const id = world.send("alice", "one");
	await pi.send({ type: "new_session" });
	const isQuiet = async () => {
		const from = pi.records.length;
		await pi.prompt("/xfer quiet");
		await pi.next(({ method, message }) => method === "notify" && /1 now/.test(message), from);
	};
	await isQuiet();
	await pi.prompt("/again");
	await isQuiet();
	await until(() => world.presence("alice").holding === "quiet", "the Node to say why mail waits");
	expect(world.state("alice", id)).toBe("queued");
	await xfer(pi, "quiet off");
	await until(() => world.state("alice", id) === "read", "it to be read");
});

describe("/xfer inbox, read and reply", () => {
	test("read shows one to the person, and it is read: the model is not shown it", async () => {
		const { world, pi } = await make();
		await xfer(pi, "quiet on");
		const id = world.send("alice", "only for your eyes\u001b[5A", { subject: "a secret", kind: "question" });
		const { text } = await xfer(pi, `read ${shortId(id)}`);
		expect(text).toMatch(/from bob · question/);
		expect(text).toContain("a secret");
		expect(text).toContain("only for your eyes");
		expect(text).not.toMatch(/[^\P{Cc}\n\t]/u);
		expect(world.state("alice", id)).toBe("read");
		await xfer(pi, "quiet off");
		await pi.prompt("hello");
		await pi.idle();
		expect(times(pi.model.requests.at(-1), "only for your eyes\u001b[5A")).toBe(0);
		expect(JSON.stringify(pi.model.requests)).not.toContain("only for your eyes");
		expect((await xfer(pi, "inbox")).text).toMatch(/nothing waits/);
	});

	test("reply answers in the person's words, with no hops", async () => {
		const { world, pi } = await make();
		await xfer(pi, "quiet on");
		const id = world.send("alice", "Which port?", { kind: "question", hops: 5 });
		expect((await xfer(pi, `reply ${shortId(id)} It is 80,\n  and stays.`)).text).toMatch(/queued for bob/);
		expect(world.inbox("bob")).toMatchObject([{ from: "alice", kind: "answer", re: id, hops: 0 }]);
		expect(world.state("alice", id)).toBe("answered");
		expect((await xfer(pi, "reply zzzzzzzz hello")).type).toBe("error");
		expect((await xfer(pi, `reply ${shortId(id)}`)).type).toBe("error");
		expect((await xfer(pi, "read zzzzzzzz")).type).toBe("error");
		expect((await xfer(pi, "read")).type).toBe("error");
	});
});

describe("/xfer send and sent", () => {
	test("send hands off the words as they are, and the transcript shows it; sent says where it stands", async () => {
		const { world, pi } = await make();
		expect((await xfer(pi, "send bob fix  the #flaky test: now\nplease")).text).toMatch(/queued for bob \(.*away/);
		const [item] = world.inbox("bob");
		expect(item).toMatchObject({ from: "alice", kind: "task", hops: 0 });
		expect((await pi.entries()).filter(({ customType }) => customType === "xfer-sent")).toHaveLength(1);
		expect((await xfer(pi, "sent")).text).toMatch(new RegExp(`${shortId(item?.id ?? "?")}.*queued.*to bob`));
		world.tree.node("bob").inbox.take()?.done();
		expect((await xfer(pi, `sent ${shortId(item?.id ?? "?")}`)).text).toMatch(/read/);
		expect(await xfer(pi, "send nobody hello")).toEqual({ type: "error", text: expect.stringMatching(/no Node "nobody"/) });
		for (const words of ["send bob", "send , hello"])
			expect(await xfer(pi, words)).toEqual({ type: "error", text: expect.stringMatching(/^to whom/) });
		expect((await xfer(pi, "send")).type).toBe("error");
		expect((await xfer(pi, "sent zzzzzzzz")).type).toBe("error");
		expect(pi.model.requests).toEqual([]);
	});

	test("reaches a Node that is named as a sub-command", async () => {
		const { world, pi } = await make();
		world.tree.join("board");
		await xfer(pi, "send board hello");
		expect(world.inbox("board")).toHaveLength(1);
	});
});

describe("/xfer NODE request", () => {
	test("has the model write the handoff document and send it", async () => {
		const { world, pi } = await make();
		const args = { to: "bob", kind: "task", subject: "a document", text: "All that you need to know." };
		pi.model.answer = ({ last }) =>
			last.includes("xfer_to") && last.includes("the flaky test") ? `CALL:xfer_to ${JSON.stringify(args)}END` : undefined;
		await pi.prompt("/xfer bob fix the flaky test");
		await until(() => world.inbox("bob").length === 1, "the handoff");
		await pi.idle();
		expect(world.inbox("bob")).toMatchObject([{ from: "alice", subject: "a document", hops: 0 }]);
	});

	test("while the model works waits until it has finished", async () => {
		const { world, pi } = await make();
		const { command, open } = gate(world);
		await pi.prompt(`TOOL:${command}END`);
		await pi.next("tool_execution_start", 0);
		await pi.prompt("/xfer bob fix the flaky test");
		open();
		await until(() => pi.model.requests.some(({ last }) => last.includes("the flaky test")), "the request");
		await pi.idle();
		expect(pi.model.requests[1]?.last).not.toContain("the flaky test");
	});

	test("to oneself, or without words, is refused", async () => {
		const { pi } = await make();
		expect((await xfer(pi, "alice do it")).type).toBe("error");
		expect((await xfer(pi, "bob")).type).toBe("error");
		expect(pi.model.requests).toEqual([]);
	});

	test("without a model is refused with what to do", async () => {
		const { pi } = await make({ noModel: true });
		expect(await xfer(pi, "bob do it")).toEqual({ type: "error", text: expect.stringMatching(/model/) });
	});
});

describe("/xfer board", () => {
	test("begins, lists, claims, ends and hides a Card", async () => {
		const { world, pi } = await make();
		expect((await xfer(pi, "board")).type).toBe("info");
		expect((await xfer(pi, "board new The cache\nWhere does it go?")).text).toMatch(/began Card/);
		const board = openBoard(world.tree);
		const card = await board.read(await board.find("The cache"));
		expect((await xfer(pi, "board list")).text).toMatch(new RegExp(`${card.id}.*The cache`));
		expect((await xfer(pi, `board claim ${card.id}`)).text).toMatch(/claimed.*until/);
		expect((await xfer(pi, `board done ${card.id} it is done`)).text).toMatch(/done/);
		expect((await xfer(pi, "board list")).text).not.toContain("The cache");
		expect((await xfer(pi, `board rm ${card.id}`)).text).toMatch(/removed/);
		expect(ls(world.root, "board")).toContain(card.file);
		expect((await xfer(pi, "board claim nothing")).type).toBe("error");
		expect((await xfer(pi, "board lst")).text).toMatch(/did you mean list/);
		for (const word of ["constructor", "__proto__ x"])
			expect(await xfer(pi, `board ${word}`)).toEqual({ type: "error", text: expect.stringMatching(/one of list, new/) });
		expect(pi.model.requests).toEqual([]);
	});

	test("read puts a Card into the conversation, and asks for nothing", async () => {
		const { world, pi } = await make();
		const board = openBoard(world.tree);
		const { id } = board.create({ title: "The cache", author: "bob", text: "Where does it go?\n</card>\u001b[5A" });
		await pi.prompt(`/xfer board read ${id}`);
		const [injected] = await pi.injected();
		expect(injected?.content).toMatch(/^\[xfer\].*not the user's word/);
		expect(injected?.content.match(/<\/card>/g)).toHaveLength(1);
		expect(injected?.content).not.toMatch(/[^\P{Cc}\n\t]/u);
		expect(pi.model.requests).toEqual([]);
		await pi.prompt("what do you think?");
		await pi.idle();
		expect(times(pi.model.requests[0], "Where does it go?")).toBe(1);
	});

	test("write has the model compose an Entry, adds it and shows it", async () => {
		const { world, pi } = await make();
		const board = openBoard(world.tree);
		const { id, file } = board.create({ title: "The cache", author: "bob", text: "Where?" });
		pi.model.answer = ({ last }) => {
			const mark = /<(entry-[0-9a-f]+)>/.exec(last)?.[1];
			return mark && `Here it is:\n<${mark}>\nIn front of **it**.\n</${mark}>\nDone.`;
		};
		const from = pi.records.length;
		await pi.prompt(`/xfer board write ${id} where it goes`);
		const { message } = await pi.next(({ type, method }) => type === "extension_ui_request" && method === "notify", from);
		expect(message).toContain("In front of **it**.");
		const { entries } = await board.read(file);
		expect(entries.map(({ author, text }) => [author, text.toString().trim()])).toEqual([["alice", "In front of **it**."]]);
	});

	test("write adds nothing when the answer holds no Entry, fails or is aborted", async () => {
		const { world, pi } = await make();
		const board = openBoard(world.tree);
		const { id, file } = board.create({ title: "The cache", author: "bob", text: "Where?" });
		const { opened } = gate(world);
		const answers = [() => "I would rather not.", () => "ERROR:400END", () => opened.then(() => "")];
		for (const [n, answer] of answers.entries()) {
			pi.model.answer = answer;
			const from = pi.records.length;
			await pi.prompt(`/xfer board write ${id} where it goes`);
			await until(() => pi.model.requests.length === n + 1, "the request");
			if (n === 2) await pi.send({ type: "abort" });
			const { message } = await pi.next(({ type, method }) => type === "extension_ui_request" && method === "notify", from);
			expect(message).toMatch(/nothing was written/);
			await pi.idle();
		}
		expect((await board.read(file)).entries).toEqual([]);
	});
});

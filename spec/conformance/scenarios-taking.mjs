// Scenarios: taking, marking, answering, recalling.
import fs from "node:fs";
import { asAlice, asBob, check, equal, I1, I2, idIn, nodes, ONE, rows, scenario, sendAlice, sleep, written } from "./scenario.mjs";
import { assertSame, build } from "./tree.mjs";

// Taking and marking

scenario("taken, marked by path", async (t) => {
	await nodes(t);
	for (const [mark, state, where] of [
		["read", "read", (id) => `cur/${id}:2,S`],
		["new", "queued", (id) => `new/${id},A=1`],
	]) {
		const id = await sendAlice(t, ["work"]);
		const file = (await t.take(asAlice("read", id, "--take"))).text.replace(/\n$/, "");
		check(file.startsWith(t.path(`nodes/alice/cur/${id},L=`)) && fs.existsSync(file), `read --take prints ${JSON.stringify(file)}`);
		equal((await t.take(asAlice("mark", file, mark))).text, `${state}\t${id}\n`, "what mark prints");
		check(fs.existsSync(t.path("nodes/alice", where(id))), `there is no ${where(id)}`);
		await t.take(asAlice("mark", file, mark), { exit: 5 });
	}
});
scenario("a lease ends 600 s from now, or XFER_LEASE", async (t) => {
	await nodes(t);
	for (const [env, seconds] of [
		[{}, 600],
		[{ XFER_LEASE: "60" }, 60],
	]) {
		await sendAlice(t, ["work"]);
		const start = Date.now() / 1000;
		const { text } = await t.take(asAlice("read", "--take"), { env });
		const lasts = Number(/,L=(\d+)\./.exec(text)?.[1]) - start;
		check(lasts > seconds - 2 && lasts < seconds + 31, `the lease ends after ${lasts} s: ${text}`);
	}
});
scenario("each command is an instance of its own", async (t) => {
	await nodes(t);
	const instances = new Set();
	for (let i = 0; i < 3; i++) {
		await sendAlice(t, ["work"]);
		instances.add(/,L=\d+\.([0-9a-hjkmnp-tv-z]{8}):2,\n$/.exec((await t.take(asAlice("read", "--take"))).text)?.[1]);
	}
	equal([instances.size, instances.has(undefined)], [3, false], "the instances in leases");
});
scenario("a lease that passed comes back, counted", async (t) => {
	await nodes(t);
	const id = await sendAlice(t, ["work"]);
	await t.take(asAlice("read", "--take"), { env: { XFER_LEASE: "1" } });
	await t.take(asAlice("read"), { exit: [0, 3] }); // within the second or just behind it
	await sleep(2500);
	await t.take(asAlice("read"), { exit: [0, 3] });
	equal(t.ls("nodes/alice/cur"), [`${id},A=1:2,S`], "cur/");
});
scenario("who lost the lease can't mark", async (t) => {
	await nodes(t);
	await sendAlice(t, ["work"]);
	const lost = (await t.take(asAlice("read", "--take"), { env: { XFER_LEASE: "1" } })).text.trimEnd();
	await sleep(2500);
	const held = (await t.send(asAlice("read", "--take"))).text.trimEnd();
	check(held !== lost && held.includes(",A=1,L="), `the second taker got ${held}`);
	const before = t.snapshot();
	for (const mark of [["read"], ["new"], ["failed", "why"]]) await t.take(asAlice("mark", lost, ...mark), { exit: 5 });
	assertSame(before, t.snapshot());
	await t.send(asAlice("mark", held, "read"));
});
scenario("4 takers race over 60: each is taken once", async (t) => {
	const id = (i) => `17000000${10 + i}.M000000Raaaaaaaa.h`;
	build(t.root, Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`nodes/alice/new/${id(i)}`, ONE])));
	const taken = [];
	async function taker(take) {
		for (;;) {
			const { code, text } = await take(asAlice("read", "--take"), { exit: [0, 3] });
			if (code === 3) return;
			taken.push(text.trimEnd());
			check(taken.length <= 60, "there are more takes than Handoffs");
		}
	}
	const [one, two] = [(...args) => t.take(...args), (...args) => t.send(...args)];
	await Promise.all([taker(one), taker(two), taker(one), taker(two)]);
	equal([taken.length, new Set(taken).size], [60, 60], "how often, and how many were taken");
	equal(
		[t.ls("nodes/alice/new").length, t.ls("nodes/alice/cur").map((name) => t.path("nodes/alice/cur", name))],
		[0, taken.sort()],
		"what is left",
	);
});
scenario("a look changes nothing", async (t) => {
	await nodes(t);
	await sendAlice(t, ["one"]);
	await sendAlice(t, ["two"]);
	const before = t.snapshot();
	const { text } = await t.take(asAlice("read", "--peek"));
	check(/---\n(one|two)$/.test(text), `it shows ${JSON.stringify(text)}`); // within a second the order is open
	await rows(t);
	await rows(t, ["--all"]);
	equal((await t.send(asBob("inbox", "alice"))).text.split("\n").length, 3, "lines of somebody else's look");
	assertSame(before, t.snapshot());
});
scenario("whoever reads into a closed pipe has not read", async (t) => {
	await nodes(t);
	const id = await sendAlice(t, ["-"], { stdin: Buffer.alloc(1_000_000, "x\n") });
	const bytes = fs.readFileSync(t.path("nodes/alice/new", id));
	const { code } = await t.start(["sh", "-c", '"$@" | true', "sh", ...t.taker, ...asAlice("read")], {});
	check(code !== undefined, "it did not end");
	const [name, ...more] = [...t.ls("nodes/alice/new"), ...t.ls("nodes/alice/cur")];
	check(name?.startsWith(id) && more.length === 0, `there is ${[name, ...more].join(" ")}`);
	check(!/2,[A-Z]*[RS]/.test(name), `it is marked: ${name}`);
	const file = ["new", "cur"].map((dir) => t.path("nodes/alice", dir, name)).find((file) => fs.existsSync(file));
	check(fs.readFileSync(file).equals(bytes), "its bytes changed");
});
scenario("a FIFO in new/ holds nothing up", async (t) => {
	await nodes(t);
	build(t.root, { "nodes/alice/new/1600000000.fifo": { fifo: true }, "nodes/alice/cur/1600000000.fifo:2,": { fifo: true } });
	const id = await sendAlice(t, ["hi"]);
	equal(
		(await rows(t)).map((row) => row[0]),
		[id],
		"the inbox",
	);
	check((await t.take(asAlice("read"))).text.endsWith("---\nhi"), "it was not read");
	await t.take(asAlice("read"), { exit: 3 });
	check(fs.lstatSync(t.path("nodes/alice/new/1600000000.fifo")).isFIFO(), "the FIFO is gone");
});
scenario("a name with a newline hides nothing", async (t) => {
	await nodes(t);
	build(t.root, { "nodes/alice/new/zz\nzz": "odd\n", [`nodes/alice/new/${I1}`]: ONE });
	check(
		(await rows(t)).some((row) => row[0] === I1),
		"the inbox does not show the other one",
	);
	equal((await t.take(asAlice("read"))).text, ONE, "what is read");
});
scenario("a file of 2 GiB is listed without being loaded", async (t) => {
	await nodes(t);
	build(t.root, { [`nodes/alice/new/${I1}`]: ONE, [`nodes/alice/new/${I2}`]: ONE });
	fs.truncateSync(t.path("nodes/alice/new", I2), 2 ** 31);
	equal(
		(await rows(t)).map((row) => [row[0], row[5]]),
		[
			[I1, "one"],
			[I2, "one"],
		],
		"the inbox",
	);
	equal((await t.take(asAlice("read"))).text, ONE, "what is read");
});
scenario("nothing partial is ever seen in new/, when a sender is killed either", async (t) => {
	await nodes(t);
	const body = Buffer.alloc(16_000_000, "0123456789abcdef");
	const env = { XFER_MAX_BYTES: "99999999" };
	const firstSize = new Map(); // of each file, when it was first seen
	let sending = true;
	const looking = (async () => {
		for (; sending; await new Promise(setImmediate))
			for (const name of t.ls("nodes/alice/new"))
				if (!firstSize.has(name)) firstSize.set(name, fs.statSync(t.path("nodes/alice/new", name)).size);
	})();
	try {
		const start = Date.now();
		await sendAlice(t, ["-"], { stdin: body, env });
		const takes = Date.now() - start;
		for (let i = 1; i <= 12; i++) await t.send(asBob("send", "alice", "-"), { stdin: body, env, killAfter: (takes * i) / 10 });
	} finally {
		sending = false;
		await looking;
	}
	for (const name of t.ls("nodes/alice/new")) {
		check(written(t, "alice/new", name).body.equals(body), `${name} is not whole`);
		check(firstSize.get(name) >= body.length, `${name} was in new/ before it was whole`);
	}
	t.writing = fs.readdirSync(t.path("nodes/alice/tmp")); // what a kill may leave
});

// Answers, recalls, failures

scenario("a task is answered", async (t) => {
	await nodes(t);
	const id = await sendAlice(t, ["work", "--subject", "Do it"]);
	await t.take(asAlice("read"));
	const answer = idIn((await t.take(asAlice("reply", id, "done"))).text);
	equal(t.ls("nodes/alice/cur"), [`${id}:2,RS`], "the original");
	const { fields, body } = written(t, "bob/new", answer);
	const is = ["from", "to", "kind", "re", "thread"].map((key) => fields.get(key));
	equal([...is, body.toString()], ["alice", "bob", "answer", id, id, "done"], "the answer");
	const note = idIn((await t.send(asBob("reply", answer, "thanks"))).text);
	const second = written(t, "alice/new", note).fields;
	equal(
		["kind", "re", "thread"].map((key) => second.get(key)),
		["note", answer, id],
		"the reply to the answer",
	);
	equal(
		[(await t.take(asAlice("read", note))).text.endsWith("---\nthanks"), t.ls("nodes/bob/cur")],
		[true, [`${answer}:2,RS`]],
		"the end of it",
	);
});
scenario("recalled before it is taken, not after", async (t) => {
	await nodes(t);
	const early = await sendAlice(t, ["one"]);
	equal((await t.send(asBob("recall", early))).text, `recalled\t${early}\n`, "what recall prints");
	await t.take(asAlice("read"), { exit: 3 });
	const late = await sendAlice(t, ["two"]);
	await t.take(asAlice("read", "--take"));
	await t.send(asBob("recall", late), { exit: 5 });
	equal(t.ls("nodes/alice/cur")[0], `${early},E=recalled:2,T`, "the recalled one");
	equal((await rows(t, ["--all"])).map((row) => row[2]).sort(), ["recalled", "taken"], "the states");
});
scenario("recall and take race: one of them wins", async (t) => {
	await nodes(t);
	for (let i = 0; i < 8; i++) {
		const id = await sendAlice(t, ["one"]);
		const both = await Promise.all([
			t.send(asBob("recall", id), { exit: [0, 5] }),
			t.take(asAlice("read", id, "--take"), { exit: [0, 3, 5] }),
		]);
		equal(both.filter(({ code }) => code === 0).length, 1, "the number of winners");
	}
});
scenario("a failure is reported once, and a report's failure is not", async (t) => {
	await nodes(t);
	const id = await sendAlice(t, ["work"]);
	const file = (await t.take(asAlice("read", "--take"))).text.trimEnd();
	await t.take(asAlice("mark", file, "failed", "no", "such file"));
	await t.take(asAlice("mark", file, "failed", "again"), { exit: 5 });
	const [report, ...more] = t.ls("nodes/bob/new");
	check(report && more.length === 0, `bob has ${more.length ? "more than one report" : "no report"}`);
	const { fields, body } = written(t, "bob/new", report);
	equal(
		["from", "kind", "re"].map((key) => fields.get(key)),
		["alice", "report", id],
		"the report",
	);
	check(body.toString().includes("no such file"), `it says ${JSON.stringify(body.toString())}`);
	const held = (await t.send(asBob("read", "--take"))).text.trimEnd();
	await t.send(asBob("mark", held, "failed", "can't use this"));
	equal([t.ls("nodes/alice/new"), t.ls("nodes/alice/cur")], [[], [`${id},E=failed:2,F`]], "what alice has");
});
scenario(
	"what expires is not shown as new work",
	async (t) => {
		await nodes(t);
		const id = await sendAlice(t, ["quick", "--expires", "1s"]);
		await sleep(1500);
		await t.take(asAlice("read"), { exit: 3 });
		equal([t.ls("nodes/alice/new"), t.ls("nodes/alice/cur")], [[], [`${id},E=expired:2,T`]], "what alice has");
	},
	["expires"],
);
scenario(
	"of 8 senders with one key exactly one is read",
	async (t) => {
		await nodes(t);
		await Promise.all(Array.from({ length: 8 }, (_, i) => sendAlice(t, [`state ${i}`, "--key", "build"])));
		// Two that publish at once may not see each other; a taker does.
		let read = 0;
		while ((await t.take(asAlice("read"), { exit: [0, 3] })).code === 0) check(++read <= 8, "there are more reads than Handoffs");
		equal([read, t.ls("nodes/alice/cur").filter((name) => name.endsWith(",E=replaced:2,T")).length], [1, 7], "read and replaced");
	},
	["key"],
);

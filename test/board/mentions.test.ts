import fs from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { parseCard } from "../../lib/board/card.ts";
import { mentionsIn, notifyMentioned } from "../../lib/board/mentions.ts";
import type { ContextOptions } from "../../lib/context.ts";
import { openTree, type Taken, type Tree } from "../../lib/index.ts";
import { ls, tempTree } from "../helpers.ts";

const noon = Date.parse("2026-11-30T12:00:00.000Z");

describe("A mention", () => {
	test.each<[string, string[]]>([
		["@alice", ["alice"]],
		["hello @alice, and @bob!", ["alice", "bob"]],
		["@Alice and @ALICE", ["alice"]],
		["@alice @bob @alice", ["alice", "bob"]],
		["(@alice)", ["alice"]],
		["**@alice** *@bob* <@carol> [@dave](x) '@eve' \"@frank\"", ["alice", "bob", "carol", "dave", "eve", "frank"]],
		["@alice's", ["alice"]],
		["cc:@alice,@bob;@carol", ["alice", "bob", "carol"]],
		["@api-2 @k8s.prod @a_b @0", ["api-2", "k8s.prod", "a_b", "0"]],
		["- @alice\n> @bob\n# @carol\n1. @dave\n| @eve |", ["alice", "bob", "carol", "dave", "eve"]],
		["one\r\n@alice\r\n", ["alice"]],
		["\u00e4 @alice \u00e4", ["alice"]],
		["日本、@alice。", ["alice"]],
		[`@${"a".repeat(63)}`, ["a".repeat(63)]],
	])("in %j is of %j", (text, names) => {
		expect(mentionsIn(text)).toEqual(names);
	});

	test.each<[string, string]>([
		["@alice.", "alice"],
		["@alice...", "alice"],
		["@alice: look", "alice"],
		["@alice?!", "alice"],
		["@alice- look", "alice"],
		["@alice_", "alice"],
		["ask @k8s.prod.", "k8s.prod"],
		["@alice.\n", "alice"],
		["@alice…", "alice"],
	])("at the end of a sentence (%j) is without what ends it", (text, name) => {
		expect(mentionsIn(text)).toEqual([name]);
	});

	test.each([
		["an address", "alice@example.com bob.smith@example.com a+b@x.org a_b@x a-b@x a%b@x 1@x é@x 日@x"],
		["a remote", "git@github.com:owner/name.git ssh://git@host/x"],
		["an address on the Web", "https://example.com/@alice https://medium.com/@alice/x"],
		["a path", "./@alice /@bob lib/@carol"],
		["a scope of npm", "@types/node @scope/pkg@1.2.3 npm i @biomejs/biome"],
		["a path that begins with it", "@alice/ @alice/x @k8s.prod/x"],
		["a version", "pkg@latest node@24 yargs@18.2.0"],
		["two at signs", "@@alice @@@bob"],
		["nothing behind it", "@ @. @- @_x @/ @é"],
		["a name that is too long", `@${"a".repeat(64)} @${"a".repeat(1000)}`],
		["a variable", "%@alice +@bob -@carol _@dave ~a@eve"],
	])("is not in %s", (_, text) => {
		expect(mentionsIn(text)).toEqual([]);
	});
});

describe("Code", () => {
	test.each([
		["a span", "`@x`"],
		["a span of two", "``@x``"],
		["a span with a backtick in it", "`` a`@x`b ``"],
		["a span over two lines", "`a\n@x b`"],
		["a span over lines with CR", "`a\r\n@x b`"],
		["a span with runs of other lengths in it", "`a``@x```b`"],
		["a span of many", `${"`".repeat(50)}@x${"`".repeat(50)}`],
		["a backslash at the end of a span", "`\\`@alice`@x`"],
		["a fence", "```\n@x\n```"],
		["a fence with a language", "```ts twoslash\n@x\n```"],
		["a fence of tildes", "~~~\n@x\n~~~"],
		["a fence of tildes with a backtick behind it", "~~~ `a`\n@x\n~~~"],
		["a longer fence", "`````\n@x\n```\n@x\n`````"],
		["a fence closed by a longer one", "```\n@x\n`````"],
		["a fence of the other kind in it", "```\n~~~\n@x\n~~~\n@x\n```"],
		["a fence that is indented", "   ```\n   @x\n  ```"],
		["a fence that is never closed", "```\n@x\n\n@x\n"],
		["a fence with blank lines", "```\n\n@x\n\n\n@x\n```"],
		["a fence with CR", "```\r\n@x\r\n```\r"],
		["a closing fence with a word behind it", "```\n@x\n``` js\n@x\n```"],
		["a fence right behind text", "text\n```\n@x\n```"],
		["a fence within a list", "- a\n\n  ```\n  @x\n  ```"],
		["indented lines", "    @x"],
		["indented lines behind a blank line", "text\n\n    @x\n    @x"],
		["indented lines with blank ones between", "    a\n\n    @x\n\n\n    @x"],
		["lines indented by a tab", "\t@x\n  \t@x"],
		["indented lines with CR", "text\r\n\r\n    @x\r\n"],
	])("is %s: nobody in it is mentioned, and those around it are", (_, code) => {
		const marked = code.replaceAll("@alice", "@code");
		if (!code.includes("@alice")) expect(mentionsIn(marked)).toEqual([]);
		const around = mentionsIn(`@before\n\n${marked}${/never closed/.test(_) ? "" : "\n\n@after"}`);
		expect(around.filter((name) => name === "x")).toEqual([]);
		expect(around[0]).toBe("before");
		if (!/never closed/.test(_)) expect(around.at(-1)).toBe("after");
	});

	test.each([
		["one backtick", "a ` @alice"],
		["runs of different lengths", "`` @alice `"],
		["runs in two paragraphs", "a ` b\n\n@alice ` c"],
		["a run of three in a line", "a ``` @alice"],
		["a fence line with a backtick behind it", "``` a`b\n@alice"],
		["a fence of two", "``\n@alice"],
		["a fence that is indented by 4 in a paragraph", "a\n    ~~~\n@alice"],
		["lines indented by 3", "   @alice"],
		["indented lines that go on with a paragraph", "text\n    @alice"],
		["indented lines behind text behind a blank line", "a\n\nb\n\t@alice"],
		["what comes behind indented lines", "    code\n@alice"],
		["what comes behind a fence", "```\ncode\n```\n@alice"],
		["what comes behind a span", "`code`@alice"],
		["what stands between spans", "`a` @alice `b`"],
		["what comes behind two fences", "```\na\n```\n~~~\nb\n~~~\n@alice"],
		["a tilde", "~~ @alice ~~"],
	])("is not %s", (_, text) => {
		expect(mentionsIn(text)).toEqual(["alice"]);
	});

	test.each<[string, string, string[]]>([
		["a fence that begins in a list item ends there", "- ```\n  @x\n  ```\n\n@alice", ["alice"]],
		["a fence that begins in a numbered item ends there", "1. ```\n   @x\n   ```\n@alice", ["alice"]],
		["a fence in a quotation", "> ~~~\n> @x\n> ~~~\n@alice", ["alice"]],
		["indented lines right behind a heading", "# Heading\n    @x", []],
		["indented lines right behind a fence", "```\n```\n    @x", []],
		["a closing fence may have a tab behind it", "```\n@x\n```\t\n@alice", ["alice"]],
		["a closing fence has nothing else behind it", "```\n@x\n```~~~\n@x\n```\n@alice", ["alice"]],
		["a closing fence has no other fence behind it", "```\n@x\n``` ```\n@x\n```\n@alice", ["alice"]],
		["a backtick behind a backslash begins no span", "\\`@alice\\`", ["alice"]],
		["a list in a list, behind a blank line, is no code", "- a\n\n    - @alice", ["alice"]],
		["a span ends with its heading", "# a ` b\n@alice ` c", ["alice"]],
		["a span ends with its list item", "- a ` b\n- @alice ` c", ["alice"]],
	])("%s", (_, text, names) => {
		expect(mentionsIn(text)).toEqual(names);
	});

	test.each<[string, string, string[]]>([
		["a fence in a list does not close one that began outside", "```md\n- ```\n@x\n```\n@alice", ["alice"]],
		["a fence in a quotation does not close one that began outside", "```md\n> ```\n@x\n```\n@alice", ["alice"]],
		["a list in a fence is no list", "```\n- a\n```\n\n    @x", []],
		["a closing fence is not indented by 4", "```\n@x\n    ```\n@x\n```\n@alice", ["alice"]],
		["a span in a quotation over two lines", "> `a\n> @x b`", []],
		["indented lines right behind a rule", "***\n    @x", []],
		["indented lines right behind an underlined heading", "Heading\n===\n    @x", []],
	])("%s", (_, text, names) => {
		expect(mentionsIn(text)).toEqual(names);
	});

	test.each<[string, string, string[]]>([
		["a task in a list", "- [ ] @alice\n- [x] @bob", ["alice", "bob"]],
		["a list in a quotation", "> - @alice\n> 1) @bob", ["alice", "bob"]],
		["a rule of dashes is no list", "- - -\n\n    @x", []],
		["a table", "| `@x` | @alice |", ["alice"]],
		["a fence deep in a list", "- a\n\n      ```\n      @x\n      ```\n\n@alice", ["alice"]],
		["a list that has ended", "- a\n\nb\n\n    @x\n\n@alice", ["alice"]],
	])("%s", (_, text, names) => {
		expect(mentionsIn(text)).toEqual(names);
	});
});

/** ms of the processor, the least of three times. */
function cost(act: () => unknown): number {
	const times: number[] = [];
	for (let time = 0; time < 3; time++) {
		const before = process.cpuUsage();
		act();
		const { user, system } = process.cpuUsage(before);
		times.push((user + system) / 1000);
	}
	return Math.min(...times);
}

test.each(["- ", "* "])("finding mentions in a line of many %j takes time in proportion to their number", (marker) => {
	const line = (count: number) => `${marker.repeat(count)}x`;
	expect(cost(() => mentionsIn(line(8000))) / cost(() => mentionsIn(line(500)))).toBeLessThan(60); // about 16, or 256
});

test("finding mentions takes time in proportion to the text, whatever it holds", () => {
	const size = 1024 * 1024;
	const lengths = Array.from({ length: 1400 }, (_, index) => "`".repeat(index + 1)).join(" ");
	const hostile = [
		...[
			"@",
			"`",
			"` ",
			"` `` ",
			"~~~\n",
			"```\n",
			"\n",
			"\r",
			" ",
			"\t",
			"\n ",
			"\n\r",
			"\n\n",
			" @a",
			"-@a",
			"@a/",
			"@a.",
			"\\`",
			"    \n",
			"#",
			"a",
			"é",
			">",
			"> ",
			"1. ",
			"- \n",
			"-\t",
		].map((part) => part.repeat(size / part.length)),
		`@${"a".repeat(size)}`,
		`@${"a.".repeat(size / 2)}`,
		`@${"a-".repeat(size / 2)}/`,
		`${`@${"a".repeat(62)} `.repeat(size / 64)}/`,
		`${`@${"a.".repeat(31)}/`.repeat(size / 64)}`,
		lengths,
		`${"`".repeat(size / 2)}\n${"`".repeat(size / 2)}`,
		`${"~".repeat(size / 2)}\n${"~\n".repeat(size / 4)}`,
		`\n${" ".repeat(size)}x`,
		`\`${" \n".repeat(size / 2)}\``,
	];
	// Quadratic time would be hours.
	for (const text of hostile) for (const name of mentionsIn(text)) expect(name).toMatch(/^[a-z0-9][a-z0-9._-]{0,62}$/);
});

describe("Who is mentioned in an Entry", () => {
	const place = { id: "k3f9q2", title: "Cache layer" };

	function world(options: ContextOptions = {}, ...names: string[]): Tree {
		const { root } = tempTree();
		const tree = openTree({ root, env: {}, durable: false, clock: () => noon, ...options });
		for (const name of names.length > 0 ? names : ["alice", "bob", "carol"]) tree.join(name);
		return tree;
	}

	function entry(
		text: string | Buffer,
		{ author = "bob", id = "q7w8e9rt", date = noon }: { author?: string; id?: string; date?: number | undefined } = {},
	) {
		return { id, type: "finding", author, date, text: Buffer.from(text as string) };
	}

	const notes = (tree: Tree, name: string) =>
		tree
			.node(name)
			.inbox.list({ states: () => true })
			.items.map(({ id, from, kind, subject }) => ({ id, from, kind, subject }));
	const bodyOf = (tree: Tree, name: string): string => {
		const [file] = ls(tree.context.root, "nodes", name, "new");
		return fs.readFileSync(path.join(tree.context.root, "nodes", name, "new", file ?? ""), "utf8");
	};

	test("gets a note with the Card, the Entry and its text, under an id that everybody makes", () => {
		const tree = world();
		const outcomes = notifyMentioned(tree, place, entry("@alice the headers\nare read twice"), "bob");
		const id = `${noon / 1000}.M000000Rq7w8e9rt.k3f9q2.alice`;
		expect(outcomes).toEqual([{ to: "alice", id, durability: expect.anything() }]);
		expect(notes(tree, "alice")).toEqual([{ id, from: "bob", kind: "note", subject: '@alice in "Cache layer"' }]);
		const body = bodyOf(tree, "alice");
		for (const part of ["k3f9q2", "q7w8e9rt", "finding", "@alice the headers\nare read twice\n"]) expect(body).toContain(part);
		expect(notes(tree, "bob")).toEqual([]);
		expect(notes(tree, "carol")).toEqual([]);
	});

	test("gets it once for each Entry, whoever hands it over and how often, also after it was read, failed or ended", () => {
		const ends: ((taken: Taken | undefined) => void)[] = [
			() => {},
			(taken) => taken?.done(),
			(taken) => taken?.release(),
			(taken) => taken?.fail("why"),
		];
		for (const then of ends) {
			const tree = world();
			const tell = (id: string, from: string) => notifyMentioned(tree, place, entry("@alice @alice", { id }), from);
			tell("q7w8e9rt", "bob");
			expect(tell("q7w8e9rt", "bob")).toEqual([expect.objectContaining({ durability: "again" })]);
			then(tree.node("alice").inbox.take());
			for (const from of ["bob", "carol", "alice"])
				expect(tell("q7w8e9rt", from)).toEqual([{ to: "alice", id: `${noon / 1000}.M000000Rq7w8e9rt.k3f9q2.alice`, durability: "again" }]);
			expect(notes(tree, "alice").length).toBe(1);
			tell("aaaaaaaa", "bob");
			expect(notes(tree, "alice").length).toBe(2);
		}
	});

	test("gets one for each Card and each Entry, though their ids may be the same", () => {
		const tree = world();
		for (const id of ["aaaaaa", "bbbbbb"]) notifyMentioned(tree, { ...place, id }, entry("@alice"), "bob");
		expect(notes(tree, "alice").length).toBe(2);
	});

	test("is told each, in the order of the text", () => {
		const tree = world();
		expect(notifyMentioned(tree, place, entry("@carol @alice"), "bob").map(({ to }) => to)).toEqual(["carol", "alice"]);
	});

	test("is never its author, under none of the author's names, whoever hands it over", () => {
		const tree = world();
		fs.symlinkSync("bob", path.join(tree.context.root, "nodes/bobby"));
		for (const author of ["bob", "bobby"])
			for (const from of ["bob", "bobby", "alice"])
				expect(notifyMentioned(tree, place, entry("@bob @bobby @Bob", { author }), from)).toEqual([]);
		expect(notes(tree, "bob")).toEqual([]);
	});

	test("gets one note under all of its names", () => {
		const tree = world();
		fs.symlinkSync("alice", path.join(tree.context.root, "nodes/al"));
		expect(notifyMentioned(tree, place, entry("@al @alice @AL"), "bob").map(({ to }) => to)).toEqual(["alice"]);
		expect(notes(tree, "alice").length).toBe(1);
	});

	test("may be who hands it over, when another wrote it", () => {
		const tree = world();
		notifyMentioned(tree, place, entry("@alice"), "alice");
		expect(notes(tree, "alice")).toEqual([expect.objectContaining({ from: "alice", subject: '@alice in "Cache layer" by bob' })]);
	});

	test("is an error in its outcome when there is no such Node, or can't be one, and hinders no other", () => {
		const tree = world();
		const outcomes = notifyMentioned(tree, place, entry("@nobody @all @unknown @alice"), "bob");
		expect(outcomes.map((outcome) => [outcome.to, (outcome.error as { code?: string } | undefined)?.code])).toEqual([
			["nobody", "ENODE"],
			["all", "ENAME"],
			["unknown", "ENAME"],
			["alice", undefined],
		]);
		expect(ls(tree.context.root, "nodes")).toEqual(["alice", "bob", "carol"]);
	});

	test("is an error in its outcome when its Inbox can't be written, and hinders no other", () => {
		const tree = world();
		const inbox = path.join(tree.context.root, "nodes/alice");
		fs.rmSync(`${inbox}/new`, { recursive: true });
		fs.writeFileSync(`${inbox}/new`, "in the way");
		const outcomes = notifyMentioned(tree, place, entry("@alice @carol"), "bob");
		expect(outcomes.map(({ to, error }) => [to, error === undefined])).toEqual([
			["alice", false],
			["carol", true],
		]);
	});

	test.each([
		["no date", { date: undefined }, `0.M000000Rq7w8e9rt.k3f9q2.alice`],
		["a date before 1970", { date: -5000 }, `0.M000000Rq7w8e9rt.k3f9q2.alice`],
		["a far date", { date: Date.parse("9999-12-31T23:59:59Z") }, `253402300799.M000000Rq7w8e9rt.k3f9q2.alice`],
	])("gets it for an Entry with %s too", (_, given, id) => {
		const tree = world();
		const { date, ...rest } = { ...entry("@alice"), ...given };
		notifyMentioned(tree, place, { ...rest, date }, "bob");
		expect(notes(tree, "alice").map(({ id }) => id)).toEqual([id]);
	});

	test("gets the beginning of a long text, and its title on one line, whatever they hold", () => {
		const tree = world();
		const title = `$& "x"\n${"é".repeat(500)}`;
		notifyMentioned(tree, { id: "../../x/k3f9q2:,;", title }, entry(`@alice ${"é".repeat(500_000)}`), "bob");
		const [note] = notes(tree, "alice");
		expect(note?.id).toMatch(/^\d+\.M000000Rq7w8e9rt\.[A-Za-z0-9._-]+\.alice$/);
		expect(note?.subject).toMatch(/^@alice in "\$& "x" é/);
		expect(bodyOf(tree, "alice").length).toBeLessThan(20_000);
		expect(bodyOf(tree, "alice")).toContain("the rest stands on the Card");
	});

	test("is found in an Entry typed by hand, and its note has the id that the Entry has for everybody", () => {
		const tree = world();
		const [typed] = parseCard(Buffer.from("### note · dave\n\n@alice look\n")).entries;
		if (!typed) throw new Error("no Entry");
		notifyMentioned(tree, place, typed, "carol");
		expect(notes(tree, "alice").map(({ id }) => id)).toEqual([`0.M000000R${typed.id}.k3f9q2.alice`]);
	});

	test("of a text that is no UTF-8 gets it all the same", () => {
		const tree = world();
		notifyMentioned(tree, place, entry(Buffer.from([0xff, 0x20, ...Buffer.from("@alice"), 0xfe])), "bob");
		expect(notes(tree, "alice").length).toBe(1);
	});
});

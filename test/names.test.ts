import fs from "node:fs";
import path from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isNodeName, nodeName, slug, XferError } from "../lib/index.ts";
import { similar } from "../lib/names.ts";
import { project } from "./helpers.ts";

const vectors: { name: string; about: string; input: string; node?: string; refused?: true }[] = JSON.parse(
	fs.readFileSync(path.join(project, "spec/vectors/names.json"), "utf8"),
);

function refusal(text: string): XferError {
	try {
		throw new Error(`${JSON.stringify(text)} is accepted as ${nodeName(text)}`);
	} catch (error) {
		if (error instanceof XferError) return error;
		throw error;
	}
}

/** Names that a person, a script or an attacker may give: none of them may become part of a path. */
const nasty = [
	"",
	".",
	"..",
	"../x",
	"a/b",
	"/etc",
	"a\0b",
	"a\n",
	"\na",
	"x".repeat(300),
	"-x",
	"_x",
	".x",
	"a b",
	"ä",
	"a\\b",
	"~",
	"$HOME",
	"*",
];

describe("the name that a person gives", () => {
	test.each(vectors)("$name: $about", ({ input, node, refused }) => {
		if (refused) expect(refusal(input).code).toBe("ENAME");
		else expect(nodeName(input)).toBe(node);
	});

	test.each(nasty)("%j is refused, never repaired", (text) => {
		expect(refusal(text).code).toBe("ENAME");
		expect(isNodeName(text)).toBe(false);
	});

	test("upper-case ASCII is folded, and nothing else", () => {
		expect(nodeName("Alice-2.B_C")).toBe("alice-2.b_c");
		expect(isNodeName("Alice")).toBe(false);
		for (const other of ["\u212aate", "İda", "Älice", "Ⓐ"]) expect(refusal(other).code).toBe("ENAME");
	});

	test("`all` and `unknown` are no Node, in any case", () => {
		for (const word of ["all", "unknown", "All", "UNKNOWN"]) expect(refusal(word).code).toBe("ENAME");
		expect(refusal("all").cure).toContain("@all");
	});

	test("a refusal says what fits", () => {
		for (const text of ["a b", "-x", ""]) expect(refusal(text).cure).toMatch(/63.*a-z/);
	});

	test("a refusal shows control characters escaped, and a long text cut", () => {
		expect(refusal("a\x1b[2J\n").message).not.toMatch(/\p{Cc}/u);
		expect(refusal("x".repeat(5000)).message.length).toBeLessThan(200);
	});

	test("whatever the text is: refused, or a name that is one component of a path", () => {
		const text = fc.oneof(
			fc.string(),
			fc.string({ unit: "binary" }),
			fc.stringMatching(/^[A-Za-z0-9._/-]{0,70}$/),
			fc.constantFrom(...nasty),
		);
		fc.assert(
			fc.property(text, (given) => {
				let name: string;
				try {
					name = nodeName(given);
				} catch (error) {
					expect((error as XferError).code).toBe("ENAME");
					return;
				}
				expect(name).toMatch(/^[a-z0-9][a-z0-9._-]{0,62}$/);
				expect(name).toBe(given.toLowerCase());
				expect(nodeName(name)).toBe(name);
				expect(path.join("/tree/nodes", name, "new")).toBe(`/tree/nodes/${name}/new`);
			}),
			{ numRuns: 1000 },
		);
	});
});

describe("a derived name", () => {
	test.each([
		["My Project", "my-project"],
		["foo  &&  bar!", "foo-bar"],
		["--x--", "x"],
		["...hidden", "hidden"],
		["_private", "private"],
		["a.b_c-d", "a.b_c-d"],
		["\u212a8s", "8s"],
		["x".repeat(100), "x".repeat(63)],
		["größe", "gr-e"],
	])("of %j is %j", (text, name) => {
		expect(slug(text)).toBe(name);
	});

	test.each(["", "---", "...", "日本", "all", "Unknown", " all "])("of %j is none", (text) => {
		expect(slug(text)).toBeUndefined();
	});

	test("whatever the text is, it is a Node name or none, does not end with `-`, and stays as it is when derived again", () => {
		fc.assert(
			fc.property(fc.oneof(fc.string({ unit: "binary", maxLength: 200 }), fc.stringMatching(/^[ -~]{0,150}$/)), (text) => {
				const name = slug(text);
				if (name === undefined) return;
				expect(isNodeName(name)).toBe(true);
				expect(name.endsWith("-")).toBe(false);
				expect(slug(name)).toBe(name);
			}),
			{ numRuns: 1000 },
		);
	});
});

describe("what was most likely meant", () => {
	const names = ["alice", "bob", "codex-api", "claude"];

	test.each([
		["alcie", "alice"],
		["Alice", "alice"],
		["alic", "alice"],
		["aliice", "alice"],
		["bop", "bob"],
		["codex-ap", "codex-api"],
	])("%s: %s", (text, meant) => {
		expect(similar(text, names)).toBe(meant);
	});

	test("is nothing when more than two letters, or half of them, are off", () => {
		for (const text of ["zed", "x", "", "alixyz", "bxx"]) expect(similar(text, names)).toBeUndefined();
		expect(similar("alice", [])).toBeUndefined();
	});
});

import fs from "node:fs";
import path from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createContext, unique } from "../lib/context.ts";
import {
	attemptsOf,
	change,
	type Dir,
	type FileName,
	field,
	formatFileName,
	idAbove,
	idMaker,
	idOf,
	leaseOf,
	parseFileName,
	pickId,
	shortId,
	stateOf,
	timeOf,
} from "../lib/filename.ts";
import { XferError } from "../lib/index.ts";
import { project } from "./helpers.ts";

interface Vector {
	name: string;
	about: string;
	file: string;
	id: string;
	short: string;
	fields: Record<string, string>;
	flags: string;
	state: string;
	ignored?: true;
}

const vectors: Vector[] = JSON.parse(fs.readFileSync(path.join(project, "spec/vectors/ids.json"), "utf8"));

const byKey = (a: string, b: string) => Buffer.compare(Buffer.from(a.replace(/=.*/s, "")), Buffer.from(b.replace(/=.*/s, "")));

/** Text that may stand in a file name, without the characters that have a meaning there. */
const word = fc.stringMatching(/^[^\0/,:;=.][^\0/,:;=]{0,11}$/);
const id = fc.oneof(word, fc.stringMatching(/^\d{10}\.M\d{6}R[0-9a-hjkmnp-tv-z]{8}\.[a-z]{1,8}$/));
const key = fc.oneof(fc.constantFrom("A", "E", "L", "B", "Z", "a", "X", "constructor", "toString", "__proto__", "hasOwnProperty"), word);
const value = fc.oneof(fc.constantFrom("", "1", "failed", "1700000000.aaaaaaaa", "=", "a=b"), fc.stringMatching(/^[^\0/,:;]{0,12}$/));
const anyField = fc.oneof(
	key,
	fc.tuple(key, value).map(([k, v]) => `${k}=${v}`),
);
const flags = fc.stringMatching(/^[A-Za-z]{0,8}$/);
const dir = fc.constantFrom<Dir>("new", "cur");
/** Any name of a file in a maildir, as a foreign program may leave it. */
const foreign = fc
	.tuple(id, fc.array(anyField, { maxLength: 5 }), fc.constantFrom("", ":2,", ";2,", ":1,", ":", ":2", ":2,S:2,", ":2,,"), flags)
	.map(([head, fields, info, flagged]) => [head, ...fields].join(",") + info + (info ? flagged : ""));
/** Any name that a writer of ours may make. */
const ours = fc
	.record({
		id,
		fields: fc.uniqueArray(
			fc.tuple(key, value).map(([k, v]) => `${k}=${v}`),
			{ maxLength: 5, selector: (text) => text.split("=")[0] },
		),
		flags: flags.map((text) => [...new Set(text)].sort().join("")),
	})
	.map((file): FileName => ({ ...file, fields: file.fields.sort(byKey) }));

describe("the name of a file", () => {
	test.each(vectors.filter(({ ignored }) => !ignored))("$name: $about", ({ file: given, ...expected }) => {
		const [directory, name = ""] = given.split("/") as [Dir, string];
		const file = parseFileName(name);
		expect(file.id).toBe(expected.id);
		expect(idOf(name)).toBe(expected.id);
		expect(shortId(file.id)).toBe(expected.short);
		for (const [k, v] of Object.entries(expected.fields)) expect(field(file, k) ?? (file.fields.includes(k) ? "" : undefined)).toBe(v);
		expect(file.flags).toBe(expected.flags);
		expect(stateOf(directory, file)).toBe(expected.state);
	});

	test("is read as it was written", () => {
		fc.assert(
			fc.property(ours, dir, fc.constantFrom(":" as const, ";" as const), (file, directory, separator) => {
				const name = formatFileName(file, directory, separator);
				expect(parseFileName(name)).toEqual(file);
				expect(formatFileName(parseFileName(name), directory, separator)).toBe(name);
			}),
			{ numRuns: 1000 },
		);
	});

	test("whatever it is, nothing throws, and the id is what stands before the first `:`, `;` or `,`", () => {
		fc.assert(
			fc.property(fc.oneof(foreign, fc.string({ unit: "binary" })), dir, (name, directory) => {
				const file = parseFileName(name);
				expect(file.id).toBe(name.split(/[:;,]/)[0]);
				expect(idOf(name)).toBe(file.id);
				expect(stateOf(directory, file)).toMatch(/./s);
				expect(attemptsOf(file)).toBeGreaterThanOrEqual(0);
				expect(leaseOf(file)?.end ?? 0).toBeGreaterThanOrEqual(0);
				expect(shortId(file.id)).toBe(/^\d+\.M\d{6}R[0-9a-hjkmnp-tv-z]{8}\./.test(file.id) ? file.id.split("R")[1]?.slice(0, 8) : file.id);
			}),
			{ numRuns: 1000 },
		);
	});

	test("keeps unknown fields and flags through every change, in order and once each", () => {
		const changes = fc.record({
			fields: fc.dictionary(fc.constantFrom("A", "E", "L"), fc.option(fc.constantFrom("1", "failed", "1.a"), { nil: undefined })),
			add: fc.constantFrom("", "S", "RS", "T", "F"),
			drop: fc.constantFrom("", "SRT", "SRTF", "FT"),
		});
		fc.assert(
			fc.property(foreign, changes, dir, (name, { fields, add, drop }, directory) => {
				const before = parseFileName(name);
				const after = parseFileName(formatFileName(change(before, fields, add, drop), directory, ":"));
				const known = (text: string) => Object.hasOwn(fields, text.replace(/=.*/s, ""));
				expect(after.id).toBe(before.id);
				const set = Object.entries(fields).flatMap(([k, v]) => (v === undefined ? [] : [`${k}=${v}`]));
				expect(after.fields).toEqual([...before.fields.filter((text) => !known(text)), ...set].sort(byKey));
				for (const flag of before.flags) if (!drop.includes(flag)) expect(after.flags).toContain(flag);
				for (const flag of add) expect(after.flags).toContain(flag);
				for (const flag of drop) if (!add.includes(flag)) expect(after.flags).not.toContain(flag);
				expect(after.flags).toBe([...new Set(after.flags)].sort().join(""));
			}),
			{ numRuns: 2000 },
		);
	});

	test("has `:2,` in cur/ always, in new/ only with flags, and `;` on Windows", () => {
		const file = { id: "1.a", fields: ["A=1"], flags: "" };
		expect(formatFileName(file, "cur", ":")).toBe("1.a,A=1:2,");
		expect(formatFileName(file, "cur", ";")).toBe("1.a,A=1;2,");
		expect(formatFileName(file, "new", ":")).toBe("1.a,A=1");
		expect(formatFileName({ ...file, flags: "P" }, "new", ":")).toBe("1.a,A=1:2,P");
	});
});

describe("the state", () => {
	/** What a name in cur/ says, the stronger first (protocol 4). */
	const order = [
		["E=recalled", "", "recalled"],
		["L=1.aaaaaaaa", "", "taken"],
		["", "R", "answered"],
		["", "S", "read"],
		["", "T", "recalled"],
	] as const;

	test("is what the first of E, L, R, S, T says, of all combinations", () => {
		for (let bits = 0; bits < 32; bits++) {
			const on = order.filter((_, index) => bits & (1 << index));
			const file = { id: "1.a", fields: on.map(([text]) => text).filter(Boolean), flags: on.map(([, flag]) => flag).join("") };
			expect(stateOf("cur", file)).toBe(on[0]?.[2] ?? "queued");
			expect(stateOf("new", file)).toBe("queued");
		}
	});

	test("of an end that nobody knows is that word", () => {
		expect(stateOf("cur", parseFileName("1.a,E=archived:2,S"))).toBe("archived");
	});

	test("is not changed by the flags F, P, D and unknown ones", () => {
		expect(stateOf("cur", parseFileName("1.a:2,DFPabz"))).toBe("queued");
		expect(stateOf("cur", parseFileName("1.a,L=1.x:2,FPS"))).toBe("taken");
	});
});

describe("a lease and a count", () => {
	test("are read from the first field of that key", () => {
		expect(leaseOf(parseFileName("1.a,L=1700000000.k3f9q2ab,L=2.x:2,"))).toEqual({ end: 1_700_000_000, instance: "k3f9q2ab" });
		expect(attemptsOf(parseFileName("1.a,A=3,A=4"))).toBe(3);
	});

	test.each(["L=", "L=x.y", "L=-1.y", "L=1e9.y", "L=99999999999999999999.y", "L=1700000000", "L=.y"])(
		"%s is a lease that has passed",
		(text) => {
			expect(leaseOf(parseFileName(`1.a,${text}:2,`))?.end).toBe(0);
		},
	);

	test("there is none without the field", () => {
		expect(leaseOf(parseFileName("1.a,LL=1.x,L:2,"))).toBeUndefined();
		for (const name of ["1.a", "1.a,A", "1.a,A=", "1.a,A=x", "1.a,A=-1", "1.a,A=1.5", "1.a,AA=2"])
			expect(attemptsOf(parseFileName(name))).toBe(0);
	});
});

describe("an id", () => {
	const random = createContext({ root: "/", env: {} }).random;

	test("has the form of the protocol", () => {
		const make = idMaker({ now: () => 1_796_040_000_123, random, host: "box-1.lan" });
		expect(make()).toMatch(/^1796040000\.M123000R[0-9a-hjkmnp-tv-z]{8}\.box-1\.lan$/);
	});

	test("is another one each of 10,000 times while the clock stands still", () => {
		const make = idMaker({ now: () => 1_796_040_000_123, random, host: "box" });
		expect(new Set(Array.from({ length: 10_000 }, make)).size).toBe(10_000);
	});

	test("is another one in each of many makers that share a clock", () => {
		const ids = Array.from({ length: 1000 }, () => idMaker({ now: () => 1_796_040_000_123, random, host: "box" })());
		expect(new Set(ids).size).toBe(1000);
	});

	test("is another one when the clock goes back and forth", () => {
		let now = 1_796_040_000_000;
		const make = idMaker({ now: () => now, random, host: "box" });
		const ids = Array.from({ length: 10_000 }, (_, index) => {
			now += index % 2 ? -1001 : 999;
			return make();
		});
		expect(new Set(ids).size).toBe(ids.length);
	});

	test("sorts behind the ones made before, also within a millisecond", () => {
		let now = 1_796_040_000_000;
		const make = idMaker({ now: () => now, random, host: "box" });
		const ids = Array.from({ length: 3000 }, (_, index) => {
			if (index % 500 === 0) now += 1;
			return make();
		});
		expect(
			ids
				.map((text) => Buffer.from(text))
				.sort(Buffer.compare)
				.map(String),
		).toEqual(ids);
	});

	test("can be one that sorts above another, and is as unlike others as before", () => {
		const digits = (length: number) => fc.stringMatching(new RegExp(`^[0-9]{${length}}$`));
		const seconds = fc.integer({ min: 1_000_000_000, max: 9_999_999_998 });
		const another = fc.oneof(
			fc.tuple(seconds, digits(6)).map(([at, micros]) => `${at}.M${micros}Rzzzzzzzz.zzz`),
			seconds.map((at) => `${at}.M999999Rzzzzzzzz.zzz`),
			seconds.map((at) => `${at}.12345_1.foreign`),
		);
		fc.assert(
			fc.property(another, seconds, (other, at) => {
				const made = idMaker({ now: () => at * 1000, random, host: "box" })();
				const above = idAbove(made, other);
				expect(above > other).toBe(true);
				expect(above.slice(18)).toBe(made.slice(18));
				expect(above).toMatch(/^\d{10}\.M\d{6}R[0-9a-hjkmnp-tv-z]{8}\.box$/);
				if (made > other) expect(above).toBe(made);
			}),
			{ numRuns: 1000 },
		);
	});

	test("has a host that can stand in any file name, however the host is called", () => {
		fc.assert(
			fc.property(fc.string({ unit: "binary", maxLength: 300 }), (host) => {
				const text = idMaker({ now: () => 0, random, host })();
				expect(text).toMatch(/^0\.M000000R[0-9a-hjkmnp-tv-z]{8}\.[A-Za-z0-9._-]+$/);
				expect(text.length).toBeLessThanOrEqual(180);
				expect(parseFileName(text)).toEqual({ id: text, fields: [], flags: "" });
			}),
		);
	});

	test("and an instance hold 40 random bits in Crockford's base32", () => {
		fc.assert(
			fc.property(fc.uint8Array({ minLength: 5, maxLength: 5 }), (bytes) => {
				let bits = 0n;
				for (const byte of bytes) bits = (bits << 8n) | BigInt(byte);
				const crockford = bits
					.toString(32)
					.padStart(8, "0")
					.replace(/[a-v]/g, (digit) => "abcdefghjkmnpqrstvwxyz"[digit.charCodeAt(0) - 97] ?? "");
				expect(unique(() => bytes)).toBe(crockford);
			}),
		);
		const made = createContext({ root: "/", env: {} });
		expect(made.instance).toMatch(/^[0-9a-hjkmnp-tv-z]{8}$/);
		expect(createContext({ root: "/", env: {} }).instance).not.toBe(made.instance);
	});

	test("tells its time, if it begins with one", () => {
		expect(timeOf("1796040000.M123000Raaaaaaaa.box")).toBe(1_796_040_000_000);
		expect(timeOf("1796040000.12345_1.box")).toBe(1_796_040_000_000);
		for (const none of ["hello", ".1", "x1.y", "1796040000", ""]) expect(timeOf(none)).toBeUndefined();
	});
});

describe("a piece of an id", () => {
	const ids = [
		"1700000001.M000001Raaaaaaa1.box",
		"1700000002.M000002Raaaaaaa2.box",
		"note.txt",
		"aaaaaaa1",
		"1700000003.M000003Rbbbbbbb3.box",
	];
	const code = (piece: string) => {
		try {
			pickId(ids, piece, "here");
		} catch (error) {
			if (error instanceof XferError) return error.code;
			throw error;
		}
		throw new Error(`${piece} is found`);
	};

	test("names the one that it fits", () => {
		expect(pickId(ids, "bbbb", "here")).toBe(ids[4]);
		expect(pickId(ids, "note", "here")).toBe("note.txt");
		expect(pickId(ids, "aaaaaaa2", "here")).toBe(ids[1]);
		expect(pickId([ids[0] ?? "", ids[0] ?? ""], "aaaaaaa1", "here")).toBe(ids[0]);
	});

	test("is the whole id before a short id, and a short id before a part", () => {
		expect(pickId(ids, "aaaaaaa1", "here")).toBe("aaaaaaa1");
		expect(pickId(["xbbbbbbb3", ids[4] ?? ""], "bbbbbbb3", "here")).toBe(ids[4]);
	});

	test("that fits several, none, or is too short, says so", () => {
		expect(code("aaaaaaa")).toBe("EAMBIGUOUS");
		expect(code("zzzz")).toBe("EHANDOFF");
		expect(code("not")).toBe("EINPUT");
		expect(code("")).toBe("EINPUT");
	});

	test("is text, not a pattern or a path", () => {
		for (const piece of [".*.*", "[a-z]{8}", "../../../etc/passwd", "a\0bc"]) expect(code(piece)).toBe("EHANDOFF");
	});
});

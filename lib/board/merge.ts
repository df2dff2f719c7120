import { compare } from "../filename.ts";
import { parseDate } from "../handoff.ts";
import { fold } from "../names.ts";
import { type Card, type Entry, escapeMarkers, formatEntry, hashId, parseCard, sidesOf, unescapeText } from "./card.ts";

/** Reads a Card as its readers see it: of what git left as two sides, what they unite to. */
export function readCard(bytes: Buffer): Card {
	const card = parseCard(bytes);
	if (!card.warnings.includes("conflict")) return card;
	return { ...parseCard(resolve(bytes)), warnings: card.warnings };
}

/**
 * Two versions of a Card in one (protocol 14). Which of the two is called ours makes no difference. Nothing that one side has and the
 * other does not is lost.
 * @param base what both came from, if that is known
 */
export function mergeCards(base: Buffer | undefined, ours: Buffer, theirs: Buffer): Buffer {
	if (ours.equals(theirs) || base?.equals(theirs)) return ours;
	if (base?.equals(ours)) return theirs;
	const [b, o, t] = [base && open(base), open(ours), open(theirs)];
	/** What yields, as Entries of its own. */
	const left: string[] = [];
	const front = mergeFronts(b?.front, o.front, t.front, left);
	const introduction = mergeTexts(b?.introduction, o.introduction, t.introduction, left);
	const entries = mergeEntries(b?.entries ?? new Map(), o.entries, t.entries);
	const latest = [...entries.values()].reduce((latest, { date }) => Math.max(latest, date), Math.max(o.created, t.created));
	for (const part of left) {
		const text = unescapeText(Buffer.from(part.replace(/\r?\n$/, ""), "latin1"));
		const id = hashId(text);
		if (!entries.has(id)) entries.set(id, mended({ id, type: "note", author: "merge", date: latest, text }));
	}
	const sorted = [...entries.values()].sort((a, b) => a.date - b.date || compare(a.id, b.id));
	const united = Buffer.concat([
		Buffer.from(front === undefined ? "" : fenced(front), "latin1"),
		// An empty line before it, also for one that begins with --- and is no front matter.
		Buffer.from(
			introduction === "" ? "" : `${front === undefined && !introduction.startsWith("---") ? "" : "\n"}${introduction}\n`,
			"latin1",
		),
		...sorted.flatMap(({ raw }) => [Buffer.from("\n"), raw, Buffer.from("\n")]),
	]);
	return escapeMarkers(united); // of which each side may have had a half
}

/**
 * The same Card with what was typed by hand made whole, and with what git left as two sides united; the same bytes when there is nothing to mend.
 * @param date of what has none, nor anything before it: unix ms
 */
export function mendCard(bytes: Buffer, date = 0): Buffer {
	if (sidesOf(bytes)) return mendCard(resolve(bytes), date);
	const card = parseCard(bytes);
	const flawed = items(card, date).filter(({ entry }) => entry.flaws.length > 0);
	if (flawed.length === 0) return bytes;
	const changes = flawed.flatMap(({ entry, raw }) => {
		// It stands where it was begun first; what is left of that would begin nothing, under another header.
		const [place, ...rest] = [...card.beginnings.filter(({ of }) => of === entry), entry].sort((a, b) => a.begin - b.begin);
		return [{ place: place ?? entry, raw }, ...rest.map((place) => ({ place, raw: Buffer.alloc(0) }))];
	});
	for (const place of card.beginnings) if (!place.of) changes.push({ place, raw: Buffer.alloc(0) });
	const parts: Buffer[] = [];
	let at = 0;
	for (const { place, raw } of changes.sort((a, b) => a.place.begin - b.place.begin)) {
		parts.push(bytes.subarray(at, place.begin), raw);
		at = place.end;
	}
	const rest = bytes.subarray(at);
	return escapeMarkers(Buffer.concat([...parts, rest, Buffer.from(rest.includes(10) ? "" : "\n")]));
}

/** Unites the sides that git left in a file. */
function resolve(bytes: Buffer): Buffer {
	const sides = sidesOf(bytes);
	return sides ? mergeCards(sides.base, sides.ours, sides.theirs) : bytes;
}

/** An Entry as it shall stand in a Card. */
interface Item {
	readonly id: string;
	readonly date: number;
	readonly raw: Buffer;
	readonly type: string;
	readonly author: string;
	readonly text: Buffer;
	/** All that there was of it, when its closing line was missing. */
	readonly torn?: Buffer | undefined;
	/** Its id is made of its bytes. */
	readonly isHashed?: boolean;
}

/** A version of a Card in its parts; text as Latin-1, a character a byte. */
interface Version {
	readonly front: string | undefined;
	readonly introduction: string;
	readonly entries: Map<string, Item>;
	/** Unix ms; 0 when the Card does not say. */
	readonly created: number;
}

function open(given: Buffer): Version {
	const card = parseCard(resolve(given));
	const { bytes, front, introduction } = card;
	return {
		front: front.end === 0 ? undefined : bytes.toString("latin1", front.begin, front.end),
		introduction: bytes.toString("latin1", introduction.begin, introduction.end),
		entries: new Map(items(card).map((item) => [item.id, item])),
		created: createdAt(card),
	};
}

/** The Entries as they shall stand: those typed by hand with a header and a closing line. */
function items(card: Card, otherwise = 0): (Item & { entry: Entry })[] {
	let before = createdAt(card) || otherwise;
	return card.entries.map((entry) => {
		const { id, type, text, raw } = entry;
		const date = entry.date ?? before;
		before = date;
		if (entry.flaws.length === 0) return { entry, id, type, author: entry.author, date, text, raw };
		const torn = entry.is("torn") ? raw : undefined;
		// Of one that only lacks its closing line every byte stays: so that it goes on where another copy of it goes on.
		if (entry.flaws.every((flaw) => flaw === "torn"))
			return { entry, id, type, author: entry.author, date, text, torn, raw: Buffer.concat([raw, Buffer.from(`\n<!-- ${id} -->`)]) };
		return { ...mended({ id, type, author: fold(entry.author), date, text }), entry, torn, isHashed: entry.isHashed };
	});
}

function mended(parts: { id: string; type: string; author: string; date: number; text: Buffer }): Item {
	return { ...parts, raw: formatEntry(parts).subarray(1, -1) };
}

function createdAt({ bytes, front }: Card): number {
	const text = bytes.toString("latin1", front.begin, front.end);
	return parseDate(/(?:^|\n)created_at:[ \t]*["']?([0-9TZ:.-]+)/.exec(text)?.[1]) ?? 0;
}

function mergeEntries(
	base: ReadonlyMap<string, Item>,
	ours: ReadonlyMap<string, Item>,
	theirs: ReadonlyMap<string, Item>,
): Map<string, Item> {
	const merged = new Map<string, Item>();
	for (const id of new Set([...ours.keys(), ...theirs.keys()])) {
		const [o, t] = [ours.get(id), theirs.get(id)];
		const [stands, other] = o && t ? pick(base.get(id), o, t) : [o ?? t];
		if (stands) merged.set(id, stands);
		if (!other) continue;
		const moved = mended({ ...other, id: hashId(other.raw) });
		merged.set(moved.id, moved);
	}
	// Text that nothing was known by but its bytes has another id when one side goes on with it.
	for (const was of base.values()) {
		if (was.isHashed && (hasGrown(was, base, ours, theirs) || hasGrown(was, base, theirs, ours))) merged.delete(was.id);
	}
	return merged;
}

/** Whether one side has an Entry longer in place of one that the other still has as it was. */
function hasGrown(was: Item, base: ReadonlyMap<string, Item>, here: ReadonlyMap<string, Item>, there: ReadonlyMap<string, Item>): boolean {
	if (here.has(was.id) || !there.get(was.id)?.text.equals(was.text)) return false;
	return [...here.values()].some(({ id, type, author, text }) => {
		const isNew = !base.has(id) && type === was.type && author === was.author;
		return isNew && text.length > was.text.length && text.subarray(0, was.text.length).equals(was.text);
	});
}

/** Which of two Entries of one id stands, and the other when it must not be lost. */
function pick(base: Item | undefined, ours: Item, theirs: Item): [stands: Item, other?: Item] {
	if (ours.raw.equals(theirs.raw) || base?.raw.equals(theirs.raw)) return [ours];
	if (base?.raw.equals(ours.raw)) return [theirs];
	if (ours.torn && begins(theirs, ours.torn) && !(theirs.torn && begins(ours, theirs.torn))) return [theirs];
	if (theirs.torn && begins(ours, theirs.torn) && !(ours.torn && begins(theirs, ours.torn))) return [ours];
	const [lesser, greater] = Buffer.compare(ours.raw, theirs.raw) < 0 ? [ours, theirs] : [theirs, ours];
	// Made whole in two places, each with the date of what stood before it there.
	if (ours.type === theirs.type && ours.author === theirs.author && ours.text.equals(theirs.text))
		return [greater.date < lesser.date ? greater : lesser];
	return [greater, lesser];
}

/** Whether all that there was of a torn Entry stands at the beginning of another. */
function begins(item: Item, torn: Buffer): boolean {
	return (item.torn ?? item.raw).subarray(0, torn.length).equals(torn);
}

/** Three versions of one text: a side that has what the base has yields; of two new ones the greater stands, and the other is left over. */
function mergeTexts(base: string | undefined, ours: string, theirs: string, left: string[]): string {
	if (ours === theirs || base === theirs) return ours;
	if (base === ours || ours === "") return theirs;
	if (theirs === "") return ours;
	const [lesser, greater] = ours < theirs ? [ours, theirs] : [theirs, ours];
	left.push(lesser);
	return greater;
}

function mergeFronts(base: string | undefined, ours: string | undefined, theirs: string | undefined, left: string[]): string | undefined {
	if (ours === undefined || theirs === undefined || ours === theirs) return ours ?? theirs;
	if (base === ours) return theirs;
	if (base === theirs) return ours;
	const [b, o, t] = [lines(base ?? ""), lines(ours), lines(theirs)];
	// The order of the base, or of one side that both sides find alike; what only the other has goes behind it.
	const order = base === undefined ? [...lines(ours > theirs ? ours : theirs).keys()] : [...b.keys()];
	const added = [...o.keys(), ...t.keys()].filter((key) => !order.includes(key)).sort(compare);
	let front = "";
	for (const key of new Set([...order, ...added])) front += mergeTexts(b.get(key), o.get(key) ?? "", t.get(key) ?? "", left);
	return front;
}

/** The lines of a front matter by the key that they belong to: a key's own, and those up to the next key. */
function lines(text: string): Map<string, string> {
	const parts = new Map<string, string>();
	let key = "";
	for (const line of text.match(/[^\n]*\n|[^\n]+$/g) ?? []) {
		key = /^([^\s#:-][^:]*):(?:\s|$)/.exec(line)?.[1] ?? key;
		parts.set(key, (parts.get(key) ?? "") + line);
	}
	return parts;
}

function fenced(front: string): string {
	const end = front.includes("\r\n") ? "\r\n" : "\n";
	return `---${end}${front}${front === "" || front.endsWith("\n") ? "" : end}---${end}`;
}

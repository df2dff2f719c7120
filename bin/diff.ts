/** What differs between two texts, by lines: those that go with `-`, those that come with `+`, and up to `around` of those beside them. */
export function diff(before: string, after: string, around = 2): string[] {
	const [a, b] = [lines(before), lines(after)];
	let first = 0;
	while (first < a.length && first < b.length && a[first] === b[first]) first++;
	let last = 0;
	while (last < a.length - first && last < b.length - first && a.at(-1 - last) === b.at(-1 - last)) last++;
	const all = [
		...a.slice(0, first).map((line) => `  ${line}`),
		...middle(a.slice(first, a.length - last), b.slice(first, b.length - last)),
		...a.slice(a.length - last).map((line) => `  ${line}`),
	];
	const near = all.map((_, at) => all.slice(Math.max(0, at - around), at + around + 1).some((line) => !line.startsWith("  ")));
	return all.flatMap((line, at) => (near[at] ? [line] : near[at - 1] ? ["  …"] : []));
}

/** By the longest common part; of very long ones, all of the one and all of the other. */
function middle(a: readonly string[], b: readonly string[]): string[] {
	if (a.length * b.length > 4_000_000) return [...a.map((line) => `- ${line}`), ...b.map((line) => `+ ${line}`)];
	const common = Array.from({ length: a.length + 1 }, () => new Array<number>(b.length + 1).fill(0));
	const of = (i: number, j: number) => common[i]?.[j] ?? 0;
	for (let i = a.length - 1; i >= 0; i--)
		for (let j = b.length - 1; j >= 0; j--)
			(common[i] as number[])[j] = a[i] === b[j] ? of(i + 1, j + 1) + 1 : Math.max(of(i + 1, j), of(i, j + 1));
	const out: string[] = [];
	for (let i = 0, j = 0; i < a.length || j < b.length; ) {
		if (i < a.length && j < b.length && a[i] === b[j]) {
			out.push(`  ${a[i++]}`);
			j++;
		} else if (i < a.length && (j === b.length || of(i + 1, j) >= of(i, j + 1))) out.push(`- ${a[i++]}`);
		else out.push(`+ ${b[j++]}`);
	}
	return out;
}

function lines(text: string): string[] {
	return text === "" ? [] : text.replace(/\n$/, "").split("\n");
}

// The rules for writers (protocol 5), as strict as they stand. It reads what was written by an implementation under test, and nothing else.

const BARE = /^[A-Za-z0-9][A-Za-z0-9 ._/@+-]*$/;
const DATE = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;
/** What YAML 1.1 or 1.2 reads as something else than a string, among the values that could stand bare. */
const TYPED =
	/^(y|yes|n|no|true|false|on|off|null|[0-9][0-9_]*(\.[0-9_]*)?(e[-+]?[0-9]+)?|0x[0-9a-f_]+|0o?[0-7_]+|0b[01_]+|\d{4}-\d\d?-\d\d?([ t].*)?)$/i;
const ESCAPED = /[\p{Cc}\u2028\u2029\ufeff\u202a-\u202e\u2066-\u2069]/u;

/**
 * Splits a Handoff that an implementation wrote, and throws where it breaks a rule.
 * `quoting: false` allows what the protocol allows a shell: values verbatim.
 */
export function checkWritten(bytes, { quoting = true } = {}) {
	const close = bytes.indexOf("\n---\n", 3);
	if (bytes.subarray(0, 4).toString("latin1") !== "---\n" || close < 0) throw new Error("what was written has no header");
	if (close + 5 > 65_536) throw new Error("what was written has a header of more than 65,536 bytes");
	const header = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes.subarray(4, close + 1));
	const fields = new Map();
	for (const line of header.split("\n").slice(0, -1)) {
		const [, key, text] = /^([a-z_][a-z0-9_-]*): (.+)$/s.exec(line) ?? [];
		if (key === undefined) throw new Error(`what was written has the header line ${JSON.stringify(line)}`);
		if (fields.has(key)) throw new Error(`what was written has ${key} twice`);
		const items = key === "to" && /^\[(.*)\]$/s.exec(text);
		fields.set(key, items ? items[1].split(", ").map((item) => readValue(key, item, quoting)) : readValue(key, text, quoting));
	}
	return { fields, body: bytes.subarray(close + 5) };
}

function readValue(key, text, quoting) {
	const fail = (why) => {
		throw new Error(`what was written has ${key}: ${JSON.stringify(text)}, ${why}`);
	};
	if (ESCAPED.test(text)) fail("a character that must be escaped");
	if (text.startsWith('"')) {
		try {
			return JSON.parse(text);
		} catch {
			fail("which is no JSON string");
		}
	}
	if ((key === "date" || key === "expires") && DATE.test(text)) return text;
	if (BARE.test(text) && !text.endsWith(" ") && !TYPED.test(text)) return text;
	if (quoting) fail("which must be a JSON string");
	if (/^[[ \t]|[ \t]$/.test(text)) fail("which does not read back as written");
	return text;
}

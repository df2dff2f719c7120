/** C0, DEL and C1; line separators; what changes the direction of text. */
export const control = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/gu;

/** A peer's text on one line, its control characters shown and not obeyed. */
export function visible(text: string): string {
	if (/^[ -~]*$/.test(text)) return text; // nearly all text, and a tenth of the time
	return text.replace(control, codeOf);
}

/** As `visible`, for text of several lines. */
export function visibleLines(text: string): string {
	return text.replaceAll("\r\n", "\n").replace(control, (char) => (char === "\n" || char === "\t" ? char : codeOf(char)));
}

function codeOf(char: string): string {
	const code = char.charCodeAt(0);
	return code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
}

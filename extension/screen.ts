import type { ExtensionAPI, MessageRenderOptions, Theme } from "@earendil-works/pi-coding-agent";
import { Box, type Component, Text, truncateToWidth, visibleWidth } from "@earendil-works/pi-tui";
import { formatAge } from "../lib/duration.ts";
import { XferError } from "../lib/errors.ts";
import { shortId } from "../lib/filename.ts";
import { visible, visibleLines } from "../lib/visible.ts";
import { messageType } from "./here.ts";
import type { Holding } from "./inbound.ts";

/** What an entry of a sent Handoff is in pi's session: seen, and no part of the context. */
export const sentType = "xfer-sent";

/** What such an entry holds. */
export interface Sent {
	readonly to: string;
	readonly id: string;
	readonly kind: string;
	readonly subject: string;
	readonly from?: string;
}

/** Lines of a text that are shown before it is expanded. */
const firstLines = 4;

/** Registers how messages and entries of ours look. What they hold comes from session files: it may be anything. */
export function registerRenderers(pi: ExtensionAPI): void {
	pi.registerMessageRenderer(messageType, ({ content, details, timestamp }, options, theme) =>
		within(message(visibleLines(textOf(content)), handoffsOf(details, timestamp), options, theme)),
	);
	pi.registerEntryRenderer(sentType, ({ data }, _, theme) => {
		const { to, kind, id, subject } = fieldsOf(data);
		const facts = [to || "?", kind, id && shortId(id), subject].filter((fact) => fact !== "").map(oneLine);
		return within(lines([theme.fg("dim", ` ↗ ${facts.join(" · ")}`)]));
	});
}

/** A Handoff as the transcript names it: a line of who and what, and its subject. */
interface Named {
	readonly facts: string;
	readonly id: string;
	readonly subject: string;
}

function message(content: string, handoffs: readonly Named[], { expanded, outputPad, keyHint }: MessageRenderOptions, theme: Theme): Box {
	const box = new Box(outputPad, 0, (text) => theme.bg("customMessageBg", text));
	const title = (text: string) => lines([theme.fg("accent", theme.bold(`✉ ${text}`))]);
	const texts = handoffs.length > 0 ? fenced(content) : [];
	if (handoffs.length === 0) box.addChild(title("xfer"));
	for (const [at, { facts, id, subject }] of handoffs.entries()) {
		box.addChild(title(expanded ? `${facts} · ${id}` : facts));
		const isFirstLine = texts[at]?.trimStart().startsWith(subject.replace(/…$/, ""));
		if (subject && !isFirstLine) box.addChild(lines([theme.fg("customMessageLabel", subject)]));
		if (!expanded) box.addChild(beginning(texts[at] ?? "", theme));
	}
	if (expanded) box.addChild(new Text(theme.fg("customMessageText", content), 0, 0));
	else if (handoffs.length === 0) box.addChild(beginning(content, theme));
	if (!expanded) box.addChild(lines([theme.fg("dim", keyHint("app.tools.expand", "to expand"))]));
	return box;
}

function beginning(text: string, theme: Theme): Component {
	const all = text.split("\n").filter((line) => line.trim() !== "" && !line.startsWith("[xfer] ")); // which says every time the same
	const some = all.slice(0, firstLines).map((line) => theme.fg("customMessageText", line));
	return lines(all.length > firstLines ? [...some, theme.fg("dim", `… and ${all.length - firstLines} more`)] : some);
}

/** The texts between the tags: no text holds one itself (see `plainText`). */
function fenced(content: string): string[] {
	return [...content.matchAll(/^<handoff[^\n]*>\n([\s\S]*?)\n<\/handoff>$/gm)].map(([, text = ""]) => text);
}

/** @param at when the message was appended, unix ms */
function handoffsOf(details: unknown, at: unknown): Named[] {
	const handoffs = fieldOf(details, "handoffs");
	if (!Array.isArray(handoffs)) return [];
	return handoffs.map((handoff: unknown) => {
		const { from, kind, id, subject } = fieldsOf(handoff);
		const date = fieldOf(handoff, "date");
		const age = typeof date === "number" && typeof at === "number" ? formatAge(date, at) : "";
		return {
			facts: [from || "?", kind, age]
				.filter((fact) => fact !== "")
				.map(oneLine)
				.join(" · "),
			id: oneLine(shortId(id)),
			subject: oneLine(subject),
		};
	});
}

function textOf(content: unknown): string {
	if (typeof content === "string") return content;
	return Array.isArray(content) ? content.map((part: unknown) => fieldsOf(part).text).join("\n") : "";
}

/** The texts that something of unknown shape holds; what is no text is empty. */
function fieldsOf(value: unknown): Readonly<Record<"to" | "from" | "kind" | "id" | "subject" | "text", string>> {
	const text = (key: string) => {
		const field = fieldOf(value, key);
		return typeof field === "string" ? field : "";
	};
	return { to: text("to"), from: text("from"), kind: text("kind"), id: text("id"), subject: text("subject"), text: text("text") };
}

function fieldOf(value: unknown, key: string): unknown {
	return typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>)[key] : undefined;
}

function oneLine(text: string): string {
	return visible(text.slice(0, 500).replace(/\s+/g, " "));
}

/** Each on a line of its own, cut to the width. */
function lines(texts: readonly string[]): Component {
	return {
		render: cached((width) => texts.map((text) => truncateToWidth(text.replaceAll("\t", "   "), width, "…"))),
		invalidate: () => {},
	};
}

/** A component of which no line is wider than the terminal, and which throws nothing: either would end pi. */
function within(inner: Component): Component {
	return {
		render: cached((width) => {
			try {
				return inner.render(width).map((line) => (visibleWidth(line) > width ? truncateToWidth(line, width, "") : line));
			} catch {
				return []; // the session and the Inbox have the text
			}
		}),
		invalidate: () => inner.invalidate(),
	};
}

/** pi draws a transcript anew with each frame, and takes the same array for unchanged lines. What is drawn here never changes but with the width. */
function cached(draw: (width: number) => readonly string[]): (width: number) => readonly string[] {
	let drawn: readonly string[] = [];
	let last: number | undefined;
	return (width) => {
		if (width !== last) drawn = draw(width);
		last = width;
		return drawn;
	};
}

/** The status item: `✉ alice · 2 waiting`. */
export function statusLine(name: string, count: number, holding: Holding | undefined): string {
	return `✉ ${name}${count > 0 ? ` · ${count} waiting` : ""}${count > 0 && holding ? ` (${holding})` : ""}`;
}

/** An error for a person or the model: what, and what to do. */
export function explain(error: unknown): string {
	if (error instanceof XferError) return visible(error.cure ? `${error.message} (${error.cure})` : error.message);
	return visible(error instanceof Error ? error.message : String(error));
}

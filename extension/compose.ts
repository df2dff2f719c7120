import { randomBytes } from "node:crypto";
import type { ExtensionAPI, ExtensionContext, SessionEntry } from "@earendil-works/pi-coding-agent";
import { XferError } from "../lib/errors.ts";
import { hasModel } from "./here.ts";
import { explain } from "./screen.ts";
import { tell } from "./sub-command.ts";

/** Something that the model was asked to write. */
interface Request {
	/** Stands in the question and in the marks around the answer. */
	readonly mark: string;
	/** @returns what to tell the person */
	use(text: string): Promise<string>;
	/** What to tell when there is no answer. */
	readonly nothing: string;
}

/** What the person has the model write. */
export class Composer {
	readonly #pi: ExtensionAPI;
	#requests: Request[] = [];

	constructor(pi: ExtensionAPI) {
		this.#pi = pi;
		pi.on("agent_settled", async ({ aborted }, context) => await this.#settled(aborted, context));
	}

	/**
	 * Asks the model, after its present work if it is busy.
	 * @throws {XferError} EINPUT when there is no model
	 */
	ask(context: ExtensionContext, question: string): void {
		if (!hasModel(context)) throw new XferError("EINPUT", "no model is chosen", "/model");
		this.#pi.sendUserMessage(question, context.isIdle() ? undefined : { deliverAs: "followUp" });
	}

	/**
	 * Asks the model for a text, and uses it when the run has ended. What is not between the marks is no part of it.
	 * @throws as `ask`
	 */
	askFor(context: ExtensionContext, question: string, { use, nothing }: Omit<Request, "mark">): void {
		const mark = `entry-${randomBytes(4).toString("hex")}`;
		const how = `Put the text, and nothing else, between these two lines:\n\n<${mark}>\n</${mark}>`;
		this.ask(context, `${question}\n\n${how}`);
		this.#requests.push({ mark, use, nothing });
	}

	async #settled(aborted: boolean, context: ExtensionContext): Promise<void> {
		const requests = this.#requests;
		this.#requests = [];
		for (const request of requests) {
			const entries = context.sessionManager.getBranch();
			const asked = entries.findLastIndex((entry) => textOf(entry, "user").includes(request.mark));
			if (asked < 0 && !aborted) {
				this.#requests.push(request); // its turn has not come
				continue;
			}
			const text = answer(asked < 0 ? [] : entries.slice(asked), request.mark);
			await this.#use(request, text, context);
		}
	}

	async #use({ use, nothing }: Request, text: string, context: ExtensionContext): Promise<void> {
		if (!text) return tell(context, nothing, "warning");
		try {
			tell(context, await use(text));
		} catch (error) {
			tell(context, explain(error), "error");
		}
	}
}

/** What stands between the marks in the last answer that has them. */
function answer(entries: readonly SessionEntry[], mark: string): string {
	for (const entry of entries.toReversed()) {
		const [, text = ""] = textOf(entry, "assistant").match(new RegExp(`<${mark}>([\\s\\S]*?)</${mark}>`)) ?? [];
		if (text.trim()) return text.trim();
	}
	return "";
}

function textOf(entry: SessionEntry, role: "user" | "assistant"): string {
	if (entry.type !== "message" || entry.message.role !== role) return "";
	const { content } = entry.message;
	if (typeof content === "string") return content;
	return content.map((part) => (part.type === "text" ? part.text : "")).join("");
}

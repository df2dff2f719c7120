import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
import { XferError } from "../lib/errors.ts";
import { registerCommand } from "./command.ts";
import type { Extension } from "./here.ts";
import { registerRenderers } from "./screen.ts";
import { Session } from "./session.ts";
import { chooseTools, registerTools } from "./tools.ts";

/** ms that the first prompt waits for the session to be a Node. */
const startLimit = 1000;

/** A pi session becomes a Node: seen while it runs, with an Inbox, tools and the command `/xfer`. Only registers: a session begins with `session_start`. */
export default function xfer(pi: ExtensionAPI): void {
	let session: Session | undefined;
	const extension: Extension = {
		here() {
			if (session?.here) return session.here;
			throw session?.problem ?? new XferError("ENODE", "this session is no Node", "/xfer name NAME");
		},
		started: async () => await session?.started,
		isHere: () => session?.here !== undefined,
		name: async (name) => {
			if (!session) throw new XferError("ENODE", "there is no session");
			return await session.rename(name);
		},
		show: () => session?.show(),
	};
	pi.registerFlag("xfer", { type: "string", description: "be the xfer Node of this name" });
	registerTools(pi, extension);
	registerCommand(pi, extension);
	registerRenderers(pi);

	pi.on("session_start", async (_, context) => {
		await session?.end(); // pi up to 1.5.2 says it twice
		session = new Session(pi, context, () => chooseTools(pi, extension));
		const started = session.start();
		if (context.mode === "print" || context.mode === "json") await started; // its only run begins at once
	});
	pi.on("session_shutdown", async () => {
		const ending = session;
		session = undefined;
		await ending?.end();
	});
	pi.on("session_info_changed", ({ name }) => session?.renamed(name));
	pi.on("input", ({ source }) => {
		if (source !== "extension") session?.here?.me.spokenTo();
	});
	pi.on("before_agent_start", async () => {
		// The first prompt may come before the session is a Node; a lock that may be stale is not waited for.
		await Promise.race([extension.started(), new Promise((resolve) => setTimeout(resolve, startLimit).unref())]); // print mode ends when nothing is left to do
		chooseTools(pi, extension);
	});
	pi.on("agent_start", () => {
		session?.status.set({ status: "thinking" });
		session?.here?.inbound.started();
	});
	pi.on("tool_execution_start", ({ toolName, parentToolCallId }) => {
		if (parentToolCallId === undefined) session?.status.set({ status: `tool:${toolName}` });
	});
	pi.on("tool_execution_end", ({ parentToolCallId }) => {
		if (parentToolCallId === undefined) session?.status.set({ status: "thinking" });
	});
	pi.on("turn_end", ({ entries, continue: goesOn, outcome }) => {
		const inbound = session?.here?.inbound;
		inbound?.turned(outcome === "error");
		if (outcome === "error") session?.status.set({ status: "retrying" });
		if (outcome !== "completed") return;
		const more = inbound?.boundary("turn", entries);
		return more && { entries: more.entries, continue: goesOn || more.continue };
	});
	pi.on("agent_before_settle", ({ entries, continue: goesOn, outcome }) => {
		if (outcome !== "completed") return;
		const more = session?.here?.inbound.boundary("end", entries);
		return more && { entries: more.entries, continue: goesOn || more.continue };
	});
	pi.on("agent_settled", ({ aborted }) => {
		session?.status.set({ status: "idle" });
		session?.here?.inbound.settled(aborted);
	});
	pi.on("session_before_compact", () => session?.status.set({ status: "compacting" }));
	pi.on("session_compact", () => session?.calm());
	pi.on("session_compact_failed", () => session?.calm());
	pi.on("ui_prompt_start", () => session?.status.set({ status: "waiting" }));
	pi.on("ui_prompt_end", () => session?.calm());
	pi.on("model_select", ({ model }) => {
		session?.status.set({ model: model.id });
		session?.here?.inbound.look();
	});
}

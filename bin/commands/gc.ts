import { parseDuration } from "../../lib/duration.ts";
import { collect, type GcReport } from "../../lib/gc.ts";
import type { Command } from "../command.ts";
import { exit, report } from "../errors.ts";
import { count, printJson, printLine } from "../output.ts";

export const gc: Command = {
	name: "gc",
	usage: "",
	summary: "clear away what was read or ended long ago",
	examples: [["xfer gc --dry-run --keep 7d", "what would go, of what ended 7 days ago and before"]],
	options: {
		"dry-run": { type: "boolean", help: "only say what would be done" },
		keep: { type: "string", value: "30d", help: "keep what ended less than this long ago" },
	},
	words: [0, 0],
	run(session, _, values) {
		const { tree } = session;
		const dryRun = values["dry-run"] === true;
		const keep = typeof values.keep === "string" ? parseDuration(values.keep, "--keep") : undefined;
		let code: number = exit.done;
		const reports = tree.names().flatMap((name) => {
			try {
				return collect(tree, tree.node(name), { keep, dryRun }) ?? [];
			} catch (error) {
				code = report(error); // and on with the others
				return [];
			}
		});
		if (session.json) printJson("xfer.gc/1", { dryRun, nodes: reports });
		else for (const one of reports) printLine(`${one.node}: ${words(one, dryRun)}`);
		return code;
	},
};

function words(report: GcReport, dryRun: boolean): string {
	const { handoffs, pointers, temporary, locks, returned, expired, removed } = report;
	const done = [
		handoffs && `${count(handoffs, "ended Handoff")} removed`,
		pointers && `${count(pointers, "pointer")} to what is gone removed`,
		temporary && `${count(temporary, "abandoned file")} removed`,
		locks && `${count(locks, "dead lock")} removed`,
		returned && `${returned} returned whose lease had ended`,
		expired && `${expired} expired`,
		removed && "the empty Node removed",
	].filter(Boolean);
	return done.length === 0 ? "nothing to do" : `${dryRun ? "would be: " : ""}${done.join(", ")}`;
}

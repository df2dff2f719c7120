import { hostNames } from "../../lib/hooks/hosts/names.ts";
import type { Command } from "../command.ts";
import { note } from "../output.ts";

/** Only what is said of it: `bin/start.ts` runs `bin/hook.ts` for it, which loads less. */
export const hook: Command = {
	name: "hook",
	usage: "HOST EVENT",
	summary: "what a host's hooks call; see xfer setup",
	examples: [["xfer hook claude SessionStart", "with the event on standard input, as the host gives it"]],
	options: { name: { type: "string", value: "NAME", help: "the Node's name, else HOST-PROJECT" } },
	words: [0, Number.POSITIVE_INFINITY],
	completes: hostNames,
	hidden: true,
	run() {
		note("xfer: hook comes first: xfer hook HOST EVENT");
		return undefined; // 0 whatever happens: to some hosts another code means something
	},
};

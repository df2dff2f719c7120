import { type Host, json, output, type Place, type Speech } from "./host.ts";
import { plugin } from "./opencode-plugin.ts";

const say = ({ text, ids, env }: Speech) => output(json({ text, ids, env }));
const directory = ({ project, home, env }: Place) =>
	project ? `${project}/.opencode` : `${env.XDG_CONFIG_HOME || `${home}/.config`}/opencode`;

/**
 * opencode. https://opencode.ai/docs/plugins
 *
 * It has no hooks that are commands: our plugin calls us, with `session_id` and `cwd`, and puts the `text` of the answer where it belongs.
 * One process holds many sessions.
 */
export const opencode: Host = {
	name: "opencode",
	events: { start: "start", prompt: "prompt", idle: "stop", wait: "wait", end: "end" },
	limit: 16_384,
	stops: 20, // it has no cap of its own
	single: false,
	silence: "{}\n",
	setup: {
		hooks: (place, _, words) => [{ file: `${directory(place)}/plugins/xfer.js`, whole: plugin(words) }],
		allow: () => [],
		memory: "AGENTS.md",
		wants: [
			"start opencode anew: it loads its plugins when it starts",
			'it asks before a shell command only where its "permission" says so: there, allow "xfer send *", "xfer reply *" and the like in opencode.json',
		],
	},
	context: say,
	goOn: say,
	wake: say,
};

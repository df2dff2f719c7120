import type { Command } from "../command.ts";

export const doctor: Command = {
	name: "doctor",
	usage: "[FILE…]",
	summary: "what is wrong with tree and Board, or how a file reads",
	examples: [
		["xfer doctor", "each finding with its cure; exit 1 if there is one"],
		["xfer doctor draft.md", "what a reader would see in this file"],
	],
	options: {},
	words: [0, Number.POSITIVE_INFINITY],
	async run(session, words) {
		return await (await (await import("#upkeep")).doctor()).doctor(session, words);
	},
};

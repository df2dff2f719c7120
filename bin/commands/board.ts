import { type Command, type Option, timeout } from "../command.ts";

const noMention: Option = { type: "boolean", help: "hand no notes to those mentioned" };

/** What each sub-command does is loaded when it is run: the declarations are all that the other commands pay for. */
const look = async () => await (await import("#board")).look();
const write = async () => await (await import("#board")).write();
const repository = async () => await (await import("#board")).repository();

const list: Command = {
	name: "board list",
	usage: "",
	summary: "the Cards, newest activity first",
	examples: [
		["xfer board list", "without those done or removed"],
		["xfer board list --mine --json", "what I began or have claimed, for a script"],
	],
	options: {
		all: { type: "boolean", help: "with those done and removed" },
		mine: { type: "boolean", help: "only what I began or have claimed" },
	},
	words: [0, 0],
	run: async (session, words, values) => (await look()).list(session, words, values),
};

const create: Command = {
	name: "board new",
	usage: "TITLE [WORDS…|-]",
	summary: "begin a Card; the words are its introduction",
	examples: [
		['xfer board new "Cache layer"', "prints its id and its path"],
		['xfer board new "Flaky tests" - <notes.md', "with an introduction"],
	],
	options: {},
	words: [1, Number.POSITIVE_INFINITY],
	speaks: "TITLE",
	run: async (session, words) => (await write()).create(session, words),
};

const show: Command = {
	name: "board show",
	usage: "CARD",
	summary: "show a Card; through a pipe its file's bytes",
	examples: [
		["xfer board show cache", "by a piece of its name or id"],
		["xfer board show k3f9q2 --last 5", "only the last Entries"],
	],
	options: {
		last: { type: "string", value: "N", help: "only the last N Entries" },
		since: { type: "string", value: "1h", help: "only Entries of this last time" },
	},
	words: [1, 1],
	completes: "cards",
	run: async (session, words, values) => (await look()).show(session, words, values),
};

const add: Command = {
	name: "board add",
	usage: "CARD [WORDS…|-]",
	summary: "add an Entry; @NAME in it hands NAME a note",
	examples: [
		['xfer board add cache "@api the headers are read twice"', "a note"],
		["git diff | xfer board add k3f9q2 - --type finding", "text from a pipe"],
	],
	options: {
		type: { type: "string", value: "TYPE", help: "note (default), finding, question, answer, decision, …" },
		"no-mention": noMention,
	},
	words: [1, Number.POSITIVE_INFINITY],
	completes: "cards",
	speaks: "CARD",
	run: async (session, words, values) => (await write()).add(session, words, values),
};

const edit: Command = {
	name: "board edit",
	usage: "CARD --title T | --set KEY=VALUE",
	summary: "change the front matter, and not a byte beside it",
	examples: [
		['xfer board edit cache --title "Header cache"', "the file keeps its name"],
		["xfer board edit cache --set owner=api --set area=lib", "any key but id"],
	],
	options: {
		title: { type: "string", value: "T", help: "the new title" },
		set: { type: "string", value: "KEY=VALUE", help: "a key of the front matter; more than once", multiple: true },
	},
	words: [1, 1],
	completes: "cards",
	run: async (session, words, values) => (await write()).edit(session, words, values),
};

const claim: Command = {
	name: "board claim",
	usage: "CARD",
	summary: "take a Card for oneself: one gets it, others exit 5",
	examples: [["xfer board claim cache --for 30m && make cache", "a second claim of mine extends it"]],
	options: { for: { type: "string", value: "2h", help: "how long it holds (2h)" } },
	words: [1, 1],
	completes: "cards",
	run: async (session, words, values) => (await write()).claim(session, words, values),
};

const release: Command = {
	name: "board release",
	usage: "CARD",
	summary: "let a claimed Card go",
	examples: [["xfer board release cache", "others may claim it"]],
	options: {},
	words: [1, 1],
	completes: "cards",
	run: async (session, words) => (await write()).release(session, words),
};

const done: Command = {
	name: "board done",
	usage: "CARD [WORDS…|-]",
	summary: "say that a Card is done: hidden until somebody adds to it",
	examples: [['xfer board done cache "merged in 4f2a1c"', "with a last word"]],
	options: { "no-mention": noMention },
	words: [1, Number.POSITIVE_INFINITY],
	completes: "cards",
	speaks: "CARD",
	run: async (session, words, values) => (await write()).done(session, words, values),
};

const rm: Command = {
	name: "board rm",
	usage: "CARD [--undo | --purge [--yes]]",
	summary: "hide a Card; --purge deletes its file",
	examples: [
		["xfer board rm cache", "an Entry says so: nothing is deleted"],
		["xfer board rm cache --undo", "back into the lists"],
		["xfer board rm cache --purge --yes", "delete the file, for good"],
	],
	options: {
		undo: { type: "boolean", help: "take it back" },
		purge: { type: "boolean", help: "delete the file; asks first" },
		yes: { type: "boolean", help: "do not ask" },
	},
	words: [1, 1],
	completes: "cards",
	run: async (session, words, values) => (await write()).remove(session, words, values),
};

const watch: Command = {
	name: "board watch",
	usage: "[CARD]",
	summary: "a line for each new Entry, whoever wrote it",
	examples: [
		["xfer board watch", "the CLI, >>, an editor, git pull"],
		["xfer board watch cache --json | jq .text", "one Card, a JSON document a line"],
	],
	options: { timeout },
	words: [0, 1],
	completes: "cards",
	run: async (session, words, values) => (await look()).watch(session, words, values),
};

const init: Command = {
	name: "board init",
	usage: "",
	summary: "make the Board a git repository, with our merge driver",
	examples: [["xfer board init --remote git@example.org:team/board.git", "safe to repeat; keeps what is there"]],
	options: { remote: { type: "string", value: "URL", help: "where to push and fetch" } },
	words: [0, 0],
	run: async (session, words, values) => (await repository()).init(session, words, values),
};

const sync: Command = {
	name: "board sync",
	usage: "",
	summary: "commit, fetch, merge, push; nothing is forced or lost",
	examples: [
		["xfer board sync", "once"],
		["xfer board sync --every 30s", "goes on until it is stopped"],
	],
	options: {
		every: { type: "string", value: "30s", help: "again and again" },
		"no-mention": noMention,
	},
	words: [0, 0],
	run: async (session, words, values) => (await repository()).sync(session, words, values),
};

const repair: Command = {
	name: "board repair",
	usage: "[CARD]",
	summary: "make whole what was typed by hand, unite what git left",
	examples: [["xfer board repair", "all Cards; xfer doctor says what is wrong"]],
	options: {},
	words: [0, 1],
	completes: "cards",
	run: async (session, words) => (await write()).repair(session, words),
};

const mergeDriver: Command = {
	name: "board merge-driver",
	hidden: true,
	usage: "BASE OURS THEIRS",
	summary: "what git calls to merge a Card: unites into OURS",
	examples: [["xfer board merge-driver %O %A %B", "as xfer board init registers it"]],
	options: {},
	words: [3, 3],
	run: async (session, words) => (await repository()).mergeDriver(session, words),
};

export const board: Command = {
	name: "board",
	usage: "COMMAND",
	summary: "the shared Cards: list, show, add, claim, sync, …",
	examples: [
		['xfer board new "Cache layer"', "begin a Card"],
		['xfer board add cache "@api the headers are read twice"', "add to it"],
		["xfer board list", "what there is; also without a command"],
	],
	options: list.options,
	words: [0, 0],
	commands: [list, create, show, add, edit, claim, release, done, rm, watch, init, sync, repair, mergeDriver],
	run: list.run,
};

import type { ExtensionAPI, ExtensionCommandContext } from "@earendil-works/pi-coding-agent";
import type { AutocompleteItem } from "@earendil-works/pi-tui";
import { describeNode, describeStanding } from "../lib/describe.ts";
import { formatAge, formatDuration } from "../lib/duration.ts";
import { XferError } from "../lib/errors.ts";
import { cut, oneLine } from "../lib/fence.ts";
import { shellWord, shortId } from "../lib/filename.ts";
import { similar } from "../lib/names.ts";
import { replyAbout, requireSender } from "../lib/reply.ts";
import { boardCommand } from "./board-command.ts";
import { Composer } from "./compose.ts";
import type { Extension, Here } from "./here.ts";
import { handOff, unmarked } from "./outgoing.ts";
import { openHandoff } from "./read.ts";
import { type Completion, firstWord, type SubCommand, tell } from "./sub-command.ts";
import { chooseTools } from "./tools.ts";

/** Most Handoffs that a list names. */
const mostListed = 30;
/** Most bytes of a text that are shown. */
const mostText = 16_384;

/** `/xfer`: what the person at the terminal does with the tree. */
export class XferCommand {
	readonly #pi: ExtensionAPI;
	readonly #extension: Extension;
	readonly #composer: Composer;
	readonly #commands: Readonly<Record<string, SubCommand>>;

	constructor(pi: ExtensionAPI, extension: Extension) {
		this.#pi = pi;
		this.#extension = extension;
		this.#composer = new Composer(pi);
		this.#commands = commandsOf(pi, extension, this.#composer);
	}

	/** @throws {XferError} with what to do instead · the system's error */
	async run(args: string, context: ExtensionCommandContext): Promise<void> {
		const { first, rest } = firstWord(args);
		const command = Object.hasOwn(this.#commands, first) ? this.#commands[first] : undefined;
		if (command) await command.run(rest, context);
		else if (first === "") tell(context, home(this.#extension.here()));
		else {
			this.#compose(context, requireName(this.#extension.here(), first, Object.keys(this.#commands)), rest);
		}
	}

	/** Whole arguments that may be meant by what is typed. */
	async completions(prefix: string): Promise<AutocompleteItem[]> {
		const typed = prefix.trimStart();
		const all = await this.#candidates(typed);
		// When something is typed in full nothing is offered: else the Enter after it would choose that, or what begins like it, and not send it.
		const items = all.some(({ value }) => value === typed) ? [] : all.filter(({ value, meant }) => meant || value.startsWith(typed));
		return items.map(({ value, description }) => ({
			value,
			label: value,
			...(description && { description: oneLine(description, 100) }),
		}));
	}

	async #candidates(typed: string): Promise<readonly Completion[]> {
		const [, first = "", rest] = /^(\S*)(?:\s+([\s\S]*))?$/.exec(typed) ?? [];
		if (rest === undefined) {
			const own = Object.entries(this.#commands).map(([value, { summary: description }]) => ({ value, description }));
			const others = this.#extension.isHere() ? liveNodes(this.#extension.here()) : [];
			return [...own, ...others.filter(({ value }) => !Object.hasOwn(this.#commands, value))];
		}
		const command = Object.hasOwn(this.#commands, first) ? this.#commands[first] : undefined;
		const behind = (await command?.completions?.(rest)) ?? [];
		return behind.map((item) => ({ ...item, value: `${first} ${item.value}` }));
	}

	/** Has the model write the handoff document, and send it. */
	#compose(context: ExtensionCommandContext, to: string, request: string): void {
		const { me } = this.#extension.here();
		if (to === me.name) throw new XferError("EINPUT", `${to} is this session`, "/xfer list shows the others");
		if (!request) throw new XferError("EINPUT", `what is ${to} to do?`, `/xfer ${to} fix the flaky test`);
		chooseTools(this.#pi, this.#extension); // the Node may have come since the last run
		if (!this.#pi.getActiveTools().includes("xfer_to"))
			throw new XferError("EINPUT", "the model has no tool xfer_to here", `/xfer send ${to} … sends your own words`);
		me.spokenTo();
		this.#composer.ask(
			context,
			`Hand this off to the agent ${to} with the tool xfer_to: ${request}\n\nWrite the handoff document from our conversation, for somebody who has seen none of it: what is wanted and why, what is known and was tried, the files (absolute paths), and how to tell that it is done. Choose the kind, and give it a subject. Then go on; do not wait for an answer.`,
		);
	}
}

function liveNodes({ me }: Here): Completion[] {
	const now = me.tree.context.now();
	const live = me.tree.nodes().filter(({ name, live }) => live && name !== me.name);
	return live.map((info) => ({ value: info.name, description: describeNode(info, now) }));
}

function waiting({ me }: Here): Completion[] {
	const { items } = me.node.inbox.list({ states: (state) => state === "queued", limit: mostListed });
	return items.map(({ id, kind, from, subject }) => ({ value: shortId(id), description: `${kind} from ${from}: ${subject}` }));
}

/** The Node that a first word names which is no sub-command. */
function requireName({ me }: Here, word: string, commands: readonly string[]): string {
	if (me.tree.has(word)) return me.tree.node(word).name;
	const meant = similar(word, [...commands, ...me.tree.nodes().flatMap(({ name, aliases }) => [name, ...aliases])]);
	throw new XferError("EINPUT", `no sub-command and no Node "${word}"`, meant ? `did you mean /xfer ${meant}?` : "/xfer help, /xfer list");
}

function commandsOf(pi: ExtensionAPI, extension: Extension, composer: Composer): Readonly<Record<string, SubCommand>> {
	const here = () => extension.here();
	const commands: Record<string, SubCommand> = {
		list: {
			usage: "",
			summary: "the Nodes: who is live, what they do, what is unread",
			run: (_, context) => tell(context, nodeLines(here()).join("\n")),
		},
		name: {
			usage: "[NEW]",
			summary: "what this session is called; a further name",
			async run(name, context) {
				if (!name) return tell(context, names(here()));
				const before = extension.isHere();
				const given = await extension.name(name);
				const { name: own } = here().me;
				tell(context, before && own !== given ? `${given} is a name of ${own} now` : `this session is ${own}`);
			},
		},
		inbox: {
			usage: "",
			summary: "what waits",
			run: (_, context) => tell(context, inboxLines(here()).join("\n")),
		},
		read: {
			usage: "ID",
			summary: "show a Handoff to you, and mark it read",
			run: (piece, context) => read(extension, context, piece),
			completions: () => waiting(here()),
		},
		sent: {
			usage: "[ID]",
			summary: "where what was sent stands, and why it waits",
			run: (piece, context) => tell(context, (piece ? story(here(), piece) : sentLines(here())).join("\n")),
		},
		send: {
			usage: "NODE TEXT",
			summary: "hand off your own words, as they are",
			run(words, context) {
				const { first: to, rest: body } = firstWord(words);
				const recipients = to.split(",").filter((name) => name !== "");
				if (recipients.length === 0 || !body) throw new XferError("EINPUT", "to whom, and what?", "/xfer send alice fix the flaky test");
				here().me.spokenTo();
				tellSent(context, handOff(pi, here(), { to: recipients, body }));
			},
			completions: () => liveNodes(here()),
		},
		reply: {
			usage: "ID TEXT",
			summary: "answer a Handoff with your own words",
			run(words, context) {
				const { first: piece, rest: body } = firstWord(words);
				if (!piece || !body) throw new XferError("EINPUT", "to which one, and what?", "/xfer inbox lists them");
				const { me } = here();
				const reply = replyAbout(me.tree, me.name, piece, me.tree.context.instance);
				requireSender(me.tree, reply);
				me.spokenTo();
				const { answered, hops: _, ...about } = reply; // a person speaks: it is not one more reply of a program
				const sent = handOff(pi, here(), { ...about, body });
				const error = sent.some(({ id }) => id) ? answered() : undefined;
				tellSent(context, sent, error ? unmarked(error) : undefined);
				extension.show();
			},
			completions: () => waiting(here()),
		},
		board: boardCommand(pi, extension, composer),
		quiet: {
			usage: "on|off",
			summary: "hold mail back, and show how much waits",
			run(word, context) {
				const { inbound } = here();
				if (word && word !== "on" && word !== "off") throw new XferError("EINPUT", `no "/xfer quiet ${word}"`, "on, or off");
				if (word) inbound.quiet = word === "on";
				extension.show();
				tell(context, inbound.quiet ? `quiet: mail waits until /xfer quiet off (${inbound.count()} now)` : "mail comes as it arrives");
			},
			completions: () => ["on", "off"].map((value) => ({ value })),
		},
		help: {
			usage: "",
			summary: "this",
			run: (_, context) => tell(context, help(commands)),
		},
	};
	return commands;
}

function help(commands: Readonly<Record<string, SubCommand>>): string {
	const rows: [string, string][] = [
		["", "who and what is here"],
		["NODE REQUEST", "the model writes the handoff document and sends it"],
	];
	for (const [name, { usage, summary }] of Object.entries(commands)) rows.push([`${name} ${usage}`.trim(), summary]);
	return rows.map(([words, summary]) => `${words ? `/xfer ${words}` : "/xfer"}\n    ${summary}`).join("\n");
}

function names({ me }: Here): string {
	const aliases = me.tree.nodes().find(({ name }) => name === me.name)?.aliases ?? [];
	return aliases.length > 0 ? `${me.name} (also ${aliases.join(", ")})` : me.name;
}

function home(here: Here): string {
	const { me, inbound } = here;
	const { count, oldest } = inbound.waiting();
	const age = formatDuration(me.tree.context.now() - oldest);
	const held = inbound.holding ? ` (held: ${inbound.holding})` : "";
	const mail = count === 0 ? "nothing waits" : count === 1 ? `1 waits, ${age} old${held}` : `${count} wait, the oldest ${age} old${held}`;
	return [`this session is ${names(here)}, in ${me.tree.context.root}`, mail, ...nodeLines(here), "/xfer help"].join("\n");
}

function nodeLines({ me }: Here): string[] {
	const now = me.tree.context.now();
	const infos = me.tree.nodes();
	const width = Math.max(...infos.map(({ name }) => name.length));
	return infos.map((info) => {
		const { name, aliases, presence, unread, problem } = info;
		const facts = [
			name === me.name ? "this session" : problem ? `can't be seen (${problem})` : describeNode(info, now),
			...(unread > 0 ? [`${unread} unread`] : []),
			...(aliases.length > 0 ? [`also ${aliases.join(", ")}`] : []),
			...[presence.agent, presence.cwd, presence.about].flatMap((fact) => (fact ? [oneLine(fact, 100)] : [])),
		];
		return `${name.padEnd(width)}  ${facts.join(" · ")}`;
	});
}

function inboxLines({ me }: Here): string[] {
	const now = me.tree.context.now();
	const { items, more } = me.node.inbox.list({ limit: mostListed });
	const lines = items.map(
		({ id, date, state, kind, from, subject }) =>
			`${shortId(id)}  ${formatAge(date, now)}  ${state}  ${oneLine(kind, 32)} from ${oneLine(from, 63)}: ${oneLine(subject, 100)}`,
	);
	if (more > 0) lines.push(`${more} more`);
	return lines.length > 0 ? lines : [`nothing waits for ${me.name}`];
}

/** Shows a Handoff to the person, then marks it read. */
function read(extension: Extension, context: ExtensionCommandContext, piece: string): void {
	if (!piece) throw new XferError("EINPUT", "which one?", "/xfer inbox lists them");
	const here = extension.here();
	const { inbox } = here.me.node;
	const { shown, taken, note } = openHandoff(here, piece, (id) => {
		const message = inbox.maildir.get(id);
		return message && inbox.take({ message });
	});
	try {
		const { id, from, kind, priority, subject, date, re, header } = shown.handoff;
		const facts = [kind, priority, shortId(id), formatAge(date, here.me.tree.context.now()), re && `re ${shortId(re)}`];
		const head = `from ${[from, ...facts.filter((fact) => fact !== undefined)].map((fact) => oneLine(fact, 63)).join(" · ")}`;
		const whole = Buffer.from(shown.body).toString();
		const text = cut(whole, mostText);
		const rest = text.length < whole.length ? `\n(cut here; all of it: ${shellWord(`${inbox.maildir.path}/cur/${id}`)}*)` : "";
		const lines = [head, ...(header.fields.has("subject") ? [oneLine(subject, 500)] : []), "", text.trimEnd() + rest];
		tell(context, [...lines, ...(note ? ["", note] : [])].join("\n"));
	} catch (error) {
		taken?.release();
		throw error;
	}
	taken?.done();
	extension.show();
}

function sentLines({ me }: Here): string[] {
	const now = me.tree.context.now();
	const ids = me.node.sent.ids();
	const lines = me.node.sent.standings(ids.slice(0, mostListed)).map(({ id, to, state, handoff }) => {
		const facts = [...(handoff ? [formatAge(handoff.date, now)] : []), state, ...(handoff ? [handoff.kind] : []), `to ${to}`];
		return `${shortId(id)}  ${facts.join("  ")}${handoff ? `: ${oneLine(handoff.subject, 100)}` : ""}`;
	});
	if (ids.length > mostListed) lines.push(`${ids.length - mostListed} more: xfer sent --limit 0`);
	return lines.length > 0 ? lines : [`${me.name} has sent nothing`];
}

function story({ me }: Here, piece: string): string[] {
	const { tree, node } = me;
	const [standing] = node.sent.standings([node.sent.find(piece)]);
	if (!standing) throw new XferError("EHANDOFF", "its pointer in sent/ can't be read", "xfer doctor");
	const { id, to, handoff } = standing;
	const now = tree.context.now();
	const lines = [`${shortId(id)} to ${to}`];
	if (handoff) lines.push(`${oneLine(handoff.kind, 32)}: ${oneLine(handoff.subject, 200)}`, `sent ${formatAge(handoff.date, now)}`);
	lines.push(describeStanding(standing, tree.has(to) ? tree.node(to).whereabouts() : undefined, now));
	if (handoff?.state === "queued") lines.push(`to take it back: xfer recall ${shellWord(shortId(id))}`);
	return lines;
}

function tellSent(context: ExtensionCommandContext, sent: readonly { words: string; error?: string }[], doubt?: string): void {
	const lines = [...sent.map(({ words }) => words), ...(doubt ? [doubt] : [])];
	tell(context, lines.join("\n"), doubt || sent.some(({ error }) => error) ? "warning" : "info");
}

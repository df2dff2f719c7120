/** What a hook does at an event of its host, whatever the host calls it. */
export type Action =
	/** A session begins, is resumed, or goes on with less context. */
	| "start"
	/** A person has typed: a turn begins. */
	| "prompt"
	/** A turn would end. */
	| "stop"
	/** Nothing runs: waits for mail, as long as the host lets it. */
	| "wait"
	/** A tool runs. */
	| "tool"
	/** A person is asked. */
	| "asks"
	/** The session ends. */
	| "end";

/** What a hook's process gives its host. */
export interface Output {
	readonly stdout: string;
	readonly stderr: string;
	/** 0, or 2 where the host's contract wants it; anything else would be an error to somebody. */
	readonly code: 0 | 2;
}

/** What standard input said, or nothing; every field is unknown until it is looked at. */
export type Input = Readonly<Record<string, unknown>>;

/** What a hook has to say at one event. */
export interface Speech {
	/** The text for the model. */
	readonly text: string;
	/** The host's own name of the event. */
	readonly event: string;
	/** Who the session is, for hosts whose plugin hands it down. */
	readonly env: Readonly<Record<string, string>>;
	/** The ids of what is shown. */
	readonly ids: readonly string[];
}

/** Where a host keeps its configuration. */
export interface Place {
	/** The person's own directory. */
	readonly home: string;
	/** The project's, when it is for that one only. */
	readonly project: string | undefined;
	readonly env: Readonly<Record<string, string | undefined>>;
	/** The tree, which a sandbox must let be written. */
	readonly root: string;
}

/** An item for an array in a JSON file. */
export interface Entry {
	readonly path: readonly string[];
	readonly item: unknown;
}

/** A file of a host that is changed. */
export type Edit = { readonly file: string } & (
	| { readonly entries: readonly Entry[] }
	/** A file that is all ours. */
	| { readonly whole: string }
	/** A part of ours at the end of a text; `unless` it has this already, which a person has to look at then. */
	| { readonly block: string; readonly unless?: RegExp }
);

/** How a host is told of our hooks. */
export interface Setup {
	/** @param line the command line for an event */
	hooks(place: Place, line: (event: string) => string, words: readonly string[]): readonly Edit[];
	/** What lets the agent's own commands be run unasked, and write to the tree from within a sandbox. */
	allow(place: Place, commands: readonly string[]): readonly Edit[];
	/** The file in which a project tells its agents what to know. */
	readonly memory: string;
	/** What the host wants from the person before it runs them. */
	readonly wants: readonly string[];
}

/** One host that calls hooks: all that is known of it, in one small file, because its documents move. */
export interface Host {
	/** The word for it on the command line; also `agent` in `node.md`. */
	readonly name: string;
	/** The host's events, by its own names. */
	readonly events: Readonly<Record<string, Action>>;
	/** Most bytes of one injection. */
	readonly limit: number;
	/** Most times in a row that it is kept from stopping: one fewer than the host allows, or what is reasonable. */
	readonly stops: number;
	/** Whether one process of it is one session, so that another session of the process has ended. */
	readonly single: boolean;
	/** What is printed when there is nothing to say. */
	readonly silence: string;
	/** The field of standard input that names a tool. */
	readonly tool?: string;
	readonly setup: Setup;
	/** Puts a text into the context, at `start` and `prompt`. */
	context(speech: Speech): Output;
	/** Keeps it going with a text, at `stop`. */
	goOn(speech: Speech): Output;
	/** Wakes it with a text, at `wait`; a host without can't be woken. */
	wake?(speech: Speech): Output;
	/** Whether to wait at all, in this environment. */
	waits?(env: Readonly<Record<string, string | undefined>>): boolean;
	/** Whether this is somebody else's event: of a sub-agent, or of another host that reads the same configuration. */
	foreign?(input: Input): boolean;
}

/** Seconds that a host lets a hook wait for mail; it begins anew at each stop. */
export const waitLimit = 14_400;

export function output(stdout: string, stderr = "", code: 0 | 2 = 0): Output {
	return { stdout, stderr, code };
}

/** A document on one line. A peer's text gets into it as a string, by nothing but this. */
export function json(document: object): string {
	return `${JSON.stringify(document)}\n`;
}

/**
 * The plugin that `xfer setup opencode` installs: opencode's events in, our hook's text into the session.
 * Written for `@opencode-ai/plugin` 1.18.
 * @param words the command that is `xfer`, with its first words
 */
export function plugin(words: readonly string[]): string {
	return `// Written by xfer setup opencode; xfer setup opencode --remove takes it away.
import { spawn } from "node:child_process";

const words = ${JSON.stringify(words)};

/** Runs a hook; what it answers, or nothing. It never fails, and ends within seconds unless it waits. */
function hook(event, session_id, cwd, waiting = new Map()) {
	return new Promise((resolve) => {
		const [file, ...args] = words;
		const child = spawn(file, [...args, "hook", "opencode", event], { stdio: ["pipe", "pipe", "ignore"], cwd });
		const limit = event === "wait" ? undefined : setTimeout(() => child.kill("SIGKILL"), 5000);
		if (event === "wait") waiting.set(session_id, child);
		const chunks = [];
		child.stdout.on("data", (chunk) => chunks.push(chunk));
		child.stdin.on("error", () => {});
		child.stdin.end(JSON.stringify({ session_id, cwd }));
		const end = () => {
			clearTimeout(limit);
			try {
				resolve(JSON.parse(Buffer.concat(chunks).toString()));
			} catch {
				resolve({});
			}
		};
		child.on("error", end);
		child.on("close", end);
	});
}

export const xfer = async ({ client, directory }) => {
	const waiting = new Map();
	const envs = new Map();
	const known = new Map();

	/** What a sub-agent does is no turn of the session. */
	const isMain = async (id) => {
		if (!known.has(id)) {
			const session = await client.session.get({ path: { id } }).catch(() => undefined);
			known.set(id, !session?.data?.parentID);
		}
		return known.get(id);
	};
	const run = async (event, id) => {
		const answer = await hook(event, id, directory, waiting);
		if (answer.env) envs.set(id, answer.env);
		return answer;
	};
	const start = async (id, answer) => {
		try {
			await client.session.promptAsync({ path: { id }, body: { parts: [{ type: "text", text: answer.text, synthetic: true }] } });
		} catch {
			for (const one of answer.ids ?? []) giveBack(one, answer.env);
		}
	};
	const giveBack = (id, env) => {
		const [file, ...args] = words;
		spawn(file, [...args, "mark", id, "new"], { stdio: "ignore", env: { ...process.env, ...env } }).on("error", () => {});
	};
	const idle = async (id) => {
		if (!(await isMain(id))) return;
		const answer = await run("idle", id);
		if (answer.text) return await start(id, answer);
		const woken = await run("wait", id);
		if (woken.text) await start(id, woken);
	};

	return {
		"chat.message": async ({ sessionID }, { message, parts }) => {
			if (parts.some((part) => part.synthetic && part.text?.startsWith("[xfer]")) || !(await isMain(sessionID))) return;
			const started = envs.has(sessionID) ? {} : await run("start", sessionID);
			const answer = await run("prompt", sessionID);
			const text = [started.text, answer.text].filter(Boolean).join("\\n\\n");
			if (text) parts.push({ id: "prt_xfer" + Date.now().toString(36), sessionID, messageID: message.id, type: "text", text, synthetic: true });
		},
		"shell.env": async ({ sessionID }, output) => {
			Object.assign(output.env, envs.get(sessionID) ?? {});
		},
		event: async ({ event }) => {
			if (event.type === "session.idle") void idle(event.properties.sessionID);
			if (event.type === "session.deleted") void run("end", event.properties.info?.id);
		},
		dispose: async () => {
			for (const child of waiting.values()) child.kill();
		},
	};
};
`;
}

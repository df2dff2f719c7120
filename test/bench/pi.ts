import { spawn } from "node:child_process";
import fs from "node:fs";
import http from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Tree } from "../../lib/index.ts";

const project = path.resolve(import.meta.dirname, "../..");
const cli = path.join(project, "node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js");
const ours = path.join(project, "extension/index.ts");

/** An extension that does nothing, and one that pushes whatever comes into a directory, at once and without a thought. */
const empty = 'export default (pi: any) => pi.on("session_start", () => {});';
const push = `import fs from "node:fs";
export default (pi: any) => {
	pi.on("session_start", () => fs.watch(process.env.BARE as string, { persistent: false }, (_, name) => {
		try {
			const content = fs.readFileSync(process.env.BARE + "/" + name, "utf8");
			fs.rmSync(process.env.BARE + "/" + name);
			pi.sendMessage({ customType: "bare", content, display: true }, { triggerTurn: true });
		} catch {}
	}));
};`;

/** What pi's extension costs, in ms: until pi is ready, and from a file in new/ to the request that holds it. */
export interface PiCosts {
	readonly none: number;
	readonly empty: number;
	readonly ours: number;
	readonly bare: number;
	readonly delivered: number;
}

export async function measurePi(tree: Tree, home: string): Promise<PiCosts> {
	let asked = () => {};
	const server = http.createServer((request, response) => {
		request.resume().on("end", () => {
			asked();
			const chunk = (delta: object, finish_reason: string | null) =>
				response.write(
					`data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason }] })}\n\n`,
				);
			response.writeHead(200, { "content-type": "text/event-stream" });
			chunk({ role: "assistant", content: "ok" }, null);
			chunk({}, "stop");
			response.end("data: [DONE]\n\n");
		});
	});
	await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
	const [agent, bare] = [path.join(home, "agent"), path.join(home, "bare")];
	for (const directory of [agent, bare]) fs.mkdirSync(directory, { recursive: true });
	const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
	const providers = { stub: { baseUrl, api: "openai-completions", apiKey: "x", models: [{ id: "m" }] } };
	fs.writeFileSync(path.join(agent, "models.json"), JSON.stringify({ providers }));
	fs.writeFileSync(path.join(agent, "settings.json"), JSON.stringify({ defaultProvider: "stub", defaultModel: "m", quietStartup: true }));
	for (const [name, text] of Object.entries({ empty, push })) fs.writeFileSync(path.join(home, `${name}.ts`), text);
	const env = { PATH: process.env.PATH, HOME: home, XFER_HOME: tree.context.root, PI_CODING_AGENT_DIR: agent, PI_OFFLINE: "1", BARE: bare };
	const start = async (...args: string[]) => {
		const begin = performance.now();
		const child = spawn(process.execPath, [cli, "--mode", "rpc", ...args], { cwd: home, env, stdio: ["pipe", "pipe", "ignore"] });
		const exited = new Promise((resolve) => child.on("exit", resolve));
		child.stdin.write('{"id":"1","type":"get_state"}\n');
		let said = "";
		await new Promise<void>((resolve) =>
			child.stdout.on("data", (data) => {
				said = said.includes('"get_state"') ? said : said + data;
				if (said.includes('"get_state"')) resolve();
			}),
		);
		const took = performance.now() - begin;
		return {
			took,
			async stop() {
				child.stdin.end();
				await exited;
			},
		};
	};
	const times: Record<string, number[]> = { none: [], empty: [], ours: [], bare: [], delivered: [] };
	const cases = { none: [], empty: ["-e", path.join(home, "empty.ts")], ours: ["-e", ours] };
	for (let round = 0; round < 12; round++) {
		for (const [name, args] of Object.entries(cases)) {
			const pi = await start(...args);
			if (round > 0) times[name]?.push(pi.took); // the first fills pi's cache of what it has compiled
			await sleep(200); // the session becomes a Node
			await pi.stop();
		}
	}
	const timed = async (send: () => void) => {
		const came = new Promise<void>((resolve) => {
			asked = resolve;
		});
		const begin = performance.now();
		send();
		await came;
		const took = performance.now() - begin;
		await sleep(300); // it settles
		return took;
	};
	const pushing = await start("-e", path.join(home, "push.ts"));
	for (let round = 0; round < 20; round++) {
		fs.writeFileSync(path.join(home, "made"), "hello");
		times.bare?.push(await timed(() => fs.renameSync(path.join(home, "made"), path.join(bare, `f${round}`))));
	}
	await pushing.stop();
	const pi = await start("-e", ours, "--xfer", "alice");
	while (!tree.has("alice") || !tree.node("alice").live()) await sleep(20);
	await sleep(500);
	const { directory } = tree.node("alice");
	for (let round = 0; round < 20; round++) {
		fs.writeFileSync(`${directory}/tmp/made`, "---\nfrom: bench\nkind: answer\n---\nhello");
		times.delivered?.push(
			await timed(() => fs.renameSync(`${directory}/tmp/made`, `${directory}/new/${1e9 + round}.M000000R0000000${round % 10}.x`)),
		);
	}
	await pi.stop();
	await new Promise((resolve) => server.close(resolve));
	const median = (name: string) => (times[name] ?? []).sort((a, b) => a - b)[(times[name]?.length ?? 0) >> 1] ?? Number.NaN;
	return { none: median("none"), empty: median("empty"), ours: median("ours"), bare: median("bare"), delivered: median("delivered") };
}

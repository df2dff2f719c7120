/** Watches an Inbox and prints `saw ID` for each arrival and `polling REASON` when there are no file events; a message ends it. */
import { openTree } from "../../lib/index.ts";
import "./orphan.ts";

export interface WatcherOptions {
	node: string;
	persistent: boolean;
}

const { node, persistent }: WatcherOptions = JSON.parse(process.argv[2] ?? "{}");
const end = new AbortController();
process.on("message", () => {
	end.abort();
	process.removeAllListeners("disconnect");
	process.disconnect(); // from here on nothing but the watch could keep this process alive
});
const onPolling = (_directory: string, reason: string) => console.log(`polling ${reason}`);
const watch = openTree().node(node).inbox.watch({ persistent, signal: end.signal, onPolling });
console.log("watching");
for await (const message of watch) console.log(`saw ${message.id}`);
console.log("ended");

import type { Command } from "./command.ts";
import { adapter } from "./commands/adapter.ts";
import { board } from "./commands/board.ts";
import { completion } from "./commands/completion.ts";
import { doctor } from "./commands/doctor.ts";
import { gc } from "./commands/gc.ts";
import { hook } from "./commands/hook.ts";
import { inbox } from "./commands/inbox.ts";
import { join } from "./commands/join.ts";
import { leave } from "./commands/leave.ts";
import { mark } from "./commands/mark.ts";
import { nodes } from "./commands/nodes.ts";
import { read } from "./commands/read.ts";
import { recall } from "./commands/recall.ts";
import { reply } from "./commands/reply.ts";
import { run } from "./commands/run.ts";
import { send } from "./commands/send.ts";
import { sent } from "./commands/sent.ts";
import { setup } from "./commands/setup.ts";
import { watch } from "./commands/watch.ts";

/** Every command, in the order of the help. */
export const commands: readonly Command[] = [
	send,
	reply,
	inbox,
	read,
	mark,
	sent,
	recall,
	watch,
	adapter,
	run,
	board,
	nodes,
	join,
	leave,
	gc,
	doctor,
	setup,
	hook,
	completion,
];

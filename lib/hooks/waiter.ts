import { setSlip, slip } from "../desk.ts";
import { Doorbell } from "../doorbell.ts";
import { processOf } from "../processes.ts";
import { look, say } from "./hook.ts";
import { hostOf } from "./hosts/hosts.ts";
import type { Offer } from "./offer.ts";
import type { Me } from "./session.ts";

/** ms between two looks at whether the session is idle, and its host there. */
const pace = 500;

/**
 * Waits, while nothing runs, for mail that starts a run. One for each Node: a later one takes the place of this one.
 * @param find the session's Node
 * @param pid the host's process: when it is gone, there is nothing to wait for
 * @param signal aborted when the time is up
 * @returns undefined when there is nothing to wake the session for, or somebody else's task to do so
 */
export async function waitForMail(
	find: () => Me | undefined,
	pid: number,
	signal: AbortSignal,
): Promise<{ me: Me; offer: Offer } | undefined> {
	const me = find();
	const host = hostOf(me?.node.presence().agent);
	if (!me || !host) return undefined;
	const { directory } = me.node;
	const token = `${process.pid} ${processOf(process.pid)?.born ?? ""}`.trim();
	const born = processOf(pid)?.born;
	setSlip(directory, "waiter", token);
	let ring = () => {};
	const bell = new Doorbell(`${directory}/new`, () => ring(), { persistent: true });
	try {
		while (!signal.aborted && slip(directory, "waiter") === token && processOf(pid)?.born === born) {
			const { status, wake, instance } = me.node.presence();
			if (instance !== me.instance) return undefined; // the session is another instance by now
			// Another hook says that nothing runs, once it has found nothing that would keep the session going.
			if (status === "idle") {
				if (wake !== "now") say(me, { wake: "now" });
				const offer = await look(me, host, "idle", true);
				if (offer) return { me, offer };
			}
			await new Promise<void>((resolve) => {
				const timer = setTimeout(resolve, pace);
				ring = () => {
					clearTimeout(timer);
					resolve();
				};
			});
		}
	} finally {
		bell.close();
		if (slip(directory, "waiter") === token) {
			setSlip(directory, "waiter", undefined);
			if (me.node.presence().instance === me.instance && me.node.presence().status === "idle") say(me, { wake: "turn" });
		}
	}
	return undefined;
}

/** What runs other programs: a bundle of its own, so that the other commands don't pay for its parsing. */
export const daemon = () => import("./daemon.ts");
export const run = () => import("../../lib/adapter/run.ts");
export const witness = () => import("../../lib/adapter/witness.ts");

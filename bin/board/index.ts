/** What the commands of the Board do: a bundle of its own, so that the other commands don't pay for its parsing; and of that, no more is run than a command uses. */
export const look = () => import("./look.ts");
export const write = () => import("./write.ts");
export const repository = () => import("./repository.ts");
export const doctor = () => import("../../lib/board/doctor.ts");

/** What people run once in a while: a bundle of its own, so that the other commands don't pay for its parsing. */
export const doctor = () => import("./doctor.ts");
export const setup = () => import("./setup.ts");

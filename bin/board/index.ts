/** What the commands of the Board do: a bundle of its own, so that the other commands don't pay for its parsing. */
export { list, names, show, watch } from "./look.ts";
export { init, mergeDriver, sync } from "./repository.ts";
export { add, claim, create, done, edit, release, remove, repair } from "./write.ts";

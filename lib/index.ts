/** The library over an xfer tree. Nothing in it prints or exits; what it throws is an `XferError`, or the system's error. */
export { type Ending, waitForReply } from "./await.ts";
export type { Context, ContextOptions } from "./context.ts";
export { type Diagnosis, diagnose, type Finding, type Inspection, inspect } from "./doctor.ts";
export { XferError, type XferErrorCode } from "./errors.ts";
export { type Lease, type State, shortId } from "./filename.ts";
export { collect, type GcOptions, type GcReport } from "./gc.ts";
export { type Handoff, type Header, type Kind, kinds, type Priority, priorities, type Warning } from "./handoff.ts";
export type { Inbox, Listed, ListOptions, TakeOptions } from "./inbox.ts";
export type { Holder, LiveLock } from "./lock.ts";
export type { Durability, Maildir, Message } from "./maildir.ts";
export { isNodeName, nodeName, slug } from "./names.ts";
export type { Presence } from "./presence.ts";
export { type Outcome, type Outgoing, replyTo } from "./send.ts";
export type { Sent, Standing } from "./sent.ts";
export type { Taken } from "./taken.ts";
export { type Live, type Node, type NodeInfo, openTree, type Tree, type Whereabouts } from "./tree.ts";
export { type Change, type WatchOptions, watchTree } from "./watch.ts";

/** The names of the hosts that have hooks of ours (see `hosts.ts`): to name them, no more of them need be loaded. */
export const hostNames = ["claude", "codex", "gemini", "opencode"] as const;

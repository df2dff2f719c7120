import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
import type { Extension } from "./here.ts";

/** Registers `/xfer`. */
export function registerCommand(_pi: ExtensionAPI, _extension: Extension): void {}

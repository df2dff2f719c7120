import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
import type { Extension } from "./here.ts";

/** Registers what the model can do with the tree. */
export function registerTools(_pi: ExtensionAPI, _extension: Extension): void {}

/** Shows the model the tools for other Nodes only while there are any; what others have chosen stays. */
export function chooseTools(_pi: ExtensionAPI, _extension: Extension): void {}

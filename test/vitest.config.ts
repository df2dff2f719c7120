import { defineConfig } from "vitest/config";

export default defineConfig({
	test: {
		root: `${import.meta.dirname}/..`,
		include: ["test/**/*.test.ts"],
		// Real processes on a machine that may be busy: a limit catches a hang, never a slow moment.
		testTimeout: 300_000,
		hookTimeout: 60_000,
		env: { XFER_HOME: "", XFER_NODE: "", XFER_INSTANCE: "", NO_COLOR: "", FORCE_COLOR: "" },
	},
});

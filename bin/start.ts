// What is started. A host waits for its hooks at every turn, and loading all the other commands takes longer than what a hook does.
const { argv } = process;
const hook = argv[2] === "hook" && !argv.includes("--help");
try {
	require(hook ? "./hook.cjs" : "./main.cjs");
} catch (error) {
	const { message } = error as Error;
	const cure = /EMFILE|too many open files/.test(message) ? "EMFILE: too many open files: raise ulimit -n" : "install it anew";
	process.stderr.write(`xfer: it could not be loaded: ${message.replaceAll(/\s+/g, " ")} (${cure})\n`);
	process.exitCode = hook ? 0 : 1; // a hook never fails its host
}

// What is started. A host waits for its hooks at every turn, and loading all the other commands takes longer than what a hook does.
const { argv } = process;
require(argv[2] === "hook" && !argv.includes("--help") ? "./hook.cjs" : "./main.cjs");

/** A process that imports this ends with the test that started it, whatever happens to that. */
process.on("disconnect", () => process.exit(1));
if (!process.connected) process.exit(1);

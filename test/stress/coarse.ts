/** Makes the mtimes in a directory those of a filesystem that keeps them in steps of 2 s. */
import fs from "node:fs";
import path from "node:path";
import "./orphan.ts";

const { directory }: { directory: string } = JSON.parse(process.argv[2] ?? "{}");
setInterval(() => {
	for (const name of fs.existsSync(directory) ? fs.readdirSync(directory) : []) {
		const file = path.join(directory, name);
		const mtime = fs.statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;
		const coarse = (mtime - (mtime % 2000)) / 1000;
		try {
			if (coarse * 1000 !== mtime) fs.utimesSync(file, coarse, coarse);
		} catch (error) {
			if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
		}
	}
}, 3);
console.log("ready");

import { homedir } from "node:os";
import type { Diagnosis } from "../doctor.ts";
import { formatAge } from "../duration.ts";
import { modified } from "../files.ts";
import { projectDirectory } from "../identity.ts";
import type { Tree } from "../tree.ts";
import type { Host } from "./hosts/host.ts";
import { hosts } from "./hosts/hosts.ts";
import { isSetUp } from "./setup.ts";

/** Whether hosts have our hooks, for this user or in this project, and when one was run last: one that a host does not trust is never run, and nobody says so. */
export function diagnoseHooks(tree: Tree): Diagnosis {
	const home = homeDirectory();
	const each = home === undefined ? [] : hosts.map((host) => diagnoseHost(tree, host, home));
	return { findings: each.flatMap(({ findings }) => findings), checks: each.flatMap(({ checks }) => checks) };
}

function homeDirectory(): string | undefined {
	try {
		return homedir();
	} catch {
		return undefined; // a user that the system does not know has no configuration either
	}
}

function diagnoseHost(tree: Tree, host: Host, home: string): Diagnosis {
	const { root, now } = tree.context;
	const places = [undefined, projectDirectory(process.cwd())].map((project) => ({ home, project, env: process.env, root }));
	const configured = places.filter((place) => isSetUp(host, place)).flatMap((place) => host.setup.hooks(place, () => "", []));
	const files = [...new Set(configured.map(({ file }) => file))];
	const last = modified(`${root}/.hook-${host.name}`);
	const [path] = files;
	if (!path && last === undefined) return { findings: [], checks: [] }; // nobody uses it here
	const when = last === undefined ? "never run" : `last run ${formatAge(last, now())}`;
	const name = `hooks of ${host.name}`;
	if (!path) return { findings: [], checks: [{ name, ok: true, detail: `configured neither for you nor for this project, ${when}` }] };
	const silent = last === undefined || last < (modified(path) ?? 0);
	const what = "hooks are configured and have not been run since";
	return {
		findings: silent ? [{ code: "hooks", path, what, cure: host.setup.wants.join("; ") }] : [],
		checks: [{ name, ok: !silent, detail: `configured in ${files.join(" and ")}, ${when}` }],
	};
}

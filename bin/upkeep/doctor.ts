import { diagnose, inspect } from "../../lib/doctor.ts";
import { diagnoseHooks } from "../../lib/hooks/doctor.ts";
import { visible } from "../../lib/visible.ts";
import { exit, report } from "../errors.ts";
import { count, paint, print, printJson } from "../output.ts";
import type { Session } from "../session.ts";

const meanings = {
	bom: "begins with a byte order mark, so its header is not read: save it without",
	unclosed: "the header does not close: end it with a line ---",
	line: "a header line is not KEY: VALUE, and is ignored",
	duplicate: "a key stands twice: the first counts",
	utf8: "the header is not UTF-8",
	date: "a date is not like 2026-11-30T12:00:00Z, and is ignored",
	number: "hops is not a number, and is ignored",
} as const;

/** What is wrong, or how files read. */
export async function doctor(session: Session, names: readonly string[]): Promise<number> {
	if (names.length > 0) return files(names, session.json);
	const { tree } = session;
	const looks = [await diagnose(tree), diagnoseHooks(tree)];
	const checks = looks.flatMap((look) => look.checks);
	const findings = [...looks.flatMap((look) => look.findings), ...(await (await (await import("#board")).doctor()).diagnoseBoard(tree))];
	if (session.json) printJson("xfer.doctor/1", { root: tree.context.root, findings, checks, files: [] });
	else {
		print(`${tree.context.root}\n`);
		for (const { name, ok, detail } of checks) print(`${ok ? paint("green", "ok") : paint("red", "bad")} ${name}: ${visible(detail)}\n`);
		for (const { code, path, what, cure } of findings)
			print(`${paint("yellow", code)} ${visible(path)}: ${visible(what)} (${visible(cure)})\n`);
		if (findings.length === 0) print("nothing found\n");
	}
	return findings.length > 0 ? exit.failed : exit.done;
}

function files(names: readonly string[], json: boolean): number {
	let code: number = exit.done;
	const seen = names.flatMap((name) => {
		try {
			const inspection = inspect(name);
			if (inspection.warnings.length > 0) code = exit.failed;
			return [inspection];
		} catch (error) {
			code = report(error); // and on with the others
			return [];
		}
	});
	if (json && seen.length > 0) printJson("xfer.doctor/1", { findings: [], files: seen });
	if (json) return code;
	for (const { file, header, fields, body, warnings } of seen) {
		print(`${visible(file)}: ${header ? "a header" : "no header"} and ${count(body.bytes, "byte")} of body\n`);
		for (const [key, value] of Object.entries(fields)) print(`  ${key}: ${visible([value].flat().join(", "))}\n`);
		for (const warning of warnings) print(`  ${paint("yellow", warning)}: ${meanings[warning]}\n`);
	}
	return code;
}

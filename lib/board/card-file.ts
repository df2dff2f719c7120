import { basename, dirname } from "node:path";
import type { Context } from "../context.ts";
import { makeDirectories, publish } from "../files.ts";
import type { Card } from "./card.ts";

/** ms after its last change in which the end of a Card may be just being written. */
export const settle = 300;

/** Whether a file of this name in the Board's directory is a Card. A repository's README is none. */
export function isCardName(name: string): boolean {
	return name.endsWith(".md") && !name.startsWith(".") && basename(name) === name && !/^readme\.md$/i.test(name);
}

/** A Card's name without its ending: what a person types. */
export function stem(file: string): string {
	return file.endsWith(".md") ? file.slice(0, -3) : file;
}

/** The id at the end of a Card's name. */
export function idIn(name: string): string | undefined {
	return /-([0-9a-hjkmnp-tv-z]{6})$/.exec(name)?.[1];
}

/** Whether the last Entry may be just being written: a large write is seen page by page, and what looks torn may be whole in a moment. */
export function mayGrow({ entries }: Pick<Card, "entries">, modified: number, context: Pick<Context, "now">): boolean {
	return entries.at(-1)?.is("torn") === true && Math.abs(context.now() - modified) < settle;
}

/** Where whoever changes a Card keeps its lock, and what is not yet or no longer the Card. */
export function locksOf(path: string): string {
	return `${dirname(path)}/.locks`;
}

/** What a Card was, while it is replaced. */
export function oldPath(path: string): string {
	return `${locksOf(path)}/${basename(path)}.old`;
}

/** What a Card is to be. */
export function temporaryPath({ instance }: Pick<Context, "instance">, path: string): string {
	return `${locksOf(path)}/${basename(path)}.${instance}.new`;
}

/**
 * Publishes a new Card, whole, never over another.
 * @returns false when the name is taken
 * @throws the system's error
 */
export function publishCard(context: Pick<Context, "instance" | "durable">, path: string, bytes: Buffer): boolean {
	makeDirectories(locksOf(path));
	return publish(path, temporaryPath(context, path), bytes, context.durable);
}

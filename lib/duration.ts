import { XferError } from "./errors.ts";

const units = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/**
 * A duration in ms: `30s`, `10m`, `2h`, `7d`.
 * @throws {XferError} EINPUT
 */
export function parseDuration(text: string, flag: string): number {
	const [, count, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
	if (count && unit) return Number(count) * units[unit as keyof typeof units];
	throw new XferError("EINPUT", `${flag} ${text} is not a duration`, "such as 30s, 10m, 2h, 7d");
}

/** A signal after so many ms; a timer of Node.js can't wait for longer than 24 days. */
export function timeoutSignal(ms: number): AbortSignal {
	return AbortSignal.timeout(Math.min(ms, 2 ** 31 - 1));
}

/** A length of time for a person: `12 min`. */
export function formatDuration(ms: number): string {
	const seconds = Math.max(0, Math.round(ms / 1000));
	if (seconds < 100) return `${seconds} s`;
	if (seconds < 100 * 60) return `${Math.round(seconds / 60)} min`;
	if (seconds < 48 * 3600) return `${Math.round(seconds / 3600)} h`;
	return `${Math.round(seconds / 86_400)} d`;
}

/** A point in time for a person: `12 min ago`. */
export function formatAge(time: number, now: number): string {
	return time > now ? `in ${formatDuration(time - now)}` : `${formatDuration(now - time)} ago`;
}

/** The time of day for a person, with the date when it was another day: `10:31`. */
export function formatClock(time: number, now: number): string {
	const date = new Date(time);
	const clock = `${two(date.getHours())}:${two(date.getMinutes())}`;
	return new Date(now).toDateString() === date.toDateString()
		? clock
		: `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock}`;
}

function two(count: number): string {
	return String(count).padStart(2, "0");
}

import { errno, XferError } from "./errors.ts";
import { OpenFile } from "./files.ts";
import { type Handoff, headerLimit, parseHeader, readHandoff } from "./handoff.ts";

/** Bytes that hold nearly every header, and the beginning of the body. */
const usual = 4096;

/**
 * What a file says of itself, and the bytes of its body, of which no more than the beginning is read.
 * @returns undefined when it has gone, or is no regular file
 * @throws {XferError} EUNREADABLE · the system's error when it is not the file's fault (`EMFILE`)
 */
export function readHead(path: string, id: string): { handoff: Handoff; size: number } | undefined {
	return open(path, (file) => {
		let head = file.read(0, usual);
		let header = parseHeader(head);
		if (head.length < file.size && (header.warnings.includes("unclosed") || header.body === head.length)) {
			head = file.read(0, headerLimit + usual);
			header = parseHeader(head);
		}
		// Without a subject the beginning of the body stands for it.
		if (!header.fields.has("subject") && head.length < Math.min(file.size, header.body + usual)) head = file.read(0, header.body + usual);
		return { handoff: readHandoff(id, head, file.modified, header), size: file.size - header.body };
	});
}

/**
 * What a file says, and its body; of a body of more than `limit` bytes nothing.
 * @returns and @throws as `readHead`
 */
export function readWhole(path: string, id: string, limit: number): { handoff: Handoff; body: Buffer } | undefined {
	return open(path, (file) => {
		const bytes = file.read(0, headerLimit + limit);
		const handoff = readHandoff(id, bytes, file.modified);
		const { body } = handoff.header;
		return { handoff, body: file.size - body > limit ? Buffer.alloc(0) : bytes.subarray(body) };
	});
}

function open<T>(path: string, read: (file: OpenFile) => T): T | undefined {
	let file: OpenFile | undefined;
	try {
		file = new OpenFile(path);
		return read(file);
	} catch (error) {
		const code = errno(error);
		if (code === "ENOENT" || code === "EFTYPE" || code === "ELOOP" || code === "ENXIO") return undefined;
		if (code === "EMFILE" || code === "ENFILE" || code === "ENOMEM" || code === undefined) throw error;
		throw new XferError("EUNREADABLE", `${path} can't be read (${code})`, "chmod 600 it, then xfer mark it new");
	} finally {
		file?.close();
	}
}

/**
 * Reads the facts of an object, and its body, from an HTTP answer. Headers are trusted only as far as the bytes confirm them.
 *
 * Knows the headers; must not know when to retry.
 */

import { joinBytes } from "../bytes/arrays.ts";
import { SuperchunkError } from "../errors.ts";
import type { ByteRange } from "./types.ts";

/** A failure that a retry may cure: a truncated body, a failing gateway. */
export class TransientError extends Error {
  /** Milliseconds that the server asked to wait. */
  readonly waitMs: number | undefined;

  constructor(message: string, waitMs?: number) {
    super(message);
    this.waitMs = waitMs;
  }
}

/** `Content-Length` in bytes of the object; undefined if it is missing or counts encoded bytes. */
export function parseLength(response: Response): number | undefined {
  const text = response.headers.get("content-length");
  if (text === null || !/^\d+$/.test(text) || isEncoded(response)) return undefined;
  return Number(text);
}

/** ETag, else time of the last change and size; undefined if the server sends neither. */
export function parseVersion(response: Response, size: number | undefined): string | undefined {
  const etag = response.headers.get("etag");
  if (etag !== null) return etag.replace(/^W\//, ""); // a server may send the same ETag as weak and as strong
  const time = response.headers.get("last-modified");
  return time === null || size === undefined ? undefined : `${time} ${size}`;
}

/** Milliseconds without a byte of a body, after which reading fails. */
const STALL_MS = 60_000;

/**
 * Reads the body, at most `limit` bytes.
 *
 * @throws TransientError if the body is shorter than its header says; LIMIT if it is longer than `limit`
 */
export async function readBody(
  response: Response,
  limit: number,
  path: string,
  stallMs: number,
): Promise<Uint8Array> {
  const promised = parseLength(response);
  if (promised !== undefined && promised > limit) {
    await dropBody(response);
    throw tooLong(path, limit, promised);
  }
  const pieces: Uint8Array[] = [];
  let length = 0;
  const reader = response.body?.getReader();
  while (reader !== undefined) {
    const { done, value } = await readPiece(reader, stallMs);
    if (done) break;
    pieces.push(value);
    length += value.length;
    if (length <= limit) continue;
    await reader.cancel();
    throw tooLong(path, limit, length);
  }
  if (promised !== undefined && promised !== length)
    throw new TransientError(`the body has ${length} bytes instead of ${promised}`);
  return joinBytes(pieces);
}

/** Reads at most the first `length` bytes of the body, and cancels the rest. */
export async function readBodyStart(response: Response, length: number): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  const reader = response.body?.getReader();
  for (let missing = length; reader !== undefined && missing > 0; ) {
    const { done, value } = await readPiece(reader, STALL_MS);
    if (done) break;
    pieces.push(value.subarray(0, missing));
    missing -= value.length;
  }
  await reader?.cancel().catch(() => undefined); // already broken, so the connection is free
  return joinBytes(pieces);
}

async function readPiece(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  stallMs: number,
): Promise<ReadableStreamReadResult<Uint8Array>> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const stalled = new Promise<never>((_, reject) => {
    const late = new TransientError(`the body stopped for ${stallMs} ms`);
    timer = setTimeout(() => {
      reject(late);
      void reader.cancel(late).catch(() => undefined); // already broken, so the connection is free
    }, stallMs);
  });
  try {
    return await Promise.race([reader.read(), stalled]);
  } finally {
    clearTimeout(timer);
  }
}

/** Cancels a body that will not be read, to free its connection. */
export async function dropBody(response: Response): Promise<void> {
  await response.body?.cancel().catch(() => undefined); // already broken, so the connection is free
}

function isEncoded(response: Response): boolean {
  const encoding = response.headers.get("content-encoding");
  return encoding !== null && encoding !== "" && encoding.toLowerCase() !== "identity";
}

function tooLong(path: string, limit: number, found: number): SuperchunkError {
  return new SuperchunkError("LIMIT", `the server sends ${found} bytes, but at most ${limit} are wanted`, {
    path,
    expected: limit,
    found,
  });
}

// Ranges in HTTP: the requested range, and the range that the answer says it holds.
//
// Knows `Range` and `Content-Range` (RFC 9110, section 14); must not know bodies.

/** The part of an object in a 206 answer: first and last byte, and the object's size if the server sends it. */
export interface ContentRange {
  readonly first: number;
  readonly last: number;
  readonly total: number | undefined;
}

/** The header for a range; undefined for an empty one. */
export function formatRange(range: ByteRange): string | undefined {
  if ("suffixLength" in range) return range.suffixLength === 0 ? undefined : `bytes=-${range.suffixLength}`;
  if (range.length === 0) return undefined;
  const last = range.offset + range.length - 1;
  return `bytes=${range.offset}-${Number.isSafeInteger(last) ? last : ""}`;
}

/** Parses `Content-Range: bytes 0-99/1000` of a 206; undefined if the header is missing or hidden from a browser's script. */
export function parseContentRange(response: Response): ContentRange | undefined {
  const match = /^bytes (\d+)-(\d+)\/(\d+|\*)$/.exec(response.headers.get("content-range")?.trim() ?? "");
  if (match === null) return undefined;
  const total = match[3] === "*" ? undefined : Number(match[3]);
  return { first: Number(match[1]), last: Number(match[2]), total };
}

/**
 * Refuses a part that is not the requested one. Fewer bytes are allowed only at the object's end.
 *
 * @throws IO
 */
export function checkPart(sent: ContentRange, range: ByteRange, path: string): void {
  const { first, last, total } = sent;
  let fits: boolean;
  if ("suffixLength" in range) {
    fits = total === undefined || (last === total - 1 && first === Math.max(0, total - range.suffixLength));
  } else {
    const wanted = range.offset + range.length - 1;
    fits =
      first === range.offset &&
      (last === wanted || (last < wanted && (total === undefined || last === total - 1)));
  }
  if (fits && last >= first) return;
  throw new SuperchunkError(
    "IO",
    `the server sent bytes ${first} to ${last} of ${total ?? "?"}, not the range asked for`,
    { path, expected: formatRange(range), found: `bytes ${first}-${last}/${total ?? "*"}` },
  );
}

/**
 * What an HTTP answer says of an object, and its body, believed only as far as the bytes bear it out.
 *
 * Knows the headers; must not know when to ask again.
 */

import { joinBytes } from "../bytes/arrays.ts";
import { SuperchunkError } from "../errors.ts";
import type { ByteRange } from "./types.ts";

/** An answer that may be right the next time: a body cut short, a failing gateway. */
export class TransientError extends Error {
  /** Milliseconds that the server wants to be left alone. */
  readonly waitMs: number | undefined;

  constructor(message: string, waitMs?: number) {
    super(message);
    this.waitMs = waitMs;
  }
}

/** `Content-Length` as a number of the object's own bytes; undefined where it is missing or counts encoded bytes. */
export function parseLength(response: Response): number | undefined {
  const text = response.headers.get("content-length");
  if (text === null || !/^\d+$/.test(text) || isEncoded(response)) return undefined;
  return Number(text);
}

/** ETag, else the time of the last change with the size; undefined where the server tells neither. */
export function parseVersion(response: Response, size: number | undefined): string | undefined {
  const etag = response.headers.get("etag");
  if (etag !== null) return etag.replace(/^W\//, ""); // weak in one answer and strong in another is still one version
  const time = response.headers.get("last-modified");
  return time === null || size === undefined ? undefined : `${time} ${size}`;
}

/** Milliseconds without a byte of a body. */
const STALL_MS = 60_000;

/**
 * The body, read piece by piece and no further than `limit` bytes.
 *
 * @throws TransientError where it has fewer bytes than its header promises; LIMIT where it has more than `limit`
 */
export async function readBody(
  response: Response,
  limit: number,
  path: string,
  stallMs: number = STALL_MS,
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
  if (promised !== undefined && promised !== length) {
    throw new TransientError(`the body has ${length} bytes, its header promises ${promised}`);
  }
  return joinBytes(pieces);
}

/** The first bytes of the body, `length` at most; the rest is not fetched. */
export async function readStart(response: Response, length: number): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  const reader = response.body?.getReader();
  for (let missing = length; reader !== undefined && missing > 0; ) {
    const { done, value } = await readPiece(reader, STALL_MS);
    if (done) break;
    pieces.push(value.subarray(0, missing));
    missing -= value.length;
  }
  await reader?.cancel().catch(() => undefined); // broken already: just as free
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
      void reader.cancel(late).catch(() => undefined); // broken already: just as free
    }, stallMs);
  });
  try {
    return await Promise.race([reader.read(), stalled]);
  } finally {
    clearTimeout(timer);
  }
}

/** Cancels a body that is not read, so that its connection is free again. */
export async function dropBody(response: Response): Promise<void> {
  await response.body?.cancel().catch(() => undefined); // broken already: just as free
}

function isEncoded(response: Response): boolean {
  const encoding = response.headers.get("content-encoding");
  return encoding !== null && encoding !== "" && encoding.toLowerCase() !== "identity";
}

function tooLong(path: string, limit: number, found: number): SuperchunkError {
  return new SuperchunkError("LIMIT", `the server sends ${found} bytes, where at most ${limit} are wanted`, {
    path,
    expected: limit,
    found,
  });
}

// Ranges in the words of HTTP: what is asked for, and what the answer says it is.
//
// Knows `Range` and `Content-Range` (RFC 9110, section 14); must not know bodies.

/** The part of an object that a 206 answer carries: first and last byte, and the object's size where it is told. */
export interface ContentRange {
  readonly first: number;
  readonly last: number;
  readonly total: number | undefined;
}

/** The header for a range; undefined where it has no bytes. */
export function formatRange(range: ByteRange): string | undefined {
  if ("suffixLength" in range) return range.suffixLength === 0 ? undefined : `bytes=-${range.suffixLength}`;
  if (range.length === 0) return undefined;
  const last = range.offset + range.length - 1;
  return `bytes=${range.offset}-${Number.isSafeInteger(last) ? last : ""}`;
}

/** `Content-Range: bytes 0-99/1000` of a 206; undefined where the header is missing or hidden from a browser's script. */
export function parseContentRange(response: Response): ContentRange | undefined {
  const match = /^bytes (\d+)-(\d+)\/(\d+|\*)$/.exec(response.headers.get("content-range")?.trim() ?? "");
  if (match === null) return undefined;
  const total = match[3] === "*" ? undefined : Number(match[3]);
  return { first: Number(match[1]), last: Number(match[2]), total };
}

/**
 * Refuses a part that is not the one asked for: fewer bytes are right at the object's end only.
 *
 * @throws IO
 */
export function checkPart(told: ContentRange, range: ByteRange, path: string): void {
  const { first, last, total } = told;
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
    {
      path,
      expected: formatRange(range),
      found: `bytes ${first}-${last}/${total ?? "*"}`,
    },
  );
}

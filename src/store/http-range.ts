/**
 * Ranges in the words of HTTP: what is asked for, and what the answer says it is.
 *
 * Knows `Range` and `Content-Range` (RFC 9110, section 14); must not know bodies.
 */
import { SuperchunkError } from "../errors.ts";
import type { ByteRange } from "./types.ts";

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

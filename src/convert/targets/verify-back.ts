/** Reads what was converted back, and compares it with its source value by value, with flat memory. Must not write. */

import type { ArrayArchive, BytesArchive } from "../../archive/kinds/types.ts";
import { open } from "../../archive/open/open.ts";
import { SuperchunkError } from "../../errors.ts";
import { formatDType } from "../../format/dtype.ts";
import { stringifyJson } from "../../format/json.ts";
import { encodeNpyHeader } from "../../format/npy.ts";
import type { ReadableStore } from "../../store/types.ts";
import type { BackArray, BackColumn } from "../sources/source.ts";
import type { BackFormat } from "./back-types.ts";

/** Where the result lies. */
export interface BackPlace {
  readonly target: ReadableStore;
  readonly key: string;
  readonly format: BackFormat;
  /** True for a column of the table at the key. */
  readonly isColumn: boolean;
}

/** Bytes of a `.npy` that are read at a time. */
const PIECE = 4 << 20;

/** Throws `BAD_FIELD` for the first byte that differs, or another type or shape, and what reading throws. */
export async function verifyBack(
  column: BackColumn,
  place: BackPlace,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { target, key, format } = place;
  const path = target.describe(key);
  if (format === "npy") return compareStreams(column, npyValues(column, target, key, signal), path, signal);
  const found = await openResult(column, place, signal);
  if (found.kind === "array") return compareValues(column, found, path, signal);
  return compareStreams(column, found.streamBytes({ signal }), path, signal);
}

/** Compares an array that was made of a source, which messages name `path`. Throws as {@link verifyBack}. */
export async function compareValues(
  column: BackColumn,
  found: Pick<BackArray, "dtype" | "shape" | "streamBytes">,
  path: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  const facts = [
    ["dtype", formatDType(column.dtype), formatDType(found.dtype)],
    ["shape", column.shape, found.shape],
  ] as const;
  for (const [field, expected, stored] of facts) {
    if (stringifyJson(expected) === stringifyJson(stored)) continue;
    throw new SuperchunkError("BAD_FIELD", `${field} is not that of the source. Report it`, {
      path,
      field,
      expected,
      found: stored,
    });
  }
  await compareStreams(column, found.streamBytes({ signal }), path, signal);
}

async function compareStreams(
  column: BackColumn,
  found: AsyncIterable<Uint8Array>,
  path: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  const at = await firstDifference(column.stream({ signal }), found);
  if (at === undefined) return;
  throw new SuperchunkError(
    "BAD_FIELD",
    `the values differ from those of the source from byte ${at} on${column.name === "" ? "" : ` of column "${column.name}"`}. Report it; the source is unchanged`,
    { path, offset: at, field: "values" },
  );
}

/** What was written: an array, a column of a table, or plain bytes. */
async function openResult(
  column: BackColumn,
  { target, key, isColumn }: BackPlace,
  signal: AbortSignal | undefined,
): Promise<ArrayArchive | BytesArchive> {
  const opened = await open(target, key, { signal });
  return isColumn && opened.kind !== "bytes"
    ? opened.column(column.name)
    : (opened as ArrayArchive | BytesArchive);
}

async function* npyValues(
  { dtype, shape, nbytes }: BackColumn,
  target: ReadableStore,
  key: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  const offset = encodeNpyHeader(dtype, shape).length;
  for (let at = 0; at < nbytes; at += PIECE) {
    const range = { offset: offset + at, length: Math.min(PIECE, nbytes - at) };
    const bytes = await target.getRange(key, range, { signal });
    if (bytes === undefined) return;
    yield bytes;
  }
}

/** First byte in which two streams differ, however they are cut; undefined where they are the same. */
export async function firstDifference(
  left: AsyncIterable<Uint8Array>,
  right: AsyncIterable<Uint8Array>,
): Promise<number | undefined> {
  const others = right[Symbol.asyncIterator]();
  let other: Uint8Array = new Uint8Array(0);
  let done = 0;
  try {
    for await (const piece of left) {
      for (let at = 0; at < piece.length; ) {
        while (other.length === 0) {
          const next = await others.next();
          if (next.done === true) return done;
          other = next.value;
        }
        const length = Math.min(piece.length - at, other.length);
        for (let i = 0; i < length; i++) if (piece[at + i] !== other[i]) return done + i;
        at += length;
        done += length;
        other = other.subarray(length);
      }
    }
    while (other.length === 0) {
      const next = await others.next();
      if (next.done === true) return undefined;
      other = next.value;
    }
    return done;
  } finally {
    await others.return?.();
  }
}

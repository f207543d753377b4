/** Reads what was converted back, and compares it with its source value by value, with flat memory. Must not write. */
import { open } from "../../array/open.ts";
import type { ArrayArchive, BytesArchive } from "../../array/types.ts";
import { SuperchunkError } from "../../errors.ts";
import { formatDType } from "../../format/dtype.ts";
import { stringifyJson } from "../../format/json.ts";
import { encodeNpyHeader } from "../../format/npy.ts";
import type { ReadableStore } from "../../store/types.ts";
import type { BackFormat } from "./back-types.ts";
import type { BackColumn } from "./source.ts";

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
  const { target, key } = place;
  const path = target.describe(key);
  const result = await openResult(column, place, signal);
  const at = await firstDifference(column.stream({ signal }), result);
  if (at === undefined) return;
  throw new SuperchunkError(
    "BAD_FIELD",
    `the values differ from those of the source from byte ${at} on${column.name === "" ? "" : ` of column "${column.name}"`}. Report it; the source is unchanged`,
    { path, offset: at, field: "values" },
  );
}

/** The values of the result in C order. */
async function openResult(
  column: BackColumn,
  { target, key, format, isColumn }: BackPlace,
  signal: AbortSignal | undefined,
): Promise<AsyncIterable<Uint8Array>> {
  if (format === "npy") return npyValues(column, target, key, signal);
  const opened = await open(target, key, { signal });
  const found: ArrayArchive | BytesArchive =
    isColumn && opened.kind !== "bytes"
      ? opened.column(column.name)
      : (opened as ArrayArchive | BytesArchive);
  if (found.kind === "array") {
    const facts = [
      ["dtype", formatDType(column.dtype), formatDType(found.dtype)],
      ["shape", column.shape, found.shape],
    ] as const;
    for (const [field, expected, stored] of facts) {
      if (stringifyJson(expected) === stringifyJson(stored)) continue;
      throw new SuperchunkError("BAD_FIELD", `${field} is not that of the source. Report it`, {
        path: target.describe(key),
        field,
        expected,
        found: stored,
      });
    }
  }
  return found.streamBytes({ signal });
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

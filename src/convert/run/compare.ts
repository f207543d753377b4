/** Compares what was made with its source, value by value, with flat memory. Must not write. */
import { SuperchunkError } from "../../errors.ts";
import { formatDType } from "../../format/dtype.ts";
import { stringifyJson } from "../../format/json.ts";
import type { ColumnArray } from "../pipeline.ts";
import type { Column } from "../sources/columns.ts";

/** Compares an array that was made of a source, which messages name `path`. Throws `BAD_FIELD` for the first byte that differs, and for another type or shape. */
export async function compareValues(
  column: Column,
  found: Pick<ColumnArray, "dtype" | "shape" | "streamBytes">,
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

/** Compares the bytes of an array, as {@link compareValues} does. */
export async function compareStreams(
  column: Column,
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

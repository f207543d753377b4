/** Follows an array that a writer appends to, and yields its rows as they arrive. Must not know formats. */

import type { ReadableArray } from "../archive/kinds/types.ts";
import { elementsOf } from "../bytes/arrays.ts";
import { badArgument, isSuperchunkError, SuperchunkError } from "../errors.ts";
import { checkOptions } from "../store/check-options.ts";
import { pause } from "../store/pool.ts";
import type { StoreOptions } from "../store/types.ts";
import type { ArraySlice, ValueTypes } from "../values/selection.ts";
import { slice } from "../values/selection.ts";

/** Options of `follow`. */
export interface FollowOptions extends StoreOptions {
  /** First row (default 0). The length of the array yields only later rows. */
  readonly from?: number | undefined;
  /** Polling interval in milliseconds (default 1000). */
  readonly interval?: number | undefined;
}

/** Approximate bytes of a slice, if many rows are available. */
const SLICE_BYTES = 4 << 20;

/**
 * The rows of an array in order, in slices of whole rows, and then appended rows as they are committed. Ends when the signal is
 * aborted. `reopen` opens the array again if it cannot refresh itself.
 * @throws BAD_ARGUMENT for an array without dimensions; STALE if yielded rows are cut off; and the codes of reading
 */
export async function* followRows<Types extends ValueTypes>(
  array: ReadableArray<Types>,
  reopen: () => Promise<ReadableArray<Types>>,
  options: FollowOptions,
): AsyncGenerator<ArraySlice<Types>> {
  checkOptions(options, "from interval signal");
  const { from = 0, interval = 1000, signal } = options;
  if (typeof interval !== "number" || !(interval >= 0))
    throw badArgument("interval", interval, "milliseconds, 0 or more");
  if (!Number.isSafeInteger(from) || from < 0) throw badArgument("from row", from, "0 or more");
  if (array.shape.length === 0) throw badArgument("follow", "an array without dimensions", "one with rows");
  let current = array;
  let next = from;
  const isOver = (): boolean => signal?.aborted === true;
  try {
    while (!isOver()) {
      const [rows = 0, ...rowShape] = current.shape;
      if (rows < next && next > from)
        throw new SuperchunkError(
          "STALE",
          `${next} rows were read, but the array has ${rows} now: its writer cut rows off`,
          { path: array.store.describe(array.path), field: "shape", expected: next, found: rows },
        );
      const rowBytes = Math.max(1, elementsOf(rowShape) * current.dtype.itemSize);
      const step = Math.max(1, Math.floor(SLICE_BYTES / rowBytes));
      try {
        while (next < rows) {
          const stop = Math.min(rows, next + step);
          const part = await current.get([slice(next, stop)], { signal });
          next = stop;
          yield part as ArraySlice<Types>; // a slice of rows is never a single value
        }
      } catch (error) {
        // The writer replaced what was being read: open the array again.
        if (!isSuperchunkError(error, "STALE")) throw error;
      }
      await pause(interval, signal);
      if (!isOver()) current = await moveOn(array, current, reopen);
    }
  } catch (error) {
    if (!isOver()) throw error;
  } finally {
    if (current !== array) await current.close();
  }
}

/** The array in its current state. */
async function moveOn<Types extends ValueTypes>(
  first: ReadableArray<Types>,
  current: ReadableArray<Types>,
  reopen: () => Promise<ReadableArray<Types>>,
): Promise<ReadableArray<Types>> {
  if ("refresh" in current && typeof current.refresh === "function") {
    await current.refresh();
    return current;
  }
  const newest = await reopen();
  if (current !== first) await current.close();
  return newest;
}

/** Follows an array that a writer appends to, and yields its rows as they arrive. Must not know formats. */

import type { ReadableArray } from "../archive/kinds/types.ts";
import { elementsOf, isEqual } from "../bytes/arrays.ts";
import { checkOptions } from "../bytes/check-options.ts";
import { badArgument, isSuperchunkError, SuperchunkError } from "../errors.ts";
import { formatDType } from "../format/dtype.ts";
import { stringifyJson } from "../format/json.ts";
import { pause } from "../store/pool.ts";
import type { StoreOptions } from "../store/types.ts";
import { type ArraySlice, slice, stridesOf, type ValueTypes } from "../values/selection.ts";
import { toValues } from "../values/values.ts";

/** Options of `follow`. */
export interface FollowOptions extends StoreOptions {
  /** First row (default 0). The length of the array yields only later rows. */
  readonly from?: number | undefined;
  /** Polling interval in milliseconds (default 1000). */
  readonly interval?: number | undefined;
}

/** Approximate bytes of a slice, if many rows are available. */
const SLICE_BYTES = 4 << 20;
/** Looks in a row that may fail because a writer is replacing files, and the milliseconds between them. */
const MAX_FAILURES = 20;
const SOON = 50;

/** Opens the array again. */
export type Reopen<Types extends ValueTypes> = (options: StoreOptions) => Promise<ReadableArray<Types>>;

/**
 * The rows of an array in order, in slices of whole rows, and then appended rows as they are committed. Ends when the signal is
 * aborted. `reopen` opens the array again if it cannot refresh itself.
 * @throws BAD_ARGUMENT for an array without dimensions; STALE if yielded rows are cut off, the last of them changed, or another array
 * took the place; and the codes of reading
 */
export async function* followRows<Types extends ValueTypes>(
  array: ReadableArray<Types>,
  reopen: Reopen<Types>,
  options: FollowOptions,
): AsyncGenerator<ArraySlice<Types>> {
  checkOptions(options, "from interval signal");
  const { from = 0, interval = 1000, signal } = options;
  if (typeof interval !== "number" || !(interval >= 0))
    throw badArgument("interval", interval, "milliseconds, 0 or more");
  if (!Number.isSafeInteger(from) || from < 0) throw badArgument("from row", from, "an integer, 0 or more");
  if (array.shape.length === 0) throw badArgument("follow", "an array without dimensions", "one with rows");
  const items = itemsOf(array);
  let current = array;
  let next = from;
  let last: Uint8Array | undefined;
  let failures = 0;
  let isNewer = false;
  const isZarr = array.dialect.startsWith("zarr");
  const isOver = (): boolean => signal?.aborted === true;
  /** Moves to the current state. Returns true if the array says that it is another one. */
  const moveOn = async (): Promise<boolean> => {
    if ("refresh" in current && typeof current.refresh === "function") return current.refresh({ signal });
    const before = current;
    current = await reopen({ signal });
    if (before !== array) await before.close();
    return false;
  };
  try {
    for (let looks = 0; !isOver(); looks++) {
      let lost: SuperchunkError | undefined;
      try {
        if (looks > 0 && (await moveOn())) isNewer = true;
        const [rows = 0, ...rowShape] = current.shape;
        const rowBytes = Math.max(1, elementsOf(rowShape) * current.dtype.itemSize);
        const step = Math.max(1, Math.floor(SLICE_BYTES / rowBytes));
        lost = await findLoss(current, { items, last, next, stop: next, isNewer }, signal);
        isNewer = false;
        while (next < rows && lost === undefined) {
          const stop = Math.min(rows, next + step);
          const bytes = await current.getBytes([slice(next, stop)], { signal });
          // A chunk that a writer of Zarr has removed reads as the fill value, so the rows must be there afterwards too.
          if (isZarr) {
            await moveOn();
            lost = await findLoss(current, { items, last, next, stop, isNewer }, signal);
            if (lost !== undefined) break;
          }
          last = bytes.slice(-rowBytes);
          const shape = [stop - next, ...rowShape];
          next = stop;
          const data = toValues(bytes, current.dtype, elementsOf(shape)) as Types["data"];
          yield { data, shape, stride: stridesOf(shape) };
        }
        failures = 0;
      } catch (error) {
        if (++failures > MAX_FAILURES || !mayPass(error)) throw error;
      }
      if (lost !== undefined) throw lost;
      await pause(failures > 0 ? SOON : interval, signal);
    }
  } catch (error) {
    if (!isOver()) throw error;
  } finally {
    if (current !== array) await current.close();
  }
}

interface Yielded {
  /** The dtype and the shape of a row. */
  readonly items: string;
  readonly last: Uint8Array | undefined;
  /** The first row that was not yielded, and the end of the rows that were read. */
  readonly next: number;
  readonly stop: number;
  /** True if there was a commit. */
  readonly isNewer: boolean;
}

/**
 * The error if rows up to `next` were yielded, and are not there any more, or if there are fewer than `stop`. Only arrays of superchunks count their
 * commits, so the last row is compared: a writer may cut rows off and append as many before the next look.
 */
async function findLoss(
  current: ReadableArray,
  yielded: Yielded,
  signal: AbortSignal | undefined,
): Promise<SuperchunkError | undefined> {
  const { items, last, next, stop, isNewer } = yielded;
  const path = current.store.describe(current.path);
  const stale = (what: string, field: string, expected: unknown, found: unknown): SuperchunkError =>
    new SuperchunkError("STALE", what, { path, field, expected, found });
  const found = itemsOf(current);
  if (items !== found) return stale("another array has taken its place", "dtype", items, found);
  const [rows = 0] = current.shape;
  if (rows < stop && (last !== undefined || stop > next))
    return stale(
      `${stop} rows were read, but the array has ${rows} now: its writer cut rows off`,
      "shape",
      stop,
      rows,
    );
  if (last === undefined || (rows === next && !isNewer)) return undefined;
  if (isEqual(last, await current.getBytes([slice(next - 1, next)], { signal }))) return undefined;
  return stale(
    `row ${next - 1} has changed since it was read: its writer set it, or cut rows off and appended others`,
    "values",
    next,
    rows,
  );
}

/** The dtype and the shape of a row. */
function itemsOf({ dtype, shape }: ReadableArray): string {
  return stringifyJson([formatDType(dtype), shape.slice(1)]);
}

/** True for an error that goes away if a writer is replacing files. Some programs write into the files that others read. */
function mayPass(error: unknown): boolean {
  return isSuperchunkError(error) && (error.code === "STALE" || error.isDamage);
}

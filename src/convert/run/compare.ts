/**
 * Compares a result with its source, value by value, in constant memory. Must not write.
 *
 * Chunks of an archive are compared with those of its shards, read by independent code, so that a fault of the writer is not
 * hidden. For a Zarr array, values are compared; if few objects are stored, only those that either array has. What neither
 * stores is the fill value, which is compared once, because an array can be larger than anyone can read. All other formats are
 * compared as streams of columns.
 */

import type { LongOptions } from "../../archive/kinds/types.ts";
import type { ChunkPlace } from "../../archive/places/sequence.ts";
import { at, elementsOf } from "../../bytes/arrays.ts";
import { decode, decodeHeader } from "../../codec/index.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { formatDType } from "../../format/dtype.ts";
import { stringifyJson } from "../../format/json.ts";
import type { DType } from "../../format/types.ts";
import type { ReadableStore } from "../../store/types.ts";
import { type ItemTransform, swapItems } from "../../values/copy-items.ts";
import { resolveSelection } from "../../values/selection.ts";
import { countPositions, shapeAt, startAt } from "../../zarr/document/chunk-grid.ts";
import { slabsOf, type ZarrArray } from "../../zarr/read/array.ts";
import { storedPositions } from "../../zarr/read/stored-chunks.ts";
import type { Region } from "../../zarr/write/shard-changes.ts";
import type { ColumnArray } from "../pipeline.ts";
import { type ArrayJob, bytesOfCell, cellSegments, type JobLayout } from "../plan/array-job.ts";
import { cellItems, indexSlot, shardCells } from "../plan/grid.ts";
import { placeFailure, recodedCells } from "../sources/chunk-source.ts";
import type { Column } from "../sources/columns.ts";
import { openShard, readShardChunks, shardKey } from "../targets/shard-files.ts";

/** What to do about values that differ. */
export const UNLESS_CHANGED = ". Convert again; if neither has changed since the conversion, report it";

/**
 * Compares an array with the source that it was made from; `path` names it in messages. Throws `BAD_FIELD` for the first byte
 * that differs, and for another type or shape.
 */
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
    throw new SuperchunkError("BAD_FIELD", `${field} is not that of the source${UNLESS_CHANGED}`, {
      path,
      field,
      expected,
      found: stored,
    });
  }
  await compareStreams(column, found.streamBytes({ signal }), path, signal);
}

/** Compares the bytes of an array, like {@link compareValues}. */
export async function compareStreams(
  column: Column,
  found: AsyncIterable<Uint8Array>,
  path: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  const at = await firstDifference(column.stream({ signal }), found);
  if (at !== undefined) throw differs(path, at, column.name === "" ? "on" : `on of column "${column.name}"`);
}

/** First byte in which two streams differ, regardless of how they are cut; undefined if they are the same. */
async function firstDifference(
  left: AsyncIterable<Uint8Array>,
  right: AsyncIterable<Uint8Array>,
): Promise<number | undefined> {
  const others = right[Symbol.asyncIterator]();
  let other: Uint8Array = new Uint8Array(0);
  let done = 0;
  const hasOther = async (): Promise<boolean> => {
    while (other.length === 0) {
      const next = await others.next();
      if (next.done === true) return false;
      other = next.value;
    }
    return true;
  };
  try {
    for await (const piece of left)
      for (let at = 0; at < piece.length; ) {
        if (other.length === 0 && !(await hasOther())) return done;
        const length = Math.min(piece.length - at, other.length);
        for (let i = 0; i < length; i++) if (piece[at + i] !== other[i]) return done + i;
        at += length;
        done += length;
        other = other.subarray(length);
      }
    return (await hasOther()) ? done : undefined;
  } finally {
    await others.return?.();
  }
}

/** `transform` turns the source's items into those of the copy. */
export interface ZarrComparison {
  readonly transform?: ItemTransform | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Throws `BAD_FIELD` if values of the copy or its fill value differ, and the codes of damage. */
export async function compareZarr(
  source: ZarrArray,
  copy: ZarrArray,
  { transform, signal }: ZarrComparison,
): Promise<void> {
  const path = copy.store.describe(copy.path);
  // A field that is a sub-array has dimensions of its own.
  const more = copy.shape.slice(source.shape.length);
  const compareBox = async (box: Region, where: string): Promise<void> => {
    const own = { start: [...box.start, ...more.map(() => 0)], shape: [...box.shape, ...more] };
    const at = await firstDifference(
      valuesIn(source, box, signal, transform),
      valuesIn(copy, own, signal, undefined),
    );
    if (at !== undefined) throw differs(path, at, `${where} on`);
  };
  const boxes = await storedBoxes([source, copy], signal);
  if (boxes === undefined)
    return compareBox({ start: source.shape.map(() => 0), shape: source.shape }, "of the values");
  const fill = inOrder(source, source.model.fillItem.slice(), transform);
  const other = inOrder(copy, copy.model.fillItem.slice(), undefined);
  const odd = fill.findIndex((byte, i) => byte !== other[i % other.length]);
  if (odd >= 0 || fill.length !== other.length * elementsOf(more))
    throw differs(path, Math.max(0, odd), "of the fill value on");
  for (const box of boxes) await compareBox(box, `of the chunk or shard at item ${box.start.join(", ")}`);
}

/** Parts that either array stores, within its shape; undefined if they are half of the grid or more. */
async function storedBoxes(
  arrays: readonly ZarrArray[],
  signal: AbortSignal | undefined,
): Promise<readonly Region[] | undefined> {
  const boxes = new Map<string, Region>();
  const rank = arrays[0]?.shape.length;
  for (const { store, model, shape } of arrays) {
    const most = countPositions(model.axes) / 2;
    for await (const position of storedPositions(store, model, signal)) {
      if ((await store.stat(model.chunkKey(position), { signal })) === undefined) continue;
      const start = startAt(model.axes, position).slice(0, rank);
      const reach = shapeAt(model.axes, position)
        .slice(0, rank)
        .map((length, d) => Math.min(length, at(shape, d) - at(start, d)));
      boxes.set([...start, ...reach].join(), { start, shape: reach });
      if (boxes.size >= most) return undefined;
    }
  }
  return [...boxes.values()];
}

/** The values of a part in C order, in the byte order that v3 has in memory. */
async function* valuesIn(
  array: ZarrArray,
  { start, shape }: Region,
  signal: AbortSignal | undefined,
  transform: ItemTransform | undefined,
): AsyncGenerator<Uint8Array> {
  const { chunkShape, dtype } = array;
  for (const { selection } of slabsOf({ shape, chunkShape, itemSize: dtype.itemSize })) {
    const extents = resolveSelection(selection, shape);
    const moved = extents.map((extent, d) => {
      const first = at(start, d) + extent.start;
      return { start: first, stop: first + extent.count, step: 1 };
    });
    yield inOrder(array, await array.getBytes(moved, { signal }), transform);
  }
}

/** In version 2, items in memory are as stored. */
function inOrder({ dtype }: ZarrArray, items: Uint8Array, transform: ItemTransform | undefined): Uint8Array {
  const [type, bytes] = transform === undefined ? [dtype, items] : [transform.target, transform.apply(items)];
  return isBigEndian(type) ? swapItems(bytes, type) : bytes;
}

/** True for big-endian items. All fields of a struct have one order, because others are transformed. */
export function isBigEndian(dtype: DType): boolean {
  return dtype.kind === "struct"
    ? dtype.fields.some((field) => isBigEndian(field.dtype))
    : dtype.byteOrder === "big";
}

function differs(path: string, offset: number, where: string): SuperchunkError {
  return new SuperchunkError(
    "BAD_FIELD",
    `the values differ from those of the source from byte ${offset} ${where}${UNLESS_CHANGED}`,
    { path, offset, field: "values" },
  );
}

/** Compares the values of one array, whose document need not exist yet. Returns the number of chunks. */
export async function verifyArray(
  job: ArrayJob,
  store: ReadableStore,
  prefix: string,
  { signal }: LongOptions,
): Promise<number> {
  const { layout } = job;
  if (layout === undefined) return 0;
  for (let shard = 0; shard < layout.shards.count; shard++) {
    const range = shardCells(layout.shards, shard);
    const own = signal ?? new AbortController().signal;
    const key = shardKey(prefix, job, layout, shard);
    const found = readShardBack(layout, shard, { store, key }, own);
    let cell = range.first;
    for await (const expected of expectedChunks(job, layout, range.first, range.end, own)) {
      const next = await found.next();
      const place = { path: store.describe(key), chunk: cell - range.first };
      if (next.done === true)
        throw new SuperchunkError("INCOMPLETE", "the chunk is absent from the shard; convert again", place);
      await compareChunk(
        expected,
        next.value,
        cellItems(layout.cells, cell) * job.type.itemSize,
        bytesOfCell(job, layout, cell),
        place,
      );
      cell++;
    }
    await found.return(undefined);
  }
  return layout.cells.count;
}

/** A source chunk: encoded as the archive has it, with its place, or decoded. */
type Expected = ({ readonly encoded: Uint8Array } & Source) | { readonly items: Uint8Array };

interface Source {
  readonly store: ReadableStore;
  readonly place: ChunkPlace;
}

async function* expectedChunks(
  job: ArrayJob,
  layout: JobLayout,
  first: number,
  end: number,
  signal: AbortSignal,
): AsyncGenerator<Expected> {
  const { archive } = job.source;
  for (const run of cellSegments(layout.copies, { first, end })) {
    if (run.chunk === undefined) {
      for await (const items of recodedCells(job, layout, run, signal)) yield { items };
      continue;
    }
    const last = run.chunk + run.end - run.first;
    for await (const { place, bytes } of archive.encodedChunks(run.chunk, last, { signal }))
      yield { encoded: bytes, store: archive.store, place };
  }
}

async function* readShardBack(
  layout: JobLayout,
  shard: number,
  { store, key }: { readonly store: ReadableStore; readonly key: string },
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  if (!layout.sharded) {
    const bytes = await store.get(key, { signal });
    if (bytes !== undefined) yield bytes;
    return;
  }
  const { first, end } = shardCells(layout.shards, shard);
  const open = await openShard(store, key, layout.shards.capacity, { signal });
  const slots = Array.from({ length: end - first }, (_, k) => indexSlot(layout.shards, k, layout.reversed));
  yield* readShardChunks(store, open, slots, { signal });
}

async function compareChunk(
  expected: Expected,
  found: Uint8Array,
  length: number,
  cellBytes: number,
  place: { path: string; chunk: number },
): Promise<void> {
  const header = decodeHeader(found, found.length);
  if (header.nbytes !== cellBytes) throw chunkDiffers(place, "nbytes", cellBytes, header.nbytes);
  if ("encoded" in expected && firstUnequal(expected.encoded, found, found.length) === undefined) {
    // The bytes are the same, so any damage in them was in the source.
    await placeFailure(expected.store, expected.place, decode(found, { expectedNbytes: cellBytes }));
    return;
  }
  const items =
    "items" in expected
      ? expected.items
      : await placeFailure(expected.store, expected.place, decode(expected.encoded));
  const decoded = await decode(found, { expectedNbytes: cellBytes }).catch((error: unknown) => {
    if (!isSuperchunkError(error)) throw error;
    // The chunk's place in its object is not known here.
    const { offset: _, ...details } = error.details;
    const summary = `${error.summary}; bytes count from the start of the chunk`;
    throw new SuperchunkError(error.code, summary, { ...details, ...place });
  });
  const at = firstUnequal(items, decoded, length);
  if (at !== undefined)
    throw chunkDiffers({ ...place, offset: at }, `byte ${at} of the decoded chunk`, items[at], decoded[at]);
}

/** The first of `length` bytes at which two runs differ, or undefined. */
function firstUnequal(a: Uint8Array, b: Uint8Array, length: number): number | undefined {
  if (a.length < length || b.length < length) return Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) if (a[i] !== b[i]) return i;
  return undefined;
}

function chunkDiffers(
  place: { path: string; chunk: number; offset?: number },
  field: string,
  expected: unknown,
  found: unknown,
): SuperchunkError {
  return new SuperchunkError(
    "BAD_FIELD",
    `the converted values differ from the source: ${field} is ${found}, expected ${expected}${UNLESS_CHANGED}`,
    { ...place, field, expected, found },
  );
}

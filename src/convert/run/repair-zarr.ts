/**
 * What is whole of a damaged Zarr array or group, in a copy. Chunks that cannot be read have the fill value there, as chunks
 * that are not stored; a shard whose index is damaged becomes what its last whole index names.
 */

import { flawOf, isFlaw } from "../../archive/salvage/chunk-check.ts";
import type { Hole } from "../../archive/salvage/hole.ts";
import { SuperchunkError } from "../../errors.ts";
import type { RowSpan } from "../../format/layout.ts";
import { mergeSpans } from "../../format/layout.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore, WritableStore } from "../../store/types.ts";
import type { Selection } from "../../values/selection.ts";
import type { ZarrArray } from "../../zarr/read/array.ts";
import { openZarr } from "../../zarr/read/open.ts";
import { openZarrWriter } from "../../zarr/write/create.ts";
import { recoverShard } from "../../zarr/write/recover-shard.ts";
import type { WritableZarrArray } from "../../zarr/write/writable-array.ts";

/** A chunk of an array that cannot be read. */
interface BadChunk {
  /** First item, by dimension. */
  readonly start: readonly number[];
  readonly hole: Hole;
}

/** What was found of an array. */
interface ZarrSurvey {
  /** Path below the node that was asked for. */
  readonly name: string;
  readonly array: ZarrArray;
  readonly bad: readonly BadChunk[];
  readonly whole: number;
}

/** Looks through the arrays at and below a node: reads every chunk. Throws `UNSUPPORTED` for grids of unequal chunks. */
export async function surveyZarr(
  store: ReadableStore,
  path: string,
  signal?: AbortSignal,
): Promise<readonly ZarrSurvey[]> {
  const surveys: ZarrSurvey[] = [];
  const visit = async (key: string, name: string): Promise<void> => {
    const node = await openZarr(store, key, { signal });
    if (node.kind === "array") surveys.push(await surveyOne(node, name, signal));
    else for (const member of await node.members()) await visit(joinKey(key, member), joinKey(name, member));
  };
  await visit(path, "");
  return surveys;
}

async function surveyOne(array: ZarrArray, name: string, signal?: AbortSignal): Promise<ZarrSurvey> {
  const { chunkShape } = await array.summary();
  const path = array.store.describe(array.path);
  if (chunkShape === undefined)
    throw new SuperchunkError(
      "UNSUPPORTED",
      "a grid of unequal chunks cannot be repaired; convert it first",
      { path },
    );
  const bad: BadChunk[] = [];
  let index = 0;
  for (const start of startsOf(array.shape, chunkShape)) {
    signal?.throwIfAborted();
    try {
      await array.getBytes(regionOf(array.shape, chunkShape, start), { signal });
    } catch (error) {
      if (!isFlaw(error)) throw error;
      const from = start[0] ?? 0;
      const to = Math.min(array.shape[0] ?? 1, from + (chunkShape[0] ?? 1));
      const column = name === "" ? {} : { column: name };
      bad.push({ start, hole: { ...column, chunk: index, from, to, ...flawOf(error, path) } });
    }
    index++;
  }
  return { name, array, bad, whole: index - bad.length };
}

/** The first items of all chunks, in C order. */
function* startsOf(shape: readonly number[], chunkShape: readonly number[]): Generator<number[]> {
  if (shape.includes(0)) return;
  const start = shape.map(() => 0);
  for (;;) {
    yield [...start];
    let axis = shape.length - 1;
    for (; axis >= 0; axis--) {
      const next = (start[axis] ?? 0) + (chunkShape[axis] ?? 1);
      start[axis] = next < (shape[axis] ?? 0) ? next : 0;
      if (start[axis] !== 0) break;
    }
    if (axis < 0) return;
  }
}

function regionOf(
  shape: readonly number[],
  chunkShape: readonly number[],
  start: readonly number[],
): Selection {
  return start.map((from, i) => ({
    start: from,
    stop: Math.min(shape[i] ?? 0, from + (chunkShape[i] ?? 1)),
    step: 1,
  }));
}

/** Copies the node, and makes what cannot be read chunks that are not stored. Resolves with the rows that read as fill values. */
export async function repairZarrInto(
  store: ReadableStore,
  path: string,
  surveys: readonly ZarrSurvey[],
  into: { readonly store: WritableStore; readonly path: string },
): Promise<{ readonly filled: readonly RowSpan[]; readonly bad: readonly Hole[] }> {
  for await (const _ of into.store.list(into.path))
    throw new SuperchunkError("CONFLICT", "the destination exists; name another", {
      path: into.store.describe(into.path),
    });
  await copyBelow(store, path, into.store, into.path);
  const left: Hole[] = [];
  for (const { name, bad } of surveys) {
    if (bad.length === 0) continue;
    const array = await openZarrWriter(into.store, joinKey(into.path, name));
    const { chunkShape = array.shape, shardShape } = await array.summary();
    for (const { start, hole } of bad) {
      const region = regionOf(array.shape, chunkShape, start);
      if (shardShape !== undefined && (await isBack(array, region, start, shardShape))) continue;
      left.push(hole);
      try {
        await array.fill(region);
      } catch (error) {
        const outer = shardShape ?? chunkShape;
        if (!isFlaw(error) || !isAllBad(array.shape, chunkShape, outer, bad, start)) throw error;
        // Nothing of the object can be read: without it, its chunks are chunks that are not stored.
        await into.store.delete(array.model.chunkKey(positionIn(start, outer)));
      }
    }
    await array.flush();
  }
  return { filled: mergeSpans(left), bad: left };
}

function positionIn(start: readonly number[], outer: readonly number[]): number[] {
  return start.map((from, i) => Math.floor(from / (outer[i] ?? 1)));
}

/** True where no chunk of the object that holds the one at `start` can be read. */
function isAllBad(
  shape: readonly number[],
  chunkShape: readonly number[],
  outer: readonly number[],
  bad: readonly BadChunk[],
  start: readonly number[],
): boolean {
  const position = positionIn(start, outer).join();
  const held = bad.filter((each) => positionIn(each.start, outer).join() === position).length;
  const needed = positionIn(start, outer).reduce((product, place, i) => {
    const length = outer[i] ?? 1;
    return product * Math.ceil(Math.min(length, (shape[i] ?? 0) - place * length) / (chunkShape[i] ?? 1));
  }, 1);
  return held === needed;
}

/** True where the shard's last whole index brings a chunk back. */
async function isBack(
  array: WritableZarrArray,
  region: Selection,
  start: readonly number[],
  shardShape: readonly number[],
): Promise<boolean> {
  const position = positionIn(start, shardShape);
  try {
    await recoverShard(array, position);
  } catch (error) {
    if (!isFlaw(error) && !(error instanceof SuperchunkError && error.code === "NOT_FOUND")) throw error;
  }
  try {
    await array.getBytes(region);
    return (await array.store.stat(array.model.chunkKey(position))) !== undefined;
  } catch (error) {
    if (isFlaw(error)) return false;
    throw error;
  }
}

const PIECE = 8 << 20;

async function copyBelow(
  store: ReadableStore,
  from: string,
  target: WritableStore,
  to: string,
): Promise<void> {
  for await (const { name, kind } of store.list(from)) {
    const [source, copy] = [joinKey(from, name), joinKey(to, name)];
    if (kind === "folder") {
      await copyBelow(store, source, target, copy);
      continue;
    }
    const size = (await store.stat(source))?.size ?? 0;
    async function* pieces(): AsyncGenerator<Uint8Array> {
      for (let offset = 0; offset < size; offset += PIECE) {
        const bytes = await store.getRange(source, { offset, length: Math.min(PIECE, size - offset) });
        if (bytes !== undefined) yield bytes;
      }
    }
    await target.put(copy, pieces());
  }
}

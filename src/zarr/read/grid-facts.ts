/** How a Zarr array is cut and compressed, and the numbers of its chunks. Knows models; must not read any chunk. */

import type { ReadableSummary } from "../../archive/kinds/types.ts";
import { at } from "../../bytes/at.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import { type Chain, leafOf, permute } from "../codecs/chain.ts";
import { countPositions, type GridAxis } from "../document/chunk-grid.ts";
import type { ArrayModel } from "../document/model.ts";

/** Shape of the smallest piece that is encoded by itself: an inner chunk, or a chunk; the first of unequal ones. */
export function chunkShapeOf({ chain, axes }: ArrayModel): readonly number[] {
  return innermostShape(
    chain,
    axes.map((axis) => at(axis.lengths, 0)),
  );
}

/** Shape of a shard, the first of unequal ones; undefined for an array without. */
export function shardShapeOf({ chain, axes }: ArrayModel): readonly number[] | undefined {
  if (chain.serializer.kind === "bytes") return undefined;
  return axes.map((axis) => at(axis.lengths, 0));
}

function innermostShape({ serializer, order }: Chain, shape: readonly number[]): readonly number[] {
  if (serializer.kind === "bytes") return shape;
  const inner = innermostShape(serializer.inner, serializer.chunkShape);
  if (order === undefined) return inner;
  const turned = [...inner];
  permute(
    shape.map((_, d) => d),
    order,
  ).forEach((dimension, i) => {
    turned[dimension] = at(inner, i);
  });
  return turned;
}

/** One dimension of the grid of (inner) chunks. */
interface ChunkAxis {
  readonly axis: GridAxis;
  /** Items of an inner chunk; undefined where chunks are those of the grid. */
  readonly length: number | undefined;
  /** Chunks. */
  readonly count: number;
}

function chunkAxes(model: ArrayModel): readonly ChunkAxis[] {
  if (shardShapeOf(model) === undefined)
    return model.axes.map((axis) => ({ axis, length: undefined, count: axis.count }));
  return chunkShapeOf(model).flatMap((length, d) => {
    const axis = model.axes[d];
    return axis === undefined ? [] : [{ axis, length, count: Math.ceil(axis.extent / length) }];
  });
}

/** (Inner) chunks of the grid, those included that are not stored. */
export function countChunks(model: ArrayModel): number {
  return chunkAxes(model).reduce((product, { count }) => product * count, 1);
}

/** Gives (inner) chunks their number in C order of the grid, by their first items. */
export function numberChunks(model: ArrayModel): (start: readonly number[]) => number {
  const axes = chunkAxes(model);
  return (start) =>
    axes.reduce((index, { axis, length, count }, d) => {
      const first = at(start, d);
      return index * count + (length === undefined ? axis.chunkOf(first) : first / length);
    }, 0);
}

/** How the array is cut and compressed, in the words of its document. */
export function summaryOf(model: ArrayModel): ReadableSummary {
  const { axes, shape, chain } = model;
  const chunkShape = chunkShapeOf(model);
  const shardShape = shardShapeOf(model);
  const unequal = axes.some(({ lengths }) => lengths.length > 1);
  const isCutByRows = chunkShape.slice(1).every((length, d) => length >= at(shape, d + 1));
  const { order, stages } = leafOf(chain);
  const codecs = [...(order === undefined ? [] : ["transpose"]), "bytes", ...stages.map(({ name }) => name)];
  const blosc = stages.find(({ isBlosc }) => isBlosc)?.v3?.["configuration"];
  const { cname = stages.findLast(({ name }) => name !== "crc32c")?.name, ...settings } = (blosc ??
    {}) as Pick<ReadableSummary, "cname" | "clevel" | "shuffle" | "typesize">;
  const { clevel, shuffle, typesize } = settings;
  return {
    nchunks: countChunks(model),
    ...(isCutByRows && !unequal && chunkShape[0] !== undefined ? { chunkLength: chunkShape[0] } : {}),
    chunkShape,
    ...(unequal ? { chunkShapes: gridOf(model.document) } : {}),
    ...(shardShape === undefined ? {} : { shardShape, nshards: countPositions(axes) }),
    ...(cname === undefined ? {} : { cname }),
    ...(clevel === undefined ? {} : { clevel }),
    ...(shuffle === undefined ? {} : { shuffle }),
    ...(typesize === undefined ? {} : { typesize }),
    codecs,
    checksum: codecs.includes("crc32c") ? "crc32c" : "None",
  };
}

function gridOf(document: JsonObject): JsonValue {
  const grid = document["chunk_grid"] as { readonly configuration?: JsonObject } | undefined;
  return grid?.configuration?.["chunk_shapes"] ?? null;
}

/** True where shards at any depth are compressed as a whole: such a shard is listed as one chunk. */
export function isShardCompressed({ serializer, stages }: Chain): boolean {
  return serializer.kind === "sharding" && (stages.length > 0 || isShardCompressed(serializer.inner));
}

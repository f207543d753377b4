/**
 * Several archives as one array: their chunks one behind the other along the first dimension.
 *
 * Regular where every chunk but the very last has the same rows; else a rectilinear grid, where that is asked for.
 * Must not know the forms in which references are written.
 */

import type { ArrayJob } from "../../convert/plan/array-job.ts";
import { SuperchunkError } from "../../errors.ts";
import { stringifyJson } from "../../format/json.ts";
import type { JsonObject } from "../../format/types.ts";
import type { LengthRun } from "../../zarr/document/unequal-cells.ts";
import { chunkShapeOf, withLengths } from "../../zarr/document/zarr-metadata.ts";
import { joinLinked } from "./join-linked.ts";
import { JoinedArray } from "./joined-array.ts";
import { LinkedArray } from "./linked-array.ts";
import { type ReferencePlan, rowsOf } from "./plan.ts";
import { PlannedArray, type ReferencedArray, type ReferenceOptions } from "./planned-array.ts";

/**
 * Joins the plans of several archives, in their order: arrays of the same path become one. All must have the same
 * arrays, of the same type, the same further dimensions and the same codecs.
 *
 * Throws `BAD_ARGUMENT` where they differ, `UNSUPPORTED` where a chunk in the middle is short and the grid is regular, or a
 * shard in the middle is not whole.
 */
export function joinPlans(plans: readonly ReferencePlan[], options: ReferenceOptions = {}): ReferencePlan {
  const [first, ...others] = plans;
  if (first === undefined)
    throw new SuperchunkError("BAD_ARGUMENT", "there are no archives to join", { field: "concat" });
  for (const other of others) {
    const own = other.arrays.map(({ node }) => node).join();
    const wanted = first.arrays.map(({ node }) => node).join();
    if (own === wanted) continue;
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `it has other arrays than ${first.source}, so that they cannot be joined`,
      { path: other.source, field: "concat", expected: wanted, found: own },
    );
  }
  return {
    source: first.source,
    node: first.node,
    groups: first.groups,
    arrays: first.arrays.map(({ node }, i) =>
      joinArrays(
        node,
        plans.flatMap(({ arrays }) => arrays[i] ?? []),
        options,
      ),
    ),
    notes: plans.flatMap(({ notes }) => notes),
  };
}

function joinArrays(
  node: string,
  arrays: readonly ReferencedArray[],
  options: ReferenceOptions,
): ReferencedArray {
  const [first] = arrays;
  if (first === undefined) throw new RangeError(`no arrays at ${node}`);
  for (const each of arrays) assertAlike(first, each);
  const linked = arrays.filter((each) => each instanceof LinkedArray);
  if (linked.length === arrays.length) return joinLinked(node, linked);
  const filled = arrays.filter(({ job }) => job.layout !== undefined);
  const rows = filled.flatMap(({ job }) => rowsOf(job).filter(({ times }) => times > 0));
  const regular = regularRows(rows);
  if (regular === undefined && options.rectilinear !== true) throw shortInTheMiddle(filled);
  const document = joinedDocument(first, arrays, options.rectilinear === true ? rows : regular);
  const parts: PlannedArray[] = [];
  let firstRow = 0;
  for (const [i, { job }] of filled.entries()) {
    const isLast = i === filled.length - 1;
    const cellRows = regular ?? job.layout?.cells.length ?? 1;
    const cellBytes = cellRows * (job.layout?.cells.inner ?? 1) * job.source.dtype.itemSize;
    const part = new PlannedArray(node, document, job, options, { firstRow, cellBytes, isLast });
    parts.push(part);
    firstRow += part.count;
  }
  return new JoinedArray(node, document, first.job, parts);
}

/** Rows of every chunk but the last, if they are the same and the last has no more. */
function regularRows(rows: readonly LengthRun[]): number | undefined {
  const [first] = rows;
  const last = rows.at(-1);
  if (first === undefined || last === undefined) return first?.length ?? 1;
  const same = rows.every((each) => each.length === first.length || (each === last && each.times === 1));
  return same && last.length <= first.length ? first.length : undefined;
}

function joinedDocument(
  first: ReferencedArray,
  arrays: readonly ReferencedArray[],
  rows: readonly LengthRun[] | number | undefined,
): JsonObject {
  const [, ...others] = first.document["shape"] as readonly number[];
  const length = arrays.reduce((sum, { document }) => sum + ((document["shape"] as number[])[0] ?? 0), 0);
  const { chunkDocument } = first.job;
  const [, ...chunk] = chunkShapeOf(chunkDocument);
  const regular = {
    ...first.document,
    shape: [length, ...others],
    chunk_grid: {
      name: "regular",
      configuration: { chunk_shape: [typeof rows === "number" ? rows : 1, ...chunk] },
    },
  };
  return typeof rows === "object" ? withLengths(regular, 0, rows) : regular;
}

/** Only the first dimension, and what says nothing about values, may differ. */
function assertAlike(first: ReferencedArray, other: ReferencedArray): void {
  const { job } = other;
  const { archive, shape } = job.source;
  const path = archive.store.describe(archive.path);
  const { layout } = job;
  if (shape.length === 0 || (layout !== undefined && (layout.cells.axis !== 0 || layout.reversed))) {
    throw new SuperchunkError(
      "UNSUPPORTED",
      "its chunks are not cut along the first dimension, so that it cannot be joined",
      { path, field: "concat" },
    );
  }
  for (const member of ["data_type", "fill_value", "codecs"]) {
    const wanted = stringifyJson(settled(first.job, member));
    const found = stringifyJson(settled(job, member));
    if (found === wanted) continue;
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `its ${member} differs from that of ${first.job.source.archive.store.describe(first.job.source.archive.path)}, so that they cannot be joined`,
      { path, field: member, expected: wanted, found },
    );
  }
  const inner = (array: ReferencedArray): string =>
    (array.document["shape"] as readonly number[]).slice(1).join();
  if (inner(first) !== inner(other)) {
    throw new SuperchunkError("BAD_ARGUMENT", "its further dimensions differ, so that it cannot be joined", {
      path,
      field: "shape",
      expected: inner(first),
      found: inner(other),
    });
  }
}

/** Members as they must agree: payloads tell their own compression, which may differ from chunk to chunk. */
function settled({ chunkDocument }: ArrayJob, member: string): JsonObject[string] {
  const value = chunkDocument[member] ?? null;
  if (member !== "codecs") return value;
  return (value as readonly JsonObject[]).filter(({ name }) => name !== "blosc");
}

function shortInTheMiddle(arrays: readonly ReferencedArray[]): SuperchunkError {
  const at = arrays.findIndex(({ job }, i) => {
    const last = rowsOf(job).at(-1);
    return i < arrays.length - 1 && last?.length !== arrays[0]?.job.layout?.cells.length;
  });
  const { archive } = (arrays[Math.max(0, at)] ?? arrays[0])?.job.source ?? {};
  return new SuperchunkError(
    "UNSUPPORTED",
    "its chunks have other rows than those of the archives before and behind it, and a regular grid has no short chunk in the middle; join with a rectilinear grid, or convert by copying",
    { path: archive?.store.describe(archive.path) ?? "", field: "concat" },
  );
}

/**
 * What referencing an archive comprises: documents, and the chunks of each array as a stream.
 *
 * Knows archives and Zarr's documents; must not know the forms in which references are written.
 */

import type { Archive } from "../../archive/kinds/types.ts";
import { requireSettled } from "../../archive/places/journal.ts";
import { at } from "../../bytes/at.ts";
import type { LayoutOptions } from "../../convert/pipeline.ts";
import type { ArrayJob } from "../../convert/plan/array-job.ts";
import { assertConvertible, type ConversionJobs, planJobs } from "../../convert/plan/conversion-jobs.ts";
import { cellItems, fullCellItems } from "../../convert/plan/grid.ts";
import { SuperchunkError } from "../../errors.ts";
import type { JsonObject } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { LengthRun } from "../../zarr/document/chunk-grid.ts";
import { withLengths } from "../../zarr/document/zarr-metadata.ts";
import { PlannedArray, type ReferencedArray, type ReferenceOptions } from "./planned-array.ts";

/** What decides what is referenced, and how. */
export interface PlanOptions
  extends ReferenceOptions,
    Pick<LayoutOptions, "portable" | "dtype" | "shape" | "dimensionNames" | "columns"> {
  /** Path of the archive's node in the result (default: its root). */
  readonly node?: string | undefined;
  /** True where other arrays may lie beside it in the result: then names of dimensions have lengths in them. */
  readonly isMember?: boolean | undefined;
}

/** An archive that is to be referenced. */
export interface ReferencePlan {
  /** How messages name the archive. */
  readonly source: string;
  /** Path of the archive's node. */
  readonly node: string;
  /** Documents of groups by path, the outermost first. */
  readonly groups: ReadonlyMap<string, JsonObject>;
  readonly arrays: readonly ReferencedArray[];
  readonly notes: readonly string[];
}

/**
 * Plans references to an archive: a Zarr v3 array, or a group with an array for each column. Reads metadata and the
 * first header of each array; the chunks' own headers are read as `arrays[i].chunks()` goes along.
 *
 * Throws `UNSUPPORTED` where the chunks of an array are not those of a Zarr array as they lie there.
 */
export async function planReferences(archive: Archive, options: PlanOptions = {}): Promise<ReferencePlan> {
  requireSettled(archive);
  const { portable, dimensionNames, columns, dtype, shape, signal, isMember } = options;
  const jobs = await planJobs(archive, {
    ...{ portable, dimensionNames, columns, dtype, shape, signal, isMember },
  });
  assertConvertible(jobs);
  for (const job of jobs.arrays) assertReferable(job);
  const node = options.node ?? "";
  const arrays = jobs.arrays.map((job) => {
    const path = joinKey(node, job.node);
    const named = job.chunkDocument;
    const document = options.rectilinear === true ? withLengths(named, 0, rowsOf(job)) : named;
    return new PlannedArray(path, hasShortChunk(job) ? document : named, job, options);
  });
  return {
    source: archive.store.describe(archive.path),
    node,
    groups: new Map([...jobs.groups].map(([path, document]) => [joinKey(node, path), document])),
    arrays,
    notes: notesOf(jobs),
  };
}

/** Throws `UNSUPPORTED` where chunks would have to be compressed again: that is a copy, not references. */
export function assertReferable({ recodes, source: { archive } }: ArrayJob): void {
  if (recodes === undefined) return;
  throw new SuperchunkError(
    "UNSUPPORTED",
    `its chunks cannot be referenced as they are: ${recodes}; convert the archive to Zarr`,
    { path: archive.store.describe(archive.path), field: "chunks" },
  );
}

/** Rows of each chunk along the first axis, where that is the axis that is cut. */
export function rowsOf({ layout, source }: ArrayJob): readonly LengthRun[] {
  if (layout === undefined || source.shape.length === 0) return [];
  const { cells, reversed } = layout;
  const isCutHere = cells.axis === 0 && (!reversed || source.shape.length === 1);
  const rows = at(source.shape, 0);
  if (!isCutHere) return [{ length: reversed ? rows : 1, times: reversed ? 1 : rows }];
  const last = cellItems(cells, cells.count - 1) / cells.inner;
  const whole = { length: cells.length, times: cells.count - 1 };
  return cells.count === 1 ? [{ length: last, times: 1 }] : [whole, { length: last, times: 1 }];
}

/** True where the last chunk has fewer rows than the others: only then a regular grid does not do. */
function hasShortChunk({ layout, source }: ArrayJob): boolean {
  if (layout === undefined || source.shape.length === 0 || layout.cells.axis !== 0) return false;
  const { cells, reversed } = layout;
  if (reversed && source.shape.length > 1) return false;
  return cellItems(cells, cells.count - 1) !== fullCellItems(cells);
}

function notesOf({ notes, arrays }: ConversionJobs): string[] {
  return [
    ...notes,
    ...arrays.flatMap((job) => job.notes.map((note) => (job.node === "" ? note : `${job.node}: ${note}`))),
  ];
}

/**
 * The chunks of one array as references: the place of each, and which are stored beside them.
 *
 * Headers are read and checked, payloads are not. Must not know the forms in which references are written.
 */

import type { Archive, ChunkInfo, ListChunksOptions } from "../../archive/kinds/types.ts";
import { requireSettled } from "../../archive/places/journal.ts";
import { at } from "../../bytes/arrays.ts";
import { checkOptions } from "../../bytes/check-options.ts";
import type { ChunkEncoder } from "../../codec/types.ts";
import type { LayoutOptions } from "../../convert/pipeline.ts";
import { type ArrayJob, bytesOfCell, fitOf, type JobLayout } from "../../convert/plan/array-job.ts";
import { assertConvertible, noteOn, planJobs } from "../../convert/plan/conversion-jobs.ts";
import { cellItems, cellPosition, fullCellItems } from "../../convert/plan/grid.ts";
import { tooFewChunks } from "../../convert/sources/chunk-source.ts";
import type { SourceArchive } from "../../convert/sources/source-array.ts";
import { SuperchunkError } from "../../errors.ts";
import { objectOf, stringifyJson } from "../../format/json.ts";
import { parseLayout } from "../../format/layout.ts";
import type { JsonObject } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { ObjectInfo } from "../../store/types.ts";
import { readCell } from "../../view/view.ts";
import type { LengthRun } from "../../zarr/document/chunk-grid.ts";
import { withLengths } from "../../zarr/document/make-v3.ts";
import type { Guard } from "../containers/guard.ts";
import {
  type GuardedObject,
  type LocatedObject,
  type ObjectScanOptions,
  ScannedObjects,
} from "./scanned-objects.ts";

const NEVER = new AbortController().signal;

/** Options of turning chunks into references. */
export interface ReferenceOptions extends ObjectScanOptions {
  /** References short last chunks as they are, in a grid that says so (default false: stored, padded). */
  readonly rectilinear?: boolean | undefined;
  /** Chunks of at most this many bytes are stored with the references (default 0). */
  readonly inline?: number | undefined;
  readonly encoder?: ChunkEncoder | undefined;
  /** Lists the chunks of the array at a node of the archive, for example from another process (default: its `listChunks`). */
  readonly listed?:
    | ((archive: SourceArchive, options: ListChunksOptions, node: string) => AsyncIterable<ChunkInfo>)
    | undefined;
}

/** The two documents of an array of Zarr v2. */
export interface Zarr2Documents {
  readonly zarray: JsonObject;
  readonly zattrs: JsonObject;
}

export interface ReferencedArray {
  /** Path of its node. */
  readonly node: string;
  readonly document: JsonObject;
  /** Name of its source in messages. */
  readonly source: string;
  /** Conversion job of an archive; absent for an array of an HDF5 file. */
  readonly job?: ArrayJob;
  /** Documents in Zarr v2, if they are not made from `document` and `job`. */
  readonly zarr2?: Zarr2Documents;
  readonly count: number;
  /** Some chunks of the grid are not stored and have the fill value (default false). */
  readonly hasHoles?: boolean;
  /** Yields the chunks from number `first`, in stored order. */
  chunks(counts: ReferenceCounts, first?: number): AsyncGenerator<PlannedChunk>;
  /** Returns the position of a chunk in the array's grid. */
  positionOf(cell: number): readonly number[];
  /** Returns the bytes of a chunk that a reader of the result must get. */
  sample(cell: number): Promise<Uint8Array>;
  /** Bytes at the end of a chunk that are sampled; absent: all. */
  readonly sampledBytes?: number;
  /** Checks again every object that chunks were found in. Throws `STALE` if one has changed meanwhile. */
  recheck(): AsyncGenerator<GuardedObject>;
  /** Counts the chunks of an earlier state; undefined if the document is not that of an earlier state. */
  chunksOf(before: JsonObject): number | undefined;
  /** Returns the number of the first chunk in the object that holds chunk `cell`: an append can have changed it. */
  firstInObject(cell: number): Promise<number>;
}

export interface ArchiveArray extends ReferencedArray {
  readonly job: ArrayJob;
}

/** The place of an archive's chunks in a joined array. */
interface JoinedPlace {
  /** Chunks of the array before them. */
  readonly firstRow: number;
  /** Uncompressed bytes of a whole chunk. */
  readonly cellBytes: number;
  readonly isLast: boolean;
}

/**
 * Number of chunks in the state of the array whose document was `before`; `count` is the number now. `rows` is the length of
 * a chunk along the first axis, if the array grows along it. Undefined if `before` is not an earlier state.
 */
export function grownChunks(
  before: JsonObject,
  now: JsonObject,
  count: number,
  rows: number | undefined,
): number | undefined {
  const members = new Set([...Object.keys(before), ...Object.keys(now)]);
  members.delete("shape");
  members.delete("attributes");
  members.delete("dimension_names"); // may contain the length
  for (const member of members)
    if (stringifyJson(before[member] ?? null) !== stringifyJson(now[member] ?? null)) return undefined;
  const grown = now["shape"] as readonly number[];
  const shape = before["shape"] as readonly number[] | undefined;
  if (!Array.isArray(shape) || shape.length !== grown.length) return undefined;
  if (shape.some((n, axis) => (axis === 0 ? n > at(grown, 0) : n !== grown[axis]))) return undefined;
  if (shape[0] === grown[0]) return count;
  return rows === undefined ? undefined : Math.ceil(at(shape, 0) / rows);
}

export function plannedArray(
  node: string,
  document: JsonObject,
  job: ArrayJob,
  options: ReferenceOptions,
  joined?: JoinedPlace,
): ArchiveArray {
  const { encoder, signal = NEVER, inline = 0, listed } = options;
  const { source, type } = job;
  const { archive } = source;
  /** Row of the array's grid at which this archive's chunks begin: not 0 in joined archives. */
  const firstRow = joined?.firstRow ?? 0;
  /** True if other archives follow in a rectilinear grid, which leaves no place for padding. */
  const mustFit = options.rectilinear === true && joined?.isLast === false;
  // Chunks of a rectilinear grid are as long as their rows.
  const unequal = (document["chunk_grid"] as { readonly name: string }).name === "rectilinear";
  const layout = job.layout && {
    ...job.layout,
    cellBytes: joined?.cellBytes ?? job.layout.cellBytes,
    unequal,
  };
  const scanned = new ScannedObjects(archive.store, options);
  const count = layout?.cells.count ?? 0;
  const list = (range: ListChunksOptions): AsyncIterable<ChunkInfo> =>
    listed?.(archive, range, job.node) ?? archive.listChunks(range);
  const whyNative = (cells: JobLayout, cell: number, info: ChunkInfo): NativeChunk["reason"] | undefined => {
    const fit = fitOf(job, cells, cell, info);
    if (fit !== "copied") return fit;
    return info.ctbytes <= inline ? "inlined" : undefined;
  };
  const read = (cells: JobLayout, cell: number): Promise<{ readonly bytes: Uint8Array }> =>
    readCell({ job, layout: cells, cell, signal, encoder });
  const position = ({ cells, reversed }: JobLayout, cell: number): number[] => {
    const stored = cellPosition(cells, cell);
    const own = source.shape.length === 0 ? [] : reversed ? stored.reverse() : stored;
    const [first = 0, ...rest] = own;
    const moved = own.length === 0 ? own : [first + firstRow, ...rest];
    return [...moved, ...type.itemShape.map(() => 0)];
  };
  const cutShort = ({ key, index, offset, ctbytes }: ChunkInfo, size: number): SuperchunkError => {
    return new SuperchunkError(
      "TRUNCATED",
      `the chunk at byte ${offset} takes ${ctbytes} bytes, but the file ends at byte ${size}. The file is truncated; look for a complete copy`,
      { path: archive.store.describe(key), chunk: index, offset, expected: offset + ctbytes, found: size },
    );
  };

  const unfit = ({ index, nbytes }: ChunkInfo): SuperchunkError => {
    return new SuperchunkError(
      "UNSUPPORTED",
      `it has ${nbytes} bytes, not those of its rows alone, and no grid has padding in the middle; convert by copying`,
      { path: archive.store.describe(archive.path), chunk: index, field: "concat" },
    );
  };

  return {
    node,
    document,
    source: archiveNameOf(job),
    job,
    count,
    async *chunks(counts, first = 0) {
      if (layout === undefined) return;
      scanned.clear();
      // Chunks come after their objects, but several objects may be reported before their chunks: one of them again for each run of
      // its chunks, if chunks of another object, which replace some of its own, are in between.
      const objects = new Map<string, { readonly object: LocatedObject; runs: number }>();
      const expect = (key: string, object: LocatedObject): void => {
        objects.set(key, { object, runs: (objects.get(key)?.runs ?? 0) + 1 });
      };
      const onObject = (key: string, info?: ObjectInfo): Promise<void> | void => {
        if (info === undefined) return scanned.look(key).then((object) => expect(key, object));
        expect(key, scanned.note(key, info));
      };
      let before: string | undefined;
      let cell = first;
      for await (const info of list({ first, end: count, digests: false, onObject, signal })) {
        const left = before === info.key ? undefined : objects.get(before ?? "");
        if (left !== undefined && --left.runs === 0) objects.delete(before ?? "");
        before = info.key;
        const object = objects.get(info.key)?.object;
        if (object === undefined) throw new RangeError("a chunk came before its object");
        const native = whyNative(layout, cell, info);
        if (native === undefined) {
          if (info.offset + info.ctbytes > object.size) throw cutShort(info, object.size);
          counts.virtual++;
          const { location, guard } = object;
          yield {
            kind: "virtual",
            node,
            index: position(layout, cell),
            location,
            guard,
            offset: info.offset,
            length: info.ctbytes,
          } satisfies ChunkReference;
        } else {
          if (mustFit && info.nbytes !== bytesOfCell(job, layout, cell)) throw unfit(info);
          counts[native]++;
          const { bytes } = await read(layout, cell);
          yield { kind: "native", node, index: position(layout, cell), bytes, reason: native };
        }
        cell++;
      }
      if (cell !== count) throw tooFewChunks(archive, count, cell);
    },
    positionOf(cell) {
      if (layout === undefined) throw new RangeError(`${node} has no chunks`);
      return position(layout, cell);
    },
    async sample(cell) {
      if (layout === undefined) throw new RangeError(`${node} has no chunks`);
      return (await read(layout, cell)).bytes;
    },
    recheck: () => scanned.recheck(),
    chunksOf(before) {
      const rows = layout?.cells.axis !== 0 || layout.reversed ? undefined : layout.cells.length;
      return grownChunks(before, document, count, rows);
    },
    async firstInObject(cell) {
      const keyOf = async (index: number): Promise<string> => {
        for await (const { key } of list({ first: index, end: index + 1, digests: false })) return key;
        throw tooFewChunks(archive, count, index);
      };
      if (cell <= 0) return 0;
      const wanted = await keyOf(cell);
      // Chunks of an object are consecutive.
      let low = 0;
      let high = cell;
      while (low < high) {
        const middle = (low + high) >> 1;
        if ((await keyOf(middle)) === wanted) high = middle;
        else low = middle + 1;
      }
      // What a writer set since may replace chunks of objects that are as they were.
      return Math.min(low, firstReplaced(archive));
    },
  };
}

/** The first chunk of an array of superchunks that one in another file replaces. @see FORMAT.md [FG-04] */
function firstReplaced(archive: SourceArchive): number {
  const { metadata } = archive as SourceArchive & Partial<Pick<Archive, "metadata">>;
  const { patches = [] } = parseLayout(objectOf(metadata?.["sizes"]), archive.path) ?? {};
  const replaced = patches.flatMap(({ chunks }) => chunks.filter((chunk) => chunk >= 0));
  return replaced.reduce((least, chunk) => Math.min(least, chunk), Number.POSITIVE_INFINITY);
}

/** Virtual references: the place of a Zarr array's chunk in an object that was not copied. Types only. */

/** A chunk inside an object. */
export interface ChunkReference {
  readonly kind: "virtual";
  /** Path of the array's node. */
  readonly node: string;
  /** Position in the array's grid of chunks, in axis order. */
  readonly index: readonly number[];
  /** URL of the object. */
  readonly location: string;
  /** Byte offset of the Blosc header in the object. */
  readonly offset: number;
  /** Bytes of the Blosc chunk without its digest. */
  readonly length: number;
  /** Undefined if guards were turned off. */
  readonly guard: Guard | undefined;
}

/** A chunk stored beside the references, because it was padded, recoded or small enough. */
export interface NativeChunk {
  readonly kind: "native";
  readonly node: string;
  readonly index: readonly number[];
  /** The Blosc chunk, owned by the receiver. */
  readonly bytes: Uint8Array;
  /** Why it is not referenced. */
  readonly reason: "padded" | "recoded" | "inlined";
}

/** One chunk of a plan. */
export type PlannedChunk = ChunkReference | NativeChunk;

/** Counts of the chunks that a plan has yielded. */
export interface ReferenceCounts {
  virtual: number;
  padded: number;
  recoded: number;
  inlined: number;
}

// A plan for referencing an archive: documents, and the chunks of each array as a stream.
//
// Knows archives and Zarr's documents; must not know the forms in which references are written.

/** Options of a reference plan. */
export interface PlanOptions
  extends ReferenceOptions,
    Pick<LayoutOptions, "portable" | "dtype" | "shape" | "dimensionNames" | "columns"> {
  /** Path of the archive's node in the result (default: its root). */
  readonly node?: string | undefined;
  /** True if the result may have other arrays beside it. Dimension names then include lengths. */
  readonly isMember?: boolean | undefined;
}

/** A member that cannot be referenced. */
export interface LeftMember {
  readonly node: string;
  readonly source: string;
  readonly error: SuperchunkError;
}

/** Plan of references to one archive. */
export interface ReferencePlan {
  /** Name in messages. */
  readonly source: string;
  /** Path of the archive's node. */
  readonly node: string;
  /** Documents of groups by path, the outermost first. */
  readonly groups: ReadonlyMap<string, JsonObject>;
  readonly arrays: readonly ReferencedArray[];
  /** Members that are left out, with the reason (default: none). */
  readonly left?: readonly LeftMember[];
  readonly notes: readonly string[];
}

/** Implements `planReferences` of the entry. */
export async function planReferences(archive: Archive, options: PlanOptions = {}): Promise<ReferencePlan> {
  checkOptions(
    options,
    "columns dimensionNames dtype encoder guard inline isMember listed locate node portable rectilinear shape signal",
  );
  requireSettled(archive);
  const { portable, dimensionNames, columns, dtype, shape, signal, isMember } = options;
  const jobs = await planJobs(archive, {
    portable,
    dimensionNames,
    columns,
    dtype,
    shape,
    signal,
    isMember,
  });
  assertConvertible(jobs);
  for (const job of jobs.arrays) assertReferable(job);
  const node = options.node ?? "";
  const arrays = jobs.arrays.map((job) => {
    const path = joinKey(node, job.node);
    const named = job.chunkDocument;
    const document = options.rectilinear === true ? withLengths(named, 0, rowsOfArray(job)) : named;
    return plannedArray(path, hasShortChunk(job) ? document : named, job, options);
  });
  return {
    source: archive.store.describe(archive.path),
    node,
    groups: new Map([...jobs.groups].map(([path, document]) => [joinKey(node, path), document])),
    arrays,
    notes: [...jobs.notes, ...jobs.arrays.flatMap((job) => job.notes.map((note) => noteOn(job.node, note)))],
  };
}

/** The name in messages of a job's archive. */
export function archiveNameOf({ source: { archive } }: ArrayJob): string {
  return archive.store.describe(archive.path);
}

/** Throws `UNSUPPORTED` if chunks would have to be recompressed, because that needs a copy. */
function assertReferable({ recodes, source: { archive } }: ArrayJob): void {
  if (recodes === undefined) return;
  throw new SuperchunkError(
    "UNSUPPORTED",
    `its chunks cannot be referenced as they are: ${recodes}; convert the archive to Zarr`,
    { path: archive.store.describe(archive.path), field: "chunks" },
  );
}

/** Rows of each chunk along the first axis, if the array is cut along it. */
export function rowsOfArray({ layout, source }: ArrayJob): readonly LengthRun[] {
  if (layout === undefined || source.shape.length === 0) return [];
  const { cells, reversed } = layout;
  const isCutHere = cells.axis === 0 && (!reversed || source.shape.length === 1);
  const rows = at(source.shape, 0);
  if (!isCutHere) return [{ length: reversed ? rows : 1, times: reversed ? 1 : rows }];
  const last = cellItems(cells, cells.count - 1) / cells.inner;
  const whole = { length: cells.length, times: cells.count - 1 };
  return cells.count === 1 ? [{ length: last, times: 1 }] : [whole, { length: last, times: 1 }];
}

/** True if the last chunk has fewer rows than the others, which a regular grid does not allow. */
function hasShortChunk({ layout, source }: ArrayJob): boolean {
  if (layout === undefined || source.shape.length === 0 || layout.cells.axis !== 0) return false;
  const { cells, reversed } = layout;
  if (reversed && source.shape.length > 1) return false;
  return cellItems(cells, cells.count - 1) !== fullCellItems(cells);
}

/**
 * The chunks of one array as references: where each lies, and which are stored beside them.
 *
 * Headers are read and checked, payloads are not. Must not know the forms in which references are written.
 */
import type { ChunkInfo } from "../../archive/kinds/types.ts";
import { at } from "../../bytes/at.ts";
import type { ChunkEncoder } from "../../codec/types.ts";
import { type ArrayJob, bytesOfCell, fitOf, type JobLayout } from "../../convert/plan/array-job.ts";
import { cellPosition } from "../../convert/plan/grid.ts";
import { SuperchunkError } from "../../errors.ts";
import { stringifyJson } from "../../format/json.ts";
import type { JsonObject } from "../../format/types.ts";
import type { ObjectInfo } from "../../store/types.ts";
import { readCell } from "../../view/view.ts";
import {
  type GuardedObject,
  type LocatedObject,
  ScannedObjects,
  type ScanOptions,
} from "./scanned-objects.ts";
import type { ChunkReference, PlannedChunk, ReferenceCounts } from "./types.ts";

const NEVER = new AbortController().signal;

/** How chunks become references. */
export interface ReferenceOptions extends ScanOptions {
  /** Short last chunks are referenced as they are, in a grid that says so (default false: stored filled up). */
  readonly rectilinear?: boolean | undefined;
  /** Chunks of at most this many bytes are stored with the references (default 0). */
  readonly inline?: number | undefined;
  readonly encoder?: ChunkEncoder | undefined;
}

/** An array that is referenced. */
export interface ReferencedArray {
  /** Path of its node. */
  readonly node: string;
  readonly document: JsonObject;
  readonly job: ArrayJob;
  /** Chunks of the array. */
  readonly count: number;
  /** The chunks from number `first` on, in the order in which they are stored. */
  chunks(counts: ReferenceCounts, first?: number): AsyncGenerator<PlannedChunk>;
  /** Position of a chunk in the array's grid. */
  positionOf(cell: number): readonly number[];
  /** The bytes of a chunk as a reader of the result must get them. */
  sample(cell: number): Promise<Uint8Array>;
  /** Where only so many bytes at the end of a chunk are sampled; absent: all. */
  readonly sampledBytes?: number;
  /** Looks at every object again that chunks were found in. Throws `STALE` where one has changed meanwhile. */
  recheck(): AsyncGenerator<GuardedObject>;
  /** Chunks that an earlier state had; undefined where its document is not that of an earlier state. */
  chunksOf(before: JsonObject): number | undefined;
  /** Number of the first chunk in the object that holds chunk `cell`: what an append can have changed. */
  firstInObject(cell: number): Promise<number>;
}

/** Where the chunks of an archive lie in an array that several are joined to. */
export interface JoinedPlace {
  /** Chunks of the array before them. */
  readonly firstRow: number;
  /** Uncompressed bytes of a whole chunk. */
  readonly cellBytes: number;
  readonly isLast: boolean;
}

/**
 * Chunks that the state of an array had whose document is `before`, of `count` now; `rows` of a chunk along the first
 * axis, where that is how the array grows. Undefined where it is not an earlier state.
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
  members.delete("dimension_names"); // they may have the length in them
  for (const member of members)
    if (stringifyJson(before[member] ?? null) !== stringifyJson(now[member] ?? null)) return undefined;
  const grown = now["shape"] as readonly number[];
  const shape = before["shape"] as readonly number[] | undefined;
  if (!Array.isArray(shape) || shape.length !== grown.length) return undefined;
  if (shape.some((n, axis) => (axis === 0 ? n > at(grown, 0) : n !== grown[axis]))) return undefined;
  if (shape[0] === grown[0]) return count;
  return rows === undefined ? undefined : Math.ceil(at(shape, 0) / rows);
}

/** An array of one archive. */
export class PlannedArray implements ReferencedArray {
  /** Path of its node. */
  readonly node: string;
  readonly document: JsonObject;
  readonly job: ArrayJob;
  /** Row of the array's grid at which this archive's chunks begin: not 0 where archives are joined. */
  readonly #firstRow: number;
  /** Others follow in a rectilinear grid: there is no place for padding. */
  readonly #mustFit: boolean;
  readonly #layout: JobLayout | undefined;
  readonly #options: ReferenceOptions;
  readonly #objects: ScannedObjects;

  constructor(
    node: string,
    document: JsonObject,
    job: ArrayJob,
    options: ReferenceOptions,
    joined?: JoinedPlace,
  ) {
    this.node = node;
    this.document = document;
    this.job = job;
    this.#options = options;
    this.#firstRow = joined?.firstRow ?? 0;
    this.#mustFit = options.rectilinear === true && joined?.isLast === false;
    // Cells of a rectilinear grid are as long as their rows.
    const unequal = (document["chunk_grid"] as { readonly name: string }).name === "rectilinear";
    this.#layout = job.layout && {
      ...job.layout,
      cellBytes: joined?.cellBytes ?? job.layout.cellBytes,
      unequal,
    };
    this.#objects = new ScannedObjects(job.source.archive.store, options);
  }

  /** Chunks of this archive in the array. */
  get count(): number {
    return this.#layout?.cells.count ?? 0;
  }

  /**
   * The chunks from number `first` on, in the order in which they are stored. Throws the codes of damage, and
   * `UNSUPPORTED` for objects that have no location or nothing to guard them by.
   */
  async *chunks(counts: ReferenceCounts, first = 0): AsyncGenerator<PlannedChunk> {
    const layout = this.#layout;
    if (layout === undefined) return;
    const { archive } = this.job.source;
    const { signal } = this.#options;
    this.#objects.clear();
    // Chunks come after their objects, and those of several objects may come at once.
    const objects = new Map<string, LocatedObject>();
    const onObject = (key: string, info?: ObjectInfo): Promise<void> | void => {
      if (info === undefined) return this.#objects.look(key).then((object) => void objects.set(key, object));
      objects.set(key, this.#objects.note(key, info));
    };
    let before: string | undefined;
    let cell = first;
    for await (const info of archive.listChunks({
      first,
      end: this.count,
      digests: false,
      onObject,
      signal,
    })) {
      if (before !== undefined && before !== info.key) objects.delete(before);
      before = info.key;
      const object = objects.get(info.key);
      if (object === undefined) throw new RangeError("a chunk came before its object");
      const native = this.#whyNative(layout, cell, info);
      if (native === undefined) {
        if (info.offset + info.ctbytes > object.size) throw this.#cutShort(info, object.size);
        counts.virtual++;
        const { location, guard } = object;
        yield {
          kind: "virtual",
          node: this.node,
          index: this.#position(layout, cell),
          location,
          guard,
          offset: info.offset,
          length: info.ctbytes,
        } satisfies ChunkReference;
      } else {
        if (this.#mustFit && info.nbytes !== bytesOfCell(this.job, layout, cell)) throw this.#unfit(info);
        counts[native]++;
        const { bytes } = await this.#read(layout, cell);
        yield { kind: "native", node: this.node, index: this.#position(layout, cell), bytes, reason: native };
      }
      cell++;
    }
    if (cell !== this.count) throw this.#missing(cell);
  }

  /** Position of a chunk in the array's grid. */
  positionOf(cell: number): readonly number[] {
    const layout = this.#layout;
    if (layout === undefined) throw new RangeError(`${this.node} has no chunks`);
    return this.#position(layout, cell);
  }

  /** The bytes of a chunk as a reader of the result must get them. */
  async sample(cell: number): Promise<Uint8Array> {
    const layout = this.#layout;
    if (layout === undefined) throw new RangeError(`${this.node} has no chunks`);
    return (await this.#read(layout, cell)).bytes;
  }

  /** Looks at every object again that chunks were found in. Throws `STALE` where one has changed meanwhile. */
  recheck(): AsyncGenerator<GuardedObject> {
    return this.#objects.recheck();
  }

  /**
   * Chunks that an earlier state of this array had, as its document says: those before are still the same chunks.
   * Undefined where the document is that of another array, or of one that was longer.
   */
  chunksOf(before: JsonObject): number | undefined {
    const layout = this.#layout;
    const rows = layout?.cells.axis !== 0 || layout.reversed ? undefined : layout.cells.length;
    return grownChunks(before, this.document, this.count, rows);
  }

  /** Number of the first chunk in the object that holds chunk `cell`: what an append can have changed. */
  async firstInObject(cell: number): Promise<number> {
    const { archive } = this.job.source;
    const keyOf = async (index: number): Promise<string> => {
      for await (const { key } of archive.listChunks({ first: index, end: index + 1, digests: false }))
        return key;
      throw this.#missing(index);
    };
    if (cell <= 0) return 0;
    const wanted = await keyOf(cell);
    // Chunks of an object follow one another.
    let low = 0;
    let high = cell;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((await keyOf(middle)) === wanted) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  #whyNative(layout: JobLayout, cell: number, info: ChunkInfo): "padded" | "recoded" | "inlined" | undefined {
    const fit = fitOf(this.job, layout, cell, info);
    if (fit !== "copied") return fit;
    return info.ctbytes <= (this.#options.inline ?? 0) ? "inlined" : undefined;
  }

  #read(layout: JobLayout, cell: number): Promise<{ readonly bytes: Uint8Array }> {
    const { encoder, signal = NEVER } = this.#options;
    return readCell({ job: this.job, layout, cell, signal, encoder });
  }

  #position({ cells, reversed }: JobLayout, cell: number): number[] {
    const { source, type } = this.job;
    const stored = cellPosition(cells, cell);
    const own = source.shape.length === 0 ? [] : reversed ? stored.reverse() : stored;
    const [first = 0, ...rest] = own;
    const moved = own.length === 0 ? own : [first + this.#firstRow, ...rest];
    return [...moved, ...type.itemShape.map(() => 0)];
  }

  #cutShort({ key, index, offset, ctbytes }: ChunkInfo, size: number): SuperchunkError {
    return new SuperchunkError(
      "TRUNCATED",
      `the chunk at byte ${offset} takes ${ctbytes} bytes, but the file ends at byte ${size}. The file is cut short; look for a whole copy`,
      {
        path: this.job.source.archive.store.describe(key),
        chunk: index,
        offset,
        expected: offset + ctbytes,
        found: size,
      },
    );
  }

  #unfit({ index, nbytes }: ChunkInfo): SuperchunkError {
    const { archive } = this.job.source;
    return new SuperchunkError(
      "UNSUPPORTED",
      `it has ${nbytes} bytes, not those of its rows alone, and no grid has padding in the middle; convert by copying`,
      { path: archive.store.describe(archive.path), chunk: index, field: "concat" },
    );
  }

  #missing(found: number): SuperchunkError {
    const { archive } = this.job.source;
    return new SuperchunkError(
      "INCOMPLETE",
      `${this.count} chunks are counted, but ${found} were found; run "superchunk verify"`,
      {
        path: archive.store.describe(archive.path),
        field: "nchunks",
        expected: this.count,
        found,
      },
    );
  }
}

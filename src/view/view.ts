/**
 * Archives shown as Zarr v3 without a copy: any store of archives becomes a store for zarrita.
 *
 * The documents are those of a conversion without shards; each chunk is copied from the archive. Knows one archive; trees are in
 * view-tree.ts.
 */

import type { Archive } from "../archive/kinds/types.ts";
import { at } from "../bytes/arrays.ts";
import { HERE } from "../codec/made.ts";
import type { ChunkEncoder } from "../codec/types.ts";
import type { LayoutOptions } from "../convert/pipeline.ts";
import { type ArrayJob, nbytesOf } from "../convert/plan/array-job.ts";
import { type JobOptions, planJobs } from "../convert/plan/conversion-jobs.ts";
import type { CellGrid } from "../convert/plan/grid.ts";
import { type ChunkWork, chunksOfCells } from "../convert/sources/chunk-source.ts";
import { badArgument, type ErrorCode, SuperchunkError } from "../errors.ts";
import type { JsonObject, JsonValue } from "../format/types.ts";
import { checkKey, checkRange, joinKey, partOf } from "../store/key.ts";
import type { StoreOptions } from "../store/types.ts";
import { consolidate, DOCUMENT, encodeDocument } from "../zarr/document/make-v3.ts";
import type { ZarrArray } from "../zarr/read/array.ts";
import type { ZarrGroup } from "../zarr/read/group.ts";

/**
 * Shows an opened archive as a Zarr v3 array, or a group with an array for each column, at the root of a store.
 *
 * Stored chunks are returned unchanged after a check of headers and digests. On request, a short last chunk is padded, and
 * chunks that do not end at rows are recompressed. Reads throw `UNSUPPORTED` for what Zarr cannot hold, and the codes of
 * damage. Works wherever the archive's store does, also in a browser.
 */
export function zarrView(archive: Viewable, options: ViewOptions = {}): ZarrView {
  const opened = assertArchive(archive);
  return singleView(() => planArchiveView(opened, options));
}

/** An opened archive, or a Zarr node, which is refused. */
export type Viewable = Archive | ZarrArray | ZarrGroup;

/** Throws `UNSUPPORTED` for what is not an archive. */
export function assertArchive(opened: Viewable): Archive {
  const { dialect } = Object(opened) as Viewable;
  if (typeof dialect !== "string")
    throw badArgument("the archive", opened, "what open resolves with, or a function that opens it");
  if (!dialect.startsWith("zarr") && dialect !== "hdf5" && dialect !== "blosc2") return opened as Archive;
  throw new SuperchunkError("UNSUPPORTED", "it is Zarr already; zarritaStore gives it to zarrita", {
    path: opened.store.describe(opened.path),
    expected: "an archive",
    found: dialect,
  });
}

/** The view of one archive, planned at the first key, which `begin` gets. */
export function singleView(begin: (key: string) => Promise<NodeView>): ZarrView {
  let planned: Promise<NodeView> | undefined;
  /** Plans at the first request, and again after a failure, because a network may recover. */
  const plan = (key: string): Promise<NodeView> => {
    planned ??= begin(key).catch((error: unknown) => {
      planned = undefined;
      throw error;
    });
    return planned;
  };
  return viewFrom(
    async (path, options) => (await plan(path)).get(path, options),
    async (path) => directNodes(await (await plan(DOCUMENT)).nodes(), path),
  );
}

/** A view, from what reads a path, and what lists the nodes directly under one. */
export function viewFrom(
  read: (path: string, options: ViewReadOptions) => Promise<Uint8Array | undefined>,
  list: (path: string, options: StoreOptions) => Promise<readonly ViewNode[]>,
): ZarrView {
  const get: ZarrView["get"] = async (key, options = {}) => {
    options.signal?.throwIfAborted();
    const path = parseViewKey(key);
    return path === undefined ? undefined : read(path, options);
  };
  return {
    get,
    getRange: (key, range, options = {}) => cutRange(key, range, get(key, options)),
    list: async (path = "", options = {}) => list(path, options),
  };
}

/** The path in a zarrita key, with or without a leading `/`; undefined if it is not a plain path. */
export function parseViewKey(key: string): string | undefined {
  const path = key.startsWith("/") ? key.slice(1) : key;
  try {
    checkKey(path);
  } catch {
    return undefined; // other paths name nothing here
  }
  return path;
}

/** A part of an object that is read whole. Throws `BAD_ARGUMENT` for an invalid range. */
async function cutRange(
  key: string,
  range: ViewRange,
  reading: Promise<Uint8Array | undefined>,
): Promise<Uint8Array | undefined> {
  reading.catch(() => undefined); // reported below, unless the range is wrong
  checkRange(range, key);
  const bytes = await reading;
  return bytes && partOf(bytes, range, key).slice();
}

/** The node at a path and those directly under it; none if the node is missing. */
export function directNodes(nodes: readonly ViewNode[], path: string): readonly ViewNode[] {
  const self = nodes.find((node) => node.path === path);
  if (self === undefined) return [];
  const prefix = path === "" ? "" : `${path}/`;
  const below = nodes.filter(
    (node) => node !== self && node.path.startsWith(prefix) && !node.path.slice(prefix.length).includes("/"),
  );
  return [self, ...below.sort((a, b) => (a.path < b.path ? -1 : 1))];
}

const NEVER = new AbortController().signal;

/** A shown node: objects by key, documents and nodes by path. */
export interface NodeView {
  get(key: string, options?: ViewReadOptions): Promise<Uint8Array | undefined>;
  documents(): Map<string, JsonObject> | Promise<Map<string, JsonObject>>;
  nodes(): readonly ViewNode[] | Promise<readonly ViewNode[]>;
}

/** How an archive is shown, and whether there are others beside it. */
export type PlanViewOptions = ViewOptions & Pick<JobOptions, "isMember">;

/** A planned archive: its structure is known, but only one header of its values was read. */
export interface ArchiveView extends NodeView {
  /** The documents of all readable nodes, by path; that of a group itself is at `""`. */
  documents(): Map<string, JsonObject>;
  /** The nodes, groups first. */
  nodes(): ViewNode[];
}

/** Plans an archive. Throws the errors of planning its conversion. */
export async function planArchiveView(
  archive: Archive,
  options: PlanViewOptions,
  made: MadeChunks = new MadeChunks(),
): Promise<ArchiveView> {
  const { portable, dtype, shape, dimensionNames, columns, isMember } = options;
  // Bytes need a type and a shape; archives with their own would refuse them.
  const given = archive.kind === "bytes" ? { dtype, shape } : {};
  const { groups, arrays, refused } = await planJobs(archive, {
    portable,
    dimensionNames,
    columns,
    isMember,
    ...given,
  });
  const jobs = new Map(arrays.map((job) => [job.node, job]));
  const errors = new Map(refused.map(({ node, error }) => [node, error]));
  const documents = (): Map<string, JsonObject> =>
    new Map([...groups, ...arrays.map(({ node, chunkDocument }) => [node, chunkDocument] as const)]);
  const documentOf = (node: string): Uint8Array | undefined => {
    const refusal = errors.get(node);
    if (refusal !== undefined) throw refusal;
    const array = jobs.get(node);
    if (array !== undefined) return encodeDocument(array.chunkDocument);
    const group = groups.get(node);
    return group && encodeGroup(node, group, documents());
  };
  const chunkOf = async (request: Omit<CellRequest, "encoder">): Promise<Uint8Array> => {
    const name = joinKey(request.job.node, String(request.cell));
    const known = made.find(name);
    if (known !== undefined) return known.slice();
    const { bytes, isMade } = await readCell({ ...request, encoder: options.encoder });
    if (isMade) made.keep(name, bytes.slice());
    return bytes;
  };
  return {
    documents,
    nodes() {
      const source = archive.store.describe(archive.path);
      return [
        ...[...groups.keys()].map((path): ViewNode => ({ path, kind: "group", source })),
        ...arrays.map(describeJob),
        ...refused.map(({ node, error }) => unreadableNode(node, source, error)),
      ];
    },
    async get(key, { signal = NEVER, buffers } = {}) {
      signal.throwIfAborted();
      const parts = key.split("/");
      if (parts.at(-1) === DOCUMENT) return documentOf(parts.slice(0, -1).join("/"));
      const at = parts.lastIndexOf("c");
      // A column may be named "c" too, so the innermost array is the chunk's.
      for (let end = at; end >= 0; end = end === 0 ? -1 : parts.lastIndexOf("c", end - 1)) {
        const job = jobs.get(parts.slice(0, end).join("/"));
        const cell = job && parseChunkKey(job, parts.slice(end));
        if (job?.layout !== undefined && cell !== undefined)
          return chunkOf({ job, layout: job.layout, cell, signal, buffers });
      }
      return undefined;
    },
  };
}

/** A node that cannot be read. */
export function unreadableNode(path: string, source: string, { message, code }: SuperchunkError): ViewNode {
  return { path, kind: "array", source, error: message, code };
}

/** The document of a group with those of all nodes below it. */
export function encodeGroup(
  path: string,
  group: JsonObject,
  documents: ReadonlyMap<string, JsonObject>,
): Uint8Array {
  const front = path === "" ? "" : `${path}/`;
  const below = [...documents].filter(([each]) => each !== path && each.startsWith(front));
  return encodeDocument(
    consolidate(
      group,
      below.map(([each, own]) => [each.slice(front.length), own]),
    ),
  );
}

function describeJob(job: ArrayJob): ViewNode {
  const { node, chunkDocument } = job;
  const { archive } = job.source;
  return {
    path: node,
    kind: "array",
    source: archive.store.describe(archive.path),
    shape: chunkDocument["shape"] as readonly number[],
    dataType: dtypeName(chunkDocument["data_type"]),
    nbytes: nbytesOf(job),
  };
}

/** The name of a data type in a document. */
export function dtypeName(type: JsonValue | undefined): string {
  if (typeof type === "string") return type;
  const name = (type as { readonly name?: JsonValue } | null | undefined)?.name;
  return typeof name === "string" ? name : "unknown";
}

/** Bytes of generated chunks to keep. */
const KEPT_BYTES = 32 * 1024 * 1024;

/** Caches bytes by name; the least recently used are dropped first. */
export class MadeChunks {
  readonly #chunks = new Map<string, Uint8Array>();
  #bytes = 0;

  /** The bytes, which must not be modified. */
  find(name: string): Uint8Array | undefined {
    const bytes = this.#chunks.get(name);
    if (bytes === undefined) return undefined;
    this.#chunks.delete(name);
    this.#chunks.set(name, bytes);
    return bytes;
  }

  keep(name: string, bytes: Uint8Array): void {
    if (bytes.length > KEPT_BYTES / 2 || this.#chunks.has(name)) return;
    this.#chunks.set(name, bytes);
    this.#bytes += bytes.length;
    for (const [oldest, { length }] of this.#chunks) {
      if (this.#bytes <= KEPT_BYTES) return;
      this.#chunks.delete(oldest);
      this.#bytes -= length;
    }
  }
}

/** A number in a Zarr key: without sign and leading zeros. */
const INDEX = /^(?:0|[1-9]\d{0,15})$/;

/** Number of the cell that a key names by its parts after the array's path; undefined if there is none. */
function parseChunkKey(job: ArrayJob, parts: readonly string[]): number | undefined {
  const { layout, source, type } = job;
  const [prefix, ...indices] = parts;
  const dimensions = source.shape.length;
  if (layout === undefined || prefix !== "c" || indices.length !== dimensions + type.itemShape.length)
    return undefined;
  if (!indices.every((text) => INDEX.test(text))) return undefined;
  const position = indices.map(Number);
  // Items are never cut, so their dimensions have one chunk.
  if (position.slice(dimensions).some((index) => index !== 0)) return undefined;
  if (dimensions === 0) return 0;
  const own = position.slice(0, dimensions);
  return cellAt(layout.cells, layout.reversed ? own.reverse() : own);
}

/** Number of the cell at a position in stored order; undefined outside of the grid. */
function cellAt(cells: CellGrid, position: readonly number[]): number | undefined {
  let cell = 0;
  for (const [axis, index] of position.entries()) {
    const count = axis < cells.axis ? at(cells.shape, axis) : axis === cells.axis ? cells.along : 1;
    if (index >= count) return undefined;
    cell = cell * count + index;
  }
  return cell;
}

interface ReadCell {
  readonly bytes: Uint8Array;
  /** True for a chunk that was padded or recompressed, not copied from the archive. */
  readonly isMade: boolean;
}

/** The chunk of an array to read, and how. */
interface CellRequest extends Pick<ChunkWork, "job" | "layout" | "signal" | "buffers"> {
  readonly cell: number;
  /** Default: the codec of this thread. */
  readonly encoder?: ChunkEncoder | undefined;
}

/**
 * The bytes of a chunk as a whole Zarr chunk, owned by the caller, or in one of the `buffers`, which is then removed from the
 * list. Checks headers and digests. A damaged or missing chunk throws, and is never shown as fill values.
 */
export async function readCell({ cell, encoder = HERE, ...request }: CellRequest): Promise<ReadCell> {
  const { job, buffers } = request;
  const counts = { copied: 0, padded: 0, recoded: 0, oddTypesize: 0 };
  const range = { first: cell, end: cell + 1 };
  const { readInto } = job.source.archive.store;
  for await (const bytes of chunksOfCells({ ...request, encoder, counts, onChunk: () => undefined }, range)) {
    const isMade = counts.copied === 0;
    // No other read uses its buffer, but that may be far larger, or belong to another owner.
    const isOwn =
      !isMade &&
      readInto !== undefined &&
      (buffers !== undefined || bytes.buffer.byteLength < 2 * bytes.length);
    return { bytes: isOwn ? bytes : bytes.slice(), isMade };
  }
  throw new RangeError(`cell ${cell} gave no chunk`);
}

/** Options of a view. */
export interface ViewOptions
  extends Pick<LayoutOptions, "portable" | "dtype" | "shape" | "dimensionNames" | "columns"> {
  /** Encodes chunks that cannot be shown unchanged (default: the calling thread). */
  readonly encoder?: ChunkEncoder | undefined;
}

/** Options of reading whole objects. */
export interface ViewReadOptions extends StoreOptions {
  /** Buffers to read into. One that holds returned bytes is removed from the list. For frequent reads. */
  readonly buffers?: Uint8Array[] | undefined;
}

/** A part of an object, in zarrita's form. */
export type ViewRange =
  | { readonly offset: number; readonly length: number }
  | { readonly suffixLength: number };

/** A node of a view. */
export interface ViewNode {
  /** Path in the view, without a leading `/`; `""` is the root. */
  readonly path: string;
  readonly kind: "array" | "group";
  /** Name of its archive in messages; absent for folders. */
  readonly source?: string;
  /** It belongs to a set of references, which have no Parquet files. */
  readonly isReferred?: boolean;
  /** In items; arrays only. */
  readonly shape?: readonly number[];
  /** Name of its Zarr data type; arrays only. */
  readonly dataType?: string;
  /** Uncompressed bytes; arrays only. */
  readonly nbytes?: number;
  /** Why it cannot be read, as text. It is then missing from groups' metadata. */
  readonly error?: string;
  /** The error's code. */
  readonly code?: ErrorCode;
}

/**
 * A store with the zarrita interface: keys start with `/`, a missing key is `undefined`, bytes belong to the caller. An existing object
 * that cannot be read throws a `SuperchunkError`; fill values never replace anything.
 */
export interface ZarrView {
  get(key: string, options?: ViewReadOptions): Promise<Uint8Array | undefined>;
  getRange(key: string, range: ViewRange, options?: StoreOptions): Promise<Uint8Array | undefined>;
  /** Lists the nodes directly under a path, itself first; none without a group or array. */
  list(path?: string, options?: StoreOptions): Promise<readonly ViewNode[]>;
}

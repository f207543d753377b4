/**
 * One archive as the nodes and objects of Zarr: documents made up, chunks from where they lie.
 *
 * Its documents are those of a conversion without shards. Knows one archive; must not know trees.
 */

import type { Archive } from "../archive/kinds/types.ts";
import type { ArrayJob } from "../convert/plan/array-job.ts";
import { type ConversionJobs, planJobs } from "../convert/plan/conversion-jobs.ts";
import type { SuperchunkError } from "../errors.ts";
import type { JsonObject, JsonValue } from "../format/types.ts";
import { joinKey } from "../store/key.ts";
import { nameDimensions } from "../zarr/document/metadata-fields.ts";
import { consolidate, encodeDocument } from "../zarr/document/zarr-metadata.ts";
import { parseChunkKey, readCell } from "./view-array.ts";
import type { ViewNode, ViewOptions, ViewReadOptions } from "./view-types.ts";

const NEVER = new AbortController().signal;

/** An archive that is planned: what it comprises is known, nothing of its values was read but a first header. */
export class ArchiveView {
  readonly #options: ViewOptions;
  readonly #jobs: ConversionJobs;
  readonly #arrays: ReadonlyMap<string, ArrayJob>;
  readonly #refused: ReadonlyMap<string, SuperchunkError>;
  readonly #documents: ReadonlyMap<string, JsonObject>;
  readonly #made = new MadeChunks();

  private constructor(jobs: ConversionJobs, options: ViewOptions) {
    this.#options = options;
    this.#jobs = jobs;
    this.#arrays = new Map(jobs.arrays.map((job) => [job.node, job]));
    this.#documents = nameDocuments(jobs);
    this.#refused = new Map(jobs.refused.map(({ node, error }) => [node, error]));
  }

  /** Plans an archive. Throws what planning its conversion throws. */
  static async plan(archive: Archive, options: ViewOptions, signal?: AbortSignal): Promise<ArchiveView> {
    const { portable, dtype, shape, dimensionNames, columns } = options;
    // Bytes have a type and a shape to be given; archives that know their own refuse it.
    const given = archive.kind === "bytes" ? { dtype, shape } : {};
    const jobs = await planJobs(archive, { portable, dimensionNames, columns, signal, ...given });
    return new ArchiveView(jobs, options);
  }

  /** The documents of all nodes that can be read, by path; the group's own, if it is one, is at `""`. */
  documents(): Map<string, JsonObject> {
    return new Map([...this.#jobs.groups, ...this.#documents]);
  }

  /** The nodes, the groups first. */
  nodes(): ViewNode[] {
    const { archive, groups, arrays, refused } = this.#jobs;
    const source = archive.store.describe(archive.path);
    return [
      ...[...groups.keys()].map((path): ViewNode => ({ path, kind: "group", source })),
      ...arrays.map(describeJob),
      ...refused.map(
        ({ node, error }): ViewNode => ({
          path: node,
          kind: "array",
          source,
          error: error.message,
          code: error.code,
        }),
      ),
    ];
  }

  /** The bytes of an object, the caller's own; undefined where there is none. */
  async get(key: string, { signal, buffers }: ViewReadOptions = {}): Promise<Uint8Array | undefined> {
    signal?.throwIfAborted();
    const parts = key.split("/");
    if (parts.at(-1) === "zarr.json") return this.#document(parts.slice(0, -1).join("/"));
    const at = parts.lastIndexOf("c");
    // A column may be named "c" too: the innermost node that is an array has the chunk.
    for (let end = at; end >= 0; end = end === 0 ? -1 : parts.lastIndexOf("c", end - 1)) {
      const job = this.#arrays.get(parts.slice(0, end).join("/"));
      const cell = job && parseChunkKey(job, parts.slice(end));
      if (job?.layout !== undefined && cell !== undefined)
        return this.#chunk(job, cell, signal ?? NEVER, buffers);
    }
    return undefined;
  }

  #document(node: string): Uint8Array | undefined {
    const refusal = this.#refused.get(node);
    if (refusal !== undefined) throw refusal;
    const array = this.#documents.get(node);
    if (array !== undefined) return encodeDocument(array);
    const group = this.#jobs.groups.get(node);
    if (group === undefined) return undefined;
    const below = new Map<string, JsonObject>();
    for (const [path, document] of this.documents()) {
      if (path === node || !(node === "" || path.startsWith(`${node}/`))) continue;
      below.set(node === "" ? path : path.slice(node.length + 1), document);
    }
    return encodeDocument(consolidate(group, below));
  }

  async #chunk(
    job: ArrayJob,
    cell: number,
    signal: AbortSignal,
    buffers: Uint8Array[] | undefined,
  ): Promise<Uint8Array> {
    const { layout } = job;
    if (layout === undefined) throw new RangeError(`${job.node} has no chunks`);
    const name = joinKey(job.node, String(cell));
    const made = this.#made.find(name);
    if (made !== undefined) return made.slice();
    const { bytes, isMade } = await readCell({
      job,
      layout,
      cell,
      signal,
      encoder: this.#options.encoder,
      buffers,
    });
    if (isMade) this.#made.keep(name, bytes.slice());
    return bytes;
  }
}

/** The documents of the arrays, with names for dimensions that have none; an array at the root has the archive's name. */
function nameDocuments({ archive, arrays, groups }: ConversionJobs): Map<string, JsonObject> {
  const own = archive.path.split("/").at(-1) ?? "";
  return new Map(
    arrays.map(({ node, chunkDocument }) => [
      node,
      nameDimensions(chunkDocument, node || own, groups.size > 0),
    ]),
  );
}

function describeJob({ node, source, chunkDocument }: ArrayJob): ViewNode {
  const { archive } = source;
  return {
    path: node,
    kind: "array",
    source: archive.store.describe(archive.path),
    shape: chunkDocument["shape"] as readonly number[],
    dataType: typeName(chunkDocument["data_type"]),
    nbytes: archive.nbytes,
  };
}

function typeName(type: JsonValue | undefined): string {
  if (typeof type === "string") return type;
  const name = (type as { readonly name?: JsonValue } | null | undefined)?.name;
  return typeof name === "string" ? name : "unknown";
}

/** Bytes of made chunks that are kept. */
const KEPT_BYTES = 32 * 1024 * 1024;

/** Remembers bytes by a name; what was asked for longest ago is forgotten first. */
class MadeChunks {
  readonly #chunks = new Map<string, Uint8Array>();
  #bytes = 0;

  /** The bytes, which must not be written. */
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

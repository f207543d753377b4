/**
 * A Zarr node that is not stored as files of its own (in a set of references) shown as Zarr v3: documents as a conversion would
 * write them, and stored chunks, if Zarr v3 can express their codecs.
 *
 * Knows one node and everything below it; must not know sets.
 */
import { encodeHere } from "../codec/index.ts";
import type { TaskContext } from "../convert/pipeline.ts";
import { planZarrJobs, type ZarrArrayJob } from "../convert/plan/zarr-jobs.ts";
import { objectRun } from "../convert/targets/zarr-objects.ts";
import type { SuperchunkError } from "../errors.ts";
import type { JsonObject } from "../format/types.ts";
import { joinKey } from "../store/key.ts";
import { MemoryStore } from "../store/memory.ts";
import { encodeDocument } from "../zarr/document/make-v3.ts";
import { DOCUMENT, parseDocument } from "../zarr/document/metadata-v3.ts";
import type { ZarrArray } from "../zarr/read/array.ts";
import type { ZarrGroup } from "../zarr/read/group.ts";
import { encodeGroup, typeName, type ViewNode, type ViewOptions, type ViewReadOptions } from "./view.ts";

/** An array, and the keys of its objects. */
interface ShownArray {
  readonly job: ZarrArrayJob;
  /** Key of the object at a position. */
  keyOf(position: readonly number[]): string;
}

/** A Zarr node and everything below it as Zarr v3, under the same paths. */
export class NodesView {
  readonly #encoder: TaskContext["encoder"];
  readonly #arrays: ReadonlyMap<string, ShownArray>;
  readonly #groups: ReadonlyMap<string, JsonObject>;
  readonly #failed: ReadonlyMap<string, { readonly source: string; readonly error: SuperchunkError }>;
  readonly #source: string;

  private constructor(
    { arrays, groups, failed, plan }: Awaited<ReturnType<typeof planZarrJobs>>,
    encoder: TaskContext["encoder"],
  ) {
    this.#encoder = encoder;
    this.#arrays = new Map(arrays.map((job) => [job.path, shown(job)]));
    this.#groups = new Map(groups.map(({ path, document }) => [path, document]));
    this.#failed = new Map(failed.map(({ path, ...why }) => [path, why]));
    this.#source = plan.source;
  }

  /** Plans a node and everything below it, from its documents. */
  static async plan(
    node: ZarrArray | ZarrGroup,
    { encoder = encodeHere, isMember }: Pick<ViewOptions, "encoder"> & { readonly isMember?: boolean },
  ): Promise<NodesView> {
    return new NodesView(await planZarrJobs(node, { isMember }), encoder);
  }

  /** The documents of all readable nodes, by path. */
  documents(): Map<string, JsonObject> {
    const arrays = [...this.#arrays].map(([path, { job }]) => [path, job.document] as const);
    return new Map([...this.#groups, ...arrays]);
  }

  /** The nodes, groups first. */
  nodes(): ViewNode[] {
    const source = this.#source;
    return [
      ...[...this.#groups.keys()].map(
        (path): ViewNode => ({ path, kind: "group", source, isReferred: true }),
      ),
      ...[...this.#arrays].map(
        ([path, { job }]): ViewNode => ({
          path,
          kind: "array",
          source,
          isReferred: true,
          shape: job.document["shape"] as readonly number[],
          dataType: typeName(job.document["data_type"]),
          nbytes: job.nbytes,
        }),
      ),
      ...[...this.#failed].map(
        ([path, { source: own, error }]): ViewNode => ({
          path,
          kind: "array",
          source: own,
          error: error.message,
          code: error.code,
        }),
      ),
    ];
  }

  /** The bytes of an object, owned by the caller; undefined if there is none. Throws the errors of reading it. */
  async get(key: string, { signal }: ViewReadOptions = {}): Promise<Uint8Array | undefined> {
    signal?.throwIfAborted();
    const parts = key.split("/");
    if (parts.at(-1) === DOCUMENT) return this.#document(parts.slice(0, -1).join("/"));
    // A node may have the name of a part of a chunk key, so the innermost array is the chunk's.
    for (let end = parts.length - 1; end >= 0; end--) {
      const array = this.#arrays.get(parts.slice(0, end).join("/"));
      if (array === undefined) continue;
      const position = parts.slice(end).join("/").match(/\d+/g)?.map(Number) ?? [];
      const { node, itemShape } = array.job;
      const isWhole = position.length === node.shape.length + itemShape.length;
      if (!isWhole || array.keyOf(position) !== key) return undefined;
      return this.#object(array.job, key, position.slice(0, node.shape.length), signal);
    }
    return undefined;
  }

  #document(path: string): Uint8Array | undefined {
    const failure = this.#failed.get(path);
    if (failure !== undefined) throw failure.error;
    const group = this.#groups.get(path);
    if (group === undefined) {
      const array = this.#arrays.get(path);
      return array && encodeDocument(array.job.document);
    }
    return encodeGroup(path, group, this.documents());
  }

  async #object(
    job: ZarrArrayJob,
    key: string,
    part: readonly number[],
    signal: AbortSignal | undefined,
  ): Promise<Uint8Array | undefined> {
    const { model, store: source } = job.node;
    const isCopy = model.chain.serializer.kind === "bytes" || model.dialect === "zarr3";
    if (job.recoding === undefined && isCopy) return source.get(model.chunkKey(part), { signal });
    const counts = { copied: 0, padded: 0, recoded: 0, oddTypesize: 0 };
    const store = new MemoryStore();
    const ignore = (): void => undefined;
    const context = { store, encoder: this.#encoder, signal, counts, advance: ignore, note: ignore };
    const isThere = await objectRun(job, "").run({ key, part, nbytes: 0 }, context);
    return isThere === false ? undefined : store.get(key);
  }
}

function shown(job: ZarrArrayJob): ShownArray {
  const model = parseDocument(job.document, job.path, joinKey(job.path, DOCUMENT));
  if ("consolidated" in model) throw new TypeError("the document of an array is that of a group");
  return { job, keyOf: (position) => model.chunkKey(position) };
}

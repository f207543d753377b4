/**
 * A Zarr node that is not stored as files of its own (in a set of references) shown as Zarr v3: documents as a conversion would
 * write them, and stored chunks, if Zarr v3 can express their codecs.
 *
 * Knows one node and everything below it; must not know sets.
 */
import { encodeHere } from "../codec/index.ts";
import { planZarrJobs, type ZarrArrayJob } from "../convert/plan/zarr-jobs.ts";
import { objectRun } from "../convert/targets/zarr-objects.ts";
import type { JsonObject } from "../format/types.ts";
import { joinKey } from "../store/key.ts";
import { MemoryStore } from "../store/memory.ts";
import { parseKeyEncoding } from "../zarr/document/chunk-grid.ts";
import { DOCUMENT, encodeDocument } from "../zarr/document/make-v3.ts";
import type { ZarrArray } from "../zarr/read/array.ts";
import type { ZarrGroup } from "../zarr/read/group.ts";
import {
  dtypeName,
  encodeGroup,
  type NodeView,
  unreadableNode,
  type ViewNode,
  type ViewOptions,
} from "./view.ts";

/** A Zarr node and everything below it as Zarr v3, under the same paths. Planned from its documents. */
export async function planNodesView(
  node: ZarrArray | ZarrGroup,
  { encoder = encodeHere, isMember }: Pick<ViewOptions, "encoder"> & { readonly isMember?: boolean },
): Promise<NodeView> {
  const { plan, ...jobs } = await planZarrJobs(node, { isMember });
  const { source } = plan;
  const field = "chunk_key_encoding";
  /** Each array, and the keys of its objects by position. */
  const arrays = new Map(
    jobs.arrays.map((job) => {
      const place = { path: joinKey(job.path, DOCUMENT), field };
      return [job.path, { job, keyOf: parseKeyEncoding(job.path, job.document[field], place) }];
    }),
  );
  const groups = new Map(jobs.groups.map(({ path, document }) => [path, document]));
  const failed = new Map(jobs.failed.map(({ path, error }) => [path, error]));
  const documents = (): Map<string, JsonObject> =>
    new Map([...groups, ...jobs.arrays.map(({ path, document }) => [path, document] as const)]);
  const documentOf = (path: string): Uint8Array | undefined => {
    const failure = failed.get(path);
    if (failure !== undefined) throw failure;
    const group = groups.get(path);
    if (group !== undefined) return encodeGroup(path, group, documents());
    const array = arrays.get(path);
    return array && encodeDocument(array.job.document);
  };
  const objectOf = async (
    job: ZarrArrayJob,
    key: string,
    part: readonly number[],
    signal: AbortSignal | undefined,
  ): Promise<Uint8Array | undefined> => {
    const { model, store: stored } = job.node;
    const isCopy = model.chain.serializer.kind === "bytes" || model.dialect === "zarr3";
    if (job.recoding === undefined && isCopy) return stored.get(model.chunkKey(part), { signal });
    const counts = { copied: 0, padded: 0, recoded: 0, oddTypesize: 0 };
    const store = new MemoryStore();
    const ignore = (): void => undefined;
    const context = { store, encoder, signal, counts, advance: ignore, note: ignore };
    const isThere = await objectRun(job, "").run({ key, part, nbytes: 0 }, context);
    return isThere ? store.get(key) : undefined;
  };
  return {
    documents,
    nodes: () => [
      ...[...groups.keys()].map((path): ViewNode => ({ path, kind: "group", source, isReferred: true })),
      ...jobs.arrays.map(
        ({ path, document, nbytes }): ViewNode => ({
          path,
          kind: "array",
          source,
          isReferred: true,
          nbytes,
          shape: document["shape"] as readonly number[],
          dataType: dtypeName(document["data_type"]),
        }),
      ),
      ...jobs.failed.map(({ path, source: own, error }) => unreadableNode(path, own, error)),
    ],
    /** Throws the errors of reading the object. */
    async get(key, { signal } = {}) {
      signal?.throwIfAborted();
      const parts = key.split("/");
      if (parts.at(-1) === DOCUMENT) return documentOf(parts.slice(0, -1).join("/"));
      // A node may have the name of a part of a chunk key, so the innermost array is the chunk's.
      for (let end = parts.length - 1; end >= 0; end--) {
        const array = arrays.get(parts.slice(0, end).join("/"));
        if (array === undefined) continue;
        const position = parts.slice(end).join("/").match(/\d+/g)?.map(Number) ?? [];
        const { node: own, itemShape } = array.job;
        const isWhole = position.length === own.shape.length + itemShape.length;
        if (!isWhole || array.keyOf(position) !== key) return undefined;
        return objectOf(array.job, key, position.slice(0, own.shape.length), signal);
      }
      return undefined;
    },
  };
}

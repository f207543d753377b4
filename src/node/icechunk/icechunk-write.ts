/** Writes references to archives into an Icechunk repository, as one commit, and reads samples back. */
import type * as Icechunk from "@earthmover/icechunk";
import { SuperchunkError } from "../../errors.ts";
import { objectOf } from "../../format/json.ts";
import { keepFloats } from "../../format/json-float.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import { type Container, Containers } from "../../references/containers/containers.ts";
import type { ReferredSource } from "../../references/containers/guard.ts";
import {
  isClosed,
  notReadBack,
  type ReferenceResult,
  ReferenceSet,
  sampleArrays,
} from "../../references/kerchunk/write-kerchunk.ts";
import type { PlannedChunk, ReferencedArray, ReferencePlan } from "../../references/plan/plan.ts";
import type { StreamSettings } from "../../references/plan/reference-stream.ts";
import { joinKey } from "../../store/key.ts";
import { encodeDocument } from "../../zarr/document/make-v3.ts";
import { keepContainers } from "../references.ts";
import {
  CommitDraft,
  explainIcechunk,
  openRepository,
  PART,
  type RepositoryOptions,
  toIcechunkLocation,
} from "./icechunk.ts";

/** References passed in one call; a part has a whole number of calls. */
const BATCH = 1000;

/** Options of a commit of references. */
export interface IcechunkOptions extends RepositoryOptions, Pick<StreamSettings, "onFailure"> {
  /** Adds to an existing repository: new archives, and rows appended to known ones (default: `CONFLICT`). */
  readonly update?: boolean | undefined;
  /** With `update`: also replaces references to chunks of known archives whose files were changed (default false). */
  readonly renew?: boolean | undefined;
  /** The columns of tables, if not all of them are referred to. */
  readonly columns?: readonly string[] | undefined;
  /** Returns the sources of the references, once all are written. */
  readonly sources?: (() => readonly ReferredSource[]) | undefined;
  /** Commit message. */
  readonly message?: string | undefined;
  readonly branch?: string | undefined;
}

/** What was committed. */
export interface IcechunkResult extends ReferenceResult {
  readonly snapshot: string;
  /** Chunks that an update left unchanged. */
  readonly kept: number;
}

/**
 * Writes references to archives into a repository. The branch changes only when all of them are written, every object was
 * checked again, Icechunk has found a container for each, and samples were read back.
 *
 * Throws `CONFLICT` for an existing repository, unless `update`, and if another writer was faster; `UNSAFE_PATH` for objects
 * outside of the containers; `STALE` if an object has changed.
 */
export async function writeIcechunk(
  plans: AsyncIterable<ReferencePlan>,
  location: string,
  options: IcechunkOptions,
): Promise<IcechunkResult> {
  const containers: readonly Container[] = [...new Containers(options.containers)];
  const purpose = options.update === true ? "update" : "create";
  const repository = await openRepository(location, purpose, { ...options, containers });
  const draft = await CommitDraft.begin(repository, options.branch ?? "main").catch((error: unknown) => {
    throw explainIcechunk(error, location);
  });
  try {
    const set = new ReferenceSet(plans, containers);
    const writer = writeReferences(draft, location, options.renew === true, options.columns !== undefined);
    const firstOf = (array: ReferencedArray): Promise<number> => writer.firstOf(array);
    for await (const item of set.items({ firstOf, onFailure: options.onFailure })) {
      if (item.kind === "group") await writer.putGroup(item.node, item.document);
      else if (item.kind === "array") await writer.begin(item.array, item.first);
      else if (item.kind === "virtual" || item.kind === "native") await writer.add(item);
    }
    await writer.flush();
    const snapshot = await draft.finish(options.message ?? `Refer to ${set.arrays.length} arrays`);
    const { store } = await repository.readonlySession({ snapshotId: snapshot });
    const read = async (
      { node, sampledBytes }: ReferencedArray,
      index: readonly number[],
    ): Promise<Uint8Array | undefined> => {
      const key = joinKey(node, "c", ...index.map(String));
      const bytes =
        sampledBytes === undefined
          ? await store.get(key)
          : await store.getRange(key, { suffixLength: sampledBytes });
      return bytes ?? undefined;
    };
    const closed = [...set.used].find(
      (each) => isClosed(each) && options.credentials?.[each.credentials ?? ""] === undefined,
    );
    const sampled = closed === undefined ? await sampleArrays(set.arrays, read, options.onFailure) : 0;
    await keepContainers(location, containers, options.sources?.());
    await draft.publish(snapshot);
    await draft.end();
    const result = set.result();
    const notes = [...result.notes, ...writer.notes, ...(closed === undefined ? [] : [notReadBack(closed)])];
    return { ...result, notes, containers, sampled, snapshot, kept: writer.kept() };
  } catch (error) {
    // The first error matters, not a failure to clean up after it.
    await draft.end().catch(() => undefined);
    throw explainIcechunk(error, location);
  }
}

/** The columns of a table, by the names of their nodes. */
function columnsOf(document: JsonObject): readonly string[] {
  const order = objectOf(document["attributes"])["column_order"];
  const names = Array.isArray(order) ? (order as readonly JsonValue[]) : [];
  return names.filter((name) => typeof name === "string").filter((name) => /^(?!\.+$)[^/]+$/.test(name));
}

/** Writes documents and chunks into a draft, many references at a time. `where`: the repository in messages; `hasSome`: not all columns of tables. */
function writeReferences(draft: CommitDraft, where: string, refersAgain: boolean, hasSome: boolean) {
  /** Chunks that were left unchanged. */
  let kept = 0;
  let node = "";
  let batch: Icechunk.VirtualChunkSpec[] = [];
  /** Arrays whose chunks in the repository must all be replaced. */
  const replaced = new WeakSet<ReferencedArray>();
  /** References in the current part. */
  let pending = 0;

  /** Writes the pending references. Icechunk does not throw for references without a container, but lists them. */
  async function flush(): Promise<void> {
    const full = batch;
    if (full.length === 0) return;
    batch = [];
    pending += full.length;
    const failed = await draft.store.setVirtualRefs(`/${node}`, full, true);
    const [first] = failed ?? [];
    if (failed === null || first === undefined) return;
    const chunk = full.find(({ index }) => index.join() === first.join());
    throw new SuperchunkError(
      "UNSAFE_PATH",
      `Icechunk refused ${failed.length} references: no container of the repository has ${chunk?.location ?? "their location"}. Nothing was committed`,
      { path: where, field: "container", expected: 0, found: failed.length },
    );
  }

  async function putDocument(path: string, document: JsonObject): Promise<void> {
    await draft.store.set(joinKey(path, "zarr.json"), Buffer.from(encodeDocument(document)));
  }

  const notes: string[] = [];
  return {
    kept: () => kept,
    notes,
    flush,
    /** Writes the document of a group. Of a table, columns that are gone are removed if all references are replaced, else noted and listed. */
    async putGroup(path: string, document: JsonObject): Promise<void> {
      const stored = await draft.store.get(joinKey(path, "zarr.json"));
      const now = columnsOf(document);
      const before =
        stored === null || now.length === 0
          ? []
          : columnsOf(JSON.parse(new TextDecoder().decode(stored)) as JsonObject);
      // Without a column in common, another table has been added to the group.
      const isSame = !hasSome && before.some((name) => now.includes(name));
      const gone = isSame ? before.filter((name) => !now.includes(name)) : [];
      if (refersAgain) for (const name of gone) await draft.store.deleteDir(joinKey(path, name));
      else if (gone.length > 0) {
        const table = path === "" ? "the table" : path;
        notes.push(
          `columns of the repository that ${table} no longer has: ${gone.join(", ")}; with --overwrite, an update removes them`,
        );
        const attributes = objectOf(document["attributes"]);
        const listed = keepFloats({ ...attributes, column_order: [...now, ...gone] }, attributes);
        return putDocument(path, { ...document, attributes: listed });
      }
      return putDocument(path, document);
    },
    /** Number of the first chunk of an array that must be referenced again. */
    async firstOf(array: ReferencedArray): Promise<number> {
      const stored = await draft.store.get(joinKey(array.node, "zarr.json"));
      if (stored === null) return 0;
      const known = refersAgain
        ? undefined
        : array.chunksOf(JSON.parse(new TextDecoder().decode(stored)) as JsonObject);
      if (known === undefined) replaced.add(array);
      // An append to the last object changes its guard: its chunks must be referenced again, but not those before it.
      return known === undefined || known === 0 ? 0 : array.firstInObject(known - 1);
    },
    /** Writes the document of an array; its chunks from number `first` on follow. */
    async begin(array: ReferencedArray, first: number): Promise<void> {
      await flush();
      if (replaced.has(array)) await draft.store.deleteDir(array.node);
      await putDocument(array.node, array.document);
      kept += first;
    },
    async add(chunk: PlannedChunk): Promise<void> {
      if (chunk.kind === "native") {
        const key = joinKey(chunk.node, "c", ...chunk.index.map(String));
        await draft.store.set(key, Buffer.from(chunk.bytes));
        return;
      }
      if (chunk.node !== node || batch.length >= BATCH) await flush();
      if (pending >= PART) {
        pending = 0;
        await draft.endPart();
      }
      node = chunk.node;
      const { location, offset, length, guard } = chunk;
      // An ETag of a local file would never match, and times are compared in whole seconds.
      const etag = location.startsWith("file:") ? undefined : guard?.etag;
      batch.push({
        index: [...chunk.index],
        location: toIcechunkLocation(location),
        offset,
        length,
        ...(etag === undefined ? {} : { etagChecksum: etag }),
        ...(etag !== undefined || guard?.lastModified === undefined
          ? {}
          : { lastModified: new Date(guard.lastModified * 1000) }),
      });
    },
  };
}

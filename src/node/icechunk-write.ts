/** Writes references to archives into an Icechunk repository, as one commit, and reads samples back. */
import type * as Icechunk from "@earthmover/icechunk";
import { encodeDocument } from "../bridge/convert.ts";
import {
  type Container,
  Containers,
  type PlannedChunk,
  type ReferencedArray,
  type ReferencePlan,
  type ReferenceResult,
  ReferenceSet,
  sampleArrays,
} from "../bridge/references/index.ts";
import { SuperchunkError } from "../errors.ts";
import type { JsonObject } from "../format/types.ts";
import { joinKey } from "../store/key.ts";
import { explainIcechunk, openRepository } from "./icechunk.ts";
import { type RepositoryOptions, toIcechunkLocation } from "./icechunk-options.ts";

/** References that are handed over in one call. */
const BATCH = 20_000;

/** How references are committed. */
export interface IcechunkOptions extends RepositoryOptions {
  /** Add to a repository that is there: new archives, and what was appended to known ones (default: `CONFLICT`). */
  readonly update?: boolean | undefined;
  /** Of the commit. */
  readonly message?: string | undefined;
  readonly branch?: string | undefined;
}

/** What was committed. */
export interface IcechunkResult extends ReferenceResult {
  readonly snapshot: string;
  /** Chunks that an update left as they were. */
  readonly kept: number;
}

/**
 * Writes references to archives into a repository. The commit is made when all of them are there, every object was
 * compared again, and Icechunk has found a container for each.
 *
 * Throws `CONFLICT` for a repository that is there, unless `update`; `UNSAFE_PATH` for objects outside of the
 * containers; `STALE` where an object changed meanwhile. Nothing is committed then.
 */
export async function writeIcechunk(
  plans: AsyncIterable<ReferencePlan>,
  location: string,
  options: IcechunkOptions,
): Promise<IcechunkResult> {
  const containers: readonly Container[] = [...new Containers(options.containers)];
  const { repository, isNew } = await openRepository(location, "if-absent", { ...options, containers });
  if (!isNew && options.update !== true) {
    throw new SuperchunkError(
      "CONFLICT",
      "there is an Icechunk repository already; update it, or take another folder",
      {
        path: location,
      },
    );
  }
  const branch = options.branch ?? "main";
  try {
    const session = await repository.writableSession(branch);
    const set = new ReferenceSet(plans, containers);
    const writer = new SessionWriter(session.store, location);
    for await (const item of set.items((array) => writer.firstOf(array))) {
      if (item.kind === "group") await writer.putDocument(item.node, item.document);
      else if (item.kind === "virtual" || item.kind === "native") await writer.add(item);
    }
    await writer.flush();
    const snapshot = await session.commit(options.message ?? `Refer to ${set.arrays.length} arrays`);
    const { store } = await repository.readonlySession({ snapshotId: snapshot });
    const sampled = await sampleArrays(set.arrays, async ({ node }, index) => {
      const bytes = await store.get(joinKey(node, "c", ...index.map(String)));
      return bytes ?? undefined;
    });
    return { ...set.result(), containers, sampled, snapshot, kept: writer.kept };
  } catch (error) {
    throw explainIcechunk(error, location);
  }
}

/** Puts documents and chunks into a session, many references at a time. */
class SessionWriter {
  /** Chunks that were left as they were. */
  kept = 0;
  readonly #store: Icechunk.Store;
  readonly #location: string;
  #node = "";
  #batch: Icechunk.VirtualChunkSpec[] = [];

  constructor(store: Icechunk.Store, location: string) {
    this.#store = store;
    this.#location = location;
  }

  /** Puts an array's document in place. Resolves with the first chunk that must be referenced anew. */
  async firstOf(array: ReferencedArray): Promise<number> {
    await this.flush();
    const key = joinKey(array.node, "zarr.json");
    const stored = await this.#store.get(key);
    const before = stored === null ? undefined : (JSON.parse(new TextDecoder().decode(stored)) as JsonObject);
    const known = before === undefined ? 0 : array.chunksOf(before);
    if (before !== undefined && known === undefined) await this.#store.deleteDir(array.node);
    await this.putDocument(array.node, array.document);
    // What was appended to the last object changes its guard: its chunks are referenced anew, those before it are not.
    const first = known === undefined || known === 0 ? 0 : await array.firstInObject(known - 1);
    this.kept += first;
    return first;
  }

  async putDocument(node: string, document: JsonObject): Promise<void> {
    await this.#store.set(joinKey(node, "zarr.json"), Buffer.from(encodeDocument(document)));
  }

  async add(chunk: PlannedChunk): Promise<void> {
    if (chunk.kind === "native") {
      const key = joinKey(chunk.node, "c", ...chunk.index.map(String));
      await this.#store.set(key, Buffer.from(chunk.bytes));
      return;
    }
    if (chunk.node !== this.#node || this.#batch.length >= BATCH) await this.flush();
    this.#node = chunk.node;
    const { location, offset, length, guard } = chunk;
    // An ETag of a local file would never match; a time is compared in whole seconds.
    const etag = location.startsWith("file:") ? undefined : guard?.etag;
    this.#batch.push({
      index: [...chunk.index],
      location: toIcechunkLocation(location),
      offset,
      length,
      ...(etag === undefined ? {} : { etagChecksum: etag }),
      ...(etag !== undefined || guard?.lastModified === undefined
        ? {}
        : { lastModified: new Date(guard.lastModified * 1000) }),
    });
  }

  /** Hands over what is left. Icechunk throws nothing for references without a container: it lists them. */
  async flush(): Promise<void> {
    const batch = this.#batch;
    if (batch.length === 0) return;
    this.#batch = [];
    const failed = await this.#store.setVirtualRefs(`/${this.#node}`, batch, true);
    const [first] = failed ?? [];
    if (failed === null || first === undefined) return;
    const chunk = batch.find(({ index }) => index.join() === first.join());
    throw new SuperchunkError(
      "UNSAFE_PATH",
      `Icechunk took ${failed.length} references not: no container of the repository has ${chunk?.location ?? "their location"}. Nothing was committed`,
      { path: this.#location, field: "container", expected: 0, found: failed.length },
    );
  }
}

/** `openReferences` for paths and addresses: kerchunk sets and Icechunk repositories. */

import type * as Icechunk from "@earthmover/icechunk";
import { checkOptions } from "../bytes/check-options.ts";
import { SuperchunkError } from "../errors.ts";
import type { ContainerCredentials, ContainerOptions } from "../references/containers/container-reader.ts";
import {
  type Container,
  type ContainerChanges,
  Containers,
  formatContainers,
  storeOf,
} from "../references/containers/containers.ts";
import type { ReferredSource } from "../references/containers/guard.ts";
import {
  chunkFileAt,
  containersKey,
  joinContainers,
  keptContainers,
  type OpenReferencesOptions,
  openIndex,
  openReferences as openSet,
  type ReferenceStore,
} from "../references/kerchunk/open-references.ts";
import { joinKey } from "../store/key.ts";
import type { ObjectInfo, ReadableStore, WritableStore } from "../store/types.ts";
import { parseViewKey } from "../view/view.ts";
import { openRemoteContainer } from "./buckets/address.ts";
import { FileStore } from "./fs/fs-store.ts";
import {
  explainIcechunk,
  fromIcechunkLocation,
  openRepository,
  REFER_AGAIN,
  type RepositoryOptions,
} from "./icechunk/icechunk.ts";
import { closeOnFailure, closing, locateBeside, locateTarget, pathOf } from "./locate.ts";

/** Options of opening references at a path. */
export interface OpenPathReferencesOptions
  extends OpenReferencesOptions,
    Omit<RepositoryOptions, "containers" | "credentials"> {
  /** Form of the references at the path (default: `kerchunk`, JSON or Parquet). */
  readonly form?: "kerchunk" | "icechunk" | undefined;
  /** For Icechunk: branch (default `main`). */
  readonly branch?: string | undefined;
}

/**
 * Opens references at a path or an address as a zarrita store, with their guards enforced.
 *
 * Reads only the containers passed, and those kept beside a kerchunk set that `authorize` names. Throws `NOT_FOUND`, `BAD_FIELD`,
 * `UNSUPPORTED`. Reads throw `UNSAFE_PATH` for objects outside the authorised containers, and `STALE` for an object that has changed.
 */
export async function openReferences(
  location: string,
  options: OpenPathReferencesOptions = {},
): Promise<ReferenceStore> {
  checkOptions(
    options,
    "allow anonymous authorize branch containers credentials endpoint form openContainer redirects region signal",
  );
  if (options.form === "icechunk") return openIcechunk(location, options);
  const { store, path } = await locateBeside(location);
  const references = await closeOnFailure(store, openSet(store, path, { openContainer, ...options }));
  return {
    containers: references.containers,
    get: (key, reading) => references.get(key, reading),
    getRange: (key, range, reading) => references.getRange(key, range, reading),
    sizeOf: (key, reading) => references.sizeOf(key, reading),
    async close() {
      await references.close();
      await store.close?.();
    },
  };
}

/** Opens a container's store: a folder, a bucket, or one over HTTP. */
export function openContainer(
  container: Container,
  credentials: ContainerCredentials | undefined,
  options: ContainerOptions = {},
): ReadableStore {
  const { store, prefix, location } = container;
  if (store !== "local") return openRemoteContainer(container, credentials, options);
  return new FileStore(pathOf(location ?? prefix));
}

async function openIcechunk(
  location: string,
  { containers: given, authorize = [], allow = [], branch = "main", ...options }: OpenPathReferencesOptions,
): Promise<ReferenceStore> {
  const isKept = authorize.length > 0 || allow.length > 0;
  const kept = isKept ? (await withPlace(location, (place) => keptAt(place, true))).containers : [];
  const joined = joinContainers(kept, { containers: given, authorize, allow });
  const containers = new Containers([...joined.containers].filter(({ name }) => joined.authorized.has(name)));
  const repository = await openRepository(location, "read", { ...options, containers });
  const session = await repository.readonlySession({ branch }).catch((error: unknown) => {
    throw explainIcechunk(error, location);
  });
  const { store, snapshotId } = session;
  const stores = new Map<string, Promise<ReadableStore>>();
  const openNamed = (name: string): Promise<ReadableStore> => {
    const container = containers.get(name);
    const own =
      container.credentials === undefined ? undefined : options.credentials?.[container.credentials];
    const opened =
      stores.get(name) ?? Promise.resolve(openContainer(container, own, { redirects: options.redirects }));
    stores.set(name, opened);
    return opened;
  };
  const failed = { repository, branch, snapshotId, containers, openContainer: openNamed };
  const read = async (key: string, call: (path: string) => Promise<Uint8Array | null>) => {
    const path = parseViewKey(key);
    if (path === undefined) return undefined;
    try {
      const bytes = await call(path);
      return bytes === null ? undefined : Uint8Array.from(bytes);
    } catch (error) {
      throw await explainRead(error, location, path, failed);
    }
  };
  return {
    containers,
    // The package does not distinguish objects from folders.
    list: async function* (folder) {
      for (const name of await store.listDir(folder))
        yield { name, kind: (await store.listDir(joinKey(folder, name))).length > 0 ? "folder" : "object" };
    },
    get: (key) => read(key, (path) => store.get(path)),
    getRange: (key, range) => read(key, (path) => store.getRange(path, range)),
    sizeOf: async (key) => ((await store.exists(key)) ? store.getsize(key) : undefined),
    close: async () => {
      for (const opened of stores.values()) await (await opened).close?.();
      stores.clear();
    },
  };
}

// The containers of references at a path or an address: lists, sets and deletes them without touching the references.
//
// They are in a file beside a kerchunk set, and also beside an Icechunk repository, whose package reports neither their names
// nor their settings. Knows both places; must not know how references are read. @see FORMAT.md [FV-03] [FV-05]

/** Changes to a container, or with `prefix` a new container. */
export type SetContainer = Omit<ContainerChanges, "store"> & { readonly prefix?: string | undefined };

/** References, and their store. */
interface SetLocation {
  readonly store: WritableStore;
  readonly path: string;
  readonly location: string;
}

export async function withPlace<T>(location: string, work: (place: SetLocation) => Promise<T>): Promise<T> {
  const at = location.replace(/\/+(?=\?|$)/, "");
  const { store, path } = locateTarget(at, "file");
  return closing(store, () => work({ store, path, location: at }));
}

/** Lists the containers that references at a path or an address depend on, without reading the references. Throws `NOT_FOUND`. */
export function listContainers(location: string): Promise<readonly Container[]> {
  return withPlace(location, async (place) => [...(await keptAt(place)).containers]);
}

/**
 * Adds a container, or changes how its objects are reached; references stay unchanged. Returns the new state. Null removes a container that
 * no reference needs.
 *
 * Throws `NOT_FOUND` if there are no references, or for a new name without a prefix; `BAD_ARGUMENT` for a changed prefix, because
 * references name it; `CONFLICT` if another writer was faster, or if a reference needs the container to be removed.
 */
export function setContainer(location: string, name: string, changes: SetContainer): Promise<Container>;
export function setContainer(location: string, name: string, changes: null): Promise<undefined>;
export function setContainer(
  location: string,
  name: string,
  changes: SetContainer | null,
): Promise<Container | undefined> {
  return withPlace(location, async (place) => {
    if (changes === null) return removeContainer(place, name);
    const isIcechunk = await isRepository(place);
    const { containers, version } = await keptAt(place, isIcechunk);
    const { prefix, ...members } = changes;
    if (isIcechunk && members.location !== undefined)
      throw new SuperchunkError(
        "UNSUPPORTED",
        "Icechunk reads objects where their references say; with others it needs an endpoint, or write the references again",
        { path: location, field: "location" },
      );
    const known = [...containers].find((each) => each.name === name);
    if (known === undefined) containers.add(newContainer(name, changes));
    else {
      if (prefix !== undefined && prefix !== known.prefix)
        throw new SuperchunkError(
          "BAD_ARGUMENT",
          `container "${name}" has the prefix ${known.prefix}, by which references know it; give where the objects are now as its location`,
          { path: location, field: "prefix", expected: known.prefix, found: prefix },
        );
      containers.edit(name, {
        ...members,
        store: storeOf(members.location ?? known.location ?? known.prefix),
      });
    }
    if (isIcechunk) await openRepository(place.location, "update", { containers });
    await write(place, containers, version);
    return containers.get(name);
  });
}

/** Throws `CONFLICT`, naming a reference, if one needs the container, and `NOT_FOUND`. */
async function removeContainer(place: SetLocation, name: string): Promise<undefined> {
  const { containers, version } = await keptAt(place);
  const container = containers.get(name);
  const needed: string[] = [];
  for await (const each of locationsAt(place)) {
    if (containers.find(each) !== container) continue;
    needed.push(each);
    break;
  }
  containers.remove(name, needed);
  await write(place, containers, version);
}

/** Stores containers beside a repository: the existing ones, and the given ones, which take precedence. */
export function keepContainers(
  location: string,
  given: Iterable<Container>,
  sources: readonly ReferredSource[] = [],
): Promise<void> {
  return withPlace(location, async (place) => {
    const { containers: kept, version } = await keptAt(place, true);
    const own = [...given];
    const others = [...kept].filter(
      (each) => !own.some(({ name, prefix }) => name === each.name || prefix === each.prefix),
    );
    const joined = new Containers([...others, ...own]);
    const former = kept.sources.filter((each) => !sources.some(({ location: own }) => own === each.location));
    joined.sources = [...former, ...sources];
    await write(place, joined, version);
  });
}

/** The containers kept beside references, and the version of their file. Throws `NOT_FOUND` unless the file may be missing. */
export async function keptAt(
  { store, path, location }: SetLocation,
  mayBeAbsent = false,
): Promise<{ readonly containers: Containers; readonly version: string | undefined }> {
  const kept = await keptContainers(store, path);
  if (kept !== undefined) return kept;
  if (mayBeAbsent) return { containers: new Containers(), version: undefined };
  await store.get(containersKey(path)); // only a read fails for a missing bucket
  throw new SuperchunkError(
    "NOT_FOUND",
    `there are no containers of references here; they are in ${containersKey(path)}, next to the references`,
    { path: location },
  );
}

async function write(
  { store, path }: SetLocation,
  containers: Containers,
  version: string | undefined,
): Promise<void> {
  const text = new TextEncoder().encode(formatContainers(containers, containers.sources));
  await store.put(
    containersKey(path),
    text,
    version === undefined ? { ifAbsent: true } : { ifVersion: version },
  );
}

function newContainer(name: string, { prefix, ...members }: SetContainer): Container {
  if (prefix === undefined)
    throw new SuperchunkError(
      "NOT_FOUND",
      `unknown container "${name}"; give the prefix of its locations to add it`,
      { field: "container", found: name },
    );
  const settled = Object.entries(members).filter(([, value]) => value !== undefined);
  return { name, prefix, ...Object.fromEntries(settled), store: storeOf(members.location ?? prefix) };
}

/** True if there is an Icechunk repository at a path or an address. */
export async function isIcechunk(location: string): Promise<boolean> {
  return withPlace(location, isRepository);
}

/** True for an Icechunk repository: it has an object with this name, or in its first version a folder of branches. */
async function isRepository({ store, path }: SetLocation): Promise<boolean> {
  for (const name of ["repo", "refs/branch.main/ref.json"])
    if ((await store.stat(joinKey(path, name))) !== undefined) return true;
  return false;
}

async function* locationsAt(place: SetLocation): AsyncGenerator<string> {
  if (!(await isRepository(place))) {
    for await (const each of (await openIndex(place.store, place.path, {})).locations())
      if (chunkFileAt(place.path, each) === undefined) yield each;
    return;
  }
  const repository = await openRepository(place.location, "read", { containers: [] });
  try {
    const states = [
      ...(await repository.listBranches()).map((branch) => ({ branch })),
      ...(await repository.listTags()).map((tag) => ({ tag })),
    ];
    for (const state of states) {
      const session = await repository.readonlySession(state);
      for (const each of await session.allVirtualChunkLocations()) yield fromIcechunkLocation(each);
    }
  } catch (error) {
    throw explainIcechunk(error, place.location);
  }
}

// Explains why a chunk of an Icechunk repository cannot be read: finds the object, and what has become of it.
//
// Icechunk 2.2 only reports that an object has changed or cannot be fetched, but not which. Finds the reference of one chunk
// among all; must not know how references are written.

/** Most references of a repository to search: the package returns their locations as one list. */
const MOST_REFERENCES = 2_000_000;

/** The failed read, and access to the objects. */
interface FailedRead {
  readonly repository: Icechunk.Repository;
  readonly branch: string;
  readonly snapshotId: string;
  readonly containers: Containers;
  /** Opens the container of a location; the store's root is the container's prefix. */
  readonly openContainer: (name: string) => Promise<ReadableStore>;
}

/** The object of a chunk, in its present state. */
interface FoundObject {
  readonly location: string;
  /** Undefined if it does not exist. */
  readonly info: ObjectInfo | undefined;
}

/**
 * Converts the failure to read the chunk at `key` to ours: `STALE` with the referenced and the present state, `NOT_FOUND`, or
 * the error of the object's own store. If the object cannot be found, the result is that of {@link explainIcechunk}.
 */
async function explainRead(error: unknown, path: string, key: string, read: FailedRead): Promise<unknown> {
  const text = error instanceof Error ? error.message : "";
  const isChanged = /checksum of the object owning the virtual chunk has changed/.test(text);
  const short = /not enough data\. Expected: \((\d+)\), available \((\d+)\)/.exec(text);
  if (!isChanged && short === null && !/error fetching virtual reference/.test(text))
    return explainIcechunk(error, path);
  let object: FoundObject | undefined;
  try {
    object = await findObject(key, read);
  } catch (cause) {
    // The object's store names the object and the reason; other failures say nothing about it.
    return cause instanceof SuperchunkError ? cause : explainIcechunk(error, path);
  }
  if (object === undefined) return explainIcechunk(error, path);
  const { location, info } = object;
  const details = { path: location, cause: error };
  if (info === undefined)
    return new SuperchunkError(
      "NOT_FOUND",
      `the object that the chunk ${key} of ${path} refers to no longer exists`,
      { ...details, field: "location" },
    );
  if (short !== null) {
    const [, expected = "", found = ""] = short;
    return new SuperchunkError(
      "STALE",
      `the object has become shorter since it was referenced: the chunk ${key} needs ${expected} bytes there, but ${found} are left of ${info.size} in all; ${REFER_AGAIN}`,
      { ...details, field: "size", expected: Number(expected), found: Number(found) },
    );
  }
  if (!isChanged) return explainIcechunk(error, path);
  const { writtenAt } = await read.repository.lookupSnapshot(read.snapshotId);
  const expected = `as it was referenced, on ${isoSecond(new Date(writtenAt))} or before`;
  const found = describeNow(info);
  return new SuperchunkError(
    "STALE",
    `the object has changed since it was referenced: the chunk ${key} needs it ${expected}, but it is ${found}; ${REFER_AGAIN}`,
    { ...details, field: info.etag === undefined ? "last-modified" : "etag", expected, found },
  );
}

/** The object of a chunk; undefined if the package does not reveal it. */
async function findObject(key: string, read: FailedRead): Promise<FoundObject | undefined> {
  const location = await findLocation(key, read);
  const container = location === undefined ? undefined : read.containers.find(location);
  if (location === undefined || container === undefined) return undefined;
  const store = await read.openContainer(container.name);
  return { location, info: await store.stat(location.slice(container.prefix.length)) };
}

/** Finds the location by deleting the chunk in a session that is never committed: the list of all locations then has one fewer of it. */
async function findLocation(
  key: string,
  { repository, branch, snapshotId }: FailedRead,
): Promise<string | undefined> {
  const manifests = await repository.lookupManifestFiles(snapshotId);
  if (manifests.reduce((sum, { numChunkRefs }) => sum + numChunkRefs, 0) > MOST_REFERENCES) return undefined;
  const session = await repository.writableSession(branch);
  if (session.snapshotId !== snapshotId) return undefined;
  const counts = new Map<string, number>();
  for (const each of await session.allVirtualChunkLocations()) counts.set(each, (counts.get(each) ?? 0) + 1);
  await session.store.delete(key);
  for (const each of await session.allVirtualChunkLocations()) counts.set(each, (counts.get(each) ?? 0) - 1);
  for (const [each, count] of counts) if (count === 1) return fromIcechunkLocation(each);
  return undefined;
}

function describeNow({ size, etag, modified }: ObjectInfo): string {
  const words = [
    ...(modified === undefined ? [] : [`of ${isoSecond(new Date(modified))}`]),
    ...(etag === undefined ? [] : [`with the ETag ${etag}`]),
    `of ${size} bytes`,
  ];
  return words.join(", ");
}

function isoSecond(time: Date): string {
  return time.toISOString().replace(/\.\d+Z$/, "Z");
}

/**
 * The containers of references at a path or an address: listed, set and deleted without touching the references.
 *
 * They lie in a file beside a kerchunk set, and beside an Icechunk repository too, whose package tells neither their names nor
 * what they are. Knows both places; must not know how references are read. @see FORMAT.md [FV-03] [FV-05]
 */

import { SuperchunkError } from "../errors.ts";
import {
  type Container,
  type ContainerChanges,
  Containers,
  containersKey,
  formatContainers,
  keptContainers,
  openIndex,
  storeOf,
} from "../references/index.ts";
import { joinKey } from "../store/key.ts";
import type { WritableStore } from "../store/types.ts";
import { explainIcechunk, openRepository } from "./icechunk/icechunk.ts";
import { fromIcechunkLocation } from "./icechunk/icechunk-options.ts";
import { locateTarget } from "./locate.ts";

/** Changes to a container, or with `prefix` a new one. */
export type SetContainer = Omit<ContainerChanges, "store"> & { readonly prefix?: string | undefined };

/** References, and the store beside them. */
interface Place {
  readonly store: WritableStore;
  readonly path: string;
  readonly location: string;
}

async function withPlace<T>(location: string, work: (place: Place) => Promise<T>): Promise<T> {
  const at = location.replace(/\/+(?=\?|$)/, "");
  const { store, path } = locateTarget(at, "file");
  try {
    return await work({ store, path, location: at });
  } finally {
    await store.close?.();
  }
}

/** The containers that references at a path or an address depend on; the references are not looked at. Throws `NOT_FOUND`. */
export function listContainers(location: string): Promise<readonly Container[]> {
  return withPlace(location, async (place) => [...(await keptAt(place)).containers]);
}

/**
 * Adds a container, or changes how the objects of one are reached; references stay as they are. Returns what it is now.
 *
 * Throws `NOT_FOUND` where there are no references, or without a prefix for a name that is new; `BAD_ARGUMENT` for another
 * prefix than it has, which references name; `CONFLICT` where another writer was faster.
 */
export function setContainer(location: string, name: string, changes: SetContainer): Promise<Container> {
  return withPlace(location, async (place) => {
    const isIcechunk = await isRepository(place);
    const { containers, version } = await keptAt(place, isIcechunk);
    const { prefix, ...members } = changes;
    if (isIcechunk && members.location !== undefined) {
      throw new SuperchunkError(
        "UNSUPPORTED",
        "Icechunk reads objects where their references say; with others it needs an endpoint, or references that are written anew",
        { path: location, field: "location" },
      );
    }
    const known = [...containers].find((each) => each.name === name);
    if (known === undefined) containers.add(newContainer(name, changes));
    else {
      if (prefix !== undefined && prefix !== known.prefix) {
        throw new SuperchunkError(
          "BAD_ARGUMENT",
          `container "${name}" has the prefix ${known.prefix}, by which references know it; give where the objects are now as its location`,
          { path: location, field: "prefix", expected: known.prefix, found: prefix },
        );
      }
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

/** Removes a container that no reference needs. Throws `CONFLICT` where one does, naming it, and `NOT_FOUND`. */
export function deleteContainer(location: string, name: string): Promise<void> {
  return withPlace(location, async (place) => {
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
  });
}

/** Keeps containers beside a repository: those that are there already, and those given, which win. */
export function keepContainers(location: string, given: Iterable<Container>): Promise<void> {
  return withPlace(location, async (place) => {
    const { containers: kept, version } = await keptAt(place, true);
    const own = [...given];
    const others = [...kept].filter(
      (each) => !own.some(({ name, prefix }) => name === each.name || prefix === each.prefix),
    );
    await write(place, new Containers([...others, ...own]), version);
  });
}

/** The containers kept beside references, and the version of their file. Throws `NOT_FOUND` unless there may be none. */
async function keptAt(
  { store, path, location }: Place,
  mayBeAbsent = false,
): Promise<{ readonly containers: Containers; readonly version: string | undefined }> {
  const kept = await keptContainers(store, path);
  if (kept !== undefined) return kept;
  if (mayBeAbsent) return { containers: new Containers(), version: undefined };
  await store.get(containersKey(path)); // a bucket that is not there is told by the answer to a read alone
  throw new SuperchunkError(
    "NOT_FOUND",
    `there are no containers of references here; they lie in ${containersKey(path)}, beside the references`,
    { path: location },
  );
}

async function write(
  { store, path }: Place,
  containers: Containers,
  version: string | undefined,
): Promise<void> {
  const text = new TextEncoder().encode(formatContainers(containers));
  await store.put(
    containersKey(path),
    text,
    version === undefined ? { ifAbsent: true } : { ifVersion: version },
  );
}

function newContainer(name: string, { prefix, ...members }: SetContainer): Container {
  if (prefix === undefined) {
    throw new SuperchunkError(
      "NOT_FOUND",
      `there is no container "${name}"; give the prefix of its locations to add it`,
      { field: "container", found: name },
    );
  }
  const settled = Object.entries(members).filter(([, value]) => value !== undefined);
  return { name, prefix, ...Object.fromEntries(settled), store: storeOf(members.location ?? prefix) };
}

/** True for an Icechunk repository: it has an object of this name, or folders of branches in its first version. */
async function isRepository({ store, path }: Place): Promise<boolean> {
  for (const name of ["repo", "refs/branch.main/ref.json"])
    if ((await store.stat(joinKey(path, name))) !== undefined) return true;
  return false;
}

async function* locationsAt(place: Place): AsyncGenerator<string> {
  if (!(await isRepository(place))) {
    yield* (await openIndex(place.store, place.path, {})).locations();
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

/**
 * Why a chunk of an Icechunk repository cannot be read: which object it refers to, and what became of that.
 *
 * Icechunk 2.2 says only that an object has changed or cannot be fetched, and not which. Knows how the reference of one chunk is
 * told from those of all; must not know how references are written.
 */
import type * as Icechunk from "@earthmover/icechunk";
import { SuperchunkError } from "../../errors.ts";
import type { Containers } from "../../references/index.ts";
import type { ObjectInfo, ReadableStore } from "../../store/types.ts";
import { explainIcechunk, fromIcechunkLocation, REFER_ANEW } from "./icechunk.ts";

/** References of a repository up to which one is looked for: their locations are told as one list. */
const MOST_REFERENCES = 2_000_000;

/** What is read, and how the objects behind it are reached. */
export interface FailedRead {
  readonly repository: Icechunk.Repository;
  readonly branch: string;
  readonly snapshotId: string;
  readonly containers: Containers;
  /** Opens the container of a location; the store's root is the container's prefix. */
  readonly openContainer: (name: string) => Promise<ReadableStore>;
}

/** An object that a chunk refers to, as it is now. */
interface FoundObject {
  readonly location: string;
  /** Undefined where it is not there. */
  readonly info: ObjectInfo | undefined;
}

/**
 * The failure to read the chunk at `key`, as ours: `STALE` with what was referenced and what is there, `NOT_FOUND`, or what
 * the object's own store says. Where the object cannot be told, as {@link explainIcechunk}.
 */
export async function explainRead(
  error: unknown,
  path: string,
  key: string,
  read: FailedRead,
): Promise<unknown> {
  const text = error instanceof Error ? error.message : "";
  const isChanged = /checksum of the object owning the virtual chunk has changed/.test(text);
  const short = /not enough data\. Expected: \((\d+)\), available \((\d+)\)/.exec(text);
  if (!isChanged && short === null && !/error fetching virtual reference/.test(text))
    return explainIcechunk(error, path);
  let object: FoundObject | undefined;
  try {
    object = await findObject(key, read);
  } catch (cause) {
    // The store of the object says why, and which it is; other failures tell nothing of the object.
    return cause instanceof SuperchunkError ? cause : explainIcechunk(error, path);
  }
  if (object === undefined) return explainIcechunk(error, path);
  const { location, info } = object;
  const details = { path: location, cause: error };
  if (info === undefined) {
    return new SuperchunkError(
      "NOT_FOUND",
      `the object that the chunk ${key} of ${path} refers to is not there any more`,
      {
        ...details,
        field: "location",
      },
    );
  }
  if (short !== null) {
    const [, expected = "", found = ""] = short;
    return new SuperchunkError(
      "STALE",
      `the object was cut since it was referenced: the chunk ${key} has ${expected} bytes there, and ${found} are left of ${info.size} in all; ${REFER_ANEW}`,
      { ...details, field: "size", expected: Number(expected), found: Number(found) },
    );
  }
  if (!isChanged) return explainIcechunk(error, path);
  const { writtenAt } = await read.repository.lookupSnapshot(read.snapshotId);
  const expected = `as it was referenced, on ${isoSecond(new Date(writtenAt))} or before`;
  const found = describeNow(info);
  return new SuperchunkError(
    "STALE",
    `the object has changed since it was referenced: the chunk ${key} wants it ${expected}, and it is ${found}; ${REFER_ANEW}`,
    { ...details, field: info.etag === undefined ? "last-modified" : "etag", expected, found },
  );
}

/** The object that a chunk refers to. Undefined where the package does not tell. */
async function findObject(key: string, read: FailedRead): Promise<FoundObject | undefined> {
  const location = await findLocation(key, read);
  const container = location === undefined ? undefined : read.containers.find(location);
  if (location === undefined || container === undefined) return undefined;
  const store = await read.openContainer(container.name);
  return { location, info: await store.stat(location.slice(container.prefix.length)) };
}

/** The location that is one fewer among all once the chunk is taken away, in a session that is never committed. */
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

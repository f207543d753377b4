/** `openReferences` for paths and addresses: kerchunk sets and Icechunk repositories. */
import { resolve } from "node:path";
import {
  type Container,
  type ContainerCredentials,
  type ContainerOptions,
  Containers,
  joinContainers,
  type OpenReferencesOptions,
  openReferences as openSet,
  openWebContainer,
  type ReferenceStore,
} from "../references/index.ts";
import type { ReadableStore } from "../store/types.ts";
import { parseViewKey } from "../view/view.ts";
import { FileStore } from "./fs/fs-store.ts";
import { explainIcechunk, openRepository } from "./icechunk/icechunk.ts";
import { explainRead } from "./icechunk/icechunk-failure.ts";
import type { RepositoryOptions } from "./icechunk/icechunk-options.ts";
import { closeOnFailure, locateBeside } from "./locate.ts";
import { listContainers } from "./reference-containers.ts";
import { S3Store } from "./s3/s3-store.ts";

/** How references at a path are opened. */
export interface OpenPathReferencesOptions
  extends OpenReferencesOptions,
    Omit<RepositoryOptions, "containers" | "credentials"> {
  /** What is at the path (default: `kerchunk`, JSON or Parquet). */
  readonly form?: "kerchunk" | "icechunk" | undefined;
  /** For Icechunk: branch (default `main`). */
  readonly branch?: string | undefined;
}

/**
 * Opens references at a path or an address as a store of zarrita's, with their guards enforced.
 *
 * Only the containers given, and those kept beside a kerchunk set that `authorize` names, are read. Throws
 * `NOT_FOUND`, `BAD_FIELD`, `UNSUPPORTED`; reads throw `UNSAFE_PATH` for what is in no authorised container, and
 * `STALE` for an object that has changed.
 */
export async function openReferences(
  location: string,
  options: OpenPathReferencesOptions = {},
): Promise<ReferenceStore> {
  if (options.form === "icechunk") return openIcechunk(location, options);
  const { store, path } = await locateBeside(location);
  const references = await closeOnFailure(store, openSet(store, path, { openContainer, ...options }));
  return {
    containers: references.containers,
    get: (key, reading) => references.get(key, reading),
    getRange: (key, range, reading) => references.getRange(key, range, reading),
    async close() {
      await references.close();
      await store.close?.();
    },
  };
}

/** Opens a container's store: folders, S3, and what is read over HTTP. */
export function openContainer(
  container: Container,
  credentials: ContainerCredentials | undefined,
  options: ContainerOptions = {},
): ReadableStore {
  const { store, prefix, location, region, endpoint, anonymous } = container;
  const place = location ?? prefix;
  if (store === "local") return new FileStore(resolve(place.slice("file://".length)));
  if (store !== "s3") return openWebContainer(container, credentials, options);
  const [, bucket = "", below = ""] = /^s3:\/\/([^/]+)\/(.*)$/.exec(place) ?? [];
  const { accessKeyId, secretAccessKey, sessionToken } = credentials ?? {};
  return new S3Store({
    bucket,
    prefix: below.replace(/\/+$/, ""),
    region,
    endpoint,
    anonymous,
    ...(accessKeyId === undefined || secretAccessKey === undefined
      ? {}
      : {
          credentials: {
            accessKeyId,
            secretAccessKey,
            ...(sessionToken === undefined ? {} : { sessionToken }),
          },
        }),
  });
}

async function openIcechunk(
  location: string,
  { containers: given, authorize = [], branch = "main", ...options }: OpenPathReferencesOptions,
): Promise<ReferenceStore> {
  const kept = authorize.length > 0 ? await listContainers(location) : [];
  const joined = joinContainers(kept, { containers: given, authorize });
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
    get: (key) => read(key, (path) => store.get(path)),
    getRange: (key, range) => read(key, (path) => store.getRange(path, range)),
    close: async () => {
      for (const opened of stores.values()) await (await opened).close?.();
      stores.clear();
    },
  };
}

/**
 * Opens sets of references as stores for zarrita: documents from the set, chunks from their places.
 *
 * Knows how a set, its containers and their stores belong together; must not know the forms of sets.
 */

import { isEqual } from "../../bytes/arrays.ts";
import { SuperchunkError } from "../../errors.ts";
import { joinKey, listKeys, resolveRange, splitKey } from "../../store/key.ts";
import type { ListEntry, ReadableStore, StoreOptions } from "../../store/types.ts";
import { parseViewKey, type ViewRange } from "../../view/view.ts";
import {
  addressed,
  type ContainerCredentials,
  type ContainerOptions,
  ContainerReader,
  type OpenContainer,
  openWebContainer,
} from "../containers/container-reader.ts";
import { type Container, Containers, defaultContainer, parseContainers } from "../containers/containers.ts";
import { openKerchunkParquet, parseKerchunkJson, type ReferenceIndex } from "./kerchunk-index.ts";

/** Options of opening a set of references. */
export interface OpenReferencesOptions extends StoreOptions, ContainerOptions {
  /** Containers that may be read. They replace those of the same name kept beside the set. */
  readonly containers?: Iterable<Container> | undefined;
  /** Names of containers kept beside the set that may be read too. */
  readonly authorize?: readonly string[] | undefined;
  /**
   * Places whose objects may be read, as beginnings of locations (`s3://bucket/`, `file:///data/`). A container of their scheme is created
   * if none is kept beside the set. Kept containers in such a place may be read, except one with an `endpoint`, whose server only
   * `authorize` permits. A place of Azure may end with a shared access signature (`az://container/?sv=…`), which is used to read it.
   */
  readonly allow?: readonly string[] | undefined;
  /** By container name. */
  readonly credentials?: Readonly<Record<string, ContainerCredentials>> | undefined;
  /** Opens a container's store (default: those that can be read over HTTP). */
  readonly openContainer?: OpenContainer | undefined;
}

/**
 * A read-only store with the zarrita interface. A missing key is `undefined`. A referenced object that cannot be read throws a
 * `SuperchunkError`, and is never replaced by fill values.
 */
export interface ReferenceStore {
  get(key: string, options?: StoreOptions): Promise<Uint8Array | undefined>;
  getRange(key: string, range: ViewRange, options?: StoreOptions): Promise<Uint8Array | undefined>;
  /** Entries directly under a folder (`""` is the root); absent for sets without a list of keys. */
  list?(folder: string): AsyncIterable<ListEntry>;
  /** Size of an object. Reads nothing, unless a reference is to an object of unknown length. */
  sizeOf(key: string, options?: StoreOptions): Promise<number | undefined>;
  /** All containers of the set, readable or not. */
  readonly containers: Containers;
  close(): Promise<void>;
}

/** Implements `openReferences` of the entry. */
export async function openReferences(
  store: ReadableStore,
  path: string,
  options: OpenReferencesOptions = {},
): Promise<ReferenceStore> {
  const { signal } = options;
  const index = await openIndex(store, path, { signal });
  const kept = await keptContainers(store, path, { signal });
  return openIndexed(index, store, path, { ...options, kept: kept?.containers });
}

/** The same for the references of the set at `path`, and the containers that were kept beside it. */
export function openIndexed(
  index: ReferenceIndex,
  store: ReadableStore,
  path: string,
  options: OpenReferencesOptions & { readonly kept?: Containers | undefined },
): ReferenceStore {
  const { containers, authorized, tokens } = joinContainers(options.kept ?? [], options);
  const reader = new ContainerReader(containers, {
    authorized,
    credentials: { ...options.credentials, ...tokens },
    openContainer: options.openContainer ?? openWebContainer,
    redirects: options.redirects,
    beside: (location) => {
      const key = chunkFileAt(path, location);
      return key === undefined ? undefined : { store, key };
    },
  });
  return indexStore(index, containers, reader);
}

/** Beginning of the keys of what belongs to references and is next to them. */
function keysBeside(path: string): string {
  return path.replace(/\.json$/, "");
}

/** Key of the containers file of references: of a set, or of a repository. */
export function containersKey(path: string): string {
  return `${keysBeside(path)}.containers.json`;
}

/** Key of an object with chunks of the set in JSON at `path`; `hash` is that of its content. @see FORMAT.md [FV-08] */
export function chunkFileKey(path: string, hash: string): string {
  return `${keysBeside(path)}.${hash}.chunks`;
}

/**
 * Key of such an object that a reference of the set leads to; undefined for other references. The object is next to the set, also if both
 * were moved.
 */
export function chunkFileAt(path: string, location: string): string | undefined {
  const { folder, name: own } = splitKey(keysBeside(path));
  const name = location.slice(location.lastIndexOf("/") + 1);
  const isOwn = name.startsWith(`${own}.`) && /^[0-9a-f]{32}\.chunks$/.test(name.slice(own.length + 1));
  return isOwn && own !== "" ? joinKey(folder, name) : undefined;
}

/** The containers kept beside references, and the version of their file; undefined if there is none. */
export async function keptContainers(
  store: ReadableStore,
  path: string,
  options: StoreOptions = {},
): Promise<{ readonly containers: Containers; readonly version: string } | undefined> {
  const key = containersKey(path);
  const info = await store.stat(key, options);
  const text = info === undefined ? undefined : await store.get(key, options);
  if (info === undefined || text === undefined) return undefined;
  return {
    containers: parseContainers(new TextDecoder().decode(text), store.describe(key)),
    version: info.version,
  };
}

/**
 * Joins the containers of a set with those of the caller, and decides which may be read. Throws `NOT_FOUND` for a name in
 * `authorize` without a container.
 */
export function joinContainers(
  kept: Iterable<Container>,
  options: Pick<OpenReferencesOptions, "containers" | "authorize" | "allow">,
): {
  readonly containers: Containers;
  readonly authorized: ReadonlySet<string>;
  /** Signatures given after allowed places, by the name that containers use for them. */
  readonly tokens: Readonly<Record<string, ContainerCredentials>>;
} {
  const { containers: given = [], authorize = [], allow = [] } = options;
  const tokens: Record<string, ContainerCredentials> = {};
  const authorized = new Set<string>(authorize);
  const own = [...given];
  const replaced = (each: Container): boolean =>
    own.some(({ name, prefix }) => name === each.name || prefix === each.prefix);
  const containers = new Containers([...kept].filter((each) => !replaced(each)));
  for (const each of own) {
    containers.add(each);
    authorized.add(each.name);
  }
  for (const name of authorize) containers.get(name);
  for (const [i, place] of allow.entries()) {
    const [, bare = place, sasToken] = SIGNED.exec(place) ?? [];
    const credentials = `allowed-place-${i}`;
    if (sasToken !== undefined) tokens[credentials] = { sasToken };
    for (const name of allowPlace(containers, bare)) {
      authorized.add(name);
      if (sasToken !== undefined) containers.edit(name, { anonymous: undefined, credentials });
    }
  }
  return { containers, authorized, tokens };
}

/** A place of Azure with a shared access signature. */
const SIGNED = /^((?:az|azure|abfs):\/\/[^?#]*)\?(.+)$/is;

/**
 * The names of the containers in a place: an address, for S3 with the settings that `placeOpener` takes. Adds one for the whole place if there
 * is none yet. A container with an `endpoint` is in the place only if the place names the same, because another server would answer.
 */
function allowPlace(containers: Containers, place: string): string[] {
  const { prefix, endpoint, ...asked } = addressed(place, "allowed");
  const kept = [...containers].filter((each) => each.endpoint === endpoint);
  const inside = kept.filter((each) => each.prefix.startsWith(prefix));
  // A container that has moved out of the place is not allowed, whatever the prefix of its references.
  const names = inside
    .filter(({ location }) => location?.startsWith(prefix) !== false)
    .map(({ name }) => name);
  if ([...containers].some((each) => each.prefix === prefix)) return names;
  const around = kept.find((each) => each.location === undefined && prefix.startsWith(each.prefix));
  const { region = asked.region, credentials } = around ?? {};
  let name = "allowed";
  for (let i = 2; [...containers].some((each) => each.name === name); i++) name = `allowed-${i}`;
  containers.add({
    ...defaultContainer(prefix, name),
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(region === undefined ? {} : { region }),
    // A part of a place that needs credentials, explicit or found as by the AWS tools, needs them too.
    ...(credentials === undefined ? {} : { credentials }),
    ...(around === undefined || around.anonymous === true ? {} : { anonymous: false }),
  });
  return [...names, name];
}

/** Opens the references of a set. Throws as {@link openReferences}. */
export async function openIndex(
  store: ReadableStore,
  path: string,
  options: StoreOptions,
): Promise<ReferenceIndex> {
  // A folder is not an object; a store without folders finds no object there either.
  const text = path === "" ? undefined : await store.get(path, options);
  if (text === undefined) return openKerchunkParquet(store, path, options);
  return parseKerchunkJson(new TextDecoder().decode(text), store.describe(path));
}

function indexStore(index: ReferenceIndex, containers: Containers, reader: ContainerReader): ReferenceStore {
  const find = (key: string, options: StoreOptions): ReturnType<ReferenceIndex["find"]> => {
    options.signal?.throwIfAborted();
    const path = parseViewKey(key);
    return path === undefined ? Promise.resolve(undefined) : index.find(path, options);
  };
  const { keys } = index;
  return {
    containers,
    ...(keys === undefined
      ? {}
      : {
          async *list(folder) {
            yield* listKeys(keys(), folder);
          },
        }),
    async get(key, options = {}) {
      const found = await find(key, options);
      return found === undefined || found instanceof Uint8Array ? found : reader.read(found, options);
    },
    async getRange(key, range, options = {}) {
      const found = await find(key, options);
      if (found === undefined) return undefined;
      const isWhole = !(found instanceof Uint8Array) && found.length === undefined;
      const bytes = isWhole ? await reader.read(found, options) : found;
      const { offset, length } = resolveRange(range, bytes.length ?? 0, key);
      if (bytes instanceof Uint8Array) return bytes.slice(offset, offset + length);
      return reader.read({ ...bytes, offset: bytes.offset + offset, length }, options);
    },
    async sizeOf(key, options = {}) {
      const found = await find(key, options);
      return found === undefined || found instanceof Uint8Array
        ? found?.length
        : reader.sizeOf(found, options);
    },
    close: () => reader.close(),
  };
}

/** Throws `BAD_FIELD` if the bytes read through the references differ from the source's. */
export function assertSame(found: Uint8Array | undefined, wanted: Uint8Array, key: string): void {
  if (isEqual(found, wanted)) return;
  throw new SuperchunkError(
    "BAD_FIELD",
    found === undefined
      ? "a referenced chunk is missing when the result is read back"
      : "a chunk that was referenced has other bytes when the result is read back",
    { path: key, expected: wanted.length, found: found?.length },
  );
}

/** The error for a node that a set does not have; `set` is its name in messages. */
export function noNode(set: string, inside: string): SuperchunkError {
  return new SuperchunkError(
    "NOT_FOUND",
    `the set of references has no array or group "${inside}"; "superchunk ls" lists those that it has. The arrays of a single archive are at the root`,
    { path: set, field: inside },
  );
}

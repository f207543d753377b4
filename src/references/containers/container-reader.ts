/**
 * Reads the objects of references, from containers that the caller has allowed, and enforces their guards.
 *
 * Must not know the forms of references.
 */

import { SuperchunkError } from "../../errors.ts";
import { notAllowed } from "../../places/open-places.ts";
import type { OpenPlace } from "../../places/placed-store.ts";
import { HttpStore } from "../../store/http.ts";
import type { Redirects } from "../../store/http-request.ts";
import { encodeKey } from "../../store/key.ts";
import { keepMade } from "../../store/pool.ts";
import type { ReadableStore, StoreOptions } from "../../store/types.ts";
import type { StoredReference } from "../kerchunk/kerchunk-index.ts";
import { type Container, Containers, storeOf } from "./containers.ts";
import { checkGuard } from "./guard.ts";

/** Secrets of a container: passed when references are opened, and never stored with them. */
export interface ContainerCredentials {
  /** Sent with every request, for example `Authorization`: for http, gcs and azure. */
  readonly headers?: Readonly<Record<string, string>>;
  /** For azure: a shared access signature, `sv=…&sig=…`. */
  readonly sasToken?: string;
  /** For s3. */
  readonly accessKeyId?: string;
  readonly secretAccessKey?: string;
  readonly sessionToken?: string;
}

/** Options of opening a container's store. */
export interface ContainerOptions {
  /** Redirects of a web server to follow; default `same-origin`. */
  readonly redirects?: Redirects | undefined;
}

/** Opens the store of a container at the prefix of its locations. */
export type OpenContainer = (
  container: Container,
  credentials: ContainerCredentials | undefined,
  options?: ContainerOptions,
) => ReadableStore | Promise<ReadableStore>;

/** Which containers may be read, and how. */
export interface ReaderOptions extends ContainerOptions {
  /** Names of the containers that may be read. */
  readonly authorized: ReadonlySet<string>;
  /** By the name that containers use for them. */
  readonly credentials?: Readonly<Record<string, ContainerCredentials>> | undefined;
  readonly openContainer: OpenContainer;
  /** Finds an object that belongs to the references: it is in no container, and may always be read. */
  readonly beside?: (location: string) => { readonly store: ReadableStore; readonly key: string } | undefined;
}

export class ContainerReader {
  readonly #containers: Containers;
  readonly #options: ReaderOptions;
  readonly #stores = new Map<string, Promise<ReadableStore>>();

  constructor(containers: Containers, options: ReaderOptions) {
    this.#containers = containers;
    this.#options = options;
  }

  /**
   * Reads the bytes of a reference. Throws `UNSAFE_PATH` if it is outside of all containers or its container is not
   * authorised, `STALE` for an object that has changed, `NOT_FOUND`, `TRUNCATED`.
   */
  async read(reference: StoredReference, options: StoreOptions = {}): Promise<Uint8Array> {
    const { offset, length, guard } = reference;
    const { isLocal, store, key, info: before } = await this.#find(reference, options);
    const path = store.describe(key);
    if (guard !== undefined) checkGuard(guard, before, path);
    const wanted = length ?? before.size - offset;
    if (wanted < 0 || offset + wanted > before.size)
      throw new SuperchunkError(
        "TRUNCATED",
        `the reference is to bytes ${offset} to ${offset + Math.max(0, wanted)}, but the object has ${before.size}`,
        { path, offset, expected: offset + Math.max(0, wanted), found: before.size },
      );
    const bytes = await store.getRange(key, { offset, length: wanted }, options);
    if (bytes === undefined) throw absent(path);
    const after = isLocal ? await this.#stat(store, key, options) : before;
    if (bytes.length !== wanted || after.version !== before.version) {
      const isShort = bytes.length !== wanted;
      throw new SuperchunkError("STALE", "the object changed while it was being read; try again", {
        path,
        offset,
        field: isShort ? "size" : "version",
        expected: isShort ? wanted : before.version,
        found: isShort ? bytes.length : after.version,
      });
    }
    return bytes;
  }

  /** Bytes of a reference. One without a length is looked up: throws `UNSAFE_PATH` and `NOT_FOUND` like {@link read}; guards are not checked. */
  async sizeOf(reference: StoredReference, options: StoreOptions): Promise<number> {
    return reference.length ?? (await this.#find(reference, options)).info.size - reference.offset;
  }

  async #find({ location }: StoredReference, options: StoreOptions) {
    const own = this.#options.beside?.(location);
    // Its content never changes.
    if (own !== undefined)
      return { ...own, isLocal: false, info: await this.#stat(own.store, own.key, options) };
    const container = this.#containers.match(location);
    this.#authorize(container, location);
    const store = await this.#open(container);
    const key = keyIn(container, location);
    const isLocal = container.store === "local";
    return { isLocal, store, key, info: await this.#stat(store, key, options) };
  }

  async close(): Promise<void> {
    for (const store of this.#stores.values()) await (await store).close?.();
    this.#stores.clear();
  }

  #authorize(container: Container, wanted: string): void {
    const { name, prefix, location, store, endpoint, credentials, anonymous } = container;
    // Another server than the one that the reader named would answer for the bucket.
    const server = store !== "s3" || endpoint === undefined ? "" : `?endpoint=${endpoint}`;
    if (!this.#options.authorized.has(name))
      throw new SuperchunkError(
        "UNSAFE_PATH",
        `container "${name}" (${prefix}), which ${wanted} is in, is not allowed; to let the references read there, open them with {allow: "${location ?? prefix}${server}"}`,
        { field: "container", expected: "an authorised container", found: name },
      );
    if (anonymous === true || credentials === undefined) return;
    if (this.#options.credentials?.[credentials] === undefined) throw noCredentials(name, credentials);
  }

  #open(container: Container): Promise<ReadableStore> {
    return keepMade(this.#stores, container.name, async () => {
      const { credentials, openContainer, redirects } = this.#options;
      const own = container.credentials === undefined ? undefined : credentials?.[container.credentials];
      return openContainer(container, own, { redirects });
    });
  }

  async #stat(
    store: ReadableStore,
    key: string,
    options: StoreOptions,
  ): Promise<NonNullable<Awaited<ReturnType<ReadableStore["stat"]>>>> {
    const info = await store.stat(key, options);
    if (info === undefined) throw absent(store.describe(key));
    return info;
  }
}

/** The error for credentials that a container names and that were not given. */
export function noCredentials(name: string, credentials: string): SuperchunkError {
  return new SuperchunkError(
    "BAD_ARGUMENT",
    `container "${name}" asks for the credentials "${credentials}", which were not given`,
    { field: "credentials", expected: credentials },
  );
}

/** Access to the places of arrays. */
export interface PlaceAccess extends ContainerOptions {
  readonly containers?: Iterable<Container> | undefined;
  readonly allow?: readonly string[] | undefined;
  readonly credentials?: Readonly<Record<string, ContainerCredentials>> | undefined;
  readonly openContainer?: OpenContainer | undefined;
}

/**
 * Opens places of arrays in one of the given containers, or below an address of `allow`, each once. An S3 address in `allow` may have
 * settings (`?endpoint=`, `region=`, `anonymous=`), and uses the credentials that the AWS tools find.
 */
export function placeOpener({
  containers: given = [],
  allow = [],
  credentials,
  openContainer = openWebContainer,
  redirects,
}: PlaceAccess): OpenPlace {
  const containers = new Containers(given);
  for (const [i, address] of allow.entries()) {
    const container = addressed(address, `allowed-${i + 1}`);
    if (![...containers].some(({ prefix }) => prefix === container.prefix)) containers.add(container);
  }
  const opened = new Map<string, Promise<ReadableStore>>();
  return (place, isNamed) => {
    const { name, prefix } = place;
    const container = containers.find(prefix) ?? (isNamed ? addressed(prefix, name) : undefined);
    if (container === undefined) throw notAllowed(place);
    const { location, credentials: own } = container;
    const moved =
      location === undefined ? {} : { location: location + prefix.slice(container.prefix.length) };
    const secrets = own === undefined ? undefined : credentials?.[own];
    return keepMade(opened, prefix, async () =>
      openContainer({ ...container, prefix, ...moved }, secrets, { redirects }),
    );
  };
}

/** The container of an address. Its settings are not stored with an archive: the reader passes them. */
export function addressed(address: string, name: string): Container {
  const [place = "", query = ""] = address.split("?");
  const prefix = place.endsWith("/") ? place : `${place}/`;
  const store = storeOf(prefix);
  if (store !== "s3") return { name, prefix, store };
  const settings = new URLSearchParams(query);
  const [endpoint, region] = [settings.get("endpoint"), settings.get("region")];
  return {
    name,
    prefix,
    store,
    ...(endpoint === null ? {} : { endpoint }),
    ...(region === null ? {} : { region }),
    ...(["true", "1", ""].includes(settings.get("anonymous") ?? "false") ? { anonymous: true } : {}),
  };
}

/** Opens containers over HTTP: web servers, and public buckets through their web addresses. */
export function openWebContainer(
  container: Container,
  credentials: ContainerCredentials | undefined,
  { redirects = "same-origin" }: ContainerOptions = {},
): ReadableStore {
  const { name, store } = container;
  if (store === "local")
    throw new SuperchunkError("UNSUPPORTED", `container "${name}" is a folder, which cannot be read here`, {
      field: "container",
      found: name,
    });
  if (store === "s3" && container.anonymous !== true)
    throw new SuperchunkError(
      "UNSUPPORTED",
      `container "${name}" needs signed requests; open it with superchunk/node`,
      { field: "container", found: name },
    );
  const { headers, sasToken } = credentials ?? {};
  const signature =
    store === "azure" && sasToken !== undefined ? `?${sasToken.trim().replace(/^\?/, "")}` : "";
  return new HttpStore(`${webAddress(container)}${signature}`, {
    redirects,
    ...(headers === undefined ? {} : { headers }),
  });
}

/** Matches a bucket or a region that can only be part of a host name. */
const HOST_PART = /^[a-z0-9][a-z0-9._-]*$/i;

/** The web address of the start of a container's locations. Throws `BAD_ARGUMENT` for an invalid bucket or region name. */
export function webAddress({ name, prefix, location, store, region, endpoint }: Container): string {
  const place = location ?? prefix;
  if (store === "http") return place;
  const [, bucket = "", rest = ""] = /^[a-z0-9]+:\/\/([^/]+)\/(.*)$/.exec(place) ?? [];
  const below = encodeKey(rest);
  const base = endpoint?.replace(/\/+$/, "");
  for (const [field, part] of [
    ["prefix", bucket],
    ["region", region ?? "us-east-1"],
  ] as const) {
    // In Azure addresses, the container's name may precede the account's.
    if (HOST_PART.test(store === "azure" ? part.replace("@", "") : part)) continue;
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `container "${name}": "${part}" cannot be the name of a bucket or a region`,
      { field, found: part },
    );
  }
  if (base !== undefined) return `${base}/${bucket}/${below}`;
  if (store === "s3") return `https://${bucket}.s3.${region ?? "us-east-1"}.amazonaws.com/${below}`;
  if (store === "gcs") return `https://storage.googleapis.com/${bucket}/${below}`;
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    `container "${name}" needs an endpoint: https://ACCOUNT.blob.core.windows.net. In Node.js AZURE_STORAGE_ACCOUNT names the account too`,
    { field: "endpoint" },
  );
}

/** Key of a location in its container's store. Web locations are URL-encoded, keys are not. */
function keyIn({ prefix }: Container, location: string): string {
  const rest = location.slice(prefix.length);
  // Decided by the prefix of the location, even if the objects have moved.
  if (!/^https?:/.test(prefix)) return rest;
  try {
    return decodeURIComponent(rest);
  } catch (cause) {
    throw new SuperchunkError("BAD_FIELD", `the location ${location} is not encoded as an address is`, {
      field: "location",
      found: location,
      cause,
    });
  }
}

function absent(path: string): SuperchunkError {
  return new SuperchunkError("NOT_FOUND", "the object that a reference points to does not exist", { path });
}

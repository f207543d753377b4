/**
 * Virtual chunk containers: the places that references point into, and the names of their credentials.
 *
 * A location belongs to the container with the longest matching prefix. Credentials are only named here, never stored. Must
 * not know the forms of references. @see FORMAT.md [FV-04]
 */
import { defined } from "../../bytes/arrays.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { parseJson, stringifyJson } from "../../format/json.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import { checkLocation, hasScheme, schemeOf } from "../../places/declared.ts";
import type { ReferredSource } from "./guard.ts";

/** Kinds of stores that hold objects. */
export type ContainerStore = "local" | "http" | "s3" | "gcs" | "azure";

const SCHEMES: Readonly<Record<string, ContainerStore>> = {
  file: "local",
  http: "http",
  https: "http",
  s3: "s3",
  gs: "gcs",
  gcs: "gcs",
  az: "azure",
  azure: "azure",
  abfs: "azure",
};

/** A place that references point into. */
export interface Container {
  /** Name in messages, options and credentials. */
  readonly name: string;
  /** Beginning of its locations, with a final `/`. */
  readonly prefix: string;
  readonly store: ContainerStore;
  /** Current location of moved objects, used instead of the prefix; with a final `/`. */
  readonly location?: string;
  readonly region?: string;
  readonly endpoint?: string;
  /** Reads without credentials. */
  readonly anonymous?: boolean;
  /** Name of the credentials to request when the references are opened. */
  readonly credentials?: string;
}

/** The members of a container that can change without a change to references. */
export type ContainerChanges = {
  readonly [member in Exclude<keyof Container, "name" | "prefix" | "store">]?: Container[member] | undefined;
} & { readonly store?: ContainerStore };

const MEMBERS: readonly (keyof Container)[] = [
  "name",
  "prefix",
  "store",
  "location",
  "region",
  "endpoint",
  "anonymous",
  "credentials",
];

export class Containers implements Iterable<Container> {
  /** The archives that the references were written from. */
  sources: readonly ReferredSource[] = [];
  readonly #byName = new Map<string, Container>();
  /** Longest prefix first. */
  #ordered: readonly Container[] = [];

  constructor(containers: Iterable<Container> = []) {
    for (const container of containers) this.add(container);
  }

  /** Adds a container. Throws `BAD_ARGUMENT` for a prefix without its final `/`, or a name or prefix that exists already. */
  add(container: Container): void {
    const checked = checkContainer(container);
    const { name, prefix } = checked;
    if (this.#byName.has(name))
      throw badContainer(name, "name", "exists already; edit it, or choose another name", name);
    const twin = this.#ordered.find((each) => each.prefix === prefix);
    if (twin !== undefined)
      throw badContainer(name, "prefix", `is that of container "${twin.name}" already: ${prefix}`, prefix);
    this.#put(checked);
  }

  /**
   * Changes the place of a container's objects, or how they are read; `undefined` removes a member. Throws `NOT_FOUND` for an
   * unknown name.
   */
  edit(name: string, changes: ContainerChanges): void {
    const members = Object.entries({ ...this.get(name), ...changes });
    const given = members.filter(([, value]) => value !== undefined);
    this.#put(checkContainer(Object.fromEntries(given) as unknown as Container));
  }

  /** Removes a container that no reference needs. Throws `CONFLICT` if one of `locations` needs it, `NOT_FOUND`. */
  remove(name: string, locations: Iterable<string>): void {
    const container = this.get(name);
    for (const location of locations) {
      if (this.find(location) !== container) continue;
      throw new SuperchunkError(
        "CONFLICT",
        `container "${name}" is needed by references, for example to ${location}; edit it instead`,
        { field: "container", found: location },
      );
    }
    this.#byName.delete(name);
    this.#order();
  }

  /** Returns the container with a name. Throws `NOT_FOUND`. */
  get(name: string): Container {
    const found = this.#byName.get(name);
    if (found !== undefined) return found;
    throw new SuperchunkError(
      "NOT_FOUND",
      `unknown container "${name}"; expected one of ${[...this.#byName.keys()].join(", ") || "none"}`,
      { field: "container", found: name },
    );
  }

  /** Returns the container with the longest prefix of a location; undefined if there is none. */
  find(location: string): Container | undefined {
    return this.#ordered.find(({ prefix }) => location.startsWith(prefix));
  }

  /** The same. Throws `UNSAFE_PATH` for a location outside of every container, or one with parts that lead elsewhere. */
  match(location: string): Container {
    checkLocation(location);
    const found = this.find(location);
    if (found !== undefined) return found;
    const known = this.#ordered.map(({ name, prefix }) => `"${name}" (${prefix})`).join(", ");
    throw new SuperchunkError(
      "UNSAFE_PATH",
      `the reference to ${location} is in no container; ${known === "" ? "there are none" : `known: ${known}`}. ` +
        `To read it, open the references with {allow: "${location.slice(0, location.lastIndexOf("/") + 1)}"}`,
      { field: "container", found: location },
    );
  }

  [Symbol.iterator](): Iterator<Container> {
    return this.#byName.values();
  }

  #put(container: Container): void {
    this.#byName.set(container.name, container);
    this.#order();
  }

  #order(): void {
    this.#ordered = [...this.#byName.values()].sort((a, b) => b.prefix.length - a.prefix.length);
  }
}

/** The default container of a prefix: named after its scheme, and anonymous except for local files. */
export function defaultContainer(prefix: string, name?: string): Container {
  const store = storeOf(prefix);
  return {
    name: name ?? (store === "local" ? "local" : store),
    prefix,
    store,
    ...(store === "s3" ? { region: "us-east-1" } : {}),
    ...(store === "local" ? {} : { anonymous: true }),
  };
}

/** Formats the containers file. @see FORMAT.md [FV-03] */
export function formatContainers(
  containers: Iterable<Container>,
  sources: readonly ReferredSource[] = [],
): string {
  const list = [...containers].map(
    (container) => defined(Object.fromEntries(MEMBERS.map((name) => [name, container[name]]))) as JsonObject,
  );
  const own = sources.length === 0 ? {} : { sources: formatSources(sources) };
  const document = { format: "superchunk-containers", version: 1, containers: list, ...own };
  return `${stringifyJson(document, { indent: 2 })}\n`;
}

/** Parses the containers file. Throws `BAD_FIELD` for invalid content, `UNSUPPORTED` for another version. */
export function parseContainers(text: string, path: string): Containers {
  const document = parseJson(text, path) as JsonObject | null;
  if (document?.["format"] !== "superchunk-containers")
    throw badFile(path, "format", 'is not "superchunk-containers"', document?.["format"]);
  if (document["version"] !== 1)
    throw new SuperchunkError(
      "UNSUPPORTED",
      `containers of version ${String(document["version"])} are not read; use a newer superchunk`,
      { path, field: "version", expected: 1, found: document["version"] },
    );
  const list = document["containers"];
  if (!Array.isArray(list)) throw badFile(path, "containers", "is not a list", list);
  const containers = new Containers();
  for (const each of list as readonly JsonValue[]) addStored(containers, parseContainer(each, path), path);
  containers.sources = parseSources(document["sources"], path);
  return containers;
}

function addStored(containers: Containers, container: Container, path: string): void {
  try {
    containers.add(container);
  } catch (error) {
    throw isSuperchunkError(error) ? error.storedAt(path) : error;
  }
}

function parseContainer(value: JsonValue, path: string): Container {
  if (value === null || typeof value !== "object" || Array.isArray(value))
    throw badFile(path, "containers", "has an entry that is not an object", value);
  const members = value as JsonObject;
  for (const [member, found] of Object.entries(members)) {
    if (!(MEMBERS as readonly string[]).includes(member))
      throw badFile(path, member, "is not a member of a container; secrets have no place here", member);
    if (member === "anonymous" ? typeof found !== "boolean" : typeof found !== "string")
      throw badFile(path, member, "has the wrong type", typeof found);
  }
  return members as unknown as Container;
}

function checkContainer(container: Container): Container {
  const { name, prefix, location, store } = container;
  if (typeof name !== "string" || !/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name))
    throw badContainer(String(name), "name", "must be a word of letters, digits, dots and hyphens", name);
  for (const [field, url] of [["prefix", prefix] as const, ["location", location] as const]) {
    if (url === undefined && field === "location") continue;
    if (url === undefined) throw badContainer(name, field, "is missing", url);
    if (!url.endsWith("/")) throw badContainer(name, field, `must end with "/": ${url}/ is meant`, url);
    checkLocation(url);
    if (field === "prefix" && /^(?!file:)[a-z0-9+.-]+:\/\/\/?$/.test(url))
      throw badContainer(name, field, "must name a host or a bucket", url);
  }
  if (container.endpoint !== undefined && !isServer(container.endpoint))
    // The endpoint may contain a password, so the message does not show it.
    throw badContainer(
      name,
      "endpoint",
      "must be the http(s):// address of a server, without user and password",
      undefined,
    );
  if (storeOf(location ?? prefix) !== store)
    throw badContainer(name, "store", `is "${store}", but ${location ?? prefix} is another kind`, store);
  if (container.anonymous === true && container.credentials !== undefined)
    throw badContainer(
      name,
      "credentials",
      "are named, but the container is anonymous",
      container.credentials,
    );
  return container;
}

function isServer(endpoint: string): boolean {
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined;
  const isHttp = url?.protocol === "http:" || url?.protocol === "https:";
  return isHttp && url.username === "" && url.password === "" && url.search === "" && url.hash === "";
}

/** Kind of store of a prefix. Throws `UNSUPPORTED` for other schemes. */
export function storeOf(prefix: string): ContainerStore {
  const scheme = schemeOf(prefix);
  const store = SCHEMES[scheme];
  if (store !== undefined) return store;
  throw new SuperchunkError("UNSUPPORTED", `objects at ${scheme}:// are not read`, {
    field: "prefix",
    expected: Object.keys(SCHEMES).join(", "),
    found: scheme,
  });
}

function badContainer(name: string, field: string, reason: string, found: unknown): SuperchunkError {
  return new SuperchunkError("BAD_ARGUMENT", `container "${name}": ${field} ${reason}`, { field, found });
}

function badFile(path: string, field: string, reason: string, found: unknown): SuperchunkError {
  return new SuperchunkError("BAD_FIELD", `${field} ${reason}`, { path, field, found });
}

// Locations of objects in references: URLs with a scheme, without parts that lead elsewhere.
//
// A location of a local file is `file://` and its path, not encoded: readers (fsspec 2026, Icechunk 2) take the text after
// `file://` as the path without decoding. Must not know stores.

/** The location of an object from a store's description, a path or a URL. Throws `UNSUPPORTED` for other descriptions. */
export function toLocation(described: string): string {
  // Stores describe objects for people: characters that a URL cannot hold are encoded.
  if (/^https?:/.test(described))
    return checkLocation(described.replace(/[^\x21-\x7e]|["<>\\^`{|}]/gu, encodeURIComponent));
  if (hasScheme(described)) return checkLocation(described);
  if (described.startsWith("/")) return checkLocation(`file://${described}`);
  if (/^[a-z]:[\\/]/i.test(described))
    return checkLocation(`file:///${described[0]?.toUpperCase()}${described.slice(1).replaceAll("\\", "/")}`);
  throw new SuperchunkError(
    "UNSUPPORTED",
    "only objects with an absolute path or a URL can be referenced; this store has neither",
    { path: described, field: "location" },
  );
}

/** A name that needs neither a check nor an escape in any kind of location. */
const PLAIN_NAME = /^[A-Za-z0-9_-][A-Za-z0-9_.-]*$/;

/** {@link toLocation} for many objects, most of them in the same folder as the previous one. */
export class Locations {
  #described = "";
  #folder: string | undefined;

  /** The location of an object. Throws as {@link toLocation}. */
  of(described: string): string {
    const nameAt = described.lastIndexOf("/") + 1;
    const name = described.slice(nameAt);
    if (nameAt === 0 || !PLAIN_NAME.test(name)) return toLocation(described);
    if (this.#folder === undefined || described.slice(0, nameAt) !== this.#described) {
      const folder = toLocation(`${described.slice(0, nameAt)}x`);
      this.#described = described.slice(0, nameAt);
      this.#folder = folder.slice(0, -1);
    }
    return this.#folder + name;
  }
}

/** The common folder of all locations, with its final `/`; undefined if there is none. */
export function commonFolder(locations: Iterable<string>): string | undefined {
  let common: string | undefined;
  for (const location of locations) {
    const folder = location.slice(0, location.lastIndexOf("/") + 1);
    if (common === undefined) common = folder;
    while (!location.startsWith(common)) {
      const shorter: string = common.slice(0, common.lastIndexOf("/", common.length - 2) + 1);
      // A scheme with or without two slashes is not a folder.
      if (shorter.length <= schemeOf(location).length + 3 && !shorter.startsWith("file:///"))
        return undefined;
      common = shorter;
    }
  }
  return common;
}

function formatSources(sources: readonly ReferredSource[]): JsonValue {
  return sources.map(({ location, size, etag, lastModified }) => ({
    location,
    size,
    ...defined({ etag, lastModified }),
  }));
}

/** Sources from JSON; none for undefined. Throws `BAD_FIELD`. */
function parseSources(value: JsonValue | undefined, path: string): readonly ReferredSource[] {
  if (value === undefined) return [];
  const isSource = (each: JsonValue): boolean => {
    if (each === null || typeof each !== "object" || Array.isArray(each)) return false;
    const { location, size, etag = "", lastModified = 0 } = each as JsonObject;
    return (
      typeof location === "string" &&
      typeof etag === "string" &&
      [size, lastModified].every((number) => Number.isSafeInteger(number) && (number as number) >= 0)
    );
  };
  if (Array.isArray(value) && value.every(isSource)) return value as unknown as readonly ReferredSource[];
  throw new SuperchunkError("BAD_FIELD", "sources is not a list of objects with their sizes", {
    path,
    field: "sources",
  });
}

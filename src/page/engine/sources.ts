/** Finds and opens the archives of a source. Knows stores and archives; must not know the page. */
import type { ArrayArchive, BytesArchive, ReadableArray, ReadableTable } from "../../archive/kinds/types.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { formatDType } from "../../format/dtype.ts";
import { HELD_NAMES } from "../../format/naming.ts";
import type { DType } from "../../format/types.ts";
import type { FoundReadable } from "../../open/find-readables.ts";
import type { Readable } from "../../open/open.ts";
import type { OpenAnyOptions } from "../../open/open-node.ts";
import type { OpenPlace } from "../../places/placed-store.ts";
import { HttpStore } from "../../store/http.ts";
import { encodeKey, joinKey } from "../../store/key.ts";
import { keepMade } from "../../store/pool.ts";
import type { ListEntry, ReadableStore, StoreOptions } from "../../store/types.ts";
import { withCoalescing } from "../../store/wrappers/coalescing.ts";
import type { ZarrArray } from "../../zarr/read/array.ts";
import type { GroupArrays, ZarrGroup } from "../../zarr/read/group.ts";
import { byName } from "../text.ts";
import type { ColumnFacts, Entry, NodeFacts, Source, Target, Watch } from "./protocol.ts";
import { withReadAhead } from "./read-ahead.ts";

/** An opened archive or node: a group that is a table counts as one. */
export type Opened = BytesArchive | ReadableArray | Table | ZarrGroup;

type WithColumns = Exclude<Opened, ZarrGroup>;
type Table = ReadableTable | (GroupArrays & { readonly length: number });

/** Most characters of JSON attributes and metadata to show. */
const MOST_JSON = 1 << 20;
/** Entries between two reports of a list. */
const BATCH = 200;

/** No view takes bytes for numbers. */
const BYTE: DType = { kind: "void", itemSize: 1, byteOrder: "none" };

type OpenIt = (signal?: AbortSignal) => Promise<Readable>;

/** The archives of a source, opened on request and kept. */
export class Sources {
  /** True if each request goes over a network, to a server other than the page's own. */
  isFar = false;
  readonly #places = new Map<string, OpenIt>();
  readonly #opened = new Map<string, Promise<Opened>>();

  async list(source: Source, watch: Watch<readonly Entry[]> = {}): Promise<readonly Entry[]> {
    this.isFar = source.kind === "url";
    const entries: Entry[] = [];
    let reported = 0;
    for await (const entry of this.#find(source, watch)) {
      entries.push(entry);
      if (entries.length - reported < BATCH) continue;
      watch.onProgress?.(entries.slice(reported));
      reported = entries.length;
    }
    return entries;
  }

  /** Opens an archive. Throws `NOT_FOUND` for one that was not listed, and the errors of opening it. */
  open(name: string, signal?: AbortSignal): Promise<Opened> {
    const openIt = this.#places.get(name);
    if (openIt === undefined)
      throw new SuperchunkError("NOT_FOUND", `no archive here is named "${name}"`, { path: name });
    return keepMade(this.#opened, name, () => {
      // The next call starts again.
      signal?.addEventListener("abort", () => this.#opened.delete(name));
      return openIt(signal).then(asTableIfOne);
    });
  }

  /** Only views of columns ask for it, and groups have none. */
  async openColumn({ archive, column }: Target): Promise<ReadableArray | BytesArchive> {
    return columnOf((await this.open(archive)) as WithColumns, column);
  }

  async *#find(source: Source, watch: Watch<readonly Entry[]>): AsyncGenerator<Entry> {
    if (source.kind === "server") {
      const response = await fetch(`${source.base}archives.json`, { signal: watch.signal ?? null });
      if (!response.ok)
        throw new SuperchunkError(
          "IO",
          `the server of this page cannot list its archives (it answered ${response.status}); its terminal says why`,
          { path: source.base },
        );
      const { archives } = (await response.json()) as {
        archives: (Entry & { readonly root: number; readonly path: string })[];
      };
      const stores = new Map<number, ReadableStore>();
      for (const { name, kind, error, root, path } of archives) {
        const store = stores.get(root) ?? withReadAhead(withCoalescing(new ServedStore(source.base, root)));
        stores.set(root, store);
        const openPlace = servedPlace(store, path, `${source.base}places/${root}/`);
        this.#places.set(name, (signal) => openAt(store, path, kind !== undefined, { openPlace, signal }));
        yield { name, kind, error };
      }
      return;
    }
    if (source.kind === "files") {
      const { findDropped } = await import("./dropped.ts");
      for await (const { found, openIt } of findDropped(source.files, openAt, watch.signal)) {
        if (found.isIndex === true) continue;
        const entry = entryOf(found, found.path === "" ? "/" : found.path);
        this.#places.set(entry.name, openIt);
        yield entry;
      }
      return;
    }
    const { findAtAddress } = await import("./address.ts");
    for await (const { name, found, openIt } of findAtAddress(source.url, openAt, watch.signal)) {
      this.#places.set(name, openIt);
      yield entryOf(found, name);
    }
  }
}

/** Opens what is at a path; nodes of Zarr, HDF5 and Blosc2 without the code of archives. */
async function openAt(store: ReadableStore, path: string, isNode: boolean, given: OpenAnyOptions) {
  const options = { openPlace: noPlace, ...given };
  if (isNode || HELD_NAMES.test(path) || /\.zarr(?:\/|$)/i.test(path)) {
    const { openNamed, openNode } = await import("../../open/open-node.ts");
    const node = (await openNamed(store, path, options)) ?? (await openNode(store, path, options));
    if (node !== undefined) return node;
  }
  return (await import("../../open/open.ts")).open(store, path, options);
}

/** The files of the page's own server, which can also list them. */
class ServedStore extends HttpStore {
  readonly #lists: string;

  constructor(base: string, root: number) {
    super(`${base}files/${root}/`, { fetch: fetchServed });
    this.#lists = `${base}list/${root}/`;
  }

  override async *list(folder: string, options: StoreOptions = {}): AsyncGenerator<ListEntry> {
    const response = await fetchServed(this.#lists + encodeKey(folder), { signal: options.signal ?? null });
    if (!response.ok)
      throw new SuperchunkError(
        response.status === 404 ? "UNSUPPORTED" : "IO",
        `the server does not list this folder (it answered ${response.status})`,
        { path: folder },
      );
    yield* ((await response.json()) as { readonly entries: readonly ListEntry[] }).entries;
  }
}

/** Fetches from the page's server. It says 502 if it could not read a file, and then another try does not help. */
async function fetchServed(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
  const response = await fetch(input, init);
  if (response.status !== 502) return response;
  const message =
    "the server of this page cannot read this file; its terminal says why. Let it read the file, and reload the page";
  throw new SuperchunkError("IO", message, { path: response.url });
}

/** Superchunks in other places. The page's server serves those that it may read as if they were in the array's own folder. */
function servedPlace(store: ReadableStore, array: string, places: string): OpenPlace {
  const home = (key: string): string => joinKey(array, `data/${key.slice(key.indexOf("/") + 1)}`);
  return async ({ name, prefix }) => {
    if (!(await fetch(places + encodeKey(array))).ok)
      throw elsewhere(name, prefix, "this server may not read; start it with");
    return {
      describe: (key) => store.describe(home(key)),
      get: (key, options) => store.get(home(key), options),
      getRange: (key, range, options) => store.getRange(home(key), range, options),
      stat: (key, options) => store.stat(home(key), options),
      list: (folder, options) => store.list(home(folder), options),
    };
  };
}

const noPlace: OpenPlace = ({ name, prefix }) => {
  throw elsewhere(name, prefix, "a page cannot reach; use superchunk view PATH");
};

function elsewhere(name: string, prefix: string, what: string): SuperchunkError {
  const message = `superchunks of this array are in the place "${name}" (${prefix}), which ${what} --allow "${prefix}"`;
  return new SuperchunkError("UNSAFE_PATH", message, { found: prefix });
}

function entryOf({ group, array, error }: FoundReadable, name: string): Entry {
  const kind = group !== undefined ? "group" : array !== undefined ? "array" : undefined;
  return {
    name,
    kind,
    error: error === undefined ? undefined : error instanceof Error ? error.message : String(error),
  };
}

async function asTableIfOne(node: Readable): Promise<Opened> {
  if (node.kind !== "group") return node;
  try {
    const arrays = await node.arrays();
    // Arrays of nested groups are not columns of one table.
    return arrays.length !== undefined && arrays.names.length > 0 ? (arrays as Table) : node;
  } catch (error) {
    if (!isSuperchunkError(error)) throw error;
    return node;
  }
}

function isTable(node: Opened): node is Table {
  return node.kind === "table" || (node.kind === "group" && "names" in node);
}

/** A column of an opened archive; the whole archive for the empty name. */
function columnOf(node: WithColumns, name: string): ReadableArray | BytesArchive {
  if (isTable(node)) {
    if (node.names.includes(name)) return node.column(name);
  } else if (node.kind === "bytes" || name === "") return node;
  const [first = "", ...rest] = name.split("/");
  return columnOf(node.column(first), rest.join("/"));
}

/** What is shown of an opened archive. Reads nothing. */
export function factsOf(name: string, node: Opened): NodeFacts {
  const { dialect, attrs, metadata, warnings } = node;
  const table = isTable(node);
  const isGroup = node.kind === "group" && !table;
  return {
    name,
    kind: table ? "table" : node.kind,
    dialect,
    place: node.store.describe(node.path),
    nbytes: isGroup ? 0 : (node as { readonly nbytes: number }).nbytes,
    length: lengthOf(node),
    columns: isGroup ? [] : columnsOf(node, ""),
    attrs: plain(attrs),
    metadata: plain(metadata),
    warnings,
  };
}

function lengthOf(node: Opened): number {
  if (isTable(node)) return node.length;
  if (node.kind === "group") return 0;
  return node.kind === "bytes" ? node.nbytes : (node.shape.at(0) ?? 1);
}

function columnsOf(node: Opened, name: string): ColumnFacts[] {
  if (node.kind === "bytes") {
    const { nbytes, nchunks } = node;
    const cut = { shape: [nbytes], chunkLength: undefined, chunkShape: undefined };
    return [{ name, dtype: BYTE, typeName: "bytes", nbytes, nchunks, ...cut }];
  }
  if (node.kind === "group" && !isTable(node)) return [];
  const given = isTable(node) ? node.names : node.columnNames;
  const isAlphabetical = given.every((each, i) => i === 0 || (given[i - 1] ?? "") < each);
  const inner = isAlphabetical ? [...given].sort(byName) : given;
  if (inner.length > 0 || isTable(node))
    return inner.flatMap((each) => columnsOf(node.column(each), name === "" ? each : `${name}/${each}`));
  const { dtype, shape, nbytes, nchunks, chunkLength } = node;
  const cut = { chunkShape: chunkShapeOf(node), cuts: cutsOf(node), run: runOf(node) };
  const filled = (node as Partial<Pick<ArrayArchive, "filled">>).filled;
  return [{ name, dtype, typeName: typeName(dtype), shape, nbytes, nchunks, chunkLength, ...cut, filled }];
}

/** Values of a chunk along each dimension: archives are cut along the one that varies slowest. */
export function chunkShapeOf(array: ReadableArray): readonly number[] | undefined {
  const { shape, order, chunkLength } = array;
  const { model, chunkShape } = array as Partial<ZarrArray>;
  if (model?.axes.some(({ lengths }) => lengths.length > 1)) return undefined;
  if (chunkShape !== undefined || chunkLength === undefined || shape.length === 0) return chunkShape;
  return order === "F" ? [...shape.slice(0, -1), chunkLength] : [chunkLength, ...shape.slice(1)];
}

/** Most chunks along all dimensions, if they have different lengths. */
const MOST_CUTS = 100_000;

/** Where chunks of different lengths begin along each dimension; undefined for shards. */
export function cutsOf(array: ReadableArray): ColumnFacts["cuts"] {
  const { model } = array as Partial<ZarrArray>;
  if (model === undefined || chunkShapeOf(array) !== undefined || model.chain.serializer.kind !== "bytes")
    return undefined;
  const { axes } = model;
  if (axes.reduce((sum, { count }) => sum + count, 0) > MOST_CUTS) return undefined;
  return axes.map(({ count, startOf }) => Array.from({ length: count }, (_, i) => startOf(i)));
}

/** For an array whose chunks end inside of rows: the number of values in each. */
export function runOf(array: ReadableArray): ColumnFacts["run"] {
  const { shape, order, chunkBytes, dtype, chunkLength } = array;
  const length = chunkBytes / dtype.itemSize;
  const isRun = "encodedChunks" in array && shape.length > 1 && chunkLength === undefined;
  return isRun && Number.isInteger(length) && length > 0 ? { length, order } : undefined;
}

/** A data type by the name that numpy's users know. */
export function typeName(dtype: DType): string {
  switch (dtype.kind) {
    case "int":
    case "uint":
    case "float":
    case "complex":
      return `${dtype.kind}${8 * dtype.itemSize}`;
    case "datetime":
    case "timedelta":
      return `${dtype.kind}64[${dtype.scale === 1 ? "" : dtype.scale}${dtype.unit}]`;
    case "bytes":
      return `S${dtype.itemSize}`;
    case "unicode":
      return `U${dtype.itemSize / 4}`;
    case "struct":
      return `{${dtype.fields.map(({ name, dtype: of, shape }) => `${name}: ${typeName(of)}${shape.length === 0 ? "" : `[${shape.join(", ")}]`}`).join(", ")}}`;
    case "bool":
    case "object":
      return dtype.kind;
    case "void":
      return String(formatDType(dtype));
  }
}

/** JSON that can be posted: without classes, and of limited length. */
function plain<T extends object>(value: T): T {
  const text =
    JSON.stringify(value, (_, each) => (typeof each === "bigint" ? each.toString() : each)) ?? "{}";
  return (
    text.length > MOST_JSON ? { "too long to show": `${text.length} characters` } : JSON.parse(text)
  ) as T;
}

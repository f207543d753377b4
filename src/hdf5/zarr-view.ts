/**
 * An HDF5 file as a store of Zarr v2: its groups are Zarr groups, its datasets Zarr arrays, and its chunks the same bytes, read in
 * place.
 *
 * All code that reads Zarr arrays can therefore read datasets, and Blosc chunks are copied without recompressing. Contiguous values
 * are shown as chunks of about a mebibyte. Read-only.
 */
import { at, elementsOf } from "../bytes/arrays.ts";
import { isSuperchunkError, SuperchunkError } from "../errors.ts";
import { parseDType } from "../format/dtype.ts";
import { stringifyJson } from "../format/json.ts";
import type { JsonObject, JsonValue } from "../format/types.ts";
import { joinKey, resolveRange, splitKey } from "../store/key.ts";
import type { ByteRange, ListEntry, ObjectInfo, ReadableStore, StoreOptions } from "../store/types.ts";
import type { Chain } from "../zarr/codecs/chain.ts";
import { V2_DOCUMENTS, v2Chain } from "../zarr/document/metadata-v2.ts";
import type { ZarrArray } from "../zarr/read/array.ts";
import type { ZarrGroup } from "../zarr/read/group.ts";
import { type OpenZarrOptions, openZarr } from "../zarr/read/open.ts";
import { type Hdf5Chunk, listChunks } from "./chunks.ts";
import { fillAttribute, fillJson, itemOf } from "./datatype.ts";
import { Hdf5File } from "./file.ts";
import { asZarrFilter, BLOSC2, encodeAll, undo, unframe } from "./filters.ts";
import { type Hdf5Dataset, type Hdf5Group, readObject } from "./objects.ts";

/** Approximate chunk size for contiguous values, in bytes. */
const PIECE = 1 << 20;
/** Most bytes of an item: a fill value has as many, in memory and in a document. */
const MAX_ITEM = 16 << 20;
/** The attribute for names of dimensions, as xarray writes it. */
const DIMENSIONS = "_ARRAY_DIMENSIONS";
/** Attributes with which HDF5's dimension scales refer to one another. */
const OF_DIMENSIONS: ReadonlySet<string> = new Set(["DIMENSION_LIST", "REFERENCE_LIST"]);
/** Most nested groups. */
const MAX_DEPTH = 64;
/** Most soft links in a row. */
const MAX_LINKS = 16;

/** How a chunk is shown: a part of the file, bytes of the dataset's header, or another encoding of them. */
interface Shown {
  readonly size: number;
  readonly place?: Hdf5Chunk;
  /** Zero bytes to add after the stored ones. */
  readonly padding?: number;
  make?(stored: Uint8Array): Promise<Uint8Array>;
}

/** A dataset as a Zarr array. */
interface ShownArray {
  readonly document: JsonObject;
  chunk(name: string): Shown | undefined;
  names(): Iterable<string>;
  /** Why a chunk, or any of them, is encoded; of frames of Blosc2 the first one says it for all. `read` reads a chunk. */
  why?(
    name: string | undefined,
    read: (place: Hdf5Chunk) => Promise<Uint8Array>,
  ): Promise<string | undefined>;
}

/** A group or a dataset, with the addresses of its parent groups and itself. */
type Node = { readonly above: ReadonlySet<number>; readonly address: number } & (
  | { readonly object: Hdf5Group; readonly array?: undefined }
  | { readonly object: Hdf5Dataset; readonly array: Promise<ShownArray> }
);

/** The file as a store. Keys are those of a Zarr v2 hierarchy. */
export class Hdf5Store implements ReadableStore {
  readonly #file: Hdf5File;
  readonly #nodes = new Map<string, Promise<Node | undefined>>();

  constructor(file: Hdf5File) {
    this.#file = file;
  }

  /** The file, as an object of its store. */
  get file(): Pick<Hdf5File, "store" | "key" | "path"> {
    return this.#file;
  }

  /** The place of a chunk in the file; undefined if it is generated or padded when it is read. */
  async placeOf(key: string): Promise<Hdf5Chunk | undefined> {
    const shown = await this.#chunk(key);
    return shown?.make === undefined && (shown?.padding ?? 0) === 0 ? shown?.place : undefined;
  }

  /** The HDF5 object at a path. */
  async objectAt(path: string): Promise<Hdf5Dataset | Hdf5Group | undefined> {
    return (await this.#node(path))?.object;
  }

  describe(key: string): string {
    return key === "" ? this.#file.path : `${this.#file.path}/${key}`;
  }

  async get(key: string, options?: StoreOptions): Promise<Uint8Array | undefined> {
    const document = await this.#document(key);
    if (document !== undefined) return document;
    const shown = await this.#chunk(key);
    return shown && this.#read(shown, options);
  }

  async getRange(key: string, range: ByteRange, options?: StoreOptions): Promise<Uint8Array | undefined> {
    const shown = await this.#chunk(key);
    if (shown?.place !== undefined && shown.make === undefined && shown.padding === undefined) {
      const { offset, length } = resolveRange(range, shown.size, key);
      const part = { offset: shown.place.position + offset, length };
      return length === 0 ? new Uint8Array(0) : this.#file.store.getRange(this.#file.key, part, options);
    }
    const bytes = await this.get(key, options);
    if (bytes === undefined) return undefined;
    const { offset, length } = resolveRange(range, bytes.length, key);
    return bytes.subarray(offset, offset + length);
  }

  async stat(key: string): Promise<ObjectInfo | undefined> {
    const shown = await this.#chunk(key);
    const made = shown?.make === undefined ? shown : { size: (await this.#read(shown)).length };
    const size = made === undefined ? (await this.#document(key))?.length : made.size;
    return size === undefined ? undefined : { size, version: `${this.#file.version}:${key}` };
  }

  async *list(folder: string): AsyncGenerator<ListEntry> {
    const node = await this.#node(folder);
    if (node === undefined) return;
    const document = node.array === undefined ? V2_DOCUMENTS.group : V2_DOCUMENTS.array;
    for (const name of [document, V2_DOCUMENTS.attributes]) yield { name, kind: "object" };
    if (node.array !== undefined)
      for (const name of (await node.array).names()) yield { name, kind: "object" };
    else for (const name of node.object.links.keys()) yield { name, kind: "folder" };
  }

  async whyEncoded(key: string, options?: StoreOptions): Promise<string | undefined> {
    const read = (place: Hdf5Chunk): Promise<Uint8Array> => this.#stored(place, options);
    const array = await (await this.#node(key))?.array;
    if (array !== undefined) return array.why?.(undefined, read);
    const { folder, name } = splitKey(key);
    return (await (await this.#node(folder))?.array)?.why?.(name, read);
  }

  async attributesLeft(path: string): Promise<readonly string[]> {
    const left = (await this.#node(path))?.object.attrsLeft ?? [];
    return left.filter((name) => !OF_DIMENSIONS.has(name));
  }

  async close(): Promise<void> {
    await this.#file.store.close?.();
  }

  async #read({ place, padding = 0, make, size }: Shown, options?: StoreOptions): Promise<Uint8Array> {
    if (place === undefined) return (await make?.(new Uint8Array(0))) ?? new Uint8Array(size);
    const bytes = await this.#stored(place, options);
    if (make !== undefined) return make(bytes);
    if (padding === 0) return bytes;
    const padded = new Uint8Array(place.size + padding);
    padded.set(bytes);
    return padded;
  }

  async #stored(place: Hdf5Chunk, options?: StoreOptions): Promise<Uint8Array> {
    const { store, key, path } = this.#file;
    const bytes = await store.getRange(key, { offset: place.position, length: place.size }, options);
    if (bytes?.length !== place.size)
      throw new SuperchunkError(
        "TRUNCATED",
        `a chunk of ${place.size} bytes at byte ${place.position} reaches over the end of the file, which is truncated; look for a complete copy`,
        { path, offset: place.position, expected: place.size, found: bytes?.length ?? 0 },
      );
    return bytes;
  }

  async #document(key: string): Promise<Uint8Array | undefined> {
    const { folder, name } = splitKey(key);
    const documents: readonly string[] = [V2_DOCUMENTS.array, V2_DOCUMENTS.group, V2_DOCUMENTS.attributes];
    if (!documents.includes(name)) return undefined;
    const node = await this.#node(folder);
    if (node === undefined) return undefined;
    const text = (value: JsonValue): Uint8Array => new TextEncoder().encode(stringifyJson(value));
    if (name === V2_DOCUMENTS.attributes) return text(await this.#attributes(folder, node.object));
    if (name === V2_DOCUMENTS.group) return node.array === undefined ? text({ zarr_format: 2 }) : undefined;
    return node.array === undefined ? undefined : text((await node.array).document);
  }

  /**
   * The attributes, with the names of a dataset's dimensions: those of their scales in its group, or in a group above. Without them if
   * any is unknown.
   */
  async #attributes(path: string, object: Hdf5Dataset | Hdf5Group): Promise<JsonObject> {
    if (object.kind === "group") return object.attrs;
    const { shape, scales } = object;
    const fill = object.attrs["_FillValue"];
    const attrs =
      fill === undefined
        ? object.attrs
        : { ...object.attrs, _FillValue: fillAttribute(object.type.numpy, fill) };
    const names = new Set<string>();
    if (attrs["CLASS"] === "DIMENSION_SCALE" && shape.length === 1) names.add(splitKey(path).name);
    for (const address of scales)
      for (let folder = path; address !== undefined && folder !== ""; ) {
        ({ folder } = splitKey(folder));
        const links = (await this.#node(folder))?.object;
        const found =
          links?.kind === "group" && [...links.links].find(([, each]) => each.address === address);
        if (!found) continue;
        names.add(found[0]);
        break;
      }
    const isNamed = names.size > 0 && names.size === shape.length && attrs[DIMENSIONS] === undefined;
    return isNamed ? { ...attrs, [DIMENSIONS]: [...names] } : attrs;
  }

  async #chunk(key: string): Promise<Shown | undefined> {
    const { folder, name } = splitKey(key);
    if (!/^\d+(?:\.\d+)*$/.test(name)) return undefined;
    const node = await this.#node(folder);
    return node?.array === undefined ? undefined : (await node.array).chunk(name);
  }

  /** `followed`: the soft links that led here. Their targets are not cached, so that two of them never wait for each other. */
  #node(path: string, followed: readonly string[] = []): Promise<Node | undefined> {
    if (followed.length > 0) return this.#open(path, followed);
    const known = this.#nodes.get(path);
    if (known !== undefined) return known;
    const opening = this.#open(path, []);
    this.#nodes.set(path, opening);
    opening.catch(() => this.#nodes.delete(path));
    return opening;
  }

  async #open(path: string, followed: readonly string[]): Promise<Node | undefined> {
    let address: number | undefined = this.#file.root;
    const above = new Set<number>();
    if (path !== "") {
      const { folder, name } = splitKey(path);
      if (path.split("/").length > MAX_DEPTH)
        throw new SuperchunkError(
          "LIMIT",
          `groups are more than ${MAX_DEPTH} deep inside of one another; perhaps one holds itself`,
          { path: this.describe(path) },
        );
      const parent = await this.#node(folder, followed);
      if (parent === undefined || parent.array !== undefined) return undefined;
      const link = parent.object.links.get(name);
      if (link === undefined) return undefined;
      if (link.why !== undefined)
        throw new SuperchunkError("UNSUPPORTED", `it is ${link.why}; name what it leads to`, {
          path: this.describe(path),
        });
      address = link.address;
      for (const each of parent.above) above.add(each);
      const target = link.soft === undefined ? undefined : await this.#follow(path, link.soft, followed);
      if (above.has(target?.address ?? address ?? -1))
        throw new SuperchunkError(
          "UNSUPPORTED",
          "it is a link back to a group that it is in; name that group",
          { path: this.describe(path) },
        );
      if (target !== undefined) return { ...target, above: new Set([...above, target.address]) };
    }
    if (address === undefined) return undefined;
    const object = await readObject(this.#file, address).catch((error: unknown) => {
      if (!isSuperchunkError(error)) throw error;
      throw new SuperchunkError(error.code, error.summary, { ...error.details, path: this.describe(path) });
    });
    above.add(address);
    if (object.kind === "group") return { object, above, address };
    const array = showDataset(this.#file, object, this.describe(path));
    array.catch(() => undefined); // thrown when the array is requested
    return { object, array, above, address };
  }

  /** Follows a soft link: a path from the root, or relative to the group of the link. */
  async #follow(path: string, link: string, followed: readonly string[]): Promise<Node> {
    const from = link.startsWith("/") ? "" : splitKey(path).folder;
    const target = [...from.split("/"), ...link.split("/")]
      .filter((name) => name !== "" && name !== ".")
      .join("/");
    const isLoop = followed.includes(path) || followed.length >= MAX_LINKS;
    const found = isLoop ? undefined : await this.#node(target, [...followed, path]);
    if (found !== undefined) return found;
    throw new SuperchunkError(
      "UNSUPPORTED",
      isLoop
        ? "it is one of soft links that lead to one another"
        : `it is a soft link to "${link}", which the file does not have`,
      { path: this.describe(path), found: link },
    );
  }
}

/** A dataset as a Zarr v2 array. Throws UNSUPPORTED for datatypes and filters that Zarr arrays lack here. */
async function showDataset(file: Hdf5File, dataset: Hdf5Dataset, path: string): Promise<ShownArray> {
  const { layout } = dataset;
  const { type, dims } = itemOf(dataset.type);
  const shape = [...dataset.shape, ...dims];
  const fill = dataset.fill?.subarray(0, type.size);
  if (type.numpy === undefined)
    throw new SuperchunkError(
      "UNSUPPORTED",
      `its items are ${type.name}, which no array here can hold. Read it with h5py, and write it with another dtype of fixed length`,
      { path, field: "dtype", found: type.name },
    );
  if (type.size > MAX_ITEM)
    throw new SuperchunkError("LIMIT", `its items have ${type.size} bytes; ${MAX_ITEM} is the limit`, {
      path,
      field: "dtype",
      expected: MAX_ITEM,
      found: type.size,
    });
  if (dims.length > 0 && dataset.fill?.some((byte, i) => byte !== fill?.[i % type.size]))
    throw new SuperchunkError("UNSUPPORTED", "its items are sub-arrays whose fill value is not one value", {
      path,
      field: "fill_value",
    });
  const dtype = parseDType(type.numpy, path);
  const rowBytes = elementsOf(shape.slice(1)) * type.size;
  const chunks =
    layout.kind === "chunked"
      ? [...layout.chunks, ...dims]
      : shape.map((length, d) =>
          Math.max(
            1,
            d === 0 && layout.kind === "contiguous"
              ? Math.min(length, Math.floor(PIECE / Math.max(1, rowBytes)) || 1)
              : length,
          ),
        );
  const all =
    layout.kind === "chunked" ? dataset.filters.map((filter) => asZarrFilter(filter, { dataset, path })) : [];
  // Chunks of Blosc2 are rebuilt. Filters applied after Blosc2, mostly a checksum, are undone while reading and not shown.
  const framed = dataset.filters.findIndex(({ id }) => id === BLOSC2);
  const filters = framed < 0 ? all : all.slice(0, framed + 1);
  const document = {
    zarr_format: 2,
    shape,
    chunks,
    dtype: type.numpy,
    compressor: null,
    filters: filters.length === 0 ? null : filters,
    fill_value: fillJson(type.numpy, fill ?? new Uint8Array(type.size)),
    order: "C",
    dimension_separator: ".",
  };
  const nbytes = elementsOf(chunks) * type.size;
  if (layout.kind === "chunked") {
    const listed = await listChunks(file, dataset, layout);
    const stored =
      dims.length === 0
        ? listed
        : new Map([...listed].map(([name, place]) => [name + dims.map(() => ".0").join(""), place]));
    const chainOf = (list: readonly JsonObject[]): Chain =>
      v2Chain(dtype, shape.length, { order: "C", compressor: null, filters: list }, { path, field: "" });
    const edge = chunks.map((length, d) => Math.floor((shape[d] as number) / length));
    const isEdge = (name: string): boolean =>
      name.split(".").some((index, d) => Number(index) >= at(edge, d));
    // A chunk that lacks only Blosc is stored as it lies: Blosc has chunks of uncompressed bytes.
    const onlyBlosc = 2 ** all.findIndex((filter) => filter["id"] === "blosc");
    const uncompressed = filters.map((filter) =>
      filter["id"] === "blosc" ? { ...filter, clevel: 0 } : filter,
    );
    const leftOut = (name: string): number =>
      layout.bareEdges && isEdge(name)
        ? 2 ** all.length - 1
        : (stored.get(name)?.mask ?? 0) % 2 ** all.length;
    let whyFramed: Promise<string | undefined> | undefined;
    return {
      document,
      names: () => stored.keys(),
      why: async (name, read) => {
        const bare = (name === undefined ? [...stored.keys()] : [name]).filter(
          (each) => ![0, onlyBlosc].includes(leftOut(each)),
        );
        if (bare.length > 0)
          return `${bare.length} of its ${stored.size} chunks lack a filter that the others have, and in Zarr all have the same`;
        const [first] = stored.values();
        if (framed < 0 || first === undefined) return undefined;
        whyFramed ??= read(first).then(async (bytes) => {
          const { whyFrameEncoded } = await import("../blosc2/hdf5-chunk.ts");
          return whyFrameEncoded(await undo(bytes, chainOf(all.slice(framed + 1)), bytes.length));
        });
        return whyFramed;
      },
      chunk: (name) => {
        const place = stored.get(name);
        if (place === undefined) return undefined;
        const mask = leftOut(name);
        const isLeft = (i: number): boolean => ((mask >>> i) & 1) === 0;
        const left = all.filter((_, i) => isLeft(i));
        if (framed >= 0 && isLeft(framed)) {
          const inner = filters.filter((_, i) => isLeft(i));
          const outer = chainOf(left.slice(inner.length));
          const make = async (bytes: Uint8Array): Promise<Uint8Array> => {
            const rows = Math.min(at(chunks, 0), at(shape, 0) - Number.parseInt(name, 10) * at(chunks, 0));
            const least = (nbytes / at(chunks, 0)) * rows;
            const chunk = await unframe(bytes, outer, { nbytes, least, typesize: Math.min(255, type.size) });
            if (inner.length === filters.length) return chunk;
            return encodeAll(chunk, { from: chainOf(inner), to: chainOf(filters), nbytes });
          };
          return { size: place.size, place, make };
        }
        if (left.length === all.length) return { size: place.size, place };
        // A writer skips filters that would not make the chunk smaller, but Zarr readers expect all of them.
        return {
          size: place.size,
          place,
          make: (bytes) => {
            const to = chainOf(mask === onlyBlosc ? uncompressed : filters);
            return encodeAll(bytes, { from: chainOf(left), to, nbytes });
          },
        };
      },
    };
  }
  const total = elementsOf(shape) * type.size;
  const [rows = 1] = chunks;
  const [length = 1] = shape;
  const count = total === 0 ? 0 : Math.ceil(length / rows);
  const rest = shape
    .slice(1)
    .map(() => ".0")
    .join("");
  const position =
    layout.kind === "compact"
      ? layout.position
      : layout.address === undefined
        ? undefined
        : file.positionOf(layout.address);
  const nameOf = (index: number): string => `${index}${rest}`;
  return {
    document,
    *names() {
      if (position !== undefined) for (let i = 0; i < count; i++) yield nameOf(i);
    },
    chunk: (name) => {
      const index = Number(name.split(".")[0]);
      if (position === undefined || index >= count || name !== nameOf(index)) return undefined;
      const size = Math.min(nbytes, total - index * nbytes);
      return {
        size: nbytes,
        padding: nbytes - size,
        place: { position: position + index * nbytes, size, mask: 0 },
      };
    },
  };
}

/** The opened file; undefined if it is not HDF5. */
function openIfThere(
  store: ReadableStore,
  name: string,
  options: StoreOptions,
): Promise<Hdf5File | undefined | "absent"> {
  return Hdf5File.open(store, name, options).catch((error: unknown) => {
    if (isSuperchunkError(error, "NOT_FOUND")) return "absent";
    throw error;
  });
}

/**
 * Opens a key in an HDF5 file: its root, or a group or dataset whose path follows the file's key (`bars.h5/group/prices`). Undefined if
 * the file does not exist.
 *
 * @throws NOT_FOUND for a path that the file does not have; UNSUPPORTED for unknown datatypes, filters and layouts; the codes of damage
 */
export async function openHdf5Node(
  store: ReadableStore,
  key: string,
  options: OpenZarrOptions = {},
): Promise<ZarrArray | ZarrGroup | undefined> {
  const parts = key.split("/");
  const named = parts.findIndex((name) => /\.[a-z0-9]+$/i.test(name)) + 1;
  // The first part that looks like a file name is tried first, because each miss costs a request.
  for (const count of [named, ...parts.map((_, i) => parts.length - i)]) {
    const name = joinKey(...parts.slice(0, count));
    const file = count === 0 ? "absent" : await openIfThere(store, name, options);
    if (file === "absent") continue;
    if (file === undefined) return undefined;
    const inside = parts.slice(count).join("/");
    try {
      return await openZarr(new Hdf5Store(file), inside, { ...options, dialect: "hdf5" });
    } catch (error) {
      if (!isSuperchunkError(error, "NOT_FOUND")) throw error;
      throw new SuperchunkError(
        "NOT_FOUND",
        `the file has no group or dataset "${inside}"; "superchunk ls" lists what it has`,
        { path: file.path, found: inside },
      );
    }
  }
  return undefined;
}

/**
 * Datasets of HDF5 as arrays of Zarr v2: a document, and chunks as parts of the file or bytes that are made from them.
 *
 * Knows layouts, filters and datatypes; must not know groups.
 */
import { at, elementsOf } from "../bytes/arrays.ts";
import { SuperchunkError } from "../errors.ts";
import { parseDType } from "../format/dtype.ts";
import { jsonBytes } from "../format/json.ts";
import { V2_DOCUMENTS } from "../format/naming.ts";
import type { DType, JsonObject, JsonValue } from "../format/types.ts";
import { partOf } from "../store/key.ts";
import { keepMade } from "../store/pool.ts";
import type { ReadableStore, StoreOptions } from "../store/types.ts";
import type { Chain } from "../zarr/codecs/chain.ts";
import { v2Chain } from "../zarr/document/metadata-v2.ts";
import { openZarrArray } from "../zarr/read/open.ts";
import { type ChunkedLayout, ChunkIndex, type Hdf5Chunk } from "./chunks.ts";
import { fillJson, hasText, itemOf } from "./datatype.ts";
import type { Hdf5File } from "./file.ts";
import {
  ADDED,
  asZarrFilter,
  BLOSC2,
  encodeAll,
  LZF_CODEC,
  sumBytesOf,
  undo,
  unframe,
  whyForeign,
} from "./filters.ts";
import type { Hdf5Dataset, Hdf5Group, Hdf5Layout } from "./objects.ts";

/** Approximate chunk size for contiguous values, in bytes. */
const PIECE = 1 << 20;
/** Most bytes of an item: a fill value has as many, in memory and in a document. */
const MAX_ITEM = 16 << 20;

/** Compressor of chunks that are made. */
const MADE: JsonObject = { id: "blosc", cname: "lz4", clevel: 5, shuffle: 1, blocksize: 0 };

/** How a chunk is shown: a part of the file, bytes of the dataset's header, or another encoding of them. */
export interface Shown {
  /** Its bytes; undefined if they are known only after it was made. */
  readonly size: number | undefined;
  readonly place?: Hdf5Chunk;
  /** Bytes that it takes in the file, if it has no place of its own. */
  readonly stored?: number;
  /** Zero bytes to add after the stored ones. */
  readonly padding?: number;
  make?(stored: Uint8Array): Promise<Uint8Array>;
}

/** A dataset as a Zarr array. */
export interface ShownArray {
  readonly document: JsonObject;
  chunk(name: string): Shown | undefined | Promise<Shown | undefined>;
  names(): Iterable<string> | Promise<Iterable<string>>;
  /** Why a chunk, or any of them, is encoded; of frames of Blosc2 the first one says it for all. `read` reads a chunk. */
  why?(
    name: string | undefined,
    read: (place: Hdf5Chunk) => Promise<Uint8Array>,
  ): Promise<string | undefined>;
}

/**
 * True for a named datatype without attributes, and for what netCDF stores for a dimension that has no variable: only its length is meant,
 * and its values are zeros.
 */
export function isWithoutValues(object: Hdf5Dataset | Hdf5Group): boolean {
  if (object.kind === "group") return object.isDatatype && Object.keys(object.attrs).length === 0;
  const { attrs } = object;
  const name = attrs["NAME"];
  return (
    attrs["CLASS"] === "DIMENSION_SCALE" &&
    typeof name === "string" &&
    name.startsWith("This is a netCDF dimension but not a netCDF variable")
  );
}

export async function readShown(
  file: Hdf5File,
  { place, padding = 0, make, size }: Shown,
  options?: StoreOptions,
): Promise<Uint8Array> {
  if (place === undefined) return (await make?.(new Uint8Array(0))) ?? new Uint8Array(size ?? 0);
  const bytes = await readStored(file, place, options);
  if (make !== undefined) return make(bytes);
  if (padding === 0) return bytes;
  const padded = new Uint8Array(place.size + padding);
  padded.set(bytes);
  return padded;
}

export async function readStored(
  file: Hdf5File,
  place: Hdf5Chunk,
  options?: StoreOptions,
): Promise<Uint8Array> {
  const bytes = await file.read(place.position, place.size, options);
  if (bytes?.length !== place.size)
    throw new SuperchunkError(
      "TRUNCATED",
      `a chunk of ${place.size} bytes at byte ${place.position} reaches past the end of the file, which is truncated; look for a complete copy`,
      { path: file.path, offset: place.position, expected: place.size, found: bytes?.length ?? 0 },
    );
  return bytes;
}

/** A dataset with text of variable length as an array with text of one length, whose chunks are made when they are read. */
async function showText(file: Hdf5File, dataset: Hdf5Dataset, path: string): Promise<ShownArray> {
  const { textArray } = await import("./text.ts");
  const { type, dims } = itemOf(dataset.type);
  const item = { size: type.size, name: "places", numpy: `|V${type.size}` };
  const all = { ...item, size: dataset.type.size, sub: { dims, item } };
  const places = await showDataset(file, { ...dataset, type: dims.length === 0 ? item : all }, path);
  const read = async (key: string): Promise<Uint8Array | undefined> => {
    if (key === V2_DOCUMENTS.array) return jsonBytes(places.document);
    const shown = await places.chunk(key);
    return shown && readShown(file, shown);
  };
  const store: ReadableStore = {
    describe: () => path,
    get: read,
    getRange: async (key, range) => {
      const bytes = await read(key);
      return bytes && partOf(bytes, range, key);
    },
    stat: async (key) => {
      const bytes = await read(key);
      return bytes && { size: bytes.length, version: file.version };
    },
    async *list() {},
  };
  const shape = [...dataset.shape, ...dims];
  const { numpy, chunks, count, textBytes, make, why } = await textArray(
    file,
    await openZarrArray(store, ""),
    { type, path },
  );
  const dtype = parseDType(numpy, path);
  const fill =
    typeof numpy === "string" && numpy.startsWith("<U")
      ? ""
      : fillJson(numpy, new Uint8Array(dtype.itemSize));
  const { stages } = v2Chain(dtype, shape.length, { order: "C", filters: [MADE] }, { path, field: "" });
  let stored = textBytes;
  for (const name of await places.names()) stored += (await places.chunk(name))?.place?.size ?? 0;
  const rest = ".0".repeat(Math.max(0, shape.length - 1));
  return {
    document: { ...places.document, chunks, dtype: numpy, filters: [MADE], fill_value: fill },
    *names() {
      for (let i = 0; i < count; i++) yield `${i}${rest}`;
    },
    why: async () => why,
    chunk: (name) => {
      const index = Number(name.split(".")[0]);
      if (index >= count || name !== `${index}${rest}`) return undefined;
      const made = async (): Promise<Uint8Array> => {
        let bytes = await make(index);
        for (const stage of stages) bytes = await stage.encode(bytes);
        return bytes;
      };
      return { size: undefined, stored: Math.round(stored / count), make: made };
    },
  };
}

/** A dataset as a Zarr v2 array. Throws UNSUPPORTED for datatypes and filters that Zarr arrays lack here. */
export async function showDataset(file: Hdf5File, dataset: Hdf5Dataset, path: string): Promise<ShownArray> {
  if (isWithoutValues(dataset))
    throw new SuperchunkError(
      "UNSUPPORTED",
      `it is a dimension of netCDF without a variable: it has a length (${dataset.shape.join()}), and no values`,
      { path },
    );
  if (hasText(itemOf(dataset.type).type)) return showText(file, dataset, path);
  const items = describeItems(dataset, path);
  const { layout } = dataset;
  if (layout.kind !== "chunked") return showPieces(file, layout, items);
  const filters = dataset.filters.map((filter) => asZarrFilter(filter, { dataset, path }));
  return new FilteredArray(items, {
    layout,
    filters,
    index: new ChunkIndex(file, dataset, layout),
    framed: dataset.filters.findIndex(({ id }) => id === BLOSC2),
    foreign: whyForeign(dataset),
  });
}

/** What the Zarr array of a dataset holds, wherever its values lie. */
interface Items {
  readonly path: string;
  readonly numpy: JsonValue;
  readonly dtype: DType;
  /** The shape of the dataset, followed by that of sub-arrays. */
  readonly shape: readonly number[];
  /** Dimensions of sub-arrays, along which a chunk has all items. */
  readonly dims: readonly number[];
  readonly fill: JsonValue;
}

/** Throws UNSUPPORTED or LIMIT for items that no array here can hold. */
function describeItems(dataset: Hdf5Dataset, path: string): Items {
  const { type, dims } = itemOf(dataset.type);
  const { numpy, size: itemSize } = type;
  if (numpy === undefined)
    throw new SuperchunkError(
      "UNSUPPORTED",
      `its items are ${type.name}, which no array here can hold. Read it with h5py, and write it with another dtype of fixed length`,
      { path, field: "dtype", found: type.name },
    );
  if (itemSize > MAX_ITEM)
    throw new SuperchunkError("LIMIT", `its items have ${itemSize} bytes; ${MAX_ITEM} is the limit`, {
      path,
      field: "dtype",
      expected: MAX_ITEM,
      found: itemSize,
    });
  const fill = dataset.fill?.subarray(0, itemSize);
  if (dims.length > 0 && dataset.fill?.some((byte, i) => byte !== fill?.[i % itemSize]))
    throw new SuperchunkError("UNSUPPORTED", "its items are sub-arrays whose fill value is not one value", {
      path,
      field: "fill_value",
    });
  return {
    path,
    numpy,
    dtype: parseDType(numpy, path),
    shape: [...dataset.shape, ...dims],
    dims,
    fill: fillJson(numpy, fill ?? new Uint8Array(itemSize)),
  };
}

function documentOf(
  { shape, numpy, fill }: Items,
  chunks: readonly number[],
  filters: readonly JsonObject[],
): JsonObject {
  return {
    zarr_format: 2,
    shape,
    chunks,
    dtype: numpy,
    compressor: null,
    filters: filters.length === 0 ? null : filters,
    fill_value: fill,
    order: "C",
    dimension_separator: ".",
  };
}

/** Values in one piece, contiguous or in the dataset's header: a chunk is some of the rows. */
function showPieces(file: Hdf5File, layout: Exclude<Hdf5Layout, ChunkedLayout>, items: Items): ShownArray {
  const { shape, dtype, path } = items;
  const [length = 1, ...others] = shape;
  const rowBytes = elementsOf(others) * dtype.itemSize;
  const total = elementsOf(shape) * dtype.itemSize;
  if (layout.kind === "compact" && layout.length < total)
    throw new SuperchunkError(
      "BAD_FIELD",
      `its header holds ${layout.length} bytes of values, but its shape needs ${total}; the file is damaged`,
      { path, field: "layout", expected: total, found: layout.length },
    );
  const most = layout.kind === "contiguous" ? Math.floor(PIECE / Math.max(1, rowBytes)) || 1 : length;
  const rows = Math.max(1, Math.min(length, most));
  const chunks = shape.length === 0 ? [] : [rows, ...others.map((n) => Math.max(1, n))];
  const nbytes = elementsOf(chunks) * dtype.itemSize;
  const count = total === 0 ? 0 : Math.ceil(length / rows);
  const rest = ".0".repeat(others.length);
  const nameOf = (index: number): string => `${index}${rest}`;
  const position =
    layout.kind === "compact"
      ? layout.position
      : layout.address === undefined
        ? undefined
        : file.positionOf(layout.address);
  return {
    document: documentOf(items, chunks, []),
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

interface FilteredChunks {
  readonly layout: ChunkedLayout;
  /** The filters of the dataset as Zarr calls them. */
  readonly filters: readonly JsonObject[];
  readonly index: ChunkIndex;
  /** Position of Blosc2 among the filters; -1 without it. */
  readonly framed: number;
  /** Why readers of Zarr cannot undo the filters. */
  readonly foreign: string | undefined;
}

/**
 * Chunks with filters. A chunk is a part of the file if Zarr's codecs undo its filters. It is made from that part if it is a frame of
 * Blosc2, has filters that Zarr cannot undo, or lacks a filter that the document names.
 */
class FilteredArray implements ShownArray {
  readonly document: JsonObject;
  readonly #items: Items;
  readonly #given: FilteredChunks;
  readonly #chunks: readonly number[];
  /** The filters of the document. Those applied after Blosc2, mostly a checksum, are undone while reading and not shown. */
  readonly #shown: readonly JsonObject[];
  /** The mask of a chunk that lacks only Blosc; no mask if Blosc is not among the filters. */
  readonly #onlyBlosc: number;
  readonly #whyFramed = new Map<0, Promise<string | undefined>>();

  constructor(items: Items, given: FilteredChunks) {
    const { layout, filters, framed, foreign } = given;
    this.#items = items;
    this.#given = given;
    this.#chunks = [...layout.chunks, ...items.dims];
    this.#shown = foreign !== undefined ? [MADE] : framed < 0 ? filters : filters.slice(0, framed + 1);
    this.#onlyBlosc = 2 ** filters.findIndex(({ id }) => id === "blosc");
    this.document = documentOf(items, this.#chunks, this.#shown);
  }

  async names(): Promise<Iterable<string>> {
    const stored = await this.#given.index.all();
    const ending = this.#ending;
    return (function* () {
      for (const name of stored.keys()) yield name + ending;
    })();
  }

  async why(
    name: string | undefined,
    read: (place: Hdf5Chunk) => Promise<Uint8Array>,
  ): Promise<string | undefined> {
    if (this.#given.foreign !== undefined) return `its chunks are ${this.#given.foreign}`;
    const stored = await this.#given.index.all();
    let bare = 0;
    for (const each of name === undefined ? stored.keys() : [this.#inFile(name)]) {
      const place = stored.get(each);
      if (place !== undefined && ![0, this.#onlyBlosc].includes(this.#leftOut(each, place))) bare++;
    }
    if (bare > 0)
      return `${bare} of its ${stored.size} chunks lack a filter that the others have, and in Zarr all have the same`;
    const [first] = stored.values();
    if (this.#given.framed < 0 || first === undefined) return undefined;
    return keepMade(this.#whyFramed, 0, async () => {
      const bytes = await read(first);
      const { whyFrameEncoded } = await import("../blosc2/hdf5-chunk.ts");
      const outer = this.#chainOf(this.#given.filters.slice(this.#given.framed + 1));
      return whyFrameEncoded(await undo(bytes, outer, bytes.length));
    });
  }

  async chunk(name: string): Promise<Shown | undefined> {
    const place = await this.#given.index.find(this.#inFile(name));
    if (place === undefined) return undefined;
    const mask = this.#leftOut(name, place);
    const isApplied = (i: number): boolean => ((mask >>> i) & 1) === 0;
    const { filters, framed, foreign } = this.#given;
    const applied = filters.filter((_, i) => isApplied(i));
    if (framed >= 0 && isApplied(framed)) {
      const inner = filters.slice(0, framed + 1).filter((_, i) => isApplied(i));
      const outer = this.#chainOf(applied.slice(inner.length));
      return { size: undefined, place, make: (bytes) => this.#unframe(name, bytes, inner, outer) };
    }
    if (foreign === undefined && applied.length === filters.length) return { size: place.size, place };
    // A writer skips filters that would not make the chunk smaller, but Zarr readers expect all of them.
    const make = (bytes: Uint8Array): Promise<Uint8Array> => {
      const to = this.#chainOf(mask === this.#onlyBlosc ? this.#shown.map(withoutCompression) : this.#shown);
      return encodeAll(bytes, { from: this.#chainOf(applied), to, nbytes: this.#nbytes });
    };
    return { size: undefined, place, make };
  }

  /** Converts a frame of Blosc2. `inner`: the filters of the chunk up to Blosc2; `outer`: those applied after it. */
  async #unframe(
    name: string,
    bytes: Uint8Array,
    inner: readonly JsonObject[],
    outer: Chain,
  ): Promise<Uint8Array> {
    const nbytes = this.#nbytes;
    const rows = at(this.#chunks, 0);
    const present = Math.min(rows, at(this.#items.shape, 0) - Number.parseInt(name, 10) * rows);
    const typesize = Math.min(255, this.#items.dtype.itemSize);
    const isPacked = inner.slice(0, -1).some(({ id }) => id !== "shuffle" && id !== "fletcher32");
    const size = isPacked
      ? { nbytes: nbytes + ADDED, sums: 0, least: undefined }
      : { nbytes, sums: sumBytesOf(inner), least: (nbytes / rows) * present };
    const { chunk, isSummed } = await unframe(bytes, outer, { ...size, typesize });
    // PyTables 3.8 and 3.9 leave the checksum out of chunks that they compress themselves.
    const applied = isSummed ? inner : inner.filter(({ id }) => id !== "fletcher32");
    if (this.#given.foreign === undefined && applied.length === this.#shown.length) return chunk;
    return encodeAll(chunk, { from: this.#chainOf(applied), to: this.#chainOf(this.#shown), nbytes });
  }

  /** The filters that a chunk lacks, as bits. */
  #leftOut(name: string, { mask }: Hdf5Chunk): number {
    const all = 2 ** this.#given.filters.length;
    return this.#given.layout.bareEdges && this.#isEdge(name) ? all - 1 : mask % all;
  }

  #isEdge(name: string): boolean {
    const { shape } = this.#items;
    return name
      .split(".")
      .some((index, d) => Number(index) >= Math.floor(at(shape, d) / at(this.#chunks, d)));
  }

  /** The name of a chunk in the file. */
  #inFile(name: string): string {
    return name.endsWith(this.#ending) ? name.slice(0, name.length - this.#ending.length) : "";
  }

  /** The end of a chunk's name in Zarr: sub-arrays lie in one chunk along their own dimensions. */
  get #ending(): string {
    return ".0".repeat(this.#items.dims.length);
  }

  /** Uncompressed bytes of a chunk. */
  get #nbytes(): number {
    return elementsOf(this.#chunks) * this.#items.dtype.itemSize;
  }

  #chainOf(filters: readonly JsonObject[]): Chain {
    const { dtype, path, shape } = this.#items;
    const settings = { order: "C", compressor: null, filters, codecs: LZF_CODEC } as const;
    return v2Chain(dtype, shape.length, settings, { path, field: "" });
  }
}

/** Blosc has chunks of uncompressed bytes, so a chunk that lacks only Blosc becomes one without compression. */
function withoutCompression(filter: JsonObject): JsonObject {
  return filter["id"] === "blosc" ? { ...filter, clevel: 0 } : filter;
}

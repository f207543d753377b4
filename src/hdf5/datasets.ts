/**
 * Datasets of HDF5 as arrays of Zarr v2: a document, and chunks as parts of the file or bytes that are made from them.
 *
 * Knows layouts, filters and datatypes; must not know groups.
 */
import { at, elementsOf } from "../bytes/arrays.ts";
import { SuperchunkError } from "../errors.ts";
import { parseDType } from "../format/dtype.ts";
import { stringifyJson } from "../format/json.ts";
import { V2_DOCUMENTS } from "../format/naming.ts";
import type { JsonObject, JsonValue } from "../format/types.ts";
import { resolveRange } from "../store/key.ts";
import type { ReadableStore, StoreOptions } from "../store/types.ts";
import type { Chain } from "../zarr/codecs/chain.ts";
import { v2Chain } from "../zarr/document/metadata-v2.ts";
import { openZarrArray } from "../zarr/read/open.ts";
import { type Hdf5Chunk, listHdf5Chunks } from "./chunks.ts";
import { fillJson, itemOf } from "./datatype.ts";
import type { Hdf5File } from "./file.ts";
import { asZarrFilter, BLOSC2, encodeAll, LZF, LZF_CODEC, undo, unframe } from "./filters.ts";
import type { Hdf5Dataset, Hdf5Group } from "./objects.ts";
import { hasText } from "./text.ts";

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
  chunk(name: string): Shown | undefined;
  names(): Iterable<string>;
  /** Why a chunk, or any of them, is encoded; of frames of Blosc2 the first one says it for all. `read` reads a chunk. */
  why?(
    name: string | undefined,
    read: (place: Hdf5Chunk) => Promise<Uint8Array>,
  ): Promise<string | undefined>;
}

/** True for what netCDF stores for a dimension that has no variable: only its length is meant, and its values are zeros. */
export function isBareDimension({ kind, attrs }: Hdf5Dataset | Hdf5Group): boolean {
  const name = attrs["NAME"];
  return (
    kind === "dataset" &&
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
  { store, key, path }: Hdf5File,
  place: Hdf5Chunk,
  options?: StoreOptions,
): Promise<Uint8Array> {
  const bytes = await store.getRange(key, { offset: place.position, length: place.size }, options);
  if (bytes?.length !== place.size)
    throw new SuperchunkError(
      "TRUNCATED",
      `a chunk of ${place.size} bytes at byte ${place.position} reaches over the end of the file, which is truncated; look for a complete copy`,
      { path, offset: place.position, expected: place.size, found: bytes?.length ?? 0 },
    );
  return bytes;
}

/** A document of JSON. */
export function asBytes(value: JsonValue): Uint8Array {
  return new TextEncoder().encode(stringifyJson(value));
}

/** A dataset with text of variable length as an array with text of one length, whose chunks are made when they are read. */
async function showText(file: Hdf5File, dataset: Hdf5Dataset, path: string): Promise<ShownArray> {
  const { textArray } = await import("./text.ts");
  const type = { size: dataset.type.size, name: "places", numpy: `|V${dataset.type.size}` };
  const places = await showDataset(file, { ...dataset, type }, path);
  const read = async (key: string): Promise<Uint8Array | undefined> => {
    if (key === V2_DOCUMENTS.array) return asBytes(places.document);
    const shown = places.chunk(key);
    return shown && readShown(file, shown);
  };
  const store: ReadableStore = {
    describe: () => path,
    get: read,
    getRange: async (key, range) => {
      const bytes = await read(key);
      const { offset, length } = resolveRange(range, bytes?.length ?? 0, key);
      return bytes?.subarray(offset, offset + length);
    },
    stat: async (key) => {
      const bytes = await read(key);
      return bytes && { size: bytes.length, version: file.version };
    },
    async *list() {},
  };
  const { shape } = dataset;
  const { numpy, chunks, count, textBytes, make, why } = await textArray(
    file,
    await openZarrArray(store, ""),
    {
      type: dataset.type,
      path,
    },
  );
  const dtype = parseDType(numpy, path);
  const fill =
    typeof numpy === "string" && numpy.startsWith("<U")
      ? ""
      : fillJson(numpy, new Uint8Array(dtype.itemSize));
  const { stages } = v2Chain(dtype, shape.length, { order: "C", filters: [MADE] }, { path, field: "" });
  let stored = textBytes;
  for (const name of places.names()) stored += places.chunk(name)?.place?.size ?? 0;
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
  const { layout } = dataset;
  const { type, dims } = itemOf(dataset.type);
  const shape = [...dataset.shape, ...dims];
  const fill = dataset.fill?.subarray(0, type.size);
  if (isBareDimension(dataset))
    throw new SuperchunkError(
      "UNSUPPORTED",
      `it is a dimension of netCDF without a variable: it has a length (${shape.join()}), and no values`,
      { path },
    );
  if (dims.length === 0 && hasText(type)) return showText(file, dataset, path);
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
  const isPlain = dataset.filters.some(({ id }) => id === LZF);
  const filters = isPlain ? [MADE] : framed < 0 ? all : all.slice(0, framed + 1);
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
    const stored = await listHdf5Chunks(file, dataset, layout);
    // Sub-arrays lie in one chunk along their own dimensions.
    const ending = dims.map(() => ".0").join("");
    const placeOf = (name: string): Hdf5Chunk | undefined =>
      name.endsWith(ending) ? stored.get(name.slice(0, name.length - ending.length)) : undefined;
    const chainOf = (list: readonly JsonObject[]): Chain =>
      v2Chain(
        dtype,
        shape.length,
        { order: "C", compressor: null, filters: list, codecs: LZF_CODEC },
        { path, field: "" },
      );
    const edge = chunks.map((length, d) => Math.floor((shape[d] as number) / length));
    const isEdge = (name: string): boolean =>
      name.split(".").some((index, d) => Number(index) >= at(edge, d));
    // A chunk that lacks only Blosc is stored as it lies: Blosc has chunks of uncompressed bytes.
    const onlyBlosc = 2 ** all.findIndex((filter) => filter["id"] === "blosc");
    const uncompressed = filters.map((filter) =>
      filter["id"] === "blosc" ? { ...filter, clevel: 0 } : filter,
    );
    const leftOut = (name: string): number =>
      layout.bareEdges && isEdge(name) ? 2 ** all.length - 1 : (placeOf(name)?.mask ?? 0) % 2 ** all.length;
    let whyFramed: Promise<string | undefined> | undefined;
    return {
      document,
      *names() {
        for (const name of stored.keys()) yield name + ending;
      },
      why: async (name, read) => {
        if (isPlain) return "its chunks are compressed with LZF (filter 32000), which Zarr does not have";
        let bare = 0;
        for (const each of name === undefined ? stored.keys() : [name])
          if (![0, onlyBlosc].includes(leftOut(name ?? each + ending))) bare++;
        if (bare > 0)
          return `${bare} of its ${stored.size} chunks lack a filter that the others have, and in Zarr all have the same`;
        const [first] = stored.values();
        if (framed < 0 || first === undefined) return undefined;
        whyFramed ??= read(first).then(async (bytes) => {
          const { whyFrameEncoded } = await import("../blosc2/hdf5-chunk.ts");
          return whyFrameEncoded(await undo(bytes, chainOf(all.slice(framed + 1)), bytes.length));
        });
        return whyFramed;
      },
      chunk: (name) => {
        const place = placeOf(name);
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
          return { size: undefined, place, make };
        }
        if (!isPlain && left.length === all.length) return { size: place.size, place };
        // A writer skips filters that would not make the chunk smaller, but Zarr readers expect all of them.
        return {
          size: undefined,
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
  if (layout.kind === "compact" && layout.length < total)
    throw new SuperchunkError(
      "BAD_FIELD",
      `its header holds ${layout.length} bytes of values, and its shape needs ${total}; the file is damaged`,
      { path, field: "layout", expected: total, found: layout.length },
    );
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

/** `edit` and `create`: what lies at a place, or is made there, open for editing, whatever its format. */
import { openArrayFolder } from "../archive/open/open-array-folder.ts";
import type { ChunkEncoder } from "../codec/types.ts";
import { badArgument, isSuperchunkError, SuperchunkError } from "../errors.ts";
import { givenDType } from "../format/dtype.ts";
import type { DType, JsonObject, JsonValue } from "../format/types.ts";
import { joinKey, splitKey } from "../store/key.ts";
import { isWritable, type ReadableStore, type StoreOptions, type WritableStore } from "../store/types.ts";
import { asReadOnly } from "../store/wrappers/intercept.ts";
import { elementsOf } from "../values/selection.ts";
import { storedTimes } from "../values/time-value.ts";
import { createArray, openWritable, type WriterLock } from "../write/array/create.ts";
import { BcolzArray } from "../write/bcolz/bcolz-array.ts";
import { createCarray } from "../write/bcolz/carray-write.ts";
import { createTable } from "../write/bcolz/table-write.ts";
import { BloscpackFile } from "../write/bloscpack/bloscpack-file.ts";
import { compressArray } from "../write/bloscpack/bloscpack-write.ts";
import type { Editable, EditFormat } from "../write/editable.ts";
import { clearPlace } from "../write/layout/clear-place.ts";
import { parseDataType } from "../zarr/document/data-type.ts";
import { mapDType } from "../zarr/document/zarr-dtype.ts";
import { openZarr } from "../zarr/read/open.ts";
import { createZarr } from "../zarr/write/create.ts";
import { mendCopies, refuseDual } from "../zarr/write/node-document.ts";
import { WritableZarrArray } from "../zarr/write/writable-array.ts";
import type { Compressor, CreateOptions, EditOptions } from "./options.ts";
import { ZarrEdit } from "./zarr-array.ts";
import { createGroup, ZarrGroupEdit } from "./zarr-group.ts";

/**
 * Opens an array, a table, a file or a group for editing, and finishes what an interrupted writer began. `close` or
 * `await using` gives up the lock.
 *
 * @throws NOT_FOUND; READ_ONLY where the store or this version cannot write it; CONFLICT where another writer holds the lock;
 * UNSUPPORTED for what is never edited, with the reason; and the codes of damage
 */
export async function edit(store: ReadableStore, path: string, options: EditOptions = {}): Promise<Editable> {
  if (!isWritable(store))
    throw new SuperchunkError("READ_ONLY", "the store cannot write", { path: store.describe(path) });
  const { signal, readOnly } = options;
  const target = readOnly === true ? asReadOnly(store) : store;
  const format = await formatAt(store, path, { signal });
  const lock = readOnly === true ? undefined : options.lock;
  if (format === "blz") {
    const { encoder, modify, mirror } = options;
    const take = lock && (() => lock(joinKey(path, "meta/lock")));
    return openWritable(target, path, { encoder, modify, mirror, signal, readOnly, lock: take });
  }
  const key = await lockKey(store, path, format);
  const held = await lock?.(key);
  try {
    return await openHeld(target, path, { ...options, held, format });
  } catch (error) {
    await held?.release();
    throw error;
  }
}

/** A Zarr node. Copies of its document that a kill left behind are made right. */
async function openNode(
  store: WritableStore,
  path: string,
  {
    held,
    ...options
  }: EditOptions & { readonly held: WriterLock | undefined; readonly encoder: ChunkEncoder | undefined },
): Promise<Editable> {
  const node = await openZarr(store, path, options);
  await refuseDual(store, path, options);
  if (node.dialect === "zarr3" && options.readOnly !== true) await mendCopies(store, path);
  const settings = { ...options, lock: held };
  if (node.kind === "array")
    return new ZarrEdit(new WritableZarrArray(store, node.model, settings), settings);
  return new ZarrGroupEdit(store, node, settings, {
    create: (below, more) => create(store, below, { ...options, ...more }),
    edit: (below) => edit(store, below, { ...options, lock: undefined }),
  });
}

/** Where the lock of an archive lies that is not an array of superchunks; undefined for Zarr, whose writers share an array. */
async function lockKey(store: WritableStore, path: string, format: EditFormat): Promise<string | undefined> {
  if (format === "zarr") return undefined;
  if (format === "bloscpack") return `${path}.lock`;
  const isCarray = (await store.stat(joinKey(path, "__rootdirs__"))) === undefined && format === "bcolz";
  return joinKey(path, isCarray ? "meta/lock" : ".lock");
}

async function openHeld(
  store: WritableStore,
  path: string,
  {
    held,
    signal,
    readOnly,
    format,
    ...options
  }: EditOptions & { readonly held: WriterLock | undefined; readonly format: EditFormat },
): Promise<Editable> {
  const encoder = typeof options.encoder === "function" ? options.encoder(undefined) : options.encoder;
  if (format === "zarr") return openNode(store, path, { ...options, encoder, signal, readOnly, held });
  if (format === "bloscpack") return BloscpackFile.open(store, path, { encoder, signal, lock: held });
  return BcolzArray.open(store, path, { encoder, signal, readOnly, lock: held });
}

/** The format of what lies at a place. Throws `NOT_FOUND`, `UNSUPPORTED`, and the codes of damage. */
export async function formatAt(
  store: WritableStore,
  path: string,
  options: StoreOptions = {},
): Promise<EditFormat> {
  const get = (name: string): Promise<Uint8Array | undefined> => store.get(joinKey(path, name), options);
  if ((await store.stat(joinKey(path, "__rootdirs__"), options)) !== undefined) return "bcolz";
  const [sizes, storage] = await Promise.all([get("meta/sizes"), get("meta/storage")]);
  if (sizes !== undefined || storage !== undefined) {
    const { dialect } = await openArrayFolder(store, path, { sizes, storage }, options);
    return dialect === "carray" ? "bcolz" : "blz";
  }
  for (const name of ["zarr.json", ".zarray", ".zgroup"])
    if ((await store.stat(joinKey(path, name), options)) !== undefined) return "zarr";
  if (path !== "" && (await store.stat(path, options)) !== undefined) return "bloscpack";
  throw new SuperchunkError("NOT_FOUND", "there is nothing that can be edited", {
    path: store.describe(path),
    field: splitKey(path).name,
  });
}

/** Options that only some formats have a word for. */
const OWN: Readonly<Record<EditFormat, readonly (keyof CreateOptions)[]>> = {
  blz: ["superchunkLength", "checksum", "reserve", "columns", "zarr", "modify", "mirror"],
  bcolz: [],
  bloscpack: ["checksum", "reserve"],
  zarr: ["kind", "chunkShape", "shardShape", "codecs", "dimensionNames", "specification"],
};

/**
 * Makes something at a key of a store (`""` is its root), and opens it for editing. It is there as a whole, or not at all.
 *
 * @throws CONFLICT where something is there already; BAD_ARGUMENT, LIMIT, and UNSUPPORTED for what the format does not have;
 * NO_SPACE, IO
 */
export async function create(store: WritableStore, path: string, options: CreateOptions): Promise<Editable> {
  const { format = "blz" } = options;
  const foreign = Object.values(OWN).flat();
  const unfit = foreign.find((name) => options[name] !== undefined && !OWN[format].includes(name));
  if (unfit !== undefined)
    throw badArgument(unfit, options[unfit], `nothing: the format "${format}" has no such option`);
  if (format === "zarr") return createNode(store, path, options);
  if (options.dtype === undefined) throw badArgument("dtype", options.dtype, 'a dtype, such as "<f8"');
  const dtype = givenDType(options.dtype);
  const fillValue = options.fillValue === undefined ? undefined : storedTimes(dtype, options.fillValue);
  const make = { blz: createBlz, bcolz: createBcolz, bloscpack: createBloscpack }[format];
  return make(store, path, dtype, { ...options, fillValue });
}

function createBlz(
  store: WritableStore,
  path: string,
  dtype: DType,
  { compressor, chunkLength, superchunkLength, expectedLength, fillValue, lock, ...rest }: CreateOptions,
): Promise<Editable> {
  return createArray(store, path, {
    ...rest,
    dtype,
    cparams: compressor,
    chunklen: chunkLength,
    superchunklen: superchunkLength,
    expectedlen: expectedLength,
    dflt: fillValue,
    lock: lock && (() => lock(path === "" ? "meta/lock" : `${path}/meta/lock`)),
  });
}

/** Uncompressed bytes of a Zarr chunk, where nobody chose. */
const ZARR_CHUNK = 1 << 20;

async function createNode(store: WritableStore, path: string, options: CreateOptions): Promise<Editable> {
  const { attrs = {}, signal, overwrite, encoder, decoder, lock, readOnly } = options;
  const { strategy, maxUnused, chunkOrder, writeEmptyChunks, shardWriter } = options;
  const settings = { strategy, maxUnused, chunkOrder, writeEmptyChunks, shardWriter };
  const opening = { ...settings, signal, encoder, decoder, lock, readOnly };
  if (overwrite === true)
    throw badArgument("overwrite", overwrite, "nothing: erase the node in its group first");
  if (options.kind === "group") {
    await createGroup(store, path, attrs, { signal });
    return edit(store, path, opening);
  }
  const { data, itemSize, fill } = zarrTypeOf(options, path);
  const shape = typeof options.shape === "number" ? [options.shape] : (options.shape ?? [0]);
  const rowBytes = shape.slice(1).reduce((product, n) => product * Math.max(1, n), itemSize);
  const rows = options.chunkLength ?? Math.max(1, Math.floor(ZARR_CHUNK / rowBytes));
  const { chunkShape = [rows, ...shape.slice(1).map((n) => Math.max(1, n))].slice(0, shape.length) } =
    options;
  const { compressor, codecs } = options;
  const { shardShape, dimensionNames, specification } = options;
  const chosen = codecs ?? (compressor && bloscCodecs(compressor, itemSize));
  await createZarr(
    store,
    path,
    {
      ...specification,
      ...{ shape, dataType: data, chunkShape, attributes: attrs as JsonObject },
      ...(fill === undefined ? {} : { fillValue: fill }),
      ...(shardShape === undefined ? {} : { shardShape }),
      ...(chosen === undefined ? {} : { codecs: chosen }),
      ...(dimensionNames === undefined ? {} : { dimensionNames }),
    },
    { signal },
  );
  await mendCopies(store, path);
  return edit(store, path, opening);
}

/** The Zarr data type of a dtype, which may be spelled as Zarr does; and its fill value. */
function zarrTypeOf(
  { dtype, fillValue }: CreateOptions,
  path: string,
): { readonly data: JsonValue; readonly itemSize: number; readonly fill: JsonValue | undefined } {
  if (dtype === undefined) throw badArgument("dtype", dtype, 'a dtype, such as "<f8", or kind: "group"');
  if (typeof dtype === "object" && dtype !== null && "name" in dtype) {
    const { itemSize } = parseDataType(dtype as JsonValue, { path, field: "dtype" });
    return { data: dtype as JsonValue, itemSize, fill: fillValue };
  }
  const given = givenDType(dtype);
  const stored = fillValue === undefined ? undefined : storedTimes(given, fillValue);
  const { dataType, fill, itemSize } = mapDType(given, { path, fillValue: stored });
  return { data: dataType, itemSize, fill: fill.json };
}

function bloscCodecs(
  { cname = "lz4", clevel = 5, shuffle = "shuffle" }: Compressor,
  itemSize: number,
): JsonValue[] {
  const typesize = itemSize >= 1 && itemSize <= 255 ? itemSize : 1;
  return [
    itemSize > 1 ? { name: "bytes", configuration: { endian: "little" } } : { name: "bytes" },
    { name: "blosc", configuration: { cname, clevel, shuffle, typesize, blocksize: 0 } },
  ];
}

async function createBloscpack(
  store: WritableStore,
  path: string,
  dtype: DType,
  options: CreateOptions,
): Promise<Editable> {
  const shape = typeof options.shape === "number" ? [options.shape] : (options.shape ?? [0]);
  const { compressor, chunkLength, checksum, reserve, attrs, overwrite, signal, encoder, fillValue } =
    options;
  if (fillValue !== undefined)
    throw badArgument("fillValue", fillValue, "nothing: a Bloscpack file has no default value");
  const rowBytes = elementsOf(shape.slice(1)) * dtype.itemSize;
  const settings = {
    ...compressor,
    ...(chunkLength === undefined ? {} : { chunkSize: chunkLength * rowBytes }),
  };
  const own = typeof encoder === "function" ? encoder(compressor?.cname) : encoder;
  const data = new Uint8Array(0);
  await compressArray({ dtype, shape: [0, ...shape.slice(1)], data }, store, path, {
    ...{ ...settings, checksum, reserve, signal, force: overwrite, encoder: own },
    ...(attrs === undefined ? {} : { metadata: attrs }),
  });
  const lock = await options.lock?.(`${path}.lock`);
  const made = await BloscpackFile.open(store, path, { encoder: own, signal, lock, settings });
  if (elementsOf(shape) > 0) await made.resize(shape, { signal });
  return made;
}

async function createBcolz(
  store: WritableStore,
  path: string,
  dtype: DType,
  options: CreateOptions,
): Promise<Editable> {
  const [rows = 0, ...rowShape] =
    typeof options.shape === "number" ? [options.shape] : (options.shape ?? [0]);
  const { compressor, chunkLength, expectedLength, fillValue, attrs, signal, encoder } = options;
  const settings = {
    cparams: compressor,
    chunklen: chunkLength,
    expectedlen: expectedLength ?? rows,
    attrs,
    signal,
    encoder: typeof encoder === "function" ? encoder(compressor?.cname) : encoder,
  };
  const none = new Uint8Array(0);
  await clearPlace(store, path, options.overwrite === true);
  if (dtype.kind === "struct") {
    const dflts = Array.isArray(fillValue) ? (fillValue as readonly JsonValue[]) : [];
    const columns = dtype.fields.map(({ name, dtype: own, shape }, i) => {
      return { name, dtype: own, rowShape: shape, data: none, options: { dflt: dflts[i] ?? null } };
    });
    await createTable(store, path, columns, settings);
  } else {
    await createCarray(store, path, { dtype, rowShape, data: none }, { ...settings, dflt: fillValue });
  }
  const made = await edit(store, path, options);
  try {
    if (rows > 0) await made.resize([rows, ...rowShape], { signal });
    return made;
  } catch (error) {
    await made.abandon();
    await clearPlace(store, path, true).catch((cause: unknown) => {
      if (!isSuperchunkError(cause)) throw cause;
    });
    throw error;
  }
}

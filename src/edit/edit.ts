/** `edit` and `create`: open for editing what exists at a path, or create it, in any format. */

import { readFolderMetadata } from "../archive/kinds/array-folder.ts";
import { openArrayFolder } from "../archive/open/open-array-folder.ts";
import { defined, elementsOf } from "../bytes/arrays.ts";
import { checkOptions } from "../bytes/check-options.ts";
import { settleEncode } from "../codec/encode/encode-settings.ts";
import type { EncodeOptions } from "../codec/types.ts";
import { badArgument, SuperchunkError } from "../errors.ts";
import { formatDType } from "../format/dtype.ts";
import { givenDType } from "../format/given-dtype.ts";
import { objectOf } from "../format/json.ts";
import type { DType, JsonObject, JsonValue } from "../format/types.ts";
import { placesAllowed } from "../open/open.ts";
import { orLater } from "../places/open-places.ts";
import { asReadable } from "../store/foreign.ts";
import { checkFolder, hasEntries, joinKey, splitKey } from "../store/key.ts";
import { rethrowAfter } from "../store/pool.ts";
import { removeTree } from "../store/tree.ts";
import { isWritable, type ReadableStore, type StoreOptions, type WritableStore } from "../store/types.ts";
import { asReadOnly } from "../store/wrappers/intercept.ts";
import { storedTimes } from "../values/item-bytes.ts";
import { createArray, openWritable, removeNew, type WriteOptions } from "../write/array/create.ts";
import { openShared } from "../write/array/open-shared.ts";
import { BcolzArray } from "../write/bcolz/bcolz-array.ts";
import { checkNames, createCarray, createTable } from "../write/bcolz/bcolz-create.ts";
import { defaultRowOf } from "../write/bcolz/carray-settings.ts";
import { BloscpackFile, refusePart } from "../write/bloscpack/bloscpack-file.ts";
import { compressArray } from "../write/bloscpack/bloscpack-write.ts";
import { type Editable, type EditFormat, givenShape, type WriterLock } from "../write/editable.ts";
import { clearPlace } from "../write/layout/clear-place.ts";
import { type CompressionOptions, checkChunkSettings } from "../write/layout/settings.ts";
import { columnSources, readRows, repeatRow } from "../write/rows/rows.ts";
import { parseDataType } from "../zarr/document/data-type.ts";
import { bloscCodec, bytesCodec } from "../zarr/document/make-v3.ts";
import { mapDType } from "../zarr/document/zarr-dtype.ts";
import { openZarr } from "../zarr/read/open.ts";
import { createZarr } from "../zarr/write/create.ts";
import { mendCopies, refuseDual, refuseSnappy, removeDocument } from "../zarr/write/node-document.ts";
import { WritableZarrArray } from "../zarr/write/writable-array.ts";
import { BOTH, type CreateOptions, type EditOptions, NEW } from "./options.ts";
import { ZarrEdit } from "./zarr-array.ts";
import { createGroup, ZarrGroupEdit } from "./zarr-group.ts";

/** Throws `READ_ONLY` for a store without `put`, `BAD_ARGUMENT` for something that is not a store or not a path. */
function assertWritable(store: ReadableStore, path: string): asserts store is WritableStore {
  if (typeof path !== "string") throw badArgument("the path", path, "a key in the store");
  checkFolder(path);
  if (!isWritable(asReadable(store)))
    throw new SuperchunkError("READ_ONLY", "the store cannot write", {
      path: asReadable(store).describe(path),
    });
}

/** Implements the exported `edit`. */
export async function edit(store: ReadableStore, path: string, options: EditOptions = {}): Promise<Editable> {
  assertWritable(store, path);
  checkOptions(options, `${BOTH} ownPlaces shared`);
  const { signal, readOnly } = options;
  const target = readOnly === true ? asReadOnly(store) : store;
  const openPlace = options.openPlace ?? placesAllowed(options);
  const format = await formatAt(store, path, { signal });
  const { format: wanted = format } = options;
  if (format !== wanted)
    throw new SuperchunkError("UNSUPPORTED", `this has the format "${format}", not "${wanted}"`, {
      path: store.describe(path),
      field: "format",
      expected: wanted,
      found: format,
    });
  const lock = readOnly === true ? undefined : options.lock;
  const own = { ...options, lock: lock && (() => lock(joinKey(path, "meta/lock"))), openPlace };
  if (options.shared !== undefined && options.shared !== false && readOnly !== true)
    return editShared(store, path, own, format);
  if (format === "blz") return openWritable(target, path, own);
  const key = await lockKey(store, path, format);
  const held = await lock?.(key);
  return openHeld(target, path, { ...options, held, format }).catch(rethrowAfter(() => held?.release()));
}

/** Opens an array that others append to concurrently. Throws `UNSUPPORTED` for other formats. */
async function editShared(
  store: WritableStore,
  path: string,
  {
    shared,
    lock,
    encoder,
    signal,
    modify,
    openPlace,
  }: Omit<EditOptions, "lock"> & Pick<WriteOptions, "lock">,
  format: EditFormat,
): Promise<Editable> {
  if (format !== "blz" || modify !== undefined)
    throw new SuperchunkError(
      "UNSUPPORTED",
      "several writers append only to an array of superchunks, and change no values; open it without `shared`, or convert it",
      { path: store.describe(path), field: "shared", expected: "blz", found: format },
    );
  return openShared(store, path, { encoder, signal, lock, openPlace, ...(shared === true ? {} : shared) });
}

/** How an array is opened whose lock is held. */
type HeldOptions = EditOptions & { readonly held: WriterLock | undefined };

/** Opens a Zarr node. Corrects copies of its document that a killed process left outdated. */
async function openNode(
  store: WritableStore,
  path: string,
  { held, ownPlaces, shared, ...options }: HeldOptions,
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

/** Key of the lock of an archive that is not an array of superchunks; undefined for Zarr, whose writers share an array. */
async function lockKey(store: WritableStore, path: string, format: EditFormat): Promise<string | undefined> {
  if (format === "zarr") return undefined;
  if (format === "bloscpack") return `${path}.lock`;
  const isCarray = (await store.stat(joinKey(path, "__rootdirs__"))) === undefined && format === "bcolz";
  return joinKey(path, isCarray ? "meta/lock" : ".lock");
}

async function openHeld(
  store: WritableStore,
  path: string,
  { format, ...options }: HeldOptions & { readonly format: EditFormat },
): Promise<Editable> {
  if (format === "zarr") return openNode(store, path, options);
  const { encoder, signal, readOnly, held } = options;
  if (format === "bloscpack") return BloscpackFile.open(store, path, { encoder, signal, lock: held });
  return BcolzArray.open(store, path, { encoder, signal, readOnly, lock: held });
}

/** The format of what exists at a path. Throws `NOT_FOUND`, `UNSUPPORTED`, and the codes of damage. */
export async function formatAt(
  store: WritableStore,
  path: string,
  options: StoreOptions,
): Promise<EditFormat> {
  if ((await store.stat(joinKey(path, "__rootdirs__"), options)) !== undefined) return "bcolz";
  const found = await readFolderMetadata(store, path, options);
  if (found.sizes !== undefined || found.storage !== undefined) {
    // What is in other places does not matter here.
    const { dialect } = await openArrayFolder(store, path, found, { ...options, openPlace: orLater() });
    return dialect === "carray" ? "bcolz" : "blz";
  }
  for (const name of ["zarr.json", ".zarray", ".zgroup"])
    if ((await store.stat(joinKey(path, name), options)) !== undefined) return "zarr";
  if (path !== "" && (await store.stat(path, options)) !== undefined) return "bloscpack";
  throw new SuperchunkError("NOT_FOUND", "nothing to change is here; HDF5 and Blosc2 files are only read", {
    path: store.describe(path),
    field: splitKey(path).name,
  });
}

const OWN: Readonly<Record<EditFormat, readonly (keyof CreateOptions)[]>> = {
  blz: [
    "superchunkLength",
    "checksum",
    "reserve",
    "optimize",
    "columns",
    "zarr",
    "modify",
    "mirror",
    "places",
    "placeBy",
  ],
  bcolz: ["kind"],
  bloscpack: ["checksum", "reserve"],
  zarr: ["kind", "chunkShape", "shardShape", "codecs", "dimensionNames", "specification"],
};

/** Implements the exported `create`. */
export async function create(
  store: WritableStore,
  path: string,
  options: CreateOptions = {},
): Promise<Editable> {
  assertWritable(store, path);
  checkOptions(options, `${BOTH} ${NEW}`);
  // Locks are held until the end: what cannot be filled is removed before another writer can open it.
  const taken: WriterLock[] = [];
  let isMade = false;
  const lock: CreateOptions["lock"] = async (key) => {
    const held = await options.lock?.(key);
    if (held !== undefined) taken.push(held);
    return { release: async () => (isMade ? held?.release() : undefined) };
  };
  const release = async (): Promise<void> => {
    for (const held of taken) await held.release();
  };
  const locked = { ...options, lock: options.lock && lock };
  const made = await createLocked(store, path, locked).catch(rethrowAfter(release));
  isMade = true;
  return made;
}

async function createLocked(store: WritableStore, path: string, options: CreateOptions): Promise<Editable> {
  const { format = "blz", shape: given = 0 } = options;
  if (!Object.hasOwn(OWN, format)) throw badArgument("format", format, Object.keys(OWN).join(", "));
  if (options.attrs !== undefined && (typeof options.attrs !== "object" || Array.isArray(options.attrs)))
    throw badArgument("attrs", options.attrs, "an object");
  options.signal?.throwIfAborted();
  const { compressor, chunkLength, superchunkLength, expectedLength } = options;
  checkChunkSettings({ compressor, chunkLength, superchunkLength, expectedLength });
  const foreign = Object.values(OWN).flat();
  const unfit = foreign.find((name) => options[name] !== undefined && !OWN[format].includes(name));
  if (unfit !== undefined)
    throw badArgument(unfit, options[unfit], `nothing: the format "${format}" has no such option`);
  const isScalar = format === "zarr" && Array.isArray(given) && given.length === 0;
  const shape = isScalar ? [] : givenShape(given);
  if (format === "zarr") return createNode(store, path, { ...options, shape });
  const dtype = isZarrType(options.dtype)
    ? parseDataType(options.dtype, { path: store.describe(path), field: "dtype" })
    : givenDType(options.dtype);
  refuseOtherRows(options.data, shape, dtype.itemSize);
  const fillValue = options.fillValue === undefined ? undefined : storedTimes(dtype, options.fillValue);
  const make = { blz: createBlz, bcolz: createBcolz, bloscpack: createBloscpack }[format];
  return make(store, path, dtype, { ...options, shape, fillValue });
}

/** Refuses first rows that are not as many as the shape has, if it has any, and if they can be counted. Throws `BAD_ARGUMENT`. */
function refuseOtherRows(data: unknown, [rows = 0, ...rowShape]: readonly number[], itemSize: number): void {
  const rowBytes = elementsOf(rowShape) * itemSize;
  const isCounted = ArrayBuffer.isView(data) && rowBytes > 0;
  const found = Array.isArray(data) ? data.length : isCounted ? data.byteLength / rowBytes : rows;
  if (rows > 0 && found !== rows)
    throw badArgument("shape[0]", rows, `${found}, the number of rows in data, or 0`);
}

/** Checked options. */
interface NewOptions extends CreateOptions {
  readonly shape: readonly number[];
}

/**
 * Adds the first rows to a new array: those of `data`, or as many as `shape` says. If that fails, abandons the array, and
 * `remove` removes what was created.
 */
async function fillNew(
  made: Editable,
  { data, shape, publish, signal, onProgress }: NewOptions,
  remove: () => Promise<void>,
): Promise<Editable> {
  try {
    const [rows = 0] = shape;
    if (data !== undefined) await made.append(data, { publish, signal, onProgress });
    else if (rows > 0) await made.resize(shape, { signal, onProgress });
    await made.flush();
    return made;
  } catch (error) {
    await made.abandon();
    await remove();
    throw error;
  }
}

async function createBlz(
  store: WritableStore,
  path: string,
  dtype: DType,
  options: NewOptions,
): Promise<Editable> {
  const { shape, expectedLength, lock } = options;
  const [rows = 0, ...rowShape] = shape;
  const isEmpty = elementsOf(rowShape) * dtype.itemSize === 0;
  const array = await createArray(store, path, {
    ...options,
    // Rows without bytes are counted at once.
    shape: isEmpty ? shape : [0, ...rowShape],
    dtype,
    expectedLength: expectedLength ?? (rows > 0 ? rows : undefined),
    lock: lock && (() => lock(path === "" ? "meta/lock" : `${path}/meta/lock`)),
    openPlace: options.openPlace ?? placesAllowed(options),
  });
  return fillNew(array, options, () => removeNew(store, path, array.store, options));
}

/** Default for the uncompressed bytes of a Zarr chunk. */
const ZARR_CHUNK = 1 << 20;

async function createNode(store: WritableStore, path: string, options: NewOptions): Promise<Editable> {
  const { attrs = {}, signal, overwrite, encoder, decoder, lock, readOnly } = options;
  const { strategy, maxUnused, chunkOrder, writeEmptyChunks, shardWriter } = options;
  const settings = { strategy, maxUnused, chunkOrder, writeEmptyChunks, shardWriter };
  const { customCodecs } = options;
  const opening = { ...settings, signal, encoder, decoder, lock, readOnly, customCodecs };
  if (overwrite === true)
    throw badArgument("overwrite", overwrite, "nothing: erase the node in its group first");
  if (options.kind === "group") {
    await createGroup(store, path, attrs, { signal });
    return edit(store, path, opening);
  }
  const { data, itemSize, fill } = zarrTypeOf(options, store.describe(path));
  refuseOtherRows(options.data, options.shape, itemSize);
  // First rows replace the length; an array without dimensions has none.
  const shape = options.data === undefined ? options.shape : options.shape.map((n, d) => (d === 0 ? 0 : n));
  const rowBytes = shape.slice(1).reduce((product, n) => product * Math.max(1, n), itemSize);
  const rows = options.chunkLength ?? Math.max(1, Math.floor(ZARR_CHUNK / rowBytes));
  const { chunkShape = [rows, ...shape.slice(1).map((n) => Math.max(1, n))].slice(0, shape.length) } =
    options;
  const { compressor, codecs } = options;
  const { shardShape, dimensionNames, specification } = options;
  const chosen = codecs ?? (compressor && bloscCodecs(compressor, itemSize));
  for (const codec of chosen ?? specification?.codecs ?? [])
    refuseSnappy({ store, path }, objectOf(objectOf(codec)["configuration"])["cname"]);
  await createZarr(
    store,
    path,
    {
      ...specification,
      shape,
      dataType: data,
      chunkShape,
      attributes: attrs as JsonObject,
      ...defined({ fillValue: fill, shardShape, codecs: chosen, dimensionNames }),
    },
    { signal, customCodecs },
  );
  await mendCopies(store, path);
  const made = await edit(store, path, opening);
  return options.data === undefined
    ? made
    : fillNew(made, options, async () => {
        await removeDocument(store, path);
        await removeTree(store, path);
      });
}

/** True for a data type in Zarr's form with a configuration. */
function isZarrType(dtype: CreateOptions["dtype"]): dtype is JsonObject {
  return typeof dtype === "object" && dtype !== null && "name" in dtype;
}

/** The Zarr data type and fill value of a dtype, which may be in Zarr's form already. */
function zarrTypeOf(
  { dtype, fillValue }: CreateOptions,
  path: string,
): { readonly data: JsonValue; readonly itemSize: number; readonly fill: JsonValue | undefined } {
  if (dtype === undefined) throw badArgument("dtype", dtype, 'a dtype, such as "<f8", or kind: "group"');
  if (isZarrType(dtype)) {
    const { itemSize, kind } = parseDataType(dtype, { path, field: "dtype" });
    // An integer has no minus zero, which would be stored as -0.0.
    return { data: dtype, itemSize, fill: fillValue === 0 && /int/.test(kind) ? 0 : fillValue };
  }
  const given = givenDType(dtype);
  // The bits of a float, as Zarr writes a NaN that is not the usual one, are checked with the document.
  const bits = given.kind === "float" && /^0x/.test(String(fillValue)) ? fillValue : undefined;
  const stored = fillValue === undefined || bits !== undefined ? undefined : storedTimes(given, fillValue);
  if (stored !== undefined && /^(?:u?int|bool|float)$/.test(given.kind)) defaultRowOf(given, [], stored);
  const { dataType, fill, itemSize } = mapDType(given, { path, fillValue: stored });
  // Bytes are taken as items of the array that results: those of another dtype would become other values.
  const textOf = (type: DType): string => JSON.stringify(formatDType(type));
  const held = textOf(parseDataType(dataType, { path, field: "dtype" }));
  if (held !== textOf(given))
    throw badArgument("dtype", textOf(given), `${held}: items in Zarr are little-endian, without padding`);
  return { data: dataType, itemSize, fill: bits ?? fill.json };
}

function bloscCodecs(options: CompressionOptions, itemSize: number): JsonValue[] {
  const { cname, clevel, shuffle } = settleEncode(1, options as EncodeOptions);
  return [bytesCodec(itemSize > 1), bloscCodec({ cname, clevel, shuffle, typesize: itemSize })];
}

async function createBloscpack(
  store: WritableStore,
  path: string,
  dtype: DType,
  options: NewOptions,
): Promise<Editable> {
  const { shape, compressor, chunkLength, checksum, reserve, attrs, overwrite, signal, encoder, fillValue } =
    options;
  if (fillValue !== undefined)
    throw badArgument("fillValue", fillValue, "nothing: a Bloscpack file has no default value");
  if (dtype.itemSize === 0) throw badArgument("dtype", formatDType(dtype), "items of one byte or more");
  await refusePart(store, path);
  const rowBytes = elementsOf(shape.slice(1)) * dtype.itemSize;
  const settings = {
    ...compressor,
    ...(chunkLength === undefined ? {} : { chunkSize: chunkLength * rowBytes }),
  };
  const data = new Uint8Array(0);
  await compressArray({ dtype, shape: [0, ...shape.slice(1)], data }, store, path, {
    ...settings,
    checksum,
    reserve,
    signal,
    force: overwrite,
    encoder,
    ...(attrs === undefined ? {} : { metadata: attrs }),
  });
  const lock = await options.lock?.(`${path}.lock`);
  const made = await BloscpackFile.open(store, path, { encoder, signal, lock, settings });
  return fillNew(made, options, () => store.delete(path));
}

async function createBcolz(
  store: WritableStore,
  path: string,
  dtype: DType,
  options: NewOptions,
): Promise<Editable> {
  const isTable = options.kind === undefined ? dtype.kind === "struct" : options.kind === "table";
  if (isTable && dtype.kind !== "struct")
    throw badArgument("dtype", dtype.kind, "a struct, with a field for each column of the table");
  const names = isTable && dtype.kind === "struct" ? dtype.fields.map(({ name }) => name) : [];
  if (isTable) checkNames(names);
  const held = await options.lock?.(joinKey(path, isTable ? ".lock" : "meta/lock"));
  await clearPlace(store, path, options.overwrite === true, names);
  const own: string[] = [];
  for (const name of ["data", ...names]) if (!(await hasEntries(store, joinKey(path, name)))) own.push(name);
  const hadAttributes = (await store.stat(joinKey(path, "__attrs__"))) !== undefined;
  const remove = async (): Promise<void> => {
    await clearPlace(store, path, true);
    for (const name of own) await removeTree(store, joinKey(path, name));
    for (const name of own) await store.delete(joinKey(path, name));
    if (!hadAttributes) await store.delete(joinKey(path, "__attrs__"));
    for (const name of ["meta/storage", "meta"]) await store.delete(joinKey(path, name));
  };
  await makeBcolz(store, path, dtype, options).catch(rethrowAfter(remove));
  const made = await openHeld(store, path, { ...options, held, format: "bcolz" });
  // The table splits rows that are not given by column.
  const isWhole = options.data === undefined || !isTable || columnSources(options.data, dtype) !== undefined;
  return isWhole ? made : fillNew(made, options, remove);
}

/** Creates a carray, or a table with a column for each field, with the rows that can be written at once. */
async function makeBcolz(
  store: WritableStore,
  path: string,
  dtype: DType,
  { compressor, chunkLength, expectedLength, fillValue, attrs, signal, onProgress, ...options }: NewOptions,
): Promise<void> {
  const [rows = 0, ...rowShape] = options.shape;
  const settings = {
    compressor,
    chunkLength,
    expectedLength: expectedLength ?? (rows > 0 || options.data === undefined ? rows : undefined),
    attrs,
    signal,
    encoder: options.encoder,
  };
  const total = rows * elementsOf(rowShape) * dtype.itemSize;
  let done = 0;
  const repeated = function* (type: DType, shape: readonly number[], dflt: JsonValue): Generator<Uint8Array> {
    if (options.data !== undefined) return;
    for (const piece of repeatRow(defaultRowOf(type, shape, dflt), rows)) {
      yield piece;
      done += piece.length;
      onProgress?.({ done, total });
    }
  };
  if (dtype.kind !== "struct" || options.kind === "array") {
    const dflt = fillValue ?? null;
    const data =
      options.data === undefined
        ? repeated(dtype, rowShape, dflt)
        : readRows(options.data, { dtype, rowShape });
    await createCarray(store, path, { dtype, rowShape, data }, { ...settings, fillValue });
    return;
  }
  const given = options.data === undefined ? undefined : columnSources(options.data, dtype);
  const dflts = Array.isArray(fillValue) ? (fillValue as readonly JsonValue[]) : [];
  const columns = dtype.fields.map(({ name, dtype: own, shape }, i) => {
    const dflt = dflts[i] ?? null;
    return {
      name,
      dtype: own,
      rowShape: shape,
      data: given?.[i] ?? repeated(own, shape, dflt),
      options: { fillValue: dflt },
    };
  });
  await createTable(store, path, columns, settings);
}

/** Opens an array that is a folder: `carray` or `blz-superchunk`. */
import { isSuperchunkError, SuperchunkError } from "../errors.ts";
import { parseSizes, parseStorage } from "../format/folder.ts";
import { parseJson } from "../format/json.ts";
import { carrayChunkName, superchunkName } from "../format/naming.ts";
import type { DType, JsonObject, JsonValue } from "../format/types.ts";
import { checkKey, joinKey } from "../store/key.ts";
import type { ReadableStore } from "../store/types.ts";
import { PlainArray } from "./array-archive.ts";
import { CarraySequence } from "./carray-sequence.ts";
import type { ArchiveParts } from "./chunked-base.ts";
import { NestedArray } from "./nested-archive.ts";
import { elementsOf } from "./selection.ts";
import { SuperchunkSequence } from "./superchunk-sequence.ts";
import type { ArrayArchive, OpenOptions } from "./types.ts";
import { fieldSize } from "./values.ts";

/** The two metadata objects, as far as they are there. */
export interface FolderMetadata {
  readonly sizes: Uint8Array | undefined;
  readonly storage: Uint8Array | undefined;
}

/** What is known of an array folder once its metadata are read. */
interface Folder {
  readonly store: ReadableStore;
  readonly path: string;
  readonly dtype: DType;
  readonly shape: readonly number[];
  /** Rows that the chunks hold: more than shape[0] where a table cuts the column. */
  readonly heldRows: number;
  readonly chunklen: number;
  readonly clevel: number | undefined;
  readonly dflt: JsonValue | undefined;
  readonly metadata: JsonObject;
  readonly warnings: readonly string[];
  readonly verify: boolean;
}

type Layout = "carray" | "blz-superchunk" | "nested";

/** Opens an array folder. `rows` shows only that many of its rows (a table's length). */
export async function openArrayFolder(
  store: ReadableStore,
  path: string,
  found: FolderMetadata,
  options: OpenOptions,
  rows?: number,
): Promise<ArrayArchive> {
  const folder = readFolder(store, path, found, options, rows);
  const layout = await findLayout(folder, options);
  const attrsKey = joinKey(path, layout === "carray" ? "__attrs__" : "meta/attributes");
  const attrs = await readAttributes(store, attrsKey, options);
  const metadataKeys = [joinKey(path, "meta/sizes"), joinKey(path, "meta/storage"), attrsKey];
  if (layout === "nested" && folder.dtype.kind === "struct")
    return openNested(folder, folder.dtype, attrs, metadataKeys);
  return plainArray(
    folder,
    layout === "carray" ? "carray" : "blz-superchunk",
    folder.dtype,
    folder.shape,
    joinKey(path, "data"),
    attrs,
    metadataKeys,
  );
}

function readFolder(
  store: ReadableStore,
  path: string,
  found: FolderMetadata,
  options: OpenOptions,
  rows: number | undefined,
): Folder {
  const sizesPath = store.describe(joinKey(path, "meta/sizes"));
  const storagePath = store.describe(joinKey(path, "meta/storage"));
  if (found.sizes === undefined) throw missing(sizesPath);
  if (found.storage === undefined) throw missing(storagePath);
  const sizes = parseSizes(found.sizes, sizesPath);
  const storage = parseStorage(found.storage, storagePath);
  const { dtype } = storage;
  const nbytes = elementsOf(sizes.shape) * dtype.itemSize;
  // bcolz counts the pickles of an object array, whose items have no fixed size.
  if (dtype.kind !== "object" && sizes.nbytes !== undefined && sizes.nbytes !== nbytes) {
    throw new SuperchunkError(
      "BAD_FIELD",
      `nbytes is ${sizes.nbytes}, but shape [${sizes.shape.join(", ")}] of ${dtype.itemSize}-byte items (meta/storage) makes ${nbytes}. One of the two files is damaged`,
      {
        path: sizesPath,
        field: "nbytes",
        expected: nbytes,
        found: sizes.nbytes,
      },
    );
  }
  const [length] = sizes.shape;
  if (length === undefined || !Number.isSafeInteger(nbytes)) {
    throw new SuperchunkError(
      "BAD_FIELD",
      `shape is [${sizes.shape.join(", ")}], expected one or more sizes with a product that a file can hold`,
      { path: sizesPath, field: "shape", found: sizes.shape },
    );
  }
  return {
    store,
    path,
    dtype,
    shape: rows === undefined ? sizes.shape : [Math.min(rows, length), ...sizes.shape.slice(1)],
    heldRows: length,
    chunklen: storage.chunklen,
    clevel: storage.cparams.clevel,
    dflt: storage.dflt,
    metadata: { sizes: sizes.raw, storage: storage.raw },
    warnings: [],
    verify: options.verify ?? true,
  };
}

function missing(path: string): SuperchunkError {
  return new SuperchunkError(
    "INCOMPLETE",
    "the file is missing, without which the array cannot be read. Look for a whole copy",
    { path, expected: "a file", found: "nothing" },
  );
}

/**
 * Tells the layouts apart by the files that are there: both documents have the same `meta`. An array without rows
 * has no data files; bcolz always writes `__attrs__`, and only bcolz has `quantize`, only blz `bparams`.
 */
async function findLayout(folder: Folder, options: OpenOptions): Promise<Layout> {
  const { store, path, dtype, metadata } = folder;
  const exists = async (key: string): Promise<boolean> =>
    (await store.stat(joinKey(path, key), options)) !== undefined;
  const storage = metadata["storage"] as JsonObject;
  if (storage["superchunk"] === undefined) {
    if (await exists(`data/${carrayChunkName(0)}`)) return "carray";
  }
  if (await exists(`data/${superchunkName(1)}`)) return "blz-superchunk";
  if (dtype.kind === "struct") {
    const [first] = dtype.fields;
    if (first !== undefined) {
      checkColumnName(first.name, store.describe(path));
      if (await exists(`data/${first.name}/${superchunkName(1)}`)) return "nested";
    }
  }
  const cparams = storage["cparams"] as JsonObject | undefined;
  if (
    storage["superchunk"] === undefined &&
    (storage["bparams"] !== undefined || cparams?.["quantize"] !== undefined || (await exists("__attrs__")))
  ) {
    return "carray";
  }
  return "blz-superchunk";
}

/** User attributes: an object, or nothing. Throws `BAD_FIELD`. */
export async function readAttributes(
  store: ReadableStore,
  key: string,
  options: OpenOptions,
): Promise<JsonObject> {
  const bytes = await store.get(key, options);
  const path = store.describe(key);
  if (bytes === undefined || bytes.length === 0) return {};
  const value = parseJson(bytes, path);
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as JsonObject;
  throw new SuperchunkError("BAD_FIELD", "the attributes are not a JSON object", {
    path,
    field: "attributes",
    expected: "an object",
    found: typeof value,
  });
}

function plainArray(
  folder: Folder,
  dialect: "carray" | "blz-superchunk",
  dtype: DType,
  shape: readonly number[],
  dataFolder: string,
  attrs: JsonObject,
  metadataKeys: readonly string[],
  fillValue: JsonValue | undefined = folder.dflt,
): PlainArray {
  const { store, path, chunklen } = folder;
  const row = elementsOf(shape.slice(1)) * dtype.itemSize;
  const nbytes = (shape[0] ?? 0) * row;
  const sequence =
    dialect === "carray"
      ? new CarraySequence(store, path, nbytes, folder.heldRows * row, chunklen * row)
      : new SuperchunkSequence(store, dataFolder, nbytes, chunklen * row);
  const parts: ArchiveParts = {
    dialect,
    store,
    path,
    attrs,
    metadata: folder.metadata,
    warnings: folder.warnings,
    metadataKeys,
    sequence,
    verify: folder.verify,
    cut: { chunkLength: chunklen },
    clevel: folder.clevel,
    itemSize: dtype.itemSize,
  };
  return new PlainArray(parts, { dtype, shape, order: "C", fillValue, chunkLength: chunklen });
}

function openNested(
  folder: Folder,
  dtype: Extract<DType, { kind: "struct" }>,
  attrs: JsonObject,
  metadataKeys: readonly string[],
): NestedArray {
  const { store, path, shape, dflt } = folder;
  const columns = new Map<string, ArrayArchive>();
  dtype.fields.forEach((field, i) => {
    checkColumnName(field.name, store.describe(joinKey(path, "meta/storage")));
    const fill = Array.isArray(dflt) ? (dflt[i] as JsonValue | undefined) : undefined;
    const data = joinKey(path, "data", field.name);
    columns.set(
      field.name,
      plainArray(folder, "blz-superchunk", field.dtype, [...shape, ...field.shape], data, {}, [], fill),
    );
  });
  if (dtype.fields.reduce((sum, field) => sum + fieldSize(field), 0) === 0) {
    throw new SuperchunkError("BAD_FIELD", "the dtype has no fields, but data lie in column folders", {
      path: store.describe(path),
      field: "dtype",
    });
  }
  return new NestedArray({
    dialect: "blz-superchunk",
    store,
    path,
    attrs,
    metadata: folder.metadata,
    warnings: folder.warnings,
    metadataKeys,
    dtype,
    shape,
    order: "C",
    chunkLength: folder.chunklen,
    fillValue: dflt,
    columns,
  });
}

/** A field's name becomes a folder's: it must not lead anywhere else. */
function checkColumnName(name: string, path: string): void {
  try {
    checkKey(name);
  } catch (error) {
    throw isSuperchunkError(error) ? error.at({ path }) : error;
  }
  if (name.includes("/")) {
    throw new SuperchunkError(
      "UNSAFE_PATH",
      `the field name ${JSON.stringify(name)} would lead into another folder`,
      { path, field: "dtype", found: name },
    );
  }
}

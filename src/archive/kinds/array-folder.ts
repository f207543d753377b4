/**
 * Reads the metadata of an array folder, and makes the archive for it. Knows `meta/` and how columns are stored; must
 * not know how the layouts are told apart.
 */
import { elementsOf } from "../../bytes/arrays.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { parseSizes, parseStorage } from "../../format/folder.ts";
import { isObject, parseJson } from "../../format/json.ts";
import { filledText, parseFilled, withoutSpan } from "../../format/layout.ts";
import { checkStoredName } from "../../format/naming.ts";
import type { DType, JsonObject, JsonValue } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore, StoreOptions } from "../../store/types.ts";
import { fieldSize } from "../../values/values.ts";
import type { ChunkSequence } from "../places/sequence.ts";
import { type ArchiveParts, PlainArray } from "./chunked-archive.ts";
import { NestedArray } from "./column-archives.ts";
import type { ArrayArchive, Identity, OpenOptions } from "./types.ts";

/** The two metadata objects, as far as they exist. */
export interface FolderMetadata {
  readonly sizes: Uint8Array | undefined;
  readonly storage: Uint8Array | undefined;
}

export async function readFolderMetadata(
  store: ReadableStore,
  path: string,
  options: StoreOptions,
): Promise<FolderMetadata> {
  const [sizes, storage] = await Promise.all(
    ["sizes", "storage"].map((name) => store.get(joinKey(path, "meta", name), options)),
  );
  return { sizes, storage };
}

export interface ArrayFolder
  extends Pick<
    ArchiveParts,
    "store" | "path" | "metadata" | "warnings" | "filled" | "clevel" | "verify" | "decoder"
  > {
  readonly dtype: DType;
  readonly shape: readonly number[];
  /** Rows that the chunks hold: more than `shape[0]` if a table cuts the column. */
  readonly heldRows: number;
  readonly chunklen: number;
  readonly dflt: JsonValue | undefined;
}

/** Interprets `meta/sizes` and `meta/storage`. With `rows`, only that many rows are shown. Throws `INCOMPLETE`, `BAD_FIELD`. */
export function readFolder(
  store: ReadableStore,
  path: string,
  found: FolderMetadata,
  options: OpenOptions,
  rows: number | undefined,
): ArrayFolder {
  const sizesPath = store.describe(joinKey(path, "meta/sizes"));
  const storagePath = store.describe(joinKey(path, "meta/storage"));
  if (found.sizes === undefined)
    throw missingFile(
      sizesPath,
      ', or let "superchunk repair" count the rows of an array of superchunks again',
    );
  if (found.storage === undefined) throw missingFile(storagePath);
  const sizes = parseSizes(found.sizes, sizesPath);
  const storage = parseStorage(found.storage, storagePath);
  const { dtype } = storage;
  const nbytes = elementsOf(sizes.shape) * dtype.itemSize;
  // For an object array, whose items have no fixed size, bcolz counts the pickles.
  if (dtype.kind !== "object" && sizes.nbytes !== undefined && sizes.nbytes !== nbytes)
    throw new SuperchunkError(
      "BAD_FIELD",
      `nbytes is ${sizes.nbytes}, but shape [${sizes.shape.join(", ")}] of ${dtype.itemSize}-byte items (meta/storage) makes ${nbytes}. One of the two files is damaged`,
      { path: sizesPath, field: "nbytes", expected: nbytes, found: sizes.nbytes },
    );
  const [length] = sizes.shape;
  if (length === undefined || !Number.isSafeInteger(nbytes))
    throw new SuperchunkError(
      "BAD_FIELD",
      `shape is [${sizes.shape.join(", ")}], expected one or more sizes with a product that a file can hold`,
      { path: sizesPath, field: "shape", found: sizes.shape },
    );
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
    ...filledOf(sizes.raw, sizesPath),
    verify: options.verify ?? true,
    decoder: options.decoder,
  };
}

/** Rows that a repair filled, and a warning about them. [FG-15] */
function filledOf(sizes: JsonObject, path: string): Pick<ArrayFolder, "filled" | "warnings"> {
  const stored = parseFilled(sizes, path).filled ?? [];
  const [rows] = sizes["shape"] as readonly number[];
  // Another program may have removed rows since.
  const filled = withoutSpan(stored, { from: rows ?? 0, to: Number.POSITIVE_INFINITY });
  if (filled.length === 0) return { warnings: [] };
  return { filled, warnings: filled.map(filledText) };
}

/** The error for a metadata file that is not there; `more` is what else to do. */
export function missingFile(path: string, more = ""): SuperchunkError {
  return new SuperchunkError(
    "INCOMPLETE",
    `the file is missing, and the array cannot be read without it. Look for a complete copy${more}`,
    { path, expected: "a file", found: "nothing" },
  );
}

/** User attributes; undefined if the object is missing. Throws `BAD_FIELD`. */
export async function readAttributes(
  store: ReadableStore,
  key: string,
  options: OpenOptions,
): Promise<JsonObject | undefined> {
  const bytes = await store.get(key, options);
  if (bytes === undefined) return undefined;
  return bytes.length === 0 ? {} : parseAttributes(bytes, store.describe(key));
}

/** User attributes as stored at `path`. Throws `BAD_FIELD`. */
export function parseAttributes(bytes: Uint8Array, path: string): JsonObject {
  const value = parseJson(bytes, path);
  if (isObject(value)) return value;
  throw new SuperchunkError("BAD_FIELD", "the attributes are not a JSON object", {
    path,
    field: "attributes",
    expected: "an object",
    found: typeof value,
  });
}

/** Makes the sequence of the chunks in a folder. `rowBytes` is the size of a row of the array, or of the column. */
type SequenceMaker = (dataFolder: string, rowBytes: number) => ChunkSequence;

/** Struct fields that are stored as folders of their own fields, by name and recursively. [FZ-04] */
export type ColumnGroups = ReadonlyMap<string, ColumnGroups>;

/** What an array shows besides its folder's metadata. */
export interface ArrayFace {
  readonly dialect: "carray" | "blz-superchunk";
  readonly attrs: JsonObject;
  readonly metadataKeys: readonly string[];
  readonly identity?: Identity;
  readonly sequence: SequenceMaker;
  /** Makes the sequence of a folder of Python objects, whose sizes the metadata do not give (default: as `sequence`). */
  readonly pickles?: SequenceMaker;
}

/** An array whose items are all in one folder. */
export function plainArray(folder: ArrayFolder, face: ArrayFace): PlainArray {
  const { dtype, shape, dflt, path } = folder;
  return oneColumn(folder, face, { dtype, shape, dflt, data: joinKey(path, "data") });
}

/** Items stored in one folder, `data`. */
interface FolderColumn extends Pick<ArrayFolder, "dtype" | "shape" | "dflt"> {
  readonly data: string;
}

/** What an archive has of its folder. */
function factsOf({ store, path, metadata, warnings, filled }: ArrayFolder, face: ArrayFace) {
  const { attrs, metadataKeys } = face;
  return { store, path, metadata, warnings, filled, attrs, metadataKeys };
}

function oneColumn(
  folder: ArrayFolder,
  face: ArrayFace,
  { dtype, shape, dflt, data }: FolderColumn,
): PlainArray {
  const isPickled = dtype.kind === "object";
  const { sequence, pickles = sequence } = face;
  // bcolz stores one object per chunk, whatever its metadata say.
  const chunkLength = isPickled && face.dialect === "carray" ? 1 : folder.chunklen;
  const rowBytes = elementsOf(shape.slice(1)) * dtype.itemSize;
  const parts: ArchiveParts = {
    ...factsOf(folder, face),
    dialect: face.dialect,
    sequence: (isPickled ? pickles : sequence)(data, rowBytes),
    verify: folder.verify,
    decoder: folder.decoder,
    cut: { chunkLength },
    clevel: folder.clevel,
    identity: face.identity,
  };
  return new PlainArray(parts, { dtype, shape, order: "C", fillValue: dflt, chunkLength });
}

/** An array whose fields are stored in one folder each; the fields in `groups` are folders of fields again. */
export function nestedArray(
  folder: ArrayFolder,
  dtype: StructDType,
  face: ArrayFace,
  groups: ColumnGroups = new Map(),
): NestedArray {
  return columnsIn({ folder, face, dtype, shape: folder.shape, dflt: folder.dflt, groups }, "data");
}

type StructDType = Extract<DType, { kind: "struct" }>;

/** An array of column folders, or one of its fields. */
interface ColumnsPart {
  readonly folder: ArrayFolder;
  readonly face: ArrayFace;
  readonly dtype: StructDType;
  readonly shape: readonly number[];
  readonly dflt: JsonValue | undefined;
  readonly groups: ColumnGroups;
}

function columnsIn({ folder, face, dtype, shape, dflt, groups }: ColumnsPart, data: string): NestedArray {
  const { store, path } = folder;
  const columns = new Map<string, ArrayArchive>();
  // Only the array itself reports warnings and filled rows, not its fields.
  const ownFolder = { ...folder, warnings: [], filled: undefined };
  const ownData = { ...face, attrs: {}, metadataKeys: [] };
  dtype.fields.forEach((field, i) => {
    checkStoredName(field.name, store.describe(joinKey(path, "meta/storage")), "dtype");
    const fill = Array.isArray(dflt) ? (dflt[i] as JsonValue | undefined) : undefined;
    const own = joinKey(data, field.name);
    const ownShape = [...shape, ...field.shape];
    const inner = groups.get(field.name);
    const column =
      inner !== undefined && field.dtype.kind === "struct"
        ? columnsIn(
            {
              folder: ownFolder,
              face: ownData,
              dtype: field.dtype,
              shape: ownShape,
              dflt: fill,
              groups: inner,
            },
            own,
          )
        : oneColumn(ownFolder, ownData, {
            dtype: field.dtype,
            shape: ownShape,
            dflt: fill,
            data: joinKey(path, own),
          });
    columns.set(field.name, column);
  });
  if (dtype.fields.reduce((sum, field) => sum + fieldSize(field), 0) === 0)
    throw new SuperchunkError("BAD_FIELD", "the dtype has no fields, but there are column folders", {
      path: store.describe(path),
      field: "dtype",
    });
  return new NestedArray({
    ...factsOf(folder, face),
    dialect: "blz-superchunk",
    dtype,
    shape,
    order: "C",
    chunkLength: folder.chunklen,
    fillValue: dflt,
    columns,
  });
}

/** True if `meta/sizes` has a layout. The reader reports anything else wrong with it. */
export function hasLayout({ sizes }: FolderMetadata): boolean {
  if (sizes === undefined) return false;
  try {
    const json = parseJson(sizes, "");
    return typeof json === "object" && json !== null && "layout" in json;
  } catch (error) {
    if (isSuperchunkError(error)) return false;
    throw error;
  }
}

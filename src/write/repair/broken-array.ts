/** What the metadata of a broken array still tell: how its chunks are made, and which files should hold them. Reads only. */

import { suggestsCarray } from "../../archive/open/folder-layout.ts";
import { encodeJson, ZARR_FEATURE } from "../../archive/places/generation.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { parseSizes, parseStorage, type StoredStorage } from "../../format/folder.ts";
import { parseJson } from "../../format/json.ts";
import { parseLayout, type StoredLayout } from "../../format/layout.ts";
import { carrayChunkName, parseSuperchunkName, superchunkName } from "../../format/naming.ts";
import type { JsonObject } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore } from "../../store/types.ts";
import { type ColumnLayout, layOutColumns } from "../layout/columns.ts";
import { type ArraySettings, settleStored, storedOptions } from "../layout/settings.ts";
import { type Salvaged, salvage } from "./salvage.ts";

/** What is known of the broken array. */
export interface Broken {
  readonly storage: StoredStorage;
  readonly settings: ArraySettings;
  readonly columns: readonly ColumnLayout[];
  readonly layout: StoredLayout | undefined;
  readonly rows: number | undefined;
  readonly attrs: JsonObject;
  /** `meta/attributes` where it cannot be read. */
  readonly damagedAttributes: Uint8Array | undefined;
}

/**
 * Refuses what is no array of superchunks: nothing in it would look whole, and all of it would count as gone.
 *
 * @throws UNSUPPORTED for carrays and tables of bcolz
 */
async function refuseBcolz(
  store: ReadableStore,
  path: string,
  { raw }: StoredStorage,
  layout: StoredLayout | undefined,
): Promise<void> {
  if (raw["superchunk"] !== undefined || layout !== undefined) return;
  const has = async (...parts: string[]): Promise<boolean> =>
    (await store.stat(joinKey(path, ...parts))) !== undefined;
  const isCarray =
    (await has("data", carrayChunkName(0))) ||
    (suggestsCarray(raw) && ((await has("__attrs__")) || !(await has("data", superchunkName(1)))));
  if (isCarray) throw notOurs(store, path, "carray");
}

function notOurs(store: ReadableStore, path: string, found: string): SuperchunkError {
  return new SuperchunkError(
    "UNSUPPORTED",
    `this is a ${found} of bcolz, and only arrays of superchunks can be repaired; "superchunk verify" says what is wrong with it`,
    { path: store.describe(path), field: "dialect", expected: "blz-superchunk", found },
  );
}

/**
 * Reads what there is of the array at a key. What is wrong but not needed goes to `problems`, in words.
 *
 * @throws NOT_FOUND; UNSUPPORTED for another archive; INCOMPLETE and the codes of damage where `meta/storage` cannot be read
 */
export async function examine(store: ReadableStore, path: string, problems: string[]): Promise<Broken> {
  const get = (name: string): Promise<Uint8Array | undefined> => store.get(joinKey(path, "meta", name));
  const sizesPath = store.describe(joinKey(path, "meta/sizes"));
  const storagePath = store.describe(joinKey(path, "meta/storage"));
  const [sizesBytes, storageBytes, attrsBytes] = [
    await get("sizes"),
    await get("storage"),
    await get("attributes"),
  ];
  let shape: readonly number[] | undefined;
  let layout: StoredLayout | undefined;
  try {
    if (sizesBytes === undefined) problems.push(`${sizesPath} is missing`);
    else {
      const sizes = parseSizes(sizesBytes, sizesPath);
      shape = sizes.shape;
      layout = parseLayout(sizes.raw, sizesPath);
    }
  } catch (error) {
    if (!isSuperchunkError(error)) throw error;
    problems.push(error.message);
  }
  const text = layout?.storage === undefined ? storageBytes : encodeJson(layout.storage);
  if (text === undefined) {
    if ((await store.stat(joinKey(path, "__rootdirs__"))) !== undefined) throw notOurs(store, path, "ctable");
    if (sizesBytes !== undefined)
      throw new SuperchunkError(
        "INCOMPLETE",
        "the file is missing, without which nothing tells what the chunks hold",
        { path: storagePath },
      );
    throw new SuperchunkError(
      "NOT_FOUND",
      'there is no array of superchunks, a folder with meta/sizes and meta/storage, and nothing else can be repaired; "superchunk verify" says what is wrong with other archives',
      { path: store.describe(path) },
    );
  }
  const storage = parseStorage(text, storagePath);
  await refuseBcolz(store, path, storage, layout);
  const { dtype, chunklen } = storage;
  const declared = storage.raw["superchunk"] as JsonObject | undefined;
  const hasColumns =
    dtype.kind === "struct" && declared?.["columns"] !== false && !(await isPlain(store, path));
  let rowShape = shape?.slice(1);
  const file = await firstFile(
    store,
    path,
    dtype.kind === "struct" && hasColumns ? dtype.fields[0]?.name : undefined,
  );
  rowShape ??= file === undefined ? [] : rowShapeOf(file.chunkSize, chunklen * dtype.itemSize);
  const stored = storedOptions(storage);
  const settings = settleStored(
    {
      dtype,
      rowShape,
      hasColumns,
      dflt: storage.dflt,
      revision: (layout?.revision ?? 0) + 1,
      zarr: storage.superchunk?.writeFeatures.includes(ZARR_FEATURE) === true,
    },
    { ...stored, checksum: stored.checksum ?? file?.checksum ?? "crc32" },
    storagePath,
  );
  const columns = layOutColumns(path, { dtype, rowShape, hasColumns });
  const attributesPath = store.describe(joinKey(path, "meta/attributes"));
  const attrs = attrsBytes === undefined ? {} : readAttrs(attrsBytes, attributesPath, problems);
  return {
    storage,
    settings,
    columns,
    layout,
    rows: shape?.[0],
    attrs: attrs ?? {},
    damagedAttributes: attrs === undefined ? attrsBytes : undefined,
  };
}

/** The attributes; undefined where they cannot be read. */
function readAttrs(bytes: Uint8Array, path: string, problems: string[]): JsonObject | undefined {
  try {
    const value = parseJson(bytes, path);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as JsonObject;
    problems.push(`${path} is no JSON object`);
  } catch (error) {
    if (!isSuperchunkError(error)) throw error;
    problems.push(error.message);
  }
  return undefined;
}

/** A shape that the bytes of a chunk allow, where no metadata tell it. */
function rowShapeOf(chunkBytes: number, scalarBytes: number): number[] {
  const items = chunkBytes / scalarBytes;
  return Number.isInteger(items) && items > 1 ? [items] : [];
}

async function isPlain(store: ReadableStore, path: string): Promise<boolean> {
  for await (const { name } of store.list(joinKey(path, "data")))
    if (parseSuperchunkName(name) !== undefined) return true;
  return false;
}

async function firstFile(
  store: ReadableStore,
  path: string,
  column: string | undefined,
): Promise<Salvaged["header"] | undefined> {
  const folder = joinKey(path, "data", column ?? "");
  for (const number of await numbersIn(store, folder)) {
    const found = await salvage(store, joinKey(folder, superchunkName(number)), Number.MAX_SAFE_INTEGER);
    if (found !== undefined) return found.header;
  }
  return undefined;
}

/** Numbers of the superchunks in a folder, in order. */
export async function numbersIn(store: ReadableStore, folder: string): Promise<number[]> {
  const numbers: number[] = [];
  for await (const { name, kind } of store.list(folder)) {
    const number = parseSuperchunkName(name);
    if (number !== undefined && kind === "object") numbers.push(number);
  }
  return numbers.sort((a, b) => a - b);
}

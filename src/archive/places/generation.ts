/**
 * One generation of an array of superchunks with a layout: `meta/sizes` and the matching `meta/storage`, read consistently.
 * @see FORMAT.md [FG]
 */
import { isEqual } from "../../bytes/arrays.ts";
import { SuperchunkError } from "../../errors.ts";
import { checkStoredName, parseStorage, type StoredStorage } from "../../format/folder.ts";
import { objectOf, parseJson, stringifyJson } from "../../format/json.ts";
import { parseLayout, type StoredLayout } from "../../format/layout.ts";
import type { DType, JsonInput } from "../../format/types.ts";
import { parsePlaces } from "../../places/declared.ts";
import { openPlaces } from "../../places/open-places.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore, StoreOptions } from "../../store/types.ts";
import { type ArrayFolder, type FolderMetadata, readFolder } from "../kinds/array-folder.ts";
import type { OpenOptions } from "../kinds/types.ts";
import { arrayJournalKey, readArrayJournal, withWrites } from "./journal.ts";

/** The write feature of arrays whose folder is also a Zarr array, which every writer keeps up to date. [FY-01] */
export const ZARR_FEATURE = "zarr";
/** The write feature of arrays that several writers append to, each with numbers it has reserved. [FG-16] */
export const SHARED_FEATURE = "shared";
/** Write features that this library knows. [FZ-09] */
export const WRITE_FEATURES: readonly string[] = [ZARR_FEATURE, SHARED_FEATURE];
/** The two files are read at most this often until they match. */
const MAX_TRIES = 100;

export interface Generation {
  readonly folder: ArrayFolder;
  readonly layout: StoredLayout;
  readonly storage: StoredStorage;
  /** The array's store with its places. */
  readonly store: ReadableStore;
  /** `meta/sizes` as it was read. */
  readonly sizes: Uint8Array;
  /** True if each field of the dtype is stored in a folder. */
  readonly hasColumns: boolean;
}

/**
 * Reads the newest generation; `found` is what has been read already. With `rows`, only that many rows are shown. With
 * `metadata`, only metadata will be read: places are not opened, and the journal is not applied.
 * @throws UNSUPPORTED for an unknown read feature; UNSAFE_PATH for a place that is not allowed; NOT_FOUND if the layout
 * is gone; BAD_FIELD and the other codes of damage
 */
export async function readGeneration(
  store: ReadableStore,
  path: string,
  found: FolderMetadata | undefined,
  options: OpenOptions & { readonly metadata?: boolean },
  rows?: number,
): Promise<Generation> {
  let { sizes, storage } = found ?? (await readBoth(store, path, options));
  for (let tries = 0; ; tries++) {
    const sizesPath = store.describe(joinKey(path, "meta/sizes"));
    if (sizes === undefined) throw gone(sizesPath);
    const layout = parseLayout(objectOf(parseJson(sizes, sizesPath)), sizesPath);
    if (layout === undefined) throw gone(sizesPath);
    const text = layout.storage === undefined ? storage : encodeJson(layout.storage);
    if (text === undefined) throw missingStorage(store.describe(joinKey(path, "meta/storage")));
    const storagePath =
      layout.storage === undefined ? store.describe(joinKey(path, "meta/storage")) : sizesPath;
    const parsed = parseStorage(text, storagePath);
    const declared = objectOf(parsed.raw["superchunk"] ?? null);
    if (declared["revision"] === layout.revision) {
      const { openPlace, metadata } = options;
      const isPlaced = layout.places !== undefined || declared["places"] !== undefined;
      const array = { path, id: layout.id, spans: layout.places ?? [] };
      const placed =
        isPlaced && metadata !== true
          ? await openPlaces(store, array, parsePlaces(parsed.raw, storagePath), {
              openPlace,
              mode: "read",
              sizesPath,
            })
          : store;
      const folder = readFolder(placed, path, { sizes, storage: text }, options, rows);
      const hasColumns = declared["columns"] === true && folder.dtype.kind === "struct";
      const generation = { folder, layout, storage: parsed, store: placed, sizes, hasColumns };
      if (layout.journal === undefined || metadata) return generation;
      try {
        return {
          ...generation,
          folder: { ...folder, store: await withChanges(placed, path, generation, options) },
        };
      } catch (error) {
        const newest = await readBoth(store, path, options);
        if (newest.sizes === undefined || isEqual(newest.sizes, sizes)) throw error;
        // A writer has completed the journal.
        ({ sizes, storage } = newest);
        continue;
      }
    }
    if (tries >= MAX_TRIES) {
      throw new SuperchunkError(
        "BAD_FIELD",
        `superchunk.revision is ${String(declared["revision"])}, but meta/sizes belongs to revision ${layout.revision}. One of the files is of another time; run "superchunk repair", or look for another copy`,
        {
          path: storagePath,
          field: "superchunk.revision",
          expected: layout.revision,
          found: declared["revision"],
        },
      );
    }
    // A writer committed between the two reads.
    ({ sizes, storage } = await readBoth(store, path, options));
  }
}

/** The store with the generation's journal applied. [FG-12] */
async function withChanges(
  store: ReadableStore,
  path: string,
  { folder, layout, hasColumns }: Generation,
  { signal }: StoreOptions,
): Promise<ReadableStore> {
  const folders = dataFolders(path, folder.dtype, hasColumns);
  const files = await readArrayJournal(store, path, layout, folders, { signal });
  return withWrites(store, files, store.describe(arrayJournalKey(path, layout.journal ?? "")), { signal });
}

/** The folders of an array's superchunks: one, or one for each field. */
function dataFolders(path: string, dtype: DType, hasColumns: boolean): string[] {
  const data = joinKey(path, "data");
  if (!hasColumns || dtype.kind !== "struct") return [data];
  return dtype.fields.map(({ name }) => {
    checkStoredName(name, data, "field");
    return joinKey(data, name);
  });
}

async function readBoth(store: ReadableStore, path: string, options: StoreOptions): Promise<FolderMetadata> {
  const [sizes, storage] = await Promise.all([
    store.get(joinKey(path, "meta/sizes"), options),
    store.get(joinKey(path, "meta/storage"), options),
  ]);
  return { sizes, storage };
}

/** True if an array keeps itself a Zarr array, and its state does not say that the view shows this generation. [FY-06] */
export async function isViewBehind(
  store: ReadableStore,
  path: string,
  { storage, layout }: Generation,
  options: StoreOptions,
): Promise<boolean> {
  if (storage.superchunk?.writeFeatures.includes(ZARR_FEATURE) !== true) return false;
  const key = joinKey(path, "meta/zarr");
  const bytes = await store.get(key, options);
  const { id, generation } = bytes === undefined ? {} : objectOf(parseJson(bytes, store.describe(key)));
  return id !== layout.id || generation !== layout.generation;
}

/** Write features that this library does not know: then the array is opened for reading only. */
export function unknownWriteFeatures({ superchunk }: StoredStorage): readonly string[] {
  return (superchunk?.writeFeatures ?? []).filter((feature) => !WRITE_FEATURES.includes(feature));
}

/** A metadata file as this library writes it. */
export function encodeJson(value: JsonInput): Uint8Array {
  return new TextEncoder().encode(`${stringifyJson(value, { python: true })}\n`);
}

function missingStorage(path: string): SuperchunkError {
  return new SuperchunkError(
    "INCOMPLETE",
    "the file is missing, and the array cannot be read without it. Look for a complete copy",
    { path, expected: "a file", found: "nothing" },
  );
}

function gone(path: string): SuperchunkError {
  return new SuperchunkError("NOT_FOUND", "the array is gone", { path });
}

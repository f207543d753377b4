/** What a writer must know of an existing carray. Knows the folder; must not know how it is changed. */

import type { ArrayArchive } from "../../archive/kinds/types.ts";
import { openArrayFolder } from "../../archive/open/open-array-folder.ts";
import { refuseSymbolic } from "../../archive/places/linked.ts";
import { elementsOf } from "../../bytes/arrays.ts";
import { COMPRESSORS } from "../../codec/encode/encode-settings.ts";
import type { CompressorName } from "../../codec/types.ts";
import { SuperchunkError } from "../../errors.ts";
import { parseSizes, parseStorage, type StoredSizes } from "../../format/folder.ts";
import { carrayChunkName } from "../../format/naming.ts";
import { joinKey } from "../../store/key.ts";
import type { StoreOptions, WritableStore } from "../../store/types.ts";
import { type CarraySettings, checkChunklen, typesizeOf } from "./carray-settings.ts";

/** A carray that will be changed. */
export interface CarrayState {
  readonly store: WritableStore;
  readonly path: string;
  readonly archive: ArrayArchive;
  readonly settings: CarraySettings;
  readonly sizes: StoredSizes;
  /** The text of `meta/sizes`. */
  readonly sizesText: string;
  /** Version of `meta/sizes` when it was read. */
  readonly sizesVersion: string;
  readonly rows: number;
}

/**
 * Reads the carray at `path`.
 * @throws NOT_FOUND; LIMIT if its chunks are longer than Blosc's; UNSUPPORTED for what is not a carray (a BLZ root is never
 * treated as one) and for Python objects; damage
 */
export async function readCarray(
  store: WritableStore,
  path: string,
  options: StoreOptions,
): Promise<CarrayState> {
  const shown = store.describe(path);
  const sizesKey = joinKey(path, "meta/sizes");
  const storageKey = joinKey(path, "meta/storage");
  const info = await store.stat(sizesKey, options);
  const [sizesBytes, storageBytes] = [
    await store.get(sizesKey, options),
    await store.get(storageKey, options),
  ];
  if (info === undefined || sizesBytes === undefined || storageBytes === undefined)
    throw new SuperchunkError("NOT_FOUND", "this is not a carray: meta/sizes or meta/storage is missing", {
      path: shown,
    });
  const archive = await openArrayFolder(store, path, { sizes: sizesBytes, storage: storageBytes }, options);
  if (archive.dialect !== "carray" || archive.dtype.kind === "object")
    throw new SuperchunkError(
      "UNSUPPORTED",
      archive.dialect === "carray"
        ? "the array holds Python objects, which are never written"
        : "the folder is a BLZ root of superchunks, not a carray",
      { path: shown, field: "dialect", expected: "carray", found: archive.dialect },
    );
  const storage = parseStorage(storageBytes, store.describe(storageKey));
  const sizes = parseSizes(sizesBytes, store.describe(sizesKey));
  const [rows = 0, ...rowShape] = sizes.shape;
  const { dtype, chunklen, cparams } = storage;
  const rowBytes = elementsOf(rowShape) * dtype.itemSize;
  if (rowBytes === 0)
    throw new SuperchunkError(
      "UNSUPPORTED",
      "the rows of the array have no bytes, which bcolz does not support",
      { path: shown, field: "shape", found: sizes.shape },
    );
  checkChunklen(chunklen, rowBytes);
  return {
    store,
    path,
    archive,
    sizes,
    sizesText: new TextDecoder().decode(sizesBytes),
    sizesVersion: info.version,
    rows,
    settings: {
      dtype,
      rowShape,
      rowBytes,
      chunklen,
      encode: {
        // blz 0.6 and the first bcolz had no other compressor, and did not store its name.
        cname: compressorOf(cparams.cname ?? "blosclz", store.describe(storageKey)),
        clevel: cparams.clevel ?? 5,
        shuffle: cparams.shuffle ?? "noshuffle",
        typesize: typesizeOf(dtype),
      },
      dflt: storage.dflt,
    },
  };
}

function compressorOf(name: string, path: string): CompressorName {
  if (COMPRESSORS.includes(name)) return name as CompressorName;
  throw new SuperchunkError(
    "UNSUPPORTED",
    `cname is ${JSON.stringify(name)}, which superchunk cannot encode`,
    { path, field: "cname", expected: COMPRESSORS, found: name },
  );
}

export function chunkFileKey(path: string, index: number): string {
  return joinKey(path, "data", carrayChunkName(index));
}

export function chunksOf(rows: number, chunklen: number): number {
  return Math.ceil(rows / chunklen);
}

/**
 * Reads the carray at `path` for its writer, and removes what an interrupted one left. Throws like {@link readCarray}, and
 * CONFLICT like {@link refuseSymbolic}.
 */
export async function claimCarray(
  store: WritableStore,
  path: string,
  options: StoreOptions,
): Promise<CarrayState> {
  await refuseSymbolic(store, path, options);
  const state = await readCarray(store, path, options);
  for (const folder of [path, joinKey(path, "meta"), joinKey(path, "data")])
    await store.removeLeftovers?.(folder, options);
  return state;
}

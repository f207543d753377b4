/**
 * An archive as a transformer shard: its Blosc chunks are copied, a short last one is padded.
 *
 * zarr 2.18 reads what comes out. Knows archives and the transformer's layout.
 */
import type { Archive, ArrayArchive, BytesArchive, LongOptions } from "../../archive/kinds/types.ts";
import { decode, encode } from "../../codec/index.ts";
import { SuperchunkError } from "../../errors.ts";
import { formatDType } from "../../format/dtype.ts";
import { keepFloats } from "../../format/json-float.ts";
import type { JsonValue } from "../../format/types.ts";
import { hasEntries } from "../../store/entries.ts";
import { joinKey } from "../../store/key.ts";
import type { WritableStore } from "../../store/types.ts";
import { dataKey, documentKey, TRANSFORMER_INDEX } from "../../zarr/document/metadata-transformer.ts";
import { openZarrArray } from "../../zarr/read/open.ts";
import { encodeShardIndex, type ShardEntry } from "../../zarr/read/shard-index.ts";
import {
  createTransformerArray,
  createTransformerGroup,
  refuseFilters,
  type TransformerSpecification,
} from "../../zarr/transformer/transformer-create.ts";
import { placeFailure } from "../run/chunk-failure.ts";
import { deleteTree } from "../run/destination.ts";
import { describeBytes, describeColumn } from "../sources/source.ts";
import { compareValues } from "./verify-back.ts";
import { noObjects } from "./write-file.ts";

/** Chunks in a shard unless asked otherwise. */
const CHUNKS_PER_SHARD = 1024;

/** Options of {@link exportToTransformer}. */
export interface TransformerExportOptions extends LongOptions {
  /** Chunks along the first dimension of a shard (default 1024). */
  readonly chunksPerShard?: number | undefined;
  /** Of tables, only these columns. Default all. */
  readonly columns?: readonly string[] | undefined;
  /** Read every array back and compare its values with the archive's. */
  readonly verify?: boolean | undefined;
}

/** What {@link exportToTransformer} did. */
export interface TransformerExport {
  readonly arrays: number;
  /** Chunks whose bytes went over unchanged. */
  readonly copied: number;
  /** Short last chunks that were filled up. */
  readonly padded: number;
  readonly verified: boolean;
}

/**
 * Writes an archive into a transformer hierarchy: plain bytes or an array of whole rows as an array, a table as a group
 * of them. An array's document is written when its shards are there. Where it fails, a hierarchy that it began is gone; in one
 * that was there before, arrays that were finished stay.
 *
 * @throws UNSUPPORTED for archives in F order or cut within rows, for structured values, nested arrays, an attribute
 * `filters`, and chunks with snappy, which zarr 2.18 cannot decode; CONFLICT where the array is; and whatever reading the archive
 * throws; with `verify` BAD_FIELD where values differ
 */
export async function exportToTransformer(
  archive: Archive,
  store: WritableStore,
  base: string,
  path: string,
  options: TransformerExportOptions = {},
): Promise<TransformerExport> {
  const isNew = !(await hasEntries(store, base));
  try {
    const done = await exportArchive(archive, store, base, path, options);
    return { ...done, verified: options.verify === true };
  } catch (error) {
    if (isNew) await deleteTree(store, base, new Set()).catch(() => undefined); // the first error is the one to tell
    throw error;
  }
}

async function exportArchive(
  archive: Archive,
  store: WritableStore,
  base: string,
  path: string,
  options: TransformerExportOptions,
): Promise<Omit<TransformerExport, "verified">> {
  const total = archive.nbytes;
  let done = 0;
  const advance = (nbytes: number): void => {
    done += nbytes;
    options.onProgress?.({ done, total, label: archive.store.describe(archive.path) });
  };
  if (archive.kind !== "table") {
    const counts = await exportArray(archive, store, base, path, options, advance);
    return { arrays: 1, ...counts };
  }
  const names = archive.names.filter((name) => options.columns?.includes(name) ?? true);
  const missing = options.columns?.find((name) => !archive.names.includes(name));
  if (missing !== undefined) {
    throw new SuperchunkError("NOT_FOUND", `no column "${missing}"; there are ${archive.names.join(", ")}`, {
      path: archive.store.describe(archive.path),
      field: missing,
    });
  }
  const sum = { copied: 0, padded: 0 };
  for (const name of names) {
    const counts = await exportArray(
      archive.column(name),
      store,
      base,
      joinKey(path, name),
      options,
      advance,
    );
    sum.copied += counts.copied;
    sum.padded += counts.padded;
  }
  await createTransformerGroup(
    store,
    base,
    path,
    keepFloats({ ...archive.attrs, column_order: names }, archive.attrs),
  );
  return { arrays: names.length, ...sum };
}

async function exportArray(
  archive: ArrayArchive | BytesArchive,
  store: WritableStore,
  base: string,
  path: string,
  { chunksPerShard = CHUNKS_PER_SHARD, verify, signal }: TransformerExportOptions,
  advance: (nbytes: number) => void,
): Promise<{ readonly copied: number; readonly padded: number }> {
  const { shape, dataType, rows, itemSize, fillValue } = describe(archive);
  const { cname, clevel, shuffle } = await archive.summary({ signal });
  if (cname === "snappy") {
    throw new SuperchunkError(
      "UNSUPPORTED",
      "zarr 2.18 cannot decode Blosc chunks with snappy, and here chunks are only copied; convert it to Zarr v3",
      { path: archive.store.describe(archive.path), field: "cname", found: cname },
    );
  }
  const others = shape.slice(1).map((n) => Math.max(1, n));
  // Of an empty archive there may be a chunk, of nothing, for which Zarr has no place.
  const nchunks = archive.nbytes === 0 ? 0 : archive.nchunks;
  const perShard = Math.max(1, Math.min(chunksPerShard, nchunks));
  const specification: TransformerSpecification = {
    shape,
    dataType,
    chunkShape: [rows, ...others],
    chunksPerShard: [perShard, ...others.map(() => 1)],
    compressor: {
      codec: "blosc",
      configuration: {
        cname: cname ?? "lz4",
        clevel: clevel ?? 5,
        shuffle: ["noshuffle", "shuffle", "bitshuffle"].indexOf(shuffle ?? "shuffle"),
        blocksize: 0,
      },
    },
    fillValue,
    attributes: archive.attrs,
  };
  refuseFilters(archive.attrs, archive.store.describe(archive.path));
  await refuseTaken(store, base, path);
  let padded = 0;
  for (let shard = 0; shard * perShard < nchunks; shard++) {
    const first = shard * perShard;
    const pieces = async function* (): AsyncGenerator<Uint8Array> {
      const entries = new Array<ShardEntry | undefined>(perShard).fill(undefined);
      let offset = 0;
      const end = Math.min(first + perShard, nchunks);
      for await (const { place, bytes } of archive.encodedChunks(first, end, { signal })) {
        const isShort = place.nbytes < archive.chunkBytes;
        if (isShort) padded++;
        const chunk = isShort
          ? await placeFailure(archive.store, place, pad(bytes, archive.chunkBytes, itemSize))
          : bytes;
        entries[place.index - first] = { offset, nbytes: chunk.length };
        offset += chunk.length;
        yield chunk;
        advance(place.nbytes);
      }
      yield await encodeShardIndex(entries, [perShard], TRANSFORMER_INDEX);
    };
    const key = joinKey(base, dataKey(path, [shard, ...others.map(() => 0)], "/"));
    await store.put(key, pieces(), { signal });
  }
  await createTransformerArray(store, base, path, specification);
  if (verify === true) await verifyExport(archive, store, base, path, signal);
  return { copied: nchunks - padded, padded };
}

/** Compares an array that is there with its archive. Where that fails the array has no document any more. */
async function verifyExport(
  archive: ArrayArchive | BytesArchive,
  store: WritableStore,
  base: string,
  path: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  try {
    const source =
      archive.kind === "bytes" ? await describeBytes(archive, {}) : await describeColumn("", archive);
    const at = joinKey(base, path);
    await compareValues(source, await openZarrArray(store, at, { signal }), store.describe(at), signal);
  } catch (error) {
    await store.delete(joinKey(base, documentKey(path, "array"))).catch(() => undefined); // the first error is the one to tell
    throw error;
  }
}

/** Throws `CONFLICT` where a node is, before anything is written. */
async function refuseTaken(store: WritableStore, base: string, path: string): Promise<void> {
  for (const kind of ["array", "group"] as const) {
    const key = joinKey(base, documentKey(path, kind));
    if ((await store.stat(key)) === undefined) continue;
    throw new SuperchunkError("CONFLICT", "a node of the hierarchy is there already; name another", {
      path: store.describe(key),
    });
  }
}

function describe(archive: ArrayArchive | BytesArchive): {
  shape: readonly number[];
  dataType: string;
  rows: number;
  itemSize: number;
  fillValue: JsonValue;
} {
  if (archive.chunkStarts !== undefined) {
    throw new SuperchunkError(
      "UNSUPPORTED",
      "the archive's chunks are of unequal lengths, so they cannot be copied; convert it to Zarr v3",
      { path: archive.store.describe(archive.path), field: "chunks", found: "unequal lengths" },
    );
  }
  if (archive.kind === "bytes") {
    const rows = Math.max(1, archive.chunkBytes);
    return { shape: [archive.nbytes], dataType: "|u1", rows, itemSize: 1, fillValue: 0 };
  }
  const { dtype, shape, order, chunkLength, columnNames } = archive;
  const type = formatDType(dtype);
  const path = archive.store.describe(archive.path);
  if (dtype.kind === "object") throw noObjects(path);
  if (typeof type !== "string" || columnNames.length > 0) {
    throw new SuperchunkError("UNSUPPORTED", "zarr 2.18's version 3 has no structured data types", {
      path,
      field: "dtype",
      found: dtype.kind,
    });
  }
  if (shape.length === 0 || chunkLength === undefined || (order === "F" && shape.length > 1)) {
    throw new SuperchunkError(
      "UNSUPPORTED",
      "the archive's chunks are not whole rows in C order, so they cannot be copied; convert it to Zarr v3",
      { path, field: "chunks", found: order },
    );
  }
  return {
    shape,
    dataType: type,
    rows: Math.max(1, chunkLength), // 0 of an empty array
    itemSize: dtype.itemSize,
    fillValue: zeroOf(dtype.kind),
  };
}

function zeroOf(kind: string): JsonValue {
  if (kind === "bool") return false;
  return kind === "bytes" || kind === "unicode" ? "" : 0;
}

async function pad(chunk: Uint8Array, nbytes: number, typesize: number): Promise<Uint8Array> {
  const items = new Uint8Array(nbytes);
  items.set(await decode(chunk, { maxNbytes: nbytes }));
  return encode(items, { cname: "lz4", typesize: Math.min(255, typesize) });
}

/**
 * The two forms of kerchunk's references: JSON, version 1, a map from keys of a Zarr store to documents and places; and
 * Parquet.
 *
 * Our guards are in a separate member, which other readers ignore. @see FORMAT.md [FV-01]
 */

import type { ColumnSource } from "hyparquet-writer";
import { at, elementsOf } from "../../bytes/arrays.ts";
import type { Shuffle } from "../../codec/types.ts";
import type { ArrayJob } from "../../convert/plan/array-job.ts";
import { SuperchunkError } from "../../errors.ts";
import { formatDType } from "../../format/dtype.ts";
import { stringifyJson } from "../../format/json.ts";
import { keepFloats } from "../../format/json-float.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { WritableStore } from "../../store/types.ts";
import { chunkKey, chunkShapeOf } from "../../zarr/document/make-v3.ts";
import { base64 } from "../../zarr/document/zarr-dtype.ts";
import { PackedTexts } from "../containers/guard.ts";
import type { PlannedChunk, ReferencedArray, Zarr2Documents } from "../plan/plan.ts";
import type { ReferenceItem } from "../plan/reference-stream.ts";

/** Characters that are collected before they are yielded. */
const PIECE = 1 << 16;

/** Version of the Zarr documents in a set of references. */
export type ReferenceFormat = 2 | 3;

/**
 * The text of a set of references, in pieces. Memory does not grow with the number of references, except for the packed
 * guards, one for each object.
 */
export async function* formatKerchunkJson(
  items: AsyncIterable<ReferenceItem>,
  format: ReferenceFormat,
): AsyncGenerator<Uint8Array> {
  const encoder = new TextEncoder();
  const guards = new PackedTexts();
  let hasGuards = false;
  let text = '{"version":1,"refs":{';
  let separator = "\n";
  const add = (key: string, value: string): void => {
    text += `${separator}${JSON.stringify(key)}:${value}`;
    separator = ",\n";
  };
  const name = format === 2 ? zarr2ChunkKey : chunkKey;
  let location = "";
  let quoted = "";
  for await (const item of items) {
    switch (item.kind) {
      case "group":
      case "array":
        for (const [key, document] of documentsOf(item, format))
          add(key, JSON.stringify(stringifyJson(document)));
        break;
      case "native":
        add(joinKey(item.node, name(item.index)), `"base64:${base64(item.bytes)}"`);
        break;
      case "virtual":
        if (item.location !== location) {
          location = item.location;
          quoted = JSON.stringify(location);
        }
        add(joinKey(item.node, name(item.index)), `[${quoted},${item.offset},${item.length}]`);
        break;
      case "object": {
        const { size, lastModified, etag } = item.guard;
        const guard = JSON.stringify([size, lastModified ?? null, etag ?? null]);
        guards.add(`${hasGuards ? ",\n" : "\n"}${JSON.stringify(item.location)}:${guard}`);
        hasGuards = true;
      }
    }
    if (text.length > PIECE) {
      yield encoder.encode(text);
      text = "";
    }
  }
  text += "\n}";
  if (hasGuards) text += ',"guards":{';
  for (const guard of guards) {
    text += guard;
    if (text.length <= PIECE) continue;
    yield encoder.encode(text);
    text = "";
  }
  yield encoder.encode(`${text}${hasGuards ? "\n}" : ""}}\n`);
}

/** Documents of a node by key. */
function documentsOf(
  item: Extract<ReferenceItem, { kind: "group" | "array" }>,
  format: ReferenceFormat,
): [key: string, document: JsonObject][] {
  if (item.kind === "group") {
    const { node, document } = item;
    if (format === 3) return [[joinKey(node, "zarr.json"), document]];
    return [
      [joinKey(node, ".zgroup"), ZGROUP],
      [joinKey(node, ".zattrs"), (document["attributes"] ?? {}) as JsonObject],
    ];
  }
  const { node, document, job, zarr2 } = item.array;
  if (format === 3) return [[joinKey(node, "zarr.json"), document]];
  if (item.array.sampledBytes !== undefined)
    throw new SuperchunkError(
      "UNSUPPORTED",
      "references to whole shards need Zarr v3 documents, because Zarr v2 has no shards: write kerchunk JSON of Zarr v3, or Icechunk",
      { path: node, field: "format", expected: 3, found: 2 },
    );
  if (zarr2 === undefined && job === undefined) throw new RangeError(`no documents of Zarr v2 for ${node}`);
  const { zarray, zattrs } = zarr2 ?? toZarr2(job as ArrayJob, document);
  return [
    [joinKey(node, ".zarray"), zarray],
    [joinKey(node, ".zattrs"), zattrs],
  ];
}

const SHUFFLES: Readonly<Record<Shuffle, number>> = { noshuffle: 0, shuffle: 1, bitshuffle: 2 };

const ZGROUP: JsonObject = { zarr_format: 2 };

/**
 * Converts an array's Zarr v3 document to Zarr v2. Throws `UNSUPPORTED` for what Zarr v2 cannot express: a rectilinear grid,
 * and Fortran order if items have dimensions.
 */
function toZarr2(job: ArrayJob, document: JsonObject): Zarr2Documents {
  const grid = (document["chunk_grid"] as { readonly name: string }).name;
  const { archive } = job.source;
  const path = archive.store.describe(archive.path);
  if (grid !== "regular")
    throw new SuperchunkError("UNSUPPORTED", "Zarr v2 has no rectilinear grid; write references of Zarr v3", {
      path,
      field: "chunk_grid",
    });
  const reversed = job.layout?.reversed === true;
  if (reversed && job.type.itemShape.length > 0)
    throw new SuperchunkError(
      "UNSUPPORTED",
      "Zarr v2 has no word for Fortran order of items that are arrays; write references of Zarr v3",
      { path, field: "order" },
    );
  const { cname, clevel, shuffle } = job.blosc;
  const names = document["dimension_names"];
  const attributes = (document["attributes"] ?? {}) as JsonObject;
  return {
    zarray: {
      zarr_format: 2,
      shape: document["shape"] ?? [],
      chunks: chunkShapeOf(document),
      dtype: typeString(job),
      compressor: { id: "blosc", cname, clevel, shuffle: SHUFFLES[shuffle], blocksize: 0 },
      // No chunk is missing. xarray would read a fill value as "no data", which the archive's default value is not.
      fill_value: null,
      order: reversed ? "F" : "C",
      filters: null,
      dimension_separator: ".",
    },
    zattrs: keepFloats(
      { ...(names === undefined ? {} : { _ARRAY_DIMENSIONS: names }), ...attributes },
      attributes,
    ),
  };
}

export function zarr2ChunkKey(index: readonly number[]): string {
  return index.length === 0 ? "0" : index.join(".");
}

/** numpy's type string for the data type of the Zarr v3 document. */
function typeString({ type, source }: ArrayJob): JsonValue {
  if (type.original === undefined) return formatDType(source.dtype);
  const code = ORIGINALS[String(type.dataType)];
  if (code === undefined) throw new RangeError(`no type string for ${String(type.dataType)}`);
  const configuration = type.bytesCodec["configuration"] as { readonly endian?: string } | undefined;
  const order = code.endsWith("1") ? "|" : configuration?.endian === "big" ? ">" : "<";
  return `${order}${code}`;
}

/** The original types behind the data types of portable conversions. */
const ORIGINALS: Readonly<Record<string, string>> = { int64: "i8", uint32: "u4", uint8: "u1" };

/** The bytes of a base64 text. Throws `BAD_FIELD` if it is not base64. */
export function fromBase64(text: string, path: string): Uint8Array {
  let binary: string;
  try {
    binary = atob(text);
  } catch (cause) {
    throw new SuperchunkError("BAD_FIELD", "an inlined chunk is not base64", { path, cause });
  }
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

// kerchunk's references as Parquet: `.zmetadata`, and for each array files with a fixed number of rows, one row for each chunk.
//
// Rows are in C order of the array's chunks. Guards are in separate columns, which other readers ignore. hyparquet and
// hyparquet-writer do the encoding. @see FORMAT.md [FV-02]

/** Rows of a file. */
const RECORD_SIZE = 100_000;
/** Rows that are encoded at a time: the encoder creates an object for each of their values. */
const ROW_GROUP = 16_384;

interface ParquetOptions {
  readonly recordSize?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Writes a set of references below `prefix` of a store. `.zmetadata` is written last and makes the set complete. */
export async function writeKerchunkParquet(
  items: AsyncIterable<ReferenceItem>,
  target: WritableStore,
  prefix: string,
  options: ParquetOptions = {},
): Promise<void> {
  const { recordSize = RECORD_SIZE, signal } = options;
  const metadata: Record<string, JsonObject> = {};
  let rows: ReturnType<typeof arrayRows> | undefined;
  for await (const item of items) {
    switch (item.kind) {
      case "group":
      case "array":
        await rows?.finish();
        rows = undefined;
        for (const [key, document] of documentsOf(item, 2)) metadata[key] = document;
        if (item.kind === "array") {
          const { array } = item;
          rows = arrayRows(array, recordSize, (number, bytes) =>
            target.put(joinKey(prefix, array.node, `refs.${number}.parq`), bytes, { signal }),
          );
        }
        break;
      case "native":
      case "virtual":
        await rows?.add(item);
        break;
      case "object":
        break; // rows contain their guards
    }
  }
  await rows?.finish();
  const text = stringifyJson({ metadata, record_size: recordSize });
  await target.put(joinKey(prefix, ".zmetadata"), new TextEncoder().encode(text), { signal });
}

type RowFile = ReturnType<typeof rowFile>;

function rowFile(count: number) {
  return {
    path: new Array<string | null>(count).fill(null),
    offset: new BigInt64Array(count),
    size: new BigInt64Array(count),
    raw: new Array<Uint8Array | null>(count).fill(null),
    objectSize: new BigInt64Array(count).fill(-1n),
    modified: new BigInt64Array(count).fill(-1n),
    etag: new Array<string | null>(count).fill(null),
    left: count,
  };
}

/** The rows of one array. `put` writes files when they are full. In Fortran order many files stay open until the end. */
function arrayRows(
  { document, hasHoles = false }: ReferencedArray,
  size: number,
  put: (number: number, bytes: Uint8Array) => Promise<unknown>,
) {
  const records = new Map<number, RowFile>();
  const begun = new Set<number>();
  const counts = chunkCounts(document);
  const total = elementsOf(counts);
  const recordAt = (number: number): RowFile => {
    const known = records.get(number);
    if (known !== undefined) return known;
    const record = rowFile(Math.min(size, total - number * size));
    records.set(number, record);
    begun.add(number);
    return record;
  };
  return {
    async add(chunk: PlannedChunk): Promise<void> {
      const row = chunk.index.reduce((sum, place, axis) => sum * at(counts, axis) + place, 0);
      const number = Math.floor(row / size);
      const record = recordAt(number);
      fillRow(record, row % size, chunk);
      if (--record.left > 0) return;
      records.delete(number);
      await put(number, await encodeRecord(record));
    },
    /**
     * Writes the files that are not full. Chunks that are not stored get rows without a place. Throws `INCOMPLETE` if chunks
     * are missing in an array that must have all.
     */
    async finish(): Promise<void> {
      if (hasHoles) {
        for (let number = 0; number * size < total; number++) if (!begun.has(number)) recordAt(number);
        for (const [number, record] of records) await put(number, await encodeRecord(record));
        return;
      }
      const [first] = records.keys();
      if (first === undefined) return;
      throw new SuperchunkError("INCOMPLETE", `file ${first} of the references is not full`, {
        field: "nchunks",
      });
    },
  };
}

function fillRow(record: RowFile, at: number, chunk: PlannedChunk): void {
  if (chunk.kind === "native") {
    record.raw[at] = chunk.bytes;
    return;
  }
  record.path[at] = chunk.location;
  record.offset[at] = BigInt(chunk.offset);
  record.size[at] = BigInt(chunk.length);
  const { guard } = chunk;
  if (guard === undefined) return;
  record.objectSize[at] = BigInt(guard.size);
  record.modified[at] = BigInt(guard.lastModified ?? -1);
  record.etag[at] = guard.etag ?? null;
}

/** Number of chunks along each axis of an array with a regular grid. */
export function chunkCounts(document: JsonObject): number[] {
  const shape = document["shape"] as readonly number[];
  const grid = document["chunk_grid"] as { configuration: { chunk_shape: readonly number[] } };
  return shape.map((n, axis) => Math.ceil(n / at(grid.configuration.chunk_shape, axis)));
}

async function encodeRecord(record: RowFile): Promise<Uint8Array> {
  const { parquetWriteBuffer } = await import("hyparquet-writer");
  const { path, offset, size, raw, objectSize, modified, etag } = record;
  const buffer = parquetWriteBuffer({
    columnData: [
      { name: "path", data: path, ...placesAs(path) },
      { name: "offset", data: offset, type: "INT64", nullable: false, statistics: true },
      { name: "size", data: size, type: "INT64", nullable: false, statistics: true },
      { name: "raw", data: raw, type: "BYTE_ARRAY" },
      { name: "object_size", data: objectSize, type: "INT64", nullable: false, statistics: true },
      { name: "last_modified", data: modified, type: "INT64", nullable: false, statistics: true },
      { name: "etag", data: etag, type: "STRING" },
    ],
    // fastparquet 2026 reads uncompressed parts as zeros.
    codec: "SNAPPY",
    // Without a null count in the statistics, fastparquet reads integers as floats, which VirtualiZarr refuses.
    statistics: false,
    rowGroupSize: ROW_GROUP,
  });
  return new Uint8Array(buffer);
}

/**
 * How places are encoded. fsspec takes an absent one for none if pandas gives None. fastparquet makes that of text in a dictionary and of
 * bytes; of other text it makes NaN with pandas 3, which fsspec fails on.
 */
function placesAs(path: readonly (string | null)[]): Pick<ColumnSource, "type" | "encoding"> {
  if (!path.includes(null)) return { type: "STRING" };
  return path.every((each) => each === null)
    ? { type: "BYTE_ARRAY" }
    : { type: "STRING", encoding: "RLE_DICTIONARY" };
}

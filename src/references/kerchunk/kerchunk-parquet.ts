/**
 * kerchunk's references as Parquet: `.zmetadata`, and for each array files of so many rows, a row a chunk.
 *
 * Rows count the chunks of the array in C order. Guards stand in columns of their own, which other readers pass over.
 * hyparquet and hyparquet-writer do the encoding. @see FORMAT.md [FV-02]
 */
import { at } from "../../bytes/at.ts";
import { SuperchunkError } from "../../errors.ts";
import { stringifyJson } from "../../format/json.ts";
import type { JsonObject } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { WritableStore } from "../../store/types.ts";
import type { PlannedChunk, ReferencedArray } from "../plan/plan.ts";
import type { ReferenceItem } from "../plan/reference-stream.ts";
import { documentsOf } from "./kerchunk-json.ts";

/** Rows of a file. */
export const RECORD_SIZE = 100_000;
/** Rows that are encoded at a time: the encoder makes an object of each of their values. */
const ROW_GROUP = 16_384;

/** Options of {@link writeKerchunkParquet}. */
export interface ParquetOptions {
  readonly recordSize?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Writes a set of references below `prefix` of a store; `.zmetadata` comes last and makes it whole. */
export async function writeKerchunkParquet(
  items: AsyncIterable<ReferenceItem>,
  target: WritableStore,
  prefix: string,
  options: ParquetOptions = {},
): Promise<void> {
  const { recordSize = RECORD_SIZE, signal } = options;
  const metadata: Record<string, JsonObject> = {};
  let rows: ArrayRows | undefined;
  for await (const item of items) {
    switch (item.kind) {
      case "group":
      case "array":
        await rows?.finish();
        rows = undefined;
        for (const [key, document] of documentsOf(item, 2)) metadata[key] = document;
        if (item.kind === "array") rows = new ArrayRows(target, prefix, item.array, recordSize, signal);
        break;
      case "native":
      case "virtual":
        await rows?.add(item);
        break;
      case "object":
        break; // rows carry their guards
    }
  }
  await rows?.finish();
  const text = stringifyJson({ metadata, record_size: recordSize });
  await target.put(joinKey(prefix, ".zmetadata"), new TextEncoder().encode(text), { signal });
}

/** Rows of one file, by column. */
class RowFile {
  readonly path: (string | null)[];
  readonly offset: BigInt64Array;
  readonly size: BigInt64Array;
  readonly raw: (Uint8Array | null)[];
  readonly objectSize: BigInt64Array;
  readonly modified: BigInt64Array;
  readonly etag: (string | null)[];
  left: number;

  constructor(count: number) {
    this.path = new Array<string | null>(count).fill(null);
    this.offset = new BigInt64Array(count);
    this.size = new BigInt64Array(count);
    this.raw = new Array<Uint8Array | null>(count).fill(null);
    this.objectSize = new BigInt64Array(count).fill(-1n);
    this.modified = new BigInt64Array(count).fill(-1n);
    this.etag = new Array<string | null>(count).fill(null);
    this.left = count;
  }
}

/** The rows of one array. Files are written as soon as they are full: at once, unless chunks lie in Fortran order. */
class ArrayRows {
  readonly #records = new Map<number, RowFile>();
  readonly #counts: readonly number[];
  readonly #total: number;
  readonly #put: (record: number, bytes: Uint8Array) => Promise<unknown>;
  readonly #size: number;

  constructor(
    target: WritableStore,
    prefix: string,
    { node, document }: ReferencedArray,
    recordSize: number,
    signal: AbortSignal | undefined,
  ) {
    this.#counts = chunkCounts(document);
    this.#total = this.#counts.reduce((total, n) => total * n, 1);
    this.#size = recordSize;
    this.#put = (record, bytes) =>
      target.put(joinKey(prefix, node, `refs.${record}.parq`), bytes, { signal });
  }

  async add(chunk: PlannedChunk): Promise<void> {
    const row = chunk.index.reduce((sum, place, axis) => sum * at(this.#counts, axis) + place, 0);
    const number = Math.floor(row / this.#size);
    let record = this.#records.get(number);
    if (record === undefined) {
      record = new RowFile(Math.min(this.#size, this.#total - number * this.#size));
      this.#records.set(number, record);
    }
    fillRow(record, row % this.#size, chunk);
    if (--record.left > 0) return;
    this.#records.delete(number);
    await this.#put(number, await encodeRecord(record));
  }

  /** Writes what is not full: arrays whose chunks are not all there have none. */
  async finish(): Promise<void> {
    const [first] = this.#records.keys();
    if (first === undefined) return;
    throw new SuperchunkError("INCOMPLETE", `file ${first} of the references is not full`, {
      field: "nchunks",
    });
  }
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

/** Chunks along each axis of an array with a regular grid. */
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
      { name: "path", data: path, type: "STRING" },
      { name: "offset", data: offset, type: "INT64", nullable: false, statistics: true },
      { name: "size", data: size, type: "INT64", nullable: false, statistics: true },
      { name: "raw", data: raw, type: "BYTE_ARRAY" },
      { name: "object_size", data: objectSize, type: "INT64", nullable: false, statistics: true },
      { name: "last_modified", data: modified, type: "INT64", nullable: false, statistics: true },
      { name: "etag", data: etag, type: "STRING" },
    ],
    // fastparquet 2026 reads parts that are not compressed as zeros.
    codec: "SNAPPY",
    // Without a count of nulls in the statistics fastparquet takes whole numbers for floats, which VirtualiZarr refuses.
    statistics: false,
    rowGroupSize: ROW_GROUP,
  });
  return new Uint8Array(buffer);
}

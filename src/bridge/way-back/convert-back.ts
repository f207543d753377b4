/**
 * The way back: any archive, and any Zarr array, as `.npy`, Bloscpack, bcolz or superchunks.
 *
 * Chunks go over unchanged where the new format cuts the values as the source does. Each array is there as a whole, or not
 * at all. Knows which writer takes what; must not know how they write.
 */
import type { BloscpackOptions } from "../../array/foreign/bloscpack-options.ts";
import { compressArray, compressBytes } from "../../array/foreign/bloscpack-write.ts";
import { type CarrayOptions, createCarray } from "../../array/foreign/carray-write.ts";
import { createTable } from "../../array/foreign/table-write.ts";
import type { ArrayArchive, BytesArchive, LongOptions } from "../../array/types.ts";
import { createArray } from "../../array/write/create.ts";
import { encodeHere } from "../../codec/index.ts";
import type { ChunkEncoder, CompressorName } from "../../codec/types.ts";
import { SuperchunkError } from "../../errors.ts";
import { encodeNpyHeader } from "../../format/npy.ts";
import type { DType, Field, JsonValue } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { WritableStore } from "../../store/types.ts";
import { deleteTree } from "../destination.ts";
import { CopyingEncoder, offerChunks } from "./copying-encoder.ts";
import {
  type BackArray,
  type BackColumn,
  type BackSource,
  type BackTable,
  type BytesAs,
  describeBytes,
  describeColumn,
} from "./source.ts";

/** What can be written. */
export type BackFormat = "npy" | "bloscpack" | "bcolz" | "blz";

/** How it is converted back. */
export interface BackOptions extends LongOptions, BytesAs {
  /** Of tables, only these columns. */
  readonly columns?: readonly string[] | undefined;
  /** Replace what is there (default false: `CONFLICT`); not for bcolz. */
  readonly overwrite?: boolean | undefined;
  /** What encodes chunks that cannot be copied (default: the calling thread). */
  readonly encoder?: ChunkEncoder | undefined;
}

/** What was done. */
export interface BackResult {
  readonly arrays: number;
  /** Uncompressed bytes. */
  readonly nbytes: number;
  readonly chunksCopied: number;
  /** Chunks that were compressed anew. */
  readonly chunksRecoded: number;
  readonly seconds: number;
  /** What the format has no place for, in words. */
  readonly notes: readonly string[];
}

/** Bytes of rows of a table that are put together at a time, about. */
const BATCH_BYTES = 4 << 20;

/**
 * Converts a source into one file (`npy`, `bloscpack`) or folder (`bcolz`, `blz`) at `key`. A table becomes a folder of files,
 * a ctable, or an array of structs with a folder for each column.
 *
 * @throws CONFLICT where something is there; UNSUPPORTED for what the format cannot hold; BAD_ARGUMENT; NO_SPACE, IO; the
 * codes of damage
 */
export async function convertBack(
  source: BackSource,
  target: WritableStore,
  key: string,
  format: BackFormat,
  options: BackOptions = {},
): Promise<BackResult> {
  const run = new BackRun(target, options);
  const started = performance.now();
  if (source.kind === "table") await run.table(source, key, format);
  else if (source.kind === "bytes") await run.bytes(source, key, format);
  else if (hasColumns(source) && (format === "bcolz" || format === "blz"))
    await run.table(tableOf(source), key, format);
  else await run.array(await describeColumn("", source), key, format);
  return { ...run.result(), seconds: (performance.now() - started) / 1000 };
}

/** Rows whose fields are stored apart, which are a table in all but name. */
function hasColumns(source: ArrayArchive | BackArray): source is ArrayArchive {
  return "columnNames" in source && source.columnNames.length > 0 && source.shape.length === 1;
}

function tableOf(array: ArrayArchive): BackTable {
  const { store, path, attrs, columnNames } = array;
  return { kind: "table", store, path, attrs, names: columnNames, column: (name) => array.column(name) };
}

class BackRun {
  readonly #target: WritableStore;
  readonly #options: BackOptions;
  readonly #encoder: ChunkEncoder;
  readonly #notes: string[] = [];
  #arrays = 0;
  #nbytes = 0;
  #copied = 0;
  #recoded = 0;

  constructor(target: WritableStore, options: BackOptions) {
    this.#target = target;
    this.#options = options;
    this.#encoder = options.encoder ?? encodeHere;
  }

  async bytes(archive: BytesArchive, key: string, format: BackFormat): Promise<void> {
    const column = await describeBytes(archive, this.#options);
    const isPlain = this.#options.dtype === undefined && this.#options.shape === undefined;
    if (format !== "bloscpack" || !isPlain) return this.array(column, key, format);
    const { encoder, data } = this.#chunksOf(column);
    await compressBytes(data, this.#target, key, {
      ...this.#bloscpackOptions(column, encoder),
      metadata: Object.keys(archive.metadata).length === 0 ? undefined : archive.metadata,
      size: archive.nbytes,
    });
    this.#count(column, encoder);
  }

  async array(column: BackColumn, key: string, format: BackFormat): Promise<void> {
    if (format === "npy") return this.#npy(column, key);
    if (format === "bloscpack") return this.#bloscpack(column, key);
    if (column.shape.length === 0) {
      throw new SuperchunkError(
        "UNSUPPORTED",
        `an array without dimensions has no rows, as ${format === "blz" ? "superchunks" : "bcolz"} would have it; convert it to npy or bloscpack`,
        { path: column.path, field: "shape" },
      );
    }
    await this.#inFolder(key, () =>
      format === "bcolz" ? this.#carray(column, key) : this.#superchunks(column, key),
    );
  }

  async table(table: BackTable, key: string, format: BackFormat): Promise<void> {
    const wanted = this.#choose(table);
    const columns: BackColumn[] = [];
    for (const name of wanted) columns.push(await describeColumn(name, table.column(name)));
    if (format === "bcolz") return this.#inFolder(key, () => this.#ctable(table, columns, key));
    if (format === "blz") return this.#inFolder(key, () => this.#structs(table, columns, key));
    if (Object.keys(table.attrs).length > 0)
      this.#notes.push(`attributes of the table are not carried over: a folder of ${format} files has none`);
    const ending = format === "npy" ? "npy" : "blp";
    for (const column of columns) await this.array(column, joinKey(key, `${column.name}.${ending}`), format);
  }

  /** Makes a folder, which must be free, and leaves nothing of it where that fails. */
  async #inFolder(key: string, write: () => Promise<void>): Promise<void> {
    const names: string[] = [];
    for await (const { name } of this.#target.list(key)) names.push(name);
    if (names.length > 0) {
      const path = this.#target.describe(key);
      const isArchive = names.includes("meta") || names.includes("__rootdirs__");
      if (this.#options.overwrite !== true || !isArchive) {
        throw new SuperchunkError(
          "CONFLICT",
          isArchive
            ? "the destination exists; overwrite (--overwrite) replaces it, or name another"
            : "the destination is a folder that holds something else; name another",
          { path },
        );
      }
      await deleteTree(this.#target, key, new Set());
    }
    try {
      await write();
    } catch (error) {
      await deleteTree(this.#target, key, new Set()).catch(() => undefined); // the first error is the one to tell
      throw error;
    }
  }

  result(): Omit<BackResult, "seconds"> {
    return {
      arrays: this.#arrays,
      nbytes: this.#nbytes,
      chunksCopied: this.#copied,
      chunksRecoded: this.#recoded,
      notes: this.#notes,
    };
  }

  async #npy(column: BackColumn, key: string): Promise<void> {
    const { dtype, shape, attrs, fillValue } = column;
    if (dtype.kind === "object") throw noObjects(column.path);
    const header = encodeNpyHeader(dtype, shape);
    const { signal } = this.#options;
    async function* pieces(): AsyncGenerator<Uint8Array> {
      yield header;
      yield* column.stream({ signal });
    }
    this.#warn(column, Object.keys(attrs).length > 0, fillValue !== undefined && fillValue !== null, ".npy");
    await this.#target.put(key, pieces(), { ifAbsent: this.#options.overwrite !== true, signal });
    this.#count(column, undefined);
  }

  async #bloscpack(column: BackColumn, key: string): Promise<void> {
    const { dtype, shape, order, attrs, fillValue } = column;
    if (dtype.kind === "object") throw noObjects(column.path);
    const { encoder, data } = this.#chunksOf(column);
    this.#warn(column, false, fillValue !== undefined && fillValue !== null, "Bloscpack");
    await compressArray({ dtype, shape, order, data }, this.#target, key, {
      ...this.#bloscpackOptions(column, encoder),
      metadata: Object.keys(attrs).length === 0 ? undefined : attrs,
    });
    this.#count(column, encoder);
  }

  #bloscpackOptions(column: BackColumn, encoder: ChunkEncoder): BloscpackOptions {
    const { archive } = column;
    return {
      ...settingsOf(column),
      typesize: column.summary?.typesize,
      chunkSize: archive !== undefined && archive.chunkBytes > 0 ? archive.chunkBytes : undefined,
      checksum: column.summary?.checksum,
      encoder,
      force: this.#options.overwrite,
      signal: this.#options.signal,
    };
  }

  async #carray(column: BackColumn, key: string): Promise<void> {
    const { encoder, data } = this.#rowsOf(column);
    const { dtype, shape } = column;
    await createCarray(
      this.#target,
      key,
      { dtype, rowShape: shape.slice(1), data },
      { ...this.#carrayOptions(column, encoder), attrs: column.attrs },
    );
    this.#count(column, encoder);
  }

  #carrayOptions(column: BackColumn, encoder: ChunkEncoder): CarrayOptions {
    return {
      cparams: settingsOf(column),
      chunklen: column.chunkLength,
      expectedlen: column.shape[0],
      dflt: column.fillValue,
      encoder,
      signal: this.#options.signal,
    };
  }

  async #ctable(table: BackTable, columns: readonly BackColumn[], key: string): Promise<void> {
    // One encoder for all: it compares bytes, so that columns are not mixed up.
    const encoder = new CopyingEncoder(this.#encoder);
    const sources = columns.map((column) => {
      const { cparams, chunklen, expectedlen, dflt } = this.#carrayOptions(column, encoder);
      if (Object.keys(column.attrs).length > 0)
        this.#notes.push(`${column.name}: attributes of columns are not carried over`);
      return {
        name: column.name,
        dtype: column.dtype,
        rowShape: column.shape.slice(1),
        data: this.#rowsOf(column, encoder).data,
        options: { cparams, chunklen, expectedlen, dflt },
      };
    });
    await createTable(this.#target, key, sources, {
      attrs: table.attrs,
      encoder,
      signal: this.#options.signal,
    });
    columns.forEach((column, i) => {
      this.#count(column, i === 0 ? encoder : undefined);
    });
  }

  async #superchunks(column: BackColumn, key: string): Promise<void> {
    const { encoder, data } = this.#rowsOf(column);
    const { dtype, shape, attrs, chunkLength, summary } = column;
    const array = await createArray(this.#target, key, {
      dtype,
      shape: [0, ...shape.slice(1)],
      dflt: this.#oneFill(column),
      attrs,
      // Fields apart would cut the chunks of a struct anew.
      ...(column.archive === undefined ? {} : { columns: false }),
      cparams: settingsOf(column),
      ...(chunkLength === undefined ? {} : { chunklen: chunkLength }),
      ...(summary?.checksum === undefined || summary.checksum === "None"
        ? {}
        : { checksum: summary.checksum }),
      expectedlen: shape[0],
      encoder,
      signal: this.#options.signal,
    });
    await finish(array, () => array.append(data));
    this.#count(column, encoder);
  }

  /** The fill value of an item. blz 0.6 keeps one for a row: a nested list. */
  #oneFill({ fillValue, dtype, path }: BackColumn): JsonValue | undefined {
    if (dtype.kind === "struct" || !Array.isArray(fillValue)) return fillValue;
    const isPair = dtype.kind === "complex" && fillValue.length === 2 && !Array.isArray(fillValue[0]);
    if (isPair) return fillValue;
    const [first, ...others] = flatten(fillValue as readonly JsonValue[]);
    if (others.every((other) => other === first)) return first;
    this.#notes.push(`${path}: the fill value differs within a row, and is not carried over`);
    return undefined;
  }

  /** A table as one array of structs, each field a folder. */
  async #structs(table: BackTable, columns: readonly BackColumn[], key: string): Promise<void> {
    const rows = Math.min(...columns.map(({ shape }) => shape[0] ?? 0));
    const fields: Field[] = [];
    let itemSize = 0;
    for (const { name, dtype, shape } of columns) {
      const dimensions = shape.slice(1);
      fields.push({ name, dtype, shape: dimensions, offset: itemSize });
      itemSize += dimensions.reduce((product, n) => product * n, dtype.itemSize);
    }
    const dtype: DType = { kind: "struct", itemSize, byteOrder: "none", fields };
    const [first] = columns;
    for (const { name, attrs } of columns)
      if (Object.keys(attrs).length > 0)
        this.#notes.push(`${name}: attributes of columns are not carried over`);
    const fills = columns.map(({ fillValue }) => fillValue ?? null);
    const array = await createArray(this.#target, key, {
      dtype,
      shape: 0,
      dflt: fills.some((fill) => fill === null) ? null : fills,
      attrs: table.attrs,
      cparams: first === undefined ? {} : settingsOf(first),
      expectedlen: rows,
      encoder: this.#encoder,
      signal: this.#options.signal,
    });
    const { signal } = this.#options;
    await finish(array, async () => {
      const batch = Math.max(1, Math.floor(BATCH_BYTES / Math.max(1, itemSize)));
      for (let at = 0; at < rows; at += batch) {
        const end = Math.min(rows, at + batch);
        const items = new Uint8Array((end - at) * itemSize);
        for (const [i, field] of fields.entries()) {
          const bytes = await columns[i]?.rows(at, end, signal);
          if (bytes !== undefined) interleave(items, bytes, itemSize, field.offset, end - at);
        }
        await array.append(items);
        this.#options.onProgress?.({ done: end * itemSize, total: rows * itemSize });
      }
    });
    for (const column of columns) this.#count(column, undefined);
  }

  /** Rows in C order, their chunks offered where they are stored so. */
  #rowsOf(
    column: BackColumn,
    encoder: CopyingEncoder = new CopyingEncoder(this.#encoder),
  ): { encoder: CopyingEncoder; data: AsyncIterable<Uint8Array> } {
    const { archive, order, chunkLength } = column;
    const isCopied = archive !== undefined && order === "C" && chunkLength !== undefined;
    const data = isCopied
      ? offerChunks(archive, encoder, this.#options.signal)
      : column.stream({ signal: this.#options.signal });
    return { encoder, data: this.#watch(data, column) };
  }

  /** Bytes in stored order. */
  #chunksOf(column: BackColumn): { encoder: CopyingEncoder; data: AsyncIterable<Uint8Array> } {
    const encoder = new CopyingEncoder(this.#encoder);
    const { archive } = column;
    const data =
      archive === undefined
        ? column.stream({ signal: this.#options.signal })
        : offerChunks(archive, encoder, this.#options.signal);
    return { encoder, data: this.#watch(data, column) };
  }

  async *#watch(data: AsyncIterable<Uint8Array>, { nbytes, path }: BackColumn): AsyncGenerator<Uint8Array> {
    let done = 0;
    for await (const piece of data) {
      yield piece;
      done += piece.length;
      this.#options.onProgress?.({ done, total: nbytes, label: path });
    }
  }

  #warn({ path }: BackColumn, attributes: boolean, fill: boolean, format: string): void {
    const lost = [...(attributes ? ["attributes"] : []), ...(fill ? ["the fill value"] : [])];
    if (lost.length > 0)
      this.#notes.push(`${path}: ${lost.join(" and ")} not carried over: ${format} has no place for it`);
  }

  #count({ nbytes }: BackColumn, encoder: CopyingEncoder | undefined): void {
    this.#arrays++;
    this.#nbytes += nbytes;
    this.#copied += encoder?.copied ?? 0;
    this.#recoded += encoder?.recoded ?? 0;
  }

  #choose({ names, store, path }: BackTable): readonly string[] {
    const { columns } = this.#options;
    const unknown = columns?.find((column) => !names.includes(column));
    if (unknown === undefined) return names.filter((name) => columns?.includes(name) ?? true);
    throw new SuperchunkError("NOT_FOUND", `no column "${unknown}"; there are ${names.join(", ")}`, {
      path: store.describe(path),
      field: unknown,
    });
  }
}

/** How the source is compressed, as far as it tells. */
function settingsOf({ summary }: BackColumn): {
  readonly cname?: CompressorName;
  readonly clevel?: number;
  readonly shuffle?: "noshuffle" | "shuffle" | "bitshuffle";
} {
  if (summary === undefined) return {};
  const { cname, clevel, shuffle } = summary;
  return {
    ...(cname === undefined ? {} : { cname }),
    ...(clevel === undefined ? {} : { clevel }),
    ...(shuffle === undefined ? {} : { shuffle }),
  };
}

/** Puts a column's bytes into rows of structs. */
function interleave(
  rows: Uint8Array,
  column: Uint8Array,
  rowSize: number,
  offset: number,
  count: number,
): void {
  const size = column.length / count;
  for (let row = 0; row < count; row++)
    rows.set(column.subarray(row * size, (row + 1) * size), row * rowSize + offset);
}

function flatten(values: readonly JsonValue[]): JsonValue[] {
  return values.flatMap((value) => (Array.isArray(value) ? flatten(value as readonly JsonValue[]) : [value]));
}

/** Closes an array; where writing failed, nothing of it is committed. */
async function finish(
  array: { close(): Promise<void>; abandon(): Promise<void> },
  write: () => Promise<void>,
): Promise<void> {
  try {
    await write();
    await array.close();
  } catch (error) {
    await array.abandon().catch(() => undefined); // the first error is the one to tell
    throw error;
  }
}

function noObjects(path: string): SuperchunkError {
  return new SuperchunkError("UNSUPPORTED", "Python objects are never read, nor written", {
    path,
    field: "dtype",
  });
}

/** Reads Arrow IPC files and streams of any program, batch by batch, with flechette. Knows stores; must not know what values become. */
import {
  type Batch,
  type Column,
  CompressionType,
  type DataType,
  setCompressionCodec,
  type Table,
  tableFromIPC,
} from "@uwdata/flechette";
import { at } from "../bytes/arrays.ts";
import { decodeStreamSync, prepare } from "../codec/index.ts";
import { SuperchunkError } from "../errors.ts";
import { joinStreams, type StreamPiece } from "../parquet/join-streams.ts";
import type { ReadableStore } from "../store/types.ts";
import { fromHalf } from "../values/item-bytes.ts";
import { encapsulate, HEADER_SCHEMA, TYPE, VERSION } from "./schema.ts";

const MAGIC = "ARROW1";
/** Bytes of the magic and its padding. The messages of a file begin after them. */
const START = 8;
/** Bytes before a message: a mark, and the length of its metadata. */
const PREFIX = 8;
const MARK = 0xffff_ffff;
/** Kinds of messages. */
const DICTIONARY = 2;
/** Most values of a dictionary in a byte of its body: bits, compressed as well as LZ4 can. */
const MOST_VALUES = 8n * 255n;

/**
 * Yields a table for each record batch, preceded by one without rows. Each is read on request.
 *
 * @throws TRUNCATED for a truncated file, BAD_FIELD for what is not Arrow
 */
export async function* readBatches(
  store: ReadableStore,
  key: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<Table> {
  const path = store.describe(key);
  await Promise.all([prepare("lz4"), prepare("zstd")]);
  setCompressionCodec(CompressionType.LZ4_FRAME, { decode: lz4Frame, encode: neverEncoded });
  setCompressionCodec(CompressionType.ZSTD, {
    decode: (bytes: Uint8Array, length: number) => decodeStreamSync("zstd", bytes, length),
    encode: neverEncoded,
  });
  const size = (await store.stat(key, { signal }))?.size;
  if (size === undefined) throw new SuperchunkError("NOT_FOUND", "no such file", { path });
  const read = async (offset: number, length: number): Promise<Uint8Array> => {
    // Lengths come from the file, so they are checked before memory is allocated.
    const bytes =
      offset + length > size ? undefined : await store.getRange(key, { offset, length }, { signal });
    if (bytes?.length === length) return bytes;
    throw new SuperchunkError(
      "TRUNCATED",
      `a message ends at byte ${offset + length}, but the file at ${size}. The file is incomplete; look for another copy`,
      { path, offset, expected: offset + length, found: size },
    );
  };
  const parsed = (pieces: readonly Uint8Array[]): Table => {
    try {
      const [only, ...others] = pieces;
      return tableFromIPC(only !== undefined && others.length === 0 ? only : [...pieces], {
        useBigInt: true,
        useDecimalInt: true,
      });
    } catch (cause) {
      if (cause instanceof SuperchunkError) throw cause;
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new SuperchunkError("BAD_FIELD", `this is not Arrow that can be read: ${reason}`, {
        path,
        cause,
      });
    }
  };
  const isFile = new TextDecoder("latin1").decode(await read(0, Math.min(size, MAGIC.length))) === MAGIC;
  // The schema, and the dictionaries in their order.
  const kept: Uint8Array[] = [];
  for await (const message of isFile ? ofFile(read, size, path) : ofStream(read, size, path)) {
    signal?.throwIfAborted();
    if (kept.length === 0) {
      kept.push(message.bytes);
      yield parsed(kept);
    } else if (message.kind === DICTIONARY) kept.push(message.bytes);
    else yield parsed([...kept, message.bytes]);
  }
  if (kept.length === 0)
    throw new SuperchunkError("BAD_FIELD", "this is not Arrow: it has no schema", { path });
}

type Read = (offset: number, length: number) => Promise<Uint8Array>;

interface ArrowMessage {
  readonly kind: number;
  readonly bytes: Uint8Array;
}

/** The message at an offset; undefined at the end of a stream. */
async function messageAt(read: Read, offset: number, path: string): Promise<ArrowMessage | undefined> {
  const prefix = viewOf(await read(offset, PREFIX));
  const metadata = prefix.getInt32(4, true);
  if (prefix.getUint32(0, true) !== MARK || metadata < 0)
    throw new SuperchunkError("BAD_FIELD", "this is not Arrow: no message begins here", { path, offset });
  if (metadata === 0) return undefined;
  const head = await read(offset, PREFIX + metadata);
  const { kind, body } = describe(head.subarray(PREFIX), path, offset);
  return { kind, bytes: body === 0 ? head : await read(offset, head.length + body) };
}

async function* ofStream(read: Read, size: number, path: string): AsyncGenerator<ArrowMessage> {
  for (let offset = 0; offset < size; ) {
    const message = await messageAt(read, offset, path);
    if (message === undefined) return;
    yield message;
    offset += message.bytes.length;
  }
}

/** Messages at the places listed in the footer: there may be gaps between them. */
async function* ofFile(read: Read, size: number, path: string): AsyncGenerator<ArrowMessage> {
  const end = MAGIC.length + 4;
  const length = viewOf(await read(Math.max(0, size - end), Math.min(size, end))).getUint32(0, true);
  const footer = await read(Math.max(0, size - end - length), length);
  const isAtStart = viewOf(await read(START, PREFIX)).getUint32(0, true) === MARK;
  const schema = isAtStart ? await messageAt(read, START, path) : schemaOf(footer, path);
  if (schema === undefined) return;
  yield schema;
  for (const slot of [8, 10])
    for (const offset of blocksOf(footer, slot, path)) {
      const message = await messageAt(read, offset, path);
      if (message !== undefined) yield message;
    }
}

/** A message with the schema of the footer, for files of Polars, which have it only there: a table that refers into the footer's bytes. */
function schemaOf(footer: Uint8Array, path: string): ArrowMessage {
  const bytes = new Uint8Array((FOOTER_AT + footer.length + 7) & ~7);
  bytes.set(footer, FOOTER_AT);
  const view = viewOf(bytes);
  const field = inFooter(path, () => fieldOf(viewOf(footer), 6));
  if (field === undefined) throw wrongFooter(path);
  const schema = FOOTER_AT + field + viewOf(footer).getUint32(field, true);
  // Table at byte 16: offset of its list of slots, the schema's offset, version and kind. List at byte 4: its length, the table's, and the slots.
  for (const [i, value] of [16, 0, 0, 0, 12, schema - 20].entries()) view.setUint32(4 * i, value, true);
  for (const [i, value] of [10, 12, 8, 10, 4].entries()) view.setUint16(4 + 2 * i, value, true);
  view.setUint16(24, VERSION, true);
  view.setUint8(26, HEADER_SCHEMA);
  inFooter(path, () => assertLists(view, HEADER_SCHEMA, 0n));
  return { kind: HEADER_SCHEMA, bytes: encapsulate(bytes) };
}

/** Where the footer begins in that message. */
const FOOTER_AT = 32;

/** Offsets of the messages in a list of the footer. */
function blocksOf(footer: Uint8Array, slot: number, path: string): number[] {
  return inFooter(path, () => {
    const view = viewOf(footer);
    const place = fieldOf(view, slot);
    if (place === undefined) return [];
    const list = place + view.getUint32(place, true);
    const count = view.getUint32(list, true);
    if (count * BLOCK > footer.length) throw new RangeError("more blocks than the footer holds");
    return Array.from({ length: count }, (_, i) => Number(view.getBigUint64(list + 4 + BLOCK * i, true)));
  });
}

/** What `read` returns. An offset outside of the footer is an error of the file. */
function inFooter<T>(path: string, read: () => T): T {
  try {
    return read();
  } catch (cause) {
    throw wrongFooter(path, cause);
  }
}

function wrongFooter(path: string, cause?: unknown): SuperchunkError {
  const summary = "the end of the file contradicts itself; the file is damaged";
  return new SuperchunkError("BAD_FIELD", summary, { path, cause });
}

/** Bytes of a block in the footer. */
const BLOCK = 24;

/** Offset of a field of a table, by default the root, by its slot in the table of offsets. */
function fieldOf(view: DataView, slot: number, table: number = view.getUint32(0, true)): number | undefined {
  const offsets = table - view.getInt32(table, true);
  const field = view.getUint16(offsets, true) > slot ? view.getUint16(offsets + slot, true) : 0;
  return field === 0 ? undefined : table + field;
}

/** The kind of a message and the length of its body: the second and the fourth field of the metadata. */
function describe(
  metadata: Uint8Array,
  path: string,
  offset: number,
): { readonly kind: number; readonly body: number } {
  try {
    const view = viewOf(metadata);
    const [kind, body] = [fieldOf(view, 6), fieldOf(view, 10)];
    const length = body === undefined ? 0n : view.getBigInt64(body, true);
    if (length < 0n) throw new RangeError("a negative length");
    const own = kind === undefined ? 0 : view.getUint8(kind);
    assertLists(view, own, length);
    return { kind: own, body: Number(length) };
  } catch (cause) {
    throw new SuperchunkError("BAD_FIELD", "a message of Arrow contradicts itself; the file is damaged", {
      path,
      offset,
      cause,
    });
  }
}

/** The columns of Arrow's schema in a message of its own, as Parquet files have it. Throws for what is not one. */
export function schemaIn(message: Uint8Array): Table["schema"] {
  describe(message.subarray(PREFIX), "", 0);
  return tableFromIPC(message).schema;
}

/** The unit of intervals of 16 bytes. */
const MONTH_DAY_NANO = 2;

/**
 * Throws for a schema or a batch with lists that are longer than the metadata, and for a dictionary of more values than its body can hold:
 * flechette would read them to their end. Integers of 128 bits and decimals with a negative scale, for which it refuses the whole file,
 * become intervals, which are refused by column.
 */
function assertLists(view: DataView, kind: number, body: bigint): void {
  const target = (field: number | undefined): number | undefined =>
    field === undefined ? undefined : field + view.getUint32(field, true);
  let left = view.byteLength;
  const list = (slot: number, table: number | undefined, width: number): { at: number; count: number } => {
    const place = table === undefined ? undefined : target(fieldOf(view, slot, table));
    const count = place === undefined ? 0 : view.getUint32(place, true);
    left -= count * width;
    if (left < 0) throw new RangeError("lists are longer than the metadata");
    return { at: (place ?? 0) + 4, count };
  };
  const fields = (slot: number, table: number | undefined): void => {
    const { at: first, count } = list(slot, table, 4);
    for (let at = first; at < first + 4 * count; at += 4) {
      const field = target(at) ?? 0;
      const [type, own] = [fieldOf(view, 8, field), target(fieldOf(view, 10, field))];
      const id = type === undefined ? undefined : view.getUint8(type);
      if (id === TYPE.union) list(6, own, 4);
      const [size, scale] = own === undefined ? [] : [fieldOf(view, 4, own), fieldOf(view, 6, own)];
      const isWide = id === TYPE.int && size !== undefined && view.getInt32(size, true) > 64;
      const isRaised = id === TYPE.decimal && scale !== undefined && view.getInt32(scale, true) < 0;
      if (type !== undefined && size !== undefined && (isWide || isRaised)) {
        view.setUint8(type, TYPE.interval);
        view.setInt16(size, MONTH_DAY_NANO, true);
      }
      fields(14, field);
      list(16, field, 4);
    }
  };
  const header = target(fieldOf(view, 8));
  if (kind === HEADER_SCHEMA) {
    fields(6, header);
    list(8, header, 4);
    list(10, header, 8);
    return;
  }
  const batch = kind === DICTIONARY && header !== undefined ? target(fieldOf(view, 6, header)) : header;
  const nodes = list(6, batch, 16);
  list(8, batch, 16);
  list(12, batch, 8);
  if (kind !== DICTIONARY) return;
  for (let i = 0; i < nodes.count; i++)
    if (view.getBigInt64(nodes.at + 16 * i, true) > body * MOST_VALUES)
      throw new RangeError("a dictionary has more values than bytes for them");
}

function viewOf({ buffer, byteOffset, byteLength }: Uint8Array): DataView {
  return new DataView(buffer, byteOffset, byteLength);
}

function neverEncoded(): never {
  throw new RangeError("buffers are not compressed");
}

/** Most decoded bytes of a block of an lz4 frame, by the number in the frame's header. */
const BLOCKS = new Map([
  [4, 1 << 16],
  [5, 1 << 18],
  [6, 1 << 20],
  [7, 1 << 22],
]);

/** Decodes an lz4 frame of `length` bytes. Blocks may refer to earlier blocks, so they are joined and decoded together. */
function lz4Frame(frame: Uint8Array, length: number): Uint8Array {
  const view = viewOf(frame);
  const [, , , , flags = 0, limits = 0] = frame;
  const block = BLOCKS.get((limits >> 4) & 7);
  const wrong = (): SuperchunkError =>
    new SuperchunkError("BAD_CHUNK", "an lz4 frame in the file is damaged", {
      field: "frame",
      expected: length,
    });
  if (frame.length < 15 || view.getUint32(0, true) !== 0x184d_2204 || block === undefined) throw wrong();
  const pieces: StreamPiece[] = [];
  let left = length;
  // Content size and dictionary id are optional; one byte checks the header.
  let from = 7 + ((flags & 8) === 0 ? 0 : 8) + ((flags & 1) === 0 ? 0 : 4);
  while (from + 4 <= frame.length) {
    const word = view.getUint32(from, true);
    if (word === 0)
      return pieces.length === 0
        ? new Uint8Array(0)
        : decodeStreamSync("lz4", joinStreams("lz4", pieces), length);
    const size = word & 0x7fff_ffff;
    const own = Math.min(left, block);
    const bytes = frame.subarray(from + 4, from + 4 + size);
    if (bytes.length !== size) throw wrong();
    pieces.push({ bytes, stored: word >>> 31 === 1, length: own });
    left -= own;
    from += 4 + size + ((flags & 16) === 0 ? 0 : 4);
  }
  throw wrong();
}

/** Used members of flechette's types. */
export type AnyType = DataType & {
  readonly stride?: number;
  readonly precision?: number;
  readonly bitWidth?: number;
  readonly signed?: boolean;
  readonly unit?: number;
  readonly scale?: number;
  readonly timezone?: string | null;
  readonly dictionary?: AnyType;
  readonly children?: readonly { readonly name: string; readonly type: AnyType }[];
};

/** Bytes of a value's length and place, in columns of views. */
const VIEW = 16;

/** Throws `BAD_FIELD` for a batch of more rows than its buffers hold: of a damaged length, values would fill the memory. */
function assertHeld({ type, length, values, offsets, children }: Batch<unknown>): void {
  const { typeId, stride = 1, bitWidth = 64 } = type as AnyType;
  const held = (values as ArrayLike<unknown> | undefined)?.length ?? 0;
  const [first] = (children ?? []).map((child) => child.length);
  const id = typeId as number;
  const ofStride = (count: number): number => (stride < 0 ? 0 : count / Math.max(1, stride));
  const rooms: Readonly<Record<number, number | undefined>> = {
    [TYPE.bool]: 8 * held,
    [TYPE.fixedBinary]: ofStride(held),
    [TYPE.utf8View]: held / VIEW,
    [TYPE.binaryView]: held / VIEW,
    [TYPE.fixedList]: ofStride(first ?? 0),
    [TYPE.struct]: first,
    [TYPE.decimal]: held / Math.max(1, bitWidth / 64),
  };
  const room = id in rooms ? rooms[id] : offsets ? offsets.length - 1 : values ? held : undefined;
  if (room === undefined || length <= room) return;
  throw new SuperchunkError(
    "BAD_FIELD",
    `a batch has ${length} rows, and values of ${room}; the file is damaged`,
    { field: "length", expected: room, found: length },
  );
}

/** The bytes of floats of which none is missing, alone or in lists of one length; undefined for others. Numbers lose the bits of a NaN. */
export function floatBytes(batch: Batch<unknown>): Uint8Array | undefined {
  assertHeld(batch);
  const { length, validity, values, children } = batch;
  const { typeId, stride = 1, precision = 2 } = batch.type as AnyType;
  if (validity !== undefined && validity !== null && validity.length > 0) return undefined;
  const [items] = children ?? [];
  if ((typeId as number) === TYPE.fixedList && items?.length === length * stride) return floatBytes(items);
  if ((typeId as number) !== TYPE.float) return undefined;
  const { buffer, byteOffset } = values as unknown as Uint8Array;
  return new Uint8Array(buffer, byteOffset, length * (2 << precision)).slice();
}

/** The stored values: dates as counts, decimals as digits, strings as bytes, lists as arrays, structs as records, null for a missing value. @throws BAD_FIELD for damage */
export function rawValues(batch: Batch<unknown>): ArrayLike<unknown> {
  assertHeld(batch);
  const type = batch.type as AnyType;
  const { length, validity, offsets, children } = batch;
  const values = batch.values as unknown as { readonly [i: number]: number | bigint } & Uint8Array;
  const hasNulls = validity !== undefined && validity !== null && validity.length > 0;
  const isThere = (i: number): boolean => !hasNulls || ((at(validity, i >> 3) >> (i & 7)) & 1) === 1;
  const make = (value: (i: number) => unknown): unknown[] =>
    Array.from({ length }, (_, i) => (isThere(i) ? value(i) : null));
  switch (type.typeId as number) {
    case TYPE.utf8:
    case TYPE.binary:
    case TYPE.largeUtf8:
    case TYPE.largeBinary:
      return make((i) => values.subarray(Number(offsets?.[i]), Number(offsets?.[i + 1])));
    // flechette's own text drops a mark of byte order, and replaces what is not UTF-8.
    case TYPE.utf8View:
    case TYPE.binaryView:
      return make((i) => (batch as unknown as { view(i: number): Uint8Array }).view(i));
    case TYPE.fixedBinary: {
      const width = type.stride ?? 0;
      return make((i) => values.subarray(i * width, (i + 1) * width));
    }
    case TYPE.bool:
      return make((i) => ((at(values, i >> 3) >> (i & 7)) & 1) === 1);
    case TYPE.decimal:
      return make((i) => batch.at(i));
    case TYPE.dictionary: {
      const { dictionary } = batch as Batch<unknown> & { readonly dictionary: Column<unknown> };
      const words = dictionary.data.flatMap((each) => Array.from(rawValues(each)));
      return make((i) => words[Number(values[i])]);
    }
    case TYPE.list:
    case TYPE.largeList: {
      const [items] = (children ?? []).map(rawValues);
      return make((i) => Array.prototype.slice.call(items, Number(offsets?.[i]), Number(offsets?.[i + 1])));
    }
    case TYPE.fixedList: {
      const stride = type.stride ?? 0;
      const [items] = (children ?? []).map(rawValues);
      return make((i) => Array.prototype.slice.call(items, i * stride, (i + 1) * stride));
    }
    case TYPE.struct: {
      const parts = (children ?? []).map(rawValues);
      const names = type.children ?? [];
      return make((i) => Object.fromEntries(names.map(({ name }, j) => [name, parts[j]?.[i]])));
    }
    case TYPE.float:
      return type.precision === 0
        ? make((i) => fromHalf(at(values, i)))
        : hasNulls
          ? make((i) => values[i])
          : values;
    case TYPE.int:
    case TYPE.date:
    case TYPE.time:
    case TYPE.timestamp:
    case TYPE.duration:
      return hasNulls ? make((i) => values[i]) : values.length === length ? values : make((i) => values[i]);
    default:
      return make((i) => batch.at(i));
  }
}

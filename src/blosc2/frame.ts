/**
 * Frames of Blosc2: contiguous ones (a file) and sparse ones (a folder with a file for each chunk), with their metalayers.
 *
 * @see https://github.com/Blosc/c-blosc2/blob/main/README_CFRAME_FORMAT.rst and README_SFRAME_FORMAT.rst
 */
import type { OpenOptions } from "../archive/kinds/types.ts";
import { at, countLeading } from "../bytes/arrays.ts";
import type { CompressorName } from "../codec/types.ts";
import { decode as decodeBlosc2 } from "../codec2/decode.ts";
import { fieldsOf, HEADER2_LENGTH, isBlosc2 } from "../codec2/fields.ts";
import { readBlosc2Header } from "../codec2/header.ts";
import { isSuperchunkError, SuperchunkError } from "../errors.ts";
import { JsonFloat, noteFloat } from "../format/json-float.ts";
import type { JsonObject, JsonValue } from "../format/types.ts";
import { joinKey, readBeginning } from "../store/key.ts";
import type { ReadableStore, StoreOptions } from "../store/types.ts";
import { unpack } from "./msgpack.ts";

/** The first four bytes of a frame. */
const FRAME_START: readonly number[] = [0x9e, 0xa8, 0x62, 0x32];
/** The file in a sparse frame's folder that is not a chunk. */
const SPARSE_FILE = "chunks.b2frame";

const HEAD = 4096;
const LEAST = 87;
/** Metalayers that hold the shape. */
const DIMENSIONS: ReadonlySet<string> = new Set(["b2nd", "caterva"]);
/** The number for "codec of a plugin", and the offset in the header of that codec's number. */
const OF_PLUGIN = 6;
const CODEC_AT = 77;
/** Offset of the trailer's length, from the end of a frame. */
const TRAILER_LENGTH_AT = 22;
/** First element of a list that was a tuple of Python. */
const TUPLE = "__tuple__";
/** Most bytes of a header, an index or a metalayer. */
const MAX_PART = 256 << 20;

/** A chunk of a frame: its place, or its special value. */
export type FrameChunk =
  | { readonly key: string; readonly offset: number; readonly end: number | undefined }
  | { readonly special: "zeros" | "nan" | "none" };

/** The chunks of a frame: a list, or made one by one, because an object for each of millions takes too much memory. */
type FrameChunks = Pick<readonly FrameChunk[], "length" | "at"> & Iterable<FrameChunk>;

/** The facts of a frame. */
export interface Frame {
  /** Name in messages. */
  readonly path: string;
  /** Key of its file, and the version that was opened. */
  readonly file: string;
  readonly version: string;
  readonly typesize: number;
  readonly nbytes: number;
  /** Total size of its files, in bytes. */
  readonly storedBytes: number;
  readonly chunkBytes: number;
  readonly blockBytes: number;
  /** Numbers of the codec and the level. */
  readonly codec: number;
  readonly clevel: number;
  readonly filters: readonly number[];
  readonly chunks: FrameChunks;
  /** Metalayers of fixed length, as stored. */
  readonly metalayers: ReadonlyMap<string, Uint8Array>;
  /** Metalayers as far as JSON can hold them, without those that hold the shape. */
  readonly attrs: JsonObject;
  /** Names of the metalayers that JSON cannot hold. */
  readonly attrsLeft: readonly string[];
}

/**
 * Reads the frame at a key: a file, or the folder of a sparse frame. Undefined if there is none. If the index of a file is lost, its
 * chunks are found by their own headers, if the options allow damage.
 *
 * @throws TRUNCATED, BAD_FIELD, BAD_CHUNK for damage; UNSUPPORTED for later versions; LIMIT
 */
export async function readFrame(
  store: ReadableStore,
  key: string,
  options: StoreOptions & Pick<OpenOptions, "damaged" | "onDamage"> = {},
): Promise<Frame | undefined> {
  const own = key === "" ? undefined : await readBeginning(store, key, HEAD, options);
  const file = own === undefined ? joinKey(key, SPARSE_FILE) : key;
  const begin = own ?? (await readBeginning(store, file, HEAD, options));
  const info = begin?.info ?? (begin && (await store.stat(file, options)));
  if (begin === undefined || info === undefined) return undefined;
  const head = begin.bytes;
  const read = new FrameFile(store, file, { head, size: info.size });
  if (!FRAME_START.every((byte, i) => head[i] === byte)) return undefined;
  if (head.length < LEAST) throw read.cut(LEAST);
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
  const headerLength = view.getInt32(11);
  const length = read.size64(view, 16, "frame_len");
  const [flags = 0, type = 0, codecs = 0] = head.subarray(25);
  if ((flags & 15) > 3)
    throw read.unsupported(`a frame of version ${flags & 15}, but 1 to 3 are known`, flags & 15);
  if (headerLength < LEAST || headerLength > length)
    throw read.bad("header_len", `${LEAST} to ${length}`, headerLength);
  const nbytes = read.size64(view, 30, "uncompressed_size");
  const cbytes = read.size64(view, 39, "compressed_size");
  const [ofItem, blockBytes, stored] = [view.getInt32(48), view.getInt32(53), view.getInt32(58)];
  // python-blosc2 4.7 writes -1 if there are no chunks.
  const chunkBytes = nbytes === 0 ? Math.max(0, stored) : stored;
  // Bytes that are not whole items, alone or in each chunk, are items of one byte.
  const isWhole = nbytes % ofItem === 0 && (chunkBytes % ofItem === 0 || nbytes <= chunkBytes);
  const typesize = isWhole || ofItem < 1 ? ofItem : 1;
  if (typesize < 1 || chunkBytes < 0 || blockBytes < 0) throw read.bad("chunk_size", "0 or more", chunkBytes);
  const isSparse = type === 1;
  // A frame whose last row was removed keeps the old cbytes.
  const indexAt = headerLength + (isSparse || nbytes === 0 ? 0 : cbytes);
  const header = await read.part(0, headerLength, options);
  const metalayers = metalayersOf(read, unpackPart(read, header, "header")[13]);
  // Lengths of streams and starts of blocks add less than half; files can have holes where chunks were replaced.
  const longest = chunkBytes === 0 ? Number.POSITIVE_INFINITY : 2 * chunkBytes + HEAD;
  const span = { isSparse, folder: key, first: headerLength, end: indexAt, longest };
  const readTail = async (): Promise<FrameTail> => {
    const tail = await read.part(indexAt, length - indexAt, options);
    const trailerLength = new DataView(tail.buffer, tail.byteOffset, tail.byteLength);
    const trailerSize =
      tail.length < TRAILER_LENGTH_AT ? 0 : trailerLength.getUint32(tail.length - TRAILER_LENGTH_AT);
    if (trailerSize < TRAILER_LENGTH_AT || trailerSize > tail.length)
      throw read.bad("trailer_len", `at most ${tail.length}`, trailerSize);
    const index = tail.subarray(0, tail.length - trailerSize);
    const trailer = unpackPart(read, tail.subarray(tail.length - trailerSize), "trailer");
    const variable = metalayersOf(read, trailer[1]);
    return { variable, chunks: nbytes === 0 ? [] : await chunksOf(read, index, span) };
  };
  const { variable, chunks } = await readTail().catch(async (error: unknown) => {
    const { damaged = "stop", onDamage } = options;
    const count = Math.ceil(nbytes / Math.max(1, chunkBytes));
    const isPossible = nbytes > 0 && count <= MAX_PART / 8;
    if (damaged === "stop" || !isPossible || !isLost(error)) throw error;
    const found = await (isSparse
      ? findFiles(read, key, count)
      : findChunks(read, { ...span, chunkBytes, count }, options));
    if (found === undefined) throw error;
    onDamage?.({ path: read.path, holes: [], problems: [], lost: [found.lost] });
    return { variable: new Map<string, Uint8Array>(), chunks: found.chunks };
  });
  const attributes = await attributesOf(metalayers, variable);
  const block = blockBytes === 0 ? await firstBlocksize(read, chunks.at(0), chunkBytes) : blockBytes;
  const [filterCount = 0] = head.subarray(70);
  return {
    path: store.describe(key),
    file,
    version: info.version,
    typesize,
    nbytes,
    storedBytes: isSparse ? info.size + cbytes : info.size,
    chunkBytes,
    // Frames without dimensions can have blocks that end inside items; these are cut again, after the last whole item.
    blockBytes: block % typesize === 0 ? block : Math.max(typesize, block - (block % typesize)),
    codec: (codecs & 15) === OF_PLUGIN ? (head[CODEC_AT] as number) : codecs & 15,
    clevel: codecs >> 4,
    filters: [...head.subarray(71, 71 + Math.min(6, filterCount))].filter((id) => id !== 0),
    chunks,
    metalayers,
    ...attributes,
  };
}

/** Bytes of a block if the frame does not say: those of the first chunk. */
async function firstBlocksize(
  file: FrameFile,
  chunk: FrameChunk | undefined,
  chunkBytes: number,
): Promise<number> {
  if (chunk === undefined || "special" in chunk) return chunkBytes;
  const { key, offset } = chunk;
  const length = HEADER2_LENGTH;
  const bytes =
    key === file.key ? await file.part(offset, length) : await file.store.getRange(key, { offset, length });
  return bytes === undefined ? chunkBytes : readBlosc2Header(bytes, Number.MAX_SAFE_INTEGER).blocksize;
}

/** What the end of a frame says. */
interface FrameTail {
  /** Metalayers of variable length, as stored. */
  readonly variable: ReadonlyMap<string, Uint8Array>;
  readonly chunks: FrameChunks;
}

interface FoundChunks {
  readonly chunks: FrameChunks;
  /** What cannot be found. */
  readonly lost: string;
}

const ATTRIBUTES = "attributes of variable length";

/** True for errors of the stored bytes; after those of the store, the next read may succeed. */
function isLost(error: unknown): boolean {
  return isSuperchunkError(error) && error.code !== "STALE" && error.code !== "IO";
}

/**
 * The chunks of a sparse frame whose index is damaged, in the order of their files. Undefined if it has more chunks than files: the others
 * are special values, and where is unknown.
 */
async function findFiles(
  { store }: FrameFile,
  folder: string,
  count: number,
): Promise<FoundChunks | undefined> {
  const names: string[] = [];
  for await (const { name } of store.list(folder)) if (/^[\dA-F]{8}\.chunk$/.test(name)) names.push(name);
  const chunks = names.sort().map((name) => ({ key: joinKey(folder, name), offset: 0, end: undefined }));
  const lost = `${ATTRIBUTES} and the index: chunks are in the order of their files`;
  return chunks.length === count ? { chunks, lost } : undefined;
}

/**
 * The chunks of a frame whose end is damaged: by its index if that can be read, else in the order in which they are stored; those after
 * the end of the file cannot be read. Undefined if there are none, or if all are there, but fewer than the frame has: the others are
 * special values, and where is unknown.
 */
async function findChunks(
  file: FrameFile,
  { chunkBytes, count, ...span }: ChunkSpan & { readonly chunkBytes: number; readonly count: number },
  options: StoreOptions,
): Promise<FoundChunks | undefined> {
  const { first, end } = span;
  const byIndex = async (): Promise<FrameChunks> =>
    chunksOf(file, await file.part(end, Math.max(0, file.size - end), options), span);
  const known = await byIndex().catch((error: unknown): FrameChunks => {
    if (!isLost(error)) throw error;
    return [];
  });
  if (known.length === count) return { chunks: known, lost: ATTRIBUTES };
  const there = Math.min(end, file.size);
  const chunks: FrameChunk[] = [];
  let offset = first;
  while (chunks.length < count && offset + HEADER2_LENGTH <= there) {
    const bytes = await file.part(offset, HEADER2_LENGTH, options);
    const { ctbytes = 0, nbytes: own = 0 } = isBlosc2(bytes) ? (fieldsOf(bytes) ?? {}) : {};
    if (ctbytes < HEADER2_LENGTH || offset + ctbytes > there || own > chunkBytes) break;
    chunks.push({ key: file.key, offset, end: offset + ctbytes });
    offset += ctbytes;
  }
  const found = chunks.length;
  if (found === 0 || (found < count && offset === end)) return undefined;
  const none = { key: file.key, offset, end: offset };
  while (chunks.length < count) chunks.push(none);
  const order = `${ATTRIBUTES} and the index: chunks are in the order of the file`;
  if (found === count) return { chunks, lost: order };
  const caution = "if chunks of zeros were among them, others have moved up";
  return { chunks, lost: `${order}; those after the first ${found} of ${count} are lost; ${caution}` };
}

class FrameFile {
  readonly store: ReadableStore;
  readonly key: string;
  readonly path: string;
  readonly size: number;
  /** Its first bytes. */
  readonly #head: Uint8Array;

  constructor(
    store: ReadableStore,
    key: string,
    { head, size }: { readonly head: Uint8Array; readonly size: number },
  ) {
    this.store = store;
    this.key = key;
    this.path = store.describe(key);
    this.size = size;
    this.#head = head;
  }

  async part(offset: number, length: number, options?: StoreOptions): Promise<Uint8Array> {
    if (offset + length > this.size || length < 0) throw this.cut(offset + length);
    if (offset + length <= this.#head.length) return this.#head.subarray(offset, offset + length);
    if (length > MAX_PART)
      throw new SuperchunkError(
        "LIMIT",
        `the index and the metalayers of the frame have ${length} bytes; ${MAX_PART} is the limit`,
        { path: this.path, expected: MAX_PART, found: length },
      );
    const bytes = await this.store.getRange(this.key, { offset, length }, options);
    if (bytes?.length === length) return bytes;
    throw new SuperchunkError("STALE", "the file changed while it was read; try again", { path: this.path });
  }

  size64(view: DataView, at: number, field: string): number {
    const value = view.getBigInt64(at);
    if (value < 0n || value > BigInt(Number.MAX_SAFE_INTEGER)) throw this.bad(field, "0 or more", value);
    return Number(value);
  }

  cut(needed: number): SuperchunkError {
    return new SuperchunkError(
      "TRUNCATED",
      `the frame needs ${needed} bytes, but the file has ${this.size}: it is truncated; look for a complete copy, or convert its first chunks with {damaged: "fill"}`,
      { path: this.path, offset: this.size, expected: needed, found: this.size },
    );
  }

  bad(field: string, expected: string, found: unknown): SuperchunkError {
    return new SuperchunkError(
      "BAD_FIELD",
      `${field} of the frame is ${String(found)}, but should be ${expected}; the file is damaged`,
      { path: this.path, field, expected, found },
    );
  }

  unsupported(what: string, found: unknown): SuperchunkError {
    return new SuperchunkError("UNSUPPORTED", `it is ${what}; read it with python-blosc2`, {
      path: this.path,
      found,
    });
  }
}

/** The elements of a msgpack list. */
function unpackPart(file: FrameFile, bytes: Uint8Array, field: string): readonly unknown[] {
  try {
    const list = unpack(bytes);
    if (Array.isArray(list)) return list;
  } catch {
    // Reported below.
  }
  throw file.bad(field, "a list in msgpack", `${bytes.length} other bytes`);
}

/** `[size, {name: offset}, [content, …]]`. */
function metalayersOf(file: FrameFile, stored: unknown): Map<string, Uint8Array> {
  const found = new Map<string, Uint8Array>();
  if (!Array.isArray(stored)) return found;
  const [, offsets, contents] = stored as readonly unknown[];
  if (typeof offsets !== "object" || offsets === null || !Array.isArray(contents))
    throw file.bad("metalayers", "names and contents", "others");
  // Objects of JavaScript list names that are numbers first.
  const names = Object.entries(offsets as Readonly<Record<string, number>>).sort(([, a], [, b]) => a - b);
  for (const [i, [name]] of names.entries()) {
    const content: unknown = contents[i];
    if (!(content instanceof Uint8Array)) throw file.bad(`metalayer "${name}"`, "bytes", typeof content);
    found.set(name, content);
  }
  return found;
}

/** Converts metalayers, which hold msgpack, to attributes. Values that JSON cannot hold are left out. */
async function attributesOf(
  layers: ReadonlyMap<string, Uint8Array>,
  variable: ReadonlyMap<string, Uint8Array>,
): Promise<Pick<Frame, "attrs" | "attrsLeft">> {
  const attrs: [string, unknown][] = [];
  const attrsLeft: string[] = [];
  const own = [...layers].filter(([name]) => !DIMENSIONS.has(name) && !variable.has(name));
  for (const [name, stored] of [...own, ...variable]) {
    const bytes = variable.has(name) ? await decodeBlosc2(stored, { maxNbytes: MAX_PART }) : stored;
    let value: unknown;
    try {
      value = unpack(bytes);
    } catch {
      // Bytes that are not msgpack.
    }
    if (asJson(value) === undefined) attrsLeft.push(name);
    else attrs.push([name, value]);
  }
  return { attrs: asJson(Object.fromEntries(attrs)) as JsonObject, attrsLeft };
}

function asJson(value: unknown): JsonValue | undefined {
  if (value instanceof JsonFloat) return value.value;
  if (value === null || typeof value === "boolean" || typeof value === "string") return value;
  if (typeof value === "number" || typeof value === "bigint") return value;
  if (Array.isArray(value)) {
    const members: readonly unknown[] = value[0] === TUPLE ? value.slice(1) : value;
    const list = members.map(asJson);
    return list.includes(undefined) ? undefined : noteFloats(list as readonly JsonValue[], members);
  }
  // Not by its constructor: a map may have a member of that name.
  if (typeof value !== "object" || Object.getPrototypeOf(value) !== Object.prototype) return undefined;
  const entries = Object.entries(value).map(([name, each]) => [name, asJson(each)] as const);
  return entries.some(([, each]) => each === undefined)
    ? undefined
    : noteFloats(Object.fromEntries(entries) as JsonObject, value);
}

/** Notes the members of `made` that were whole floats in msgpack, because numbers do not show it. */
function noteFloats<T extends object>(made: T, members: object): T {
  for (const [name, each] of Object.entries(members))
    if (each instanceof JsonFloat) noteFloat(made, name, each.value);
  return made;
}

interface ChunkSpan {
  readonly isSparse: boolean;
  readonly folder: string;
  readonly first: number;
  readonly end: number;
  /** Most bytes of a chunk. */
  readonly longest: number;
}

const SPECIAL = ["", "zeros", "nan", "", "none"] as const;

/** Reads the chunks from the index: offsets from the header's end, numbers of files, or special values. */
async function chunksOf(file: FrameFile, index: Uint8Array, span: ChunkSpan): Promise<FrameChunks> {
  const { isSparse, folder, first, end, longest } = span;
  if (index.length < HEADER2_LENGTH)
    throw file.bad("the index of chunks", "a chunk", `${index.length} bytes`);
  const { nbytes } = readBlosc2Header(index);
  const bytes = await decodeBlosc2(index, { maxNbytes: MAX_PART });
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  // Negative for special values.
  const entries = new Float64Array(Math.floor(nbytes / 8));
  for (let i = 0; i < entries.length; i++) {
    const value = view.getBigInt64(8 * i, true);
    const entry = value < 0n ? -Number((value >> 56n) & 7n) : Number(value);
    const isKnown = value < 0n ? SPECIAL[-entry] : isSparse || entry < end - first;
    if (!isKnown)
      throw file.bad(`entry ${i} of the index`, `zeros, NaN or an offset below ${end - first}`, value);
    entries[i] = entry;
  }
  const starts = isSparse ? entries : entries.slice().sort();
  const chunkOf = (offset: number): FrameChunk => {
    const special = SPECIAL[-offset];
    if (special) return { special };
    if (!isSparse) {
      const next = countLeading(starts.length, (i) => at(starts, i) <= offset);
      const room = (starts[next] ?? end - first) - offset;
      return { key: file.key, offset: first + offset, end: first + offset + Math.min(room, longest) };
    }
    const name = `${offset.toString(16).toUpperCase().padStart(8, "0")}.chunk`;
    return { key: joinKey(folder, name), offset: 0, end: undefined };
  };
  return {
    length: entries.length,
    at(i) {
      const offset = entries.at(i);
      return offset === undefined ? undefined : chunkOf(offset);
    },
    *[Symbol.iterator]() {
      for (const offset of entries) yield chunkOf(offset);
    },
  };
}

const CODECS: readonly (CompressorName | undefined)[] = [
  "blosclz",
  "lz4",
  "lz4hc",
  undefined,
  "zlib",
  "zstd",
];

/** The codec of a number in a frame, where lz4hc has its own; undefined for those of plugins. */
export function codecName(number: number): CompressorName | undefined {
  return CODECS[number];
}

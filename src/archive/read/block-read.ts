/**
 * Reads the headers of chunks and decodes parts of chunks: fetches only the header, the block starts and the blocks
 * that a part touches. Lists chunks with their headers.
 */

import { toHex } from "../../bytes/arrays.ts";
import { decodeBlocks, decodeSparsely } from "../../codec/decode/decode.ts";
import { isReady, prepare } from "../../codec/decode/decode-kernel.ts";
import { blockRanges, headLength } from "../../codec/header.ts";
import type { BlockRange, ChunkHeader } from "../../codec/types.ts";
import { placedError } from "../../errors.ts";
import { mapAhead } from "../../store/pool.ts";
import type { ReadableStore } from "../../store/types.ts";
import type { ChunkInfo, ListChunksOptions } from "../kinds/types.ts";
import {
  type ChunkSequence,
  checkChunkHeader,
  checkPrologue,
  cutShort,
  missingChunk,
  type PlacedChunk,
} from "../places/sequence.ts";
import { fetchChunks } from "./chunk-fetch.ts";

/** First read of a chunk: its header and the starts of up to 60 blocks. */
const FIRST_READ = 256;
/**
 * The same over a network, where a second request costs more than this many bytes: enough for 8,188 block starts, or
 * for the first blocks too.
 */
const FIRST_READ_REMOTE = 32 << 10;
/** Bytes of a chunk's header without its block starts. */
const CHUNK_HEADER = 16;
/** A disk reads at least this much: headers closer together are read together with what is between them. */
const PAGE = 4096;

/** A chunk's header with its block starts: enough to locate any block. */
interface ChunkHead {
  readonly place: PlacedChunk;
  /** Name in messages. */
  readonly path: string;
  readonly header: ChunkHeader;
  readonly bytes: Uint8Array;
  /** The chunk's bytes from its header on, as far as read. */
  readonly read: Uint8Array;
}

/** Reads and checks a chunk's header and block starts, so that one more read brings any block. */
export function readHead(store: ReadableStore, place: PlacedChunk, signal?: AbortSignal): Promise<ChunkHead> {
  return readStart(store, place, store.getHead === undefined ? FIRST_READ : FIRST_READ_REMOTE, signal);
}

async function readStart(
  store: ReadableStore,
  place: PlacedChunk,
  most: number,
  signal: AbortSignal | undefined,
): Promise<ChunkHead> {
  const path = store.describe(place.key);
  const first = await readAt(store, place, -place.prologue, firstLength(place, most), signal);
  const { header, bytes, length } = startHead(first, place, path);
  if (length <= bytes.length) return { place, path, header, bytes: bytes.subarray(0, length), read: bytes };
  return finishHead({ place, path, header }, await readAt(store, place, 0, length, signal), length);
}

/**
 * Reads and checks the headers of consecutive chunks of one object. If they are close together, one read covers many;
 * otherwise a store with latency is asked for them concurrently.
 */
async function readHeaders(
  store: ReadableStore,
  places: readonly PlacedChunk[],
  signal?: AbortSignal,
): Promise<readonly ChunkHeader[]> {
  const [first] = places;
  const last = places.at(-1);
  if (first === undefined || last === undefined) return [];
  const length = last.offset + FIRST_READ - first.offset;
  const isClose = length > 0 && length <= places.length * PAGE;
  if (places.length === 1 || !isClose || first.prologue > 0 || last.key !== first.key) {
    if (!readsNow(store))
      return Promise.all(
        places.map(async (place) => (await readStart(store, place, FIRST_READ, signal)).header),
      );
    signal?.throwIfAborted();
    return places.map((place) => readHeaderNow(store, place));
  }
  const path = store.describe(first.key);
  const bytes = await store.getRange(first.key, { offset: first.offset, length }, { signal });
  if (bytes === undefined) throw missingChunk(path, first);
  return places.map((place) => {
    const start = place.offset - first.offset;
    if (start < 0) throw new RangeError("chunks of a run must follow one another");
    return checkChunkHeader(
      bytes.subarray(start, start + Math.min(FIRST_READ, place.available)),
      place,
      path,
    );
  });
}

/** The checked header of a chunk, from bytes that begin with its prologue and header. */
function headerOf(bytes: Uint8Array, place: PlacedChunk, path: string): ChunkHeader {
  return startHead(bytes, place, path).header;
}

function readHeaderNow(store: SyncStore, place: PlacedChunk): ChunkHeader {
  const path = store.describe(place.key);
  const bytes = readNow(store, place, -place.prologue, firstLength(place, place.prologue + CHUNK_HEADER));
  return startHead(bytes, place, path).header;
}

function readHeadNow(store: SyncStore, place: PlacedChunk, path: string): ChunkHead {
  const first = readNow(store, place, -place.prologue, firstLength(place, FIRST_READ));
  const { header, bytes, length } = startHead(first, place, path);
  if (length <= bytes.length) return { place, path, header, bytes: bytes.subarray(0, length), read: bytes };
  return finishHead({ place, path, header }, readNow(store, place, 0, length), length);
}

function firstLength(place: PlacedChunk, most: number): number {
  return Math.min(most, place.prologue + place.available);
}

/** Checks the first bytes of a chunk and returns its header and the length of header and block starts. */
function startHead(
  first: Uint8Array,
  place: PlacedChunk,
  path: string,
): { header: ChunkHeader; bytes: Uint8Array; length: number } {
  if (place.prologue > 0) checkPrologue(first, path);
  const bytes = first.subarray(Math.min(place.prologue, first.length));
  const header = checkChunkHeader(bytes, place, path);
  return { header, bytes, length: headLength(header) };
}

function finishHead(
  head: Pick<ChunkHead, "place" | "path" | "header">,
  bytes: Uint8Array,
  length: number,
): ChunkHead {
  if (bytes.length < length) throw cutShort(head.place, head.path, length, bytes.length);
  return { ...head, bytes, read: bytes };
}

/** Decoded bytes `[start, end)` of a chunk from a synchronous store; undefined if that is not possible. */
export function readPartNow(
  store: ReadableStore,
  place: PlacedChunk,
  start: number,
  end: number,
): Uint8Array | undefined {
  if (!readsNow(store)) return undefined;
  const path = store.describe(place.key);
  const head = readHeadNow(store, place, path);
  if (!isReady(head.header.compressor)) return undefined;
  const out = new Uint8Array(end - start);
  const range = rangeOf(head, start, out.length);
  const isEarly = start % head.header.blocksize < head.header.blocksize / 2;
  if (isEarly && range.length >= SPARSE && readSparsely(store, head, range, start, out)) return out;
  const bytes = readNow(store, place, range.offset, range.length, roomFor(range.length));
  decodePart(head, range, bytes, start, out);
  return out;
}

/**
 * For compressed blocks from this size on, several reads of the needed parts (less than half) are faster than one read of the block.
 */
const SPARSE = 128 << 10;

/** Reads and decodes only the needed parts of a large block; false if all of it is needed, or anything is unusual. */
function readSparsely(
  store: SyncStore,
  head: ChunkHead,
  range: BlockRange,
  start: number,
  out: Uint8Array,
): boolean {
  const end = range.offset + range.length;
  let isCut = false;
  let bytes: Uint8Array = new Uint8Array(0);
  let base = 0;
  const read = (offset: number, least: number): Uint8Array => {
    if (offset >= base && offset + least <= base + bytes.length) return bytes.subarray(offset - base);
    const length = Math.min(Math.max(least, PAGE), end - offset);
    bytes = readNow(store, head.place, offset, length, roomFor(length));
    base = offset;
    if (bytes.length >= Math.min(least, length)) return bytes;
    isCut = true;
    return new Uint8Array(least);
  };
  try {
    return decodeSparsely(head.bytes, start, out, read) && !isCut;
  } catch (error) {
    throw placedError(error, head.path, head.place);
  }
}

/** Decodes a chunk from byte `start` on into `out`. */
export async function readPart(
  store: ReadableStore,
  head: ChunkHead,
  start: number,
  out: Uint8Array,
  signal?: AbortSignal,
): Promise<void> {
  if (!isReady(head.header.compressor)) await prepare(head.header.compressor);
  const range = rangeOf(head, start, out.length);
  const end = range.offset + range.length;
  const bytes =
    end <= head.read.length
      ? head.read.subarray(range.offset, end)
      : await readAt(store, head.place, range.offset, range.length, signal);
  decodePart(head, range, bytes, start, out);
}

function rangeOf(head: ChunkHead, start: number, length: number): BlockRange {
  try {
    return blockRanges(head.bytes, start, length);
  } catch (error) {
    throw placedError(error, head.path, head.place);
  }
}

function decodePart(
  head: ChunkHead,
  range: BlockRange,
  bytes: Uint8Array,
  start: number,
  out: Uint8Array,
): void {
  if (bytes.length < range.length)
    throw cutShort(head.place, head.path, range.offset + range.length, range.offset + bytes.length);
  try {
    decodeBlocks(head.bytes, { bytes, offset: range.offset }, start, out.length, { out });
  } catch (error) {
    throw placedError(error, head.path, head.place);
  }
}

/** Shared buffer for reading blocks, used only by synchronous code that no other call can interrupt. */
let room = new Uint8Array(0);
const MAX_ROOM = 1 << 20;

function roomFor(length: number): Uint8Array | undefined {
  if (length > MAX_ROOM) return undefined;
  if (room.length < length) room = new Uint8Array(Math.min(MAX_ROOM, 2 * length));
  return room.subarray(0, length);
}

type SyncStore = ReadableStore & Required<Pick<ReadableStore, "readIntoSync">>;

function readsNow(store: ReadableStore): store is SyncStore {
  return store.readIntoSync !== undefined;
}

function readNow(
  store: SyncStore,
  place: PlacedChunk,
  at: number,
  length: number,
  target: Uint8Array = new Uint8Array(length),
): Uint8Array {
  const read = store.readIntoSync(place.key, place.offset + at, target);
  if (read === undefined) throw missingChunk(store.describe(place.key), place);
  return read === length ? target : target.subarray(0, read);
}

async function readAt(
  store: ReadableStore,
  place: PlacedChunk,
  at: number,
  length: number,
  signal?: AbortSignal,
): Promise<Uint8Array> {
  if (readsNow(store)) return readNow(store, place, at, length);
  const offset = place.offset + at;
  const bytes = await store.getRange(place.key, { offset, length }, { signal });
  if (bytes === undefined) throw missingChunk(store.describe(place.key), place);
  return bytes;
}

const PLACES = 1024;
/** Objects examined together. */
const LOT = 128;
/** Lots of objects examined ahead of the consumer. */
const LOTS_AHEAD = 4;

/** Lists the chunks of a sequence, in order. Throws the codes of damage. */
export function listChunks(
  sequence: ChunkSequence,
  options: ListChunksOptions = {},
): AsyncGenerator<ChunkInfo> {
  const { getHeads } = sequence.store;
  return sequence.hasObjectForEach === true && getHeads !== undefined
    ? listObjects(sequence, getHeads.bind(sequence.store), options)
    : listRuns(sequence, options);
}

/** Lists a sequence with one object per chunk, reading the first bytes of many objects at a time. */
async function* listObjects(
  sequence: ChunkSequence,
  getHeads: NonNullable<ReadableStore["getHeads"]>,
  { first = 0, end = sequence.nchunks, onObject, onProgress, signal }: ListChunksOptions,
): AsyncGenerator<ChunkInfo> {
  const { store } = sequence;
  const last = Math.min(end, sequence.nchunks);
  function* starts(): Generator<number> {
    for (let at = first; at < last; at += LOT) yield at;
  }
  const look = async (at: number, signal: AbortSignal) => {
    const places = await sequence.places(at, Math.min(last, at + LOT), signal);
    const length = Math.max(...places.map(({ offset }) => offset)) + CHUNK_HEADER;
    const keys = places.map(({ key }) => key);
    return { places, heads: await getHeads(keys, length, { signal }) };
  };
  for await (const { places, heads } of mapAhead(starts(), LOTS_AHEAD, look, signal)) {
    for (const [i, place] of places.entries()) {
      const head = heads[i];
      const path = store.describe(place.key);
      if (head === undefined) throw missingChunk(path, place);
      const announced = onObject?.(place.key, head.info);
      if (announced !== undefined) await announced;
      yield describeChunk(place, headerOf(head.bytes, place, path), undefined);
      onProgress?.({ done: place.index + 1 - first, total: last - first });
    }
  }
}

/** Lists any sequence, in runs of chunks that are neighbours in one object. */
async function* listRuns(sequence: ChunkSequence, options: ListChunksOptions): AsyncGenerator<ChunkInfo> {
  const { first = 0, digests = true, signal } = options;
  let key: string | undefined;
  const last = Math.min(options.end ?? sequence.nchunks, sequence.nchunks);
  for (let at = first; at < last; at += PLACES) {
    const places = await sequence.places(at, Math.min(last, at + PLACES), signal);
    for (const run of runsOf(places, digests)) {
      signal?.throwIfAborted();
      const [{ key: own }] = run;
      if (own !== key) await options.onObject?.(own);
      key = own;
      for (const info of await describeRun(sequence.store, run, digests, signal)) {
        yield info;
        options.onProgress?.({ done: info.index + 1 - first, total: last - first });
      }
    }
  }
}

async function describeRun(
  store: ReadableStore,
  run: readonly PlacedChunk[],
  digests: boolean,
  signal: AbortSignal | undefined,
): Promise<readonly ChunkInfo[]> {
  const [first] = run;
  if (!digests || first?.checksum === "None") {
    const headers = await readHeaders(store, run, signal);
    return headers.flatMap((header, i) => {
      const place = run[i];
      return place === undefined ? [] : [describeChunk(place, header, undefined)];
    });
  }
  const infos: ChunkInfo[] = [];
  for await (const chunk of fetchChunks(store, run, { verify: false, signal }))
    infos.push(describeChunk(chunk.place, chunk.header, toHex(chunk.digest)));
  return infos;
}

/** Chunks of one object described together. */
const RUN = 256;

/** Groups chunks of one object into runs. A chunk whose digest is wanted is a run of its own, because its payload is read too. */
function* runsOf(
  places: readonly PlacedChunk[],
  digests: boolean,
): Generator<readonly [PlacedChunk, ...PlacedChunk[]]> {
  let run: [PlacedChunk, ...PlacedChunk[]] | undefined;
  for (const place of places) {
    const previous = run?.at(-1);
    const isAlone = digests && place.checksum !== "None";
    // In some files the chunks are not stored in order.
    const follows = previous?.key === place.key && place.offset > previous.offset;
    if (run !== undefined && follows && !isAlone && run.length < RUN) {
      run.push(place);
      continue;
    }
    if (run !== undefined) yield run;
    run = [place];
  }
  if (run !== undefined) yield run;
}

function describeChunk(place: PlacedChunk, header: ChunkHeader, digest: string | undefined): ChunkInfo {
  const { index, key, offset, nbytes, available, checksum } = place;
  const { ctbytes, typesize, blocksize, compressor, shuffle, memcpyed } = header;
  return {
    index,
    key,
    offset,
    nbytes,
    available,
    checksum,
    ctbytes,
    typesize,
    blocksize,
    compressor,
    shuffle,
    memcpyed,
    digest,
  };
}

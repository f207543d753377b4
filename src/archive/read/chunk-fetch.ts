/**
 * Fetches and decodes encoded chunks: joins reads of neighbours, reuses buffers, and checks every header and digest
 * before the payload is used. Defines the contract of decoders, and the decoder for the calling thread.
 *
 * Must not know threads: `superchunk/node` has a decoder with a thread pool.
 */

import { isEqual, type PrepareMemory, takeBack, toHex } from "../../bytes/arrays.ts";
import { DIGEST_LENGTHS, digest } from "../../bytes/checksum.ts";
import { decodeSync } from "../../codec/decode/decode.ts";
import { isReady, prepare } from "../../codec/decode/decode-kernel.ts";
import type { ChunkHeader } from "../../codec/types.ts";
import { placedError, SuperchunkError } from "../../errors.ts";
import { pauseIfDue } from "../../store/pool.ts";
import type { ReadableStore } from "../../store/types.ts";
import type { PlacedChunk } from "../places/sequence.ts";
import { checkChunkHeader, cutShort, missingChunk } from "./block-read.ts";

/** Unneeded bytes between two chunks that are read anyway, to save a request. */
const MAX_GAP = 65536;
/** Largest joined read, in bytes. */
const MAX_SPAN = 4 << 20;
/** Concurrent reads ahead of the consumer. */
const READ_AHEAD = 3;
/** A larger buffer is allocated only once the object is known to be that large. */
const TRUSTED_BUFFER = 16 << 20;
/** Reads of at most this size are synchronous if the store allows: a promise would cost more. */
const SYNC_READ = 65536;
/** A Blosc chunk is at most this much larger than its data. */
const MAX_OVERHEAD = 16;

/** A fetched chunk. `bytes` is exactly the Blosc chunk: a view, valid until the next one is requested. */
export interface FetchedChunk {
  readonly place: PlacedChunk;
  readonly header: ChunkHeader;
  readonly bytes: Uint8Array;
  /** The stored digest; empty without one. */
  readonly digest: Uint8Array;
  /** Trailing bytes after chunk and digest that belong to nothing, as far as they were read. */
  readonly trailing: number;
  /** See `EncodedChunk`. */
  readonly read?: object | undefined;
}

interface FetchOptions {
  readonly verify: boolean;
  readonly signal?: AbortSignal | undefined;
  /** Buffers to read into, which are put back here. This saves allocating new ones for every call. */
  readonly buffers?: Uint8Array[] | undefined;
  /** Concurrent reads ahead of the consumer (default 3). */
  readonly readAhead?: number | undefined;
}

interface FetchSpan {
  readonly key: string;
  readonly start: number;
  end: number;
  readonly places: PlacedChunk[];
}

/** Fetches the chunks of `places`, in order. Throws on the first that is missing or damaged. */
export async function* fetchChunks(
  store: ReadableStore,
  places: Iterable<PlacedChunk>,
  options: FetchOptions,
): AsyncGenerator<FetchedChunk> {
  const spans = joinSpans(places);
  const idle = options.buffers ?? [];
  const reading: {
    span: FetchSpan;
    bytes: Promise<Uint8Array | undefined>;
    buffer: () => Uint8Array | undefined;
  }[] = [];
  const startNext = (): void => {
    const next = spans.next();
    if (next.done === true) return;
    const span = next.value;
    let buffer: Uint8Array | undefined = idle.pop();
    const bytes = readSpan(store, span, buffer, options.signal).then((read) => {
      buffer = read?.buffer;
      return read?.bytes;
    });
    bytes.catch(() => undefined); // reported when its turn comes
    reading.push({ span, bytes, buffer: () => buffer });
  };
  for (let i = 0; i < (options.readAhead ?? READ_AHEAD); i++) startNext();
  try {
    for (let current = reading.shift(); current !== undefined; current = reading.shift()) {
      await pauseIfDue();
      options.signal?.throwIfAborted();
      const { span } = current;
      const bytes = await current.bytes;
      for (const place of span.places)
        yield { ...(await checkFetched(store, place, span, bytes, options)), read: span };
      const used = current.buffer();
      if (used !== undefined) idle.push(used);
      startNext();
    }
  } finally {
    await Promise.allSettled(reading.map((each) => each.bytes));
  }
}

/**
 * Most bytes that the chunk and its digest can take, without its prologue; at the end of an object, or in one of unknown
 * size, one more, which shows whether bytes follow the longest possible chunk.
 */
export function boundOf(place: PlacedChunk): number {
  const digest = DIGEST_LENGTHS[place.checksum];
  const more = place.endsObject === true || place.available === Number.POSITIVE_INFINITY ? 1 : 0;
  const size = place.ctbytes ?? place.nbytes + MAX_OVERHEAD;
  return Math.min(place.available, size + digest + more);
}

function* joinSpans(places: Iterable<PlacedChunk>): Generator<FetchSpan> {
  let span: FetchSpan | undefined;
  for (const place of places) {
    const start = place.offset - place.prologue;
    const end = place.offset + boundOf(place);
    if (
      span !== undefined &&
      span.key === place.key &&
      start >= span.end &&
      start - span.end <= MAX_GAP &&
      end - span.start <= MAX_SPAN
    ) {
      span.end = end;
      span.places.push(place);
      continue;
    }
    if (span !== undefined) yield span;
    span = { key: place.key, start, end, places: [place] };
  }
  if (span !== undefined) yield span;
}

/** Chunks differ a little in length: a buffer should fit the next one too. */
function roomFor(length: number): number {
  if (length > TRUSTED_BUFFER) return length;
  // For a small archive, larger steps would cost more than the read itself.
  const step = length < 0x10000 ? 0xfff : 0xffff;
  return (length + step) & ~step;
}

/** Reads a span up to the end of the object; undefined if the object is missing. */
async function readSpan(
  store: ReadableStore,
  span: FetchSpan,
  idle: Uint8Array | undefined,
  signal: AbortSignal | undefined,
): Promise<{ bytes: Uint8Array; buffer: Uint8Array | undefined } | undefined> {
  let length = span.end - span.start;
  if (length > TRUSTED_BUFFER) {
    const info = await store.stat(span.key, { signal });
    if (info === undefined) return undefined;
    length = Math.max(0, Math.min(length, info.size - span.start));
  }
  if (store.readInto === undefined && store.readIntoSync === undefined) {
    const bytes = await store.getRange(span.key, { offset: span.start, length }, { signal });
    return bytes === undefined ? undefined : { bytes, buffer: undefined };
  }
  const buffer = idle !== undefined && idle.length >= length ? idle : new Uint8Array(roomFor(length));
  const target = buffer.subarray(0, length);
  const read =
    store.readIntoSync !== undefined && (length <= SYNC_READ || store.readInto === undefined)
      ? store.readIntoSync(span.key, span.start, target)
      : await store.readInto?.(span.key, span.start, target, { signal });
  return read === undefined ? undefined : { bytes: target.subarray(0, read), buffer };
}

async function checkFetched(
  store: ReadableStore,
  place: PlacedChunk,
  span: FetchSpan,
  bytes: Uint8Array | undefined,
  options: FetchOptions,
): Promise<FetchedChunk> {
  const path = store.describe(place.key);
  if (bytes === undefined) throw missingChunk(path, place);
  const start = place.offset - span.start;
  place.checkPrologue?.(bytes.subarray(start - place.prologue, start), path);
  const room = bytes.subarray(Math.min(start, bytes.length), Math.min(bytes.length, start + boundOf(place)));
  return checkChunk(room, place, path, options.verify);
}

/**
 * Checks a complete chunk: header, size, and with `verify` the digest. `room` is the object from the chunk's header on:
 * {@link boundOf} bytes, or fewer at its end. Throws `TRUNCATED`, `BAD_FIELD`, `CHECKSUM_MISMATCH`.
 */
export async function checkChunk(
  room: Uint8Array,
  place: PlacedChunk,
  path: string,
  verify: boolean,
): Promise<FetchedChunk> {
  const header = checkChunkHeader(room, place, path);
  checkRoom(room, header, place, path);
  const length = DIGEST_LENGTHS[place.checksum];
  const chunk = room.subarray(0, header.ctbytes);
  const digest = room.subarray(header.ctbytes, header.ctbytes + length);
  if (length > 0 && verify) await checkDigest(chunk, digest, place, path);
  return { place, header, bytes: chunk, digest, trailing: room.length - header.ctbytes - length };
}

/**
 * Throws `TRUNCATED` if there are fewer bytes than header and digest require, `BAD_FIELD` if no chunk can require so
 * many. [FB-15] [FO-08]
 */
function checkRoom(room: Uint8Array, header: ChunkHeader, place: PlacedChunk, path: string): void {
  const needed = header.ctbytes + DIGEST_LENGTHS[place.checksum];
  const most = header.nbytes + MAX_OVERHEAD;
  if (room.length >= needed && (header.ctbytes <= most || place.ctbytes !== undefined)) return;
  if (header.ctbytes <= most) throw cutShort(place, path, needed, room.length);
  // No more than a chunk can need was read.
  const offset = place.offset + 12;
  throw new SuperchunkError(
    "BAD_FIELD",
    `the Blosc header's ctbytes at byte ${offset} is ${header.ctbytes}, expected at most ${most} (nbytes + 16); the chunk is damaged`,
    {
      path,
      chunk: place.index,
      offset,
      field: "ctbytes",
      expected: `at most ${most}`,
      found: header.ctbytes,
    },
  );
}

async function checkDigest(
  chunk: Uint8Array,
  stored: Uint8Array,
  place: PlacedChunk,
  path: string,
): Promise<void> {
  const found = await digest(place.checksum, chunk);
  if (isEqual(found, stored)) return;
  throw new SuperchunkError(
    "CHECKSUM_MISMATCH",
    `the ${place.checksum} stored at byte ${place.offset + chunk.length} is ${toHex(stored)}, but that of the ${chunk.length} bytes before it is ${toHex(found)}. The chunk is damaged; look for another copy`,
    {
      path,
      chunk: place.index,
      offset: place.offset + chunk.length,
      field: place.checksum,
      expected: toHex(stored),
      found: toHex(found),
    },
  );
}

/** A decoded chunk, with the facts that `verify` needs. */
export interface DecodedChunk {
  readonly place: PlacedChunk;
  /**
   * Decoded bytes: in the target named for them; else a view that is valid until the next chunk is requested, or with `keep` a separate
   * array.
   */
  readonly bytes: Uint8Array;
  /** Bytes of the Blosc chunk. */
  readonly ctbytes: number;
  readonly typesize: number;
  /** Trailing bytes after chunk and digest that belong to nothing, as far as they were read. */
  readonly trailing: number;
}

/** Options for decoding a run of chunks. */
export interface DecodeRun {
  /** Checks digests. */
  readonly verify: boolean;
  readonly signal?: AbortSignal | undefined;
  /** Approximate numbers of chunks and decoded bytes to come. They decide whether other threads pay off. */
  readonly chunks: number;
  readonly nbytes: number;
  /** Returns memory for a chunk's `place.nbytes` bytes; undefined leaves the choice to the decoder. */
  readonly target?: ((place: PlacedChunk) => Uint8Array | undefined) | undefined;
  /** Owner of the returned bytes. */
  readonly hold?: Hold | undefined;
}

/**
 * Who owns decoded bytes: the caller for good (`keep`), or only until the next chunk is requested. By default their memory is
 * then reused with other values. With `lend`, the caller's old views are empty or show the old values instead.
 */
export type Hold = "keep" | "lend";

/** Fetches, checks and decodes chunks in order, in the calling thread or in others, and may work ahead of the caller. */
export interface ChunkDecoder {
  /**
   * Yields the decoded chunks of the places, in order.
   *
   * Throws for a missing or damaged chunk once the chunks before it have been yielded. Errors of `batches` are thrown in turn likewise; an
   * abort throws the signal's reason.
   */
  decodeChunks(
    store: ReadableStore,
    batches: AsyncIterable<readonly PlacedChunk[]>,
    run: DecodeRun,
  ): AsyncIterable<DecodedChunk>;
  /** Prepares the memory of a large result that this decoder will fill. Absent if no preparation is needed. */
  readonly prepareResult?: PrepareMemory | undefined;
}

/** Decodes one whole chunk, whose header has been checked, into `out`, which has its size. Throws `BAD_CHUNK`. */
export type DecodeChunk = (chunk: Uint8Array, out: Uint8Array) => void;

const decodeHere: DecodeChunk = (chunk, out) => {
  decodeSync(chunk, { out });
};

/** A decoder for the calling thread: reads ahead, and decodes on request. */
export function decodeInThread(decode: DecodeChunk = decodeHere): ChunkDecoder {
  return {
    async *decodeChunks(store, batches, run) {
      const scratch = new Scratch();
      for await (const places of batches)
        for await (const chunk of fetchChunks(store, places, run)) {
          const { place, header, trailing } = chunk;
          const out = run.target?.(place) ?? scratch.take(header.nbytes, run.hold);
          await decodeFetched(store, chunk, out, decode);
          yield { place, bytes: out, ctbytes: header.ctbytes, typesize: header.typesize, trailing };
        }
    },
  };
}

/** The decoder of archives opened without one. */
export const callingThread: ChunkDecoder = decodeInThread();

/** Memory for one decoded chunk, reused if the caller does not keep it. */
class Scratch {
  #bytes = new Uint8Array(0);

  take(length: number, hold: Hold | undefined): Uint8Array {
    if (hold === "keep") return new Uint8Array(length);
    if (hold === "lend") this.#bytes = new Uint8Array(takeBack(this.#bytes.buffer));
    if (this.#bytes.length < length) this.#bytes = new Uint8Array(length);
    return this.#bytes.subarray(0, length);
  }
}

/** Decodes a fetched chunk into `out`, which has its size. Throws `BAD_CHUNK`, `BAD_FIELD`, `UNSUPPORTED`. */
export async function decodeFetched(
  store: ReadableStore,
  chunk: FetchedChunk,
  out: Uint8Array,
  decode: DecodeChunk = decodeHere,
): Promise<void> {
  const { header, place } = chunk;
  if (header.nbytes === 0) return;
  if (!isReady(header.compressor)) await prepare(header.compressor);
  try {
    decode(chunk.bytes, out);
  } catch (error) {
    throw placedError(error, store.describe(place.key), place);
  }
}

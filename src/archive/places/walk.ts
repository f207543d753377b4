/**
 * Finds chunks by their Blosc headers where no offsets tell them: chunk, digest, reserve, chunk, …
 *
 * Reserved bytes are zero, and no Blosc header starts with a zero. @see FORMAT.md [FW]
 */
import { decodeHeader } from "../../codec/index.ts";
import type { ChunkHeader } from "../../codec/types.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import type { ReadableStore } from "../../store/types.ts";

const CHUNK_HEADER_LENGTH = 16;
const WINDOW = 65536;

export interface WalkRequest {
  readonly key: string;
  /** Where the first chunk may start, and where the object ends. */
  readonly from: number;
  readonly size: number;
  /** Chunks to find; undefined: all until the end. */
  readonly count: number | undefined;
  /** Chunks that are needed at most, where `count` is unknown. */
  readonly limit: number;
  readonly digestLength: number;
  readonly signal: AbortSignal | undefined;
}

/** What a walk found: for each chunk its offset, its size and its decoded size. */
export interface WalkedChunks {
  readonly starts: Float64Array;
  readonly sizes: Float64Array;
  readonly nbytes: Float64Array;
}

/** Walks the chunks of one object. Throws `TRUNCATED` where it ends before `count` chunks, `BAD_FIELD` on a bad header. */
export async function walkChunks(store: ReadableStore, request: WalkRequest): Promise<WalkedChunks> {
  const { key, size, count, digestLength, signal } = request;
  const path = store.describe(key);
  const window = new Window(store, key, size, signal);
  const found: { start: number; size: number; nbytes: number }[] = [];
  const wanted = count ?? request.limit;
  let at = request.from;
  while (found.length < wanted) {
    at = await skipZeros(window, at, size);
    if (at >= size && count === undefined) break;
    if (at + CHUNK_HEADER_LENGTH > size) {
      throw new SuperchunkError(
        "TRUNCATED",
        `chunk ${found.length} should start at byte ${at}, but the file ends at byte ${size}${count === undefined ? "" : ` with ${found.length} of ${count} chunks`}. The file is cut short; look for a whole copy`,
        { path, offset: at, field: "chunk", expected: CHUNK_HEADER_LENGTH, found: Math.max(0, size - at) },
      );
    }
    const bytes = await window.read(at, CHUNK_HEADER_LENGTH);
    const header = decodeStoredHeader(bytes, { path, chunk: found.length, offset: at });
    const end = at + header.ctbytes + digestLength;
    if (end > size) {
      throw new SuperchunkError(
        "TRUNCATED",
        `chunk ${found.length} at byte ${at} needs ${header.ctbytes + digestLength} bytes, but the file ends at byte ${size}. The file is cut short; look for a whole copy`,
        { path, offset: at, field: "ctbytes", expected: header.ctbytes + digestLength, found: size - at },
      );
    }
    found.push({ start: at, size: header.ctbytes, nbytes: header.nbytes });
    at = end;
  }
  return {
    starts: Float64Array.from(found, (chunk) => chunk.start),
    sizes: Float64Array.from(found, (chunk) => chunk.size),
    nbytes: Float64Array.from(found, (chunk) => chunk.nbytes),
  };
}

/**
 * The header of a chunk that an archive holds; `room` begins with it. A version, a codec or a flag that Blosc1 does not have is
 * damage here: no program of these dialects ever wrote one. Throws `TRUNCATED`, `BAD_FIELD`. [FB-02]
 */
export function decodeStoredHeader(
  room: Uint8Array,
  where: { readonly path: string; readonly chunk: number; readonly offset: number },
): ChunkHeader {
  try {
    return decodeHeader(room, Number.MAX_SAFE_INTEGER);
  } catch (error) {
    if (!isSuperchunkError(error)) throw error;
    const code = error.code === "UNSUPPORTED" ? "BAD_FIELD" : error.code;
    throw new SuperchunkError(code, error.summary, error.details).inObject(where);
  }
}

async function skipZeros(window: Window, from: number, size: number): Promise<number> {
  let at = from;
  while (at < size) {
    const bytes = await window.read(at, 1);
    const step = bytes.findIndex((byte) => byte !== 0);
    if (step >= 0) return at + step;
    at += bytes.length;
  }
  return size;
}

/** Reads an object through a window that moves forward, so that many small chunks cost one read. */
class Window {
  readonly #store: ReadableStore;
  readonly #key: string;
  readonly #size: number;
  readonly #signal: AbortSignal | undefined;
  #bytes: Uint8Array = new Uint8Array(0);
  #start = 0;

  constructor(store: ReadableStore, key: string, size: number, signal: AbortSignal | undefined) {
    this.#store = store;
    this.#key = key;
    this.#size = size;
    this.#signal = signal;
  }

  /** All that the window has from `at` on: at least `length` bytes. */
  async read(at: number, length: number): Promise<Uint8Array> {
    const inside = at >= this.#start && at + length <= this.#start + this.#bytes.length;
    if (!inside) {
      this.#signal?.throwIfAborted();
      const wanted = Math.min(WINDOW, this.#size - at);
      const bytes = await this.#store.getRange(
        this.#key,
        { offset: at, length: wanted },
        { signal: this.#signal },
      );
      if (bytes === undefined || bytes.length < Math.min(length, wanted)) {
        throw new SuperchunkError(
          "STALE",
          `the file changed while it was read: ${wanted} bytes expected at byte ${at}, ${bytes?.length ?? 0} found`,
          {
            path: this.#store.describe(this.#key),
            offset: at,
            expected: wanted,
            found: bytes?.length ?? 0,
          },
        );
      }
      this.#bytes = bytes;
      this.#start = at;
    }
    return this.#bytes.subarray(at - this.#start);
  }
}

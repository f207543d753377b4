/**
 * Decoding many chunks: the contract, and the decoder that works in the calling thread.
 *
 * Knows fetching and the codec; must not know threads. `superchunk/node` has a decoder with a pool of them.
 */
import type { PrepareMemory } from "../../bytes/allocate.ts";
import { decodeSync } from "../../codec/decode/decode.ts";
import { isReady, prepare } from "../../codec/prepare.ts";
import { isSuperchunkError } from "../../errors.ts";
import type { ReadableStore } from "../../store/types.ts";
import type { PlacedChunk } from "../places/sequence.ts";
import { type FetchedChunk, fetchChunks } from "./chunk-fetch.ts";

/** A decoded chunk, with what `verify` wants to know of it. */
export interface DecodedChunk {
  readonly place: PlacedChunk;
  /**
   * Decoded bytes: the target that was named for them; else a view that is valid until the next chunk is asked
   * for, or with `own` an array of its own that the caller keeps.
   */
  readonly bytes: Uint8Array;
  /** Bytes of the Blosc chunk. */
  readonly ctbytes: number;
  readonly typesize: number;
  /** Bytes of the object behind chunk and digest that belong to nothing, as far as they were read. */
  readonly behind: number;
}

/** How chunks are to be decoded. */
export interface DecodeRun {
  /** Check digests. */
  readonly verify: boolean;
  readonly signal?: AbortSignal | undefined;
  /** About how many chunks, and decoded bytes, will be asked for: tells whether other threads pay. */
  readonly chunks: number;
  readonly nbytes: number;
  /** Where a chunk's bytes, `place.nbytes` of them, shall go; undefined: wherever the decoder likes. */
  readonly target?: ((place: PlacedChunk) => Uint8Array | undefined) | undefined;
  /** Bytes that are handed out are the caller's own. */
  readonly own?: boolean | undefined;
}

/** Fetches, checks and decodes chunks, in order; here or in other threads, some of them ahead of the caller. */
export interface ChunkDecoder {
  /**
   * Decoded chunks of the places, in order.
   *
   * Throws where a chunk is missing or damaged, after the chunks before it have been handed out; and what `batches`
   * throws, likewise in its turn; the signal's reason where it is aborted.
   */
  decodeChunks(
    store: ReadableStore,
    batches: AsyncIterable<readonly PlacedChunk[]>,
    run: DecodeRun,
  ): AsyncIterable<DecodedChunk>;
  /** Prepares the memory of a large result that this decoder is to fill; absent: nothing needs to be done. */
  readonly prepareResult?: PrepareMemory | undefined;
}

/** Decodes one whole chunk, whose header has been checked, into `out`, which has its size. Throws `BAD_CHUNK`. */
export type DecodeChunk = (chunk: Uint8Array, out: Uint8Array) => void;

const decodeHere: DecodeChunk = (chunk, out) => {
  decodeSync(chunk, { out });
};

/** A decoder that works in the calling thread: reads ahead, and decodes what the caller waits for. */
export function decodeInThread(decode: DecodeChunk = decodeHere): ChunkDecoder {
  return {
    async *decodeChunks(store, batches, run) {
      const scratch = new Scratch();
      for await (const places of batches) {
        for await (const chunk of fetchChunks(store, places, run)) {
          const { place, header, behind } = chunk;
          const out = run.target?.(place) ?? scratch.take(header.nbytes, run.own === true);
          await decodeFetched(store, chunk, out, decode);
          yield { place, bytes: out, ctbytes: header.ctbytes, typesize: header.typesize, behind };
        }
      }
    },
  };
}

/** The decoder of archives that are opened without another one. */
export const callingThread: ChunkDecoder = decodeInThread();

/** Room for one decoded chunk, used again where the caller does not keep it. */
class Scratch {
  #bytes = new Uint8Array(0);

  take(length: number, own: boolean): Uint8Array {
    if (own) return new Uint8Array(length);
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
    if (!isSuperchunkError(error)) throw error;
    throw error.inObject({ path: store.describe(place.key), chunk: place.index, offset: place.offset });
  }
}

/**
 * An encoder that hands out the chunks of the source where the writer asks for the same bytes: then nothing is compressed
 * anew, and every copied chunk has been decoded once, so that what is damaged is not carried on.
 */

import type { ChunkedArchive } from "../../archive/kinds/types.ts";
import { isEqual } from "../../bytes/equal.ts";
import { decode, info } from "../../codec/index.ts";
import type { ChunkEncoder, EncodeOptions } from "../../codec/types.ts";
import { placeFailure } from "../run/chunk-failure.ts";

/** Chunks that may wait for the writer to ask for them. */
const MOST_WAITING = 64;

/** A chunk of the source, and what it decodes to. */
interface OfferedChunk {
  readonly items: Uint8Array;
  readonly chunk: Uint8Array;
}

/** Gives out offered chunks for the bytes that they decode to, and encodes what was not offered. */
export class CopyingEncoder implements ChunkEncoder {
  readonly parallel: number;
  /** Chunks that went over unchanged, and chunks that were made. */
  copied = 0;
  recoded = 0;
  readonly #encoder: ChunkEncoder;
  readonly #needsTypesize: boolean;
  #offered: OfferedChunk[] = [];

  /** `needsTypesize`: a chunk with elements of another size than the writer asks for is made anew. */
  constructor(encoder: ChunkEncoder, { needsTypesize = false }: { needsTypesize?: boolean } = {}) {
    this.#encoder = encoder;
    this.#needsTypesize = needsTypesize;
    // Writers ask at once where one at a time is enough, and then not here.
    this.parallel = Math.max(2, encoder.parallel);
  }

  /** A chunk that the writer may ask for. Neither array must be written to afterwards. */
  offer(items: Uint8Array, chunk: Uint8Array): void {
    if (this.#offered.length >= MOST_WAITING) this.#offered.shift();
    this.#offered.push({ items, chunk });
  }

  async encode(data: Uint8Array, options: EncodeOptions): Promise<Uint8Array> {
    // Compared, not counted: a writer that cuts elsewhere must never get another chunk.
    const found = this.#offered.findIndex(
      ({ items, chunk }) =>
        isEqual(items, data) && !(this.#needsTypesize && info(chunk).typesize !== options.typesize),
    );
    const offered = this.#offered[found];
    if (offered === undefined) {
      this.recoded++;
      return this.#encoder.encode(data, options);
    }
    this.#offered = this.#offered.slice(found + 1);
    this.copied++;
    return offered.chunk;
  }
}

/** The decoded bytes of all chunks in stored order, each chunk offered to the encoder before. */
export async function* offerChunks(
  archive: ChunkedArchive,
  encoder: CopyingEncoder,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  let left = archive.nbytes;
  for await (const { place, bytes } of archive.encodedChunks(0, archive.nchunks, { signal })) {
    const chunk = bytes.slice();
    const items = await placeFailure(archive.store, place, decode(chunk));
    // The last chunk of a carray may hold more rows than count.
    const shown = items.length > left ? items.subarray(0, left) : items;
    if (shown.length === items.length) encoder.offer(items, chunk);
    left -= shown.length;
    yield shown;
  }
}

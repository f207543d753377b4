/** Pieces of bytes as Blosc chunks, in order: one after the other here, or several at a time elsewhere. */
import { encodeSync, prepareEncode } from "../../codec/index.ts";
import type { ChunkEncoder, EncodeOptions } from "../../codec/types.ts";

/** A chunk, and the bytes that it was made from. */
export interface EncodedPiece {
  readonly chunk: Uint8Array;
  readonly nbytes: number;
}

/** Encodes each piece. A piece may be used again by its maker once the next is asked for. */
export async function* encodePieces(
  pieces: AsyncIterable<Uint8Array>,
  options: EncodeOptions,
  encoder: ChunkEncoder | undefined,
): AsyncGenerator<EncodedPiece> {
  const parallel = encoder?.parallel ?? 1;
  if (encoder === undefined || parallel < 2) {
    if (encoder === undefined) await prepareEncode(options.cname);
    for await (const piece of pieces) {
      const chunk = encoder === undefined ? encodeSync(piece, options) : await encoder.encode(piece, options);
      yield { chunk, nbytes: piece.length };
    }
    return;
  }
  const waiting: Promise<EncodedPiece>[] = [];
  try {
    for await (const piece of pieces) {
      const data = piece.slice();
      const chunk = Promise.resolve(encoder.encode(data, options));
      const made = chunk.then((bytes) => ({ chunk: bytes, nbytes: data.length }));
      made.catch(() => undefined); // told when its turn comes
      waiting.push(made);
      if (waiting.length <= parallel) continue;
      const first = waiting.shift();
      if (first !== undefined) yield await first;
    }
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) yield await next;
  } finally {
    await Promise.allSettled(waiting);
  }
}

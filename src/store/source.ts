/**
 * What is put: whole, or piece by piece.
 *
 * Knows the forms of `PutSource`; must not know any store.
 */
import type { PutSource } from "./types.ts";

/** The pieces of a source; a whole one is a single piece. A piece is the maker's again once the next is asked for. */
export async function* readPieces(source: PutSource, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
  signal?.throwIfAborted();
  if (source instanceof Uint8Array) {
    yield source;
    return;
  }
  for await (const piece of source) {
    signal?.throwIfAborted();
    yield piece;
  }
}

/** All bytes of a source in one fresh array. */
export async function collectSource(source: PutSource, signal?: AbortSignal): Promise<Uint8Array> {
  signal?.throwIfAborted();
  if (source instanceof Uint8Array) return new Uint8Array(source);
  const pieces: Uint8Array[] = [];
  for await (const piece of readPieces(source, signal)) pieces.push(new Uint8Array(piece));
  return joinPieces(pieces);
}

/** Several pieces as one fresh array. */
export function joinPieces(pieces: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

/**
 * What is put: whole, or piece by piece.
 *
 * Knows the forms of `PutSource`; must not know any store.
 */
import { joinBytes } from "../bytes/join.ts";
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
  return joinBytes(pieces);
}

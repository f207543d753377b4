/**
 * Sources of `put`: whole, or in pieces.
 *
 * Knows the forms of `PutSource`; must not know any store.
 */
import { joinBytes } from "../bytes/arrays.ts";
import type { PieceRooms, PutSource, RoomySource } from "./types.ts";

/** Yields the pieces of a source; a whole one is a single piece. The producer may reuse a piece once the next is requested. */
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

export function withRooms(
  pieces: AsyncIterable<Uint8Array>,
  useRooms: (rooms: PieceRooms) => void,
): RoomySource {
  return { [Symbol.asyncIterator]: () => pieces[Symbol.asyncIterator](), useRooms };
}

/** Gives the rooms for the pieces to a source that can use them. */
export function offerRooms(source: PutSource, rooms: PieceRooms): void {
  if ("useRooms" in source && typeof source.useRooms === "function") source.useRooms(rooms);
}

export async function collectSource(source: PutSource, signal?: AbortSignal): Promise<Uint8Array> {
  signal?.throwIfAborted();
  if (source instanceof Uint8Array) return new Uint8Array(source);
  const pieces: Uint8Array[] = [];
  for await (const piece of readPieces(source, signal)) pieces.push(new Uint8Array(piece));
  return joinBytes(pieces);
}

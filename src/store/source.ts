/**
 * Sources of `put`: whole, or in pieces.
 *
 * Knows the forms of `PutSource`, and how a source can make its pieces in a store's own memory; must not know any store.
 */
import { joinBytes } from "../bytes/arrays.ts";
import type { PutSource } from "./types.ts";

/** Memory of a store for the pieces of one object. */
export interface PieceRooms {
  /**
   * Returns memory for the next piece, at least `length` bytes; undefined if there is none just now. A piece
   * that begins at the start of its room is not copied. The store may reuse the room after that piece is
   * handed over, or when another room is taken.
   */
  take(length: number): Uint8Array<ArrayBuffer> | undefined;
}

/** A source that can make its pieces in the store's memory. */
export interface RoomySource extends AsyncIterable<Uint8Array> {
  /** Offers these rooms for the next pieces, as far as they fit. */
  useRooms(rooms: PieceRooms): void;
}

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

/**
 * Hands over the pieces of a source one by one. `take` returns a promise only if it has to wait: most calls only copy a piece, and a
 * promise for each would take longer.
 */
export async function eachPiece(
  source: PutSource,
  take: (piece: Uint8Array) => Promise<void> | undefined,
  signal?: AbortSignal,
): Promise<void> {
  const pieces = source instanceof Uint8Array ? [source] : source;
  if (Symbol.asyncIterator in pieces) for await (const piece of readPieces(pieces, signal)) await take(piece);
  else
    for (const piece of pieces) {
      signal?.throwIfAborted();
      const waiting = take(piece);
      if (waiting !== undefined) await waiting;
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
  await eachPiece(source, (piece) => void pieces.push(new Uint8Array(piece)), signal);
  return joinBytes(pieces);
}

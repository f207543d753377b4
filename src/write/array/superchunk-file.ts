/**
 * The bytes of a superchunk: version 3, walkable, with spare offsets, so that it is also a Bloscpack file; with reserve after
 * its chunks, version 4.
 * @see FORMAT.md [FZ] [FG-08]
 */
import { typesizeFor } from "../../codec/header.ts";
import { encodeFileHeader, encodeOffsets } from "../../format/encode-file.ts";
import { FILE_HEADER_LENGTH, OFFSET_LENGTH } from "../../format/header.ts";
import type { ChecksumName } from "../../format/types.ts";
import type { ColumnLayout } from "../layout/columns.ts";
import { type ArraySettings, type Reserve, reserveOf } from "../layout/settings.ts";

/** A chunk's place in a file, in bytes, without its digest. */
export interface ChunkSpan {
  readonly offset: number;
  readonly nbytes: number;
}

export interface StoredChunk {
  /** The Blosc chunk. */
  readonly bytes: Uint8Array;
  readonly digest: Uint8Array;
  /** Decoded bytes. */
  readonly nbytes: number;
}

/** A copy of a chunk in separate memory. */
export function ownCopy({ bytes, digest, nbytes }: StoredChunk): StoredChunk {
  return { bytes: bytes.slice(), digest: digest.slice(), nbytes };
}

/** What all superchunks of a column have in common. */
export interface SuperchunkForm {
  /** Decoded bytes of every chunk but the last. */
  readonly chunkBytes: number;
  readonly checksum: ChecksumName;
  readonly itemSize: number;
  /** Chunks of a full superchunk: the entries of the offset table. */
  readonly superchunklen: number;
  /** Space after each chunk; with it, the file is version 4. */
  readonly reserve: Reserve | undefined;
}

/** The form of a column's superchunks. */
export function formOf({ rowBytes, itemSize }: ColumnLayout, settings: ArraySettings): SuperchunkForm {
  const { chunklen, checksum, superchunklen, reserve } = settings;
  return { chunkBytes: chunklen * rowBytes, checksum, itemSize, superchunklen, reserve };
}

/** Header and offsets, then chunk, digest, chunk, digest, … There must be at least one chunk. */
export function superchunkPieces(chunks: readonly StoredChunk[], facts: SuperchunkForm): Uint8Array[] {
  const entries = Math.max(chunks.length, facts.superchunklen);
  const offsets = new Array<number>(entries).fill(-1);
  const pieces: Uint8Array[] = [new Uint8Array(0)];
  let at = FILE_HEADER_LENGTH + entries * OFFSET_LENGTH;
  let reserved = 0;
  chunks.forEach(({ bytes, digest, nbytes }, i) => {
    offsets[i] = at;
    const length = bytes.length + digest.length;
    const room = reserveOf(facts.reserve, length, nbytes + digest.length);
    at += length + room;
    reserved += room;
    addPiece(pieces, bytes);
    addPiece(pieces, digest);
    addPiece(pieces, new Uint8Array(room));
  });
  const last = chunks[chunks.length - 1]?.nbytes ?? 0;
  const spare = entries - chunks.length;
  const header = encodeFileHeader({
    version: reserved > 0 ? 4 : 3,
    headerLength: FILE_HEADER_LENGTH,
    offsets: true,
    metadata: false,
    checksum: facts.checksum,
    typesize: typesizeFor(facts.itemSize),
    // As in Bloscpack, a single shorter chunk gives its own length.
    chunkSize: chunks.length === 1 ? last : facts.chunkBytes,
    lastChunk: last,
    nchunks: chunks.length,
    maxAppChunks: spare,
    metaSize: spare,
  });
  const head = new Uint8Array(FILE_HEADER_LENGTH + entries * OFFSET_LENGTH);
  head.set(header);
  head.set(encodeOffsets(offsets), FILE_HEADER_LENGTH);
  pieces[0] = head;
  return pieces;
}

/** Where the chunks are in the file of {@link superchunkPieces}. */
export function chunkPlaces(
  chunks: readonly StoredChunk[],
  { superchunklen }: Pick<SuperchunkForm, "superchunklen">,
): ChunkSpan[] {
  let at = FILE_HEADER_LENGTH + Math.max(chunks.length, superchunklen) * OFFSET_LENGTH;
  return chunks.map(({ bytes, digest }) => {
    const place = { offset: at, nbytes: bytes.length };
    at += bytes.length + digest.length;
    return place;
  });
}

/** Adds a piece; extends the last one if they are contiguous in memory. */
function addPiece(pieces: Uint8Array[], piece: Uint8Array): void {
  if (piece.length === 0) return;
  const last = pieces[pieces.length - 1];
  if (
    last !== undefined &&
    last.buffer === piece.buffer &&
    last.byteOffset + last.length === piece.byteOffset
  )
    pieces[pieces.length - 1] = new Uint8Array(last.buffer, last.byteOffset, last.length + piece.length);
  else pieces.push(piece);
}

export function totalLength(pieces: readonly Uint8Array[]): number {
  return pieces.reduce((sum, piece) => sum + piece.length, 0);
}

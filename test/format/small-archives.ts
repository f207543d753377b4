/** Small archives put together by hand, and what is in them. */

import type { ArrayArchive, ArraySlice, ChunkedArchive } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/archive/open/open.ts";
import { digest } from "../../src/bytes/checksum.ts";
import { encodeFileHeader, encodeOffsets } from "../../src/format/encode-file.ts";
import type { ChecksumName } from "../../src/format/types.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { toJsonValues } from "../values/json-values.ts";
import { utf8 } from "./hex.ts";

/** A stored Blosc chunk. */
export function stored(data: Uint8Array, typesize = 1): Uint8Array {
  const u32 = (value: number): number[] => [
    value & 255,
    (value >> 8) & 255,
    (value >> 16) & 255,
    value >>> 24,
  ];
  return Uint8Array.from([
    2,
    1,
    2,
    typesize,
    ...u32(data.length),
    ...u32(data.length === 0 ? 1 : data.length),
    ...u32(data.length + 16),
    ...data,
  ]);
}

export interface FileParts {
  readonly version?: 2 | 3 | 4;
  readonly chunks: readonly Uint8Array[];
  readonly checksum?: ChecksumName;
  readonly chunkSize?: number;
  readonly lastChunk?: number;
  readonly nchunks?: number;
  /** Spare offsets; if undefined, there are no offsets at all. */
  readonly spare?: number;
  readonly section?: Uint8Array;
  /** Zero bytes after each digest. */
  readonly reserve?: number;
  /** Physical order of the chunks. */
  readonly order?: readonly number[];
  readonly behind?: Uint8Array;
}

/** A file put together by hand. */
export async function makeFile(parts: FileParts): Promise<Uint8Array> {
  const { chunks, checksum = "None", spare, section = new Uint8Array(0), reserve = 0 } = parts;
  const nbytes = (chunk: Uint8Array | undefined): number => (chunk === undefined ? 0 : chunk.length - 16);
  const version = parts.version ?? 3;
  const spareEntries = spare ?? 0;
  const header = encodeFileHeader({
    version,
    headerLength: 32,
    offsets: spare !== undefined,
    metadata: section.length > 0,
    checksum,
    typesize: 1,
    chunkSize: parts.chunkSize ?? nbytes(chunks[0]),
    lastChunk: parts.lastChunk ?? nbytes(chunks.at(-1)),
    nchunks: parts.nchunks ?? chunks.length,
    maxAppChunks: spareEntries,
    metaSize: spareEntries,
  });
  const tableLength = spare === undefined ? 0 : (chunks.length + spare) * 8;
  let at = 32 + section.length + tableLength;
  const offsets = Array.from({ length: chunks.length + spareEntries }, () => -1);
  const body: Uint8Array[] = [];
  for (const k of parts.order ?? chunks.keys()) {
    const chunk = chunks[k] ?? new Uint8Array(0);
    const piece = Uint8Array.from([...chunk, ...(await digest(checksum, chunk)), ...new Uint8Array(reserve)]);
    offsets[k] = at;
    at += piece.length;
    body.push(piece);
  }
  const table = spare === undefined ? new Uint8Array(0) : encodeOffsets(offsets);
  return Uint8Array.from([
    ...header,
    ...section,
    ...table,
    ...body.flatMap((piece) => [...piece]),
    ...(parts.behind ?? []),
  ]);
}

export const ABC: readonly Uint8Array[] = [stored(utf8("abcd")), stored(utf8("efgh")), stored(utf8("ij"))];

export async function openFile(bytes: Uint8Array): Promise<ChunkedArchive & { kind: string }> {
  const archive = await open(new MemoryStore([["a.blp", bytes]]), "a.blp");
  if (archive.kind === "table") throw new Error("opened as a table");
  return archive;
}

export async function textOf(bytes: Uint8Array): Promise<string> {
  const archive = await openFile(bytes);
  return new TextDecoder().decode(await archive.readBytes(0, archive.nbytes));
}

export async function openFolder(
  objects: Readonly<Record<string, Uint8Array | string>>,
): Promise<ArrayArchive> {
  const store = new MemoryStore(
    Object.entries(objects).map(([key, value]) => [key, typeof value === "string" ? utf8(value) : value]),
  );
  const archive = await open(store);
  if (archive.kind !== "array") throw new Error(`opened as ${archive.kind}`);
  return archive;
}

export async function jsonOf(array: ArrayArchive): Promise<unknown> {
  return toJsonValues(((await array.get()) as ArraySlice).data, array.dtype);
}

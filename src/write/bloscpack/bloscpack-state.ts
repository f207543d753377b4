/** What an append must know of a Bloscpack file. Knows files; must not know how they are changed. */

import type { ArrayArchive, BytesArchive } from "../../archive/kinds/types.ts";
import { openFile } from "../../archive/open/open-file.ts";
import { type BlpkFile, openBlpkFile, readChunkHeader } from "../../archive/places/blpk-file.ts";
import { withJournal } from "../../archive/places/journal.ts";
import { elementsOf } from "../../bytes/arrays.ts";
import { DIGEST_LENGTHS } from "../../bytes/checksum.ts";
import type { ChunkHeader } from "../../codec/types.ts";
import { SuperchunkError } from "../../errors.ts";
import { type BlpkHeader, FILE_HEADER_LENGTH } from "../../format/header.ts";
import { parseJson } from "../../format/json.ts";
import { decodeSection, decodeSectionHeader, SECTION_HEADER_LENGTH } from "../../format/metadata.ts";
import type { DType, JsonInput } from "../../format/types.ts";
import type { ReadableStore, StoreOptions, WritableStore } from "../../store/types.ts";
import type { BloscpackMetadataOptions } from "./bloscpack-options.ts";

/** A file to be appended to. Sizes in bytes. */
export interface BloscpackState {
  readonly store: WritableStore;
  readonly key: string;
  /** Version of the file when it was opened. */
  readonly version: string;
  readonly header: BlpkHeader;
  readonly file: BlpkFile;
  readonly archive: ArrayArchive | BytesArchive;
  readonly nchunks: number;
  readonly nbytes: number;
  /** Uncompressed bytes of every chunk but the last; 0 for an empty file. */
  readonly chunkSize: number;
  /** Decoded bytes of the last chunk. */
  readonly last: Uint8Array;
  /** Header of the last chunk, which says how it was compressed; undefined without a chunk. */
  readonly lastHeader: ChunkHeader | undefined;
  /** The metadata section as stored, and how it was written. */
  readonly section: Uint8Array | undefined;
  readonly metadata: JsonInput | undefined;
  readonly sectionOptions: BloscpackMetadataOptions | undefined;
  /** Start of the offset table, and its number of entries. */
  readonly tableAt: number;
  readonly entries: number;
}

/** Reads the file at `key`. Throws `NOT_FOUND`, `UNSUPPORTED` (versions 1 and 2, raw JSON metadata), and damage. */
export async function readBloscpackState(
  store: WritableStore,
  key: string,
  options: StoreOptions,
): Promise<BloscpackState> {
  const path = store.describe(key);
  const info = await store.stat(key, options);
  const head = await store.getRange(key, { offset: 0, length: FILE_HEADER_LENGTH }, options);
  if (info === undefined || head === undefined)
    throw new SuperchunkError("NOT_FOUND", "the file does not exist", { path });
  const source = await withJournal(store, key, head, options);
  const archive = await openFile(store, key, options);
  const size = (await source.stat(key, options))?.size ?? info.size;
  const file = await openBlpkFile(source, key, size, Number.POSITIVE_INFINITY, options.signal);
  const { header } = file;
  if (header.version < 3 || file.metadata?.kind === "blz-json")
    throw new SuperchunkError(
      "UNSUPPORTED",
      `${file.metadata?.kind === "blz-json" ? "a superchunk with raw JSON metadata" : `a file of version ${header.version}`} cannot be appended to; decompress it and compress it again, which gives version 3`,
      { path, offset: 4, field: "version", expected: "3 or 4", found: header.version },
    );
  if (archive.chunkStarts !== undefined)
    throw new SuperchunkError(
      "UNSUPPORTED",
      "a file whose chunks have unequal lengths cannot be appended to; decompress it and compress it again, which makes them equal",
      { path, offset: 8, field: "chunk-size", expected: "one size for all chunks", found: header.chunkSize },
    );
  const section = header.metadata ? await readSection(source, key, options) : undefined;
  const { nchunks, nbytes, chunkBytes } = archive;
  const lastStart = nchunks === 0 ? 0 : (nchunks - 1) * chunkBytes;
  return {
    store,
    key,
    version: info.version,
    header,
    file,
    archive,
    nchunks,
    nbytes,
    chunkSize: nbytes === 0 ? 0 : header.chunkSize > 0 ? header.chunkSize : chunkBytes,
    last:
      nbytes === 0
        ? new Uint8Array(0)
        : await archive.readBytes(lastStart, nbytes, { signal: options.signal }),
    lastHeader: nchunks === 0 ? undefined : await readChunkHeader(source, file, nchunks - 1),
    section: section?.bytes,
    metadata: section?.metadata,
    sectionOptions: section?.options,
    tableAt: FILE_HEADER_LENGTH + (section?.bytes.length ?? 0),
    entries: header.offsets ? header.nchunks + header.maxAppChunks : 0,
  };
}

async function readSection(
  store: ReadableStore,
  key: string,
  options: StoreOptions,
): Promise<{ bytes: Uint8Array; metadata: JsonInput; options: BloscpackMetadataOptions }> {
  const path = store.describe(key);
  const start = (await store.getRange(
    key,
    { offset: FILE_HEADER_LENGTH, length: SECTION_HEADER_LENGTH },
    options,
  )) as Uint8Array;
  const { sectionLength, checksum, level, maxMetaSize } = decodeSectionHeader(
    start,
    path,
    FILE_HEADER_LENGTH,
  );
  const bytes = await store.getRange(key, { offset: FILE_HEADER_LENGTH, length: sectionLength }, options);
  if (bytes?.length !== sectionLength)
    throw new SuperchunkError("STALE", "the file changed while it was read", { path });
  const { text } = await decodeSection(bytes, path, FILE_HEADER_LENGTH);
  const metadata = parseJson(text, path, { floats: "kept" });
  return { bytes, metadata, options: { checksum, level, maxMetaSize } };
}

/** Bytes of each of the first `count` chunks with digest, according to their headers. */
export async function storedSizes(state: BloscpackState, count: number): Promise<Float64Array> {
  const { file } = state;
  const digest = DIGEST_LENGTHS[state.header.checksum];
  const sizes = new Float64Array(count);
  for (let i = 0; i < count; i++) {
    const known = file.walked?.sizes[i];
    sizes[i] = (known ?? (await readChunkHeader(state.store, file, i)).ctbytes) + digest;
  }
  return sizes;
}

/** The array in the file, if rows can be added after its own; undefined for plain bytes. */
export function growableArray(
  state: BloscpackState,
): { readonly dtype: DType; readonly shape: readonly number[]; readonly rowBytes: number } | undefined {
  const { archive } = state;
  if (archive.kind !== "array") return undefined;
  const { dtype, shape, order } = archive;
  const path = state.store.describe(state.key);
  if (shape.length === 0 || (order === "F" && shape.length > 1))
    throw new SuperchunkError(
      "UNSUPPORTED",
      shape.length === 0
        ? "the file holds a single value without dimensions, which cannot be appended to"
        : "the array is stored in Fortran order, where rows are spread over all chunks; rewrite it in C order",
      { path, field: "order", found: order },
    );
  return { dtype, shape, rowBytes: elementsOf(shape.slice(1)) * dtype.itemSize };
}

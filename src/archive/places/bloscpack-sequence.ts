/** The chunk sequence of one Bloscpack file. */
import { at } from "../../bytes/at.ts";
import { SuperchunkError } from "../../errors.ts";
import { runPooled } from "../../store/pool.ts";
import type { ReadableStore } from "../../store/types.ts";
import { type BlpkFile, readChunkNbytes } from "./blpk-file.ts";
import { type ChunkSequence, nbytesOfChunk, type PlacedChunk, startOfChunk } from "./sequence.ts";

/** Makes the sequence; finds out the sizes that the header does not tell. */
export async function bloscpackSequence(
  store: ReadableStore,
  file: BlpkFile,
  signal?: AbortSignal,
): Promise<ChunkSequence> {
  const nchunks = file.starts.length;
  const starts = await unequalStarts(store, file, signal);
  if (starts !== undefined) return new BloscpackSequence(store, file, starts);
  const { chunkBytes, lastBytes } = await chunkSizes(store, file, nchunks, signal);
  const nbytes = nchunks === 0 ? 0 : (nchunks - 1) * chunkBytes + lastBytes;
  if (!Number.isSafeInteger(nbytes)) {
    throw new SuperchunkError(
      "BAD_FIELD",
      `nchunks ${nchunks} of chunk-size ${chunkBytes} are more bytes than a file can hold`,
      { path: file.path, offset: 8, field: "chunk-size", found: chunkBytes },
    );
  }
  return new BloscpackSequence(store, file, { nbytes, chunkBytes });
}

/** Headers that are read at a time, where only they tell how long the chunks are. */
const AT_ONCE = 16;

/**
 * First decoded byte of each chunk, and the end, where the header says that chunks may be of unequal lengths (chunk-size -1) and
 * they are; else undefined. Every chunk's header is read where no walk has. [FS-02] [FS-04]
 */
async function unequalStarts(
  store: ReadableStore,
  file: BlpkFile,
  signal: AbortSignal | undefined,
): Promise<Float64Array | undefined> {
  const { header, walked, starts: offsets, path } = file;
  const nchunks = offsets.length;
  const isUnknown = header.version === 1 || header.chunkSize < 0;
  if (!isUnknown || nchunks < 2) return undefined;
  const sizes = walked?.nbytes.slice(0, nchunks) ?? new Float64Array(nchunks);
  if (walked === undefined) {
    const read = async (index: number, call: AbortSignal | undefined): Promise<void> => {
      sizes[index] = await readChunkNbytes(store, file, index, call);
    };
    await runPooled(offsets.keys(), AT_ONCE, read, signal);
  }
  if (header.version !== 1 && header.lastChunk >= 0) sizes[nchunks - 1] = header.lastChunk;
  const [first = 0] = sizes;
  const last = sizes.at(-1) ?? 0;
  if (first > 0 && last <= first && sizes.subarray(0, -1).every((size) => size === first)) return undefined;
  const starts = new Float64Array(nchunks + 1);
  for (const [i, size] of sizes.entries()) starts[i + 1] = at(starts, i) + size;
  if (Number.isSafeInteger(starts[nchunks])) return starts;
  throw new SuperchunkError("BAD_FIELD", "the chunks decode to more bytes than a file can hold", {
    path,
    offset: 8,
    field: "chunk-size",
    found: starts[nchunks],
  });
}

async function chunkSizes(
  store: ReadableStore,
  file: BlpkFile,
  nchunks: number,
  signal: AbortSignal | undefined,
): Promise<{ chunkBytes: number; lastBytes: number }> {
  const { header, walked, path } = file;
  if (nchunks === 0) return { chunkBytes: 0, lastBytes: 0 };
  const told = async (index: number): Promise<number> =>
    walked?.nbytes[index] ?? (await readChunkNbytes(store, file, index, signal));
  const stated = header.version === 1 ? { chunkSize: -1, lastChunk: -1 } : header;
  const lastBytes = stated.lastChunk >= 0 ? stated.lastChunk : await told(nchunks - 1);
  if (nchunks === 1) return { chunkBytes: lastBytes, lastBytes };
  const chunkBytes = stated.chunkSize > 0 ? stated.chunkSize : await told(0);
  if (lastBytes > chunkBytes || chunkBytes === 0) {
    throw new SuperchunkError(
      "BAD_FIELD",
      `last-chunk at byte 12 is ${lastBytes}, more than chunk-size ${chunkBytes}, in a file of ${nchunks} chunks. The file is damaged; run "superchunk verify"`,
      { path, offset: 12, field: "last-chunk", expected: `at most ${chunkBytes}`, found: lastBytes },
    );
  }
  return { chunkBytes, lastBytes };
}

class BloscpackSequence implements ChunkSequence {
  readonly store: ReadableStore;
  readonly nbytes: number;
  readonly chunkBytes: number;
  readonly nchunks: number;
  readonly hasChecksums: boolean;
  readonly starts: Float64Array | undefined;
  readonly #file: BlpkFile;

  /** `cut`: equal chunks, the last perhaps shorter, or where unequal ones start. */
  constructor(
    store: ReadableStore,
    file: BlpkFile,
    cut: { readonly nbytes: number; readonly chunkBytes: number } | Float64Array,
  ) {
    this.store = store;
    this.starts = cut instanceof Float64Array ? cut : undefined;
    this.nbytes = cut instanceof Float64Array ? (cut.at(-1) ?? 0) : cut.nbytes;
    this.chunkBytes = cut instanceof Float64Array ? longestOf(cut) : cut.chunkBytes;
    this.nchunks = file.starts.length;
    this.hasChecksums = file.header.version > 1;
    this.#file = file;
  }

  placeNow(index: number): PlacedChunk {
    const nbytes =
      this.starts === undefined
        ? nbytesOfChunk(index, this.nbytes, this.chunkBytes)
        : startOfChunk(this, index + 1) - startOfChunk(this, index);
    return placeInFile(this.#file, index, index, nbytes);
  }

  async places(first: number, end: number): Promise<readonly PlacedChunk[]> {
    return Array.from({ length: end - first }, (_, i) => this.placeNow(first + i));
  }

  async *keys(): AsyncIterable<string> {
    yield this.#file.key;
  }

  async leftovers(): Promise<readonly string[]> {
    return [];
  }
}

function longestOf(starts: Float64Array): number {
  return starts.reduce((longest, start, i) => Math.max(longest, start - (starts[i - 1] ?? start)), 0);
}

/** The place of the `inFile`-th chunk of a file, which is the `index`-th of the sequence. */
export function placeInFile(file: BlpkFile, inFile: number, index: number, nbytes: number): PlacedChunk {
  const offset = at(file.starts, inFile);
  const end = at(file.ends, inFile);
  return {
    index,
    key: file.key,
    offset,
    nbytes,
    ctbytes: file.walked?.sizes[inFile],
    available: end - offset,
    endsObject: end === file.size,
    checksum: file.header.checksum,
    prologue: 0,
    header: file.header,
  };
}

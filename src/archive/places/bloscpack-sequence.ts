/** The chunk sequence of one Bloscpack file. */
import { at } from "../../bytes/at.ts";
import { SuperchunkError } from "../../errors.ts";
import type { ReadableStore } from "../../store/types.ts";
import { type BlpkFile, readChunkNbytes } from "./blpk-file.ts";
import { type ChunkSequence, nbytesOfChunk, type PlacedChunk } from "./sequence.ts";

/** Makes the sequence; finds out the sizes that the header does not tell. */
export async function bloscpackSequence(
  store: ReadableStore,
  file: BlpkFile,
  signal?: AbortSignal,
): Promise<ChunkSequence> {
  const nchunks = file.starts.length;
  const { chunkBytes, lastBytes } = await chunkSizes(store, file, nchunks, signal);
  const nbytes = nchunks === 0 ? 0 : (nchunks - 1) * chunkBytes + lastBytes;
  if (!Number.isSafeInteger(nbytes)) {
    throw new SuperchunkError(
      "BAD_FIELD",
      `nchunks ${nchunks} of chunk-size ${chunkBytes} are more bytes than a file can hold`,
      { path: file.path, offset: 8, field: "chunk-size", found: chunkBytes },
    );
  }
  return new BloscpackSequence(store, file, nbytes, chunkBytes);
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
  readonly #file: BlpkFile;

  constructor(store: ReadableStore, file: BlpkFile, nbytes: number, chunkBytes: number) {
    this.store = store;
    this.nbytes = nbytes;
    this.chunkBytes = chunkBytes;
    this.nchunks = file.starts.length;
    this.hasChecksums = file.header.version > 1;
    this.#file = file;
  }

  placeNow(index: number): PlacedChunk {
    return placeInFile(this.#file, index, index, nbytesOfChunk(index, this.nbytes, this.chunkBytes));
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

/**
 * The chunk sequences of one Bloscpack file, and of a folder of numbered superchunks: `__1__.bin`, `__2__.bin`, …
 *
 * Foreign folders do not say how many chunks a superchunk holds, and it may vary. So headers are read in order, as far
 * as needed, and a bounded number of opened files is kept. @see FORMAT.md [FZ]
 */
import { at, countLeading } from "../../bytes/arrays.ts";
import { SuperchunkError } from "../../errors.ts";
import { parseSuperchunkName, superchunkName } from "../../format/naming.ts";
import { joinKey, statFile } from "../../store/key.ts";
import { runPooled } from "../../store/pool.ts";
import type { ObjectInfo, ReadableStore } from "../../store/types.ts";
import { type BlpkFile, openSuperchunk, readChunkHeader } from "./blpk-file.ts";
import {
  type ChunkSequence,
  contradict,
  inArray,
  nbytesOfChunk,
  openedSuperchunks,
  othersIn,
  type PlacedChunk,
  placeInFile,
} from "./sequence.ts";

/** Superchunks whose first bytes are requested at a time. */
const AHEAD = 16;

/** `isUnsized`: the metadata do not give the chunks' sizes, so `nbytes` and `chunkBytes` only count chunks. */
export function superchunkSequence(
  store: ReadableStore,
  folder: string,
  nbytes: number,
  chunkBytes: number,
  { isUnsized = false }: { readonly isUnsized?: boolean } = {},
): ChunkSequence {
  /** Index of the first chunk of each superchunk whose header has been read, and one more entry for the end. */
  const firsts = [0];
  const opened = openedSuperchunks<BlpkFile>();
  let scan: Promise<unknown> = Promise.resolve();
  const nchunks = chunkBytes === 0 ? 0 : Math.ceil(nbytes / chunkBytes);

  function placeNow(index: number): PlacedChunk | undefined {
    const superchunk = superchunkOf(index);
    const file = superchunk === undefined ? undefined : opened.get(superchunk);
    if (superchunk === undefined || file === undefined) return undefined;
    const inFile = index - at(firsts, superchunk);
    return placeInFile(file, inFile, index, nbytesOfChunk(index, nbytes, chunkBytes));
  }

  async function places(first: number, end: number, signal?: AbortSignal): Promise<readonly PlacedChunk[]> {
    const places: PlacedChunk[] = [];
    for (let index = first; index < end; index++) {
      let place = placeNow(index);
      if (place === undefined) {
        await load(index, signal);
        place = placeNow(index);
      }
      if (place === undefined) throw missing(store, keyOf(firsts.length - 1), index, nchunks);
      places.push(place);
    }
    return places;
  }

  function keyOf(superchunk: number): string {
    return joinKey(folder, superchunkName(superchunk + 1));
  }

  /** Position of the superchunk that holds a chunk, as far as headers have been read. */
  function superchunkOf(index: number): number | undefined {
    if (index < 0 || index >= at(firsts, firsts.length - 1)) return undefined;
    return countLeading(firsts.length, (i) => at(firsts, i) <= index) - 1;
  }

  /** Opens superchunks until it reaches the one with chunk `index`. One scan runs at a time. */
  async function load(index: number, signal: AbortSignal | undefined): Promise<void> {
    const turn = scan.then(async () => {
      const known = superchunkOf(index);
      if (known !== undefined) {
        if (opened.get(known) === undefined) opened.keep(known, await openFile(known, signal));
        return;
      }
      const asked = new Map<number, Promise<ObjectInfo | undefined>>();
      while (superchunkOf(index) === undefined) {
        signal?.throwIfAborted();
        const superchunk = firsts.length - 1;
        askAhead(asked, index, signal);
        const file = await openFile(superchunk, signal, asked.get(superchunk));
        opened.keep(superchunk, file);
        firsts.push(at(firsts, superchunk) + file.starts.length);
      }
    });
    scan = turn.catch(() => undefined);
    await turn;
  }

  /**
   * Over a network, requests the first bytes of the next superchunks concurrently: those that should come up to chunk
   * `index` if they are as long as the last one.
   */
  function askAhead(
    asked: Map<number, Promise<ObjectInfo | undefined>>,
    index: number,
    signal: AbortSignal | undefined,
  ): void {
    const next = firsts.length - 1;
    const read = at(firsts, next);
    const length = read - (firsts[next - 1] ?? read);
    if (store.getHead === undefined || length === 0) return;
    const count = Math.min(AHEAD, Math.floor((index - read) / length) + 1);
    for (let superchunk = next; superchunk < next + count; superchunk++) {
      if (asked.has(superchunk)) continue;
      const info = statFile(store, keyOf(superchunk), { signal });
      info.catch(() => undefined); // reported when its turn comes
      asked.set(superchunk, info);
    }
  }

  async function openFile(
    superchunk: number,
    signal: AbortSignal | undefined,
    asked?: Promise<ObjectInfo | undefined>,
  ): Promise<BlpkFile> {
    const key = keyOf(superchunk);
    const first = at(firsts, superchunk);
    const info = await (asked ?? statFile(store, key, { signal }));
    if (info === undefined) throw missing(store, key, first, nchunks);
    const file = await openSuperchunk(store, key, info.size, nchunks - first, signal).catch((error) => {
      throw inArray(error, (inFile) => first + inFile);
    });
    check(file, first);
    return file;
  }

  /** The header's sizes must match the array's metadata. */
  function check(file: BlpkFile, first: number): void {
    const { header, path, starts } = file;
    const count = starts.length;
    if (count === 0) contradict(path, "nchunks", 16, "at least 1", 0);
    if (first + count > nchunks) contradict(path, "nchunks", 16, `at most ${nchunks - first}`, count);
    if (isUnsized) return;
    const last = nbytesOfChunk(first + count - 1, nbytes, chunkBytes);
    if (header.lastChunk >= 0 && header.lastChunk !== last)
      contradict(path, "last-chunk", 12, last, header.lastChunk);
    // A superchunk of one short chunk may give that chunk's size as its chunk-size.
    const chunkSizeFits = header.chunkSize === chunkBytes || (count === 1 && header.chunkSize === last);
    if (header.chunkSize >= 0 && !chunkSizeFits)
      contradict(path, "chunk-size", 8, chunkBytes, header.chunkSize);
  }
  return {
    hasChecksums: true,
    nchunks,
    chunkBytes,
    nbytes,
    store,
    placeNow,
    places,
    async *keys(signal) {
      if (nchunks > 0) await places(nchunks - 1, nchunks, signal);
      for (let i = 0; i < firsts.length - 1; i++) yield keyOf(i);
    },
    leftovers: (signal) =>
      othersIn(store, folder, (name) => (parseSuperchunkName(name) ?? firsts.length) < firsts.length, signal),
  };
}

function missing(store: ReadableStore, key: string, chunk: number, nchunks: number): SuperchunkError {
  return new SuperchunkError(
    "INCOMPLETE",
    `the file is missing: chunk ${chunk} of ${nchunks} should be in it, as meta/sizes counts. The archive is incomplete; look for a complete copy`,
    { path: store.describe(key), field: "superchunk", expected: "a file", found: "nothing" },
  );
}

/** Makes the sequence; finds the sizes that the header does not give. */
export async function bloscpackSequence(
  store: ReadableStore,
  file: BlpkFile,
  signal?: AbortSignal,
): Promise<ChunkSequence> {
  const nchunks = file.starts.length;
  const starts = await unequalStarts(store, file, signal);
  if (starts !== undefined) return sequenceOf(store, file, starts);
  const { chunkBytes, lastBytes } = await chunkSizes(store, file, nchunks, signal);
  const nbytes = nchunks === 0 ? 0 : (nchunks - 1) * chunkBytes + lastBytes;
  if (!Number.isSafeInteger(nbytes))
    throw new SuperchunkError(
      "BAD_FIELD",
      `nchunks ${nchunks} of chunk-size ${chunkBytes} are more bytes than a file can hold`,
      { path: file.path, offset: 8, field: "chunk-size", found: chunkBytes },
    );
  return sequenceOf(store, file, { nbytes, chunkBytes });
}

/** Headers read at a time, if only they give the chunks' lengths. */
const AT_ONCE = 16;

/**
 * First decoded byte of each chunk, and the end, if the header allows unequal chunks (chunk-size -1) and they are
 * unequal; else undefined. Reads every chunk's header unless a walk has. [FS-02] [FS-04]
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
      sizes[index] = (await readChunkHeader(store, file, index, call)).nbytes;
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
  const readNbytes = async (index: number): Promise<number> =>
    walked?.nbytes[index] ?? (await readChunkHeader(store, file, index, signal)).nbytes;
  const stated = header.version === 1 ? { chunkSize: -1, lastChunk: -1 } : header;
  const lastBytes = stated.lastChunk >= 0 ? stated.lastChunk : await readNbytes(nchunks - 1);
  if (nchunks === 1) return { chunkBytes: lastBytes, lastBytes };
  const chunkBytes = stated.chunkSize > 0 ? stated.chunkSize : await readNbytes(0);
  if (lastBytes > chunkBytes || chunkBytes === 0)
    throw new SuperchunkError(
      "BAD_FIELD",
      `last-chunk at byte 12 is ${lastBytes}, more than chunk-size ${chunkBytes}, in a file of ${nchunks} chunks. The file is damaged; run "superchunk verify"`,
      { path, offset: 12, field: "last-chunk", expected: `at most ${chunkBytes}`, found: lastBytes },
    );
  return { chunkBytes, lastBytes };
}

/** `cut` is the size of equal chunks (the last may be shorter), or where unequal ones start. */
function sequenceOf(
  store: ReadableStore,
  file: BlpkFile,
  cut: { readonly nbytes: number; readonly chunkBytes: number } | Float64Array,
): ChunkSequence {
  const starts = cut instanceof Float64Array ? cut : undefined;
  const nbytes = cut instanceof Float64Array ? (cut.at(-1) ?? 0) : cut.nbytes;
  const chunkBytes = cut instanceof Float64Array ? longestOf(cut) : cut.chunkBytes;
  const lengthOf = (index: number): number =>
    starts === undefined
      ? nbytesOfChunk(index, nbytes, chunkBytes)
      : at(starts, index + 1) - at(starts, index);
  const placeNow = (index: number): PlacedChunk => placeInFile(file, index, index, lengthOf(index));
  return {
    store,
    nbytes,
    chunkBytes,
    starts,
    nchunks: file.starts.length,
    placeNow,
    hasChecksums: file.header.version > 1,
    places: async (first, end) => Array.from({ length: end - first }, (_, i) => placeNow(first + i)),
    async *keys() {
      yield file.key;
    },
    leftovers: async () => [],
  };
}

function longestOf(starts: Float64Array): number {
  return starts.reduce((longest, start, i) => Math.max(longest, start - (starts[i - 1] ?? start)), 0);
}

/**
 * A chunk sequence: one run of decoded bytes, cut into chunks that are stored somewhere. Also the simplest one, a
 * carray's folder: `data/__N.blp` from 0, each with one chunk after a 16-byte header, which is checked here.
 *
 * Every dialect becomes a sequence; reading, verifying and exporting know nothing else of a dialect.
 */
import { at, countLeading, defined, isShape } from "../../bytes/arrays.ts";
import { badArgument, isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { type BlpkHeader, decodeFileHeader } from "../../format/header.ts";
import { carrayChunkName, parseCarrayChunkName } from "../../format/naming.ts";
import type { ChecksumName } from "../../format/types.ts";
import { joinKey, showListed } from "../../store/key.ts";
import type { ReadableStore } from "../../store/types.ts";

/** Location of a chunk. */
export interface ChunkPlace {
  /** Index in the array, from 0. */
  readonly index: number;
  /** Key of the object in the archive's store. */
  readonly key: string;
  /** Byte offset of the Blosc header in the object. */
  readonly offset: number;
  /** Uncompressed bytes according to the archive's metadata. */
  readonly nbytes: number;
  /** Compressed bytes, if known without reading the chunk's header, else undefined. */
  readonly ctbytes: number | undefined;
  /** Upper limit of the bytes that chunk, digest and reserve take in the object; Infinity if the size of the object is not known. */
  readonly available: number;
  /** Header of the object, if it is a `blpk` file or superchunk. */
  readonly header?: BlpkHeader;
}

/** A chunk's place, with what reading it needs besides. */
export interface PlacedChunk extends ChunkPlace {
  readonly checksum: ChecksumName;
  /** Bytes of a file header directly before the chunk, checked together with it (`carray` files); else 0. */
  readonly prologue: number;
  /** Checks that header, if there is one. Code that reads other chunks does not load it. */
  readonly checkPrologue?: ((bytes: Uint8Array, path: string) => void) | undefined;
  /** True if no other chunk follows: `available` ends where the object does (default: not known). */
  readonly endsObject?: boolean;
}

export interface ChunkSequence {
  readonly store: ReadableStore;
  /** Decoded bytes of the whole sequence. */
  readonly nbytes: number;
  /** Decoded bytes of every chunk but the last, which may be shorter; 0 if the sequence is empty. */
  readonly chunkBytes: number;
  readonly nchunks: number;
  /**
   * For chunks of unequal lengths, the first decoded byte of each, and the end; `chunkBytes` is then the longest.
   * Absent if all chunks but the last are equally long.
   */
  readonly starts?: Float64Array | undefined;
  /** Places of the chunks `[first, end)`, in order. Throws if the tables that locate them are damaged or missing. */
  places(first: number, end: number, signal?: AbortSignal): Promise<readonly PlacedChunk[]>;
  /** The place of one chunk, if it is known without reading. */
  placeNow(index: number): PlacedChunk | undefined;
  /** True if the dialect has chunk checksums (a file may still have none). */
  readonly hasChecksums: boolean;
  /** True if each chunk is in an object of its own, after nothing but its prologue, and no digest follows it (default: false). */
  readonly hasObjectForEach?: boolean;
  /** True if the first read of an object must be confirmed by another request (default: false). */
  readonly isConfirmed?: boolean;
  /** Keys of all objects that hold the sequence. */
  keys(signal?: AbortSignal): AsyncIterable<string>;
  /** Describes objects beside the sequence's that do not belong to it (for `verify`). */
  leftovers(signal?: AbortSignal): Promise<readonly string[]>;
}

/**
 * Chunks whose decoded sizes only their own headers give: Python objects, one pickle per chunk. They are checked and
 * listed, never read. `located` gives their places; its decoded sizes are ignored, and `nbytes` are shown. [FD-05]
 */
export function pickleSequence(located: ChunkSequence, nbytes: number): ChunkSequence {
  const { store, chunkBytes, nchunks, hasChecksums } = located;
  return {
    store,
    nbytes,
    chunkBytes,
    nchunks,
    hasChecksums,
    async places(first, end, signal) {
      const found: PlacedChunk[] = [];
      for (const place of await located.places(first, end, signal)) {
        const { key, offset } = place;
        const head = await store.getRange(key, { offset, length: 16 }, { signal });
        // Reading the chunk reports what is missing or cut off.
        const view = head?.length === 16 ? new DataView(head.buffer, head.byteOffset, 16) : undefined;
        found.push(view === undefined ? place : { ...place, nbytes: view.getUint32(4, true) });
      }
      return found;
    },
    placeNow: () => undefined,
    keys: (signal) => located.keys(signal),
    leftovers: (signal) => located.leftovers(signal),
  };
}

/** Decoded bytes of chunk `index` in a run of `nbytes` bytes cut every `chunkBytes`. */
export function nbytesOfChunk(index: number, nbytes: number, chunkBytes: number): number {
  return Math.max(0, Math.min(chunkBytes, nbytes - index * chunkBytes));
}

/** The chunk of a sequence that holds decoded byte `at`, which is below `nbytes`. */
export function chunkAt(
  { starts, chunkBytes }: Pick<ChunkSequence, "starts" | "chunkBytes">,
  at: number,
): number {
  if (starts === undefined) return Math.floor(at / chunkBytes);
  return countLeading(starts.length - 1, (i) => (starts[i] as number) <= at) - 1;
}

/** Where chunk `index` of a sequence starts in its decoded bytes. */
export function startOfChunk(
  { starts, chunkBytes }: Pick<ChunkSequence, "starts" | "chunkBytes">,
  index: number,
): number {
  return starts === undefined ? index * chunkBytes : (starts[index] as number);
}

/** Length of the version 1 file header in front of the chunk. @see FORMAT.md [FA] */
export const PROLOGUE = 16;

/** Checks the 16 bytes before a carray's chunk. @see FORMAT.md [FA] */
export function checkPrologue(bytes: Uint8Array, path: string): void {
  const header = decodeFileHeader(bytes, path);
  if (header.version !== 1 || header.nchunks !== 1)
    throw new SuperchunkError(
      "BAD_FIELD",
      `the file header has version ${header.version} and nchunks ${header.nchunks}, but a carray's chunk file has version 1 and 1 chunk`,
      {
        path,
        offset: 4,
        field: "version, nchunks",
        expected: "1, 1",
        found: `${header.version}, ${header.nchunks}`,
      },
    );
}

/** What the metadata say of the bytes of a carray. */
interface CarrayBytes {
  /** Bytes to show: fewer than `counted` if a table's shorter column cuts this one. */
  readonly nbytes: number;
  /** Bytes that `meta/sizes` counts. */
  readonly counted: number;
  readonly chunkBytes: number;
  readonly rowBytes: number;
}

/** The chunks under the folder `path`. */
export function carraySequence(store: ReadableStore, path: string, bytes: CarrayBytes): ChunkSequence {
  const { nbytes, counted, chunkBytes, rowBytes } = bytes;
  const nchunks = chunkBytes === 0 ? 0 : Math.ceil(nbytes / chunkBytes);
  const folder = joinKey(path, "data");
  /** Decoded bytes of the last counted chunk, once known: the file can hold more rows. [FA-10] */
  let lastBytes = chunkBytes === 0 || counted % chunkBytes === 0 ? chunkBytes : undefined;

  const keyOf = (index: number): string => joinKey(folder, carrayChunkName(index));
  const placeOf = (index: number, length: number): PlacedChunk => ({
    index,
    key: keyOf(index),
    offset: PROLOGUE,
    nbytes: length,
    ctbytes: undefined,
    available: Number.POSITIVE_INFINITY,
    checksum: "None",
    prologue: PROLOGUE,
    checkPrologue,
  });

  function placeNow(index: number): PlacedChunk | undefined {
    const length = (index + 1) * chunkBytes > counted ? lastBytes : chunkBytes;
    return length === undefined ? undefined : placeOf(index, length);
  }

  /**
   * Decoded bytes of the last counted chunk according to its header. It can hold more rows than are counted, if an
   * append or a trim was interrupted between the file and `meta/sizes`, or is under way. [FA-10]
   */
  async function measureLast(index: number, signal: AbortSignal | undefined): Promise<number> {
    const length = counted - index * chunkBytes;
    const head = await store.getRange(keyOf(index), { offset: 0, length: PROLOGUE + 8 }, { signal });
    if (head === undefined || head.length < PROLOGUE + 8) return length; // reading the chunk reports it
    const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
    const found = view.getUint32(PROLOGUE + 4, true);
    lastBytes = found > length && found <= chunkBytes && found % rowBytes === 0 ? found : length;
    return lastBytes;
  }

  return {
    store,
    nbytes,
    chunkBytes,
    nchunks,
    hasChecksums: false,
    hasObjectForEach: true,
    placeNow,
    async places(first, end, signal) {
      const places: PlacedChunk[] = [];
      for (let index = first; index < end; index++)
        places.push(placeNow(index) ?? placeOf(index, await measureLast(index, signal)));
      return places;
    },
    async *keys() {
      for (let i = 0; i < nchunks; i++) yield keyOf(i);
    },
    leftovers: (signal) =>
      othersIn(store, folder, (name) => (parseCarrayChunkName(name) ?? nchunks) < nchunks, signal),
  };
}

/** Describes what a folder has besides the objects that are a sequence's own. */
export async function othersIn(
  store: ReadableStore,
  folder: string,
  isOwn: (name: string) => boolean,
  signal: AbortSignal | undefined,
): Promise<string[]> {
  const others: string[] = [];
  for await (const { name } of store.list(folder, { signal }))
    if (!isOwn(name)) others.push(showListed(folder, name));
  return others.sort();
}

/** What the places of a file's chunks depend on. */
export interface FileOfChunks {
  readonly key: string;
  readonly size: number;
  readonly header: BlpkHeader;
  /** Start of each chunk. */
  readonly starts: Float64Array;
  /** End of the space of each chunk: the next chunk in physical order, or the end of the file. */
  readonly ends: Float64Array;
  readonly walked: { readonly sizes: Float64Array } | undefined;
}

/** Limit of the cached offset tables, in chunks. */
const KEPT_CHUNKS = 1 << 20;

/** Opened superchunks by number: the last ones, within a limit of their chunks. */
interface OpenedSuperchunks<File> {
  get(number: number): File | undefined;
  /** Keeps one that is not kept yet. */
  keep(number: number, file: File): void;
}

export function openedSuperchunks<File extends FileOfChunks>(): OpenedSuperchunks<File> {
  const files = new Map<number, File>();
  let chunks = 0;
  return {
    get: (number) => files.get(number),
    keep(number, file) {
      files.set(number, file);
      chunks += file.starts.length;
      for (const [oldest, other] of files) {
        if (chunks <= KEPT_CHUNKS || oldest === number) break;
        files.delete(oldest);
        chunks -= other.starts.length;
      }
    },
  };
}

/** The place of the `inFile`-th chunk of a file, which is the `index`-th of the sequence. */
export function placeInFile(file: FileOfChunks, inFile: number, index: number, nbytes: number): PlacedChunk {
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

/** The error of a superchunk that does not open. `indexOf`: which chunk of the array a chunk of the file is. */
export function inArray(error: unknown, indexOf: (inFile: number) => number | undefined): unknown {
  if (!isSuperchunkError(error) || error.details.chunk === undefined) return error;
  const { chunk, ...details } = error.details;
  return new SuperchunkError(error.code, error.summary, {
    ...details,
    ...defined({ chunk: indexOf(chunk) }),
  });
}

/** Throws that a field of a superchunk differs from the array's metadata. */
export function contradict(
  path: string,
  field: string,
  offset: number,
  expected: unknown,
  found: unknown,
): never {
  throw new SuperchunkError(
    "BAD_FIELD",
    `${field} at byte ${offset} is ${found}, but meta/sizes and meta/storage make it ${expected}. One of the files is damaged, or belongs to another array`,
    { path, offset, field, expected, found },
  );
}

/** The end of those of the chunks `[first, end)` that are among `count`. Throws `BAD_ARGUMENT` for other numbers. */
export function endOfChunks(first: number, end: number, count: number): number {
  if (isShape([first, end])) return Math.min(end, count);
  throw badArgument("first, end", `${first}, ${end}`, "the numbers of chunks, 0 or more");
}

/** Throws `BAD_ARGUMENT` if bytes `[start, end)` are not within an archive of `nbytes`. */
export function checkByteRange(start: number, end: number, nbytes: number): void {
  const isRange = Number.isSafeInteger(start) && Number.isSafeInteger(end) && start >= 0 && end >= start;
  if (isRange && end <= nbytes) return;
  const [expected, found] = [`0 to ${nbytes}`, `${start} to ${end}`];
  const message = `bytes ${found} are not within the ${nbytes} of the archive`;
  throw new SuperchunkError("BAD_ARGUMENT", message, { field: "start, end", expected, found });
}

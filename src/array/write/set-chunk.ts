/**
 * One chunk of a superchunk or Bloscpack file changed in place: in its slot where it fits, else at the end of the file.
 *
 * A file whose chunks are not back to back any more gets version 4, which says that only the offsets tell where they are:
 * programs that walk refuse it instead of reading what is stale. @see FORMAT.md [F1.4] [FR]
 */
import { digest } from "../../bytes/checksum.ts";
import { encode } from "../../codec/index.ts";
import type { EncodeOptions } from "../../codec/types.ts";
import { SuperchunkError } from "../../errors.ts";
import type { JournalWrite } from "../../format/journal.ts";
import { encodeOffsets, OFFSET_LENGTH } from "../../format/offsets.ts";
import type { StoreOptions, WritableStore } from "../../store/types.ts";
import { readHead } from "../block-read.ts";
import { placeInFile } from "../bloscpack-sequence.ts";
import { type BlpkFile, openBlpkFile, readChunkNbytes } from "../blpk-file.ts";
import { fetchChunks } from "../chunk-fetch.ts";
import { changeInPlace, finishInterrupted, requireInPlace } from "../journal.ts";
import type { PlacedChunk } from "../sequence.ts";

/** How a chunk is set. */
export interface SetChunkOptions extends StoreOptions {
  /** Default: the compressor and the filter that the chunk has, at level 5. */
  readonly cparams?: EncodeOptions | undefined;
}

/** What became of the chunk. */
export interface SetChunkResult {
  /** It fitted into the slot that it had. */
  readonly inSlot: boolean;
  /** Version of the file: 3 where its chunks are back to back, else 4. */
  readonly version: 3 | 4;
}

/**
 * Sets the decoded bytes of one chunk, as many as it has. Durable when resolved; after a crash it is the old chunk or the
 * new one, also for readers that write nothing.
 *
 * @throws NOT_FOUND; BAD_ARGUMENT (no such chunk, another number of bytes); UNSUPPORTED (a store or a file without what it
 * needs: writing in place, an offsets table, version 3 or 4); CONFLICT (another change under way); the codes of damage
 */
export async function setChunk(
  store: WritableStore,
  key: string,
  index: number,
  data: Uint8Array,
  options: SetChunkOptions = {},
): Promise<SetChunkResult> {
  const target = requireInPlace(store, key);
  await finishInterrupted(target, key);
  const file = await openForChange(store, key, options);
  const place = await placeOf(store, file, index, options);
  if (data.length !== place.nbytes) {
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `chunk ${index} holds ${place.nbytes} bytes, but ${data.length} were given; its length cannot change in place`,
      { path: file.path, chunk: index, field: "data", expected: place.nbytes, found: data.length },
    );
  }
  const { header } = await readHead(store, place, options.signal);
  const { compressor, shuffle, typesize } = header;
  const chunk = await encode(data, { cname: compressor, shuffle, typesize, ...options.cparams });
  const sum = await digest(file.header.checksum, chunk);
  const bytes = new Uint8Array(chunk.length + sum.length);
  bytes.set(chunk);
  bytes.set(sum, chunk.length);
  const isSame = bytes.length === header.ctbytes + file.digestLength;
  const inSlot = bytes.length <= place.available;
  const writes: JournalWrite[] = [];
  if (inSlot) {
    // What is left of the slot is reserve, which is zero.
    const slot = new Uint8Array(
      Math.min(place.available, Math.max(bytes.length, header.ctbytes + file.digestLength)),
    );
    slot.set(bytes);
    writes.push({ offset: place.offset, bytes: slot });
  } else {
    await target.writeRange(key, file.size, bytes, options);
    await target.sync([key], options);
    writes.push({ offset: file.tableAt + index * OFFSET_LENGTH, bytes: encodeOffsets([file.size]) });
  }
  const version = file.header.version === 3 && inSlot && isSame ? 3 : 4;
  if (version === 4) writes.push({ offset: 4, bytes: Uint8Array.of(4) });
  await changeInPlace(target, key, writes);
  return { inSlot, version };
}

/** Makes a file walkable, and of version 3, again: a new file takes its place. */
export async function compactFile(
  store: WritableStore,
  key: string,
  options: StoreOptions = {},
): Promise<void> {
  await finishInterrupted(requireInPlace(store, key), key);
  const file = await openForChange(store, key, options);
  const first = file.tableAt;
  const end = first + (file.starts.length + file.header.maxAppChunks) * OFFSET_LENGTH;
  const front = await store.getRange(key, { offset: 0, length: end }, options);
  if (front === undefined || front.length !== end) throw gone(file);
  const places: PlacedChunk[] = [];
  for (let i = 0; i < file.starts.length; i++) places.push(await placeOf(store, file, i, options));
  front[4] = 3;
  let at = end;
  const starts: number[] = [];
  for (const place of places) {
    starts.push(at);
    at += (await readHead(store, place, options.signal)).header.ctbytes + file.digestLength;
  }
  front.set(encodeOffsets(starts), first);
  const info = await store.stat(key, options);
  await store.put(
    key,
    (async function* pieces() {
      yield front;
      for await (const { bytes, digest: sum } of fetchChunks(store, places, {
        verify: true,
        signal: options.signal,
      })) {
        yield bytes.slice();
        if (sum.length > 0) yield sum.slice();
      }
    })(),
    { durable: true, signal: options.signal, ...(info === undefined ? {} : { ifVersion: info.version }) },
  );
}

async function openForChange(store: WritableStore, key: string, options: StoreOptions): Promise<BlpkFile> {
  const info = await store.stat(key, options);
  const path = store.describe(key);
  if (info === undefined) throw new SuperchunkError("NOT_FOUND", "there is no such file", { path });
  const file = await openBlpkFile(store, key, info.size, Number.POSITIVE_INFINITY, options.signal);
  if (file.header.version >= 3 && file.header.offsets && file.metadata?.kind !== "blz-json") return file;
  throw new SuperchunkError(
    "UNSUPPORTED",
    `chunks change in place in files of version 3 or 4 with an offsets table and without raw JSON metadata; this one has version ${file.header.version}${file.header.offsets ? "" : " and no offsets"}. Rewrite it`,
    { path, offset: 4, field: "version, options" },
  );
}

async function placeOf(
  store: WritableStore,
  file: BlpkFile,
  index: number,
  options: StoreOptions,
): Promise<PlacedChunk> {
  if (!(Number.isInteger(index) && index >= 0 && index < file.starts.length)) {
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `there is no chunk ${index}: the file has ${file.starts.length}`,
      {
        path: file.path,
        field: "index",
        expected: `0 to ${file.starts.length - 1}`,
        found: index,
      },
    );
  }
  return placeInFile(file, index, index, await readChunkNbytes(store, file, index, options.signal));
}

function gone({ path }: BlpkFile): SuperchunkError {
  return new SuperchunkError("STALE", "the file changed while it was rewritten; try again", { path });
}

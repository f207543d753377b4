/**
 * Changes one chunk of a superchunk or Bloscpack file in place: in its slot if it fits, else at the end of the file.
 *
 * A file whose chunks are no longer contiguous gets version 4, which says that only the offsets locate them: programs that walk
 * the file refuse it instead of reading stale data. @see FORMAT.md [F1.4] [FR]
 */

import {
  changeInPlace,
  finishInterrupted,
  requireInPlace,
  requireOneName,
} from "../../archive/places/journal.ts";
import type { PlacedChunk } from "../../archive/places/sequence.ts";
import { readHead } from "../../archive/read/block-read.ts";
import { fetchChunks } from "../../archive/read/chunk-fetch.ts";
import { joinBytes } from "../../bytes/arrays.ts";
import { digest } from "../../bytes/checksum.ts";
import { encode } from "../../codec/index.ts";
import type { EncodeOptions } from "../../codec/types.ts";
import { SuperchunkError } from "../../errors.ts";
import { encodeOffsets } from "../../format/encode-file.ts";
import { OFFSET_LENGTH } from "../../format/header.ts";
import type { StoreOptions, WritableStore } from "../../store/types.ts";
import { InPlaceFile } from "./in-place-changes.ts";

/** How a chunk is set. */
export interface SetChunkOptions extends StoreOptions {
  /** Default: the chunk's compressor and filter, at level 5. */
  readonly cparams?: EncodeOptions | undefined;
}

export interface SetChunkResult {
  /** True if it fitted into its old slot. */
  readonly inSlot: boolean;
  /** Version of the file: 3 if its chunks are contiguous, else 4. */
  readonly version: 3 | 4;
}

/**
 * Sets the decoded bytes of one chunk, whose number must not change. Durable when resolved; after a crash it is the old or the
 * new chunk, even for readers that write nothing.
 * @throws NOT_FOUND; BAD_ARGUMENT (no such chunk, another number of bytes); UNSUPPORTED (a store or a file without what it
 * needs: writing in place, an offset table, version 3 or 4); CONFLICT (another change under way, or the file has other names);
 * the codes of damage
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
  const { signal } = options;
  const file = await InPlaceFile.open(store, key, options);
  const { path, header } = file.file;
  const place = await file.place(store, index, { signal });
  if (data.length !== place.nbytes)
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `chunk ${index} holds ${place.nbytes} bytes, but ${data.length} were given; its length cannot change in place`,
      { path, chunk: index, field: "data", expected: place.nbytes, found: data.length },
    );
  await requireOneName(store, key);
  const { compressor, shuffle, typesize } = (await readHead(store, place, signal)).header;
  const chunk = await encode(data, { cname: compressor, shuffle, typesize, ...options.cparams });
  const sum = await digest(header.checksum, chunk);
  const bytes = joinBytes([chunk, sum]);
  const { inSlot, atEnd, over } = await file.plan(store, index, place, bytes, { signal });
  for (const { offset, bytes: added } of atEnd) await target.writeRange(key, offset, added, options);
  if (atEnd.length > 0) await target.sync([key], options);
  await changeInPlace(target, key, [...over, ...file.versionWrites()]);
  return { inSlot, version: file.version };
}

/** Makes a file walkable and version 3 again, by replacing it. */
export async function compactFile(
  store: WritableStore,
  key: string,
  options: StoreOptions = {},
): Promise<void> {
  await finishInterrupted(requireInPlace(store, key), key);
  const opened = await InPlaceFile.open(store, key, options);
  const { file } = opened;
  const first = file.tableAt;
  const end = first + (file.starts.length + file.header.maxAppChunks) * OFFSET_LENGTH;
  const front = await store.getRange(key, { offset: 0, length: end }, options);
  if (front === undefined || front.length !== end)
    throw new SuperchunkError("STALE", "the file changed while it was rewritten; try again", {
      path: file.path,
    });
  const places: PlacedChunk[] = [];
  for (let i = 0; i < file.starts.length; i++)
    places.push(await opened.place(store, i, { signal: options.signal }));
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

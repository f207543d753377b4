/**
 * An append in place: what lies behind the end of the file is written first, where no reader looks; then the journal
 * takes the rest, and is the commit. Foreign readers refuse the file meanwhile. @see FORMAT.md [FR]
 */

import { changeInPlace, type InPlaceStore, requireOneName } from "../../archive/places/journal.ts";
import { encodeHeader } from "../../format/header.ts";
import type { JournalWrite } from "../../format/journal.ts";
import { encodeOffsets, OFFSET_LENGTH } from "../../format/offsets.ts";
import type { PutSource } from "../../store/types.ts";
import { type AppendPlan, type BloscpackAppendResult, newChunks } from "./bloscpack-append-plan.ts";
import { bloscpackHeader } from "./bloscpack-options.ts";

/**
 * Appends; `checkRoom` throws where so many chunks have no offsets. Throws `CONFLICT` where the file has other names, before
 * anything is written: bytes behind the end are bytes behind the index of a linked file's shard.
 */
export async function appendInPlace(
  { state, ...plan }: AppendPlan,
  source: PutSource,
  store: InPlaceStore,
  checkRoom: (nchunks: number) => void,
): Promise<BloscpackAppendResult> {
  const { file, key, header } = state;
  await requireOneName(store, key);
  const first = Math.max(0, state.nchunks - 1);
  const writes: JournalWrite[] = [];
  const starts: number[] = [];
  let at = file.starts[first] ?? 0;
  let lastNbytes = 0;
  let nbytes = state.nbytes - state.last.length;
  const put = async (bytes: Uint8Array): Promise<void> => {
    const inside = Math.max(0, Math.min(bytes.length, file.size - at));
    if (inside > 0) writes.push({ offset: at, bytes: bytes.slice(0, inside) });
    if (inside < bytes.length) await store.writeRange(key, at + inside, bytes.subarray(inside));
    at += bytes.length;
  };
  for await (const chunk of newChunks({ state, ...plan }, source)) {
    starts.push(at);
    checkRoom(first + starts.length);
    await put(chunk.bytes);
    await put(chunk.digest);
    lastNbytes = chunk.nbytes;
    nbytes += chunk.nbytes;
  }
  const nchunks = first + starts.length;
  const result = {
    nchunks,
    nbytes,
    bytesAppended: nbytes - state.nbytes,
    chunksAdded: nchunks - state.nchunks,
    chunksCopied: 0,
    bytesCopied: 0,
  };
  if (result.bytesAppended === 0) return result;
  const { offsets, metadata, checksum, typesize } = header;
  const cut = { nchunks, chunkSize: plan.chunkSize, lastChunk: lastNbytes };
  const maxAppChunks = state.entries - nchunks;
  writes.push({ offset: state.tableAt + first * OFFSET_LENGTH, bytes: encodeOffsets(starts) });
  writes.push({
    offset: 0,
    bytes: encodeHeader(bloscpackHeader(cut, { offsets, metadata, checksum, typesize, maxAppChunks })),
  });
  // What lies behind the old end is durable before the journal says that it counts.
  await store.sync([key]);
  await changeInPlace(store, key, writes);
  return result;
}

/** What a thread does with a whole shard. Must not know messages. */
import { parseJson } from "../format/json.ts";
import { joinKey } from "../store/key.ts";
import { DOCUMENT, parseDocument } from "../zarr/metadata-v3.ts";
import { WritableZarrArray } from "../zarr/write/writable-array.ts";
import { FileStore } from "./fs-store.ts";
import { useNativeDigests } from "./native-digest.ts";
import type { ShardJob } from "./thread-messages.ts";
import { encoderOf } from "./threads.ts";

/** Encodes a shard, and puts it where it belongs. Throws what `set` throws; what it throws after an abort says nothing. */
export async function writeShard(job: ShardJob, signal: AbortSignal): Promise<void> {
  useNativeDigests();
  const store = new FileStore(job.root, { directWrites: job.directWrites, mark: job.mark });
  try {
    const name = store.describe(joinKey(job.path, DOCUMENT));
    const model = parseDocument(parseJson(job.document, name), job.path, name);
    if ("consolidated" in model) throw new RangeError("a group has no shards");
    const { chunkOrder, writeEmptyChunks, start, counts, blosc } = job;
    const encoder = encoderOf({ threads: 0, blosc });
    const array = new WritableZarrArray(store, model, { chunkOrder, writeEmptyChunks, encoder });
    const selection = start.map((at, d) => ({ start: at, stop: at + (counts[d] ?? 0), step: 1 }));
    await array.setBytes(selection, new Uint8Array(job.items, job.offset, job.length), { signal });
  } finally {
    await store.close();
  }
}

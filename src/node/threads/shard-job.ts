/**
 * A thread's work on whole shards: encodes one after the other; while one waits for the disk, the next is encoded. Must not
 * know messages.
 */
import { at } from "../../bytes/arrays.ts";
import { parseJson } from "../../format/json.ts";
import { joinKey } from "../../store/key.ts";
import { offerRooms, readPieces, withRooms } from "../../store/source.ts";
import type { ObjectInfo, PutOptions, PutSource } from "../../store/types.ts";
import { DOCUMENT } from "../../zarr/document/make-v3.ts";
import { parseDocument } from "../../zarr/document/metadata-v3.ts";
import { WritableZarrArray } from "../../zarr/write/writable-array.ts";
import { FileStore } from "../fs/fs-store.ts";
import type { ShardJob } from "./thread-messages.ts";
import { encoderOf } from "./threads.ts";

/** Resolves once all earlier shards are encoded. */
let turn: Promise<void> = Promise.resolve();

/** Encodes a shard and writes it to its place. Throws what `set` throws; after an abort, the error means nothing. */
export async function writeShard(job: ShardJob, signal: AbortSignal): Promise<void> {
  const before = turn;
  let isEncoded = (): void => undefined;
  turn = new Promise((resolve) => {
    isEncoded = resolve;
  });
  // If two shards were encoded at a time, both would be done at the same time, and the thread would be idle until it gets more items.
  await before;
  const store = new TellingStore(job, isEncoded);
  try {
    const name = store.describe(joinKey(job.path, DOCUMENT));
    const model = parseDocument(parseJson(job.document, name), job.path, name);
    if ("consolidated" in model) throw new RangeError("a group has no shards");
    const { chunkOrder, writeEmptyChunks, start, counts, blosc } = job;
    const encoder = encoderOf({ threads: 0, blosc });
    const array = new WritableZarrArray(store, model, { chunkOrder, writeEmptyChunks, encoder });
    const selection = start.map((from, d) => ({ start: from, stop: from + at(counts, d), step: 1 }));
    await array.setBytes(selection, new Uint8Array(job.items, job.offset, job.length), { signal });
  } finally {
    isEncoded();
    await store.close();
  }
}

/** A folder store that reports when the last piece of an object was taken. The rest is up to the disk. */
class TellingStore extends FileStore {
  readonly #isTaken: () => void;

  constructor({ root, directWrites, mark }: ShardJob, isTaken: () => void) {
    super(root, { directWrites, mark });
    this.#isTaken = isTaken;
  }

  override put(key: string, source: PutSource, options?: PutOptions): Promise<ObjectInfo> {
    const pieces = endingWith(readPieces(source), this.#isTaken);
    return super.put(
      key,
      withRooms(pieces, (rooms) => offerRooms(source, rooms)),
      options,
    );
  }
}

async function* endingWith<T>(pieces: AsyncIterable<T>, done: () => void): AsyncGenerator<T> {
  yield* pieces;
  done();
}

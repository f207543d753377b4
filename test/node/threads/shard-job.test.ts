/** Shards of one thread are encoded in turn. */
import { rm } from "node:fs/promises";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { stringifyJson } from "../../../src/format/json.ts";
import { FileStore } from "../../../src/node/index.ts";
import { writeShard } from "../../../src/node/threads/shard-job.ts";
import type { ShardJob } from "../../../src/node/threads/thread-messages.ts";
import { readPieces } from "../../../src/store/source.ts";
import { createZarr } from "../../../src/zarr/write/create.ts";
import type { WritableZarrArray } from "../../../src/zarr/write/writable-array.ts";
import { temporaryFolder } from "../../folder.ts";

const CHUNK = 2 ** 15;
const SHARD = 16 * CHUNK;
const SPEC = { dataType: "float64", shape: [3 * SHARD], chunkShape: [CHUNK], shardShape: [SHARD] };

let folder: string;
let array: WritableZarrArray;

beforeAll(async () => {
  folder = temporaryFolder();
  array = await createZarr(new FileStore(folder), "a", SPEC);
});

afterAll(() => rm(folder, { recursive: true }));

/** The job of writing a shard full of different numbers. */
function jobOf(shard: number): ShardJob {
  const memory = new SharedArrayBuffer(8 * SHARD);
  new Float64Array(memory).set(Array.from({ length: SHARD }, (_, i) => shard + i / SHARD));
  return {
    ...{ kind: "shard", blosc: "wasm", root: folder, directWrites: true, mark: `000000000000000${shard}` },
    ...{ path: "a", document: stringifyJson(array.model.document), start: [shard * SHARD], counts: [SHARD] },
    ...{ items: memory, offset: 0, length: 8 * SHARD, chunkOrder: "row-major", writeEmptyChunks: false },
  };
}

/** Records for each piece which object it belongs to. */
function watchPieces(seen: string[]): () => void {
  const { put } = FileStore.prototype;
  const spy = vi.spyOn(FileStore.prototype, "put").mockImplementation(function (
    this: FileStore,
    key,
    source,
    options,
  ) {
    async function* watched(): AsyncGenerator<Uint8Array> {
      for await (const piece of readPieces(source)) {
        seen.push(key);
        yield piece;
      }
    }
    return put.call(this, key, watched(), options);
  });
  return () => spy.mockRestore();
}

it("the second shard begins only when the first is encoded", async () => {
  const seen: string[] = [];
  const restore = watchPieces(seen);
  const never = new AbortController().signal;
  try {
    await Promise.all([0, 1, 2].map((shard) => writeShard(jobOf(shard), never)));
  } finally {
    restore();
  }
  const inTurn = [0, 1, 2].flatMap((shard) => new Array<string>(17).fill(`a/c/${shard}`));
  expect(seen).toEqual(inTurn);
  expect(await array.get([2 * SHARD + 5])).toBe(2 + 5 / SHARD);
});

it("a shard that fails, or is cancelled, does not block the next one", async () => {
  const never = new AbortController().signal;
  const outcomes = await Promise.allSettled([
    writeShard({ ...jobOf(0), document: "{" }, never),
    writeShard(jobOf(1), AbortSignal.abort()),
    writeShard(jobOf(2), never),
  ]);
  expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "rejected", "fulfilled"]);
});

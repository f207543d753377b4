/** Worker threads give what the calling thread gives: bytes, reports, errors and aborts. */
import { createHash } from "node:crypto";
import { cp, readFile, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Archive, ArrayArchive, ChunkedArchive } from "../../../src/archive/kinds/types.ts";
import { open } from "../../../src/archive/open/open.ts";
import { type ChunkDecoder, callingThread } from "../../../src/archive/read/chunk-fetch.ts";
import { isSuperchunkError, type SuperchunkError } from "../../../src/errors.ts";
import { FileStore } from "../../../src/node/fs/fs-store.ts";
import { locate } from "../../../src/node/locate.ts";
import { threadDecoder } from "../../../src/node/threads/thread-decoder.ts";
import { WorkerPool } from "../../../src/node/threads/worker-pool.ts";
import { loadFolder } from "../../archive/memory-archive.ts";
import { loadArchives } from "../../fixtures/manifest.ts";
import { temporaryFolder } from "../../folder.ts";
import { sample, sweep } from "../../scope.ts";
import { chunkPath, LARGER, rampOf, SHAPE, writeRamp } from "./archives.ts";
import { type Bundles, bundle } from "./bundle.ts";
import { EAGER } from "./tuning.ts";

let bundles: Bundles;
let pool: WorkerPool;
let threads: ChunkDecoder;
let folder: string;
let small: string;
let larger: string;

beforeAll(async () => {
  bundles = await bundle();
  pool = new WorkerPool(2, bundles.worker);
  threads = threadDecoder(pool, "wasm", callingThread, EAGER);
  folder = temporaryFolder();
  small = await writeRamp(join(folder, "small"), SHAPE);
  larger = await writeRamp(join(folder, "larger"), LARGER);
});

afterAll(async () => {
  await pool.end();
  await bundles.remove();
});

async function openRamp(path: string, decoder: ChunkDecoder = threads): Promise<ArrayArchive> {
  const archive = await open(new FileStore(path), "", { decoder });
  if (archive.kind !== "array") throw new Error("not an array");
  return archive;
}

/** The same archive in memory, decoded by the threads. */
async function openCopy(path: string): Promise<Archive> {
  const copy = await loadFolder(path);
  return open(copy.store, copy.path, { decoder: threads });
}

/** A copy of the ramp with a change. */
async function copyRamp(
  ramp: string,
  name: string,
  change: (path: string) => Promise<void>,
): Promise<string> {
  const path = join(folder, `${basename(ramp)} ${name}`);
  await cp(ramp, path, { recursive: true });
  await change(path);
  return path;
}

/** The bytes before the error, and the error. */
async function readUntilError(archive: ChunkedArchive): Promise<{ bytes: number; error: SuperchunkError }> {
  let bytes = 0;
  try {
    for await (const piece of archive.streamBytes()) bytes += piece.length;
  } catch (error) {
    if (isSuperchunkError(error)) return { bytes, error };
    throw error;
  }
  throw new Error("nothing was thrown");
}

/** The chunked parts of an archive: itself, or its columns. */
function partsOf(archive: Archive): readonly ChunkedArchive[] {
  if (archive.kind === "table") return archive.names.map((name) => archive.column(name));
  if (archive.kind === "array" && archive.columnNames.length > 0)
    return archive.columnNames.map((name) => archive.column(name));
  return [archive];
}

/** Hashes of the parts' bytes; for a refused part, the code. */
async function hashesOf(archive: Archive): Promise<readonly string[]> {
  const hashes: string[] = [];
  for (const part of partsOf(archive)) {
    const hash = createHash("sha256");
    try {
      for await (const piece of part.streamBytes()) hash.update(piece);
      hashes.push(hash.digest("hex"));
    } catch (error) {
      if (!isSuperchunkError(error)) throw error;
      hashes.push(error.code);
    }
  }
  return hashes;
}

describe.each(sample(loadArchives(), 5))("$path", ({ file }) => {
  it("has the same bytes and the same report when threads read it", async () => {
    const { store, path } = await locate(file);
    const alone = await open(store, path);
    const archive = await open(store, path, { decoder: threads });
    expect(await hashesOf(archive)).toEqual(await hashesOf(alone));
    expect(await archive.verify()).toEqual(await alone.verify());
  });

  it("has the same bytes and the same report when fetched from a memory store and decoded by threads", async () => {
    const { store, path } = await loadFolder(file);
    const alone = await open(store, path);
    const archive = await open(store, path, { decoder: threads });
    expect(await hashesOf(archive)).toEqual(await hashesOf(alone));
    expect(await archive.verify()).toEqual(await alone.verify());
  });
});

describe.each([SHAPE, LARGER])("a carray of $nchunks chunks of $chunkItems items", (shape) => {
  const { chunkItems, nchunks } = shape;
  let ramp = "";
  beforeAll(() => {
    ramp = shape === SHAPE ? small : larger;
  });
  const items = chunkItems * nchunks;

  it("comes in order, whole, as one selection", async () => {
    const { data } = (await (await openRamp(ramp)).get([{ start: 5, stop: items - 7, step: 1 }])) as {
      data: BigInt64Array;
    };
    expect(data.length).toBe(items - 12);
    expect(data).toEqual(rampOf(5, items - 12));
  });

  it("comes in order with a step that skips into every chunk", async () => {
    const { data } = (await (await openRamp(ramp)).get([{ start: 3, stop: null, step: 2 }])) as {
      data: BigInt64Array;
    };
    expect(data.length).toBe(Math.ceil((items - 3) / 2));
    expect(data).toEqual(rampOf(3, data.length, 2));
  });

  it("has slices that do not change when later ones arrive, if they are to be kept", async () => {
    const slices: BigInt64Array[] = [];
    for await (const { data } of (await openRamp(ramp)).chunks({ keep: true }))
      slices.push(data as BigInt64Array);
    expect(slices.map((data) => data[0])).toEqual(
      Array.from({ length: nchunks }, (_, chunk) => BigInt(chunk * chunkItems)),
    );
  });

  it("never shows another slice's values in a slice that is kept by default", async () => {
    const slices: BigInt64Array[] = [];
    for await (const { data } of (await openRamp(ramp)).chunks()) slices.push(data as BigInt64Array);
    const kept = slices.filter((data, chunk) => data.length > 0 && data[0] !== BigInt(chunk * chunkItems));
    expect(kept).toEqual([]);
  });

  it("can be read by many concurrently, in lockstep, with one pool", async () => {
    const archive = await openRamp(ramp);
    const readers = Array.from({ length: sweep(16, 6) }, () => archive.streamBytes()[Symbol.asyncIterator]());
    let rounds = 0;
    for (;;) {
      const pieces = [];
      for (const reader of readers) pieces.push(await reader.next());
      if (pieces.every(({ done }) => done)) break;
      expect(
        new Set(pieces.map(({ value }) => new DataView(value.buffer, value.byteOffset).getBigInt64(0, true))),
      ).toEqual(new Set([BigInt(rounds * chunkItems)]));
      rounds++;
    }
    expect(rounds).toBe(nchunks);
  });

  it("reports progress that ends at the total", async () => {
    const seen: number[] = [];
    await (await openRamp(ramp)).readBytes(0, items * 8, { onProgress: ({ done }) => seen.push(done) });
    expect(seen.at(-1)).toBe(items * 8);
    expect(seen).toEqual([...seen].sort((a, b) => a - b));
  });
});

describe.each([SHAPE, LARGER])("damage in $nchunks chunks of $chunkItems items", (shape) => {
  let ramp = "";
  beforeAll(() => {
    ramp = shape === SHAPE ? small : larger;
  });
  const change = [
    ["a chunk that does not decode", (bytes: Buffer) => bytes.fill(0xff, 60)],
    ["a header that promises something else", (bytes: Buffer) => bytes.fill(0x30, 16 + 4, 16 + 6)],
    ["a file that is cut short", (bytes: Buffer) => bytes.subarray(0, 40)],
  ] as const;

  it.each(change)(
    "%s is the same error at the same place, after the chunks before it",
    async (name, damage) => {
      const path = await copyRamp(ramp, name, async (copy) => {
        const bytes = await readFile(chunkPath(copy, 150));
        await writeFile(chunkPath(copy, 150), damage(bytes));
      });
      const expected = await readUntilError(await openRamp(path, callingThread));
      const found = await readUntilError(await openRamp(path));
      const fetched = await readUntilError((await openCopy(path)) as ChunkedArchive);
      expect(found.bytes).toBe(150 * shape.chunkItems * 8);
      expect(expected.bytes).toBe(found.bytes);
      expect(fetched.bytes).toBe(found.bytes);
      const { cause: _, ...details } = expected.error.details;
      expect(found.error).toMatchObject({
        code: expected.error.code,
        message: expected.error.message,
        details,
      });
      const { path: __, ...where } = details;
      expect(fetched.error).toMatchObject({ code: expected.error.code, details: where });
    },
  );

  it("a missing file is INCOMPLETE, with its path and its chunk", async () => {
    const path = await copyRamp(ramp, "missing", (copy) => rm(chunkPath(copy, 7)));
    const { bytes, error } = await readUntilError(await openRamp(path));
    expect(bytes).toBe(7 * shape.chunkItems * 8);
    expect(error).toMatchObject({ code: "INCOMPLETE", details: { path: chunkPath(path, 7), chunk: 7 } });
  });

  it("every damaged chunk is a finding of verify, and the others are counted", async () => {
    const wrong = [0, 13, 14, 150, shape.nchunks - 1];
    const path = await copyRamp(ramp, "several", async (copy) => {
      for (const chunk of wrong) await writeFile(chunkPath(copy, chunk), "blpk?");
    });
    const report = await (await openRamp(path)).verify();
    expect(report.findings.map((finding) => finding.path)).toEqual(
      wrong.map((chunk) => chunkPath(path, chunk)),
    );
    expect(report).toEqual(await (await openRamp(path, callingThread)).verify());
    expect(report.chunks).toBe(shape.nchunks - wrong.length);
  });
});

describe("how a read ends", () => {
  it("an abort in the middle throws its reason, and the threads go on to serve others", async () => {
    const controller = new AbortController();
    const archive = await openRamp(small);
    const reason = new Error("enough");
    let pieces = 0;
    const reading = (async () => {
      for await (const _ of archive.streamBytes({ signal: controller.signal })) {
        if (++pieces === 20) controller.abort(reason);
      }
    })();
    await expect(reading).rejects.toBe(reason);
    expect(pieces).toBe(20);
    expect((await archive.verify()).chunks).toBe(SHAPE.nchunks);
  });

  it("a reader that stops in the middle leaves nothing behind that hinders the next", async () => {
    const archive = await openRamp(small);
    for (let i = 0; i < 30; i++) for await (const _ of archive.streamBytes()) break;
    expect((await archive.verify()).ok).toBe(true);
  });

  it("a thread that dies is an IO error, not a hang; the next call starts another", async () => {
    const own = new WorkerPool(2, bundles.worker);
    const archive = await openRamp(small, threadDecoder(own, "wasm", callingThread, EAGER));
    const reading = (async () => {
      let pieces = 0;
      for await (const _ of archive.streamBytes()) if (++pieces === 5) await own.end();
    })();
    await expect(reading).rejects.toMatchObject({ code: "IO" });
    expect((await archive.verify()).chunks).toBe(SHAPE.nchunks);
    await own.end();
  });

  it("if the worker's file is missing, the calling thread does all the work, with one warning", async () => {
    const warnings: string[] = [];
    const note = (warning: Error): unknown => warnings.push(warning.message);
    process.on("warning", note);
    const none = new WorkerPool(2, new URL("missing.js", bundles.worker));
    const archive = await openRamp(small, threadDecoder(none, "wasm", callingThread, EAGER));
    expect((await archive.verify()).chunks).toBe(SHAPE.nchunks);
    expect((await archive.verify()).chunks).toBe(SHAPE.nchunks);
    // Node delivers a warning in the next turn of the loop, and a small archive is read within one.
    await setImmediate();
    process.off("warning", note);
    expect(warnings.filter((text) => text.includes("worker threads do not start"))).toHaveLength(1);
  });

  it("the same if the worker's file fails to load", async () => {
    const file = join(bundles.folder, "broken.js");
    await writeFile(file, "throw new Error('broken');");
    const broken = new WorkerPool(2, pathToFileURL(file));
    const archive = await openRamp(small, threadDecoder(broken, "wasm", callingThread, EAGER));
    expect((await archive.verify()).chunks).toBe(SHAPE.nchunks);
    expect(broken.isRunning).toBe(false);
  });
});

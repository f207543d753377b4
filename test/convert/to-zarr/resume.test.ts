import { mkdir, readdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Archive } from "../../../src/archive/kinds/types.ts";
import { open } from "../../../src/archive/open/open.ts";
import { refuseOverlapping } from "../../../src/convert/run/destination.ts";
import { isSuperchunkError } from "../../../src/errors.ts";
import { FileStore } from "../../../src/node/fs/fs-store.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import { type ConvertOptions, convert } from "../../../src/zarr.ts";
import { temporaryFolder } from "../../folder.ts";
import { withCounting } from "../../store/counting.ts";
import { withFaults } from "../../store/faulty.ts";
import { putCarray } from "./make-archive.ts";
import { planOne } from "./plan-one.ts";
import { documentAt, keysOf, openFixture, readWithZarrita } from "./read-back.ts";

const values = new Uint8Array(Float64Array.from({ length: 1000 }, (_, i) => i / 7).buffer);
const RECORD = "out/.superchunk-convert.json";

async function makeSource(bytes = values): Promise<{ store: MemoryStore; archive: Archive }> {
  const store = new MemoryStore();
  await putCarray(store, "a", bytes, 100, {
    dtype: "float64",
    shape: [bytes.length / 8],
    attrs: { name: "prices" },
  });
  return { store, archive: await open(store, "a") };
}

/** Converts until the n-th write, where the process dies. */
async function dieAt(
  archive: Archive,
  target: MemoryStore,
  failAt: number,
  options: ConvertOptions = {},
): Promise<boolean> {
  const faulty = withFaults(target, {
    failAt,
    kind: failAt % 2 === 0 ? "crash" : "crash-after",
    counts: "writes",
  });
  try {
    await convert(archive, { store: faulty.store, path: "out" }, { chunksPerShard: 3, ...options });
  } catch (error) {
    if (!faulty.failed()) throw error;
    return true;
  }
  return faulty.failed();
}

describe("a conversion that dies", () => {
  it("at any write never looks complete unless it is, and resuming completes it", async () => {
    const { archive } = await makeSource();
    let deaths = 0;
    for (let failAt = 1; ; failAt++) {
      const target = new MemoryStore();
      const died = await dieAt(archive, target, failAt);
      if (!died) break;
      deaths++;
      if ((await target.get("out/zarr.json")) !== undefined) {
        expect(await readWithZarrita(target, "out")).toEqual(values);
      }
      const started = (await target.get(RECORD)) !== undefined;
      const finished = !started && (await target.get("out/zarr.json")) !== undefined;
      if (!finished)
        await convert(
          archive,
          { store: target, path: "out" },
          { chunksPerShard: 3, resume: true, verify: true },
        );
      expect(await readWithZarrita(target, "out")).toEqual(values);
      expect(await target.get(RECORD)).toBeUndefined();
    }
    // The record, four shards, the document, the record's end, and the search for what killed writes of it left.
    expect(deaths).toBe(8);
  });

  it("is completed without writing the finished shards again", async () => {
    const { archive } = await makeSource();
    const target = new MemoryStore();
    // At the document, after the record and four shards.
    await dieAt(archive, target, 6);
    await target.delete("out/c/1");
    const result = await convert(
      archive,
      { store: target, path: "out" },
      { chunksPerShard: 3, resume: true },
    );
    expect(result).toMatchObject({ shards: 4, shardsKept: 3, chunksCopied: 3 });
  });

  it.each([
    ["zarr", "resume"],
    ["zarr", "overwrite"],
    ["npy", "resume"],
    ["npy", "overwrite"],
  ] as const)("leaves hidden files in %s, which %s removes, and none of others", async (to, next) => {
    const { archive } = await makeSource();
    const folder = temporaryFolder();
    const store = new FileStore(folder);
    const broken = new AbortController();
    const options = { to, chunksPerShard: 3 };
    const dying = convert(
      archive,
      { store, path: "out" },
      { ...options, signal: broken.signal, onProgress: () => broken.abort() },
    );
    await expect(dying).rejects.toThrow();
    const mark = "0123456789abcdef.tmp";
    const left =
      to === "zarr"
        ? ["out/c/.0", "out/.zarr.json", "out/..superchunk-convert.json"]
        : [".out", "..out.superchunk-unverified", "..out.superchunk-convert.json"];
    for (const name of [...left, ".other", ".out2"]) {
      await mkdir(dirname(join(folder, name)), { recursive: true });
      await writeFile(join(folder, `${name}.${mark}`), "half");
    }
    await convert(archive, { store, path: "out" }, { ...options, [next]: true });
    const names = await readdir(folder, { recursive: true });
    expect(names.filter((name) => name.endsWith(".tmp")).sort()).toEqual([`.other.${mark}`, `.out2.${mark}`]);
  });

  it("never shows the group of a table before its columns, and keeps finished columns", async () => {
    const archive = await openFixture("ctable/bcolz-mixed");
    const whole = new MemoryStore();
    await convert(archive, { store: whole, path: "out" });
    const wanted = await keysOf(whole);
    for (let failAt = 1; ; failAt++) {
      const target = new MemoryStore();
      if (!(await dieAt(archive, target, failAt, { chunksPerShard: 100 }))) break;
      if ((await target.get("out/zarr.json")) !== undefined) {
        expect((await keysOf(target)).filter((key) => key !== RECORD)).toEqual(wanted);
      }
      if ((await target.get(RECORD)) === undefined && failAt > 1) continue;
      await convert(
        archive,
        { store: target, path: "out" },
        { chunksPerShard: 100, resume: true, verify: true },
      );
      expect(await keysOf(target)).toEqual(wanted);
    }
  });
});

describe("resuming", () => {
  it("is refused for another source, other options, and files that no conversion left", async () => {
    const { store, archive } = await makeSource();
    const target = new MemoryStore();
    await dieAt(archive, target, 4);
    await expect(
      convert(archive, { store: target, path: "out" }, { chunksPerShard: 2, resume: true }),
    ).rejects.toMatchObject({
      code: "CONFLICT",
      message: expect.stringContaining("other options"),
    });
    await putCarray(store, "a", values.subarray(0, 7200), 100, { dtype: "float64", shape: [900] });
    await expect(
      convert(await open(store, "a"), { store: target, path: "out" }, { chunksPerShard: 3, resume: true }),
    ).rejects.toMatchObject({
      code: "CONFLICT",
      message: expect.stringContaining("source has changed"),
    });
    const foreign = new MemoryStore([["out/notes.txt", Uint8Array.of(1)]]);
    await expect(convert(archive, { store: foreign, path: "out" }, { resume: true })).rejects.toMatchObject({
      code: "CONFLICT",
    });
  });

  it("starts from the beginning if there is nothing to resume", async () => {
    const { archive } = await makeSource();
    const target = new MemoryStore();
    expect(await convert(archive, { store: target, path: "out" }, { resume: true })).toMatchObject({
      shardsKept: 0,
      chunksCopied: 10,
    });
  });
});

describe("a destination that exists", () => {
  it("is refused, and left as it is", async () => {
    const { archive } = await makeSource();
    const target = new MemoryStore([["out/zarr.json", Uint8Array.of(1)]]);
    await expect(convert(archive, { store: target, path: "out" })).rejects.toMatchObject({
      code: "CONFLICT",
      details: { path: "memory:out" },
    });
    expect(await target.get("out/zarr.json")).toEqual(Uint8Array.of(1));
    const file = new MemoryStore([["out", Uint8Array.of(1)]]);
    await expect(convert(archive, { store: file, path: "out" }, { overwrite: true })).rejects.toMatchObject({
      code: "CONFLICT",
    });
  });

  it("is replaced by overwrite, with nothing of the old left", async () => {
    const { archive } = await makeSource();
    const target = new MemoryStore();
    await convert(await openFixture("ctable/bcolz-mixed"), { store: target, path: "out" });
    await convert(archive, { store: target, path: "out" }, { overwrite: true });
    expect(await keysOf(target)).toEqual(["out/c/0", "out/zarr.json"]);
    expect(await readWithZarrita(target, "out")).toEqual(values);
  });

  it("is not replaced if it is not Zarr: overwrite does not delete other people's files", async () => {
    const { archive } = await makeSource();
    const target = new MemoryStore([["out/thesis.tex", Uint8Array.of(1)]]);
    await expect(convert(archive, { store: target, path: "out" }, { overwrite: true })).rejects.toMatchObject(
      {
        code: "CONFLICT",
      },
    );
    expect(await keysOf(target)).toEqual(["out/thesis.tex"]);
  });

  it("is not touched by overwrite if the source cannot be converted", async () => {
    const target = new MemoryStore([["out/zarr.json", Uint8Array.of(1)]]);
    await expect(
      convert(await openFixture("carray/bcolz-object"), { store: target, path: "out" }, { overwrite: true }),
    ).rejects.toMatchObject({ code: "UNSUPPORTED" });
    expect(await target.get("out/zarr.json")).toEqual(Uint8Array.of(1));
  });

  it("can be overwritten after an overwrite that died, and is never taken for the old one or for something to resume", async () => {
    const { archive } = await makeSource();
    for (let failAt = 1; ; failAt++) {
      const target = new MemoryStore();
      await convert(await openFixture("carray/bcolz-i8-2d-attrs"), { store: target, path: "out" });
      if (!(await dieAt(archive, target, failAt, { overwrite: true }))) break;
      const document = await target.get("out/zarr.json");
      if (document !== undefined && (await documentAt(target, "out/zarr.json"))["data_type"] === "float64") {
        expect(await readWithZarrita(target, "out")).toEqual(values);
      }
      await convert(archive, { store: target, path: "out" }, { chunksPerShard: 3, overwrite: true });
      expect(await readWithZarrita(target, "out")).toEqual(values);
      expect(await keysOf(target)).toEqual(["out/c/0", "out/c/1", "out/c/2", "out/c/3", "out/zarr.json"]);
    }
  });

  it("that is inside the source, around it, or the source itself is refused", async () => {
    const { store, archive } = await makeSource();
    for (const prefix of ["a", "a/zarr", ""]) {
      await expect(convert(archive, { store, path: prefix }, { overwrite: true })).rejects.toMatchObject({
        code: "CONFLICT",
      });
    }
    expect(() => refuseOverlapping("/data/x", "/data/x")).toThrow(
      expect.objectContaining({ code: "CONFLICT" }),
    );
    expect(() => refuseOverlapping("/data/x", "/data")).toThrow(
      expect.objectContaining({ code: "CONFLICT" }),
    );
    expect(refuseOverlapping("/data/x", "/data/xy")).toBeUndefined();
  });

  it("resume and overwrite together are refused", async () => {
    const { archive } = await makeSource();
    await expect(
      convert(archive, { store: new MemoryStore(), path: "out" }, { resume: true, overwrite: true }),
    ).rejects.toMatchObject({ code: "BAD_ARGUMENT" });
  });
});

describe("failures during conversion", () => {
  it("damage to any byte of a chunk's header gives an error or the same values, never a finished result with other values", async () => {
    const { store } = await makeSource();
    const key = "a/data/__4.blp";
    const chunk = (await store.get(key)) ?? new Uint8Array();
    let refused = 0;
    for (let at = 0; at < 32; at++) {
      for (const bit of [1, 0x10, 0x80]) {
        const damaged = chunk.slice();
        damaged[at] = (damaged[at] ?? 0) ^ bit;
        await store.put(key, damaged);
        const target = new MemoryStore();
        const failure: unknown = await convert(
          await open(store, "a"),
          { store: target, path: "out" },
          {
            verify: true,
          },
        ).catch((error: unknown) => error);
        if (failure instanceof Error) {
          expect(isSuperchunkError(failure)).toBe(true);
          expect(await target.get("out/zarr.json")).toBeUndefined();
          refused++;
        }
      }
    }
    expect(refused).toBeGreaterThan(50);
  });

  it("without a comparison too, a chunk of zeros from some byte on is refused; one with unused bytes at its end is copied", async () => {
    const store = new MemoryStore();
    const items = new Uint8Array(Int32Array.from({ length: 40_000 }, (_, i) => i ** 2 % 977).buffer);
    await putCarray(store, "a", items, 20_000, { dtype: "<i4", shape: [40_000], encode: { typesize: 4 } });
    const key = "a/data/__1.blp";
    const stored = (await store.get(key)) ?? new Uint8Array();
    const convertWith = async (bytes: Uint8Array): Promise<MemoryStore> => {
      await store.put(key, bytes);
      const target = new MemoryStore();
      await convert(await open(store, "a"), { store: target, path: "out" });
      return target;
    };
    for (let from = 40; from < stored.length - 4; from += 4999) {
      const converting = convertWith(stored.slice().fill(0, from));
      await expect(converting, `zeros from ${from}`).rejects.toMatchObject({
        code: "BAD_CHUNK",
        details: { path: store.describe(key), chunk: 1 },
      });
    }
    const longer = new Uint8Array(stored.length + 8);
    longer.set(stored);
    new DataView(longer.buffer).setUint32(16 + 12, longer.length - 16, true);
    expect(await readWithZarrita(await convertWith(longer), "out")).toEqual(items);
  });

  it("a missing chunk file is named, and no document is written", async () => {
    const { store, archive } = await makeSource();
    await store.delete("a/data/__7.blp");
    const target = new MemoryStore();
    const failure: unknown = await convert(archive, { store: target, path: "out" }).catch(
      (error: unknown) => error,
    );
    expect(failure).toMatchObject({ code: "INCOMPLETE", message: expect.stringContaining("__7.blp") });
    expect(await target.get("out/zarr.json")).toBeUndefined();
  });

  it("a full destination is NO_SPACE, and the conversion can be resumed", async () => {
    const { archive } = await makeSource();
    const target = new MemoryStore();
    const faulty = withFaults(target, { failAt: 3, kind: "no-space", counts: "writes" });
    await expect(
      convert(archive, { store: faulty.store, path: "out" }, { chunksPerShard: 3 }),
    ).rejects.toMatchObject({
      code: "NO_SPACE",
    });
    await convert(archive, { store: target, path: "out" }, { chunksPerShard: 3, resume: true });
    expect(await readWithZarrita(target, "out")).toEqual(values);
  });

  it("a shard that changed after the conversion is found by verify", async () => {
    const { archive } = await makeSource();
    const { verifyConversion } = await import("./verify-conversion.ts");
    const target = new MemoryStore();
    await convert(archive, { store: target, path: "out" });
    const shard = (await target.get("out/c/0")) ?? new Uint8Array();
    for (let at = 0; at < shard.length; at += 97) {
      const damaged = shard.slice();
      damaged[at] = (damaged[at] ?? 0) ^ 4;
      await target.put("out/c/0", damaged);
      const outcome: unknown = await verifyConversion(archive, target, "out").catch(
        (error: unknown) => error,
      );
      // A changed bit that changes no value (an unused header bit, padding) makes no difference.
      if (!(outcome instanceof Error)) await expect(readWithZarrita(target, "out")).resolves.toEqual(values);
      else expect(isSuperchunkError(outcome)).toBe(true);
    }
    await target.put("out/c/0", shard);
    expect(await verifyConversion(archive, target, "out")).toEqual({ arrays: 1, chunks: 10, nbytes: 8000 });
  });
});

describe("a conversion", () => {
  it("counts the bytes of the finished result, however many shards are written at a time", async () => {
    const { archive } = await makeSource();
    const target = new MemoryStore();
    const result = await convert(archive, { store: target, path: "out" }, { chunksPerShard: 1 });
    const stored = await Promise.all(
      (await keysOf(target)).map(async (key) => (await target.get(key))?.length ?? 0),
    );
    expect(result).toMatchObject({
      shards: 10,
      bytesWritten: stored.reduce((total, size) => total + size, 0),
    });
  });

  it("reports progress up to the total, and ends with the signal's reason when aborted", async () => {
    const { archive } = await makeSource();
    const seen: number[] = [];
    await convert(
      archive,
      { store: new MemoryStore(), path: "out" },
      {
        chunksPerShard: 3,
        onProgress: ({ done, total }) => seen.push(done / total),
      },
    );
    expect(seen.at(-1)).toBe(1);
    expect(seen).toEqual([...seen].sort((a, b) => a - b));
    const abort = new AbortController();
    const reason = new Error("enough");
    const target = new MemoryStore();
    await expect(
      convert(
        archive,
        { store: target, path: "out" },
        {
          signal: abort.signal,
          chunksPerShard: 1,
          onProgress: () => abort.abort(reason),
        },
      ),
    ).rejects.toBe(reason);
    expect(await target.get("out/zarr.json")).toBeUndefined();
  });

  it("can be planned without writing, reading no more of each array than its metadata and first header", async () => {
    const { store } = await makeSource();
    const counted = withCounting(store);
    const plan = await planOne(await open(counted.store, "a"), { chunksPerShard: 3 });
    expect(plan).toMatchObject({
      kind: "array",
      groups: [],
      nbytes: 8000,
      arrays: [{ action: "copy", chunks: 10, shards: 4, chunkShape: [100], shardShape: [300] }],
    });
    expect(counted.counts.bytesRead).toBeLessThan(2000);
  });
});

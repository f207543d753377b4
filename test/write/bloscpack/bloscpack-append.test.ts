/** Appending to Bloscpack files: with a new file, and in place with a journal. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { ArrayArchive, BytesArchive } from "../../../src/archive/kinds/types.ts";
import { open } from "../../../src/archive/open/open.ts";
import { journalKey } from "../../../src/archive/places/journal.ts";
import { parseDType } from "../../../src/format/dtype.ts";
import { decodeFileHeader } from "../../../src/format/header.ts";
import { decodeJournal, encodeJournal } from "../../../src/format/journal.ts";
import { JsonFloat } from "../../../src/format/json-float.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import {
  appendToBloscpack,
  type BloscpackAppendOptions,
  forecastAppend,
} from "../../../src/write/bloscpack/bloscpack-append.ts";
import type { BloscpackOptions } from "../../../src/write/bloscpack/bloscpack-options.ts";
import { compressArray, compressBytes } from "../../../src/write/bloscpack/bloscpack-write.ts";
import { randomFrom } from "../../crash/random.ts";
import { findFixture, loadArchives } from "../../fixtures/manifest.ts";
import { sweep } from "../../scope.ts";
import { withCounting } from "../../store/counting.ts";
import { VolatileStore } from "../../store/volatile.ts";
import { numbered, rejectionOf } from "../foreign-support.ts";

const KEY = "a.blp";

/** The values of an archive that verifies, with no warnings but the expected ones. */
async function bytesOf(store: MemoryStore, key = KEY, warnings: readonly string[] = []): Promise<Uint8Array> {
  const archive = (await open(store, key)) as BytesArchive | ArrayArchive;
  const { ok, findings } = await archive.verify();
  expect([ok, ...findings.map(({ code }) => code)]).toEqual([true, ...warnings]);
  return archive.readBytes(0, archive.nbytes);
}

async function made(length: number, options: BloscpackOptions = {}): Promise<MemoryStore> {
  const store = new MemoryStore();
  await compressBytes(numbered(length), store, KEY, { chunkSize: 100, maxAppChunks: 20, ...options });
  return store;
}

const headerOf = async (store: MemoryStore) => decodeFileHeader((await store.get(KEY)) as Uint8Array, KEY);

describe.each([
  ["by a new file", {}],
  ["in place", { inPlace: true }],
] as const)("append %s", (_, how) => {
  it.each([1, 39, 40, 41, 140, 141, 1234])(
    "[F1.3-08] %i bytes fill the last chunk, then make new ones, and use spare offsets",
    async (added) => {
      const store = await made(260);
      const file = await store.get(KEY);
      const forecast = await forecastAppend(store, KEY, added, how);
      expect(await store.get(KEY)).toEqual(file);
      const result = await appendToBloscpack(store, KEY, numbered(added, 260), how);
      expect(result).toEqual(forecast);
      expect(await bytesOf(store)).toEqual(numbered(260 + added));
      const nchunks = Math.ceil((260 + added) / 100);
      expect(await headerOf(store)).toMatchObject({
        version: 3,
        nchunks,
        maxAppChunks: 23 - nchunks,
        chunkSize: 100,
        lastChunk: (260 + added) % 100 || 100,
      });
      expect(result).toEqual({
        nchunks,
        nbytes: 260 + added,
        bytesAppended: added,
        chunksAdded: nchunks - 3,
        chunksCopied: "inPlace" in how ? 0 : 2,
        bytesCopied: "inPlace" in how ? 0 : expect.any(Number),
      });
      expect(await store.stat(journalKey(KEY))).toBeUndefined();
    },
  );

  it("many appends in a row give the same as one", async () => {
    const store = await made(10, { checksum: "sha1", chunkSize: 10 });
    for (let at = 10; at < 150; at += 7) await appendToBloscpack(store, KEY, numbered(7, at), how);
    expect(await bytesOf(store)).toEqual(numbered(150 + 7 - ((150 - 10) % 7 || 7)));
  });

  it("a full table is LIMIT, and says how to continue; nothing has changed", async () => {
    const store = await made(260, { maxAppChunks: 2 });
    const before = await bytesOf(store);
    const error = await rejectionOf(appendToBloscpack(store, KEY, numbered(241), how));
    expect([error.code, error.details]).toMatchObject([
      "LIMIT",
      { path: "memory:a.blp", field: "max-app-chunks", found: 2 },
    ]);
    expect(error.message).toMatch(/room for 2 more chunks, but [34] are needed.*--grow/);
    expect(error.message.includes("without --in-place")).toBe("inPlace" in how);
    // What was written after the last chunk before the table was full belongs to nothing.
    expect(await bytesOf(store, KEY, "inPlace" in how ? ["TRAILING"] : [])).toEqual(before);
    await appendToBloscpack(store, KEY, numbered(240, 260), how);
    expect(await bytesOf(store)).toEqual(numbered(500));
  });

  it("metadata are unchanged, byte for byte", async () => {
    const store = await made(260, { metadata: { a: [1, "x"], é: null } });
    const before = (await store.get(KEY)) as Uint8Array;
    await appendToBloscpack(store, KEY, numbered(100, 260), how);
    const after = (await store.get(KEY)) as Uint8Array;
    const archive = (await open(store, KEY)) as BytesArchive;
    expect(archive.attrs).toEqual({ a: [1, "x"], é: null });
    expect(after.subarray(32, 100)).toEqual(before.subarray(32, 100));
  });

  it("appending nothing changes nothing", async () => {
    const store = await made(260);
    const before = await store.stat(KEY);
    const result = await appendToBloscpack(store, KEY, new Uint8Array(0), how);
    const nothing = { bytesAppended: 0, chunksAdded: 0, chunksCopied: 0, bytesCopied: 0 };
    expect(result).toEqual({ nchunks: 3, nbytes: 260, ...nothing });
    expect(await forecastAppend(store, KEY, 0, how)).toEqual(result);
    expect(await store.stat(KEY)).toEqual(before);
  });

  it("files written by bloscpack 0.16, its own appends included, can be appended to", async () => {
    for (const name of [
      "append-api",
      "append-cli",
      "append-leftover-bytes",
      "cli-text",
      "sum-sha384",
      "cli-meta",
    ]) {
      const row = findFixture(`bloscpack-3/${name}.blp`);
      const store = new MemoryStore([[KEY, readFileSync(row.file)]]);
      const warnings = name === "append-leftover-bytes" ? ["TRAILING"] : [];
      const before = await bytesOf(store, KEY, warnings);
      if ("inPlace" in how && !(await headerOf(store)).offsets) {
        expect((await rejectionOf(appendToBloscpack(store, KEY, numbered(5), how))).code).toBe("UNSUPPORTED");
        continue;
      }
      await appendToBloscpack(store, KEY, numbered(5000), how);
      // A new file has only what counts.
      const after = await bytesOf(store, KEY, "inPlace" in how ? warnings : []);
      expect(Buffer.from(after).equals(Buffer.concat([before, numbered(5000)])), name).toBe(true);
    }
  });
});

describe("into a new file", () => {
  it("an empty file gets bloscpack's chunk size, and a file without offsets needs no table", async () => {
    const empty = new MemoryStore();
    await compressBytes(new Uint8Array(0), empty, KEY, { metadata: 1 });
    await appendToBloscpack(empty, KEY, numbered(50));
    expect(await bytesOf(empty)).toEqual(numbered(50));
    expect(await headerOf(empty)).toMatchObject({
      nchunks: 1,
      chunkSize: 50,
      lastChunk: 50,
      maxAppChunks: 10,
    });
    const plain = await made(260, { offsets: false });
    await appendToBloscpack(plain, KEY, numbered(5000, 260));
    expect(await bytesOf(plain)).toEqual(numbered(5260));
    expect(await headerOf(plain)).toMatchObject({ offsets: false, maxAppChunks: 0, nchunks: 53 });
  });

  it("grow writes a larger table", async () => {
    const store = await made(260, { maxAppChunks: 0 });
    await appendToBloscpack(store, KEY, numbered(1000, 260), { grow: true });
    expect(await headerOf(store)).toMatchObject({ nchunks: 13, maxAppChunks: 130 });
    await appendToBloscpack(store, KEY, numbered(14_000, 1260), { grow: true, maxAppChunks: 7 });
    expect(await headerOf(store)).toMatchObject({ nchunks: 153, maxAppChunks: 7 });
    expect(await bytesOf(store)).toEqual(numbered(15_260));
  });

  it("an array gets its new shape with its rows", async () => {
    const store = new MemoryStore();
    const dtype = parseDType("<i4", "test");
    const data = Uint8Array.from(Buffer.from(Int32Array.from({ length: 30 }, (_, i) => i).buffer));
    await compressArray({ dtype, shape: [10, 3], data }, store, KEY, {
      chunkSize: 48,
      metadata: { unit: "K" },
    });
    const more = Uint8Array.from(Buffer.from(Int32Array.from({ length: 6 }, (_, i) => 30 + i).buffer));
    await appendToBloscpack(store, KEY, more, { array: { dtype, shape: [2, 3] } });
    const archive = (await open(store, KEY)) as ArrayArchive;
    expect([archive.shape, archive.attrs]).toEqual([[12, 3], { unit: "K" }]);
    expect(await archive.get([11, 2])).toBe(35);
    for (const [source, options] of [
      [new Uint8Array(13), {}],
      [more, { array: { dtype: parseDType("<f4", "test"), shape: [2, 3] } }],
      [more, { array: { dtype, shape: [3, 2] } }],
    ] as [Uint8Array, BloscpackAppendOptions][])
      expect((await rejectionOf(appendToBloscpack(store, KEY, source, options))).code).toBe("BAD_ARGUMENT");
    expect((await rejectionOf(appendToBloscpack(store, KEY, more, { inPlace: true }))).message).toContain(
      "shape and data cannot change in one step",
    );
    // New metadata may repeat the layout, and not contradict it.
    const before = { dtype: "'<i4'", shape: [12, 3], order: "C", unit: "C" };
    await appendToBloscpack(store, KEY, more, { array: { dtype, shape: [2, 3] }, metadata: before });
    expect(((await open(store, KEY)) as ArrayArchive).attrs).toEqual({ unit: "C" });
    for (const metadata of [{ dtype: "<f4" }, { shape: [7, 6] }, { order: "F" }, { container: "x" }] as const)
      expect(await rejectionOf(appendToBloscpack(store, KEY, more, { metadata }))).toMatchObject({
        code: "BAD_ARGUMENT",
        details: { field: Object.keys(metadata)[0], found: JSON.stringify(Object.values(metadata)[0]) },
      });
  });

  it("new metadata take the space of the old, or LIMIT says to use grow", async () => {
    const store = await made(260, { metadata: { a: 1 } });
    await appendToBloscpack(store, KEY, numbered(5, 260), { metadata: { b: [2] } });
    expect(((await open(store, KEY)) as BytesArchive).attrs).toEqual({ b: [2] });
    const long = { text: Array.from({ length: 300 }, (_, i) => (i * 7919) % 1000) };
    const error = await rejectionOf(appendToBloscpack(store, KEY, numbered(5), { metadata: long }));
    expect([error.code, error.details.field]).toEqual(["BAD_ARGUMENT", "max-meta-size"]);
    await appendToBloscpack(store, KEY, numbered(5, 265), { metadata: long, grow: true });
    expect(((await open(store, KEY)) as BytesArchive).attrs).toEqual(long);
    expect(await bytesOf(store)).toEqual(numbered(270));
  });

  it("[FJ-09] floats in metadata stay floats, in new ones and in those of a growing array", async () => {
    const store = new MemoryStore();
    const dtype = parseDType("<i4", "");
    const array = { dtype, shape: [5], data: numbered(20) };
    await compressArray(array, store, KEY, {
      metadata: { scale: new JsonFloat(2) },
      metadataOptions: { codec: "none" },
    });
    const scale = async (): Promise<string | undefined> =>
      /"scale":([^,}]*)/.exec(new TextDecoder().decode(await store.get(KEY)))?.[1];
    expect(await scale()).toBe("2.0");
    await appendToBloscpack(store, KEY, numbered(8, 20), { metadataOptions: { codec: "none" } });
    expect(await scale()).toBe("2.0");
    expect(((await open(store, KEY)) as ArrayArchive).shape).toEqual([7]);
  });

  it("a commit by another writer in between is CONFLICT, and its file stays", async () => {
    const store = await made(260);
    async function* slow(): AsyncGenerator<Uint8Array> {
      yield numbered(10, 260);
      await appendToBloscpack(store, KEY, numbered(3, 260));
      yield numbered(10, 270);
    }
    expect((await rejectionOf(appendToBloscpack(store, KEY, slow()))).code).toBe("CONFLICT");
    expect(await bytesOf(store)).toEqual(numbered(263));
  });

  it("versions 1 and 2 are refused", async () => {
    for (const path of ["bloscpack-1", "bloscpack-2"]) {
      const row = findFixture(loadArchives().find((each) => each.path.startsWith(`${path}/`))?.path ?? "");
      const store = new MemoryStore([[KEY, readFileSync(row.file)]]);
      expect((await rejectionOf(appendToBloscpack(store, KEY, numbered(5)))).code).toBe("UNSUPPORTED");
    }
  });
});

describe("journals", () => {
  it("[FR-01] an incomplete journal is refused", async () => {
    const bytes = await encodeJournal([{ offset: 5, bytes: Uint8Array.of(1, 2) }]);
    expect(await decodeJournal(bytes, "j")).toEqual([{ offset: 5, bytes: Uint8Array.of(1, 2) }]);
    for (let length = 0; length < bytes.length; length++)
      expect((await rejectionOf(decodeJournal(bytes.subarray(0, length), "j"))).isDamage).toBe(true);
    for (let at = 0; at < bytes.length; at++) {
      const flipped = bytes.slice();
      flipped[at] = (flipped[at] ?? 0) ^ 1;
      const expected = at < 8 ? "BAD_MAGIC" : at < 12 ? "UNSUPPORTED" : "CHECKSUM_MISMATCH";
      expect((await rejectionOf(decodeJournal(flipped, "j"))).code).toBe(expected);
    }
    const store = await made(260);
    await store.writeRange(KEY, 4, Uint8Array.of(4));
    await store.put(journalKey(KEY), await encodeJournal([{ offset: 2 ** 40, bytes: Uint8Array.of(1) }]));
    expect((await rejectionOf(open(store, KEY))).code).toBe("BAD_FIELD");
  });

  it("[FR-03] a journal next to a file of version 3 is a leftover: not read, and removed by the next writer", async () => {
    const store = await made(260);
    await store.put(journalKey(KEY), Uint8Array.of(1, 2, 3));
    expect(await bytesOf(store)).toEqual(numbered(260));
    await appendToBloscpack(store, KEY, numbered(10, 260), { inPlace: true });
    expect(await bytesOf(store)).toEqual(numbered(270));
    expect(await store.stat(journalKey(KEY))).toBeUndefined();
  });
});

describe("a power cut before every step", () => {
  it.each([
    ["by a new file", { inPlace: false }, { checksum: "crc32" }],
    ["in place", { inPlace: true }, { checksum: "crc32" }],
    ["in place, no digests", { inPlace: true }, { checksum: "None", clevel: 0 }],
  ] as const)(
    "[FR-02] leaves the old bytes or the new ones; reading writes nothing, and the next writer completes: %s",
    async (_, how, options) => {
      const start = await made(1450, { ...options, chunkSize: 700 });
      const objects = [[KEY, (await start.get(KEY)) as Uint8Array]] as const;
      const old = Buffer.from(numbered(1450)).toString("hex");
      const grown = Buffer.from(numbered(3500)).toString("hex");
      const seen = new Set<string>();
      for (const seed of [1, 2, 3, 4]) {
        for (let failAt = 1; ; failAt += sweep(1, 5)) {
          const disk = new VolatileStore(objects, { failAt, random: randomFrom(seed * 1000 + failAt) });
          const done = await appendToBloscpack(disk, KEY, numbered(2050, 1450), { ...how, clevel: 0 }).then(
            () => true,
            () => false,
          );
          const image = disk.image();
          const { store, counts } = withCounting(new MemoryStore(image));
          const found = (await open(store, KEY)) as BytesArchive;
          const bytes = Buffer.from(await found.readBytes(0, found.nbytes)).toString("hex");
          expect(done ? [grown] : [old, grown], `cut at ${failAt}`).toContain(bytes);
          expect((await found.verify()).ok).toBe(true);
          expect(counts.writes).toBe(0);
          seen.add(bytes);
          const next = new MemoryStore(image);
          await appendToBloscpack(next, KEY, numbered(1, bytes.length / 2), { ...how, clevel: 0 });
          const completed = (await open(next, KEY)) as BytesArchive;
          expect(await completed.readBytes(0, completed.nbytes)).toEqual(numbered(bytes.length / 2 + 1));
          // The interrupted append may have written more than the next one.
          const { ok, findings } = await completed.verify();
          expect([ok, findings.filter(({ code }) => code !== "TRAILING")]).toEqual([true, []]);
          expect((await headerOf(next)).version).toBe(3);
          if (!disk.isDead) break;
        }
      }
      expect([...seen].sort()).toEqual([old, grown].sort());
    },
  );
});

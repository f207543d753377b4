/** Bloscpack files are written as bloscpack 0.16 writes them. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { ArrayArchive, BytesArchive } from "../../../src/archive/kinds/types.ts";
import { open } from "../../../src/archive/open/open.ts";
import { parseDType } from "../../../src/format/dtype.ts";
import { CHECKSUM_NAMES, decodeFileHeader } from "../../../src/format/header.ts";
import { decodeSectionHeader } from "../../../src/format/metadata.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import { compressArray, compressBytes, packBytes } from "../../../src/write/bloscpack/bloscpack-write.ts";
import { scratchBeside, spoolChunks } from "../../../src/write/bloscpack/chunk-spool.ts";
import { loadArchives } from "../../fixtures/manifest.ts";
import { collect, numbered, rejectionOf } from "../foreign-support.ts";

/** What bloscpack 0.16 wrote in one go. */
const written = loadArchives().filter(
  ({ path, producer }) =>
    path.startsWith("bloscpack-3/") &&
    /0\.16/.test(producer) &&
    !/append-/.test(path) &&
    !/no-append-room/.test(path),
);

describe("compress", () => {
  it("there are files of bloscpack 0.16 to compare with", () => {
    expect(written.length).toBeGreaterThan(20);
  });

  it.each(written.map((row) => [row.path, row] as const))(
    "[F1.3-07] header, metadata and table are those of bloscpack 0.16, and the whole file where the chunks are: %s",
    async (_, row) => {
      const theirs = readFileSync(row.file);
      const source = await open(new MemoryStore([["a.blp", theirs]]), "a.blp");
      if (source.kind === "table") throw new Error("a table");
      const header = decodeFileHeader(theirs, row.path);
      const summary = await source.summary();
      const section = header.metadata
        ? decodeSectionHeader(theirs.subarray(32, 64), row.path, 32)
        : undefined;
      const store = new MemoryStore();
      const options = {
        chunkSize: Math.max(1, header.chunkSize),
        checksum: header.checksum,
        offsets: header.offsets,
        maxAppChunks: header.maxAppChunks,
        typesize: header.typesize,
        ...(summary.cname === undefined ? {} : { cname: summary.cname }),
        ...(summary.shuffle === undefined ? {} : { shuffle: summary.shuffle }),
        ...(row.path.includes("clevel0") ? { clevel: 0 } : {}),
        ...(section === undefined
          ? {}
          : {
              metadataOptions: {
                checksum: section.checksum,
                codec: section.level === 0 ? ("none" as const) : ("zlib" as const),
                level: section.level,
                maxMetaSize: section.maxMetaSize,
              },
            }),
      };
      const data = await source.readBytes(0, source.nbytes);
      if (source.kind === "array") {
        const { dtype, shape, order } = source;
        await compressArray({ dtype, shape, order, data }, store, "b.blp", options);
      } else {
        const metadata = header.metadata ? { metadata: source.metadata } : {};
        await compressBytes(data, store, "b.blp", { ...options, ...metadata });
      }
      const ours = (await store.get("b.blp")) as Uint8Array;
      const entries = header.offsets ? header.nchunks + header.maxAppChunks : 0;
      const tableAt = 32 + (section?.sectionLength ?? 0);
      expect(Buffer.from(ours.subarray(0, tableAt)).toString("hex")).toBe(
        theirs.subarray(0, tableAt).toString("hex"),
      );
      const spareAt = tableAt + 8 * (header.offsets ? header.nchunks : 0);
      const end = tableAt + 8 * entries;
      expect(Buffer.from(ours.subarray(spareAt, end)).equals(theirs.subarray(spareAt, end))).toBe(true);
      const again = (await open(store, "b.blp")) as BytesArchive | ArrayArchive;
      expect(Buffer.from(await again.readBytes(0, again.nbytes)).equals(Buffer.from(data))).toBe(true);
      expect((await again.verify()).findings).toEqual([]);
      const chunks = async (archive: BytesArchive | ArrayArchive): Promise<string[]> => {
        const list: string[] = [];
        for await (const { bytes } of archive.encodedChunks()) list.push(Buffer.from(bytes).toString("hex"));
        return list;
      };
      const [a, b] = [await chunks(source), await chunks(again)];
      if (JSON.stringify(a) === JSON.stringify(b)) expect(Buffer.from(ours).equals(theirs)).toBe(true);
    },
  );

  it("defaults are those of bloscpack: 1 MiB, adler32, ten times as many offsets as chunks, blosclz 7, typesize 8", async () => {
    const store = new MemoryStore();
    const data = numbered(3 * (1 << 20) + 5);
    const result = await compressBytes(data, store, "a.blp");
    const bytes = (await store.get("a.blp")) as Uint8Array;
    expect(decodeFileHeader(bytes, "a")).toMatchObject({
      version: 3,
      offsets: true,
      metadata: false,
      checksum: "adler32",
      typesize: 8,
      chunkSize: 1 << 20,
      lastChunk: 5,
      nchunks: 4,
      maxAppChunks: 40,
    });
    expect(result).toEqual({ nchunks: 4, nbytes: data.length, cbytes: bytes.length });
    const archive = (await open(store, "a.blp")) as BytesArchive;
    expect(await archive.summary()).toMatchObject({ cname: "blosclz", shuffle: "shuffle", typesize: 8 });
  });

  it.each(CHECKSUM_NAMES)("every chunk has its %s, which verify counts", async (checksum) => {
    const store = new MemoryStore();
    await compressBytes(numbered(1000), store, "a.blp", { checksum, chunkSize: 300 });
    const report = await ((await open(store, "a.blp")) as BytesArchive).verify();
    expect(report).toMatchObject({ ok: true, chunks: 4, nbytes: 1000, digests: checksum === "None" ? 0 : 4 });
  });

  it("a stream of unknown length gives the same file as the bytes at once, with and without offsets", async () => {
    const data = numbered(10_007);
    for (const offsets of [true, false]) {
      const store = new MemoryStore();
      const options = { offsets, chunkSize: 1000 };
      await compressBytes(data, store, "whole.blp", options);
      async function* parts(): AsyncGenerator<Uint8Array> {
        for (let at = 0; at < data.length; at += 777) yield data.subarray(at, at + 777);
      }
      await compressBytes(parts(), store, "streamed.blp", options);
      const packed = await collect(packBytes(parts(), scratchBeside(store, "x"), options));
      const whole = (await store.get("whole.blp")) as Uint8Array;
      expect(await store.get("streamed.blp")).toEqual(whole);
      expect(packed).toEqual(whole);
    }
  });

  it("chunks that exceed the memory limit go to a scratch object, which is removed afterwards, also after a failure", async () => {
    const store = new MemoryStore();
    const chunk = (n: number) => ({
      bytes: new Uint8Array(100).fill(n),
      digest: Uint8Array.of(n),
      nbytes: 100,
    });
    async function* chunks(fail: boolean) {
      for (let n = 0; n < 10; n++) yield chunk(n);
      if (fail) throw new Error("the source failed");
    }
    const scratch = scratchBeside(store, "a.blp");
    expect(scratch.key).toMatch(/^\.a\.blp\.[0-9a-f]{16}\.tmp$/);
    const spool = await spoolChunks(chunks(false), scratch, 1000);
    expect(await store.stat(scratch.key)).toMatchObject({ size: 7 * 101 });
    expect(spool).toMatchObject({ nbytes: 1000, lastNbytes: 100, sizes: new Array(10).fill(101) });
    const bytes = await collect(spool.pieces());
    expect(bytes).toEqual(Uint8Array.from({ length: 1010 }, (_, i) => Math.floor(i / 101)));
    await spool.dispose();
    expect(await store.stat(scratch.key)).toBeUndefined();
    await expect(spoolChunks(chunks(true), scratch, 1000)).rejects.toThrow("the source failed");
    expect(await store.stat(scratch.key)).toBeUndefined();
  });

  it("an existing file stays unless force is set", async () => {
    const store = new MemoryStore([["a.blp", Uint8Array.of(1)]]);
    expect((await rejectionOf(compressBytes(numbered(10), store, "a.blp"))).code).toBe("CONFLICT");
    expect(await store.get("a.blp")).toEqual(Uint8Array.of(1));
    await compressBytes(numbered(10), store, "a.blp", { force: true });
    expect(await ((await open(store, "a.blp")) as BytesArchive).readBytes(0, 10)).toEqual(numbered(10));
  });

  it("an empty input is one empty chunk", async () => {
    const store = new MemoryStore();
    await compressBytes(new Uint8Array(0), store, "a.blp");
    const bytes = (await store.get("a.blp")) as Uint8Array;
    expect(decodeFileHeader(bytes, "a")).toMatchObject({
      chunkSize: 0,
      lastChunk: 0,
      nchunks: 1,
      maxAppChunks: 10,
    });
    expect(bytes.length).toBe(32 + 11 * 8 + 16 + 4);
    const archive = (await open(store, "a.blp")) as BytesArchive;
    expect([archive.nbytes, (await archive.verify()).ok]).toEqual([0, true]);
  });

  it("the default chunk size holds whole items; an explicit one that does not is refused", async () => {
    const store = new MemoryStore();
    const dtype = parseDType("|S3", "test");
    const array = { dtype, shape: [500_000], data: numbered(1_500_000) };
    await compressArray(array, store, "a.blp");
    expect(decodeFileHeader((await store.get("a.blp")) as Uint8Array, "a").chunkSize).toBe(1_048_575);
    const error = await rejectionOf(compressArray(array, store, "b.blp", { chunkSize: 1000 }));
    expect([error.code, error.details.field]).toEqual(["BAD_ARGUMENT", "chunk-size"]);
    expect(await store.stat("b.blp")).toBeUndefined();
  });

  it.each([
    ["chunk-size", { chunkSize: 0 }],
    ["max-app-chunks", { maxAppChunks: -1 }],
    ["max-app-chunks", { maxAppChunks: "x" as never }],
    ["checksum", { checksum: "crc64" as never }],
    ["typesize", { typesize: 256 }],
    ["clevel", { clevel: 10 }],
    ["size", { size: 9 }],
    ["size", { size: 11 }],
    ["max-meta-size", { metadata: { a: 1 }, metadataOptions: { maxMetaSize: 3 } }],
  ])("%s out of range is refused before anything is written: %o", async (field, options) => {
    const store = new MemoryStore();
    const error = await rejectionOf(compressBytes(numbered(10), store, "a.blp", options));
    expect([error.code, error.details.field]).toEqual(["BAD_ARGUMENT", field]);
    expect(await store.stat("a.blp")).toBeUndefined();
  });

  it.each([
    ["chunksize", { chunksize: 100 }, "did you mean chunkSize?"],
    ["codec", { codec: "lz4" }, "did you mean cname?"],
    ["complevel", { complevel: 3 }, "did you mean clevel?"],
    ["overwrite", { overwrite: true }, "expected array, checksum, "],
    ["maxMeta", { metadataOptions: { maxMeta: 3 } }, "did you mean maxMetaSize?"],
  ])("the unknown option %s is refused before anything is written", async (field, options, advice) => {
    const store = new MemoryStore();
    const wrong = options as never;
    for (const call of [
      () => compressBytes(numbered(10), store, "a.blp", wrong),
      async () => packBytes(numbered(10), scratchBeside(store, "a.blp"), wrong),
    ]) {
      const error = await rejectionOf(call());
      expect([error.code, error.details.field]).toEqual(["BAD_ARGUMENT", field]);
      expect(error.message).toContain(advice);
    }
    expect(await store.stat("a.blp")).toBeUndefined();
  });

  it("an abort ends a compression into many small chunks, and leaves nothing", async () => {
    const store = new MemoryStore();
    const options = { chunkSize: 1, typesize: 1, signal: AbortSignal.timeout(100) };
    await expect(compressBytes(numbered(3_000_000), store, "a.blp", options)).rejects.toThrow("aborted");
    for await (const { name } of store.list("")) expect(name).toBe("nothing");
  });
});

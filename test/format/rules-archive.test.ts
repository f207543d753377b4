/** The rules of FORMAT.md that only a whole file can show, on files small enough to read. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { ArrayArchive, ArraySlice } from "../../src/archive/kinds/types.ts";
import { decodeOffsets, walkChunks } from "../../src/archive/places/blpk-file.ts";
import { DIGEST_LENGTHS, digest } from "../../src/bytes/checksum.ts";
import { encodeSection } from "../../src/format/encode-file.ts";
import { CHECKSUM_NAMES, decodeFileHeader } from "../../src/format/header.ts";
import type { JsonValue } from "../../src/format/types.ts";
import { open as openPath } from "../../src/node/index.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { findFixture } from "../fixtures/manifest.ts";
import { hex, rejectionOf, utf8 } from "./hex.ts";
import { ABC, jsonOf, makeFile, openFile, stored, textOf } from "./small-archives.ts";

describe("files", () => {
  it("[F1.3-02] without raw JSON, bytes 24 to 31 count spare offsets", async () => {
    expect(await textOf(await makeFile({ chunks: ABC, spare: 3 }))).toBe("abcdefghij");
    const bytes = await makeFile({ chunks: ABC });
    bytes[24] = 7; // has no meaning without offsets
    expect(await textOf(bytes)).toBe("abcdefghij");
  });

  it("[F1.3-05] bytes after the last chunk are not part of the file", async () => {
    for (const spare of [undefined, 2]) {
      const parts = { chunks: ABC, behind: utf8("left over"), ...(spare === undefined ? {} : { spare }) };
      expect(await textOf(await makeFile(parts))).toBe("abcdefghij");
    }
    const fixture = findFixture("bloscpack-3/append-leftover-bytes.blp");
    expect(fixture.notes).toContain("bytes of the old chunk remain behind it");
    const archive = await openPath(fixture.file);
    expect((await archive.verify()).ok).toBe(true);
  });

  it("[F1.3-06] walking a version 3 file without reserve gives its offsets, but not if chunks are out of order", async () => {
    const found = async (name: string): Promise<[number[], number[]]> => {
      const bytes = new Uint8Array(readFileSync(`${findFixture(name).file}/data/__1__.bin`));
      const header = decodeFileHeader(bytes, name);
      const end = 32 + (header.nchunks + header.maxAppChunks) * 8;
      const offsets = decodeOffsets(bytes.subarray(32, end), name, 32).subarray(0, header.nchunks);
      const request = {
        key: "a",
        from: end,
        size: bytes.length,
        count: header.nchunks,
        limit: 1e6,
        digestLength: DIGEST_LENGTHS[header.checksum],
        signal: undefined,
      };
      return [[...(await walkChunks(new MemoryStore([["a", bytes]]), request)).starts], [...offsets]];
    };
    for (const name of ["f8-default", "i8-2d-crc32", "S4-zlib"]) {
      const [walked, offsets] = await found(`blz-superchunk/${name}`);
      expect(walked).toEqual(offsets);
    }
    const [walked, offsets] = await found("blz-superchunk/i2-out-of-order");
    expect(walked).toEqual([...offsets].reverse());
  });

  it("[F1.4-01] [FO-06] the offsets give the order; holes and stale chunks between them do not matter", async () => {
    const bytes = await makeFile({
      version: 4,
      chunks: ABC,
      spare: 1,
      order: [2, 0, 1],
      reserve: 24,
      checksum: "crc32",
    });
    expect(await textOf(bytes)).toBe("abcdefghij");
  });

  it("[FM.1-01] [FM.3-01] the offsets follow the section, and numpy metadata make an array", async () => {
    const metadata = { dtype: "'<i2'", shape: [5], order: "C", container: "numpy", unit: "m" };
    const bytes = await makeFile({ chunks: ABC, spare: 2, section: await encodeSection(metadata) });
    const archive = await openFile(bytes);
    expect(archive).toMatchObject({ kind: "array", shape: [5], order: "C", attrs: { unit: "m" } });
    expect(await jsonOf(archive as ArrayArchive)).toEqual([0x6261, 0x6463, 0x6665, 0x6867, 0x6a69]);
    const plain = await openFile(
      await makeFile({ chunks: ABC, spare: 2, section: await encodeSection({ shape: [5] }) }),
    );
    expect(plain).toMatchObject({ kind: "bytes", attrs: { shape: [5] } });
    const wrong = await makeFile({ chunks: ABC, section: await encodeSection({ ...metadata, shape: [6] }) });
    expect((await rejectionOf(openFile(wrong))).code).toBe("BAD_FIELD");
  });

  it("[FM.3-02] order F: the first index varies fastest", async () => {
    const metadata: JsonValue = { dtype: "'|u1'", shape: [2, 5], order: "F", container: "numpy" };
    const archive = (await openFile(
      await makeFile({ chunks: ABC, section: await encodeSection(metadata) }),
    )) as ArrayArchive;
    const row = (await archive.get([0, null])) as ArraySlice;
    expect(
      new TextDecoder().decode(
        Uint8Array.from({ length: 5 }, (_, i) => Number((row.data as Uint8Array)[i * (row.stride[0] ?? 0)])),
      ),
    ).toBe("acegi");
  });

  it("[FM.2-02] raw JSON metadata has meta-size bytes, and no spare offsets follow", async () => {
    const array = (await openPath(findFixture("blz-superchunk/i4-adler32-meta").file)) as ArrayArchive;
    expect((await array.verify()).ok).toBe(true);
    const text = utf8('{"k": 1}');
    const bytes = await makeFile({ chunks: ABC, spare: 0, section: text });
    bytes[24] = text.length;
    expect((await openFile(bytes)).attrs).toEqual({ k: 1 });
    expect(await textOf(bytes)).toBe("abcdefghij");
  });
});

describe("checksums", () => {
  it("[FC-02] digests have the lengths in the table", async () => {
    for (const name of CHECKSUM_NAMES)
      expect(await digest(name, utf8("abc"))).toHaveLength(DIGEST_LENGTHS[name]);
    expect(CHECKSUM_NAMES.map((name) => DIGEST_LENGTHS[name])).toEqual([0, 4, 4, 16, 20, 28, 32, 48, 64]);
  });

  it("[FC-04] [FC-05] a digest covers the whole chunk with its header, and is compared before the data are used", async () => {
    for (const checksum of CHECKSUM_NAMES) {
      const bytes = await makeFile({ chunks: ABC, checksum });
      expect(await textOf(bytes)).toBe("abcdefghij");
      if (checksum === "None") continue;
      // Chunk 0: versionlz of a stored chunk, its first datum, its digest.
      for (const at of [33, 48, 52]) {
        const flipped = bytes.slice();
        flipped[at] = (flipped[at] ?? 0) ^ 1;
        const error = await rejectionOf(textOf(flipped));
        expect(error.code).toBe("CHECKSUM_MISMATCH");
        expect(error.details).toMatchObject({ chunk: 0, field: checksum });
      }
    }
  });
});

describe("offsets and walking", () => {
  it("[FO-07] with offsets nchunks is known, and the file has room for them", async () => {
    const unknown = await makeFile({ chunks: ABC, spare: 0 });
    unknown.fill(0xff, 16, 24);
    expect((await rejectionOf(openFile(unknown))).details).toMatchObject({ offset: 16, field: "nchunks" });
    const many = await makeFile({ chunks: ABC, spare: 0 });
    many[20] = 0x10; // 2^36 chunks
    expect((await rejectionOf(openFile(many))).code).toBe("TRUNCATED");
  });

  it("[FW-01] [FW-02] reserve is skipped, and an unknown number of chunks ends with the file", async () => {
    const bytes = await makeFile({
      chunks: ABC,
      checksum: "md5",
      reserve: 40,
      nchunks: -1,
      chunkSize: -1,
      lastChunk: -1,
    });
    expect(await textOf(bytes)).toBe("abcdefghij");
  });

  it("[FW-01] chunks may be larger than what a walk reads at a time", async () => {
    const large = stored(new Uint8Array(100_000).fill(7));
    const archive = await openFile(await makeFile({ chunks: [large, large], reserve: 100_000 }));
    expect([archive.nchunks, archive.nbytes]).toEqual([2, 200_000]);
  });

  it("[FW-03] a walk that ends too soon is TRUNCATED, and bytes that are not a chunk are an error", async () => {
    const bytes = await makeFile({ chunks: ABC, nchunks: 4 });
    expect((await rejectionOf(openFile(bytes))).code).toBe("TRUNCATED");
    for (let length = 33; length < bytes.length; length++) {
      const code = (await rejectionOf(openFile(bytes.subarray(0, length)))).code;
      expect([length, code]).toEqual([length, "TRUNCATED"]);
    }
    const noChunk = await makeFile({
      chunks: ABC,
      nchunks: -1,
      chunkSize: -1,
      lastChunk: -1,
      behind: hex("07".repeat(32)),
    });
    expect((await rejectionOf(openFile(noChunk))).code).toBe("BAD_FIELD");
  });

  it("[FS-01] a chunk's nbytes is what the header implies", async () => {
    const bytes = await makeFile({ chunks: ABC, chunkSize: 5, spare: 0 });
    const error = await rejectionOf(textOf(bytes));
    expect(error.code).toBe("BAD_FIELD");
    expect(error.details).toMatchObject({ chunk: 0, field: "nbytes", expected: 5, found: 4 });
  });

  it("[FS-02] unknown sizes are given by the chunks", async () => {
    for (const spare of [0, 1]) {
      expect(await textOf(await makeFile({ chunks: ABC, chunkSize: -1, lastChunk: -1, spare }))).toBe(
        "abcdefghij",
      );
    }
  });

  it("[FS-03] an empty input is one chunk without bytes", async () => {
    const bytes = await makeFile({ chunks: [stored(new Uint8Array(0))], checksum: "adler32", spare: 10 });
    const archive = await openFile(bytes);
    expect([archive.nbytes, archive.nchunks]).toEqual([0, 1]);
    expect((await archive.verify()).findings).toEqual([]);
  });
});

import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { isSuperchunkError } from "../../src/errors.ts";
import { encodeFileHeader } from "../../src/format/encode-file.ts";
import { type BlpkHeader, decodeFileHeader } from "../../src/format/header.ts";
import { loadFixtures } from "../fixtures/manifest.ts";
import fc from "../property.ts";
import { errorOf, hex } from "./hex.ts";

const V3 = hex(`
  62 6c 70 6b 03 03 01 08   # blpk, version 3, offsets and metadata, adler32, typesize 8
  a0 0f 00 00 a0 0f 00 00   # chunk-size 4000, last-chunk 4000
  01 00 00 00 00 00 00 00   # nchunks 1
  0a 00 00 00 00 00 00 00`); // max-app-chunks 10

function patched(at: number, ...bytes: number[]): Uint8Array {
  const copy = V3.slice();
  copy.set(bytes, at);
  return copy;
}

describe("reading", () => {
  it("[F1.3-01] a version 3 header gives offsets, metadata, checksum and sizes", () => {
    expect(decodeFileHeader(V3, "a.blp")).toEqual({
      version: 3,
      headerLength: 32,
      offsets: true,
      metadata: true,
      checksum: "adler32",
      typesize: 8,
      chunkSize: 4000,
      lastChunk: 4000,
      nchunks: 1,
      maxAppChunks: 10,
      metaSize: 10,
    });
  });

  it("[F1.1-01] a version 1 header is 16 bytes and gives only the number of chunks", () => {
    const header = decodeFileHeader(hex("62 6c 70 6b 01 00 00 00 04 00 00 00 00 00 00 00"), "a.blp");
    expect(header).toMatchObject({
      version: 1,
      headerLength: 16,
      nchunks: 4,
      chunkSize: -1,
      lastChunk: -1,
      checksum: "None",
    });
  });

  it("[F1.1-02] -1 chunks means unknown in every version", () => {
    const all = Array.from({ length: 8 }, () => 0xff);
    expect(decodeFileHeader(patched(16, ...all), "a.blp").nchunks).toBe(-1);
    expect(decodeFileHeader(Uint8Array.of(0x62, 0x6c, 0x70, 0x6b, 1, 0, 0, 0, ...all), "a.blp").nchunks).toBe(
      -1,
    );
  });

  it("[F1.2-03] sizes are -1 or not negative", () => {
    const unknown = decodeFileHeader(patched(8, ...Array.from({ length: 8 }, () => 0xff)), "a.blp");
    expect([unknown.chunkSize, unknown.lastChunk]).toEqual([-1, -1]);
    for (const at of [8, 12]) {
      const error = errorOf(() => decodeFileHeader(patched(at, 0xfe, 0xff, 0xff, 0xff), "a.blp"));
      expect(error.code).toBe("BAD_FIELD");
      expect(error.details).toMatchObject({ path: "a.blp", offset: at, found: -2 });
    }
  });

  it("[F1.1-03] reserved bytes of version 1 are zero", () => {
    const error = errorOf(() =>
      decodeFileHeader(hex("62 6c 70 6b 01 00 01 00 04 00 00 00 00 00 00 00"), "a.blp"),
    );
    expect(error.details).toMatchObject({ offset: 6, expected: "0", found: 1 });
  });

  it("[F1.2-05] bytes 24 to 31 of version 2 are zero", () => {
    const v2 = patched(4, 2, 1);
    expect(errorOf(() => decodeFileHeader(v2, "a.blp")).details).toMatchObject({ offset: 24, found: 10 });
    v2[24] = 0;
    expect(decodeFileHeader(v2, "a.blp")).toMatchObject({ version: 2, offsets: true, metadata: false });
  });

  it("[F1.2-01] [F1.2-02] option bits that the version does not define are refused", () => {
    for (const [version, options, good] of [
      [2, 0, true],
      [2, 1, true],
      [2, 2, false],
      [3, 3, true],
      [3, 4, false],
      [3, 0x80, false],
      [4, 3, true],
      [4, 9, false],
    ] as const) {
      const bytes = patched(4, version, options);
      if (version === 2) bytes[24] = 0;
      if (good) expect(decodeFileHeader(bytes, "a.blp").offsets).toBe((options & 1) === 1);
      else
        expect(errorOf(() => decodeFileHeader(bytes, "a.blp")).details).toMatchObject({
          offset: 5,
          found: options,
        });
    }
  });

  it("[F1.2-04] version 2 may have its length only in last-chunk", () => {
    const bytes = patched(4, 2, 1, 1, 8, 0, 0, 0, 0, 0xb8, 0x0b, 0, 0);
    bytes[24] = 0;
    expect(decodeFileHeader(bytes, "a.blp")).toMatchObject({ chunkSize: 0, lastChunk: 3000 });
  });

  it("[F1.3-04] from version 3 on the last chunk is no larger than the others", () => {
    const error = errorOf(() => decodeFileHeader(patched(12, 0xa1, 0x0f), "a.blp"));
    expect(error.code).toBe("BAD_FIELD");
    expect(error.details).toMatchObject({ offset: 12, field: "last-chunk", found: 4001 });
  });

  it("[F1.3-03] typesize is byte 7 and may have any value", () => {
    expect(decodeFileHeader(patched(7, 0), "a.blp").typesize).toBe(0);
    expect(decodeFileHeader(patched(7, 255), "a.blp").typesize).toBe(255);
  });

  it("[F1.4-01] [F1.4-02] version 4 is version 3 that must have offsets", () => {
    expect(decodeFileHeader(patched(4, 4, 1), "a.blp")).toMatchObject({
      version: 4,
      headerLength: 32,
      offsets: true,
    });
    expect(errorOf(() => decodeFileHeader(patched(4, 4, 2), "a.blp")).details).toMatchObject({
      offset: 5,
      field: "options",
    });
  });

  it("[FC-01] checksum numbers above 8 are refused", () => {
    expect(decodeFileHeader(patched(6, 8), "a.blp").checksum).toBe("sha512");
    for (const number of [9, 255]) {
      const error = errorOf(() => decodeFileHeader(patched(6, number), "a.blp"));
      expect([error.code, error.details]).toMatchObject(["BAD_FIELD", { offset: 6, found: number }]);
    }
  });

  it("[F1-02] unknown versions are UNSUPPORTED, and the message lists the known ones", () => {
    for (const version of [0, 5, 255]) {
      const error = errorOf(() => decodeFileHeader(patched(4, version), "a.blp"));
      expect(error.code).toBe("UNSUPPORTED");
      expect(error.message).toBe(
        `a.blp: the format version at byte 4 is ${version}; superchunk reads versions 1 to 4. Look for a newer superchunk`,
      );
    }
  });

  it("[F1-01] other first bytes are BAD_MAGIC", () => {
    const error = errorOf(() => decodeFileHeader(patched(0, 0x50), "a.blp"));
    expect(error.code).toBe("BAD_MAGIC");
    expect(error.message).toBe(
      'a.blp: the file starts with the bytes 50 6c 70 6b, not with 62 6c 70 6b ("blpk"). It is damaged, or not what its name says',
    );
  });

  it("counts of 2^62 and negative counts are BAD_FIELD before anything is allocated", () => {
    for (const at of [16, 24]) {
      expect(errorOf(() => decodeFileHeader(patched(at + 7, 0x40), "a.blp")).code).toBe("BAD_FIELD");
      expect(
        errorOf(() => decodeFileHeader(patched(at, 0xfe, ...Array.from({ length: 7 }, () => 0xff)), "a.blp"))
          .code,
      ).toBe("BAD_FIELD");
    }
  });
});

describe("damage", () => {
  it("a header cut at any byte is TRUNCATED", () => {
    for (let length = 0; length < V3.length; length++) {
      const error = errorOf(() => decodeFileHeader(V3.subarray(0, length), "a.blp"));
      expect([length, error.code]).toEqual([length, "TRUNCATED"]);
    }
  });

  it("each flipped bit is refused with an error of this library, or gives a header that encodes to exactly those bytes", () => {
    let refused = 0;
    for (let bit = 0; bit < V3.length * 8; bit++) {
      const bytes = V3.slice();
      bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      if (bit >> 3 === 4) bytes[24] = 0;
      try {
        const header = decodeFileHeader(bytes, "a.blp");
        expect(encodeFileHeader(header).subarray(0, header.headerLength)).toEqual(
          bytes.subarray(0, header.headerLength),
        );
      } catch (error) {
        expect(isSuperchunkError(error)).toBe(true);
        refused++;
      }
    }
    expect(refused).toBeGreaterThan(32);
  });
});

describe("writing", () => {
  const files = loadFixtures("bloscpack-1", "bloscpack-2", "bloscpack-3");

  it("there are files of every version", () => {
    expect(files.length).toBeGreaterThan(30);
  });

  it.each(files.map((fixture) => [fixture.path, fixture] as const))(
    "encode(decode(header)) is the header of %s",
    (path, fixture) => {
      const bytes = new Uint8Array(readFileSync(fixture.file));
      const header = decodeFileHeader(bytes, path);
      expect(encodeFileHeader(header)).toEqual(bytes.slice(0, header.headerLength));
      expect(`bloscpack-${header.version}`).toBe(fixture.dialect);
      expect(header.checksum).toBe(fixture.checksum ?? "None");
      if (fixture.chunks["nchunks"] !== undefined) expect(header.nchunks).toBe(fixture.chunks["nchunks"]);
      if (fixture.chunks["max_app_chunks"] !== undefined)
        expect(header.maxAppChunks).toBe(fixture.chunks["max_app_chunks"]);
      if (header.version > 1 && fixture.chunks["chunk_bytes"] !== undefined) {
        expect(header.chunkSize).toBe(fixture.chunks["chunk_bytes"]);
      }
    },
  );

  it("decode(encode(header)) is the header, for any header", () => {
    const headers: fc.Arbitrary<BlpkHeader> = fc
      .record({
        version: fc.constantFrom(3 as const, 4 as const),
        metadata: fc.boolean(),
        checksum: fc.constantFrom("None" as const, "crc32" as const, "sha512" as const),
        typesize: fc.integer({ min: 0, max: 255 }),
        chunkSize: fc.integer({ min: 0, max: 0x7fff_ffff }),
        lastChunk: fc.integer({ min: -1, max: 0x7fff_ffff }),
        nchunks: fc.integer({ min: -1, max: Number.MAX_SAFE_INTEGER }),
        metaSize: fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }),
      })
      .map((fields) => ({
        ...fields,
        headerLength: 32 as const,
        offsets: true,
        lastChunk: Math.min(fields.lastChunk, fields.chunkSize),
        maxAppChunks: fields.metaSize,
      }));
    fc.assert(
      fc.property(headers, (header) => {
        expect(decodeFileHeader(encodeFileHeader(header), "a.blp")).toEqual(header);
      }),
    );
  });

  it("a header that a reader would refuse is BAD_ARGUMENT", () => {
    const good = decodeFileHeader(V3, "a.blp");
    for (const bad of [
      { version: 4, offsets: false } as const,
      { lastChunk: 4001 },
      { nchunks: -2 },
      { nchunks: 1.5 },
      { chunkSize: 2 ** 31 },
      { typesize: 256 },
      { metaSize: -1, maxAppChunks: -1 },
      { maxAppChunks: 11 },
      { version: 1, headerLength: 16 } as const,
    ]) {
      expect(errorOf(() => encodeFileHeader({ ...good, ...bad })).code).toBe("BAD_ARGUMENT");
    }
  });
});

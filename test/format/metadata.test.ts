import { readFileSync } from "node:fs";
import { deflateSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { isSuperchunkError } from "../../src/errors.ts";
import { encodeSection } from "../../src/format/encode-file.ts";
import { decodeFileHeader } from "../../src/format/header.ts";
import { decodeSection, decodeSectionHeader, metadataKind } from "../../src/format/metadata.ts";
import { findFixture, loadFixtures } from "../fixtures/manifest.ts";
import { errorOf, hex, rejectionOf, toHex, utf8 } from "./hex.ts";

const zlib = (bytes: Uint8Array, level: number): Uint8Array => new Uint8Array(deflateSync(bytes, { level }));

const files = loadFixtures("bloscpack-3").filter(
  ({ file }) => decodeFileHeader(new Uint8Array(readFileSync(file)), file).metadata,
);

/** The section of a file, whole. */
function sectionOf(file: string): Uint8Array {
  const bytes = new Uint8Array(readFileSync(file));
  const { sectionLength } = decodeSectionHeader(bytes.subarray(32, 64), file, 32);
  return bytes.slice(32, 32 + sectionLength);
}

/** A section with fields of the header changed, and other text in it. */
async function forged(changes: { at: number; bytes: string }[], text?: Uint8Array): Promise<Uint8Array> {
  const section = await encodeSection({ k: "v" }, { checksum: "None", codec: "none", maxMetaSize: 200 });
  for (const { at, bytes } of changes) section.set(hex(bytes), at);
  if (text !== undefined) section.set(text, 32);
  return section;
}

function u32(value: number): string {
  return toHex(Uint8Array.of(value & 255, (value >> 8) & 255, (value >> 16) & 255, value >>> 24));
}

describe("sections that bloscpack wrote", () => {
  it("there are enough of them, of releases 0.3.0, 0.7.1 and 0.16.0", () => {
    expect(new Set(files.map(({ producer }) => producer.replace(/ \(.*/, "")))).toEqual(
      new Set(["bloscpack 0.3.0", "bloscpack 0.7.1", "bloscpack 0.16.0"]),
    );
    expect(files.length).toBeGreaterThan(10);
  });

  it.each(files.map((fixture) => [fixture.path, fixture] as const))(
    "%s has the metadata that the manifest gives",
    async (path, fixture) => {
      const section = sectionOf(fixture.file);
      expect(metadataKind(section)).toBe("bloscpack");
      const { value, header } = await decodeSection(section, path, 32);
      if (fixture.kind === "bytes") expect(value).toEqual(fixture.attrs);
      else expect(value).toMatchObject({ container: "numpy", shape: fixture.shape, order: fixture.order });
      expect(section).toHaveLength(header.sectionLength);
    },
  );

  it.each(files.map((fixture) => [fixture.path, fixture] as const))(
    "[FM.1-08] [FM.1-09] the same value gives the bytes of %s",
    async (path, fixture) => {
      const section = sectionOf(fixture.file);
      const { value, header } = await decodeSection(section, path, 32);
      const { checksum, level, maxMetaSize } = header;
      const written = await encodeSection(value, { checksum, level, maxMetaSize });
      // bloscpack 0.3.0 wrote its JSON with spaces, so its meta-size differs.
      if (fixture.producer === "bloscpack 0.3.0") written.set(section.subarray(12, 16), 12);
      expect(toHex(written) === toHex(section)).toBe(true);
    },
  );
});

describe("writing", () => {
  it("the space is ten times the text by default, the checksum adler32, the level 6", async () => {
    const section = await encodeSection({ k: "v", n: [1, 2] });
    expect(decodeSectionHeader(section, "a.blp", 32)).toMatchObject({
      checksum: "adler32",
      codec: "none",
      level: 6,
      metaSize: 19,
      maxMetaSize: 190,
      metaCompSize: 19,
      sectionLength: 32 + 190 + 4,
    });
  });

  it("fflate's stream follows zlib's rules, and every value comes back", async () => {
    const value = {
      text: "abc".repeat(1000),
      big: 2n ** 70n,
      none: null,
      list: [Number.NaN, Number.NEGATIVE_INFINITY],
    };
    for (const checksum of ["None", "adler32", "sha512"] as const) {
      const section = await encodeSection(value, { checksum });
      expect((await decodeSection(section, "a.blp", 32)).value).toEqual(value);
      expect(decodeSectionHeader(section, "a.blp", 32).codec).toBe("zlib");
    }
  });

  it("text that does not fit its space is BAD_ARGUMENT", async () => {
    expect((await rejectionOf(encodeSection({ k: "value" }, { maxMetaSize: 12 }))).code).toBe("BAD_ARGUMENT");
  });
});

describe("damage", () => {
  it("[FM-01] [FM.2-01] a section that does not start with JSON and four zeros is the BLZ document's raw JSON", () => {
    expect(metadataKind(utf8('{"dtype"'))).toBe("blz-json");
    expect(metadataKind(hex("4a 53 4f 4e 00 00 00 01"))).toBe("blz-json");
    expect(metadataKind(hex("4a 53 4f 4e 00 00 00 00"))).toBe("bloscpack");
  });

  it.each([
    ["[FM.1-02] options", 8, "01", "BAD_FIELD", "meta-options"],
    ["[FM.1-03] an unknown checksum", 9, "09", "BAD_FIELD", "meta-checksum"],
    ["[FM.1-04] an unknown codec", 10, "02", "BAD_FIELD", "meta-codec"],
    ["more text than space", 20, "c9 00 00 00", "BAD_FIELD", "meta-comp-size"],
    ["[FM.1-06] sizes that differ without a codec", 12, "0a 00 00 00", "BAD_FIELD", "meta-size"],
  ])("%s is refused", async (_, at, bytes, code, field) => {
    const section = await forged([{ at, bytes }]);
    const error = errorOf(() => decodeSectionHeader(section, "a.blp", 32));
    expect(error.code).toBe(code);
    expect(error.details).toMatchObject({ path: "a.blp", offset: 32 + at, field });
  });

  it("[FM.1-07] a claimed size of 4 GB is LIMIT, without an allocation", async () => {
    const section = await forged([
      { at: 10, bytes: "01" },
      { at: 12, bytes: "ff ff ff ff" },
    ]);
    expect(errorOf(() => decodeSectionHeader(section, "a.blp", 32)).code).toBe("LIMIT");
  });

  it("a decompression bomb stops at the claimed size", async () => {
    const bomb = zlib(new Uint8Array(60 << 20), 9);
    const section = new Uint8Array(32 + bomb.length);
    section.set(hex(`4a534f4e00000000 00 00 01 09 ${u32(10)} ${u32(bomb.length)} ${u32(bomb.length)}`));
    section.set(bomb, 32);
    const before = process.memoryUsage().arrayBuffers;
    const error = await rejectionOf(decodeSection(section, "a.blp", 32));
    expect(error.code).toBe("BAD_FIELD");
    expect(error.message).toContain("gives more than meta-size 10 bytes");
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(16 << 20);
  });

  it("a stream of another length, with a wrong adler32, truncated, or missing is BAD_FIELD", async () => {
    const text = utf8(JSON.stringify({ k: "v".repeat(100) }));
    const stream = zlib(text, 6);
    const variants: [Uint8Array, number][] = [
      [stream, text.length + 1],
      [stream, text.length - 1],
      [stream.map((byte, i) => (i === stream.length - 1 ? byte ^ 1 : byte)), text.length],
      [stream.subarray(0, stream.length - 5), text.length],
      [new Uint8Array(stream.length).fill(0x55), text.length],
      [zlib(text, 0).map((byte, i) => (i === 3 ? byte ^ 0x40 : byte)), text.length],
    ];
    for (const [bytes, metaSize] of variants) {
      const section = await forged(
        [
          { at: 10, bytes: "01" },
          { at: 12, bytes: u32(metaSize) },
          { at: 20, bytes: u32(bytes.length) },
        ],
        bytes,
      );
      expect((await rejectionOf(decodeSection(section, "a.blp", 32))).code).toBe("BAD_FIELD");
    }
  });

  it("[FC-05] the digest is compared before anything is unpacked", async () => {
    const section = sectionOf(findFixture("bloscpack-3/meta-zlib.blp").file);
    section[40] = (section[40] ?? 0) ^ 1;
    const error = await rejectionOf(decodeSection(section, "a.blp", 32));
    expect(error.code).toBe("CHECKSUM_MISMATCH");
    expect(error.details).toMatchObject({ path: "a.blp", field: "adler32", offset: 32 + section.length - 4 });
  });

  it("a section cut at any byte is TRUNCATED", async () => {
    const section = sectionOf(findFixture("bloscpack-3/meta-plain-md5.blp").file);
    for (let length = 0; length < section.length; length++) {
      expect((await rejectionOf(decodeSection(section.subarray(0, length), "a.blp", 32))).code).toBe(
        "TRUNCATED",
      );
    }
  });

  it("each flipped bit of a section is refused, or changes nothing that is read", async () => {
    for (const path of ["bloscpack-3/meta-plain-md5.blp", "bloscpack-3/v0.3.0-meta.blp"]) {
      const section = sectionOf(findFixture(path).file);
      const whole = await decodeSection(section, path, 32);
      const textEnd = 32 + whole.header.metaCompSize;
      const digestAt = 32 + whole.header.maxMetaSize;
      for (let byte = 0; byte < section.length; byte++) {
        // The level, the user's codec bytes and the padding zeros are not read.
        const free = byte === 11 || (byte >= 24 && byte < 32) || (byte >= textEnd && byte < digestAt);
        for (const mask of [1, 0x80]) {
          const bytes = section.slice();
          bytes[byte] = (bytes[byte] ?? 0) ^ mask;
          const outcome = await decodeSection(bytes, path, 32).catch((error: unknown) => error);
          // Another checksum number may mean none, which leaves nothing to compare but moves the section's end.
          if (byte === 9 && !isSuperchunkError(outcome))
            expect(outcome).toMatchObject({ header: { checksum: "None" } });
          else if (free) expect(outcome).toMatchObject({ value: whole.value });
          else expect([byte, isSuperchunkError(outcome)]).toEqual([byte, true]);
        }
      }
    }
  });
});

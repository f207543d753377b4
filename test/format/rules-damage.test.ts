/** Rules of FORMAT.md about files, on whole files with one thing changed. */
import { expect, test } from "vitest";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/archive/open/open.ts";
import { encodeFileHeader, encodeSection } from "../../src/format/encode-file.ts";
import { headerOfVersion1 } from "../../src/format/header.ts";
import { encodeJournal } from "../../src/format/journal.ts";
import { type Case, type Objects, patched, storeOf, testCases, testWhole } from "./damaged-archives.ts";
import { hex, utf8 } from "./hex.ts";
import { ABC, type FileParts, makeFile, stored } from "./small-archives.ts";

/** One `blp` file made by hand with bytes changed in it. */
const file =
  (parts: FileParts, at: number, bytes: string, length?: number) => async (): Promise<Objects> => ({
    "a.blp": patched(await makeFile(parts), at, bytes).slice(0, length),
  });

const WALKED: FileParts = { chunks: ABC };
const OFFSETS: FileParts = { chunks: ABC, spare: 1 };
const SUMS: FileParts = { chunks: ABC, spare: 1, checksum: "crc32" };
/** Where the first chunk of `OFFSETS` is. */
const FIRST = 32 + 4 * 8;

/** Version 1: a header and bare chunks. */
const bare = (at: number, bytes: string) => (): Objects => ({
  "a.blp": patched(
    Uint8Array.from([...encodeFileHeader(headerOfVersion1(3)), ...ABC.flatMap((chunk) => [...chunk])]),
    at,
    bytes,
  ),
});

/** Two blocks of 128 bytes, each one stream of lz4, not split, no filter: 128 sevens, and 128 zeros. */
const BLOCKS = hex(`02 01 30 01  00 01 00 00  80 00 00 00  36 00 00 00  18 00 00 00  27 00 00 00
  0b 00 00 00  1f 07 01 00 67 50 07 07 07 07 07  0b 00 00 00  1f 00 01 00 67 50 00 00 00 00 00`);
/** Where the first block starts in it. */
const START = 24;
const TWICE: FileParts = { chunks: [BLOCKS, BLOCKS], spare: 0, chunkSize: 256, lastChunk: 256 };
/** A file of two such chunks, changed at byte `at` of the first. */
const blocks = (at: number, bytes: string) => file(TWICE, 48 + at, bytes);
/** Two blocks of 8 bytes, each one stored stream, which take more space than the raw bytes. */
const LONG = hex(`02 01 10 01  10 00 00 00  08 00 00 00  30 00 00 00  18 00 00 00  24 00 00 00
  08 00 00 00  00 01 02 03 04 05 06 07  08 00 00 00  08 09 0a 0b 0c 0d 0e 0f`);
/** Four blocks of 257 bytes that would be split into elements of two. */
const ODD = Uint8Array.from([
  ...hex("02 01 00 02  04 04 00 00  01 01 00 00  60 00 00 00"),
  ...new Uint8Array(80),
]);

const section = async (change: (bytes: Uint8Array) => Uint8Array, options = {}): Promise<Objects> => ({
  "a.blp": await makeFile({ chunks: ABC, section: change(await encodeSection({ unit: "m" }, options)) }),
});
const numpy = async (members: object): Promise<Objects> => ({
  "a.blp": await makeFile({
    chunks: ABC,
    section: await encodeSection({
      dtype: "'|u1'",
      shape: [10],
      order: "C",
      container: "numpy",
      ...members,
    } as never),
  }),
});

const journaled = async (change: (journal: Uint8Array) => Uint8Array, at = FIRST): Promise<Objects> => ({
  "a.blp": await makeFile({ ...OFFSETS, version: 4 }),
  "a.blp.journal": change(await encodeJournal([{ offset: at, bytes: stored(utf8("wxyz")) }])),
});

const HEADERS: readonly Case[] = [
  ["[F1-01] [F1-04]", "another magic", file(WALKED, 0, "00"), "BAD_MAGIC"],
  ["[F1-01]", "an end before the fourth byte", file(WALKED, 0, "", 3), "TRUNCATED"],
  ["[F1-02]", "version 9", file(WALKED, 4, "09"), "UNSUPPORTED"],
  ["[F1-03]", "a count beyond 2^53", file(WALKED, 16, "00 00 00 00 00 00 00 40"), "BAD_FIELD"],
  ["[F1.1-02]", "nchunks -2 in version 1", bare(8, "fe ff ff ff ff ff ff ff"), "BAD_FIELD"],
  ["[F1.1-03]", "a reserved byte in version 1", bare(6, "01"), "BAD_FIELD"],
  [
    "[F1.2-02]",
    "an option that version 2 does not have",
    file({ ...OFFSETS, version: 2, spare: 0 }, 5, "03"),
    "BAD_FIELD",
  ],
  ["[F1.2-03]", "chunk-size -2", file(WALKED, 8, "fe ff ff ff"), "BAD_FIELD"],
  [
    "[F1.2-05]",
    "bytes 24 to 31 in version 2",
    file({ ...OFFSETS, version: 2, spare: 0 }, 24, "01"),
    "BAD_FIELD",
  ],
  ["[F1.3-04]", "last-chunk above chunk-size", file(WALKED, 12, "05"), "BAD_FIELD"],
  ["[F1.4-02]", "version 4 without offsets", file(WALKED, 4, "04"), "BAD_FIELD"],
  ["[FC-01]", "checksum 9", file(WALKED, 6, "09"), "BAD_FIELD"],
  ["[FC-05]", "a changed byte of a chunk", file(SUMS, FIRST + 16, "00"), "CHECKSUM_MISMATCH"],
  ["[FC-05]", "a changed byte of a digest", file(SUMS, FIRST + 20, "00"), "CHECKSUM_MISMATCH"],
];

const METADATA: readonly Case[] = [
  ["[FM.1-02]", "meta-options 1", () => section((bytes) => patched(bytes, 8, "01")), "BAD_FIELD"],
  ["[FM.1-03]", "meta-checksum 9", () => section((bytes) => patched(bytes, 9, "09")), "BAD_FIELD"],
  ["[FM.1-04]", "meta-codec 2", () => section((bytes) => patched(bytes, 10, "02")), "BAD_FIELD"],
  [
    "[FM.1-05]",
    "meta-comp-size above max-meta-size",
    () => section((bytes) => patched(bytes, 20, "ff ff")),
    "BAD_FIELD",
  ],
  [
    "[FM.1-06]",
    "another meta-size without a codec",
    () => section((bytes) => patched(bytes, 12, "05"), { codec: "none" }),
    "BAD_FIELD",
  ],
  [
    "[FM.1-07]",
    "meta-size of 65 MiB",
    () => section((bytes) => patched(bytes, 10, "01 06 00 00 10 04")),
    "LIMIT",
  ],
  [
    "[FM.1-07]",
    "a zlib stream of 3 bytes",
    () =>
      section((bytes) => patched(patched(bytes, 10, "01"), 20, "03"), { codec: "none", checksum: "None" }),
    "TRUNCATED",
  ],
  [
    "[FC-05]",
    "a changed byte of the metadata",
    () => section((bytes) => patched(bytes, 33, "00"), { codec: "none" }),
    "CHECKSUM_MISMATCH",
  ],
  [
    "[F1.3-02] [FM.2-01]",
    "reserved bytes after the meta-size of raw JSON",
    async () => ({
      "a.blp": patched(await makeFile({ chunks: ABC, section: utf8("{}") }), 24, "02 00 00 00 01"),
    }),
    "BAD_FIELD",
  ],
  ["[FM.3-01]", "a shape that implies other bytes", () => numpy({ shape: [11] }), "BAD_FIELD"],
  ["[FM.3-01]", "an order that does not exist", () => numpy({ order: "A" }), "BAD_FIELD"],
  ["[FD-03]", "a size that a letter cannot have", () => numpy({ dtype: "'<i3'" }), "BAD_FIELD"],
  ["[FD-04]", "items of 2^31 bytes", () => numpy({ dtype: "'|S2147483648'" }), "BAD_FIELD|UNSUPPORTED"],
  ["[FD.3-02]", "81 levels", () => numpy({ dtype: `${"[".repeat(81)}${"]".repeat(81)}` }), "LIMIT"],
  ["[FD-03]", "a letter that is not known", () => numpy({ dtype: "'<q7'" }), "UNSUPPORTED"],
  [
    "[FD.4-04]",
    "two fields with one name",
    () => numpy({ dtype: "[('a', '|u1'), ('a', '|u1')]", shape: [5] }),
    "BAD_FIELD",
  ],
  [
    "[FD.4-03]",
    "an itemsize that does not hold the fields",
    () => numpy({ dtype: "{'names': ['a'], 'formats': ['<i4'], 'itemsize': 2}", shape: [5] }),
    "BAD_FIELD",
  ],
];

const PLACES: readonly Case[] = [
  ["[FO-02]", "an offset in the table", file(OFFSETS, 40, "20 00"), "BAD_FIELD"],
  ["[FO-02] [FO-08]", "an offset past the end", file(OFFSETS, 48, "00 10"), "TRUNCATED"],
  ["[FO-03]", "two offsets too close", file(OFFSETS, 40, "45 00"), "BAD_FIELD"],
  ["[FO-03] [FB-01]", "a chunk that reaches into the next", file(TWICE, 48 + 12, "ff"), "BAD_FIELD"],
  ["[FO-04]", "a spare entry with an offset", file(OFFSETS, 56, "60 00 00 00 00 00 00 00"), "BAD_FIELD"],
  ["[FO-05]", "a chunk that was never written", file(OFFSETS, 40, "ff ff ff ff ff ff ff ff"), "INCOMPLETE"],
  ["[FO-07]", "offsets, and nchunks -1", file(OFFSETS, 16, "ff ff ff ff ff ff ff ff"), "BAD_FIELD"],
  ["[FO-07]", "a table longer than the file", file(OFFSETS, 20, "10"), "TRUNCATED"],
  [
    "[FO-08] [FB-01]",
    "a last chunk that ends past the file",
    file(TWICE, 48 + BLOCKS.length + 12, "ff"),
    "TRUNCATED",
  ],
  ["[FW-03]", "fewer chunks than nchunks", file(WALKED, 16, "04"), "TRUNCATED"],
  ["[FW-03]", "bytes between two chunks that are not a chunk", file(WALKED, 32 + 20, "07"), "BAD_FIELD"],
  [
    "[FS-01]",
    "a chunk of another length",
    file({ ...OFFSETS, chunks: [stored(utf8("abcd")), stored(utf8("efg")), stored(utf8("ij"))] }, 0, ""),
    "BAD_FIELD",
  ],
  ["[FS-01]", "a last chunk of another length", file({ ...OFFSETS, lastChunk: 3 }, 0, ""), "BAD_FIELD"],
];

const CHUNKS: readonly Case[] = [
  ["[FB-02]", "Blosc version 3", blocks(0, "03"), "BAD_FIELD"],
  ["[FB-03]", "typesize 0", blocks(3, "00"), "BAD_FIELD"],
  ["[FB-04]", "an nbytes that ctbytes cannot hold", blocks(4, "00 00 00 7f"), "BAD_FIELD"],
  ["[FB-05]", "blocksize 0", blocks(8, "00"), "BAD_FIELD"],
  ["[FB-05]", "blocksize above nbytes", blocks(8, "01 01"), "BAD_FIELD"],
  ["[FB-06]", "a stored chunk with another ctbytes", file(OFFSETS, FIRST + 12, "13"), "BAD_FIELD"],
  ["[FB-07]", "a block that starts in the table", blocks(16, "10"), "BAD_FIELD"],
  ["[FB-07]", "a block that starts past the chunk", blocks(20, "ff ff"), "BAD_FIELD"],
  ["[FB-07]", "two blocks that start together", blocks(20, START.toString(16)), "BAD_FIELD"],
  [
    "[FB-08]",
    "split blocks that cut elements",
    file({ chunks: [ODD], spare: 0, chunkSize: 1028, lastChunk: 1028 }, 0, ""),
    "BAD_FIELD",
  ],
  ["[FB-09]", "a stream longer than the remaining bytes", blocks(START, "ff 0f"), "BAD_CHUNK"],
  ["[FB-09]", "a stream that ends after the next block starts", blocks(20, "1c"), "BAD_CHUNK"],
  ["[FB-09]", "a stream of negative length", blocks(START, "ff ff ff ff"), "BAD_CHUNK"],
  ["[FB-09]", "a stream that decodes to something else", blocks(START, "04"), "BAD_CHUNK"],
  [
    "[FB-15]",
    "a ctbytes that is more than nbytes + 16",
    file({ chunks: [LONG, LONG], spare: 0, chunkSize: 16, lastChunk: 16 }, 0, ""),
    "BAD_FIELD",
  ],
  [
    "[FB-14]",
    "an empty chunk in the middle",
    file({ ...OFFSETS, chunks: [ABC[0] ?? BLOCKS, stored(utf8("")), stored(utf8("ij"))] }, 0, ""),
    "BAD_FIELD",
  ],
];

const JOURNALS: readonly Case[] = [
  ["[FR-01]", "another magic", () => journaled((bytes) => patched(bytes, 0, "00")), "BAD_MAGIC"],
  ["[FR-01]", "less than a header and a digest", () => journaled((bytes) => bytes.slice(0, 40)), "TRUNCATED"],
  [
    "[FR-01]",
    "another version",
    () => journaled((bytes) => patched(bytes, 8, "07")),
    "UNSUPPORTED|CHECKSUM_MISMATCH",
  ],
  [
    "[FR-01]",
    "another digest",
    () => journaled((bytes) => patched(bytes, bytes.length - 1, "00 ".repeat(1))),
    "CHECKSUM_MISMATCH",
  ],
  ["[FR-01]", "a hole past the end of the file", () => journaled((bytes) => bytes, 4096), "BAD_FIELD"],
];

/** What a reader must accept: the same files with variations that other programs write. */
const ACCEPTED: readonly Case[] = [
  [
    "[F1.2-04]",
    "last-chunk above a chunk-size of 0 in a file of one chunk",
    file({ version: 2, chunks: ABC.slice(0, 1), spare: 0, chunkSize: 0, lastChunk: 4 }, 0, ""),
    "ok",
  ],
  ["[F1.3-03]", "another typesize for the file", file(WALKED, 7, "09"), "ok"],
  ["[F1.3-05]", "bytes after the last chunk", file({ ...WALKED, behind: utf8("left over") }, 0, ""), "ok"],
  [
    "[FR-03]",
    "a journal next to version 3",
    async () => ({ ...(await file(OFFSETS, 0, "")()), "a.blp.journal": "left over" }),
    "ok",
  ],
  [
    "[FS-04]",
    "chunks of unequal lengths with chunk-size -1",
    file(
      {
        chunks: [stored(utf8("abcd")), stored(utf8("e")), stored(utf8("fgh"))],
        chunkSize: -1,
        lastChunk: -1,
      },
      0,
      "",
    ),
    "ok",
  ],
];

test("[FD.6-02] a character above U+10FFFF is BAD_FIELD when the text is read", async () => {
  const section = await encodeSection({ dtype: "'<U1'", shape: [1], order: "C", container: "numpy" });
  const bytes = await makeFile({ chunks: [stored(hex("00 00 11 00"))], section });
  const archive = (await open(storeOf({ "a.blp": bytes }), "a.blp")) as ArrayArchive;
  const { data } = (await archive.get()) as { data: { get(index: number): string } };
  expect(() => data.get(0)).toThrow(expect.objectContaining({ code: "BAD_FIELD" }));
});

testCases([
  ["what is accepted", ACCEPTED],
  ["headers and digests", HEADERS],
  ["metadata", METADATA],
  ["offsets, walking and sizes", PLACES],
  ["Blosc chunks", CHUNKS],
  ["journals", JOURNALS],
]);

testWhole([
  file(WALKED, 0, ""),
  file(SUMS, 0, ""),
  bare(0, ""),
  blocks(0, ""),
  () => section((bytes) => bytes),
  () => numpy({}),
  () => journaled((bytes) => bytes),
]);

/** Joined streams decode to what their parts decode to, one after the other. */

import { snappyUncompress } from "hyparquet";
import { expect, test } from "vitest";
import { decodeHeader, decodeStream, encode, leaseDecoder, prepareEncode } from "../../src/codec/index.ts";
import { type BloscPage, joinPage, pagesOfChunk } from "../../src/parquet/blosc-pages.ts";
import { type JoinableCodec, joinStreams, type StreamPiece } from "../../src/parquet/join-streams.ts";
import { withoutPrefix } from "../../src/parquet/without-prefix.ts";

async function decoded(codec: JoinableCodec, stream: Uint8Array, length: number): Promise<Uint8Array> {
  if (codec !== "snappy") return decodeStream(codec, stream, length);
  const out = new Uint8Array(length);
  snappyUncompress(stream, out);
  return out;
}

/** Bytes that compress, and bytes that do not. */
function sample(length: number, kind: "text" | "noise"): Uint8Array {
  let state = 12345;
  return Uint8Array.from({ length }, (_, i) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return kind === "noise" ? state >>> 24 : ("abcdabce"[(i + (state >>> 30)) % 8]?.charCodeAt(0) ?? 0);
  });
}

function pagesOf(chunk: Uint8Array): BloscPage[] {
  return [...pagesOfChunk(chunk, decodeHeader(chunk), 1)];
}

test.each([
  ["lz4", "shuffle", 4],
  ["lz4", "noshuffle", 4],
  ["lz4hc", "shuffle", 8],
  ["blosclz", "shuffle", 4],
] as const)(
  "seams of %s (%s, %d bytes) that the decoder found are those of a search",
  async (cname, shuffle, typesize) => {
    // Noise in between, so that some streams are stored.
    const values = Buffer.concat([sample(90_000, "text"), sample(90_000, "noise"), sample(90_004, "text")]);
    await prepareEncode();
    const chunk = await encode(values, { cname, shuffle, typesize, blocksize: 32_768 });
    const lease = leaseDecoder(chunk.length);
    lease.input.set(chunk);
    for (const { start, length, pieces } of pagesOf(chunk)) {
      const rows = lease.decodeRange(start, length);
      expect(values.subarray(start, start + length).equals(rows)).toBe(true);
      // Streams of blosclz have none: here they are already lz4.
      expect(lease.lastSequences.length).toBe(
        cname === "blosclz" ? 0 : pieces.filter(({ stored }) => !stored).length,
      );
      const levels = Uint8Array.of(1, 2, 3);
      const body = joinPage("lz4", levels, pieces, undefined, lease.lastSequences.values());
      expect(Buffer.from(joinPage("lz4", levels, pieces)).equals(body)).toBe(true);
    }
    lease.release();
  },
);

test.each(["lz4", "zstd", "snappy"] as const)(
  "%s streams, stored ones among them, become one",
  async (codec) => {
    const texts = [
      sample(700, "text"),
      sample(3, "noise"),
      sample(400, "noise"),
      sample(5000, "text"),
      sample(17, "text"),
    ];
    const pieces: StreamPiece[] = [];
    for (const [i, bytes] of texts.entries()) {
      const chunk = await encode(bytes, { cname: codec, shuffle: "noshuffle", clevel: 5 });
      const [page] = pagesOf(chunk);
      pieces.push(
        ...(i === 1 || page === undefined ? [{ bytes, stored: true, length: bytes.length }] : page.pieces),
      );
    }
    const expected = Buffer.concat(texts);
    for (let from = 0; from < pieces.length; from++) {
      const some = pieces.slice(from);
      const length = some.reduce((sum, piece) => sum + piece.length, 0);
      const stream = joinStreams(codec, some);
      const found = Buffer.from(await decoded(codec, stream, length));
      expect(found.equals(expected.subarray(expected.length - length))).toBe(true);
    }
  },
);

test.each(["lz4", "zstd", "snappy"] as const)("a page of %s begins with its levels", async (codec) => {
  const values = sample(4096, "text");
  const chunk = await encode(values, { cname: codec, shuffle: "noshuffle" });
  const [page] = pagesOf(chunk);
  const levels = Uint8Array.of(2, 0, 0, 0, 16, 1);
  const body = joinPage(codec, levels, page?.pieces ?? []);
  expect(Buffer.concat([levels, values]).equals(await decoded(codec, body, 6 + 4096))).toBe(true);
});

test.each(["lz4", "zstd", "snappy"] as const)("levels are removed from a page of %s again", async (codec) => {
  const levels = Uint8Array.of(2, 0, 0, 0, 16, 1);
  for (const values of [sample(4096, "text"), sample(4096, "noise"), sample(3, "noise")]) {
    const chunk = await encode(values, { cname: codec, shuffle: "noshuffle" });
    const [page] = pagesOf(chunk);
    const body = joinPage(codec, levels, page?.pieces ?? []);
    const stream = withoutPrefix(codec, body, levels);
    expect(Buffer.from(await decoded(codec, stream ?? body, values.length)).equals(values)).toBe(true);
    // Other bytes, more than there are literals, and streams that are cut off.
    expect(
      withoutPrefix(
        codec,
        body,
        levels.map((byte) => byte ^ 1),
      ),
    ).toBeUndefined();
    expect(withoutPrefix(codec, body, new Uint8Array(9000))).toBeUndefined();
    for (let end = 0; end < 8; end++)
      expect(withoutPrefix(codec, body.subarray(0, end), levels)).toBeUndefined();
  }
});

test("long runs of literals at a seam have multi-byte lengths", async () => {
  const noise = sample(70_000, "noise");
  const stored = { bytes: noise, stored: true, length: noise.length };
  for (const codec of ["lz4", "zstd", "snappy"] as const) {
    const stream = joinStreams(codec, [stored, stored]);
    const found = Buffer.from(await decoded(codec, stream, 140_000));
    expect(found.equals(Buffer.concat([noise, noise]))).toBe(true);
  }
});

test("an lz4 stream whose lengths do not add up is refused, not joined", () => {
  const literals = { bytes: Uint8Array.of(0x30, 1, 2, 3), stored: false, length: 3 };
  expect(joinStreams("lz4", [literals, literals])).toEqual(Uint8Array.of(0x60, 1, 2, 3, 1, 2, 3));
  for (const bytes of [[], [0xf0], [0xf0, 255], [0x31, 1, 2, 3, 1, 0], [0x30, 1, 2]])
    expect(() => joinStreams("lz4", [literals, { ...literals, bytes: Uint8Array.from(bytes) }])).toThrow(
      expect.objectContaining({ code: "BAD_CHUNK" }),
    );
});

import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import {
  blockRanges,
  decode,
  decodeBlocks,
  decodeRange,
  decodeSync,
  headLength,
  info,
  leaseDecoder,
} from "../../src/codec/index.ts";
import { listProducers, readFixtureChunks } from "./fixture-chunks.ts";

const producers = listProducers();

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** Ranges that cross elements, blocks and ends. */
function rangesOf(nbytes: number): [start: number, length: number][] {
  const marks = [0, 1, 7, 127, 128, 129, 1023, 1024, 1025, nbytes >> 1, nbytes - 1, nbytes].filter(
    (mark) => mark >= 0 && mark <= nbytes,
  );
  return marks.flatMap((start) =>
    marks.filter((end) => end >= start).map((end) => [start, end - start] as [number, number]),
  );
}

test("there are fixtures of several producers", () => {
  expect(producers).toContain("c-blosc-1.21.7");
  expect(producers.length).toBeGreaterThan(3);
});

describe.each(producers)("chunks of %s", (producer) => {
  const chunks = readFixtureChunks(producer);

  test("decode to the bytes that were given to the producer", async () => {
    for (const { name, chunk, nbytes, sha256: expected } of chunks) {
      const decoded = await decode(chunk, { expectedNbytes: nbytes });
      expect(sha256(decoded), name).toBe(expected);
    }
  });

  test("report their settings", () => {
    for (const { name, chunk, nbytes, typesize, shuffle, cname } of chunks) {
      const header = info(chunk);
      expect(header, name).toMatchObject({ nbytes, typesize, ctbytes: chunk.length });
      // A stored chunk may name no filter; lz4hc has no number of its own.
      if (header.memcpyed) continue;
      expect([header.shuffle, header.compressor], name).toEqual([shuffle, cname === "lz4hc" ? "lz4" : cname]);
    }
  });

  test("decode in part to the same bytes as in whole, from the whole chunk or only the blocks needed", async () => {
    for (const { name, chunk } of chunks) {
      const whole = decodeSync(chunk);
      const head = chunk.subarray(0, headLength(info(chunk)));
      for (const [start, length] of rangesOf(whole.length)) {
        const expected = whole.subarray(start, start + length);
        const part = await decodeRange(chunk, start, length);
        const range = blockRanges(head, start, length);
        const bytes = chunk.slice(range.offset, range.offset + range.length);
        const remote = decodeBlocks(head, { bytes, offset: range.offset }, start, length);
        if (Buffer.compare(part, expected) !== 0 || Buffer.compare(remote, expected) !== 0) {
          expect.fail(`${name}: bytes ${start} to ${start + length} differ`);
        }
      }
    }
    expect(chunks.length).toBeGreaterThan(20);
  });

  test("decode in leased memory to the same bytes", () => {
    for (const { name, chunk, nbytes, sha256: expected } of chunks) {
      const lease = leaseDecoder(chunk.length);
      lease.input.set(chunk);
      expect(sha256(lease.decodeRange(0, nbytes)), name).toBe(expected);
      lease.release();
    }
  });
});

describe("c-blosc's own compatibility set", () => {
  // Not part of the project: read if it exists next to it.
  const folder = new URL("../../../shared/c-blosc-compat/", import.meta.url);
  const names = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith(".cdata")) : [];

  test("decodes to a million ascending int32, if the set is present", async () => {
    const expected = new Uint8Array(Int32Array.from({ length: 1_000_000 }, (_, i) => i).buffer);
    for (const name of names) {
      const decoded = await decode(new Uint8Array(readFileSync(new URL(name, folder))));
      expect(Buffer.compare(decoded, expected), name).toBe(0);
    }
    expect(names.length > 0).toBe(existsSync(folder));
  });
});

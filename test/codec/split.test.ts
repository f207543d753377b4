/** Blocks cut into one stream per byte of an element, some stored, some compressed. */
import { describe, expect, test } from "vitest";
import { decodeRangeSync, decodeSync, info, leaseDecoder } from "../../src/codec/index.ts";
import { errorOf, FLAGS, makeChunk } from "./chunk-maker.ts";

const FILTERS = { noshuffle: 0, shuffle: 1, bitshuffle: 4 } as const;
type Filter = keyof typeof FILTERS;

function makeBytes(length: number, seed: number): Uint8Array {
  let state = seed;
  return Uint8Array.from({ length }, () => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return state >> 16;
  });
}

/** Bytes of `count` elements as the filter arranges them. */
function filterBytes(data: Uint8Array, filter: Filter, typesize: number): Uint8Array {
  const count = Math.floor(data.length / typesize);
  if (filter === "noshuffle" || (filter === "bitshuffle" && count % 8 !== 0)) return data;
  const out = data.slice();
  if (filter === "bitshuffle") out.fill(0, 0, count * typesize);
  for (let i = 0; i < count; i++) {
    for (let j = 0; j < typesize; j++) {
      const byte = data[i * typesize + j] ?? 0;
      if (filter === "shuffle") out[j * count + i] = byte;
      for (let k = 0; filter === "bitshuffle" && k < 8; k++) {
        const at = (8 * j + k) * (count / 8) + (i >> 3);
        out[at] = (out[at] ?? 0) | (((byte >> k) & 1) << (i & 7));
      }
    }
  }
  return out;
}

/** LZ4 that holds the bytes as literals: longer than the bytes, so that it cannot be taken for stored ones. */
function compress(bytes: Uint8Array): Uint8Array {
  const runs = new Array<number>(Math.floor((bytes.length - 15) / 255)).fill(255);
  return Uint8Array.from([0xf0, ...runs, (bytes.length - 15) % 255, ...bytes]);
}

interface Shape {
  readonly typesize: number;
  readonly filter: Filter;
  /** Elements of a whole block. */
  readonly count: number;
  readonly isCompressed: (stream: number) => boolean;
}

/** Two whole blocks, and a short one that is not split. */
function makeSplit({ typesize, filter, count, isCompressed }: Shape): {
  data: Uint8Array;
  chunk: Uint8Array;
} {
  const blocksize = count * typesize;
  const rest = 40 * typesize + 1;
  const data = makeBytes(2 * blocksize + rest, typesize * count);
  const blocks = [0, 1].map((block) => {
    const filtered = filterBytes(data.subarray(block * blocksize, (block + 1) * blocksize), filter, typesize);
    return Array.from({ length: typesize }, (_, j) => {
      const stream = filtered.subarray(j * count, (j + 1) * count);
      return isCompressed(j + block) ? compress(stream) : stream;
    });
  });
  const last = filterBytes(data.subarray(2 * blocksize), filter, typesize);
  blocks.push([isCompressed(2) ? compress(last) : last]);
  const flags = FLAGS.lz4 | FILTERS[filter];
  return { data, chunk: makeChunk({ flags, typesize, nbytes: data.length, blocksize, blocks }) };
}

const MIXES: readonly ((stream: number) => boolean)[] = [
  () => false,
  () => true,
  (stream) => stream % 2 === 0,
  (stream) => stream % 3 === 2,
  (stream) => stream > 2,
];

describe.each(Object.keys(FILTERS) as Filter[])(
  "%s: stored and compressed streams of one block",
  (filter) => {
    test("decode to their elements for every typesize that is split", () => {
      for (let typesize = 2; typesize <= 16; typesize++) {
        for (const count of [128, 129, 136, 200, 391]) {
          for (const [mix, isCompressed] of MIXES.entries()) {
            const { data, chunk } = makeSplit({ typesize, filter, count, isCompressed });
            const name = `typesize ${typesize}, ${count} elements, mix ${mix}`;
            if (Buffer.compare(decodeSync(chunk), data) !== 0) expect.fail(name);
            const lease = leaseDecoder(chunk.length);
            lease.input.set(chunk);
            if (Buffer.compare(lease.decodeRange(0, data.length), data) !== 0) expect.fail(`${name}, leased`);
            lease.release();
            const start = count * typesize - 5;
            const range = decodeRangeSync(chunk, start, count * typesize + 9);
            if (Buffer.compare(range, data.subarray(start, start + range.length)) !== 0)
              expect.fail(`${name}, in part`);
          }
        }
      }
      expect(MIXES.length).toBeGreaterThan(4);
    });
  },
);

test("blocks assembled in several pieces decode to their elements, in whole and in part", () => {
  let decoded = 0;
  for (let typesize = 2; typesize <= 16; typesize++) {
    const count = Math.floor(300_000 / typesize) - typesize;
    const isCompressed = (stream: number): boolean => stream % 3 === 1;
    const { data, chunk } = makeSplit({ typesize, filter: "shuffle", count, isCompressed });
    if (Buffer.compare(decodeSync(chunk), data) !== 0) expect.fail(`typesize ${typesize}`);
    for (const [start, end] of [
      [1, count * typesize - 1],
      [140_001, 2 * count * typesize - 140_003],
      [3, 3 + 131_072],
      [count * typesize - 1, data.length],
    ] as const) {
      const out = new Uint8Array(end - start + 1).fill(0xaa);
      decodeRangeSync(chunk, start, end - start, { out });
      if (Buffer.compare(out.subarray(0, -1), data.subarray(start, end)) !== 0 || out.at(-1) !== 0xaa)
        expect.fail(`typesize ${typesize}, bytes ${start} to ${end}`);
      decoded++;
    }
  }
  expect(decoded).toBe(15 * 4);
});

describe("a damaged stream among stored ones is reported with its place", () => {
  const shape = { typesize: 8, count: 256, isCompressed: (stream: number) => stream % 2 === 1 };
  /** Streams of block 0: stored ones of 4 + 256 bytes, and compressed ones of 4 + 258. */
  const offsetOf = (stream: number): number => 28 + 522 * (stream >> 1) + (stream % 2) * 260;

  test.each(Object.keys(FILTERS) as Filter[])("%s: if it does not decode", (filter) => {
    for (const stream of [1, 3, 5, 7]) {
      const { chunk } = makeSplit({ ...shape, filter });
      const at = offsetOf(stream) + 4;
      chunk[at] = 0xe0;
      const lease = leaseDecoder(chunk.length);
      lease.input.set(chunk);
      const out = new Uint8Array(info(chunk).nbytes);
      for (const work of [
        () => decodeSync(chunk),
        () => lease.decodeRange(0, out.length),
        () => lease.decodeInto(out),
      ]) {
        expect(errorOf(work)).toMatchObject({
          code: "BAD_CHUNK",
          message: `stream ${stream} of block 0 at byte ${at} does not decode to 256 bytes of lz4: a match refers to bytes before the start of the stream; the chunk is damaged`,
          details: { offset: at, field: "stream", expected: 256, found: -3 },
        });
      }
      lease.release();
    }
  });

  test.each(Object.keys(FILTERS) as Filter[])("%s: if its length exceeds the block", (filter) => {
    for (const stream of [0, 1, 6, 7]) {
      const { chunk } = makeSplit({ ...shape, filter });
      const at = offsetOf(stream);
      const room = offsetOf(8) - at - 4;
      new DataView(chunk.buffer).setUint32(at, room + 1, true);
      expect(errorOf(() => decodeSync(chunk))).toMatchObject({
        code: "BAD_CHUNK",
        message: `the length of stream ${stream} of block 0 at byte ${at} is ${room + 1}, but ${room} bytes are left to the end of the block; the chunk is damaged`,
        details: { offset: at, field: "stream length", found: room + 1 },
      });
    }
  });
});

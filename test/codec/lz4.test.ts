import { expect, test } from "vitest";
import { decodeRangeSync, decodeSync } from "../../src/codec/index.ts";
import type { SuperchunkError } from "../../src/errors.ts";
import { sweep } from "../scope.ts";
import { errorOf, FLAGS, makeChunk } from "./chunk-maker.ts";

/** The block format's specification, one byte at a time: the decoded bytes, or the kernel's error. */
function decodeByTheText(stream: readonly number[], nbytes: number): number[] | number {
  const out: number[] = [];
  let at = 0;
  const readLength = (length: number): number => {
    if (length < 15) return length;
    for (let more = 255; more === 255; length += more) {
      if (length > nbytes) return -2;
      if (at >= stream.length) return -1;
      more = stream[at++] ?? 0;
    }
    return length > nbytes ? -2 : length;
  };
  while (at < stream.length) {
    const token = stream[at++] ?? 0;
    const literals = readLength(token >> 4);
    if (literals < 0) return literals;
    if (literals > stream.length - at) return -1;
    if (literals > nbytes - out.length) return -2;
    out.push(...stream.slice(at, at + literals));
    at += literals;
    if (at === stream.length) return out;
    if (stream.length - at < 2) return -1;
    const distance = (stream[at] ?? 0) + 256 * (stream[at + 1] ?? 0);
    at += 2;
    if (distance === 0 || distance > out.length) return -3;
    const more = readLength(token & 15);
    if (more < 0) return more;
    if (more + 4 > nbytes - out.length) return -2;
    for (let i = 0; i < more + 4; i++) out.push(out[out.length - distance] ?? 0);
  }
  return -1;
}

/** Numbers below a limit, the same in each run. */
function makeDraw(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return (state >> 8) % limit;
  };
}

function lengthBytes(length: number): number[] {
  return length < 15
    ? []
    : [...new Array<number>(Math.floor((length - 15) / 255)).fill(255), (length - 15) % 255];
}

/** A stream of short and long literals and matches, near and far, with the number of bytes it decodes to. */
function makeStream(draw: (limit: number) => number): { stream: number[]; nbytes: number } {
  const stream: number[] = [];
  let nbytes = 0;
  const put = (literals: number, match: number): void => {
    stream.push((Math.min(literals, 15) << 4) | Math.min(match, 15), ...lengthBytes(literals));
    for (let i = 0; i < literals; i++) stream.push(draw(256));
    nbytes += literals;
  };
  // As in text: runs of sequences without literals, with short matches.
  const bare = draw(3) === 0;
  for (let i = 1 + draw(bare ? 200 : 60); i > 0; i--) {
    const isBare = bare && nbytes > 0 && draw(40) > 0;
    const literals = isBare ? 0 : (nbytes === 0 ? 1 : 0) + draw(draw(6) === 0 ? 300 : draw(2) === 0 ? 1 : 17);
    const match = draw(isBare ? 13 : draw(6) === 0 ? 600 : 17);
    put(literals, match);
    const distance = 1 + draw(Math.min(nbytes, draw(2) === 0 ? 20 : 300));
    stream.push(distance & 255, distance >> 8, ...lengthBytes(match));
    nbytes += match + 4;
  }
  put(draw(20), 0);
  return { stream, nbytes };
}

/** The kernel's bytes or its error. */
function decode(stream: readonly number[], nbytes: number): number[] | number {
  const chunk = makeChunk({ flags: FLAGS.lz4 | FLAGS.notSplit, nbytes, blocks: [[Uint8Array.from(stream)]] });
  try {
    return [...decodeSync(chunk)];
  } catch (error) {
    return (error as SuperchunkError).details.found as number;
  }
}

/** What a chunk's decoder must report for a stream with this outcome. */
function expected(decoded: number[] | number, nbytes: number): number[] | number {
  return typeof decoded === "number" || decoded.length === nbytes ? decoded : decoded.length;
}

test("sequences of all lengths and distances decode as the format specifies", () => {
  const draw = makeDraw(1);
  let streams = 0;
  for (let i = 0; i < sweep(2500, 700); i++) {
    const { stream, nbytes } = makeStream(draw);
    if (stream.length >= nbytes) continue;
    const right = decodeByTheText(stream, nbytes);
    if (String(decode(stream, nbytes)) !== String(right)) expect.fail(`stream ${i}: other bytes`);
    streams++;
  }
  expect(streams).toBeGreaterThan(sweep(1500, 400));
});

test("runs of more than 1 KiB at every short distance decode as the format specifies", () => {
  for (let distance = 1; distance <= 300; distance += distance < 40 ? 1 : sweep(1, 13)) {
    for (const match of [1019, 1020, 1021, 1100 + distance, 5000]) {
      const literals = Array.from({ length: Math.max(distance, 16) }, (_, i) => (i * i + distance) & 255);
      const nbytes = literals.length + match + 4 + 5;
      const run = [0xff, ...lengthBytes(literals.length), ...literals, distance & 255, distance >> 8];
      const stream = [...run, ...lengthBytes(match), 0x50, 1, 2, 3, 4, 5];
      const right = String(decodeByTheText(stream, nbytes));
      expect(String(decode(stream, nbytes)), `${match + 4} bytes at ${distance}`).toBe(right);
    }
  }
});

test("a damaged stream gives the error that a byte-by-byte reader finds", () => {
  const draw = makeDraw(2);
  const found = new Map<number, number>();
  for (let i = 0; i < sweep(5000, 1500); i++) {
    const { stream, nbytes } = makeStream(draw);
    const kind = draw(3);
    const at = draw(stream.length);
    if (kind === 0) stream[at] = draw(256);
    else if (kind === 1) stream.length = at;
    const room = kind === 2 ? nbytes + draw(80) - 40 : nbytes;
    // A stream as long as the block is stored; a stream too short for the block is rejected before it is decoded.
    if (room < 1 || stream.length === room || stream.length < 5 || stream.length * 255 < room) continue;
    const right = expected(decodeByTheText(stream, room), room);
    if (String(decode(stream, room)) !== String(right)) expect.fail(`stream ${i}: not ${right}`);
    if (typeof right === "number") found.set(right, (found.get(right) ?? 0) + 1);
  }
  for (const result of [-1, -2, -3])
    expect(found.get(result), `result ${result}`).toBeGreaterThan(sweep(100, 20));
});

test("part of a stream decodes to the same bytes as the whole", () => {
  const draw = makeDraw(3);
  let ranges = 0;
  for (let i = 0; i < sweep(2500, 700); i++) {
    const { stream, nbytes } = makeStream(draw);
    if (nbytes < 1024 || stream.length >= nbytes) continue;
    const whole = decodeByTheText(stream, nbytes) as number[];
    const blocks = [[Uint8Array.from(stream)]];
    const chunk = makeChunk({ flags: FLAGS.lz4 | FLAGS.notSplit, nbytes, blocks });
    const start = draw(nbytes >> 1);
    const length = 65 + draw(100);
    expect([...decodeRangeSync(chunk, start, length)], `stream ${i}`).toEqual(
      whole.slice(start, start + length),
    );
    ranges++;
  }
  expect(ranges).toBeGreaterThan(sweep(500, 120));
});

test("an empty stream is refused", () => {
  const chunk = makeChunk({
    flags: FLAGS.lz4,
    typesize: 2,
    nbytes: 512,
    blocks: [[new Uint8Array(0), new Uint8Array(256)]],
  });
  expect(errorOf(() => decodeSync(chunk))).toMatchObject({ code: "BAD_CHUNK", details: { found: -1 } });
});

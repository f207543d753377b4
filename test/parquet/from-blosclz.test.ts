/** Streams of blosclz become streams of lz4 that decode to the same bytes, and keep lz4's rules for the end of a block. */
import { beforeAll, describe, expect, test } from "vitest";
import { prepareEncode } from "../../src/codec/index.ts";
import { isSuperchunkError } from "../../src/errors.ts";
import { blosclzToLz4 } from "../../src/parquet/blosc-pages.ts";
import { sweep } from "../scope.ts";

beforeAll(() => prepareEncode("lz4"));

/** BloscLZ's algorithm, one byte at a time; undefined if the stream is damaged. */
function decodeBlosclz(stream: Uint8Array, length: number): Uint8Array | undefined {
  const out: number[] = [];
  let at = 0;
  const next = (): number => stream[at++] ?? Number.NaN;
  for (let control = next() & 31; ; control = next()) {
    if (at > stream.length) return undefined;
    if (control < 32) {
      for (let i = 0; i <= control; i++) out.push(next());
      if (at > stream.length) return undefined;
      if (at === stream.length) return out.length === length ? Uint8Array.from(out) : undefined;
    } else {
      let size = (control >> 5) + 2;
      for (let more = size === 9 ? 255 : 0; more === 255; size += more) more = next();
      let distance = ((control & 31) << 8) + next();
      if (distance === 8191) distance = 8191 + 256 * next() + next();
      if (!(at < stream.length && distance < out.length && out.length + size <= length)) return undefined;
      for (let i = 0; i < size; i++) out.push(out[out.length - distance - 1] ?? 0);
    }
  }
}

/** The specification of lz4's block format, including its rules for the end of a block. */
function decodeLz4(stream: Uint8Array, length: number): Uint8Array {
  const out: number[] = [];
  let at = 0;
  const next = (): number => stream[at++] ?? Number.NaN;
  const extended = (short: number): number => {
    let size = short;
    for (let more = short === 15 ? 255 : 0; more === 255; size += more) more = next();
    return size;
  };
  for (let last = 0; ; ) {
    const token = next();
    const literals = extended(token >> 4);
    for (let i = 0; i < literals; i++) out.push(next());
    if (at >= stream.length) {
      expect([at, out.length]).toEqual([stream.length, length]);
      if (last > 0) expect(literals).toBeGreaterThanOrEqual(5);
      if (last > 0) expect(last).toBeLessThanOrEqual(length - 12);
      return Uint8Array.from(out);
    }
    last = out.length;
    const distance = next() + 256 * next();
    const size = extended(token & 15) + 4;
    expect(distance > 0 && distance <= out.length).toBe(true);
    for (let i = 0; i < size; i++) out.push(out[out.length - distance] ?? 0);
  }
}

/** Writes streams of BloscLZ by hand. */
class Writer {
  readonly bytes: number[] = [];
  length = 0;

  /** Literals of a few values. */
  literals(count: number, draw: (limit: number) => number): this {
    for (let left = count; left > 0; left -= 32) {
      const run = Math.min(32, left);
      this.bytes.push(run - 1, ...Array.from({ length: run }, () => draw(4)));
    }
    this.length += count;
    return this;
  }

  match(size: number, distance: number): this {
    const far = distance - 1 >= 8191;
    const code = far ? 8191 : distance - 1;
    this.bytes.push((Math.min(size - 2, 7) << 5) | (code >> 8));
    if (size >= 9)
      this.bytes.push(...new Array<number>(Math.floor((size - 9) / 255)).fill(255), (size - 9) % 255);
    this.bytes.push(code & 255);
    if (far) this.bytes.push((distance - 8192) >> 8, (distance - 8192) & 255);
    this.length += size;
    return this;
  }

  get stream(): { readonly bytes: Uint8Array; readonly length: number } {
    return { bytes: Uint8Array.from(this.bytes), length: this.length };
  }
}

function makeDraw(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fff_ffff;
    return (state >> 8) % limit;
  };
}

const SIZES = [3, 4, 5, 8, 9, 10, 18, 19, 20, 263, 264, 265, 519];

function randomStream(draw: (limit: number) => number): Writer {
  const writer = new Writer().literals(1 + draw(300), draw);
  for (let i = draw(40); i > 0; i--) {
    if (draw(3) === 0) writer.literals(1 + draw(40), draw);
    const near = 1 + draw(Math.min(writer.length, 73_000));
    writer.match(
      SIZES[draw(SIZES.length)] ?? 4,
      draw(3) === 0 ? Math.min(writer.length, 1 + draw(17)) : near,
    );
  }
  return writer.literals(1 + draw(14), draw);
}

function turn(...streams: readonly { readonly bytes: Uint8Array; readonly length: number }[]): Uint8Array[] {
  return [...blosclzToLz4(streams, (length) => new Uint8Array(length))];
}

test("matches of every length and distance are kept, or become literals", () => {
  const draw = makeDraw(1);
  for (let round = 0; round < sweep(2000, 30); round++) {
    const streams = [randomStream(draw).stream, randomStream(draw).stream, randomStream(draw).stream];
    for (const [i, made] of turn(...streams).entries()) {
      const { bytes, length } = streams[i] ?? { bytes: made, length: 0 };
      expect(decodeLz4(made, length)).toEqual(decodeBlosclz(bytes, length));
    }
  }
});

describe("what lz4 cannot express", () => {
  const draw = makeDraw(2);
  const long = new Writer().literals(70_000, draw);
  test.each([
    [
      "a match that is too far away",
      new Writer().literals(70_000, draw).match(40, 65_536).literals(20, draw),
    ],
    ["the most distant match", new Writer().literals(70_000, draw).match(40, 65_535).literals(20, draw)],
    ["a match of three bytes", new Writer().literals(40, draw).match(3, 17).literals(20, draw)],
    ["a match near the end", new Writer().literals(40, draw).match(30, 17).literals(1, draw)],
    ["a match too near the end", new Writer().literals(40, draw).match(4, 17).literals(7, draw)],
    ["only literals", long],
  ])("%s", (_, { stream }) => {
    const [made] = turn(stream);
    expect(decodeLz4(made ?? stream.bytes, stream.length)).toEqual(
      decodeBlosclz(stream.bytes, stream.length),
    );
  });
});

test("literals that extend a match become part of it", () => {
  // abcdefgh, and again: the match begins at the fourth letter.
  const letters = [...Buffer.from("abcdefghijklmnop")];
  const stream = Uint8Array.from([15, ...letters, 2, 97, 98, 99, 0xe0, 4, 15, 11, ...letters.slice(4)]);
  const [made] = turn({ bytes: stream, length: 16 + 3 + 13 + 12 });
  expect(decodeLz4(made ?? stream, 44)).toEqual(decodeBlosclz(stream, 44));
  expect(Buffer.from(made ?? stream).toString("latin1")).toBe(
    "\xfc\x01abcdefghijklmnop\x10\x00\xc0efghijklmnop",
  );
});

test("damaged streams are refused, or decode to the same bytes", () => {
  const draw = makeDraw(3);
  for (let round = 0; round < sweep(200, 10); round++) {
    const { bytes, length } = randomStream(draw).stream;
    for (let i = 0; i < 40; i++) {
      const damaged = i < 20 ? bytes.slice(0, draw(bytes.length)) : bytes.slice();
      if (i >= 20) damaged[draw(bytes.length)] = draw(256);
      const expected = decodeBlosclz(damaged, length);
      try {
        const [made] = turn({ bytes: damaged, length });
        expect(decodeLz4(made ?? damaged, length)).toEqual(expected);
      } catch (error) {
        if (!isSuperchunkError(error, "BAD_CHUNK")) throw error;
        expect(expected).toBeUndefined();
      }
    }
  }
});

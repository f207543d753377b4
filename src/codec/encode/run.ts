/** Streams of one repeated value, written without the encoders: a page that reads Blosc2 then loads none. */
import type { CompressorName } from "../types.ts";

/** Most bytes of a block of zstd. */
const ZSTD_BLOCK = 128 << 10;

/** True if runs are written without an encoder, which a page then does not load. */
export function writesRuns(cname: CompressorName): boolean {
  return cname !== "snappy" && cname !== "zlib";
}

/** A stream of one value as blosclz, LZ4 or zstd, preceded by its length. Short ones are stored. */
export function writeRun(value: number, length: number, cname: CompressorName): Uint8Array {
  const counted = (rest: number) => [...new Array<number>(Math.floor(rest / 255)).fill(255), rest % 255];
  let stream: number[];
  if (length < 32) stream = new Array<number>(length).fill(value);
  // A literal, a copy of it at distance 1, and the literals that must come last.
  else if (cname === "blosclz") stream = [0x20, value, 0xe0, ...counted(length - 11), 0, 0, value];
  else if (cname !== "zstd")
    stream = [0x1f, value, 1, 0, ...counted(length - 25), 0x50, value, value, value, value, value];
  else {
    const bytesOf = (word: number, n: number) => Array.from({ length: n }, (_, i) => (word >> (8 * i)) & 255);
    // A frame with its size in four bytes, and blocks of one repeated byte.
    stream = [0x28, 0xb5, 0x2f, 0xfd, 0xa0, ...bytesOf(length, 4)];
    for (let rest = length; rest > 0; rest -= ZSTD_BLOCK) {
      const kind = rest <= ZSTD_BLOCK ? 3 : 2;
      stream.push(...bytesOf((Math.min(rest, ZSTD_BLOCK) << 3) | kind, 3), value);
    }
  }
  return Uint8Array.from([...new Uint8Array(Int32Array.of(stream.length).buffer), ...stream]);
}

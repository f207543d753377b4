/** Encodes single streams of Blosc1 and Blosc2 blocks, and applies the bit shuffle that the two formats define differently. */
import { at } from "../bytes/arrays.ts";
import { encodeSync, prepareEncode } from "../codec/encode/encode.ts";
import { FLAG, HEADER_LENGTH } from "../codec/header.ts";
import type { CompressorName } from "../codec/types.ts";

export { encodeSync, prepareEncode };

/** Encodes bytes as one stream, preceded by its length: compressed if that is shorter. Needs `prepareEncode`. */
export function encodeStream(bytes: Uint8Array, cname: CompressorName): Uint8Array {
  const settings = { cname, clevel: 5, shuffle: "noshuffle", typesize: 1, blocksize: bytes.length } as const;
  const chunk = encodeSync(bytes, settings);
  const view = new DataView(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  const isOne = (at(chunk, 2) & FLAG.memcpyed) === 0 && view.getInt32(8, true) === bytes.length;
  if (isOne) return chunk.slice(view.getInt32(HEADER_LENGTH, true));
  return withLength(bytes);
}

/** A stream as its bytes, preceded by their number. */
export function withLength(bytes: Uint8Array): Uint8Array {
  const stored = new Uint8Array(4 + bytes.length);
  new DataView(stored.buffer).setInt32(0, bytes.length, true);
  stored.set(bytes, 4);
  return stored;
}

/** Shuffles the bits of the elements up to a multiple of eight; the remaining elements are copied. Returns a new array. */
export function bitshuffled(bytes: Uint8Array, typesize: number): Uint8Array {
  const count = Math.floor(bytes.length / typesize);
  const whole = count - (count % 8);
  const out = new Uint8Array(bytes.length);
  out.set(bytes.subarray(whole * typesize), whole * typesize);
  const row = whole / 8;
  for (let i = 0; i < whole; i++)
    for (let bit = 0; bit < typesize * 8; bit++)
      if (((at(bytes, i * typesize + (bit >> 3)) >> (bit & 7)) & 1) === 1) {
        const to = bit * row + (i >> 3);
        out[to] = at(out, to) | (1 << (i & 7));
      }
  return out;
}

/**
 * Packs metadata sections into zlib streams (RFC 1950) with pako, whose output is identical to that of Python's zlib; Node.js
 * has another zlib. It is separate from inflate.ts, so that a page that only reads does not load it.
 */
import { deflate } from "pako";

/** Packs into a zlib stream, byte for byte like zlib 1.2 at that level (0 to 9). */
export function deflateZlib(bytes: Uint8Array, level: number): Uint8Array {
  return deflate(bytes, {
    level: Math.max(0, Math.min(9, Math.trunc(level))) as 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9,
  });
}

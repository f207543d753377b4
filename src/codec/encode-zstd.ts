/**
 * Encoding of zstd streams. Knows c-blosc's levels; must not know chunks.
 */
import type { Deflater } from "./deflaters.ts";
import { zstdLibrary } from "./zstd-library.ts";

/** zstd's highest level, which c-blosc asks for by name. */
const MAX_LEVEL = 22;

/** An encoder on the loaded library. @throws UNSUPPORTED (on use) before it is loaded */
export function zstdDeflater(): Deflater {
  return {
    name: "@hpcc-js/wasm-zstd",
    deflate(src, dst, clevel) {
      const stream = zstdLibrary().compress(src, zstdLevel(clevel));
      if (stream.length > dst.length) return -1;
      dst.set(stream);
      return stream.length;
    },
  };
}

/** What c-blosc 1.21 makes of Blosc's levels 1 to 9: 1, 3, 5, … 13, 20, 22. */
function zstdLevel(clevel: number): number {
  if (clevel === 9) return MAX_LEVEL;
  return clevel === 8 ? MAX_LEVEL - 2 : 2 * clevel - 1;
}

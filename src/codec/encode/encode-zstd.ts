/**
 * Encoding of zstd streams. Knows c-blosc's levels; must not know chunks.
 */
import type { Deflater } from "./deflaters.ts";
import { zstdLibrary } from "./zstd-library.ts";

/** zstd's highest level, which c-blosc asks for by name. */
const MAX_LEVEL = 22;

/** An encoder on the library that {@link loadZstd} loads. */
export function zstdDeflater(): Deflater {
  return {
    name: "zstd (WebAssembly)",
    deflate: (src, dst, clevel) => zstdLibrary().compress(src, dst, zstdLevel(clevel)),
  };
}

/** What c-blosc 1.21 makes of Blosc's levels 1 to 9: 1, 3, 5, … 13, 20, 22. */
function zstdLevel(clevel: number): number {
  if (clevel === 9) return MAX_LEVEL;
  return clevel === 8 ? MAX_LEVEL - 2 : 2 * clevel - 1;
}

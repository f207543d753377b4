/**
 * What must be loaded before chunks are encoded. Knows which compressor needs what.
 */

import type { CompressorName } from "../types.ts";
import { prepareEncodeKernels } from "./encode-kernel.ts";
import { type Deflater, deflaterOf, registerDeflater } from "./encode-streams.ts";
import { loadZstd, zstdLibrary } from "./zstd-library.ts";

// Encoding of zstd streams. Knows c-blosc's levels; must not know chunks.

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

/**
 * Compiles the kernels and loads the library that encoding with `cname` needs; done once, cheap afterwards.
 *
 * Needed before synchronous calls with `zstd`, and on the main thread of a browser.
 */
export async function prepareEncode(cname: CompressorName = "lz4"): Promise<void> {
  await prepareEncodeKernels();
  if (deflaterOf(cname) !== undefined) return;
  if (cname === "zstd") {
    await loadZstd();
    registerDeflater(cname, zstdDeflater());
  }
}

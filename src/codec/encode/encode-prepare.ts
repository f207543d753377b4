/**
 * What must be loaded before chunks are encoded. Knows which compressor needs what.
 */

import type { CompressorName } from "../types.ts";
import { deflaterOf, registerDeflater } from "./deflaters.ts";
import { prepareEncodeKernels } from "./encode-kernel.ts";
import { zstdDeflater } from "./encode-zstd.ts";
import { loadZstd } from "./zstd-library.ts";

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

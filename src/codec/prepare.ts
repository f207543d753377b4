/**
 * What must be loaded before synchronous calls. Knows which compressor needs what.
 */
import { prepareDecodeKernels } from "./decode-kernel.ts";
import { inflaterOf, registerInflater } from "./inflaters.ts";
import type { Compressor, CompressorName } from "./types.ts";
import { inflateZstd } from "./zstd-frames.ts";
import { loadZstd } from "./zstd-library.ts";

const prepared = new Set<CompressorName>();

/** True where {@link decodeSync} and its like can decode chunks of the compressor in this engine now. */
export function isReady(compressor: CompressorName): boolean {
  return prepared.has(compressor);
}

/** Compiles the kernels and loads the library that the compressor needs; done once, cheap afterwards. */
export async function prepare(compressor: CompressorName): Promise<void> {
  if (prepared.has(compressor)) return;
  await prepareDecodeKernels();
  if (compressor === "zstd") {
    await loadZstd();
    const name: Compressor = "zstd";
    if (inflaterOf(name) === undefined)
      registerInflater(name, { name: "@hpcc-js/wasm-zstd", inflate: inflateZstd });
  }
  prepared.add(compressor);
}

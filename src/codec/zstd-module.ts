/**
 * The reference implementation of zstd, as a WebAssembly module. Larger than all other kernels together, so
 * it is imported on first use.
 */
import { compileModule } from "./kernel-module.ts";
import { decodeStream } from "./stream.ts";

/** The module's names for its exports, and for the import that grows its memory. */
export type ZstdNames = typeof import("../kernels/generated/zstd.ts")["names"];

export async function compileZstd(): Promise<{
  readonly module: WebAssembly.Module;
  readonly names: ZstdNames;
}> {
  const { wasm, length, names } = await import("../kernels/generated/zstd.ts");
  return { module: await compileModule("zstd", () => unpackZstd(wasm, length)), names };
}

/** Decodes the module's bytes from the inlined text. */
export function unpackZstd(text: string, length: number): Promise<Uint8Array<ArrayBuffer>> {
  const packed = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return decodeStream("zlib", packed, length);
}

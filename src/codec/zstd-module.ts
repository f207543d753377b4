/** The reference implementation of zstd, as a WebAssembly module. It is larger than all other kernels: imported when it is first needed. */
import { compileModule } from "./kernel-module.ts";
import { decodeStream } from "./stream.ts";

/** What the module calls its exports, and the import that grows its memory. */
export type ZstdNames = typeof import("../kernels/generated/zstd.ts")["names"];

/** Loads and compiles it. */
export async function compileZstd(): Promise<{
  readonly module: WebAssembly.Module;
  readonly names: ZstdNames;
}> {
  const { wasm, length, names } = await import("../kernels/generated/zstd.ts");
  return { module: await compileModule("zstd", () => unpackZstd(wasm, length)), names };
}

/** The bytes of the module from the text that they are inlined as. */
export function unpackZstd(text: string, length: number): Promise<Uint8Array<ArrayBuffer>> {
  const packed = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return decodeStream("zlib", packed, length);
}

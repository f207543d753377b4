/**
 * The zstd library: a WebAssembly build of the reference implementation. Knows its interface; must not know chunks.
 */
import type { Zstd } from "@hpcc-js/wasm-zstd";
import { SuperchunkError } from "../errors.ts";

let loaded: Zstd | undefined;

/** Loads the library. Its WebAssembly is inlined in its module; nothing is fetched. */
export async function loadZstd(): Promise<void> {
  // Imported when it is needed: it is larger than all of the rest.
  loaded ??= await (await import("@hpcc-js/wasm-zstd")).Zstd.load();
}

/** The loaded library. @throws UNSUPPORTED before {@link loadZstd} has resolved */
export function zstdLibrary(): Zstd {
  if (loaded === undefined) {
    throw new SuperchunkError(
      "UNSUPPORTED",
      'zstd is not loaded yet; await prepare("zstd") before synchronous calls',
      {
        field: "compressor",
        found: "zstd",
      },
    );
  }
  return loaded;
}

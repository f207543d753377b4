/**
 * Encoding of zlib streams: by Node's own zlib where the engine has one, else by fflate. Must not know chunks.
 *
 * Both write what every zlib reads. Their bytes, and sizes by a few percent, differ.
 */
import { zlibSync } from "fflate";
import type { Deflater } from "./deflaters.ts";

/** What is used of Node's zlib. */
interface NodeZlib {
  deflateSync(data: Uint8Array, options: { level: number }): Uint8Array;
}

type Level = 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9;

/** The encoder that this engine has. Blosc's level is zlib's. */
export function zlibDeflater(): Deflater {
  const zlib = nodeZlib();
  const compress =
    zlib === undefined
      ? (src: Uint8Array, level: number) => zlibSync(src, { level: level as Level })
      : (src: Uint8Array, level: number) => zlib.deflateSync(src, { level });
  return {
    name: zlib === undefined ? "fflate" : "node:zlib",
    deflate(src, dst, clevel) {
      const stream = compress(src, clevel);
      if (stream.length > dst.length) return -1;
      dst.set(stream);
      return stream.length;
    },
  };
}

/** Found without an import, which a bundler for browsers would have to resolve. Node has this since 20.16. */
function nodeZlib(): NodeZlib | undefined {
  const host = globalThis as { process?: { getBuiltinModule?: (name: string) => unknown } };
  return host.process?.getBuiltinModule?.("node:zlib") as NodeZlib | undefined;
}

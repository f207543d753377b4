/** Digests that Node.js computes faster than WebAssembly does. */
import { createHash } from "node:crypto";
import * as zlib from "node:zlib";
import { registerDigest } from "../../bytes/checksum.ts";

let isRegistered = false;

/**
 * Uses Node's SHA digests, which take less time for a small chunk than a promise of the engine's, and the crc32 of its zlib (from Node
 * 22.2 and 20.15 on), for every archive of this process.
 */
export function useNativeDigests(): void {
  if (isRegistered) return;
  isRegistered = true;
  for (const name of ["sha1", "sha224", "sha256", "sha384", "sha512"] as const)
    registerDigest(name, (bytes) => createHash(name).update(bytes).digest());
  const crc32: unknown = "crc32" in zlib ? zlib.crc32 : undefined;
  if (typeof crc32 !== "function") return;
  registerDigest("crc32", (bytes) => {
    const digest = new Uint8Array(4);
    new DataView(digest.buffer).setUint32(0, Number(crc32(bytes)), true);
    return digest;
  });
}

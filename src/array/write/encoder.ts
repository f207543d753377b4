/** How chunks are encoded: here, or by whom the caller names (a pool of threads). */
import { encodeSync, prepareEncode } from "../../codec/index.ts";
import type { EncodeOptions } from "../../codec/types.ts";

/**
 * Makes a Blosc chunk, in an array of its own. Where it gives a promise, `data` stay untouched until that is settled.
 */
export type ChunkEncoder = (data: Uint8Array, options: EncodeOptions) => Uint8Array | Promise<Uint8Array>;

/** Encodes in the calling thread. `prepareEncode` must have been awaited for the compressor. */
export const encodeHere: ChunkEncoder = (data, options) => encodeSync(data, options);

export { prepareEncode };

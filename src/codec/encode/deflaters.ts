/**
 * Encoders of streams that are not kernels but libraries. Knows their names; must not know chunks.
 */
import type { CompressorName } from "../types.ts";

/** An encoder of one compressor's streams. */
export interface Deflater {
  /** The library and its version or origin, for messages. */
  readonly name: string;
  /**
   * Encodes `src` into `dst`; the bytes written, or -1 where they would be more than `dst.length`.
   *
   * @param clevel Blosc's level, 1 to 9
   */
  deflate(src: Uint8Array, dst: Uint8Array, clevel: number): number;
}

const deflaters = new Map<CompressorName, Deflater>();

/** Makes `deflater` the encoder of the compressor's streams, before the built-in kernel if there is one. */
export function registerDeflater(cname: CompressorName, deflater: Deflater): void {
  deflaters.set(cname, deflater);
}

/** The registered encoder of the compressor's streams, if there is one. */
export function deflaterOf(cname: CompressorName): Deflater | undefined {
  return deflaters.get(cname);
}

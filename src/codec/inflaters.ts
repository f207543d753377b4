/**
 * Decoders of streams that are not kernels but libraries. Knows their names; must not know chunks.
 */
import type { Compressor } from "./types.ts";

/** A decoder of one compressor's streams. */
export interface Inflater {
  /** The library and its version or origin, for messages. */
  readonly name: string;
  /** Decodes `src` into `dst`; the bytes written, at most `dst.length`. Throws where `src` is damaged or decodes to more. */
  inflate(src: Uint8Array, dst: Uint8Array): number;
}

const inflaters = new Map<Compressor, Inflater>();

/** Makes `inflater` the decoder of the compressor's streams, before the built-in kernel if there is one. */
export function registerInflater(compressor: Compressor, inflater: Inflater): void {
  inflaters.set(compressor, inflater);
}

/** The registered decoder of the compressor's streams, if there is one. */
export function inflaterOf(compressor: Compressor): Inflater | undefined {
  return inflaters.get(compressor);
}

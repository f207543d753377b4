import type { DecodeChunk } from "../array/chunk-decoder.ts";
import type { EncodeOptions } from "../codec/types.ts";
import { SuperchunkError } from "../errors.ts";
export interface NativeBlosc {
  readonly decode: DecodeChunk;
  encode(data: Uint8Array, options: EncodeOptions): Uint8Array<ArrayBuffer>;
}
export async function loadNativeBlosc(): Promise<NativeBlosc> {
  throw new SuperchunkError("UNSUPPORTED", "not there yet");
}

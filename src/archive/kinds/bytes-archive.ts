/** A file of plain bytes. */
import { ChunkedBase } from "./chunked-base.ts";
import type { BytesArchive, LongOptions } from "./types.ts";

export class PlainBytes extends ChunkedBase implements BytesArchive {
  readonly kind = "bytes";

  streamBytes(options: LongOptions = {}): AsyncIterable<Uint8Array> {
    return this.decodedChunks(options);
  }
}

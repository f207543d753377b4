/** Encoding in the calling thread, at once where the codec is ready. */
import { encodeSync, prepareEncode } from "../../codec/index.ts";
import type { ChunkEncoder, EncodeOptions, EncoderChoice } from "../../codec/types.ts";

/** What a chunk is made with: an encoder that works elsewhere, or the calling thread. */
export class Encoding {
  readonly #given: ChunkEncoder | EncoderChoice | undefined;
  #encoder: ChunkEncoder | undefined;

  constructor(encoder: ChunkEncoder | EncoderChoice | undefined) {
    this.#given = encoder;
    if (typeof encoder !== "function") this.#encoder = encoder;
  }

  /** Chunks that are worth asking for at a time. */
  get parallel(): number {
    return this.#encoder?.parallel ?? 1;
  }

  /** Loads what the compressor needs, and settles who encodes with it. */
  async prepare(options: EncodeOptions): Promise<void> {
    if (typeof this.#given === "function") this.#encoder = this.#given(options.cname);
    if (this.parallel === 1) await prepareEncode(options.cname);
  }

  /** One chunk, in a buffer of its own; a promise of it where it is made elsewhere: `data` stay as they are till then. */
  encode(data: Uint8Array, options: EncodeOptions): Uint8Array | Promise<Uint8Array> {
    if (this.#encoder !== undefined && this.parallel > 1) return this.#encoder.encode(data, options);
    return encodeSync(data, options);
  }

  /** True where chunks are made in the calling thread. */
  get isHere(): boolean {
    return this.#encoder === undefined || this.parallel === 1;
  }
}

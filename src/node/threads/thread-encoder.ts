/** Encodes chunks in worker threads. Knows jobs; must not know how threads run. */

import { BufferShelf } from "../../bytes/buffer-shelf.ts";
import { encodeHere } from "../../codec/index.ts";
import type { ChunkEncoder, CompressorName, EncodeOptions } from "../../codec/types.ts";
import { type BloscChoice, unpackError } from "./thread-messages.ts";
import type { WorkerPool } from "./worker-pool.ts";

/** Bytes of data that wait for threads before the next is encoded here: what bounds the memory. */
const MAX_UNDER_WAY = 64 << 20;

const SLOW: ReadonlySet<CompressorName | undefined> = new Set(["zlib", "zstd", "lz4hc"]);

/** True for compressors for which handing chunks over to threads pays; the others are faster than the handing over. */
export function isSlow(cname: CompressorName | undefined): boolean {
  return SLOW.has(cname);
}

/** Bytes from which data of a compressor are worth handing over; shorter ones are encoded in the calling thread. */
export type Worth = (cname: CompressorName | undefined) => number;

/** Where threads are asked for: shorter data would take longer to hand over. Slow compressors take a millisecond for 8 KiB. */
export const worthAsked: Worth = (cname) => (isSlow(cname) ? 8 << 10 : 64 << 10);

/** Where they are not: slow compressors only. */
export const worthUnasked: Worth = (cname) => (isSlow(cname) ? worthAsked(cname) : Number.POSITIVE_INFINITY);

export class ThreadEncoder implements ChunkEncoder {
  readonly parallel: number;
  readonly #pool: WorkerPool;
  readonly #blosc: BloscChoice;
  readonly #alone: ChunkEncoder["encode"];
  readonly #worth: Worth;
  readonly #inputs = new BufferShelf();
  #underWay = 0;

  /** `alone` encodes what is not worth a thread. */
  constructor(
    pool: WorkerPool,
    blosc: BloscChoice = "wasm",
    alone: ChunkEncoder["encode"] = encodeHere.encode,
    worth: Worth = worthAsked,
  ) {
    this.parallel = 2 * pool.size;
    this.#pool = pool;
    this.#blosc = blosc;
    this.#alone = alone;
    this.#worth = worth;
  }

  /** What no length is worth a thread is encoded here, one chunk at a time. */
  parallelOf(cname: CompressorName | undefined): number {
    return Number.isFinite(this.#worth(cname)) ? this.parallel : 1;
  }

  async encode(
    data: Uint8Array,
    options: EncodeOptions,
    given?: Uint8Array<ArrayBuffer>,
  ): Promise<Uint8Array> {
    const { length } = data;
    const crowded = this.#underWay > 0 && this.#underWay + length > MAX_UNDER_WAY;
    if (length < this.#worth(options.cname) || crowded || !(await this.#pool.start()))
      return this.#alone(data, options, given);
    const input = this.#inputs.take(length) ?? new ArrayBuffer(length);
    new Uint8Array(input).set(data);
    // Part of a buffer cannot move to a thread.
    const room = given?.length === given?.buffer.byteLength ? given?.buffer : undefined;
    this.#underWay += length;
    try {
      const reply = await this.#pool.run(
        { kind: "encode", blosc: this.#blosc, input, length, options, room },
        room === undefined ? [input] : [input, room],
      );
      if (reply.input !== undefined) this.#inputs.put(reply.input);
      if (reply.error !== undefined) throw unpackError(reply.error);
      const [chunk] = reply.buffers;
      if (chunk === undefined) throw new RangeError("a thread answered something else");
      return new Uint8Array(chunk, 0, reply.facts[0] ?? 0);
    } finally {
      this.#underWay -= length;
    }
  }
}

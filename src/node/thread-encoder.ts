/** Encodes chunks in worker threads. Knows jobs; must not know how threads run. */

import { BufferShelf } from "../bytes/buffer-shelf.ts";
import { encodeHere } from "../codec/index.ts";
import type { ChunkEncoder, CompressorName, EncodeOptions } from "../codec/types.ts";
import { type BloscChoice, unpackError } from "./thread-messages.ts";
import type { WorkerPool } from "./worker-pool.ts";

/** Shorter data are encoded here: handing them over would take longer. */
const WORTH = 64 << 10;
/** The same of compressors that take a millisecond for it. */
const WORTH_SLOW = 8 << 10;
/** Bytes of data that wait for threads before the next is encoded here: what bounds the memory. */
const MAX_UNDER_WAY = 64 << 20;

const SLOW: ReadonlySet<CompressorName | undefined> = new Set(["zlib", "zstd", "lz4hc"]);

/** Compressors for which handing chunks over to threads pays; the others are faster than the handing over. */
export function worthThreads(cname: CompressorName | undefined): boolean {
  return SLOW.has(cname);
}

export class ThreadEncoder implements ChunkEncoder {
  readonly parallel: number;
  readonly #pool: WorkerPool;
  readonly #blosc: BloscChoice;
  readonly #alone: ChunkEncoder["encode"];
  readonly #worth: number;
  readonly #worthIt: (cname: CompressorName | undefined) => boolean;
  readonly #inputs = new BufferShelf();
  #underWay = 0;

  /** `alone` encodes what is not worth a thread: data shorter than `worth`, and those of a compressor that is not `worthIt`. */
  constructor(
    pool: WorkerPool,
    blosc: BloscChoice = "wasm",
    alone: ChunkEncoder["encode"] = encodeHere.encode,
    worth: number = WORTH,
    worthIt: (cname: CompressorName | undefined) => boolean = () => true,
  ) {
    this.parallel = 2 * pool.size;
    this.#pool = pool;
    this.#blosc = blosc;
    this.#alone = alone;
    this.#worth = worth;
    this.#worthIt = worthIt;
  }

  async encode(data: Uint8Array, options: EncodeOptions, room?: ArrayBuffer): Promise<Uint8Array> {
    const { length } = data;
    const crowded = this.#underWay > 0 && this.#underWay + length > MAX_UNDER_WAY;
    const worth = worthThreads(options.cname) ? Math.min(this.#worth, WORTH_SLOW) : this.#worth;
    if (length < worth || !this.#worthIt(options.cname) || crowded || !(await this.#pool.start()))
      return this.#alone(data, options, room);
    const input = this.#inputs.take(length) ?? new ArrayBuffer(length);
    new Uint8Array(input).set(data);
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

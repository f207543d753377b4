/**
 * Has worker threads encode and write whole shards. Knows what is worth it; must not know how threads run.
 *
 * The calling thread goes on writing shards itself: it gives the items to a thread once, and nothing comes back. Chunk by
 * chunk there would be as much copying as encoding.
 */

import { BufferShelf } from "../../bytes/allocate.ts";
import { at } from "../../bytes/at.ts";
import { encodeHere, HEADER_LENGTH } from "../../codec/index.ts";
import type { ChunkEncoder, CompressorName, EncodeHelper, EncodeOptions } from "../../codec/types.ts";
import { isSuperchunkError, unpackError } from "../../errors.ts";
import { isObject, stringifyJson } from "../../format/json.ts";
import type { WritableStore } from "../../store/types.ts";
import { copyItems } from "../../values/copy-items.ts";
import { elementsOf, stridesOf } from "../../values/selection.ts";
import { leafOf } from "../../zarr/codecs/chain.ts";
import type { Stage } from "../../zarr/codecs/stage.ts";
import type { ArrayModel } from "../../zarr/document/model.ts";
import type { ShardWriter, WholeShard } from "../../zarr/write/write-settings.ts";
import { newMark } from "../fs/fs-publish.ts";
import { FileStore } from "../fs/fs-store.ts";
import type { BloscChoice, EncodePiece } from "./thread-messages.ts";
import type { WorkerPool } from "./worker-pool.ts";

/** Bytes of items from which a shard is worth handing over. */
const WORTH = 4 << 20;
/** Bytes of items after which threads are started, where none run: to start takes them as long as to encode half of that. */
const WORTH_STARTING = 1 << 30;
/** Bytes of items that threads have at a time: what bounds the memory. */
const MAX_ITEMS_UNDER_WAY = 256 << 20;
/** Bytes of memory for items that are kept for later shards. */
const MAX_IDLE = 128 << 20;
/** Shards of a thread: one waits for the disk, while another is encoded. */
const OF_A_THREAD = 2;
/** Shards at a time, at most: the calling thread, which hands out the items, keeps no more threads busy. */
const MOST = 8;

/** Items in shared memory, and the byte where they begin. */
interface SharedItems {
  readonly buffer: SharedArrayBuffer;
  readonly offset: number;
}

/** Hands whole shards of arrays in folders over to the threads of a pool, as far as that is sooner done. */
export class ThreadShardWriter implements ShardWriter {
  readonly parallel: number;
  readonly #pool: WorkerPool;
  readonly #threads: number;
  readonly #blosc: BloscChoice;
  readonly #worth: number;
  readonly #worthStarting: number;
  /**
   * Memory for items that is free: to get new memory costs about as much as to encode what goes into it, and engines are late
   * to give shared memory back, as the threads hold it as well: what is kept does not pile up.
   */
  readonly #idle = new BufferShelf<SharedArrayBuffer>(MAX_IDLE);
  /** Bytes of items that were offered so far. */
  #offered = 0;
  #shards = 0;
  #bytes = 0;

  /**
   * @param worth bytes of items from which a shard is handed over
   * @param worthStarting bytes of items after which threads are started
   */
  constructor(
    pool: WorkerPool,
    blosc: BloscChoice,
    worth: number = WORTH,
    worthStarting: number = WORTH_STARTING,
  ) {
    this.#pool = pool;
    // The calling thread encodes as well.
    this.#threads = Math.max(1, pool.size - 1);
    this.parallel = Math.min(OF_A_THREAD * this.#threads, MOST);
    this.#blosc = blosc;
    this.#worth = worth;
    this.#worthStarting = worthStarting;
  }

  async write(store: WritableStore, shard: WholeShard): Promise<boolean> {
    const length = elementsOf(shard.counts) * shard.model.dtype.itemSize;
    const hasRoom = this.#shards < this.parallel && this.#bytes + length <= MAX_ITEMS_UNDER_WAY;
    if (!hasRoom || length < this.#worth || !isFolder(store) || !isSuited(shard.model)) return false;
    this.#offered += length;
    if (!this.#pool.isRunning && this.#offered <= this.#worthStarting) return false;
    this.#shards++;
    this.#bytes += length;
    try {
      if (!(await this.#pool.start(this.#threads))) return false;
      // The thread replaces the file, which Windows refuses while it is open here.
      await store.closeFile(shard.key);
      shard.signal?.throwIfAborted();
      await this.#hand(store, shard, length);
      return true;
    } finally {
      this.#shards--;
      this.#bytes -= length;
    }
  }

  async #hand(store: FileStore, shard: WholeShard, length: number): Promise<void> {
    const { model, key, start, counts, chunkOrder, writeEmptyChunks, signal } = shard;
    const given = findShared(shard);
    const { buffer, offset } = given ?? { buffer: this.#copy(shard, length), offset: 0 };
    const { durability } = store.folders;
    durability.assert(); // of what failed here the thread knows nothing
    const mark = newMark();
    const done = this.#pool.run(
      {
        ...{ kind: "shard", blosc: this.#blosc, root: store.root, directWrites: store.directWrites, mark },
        ...{ path: model.path, document: stringifyJson(model.document), chunkOrder, writeEmptyChunks },
        ...{ start, counts, items: buffer, offset, length },
      },
      [],
      { most: this.#threads, signal },
    );
    const path = store.describe(key);
    const reply = await done.catch(async (error: unknown) => {
      // The thread has ended, and cannot remove it. The first error is the one to tell.
      await store.removeTemporary(key, mark).catch(() => undefined);
      throw isSuperchunkError(error) ? error.at({ path }) : error;
    });
    if (given === undefined) this.#idle.put(buffer);
    if (reply.error === undefined) return durability.assert();
    const error = unpackError(reply.error);
    durability.note(error);
    signal?.throwIfAborted();
    throw error;
  }

  /** The items one after the other in memory that threads share: moving it from thread to thread takes longer. */
  #copy({ model, items, counts }: WholeShard, length: number): SharedArrayBuffer {
    const buffer = this.#idle.take(length) ?? new SharedArrayBuffer(length);
    const bytes = new Uint8Array(buffer);
    copyItems(items, { bytes, offset: 0, strides: stridesOf(counts) }, counts, model.dtype.itemSize);
    return buffer;
  }
}

/** Where threads can read the items as they are. */
function findShared({ model, items, counts }: WholeShard): SharedItems | undefined {
  const { buffer, byteOffset } = items.bytes;
  const strides = stridesOf(counts);
  const isContiguous = counts.every((n, d) => n === 1 || items.strides[d] === strides[d]);
  if (!isContiguous || buffer instanceof ArrayBuffer) return undefined;
  return { buffer, offset: byteOffset + items.offset * model.dtype.itemSize };
}

/** Threads open the same folder: of another store they know nothing. */
function isFolder(store: WritableStore): store is FileStore {
  return Object.getPrototypeOf(store) === FileStore.prototype;
}

/** Chunks of slow compressors go to all threads one by one, by the encoder. */
function isSuited({ dialect, chain }: ArrayModel): boolean {
  return dialect === "zarr3" && !leafOf(chain).stages.some((stage) => isSlow(compressorOf(stage)));
}

function compressorOf({ isBlosc, v3 }: Stage): CompressorName | undefined {
  const configuration = v3?.["configuration"];
  if (isBlosc === undefined || !isObject(configuration)) return undefined;
  return configuration["cname"] as CompressorName | undefined;
}

// Encodes chunks in worker threads. Knows jobs; must not know how threads run.

/** Bytes of data that wait for threads before the next is encoded here: what bounds the memory. */
const MAX_PIECES_UNDER_WAY = 64 << 20;

const SLOW: ReadonlySet<CompressorName | undefined> = new Set(["zlib", "zstd", "lz4hc"]);

/** True for compressors for which handing chunks over to threads pays; the others are faster than the handing over. */
export function isSlow(cname: CompressorName | undefined): boolean {
  return SLOW.has(cname);
}

/** Bytes from which data of a compressor are worth handing over; shorter ones are encoded in the calling thread. */
type Worth = (cname: CompressorName | undefined) => number;

/** Where threads are asked for: shorter data would take longer to hand over. Slow compressors take a millisecond for 8 KiB. */
export const worthAsked: Worth = (cname) => (isSlow(cname) ? 8 << 10 : 64 << 10);

/** Where they are not: slow compressors only. */
export const worthUnasked: Worth = (cname) => (isSlow(cname) ? worthAsked(cname) : Number.POSITIVE_INFINITY);

/** Bytes of offered pieces that go to a thread in one message: short ones by themselves take longer to send than to encode. */
const BATCH = 1 << 20;
/** Messages of a thread: one waits, while another is worked on. */
const MESSAGES = 2;
/** Bytes of headers for which a batch's memory has room, so that it can take chunks as well as data. */
const OVERHEAD = 1 << 10;

/** Data on the way to a thread, and who waits for their chunk. */
interface Piece extends EncodePiece {
  /** Gives the memory for the chunk. */
  readonly place: (length: number) => Uint8Array;
  readonly resolve: (chunk: Uint8Array) => void;
  readonly reject: (error: unknown) => void;
}

/** Pieces that go to a thread together, one after the other in memory that it shares. */
interface Batch {
  readonly memory: SharedArrayBuffer;
  readonly pieces: Piece[];
  length: number;
}

export class ThreadEncoder implements ChunkEncoder, EncodeHelper {
  readonly parallel: number;
  readonly #pool: WorkerPool;
  readonly #blosc: BloscChoice;
  readonly #alone: ChunkEncoder["encode"];
  readonly #worth: Worth;
  /** Memory that is free: new memory, and moving it from thread to thread, takes as long as to encode. */
  readonly #free = new BufferShelf<SharedArrayBuffer>();
  #waiting: Batch | undefined;
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

  helperOf(cname: CompressorName | undefined, isLimit: boolean): EncodeHelper | undefined {
    const isAsked = Number.isFinite(this.#worth(cname));
    return isSlow(cname) || this.#blosc === "native" || !(isAsked || isLimit) ? undefined : this;
  }

  async encode(
    data: Uint8Array,
    options: EncodeOptions,
    room?: Uint8Array<ArrayBuffer>,
  ): Promise<Uint8Array> {
    const { length } = data;
    const crowded = this.#underWay > 0 && this.#underWay + length > MAX_PIECES_UNDER_WAY;
    if (length < this.#worth(options.cname) || crowded || !(await this.#pool.start()))
      return this.#alone(data, options, room);
    const chunk = this.#add(data, options, (size) => room?.subarray(0, size) ?? new Uint8Array(size));
    this.#send(); // the next goes to another thread
    return chunk;
  }

  offer(
    data: Uint8Array,
    options: EncodeOptions,
    place: (length: number) => Uint8Array,
  ): Promise<Uint8Array> | undefined {
    // The calling thread encodes as well.
    const threads = Math.max(1, this.#pool.size - 1);
    if (!this.#pool.isRunning) void this.#pool.start(threads);
    const isEnough = this.#underWay + data.length > MESSAGES * BATCH * threads;
    return !this.#pool.isRunning || isEnough ? undefined : this.#add(data, options, place);
  }

  /** Puts data to those that wait, and sends these once they are enough, or nothing else is going on. */
  #add(data: Uint8Array, options: EncodeOptions, place: Piece["place"]): Promise<Uint8Array> {
    const { length } = data;
    this.#underWay += length;
    const chunk = new Promise<Uint8Array>((resolve, reject) => {
      if (this.#waiting !== undefined && this.#waiting.length + length > BATCH) this.#send();
      if (this.#waiting === undefined) {
        this.#waiting = { memory: this.#take(Math.max(length, BATCH)), pieces: [], length: 0 };
        setImmediate(() => this.#send());
      }
      new Uint8Array(this.#waiting.memory).set(data, this.#waiting.length);
      this.#waiting.pieces.push({ length, options, place, resolve, reject });
      this.#waiting.length += length;
      if (this.#waiting.length >= BATCH) this.#send();
    });
    return chunk.finally(() => {
      this.#underWay -= length;
    });
  }

  #send(): void {
    if (this.#waiting !== undefined) void this.#hand(this.#waiting);
    this.#waiting = undefined;
  }

  /** Has a thread encode a batch. Where it ended, or one of the pieces cannot be encoded, each is encoded here, for its chunk or its error. */
  async #hand(batch: Batch): Promise<void> {
    try {
      return await this.#encodeElsewhere(batch);
    } catch {
      let from = 0;
      for (const { length, options, place, resolve, reject } of batch.pieces) {
        const data = new Uint8Array(batch.memory, from, length).slice();
        this.#alone(data, options)
          .then((chunk) => resolve(putInto(place, chunk)))
          .catch(reject);
        from += length;
      }
    }
  }

  async #encodeElsewhere({ memory, pieces, length }: Batch): Promise<void> {
    const output = this.#take(length + HEADER_LENGTH * pieces.length);
    const plain = pieces.map((piece) => ({ length: piece.length, options: piece.options }));
    const job = { kind: "encode", blosc: this.#blosc, input: memory, output, pieces: plain } as const;
    const { facts, error } = await this.#pool.run(job, []);
    if (error !== undefined) throw unpackError(error);
    let to = 0;
    for (const [i, { place, resolve }] of pieces.entries()) {
      const made = at(facts, i);
      resolve(putInto(place, new Uint8Array(output, to, made)));
      to += made;
    }
    this.#free.put(memory);
    this.#free.put(output);
  }

  #take(length: number): SharedArrayBuffer {
    return this.#free.take(length) ?? new SharedArrayBuffer(Math.max(length, BATCH + OVERHEAD));
  }
}

function putInto(place: Piece["place"], chunk: Uint8Array): Uint8Array {
  const room = place(chunk.length);
  room.set(chunk);
  return room;
}

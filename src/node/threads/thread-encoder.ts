/**
 * Lets worker threads encode and write whole shards. Knows when that pays off; must not know how threads run.
 *
 * The calling thread also writes shards itself. It passes the items to a thread once, and nothing is returned. Passing single
 * chunks would take as long for copying as for encoding.
 */

import { at, BufferShelf, elementsOf } from "../../bytes/arrays.ts";
import { encodeHere, HEADER_LENGTH } from "../../codec/index.ts";
import type { ChunkEncoder, CompressorName, EncodeHelper, EncodeOptions } from "../../codec/types.ts";
import { isSuperchunkError, unpackError } from "../../errors.ts";
import { isObject, stringifyJson } from "../../format/json.ts";
import type { WritableStore } from "../../store/types.ts";
import { copyItems } from "../../values/copy-items.ts";
import { stridesOf } from "../../values/selection.ts";
import { leafOf } from "../../zarr/codecs/chain.ts";
import type { Stage } from "../../zarr/codecs/stage.ts";
import type { ArrayModel } from "../../zarr/document/model.ts";
import type { ShardWriter, WholeShard } from "../../zarr/write/write-settings.ts";
import { FileStore } from "../fs/fs-store.ts";
import { newMark } from "../fs/fs-write.ts";
import { type BloscChoice, type EncodePiece, nextPlace } from "./thread-messages.ts";
import type { WorkerPool } from "./worker-pool.ts";

/** Bytes of items from which on a shard is passed to a thread. */
const WORTH = 4 << 20;
/** Bytes of items after which threads are started, if none run: starting takes as long as encoding half of that. */
const WORTH_STARTING = 1 << 30;
/** Most bytes of items in threads at a time, which limits the memory. */
const MAX_ITEMS_UNDER_WAY = 256 << 20;
/** Bytes of memory for items that are kept for later shards. */
const MAX_IDLE = 128 << 20;
/** Shards per thread: one waits for the disk while another is encoded. */
const OF_A_THREAD = 2;
/** Most shards at a time: the calling thread, which distributes the items, cannot keep more threads busy. */
const MOST = 8;

/** Items in shared memory, and the byte where they begin. */
interface SharedItems {
  readonly buffer: SharedArrayBuffer;
  readonly offset: number;
}

/**
 * Passes whole shards of arrays in folders to the threads of a pool if that is faster.
 * @param worth bytes of items from which on a shard is passed on
 * @param worthStarting bytes of items after which threads are started
 */
export function threadShardWriter(
  pool: WorkerPool,
  blosc: BloscChoice,
  worth: number = WORTH,
  worthStarting: number = WORTH_STARTING,
): ShardWriter {
  /**
   * Free memory for items. Allocating takes about as long as encoding the items, and engines are slow to free shared memory,
   * because the threads hold it as well. Keeping it avoids that it piles up.
   */
  const idle = new BufferShelf<SharedArrayBuffer>(MAX_IDLE);
  /** Bytes of items offered so far. */
  let offered = 0;
  let shards = 0;
  let bytes = 0;
  // The calling thread encodes as well.
  const threads = Math.max(1, pool.size - 1);
  const parallel = Math.min(OF_A_THREAD * threads, MOST);

  async function write(store: WritableStore, shard: WholeShard): Promise<boolean> {
    const length = elementsOf(shard.counts) * shard.model.dtype.itemSize;
    const hasRoom = shards < parallel && bytes + length <= MAX_ITEMS_UNDER_WAY;
    if (!hasRoom || length < worth || !isFileStore(store) || !isSuited(shard.model)) return false;
    offered += length;
    if (!pool.isRunning && offered <= worthStarting) return false;
    shards++;
    bytes += length;
    try {
      if (!(await pool.start(threads))) return false;
      // The thread replaces the file, which Windows refuses while it is open here.
      await store.closeFile(shard.key);
      shard.signal?.throwIfAborted();
      await hand(store, shard, length);
      return true;
    } finally {
      shards--;
      bytes -= length;
    }
  }

  async function hand(store: FileStore, shard: WholeShard, length: number): Promise<void> {
    const { model, key, start, counts, chunkOrder, writeEmptyChunks, signal } = shard;
    const given = findShared(shard);
    const { buffer, offset } = given ?? { buffer: copy(shard, length), offset: 0 };
    const { durability } = store.folders;
    durability.assert(); // the thread does not know of failures here
    const mark = newMark();
    const done = pool.run(
      {
        kind: "shard",
        blosc,
        root: store.root,
        directWrites: store.directWrites,
        mark,
        path: model.path,
        document: stringifyJson(model.document),
        chunkOrder,
        writeEmptyChunks,
        start,
        counts,
        items: buffer,
        offset,
        length,
      },
      [],
      { most: threads, signal },
    );
    const path = store.describe(key);
    const reply = await done.catch(async (error: unknown) => {
      // The thread has ended and cannot remove it. The first error is the one to report.
      await store.removeTemporary(key, mark).catch(() => undefined);
      throw isSuperchunkError(error) ? error.at({ path }) : error;
    });
    if (given === undefined) idle.put(buffer);
    if (reply.error === undefined) return durability.assert();
    const error = unpackError(reply.error);
    durability.note(error);
    signal?.throwIfAborted();
    throw error;
  }

  /** Copies the items to consecutive memory that threads share. Moving memory from thread to thread takes longer. */
  function copy({ model, items, counts }: WholeShard, length: number): SharedArrayBuffer {
    const buffer = idle.take(length) ?? new SharedArrayBuffer(length);
    const bytes = new Uint8Array(buffer);
    copyItems(items, { bytes, offset: 0, strides: stridesOf(counts) }, counts, model.dtype.itemSize);
    return buffer;
  }
  return { parallel, write };
}

/** The items in place, if threads can read them there. */
function findShared({ model, items, counts }: WholeShard): SharedItems | undefined {
  const { buffer, byteOffset } = items.bytes;
  const strides = stridesOf(counts);
  const isContiguous = counts.every((n, d) => n === 1 || items.strides[d] === strides[d]);
  if (!isContiguous || buffer instanceof ArrayBuffer) return undefined;
  return { buffer, offset: byteOffset + items.offset * model.dtype.itemSize };
}

/** Threads open the same folder; they cannot open other stores. */
function isFileStore(store: WritableStore): store is FileStore {
  return Object.getPrototypeOf(store) === FileStore.prototype;
}

/** False for slow compressors, whose chunks the encoder distributes to all threads one by one. */
function isSuited({ dialect, chain }: ArrayModel): boolean {
  return dialect === "zarr3" && !leafOf(chain).stages.some((stage) => isSlow(compressorOf(stage)));
}

function compressorOf({ isBlosc, v3 }: Stage): CompressorName | undefined {
  const configuration = v3?.["configuration"];
  if (isBlosc === undefined || !isObject(configuration)) return undefined;
  return configuration["cname"] as CompressorName | undefined;
}

// Encodes chunks in worker threads. Knows jobs; must not know how threads run.

/** Most bytes of data that wait for threads; then the next is encoded here. Limits the memory. */
const MAX_PIECES_UNDER_WAY = 64 << 20;

const SLOW: ReadonlySet<CompressorName | undefined> = new Set(["zlib", "zstd", "lz4hc"]);

/** True for compressors slow enough that passing chunks to threads pays off. */
export function isSlow(cname: CompressorName | undefined): boolean {
  return SLOW.has(cname);
}

/** Bytes from which on data of a compressor are passed to a thread; shorter data are encoded in the calling thread. */
type Worth = (cname: CompressorName | undefined) => number;

/**
 * If the caller asks for threads: passing on shorter data would take longer than encoding them. Slow compressors take a
 * millisecond for 8 KiB.
 */
export const worthAsked: Worth = (cname) => (isSlow(cname) ? 8 << 10 : 64 << 10);

/** If the caller does not: only for slow compressors. */
export const worthUnasked: Worth = (cname) => (isSlow(cname) ? worthAsked(cname) : Number.POSITIVE_INFINITY);

/** Bytes of offered pieces in one message to a thread: sending short pieces one by one takes longer than encoding them. */
const BATCH = 1 << 20;
/** Messages per thread: one waits while another is processed. */
const MESSAGES = 2;
/** Bytes for headers in a batch's memory, so that it can hold chunks as well as data. */
const OVERHEAD = 1 << 10;

/** Data on the way to a thread, and the promise of their chunk. */
interface PendingPiece extends EncodePiece {
  readonly place: (length: number) => Uint8Array;
  readonly resolve: (chunk: Uint8Array) => void;
  readonly reject: (error: unknown) => void;
}

/** Pieces that go to a thread together, one after the other in shared memory. */
interface EncodeBatch {
  readonly memory: SharedArrayBuffer;
  readonly pieces: PendingPiece[];
  length: number;
}

export class ThreadEncoder implements ChunkEncoder, EncodeHelper {
  readonly parallel: number;
  readonly #pool: WorkerPool;
  readonly #blosc: BloscChoice;
  readonly #alone: ChunkEncoder["encode"];
  readonly #worth: Worth;
  /** Free memory: allocating it, or moving it from thread to thread, takes as long as encoding. */
  readonly #free = new BufferShelf<SharedArrayBuffer>();
  #waiting: EncodeBatch | undefined;
  #underWay = 0;

  /** `alone` encodes what is too small for a thread. */
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

  /** If no length pays off for a thread, chunks are encoded here, one at a time. */
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

  /** Adds data to the waiting batch. Sends it once it is large enough, or if nothing else is under way. */
  #add(data: Uint8Array, options: EncodeOptions, place: PendingPiece["place"]): Promise<Uint8Array> {
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
      this.#waiting.length = nextPlace(this.#waiting.length, length);
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

  /**
   * Lets a thread encode a batch. If the thread ended, or one of the pieces cannot be encoded, each piece is encoded here, which gives
   * its chunk or its error.
   */
  async #hand(batch: EncodeBatch): Promise<void> {
    try {
      return await this.#encodeElsewhere(batch);
    } catch {
      let from = 0;
      for (const { length, options, place, resolve, reject } of batch.pieces) {
        const data = new Uint8Array(batch.memory, from, length).slice();
        this.#alone(data, options)
          .then((chunk) => resolve(putInto(place, chunk)))
          .catch(reject);
        from = nextPlace(from, length);
      }
    }
  }

  async #encodeElsewhere({ memory, pieces, length }: EncodeBatch): Promise<void> {
    const output = this.#take(length + HEADER_LENGTH * pieces.length);
    const plain = pieces.map((piece) => ({ length: piece.length, options: piece.options }));
    const job = { kind: "encode", blosc: this.#blosc, input: memory, output, pieces: plain } as const;
    const { facts, error } = await this.#pool.run(job, []);
    if (error !== undefined) throw unpackError(error);
    let to = 0;
    for (const [i, { place, resolve }] of pieces.entries()) {
      const made = at(facts, i);
      resolve(putInto(place, new Uint8Array(output, to, made)));
      to = nextPlace(to, made);
    }
    this.#free.put(memory);
    this.#free.put(output);
  }

  #take(length: number): SharedArrayBuffer {
    return this.#free.take(length) ?? new SharedArrayBuffer(Math.max(length, BATCH + OVERHEAD));
  }
}

function putInto(place: PendingPiece["place"], chunk: Uint8Array): Uint8Array {
  const room = place(chunk.length);
  room.set(chunk);
  return room;
}

/**
 * Decodes the chunks of an archive in worker threads, in order, with bounded memory.
 *
 * The threads themselves read files of this library's own store. Bytes of other stores are fetched and checked here, and then
 * passed on. Knows jobs and their order; must not know how threads run.
 */
import type { PlacedChunk } from "../../archive/places/sequence.ts";
import {
  type ChunkDecoder,
  type DecodedChunk,
  type DecodeRun,
  decodeInThread,
  type FetchedChunk,
  fetchChunks,
} from "../../archive/read/chunk-fetch.ts";
import { BufferShelf, type PrepareMemory } from "../../bytes/arrays.ts";
import { isSuperchunkError, unpackError } from "../../errors.ts";
import type { ReadableStore } from "../../store/types.ts";
import { FolderReader } from "../fs/fs-reader.ts";
import { FileStore } from "../fs/fs-store.ts";
import { keepUntil } from "./result-memory.ts";
import {
  type BloscChoice,
  type DecodeBytes,
  type DecodePlaces,
  directTargets,
  FACTS,
  packPlaces,
  packTogether,
  type ThreadReply,
} from "./thread-messages.ts";
import type { WorkerPool } from "./worker-pool.ts";

/** Decoded bytes under way in all runs together. Two jobs of a run are always allowed. */
const MAX_UNDER_WAY = 64 << 20;

/** When threads are used, and for how much at a time. All in decoded bytes. */
export interface ThreadTuning {
  /** From this size on threads are started, if none run. */
  readonly worthStarting: number;
  /** From this size on running threads are used. */
  readonly worthUsing: number;
  /** Size of a job: large enough to pay for a message, small enough to stay in a cache. */
  readonly jobBytes: number;
  /** The same if the thread writes into the result, so that a job need not stay in a cache. */
  readonly directJobBytes: number;
  readonly minJobBytes: number;
}

const TUNING: ThreadTuning = {
  worthStarting: 32 << 20,
  worthUsing: 4 << 20,
  jobBytes: 2 << 20,
  directJobBytes: 8 << 20,
  minJobBytes: 256 << 10,
};

/** What the runs of a decoder share. */
interface SharedThreads {
  readonly pool: WorkerPool;
  readonly blosc: BloscChoice;
  readonly tuning: ThreadTuning;
  readonly inputs: BufferShelf;
  readonly outputs: BufferShelf;
  /** Decoded bytes under way. */
  underWay: number;
}

/** `alone` decodes what is too small for a thread; `prepareResult` prepares the memory of large results. */
export function threadDecoder(
  pool: WorkerPool,
  blosc: BloscChoice = "wasm",
  alone: ChunkDecoder = decodeInThread(),
  tuning: ThreadTuning = TUNING,
  prepareResult?: PrepareMemory,
): ChunkDecoder {
  const [inputs, outputs] = [new BufferShelf(), new BufferShelf()];
  const shared: SharedThreads = { pool, blosc, tuning, inputs, outputs, underWay: 0 };
  return {
    prepareResult,
    async *decodeChunks(store, batches, run) {
      const worth = pool.isRunning ? tuning.worthUsing : tuning.worthStarting;
      const isWorthIt = run.chunks >= 2 && run.nbytes >= worth && (await pool.start());
      if (isWorthIt) yield* new ThreadRun(shared, store, run).decode(batches);
      else yield* alone.decodeChunks(store, batches, run);
    },
  };
}

/** A batch at a thread. */
interface DecodeJob {
  readonly batch: DecodeBatch;
  readonly reply: Promise<ThreadReply>;
}

/** One call of `decodeChunks`: submits jobs ahead, and yields their chunks in order. */
class ThreadRun {
  readonly #shared: SharedThreads;
  readonly #store: ReadableStore;
  readonly #run: DecodeRun;
  /** Jobs under way, the next to yield first. */
  readonly #jobs: DecodeJob[] = [];
  /** The submission under way. */
  #feeding: Promise<void> | undefined;
  #isExhausted = false;
  /** Why no more chunks can be fetched. Those before are yielded first. */
  #failure: { readonly error: unknown } | undefined;
  /** Ends the current wait. */
  #stopWaiting = (): void => undefined;

  constructor(shared: SharedThreads, store: ReadableStore, run: DecodeRun) {
    this.#shared = shared;
    this.#store = store;
    this.#run = run;
  }

  async *decode(places: AsyncIterable<readonly PlacedChunk[]>): AsyncGenerator<DecodedChunk> {
    const { signal } = this.#run;
    const batches = this.#cut(places);
    const listener = (): void => this.#stopWaiting();
    signal?.addEventListener("abort", listener);
    try {
      for (;;) {
        signal?.throwIfAborted();
        await this.#submitAhead(batches);
        const job = this.#jobs.shift();
        if (job === undefined) break;
        yield* this.#deliver(await this.#orAbort(job.reply), job.batch);
      }
      if (this.#failure !== undefined) throw this.#failure.error;
    } finally {
      signal?.removeEventListener("abort", listener);
      await this.#feeding;
      await batches.return(undefined);
    }
  }

  /** Submits jobs while there is room for them, or until the first one is done. */
  async #submitAhead(batches: AsyncIterator<DecodeBatch>): Promise<void> {
    while (!this.#isExhausted && this.#hasRoom) {
      this.#feeding ??= this.#submitNext(batches);
      const [first] = this.#jobs;
      await this.#orAbort(first === undefined ? this.#feeding : Promise.race([this.#feeding, first.reply]));
      if (this.#feeding !== undefined) return; // the first result came before the next job was fetched
    }
  }

  get #hasRoom(): boolean {
    const { pool, underWay } = this.#shared;
    if (this.#jobs.length < 2) return true;
    return this.#jobs.length < 2 * pool.size + 1 && underWay < MAX_UNDER_WAY;
  }

  async #submitNext(batches: AsyncIterator<DecodeBatch>): Promise<void> {
    try {
      const next = await batches.next();
      if (next.done === true) this.#isExhausted = true;
      else this.#jobs.push(this.#submit(next.value));
    } catch (error) {
      this.#failure = { error };
      this.#isExhausted = true;
    }
    this.#feeding = undefined;
  }

  #submit(batch: DecodeBatch): DecodeJob {
    const { pool, blosc, outputs } = this.#shared;
    const { fetched, places, nbytes } = batch;
    const own = this.#run.hold === "keep";
    const direct = blosc === "wasm" ? directTargets(places, this.#run) : undefined;
    const targets = direct?.targets;
    const output = own || targets !== undefined ? undefined : outputs.take(nbytes);
    const common = { blosc, own, output, targets };
    const transfer = output === undefined ? [] : [output];
    this.#shared.underWay += nbytes;
    const reply =
      fetched === undefined
        ? pool.run(
            { ...common, ...placesJob(this.#store as FolderReader, places, this.#run.verify) },
            transfer,
          )
        : pool.run({ ...common, kind: "bytes", ...fetched }, [...transfer, fetched.input]);
    const counted = reply.finally(() => {
      this.#shared.underWay -= nbytes;
    });
    counted.catch(() => undefined); // thrown when its turn comes
    if (direct !== undefined) keepUntil(reply, direct.buffer);
    return { batch, reply: counted };
  }

  /** The result of `work`; throws the signal's reason as soon as the run is aborted. */
  #orAbort<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#stopWaiting = () => reject(this.#run.signal?.reason);
      work.then(resolve, reject);
    });
  }

  /** Yields a job's chunks; its buffer is reused after the last of them. */
  *#deliver({ buffers, facts, input, error }: ThreadReply, { places }: DecodeBatch): Generator<DecodedChunk> {
    const { inputs, outputs } = this.#shared;
    const isKept = this.#run.hold === "keep";
    if (input !== undefined) inputs.put(input);
    let at = 0;
    const count = facts.length / FACTS;
    for (let i = 0; i < count; i++) {
      const place = places[i];
      const [nbytes = 0, ctbytes = 0, typesize = 0, trailing = 0] = facts.subarray(
        i * FACTS,
        (i + 1) * FACTS,
      );
      const target = place === undefined ? undefined : this.#run.target?.(place);
      if (buffers.length === 0 && place !== undefined && target !== undefined) {
        // The thread has already written it there.
        yield { place, bytes: target, ctbytes, typesize, trailing };
        continue;
      }
      const buffer = isKept ? buffers[i] : buffers[0];
      if (place === undefined || buffer === undefined)
        throw new RangeError("a thread answered something else");
      const decoded = new Uint8Array(buffer, isKept ? 0 : at, nbytes);
      at += nbytes;
      target?.set(decoded);
      yield { place, bytes: target ?? decoded, ctbytes, typesize, trailing };
    }
    if (!isKept) for (const buffer of buffers) outputs.put(buffer);
    if (error !== undefined) throw locateError(unpackError(error), this.#store, places[count]);
  }

  /** Decoded bytes of a job: every thread should have work, and none should keep the others waiting at the end. */
  #mostBytes(places: readonly PlacedChunk[]): number {
    const { pool, blosc, tuning } = this.#shared;
    const { minJobBytes, jobBytes, directJobBytes } = tuning;
    const share = this.#run.nbytes / pool.size;
    const isDirect = blosc === "wasm" && directTargets(places.slice(0, 1), this.#run) !== undefined;
    const most = isDirect ? Math.max(jobBytes, Math.min(directJobBytes, share / 8)) : jobBytes;
    return Math.max(minJobBytes, Math.min(most, Math.floor(share / 2)));
  }

  /** Cuts the chunks into batches, fetching those that a thread cannot read. */
  async *#cut(batches: AsyncIterable<readonly PlacedChunk[]>): AsyncGenerator<DecodeBatch> {
    const reopens = isOwnFolder(this.#store);
    for await (const places of batches) {
      const jobBytes = this.#mostBytes(places);
      if (!reopens) yield* fetchBatches(this.#store, places, jobBytes, this.#run, this.#shared.inputs);
      else
        for (const group of groupPlaces(places, jobBytes))
          yield { places: group, nbytes: bytesOf(group), fetched: undefined };
    }
  }
}

/** Only for this library's own stores, and not for wrappers or subclasses, does another thread read the same bytes. */
function isOwnFolder(store: ReadableStore): store is FolderReader {
  const made = store.constructor;
  return made === FileStore || made === FolderReader;
}

const storeIds = new WeakMap<ReadableStore, number>();
let lastStoreId = 0;

function placesJob(
  store: FolderReader,
  places: readonly PlacedChunk[],
  verify: boolean,
): Pick<DecodePlaces, "kind" | "store" | "root" | "places" | "verify"> {
  let id = storeIds.get(store);
  if (id === undefined) {
    id = ++lastStoreId;
    storeIds.set(store, id);
  }
  return { kind: "places", store: id, root: store.root, places: packPlaces(places), verify };
}

/** The thread does not know the place of chunks that were fetched here. */
function locateError(error: Error, store: ReadableStore, place: PlacedChunk | undefined): Error {
  if (place === undefined || !isSuperchunkError(error) || error.details.path !== undefined) return error;
  return error.inObject({ path: store.describe(place.key), chunk: place.index, offset: place.offset });
}

// Cuts chunks into batches for threads: named by their places, or fetched here. Knows the content of jobs; must not know how
// they are done.

/** Most chunks of a batch. */
const MAX_CHUNKS = 512;

/** Chunks that are decoded together. */
interface DecodeBatch {
  readonly places: readonly PlacedChunk[];
  readonly nbytes: number;
  /** Bytes fetched here; undefined if the thread reads them. */
  readonly fetched: Pick<DecodeBytes, "input" | "sizes"> | undefined;
}

/** Fetches chunks. If one is damaged, yields those before it, and then throws. */
async function* fetchBatches(
  store: ReadableStore,
  places: readonly PlacedChunk[],
  jobBytes: number,
  run: DecodeRun,
  shelf: BufferShelf,
): AsyncGenerator<DecodeBatch> {
  let input = new FetchedInput(shelf);
  let failure: { readonly error: unknown } | undefined;
  const chunks = fetchChunks(store, places, { verify: run.verify, signal: run.signal });
  try {
    for await (const chunk of chunks) {
      input.add(chunk);
      if (input.nbytes < jobBytes) continue;
      yield input.finish();
      input = new FetchedInput(shelf);
    }
  } catch (error) {
    failure = { error };
  }
  if (input.count > 0) yield input.finish();
  if (failure !== undefined) throw failure.error;
}

/** Fetched chunks that are collected for one job. */
class FetchedInput {
  readonly #shelf: BufferShelf;
  readonly #places: PlacedChunk[] = [];
  readonly #sizes: number[] = [];
  #buffer = new ArrayBuffer(0);
  #used = 0;
  nbytes = 0;

  constructor(shelf: BufferShelf) {
    this.#shelf = shelf;
  }

  get count(): number {
    return this.#places.length;
  }

  add({ place, bytes, trailing }: FetchedChunk): void {
    this.#reserve(this.#used + bytes.length);
    new Uint8Array(this.#buffer).set(bytes, this.#used);
    this.#used += bytes.length;
    this.#places.push(place);
    this.#sizes.push(bytes.length, place.nbytes, trailing);
    this.nbytes += place.nbytes;
  }

  finish(): DecodeBatch {
    const fetched = { input: this.#buffer, sizes: Float64Array.from(this.#sizes) };
    return { places: this.#places, nbytes: this.nbytes, fetched };
  }

  #reserve(needed: number): void {
    if (this.#buffer.byteLength >= needed) return;
    const room = Math.max(needed, 2 * this.#buffer.byteLength);
    const larger = this.#shelf.take(room) ?? new ArrayBuffer(room);
    new Uint8Array(larger).set(new Uint8Array(this.#buffer, 0, this.#used));
    this.#shelf.put(this.#buffer);
    this.#buffer = larger;
  }
}

/** Groups places that can be packed together, of about `jobBytes` decoded bytes each. */
function* groupPlaces(places: readonly PlacedChunk[], jobBytes: number): Generator<PlacedChunk[]> {
  let group: PlacedChunk[] = [];
  let nbytes = 0;
  for (const place of places) {
    const [first] = group;
    if (
      first !== undefined &&
      (nbytes >= jobBytes || group.length >= MAX_CHUNKS || !packTogether(first, place))
    ) {
      yield group;
      group = [];
      nbytes = 0;
    }
    group.push(place);
    nbytes += place.nbytes;
  }
  if (group.length > 0) yield group;
}

function bytesOf(places: readonly PlacedChunk[]): number {
  return places.reduce((sum, place) => sum + place.nbytes, 0);
}

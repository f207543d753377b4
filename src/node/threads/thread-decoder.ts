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

interface PendingReply {
  readonly batch: DecodeBatch;
  readonly reply: Promise<ThreadReply>;
}

/** `alone` decodes what is too small for a thread; `prepareResult` prepares the memory of large results. */
export function threadDecoder(
  pool: WorkerPool,
  blosc: BloscChoice = "wasm",
  alone: ChunkDecoder = decodeInThread(),
  tuning: ThreadTuning = TUNING,
  prepareResult?: PrepareMemory,
): ChunkDecoder {
  const inputs = new BufferShelf();
  const outputs = new BufferShelf();
  let underWay = 0;

  async function* decodeChunks(
    store: ReadableStore,
    batches: AsyncIterable<readonly PlacedChunk[]>,
    run: DecodeRun,
  ): AsyncGenerator<DecodedChunk> {
    const { worthUsing, worthStarting } = tuning;
    const worth = pool.isRunning ? worthUsing : worthStarting;
    if (run.chunks < 2 || run.nbytes < worth || !(await pool.start())) {
      yield* alone.decodeChunks(store, batches, run);
      return;
    }
    const slots: PendingReply[] = [];
    const source = prepare(store, batches, run)[Symbol.asyncIterator]();
    let feeding: Promise<void> | undefined;
    let failure: { readonly error: unknown } | undefined;
    let exhausted = false;
    const feed = async (): Promise<void> => {
      try {
        const next = await source.next();
        if (next.done === true) exhausted = true;
        else slots.push(submit(store, next.value, run));
      } catch (error) {
        // The chunks before it are yielded first.
        failure = { error };
        exhausted = true;
      }
      feeding = undefined;
    };
    let onAbort = (): void => undefined;
    const listener = (): void => onAbort();
    const orAbort = <T>(promise: Promise<T>): Promise<T> =>
      new Promise((resolve, reject) => {
        onAbort = () => reject(run.signal?.reason);
        promise.then(resolve, reject);
      });
    run.signal?.addEventListener("abort", listener);
    try {
      for (;;) {
        run.signal?.throwIfAborted();
        while (!exhausted && hasRoom(slots)) {
          feeding ??= feed();
          const [first] = slots;
          await orAbort(first === undefined ? feeding : Promise.race([feeding, first.reply]));
          if (feeding !== undefined) break; // the first result came before the next job was fetched
        }
        const slot = slots.shift();
        if (slot === undefined) break;
        yield* deliver(await orAbort(slot.reply), slot, store, run);
      }
      if (failure !== undefined) throw failure.error;
    } finally {
      run.signal?.removeEventListener("abort", listener);
      await feeding;
      await source.return?.(undefined);
    }
  }

  function hasRoom(slots: readonly PendingReply[]): boolean {
    if (slots.length < 2) return true;
    return slots.length < 2 * pool.size + 1 && underWay < MAX_UNDER_WAY;
  }

  function submit(store: ReadableStore, batch: DecodeBatch, run: DecodeRun): PendingReply {
    const { fetched, places, nbytes } = batch;
    const own = run.hold === "keep";
    const direct = blosc === "wasm" ? directTargets(places, run) : undefined;
    const targets = direct?.targets;
    const output = own || targets !== undefined ? undefined : outputs.take(nbytes);
    const common = { blosc, own, output, targets };
    const transfer = output === undefined ? [] : [output];
    underWay += nbytes;
    const reply =
      fetched === undefined
        ? pool.run({ ...common, ...placesJob(store as FolderReader, places, run.verify) }, transfer)
        : pool.run({ ...common, kind: "bytes", ...fetched }, [...transfer, fetched.input]);
    const counted = reply.finally(() => {
      underWay -= nbytes;
    });
    counted.catch(() => undefined); // thrown when its turn comes
    if (direct !== undefined) keepUntil(reply, direct.buffer);
    return { batch, reply: counted };
  }

  /** Yields a job's chunks; its buffer is reused after the last of them. */
  function* deliver(
    reply: ThreadReply,
    { batch }: PendingReply,
    store: ReadableStore,
    run: DecodeRun,
  ): Generator<DecodedChunk> {
    const { buffers, facts, input, error } = reply;
    if (input !== undefined) inputs.put(input);
    let at = 0;
    const count = facts.length / FACTS;
    for (let i = 0; i < count; i++) {
      const place = batch.places[i];
      const [nbytes = 0, ctbytes = 0, typesize = 0, trailing = 0] = facts.subarray(
        i * FACTS,
        (i + 1) * FACTS,
      );
      const target = place === undefined ? undefined : run.target?.(place);
      if (buffers.length === 0 && place !== undefined && target !== undefined) {
        // The thread has already written it there.
        yield { place, bytes: target, ctbytes, typesize, trailing };
        continue;
      }
      const buffer = run.hold === "keep" ? buffers[i] : buffers[0];
      if (place === undefined || buffer === undefined)
        throw new RangeError("a thread answered something else");
      const decoded = new Uint8Array(buffer, run.hold === "keep" ? 0 : at, nbytes);
      at += nbytes;
      target?.set(decoded);
      yield { place, bytes: target ?? decoded, ctbytes, typesize, trailing };
    }
    if (run.hold !== "keep") for (const buffer of buffers) outputs.put(buffer);
    if (error === undefined) return;
    throw locateError(unpackError(error), store, batch.places[count]);
  }

  /** Decoded bytes of a job: every thread should have work, and none should keep the others waiting at the end. */
  function mostBytes(places: readonly PlacedChunk[], run: DecodeRun): number {
    const { minJobBytes, jobBytes, directJobBytes } = tuning;
    const share = run.nbytes / pool.size;
    const isDirect = blosc === "wasm" && directTargets(places.slice(0, 1), run) !== undefined;
    const most = isDirect ? Math.max(jobBytes, Math.min(directJobBytes, share / 8)) : jobBytes;
    return Math.max(minJobBytes, Math.min(most, Math.floor(share / 2)));
  }

  /** Cuts the chunks into batches, fetching those that a thread cannot read. */
  async function* prepare(
    store: ReadableStore,
    batches: AsyncIterable<readonly PlacedChunk[]>,
    run: DecodeRun,
  ): AsyncGenerator<DecodeBatch> {
    const reopens = isOwnFolder(store);
    for await (const places of batches) {
      const jobBytes = mostBytes(places, run);
      if (reopens) {
        for (const group of groupPlaces(places, jobBytes))
          yield { places: group, nbytes: bytesOf(group), fetched: undefined };
      } else yield* fetchBatches(store, places, jobBytes, run, inputs);
    }
  }

  return { prepareResult, decodeChunks };
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
    for await (const { place, bytes } of chunks) {
      input.add(place, bytes);
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

  add(place: PlacedChunk, bytes: Uint8Array): void {
    this.#reserve(this.#used + bytes.length);
    new Uint8Array(this.#buffer).set(bytes, this.#used);
    this.#used += bytes.length;
    this.#places.push(place);
    this.#sizes.push(bytes.length, place.nbytes);
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

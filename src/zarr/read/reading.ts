/**
 * Reads any selection of an array: finds the chunks that it touches, through nested shards, in as few requests as possible.
 *
 * Knows chains and grids; values are made elsewhere. An index is read once for each shard and cached. After the reads, the
 * object's version is checked, so that bytes of two versions are never mixed.
 */

import { at, combine, elementsOf } from "../../bytes/arrays.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { runPooled, Turns } from "../../store/pool.ts";
import { type GeneratingStore, isGenerating, type ReadableStore } from "../../store/types.ts";
import { fillItems, type ItemView } from "../../values/copy-items.ts";
import { type Chain, innerGrid, permute, type ShardingSerializer, shardIndexOf } from "../codecs/chain.ts";
import {
  type AxisSegment,
  type ChunkExtent,
  partOfView,
  regularAxis,
  segmentsOf,
  shapeAt,
} from "../document/chunk-grid.ts";
import type { ArrayModel } from "../document/model.ts";
import {
  concurrencyOf,
  decodeLeaf,
  decodeStages,
  type LeafJob,
  LeafRequests,
  type ReadSettings,
  readLeafPart,
  readsInPart,
  type Wanted,
} from "./leaf.ts";
import { assertAbsent, type EncodedPlace, type KnownShard, ShardCache } from "./shard-cache.ts";

/** A read is repeated at most this often because a writer replaced the object. */
const MAX_ATTEMPTS = 8;

/** If at most every FEW-th inner chunk of a shard is requested, the shard need not be made. */
const FEW = 4;

const NEVER = new AbortController().signal;

interface InnerPart {
  /** Its slot in the shard's grid, in C order. */
  readonly slot: number;
  readonly segments: readonly AxisSegment[];
  readonly target: ItemView;
}

/** Collected jobs on the innermost chunks of one object. */
interface Collection {
  /** The version of the object that was inspected. */
  readonly version: string;
  readonly jobs: LeafJob[];
  readonly signal: AbortSignal;
}

export class ChunkReading {
  readonly cache: ShardCache;
  readonly #store: ReadableStore;
  /** The same store, where it can make single inner chunks. */
  readonly #generating: GeneratingStore | undefined;
  readonly #model: ArrayModel;
  /** In stored byte order. */
  readonly #fill: Uint8Array;
  readonly #concurrency: number;
  readonly #isImmutable: boolean;
  readonly #gate: Turns;
  readonly #jobs: LeafRequests;

  constructor(store: ReadableStore, model: ArrayModel, fill: Uint8Array, settings: ReadSettings) {
    this.#store = store;
    this.#generating = isGenerating(store) ? store : undefined;
    this.#model = model;
    this.#fill = fill;
    this.#concurrency = concurrencyOf(settings);
    this.#isImmutable = settings.immutable === true;
    this.#gate = new Turns(this.#concurrency);
    this.#jobs = new LeafRequests(store, settings, this.#gate);
    this.cache = new ShardCache(store, settings.cachedEntries);
  }

  /** True if objects do not change, or the store itself notices changes. */
  get #isPinned(): boolean {
    return this.#isImmutable || this.#store.pinsVersions === true;
  }

  /** Reads a selection into a view with its dimensions, items in stored byte order. */
  async read(extents: readonly ChunkExtent[], target: ItemView, signal?: AbortSignal): Promise<void> {
    const { axes } = this.#model;
    const lists = axes.map((axis, d) => [...segmentsOf(axis, extents[d] ?? { start: 0, count: 1, step: 1 })]);
    if (lists.every((list) => list.length === 1)) {
      const only = lists.flat();
      await this.#readChunk(only, partOfView(target, only), signal ?? NEVER);
      return;
    }
    await runPooled(
      combine(lists),
      this.#concurrency,
      (segments, inner) => this.#readChunk(segments, partOfView(target, segments), inner),
      signal,
    );
  }

  /** Reads from one object of the grid: a chunk or a shard. */
  async #readChunk(segments: readonly AxisSegment[], target: ItemView, signal: AbortSignal): Promise<void> {
    const { axes, chain } = this.#model;
    const position = segments.map(({ chunk }) => chunk);
    const shape = shapeAt(axes, position);
    const key = this.#model.chunkKey(position);
    const place = { key, path: this.#store.describe(key), offset: 0, nbytes: undefined };
    const wanted: Wanted = { place, shape, extents: segments, target };
    if (chain.serializer.kind === "bytes" || chain.stages.length > 0) {
      const job = this.#leafJob(chain, wanted);
      if (job !== undefined && !(await this.#readWholeObject(job, signal)))
        await this.#fillAbsent(wanted, signal);
      if (job === undefined) await this.#readPackedShard(chain, wanted, signal);
      return;
    }
    await this.#readShard(chain, chain.serializer, wanted, signal);
  }

  /** Reads a chunk that is an object; false if there is none. */
  async #readWholeObject(job: LeafJob, signal: AbortSignal): Promise<boolean> {
    const { key } = job.place;
    const unsized = { ...job, place: { ...job.place, nbytes: Number.MAX_SAFE_INTEGER } };
    if (this.#store.readsToStat !== true && readsInPart(this.#store, unsized))
      for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        const info = await this.#store.stat(key, { signal });
        if (info === undefined) return false;
        const known = { ...job, place: { ...job.place, nbytes: info.size } };
        if (!readsInPart(this.#store, known)) break;
        const isSame = async (): Promise<boolean> =>
          (await this.#store.stat(key, { signal }))?.version === info.version;
        if (await this.#holds(isSame, () => readLeafPart(this.#store, known, signal))) return true;
      }
    const bytes = await this.#gate.run(() => this.#store.get(key, { signal }));
    if (bytes === undefined) return false;
    await decodeLeaf(job, bytes, this.#jobs.shelf);
    return true;
  }

  /** A shard with further codecs must be fetched whole. */
  async #readPackedShard(chain: Chain, wanted: Wanted, signal: AbortSignal): Promise<void> {
    const { place } = wanted;
    const bytes = await this.#gate.run(() => this.#store.get(place.key, { signal }));
    if (bytes === undefined) return this.#fillAbsent(wanted, signal);
    const here: EncodedPlace = { ...place, memory: bytes, nbytes: bytes.length };
    const jobs: LeafJob[] = [];
    await this.#collect(chain, { ...wanted, place: here }, { version: "", jobs, signal });
    await this.#jobs.run(jobs, signal);
  }

  async #readShard(
    chain: Chain,
    serializer: ShardingSerializer,
    wanted: Wanted,
    signal: AbortSignal,
  ): Promise<void> {
    const { place, shape } = wanted;
    const { key } = place;
    const index = shardIndexOf(chain, serializer, shape);
    if (await this.#readMade(chain, serializer, wanted, signal)) return;
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      let shard: KnownShard | undefined;
      try {
        shard = await this.#gate.run(() => this.cache.open(key, index));
      } catch (error) {
        if (this.#isPinned || !isSuperchunkError(error, "STALE")) throw error;
        continue;
      }
      if (shard === undefined) return this.#fillAbsent(wanted, signal);
      const { entries, version } = shard;
      const isSame = async (): Promise<boolean> => (await this.cache.versionOf(key, index)) === version;
      const done = await this.#holds(isSame, async () => {
        const jobs: LeafJob[] = [];
        await this.#collectInner(chain, serializer, wanted, entries, { version, jobs, signal });
        await this.#jobs.run(jobs, signal);
      });
      if (done) return;
      this.cache.forget(key);
    }
    throw new SuperchunkError(
      "STALE",
      `the shard was replaced ${MAX_ATTEMPTS} times while it was read; read again when its writer is done`,
      { path: place.path },
    );
  }

  /**
   * Reads inner chunks of a shard that the store makes one by one, if few are requested; returns false if the store should make
   * the shard instead.
   */
  async #readMade(
    chain: Chain,
    serializer: ShardingSerializer,
    wanted: Wanted,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { place } = wanted;
    const store = this.#generating;
    if (store === undefined) return false;
    const inner = this.#innerOf(chain, serializer, wanted);
    if (inner.count * FEW > inner.capacity) return false;
    const parts = [...inner.parts];
    const slots = parts.map(({ slot }) => slot);
    const made = await this.#gate.run(() => store.getInner(place.key, slots, { signal }));
    if (made === undefined) return false;
    const jobs: LeafJob[] = [];
    for (const [i, { slot, segments, target }] of parts.entries()) {
      const memory = made[i];
      if (memory === undefined) {
        this.#fillTarget(segments, target);
        continue;
      }
      const inside: EncodedPlace = { ...place, offset: 0, nbytes: memory.length, slot, memory };
      const job = this.#leafJob(serializer.inner, {
        place: inside,
        shape: serializer.chunkShape,
        extents: segments,
        target,
      });
      if (job !== undefined) jobs.push(job);
    }
    await this.#jobs.run(jobs, signal);
    return true;
  }

  /** Runs a read; returns false if the object's version has changed. */
  async #holds(isSame: () => Promise<boolean>, read: () => Promise<void>): Promise<boolean> {
    try {
      await read();
    } catch (error) {
      if (!isSuperchunkError(error) || this.#isPinned || (await isSame())) throw error;
      return false;
    }
    return this.#isPinned || isSame();
  }

  /** Turns the requested part of a shard into jobs on innermost chunks, and fills absent ones. */
  async #collect(chain: Chain, wanted: Wanted, into: Collection): Promise<void> {
    const { serializer, stages } = chain;
    const { place, shape } = wanted;
    const { version, signal } = into;
    if (serializer.kind === "bytes") return;
    let here = place;
    if (stages.length > 0) {
      const encoded =
        place.memory?.subarray(place.offset, place.offset + (place.nbytes ?? 0)) ??
        (await this.#jobs.fetch(place.key, place.offset, place.nbytes ?? 0, place, signal));
      const memory = await decodeStages(stages, encoded, undefined, place);
      here = { ...place, offset: 0, nbytes: memory.length, memory };
    }
    const nested = { ...here, nbytes: here.nbytes ?? 0 };
    const index = shardIndexOf(chain, serializer, shape);
    const entries = await this.cache.openNested(nested, version, index, signal);
    await this.#collectInner(chain, serializer, { ...wanted, place: here }, entries, into);
  }

  async #collectInner(
    chain: Chain,
    serializer: ShardingSerializer,
    wanted: Wanted,
    entries: KnownShard["entries"],
    into: Collection,
  ): Promise<void> {
    const { chunkShape, inner } = serializer;
    const { place } = wanted;
    for (const { slot, segments, target } of this.#innerOf(chain, serializer, wanted).parts) {
      const entry = entries[slot];
      if (entry === undefined) {
        this.#fillTarget(segments, target);
        continue;
      }
      const inside: EncodedPlace = {
        ...place,
        offset: place.offset + entry.offset,
        nbytes: entry.nbytes,
        slot,
      };
      const within: Wanted = { place: inside, shape: chunkShape, extents: segments, target };
      const job = this.#leafJob(inner, within);
      if (job !== undefined) into.jobs.push(job);
      else await this.#collect(inner, within, into);
    }
  }

  /** The requested inner chunks of a shard: their number, the shard's capacity, and the part of each. */
  #innerOf(
    chain: Chain,
    serializer: ShardingSerializer,
    { shape, extents, target }: Pick<Wanted, "shape" | "extents" | "target">,
  ): { readonly count: number; readonly capacity: number; readonly parts: Iterable<InnerPart> } {
    const stored = permute(shape, chain.order);
    const grid = innerGrid(serializer, stored);
    const view: ItemView = { ...target, strides: permute(target.strides, chain.order) };
    const lists = permute(extents, chain.order).map((extent, d) => [
      ...segmentsOf(regularAxis(at(stored, d), at(serializer.chunkShape, d)), extent),
    ]);
    function* parts(): Generator<InnerPart> {
      for (const segments of combine(lists)) {
        const slot = segments.reduce((sum, { chunk }, d) => sum * at(grid, d) + chunk, 0);
        yield { slot, segments, target: partOfView(view, segments) };
      }
    }
    const count = elementsOf(lists.map(({ length }) => length));
    return { count, capacity: elementsOf(grid), parts: parts() };
  }

  /** The job of a chain without shards; undefined for one with shards. */
  #leafJob(chain: Chain, { place, shape, extents, target }: Wanted): LeafJob | undefined {
    if (chain.serializer.kind !== "bytes") return undefined;
    return {
      place,
      shape: permute(shape, chain.order),
      extents: permute(extents, chain.order),
      target: { ...target, strides: permute(target.strides, chain.order) },
      stages: chain.stages,
      itemSize: this.#model.dtype.itemSize,
    };
  }

  /** Fills the target for a missing object. Throws `INCOMPLETE` if something else is in its place. */
  async #fillAbsent({ place, extents, target }: Wanted, signal: AbortSignal): Promise<void> {
    await assertAbsent(this.#store, place.key, signal);
    this.#fillTarget(extents, target);
  }

  #fillTarget(extents: readonly ChunkExtent[], target: ItemView): void {
    fillItems(
      this.#fill,
      target,
      extents.map(({ count }) => count),
    );
  }
}

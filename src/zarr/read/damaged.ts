/**
 * Surveys a damaged Zarr array: which chunks cannot be read, and the same array without them. Reads only.
 *
 * Unreadable chunks become chunks that are not stored: their objects are missing, or their shard's index does not name them. A
 * store in front of the damaged one shows this, and can also be copied from.
 */
import type { AbsentChunk, DamageReport, Hole, LongOptions, OpenOptions } from "../../archive/kinds/types.ts";
import { overlayStore } from "../../archive/places/journal.ts";
import { type Flaw, flawOf, isFlaw } from "../../archive/salvage/chunk-check.ts";
import { at, elementsOf } from "../../bytes/arrays.ts";
import { resultOr, SuperchunkError } from "../../errors.ts";
import type { JournalWrite } from "../../format/journal.ts";
import { mergeSpans } from "../../format/layout.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import { joinKey, resolveRange } from "../../store/key.ts";
import { keepMade } from "../../store/pool.ts";
import type { ReadableStore } from "../../store/types.ts";
import { type Chain, permute, type ShardingSerializer, shardIndexOf } from "../codecs/chain.ts";
import {
  countPositions,
  type GridAxis,
  irregularAxis,
  regularAxis,
  shapeAt,
  startAt,
} from "../document/chunk-grid.ts";
import type { ArrayModel } from "../document/model.ts";
import { findEarlierShard } from "../write/recover-shard.ts";
import { numberChunks, ZarrArray } from "./array.ts";
import type { ReadSettings } from "./leaf.ts";
import { ShardCache } from "./shard-cache.ts";
import {
  decodeShardIndex,
  encodeShardIndex,
  type ShardEntries,
  type ShardIndex,
  shardIndexLength,
} from "./shard-index.ts";
import { type ListedChunk, listMissingChunks, listStoredChunks, storedPositions } from "./stored-chunks.ts";
import { onlyChunk } from "./verify.ts";

/** What was found in an array. Chunks that are not stored are not holes. */
export interface ZarrSurvey extends Pick<DamageReport, "holes" | "lost" | "problems"> {
  /** The store without the unreadable parts: the whole array can be read from it, with the fill value in the holes. */
  readonly store: ReadableStore;
}

/** What the changed store shows instead of an object: nothing, so many of its first bytes, or other bytes in some places. */
type Change = "absent" | number | readonly JournalWrite[];

/** Every object is absent, so the places of an object are listed without reading it. */
const NOTHING: Pick<ReadonlyMap<string, Change>, "get"> = { get: () => "absent" };

/** A chunk, including what extends past the array's end. */
type ChunkBox = Pick<AbsentChunk, "start" | "shape">;

interface SurveyOptions extends LongOptions {
  /** Names the array in the holes. */
  readonly column?: string | undefined;
}

/** Reads every stored chunk. Progress counts the chunks of the grid: shards, if the array has shards. */
export async function surveyZarrArray(array: ZarrArray, options: SurveyOptions): Promise<ZarrSurvey> {
  const { store, model } = array;
  const survey = new Survey(array, options);
  const total = countPositions(model.axes);
  let done = 0;
  for await (const position of storedPositions(store, model, options.signal)) {
    options.signal?.throwIfAborted();
    await survey.look(position);
    done++;
    options.onProgress?.({ done, total, unit: "chunks" });
  }
  return survey;
}

/** A survey while it goes on. What is found at one object is left out of `store` before the next is looked at. */
class Survey implements ZarrSurvey {
  readonly holes: Hole[] = [];
  readonly lost: string[] = [];
  readonly problems: string[] = [];
  readonly store: ReadableStore;
  readonly #model: ArrayModel;
  readonly #options: SurveyOptions;
  readonly #changes = new Map<string, Change>();
  /** The array as `store` shows it. */
  readonly #changed: ZarrArray;
  readonly #numberOf: (start: readonly number[]) => number;

  constructor({ store, model }: ZarrArray, options: SurveyOptions) {
    this.store = withChanges(store, this.#changes);
    this.#model = model;
    this.#options = options;
    this.#changed = new ZarrArray(this.store, model);
    this.#numberOf = numberChunks(model);
  }

  /** Reads the chunks of one object, and makes unreadable ones absent. */
  async look(position: readonly number[]): Promise<void> {
    const { chain, axes } = this.#model;
    const key = this.#model.chunkKey(position);
    const { pieces, flaw } = await this.#piecesAt(position, key);
    const bad: ChunkBox[] = [];
    for (const piece of pieces) {
      const found = flaw ?? (await this.#flawIn(piece, key));
      if (found === undefined) continue;
      bad.push(piece);
      this.#note(piece, found);
    }
    if (bad.length === pieces.length && bad.length > 0) {
      this.#changes.set(key, "absent");
      return;
    }
    const shape = shapeAt(axes, position);
    const origin = startAt(axes, position);
    for (const { start } of bad) {
      const nbytes = (await this.store.stat(key))?.size ?? 0;
      const inside = start.map((first, d) => first - at(origin, d));
      await this.#remove(inside, { key, chain, shape, offset: 0, nbytes });
    }
  }

  /**
   * The chunks that an object stores. If its index is damaged, those that an earlier index names. If the index of a nested
   * shard is damaged, all that the shard has slots for. If nothing of the object can be read, all chunks, with the flaw.
   */
  async #piecesAt(
    position: readonly number[],
    key: string,
  ): Promise<{ readonly pieces: readonly ChunkBox[]; readonly flaw?: Flaw }> {
    const { store } = this;
    const list = (): Promise<readonly ChunkBox[]> => this.#collect(listStoredChunks, position, store);
    try {
      return { pieces: await list() };
    } catch (error) {
      if (!isFlaw(error)) throw error;
      const all = await this.#collect(listMissingChunks, position, withChanges(store, NOTHING));
      const flaw = flawOf(error, store.describe(key));
      const { chain, axes } = this.#model;
      const { serializer } = chain;
      if (serializer.kind === "bytes") return { pieces: all, flaw };
      const index = shardIndexOf(chain, serializer, shapeAt(axes, position));
      if (await this.#hasIndex(key, index)) return { pieces: all };
      const end = await this.#takeEarlierIndex(key, index.grid, serializer);
      if (end === undefined) return { pieces: all, flaw };
      this.lost.push(
        `what was written into ${store.describe(key)} after its index at byte ${end}: the last index is damaged`,
      );
      return list().then(
        (pieces) => ({ pieces }),
        (other: unknown) => {
          if (isFlaw(other)) return { pieces: all };
          throw other;
        },
      );
    }
  }

  async #collect(
    list: typeof listStoredChunks | typeof listMissingChunks,
    position: readonly number[],
    store: ReadableStore,
  ): Promise<readonly ChunkBox[]> {
    const model = this.#model;
    const pieces: ChunkBox[] = [];
    const found = list(store, onlyChunk(model, position), new ShardCache(store), this.#options.signal);
    for await (const piece of found)
      if (piece.start.every((first, d) => first < at(model.shape, d))) pieces.push(piece);
    return pieces;
  }

  async #hasIndex(key: string, index: ShardIndex): Promise<boolean> {
    const cache = new ShardCache(this.store);
    return resultOr(false, isFlaw, async () => (await cache.open(key, index)) !== undefined);
  }

  /** Replaces the damaged index by an earlier one: no chunk that it names was overwritten. [FH-08] */
  async #takeEarlierIndex(
    key: string,
    grid: readonly number[],
    serializer: ShardingSerializer,
  ): Promise<number | undefined> {
    return resultOr(undefined, isFlaw, async () => {
      // A store that makes shards reads the chunk for this, and can find it damaged.
      const size = (await this.store.stat(key))?.size ?? 0;
      const { entries, size: end } = await findEarlierShard(this.store, key, size, { grid, serializer });
      const bytes = await encodeShardIndex(entries, grid, serializer.index);
      this.#changes.set(key, [{ offset: size - bytes.length, bytes }]);
      return end;
    });
  }

  /** What is wrong with a chunk; undefined if its values can be read. */
  async #flawIn({ start, shape }: ChunkBox, key: string): Promise<Flaw | undefined> {
    const region = start.map((from, d) => ({
      start: from,
      stop: Math.min(at(this.#model.shape, d), from + at(shape, d)),
      step: 1,
    }));
    try {
      await this.#changed.getBytes(region, { signal: this.#options.signal });
      return undefined;
    } catch (error) {
      if (!isFlaw(error)) throw error;
      const flaw = flawOf(error, this.store.describe(key));
      const { field, found, expected } = error.details;
      if (field !== "ctbytes" || this.#changes.has(key) || Number(found) >= Number(expected)) return flaw;
      // What follows a Blosc chunk in its object does not belong to it.
      this.#changes.set(key, Number(found));
      if ((await this.#flawIn({ start, shape }, key)) === undefined)
        this.problems.push(`${flaw.path}: ${flaw.reason}; without the bytes after it, the chunk is intact`);
      else this.#changes.delete(key);
      return this.#changes.has(key) ? undefined : flaw;
    }
  }

  #note({ start, shape }: ChunkBox, flaw: Flaw): void {
    const { column } = this.#options;
    const [[from = 0], [rows = 1], [length = 1]] = [start, this.#model.shape, shape];
    const to = Math.min(rows, from + length);
    const named = column === undefined ? {} : { column };
    this.holes.push({ ...named, chunk: this.#numberOf(start), from, to, ...flaw });
  }

  /** Removes a chunk from its shard's index; false if the index cannot be read. */
  async #remove(start: readonly number[], shard: InnerShard): Promise<boolean> {
    const { key, chain, shape, offset } = shard;
    const { serializer } = chain;
    if (serializer.kind === "bytes" || chain.stages.length > 0) return false;
    const { chunkShape, inner } = serializer;
    const { grid, layout } = shardIndexOf(chain, serializer, shape);
    const index = await this.#readIndex(shard, { grid, layout });
    if (index === undefined) return false;
    const first = permute(start, chain.order);
    const slot = first.reduce((sum, item, d) => sum * at(grid, d) + Math.floor(item / at(chunkShape, d)), 0);
    const entry = index.entries[slot];
    if (entry === undefined) return true;
    const below = first.map((item, d) => item % at(chunkShape, d));
    const place = { offset: offset + entry.offset, nbytes: entry.nbytes };
    if (await this.#remove(below, { key, chain: inner, shape: chunkShape, ...place })) return true;
    const left = index.entries.map((each, i) => (i === slot ? undefined : each));
    this.#write(key, { offset: index.offset, bytes: await encodeShardIndex(left, grid, layout) });
    return true;
  }

  /** The index of a shard, and its byte in the object; undefined if it cannot be read. */
  async #readIndex(
    { key, offset, nbytes }: InnerShard,
    { grid, layout }: ShardIndex,
  ): Promise<{ readonly entries: ShardEntries; readonly offset: number } | undefined> {
    const length = Math.min(nbytes, shardIndexLength(elementsOf(grid), layout));
    const indexAt = layout.location === "start" ? offset : offset + nbytes - length;
    const path = this.store.describe(key);
    return resultOr(undefined, isFlaw, async () => {
      const bytes = (await this.store.getRange(key, { offset: indexAt, length })) ?? new Uint8Array(0);
      const entries = await decodeShardIndex(bytes, { path, start: offset, size: nbytes, grid, layout });
      return { entries, offset: indexAt };
    });
  }

  /** Shows other bytes in an object, in place of what was shown there before. */
  #write(key: string, write: JournalWrite): void {
    const before = this.#changes.get(key);
    const others = Array.isArray(before) ? (before as readonly JournalWrite[]) : [];
    const isSame = ({ offset, bytes }: JournalWrite): boolean =>
      offset === write.offset && bytes.length === write.bytes.length;
    this.#changes.set(key, [...others.filter((other) => !isSame(other)), write]);
  }
}

interface InnerShard {
  readonly key: string;
  readonly chain: Chain;
  readonly shape: readonly number[];
  /** Byte of the object where it starts. */
  readonly offset: number;
  readonly nbytes: number;
}

/** The store with changes applied. Supports only what reading and copying Zarr needs. */
function withChanges(store: ReadableStore, changes: Pick<ReadonlyMap<string, Change>, "get">): ReadableStore {
  const isAbsent = (key: string): boolean => changes.get(key) === "absent";
  const changed = overlayStore(store, (key) => {
    const change = changes.get(key);
    return Array.isArray(change) ? change : undefined;
  });
  const sizeOf = (key: string): number => {
    const change = changes.get(key);
    return typeof change === "number" ? change : Number.POSITIVE_INFINITY;
  };
  return {
    ...changed,
    get: async (key, options) =>
      isAbsent(key) ? undefined : (await changed.get(key, options))?.subarray(0, sizeOf(key)),
    getRange: async (key, range, options) => {
      if (isAbsent(key)) return undefined;
      const isCut = sizeOf(key) !== Number.POSITIVE_INFINITY;
      return changed.getRange(key, isCut ? resolveRange(range, sizeOf(key), key) : range, options);
    },
    stat: async (key, options) => {
      const info = isAbsent(key) ? undefined : await changed.stat(key, options);
      return info && { ...info, size: Math.min(info.size, sizeOf(key)) };
    },
    isFolder: async (key, options) => !isAbsent(key) && (await store.isFolder?.(key, options)) === true,
    async *list(folder, options) {
      for await (const entry of store.list(folder, options))
        if (!isAbsent(joinKey(folder, entry.name))) yield entry;
    },
  };
}

/** True for chunks, and for shards compressed as a whole: no part of them can be read separately. */
function isWhole({ serializer, stages }: Chain): boolean {
  return serializer.kind === "bytes" || stages.length > 0;
}

const CACHE = new WeakMap<object, Map<string, Promise<ZarrArray>>>();

/**
 * The array as `damaged` requests: without the rows of unreadable chunks, or with the fill value in their place; the array
 * itself if nothing is damaged. Losses go to `onDamage`, once for each array and `options`.
 */
export function openDamagedArray(
  array: ZarrArray,
  options: ReadSettings & Pick<OpenOptions, "damaged" | "onDamage" | "signal">,
): Promise<ZarrArray> {
  const path = array.store.describe(array.path);
  const opened = CACHE.get(options) ?? new Map<string, Promise<ZarrArray>>();
  CACHE.set(options, opened);
  return keepMade(opened, path, async () => {
    const { holes, lost, problems, store } = await surveyZarrArray(array, { signal: options.signal });
    if (holes.length + lost.length + problems.length === 0) return array;
    options.onDamage?.({ path, holes, problems, lost });
    const filled = new ZarrArray(store, array.model, options);
    if (options.damaged !== "skip" || array.shape.length === 0 || holes.length === 0) return filled;
    return withoutRows(filled, holes, options);
  });
}

/** The array without the rows of lost chunks. Each shard becomes objects of one chunk, because some of its rows may stay. */
async function withoutRows(
  array: ZarrArray,
  holes: readonly Hole[],
  settings: ReadSettings,
): Promise<ZarrArray> {
  const { model } = array;
  const unit = unitOf(model);
  const isSharded = !isWhole(model.chain);
  const axes = isSharded
    ? model.axes.map(({ extent }, d) => regularAxis(extent, at(unit.shape, d)))
    : model.axes;
  const rows = axes[0] as GridAxis; // arrays without dimensions have no rows
  const gone = mergeSpans(holes);
  const kept: number[] = [];
  for (let i = 0; i < rows.count; i++)
    if (!gone.some(({ from, to }) => from <= rows.startOf(i) && rows.startOf(i) < to)) kept.push(i);
  const extent = rows.extent - gone.reduce((sum, { from, to }) => sum + to - from, 0);
  const isRegular = rows.lengths.length === 1;
  const lengths = kept.map((i) => rows.lengthOf(i));
  const first = isRegular ? regularAxis(extent, at(rows.lengths, 0)) : irregularAxis(extent, lengths);
  const shape = [extent, ...model.shape.slice(1)];
  const folder = joinKey(model.dataFolder, "chunks-that-stay");
  const places = new Map<string, PlacedRange>();
  for await (const { start, key, offset, ctbytes } of array.listChunks())
    places.set(joinKey(folder, ...start.map(String)), { key, offset, length: ctbytes });
  const grid = isRegular ? {} : gridOf(model.document, lengths);
  const { chain, codecs } = unit;
  const own =
    isSharded && model.dialect === "zarr3"
      ? { chunk_grid: { name: "regular", configuration: { chunk_shape: unit.shape } }, codecs }
      : grid;
  return new ZarrArray(
    withPlaces(array.store, folder, places),
    {
      ...model,
      shape,
      axes: [first, ...axes.slice(1)],
      chain,
      document: { ...model.document, shape, ...own },
      chunkKey: ([row = 0, ...others]) =>
        joinKey(folder, ...startAt(axes, [at(kept, row), ...others]).map(String)),
    },
    settings,
  );
}

/** The innermost chunks that are stored separately: their shape, by dimension of the array, and their chain. */
function unitOf({ axes, chain: outer, document }: ArrayModel): {
  readonly shape: readonly number[];
  readonly chain: Chain;
  readonly codecs: JsonValue;
} {
  let chain = outer;
  let codecs: JsonValue = document["codecs"] ?? [];
  let dimensions: readonly number[] = axes.map((_, d) => d);
  const shape = axes.map((axis) => at(axis.lengths, 0));
  while (chain.serializer.kind === "sharding" && chain.stages.length === 0) {
    dimensions = permute(dimensions, chain.order);
    for (const [i, dimension] of dimensions.entries()) shape[dimension] = at(chain.serializer.chunkShape, i);
    chain = chain.serializer.inner;
    codecs = codecsInside(codecs);
  }
  const isTurned = dimensions.some((dimension, d) => dimension !== d);
  const order = isTurned ? permute(dimensions, chain.order) : chain.order;
  const turn: JsonValue[] = isTurned ? [{ name: "transpose", configuration: { order: dimensions } }] : [];
  return { shape, chain: { ...chain, order }, codecs: [...turn, ...(codecs as readonly JsonValue[])] };
}

/** The codecs of the chunks inside shards; the document has been checked before. */
function codecsInside(codecs: JsonValue): JsonValue {
  const list = codecs as readonly JsonObject[];
  const sharding = list.find(({ name }) => name === "sharding_indexed");
  return (sharding?.["configuration"] as JsonObject | undefined)?.["codecs"] ?? [];
}

/** The grid of a document with other lengths along the first axis. */
function gridOf(document: JsonObject, lengths: readonly number[]): JsonObject {
  const grid = document["chunk_grid"] as JsonObject;
  const configuration = grid["configuration"] as JsonObject;
  const shapes = configuration["chunk_shapes"] as readonly JsonValue[];
  return {
    chunk_grid: { ...grid, configuration: { ...configuration, chunk_shapes: [lengths, ...shapes.slice(1)] } },
  };
}

type PlacedRange = Pick<ListedChunk, "key" | "offset"> & { readonly length: number };

/** The store with names below a folder for ranges of its objects. */
function withPlaces(
  store: ReadableStore,
  folder: string,
  places: ReadonlyMap<string, PlacedRange>,
): ReadableStore {
  const isOwn = (key: string): boolean => key.startsWith(`${folder}/`);
  const getRange: ReadableStore["getRange"] = async (key, range, options) => {
    const place = places.get(key);
    if (place === undefined) return isOwn(key) ? undefined : store.getRange(key, range, options);
    const { offset, length } = resolveRange(range, place.length, store.describe(place.key));
    return store.getRange(place.key, { offset: place.offset + offset, length }, options);
  };
  return {
    describe: (key) => store.describe(places.get(key)?.key ?? key),
    get: (key, options) =>
      isOwn(key)
        ? getRange(key, { offset: 0, length: Number.MAX_SAFE_INTEGER }, options)
        : store.get(key, options),
    getRange,
    async stat(key, options) {
      const place = places.get(key);
      if (place === undefined) return isOwn(key) ? undefined : store.stat(key, options);
      const info = await store.stat(place.key, options);
      return info === undefined ? undefined : { ...info, size: place.length };
    },
    // Names of chunks are requested one by one; there are no objects to list.
    async *list() {
      yield* [];
      throw new SuperchunkError("UNSUPPORTED", "an array without its damaged rows is not listed");
    },
  };
}

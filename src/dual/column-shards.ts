/**
 * Compares the shards of one column of a live view with what they should contain, and rewrites those whose chunks changed.
 *
 * Knows one folder of superchunks and one Zarr array; must not know commits. @see FORMAT.md [FY-01] to [FY-05]
 */
import { isEqual } from "../bytes/arrays.ts";
import { decode } from "../codec/index.ts";
import { isUnreadable, resultOr } from "../errors.ts";
import { countChunks, type Run } from "../format/layout.ts";
import { superchunkName } from "../format/naming.ts";
import { joinKey, splitKey } from "../store/key.ts";
import type { ReadableStore, WritableStore } from "../store/types.ts";
import type { ArrayWriter } from "../write/array/array-writer.ts";
import { type Committed, newArrayId } from "../write/array/root.ts";
import type { StoredChunk } from "../write/array/superchunk-file.ts";
import { ChunkSource } from "../write/rows/chunk-source.ts";
import { encodeShardIndex } from "../zarr/read/shard-index.ts";
import {
  canTakeOver,
  farOffset,
  goneNote,
  type NewChunk,
  ownHead,
  type PublishedShard,
  planShard,
  readPublished,
  type ShardFacts,
  WRITE_BITS,
  withoutWriting,
} from "./shard-file.ts";
import type { DualFiles, FileFacts } from "./types.ts";

const READ_ONLY_MODE = 0o444;

export interface LiveColumn {
  readonly index: number;
  readonly folder: string;
  /** Path of the Zarr array below the archive; `""` is the archive's own folder. */
  readonly node: string;
  /** Dimensions after the rows. Along each of them there is a single shard. */
  readonly dimensions: number;
  readonly facts: ShardFacts;
  /** One item of the fill value. */
  readonly fill: Uint8Array;
}

export interface ViewRows {
  readonly source: ChunkSource;
  readonly runs: readonly Run[];
  /** Chunks that replace those of the runs. */
  readonly patched: ReadonlySet<number>;
  /** Number of chunks of these rows. */
  readonly chunks: number;
}

/** A chunk that is missing from a shard, or differs there. */
interface DifferingChunk {
  readonly slot: number;
  readonly stored: StoredChunk;
  /** The items that the shard shows in its place, at full length. Undefined if it shows none, or they were not decoded. */
  readonly visible: Uint8Array | undefined;
}

export interface ShardPlace {
  readonly store: ReadableStore;
  /** Key of the archive. */
  readonly path: string;
  readonly files: DualFiles;
}

/** What is stored under a shard's key. */
interface FoundShard {
  readonly facts: FileFacts;
  /** Undefined if its index is damaged. */
  readonly shard: PublishedShard | undefined;
}

export class ColumnShards {
  readonly column: LiveColumn;
  readonly #place: ShardPlace;

  constructor(place: ShardPlace, column: LiveColumn) {
    this.column = column;
    this.#place = place;
  }

  key(shard: number): string {
    const { node, dimensions } = this.column;
    return joinKey(this.#place.path, node, ["c", shard, ...new Array<number>(dimensions).fill(0)].join("/"));
  }

  /** The chunks of a shard that the view has. */
  chunksOf(shard: number, { chunks }: ViewRows): number[] {
    const { capacity } = this.column.facts;
    const first = shard * capacity;
    return Array.from(
      { length: Math.max(0, Math.min(first + capacity, chunks) - first) },
      (_, i) => first + i,
    );
  }

  /** Numbers of the shards that have an object, in ascending order. */
  async list(): Promise<number[]> {
    const numbers: number[] = [];
    for await (const { name } of this.#place.store.list(joinKey(this.#place.path, this.column.node, "c")))
      if (/^(0|[1-9]\d{0,14})$/.test(name)) numbers.push(Number(name));
    return numbers.sort((a, b) => a - b);
  }

  /** What is stored under a key; undefined if nothing is. */
  async inspect(key: string): Promise<FoundShard | undefined> {
    const facts = await this.#place.files.inspect({ side: "zarr", key });
    if (facts === undefined) return undefined;
    return { facts, shard: await resultOr(undefined, "damage", () => this.#read(key, facts.size)) };
  }

  /** Key of the superchunk that holds all chunks of a shard and no others. */
  fullSuperchunk(shard: number, { runs, patched, chunks }: ViewRows): string | undefined {
    const { capacity } = this.column.facts;
    const first = shard * capacity;
    if (first + capacity > chunks) return undefined;
    let at = 0;
    for (const run of runs) {
      const end = at + run.count * run.chunks;
      if (first >= end) {
        at = end;
        continue;
      }
      if (run.chunks !== capacity || (first - at) % capacity !== 0) return undefined;
      for (let chunk = first; chunk < first + capacity; chunk++) if (patched.has(chunk)) return undefined;
      return `${this.column.folder}/${superchunkName(run.first + (first - at) / capacity)}`;
    }
    return undefined;
  }

  /** Reads a superchunk as a shard; undefined if it has no index. */
  async readFull(key: string, size: number): Promise<PublishedShard | undefined> {
    return resultOr(undefined, "damage", async () => {
      const shard = await this.#read(key, size);
      return shard.entries.every((entry) => entry !== undefined) ? shard : undefined;
    });
  }

  #read(key: string, size: number): Promise<PublishedShard> {
    return readPublished({ store: this.#place.store, key, size }, this.column.facts.capacity);
  }

  /** Yields those of the candidate chunks that the shard does not hold. */
  async *differing(
    key: string,
    base: PublishedShard | undefined,
    candidates: readonly number[],
    { source }: ViewRows,
  ): AsyncGenerator<DifferingChunk> {
    const { index, facts } = this.column;
    for (const { first, end } of neighbours(candidates)) {
      let chunk = first;
      for await (const stored of source.encoded(index, first, end)) {
        const slot = chunk++ % facts.capacity;
        const entry = base?.entries[slot];
        const bytes =
          entry && (await this.#place.store.getRange(key, { offset: entry.offset, length: entry.nbytes }));
        if (stored.nbytes === facts.chunkBytes) {
          if (bytes === undefined || !isEqual(bytes, stored.bytes))
            yield { slot, stored, visible: undefined };
          continue;
        }
        // The shard's copy of a short chunk may have more items after it.
        const visible = bytes && (await this.#itemsOf(bytes));
        const wanted = visible && (await decodeSound(stored.bytes));
        if (wanted === undefined || !isEqual(visible?.subarray(0, wanted.length), wanted))
          yield { slot, stored, visible };
      }
    }
  }

  /** The items of a chunk; undefined if it does not decode to the full length. */
  async #itemsOf(bytes: Uint8Array): Promise<Uint8Array | undefined> {
    const items = await decodeSound(bytes);
    return items?.length === this.column.facts.chunkBytes ? items : undefined;
  }
}

/** Undefined for what is not a whole chunk: damage, or the zeros that replace a removed chunk. */
async function decodeSound(bytes: Uint8Array): Promise<Uint8Array | undefined> {
  return resultOr(undefined, isUnreadable, () => decode(bytes));
}

/** Groups ascending numbers into runs of consecutive ones. */
function* neighbours(chunks: readonly number[]): Generator<{ readonly first: number; readonly end: number }> {
  let run: { first: number; end: number } | undefined;
  for (const chunk of chunks) {
    if (run !== undefined && run.end !== chunk) yield run;
    if (run?.end === chunk) run.end++;
    else run = { first: chunk, end: chunk + 1 };
  }
  if (run !== undefined) yield run;
}

export function viewRowsOf(
  { store, path }: Pick<ArrayWriter["root"], "path"> & { readonly store: ReadableStore },
  columns: ArrayWriter["columns"],
  chunklen: number,
  { layout, rows: heldRows }: Pick<Committed, "layout" | "rows">,
  rows: number,
): ViewRows {
  return {
    source: new ChunkSource(store, path, layout, { columns, rows: heldRows, chunklen }),
    runs: layout.runs,
    patched: new Set(layout.patches.flatMap(({ chunks }) => chunks)),
    chunks: Math.min(countChunks(layout.runs), Math.ceil(rows / chunklen)),
  };
}

/** What a live view needs to write shards. */
export interface ViewPlace extends ShardPlace {
  readonly store: WritableStore;
  encode(column: number, data: Uint8Array): Promise<StoredChunk>;
  /** See {@link LiveState.high}. */
  high(): number;
  /** Durable when resolved. */
  raiseHigh(high: number): Promise<void>;
  /** Counts bytes written to separate shard files. */
  noteWritten(bytes: number): void;
}

interface ShardUpdate {
  readonly key: string;
  readonly found: FoundShard | undefined;
  /** Chunks that may differ, in ascending order. */
  readonly candidates: readonly number[];
  readonly rows: ViewRows;
  /** If true, every chunk is compared. */
  readonly all: boolean;
}

export class ColumnView extends ColumnShards {
  readonly #place: ViewPlace;

  constructor(place: ViewPlace, column: LiveColumn) {
    super(place, column);
    this.#place = place;
  }

  /**
   * Rewrites a shard if one of these chunks (ascending), which may have changed, differs. With `all`, every chunk is
   * compared. Returns true if something was written.
   */
  async update(shard: number, candidates: readonly number[], rows: ViewRows, all = false): Promise<boolean> {
    const key = this.key(shard);
    const found = await this.inspect(key);
    const base = found?.shard;
    // Nothing is known about a damaged shard, and a removed shard lacks every chunk.
    const isGone = found !== undefined && base?.isShard !== true;
    const update = {
      key,
      found,
      rows,
      all,
      candidates: isGone ? this.chunksOf(shard, rows) : candidates,
    };
    const full = this.fullSuperchunk(shard, rows);
    const outcome = full === undefined ? undefined : await this.#takeOver(full, update);
    if (outcome !== undefined) return outcome;
    const changed: NewChunk[] = [];
    const { chunkBytes } = this.column.facts;
    for await (const { slot, stored, visible } of this.differing(key, base, update.candidates, rows)) {
      const isPassing = stored.nbytes !== chunkBytes;
      const bytes = isPassing ? await this.#pad(stored.bytes, visible) : stored.bytes;
      changed.push({ slot, bytes, isPassing });
    }
    if (changed.length === 0) return this.#protect(update);
    await this.#replace(update, changed);
    return true;
  }

  /** Removes write permission; returns true if there was any. */
  async #protect({ key, found }: ShardUpdate): Promise<boolean> {
    if (found === undefined || (found.facts.mode & WRITE_BITS) === 0) return false;
    await this.#place.files.setMode({ side: "zarr", key }, withoutWriting(found.facts.mode));
    return true;
  }

  /** Replaces a shard by a note that no reader takes for a shard. */
  async remove(shard: number): Promise<void> {
    const key = this.key(shard);
    const found = await this.inspect(key);
    if (found === undefined || found.shard?.isShard === false) return;
    const note = goneNote(Math.max(found.facts.size, farOffset(this.column.facts), this.#place.high()));
    const writes = [{ offset: 0, bytes: note }];
    await this.#place.files.replace({ key, kept: [], writes, size: note.length });
  }

  /** Makes the full superchunk the shard. Undefined if that is not possible. */
  async #takeOver(full: string, update: ShardUpdate): Promise<boolean | undefined> {
    const { files, store } = this.#place;
    const { key, found, all } = update;
    const from = { side: "data", key: full } as const;
    const data = await files.inspect(from);
    if (data?.kind !== "file") return undefined;
    const isNamed = data.identity === found?.facts.identity;
    const isOpen = (data.mode & WRITE_BITS) !== 0;
    if (isNamed && found.shard !== undefined) {
      if (all && (await this.#differs(update))) return undefined;
      if (isOpen) await files.setMode(from, withoutWriting(data.mode));
      return isOpen;
    }
    // Another program gave it a second name, so its permissions belong to that program too.
    if (isNamed || (isOpen && data.links > 1)) return undefined;
    const shard = await this.readFull(full, data.size);
    if (shard === undefined || !(await this.#canFollow(update, shard))) return undefined;
    const size = found?.shard?.size ?? 0;
    if (size > this.#place.high()) await this.#place.raiseHigh(size);
    if (isOpen) await files.setMode(from, READ_ONLY_MODE);
    await linkOver(store, full, key);
    return true;
  }

  /** True if a full superchunk can replace the current shard: no byte that a reader used has another meaning in it. */
  async #canFollow(update: ShardUpdate, full: PublishedShard): Promise<boolean> {
    const { key, found, candidates, rows } = update;
    if (found === undefined) return true;
    const { shard: base } = found;
    const { facts } = this.column;
    if (base === undefined || !canTakeOver(base, full, facts)) return false;
    const limit = farOffset(facts);
    for await (const { slot } of this.differing(key, base, candidates, rows))
      if ((base.entries[slot]?.offset ?? limit) < limit) return false;
    return true;
  }

  async #differs({ key, found, candidates, rows }: ShardUpdate): Promise<boolean> {
    for await (const _ of this.differing(key, found?.shard, candidates, rows)) return true;
    return false;
  }

  /**
   * Pads a short chunk to full length: its own rows, then the rows visible there now (readers that still have the shape
   * from before a shrink ask for them), or the fill value.
   */
  async #pad(bytes: Uint8Array, visible: Uint8Array | undefined): Promise<Uint8Array> {
    const { facts, fill, index } = this.column;
    const items = await decode(bytes);
    const whole = visible?.slice() ?? new Uint8Array(facts.chunkBytes);
    whole.set(items);
    if (visible === undefined && fill.some((byte) => byte !== 0))
      for (let at = items.length; at < whole.length; at += fill.length) whole.set(fill, at);
    return (await this.#place.encode(index, whole)).bytes;
  }

  async #replace({ key, found }: ShardUpdate, chunks: readonly NewChunk[]): Promise<void> {
    const { facts } = this.column;
    // Only the size of a damaged shard is known.
    const base =
      found && (found.shard ?? { size: found.facts.size, entries: [], isNatural: false, isShard: false });
    const plan = planShard(base, chunks, facts, this.#place.high());
    const index = await encodeShardIndex(plan.entries);
    const written = await this.#place.files.replace({
      key,
      kept: plan.kept,
      writes: [
        { offset: 0, bytes: ownHead(plan.isNatural) },
        ...plan.writes,
        { offset: plan.end, bytes: index },
      ],
      size: plan.end + index.length,
    });
    this.#place.noteWritten(written);
  }
}

/** Links a file to a second name, replacing the file there. */
async function linkOver(store: WritableStore, from: string, to: string): Promise<void> {
  if (store.link === undefined || store.rename === undefined) return;
  const { folder, name } = splitKey(to);
  // Listings hide this name, and recovery removes it.
  const passing = joinKey(folder, `.${name}.${newArrayId().slice(16)}.tmp`);
  await store.link(from, passing, "hard");
  await store.rename(passing, to);
}

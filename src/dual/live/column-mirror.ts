/**
 * The shards of one column: brings those right whose chunks have changed.
 *
 * Knows one folder of superchunks and one Zarr array; must not know commits. @see FORMAT.md [FY-01] to [FY-05]
 */

import { decode } from "../../codec/index.ts";
import type { WritableStore } from "../../store/types.ts";
import type { StoredChunk } from "../../write/array/superchunk-file.ts";
import { encodeShardIndex } from "../../zarr/read/shard-index.ts";
import { ColumnShards, type FoundShard, type MirroredColumn, type ShownRows } from "./column-shards.ts";
import { goneNote, ownHead, type PublishedShard } from "./shard-file.ts";
import { canTakeOver, farOffset, type NewChunk, planShard } from "./shard-plan.ts";
import type { MirrorFiles } from "./types.ts";

/** Nobody writes into a shard. */
const READ_ONLY_MODE = 0o444;
const WRITE_BITS = 0o222;

/** What a mirror has at hand. */
export interface MirrorPlace {
  readonly store: WritableStore;
  readonly path: string;
  readonly files: MirrorFiles;
  /** Makes a chunk of a column. */
  encode(column: number, data: Uint8Array): Promise<StoredChunk>;
  /** See {@link MirrorState.high}. */
  high(): number;
  /** Durable when resolved. */
  raiseHigh(high: number): Promise<void>;
  /** Counts bytes that were written for shards of their own. */
  noteWritten(bytes: number): void;
}

export class ColumnMirror {
  readonly shards: ColumnShards;
  readonly #place: MirrorPlace;

  constructor(place: MirrorPlace, column: MirroredColumn) {
    this.#place = place;
    this.shards = new ColumnShards(place.store, place.path, place.files, column);
  }

  /**
   * Brings a shard right, of which these chunks, in ascending order, may have changed; `all`: nothing is taken for right
   * that was not looked at. True where something was written.
   */
  async update(shard: number, candidates: readonly number[], rows: ShownRows, all = false): Promise<boolean> {
    const { shards } = this;
    const key = shards.key(shard);
    const found = await shards.look(key);
    const base = found?.shard;
    // Nothing is known of a damaged shard, and where there is none any more every chunk is missing.
    const isGone = found !== undefined && base?.isShard !== true;
    const wanted = isGone ? shards.chunksOf(shard, rows) : candidates;
    const full = shards.fullSuperchunk(shard, rows);
    if (full !== undefined) {
      const outcome = await this.#takeOver(key, found, full, wanted, rows, all);
      if (outcome !== undefined) return outcome;
    }
    const changed: NewChunk[] = [];
    const { chunkBytes } = shards.column.facts;
    for await (const { slot, stored, shown } of shards.differing(key, base, wanted, rows)) {
      const isPassing = stored.nbytes !== chunkBytes;
      const bytes = isPassing ? await this.#pad(stored.bytes, shown) : stored.bytes;
      changed.push({ slot, bytes, isPassing });
    }
    if (changed.length === 0) return this.#protect(key, found);
    await this.#replace(key, found, changed);
    return true;
  }

  /** Takes the permission to write away; true where there was one. */
  async #protect(key: string, found: FoundShard | undefined): Promise<boolean> {
    if (found === undefined || (found.facts.mode & WRITE_BITS) === 0) return false;
    await this.#place.files.setMode({ side: "zarr", key }, found.facts.mode & ~WRITE_BITS);
    return true;
  }

  /** Takes the chunks of a shard away, and leaves a note that no reader takes for a shard. */
  async remove(shard: number): Promise<void> {
    const { shards } = this;
    const key = shards.key(shard);
    const found = await shards.look(key);
    if (found === undefined || found.shard?.isShard === false) return;
    const size = Math.max(found.facts.size, farOffset(shards.column.facts), this.#place.high());
    const note = goneNote(size);
    await this.#place.files.replace({
      key,
      kept: [],
      writes: [{ offset: 0, bytes: note }],
      size: note.length,
    });
  }

  /** Makes the full superchunk the shard. Undefined where it cannot be. */
  async #takeOver(
    key: string,
    found: FoundShard | undefined,
    full: string,
    candidates: readonly number[],
    rows: ShownRows,
    all: boolean,
  ): Promise<boolean | undefined> {
    const { files, store } = this.#place;
    const from = { side: "data", key: full } as const;
    const data = await files.inspect(from);
    if (data?.kind !== "file") return undefined;
    const isNamed = data.identity === found?.facts.identity;
    const isOpen = (data.mode & WRITE_BITS) !== 0;
    if (isNamed && found?.shard !== undefined) {
      if (all && (await this.#differs(key, found.shard, candidates, rows))) return undefined;
      if (isOpen) await files.setMode(from, data.mode & ~WRITE_BITS);
      return isOpen;
    }
    // A name that others gave it: its permissions are theirs too.
    if (isNamed || (isOpen && data.links > 1)) return undefined;
    const shard = await this.shards.readFull(full, data.size);
    if (shard === undefined || !(await this.#canFollow(key, found, shard, candidates, rows)))
      return undefined;
    const size = found?.shard?.size ?? 0;
    if (size > this.#place.high()) await this.#place.raiseHigh(size);
    if (isOpen) await files.setMode(from, READ_ONLY_MODE);
    await linkOver(store, full, key);
    return true;
  }

  /** True where a full superchunk can follow what is there: no byte that was read has another meaning in it. */
  async #canFollow(
    key: string,
    found: FoundShard | undefined,
    full: PublishedShard,
    candidates: readonly number[],
    rows: ShownRows,
  ): Promise<boolean> {
    if (found === undefined) return true;
    const { shard: base } = found;
    const { facts } = this.shards.column;
    if (base === undefined || !canTakeOver(base, full, facts)) return false;
    const limit = farOffset(facts);
    for await (const { slot } of this.shards.differing(key, base, candidates, rows))
      if ((base.entries[slot]?.offset ?? limit) < limit) return false;
    return true;
  }

  async #differs(
    key: string,
    base: PublishedShard,
    candidates: readonly number[],
    rows: ShownRows,
  ): Promise<boolean> {
    for await (const _ of this.shards.differing(key, base, candidates, rows)) return true;
    return false;
  }

  /**
   * A short chunk at full length: its rows, then what is shown there, which readers with the shape of before a shrink still
   * ask for, or the fill value.
   */
  async #pad(bytes: Uint8Array, shown: Uint8Array | undefined): Promise<Uint8Array> {
    const { facts, fill, index } = this.shards.column;
    const items = await decode(bytes);
    const whole = shown?.slice() ?? new Uint8Array(facts.chunkBytes);
    whole.set(items);
    if (shown === undefined && fill.some((byte) => byte !== 0))
      for (let at = items.length; at < whole.length; at += fill.length) whole.set(fill, at);
    return (await this.#place.encode(index, whole)).bytes;
  }

  async #replace(key: string, found: FoundShard | undefined, chunks: readonly NewChunk[]): Promise<void> {
    const { facts } = this.shards.column;
    // Of a damaged shard nothing is known but its size.
    const base =
      found === undefined
        ? undefined
        : (found.shard ?? { size: found.facts.size, entries: [], isNatural: false, isShard: false });
    const plan = planShard(base, chunks, facts, this.#place.high());
    const tail = await encodeShardIndex(plan.entries);
    const written = await this.#place.files.replace({
      key,
      kept: plan.kept,
      writes: [
        { offset: 0, bytes: ownHead(plan.isNatural) },
        ...plan.writes,
        { offset: plan.end, bytes: tail },
      ],
      size: plan.end + tail.length,
    });
    this.#place.noteWritten(written);
  }
}

/** Gives a file a second name, in the place of another file. */
async function linkOver(store: WritableStore, from: string, to: string): Promise<void> {
  if (store.link === undefined || store.rename === undefined) return;
  const slash = to.lastIndexOf("/");
  const random = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");
  // A name that listings hide, and recovering removes.
  const passing = `${to.slice(0, slash + 1)}.${to.slice(slash + 1)}.${random}.tmp`;
  await store.link(from, passing, "hard");
  await store.rename(passing, to);
}

/**
 * Plans a partial write of a shard (which bytes stay, and which are written where), and carries it out. The plan is pure, and
 * has the three strategies of the sharding specification's notes for implementers.
 *
 * A new object is put on the condition that the old one is still the one that was read. A write into an object has no such
 * condition: its version is compared just before, while no other writer can do the same.
 */
import { at, countLeading, elementsOf, joinBytes } from "../../bytes/arrays.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import type { JournalWrite } from "../../format/journal.ts";
import type { ObjectInfo, PutOptions, WritableStore } from "../../store/types.ts";
import {
  emptyEntries,
  encodeShardIndex,
  type ShardEntries,
  type ShardEntry,
  type ShardIndexLayout,
  shardIndexLength,
} from "../read/shard-index.ts";
import { type ChunkOrder, orderSlots, type ShardStrategy } from "./write-settings.ts";

interface ShardTarget {
  readonly key: string;
  readonly grid: readonly number[];
  readonly layout: ShardIndexLayout;
  readonly chunkOrder: ChunkOrder;
  /** Version of the object that was read; undefined if there is none. */
  readonly version: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Bytes copied at a time. */
const COPY = 4 << 20;

/**
 * Carries out a plan. Resolves with `written` if the result is durable, with `patched` if it is durable only after the object
 * is synced. Throws `CONFLICT` if the object is not the one that was read.
 */
export async function applyPlan(
  store: WritableStore,
  target: ShardTarget,
  plan: ShardPlan,
): Promise<"written" | "patched"> {
  if (plan.kind === "delete") {
    await removeObject(store, target);
    return "written";
  }
  if (plan.kind === "rewrite") {
    const { entries, order } = placeParts(plan.parts, target);
    await store.put(target.key, pieces(store, target, entries, order), putConditionOf(target));
    return "written";
  }
  const index = await encodeShardIndex(plan.entries, target.grid, target.layout);
  const writes = joinWrites([...plan.writes, { offset: plan.indexAt, bytes: index }]);
  const { writeRange } = store;
  const patch = async (): Promise<boolean> => {
    const { size = 0, links = 1, isLink = false } = (await checkVersion(store, target)) ?? {};
    // Other names of the object may belong to a backup, or to an archive's data file.
    if (writeRange === undefined || links > 1 || isLink) return false;
    // Writes that lengthen the object come first: if they do not fit, nothing has changed yet.
    const isLonger = ({ offset, bytes }: JournalWrite): boolean => offset + bytes.length > size;
    for (const { offset, bytes } of [...writes.filter(isLonger), ...writes.filter((each) => !isLonger(each))])
      await writeRange.call(store, target.key, offset, bytes, { signal: target.signal });
    return true;
  };
  if (await (store.claim?.(target.key, patch) ?? patch())) return "patched";
  await patchCopy(store, target, writes);
  return "written";
}

/**
 * Deletes an object durably: a power loss does not bring it back. With a version, throws `CONFLICT` if the object is not the one that was
 * read.
 */
export async function removeObject(
  store: WritableStore,
  { key, version, signal }: Pick<ShardTarget, "key" | "signal"> & Partial<Pick<ShardTarget, "version">>,
): Promise<void> {
  await store.delete(key, { ifVersion: version, signal });
  await store.sync?.([], { signal });
}

/** The condition of a put that detects other writers. */
export function putConditionOf({ version, signal }: Pick<ShardTarget, "version" | "signal">):
  | { ifVersion: string; signal: AbortSignal | undefined }
  | {
      ifAbsent: true;
      signal: AbortSignal | undefined;
    } {
  return version === undefined ? { ifAbsent: true, signal } : { ifVersion: version, signal };
}

/** The object's info from the store. Throws `CONFLICT` if it is not the one that was read. */
export async function checkVersion(
  store: WritableStore,
  { key, version, signal }: Pick<ShardTarget, "key" | "version" | "signal">,
): Promise<ObjectInfo | undefined> {
  const info = await store.stat(key, { signal });
  const now = info?.version;
  if (now === version) return info;
  throw new SuperchunkError("CONFLICT", "another writer changed the object meanwhile; write again", {
    path: store.describe(key),
    expected: version,
    found: now,
  });
}

/** The index of a new shard, and its chunks in their order. */
export function placeParts<Part extends ShardPart>(
  parts: readonly Part[],
  { grid, layout, chunkOrder }: Pick<ShardTarget, "grid" | "layout" | "chunkOrder">,
): { entries: (ShardEntry | undefined)[]; order: Part[] } {
  const capacity = elementsOf(grid);
  const bySlot = new Map(parts.map((part) => [part.slot, part]));
  const entries = emptyEntries(capacity);
  let offset = layout.location === "start" ? shardIndexLength(capacity, layout) : 0;
  const order: Part[] = [];
  for (const slot of orderSlots(bySlot.keys(), grid, chunkOrder)) {
    const part = bySlot.get(slot);
    if (part === undefined) continue;
    const nbytes = part.source instanceof Uint8Array ? part.source.length : part.source.nbytes;
    entries[slot] = { offset, nbytes };
    offset += nbytes;
    order.push(part);
  }
  return { entries, order };
}

/** The bytes of a new shard, piece by piece; adjacent kept chunks are copied in one read. */
async function* pieces(
  store: WritableStore,
  target: ShardTarget,
  entries: readonly (ShardEntry | undefined)[],
  order: readonly ShardPart[],
): AsyncGenerator<Uint8Array> {
  const { grid, layout } = target;
  const index = await encodeShardIndex(entries, grid, layout);
  if (layout.location === "start") yield index;
  let run: { offset: number; nbytes: number } | undefined;
  for (const { source } of order) {
    if (source instanceof Uint8Array) {
      if (run !== undefined) yield* copyRun(store, target, run);
      run = undefined;
      yield source;
    } else if (run !== undefined && run.offset + run.nbytes === source.offset) {
      run = { offset: run.offset, nbytes: run.nbytes + source.nbytes };
    } else {
      if (run !== undefined) yield* copyRun(store, target, run);
      run = { ...source };
    }
  }
  if (run !== undefined) yield* copyRun(store, target, run);
  if (layout.location === "end") yield index;
}

async function* copyRun(
  store: WritableStore,
  { key, signal }: ShardTarget,
  run: { readonly offset: number; readonly nbytes: number },
): AsyncGenerator<Uint8Array> {
  for (let at = run.offset; at < run.offset + run.nbytes; at += COPY) {
    const length = Math.min(COPY, run.offset + run.nbytes - at);
    const bytes = await store.getRange(key, { offset: at, length }, { signal });
    if (bytes?.length !== length)
      throw new SuperchunkError("CONFLICT", "the object changed while it was copied; write again", {
        path: store.describe(key),
        offset: at,
        expected: length,
        found: bytes?.length,
      });
    yield bytes;
  }
}

/** The same change for a store that cannot write into objects: puts a new object. */
async function patchCopy(
  store: WritableStore,
  target: ShardTarget,
  writes: readonly JournalWrite[],
): Promise<void> {
  const old = (await store.get(target.key, { signal: target.signal })) ?? new Uint8Array(0);
  const size = writes.reduce((most, { offset, bytes }) => Math.max(most, offset + bytes.length), old.length);
  const copy = new Uint8Array(size);
  copy.set(old);
  for (const { offset, bytes } of writes) copy.set(bytes, offset);
  await store.put(target.key, copy, putConditionOf(target));
}

/** Joins adjacent writes, so that a chunk and the index after it arrive together. */
function joinWrites(writes: readonly JournalWrite[]): JournalWrite[] {
  const groups: { offset: number; end: number; parts: Uint8Array[] }[] = [];
  for (const { offset, bytes } of writes) {
    const last = groups.at(-1);
    if (last !== undefined && last.end === offset) {
      last.parts.push(bytes);
      last.end += bytes.length;
    } else groups.push({ offset, end: offset + bytes.length, parts: [bytes] });
  }
  return groups.map(({ offset, parts }) => {
    const [only] = parts;
    return { offset, bytes: parts.length === 1 && only !== undefined ? only : joinBytes(parts) };
  });
}

/** Attempts when another writer is faster. */
const MAX_ATTEMPTS = 16;

/** Repeats work on objects, based on what is stored then, if another writer was faster. Throws the error of the last attempt. */
export async function retryRaced<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      // STALE: a store that tracks versions read an object that another writer has replaced since.
      const isRaced = isSuperchunkError(error, "CONFLICT") || isSuperchunkError(error, "STALE");
      if (!isRaced || attempt === MAX_ATTEMPTS) throw error;
    }
  }
}

const locks = new WeakMap<WritableStore, Map<string, Promise<unknown>>>();

/** Runs work on an object after the earlier work on it in this process. */
export async function withObjectLock<T>(
  store: WritableStore,
  key: string,
  work: () => Promise<T>,
): Promise<T> {
  const held = locks.get(store) ?? new Map<string, Promise<unknown>>();
  locks.set(store, held);
  const before = held.get(key) ?? Promise.resolve();
  const mine = before.then(work, work);
  const settled = mine.catch(() => undefined);
  held.set(key, settled);
  try {
    return await mine;
  } finally {
    if (held.get(key) === settled) held.delete(key);
  }
}

/** A claim is renewed this often, in milliseconds. */
const RENEW_MS = 20_000;
/**
 * A writer that could not renew its claim for this long gives it up. Others take it over after three times as long, because requests may be
 * under way, and clocks may differ.
 */
const LEASE_MS = 60_000;

/**
 * Runs `work` while no other writer, in any process, has claimed the key: by the store's own means, or by an object next to it that is put if
 * absent. `work` gets a signal that aborts if the claim is lost. Throws `CONFLICT` if another writer has claimed it.
 */
export async function withClaim<T>(
  store: WritableStore,
  key: string,
  work: (held?: AbortSignal) => Promise<T>,
): Promise<T> {
  if (store.claim !== undefined) return store.claim(key, () => work());
  const mark = `${key}.claim`;
  const take = async (condition: PutOptions): Promise<{ since: number; version: string }> => {
    const since = Date.now();
    const text = `${new Date(since).toISOString()} ${crypto.randomUUID()}`;
    return { since, version: (await store.put(mark, new TextEncoder().encode(text), condition)).version };
  };
  let own = await take({ ifAbsent: true }).catch(async (error: unknown) => {
    if (!isSuperchunkError(error, "CONFLICT")) throw error;
    const info = await store.stat(mark);
    const [since = ""] = new TextDecoder().decode(await store.get(mark)).split(" ");
    if (info !== undefined && Date.parse(since) + 3 * LEASE_MS < Date.now())
      return take({ ifVersion: info.version });
    throw new SuperchunkError(
      "CONFLICT",
      `another writer has been changing it since ${since}; try again. If that writer was killed, this works ${(3 * LEASE_MS) / 60_000} minutes later`,
      { path: store.describe(mark), cause: error },
    );
  });
  const lost = new AbortController();
  let renewal: Promise<void> | undefined;
  const renew = async (): Promise<void> => {
    try {
      own = await take({ ifVersion: own.version });
    } catch (error) {
      if (isSuperchunkError(error, "CONFLICT") || own.since + LEASE_MS < Date.now()) lost.abort(error);
    }
  };
  const timer = setInterval(() => {
    renewal = renew();
  }, RENEW_MS);
  try {
    return await work(lost.signal);
  } finally {
    clearInterval(timer);
    await renewal;
    await store.delete(mark, { ifVersion: own.version }).catch(() => undefined); // it lapses
  }
}

/** Bytes of a shard up to the end of its index, and the entries of that. */
export interface ShardState {
  readonly size: number;
  readonly entries: ShardEntries;
}

/** New encoded chunks by slot, in the given order; undefined removes the chunk. */
export type ShardUpdates = ReadonlyMap<number, Uint8Array | undefined>;

type ShardPlan =
  /** No chunks are left, so the object is deleted. */
  | { readonly kind: "delete" }
  /** A new object: for each slot, kept or new bytes. */
  | { readonly kind: "rewrite"; readonly parts: readonly ShardPart[] }
  /** Writes into the object; the index, made from `entries`, is written to `indexAt` last. */
  | {
      readonly kind: "patch";
      readonly entries: ShardEntries;
      readonly writes: readonly JournalWrite[];
      readonly indexAt: number;
    };

interface ShardPart {
  readonly slot: number;
  readonly source: ShardEntry | Uint8Array;
}

/** Bytes of a shard that no chunk uses, not counting the index. */
function unusedBytes({ size, entries }: ShardState, layout: ShardIndexLayout): number {
  const used = entries.reduce((sum, entry) => sum + (entry?.nbytes ?? 0), 0);
  return size - shardIndexLength(entries.length, layout) - used;
}

/** Plans a write. With more than `maxUnused` unused bytes, `append` and `fixed` rewrite the shard. */
export function planShardWrite(
  state: ShardState,
  updates: ShardUpdates,
  layout: ShardIndexLayout,
  strategy: ShardStrategy,
  maxUnused: number,
): ShardPlan {
  const kept = [...state.entries.keys()].filter(
    (slot) => state.entries[slot] !== undefined && !updates.has(slot),
  );
  const fresh = [...updates.keys()].filter((slot) => updates.get(slot) !== undefined);
  if (kept.length + fresh.length === 0) return { kind: "delete" };
  if (strategy !== "rewrite") {
    const patch = planPatch(state, updates, layout, strategy);
    const size =
      layout.location === "end" ? patch.end + shardIndexLength(state.entries.length, layout) : patch.end;
    if (unusedBytes({ size, entries: patch.entries }, layout) <= maxUnused)
      return {
        kind: "patch",
        entries: patch.entries,
        writes: patch.writes,
        indexAt: layout.location === "start" ? 0 : patch.end,
      };
  }
  const parts: ShardPart[] = [];
  for (const slot of [...kept, ...fresh]) {
    const source = updates.get(slot) ?? state.entries[slot];
    if (source !== undefined) parts.push({ slot, source });
  }
  return { kind: "rewrite", parts };
}

interface Patch {
  readonly entries: (ShardEntry | undefined)[];
  readonly writes: JournalWrite[];
  /** First byte after all chunks. */
  readonly end: number;
}

function planPatch(
  state: ShardState,
  updates: ShardUpdates,
  layout: ShardIndexLayout,
  strategy: "append" | "fixed",
): Patch {
  const indexLength = shardIndexLength(state.entries.length, layout);
  const dataEnd = layout.location === "end" ? state.size - indexLength : state.size;
  const entries = [...state.entries];
  const writes: Patch["writes"] = [];
  // Appending keeps the old index in place; in fixed order the new one replaces it.
  let end = strategy === "append" ? state.size : dataEnd;
  const roomOf = strategy === "fixed" ? roomFinder(state.entries, dataEnd) : () => 0;
  for (const [slot, bytes] of updates) {
    const old = state.entries[slot];
    if (bytes === undefined) {
      entries[slot] = undefined;
      continue;
    }
    // An entry without bytes may name any place, even that of another chunk.
    const fits = old !== undefined && old.nbytes > 0 && bytes.length <= roomOf(old);
    const offset = fits ? old.offset : end;
    if (!fits) end += bytes.length;
    entries[slot] = { offset, nbytes: bytes.length };
    writes.push({ offset, bytes });
  }
  return { entries, writes, end };
}

/** Returns how many bytes from a chunk's start on do not belong to another chunk. */
function roomFinder(entries: ShardEntries, dataEnd: number): (entry: ShardEntry) => number {
  const starts = entries
    .filter((entry): entry is ShardEntry => entry !== undefined && entry.nbytes > 0)
    .map(({ offset }) => offset)
    .sort((a, b) => a - b);
  return ({ offset }) => {
    const next = countLeading(starts.length, (i) => at(starts, i) <= offset);
    return (starts[next] ?? dataEnd) - offset;
  };
}

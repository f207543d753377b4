/**
 * Carries out what was planned for a shard, and notices other writers.
 *
 * A new object is put on the condition that the old one is still the one that was read. Writes into an object have no
 * such condition: its version is compared right before, and writers of one process wait for one another.
 */
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import type { ObjectInfo, WritableStore } from "../../store/types.ts";
import {
  encodeShardIndex,
  type ShardEntry,
  type ShardIndexLayout,
  shardIndexLength,
} from "../read/shard-index.ts";
import { type ChunkOrder, orderSlots } from "./chunk-order.ts";
import type { ShardPart, ShardPlan } from "./shard-plan.ts";

/** The shard that is written. */
export interface ShardTarget {
  readonly key: string;
  readonly grid: readonly number[];
  readonly layout: ShardIndexLayout;
  readonly chunkOrder: ChunkOrder;
  /** The object that was read; undefined where there is none. */
  readonly version: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Bytes copied at a time. */
const COPY = 4 << 20;

/**
 * Carries out a plan. Resolves with `written` where that is durable, with `patched` where it is so once the object is synced.
 * Throws `CONFLICT` where the object is not the one that was read.
 */
export async function applyPlan(
  store: WritableStore,
  target: ShardTarget,
  plan: ShardPlan,
): Promise<"written" | "patched"> {
  if (plan.kind === "delete") {
    await checkVersion(store, target);
    await removeObject(store, target);
    return "written";
  }
  if (plan.kind === "rewrite") {
    const { entries, order } = placeParts(plan.parts, target);
    await store.put(target.key, pieces(store, target, entries, order), conditionOf(target));
    return "written";
  }
  const index = await encodeShardIndex(plan.entries, target.grid, target.layout);
  const writes = joinWrites([...plan.writes, { offset: plan.indexAt, bytes: index }]);
  const { writeRange } = store;
  const { size = 0, links = 1, isLink = false } = (await checkVersion(store, target)) ?? {};
  // Under its other names the object is somebody else's: a backup, or an archive's data file.
  if (writeRange === undefined || links > 1 || isLink) {
    await patchCopy(store, target, writes);
    return "written";
  }
  // What makes the object longer comes first: where there is no room for it, nothing was changed yet.
  const isLonger = ({ offset, bytes }: { offset: number; bytes: Uint8Array }): boolean =>
    offset + bytes.length > size;
  for (const { offset, bytes } of [...writes.filter(isLonger), ...writes.filter((each) => !isLonger(each))]) {
    await writeRange.call(store, target.key, offset, bytes, { signal: target.signal });
  }
  return "patched";
}

/** Deletes an object, durably: after a power cut it is not there again. */
export async function removeObject(
  store: WritableStore,
  { key, signal }: Pick<ShardTarget, "key" | "signal">,
): Promise<void> {
  await store.delete(key, { signal });
  await store.sync?.([], { signal });
}

/** How a put makes sure that nobody else wrote in between. */
export function conditionOf({ version, signal }: Pick<ShardTarget, "version" | "signal">):
  | { ifVersion: string; signal: AbortSignal | undefined }
  | {
      ifAbsent: true;
      signal: AbortSignal | undefined;
    } {
  return version === undefined ? { ifAbsent: true, signal } : { ifVersion: version, signal };
}

/** What the store knows of the object. Throws `CONFLICT` where it is not the one that was read. */
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

function placeParts(
  parts: readonly ShardPart[],
  { grid, layout, chunkOrder }: ShardTarget,
): { entries: (ShardEntry | undefined)[]; order: ShardPart[] } {
  const capacity = grid.reduce((product, n) => product * n, 1);
  const bySlot = new Map(parts.map((part) => [part.slot, part]));
  const entries = new Array<ShardEntry | undefined>(capacity).fill(undefined);
  let offset = layout.location === "start" ? shardIndexLength(capacity, layout) : 0;
  const order: ShardPart[] = [];
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

/** The bytes of a new shard, piece by piece; kept chunks that lie side by side are copied in one read. */
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
    if (bytes?.length !== length) {
      throw new SuperchunkError("CONFLICT", "the object changed while it was copied; write again", {
        path: store.describe(key),
        offset: at,
        expected: length,
        found: bytes?.length,
      });
    }
    yield bytes;
  }
}

/** The same change for a store that cannot write into objects: a new one with it. */
async function patchCopy(
  store: WritableStore,
  target: ShardTarget,
  writes: readonly { readonly offset: number; readonly bytes: Uint8Array }[],
): Promise<void> {
  const old = (await store.get(target.key, { signal: target.signal })) ?? new Uint8Array(0);
  const size = writes.reduce((most, { offset, bytes }) => Math.max(most, offset + bytes.length), old.length);
  const copy = new Uint8Array(size);
  copy.set(old);
  for (const { offset, bytes } of writes) copy.set(bytes, offset);
  await store.put(target.key, copy, conditionOf(target));
}

/** Writes that follow one another as one, so that a chunk and the index behind it arrive together. */
function joinWrites(
  writes: readonly { readonly offset: number; readonly bytes: Uint8Array }[],
): { offset: number; bytes: Uint8Array }[] {
  const groups: { offset: number; end: number; parts: Uint8Array[] }[] = [];
  for (const { offset, bytes } of writes) {
    const last = groups.at(-1);
    if (last !== undefined && last.end === offset) {
      last.parts.push(bytes);
      last.end += bytes.length;
    } else groups.push({ offset, end: offset + bytes.length, parts: [bytes] });
  }
  return groups.map(({ offset, end, parts }) => {
    const [only] = parts;
    if (parts.length === 1 && only !== undefined) return { offset, bytes: only };
    const bytes = new Uint8Array(end - offset);
    let at = 0;
    for (const part of parts) {
      bytes.set(part, at);
      at += part.length;
    }
    return { offset, bytes };
  });
}

/** How often work is begun again because another writer was faster. */
const MAX_ATTEMPTS = 16;

/** Does work on objects again, with what is stored then, where another writer was faster. Throws what the last attempt throws. */
export async function retryRaced<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      // STALE: a store that remembers versions read what another writer has replaced since.
      const isRaced = isSuperchunkError(error, "CONFLICT") || isSuperchunkError(error, "STALE");
      if (!isRaced || attempt === MAX_ATTEMPTS) throw error;
    }
  }
}

const locks = new WeakMap<WritableStore, Map<string, Promise<unknown>>>();

/** Runs work on an object when the earlier work on it in this process is done. */
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

/** A store in which bytes of some objects are written over, in memory. Must not know why. */
import type { JournalWrite } from "../../format/journal.ts";
import { resolveRange } from "../../store/range.ts";
import type { ReadableStore } from "../../store/types.ts";

const overlays = new WeakSet<ReadableStore>();

/** True where what the store gives is not what its objects hold. */
export function isOverlay(store: ReadableStore): boolean {
  return overlays.has(store);
}

/** The store as it is once `writesOf(key)` are made in each object; later writes win. Only what reading an archive needs. */
export function overlayStore(
  store: ReadableStore,
  writesOf: (key: string) => readonly JournalWrite[] | undefined,
): ReadableStore {
  const stat: ReadableStore["stat"] = async (key, options) => {
    const info = await store.stat(key, options);
    const writes = writesOf(key);
    if (writes === undefined || info === undefined) return info;
    const end = writes.reduce((most, { offset, bytes }) => Math.max(most, offset + bytes.length), 0);
    return { ...info, size: Math.max(info.size, end) };
  };
  const getRange: ReadableStore["getRange"] = async (key, range, options) => {
    const writes = writesOf(key);
    if (writes === undefined) return store.getRange(key, range, options);
    const info = await stat(key, options);
    if (info === undefined) return undefined;
    const { offset, length } = resolveRange(range, info.size, store.describe(key));
    const found = await store.getRange(key, { offset, length }, options);
    if (found === undefined) return undefined;
    const bytes = new Uint8Array(length);
    bytes.set(found);
    for (const write of writes) {
      const from = Math.max(offset, write.offset);
      const to = Math.min(offset + length, write.offset + write.bytes.length);
      if (from < to) bytes.set(write.bytes.subarray(from - write.offset, to - write.offset), from - offset);
    }
    return bytes;
  };
  const overlay: ReadableStore = {
    describe: (key) => store.describe(key),
    get: (key, options) =>
      writesOf(key) === undefined
        ? store.get(key, options)
        : getRange(key, { offset: 0, length: Number.MAX_SAFE_INTEGER }, options),
    getRange,
    stat,
    list: (folder, options) => store.list(folder, options),
    ...(store.close === undefined ? {} : { close: () => store.close?.() ?? Promise.resolve() }),
  };
  overlays.add(overlay);
  return overlay;
}

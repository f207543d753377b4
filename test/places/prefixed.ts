/** A part of a store as a separate store, and arrays whose places are such parts. */
import type { OpenPlace } from "../../src/places/placed-store.ts";
import type { WritableStore } from "../../src/store/types.ts";

/** The store below a prefix, with the same capabilities. */
export function below(store: WritableStore, prefix: string): WritableStore {
  const full = (key: string): string => (key === "" ? prefix : `${prefix}/${key}`);
  const found: WritableStore = {
    describe: (key) => store.describe(full(key)),
    get: (key, options) => store.get(full(key), options),
    getRange: (key, range, options) => store.getRange(full(key), range, options),
    stat: (key, options) => store.stat(full(key), options),
    list: (folder, options) => store.list(full(folder), options),
    put: (key, source, options) => store.put(full(key), source, options),
    delete: (key, options) => store.delete(full(key), options),
  };
  const { sync, link, writeRange, removeLeftovers } = store;
  if (sync !== undefined) found.sync = (keys, options) => sync.call(store, keys.map(full), options);
  if (link !== undefined) found.link = (from, to, kind) => link.call(store, full(from), full(to), kind);
  if (writeRange !== undefined)
    found.writeRange = (key, offset, bytes, options) =>
      writeRange.call(store, full(key), offset, bytes, options);
  if (removeLeftovers !== undefined)
    found.removeLeftovers = (folder, options) => removeLeftovers.call(store, full(folder), options);
  return found;
}

/** Opens places whose prefixes are `file:///NAME/` as the folder NAME of a store. */
export function placesIn(store: WritableStore): OpenPlace {
  return ({ prefix }) => below(store, prefix.slice("file:///".length, -1));
}

export const COLD = { name: "cold", prefix: "file:///cold/" };
export const SLOW = { name: "slow", prefix: "file:///slow/" };

/** The contents of a disk, and what an archive on it says. */
import { expect } from "vitest";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/archive/open/open.ts";
import type { JsonObject } from "../../src/format/types.ts";
import type { OpenPlace } from "../../src/places/placed-store.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import type { WritableStore } from "../../src/store/types.ts";
import { openWritable, type WriteOptions } from "../../src/write/array/create.ts";
import { withCounting } from "../store/counting.ts";

/** The objects of a store. */
export type Image = Map<string, Uint8Array>;

/** Copies all objects of a store. */
export async function imageOf(store: MemoryStore, folder = ""): Promise<Image> {
  const image: Image = new Map();
  for await (const { name, kind } of store.list(folder)) {
    const key = folder === "" ? name : `${folder}/${name}`;
    if (kind === "folder") for (const [k, v] of await imageOf(store, key)) image.set(k, v);
    else image.set(key, (await store.get(key)) ?? new Uint8Array(0));
  }
  return image;
}

/** Everything that an array shows its reader. */
export interface Contents {
  readonly shape: readonly number[];
  readonly columns: readonly string[];
  readonly bytes: string;
  readonly attrs: JsonObject;
}

export async function contentsOf(array: ArrayArchive): Promise<Contents> {
  return {
    shape: array.shape,
    columns: array.columnNames,
    bytes: Buffer.from(await array.getBytes()).toString("base64"),
    attrs: { ...array.attrs },
  };
}

/**
 * The law of crashes: a reader of the image sees exactly one of `allowed`, without writing; recovery by the next
 * writer changes nothing that is read and leaves no leftovers, and a second recovery changes nothing at all. Returns
 * what was read. `openPlaces` opens the places of the array, which are parts of the image too.
 */
export async function checkImage(
  image: Image,
  allowed: readonly Contents[],
  label: string,
  openPlaces?: (store: WritableStore) => OpenPlace,
): Promise<Contents> {
  const opening = (store: WritableStore) => ({ openPlace: openPlaces?.(store) });
  const counted = withCounting(new MemoryStore(image));
  const reader = (await open(counted.store, "", opening(counted.store))) as ArrayArchive;
  const contents = await contentsOf(reader);
  expect(allowed, label).toContainEqual(contents);
  expect((await reader.verify()).findings, label).toEqual([]);
  expect(counted.counts.writes, label).toBe(0);

  const store = new MemoryStore(image);
  await recoverOnce(store, opening(store));
  const recovered = (await open(store, "", opening(store))) as ArrayArchive;
  expect(await contentsOf(recovered), label).toEqual(contents);
  expect((await recovered.verify()).findings, label).toEqual([]);
  const once = await imageOf(store);
  await recoverOnce(store, opening(store));
  expect(await imageOf(store), label).toEqual(once);
  return contents;
}

async function recoverOnce(store: MemoryStore, options: WriteOptions): Promise<void> {
  const writer = await openWritable(store, "", options);
  await writer.abandon();
}

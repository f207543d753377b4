/** Writes the chunks that were found as an array: a new one, or in the place of the broken one by one commit. */

import type { LongOptions } from "../../archive/kinds/types.ts";
import { encodeJson } from "../../archive/places/generation.ts";
import { decode } from "../../codec/index.ts";
import { FIRST_LOOSE, hasNumber, type StoredLayout } from "../../format/layout.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore, WritableStore } from "../../store/types.ts";
import { elementsOf } from "../../values/selection.ts";
import { newArrayId } from "../array/array-id.ts";
import { ArrayWriter } from "../array/array-writer.ts";
import { settleNames } from "../array/compact.ts";
import { createArray, type WriteOptions } from "../array/create.ts";
import { ArrayRoot } from "../array/root.ts";
import { commitStorage } from "../array/storage-commit.ts";
import type { StoredChunk } from "../array/superchunk-file.ts";
import { optionsOf, storageOf } from "../layout/settings.ts";
import { type Broken, numbersIn } from "./broken-array.ts";
import { type Found, reread } from "./whole-chunks.ts";

/** All chunks are copied into an array at a place where nothing is. */
export async function repairInto(
  store: ReadableStore,
  into: { readonly store: WritableStore; readonly path: string },
  broken: Broken,
  found: readonly (readonly Found[])[],
  rows: number,
  options: LongOptions & Pick<WriteOptions, "lock">,
): Promise<void> {
  const { settings, attrs } = broken;
  const { dtype, rowShape, hasColumns, dflt } = settings;
  const target = await createArray(into.store, into.path, {
    ...optionsOf(settings),
    dtype,
    shape: [0, ...rowShape],
    columns: hasColumns,
    dflt,
    attrs,
    lock: options.lock,
  });
  await target.fill((writer) => copyRows(store, writer, broken, found, rows, options));
  await target.close();
}

/** Where attributes that cannot be read are kept when an array is repaired where it lies. */
const DAMAGED_ATTRIBUTES = "meta/attributes.damaged";

/** All chunks are copied into new superchunks, and one commit makes them the array. */
export async function repairInPlace(
  store: WritableStore,
  shown: ReadableStore,
  path: string,
  broken: Broken,
  found: readonly (readonly Found[])[],
  rows: number,
  options: LongOptions,
): Promise<void> {
  const { settings, columns, rows: rowsBefore = 0 } = broken;
  const numbers = new Set<number>();
  for (const { folder } of columns) for (const number of await numbersIn(store, folder)) numbers.add(number);
  const highest = [...numbers].reduce((most, number) => Math.max(most, number), 0);
  const plain = [...numbers]
    .filter((number) => number < FIRST_LOOSE)
    .reduce((most, number) => Math.max(most, number), 0);
  const { journal: _journal, isMoved: _isMoved, ...unchanged } = broken.layout ?? {};
  const before: StoredLayout = {
    id: newArrayId(),
    generation: 0,
    epoch: 0,
    edition: 0,
    ...unchanged,
    revision: settings.revision,
    next: Math.max(FIRST_LOOSE, highest + 1, broken.layout?.next ?? 0),
    plain: Math.max(plain, broken.layout?.plain ?? 0),
    runs: [],
    patches: [],
  };
  const root = new ArrayRoot(store, path, await store.get(joinKey(path, "meta/sizes")));
  const writer = new ArrayWriter(root, settings, { layout: before, rows: 0, cbytes: 0 });
  writer.edition = before.edition + 1;
  await copyRows(shown, writer, broken, found, rows, options);
  writer.isDirty = true;
  await writer.commit({ storage: storageOf(settings) });
  await commitStorage(writer);
  if (broken.damagedAttributes !== undefined) {
    await store.put(root.key(DAMAGED_ATTRIBUTES), broken.damagedAttributes, { durable: true });
    await store.put(root.key("meta/attributes"), encodeJson(broken.attrs), { durable: true });
  }
  writer.removeNumbers([...numbers].filter((number) => !hasNumber(writer.committed.layout, number)));
  await writer.root.settled();
  await settleNames(writer);
  await writer.root.settled();
  options.onProgress?.({ done: rows, total: Math.max(rows, rowsBefore), label: "rows" });
}

/** Appends the rows that were found; whole chunks as they are. */
async function copyRows(
  store: ReadableStore,
  writer: ArrayWriter,
  broken: Broken,
  found: readonly (readonly Found[])[],
  rows: number,
  options: LongOptions,
): Promise<void> {
  const { chunklen } = broken.settings;
  await writer.prepare();
  if (elementsOf(broken.settings.rowShape) === 0) writer.appendNothing(rows);
  for (let index = 0; index * chunklen < rows && writer.rowBytes > 0; index++) {
    options.signal?.throwIfAborted();
    const held = Math.min(chunklen, rows - index * chunklen);
    const chunks: StoredChunk[] = [];
    for (const list of found) {
      const chunk = list[index];
      if (chunk !== undefined) chunks.push(await reread(store, chunk));
    }
    const isWhole =
      held === chunklen &&
      chunks.every(({ nbytes }, i) => nbytes === chunklen * (broken.columns[i]?.rowBytes ?? 0));
    if (isWhole)
      await writer.addChunks(chunks.map(({ bytes, nbytes }) => [writer.chunks.withDigest(bytes, nbytes)]));
    else {
      writer.buffer.load(await Promise.all(chunks.map(({ bytes }) => decode(bytes))), held);
      writer.isDirty = true;
    }
    options.onProgress?.({ done: index * chunklen + held, total: rows, label: "rows" });
  }
}

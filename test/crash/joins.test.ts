/** A conversion that is killed before the groups above list its result can be completed, and no state hides that. */
import { expect, test } from "vitest";
import { MemoryStore } from "../../src/store/memory.ts";
import { openZarr } from "../../src/zarr/read/open.ts";
import { consolidateGroup } from "../../src/zarr/write/node-document.ts";
import { type Image, imageOf } from "./images.ts";
import { convertInto, killedJoins, NODE, ROOT } from "./joins.ts";

const RECORD = `${NODE}/.superchunk-convert.json`;

function textsOf(image: Image): Record<string, string> {
  return Object.fromEntries(
    [...image].sort().map(([key, bytes]) => [key, Buffer.from(bytes).toString("latin1")]),
  );
}

test("after a kill between a node and its groups, resume, overwrite and consolidate complete the hierarchy", async () => {
  const images = await killedJoins();
  const whole = textsOf(images.at(-1) ?? new Map());
  // The record, three shards, four documents, two groups, the root, and the record's end.
  expect(images).toHaveLength(14);
  let behind = 0;
  for (const image of images) {
    const isPublished = image.has(`${NODE}/zarr.json`);
    const isOver = isPublished && !image.has(RECORD);
    for (const options of [{ resume: true }, { overwrite: true }]) {
      const store = new MemoryStore(image);
      if (isOver && options.resume === true)
        await expect(convertInto(store, options)).rejects.toMatchObject({ code: "CONFLICT" });
      else await convertInto(store, options);
      expect(textsOf(await imageOf(store))).toEqual(whole);
    }
    const store = new MemoryStore(image);
    const { changed, made } = await consolidateGroup(store, ROOT, { dryRun: true });
    expect(textsOf(await imageOf(store))).toEqual(textsOf(image));
    const isBehind = changed.length + made.length > 0;
    if (isBehind) behind++;
    const done = await consolidateGroup(store, ROOT);
    expect(done.made).toEqual(made);
    const root = await openZarr(store, ROOT);
    const names = root.kind === "group" ? (await root.arrays()).names : [];
    // Columns of an unfinished table stay hidden.
    const columns = isPublished ? ["id", "name", "price"] : [];
    expect(names).toEqual([...columns.map((name) => `a/b/t/${name}`), "first"]);
    if (!isPublished) continue;
    await store.delete(RECORD);
    expect(textsOf(await imageOf(store))).toEqual(whole);
    expect(isBehind).toBe(image.get(`${ROOT}/zarr.json`)?.length !== whole[`${ROOT}/zarr.json`]?.length);
  }
  expect(behind).toBe(3);
});

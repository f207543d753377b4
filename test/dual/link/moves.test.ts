/** Data files that got other names after they were linked, as compacting renames them. */
import * as fs from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { create as createArray, edit as openWritable } from "../../../src/node/edit.ts";
import { link, unlink, verifyLinkAt } from "../../../src/node/index.ts";
import type { Editable } from "../../../src/write/editable.ts";
import { hashOfZarr, sha256, snapshot, temporaryFolder } from "./support.ts";

/**
 * All values are set, which gives every superchunk a new name; then it is linked, and compacted, which renames the
 * last one.
 */
async function makeChanged(root: string): Promise<Int32Array> {
  const change = async (work: (array: Editable) => Promise<unknown>): Promise<void> => {
    const array = await openWritable(root);
    await work(array);
    await array.close();
  };
  const values = Int32Array.from({ length: 46 }, (_, i) => i * 7);
  await (await createArray(root, { dtype: "<i4", chunkLength: 11, superchunkLength: 2 })).close();
  await change((array) => array.append(new Int32Array(46)));
  await change((array) => array.set(null, values));
  await link(root);
  const last = fs.statSync(join(root, "c", "2")).ino;
  await change((array) => array.compact());
  expect(fs.statSync(join(root, "data", "__3__.bin")).ino).toBe(last);
  return values;
}

test("[FL-05] after linking again, each file that was renamed is a shard, and the view is whole", async () => {
  const root = join(temporaryFolder(), "a");
  const values = await makeChanged(root);
  await link(root);
  expect(await verifyLinkAt(root)).toEqual([]);
  expect(await hashOfZarr(root)).toBe(sha256(new Uint8Array(values.buffer)));
  expect(fs.readdirSync(join(root, "c"))).toEqual(["0", "1", "2"]);
});

test("[FL-05] after unlinking, files that were renamed have their original bytes, wherever they are now", async () => {
  const root = join(temporaryFolder(), "a");
  const linked = join(root, "data");
  fs.mkdirSync(root);
  await (await createArray(join(root), { dtype: "<i4", chunkLength: 4, superchunkLength: 1 })).close();
  const array = await openWritable(root);
  await array.append(Int32Array.from({ length: 12 }, (_, i) => i));
  await array.close();
  const before = snapshot(linked);
  await link(root);
  const at = (n: number): string => join(linked, `__${n}__.bin`);
  // The first is removed, and each of the others gets the name of the one before it.
  fs.renameSync(at(2), at(1));
  fs.renameSync(at(3), at(2));
  await unlink(root);
  const after = snapshot(linked);
  expect([after["__1__.bin"], after["__2__.bin"]]).toEqual([before["__2__.bin"], before["__3__.bin"]]);
  expect(fs.existsSync(join(root, "c"))).toBe(false);
});

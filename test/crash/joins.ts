/** A conversion into an existing hierarchy, killed at each of its writes. */
import type { ConvertOptions, ConvertResult } from "../../src/convert/pipeline.ts";
import { convert } from "../../src/convert/run/convert.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import type { WritableStore } from "../../src/store/types.ts";
import { consolidateGroup, joinHierarchy } from "../../src/zarr/write/node-document.ts";
import { openFixture } from "../convert/to-zarr/read-back.ts";
import { withFaults } from "../store/faulty.ts";
import { type Image, imageOf } from "./images.ts";

export const ROOT = "all.zarr";
/** Neither of the groups above exists before. */
export const NODE = `${ROOT}/a/b/t`;

/** Converts a table into the hierarchy, as `convert` of a path does. */
export async function convertInto(
  store: WritableStore,
  options: ConvertOptions = {},
): Promise<ConvertResult> {
  const destination = { store, path: NODE, isInGroup: true };
  const archive = await openFixture("ctable/bcolz-mixed");
  return convert(archive, destination, options, undefined, () => joinHierarchy(store, ROOT, NODE));
}

/** What the disk holds after each kill; the last has everything. */
export async function killedJoins(): Promise<readonly Image[]> {
  const before = new MemoryStore();
  await convert(await openFixture("carray/bcolz-f8-chunks"), { store: before, path: `${ROOT}/first` });
  await before.put(`${ROOT}/zarr.json`, Buffer.from('{"zarr_format": 3, "node_type": "group"}'));
  await consolidateGroup(before, ROOT);
  const images: Image[] = [];
  for (let failAt = 1; ; failAt++) {
    const disk = new MemoryStore(await imageOf(before));
    const faulty = withFaults(disk, { failAt, kind: "crash-after", counts: "writes" });
    await convertInto(faulty.store).catch((error: unknown) => {
      if (!faulty.failed()) throw error;
    });
    images.push(await imageOf(disk));
    if (!faulty.failed()) return images;
  }
}

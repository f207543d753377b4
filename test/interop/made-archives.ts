/** Archives made by this library for readers of Zarr: kinds that the corpus, written by other programs, has no sample of. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { parseDType } from "../../src/format/dtype.ts";
import { create as createArray } from "../../src/node/edit.ts";
import { FileStore } from "../../src/node/index.ts";
import { createCarray } from "../../src/write/bcolz/bcolz-create.ts";
import { compressArray } from "../../src/write/bloscpack/bloscpack-write.ts";
import type { ExpectedValues } from "./expectations.ts";

/** An archive with one array. */
export interface MadeArchive {
  /** Path below the folder. */
  readonly path: string;
  readonly values: ExpectedValues;
}

/** Makes them in a folder. Their values are the bytes 0, 1, 2, …, which as numbers differ in every byte order. */
export async function makeArchives(folder: string): Promise<readonly MadeArchive[]> {
  const store = new FileStore(folder);
  const made: MadeArchive[] = [];
  const add = async (
    path: string,
    dtype: string,
    shape: readonly number[],
    make: (data: Uint8Array<ArrayBuffer>) => Promise<unknown>,
  ): Promise<void> => {
    const count = shape.reduce((product, n) => product * n, Number(dtype.slice(2)));
    const data = Uint8Array.from({ length: count }, (_, i) => i % 127);
    await make(data);
    const sha256 = createHash("sha256").update(data).digest("hex");
    made.push({
      path,
      values: { node: "", dtype, shape, sha256, fields: false, attrs: {}, fill: undefined },
    });
  };
  const type = (dtype: string): ReturnType<typeof parseDType> => parseDType(dtype, "made");
  // Three superchunks, the last chunk short, rows of more dimensions, and the other byte order.
  await add("superchunks", ">f4", [21, 3, 2], async (data) => {
    const path = join(folder, "superchunks");
    const options = { dtype: ">f4", shape: [0, 3, 2], chunkLength: 4, superchunkLength: 2 };
    const array = await createArray(path, options);
    await array.append(data);
    await array.close();
  });
  // Chunks of 64 bytes end inside rows of 20: they are recompressed.
  await add("unaligned.blp", "<i4", [9, 5], (data) =>
    compressArray({ dtype: type("<i4"), shape: [9, 5], data }, store, "unaligned.blp", { chunkSize: 64 }),
  );
  await add("carray", ">i2", [50, 3], (data) =>
    createCarray(store, "carray", { dtype: type(">i2"), rowShape: [3], data }, { chunkLength: 16 }),
  );
  await store.close();
  return made;
}

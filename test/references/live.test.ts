import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { create as createArray } from "../../src/node/edit.ts";
import { openReferences } from "../../src/node/index.ts";
import { runCli } from "../cli/harness.ts";
import { temporaryFolder } from "../folder.ts";
import { readThroughView } from "../view/read-view.ts";

const values = Int32Array.from({ length: 195 }, (_, i) => i * 7);
let folder = "";

beforeAll(async () => {
  folder = temporaryFolder();
  const layout = { dtype: "<i4", shape: [0], chunkLength: 10, superchunkLength: 4 } as const;
  const array = await createArray(join(folder, "array"), layout);
  await array.append(values);
  await array.close();
});
async function referTo(form: string, name: string): ReturnType<typeof openReferences> {
  const set = join(folder, name);
  const { code, out } = await runCli(["virtualize", join(folder, "array"), set, "--to", form]);
  expect([code, out]).toEqual([0, expect.stringContaining("19 references, 1 chunk stored beside them")]);
  return openReferences(set, { authorize: ["local"] });
}

describe("references to an array of several superchunks", () => {
  it("as kerchunk point to the chunks of each of its files", async () => {
    const store = await referTo("kerchunk", "one.set");
    const bytes = await readThroughView(store, "array", "<i4");
    expect([...new Int32Array(bytes.slice().buffer)]).toEqual([...values]);
    await store.close();
  });

  it("as kerchunk-parquet point to the same Blosc chunks, whatever documents are next to them", async () => {
    const store = await referTo("kerchunk-parquet", "parquet.set");
    const other = await referTo("kerchunk", "other.set");
    for (let chunk = 0; chunk < 20; chunk++) {
      const bytes = await store.get(`/array/${chunk}`);
      expect(bytes).toBeDefined();
      expect(bytes).toEqual(await other.get(`/array/c/${chunk}`));
    }
    await store.close();
    await other.close();
  });
});

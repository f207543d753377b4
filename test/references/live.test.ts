/** Arrays of superchunks, whose chunks are listed in lots: each reference is to the file that holds its chunk. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createArray, openReferences } from "../../src/node/index.ts";
import { runCli } from "../cli/harness.ts";
import { readThroughView } from "../view/read-view.ts";

let folder = "";

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "superchunk-live-references-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

describe("references to an array of several superchunks", () => {
  it.each(["kerchunk", "kerchunk-parquet"])("as %s lead to the chunks of each of its files", async (form) => {
    const source = join(folder, form);
    const array = await createArray(source, { dtype: "<i4", shape: [0], chunklen: 10, superchunklen: 4 });
    const values = Int32Array.from({ length: 195 }, (_, i) => i * 7);
    await array.append(values);
    await array.close();
    const set = join(folder, `${form}.set`);
    const { code, out } = await runCli(["virtualize", source, set, "--to", form]);
    expect([code, out]).toEqual([0, expect.stringContaining("19 references, 1 chunk stored beside them")]);
    const store = await openReferences(set, { authorize: ["local"] });
    if (form === "kerchunk") {
      const bytes = await readThroughView(store, form, "<i4");
      expect([...new Int32Array(bytes.slice().buffer)]).toEqual([...values]);
    } else {
      // The Blosc chunks are the same, whatever the documents beside them.
      const other = await openReferences(join(folder, "kerchunk.set"), { authorize: ["local"] });
      for (let chunk = 0; chunk < 20; chunk++)
        expect(await store.get(`/${form}/${chunk}`)).toEqual(await other.get(`/kerchunk/c/${chunk}`));
      await other.close();
    }
    await store.close();
  });
});

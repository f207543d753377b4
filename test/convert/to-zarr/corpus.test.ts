import { describe, expect, it } from "vitest";
import { isSuperchunkError } from "../../../src/errors.ts";
import { stringifyJson } from "../../../src/format/json.ts";
import type { JsonObject } from "../../../src/format/types.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import { type ConvertOptions, convert } from "../../../src/zarr.ts";
import {
  type ArrayFixture,
  type Fixture,
  type FixtureDType,
  findFixture,
  loadArchives,
} from "../../fixtures/manifest.ts";
import { planOne } from "./plan-one.ts";
import { documentAt, openFixture, readWithZarrita, sha256 } from "./read-back.ts";
import { verifyConversion } from "./verify-conversion.ts";

const archives = loadArchives();
const readable = archives.filter(({ refuse }) => !refuse);

/** Data types that zarrita knows, with all others requested as numbers. */
function isBig(dtype: FixtureDType | null): boolean {
  return typeof dtype === "string" && dtype.startsWith(">");
}

async function convertCase(fixture: Fixture, options: ConvertOptions = {}) {
  const store = new MemoryStore();
  const result = await convert(
    await openFixture(fixture.path),
    { store, path: "out" },
    {
      verify: true,
      ...options,
    },
  );
  return { store, result };
}

/** zarrita has no complex numbers: the same bytes as pairs of floats. */
async function asPairs(store: MemoryStore, key: string): Promise<void> {
  const document = await documentAt(store, key);
  const [sharding] = document["codecs"] as [{ configuration: { chunk_shape: number[] } }];
  const grid = document["chunk_grid"] as { configuration: { chunk_shape: number[] } };
  Object.assign(document, {
    data_type: "float64",
    fill_value: 0,
    shape: [...(document["shape"] as number[]), 2],
  });
  sharding.configuration.chunk_shape.push(2);
  grid.configuration.chunk_shape.push(2);
  await store.put(key, new TextEncoder().encode(stringifyJson(document as JsonObject)));
  await store.rename(key.replace("zarr.json", "c/0"), key.replace("zarr.json", "tmp"));
  await store.rename(key.replace("zarr.json", "tmp"), key.replace("zarr.json", "c/0/0"));
}

describe("every archive of the corpus", () => {
  it("can be converted", () => {
    expect(archives).toHaveLength(69);
  });

  it.each(readable.filter(({ kind }) => kind !== "table").map(({ path }) => path))(
    "%s has in Zarr the values that its producer wrote, as zarrita reads them",
    async (path) => {
      const fixture = findFixture(path) as ArrayFixture;
      const { store } = await convertCase(fixture, { portable: true });
      const nested =
        (await store.get("out/zarr.json")) !== undefined &&
        (await documentAt(store, "out/zarr.json"))["node_type"] === "group";
      if (nested) {
        expect(await readStruct(store, fixture)).toBe(fixture.sha256);
        return;
      }
      if (typeof fixture.dtype === "string" && fixture.dtype.includes("c16"))
        await asPairs(store, "out/zarr.json");
      expect(sha256(await readWithZarrita(store, "out", isBig(fixture.dtype)))).toBe(fixture.sha256);
    },
  );

  it.each(readable.filter(({ kind }) => kind === "table").map(({ path }) => path))(
    "%s becomes a group whose columns have the values that its producer wrote",
    async (path) => {
      const fixture = findFixture(path);
      if (fixture.kind !== "table") throw new Error("not a table");
      const { store, result } = await convertCase(fixture, { portable: true });
      const group = await documentAt(store, "out/zarr.json");
      expect(group["attributes"]).toMatchObject({ ...fixture.attrs, column_order: fixture.names });
      for (const name of fixture.names) {
        const column = fixture.columns[name];
        expect([
          name,
          sha256(await readWithZarrita(store, `out/${name}`, isBig(column?.dtype ?? null))),
        ]).toEqual([name, column?.sha256]);
      }
      expect(result.arrays).toBe(fixture.names.length);
    },
  );

  it.each(readable.map(({ path }) => path))(
    "%s keeps its values with numpy's own data types",
    async (path) => {
      const { store, result } = await convertCase(findFixture(path));
      expect(result.verified).toBe(true);
      const check = await verifyConversion(await openFixture(path), store, "out");
      expect(check.nbytes).toBe(result.nbytes);
      expect(await store.get("out/.superchunk-convert.json")).toBeUndefined();
    },
  );

  it.each(archives.filter(({ refuse }) => refuse).map(({ path }) => path))(
    "%s is refused, and nothing is written",
    async (path) => {
      const store = new MemoryStore();
      const failure = await openFixture(path)
        .then((archive) => convert(archive, { store, path: "out" }))
        .catch((error: unknown) => error);
      expect(isSuperchunkError(failure)).toBe(true);
      expect(await store.get("out/zarr.json")).toBeUndefined();
    },
  );
});

/** Columns of a nested array put together again, row by row. */
async function readStruct(store: MemoryStore, fixture: ArrayFixture): Promise<string> {
  const names = (fixture.dtype as readonly (readonly [string, string])[]).map(([name]) => name);
  const columns = await Promise.all(names.map((name) => readWithZarrita(store, `out/${name}`)));
  const [rows = 0] = fixture.shape;
  const parts: Uint8Array[] = [];
  for (let row = 0; row < rows; row++) {
    for (const column of columns)
      parts.push(column.subarray((row * column.length) / rows, ((row + 1) * column.length) / rows));
  }
  return sha256(Buffer.concat(parts));
}

describe("copying", () => {
  it.each([
    "carray/bcolz-f8-chunks",
    "blz-superchunk/f8-default",
    "bloscpack-3/array-f8.blp",
    "blz-superchunk/i2-out-of-order",
    "blz-superchunk/f8-streamed",
    "carray/bzl-f4-3d",
    "ctable/bcolz-daily-equities",
  ])("%s is converted without recompressing more than a short last chunk", async (path) => {
    const plan = await planOne(await openFixture(path));
    const { result } = await convertCase(findFixture(path), { recode: false });
    expect(plan.arrays.every(({ action }) => action === "copy")).toBe(true);
    expect(result.chunksRecoded).toBe(0);
    expect(result.chunksPadded).toBeLessThanOrEqual(result.arrays);
    expect(result.chunksCopied).toBe(
      plan.arrays.reduce((total, { chunks }) => total + chunks, 0) - result.chunksPadded,
    );
  });

  it("lists the archives of the corpus that are recoded, and why", async () => {
    const recoded: Record<string, string | undefined> = {};
    for (const { path } of readable) {
      const { arrays } = await planOne(await openFixture(path));
      for (const { action, node, reason } of arrays)
        if (action === "recode") recoded[`${path}:${node}`] = reason;
    }
    expect(recoded).toMatchInlineSnapshot(`
      {
        "bloscpack-3/array-f4-3d-fortran.blp:": "chunks of 1024 bytes do not end on rows of the shape [7,9,11]",
        "carray/bcolz-i4-snappy:": "zarr-python cannot decode Blosc chunks with snappy",
      }
    `);
  });
});

import { parquetMetadata } from "hyparquet";
import { parquetWriteBuffer } from "hyparquet-writer";
import { expect, it } from "vitest";
import { writeKerchunkParquet } from "../../src/references/kerchunk/kerchunk-forms.ts";
import { decodeParquetRows } from "../../src/references/kerchunk/kerchunk-index.ts";
import type { ReferencedArray } from "../../src/references/plan/plan.ts";
import type { ReferenceItem } from "../../src/references/plan/reference-stream.ts";
import { MemoryStore } from "../../src/store/memory.ts";

const PATHS = ["a", "b", null, "b", "c", null, "d"];

it("reading gives the value of each row, in files of several row groups too", async () => {
  const buffer = parquetWriteBuffer({
    columnData: [
      { name: "path", data: PATHS, type: "STRING" },
      { name: "size", data: BigInt64Array.from(PATHS, (_, i) => BigInt(i * 10)), type: "INT64" },
    ],
    rowGroupSize: 3,
  });
  const rows = await decodeParquetRows(new Uint8Array(buffer), "test");
  expect(rows.count).toBe(PATHS.length);
  for (const [i, path] of PATHS.entries()) {
    expect(rows.value("path", i) ?? null).toBe(path);
    expect(rows.value("size", i)).toBe(BigInt(i * 10));
  }
  expect(rows.value("path", PATHS.length)).toBeUndefined();
  expect(rows.value("other", 0)).toBeUndefined();
});

it("refuses files that are not Parquet", async () => {
  await expect(decodeParquetRows(new Uint8Array(40), "x.parq")).rejects.toMatchObject({
    code: "BAD_FIELD",
    details: { path: "x.parq" },
  });
});

it("places of chunks are text in a dictionary where some are absent, and bytes where all are: fastparquet gives None for these", async () => {
  const chunk_grid = { configuration: { chunk_shape: [1] } };
  const encodingsOf = async (stored: readonly number[]): Promise<readonly unknown[]> => {
    const store = new MemoryStore();
    const array = {
      ...{ node: "x", typesize: 4, hasHoles: true },
      document: { shape: [4], chunk_grid },
      zarr2: { zarray: {}, zattrs: {} },
    } as unknown as ReferencedArray;
    async function* items(): AsyncGenerator<ReferenceItem> {
      yield { kind: "array", array } as ReferenceItem;
      for (const i of stored)
        yield {
          kind: "virtual",
          index: [i],
          location: "file:///a",
          offset: 4 * i,
          length: 4,
        } as unknown as ReferenceItem;
    }
    await writeKerchunkParquet(items(), store, "set");
    const bytes = (await store.get("set/x/refs.0.parq")) as Uint8Array<ArrayBuffer>;
    const { schema, row_groups } = parquetMetadata(bytes.slice().buffer);
    const rows = await decodeParquetRows(bytes, "x");
    expect([0, 1, 2, 3].map((i) => rows.value("path", i) ?? null)).toEqual(
      [0, 1, 2, 3].map((i) => (stored.includes(i) ? "file:///a" : null)),
    );
    return [
      schema[1]?.converted_type,
      row_groups[0]?.columns[0]?.meta_data?.encodings.includes("RLE_DICTIONARY"),
    ];
  };
  expect(await encodingsOf([2])).toEqual(["UTF8", true]);
  expect(await encodingsOf([])).toEqual([undefined, false]);
});

import { parquetWriteBuffer } from "hyparquet-writer";
import { expect, it } from "vitest";
import { decodeParquetRows } from "../../src/references/kerchunk/kerchunk-index.ts";

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

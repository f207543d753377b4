/** `arrowBatches`: a stream of Arrow, as flechette reads it, against the values that were stored. */
import { type Column, tableFromIPC } from "@uwdata/flechette";
import { beforeAll, describe, expect, test } from "vitest";
import { create, open } from "../../src/node/index.ts";
import { temporaryFolder } from "../folder.ts";
import { makeTables, ROWS, VALUES } from "./tables.ts";

let paths: Readonly<Record<string, string>> = {};
beforeAll(async () => {
  paths = await makeTables();
});

const KINDS = ["ctable", "columns", "structs", "zarr", "file"];
const READ = { useBigInt: true, useDate: false };

async function openScannable(path: string) {
  const opened = await open(path);
  const table = opened.kind === "group" ? await opened.arrays() : opened;
  if (table.kind === "bytes") throw new TypeError("plain bytes");
  return table;
}

/** What a stream of Arrow holds, by column. */
async function streamed(kind: string, options: object) {
  const archive = await openScannable(paths[kind] ?? "");
  const pieces = [];
  for await (const piece of archive.arrowBatches(options)) pieces.push(piece);
  await archive.close();
  return { pieces, table: tableFromIPC(pieces, READ) };
}

const valuesOf = (column: Column<unknown> | undefined): unknown[] => Array.from(column ?? []);

describe.each(KINDS)("%s", (kind) => {
  test("holds every value, in batches whose buffers are the pieces themselves", async () => {
    const { pieces, table } = await streamed(kind, {});
    expect(table.numRows).toBe(ROWS);
    expect(table.names).toEqual(Object.keys(VALUES));
    const dates = VALUES.stamp.map((day) => (day === null ? null : Number(day) * 86_400_000));
    const found = Object.fromEntries(table.names.map((name) => [name, valuesOf(table.getChild(name))]));
    expect(found).toEqual({
      ...VALUES,
      close: VALUES.close.map((value) => value ?? Number.NaN),
      stamp: dates,
    });
    const [batch] = table.getChild("volume").data;
    const values = batch?.values as Uint32Array | undefined;
    expect(pieces.some((piece) => piece.buffer === values?.buffer)).toBe(true);
  });

  test("takes the requested columns and rows", async () => {
    const { table } = await streamed(kind, {
      columns: ["code"],
      filter: { volume: { lt: 300 } },
      limit: 20,
    });
    const expected = VALUES.code.filter((_, i) => (VALUES.volume[i] ?? 0) < 300).slice(0, 20);
    expect(table.names).toEqual(["code"]);
    expect(valuesOf(table.getChild("code"))).toEqual(expected);
  });
});

test("a table without rows is a schema, and a stream that ends", async () => {
  const path = `${temporaryFolder()}/empty`;
  await create(path, { dtype: [["a", "<f8"]] as never });
  const archive = await openScannable(path);
  const pieces = [];
  for await (const piece of archive.arrowBatches()) pieces.push(piece);
  expect(pieces).toHaveLength(2);
  expect(tableFromIPC(pieces)).toMatchObject({ numRows: 0, names: ["a"] });
});

test("a string that is not UTF-8 is refused, or kept as bytes if requested", async () => {
  const path = `${temporaryFolder()}/latin`;
  await create(path, { dtype: "|S2", data: Uint8Array.of(0xe9, 0, 97, 98) } as never);
  const archive = await openScannable(path);
  const take = async (options: object): Promise<Uint8Array[]> => {
    const pieces = [];
    for await (const piece of archive.arrowBatches(options)) pieces.push(piece);
    return pieces;
  };
  await expect(take({})).rejects.toMatchObject({
    code: "UNSUPPORTED",
    details: { field: "value" },
  });
  const fixed = tableFromIPC(await take({ strings: "fixed" }));
  expect(valuesOf(fixed.getChild("value"))).toEqual([Uint8Array.of(0xe9, 0), Uint8Array.of(97, 98)]);
});

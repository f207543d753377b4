/** Tables with known values, stored in each way that can be scanned. */
import { join } from "node:path";
import { expect } from "vitest";
import { convert, create, open } from "../../src/node/index.ts";
import type { ScanFilter } from "../../src/scan/filter.ts";
import type { ScanRowsOptions } from "../../src/scan/scan.ts";
import { temporaryFolder } from "../folder.ts";

/** Rows of the tables; the chunks of their columns have 64 rows, and the last one is short. */
export const ROWS = 1000;

const NAT = -(2n ** 63n);

/** The contents of the tables column by column, for comparison: null for NaN and NaT. */
export const VALUES = {
  close: Array.from({ length: ROWS }, (_, i) =>
    i % 97 === 5 ? null : Math.round(1000 * Math.sin(i / 40)) / 4,
  ),
  volume: Array.from({ length: ROWS }, (_, i) => (i * 7919) % 2003),
  stamp: Array.from({ length: ROWS }, (_, i) => (i % 251 === 3 ? null : BigInt(i >> 3) + 16_000n)),
  big: Array.from({ length: ROWS }, (_, i) => (BigInt(i) << 50n) - 2n ** 58n),
  code: Array.from({ length: ROWS }, (_, i) => `k${String((i * 31) % 500).padStart(3, "0")}`),
  open: Array.from({ length: ROWS }, (_, i) => i % 300 < 150),
} as const;

export type Name = keyof typeof VALUES;

const DTYPE = [
  ["close", "<f8"],
  ["volume", "<u4"],
  ["stamp", "<M8[D]"],
  ["big", "<i8"],
  ["code", "|S4"],
  ["open", "|b1"],
] as const;

function rowsOf(): unknown[][] {
  return Array.from({ length: ROWS }, (_, i) => [
    VALUES.close[i] ?? Number.NaN,
    VALUES.volume[i],
    VALUES.stamp[i] ?? NAT,
    VALUES.big[i],
    VALUES.code[i],
    VALUES.open[i],
  ]);
}

/** A folder with the table as a bcolz table, an array of superchunks with columns and without, a Zarr group, and a Bloscpack file. */
export async function makeTables(): Promise<Readonly<Record<string, string>>> {
  const folder = temporaryFolder();
  const paths = {
    ctable: join(folder, "table.bcolz"),
    columns: join(folder, "columns"),
    structs: join(folder, "structs"),
  };
  const settings = { dtype: DTYPE as never, chunkLength: 64 };
  for (const [path, more] of [
    [paths.ctable, { format: "bcolz" }],
    [paths.columns, {}],
    [paths.structs, { columns: false }],
  ] as const) {
    const made = await create(path, { ...settings, ...more } as never);
    await made.append(rowsOf() as never);
    await made.close();
  }
  const large = await create(join(folder, "large"), { ...settings, format: "bcolz" } as never);
  await large.append(rowsOf().map((row) => row.with(1, 9000)) as never);
  await large.close();
  const zarr = join(folder, "table.zarr");
  await convert(paths.ctable, zarr);
  const file = join(folder, "structs.blp");
  await convert(paths.structs, file, { to: "bloscpack" });
  return { ...paths, zarr, file };
}

export type Rows = { readonly rows: number[]; readonly values: Record<string, unknown[]> };

/** The rows that a scan of what is at a path gives. */
export async function scanPath(path: string, options: ScanRowsOptions): Promise<Rows> {
  const opened = await open(path);
  const table = opened.kind === "group" ? await opened.arrays() : opened;
  if (table.kind === "bytes") throw new Error("plain bytes");
  const found: Rows = { rows: [], values: {} };
  try {
    for await (const { rows, length, columns } of table.scan(options)) {
      expect(rows.length).toBe(length);
      found.rows.push(...rows);
      for (const [name, { data, shape }] of Object.entries(columns)) {
        expect(shape).toEqual([length]);
        found.values[name] = [...(found.values[name] ?? []), ...data];
      }
    }
  } finally {
    await table.close();
  }
  return found;
}

/** What is stored, as `get` gives it. */
export function stored(name: Name, row: number): unknown {
  const value = VALUES[name][row];
  return value ?? (name === "close" ? Number.NaN : -(2n ** 63n));
}

export function expected(takes: (row: number) => boolean, columns: readonly Name[]): Rows {
  const rows = Array.from({ length: ROWS }, (_, i) => i).filter(takes);
  const values = Object.fromEntries(
    rows.length === 0 ? [] : columns.map((name) => [name, rows.map((row) => stored(name, row))]),
  );
  return { rows, values };
}

export const of = (name: Name, takes: (value: never) => boolean) => (row: number) => {
  const value = VALUES[name][row];
  return value !== null && value !== undefined && takes(value as never);
};

export const FILTERS: readonly (readonly [filter: ScanFilter, takes: (row: number) => boolean])[] = [
  [{ close: { gt: 100 } }, of("close", (v: number) => v > 100)],
  [{ close: { gte: 0, lt: 12.5 } }, of("close", (v: number) => v >= 0 && v < 12.5)],
  [{ close: { lte: -0 } }, of("close", (v: number) => v <= 0)],
  [{ close: { ne: 0 } }, of("close", (v: number) => v !== 0)],
  [{ close: { eq: 0 } }, of("close", (v: number) => v === 0)],
  [{ close: { nin: [0, 25] } }, of("close", (v: number) => v !== 0 && v !== 25)],
  [{ close: { null: true } }, (row) => VALUES.close[row] === null],
  [{ close: { null: false } }, (row) => VALUES.close[row] !== null],
  [{ close: { null: true, gt: 0 } }, () => false],
  [{ volume: { between: [100, 200] } }, of("volume", (v: number) => v >= 100 && v <= 200)],
  [{ volume: { gt: 100.5, lt: 120.5 } }, of("volume", (v: number) => v > 100.5 && v < 120.5)],
  [{ volume: { eq: 100.5 } }, () => false],
  [{ volume: { in: [1, 2, 3n, 7.5] } }, of("volume", (v: number) => [1, 2, 3].includes(v))],
  [{ volume: { in: [] } }, () => false],
  [
    { volume: { gt: 1900 }, close: { lt: 0 } },
    (row) => of("volume", (v: number) => v > 1900)(row) && of("close", (v: number) => v < 0)(row),
  ],
  [{ stamp: { gte: "2014-01-01" } }, of("stamp", (v: bigint) => v >= 16_071n)],
  [
    { stamp: { between: ["2013-11-01", "2013-11-30"] } },
    of("stamp", (v: bigint) => v >= 16_010n && v <= 16_039n),
  ],
  [{ stamp: { eq: new Date("2013-12-24") } }, of("stamp", (v: bigint) => v === 16_063n)],
  [{ stamp: { lt: 16_010n } }, of("stamp", (v: bigint) => v < 16_010n)],
  [{ stamp: { ne: 16_010 } }, of("stamp", (v: bigint) => v !== 16_010n)],
  [{ stamp: { null: true } }, (row) => VALUES.stamp[row] === null],
  [{ big: { gt: 0 } }, of("big", (v: bigint) => v > 0n)],
  [{ big: { gte: -(2n ** 58n), lte: 1n - 2n ** 58n } }, of("big", (v: bigint) => v === -(2n ** 58n))],
  [{ big: { lt: Number.NEGATIVE_INFINITY } }, () => false],
  [{ big: { lt: Number.POSITIVE_INFINITY } }, () => true],
  [{ code: { gt: "k400", lte: "k450" } }, of("code", (v: string) => v > "k400" && v <= "k450")],
  [{ code: { in: ["k001", "k499", "zzz"] } }, of("code", (v: string) => v === "k001" || v === "k499")],
  [{ open: { eq: true } }, of("open", (v: boolean) => v)],
  [
    { open: { ne: true }, volume: { lt: 50 } },
    (row) => VALUES.open[row] === false && (VALUES.volume[row] ?? 0) < 50,
  ],
];

export const shown = (filter: ScanFilter): string =>
  JSON.stringify(filter, (_, value: unknown) => (typeof value === "bigint" ? `${value}n` : value));

export async function gather<T>(batches: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const batch of batches) all.push(batch);
  return all;
}

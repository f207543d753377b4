/** Tables with known values, stored in each way that can be scanned. */
import { join } from "node:path";
import { convert, create } from "../../src/node/index.ts";
import { temporaryFolder } from "../folder.ts";

/** Rows of the tables; the chunks of their columns have 64 rows, and the last one is short. */
export const ROWS = 1000;

const NAT = -(2n ** 63n);

/** Column by column what the tables hold, as it is compared: null for NaN and NaT. */
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

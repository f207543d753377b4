/** `scan`: the rows that a filter selects, from every kind of table, against plain loops over the stored values. */
import { copyFileSync, cpSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { INDEX_NAME } from "../../src/format/naming.ts";
import { FileStore, open, openTable } from "../../src/node/index.ts";
import { openTable as openTableIn } from "../../src/open/open.ts";
import type { ScanPlan, ScanRowsOptions } from "../../src/scan/scan.ts";
import type { StoreOptions } from "../../src/store/types.ts";
import { interceptStore } from "../../src/store/wrappers/intercept.ts";
import { temporaryFolder } from "../folder.ts";
import {
  expected,
  FILTERS,
  gather,
  makeTables,
  type Name,
  of,
  ROWS,
  type Rows,
  scanPath,
  shown,
  stored,
  VALUES,
} from "./tables.ts";

let paths: Readonly<Record<string, string>> = {};
beforeAll(async () => {
  paths = await makeTables();
});

const scanned = (kind: string, options: ScanRowsOptions): Promise<Rows> =>
  scanPath(paths[kind] ?? "", options);

describe.each(["ctable", "columns", "structs", "zarr", "file"])("%s", (kind) => {
  test.each(FILTERS.map(([filter, takes]) => [shown(filter), filter, takes] as const))(
    "gives the rows that match %s",
    async (_, filter, takes) => {
      const columns = ["close", "code", "stamp"] as const;
      expect(await scanned(kind, { filter, columns })).toEqual(expected(takes, columns));
    },
  );

  test("gives all rows without a filter, and as many as requested", async () => {
    const all = Object.keys(VALUES) as Name[];
    const found = await scanned(kind, {});
    expect(found.rows).toEqual(Array.from({ length: ROWS }, (_, i) => i));
    expect(new Set(Object.keys(found.values))).toEqual(new Set(all));
    for (const name of all)
      expect(found.values[name], name).toEqual(found.rows.map((row) => stored(name, row)));
    expect((await scanned(kind, { limit: 70, columns: ["volume"] })).rows.at(-1)).toBe(69);
    expect((await scanned(kind, { limit: 0 })).rows).toEqual([]);
    const first = await scanned(kind, { limit: 3, columns: [], filter: { volume: { gt: 1990 } } });
    const takes = of("volume", (v: number) => v > 1990);
    expect(first).toEqual({ rows: expected(takes, []).rows.slice(0, 3), values: {} });
  });
});

test("a limit that is reached needs no later chunk, which may be damaged", async () => {
  const path = join(temporaryFolder(), "table");
  cpSync(paths["ctable"] ?? "", path, { recursive: true });
  writeFileSync(join(path, "volume/data/__1.blp"), "damaged");
  const filter = { volume: { gte: 0 } };
  await using table = await openTable(path);
  const rows: number[] = [];
  for await (const batch of table.scan({ filter, limit: 64, columns: ["code", "close"] }))
    rows.push(...batch.rows);
  expect(rows).toEqual(Array.from({ length: 64 }, (_, i) => i));
  const more = table.scan({ filter, limit: 65 });
  await more.next();
  await expect(more.next()).rejects.toThrow(/__1\.blp/);
});

const AGE = new Date(Date.now() - 60_000);

describe("what a scan has read", () => {
  test("is remembered by the handle: the second one skips", async () => {
    for (const kind of ["ctable", "columns", "structs", "file"]) {
      await using archive = await open(paths[kind] ?? "");
      if (archive.kind !== "table" && archive.kind !== "array") throw new Error(archive.kind);
      const plans: ScanPlan[] = [];
      const options = {
        filter: { big: { gt: 2n ** 59n } },
        columns: ["big"],
        onPlan: (plan: ScanPlan) => plans.push(plan),
      };
      const rowsOf = async (): Promise<number[]> =>
        (await gather(archive.scan(options))).flatMap(({ rows }) => [...rows]);
      const takes = of("big", (v: bigint) => v > 2n ** 59n);
      for (let i = 0; i < 2; i++) expect(await rowsOf()).toEqual(expected(takes, []).rows);
      expect(
        plans.map(({ skipped }) => skipped),
        kind,
      ).toEqual([0, 12]);
      expect(plans[0]?.chunks).toBe(16);
    }
  });

  test("does not count after another program has written the chunk", async () => {
    const path = paths["ctable"] ?? "";
    await using table = await openTable(path);
    const options = { filter: { volume: { gt: 5000 } }, columns: ["volume"] } as const;
    expect(await gather(table.scan(options))).toEqual([]);
    // The bytes of other numbers of the same length, as bcolz would write them.
    const chunk = join(path, "volume", "data", "__3.blp");
    const kept = join(path, "volume", "kept.blp");
    copyFileSync(chunk, kept);
    copyFileSync(join(path, "..", "large", "volume", "data", "__3.blp"), chunk);
    utimesSync(chunk, AGE, AGE);
    const found = await gather(table.scan(options));
    copyFileSync(kept, chunk);
    expect(found.flatMap(({ rows }) => [...rows])).toEqual(Array.from({ length: 64 }, (_, i) => 192 + i));
  });
});

describe("a scan is refused", () => {
  test.each([
    [{ filter: { volume: { above: 3 } } }, "BAD_ARGUMENT", /has "above"/],
    [{ filter: { volume: {} } }, "BAD_ARGUMENT", /compares nothing/],
    [{ filter: { volume: 5 } }, "BAD_ARGUMENT", /not an object/],
    [{ filter: { volume: { gt: "many" } } }, "BAD_ARGUMENT", /expected a number/],
    [{ filter: { close: { eq: Number.NaN } } }, "BAD_ARGUMENT", /null: true/],
    [{ filter: { stamp: { gt: "NaT" } } }, "BAD_ARGUMENT", /null: true/],
    [{ filter: { stamp: { gt: "2015-01-01T12" } } }, "BAD_ARGUMENT", /not a date in units of D/],
    [{ filter: { code: { lt: 5 } } }, "BAD_ARGUMENT", /expected text/],
    [{ filter: { open: { eq: "yes" } } }, "BAD_ARGUMENT", /true or false/],
    [{ filter: { volume: { in: 5 } } }, "BAD_ARGUMENT", /a list of values/],
    [{ filter: { volume: { between: [5] } } }, "BAD_ARGUMENT", /the first value and the last/],
    [{ filter: { price: { gt: 5 } } }, "NOT_FOUND", /no column "price"; expected one of close/],
    [{ columns: ["price"] }, "NOT_FOUND", /no column "price"/],
    [{ columns: { close: "float32" } }, "BAD_ARGUMENT", /dtype <f8, not float32/],
    [{ columns: "close" }, "BAD_ARGUMENT", /columns is close, expected a list of names/],
    [{ columns: 5 }, "BAD_ARGUMENT", /columns is 5, expected a list of names/],
    [{ limit: 1.5 }, "BAD_ARGUMENT", /limit is 1.5/],
    [{ where: { close: { gt: 1 } } }, "BAD_ARGUMENT", /unknown option "where"; expected columns, filter/],
    [{ filter: [{ close: { gt: 1 } }] }, "BAD_ARGUMENT", /an object of conditions by column/],
  ] as const)("%j", async (options, code, message) => {
    const failure = scanned("ctable", options as never);
    await expect(failure).rejects.toMatchObject({ code });
    await expect(failure).rejects.toThrow(message);
  });

  test("if another scan of the handle is aborted, but not this one", async () => {
    const abort = new AbortController();
    const store = interceptStore(new FileStore(paths["ctable"] ?? ""), {
      async onCall({ key, args }, proceed) {
        if (key !== INDEX_NAME) return proceed();
        setTimeout(() => abort.abort(new Error("enough")), 20);
        await new Promise((resolve) => setTimeout(resolve, 40));
        (args[1] as StoreOptions).signal?.throwIfAborted(); // as a store over a network does
        return proceed();
      },
    });
    await using table = await openTableIn(store);
    const filter = { volume: { gt: 1990 } };
    const rowsOf = async (signal?: AbortSignal): Promise<number> => {
      let rows = 0;
      for await (const { length } of table.scan({ filter, signal })) rows += length;
      return rows;
    };
    const [ended, read] = [rowsOf(abort.signal), rowsOf()];
    await expect(ended).rejects.toThrow("enough");
    expect(await read).toBeGreaterThan(0);
  });

  test("if it is aborted", async () => {
    const reason = new Error("enough");
    await expect(scanned("ctable", { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  });
});

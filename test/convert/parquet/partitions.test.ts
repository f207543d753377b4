/** Tables of zipline in folders by asset or year, and minute bars with their minutes. */
import { expect, test } from "vitest";
import { at } from "../../../src/bytes/arrays.ts";
import { openParquet } from "../../../src/parquet/open.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import { convert, planConversion } from "../../../src/zarr.ts";
import { putCarray } from "../to-zarr/make-archive.ts";
import { keysOf } from "../to-zarr/read-back.ts";

const DAY = 86_400;
/** Bars of assets, each of so many days from a day on. */
const ASSETS = [
  { id: 24, first: 16_000, days: 900 },
  { id: 3, first: 16_300, days: 1 },
  { id: 700, first: 15_700, days: 1500 },
];

interface Bar {
  readonly id: number;
  readonly day: number;
  readonly close: number;
}

const BARS: readonly Bar[] = ASSETS.flatMap(({ id, first, days }) =>
  Array.from({ length: days }, (_, i) => ({
    id,
    day: (first + i) * DAY,
    close: 50_000 + ((i * 7919) % 997),
  })),
);

async function makeDaily(bars: readonly Bar[] = BARS, chunklen = 256): Promise<MemoryStore> {
  const store = new MemoryStore();
  const names = ["close", "day", "id"] as const;
  for (const name of names) {
    const values = Uint32Array.from(bars, (bar) => bar[name]);
    const settings = { dtype: "uint32", shape: [bars.length] } as const;
    await putCarray(store, `d.bcolz/${name}`, new Uint8Array(values.buffer), chunklen, settings);
  }
  const put = (key: string, value: unknown): Promise<unknown> =>
    store.put(`d.bcolz/${key}`, new TextEncoder().encode(JSON.stringify(value)));
  await put("__rootdirs__", { names });
  await put("__attrs__", { first_row: {}, last_row: {}, calendar_offset: {} });
  return store;
}

async function columnOf(store: MemoryStore, key: string, column: string): Promise<number[]> {
  const scan = await openParquet(store, key, undefined);
  const values: number[] = [];
  for (const { rowStart, rowEnd } of scan.ranges)
    values.push(
      ...Array.from((await scan.readColumn({ column, rowStart, rowEnd })) as ArrayLike<unknown>, Number),
    );
  return values;
}

test.each(["symbol", "year"] as const)("the folder of each %s has its rows, in order", async (partition) => {
  const store = await makeDaily();
  const parquet = { partition, prices: "raw" } as const;
  const options = { to: "parquet", parquet, verify: true } as const;
  const result = await convert({ store, path: "d.bcolz" }, { store, path: "out" }, options);
  expect(result).toMatchObject({ converted: 1, verified: true });
  const groups = new Map<number, Bar[]>();
  for (const bar of BARS) {
    const value = partition === "year" ? new Date(bar.day * 1000).getUTCFullYear() : bar.id;
    groups.set(value, [...(groups.get(value) ?? []), bar]);
  }
  const name = partition === "year" ? "year" : "id";
  const keys = [...groups.keys()].map((value) => `out/${name}=${value}/data.parquet`).sort();
  expect((await keysOf(store, "out")).sort()).toEqual(keys);
  for (const [value, bars] of groups) {
    const key = `out/${name}=${value}/data.parquet`;
    expect(await columnOf(store, key, "close")).toEqual(bars.map(({ close }) => close));
    expect(await columnOf(store, key, "day")).toEqual(bars.map(({ day }) => day / DAY));
    if (partition === "year") expect(await columnOf(store, key, "id")).toEqual(bars.map(({ id }) => id));
  }
  if (partition === "symbol") expect(result.chunksRestreamed).toBeGreaterThan(5);
});

test("parts are planned, resumed, and refused for tables without assets and days", async () => {
  const store = await makeDaily();
  const options = { to: "parquet", parquet: { partition: "symbol" } } as const;
  const nodes: string[] = [];
  for await (const { plan } of planConversion({ store, path: "d.bcolz" }, { path: "out" }, options))
    nodes.push(...(plan?.arrays ?? []).map(({ node }) => node));
  expect(nodes).toEqual(
    [3, 24, 700].flatMap((id) => ["close", "day"].map((name) => `out/id=${id}/data.parquet/${name}`)),
  );
  const ended = new AbortController();
  const stop = { ...options, signal: ended.signal, onProgress: () => ended.abort(new Error("stopped")) };
  await expect(convert({ store, path: "d.bcolz" }, { store, path: "out" }, stop)).rejects.toThrow("stopped");
  const resumed = { ...options, resume: true, verify: true } as const;
  expect(await convert({ store, path: "d.bcolz" }, { store, path: "out" }, resumed)).toMatchObject({
    failed: 0,
  });
  expect(await columnOf(store, "out/id=3/data.parquet", "close")).toEqual([50_000]);
  await putCarray(store, "plain", new Uint8Array(80), 40, { dtype: "float64", shape: [10] });
  await expect(convert({ store, path: "plain" }, { store, path: "no" }, options)).rejects.toMatchObject({
    code: "UNSUPPORTED",
  });
});

test("a table without rows is one file", async () => {
  const store = await makeDaily([]);
  for (const [partition, file] of [
    ["year", "data"],
    ["rows", "part-00000"],
  ] as const) {
    const options = { to: "parquet", parquet: { partition }, verify: true } as const;
    await convert({ store, path: "d.bcolz" }, { store, path: partition }, options);
    expect(await keysOf(store, partition)).toEqual([`${partition}/${file}.parquet`]);
  }
});

test("files of rows copy the streams of whole chunks, and replace those of an earlier conversion", async () => {
  const store = await makeDaily();
  const [from, to] = [
    { store, path: "d.bcolz" },
    { store, path: "out" },
  ];
  const sized = (chunks: number) =>
    ({ to: "parquet", parquet: { partition: "rows", prices: "raw" }, shardSize: 256 * 12 * chunks }) as const;
  const result = await convert(from, to, { ...sized(3), verify: true });
  // Days become dates, which are encoded again.
  expect(result).toMatchObject({ chunksRestreamed: 2 * Math.ceil(BARS.length / 256), verified: true });
  const keys = (await keysOf(store, "out")).sort();
  expect(keys).toEqual([0, 1, 2, 3].map((part) => `out/part-0000${part}.parquet`));
  const closes: number[] = [];
  for (const key of keys) closes.push(...(await columnOf(store, key, "close")));
  expect(closes).toEqual(BARS.map(({ close }) => close));
  await expect(convert(from, to, sized(6))).rejects.toMatchObject({ code: "CONFLICT" });
  await store.put("out/notes.txt", Uint8Array.of(1));
  await convert(from, to, { ...sized(6), overwrite: true });
  expect((await keysOf(store, "out")).sort()).toEqual([
    "out/notes.txt",
    "out/part-00000.parquet",
    "out/part-00001.parquet",
  ]);
});

test("minute bars have their minutes, and state their scale", async () => {
  const store = new MemoryStore();
  const rows = 25;
  const names = ["open", "high", "low", "close", "volume"];
  for (const name of names) {
    const values = new Uint8Array(Uint32Array.from({ length: rows }, (_, i) => 1000 + i).buffer);
    await putCarray(store, `m/00/00/000007.bcolz/${name}`, values, 64, { dtype: "uint32", shape: [rows] });
  }
  const put = (key: string, value: unknown): Promise<unknown> =>
    store.put(key, new TextEncoder().encode(JSON.stringify(value)));
  await put("m/00/00/000007.bcolz/__rootdirs__", { names });
  const opens = [23_000_000, 23_001_440, 23_005_000];
  await put("m/metadata.json", { ohlc_ratio: 1000, minutes_per_day: 10, market_opens: opens });
  const from = { store, path: "m/00/00/000007.bcolz" };
  for (const to of ["parquet", "arrow"] as const)
    await convert(from, { store, path: `out.${to}` }, { to, parquet: { prices: "double" }, verify: true });
  const minutes = Array.from({ length: rows }, (_, i) => (at(opens, Math.floor(i / 10)) + (i % 10)) * 60_000);
  expect(await columnOf(store, "out.parquet", "minute")).toEqual(minutes);
  expect((await columnOf(store, "out.parquet", "close"))[1]).toBe(1.001);
  // Without a calendar the table is as stored.
  await put("m/metadata.json", { ohlc_ratio: 100 });
  const plain = await convert(from, { store, path: "plain.parquet" }, { to: "parquet", verify: true });
  expect(plain.notes).toEqual([
    expect.stringMatching(/no column of minutes is added, because metadata.json has no/),
  ]);
  expect((await columnOf(store, "plain.parquet", "close")).length).toBe(rows);
  const doubles = { to: "parquet", parquet: { prices: "double" } } as const;
  await expect(convert(from, { store, path: "no.parquet" }, doubles)).rejects.toMatchObject({
    code: "UNSUPPORTED",
  });
});

/** Parquet files come about as every target's: planned, compared before they have their name, refused where they must be. */
import { expect, test } from "vitest";
import { MemoryStore } from "../../../src/store/memory.ts";
import { type ConvertOptions, convert, type PlanEntry, planConversion } from "../../../src/zarr.ts";
import { putBloscpack } from "../to-zarr/make-archive.ts";
import { corpusStore, keysOf, openFixture } from "../to-zarr/read-back.ts";

const TO: ConvertOptions = { to: "parquet" };

test("the plan says of each column what happens to it, and why", async () => {
  const source = await openFixture("ctable/bzl-mixed");
  const plans: PlanEntry[] = [];
  for await (const each of planConversion(source, { path: "a.parquet" }, TO)) plans.push(each);
  const [entry] = plans;
  expect(entry?.plan?.arrays.map(({ action, reason }) => [action, reason])).toEqual([
    ["restream", undefined],
    ["restream", undefined],
    ["recode", "booleans of Parquet have one bit"],
  ]);
});

test("a folder of archives becomes a folder of files, each table one", async () => {
  const store = new MemoryStore();
  const from = { store: corpusStore, path: "ctable" };
  const result = await convert(from, { store, path: "out" }, { ...TO, verify: true });
  expect(result).toMatchObject({ converted: 4, failed: 0, verified: true });
  expect(await keysOf(store)).toEqual([
    "out/bcolz-daily-equities.parquet",
    "out/bcolz-mixed.parquet",
    "out/blz-btable.parquet",
    "out/bzl-mixed.parquet",
  ]);
});

test("what may not be recoded is refused before anything is written, and a file that is there stays", async () => {
  const store = new MemoryStore();
  const source = await openFixture("ctable/bzl-mixed");
  await expect(convert(source, { store, path: "a.parquet" }, { ...TO, recode: false })).rejects.toMatchObject(
    {
      code: "UNSUPPORTED",
      message: expect.stringContaining("one bit") as string,
    },
  );
  expect(await keysOf(store)).toEqual([]);
  await convert(source, { store, path: "a.parquet" }, TO);
  const before = await store.get("a.parquet");
  await expect(convert(source, { store, path: "a.parquet" }, TO)).rejects.toMatchObject({ code: "CONFLICT" });
  expect(await store.get("a.parquet")).toEqual(before);
  await convert(source, { store, path: "a.parquet" }, { ...TO, overwrite: true });
});

test("a comparison finds a value that is another, and the file does not get its name", async () => {
  const store = new MemoryStore();
  const values = Float64Array.from({ length: 500 }, (_, i) => i / 3);
  const settings = { dtype: "<f8", shape: [500], encode: { clevel: 0 } };
  await putBloscpack(store, "a.blp", new Uint8Array(values.buffer), 4000, settings);
  await convert({ store, path: "a.blp" }, { store, path: "a.parquet" }, TO);
  const whole = (await store.get("a.parquet")) ?? new Uint8Array(0);
  const at = Buffer.from(whole).indexOf(Buffer.from(Float64Array.of(123 / 3).buffer));
  expect(at).toBeGreaterThan(0);
  // A store that gives back another byte than was written, as a failing disk does.
  const failing = new Proxy(store, {
    get(target, name) {
      const found: unknown = Reflect.get(target, name);
      if (name !== "getRange") return typeof found === "function" ? found.bind(target) : found;
      return async (key: string, range: { offset: number; length: number }) => {
        const bytes = (await target.getRange(key, range))?.slice();
        const place = at - range.offset;
        if (key.includes("c.parquet") && bytes !== undefined && place >= 0 && place < bytes.length)
          bytes[place] = (bytes[place] ?? 0) ^ 1;
        return bytes;
      };
    },
  });
  const source = { store: failing, path: "a.blp" };
  await expect(
    convert(source, { store: failing, path: "c.parquet" }, { ...TO, verify: true }),
  ).rejects.toMatchObject({ code: "BAD_FIELD", message: expect.stringContaining("row 123") as string });
  expect((await keysOf(store)).filter((key) => key.includes("c."))).toEqual([]);
});

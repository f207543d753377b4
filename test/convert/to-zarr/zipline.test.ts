/**
 * What zipline's bars mean is written in CF's terms, the stored numbers do not change, and on the way back all of it
 * is removed. [FE-11]
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { open } from "../../../src/archive/open/open.ts";
import type { JsonObject } from "../../../src/format/types.ts";
import { convert as convertPaths } from "../../../src/node/index.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import { convert, zarrView } from "../../../src/zarr.ts";
import { corpusFolder } from "../../fixtures/manifest.ts";
import { temporaryFolder } from "../../folder.ts";
import { putCarray } from "./make-archive.ts";

const daily = join(corpusFolder, "ctable/bcolz-daily-equities");
const TIME = {
  standard_name: "time",
  units: "seconds since 1970-01-01",
  calendar: "proleptic_gregorian",
};

function attributesIn(bytes: Uint8Array | undefined): JsonObject {
  return (JSON.parse(new TextDecoder().decode(bytes)) as { attributes: JsonObject }).attributes;
}

test("daily bars have their days as a time and their assets as coordinates, and bcolz gets the original back", async () => {
  const folder = temporaryFolder();
  await convertPaths(daily, join(folder, "daily.zarr"), { verify: true });
  const at = (node: string): JsonObject =>
    attributesIn(readFileSync(join(folder, "daily.zarr", node, "zarr.json")));
  expect(at("")).toMatchObject({ coordinates: "day id", calendar_name: "XNYS" });
  expect(at("day")).toEqual(TIME);
  expect(at("id")).toEqual({ long_name: "sid" });
  // Nothing gives the unit of prices in daily bars.
  expect(at("close")).toEqual({});
  await convertPaths(join(folder, "daily.zarr"), join(folder, "back"), { to: "bcolz" });
  expect(JSON.parse(readFileSync(join(folder, "back", "__attrs__"), "utf8"))).toEqual(
    JSON.parse(readFileSync(join(daily, "__attrs__"), "utf8")),
  );
});

/** Minute bars in zipline's layout; the asset 7 has its own ratio. */
async function makeMinutes(metadata: unknown): Promise<MemoryStore> {
  const store = new MemoryStore();
  const values = new Uint8Array(Uint32Array.from({ length: 20 }, (_, i) => 1000 + i).buffer);
  for (const sid of ["000001", "000007"]) {
    const root = `m/00/00/${sid}.bcolz`;
    const names = ["open", "high", "low", "close", "volume"];
    for (const name of names)
      await putCarray(store, `${root}/${name}`, values, 64, { dtype: "uint32", shape: [20] });
    await store.put(`${root}/__rootdirs__`, new TextEncoder().encode(JSON.stringify({ names })));
  }
  const text = typeof metadata === "string" ? metadata : JSON.stringify(metadata);
  await store.put("m/metadata.json", new TextEncoder().encode(text));
  return store;
}

test("prices of minute bars have the factor given in the bundle's metadata.json, in conversion and view", async () => {
  const store = await makeMinutes({ ohlc_ratio: 1000, ohlc_ratios_per_sid: { 7: 100 } });
  const target = new MemoryStore();
  await convert({ store, path: "m" }, { store: target, path: "z" });
  const at = async (node: string): Promise<JsonObject> =>
    attributesIn(await target.get(`z/00/00/${node}/zarr.json`));
  expect(await at("000001.bcolz/close")).toEqual({ scale_factor: 0.001 });
  expect(await at("000007.bcolz/open")).toEqual({ scale_factor: 0.01 });
  expect(await at("000001.bcolz/volume")).toEqual({});
  const view = zarrView(await open(store, "m/00/00/000001.bcolz"));
  expect(attributesIn(await view.get("close/zarr.json"))).toEqual({ scale_factor: 0.001 });
});

test.each([["{"], [{ ohlc_ratio: 0 }], [{ ohlc_ratio: "1000" }], [[]]])(
  "a metadata.json without a ratio adds nothing: %j",
  async (metadata) => {
    const view = zarrView(await open(await makeMinutes(metadata), "m/00/00/000001.bcolz"));
    expect(attributesIn(await view.get("close/zarr.json"))).toEqual({});
  },
);

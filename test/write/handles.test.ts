/** Files that are open after functions that take paths have returned. */

import { mkdirSync, readdirSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { create as createArray } from "../../src/node/edit.ts";
import {
  create,
  edit,
  link,
  open,
  openReferences,
  planConversion,
  repairArray,
  unlink,
  verifyLinkAt,
} from "../../src/node/index.ts";
import { temporaryFolder } from "../folder.ts";

let folder: string;
const at = (name: string): string => join(folder, name);

/** Files below the folder that this process has open. */
function openFiles(): string[] {
  return readdirSync("/proc/self/fd").flatMap((fd) => {
    try {
      const path = readlinkSync(`/proc/self/fd/${fd}`);
      return path.startsWith(folder) ? [path] : [];
    } catch {
      return []; // the descriptor of the listing itself
    }
  });
}

beforeEach(async () => {
  folder = temporaryFolder();
  const array = await createArray(at("array"), { dtype: "<f8", chunkLength: 100, superchunkLength: 4 });
  await array.append(Float64Array.from({ length: 4000 }, (_, i) => i));
  await array.close();
});
describe.skipIf(process.platform !== "linux")("no file stays open", () => {
  test("after an array was written, read and closed", async () => {
    expect(openFiles()).toEqual([]);
    const array = await open(at("array"));
    if (array.kind !== "array") throw new Error("not an array");
    await array.get();
    expect(openFiles().length).toBeGreaterThan(0);
    await array.close();
    expect(openFiles()).toEqual([]);
  });

  test("after repairs, into a copy and in place", async () => {
    await repairArray(at("array"), { into: at("copy") });
    await repairArray(at("array"), { dryRun: true });
    await repairArray(at("array"));
    await expect(repairArray(at("nothing"))).rejects.toMatchObject({ code: "NOT_FOUND" });
    expect(openFiles()).toEqual([]);
  });

  test("after link and unlink", async () => {
    await link(at("array"));
    await verifyLinkAt(at("array"));
    await unlink(at("array"));
    expect(openFiles()).toEqual([]);
  });

  test("after archives of every format were opened for plans", async () => {
    for (const format of ["blz", "bcolz", "bloscpack", "zarr"] as const) {
      const path = at(format);
      await (await create(path, { format, dtype: "<i4", shape: [100] })).close();
      const plans = await edit(path, { readOnly: true });
      await plans.planSet(null);
      await plans.close();
      await (await edit(path, { readOnly: true })).abandon();
      expect(openFiles()).toEqual([]);
    }
  });

  test("after a plan of a conversion to a place that is not one", async () => {
    const planned = planConversion(at("array"), "s3://B/x").next();
    await expect(planned).rejects.toMatchObject({ code: "BAD_ARGUMENT", details: { field: "bucket" } });
    expect(openFiles()).toEqual([]);
  });

  test("after the places of an array were changed, and if it cannot be opened", async () => {
    mkdirSync(at("other"));
    const array = await edit(at("array"));
    await array.changePlaces({ add: [{ name: "other", prefix: `file://${at("other")}/` }] });
    await array.changePlaces({ rule: "round" });
    await array.append(new Float64Array(1000));
    await array.close();
    const [mark = ""] = readdirSync(at("other"), { recursive: true })
      .map(String)
      .filter((name) => name.endsWith(".json"));
    expect(openFiles()).toEqual([]);
    await (await edit(at("array"), { allow: [at("other")], readOnly: true })).close();
    expect(openFiles()).toEqual([]);
    rmSync(at(join("other", mark)));
    await expect(edit(at("array"), { allow: [at("other")] })).rejects.toMatchObject({ code: "NOT_FOUND" });
    expect(openFiles()).toEqual([]);
  });

  test("if opening fails", async () => {
    mkdirSync(at("damaged/meta"), { recursive: true });
    for (const name of ["sizes", "storage"]) writeFileSync(at(`damaged/meta/${name}`), "{bad");
    await expect(edit(at("damaged"))).rejects.toMatchObject({ code: "BAD_FIELD" });
    expect(openFiles()).toEqual([]);
    writeFileSync(at("zarr.json"), "{");
    await expect(open(at("zarr.json"))).rejects.toMatchObject({ code: "TRUNCATED" });
    await expect(open(folder)).rejects.toMatchObject({ code: "TRUNCATED" });
    await expect(edit(folder)).rejects.toMatchObject({ code: "TRUNCATED" });
    await expect(openReferences(at("zarr.json"))).rejects.toMatchObject({ code: "BAD_FIELD" });
    await expect(create(folder, { format: "zarr", shape: [10], dtype: "float64" })).rejects.toMatchObject({
      code: "CONFLICT",
    });
    expect(openFiles()).toEqual([]);
  });
});

/** Files that are open after functions that take paths have returned. */

import { readdirSync, readlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { create as createArray } from "../../src/node/edit.ts";
import {
  create,
  edit,
  link,
  open,
  openReferences,
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

  test("if opening fails", async () => {
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

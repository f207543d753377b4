/** An empty operand, as an unset shell variable gives it. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, it } from "vitest";
import { temporaryFolder } from "../folder.ts";
import { runCli } from "./harness.ts";

let folder: string;
let array: string;

beforeEach(async () => {
  folder = temporaryFolder();
  array = join(folder, "a");
  await runCli(["create", array, "--dtype", "<i4", "--shape", "10"]);
});
it.each([
  ["info", ""],
  ["cat", ""],
  ["ls", ""],
  ["verify", ""],
  ["chunks", ""],
  ["resize", "", "5"],
  ["append", "", "rows.npy"],
  ["attrs", ""],
  ["compact", ""],
  ["repair", "", "--in-place"],
  ["repair", "ARRAY", ""],
  ["link", ""],
  ["unlink", ""],
  ["create", "", "--dtype", "<i4"],
  ["compress", "", "out.blp"],
  ["compress", "ARRAY/meta/sizes", ""],
  ["decompress", "", "out"],
  ["convert", "", "out.zarr"],
  ["convert", "ARRAY", ""],
  ["convert", "ARRAY", "", "--to", "bcolz"],
  ["virtualize", "ARRAY", ""],
  ["plan", "", "out.zarr", "-o", "ARRAY.json"],
  ["plan", "ARRAY", "", "-o", "ARRAY.json"],
  ["plan", "ARRAY", "", "-o", "ARRAY.json", "--for", "verify"],
  ["plan", "", "out", "-o", "ARRAY.json", "--for", "repair"],
  ["plan", "ARRAY", "", "-o", "ARRAY.json", "--for", "repair"],
  ["virtualize", "", "out.json"],
  ["virtualize", "ARRAY", "", "--to", "kerchunk"],
  ["serve", ""],
])("%s with %j is not taken for the current folder", async (...argv) => {
  const before = readdirSync(process.cwd());
  const { code, out, err } = await runCli(argv.map((text) => text.replace("ARRAY", array)));
  expect(code).toBeGreaterThan(0);
  expect(out + err).toMatch(/empty/);
  expect(readdirSync(process.cwd())).toEqual(before);
});

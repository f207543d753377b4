/** Inputs and paths of the wrong kind: each is one error that says what to do. */
import { execFileSync } from "node:child_process";
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, it } from "vitest";
import { temporaryFolder } from "../folder.ts";
import { runCli } from "./harness.ts";

let folder: string;
const at = (name: string): string => join(folder, name);

beforeEach(async () => {
  folder = temporaryFolder();
  expect((await runCli(["create", at("array"), "--dtype", "<f8", "--shape", "100"])).code).toBe(0);
});
it.skipIf(process.platform === "win32")(
  "a named pipe is not taken for a file, and the error points to stdin",
  async () => {
    execFileSync("mkfifo", [at("pipe")]);
    for (const argv of [
      ["append", at("array"), at("pipe")],
      ["compress", at("pipe"), at("out.blp")],
      ["create", at("other"), "--from", at("pipe"), "--dtype", "<f8"],
    ]) {
      const { code, err } = await runCli(argv);
      expect([argv[0], code, err]).toEqual([argv[0], 2, expect.stringContaining("give - instead")]);
    }
    expect(readdirSync(folder).sort()).toEqual(["array", "pipe"]);
  },
);

it.skipIf(process.platform === "win32")("a name with a backslash is wrong usage, not damage", async () => {
  writeFileSync(at("a\\b.blp"), "");
  for (const argv of [
    ["info", at("a\\b.blp")],
    ["compress", at("a\\b.blp"), at("c\\d.blp")],
    ["convert", at("array"), at("e\\f.npy"), "--to", "npy"],
  ]) {
    const { code, err } = await runCli(argv);
    expect([argv[0], code, err]).toEqual([argv[0], 2, expect.stringContaining("backslash")]);
  }
});

it("Zarr is neither served nor virtualized as an archive, and is distinguished from an empty folder", async () => {
  expect((await runCli(["convert", at("array"), at("copies/array.zarr")])).code).toBe(0);
  for (const path of [at("copies/array.zarr"), at("copies")]) {
    for (const argv of [
      ["serve", path, "--port", "0"],
      ["virtualize", path, at("k.json"), "--to", "kerchunk"],
    ]) {
      const { code, err } = await runCli(argv);
      expect([argv[0], code, err]).toEqual([argv[0], 1, expect.stringContaining("this is Zarr already")]);
    }
  }
});

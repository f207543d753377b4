/** `create --zarr`, and what the other commands make of such an array. */
import * as fs from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runCli } from "../../cli/harness.ts";
import { readForeign } from "./foreign-reader.ts";
import { ramp, temporaryFolder } from "./support.ts";

test("[FY-01] create --zarr makes an array that every later command keeps a Zarr array", async () => {
  const folder = temporaryFolder();
  const root = join(folder, "live");
  const raw = (name: string, first: number, count: number): string => {
    const path = join(folder, name);
    fs.writeFileSync(path, new Uint8Array(ramp(first, count).buffer));
    return path;
  };
  const cut = ["--chunklen", "4", "--superchunklen", "3"];
  const made = await runCli([
    "create",
    root,
    "--zarr",
    "--json",
    "--from",
    raw("a.bin", 0, 30),
    "--dtype",
    "<i4",
    ...cut,
  ]);
  expect(made.code).toBe(0);
  expect(JSON.parse(made.out)).toMatchObject({ shape: [30], views: ["zarr3"] });
  expect(await readForeign(root)).toEqual([...ramp(0, 30)]);
  const steps: readonly (readonly [readonly string[], readonly number[]])[] = [
    [["append", root, raw("b.bin", 30, 5)], [...ramp(0, 35)]],
    [
      ["set", root, "--slice", "2:4", "--value", "-7"],
      [0, 1, -7, -7, ...ramp(4, 31)],
    ],
    [
      ["resize", root, "20"],
      [0, 1, -7, -7, ...ramp(4, 16)],
    ],
    [
      ["delete", root, "--rows", "0:2"],
      [-7, -7, ...ramp(4, 16)],
    ],
    [
      ["compact", root],
      [-7, -7, ...ramp(4, 16)],
    ],
  ];
  for (const [args, values] of steps) {
    const result = await runCli(args);
    expect(result, args.join(" ")).toMatchObject({ code: 0 });
    expect(await readForeign(root), args.join(" ")).toEqual(values);
  }
  expect((await runCli(["verify", root])).code).toBe(0);
  expect(JSON.parse((await runCli(["info", root, "--json"])).out)).toMatchObject({
    dialect: "blz-superchunk",
    views: ["zarr3"],
  });
  const dry = await runCli(["compact", root, "--chunklen", "5", "--dry-run"]);
  expect(dry.err).toContain("and shown as Zarr anew");
  const refused = await runCli(["compact", root, "--chunklen", "5", "--superchunklen", "3", "--dry-run"]);
  expect(refused.err).toContain("superchunk unlink");
  const recut = await runCli(["compact", root, "--chunklen", "5"]);
  expect(recut.err).toContain("of shards of their own");
  expect(await readForeign(root)).toEqual([-7, -7, ...ramp(4, 16)]);
  expect((await runCli(["verify", root])).code).toBe(0);
  expect((await runCli(["link", root])).out).toContain("is a Zarr array already, and right");
  expect((await runCli(["unlink", root])).code).toBe(0);
  expect(fs.readdirSync(root).sort()).toEqual(["data", "meta"]);
});

test("a create --zarr that fails leaves nothing; other kinds of archives refuse it", async () => {
  const root = join(temporaryFolder(), "live");
  const short = join(temporaryFolder(), "short.bin");
  fs.writeFileSync(short, new Uint8Array(10));
  const failed = await runCli(["create", root, "--zarr", "--from", short, "--dtype", "<i4"]);
  expect(failed.code).toBe(2);
  expect(fs.existsSync(root)).toBe(false);
  const wrong = await runCli(["create", root, "--zarr", "--as", "carray", "--dtype", "<i4"]);
  expect(wrong.err).toContain("superchunk link");
  expect(fs.existsSync(root)).toBe(false);
});

/** `create --zarr`, and what the other commands do with such an array. */
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
  expect(dry.err).toContain("and shown as Zarr again");
  const refused = await runCli(["compact", root, "--chunklen", "5", "--superchunklen", "3", "--dry-run"]);
  expect(refused.err).toContain("superchunk unlink");
  const recut = await runCli(["compact", root, "--chunklen", "5"]);
  expect(recut.err).toContain("of shards of their own");
  expect(await readForeign(root)).toEqual([-7, -7, ...ramp(4, 16)]);
  expect((await runCli(["verify", root])).code).toBe(0);
  expect((await runCli(["link", root])).out).toContain("is a Zarr array already, and intact");
  expect((await runCli(["unlink", root])).code).toBe(0);
  expect(fs.readdirSync(root).sort()).toEqual(["data", "meta"]);
});

test("[FY-12] a view that a killed set left between two states is BEHIND until the next writer, or link, completes it", async () => {
  const folder = temporaryFolder();
  const root = join(folder, "live");
  const raw = join(folder, "a.bin");
  fs.writeFileSync(raw, new Uint8Array(ramp(0, 30).buffer));
  const cut = ["--dtype", "<i4", "--chunklen", "4", "--superchunklen", "3"];
  expect((await runCli(["create", root, "--zarr", "--from", raw, ...cut])).code).toBe(0);
  // What a kill leaves between two shards: the first old, the second new, and a state that shows no commit.
  const shard = join(root, "c/0");
  const before = fs.readFileSync(shard);
  expect((await runCli(["set", root, "--slice", "0:24", "--value", "-7"])).code).toBe(0);
  const state = JSON.parse(fs.readFileSync(join(root, "meta/zarr"), "utf8"));
  fs.writeFileSync(
    join(root, "meta/zarr"),
    JSON.stringify({ ...state, generation: undefined, id: undefined }),
  );
  fs.rmSync(shard);
  fs.writeFileSync(shard, before, { mode: 0o444 });
  expect(await readForeign(root)).toEqual([...ramp(0, 12), ...Array(12).fill(-7), ...ramp(24, 6)]);
  const verified = await runCli(["verify", root, "--json"]);
  expect(verified.code).toBe(1);
  expect(JSON.parse(verified.out)).toMatchObject({ ok: false, totals: { behind: 1, damaged: 0 } });
  expect(JSON.parse(verified.out).archives[0].findings[0]).toMatchObject({ code: "BEHIND" });
  const { warnings } = JSON.parse((await runCli(["info", root, "--json"])).out);
  expect(warnings).toEqual([expect.stringContaining("the Zarr view is out of date")]);
  expect((await runCli(["link", root])).code).toBe(0);
  expect(await readForeign(root)).toEqual([...Array(24).fill(-7), ...ramp(24, 6)]);
  expect((await runCli(["verify", root])).code).toBe(0);
  expect(JSON.parse((await runCli(["info", root, "--json"])).out).warnings).toEqual([]);
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

test("an array that keeps itself a Zarr array takes neither a reserve nor changes in place", async () => {
  const folder = temporaryFolder();
  const [root, reserved] = [join(folder, "live"), join(folder, "reserved")];
  const values = join(folder, "values.bin");
  fs.writeFileSync(values, new Uint8Array(ramp(0, 30).buffer));
  const create = ["--zarr", "--from", values, "--dtype", "<i4", "--chunklen", "4"];
  expect((await runCli(["create", root, ...create])).code).toBe(0);
  for (const argv of [
    ["set", root, "--slice", "0:5", "--value", "3", "--in-place"],
    ["create", reserved, ...create, "--reserve", "10%"],
  ])
    expect(await runCli(argv)).toMatchObject({
      code: 1,
      err: expect.stringContaining("takes neither a reserve nor changes in place") as string,
    });
  expect(fs.existsSync(reserved)).toBe(false);
  expect((await runCli(["verify", root])).code).toBe(0);
});

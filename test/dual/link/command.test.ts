/** The commands `link` and `unlink`, and what `verify` and `info` report for a linked archive. */
import * as fs from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runCli } from "../../cli/harness.ts";
import { corpusFolder } from "../../fixtures/manifest.ts";
import { copyOf, snapshot, temporaryFolder } from "./support.ts";

const BLZ = join(corpusFolder, "blz-superchunk", "f8-default");

test("[FL-06] link says what it would do, does it, is verified, repairs, and is undone", async () => {
  const copy = copyOf(BLZ);
  const before = snapshot(copy);
  const dry = await runCli(["link", copy, "--dry-run"]);
  expect(dry).toMatchObject({ code: 0, err: "" });
  expect(dry.out).toMatch(/__1__\.bin\s+link\s+c\/0 /);
  expect(dry.out).toContain("document  zarr.json");
  expect(dry.out).toContain("would be a Zarr array: 4 files (hard links)");
  expect(snapshot(copy)).toEqual(before);

  expect(await runCli(["link", copy])).toMatchObject({ code: 0 });
  expect((await runCli(["link", copy])).out).toContain("is a Zarr array already, and intact");
  expect(JSON.parse((await runCli(["info", copy, "--json"])).out)).toMatchObject({
    dialect: "blz-superchunk",
    views: ["zarr3"],
  });
  expect((await runCli(["verify", copy])).code).toBe(0);

  const file = join(copy, "data", "__2__.bin");
  const bytes = fs.readFileSync(file);
  bytes[bytes.length - 5] = (bytes[bytes.length - 5] ?? 0) ^ 1;
  fs.chmodSync(file, 0o644);
  fs.writeFileSync(file, bytes);
  const damaged = await runCli(["verify", copy]);
  expect(damaged.code).toBe(3);
  expect(damaged.out).toContain("c/1: the crc32c of the shard index");
  expect(damaged.out).toContain('run "superchunk link" again');
  const repaired = await runCli(["link", copy]);
  expect(repaired.out).toContain("repaired  ");
  expect((await runCli(["verify", copy])).code).toBe(0);

  expect((await runCli(["unlink", copy])).out).toContain("4 files as before");
  expect(snapshot(copy)).toEqual(before);
  const again = await runCli(["unlink", copy]);
  expect(again.code).toBe(1);
  expect(again.err).toContain("nothing is linked here");
});

test("an array without rows is linked once too, and link does not say that it stays a Zarr array", async () => {
  const root = join(temporaryFolder(), "empty");
  expect(await runCli(["create", root, "--dtype", "<f8"])).toMatchObject({ code: 0 });
  expect((await runCli(["link", root, "--dry-run"])).out).toContain("would be a Zarr array: 0 files");
  expect((await runCli(["link", root])).out).toContain("is a Zarr array: 0 files");
  expect((await runCli(["link", root])).out).toContain("is a Zarr array already, and intact");
});

test("a file needs a folder to become a Zarr array in, and a folder takes none", async () => {
  const file = copyOf(join(corpusFolder, "bloscpack-3", "array-f8.blp"));
  const missing = await runCli(["link", file]);
  expect(missing.code).toBe(2);
  expect(missing.err).toContain("name a folder");
  const folder = copyOf(BLZ);
  expect(await runCli(["link", folder, `${folder}.zarr`])).toMatchObject({ code: 2 });
  expect(await runCli(["link", file, `${file}.zarr`])).toMatchObject({ code: 0 });
  const verified = await runCli(["verify", `${file}.zarr`]);
  expect(verified.code).toBe(0);
  expect(verified.out).toContain("zarr3");
});

test("changing a linked array warns that its Zarr view falls behind, and linking again brings it up to date", async () => {
  const copy = copyOf(BLZ);
  await runCli(["link", copy]);
  const changed = await runCli(["resize", copy, "2100"]);
  expect(changed.code).toBe(0);
  expect(changed.err).toContain('its Zarr view still shows the old values; "superchunk link"');
  const behind = await runCli(["verify", copy]);
  expect(behind.code).toBe(1);
  expect(behind.out).toMatch(
    /^BEHIND .*\n {2}warning BEHIND: .*the Zarr view is intact, but shows the archive as it was/,
  );
  expect(behind.out).toContain("1 archive: 0 ok, 1 out of date");
  expect((await runCli(["link", copy])).code).toBe(0);
  expect((await runCli(["verify", copy])).code).toBe(0);
  await runCli(["unlink", copy]);
  expect((await runCli(["resize", copy, "10"])).err).not.toContain("Zarr view");
});

test("a symbolic link whose target is missing is an error, never the fill value", async () => {
  const file = copyOf(join(corpusFolder, "bloscpack-3", "array-f8.blp"));
  const zarr = `${file}.zarr`;
  await runCli(["convert", file, zarr]);
  expect((await runCli(["cat", zarr, "--slice", "0:1"])).code).toBe(0);
  fs.rmSync(join(zarr, "c", "0"));
  fs.symlinkSync("../gone", join(zarr, "c", "0"));
  const read = await runCli(["cat", zarr, "--slice", "0:1"]);
  expect(read).toMatchObject({ code: 3, out: "" });
  expect(read.err).toContain("a symbolic link to ../gone, where nothing is");
  expect((await runCli(["verify", zarr])).code).toBe(3);
});

test.each(["zarr.json", ".zarray", ".zgroup"])(
  "a folder with a %s is already Zarr: link says so, and what it is for; commands that edit Zarr say what is wrong with it",
  async (name) => {
    const root = temporaryFolder();
    fs.writeFileSync(join(root, name), "{}");
    const linked = await runCli(["link", root]);
    expect(linked.code).toBe(1);
    expect(linked.err).toContain("this is already a Zarr array or group: any Zarr reader opens it");
    expect(linked.err).toContain("makes Zarr arrays of archives");
    const resized = await runCli(["resize", root, "3"]);
    expect(resized.code).toBe(3);
    expect(resized.err).toContain("zarr_format is missing");
    expect(fs.readdirSync(root)).toEqual([name]);
  },
);

test("an array whose changed chunks are in another file is linked once compact has put them back in order", async () => {
  const folder = temporaryFolder();
  const array = join(folder, "array");
  const values = join(folder, "values.bin");
  fs.writeFileSync(values, new Uint8Array(Float64Array.from({ length: 1000 }, (_, i) => i).buffer));
  const create = ["create", array, "--from", values, "--dtype", "<f8", "--chunklen", "100"];
  for (const argv of [create, ["set", array, "--slice", "250:260", "--value", "7"]])
    expect((await runCli(argv)).code).toBe(0);
  const before = snapshot(array);
  const refused = await runCli(["link", array]);
  expect([refused.code, refused.err]).toEqual([
    1,
    expect.stringMatching(/__1__\.bin: it cannot be linked: chunk 3 is in it.*"superchunk compact" puts/),
  ]);
  expect(snapshot(array)).toEqual(before);
  for (const verb of ["compact", "link", "verify"]) expect((await runCli([verb, array])).code).toBe(0);
});

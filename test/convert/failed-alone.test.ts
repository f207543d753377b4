/** A source that failed in a conversion of a folder is converted alone afterwards, to its own place. */
import { cpSync, mkdirSync, readdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { PlanEntry } from "../../src/convert/pipeline.ts";
import { convert as convertIn, planConversion } from "../../src/convert/run/convert.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { runCli } from "../cli/harness.ts";
import { findFixture } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";
import { withCounting } from "../store/counting.ts";

function filesOf(folder: string): Record<string, string> {
  const names = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((each) => each.isFile());
  const paths = names.map(({ parentPath, name }) => join(parentPath, name)).sort();
  return Object.fromEntries(paths.map((path) => [path.slice(folder.length), readFileSync(path, "hex")]));
}

test.each(["zarr", "bcolz"])("in %s the result is that of a conversion without the failure", async (to) => {
  const folder = temporaryFolder();
  const at = (name: string): string => join(folder, name);
  mkdirSync(at("src"));
  const { file } = findFixture("bloscpack-3/array-f8.blp");
  for (const name of ["a", "b", "c"]) cpSync(file, at(`src/${name}.blp`));
  expect((await runCli(["convert", at("src"), at("whole"), "--to", to])).code).toBe(0);
  truncateSync(at("src/b.blp"), 5000);
  expect((await runCli(["convert", at("src"), at("again"), "--to", to])).code).toBe(3);
  cpSync(file, at("src/b.blp"));

  const missing = await runCli(["convert", at("src"), at("again"), "--to", to, "--verify-only"]);
  expect(missing.code).toBe(1);
  expect(missing.err).toMatch(/src\/b\.blp: .*the source was not converted to this place/);
  if (to === "zarr") {
    const alone = ["convert", at("src/b.blp"), at("again/b.blp"), "--to", to];
    expect((await runCli(alone)).code).toBe(0);
  } else {
    const { code, err } = await runCli(["convert", at("src"), at("again"), "--to", to]);
    expect([code, err.match(/CONFLICT/g)?.length]).toEqual([1, 2]);
  }
  expect(filesOf(at("again"))).toEqual(filesOf(at("whole")));
});

test("a place with a name that is too long fails its own source, and no other", async () => {
  const folder = temporaryFolder();
  mkdirSync(join(folder, "src"));
  const { file } = findFixture("bloscpack-3/array-f8.blp");
  const long = `${"b".repeat(251)}.blp`; // 255 bytes: one more than a file system allows for .parquet
  for (const name of ["a.blp", long, "c.blp", "d.blp"]) cpSync(file, join(folder, "src", name));
  const convert = ["convert", join(folder, "src"), join(folder, "dst"), "--to", "parquet"];
  for (const again of [[], ["--resume"]]) {
    const { code, out } = await runCli([...convert, ...again, "--json"]);
    const { entries } = JSON.parse(out) as { entries: { path: string; code?: string }[] };
    expect([code, entries.filter((each) => each.code !== undefined)]).toMatchObject([
      1,
      [{ path: join(folder, "src", long), code: "LIMIT" }],
    ]);
  }
  expect(readdirSync(join(folder, "dst"))).toEqual(["a.parquet", "c.parquet", "d.parquet"]);
});

test.each(["zarr", "bcolz", "parquet"])(
  "--resume tries again in %s what failed, and keeps the rest",
  async (to) => {
    const folder = temporaryFolder();
    const at = (name: string): string => join(folder, name);
    mkdirSync(at("src/sub/deep"), { recursive: true });
    const { file } = findFixture("bloscpack-3/array-f8.blp");
    for (const name of ["a", "b", "sub/deep/c", "d"]) cpSync(file, at(`src/${name}.blp`));
    const convert = ["convert", at("src"), at("again"), "--to", to];
    expect((await runCli(["convert", at("src"), at("whole"), "--to", to])).code).toBe(0);
    for (const name of ["b", "sub/deep/c"]) truncateSync(at(`src/${name}.blp`), 5000);
    expect((await runCli(convert)).code).toBe(3);
    cpSync(file, at("src/sub/deep/c.blp"));
    const before = filesOf(at("again"));

    // One source still fails, and a kept one is not even read.
    truncateSync(at("src/a.blp"), 5000);
    const planned = await runCli([...convert, "--resume", "--dry-run", "--json"]);
    const found = JSON.parse(planned.out) as PlanEntry[] | { readonly entries: PlanEntry[] };
    const plans = Array.isArray(found) ? found : found.entries;
    expect(plans.map(({ path, kept, code }) => [path.slice(at("src/").length), kept ?? code])).toEqual([
      ["a.blp", true],
      ["b.blp", "TRUNCATED"],
      ["d.blp", true],
      ["sub/deep/c.blp", undefined],
    ]);
    const lines = await runCli([...convert, "--resume", "--dry-run"]);
    expect(lines.out).toMatch(to === "zarr" ? /^keep +- {2}\S+a\.blp -> \/a\.blp$/m : /^\S+a\.blp +keep /m);
    const partly = await runCli([...convert, "--resume", "--json"]);
    expect(partly.code).toBe(3);
    expect(JSON.parse(partly.out)).toMatchObject({ converted: 1, kept: 2, failed: 1 });
    expect(filesOf(at("again"))).toMatchObject(
      to === "zarr" ? { "/a.blp/zarr.json": before["/a.blp/zarr.json"] } : before,
    );
    for (const name of ["a", "b"]) cpSync(file, at(`src/${name}.blp`));
    const { code, err } = await runCli([...convert, "--resume"]);
    expect([code, err]).toEqual([
      0,
      expect.stringContaining("3 of the sources were in the destination already"),
    ]);
    expect(err).toContain("--verify-only compares them");
    expect(filesOf(at("again"))).toEqual(filesOf(at("whole")));
    expect((await runCli([...convert, "--verify-only"])).code).toBe(0);
  },
);

test("--resume does not add to a hierarchy that something else made", async () => {
  const folder = temporaryFolder();
  const at = (name: string): string => join(folder, name);
  const { file } = findFixture("bloscpack-3/array-f8.blp");
  for (const name of ["src/a", "src/b", "other/x", "other/y"]) cpSync(file, at(`${name}.blp`));
  expect((await runCli(["convert", at("other"), at("made.zarr")])).code).toBe(0);
  const before = filesOf(at("made.zarr"));
  const { code, err } = await runCli(["convert", at("src"), at("made.zarr"), "--resume"]);
  expect([code, err]).toEqual([1, expect.stringContaining("found no unfinished conversion for --resume")]);
  expect(filesOf(at("made.zarr"))).toEqual(before);
});

test("the library completes a hierarchy in a store of its own, and lists what it added", async () => {
  const [from, to] = [new MemoryStore(), new MemoryStore()];
  const bytes = readFileSync(findFixture("bloscpack-3/array-f8.blp").file);
  for (const name of ["a", "sub/b"]) await from.put(`${name}.blp`, bytes);
  const source = { store: from, path: "" };
  const whole = new MemoryStore();
  await convertIn(source, { store: whole, path: "z" });
  await from.put("sub/b.blp", bytes.subarray(0, 5000));
  expect((await convertIn(source, { store: to, path: "z" }, { skipFailed: true })).failed).toBe(1);
  await from.put("sub/b.blp", bytes);
  const left: PlanEntry[] = [];
  for await (const each of planConversion(source, { store: to, path: "z" }, { resume: true }))
    left.push(each);
  expect(left.map(({ node, kept }) => [node, kept])).toEqual([
    ["a.blp", true],
    ["sub/b.blp", undefined],
  ]);
  const done = await convertIn(source, { store: to, path: "z" }, { resume: true });
  expect(done).toMatchObject({ converted: 1, kept: 1, failed: 0 });
  for (const key of ["z/zarr.json", "z/sub/zarr.json", "z/sub/b.blp/zarr.json"])
    expect(await to.get(key)).toEqual(await whole.get(key));
});

test.each([[["whole", "torn", "sub/torn"]], [["torn", "sub/torn"]]])(
  "a dry run counts %j of an older hierarchy as the run does, with its exit code",
  async (arrays) => {
    const folder = temporaryFolder();
    const at = (name: string): string => join(folder, name);
    const { file } = findFixture("bloscpack-3/array-f8.blp");
    cpSync(file, at("src/prices.blp"));
    const facts = { zarr_format: 2, shape: [2], chunks: [2], dtype: "|u1", order: "C" };
    const array = JSON.stringify({ ...facts, compressor: null, filters: null, fill_value: 0 });
    for (const group of ["src/old", "src/old/sub"]) {
      mkdirSync(at(group));
      writeFileSync(at(`${group}/.zgroup`), '{"zarr_format":2}');
    }
    for (const name of arrays) {
      mkdirSync(at(`src/old/${name}`));
      writeFileSync(at(`src/old/${name}/.zarray`), name === "whole" ? array : array.slice(0, 40));
    }
    for (const source of ["src", "src/old"]) {
      const planned = await runCli(["convert", at(source), at("x.zarr"), "--dry-run"]);
      const { code, err } = await runCli(["convert", at(source), at(`${source.length}.zarr`)]);
      expect([planned.code, code]).toEqual([3, 3]);
      if (source !== "src") continue;
      const failed = err.match(/not converted: /g)?.length;
      expect(planned.err).toMatch(
        new RegExp(
          `^superchunk: ${arrays.includes("whole") ? 2 : 1} archives? to convert, .*, ${failed} refused`,
        ),
      );
    }
  },
);

test.each(["zarr", "npy"] as const)(
  "a resumed conversion to %s counts kept sources, and reads none of them",
  async (to) => {
    const source = new MemoryStore();
    const bytes = readFileSync(findFixture("bloscpack-3/array-f8.blp").file);
    for (const name of ["a", "b", "c"]) await source.put(`src/${name}.blp`, bytes);
    const target = new MemoryStore();
    const from = { store: source, path: "src" };
    const destination = { store: target, path: "out" };
    await source.put("src/b.blp", bytes.subarray(0, 5000));
    expect(await convertIn(from, destination, { to })).toMatchObject({ converted: 2, failed: 1 });
    await source.put("src/b.blp", bytes);
    const { store, counts } = withCounting(source);
    const seen: number[] = [];
    const done = await convertIn({ store, path: "src" }, destination, {
      to,
      resume: true,
      onProgress: ({ done: count, isOpen }) => void (isOpen === true || seen.push(count)),
    });
    expect(done).toMatchObject({ converted: 1, kept: 2, failed: 0 });
    expect(seen.at(-1)).toBe(3);
    expect(counts.log.filter((each) => /src\/[ac]\.blp/.test(each))).toEqual([]);
  },
);

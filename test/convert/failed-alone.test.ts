/** A source that failed in a conversion of a folder is converted alone afterwards, to its own place. */
import { cpSync, mkdirSync, readdirSync, readFileSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runCli } from "../cli/harness.ts";
import { findFixture } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";

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
    const resumed = await runCli(["convert", at("src"), at("again"), "--resume"]);
    expect(resumed.err).toContain("Convert a source that failed then alone, to its own place");
    const alone = ["convert", at("src/b.blp"), at("again/b.blp"), "--to", to];
    expect((await runCli(alone)).code).toBe(0);
  } else {
    const { code, err } = await runCli(["convert", at("src"), at("again"), "--to", to]);
    expect([code, err.match(/CONFLICT/g)?.length]).toEqual([1, 2]);
  }
  expect(filesOf(at("again"))).toEqual(filesOf(at("whole")));
});

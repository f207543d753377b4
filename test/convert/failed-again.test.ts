/** What has failed of a folder is tried again by a resumed conversion; what was converted is not touched. */
import { cpSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { findUnfinished } from "../../src/index.ts";
import { type ConvertPathOptions, convert, create, FileStore, planConversion } from "../../src/node/index.ts";
import type { ConvertFormat } from "../../src/zarr.ts";
import { runCli } from "../cli/harness.ts";
import { temporaryFolder } from "../folder.ts";

let folder: string;
const at = (...names: string[]): string => join(folder, ...names);
const RECORD = "superchunk-convert.json";

beforeEach(async () => {
  folder = temporaryFolder();
  for (const name of ["a", "deep/b", "deep/c"]) {
    const array = await create(at("in", name), { dtype: "float64", chunkLength: 100 });
    await array.append(Float64Array.from({ length: 1000 }, (_, i) => Math.sqrt(i)));
    await array.close();
  }
  cpSync(at("in"), at("backup"), { recursive: true });
  damage("deep/b");
});

function damage(name: string): void {
  const data = at("in", name, "data");
  for (const each of readdirSync(data)) {
    const bytes = readFileSync(join(data, each)).fill(0x55, 400, 410);
    rmSync(join(data, each));
    writeFileSync(join(data, each), bytes);
  }
}

/** Puts a whole archive back, as from a backup. */
function restore(name: string): void {
  rmSync(at("in", name), { recursive: true });
  cpSync(at("backup", name), at("in", name), { recursive: true });
}

/** The names of all files, with what changes when one is written again. */
function filesIn(path: string): Map<string, string> {
  const names = readdirSync(path, { recursive: true }).map(String).toSorted();
  return new Map(
    names.flatMap((name) => {
      const { ino, mtimeMs } = statSync(join(path, name));
      return statSync(join(path, name)).isFile() ? [[name, `${ino} ${mtimeMs}`] as const] : [];
    }),
  );
}

const run = (options: ConvertPathOptions) => convert(at("in"), at("out"), { verify: true, ...options });

async function plansOf(options: ConvertPathOptions): Promise<readonly (readonly [string, boolean])[]> {
  const plans: [string, boolean][] = [];
  for await (const { node, isKept = false } of planConversion(at("in"), at("out"), options))
    plans.push([node, isKept]);
  return plans;
}

const FORMATS: readonly ConvertFormat[] = ["zarr", "bcolz", "parquet"];

test.each(FORMATS)("as %s: only the failed source, when it was restored", async (to) => {
  expect(await run({ to })).toMatchObject({ converted: 2, failed: 1 });
  const before = filesIn(at("out"));
  expect(await findUnfinished(new FileStore(folder), "out")).toBeUndefined();
  expect(await plansOf({ to, resume: true })).toEqual([
    ["a", true],
    ["deep/b", false],
    ["deep/c", true],
  ]);
  // As long as it is damaged, it fails again, and changes nothing.
  expect(await run({ to, resume: true })).toMatchObject({ converted: 0, kept: 2, failed: 1 });
  const arrays = (files: Map<string, string>): [string, string][] =>
    [...files].filter(([name]) => !name.endsWith(RECORD));
  expect(arrays(filesIn(at("out")))).toEqual(arrays(before));
  restore("deep/b");
  expect(await run({ to, resume: true })).toMatchObject({ converted: 1, kept: 2, failed: 0 });
  const after = filesIn(at("out"));
  for (const [name, state] of arrays(before))
    if (name !== "zarr.json") expect([name, after.get(name)]).toEqual([name, state]);
  expect(await convert(at("in"), at("out"), { to, verifyOnly: true })).toMatchObject({ kept: 3, failed: 0 });
  expect(readdirSync(folder, { recursive: true }).filter((name) => String(name).endsWith(RECORD))).toEqual(
    [],
  );
  const nothing = { code: "CONFLICT", message: expect.stringContaining("nothing is left to do") as string };
  await expect(run({ to, resume: true })).rejects.toMatchObject(nothing);
  await expect(plansOf({ to, resume: true })).rejects.toMatchObject(nothing);
});

test("the groups of a hierarchy keep their attributes, and list the source that came later", async () => {
  await run({});
  const root = (): { attributes: object; consolidated_metadata: { metadata: object } } =>
    JSON.parse(readFileSync(at("out/zarr.json"), "utf8"));
  writeFileSync(at("out/zarr.json"), JSON.stringify({ ...root(), attributes: { title: "bars" } }));
  restore("deep/b");
  await run({ resume: true });
  expect(root().attributes).toEqual({ title: "bars" });
  expect(Object.keys(root().consolidated_metadata.metadata)).toEqual(["a", "deep", "deep/b", "deep/c"]);
});

test.each(FORMATS)(
  "as %s: neither a source that has changed since nor what another program put at a place is replaced",
  async (to) => {
    await run({ to });
    const before = filesIn(at("out"));
    const array = await create(at("in/new"), { dtype: "float64" });
    await array.close();
    rmSync(at("in/a"), { recursive: true });
    cpSync(at("in/deep/c"), at("in/a"), { recursive: true });
    restore("deep/b");
    const ending = to === "parquet" ? ".parquet" : "";
    await convert(at("backup/deep/b"), at(`out/deep/b${ending}`), { to });
    const own = filesIn(at("out"));
    const result = await run({ to, resume: true });
    expect(result.entries.map(({ node, status, code }) => [node, status, code])).toEqual([
      ["a", "failed", "CONFLICT"],
      ["deep/b", "failed", "CONFLICT"],
      ["deep/c", "kept", undefined],
      ["new", "converted", undefined],
    ]);
    const after = filesIn(at("out"));
    for (const [name] of before)
      if (name !== "zarr.json" && !name.endsWith(RECORD))
        expect([name, after.get(name)]).toEqual([name, own.get(name)]);
  },
);

test("the summaries say what was kept, and with other options it begins again only when it is told to", async () => {
  const argv = ["convert", at("in"), at("out"), "--to", "bcolz"];
  await runCli(argv);
  const dry = await runCli([...argv, "--resume", "--dry-run"]);
  expect(dry.out.split("\n").map((line) => line.split(/\s+/)[1])).toEqual([
    "action",
    "keep",
    "refuse",
    "keep",
    undefined,
  ]);
  const other = await runCli(["convert", at("in"), at("out"), "--to", "blz", "--resume"]);
  expect([other.code, other.err]).toEqual([
    1,
    expect.stringContaining("made from another source, or with other options; --overwrite starts again"),
  ]);
  expect((await runCli(argv)).err).toMatch(/out\/a: the destination exists/);
  await runCli(["convert", at("in"), at("all.zarr")]);
  restore("deep/b");
  const { code, out } = await runCli(["convert", at("in"), at("all.zarr"), "--resume"]);
  expect([code, out]).toEqual([0, expect.stringMatching(/^1 archive converted, 2 kept of an earlier run: /)]);
});

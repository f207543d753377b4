/** The commands of docs/hdf5.md, on a file of PyTables. */
import { copyFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { open } from "../../src/node/index.ts";
import { runCli } from "../cli/harness.ts";
import { repositoryRoot } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";

test("every command in the guide runs", async () => {
  const folder = temporaryFolder();
  copyFileSync(join(repositoryRoot, "fixtures/hdf5/pytables.h5"), join(folder, "bars.h5"));
  const guide = readFileSync(join(repositoryRoot, "docs/hdf5.md"), "utf8");
  const commands = [...guide.matchAll(/^npx superchunk ([^#\n]+)/gm)].map(([, text = ""]) =>
    text.trim().split(/\s+/),
  );
  expect(commands.length).toBe(8);
  for (const words of commands) {
    const argv = words.map((word) => word.replace(/^(bars|daily|prices)\./, `${folder}/$1.`));
    const { code, err } = await runCli(argv);
    expect({ argv, code, err: code === 0 ? "" : err }).toEqual({ argv, code: 0, err: "" });
  }
  const [source, made] = [
    await open(join(folder, "bars.h5/prices")),
    await open(join(folder, "bars.zarr/prices")),
  ];
  if (source.kind !== "array" || made.kind !== "array") throw new Error("prices is an array");
  expect(await made.getBytes()).toEqual(await source.getBytes());
  const daily = join(folder, "bars.h5/bars/daily");
  const fields = await runCli([
    "cat",
    daily,
    "--column",
    "close",
    "--column",
    "day",
    "--head",
    "2",
    "--format",
    "csv",
  ]);
  expect(fields.out.split("\n").slice(0, 1)).toEqual(["close,day"]);
  const sliced = await runCli(["cat", daily, "--column", "close", "--slice", "2:4"]);
  expect(sliced.out).toBe("close\n    3\n  4.5\n");
  const lines = (await runCli(["ls", folder])).out;
  expect(lines).toMatch(/hdf5.*bars\.h5\/bars\/daily/);
});

test("a path that is not in the file is named, with what to do", async () => {
  const { code, err } = await runCli(["info", join(repositoryRoot, "fixtures/hdf5/pytables.h5/bars/weekly")]);
  expect(code).toBe(1);
  expect(err).toMatch(
    /pytables\.h5: the file has no group or dataset "bars\/weekly"; "superchunk ls" lists what it has/,
  );
});

test("info of a file with some unreadable datasets shows the others, and gives the reasons as warnings", async () => {
  const { code, out, err } = await runCli(["info", join(repositoryRoot, "fixtures/hdf5/h5py-latest.h5")]);
  expect({ code, err }).toEqual({ code: 0, err: "" });
  expect(out).toMatch(/^warning +.*h5py-latest\.h5\/virtual: a virtual dataset/m);
  expect(out).toMatch(/^warning +.*elsewhere: it is a link to another file/m);
  expect(out).toMatch(/^g\/blosc-lz4 +<f8 +50 x 50 +12 +lz4 shuffle/m);
  // A struct is shown in one word there.
  expect(out).toMatch(/^table +struct\(4\) +50 /m);
});

test("convert gives the reason for a dataset that it cannot read, as cat does", async () => {
  const dataset = join(repositoryRoot, "fixtures/hdf5/h5py-latest.h5/virtual");
  const reason = (await runCli(["cat", dataset])).err;
  expect(reason).toContain("a virtual dataset");
  for (const target of ["virtual.zarr", "virtual.parquet"]) {
    const { code, err } = await runCli(["convert", dataset, join(temporaryFolder(), target)]);
    expect([code, err]).toEqual([1, reason]);
  }
});

/** The commands of docs/blosc2.md, on an array of python-blosc2. */
import { copyFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runCli } from "../cli/harness.ts";
import { repositoryRoot } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";

test("every command in the guide runs, and info describes the array", async () => {
  const folder = temporaryFolder();
  copyFileSync(join(repositoryRoot, "fixtures/blosc2/zstd.b2nd"), join(folder, "model.b2nd"));
  copyFileSync(join(repositoryRoot, "fixtures/blosc2-stores/tree.b2z"), join(folder, "store.b2z"));
  for (const name of ["table", "tables"])
    copyFileSync(join(repositoryRoot, `fixtures/blosc2-tables/${name}.b2z`), join(folder, `${name}.b2z`));
  const guide = readFileSync(join(repositoryRoot, "docs/blosc2.md"), "utf8");
  const commands = [...guide.matchAll(/^npx superchunk (.+)$/gm)].map(
    ([, text = ""]) => text.match(/"[^"]*"|\S+/g) ?? [],
  );
  expect(commands.map(([name]) => name)).toEqual([
    "info",
    "cat",
    "verify",
    "convert",
    "convert",
    "ls",
    "cat",
    "cat",
    "convert",
    "cat",
  ]);
  for (const words of commands) {
    const argv = words.map((word) =>
      word.replaceAll('"', "").replace(/^(model|again|store|tables?)\./, `${folder}/$1.`),
    );
    const { code, err, out } = await runCli(argv);
    expect({ argv, code, err: code === 0 ? "" : err }).toEqual({ argv, code: 0, err: "" });
    if (words[0] === "info") expect(out).toMatch(/dialect +blosc2[\s\S]*shards +8 of 20 x 30/);
  }
  const [before, after] = [
    await runCli(["cat", join(folder, "model.b2nd")]),
    await runCli(["cat", join(folder, "model.zarr")]),
  ];
  expect(after.out).toBe(before.out);
  expect((await runCli(["cat", join(folder, "again.b2nd")])).out).toBe(before.out);
  expect(before.out.length).toBeGreaterThan(1000);
});

test("a verb that would change a frame or an HDF5 file is refused, and says what can be done instead", async () => {
  const folder = temporaryFolder();
  for (const name of ["blosc2/cube.b2nd", "hdf5/pytables.h5"]) {
    const file = join(folder, name.replace(/.*\//, ""));
    copyFileSync(join(repositoryRoot, "fixtures", name), file);
    const before = readFileSync(file);
    const { code, err } = await runCli(["resize", file, "3"]);
    expect({ name, code }).toEqual({ name, code: 1 });
    expect(err).toMatch(
      /it is (?:an HDF5 file|a frame of Blosc2), which superchunk does not change: convert it, and change the copy/,
    );
    expect(readFileSync(file)).toEqual(before);
  }
});

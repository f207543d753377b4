/** HDF5 files and Blosc2 data over HTTP as Zarr v3: alone, in a folder, and by paths inside a file. */
import { copyFileSync, cpSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openArray, serveView } from "../../src/node/index.ts";
import { runCli } from "../cli/harness.ts";
import { repositoryRoot } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";

const fixtures = join(repositoryRoot, "fixtures");

async function sameValues(url: string, file: string): Promise<void> {
  const served = await openArray(url);
  const original = await openArray(file);
  expect({ url, shape: served.shape }).toEqual({ url, shape: original.shape });
  expect(await served.getBytes()).toEqual(await original.getBytes());
  await served.close();
  await original.close();
}

test.each([
  ["blosc2/lz4.b2nd", ""],
  ["blosc2/sparse.b2nd", ""],
  ["blosc2/plain.b2frame", ""],
  ["blosc2-stores/tree.b2z", "/a/x"],
  ["blosc2-stores/tree.b2d", "/a/x"],
  ["hdf5/pytables.h5", "/prices"],
  ["hdf5/blosc2.h5", "/two"],
])("%s is served as Zarr v3", async (name, inside) => {
  const path = join(fixtures, name);
  const served = await serveView([path]);
  try {
    expect(served.archives).toBe(1);
    await sameValues(`${served.url}${name.split("/").at(-1)}${inside}`, `${path}${inside}`);
    const [first, ...nodes] = await served.view.list();
    expect(first?.kind).toBe("group");
    expect(nodes.some(({ error }) => error === undefined)).toBe(true);
  } finally {
    await served.close();
  }
});

test("a path inside a file is served on its own", async () => {
  const path = join(fixtures, "hdf5/pytables.h5/bars");
  const served = await serveView([path]);
  await sameValues(`${served.url}bars/daily`, `${path}/daily`);
  await served.close();
});

test("a folder is served with its frames, files and archives, and names what cannot be read", async () => {
  const folder = temporaryFolder();
  mkdirSync(join(folder, "plans"));
  copyFileSync(join(fixtures, "blosc2/lz4.b2nd"), join(folder, "plans/case_000.b2nd"));
  copyFileSync(join(fixtures, "hdf5/h5py-latest.h5"), join(folder, "x.h5"));
  writeFileSync(join(folder, "plans/case_000.pkl"), "a pickle");
  cpSync(join(fixtures, "corpus/carray/bcolz-S5"), join(folder, "names"), { recursive: true });
  const served = await serveView([folder]);
  try {
    expect(served.archives).toBe(3);
    await sameValues(`${served.url}plans/case_000.b2nd`, join(folder, "plans/case_000.b2nd"));
    await sameValues(`${served.url}x.h5/g/blosc-lz4`, join(folder, "x.h5/g/blosc-lz4"));
    await sameValues(`${served.url}names`, join(folder, "names"));
    const refused = (await served.view.list("x.h5")).find(({ path }) => path.endsWith("virtual"));
    expect(refused?.error).toMatch(/a virtual dataset/);
    expect((await fetch(`${served.url}plans/case_000.pkl`)).status).toBe(404);
  } finally {
    await served.close();
  }
});

test("virtualize of a folder of frames says why it cannot refer to them", async () => {
  const folder = temporaryFolder();
  copyFileSync(join(fixtures, "blosc2/lz4.b2nd"), join(folder, "case_000.b2nd"));
  const { code, err } = await runCli(["virtualize", folder, join(folder, "out.json")]);
  expect(code).toBe(1);
  expect(err).toMatch(
    /frames and stores of Blosc2, but no archives: name the HDF5 files themselves, such as .*"superchunk convert" converts them to Zarr/,
  );
});

/**
 * HDF5 files by h5py and PyTables, with indexes of many chunks, and stores and tables by python-blosc2: their values here, and in zarr-python
 * after a conversion.
 */
import { createHash } from "node:crypto";
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { formatDType } from "../../src/index.ts";
import { convert, open, openArray } from "../../src/node/index.ts";
import { type FixtureDType, repositoryRoot } from "../fixtures/manifest.ts";
import { serveObjects } from "../store/server.ts";
import type { Suite, SuiteContext } from "./suite.ts";

/** Fields of structs that Zarr has no data type for, as arrays of their own. */
async function carryFields({ checks, folder, peer }: SuiteContext): Promise<void> {
  const path = join(folder, "structs");
  await mkdir(path);
  const from = join(repositoryRoot, "fixtures/structs/make.py");
  const [answer] = (await peer("recipes")?.read([{ path, from }])) ?? [];
  checks.equal("the recipe of the fixtures with structs runs", answer?.kind, "done");
  const fields = Object.entries(
    JSON.parse(await readFile(join(path, "fields.json"), "utf8")) as Readonly<
      Record<string, { readonly shape: readonly number[]; readonly sha256: string }>
    >,
    // Padding alone does not split a struct.
  ).filter(([name]) => !name.startsWith("padded"));
  const files = new Set(fields.map(([name]) => /^[^/]+/.exec(name)?.[0] ?? name));
  for (const file of files) await convert(join(path, file), join(folder, "fields", file), { verify: true });
  const jobs: { readonly path: string; readonly dtype: FixtureDType }[] = [];
  for (const [name] of fields) {
    const array = await openArray(join(folder, "fields", name));
    jobs.push({ path: join(folder, "fields", name), dtype: formatDType(array.dtype) as FixtureDType });
    await array.close();
  }
  const answers = (await peer("zarr-python")?.read(jobs)) ?? [];
  for (const [i, [name, expected]] of fields.entries()) {
    const found = answers[i];
    if (found !== undefined) checks.values(`${name}, a field, in zarr-python`, found, expected);
  }
}

/** Stores and C2 tables that python-blosc2 writes now: every array and column, here and as Zarr in zarr-python. */
async function readStores({ checks, folder, peer }: SuiteContext): Promise<void> {
  const jobs: { readonly path: string; readonly dtype: FixtureDType }[] = [];
  const expected: { readonly name: string; readonly shape: readonly number[]; readonly sha256: string }[] =
    [];
  for (const kind of ["blosc2-stores", "blosc2-tables"]) {
    const path = join(folder, kind);
    await mkdir(path);
    const from = join(repositoryRoot, "fixtures", kind, "make.py");
    const [answer] = (await peer("recipes")?.read([{ path, from }])) ?? [];
    checks.equal(`the recipe of ${kind} runs`, answer?.kind, "done");
    const values = JSON.parse(await readFile(join(path, "values.json"), "utf8")) as Readonly<
      Record<string, string | { readonly sha256: string }>
    >;
    for (const [name, value] of Object.entries(values)) {
      const sha256 = typeof value === "string" ? value : value.sha256;
      const array = await openArray(join(path, name));
      const bytes = await array.getBytes();
      const found = createHash("sha256").update(bytes).digest("hex");
      checks.equal(`${kind}/${name} has the values that were written`, found, sha256);
      const root = join(folder, "stores", kind, name);
      await convert(join(path, name), root, { verify: true });
      jobs.push({ path: root, dtype: formatDType(array.dtype) as FixtureDType });
      expected.push({ name: `${kind}/${name}`, shape: array.shape, sha256 });
      await array.close();
    }
  }
  const answers = (await peer("zarr-python")?.read(jobs)) ?? [];
  for (const [i, { name, ...wanted }] of expected.entries()) {
    const found = answers[i];
    if (found !== undefined) checks.values(`${name}, converted, in zarr-python`, found, wanted);
  }
}

/** Requests for a dataset whose index is much longer than what is read for an element. */
async function countRequests(checks: SuiteContext["checks"], path: string, key: string): Promise<void> {
  const [name = ""] = key.split("/");
  const server = await serveObjects([[name, await readFile(join(path, name))]]);
  try {
    const array = await openArray(`${server.url}/${key}`);
    const counts = [server.log.length];
    const middle = Math.floor((array.shape[0] ?? 0) / 2);
    for (const at of [middle, 0, 1]) {
      server.log.length = 0;
      await array.getBytes([at]);
      counts.push(server.log.length);
    }
    await array.close();
    const most = [6, 3, 3, 1];
    checks.equal(
      `${key} opens in at most 6 requests, and gives elements in 3, 3 and 1`,
      counts.every((count, i) => count <= (most[i] ?? 0)) || counts,
      true,
    );
  } finally {
    await server.close();
  }
}

export const hdf5: Suite = {
  name: "hdf5",
  peers: ["recipes", "zarr-python"],
  async run(context) {
    const { checks, folder, peer } = context;
    const writer = peer("recipes");
    if (writer === undefined) return;
    await carryFields(context);
    await readStores(context);
    await mkdir(join(folder, "files"));
    const path = join(folder, "files");
    const [answer] = await writer.read([{ path, from: join(repositoryRoot, "fixtures/hdf5/make.py") }]);
    checks.equal("the recipe of the HDF5 fixtures runs", answer?.kind, "done");
    const values = JSON.parse(await readFile(join(path, "values.json"), "utf8")) as Readonly<
      Record<string, { readonly shape: readonly number[]; readonly sha256: string }>
    >;
    const jobs: { readonly path: string; readonly dtype: FixtureDType; readonly key: string }[] = [];
    for (const [key, { shape, sha256 }] of Object.entries(values)) {
      const array = await open(join(path, key));
      if (array.kind !== "array" || !("model" in array)) {
        checks.fail(`${key} is an array`, array.kind);
        continue;
      }
      const sum = createHash("sha256")
        .update(await array.getBytes())
        .digest("hex");
      checks.equal(
        `${key} has the values that were written`,
        { shape: array.shape, sha256: sum },
        { shape, sha256 },
      );
      const { dtype, nchunks } = array;
      await array.close();
      if (nchunks > 2000) await countRequests(checks, path, key);
      // Zarr has no struct with a sub-array in it, and one folder for each of thousands of chunks would prove nothing
      // more.
      if (dtype.kind === "struct" || nchunks > 2000) continue;
      // Some names are too long for a folder.
      const root = join(folder, "zarr", String(jobs.length));
      await convert(join(path, key), root, { verify: true });
      jobs.push({ path: root, dtype: formatDType(dtype) as FixtureDType, key });
    }
    const answers = (await peer("zarr-python")?.read(jobs)) ?? [];
    for (const [i, { key }] of jobs.entries()) {
      const expected = values[key];
      const found = answers[i];
      if (expected !== undefined && found !== undefined)
        checks.values(`${key}, converted, in zarr-python`, found, expected);
    }
  },
};

/** The options of the functions that take a path: each function knows every option of its type. */
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import {
  type ConvertPathOptions,
  convert,
  type RepairPathOptions,
  repairArray,
} from "../../src/node/convert.ts";
import { type CreatePathOptions, create, type EditPathOptions, edit } from "../../src/node/edit.ts";
import { type OpenPathOptions, open, openArray } from "../../src/node/open.ts";
import { type PlanPathOptions, plan } from "../../src/node/plan.ts";
import type { ZarrArray } from "../../src/zarr/read/array.ts";
import { corpusFolder } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";

/** Every name of the options of a function. The compiler compares them with the type. */
type Names<Options> = Readonly<Record<keyof Options, 0>>;

const OPEN: Names<OpenPathOptions> = {
  allow: 0,
  authorize: 0,
  blosc: 0,
  cachedEntries: 0,
  columns: 0,
  concurrency: 0,
  containers: 0,
  credentials: 0,
  customCodecs: 0,
  damaged: 0,
  decoder: 0,
  directMemory: 0,
  immutable: 0,
  maxGap: 0,
  measureText: 0,
  onDamage: 0,
  openContainer: 0,
  openPlace: 0,
  signal: 0,
  threads: 0,
  verify: 0,
  workerUrl: 0,
};

const CONVERT: Names<ConvertPathOptions> = {
  allow: 0,
  blosc: 0,
  breakLock: 0,
  chunksPerShard: 0,
  columns: 0,
  concat: 0,
  damaged: 0,
  dimensionNames: 0,
  directMemory: 0,
  dtype: 0,
  encoder: 0,
  grid: 0,
  jobs: 0,
  onDamage: 0,
  onProgress: 0,
  onReceipt: 0,
  openPlace: 0,
  overwrite: 0,
  parquet: 0,
  portable: 0,
  recode: 0,
  resume: 0,
  shape: 0,
  shardSize: 0,
  signal: 0,
  skipFailed: 0,
  threads: 0,
  to: 0,
  verify: 0,
  verifyOnly: 0,
  workerUrl: 0,
};

const PLAN: Names<PlanPathOptions> = { ...CONVERT, command: 0, form: 0, holes: 0, output: 0, scan: 0 };

const REPAIR: Names<RepairPathOptions> = {
  allow: 0,
  breakLock: 0,
  chunklen: 0,
  discard: 0,
  dryRun: 0,
  dtype: 0,
  fill: 0,
  holes: 0,
  into: 0,
  onProgress: 0,
  openPlace: 0,
  order: 0,
  scan: 0,
  shape: 0,
  signal: 0,
};

const EDIT: Names<EditPathOptions & CreatePathOptions> = {
  allow: 0,
  attrs: 0,
  blosc: 0,
  breakLock: 0,
  cachedEntries: 0,
  checksum: 0,
  chunkLength: 0,
  chunkOrder: 0,
  chunkShape: 0,
  codecs: 0,
  columns: 0,
  compressor: 0,
  concurrency: 0,
  containers: 0,
  credentials: 0,
  customCodecs: 0,
  data: 0,
  decoder: 0,
  dimensionNames: 0,
  directMemory: 0,
  dtype: 0,
  encoder: 0,
  expectedLength: 0,
  fillValue: 0,
  format: 0,
  immutable: 0,
  kind: 0,
  lock: 0,
  looksAtAll: 0,
  maxGap: 0,
  maxUnused: 0,
  mirror: 0,
  mirrorCosts: 0,
  modify: 0,
  onProgress: 0,
  openContainer: 0,
  openPlace: 0,
  optimize: 0,
  overwrite: 0,
  ownPlaces: 0,
  placeAddress: 0,
  placeBy: 0,
  places: 0,
  publish: 0,
  readOnly: 0,
  redirects: 0,
  reserve: 0,
  shape: 0,
  shardShape: 0,
  shardWriter: 0,
  shared: 0,
  signal: 0,
  specification: 0,
  strategy: 0,
  superchunkLength: 0,
  threads: 0,
  workerUrl: 0,
  writeEmptyChunks: 0,
  zarr: 0,
};

test.each([
  ["open", OPEN, (path: string, options: never) => open(path, options)],
  ["convert", CONVERT, (path: string, options: never) => convert(path, "new", options)],
  ["plan", PLAN, (path: string, options: never) => plan(path, "new", options)],
  ["repairArray", REPAIR, (path: string, options: never) => repairArray(path, options)],
  ["edit", EDIT, (path: string, options: never) => edit(path, options)],
  ["create", EDIT, (path: string, options: never) => create(path, options)],
] as const)("%s knows each option of its type", async (_, names, call) => {
  const folder = temporaryFolder();
  for (const name of Object.keys(names)) {
    // None of them takes such a value, or finds anything to open or to convert.
    const message = await call(`${folder}/${name}`, { [name]: Symbol("none") } as never).then(
      () => "",
      (error: Error) => error.message,
    );
    expect(message).not.toMatch(/unknown option/);
  }
});

test("repairArray and plan refuse an option that they do not know, and change nothing", async () => {
  const slip = { dryrun: true } as object;
  for (const run of [repairArray("a", slip), plan("a", "new", slip)])
    await expect(run).rejects.toMatchObject({ code: "BAD_ARGUMENT", details: { field: "dryrun" } });
});

test.each([
  "bloscpack-3/array-f8.blp",
  "carray/bcolz-f8-chunks",
  "ctable/bcolz-daily-equities",
  "blz-superchunk/f8-default",
  "zarr3-sharded/zp-u2-2d-missing",
])("verify of %s refuses wrong values of its options", async (path) => {
  const archive = await open(`${corpusFolder}/${path}`);
  for (const [field, value] of [
    ["onProgress", 5],
    ["signal", 5],
  ] as const) {
    const verified = archive.verify({ [field]: value });
    await expect(verified).rejects.toMatchObject({ code: "BAD_ARGUMENT", details: { field } });
  }
  await archive.close();
});

test.each(["blz", "bcolz", "bloscpack", "zarr"] as const)(
  "%s: a wrong length is refused by its name",
  async (format) => {
    const path = `${temporaryFolder()}/x`;
    const names = format === "blz" ? ["chunkLength", "superchunkLength", "expectedLength"] : ["chunkLength"];
    for (const field of names)
      for (const value of [-1, 1.5, "5", field === "expectedLength" ? Number.NaN : 0]) {
        const options = { format, dtype: "<f8", [field]: value } as object;
        await expect(create(path, options)).rejects.toMatchObject({
          code: "BAD_ARGUMENT",
          message: expect.stringContaining(`${field} is ${value}, expected an integer from `),
          details: { field },
        });
      }
  },
);

test("openArray suggests its own options too", async () => {
  await expect(openArray("a", { colum: "x" } as never)).rejects.toThrow("did you mean column or columns?");
});

test("an address that lost a slash is not taken for a folder", async () => {
  for (const given of ["s3:/bucket/prices", "GS:/b/c.zarr", "https:/example.org/a.blp"]) {
    const meant = given.replace(":/", "://");
    for (const run of [open(given), convert("a", given), create(given, { dtype: "<i4" }), edit(given)])
      await expect(run).rejects.toMatchObject({
        code: "BAD_ARGUMENT",
        message: expect.stringContaining(`write ${meant}, or ./${given} for`) as string,
      });
  }
  await expect(open("./s3:/bucket/prices")).rejects.toMatchObject({ code: "NOT_FOUND" });
});

test("a file: address is the path that it names: its lock keeps out who gives the path", async () => {
  const path = `${temporaryFolder()}/with space`;
  const address = pathToFileURL(path);
  const first = await create(address.href, { dtype: "<i4", data: [1] });
  await expect(edit(path)).rejects.toMatchObject({ code: "CONFLICT" });
  await first.close();
  const again = await edit(address as never);
  await expect(edit(path)).rejects.toMatchObject({ code: "CONFLICT" });
  await again.close();
  await convert(address.href, `${address.href}.zarr`);
  expect((await (await openArray(`${path}.zarr`)).get()).data).toEqual(Int32Array.of(1));
  const message = expect.stringContaining("expected file:/// and an absolute path") as string;
  await expect(edit("file://host/a%2Fb")).rejects.toMatchObject({ code: "BAD_ARGUMENT", message });
});

async function all(parts: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of parts);
}

test("reading and listing chunks refuse unknown options and values of another type, in every format", async () => {
  const wrong: readonly (readonly [options: unknown, field: string])[] = [
    [{ reuse: "x" }, "reuse"],
    [3, "options"],
    [null, "options"],
    [{ signal: 3 }, "signal"],
    [{ onProgress: 3 }, "onProgress"],
  ];
  const formats = [
    {},
    { format: "blz", dtype: [["a", "<f8"]], data: [[1]] },
    { format: "bcolz" },
    { format: "zarr" },
  ];
  for (const format of formats) {
    const path = `${temporaryFolder()}/array`;
    const made = await create(path, {
      dtype: "<f8",
      data: new Float64Array(9).fill(1),
      chunkLength: 2,
      ...format,
    } as CreatePathOptions);
    await made.close();
    await using array = await openArray(path);
    const refused = async (field: string, work: () => Promise<unknown>): Promise<void> =>
      expect(Promise.resolve().then(work)).rejects.toMatchObject({
        code: "BAD_ARGUMENT",
        details: { field },
      });
    for (const [options, field] of [...wrong, [{ shared: "x" }, "shared"] as const])
      await refused(field, () => array.get(null, options as object));
    for (const [options, field] of [...wrong, [{ keep: "x" }, "keep"] as const])
      await refused(field, () => all(array.chunks(options as object)));
    expect(await array.getBytes(null, { shared: true })).toHaveLength(array.nbytes);
    const calls: readonly ((options: object) => Promise<unknown>)[] = [
      (options) => array.verify(options),
      (options) => array.storedBytes(options),
      (options) => array.summary(options),
      (options) => all(array.streamBytes(options)),
      (options) => array.oindex([[0]], options),
      (options) => array.vindex([[0]], options),
      ...("readBytes" in array
        ? [(options: object) => (array as object as ArrayArchive).readBytes(0, 8, options)]
        : []),
      ...("readInto" in array
        ? [(options: object) => (array as object as ZarrArray).readInto(new Float64Array(9), null, options)]
        : []),
      ...("refresh" in array
        ? [(options: object) => (array as object as Required<ArrayArchive>).refresh(options)]
        : []),
    ];
    for (const [options, field] of [...wrong, [AbortSignal.abort(), "options"] as const])
      for (const call of calls) await refused(field, () => call(options as object));
    if ("dtype" in format) continue; // the chunks are those of its columns
    const indices: number[] = [];
    for await (const { index } of array.listChunks({ first: 1, end: 3 })) indices.push(index);
    expect(indices).toEqual([1, 2]);
    for (const [options, field] of [
      ...wrong,
      [{ first: "x" }, "first"] as const,
      [{ end: -1 }, "end"] as const,
    ])
      await refused(field, () => all(array.listChunks(options as object)));
  }
});

test("every change refuses unknown options and values of another type, and one that is aborted already, in every format", async () => {
  const reason = new Error("enough");
  for (const format of ["blz", "bcolz", "bloscpack", "zarr"] as const) {
    await using array = await create(`${temporaryFolder()}/array`, { format, dtype: "<f8", data: [1, 2, 3] });
    const changes: readonly ((options: object) => Promise<unknown>)[] = [
      (options) => array.append([4], options),
      (options) => array.set([0], 9, options),
      (options) => array.resize(2, options),
      (options) => array.deleteRows(2, 3, options),
      ...(format === "bcolz" ? [] : [(options: object) => array.compact({}, options)]),
    ];
    for (const change of changes) {
      for (const [options, field] of [
        [{ sginal: 1 }, "sginal"],
        [{ signal: 1 }, "signal"],
        [{ onProgress: true }, "onProgress"],
        [null, "options"],
        [new AbortController().signal, "options"],
      ] as [object, string][])
        await expect(change(options)).rejects.toMatchObject({ code: "BAD_ARGUMENT", details: { field } });
      await expect(change({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    }
    await expect(array.compact({ codec: "zstd" } as object)).rejects.toMatchObject({
      code: format === "bcolz" ? "UNSUPPORTED" : "BAD_ARGUMENT",
    });
    expect((await array.get()).data).toEqual(Float64Array.of(1, 2, 3));
  }
});

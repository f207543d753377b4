/** The options of the functions that take a path, of reads and of changes. */
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { convert, repairArray } from "../../src/node/convert.ts";
import { type CreatePathOptions, create, edit } from "../../src/node/edit.ts";
import { open, openArray } from "../../src/node/open.ts";
import { plan } from "../../src/node/plan.ts";
import type { ZarrArray } from "../../src/zarr/read/array.ts";
import { corpusFolder } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";

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

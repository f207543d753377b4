/** Plans of references and of repairs: shares make the same as one process, and killed or duplicated work does no harm. */
import { appendFile, cp, mkdir, open, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { extname, join, resolve } from "node:path";
import { expect, it } from "vitest";
import { create, finish, openArray, plan, planStatus, runTasks, virtualize } from "../../src/node/index.ts";
import { runCli } from "../cli/harness.ts";
import { corpusFolder } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";

const SOUND = ["ctable/bcolz-daily-equities", "carray/bcolz-f8-chunks", "carray/blz-f8"];

/** A folder with archives of several kinds; with `damaged` the middle of two of them is overwritten. */
async function makeTree(damaged: boolean): Promise<{ readonly folder: string; readonly data: string }> {
  const folder = temporaryFolder();
  const data = join(folder, "data");
  for (const name of SOUND) await cp(join(corpusFolder, name), join(data, name), { recursive: true });
  const names = damaged ? ["sound.blp", "damaged.blp", "cut.blp"] : ["sound.blp"];
  for (const name of names) await cp(join(corpusFolder, "bloscpack-3", "array-f8.blp"), join(data, name));
  for (const name of names.slice(1)) {
    const file = await open(join(data, name), "r+");
    const { size } = await file.stat();
    if (name === "cut.blp") await file.truncate(Math.floor(size / 2));
    else await file.write("damage", Math.floor(size / 2));
    await file.close();
  }
  return { folder, data };
}

/** Every file below a folder, with its bytes. */
async function filesOf(folder: string): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true }))
    if (entry.isFile()) {
      const path = join(entry.parentPath, entry.name);
      found.set(path.slice(folder.length), await readFile(path, "latin1"));
    }
  return found;
}

it.each([
  ["kerchunk", ".json"],
  ["kerchunk-parquet", ".parq"],
] as const)(
  "references as %s, planned and run in shares, match one virtualize byte for byte",
  async (form, ending) => {
    const { folder, data } = await makeTree(false);
    // Columns of one size, in chunks of one length.
    const pair = [
      ["a", "<i4"],
      ["b", "<i4"],
    ] as const;
    const nested = await create(join(data, "nested"), { dtype: pair, chunkLength: 20 });
    await nested.append(
      new Uint8Array(Int32Array.from({ length: 200 }, (_, i) => i * (i % 2 === 0 ? 1 : -1)).buffer),
    );
    await nested.close();
    const straight = join(folder, `straight${ending}`);
    const shared = join(folder, `shared${ending}`);
    const wanted = await virtualize(data, straight, { to: form });
    const made = await plan(data, shared, { command: "virtualize", form });
    await runTasks(made, { share: { k: 1, n: 2 } });
    await expect(finish(made)).rejects.toMatchObject({ code: "INCOMPLETE" });
    await runTasks(made, { share: { k: 2, n: 2 } });
    // A share that runs again has nothing to do, and one that has lost its receipts does the same again.
    expect((await runTasks(made)).kept).toBe((await planStatus(made)).units);
    const ended = await finish(made);
    expect(ended?.references).toMatchObject({ arrays: wanted.arrays, virtual: wanted.virtual, failures: [] });
    expect(await finish(made)).toBeUndefined();
    const bytes = async (path: string): Promise<unknown> =>
      form === "kerchunk" ? readFile(path, "utf8") : [...(await filesOf(path))];
    expect(await bytes(shared)).toEqual(await bytes(straight));
    expect((await readdir(folder)).filter((name) => name.startsWith("."))).toEqual([]);
  },
);

it("references to an archive that changed or went after its chunks were listed are not written, and it is named", async () => {
  const { folder, data } = await makeTree(false);
  const made = await plan(data, join(folder, "refs.json"), { command: "virtualize", form: "kerchunk" });
  await runTasks(made);
  const changed = join(data, "sound.blp");
  await appendFile(changed, "more");
  const { path: gone = "" } = made.sources.find(({ path }) => path !== changed) ?? {};
  await rm(gone, { recursive: true });
  const ended = await finish(made);
  expect(ended?.references?.failures).toMatchObject([
    { path: changed, code: "STALE" },
    { path: gone, code: "NOT_FOUND" },
  ]);
});

it("finish takes the chunks from the lists, and compares some with the archives", async () => {
  const { folder, data } = await makeTree(false);
  const made = await plan(join(data, "sound.blp"), join(folder, "refs.json"), {
    ...{ command: "virtualize", form: "kerchunk" },
  });
  await runTasks(made);
  const list = join(folder, ".refs.json.superchunk", "chunks", "0.json");
  const text = await readFile(list, "utf8");
  const { arrays } = JSON.parse(text) as {
    readonly arrays: Readonly<Record<string, { readonly chunks: number[][] }>>;
  };
  const [[, ...first] = []] = Object.values(arrays)[0]?.chunks ?? [];
  expect(text.split(JSON.stringify(first).slice(1, -1))).toHaveLength(2);
  await writeFile(
    list,
    text.replace(
      JSON.stringify(first).slice(1, -1),
      JSON.stringify(first.map((value, i) => (i === 1 ? value + 1 : value))).slice(1, -1),
    ),
  );
  await expect(finish(made)).rejects.toThrow();
});

it("repairs in shares write copies of damaged archives only, with a report; a second run gives the same", async () => {
  const { folder, data } = await makeTree(true);
  const at = (name: string): string => join(folder, name);
  const args = [
    "plan",
    data,
    at("saved"),
    "-o",
    at("plan.json"),
    "--for",
    "repair",
    "--holes",
    "fill",
    "--scan",
  ];
  expect((await runCli(args)).code).toBe(0);
  for (const task of ["1/2", "2/2"])
    expect((await runCli(["run", at("plan.json"), "--task", task])).code).toBe(0);
  const ended = await runCli(["finish", at("plan.json")]);
  expect(ended.code).toBe(3);
  expect(ended.out).toMatch(
    /damaged\.blp: [\d,]+ of [\d,]+ rows are in \S+, [\d,]+ hold a fill value instead; the report/,
  );
  expect(ended.out).toMatch(/6 archives: 4 whole, 2 repaired/);
  expect((await readdir(at("saved"))).sort()).toEqual(["cut.blp", "damaged.blp", "repair.jsonl"]);
  // What `repair` makes of the same archive.
  await mkdir(at("one"));
  const one = await runCli(["repair", join(data, "damaged.blp"), at("one/damaged.blp"), "--holes", "fill"]);
  expect(one.code).toBe(3);
  const valuesOf = async (path: string): Promise<unknown> => (await openArray(path)).get();
  expect(await valuesOf(at("saved/damaged.blp"))).toEqual(await valuesOf(at("one/damaged.blp")));
  expect((await runCli(["verify", at("saved")])).code).toBe(0);
  expect((await readdir(folder)).filter((name) => name.startsWith("."))).toEqual([]);
  // A second run reports the same.
  const again = await runCli(["finish", at("plan.json")]);
  expect([again.code, again.out]).toEqual([3, ended.out]);
});

// Windows has no such names, and needs a privilege for links.
it.skipIf(process.platform === "win32")(
  "one archive that cannot be examined keeps no other from being planned, and is in the report",
  async () => {
    const { folder, data } = await makeTree(false);
    await writeFile(join(data, "back\\slash.blp"), "");
    await mkdir(join(data, "looping/meta"), { recursive: true });
    await symlink("sizes", join(data, "looping/meta/sizes"));
    for (const command of ["verify", "repair"] as const) {
      const made = await plan(data, join(folder, command), { command });
      await runTasks(made);
      const { report = [] } = (await finish(made)) ?? {};
      const failed = report.filter(({ error }) => error !== undefined);
      expect(failed).toMatchObject([
        {
          path: join(data, "back\\slash.blp"),
          error: { message: expect.stringContaining("backslash") as string },
        },
        { path: join(data, "looping"), error: { code: "UNSAFE_PATH" } },
      ]);
      expect(report).toHaveLength(SOUND.length + 1 + failed.length);
    }
  },
);

it("without --holes, damaged archives are named and not repaired", async () => {
  const { folder, data } = await makeTree(true);
  const made = await plan(data, join(folder, "saved"), { command: "repair" });
  await runTasks(made);
  const { report = [] } = (await finish(made)) ?? {};
  const found = report.map(({ path, status }) => [String(path).slice(data.length + 1), status]);
  expect(Object.fromEntries(found)).toMatchObject({
    "sound.blp": "whole",
    "damaged.blp": "refused",
    "cut.blp": "refused",
  });
  expect(await readdir(join(folder, "saved"))).toEqual(["repair.jsonl"]);
});

it("undamaged Blosc2 and HDF5 files are whole, and damaged ones are named with what to do; status says it in the command's words", async () => {
  const folder = temporaryFolder();
  const at = (name: string): string => join(folder, name);
  const files = ["blosc2/lz4hc.b2nd", "hdf5/attributes.h5"].map((name) => join(corpusFolder, "..", name));
  await mkdir(at("data"));
  for (const [i, file] of files.entries()) await cp(file, at(`data/whole${i}${extname(file)}`));
  const bytes = await readFile(files[0] ?? "");
  for (let i = 0; i < 22; i++) await writeFile(at(`data/cut${i}.b2nd`), bytes.subarray(0, bytes.length - 40));
  const planned = await runCli(["plan", at("data"), at("saved"), "-o", at("plan"), "--for", "repair"]);
  expect(planned).toMatchObject({ code: 0, err: expect.stringContaining("plan again with --holes fill") });
  await runCli(["run", at("plan")]);
  const { out } = await runCli(["status", at("plan")]);
  expect(out).toContain("convert them with --damaged fill");
  expect(out).toContain("and 2 more failed: --json lists them");
  expect((await runCli(["finish", at("plan")])).out).toContain("24 archives: 2 whole, 0 repaired, 22 failed");
});

it("arrays of older Zarr hierarchies that are whole are so in a plan to repair; damaged ones are named with what is damaged", async () => {
  const folder = temporaryFolder();
  const at = (name: string): string => join(folder, name);
  for (const name of ["bad", "cut", "lost", "old"])
    await cp(join(corpusFolder, "zarr3-transformer", "i4-1d"), at(`data/${name}`), { recursive: true });
  const document = (name: string): string => at(`data/${name}/meta/root/arr.array.json`);
  await writeFile(document("bad"), "{");
  await writeFile(at("data/cut/data/root/arr/c0"), "cut");
  await rm(document("lost"));
  await cp(join(corpusFolder, "carray", "bcolz-bool"), at("data/bool"), { recursive: true });
  const made = await plan(at("data"), at("saved"), { command: "repair", output: at("plan.json") });
  await runTasks(made);
  const { report = [] } = (await finish(made)) ?? {};
  expect(report).toMatchObject([
    {
      path: at("data/bad/arr"),
      ok: false,
      error: { code: "TRUNCATED", message: expect.stringContaining(document("bad")) },
    },
    { path: at("data/bool"), status: "whole" },
    { path: at("data/cut/arr"), ok: false, error: { code: "UNSUPPORTED" } },
    {
      path: at("data/lost/arr"),
      ok: false,
      error: { code: "INCOMPLETE", message: expect.stringContaining(document("lost")) },
    },
    { path: at("data/old/arr"), status: "whole", rows: 500 },
  ]);
  const { code, out, err } = await runCli(["finish", at("plan.json")]);
  expect([code, out + err]).toEqual([3, expect.stringContaining("is repaired with its hierarchy")]);
  const alone = await runCli(["repair", at("data/bad/arr"), at("alone")]);
  expect(alone).toMatchObject({ code: 3, err: expect.stringContaining(document("bad")) });
});

it("a plan contains no signed address, and gives what it allows as absolute paths", async () => {
  const { folder, data } = await makeTree(false);
  const from = join(data, "sound.blp");
  const allow = ["az://container/?sv=2024&sig=secret"];
  await expect(plan(from, join(folder, "a.zarr"), { allow })).rejects.toMatchObject({
    code: "BAD_ARGUMENT",
    message: expect.not.stringContaining("secret"),
  });
  const made = await plan(from, join(folder, "a.zarr"), { allow: ["places"] });
  expect(made.options).toMatchObject({ allow: [resolve("places")] });
});

it("options of another job are refused", async () => {
  const { folder, data } = await makeTree(false);
  const start = ["plan", data, join(folder, "out"), "-o", join(folder, "plan.json")];
  for (const [wrong, word] of [
    [["--for", "virtualize", "--holes", "fill"], "--holes is not for --for virtualize"],
    [["--for", "repair", "--portable"], "--portable is not for --for repair"],
    [["--holes", "fill"], "--holes is for --for repair"],
    [["--scan"], "--scan is for --for repair"],
  ] as const)
    expect(await runCli([...start, ...wrong])).toMatchObject({
      code: 2,
      err: expect.stringContaining(word),
    });
});

it("an HDF5 file named directly is one source of references; what finish would refuse is not planned", async () => {
  const { folder, data } = await makeTree(false);
  const at = (name: string): string => join(folder, name);
  await cp(join(corpusFolder, "..", "hdf5", "h5py-latest.h5"), at("held.h5"));
  await mkdir(at("only"));
  await cp(at("held.h5"), at("only/held.h5"));
  await cp(join(corpusFolder, "..", "blosc2", "cube.b2nd"), at("a.b2nd"));
  const how = { command: "virtualize", form: "kerchunk" } as const;
  const sources = [at("held.h5"), join(data, "sound.blp")];
  const wanted = await virtualize(sources, at("straight.json"), { to: "kerchunk" });
  const made = await plan(sources, at("shared.json"), how);
  for (const k of [2, 1]) await runTasks(made, { share: { k, n: 2 } });
  expect((await finish(made))?.references?.failures).toEqual(wanted.failures);
  expect(await readFile(at("shared.json"), "utf8")).toBe(await readFile(at("straight.json"), "utf8"));
  for (const [refused, code] of [
    [[at("only")], "NOT_FOUND"],
    [[at("a.b2nd")], "UNSUPPORTED"],
    [[at("held.h5"), at("only/held.h5")], "BAD_ARGUMENT"],
  ] as const)
    await expect(plan(refused, at("refused.json"), how)).rejects.toMatchObject({ code });
  // Copies have the names of their archives.
  await cp(at("data"), at("other/data"), { recursive: true });
  await expect(
    plan([data, at("other/data")], at("saved"), { command: "repair", holes: "fill" }),
  ).rejects.toMatchObject({ code: "BAD_ARGUMENT" });
});

/** `superchunk virtualize` as typed: what it prints, what it refuses, and what can be read afterwards. */
import { cp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { openReferences } from "../../src/node/references.ts";
import { runCli } from "../cli/harness.ts";
import { sha256 } from "../convert/to-zarr/read-back.ts";
import { corpusFolder, findFixture } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";
import { documentOf, readThroughView } from "../view/read-view.ts";

const array = join(corpusFolder, "bloscpack-3", "array-i4-2d.blp");
const table = join(corpusFolder, "ctable", "bcolz-daily-equities");
let folder = "";

beforeAll(async () => {
  folder = temporaryFolder();
});
describe("superchunk virtualize", () => {
  it("writes a set that opens with the printed container's name, and has the producer's values", async () => {
    const set = join(folder, "table.json");
    const { code, out } = await runCli(["virtualize", table, set, "--to", "kerchunk", "--json"]);
    expect(code).toBe(0);
    const result = JSON.parse(out) as { containers: { name: string; prefix: string }[]; arrays: number };
    expect(result).toMatchObject({ arrays: 7, virtual: 21, padded: 7, sampled: 21, form: "kerchunk" });
    expect(result.containers).toEqual([{ name: "local", prefix: `file://${table}/`, store: "local" }]);
    const store = await openReferences(set, { authorize: ["local"] });
    const fixture = findFixture("ctable/bcolz-daily-equities");
    if (fixture.kind !== "table") throw new Error("no table");
    for (const name of fixture.names) {
      const column = fixture.columns[name];
      expect(sha256(await readThroughView(store, name, column?.dtype ?? null))).toBe(column?.sha256);
    }
    await store.close();
    const read = await runCli(["cat", join(set, "close"), "--allow", table, "--head", "1"]);
    expect(read.out).toBe("51654\n");
    const { code: missing, err } = await runCli(["cat", join(set, "bcolz/close"), "--allow", table]);
    expect([missing, err]).toEqual([1, expect.stringContaining('has no array or group "bcolz/close"')]);
  });

  it("names the set, if a document in it is damaged", async () => {
    const set = join(folder, "cut.json");
    expect((await runCli(["virtualize", table, set, "--to", "kerchunk"])).code).toBe(0);
    const stored = JSON.parse(await readFile(set, "utf8")) as { refs: Record<string, unknown> };
    stored.refs["close/zarr.json"] = String(stored.refs["close/zarr.json"]).slice(0, 50);
    await writeFile(set, JSON.stringify(stored));
    const { code, err } = await runCli(["cat", join(set, "close"), "--allow", table]);
    expect([code, err]).toEqual([3, expect.stringContaining(`${set}/close/zarr.json: not JSON at byte 50`)]);
  });

  it("gives an array its own name, names for its dimensions, and Zarr v2 if requested", async () => {
    const set = join(folder, "array.json");
    const args = ["virtualize", array, set, "--to", "kerchunk"];
    expect((await runCli(args)).code).toBe(0);
    const store = await openReferences(set, { authorize: ["local"] });
    const document = await documentOf(store, "array-i4-2d");
    expect(document["dimension_names"]).toEqual(["dim_0", "dim_1"]);
    await store.close();
    expect((await runCli(args)).code).toBe(1);
    expect((await runCli([...args, "--overwrite", "--zarr-format", "2"])).code).toBe(0);
    const refs = (JSON.parse(await readFile(set, "utf8")) as { refs: Record<string, unknown> }).refs;
    const zarray = JSON.parse(String(refs["array-i4-2d/.zarray"])) as object;
    expect(zarray).toMatchObject({ zarr_format: 2, dtype: "<i4", order: "C", fill_value: null });
    expect(refs["array-i4-2d/zarr.json"]).toBeUndefined();
  });

  it("names the dimensions of several arrays with their lengths, so that all of them open as one tree", async () => {
    const several = join(folder, "several");
    await cp(join(corpusFolder, "carray", "bcolz-f8-chunks"), join(several, "a"), { recursive: true });
    await cp(array, join(several, "deep", "b.blp"));
    const set = join(folder, "several.json");
    expect((await runCli(["virtualize", several, set, "--to", "kerchunk"])).code).toBe(0);
    const { refs } = JSON.parse(await readFile(set, "utf8")) as { refs: Record<string, string> };
    const names = Object.entries(refs).flatMap(([key, text]) => {
      const document = /zarr\.json$/.test(key) ? (JSON.parse(text) as Record<string, unknown>) : {};
      return document["dimension_names"] === undefined ? [] : [document["dimension_names"]];
    });
    const shapes = ["carray/bcolz-f8-chunks", "bloscpack-3/array-i4-2d.blp"].map(
      (path) => findFixture(path).shape,
    );
    expect(names).toEqual(shapes.map((shape) => shape.map((length, axis) => `dim_${axis}_${length}`)));
  });

  it("ends with 3 if a data file is missing, as the list of chunks does", async () => {
    const lossy = join(folder, "lossy");
    await cp(join(corpusFolder, "carray", "bcolz-f8-chunks"), lossy, { recursive: true });
    await rm(join(lossy, "data", "__1.blp"));
    for (const args of [
      ["chunks", lossy],
      ["virtualize", lossy, join(folder, "lossy.json"), "--to", "kerchunk"],
    ]) {
      const { code, err } = await runCli(args);
      expect([args[0], code]).toEqual([args[0], 3]);
      expect(err).toContain("__1.blp: chunk 1: the file is missing");
    }
  });

  it("writes Parquet that reads back, chunk by chunk", async () => {
    const set = join(folder, "table.parq");
    const same = join(folder, "same-table.json");
    for (const [place, form] of [
      [set, "kerchunk-parquet"],
      [same, "kerchunk"],
    ] as const)
      expect((await runCli(["virtualize", table, place, "--to", form])).code).toBe(0);
    const parquet = await openReferences(set, { authorize: ["local"] });
    const json = await openReferences(same, { authorize: ["local"] });
    const chunks = await Promise.all([0, 1, 2, 3].map((i) => parquet.get(`/close/${i}`)));
    expect(chunks).toEqual(await Promise.all([0, 1, 2, 3].map((i) => json.get(`/close/c/${i}`))));
    expect(chunks.every((chunk) => chunk !== undefined)).toBe(true);
    expect(await parquet.get("/close/4")).toBeUndefined();
    await Promise.all([parquet.close(), json.close()]);
  });

  it("stores small chunks with the references if requested, and says that nothing is guarded", async () => {
    const set = join(folder, "inline.json");
    const args = ["virtualize", table, set, "--to", "kerchunk", "--inline", "1MiB", "--no-guard"];
    const { code, out, err } = await runCli(args);
    expect(code).toBe(0);
    expect(out).toContain("7 arrays: 0 references, 28 chunks stored beside them");
    expect(err).toContain("without guards, a reader does not notice");
    expect(await readFile(set, "utf8")).not.toContain('"guards"');
  });

  it.each<[string, readonly string[]]>([
    ["a Zarr version that the form does not have", ["--to", "kerchunk-parquet", "--zarr-format", "3"]],
    ["a rectilinear grid in Zarr v2", ["--to", "kerchunk", "--zarr-format", "2", "--grid", "rectilinear"]],
    ["an overwritten Icechunk repository", ["--to", "icechunk", "--overwrite"]],
  ])("refuses %s as wrong usage", async (_, flags) => {
    expect((await runCli(["virtualize", array, join(folder, "x"), ...flags])).code).toBe(2);
  });

  it("refuses what convert would have to recompress, and writes nothing", async () => {
    const source = join(corpusFolder, "carray", "bcolz-i4-snappy");
    const set = join(folder, "snappy.json");
    const { code, err } = await runCli(["virtualize", source, set, "--to", "kerchunk"]);
    expect(code).toBe(1);
    expect(err).toContain("cannot be referenced as they are");
    await expect(readFile(set)).rejects.toThrow("ENOENT");
  });

  it("infers the format from the destination's extension", async () => {
    expect((await runCli(["virtualize", table, join(folder, "named.json")])).code).toBe(0);
    expect((await runCli(["virtualize", table, join(folder, "named.parq")])).code).toBe(0);
    expect(await readdir(join(folder, "named.parq"))).toContain(".zmetadata");
    expect(await readFile(join(folder, "named.json"), "utf8")).toContain('"refs"');
  });
});

describe.each(["read.json", "read.parq"])(
  "a set of references (%s) is an archive to the other commands",
  (name) => {
    const allow = ["--allow", table];
    const run = async (command: string, ...args: string[]) => {
      const { code, out, err } = await runCli([command, ...args]);
      return { code, out, err };
    };
    let set = "";

    beforeAll(async () => {
      set = join(folder, name);
      expect((await runCli(["virtualize", table, set])).code).toBe(0);
    });

    it("is shown, listed, printed and verified once its container is allowed", async () => {
      // What a set itself says needs no access to the objects.
      for (const facts of [await run("info", set), await run("info", set, ...allow)])
        expect(facts.out).toMatch(/rows +226\n(?:.*\n)*close +<u4 +226 +4 /);
      expect((await run("ls", set)).code).toBe(0);
      expect(await run("cat", set)).toMatchObject({ code: 1, out: "" });
      const listed = JSON.parse((await run("ls", set, "--json", ...allow)).out) as { path: string }[];
      expect(listed.map(({ path }) => path)).toContain(join(set, "close"));
      const wanted = (await run("cat", table, "--format", "csv")).out;
      const columns = (wanted.split(/\r?\n/)[0] ?? "").split(",");
      const picked = columns.flatMap((column) => ["--column", column]);
      expect((await run("cat", set, "--format", "csv", ...picked, ...allow)).out).toBe(wanted);
      expect((await run("verify", set, ...allow)).out).toContain("7 archives: 7 ok, 28 chunks");
      expect((await run("chunks", join(set, "close"), "--json", ...allow)).code).toBe(0);
      expect((await run("cat", join(set, "close"), ...allow)).out).toBe(
        (await run("cat", table, "--column", "close")).out,
      );
    });

    it("is converted to what the archive itself is converted to", async () => {
      const copy = join(folder, `${name}.npy`);
      expect((await run("convert", join(set, "close"), copy, ...allow)).code).toBe(0);
      const straight = join(folder, `${name}-straight.npy`);
      expect((await run("convert", join(table, "close"), straight)).code).toBe(0);
      expect(await readFile(copy)).toEqual(await readFile(straight));
    });

    it("gives access to archives deeper in it, of a tree of archives", async () => {
      const tree = join(folder, `tree-${name}-source`);
      await cp(table, join(tree, "us", "equities"), { recursive: true });
      await cp(array, join(tree, "us", "b.blp"));
      const deep = join(folder, `tree-${name}`);
      expect((await run("virtualize", tree, deep)).code).toBe(0);
      const wanted = (await run("cat", table, "--column", "close")).out;
      const inTree = ["--allow", tree];
      expect((await run("cat", join(deep, "us", "equities", "close"), ...inTree)).out).toBe(wanted);
      expect((await run("cat", join(deep, "us", "equities"), "--column", "close", ...inTree)).out).toBe(
        wanted,
      );
      expect((await run("info", join(deep, "us", "equities", "close"), ...inTree)).out).toMatch(/shape +226/);
      const listed = JSON.parse((await run("ls", join(deep, "us"), "--json", ...inTree)).out) as unknown[];
      expect(listed).toHaveLength(10);
      const { code, err } = await run("cat", join(deep, "us", "nothing"), ...inTree);
      expect([code, err]).toEqual([1, expect.stringContaining('has no array or group "us/nothing"')]);
    });

    it("is refused, not reported as damaged, if its container is not allowed", async () => {
      const cat = await run("cat", set);
      expect(cat.code).toBe(1);
      expect(cat.err).toContain("open them with --allow");
      expect(cat.err).not.toContain("{allow");
      const verified = await run("verify", set);
      expect(verified.code).toBe(1);
      expect(verified.out).toContain("7 not readable");
    });
  },
);

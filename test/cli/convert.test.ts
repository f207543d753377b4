/** `convert` as a user runs it; the tests of the bridge and the readers check what Zarr readers make of the result. */
import { cpSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { Interruption } from "../../cli/failure.ts";
import { corpusFolder, loadArchives } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";
import { runCli } from "./harness.ts";

let folder: string;

beforeEach(() => {
  folder = temporaryFolder();
});

const corpus = (path: string): string => join(corpusFolder, ...path.split("/"));
const readJson = (...parts: string[]) => JSON.parse(readFileSync(join(folder, ...parts), "utf8"));

const LINE =
  /^\d+ chunks? copied, (\d+ padded, )?\d+ recoded, [\d,]+ bytes( \([^)]+\))?, \d+ shards?, (\d+\.\d\d seconds|\d+ ms)(, verified)?\n$/;

describe("one archive", () => {
  it.each(["zarr", "parquet", "bcolz"])(
    "to %s says which rows of which column a repair filled",
    async (to) => {
      const at = (name: string): string => join(folder, name);
      cpSync(corpus("ctable/bcolz-daily-equities"), at("bars"), { recursive: true });
      writeFileSync(at("bars/close/data/__0.blp"), "");
      expect((await runCli(["repair", at("bars"), at("saved"), "--holes", "fill"])).code).toBe(3);
      const { code, err } = await runCli(["convert", at("saved"), at("out"), "--to", to]);
      expect([code, err]).toEqual([
        0,
        expect.stringMatching(/note: column close: rows 0 to \d+ hold a fill value/),
      ]);
    },
  );

  it.each(loadArchives().filter((fixture) => !fixture.refuse))(
    "$path is converted, read back, and ends with one line",
    async ({ file }) => {
      const { code, out } = await runCli(["convert", file, join(folder, "out.zarr"), "--verify"]);
      expect(code).toBe(0);
      expect(out).toMatch(LINE);
      expect(readJson("out.zarr", "zarr.json").zarr_format).toBe(3);
      expect(readdirSync(join(folder, "out.zarr"))).not.toContain(".superchunk-convert.json");
    },
  );

  it("a name that chooses another format is refused in a Zarr group, unless the format is given", async () => {
    const [source, group] = [corpus("bloscpack-3/array-f8.blp"), join(folder, "all.zarr")];
    await runCli(["convert", corpus("ctable/bcolz-daily-equities"), group]);
    const { code, err } = await runCli(["convert", source, join(group, "a.blp")]);
    expect([code, err]).toEqual([2, expect.stringContaining("give --to zarr for a member of the group")]);
    expect(existsSync(join(group, "a.blp"))).toBe(false);
    for (const [name, to] of [
      ["a.blp", "zarr"],
      ["b.blp", "bloscpack"],
    ] as const)
      expect((await runCli(["convert", source, join(group, name), "--to", to])).code).toBe(0);
    expect(existsSync(join(group, "a.blp/zarr.json"))).toBe(true);
  });

  it.each([
    ["blz-superchunk/aborted", 3, "INCOMPLETE"],
    ["carray/bcolz-object", 1, "UNSUPPORTED"],
  ])("%s is refused with exit code %d, and nothing looks complete", async (path, exit, reason) => {
    const report = join(folder, "report.json");
    const { code, out, err } = await runCli([
      "convert",
      corpus(path),
      join(folder, "out"),
      "--json",
      "--report",
      report,
    ]);
    expect(code).toBe(exit);
    expect(err).toMatch(/^superchunk: [^\n]+\n$/);
    expect(JSON.parse(out)).toMatchObject({ error: { code: reason } });
    expect(readJson("report.json")).toMatchObject({
      archives: [{ path: corpus(path), status: "failed", code: reason }],
    });
    expect(existsSync(join(folder, "out", "zarr.json"))).toBe(false);
  });

  it.each(["--to=zarr", "--to=blz", "--to=parquet"])(
    "%s names files that are not part of the archive",
    async (to) => {
      const source = join(folder, "src");
      cpSync(corpus("carray/bcolz-f8-chunks"), source, { recursive: true });
      const own = ["meta/lock", ".hidden", "superchunk-index", "notes.txt.lock"];
      for (const name of ["notes.txt", "my-superchunks.csv", "meta/extra", "poetry.lock", ...own])
        writeFileSync(join(source, name), "");
      const { code, out } = await runCli(["convert", source, join(folder, "out"), to, "--json"]);
      expect(code).toBe(0);
      expect(JSON.parse(out).notes).toEqual([expect.stringMatching(/: files that are not carried over: /)]);
      const named = JSON.parse(out).notes[0].split("over: ")[1].split(", ");
      expect(named.sort()).toEqual(["meta/extra", "my-superchunks.csv", "notes.txt", "poetry.lock"]);
    },
  );

  it("never writes a Zarr folder with the name of another format", async () => {
    const to = (name: string) => runCli(["convert", corpus("carray/blz-f8"), join(folder, name)]);
    for (const name of ["a.parq", "a.pq", "a.parquet"]) {
      expect((await to(name)).code).toBe(0);
      expect(readFileSync(join(folder, name)).subarray(0, 4).toString()).toBe("PAR1");
    }
    const names = [
      "csv",
      "json",
      "raw",
      "bin",
      "arrows",
      "icechunk",
      "avro",
      "duckdb",
      "lance",
      "hdf",
      "nc4",
      "n5",
      "db",
      "PKL",
      "dat",
      "zip",
      "tif",
    ];
    for (const name of names) {
      const { code, err } = await to(`b.${name}`);
      expect([code, err]).toEqual([
        1,
        expect.stringContaining(`convert does not write .${name.toLowerCase()}: `),
      ]);
      expect(existsSync(join(folder, `b.${name}`))).toBe(false);
    }
    for (const name of ["c", "c.zarr", "data.v2", "2016-08.v1", "2016.08", "bars.old", ".hidden"]) {
      expect((await to(name)).code).toBe(0);
      expect(readJson(name, "zarr.json").node_type).toBe("array");
    }
    expect((await to("c.bloscpack")).code).toBe(0);
    expect(readFileSync(join(folder, "c.bloscpack")).subarray(0, 4).toString()).toBe("blpk");
  });

  it("with --json reports what was done in fields", async () => {
    const { out } = await runCli([
      "convert",
      corpus("carray/blz-f8"),
      join(folder, "out"),
      "--json",
      "--verify",
    ]);
    expect(JSON.parse(out)).toMatchObject({
      source: corpus("carray/blz-f8"),
      destination: join(folder, "out"),
      chunksCopied: 7,
      chunksPadded: 0,
      chunksRecoded: 0,
      shards: 1,
      nbytes: 5600,
      verified: true,
    });
  });

  it("with --chunks-per-shard or --shard-size is cut as requested", async () => {
    await runCli(["convert", corpus("carray/blz-f8"), join(folder, "a"), "--chunks-per-shard", "2"]);
    expect(readJson("a", "zarr.json").chunk_grid.configuration.chunk_shape).toEqual([200]);
    const { out } = await runCli([
      "convert",
      corpus("carray/blz-f8"),
      join(folder, "b"),
      "--shard-size",
      "2400",
      "--json",
    ]);
    expect(JSON.parse(out).shards).toBe(3);
    const both = [
      "convert",
      corpus("carray/blz-f8"),
      join(folder, "c"),
      "--shard-size",
      "1M",
      "--chunks-per-shard",
      "2",
    ];
    expect((await runCli(both)).code).toBe(2);
  });

  it("of plain bytes takes dtype, shape and dimension names", async () => {
    const options = ["--dtype", "<f4", "--shape", "10,225", "--dimension-names", "day,minute"];
    const { code } = await runCli([
      "convert",
      corpus("bloscpack-3/sum-none.blp"),
      join(folder, "out"),
      ...options,
    ]);
    expect(code).toBe(0);
    expect(readJson("out", "zarr.json")).toMatchObject({
      shape: [10, 225],
      data_type: "float32",
      dimension_names: ["day", "minute"],
    });
    for (const wrong of [
      ["--dtype", "nonsense"],
      ["--shape", "3,3"],
      ["--shape", "3,x"],
    ]) {
      expect(
        (await runCli(["convert", corpus("bloscpack-3/sum-none.blp"), join(folder, "x"), ...wrong])).code,
      ).toBe(2);
    }
  });

  it("prints no line for xarray if the names that were given may stand for several lengths", async () => {
    const many = ["convert", corpus("bloscpack-2"), join(folder, "many"), "--dimension-names", "row"];
    const { code, err } = await runCli(many);
    expect(code).toBe(0);
    expect(err).toMatch(/note: all arrays have the dimension names.*data = zarr\.open_group\(/s);
    expect(err).not.toContain("import xarray");
  });

  it("--no-recode refuses if chunks cannot be copied", async () => {
    const { code, err } = await runCli([
      "convert",
      corpus("bloscpack-3/array-f4-3d-fortran.blp"),
      join(folder, "out"),
      "--no-recode",
    ]);
    expect(code).toBe(1);
    expect(err).toContain("do not end on rows");
  });

  it("--dry-run reports what would happen and writes nothing", async () => {
    const plan = await runCli([
      "convert",
      corpus("bloscpack-3/array-f4-3d-fortran.blp"),
      join(folder, "out"),
      "--dry-run",
    ]);
    expect(plan.code).toBe(0);
    expect(plan.out).toMatch(
      /^array {2}action .*\n\/ {6}recode {2}7 x 9 x 11 .* float32\nchunks of 1024 bytes do not end on rows/,
    );
    const json = await runCli([
      "convert",
      corpus("ctable/bcolz-daily-equities"),
      join(folder, "out"),
      "--dry-run",
      "--json",
    ]);
    expect(JSON.parse(json.out)).toMatchObject({ kind: "group", nbytes: 6328 });
    expect(readdirSync(folder)).toEqual([]);
  });

  it("refuses a destination that exists, and replaces it with --overwrite", async () => {
    const target = join(folder, "out");
    await runCli(["convert", corpus("carray/blz-f8"), target]);
    const again = await runCli(["convert", corpus("carray/bcolz-bool"), target]);
    expect(again.code).toBe(1);
    expect(readJson("out", "zarr.json").data_type).toBe("float64");
    expect((await runCli(["convert", corpus("carray/bcolz-bool"), target, "--overwrite"])).code).toBe(0);
    expect(readJson("out", "zarr.json").data_type).toBe("bool");
    expect(
      (await runCli(["convert", corpus("carray/bcolz-bool"), target, "--overwrite", "--resume"])).code,
    ).toBe(2);
  });

  it("never writes into, over or around its source", async () => {
    cpSync(corpus("carray/blz-f8"), join(folder, "a", "source"), { recursive: true });
    const source = join(folder, "a", "source");
    for (const target of [source, join(source, "out"), join(folder, "a"), folder]) {
      const { code } = await runCli(["convert", source, target, "--overwrite"]);
      expect(code).toBe(1);
    }
    expect((await runCli(["verify", source])).code).toBe(0);
  });

  it("reports an unknown target as wrong usage, and lists the known ones", async () => {
    const { code, err } = await runCli(["convert", "--to", "hdf5", "a", "b"]);
    expect(code).toBe(2);
    expect(err).toContain("Allowed choices are zarr");
  });
});

describe("the name of the destination", () => {
  it.each([
    ["x.npy", 0x93],
    ["x.blp", 0x62],
    ["x.parquet", 0x50],
  ])("%s chooses the format", async (name, first) => {
    const path = join(folder, name);
    expect((await runCli(["convert", corpus("carray/bcolz-u2-exact"), path])).code).toBe(0);
    expect(readFileSync(path)[0]).toBe(first);
  });

  it("x.bcolz means a bcolz archive, and a name without a known extension means Zarr", async () => {
    await runCli(["convert", corpus("carray/bcolz-u2-exact"), join(folder, "x.bcolz")]);
    expect(existsSync(join(folder, "x.bcolz", "meta", "storage"))).toBe(true);
    await runCli(["convert", corpus("carray/bcolz-u2-exact"), join(folder, "2016.08")]);
    expect(existsSync(join(folder, "2016.08", "zarr.json"))).toBe(true);
  });

  it.each(["x.csv", "x.ndjson", "x.orc", "x.h5", "x.nc", "x.zarr.zip"])(
    "%s is refused, with what to do",
    async (name) => {
      const { code, err } = await runCli(["convert", corpus("carray/bcolz-u2-exact"), join(folder, name)]);
      expect([code, err]).toEqual([1, expect.stringMatching(/(superchunk cat|\.parquet|\.zarr).*--to zarr/)]);
      expect(existsSync(join(folder, name))).toBe(false);
    },
  );
});

describe("one array in a file", () => {
  it.each(["x.npy", "x.b2nd", "x.blp"])("%s takes one column of a table, and no more", async (name) => {
    const [table, path] = [corpus("ctable/bcolz-daily-equities"), join(folder, name)];
    const { code, err } = await runCli(["convert", table, path]);
    expect([code, err]).toEqual([2, expect.stringMatching(/7 columns.*--column.*--to/)]);
    expect(existsSync(path)).toBe(false);
    expect((await runCli(["convert", table, path, "--column", "close", "--verify"])).code).toBe(0);
    expect(statSync(path).isFile()).toBe(true);
  });
});

it("for a folder with unequal chunks, the output tells Python users how to read them", async () => {
  const { err } = await runCli(["convert", corpus("zarr3-rectilinear"), join(folder, "uneven.zarr")]);
  expect(err).toMatch(
    /in Python: import zarr; zarr.config.set\(\{"array.rectilinear_chunks": True\}\); import xarray/,
  );
});

describe("many archives", () => {
  it("in a folder become one hierarchy; what cannot be converted is reported at the end", async () => {
    const report = join(folder, "report.json");
    const { code, out, err } = await runCli([
      "convert",
      corpusFolder,
      join(folder, "all"),
      "--report",
      report,
    ]);
    expect(code).toBe(3);
    expect(out).toMatch(/^78 archives converted, 2 failed: \d+ chunks copied, /);
    expect(err).toMatch(/superchunk: not converted: \S+aborted\S* [^\n]+ \(INCOMPLETE\)\n/);
    expect(err).toMatch(/superchunk: not converted: \S+bcolz-object: [^\n]+ \(UNSUPPORTED\)\n/);
    const entries: { status: string }[] = readJson("report.json").archives;
    expect(entries).toHaveLength(80);
    expect(entries.filter((entry) => entry.status === "failed")).toHaveLength(2);
    expect(readJson("all", "zarr.json").node_type).toBe("group");
    expect(readJson("all", "carray", "blz-f8", "zarr.json").shape).toEqual([700]);
    expect(existsSync(join(folder, "all", "blz-superchunk", "aborted", "zarr.json"))).toBe(false);
  });

  it("named one by one are put next to each other under their own names", async () => {
    const sources = [corpus("carray/blz-f8"), corpus("bloscpack-3/array-f8.blp"), corpus("ctable")];
    const { code } = await runCli(["convert", ...sources, join(folder, "out"), "--verify"]);
    expect(code).toBe(0);
    expect(readdirSync(join(folder, "out")).sort()).toEqual([
      "array-f8.blp",
      "blz-f8",
      "ctable",
      "zarr.json",
    ]);
    expect(Object.keys(readJson("out", "zarr.json").consolidated_metadata.metadata)).toContain(
      "ctable/bcolz-mixed/price",
    );
    const twice = await runCli([
      "convert",
      corpus("carray/blz-f8"),
      corpus("carray/../carray/blz-f8"),
      join(folder, "x"),
    ]);
    expect(twice.code).toBe(2);
  });

  it("--dry-run prints one line for each, and includes refusals in the exit code", async () => {
    const { code, out } = await runCli(["convert", corpus("carray"), join(folder, "out"), "--dry-run"]);
    expect(code).toBe(1);
    expect(out).toMatch(/^copy +5\.47 KiB {2}\S+blz-f8 -> \/blz-f8$/m);
    expect(out).toMatch(/^recode +3\.52 KiB {2}\S+bcolz-i4-snappy -> \/bcolz-i4-snappy: .*snappy/m);
    expect(out).toMatch(/^refuse +32 bytes {2}\S+bcolz-object -> \/bcolz-object: .*pickles/m);
    expect(readdirSync(folder)).toEqual([]);
  });

  it.each(["zarr", "parquet"])(
    "to %s name the files beside them, the first five and their number",
    async (to) => {
      const source = join(folder, "src");
      cpSync(corpus("carray/blz-f8"), join(source, "a"), { recursive: true });
      cpSync(corpus("carray/blz-f8"), join(source, "b"), { recursive: true });
      writeFileSync(join(source, "b", "readme"), "");
      for (let i = 0; i < 7; i++) writeFileSync(join(source, `${i}.sqlite`), "");
      const { code, out } = await runCli(["convert", source, join(folder, "out"), "--to", to, "--json"]);
      expect(code).toBe(0);
      expect(JSON.parse(out).notes).toEqual([
        `${source}: files that are not carried over: 0.sqlite, 1.sqlite, 2.sqlite, 3.sqlite, 4.sqlite, … (7 in all)`,
        `${source}/b: files that are not carried over: readme`,
      ]);
      const shown = await runCli(["convert", source, join(folder, "shown"), "--to", to]);
      expect(shown.err).toContain(`note: ${source}/b: files that are not carried over: readme`);
    },
  );

  it("name them also if the first archive has a name that is refused", async () => {
    const source = join(folder, "src");
    cpSync(corpus("carray/blz-f8"), join(source, "b"), { recursive: true });
    for (const name of ["a\\b.blp", "notes.txt"]) writeFileSync(join(source, name), "");
    const { code, out } = await runCli(["convert", source, join(folder, "out"), "--to=parquet", "--json"]);
    expect(code).toBe(1);
    expect(JSON.parse(out).notes).toEqual([`${source}: files that are not carried over: notes.txt`]);
  });

  it("in a folder that holds none end with 1", async () => {
    writeFileSync(join(folder, "notes.txt"), "nothing of interest");
    expect((await runCli(["convert", folder, join(tmpdir(), "superchunk-never-made")])).code).toBe(1);
    expect(existsSync(join(tmpdir(), "superchunk-never-made"))).toBe(false);
  });
});

it.each(["parquet", "arrow"])("a note names attributes that a file of %s cannot keep", async (format) => {
  const source = join(folder, "source");
  const attrs = ["pandas=1", "superchunk=2", "ARROW:schema=3", "own=4"].flatMap((each) => ["--attr", each]);
  expect((await runCli(["create", source, "--dtype", "<f8", "--shape", "5", ...attrs])).code).toBe(0);
  const target = join(folder, `rows.${format}`);
  const { code, err } = await runCli(["convert", source, target]);
  expect([code, err.match(/attribute "[^"]+" is left out/g)]).toEqual([
    0,
    ["superchunk", "pandas", "ARROW:schema"].map((name) => `attribute "${name}" is left out`),
  ]);
  const back = join(folder, "back");
  expect((await runCli(["create", back, "--from", target])).code).toBe(0);
  expect(JSON.parse((await runCli(["attrs", back])).out)).toEqual({ own: 4 });
});

describe("an interruption", () => {
  it("ends with 130, leaves nothing that looks complete, and --resume continues", async () => {
    const source = join(folder, "source");
    cpSync(corpus("carray/blz-f8"), source, { recursive: true });
    const target = join(folder, "out");
    const controller = new AbortController();
    controller.abort(new Interruption("SIGINT"));
    const broken = await runCli(["convert", source, target], { signal: controller.signal });
    expect(broken.code).toBe(130);
    expect(broken.err).toBe("superchunk: interrupted; run the same command with --resume to continue\n");
    expect(existsSync(join(target, "zarr.json"))).toBe(false);
    expect((await runCli(["convert", source, target, "--resume"])).code).toBe(0);
    expect(readJson("out", "zarr.json").shape).toEqual([700]);
  });
});

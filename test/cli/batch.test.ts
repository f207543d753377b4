/** Many archives, and parts of one: what a newcomer types first. */
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { showsColour } from "../../cli/output/output.ts";
import { temporaryFolder } from "../folder.ts";
import { runCli } from "./harness.ts";

const corpus = join(import.meta.dirname, "../../fixtures/corpus");
const TABLE = join(corpus, "ctable/bcolz-daily-equities");

describe("cat", () => {
  test("prints several columns in the order in which they are named", async () => {
    const { out } = await runCli([
      "cat",
      TABLE,
      "--column",
      "close",
      "--column",
      "day",
      "--format",
      "csv",
      "--head",
      "2",
    ]);
    expect(out).toBe("close,day\n51654,1388793600\n50967,1388880000\n");
  });

  test("prints the last rows, and one row per line as JSON", async () => {
    const tail = await runCli([
      "cat",
      TABLE,
      "--column",
      "day",
      "--column",
      "close",
      "--tail",
      "2",
      "--format",
      "ndjson",
    ]);
    expect(
      tail.out
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line) as unknown),
    ).toEqual([
      { day: 1393459200, close: 53339 },
      { day: 1393545600, close: 55117 },
    ]);
    const values = await runCli(["cat", TABLE, "--column", "close", "--head", "2", "--format", "ndjson"]);
    expect(values.out).toBe("51654\n50967\n");
  });

  test("refuses two row selections, and names the columns if one does not exist", async () => {
    expect((await runCli(["cat", TABLE, "--head", "2", "--slice", "3"])).code).toBe(2);
    const { code, err } = await runCli(["cat", TABLE, "--column", "close", "--column", "nope"]);
    expect(code).toBe(1);
    expect(err).toContain('no column "nope"; expected one of open, high');
  });
});

test("info cuts long attributes and gives their length, and --json has them in full", async () => {
  const folder = temporaryFolder();
  cpSync(TABLE, folder, { recursive: true });
  const first = Object.fromEntries(Array.from({ length: 8000 }, (_, i) => [String(i), i * 7]));
  writeFileSync(join(folder, "__attrs__"), JSON.stringify({ first_row: first, unit: "USD" }));
  const { out } = await runCli(["info", folder]);
  expect(out.length).toBeLessThan(3000);
  expect(out).toMatch(/first_row = \{"0":0,.*… \(\d{2,3},\d{3} characters\)/);
  expect(out).toContain("unit = USD");
  const json = JSON.parse((await runCli(["info", folder, "--json"])).out) as { attrs: unknown };
  expect(json.attrs).toEqual({ first_row: first, unit: "USD" });
});

describe("verify", () => {
  let tree: string;
  beforeAll(() => {
    tree = temporaryFolder();
    for (const name of ["a", "b", "c"])
      cpSync(join(corpus, "bloscpack-3/sum-md5.blp"), join(tree, `${name}.blp`));
    cpSync(TABLE, join(tree, "table"), { recursive: true });
    truncateSync(join(tree, "b.blp"), 300);
  });

  interface Report {
    readonly ok: boolean;
    readonly totals: Readonly<Record<string, unknown>>;
  }
  const json = async (...argv: string[]): Promise<Report> =>
    JSON.parse((await runCli(["verify", "--json", ...argv])).out) as Report;

  test("counts archives by dialect and by error, with the same output for any number of jobs", async () => {
    expect((await json(tree)).totals).toMatchObject({
      archives: 4,
      damaged: 1,
      dialects: { "bloscpack-3": 2, ctable: 1 },
      codes: { TRUNCATED: 1 },
    });
    const [one, many] = await Promise.all(
      ["1", "7"].map(async (jobs) => (await runCli(["verify", tree, "--jobs", jobs])).out),
    );
    expect(many).toBe(one);
    expect(one).toContain("archives with errors: TRUNCATED 1");
  });

  test("prints only what is damaged, or nothing; the exit code is the same", async () => {
    const damaged = await runCli(["verify", tree, "--only-damaged"]);
    expect(damaged.out).not.toContain("a.blp");
    expect(damaged.out).toContain("b.blp");
    expect(await runCli(["verify", tree, "--quiet"])).toMatchObject({ code: 3, out: "", err: "" });
  });

  test("--only-damaged hides what is intact, and shows what has only warnings", async () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, "rows.bin"), Float64Array.from({ length: 1000 }, Math.sqrt));
    const rows = ["--from", join(folder, "rows.bin"), "--dtype", "<f8", "--as", "carray"];
    for (const name of ["intact", "longer"]) await runCli(["create", join(folder, name), ...rows]);
    appendFileSync(join(folder, "longer/data/__0.blp"), "and more");
    const { code, out } = await runCli(["verify", folder, "--only-damaged"]);
    expect([code, out]).toEqual([
      0,
      expect.stringMatching(/^ok .*longer {2}carray.*\n {2}warning TRAILING: .*\n.*\n2 archives: 2 ok, /),
    ]);
    expect(out).not.toContain("intact");
    const { archives } = (await json(folder, "--only-damaged")) as unknown as { archives: unknown[] };
    expect(archives).toMatchObject([{ path: join(folder, "longer"), ok: true }]);
    const report = join(temporaryFolder(), "verify.jsonl");
    await runCli(["verify", folder, "--report", report]);
    const kept = await runCli(["verify", folder, "--only-damaged", "--report", report, "--resume"]);
    expect(kept.out).toMatch(/^ok .*longer {2}TRAILING; the report has the findings/);
  });

  test("continues from the report of a run that was killed while it wrote a line, and says what it kept", async () => {
    const report = join(temporaryFolder(), "verify.jsonl");
    const whole = await json(tree, "--report", report);
    const text = readFileSync(report, "utf8");
    const paths = (): unknown[] =>
      readFileSync(report, "utf8")
        .trim()
        .split("\n")
        .map((line) => (JSON.parse(line) as { path: unknown }).path);
    expect(paths()).toHaveLength(4);
    const [first = "", second = ""] = text.split("\n");
    writeFileSync(report, `${first}\n${second.slice(0, 20)}`);
    const resumed = await json(tree, "--report", report, "--resume");
    expect(resumed).toMatchObject({ ok: false, totals: { archives: 4, damaged: 1, kept: 1 } });
    expect(new Set(paths()).size).toBe(4);
    expect(resumed.totals["codes"]).toEqual(whole.totals["codes"]);
    const { out } = await runCli(["verify", tree, "--report", report, "--resume"]);
    expect(out).toContain("4 kept from the earlier run");
    expect(out).toContain("b.blp  TRUNCATED; the report has the findings of the earlier run");
    // Files that changed since are verified again, also if the bytes and names are the same.
    cpSync(join(tree, "a.blp"), join(tree, "a.copy"));
    renameSync(join(tree, "a.copy"), join(tree, "a.blp"));
    const again = await json(tree, "--report", report, "--resume");
    expect(again.totals).toMatchObject({ archives: 4, damaged: 1, kept: 3 });
    // A link that was not followed is in the report too.
    const links = temporaryFolder();
    symlinkSync(tree, join(links, "out"));
    for (const kept of [4, 4])
      expect((await json(tree, links, "--report", report, "--resume")).totals).toMatchObject({
        archives: 4,
        kept,
      });
  });

  test("looks again at an archive that an earlier run could not read", async () => {
    const report = join(temporaryFolder(), "verify.jsonl");
    await json(tree, "--report", report);
    const lines = readFileSync(report, "utf8").trim().split("\n");
    const error = { code: "IO", message: "the disk was away" };
    const failed = lines.map((line) => {
      const { path, files } = JSON.parse(line) as { readonly path: string; readonly files: string };
      return path.endsWith("a.blp") ? JSON.stringify({ path, ok: false, error, files }) : line;
    });
    writeFileSync(report, `${failed.join("\n")}\n`);
    const { totals } = await json(tree, "--report", report, "--resume");
    expect(totals).toMatchObject({ archives: 4, damaged: 1, failed: 0, kept: 3 });
  });

  test("ls says how many archives cannot be opened, and which command names them", async () => {
    const folder = temporaryFolder();
    cpSync(join(tree, "a.blp"), join(folder, "a.blp"));
    for (const name of ["b.blp", "c.b2nd"]) writeFileSync(join(folder, name), "");
    for (const option of ["--totals", "--json", "--csv"]) {
      const { code, err } = await runCli(["ls", folder, option]);
      expect(code).toBe(3);
      expect(err).toBe(
        `superchunk: 2 of 3 cannot be opened: "superchunk verify ${folder} --only-damaged" names them, and what can be saved\n`,
      );
    }
    const { out } = await runCli(["ls", folder]);
    expect(out).toMatch(/b\.blp {2}TRUNCATED: the file is empty/);
    expect(out).toMatch(/c\.b2nd {2}TRUNCATED: the file is empty/);
  });

  test("verify says how many damaged archives are repaired at once", async () => {
    const folder = temporaryFolder();
    for (const name of ["a.blp", "b.blp"]) writeFileSync(join(folder, name), "");
    expect((await runCli(["verify", folder])).err).toContain("superchunk plan --for repair");
    expect((await runCli(["verify", join(folder, "a.blp")])).err).toBe("");
  });

  test("does not change a file that is not a report", async () => {
    const file = join(temporaryFolder(), "notes.txt");
    writeFileSync(file, "one\ntwo\n");
    expect((await runCli(["verify", tree, "--report", file, "--resume"])).code).toBe(2);
    expect(readFileSync(file, "utf8")).toBe("one\ntwo\n");
  });

  test("counts an archive once if two paths lead to it, and says so", async () => {
    const { totals } = await json(tree, join(tree, "table"), join(tree, "a.blp"));
    expect(totals).toMatchObject({ archives: 4, same: 2 });
    const other = temporaryFolder();
    symlinkSync(join(tree, "a.blp"), join(other, "link.blp"));
    const { out } = await runCli(["verify", join(tree, "a.blp"), join(other, "link.blp")]);
    expect(out).toMatch(/^SAME {5}.*link\.blp {2}as .*a\.blp$/m);
    expect(out).toContain("1 archive: 1 ok, 1 reached by a second path, counted once");
  });

  test("ls and info also count an archive once in the totals if a link to it is next to it", async () => {
    const folder = temporaryFolder();
    cpSync(TABLE, join(folder, "table"), { recursive: true });
    const alone = JSON.parse((await runCli(["ls", folder, "--totals", "--json"])).out) as object;
    symlinkSync(join(folder, "table"), join(folder, "zlink"));
    expect(alone).toMatchObject({ archives: 1, same: 0 });
    for (const command of [
      ["ls", folder, "--totals"],
      ["info", folder],
    ]) {
      const { out } = await runCli([...command, "--json"]);
      expect(JSON.parse(out)).toEqual({ ...alone, same: 1 });
      const text = await runCli(command);
      expect(text.out).toContain("1 archive reached by a second path, counted once");
    }
  });

  test("takes its paths from a list, and reports an empty list", async () => {
    const list = join(temporaryFolder(), "list");
    writeFileSync(list, `${join(tree, "a.blp")}\n\n${join(tree, "c.blp")}\n`);
    expect((await json("--files-from", list)).totals).toMatchObject({ archives: 2, damaged: 0 });
    // As Windows writes it, and as `find -print0` does.
    for (const [start, end] of [
      ["\ufeff", "\r\n"],
      ["", "\0"],
    ]) {
      writeFileSync(list, `${start}${join(tree, "a.blp")}${end}${join(tree, "c.blp")}${end}`);
      expect((await json("--files-from", list)).totals).toMatchObject({ archives: 2, damaged: 0 });
    }
    const broken = join(temporaryFolder(), "two\nlines.blp");
    cpSync(join(tree, "a.blp"), broken);
    writeFileSync(list, `${broken}\0`);
    expect((await json("--files-from", list)).totals).toMatchObject({ archives: 1, damaged: 0 });
    writeFileSync(list, "\n");
    expect(await runCli(["verify", "--files-from", list])).toMatchObject({
      code: 2,
      err: `superchunk: ${list}: the list names no path\n`,
    });
    const { code, err } = await runCli(["verify"]);
    expect(code).toBe(2);
    expect(err).toContain("--files-from");
  });

  test("shows verdicts in colour on a terminal, and follows the environment's settings", async () => {
    const coloured = "\u001b[1;31mDAMAGED\u001b[0m";
    expect((await runCli(["verify", tree], { terminal: true, hasColour: true })).out).toContain(coloured);
    const listed = await runCli(["ls", tree], { terminal: true, hasColour: true });
    expect(listed.out).toContain(coloured);
    expect(listed.out.match(/c\.blp/g)).toHaveLength(1);
    expect((await runCli(["verify", tree])).out).not.toContain("\u001b");
    expect(showsColour(true, {})).toBe(true);
    expect(showsColour(true, { TERM: "dumb" })).toBe(false);
    expect(showsColour(true, { NO_COLOR: "1" })).toBe(false);
    expect(showsColour(false, {})).toBe(false);
    expect(showsColour(false, { FORCE_COLOR: "1", NO_COLOR: "1" })).toBe(true);
    expect(showsColour(true, { FORCE_COLOR: "0" })).toBe(false);
  });
});

test("help for a misspelt command suggests the right one, as the misspelt command does", async () => {
  for (const argv of [["help", "convrt"], ["convrt"]]) {
    const { code, err, out } = await runCli(argv);
    expect([code, out]).toEqual([2, ""]);
    expect(err).toContain("Did you mean convert?");
  }
  expect((await runCli(["help", "convert"])).out).toContain("Usage: superchunk convert");
});

describe("lists of sources", () => {
  const names = ["array-f8.blp", "array-i4-2d.blp", "sum-md5.blp"];

  function listOf(): string {
    const list = join(temporaryFolder(), "list");
    writeFileSync(list, names.map((name) => `${join(corpus, "bloscpack-3", name)}\n`).join("\n"));
    return list;
  }

  test("convert takes them, with as many in parallel as requested", async () => {
    const folder = temporaryFolder();
    const one = join(folder, "one.zarr");
    const { code, out } = await runCli(["convert", "--files-from", listOf(), one, "--jobs", "1"]);
    expect(code, out).toBe(0);
    expect(out).toContain("3 archives converted");
    const many = join(folder, "many.zarr");
    await runCli(["convert", "--files-from", listOf(), many, "--jobs", "8", "--verify"]);
    for (const name of names) {
      const shown = await runCli(["cat", join(many, name), "--head", "3"]);
      expect(shown.code, shown.err).toBe(0);
      expect(shown.out).toBe((await runCli(["cat", join(one, name), "--head", "3"])).out);
    }
    expect((await runCli(["convert", "--files-from", listOf()])).code).toBe(2);
  });

  test("convert names a missing path, and converts the others; --concat and a single path are refused", async () => {
    const folder = temporaryFolder();
    const list = join(folder, "list");
    const paths = [...names.map((name) => join(corpus, "bloscpack-3", name)), join(folder, "gone")];
    writeFileSync(list, paths.join("\n"));
    for (const out of ["all.zarr", "all.bcolz"]) {
      const { code, err } = await runCli(["convert", "--files-from", list, join(folder, out)]);
      expect([code, err]).toEqual([1, expect.stringContaining("gone: no such file or folder (NOT_FOUND)")]);
      expect(readdirSync(join(folder, out))).toHaveLength(out === "all.zarr" ? 4 : 3);
    }
    const planned = await runCli(["convert", "--files-from", list, join(folder, "dry.zarr"), "--dry-run"]);
    expect([planned.code, planned.out]).toEqual([
      1,
      expect.stringContaining("gone: no such file or folder (NOT_FOUND)"),
    ]);
    for (const refused of [["--files-from", list, "--concat"], [join(folder, "gone")]]) {
      const { code, err } = await runCli(["convert", ...refused, join(folder, "none.zarr")]);
      expect([code, err]).toEqual([1, `superchunk: ${join(folder, "gone")}: no such file or folder\n`]);
    }
    expect(existsSync(join(folder, "none.zarr"))).toBe(false);
  });

  test("convert says where all failures are listed, and a dry run how many archives it would convert", async () => {
    const folder = temporaryFolder();
    const source = join(folder, "source");
    mkdirSync(source);
    cpSync(join(corpus, "bloscpack-3", names[0] ?? ""), join(source, "good.blp"));
    for (let i = 0; i < 22; i++) writeFileSync(join(source, `bad${i}.blp`), "");
    const dry = await runCli(["convert", source, join(folder, "all.zarr"), "--dry-run"]);
    expect(dry.err).toMatch(/^superchunk: 1 archive to convert, .*, 22 refused; only their metadata/);
    const report = join(folder, "report.json");
    const { err } = await runCli(["convert", source, join(folder, "all.zarr"), "--report", report]);
    expect(err).toContain(`and 2 more not converted: ${report} lists them\n`);
  });

  test("virtualize says what it passed over in a folder, and why", async () => {
    const folder = temporaryFolder();
    cpSync(join(corpus, "bloscpack-3", names[0] ?? ""), join(folder, "data/a.blp"));
    for (const name of ["blosc2/lz4hc.b2nd", "hdf5/attributes.h5"])
      cpSync(join(corpus, "..", name), join(folder, "data", name.replace("/", "-")));
    await runCli(["convert", join(folder, "data/a.blp"), join(folder, "data/z.zarr")]);
    const { code, err } = await runCli(["virtualize", join(folder, "data"), join(folder, "refs.json")]);
    expect([code, err.match(/not referenced: [^\n:]*: .*/g)]).toEqual([
      0,
      [
        "not referenced: HDF5 and Blosc2 files (2): name HDF5 files themselves, and convert those of Blosc2",
        "not referenced: Zarr arrays and groups (1): they are Zarr already",
      ],
    ]);
  });

  test("virtualize names a missing path, and refers to the others, under the same names", async () => {
    const folder = temporaryFolder();
    const list = join(folder, "list");
    const below = join(corpus, "bloscpack-3");
    const report = join(folder, "report.json");
    const refsOf = (refs: string): string[] =>
      Object.keys((JSON.parse(readFileSync(join(folder, refs), "utf8")) as { refs: object }).refs);
    for (const [paths, keys] of [
      [[...names.map((name) => join(below, name)), join(folder, "gone")], names],
      [[below, join(folder, "gone")], names.map((name) => `bloscpack-3/${name}`)],
    ] as const) {
      writeFileSync(list, paths.join("\n"));
      const into = join(folder, "refs.json");
      const argv = ["virtualize", "--files-from", list, into, "--report", report, "--overwrite"];
      const { code, err } = await runCli(argv);
      expect([code, err]).toEqual([1, expect.stringContaining("gone: no such file or folder (NOT_FOUND)")]);
      expect(refsOf("refs.json")).toEqual(expect.arrayContaining(keys.map((name) => `${name}/zarr.json`)));
      const { archives } = JSON.parse(readFileSync(report, "utf8")) as {
        archives: { path: string; status: string }[];
      };
      const failed = archives.filter(({ status }) => status === "failed");
      expect(failed.map(({ path }) => path)).toContain(join(folder, "gone"));
    }
    for (const refused of [
      ["--files-from", list, "--concat"],
      [join(folder, "gone"), join(folder, "too")],
    ]) {
      const { code, err } = await runCli(["virtualize", ...refused, join(folder, "none.json")]);
      expect([code, err]).toEqual([1, expect.stringContaining("gone: no such file or folder\n")]);
    }
    expect(existsSync(join(folder, "none.json"))).toBe(false);
  });

  test("virtualize takes them", async () => {
    const refs = join(temporaryFolder(), "refs.json");
    const { code, out, err } = await runCli(["virtualize", "--files-from", listOf(), refs, "--jobs", "2"]);
    expect(code, err).toBe(0);
    expect(out).toContain("refs.json");
    expect(Object.keys((JSON.parse(readFileSync(refs, "utf8")) as { refs: object }).refs)).toEqual(
      expect.arrayContaining(names.map((name) => `${name}/zarr.json`)),
    );
  });
});

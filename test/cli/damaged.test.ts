/** `--damaged` of the commands that read: whole chunks are output, others are listed, and the exit code says so. */
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openArray, repairArray } from "../../src/node/index.ts";
import { runCli } from "./harness.ts";

/** 20 rows of 4 a chunk; chunk 2 (rows 8 to 11) is damaged. */
const ROWS = Float64Array.from({ length: 20 }, (_, i) => i + 1);
const isBad = (_: number, row: number): boolean => row >= 8 && row < 12;

let folder: string;
const at = (name: string): string => join(folder, name);

/** Changes a byte of the payload of chunk 2 of every kind of archive. */
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "superchunk-damaged-"));
  const run = async (...argv: string[]): Promise<void> => {
    const { code, err } = await runCli(argv);
    if (code !== 0) throw new Error(err);
  };
  writeFileSync(at("rows.bin"), ROWS);
  const from = ["--from", at("rows.bin"), "--dtype", "<f8", "--chunklen", "4"];
  await run("create", at("blz"), ...from);
  await run("create", at("carray"), "--as", "carray", ...from);
  await run("compress", at("rows.bin"), at("rows.blp"), "--chunk-size", "32");
  for (const name of ["blz", "rows.blp"]) {
    const { out } = await runCli(["chunks", at(name), "--json"]);
    const chunks = JSON.parse(out) as { file: string; offset: number }[];
    const { file: key = "", offset = 0 } = chunks[2] ?? {};
    const file = name === "blz" ? join(at(name), key) : at(name);
    const bytes = readFileSync(file);
    bytes[offset + 20] = (bytes[offset + 20] ?? 0) ^ 1;
    writeFileSync(file, bytes);
  }
  rmSync(at("carray/data/__2.blp"));
  await run("create", at("whole"), ...from);
  await run("convert", at("whole"), at("zarr"), "--chunks-per-shard", "2");
  const shard = readFileSync(at("zarr/c/1"));
  writeFileSync(at("zarr/c/1"), shard.fill(0xee, 0, 16));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const rowsOf = (bytes: Uint8Array): number[] => [...new Float64Array(new Uint8Array(bytes).buffer)];
const skipped = [...ROWS].filter((value, row) => !isBad(value, row));
const filled = [...ROWS].map((value, row) => (isBad(value, row) ? 0 : value));

describe.each(["blz", "carray", "rows.blp", "zarr"])("%s", (name) => {
  const path = (): string => at(name);

  it.each(["cat", "decompress", "convert"])(
    "%s stops at the damage unless asked to continue",
    async (command) => {
      const argv =
        { cat: ["--format", "raw"], decompress: ["-"], convert: [at(`${name}.npy`), "--to", "npy"] }[
          command
        ] ?? [];
      for (const how of [[], ["--damaged", "stop"]]) {
        const { code, err } = await runCli([command, path(), ...argv, ...how]);
        expect([code, err]).toEqual([
          3,
          expect.stringMatching(name === "zarr" ? /c\/1: chunk 0/ : /chunk 2/),
        ]);
      }
    },
  );

  it.each([
    ["skip", skipped],
    ["fill", filled],
  ] as const)(
    "cat, decompress and convert %s the damaged rows, list them and end with 3",
    async (how, expected) => {
      const list = expect.stringMatching(
        new RegExp(`${how === "skip" ? "skipped" : "filled"}: chunk 2, rows `),
      );
      const cat = await runCli(["cat", path(), "--format", "raw", "--damaged", how]);
      expect([cat.code, cat.err, rowsOf(cat.bytes)]).toEqual([3, list, expected]);
      const raw = await runCli(["decompress", path(), at(`${name}.${how}`), "--damaged", how]);
      expect([raw.code, raw.err, rowsOf(readFileSync(at(`${name}.${how}`)))]).toEqual([3, list, expected]);
      const to = at(`${name}.${how}.zarr`);
      const told = name === "rows.blp" ? ["--dtype", "<f8"] : [];
      const zarr = await runCli(["convert", path(), to, "--damaged", how, "--verify", "--json", ...told]);
      expect([zarr.code, zarr.err]).toEqual([3, list]);
      expect(JSON.parse(zarr.out).damage).toMatchObject([{ holes: [{ chunk: 2 }] }]);
      const npy = await runCli([
        "convert",
        path(),
        at(`${name}.${how}.npy`),
        "--to",
        "npy",
        "--damaged",
        how,
        ...told,
      ]);
      expect([npy.code, npy.err]).toEqual([3, list]);
      for (const made of [to]) {
        const array = await openArray(made);
        expect(rowsOf(await array.getBytes())).toEqual(expected);
        await array.close();
      }
      expect(rowsOf(readFileSync(at(`${name}.${how}.npy`)).subarray(-8 * expected.length))).toEqual(expected);
    },
  );
});

it("a conversion that damage ends names the options and the command that save the rest, once", async () => {
  const run = (...argv: string[]): ReturnType<typeof runCli> => runCli(["convert", ...argv]);
  const again = "; to convert what is intact, give --damaged fill or --damaged skip";
  const saved = (path: string): string =>
    `; to save what is intact in a copy: superchunk repair ${path} DST --holes fill`;
  for (const name of ["blz", "carray", "rows.blp"]) {
    const { code, err } = await run(at(name), at("rest.zarr"));
    expect([code, err]).toEqual([3, expect.stringMatching(`chunk 2: [^\n]*${again}${saved(at(name))}\n$`)]);
  }
  const json = JSON.parse((await run(at("blz"), at("rest.npy"), "--json")).out);
  expect(json.error).toMatchObject({ code: "CHECKSUM_MISMATCH", chunk: 2 });
  expect(json.error.message).toContain(`${again}${saved(at("blz"))}`);
  // What no chunk can be read without: repair asks for it.
  cpSync(at("whole"), at("lost"), { recursive: true });
  rmSync(at("lost/meta/storage"));
  const lost = await run(at("lost"), at("rest.zarr"));
  expect([lost.code, lost.err]).toEqual([
    3,
    expect.stringContaining(`; to convert it, repair it first: superchunk repair ${at("lost")} DST --dtype`),
  ]);
});

it("a conversion of many says once how to convert and save the damaged ones", async () => {
  for (const name of ["blz", "carray", "whole"]) cpSync(at(name), at(`many-of/${name}`), { recursive: true });
  const blz = at("many-of/blz");
  const convert = `to convert what is intact: superchunk convert ${blz} ${at("all.zarr")}/blz --damaged fill`;
  const { code, err } = await runCli(["convert", at("many-of"), at("all.zarr")]);
  expect(code).toBe(3);
  expect(err.match(/not converted: /g)).toHaveLength(2);
  expect(err.split("\n").filter((line) => line.includes("--damaged"))).toEqual([
    `superchunk: 2 archives are damaged. For ${blz}, ${convert}, with the same options; to save what is intact in a copy: superchunk repair ${blz} DST --holes fill`,
  ]);
  const { code: alone } = await runCli(["convert", blz, `${at("all.zarr")}/blz`, "--damaged", "fill"]);
  expect(alone).toBe(3);
  const whole = await openArray(at("all.zarr/blz"));
  expect(rowsOf(await whole.getBytes())).toEqual(filled);
  await whole.close();
  const compared = await runCli(["convert", at("many-of"), at("all.zarr"), "--verify-only"]);
  expect([compared.code, compared.err]).toEqual([3, expect.not.stringContaining("--damaged")]);
  const json = await runCli(["convert", at("many-of"), at("npys"), "--to", "npy", "--json"]);
  expect(JSON.parse(json.out).advice).toContain(`superchunk convert ${blz} DST --to npy --damaged fill`);
  // The name of a Bloscpack file would choose that format instead of a place in the hierarchy.
  cpSync(at("rows.blp"), at("files-of/rows.blp"));
  cpSync(at("whole"), at("files-of/whole"), { recursive: true });
  const files = await runCli(["convert", at("files-of"), at("files.zarr")]);
  const [, own = ""] = /superchunk convert (\S+ \S+ --to zarr --damaged fill)/.exec(files.err) ?? [];
  expect((await runCli(["convert", ...own.split(" ")])).code).toBe(3);
  expect((await runCli(["info", at("files.zarr/rows.blp")])).out).toContain("zarr3");
});

it("an archive is named by the link that was typed, and not by what the link leads to", async () => {
  symlinkSync(at("rows.blp"), at("linked.blp"));
  symlinkSync(at("blz"), at("linked"));
  for (const [name, inside] of [
    ["linked.blp", ""],
    ["linked", "/data/__1__.bin"],
  ] as const) {
    const json = JSON.parse((await runCli(["verify", at(name), "--json"])).out);
    expect(json.archives[0].findings[0].path).toBe(`${at(name)}${inside}`);
    for (const argv of [["verify"], ["cat"], ["convert"]]) {
      const { out, err } = await runCli([...argv, at(name), ...(argv[0] === "convert" ? [at("l.npy")] : [])]);
      expect(out + err).toContain(`${at(name)}${inside}: chunk 2: `);
    }
  }
});

it("nothing is reported for a whole archive, and the exit code is 0", async () => {
  await runCli(["compress", at("rows.bin"), at("whole.blp")]);
  const { code, err, bytes } = await runCli(["cat", at("whole.blp"), "--damaged", "skip"]);
  expect([code, err, rowsOf(bytes)]).toEqual([0, "", [...ROWS]]);
});

it("the library returns the same list with what it opens", async () => {
  const reports: unknown[] = [];
  const array = await openArray(at("blz"), { damaged: "fill", onDamage: (report) => reports.push(report) });
  expect(rowsOf(await array.getBytes())).toEqual(filled);
  await array.close();
  expect(reports).toMatchObject([{ holes: [{ chunk: 2, from: 8, to: 12, code: "CHECKSUM_MISMATCH" }] }]);
});

it("info of a truncated file shows what its header says, and the damage", async () => {
  const whole = readFileSync(at("rows.blp"));
  writeFileSync(at("short.blp"), whole.subarray(0, whole.length - 100));
  const { code, out } = await runCli(["info", at("short.blp")]);
  expect([code, out]).toEqual([3, expect.stringMatching(/^nchunks +5$/m)]);
  expect(out).toMatch(/^chunkSize +32$[\s\S]*^checksum +"?adler32"?$[\s\S]*^DAMAGED {2}TRUNCATED: /m);
  const json = JSON.parse((await runCli(["info", at("short.blp"), "--json"])).out);
  expect(json).toMatchObject({ header: { version: 3, nchunks: 5 }, error: { code: "TRUNCATED" } });
});

it("an interrupted repair leaves nothing of its copy", async () => {
  const stop = new AbortController();
  const into = at("copy");
  const onProgress = (): void => {
    if (existsSync(into)) stop.abort(new Error("interrupted"));
  };
  await expect(repairArray(at("whole"), { into, signal: stop.signal, onProgress })).rejects.toThrow(
    "interrupted",
  );
  expect(existsSync(into)).toBe(false);
});

it("of many holes, neighbours share a line, only the first are listed, and JSON has all", async () => {
  writeFileSync(at("many.bin"), Float64Array.from({ length: 400 }));
  const from = ["--from", at("many.bin"), "--dtype", "<f8", "--chunklen", "4"];
  expect((await runCli(["create", at("many"), "--as", "carray", ...from])).code).toBe(0);
  const gone = Array.from({ length: 100 }, (_, i) => i).filter((i) => i < 30 || (i < 90 && i % 2 === 1));
  for (const chunk of gone) rmSync(at(`many/data/__${chunk}.blp`));
  const run = `chunks 0 to 29, rows 0 to 119; the first: ${at("many/data/__0.blp")}`;
  for (const [argv, word] of [
    [["repair", at("many"), at("new")], "bad"],
    [["repair", at("many"), "--dry-run"], "lost"],
    [["cat", at("many"), "--damaged", "skip"], "skipped"],
  ] as const) {
    const { code, err } = await runCli(argv);
    const lines = err.split("\n").filter((line) => line.includes(`${word}: `));
    expect([code, lines.length]).toEqual([3, 21]);
    expect(lines[0]).toContain(`${word}: ${run}`);
    expect(lines[1]).toContain(`${word}: chunk 31, rows 124 to 127: `);
    expect(lines[20]).toMatch(/: 11 more; .*--json"? lists all$/);
    expect(err).toMatch(/60 chunks (?:are missing or damaged, with 240 rows|skipped)/);
  }
  const { holes, lost } = JSON.parse((await runCli(["repair", at("many"), "--dry-run", "--json"])).out);
  expect([holes.length, lost.length]).toEqual([60, 60]);
  const { out } = await runCli(["verify", at("many")]);
  expect(out.match(/^ {2}error INCOMPLETE: /gm)).toHaveLength(20);
  expect(out).toContain("\n  40 more INCOMPLETE; --json lists all\n");
});

it("repair never advises to overwrite what another repair, or anything else, has left at its destination", async () => {
  const fill = ["--holes", "fill"];
  expect((await runCli(["repair", at("carray"), at("saved"), ...fill])).code).toBe(3);
  expect(await runCli(["repair", at("carray"), at("saved"), ...fill])).toMatchObject({
    code: 1,
    err: `superchunk: ${at("saved")}: the destination exists; name another\n`,
  });
  const record = at(".begun.blp.superchunk-convert.json");
  writeFileSync(
    record,
    '{"format": "superchunk-convert", "version": 2, "sources": ["elsewhere"], "options": {}}',
  );
  const { code, err } = await runCli(["repair", at("rows.blp"), at("begun.blp"), ...fill]);
  expect([code, err]).toEqual([
    1,
    expect.stringContaining(`${record}: an unfinished repair of another archive`),
  ]);
  expect(err).not.toContain("overwrite");
  rmSync(record);
  expect((await runCli(["repair", at("rows.blp"), at("begun.blp"), ...fill])).code).toBe(3);
});

it("repair says where the filled rows are named: in the copy of an archive, but not of a Zarr array", async () => {
  for (const [name, command] of [
    ["blz", "verify"],
    ["zarr", "chunks --missing"],
  ] as const) {
    const copy = at(`${name}-copy`);
    const { err } = await runCli(["repair", at(name), copy, "--holes", "fill"]);
    expect(err).toMatch(new RegExp(`^superchunk: filled: \\d rows; .*${command}`, "m"));
    const { out } = await runCli([...command.split(" "), copy]);
    expect(out).toMatch(name === "blz" ? /FILLED: .*rows 8 to 11/ : /^ +2 +8 .*c\/1$/m);
    expect((await runCli(["verify", copy])).out.includes("FILLED")).toBe(name === "blz");
  }
});

/** `chunks --map`: a character for each chunk, by the same sizes that `chunks --json` lists. */
import { cpSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { showsOnlyAscii } from "../../cli/output/output.ts";
import { corpusFolder } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";
import { runCli } from "./harness.ts";

const shadeOf = ({ nbytes, cbytes }: { nbytes: number; cbytes: number }): string =>
  ["░", "▒", "▓", "█"][Math.min(3, Math.floor((4 * cbytes) / nbytes))] ?? "";

it.each([
  ["ctable/bcolz-daily-equities", "volume"],
  ["bloscpack-3/array-f8.blp", undefined],
  ["blz-superchunk/f8-default", undefined],
])("the map of %s has the shade of each chunk", async (path, column) => {
  const args = [join(corpusFolder, path), ...(column === undefined ? [] : ["--column", column])];
  const listed = JSON.parse((await runCli(["chunks", ...args, "--json"])).out) as {
    nbytes: number;
    cbytes: number;
  }[];

  const { code, out } = await runCli(["chunks", ...args, "--map"]);

  expect(code).toBe(0);
  const shades = out.split("\n").find((line) => /^[█▓▒░]+$/.test(line));
  expect(shades).toBe(listed.map(shadeOf).join(""));
});

it("the map marks a chunk whose header is damaged, and shows the chunks after it", async () => {
  const folder = temporaryFolder();
  const path = join(folder, "damaged.bcolz");
  cpSync(join(corpusFolder, "ctable/bcolz-daily-equities"), path, { recursive: true });
  const file = join(path, "close/data/__1.blp");
  const bytes = readFileSync(file);
  bytes[16] = 0xff;
  writeFileSync(file, bytes);
  const count = readdirSync(join(path, "close/data")).length;

  const { code, out } = await runCli(["chunks", path, "--column", "close", "--map"]);

  const shades = [...(out.split("\n").find((line) => /^[█▓▒░×]+$/.test(line)) ?? "")];
  expect([shades.length, shades.indexOf("×"), shades.lastIndexOf("×")]).toEqual([count, 1, 1]);
  expect(out).toMatch(/× damaged/);
  expect(code).not.toBe(0);
});

it("the map marks only the damaged chunk of a file whose chunks are read together", async () => {
  const path = join(temporaryFolder(), "many.blp");
  await runCli(["compress", join(corpusFolder, "bloscpack-3/array-f8.blp"), path, "--chunk-size", "500"]);
  const chunks = JSON.parse((await runCli(["chunks", path, "--json"])).out) as { offset: number }[];
  const bytes = readFileSync(path);
  bytes[chunks[20]?.offset ?? 0] = 0xff;
  writeFileSync(path, bytes);

  const { code, out } = await runCli(["chunks", path, "--map"]);

  const shades = [...(out.split("\n").find((line) => line.includes("×")) ?? "")];
  expect([code, shades.length, shades.indexOf("×"), shades.lastIndexOf("×")]).toEqual([
    3,
    chunks.length,
    20,
    20,
  ]);
  expect(shades).not.toContain("·");
});

it("the map marks all chunks of a superchunk whose offsets are damaged", async () => {
  const path = join(temporaryFolder(), "a");
  await runCli(["create", path, "--dtype", "<i4", "--shape", "100000"]);
  const file = join(path, "data/__1__.bin");
  const bytes = readFileSync(file);
  // The offset of chunk 2 follows the header of 32 bytes and those of chunks 0 and 1.
  bytes[32 + 2 * 8 + 7] = 0x90;
  writeFileSync(file, bytes);
  const { code, out } = await runCli(["chunks", path, "--map"]);
  expect([code, out.split("\n")[0]]).toEqual([3, "×".repeat(25)]);
});

it("the map marks chunks that are not stored, and groups many chunks into one character", async () => {
  const { out } = await runCli(["chunks", join(corpusFolder, "zarr3-sharded/zp-u2-2d-missing"), "--map"]);
  expect(out).toContain("·");
  expect(out).toContain("· not stored");
  const { code, err } = await runCli([
    "chunks",
    join(corpusFolder, "bloscpack-3/array-f8.blp"),
    "--map",
    "--json",
  ]);
  expect([code, err]).toEqual([2, expect.stringContaining("--map is for people")]);
});

it("the maps of a folder share one legend, which explains every character in them", async () => {
  const { code, out } = await runCli(["chunks", join(corpusFolder, "carray"), "--map"]);
  expect(code).toBe(0);
  const lines = out.trimEnd().split("\n");
  const maps = lines.filter((line) => /^[█▓▒░]+$/.test(line));
  expect(maps.length).toBeGreaterThan(10);
  const legends = lines.filter((line) => line.startsWith("stored size: "));
  expect(legends).toEqual([lines.at(-1)]);
  const explained = [...(legends[0] ?? "")].filter((each) => "█▓▒░".includes(each));
  expect(explained.sort()).toEqual([...new Set(maps.join(""))].sort());
});

it("maps and plots are in ASCII where the locale's encoding is not UTF-8", async () => {
  for (const argv of [
    ["chunks", join(corpusFolder, "ctable/bcolz-daily-equities"), "--map"],
    ["cat", join(corpusFolder, "bloscpack-3/array-f8.blp"), "--plot"],
  ]) {
    const [shown, ascii] = [await runCli(argv), await runCli(argv, { isAscii: true })];
    expect(ascii.out).toMatch(/^[\x20-\x7e\n]*$/);
    expect(ascii.out.length).toBe(shown.out.length);
    expect(ascii.out).not.toBe(shown.out);
  }
  const locales = [{ LANG: "C" }, { LANG: "de_DE.UTF-8", LC_ALL: "POSIX" }, { LANG: "de_DE.ISO-8859-1" }];
  expect(locales.map(showsOnlyAscii)).toEqual([true, true, true]);
  const others = [{}, { LANG: "C.UTF-8" }, { LANG: "C", LC_ALL: "en_US.utf8" }, { LANG: "de_DE" }];
  expect(others.map(showsOnlyAscii)).toEqual([false, false, false, false]);
});

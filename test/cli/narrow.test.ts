import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import type { ArchiveFacts, ChunkFacts } from "../../cli/output/archive-facts.ts";
import { infoLines } from "../../cli/output/archive-text.ts";
import { foldLine } from "../../cli/output/layout.ts";
import { textWidth } from "../../cli/output/text-width.ts";
import { create } from "../../src/node/index.ts";
import { corpusFolder, loadArchives } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";
import { runCli } from "./harness.ts";

let folder = "";
beforeAll(() => {
  folder = temporaryFolder();
});
/** What a command prints on a terminal of so many columns; no line is wider. */
async function shownIn(columns: number, argv: readonly string[]): Promise<string> {
  const { out } = await runCli(argv, { terminal: true, columns });
  expect(out.split("\n").filter((line) => textWidth(line) > columns)).toEqual([]);
  return out;
}

const words = (text: string): string[] => text.split(/\s+/).filter((word) => word !== "");

describe("on a terminal of 80 columns", () => {
  const whole = loadArchives().filter(({ refuse }) => !refuse);

  it.each(whole.map(({ path }) => path))(
    "prints the chunks of %s with their numbers, files and digests",
    async (path) => {
      const argv = ["chunks", join(corpusFolder, path)];
      const shown = await shownIn(80, argv);
      const chunks = JSON.parse((await runCli([...argv, "--json"])).out) as {
        readonly file: string;
        readonly offset: number;
        readonly nbytes: number;
        readonly cbytes: number;
        readonly digest: string | null;
      }[];
      expect(shown).not.toBe("");
      const seen = new Set(words(shown));
      const joined = shown.replace(/\s/g, "");
      for (const { file, offset, nbytes, cbytes, digest } of chunks) {
        for (const number of [offset, nbytes, cbytes]) expect([...seen]).toContain(String(number));
        expect(shown).toContain(file.slice(-8));
        expect(joined).toContain(digest ?? "");
      }
    },
  );

  it("ls and verify put long values on separate lines", async () => {
    for (const [command, below] of [
      ["ls", "bloscpack-3"],
      ["verify", "zarr3-sharded"],
    ] as const) {
      const argv = [command, join(corpusFolder, below)];
      const shown = await shownIn(80 + corpusFolder.length, argv);
      expect(words(shown)).toEqual(words((await runCli(argv)).out));
      expect((await runCli(argv)).out.split("\n").length).toBeLessThan(shown.split("\n").length);
    }
  });

  it("info shows samples of dates, of numbers with all digits, and of many chunks below each other", async () => {
    const dtype = [
      ["a_column_with_a_long_name", "<M8[ns]"],
      ["tenths", "<f8"],
    ] as const;
    const path = join(folder, "samples");
    const made = await create(path, { dtype: dtype as never, chunkLength: 512 });
    await made.append(
      Array.from({ length: 9000 }, (_, i) => [1_420_070_400_123_456_789n + BigInt(i), 1e-300 + i * 1e-316]),
    );
    await made.close();
    const shown = await shownIn(80, ["info", path, "--sample"]);
    const whole = (await runCli(["info", path, "--sample"])).out;
    expect(words(shown.slice(shown.indexOf("sample")))).toEqual(words(whole.slice(whole.indexOf("sample"))));
    const ascii = await runCli(["info", path, "--sample"], { isAscii: true });
    expect(ascii.out).toMatch(/^[\x20-\x7e\n]*$/);
    expect(whole).toContain("▁▁");
    expect(ascii.out).toContain("__");
  });

  it("lists containers with a long prefix line by line", async () => {
    const set = join(folder, "set.json");
    const source = join(corpusFolder, "bloscpack-3", "array-i4-2d.blp");
    expect((await runCli(["virtualize", source, set, "--to", "kerchunk"])).code).toBe(0);
    const prefix = `file:///${"a".repeat(60)}/`;
    const added = ["containers", set, "--set", "far", "--prefix", prefix];
    expect(await shownIn(80, added)).toContain(`far\n  ${prefix}\n  local\n`);
  });

  it("prints the files that a link would change above their numbers", async () => {
    const argv = ["link", join(corpusFolder, "carray", "bcolz-f8-chunks"), "--dry-run"];
    const { out } = await runCli(argv, { terminal: true, columns: 80 });
    expect(out).toMatch(/__0\.blp\n +link {4}c\/0 /);
  });
});

it("in a pipe every archive and every chunk has one line, however long", async () => {
  const archives = join(corpusFolder, "bloscpack-3");
  const listed = JSON.parse((await runCli(["ls", archives, "--json"])).out) as { readonly path: string }[];
  const lines = async (...argv: string[]): Promise<string[]> =>
    (await runCli(argv)).out.trimEnd().split("\n");
  const shown = await lines("ls", archives);
  expect(shown.slice(1).map((line) => listed.filter(({ path }) => line.includes(path)).length)).toEqual(
    listed.map(() => 1),
  );
  expect(Math.max(...shown.map(textWidth))).toBeGreaterThan(80);
  const carray = join(corpusFolder, "carray", "bcolz-f8-chunks");
  const chunks = JSON.parse((await runCli(["chunks", carray, "--json"])).out) as readonly unknown[];
  expect(await lines("chunks", carray)).toHaveLength(1 + chunks.length);
});

it("a line is folded only if it is too wide", () => {
  expect(foldLine("ab", "cd", 3, 6)).toEqual(["ab  cd"]);
  expect(foldLine("ab", "cd", 3, 5)).toEqual(["ab", "   cd"]);
  expect(foldLine("ab", "cd", 3)).toEqual(["ab  cd"]);
});

it("info takes more columns than a call can have arguments", () => {
  const chunks = { nchunks: 0, cname: undefined } as unknown as ChunkFacts;
  const column = { dtype: "<i4", shape: [0], chunks, nbytes: 0, cbytes: 0, ratio: null };
  const columns = Array.from({ length: 150_000 }, (_, i) => ({ ...column, name: `c${i}` }));
  const facts = { path: "t", kind: "table", dialect: "ctable", dtype: null, shape: [0], chunks: null };
  const sizes = { nbytes: 0, cbytes: 0, ratio: null, fillValue: null, attrs: {}, warnings: [] };
  const lines = infoLines({ ...facts, ...sizes, columns } as unknown as ArchiveFacts);
  expect(lines.slice(-2)).toEqual([expect.stringMatching(/^c149998 /), expect.stringMatching(/^c149999 /)]);
});

/** Archives that cannot be referenced among others that can: left out and reported, and never half there. */
import { cp, mkdir, readFile, truncate } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { open } from "../../src/archive/open/open.ts";
import { streamReferences } from "../../src/references/plan/reference-stream.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { type FailedArchive, planReferences, type ReferencePlan } from "../../src/zarr.ts";
import { runCli } from "../cli/harness.ts";
import { putBloscpack } from "../convert/to-zarr/make-archive.ts";
import { corpusFolder } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";

const table = join(corpusFolder, "ctable", "bcolz-daily-equities");
let folder = "";
let tree = "";

beforeAll(async () => {
  folder = temporaryFolder();
  tree = join(folder, "tree");
  await mkdir(tree);
  await cp(join(corpusFolder, "bloscpack-3", "array-i4-2d.blp"), join(tree, "a.blp"));
  await cp(join(tree, "a.blp"), join(tree, "cut.blp"));
  await truncate(join(tree, "cut.blp"), 200);
  await cp(table, join(tree, "bad"), { recursive: true });
  await truncate(join(tree, "bad", "close", "data", "__1.blp"), 20);
  await cp(table, join(tree, "good"), { recursive: true });
});
describe("virtualize of a folder of archives", () => {
  it.each([
    ["JSON", "kerchunk", "set.json", "set.json"],
    ["Parquet", "kerchunk-parquet", "set.parq", "set.parq/.zmetadata"],
  ])(
    "to %s leaves damaged ones out whole, reports them at the end, and ends with 3",
    async (_, to, name, document) => {
      const report = join(folder, `${name}.report`);
      const args = ["virtualize", tree, join(folder, name), "--to", to, "--report", report];
      const { code, out, err } = await runCli(args);
      expect(code).toBe(3);
      expect(out).toContain("8 arrays, 2 not referenced: 24 references, 7 chunks stored");
      expect(err).toContain(`not referenced: ${join(tree, "bad", "close", "data", "__1.blp")}: chunk 1`);
      expect(err).toContain(`not referenced: ${join(tree, "cut.blp")}`);
      const text = await readFile(join(folder, document), "utf8");
      expect(text).toContain('"good/close/');
      expect(text).not.toMatch(/"(?:bad|cut)/);
      const { archives } = JSON.parse(await readFile(report, "utf8")) as {
        archives: Record<string, string>[];
      };
      expect(archives.map(({ node, status, code: why }) => [node, status, why])).toEqual([
        ["a.blp", "referenced", undefined],
        ["good", "referenced", undefined],
        ["bad", "failed", "TRUNCATED"],
        ["cut.blp", "failed", "TRUNCATED"],
      ]);
    },
  );

  it("writes nothing if all of them are damaged, and says so", async () => {
    const bad = join(folder, "all-bad");
    await mkdir(bad);
    for (const name of ["x.blp", "y.blp"]) await cp(join(tree, "cut.blp"), join(bad, name));
    const set = join(folder, "nothing.json");
    const { code, err } = await runCli(["virtualize", bad, set, "--to", "kerchunk"]);
    expect(code).toBe(3);
    expect(err).toContain("none of the archives can be referenced, so nothing is written");
    expect(err).toContain(join(bad, "y.blp"));
    await expect(readFile(set)).rejects.toThrow("ENOENT");
  });

  it("joined to one array fails as a whole: an array cannot have a gap", async () => {
    const set = join(folder, "joined.json");
    const sources = [join(tree, "a.blp"), join(tree, "cut.blp")];
    const { code } = await runCli(["virtualize", ...sources, set, "--to", "kerchunk", "--concat"]);
    expect(code).toBe(3);
    await expect(readFile(set)).rejects.toThrow("ENOENT");
  });
});

describe("a stream of references", () => {
  it("gives the same pieces for an archive with too many to keep, which is read twice", async () => {
    const store = new MemoryStore();
    const count = 100_000;
    await putBloscpack(store, "many.blp", new Uint8Array(count), 1, { dtype: "|u1", shape: [count] });
    const failures: FailedArchive[] = [];
    const pieces = async (settings: object): Promise<{ total: number; sum: number }> => {
      async function* plans(): AsyncGenerator<ReferencePlan> {
        const locate = (key: string): string => `file:///${key}`;
        yield await planReferences(await open(store, "many.blp"), { locate, guard: false });
      }
      const counts = { virtual: 0, padded: 0, recoded: 0, inlined: 0 };
      let sum = 0;
      for await (const item of streamReferences(plans(), counts, settings))
        if (item.kind === "virtual") sum += item.offset;
      return { total: counts.virtual, sum };
    };
    const plain = await pieces({});
    expect(plain.total).toBe(count);
    expect(await pieces({ onFailure: (failure: FailedArchive) => failures.push(failure) })).toEqual(plain);
    expect(failures).toEqual([]);
  });
});

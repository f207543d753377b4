/**
 * FORMAT.md, docs/writing.md and other documents with rules: every annotation of a dump is what the library decodes,
 * and every rule has a test.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { MemoryStore, open } from "../../src/index.ts";
import { repositoryRoot } from "../fixtures/manifest.ts";
import { describeDump } from "./dump-fields.ts";
import { parseDumps } from "./hexdump.ts";

const text = readFileSync(join(repositoryRoot, "FORMAT.md"), "utf8");
/** Rules outside the format: for our writers, for values in JavaScript, and for the command's JSON. */
const writing = ["writing.md", "library.md", "command.md"]
  .map((name) => readFileSync(join(repositoryRoot, "docs", name), "utf8"))
  .join("\n");
const dumps = parseDumps(text);

describe("dumps", () => {
  it("FORMAT.md has dumps", () => {
    expect(dumps.length).toBeGreaterThan(20);
  });

  it("each section about bytes ends with a dump", () => {
    const sections = text.split(/^## /m).slice(1);
    const without = sections
      .filter((section) => !/^```(?:hexdump|json) /m.test(section))
      .map((section) => section.split("\n")[0]);
    expect(sections.length).toBe(14);
    expect(without).toEqual(["14. Words"]);
  });

  it.each(dumps.map((dump) => [dump.line, dump.kind, dump] as const))(
    "the dump at line %i (%s) decodes to its annotations",
    async (_line, _kind, dump) => {
      const { fields, results } = await describeDump(dump);
      expect(dump.notes.map(({ length, name, value }) => [length, name, value])).toEqual(fields);
      expect(Object.fromEntries(dump.results)).toEqual(results);
    },
  );
});

describe("opens, and has the values that the text gives", () => {
  const at = dumps.findIndex(({ kind }) => kind === "storage");
  const [sizes, storage, superchunk] = dumps.slice(at - 1, at + 2);

  it("opens, and has the values that the text gives", async () => {
    const store = new MemoryStore();
    for (const [key, dump] of [
      ["meta/sizes", sizes],
      ["meta/storage", storage],
      ["data/__1__.bin", superchunk],
    ] as const)
      await store.put(key, dump?.bytes ?? new Uint8Array());
    const array = (await open(store)) as ArrayArchive;
    expect(await array.get()).toMatchObject({ data: Int16Array.of(1, 2, 3), shape: [3] });
    expect((await array.verify()).findings).toEqual([]);
  });
});

describe("rules", () => {
  const rules = [...`${text}\n${writing}`.matchAll(/^- \[(F[A-Z\d.]+-\d\d)\]/gm)].map(([, id = ""]) => id);
  const tests = readTests(join(repositoryRoot, "test"));
  const cited = new Set(
    tests.flatMap((source) => [...source.matchAll(/\[(F[A-Z\d.]+-\d\d)\]/g)].map(([, id = ""]) => id)),
  );

  it("there are rules and tests", () => {
    expect(rules.length).toBeGreaterThan(80);
    expect(tests.length).toBeGreaterThan(10);
  });

  it("no id is given twice", () => {
    expect(rules.filter((id, i) => rules.indexOf(id) !== i)).toEqual([]);
  });

  it("every rule is cited by a test", () => {
    expect(rules.filter((id) => !cited.has(id))).toEqual([]);
  });

  it("every MUST, and every rule with an error code, is tested on an archive that breaks it", () => {
    const code =
      /\b(?:BAD_MAGIC|BAD_FIELD|TRUNCATED|UNSUPPORTED|CHECKSUM_MISMATCH|BAD_CHUNK|INCOMPLETE|LIMIT|UNSAFE_PATH|STALE|CONFLICT)\b|\bMUST\b/;
    const strict = [...text.matchAll(/^- \[(F[A-Z\d.]+-\d\d)\] (.*)$/gm)].filter(([, , rule = ""]) =>
      code.test(rule),
    );
    const inFile = (name: string): string => readFileSync(join(repositoryRoot, "test", name), "utf8");
    const damaged = ["rules-damage", "rules-damage-folders", "rules-damage-zarr"]
      .map((name) => inFile(`format/${name}.test.ts`))
      .join("\n");
    const without = strict
      .map(([, id = ""]) => id)
      .filter(
        (id) => !damaged.includes(`[${id}]`) && !inFile(ELSEWHERE[id] ?? "scope.ts").includes(`[${id}]`),
      );
    expect(strict.length).toBeGreaterThan(80);
    expect(without).toEqual([]);
  });

  it("every id cited by a test, a source file or the text itself is a rule", () => {
    const sources = readTests(join(repositoryRoot, "src"));
    expect(sources.length).toBeGreaterThan(10);
    const all = [text, writing, ...sources].flatMap((source) =>
      [...source.matchAll(/\[(F[A-Z\d.]+-\d\d)\]/g)].map(([, id = ""]) => id),
    );
    expect([...new Set([...all, ...cited])].filter((id) => !rules.includes(id))).toEqual([]);
  });
});

/** Tests of rules that need a writer at work, objects that change, or a command. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  "FR-04": "format/rules-journal.test.ts",
  "FG-05": "format/rules-layout.test.ts",
  "FG-06": "format/rules-layout.test.ts",
  "FG-19": "places/places.test.ts",
  "FG-20": "places/places.test.ts",
  "FH-12": "zarr/numcodecs.test.ts",
  "FI-02": "scan/index.test.ts",
  "FI-03": "scan/index.test.ts",
  "FI-04": "scan/index.test.ts",
  "FI-05": "scan/index.test.ts",
  "FI-06": "scan/index.test.ts",
  "FI-07": "scan/index.test.ts",
  "FK-02": "cli/zarr.test.ts",
  "FV-02": "references/wrong-sets.test.ts",
  "FV-03": "references/containers.test.ts",
  "FV-05": "references/containers-command.test.ts",
  "FV-06": "references/guards.test.ts",
  "FV-08": "references/chunk-files.test.ts",
  "FX-01": "cli/failure.test.ts",
};

/** Texts of all TypeScript files under a folder, except this one. */
function readTests(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && !name.endsWith("format-md.test.ts"))
    .map((name) => readFileSync(join(folder, name), "utf8"));
}

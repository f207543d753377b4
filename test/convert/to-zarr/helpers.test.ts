/** Very many sources, of which helpers convert a share: the result is the same as without helpers. */
import { cpSync, readdirSync, readFileSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import type { ConvertOptions, ConvertResult } from "../../../src/convert/pipeline.ts";
import { convert, targetOf } from "../../../src/convert/run/convert.ts";
import type { Helper, Helpers } from "../../../src/convert/run/helpers.ts";
import { SuperchunkError } from "../../../src/errors.ts";
import { FileStore } from "../../../src/node/fs/fs-store.ts";
import { SourceHelper } from "../../../src/plan/source-helper.ts";
import { corpusFolder } from "../../fixtures/manifest.ts";
import { temporaryFolder } from "../../folder.ts";

const COUNT = 104;
const DAMAGED = ["050.blp", "099.blp"];
let tree: string;
/** The same tree converted by one thread. */
let alone: string;
let expected: ConvertResult;

beforeAll(async () => {
  tree = join(temporaryFolder(), "tree");
  for (let i = 0; i < COUNT; i++) {
    const name = `${i}`.padStart(3, "0");
    if (i % 2 === 0 || DAMAGED.includes(`${name}.blp`))
      cpSync(join(corpusFolder, "bloscpack-3", "array-f8.blp"), join(tree, "a", `${name}.blp`));
    else cpSync(join(corpusFolder, "carray", "bcolz-f8-chunks"), join(tree, "b", name), { recursive: true });
  }
  for (const name of DAMAGED) truncateSync(join(tree, "a", name), 9000);
  alone = join(temporaryFolder(), "alone.zarr");
  expected = await run(alone, undefined);
});

/** Helpers in this thread, with separate stores; `wrap` changes what they do. */
function helpersInto(
  to: string,
  wrap: (helper: Helper) => Helper | undefined,
  options: ConvertOptions,
): Helpers {
  return {
    count: 2,
    leastSources: COUNT,
    async start(isResumed) {
      const [source, store] = [new FileStore(tree), new FileStore(to)];
      const settings = { target: targetOf(), source, destination: { store, path: "" }, isResumed };
      return wrap(new SourceHelper({ ...settings, options: { ...options, skipFailed: true } }));
    },
  };
}

function run(to: string, helpers: Helpers | undefined, options: ConvertOptions = {}): Promise<ConvertResult> {
  const source = { store: new FileStore(tree), path: "" };
  return convert(source, { store: new FileStore(to) }, options, helpers);
}

/** All files below a folder, with their bytes. */
function contents(path: string): Map<string, string> {
  const files = readdirSync(path, { recursive: true, withFileTypes: true }).filter((each) => each.isFile());
  const names = files.map((each) => join(each.parentPath, each.name)).sort();
  return new Map(names.map((name) => [name.slice(path.length), readFileSync(name, "latin1")]));
}

/** What does not depend on who converted. */
function factsOf({ seconds: _, entries, ...rest }: ConvertResult): unknown {
  const plain = entries.map(({ result, ...entry }) => {
    const { seconds: __, verified: ___, ...facts } = { seconds: 0, verified: false, ...result };
    return { ...entry, facts };
  });
  return JSON.parse(JSON.stringify({ ...rest, entries: plain }));
}

describe("helpers", () => {
  test("make the same bytes and the same report for every source, in the order of the sources", async () => {
    const together = join(temporaryFolder(), "a.zarr");
    let handed = 0;
    const counting = (helper: Helper): Helper => ({
      run(sources, describes, signal) {
        handed += sources.length;
        return helper.run(sources, describes, signal);
      },
      finish: (signal) => helper.finish(signal),
    });
    const options = { verify: true };
    const { verified, ...found } = await run(together, helpersInto(together, counting, options), options);
    expect(verified).toBe(true);
    expect(handed).toBeGreaterThan(0);
    expect(expected.failed).toBe(DAMAGED.length);
    expect(factsOf({ ...found, verified: false })).toEqual(factsOf(expected));
    expect(contents(together)).toEqual(contents(alone));
  });

  test("that do not start, or leave sources undone, leave them to the caller", async () => {
    const lazy = (helper: Helper): Helper => ({
      run: async (sources) => sources.map(() => ({})),
      finish: (signal) => helper.finish(signal),
    });
    const to = join(temporaryFolder(), "a.zarr");
    let started = 0;
    const onlyFirst = (helper: Helper): Helper | undefined => (started++ === 0 ? lazy(helper) : undefined);
    expect(factsOf(await run(to, helpersInto(to, onlyFirst, {})))).toEqual(factsOf(expected));
    expect(contents(to)).toEqual(contents(alone));
  });

  test("end the conversion if the destination is full, and a later run continues", async () => {
    const to = join(temporaryFolder(), "a.zarr");
    const full = (helper: Helper): Helper => {
      let calls = 0;
      return {
        run(sources, describes, signal) {
          if (++calls > 1) throw new SuperchunkError("NO_SPACE", "the storage is full");
          return helper.run(sources, describes, signal);
        },
        finish: (signal) => helper.finish(signal),
      };
    };
    await expect(run(to, helpersInto(to, full, {}))).rejects.toMatchObject({ code: "NO_SPACE" });
    const names = (): string[] => readdirSync(to);
    expect(names()).toContain(".superchunk-convert.json");
    expect(names()).not.toContain("zarr.json");
    const result = await run(
      to,
      helpersInto(to, (helper) => helper, {}),
      { resume: true },
    );
    expect(result.converted).toBe(COUNT - DAMAGED.length);
    expect(contents(to)).toEqual(contents(alone));
  });

  test("stop when the conversion is aborted", async () => {
    const to = join(temporaryFolder(), "a.zarr");
    const controller = new AbortController();
    const stopping = (helper: Helper): Helper => ({
      async run(sources, describes, signal) {
        controller.abort(new Error("enough"));
        return helper.run(sources, describes, signal);
      },
      finish: (signal) => helper.finish(signal),
    });
    const { signal } = controller;
    await expect(run(to, helpersInto(to, stopping, {}), { signal })).rejects.toThrow("enough");
    expect(readdirSync(to)).not.toContain("zarr.json");
  });
});

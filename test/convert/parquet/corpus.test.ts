/** Every archive of the corpus becomes Parquet and Arrow, whatever the options; hyparquet and flechette read the same values. */
import { describe, expect, test } from "vitest";
import { MemoryStore } from "../../../src/store/memory.ts";
import { convert, planConversion } from "../../../src/zarr.ts";
import { loadArchives } from "../../fixtures/manifest.ts";
import { sweep } from "../../scope.ts";
import { openFixture } from "../to-zarr/read-back.ts";

const rows = loadArchives().filter(({ refuse }) => !refuse);
const OPTIONS = [
  {},
  { statistics: false },
  { compatible: true },
  { strings: "fixed", rowGroupRows: 1 },
] as const;

describe.each(rows.map(({ path }, i) => ({ path, i })))("$path", ({ path, i }) => {
  // The usual options, and one of the others.
  const options = sweep<readonly object[]>(OPTIONS, [OPTIONS[0], OPTIONS[1 + (i % 3)] ?? {}]);
  test.each(options)("has the same values as Parquet with %o", async (parquet) => {
    const source = await openFixture(path);
    const store = new MemoryStore();
    const options = { to: "parquet", parquet, verify: true } as const;
    const planned = { restream: 0, recode: 0 };
    for await (const { plan } of planConversion(source, { path: "out.parquet" }, options))
      for (const { action, count } of plan?.arrays.flatMap(({ runs = [] }) => runs) ?? [])
        planned[action as "recode"] += count;
    const result = await convert(source, { store, path: "out.parquet" }, options);
    expect(result).toMatchObject({ nbytes: source.nbytes, verified: true });
    const { chunksRestreamed: restream = 0, chunksRecoded: recode } = result;
    expect({ restream, recode }, "as planned").toEqual(planned);
    expect(await store.stat("out.parquet")).toBeDefined();
  });

  const strings = [{}, { strings: "fixed" }] as const;
  test.each(sweep<readonly object[]>(strings, [strings[i % 2] ?? {}]))(
    "has the same values as Arrow with %o",
    async (parquet) => {
      const source = await openFixture(path);
      const store = new MemoryStore();
      const options = { to: "arrow", parquet, verify: true } as const;
      const result = await convert(source, { store, path: "out.arrow" }, options);
      expect(result).toMatchObject({ nbytes: source.nbytes, verified: true });
    },
  );
});

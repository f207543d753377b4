/** Sets of references served as Zarr v3: what the set refers to, from where the caller allows it to be read. */
import { cp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { deflateSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import * as zarr from "zarrita";
import { type ServedView, serveView } from "../../../src/node/serve/serve.ts";
import { runCli } from "../../cli/harness.ts";
import { sha256 } from "../../convert/to-zarr/read-back.ts";
import { corpusFolder, findFixture } from "../../fixtures/manifest.ts";
import { temporaryFolder } from "../../folder.ts";
import { documentOf, readThroughView } from "../../view/read-view.ts";
import { ask } from "./ask.ts";

const TABLE = "ctable/bcolz-daily-equities";
let folder = "";
let tree = "";

beforeAll(async () => {
  folder = temporaryFolder();
  tree = join(folder, "tree");
  await cp(join(corpusFolder, TABLE), join(tree, "us", "equities"), { recursive: true });
  await cp(join(corpusFolder, "bloscpack-3", "array-f8.blp"), join(tree, "prices.blp"));
});

describe.each(["set.json", "set.parq"])("a served set (%s)", (name) => {
  let set = "";
  let served: ServedView;

  beforeAll(async () => {
    set = join(folder, name);
    expect((await runCli(["virtualize", tree, set])).code).toBe(0);
    served = await serveView([set], { allow: [tree] });
  });
  afterAll(() => served.close());

  it("has every array with the producer's values", async () => {
    const fixture = findFixture(TABLE);
    if (fixture.kind !== "table") throw new Error("no table");
    for (const column of fixture.names) {
      const { dtype = null, sha256: expected } = fixture.columns[column] ?? {};
      const bytes = await readThroughView(served.view, `${name}/us/equities/${column}`, dtype);
      expect([column, sha256(bytes)]).toEqual([column, expected]);
    }
    const store = new zarr.FetchStore(`${served.url}${name}/prices.blp`);
    const bytes = await readThroughView({ get: (key) => store.get(key as `/${string}`) }, "", "<f8");
    expect(sha256(bytes)).toBe(findFixture("bloscpack-3/array-f8.blp").sha256);
  });

  it("has consolidated documents of Zarr v3, of each group too, and a list for browsers", async () => {
    for (const [group, below] of [
      ["", `${name}/us/equities/close`],
      [name, "us/equities/close"],
      [`${name}/us/equities`, "close"],
    ] as const) {
      const document = await documentOf(served.view, group);
      expect(document).toMatchObject({ zarr_format: 3, node_type: "group" });
      const { metadata } = document["consolidated_metadata"] as { metadata: Record<string, object> };
      expect(metadata[below]).toMatchObject({
        zarr_format: 3,
        data_type: "uint32",
        dimension_names: ["row"],
      });
    }
    const page = await ask(served.url, "/", { accept: "text/html" });
    expect([page.status, page.bytes.toString()]).toEqual([200, expect.stringContaining(name)]);
  });

  it("is not shown by view, whose page cannot read what it refers to", async () => {
    await expect(serveView([set], { page: "only" })).rejects.toMatchObject({
      code: "UNSUPPORTED",
      message: expect.stringContaining("set of references"),
    });
  });

  it("has nothing under other names, and no Parquet files", async () => {
    for (const path of ["/zarr.json/c/0", `/${name}/prices.blp/c/3`, `/${name}/prices.blp/c/0/0`])
      expect([path, (await ask(served.url, path)).status]).toEqual([path, 404]);
    expect((await ask(served.url, `/${name}/prices.blp.parquet`)).status).toBe(404);
  });

  it("reads nothing that was not allowed, and reports this where it runs", async () => {
    const errors: string[] = [];
    const own = await serveView([set], { onError: (_, error) => errors.push(String(error)) });
    try {
      expect((await ask(own.url, `/${name}/prices.blp/zarr.json`)).status).toBe(200);
      const { status, bytes } = await ask(own.url, `/${name}/prices.blp/c/0`);
      expect(status).toBeGreaterThanOrEqual(400);
      expect(bytes.toString()).not.toContain(folder);
      expect(errors.join()).toContain("is not allowed");
    } finally {
      await own.close();
    }
  });
});

it("recompresses chunks whose codec has no name in Zarr v3", async () => {
  const set = join(folder, "zlib.json");
  const values = Int32Array.of(5, -6, 7);
  const chunk = deflateSync(new Uint8Array(values.buffer));
  const array = {
    zarr_format: 2,
    shape: [3],
    chunks: [3],
    dtype: "<i4",
    compressor: { id: "zlib", level: 1 },
  };
  const refs = {
    ".zgroup": JSON.stringify({ zarr_format: 2 }),
    "a/.zarray": JSON.stringify({ ...array, fill_value: 0, order: "C", filters: null }),
    "a/0": `base64:${chunk.toString("base64")}`,
  };
  await writeFile(set, JSON.stringify({ version: 1, refs }));
  const served = await serveView(set);
  try {
    const bytes = await readThroughView(served.view, "zlib.json/a", "<i4");
    expect(new Int32Array(bytes.slice().buffer)).toEqual(values);
  } finally {
    await served.close();
  }
});

/** docs/zarr.md: its examples run as written. */

import { cpSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { FileStore } from "../../src/node/fs/fs-store.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { createZarr } from "../../src/zarr/write/create.ts";
import { runCli } from "../cli/harness.ts";
import { commandsIn, makeFolder, readExamples, runCommand, runModule } from "../examples.ts";
import { findFixture } from "../fixtures/manifest.ts";

const examples = readExamples("docs/zarr.md", "js");
const ramp = Float64Array.from({ length: 200 }, (_, i) => i / 4);

/** A folder with `data.zarr/prices`, which is {@link ramp}. */
async function prepare(): Promise<string> {
  const folder = makeFolder();
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const layout = { shape: [200], dataType: "float64", chunkShape: [10], shardShape: [100] };
  const prices = await createZarr(new FileStore(join(folder, "data.zarr")), "prices", layout);
  await prices.set(null, ramp);
  return folder;
}

/** Runs the example that contains these words on the paths of a folder. */
function run(words: string, folder: string, before = "", exported = ""): Promise<Record<string, unknown>> {
  const code = examples.find((text) => text.includes(words)) ?? "";
  expect(code).not.toBe("");
  const prepared = code.replaceAll(/"(data\.zarr[^"]*|live)"/g, (_, path: string) =>
    JSON.stringify(join(folder, path)),
  );
  return runModule(`${before}\n${prepared}\nexport { ${exported} };`);
}

test("there are no other examples than those run here", () => {
  expect(examples.length).toBe(6);
});

test("reading", async () => {
  const { data, shape, ok, findings } = await run(
    "array.listChunks()",
    await prepare(),
    "const console = { log() {} };",
    "data, shape, ok, findings",
  );
  expect({ data, shape, ok, findings }).toEqual({
    data: ramp.slice(0, 100),
    shape: [100],
    ok: true,
    findings: [],
  });
});

test("reading into given memory", async () => {
  const { prices } = await run("SharedArrayBuffer", await prepare(), "", "prices");
  expect(Float64Array.from(prices as Float64Array)).toEqual(ramp);
});

test("slots of a shard that several workers fill", async () => {
  const before = `import { create, MemoryStore, openArray } from "superchunk";
    const store = new MemoryStore();
    const layout = { format: "zarr", dtype: "int16", shape: [50], chunkShape: [10], shardShape: [50] };
    await create(store, "a", { ...layout, specification: { indexLocation: "start" } });
    const values = Int16Array.from({ length: 10 }, (_, i) => i);`;
  const after = 'const { data } = await (await openArray(store, "a")).get(null);';
  const code = examples.find((text) => text.includes("shards.reserve")) ?? "";
  const { data } = await runModule(`${before}\n${code}\n${after}\nexport { data };`);
  const all = Array.from({ length: 50 }, (_, i) => (i >= 30 && i < 40 ? i - 30 : 0));
  expect(Array.from(data as Int16Array)).toEqual(all);
});

test("writing", async () => {
  const own = `import { MemoryStore } from "superchunk";
    const store = new MemoryStore();
    const values = Float64Array.from({ length: 1_000_000 }, (_, i) => i);`;
  const { array } = await run("shards.compact", await prepare(), own, "array");
  const { get } = array as { get(selection: unknown): Promise<{ data: Float64Array }> };
  const { data } = await get.call(array, [{ start: 3, stop: 12, step: 1 }]);
  expect([...data]).toEqual([3, 4, 0, 0, 0, 0, 0, 10, 11]);
});

test("an array that is a Zarr array while it grows", async () => {
  const folder = await prepare();
  await run('create("live"', folder);
  const array = await openZarrArray(new FileStore(join(folder, "live")), "");
  expect(await array.get()).toHaveProperty("data", Float64Array.of(1, 2, 3));
});

test("with zarrita", async () => {
  const folder = await prepare();
  const own = `import { FileStore } from "superchunk/node";
    const store = new FileStore(${JSON.stringify(join(folder, "data.zarr"))});
    const target = new FileStore(${JSON.stringify(join(folder, "copied.zarr"))});`;
  await run("zarritaStore(array)", folder, own);
  const copy = await openZarrArray(new FileStore(join(folder, "copied.zarr")), "copy");
  expect(await copy.get()).toHaveProperty("data", ramp);
});

test("the commands, one after the other", async () => {
  const folder = await prepare();
  const table = findFixture("ctable/bcolz-daily-equities").file;
  expect((await runCli(["convert", table, join(folder, "bundle.zarr")])).code).toBe(0);
  cpSync(join(folder, "bundle.zarr"), join(folder, "old.zarr"), { recursive: true });
  expect(
    (await runCli(["create", join(folder, "live"), "--dtype", "<f8", "--shape", "1000", "--zarr"])).code,
  ).toBe(0);
  const commands = readExamples("docs/zarr.md", "sh").flatMap(commandsIn);
  expect(commands.length).toBeGreaterThan(5);
  for (const command of commands) {
    const { code, err } = await runCommand(command, folder);
    expect([command, code, err]).toEqual([command, 0, expect.not.stringContaining("error")]);
  }
});

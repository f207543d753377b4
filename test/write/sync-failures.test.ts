import { join } from "node:path";
import { beforeEach, describe, expect, test, vi } from "vitest";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { create as createArray, edit as openWritable } from "../../src/node/edit.ts";
import { FileStore, open } from "../../src/node/index.ts";
import type { Editable } from "../../src/write/editable.ts";
import { createZarr } from "../../src/zarr/write/create.ts";
import { temporaryFolder } from "../folder.ts";
import { failSync, plan, type Synced } from "../node/fs/failing-sync.ts";
import { sweep } from "../scope.ts";

vi.mock("node:fs", async (load) => (await import("../node/fs/failing-sync.ts")).mockSyncs(load));

const NEVER = Number.POSITIVE_INFINITY;

beforeEach(() => failSync(NEVER));

const ramp = (first: number, count: number): Int32Array =>
  Int32Array.from({ length: count }, (_, i) => first + i);

function folder(): string {
  const root = temporaryFolder();
  return root;
}

const flush = (array: Editable): Promise<void> => array.flush();
const close = (array: Editable): Promise<void> => array.close();
const append = (array: Editable): Promise<void> => array.append(ramp(50, 13));
const setSome = (array: Editable): Promise<void> => array.set([{ start: 2, stop: 4, step: 1 }], -1);
const STEPS: readonly ((array: Editable) => Promise<void>)[] = [
  ...[append, flush, setSome, flush, (array: Editable) => array.resize(12), append, flush],
  ...[(array: Editable) => array.setAttributes({ unit: "EUR" }), flush, close],
];
/** These take values into memory, and promise nothing. */
const COLLECTING: readonly unknown[] = [append, setSome];

/**
 * Makes an array of ten rows in the folder, and takes all steps; the `failAt`th sync fails. Returns what that sync
 * was of, and the steps that failed.
 */
async function writeDespite(
  root: string,
  failAt: number,
  creation: { readonly zarr?: boolean },
  opening: { readonly modify?: "in-place" },
): Promise<{ readonly failed: Synced | undefined; readonly failures: readonly unknown[] }> {
  const made = await createArray(root, { dtype: "<i4", chunkLength: 4, superchunkLength: 2, ...creation });
  await made.append(ramp(0, 10));
  await made.close();
  const array = await openWritable(root, opening);
  failSync(failAt);
  const failures: unknown[] = [];
  for (const step of STEPS) {
    const mayBeLost = plan.failed === "named";
    const isDone = await step(array).then(
      () => true,
      () => false,
    );
    if (!isDone) failures.push(step);
    else if (mayBeLost) expect(COLLECTING).toContain(step);
  }
  const { failed } = plan;
  failSync(NEVER);
  return { failed, failures };
}

async function read(root: string): Promise<number[]> {
  const archive = (await open(root)) as ArrayArchive;
  try {
    expect((await archive.verify()).findings).toEqual([]);
    return [...((await archive.get()) as { data: Int32Array }).data];
  } finally {
    await archive.store.close?.();
  }
}

describe.runIf(process.platform === "linux").each([
  ["an array", {}, {}],
  ["an array changed in place", {}, { modify: "in-place" }],
  ["an array that is a Zarr array", { zarr: true }, {}],
] as const)("%s", (_name, creation, opening) => {
  test("has no successful flush after a failed sync, unless all data are written again", async () => {
    const sound = join(folder(), "a");
    expect(await writeDespite(sound, NEVER, creation, opening)).toEqual({ failed: undefined, failures: [] });
    const whole = await read(sound);
    const seen = { named: 0, new: 0 };
    for (let failAt = 1; ; failAt += sweep(1, 5)) {
      const root = join(folder(), "a");
      const { failed, failures } = await writeDespite(root, failAt, creation, opening);
      if (failed === undefined) break;
      seen[failed]++;
      await (await openWritable(root, opening)).close();
      const values = await read(root);
      if (failed === "new") {
        expect(failures.length).toBeLessThan(2);
        if (failures.every((step) => step === flush)) expect(values).toEqual(whole);
      }
    }
    expect(seen.named).toBeGreaterThan(sweep(5, 1));
    expect(seen.new).toBeGreaterThan(sweep(5, 1));
  }, 60_000);
});

test.runIf(process.platform === "linux")(
  "a Zarr array that was written to has one flush that fails, and none that succeeds after it",
  async () => {
    const root = folder();
    const layout = { shape: [64], dataType: "int32", chunkShape: [8], shardShape: [32] };
    const array = await createZarr(new FileStore(root), "a", layout);
    await array.set(null, ramp(0, 64));
    for (const at of [3, 40]) await array.set([at], -1, { strategy: "append" });
    failSync(1);
    const refused = { code: "IO", details: { field: "sync" } };
    await expect(array.flush()).rejects.toMatchObject(refused);
    await expect(array.flush()).rejects.toMatchObject(refused);
    await expect(array.set(null, 7)).rejects.toMatchObject(refused);
    await expect(array.flush()).rejects.toMatchObject(refused);
  },
);

test.runIf(process.platform === "linux")(
  "a Zarr array whose shard is published but not durable has no successful flush",
  async () => {
    const layout = { shape: [64], dataType: "int32", chunkShape: [8], shardShape: [32] };
    const array = await createZarr(new FileStore(folder()), "a", layout);
    failSync(1, "named");
    await expect(array.set([0], 7)).rejects.toMatchObject({ code: "IO" });
    await expect(array.flush()).rejects.toMatchObject({ code: "IO", details: { field: "sync" } });
  },
);

/** Failing storage, other writers, features of later versions. */
import * as fs from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { open as openIn } from "../../src/archive/open/open.ts";
import { decodeFileHeader } from "../../src/format/header.ts";
import { parseLayout } from "../../src/format/layout.ts";
import type { JsonObject } from "../../src/format/types.ts";
import * as node from "../../src/node/edit.ts";
import { open as openPath } from "../../src/node/index.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import type { WritableStore } from "../../src/store/types.ts";
import { interceptStore } from "../../src/store/wrappers/intercept.ts";
import { createArray, openWritable } from "../../src/write/array/create.ts";
import type { WritableArray } from "../../src/write/array/writable-array.ts";
import { imageOf } from "../crash/images.ts";
import { temporaryFolder } from "../folder.ts";
import { sweep } from "../scope.ts";
import { withCounting } from "../store/counting.ts";
import { withFaults } from "../store/faulty.ts";

const ramp = (first: number, count: number): Int32Array =>
  Int32Array.from({ length: count }, (_, i) => first + i);
const OPTIONS = { dtype: "<i4", chunkLength: 4, superchunkLength: 2 } as const;

async function valuesOf(store: WritableStore): Promise<number[]> {
  const bytes = await ((await openIn(store)) as ArrayArchive).getBytes();
  return [...new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4)];
}

async function started(): Promise<MemoryStore> {
  const store = new MemoryStore();
  const array = await createArray(store, "", OPTIONS);
  await array.append(ramp(0, 21));
  await array.close();
  return store;
}

/** Undefined if opening itself failed, as planned. */
async function openDespite(store: WritableStore, kind: string): Promise<WritableArray | undefined> {
  try {
    return await openWritable(store, "");
  } catch (error) {
    expect(error).toMatchObject({ code: kind === "error" ? "IO" : "NO_SPACE" });
    return undefined;
  }
}

/** Runs a step; if it fails as planned, once more. */
async function insist(step: () => Promise<unknown>, kind: string): Promise<void> {
  try {
    await step();
  } catch (error) {
    expect(error).toMatchObject({ code: kind === "error" ? "IO" : "NO_SPACE" });
    await step();
  }
}

describe.each(["no-space", "error"] as const)("a call that fails (%s)", (kind) => {
  test("loses no appended row: flushing again commits them all", async () => {
    let failures = 0;
    for (let failAt = 1; ; failAt += sweep(1, 3)) {
      const memory = await started();
      const faulty = withFaults(memory, { failAt, kind, counts: "writes" });
      const array = await openDespite(faulty.store, kind);
      if (array === undefined) continue;
      for (const step of [() => array.append(ramp(21, 30)), () => array.flush()]) {
        try {
          await step();
        } catch (error) {
          expect(error).toMatchObject({ code: kind === "error" ? "IO" : "NO_SPACE" });
          failures++;
        }
      }
      const committed = (await valuesOf(memory)).length;
      expect([21, 51]).toContain(committed);
      await insist(() => array.flush(), kind);
      expect(await valuesOf(memory)).toEqual([...ramp(0, 51)]);
      await insist(() => array.close(), kind);
      const writer = await openWritable(memory, "");
      await writer.abandon();
      expect((await ((await openIn(memory)) as ArrayArchive).verify()).findings).toEqual([]);
      if (!faulty.failed()) break;
    }
    expect(failures).toBeGreaterThan(sweep(3, 1));
  });

  test.each([
    ["resize", (a: WritableArray) => a.resize(6)],
    ["deleteRows", (a: WritableArray) => a.deleteRows(3, 9)],
    ["compact", (a: WritableArray) => a.compact({ chunkLength: 3 })],
  ])("leaves the array as it was, and usable: %s", async (_name, operation) => {
    for (let failAt = 1; ; failAt += sweep(1, 3)) {
      const memory = await started();
      const faulty = withFaults(memory, { failAt, kind, counts: "writes" });
      const array = await openDespite(faulty.store, kind);
      if (array === undefined) continue;
      let isDone = true;
      try {
        await operation(array);
      } catch (error) {
        expect(error).toMatchObject({ code: kind === "error" ? "IO" : "NO_SPACE" });
        isDone = false;
      }
      const before = await valuesOf(memory);
      expect(array.length).toBe(before.length);
      await array.append(ramp(1000, 1));
      await insist(() => array.flush(), kind);
      expect(await valuesOf(memory)).toEqual([...before, 1000]);
      await insist(() => array.close(), kind);
      if (isDone && !faulty.failed()) break;
    }
  });
});

test.each(["no-space", "error"] as const)("a creation that fails (%s) leaves nothing", async (kind) => {
  let failures = 0;
  for (let failAt = 1; ; failAt++) {
    const memory = new MemoryStore();
    const faulty = withFaults(memory, { failAt, kind, counts: "writes" });
    const making = createArray(faulty.store, "a", { ...OPTIONS, attrs: { unit: "m" }, shape: 20 });
    const error = await making.then((array) => array.close()).catch((error: unknown) => error);
    if (!faulty.failed()) break;
    const left = [...(await imageOf(memory)).keys()];
    // The copy of the declaration in meta/storage is also written by the next commit.
    const isWhole = error === undefined && left.includes("a/meta/storage");
    if (isWhole) continue;
    expect(error, `write ${failAt}`).toMatchObject({ code: kind === "error" ? "IO" : "NO_SPACE" });
    expect(left, `write ${failAt}`).toEqual([]);
    failures++;
  }
  expect(failures).toBeGreaterThan(3);
});

test("a creation that loses to another one leaves that array alone", async () => {
  const memory = new MemoryStore();
  const store = interceptStore(memory, {
    async onCall(call, proceed) {
      if (call.method === "put" && call.key === "meta/sizes")
        await (await createArray(memory, "", OPTIONS)).close();
      return proceed();
    },
    onSync: (_call, proceed) => proceed(),
    onList: () => undefined,
  });
  await expect(createArray(store, "", OPTIONS)).rejects.toMatchObject({ code: "CONFLICT" });
  expect(await valuesOf(memory)).toEqual([]);
});

test("of two writers without a lock the slower one gets CONFLICT, and the faster one loses nothing", async () => {
  const store = await started();
  const one = await openWritable(store, "");
  const two = await openWritable(store, "");
  await one.append(ramp(21, 9));
  await two.append(ramp(500, 9));
  await one.flush();
  await expect(two.flush()).rejects.toMatchObject({ code: "CONFLICT" });
  await expect(two.resize(3)).rejects.toMatchObject({ code: "CONFLICT" });
  await two.abandon();
  await one.append(ramp(30, 1));
  await one.close();
  expect(await valuesOf(store)).toEqual([...ramp(0, 31)]);
});

test("a writer that was presumed dead cannot commit what its successor has removed", async () => {
  const store = await started();
  const zombie = await openWritable(store, "");
  await zombie.append(ramp(21, 40)); // full superchunks are published, not committed
  await new Promise(setImmediate);
  const successor = await openWritable(store, "");
  await expect(zombie.flush()).rejects.toMatchObject({ code: "CONFLICT" });
  await zombie.abandon();
  await successor.append(ramp(21, 1));
  await successor.close();
  expect(await valuesOf(store)).toEqual([...ramp(0, 22)]);
});

async function changeStorage(
  store: MemoryStore,
  change: (declared: Record<string, unknown>) => void,
): Promise<void> {
  const storage = JSON.parse(new TextDecoder().decode(await store.get("meta/storage")));
  change(storage.superchunk);
  await store.put("meta/storage", new TextEncoder().encode(JSON.stringify(storage)));
}

test("[FZ-09] an unknown read feature is refused, an unknown write feature opens for reading only", async () => {
  const store = await started();
  await changeStorage(store, (declared) => {
    declared["writeFeatures"] = ["mirrors"];
  });
  expect((await valuesOf(store)).length).toBe(21);
  await expect(openWritable(store, "")).rejects.toMatchObject({
    code: "READ_ONLY",
    message: expect.stringContaining("mirrors"),
  });
  await changeStorage(store, (declared) => {
    declared["readFeatures"] = ["layout", "folding"];
  });
  await expect(openIn(store)).rejects.toMatchObject({
    code: "UNSUPPORTED",
    message: expect.stringContaining("folding"),
  });
  await expect(openWritable(store, "")).rejects.toMatchObject({ code: "UNSUPPORTED" });
});

test.each([
  ["checksum", "crc64"],
  ["reserve", "much"],
])(
  "[FZ-09] a damaged %s in the declaration is reported as damage to the file, not as a wrong argument",
  async (member, value) => {
    const store = await started();
    await changeStorage(store, (declared) => {
      declared[member] = value;
    });
    await expect(openWritable(store, "")).rejects.toMatchObject({
      code: "BAD_FIELD",
      details: { path: store.describe("meta/storage"), field: member, found: value },
    });
  },
);

test("[FG-08] every file is a version 3 file with spare offsets for the rest of a superchunk", async () => {
  const store = new MemoryStore();
  const array = await createArray(store, "", { ...OPTIONS, superchunkLength: 5 });
  for (const count of [3, 9, 22, 1]) {
    await array.append(ramp(0, count));
    await array.flush();
  }
  await array.set([3], 1);
  await array.flush();
  let files = 0;
  for (const [key, bytes] of await imageOf(store, "data")) {
    const header = decodeFileHeader(bytes, key);
    expect(header).toMatchObject({
      version: 3,
      metadata: false,
      offsets: true,
      checksum: "crc32",
      typesize: 4,
    });
    expect(header.nchunks + header.maxAppChunks).toBe(5);
    const view = new DataView(bytes.buffer, bytes.byteOffset);
    let at = 32 + 8 * 5;
    for (let i = 0; i < 5; i++) {
      const offset = view.getBigInt64(32 + 8 * i, true);
      expect(offset).toBe(i < header.nchunks ? BigInt(at) : -1n);
      if (i < header.nchunks) at += view.getUint32(at + 12, true) + 4;
    }
    expect(at).toBe(bytes.length);
    files++;
  }
  expect(files).toBe(4);
  await array.close();
});

test("[FG-09] superchunks are written before the commit that names them, and removed after the one that does not", async () => {
  const memory = await started();
  const log: string[] = [];
  const store = interceptStore(memory, {
    async onCall(call, proceed) {
      if (call.method === "put" || call.method === "delete") log.push(`${call.method} ${call.key}`);
      return proceed();
    },
    onSync: (_call, proceed) => proceed(),
    onList: () => undefined,
  });
  const array = await openWritable(store, "");
  await array.append(ramp(0, 4));
  await array.flush();
  await array.close();
  const put = log.findIndex((line) => line.startsWith("put data/"));
  const commit = log.indexOf("put meta/sizes");
  const removed = log.findIndex((line) => line.startsWith("delete data/"));
  expect(put).toBeGreaterThanOrEqual(0);
  expect(commit).toBeGreaterThan(put);
  expect(removed).toBeGreaterThan(commit);
});

test("[FG-10] a name is reused only after the start of an epoch that does not name it", async () => {
  const memory = new MemoryStore();
  const first = await createArray(memory, "", OPTIONS);
  await first.append(ramp(0, 40));
  await first.close();
  const epochOf = async (): Promise<number> => {
    const sizes = JSON.parse(new TextDecoder().decode(await memory.get("meta/sizes"))) as JsonObject;
    return parseLayout(sizes, "")?.epoch ?? -1;
  };
  /** The epoch in which each name was last written. */
  const made = new Map<string, number>();
  for await (const { name } of memory.list("data")) made.set(`data/${name}`, await epochOf());
  let reused = 0;
  const store = interceptStore(memory, {
    async onCall(call, proceed) {
      const key = call.method === "link" ? String(call.args[1]) : call.key;
      if ((call.method === "put" || call.method === "link") && key.startsWith("data/")) {
        const now = await epochOf();
        const before = made.get(key);
        if (before !== undefined) {
          expect(now, key).toBeGreaterThan(before);
          reused++;
        }
        made.set(key, now);
      }
      return proceed();
    },
    onSync: (_call, proceed) => proceed(),
    onList: () => undefined,
  });
  const array = await openWritable(store, "");
  await array.resize(9);
  await array.append(ramp(0, 30));
  await array.flush();
  await array.compact();
  await array.set([0], 5);
  await array.compact();
  await array.close();
  expect(reused).toBeGreaterThan(3);
});

test("opening an array of many superchunks reads three files", async () => {
  const memory = new MemoryStore();
  const array = await createArray(memory, "", {
    ...OPTIONS,
    chunkLength: 1,
    superchunkLength: 1,
    attrs: { a: 1 },
  });
  await array.append(ramp(0, 500));
  await array.close();
  const { store, counts } = withCounting(memory);
  await openIn(store);
  expect(counts.log.filter((line) => !line.endsWith("__rootdirs__")).sort()).toEqual([
    "get meta/attributes",
    "get meta/sizes",
    "get meta/storage",
  ]);
});

/** Works as a user who owns the folder and may not write everywhere; root drops its privileges for that. */
async function asNobody(folder: string, work: () => Promise<void>): Promise<void> {
  if (process.getuid?.() !== 0) return work();
  const nobody = 65534;
  for (const name of ["", ...fs.readdirSync(folder, { recursive: true })])
    fs.chownSync(join(folder, String(name)), nobody, nobody);
  process.seteuid?.(nobody);
  try {
    await work();
  } finally {
    process.seteuid?.(0);
  }
}

describe("in a folder", () => {
  let folder: string;
  beforeAll(() => {
    folder = temporaryFolder();
  });
  test("a second writer is refused, but not after the first has closed", async () => {
    const path = join(folder, "locked");
    const array = await node.create(path, OPTIONS);
    await expect(node.edit(path)).rejects.toMatchObject({
      code: "CONFLICT",
      details: { field: "lock" },
    });
    await array.append(ramp(0, 5));
    await array.close();
    await using again = await node.edit(path);
    expect(again.length).toBe(5);
  });

  test("a folder that vanishes is an error, not a new folder", async () => {
    const path = join(folder, "gone");
    const array = await node.create(path, OPTIONS);
    await array.append(ramp(0, 5));
    fs.rmSync(path, { recursive: true });
    await expect(array.flush()).rejects.toMatchObject({ code: "NOT_FOUND" });
    expect(fs.existsSync(path)).toBe(false);
    await array.abandon();
  });

  test("existing data are not overwritten unless requested", async () => {
    const path = join(folder, "taken");
    await (await node.create(path, { ...OPTIONS, shape: 7 })).close();
    await expect(node.create(path, OPTIONS)).rejects.toMatchObject({ code: "CONFLICT" });
    const array = await node.create(path, { ...OPTIONS, shape: 3, overwrite: true });
    expect(array.length).toBe(3);
    await array.close();
    expect(((await openPath(path)) as ArrayArchive).shape).toEqual([3]);
  });

  test("nothing is created if there is nothing to open", async () => {
    const path = join(folder, "nothing");
    await expect(node.edit(path)).rejects.toMatchObject({ code: "NOT_FOUND" });
    expect(fs.existsSync(path)).toBe(false);
  });

  test.skipIf(process.platform === "win32")(
    "a folder that becomes read-only is an error, nothing is lost, and once writable again all rows are there",
    async () => {
      const path = join(folder, "sealed");
      await (await node.create(path, { ...OPTIONS, shape: 9 })).close();
      const array = await node.edit(path);
      const all = ["data", "meta", "."].map((name) => join(path, name));
      await asNobody(folder, async () => {
        for (const part of all) fs.chmodSync(part, 0o555);
        await expect(array.append(ramp(0, 50))).rejects.toMatchObject({ code: "READ_ONLY" });
        await expect(array.flush()).rejects.toMatchObject({ code: "READ_ONLY" });
        await expect(node.edit(path, { breakLock: true })).rejects.toMatchObject({
          code: "READ_ONLY",
        });
        const reader = (await openPath(path)) as ArrayArchive;
        expect([...new Int32Array((await reader.getBytes()).slice().buffer)]).toEqual(Array(9).fill(0));
        await reader.close();
        for (const part of all) fs.chmodSync(part, 0o755);
        await array.flush();
      });
      await array.close();
      const values = (await ((await openPath(path)) as ArrayArchive).getBytes()).slice();
      expect([...new Int32Array(values.buffer)]).toEqual([...Array(9).fill(0), ...ramp(0, 50)]);
    },
  );

  test("data made by other compressors and threads are read back", async () => {
    for (const cname of ["zstd", "zlib", "lz4hc"] as const) {
      const path = join(folder, cname);
      const array = await node.create(path, {
        dtype: "<i4",
        chunkLength: 40_000,
        superchunkLength: 4,
        threads: 2,
        compressor: { cname },
      });
      for (let i = 0; i < 20; i++) await array.append(ramp(i * 33_333, 33_333));
      await array.close();
      const reader = (await openPath(path)) as ArrayArchive;
      const bytes = await reader.getBytes();
      expect(new Int32Array(bytes.buffer, bytes.byteOffset, 666_660).every((value, i) => value === i)).toBe(
        true,
      );
      expect((await reader.verify()).findings).toEqual([]);
    }
  });
});

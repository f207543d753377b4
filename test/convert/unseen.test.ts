/** Data that were not compared are not shown, whatever the target; every object leaves a receipt. */

import { describe, expect, test } from "vitest";
import { findArchives } from "../../src/archive/open/discover.ts";
import { open } from "../../src/archive/open/open.ts";
import { crc32c } from "../../src/bytes/checksum.ts";
import { hiddenKey } from "../../src/convert/run/conversion-store.ts";
import { SuperchunkError } from "../../src/errors.ts";
import { openArray } from "../../src/index.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import type { ObjectHead, WritableStore } from "../../src/store/types.ts";
import { interceptStore } from "../../src/store/wrappers/intercept.ts";
import { openZarr } from "../../src/zarr/read/open.ts";
import { type ConvertFormat, type ConvertSource, convert, type Receipt } from "../../src/zarr.ts";
import { sample } from "../scope.ts";
import { putCarray } from "./to-zarr/make-archive.ts";
import { keysOf } from "./to-zarr/read-back.ts";

const values = new Uint8Array(Float64Array.from({ length: 1000 }, (_, i) => i / 7).buffer);

async function makeArchive(store = new MemoryStore(), data = values): Promise<ConvertSource> {
  await putCarray(store, "a", data, 100, { dtype: "float64", shape: [1000] });
  return open(store, "a");
}

/** The same values as Zarr v2, whose chunks are copied as stored. */
async function makeZarr(store = new MemoryStore(), data = values): Promise<ConvertSource> {
  const document = { zarr_format: 2, shape: [1000], chunks: [100], dtype: "<f8", order: "C", fill_value: 0 };
  const text = JSON.stringify({ ...document, filters: null, compressor: null });
  await store.put("z/.zarray", new TextEncoder().encode(text));
  for (let i = 0; i < 10; i++) await store.put(`z/${i}`, data.slice(i * 800, (i + 1) * 800));
  return openZarr(store, "z");
}

/** What a reader would take for a finished result. */
const VISIBLE =
  /(?:^|\/)(?:zarr\.json|out(?:\.\w+)?|meta\/(?:sizes|storage)|__rootdirs__|[^/]*\.array\.json)$/;

interface Watched {
  readonly store: WritableStore;
  /** Keys that became visible, in their order, and `read` where values were read back. */
  readonly events: string[];
}

/** Changes a byte of data that were read. */
function damage(read: unknown): void {
  const bytes = read instanceof Uint8Array ? read : (read as Partial<ObjectHead> | undefined)?.bytes;
  if (bytes !== undefined && bytes.length > 200) bytes[150] = (bytes[150] ?? 0) ^ 0x55;
}

/** A destination that records what becomes visible, and that can return bytes other than it was given. */
function watch(inner: MemoryStore, isDamaged: boolean): Watched {
  const events: string[] = [];
  const store = interceptStore(inner, {
    async onCall({ method, key, args }, proceed) {
      const name = method === "rename" ? String(args[1]) : key;
      if ((method === "put" || method === "rename") && VISIBLE.test(name)) events.push(name);
      const result = await proceed();
      if (!["get", "getRange", "readInto", "getHead", "getHeads"].includes(method)) return result;
      if (!/convert\.json$/.test(key)) events.push("read");
      if (isDamaged) damage(method === "readInto" ? args[2] : result);
      return result;
    },
    onSync({ args }, proceed) {
      events.push("read");
      const result = proceed();
      if (isDamaged) damage(args[2]);
      return result;
    },
    onList: () => undefined,
  });
  return { store, events };
}

const CASES: readonly (readonly [string, typeof makeArchive, ConvertFormat])[] = [
  ["an archive", makeArchive, "zarr"],
  ["a Zarr array", makeZarr, "zarr"],
  ["an archive", makeArchive, "zarr3-transformer"],
  ...(["npy", "bloscpack", "bcolz", "blz", "b2nd"] as const).flatMap((to) => [
    ["an archive", makeArchive, to] as const,
    ["a Zarr array", makeZarr, to] as const,
  ]),
];

describe.each(CASES)("%s", (_, source, to) => {
  test(`as ${to} becomes visible only after it was read back, if that is requested`, async () => {
    const { store, events } = watch(new MemoryStore(), false);
    const result = await convert(await source(), { store, path: "out" }, { to, verify: true });
    expect(result).toMatchObject({ converted: 1, verified: true, nbytes: 8000 });
    const shown = events.findIndex((event) => event !== "read");
    expect(events.slice(0, shown).filter((event) => event === "read").length).toBeGreaterThan(0);
    expect(events.slice(shown)).not.toHaveLength(0);
  });

  test(`as ${to} is never shown with values other than the source's`, async () => {
    const inner = new MemoryStore();
    const { store, events } = watch(inner, true);
    await expect(convert(await source(), { store, path: "out" }, { to, verify: true })).rejects.toMatchObject(
      {
        name: "SuperchunkError",
      },
    );
    expect(events.filter((event) => event !== "read")).toEqual([]);
  });

  test.each([false, true])(
    `as ${to} is not shown if it was replaced meanwhile; verify: %j`,
    async (verify) => {
      const store = new MemoryStore();
      const inner = new MemoryStore();
      const opened = await source(store);
      let written = 0;
      const replacing = interceptStore(inner, {
        async onCall({ method, key }, proceed) {
          const isData = /^(?:put|write|append|create)/.test(method) && !key.endsWith("convert.json");
          if (isData && written++ === 0) await source(store, values.toReversed());
          return proceed();
        },
        onSync: (_, proceed) => proceed(),
        onList: () => undefined,
      });
      await expect(convert(opened, { store: replacing, path: "out" }, { to, verify })).rejects.toMatchObject({
        code: "STALE",
        message: expect.stringContaining("was replaced, or has grown"),
      });
      expect(written).toBeGreaterThan(0);
      expect((await keysOf(inner)).filter((key) => VISIBLE.test(key))).toEqual([]);
    },
  );

  test(`as ${to} leaves a receipt for every object, with its size and the crc32c of its bytes`, async () => {
    const store = new MemoryStore();
    const receipts: Receipt[] = [];
    const onReceipt = (receipt: Receipt): void => void receipts.push(receipt);
    await convert(await source(), { store, path: "out" }, { to, verify: true, onReceipt });
    expect(receipts.length).toBeGreaterThan(0);
    for (const { key, size, crc32c: sum } of receipts) {
      const bytes = await store.get(key);
      expect(bytes?.length).toBe(size);
      expect((await crc32c(bytes ?? new Uint8Array())).toString(16).padStart(8, "0")).toBe(sum);
    }
    expect(new Set(receipts.map(({ key }) => key)).size).toBe(receipts.length);
  });
});

test("a file that a conversion has not compared yet is not found as an archive", async () => {
  const store = new MemoryStore();
  await convert(await makeArchive(), { store, path: "d/x.blp" }, { to: "bloscpack" });
  await store.rename("d/x.blp", hiddenKey("d/x.blp"));
  for await (const { path } of findArchives(store, "d")) throw new Error(path);
  await store.rename(hiddenKey("d/x.blp"), "d/x.blp");
  const found: string[] = [];
  for await (const { path } of findArchives(store, "d")) found.push(path);
  expect(found).toEqual(["d/x.blp"]);
});

test("an error of a file that is not shown yet names the destination", async () => {
  const inner = new MemoryStore();
  const store = interceptStore(inner, {
    async onCall({ method, key }, proceed) {
      if (method === "put" && key === hiddenKey("out.npy"))
        throw new SuperchunkError("LIMIT", "the file is too large", {
          path: inner.describe(key),
          found: "EFBIG",
        });
      return proceed();
    },
    onList: () => undefined,
  });
  await expect(
    convert(await makeArchive(), { store, path: "out.npy" }, { to: "npy", verify: true }),
  ).rejects.toMatchObject({
    code: "LIMIT",
    message: `${inner.describe("out.npy")}: the file is too large`,
    details: { found: "EFBIG" },
  });
});

// Both hold it in the same way.
test.each(sample(["bloscpack", "b2nd"] as const, 1))(
  "what does not fit into memory is held in a scratch object, and is not shown: %s",
  async (to) => {
    const source = new MemoryStore();
    const data = new Uint8Array(66 << 20);
    for (let at = 0; at < data.length; at += 4096) data.fill(at >> 12, at, at + 4096);
    const shape = [data.length];
    await putCarray(source, "a", data, 1 << 20, { dtype: "uint8", shape, encode: { clevel: 0 } });
    const inner = new MemoryStore();
    const { store } = watch(inner, false);
    const options = { to, verify: true };
    const report = await convert(await open(source, "a"), { store, path: "out" }, options);
    expect(report).toMatchObject({ converted: 1, verified: true });
    expect(await keysOf(inner)).toEqual(["out"]);
    expect(report.bytesWritten).toBe((await inner.stat("out"))?.size);
    const made = await openArray(inner, "out");
    expect(made.shape).toEqual(shape);
    expect(Buffer.compare(await made.getBytes(), data)).toBe(0);
  },
);

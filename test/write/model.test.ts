/** Random operations on an array, next to a model of it in memory. */

import { expect, test } from "vitest";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/archive/open/open.ts";
import { parseDType } from "../../src/format/dtype.ts";
import { CHECKSUM_NAMES } from "../../src/format/header.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { createArray, openWritable } from "../../src/write/array/create.ts";
import type { WritableArray } from "../../src/write/array/writable-array.ts";
import { randomFrom } from "../crash/random.ts";
import fc from "../property.ts";
import { sweep } from "../scope.ts";
import { VolatileStore } from "../store/volatile.ts";

const DTYPES = [
  "<i4",
  ">i2",
  "|b1",
  "<f8",
  ">f4",
  "<c8",
  "|S3",
  "<U2",
  "<M8[ns]",
  "|V5",
  "|u1",
  "<f2",
  [
    ["a", "<i4"],
    ["b", "|S2"],
  ],
  [
    ["a", ">f8", [2]],
    ["b", "|u1"],
    ["c", "<c16"],
  ],
] as const;

const SETTINGS = fc.record({
  dtype: fc.constantFrom(...DTYPES),
  rowShape: fc.constantFrom([], [], [3], [2, 2], [0]),
  chunkLength: fc.integer({ min: 1, max: 9 }),
  superchunkLength: fc.integer({ min: 1, max: 5 }),
  checksum: fc.constantFrom(...CHECKSUM_NAMES),
  cname: fc.constantFrom("lz4", "blosclz", "lz4hc", "snappy", "zlib", "zstd"),
  shuffle: fc.constantFrom("noshuffle", "shuffle", "bitshuffle"),
  clevel: fc.integer({ min: 0, max: 9 }),
  columns: fc.boolean(),
  reserve: fc.constantFrom(undefined, undefined, 8, "30%" as const),
  modify: fc.constantFrom("patch" as const, "in-place" as const),
});

const AMOUNT = fc.integer({ min: 0, max: 60 });
const OPERATION = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant("append" as const), rows: AMOUNT }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("flush" as const) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("resize" as const), rows: AMOUNT }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("delete" as const), start: AMOUNT, count: AMOUNT }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("set" as const),
      start: AMOUNT,
      count: AMOUNT,
      step: fc.integer({ min: 1, max: 9 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("compact" as const),
      chunklen: fc.option(fc.integer({ min: 1, max: 9 }), { nil: undefined }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("reopen" as const) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("crash" as const),
      steps: fc.integer({ min: 0, max: 12 }),
      seed: fc.nat(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("read" as const) }) },
);

/** Bytes that fit any dtype: a bool has only two values, and a character of U must be one of Unicode. */
function someBytes(length: number, seed: number): Uint8Array {
  const random = randomFrom(seed);
  return Uint8Array.from({ length }, () => (random() < 0.5 ? 0 : 1));
}

type Operation = typeof OPERATION extends fc.Arbitrary<infer T> ? T : never;
type Settings = typeof SETTINGS extends fc.Arbitrary<infer T> ? T : never;

class Model {
  rows: Uint8Array[] = [];
  committed: Uint8Array[] = [];

  bytes(): string {
    return Buffer.concat(this.rows).toString("hex");
  }
}

async function copy(store: MemoryStore, folder = ""): Promise<[string, Uint8Array][]> {
  const list: [string, Uint8Array][] = [];
  for await (const { name, kind } of store.list(folder)) {
    const key = folder === "" ? name : `${folder}/${name}`;
    if (kind === "folder") list.push(...(await copy(store, key)));
    else list.push([key, (await store.get(key)) ?? new Uint8Array(0)]);
  }
  return list;
}

async function play(settings: Settings, operations: readonly Operation[]): Promise<void> {
  const { dtype, rowShape, cname, shuffle, clevel, modify, ...cut } = settings;
  const { itemSize } = parseDType(dtype as never, "");
  const rowBytes = rowShape.reduce((product, n) => product * n, itemSize);
  let store = new MemoryStore();
  let array: WritableArray = await createArray(store, "", {
    ...cut,
    dtype: dtype as never,
    shape: [0, ...rowShape],
    compressor: { cname, shuffle, clevel } as never,
    fillValue: null,
    modify,
  });
  const model = new Model();
  const isDate = dtype === "<M8[ns]";
  const filler = new Uint8Array(rowBytes);
  if (isDate) for (let at = 7; at < rowBytes; at += 8) filler[at] = 0x80;
  let seed = 0;
  const apply = async (
    target: WritableArray,
    rows: Uint8Array[],
    operation: Operation,
  ): Promise<Uint8Array[]> => {
    seed++;
    switch (operation.kind) {
      case "append": {
        if (rowBytes === 0) return rows;
        const bytes = someBytes(operation.rows * rowBytes, seed);
        await target.append(bytes);
        return [
          ...rows,
          ...Array.from({ length: operation.rows }, (_, i) => bytes.slice(i * rowBytes, (i + 1) * rowBytes)),
        ];
      }
      case "resize":
        await target.resize(operation.rows);
        return Array.from({ length: operation.rows }, (_, i) => rows[i] ?? filler);
      case "delete": {
        const start = Math.min(operation.start, rows.length);
        const end = Math.min(start + operation.count, rows.length);
        await target.deleteRows(start, end);
        return [...rows.slice(0, start), ...rows.slice(end)];
      }
      case "set": {
        const start = Math.min(operation.start, rows.length);
        const stop = Math.min(start + operation.count, rows.length);
        const indices: number[] = [];
        for (let i = start; i < stop; i += operation.step) indices.push(i);
        if (rowBytes === 0) return rows;
        const bytes = someBytes(indices.length * rowBytes, seed);
        await target.set([{ start, stop, step: operation.step }], bytes);
        const next = [...rows];
        indices.forEach((index, i) => {
          next[index] = bytes.slice(i * rowBytes, (i + 1) * rowBytes);
        });
        return next;
      }
      case "compact":
        await target.compact(
          operation.chunklen === undefined ? {} : { chunkLength: operation.chunklen, superchunkLength: 3 },
        );
        return rows;
      default:
        return rows;
    }
  };
  for (const operation of operations) {
    switch (operation.kind) {
      case "flush":
        await array.flush();
        break;
      case "reopen":
        await array.close();
        array = await openWritable(store, "", { modify });
        break;
      case "read":
        expect(Buffer.from(await array.getBytes()).toString("hex")).toBe(model.bytes());
        break;
      case "crash": {
        // Everything is committed, then the power fails a few steps into the next change.
        await array.flush();
        await array.abandon();
        const random = randomFrom(operation.seed);
        const dying = new VolatileStore(await copy(store), { failAt: operation.steps + 1, random });
        const kinds = ["append", "resize", "delete", "set", "compact"] as const;
        const kind = kinds[operation.seed % kinds.length] ?? "append";
        const change = { kind, rows: 30, start: 3, count: 20, step: 2, chunklen: undefined } as Operation;
        let changed: Uint8Array[] | undefined;
        try {
          const target = await openWritable(dying, "", { modify });
          changed = await apply(target, model.rows, change);
          await target.flush();
          await target.abandon();
        } catch (error) {
          if (!dying.isDead) throw error;
        }
        store = new MemoryStore(dying.image());
        const reader = (await open(store)) as ArrayArchive;
        const found = Buffer.from(await reader.getBytes()).toString("hex");
        if (found !== model.bytes() || reader.shape[0] !== model.rows.length) {
          seed--;
          const scratch = await createArray(new MemoryStore(), "", {
            ...cut,
            dtype: dtype as never,
            shape: [0, ...rowShape],
          });
          if (rowBytes > 0) for (const row of model.rows) await scratch.append(row);
          else await scratch.resize(model.rows.length);
          const expected = changed ?? (await apply(scratch, model.rows, change));
          expect(found).toBe(Buffer.concat(expected).toString("hex"));
          model.rows = expected;
        }
        array = await openWritable(store, "", { modify });
        break;
      }
      default:
        model.rows = await apply(array, model.rows, operation);
    }
    expect(array.length).toBe(model.rows.length);
  }
  expect(Buffer.from(await array.getBytes()).toString("hex")).toBe(model.bytes());
  await array.close();
  const reader = (await open(store)) as ArrayArchive;
  expect(reader.shape).toEqual([model.rows.length, ...rowShape]);
  expect(Buffer.from(await reader.getBytes()).toString("hex")).toBe(model.bytes());
  expect((await reader.verify()).findings).toEqual([]);
}

test("an array matches a list of rows through any operations, reopenings and crashes", async () => {
  await fc.assert(
    fc.asyncProperty(SETTINGS, fc.array(OPERATION, { maxLength: 20 }), async (settings, operations) => {
      await play(settings, operations);
      expect(true).toBe(true);
    }),
    { numRuns: Number(process.env["MODEL_RUNS"] ?? sweep(300, 30)) },
  );
});

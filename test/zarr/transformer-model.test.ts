/** The sharding transformer's store against a plain map of keys, by random calls, sequential and concurrent. */

import { expect, test } from "vitest";
import { MemoryStore } from "../../src/store/memory.ts";
import { createTransformerArray, ShardingTransformer } from "../../src/zarr/transformer.ts";
import fc from "../property.ts";
import { sweep } from "../scope.ts";

const [ROWS, COLUMNS] = [5, 7];
const PREFIX = "data/root/a";
const PLAIN = ["meta/root/a.array.json", "data/root/ab/c0/0", `${PREFIX}/c`, `${PREFIX}/x/c1/1`, "c0/0"];

type Call =
  | { readonly kind: "set"; readonly key: string; readonly value: Uint8Array }
  | { readonly kind: "write"; readonly parts: readonly (readonly [string, number, Uint8Array])[] }
  | { readonly kind: "erase"; readonly keys: readonly string[] }
  | { readonly kind: "erasePrefix"; readonly prefix: string };

const value = fc.uint8Array({ maxLength: 9 });

function keysFor(separator: "/" | "."): fc.Arbitrary<string> {
  const chunk = fc
    .tuple(fc.nat(ROWS - 1), fc.nat(COLUMNS - 1))
    .map(([row, column]) => `${PREFIX}/c${row}${separator}${column}`);
  return fc.oneof({ weight: 5, arbitrary: chunk }, fc.constantFrom(...PLAIN));
}

const prefixesOf = (key: fc.Arbitrary<string>): fc.Arbitrary<string> =>
  fc.tuple(key, fc.nat(40)).map(([of, length]) => of.slice(0, length));

function callOf(key: fc.Arbitrary<string>): fc.Arbitrary<Call> {
  return fc.oneof(
    { weight: 4, arbitrary: fc.record({ kind: fc.constant("set" as const), key, value }) },
    {
      weight: 3,
      arbitrary: fc.record({
        kind: fc.constant("write" as const),
        parts: fc.array(fc.tuple(key, fc.nat(12), value), { maxLength: 4 }),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({ kind: fc.constant("erase" as const), keys: fc.array(key, { maxLength: 4 }) }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ kind: fc.constant("erasePrefix" as const), prefix: prefixesOf(key) }),
    },
  );
}

function applyToMap(map: Map<string, Uint8Array>, call: Call): void {
  if (call.kind === "set") map.set(call.key, call.value);
  else if (call.kind === "erase") for (const key of call.keys) map.delete(key);
  else if (call.kind === "erasePrefix") {
    for (const key of [...map.keys()]) if (key.startsWith(call.prefix)) map.delete(key);
  } else {
    for (const [key, start, bytes] of call.parts) {
      const old = map.get(key) ?? new Uint8Array(0);
      const grown = new Uint8Array(Math.max(old.length, start + bytes.length));
      grown.set(old);
      grown.set(bytes, start);
      map.set(key, grown);
    }
  }
}

async function applyToStore(store: ShardingTransformer, call: Call): Promise<void> {
  if (call.kind === "set") await store.set(call.key, call.value);
  else if (call.kind === "erase") await store.eraseValues(call.keys);
  else if (call.kind === "erasePrefix") await store.erasePrefix(call.prefix);
  else await store.setPartialValues(call.parts);
}

async function listed(keys: AsyncIterable<string>): Promise<string[]> {
  const found: string[] = [];
  for await (const key of keys) found.push(key);
  return found.sort();
}

function makeTransformer(inner: MemoryStore, separator: "/" | "."): ShardingTransformer {
  const settings = { prefix: PREFIX, chunksPerShard: [2, 3], chunkCounts: [ROWS, COLUMNS], separator };
  return new ShardingTransformer(inner, settings);
}

test.each(["/", "."] as const)(
  "[FK-03] any sequence of calls gives the same as a map of keys, separator %s",
  async (separator) => {
    const key = keysFor(separator);
    await fc.assert(
      fc.asyncProperty(
        fc.array(callOf(key), { maxLength: 12 }),
        fc.array(fc.tuple(key, fc.nat(10), fc.nat(10)), { minLength: 1, maxLength: 8 }),
        fc.array(prefixesOf(key), { minLength: 1, maxLength: 4 }),
        async (calls, ranges, prefixes) => {
          const map = new Map<string, Uint8Array>();
          const inner = new MemoryStore();
          for (const call of calls) {
            // Nothing is remembered between calls: another store on the same objects makes the next one.
            await applyToStore(makeTransformer(inner, separator), call);
            applyToMap(map, call);
          }
          const store = makeTransformer(inner, separator);
          expect(await listed(store.list())).toEqual([...map.keys()].sort());
          for (const [at, found] of map) expect(await store.get(at)).toEqual(found);
          expect(
            await store.getPartialValues(ranges.map(([at, offset, length]) => [at, { offset, length }])),
          ).toEqual(ranges.map(([at, offset, length]) => map.get(at)?.slice(offset, offset + length)));
          expect(
            await store.getPartialValues(ranges.map(([at, suffixLength]) => [at, { suffixLength }])),
          ).toEqual(
            ranges.map(([at, length]) =>
              map.get(at)?.slice(Math.max(0, (map.get(at)?.length ?? 0) - length)),
            ),
          );
          for (const prefix of prefixes) {
            const below = [...map.keys()].filter((each) => each.startsWith(prefix)).sort();
            expect(await listed(store.listPrefix(prefix))).toEqual(below);
            const folder = prefix.slice(0, prefix.lastIndexOf("/") + 1);
            const direct = [...map.keys()]
              .filter((each) => each.startsWith(folder))
              .map((each) => each.slice(folder.length));
            expect(await store.listDir(folder)).toEqual({
              keys: direct
                .filter((each) => !each.includes("/"))
                .map((each) => folder + each)
                .sort(),
              prefixes: [
                ...new Set(
                  direct
                    .filter((each) => each.includes("/"))
                    .map((each) => folder + each.slice(0, each.indexOf("/") + 1)),
                ),
              ].sort(),
            });
          }
        },
      ),
      { numRuns: sweep(150, 10) },
    );
  },
);

test("concurrent calls, from several stores on the same objects, lose and mix nothing", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.uniqueArray(fc.tuple(keysFor("/"), value, fc.boolean()), {
        selector: ([at]) => at,
        minLength: 2,
        maxLength: 6,
      }),
      fc.scheduler(),
      async (writes, scheduler) => {
        const inner = new MemoryStore();
        const before = makeTransformer(inner, "/");
        const first = writes.map(([at], i) => [at, Uint8Array.of(200, i)] as const);
        for (const [at, bytes] of first) await before.set(at, bytes);
        const paced = new Proxy(inner, {
          get(target, name) {
            const member = Reflect.get(target, name, target) as unknown;
            if (typeof member !== "function") return member;
            if (name !== "stat" && name !== "getRange" && name !== "put")
              return member.bind(target) as unknown;
            return (...call: unknown[]) =>
              scheduler
                .schedule(Promise.resolve(), String(name))
                .then(() => Reflect.apply(member, target, call) as unknown);
          },
        });
        const work = writes.flatMap(([at, bytes, isPart], i) => {
          const store = makeTransformer(paced, "/");
          return [
            isPart ? store.setPartialValues([[at, 1, bytes]]) : store.set(at, bytes),
            makeTransformer(paced, "/")
              .get(at)
              .then((found) => {
                const old = Uint8Array.of(200, i);
                const grown = Uint8Array.from([200, ...bytes, ...old.slice(1 + bytes.length)]);
                expect([[...old], [...(isPart ? grown : bytes)]]).toContainEqual([...(found ?? [])]);
              }),
          ];
        });
        await scheduler.waitFor(Promise.all(work));
        const map = new Map<string, Uint8Array>(first);
        for (const [key, bytes, isPart] of writes)
          applyToMap(
            map,
            isPart ? { kind: "write", parts: [[key, 1, bytes]] } : { kind: "set", key, value: bytes },
          );
        const store = makeTransformer(inner, "/");
        for (const [at, bytes] of map) expect(await store.get(at)).toEqual(bytes);
      },
    ),
    { numRuns: sweep(30, 10) },
  );
});

test("[FK-03] a number that no double can hold names no chunk, and is never the key of another one", async () => {
  const inner = new MemoryStore();
  const store = new ShardingTransformer(inner, { prefix: "a", chunksPerShard: [2], chunkCounts: [4] });
  await store.set(`a/c${2n ** 53n}`, Uint8Array.of(1));
  await store.set(`a/c${2n ** 53n + 1n}`, Uint8Array.of(2));
  expect(await store.get(`a/c${2n ** 53n}`)).toEqual(Uint8Array.of(1));
  expect(await store.get(`a/c${2n ** 53n + 1n}`)).toEqual(Uint8Array.of(2));
});

test("impossible ranges and places are refused, and never reach into the next chunk", async () => {
  const store = new ShardingTransformer(new MemoryStore(), {
    prefix: "a",
    chunksPerShard: [2],
    chunkCounts: [4],
  });
  await store.set("a/c0", Uint8Array.of(1, 2));
  await store.set("a/c1", Uint8Array.of(3, 4));
  await store.set("a/c3", Uint8Array.of(5, 6));
  // Chunk 3 is in the second shard, and no object has its own key.
  for (const range of [
    { offset: -1, length: 1 },
    { offset: 0, length: -1 },
    { offset: Number.NaN, length: 1 },
    { suffixLength: -1 },
  ])
    await expect(store.getPartialValues([["a/c3", range]])).rejects.toMatchObject({
      code: "BAD_ARGUMENT",
      details: { path: "memory:a/c1" },
    });
  await expect(store.setPartialValues([["a/c1", 2 ** 52, Uint8Array.of(1)]])).rejects.toMatchObject({
    code: "LIMIT",
  });
  await expect(store.setPartialValues([["a/c3", -1, Uint8Array.of(1)]])).rejects.toMatchObject({
    code: "BAD_ARGUMENT",
    details: { path: "memory:a/c1" },
  });
  expect(await store.get("a/c1")).toEqual(Uint8Array.of(3, 4));
});

test.each([
  [{ prefix: "" }, "BAD_ARGUMENT", "prefix"],
  [{ prefix: "a/../b" }, "UNSAFE_PATH", "key"],
  [{ chunksPerShard: [0] }, "BAD_ARGUMENT", "chunksPerShard"],
  [{ chunksPerShard: [Number.NaN] }, "BAD_ARGUMENT", "chunksPerShard"],
  [{ chunksPerShard: [], chunkCounts: [] }, "BAD_ARGUMENT", "chunksPerShard"],
  [{ chunkCounts: [1, 1] }, "BAD_ARGUMENT", "chunkCounts"],
  [{ chunkCounts: [-1] }, "BAD_ARGUMENT", "chunkCounts"],
  [{ chunksPerShard: [2 ** 40] }, "LIMIT", "chunksPerShard"],
  [{ separator: "-" as "/" }, "BAD_ARGUMENT", "separator"],
])("contradictory settings are refused: %j", (change, code, field) => {
  const settings = { prefix: "a", chunksPerShard: [2], chunkCounts: [4], ...change };
  let error: unknown;
  try {
    new ShardingTransformer(new MemoryStore(), settings);
  } catch (caught) {
    error = caught;
  }
  expect(error).toMatchObject({ code, details: { field } });
});

test("an array that cannot be made is named by its own path, not by that of its document", async () => {
  const spec = { shape: [4], chunkShape: [2], dataType: "int32" } as never;
  const create = (more: object) =>
    createTransformerArray(new MemoryStore(), "", "g/a", { ...(spec as object), ...more } as never);
  await expect(create({ attributes: { filters: [] } })).rejects.toMatchObject({
    code: "UNSUPPORTED",
    details: { path: "memory:g/a" },
  });
});

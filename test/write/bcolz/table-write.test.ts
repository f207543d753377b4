/** Tables are created and changed such that bcolz and we read the same, also after power failures. */
import { cpSync, existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { TableArchive } from "../../../src/archive/kinds/types.ts";
import { open } from "../../../src/archive/open/open.ts";
import { parseDType } from "../../../src/format/dtype.ts";
import { FileStore } from "../../../src/node/index.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import { createTable } from "../../../src/write/bcolz/bcolz-create.ts";
import { addColumn, deleteColumn, renameColumn } from "../../../src/write/bcolz/table-columns.ts";
import { imageOf } from "../../crash/images.ts";
import { randomFrom } from "../../crash/random.ts";
import { loadArchives } from "../../fixtures/manifest.ts";
import { temporaryFolder } from "../../folder.ts";
import { sweep } from "../../scope.ts";
import { withCounting } from "../../store/counting.ts";
import { VolatileStore } from "../../store/volatile.ts";
import {
  appendRows,
  changeAttributes,
  changed,
  numbered,
  rejectionOf,
  resizeRows,
  trimRows,
} from "../foreign-support.ts";
import { seeTable } from "./bcolz-rules.ts";

const SIZES = { id: 4, price: 8, tag: 3, more: 2, cost: 8 };
const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");

/** Rows `from` to `to` of each column. */
const rows = (from: number, to: number): Record<"id" | "price" | "tag", Uint8Array> => ({
  id: numbered((to - from) * 4, from * 4),
  price: numbered((to - from) * 8, from * 8),
  tag: numbered((to - from) * 3, from * 3),
});
const hexRows = (count: number): Record<string, string> =>
  Object.fromEntries(Object.entries(rows(0, count)).map(([name, bytes]) => [name, hexOf(bytes)]));

async function made(count: number): Promise<MemoryStore> {
  const store = new MemoryStore();
  const { id, price, tag } = rows(0, count);
  await createTable(store, "", [
    { name: "id", dtype: parseDType("<i4", "test"), data: id, options: { chunkLength: 8 } },
    {
      name: "price",
      dtype: parseDType("<f8", "test"),
      data: price,
      options: { chunkLength: 5, fillValue: 1.5 },
    },
    { name: "tag", dtype: parseDType("|S3", "test"), data: tag, options: { chunkLength: 32 } },
  ]);
  return store;
}

/** Rows of each column, as its own metadata count them. */
async function lengthsOf(store: MemoryStore, names: readonly string[]): Promise<readonly number[]> {
  const lengths: number[] = [];
  for (const name of names) lengths.push(JSON.parse(await text(store, `${name}/meta/sizes`)).shape[0]);
  return lengths;
}

/**
 * What we read of all columns; bcolz's rules see the same. The only errors allowed are one for each column longer
 * than the shortest. [FT-03]
 */
async function read(store: MemoryStore): Promise<Record<string, string>> {
  const table = (await open(store, "")) as TableArchive;
  const seen: Record<string, string> = {};
  for (const name of table.names) {
    const column = table.column(name);
    seen[name] = hexOf(await column.readBytes(0, column.nbytes));
  }
  const longer = (await lengthsOf(store, table.names)).filter((length) => length > table.length);
  const { ok, findings } = await table.verify();
  const errors = findings.filter(({ severity }) => severity === "error");
  expect(errors.map(({ code }) => code)).toEqual(longer.map(() => "INCOMPLETE"));
  expect(ok).toBe(longer.length === 0);
  for (const { message } of errors) expect(message).toContain(`resize memory: ${table.length}"`);
  expect(await seeTable(store, "", SIZES)).toEqual(seen);
  return seen;
}

const text = async (store: MemoryStore, key: string): Promise<string> =>
  new TextDecoder().decode(await store.get(key));

describe("rows", () => {
  it("a created table has its columns, as bcolz writes them", async () => {
    const store = await made(20);
    expect(await read(store)).toEqual(hexRows(20));
    expect(await text(store, "__rootdirs__")).toBe('{"names": ["id", "price", "tag"]}\n');
    expect(await text(store, "__attrs__")).toBe("{}\n");
    expect((await rejectionOf(createTable(store, "", []))).code).toBe("CONFLICT");
  });

  it.each([1, 5, 12, 100])("%i rows are appended to all columns", async (count) => {
    const store = await made(20);
    const result = await appendRows(store, "", rows(20, 20 + count));
    expect(result).toEqual({ rows: 20 + count, rowsAppended: count });
    expect(await read(store)).toEqual(hexRows(20 + count));
  });

  it("columns of different lengths, missing and unknown ones are refused, and nothing is appended", async () => {
    const store = await made(20);
    for (const columns of [
      { ...rows(20, 60), tag: numbered(9) },
      { id: numbered(4), price: numbered(8) },
      { ...rows(20, 21), other: numbered(1) },
    ]) {
      const error = await rejectionOf(appendRows(store, "", columns as never));
      expect(error.code).toBe("BAD_ARGUMENT");
      expect(await read(store)).toEqual(hexRows(20));
    }
    const numbers = [...(await imageOf(store)).keys()].filter((key) => /id\/data/.test(key));
    expect(numbers.length).toBe(3);
    const wrong = createTable(new MemoryStore(), "", [
      { name: "a", dtype: parseDType("<i4", "test"), data: numbered(8) },
      { name: "b", dtype: parseDType("<i4", "test"), data: numbered(12) },
    ]);
    expect((await rejectionOf(wrong)).code).toBe("BAD_ARGUMENT");
  });

  it("rows are cut off all columns, and default values are appended to them", async () => {
    const store = await made(20);
    await trimRows(store, "", 13);
    expect(await read(store)).toEqual(hexRows(7));
    await resizeRows(store, "", 9);
    const table = (await open(store, "")) as TableArchive;
    expect(await table.column("price").get([8])).toBe(1.5);
    await read(store);
  });

  it("every table of the corpus takes its own rows again", async () => {
    const tables = loadArchives().filter(({ path, refuse }) => path.startsWith("ctable/") && !refuse);
    expect(tables.length).toBeGreaterThan(3);
    for (const { file, path } of tables) {
      const folder = temporaryFolder();
      try {
        cpSync(file, folder, { recursive: true });
        const store = new FileStore(folder);
        const before = (await open(store, "")) as TableArchive;
        const columns: Record<string, Uint8Array> = {};
        for (const name of before.names) columns[name] = await before.column(name).getBytes();
        await appendRows(store, "", columns);
        const after = (await open(store, "")) as TableArchive;
        expect([after.length, after.names, after.attrs], path).toEqual([
          2 * before.length,
          before.names,
          before.attrs,
        ]);
        for (const name of before.names) {
          const bytes = columns[name] ?? new Uint8Array(0);
          expect(hexOf(await after.column(name).getBytes()), path).toBe(hexOf(Buffer.concat([bytes, bytes])));
        }
      } finally {
        rmSync(folder, { recursive: true });
      }
    }
  });
});

const MORE = {
  name: "more",
  dtype: parseDType("<i2", "test"),
  data: numbered(40),
  options: { chunkLength: 7 },
};

describe("columns", () => {
  it("keep the folder without which bcolz opens no column if one of a table without rows is renamed", async () => {
    const folder = temporaryFolder();
    const store = new FileStore(folder);
    await createTable(store, "", [
      { name: "id", dtype: parseDType("<i4", "test"), data: new Uint8Array(0) },
      { name: "tag", dtype: parseDType("|S3", "test"), data: new Uint8Array(0) },
    ]);
    await renameColumn(store, "", "id", "key");
    expect(existsSync(join(folder, "key/data"))).toBe(true);
    expect(existsSync(join(folder, "id"))).toBe(false);
  });

  it("are added at their position, removed and renamed, with their attributes", async () => {
    const store = await made(20);
    await changeAttributes(store, "price", { set: { unit: "EUR" } });
    await addColumn(store, "", MORE, { position: 1 });
    expect(Object.keys(await read(store))).toEqual(["id", "more", "price", "tag"]);
    await renameColumn(store, "", "price", "cost");
    const seen = await read(store);
    expect(Object.keys(seen)).toEqual(["id", "more", "cost", "tag"]);
    expect(seen["cost"]).toBe(hexRows(20)["price"]);
    expect(((await open(store, "")) as TableArchive).column("cost").attrs).toEqual({ unit: "EUR" });
    await deleteColumn(store, "", "id");
    expect(Object.keys(await read(store))).toEqual(["more", "cost", "tag"]);
    expect([...(await imageOf(store)).keys()].filter((key) => /^(?:id|price)\//.test(key))).toEqual([]);
  });

  it("names that bcolz does not accept, that exist, or that do not exist are refused", async () => {
    const store = await made(20);
    const code = async (promise: Promise<unknown>): Promise<string> => (await rejectionOf(promise)).code;
    for (const name of ["_a", "1a", "a b", "..", "a/b", ""])
      expect(await code(renameColumn(store, "", "id", name))).toBe("BAD_ARGUMENT");
    expect(await code(renameColumn(store, "", "id", "tag"))).toBe("CONFLICT");
    expect(await code(renameColumn(store, "", "x", "y"))).toBe("NOT_FOUND");
    expect(await code(addColumn(store, "", { ...MORE, name: "id" }))).toBe("CONFLICT");
    expect(await code(addColumn(store, "", { ...MORE, data: numbered(38) }))).toBe("BAD_ARGUMENT");
    expect(await read(store)).toEqual(hexRows(20));
    await deleteColumn(store, "", "id");
    await deleteColumn(store, "", "tag");
    expect(await code(deleteColumn(store, "", "price"))).toBe("BAD_ARGUMENT");
  });
});

describe("a power cut before every step", () => {
  const pick = (seen: Record<string, string>): string => JSON.stringify(seen);
  const afterwards = async (change: (store: MemoryStore) => Promise<unknown>): Promise<string> => {
    const store = await made(20);
    await change(store);
    return pick(await read(store));
  };

  it.each([
    ["append", "FT-05", (store: MemoryStore | VolatileStore) => appendRows(store, "", rows(20, 43))],
    ["trim", "FT-05", (store: MemoryStore | VolatileStore) => trimRows(store, "", 13)],
    ["grow", "FT-05", (store: MemoryStore | VolatileStore) => resizeRows(store, "", 31)],
    [
      "set",
      "FT-05",
      (store: MemoryStore | VolatileStore) =>
        changed(store, "", (table) =>
          table.set([{ start: 3, stop: 12, step: 4 }], { id: 7, price: 0.5, tag: "x" }),
        ),
    ],
    [
      "delete rows",
      "FT-05",
      (store: MemoryStore | VolatileStore) => changed(store, "", (table) => table.deleteRows(6, 9)),
    ],
    ["add a column", "FT-06", (store: MemoryStore | VolatileStore) => addColumn(store, "", MORE)],
    ["delete a column", "FT-06", (store: MemoryStore | VolatileStore) => deleteColumn(store, "", "price")],
    [
      "rename a column",
      "FT-06",
      (store: MemoryStore | VolatileStore) => renameColumn(store, "", "price", "cost"),
    ],
  ] as const)(
    "[FT-05] [FT-06] %s leaves the old table or the new one, to bcolz and to us (%s)",
    async (what, _rule, change) => {
      const start = [...(await imageOf(await made(20)))];
      const old = pick(hexRows(20));
      const after = await afterwards(change);
      const found = new Set<string>();
      let between = 0;
      for (let seed = 0; seed < 2; seed++) {
        for (let failAt = 1; ; failAt += sweep(1, 5)) {
          const disk = new VolatileStore(start, { failAt, random: randomFrom(seed * 1000 + failAt) });
          const done = await change(disk).then(
            () => true,
            () => false,
          );
          const image = disk.image();
          const store = new MemoryStore(image);
          const next = new MemoryStore(image);
          if (what === "set" || what === "delete rows") {
            // bcolz sees right rows, maybe fewer; the next writer completes what was begun.
            await seeTable(next, "", SIZES);
            await changed(next, "", async () => undefined);
          }
          const finished = withCounting(what === "set" || what === "delete rows" ? next : store);
          const seen = pick(await read(finished.store as unknown as MemoryStore));
          expect(done ? [after] : [old, after], `cut at ${failAt}`).toContain(seen);
          expect(finished.counts.writes).toBe(0);
          found.add(seen);
          const left = finished.store as unknown as MemoryStore;
          const { names: columns } = (await open(left, "")) as TableArchive;
          if (new Set(await lengthsOf(left, columns)).size > 1) between++;
          // The next writer continues, whatever was left.
          const names = ((await open(next, "")) as TableArchive).names;
          const more = Object.fromEntries(
            names.map((name) => [name, numbered(3 * SIZES[name as keyof typeof SIZES])]),
          );
          await appendRows(next, "", more);
          for (const [name, hex] of Object.entries(await read(next)))
            expect(hex.endsWith(hexOf(more[name] ?? new Uint8Array(1))), `cut at ${failAt}`).toBe(true);
          if (!disk.isDead) break;
        }
      }
      expect([...found].sort()).toEqual([old, after].sort());
      // No order makes the files of several columns change together: where rows are added or removed there are states
      // in between, and verify reports them.
      if (["append", "trim", "grow"].includes(what)) expect(between).toBeGreaterThan(0);
      else expect(between).toBe(0);
    },
  );
});

/** Carrays are created and changed such that bcolz and we read the same, also after power failures. */

import { cpSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { ArrayArchive } from "../../../src/archive/kinds/types.ts";
import { open } from "../../../src/archive/open/open.ts";
import { joinBytes } from "../../../src/bytes/arrays.ts";
import { parseDType } from "../../../src/format/dtype.ts";
import { joinMembers, splitMembers } from "../../../src/format/json.ts";
import { FileStore } from "../../../src/node/index.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import { type CarrayOptions, createCarray, createTable } from "../../../src/write/bcolz/bcolz-create.ts";
import { chooseChunklen, numpyName } from "../../../src/write/bcolz/carray-settings.ts";
import type { Editable } from "../../../src/write/editable.ts";
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
import { seeCarray } from "./bcolz-rules.ts";

const SEVENS = new Uint8Array(4).fill(7);
const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");
const text = async (store: MemoryStore, key: string): Promise<string> =>
  new TextDecoder().decode(await store.get(key));

const errorsOf = async (array: ArrayArchive) => (await array.verify()).findings;

/** What we read, after checking it and that bcolz reads the same. */
async function read(store: MemoryStore, itemSize: number): Promise<string> {
  const array = (await open(store, "")) as ArrayArchive;
  expect(await errorsOf(array)).toEqual([]);
  const hex = hexOf(await array.readBytes(0, array.nbytes));
  expect(await seeCarray(store, "", itemSize)).toEqual({ rows: array.shape[0], hex });
  return hex;
}

async function made(rows: number, options: CarrayOptions = {}, dtype = "<i4"): Promise<MemoryStore> {
  const store = new MemoryStore();
  await createCarray(
    store,
    "",
    { dtype: parseDType(dtype, "test"), data: numbered(rows * 4) },
    { chunkLength: 8, ...options },
  );
  return store;
}

describe("create", () => {
  it("[FA-08] the metadata match those of bcolz 1.2 byte for byte", async () => {
    const rows = loadArchives().filter(({ path, refuse }) => /^carray\/bcolz-/.test(path) && !refuse);
    expect(rows.length).toBeGreaterThan(8);
    for (const { file, path } of rows) {
      const source = (await open(new FileStore(file), "")) as ArrayArchive;
      const storage = source.metadata["storage"] as {
        chunklen: number;
        expectedlen: number;
        dflt: never;
        cparams: { cname: never; clevel: number; shuffle: number };
      };
      const { cname, clevel, shuffle } = storage.cparams;
      const store = new MemoryStore();
      const { dtype, shape, attrs } = source;
      const data = await source.readBytes(0, source.nbytes);
      await createCarray(
        store,
        "",
        { dtype, rowShape: shape.slice(1), data },
        {
          compressor: { cname, clevel, shuffle: (["noshuffle", "shuffle", "bitshuffle"] as const)[shuffle] },
          chunkLength: storage.chunklen,
          expectedLength: storage.expectedlen,
          fillValue: storage.dflt,
          attrs,
        },
      );
      const theirs = (name: string): string => readFileSync(join(file, name), "utf8");
      if (path !== "carray/bcolz-empty-f4")
        expect(await text(store, "meta/storage"), path).toBe(theirs("meta/storage"));
      expect((await text(store, "meta/sizes")).replace(/cbytes.*/s, ""), path).toBe(
        theirs("meta/sizes").replace(/cbytes.*/s, ""),
      );
      expect(await text(store, "__attrs__"), path).toBe(theirs("__attrs__"));
      expect(await read(store, dtype.itemSize), path).toBe(hexOf(data));
    }
  });

  it("names dtypes as bcolz does", () => {
    for (const [spelled, name] of [
      ["<f8", "float64"],
      [">f8", ">f8"],
      ["|b1", "bool"],
      ["|u1", "uint8"],
      ["<c16", "complex128"],
      ["|S5", "|S5"],
      ["<U3", "<U3"],
      ["<M8[25us]", "datetime64[25us]"],
      ["<m8[ns]", "timedelta64[ns]"],
      ["<M8", "datetime64"],
      [">M8[D]", ">M8[D]"],
    ] as const) {
      expect(numpyName(parseDType(spelled, "test"))).toBe(name);
      expect(parseDType(numpyName(parseDType(spelled, "test")), "test")).toEqual(parseDType(spelled, "test"));
    }
  });

  it("chooses a chunk length as bcolz does, by the expected bytes", () => {
    // As bcolz 1.2 and bcolz-zipline 1.13 choose for float64.
    expect([0, 90, 1000, 1e5, 1e6, 1e8, 1e10].map((rows) => chooseChunklen(rows, 8))).toEqual([
      2048, 4096, 8192, 32768, 32768, 131072, 524288,
    ]);
  });

  it("without rows makes an array that both programs open, with its folder on disk", async () => {
    const folder = temporaryFolder();
    try {
      const store = new FileStore(folder);
      await createCarray(store, "a", { dtype: parseDType("<f8", "test"), data: new Uint8Array(0) });
      expect(readdirSync(join(folder, "a")).sort()).toEqual(["__attrs__", "data", "meta"]);
      const array = (await open(store, "a")) as ArrayArchive;
      expect([array.dialect, array.shape]).toEqual(["carray", [0]]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it("refuses an existing archive, and one that bcolz could not open", async () => {
    const store = await made(3);
    const of = (dtype: string) => ({ dtype: parseDType(dtype, "test"), data: numbered(24) });
    expect((await rejectionOf(createCarray(store, "", of("<i4")))).code).toBe("CONFLICT");
    expect((await rejectionOf(createCarray(new MemoryStore(), "", of("O")))).code).toBe("UNSUPPORTED");
    expect((await rejectionOf(createCarray(new MemoryStore(), "", of("[('a', '<i4')]")))).code).toBe(
      "UNSUPPORTED",
    );
    expect((await rejectionOf(createCarray(new MemoryStore(), "", of("<i4"), { chunkLength: 0 }))).code).toBe(
      "BAD_ARGUMENT",
    );
    expect(
      (await rejectionOf(createCarray(new MemoryStore(), "", { ...of("<i4"), data: numbered(25) }))).code,
    ).toBe("BAD_ARGUMENT");
  });
});

describe("append, trim and resize", () => {
  it.each([0, 10_000, 10_019])("leaves nothing behind if it is interrupted: %s rows", async (rows) => {
    const store = await made(rows, { chunkLength: 10_000 });
    const before = await imageOf(store);
    const stop = new AbortController();
    const onProgress = ({ done }: { readonly done: number }): void => {
      if (done > 1_000_000) stop.abort(new Error("enough"));
    };
    await expect(resizeRows(store, "", 900_000, { signal: stop.signal, onProgress })).rejects.toThrow(
      "enough",
    );
    expect([...(await imageOf(store)).keys()]).toEqual([...before.keys()]);
    expect(await read(store, 4)).toBe(hexOf(numbered(rows * 4)));
    await resizeRows(store, "", rows + 1);
    expect(await read(store, 4)).toBe(`${hexOf(numbered(rows * 4))}00000000`);
  });

  it.each([0, 1, 3, 4, 5, 12, 100])(
    "%i rows after 20 are stored after them, in chunks of 8",
    async (count) => {
      const store = await made(20);
      const result = await appendRows(store, "", numbered(count * 4, 80));
      expect(result).toEqual({ rows: 20 + count, rowsAppended: count });
      expect(await read(store, 4)).toBe(hexOf(numbered(80 + count * 4)));
    },
  );

  it.each([0, 1, 7, 8, 9, 16, 19, 20])(
    "of 20 rows the first %i stay, and those cut off are in no file",
    async (rows) => {
      const store = await made(20);
      await trimRows(store, "", 20 - rows);
      expect(await read(store, 4)).toBe(hexOf(numbered(rows * 4)));
      const chunks = [...(await imageOf(store)).keys()].filter((key) => key.startsWith("data/"));
      expect(chunks.length).toBe(Math.ceil(rows / 8));
      await appendRows(store, "", numbered(40));
      expect(await read(store, 4)).toBe(hexOf(Buffer.concat([numbered(rows * 4), numbered(40)])));
    },
  );

  it("growing appends the default value", async () => {
    const store = await made(5, { fillValue: -2 });
    await resizeRows(store, "", 21);
    const array = (await open(store, "")) as ArrayArchive;
    const all = (await array.get([{ start: 5, stop: null, step: null }])) as { data: Int32Array };
    expect([...all.data]).toEqual(new Array(16).fill(-2));
    await read(store, 4);
  });

  it("every array of the corpus takes its own rows again and returns them; other rows are refused", async () => {
    let changed = 0;
    for (const row of loadArchives().filter(({ path }) => path.startsWith("carray/"))) {
      const folder = temporaryFolder();
      try {
        cpSync(row.file, folder, { recursive: true });
        const store = new FileStore(folder);
        if (row.refuse) {
          expect((await rejectionOf(appendRows(store, "", numbered(8)))).code).toBe("UNSUPPORTED");
          continue;
        }
        const before = (await open(store, "")) as ArrayArchive;
        const bytes = await before.readBytes(0, before.nbytes);
        await appendRows(store, "", bytes);
        const twice = (await open(store, "")) as ArrayArchive;
        expect(await errorsOf(twice), row.path).toEqual([]);
        expect(hexOf(await twice.readBytes(0, twice.nbytes)), row.path).toBe(
          hexOf(Buffer.concat([bytes, bytes])),
        );
        await trimRows(store, "", before.shape[0] ?? 0);
        const again = (await open(store, "")) as ArrayArchive;
        expect(hexOf(await again.readBytes(0, again.nbytes)), row.path).toBe(hexOf(bytes));
        expect([again.attrs, again.shape]).toEqual([before.attrs, before.shape]);
        changed++;
      } finally {
        rmSync(folder, { recursive: true });
      }
    }
    expect(changed).toBeGreaterThan(12);
  });

  it("no memory is allocated for a row count that metadata claim, and it is not counted through", async () => {
    const meta = (sizes: string, dtype: string, chunklen: number): MemoryStore => {
      const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);
      const storage = `{"dtype": "${dtype}", "cparams": {"clevel": 5, "shuffle": 1, "quantize": 0}, "chunklen": ${chunklen}, "expectedlen": 1, "dflt": 0}`;
      return new MemoryStore([
        ["meta/sizes", utf8(sizes)],
        ["meta/storage", utf8(storage)],
        ["__attrs__", utf8("{}")],
      ]);
    };
    const code = async (
      store: MemoryStore,
      change: (store: MemoryStore) => Promise<unknown>,
    ): Promise<string> => (await rejectionOf(change(store))).code;
    const append = (store: MemoryStore) => appendRows(store, "", numbered(8));
    expect(await code(meta('{"shape": [0, 1099511627776]}', "uint8", 1), append)).toBe("LIMIT");
    expect(await code(meta('{"shape": [0]}', "uint8", 2 ** 45), append)).toBe("LIMIT");
    expect(await code(meta('{"shape": [5]}', "|S0", 4), append)).toBe("UNSUPPORTED");
    expect(await code(meta('{"shape": [1000000000000001]}', "uint8", 2), append)).toBe("INCOMPLETE");
    const gone = meta('{"shape": [1000000000000000]}', "uint8", 1);
    await trimRows(gone, "", 1000000000000000);
    expect(((await open(gone, "")) as ArrayArchive).shape).toEqual([0]);
  });

  it("a commit by another writer in between is CONFLICT", async () => {
    const store = await made(20);
    async function* slow(): AsyncGenerator<Uint8Array> {
      yield numbered(4, 80);
      await appendRows(store, "", numbered(8, 80));
    }
    expect((await rejectionOf(appendRows(store, "", slow()))).code).toBe("CONFLICT");
    expect(await read(store, 4)).toBe(hexOf(numbered(88)));
  });
});

describe("attributes", () => {
  it("[FA-11] [FJ-08] unchanged ones keep their text", async () => {
    const store = await made(3);
    await store.put(
      "__attrs__",
      new TextEncoder().encode('{"a": 1.0, "b" : {"x,}": [1e3, "\\"{"]},"c":NaN}\n'),
    );
    await changeAttributes(store, "", { set: { d: 1, b: "é" }, remove: [] });
    expect(await text(store, "__attrs__")).toBe('{"a": 1.0, "b": "\\u00e9", "c": NaN, "d": 1}\n');
    await changeAttributes(store, "", { remove: ["a", "b", "c"] });
    expect(await text(store, "__attrs__")).toBe('{"d": 1}\n');
    await changeAttributes(store, "", { remove: ["a"] }); // a missing file stays missing
    const stored = '{"a": 1.0, "b": {"x,}": [1e3, "\\"{"]}, "\\u00e9": []}';
    expect(joinMembers(splitMembers(new TextEncoder().encode(stored), "x"))).toBe(stored);
  });

  it("[FA-11] a BLZ root never gets __attrs__", async () => {
    const root = loadArchives().find(({ path }) => path.startsWith("blz-superchunk/"))?.file ?? "";
    const folder = temporaryFolder();
    try {
      cpSync(root, folder, { recursive: true });
      const store = new FileStore(folder);
      await changeAttributes(store, "", { set: { a: 1 } });
      expect(((await open(store, "")) as ArrayArchive).attrs["a"]).toBe(1);
      expect(readdirSync(folder)).not.toContain("__attrs__");
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

describe("a power cut before every step", () => {
  it.each([
    [
      "append into the last chunk",
      20,
      23,
      (store: MemoryStore | VolatileStore) => appendRows(store, "", numbered(12, 80)),
    ],
    [
      "append over chunks",
      20,
      45,
      (store: MemoryStore | VolatileStore) => appendRows(store, "", numbered(100, 80)),
    ],
    [
      "append to whole chunks",
      16,
      45,
      (store: MemoryStore | VolatileStore) => appendRows(store, "", numbered(116, 64)),
    ],
    ["grow by default values", 20, 61, (store: MemoryStore | VolatileStore) => resizeRows(store, "", 61)],
    ["trim in a chunk", 20, 18, (store: MemoryStore | VolatileStore) => trimRows(store, "", 2)],
    ["trim over chunks", 45, 9, (store: MemoryStore | VolatileStore) => trimRows(store, "", 36)],
    ["trim to whole chunks", 45, 16, (store: MemoryStore | VolatileStore) => trimRows(store, "", 29)],
  ] as const)(
    "[FA-09] [FA-10] %s leaves the old array or the new one, to bcolz and to us",
    async (_, before, after, change) => {
      const start = [...(await imageOf(await made(before)))];
      const changed = await made(before);
      await change(changed);
      const [old, grown] = [hexOf(numbered(before * 4)), (await seeCarray(changed, "", 4)).hex];
      expect(grown.length).toBe(after * 8);
      const seen = new Set<string>();
      for (let seed = 0; seed < 4; seed++) {
        for (let failAt = 1; ; failAt += sweep(1, 5)) {
          const disk = new VolatileStore(start, { failAt, random: randomFrom(seed * 1000 + failAt) });
          const done = await change(disk).then(
            () => true,
            () => false,
          );
          const { store, counts } = withCounting(new MemoryStore(disk.image()));
          const array = (await open(store, "")) as ArrayArchive;
          const hex = hexOf(await array.readBytes(0, array.nbytes));
          expect(done ? [grown] : [old, grown]).toContain(hex);
          expect(await seeCarray(store, "", 4)).toEqual({ rows: hex.length / 8, hex });
          expect((await array.verify()).ok).toBe(true);
          expect(counts.writes).toBe(0);
          seen.add(hex);
          const next = new MemoryStore(await imageOf(new MemoryStore(disk.image())));
          await appendRows(next, "", numbered(200));
          const again = (await open(next, "")) as ArrayArchive;
          expect((await again.readBytes(0, again.nbytes)).subarray(-200)).toEqual(numbered(200));
          if (!disk.isDead) break;
        }
      }
      expect([...seen].sort()).toEqual([old, grown].sort());
    },
  );

  it.each([
    [
      "set in one chunk",
      (bytes: Uint8Array) => bytes.fill(7, 40, 44),
      (array: Editable) => array.set([10], SEVENS),
    ],
    [
      "set over chunks, the short one too",
      (bytes: Uint8Array) => bytes.fill(7, 20, 80),
      (array: Editable) => array.set([{ start: 5, stop: null, step: null }], SEVENS),
    ],
    [
      "delete in a chunk",
      (bytes: Uint8Array) => joinBytes([bytes.slice(0, 12), bytes.slice(24)]),
      (array: Editable) => array.deleteRows(3, 6),
    ],
    [
      "delete whole chunks",
      (bytes: Uint8Array) => joinBytes([bytes.slice(0, 4), bytes.slice(68)]),
      (array: Editable) => array.deleteRows(1, 17),
    ],
    [
      "delete the first rows",
      (bytes: Uint8Array) => bytes.slice(16),
      (array: Editable) => array.deleteRows(0, 4),
    ],
  ] as const)(
    "[FA-12] %s: bcolz sees right rows at every moment, and the next writer completes it",
    async (_, expected, change) => {
      const start = [...(await imageOf(await made(20)))];
      const old = numbered(80);
      const [oldHex, newHex] = [hexOf(old), hexOf(expected(old.slice()))];
      const rows = newHex.length / 8;
      const seen = new Set<string>();
      for (let seed = 0; seed < 3; seed++) {
        for (let failAt = 1; ; failAt += sweep(1, 5)) {
          const disk = new VolatileStore(start, { failAt, random: randomFrom(seed * 1000 + failAt) });
          const done = await changed(disk, "", change).then(
            () => true,
            () => false,
          );
          const store = new MemoryStore(disk.image());
          const between = await seeCarray(store, "", 4);
          // Fewer rows than before or after, but never others: of set values, each is the old or the new one.
          for (let row = 0; row < between.rows; row++) {
            const item = between.hex.slice(row * 8, row * 8 + 8);
            expect([oldHex, newHex].map((hex) => hex.slice(row * 8, row * 8 + 8))).toContain(item);
          }
          if (done) expect(between).toEqual({ rows, hex: newHex });
          await changed(store, "", async () => undefined);
          const { hex } = await seeCarray(store, "", 4);
          expect(done ? [newHex] : [oldHex, newHex], `cut at ${failAt}`).toContain(hex);
          expect(await read(store, 4)).toBe(hex);
          expect([...(await imageOf(store)).keys()].filter((key) => key.includes("redo"))).toEqual([]);
          seen.add(hex);
          if (!disk.isDead) break;
        }
      }
      expect([...seen].sort()).toEqual([oldHex, newHex].sort());
    },
  );

  it("[FA-12] another program that wrote over an interrupted change is CONFLICT, and nothing is removed", async () => {
    const start = [...(await imageOf(await made(20)))];
    let found = 0;
    for (let failAt = 1; failAt < 40; failAt++) {
      const disk = new VolatileStore(start, { failAt, random: () => 0 });
      await changed(disk, "", (array) => array.deleteRows(3, 6)).catch(() => undefined);
      const store = new MemoryStore(disk.image());
      if ((await store.get("__redo__/commit")) === undefined) continue;
      await store.put("meta/sizes", new TextEncoder().encode('{"shape": [4], "nbytes": 16, "cbytes": 1}'));
      const before = await imageOf(store);
      expect((await rejectionOf(changed(store, "", (array) => array.append(numbered(4))))).code).toBe(
        "CONFLICT",
      );
      expect([...(await imageOf(store)).keys()]).toEqual([...before.keys()]);
      found++;
    }
    expect(found).toBeGreaterThan(0);
  });

  it("[FA-12] verify names a change that is not in all chunks yet, and the next writer completes it", async () => {
    const start = [...(await imageOf(await made(40)))];
    let found = 0;
    for (let failAt = 1; failAt < 60; failAt++) {
      const disk = new VolatileStore(start, { failAt, random: () => 0 });
      const set = (array: Editable): Promise<void> => array.set([{ start: 0, stop: 40, step: 3 }], 7);
      await changed(disk, "", set).catch(() => undefined);
      const store = new MemoryStore(disk.image());
      const isOpen = (await store.get("__redo__/commit")) !== undefined;
      const messages = async () =>
        (await (await open(store, "")).verify()).findings.map(({ message }) => message);
      expect(await messages(), `step ${failAt}`).toEqual(
        isOpen ? [expect.stringMatching(/^a change is not complete/)] : [],
      );
      await changed(store, "", (array) => array.setAttributes({ a: 1 }));
      expect(await messages()).toEqual([]);
      found += isOpen ? 1 : 0;
    }
    expect(found).toBeGreaterThan(0);
  });

  it.each(["carray", "table"])("attributes of a %s are the old ones or the new ones", async (kind) => {
    const x = { name: "x", dtype: parseDType("<i4", "test"), data: numbered(80) };
    const table = new MemoryStore();
    await createTable(table, "", [x]);
    const base = kind === "table" ? table : await made(20);
    await changeAttributes(base, "", { set: { a: 1, b: [1.0, "x".repeat(2000)] } });
    const start = [...(await imageOf(base))];
    const textOf = async (store: MemoryStore): Promise<string> =>
      Buffer.from((await store.get("__attrs__")) ?? new Uint8Array(0)).toString();
    const old = await textOf(base);
    const change = { set: { b: "y".repeat(3000), c: null }, remove: ["a"] };
    await changeAttributes(base, "", change);
    const changed = await textOf(base);
    const seen = new Set<string>();
    for (let seed = 0; seed < 4; seed++) {
      for (let failAt = 1; ; failAt += sweep(1, 5)) {
        const disk = new VolatileStore(start, { failAt, random: randomFrom(seed * 1000 + failAt) });
        const done = await changeAttributes(disk, "", change).then(
          () => true,
          () => false,
        );
        const found = await textOf(new MemoryStore(disk.image()));
        expect(done ? [changed] : [old, changed], `cut at ${failAt}`).toContain(found);
        seen.add(found);
        if (!disk.isDead) break;
      }
    }
    expect([...seen].sort()).toEqual([old, changed].sort());
  });
});

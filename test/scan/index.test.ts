/**
 * The index of bounds: it makes scans skip chunks, and never makes them miss a row, whatever has happened to it or
 * to the table.
 */
import { cpSync, existsSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { crc32c } from "../../src/bytes/checksum.ts";
import { type MemoryStore, open as openIn, writeIndex } from "../../src/index.ts";
import { create, edit, open } from "../../src/node/index.ts";
import type { ScanPlan } from "../../src/scan/scan.ts";
import { loadFolder } from "../archive/memory-archive.ts";
import { runCli } from "../cli/harness.ts";
import { temporaryFolder } from "../folder.ts";
import { sample, sweep } from "../scope.ts";
import { expected, FILTERS, gather, makeTables, of, ROWS, scanPath } from "./tables.ts";

let paths: Readonly<Record<string, string>> = {};
beforeAll(async () => {
  paths = await makeTables();
  for (const path of Object.values(paths)) expect((await runCli(["index", path])).err).toBe("");
});

const INDEX: Readonly<Record<string, string>> = {
  ctable: "superchunk-index",
  columns: "superchunk-index",
  structs: "superchunk-index",
  zarr: "superchunk-index",
};

const indexOf = (kind: string): string =>
  kind === "file" ? `${paths[kind]}.superchunk-index` : join(paths[kind] ?? "", INDEX[kind] ?? "");

/** A copy of a table, which has its own index. */
async function copyOf(kind: string): Promise<string> {
  const copy = join(temporaryFolder(), "copy");
  cpSync(paths[kind] ?? "", copy, { recursive: true });
  // A copy has other inodes, so its index covers nothing.
  expect((await runCli(["index", copy])).err).toBe("");
  return copy;
}

const BIG = { filter: { big: { gt: 2n ** 59n } }, columns: ["big"] } as const;
const BIG_ROWS = expected(
  of("big", (v: bigint) => v > 2n ** 59n),
  ["big"],
);

async function planOf(path: string): Promise<ScanPlan | undefined> {
  let plan: ScanPlan | undefined;
  const onPlan = (found: ScanPlan): void => {
    plan = found;
  };
  expect(await scanPath(path, { ...BIG, onPlan })).toEqual(BIG_ROWS);
  return plan;
}

describe("an index", () => {
  it.each(["ctable", "columns", "structs", "zarr", "file"])(
    "[FI-01] of %s is laid out as the format says, and lets a new handle skip",
    async (kind) => {
      expect(existsSync(indexOf(kind))).toBe(true);
      expect(await planOf(paths[kind] ?? "")).toMatchObject({ chunks: 16, skipped: 12, index: "used" });
      const again = JSON.parse((await runCli(["index", paths[kind] ?? "", "--json"])).out) as unknown;
      expect(again).toMatchObject({ chunks: 96, read: 0, uncovered: 0, others: [] });
    },
  );

  it.each(["ctable", "columns", "structs", "zarr", "file"])("changes no answer for %s", async (kind) => {
    for (const [filter, takes] of sample(FILTERS, 9))
      expect(await scanPath(paths[kind] ?? "", { filter, columns: ["volume"] })).toEqual(
        expected(takes, ["volume"]),
      );
  });

  it("covers only the requested columns, and says which have no order", async () => {
    const copy = await copyOf("ctable");
    rmSync(join(copy, "superchunk-index"));
    const one = await runCli(["index", copy, "--column", "close", "--json"]);
    expect(JSON.parse(one.out)).toMatchObject({ columns: ["close"], chunks: 16, read: 16 });
    const two = await runCli(["index", copy, "--column", "big", "--json"]);
    expect(JSON.parse(two.out)).toMatchObject({ columns: ["big"], read: 16 });
    // What it knew about the first one stays.
    expect(JSON.parse((await runCli(["index", copy, "--json"])).out)).toMatchObject({ chunks: 96, read: 64 });
    expect(await runCli(["index", copy, "--column", "price"])).toMatchObject({ code: 1 });
  });

  it("of several paths names each that fails, and indexes the others", async () => {
    const copy = await copyOf("ctable");
    rmSync(join(copy, "superchunk-index"));
    const none = join(copy, "none");
    const { code, err, out } = await runCli(["index", none, copy, "--json"]);
    expect([code, err]).toEqual([1, expect.stringContaining(`${none}: no such file or folder`)]);
    expect(JSON.parse(out)).toMatchObject([{ path: copy, chunks: 96 }]);
  });
});

/** An index with other bytes after its first line. */
async function sealed(body: string): Promise<string> {
  const sum = (await crc32c(new TextEncoder().encode(body))).toString(16).padStart(8, "0");
  return `superchunk-index 1 ${sum}\n${body}`;
}

type Stored = { columns: Record<string, unknown[]>[] };

describe("a damaged index is not used", () => {
  let copy = "";
  let whole = "";
  beforeAll(async () => {
    copy = await copyOf("ctable");
    whole = readFileSync(join(copy, "superchunk-index"), "latin1");
  });

  /** Returns the code with which it is refused; the scan gives all rows. */
  async function codeOf(text: string): Promise<string | undefined> {
    writeFileSync(join(copy, "superchunk-index"), text, "latin1");
    const plan = await planOf(copy);
    expect(plan).toMatchObject({ index: "damaged", skipped: 0 });
    return plan?.damage?.code;
  }

  it("[FI-02] [FI-05] with another first line", async () => {
    expect(await codeOf("")).toBe("BAD_MAGIC");
    expect(await codeOf(`x${whole}`)).toBe("BAD_MAGIC");
    expect(await codeOf(whole.replace("index 1 ", "index 2 "))).toBe("UNSUPPORTED");
    expect(await codeOf(`${whole} `)).toBe("CHECKSUM_MISMATCH");
    const printed = await runCli(["cat", copy, "--where", "big > 0", "--format", "csv"]);
    expect(printed).toMatchObject({
      code: 0,
      err: expect.stringMatching(/the index is not used: .*superchunk-index: the crc32c/),
    });
    expect(printed.out.split("\n").length).toBe(
      expected(
        of("big", (v: bigint) => v > 0n),
        [],
      ).rows.length + 2,
    );
  });

  it("[FI-02] [FI-05] with any other byte, or truncated anywhere", async () => {
    const places = sample(
      Array.from({ length: whole.length }, (_, i) => i),
      sweep(whole.length, 24),
    );
    for (const place of places) {
      const flipped = String.fromCharCode(whole.charCodeAt(place) ^ 1);
      expect(
        await codeOf(whole.slice(0, place) + flipped + whole.slice(place + 1)),
        `${place}`,
      ).toBeDefined();
      expect(await codeOf(whole.slice(0, place)), `${place}`).toBeDefined();
    }
  });

  const change = (edit: (column: Record<string, unknown[]>) => void): Promise<string> => {
    const stored = JSON.parse(whole.slice(whole.indexOf("\n") + 1)) as Stored;
    for (const column of stored.columns) edit(column);
    return sealed(JSON.stringify(stored));
  };

  it("[FI-03] [FI-05] whose lists and members do not follow the format", async () => {
    expect(await codeOf(await sealed("{"))).toBe("BAD_FIELD");
    expect(await codeOf(await sealed("null"))).toBe("BAD_FIELD");
    expect(await codeOf(await sealed('{"columns":{}}'))).toBe("BAD_FIELD");
    expect(await codeOf(await sealed('{"columns":[null]}'))).toBe("BAD_FIELD");
    for (const name of [
      "name",
      "state",
      "kind",
      "objects",
      "cell",
      "object",
      "offset",
      "rows",
      "nulls",
      "least",
    ])
      expect(await codeOf(await change((column) => delete column[name])), name).toBe("BAD_FIELD");
    expect(await codeOf(await change(({ rows }) => rows?.pop()))).toBe("BAD_FIELD");
    expect(await codeOf(await change(({ object }) => object?.fill(1000)))).toBe("BAD_FIELD");
    expect(await codeOf(await change(({ cell }) => cell?.fill(0)))).toBe("BAD_FIELD");
    expect(await codeOf(await change(({ offset }) => offset?.fill(-1)))).toBe("BAD_FIELD");
    expect(await codeOf(await change(({ rows }) => rows?.fill(0.5)))).toBe("BAD_FIELD");
    expect(await codeOf(await change(({ objects }) => objects?.fill(["x"])))).toBe("BAD_FIELD");
  });

  it("[FI-04] [FI-05] whose bounds are impossible", async () => {
    expect(await codeOf(await change(({ nulls }) => nulls?.fill(65)))).toBe("BAD_FIELD");
    expect(await codeOf(await change(({ least }) => least?.fill(null)))).toBe("BAD_FIELD");
    expect(await codeOf(await change(({ least }) => least?.fill(true)))).toBe("BAD_FIELD");
    const turned = change((column) => {
      [column["least"], column["greatest"]] = [column["greatest"] ?? [], column["least"] ?? []];
    });
    expect(await codeOf(await turned)).toBe("BAD_FIELD");
    const words = change(({ least, greatest }) => [least, greatest].map((list) => list?.fill("many")));
    expect(await codeOf(await words)).toBe("BAD_FIELD");
  });
});

describe("an index that is out of date covers nothing that has changed", () => {
  /** Rows with volumes above all in the table. */
  const above = async (path: string): Promise<number[]> =>
    (await scanPath(path, { filter: { volume: { gt: 5000 } }, columns: [] })).rows;

  it.each(["ctable", "columns", "structs"])(
    "[FI-06] [FI-08] when rows are set, added and removed in %s",
    async (kind) => {
      const copy = await copyOf(kind);
      expect(await above(copy)).toEqual([]);
      const row = [1, 9000, 16_000n, 5n, "new", true];
      const writer = await edit(copy);
      await writer.append([row, row] as never);
      await writer.close();
      expect(await above(copy)).toEqual([ROWS, ROWS + 1]);
      const shorter = await edit(copy);
      await shorter.resize(ROWS + 1);
      await shorter.close();
      expect(await above(copy)).toEqual([ROWS]);
      const setter = await edit(copy);
      if (kind !== "ctable") await setter.set([{ start: 100, stop: 101, step: 1 }], [row] as never);
      await setter.close();
      expect(await above(copy)).toEqual(kind === "ctable" ? [ROWS] : [100, ROWS]);
      await runCli(["index", copy]);
      expect(await above(copy)).toEqual(kind === "ctable" ? [ROWS] : [100, ROWS]);
    },
  );

  it.each([
    ["replaces", rmSync],
    ["overwrites", () => {}],
  ])("[FI-06] [FI-07] when another program %s chunks, with the same length and time", async (_, remove) => {
    const folder = temporaryFolder();
    const chunks: string[] = [];
    for (const value of [5, 7]) {
      const path = join(folder, `${value}.bcolz`);
      const array = await create(path, { format: "bcolz", dtype: "int32", chunkLength: 64 });
      await array.append(new Int32Array(256).fill(value));
      await array.close();
      chunks.push(join(path, "data", "__3.blp"));
    }
    const [chunk = "", other = ""] = chunks;
    const bytes = readFileSync(other);
    expect(readFileSync(chunk).length).toBe(bytes.length);
    const time = new Date(Date.now() - 100_000);
    utimesSync(chunk, time, time);
    const path = join(folder, "5.bcolz");
    expect((await runCli(["index", path])).err).toBe("");
    remove(chunk);
    writeFileSync(chunk, bytes);
    utimesSync(chunk, time, time);
    const { rows } = await scanPath(path, { filter: { value: { gt: 5 } }, columns: [] });
    expect(rows).toEqual(Array.from({ length: 64 }, (_, i) => 192 + i));
  });

  it("[FI-06] [FI-08] when another table takes the table's place", async () => {
    const copy = await copyOf("ctable");
    const large = join(paths["ctable"] ?? "", "..", "large");
    for (const name of ["volume", "big"]) cpSync(join(large, name), join(copy, name), { recursive: true });
    expect((await above(copy)).length).toBe(ROWS);
  });

  it("[FI-06] [FI-08] when the document of a Zarr array says that its chunks are encoded otherwise", async () => {
    const path = join(temporaryFolder(), "array.zarr");
    const codecs = [{ name: "bytes", configuration: { endian: "little" } }];
    const array = await create(path, { format: "zarr", dtype: "uint16", chunkLength: 4, codecs });
    await array.append(Uint16Array.from({ length: 16 }, (_, i) => i));
    await array.close();
    await runCli(["index", path]);
    const options = { filter: { value: { gte: 3072 } }, columns: [] };
    expect((await scanPath(path, options)).rows).toEqual([]);
    const document = join(path, "zarr.json");
    writeFileSync(document, readFileSync(document, "utf8").replace('"little"', '"big"'));
    expect((await scanPath(path, options)).rows).toEqual([12, 13, 14, 15]);
  });

  it("[FI-07] when chunks were written just now, which are waited for", async () => {
    const copy = await copyOf("ctable");
    const chunk = join(copy, "volume", "data", "__3.blp");
    writeFileSync(chunk, readFileSync(chunk));
    const found = JSON.parse((await runCli(["index", copy, "--json"])).out) as unknown;
    expect(found).toMatchObject({ read: 1, uncovered: 0 });
  });

  it("[FI-07] when chunks change while they are read", async () => {
    const { store, path } = await loadFolder(paths["ctable"] ?? "");
    const table = await openIn(new Changing(store, "volume/data/__3.blp") as never, path);
    if (table.kind !== "table") throw new Error(table.kind);
    // A read-only store cannot hold an index.
    await expect(writeIndex(table)).rejects.toMatchObject({ code: "READ_ONLY" });
    const own = await openIn(store, path);
    if (own.kind !== "table") throw new Error(own.kind);
    const bytes = await store.get("volume/data/__3.blp");
    const get = own.column("volume").getBytes.bind(own.column("volume"));
    own.column("volume").getBytes = async (...wanted) => {
      await store.put("volume/data/__3.blp", bytes ?? new Uint8Array());
      return get(...wanted);
    };
    expect(await writeIndex(own)).toMatchObject({ uncovered: 1 });
  });

  it("until an append by the command brings it up to date", async () => {
    const copy = await copyOf("structs");
    const before = readFileSync(join(copy, "superchunk-index"), "latin1");
    const rows = join(temporaryFolder(), "rows.npy");
    expect((await runCli(["convert", copy, rows])).err).not.toMatch(/error/);
    expect(await runCli(["append", copy, rows])).toMatchObject({ code: 0 });
    expect(readFileSync(join(copy, "superchunk-index"), "latin1")).not.toBe(before);
    const again = JSON.parse((await runCli(["index", copy, "--json"])).out) as unknown;
    expect(again).toMatchObject({ read: 0, uncovered: 0 });
    expect((await scanPath(copy, BIG)).rows.length).toBe(2 * BIG_ROWS.rows.length);
  });
});

/** A read-only store. */
class Changing {
  readonly #store: MemoryStore;
  readonly key: string;

  constructor(store: MemoryStore, key: string) {
    this.#store = store;
    this.key = key;
  }
  describe(key: string): string {
    return this.#store.describe(key);
  }
  get(key: string): Promise<Uint8Array | undefined> {
    return this.#store.get(key);
  }
  getRange(key: string, range: { offset: number; length: number }): Promise<Uint8Array | undefined> {
    return this.#store.getRange(key, range);
  }
  stat(key: string): ReturnType<MemoryStore["stat"]> {
    return this.#store.stat(key);
  }
  list(folder: string): ReturnType<MemoryStore["list"]> {
    return this.#store.list(folder);
  }
}

describe("other programs and commands", () => {
  it("work as if there were no index", async () => {
    for (const kind of ["ctable", "columns", "structs", "zarr", "file"]) {
      const path = paths[kind] ?? "";
      expect((await runCli(["verify", path])).code, kind).toBe(0);
      await using archive = await open(path);
      expect(archive.warnings, kind).toEqual([]);
    }
    const listed = await runCli(["ls", join(paths["ctable"] ?? "", "..")]);
    expect(listed.out).not.toMatch(/superchunk-index/);
    expect(listed.code).toBe(0);
  });

  it("a scan without statistics looks for no index", async () => {
    await using table = await open(paths["ctable"] ?? "");
    if (table.kind !== "table") throw new Error(table.kind);
    const plans: ScanPlan[] = [];
    const options = { ...BIG, statistics: false, onPlan: (plan: ScanPlan) => plans.push(plan) };
    await gather(table.scan(options));
    expect(plans).toEqual([{ chunks: 16, skipped: 0 }]);
  });
});

it.each(["ctable", "file"])(
  "a run that was killed leaves a temporary, which the next one removes: %s",
  async (kind) => {
    const index = indexOf(kind);
    const left = join(dirname(index), `.${basename(index)}.0123456789abcdef.tmp`);
    const other = join(dirname(index), ".notes.txt.0123456789abcdef.tmp");
    for (const file of [left, other]) writeFileSync(file, "superchunk-index 1 ");
    try {
      expect(await planOf(paths[kind] ?? "")).toMatchObject({ index: "used", skipped: 12 });
      expect((await runCli(["index", paths[kind] ?? ""])).err).toBe("");
      expect([existsSync(left), existsSync(other)]).toEqual([false, true]);
    } finally {
      rmSync(other);
    }
  },
);

it.each(["ctable", "columns", "file"])(
  "an append that was killed leaves a temporary of the index, which the next writer removes: %s",
  async (kind) => {
    const index = indexOf(kind);
    const left = join(dirname(index), `.${basename(index)}.0123456789abcdef.tmp`);
    const other = join(dirname(index), ".notes.txt.0123456789abcdef.tmp");
    for (const file of [left, other]) writeFileSync(file, "superchunk-index 1 ");
    try {
      await (await edit(paths[kind] ?? "")).close();
      expect(existsSync(left)).toBe(false);
      // In its folder, a table has no temporaries of others.
      expect(existsSync(other)).toBe(kind !== "ctable");
      expect(await planOf(paths[kind] ?? "")).toMatchObject({ index: "used" });
    } finally {
      rmSync(other, { force: true });
    }
  },
);

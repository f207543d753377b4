/** Text and bytes of variable length in Zarr arrays, as other programs wrote them, damaged, and carried to other formats. */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { parquetReadObjects } from "hyparquet";
import { beforeAll, describe, expect, test } from "vitest";
import * as zarr from "zarrita";
import { decodeStreamSync } from "../../src/codec/stream.ts";
import { findReadables, open, openArray } from "../../src/index.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { interceptStore } from "../../src/store/wrappers/intercept.ts";
import { openZarr, openZarrArray } from "../../src/zarr/read/open.ts";
import { convert, zarritaStore } from "../../src/zarr.ts";
import { runCli } from "../cli/harness.ts";
import { temporaryFolder } from "../folder.ts";
import { openZarrWriter } from "./writer.ts";

/** As variable-arrays.py writes them. */
interface Written {
  readonly arrays: readonly {
    readonly path: string;
    readonly shape: readonly number[];
    readonly values: readonly (string | readonly number[])[];
  }[];
  readonly objects: readonly (readonly [string, string])[];
}

const WRITERS = ["3", "2"] as const;
const written = new Map<string, Written>();
const ALL: [string, Written["arrays"][number]][] = [];
for (const writer of WRITERS) {
  const file = join(import.meta.dirname, `variable-arrays-${writer}.json`);
  const found = JSON.parse(await readFile(file, "utf8")) as Written;
  written.set(writer, found);
  for (const each of found.arrays) ALL.push([writer, each]);
}

function objectsOf(writer: string): (readonly [string, Uint8Array])[] {
  return (written.get(writer)?.objects ?? []).map(([key, text]) => {
    const isDocument = /(?:^|\/)(?:zarr\.json|\.z\w+)$/.test(key);
    return [key, new Uint8Array(Buffer.from(text, isDocument ? "utf8" : "base64"))];
  });
}

async function storeOf(writer: string): Promise<MemoryStore> {
  const store = new MemoryStore();
  for (const [key, bytes] of objectsOf(writer)) await store.put(key, bytes);
  return store;
}

/** Values as the script writes them: text, bytes as Latin-1, and times as their count. */
function textsOf(data: Iterable<unknown>): string[] {
  return Array.from(data, String);
}

function expectedOf({ values }: Written["arrays"][number]): string[] {
  return values.map((value) => (typeof value === "string" ? value : String.fromCharCode(...value)));
}

const json = (document: object): Uint8Array => new TextEncoder().encode(JSON.stringify(document));

/** Values as the codecs store them. */
function encoded(...values: (string | Uint8Array)[]): Uint8Array {
  const parts = values.map((each) => (typeof each === "string" ? new TextEncoder().encode(each) : each));
  const words = (n: number): Uint8Array => new Uint8Array(Uint32Array.of(n).buffer);
  return Uint8Array.from(
    [words(parts.length), ...parts.flatMap((part) => [words(part.length), part])].flatMap((part) => [
      ...part,
    ]),
  );
}

const TEXT = {
  ...{ zarr_format: 3, node_type: "array", data_type: "string", fill_value: "", codecs: ["vlen-utf8"] },
  chunk_key_encoding: { name: "default" },
};

function documentOf(length: number, chunk: number, change: object = {}): Uint8Array {
  const grid = { name: "regular", configuration: { chunk_shape: [chunk] } };
  return json({ ...TEXT, shape: [length], chunk_grid: grid, ...change });
}

/** An array of text in chunks that are stored as they are. */
async function textStore(
  chunks: readonly Uint8Array[],
  length: number,
  change: object = {},
): Promise<MemoryStore> {
  const store = new MemoryStore();
  await store.put("a/zarr.json", documentOf(length * chunks.length, length, change));
  for (const [i, chunk] of chunks.entries()) await store.put(`a/c/${i}`, chunk);
  return store;
}

const CHUNKS = [encoded("a", "Zürich", "東京"), encoded("", "😀", "plain ascii text")];
const VALUES = ["a", "Zürich", "東京", "", "😀", "plain ascii text"];

describe("values of variable length", () => {
  test.each(ALL)("of zarr %s are those that were written: $path", async (writer, each) => {
    const array = await openZarrArray(await storeOf(writer), each.path);
    const { data, shape } = await array.get();
    expect(shape).toEqual(each.shape);
    expect(textsOf(data)).toEqual(expectedOf(each));
    expect(await array.verify()).toMatchObject({ ok: true, findings: [] });
    const found: string[] = [];
    for await (const slice of array.chunks()) found.push(...textsOf(slice.data));
    expect(found).toEqual(expectedOf(each));
  });

  test("are selected like others, and say how they are stored", async () => {
    const array = await openZarrArray(await storeOf("3"), "v3/grid");
    const all = expectedOf(
      ALL.find(([, { path }]) => path === "v3/grid")?.[1] ?? { path: "", shape: [], values: [] },
    );
    expect(array.dtype).toEqual({ kind: "unicode", itemSize: 120, byteOrder: "little" });
    expect(await array.get([3, 2])).toBe(all[23]);
    const { data } = await array.get([
      { start: 1, stop: 5, step: 2 },
      { start: 1, stop: 7, step: 3 },
    ]);
    expect(textsOf(data)).toEqual([8, 11, 22, 25].map((i) => all[i]));
    // Memory that held something else.
    const bytes = new Uint8Array(array.nbytes).fill(255);
    await array.readInto(bytes);
    expect(bytes).toEqual(await array.getBytes());
    expect(await array.summary()).toMatchObject({ codecs: ["vlen-utf8", "zstd"], cname: "zstd" });
    const plain = await openZarrArray(await storeOf("3"), "v3/none");
    expect(await plain.summary()).toEqual(
      expect.not.objectContaining({ cname: expect.anything() as string }),
    );
  });

  test.each([
    ["v3/plain", "string"],
    ["v3/turned", "string"],
    ["v2/plain", "v2:object"],
  ])("are those that zarrita reads: %s", async (path, dtype) => {
    const store = await storeOf("3");
    const readable = { get: (key: string) => store.get(key.slice(1)) };
    const seen = await zarr.open(zarr.root(readable).resolve(path), { kind: "array" });
    expect(seen.dtype).toBe(dtype);
    const { data, stride, shape } = await zarr.get(seen as zarr.Array<"string", typeof readable>);
    const ours = textsOf((await (await openZarrArray(store, path)).get()).data);
    const indices = ours.map((_, i) => {
      let [rest, at] = [i, 0];
      for (let d = shape.length - 1; d >= 0; d--) {
        at += (rest % (shape[d] ?? 1)) * (stride[d] ?? 1);
        rest = Math.floor(rest / (shape[d] ?? 1));
      }
      return at;
    });
    // zarrita drops a byte order mark at the start of a text.
    expect(ours.map((text) => text.replace(/^\ufeff/, ""))).toEqual(indices.map((i) => data[i]));
  });

  test("are read, and not written or shown to zarrita in another form", async () => {
    const store = await storeOf("3");
    const array = await openZarrArray(store, "v3/plain");
    expect(() => zarritaStore(array)).toThrow(/variable length.*zarrita reads such arrays itself/);
    for (const path of ["v3/plain", "v2/plain", "v3/sharded"])
      await expect(openZarrWriter(store, path)).rejects.toMatchObject({
        code: "UNSUPPORTED",
        message: expect.stringContaining('variable length ("vlen-utf8")') as string,
      });
  });
});

describe("[FH-11] a chunk of values of variable length", () => {
  test("is refused if a length, the number of values or the end is wrong, and the others are read", async () => {
    const chunk = CHUNKS[0] ?? new Uint8Array();
    const longer = new Uint8Array([...chunk, 0]);
    const cases = [longer, encoded("a", "b"), new Uint8Array(), encoded("a", "b", "c", "d")];
    for (let end = 0; end < chunk.length; end++) cases.push(chunk.slice(0, end));
    for (const start of [0, 4, 9, 20])
      for (const word of [0, 2, 0x7fffffff, 0xffffffff]) {
        const changed = chunk.slice();
        new DataView(changed.buffer).setUint32(start, word, true);
        cases.push(changed);
      }
    for (const bytes of cases) {
      const store = await textStore([bytes, CHUNKS[1] ?? bytes], 3);
      const array = await openZarrArray(store, "a");
      await expect(array.get([1])).rejects.toMatchObject({
        code: "BAD_CHUNK",
        details: { path: "memory:a/c/0" },
      });
      expect(textsOf((await array.get([{ start: 3, stop: 6, step: 1 }])).data)).toEqual(VALUES.slice(3));
      expect(await array.verify()).toMatchObject({ ok: false, findings: [{ code: "BAD_CHUNK" }] });
      const filled = await openZarrArray(store, "a", { damaged: "fill" });
      expect(textsOf((await filled.get()).data)).toEqual(["", "", "", ...VALUES.slice(3)]);
    }
  });

  test("in a shard whose index is damaged does not hide other shards", async () => {
    const store = await storeOf("3");
    const shard = (await store.get("v3/sharded/c/0")) ?? new Uint8Array();
    await store.put(
      "v3/sharded/c/0",
      shard.map((byte, i) => (i === shard.length - 3 ? byte ^ 1 : byte)),
    );
    const array = await openZarrArray(store, "v3/sharded");
    const whole = await openZarrArray(await storeOf("3"), "v3/sharded");
    const second = [{ start: 20, stop: 40, step: 1 }] as const;
    expect(textsOf((await array.get(second)).data)).toEqual(textsOf((await whole.get(second)).data));
    await expect(array.get([0])).rejects.toMatchObject({ code: "CHECKSUM_MISMATCH" });
    expect((await array.verify()).ok).toBe(false);
  });

  test("of which any byte was changed ends in a value or in an error that names it", async () => {
    for (const [c, chunk] of CHUNKS.entries())
      for (let i = 0; i < chunk.length; i++)
        for (const bit of [0, 3, 7]) {
          const changed = chunk.slice();
          changed[i] = (changed[i] ?? 0) ^ (1 << bit);
          const store = await textStore(
            c === 0 ? [changed, ...CHUNKS.slice(1)] : [...CHUNKS.slice(0, 1), changed],
            3,
          );
          const array = await openZarrArray(store, "a");
          const found = await array.get().then(
            ({ data }) => textsOf(data),
            (error: unknown) => error,
          );
          if (!Array.isArray(found))
            expect(found).toMatchObject({
              code: expect.stringMatching(/^(?:BAD_CHUNK|UNSUPPORTED)$/) as string,
              details: { path: `memory:a/c/${c}` },
            });
        }
  });

  test("of text that is not UTF-8 is damaged", async () => {
    for (const bytes of [[0xff], [0xc3], [0xed, 0xa0, 0x80], [0x61, 0xc3, 0x28], [0xf5, 0x80, 0x80, 0x80]]) {
      const array = await openZarrArray(await textStore([encoded("a", Uint8Array.from(bytes))], 2), "a");
      await expect(array.get([1])).rejects.toMatchObject({
        code: "BAD_CHUNK",
        message: expect.stringMatching(
          /value 1 of the chunk is not UTF-8.*a\/c\/0|a\/c\/0.*value 1 of the chunk is not UTF-8/s,
        ) as string,
      });
    }
  });

  test("with a value that ends in zero is refused, because items of one length lose it", async () => {
    const text = await openZarrArray(await textStore([encoded("a\0", "b")], 2), "a");
    await expect(text.get()).rejects.toMatchObject({
      code: "UNSUPPORTED",
      details: { path: "memory:a/c/0" },
    });
    const change = { data_type: "variable_length_bytes", codecs: ["vlen-bytes"] };
    const chunk = encoded(Uint8Array.of(1, 0), Uint8Array.of(0, 1));
    const bytes = await openZarrArray(await textStore([chunk], 2, change), "a");
    await expect(bytes.get([0])).rejects.toMatchObject({ code: "UNSUPPORTED" });
    expect(await bytes.verify()).toMatchObject({ ok: false, findings: [{ code: "UNSUPPORTED" }] });
  });

  test("needs no memory for what its header or a document claims", async () => {
    const claim = new Uint8Array(Uint32Array.of(2 ** 24, 5, 5).buffer);
    const huge = await openZarrArray(await textStore([claim], 2 ** 24), "a");
    await expect(huge.get([0])).rejects.toMatchObject({ code: "BAD_CHUNK" });
    const many = new MemoryStore();
    await many.put("a/zarr.json", documentOf(2 ** 40, 1));
    await expect(openZarrArray(many, "a")).rejects.toMatchObject({ code: "LIMIT" });
    const long = await textStore([encoded("x".repeat(2 ** 18 + 1))], 1);
    await expect(openZarrArray(long, "a")).rejects.toMatchObject({
      code: "LIMIT",
      details: { found: 2 ** 18 + 1 },
    });
  });

  test("with one long value is read in parts, although its items take more memory than there is", async () => {
    const short = Array.from({ length: 20_000 }, (_, i) => `${i}`);
    const long = "x".repeat(2 ** 18);
    const array = await openZarrArray(await textStore([encoded(...short, long)], 20_001), "a");
    expect(array.nbytes).toBe(20_001 * 2 ** 20);
    expect(await array.get([20_000])).toBe(long);
    expect(textsOf((await array.get([{ start: 9_998, stop: 10_001, step: 2 }])).data)).toEqual([
      "9998",
      "10000",
    ]);
    await expect(array.get()).rejects.toMatchObject({ code: "LIMIT" });
  });

  test("that became longer after the array was opened is an error, and after opening it again a value", async () => {
    const store = await textStore(CHUNKS, 3);
    const array = await openZarrArray(store, "a");
    await store.put("a/c/0", encoded("a", "longer than it was", "東京"));
    await expect(array.get()).rejects.toMatchObject({ code: "STALE", details: { path: "memory:a/c/0" } });
    await store.put("a/c/0", encoded("a", "é".repeat(17), "東京"));
    await expect(array.get()).rejects.toMatchObject({ code: "STALE" });
    expect(await (await openZarrArray(store, "a")).get([1])).toBe("é".repeat(17));
  });
});

describe("documents of values of variable length", () => {
  test.each([
    [{ codecs: [{ name: "bytes" }] }, "UNSUPPORTED"],
    [{ codecs: ["vlen-bytes"] }, "UNSUPPORTED"],
    [{ codecs: ["vlen-utf8", "vlen-utf8"] }, "BAD_FIELD"],
    [{ codecs: "vlen-utf8" }, "UNSUPPORTED"],
    [{ fill_value: 0 }, "BAD_FIELD"],
    [{ fill_value: null }, "BAD_FIELD"],
    [{ fill_value: "a\0" }, "UNSUPPORTED"],
    [{ data_type: "variable_length_bytes", codecs: ["vlen-bytes"], fill_value: "?" }, "BAD_FIELD"],
  ])("are refused if they contradict themselves: %j", async (change, code) => {
    await expect(openZarrArray(await textStore(CHUNKS, 3, change), "a")).rejects.toMatchObject({ code });
  });

  test.each([["pickle"], ["json2"], ["vlen-array"], ["msgpack2"]])(
    "with filter %s are refused by name",
    async (id) => {
      const store = new MemoryStore();
      const base = { zarr_format: 2, shape: [1], chunks: [1], dtype: "|O", order: "C", compressor: null };
      await store.put(".zarray", json({ ...base, fill_value: null, filters: [{ id }] }));
      await expect(openZarr(store)).rejects.toMatchObject({
        code: "UNSUPPORTED",
        message: expect.stringContaining(id) as string,
      });
    },
  );
});

describe("conversions of values of variable length", () => {
  let folder = "";
  beforeAll(async () => {
    folder = temporaryFolder();
    for (const writer of WRITERS)
      for (const [key, bytes] of objectsOf(writer)) {
        const file = join(folder, writer, key);
        await mkdir(dirname(file), { recursive: true });
        await writeFile(file, bytes);
      }
  });

  test("to Zarr v3 copy chunks as they are stored, or recompress them, and keep the values", async () => {
    for (const [writer, root] of [
      ["3", "v2"],
      ["3", "v3"],
      ["3", "anndata2"],
      ["2", ""],
    ] as const) {
      const [store, target] = [await storeOf(writer), new MemoryStore()];
      await convert(await openZarr(store, root), { store: target, path: "z" }, { verify: true });
      for (const each of written.get(writer)?.arrays ?? []) {
        if (!each.path.startsWith(root)) continue;
        const path = `z${each.path.slice(root.length).replace(/^\/?/, "/")}`;
        const copy = await openZarrArray(target, path);
        expect(textsOf((await copy.get()).data)).toEqual(expectedOf(each));
        const source = await openZarrArray(store, each.path);
        if (!("filters" in source.metadata)) continue;
        const isBytes = source.dtype.kind === "bytes";
        expect(copy.metadata["data_type"]).toBe(isBytes ? "variable_length_bytes" : "string");
        const isCopied = !/zlib|summed/.test(path);
        for await (const { index, key } of copy.listChunks())
          for await (const stored of source.listChunks())
            if (stored.index === index)
              expect(
                Buffer.compare(
                  (await target.get(key)) as Uint8Array,
                  (await store.get(stored.key)) as Uint8Array,
                ) === 0,
              ).toBe(isCopied);
      }
    }
    const root = await openZarrArray(await storeOf("2"), "zlib");
    await expect(
      convert(root, { store: new MemoryStore(), path: "z" }, { recode: false }),
    ).rejects.toMatchObject({ code: "UNSUPPORTED" });
  });

  test.each(["parquet", "arrow", "npy", "bcolz", "b2nd"] as const)("to %s keep the values", async (to) => {
    for (const [writer, path] of [
      ["3", "v3/sharded"],
      ["3", "v2/plain"],
      ["2", "zlib"],
    ] as const) {
      const out = join(folder, `${writer}-${path.replace("/", "-")}.${to}`);
      const { code, err } = await runCli([
        "convert",
        join(folder, writer, path),
        out,
        "--to",
        to,
        "--verify",
      ]);
      expect([err.replace(/^superchunk: note: .*\n/, ""), code]).toEqual(["", 0]);
      if (to === "bcolz" || to === "b2nd")
        expect((await runCli(["cat", out])).out).toBe(
          (await runCli(["cat", join(folder, writer, path)])).out,
        );
    }
  });

  test("of arrays of one length are tables, and text is UTF-8 in them", async () => {
    const out = join(folder, "cities.parquet");
    expect((await runCli(["convert", join(folder, "3/xarray3"), out, "--verify"])).code).toBe(0);
    const file = await readFile(out);
    const rows = await parquetReadObjects({
      file: file.buffer.slice(file.byteOffset, file.byteOffset + file.length) as ArrayBuffer,
      compressors: { ZSTD: (input, length) => decodeStreamSync("zstd", input, length) },
    });
    expect(rows.map(({ city, code, population }) => [city, code, population])).toEqual([
      ["Bern", "a", 0],
      ["Zürich", "bb", 1],
      ["東京", "ccc", 2],
      ["Ålesund", "", 3],
    ]);
  });

  test.each(WRITERS)("info, ls and attrs read documents, and no chunks (zarr-python %s)", async (writer) => {
    const store = await storeOf(writer);
    const read: string[] = [];
    const counted = interceptStore(store, {
      onCall: ({ method, key }, proceed) => {
        if (method.startsWith("get") || method.startsWith("readInto")) read.push(key);
        return proceed();
      },
    });
    const isDocument = (key: string): boolean => /(?:^|\/)(?:zarr\.json|\.z\w+)$/.test(key);
    const chunks = objectsOf(writer).flatMap(([key]) => (isDocument(key) ? [] : [key]));
    const chunksRead = (): string[] => read.filter((key) => chunks.includes(key));
    const own = ALL.filter(([each]) => each === writer);
    for (const [, { path, shape }] of own) {
      const array = await openArray(counted, path, { measureText: false });
      expect(array.shape).toEqual(shape);
      expect(await array.storedBytes()).toBeGreaterThan(0);
      await array.summary();
      const { variable } = await openArray(store, path);
      expect(array.variable).toBe(variable);
      if (variable === undefined) continue;
      expect(array.nbytes).toBeNaN();
      if (chunks.some((key) => key.startsWith(`${path}/`)))
        await expect(array.get()).rejects.toMatchObject({
          code: "BAD_ARGUMENT",
          message: expect.stringContaining("measureText"),
        });
    }
    expect(own.length).toBeGreaterThan(5);
    read.length = 0;
    for (const [, { path }] of own) await openArray(counted, path, { measureText: false });
    for await (const { group } of findReadables(counted, "", { measureText: false })) await group?.members();
    expect(chunksRead()).toEqual([]);
    expect(read.length).toBeGreaterThan(own.length);
    await openArray(counted, own[0]?.[1].path ?? "");
    expect(chunksRead()).not.toEqual([]);
  });

  test("info says what the size of a group leaves out", async () => {
    const { out } = await runCli(["info", join(folder, "3/xarray2")]);
    expect(out).toMatch(/size +\d.* without \d arrays? of variable length\n/);
    expect(out).toMatch(/^city +string +4 .* - {2,}[\d.]+ \w+ +-$/m);
    const facts = JSON.parse((await runCli(["info", join(folder, "3/xarray2"), "--json"])).out);
    expect(facts.ratio).toBeNull();
    const city = facts.columns.find(({ name }: { name: string }) => name === "city");
    expect(city).toMatchObject({ dtype: "string", nbytes: null, ratio: null });
    expect(facts.nbytes).toBeGreaterThan(0);
    const listed = JSON.parse((await runCli(["ls", join(folder, "3/xarray2"), "--json"])).out);
    expect(listed).toContainEqual(expect.objectContaining({ dtype: "string", nbytes: null, ratio: null }));
    expect((await runCli(["ls", join(folder, "3/xarray2"), "--totals"])).out).toMatch(/^string +\d/m);
  });

  test("cat, chunks, info and ls show them", async () => {
    const path = join(folder, "3/v3/blosc");
    expect((await runCli(["cat", join(folder, "3/xarray2/city")])).out).toBe("Bern\nZürich\n東京\nÅlesund\n");
    expect((await runCli(["info", path])).out).toMatch(
      /dtype +string\n[\s\S]*codecs +vlen-utf8, blosc\n[\s\S]*size +not known\n/,
    );
    expect((await runCli(["ls", join(folder, "3/v3")])).out).toMatch(/string +23 +- +- .*blosc\n/);
    expect((await runCli(["chunks", path])).out.split("\n")).toHaveLength(7);
    expect((await runCli(["verify", join(folder, "2")])).code).toBe(0);
    const opened = await open(await storeOf("3"), "v3");
    expect(opened.kind).toBe("group");
  });
});

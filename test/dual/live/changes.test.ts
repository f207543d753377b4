/** What an array that keeps itself a Zarr array shows, costs and refuses, and how it becomes a plain one. */
import * as fs from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { create as createArray, edit as openWritable } from "../../../src/node/edit.ts";
import { link, open, repairArray, unlink, verifyLinkAt } from "../../../src/node/index.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import { createArray as createIn, openWritable as openIn } from "../../../src/write/array/create.ts";
import type { Editable } from "../../../src/write/editable.ts";
import { decodeShardIndex, shardIndexLength } from "../../../src/zarr/read/shard-index.ts";
import { corpusFolder } from "../../fixtures/manifest.ts";
import { hashOfZarr, sha256 } from "../link/support.ts";
import { readByDocument, readDocument, readForeign } from "./foreign-reader.ts";
import { ramp, temporaryFolder } from "./support.ts";

const OPTIONS = { dtype: "<i4", chunkLength: 4, superchunkLength: 3, zarr: true, threads: 0 } as const;

const inode = (path: string): number => fs.statSync(path).ino;
const mode = (path: string): number => fs.statSync(path).mode & 0o777;
const json = (path: string): unknown => JSON.parse(fs.readFileSync(path, "utf8"));

describe("[FY-01] documents", () => {
  test("an empty array is a Zarr array at once, and its document follows its rows and attributes", async () => {
    const root = join(temporaryFolder(), "array");
    const array = await createArray(root, { ...OPTIONS, shape: [0, 2], attrs: { unit: "m" } });
    expect(json(join(root, "zarr.json"))).toMatchObject({ shape: [0, 2], attributes: { unit: "m" } });
    await array.append(ramp(0, 6));
    await array.flush();
    await array.setAttributes({ unit: "km", n: 1 });
    expect(json(join(root, "zarr.json"))).toMatchObject({
      shape: [3, 2],
      attributes: { unit: "km", n: 1 },
      chunk_grid: { configuration: { chunk_shape: [12, 2] } },
    });
    await array.close();
    expect(await readForeign(root)).toEqual([...ramp(0, 6)]);
    expect(await verifyLinkAt(root)).toEqual([]);
  });

  test("columns become a group of arrays", async () => {
    const root = join(temporaryFolder(), "table");
    const array = await createArray(root, {
      ...OPTIONS,
      dtype: [
        ["a", "<i4"],
        ["v", "<f4", [2]],
      ],
      attrs: { source: "x" },
    });
    for (let i = 0; i < 5; i++) {
      await array.append(Array.from({ length: 5 }, (_, k) => [i * 5 + k, [k, -k]]));
      await array.flush();
      expect(await readForeign(join(root, "a"))).toEqual([...ramp(0, 5 * i + 5)]);
    }
    await array.set(
      [{ start: 2, stop: 4, step: null }],
      [
        [7, [1, 1]],
        [8, [2, 2]],
      ],
    );
    await array.resize(17);
    await array.close();
    expect(json(join(root, "zarr.json"))).toMatchObject({
      node_type: "group",
      attributes: { source: "x", column_order: ["a", "v"] },
      consolidated_metadata: { metadata: { a: { shape: [17] }, v: { shape: [17, 2] } } },
    });
    const archive = await open(root);
    if (archive.kind !== "array") throw new TypeError(archive.kind);
    for (const name of ["a", "v"])
      expect(await hashOfZarr(root, name)).toBe(sha256(await archive.column(name).getBytes()));
    await archive.close();
    expect(await verifyLinkAt(root)).toEqual([]);
  });

  test("an array that Zarr cannot hold as stored is refused, and nothing is left", async () => {
    const root = join(temporaryFolder(), "complex");
    await expect(createArray(root, { ...OPTIONS, dtype: ">c16" })).rejects.toMatchObject({
      code: "UNSUPPORTED",
      details: { field: "zarr" },
    });
    await expect(createArray(root, { ...OPTIONS, shape: [4, 0] })).rejects.toMatchObject({
      code: "UNSUPPORTED",
    });
    expect(fs.existsSync(join(root, "meta", "sizes"))).toBe(false);
  });

  test("a writer that does not know the file system refuses to write, and creates nothing", async () => {
    await expect(createIn(new MemoryStore(), "", { ...OPTIONS })).rejects.toMatchObject({
      code: "UNSUPPORTED",
    });
    const root = join(temporaryFolder(), "array");
    await (await createArray(root, OPTIONS)).close();
    const store = new MemoryStore();
    for (const name of ["sizes", "storage", "attributes"])
      await store.put(`meta/${name}`, fs.readFileSync(join(root, "meta", name)));
    await expect(openIn(store, "")).rejects.toMatchObject({
      code: "UNSUPPORTED",
      details: { field: "zarr" },
    });
  });
});

describe("[FY-02] full superchunks", () => {
  test("are the shards, as read-only hard links; the open end is a separate shard", async () => {
    const root = join(temporaryFolder(), "array");
    const array = await createArray(root, OPTIONS);
    await array.append(ramp(0, 30));
    await array.flush();
    for (const n of [0, 1]) {
      const [data, shard] = [join(root, "data", `__${n + 1}__.bin`), join(root, "c", String(n))];
      expect(inode(shard)).toBe(inode(data));
      expect(mode(data)).toBe(0o444);
      expect(fs.statSync(data).nlink).toBe(2);
    }
    expect(fs.statSync(join(root, "c", "2")).nlink).toBe(1);
    // The open end grows chunk by chunk, and the superchunk that it becomes takes its place.
    for (let i = 0; i < 3; i++) {
      await array.append(ramp(30 + 3 * i, 3));
      await array.flush();
      expect(await readForeign(root)).toEqual([...ramp(0, 33 + 3 * i)]);
    }
    await array.close();
    expect(inode(join(root, "c", "2"))).toBe(inode(join(root, "data", "__3__.bin")));
  });

  test("whose data file already has another name are not touched: their shard is a copy", async () => {
    const root = join(temporaryFolder(), "array");
    const array = await createArray(root, { ...OPTIONS, publish: { everySeconds: 3600 } });
    await array.append(ramp(0, 12));
    await array.flush();
    await array.append(ramp(12, 12));
    await array.flush();
    const data = join(root, "data", "__2__.bin");
    const backup = join(temporaryFolder(), "backup.bin");
    fs.linkSync(data, backup);
    const before = mode(backup);
    await array.close();
    expect(mode(backup)).toBe(before);
    expect(inode(join(root, "c", "1"))).not.toBe(inode(data));
    expect(await readForeign(root)).toEqual([...ramp(0, 24)]);
  });
});

describe("[FY-02] [FY-04] a separate shard file", () => {
  const headOf = (path: string): [string, number | undefined] => {
    const bytes = fs.readFileSync(path);
    return [bytes.toString("latin1", 0, 16), bytes[16]];
  };
  const indexOf = async (path: string): Promise<readonly ({ offset: number } | undefined)[]> => {
    const bytes = new Uint8Array(fs.readFileSync(path));
    const index = bytes.subarray(bytes.length - shardIndexLength(3));
    return decodeShardIndex(index, { path, size: bytes.length, grid: [3] });
  };

  test("that only grew has whole chunks where the full superchunk will have them, followed by the padded one", async () => {
    const root = join(temporaryFolder(), "array");
    const array = await createArray(root, OPTIONS);
    await array.append(ramp(0, 10));
    await array.flush();
    const shard = join(root, "c", "0");
    expect(headOf(shard)).toEqual(["superchunk shard", 1]);
    const [first, second, padded] = await indexOf(shard);
    // A chunk of 16 bytes that cannot be compressed, with header and digest: three of them after header and offsets.
    expect(padded?.offset).toBeGreaterThanOrEqual(32 + 3 * 8 + 3 * (16 + 16 + 4));
    await array.append(ramp(10, 2));
    await array.close();
    expect(inode(shard)).toBe(inode(join(root, "data", "__1__.bin")));
    expect((await indexOf(shard)).slice(0, 2)).toEqual([first, second]);
  });

  test("in which a whole chunk was replaced stays separate when its superchunk is full", async () => {
    const root = join(temporaryFolder(), "array");
    const array = await createArray(root, OPTIONS);
    await array.append(ramp(0, 8));
    await array.flush();
    await array.set([{ start: 0, stop: 4, step: 1 }], 7);
    await array.flush();
    expect(headOf(join(root, "c", "0"))).toEqual(["superchunk shard", 0]);
    await array.append(ramp(8, 4));
    await array.compact();
    await array.close();
    expect(headOf(join(root, "c", "0"))).toEqual(["superchunk shard", 0]);
    expect(inode(join(root, "c", "0"))).not.toBe(inode(join(root, "data", "__1__.bin")));
    expect(await readForeign(root)).toEqual([7, 7, 7, 7, ...ramp(4, 8)]);
    expect(await verifyLinkAt(root)).toEqual([]);
  });
});

describe("[FY-05] a shard whose last row was removed", () => {
  test("is a note with the size up to which indexes pointed, and an error to readers with the old shape", async () => {
    const root = join(temporaryFolder(), "array");
    const array = await createArray(root, OPTIONS);
    await array.append(ramp(0, 30));
    await array.flush();
    const former = readDocument(root);
    const sizes = [1, 2].map((shard) => fs.statSync(join(root, "c", `${shard}`)).size);
    await array.resize(5);
    await array.close();
    for (const [i, size] of sizes.entries()) {
      const note = fs.readFileSync(join(root, "c", `${i + 1}`), "utf8");
      expect(Number(/^gone (\d+)\n$/.exec(note)?.[1])).toBeGreaterThanOrEqual(size);
      expect(note.length).toBeLessThan(shardIndexLength(3));
    }
    expect(await readForeign(root)).toEqual([...ramp(0, 5)]);
    expect((await readByDocument(root, former)).slice(12)).toEqual(new Array(18).fill(undefined));
  });
});

describe("[FY-04] disk space", () => {
  test("temporary data come after a hole, and take no disk space once they are gone", async () => {
    const root = join(temporaryFolder(), "array");
    const array = await createArray(root, { ...OPTIONS, chunkLength: 1000, superchunkLength: 4 });
    for (let i = 0; i < 40; i++) {
      await array.append(ramp(7 * i, 70));
      await array.flush();
    }
    const { size, blocks } = fs.statSync(join(root, "c", "0"));
    expect(size).toBeGreaterThan(16_000);
    expect(blocks * 512).toBeLessThan(size);
    await array.close();
  });

  test.each([
    ["flush", [3, 12, 13, 26]],
    ["full", [0, 12, 12, 24]],
    [{ everySeconds: 3600 }, [3, 3, 3, 3]],
  ] as const)("publish: %j shows rows when it says so, and close shows all", async (publish, rows) => {
    const root = join(temporaryFolder(), "array");
    const array = await createArray(root, { ...OPTIONS, publish: "flush" });
    await array.close();
    const again = await openWritable(root, { threads: 0, publish });
    let length = 0;
    for (const [i, count] of [3, 9, 1, 13].entries()) {
      await again.append(ramp(length, count));
      await again.flush();
      length += count;
      expect(await readForeign(root)).toEqual([...ramp(0, rows[i] ?? 0)]);
    }
    await again.close();
    expect(await readForeign(root)).toEqual([...ramp(0, 26)]);
    expect(await verifyLinkAt(root)).toEqual([]);
  });

  test("an invalid publish setting is refused, before anything is written or shown", async () => {
    const root = join(temporaryFolder(), "array");
    const made = join(temporaryFolder(), "made");
    await (await createArray(made, OPTIONS)).close();
    for (const publish of ["sometimes", { everySeconds: -1 }, { everySeconds: Number.NaN }, {}, 3, null]) {
      const options = { threads: 0, publish: publish as unknown as "flush" };
      const refused = { code: "BAD_ARGUMENT", details: { field: "publish" } };
      await expect(createArray(root, { ...OPTIONS, ...options })).rejects.toMatchObject(refused);
      expect(fs.existsSync(join(root, "meta/sizes"))).toBe(false);
      await expect(openWritable(made, options)).rejects.toMatchObject(refused);
    }
    await (await openWritable(made, { threads: 0, publish: { everySeconds: 0 } })).close();
  });

  test("publishing less often writes fewer bytes", async () => {
    const bytes: number[] = [];
    for (const publish of ["flush", "full"] as const) {
      const mirrorCosts = { bytes: 0, shards: 0, publications: 0 };
      const array = await createArray(join(temporaryFolder(), "array"), { ...OPTIONS, publish, mirrorCosts });
      for (let i = 0; i < 40; i++) {
        await array.append(ramp(3 * i, 3));
        await array.flush();
      }
      await array.close();
      bytes.push(mirrorCosts.bytes);
    }
    expect(bytes[1]).toBeLessThan((bytes[0] ?? 0) / 10);
  });
});

describe("[FY-06] the state", () => {
  test("gives the generation that is shown, none while a writer is at work, and forms once there are two", async () => {
    const root = join(temporaryFolder(), "array");
    const state = (): unknown => json(join(root, "meta", "zarr"));
    const shown = (): object => {
      const { generation, layout } = json(join(root, "meta", "sizes")) as {
        readonly generation: number;
        readonly layout: { readonly id: string };
      };
      return { superchunk_mirror: 1, generation, id: layout.id };
    };
    const array = await createArray(root, OPTIONS);
    await array.append(ramp(0, 24));
    await array.flush();
    expect(state()).toEqual({ superchunk_mirror: 1, high: 0 });
    await array.close();
    expect(state()).toEqual({ ...shown(), high: 0 });
    const again = await openWritable(root, { threads: 0 });
    await again.compact({ chunkLength: 2, superchunkLength: 2 });
    await again.close();
    const { forms, high, ...rest } = state() as { readonly forms: readonly object[]; readonly high: number };
    expect(rest).toEqual(shown());
    expect(high).toBeGreaterThanOrEqual(0);
    const bytes = { name: "bytes", configuration: { endian: "little" } };
    const form = (capacity: number, chunklen: number): object => ({
      ...{ node: "", dimensions: 0, capacity, chunkBytes: 4 * chunklen },
      item: JSON.stringify(["int32", [chunklen], bytes]),
    });
    expect(
      forms.map((each) => {
        const { item, ...others } = each as { readonly item: string };
        return { ...others, item: JSON.stringify(JSON.parse(item)) };
      }),
    ).toEqual([form(3, 4), form(2, 2)]);
  });

  test("an array that was repaired restarts its generations, and an older view is not taken for current", async () => {
    const root = join(temporaryFolder(), "array");
    const array = await createArray(root, OPTIONS);
    await array.append(ramp(0, 36));
    await array.set([{ start: 3, stop: 9, step: 1 }], 77);
    await array.close();
    const before = json(join(root, "meta", "zarr")) as object;
    fs.rmSync(join(root, "meta", "sizes"));
    await repairArray(root);
    // As if the repair had taken as many commits as the array had before.
    const { generation } = json(join(root, "meta", "sizes")) as { readonly generation: number };
    fs.chmodSync(join(root, "meta", "zarr"), 0o644);
    fs.writeFileSync(join(root, "meta", "zarr"), JSON.stringify({ ...before, generation }));
    const again = await openWritable(root, { threads: 0 });
    const { data } = (await again.get(null)) as { readonly data: Int32Array };
    await again.close();
    expect(await readForeign(root)).toEqual([...data]);
    expect(await verifyLinkAt(root)).toEqual([]);
  });

  test("that is damaged is refused, and the error names the file", async () => {
    const root = join(temporaryFolder(), "array");
    await (await createArray(root, OPTIONS)).close();
    for (const [text, code] of [
      ['{"superchunk_mirror":1,"high":-1}', "BAD_FIELD"],
      ['{"superchunk_mirror":1,"high":0,"generation":"x"}', "BAD_FIELD"],
      ['{"superchunk_mirror":1,"high":0,"generation":1,"id":1}', "BAD_FIELD"],
      ['{"superchunk_mirror":2,"high":0}', "UNSUPPORTED"],
      ['{"superchunk_mirror":1,"high":0,"forms":{}}', "BAD_FIELD"],
      [
        '{"superchunk_mirror":1,"high":0,"forms":[{"node":"../x","dimensions":0,"capacity":1,"chunkBytes":1,"item":""}]}',
        "BAD_FIELD",
      ],
      ["[]", "BAD_FIELD"],
    ] as const) {
      fs.writeFileSync(join(root, "meta", "zarr"), text);
      await expect(openWritable(root, { threads: 0 })).rejects.toMatchObject({
        code,
        details: { path: join(root, "meta", "zarr") },
      });
    }
    await unlink(root);
    expect(fs.readdirSync(root)).toEqual(["meta"]);
  });
});

describe("[FY-07] verify, link and unlink", () => {
  test("a damaged, replaced or missing shard is found, and linking again repairs it", async () => {
    for (const damage of ["index", "chunk", "gone", "mode", "document"]) {
      const root = join(temporaryFolder(), "array");
      const array = await createArray(root, OPTIONS);
      await array.append(ramp(0, 30));
      await array.close();
      const shard = join(root, "c", "2");
      fs.chmodSync(shard, 0o644);
      const bytes = fs.readFileSync(shard);
      if (damage === "index") fs.writeFileSync(shard, bytes.fill(0x55, bytes.length - 8));
      else if (damage === "chunk") fs.writeFileSync(shard, bytes.fill(0x55, 60, 70));
      else if (damage === "gone") fs.rmSync(shard);
      else if (damage === "document") fs.writeFileSync(join(root, "zarr.json"), "{}");
      if (damage !== "mode" && damage !== "gone") fs.chmodSync(shard, 0o444);
      const findings = await verifyLinkAt(root);
      expect(findings, damage).toHaveLength(1);
      expect(findings?.[0], damage).toMatchObject({ severity: damage === "mode" ? "warning" : "error" });
      expect((await link(root)).done, damage).toBe(damage === "document");
      expect(await verifyLinkAt(root), damage).toEqual([]);
      expect(await readForeign(root)).toEqual([...ramp(0, 30)]);
    }
  });

  test("an index that another program's append has overwritten is replaced by a separate shard", async () => {
    const root = join(temporaryFolder(), "array");
    const array = await createArray(root, OPTIONS);
    await array.append(ramp(0, 24));
    await array.close();
    const data = join(root, "data", "__1__.bin");
    fs.chmodSync(data, 0o644);
    const bytes = fs.readFileSync(data);
    fs.writeFileSync(data, bytes.fill(0x11, bytes.length - 52, bytes.length - 40));
    expect(await verifyLinkAt(root)).toMatchObject([{ severity: "error" }]);
    await link(root);
    expect(await readForeign(root)).toEqual([...ramp(0, 24)]);
    expect(inode(join(root, "c", "0"))).not.toBe(inode(data));
    expect(await verifyLinkAt(root)).toEqual([]);
  });

  test("arrays that are not kept as Zarr arrays have no findings about it, whoever wrote them", async () => {
    const folders = ["carray/bcolz-S5", "ctable", "blz-superchunk/f8-default", "blz-superchunk/nested"];
    for (const name of folders) expect(await verifyLinkAt(join(corpusFolder, name)), name).toBeUndefined();
    const root = join(temporaryFolder(), "plain");
    await (await createArray(root, { ...OPTIONS, zarr: false })).close();
    expect(await verifyLinkAt(root)).toBeUndefined();
    await expect(unlink(root)).rejects.toMatchObject({ code: "NOT_FOUND" });
  });

  test("unlink makes it a plain array, which grows as one, and can be linked again", async () => {
    const root = join(temporaryFolder(), "array");
    const array = await createArray(root, OPTIONS);
    await array.append(ramp(0, 30));
    await array.close();
    await unlink(root);
    expect(fs.readdirSync(root).sort()).toEqual(["data", "meta"]);
    expect(fs.readdirSync(join(root, "meta")).sort()).toEqual(["attributes", "sizes", "storage"]);
    expect(mode(join(root, "data", "__1__.bin")) & 0o200).toBe(0o200);
    const again = await openWritable(root, { threads: 0 });
    await again.append(ramp(30, 10));
    await again.compact({ chunkLength: 5 });
    await again.close();
    expect(fs.existsSync(join(root, "zarr.json"))).toBe(false);
    await link(root);
    expect(await readForeign(root)).toEqual([...ramp(0, 40)]);
    await unlink(root);
  });

  test("an array that replaces one with a Zarr view leaves nothing of the view", async () => {
    const root = join(temporaryFolder(), "array");
    const array = await createArray(root, OPTIONS);
    await array.append(ramp(0, 30));
    await array.close();
    const other = await createArray(root, { ...OPTIONS, zarr: false, overwrite: true });
    await other.append(ramp(0, 5));
    await other.close();
    expect(fs.readdirSync(root).sort()).toEqual(["data", "meta"]);
  });
});

describe("[FY-09] other chunks and columns", () => {
  test("full superchunks past the old shards are hard links, the others separate files, until unlink and link --live", async () => {
    const root = join(temporaryFolder(), "array");
    const array = await createArray(root, OPTIONS);
    await array.append(ramp(0, 36));
    await array.compact({ chunkLength: 2, superchunkLength: 2 });
    await array.close();
    expect(json(join(root, "zarr.json"))).toMatchObject({
      chunk_grid: { configuration: { chunk_shape: [4] } },
      codecs: [{ configuration: { chunk_shape: [2] } }],
    });
    const isLinked = (shard: number): boolean =>
      inode(join(root, "c", `${shard}`)) === inode(join(root, "data", `__${shard + 1}__.bin`));
    expect(Array.from({ length: 9 }, (_, shard) => isLinked(shard))).toEqual([
      ...[false, false, false],
      ...[true, true, true, true, true, true],
    ]);
    expect(await readForeign(root)).toEqual([...ramp(0, 36)]);
    expect(await verifyLinkAt(root)).toEqual([]);
    await unlink(root);
    expect(fs.readdirSync(root).sort()).toEqual(["data", "meta"]);
    await link(root, undefined, { live: true });
    expect(isLinked(0)).toBe(true);
    expect(await readForeign(root)).toEqual([...ramp(0, 36)]);
  });

  test("another superchunklen is chosen if readers would otherwise mistake chunks, and an explicit one is refused", async () => {
    const root = join(temporaryFolder(), "array");
    const array = await createArray(root, { ...OPTIONS, superchunkLength: 512 });
    await array.append(ramp(0, 30));
    const refused = array.compact({ chunkLength: 5, superchunkLength: 512 });
    await expect(refused).rejects.toMatchObject({ code: "UNSUPPORTED", details: { field: "superchunklen" } });
    expect(array.chunkLength).toBe(4);
    expect(await readForeign(root)).toEqual([...ramp(0, 30)]);
    await array.compact({ chunkLength: 5 });
    expect([array.chunkLength, array.superchunkLength]).toEqual([5, 513]);
    await array.compact({ chunkLength: 4, superchunkLength: 512, compressor: { cname: "zstd" } });
    await array.close();
    expect(await readForeign(root)).toEqual([...ramp(0, 30)]);
    expect(await verifyLinkAt(root)).toEqual([]);
  });

  test("a column of another kind under the name of an old one is refused, and so is the name of an existing folder", async () => {
    const root = join(temporaryFolder(), "table");
    const dtype = [
      ["a", "<i4"],
      ["v", "<f4"],
    ];
    const array = await createArray(root, { ...OPTIONS, dtype });
    await array.resize(20);
    await array.deleteColumn("v");
    fs.mkdirSync(join(root, "w"));
    fs.writeFileSync(join(root, "w", "zarr.json"), "{}");
    const int = { kind: "int", itemSize: 4, byteOrder: "little" } as const;
    const shape = [2];
    for (const column of [
      { name: "v", dtype: int },
      { name: "v", dtype: { ...int, kind: "float" } as const, shape },
      { name: "data", dtype: int },
    ])
      await expect(array.addColumn(column)).rejects.toMatchObject({ code: "UNSUPPORTED" });
    await expect(array.addColumn({ name: "w", dtype: int })).rejects.toMatchObject({ code: "CONFLICT" });
    expect(array.columnNames).toEqual(["a"]);
    await array.addColumn({ name: "v", dtype: { ...int, kind: "float" } as const });
    await array.close();
    expect(array.columnNames).toEqual(["a", "v"]);
    expect(await verifyLinkAt(root)).toEqual([]);
    await unlink(root);
    expect(fs.readdirSync(root).sort()).toEqual(["data", "meta", "w"]);
  });

  /** 30 rows, and a folder in place of a shard, so that other chunks cannot be shown. */
  async function makeStuck(): Promise<{ root: string; array: Editable; free: () => void }> {
    const root = join(temporaryFolder(), "array");
    const array = await createArray(root, OPTIONS);
    await array.append(ramp(0, 30));
    await array.flush();
    const shard = join(root, "c", "1");
    fs.rmSync(shard);
    fs.mkdirSync(shard);
    fs.writeFileSync(join(shard, "x"), "");
    await expect(array.compact({ superchunkLength: 2 })).rejects.toMatchObject({ name: "SuperchunkError" });
    expect(array.superchunkLength).toBe(2);
    expect(fs.existsSync(join(root, "zarr.json"))).toBe(false);
    return { root, array, free: () => fs.rmSync(shard, { recursive: true }) };
  }

  test("if showing the view fails, the array has its new chunks, and the next flush shows them", async () => {
    const { root, array, free } = await makeStuck();
    free();
    await array.append(ramp(30, 1));
    await array.flush();
    expect(await readForeign(root)).toEqual([...ramp(0, 31)]);
    await array.close();
    expect(await verifyLinkAt(root)).toEqual([]);
  });

  test("rows that a writer left without a document are reported; link shows them, and unlink removes the rest", async () => {
    for (const shows of [true, false]) {
      const { root, array, free } = await makeStuck();
      await expect(array.abandon()).rejects.toMatchObject({ name: "SuperchunkError" });
      free();
      const findings = (await verifyLinkAt(root)) ?? [];
      expect(findings.map(({ severity }) => severity)).toContain("warning");
      expect(findings.map(({ severity }) => severity)).not.toContain("error");
      if (shows) {
        expect((await link(root)).done).toBe(false);
        expect(await readForeign(root)).toEqual([...ramp(0, 30)]);
        expect(await verifyLinkAt(root)).toEqual([]);
      } else {
        await unlink(root);
        expect(fs.readdirSync(root).sort()).toEqual(["data", "meta"]);
        const archive = await open(root);
        expect((await archive.verify()).findings).toEqual([]);
        await archive.close();
      }
    }
  });
});

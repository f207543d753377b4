/** What an array that keeps itself a Zarr array shows, costs, refuses, and how it becomes a plain one. */
import * as fs from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { createArray as createIn, openWritable as openIn } from "../../src/array/write/create.ts";
import { createArray, link, open, openWritable, unlink, verifyLinkAt } from "../../src/node/index.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { corpusFolder } from "../fixtures/manifest.ts";
import { hashOfZarr, sha256 } from "../link/support.ts";
import { readForeign } from "./foreign-reader.ts";
import { ramp, temporaryFolder } from "./support.ts";

const OPTIONS = { dtype: "<i4", chunklen: 4, superchunklen: 3, zarr: true, threads: 0 } as const;

const inode = (path: string): number => fs.statSync(path).ino;
const mode = (path: string): number => fs.statSync(path).mode & 0o777;
const json = (path: string): unknown => JSON.parse(fs.readFileSync(path, "utf8"));

describe("[FY-01] documents", () => {
  test("an empty array is a Zarr array at once, and its document follows rows and attributes", async () => {
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
    await expect(openWritable(root, { threads: 0 }).then((a) => a.deleteColumn("a"))).rejects.toMatchObject({
      code: "UNSUPPORTED",
    });
  });

  test("what Zarr cannot hold as it is stored is refused, and nothing is left", async () => {
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

  test("a writer that does not know the file system refuses to write, and makes none", async () => {
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
  test("are the shards, by hard links that nobody can write through; the open end is a shard of its own", async () => {
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

  test("a data file that has another name already is not touched: its shard is a copy", async () => {
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

describe("[FY-04] room", () => {
  test("what is there for a time lies behind a hole, and takes no room on the disk once it is gone", async () => {
    const root = join(temporaryFolder(), "array");
    const array = await createArray(root, { ...OPTIONS, chunklen: 1000, superchunklen: 4 });
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
  ] as const)("publish: %j shows rows when it is said to, and close shows all", async (publish, rows) => {
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
  test("a damaged one is refused, and names the file", async () => {
    const root = join(temporaryFolder(), "array");
    await (await createArray(root, OPTIONS)).close();
    for (const [text, code] of [
      ['{"superchunk_mirror":1,"high":-1}', "BAD_FIELD"],
      ['{"superchunk_mirror":1,"high":0,"generation":"x"}', "BAD_FIELD"],
      ['{"superchunk_mirror":2,"high":0}', "UNSUPPORTED"],
      ["[]", "BAD_FIELD"],
    ] as const) {
      fs.writeFileSync(join(root, "meta", "zarr"), text);
      await expect(openWritable(root, { threads: 0 })).rejects.toMatchObject({
        code,
        details: { path: join(root, "meta", "zarr") },
      });
    }
  });
});

describe("[FY-07] verify, link and unlink", () => {
  test("a damaged, exchanged or missing shard is found, and linking again brings it right", async () => {
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
      expect(findings?.[0], damage).toMatchObject({ severity: "error" });
      expect((await link(root)).done, damage).toBe(damage === "document");
      expect(await verifyLinkAt(root), damage).toEqual([]);
      expect(await readForeign(root)).toEqual([...ramp(0, 30)]);
    }
  });

  test("an index that a foreign append has overwritten is replaced by a shard of its own", async () => {
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

  test("arrays that are none of Zarr have no findings of it, whoever wrote them", async () => {
    const folders = ["carray/bcolz-S5", "ctable", "blz-superchunk/f8-default", "blz-superchunk/nested"];
    for (const name of folders) expect(await verifyLinkAt(join(corpusFolder, name)), name).toBeUndefined();
    const root = join(temporaryFolder(), "plain");
    await (await createArray(root, { ...OPTIONS, zarr: false })).close();
    expect(await verifyLinkAt(root)).toBeUndefined();
    await expect(unlink(root)).rejects.toMatchObject({ code: "NOT_FOUND" });
  });

  test("unlink makes it a plain array, which grows as one, and can be linked", async () => {
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
    await again.compact({ chunklen: 5 });
    await again.close();
    expect(fs.existsSync(join(root, "zarr.json"))).toBe(false);
    await link(root);
    expect(await readForeign(root)).toEqual([...ramp(0, 40)]);
    await unlink(root);
  });

  test("chunks of another kind are refused, and the array stays as it is", async () => {
    const root = join(temporaryFolder(), "array");
    const array = await createArray(root, OPTIONS);
    await array.append(ramp(0, 30));
    await expect(array.compact({ chunklen: 5 })).rejects.toMatchObject({ code: "UNSUPPORTED" });
    await array.close();
    expect(await readForeign(root)).toEqual([...ramp(0, 30)]);
  });

  test("an array that takes the place of a mirrored one leaves nothing of its Zarr view", async () => {
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

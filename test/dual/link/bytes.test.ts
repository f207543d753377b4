/** The bytes of a linked file, and which files can be linked. */
import * as fs from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { crc32c } from "../../../src/bytes/checksum.ts";
import { decodeSync, prepare } from "../../../src/codec/index.ts";
import { create as createArray } from "../../../src/node/edit.ts";
import { link, open, unlink } from "../../../src/node/index.ts";
import { decodeShardIndex, shardIndexLength } from "../../../src/zarr/read/shard-index.ts";
import { corpusFolder } from "../../fixtures/manifest.ts";
import { makeFile, stored } from "../../format/small-archives.ts";
import { copyOf, hashOfZarr, sha256, snapshot, temporaryFolder } from "./support.ts";

test("[FL-02] the original bytes of a file are followed by a padded copy of the short last chunk and the index", async () => {
  const source = join(corpusFolder, "blz-superchunk", "i4-adler32-meta");
  const copy = copyOf(source);
  await link(copy);
  const archive = await open(copy);
  if (archive.kind !== "array") throw new TypeError(archive.kind);
  const chunks = [];
  for await (const chunk of archive.listChunks()) chunks.push(chunk);
  const values = await archive.getBytes();
  const { chunkBytes } = archive;
  await archive.close();
  await prepare("zlib");
  const names = fs.readdirSync(join(source, "data")).sort();
  const capacity = chunks.filter(({ key }) => key === "data/__1__.bin").length;
  expect(names.length).toBe(3);
  for (const name of names) {
    const original = fs.readFileSync(join(source, "data", name));
    const linked = new Uint8Array(fs.readFileSync(join(copy, "data", name)));
    expect(original.equals(linked.subarray(0, original.length))).toBe(true);
    const index = linked.slice(linked.length - shardIndexLength(capacity));
    const entries = await decodeShardIndex(index, { path: name, size: linked.length, grid: [capacity] });
    const own = chunks.filter(({ key }) => key === `data/${name}`);
    for (const [slot, chunk] of own.entries()) {
      const entry = entries[slot];
      if (entry === undefined) throw new TypeError("no entry");
      const items = decodeSync(linked.subarray(entry.offset, entry.offset + entry.nbytes));
      const rows = values.subarray(chunk.index * chunkBytes, (chunk.index + 1) * chunkBytes);
      expect(items.length).toBe(chunkBytes);
      expect(Buffer.from(items.subarray(0, rows.length)).equals(rows)).toBe(true);
      // The padding is the fill value, 0 in this array.
      expect(items.subarray(rows.length).every((byte) => byte === 0)).toBe(true);
      const isShort = rows.length < chunkBytes;
      expect(entry.offset).toBe(isShort ? original.length : chunk.offset);
    }
    for (const entry of entries.slice(own.length)) expect(entry).toBeUndefined();
  }
});

test("unlink counts the bytes that it cuts off all files", async () => {
  const root = copyOf(join(corpusFolder, "blz-superchunk", "i4-adler32-meta"));
  const { files } = await link(root);
  const added = files.reduce((sum, file) => sum + file.added, 0);
  expect([files.length, added > files.length]).toEqual([3, true]);
  expect(await unlink(root)).toMatchObject({ files: 3, removed: added });
});

test("[FL-03] shards are read-only hard links, or of the requested kind", async () => {
  const source = join(corpusFolder, "blz-superchunk", "i8-2d-crc32");
  const hard = copyOf(source);
  await link(hard);
  const [data, shard] = [
    fs.statSync(join(hard, "data", "__1__.bin")),
    fs.statSync(join(hard, "c", "0", "0")),
  ];
  expect(shard.ino).toBe(data.ino);
  expect(shard.mode & 0o777).toBe(0o444);
  const symbolic = copyOf(source);
  await link(symbolic, undefined, { kind: "symbolic" });
  expect(fs.readlinkSync(join(symbolic, "c", "0", "0"))).toBe(join("..", "..", "data", "__1__.bin"));
  const copied = copyOf(source);
  await link(copied, undefined, { kind: "copy" });
  expect(snapshot(join(copied, "data"))).toEqual(snapshot(join(source, "data")));
  // No program writes into a file with an index: the data file, or the copy if only that has the index.
  expect(fs.statSync(join(symbolic, "data", "__1__.bin")).mode & 0o222).toBe(0);
  const copy = fs.statSync(join(copied, "c", "0", "0"));
  expect(copy.mode & 0o222).toBe(0);
  expect(copy.size).toBeGreaterThan(fs.statSync(join(copied, "data", "__1__.bin")).size);
});

test("[FL-03] a single file becomes a shard in a folder of its own", async () => {
  const file = copyOf(join(corpusFolder, "bloscpack-3", "array-f8.blp"));
  const root = `${file}.zarr`;
  await link(file, root);
  expect(fs.readdirSync(root, { recursive: true }).sort()).toEqual([
    "c",
    join("c", "0"),
    "superchunk-link.json",
    "zarr.json",
  ]);
  expect(fs.statSync(join(root, "c", "0")).ino).toBe(fs.statSync(file).ino);
});

test("[FL-04] [FL-07] the record gives what was there before, what was added, and the checksums of the documents", async () => {
  const source = join(corpusFolder, "blz-superchunk", "i4-adler32-meta");
  const root = copyOf(source);
  await link(root, undefined, { dimensionNames: ["time"] });
  const record = JSON.parse(fs.readFileSync(join(root, "superchunk-link.json"), "utf8")) as object;
  const hex = (sum: number): string => sum.toString(16).padStart(8, "0");
  const files = await Promise.all(
    fs.readdirSync(join(source, "data")).map(async (name) => {
      const path = join(source, "data", name);
      const { size, mode } = fs.statSync(path);
      const tail = new Uint8Array(fs.readFileSync(join(root, "data", name)).subarray(size));
      const link = `c/${Number(/\d+/.exec(name)?.[0]) - 1}`;
      const permissions = (mode & 0o7777).toString(8);
      return {
        path: `data/${name}`,
        link,
        size,
        mode: permissions,
        tail: tail.length,
        crc32c: hex(await crc32c(tail)),
      };
    }),
  );
  expect(record).toEqual({
    ...{ superchunk_link: 1, kind: "hard", data: ".", archive: "" },
    files: files.sort((a, b) => (a.link < b.link ? -1 : 1)),
    documents: ["zarr.json"],
    sums: { "zarr.json": hex(await crc32c(new Uint8Array(fs.readFileSync(join(root, "zarr.json"))))) },
    options: { dimension_names: ["time"] },
    folders: ["c"],
  });
});

test("[FL-01] a file whose header does not give the number of chunks can only be linked by a copy", async () => {
  const chunks = [0, 1, 2].map((first) => stored(Uint8Array.from({ length: 4 }, (_, i) => 4 * first + i)));
  const file = join(temporaryFolder(), "piped.blp");
  fs.writeFileSync(file, await makeFile({ chunks, nchunks: -1, lastChunk: -1 }));
  const before = snapshot(file);
  await expect(link(file, `${file}.zarr`)).rejects.toMatchObject({
    code: "UNSUPPORTED",
    details: { path: file },
  });
  expect(snapshot(file)).toEqual(before);
  expect(fs.existsSync(`${file}.zarr`)).toBe(false);
  await link(file, `${file}.zarr`, { kind: "copy" });
  expect(snapshot(file)).toEqual(before);
  expect(await hashOfZarr(`${file}.zarr`)).toBe(sha256(Uint8Array.from({ length: 12 }, (_, i) => i)));
});

test("[FL-01] files whose chunks are not contiguous, or whose count is wrong, are refused with the reason", async () => {
  const root = join(temporaryFolder(), "changed");
  const array = await createArray(root, { dtype: "<i4", chunkLength: 4, superchunkLength: 4, threads: 0 });
  await array.append(Int32Array.from({ length: 32 }, (_, i) => i));
  await array.flush();
  await array.set([{ start: 4, stop: 8, step: 1 }], Int32Array.of(-1, -2, -3, -4));
  await array.flush();
  await array.abandon();
  const before = snapshot(root);
  await expect(link(root)).rejects.toMatchObject({
    code: "UNSUPPORTED",
    message: expect.stringContaining("superchunk compact") as string,
  });
  expect(snapshot(root)).toEqual(before);

  // One chunk in the first file, two in the second.
  const uneven = await createRoot([4, 8]);
  const unchanged = snapshot(uneven);
  await expect(link(uneven)).rejects.toMatchObject({
    code: "UNSUPPORTED",
    details: { path: join(uneven, "data", "__2__.bin") },
    message: expect.stringContaining("it has 2 chunks of the array and the first file 1") as string,
  });
  expect(snapshot(uneven)).toEqual(unchanged);
  // The other way round the last shard is a short one.
  expect((await link(await createRoot([8, 4]))).files).toMatchObject([{ chunks: 2 }, { chunks: 1 }]);
});

/** A root of the BLZ document with one superchunk per given number of rows, in chunks of four. */
async function createRoot(lengths: readonly number[]): Promise<string> {
  const root = join(temporaryFolder(), "root");
  fs.mkdirSync(join(root, "data"), { recursive: true });
  fs.mkdirSync(join(root, "meta"));
  for (const [i, rows] of lengths.entries()) {
    const part = join(temporaryFolder(), "part");
    const array = await createArray(part, { dtype: "<i4", chunkLength: 4, superchunkLength: 2, threads: 0 });
    await array.append(Int32Array.from({ length: rows }, (_, row) => row));
    await array.close();
    fs.copyFileSync(join(part, "data", "__1__.bin"), join(root, "data", `__${i + 1}__.bin`));
  }
  const rows = lengths.reduce((sum, length) => sum + length, 0);
  fs.writeFileSync(
    join(root, "meta", "sizes"),
    JSON.stringify({ shape: [rows], nbytes: rows * 4, cbytes: 0 }),
  );
  fs.writeFileSync(
    join(root, "meta", "storage"),
    JSON.stringify({
      dtype: "<i4",
      cparams: { clevel: 5, shuffle: true, cname: "lz4" },
      chunklen: 4,
      dflt: 0,
    }),
  );
  return root;
}

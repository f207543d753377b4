/** A link takes the sizes of chunks from their headers, and checks these. */
import * as fs from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { link, planLinkAt, unlink, verifyLinkAt } from "../../../src/node/index.ts";
import { corpusFolder } from "../../fixtures/manifest.ts";
import { copyOf, snapshot } from "./support.ts";

/** Changes bytes of a file's chunk; `at` counts from the chunk's start. */
function changeChunk(file: string, chunk: number, at: number, bytes: readonly number[]): void {
  const { mode } = fs.statSync(file);
  fs.chmodSync(file, 0o644);
  const content = fs.readFileSync(file);
  const start = Number(content.readBigInt64LE(32 + 8 * chunk));
  content.set(bytes, start + at);
  fs.writeFileSync(file, content);
  fs.chmodSync(file, mode);
}

test("unlink of a data file that is no longer an archive is refused, and leaves every byte unchanged", async () => {
  const copy = copyOf(join(corpusFolder, "blz-superchunk", "f8-default"));
  await link(copy);
  const file = join(copy, "data", "__2__.bin");
  fs.chmodSync(file, 0o644);
  fs.writeFileSync(file, fs.readFileSync(join(copy, "zarr.json")));
  const before = snapshot(copy);
  await expect(unlink(copy)).rejects.toMatchObject({ name: "SuperchunkError" });
  expect(snapshot(copy)).toEqual(before);
});

describe("a header in the middle of a file", () => {
  const source = join(corpusFolder, "blz-superchunk", "f8-default");

  test.each([
    ["an invalid version", 0, [9], "BAD_FIELD"],
    ["another decoded size", 4, [0, 8, 0, 0], "BAD_FIELD"],
    ["a chunk that reaches into the next", 12, [0xff, 0xff, 0, 0], "BAD_FIELD"],
    ["a compressor that zarr-python lacks", 2, [0x41], "UNSUPPORTED"],
  ] as const)("with %s refuses the link, and every byte is unchanged", async (_name, at, bytes, code) => {
    const copy = copyOf(source);
    const file = join(copy, "data", "__2__.bin");
    changeChunk(file, 2, at, bytes);
    const before = snapshot(copy);
    await expect(planLinkAt(copy)).rejects.toMatchObject({ code });
    await expect(link(copy)).rejects.toMatchObject({ code, details: { path: file } });
    expect(snapshot(copy)).toEqual(before);
  });

  test.each([
    ["an invalid version", 0, [9], "BAD_FIELD"],
    ["a chunk that reaches into the next", 12, [0xff, 0xff, 0, 0], "BAD_FIELD"],
  ] as const)(
    "with %s refuses the next link of a linked array, which stays unchanged",
    async (_name, at, bytes, code) => {
      const copy = copyOf(source);
      await link(copy);
      const file = join(copy, "data", "__2__.bin");
      changeChunk(file, 2, at, bytes);
      fs.rmSync(join(copy, "zarr.json")); // so that there would be something to do
      const before = snapshot(copy);
      await expect(link(copy)).rejects.toMatchObject({ code, details: { path: file } });
      expect(snapshot(copy)).toEqual(before);
    },
  );

  test("that is correct leaves nothing to do for the next link, or for verify", async () => {
    const copy = copyOf(source);
    const before = snapshot(copy);
    const { files } = await link(copy);
    expect((await link(copy)).done).toBe(true);
    expect(await verifyLinkAt(copy)).toEqual([]);
    expect(files.map(({ chunks }) => chunks)).toEqual([4, 4, 4, 4]);
    await unlink(copy);
    expect(snapshot(copy)).toEqual(before);
  });
});

test("room reserved after chunks is not part of them in the index", async () => {
  const copy = copyOf(join(corpusFolder, "blz-superchunk", "f4-reserved"));
  const plan = await planLinkAt(copy);
  const { files, notes } = await link(copy);
  expect(files).toEqual(plan.files);
  expect(notes).toEqual(plan.notes);
  expect(notes.join("\n")).toMatch(/do not lie back to back and in order/);
  expect((await link(copy)).done).toBe(true);
  const [first] = files;
  const shard = fs.readFileSync(join(copy, ...(first?.shard ?? "").split("/")));
  const count = first?.chunks ?? 0;
  const index = shard.subarray(shard.length - (16 * count + 4));
  for (let chunk = 0; chunk < count - 1; chunk++) {
    const offset = Number(index.readBigUInt64LE(16 * chunk));
    expect(Number(index.readBigUInt64LE(16 * chunk + 8))).toBe(shard.readUInt32LE(offset + 12));
  }
});

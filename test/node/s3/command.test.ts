/** The command on arrays in S3, as a person types it: created, grown, changed, cut, compacted, copied in and out. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseDType } from "../../../src/format/dtype.ts";
import { encodeNpyHeader } from "../../../src/format/npy.ts";
import { edit as openWritable } from "../../../src/node/edit.ts";
import { open, S3Store } from "../../../src/node/index.ts";
import { createCarray } from "../../../src/write/bcolz/bcolz-create.ts";
import { runCli } from "../../cli/harness.ts";
import { keysOf } from "../../convert/to-zarr/read-back.ts";
import { temporaryFolder } from "../../folder.ts";
import { setEnvironment, startS3, type TestS3 } from "./server.ts";

let s3: TestS3;
let restoreEnvironment: () => void;
let folder: string;

beforeAll(async () => {
  folder = temporaryFolder();
  s3 = await startS3();
  restoreEnvironment = setEnvironment(s3);
});
afterAll(async () => {
  restoreEnvironment();
  await s3.close();
});

const address = (name: string): string => `s3://${s3.bucket}/${name}`;
const bucket = (prefix: string): S3Store => new S3Store({ bucket: s3.bucket, prefix });
const numbers = (from: number, to: number): Float64Array<ArrayBuffer> =>
  Float64Array.from({ length: to - from }, (_, i) => from + i);

/** A `.npy` file of the numbers from `from` to below `to`. */
async function npyFile(from: number, to: number): Promise<string> {
  const path = join(folder, `${from}-${to}.npy`);
  const header = encodeNpyHeader(parseDType("<f8", "test"), [to - from]);
  await writeFile(path, Buffer.concat([header, new Uint8Array(numbers(from, to).buffer)]));
  return path;
}

async function succeed(...argv: string[]): Promise<string> {
  const { code, out, err } = await runCli(argv);
  expect([argv[0], code, code === 0 ? "" : err]).toEqual([argv[0], 0, ""]);
  return `${out}${err}`;
}

async function valuesAt(location: string): Promise<number[]> {
  const archive = await open(location);
  if (archive.kind !== "array") throw new Error("not an array");
  const { data } = (await archive.get(null)) as { data: Float64Array };
  await archive.close();
  return Array.from(data);
}

describe("an array in a bucket", () => {
  it("is created, appended to, set, resized, has rows deleted, and is compacted", async () => {
    const root = address("life");
    await succeed("create", root, "--from", await npyFile(0, 1000), "--chunklen", "64", "--attr", "unit=m");
    const { err } = await runCli(["append", root, await npyFile(1000, 1500)]);
    expect(err).not.toContain("index");
    await succeed("set", root, "--slice", "7", "--value", "-1");
    const expected = Array.from(numbers(0, 1500));
    expected[7] = -1;
    expect(await valuesAt(root)).toEqual(expected);
    await succeed("resize", root, "1300");
    await succeed("delete", root, "--rows", "100:200");
    expected.splice(1300);
    expected.splice(100, 100);
    expect(await valuesAt(root)).toEqual(expected);
    await succeed("attrs", root, "--set", 'scale={"by": 2}', "--remove", "unit");
    expect(JSON.parse(await succeed("attrs", root))).toEqual({ scale: { by: 2 } });
    const dry = await succeed("compact", root, "--dry-run");
    expect(dry).toContain("would be rewritten");
    await succeed("compact", root);
    expect(await succeed("compact", root, "--dry-run")).toContain("nothing to do");
    expect(await valuesAt(root)).toEqual(expected);
    expect(await succeed("verify", root)).toContain("ok");
    // Only the array is left: no locks, no files of an earlier generation.
    expect(
      (await keysOf(bucket("life"))).filter((key) => !/^(data\/__\d+__\.bin|meta\/\w+)$/.test(key)),
    ).toEqual([]);
  });

  it("is not created where one exists, and leaves nothing if its rows do not arrive", async () => {
    const root = address("once");
    await succeed("create", root, "--dtype", "<f8");
    const again = await runCli(["create", root, "--dtype", "<f8"]);
    expect([again.code, again.err]).toEqual([
      1,
      expect.stringContaining("an archive, or a part of one, exists here"),
    ]);
    const raw = join(folder, "raw.bin");
    await writeFile(raw, new Uint8Array(80));
    const failed = await runCli([
      "create",
      address("short"),
      "--from",
      raw,
      "--dtype",
      "<f8",
      "--shape",
      "20",
    ]);
    expect([failed.code, failed.err]).toEqual([2, expect.stringContaining("10 rows")]);
    expect(await keysOf(bucket("short"))).toEqual([]);
  });

  it("is repaired into a copy, and in place", async () => {
    const root = address("broken");
    await succeed(
      "create",
      root,
      "--from",
      await npyFile(0, 500),
      "--chunklen",
      "50",
      "--superchunklen",
      "2",
    );
    await bucket("broken").delete("data/__3__.bin");
    const repaired = await runCli(["repair", root, address("mended"), "--holes", "cut"]);
    expect([repaired.code, repaired.err]).toEqual([3, expect.stringContaining("200 rows now")]);
    expect(await valuesAt(address("mended"))).toEqual(Array.from(numbers(0, 200)));
    expect((await runCli(["repair", root, "--in-place", "--holes", "cut"])).code).toBe(3);
    expect(await valuesAt(root)).toEqual(Array.from(numbers(0, 200)));
  });

  it("keeps the rows of the first writer, and reports the conflict to the other", async () => {
    const root = address("shared");
    await succeed("create", root, "--from", await npyFile(0, 100), "--chunklen", "10");
    for (const change of ["append", "compact", "attributes"] as const) {
      const expected = await valuesAt(root);
      const other = await openWritable(root);
      await other.append(numbers(900, 925));
      await succeed("append", root, await npyFile(5000, 5010));
      expected.push(...numbers(5000, 5010));
      // What it had not committed is gone, because the next writer removes leftovers.
      const late = async (): Promise<void> => {
        if (change === "compact") await other.compact();
        else if (change === "attributes") await other.setAttributes({ late: true });
        await other.flush();
      };
      await expect(late()).rejects.toMatchObject({ code: "CONFLICT" });
      await other.abandon();
      expect([change, await valuesAt(root)]).toEqual([change, expected]);
    }
    expect(JSON.parse(await succeed("attrs", root))).toEqual({});
  });

  it("stays readable for an open reader while it grows and is compacted", async () => {
    const root = address("read-on");
    await succeed(
      "create",
      root,
      "--from",
      await npyFile(0, 300),
      "--chunklen",
      "10",
      "--superchunklen",
      "4",
    );
    const reader = await open(root);
    if (reader.kind !== "array") throw new Error("not an array");
    expect(await reader.get([5])).toBe(5);
    await succeed("append", root, await npyFile(300, 333));
    await succeed("compact", root);
    expect(reader.shape).toEqual([300]);
    for (const index of [5, 44, 45, 290]) expect(await reader.get([index])).toBe(index);
    await reader.close();
  });
});

describe("archives of other programs in a bucket", () => {
  it("are not changed there, because two writers could not notice each other; the command says what to do", async () => {
    const data = new Uint8Array(numbers(0, 100).buffer);
    await createCarray(bucket("old"), "", { dtype: parseDType("<f8", "test"), data });
    for (const argv of [
      ["append", address("old"), await npyFile(0, 10)],
      ["resize", address("old"), "5"],
      ["attrs", address("old"), "--set", "a=1"],
    ]) {
      const { code, err } = await runCli(argv);
      expect([argv[0], code, err]).toEqual([argv[0], 1, expect.stringContaining("--to blz")]);
    }
    await succeed("convert", address("old"), address("ours"), "--to", "blz");
    await succeed("append", address("ours"), await npyFile(100, 110));
    expect(await valuesAt(address("ours"))).toEqual(Array.from(numbers(0, 110)));
  });

  it("are not linked, and no array that keeps itself a Zarr array is created there; each refusal says what to do", async () => {
    for (const [argv, code, text] of [
      [["link", address("old")], 1, '"superchunk convert" makes a Zarr copy'],
      [["link", address("old"), "--live"], 1, "only files can be linked"],
      [["link", address("old"), "--live", "--dry-run"], 1, "only files can be linked"],
      [["unlink", address("old")], 1, "only files can be linked"],
      [["create", address("zarr"), "--dtype", "<f8", "--zarr"], 2, "--zarr is for arrays on a disk"],
      [["info", `s3://${s3.bucket}//old`], 2, `s3://${s3.bucket}//old: the key of an address`],
    ] as const) {
      const result = await runCli(argv);
      expect([argv, result.code, result.err]).toEqual([argv, code, expect.stringContaining(text)]);
    }
    expect(await keysOf(bucket("zarr"))).toEqual([]);
  });

  it("are refused at an http address, before anything is read", async () => {
    const { code, err } = await runCli(["append", "http://127.0.0.1:1/a.blp", await npyFile(0, 10)]);
    expect([code, err]).toEqual([1, expect.stringContaining("nothing can be written")]);
  });
});

describe("files", () => {
  it("are compressed, converted and decompressed by their address", async () => {
    await succeed("compress", await npyFile(0, 1000), address("files/a.blp"));
    expect(await valuesAt(address("files/a.blp"))).toEqual(Array.from(numbers(0, 1000)));
    const again = await runCli(["compress", await npyFile(0, 1000), address("files/a.blp")]);
    expect([again.code, again.err]).toEqual([1, expect.stringContaining("--force")]);
    await succeed("convert", address("files/a.blp"), address("files/a.npy"), "--to", "npy");
    await succeed("decompress", address("files/a.blp"), address("files/b.npy"));
    const store = bucket("files");
    expect(await store.get("b.npy")).toEqual(await store.get("a.npy"));
    const remote = await runCli(["compress", await npyFile(0, 1000), "http://127.0.0.1:1/a.blp"]);
    expect([remote.code, remote.err]).toEqual([1, expect.stringContaining("nothing can be written")]);
  });
});

describe("conversion", () => {
  it("uploads a large shard in parts, and it comes back unchanged", async () => {
    const count = 1_100_000; // 8.8 MB that do not compress
    const noise = new Uint8Array(count * 8);
    for (let i = 0, x = 1; i < noise.length; i++) {
      x = (Math.imul(x, 1_103_515_245) + 12_345) >>> 0;
      noise[i] = x >>> 23;
    }
    const raw = join(folder, "noise.bin");
    await writeFile(raw, noise);
    const root = address("noise");
    await succeed("create", root, "--from", raw, "--dtype", "<u8", "--clevel", "0", "--superchunklen", "100");
    s3.log.length = 0;
    await succeed("convert", root, address("noise.zarr"), "--shard-size", "16MiB", "--verify");
    expect(
      s3.log.filter((line) => line.startsWith("PUT") && line.includes("partNumber=")).length,
    ).toBeGreaterThan(1);
    await succeed("convert", address("noise.zarr"), join(folder, "noise.npy"), "--to", "npy");
    const archive = await open(root);
    if (archive.kind !== "array") throw new Error("not an array");
    expect(Buffer.compare(await archive.getBytes(null), noise)).toBe(0);
    const back = await runCli(["cat", address("noise"), "--slice", "1099999", "--format", "json"]);
    expect(back.code).toBe(0);
    await archive.close();
  });
});

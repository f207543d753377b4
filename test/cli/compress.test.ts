/** `compress` and `append`, on files that bloscpack and bcolz wrote, compared with what they would write. */
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough, Writable } from "node:stream";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { run } from "../../cli/run.ts";
import type { ArrayArchive, TableArchive } from "../../src/archive/kinds/types.ts";
import { parseDType } from "../../src/format/dtype.ts";
import { decodeFileHeader } from "../../src/format/header.ts";
import { encodeNpyHeader } from "../../src/format/npy.ts";
import { create as createArray } from "../../src/node/edit.ts";
import { open } from "../../src/node/index.ts";
import { findFixture } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";
import { runCli } from "./harness.ts";

let folder: string;
const at = (name: string): string => join(folder, name);

beforeEach(() => {
  folder = temporaryFolder();
});
const TEXT = Buffer.from(Array.from({ length: 5000 }, (_, i) => `line ${i}\n`).join(""));

function npy(name: string, dtype: string, shape: readonly number[], data: Uint8Array): string {
  writeFileSync(at(name), Buffer.concat([encodeNpyHeader(parseDType(dtype, name), shape), data]));
  return at(name);
}

const ints = (from: number, count: number): Uint8Array =>
  new Uint8Array(Int32Array.from({ length: count }, (_, i) => from + i).buffer);

describe("compress", () => {
  it("makes FILE.blp with bloscpack's defaults, and decompress restores the file", async () => {
    writeFileSync(at("a.txt"), TEXT);
    const { code, err, out } = await runCli(["compress", at("a.txt")]);
    expect([code, out]).toEqual([0, ""]);
    expect(err).toMatch(/^superchunk: .*a\.txt -> .*a\.txt\.blp, 47\.7 KiB to .*, ratio \d+\.\d\d\n$/);
    expect(decodeFileHeader(readFileSync(at("a.txt.blp")), "a")).toMatchObject({
      checksum: "adler32",
      typesize: 8,
      chunkSize: TEXT.length,
      maxAppChunks: 10,
    });
    expect((await runCli(["decompress", at("a.txt.blp"), at("b.txt")])).code).toBe(0);
    expect(readFileSync(at("b.txt")).equals(TEXT)).toBe(true);
    expect(readdirSync(folder).sort()).toEqual(["a.txt", "a.txt.blp", "b.txt"]);
  });

  it("takes all options of blpk", async () => {
    writeFileSync(at("a.txt"), TEXT);
    writeFileSync(at("meta.json"), '{"who": "me", "n": [1, 2]}');
    const argv = [
      "c",
      at("a.txt"),
      at("o.blp"),
      "-z",
      "8K",
      "-k",
      "sha256",
      "-m",
      at("meta.json"),
      "-t",
      "4",
    ];
    const more = [
      "-l",
      "9",
      "-c",
      "zstd",
      "-s",
      "--max-app-chunks",
      "3x",
      "--meta-codec",
      "none",
      "--max-meta-size",
      "100",
    ];
    expect((await runCli([...argv, ...more, "--meta-checksum", "md5"])).code).toBe(0);
    const header = decodeFileHeader(readFileSync(at("o.blp")), "o");
    expect(header).toMatchObject({
      checksum: "sha256",
      typesize: 4,
      chunkSize: 8192,
      nchunks: 6,
      maxAppChunks: 18,
      metadata: true,
    });
    const { out } = await runCli(["info", at("o.blp"), "--json"]);
    expect(JSON.parse(out)).toMatchObject({
      attrs: { who: "me", n: [1, 2] },
      checksum: "sha256",
      chunks: { cname: "zstd", shuffle: "noshuffle", typesize: 4 },
    });
    expect((await runCli(["verify", at("o.blp")])).code).toBe(0);
    expect((await runCli(["compress", at("a.txt"), at("n.blp"), "-o"])).code).toBe(0);
    expect(decodeFileHeader(readFileSync(at("n.blp")), "n")).toMatchObject({
      offsets: false,
      maxAppChunks: 0,
    });
  });

  it("gives the same file from stdin to stdout", async () => {
    writeFileSync(at("a.txt"), TEXT);
    await runCli(["compress", at("a.txt"), "-z", "1000"]);
    const { code, bytes } = await runCli(["compress", "-", "-z", "1000"], { stdin: TEXT });
    expect(code).toBe(0);
    expect(bytes.equals(readFileSync(at("a.txt.blp")))).toBe(true);
  });

  it("holds what does not fit into memory in a file without a name, of which a kill leaves nothing", async () => {
    const data = Buffer.alloc(65 << 20, "bytes that do not repeat every page");
    const names: string[][] = [];
    const compressing = ["compress", "-", "-", "--clevel", "0"];
    const { code, bytes } = await runIn(folder, compressing, data, () => names.push(readdirSync(folder)));
    expect(code).toBe(0);
    expect(names.flat()).toEqual([]);
    writeFileSync(at("a.blp"), bytes);
    expect((await runCli(["decompress", at("a.blp"), at("a")])).code).toBe(0);
    expect(readFileSync(at("a")).equals(data)).toBe(true);
    const failed = await runIn(at("missing"), compressing, data);
    expect(failed.code).toBe(1);
    expect(`${failed.bytes}`).toMatch(
      /missing.superchunk-.*the temporary file for the output cannot be written \(ENOENT\).*TMPDIR/,
    );
  });

  it("decompress holds stdin in a file without a name too, and calls it stdin", async () => {
    writeFileSync(at("a.txt"), TEXT);
    await runCli(["compress", at("a.txt"), at("a.blp"), "-z", "1000"]);
    const data = readFileSync(at("a.blp"));
    const held = join(folder, "held");
    mkdirSync(held);
    const names: string[][] = [];
    const done = await runIn(held, ["decompress", "-", "-"], data, () => names.push(readdirSync(held)));
    expect([done.code, done.bytes.equals(TEXT)]).toEqual([0, true]);
    expect([names.length > 1, names.flat()]).toEqual([true, []]);
    data[data.length - 20] = 0xff ^ (data.at(-20) ?? 0);
    const damaged = await runIn(held, ["decompress", "-", at("b.txt")], data);
    expect([damaged.code, `${damaged.bytes}`]).toEqual([3, expect.stringMatching(/^superchunk: stdin: /)]);
    expect(existsSync(at("b.txt"))).toBe(false);
    const text = await runIn(held, ["decompress", "-", "-"], TEXT);
    expect([text.code, `${text.bytes}`]).toEqual([1, expect.stringMatching(/^superchunk: stdin: /)]);
    expect(readdirSync(held)).toEqual([]);
  });

  it("a .npy becomes an array and comes back unchanged; with --bytes it stays a file", async () => {
    const file = npy("a.npy", "<i4", [10, 3], ints(0, 30));
    expect((await runCli(["compress", file, at("a.blp")])).code).toBe(0);
    const array = (await open(at("a.blp"))) as ArrayArchive;
    expect([array.kind, array.shape, await array.get([9, 2])]).toEqual(["array", [10, 3], 29]);
    await runCli(["decompress", at("a.blp"), at("b.npy")]);
    expect(readFileSync(at("b.npy")).equals(readFileSync(file))).toBe(true);
    await runCli(["compress", file, at("c.blp"), "--bytes"]);
    expect((await open(at("c.blp"))).kind).toBe("bytes");
  });

  it("an existing file stays (exit 1) unless --force; wrong options exit with 2; a truncated .npy exits with 3", async () => {
    writeFileSync(at("a.txt"), TEXT);
    writeFileSync(at("a.txt.blp"), "x");
    const refused = await runCli(["compress", at("a.txt")]);
    expect([refused.code, readFileSync(at("a.txt.blp"), "utf8")]).toEqual([1, "x"]);
    expect(refused.err).toContain("--force replaces it");
    expect((await runCli(["compress", at("a.txt"), "-f"])).code).toBe(0);
    for (const wrong of [
      ["-z", "0"],
      ["-k", "crc64"],
      ["-l", "10"],
      ["-t", "0"],
      ["--max-app-chunks", "x"],
    ])
      expect((await runCli(["compress", at("a.txt"), at("z.blp"), ...wrong])).code).toBe(2);
    const file = npy("a.npy", "<i4", [10], ints(0, 9));
    expect((await runCli(["compress", file])).code).toBe(3);
    expect(existsSync(at("z.blp"))).toBe(false);
    expect((await runCli(["compress", at("nothing")])).code).toBe(1);
  });
});

describe("append", () => {
  it.each([[], ["--in-place"]])("appends bytes to a Bloscpack file %s", async (...how) => {
    writeFileSync(at("a.txt"), TEXT);
    await runCli(["compress", at("a.txt"), at("a.blp"), "-z", "10000"]);
    const { code, err } = await runCli(["append", at("a.blp"), at("a.txt"), ...how.flat()]);
    expect([code, err]).toEqual([
      0,
      `superchunk: ${at("a.blp")}: 47.7 KiB appended, 5 new chunks, 95.5 KiB now\n`,
    ]);
    await runCli(["append", at("a.blp"), "-", ...how.flat()], { stdin: Buffer.from("end") });
    const { bytes } = await runCli(["decompress", at("a.blp"), "-"]);
    expect(bytes.equals(Buffer.concat([TEXT, TEXT, Buffer.from("end")]))).toBe(true);
    expect(readdirSync(folder).sort()).toEqual(["a.blp", "a.txt"]);
  });

  it("a full offset table is one line that says how to continue", async () => {
    writeFileSync(at("a.txt"), TEXT);
    await runCli(["compress", at("a.txt"), at("a.blp"), "--max-app-chunks", "0", "-z", "10000"]);
    const { code, err } = await runCli(["append", at("a.blp"), at("a.txt")]);
    expect([code, err.split("\n").length]).toEqual([1, 2]);
    expect(err).toContain("--grow");
    expect((await runCli(["append", at("a.blp"), at("a.txt"), "--grow"])).code).toBe(0);
  });

  it("appends rows to a numpy array, a carray and an array of superchunks; other archives do not fit", async () => {
    const first = npy("a.npy", "<i4", [40], ints(0, 40));
    const more = npy("b.npy", "<i4", [7], ints(40, 7));
    const other = npy("c.npy", "<f4", [7], ints(0, 7));
    await runCli(["compress", first, at("a.blp")]);
    cpSync(findFixture("carray/bcolz-i4-leftover-only").file, at("carray"), { recursive: true });
    const root = await createArray(at("root"), { dtype: "<i4" });
    await root.append(Int32Array.from({ length: 40 }, (_, i) => i));
    await root.close();
    for (const name of ["a.blp", "carray", "root"]) {
      const before = ((await open(at(name))) as ArrayArchive).shape[0] ?? 0;
      const { code, err } = await runCli(["append", at(name), more]);
      expect([name, code, err]).toEqual([name, 0, expect.stringContaining(" appended, ")]);
      const after = (await open(at(name))) as ArrayArchive;
      expect(after.shape).toEqual([before + 7]);
      expect(await after.get([before + 6])).toBe(46);
      expect((await runCli(["append", at(name), other])).code).toBe(2);
      expect((await runCli(["verify", at(name)])).code).toBe(0);
    }
    expect((await runCli(["append", at("carray"), more, "--grow"])).code).toBe(2);
  });

  it("appends rows to a table, from one structured .npy or from one file per column", async () => {
    cpSync(findFixture("ctable/bcolz-mixed").file, at("t"), { recursive: true });
    const fields = "[('id', '<i4'), ('name', '|S5'), ('price', '<f8')]";
    const row = Buffer.alloc(17);
    row.writeInt32LE(-7, 0);
    row.write("abcde", 4);
    row.writeDoubleLE(2.5, 9);
    expect(
      (await runCli(["append", at("t"), npy("rows.npy", fields, [2], Buffer.concat([row, row]))])).code,
    ).toBe(0);
    const columns = [
      `id=${npy("id.npy", "<i4", [1], ints(5, 1))}`,
      `name=${npy("name.npy", "|S5", [1], Buffer.from("xyz\0\0"))}`,
      `price=${npy("price.npy", "<f8", [1], new Uint8Array(8))}`,
    ];
    expect((await runCli(["append", at("t"), ...columns])).code).toBe(0);
    const table = (await open(at("t"))) as TableArchive;
    expect(table.length).toBe(93);
    expect(await table.column("id").get([91])).toBe(-7);
    expect(await table.column("price").get([91])).toBe(2.5);
    expect(await table.column("id").get([92])).toBe(5);
    expect((await runCli(["append", at("t"), ...columns.slice(1)])).code).toBe(2);
    expect((await runCli(["verify", at("t")])).code).toBe(0);
    expect(existsSync(at("t/.lock"))).toBe(false);
  });
});

/** Runs a command on data in stdin with this folder for temporary files. `bytes` are those of both streams. */
async function runIn(TMPDIR: string, argv: readonly string[], data: Buffer, onWrite?: () => void) {
  const pieces: Buffer[] = [];
  const sink = new Writable({
    write(piece: Buffer, _, done) {
      onWrite?.();
      pieces.push(Buffer.from(piece));
      done();
    },
  });
  const stdout = Object.assign(sink, { isTTY: false, columns: 100, rows: 0 });
  const stdin = new PassThrough();
  stdin.end(data);
  vi.stubEnv("TMPDIR", TMPDIR);
  try {
    const { signal } = new AbortController();
    const output = { stdin, stdout, stderr: stdout, signal, hasColour: false };
    return { code: await run(argv, output), bytes: Buffer.concat(pieces) };
  } finally {
    vi.unstubAllEnvs();
  }
}

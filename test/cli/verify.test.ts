/** What `verify` reports for archives with objects that belong to nothing. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import type { Finding } from "../../src/index.ts";
import { create, open } from "../../src/node/index.ts";
import { temporaryFolder } from "../folder.ts";
import { runCli } from "./harness.ts";

let folder: string;
const at = (name: string): string => join(folder, name);

beforeEach(() => {
  folder = temporaryFolder();
});
async function makeLeftovers(count: number): Promise<void> {
  await runCli(["create", at("a"), "--as", "carray", "--dtype", "<i4", "--shape", "10"]);
  for (let i = 0; i < count; i++) writeFileSync(at(`a/data/__${100 + i}.blp`), "left over");
}

it("a few objects that belong to no array are named, one per line", async () => {
  await makeLeftovers(5);
  const { code, out } = await runCli(["verify", at("a")]);
  expect(code).toBe(0);
  expect(out.match(/^ {2}warning LEFTOVER: .*__10[0-4]\.blp/gm)).toHaveLength(5);
});

it("if there are many, they are counted, the first are named, and JSON lists all", async () => {
  await makeLeftovers(1200);
  const { code, out } = await runCli(["verify", at("a")]);
  expect(code).toBe(0);
  const lines = out.trimEnd().split("\n");
  expect(lines).toHaveLength(23);
  for (const line of lines.slice(1, 21)) expect(line).toMatch(/^ {2}warning LEFTOVER: .*data.__\d+\.blp/);
  expect(lines[21]).toBe("  1,180 more LEFTOVER; --json lists all");
  expect(lines[22]).toContain("1,200 warnings");
  const { archives } = JSON.parse((await runCli(["verify", at("a"), "--json"])).out);
  expect(archives[0].findings).toHaveLength(1200);
});

it("errors are listed before warnings, and neither counts against the other", async () => {
  writeFileSync(at("t.csv"), "a,b\n1,2\n");
  await runCli(["create", at("t"), "--as", "ctable", "--from", at("t.csv")]);
  for (let i = 0; i < 30; i++) writeFileSync(at(`t/a/data/__${100 + i}.blp`), "left over");
  writeFileSync(at("t/b/data/__0.blp"), "");
  const { code, out } = await runCli(["verify", at("t")]);
  expect(code).toBe(3);
  const found = out.split("\n").filter((line) => /^ {2}(?:error|warning|\d+ more) /.test(line));
  expect(found[0]).toMatch(/^ {2}error TRUNCATED: .*b\/data\/__0\.blp/);
  expect(found).toHaveLength(22);
  expect(found.at(-1)).toBe("  10 more LEFTOVER; --json lists all");
});

it.each([
  ["with offsets", "text ".repeat(100), []],
  ["with offsets, of values that did not compress", randomValues(), []],
  ["without offsets", "text ".repeat(100), ["-o"]],
  ["without offsets, of values that did not compress", randomValues(), ["-o"]],
] as const)(
  "bytes after the last chunk of a Bloscpack file %s are a warning",
  async (_, content, options) => {
    writeFileSync(at("text"), content);
    await runCli(["compress", ...options, at("text"), at("text.blp")]);
    expect((await runCli(["verify", at("text.blp")])).out).not.toContain("TRAILING");
    writeFileSync(at("text.blp"), Buffer.concat([readFileSync(at("text.blp")), Buffer.from("more")]));
    const { code, out } = await runCli(["verify", at("text.blp")]);
    expect([code, out]).toEqual([
      0,
      expect.stringMatching(/^ok .*\n {2}warning TRAILING: .*chunk 0: 4 bytes follow/),
    ]);
  },
);

it("bytes after the last chunk of a superchunk are a warning, also if it did not compress", async () => {
  writeFileSync(at("values"), randomValues());
  await runCli(["create", at("v"), "--dtype", "<f8", "--from", at("values")]);
  const file = at("v/data/__1__.bin");
  writeFileSync(file, Buffer.concat([readFileSync(file), Buffer.from("more")]));
  expect((await runCli(["verify", at("v")])).out).toMatch(/warning TRAILING: .*: 4 bytes follow/);
});

it("bytes after the chunk of a carray's file are a warning, also if it did not compress", async () => {
  const values = randomValues();
  writeFileSync(at("values"), values);
  await runCli(["create", at("v"), "--as", "carray", "--dtype", "<f8", "--from", at("values")]);
  const file = at("v/data/__0.blp");
  expect((await runCli(["verify", at("v")])).out).not.toContain("TRAILING");
  expect(readFileSync(file).length).toBeGreaterThanOrEqual(values.length + 16);
  writeFileSync(file, Buffer.concat([readFileSync(file), Buffer.from("8 bytes.")]));
  const { code, out } = await runCli(["verify", at("v")]);
  expect([code, out]).toEqual([
    0,
    expect.stringMatching(/^ok .*\n {2}warning TRAILING: .*chunk 0: 8 bytes follow/),
  ]);
});

it.each(["superchunks", "bcolz", "live"])(
  "what makes %s a Zarr array is no rest after a chunk",
  async (kind) => {
    writeFileSync(
      at("values"),
      Float64Array.from({ length: 2000 }, (_, i) => i),
    );
    // The last chunk is short: its padded copy is between it and the index.
    const options = ["--dtype", "<f8", "--chunklen", kind === "live" ? "500" : "300", "--from", at("values")];
    const dialect =
      { superchunks: [], bcolz: ["--as", "carray"], live: ["--zarr", "--superchunklen", "2"] }[kind] ?? [];
    expect((await runCli(["create", at("v"), ...options, ...dialect])).code).toBe(0);
    if (kind !== "live") expect((await runCli(["link", at("v")])).code).toBe(0);
    const array = await open(at("v"));
    expect(await array.verify()).toMatchObject({ ok: true, findings: [] });
    await array.close();
  },
);

/** Bytes that no compressor makes shorter. */
function randomValues(): Buffer {
  const bytes = Buffer.alloc(8000);
  for (let i = 0, state = 1; i < bytes.length; i++) {
    state = (state * 48271) % 0x7fffffff;
    bytes[i] = state >> 8;
  }
  return bytes;
}

/** A dataset that superchunk does not read. */
const unread = join(import.meta.dirname, "../../fixtures/hdf5/h5py-earliest.h5/virtual");

it("what is not supported is not damage: FAILED, exit code 1, and no advice to repair", async () => {
  const { code, out } = await runCli(["verify", unread]);
  expect(code).toBe(1);
  expect(out).toMatch(/^FAILED {2}.*\n {2}error UNSUPPORTED: .*virtual dataset/);
  expect(out).toContain("1 not readable");
  expect(out).not.toContain("repair");
});

it("a chunk that is not supported is not damage: the report names it, and the other chunks are checked", async () => {
  const frame = readFileSync(join(import.meta.dirname, "../../fixtures/blosc2/lz4.b2nd"));
  // The first chunk follows the header of the frame, whose length is at byte 11. Its last filter is one that does not exist.
  frame[frame.readUInt32BE(11) + 21] = 200;
  writeFileSync(at("d.b2nd"), frame);
  const { code, out } = await runCli(["verify", at("d.b2nd")]);
  expect(code).toBe(1);
  expect(out).toMatch(
    /^FAILED .*24 chunks.*\n {2}error UNSUPPORTED: .*d\.b2nd: chunk 1: .*filter number 200/,
  );
  expect(out).toContain("1 not readable");
  expect(out).not.toContain("repair");
  const { archives } = JSON.parse((await runCli(["verify", at("d.b2nd"), "--json"])).out);
  expect(archives).toMatchObject([{ ok: false, findings: [{ code: "UNSUPPORTED", chunk: 1, found: 200 }] }]);
});

it("a resumed run counts what the report has as the run did that wrote it", async () => {
  await runCli(["create", at("b"), "--dtype", "<i4", "--shape", "10"]);
  await runCli(["link", at("b")]);
  const document = readFileSync(at("b/zarr.json"), "utf8");
  writeFileSync(at("b/zarr.json"), document.replace('"int32"', '"uint32"'));
  await runCli(["create", at("c"), "--dtype", "<i4", "--shape", "10"]);
  await runCli(["link", at("c")]);
  await runCli(["resize", at("c"), "20"]);
  for (const [path, code, word] of [
    [unread, 1, "FAILED"],
    [at("b"), 3, "DAMAGED"],
    [at("c"), 1, "BEHIND"],
  ] as const) {
    const report = at(`${word}.jsonl`);
    for (const options of [[], ["--resume"]]) {
      const run = await runCli(["verify", path, "--report", report, ...options]);
      expect([run.code, run.out.split(" ")[0]], options.join()).toEqual([code, word]);
      expect(run.out.includes("the report has the findings of the earlier run")).toBe(options.length > 0);
    }
  }
});

describe("damage in what locates the chunks", () => {
  /** A file of 10 chunks, whose offsets start at byte 32. */
  async function makeFile(): Promise<Buffer> {
    writeFileSync(at("values"), Buffer.from(Float64Array.from({ length: 2000 }, (_, i) => i).buffer));
    await runCli(["compress", at("values"), at("a.blp"), "-z", "1600"]);
    return readFileSync(at("a.blp"));
  }
  const entry = (file: Buffer, chunk: number): number => Number(file.readBigInt64LE(32 + 8 * chunk));
  const flip = (file: Buffer, at: number): number => file.writeUInt8(file.readUInt8(at) ^ 1, at);

  it.each([
    [
      "an offset after the end of the file",
      "TRUNCATED",
      (file: Buffer) => file.writeBigInt64LE(1n << 40n, 56),
    ],
    ["an offset of the end of no chunk", "INCOMPLETE", (file: Buffer) => file.writeBigInt64LE(-1n, 56)],
    ["an offset that no file has", "BAD_FIELD", (file: Buffer) => file.writeBigInt64LE(-(1n << 60n), 56)],
    ["nchunks of more than the file", "TRUNCATED", (file: Buffer) => file.writeBigInt64LE(1n << 32n, 16)],
  ])("%s: every other chunk is checked, and saved", async (_, code, damage) => {
    const file = await makeFile();
    const values = readFileSync(at("values"));
    damage(file);
    writeFileSync(at("b.blp"), file);
    const alone = await runCli(["verify", at("b.blp")]);
    expect([alone.code, alone.out]).toEqual([
      3,
      expect.stringMatching(
        new RegExp(`^DAMAGED .* 10 chunks, 10 checksums, 15.6 KiB\\n {2}error ${code}: `),
      ),
    ]);
    expect(alone.out).toContain("every chunk is intact");
    // A second damage is found too.
    flip(file, entry(file, 6) + 40);
    writeFileSync(at("b.blp"), file);
    const both = await runCli(["verify", at("b.blp")]);
    expect(both.out).toMatch(/ 9 chunks, 9 checksums/);
    expect(both.out).toMatch(new RegExp(`error ${code}: .*\\n {2}error CHECKSUM_MISMATCH: .*: chunk 6: `));
    const [{ error, findings, chunks }] = JSON.parse(
      (await runCli(["verify", at("b.blp"), "--json"])).out,
    ).archives;
    expect([error.code, chunks, findings.length, findings[0].chunk]).toEqual([code, 9, 1, 6]);
    await runCli(["repair", at("b.blp"), at("c.blp"), "--holes", "fill"]);
    await runCli(["decompress", at("c.blp"), at("saved")]);
    const saved = readFileSync(at("saved"));
    expect(saved.subarray(0, 9600).equals(values.subarray(0, 9600))).toBe(true);
    expect(saved.subarray(11200).equals(values.subarray(11200))).toBe(true);
  });

  it("a superchunk with a wrong offset: all chunks of the array are checked, and numbered as in the array", async () => {
    const array = await create(at("a"), { dtype: "float64", chunkLength: 100, superchunkLength: 5 });
    await array.append(Float64Array.from({ length: 2050 }, (_, i) => i));
    await array.close();
    const second = readFileSync(at("a/data/__2__.bin"));
    // The second chunk stays lost, because what is where it was is damaged as well.
    second[entry(second, 2)] = 0;
    second.writeBigInt64LE(1n << 40n, 48);
    writeFileSync(at("a/data/__2__.bin"), second);
    const fourth = readFileSync(at("a/data/__4__.bin"));
    flip(fourth, entry(fourth, 3) + 30);
    writeFileSync(at("a/data/__4__.bin"), fourth);
    const { code, out } = await runCli(["verify", at("a"), "--json"]);
    expect(code).toBe(3);
    const [{ ok, chunks, findings, dialect, unreached }] = JSON.parse(out).archives;
    expect([ok, chunks, dialect, unreached]).toEqual([false, 19, "blz-superchunk", undefined]);
    expect(findings.map((each: Finding) => [each.code, each.chunk])).toEqual([
      ["TRUNCATED", 7],
      ["CHECKSUM_MISMATCH", 18],
    ]);
    // The report of the library says how far it came.
    const archive = await open(at("a"));
    expect(await archive.verify()).toMatchObject({ ok: false, chunks: 5, unreached: 16 });
    await archive.close();
  });
});

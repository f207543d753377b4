/** A damaged source: the error says where it is damaged, and nothing is left of its conversion. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, it } from "vitest";
import { parseDType } from "../../../src/format/dtype.ts";
import { encodeNpyHeader } from "../../../src/format/npy.ts";
import { create as createArray } from "../../../src/node/edit.ts";
import { runCli } from "../../cli/harness.ts";
import { temporaryFolder } from "../../folder.ts";

let folder: string;
let source: string;
let file: string;

beforeEach(async () => {
  folder = temporaryFolder();
  source = join(folder, "many", "bad");
  for (const path of [source, join(folder, "many", "good")]) {
    const array = await createArray(path, {
      dtype: "<i4",
      chunkLength: 100,
      checksum: "None",
      compressor: { cname: "zstd" },
    });
    await array.append(Int32Array.from({ length: 300 }, (_, i) => (i * 2654435761) % 1000));
    await array.close();
  }
  file = join(source, "data", "__1__.bin");
  const bytes = readFileSync(file);
  const headers = [...bytes.keys()].filter((at) => bytes[at] === 2 && bytes.readUInt32LE(at + 4) === 400);
  // The middle one of three: everything after its header and its table of one block.
  bytes.fill(0xff, (headers[1] ?? 0) + 24, headers[2]);
  writeFileSync(file, bytes);
});
it.each(["blz", "bcolz", "npy", "bloscpack"])(
  "converted to %s, damage is reported with file and chunk, and not even a folder remains",
  async (format) => {
    const out = join(folder, "out");
    const { code, err } = await runCli(["convert", source, out, "--to", format, "--verify"]);
    expect(code).toBe(3);
    expect(err).toContain(`${file}: chunk 1: `);
    expect(existsSync(out)).toBe(false);
    const many = await runCli(["convert", join(folder, "many"), out, "--to", format, "--verify"]);
    expect(many.code).toBe(3);
    expect(many.err).toContain(`${file}: chunk 1: `);
    expect(readdirSync(out)).toEqual([expect.stringMatching(/^good/)]);
  },
);

it.each(["npy", "bloscpack"])(
  "a damaged column of a table converted to %s leaves no file of the others, but keeps what was in the folder before",
  async (format) => {
    const table = join(folder, "table");
    const made = await createTable(table);
    const out = join(folder, "out");
    const fresh = await runCli(["convert", table, out, "--to", format]);
    expect([fresh.code, fresh.err]).toEqual([3, expect.stringContaining(`${made}: chunk 0: `)]);
    expect(existsSync(out)).toBe(false);
    mkdirSync(out);
    writeFileSync(join(out, "notes.txt"), "mine");
    expect((await runCli(["convert", table, out, "--to", format])).code).toBe(3);
    expect(readdirSync(out)).toEqual(["notes.txt"]);
    const whole = await runCli(["convert", table, out, "--to", format, "--column", "a", "--overwrite"]);
    expect([whole.code, readdirSync(out).length]).toEqual([0, 2]);
  },
);

/** A table of the columns `a` and `b`, the only chunk of `b` damaged; its file. */
async function createTable(path: string): Promise<string> {
  const raw = join(folder, "raw.npy");
  const header = encodeNpyHeader(parseDType("<i4", "test"), [300]);
  writeFileSync(raw, Buffer.concat([header, Buffer.alloc(1200, "abc")]));
  const argv = ["create", path, "--as", "ctable", "--column", `a=${raw}`, "--column", `b=${raw}`];
  expect((await runCli(argv)).code).toBe(0);
  const chunk = join(path, "b", "data", "__0.blp");
  writeFileSync(chunk, readFileSync(chunk).fill(0xff, 16 + 16 + 4));
  return chunk;
}

it("converted to Zarr among others, damage is reported with file and chunk, leaves nothing, and the others are whole", async () => {
  const out = join(folder, "out");
  const one = await runCli(["convert", source, out, "--verify"]);
  expect(one.code).toBe(3);
  expect(one.err).toContain(`${file}: chunk 1: `);
  // No document is there that would pass for a Zarr array: only what --resume continues from.
  expect(readdirSync(out).sort()).toEqual([".superchunk-convert.json", "c"]);
  const { code, err } = await runCli(["convert", join(folder, "many"), out, "--verify", "--overwrite"]);
  expect(code).toBe(3);
  expect(err).toContain(`${file}: chunk 1: `);
  expect(readdirSync(out).sort()).toEqual(["good", "zarr.json"]);
  expect(await runCli(["verify", out])).toMatchObject({ code: 0 });
});

/** `set --in-place`, `--reserve` and `--stream` on disk. */
import { linkSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { temporaryFolder } from "../folder.ts";
import { runCli } from "./harness.ts";

let folder: string;
const at = (...names: readonly string[]): string => join(folder, ...names);
const SUPERCHUNK = ["data", "__1__.bin"] as const;

beforeEach(() => {
  folder = temporaryFolder();
});
const create = (...more: readonly string[]) =>
  runCli(["create", at("a"), "--dtype", "<i8", "--shape", "1000", "--chunklen", "100", ...more]);
const versionOf = (...names: readonly string[]): number | undefined => readFileSync(at(...names))[4];

describe("set --in-place", () => {
  it("changes values in their own file, which compact makes version 3 again", async () => {
    expect((await create()).code).toBe(0);
    expect(versionOf("a", ...SUPERCHUNK)).toBe(3);
    const set = ["set", at("a"), "--slice", "150:160", "--value", "123456789012", "--in-place"];
    expect((await runCli(set)).code).toBe(0);
    expect(readdirSync(at("a", "data"))).toEqual(["__1__.bin"]);
    expect(readdirSync(at("a", "meta")).sort()).toEqual(["attributes", "sizes", "storage"]);
    expect(versionOf("a", ...SUPERCHUNK)).toBe(4);
    const { out } = await runCli(["cat", at("a"), "--slice", "149:152", "--format", "json"]);
    expect(JSON.parse(out)).toEqual([0, 123456789012, 123456789012]);
    expect((await runCli(["verify", at("a")])).code).toBe(0);
    expect((await runCli(["compact", at("a")])).code).toBe(0);
    expect(versionOf("a", ...SUPERCHUNK)).toBe(3);
  });

  it("refuses files with several names, and says what to do", async () => {
    await create();
    linkSync(at("a", ...SUPERCHUNK), at("copy"));
    const before = readFileSync(at("copy"));
    const { code, err } = await runCli(["set", at("a"), "--slice", "3", "--value", "1", "--in-place"]);
    expect(code).toBe(1);
    expect(err).toContain("the file has 2 names");
    expect(readFileSync(at("copy")).equals(before)).toBe(true);
    expect((await runCli(["set", at("a"), "--slice", "3", "--value", "1"])).code).toBe(0);
  });
});

describe("--reserve", () => {
  it("leaves room after the chunks of an array, and of a file", async () => {
    expect((await create("--reserve", "50%")).code).toBe(0);
    expect(versionOf("a", ...SUPERCHUNK)).toBe(4);
    const size = readFileSync(at("a", ...SUPERCHUNK)).length;
    await runCli(["set", at("a"), "--slice", "7", "--value", "5", "--in-place"]);
    expect(readFileSync(at("a", ...SUPERCHUNK)).length).toBe(size);
    writeFileSync(at("text"), "some text ".repeat(500));
    expect((await runCli(["compress", at("text"), at("r.blp"), "--reserve", "1K"])).code).toBe(0);
    expect(versionOf("r.blp")).toBe(4);
    expect((await runCli(["decompress", at("r.blp"), at("back")])).code).toBe(0);
    expect(readFileSync(at("back")).equals(readFileSync(at("text")))).toBe(true);
  });

  it.each(["x", "10x", "%"])("%s is neither a size nor a share", async (reserve) => {
    expect((await create("--reserve", reserve)).code).toBe(2);
  });
});

describe("compress --stream", () => {
  it("writes stdin to stdout without knowing its length, and decompress reads the result from a pipe", async () => {
    const text = Buffer.from(Array.from({ length: 9000 }, (_, i) => `line ${i}\n`).join(""));
    const { code, bytes } = await runCli(["compress", "-", "-", "--stream", "-z", "8K"], { stdin: text });
    expect(code).toBe(0);
    const file = Buffer.from(bytes);
    expect(file.readBigInt64LE(16)).toBe(-1n);
    expect(file.readInt32LE(12)).toBe(-1);
    const back = await runCli(["decompress", "-", "-"], { stdin: file });
    expect(Buffer.from(back.bytes).equals(text)).toBe(true);
  });
});

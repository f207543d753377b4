/** `docs/damage.md`: every command in it runs, one after the other, and ends with the exit code that the page gives. */
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { findFixture, repositoryRoot } from "../fixtures/manifest.ts";
import { runCli } from "./harness.ts";

const page = readFileSync(join(repositoryRoot, "docs", "damage.md"), "utf8");
const commands = [...page.matchAll(/^```sh exit=(\d)\n(.*)\n```$/gm)].map(
  ([, code, line = ""]) => [line, Number(code)] as const,
);

let folder: string;
let before: string;
const at = (name: string): string => join(folder, name);

/** Makes what the page names, each as damaged as the page says. */
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "superchunk-damage-"));
  before = process.cwd();
  const run = async (...argv: string[]): Promise<void> => {
    const { code, err } = await runCli(argv);
    if (code !== 0) throw new Error(err);
  };
  const flip = (name: string, byte: (length: number) => number): void => {
    const bytes = readFileSync(at(name));
    const i = byte(bytes.length);
    bytes[i] = (bytes[i] ?? 0) ^ 1;
    writeFileSync(at(name), bytes);
  };
  writeFileSync(
    at("rows.bin"),
    Float64Array.from({ length: 3000 }, (_, i) => i / 4),
  );
  const from = ["--from", at("rows.bin"), "--dtype", "<f8", "--chunklen", "500"];
  await run("create", at("prices"), ...from, "--superchunklen", "2");
  cpSync(at("prices"), at("counted"), { recursive: true });
  await run("convert", at("prices"), at("shards.zarr"), "--chunks-per-shard", "2");
  writeFileSync(at("shards.zarr/c/1"), readFileSync(at("shards.zarr/c/1")).subarray(0, -7));
  flip("prices/data/__2__.bin", (length) => length - 40);
  for (const copy of ["other", "bundles/a"]) cpSync(at("prices"), at(copy), { recursive: true });
  cpSync(at("counted"), at("bundles/b"), { recursive: true });
  await run("compress", at("rows.bin"), at("download.blp"), "--chunk-size", "4000");
  writeFileSync(at("download.blp"), readFileSync(at("download.blp")).subarray(0, -800));
  await run("convert", at("counted"), at("lost.blp"), "--to", "bloscpack");
  const lost = readFileSync(at("lost.blp"));
  writeFileSync(at("lost.blp"), lost.fill(0xff, lost.indexOf("JSON") + 36, lost.indexOf("JSON") + 40));
  await run("compress", at("rows.bin"), at("stream.blp"), "--chunk-size", "4000", "--no-offsets");
  const stream = readFileSync(at("stream.blp"));
  const second = stream.indexOf(stream.subarray(32, 40), 40);
  writeFileSync(at("stream.blp"), stream.fill(0xff, second, second + 16));
  await run("create", at("old.bcolz"), "--as", "carray", ...from);
  cpSync(at("old.bcolz"), at("bare.bcolz"), { recursive: true });
  for (const name of ["old.bcolz/meta/storage", "bare.bcolz/meta/storage", "bare.bcolz/meta/sizes"])
    rmSync(at(name));
  const columns = '[["id","<i8"],["price","<f8"]]';
  await run("create", at("trades.bcolz"), "--as", "ctable", "--dtype", columns, "--shape", "20000");
  const chunks = readdirSync(at("trades.bcolz/price/data")).sort();
  rmSync(at(`trades.bcolz/price/data/${chunks.at(-1)}`));
  rmSync(at("counted/meta/sizes"));
  process.chdir(folder);
});
afterAll(() => {
  process.chdir(before);
  rmSync(folder, { recursive: true, force: true });
});

describe("docs/damage.md", () => {
  it("has commands, each in a block of its own", () => {
    expect(commands.length).toBeGreaterThan(12);
    expect(page.match(/^superchunk /gm)).toHaveLength(commands.length);
  });

  it.each(commands)("%s", async (line, expected) => {
    const words = Array.from(line.matchAll(/"([^"]*)"|(\S+)/g), ([, quoted, plain = ""]) => quoted ?? plain);
    const { code, err } = await runCli(words.slice(1));
    expect([code, err]).toEqual([expected, expect.not.stringContaining("internal")]);
  });

  it("verify reports for each archive what can be saved, and with which command", async () => {
    for (const [name, said] of [
      ["other", ""],
      ["counted", "every chunk is intact and can be saved: superchunk repair counted DST\n"],
      ["download.blp", "can be saved: superchunk repair download.blp DST --holes fill\n"],
      ["old.bcolz", "wrong: superchunk repair old.bcolz DST --dtype DTYPE\n"],
      [
        "shards.zarr",
        "4 of 6 chunks are intact and can be saved: superchunk repair shards.zarr DST --holes fill\n",
      ],
    ] as const) {
      const { out } = await runCli(["verify", name]);
      expect(out, name).toContain(said);
    }
    const { out } = await runCli(["verify", "download.blp", "--json"]);
    const [{ salvage }] = JSON.parse(out).archives;
    expect(salvage).toMatchObject({ gone: expect.any(Number), whole: expect.any(Number) });
    expect(salvage.whole + salvage.gone).toBe(6);
  });

  it("a table without __rootdirs__ is damaged, and not a folder of arrays", async () => {
    const path = join(folder, "unnamed", "table");
    cpSync(findFixture("ctable/bcolz-mixed").file, path, { recursive: true });
    rmSync(join(path, "__rootdirs__"));
    for (const name of ["unnamed", "unnamed/table"]) {
      const { code, out } = await runCli(["verify", name]);
      expect([name, code]).toEqual([name, 3]);
      expect(out).toContain(
        "error INCOMPLETE: the folder has the __attrs__ of a table or an array, but neither",
      );
      expect(out).toContain("they are sorted by name: superchunk repair unnamed/table DST\n");
    }
  });

  it("verify names no command if no chunk is whole", async () => {
    const path = join(folder, "gone");
    cpSync(findFixture("carray/bcolz-f8-chunks").file, path, { recursive: true });
    for (const name of readdirSync(join(path, "data"))) rmSync(join(path, "data", name));
    const { out } = await runCli(["verify", path]);
    expect(out).toContain("no chunk is intact: nothing can be saved\n");
    expect(out).not.toContain("superchunk repair");
  });

  it("verify names no command for an empty file", async () => {
    writeFileSync(at("empty.blp"), "");
    const { code, out } = await runCli(["verify", "empty.blp"]);
    expect(code).toBe(3);
    expect(out).toContain("error TRUNCATED: the file is empty; look for a complete copy\n1 archive");
    expect((await runCli(["repair", "empty.blp", "never", "--scan"])).err).toBe(
      `superchunk: ${at("empty.blp")}: the file is empty; look for a complete copy\n`,
    );
  });

  it("verify names the option without which a column of a table is lost", async () => {
    const path = join(folder, "no-dtype");
    cpSync(findFixture("ctable/bcolz-daily-equities").file, path, { recursive: true });
    rmSync(join(path, "close/meta/storage"));
    const { out } = await runCli(["verify", "no-dtype"]);
    expect(out).toContain("Give --dtype, for example");
    expect(out).toContain(": superchunk repair no-dtype DST --dtype DTYPE\n");
    const { code, err } = await runCli(["repair", "no-dtype", "with-dtype", "--dtype", "<u4"]);
    expect([code, err]).toEqual([0, expect.not.stringContaining("lost")]);
  });

  it("info and verify name what was filled", async () => {
    expect((await runCli(["info", "saved"])).out).toMatch(
      /rows 1,?\d* to .*fill value|rows \d+ to \d+ hold a fill value/,
    );
    expect((await runCli(["verify", "saved"])).out).toContain("warning FILLED");
  });
});

/** What `verify` reports for archives with objects that belong to nothing. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, it } from "vitest";
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

it("bytes after the last chunk of a Bloscpack file are a warning", async () => {
  writeFileSync(at("text"), "text ".repeat(100));
  await runCli(["compress", at("text"), at("text.blp")]);
  writeFileSync(at("text.blp"), Buffer.concat([readFileSync(at("text.blp")), Buffer.from("more")]));
  const { code, out } = await runCli(["verify", at("text.blp")]);
  expect([code, out]).toEqual([0, expect.stringMatching(/^ok .*\n {2}warning TRAILING: .*chunk 0: 4 bytes/)]);
});

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

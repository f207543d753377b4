/** Names that are not UTF-8, or contain a backslash, are reported clearly, and do not affect the other archives. */
import * as fs from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { FileStore } from "../../src/node/index.ts";
import { runCli } from "../cli/harness.ts";
import { corpusFolder } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";
import { collectEntries } from "../store/store-contract.ts";

let folder: string;
const file = join(corpusFolder, "bloscpack-3", "array-f8.blp");
const tree = (): string => join(folder, "tree");

/** A path below the tree, with a byte at the end that is not UTF-8. */
const latin = (start: string, end = ""): Buffer =>
  Buffer.concat([Buffer.from(join(tree(), start)), Buffer.of(0xe9), Buffer.from(end)]);

beforeAll(() => {
  folder = temporaryFolder();
  fs.mkdirSync(join(tree(), "good"), { recursive: true });
  fs.copyFileSync(file, join(tree(), "good", "a.blp"));
  fs.cpSync(join(corpusFolder, "carray", "blz-f8"), join(tree(), "carray"), { recursive: true });
});
describe.runIf(process.platform === "linux")("names that are not UTF-8", () => {
  beforeAll(() => {
    fs.copyFileSync(file, latin("caf", ".blp"));
    fs.copyFileSync(file, join(tree(), "back\\slash.blp"));
    // The replacement character is a name like others.
    fs.copyFileSync(file, join(tree(), "\ufffd.blp"));
    fs.mkdirSync(latin("folder"));
    fs.writeFileSync(latin("notes", ".txt"), "text");
    fs.writeFileSync(latin("carray/data/", ".blp"), "text");
  });

  it("are each listed once, under a name that no other entry has", async () => {
    const store = new FileStore(tree());
    expect((await collectEntries(store, "")).map(({ name, kind }) => `${kind} ${name}`).sort()).toEqual([
      "folder carray",
      "folder folder\udce9",
      "folder good",
      "object back\\slash.blp",
      "object caf\udce9.blp",
      "object notes\udce9.txt",
      "object \ufffd.blp",
    ]);
    await expect(store.get("caf\udce9.blp")).rejects.toMatchObject({ code: "UNSAFE_PATH" });
    await store.close();
  });

  it("are failures in ls and verify that say what to do, and the other archives are still examined", async () => {
    const ls = JSON.parse((await runCli(["ls", tree(), "--json"])).out) as {
      path: string;
      error?: { code: string; message: string };
    }[];
    expect(ls.map(({ path, error }) => [path.slice(tree().length + 1), error?.code])).toEqual([
      ["back\\slash.blp", "UNSUPPORTED"],
      ["caf\\xe9.blp", "UNSUPPORTED"],
      ["carray", undefined],
      ["folder\\xe9", "UNSUPPORTED"],
      ["good/a.blp", undefined],
      ["\ufffd.blp", undefined],
    ]);
    expect(ls[1]?.error?.message).toContain("its name is not UTF-8");
    const { code, out } = await runCli(["verify", tree()]);
    expect(code).toBe(1);
    expect(out).toContain("6 archives: 3 ok, 3 not readable");
    // A file that does not belong to an archive is a leftover, whatever its name.
    expect(out).toMatch(/LEFTOVER: \S*\/data\/\\xe9\.blp/);
  });

  it("are reported by convert, which converts the others, to Zarr and back", async () => {
    const to = join(folder, "out.zarr");
    const zarr = await runCli(["convert", tree(), to, "--json"]);
    expect([zarr.code, JSON.parse(zarr.out)]).toMatchObject([1, { converted: 3, failed: 3 }]);
    fs.mkdirSync(Buffer.concat([Buffer.from(join(to, "x")), Buffer.of(0xff)]));
    const back = await runCli(["convert", tree(), join(folder, "back"), "--to", "npy"]);
    expect([back.code, back.err]).toMatchObject([1, expect.stringContaining("its name is not UTF-8")]);
    expect(fs.existsSync(join(folder, "back", "good", "a.npy"))).toBe(true);
  });

  it("are given as the reason when such a path is typed", async () => {
    // What a shell passes, as Node.js decodes it.
    const { code, err } = await runCli(["info", latin("caf", ".blp").toString()]);
    expect([code, err]).toMatchObject([1, expect.stringContaining("not UTF-8")]);
  });
});

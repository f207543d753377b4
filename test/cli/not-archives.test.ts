/** Files next to archives, or only a part of one, are reported as what they are. */
import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { temporaryFolder } from "../folder.ts";
import { runCli } from "./harness.ts";

let folder: string;

beforeEach(() => {
  folder = temporaryFolder();
});
describe("a link out of a folder of archives", () => {
  let tree: string;
  beforeEach(async () => {
    tree = join(folder, "tree");
    mkdirSync(tree);
    await runCli(["create", join(tree, "a"), "--dtype", "<i4", "--shape", "10"]);
    await runCli(["create", join(folder, "far"), "--dtype", "<i4", "--shape", "10"]);
    await runCli(["compress", join(folder, "far", "meta", "sizes"), join(folder, "far.blp")]);
    symlinkSync(join(folder, "far"), join(tree, "link"));
    symlinkSync(join(folder, "far.blp"), join(tree, "other.blp"));
    symlinkSync("circle", join(tree, "circle"));
  });

  it("is reported by ls and verify as not followed, and is not damage", async () => {
    const listed = await runCli(["ls", tree]);
    expect(listed.code).toBe(0);
    expect(listed.out).toContain(`a link out of the folder, to ${join(folder, "far")}: not followed`);
    expect(listed.out).toContain("circle  a link that forms a loop: not followed");
    const verified = await runCli(["verify", tree]);
    expect(verified.code).toBe(0);
    expect(verified.out).toContain("1 archive: 1 ok, 3 links not followed");
    const damaged = await runCli(["verify", tree, "--only-damaged"]);
    expect(damaged.out.match(/^LINK .* not followed$/gm)).toHaveLength(3);
    expect(JSON.parse((await runCli(["ls", tree, "--json"])).out)).toContainEqual({
      path: join(tree, "other.blp"),
      notFollowed: expect.objectContaining({ code: "UNSAFE_PATH", found: join(folder, "far.blp") }) as object,
    });
    const { archives, ok, totals } = JSON.parse((await runCli(["verify", tree, "--json"])).out);
    expect(archives).toHaveLength(4);
    expect({ ok, totals }).toMatchObject({ ok: true, totals: { archives: 1, notFollowed: 3 } });
  });

  it.each([["zarr"], ["bcolz"]])(
    "is not converted to %s, which is a failure but not damage",
    async (format) => {
      const { code, err } = await runCli(["convert", tree, join(folder, "out"), "--to", format]);
      expect(code).toBe(1);
      expect(err.match(/not converted: .*symbolic link.* \(UNSUPPORTED\)/g)).toHaveLength(3);
    },
  );

  it("inside an archive is damage", async () => {
    rmSync(join(tree, "a", "data"), { recursive: true });
    symlinkSync(join(folder, "far", "data"), join(tree, "a", "data"));
    const { code, out } = await runCli(["verify", tree]);
    expect(code).toBe(3);
    expect(out).toContain("UNSAFE_PATH");
  });
});

describe("a link back to a folder that contains it", () => {
  it.each([false, true])("ends the walk, and is not damage (in a Zarr group: %s)", async (isGroup) => {
    const tree = join(folder, "tree");
    mkdirSync(tree);
    await runCli(["create", join(tree, "a"), "--dtype", "<i4", "--shape", "10"]);
    if (isGroup) await runCli(["convert", tree, join(folder, "group")]);
    const path = isGroup ? join(folder, "group") : tree;
    // Consolidated metadata would give the members, and no folder would be listed.
    if (isGroup) writeFileSync(join(path, "zarr.json"), `{"zarr_format": 3, "node_type": "group"}`);
    symlinkSync(".", join(path, "self"));
    const listed = await runCli(["ls", path]);
    expect(listed.code).toBe(0);
    expect(listed.out).toContain(join(path, "a"));
    expect(listed.out).toContain("self  a link that forms a loop: not followed");
    expect(listed.out.trimEnd().split("\n")).toHaveLength(isGroup ? 4 : 3);
    const verified = await runCli(["verify", path]);
    expect(verified.code).toBe(0);
    expect(verified.out).toContain("1 archive: 1 ok, 1 link not followed");
    for (const format of ["zarr", "blz"]) {
      const { code, err } = await runCli(["convert", path, join(folder, `to-${format}`), "--to", format]);
      expect(code).toBe(1);
      expect(err.match(/not converted: .*forms a loop.* \(UNSUPPORTED\)/g)).toHaveLength(1);
    }
  });
});

it("a loop of links among several sources does not keep the others from being converted", async () => {
  const [link, array, to] = [join(folder, "circle"), join(folder, "a"), join(folder, "to.zarr")];
  await runCli(["create", array, "--dtype", "<i4", "--shape", "10"]);
  symlinkSync("circle", link);
  const { code, out, err } = await runCli(["convert", link, array, to]);
  expect(err).toContain(`not converted: ${link}: symbolic links form a loop`);
  expect(err).toContain("once what failed is mended, the same command with --resume tries it again\n");
  expect([code, out]).toEqual([1, expect.stringContaining("1 archive converted, 1 failed") as string]);
  expect((await runCli(["verify", to])).code).toBe(0);
  rmSync(link);
  await runCli(["create", link, "--dtype", "<i4", "--shape", "10"]);
  const again = await runCli(["convert", link, array, to, "--resume"]);
  expect(again.out).toContain("1 archive converted: ");
  expect(again.err).not.toContain("with --resume");
});

it("a .blp that is a dead link is reported; other dead links and pipes next to archives are skipped", async () => {
  await runCli(["create", join(folder, "a"), "--dtype", "<i4", "--shape", "10"]);
  symlinkSync("gone", join(folder, "README"));
  execFileSync("mkfifo", [join(folder, "pipe")]);
  expect((await runCli(["verify", folder])).code).toBe(0);
  symlinkSync("../annex/x.blp", join(folder, "x.blp"));
  const verified = await runCli(["verify", folder]);
  expect(verified).toMatchObject({ code: 3 });
  expect(verified.out).toContain(
    "x.blp\n  error INCOMPLETE: a symbolic link to ../annex/x.blp, where nothing is",
  );
});

describe("a part of an archive", () => {
  it.each(["info", "cat", "chunks"])("%s of a part names the folder that is meant", async (command) => {
    const array = join(folder, "a");
    await runCli(["create", array, "--dtype", "<i4", "--shape", "10", "--attr", "x=1"]);
    await runCli(["convert", array, join(folder, "z")]);
    for (const [path, whole] of [
      [join(array, "meta", "sizes"), array],
      [join(array, "meta", "storage"), array],
      [join(array, "meta", "attributes"), array],
      [join(folder, "z", "zarr.json"), join(folder, "z")],
    ] as const) {
      const { code, err } = await runCli([command, path]);
      expect(code).toBe(1);
      expect(err).toContain(`name the folder: ${whole}\n`);
    }
  });

  it("given as a folder points to its parent, and lists everything that was looked for", async () => {
    const array = join(folder, "a");
    await runCli(["create", array, "--dtype", "<i4", "--shape", "10"]);
    const { code, err } = await runCli(["info", join(array, "meta")]);
    expect(code).toBe(1);
    expect(err).toContain(
      "nor zarr.json, .zarray or .zgroup of Zarr. If it is a part of one, name the folder above",
    );
  });
});

describe("packed files in a folder", () => {
  it("are named by ls and verify with what to do, because archives may be in them", async () => {
    await runCli(["create", join(folder, "a"), "--dtype", "<i4", "--shape", "10"]);
    for (const name of ["old.tar.gz", "b.blp.gz"]) writeFileSync(join(folder, name), "\u001f\u008b");
    const note = `not opened: packed files, which may hold archives: ${join(folder, "b.blp.gz")}, ${join(folder, "old.tar.gz")}; unpack them first`;
    for (const command of ["ls", "verify"]) {
      const { code, err } = await runCli([command, folder]);
      expect([code, err]).toEqual([0, expect.stringContaining(note) as string]);
    }
    expect((await runCli(["verify", folder, "--quiet"])).err).toBe("");
    const more = ["c", "d", "e", "f\n"].map((name) => join(folder, `${name}.tgz`));
    for (const path of more) writeFileSync(path, "\u001f\u008b");
    expect((await runCli(["ls", folder])).err).toContain(
      `${join(folder, "f")}\\n.tgz, … (6 in all); unpack them first`,
    );
    for (const path of more) rmSync(path);
    rmSync(join(folder, "a"), { recursive: true });
    const none = await runCli(["ls", folder]);
    expect([none.code, none.err]).toEqual([1, expect.stringContaining(`or below; ${note}`) as string]);
    expect((await runCli(["info", join(folder, "old.tar.gz")])).err).toContain(
      "unpack it first, with tar -xf",
    );
  });
});

it.each(["repair --dry-run", "compact", "link", "info"])(
  "%s names a loop of links, and a link to nothing",
  async (command) => {
    const path = join(folder, "link");
    symlinkSync("link", path);
    expect((await runCli([...command.split(" "), path])).err).toContain("symbolic links form a loop");
    rmSync(path);
    symlinkSync("nowhere", path);
    expect((await runCli([...command.split(" "), path])).err).toContain(
      "a symbolic link to nowhere, where nothing is",
    );
  },
);

it.each([
  ["verify", ["--resume"]],
  ["verify", []],
  ["convert", []],
  ["virtualize", []],
])("%s %j does not write a report over an archive that was taken for its name", async (command, options) => {
  const path = join(folder, "a.blp");
  const other = join(folder, "b.blp");
  writeFileSync(join(folder, "bytes"), "some bytes");
  for (const each of [path, other]) await runCli(["compress", join(folder, "bytes"), each]);
  const before = readFileSync(path);
  const target =
    command === "verify" ? [] : [join(folder, command === "convert" ? "refs.zarr" : "refs.json")];
  const { code, err } = await runCli([command, ...options, "--report", path, other, ...target]);
  expect([code, err]).toEqual([2, expect.stringContaining("a.blp: the file exists, is not a report")]);
  expect(readFileSync(path)).toEqual(before);
  const inFolder = await runCli([command, "--report", folder, other, ...target]);
  expect([inFolder.code, inFolder.err]).toEqual([2, expect.stringContaining("the path is a folder")]);
  if (command !== "verify") expect(readdirSync(folder)).not.toContain(basename(target[0] ?? ""));
  // A report is written again.
  const report = join(folder, "report");
  for (let run = 0; run < 2; run++) {
    const made =
      command === "verify" ? [] : [join(folder, `refs${run}.${command === "convert" ? "zarr" : "json"}`)];
    const args = [command, ...options, "--report", report, other, ...made];
    expect((await runCli(args)).code).toBe(0);
  }
});

/** `superchunk containers`: the places that a set depends on, edited without reading its references. */
import { cp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, beforeEach, describe, expect, it } from "vitest";
import { openReferences } from "../../src/node/references.ts";
import type { Container } from "../../src/zarr.ts";
import { runCli } from "../cli/harness.ts";
import { corpusFolder } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";

const array = join(corpusFolder, "bloscpack-3", "array-i4-2d.blp");
let folder = "";
let source = "";

beforeAll(async () => {
  folder = temporaryFolder();
  source = join(folder, "data", "array.blp");
  await cp(array, source);
});
async function list(set: string, ...args: readonly string[]): Promise<readonly Container[]> {
  const { code, out, err } = await runCli(["containers", set, ...args, "--json"]);
  expect([code, err]).toEqual([0, ""]);
  return (JSON.parse(out) as { containers: readonly Container[] }).containers;
}

describe.each([
  ["kerchunk", "set.json"],
  ["kerchunk-parquet", "set.parq"],
])("the containers of a set of %s", (form, name) => {
  let set = "";
  beforeEach(async () => {
    set = join(folder, name);
    const args = ["virtualize", source, set, "--to", form, "--overwrite"];
    expect((await runCli(args)).code).toBe(0);
  });

  it("are listed, also if the references themselves are missing", async () => {
    await rm(set, { recursive: true });
    const prefix = `file://${join(folder, "data")}/`;
    expect(await list(set)).toEqual([{ name: "local", prefix, store: "local" }]);
    const { out } = await runCli(["containers", set]);
    expect(out).toMatch(/^name +prefix +reached by\nlocal +file:\/\/.*\/data\/ +local\n$/);
  });

  it("can be given a new location, and the unchanged references are read from there [FV-05]", async () => {
    const key = form === "kerchunk" ? "/array/c/0/0" : "/array/0.0";
    const before = await openReferences(set, { authorize: ["local"] });
    const bytes = await before.get(key);
    await before.close();
    const moved = join(folder, "moved", "array.blp");
    await cp(source, moved, { preserveTimestamps: true });
    const written = form === "kerchunk" ? await readFile(set) : await readFile(join(set, ".zmetadata"));
    const location = `file://${join(folder, "moved")}/`;
    expect(await list(set, "--set", "local", "--location", location)).toMatchObject([{ location }]);
    expect(form === "kerchunk" ? await readFile(set) : await readFile(join(set, ".zmetadata"))).toEqual(
      written,
    );
    const { mtimeMs } = await stat(source);
    expect((await stat(moved)).mtimeMs).toBeCloseTo(mtimeMs, -1);
    const after = await openReferences(set, { authorize: ["local"] });
    expect(await after.get(key)).toEqual(bytes);
    await after.close();
  });

  it("are deleted if no reference needs them, and not if one does [FV-05]", async () => {
    await list(set, "--set", "mirror", "--prefix", "s3://mirror/", "--anonymous", "--region", "eu-west-1");
    const refused = await runCli(["containers", set, "--delete", "local"]);
    expect(refused.code).toBe(1);
    expect(refused.err).toContain(
      `container "local" is needed by references, for example to file://${source}`,
    );
    expect((await list(set)).map(({ name }) => name)).toEqual(["local", "mirror"]);
    expect((await list(set, "--delete", "mirror")).map(({ name }) => name)).toEqual(["local"]);
    const absent = await runCli(["containers", set, "--delete", "mirror"]);
    expect([absent.code, absent.err]).toEqual([1, expect.stringContaining('unknown container "mirror"')]);
  });

  it("with a longer prefix take references from those with a shorter one, which then may be deleted", async () => {
    await list(set, "--set", "outer", "--prefix", `file://${folder}/`);
    expect((await list(set, "--delete", "outer")).map(({ name }) => name)).toEqual(["local"]);
    const twin = await runCli([
      "containers",
      set,
      "--set",
      "inner",
      "--prefix",
      `file://${join(folder, "data")}/`,
    ]);
    expect(twin.err).toContain('is that of container "local" already');
  });
});

describe("a container", () => {
  let set = "";
  beforeAll(async () => {
    set = join(folder, "one.json");
    expect((await runCli(["virtualize", source, set, "--to", "kerchunk"])).code).toBe(0);
  });

  it("has named credentials or is anonymous, whichever was set last, and stores no secret", async () => {
    await list(set, "--set", "s3", "--prefix", "s3://bucket/", "--anonymous");
    const named = (await list(set, "--set", "s3", "--credentials", "ours")).find(({ name }) => name === "s3");
    expect(named).toEqual({ name: "s3", prefix: "s3://bucket/", store: "s3", credentials: "ours" });
    const open = (await list(set, "--set", "s3", "--anonymous")).find(({ name }) => name === "s3");
    expect(open).toEqual({ name: "s3", prefix: "s3://bucket/", store: "s3", anonymous: true });
    const signed = (await list(set, "--set", "s3", "--no-anonymous")).find(({ name }) => name === "s3");
    expect(signed).toEqual({ name: "s3", prefix: "s3://bucket/", store: "s3" });
  });

  it.each<[string, readonly string[], number, string]>([
    ["without its final slash", ["--set", "x", "--prefix", "s3://bucket/a"], 2, "s3://bucket/a/ is meant"],
    ["with parts that lead out", ["--set", "x", "--prefix", "file:///data/../etc/"], 3, "can lead out"],
    ["of an unknown scheme", ["--set", "x", "--prefix", "ftp://host/"], 1, "ftp:// are not read"],
    ["that does not exist, without a prefix", ["--set", "x", "--region", "us"], 1, "give the prefix"],
    ["with another prefix", ["--set", "local", "--prefix", "file:///other/"], 2, "as its location"],
    ["with nothing to set", ["--set", "local"], 2, "needs what to set"],
    ["that is set and deleted", ["--set", "a", "--delete", "b", "--region", "x"], 2, "not both"],
    ["without a name", ["--region", "us-east-1"], 2, "name it with --set"],
    [
      "with credentials and anonymous",
      ["--set", "x", "--anonymous", "--credentials", "a"],
      2,
      "exclude one another",
    ],
  ])("%s is refused, and the file is unchanged", async (_, args, code, message) => {
    const file = join(folder, "one.containers.json");
    const before = await readFile(file);
    const { code: found, err } = await runCli(["containers", set, ...args]);
    expect([found, err]).toEqual([code, expect.stringContaining(message)]);
    expect(await readFile(file)).toEqual(before);
  });

  it.each([
    ["an endpoint", ["--set", "x", "--prefix", "s3://b/", "--endpoint", "https://me:5ecret@host"]],
    ["an endpoint's query", ["--set", "x", "--prefix", "s3://b/", "--endpoint", "https://host/?key=5ecret"]],
    ["a web prefix", ["--set", "x", "--prefix", "https://me:5ecret@host/"]],
    ["an S3 prefix", ["--set", "x", "--prefix", "s3://me:5ecret@bucket/"]],
    ["a location", ["--set", "local", "--location", "https://me:5ecret@host/"]],
  ])("with a password in %s is refused, and the password is not shown", async (_, args) => {
    const { code, out, err } = await runCli(["containers", set, ...args, "--debug"]);
    expect(code).not.toBe(0);
    expect(`${out}${err}`).not.toContain("5ecret");
    expect(await readFile(join(folder, "one.containers.json"), "utf8")).not.toContain("5ecret");
  });

  it("in a file with an invalid container is refused, naming the member", async () => {
    const file = join(folder, "bad.containers.json");
    const one = { name: "a", prefix: "s3://a/", store: "s3", secretAccessKey: "5ecret" };
    await writeFile(file, JSON.stringify({ format: "superchunk-containers", version: 1, containers: [one] }));
    const { code, err } = await runCli(["containers", join(folder, "bad.json")]);
    expect([code, err]).toEqual([3, expect.stringContaining("secrets have no place here")]);
    expect(err).not.toContain("5ecret");
    const none = await runCli(["containers", join(folder, "none.json")]);
    expect([none.code, none.err]).toEqual([
      1,
      expect.stringContaining("there are no containers of references"),
    ]);
  });
});

/** Conversions that have not ended: `ls` and `verify` name them and say how to go on, and what they left counts as no archive. */
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { findReadables, findUnfinished, MemoryStore, type UnfinishedConversion } from "../../src/index.ts";
import { convert, FileStore } from "../../src/node/index.ts";
import type { ConvertFormat } from "../../src/zarr.ts";
import { lockFromAfar } from "./foreign-lock.ts";
import { runCli } from "./harness.ts";

let folder: string;
const at = (name: string): string => join(folder, name);

/** Begins a conversion, and ends it as soon as it has written something. */
async function interrupt(sources: readonly string[], name: string, to: ConvertFormat): Promise<void> {
  const ending = new AbortController();
  const begun = convert(sources, at(name), {
    to,
    signal: ending.signal,
    skipFailed: true,
    onProgress: ({ done }) => done > 0 && ending.abort(),
  });
  await expect(begun).rejects.toThrow(/abort/);
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "superchunk-unfinished-"));
  writeFileSync(
    at("rows.bin"),
    Float64Array.from({ length: 60_000 }, (_, i) => Math.sqrt(i)),
  );
  for (const name of ["from/a", "from/b"])
    await runCli(["create", at(name), "--from", at("rows.bin"), "--dtype", "<f8", "--chunklen", "1000"]);
  await runCli(["convert", at("from/a"), at("all/whole.blp")]);
  await interrupt([at("from/a")], "all/carray", "bcolz");
  await interrupt([at("from/a")], "all/one.npy", "npy");
  await interrupt([at("from/a")], "all/one.zarr", "zarr");
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const lineOf = (name: string, to: string, discard: string): string =>
  `UNFINISHED  ${at(name)}  a conversion of ${at("from/a")} was interrupted, or is running; to continue it: superchunk convert ${at("from/a")} ${at(name)}${to} --resume, with the same options; to discard it, remove ${discard}`;
const lines = (): string[] => [
  lineOf("all/carray", " --to bcolz", `${at("all/carray")} and ${at("all/.carray.")}*`),
  lineOf("all/one.npy", " --to npy", `${at("all/one.npy")} and ${at("all/.one.npy.")}*`),
  lineOf("all/one.zarr", "", at("all/one.zarr")),
];

it("ls and verify name each in one line, and it is not damage", async () => {
  const listed = await runCli(["ls", at("all")]);
  expect([listed.code, listed.err]).toEqual([0, ""]);
  const linesOf = (out: string): string[] =>
    out.split("\n").filter((line) => /^(?:UNFINISHED|ok|bloscpack|carray)/.test(line));
  expect(linesOf(listed.out).toSorted()).toEqual([
    ...lines(),
    expect.stringMatching(/^bloscpack-3 .*whole\.blp$/),
  ]);
  const verified = await runCli(["verify", at("all"), "--only-damaged"]);
  expect([verified.code, linesOf(verified.out)]).toEqual([1, lines()]);
  expect(verified.out).toMatch(/^1 archive: 1 ok, 3 unfinished conversions, /m);
});

it.each(["carray", "one.npy", "one.zarr"])("%s is named by its own path too", async (name) => {
  const [line] = lines().filter((each) => each.includes(`  ${at(`all/${name}`)}  `));
  for (const command of ["ls", "verify"]) {
    const { out } = await runCli([command, at(`all/${name}`)]);
    expect(out.split("\n")[0]).toBe(line);
  }
});

it("the report of verify has a line for each, which a resumed run writes again", async () => {
  const report = at("report.jsonl");
  const read = (): { path: string; unfinished?: object; ok?: boolean }[] =>
    readFileSync(report, "utf8")
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
  await runCli(["verify", at("all"), "--report", report]);
  const first = read();
  const { archives } = JSON.parse((await runCli(["verify", at("all"), "--json"])).out);
  expect(first.map(({ path, unfinished }) => ({ path, unfinished }))).toEqual(
    archives.map(({ path, unfinished }: { path: string; unfinished?: object }) => ({ path, unfinished })),
  );
  expect(first.filter(({ unfinished }) => unfinished !== undefined)).toHaveLength(3);
  const resumed = await runCli(["verify", at("all"), "--report", report, "--resume"]);
  expect([resumed.code, resumed.err]).toEqual([1, ""]);
  expect(resumed.out).toContain("3 unfinished conversions, 1 kept from the earlier run");
  expect(read()).toHaveLength(first.length + 3);
  rmSync(report);
});

it("as JSON they are entries and a total, in CSV messages", async () => {
  const unfinished = {
    kind: "conversion",
    sources: [at("from/a")],
    to: "bcolz",
    message: expect.any(String),
  };
  const listed = JSON.parse((await runCli(["ls", at("all"), "--json"])).out);
  expect(listed[0]).toEqual({ path: at("all/carray"), unfinished });
  const verified = JSON.parse((await runCli(["verify", at("all"), "--json"])).out);
  expect(verified).toMatchObject({ ok: false, totals: { archives: 1, damaged: 0, unfinished: 3 } });
  expect(verified.archives[0]).toEqual({ path: at("all/carray"), unfinished });
  const csv = await runCli(["ls", at("all"), "--csv"]);
  expect(csv.out.trim().split("\n")).toHaveLength(2);
  expect(csv.err.match(/was interrupted/g)).toHaveLength(3);
});

it("of many sources, the finished ones are archives, and the others are not searched", async () => {
  await interrupt([at("from")], "many", "bcolz");
  // As a kill would leave the second one.
  cpSync(at("many/a/data"), at("many/b/data"), { recursive: true });
  const found: UnfinishedConversion[] = [];
  const paths: string[] = [];
  const onUnfinished = (each: UnfinishedConversion): void => void found.push(each);
  for await (const { path } of findReadables(new FileStore(folder), "", { onUnfinished })) paths.push(path);
  expect(paths.filter((path) => path.startsWith("many/"))).toEqual(["many/a"]);
  expect(found.map(({ path }) => path)).toEqual(["many", "all/carray", "all/one.npy", "all/one.zarr"]);
  const { code, out } = await runCli(["verify", at("many")]);
  expect(out).not.toContain("__0.blp");
  expect([code, out]).toEqual([
    1,
    expect.stringContaining(`remove what it wrote in ${at("many")}, and ${at(".many.")}*`),
  ]);
});

it("the command in the line ends the conversion", async () => {
  await runCli(["convert", at("from/a"), at("all/carray"), "--to", "bcolz", "--resume"]);
  const { code, out } = await runCli(["verify", at("all/carray")]);
  expect([code, out]).toEqual([0, expect.stringMatching(/^ok .*carray, 60 chunks/)]);
});

it("a record that says nothing still names its destination", async () => {
  const store = new MemoryStore();
  expect(await findUnfinished(store, "x.npy")).toBeUndefined();
  await store.put(".x.npy.superchunk-convert.json", new Uint8Array([123]));
  expect(await findUnfinished(store, "x.npy")).toEqual({
    path: "x.npy",
    isFolder: false,
    sources: [],
    to: undefined,
    kind: "conversion",
    isMany: false,
    begun: [],
  });
});

/** The claim of a conversion: beside its destination, or in the folder of a Zarr array. */
const CLAIM = ".superchunk-convert.0000000000000000.tmp";

it.each([
  ["claimed.npy", `.claimed.npy${CLAIM}`, "npy"],
  ["claimed.zarr", `claimed.zarr/.${CLAIM}`, "zarr"],
] as const)(
  "%s of a conversion that was killed on another host is taken over on request",
  async (name, claim, to) => {
    await interrupt([at("from/a")], name, to);
    const host = lockFromAfar(at(claim));
    const argv = ["convert", at("from/a"), at(name), "--resume"];
    const refused = await runCli(argv);
    expect([refused.code, refused.err]).toEqual([
      1,
      expect.stringMatching(
        `${at(name)}: another conversion to this place is running: process 1 on ${host} since .*`,
      ),
    ]);
    expect(refused.err).toContain("if it has certainly died, take its place over with --break-lock");
    expect((await runCli([...argv, "--break-lock"])).code).toBe(0);
    expect(existsSync(at(claim))).toBe(false);
  },
);

it("a conversion whose place was taken over while it ran ends with CONFLICT, and leaves the other's claim", async () => {
  const claim = at(`.taken.npy${CLAIM}`);
  const onProgress = (): void => void lockFromAfar(claim);
  await expect(convert(at("from/a"), at("taken.npy"), { to: "npy", onProgress })).rejects.toMatchObject({
    code: "CONFLICT",
    message: expect.stringMatching(/taken\.npy: another conversion to this place wrote this meanwhile/),
  });
  expect(existsSync(claim)).toBe(true);
});

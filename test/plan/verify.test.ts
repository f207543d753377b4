/** Plans to verify: in shares the same report, text and exit code as one `verify`. */
import { cp, open, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { finish, plan, planStatus, runTasks } from "../../src/node/index.ts";
import { runCli } from "../cli/harness.ts";
import { corpusFolder } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";

type Line = Readonly<Record<string, unknown>> & { readonly path: string };

/** A folder with sound archives of many kinds, a Zarr group, and one that is damaged. */
async function makeTree(): Promise<{ readonly folder: string; readonly data: string }> {
  const folder = temporaryFolder();
  const data = join(folder, "data");
  for (const name of [
    "ctable/bcolz-daily-equities",
    "carray/bcolz-f8-chunks",
    "carray/blz-f8",
    "bloscpack-3/array-f8.blp",
  ])
    await cp(join(corpusFolder, name), join(data, name), { recursive: true });
  expect(
    (await runCli(["convert", join(data, "ctable", "bcolz-daily-equities"), join(data, "group.zarr")])).code,
  ).toBe(0);
  const damaged = join(data, "damaged.blp");
  await cp(join(corpusFolder, "bloscpack-3", "array-f8.blp"), damaged);
  const file = await open(damaged, "r+");
  const { size } = await file.stat();
  await file.write("damage", Math.floor(size / 2));
  await file.close();
  return { folder, data };
}

function linesOf(text: string): Line[] {
  return text.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line) as Line]));
}

const byPath = (a: Line, b: Line): number => (a.path < b.path ? -1 : 1);

it("three shares and finish give the same report as one verify, in text and exit code", async () => {
  const { folder, data } = await makeTree();
  const at = (name: string): string => join(folder, name);
  const straight = await runCli(["verify", data, "--report", at("straight.jsonl")]);
  expect(straight.code).toBe(3);
  const made = await runCli(["plan", "--for", "verify", data, at("report.jsonl"), "-o", at("plan.json")]);
  expect([made.code, made.err]).toEqual([0, expect.stringContaining("superchunk run")]);
  expect((await runCli(["run", at("plan.json"), "--task", "2/3"])).code).toBe(0);
  const early = await runCli(["finish", at("plan.json")]);
  expect([early.code, early.err]).toEqual([1, expect.stringContaining("tasks have no receipt")]);
  for (const task of ["1/3", "3/3"])
    expect((await runCli(["run", at("plan.json"), "--task", task])).code).toBe(0);
  const ended = await runCli(["finish", at("plan.json")]);
  expect(ended.code).toBe(3);
  expect(ended.out.split("\n").sort()).toEqual(straight.out.split("\n").sort());
  const wanted = linesOf(await readFile(at("straight.jsonl"), "utf8"))
    // The report says what can be saved. Shares need no stamp of the files: the plan has their fingerprints.
    .map(({ salvage: _, files: _stamp, ...line }) => line as Line)
    .sort(byPath);
  expect(wanted.length).toBeGreaterThan(10);
  expect(linesOf(await readFile(at("report.jsonl"), "utf8")).sort(byPath)).toEqual(wanted);
  // A second run gives the same, and nothing is left next to the report.
  const again = await runCli(["finish", at("plan.json")]);
  expect([again.code, again.out]).toEqual([ended.code, ended.out]);
  expect((await runCli(["status", at("plan.json"), "--json"])).out).toContain('"finished"');
  const json = JSON.parse((await runCli(["finish", at("plan.json"), "--json"])).out) as {
    readonly ok: boolean;
    readonly totals: object;
  };
  const plain = JSON.parse((await runCli(["verify", data, "--json"])).out) as typeof json;
  expect([json.ok, json.totals]).toEqual([plain.ok, plain.totals]);
});

it("an archive that changed since is named, and does not stop the others; in the library too", async () => {
  const { folder, data } = await makeTree();
  const made = await plan(data, join(folder, "report.jsonl"), { command: "verify" });
  const changed = join(data, "carray", "blz-f8");
  await rm(changed, { recursive: true });
  await cp(join(corpusFolder, "carray", "bcolz-f8-chunks"), changed, { recursive: true });
  const { failed, done } = await runTasks(made);
  expect([failed, done]).toEqual([0, (await planStatus(made)).units]);
  const { report = [] } = (await finish(made)) ?? {};
  expect(report.filter(({ ok }) => ok === false).map(({ path }) => path)).toEqual([
    changed,
    join(data, "damaged.blp"),
  ]);
  expect(report.find(({ path }) => path === changed)).toMatchObject({ error: { code: "CONFLICT" } });
});

it("an archive that is missing on one machine is verified by another, or reported if that is asked", async () => {
  const { folder, data } = await makeTree();
  const [away, archive] = [join(folder, "away"), join(data, "carray", "blz-f8")];
  const made = await plan(data, join(folder, "report.jsonl"), { command: "verify" });
  await rename(archive, away);
  expect((await runTasks(made)).failures).toMatchObject([
    { path: archive, code: "NOT_FOUND", isFinal: false },
  ]);
  await expect(finish(made)).rejects.toMatchObject({ code: "INCOMPLETE" });
  await rename(away, archive);
  expect(await runTasks(made)).toMatchObject({ failed: 0, done: 1 });
  const { report = [] } = (await finish(made)) ?? {};
  expect(report.find(({ path }) => path === archive)).toMatchObject({ ok: true });
  const other = await plan(data, join(folder, "other.jsonl"), { command: "verify" });
  await rename(archive, away);
  await runTasks(other);
  const { report: without = [] } = (await finish(other, { withoutFailed: true })) ?? {};
  expect(without.find(({ path }) => path === archive)).toMatchObject({ error: { code: "NOT_FOUND" } });
});

it("an existing report, options of conversions, and an empty location are refused", async () => {
  const { folder, data } = await makeTree();
  const args = [
    "plan",
    "--for",
    "verify",
    data,
    join(folder, "report.jsonl"),
    "-o",
    join(folder, "plan.json"),
  ];
  expect(await runCli([...args, "--shard-size", "1MiB"])).toMatchObject({
    code: 2,
    err: expect.stringContaining("--shard-size is not for --for verify"),
  });
  await cp(join(corpusFolder, "bloscpack-3", "array-f8.blp"), join(folder, "report.jsonl"));
  expect(await runCli(args)).toMatchObject({
    code: 1,
    err: expect.stringContaining("the destination exists"),
  });
  const nothing = [
    "plan",
    "--for",
    "verify",
    temporaryFolder(),
    join(folder, "r.jsonl"),
    "-o",
    join(folder, "p.json"),
  ];
  expect(await runCli(nothing)).toMatchObject({
    code: 1,
    err: expect.stringContaining("neither an archive"),
  });
});

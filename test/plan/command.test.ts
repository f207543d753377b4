/** `superchunk plan`, `run`, `finish` and `status` as typed, and the share that a scheduler gives. */
import { cp, mkdir, open, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, it } from "vitest";
import { watchPause } from "../../cli/commands/plan.ts";
import { shareOf } from "../../cli/input/share.ts";
import { FileStore } from "../../src/node/index.ts";
import { runCli } from "../cli/harness.ts";
import { keysOf } from "../convert/to-zarr/read-back.ts";
import { corpusFolder, repositoryRoot } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";

const tables = join(corpusFolder, "ctable");

it.each(["plan.json", "plan"])("three shares of a folder (%s) make what convert makes", async (name) => {
  const folder = temporaryFolder();
  const at = (each: string): string => join(folder, each);
  const planned = await runCli(["plan", tables, at("shared.zarr"), "-o", at(name), "--verify"]);
  expect([planned.code, planned.out]).toEqual([0, expect.stringContaining("4 archives, 4 tasks")]);
  expect((await runCli(["plan", tables, at("other.zarr"), "-o", at(name)])).err).toContain(name);
  expect((await runCli(["run", at(name), "--task", "1/3"])).code).toBe(0);
  const second = await runCli(["plan", tables, at("shared.zarr"), "-o", at("second")]);
  expect([second.code, second.err]).toEqual([
    1,
    expect.stringContaining("an unfinished plan or conversion is there"),
  ]);
  const early = await runCli(["finish", at(name)]);
  expect([early.code, early.err]).toEqual([1, expect.stringContaining("tasks have no receipt")]);
  const status = JSON.parse((await runCli(["status", at(name), "--json"])).out) as object;
  expect(status).toMatchObject({ stage: "running", units: 4, failed: 0 });
  for (const task of ["2/3", "3/3"]) await runCli(["run", at(name), "--task", task]);
  expect((await runCli(["status", at(name)])).out).toContain("4 of 4 done");
  expect((await runCli(["run", at(name), "--task", "9/9"])).out).toContain("share 9 of 9 has no tasks");
  const ended = await runCli(["finish", at(name)]);
  expect([ended.code, ended.out]).toEqual([0, expect.stringMatching(/^4 archives converted: .*verified/)]);
  expect((await runCli(["finish", at(name)])).out).toContain("nothing is left to do");
  expect((await runCli(["run", at(name)])).out).toContain("nothing is left to do");
  expect((await runCli(["convert", tables, at("straight.zarr")])).code).toBe(0);
  const [shared, straight] = [new FileStore(at("shared.zarr")), new FileStore(at("straight.zarr"))];
  const keys = (await keysOf(straight)).sort();
  expect((await keysOf(shared)).sort()).toEqual(keys);
  for (const key of keys) expect(await shared.get(key), key).toEqual(await straight.get(key));
});

it("a plan is written neither into its destination, nor as Zarr metadata, nor between other files", async () => {
  const folder = temporaryFolder();
  const at = (each: string): string => join(folder, each);
  await writeFile(at("notes.json"), "mine");
  await mkdir(at("mine"));
  await writeFile(at("mine/notes"), "mine");
  for (const [name, reason] of [
    ["out.zarr", "in its destination"],
    ["out.zarr/plan.json", "in its destination"],
    ["out.zarr/.superchunk/plan", "in its destination"],
    ["zarr.json", "readers of Zarr"],
    [".zarray", "readers of Zarr"],
    ["notes.json", "never changes"],
    ["mine", "other files"],
    ["mine/notes", "this is a file, but a folder is needed"],
  ] as const) {
    const { code, err } = await runCli(["plan", tables, at("out.zarr"), "-o", at(name)]);
    expect([name, code > 0, err]).toEqual([name, true, expect.stringContaining(reason)]);
  }
  expect((await readdir(folder, { recursive: true })).sort()).toEqual(["mine", "mine/notes", "notes.json"]);
  for (const file of ["notes.json", "mine/notes"]) expect(await readFile(at(file), "utf8")).toBe("mine");
  // A name that only begins like the destination's is another one.
  expect((await runCli(["plan", tables, at("out.zarr"), "-o", at("out.zarr.json")])).code).toBe(0);
  await mkdir(at("out.zarr"));
  await writeFile(at("out.zarr/mine"), "mine");
  for (const args of [
    ["run", at("out.zarr.json")],
    ["plan", tables, at("out.zarr"), "-o", at("plan.json")],
  ]) {
    const { code, err } = await runCli(args);
    expect([code, err]).toEqual([1, expect.stringContaining("remove it, or plan with another one")]);
    expect(err).not.toContain("--overwrite");
  }
});

it.each(["plan.json", "plan"])(
  "%s: making a plan removes what a killed one left half written",
  async (output) => {
    const folder = temporaryFolder();
    const at = (each: string): string => join(folder, each);
    const mark = "0123456789abcdef.tmp";
    const left = {
      "plan.json": [`.plan.json.${mark}`],
      plan: [`plan/.plan.json.${mark}`, `plan/.sources-00000.jsonl.${mark}`],
    };
    const others = [`.other.json.${mark}`, ...(output === "plan" ? [`.plan.json.${mark}`] : [])];
    await mkdir(at("plan"));
    for (const name of [...left[output as keyof typeof left], ...others]) await writeFile(at(name), "half");
    expect((await runCli(["plan", tables, at("out.zarr"), "-o", at(output)])).code).toBe(0);
    const names = (await readdir(folder, { recursive: true })).filter((name) => name.endsWith(".tmp"));
    expect(names.sort()).toEqual(others.sort());
  },
);

it("finish, even three at once, removes what a killed process left half written", async () => {
  const folder = temporaryFolder();
  const at = (each: string): string => join(folder, each);
  const planned = await runCli(["plan", tables, at("out.zarr"), "-o", at("plan.json"), "--json"]);
  expect((await runCli(["run", at("plan.json")])).code).toBe(0);
  const { id } = JSON.parse(planned.out) as { id: string };
  const killed = { worker: "killed", plan: id, started: 1, updated: 1, running: [], ended: false };
  await writeFile(at("out.zarr/.superchunk/receipts/killed-0.jsonl"), `${JSON.stringify(killed)}\n`);
  const left = [
    "bcolz-daily-equities/close/c/.0.0123456789abcdef.tmp",
    "bcolz-daily-equities/.a.0123456789abcdef.tmp",
    ".superchunk/receipts/.killed-1.jsonl.0123456789abcdef.tmp",
  ];
  for (const name of left) await writeFile(at(`out.zarr/${name}`), "half");
  const ended = await Promise.all([1, 2, 3].map(() => runCli(["finish", at("plan.json")])));
  expect(ended.map(({ code }) => code)).toEqual([0, 0, 0]);
  const names = await readdir(at("out.zarr"), { recursive: true });
  expect(names.filter((name) => name.endsWith(".tmp") || name.includes(".superchunk"))).toEqual([]);
});

it("finish removes hidden files of a killed process beside its result, and none of others", async () => {
  const folder = temporaryFolder();
  const at = (each: string): string => join(folder, each);
  const mark = "0123456789abcdef.tmp";
  for (const [from, to, left] of [
    [
      "bcolz-daily-equities/close",
      "close.npy",
      [`.close.npy.${mark}`, `..close.npy.superchunk-unverified.${mark}`],
    ],
    [
      "bcolz-daily-equities",
      "daily.bcolz",
      [`.daily.bcolz.superchunk/made/one/daily.bcolz/close/.a.${mark}`],
    ],
    ["bcolz-daily-equities", "daily.zarr", [`daily.zarr/..superchunk-convert.json.${mark}`]],
  ] as const) {
    const isFolder = to === "daily.zarr";
    expect((await runCli(["plan", join(tables, from), at(to), "-o", at(`${to}.json`)])).code).toBe(0);
    expect((await runCli(["run", at(`${to}.json`)])).code).toBe(0);
    const record = isFolder ? [] : [`..${to}.superchunk-convert.json.${mark}`];
    const others = [`.other.npy.${mark}`, `.${to}2.${mark}`];
    for (const name of [...left, ...record, ...others]) {
      await mkdir(dirname(at(name)), { recursive: true });
      await writeFile(at(name), "half");
    }
    expect((await runCli(["finish", at(`${to}.json`)])).code).toBe(0);
    const names = (await readdir(folder, { recursive: true })).filter((name) => /\.tmp$|made/.test(name));
    expect(names.sort(), to).toEqual(others.sort());
    for (const name of others) await rm(at(name));
  }
});

it("finish removes a file that a killed process, which ran a task once more, had not compared", async () => {
  const folder = temporaryFolder();
  const at = (each: string): string => join(folder, each);
  const source = join(tables, "bcolz-daily-equities/close");
  const planned = await runCli(["plan", source, at("a.npy"), "-o", at("p.json"), "--verify", "--json"]);
  const { id } = JSON.parse(planned.out) as { id: string };
  expect((await runCli(["run", at("p.json")])).code).toBe(0);
  const killed = { worker: "killed", plan: id, started: 1, updated: 1, running: [], ended: false };
  await writeFile(at(".a.npy.superchunk/receipts/killed-0.jsonl"), `${JSON.stringify(killed)}\n`);
  await writeFile(at(".a.npy.superchunk-unverified"), "half");
  expect((await runCli(["finish", at("p.json")])).code).toBe(0);
  expect((await readdir(folder)).sort()).toEqual(["a.npy", "p.json"]);
});

it("a table as Parquet or Arrow, an npy file, and a folder of bcolz can be planned too", async () => {
  const folder = temporaryFolder();
  const source = join(tables, "bcolz-daily-equities");
  for (const [from, to] of [
    [source, "daily.parquet"],
    [source, "daily.arrow"],
    [source, "daily.bcolz"],
    [join(source, "close"), "close.npy"],
  ] as const) {
    const [plan, shared, straight] = [
      join(folder, `${to}.json`),
      join(folder, to),
      join(folder, `straight-${to}`),
    ];
    expect((await runCli(["plan", from, shared, "-o", plan])).code).toBe(0);
    expect((await runCli(["run", plan])).code).toBe(0);
    expect((await runCli(["finish", plan])).code).toBe(0);
    expect((await runCli(["convert", from, straight])).code).toBe(0);
    const [made, wanted] = [new FileStore(shared), new FileStore(straight)];
    const keys = await keysOf(wanted);
    expect(await keysOf(made)).toEqual(keys);
    for (const key of keys) expect(await made.get(key), key).toEqual(await wanted.get(key));
    if (keys.length === 0) expect(await readFile(shared)).toEqual(await readFile(straight));
  }
});

it("--damaged fill saves a tree as convert does, and finish lists what is lost", async () => {
  const folder = temporaryFolder();
  const [data, plan] = [join(folder, "data"), join(folder, "plan.json")];
  await cp(tables, data, { recursive: true });
  const file = await open(join(data, "bcolz-mixed", "name", "data", "__0.blp"), "r+");
  await file.write("damage", 40);
  await file.close();
  const straight = await runCli(["convert", data, join(folder, "straight.zarr"), "--damaged", "fill"]);
  const gone = (text: string): string[] => text.split("\n").filter((line) => /fill(?:ed|s)/.test(line));
  expect([straight.code, gone(straight.err).length]).toEqual([3, 2]);
  const shared = join(folder, "shared.zarr");
  await runCli(["plan", data, shared, "-o", plan, "--damaged", "fill"]);
  for (const task of ["1/2", "2/2"]) expect((await runCli(["run", plan, "--task", task])).code).toBe(0);
  const ended = await runCli(["finish", plan]);
  expect([ended.code, gone(ended.err)]).toEqual([3, gone(straight.err)]);
  const [made, wanted] = [new FileStore(shared), new FileStore(join(folder, "straight.zarr"))];
  for (const key of await keysOf(wanted)) expect(await made.get(key), key).toEqual(await wanted.get(key));
});

it("what an unfinished plan left is named where it keeps another job away", async () => {
  const folder = temporaryFolder();
  const [plan, other, made] = ["plan.json", "other.json", "out"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  await runCli(["plan", tables, made, "-o", plan, "--to", "npy"]);
  await runCli(["run", plan, "--task", "1/2"]);
  const again = ["plan", tables, made, "-o", other, "--to", "npy", "--verify"];
  expect((await runCli(again)).err).toContain("out: an unfinished plan or conversion is there");
  await rm(made, { recursive: true });
  expect((await runCli(again)).err).toMatch(
    /\.out\.superchunk-convert\.json: an unfinished plan or conversion/,
  );
  const resumed = await runCli(["convert", tables, made, "--to", "npy", "--resume"]);
  expect(resumed.err).toContain("an unfinished plan is there; run and finish it");
  // The results were removed, but not the receipts.
  await runCli(["run", plan]);
  expect((await runCli(["finish", plan])).err).toContain("were changed or removed");
  expect([(await runCli(["run", plan])).code, (await runCli(["finish", plan])).code]).toEqual([0, 0]);
});

it("an edited plan, and one whose source has changed, are refused with what to do", async () => {
  const folder = temporaryFolder();
  const [source, plan] = [join(folder, "prices"), join(folder, "plan.json")];
  await cp(join(corpusFolder, "carray", "bcolz-f8-chunks"), source, { recursive: true });
  expect((await runCli(["plan", source, join(folder, "out.zarr"), "-o", plan])).code).toBe(0);
  const text = await readFile(plan, "utf8");
  await writeFile(plan, text.replace("out.zarr", "etc.zarr"));
  const edited = await runCli(["run", plan]);
  expect([edited.code, edited.err]).toEqual([3, expect.stringContaining("make it again")]);
  await writeFile(plan, text);
  await rm(source, { recursive: true });
  await cp(join(corpusFolder, "carray", "blz-f8"), source, { recursive: true });
  const changed = await runCli(["run", plan, "--json"]);
  expect(changed.code).toBe(1);
  expect(changed.out).toContain("plan again");
  for (const command of ["status", "finish"]) {
    const { out, err } = await runCli([command, plan]);
    expect(out + err, command).toContain(`${source}: the source has changed since the plan was made`);
  }
});

it("finish leaves out an archive that is gone if it is asked to, and says so", async () => {
  const folder = temporaryFolder();
  const [data, plan] = [join(folder, "data"), join(folder, "plan.json")];
  await cp(tables, data, { recursive: true });
  await cp(join(corpusFolder, "carray", "bcolz-f8-chunks"), join(data, "gone"), { recursive: true });
  expect((await runCli(["plan", data, join(folder, "out.zarr"), "-o", plan])).code).toBe(0);
  await rm(join(data, "gone"), { recursive: true });
  for (const flags of [[], ["--exit-zero"]]) expect((await runCli(["run", plan, ...flags])).code).toBe(1);
  const refused = await runCli(["finish", plan]);
  expect([refused.code, refused.err]).toEqual([1, expect.stringContaining("what failed: --without-failed")]);
  const ended = await runCli(["finish", plan, "--without-failed"]);
  expect([ended.code, ended.err]).toEqual([1, expect.stringMatching(/not converted: .*gone.*CONFLICT/)]);
  expect((await runCli(["convert", data, join(folder, "one.zarr")])).code).toBe(0);
  const [made, wanted] = ["out.zarr", "one.zarr"].map((name) => new FileStore(join(folder, name)));
  const keys = wanted === undefined ? [] : await keysOf(wanted);
  expect(made && (await keysOf(made))).toEqual(keys);
  for (const key of keys) expect(await made?.get(key), key).toEqual(await wanted?.get(key));
});

it.each(["text", '{"format": 1}'])("a file that is not a plan is not called damaged: %s", async (text) => {
  const path = join(temporaryFolder(), "other.json");
  await writeFile(path, text);
  for (const command of ["run", "finish", "status"]) {
    const { code, err } = await runCli([command, path]);
    expect([code, err]).toEqual([
      1,
      expect.stringContaining("this file is not a plan; superchunk plan makes one"),
    ]);
  }
});

it.each<[string, Record<string, string>, number | undefined, readonly [number, number] | undefined]>([
  [
    "of a Slurm array from 0",
    { SLURM_ARRAY_TASK_ID: "0", SLURM_ARRAY_TASK_MIN: "0", SLURM_ARRAY_TASK_COUNT: "5" },
    undefined,
    [1, 5],
  ],
  [
    "of a Slurm array from 1",
    { SLURM_ARRAY_TASK_ID: "5", SLURM_ARRAY_TASK_MIN: "1", SLURM_ARRAY_TASK_COUNT: "5" },
    undefined,
    [5, 5],
  ],
  [
    "of a Slurm array with a step",
    {
      SLURM_ARRAY_TASK_ID: "8",
      SLURM_ARRAY_TASK_MIN: "0",
      SLURM_ARRAY_TASK_STEP: "4",
      SLURM_ARRAY_TASK_COUNT: "3",
    },
    undefined,
    [3, 3],
  ],
  [
    "of an AWS Batch array",
    { AWS_BATCH_JOB_ARRAY_INDEX: "0", AWS_BATCH_JOB_ARRAY_SIZE: "9" },
    undefined,
    [1, 9],
  ],
  [
    "of one of several Slurm arrays",
    {
      SLURM_ARRAY_TASK_ID: "53",
      SLURM_ARRAY_TASK_MIN: "51",
      SLURM_ARRAY_TASK_MAX: "100",
      SLURM_ARRAY_TASK_COUNT: "50",
    },
    100,
    [53, 100],
  ],
  [
    "of a Slurm array from 0, with the number of shares",
    {
      SLURM_ARRAY_TASK_ID: "3",
      SLURM_ARRAY_TASK_MIN: "0",
      SLURM_ARRAY_TASK_MAX: "4",
      SLURM_ARRAY_TASK_COUNT: "5",
    },
    5,
    [4, 5],
  ],
  [
    "of a Slurm array with a step, with the number of shares",
    {
      SLURM_ARRAY_TASK_ID: "25",
      SLURM_ARRAY_TASK_MIN: "5",
      SLURM_ARRAY_TASK_MAX: "25",
      SLURM_ARRAY_TASK_STEP: "5",
      SLURM_ARRAY_TASK_COUNT: "5",
    },
    5,
    [5, 5],
  ],
  ["of an indexed Job", { JOB_COMPLETION_INDEX: "3", AWS_BATCH_JOB_ARRAY_INDEX: "" }, 4, [4, 4]],
  ["of GNU parallel", { PARALLEL_SEQ: "2" }, 4, [2, 4]],
  ["without a scheduler", {}, undefined, undefined],
  ["of GNU parallel without the number of shares", { PARALLEL_SEQ: "2" }, undefined, undefined],
])("the share %s", (_, env, shares, wanted) => {
  const { share } = shareOf({ shares }, env);
  expect(share === undefined ? undefined : [share.k, share.n]).toEqual(wanted);
});

it.each<[string, Record<string, string>, number | undefined]>([
  ["which share it is, but not of how many", { JOB_COMPLETION_INDEX: "3" }, undefined],
  ["of how many, but not which", {}, 4],
  [
    "tasks with gaps",
    {
      SLURM_ARRAY_TASK_ID: "7",
      SLURM_ARRAY_TASK_MIN: "3",
      SLURM_ARRAY_TASK_MAX: "7",
      SLURM_ARRAY_TASK_COUNT: "2",
    },
    undefined,
  ],
  [
    "tasks with a step and one beside it",
    {
      SLURM_ARRAY_TASK_ID: "8",
      SLURM_ARRAY_TASK_MIN: "1",
      SLURM_ARRAY_TASK_MAX: "9",
      SLURM_ARRAY_TASK_STEP: "2",
      SLURM_ARRAY_TASK_COUNT: "5",
    },
    undefined,
  ],
  ["a task, but not where its array begins", { SLURM_ARRAY_TASK_ID: "3" }, 10],
  [
    "a part of the shares, counted from 0",
    { SLURM_ARRAY_TASK_ID: "3", SLURM_ARRAY_TASK_MIN: "0", SLURM_ARRAY_TASK_COUNT: "5" },
    10,
  ],
  ["a share above their number", { JOB_COMPLETION_INDEX: "4" }, 4],
  ["another number of shares", { AWS_BATCH_JOB_ARRAY_INDEX: "0", AWS_BATCH_JOB_ARRAY_SIZE: "9" }, 4],
  [
    "a share that is no number",
    { AWS_BATCH_JOB_ARRAY_INDEX: "-1", AWS_BATCH_JOB_ARRAY_SIZE: "9" },
    undefined,
  ],
  ["a share of 0", { PARALLEL_SEQ: "0" }, 4],
])("if the scheduler says %s, nothing is guessed", (_, env, shares) => {
  expect(() => shareOf({ shares }, env)).toThrow(
    /give --(?:shares|task)|has gaps|must count them|as many processes|but --shares/,
  );
});

it("status --watch looks again after two seconds, and after nine times as long as a look took, but at most a minute", () => {
  expect([0, 100, 1000, 60_000].map(watchPause)).toEqual([2000, 2000, 9000, 60_000]);
});

it("status --watch --json prints a line for each look", async () => {
  const folder = temporaryFolder();
  const plan = join(folder, "plan.json");
  await runCli(["plan", tables, join(folder, "out.zarr"), "-o", plan]);
  await runCli(["run", plan]);
  const { out } = await runCli(["status", plan, "--watch", "--json"]);
  expect(out.split("\n")).toEqual([expect.stringMatching(/^\{"plan":.*\}$/), ""]);
  const { rate: _, ...status } = JSON.parse(out) as { rate: number };
  expect(JSON.parse((await runCli(["status", plan, "--json"])).out)).toMatchObject(status);
});

it("status --watch redraws a terminal, within its rows, until all tasks are done", async () => {
  const folder = temporaryFolder();
  const [data, plan] = [join(folder, "data"), join(folder, "plan.json")];
  const restore = (i: number): Promise<void> =>
    cp(join(tables, "bcolz-mixed"), join(data, `${i}`), { recursive: true, preserveTimestamps: true });
  for (let i = 0; i < 12; i++) await restore(i);
  await runCli(["plan", data, join(folder, "out.zarr"), "-o", plan]);
  for (let i = 0; i < 11; i++) await rm(join(data, `${i}`), { recursive: true });
  await runCli(["run", plan]);
  let onOut = (): void => undefined;
  const begun = new Promise<void>((resolve) => {
    onOut = resolve;
  });
  const seen = runCli(["status", plan, "--watch"], { terminal: true, rows: 8, onOut: () => onOut() });
  await begun;
  for (let i = 0; i < 11; i++) await restore(i);
  await runCli(["run", plan]);
  const { out, err } = await seen;
  const [first, ...pictures] = out.split("\u001b[H\u001b[J");
  expect(first).toBe("");
  expect(pictures[0]?.split("\n")).toHaveLength(8);
  expect(pictures[0]).toMatch(/1 of 12 done, 0 running, 0 failed, 11 to run again\n[\s\S]*… 9 more lines\n$/);
  expect(pictures.at(-1)).toMatch(/12 of 12 done[\s\S]*processes {2}0 running, 2 ended\n$/);
  expect(err).toContain("next: superchunk finish");
});

it("a plan records the version of the package, and a failure names its archive once", async () => {
  const folder = temporaryFolder();
  const plan = join(folder, "plan.json");
  await cp(join(corpusFolder, "carray"), join(folder, "data"), { recursive: true });
  await runCli(["plan", join(folder, "data"), join(folder, "x.zarr"), "-o", plan]);
  const { version } = JSON.parse(await readFile(join(repositoryRoot, "package.json"), "utf8")) as {
    version: string;
  };
  const text = await readFile(plan, "utf8");
  expect(JSON.parse(text)).toMatchObject({ software: version });
  const other = join(folder, "other.json");
  await writeFile(other, text.replace(version, "9.9.9"));
  expect((await runCli(["run", other])).err).toContain(
    `superchunk 9.9.9 made the plan, but this is ${version}`,
  );
  // Every run has the same exit code, and names what failed.
  for (const flags of [[], [], ["--retry-failed"], ["--task", "1/1"]]) {
    const { code, err } = await runCli(["run", plan, ...flags]);
    expect([flags, code, err]).toEqual([flags, 1, expect.stringMatching(/failed: .*bcolz-object/)]);
  }
  expect((await runCli(["run", plan, "--exit-zero"])).code).toBe(0);
  const { out } = await runCli(["status", plan]);
  const [failed = ""] = out.split("\n").filter((line) => line.startsWith("failed: "));
  expect(failed.split(join(folder, "data", "bcolz-object"))).toHaveLength(2);
});

it("status says of each process what it runs, and when it last progressed and reported", async () => {
  const folder = temporaryFolder();
  const plan = join(folder, "plan.json");
  for (const name of ["a", "b"])
    await cp(join(tables, "bcolz-mixed"), join(folder, "data", name), { recursive: true });
  await runCli(["plan", join(folder, "data"), join(folder, "out.zarr"), "-o", plan]);
  await runCli(["run", plan, "--task", "1/2"]);
  const receipts = join(folder, "out.zarr/.superchunk/receipts");
  const [name = ""] = await readdir(receipts);
  const [state = "", ...lines] = (await readFile(join(receipts, name), "utf8")).split("\n");
  const now = Date.now();
  const killed = {
    ...(JSON.parse(state) as object),
    ended: false,
    running: [1],
    since: now - 600_000,
    updated: now - 300_000,
  };
  await writeFile(join(receipts, name), [JSON.stringify(killed), ...lines].join("\n"));
  const { out } = await runCli(["status", plan]);
  expect(out).toMatch(
    /^process +running +last progress +last report\n\S+ +1 task +10:\d\d ago +5:\d\d ago, silent$/m,
  );
});

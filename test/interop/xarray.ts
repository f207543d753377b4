/**
 * What every command makes is opened in Python with the line that the command prints: tables as datasets, folders as
 * trees, arrays on their own; by dask in the chunks of the array; the values are those of the archives.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { corpusFolder, repositoryRoot } from "../fixtures/manifest.ts";
import { type Environment, prepareEnvironment } from "./environments.ts";
import { findNodeForIcechunk, type NodeCommand } from "./newer-node.ts";
import { lastLines, runProgram } from "./program.ts";
import type { Suite, SuiteContext } from "./suite.ts";

const COMMAND = join(repositoryRoot, "build", "cli", "main.js");

/** What the lines open is summarized the same way: nodes with their dimensions, and the sum of one column or array. */
const SUM = `
import numpy, warnings
def total(name, values):
    values = numpy.asarray(values)
    print(name, values.shape, values.dtype, int(numpy.nan_to_num(values.astype("float64"), posinf=0, neginf=0).sum()))
found = globals().get("data", globals().get("dataset", globals().get("tree")))
kind = type(found).__name__
print(kind)
if kind == "DataTree":
    for node in sorted(found.subtree, key=lambda node: node.path):
        for name in sorted(node.data_vars):
            print(node.path, name, dict(node[name].sizes))
elif kind == "Dataset":
    for name in sorted(found.data_vars):
        print(name, dict(found[name].sizes), found[name].chunks is not None)
    name = "close" if "close" in found else sorted(found.data_vars)[0]
    total(name, found[name].values)
else:
    total("array", found[:])
`;

interface World {
  readonly context: SuiteContext;
  readonly work: string;
  readonly python: Environment;
  readonly node: NodeCommand | undefined;
}

export const xarray: Suite = {
  name: "xarray",
  peers: [],
  async run(context) {
    const python = await prepareEnvironment({ name: "xarray", pythons: ["3.12", "3.13"] });
    if ("absent" in python) {
      console.log(`absent: xarray: ${python.absent}`);
      if (process.env["CI"] === "true") context.checks.fail("xarray", "what runs it is absent, and CI=true");
      return;
    }
    const found = await findNodeForIcechunk();
    const work = join(context.folder, "work");
    await mkdir(join(work, "folder"), { recursive: true });
    const table = join(corpusFolder, "ctable", "bcolz-daily-equities");
    const array = join(corpusFolder, "carray", "bcolz-f8-chunks");
    await cp(table, join(work, "daily.bcolz"), { recursive: true });
    await cp(array, join(work, "array"), { recursive: true });
    await cp(table, join(work, "folder", "daily.bcolz"), { recursive: true });
    await cp(array, join(work, "folder", "a"), { recursive: true });
    await cp(join(corpusFolder, "carray", "bcolz-i8-2d-attrs"), join(work, "folder", "deep", "b"), {
      recursive: true,
    });
    const world: World = { context, work, python, node: "absent" in found ? undefined : found };
    const answers = new Map<string, string>();
    for (const source of ["daily.bcolz", "array", "folder"]) {
      const routes: (readonly [string, string])[] = [
        [`convert ${source}`, await printed(world, ["convert", source, `${source}.zarr`])],
        [
          `convert ${source} to a name that looks like an address`,
          await printed(world, ["convert", source, `${source} #1?::.zarr`]),
        ],
        [
          `virtualize ${source} --to kerchunk`,
          await printed(world, ["virtualize", source, `${source}.json`, "--to", "kerchunk"]),
        ],
        [
          `virtualize ${source} --to kerchunk-parquet`,
          await printed(world, ["virtualize", source, `${source}.refs`, "--to", "kerchunk-parquet"]),
        ],
      ];
      if (world.node !== undefined)
        routes.push([
          `virtualize ${source}`,
          await printed(world, ["virtualize", source, `${source}.icechunk`]),
        ]);
      for (const [route, line] of routes) await check(world, source, route, line, answers);
      const served = await serve(world, source);
      try {
        await check(world, source, `serve ${source}`, served.line, answers);
      } finally {
        served.stop();
      }
    }
    // A folder with unequal chunks in it: zarr-python reads none of it unless configured to.
    await cp(join(corpusFolder, "zarr3-rectilinear"), join(work, "uneven"), { recursive: true });
    const uneven = await printed(world, ["convert", "uneven", "uneven.zarr"]);
    context.checks.equal(
      "convert uneven: its line opens it",
      (await runPython(world, uneven)).split("\n")[0],
      "DataTree",
    );
    // These change their inputs, so they come last.
    for (const source of ["daily.bcolz", "array"])
      await check(world, source, `link ${source}`, await printed(world, ["link", source]), answers);
    const made = ["create", "made", "--dtype", "<f8", "--shape", "1000,2", "--zarr"];
    const line = await printed(world, made);
    context.checks.equal(
      "create --zarr: its line opens it",
      await runPython(world, line),
      "Array\narray (1000, 2) float64 0",
    );
    await checkDask(world);
  },
};

/** Every route to one source must give the same; single arrays have a name in reference sets, where xarray expects a group. */
async function check(
  world: World,
  source: string,
  route: string,
  line: string,
  answers: Map<string, string>,
): Promise<void> {
  const answer = await runPython(world, line);
  const { checks } = world.context;
  const kind = answer.split("\n")[0] ?? "";
  const isBare = source === "array" && kind === "Array";
  if (source === "folder") checks.equal(`${route} is a tree`, kind, "DataTree");
  else if (source === "daily.bcolz") checks.equal(`${route} is a dataset`, kind, "Dataset");
  const key = `${source} ${isBare ? "bare" : kind}`;
  const first = answers.get(key);
  if (first === undefined) {
    answers.set(key, answer);
    checks.equal(`${route}: its line opens it`, answer.startsWith("failed") ? answer : "opened", "opened");
  } else checks.equal(`${route}: its line opens the same`, answer, first);
}

async function printed({ work, node }: World, args: readonly string[]): Promise<string> {
  const program = node?.program ?? process.execPath;
  const end = await runProgram(program, [...(node?.args ?? []), COMMAND, ...args], { cwd: work });
  const text = `${end.stdout}\n${end.stderr}`;
  if (end.code !== 0) throw new Error(`superchunk ${args.join(" ")} ended with ${end.code}: ${text}`);
  const [, line] = /in Python: (.*)/.exec(text) ?? [];
  const [, block] = /\nPython:\n((?: {2}.*\n?)+)/.exec(text) ?? [];
  const found = line ?? block?.replace(/^ {2}/gm, "");
  if (found === undefined) throw new Error(`superchunk ${args.join(" ")} printed no line: ${text}`);
  return found;
}

/** A server, and the xarray line that it prints. */
async function serve({ work }: World, source: string): Promise<{ readonly line: string; stop(): void }> {
  const server = spawn(process.execPath, [COMMAND, "serve", source, "--port", "0"], {
    cwd: work,
    stdio: ["ignore", "pipe", "ignore"],
  });
  const ended = once(server, "exit");
  for await (const line of createInterface(server.stdout)) {
    const [, call] = /^xarray +xr\.(.*)$/.exec(line) ?? [];
    if (call === undefined) continue;
    server.stdout.resume();
    return { line: `import xarray; data = xarray.${call}`, stop: () => server.kill("SIGINT") };
  }
  throw new Error(`serve ${source} ended with ${String(await ended)}`);
}

async function runPython({ work, python }: World, line: string): Promise<string> {
  const end = await runProgram(python.executable, ["-W", "ignore", "-c", `${line}\n${SUM}`], {
    cwd: work,
    env: python.env,
  });
  return end.code === 0 ? end.stdout.trim() : `failed: ${lastLines(end)}`;
}

/** dask cuts what it opens where chunks end, so that no chunk is decoded twice. */
async function checkDask(world: World): Promise<void> {
  const script = `import xarray, zarr
data = xarray.open_zarr("daily.bcolz.zarr", chunks={})
array = zarr.open_array("daily.bcolz.zarr/close", mode="r")
print(data["close"].chunks[0][0] % array.chunks[0] == 0, int(data["close"].sum().compute()) == int(array[:].sum()))`;
  const end = await runProgram(world.python.executable, ["-W", "ignore", "-c", script], {
    cwd: world.work,
    env: world.python.env,
  });
  world.context.checks.equal("dask opens it in whole chunks", end.stdout.trim(), "True True");
}

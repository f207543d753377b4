/**
 * The guides of views and references, as typed: every block of shell, Python and JavaScript in them runs, one after
 * the other, on archives with the names that they use.
 */

import { spawn } from "node:child_process";
import { chmod, cp, mkdir, readFile, writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { pathToFileURL } from "node:url";
import { create as createArray } from "../../src/node/edit.ts";
import { openArchive, S3Store } from "../../src/node/index.ts";
import { parseContainers } from "../../src/references/containers/containers.ts";
import { corpusFolder, repositoryRoot } from "../fixtures/manifest.ts";
import { CREDENTIALS, startS3, type TestS3 } from "../node/s3/server.ts";
import { serveObjects, type TestServer } from "../store/server.ts";
import { type Environment, prepareEnvironment } from "./environments.ts";
import { findNodeForIcechunk, type NodeCommand } from "./newer-node.ts";
import { lastLines, runProgram } from "./program.ts";
import type { Suite, SuiteContext } from "./suite.ts";

const TABLE = join(corpusFolder, "ctable", "bcolz-daily-equities");

/** A daily table of zipline, a folder, which is also used for the quant's walk. */
const OWN_TABLE = process.env["SUPERCHUNK_DAILY_TABLE"];

/** A block of a guide. */
interface Block {
  /** The heading that it is under. */
  readonly section: string;
  readonly language: string;
  readonly text: string;
}

/** What the blocks find, and how they are run. */
interface World {
  readonly context: SuiteContext;
  readonly work: string;
  readonly node: NodeCommand;
  readonly python: Environment;
  readonly env: Readonly<Record<string, string>>;
  /** Places that a guide names, as they are here. */
  readonly places: readonly (readonly [named: string, here: string])[];
  /** The first ten values of the column `close`. */
  readonly close: string;
}

export const guides: Suite = {
  name: "guides",
  peers: [],
  async run(context) {
    const python = await prepareEnvironment({ name: "xarray", pythons: ["3.12", "3.13"] });
    const node = await findNodeForIcechunk();
    for (const found of [python, node]) {
      if (!("absent" in found)) continue;
      console.log(`absent: guides: ${found.absent}`);
      if (process.env["CI"] === "true")
        context.checks.fail("guides", "what runs them is absent, and CI=true");
    }
    if ("absent" in python || "absent" in node) return;
    const s3 = await startS3();
    const web = await serveObjects([
      ["prices.blp", new Uint8Array(await readFile(join(corpusFolder, "bloscpack-3", "array-f8.blp")))],
    ]);
    try {
      const world = await makeWorld(context, node, python, s3, web);
      await checkReadme(world);
      await runGuide("xarray-in-one-minute.md", world, 7);
      await runGuide("following-a-bundle.md", world, 4);
      await runGuide("credentials-and-containers.md", world, 9);
      await runGuide("zipline.md", world, 8);
      await runGuide("walks.md", world, 10);
      if (OWN_TABLE !== undefined) await walkThrough(OWN_TABLE, world);
    } finally {
      await web.close();
      await s3.close();
    }
  },
};

/** The README's line of Python; test/readme.test.ts runs everything else in it. */
async function checkReadme(world: World): Promise<void> {
  const text = await readFile(join(repositoryRoot, "README.md"), "utf8");
  const [, line = ""] = /in Python, `(zarr\.open[^`]+)`/.exec(text) ?? [];
  const convert = "superchunk convert daily_equities.bcolz daily.zarr";
  await mustEnd(convert, runProgram("sh", ["-c", convert], { cwd: world.work, env: world.env }));
  const five = world.close.split(",").slice(0, 5).join();
  const { checks } = world.context;
  checks.equal("README.md: its line of Python", await runPython(`import zarr\n${line}`, world), five);
}

/** The quant's walk through another table, which is read and not changed. */
async function walkThrough(path: string, world: World): Promise<void> {
  const work = join(world.context.folder, "own-table");
  await cp(path, join(work, "daily_equities.bcolz"), { recursive: true });
  await runGuide(
    "walks.md",
    { ...world, work, close: await closeOf(path) },
    2,
    "A quant with a zipline bundle",
  );
}

/** The first ten values of a table's column `close`. */
async function closeOf(path: string): Promise<string> {
  const table = await openArchive(path);
  if (table.kind !== "table") throw new Error("no table");
  const bytes = await table.column("close").readBytes(0, 40);
  return [...new Uint32Array(bytes.slice().buffer)].join();
}

async function makeWorld(
  context: SuiteContext,
  node: NodeCommand,
  python: Environment,
  s3: TestS3,
  web: TestServer,
): Promise<World> {
  const work = join(context.folder, "guides");
  const bin = join(context.folder, "bin");
  for (const folder of [work, bin, join(work, "bundles")]) await mkdir(folder, { recursive: true });
  await cp(TABLE, join(work, "daily_equities.bcolz"), { recursive: true });
  await cp(TABLE, join(work, "bundles", "equities"), { recursive: true });
  for (const [year, name] of [
    [2023, "2023.bcolz"],
    [2024, "2024.bcolz"],
    [2025, "2025.bcolz"],
    [2026, "prices"],
  ] as const) {
    const array = await createArray(join(work, name), { dtype: "<f8", shape: [0], chunkLength: 10 });
    await array.append(Float64Array.from({ length: 40 }, (_, i) => year + i));
    await array.close();
  }
  const command = join(repositoryRoot, "build", "cli", "main.js");
  const words = [node.program, ...node.args, command].map((word) => `'${word}'`).join(" ");
  await writeFile(join(bin, "superchunk"), `#!/bin/sh\nexec ${words} "$@"\n`);
  await chmod(join(bin, "superchunk"), 0o755);
  const env = {
    PATH: [bin, process.env["PATH"]].join(delimiter),
    AWS_ACCESS_KEY_ID: CREDENTIALS.accessKeyId,
    AWS_SECRET_ACCESS_KEY: CREDENTIALS.secretAccessKey,
    AWS_ENDPOINT_URL_S3: s3.endpoint,
    AWS_REGION: "us-east-1",
  };
  await fillBucket(s3, join(work, "daily_equities.bcolz", "close"));
  const places = [
    ["https://example.org/", `${web.url}/`],
    ["s3://bucket/", `s3://${s3.bucket}/`],
    ["/data/bundles", join(work, "bundles")],
    ["file:///data/", `file://${work}/`],
    ["file:///archive/data/", `file://${work}/`],
  ] as const;
  return {
    context,
    work,
    node,
    python,
    env,
    places,
    close: await closeOf(TABLE),
  };
}

/** An archive in S3, under the key of the guide. */
async function fillBucket(s3: TestS3, archive: string): Promise<void> {
  const store = new S3Store({
    bucket: s3.bucket,
    prefix: "archives/daily_equities.bcolz",
    endpoint: s3.endpoint,
    region: "us-east-1",
    credentials: CREDENTIALS,
  });
  // s3rver does not list a folder that contains only folders.
  const file = await readFile(join(corpusFolder, "bloscpack-3", "array-f8.blp"));
  await new S3Store({
    bucket: s3.bucket,
    endpoint: s3.endpoint,
    region: "us-east-1",
    credentials: CREDENTIALS,
  }).put("archives/prices.blp", new Uint8Array(file));
  const opened = await openArchive(archive);
  if (opened.kind === "table") throw new Error("no array");
  const keys = new Set(["meta/sizes", "meta/storage"]);
  for await (const { key } of opened.listChunks({ digests: false })) keys.add(key);
  for (const key of keys) await store.put(key, new Uint8Array(await readFile(join(archive, key))));
}

/**
 * Runs the blocks of a guide, or of one section; prints how long each took. Servers that a block starts stay up for
 * later blocks.
 */
async function runGuide(name: string, world: World, count: number, only?: string): Promise<void> {
  const { checks } = world.context;
  const text = await readFile(join(repositoryRoot, "docs", name), "utf8");
  const blocks = blocksOf(text).filter(({ section }) => only === undefined || section === only);
  const seconds = new Map<string, number>();
  checks.equal(`${name}: blocks`, blocks.length, count);
  const servers: (() => Promise<void>)[] = [];
  try {
    for (const [i, block] of blocks.entries()) {
      const label = `${name}: block ${i + 1}, ${block.language}`;
      const begun = performance.now();
      try {
        checks.equal(label, await runBlock(block, i, world, servers), "done");
      } catch (error) {
        checks.fail(label, error instanceof Error ? error.message : String(error));
      }
      const { section } = block;
      seconds.set(section, (seconds.get(section) ?? 0) + (performance.now() - begun) / 1000);
    }
  } finally {
    for (const stop of servers) await stop();
  }
  for (const [section, took] of seconds) console.log(`${name}: ${section}: ${took.toFixed(1)} s`);
}

function blocksOf(text: string): Block[] {
  let section = "";
  const blocks: Block[] = [];
  for (const [, heading, language = "", own = ""] of text.matchAll(
    /^## (.*)$|^```(\w+)\n([\s\S]*?)^```$/gm,
  )) {
    if (heading === undefined) blocks.push({ section, language, text: own });
    else section = heading;
  }
  return blocks;
}

async function runBlock(
  block: Block,
  id: number,
  world: World,
  servers: (() => Promise<void>)[],
): Promise<string> {
  const { work, places } = world;
  const text = places.reduce((own, [named, here]) => own.replaceAll(named, here), block.text);
  switch (block.language) {
    case "sh":
      for (const line of text.trim().split("\n")) {
        if (/^superchunk serve /.test(line)) servers.push(await startServer(line, world));
        else await mustEnd(line, runProgram("sh", ["-e", "-c", line], { cwd: work, env: world.env }));
      }
      return "done";
    case "json":
      parseContainers(text, "the guide");
      await writeFile(join(work, "my.containers.json"), text);
      return "done";
    case "python":
      return compare(await runPython(text, world), world.close);
    case "js":
      return compare(await runScript(text, id, world), world.close);
    default:
      return `nothing runs ${block.language}`;
  }
}

/** Blocks that end in values end in the first ten of `close`; others end in nothing. */
function compare(printed: string, wanted: string): string {
  return printed === "" || printed === wanted ? "done" : `read ${printed} in place of ${wanted}`;
}

async function mustEnd(what: string, running: ReturnType<typeof runProgram>): Promise<string> {
  const done = await running;
  if (done.code !== 0) throw new Error(`${what}: ${lastLines(done)}`);
  return done.stdout;
}

/** Starts `superchunk serve`; resolves when it prints its address. The port of its address is in the guide. */
function startServer(line: string, { work, env }: World): Promise<() => Promise<void>> {
  const child = spawn("sh", ["-c", `exec ${line}${/--port/.test(line) ? "" : " --port 0"}`], {
    cwd: work,
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
  return new Promise((resolve, reject) => {
    let said = "";
    const hear = (piece: Buffer): void => {
      said += piece.toString();
      if (!/http:\/\/127\.0\.0\.1:\d+/.test(said)) return;
      resolve(async () => {
        child.kill("SIGINT");
        await ended;
      });
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    child.once("close", (code) => reject(new Error(`${line} ended with ${code}: ${said.slice(-300)}`)));
  });
}

/** Runs lines of Python, and prints the values of the last one. */
function runPython(text: string, { python, work, env }: World): Promise<string> {
  const run = [
    "import ast, sys, numpy",
    "body = ast.parse(sys.stdin.read()).body",
    "scope = {}",
    "exec(compile(ast.Module(body[:-1], []), 'guide', 'exec'), scope)",
    "value = eval(compile(ast.Expression(body[-1].value), 'guide', 'eval'), scope)",
    "print(','.join(str(int(each)) for each in numpy.asarray(value)), end='')",
  ].join("\n");
  const options = { input: text, cwd: work, env: { ...env, ...python.env, PYTHONDONTWRITEBYTECODE: "1" } };
  return mustEnd("python", runProgram(python.executable, ["-W", "ignore", "-c", run], options));
}

/** Runs lines of JavaScript as a module, and prints the values that it ends with, if it does. */
async function runScript(text: string, id: number, { node, work, env }: World): Promise<string> {
  const packages: Readonly<Record<string, string>> = {
    "superchunk/node": pathToFileURL(join(repositoryRoot, "build", "src", "node", "index.js")).href,
    "superchunk/zarr": pathToFileURL(join(repositoryRoot, "build", "src", "zarr.js")).href,
    zarrita: import.meta.resolve("zarrita"),
    "node:fs/promises": "node:fs/promises",
  };
  const body = text
    .replace(/ from "([^"]+)";/g, (_, name: string) => ` from ${JSON.stringify(packages[name] ?? name)};`)
    .replace(/^await zarr\.get\(/m, "const { data } = await zarr.get(")
    .trimEnd();
  // Secrets that a guide leaves to its reader.
  const secrets = 'globalThis.accessKeyId = "a";\nglobalThis.secretAccessKey = "b";\n';
  const imports = body.match(/^import .*$/gm) ?? [];
  const rest = body.replace(/^import .*$/gm, "");
  const values = rest.includes("const { data }") ? 'process.stdout.write([...data].join(","));\n' : "";
  const file = join(work, `block-${id}.mjs`);
  // A block that uses another block's imports becomes self-contained.
  const own =
    imports.length > 0
      ? imports
      : [`import { openReferences } from ${JSON.stringify(packages["superchunk/node"])};`];
  await writeFile(file, `${own.join("\n")}\n${secrets}${rest}\n${values}`);
  return mustEnd("node", runProgram(node.program, [...node.args, file], { cwd: work, env }));
}

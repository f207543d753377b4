/** The examples of every command's help run as printed, each on its own files. */
import { type ChildProcess, spawn } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { COMMAND_NAMES } from "../../cli/command-list.ts";
import { S3Store } from "../../src/node/index.ts";
import { temporaryFolder } from "../folder.ts";
import { setEnvironment, startS3, type TestS3 } from "../node/s3/server.ts";
import { sweep } from "../scope.ts";
import { serveObjects, type TestServer } from "../store/server.ts";
import { buildPackage } from "./built.ts";
import { clearTargets, makeWorld } from "./example-world.ts";
import { runCli } from "./harness.ts";

const names = COMMAND_NAMES;
const examples: (readonly [name: string, line: string])[] = [];
for (const name of names) {
  const { out } = await runCli([name, "--help"]);
  const lines = out.split("\n").filter((line) => /^ {2}(?:.*\| )?superchunk /.test(line));
  for (const line of lines) examples.push([name, line.trim()]);
}
/** In `npm test` the first example of each command, because each starts a process. */
const tried = sweep(
  examples,
  examples.filter(([name], i) => examples.findIndex(([of]) => of === name) === i),
);

/** Programs that examples name, as far as they matter here. */
const PROGRAMS = {
  sensor: "printf '0123456789abcdef'",
  mysqldump: "printf 'CREATE TABLE shop;'",
  ssh: 'exec sh -c "$2"',
  less: "exec cat",
  "xdg-open": "exit 0",
  curl: "exec cat notes.txt.blp",
  parallel: 'while read -r k; do superchunk run plan.json --task "$k/50" > /dev/null || exit; done',
} as const;

/** Codes that an example may end with other than 0: lost rows; a package that this system cannot load. */
const codesOf = (line: string): readonly number[] =>
  line.startsWith("superchunk repair") ? [0, 3] : /icechunk/.test(line) ? [0, 1] : [0];

let folder: string;
let template: string;
let work: string;
let s3: TestS3;
let web: TestServer;
let redis: ChildProcess | undefined;
let queue: string;
/** Each example has its own queue. */
let databases = 0;
let restoreEnvironment: () => void;

beforeAll(async () => {
  folder = temporaryFolder();
  [template, work] = [join(folder, "template"), join(folder, "work")];
  const bin = join(folder, "bin");
  for (const each of [template, bin]) mkdirSync(each);
  await makeWorld(template);
  const command = await buildPackage(folder);
  const programs = { ...PROGRAMS, superchunk: `exec "${process.execPath}" "${command}" "$@"` };
  for (const [name, script] of Object.entries(programs)) {
    writeFileSync(join(bin, name), `#!/bin/sh\n${script}\n`);
    chmodSync(join(bin, name), 0o755);
  }
  s3 = await startS3();
  restoreEnvironment = setEnvironment(s3);
  const archive = readFileSync(join(template, "prices.blp"));
  await new S3Store({ bucket: s3.bucket, prefix: "bundles" }).put("prices.blp", archive);
  web = await serveObjects([["archive.blp", new Uint8Array(archive)]]);
  await startRedis();
});
afterAll(async () => {
  redis?.kill();
  restoreEnvironment();
  await web.close();
  await s3.close();
});

/** Starts the server of queues, if one is installed; test/interop/queue.ts always has one. */
async function startRedis(): Promise<void> {
  const port = new URL(web.url).port;
  queue = `redis://127.0.0.2:${port}`;
  const settings = ["--port", port, "--bind", "127.0.0.2", "--save", "", "--dir", folder];
  const child = spawn("redis-server", settings, { stdio: ["ignore", "pipe", "ignore"] });
  redis = await new Promise((resolve) => {
    child.once("error", () => resolve(undefined));
    child.once("close", () => resolve(undefined));
    child.stdout.on("data", (piece: Buffer) => {
      if (/Ready to accept connections/.test(piece.toString())) resolve(child);
    });
  });
}

/** The line with this machine's places instead of those that it names. */
function localLine(line: string): string {
  const open = line.startsWith("superchunk serve") && !line.includes("--port") ? `${line} --port 0` : line;
  const ending =
    open.startsWith("superchunk work") && !open.includes("--until-empty") ? `${open} --until-empty` : open;
  // What is created is not in the way of other examples.
  const bucket = line.startsWith("superchunk create") ? `${s3.bucket}/new` : s3.bucket;
  return ending
    .replaceAll("redis://queue.example:6379", () => `${queue}/${databases++ % 16}`)
    .replaceAll("https://example.org/archive.blp", `${web.url}/archive.blp`)
    .replaceAll("s3://bucket/", `s3://${bucket}/`)
    .replace(/([ =])\/data\//g, `$1${work}/data/`)
    .replace("--port 9000", "--port 0");
}

/** True if a line has a name of the world as a part of one of its paths. */
function isNamed(name: string, line: string): boolean {
  return line.split(/[\s"/=]+/).includes(name);
}

/** Runs a line in the shell; `serve` and `view` are interrupted once they serve, and `work` if it waits for its server. */
function runShell(line: string): Promise<{ code: number | null; text: string }> {
  const path = [join(folder, "bin"), dirname(process.execPath), process.env["PATH"]].join(delimiter);
  const child = spawn("sh", ["-c", /^superchunk (?:serve|view|work)/.test(line) ? `exec ${line}` : line], {
    cwd: work,
    env: { ...process.env, PATH: path },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let text = "";
  const hear = (piece: Buffer): void => {
    text += piece.toString();
    if (/Ctrl-C ends it|waiting for it/.test(text)) child.kill("SIGINT");
  };
  child.stdout.on("data", hear);
  child.stderr.on("data", hear);
  return new Promise((resolve) => child.once("close", (code) => resolve({ code, text })));
}

describe.skipIf(process.platform === "win32")("the help", () => {
  it.each(names)("of %s has examples that fit a terminal", async (name) => {
    expect(examples.filter(([of]) => of === name).length).toBeGreaterThan(0);
    const { out } = await runCli([name, "--help"]);
    const isExample = (line: string): boolean => examples.some(([, each]) => each === line.trim());
    expect(out.split("\n").filter((line) => line.length > 80 && !isExample(line))).toEqual([]);
  });

  it.each(tried)("of %s: %s", async (name, line) => {
    rmSync(work, { recursive: true, force: true });
    const local = localLine(line);
    mkdirSync(work);
    // Only what the line names (for containers and lists also what they refer to): copying everything takes longer than
    // the example.
    for (const each of readdirSync(template))
      if (isNamed(each, local) || name === "containers" || local.includes("list.txt"))
        cpSync(join(template, each), join(work, each), { recursive: true });
    if (name === "columns")
      cpSync(join(template, "noted.bcolz"), join(work, "trades.bcolz"), { recursive: true });
    const words = Array.from(local.matchAll(/"([^"]*)"|(\S+)/g), ([, quoted, plain = ""]) => quoted ?? plain);
    const own = words.slice(words.indexOf("superchunk") + 2);
    const end = own.findIndex((word) => /^(?:--|[|>])/.test(word));
    clearTargets(name, own.slice(0, end < 0 ? own.length : end), work);
    const before = process.cwd();
    process.chdir(work);
    try {
      if (name === "work" && redis === undefined)
        return expect(await runShell(local)).toEqual({
          code: 130,
          text: expect.stringContaining("cannot be reached"),
        });
      if (name !== "create" && local.includes("ticks")) {
        const made = ["create", "ticks", "--dtype", "<f8", "--shape", "3000", "--superchunklen", "4"];
        const settings = ["--chunklen", "100", "--place-by", "tier", "--place", `cold=${work}/data/ticks`];
        expect((await runCli([...made, ...settings])).code).toBe(0);
      }
      if (name === "unlink") expect((await runCli(["link", "prices"])).code).toBe(0);
      const first = words.slice(1).filter((word) => word !== "--verify-only");
      if (line.includes("--verify-only")) expect((await runCli(first)).code).toBe(0);
      const inShell = /[|>]/.test(local.replace(/"[^"]*"/g, "")) || name === "serve" || name === "view";
      if (inShell) {
        const { code, text } = await runShell(local);
        expect([code, text]).toEqual([0, expect.not.stringContaining("superchunk: internal")]);
      } else {
        const { code, err } = await runCli(words.slice(1));
        if (line.includes("redis://") && redis === undefined)
          return expect([code, err]).toEqual([1, expect.stringContaining("the queue's server fails")]);
        expect([codesOf(line).includes(code), code, code === 0 ? "" : err]).toEqual([
          true,
          code,
          code === 1
            ? expect.stringMatching(/icechunk/i)
            : code === 3
              ? expect.stringMatching(/rows now|bytes now|--holes/)
              : "",
        ]);
      }
    } finally {
      process.chdir(before);
    }
  });
});

/** The command as a separate process: pipes, signals, exit codes as a shell sees them. */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import {
  copyFileSync,
  cpSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { beforeAll, describe, expect, it } from "vitest";
import { corpusFolder } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";
import { sweep } from "../scope.ts";
import { buildPackage } from "./built.ts";
import { runCli } from "./harness.ts";

/** Several threads, each of which takes long to start. */
const JOBS = sweep("4", "2");

let folder: string;
let main: string;

beforeAll(async () => {
  folder = temporaryFolder();
  main = await buildPackage(folder);
});

function start(...argv: string[]): ChildProcessWithoutNullStreams {
  return startNode([main, ...argv]);
}

function startNode(argv: readonly string[]): ChildProcessWithoutNullStreams {
  return spawn(process.execPath, argv, { env: { ...process.env, TERM: "xterm" } });
}

interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

async function end(child: ChildProcessWithoutNullStreams): Promise<Ended> {
  let out = "";
  let err = "";
  child.stdout.on("data", (piece) => {
    out += piece;
  });
  child.stderr.on("data", (piece) => {
    err += piece;
  });
  const [code] = (await once(child, "close")) as [number | null];
  return { code, out, err };
}

/** The array `carray/blz-f8` repeated: `times` x 700 rows, its chunk files linked. */
function repeatArray(name: string, times: number): string {
  const source = join(corpusFolder, "carray", "blz-f8");
  const root = join(folder, name);
  cpSync(join(source, "meta"), join(root, "meta"), { recursive: true });
  mkdirSync(join(root, "data"));
  const sizes = JSON.parse(readFileSync(join(root, "meta", "sizes"), "utf8"));
  writeFileSync(
    join(root, "meta", "sizes"),
    JSON.stringify({ ...sizes, shape: [700 * times], nbytes: 5600 * times }),
  );
  for (let i = 0; i < 7; i++)
    copyFileSync(join(source, "data", `__${i}.blp`), join(root, "data", `__${i}.blp`));
  for (let i = 7; i < 7 * times; i++)
    linkSync(join(root, "data", `__${i % 7}.blp`), join(root, "data", `__${i}.blp`));
  return root;
}

describe("the process", () => {
  it("verifies very many archives in several threads, with the same report as one thread", async () => {
    const tree = join(folder, "verified");
    for (let i = 0; i < 170; i++) {
      const name = join(tree, `${i}`.padStart(3, "0"));
      if (i % 2 === 0) cpSync(join(corpusFolder, "bloscpack-3", "array-f8.blp"), `${name}.blp`);
      else cpSync(join(corpusFolder, "carray", "bcolz-f8-chunks"), name, { recursive: true });
      if (i % 40 === 10) truncateSync(`${name}.blp`, 9000);
      if (i % 40 === 20) writeFileSync(`${name}.blp`, "not an archive");
    }
    const alone = await runCli(["verify", tree, "--json", "--jobs", "1"]);
    const together = await end(start("verify", tree, "--json", "--jobs", JOBS));
    expect(together.err).toBe("");
    expect(together.code).toBe(3);
    expect(together.out).toBe(alone.out);
    expect(JSON.parse(together.out).totals.damaged).toBe(8);
  });

  it("converts very many archives in several threads, with the same result for each", async () => {
    const tree = join(folder, "many");
    mkdirSync(tree);
    for (let i = 0; i < 500; i++)
      copyFileSync(join(corpusFolder, "bloscpack-1", "v1-single.blp"), join(tree, `${i}.blp`));
    const destination = join(folder, "many.zarr");
    const { code, out, err } = await end(start("convert", tree, destination, "--jobs", JOBS));
    // Threads that do not start would be reported there.
    expect(err).not.toContain("thread");
    expect(out).toContain("500 archives converted");
    expect(code).toBe(0);
    const made = readdirSync(destination).filter((name) => name !== "zarr.json");
    expect(made.length).toBe(500);
    const stored = new Set(made.map((name) => readFileSync(join(destination, name, "c", "0"), "latin1")));
    expect(stored.size).toBe(1);
    const { consolidated_metadata: all } = JSON.parse(readFileSync(join(destination, "zarr.json"), "utf8"));
    expect(Object.keys(all.metadata).length).toBe(500);
  });

  it("prints results to stdout, nothing to stderr, and ends with 0", async () => {
    const { code, out, err } = await end(start("info", join(corpusFolder, "carray", "blz-f8"), "--json"));
    expect([code, err]).toEqual([0, ""]);
    expect(JSON.parse(out)).toMatchObject({ dialect: "carray", shape: [700] });
  });

  it.each([
    [2, ["info"]],
    [1, ["info", "nothing-of-this-name"]],
    [3, ["verify", join(corpusFolder, "blz-superchunk", "aborted")]],
    [0, ["--version"]],
  ])("ends with %d for %j", async (code, argv) => {
    expect((await end(start(...argv))).code).toBe(code);
  });

  it("ends quietly with success when the reader of its output goes away", async () => {
    const child = start("cat", repeatArray("long", 150));
    let err = "";
    child.stderr.on("data", (piece) => {
      err += piece;
    });
    child.stdout.once("data", () => child.stdout.destroy());
    const [code] = (await once(child, "close")) as [number | null];
    expect([code, err]).toEqual([0, ""]);
  });

  it("prints its version, and ends quietly if nobody reads it", async () => {
    const child = start("--version");
    child.stdout.destroy();
    expect(await end(child)).toMatchObject({ code: 0, err: "" });
  });

  it("ends with 130 on SIGINT", async () => {
    const child = start("cat", repeatArray("stopped", 150));
    child.stdout.once("data", () => child.kill("SIGINT"));
    const { code, err } = await end(child);
    expect([code, err]).toEqual([130, "superchunk: interrupted\n"]);
  });

  it("leaves no temporary file and nothing that looks complete if stopped during a conversion, and --resume continues", async () => {
    const times = sweep(400, 200);
    const source = repeatArray("source", times);
    const all = (times * 7) / 10;
    const target = join(folder, "out.zarr");
    // An observer outside may sleep until everything is done, so the process itself sends the signal once it has begun.
    const watch = join(folder, "watch.mjs");
    writeFileSync(
      watch,
      `import { existsSync } from "node:fs";
       const look = () =>
         existsSync(${JSON.stringify(join(target, "c", "3"))})
           ? process.kill(process.pid, "SIGINT")
           : setImmediate(look).unref();
       look();`,
    );
    const argv = ["convert", source, target, "--chunks-per-shard", "10"];
    const { code, err } = await end(startNode(["--import", pathToFileURL(watch).href, main, ...argv]));
    expect([code, err]).toEqual([
      130,
      "superchunk: interrupted; run the same command with --resume to continue\n",
    ]);
    const shards = readdirSync(join(target, "c"));
    expect(shards.length).toBeLessThan(all);
    expect(shards.every((name) => /^\d+$/.test(name))).toBe(true);
    expect(readdirSync(target).sort()).toEqual([".superchunk-convert.json", "c"]);
    const resumed = await runCli([...argv, "--resume", "--verify", "--json"]);
    expect(resumed.code).toBe(0);
    const result = JSON.parse(resumed.out);
    expect(result).toMatchObject({ shards: all, verified: true });
    expect(result.shardsKept).toBeGreaterThanOrEqual(shards.length);
    expect(result.chunksCopied).toBe(10 * (all - result.shardsKept));
  });

  it("reads an archive over HTTP with range requests", async () => {
    const bytes = readFileSync(join(corpusFolder, "bloscpack-3", "array-f8.blp"));
    const server = createServer((request, response) => {
      const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "");
      const [from, to] =
        range === null
          ? [0, bytes.length - 1]
          : [Number(range[1]), Math.min(Number(range[2]), bytes.length - 1)];
      const part = bytes.subarray(from, to + 1);
      const headers = { "accept-ranges": "bytes", "content-length": part.length, etag: '"1"' };
      if (range === null) response.writeHead(200, headers);
      else response.writeHead(206, { ...headers, "content-range": `bytes ${from}-${to}/${bytes.length}` });
      response.end(request.method === "HEAD" ? undefined : part);
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    try {
      const { code, out, err } = await end(
        start("cat", `http://127.0.0.1:${port}/x/array-f8.blp`, "--slice", ":2", "--format", "json"),
      );
      expect([code, err]).toEqual([0, ""]);
      expect(JSON.parse(out)).toEqual([1.5484064169080625, "NaN"]);
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });
});

it("an unknown option that is the name of a file says how to write its path", async () => {
  const own = temporaryFolder();
  writeFileSync(join(own, "-f.blp"), "");
  const { code, err } = await end(spawn(process.execPath, [main, "info", "-f.blp"], { cwd: own }));
  const expected = 'superchunk: unknown option "-f.blp". For the path of that name, write ./-f.blp\n';
  expect([code, err]).toEqual([2, expected]);
});

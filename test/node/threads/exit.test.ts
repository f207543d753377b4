/** Programs that used threads exit on their own, also as bundles. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { build } from "esbuild";
import { afterAll, beforeAll, expect, it } from "vitest";
import { temporaryFolder } from "../../folder.ts";
import { sweep } from "../../scope.ts";
import { SHAPE, writeRamp } from "./archives.ts";
import { type Bundles, bundle } from "./bundle.ts";

const run = promisify(execFile);

const PREAMBLE = `
  import { open } from "../archive/open/open.ts";
  import { callingThread } from "../archive/read/chunk-fetch.ts";
  import { FileStore } from "./fs/fs-store.ts";
  import { threadDecoder } from "./threads/thread-decoder.ts";
  import { WorkerPool } from "./threads/worker-pool.ts";
  const pool = new WorkerPool(2, new URL("./chunk-worker.js", import.meta.url));
  const tuning = { worthStarting: 0, worthUsing: 0, jobBytes: 100000, directJobBytes: 100000, minJobBytes: 0 };
  const decoder = threadDecoder(pool, "wasm", callingThread, tuning);
  const archive = await open(new FileStore(process.argv[2] ?? ""), "", { decoder });
`;

const PROGRAMS = {
  "whole.js": `${PREAMBLE}
    const { chunks } = await archive.verify();
    console.log(chunks, pool.isRunning);`,
  "stopped.js": `${PREAMBLE}
    for await (const piece of archive.streamBytes()) { console.log(piece.length, pool.isRunning); break; }`,
  "left.js": `${PREAMBLE}
    const pieces = archive.streamBytes()[Symbol.asyncIterator]();
    console.log((await pieces.next()).value.length, pool.isRunning);`,
  "ended.js": `${PREAMBLE}
    const pieces = archive.streamBytes()[Symbol.asyncIterator]();
    await pieces.next(); // other jobs are under way, and may be answered while the pool ends
    await pool.end();
    console.log("ended", pool.isRunning);`,
  "failed.js": `${PREAMBLE}
    const pieces = archive.streamBytes()[Symbol.asyncIterator]();
    await pieces.next();
    console.log("thrown", pool.isRunning);
    throw new Error("on purpose");`,
};

let bundles: Bundles;
let folder: string;
let ramp: string;

beforeAll(async () => {
  bundles = await bundle(PROGRAMS);
  folder = temporaryFolder();
  ramp = await writeRamp(join(folder, "ramp"));
});

afterAll(async () => {
  await bundles.remove();
});

/** Runs a program; kills it, and so fails, if it does not exit on its own. */
function start(name: string): Promise<{ stdout: string; stderr: string }> {
  return run(process.execPath, [join(bundles.folder, name), ramp], {
    timeout: 600_000,
    killSignal: "SIGKILL",
  });
}

it("the process exits after everything was read", async () => {
  expect((await start("whole.js")).stdout).toBe(`${SHAPE.nchunks} true\n`);
});

it("the process exits after a loop that was left early", async () => {
  expect((await start("stopped.js")).stdout).toBe(`${SHAPE.chunkItems * 8} true\n`);
});

it("the process exits with an abandoned iteration", async () => {
  expect((await start("left.js")).stdout).toBe(`${SHAPE.chunkItems * 8} true\n`);
});

it("the process does not exit before the threads have ended, if the caller waits for that", async () => {
  for (let i = 0; i < sweep(8, 1); i++) expect((await start("ended.js")).stdout).toBe("ended false\n");
});

it("the process exits with an uncaught exception, and its exit code", async () => {
  await expect(start("failed.js")).rejects.toMatchObject({ code: 1, stdout: "thrown true\n" });
});

it("a bundle of CommonJS, in which threads have no file, works in the calling thread, and a warning says so", async () => {
  const folder = temporaryFolder();
  const outfile = join(folder, "program.cjs");
  const contents = `
    import { convert, create, openArray } from "./index.ts";
    const [array, copy] = ["array", "copy.zarr"].map((name) => process.argv[2] + "/" + name);
    (async () => {
      const data = Int32Array.from({ length: 2_000_000 }, (_, i) => i);
      await (await create(array, { dtype: "<i4", data, threads: 2 })).close();
      await convert(array, copy, { verify: true, threads: 2 });
      const made = await openArray(copy, { threads: 2 });
      const values = (await made.get()).data;
      await made.close();
      console.log(values.length, values.at(-1));
    })();`;
  await build({
    stdin: { contents, resolveDir: join(import.meta.dirname, "../../../src/node"), loader: "ts" },
    external: ["koffi", "@aws-sdk/*", "@google-cloud/*", "@azure/*", "@earthmover/*"],
    outfile,
    bundle: true,
    format: "cjs",
    platform: "node",
    logLevel: "error",
  });
  const { stdout, stderr } = await run(process.execPath, [outfile, folder]);
  expect(stdout).toBe("2000000 1999999\n");
  expect(stderr).toContain("superchunk works in the calling thread alone: its worker threads do not start");
});

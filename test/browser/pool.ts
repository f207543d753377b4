/** A pool of workers in Chromium: what remains for the main thread, memory, policies, other origins, service workers. */

import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser, Page } from "playwright-core";
import { encode } from "superchunk/blosc";
import { repositoryRoot } from "../fixtures/manifest.ts";
import { serveObjects, type TestServer } from "../store/server.ts";
import { PATIENCE } from "./driven.ts";
import type { Outcome } from "./outcome.ts";

const GIGABYTE = 1 << 30;
/** Milliseconds of processor time: by the clock a task also seems long when others use the processor. */
const MOST_TASK = 50;
const ARRAYS = 20;
const MOST_MEMORY = 100e6;

/** Policies by the name of the page that has them. */
const POLICIES: Readonly<Record<string, string>> = {
  "pool.html": "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'",
  // The worker has its own policy: the one that its file is sent with.
  "strict.html": "default-src 'none'; script-src 'self'; connect-src 'self'",
  "no-workers.html":
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'; worker-src 'none'",
};

/** The worker's script, as the package has it. */
export async function buildWorker(): Promise<Uint8Array> {
  const { buildPoolWorker } = await import(
    pathToFileURL(join(repositoryRoot, "scripts", "build-pool-worker.mjs")).href
  );
  return (await buildPoolWorker()) as Uint8Array;
}

/** Serves what the pages load; `bundle` makes a script of a file of this folder. */
export async function startPoolServer(bundle: (entry: string) => Promise<Uint8Array>): Promise<TestServer> {
  const server = await serveObjects([
    ["pool-page.js", await bundle("pool-page.ts")],
    ["pool-service.js", await bundle("pool-service.ts")],
    ["blosc-worker.js", await buildWorker()],
    ["chunk.blosc", await encode(new Uint8Array(5000), { typesize: 4 })],
  ]);
  server.intercept = (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://host");
    const name = pathname.split("/").at(-1) ?? "";
    response.setHeader("access-control-allow-origin", "*");
    response.setHeader("cross-origin-resource-policy", "cross-origin");
    response.setHeader("cross-origin-embedder-policy", "require-corp");
    response.setHeader("cross-origin-opener-policy", "same-origin");
    if (name.endsWith(".js")) response.setHeader("content-type", "text/javascript");
    if (name === "blosc-worker.js")
      response.setHeader("content-security-policy", "script-src 'self' 'wasm-unsafe-eval'");
    if (!name.endsWith(".html")) return false;
    const policy = POLICIES[name];
    if (policy !== undefined) response.setHeader("content-security-policy", policy);
    const script = searchParams.get("script") ?? "pool-page.js";
    response
      .setHeader("content-type", "text/html")
      .end(`<!doctype html><title>pool</title><script type="module" crossorigin src="${script}"></script>`);
    return true;
  };
  return server;
}

/** All of it. `npm run bench -- page` measures how fast one and two workers are. */
export async function checkPool(
  browser: Browser,
  bundle: (entry: string) => Promise<Uint8Array>,
  outcome: Outcome,
): Promise<void> {
  const server = await startPoolServer(bundle);
  const other = await startPoolServer(bundle);
  const open = async (name: string): Promise<Page> => {
    const page = await browser.newPage();
    page.setDefaultTimeout(PATIENCE.timeout);
    await page.goto(`${server.url}/${name}`);
    await page.waitForFunction(() => window.poolTest !== undefined);
    return page;
  };
  try {
    await outcome.attempt("a gigabyte through the pool", async () => {
      const page = await open("pool.html");
      await checkMainThread(browser, page, outcome);
      await page.close();
    });
    await outcome.attempt("memory of arrays", async () => {
      const page = await open("pool.html");
      const bytes = await page.evaluate((count) => window.poolTest.memoryOfArrays(count), ARRAYS);
      console.log(`pool: ${ARRAYS} arrays open, ${(bytes / 1e6).toFixed(1)} MB`);
      outcome.expect(`${ARRAYS} arrays take less than ${MOST_MEMORY} bytes`, bytes < MOST_MEMORY, true);
      await page.close();
    });
    await outcome.attempt("failures", async () => {
      const page = await open("pool.html");
      outcome.expect("failures come through a pool", await page.evaluate(() => window.poolTest.failures()), [
        "TRUNCATED",
        "Error: scrolled away",
        "BAD_ARGUMENT",
        "1048576 bytes, 0 left",
        "zstd",
      ]);
      outcome.expect(
        "a service worker decodes",
        await page.evaluate(() => window.poolTest.tryServiceWorker()),
        true,
      );
      await page.close();
    });
    for (const [name, expected] of [
      ["pool.html", { pool: "5000 bytes", here: "5000 bytes" }],
      ["strict.html", { pool: "5000 bytes", here: "UNSUPPORTED" }],
      ["no-workers.html", { pool: "IO", here: "5000 bytes" }],
      // A script of another origin: a worker starts through a script that the page makes.
      [`free.html?script=${other.url}/pool-page.js`, { pool: "5000 bytes", here: "5000 bytes" }],
    ] as const)
      await outcome.attempt(name, async () => {
        const page = await open(name);
        outcome.expect(name, await page.evaluate(() => window.poolTest.tryPool()), expected);
        await page.close();
      });
  } finally {
    await server.close();
    await other.close();
  }
}

/** The used fields of a trace event; times in microseconds. */
interface TraceEvent {
  readonly name: string;
  readonly pid: number;
  readonly tid: number;
  readonly ts: number;
  /** Processor time. */
  readonly tdur?: number;
  readonly args?: { readonly name?: string };
}

/** Categories of a trace that {@link tasksOf} reads. */
export const TRACED = ["toplevel", "blink.user_timing", "__metadata"];

/** The tasks of the page's process between its two marks: the name of their thread, and their processor time in milliseconds. */
export function tasksOf(
  trace: Buffer,
): { readonly thread: string; readonly isMain: boolean; readonly took: number }[] {
  const { traceEvents } = JSON.parse(trace.toString()) as { traceEvents: readonly TraceEvent[] };
  const [begin, end] = ["pool begins", "pool ends"].map((mark) =>
    traceEvents.find(({ name }) => name === mark),
  );
  if (begin === undefined || end === undefined) throw new Error("the trace has no marks");
  const own = traceEvents.filter(({ pid }) => pid === begin.pid);
  const threads = new Map(
    own.filter(({ name }) => name === "thread_name").map(({ tid, args }) => [tid, args?.name]),
  );
  return own
    .filter(({ name, ts }) => /RunTask$/.test(name) && ts > begin.ts && ts < end.ts)
    .map(({ tid, tdur = 0 }) => ({
      thread: threads.get(tid) ?? "",
      isMain: tid === begin.tid,
      took: tdur / 1000,
    }));
}

async function checkMainThread(browser: Browser, page: Page, outcome: Outcome): Promise<void> {
  const read = (workers: number, total: number) =>
    page.evaluate(([count, bytes]) => window.poolTest.read(count, bytes), [workers, total] as const);
  await browser.startTracing(page, { categories: TRACED });
  const { bytes, same, took, longTasks } = await read(2, GIGABYTE);
  const tasks = tasksOf(await browser.stopTracing()).filter(({ isMain }) => isMain);
  const [count, longest] = [tasks.length, Math.max(0, ...tasks.map((task) => task.took))];
  console.log(
    `pool: 1 GiB in ${(took / 1000).toFixed(2)} s; ${count} tasks of the main thread, ${longest} ms of the processor at most, ${longTasks.length} over 50 ms by the clock`,
  );
  outcome.expect("a gigabyte through the pool", [bytes, same], [GIGABYTE, true]);
  outcome.expect(`enough tasks of the main thread (${count})`, count > 100, true);
  outcome.expect(`the longest task of the main thread, ${longest} ms`, longest <= MOST_TASK, true);
}

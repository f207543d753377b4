/**
 * What `npm run bench -- page` measures in Chromium: the first pixels of a terabyte on another server, frames of a
 * map of a million chunks, and how fast a pool decodes for zarrita with one worker and with two.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Browser, chromium } from "playwright-core";
import { serveView } from "superchunk/node";
import { corpusFolder, repositoryRoot } from "../fixtures/manifest.ts";
import { bundlePage, FLAGS, findChromium } from "./chromium.ts";
import { startPoolServer, TRACED, tasksOf } from "./pool.ts";
import { serveVast, showVast } from "./vast.ts";

/** Rounds of each measurement, of which the median counts. */
const ROUNDS = Number(process.env["BENCH_ROUNDS"] ?? 5);
const CHUNKS = 1_000_000;
/** Frames of each movement of the map. */
const FRAMES = 120;
/** Bytes that each round of a pool decodes. */
const POOL_BYTES = Number(process.env["BENCH_POOL_BYTES"] ?? 1 << 30);

/** Numbers by their names; times in milliseconds, speeds in GB/s. */
export type Figures = Readonly<Record<string, number>>;

/** Measures what is named: `pixels`, `frames`, `pool`; everything without names. */
export async function measure(names: readonly string[]): Promise<Readonly<Record<string, Figures>>> {
  const executablePath = findChromium();
  if (executablePath === undefined) throw new Error("no Chromium found; name it in CHROMIUM");
  const measures = { pixels, frames, pool } as const;
  const found: Record<string, Figures> = {};
  for (const [name, work] of Object.entries(measures)) {
    if (names.length > 0 && !names.includes(name)) continue;
    const browser = await chromium.launch({ executablePath, args: [...FLAGS] });
    try {
      found[name] = await work(browser);
    } finally {
      await browser.close();
    }
  }
  return found;
}

/**
 * From the start of the navigation to the frame that shows the first values, each time in a browser profile without
 * a cache.
 */
async function pixels(browser: Browser): Promise<Figures> {
  // The archives served with the page are not used.
  const served = await serveView(join(corpusFolder, "bloscpack-3", "array-f8.blp"), { page: "only" });
  const server = await serveVast();
  const figures: Record<string, number> = {};
  try {
    for (const name of ["vast.bcolz", "vast.zarr"]) {
      const times: number[] = [];
      const counts: number[] = [];
      for (let round = 0; round <= ROUNDS; round++) {
        const shown = await showVast(browser, served.url, server, [name, "values", ".cells td"]);
        await shown.page.close();
        if (round === 0) continue; // the browser itself warms up
        times.push(shown.took);
        counts.push(shown.requests);
      }
      figures[`${name}, ms`] = quantile(times, 0.5);
      figures[`${name}, requests`] = Math.max(...counts);
    }
    return figures;
  } finally {
    await server.close();
    await served.close();
  }
}

declare global {
  interface Window {
    /** Milliseconds that scripts took in each frame. */
    scripted: number[];
  }
}

/** Adds up what the callbacks of each frame take. */
function watchFrames(): void {
  window.scripted = [];
  let last = -1;
  const request = window.requestAnimationFrame.bind(window);
  window.requestAnimationFrame = (callback) =>
    request((at) => {
      const begin = performance.now();
      callback(at);
      const took = performance.now() - begin;
      if (at === last) window.scripted.push((window.scripted.pop() ?? 0) + took);
      else window.scripted.push(took);
      last = at;
    });
}

/** Times from frame to frame while the map of a million chunks is scrolled and zoomed. */
async function frames(browser: Browser): Promise<Figures> {
  const folder = mkdtempSync(join(tmpdir(), "superchunk-frames-"));
  try {
    writeFileSync(join(folder, "raw"), new Uint8Array(8 * CHUNKS));
    const command = ["compress", "-z", "8", "-k", "None", "raw", "million.blp"];
    execFileSync(process.execPath, [join(repositoryRoot, "build", "cli", "main.js"), ...command], {
      cwd: folder,
      stdio: "ignore",
    });
    rmSync(join(folder, "raw"));
    const served = await serveView(folder, { page: "only" });
    try {
      const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
      await page.addInitScript(watchFrames);
      await page.goto(`${served.url}#archive=million.blp&view=chunks`);
      await page.waitForSelector(`[data-listed="${CHUNKS}"]`, { timeout: 120_000 });
      await page.waitForSelector("[data-checked]", { timeout: 120_000 });
      const run = (kind: "pan" | "zoom") =>
        page.evaluate(
          async ([what, count]) => {
            const map = document.querySelector(".map") as HTMLElement;
            const press = (label: string): void =>
              (document.querySelector(`button[aria-label="${label}"]`) as HTMLElement).click();
            const frame = () => new Promise<number>((resolve) => requestAnimationFrame(resolve));
            for (let i = 0; i < 4; i++) press("Larger cells");
            await frame();
            const deltas: number[] = [];
            let last = await frame();
            window.scripted.length = 0;
            for (let i = 0; i < count; i++) {
              if (what === "pan") map.scrollTop += i < count / 2 ? 97 : -53;
              else press(i % 16 < 8 ? "Larger cells" : "Smaller cells");
              const now = await frame();
              deltas.push(now - last);
              last = now;
            }
            const scripted = [...window.scripted];
            press("Fit all cells");
            await frame();
            return { deltas, scripted };
          },
          [kind, FRAMES] as const,
        );
      const figures: Record<string, number> = {};
      for (const kind of ["pan", "zoom"] as const) {
        await run(kind);
        const { deltas, scripted } = await run(kind);
        figures[`${kind}: frame to frame, ms`] = quantile(deltas, 0.5);
        figures[`${kind}: the slowest of twenty, ms`] = quantile(deltas, 0.95);
        figures[`${kind}: scripts in a frame, ms`] = quantile(scripted, 0.5);
        figures[`${kind}: scripts, the slowest of twenty, ms`] = quantile(scripted, 0.95);
      }
      return figures;
    } finally {
      await served.close();
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * zarrita reads an array through pools with no worker, one and two, in turns: slices, whose chunks it copies into one result, and single
 * chunks. Then the pool alone decodes as much, while the main thread only passes messages on. The processor times of the threads limit how much two workers can gain on two processors.
 */
async function pool(browser: Browser): Promise<Figures> {
  const server = await startPoolServer(bundlePage);
  try {
    const page = await browser.newPage();
    await page.goto(`${server.url}/pool.html`);
    await page.waitForFunction(() => window.poolTest !== undefined);
    const figures: Record<string, number> = {};
    for (const cname of ["lz4", "zstd"] as const)
      for (const [what, how] of [
        ["zarrita, slices of 16 chunks", "read"],
        ["zarrita, chunk by chunk", "readChunks"],
        ["pool alone", "decode"],
      ] as const) {
        const run = (workers: number) =>
          page.evaluate(([count, bytes, name, call]) => window.poolTest[call](count, bytes, name), [
            workers,
            POOL_BYTES,
            cname,
            how,
          ] as const);
        const label = `${cname}, ${what}`;
        const rates: [number[], number[], number[]] = [[], [], []];
        for (let round = 0; round < ROUNDS; round++)
          for (const [workers, found] of rates.entries()) {
            const { bytes, took } = await run(workers);
            found.push(bytes / took / 1e6);
          }
        for (const [workers, found] of rates.entries())
          figures[`${label}: ${workers} workers, GB/s`] = quantile(found, 0.5);
        const [, one, two] = rates;
        figures[`${label}: two workers to one`] = quantile(
          two.map((rate, i) => rate / (one[i] ?? Number.NaN)),
          0.5,
        );
        await browser.startTracing(page, { categories: TRACED });
        await run(1);
        const tasks = tasksOf(await browser.stopTracing());
        const seconds = (of: typeof tasks): number =>
          (of.reduce((sum, { took }) => sum + took, 0) / 1000) * (2 ** 30 / POOL_BYTES);
        const main = seconds(tasks.filter(({ isMain }) => isMain));
        const worker = seconds(tasks.filter(({ thread }) => thread.startsWith("DedicatedWorker")));
        const all = seconds(tasks);
        figures[`${label}: processor time of the main thread, s/GiB`] = main;
        figures[`${label}: of the worker, s/GiB`] = worker;
        figures[`${label}: of all threads, s/GiB`] = all;
        figures[`${label}: two workers to one, at most on two processors`] =
          (2 * Math.max(main, worker)) / all;
      }
    return figures;
  } finally {
    await server.close();
  }
}

function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

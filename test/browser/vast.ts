/** The page on arrays of a terabyte on another server: how many requests show the first values, and how soon. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { repositoryRoot } from "../fixtures/manifest.ts";
import { serveObjects, type TestServer } from "../store/server.ts";
import { comesTrue, PATIENCE } from "./driven.ts";
import type { Outcome } from "./outcome.ts";

/** Values of a chunk, and of the array: a tebibyte of float64. */
const [CHUNK, ROWS] = [131_072, 2 ** 37];
const MOST_REQUESTS = 10;

/** A chunk of each format, used for all chunks, and the documents of an array that has them. */
function makeObjects(): Map<string, Uint8Array> {
  const folder = mkdtempSync(join(tmpdir(), "superchunk-vast-"));
  const superchunk = (...args: readonly string[]): void => {
    const command = [join(repositoryRoot, "build", "cli", "main.js"), ...args];
    execFileSync(process.execPath, command, { cwd: folder, stdio: "ignore" });
  };
  try {
    const values = Float64Array.from({ length: CHUNK }, (_, i) => i / 4);
    writeFileSync(join(folder, "values.raw"), new Uint8Array(values.buffer));
    const made = ["--from", "values.raw", "--dtype", "<f8", "--shape", "-1", "--chunklen", String(CHUNK)];
    superchunk("create", "vast.bcolz", "--as", "carray", ...made);
    superchunk("convert", "vast.bcolz", "vast.zarr");
    const read = (name: string): Buffer => readFileSync(join(folder, name));
    const json = (name: string): Record<string, unknown> => JSON.parse(read(name).toString());
    const text = (value: object): Buffer => Buffer.from(JSON.stringify(value));
    return new Map([
      ["vast.bcolz/meta/sizes", text({ ...json("vast.bcolz/meta/sizes"), shape: [ROWS], nbytes: 8 * ROWS })],
      ["vast.bcolz/meta/storage", read("vast.bcolz/meta/storage")],
      ["vast.bcolz/__attrs__", read("vast.bcolz/__attrs__")],
      ["vast.bcolz/data/__0.blp", read("vast.bcolz/data/__0.blp")],
      ["vast.zarr/zarr.json", text({ ...json("vast.zarr/zarr.json"), shape: [ROWS] })],
      ["vast.zarr/c/0", read("vast.zarr/c/0")],
    ]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Serves the arrays, as another server that a page may read: every chunk is the first one. */
export async function serveVast(): Promise<TestServer> {
  const objects = makeObjects();
  const server = await serveObjects(objects);
  const [document, chunk] = ["zarr.json", "c/0"].map((name) => objects.get(`vast.zarr/${name}`));
  const shape = [CHUNK];
  const set = {
    "zarr.json": JSON.stringify({ ...JSON.parse(new TextDecoder().decode(document)), shape }),
    "c/0": [`${server.url}/vast.zarr/c/0`, 0, chunk?.length],
  };
  objects.set("set.json", new TextEncoder().encode(JSON.stringify({ version: 1, refs: set })));
  server.intercept = (request, response) => {
    const key = decodeURIComponent(request.url ?? "").replace("/base dir/", "");
    response.setHeader("access-control-allow-origin", "*");
    response.setHeader("access-control-expose-headers", "ETag, Content-Range");
    const bytes = objects.get(key.replace(/(__|c\/)\d+/, (_, name: string) => `${name}0`));
    if (bytes !== undefined) server.objects.set(key, bytes);
    return false;
  };
  return server;
}

declare global {
  interface Window {
    /** Milliseconds from the start of the navigation to the frame with the awaited element. */
    shownAt?: number;
  }
}

/** Records when the first value of a table, or what a selector names, was painted. */
function watchFor(selector: string): void {
  const isThere = (): boolean =>
    [...document.querySelectorAll(selector)].some(
      (found) => !found.matches(".cells td") || /\d/.test(found.textContent ?? ""),
    );
  const watcher = new MutationObserver(() => {
    if (!isThere()) return;
    watcher.disconnect();
    requestAnimationFrame(() => {
      // A message is delivered after the frame is painted.
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => {
        window.shownAt = performance.now();
      };
      port2.postMessage("");
    });
  });
  watcher.observe(document, { subtree: true, childList: true, characterData: true });
}

/** Opens an array of `server` in the page that `url` serves; resolves once `ready` is painted. */
export async function showVast(
  browser: Browser,
  url: string,
  server: TestServer,
  [name, view, ready]: readonly [name: string, view: string, ready: string],
): Promise<{ readonly page: Page; readonly requests: number; readonly took: number }> {
  server.log.length = 0;
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  page.setDefaultTimeout(PATIENCE.timeout);
  await page.addInitScript(watchFor, ready);
  await page.goto(`${url}?url=${encodeURIComponent(`${server.url}/${name}`)}#archive=${name}&view=${view}`);
  await page.waitForFunction(() => window.shownAt !== undefined, undefined, PATIENCE);
  const requests = server.log.length;
  return { page, requests, took: await page.evaluate(() => window.shownAt ?? Number.NaN) };
}

/** Checks the views of a page that `url` serves, on arrays of another server. */
export async function checkVast(browser: Browser, url: string, outcome: Outcome): Promise<void> {
  const server = await serveVast();
  try {
    for (const name of ["vast.bcolz", "vast.zarr"])
      for (const [view, ready] of [
        ["values", ".cells td"],
        ["values&row=137438900000", ".cells td"],
        ["overview", ".snippet"],
        ["chunks", "[data-listed]"],
      ] as const) {
        const { page, requests, took } = await showVast(browser, url, server, [name, view, ready]);
        console.log(`  ${name}, 1 TiB, ${view}: ${requests} requests, painted after ${took.toFixed(0)} ms`);
        outcome.expect(
          `requests for ${view} of ${name} (${requests}), at most ${MOST_REQUESTS}`,
          requests <= MOST_REQUESTS,
          true,
        );
        if (view.startsWith("values")) {
          const cell = await page.evaluate(() => document.querySelector(".cells td")?.textContent);
          const row = Number((/\d+$/.exec(view) ?? ["0"])[0]);
          outcome.expect(`the first value of ${view} of ${name}`, Number(cell), (row % CHUNK) / 4);
        }
        if (view === "chunks") {
          // Its parts use the same worker, which must not run twice.
          await page.getByRole("tab", { name: "Values" }).click();
          const isShown = await comesTrue(
            page,
            () => document.querySelector(".cells td:not(.bad)")?.textContent === "0",
          );
          outcome.expect(`values of ${name} after its chunks`, isShown, true);
        }
        await page.close();
      }
    // References to objects of the same server.
    const { page } = await showVast(browser, url, server, ["set.json", "values&row=5", ".cells td"]);
    const cell = await page.evaluate(() => document.querySelector(".cells td")?.textContent);
    outcome.expect("a value that is referred to", Number(cell), 5 / 4);
    await page.close();
  } finally {
    await server.close();
  }
}

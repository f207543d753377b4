/** What the page loads, compressed, for each of its views; and its requests for an archive. */
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import type { Browser } from "playwright-core";
import { serveView } from "superchunk/node";
import { newPage, PATIENCE } from "./driven.ts";
import type { Outcome } from "./outcome.ts";

/**
 * Bytes of scripts and markup, and requests for the archive until its first values are there, at most. This page is
 * the development build, in about 40 files; the published one has 13, which compress to 4 kB less.
 */
const MOST_BYTES = 150_000;
const MOST_REQUESTS = 10;
/** Views, and what is present once they are shown. */
const VIEWS = [
  ["daily.bcolz&column=close&view=values", ".cells td:text-matches('[0-9]')"],
  ["daily.bcolz&view=values&statistics=open", "[data-column=id][data-counted]"],
  ["daily.bcolz&column=close&view=chunks", "[data-checked]"],
  ["daily.bcolz&view=plot", "[data-counted]"],
  ["summed&view=chunks", "[data-checked]"],
  ["summed&view=plot", "[data-counted]"],
  ["cube&view=picture", "[data-drawn]"],
] as const;

/**
 * No view of an archive loads more than the page may weigh, from another place, or with an error. Each archive is
 * served on its own: in a folder the page also opens the others, of whatever dialects they are.
 */
export async function checkWeights(browser: Browser, folder: string, outcome: Outcome): Promise<void> {
  for (const [state, ready] of VIEWS) {
    const served = await serveView(join(folder, state.replace(/&.*/, "")), { page: "only" });
    try {
      await checkView(browser, served.url, [state, ready], outcome);
    } finally {
      await served.close();
    }
  }
  const served = await serveView(folder, { page: "only" });
  const { page, requests } = await newPage(browser);
  await page.goto(`${served.url}#archive=prices.blp&view=values`);
  await page.waitForSelector(".cells td:text-matches('[0-9]')", PATIENCE);
  const count = requests.filter((each) => each.includes("/files/0/prices.blp")).length;
  console.log(`  ${count} requests show the first values of a file`);
  outcome.expect(`requests for the first values (${count})`, count <= MOST_REQUESTS, true);
  await page.close();
  await served.close();
}

/** What a view of a served page loads of the page itself: at most this many bytes, from nowhere else, and without an error. */
export async function checkView(
  browser: Browser,
  url: string,
  [state, ready, most = MOST_BYTES]: readonly [state: string, ready: string, most?: number],
  outcome: Outcome,
): Promise<void> {
  const { page, troubles, requests } = await newPage(browser);
  await page.goto(`${url}#archive=${state}`);
  await page.waitForSelector(ready, PATIENCE);
  // What the tree opens afterwards counts too.
  await page.waitForLoadState("networkidle", PATIENCE);
  const own = new Set(requests.filter((each) => each.split("#")[0] === url || each.includes("/page/")));
  let bytes = 0;
  for (const each of own) {
    const answer = await fetch(each, { headers: { accept: "text/html" } });
    bytes += gzipSync(Buffer.from(await answer.arrayBuffer()), { level: 9 }).length;
  }
  console.log(`  ${state}: ${(bytes / 1000).toFixed(1)} kB compressed in ${own.size} files`);
  outcome.expect(`${state} loads ${bytes} bytes, at most ${most}`, bytes > 0 && bytes <= most, true);
  const strangers = requests.filter(
    (each) => !each.startsWith(url) && !each.startsWith("data:") && !each.startsWith("blob:"),
  );
  outcome.expect(`${state}: requests to others`, strangers, []);
  outcome.expect(`${state}: troubles`, troubles, []);
  await page.close();
}

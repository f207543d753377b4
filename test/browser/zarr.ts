/** What a browser makes of archives shown as Zarr: their values, and the page that lists them. */
import type { Browser, Page } from "playwright-core";
import type { ServedView } from "superchunk/node";
import { loadArchives } from "../fixtures/manifest.ts";
import { expectValues } from "../interop/expectations.ts";
import { findRefusal } from "../interop/support.ts";
import type { TestServer } from "../store/server.ts";
import { PATIENCE } from "./driven.ts";
import type { Outcome } from "./outcome.ts";
import type { ZarrNode } from "./page.ts";

/** Minimum number of arrays, so that a loop over none does not pass. */
const LEAST_ARRAYS = 60;

/** Two pages: under a strict policy with this library's Blosc, and without one with zarrita's own. */
export interface Pages {
  readonly strict: Page;
  readonly free: Page;
}

/** Every array that zarrita has a type for: fetched from the server, and through a view that the page makes. */
export async function checkZarr(
  { strict, free }: Pages,
  server: TestServer,
  served: ServedView,
  outcome: Outcome,
): Promise<void> {
  let count = 0;
  for (const row of loadArchives()) {
    if (row.refuse) continue;
    for (const values of expectValues(row, true)) {
      if (findRefusal("zarrita", values) !== undefined) continue;
      const { dtype, node, sha256 } = values;
      const fields = typeof dtype === "string" ? [] : dtype.map(([name]) => name);
      const asked: ZarrNode = {
        path: node,
        isBig: typeof dtype === "string" && dtype.startsWith(">"),
        fields,
      };
      const name = `${row.path} ${node}`;
      count++;
      for (const [page, where] of [
        [strict, "served"],
        [free, "served, zarrita's own Blosc"],
      ] as const)
        await outcome.attempt(`${name}, ${where}`, async () => {
          const found = await page.evaluate(
            ([url, wanted]) => window.superchunkTest.hashServed(url, wanted),
            [`${served.url}${row.path}`, asked] as const,
          );
          outcome.expect(`${name}, ${where}`, found, sha256);
        });
      await outcome.attempt(`${name}, as a view`, async () => {
        const found = await strict.evaluate(
          ([url, path, wanted]) => window.superchunkTest.hashView(url, path, wanted),
          [`${server.url}/corpus`, row.path, asked] as const,
        );
        outcome.expect(`${name}, as a view`, found, sha256);
      });
    }
  }
  outcome.expect(`enough arrays of Zarr (${count})`, count >= LEAST_ARRAYS, true);
}

/** The page for people, in a browser under the policy that it is sent with: links work, and nothing is blocked. */
export async function checkListing(browser: Browser, { url }: ServedView, outcome: Outcome): Promise<void> {
  const page = await browser.newPage();
  page.setDefaultTimeout(PATIENCE.timeout);
  const complaints: string[] = [];
  page.on("console", (message) => complaints.push(message.text()));
  /** A click, and the page that it leads to. */
  const follow = async (link: string, path: string): Promise<void> => {
    await page.click(link);
    await page.waitForURL(`${url}${path}`);
  };
  await page.goto(url);
  await follow('a[href="ctable/"]', "ctable/");
  await follow('a[href="bcolz-daily-equities/"]', "ctable/bcolz-daily-equities/");
  outcome.expect("the heading of a table", await page.textContent("h1"), "bcolz-daily-equities");
  outcome.expect("rows of a table's page", await page.locator("table tr").count(), 8);
  await follow('a[href="close/"]', "ctable/bcolz-daily-equities/close/");
  outcome.expect(
    "what opens an array",
    (await page.textContent("pre"))?.includes(`${url}ctable/bcolz-daily-equities/close`),
    true,
  );
  await follow("nav a >> nth=1", "ctable/");
  outcome.expect("the way back", await page.textContent("h1"), "ctable");
  outcome.expect("complaints of the browser", complaints, []);
  await page.close();
}

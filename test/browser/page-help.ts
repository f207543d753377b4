/** What helps people who do not know the page: errors that say what to do, a list that finds things, and room for fingers. */
import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { serveView } from "superchunk/node";
import { repositoryRoot } from "../fixtures/manifest.ts";
import { comesTrue, newPage, PATIENCE } from "./driven.ts";
import type { Outcome } from "./outcome.ts";

/** Errors name the file and what to do: a file that the server cannot read, an address that no browser reads. */
export async function checkAdvice(browser: Browser, url: string, outcome: Outcome): Promise<void> {
  const { page, requests } = await newPage(browser);
  const file = `${url}__superchunk__/files/0/matrix/data/__1__.bin`;
  await page.route(file, (route) => route.fulfill({ status: 502, body: "{}" }));
  await page.goto(`${url}#archive=matrix`);
  await page.waitForSelector(".bad:has-text('cannot read this file')", PATIENCE);
  const said = (await page.textContent(".bad:has-text('cannot read this file')")) ?? "";
  outcome.expect("the file that cannot be read", said.slice(0, 22), "matrix/data/__1__.bin:");
  outcome.expect("what to do about it", said.includes("reload the page"), true);
  const heads = requests.filter((each) => each === file).length;
  outcome.expect(`requests of a file that cannot be read: ${heads}`, heads <= 4, true);
  await page.goto(`${url}?url=s3://bucket/bars.bcolz`);
  await page.waitForSelector('.bad-note:has-text("superchunk view s3://bucket/bars.bcolz")', PATIENCE);
  await page.goto(`${url}?url=${encodeURIComponent(`${url}__superchunk__/files/0/100%.blp`)}`);
  await page.waitForSelector('.bad-note:has-text("100%.blp: no such file")', PATIENCE);
  await page.close();
}

/** The indexes of PyTables' tables are not listed, whether the file is served or dropped, as `ls` does not list them. */
export async function checkIndexes(browser: Browser, outcome: Outcome): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "superchunk-indexed-"));
  const file = join(folder, "indexed.h5");
  await cp(join(repositoryRoot, "fixtures", "structs", "indexed.h5"), file);
  const served = await serveView(file, { page: "only" });
  const { page, troubles } = await newPage(browser);
  const names = async (): Promise<string[]> => {
    await page.waitForSelector(".members a", PATIENCE);
    return page.locator(".members a").allTextContents();
  };
  await page.goto(`${served.url}#archive=indexed.h5`);
  outcome.expect("what a served file with indexes holds", await names(), ["prices", "Rows"]);
  await page.goto(
    `${served.url}?url=${encodeURIComponent(`${served.url}__superchunk__/files/0/indexed.h5`)}`,
  );
  outcome.expect("what it holds at an address", await names(), ["prices", "Rows"]);
  await page.goto(`${served.url}#archive=none`);
  await page.waitForSelector(".bad-note", PATIENCE);
  await page.setInputFiles("#files", file);
  outcome.expect("what a dropped one holds", await names(), ["prices", "Rows"]);
  outcome.expect("troubles", troubles, []);
  await served.close();
  await page.close();
  await rm(folder, { recursive: true, force: true });
}

/** A search finds columns of archives that were out of sight until then. */
export async function checkSearch(browser: Browser, url: string, outcome: Outcome): Promise<void> {
  const { page, troubles } = await newPage(browser);
  await page.setViewportSize({ width: 1280, height: 240 });
  // At the end of the list, so that tables are out of sight.
  await page.goto(`${url}#archive=wide`);
  await page.waitForSelector(".stored span", PATIENCE);
  await page.keyboard.press("/");
  await page.keyboard.type("volume");
  await page.waitForSelector("#count:text-matches('^2 items of [0-9]+$')", PATIENCE);
  const found = await page
    .locator("#tree > li > a")
    .evaluateAll((all) => all.map((a) => a.querySelector(".name")?.textContent));
  outcome.expect("tables with a column of this name", found, ["broken.bcolz", "daily.bcolz"]);
  outcome.expect("troubles", troubles, []);
  await page.close();
}

/** Drawing a long list takes a small part of the time in which its archives are opened. */
export async function checkLongList(browser: Browser, url: string, outcome: Outcome): Promise<void> {
  const { page, troubles } = await newPage(browser);
  await page.addInitScript(() => {
    const took = { drawing: 0 };
    Object.assign(window, { took });
    const { replaceChildren } = Element.prototype;
    Element.prototype.replaceChildren = function (...content) {
      replaceChildren.apply(this, content);
      if (this.id !== "tree") return;
      // As long as that of a million may take.
      const began = performance.now();
      while (performance.now() < began + 200);
      took.drawing += 200;
    };
  });
  await page.goto(`${url}#archive=cube`);
  await page.waitForSelector(".stored span", PATIENCE);
  const drawn = (): Promise<readonly [drawing: number, now: number]> =>
    page.evaluate(() => [
      (window as unknown as { took: { drawing: number } }).took.drawing,
      performance.now(),
    ]);
  const [before, began] = await drawn();
  await page.fill("#search", "volume");
  await page.waitForSelector("#count:text-matches('of [0-9]+$')", PATIENCE);
  const [after, ended] = await drawn();
  const most = 1000 + (ended - began) / 10;
  outcome.expect(`${after - before} ms of drawing, at most ${most}`, after - before <= most, true);
  outcome.expect("troubles", troubles, []);
  await page.close();
}

/** On a phone the opened list shows the chosen archive, the focus is not lost when it closes, and controls fit a finger. */
export async function checkPhone(browser: Browser, url: string, outcome: Outcome): Promise<void> {
  const { page, troubles } = await newPage(browser, 390);
  await page.setViewportSize({ width: 390, height: 400 });
  await page.goto(`${url}#archive=wide`);
  await page.waitForSelector(".stored span", PATIENCE);
  await page.click("#menu");
  const isSeen = await comesTrue(page, () => {
    const chosen = document.querySelector('#tree [aria-current="true"]')?.getBoundingClientRect();
    return chosen !== undefined && chosen.top > 0 && chosen.bottom <= innerHeight;
  });
  outcome.expect("the chosen archive is seen in the list", isSeen, true);
  await page.focus("#search");
  await page.keyboard.press("Escape");
  outcome.expect("the focus", await page.evaluate(() => document.activeElement?.id), "menu");
  for (const [state, ready] of [
    ["daily.bcolz&view=values", ".cells td"],
    ["daily.bcolz&column=close&view=chunks", "[data-listed]"],
    ["daily.bcolz&view=plot", "[data-plotted]"],
    ["cube&view=picture", "[data-drawn]"],
  ]) {
    await page.goto(`${url}#archive=${state}`);
    await page.waitForSelector(ready ?? "", PATIENCE);
    const small = await page.$$eval(
      "header button, .tabs button, .bar button, .bar select, .bar label",
      (all) =>
        all
          .filter((each) => each.checkVisibility() && each.getBoundingClientRect().height < 36)
          .map((each) => each.outerHTML.slice(0, 60)),
    );
    outcome.expect(`controls that are too low for a finger: ${state}`, small, []);
  }
  outcome.expect("troubles", troubles, []);
  await page.close();
}

/** What is read later has its place: tabs, and what is below them, do not move under the pointer. */
export async function checkCalm(browser: Browser, url: string, outcome: Outcome): Promise<void> {
  for (const width of [1280, 390]) {
    const { page } = await newPage(browser, width);
    await page.addInitScript(() => {
      const tops = new Set<number>();
      Object.assign(window, { tops });
      new MutationObserver(() => {
        const top = document.querySelector(".tabs")?.getBoundingClientRect().top;
        if (top !== undefined) tops.add(top);
      }).observe(document, { childList: true, subtree: true });
    });
    await page.goto(`${url}#archive=summed`);
    await page.waitForSelector(".stored:has-text('checksums')", PATIENCE);
    const tops = await page.evaluate(() => Array.from((window as unknown as { tops: Set<number> }).tops));
    outcome.expect(`places of the tabs at ${width} pixels`, tops.length, 1);
    await page.close();
  }
}

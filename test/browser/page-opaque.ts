/** What the page cannot show as numbers, or at all: bytes, Python objects, groups that are not listed, servers that refuse; and what a narrow window cuts off. */
import type { Browser } from "playwright-core";
import { comesTrue, newPage, PATIENCE } from "./driven.ts";
import type { Outcome } from "./outcome.ts";

/** Bytes have no statistics. Objects, which are never read, are not damaged, and no program is said to open them. */
export async function checkOpaque(browser: Browser, url: string, outcome: Outcome): Promise<void> {
  const { page, troubles } = await newPage(browser);
  await page.goto(`${url}#archive=bytes.blp&view=values`);
  await page.waitForSelector(".cells td:text-matches('[0-9a-f]{2} ')", PATIENCE);
  outcome.expect("statistics of bytes", await page.locator("summary").count(), 0);
  outcome.expect("views of bytes", await page.locator(".tabs button").allTextContents(), [
    "Overview",
    "Chunks",
    "Values",
  ]);
  await page.goto(`${url}#archive=objects&view=chunks&chunk=0&color=health`);
  await page.waitForSelector('[data-checked="whole"]', PATIENCE);
  await page.waitForSelector(".detail .bad-note:has-text('never reads them')", PATIENCE);
  const said = (await page.textContent(".detail .note")) ?? "";
  outcome.expect(`the state of a chunk of objects: ${said}`, /no damage found$/.test(said), true);
  const times = (await page.textContent('[aria-label="Health"]'))?.match(/never reads them/g)?.length;
  outcome.expect("the reason is given once", times, 1);
  await page.click('[data-view="overview"]');
  await page.waitForSelector(".snippet", PATIENCE);
  const lines = (await page.locator(".snippet pre").allTextContents()).join("\n");
  outcome.expect(`lines for objects: ${lines}`, /zarr\.open|convert|\.get\(/.test(lines), false);
  outcome.expect("troubles", troubles, []);
  await page.close();
}

/** The focus of the first archive in the list is seen on all sides; on a phone, tables and commands fit. */
export async function checkCut(browser: Browser, url: string, outcome: Outcome): Promise<void> {
  const { page, troubles } = await newPage(browser);
  await page.goto(`${url}#archive=daily.bcolz`);
  await page.waitForSelector("#tree [aria-current]", PATIENCE);
  await page.focus("#search");
  await page.keyboard.press("Tab");
  const room = await page.evaluate(() => {
    const { activeElement } = document;
    const list = document.getElementById("tree");
    if (activeElement === null || list === null) return Number.NaN;
    const { outlineOffset, outlineWidth } = getComputedStyle(activeElement);
    const ring = Number.parseFloat(outlineOffset) + Number.parseFloat(outlineWidth);
    return activeElement.getBoundingClientRect().top - ring - list.getBoundingClientRect().top;
  });
  outcome.expect(`room for the ring of the focus: ${room}`, room >= 0, true);
  await page.setViewportSize({ width: 390, height: 800 });
  const areSeen = await comesTrue(page, () => {
    const table = document.querySelector(".scroll:has(.list td)");
    return innerWidth === 390 && table !== null && table.scrollWidth === table.clientWidth;
  });
  outcome.expect("all columns are in sight", areSeen, true);
  await page.goto(`${url}#archive=daily.bcolz&view=plot`);
  await page.waitForSelector("fieldset label", PATIENCE);
  const steps = await page.$$eval("fieldset label", (all) => {
    const tops = [...new Set(all.map((each) => each.getBoundingClientRect().top))];
    return tops.slice(1).map((top, i) => top - (tops[i] ?? 0));
  });
  outcome.expect(
    `rows of boxes to tick: ${steps}`,
    steps.length > 0 && steps.every((step) => step >= 24),
    true,
  );
  outcome.expect("troubles", troubles, []);
  await page.close();
}

/** A group at an address that cannot be listed says so, and how to change it; an address that cannot be fetched is tried once. */
export async function checkUnlisted(browser: Browser, url: string, outcome: Outcome): Promise<void> {
  const { page, troubles, requests } = await newPage(browser);
  const group = `${url}__superchunk__/files/0/nested.zarr`;
  await page.goto(`${url}?url=${encodeURIComponent(group)}`);
  await page.waitForSelector(".warn-note:has-text('consolidate the metadata')", PATIENCE);
  // The list is drawn in the next frame.
  const isSaid = await comesTrue(
    page,
    () => [...document.querySelectorAll("#tree .what")].map((each) => each.textContent).join() === "group",
  );
  outcome.expect("the list says what it is", isSaid, true);
  outcome.expect("troubles", troubles, []);
  const refused = `${url}refused.blp`;
  await page.route(refused, (route) => route.abort());
  await page.goto(`${url}?url=${encodeURIComponent(refused)}`);
  await page.waitForSelector(".bad-note:has-text('without Content-Encoding')", PATIENCE);
  const asked = requests.filter((each) => each === refused).length;
  outcome.expect("requests of what cannot be fetched", asked, 5);
  await page.close();
}

/** All columns of a table are on paper, without the list of archives. */
export async function checkPrinted(browser: Browser, url: string, outcome: Outcome): Promise<void> {
  const { page, troubles } = await newPage(browser);
  await page.goto(`${url}#archive=crowded`);
  await page.waitForSelector(".list td", PATIENCE);
  const paper = (await page.pdf()).toString("latin1");
  const sheets = paper.match(/\/Type \/Page\b/g)?.length ?? 0;
  outcome.expect(`sheets of paper for 500 columns: ${sheets}`, sheets > 10, true);
  await page.emulateMedia({ media: "print" });
  outcome.expect("the list on paper", await page.isVisible("#side"), false);
  outcome.expect("troubles", troubles, []);
  await page.close();
}

/** Whatever takes the place of what had the focus has it then: results of buttons, the chunks of a file, more archives. */
export async function checkFocus(browser: Browser, url: string, outcome: Outcome): Promise<void> {
  const { page, troubles } = await newPage(browser);
  const press = async (button: string, done: string, place: string): Promise<void> => {
    await page.waitForSelector(button, PATIENCE);
    await page.focus(button);
    await page.keyboard.press("Enter");
    await page.waitForSelector(done, PATIENCE);
    const hasIt = await comesTrue(page, (of) => document.activeElement?.closest(of) != null, place);
    outcome.expect(`the focus after ${button}`, hasIt, true);
  };
  const address = `${url}?url=${encodeURIComponent(`${url}__superchunk__/files/0/`)}`;
  await page.goto(`${address}prices.blp#archive=prices.blp&view=plot`);
  await press("button:text-is('Statistics of all values')", "[data-counted]", ".statistics div");
  await page.goto(`${address}prices.blp#archive=prices.blp&view=chunks`);
  await press("button:has-text('Check every')", "[data-checked]", "[aria-label='Health']");
  await page.goto(`${address}sparse.zarr#archive=sparse.zarr&view=chunks`);
  await press("button:has-text('List 1,000')", ".note:has-text('Listing')", ".chunks > .note");
  await page.goto(`${url}#archive=matrix&view=chunks&cells=files`);
  await page.waitForSelector("[data-listed]", PATIENCE);
  await page.focus(".map");
  await page.keyboard.press("End");
  await press(".map", ".tip b:has-text('chunk ')", ".map");
  const archives = Array.from({ length: 400 }, (_, i) => ({ name: `a${i}`, root: 0, path: `a${i}` }));
  await page.route("**/archives.json", (route) => route.fulfill({ json: { archives } }));
  await page.goto(`${url}?#archive=none`);
  await press("button:has-text('Show more')", "a[href='#archive=a399']", "#tree li:nth-child(301)");
  outcome.expect("troubles", troubles, []);
  await page.close();
}

/** The first archive is no step to go back over; another column or view keeps the focus; a column that is missing is not named. */
export async function checkSteps(browser: Browser, url: string, outcome: Outcome): Promise<void> {
  const { page, troubles } = await newPage(browser);
  await page.goto("about:blank");
  await page.goto(url);
  await page.waitForSelector(".tabs", PATIENCE);
  const isNamed = await comesTrue(page, () => location.hash.includes("#archive="));
  outcome.expect("the address names what is shown", isNamed, true);
  await page.goBack();
  outcome.expect("one step back leaves the page", page.url(), "about:blank");
  await page.goto(`${url}#archive=daily.bcolz&column=close&view=chunks`);
  await page.waitForSelector("[data-checked]", PATIENCE);
  await page.focus("label:has-text('Column') select");
  await page.keyboard.press("ArrowDown");
  await page.waitForSelector("h1:has-text('volume')", PATIENCE);
  await page.waitForSelector("label:has-text('Column') select:focus", PATIENCE);
  for (const [from, view] of [
    ['[data-view="overview"]', "overview"],
    [".list a:text-is('open')", "chunks"],
    ['[data-view="values"]', "values"],
  ] as const) {
    if (view === "chunks") await page.goto(`${url}#archive=daily.bcolz`);
    await page.focus(from);
    await page.press(from, "Enter");
    await page.waitForSelector(`[data-view="${view}"][aria-selected="true"]:focus`, PATIENCE);
  }
  await page.goto(`${url}#archive=daily.bcolz&column=nothing&view=values`);
  await page.waitForSelector("h1:text-is('daily.bcolz')", PATIENCE);
  await page.goto(`${url}?url=http://`);
  await page.waitForSelector(".bad-note:has-text('Invalid URL')", PATIENCE);
  await page.goto(url);
  await page.waitForSelector(".tabs", PATIENCE);
  // 1280 pixels at 400 %.
  await page.setViewportSize({ width: 320, height: 256 });
  const isSeen = await comesTrue(page, () => {
    const header = document.querySelector("header");
    return innerWidth === 320 && header !== null && header.scrollWidth === header.clientWidth;
  });
  outcome.expect("all of the header is in sight", isSeen, true);
  outcome.expect("troubles", troubles, []);
  await page.close();
}

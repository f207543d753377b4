/** What a person does while the page's worker takes long: what is chosen last is shown, once. */
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { comesTrue, newPage, PATIENCE } from "./driven.ts";
import type { Outcome } from "./outcome.ts";

declare global {
  interface Window {
    /** Delivers the answer that {@link holdFirst} holds; undefined until it is there. */
    release?: () => void;
    /** What ends the confirmations of copies. */
    ends?: (() => void)[];
  }
}

/** Holds the answer to the first call of a method of the page's worker, or to the one after some others. */
async function holdFirst(page: Page, method: string, others = 0): Promise<void> {
  await page.addInitScript(
    ([name, before]) => {
      let calls = 0;
      window.Worker = new Proxy(Worker, {
        construct(of, settings: ConstructorParameters<typeof Worker>) {
          const worker = new of(...settings);
          let held: number | undefined;
          const post = worker.postMessage.bind(worker);
          worker.postMessage = (message: { readonly id: number; readonly method?: string }) => {
            if (message.method === name && calls++ === before) held = message.id;
            post(message);
          };
          worker.addEventListener("message", (event) => {
            if (event.data.id !== held) return;
            event.stopImmediatePropagation();
            window.release = () => {
              held = undefined;
              worker.dispatchEvent(new MessageEvent("message", { data: event.data }));
            };
          });
          return worker;
        },
      });
    },
    [method, others] as const,
  );
}

/** Delivers the answer, once it is there, and waits until the page has drawn what it makes of it. */
async function release(page: Page): Promise<void> {
  await page.waitForFunction(() => window.release !== undefined, undefined, PATIENCE);
  await page.evaluate(async () => {
    window.release?.();
    for (let frame = 0; frame < 5; frame++) await new Promise((resolve) => requestAnimationFrame(resolve));
  });
}

/** Files that are chosen while a server is listed are shown alone, and take over the workers of what was shown before. */
async function checkReplaced(browser: Browser, url: string, folder: string, outcome: Outcome): Promise<void> {
  const { page, troubles } = await newPage(browser);
  await holdFirst(page, "list");
  await page.goto(`${url}#archive=cube`);
  await page.waitForFunction(() => window.release !== undefined, undefined, PATIENCE);
  outcome.expect("what is said meanwhile", await page.textContent("main"), "Looking for archives…");
  await page.setInputFiles("#files", join(folder, "prices.blp"));
  await page.waitForSelector("h1:has-text('prices.blp')", PATIENCE);
  await release(page);
  outcome.expect("archives in the list", await page.locator("#tree > li").count(), 1);
  outcome.expect("what is shown", await page.textContent("h1"), "prices.blp");
  for (const name of ["dates.blp", "prices.blp", "bytes.blp"]) {
    await page.setInputFiles("#files", join(folder, name));
    await page.waitForSelector(`h1:text-is("${name}")`, PATIENCE);
    await page.click('[data-view="chunks"]');
    await page.waitForSelector("[data-checked]", PATIENCE);
  }
  outcome.expect("workers", page.workers().length, 2);
  outcome.expect("troubles", troubles, []);
  await page.close();
}

/** An archive that is chosen while others are listed is not drawn again when they are. */
async function checkEarly(browser: Browser, url: string, outcome: Outcome): Promise<void> {
  const { page, troubles } = await newPage(browser);
  await holdFirst(page, "list");
  await page.goto(url);
  await page.waitForFunction(() => window.release !== undefined, undefined, PATIENCE);
  await page.evaluate(() => {
    location.hash = "archive=daily.bcolz&view=values";
  });
  await page.waitForSelector(".cells td:text-matches('[0-9]')", PATIENCE);
  await page.focus(".virtual");
  await release(page);
  outcome.expect("the list", await comesTrue(page, () => document.querySelector("#tree a") !== null), true);
  outcome.expect("the focus stays", await page.locator(".virtual:focus").count(), 1);
  outcome.expect("troubles", troubles, []);
  await page.close();
}

/** An archive that is left before it is open: its requests end, and it opens when it is chosen again. */
async function checkLeft(browser: Browser, url: string, outcome: Outcome): Promise<void> {
  const { page, requests } = await newPage(browser);
  // A Zarr array, which the list does not open by itself.
  const files = `${url}__superchunk__/files/0/grid/`;
  const ofThem = (address: string): boolean => address.startsWith(files);
  const ended: string[] = [];
  page.on("requestfailed", (request) => ended.push(request.url()));
  await page.route(`${files}**`, () => {}); // gets no answer
  await page.goto(`${url}#archive=cube`);
  await page.waitForSelector(".stored span", PATIENCE);
  const choose = (state: string): Promise<void> =>
    page.evaluate((hash) => {
      location.hash = hash;
    }, `archive=${state}`);
  const request = page.waitForRequest((each) => ofThem(each.url()), PATIENCE);
  await Promise.all([request, choose("grid")]);
  const asked = requests.filter(ofThem);
  await choose("matrix");
  await page.waitForSelector("h1:text-is('matrix')", PATIENCE);
  await page.waitForSelector(".stored span", PATIENCE);
  outcome.expect("requests that end", ended.filter(ofThem), asked);
  await page.unroute(`${files}**`);
  await choose("grid");
  await page.waitForSelector("h1:text-is('grid')", PATIENCE);
  await page.waitForSelector(".stored span", PATIENCE);
  await page.close();
}

/** Of two chunks the one that was chosen last is shown, although the other one's answer comes later. */
async function checkChosenChunk(browser: Browser, url: string, outcome: Outcome): Promise<void> {
  const { page, troubles } = await newPage(browser);
  await holdFirst(page, "chunk");
  await page.goto(`${url}#archive=matrix&view=chunks&chunk=0`);
  await page.waitForFunction(() => window.release !== undefined, undefined, PATIENCE);
  await page.focus(".map");
  for (const key of ["ArrowRight", "ArrowRight", "Enter"]) await page.keyboard.press(key);
  await page.waitForSelector(".detail h2:text-is('Chunk 1')", PATIENCE);
  await release(page);
  outcome.expect("the chosen chunk", await page.textContent(".detail h2"), "Chunk 1");
  outcome.expect("troubles", troubles, []);
  await page.close();
}

/** Why a plane of values cannot be read is not said of the plane that was chosen after it. */
async function checkChosenPlane(browser: Browser, url: string, outcome: Outcome): Promise<void> {
  const { page } = await newPage(browser);
  await holdFirst(page, "rows");
  const file = `${url}__superchunk__/files/0/cube/data/__0.blp`;
  await page.route(file, (route) => route.fulfill({ status: 502, body: "{}" }));
  await page.goto(`${url}#archive=cube&view=values`);
  await page.waitForFunction(() => window.release !== undefined, undefined, PATIENCE);
  await page.unroute(file);
  await page.focus("[type=range]");
  await page.keyboard.press("ArrowRight");
  await page.waitForSelector(".cells td:text-matches('[0-9]')", PATIENCE);
  await release(page);
  outcome.expect("what cannot be read", await page.textContent(".values-view > .bad"), "");
  await page.close();
}

/** A picture has no values of another plane: neither under the pointer until the chosen one is read, nor if it cannot be read. */
async function checkPicture(browser: Browser, url: string, outcome: Outcome): Promise<void> {
  const { page } = await newPage(browser);
  await holdFirst(page, "picture", 1);
  const file = `${url}__superchunk__/files/0/cube/data/__3.blp`;
  await page.route(file, (route) => route.abort());
  await page.goto(`${url}#archive=cube&view=picture`);
  await page.waitForSelector("[data-drawn]", PATIENCE);
  await page.focus("[type=range]");
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction(() => window.release !== undefined, undefined, PATIENCE);
  await page.hover("canvas");
  const said = (): Promise<string[]> => page.locator(".picture-view > .note").allTextContents();
  outcome.expect("what is said meanwhile", await said(), ["\u00a0", "Reading…"]);
  await release(page);
  await page.hover("canvas", { position: { x: 9, y: 9 } });
  outcome.expect("the value under the pointer", (await said())[0]?.slice(0, 9), "[1, 0, 0]");
  await page.focus("[type=range]");
  await page.keyboard.press("End");
  await page.waitForSelector(".picture-view .bad", PATIENCE);
  outcome.expect(
    "no picture of another plane",
    await page.locator("canvas").evaluate((canvas) => (canvas as HTMLCanvasElement).width),
    0,
  );
  await page.close();
}

/** A part of a plot that is enlarged while other rows are read is one of the rows that are drawn. */
async function checkEnlarged(browser: Browser, url: string, outcome: Outcome): Promise<void> {
  const { page, troubles } = await newPage(browser);
  await holdFirst(page, "plot", 1);
  await page.goto(`${url}#archive=prices.blp&view=plot`);
  await page.waitForSelector("[data-plotted]", PATIENCE);
  await page.click("[aria-label='Fewer rows']");
  const { x, y, width } = (await page.locator(".u-over").boundingBox()) ?? { x: 0, y: 0, width: 0 };
  await page.mouse.move(x + 2, y + 50);
  await page.mouse.down();
  await page.mouse.move(x + width / 4, y + 50, { steps: 5 });
  await page.mouse.up();
  const isSeen = await comesTrue(page, () => /&(?:first=\d\d?&)?end=[67]\d\d$/.test(location.hash));
  outcome.expect(`the first quarter of 3,000 rows: ${page.url()}`, isSeen, true);
  outcome.expect("troubles", troubles, []);
  await page.close();
}

/** A copy that is left before its values are there is no error; a button that is clicked again while it confirms keeps its name. */
async function checkCopied(browser: Browser, url: string, outcome: Outcome): Promise<void> {
  const { page, troubles } = await newPage(browser);
  await holdFirst(page, "rows", 1);
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.goto(`${url}#archive=cube&view=values`);
  await page.waitForSelector(".cells td:text-matches('[0-9]')", PATIENCE);
  await page.click("button:text-is('Copy as CSV')");
  await page.click('[data-view="chunks"]');
  await page.waitForSelector("[data-checked]", PATIENCE);
  await page.click('[data-view="values"]');
  await page.evaluate(() => {
    window.ends = [];
    window.setTimeout = ((end: () => void) => window.ends?.push(end)) as typeof setTimeout;
  });
  for (const clicks of [1, 2]) {
    await page.click(".group button");
    await page.waitForFunction((count) => window.ends?.length === count, clicks, PATIENCE);
  }
  await page.evaluate(() => {
    for (const end of window.ends ?? []) end();
  });
  outcome.expect("the button's name", await page.textContent(".group button"), "Copy as CSV");
  outcome.expect("troubles", troubles, []);
  await page.close();
}

/** All of it. */
export async function checkSlow(
  browser: Browser,
  url: string,
  folder: string,
  outcome: Outcome,
): Promise<void> {
  await checkReplaced(browser, url, folder, outcome);
  await checkEarly(browser, url, outcome);
  await checkLeft(browser, url, outcome);
  await checkChosenChunk(browser, url, outcome);
  await checkChosenPlane(browser, url, outcome);
  await checkPicture(browser, url, outcome);
  await checkEnlarged(browser, url, outcome);
  await checkCopied(browser, url, outcome);
}

/** A page in a browser, with its errors, and what is read from it. */
import type { Browser, Page } from "playwright-core";

/** How long a person may have to wait. */
export const PATIENCE = { timeout: 60_000 };

/** A page with its errors. */
export interface Driven {
  readonly page: Page;
  readonly troubles: string[];
  readonly requests: string[];
}

export async function newPage(browser: Browser, width = 1280): Promise<Driven> {
  const page = await browser.newPage({ viewport: { width, height: 800 } });
  page.setDefaultTimeout(PATIENCE.timeout);
  const troubles: string[] = [];
  const requests: string[] = [];
  page.on("pageerror", (error) => troubles.push(error.message));
  page.on("console", (message) => {
    // Dialects are recognized by probing for objects, so a 404 is expected.
    if (message.type() === "error" && !/404/.test(message.text())) troubles.push(message.text());
  });
  page.on("request", (request) => requests.push(request.url()));
  return { page, troubles, requests };
}

/**
 * Goes to an address, and waits until what the page showed before is gone: for another fragment of the same address, it
 * stays until the page has read what the new one needs.
 */
export async function visit(page: Page, url: string): Promise<void> {
  await page.evaluate(() => document.querySelector("#main > *")?.setAttribute("data-before", ""));
  await page.goto(url);
  await page.waitForSelector("[data-before]", { ...PATIENCE, state: "detached" });
}

/** The text of the cells of a table, row by row. */
export function cellsOf(page: Page, selector: string): Promise<string[][]> {
  return page.evaluate(
    (rows) =>
      [...document.querySelectorAll(rows)].map((row) =>
        [...row.children].map((cell) => cell.textContent ?? ""),
      ),
    `${selector} tbody tr`,
  );
}

/** Whether `condition`, which runs in the page with `argument`, becomes true while a person would wait. */
export async function comesTrue<Argument = undefined>(
  page: Page,
  condition: (argument: Argument) => boolean,
  argument?: Argument,
): Promise<boolean> {
  try {
    await page.waitForFunction(condition as (argument: unknown) => boolean, argument, PATIENCE);
    return true;
  } catch (error) {
    if (error instanceof Error && error.name === "TimeoutError") return false;
    throw error;
  }
}

/** What a click on a button copies. */
export async function copiedBy(page: Page, text: string): Promise<string> {
  const button = await page.waitForSelector(`button:text-is("${text}")`, PATIENCE);
  // It says so for a short time: the wait begins before the click, and needs no frames.
  const said = page.waitForFunction((each) => each.textContent === "Copied", button, {
    ...PATIENCE,
    polling: 100,
  });
  await Promise.all([said, button.click()]);
  return page.evaluate(() => navigator.clipboard.readText());
}

/** Opens a table that is collapsed, and waits for its cells. */
export async function openTable(page: Page, selector: string): Promise<string[][]> {
  await page.click(`${selector} summary`);
  await page.waitForFunction(
    (cell) => /\d/.test(document.querySelector(cell)?.textContent ?? ""),
    `${selector} tbody td`,
    PATIENCE,
  );
  return cellsOf(page, selector);
}

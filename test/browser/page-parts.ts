/** Parts of the page's views: the inside of chunks, files and ages, what is saved, sorting and planes, forced colours. */
import { readdirSync, statSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { open, openArchive, slice } from "superchunk/node";
import type { ZarrChunk } from "superchunk/zarr";
import { cellsOf, comesTrue, copiedBy, newPage, openTable, PATIENCE, visit } from "./driven.ts";
import type { Outcome } from "./outcome.ts";

/** Blocks and streams match the chunk's bytes: they begin where it says, and leave no byte between them. */
export async function checkInside(
  browser: Browser,
  url: string,
  folder: string,
  outcome: Outcome,
): Promise<void> {
  const { page, troubles } = await newPage(browser);
  await page.goto(`${url}#archive=daily.bcolz&column=close&view=chunks&chunk=1`);
  await page.waitForSelector(".streams canvas", PATIENCE);
  const found = (await openTable(page, ".streams")).map((row) =>
    row.slice(1).map((text) => text.split(" ").map(Number)),
  );
  const file = await readFile(join(folder, "daily.bcolz", "close", "data", "__1.blp"));
  const chunk = new DataView(file.buffer, file.byteOffset + 16, file.length - 16);
  const [nbytes, blocksize, ctbytes] = [4, 8, 12].map((at) => chunk.getUint32(at, true));
  const count = Math.ceil((nbytes ?? 0) / (blocksize ?? 1));
  const starts = Array.from({ length: count }, (_, block) => chunk.getUint32(16 + 4 * block, true));
  outcome.expect(
    "where blocks begin",
    found.map(([at]) => at?.[0]),
    starts,
  );
  const stored = found.map(([, size]) => size?.[0] ?? Number.NaN);
  outcome.expect(
    "their stored bytes",
    stored.reduce((sum, size) => sum + size, 16 + 4 * count),
    ctbytes,
  );
  outcome.expect(
    "their streams, each with its length",
    found.map((cells) => (cells[4] ?? []).reduce((sum, size) => sum + 4 + size, 0)),
    stored,
  );
  outcome.expect("troubles", troubles, []);
  await page.close();
}

/** A cell for each file leads to its chunks, and files show the age that the disk gives. */
export async function checkFileCells(
  browser: Browser,
  url: string,
  folder: string,
  outcome: Outcome,
): Promise<void> {
  const { page, troubles } = await newPage(browser);
  await page.goto(`${url}#archive=matrix&view=chunks&color=age`);
  await page.waitForSelector("[data-listed]", PATIENCE);
  const data = join(folder, "matrix", "data");
  const files = readdirSync(data);
  const times = files.map((name) => statSync(join(data, name)).mtimeMs);
  const text = new Date(Math.max(...times)).toISOString().slice(0, 16).replace("T", " ");
  await page.waitForSelector(`.legend:has-text("${text}")`, PATIENCE);
  const chunks = Number(await page.getAttribute("[data-listed]", "data-listed"));
  outcome.expect("several chunks share a file", files.length < chunks, true);
  const select = "label:has-text('Cells') select";
  if (files.length > 1) {
    await page.selectOption(select, "files");
    await page.focus(".map");
    await page.keyboard.press("End");
    await page.waitForSelector(`.tip:has-text("${files.sort().at(-1)}")`, PATIENCE);
    await page.keyboard.press("Enter");
    await page.waitForSelector(".tip b:has-text('chunk ')", PATIENCE);
    outcome.expect("chunks again", await page.inputValue(select), "chunks");
  } else outcome.expect("no choice of cells", await page.isVisible(select), false);
  outcome.expect("troubles", troubles, []);
  await page.close();
}

/** Chunks of a grid are read where they are in the array; those without a file, and those not stored, are marked. */
export async function checkGrid(
  browser: Browser,
  url: string,
  folder: string,
  outcome: Outcome,
): Promise<void> {
  const array = await open(join(folder, "grid"));
  if (array.kind !== "array" || array.listMissing === undefined)
    throw new Error("the corpus has a grid here");
  const missing: number[] = [];
  const listed: Pick<ZarrChunk, "index" | "start" | "shape">[] = [];
  for await (const { index } of array.listMissing()) missing.push(index);
  for await (const chunk of array.listChunks()) if ("start" in chunk) listed.push(chunk);
  // The tenth chunk that is stored, by its number in the grid.
  const { index: chunk = -1, start = [], shape = [] } = listed[9] ?? {};
  const { data } = (await array.get(start.map((first, d) => slice(first, first + (shape[d] ?? 0))))) as {
    data: ArrayLike<number>;
  };
  await array.close();
  const { page, troubles } = await newPage(browser);
  await page.goto(`${url}#archive=grid&view=chunks&chunk=${chunk}`);
  await page.waitForSelector(".detail .values", PATIENCE);
  const shown = (await page.textContent(".detail .values"))?.match(/-?\d+/g)?.map(Number);
  outcome.expect("the first values of a chunk", shown, Array.from(data).slice(0, 8));
  const rows = await openTable(page, ".chunk-table");
  const absent = rows.filter((row) => row.at(-1)?.startsWith("not stored")).map(([index]) => Number(index));
  outcome.expect("chunks that are not stored", [absent.length > 0, ...absent], [true, ...missing]);
  await page.click(".detail a");
  await page.waitForFunction((row) => location.hash.includes(`row=${row}`), start[0], PATIENCE);
  await page.goto(`${url}#archive=broken.bcolz&column=close&view=chunks`);
  await page.waitForSelector('[data-checked="damaged"]', PATIENCE);
  const [first] = await openTable(page, ".chunk-table");
  outcome.expect("a chunk without its file", first?.at(-1), "missing: its file is gone");
  outcome.expect("troubles", troubles, []);
  await page.close();
}

/** The first values of chunks of different shapes, and of chunks that end inside of rows, are those of the array. */
export async function checkChunkValues(
  browser: Browser,
  url: string,
  folder: string,
  outcome: Outcome,
): Promise<void> {
  const { page, troubles } = await newPage(browser);
  for (const [name, chunk, place, first] of [
    // Column by column: value 256 of 7 x 9 x 11 is [4, 0, 4].
    ["fortran.blp", 1, "values 256 to 511 of 693", [4, 0, 4]],
    // Rows are cut at 5, 6, 20 and columns at 7, 20: here the second cell of the first row.
    ["unequal", 1, "values [0 to 4, 7 to 19]", [0, 7]],
  ] as const) {
    const array = await open(join(folder, name));
    if (array.kind !== "array") throw new Error("the corpus has numbers here");
    const { data } = (await array.get(first.map((at) => slice(at, at + 1)))) as { data: ArrayLike<number> };
    await array.close();
    await page.goto(`${url}#archive=${name}&view=chunks&chunk=${chunk}`);
    await page.waitForSelector(`h1:has-text('${name}')`, PATIENCE);
    await page.waitForSelector(".detail .values", PATIENCE);
    const shown = Number((await page.textContent(".detail .values"))?.split(/\s+/)[0]);
    outcome.expect(`the first value of a chunk of ${name}`, Math.fround(shown), data[0]);
    const text = (await page.textContent(".detail .note")) ?? "";
    outcome.expect(`where a chunk of ${name} lies: ${text}`, text.startsWith(place), true);
    await page.click(".detail a");
    const wanted = `row=${first.at(-2)}`;
    if (first.at(-2) !== 0)
      await page.waitForFunction((text) => location.hash.includes(text), wanted, PATIENCE);
  }
  outcome.expect("troubles", troubles, []);
  await page.close();
}

/** An array of a thousand million chunks, of which few are stored, is shown at their places, in little memory. */
export async function checkSparse(browser: Browser, url: string, outcome: Outcome): Promise<void> {
  const { page, troubles } = await newPage(browser);
  await page.goto(`${url}#archive=sparse.zarr&view=chunks`);
  await page.waitForSelector("[data-listed='3']", PATIENCE);
  const said = (await page.textContent(".chunks > .note")) ?? "";
  outcome.expect(`what is not stored: ${said}`, said.includes("999,999,997 more are not stored"), true);
  await page.focus(".map");
  await page.keyboard.press("End");
  await page.waitForSelector(".tip:has-text('chunk 999,999,999')", PATIENCE);
  outcome.expect(
    "the last chunk is stored",
    /c\/999999999 at byte 0/.test((await page.textContent(".tip")) ?? ""),
    true,
  );
  await page.keyboard.press("ArrowLeft");
  await page.waitForSelector(".tip:has-text('not stored')", PATIENCE);
  const usedJSHeapSize = await page.evaluate(
    () => (performance as unknown as { memory: { usedJSHeapSize: number } }).memory.usedJSHeapSize,
  );
  outcome.expect(`memory of the map (${usedJSHeapSize})`, usedJSHeapSize < 100e6, true);
  outcome.expect("troubles", troubles, []);
  await page.close();
}

/** Superchunks in other places are shown as the others are; without leave to read them, the page says what to do. */
export async function checkPlaces(
  browser: Browser,
  { allowed, refused }: { readonly allowed: string; readonly refused: string },
  outcome: Outcome,
): Promise<void> {
  const { page, troubles } = await newPage(browser);
  await page.goto(`${allowed}#archive=placed&view=chunks`);
  await page.waitForSelector('[data-checked="whole"]', PATIENCE);
  await page.goto(`${refused}#archive=placed&view=chunks`);
  await page.waitForSelector("text=start it with --allow", PATIENCE);
  // The browser itself writes a line for each answer that is an error.
  outcome.expect(
    "troubles",
    troubles.filter((text) => !/Failed to load resource/.test(text)),
    [],
  );
  await page.close();
}

/** Chunks that a repair filled are marked. */
export async function checkFilled(browser: Browser, url: string, outcome: Outcome): Promise<void> {
  const { page, troubles } = await newPage(browser);
  await page.goto(`${url}#archive=filled&view=chunks&color=health`);
  await page.waitForSelector("[data-checked]", PATIENCE);
  const rows = await openTable(page, ".chunk-table");
  const states = rows.map((row) => row.at(-1));
  outcome.expect("filled chunks", states.includes("filled by a repair"), true);
  outcome.expect("whole chunks", states.includes("no damage found"), true);
  outcome.expect("troubles", troubles, []);
  await page.close();
}

/** What a button saves as a file. */
async function savedBy(page: Page, button: string): Promise<Buffer> {
  const [download] = await Promise.all([page.waitForEvent("download", PATIENCE), page.click(button)]);
  return readFile(await download.path());
}

/** Plots are saved as pictures and as drawings; the statistics below them count all values. */
export async function checkSaved(browser: Browser, url: string, outcome: Outcome): Promise<void> {
  const { page, troubles } = await newPage(browser);
  await page.goto(`${url}#archive=daily.bcolz&view=plot&first=10&end=50`);
  await page.waitForSelector('[data-plotted="10-50"]', PATIENCE);
  const png = await savedBy(page, "button:text-is('PNG')");
  outcome.expect("a picture", png.subarray(1, 4).toString(), "PNG");
  const candles = (await savedBy(page, "button:text-is('SVG')")).toString();
  outcome.expect("candles as a drawing", candles.match(/<rect fill/g)?.length, 40);
  await visit(page, `${url}#archive=daily.bcolz&column=close&view=plot&first=10&end=50`);
  await page.waitForSelector('[data-plotted="10-50"] .u-wrap', PATIENCE);
  const lines = (await savedBy(page, "button:text-is('SVG')")).toString();
  outcome.expect("a line as a drawing", /points="([^"]*)"/.exec(lines)?.[1]?.split(" ").length, 40);
  outcome.expect(
    "the drawing names the axis and the line",
    [/>day</, />close</].map((text) => text.test(lines)),
    [true, true],
  );
  await visit(page, `${url}#archive=dates.blp&view=plot`);
  await page.waitForSelector('[data-plotted="0-700"] .u-wrap', PATIENCE);
  const dates = (await savedBy(page, "button:text-is('SVG')")).toString();
  outcome.expect("dates on the axis", dates.match(/>2012-\d\d-01</g)?.length, 5);
  await visit(page, `${url}#archive=daily.bcolz&column=close&view=plot&first=10&end=50`);
  await page.waitForSelector(".histogram i", PATIENCE);
  outcome.expect("troubles", troubles, []);
  await page.close();
}

/** Statistics below the values are those of the values, also of an array of three dimensions. */
export async function checkStatistics(
  browser: Browser,
  url: string,
  folder: string,
  outcome: Outcome,
): Promise<void> {
  for (const [archive, column] of [
    ["daily.bcolz", "close"],
    ["daily.bcolz", "day"],
    ["daily.bcolz", "id"],
    ["cube", ""],
  ] as const) {
    const opened = await openArchive(join(folder, archive));
    const part = opened.kind === "table" ? opened.column(column) : opened;
    if (part.kind !== "array") throw new Error("the corpus has numbers here");
    const { data } = (await part.get()) as { data: ArrayLike<number> };
    await opened.close();
    const finite = Array.from(data).filter(Number.isFinite);
    const text = (value: number): string =>
      column === "day"
        ? new Date(1000 * value).toISOString().slice(0, 10)
        : Number(value.toPrecision(6)).toLocaleString("en-US", { maximumFractionDigits: 20 });
    const expected = [
      `${finite.length} values `,
      ...(finite.length < data.length ? [`${data.length - finite.length} not finite`] : []),
      `${text(Math.min(...finite) + 0)} min`,
      `${text(Math.max(...finite))} max`,
    ];
    const { page, troubles } = await newPage(browser);
    await page.goto(`${url}#archive=${archive}&column=${column}&view=values`);
    await page.click("summary:text-is('Statistics')");
    await page.waitForSelector(`[data-column="${column}"][data-counted]`, PATIENCE);
    const facts = await page.locator(".statistics .facts span").allTextContents();
    outcome.expect(`statistics of ${archive} ${column}`, facts.slice(0, expected.length), expected);
    const bars = await page
      .locator(".histogram i")
      .evaluateAll((all) => all.map((bar) => bar.getAttribute("title")));
    outcome.expect(
      `bars of ${archive} ${column}`,
      ["close", "id"].includes(column) ? bars : bars.length,
      barsOf(finite, column),
    );
    outcome.expect(
      "the address keeps it",
      await comesTrue(page, () => location.hash.includes("statistics=open")),
      true,
    );
    outcome.expect("troubles", troubles, []);
    await page.close();
  }
}

/** The titles of the bars of a column of integers; their number for others. */
function barsOf(values: readonly number[], column: string): readonly string[] | number {
  const [min, max] = [Math.min(...values), Math.max(...values)];
  if (column === "") return 48;
  const width = Math.ceil((max - min + 1) / 48);
  const bars = Array.from({ length: Math.ceil((max - min + 1) / width) }, (_, bar) => {
    const [first, last] = [min + bar * width, Math.min(max, min + bar * width + width - 1)];
    const count = values.filter((value) => value >= first && value <= last).length;
    const name = (first === last ? [first] : [first, last])
      .map((each) => each.toLocaleString("en-US"))
      .join(" to ");
    return `${name}: ${((100 * count) / values.length).toPrecision(2)} %`;
  });
  return ["close", "id"].includes(column) ? bars : bars.length;
}

/** For a damaged archive the statistics, the plot and the values of the whole chunks are shown. */
export async function checkDamagedNumbers(browser: Browser, url: string, outcome: Outcome): Promise<void> {
  const { page, troubles } = await newPage(browser);
  await page.goto(`${url}#archive=broken.bcolz&column=close&view=values&statistics=open`);
  await page.waitForSelector("[data-column=close][data-counted]", PATIENCE);
  const facts = await page.locator(".statistics .facts span").allTextContents();
  outcome.expect("statistics of what is whole", facts.slice(0, 2), ["162 values ", "64 rows cannot be read"]);
  await page.goto(`${url}#archive=broken.bcolz&column=close&view=plot`);
  await page.waitForSelector("[data-plotted]", PATIENCE);
  const note = (await page.textContent(".plot-view > .note")) ?? "";
  outcome.expect(
    "the plot says what it leaves out",
    /What cannot be read is left out: .*chunk 0/.test(note),
    true,
  );
  await page.goto(`${url}#archive=broken.bcolz&view=values&row=60`);
  await page.waitForSelector(".cells td:text-matches('[0-9]')", PATIENCE);
  const rows = (await cellsOf(page, ".cells")).slice(0, 6);
  outcome.expect(
    "only rows of the missing chunk are marked",
    rows.map(([row, , , , close = ""]) => [row, /^[0-9]+$/.test(close) || close]),
    [60, 61, 62, 63, 64, 65].map((row) => [String(row), row < 64 ? "cannot be read" : true]),
  );
  const why = (await page.textContent(".values-view > .bad")) ?? "";
  outcome.expect(`why they cannot be read: ${why}`, /^broken.bcolz.*chunk 0/.test(why), true);
  await page.goto(`${url}#archive=damaged&view=picture`);
  await page.waitForSelector("[data-drawn]", PATIENCE);
  const drawn = await page.evaluate(() => {
    const canvas = document.querySelector("canvas.picture") as HTMLCanvasElement;
    const { data } = canvas.getContext("2d")?.getImageData(0, 0, 1, canvas.height) ?? { data: [] };
    return Array.from({ length: canvas.height }, (_, row) => data[4 * row + 3] !== 0);
  });
  outcome.expect("rows that a picture leaves out", drawn.filter((is) => !is).length, 16);
  outcome.expect("what is whole is drawn", drawn.length, 90);
  outcome.expect("troubles", troubles, []);
  await page.close();
}

/** A table shows the beginning of a long text, and copies all of it. */
export async function checkLongText(browser: Browser, url: string, outcome: Outcome): Promise<void> {
  const { page, troubles } = await newPage(browser);
  await page
    .context()
    .grantPermissions(["clipboard-read", "clipboard-write"], { origin: new URL(url).origin });
  await page.goto(`${url}#archive=wide&view=values`);
  await page.waitForSelector(".cells td:has-text('…')", PATIENCE);
  const copied = await copiedBy(page, "Copy as CSV");
  outcome.expect("a long text is copied as a whole", copied.split("\n")[1], `1,2,${"long".repeat(100)}`);
  outcome.expect("troubles", troubles, []);
  await page.close();
}

/** A click on the head of a column sorts the rows in sight; a slider goes to another plane. */
export async function checkSorting(browser: Browser, url: string, outcome: Outcome): Promise<void> {
  const { page, troubles } = await newPage(browser);
  await page.goto(`${url}#archive=daily.bcolz&view=values`);
  await page.waitForFunction(
    () => document.querySelector(".cells td")?.textContent?.match(/\d/),
    undefined,
    PATIENCE,
  );
  const before = (await cellsOf(page, ".cells")).map((row) => Number(row[1]));
  await page.click(".cells thead th:nth-of-type(2) button");
  const areSorted = await comesTrue(
    page,
    (sorted) =>
      JSON.stringify(sorted) ===
      JSON.stringify(
        [...document.querySelectorAll(".cells tbody td:nth-of-type(1)")].map((cell) =>
          Number(cell.textContent),
        ),
      ),
    [...before].sort((a, b) => a - b),
  );
  outcome.expect(`the rows in sight, sorted: ${before}`, areSorted, true);
  await page.goto(`${url}#archive=cube&view=picture`);
  await page.waitForSelector("[data-drawn='0']", PATIENCE);
  await page.focus('input[aria-label="Index in dimension 0"]');
  await page.keyboard.press("ArrowRight");
  await page.waitForSelector("[data-drawn='1']", PATIENCE);
  outcome.expect(
    "the address keeps the plane",
    await comesTrue(page, () => location.hash.includes("plane=1")),
    true,
  );
  outcome.expect("troubles", troubles, []);
  await page.close();
}

/** In forced colours, what only a colour says can still be told apart. */
export async function checkForcedColours(browser: Browser, url: string, outcome: Outcome): Promise<void> {
  for (const colorScheme of ["light", "dark"] as const) {
    const { page, troubles } = await newPage(browser);
    await page.emulateMedia({ colorScheme, forcedColors: "active" });
    await page.goto(`${url}#archive=daily.bcolz&view=plot&columns=open,close`);
    await page.waitForSelector("[data-counted]", PATIENCE);
    await page.waitForSelector(".u-marker", PATIENCE);
    // The list and the view are drawn again when more is known, so what is compared may be gone for a moment.
    for (const [chosen, other, property] of [
      ['[role="tab"][aria-selected="true"]', '[role="tab"][aria-selected="false"]', "border-bottom-color"],
      ["#tree [aria-current]", "#tree a:not([aria-current])", "background-color"],
      [".histogram i", "body", "background-color"],
    ] as const) {
      const isSeen = await comesTrue(
        page,
        ([one, rest, name]) => {
          const colours = (selector: string): Set<string> =>
            new Set(
              [...document.querySelectorAll(selector)].map((each) =>
                getComputedStyle(each).getPropertyValue(name),
              ),
            );
          const [a, b] = [[...colours(one)], colours(rest)];
          const back = getComputedStyle(document.body).backgroundColor;
          return a.length === 1 && b.size > 0 && !a.some((colour) => colour === back || b.has(colour));
        },
        [chosen, other, property] as const,
      );
      outcome.expect(`${colorScheme}: ${chosen} differs from ${other} and from the page`, isSeen, true);
    }
    const isEachMarked = await comesTrue(page, () => {
      const colours = [...document.querySelectorAll(".u-series .u-marker")].map(
        (each) => getComputedStyle(each).borderTopColor,
      );
      return new Set(colours).size >= 2;
    });
    outcome.expect(`${colorScheme}: two columns have two colours`, isEachMarked, true);
    await page.goto(`${url}#archive=matrix&view=chunks`);
    const isRampSeen = await comesTrue(page, () =>
      [...document.querySelectorAll(".ramp")].some((each) =>
        getComputedStyle(each).backgroundImage.includes("gradient"),
      ),
    );
    outcome.expect(`${colorScheme}: the ramp`, isRampSeen, true);
    outcome.expect("troubles", troubles, []);
    await page.close();
  }
}

/** Many columns leave room for the plot, and large row numbers do not touch. */
export async function checkCrowdedPlot(browser: Browser, url: string, outcome: Outcome): Promise<void> {
  const { page, troubles } = await newPage(browser);
  await page.addInitScript(() => {
    const drawn: { text: string; y: number; left: number; right: number }[] = [];
    Object.assign(window, { drawn });
    const { clearRect, fillText } = CanvasRenderingContext2D.prototype;
    // Each drawing begins with it: those of parts that are read so far have other labels.
    CanvasRenderingContext2D.prototype.clearRect = function (...box) {
      drawn.length = 0;
      clearRect.apply(this, box);
    };
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
      const half = this.measureText(text).width / 2;
      drawn.push({ text, y, left: x - half, right: x + half });
      fillText.call(this, text, x, y);
    };
  });
  await page.goto(`${url}#archive=crowded&view=plot`);
  await page.waitForSelector("[data-plotted]", PATIENCE);
  const box = await page.locator(".plot canvas").boundingBox();
  await page.goto(`${url}#archive=crowded&view=values`);
  await page.waitForSelector(".cells td:text-is('63')", PATIENCE);
  outcome.expect("columns that are shown at a time", await page.locator(".cells tbody td").count(), 64);
  await page.click("button:text-is('Columns ›')");
  await page.waitForSelector(".cells td:text-is('127')", PATIENCE);
  outcome.expect(
    "the first of the next",
    await page.locator(".cells thead button").first().textContent(),
    "c64",
  );
  outcome.expect("the plot is in sight", box !== null && box.y + 200 < 800, true);
  await page.goto(`${url}#archive=long.zarr&view=plot`);
  await page.waitForSelector("h1:text-is('long.zarr')", PATIENCE);
  await page.waitForSelector("[data-plotted]", PATIENCE);
  const labels = await page.evaluate(() =>
    (window as unknown as { drawn: { text: string; y: number; left: number; right: number }[] }).drawn.filter(
      ({ text }) => /^[1-9][\d,]{8,}$/.test(text),
    ),
  );
  const rows = labels.sort((a, b) => a.y - b.y || a.left - b.left);
  const touching = rows.filter(({ y, left, text }, i) => {
    const before = rows[i - 1];
    return before !== undefined && before.y === y && before.text !== text && left < before.right + 4;
  });
  outcome.expect("labels of rows", new Set(rows.map(({ text }) => text)).size > 2, true);
  outcome.expect(
    "labels that touch",
    touching.map(({ text }) => text),
    [],
  );
  outcome.expect("troubles", troubles, []);
  await page.close();
}

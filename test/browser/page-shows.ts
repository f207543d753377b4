/** The page of `serve` and `view`, driven as a person does: it shows what the command prints. */
import { execFileSync, spawnSync } from "node:child_process";
import { readdirSync, statSync } from "node:fs";
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser } from "playwright-core";
import { openArchive, serveView } from "superchunk/node";
import { corpusFolder, repositoryRoot } from "../fixtures/manifest.ts";
import { comesTrue, copiedBy, newPage, PATIENCE } from "./driven.ts";
import type { Outcome } from "./outcome.ts";
import { checkAdvice, checkCalm, checkIndexes, checkLongList, checkPhone, checkSearch } from "./page-help.ts";
import { checkCut, checkFocus, checkOpaque, checkPrinted, checkSteps, checkUnlisted } from "./page-opaque.ts";
import {
  checkChunkValues,
  checkCrowdedPlot,
  checkDamagedNumbers,
  checkFileCells,
  checkFilled,
  checkForcedColours,
  checkGrid,
  checkInside,
  checkLongText,
  checkPlaces,
  checkSaved,
  checkSorting,
  checkSparse,
  checkStatistics,
} from "./page-parts.ts";
import { checkSlow } from "./page-slow.ts";
import { checkWeights } from "./page-weights.ts";
import { checkVast } from "./vast.ts";

/** Archives of the corpus to show. */
const TABLE = "ctable/bcolz-daily-equities";
const FOLDER = "blz-superchunk/i8-2d-crc32";
const FILE = "bloscpack-3/array-f8.blp";
const GRID = "zarr3-sharded/zp-i4-2d-gzip-start";

/** Checks the page on archives of the corpus, including a damaged one. */
export async function checkShown(browser: Browser, outcome: Outcome): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "superchunk-shown-"));
  try {
    for (const [from, to] of [
      [TABLE, "daily.bcolz"],
      [TABLE, "broken.bcolz"],
      [FOLDER, "matrix"],
      [FOLDER, "damaged"],
      [FILE, "prices.blp"],
      ["blz-superchunk/empty-f8", "empty"],
      ["carray/bzl-f4-3d", "cube"],
      [GRID, "grid"],
      ["bloscpack-3/array-datetime64-ns.blp", "dates.blp"],
      ["bloscpack-3/array-f4-3d-fortran.blp", "fortran.blp"],
      ["zarr3-rectilinear/i4-2d", "unequal"],
      ["bloscpack-3/cli-text.blp", "bytes.blp"],
      ["carray/bcolz-object", "objects"],
    ] as const)
      await cp(join(corpusFolder, from), join(folder, to), { recursive: true });
    await damage(join(folder, "damaged"));
    await rm(join(folder, "broken.bcolz", "close", "data", "__0.blp"));
    await rm(join(folder, "grid", "c", "0", "1"));
    const superchunk = (...args: readonly string[]): void =>
      void spawnSync(process.execPath, [join(repositoryRoot, "build", "cli", "main.js"), ...args], {
        cwd: folder,
      });
    // It ends with 3, because rows are lost.
    superchunk("repair", "damaged", "filled", "--holes", "fill");
    await writeFile(
      join(folder, "wide.csv"),
      `${"a name of a column ".repeat(10)},b,c\n1,2,${"long".repeat(100)}\n3,4,-\n`,
    );
    superchunk("create", "wide", "--from", "wide.csv");
    await writeFile(join(folder, "numbers.raw"), new Float64Array(1000));
    superchunk(
      "create",
      "summed",
      "--from",
      "numbers.raw",
      "--dtype",
      "<f8",
      "--shape",
      "-1",
      "-k",
      "sha512",
    );
    superchunk("create", "growing", ..."--from numbers.raw --dtype <f8 --shape -1".split(" "));
    const places = await mkdtemp(join(tmpdir(), "superchunk-places-"));
    const placed = [
      ..."--from numbers.raw --dtype <f8 --shape -1 --chunklen 50 --superchunklen 4".split(" "),
      "--place",
      places,
    ];
    superchunk("create", "placed", ...placed, "--place-by", "round");
    await makeSparse(join(folder, "sparse.zarr"), 1e10, 10);
    await makeSparse(join(folder, "long.zarr"), 16_000_000, 1e6);
    const many = Array.from({ length: 500 }, (_, i) => `c${i}`);
    await writeFile(join(folder, "crowded.csv"), `${many}\n${many.map((_, i) => i)}\n`);
    superchunk("create", "crowded", "--from", "crowded.csv");
    await cp(join(folder, "grid"), join(folder, "nested.zarr", "inner", "grid"), { recursive: true });
    for (const group of ["nested.zarr", "nested.zarr/inner"])
      await writeFile(join(folder, group, "zarr.json"), '{"zarr_format":3,"node_type":"group"}');
    const served = await serveView(folder, { page: "only", allow: [places] });
    const refusing = await serveView(folder, { page: "only" });
    try {
      await outcome.attempt("what the page loads", () => checkWeights(browser, folder, outcome));
      await outcome.attempt("the map", () => checkMap(browser, served.url, folder, outcome));
      await outcome.attempt("inside of a chunk", () => checkInside(browser, served.url, folder, outcome));
      await outcome.attempt("files and ages", () => checkFileCells(browser, served.url, folder, outcome));
      await outcome.attempt("a grid of chunks", () => checkGrid(browser, served.url, folder, outcome));
      await outcome.attempt("values of chunks", () => checkChunkValues(browser, served.url, folder, outcome));
      await outcome.attempt("a sparse array", () => checkSparse(browser, served.url, outcome));
      await outcome.attempt("places", () =>
        checkPlaces(browser, { allowed: served.url, refused: refusing.url }, outcome),
      );
      await outcome.attempt("filled rows", () => checkFilled(browser, served.url, outcome));
      await outcome.attempt("the values", () => checkValues(browser, served.url, folder, outcome));
      await outcome.attempt("statistics", () => checkStatistics(browser, served.url, folder, outcome));
      await outcome.attempt("damaged numbers", () => checkDamagedNumbers(browser, served.url, outcome));
      await outcome.attempt("a long text", () => checkLongText(browser, served.url, outcome));
      await outcome.attempt("what is saved", () => checkSaved(browser, served.url, outcome));
      await outcome.attempt("sorting and planes", () => checkSorting(browser, served.url, outcome));
      await outcome.attempt("forced colours", () => checkForcedColours(browser, served.url, outcome));
      await outcome.attempt("a crowded plot", () => checkCrowdedPlot(browser, served.url, outcome));
      await outcome.attempt("damage", () => checkDamage(browser, served.url, folder, outcome));
      await outcome.attempt("the state", () => checkState(browser, served.url, outcome));
      await outcome.attempt("what has no numbers", () => checkOpaque(browser, served.url, outcome));
      await outcome.attempt("what is not listed", () => checkUnlisted(browser, served.url, outcome));
      await outcome.attempt("on paper", () => checkPrinted(browser, served.url, outcome));
      await outcome.attempt("the focus", () => checkFocus(browser, served.url, outcome));
      await outcome.attempt("steps", () => checkSteps(browser, served.url, outcome));
      await outcome.attempt("what is cut off", () => checkCut(browser, served.url, outcome));
      await outcome.attempt("advice", () => checkAdvice(browser, served.url, outcome));
      await outcome.attempt("indexes", () => checkIndexes(browser, outcome));
      await outcome.attempt("a search", () => checkSearch(browser, served.url, outcome));
      await outcome.attempt("a long list", () => checkLongList(browser, served.url, outcome));
      await outcome.attempt("a phone", () => checkPhone(browser, served.url, outcome));
      await outcome.attempt("what does not move", () => checkCalm(browser, served.url, outcome));
      await outcome.attempt("names", () => checkNames(browser, served.url, outcome));
      await outcome.attempt("lines to paste", () => checkLines(browser, served.url, folder, outcome));
      await outcome.attempt("dropped files", () => checkFiles(browser, served.url, folder, outcome));
      await outcome.attempt("a slow worker", () => checkSlow(browser, served.url, folder, outcome));
      await outcome.attempt("references", () => checkReferences(browser, served.url, outcome));
      await outcome.attempt("from a disk", () => checkFromDisk(browser, folder, outcome));
      await outcome.attempt("a changed archive", () => checkChanged(browser, served.url, folder, outcome));
      await outcome.attempt("an address", () => checkAddress(browser, served.url, outcome));
      await outcome.attempt("a terabyte", () => checkVast(browser, served.url, outcome));
    } finally {
      await served.close();
      await refusing.close();
      await rm(places, { recursive: true, force: true });
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** A Zarr array of many chunks, of which three are stored. */
async function makeSparse(folder: string, length: number, chunk: number): Promise<void> {
  await mkdir(join(folder, "c"), { recursive: true });
  const document = {
    zarr_format: 3,
    node_type: "array",
    shape: [length],
    data_type: "uint8",
    chunk_grid: { name: "regular", configuration: { chunk_shape: [chunk] } },
    chunk_key_encoding: { name: "default" },
    fill_value: 0,
    codecs: [{ name: "bytes" }],
  };
  await writeFile(join(folder, "zarr.json"), JSON.stringify(document));
  for (const index of [0, length / chunk / 2, length / chunk - 1])
    await writeFile(join(folder, "c", String(index)), new Uint8Array(chunk));
}

async function damage(folder: string): Promise<void> {
  const [name = ""] = readdirSync(join(folder, "data")).sort();
  const file = join(folder, "data", name);
  const bytes = await readFile(file);
  const at = bytes.length - 12;
  bytes[at] = (bytes[at] ?? 0) ^ 0xff;
  await writeFile(file, bytes);
}

/** The table below the map has what `chunks` lists. */
async function checkMap(browser: Browser, url: string, folder: string, outcome: Outcome): Promise<void> {
  for (const [archive, column, verdict] of [
    ["daily.bcolz", "close", /No checksums are stored/],
    ["matrix", "", /, and \d+ checksums compared\.$/],
    ["prices.blp", "", /, and \d+ checksums compared\.$/],
  ] as const) {
    const opened = await openArchive(join(folder, archive));
    const part = opened.kind === "table" ? opened.column(column) : opened;
    const expected: string[][] = [];
    for await (const { index, key, offset, ctbytes, nbytes, compressor } of part.listChunks())
      expected.push([
        String(index),
        `${archive.endsWith(".blp") ? "" : `${archive}/`}${key}`,
        String(offset),
        String(ctbytes),
        String(nbytes),
        compressor,
      ]);
    await opened.close();
    const { page, troubles } = await newPage(browser);
    await page.goto(`${url}#archive=${archive}&column=${column}&view=chunks`);
    await page.waitForSelector("[data-listed]", PATIENCE);
    await page.click(".chunk-table summary");
    await page.waitForFunction(
      (count) => document.querySelectorAll(".chunk-table tbody tr").length >= Math.min(count, 8),
      expected.length,
      PATIENCE,
    );
    await page.waitForFunction(
      () => /^\d/.test(document.querySelector(".chunk-table tbody td:nth-of-type(3)")?.textContent ?? ""),
      undefined,
      PATIENCE,
    );
    const found = await page.evaluate(() =>
      [...document.querySelectorAll(".chunk-table tbody tr")].map((row) =>
        [...row.children].map((cell) => cell.textContent ?? ""),
      ),
    );
    const rows = found.map(
      ([index = "", , file = "", offset = "", stored = "", values = "", , codec = ""]) => [
        index,
        file,
        offset,
        stored,
        values,
        codec,
      ],
    );
    outcome.expect(`the map of ${archive}`, rows, expected.slice(0, rows.length));
    await page.waitForSelector('[data-checked="whole"]', PATIENCE);
    const said = (await page.textContent(".good-note")) ?? "";
    outcome.expect(`${archive}: what was checked: ${said}`, verdict.test(said), true);
    // Where it clicked last, the page would move the map below it, and so point to another chunk.
    await page.mouse.move(0, 0);
    await page.focus(".map");
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("Enter");
    await page.waitForFunction(
      () => /Read and decoded/.test(document.querySelector(".detail")?.textContent ?? ""),
      undefined,
      PATIENCE,
    );
    outcome.expect(
      `${archive}: the tip names the file`,
      await page.evaluate(
        (name) => document.querySelector(".tip")?.textContent?.includes(name),
        expected[0]?.[1] ?? "-",
      ),
      true,
    );
    outcome.expect(`${archive}: troubles`, troubles, []);
    await page.close();
  }
}

/** The copied rows are the values. */
async function checkValues(browser: Browser, url: string, folder: string, outcome: Outcome): Promise<void> {
  const opened = await openArchive(join(folder, "daily.bcolz"));
  if (opened.kind !== "table") throw new Error("the corpus has a table here");
  const columns = await Promise.all(
    opened.names.map(
      async (name) => [name, (await opened.column(name).get()) as { data: ArrayLike<number> }] as const,
    ),
  );
  const row = (at: number): Record<string, number> =>
    Object.fromEntries(columns.map(([name, { data }]) => [name, data[at] ?? -1]));
  const { page, troubles } = await newPage(browser);
  await page
    .context()
    .grantPermissions(["clipboard-read", "clipboard-write"], { origin: new URL(url).origin });
  await page.goto(`${url}#archive=daily.bcolz&view=values`);
  await page.waitForFunction(
    () => document.querySelector(".cells td")?.textContent?.match(/\d/),
    undefined,
    PATIENCE,
  );
  await page.fill('input[aria-label="Row to go to"]', "200");
  await page.keyboard.press("Enter");
  await page.waitForFunction(
    () =>
      document.querySelector(".cells tbody th")?.textContent === "200" &&
      document.querySelector(".cells td")?.textContent?.match(/\d/),
    undefined,
    PATIENCE,
  );
  const copied = JSON.parse(await copiedBy(page, "Copy as JSON")) as unknown[];
  outcome.expect(
    "values as JSON",
    copied,
    Array.from(copied, (_, i) => row(200 + i)),
  );
  outcome.expect("there are several rows", copied.length > 5, true);
  outcome.expect(
    "the address keeps the row",
    await comesTrue(page, () => location.hash.includes("row=200")),
    true,
  );
  await page.focus(".virtual");
  for (const key of ["Space", "Shift+ArrowDown", "Shift+ArrowDown"]) await page.keyboard.press(key);
  const chosenRows = '.cells tr[aria-selected="true"] th';
  await page.waitForFunction((rows) => document.querySelectorAll(rows).length === 3, chosenRows, PATIENCE);
  outcome.expect("rows by key", await page.locator(chosenRows).allInnerTexts(), ["200", "201", "202"]);
  const lines = (await copiedBy(page, "Copy as CSV")).trim().split("\n");
  outcome.expect("the chosen rows as CSV, below their names", lines.length, 4);
  await page.focus(".virtual");
  await page.keyboard.press("Escape");
  await page.waitForFunction((rows) => document.querySelector(rows) === null, chosenRows, PATIENCE);
  outcome.expect("troubles", troubles, []);
  await opened.close();
  await page.close();
}

/** What `verify` finds is shown at the same chunk. */
async function checkDamage(browser: Browser, url: string, folder: string, outcome: Outcome): Promise<void> {
  const opened = await openArchive(join(folder, "damaged"));
  const { findings } = await opened.verify();
  await opened.close();
  const { page, troubles } = await newPage(browser);
  await page.goto(`${url}#archive=damaged&view=chunks`);
  await page.waitForSelector('[data-checked="damaged"]', PATIENCE);
  const found = await page.evaluate(() =>
    [...document.querySelectorAll(".findings li")].map((each) => each.textContent ?? ""),
  );
  outcome.expect(
    "findings",
    found.map((text) => text.split(" ")[0]),
    findings.map(({ code }) => code),
  );
  for (const [i, { chunk }] of findings.entries())
    outcome.expect("its chunk", found[i]?.includes(`chunk ${chunk}`), true);
  outcome.expect(
    "a command that repairs",
    await page.evaluate(() => document.body.textContent?.includes("superchunk repair damaged")),
    true,
  );
  const cut = join(await mkdtemp(join(tmpdir(), "superchunk-cut-")), "cut.blp");
  await writeFile(cut, (await readFile(join(folder, "prices.blp"))).subarray(0, 1000));
  const served = await serveView(cut, { page: "only" });
  await page.goto(served.url);
  outcome.expect(
    "what saves the rest of an archive that cannot be opened",
    await page.textContent(".bad-note + .note", PATIENCE),
    "What can be saved: superchunk verify cut.blp",
  );
  await served.close();
  outcome.expect("troubles", troubles, []);
  await page.close();
}

/** An address shows the same state again, also on a narrow screen and in the dark; the browser's back button works. */
async function checkState(browser: Browser, url: string, outcome: Outcome): Promise<void> {
  const { page, troubles } = await newPage(browser, 390);
  await page.emulateMedia({ colorScheme: "dark" });
  await page.goto(`${url}#archive=daily.bcolz&view=plot&first=10&end=50`);
  await page.waitForSelector('[data-plotted="10-50"]', PATIENCE);
  outcome.expect("dark", await page.evaluate(() => document.documentElement.dataset["theme"]), "dark");
  outcome.expect(
    "no scrolling to the side",
    await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth),
    true,
  );
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  const after = await page.evaluate(() => [document.activeElement?.id, location.hash.includes("daily")]);
  outcome.expect("the first link goes to what is shown, and keeps the address", after, ["main", true]);
  for (const [view, ready] of [
    ["overview", ".snippet"],
    ["chunks", "[data-listed]"],
    ["plot", "[data-plotted]"],
  ]) {
    await page.goto(`${url}#archive=wide&view=${view}`);
    await page.waitForSelector(`h1:text-is("wide")`, PATIENCE);
    await page.waitForSelector(`${ready}`, PATIENCE);
    const isInside = await page.evaluate(() => {
      const main = document.querySelector("main");
      return main !== null && main.scrollWidth <= main.clientWidth;
    });
    outcome.expect(`a long name of a column fits: ${view}`, isInside, true);
  }
  await page.goto(`${url}#archive=daily.bcolz&view=plot&first=10&end=50`);
  await page.waitForSelector('[data-plotted="10-50"]', PATIENCE);
  await page.click('[data-view="chunks"]');
  await page.waitForSelector("[data-listed]", PATIENCE);
  await page.goBack();
  await page.waitForSelector('[data-plotted="10-50"]', PATIENCE);
  await page.reload();
  await page.waitForSelector('[data-plotted="10-50"]', PATIENCE);
  await page.goto(`${url}#archive=daily.bcolz&view=plot`);
  await page.waitForSelector("[data-plotted]", PATIENCE);
  const chosen = (): Promise<string[]> =>
    page.$$eval(".bar option:checked, .bar :checked:not(option)", (all) =>
      all.map((each) => each.closest("option, label")?.textContent ?? ""),
    );
  outcome.expect("what is plotted", await chosen(), ["day", "3", "candles"]);
  await page.selectOption("label:has-text('Against') select", { label: "rows" });
  await page.uncheck("label:has-text('candles') input");
  outcome.expect("a line in place of candles", await chosen(), ["rows", "3", "close"]);
  await page.check("label:text-is('candles') input");
  await page.check("label:text-is('high') input");
  outcome.expect("a line that is chosen in place of candles", await chosen(), ["rows", "3", "high"]);
  await page.reload();
  await page.waitForSelector("[data-plotted]", PATIENCE);
  outcome.expect("the same after a reload", await chosen(), ["rows", "3", "high"]);
  await page.uncheck("label:text-is('high') input");
  outcome.expect("no line without a column", await page.locator(".plot canvas").count(), 0);
  await page.check("label:text-is('high') input");
  await page.waitForSelector(".plot canvas", PATIENCE);
  await page.goto(`${url}#archive=matrix&view=picture`);
  await page.waitForSelector("[data-drawn]", PATIENCE);
  // Chromium reloads the page only if more than the fragment changes, so this visit starts at the address.
  await page.goto(`${url}#archive=none`);
  await page.reload();
  await page.waitForSelector('text=No archive here is named "none"', PATIENCE);
  outcome.expect("the heading of an archive that is missing", await page.textContent("h1"), "none");
  await page.goto(`${url}#archive=nested.zarr`);
  await page.click(".members a:text-is('inner/grid')");
  await page.waitForSelector("h1:text-is('nested.zarr/inner/grid')", PATIENCE);
  await page.goto(`${url}#archive=empty&view=values`);
  await page.waitForSelector("text=There are no rows yet", PATIENCE);
  outcome.expect("troubles", troubles, []);
  await page.close();
}

/** Every control has a name. */
async function checkNames(browser: Browser, url: string, outcome: Outcome): Promise<void> {
  for (const [view, ready] of [
    ["overview", ".snippet"],
    ["chunks", "[data-checked]"],
    ["values", ".cells td:text-matches('[0-9]')"],
    ["plot", "[data-counted]"],
  ] as const) {
    const { page } = await newPage(browser);
    await page.goto(`${url}#archive=daily.bcolz&view=${view}`);
    await page.waitForSelector(ready, PATIENCE);
    const nameless = await page.evaluate(() =>
      [
        ...document.querySelectorAll<HTMLElement>(
          "button, input:not([hidden]), select, a, canvas[role], [tabindex='0']",
        ),
      ]
        .filter((each) => {
          const label =
            each.getAttribute("aria-label") ?? each.closest("label")?.textContent ?? each.textContent ?? "";
          return label.trim() === "" && each.offsetParent !== null;
        })
        .map((each) => each.outerHTML.slice(0, 80)),
    );
    outcome.expect(`without a name in ${view}`, nameless, []);
    await page.close();
  }
}

/** The lines for JavaScript and for the command do what the page says, in the folder that is shown. */
async function checkLines(browser: Browser, url: string, folder: string, outcome: Outcome): Promise<void> {
  const entry = pathToFileURL(join(repositoryRoot, "dist", "src", "node", "index.js")).href;
  const { page, troubles } = await newPage(browser);
  for (const [state, shown] of [
    ["archive=daily.bcolz", "table.length"],
    ["archive=daily.bcolz&column=close", "data.length"],
    ["archive=matrix", "data.length"],
    ["archive=grid", "data.length"],
  ] as const) {
    await page.goto(`${url}#${state}`);
    await page.waitForSelector(`h1:has-text('${state.split("=").at(-1)}')`, PATIENCE);
    await page.waitForSelector(".snippet", PATIENCE);
    const texts = await page.locator(".snippet pre").allTextContents();
    const script = texts.find((text) => text.includes("superchunk/node"))?.replace("superchunk/node", entry);
    const run = (program: string, ...args: readonly string[]): ReturnType<typeof spawnSync> =>
      spawnSync(program, args, { cwd: folder, encoding: "utf8" });
    const source = `${script}\nconsole.log(${shown});`;
    const printed = run(process.execPath, "--input-type=module", "--eval", source);
    outcome.expect(`JavaScript for ${state}: ${printed.stderr}`, Number(printed.stdout) > 0, true);
    const [command = ""] = texts.find((text) => text.startsWith("superchunk convert"))?.split("\n") ?? [];
    const [, ...args] = command.split(" ");
    const made = run(process.execPath, join(repositoryRoot, "dist", "cli", "main.js"), ...args);
    outcome.expect(`${command}: ${made.stderr}`, made.status, 0);
    const file = await readFile(join(folder, "values.parquet"));
    outcome.expect("a file of Parquet", file.subarray(-4).toString(), "PAR1");
    await rm(join(folder, "values.parquet"));
  }
  outcome.expect("troubles", troubles, []);
  await page.close();
}

/** Files of a disk, chosen and dropped. */
async function checkFiles(browser: Browser, url: string, folder: string, outcome: Outcome): Promise<void> {
  const { page, troubles } = await newPage(browser);
  await page.goto(url);
  await page.waitForSelector("#tree a", PATIENCE);
  await page.setInputFiles("#files", join(folder, "prices.blp"));
  await page.waitForFunction(() => document.querySelectorAll("#tree > li").length === 1, undefined, PATIENCE);
  await page.waitForSelector("h1:has-text('prices.blp')", PATIENCE);
  await page.setInputFiles("#folder", join(folder, "daily.bcolz"));
  await page.waitForSelector("#tree a:has-text('volume')", PATIENCE);
  const root = join(folder, "matrix");
  const files = (readdirSync(root, { recursive: true }) as string[]).filter((name) =>
    statSync(join(root, name)).isFile(),
  );
  const made = await Promise.all(
    files.map(
      async (name) =>
        [`matrix/${name.replaceAll("\\", "/")}`, [...(await readFile(join(root, name)))]] as const,
    ),
  );
  await page.evaluate((list) => {
    const transfer = new DataTransfer();
    for (const [path, bytes] of list) {
      const file = new File([new Uint8Array(bytes)], path.split("/").at(-1) ?? "");
      transfer.items.add(file);
    }
    window.dispatchEvent(new DragEvent("dragover", { dataTransfer: transfer }));
  }, made);
  outcome.expect(
    "the page says where to drop",
    await page.evaluate(() => !document.getElementById("drop")?.hidden),
    true,
  );
  await page.evaluate(
    (bytes) => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([new Uint8Array(bytes)], "dropped.blp"));
      window.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer }));
    },
    [...(await readFile(join(folder, "prices.blp")))],
  );
  await page.waitForSelector("h1:has-text('dropped.blp')", PATIENCE);
  await page.setInputFiles("#files", {
    name: "notes.txt",
    mimeType: "text/plain",
    buffer: Buffer.from("not an archive"),
  });
  await page.waitForSelector(".bad-note", PATIENCE);
  const said = [await page.textContent("h1"), await page.title()];
  outcome.expect("what names a file that holds no archive", said, ["notes.txt", "notes.txt · superchunk"]);
  outcome.expect("troubles", troubles, []);
  await page.close();
}

/** Rows that are appended while an archive is shown: the page does not mix the old and the new state without a word. */
async function checkChanged(browser: Browser, url: string, folder: string, outcome: Outcome): Promise<void> {
  const { page, troubles } = await newPage(browser);
  await page.goto(`${url}#archive=growing&view=values`);
  await page.waitForSelector(".cells td:text-matches('[0-9]')", PATIENCE);
  const command = [join(repositoryRoot, "build", "cli", "main.js"), "append", "growing", "numbers.raw"];
  execFileSync(process.execPath, command, { cwd: folder, stdio: "ignore" });
  await page.click('[data-view="plot"]');
  await page.waitForSelector("text=This archive has changed", PATIENCE);
  await page.reload();
  await page.waitForSelector("[data-counted]", PATIENCE);
  outcome.expect("no note after a reload", await page.locator(".warn-note").count(), 0);
  outcome.expect("its rows", (await page.locator(".facts:has-text('2,000 values')").count()) > 0, true);
  outcome.expect("troubles", troubles, []);
  await page.close();
}

/** An archive of another address, named in the page's own. */
async function checkAddress(browser: Browser, url: string, outcome: Outcome): Promise<void> {
  const { page, troubles } = await newPage(browser);
  const file = `${url}__superchunk__/files/0/prices.blp`;
  await page.goto(`${url}?url=${encodeURIComponent(file)}#view=chunks`);
  await page.waitForSelector("h1:has-text('prices.blp')", PATIENCE);
  await page.waitForSelector('[data-view="chunks"][aria-selected="true"]', PATIENCE);
  await page.waitForSelector(".facts:has-text('float64')", PATIENCE);
  outcome.expect("troubles", troubles, []);
  await page.close();
}

/** A set of references, dropped with what it refers to: by an address elsewhere, and by ones relative to the set. */
async function checkReferences(browser: Browser, url: string, outcome: Outcome): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "superchunk-set-"));
  await cp(join(corpusFolder, TABLE), join(folder, "daily.bcolz"), { recursive: true });
  const command = [join(repositoryRoot, "build", "cli", "main.js"), "virtualize", "daily.bcolz", "set.json"];
  execFileSync(process.execPath, command, { cwd: folder, stdio: "ignore" });
  const set = await readFile(join(folder, "set.json"), "utf8");
  await writeFile(join(folder, "moved.json"), set.replaceAll(`${folder}/`, "/elsewhere/"));
  await writeFile(join(folder, "near.json"), set.replaceAll(`file://${folder}/`, "./"));
  await mkdir(join(folder, "sets"));
  await writeFile(join(folder, "sets", "up.json"), set.replaceAll(`file://${folder}/`, "../sets/./../"));
  await writeFile(join(folder, "other.json"), "{}");
  const { page, troubles } = await newPage(browser);
  await page.goto(url);
  await page.waitForSelector("#tree a", PATIENCE);
  await page.setInputFiles("#folder", folder);
  const rows: string[] = [];
  for (const name of ["daily.bcolz", "moved.json", "near.json", "set.json", "sets/up.json"]) {
    await page.waitForSelector(`#tree a:has-text("${name}")`, PATIENCE);
    const state = new URLSearchParams({ archive: `${basename(folder)}/${name}`, view: "values" });
    await page.evaluate((hash) => {
      location.hash = hash;
    }, state.toString());
    // Looked at together: the view is drawn again once all archives are listed.
    const shown = await page.waitForFunction(
      (heading) =>
        document.querySelector("h1")?.textContent?.includes(heading) === true &&
        /\d/.test(document.querySelector(".cells td")?.textContent ?? "") &&
        document.querySelector(".cells tbody tr")?.textContent,
      name,
      PATIENCE,
    );
    const row = String(await shown.jsonValue());
    const known = rows.at(0) ?? row;
    rows.push(row);
    outcome.expect(`the first row of ${name}`, row, known);
  }
  outcome.expect("what is not a set", await page.locator("#tree a:has-text('other.json')").count(), 0);
  outcome.expect("troubles", troubles, []);
  await page.close();
  await rm(folder, { recursive: true, force: true });
}

/** The page as one file, opened from a disk: it reads the chosen files, and makes no requests. */
async function checkFromDisk(browser: Browser, folder: string, outcome: Outcome): Promise<void> {
  const single = join(folder, "page.html");
  execFileSync(process.execPath, [join(repositoryRoot, "scripts", "build-page.mjs"), "--single", single]);
  const { page, troubles, requests } = await newPage(browser);
  await page.goto(pathToFileURL(single).href);
  await page.waitForSelector("text=See what your archives hold", PATIENCE);
  await page.setInputFiles("#folder", join(folder, "matrix"));
  await page.waitForSelector("h1:has-text('matrix')", PATIENCE);
  await page.click('[data-view="chunks"]');
  await page.waitForSelector('[data-checked="whole"]', PATIENCE);
  const asked = requests.filter((each) => !/^(?:data|blob|file):/.test(each));
  outcome.expect("requests of the page from a disk", asked, []);
  outcome.expect("troubles", troubles, []);
  await page.close();
}

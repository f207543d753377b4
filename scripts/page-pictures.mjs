/**
 * Makes the pictures of the page in docs/images: `node scripts/page-pictures.mjs`, after `npm run build`, with Chromium.
 *
 * Creates the same archives each time: daily bars of many assets with two damaged chunks, and a field over time. Drives the built
 * page like a user.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { encodeNpyHeader, parseDType } from "../build/src/index.js";
import { serveView } from "../build/src/node/index.js";

const root = fileURLToPath(new URL("..", import.meta.url));
const images = join(root, "docs", "images");
const ASSETS = 160;
const DAYS = 750;
const DAY = 86_400;

/** Pseudo-random numbers, the same each time. */
let seed = 20_240_301;
function draw() {
  seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
  return seed / 2 ** 32;
}
const normal = () => Math.sqrt(-2 * Math.log(draw() + 1e-12)) * Math.cos(2 * Math.PI * draw());

function writeNpy(path, dtype, shape, values) {
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  writeFileSync(path, Buffer.concat([encodeNpyHeader(parseDType(dtype, path), shape), bytes]));
}

const superchunk = (cwd, ...args) =>
  execFileSync(process.execPath, [join(root, "dist", "cli", "main.js"), ...args], { cwd, stdio: "ignore" });

function makeBars(folder) {
  const names = ["open", "high", "low", "close", "volume", "day", "id"];
  const columns = Object.fromEntries(names.map((name) => [name, new Uint32Array(ASSETS * DAYS)]));
  const days = [];
  for (let at = Date.UTC(2022, 0, 3) / 1000; days.length < DAYS; at += DAY)
    if (![0, 6].includes(new Date(1000 * at).getUTCDay())) days.push(at);
  const [first, last] = [{}, {}];
  let row = 0;
  for (let asset = 1; asset <= ASSETS; asset++) {
    let price = 15 + 250 * draw() ** 2;
    const [swing, traded] = [0.006 + 0.02 * draw() ** 2, Math.exp(9 + 6 * draw())];
    // Some assets were hardly traded: their prices stay constant, and their chunks are small.
    const isQuiet = draw() < 0.15;
    first[asset] = row;
    for (const day of days) {
      const moves = isQuiet ? draw() < 0.05 : true;
      const open = price * (moves ? Math.exp(0.4 * swing * normal()) : 1);
      if (moves) price *= Math.exp(swing * normal() + 0.0002);
      const spread = moves ? swing * Math.abs(normal()) * 0.5 : 0;
      const put = (name, value) => {
        columns[name][row] = Math.round(1000 * Math.round(100 * value)) / 100;
      };
      put("open", open);
      put("close", price);
      put("high", Math.max(open, price) * (1 + spread));
      put("low", Math.min(open, price) * (1 - spread));
      columns.volume[row] = moves ? Math.round(traded * Math.exp(0.5 * normal())) : 0;
      columns.day[row] = day;
      columns.id[row] = asset;
      row++;
    }
    last[asset] = row - 1;
  }
  for (const name of names) writeNpy(join(folder, `${name}.npy`), "<u4", [row], columns[name]);
  const made = names.flatMap((name) => ["--column", `${name}=${name}.npy`]);
  const attributes = { first_row: first, last_row: last, calendar_name: "XNYS" };
  const attrs = Object.entries(attributes).flatMap(([name, value]) => [
    "--attr",
    `${name}=${JSON.stringify(value)}`,
  ]);
  superchunk(
    folder,
    "create",
    "shown/daily_equities.bcolz",
    "--as",
    "ctable",
    ...made,
    "--chunklen",
    "256",
    ...attrs,
  );
  for (const chunk of [97, 98, 301]) {
    const file = join(folder, `shown/daily_equities.bcolz/close/data/__${chunk}.blp`);
    const bytes = readFileSync(file);
    // Like a bad sector.
    bytes.fill(0, 16 + 40, 16 + 300);
    writeFileSync(file, bytes);
  }
}

function makeField(folder) {
  const [hours, height, width] = [24, 90, 180];
  const values = new Float32Array(hours * height * width);
  for (let at = 0, hour = 0; hour < hours; hour++)
    for (let y = 0; y < height; y++)
      for (let x = 0; x < width; x++, at++) {
        const [latitude, longitude] = [90 - 2 * y, 2 * x - 180];
        const warmth = 27 - 46 * Math.abs((latitude - 6) / 90) ** 1.5;
        const wave = 6 * Math.sin((2 * longitude + 3 * latitude) / 57.3) * Math.cos(latitude / 57.3);
        values[at] = Math.round(10 * (warmth + wave + 4 * Math.cos((longitude - 15 * hour) / 57.3))) / 10;
      }
  writeNpy(join(folder, "field.npy"), "<f4", [hours, height, width], values);
  superchunk(
    folder,
    "create",
    "shown/temperature",
    "--from",
    "field.npy",
    "--chunklen",
    "1",
    "--codec",
    "zstd",
  );
}

/** The state that each picture shows, and a selector that is present once it is shown. */
const PICTURES = [
  ["chunks", "archive=daily_equities.bcolz&column=close&view=chunks", "[data-checked]"],
  ["plot", "archive=daily_equities.bcolz&view=plot&first=750&end=1000", "[data-counted]"],
];
const SIZES = [
  [1280, 800],
  [390, 800],
];

const folder = mkdtempSync(join(tmpdir(), "superchunk-pictures-"));
let browser;
let served;
try {
  mkdirSync(join(folder, "shown"));
  makeBars(folder);
  makeField(folder);
  served = await serveView(join(folder, "shown"), { page: "only" });
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu"],
  });
  for (const colorScheme of ["light", "dark"])
    for (const [width, height] of SIZES)
      for (const [name, state, ready] of PICTURES) {
        const page = await browser.newPage({ viewport: { width, height }, colorScheme });
        await page.goto(`${served.url}#${state}`);
        await page.waitForSelector(ready, { timeout: 120_000 });
        await page.waitForFunction(
          () => !/\bso far\b/.test(document.getElementById("count")?.textContent ?? ""),
        );
        await page.waitForTimeout(2500);
        if (name === "chunks" && width > 1000) await page.hover(".map", { position: { x: 560, y: 40 } });
        await page.waitForTimeout(300);
        await page.screenshot({ path: join(images, `page-${name}-${colorScheme}-${width}.png`) });
        console.log(`docs/images/page-${name}-${colorScheme}-${width}.png`);
        await page.close();
      }
} finally {
  await browser?.close();
  await served?.close();
  rmSync(folder, { recursive: true, force: true });
}

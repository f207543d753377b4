/**
 * The page of the package, with the published files: what a browser loads of it, for single archives and for a
 * folder of them.
 */
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { corpusFolder, repositoryRoot } from "../fixtures/manifest.ts";
import { FLAGS, findChromium } from "./chromium.ts";
import { Outcome } from "./outcome.ts";
import { checkView } from "./page-weights.ts";

const other = (...path: readonly string[]): string => join(repositoryRoot, "fixtures", ...path);
/** Contents of the folder that is shown: a table, arrays, and three formats with their own readers. */
const ARCHIVES = [
  [join(corpusFolder, "ctable/bcolz-daily-equities"), "daily.bcolz"],
  [join(corpusFolder, "blz-superchunk/i8-2d-crc32"), "matrix"],
  [join(corpusFolder, "bloscpack-3/array-f8.blp"), "prices.blp"],
  [other("blosc2", "lz4.b2nd"), "frame.b2nd"],
  [other("blosc2", "zeros.b2nd"), "line.b2nd"],
  [other("blosc2-tables", "table.b2z"), "table.b2z"],
  [other("blosc2-tables", "deleted.b2z"), "deleted.b2z"],
  [other("blosc2-tables", "text.b2z"), "text.b2z"],
  [other("blosc2", "uneven.b2nd"), "uneven.b2nd"],
  [other("hdf5", "h5py-latest.h5"), "bars.h5"],
] as const;

const CELLS = ".cells td:text-matches('[0-9]')";
/** No view loads more; in a folder, archives in sight next to the chosen one are opened too. */
const MOST = 150_000;
/** Views, what is present once they are shown, and how many compressed bytes of scripts and markup they load at most. */
const VIEWS = [
  ["daily.bcolz&column=close&view=values", CELLS, 106_000],
  ["daily.bcolz&column=close&view=chunks", "[data-checked]", 111_300],
  ["daily.bcolz&view=plot", "[data-counted]", 126_000],
  ["prices.blp&view=plot", "[data-counted]", 129_000],
  ["matrix&view=picture", "[data-drawn]", 114_000],
  ["ticks.zarr&view=plot", "[data-counted]", 129_000],
  ["ticks.zarr&view=chunks", "[data-checked]", 118_000],
  ["frame.b2nd&view=picture", "[data-drawn]", 129_000],
  ["frame.b2nd&view=chunks", "[data-checked]", 135_000],
  ["line.b2nd&view=plot", "[data-counted]", 145_000],
  ["table.b2z&view=plot", "[data-counted]", MOST],
  ["table.b2z/price&view=values", CELLS, MOST],
  // Chunks that are made when they are read.
  ["deleted.b2z&view=plot", "[data-counted]", MOST],
  ["text.b2z/utf8&view=values", ".cells td:text-matches('ü')", 136_500],
  ["text.b2z/vl&view=chunks", "[data-checked]", MOST],
  ["uneven.b2nd&view=picture", "[data-drawn]", 129_000],
  ["bars.h5/big-endian&view=plot", "[data-counted]", MOST],
  ["bars.h5&view=overview", ".snippet", 120_000],
] as const;

/**
 * Visits the page that an installed package serves; resolves with what it loads in excess, or wrongly.
 *
 * The argument is the package's entry for Node.js.
 */
export async function checkPacked({
  create,
  serveView,
}: typeof import("superchunk/node")): Promise<readonly string[]> {
  const executablePath = findChromium();
  if (executablePath === undefined) return ["no Chromium found"];
  const folder = mkdtempSync(join(tmpdir(), "superchunk-packed-"));
  const outcome = new Outcome();
  const browser = await chromium.launch({ executablePath, args: [...FLAGS] });
  const look = async (
    shown: string,
    views: readonly (typeof VIEWS)[number][],
    most?: number,
  ): Promise<void> => {
    const served = await serveView(shown, { page: "only" });
    for (const [state, ready, limit] of views)
      await outcome.attempt(`${shown}: ${state}`, () =>
        checkView(browser, served.url, [state, ready, most ?? limit], outcome),
      );
    await served.close();
  };
  try {
    for (const [from, to] of ARCHIVES) cpSync(from, join(folder, to), { recursive: true });
    const values = Float64Array.from({ length: 5000 }, (_, i) => Math.sqrt(i));
    const options = { format: "zarr", dtype: "<f8", shape: [0], chunkShape: [1000], data: values } as const;
    await (await create(join(folder, "ticks.zarr"), options)).close();
    for (const view of VIEWS) await look(join(folder, view[0].replace(/[&/].*/, "")), [view]);
    await look(folder, VIEWS.slice(0, 5), MOST);
  } finally {
    await browser.close();
    rmSync(folder, { recursive: true, force: true });
  }
  return outcome.failures;
}

/**
 * The page and the pool in Chromium: `npm run bench -- page`. Bars: the first pixels of a terabyte in 500 ms and 10 requests; 60 frames a
 * second on a map of a million chunks; two workers 1.6 times as fast as one. `BENCH_ONLY=pixels,frames,pool` selects among them. Headless
 * Chromium draws without a graphics card, so frames take longer; the part of scripts is shown as well.
 */
import { load } from "../../test/browser/bundle.mjs";
import { printTable, saveResults } from "../report.mjs";

const { measure } = await load("measure");
const only = (process.env.BENCH_ONLY ?? "").split(",").filter((name) => name !== "");
const found = await measure(only);
for (const [name, figures] of Object.entries(found))
  printTable(name, ["", "median"], Object.entries(figures));
saveResults("page", found);

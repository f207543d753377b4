/** Random elements through the view compared with the converted copy, both read by zarrita from the same disk. Bar: 1.3 times the time. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import * as zarr from "zarrita";
import { FileStore, open } from "../../build/src/node/index.js";
import { convert, zarrView } from "../../build/src/zarr.js";
import { LARGE, makeCarray } from "../read/arrays.mjs";
import { median, printTable, saveResults, workFolder } from "../report.mjs";

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 5);
const ELEMENTS = Number(process.env.BENCH_ELEMENTS ?? 200);
const BAR = 1.3;
const folder = workFolder();
const source = await makeCarray(join(folder, "prices-1GB"), LARGE);
const copy = join(folder, "view-copy.zarr");
if (!existsSync(join(copy, "zarr.json")))
  await convert(await open(source), { store: new FileStore(copy) }, { resume: existsSync(copy) });

const archive = await open(source);
const view = zarrView(archive);
const target = new FileStore(copy);
const converted = {
  get: (key) => target.get(key.slice(1)),
  getRange: (key, range) => target.getRange(key.slice(1), range),
};
const arrays = {
  view: await zarr.open.v3(zarr.root(view), { kind: "array" }),
  copy: await zarr.open.v3(zarr.root(converted), { kind: "array" }),
};
const [rows] = arrays.view.shape;

/** Milliseconds for each element, and the values, at the same random places for both. */
async function elements(array, round) {
  let seed = round * 7919 + 1;
  const next = () => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return seed / 2147483648;
  };
  const found = [];
  const start = performance.now();
  for (let i = 0; i < ELEMENTS; i++) found.push(await zarr.get(array, [Math.floor(next() * rows)]));
  return { ms: (performance.now() - start) / ELEMENTS, found };
}

const times = { view: [], copy: [] };
for (const name of ["view", "copy"]) await elements(arrays[name], 0);
for (let round = 1; round <= ROUNDS; round++) {
  const order = round % 2 === 0 ? ["view", "copy"] : ["copy", "view"];
  const answers = {};
  for (const name of order) {
    const { ms, found } = await elements(arrays[name], round);
    times[name].push(ms);
    answers[name] = found;
  }
  if (JSON.stringify(answers.view) !== JSON.stringify(answers.copy)) throw new Error("values differ");
}
const ratio = median(times.view.map((ms, i) => ms / times.copy[i]));
printTable(
  `random elements of ${rows}, read by zarrita, ms each (bar: ${BAR} x)`,
  ["", "ms"],
  [
    ["through the view", median(times.view)],
    ["converted copy", median(times.copy)],
    ["ratio", ratio],
  ],
);

saveResults("view", {
  rounds: ROUNDS,
  elements: { count: ELEMENTS, viewMs: median(times.view), copyMs: median(times.copy), ratio, bar: BAR },
});
await archive.close();
await target.close();
if (ratio > BAR) {
  console.error(`the view is ${ratio.toFixed(2)} x slower than the copy; the bar is ${BAR} x`);
  process.exitCode = 1;
}

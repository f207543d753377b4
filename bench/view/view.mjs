/**
 * Random elements through the view against the converted copy, both read by zarrita from the same disk; and whole chunks from
 * `serve` on loopback against node's own file server over the shards of the copy. Bar: elements within 1.3 x.
 */
import { createReadStream, existsSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import * as zarr from "zarrita";
import { convertArchive, zarrView } from "../../dist/src/bridge/index.js";
import { FileStore, open, serveView } from "../../dist/src/node/index.js";
import { LARGE, makeCarray } from "../read/arrays.mjs";
import { median, printTable, saveResults, workFolder } from "../report.mjs";

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 5);
const ELEMENTS = Number(process.env.BENCH_ELEMENTS ?? 200);
const BAR = 1.3;
const folder = workFolder();
const source = await makeCarray(join(folder, "prices-1GB"), LARGE);
const copy = join(folder, "view-copy.zarr");
if (!existsSync(join(copy, "zarr.json")))
  await convertArchive(await open(source), new FileStore(copy), "", { resume: existsSync(copy) });

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

/** Milliseconds for each element, and what was read, at the same random places for both. */
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

/** Bytes a second from a server, four requests at a time. */
async function throughput(url, keys) {
  let bytes = 0;
  const waiting = [...keys];
  const work = async () => {
    for (let key = waiting.pop(); key !== undefined; key = waiting.pop()) {
      const response = await fetch(url + key);
      if (response.status !== 200) throw new Error(`${key}: ${response.status}`);
      bytes += (await response.arrayBuffer()).byteLength;
    }
  };
  const start = performance.now();
  await Promise.all([work(), work(), work(), work()]);
  return bytes / 1e6 / ((performance.now() - start) / 1000);
}

const served = await serveView(view);
const plain = createServer((request, response) => {
  const path = join(copy, request.url);
  response.writeHead(200, { "content-length": statSync(path).size });
  createReadStream(path, { highWaterMark: 1 << 20 }).pipe(response);
});
await new Promise((resolve) => plain.listen(0, "127.0.0.1", resolve));
const chunks = Math.ceil(rows / arrays.view.chunks[0]);
const shards = Math.ceil(rows / arrays.copy.chunks[0]);
const keysOf = (count) => Array.from({ length: count }, (_, i) => `c/${i}`);
const speeds = { serve: [], files: [] };
const copied = [];
for (let i = 0; ; i++) {
  if (!existsSync(join(copy, `c/${i}`))) break;
  copied.push(`c/${i}`);
}
for (let round = 0; round < Math.min(3, ROUNDS); round++) {
  speeds.serve.push(await throughput(served.url, keysOf(chunks - 1)));
  speeds.files.push(await throughput(`http://127.0.0.1:${plain.address().port}/`, copied));
}
printTable(
  "over loopback, MB/s of stored bytes",
  ["", "MB/s"],
  [
    ["serve (checks every chunk)", median(speeds.serve)],
    ["node's file server, converted copy", median(speeds.files)],
  ],
);
saveResults("view", {
  rounds: ROUNDS,
  elements: { count: ELEMENTS, viewMs: median(times.view), copyMs: median(times.copy), ratio, bar: BAR },
  serve: { megabytesPerSecond: median(speeds.serve), fileServer: median(speeds.files), shards },
});
await served.close();
plain.closeAllConnections();
plain.close();
await archive.close();
await target.close();
if (ratio > BAR) {
  console.error(`the view is ${ratio.toFixed(2)} x slower than the copy; the bar is ${BAR} x`);
  process.exitCode = 1;
}

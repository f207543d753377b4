/**
 * Throughput of `superchunk serve` on loopback compared with nginx, each in a separate process, for a client process with four
 * persistent connections: the stored chunks of an archive of 1 GB, and the same bytes from the shards of its converted copy.
 * Aim: half of nginx.
 */
import { spawn, spawnSync } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { FileStore, open } from "../../build/src/node/index.js";
import { LARGE, makeCarray } from "../read/arrays.mjs";
import { median, printTable, saveResults, workFolder } from "../report.mjs";
import { startNginx } from "./nginx.mjs";

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 5);
const CONNECTIONS = 4;
const AIM = 0.5;
const folder = workFolder();
const source = await makeCarray(join(folder, "prices-1GB"), LARGE);
const copy = join(folder, "view-copy.zarr");
const archive = await open(source);
if (!existsSync(join(copy, "zarr.json")))
  await convert(archive, { store: new FileStore(copy) }, { resume: existsSync(copy) });
const { nchunks } = archive;
/** The last chunk is short, so it is padded and not a file's bytes. */
const whole = nchunks - 1;
const sizes = [];
for await (const { ctbytes } of archive.listChunks({ end: whole })) sizes.push(ctbytes);
await archive.close();

/** Starts the command like a user. */
async function startServe() {
  const command = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
  const child = spawn(process.execPath, [command, "serve", source, "--port", "0"], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  for await (const line of createInterface(child.stdout)) {
    const url = /http:\/\/\S+\//.exec(line)?.[0];
    if (url === undefined) continue;
    child.stdout.resume();
    return {
      url,
      async stop() {
        child.kill("SIGINT");
        await ended;
      },
    };
  }
  throw new Error("serve did not start");
}

function load(jobs) {
  const file = fileURLToPath(new URL("load.mjs", import.meta.url));
  const { status, stdout, stderr } = spawnSync(process.execPath, [file, String(CONNECTIONS)], {
    input: JSON.stringify(jobs),
  });
  if (status !== 0) throw new Error(String(stderr));
  const { bytes, seconds, requests } = JSON.parse(String(stdout));
  return { speed: bytes / 1e6 / seconds, perSecond: requests / seconds };
}

/** Chunks as ranges of the shards, with the sizes of the archive's chunks. */
function rangesOf(url) {
  const jobs = [];
  let chunk = 0;
  for (let shard = 0; chunk < whole; shard++) {
    const path = join(copy, "c", String(shard));
    if (!existsSync(path)) break;
    const { size } = statSync(path);
    for (let at = 0; chunk < whole && at + sizes[chunk] <= size; at += sizes[chunk++])
      jobs.push({ url: `${url}c/${shard}`, range: `bytes=${at}-${at + sizes[chunk] - 1}` });
  }
  return jobs;
}

const serve = await startServe();
const nginx = await startNginx(copy);
const node = `${serve.url}prices-1GB/`;
const shards = Array.from({ length: 1000 }, (_, i) => i).filter((i) =>
  existsSync(join(copy, "c", String(i))),
);
const runs = {
  "serve, chunks": () => load(Array.from({ length: whole }, (_, i) => ({ url: `${node}c/${i}` }))),
  "serve, metadata": () => load(Array.from({ length: 2000 }, () => ({ url: `${node}zarr.json` }))),
};
if (nginx === undefined)
  console.log("nginx is not installed (Debian: apt-get install nginx-light): serve is measured alone");
else {
  runs["nginx, chunks as ranges of shards"] = () => load(rangesOf(nginx.url));
  runs["nginx, whole shards"] = () => load(shards.map((i) => ({ url: `${nginx.url}c/${i}` })));
  runs["nginx, metadata"] = () =>
    load(Array.from({ length: 2000 }, () => ({ url: `${nginx.url}zarr.json` })));
}
const found = Object.fromEntries(Object.keys(runs).map((name) => [name, []]));
for (const run of Object.values(runs)) run();
for (let round = 0; round < ROUNDS; round++)
  for (const name of round % 2 === 0 ? Object.keys(runs) : Object.keys(runs).reverse())
    found[name].push(runs[name]());

const middle = (name, member) => median(found[name].map((run) => run[member]));
printTable(
  `${whole} chunks of about ${Math.round(sizes[0] / 1000)} kB over loopback, ${CONNECTIONS} connections`,
  ["", "MB/s", "requests/s"],
  Object.keys(runs).map((name) => [name, middle(name, "speed"), middle(name, "perSecond")]),
);
const results = Object.fromEntries(
  Object.keys(runs).map((name) => [
    name,
    { megabytesPerSecond: middle(name, "speed"), requestsPerSecond: middle(name, "perSecond") },
  ]),
);
let ratio;
if (nginx !== undefined) {
  ratio = median(found["serve, chunks"].map(({ speed }, i) => speed / found["nginx, whole shards"][i].speed));
  printTable(`serve / nginx (aim: ${AIM})`, ["", "ratio"], [["whole chunks / whole shards", ratio]]);
}
saveResults("serve", { rounds: ROUNDS, aim: AIM, nginx: nginx?.version, ratio, results });
await serve.stop();
await nginx?.stop();
if (ratio !== undefined && ratio < AIM) {
  console.error(`serve has ${ratio.toFixed(2)} of nginx's throughput; the aim is ${AIM}`);
  process.exitCode = 1;
}

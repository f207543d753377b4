/**
 * Referencing 1 GB of prices in bcolz (954 files of a chunk), a file with a million chunks, and a million files of a chunk,
 * as kerchunk's JSON and Parquet and as Icechunk, compared with the same references written in Python with kerchunk and
 * VirtualiZarr (bar: a million under a minute and 300 MB). Times are those of whole processes; the time of Python's imports
 * is reported. Superchunk checks every object twice and reads samples back, Python does neither. Readers are not compared;
 * the interop suite does that. The million files are made once, which takes a minute or two.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { LARGE, makeBloscpack, makeCarray } from "../read/arrays.mjs";
import { median, printTable, saveResults, workFolder } from "../report.mjs";

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3);
const CHUNKS = Number(process.env.BENCH_REFERENCES_CHUNKS ?? 1_000_000);
const CHUNK_ITEMS = 128;
const folder = workFolder();
const interop = fileURLToPath(new URL("../../.cache/interop", import.meta.url));
const main = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
const tellPeak = `data:text/javascript,import{writeSync}from"node:fs";process.on("exit",()=>writeSync(3,String(process.resourceUsage().maxRSS)))`;

const FORMS = [
  { form: "json", to: "kerchunk", name: "references.json", peer: "json, ujson" },
  { form: "parquet", to: "kerchunk-parquet", name: "references.parq", peer: "fsspec's LazyReferenceMapper" },
  { form: "icechunk", to: "icechunk", name: "references.icechunk", peer: "VirtualiZarr to_icechunk" },
];

/** Node as it is, or with Debian 13's C library, which the interop suites unpack; undefined if neither loads Icechunk. */
function findNode() {
  const libraries = join(interop, "debian-13", "root", "usr", "lib", "x86_64-linux-gnu");
  const newer = [
    join(libraries, "ld-linux-x86-64.so.2"),
    ["--library-path", `${libraries}:/usr/lib/x86_64-linux-gnu`, process.execPath],
  ];
  const script = 'await import("@earthmover/icechunk")';
  return [[process.execPath, []], newer].find(
    ([program, args]) =>
      existsSync(program) &&
      spawnSync(program, [...args, "--input-type=module", "-e", script], {
        cwd: fileURLToPath(new URL("../..", import.meta.url)),
      }).status === 0,
  );
}

function findPython() {
  if (!existsSync(interop)) return undefined;
  const name = readdirSync(interop).find(
    (each) => /^references-/.test(each) && existsSync(join(interop, each, "ready")),
  );
  return name && join(interop, name, "python", "bin", "python");
}

function measureCommand([program, args], source, target, to) {
  rmSync(target, { recursive: true, force: true });
  const started = performance.now();
  const { status, output } = spawnSync(
    program,
    [...args, "--import", tellPeak, main, "virtualize", source, target, "--to", to],
    { stdio: ["ignore", "ignore", "pipe", "pipe"], encoding: "utf8" },
  );
  if (status !== 0) throw new Error(`virtualize ${source}: ${output[2]}`);
  return { seconds: (performance.now() - started) / 1000, peakMB: Math.round(Number(output[3]) / 1000) };
}

function measurePeer(python, source, target, form) {
  rmSync(target, { recursive: true, force: true });
  const script = fileURLToPath(new URL("peers.py", import.meta.url));
  const started = performance.now();
  const { status, stdout, stderr } = spawnSync(python, [script, source, form, target], { encoding: "utf8" });
  if (status !== 0) throw new Error(`${form} in Python: ${stderr}`);
  const { seconds: work, peakMB } = JSON.parse(stdout.trim().split("\n").at(-1));
  return { seconds: (performance.now() - started) / 1000, work, peakMB };
}

/** The median of several rounds, one after the other. */
function middle(count, measure) {
  const rounds = Array.from({ length: count }, measure);
  return {
    seconds: median(rounds.map(({ seconds }) => seconds)),
    ...(rounds[0]?.work === undefined ? {} : { work: median(rounds.map(({ work }) => work)) }),
    peakMB: Math.max(...rounds.map(({ peakMB }) => peakMB)),
  };
}

const million = { items: CHUNKS * CHUNK_ITEMS, chunkItems: CHUNK_ITEMS };
/** Number of rounds, and how each source is made; long measurements run once. */
const SOURCES = {
  "bcolz, 954 files": [ROUNDS, () => makeCarray(join(folder, "prices-1GB"), LARGE)],
  [`.blp, ${CHUNKS} chunks`]: [1, () => makeBloscpack(join(folder, `chunks-${CHUNKS}.blp`), million)],
  [`bcolz, ${CHUNKS} files`]: [1, () => makeCarray(join(folder, `files-${CHUNKS}`), million)],
};
const node = findNode();
const python = findPython();
if (node === undefined) console.log("absent: a Node that loads Icechunk's package");
if (python === undefined)
  console.log("absent: kerchunk and VirtualiZarr; run `npm run test:interop -- references` once");

const results = [];
for (const [label, [rounds, make]] of Object.entries(SOURCES)) {
  const source = await make();
  const rows = [];
  for (const { form, to, name, peer } of FORMS) {
    const target = join(folder, name);
    const runs = to === "icechunk" ? node : [process.execPath, []];
    const own = runs && middle(rounds, () => measureCommand(runs, source, target, to));
    const other = python && middle(rounds, () => measurePeer(python, source, target, form));
    rmSync(target, { recursive: true, force: true });
    rmSync(`${target.replace(/\.json$/, "")}.containers.json`, { force: true });
    results.push({ source: label, rounds, form, superchunk: own, python: other });
    if (own) rows.push([`virtualize --to ${to}`, own.seconds, "", own.peakMB, ""]);
    if (other)
      rows.push([
        `Python: ${peer}`,
        other.seconds,
        other.work,
        other.peakMB,
        own ? other.seconds / own.seconds : "",
      ]);
  }
  printTable(
    `references to ${label}`,
    ["", "seconds", "without imports", "peak MB", "x superchunk's time"],
    rows,
  );
}
saveResults("references", { results });

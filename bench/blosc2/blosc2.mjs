/**
 * Blosc2 compared with python-blosc2. Bars: a chunk decodes at 0.7 times its speed in one thread; 800 MB in lz4 become Zarr shards in 1.5
 * times the time of `cp` and a sync, with a tenth of the processor time of its own b2nd-to-zarr.
 *
 * Uses the Python of the environment `hdf5` from `npm run test:interop`, or BENCH_PYTHON, which also needs zarr for the comparison.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { decodeSync, info, prepare } from "../../build/src/blosc.js";
import { findPython } from "../python.mjs";
import { median, printTable, saveResults, workFolder } from "../report.mjs";

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 5);
const BARS = { decode: 0.7, wall: 1.5, processor: 0.1 };
const python = process.env.BENCH_PYTHON ?? findPython("hdf5");
if (python === undefined) {
  console.log('no python-blosc2: run "npm run test:interop -- hdf5" once, or name one in BENCH_PYTHON');
  process.exit(0);
}
const peers = fileURLToPath(new URL("peers.py", import.meta.url));
const folder = join(workFolder(), "blosc2");
const large = join(folder, "large.b2nd");
mkdirSync(folder, { recursive: true });

function ask(...args) {
  const { status, stdout, stderr } = spawnSync(python, [peers, ...args], { encoding: "utf8" });
  if (status !== 0) throw new Error(stderr);
  return stdout === "" ? undefined : JSON.parse(stdout);
}
if (!existsSync(large)) ask("make", folder);

await prepare("blosc2");
const decoded = [];
for (const data of ["prices", "volume"])
  for (const codec of ["blosclz", "lz4", "zlib", "zstd"]) {
    const file = join(folder, `${data}-${codec}.chunk`);
    const chunk = new Uint8Array(readFileSync(file));
    const { nbytes } = info(chunk);
    const out = new Uint8Array(nbytes);
    const ours = [];
    const theirs = [];
    // Alternating, so that other load affects both alike.
    for (let round = 0; round < ROUNDS; round++) {
      for (let i = 0; i < 4; i++) {
        const start = performance.now();
        decodeSync(chunk, { out });
        ours.push((performance.now() - start) / 1000);
      }
      theirs.push(...ask("decode", file, "4"));
    }
    const [fast, peer] = [ours, theirs].map((seconds) => nbytes / Math.min(...seconds) / 1e9);
    decoded.push({ data, codec, gbPerSecond: fast, python: peer, ratio: fast / peer });
  }
printTable(
  `decoding chunks of 32 MB with shuffle into memory used again, one thread, GB/s (bar for lz4 and zstd: ${BARS.decode} x)`,
  ["", "superchunk", "python-blosc2", "ratio"],
  decoded.map(({ data, codec, gbPerSecond, python: peer, ratio }) => [
    `${data} ${codec}`,
    gbPerSecond,
    peer,
    ratio,
  ]),
);

/** Wall and processor seconds of a program and its children. */
function timed(program, args) {
  const script =
    "import json,os,resource,subprocess,sys,time\ns=time.perf_counter()\nr=subprocess.run(sys.argv[1:],stdout=subprocess.DEVNULL,stderr=subprocess.PIPE)\nw=time.perf_counter()-s\nu=resource.getrusage(resource.RUSAGE_CHILDREN)\nprint(json.dumps([r.returncode,w,u.ru_utime+u.ru_stime,r.stderr.decode()]))";
  const { stdout } = spawnSync(python, ["-c", script, program, ...args], { encoding: "utf8" });
  const [code, wall, processor, stderr] = JSON.parse(stdout);
  if (code !== 0) throw new Error(`${program} ${args.join(" ")}: ${stderr}`);
  return { wall, processor };
}

/** Seconds that the program `cp` and a sync take. */
function copy(path) {
  const start = performance.now();
  spawnSync("cp", [large, path]);
  spawnSync("sync", ["-f", path]);
  return (performance.now() - start) / 1000;
}

const command = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
const tool = join(dirname(python), "b2nd-to-zarr");
// It needs a package that python-blosc2 does not install; BENCH_PYTHON can name a Python that has both.
const hasTool = existsSync(tool) && spawnSync(python, ["-c", "import zarr"]).status === 0;
const [ours, theirs, copied] = [[], [], []];
const target = join(folder, "out");
rmSync(target, { recursive: true, force: true });
mkdirSync(target);
// Nothing is removed between rounds: ext4 takes long to make a file soon after it removed others.
for (let round = 0; round < Math.min(3, ROUNDS); round++) {
  copied.push(copy(join(target, `${round}.copy`)));
  ours.push(timed(process.execPath, [command, "convert", large, join(target, `${round}.zarr`)]));
  if (hasTool) theirs.push(timed(tool, ["--sharded", "-q", large, join(target, `${round}-peer.zarr`)]));
}
const isEqual = hasTool ? ask("compare", large, join(target, "0.zarr")) : undefined;
rmSync(target, { recursive: true });
if (isEqual === false) throw new Error("the values differ");
const wall = median(ours.map((each) => each.wall));
const processor = median(ours.map((each) => each.processor));
const converted = { wall, processor, copy: median(copied), toCopy: wall / median(copied) };
if (theirs.length > 0) {
  converted.peerWall = median(theirs.map((each) => each.wall));
  converted.peerProcessor = median(theirs.map((each) => each.processor));
  converted.toPeer = processor / converted.peerProcessor;
}
printTable(
  `800 MB in lz4 (430 MB stored) to Zarr shards, seconds (bars: wall ${BARS.wall} x cp, processor ${BARS.processor} x b2nd-to-zarr)`,
  ["", "wall", "processor", "wall / cp", "processor / b2nd-to-zarr"],
  [
    ["superchunk convert", wall, processor, converted.toCopy, converted.toPeer ?? "-"],
    ...(theirs.length > 0
      ? [["b2nd-to-zarr --sharded", converted.peerWall, converted.peerProcessor, "", 1]]
      : []),
    ["cp and sync", converted.copy, "", 1, ""],
  ],
);
saveResults("blosc2", { rounds: ROUNDS, bars: BARS, decoded, converted });
const missed = [
  ...decoded
    .filter(({ codec, ratio }) => (codec === "lz4" || codec === "zstd") && ratio < BARS.decode)
    .map(({ data, codec, ratio }) => `${data} ${codec} decodes at ${ratio.toFixed(2)} x`),
  ...(converted.toCopy > BARS.wall ? [`converting takes ${converted.toCopy.toFixed(2)} x cp`] : []),
  ...((converted.toPeer ?? 0) > BARS.processor
    ? [`converting takes ${converted.toPeer.toFixed(2)} x the processor time`]
    : []),
];
if (missed.length > 0) {
  console.error(`missed: ${missed.join("; ")}`);
  process.exitCode = 1;
}

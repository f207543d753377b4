/**
 * Linking 1 GB of prices in superchunks, in process, beside `cp -r` of the same folder until it is as durable as the link is
 * (bar: under 2 %), and the command's own time; unlinking too. Each round copies once and links five times, from memory both.
 * Before the rounds, links are made and undone so often that the engine has compiled what runs often (BENCH_WARM; default 30).
 * Told by themselves are the first link of the process, which loads what it needs, and the one right behind each copy, which
 * finds the processor's caches full of the copy and the disk still busy with it.
 */
import { spawnSync } from "node:child_process";
import { existsSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { link, unlink } from "../../dist/src/node/index.js";
import { LARGE, makeCarray } from "../read/arrays.mjs";
import { median, printTable, saveResults, workFolder } from "../report.mjs";

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 15);
/** In each round, besides the one right behind the copy. */
const LINKS = 4;
const WARM = Number(process.env.BENCH_WARM ?? 30);
const main = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
const folder = workFolder();
const source = join(folder, "prices-1GB-blz");
const target = join(folder, "target");

function run(command, args) {
  const start = performance.now();
  const { status, stderr } = spawnSync(command, args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`${command} ${args.join(" ")}: ${stderr}`);
  return performance.now() - start;
}

async function timed(work) {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

const sync = () => run("sync", ["-f", folder]);

if (!existsSync(source)) {
  const carray = await makeCarray(join(folder, "prices-1GB"), LARGE);
  const draft = `${source}.draft`;
  rmSync(draft, { recursive: true, force: true });
  run(process.execPath, [main, "convert", carray, draft, "--to", "blz"]);
  renameSync(draft, source);
}

const times = { copy: [], cp: [], behindCopy: [], link: [], unlink: [], again: [], command: [] };
let files = 0;
const warm = [];
for (let round = 0; round < WARM; round++) {
  warm.push(await timed(() => link(source)));
  await unlink(source);
}
for (let round = 0; round < ROUNDS; round++) {
  rmSync(target, { recursive: true, force: true });
  sync();
  const copied = run("cp", ["-r", "--reflink=never", source, target]);
  times.copy.push(copied);
  times.cp.push(copied + sync());
  // The copy goes at the next round only: a disk that is told of so much freed space is busy with that for a while.
  times.behindCopy.push(await timed(() => link(source)));
  for (let i = 0; i < LINKS; i++) {
    await unlink(source);
    times.link.push(
      await timed(async () => {
        files = (await link(source)).files.length;
      }),
    );
  }
  times.again.push(await timed(() => link(source)));
  times.unlink.push(await timed(() => unlink(source)));
  sync();
  times.command.push(run(process.execPath, [main, "link", source]));
  await unlink(source);
}
rmSync(target, { recursive: true, force: true });
const results = {
  rounds: ROUNDS,
  warmUp: WARM,
  files,
  milliseconds: Object.fromEntries(Object.entries(times).map(([name, each]) => [name, median(each)])),
  firstLink: warm[0] ?? times.link[0],
};
const { cp } = results.milliseconds;
results.ratioToCp = results.milliseconds.link / cp;
printTable(
  `link 1 GB in ${files} superchunks, milliseconds, after ${WARM} links to warm up (bar: 0.02 x cp)`,
  ["", "ms", "x cp"],
  [
    ["cp -r --reflink=never; sync", cp, 1],
    ["cp -r --reflink=never", results.milliseconds.copy, results.milliseconds.copy / cp],
    ["link, in process", results.milliseconds.link, results.ratioToCp],
    ["link, right behind the copy", results.milliseconds.behindCopy, results.milliseconds.behindCopy / cp],
    ["the first link of a process", results.firstLink, results.firstLink / cp],
    ["link again", results.milliseconds.again, results.milliseconds.again / cp],
    ["unlink, in process", results.milliseconds.unlink, results.milliseconds.unlink / cp],
    ["superchunk link, a process", results.milliseconds.command, results.milliseconds.command / cp],
  ],
);
saveResults("link", results);

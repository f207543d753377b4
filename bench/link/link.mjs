/**
 * Linking a root of superchunks, in process, compared with `cp -r` of the same folder until it is as durable as the link (bar: a
 * root of 1 GB, under 2 %), and the command's own time; also unlinking. Measured for a root of 1 GB on the disk, and for 1 GB of
 * prices, which take less there, so that the fixed cost of a link weighs more. Each round copies once and links five times, both
 * from memory. Before the rounds, links are made and undone until the engine has compiled the hot code (BENCH_WARM; default 30).
 * Reported separately: the first link of the process, which loads the code, and the one right after each copy, which finds the
 * processor's caches full of the copy and the disk still busy with it.
 */
import { spawnSync } from "node:child_process";
import { existsSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { link, unlink } from "../../build/src/node/index.js";
import { LARGE, makeCarray } from "../read/arrays.mjs";
import { median, printTable, saveResults, workFolder } from "../report.mjs";

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 12);
/** In each round, besides the one right after the copy. */
const LINKS = 4;
const WARM = Number(process.env.BENCH_WARM ?? 30);
const main = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
const folder = workFolder();
const target = join(folder, "target");
/** The prices take 0.71 of their bytes on the disk. */
const ROOTS = [
  { name: "1 GB on the disk", folder: "prices-1GB-on-disk", items: 240_000_000 },
  { name: "1 GB of prices", folder: "prices-1GB", items: LARGE.items },
];

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

/** The root of superchunks, made once. */
async function makeRoot({ folder: name, items }) {
  const source = join(folder, `${name}-blz`);
  if (existsSync(source)) return source;
  const carray = await makeCarray(join(folder, name), { ...LARGE, items });
  const draft = `${source}.draft`;
  rmSync(draft, { recursive: true, force: true });
  run(process.execPath, [main, "convert", carray, draft, "--to", "blz"]);
  renameSync(draft, source);
  return source;
}

async function measure(source) {
  const times = { copy: [], cp: [], afterCopy: [], link: [], unlink: [], again: [], command: [] };
  let files = [];
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
    // The copy is removed only in the next round, because freeing that much space keeps the disk busy for a while.
    times.afterCopy.push(await timed(() => link(source)));
    for (let i = 0; i < LINKS; i++) {
      await unlink(source);
      times.link.push(
        await timed(async () => {
          files = (await link(source)).files;
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
  const milliseconds = Object.fromEntries(Object.entries(times).map(([name, each]) => [name, median(each)]));
  return {
    rounds: ROUNDS,
    warmUp: WARM,
    files: files.length,
    bytes: files.reduce((sum, { size }) => sum + size, 0),
    milliseconds,
    firstLink: warm[0],
    ratioToCp: milliseconds.link / milliseconds.cp,
  };
}

const results = {};
for (const root of ROOTS) {
  const measured = await measure(await makeRoot(root));
  const { cp, ...others } = measured.milliseconds;
  printTable(
    `link ${root.name} (${(measured.bytes / 1e9).toFixed(2)} GB in ${measured.files} superchunks), milliseconds, after ${WARM} links to warm up (bar: 0.02 x cp)`,
    ["", "ms", "x cp"],
    [
      ["cp -r --reflink=never; sync", cp],
      ["cp -r --reflink=never", others.copy],
      ["link, in process", others.link],
      ["link, right after the copy", others.afterCopy],
      ...(root === ROOTS[0] ? [["the first link of the process", measured.firstLink]] : []),
      ["link again", others.again],
      ["unlink, in process", others.unlink],
      ["superchunk link, a process", others.command],
    ].map(([name, ms]) => [name, ms, ms / cp]),
  );
  results[root.name] = measured;
}
saveResults("link", results);

/**
 * The main job on real archives: converts a bcolz table, a BLZ array and a Bloscpack file to Zarr v3, reads the
 * results back with zarrita, an independent reader, and compares every value. Run it with `npm run demo`.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { FileSystemStore } from "@zarrita/storage";
import { open } from "superchunk/node";
import * as zarr from "zarrita";

const root = fileURLToPath(new URL("..", import.meta.url));
const command = join(root, "dist", "cli", "main.js");
const folder = mkdtempSync(join(tmpdir(), "superchunk-demo-"));

const archives = [
  {
    what: "a table of daily bars, as zipline bundles hold them, written by bcolz 1.2.1",
    source: "fixtures/corpus/ctable/bcolz-daily-equities",
    target: "daily-equities.zarr",
  },
  {
    what: "an array written by BLZ 0.6.2 on Python 2",
    source: "fixtures/corpus/carray/blz-f8",
    target: "blz-f8.zarr",
  },
  {
    what: "a numpy array in a file, written by Bloscpack 0.16.0",
    source: "fixtures/corpus/bloscpack-3/array-f8.blp",
    target: "array-f8.zarr",
  },
];

/** Runs the command like a user, and returns its output. */
function superchunk(...args) {
  return execFileSync(process.execPath, [command, ...args], { cwd: root, encoding: "utf8" }).trimEnd();
}

/** Reads one array with both readers; throws if a value differs. */
async function compare(name, expected, store) {
  const array = await zarr.open.v3(zarr.root(store).resolve(name), { kind: "array" });
  const { data: found } = await zarr.get(array);
  const { data } = await expected.get(null);
  const same = data.length === found.length && data.every((value, i) => Object.is(value, found[i]));
  if (!same) throw new Error(`zarrita reads other values of ${name || "the array"} than the archive has`);
  return { dtype: array.dtype, count: found.length, head: Array.from(found.slice(0, 3)) };
}

console.log("superchunk carries old archives into Zarr v3 by copying their compressed chunks.\n");
for (const [i, { what, source, target }] of archives.entries()) {
  const out = join(folder, target);
  console.log(`${i + 1}. ${what}`);
  console.log(`   $ npx superchunk convert ${source} ${out} --verify`);
  console.log(`   ${superchunk("convert", source, out, "--verify")}`);
  const archive = await open(join(root, source));
  const store = new FileSystemStore(out);
  const names = archive.kind === "table" ? archive.names : [""];
  for (const name of names) {
    const { dtype, count, head } = await compare(name, name === "" ? archive : archive.column(name), store);
    const label = name === "" ? "" : `${name}: `;
    console.log(
      `   zarrita reads ${label}${count} x ${dtype}, ${head.join(", ")}, ...: equal to the archive`,
    );
  }
  await archive.close();
  console.log("");
}

const table = relative(process.cwd(), join(root, archives[0].source)) || ".";
console.log(`The results are in ${folder}; remove it when you have seen them.

What to try next:
  npx superchunk info ${table}
  npx superchunk cat ${table} --slice :5
  npx superchunk verify ${relative(process.cwd(), join(root, "fixtures/corpus/bloscpack-3"))}
  npx superchunk convert YOUR-ARCHIVE OUT.zarr --verify
  npx superchunk --help
In Python: zarr.open_group("${join(folder, archives[0].target)}")["close"][:]`);

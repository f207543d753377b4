/**
 * Damaged archives of every kind given to the command: right values, or an error that gives the place, and nothing
 * else changed.
 */

import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough, Writable } from "node:stream";
import { open } from "superchunk";
import { FileStore, link } from "superchunk/node";
import { convert } from "superchunk/zarr";
import { run } from "../../build/cli/run.js";
import { openZarr } from "../../build/src/zarr/read/open.js";
import { makeArchive, makeTable } from "./archives.mjs";
import { assertEqual, snapshot } from "./links.mjs";
import { makeMutator } from "./mutations.mjs";
import { makeZarr2, makeZarr3 } from "./zarr-arrays.mjs";
import { choicesFrom } from "./zarr-chains.mjs";
import { encodeDocument, mutateDocument } from "./zarr-documents.mjs";

/** Of a command: processor time, and memory beyond any earlier peak. */
const MAX_MS = 5000;
const MAX_GROWTH = 300 << 20;
/** Values are requested up to this number; a document may claim more, all of it the fill value. */
const MAX_NBYTES = 1 << 22;
const NAME = "subject";
const KINDS = [
  ...["bloscpack", "carray", "table", "blz", "superchunks", "zarr2", "zarr3", "sharded", "transformer"],
  ...["linked", "linkedTable", "linkedCarray", "mirrored"],
];

/** One archive, damaged in one to three places, through every command. */
export async function fuzzDamage(seed) {
  const choices = choicesFrom(seed);
  const folder = fs.mkdtempSync(join(tmpdir(), "superchunk-fuzz-"));
  const kind = choices.pick(KINDS);
  const steps = [kind];
  try {
    const home = join(folder, "home");
    fs.mkdirSync(home);
    if (!(await makeSubject(home, kind, choices))) return;
    for (let times = choices.pick([1, 1, 1, 2, 3]); times > 0; times--) steps.push(damage(home, choices));
    await readSubject(join(home, NAME), folder, steps, choices);
  } catch (cause) {
    throw new Error(`seed ${seed}, ${steps.join(", ").slice(0, 3000)}: ${cause.message}`, { cause });
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
}

/** An archive of a kind at `home`/subject; false if the kind cannot hold what was drawn. */
async function makeSubject(home, kind, choices) {
  const store = new FileStore(home);
  try {
    if (kind === "table" || kind === "linkedTable") await makeTable(store, NAME, choices);
    else if (kind === "zarr2") await makeZarr2(store, NAME, choices);
    else if (kind === "zarr3") await makeZarr3(store, NAME, choices);
    else if (["bloscpack", "carray", "superchunks"].includes(kind))
      await makeArchive(store, NAME, choices, kind);
    else if (kind === "blz" || kind === "sharded" || kind === "transformer") {
      await makeArchive(store, "from", choices);
      const from = await open(store, "from");
      if (kind === "sharded") await convert(from, { store, path: NAME }, { chunksPerShard: 3 });
      else if (kind === "transformer")
        await convert(from, { store, path: NAME, node: "a" }, { to: "zarr3-transformer" });
      else {
        await convert(from, { store, path: "between" });
        await convert(await openZarr(store, "between"), { store, path: NAME }, { to: "blz" });
      }
      for (const name of ["from", "between"]) fs.rmSync(join(home, name), { recursive: true, force: true });
    } else await makeArchive(store, NAME, choices, kind === "linkedCarray" ? "carray" : "superchunks");
    if (kind.startsWith("linked"))
      await link(join(home, NAME), undefined, { kind: choices.pick(["hard", "symbolic", "copy"]) });
    if (kind === "mirrored") await link(join(home, NAME), undefined, { live: true });
    return true;
  } catch (error) {
    if (error.name === "SuperchunkError" && error.code === "UNSUPPORTED") return false;
    throw error;
  } finally {
    await store.close();
  }
}

/** Damages one file below a folder, documents more often than data; returns a description. */
function damage(home, choices) {
  const { below, pick } = choices;
  const files = fs
    .readdirSync(home, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
  if (files.length === 0) return "nothing is there";
  const documents = files.filter((path) => documentAt(path) !== undefined);
  const path = documents.length > 0 && below(3) > 0 ? pick(documents) : pick(files);
  const name = path.slice(home.length + 1);
  const bytes = Uint8Array.from(fs.readFileSync(path));
  const way = below(9);
  const document = documentAt(path);
  if (document !== undefined && way < 6) {
    const changed = encodeDocument(mutateDocument(document, choices));
    replace(path, changed, choices);
    return `${name} is ${Buffer.from(changed).toString("latin1").slice(0, 800)}`;
  }
  if (way < 5 && bytes.length > 0) {
    replace(path, makeMutator(below(2 ** 31))(bytes), choices);
    return `${name} has other bytes`;
  }
  if (way === 5) {
    const length = below(bytes.length + 1);
    replace(path, bytes.slice(0, length), choices);
    return `${name} ends at ${length} of ${bytes.length}`;
  }
  if (way === 6) {
    replace(path, new Uint8Array(0), choices);
    return `${name} is empty`;
  }
  if (way === 7) {
    fs.rmSync(path);
    return `${name} is gone`;
  }
  const other = pick(files);
  const others = Uint8Array.from(fs.readFileSync(other));
  replace(path, others, choices);
  replace(other, bytes, choices);
  return `${name} and ${other.slice(home.length + 1)} are exchanged`;
}

function documentAt(path) {
  try {
    const value = JSON.parse(fs.readFileSync(path, "utf8"));
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Other bytes for a file, in place or as a new file with the name. */
function replace(path, bytes, choices) {
  const { mode } = fs.statSync(path);
  fs.chmodSync(path, 0o644);
  if (choices.below(2) === 0) fs.rmSync(path);
  fs.writeFileSync(path, bytes);
  fs.chmodSync(path, mode & 0o7777);
}

async function readSubject(subject, folder, steps, choices) {
  const { below, pick } = choices;
  const home = join(subject, "..");
  const before = snapshot(home);
  const reading = async (...argv) => {
    const result = await check(argv);
    assertEqual(`after ${argv[0]}`, snapshot(home), before);
    return result;
  };
  const info = await reading("info", subject, "--json");
  for (const argv of [
    ["ls", home],
    ["verify", subject],
    ["chunks", subject],
    ["repair", subject, "--dry-run"],
  ])
    await reading(...argv);
  if (info.code !== 0 || nbytesOf(info.text) <= MAX_NBYTES) {
    const values = await reading("cat", subject, "--format", "json");
    for (const to of ["zarr", "zarr3-transformer", "npy", "bloscpack", "bcolz", "blz"]) {
      const out = join(folder, `out-${to}`);
      const more = below(4) === 0 ? ["--verify"] : [];
      const beside = fs.readdirSync(folder);
      const { code, errors } = await reading("convert", subject, out, "--to", to, ...more);
      if (code !== 0) {
        const left = fs.readdirSync(folder).filter((name) => !beside.includes(name));
        // With many archives, the good ones are there, and the damaged ones reported.
        if (errors.startsWith("superchunk: not converted: ")) continue;
        if (left.length > 0 && !isUnfinished(out) && (await check(["cat", out])).code === 0)
          throw new Error(
            `convert --to ${to} fails (${errors}) and leaves ${left.flatMap((name) => Object.keys(snapshot(join(folder, name)))).join(", ")}`,
          );
        continue;
      }
      // A table becomes a folder of files.
      if (to === "npy" || values.code !== 0) continue;
      if (to === "bloscpack" && fs.statSync(out).isDirectory()) continue;
      const shown = await check(["cat", out, "--format", "json"]);
      if (shown.code !== 0 || (shown.text !== values.text && !hasStructs(values.text, shown.text)))
        throw new Error(
          `converted to ${to} it shows ${shown.text.slice(0, 300)} ${shown.errors}, not ${values.text.slice(0, 300)}`,
        );
    }
  }
  const first = pick(["link", "unlink"]);
  const options = first === "link" && below(3) === 0 ? ["--live"] : [];
  const { code } = await check([first, subject, ...options]);
  steps.push(`${first} ${options.join(" ")} ends with ${code}`);
  if (code === 0) return;
  const after = snapshot(home);
  // A mirror first reports that it is being brought up to date, and that report remains if it cannot be done.
  const state = join(NAME, "meta", "zarr");
  if (first === "link" && before[state] !== undefined && after[state] !== undefined)
    after[state] = before[state];
  assertEqual(`after a refused ${first}`, after, before);
}

/** Files from which `--resume` continues, or a hierarchy without its root: nothing that looks complete. */
function isUnfinished(out) {
  const has = (name) => fs.existsSync(join(out, name));
  return has(".superchunk-convert.json") && !has("zarr.json");
}

function nbytesOf(text) {
  const found = [...text.matchAll(/"nbytes": (\d+)/g)].map(([, digits]) => Number(digits));
  return Math.max(0, ...found);
}

/** Structs are spelled by rows in one format and by members in the other: not compared. */
function hasStructs(...texts) {
  return texts.some((text) => text.includes("{"));
}

/** Runs the command. Throws if it fails without a proper error. */
async function check(argv) {
  const begin = process.cpuUsage();
  const { maxRSS } = process.resourceUsage();
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(new Error("it takes longer than a minute")), 60_000);
  const stdin = new PassThrough();
  stdin.end();
  const [stdout, stderr] = [new Taken(), new Taken()];
  const code = await run(argv, { stdin, stdout, stderr, signal: stop.signal });
  clearTimeout(timer);
  const { user, system } = process.cpuUsage(begin);
  const taken = Math.round((user + system) / 1000);
  const grown = (process.resourceUsage().maxRSS - maxRSS) << 10;
  const { text } = stdout;
  const errors = stderr.text;
  const name = `${argv.join(" ")} (exit code ${code})`;
  if (taken > MAX_MS) throw new Error(`${name} takes ${taken} ms`);
  if (grown > MAX_GROWTH) throw new Error(`${name} takes ${grown} bytes`);
  if (![0, 1, 2, 3].includes(code)) throw new Error(`${name} says ${errors}`);
  if (/internal error|\n\s+at |TypeError|RangeError|E[A-Z]{3,}: /.test(errors))
    throw new Error(`${name} says ${errors}`);
  if (code !== 0 && errors === "" && text === "") throw new Error(`${name} says nothing`);
  return { code, text, errors };
}

class Taken extends Writable {
  isTTY = false;
  columns = 100;
  #pieces = [];

  get text() {
    return Buffer.concat(this.#pieces).toString("utf8");
  }

  _write(piece, _encoding, done) {
    this.#pieces.push(Buffer.from(piece));
    done();
  }
}

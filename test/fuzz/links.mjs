/** Random archives linked to Zarr, changed, linked again, unlinked: both views are right, and unlinking restores every byte. */

import { createHash } from "node:crypto";
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { open } from "superchunk";
import { edit, FileStore, link, open as openAt, unlink, verifyLinkAt } from "superchunk/node";
import { openZarr as openZarrIn } from "../../build/src/zarr/read/open.js";
import { makeArchive, makeTable, randomItems, setRows } from "./archives.mjs";
import { compare } from "./conversions.mjs";
import { choicesFrom } from "./zarr-chains.mjs";

/** One archive in its own folder. Throws if a view is wrong, or a byte has changed. */
export async function fuzzLinks(seed) {
  const choices = choicesFrom(seed);
  const folder = fs.mkdtempSync(join(tmpdir(), "superchunk-fuzz-"));
  const steps = [];
  let about;
  try {
    const place = await makePlace(folder, choices);
    const { bytes, dtype, ...facts } = place.values;
    about = Array.isArray(place.values) ? "a table" : { ...facts, nbytes: bytes.length };
    await linkRounds(place, choices, steps);
  } catch (cause) {
    if (cause.name === "SuperchunkError" && cause.code === "UNSUPPORTED") return;
    throw new Error(`seed ${seed}, ${JSON.stringify(about)}, ${steps.join(", ")}: ${cause.message}`, {
      cause,
    });
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
}

/** An archive: its path, the path of its Zarr view, and its contents. */
async function makePlace(folder, choices) {
  const { below, pick } = choices;
  const store = new FileStore(folder);
  try {
    if (below(6) === 0) {
      const values = await makeTable(store, "t", choices);
      return { folder, path: join(folder, "t"), view: join(folder, "t"), values };
    }
    const kind = pick(["bloscpack", "carray", "superchunks", "superchunks", "superchunks"]);
    const name = kind === "bloscpack" ? "a.blp" : "a";
    const values = await makeArchive(store, name, choices, kind);
    const path = join(folder, name);
    return { folder, path, view: kind === "bloscpack" ? join(folder, "a.zarr") : path, values, kind };
  } finally {
    await store.close();
  }
}

async function linkRounds(place, choices, steps) {
  const { below, pick } = choices;
  const { folder, path, view, kind } = place;
  const destination = view === path ? undefined : view;
  for (let round = 0; round < 3; round++) {
    const before = snapshot(folder);
    const how = { kind: pick(["hard", "hard", "symbolic", "copy"]) };
    if (kind === "superchunks" && round > 0 && below(2) === 0) {
      await liveRound(place, choices, steps);
      continue;
    }
    steps.push(`link ${how.kind}`);
    const linked = await link(path, destination, how);
    await checkBoth(place, "linked");
    if (below(2) === 0) {
      steps.push("link again");
      const again = await link(path, destination, how);
      if (!again.done && linked.files.length > 0 && again.added > 0)
        throw new Error(`linking again adds ${again.added} bytes`);
      await checkBoth(place, "linked again");
    }
    if (kind === "superchunks" && how.kind !== "symbolic" && below(3) > 0) {
      await changeLinked(place, choices, steps, how);
      continue;
    }
    steps.push("unlink");
    await unlink(view);
    assertEqual("after unlinking", snapshot(folder), before);
    await checkArchive(place);
  }
}

/** Changes leave the view unchanged; linking again shows them. */
async function changeLinked(place, choices, steps, how) {
  const shown = { ...place.values };
  for (let n = 1 + choices.below(3); n > 0; n--) await change(place, choices, steps);
  await checkArchive(place);
  const findings = (await verifyLinkAt(place.view)) ?? [];
  const other = findings.find(({ code }) => code !== "BEHIND");
  if (other !== undefined) throw new Error(`of an outdated view it says ${other.code} ${other.message}`);
  await compare("the outdated view", await openAt(place.view), shown);
  steps.push("compact");
  const array = await edit(place.path);
  await array.compact();
  await array.close();
  steps.push("link");
  await link(place.path, undefined, how);
  await checkBoth(place, "linked after changes");
  steps.push("unlink");
  await unlink(place.view);
  await checkArchive(place);
  assertPlain(place);
}

async function liveRound(place, choices, steps) {
  steps.push("link live");
  await link(place.path, undefined, { live: true });
  await checkBoth(place, "live");
  for (let n = 1 + choices.below(5); n > 0; n--) {
    await change(place, choices, steps);
    await checkBoth(place, steps.at(-1));
  }
  if (choices.below(3) === 0) {
    steps.push("link live again");
    await link(place.path);
    await checkBoth(place, "live again");
  }
  steps.push("unlink live");
  await unlink(place.path);
  await checkArchive(place);
  assertPlain(place);
}

async function change(place, choices, steps) {
  const { below, pick } = choices;
  const { values } = place;
  const rowBytes = values.rowShape.reduce((product, n) => product * n, values.dtype.itemSize);
  const what = pick(["append", "append", "set", "delete", "cut", "compact", "attributes"]);
  steps.push(what);
  const array = await edit(place.path);
  const resized = (bytes) => {
    values.bytes = Uint8Array.from(bytes); // a Buffer's slices share its bytes
    values.rows = bytes.length / rowBytes;
    values.shape = [values.rows, ...values.rowShape];
  };
  if (what === "append") {
    const rows = 1 + below(40);
    const items = randomItems(values.dtype, (rows * rowBytes) / values.dtype.itemSize, choices);
    for (let at = 0; at < items.length; ) {
      const next = Math.min(items.length, at + rowBytes * (1 + below(rows)));
      await array.append(items.slice(at, next));
      if (below(2) === 0) await array.flush();
      at = next;
    }
    resized(Buffer.concat([values.bytes, items]));
  } else if (what === "set" && values.rows > 0) await setRows(array, values, choices);
  else if (what === "delete" && values.rows > 0) {
    const start = below(values.rows);
    const stop = start + 1 + below(values.rows - start);
    await array.deleteRows(start, stop);
    resized(
      Buffer.concat([values.bytes.subarray(0, start * rowBytes), values.bytes.subarray(stop * rowBytes)]),
    );
  } else if (what === "cut") {
    const rows = below(values.rows + 1);
    await array.resize(rows);
    resized(values.bytes.slice(0, rows * rowBytes));
  } else if (what === "compact") {
    const other = { chunkLength: 1 + below(20), superchunkLength: 1 + below(5) };
    await array.compact(below(2) === 0 ? {} : other);
  } else if (what === "attributes") {
    const value = below(100);
    await array.setAttributes({ n: value });
    values.attrs = { ...values.attrs, n: value };
  }
  await array.close();
}

async function checkBoth(place, what) {
  await checkArchive(place);
  // From above, because symbolic links of a file lead out of its view.
  const store = new FileStore(place.folder);
  try {
    const node = await openZarrIn(store, relative(place.folder, place.view));
    await compare(`the Zarr view, ${what}`, node, place.values);
  } finally {
    await store.close();
  }
  const findings = (await verifyLinkAt(place.view)) ?? [];
  if (findings.length > 0) throw new Error(`${what}, verify finds ${findings[0].message}`);
}

async function checkArchive({ path, values }) {
  const isFile = fs.statSync(path).isFile();
  const store = new FileStore(isFile ? join(path, "..") : path);
  try {
    const archive = await open(store, isFile ? "a.blp" : "");
    await compare("the archive", archive, values);
    const report = await archive.verify();
    if (!report.ok) throw new Error(`the archive is damaged: ${report.findings[0]?.message}`);
  } finally {
    await store.close();
  }
}

/** Nothing of a Zarr view is left. */
function assertPlain({ path }) {
  const left = Object.keys(snapshot(path)).filter((name) => /zarr|^c(\/|$)|superchunk-link/.test(name));
  if (left.length > 0) throw new Error(`unlinking leaves ${left.join(", ")}`);
}

/** What is below a path, or at it: a hash of the bytes of files, and the permissions of everything but links. */
export function snapshot(path) {
  const found = {};
  const visit = (at) => {
    const info = fs.lstatSync(at);
    const name = relative(path, at);
    const mode = (info.mode & 0o7777).toString(8);
    if (info.isDirectory()) {
      found[name] = `folder ${mode}`;
      for (const entry of fs.readdirSync(at)) visit(join(at, entry));
    } else if (info.isSymbolicLink()) found[name] = `link ${fs.readlinkSync(at)}`;
    else found[name] = `file ${mode} ${createHash("sha256").update(fs.readFileSync(at)).digest("hex")}`;
  };
  visit(path);
  return found;
}

/** Throws if the snapshots differ. */
export function assertEqual(what, found, wanted) {
  for (const name of new Set([...Object.keys(found), ...Object.keys(wanted)])) {
    if (found[name] === wanted[name]) continue;
    throw new Error(`${what} ${name} is ${found[name]}, and was ${wanted[name]}`);
  }
}

/**
 * Mutation fuzzing of Blosc2 and HDF5: `node test/fuzz/blosc2.mjs [--of chunks,frames,hdf5] [--iterations N |
 * --seconds S] [--seed N] [--python PATH] [--save FOLDER]`.
 *
 * Damages chunks and frames of python-blosc2 (metadata of frames more often than their contents), and structures of
 * HDF5 files, half of them with corrected checksums. Decoding must give exactly nbytes, the same in parts, or a
 * SuperchunkError, in little time and memory. If a Python with blosc2, h5py and hdf5plugin is given, it decodes them
 * too: where both accept, the values must be the same.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import {
  decodeRangeSync,
  decodeSync,
  info,
  prepare,
  SuperchunkError,
  toBlosc1,
} from "../../build/src/blosc.js";
import { readFrame } from "../../build/src/blosc2/frame.js";
import { openArray } from "../../build/src/open/open.js";
import { MemoryStore } from "../../build/src/store/memory.js";
import { decodeFile, files, mutateFile } from "./hdf5-files.mjs";
import { makeMutator } from "./mutations.mjs";

const { values: options } = parseArgs({
  options: {
    iterations: { type: "string" },
    seconds: { type: "string", default: "20" },
    seed: { type: "string", default: "1" },
    python: { type: "string" },
    save: { type: "string" },
    of: { type: "string", default: "chunks,frames,hdf5" },
  },
});
const BATCH = 1000;
const TOO_SLOW_MS = 2000;
/** Memory outside the garbage collector's heap: no header may cause more. */
const TOO_MUCH = 1 << 30;
/** A batch of the reference takes a second or two. */
const REFERENCE_MS = 15_000;
const KINDS = ["chunks", "frames", "hdf5"];
/** What python-blosc2 would allocate because a header claims it. */
const MAX_NBYTES = 1 << 22;
const ANSWER = 20;
/** Its first form of bytedelta left bytes unchanged. */
const OLD_BYTEDELTA = 34;
const FRAMES = [
  "blosclz",
  "lz4",
  "zstd",
  "delta",
  "shuffle-bytedelta",
  "nan",
  "full",
  "uneven",
  "cube",
  "zeros",
  "scalar",
  "padded",
];

const folder = new URL("../../fixtures/blosc2/", import.meta.url);
const image = readFileSync(new URL("chunks.bin", folder));
const chunks = JSON.parse(readFileSync(new URL("chunks.json", folder), "utf8")).map(([, offset, length]) => ({
  kind: 0,
  bytes: Uint8Array.from(image.subarray(offset, offset + length)),
}));
const frames = FRAMES.map((name) => ({
  kind: 1,
  bytes: Uint8Array.from(readFileSync(new URL(`${name}.b2nd`, folder))),
}));
// Three chunks per frame: a frame takes longer.
const originals = [...chunks, ...frames, ...files].filter(({ kind }) =>
  options.of.split(",").includes(KINDS[kind]),
);

const mutate = makeMutator(Number(options.seed));
const counts = {
  mutated: 0,
  byKind: [0, 0, 0],
  accepted: 0,
  refused: 0,
  same: 0,
  onlyOurs: 0,
  onlyTheirs: 0,
  crashed: 0,
};
const laws = new Map();
const failures = [];
const start = performance.now();
const limit = options.iterations === undefined ? Number.POSITIVE_INFINITY : Number(options.iterations);
const until =
  options.iterations === undefined ? start + 1000 * Number(options.seconds) : Number.POSITIVE_INFINITY;
await prepare("blosc2");

while (counts.mutated < limit && performance.now() < until) {
  const batch = [];
  for (let i = 0; i < BATCH && counts.mutated < limit; i++) {
    const { kind, bytes, sums } = originals[(counts.mutated * 7919) % originals.length];
    const mutated = kind === 2 ? mutateFile(bytes, sums, mutate) : mutate(bytes);
    counts.mutated++;
    counts.byKind[kind]++;
    batch.push({ kind, bytes: mutated, ours: await decodeOurs(kind, mutated) });
  }
  if (options.python !== undefined) compare(batch);
}
report();

/** Our result: its digest, or the error; undefined if python-blosc2 promises nothing about the bytes. */
async function decodeOurs(kind, bytes) {
  const begin = process.cpuUsage();
  let result;
  try {
    result = await [decodeChunk, decodeFrame, decodeFile][kind](bytes, MAX_NBYTES);
    counts.accepted++;
  } catch (error) {
    if (!(error instanceof SuperchunkError)) fail(kind, bytes, `threw ${error?.stack}`);
    result = { error };
    counts.refused++;
  }
  const taken = process.cpuUsage(begin).user / 1000;
  if (taken > TOO_SLOW_MS) fail(kind, bytes, `took ${taken.toFixed(0)} ms`);
  const { arrayBuffers } = process.memoryUsage();
  if (arrayBuffers > TOO_MUCH) fail(kind, bytes, `took ${arrayBuffers} bytes of memory`);
  return result;
}

async function decodeChunk(chunk) {
  const out = decodeSync(chunk, { maxNbytes: MAX_NBYTES });
  const header = info(chunk);
  if (out.length !== header.nbytes)
    fail(0, chunk, `decoded to ${out.length} bytes, nbytes is ${header.nbytes}`);
  const from = out.length >> 1;
  const part = decodeRangeSync(chunk, from, Math.min(out.length - from, 100));
  if (Buffer.compare(part, out.subarray(from, from + part.length)) !== 0)
    fail(0, chunk, "a range decodes to other bytes than the whole");
  const again = decodeSync(await toBlosc1(chunk));
  if (Buffer.compare(again, out) !== 0) fail(0, chunk, "as a chunk of Blosc1 it decodes to other bytes");
  const isOpen =
    header.format !== 2 || header.special === "none" || header.filters.some(({ id }) => id === OLD_BYTEDELTA);
  return { nbytes: out.length, digest: digestOf(out), isOpen };
}

async function decodeFrame(bytes) {
  const store = new MemoryStore(new Map([["x.b2nd", bytes]]));
  const array = await openArray(store, "x.b2nd");
  if (array.nbytes > MAX_NBYTES) return { nbytes: 0, digest: "", isOpen: true };
  const values = await array.getBytes();
  const frame = await readFrame(store, "x.b2nd");
  // Big-endian items are read as little-endian ones.
  const isOpen =
    [...frame.chunks].some((chunk) => chunk.special === "none") ||
    !frame.metalayers.get("b2nd")?.every((byte) => byte !== 0x3e);
  return { nbytes: values.length, digest: digestOf(values), isOpen };
}

function compare(batch) {
  const fit = batch.filter(({ kind, bytes, ours }) => {
    if (ours.error === undefined) return !ours.isOpen;
    if (kind === 2) return true;
    return (
      kind === 0 &&
      bytes.length >= 16 &&
      new DataView(bytes.buffer, bytes.byteOffset).getUint32(4, true) <= MAX_NBYTES
    );
  });
  const answers = decodeTheirs(fit);
  for (const [i, { kind, bytes, ours }] of fit.entries()) {
    const theirs = answers[i];
    if (theirs === "crashed") counts.crashed++;
    else if (theirs === "refused") counts.onlyOurs += ours.error === undefined ? 1 : 0;
    else if (ours.error !== undefined) countLaw(ours.error);
    else if (ours.digest === theirs.digest && ours.nbytes === theirs.nbytes) counts.same++;
    else fail(kind, bytes, `the reference decodes to other bytes: ${theirs.nbytes}, ours ${ours.nbytes}`);
  }
}

function decodeTheirs(batch) {
  const script = fileURLToPath(new URL("blosc2_reference.py", import.meta.url));
  const answers = [];
  while (answers.length < batch.length) {
    const input = Buffer.concat(
      batch.slice(answers.length).flatMap(({ kind, bytes }) => {
        const head = Buffer.alloc(5);
        head.writeUInt8(kind);
        head.writeUInt32LE(bytes.length, 1);
        return [head, bytes];
      }),
    );
    const { stdout, signal, status, stderr } = spawnSync(options.python, [script], {
      input,
      timeout: REFERENCE_MS,
      maxBuffer: 1 << 28,
    });
    for (let at = 0; at + ANSWER <= stdout.length; at += ANSWER) {
      const nbytes = stdout.readInt32LE(at);
      answers.push(nbytes < 0 ? "refused" : { nbytes, digest: stdout.toString("hex", at + 4, at + ANSWER) });
    }
    if (status === 0) break;
    if (signal === null && status === 1) throw new Error(`the reference failed: ${stderr}`);
    if (answers.length < batch.length) answers.push("crashed");
  }
  return answers;
}

function countLaw({ code, details, summary }) {
  counts.onlyTheirs++;
  const law = `${code} ${details.field ?? ""}: ${summary.replace(/\d+/g, "N")}`;
  laws.set(law, (laws.get(law) ?? 0) + 1);
}

function fail(kind, bytes, message) {
  failures.push(message);
  console.error(
    `FAILURE ${failures.length} (${KINDS[kind]}): ${message}\n  ${Buffer.from(bytes).toString("base64").slice(0, 2000)}`,
  );
  if (options.save !== undefined) {
    mkdirSync(options.save, { recursive: true });
    writeFileSync(`${options.save}/failure-${failures.length}.${["chunk", "b2nd", "h5"][kind]}`, bytes);
  }
  if (failures.length < 20) return;
  report();
  process.exit(1);
}

function report() {
  const seconds = (performance.now() - start) / 1000;
  console.log(
    `${counts.mutated} mutations (${KINDS.map((name, i) => `${counts.byKind[i]} of ${name}`).join(", ")}) in ${seconds.toFixed(1)} s, seed ${options.seed}: we accept ${counts.accepted}, refuse ${counts.refused}`,
  );
  if (options.python !== undefined) {
    console.log(
      `both accept, same bytes: ${counts.same}; only we accept: ${counts.onlyOurs}; the reference crashed or hung: ${counts.crashed}`,
    );
    console.log(`only we refuse: ${counts.onlyTheirs}, for`);
    for (const [law, times] of [...laws].sort((a, b) => b[1] - a[1]))
      console.log(`  ${String(times).padStart(7)}  ${law}`);
  }
  console.log(failures.length === 0 ? "no failure" : `${failures.length} FAILURES`);
  process.exitCode = failures.length === 0 ? 0 : 1;
}

function digestOf(bytes) {
  return createHash("sha256").update(bytes).digest("hex").slice(0, 32);
}

/**
 * Mutation fuzzing of chunk decoding: `node test/fuzz/run.mjs [--iterations N | --seconds S] [--seed N] [--python
 * PATH] [--library MODULE] [--save FOLDER]`.
 *
 * Damages chunks of real producers, and longer ones of our own. Decoding must give exactly nbytes, the same twice,
 * or a SuperchunkError, in little time, and must not touch the bytes around the result. If a Python with
 * python-blosc is given, libblosc decodes them too: where both accept, the bytes must be the same; where only we
 * refuse, the report counts which law was broken.
 */
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { EXTREMES, makeSample, SAMPLES } from "../../bench/samples.mjs";
import { makeMutator } from "./mutations.mjs";
import { decodeByReference, describeReference } from "./reference.mjs";

const { values: options } = parseArgs({
  options: {
    iterations: { type: "string" },
    seconds: { type: "string", default: "20" },
    seed: { type: "string", default: "1" },
    python: { type: "string" },
    library: { type: "string", default: "superchunk/blosc" },
    save: { type: "string" },
  },
});
const blosc = await import(options.library);
const BATCH = 4000;
/** A chunk of a fixture decodes in microseconds. */
const TOO_SLOW_MS = 2000;
/** What python-blosc would allocate because a header claims it. */
const MAX_NBYTES = 1 << 24;

const reference = options.python === undefined ? undefined : describeReference(options.python);
if (options.python !== undefined && reference === undefined)
  throw new Error(`${options.python} has no python-blosc`);
console.log(
  reference === undefined ? "no libblosc to compare with (--python)" : `compared with ${reference}`,
);

const originals = [...readOriginals(), ...(await makeOriginals())];
const mutate = makeMutator(Number(options.seed));
const counts = { chunks: 0, accepted: 0, refused: 0, same: 0, onlyOurs: 0, onlyTheirs: 0, crashed: 0 };
const laws = new Map();
const failures = [];
const start = performance.now();
const limit = options.iterations === undefined ? Number.POSITIVE_INFINITY : Number(options.iterations);
const until =
  options.iterations === undefined ? start + 1000 * Number(options.seconds) : Number.POSITIVE_INFINITY;

while (counts.chunks < limit && performance.now() < until) {
  const batch = [];
  for (let i = 0; i < BATCH && counts.chunks < limit; i++) {
    const chunk = mutate(originals[(counts.chunks * 7919) % originals.length]);
    counts.chunks++;
    batch.push({ chunk, ours: decodeOurs(chunk) });
  }
  if (reference !== undefined) compare(batch);
}

report();

/** Our result for the chunk: its digest, or the error. */
function decodeOurs(chunk) {
  const begin = process.cpuUsage();
  let result;
  try {
    const out = new Uint8Array(blosc.decodeSync(chunk, { maxNbytes: MAX_NBYTES }));
    const { nbytes } = blosc.info(chunk);
    if (out.length !== nbytes) fail(chunk, `decoded to ${out.length} bytes, nbytes is ${nbytes}`);
    checkAgain(chunk, out);
    result = { nbytes, digest: digestOf(out) };
    counts.accepted++;
  } catch (error) {
    if (!(error instanceof blosc.SuperchunkError)) fail(chunk, `threw ${error?.stack}`);
    result = { error };
    counts.refused++;
  }
  // Processor time, not elapsed time: the machine may be busy.
  const taken = process.cpuUsage(begin).user / 1000;
  if (taken > TOO_SLOW_MS) fail(chunk, `took ${taken.toFixed(0)} ms`);
  return result;
}

/** Decodes a part, into the middle of a buffer: the same bytes, and nothing around them changes. */
function checkAgain(chunk, out) {
  const from = out.length >> 1;
  const length = Math.min(out.length - from, 100);
  const around = new Uint8Array(length + 64).fill(0xa5);
  blosc.decodeRangeSync(chunk, from, length, { out: around.subarray(32, 32 + length) });
  const same = Buffer.compare(around.subarray(32, 32 + length), out.subarray(from, from + length)) === 0;
  if (!same) fail(chunk, "a range decodes to other bytes than the whole");
  if (!around.every((byte, i) => byte === 0xa5 || (i >= 32 && i < 32 + length)))
    fail(chunk, "wrote around the output");
}

function compare(batch) {
  // libblosc reads what a header claims, so only chunks that keep their lengths may be given to it.
  const fit = batch.filter(({ chunk }) => chunk.length >= 16 && nbytesOf(chunk) <= MAX_NBYTES);
  const answers = decodeByReference(
    options.python,
    fit.map(({ chunk }) => chunk),
  );
  for (const [i, { chunk, ours }] of fit.entries()) {
    const theirs = answers[i];
    if (theirs === "crashed") counts.crashed++;
    else if (theirs === "refused") counts.onlyOurs += ours.error === undefined ? 1 : 0;
    else if (ours.error !== undefined) countLaw(ours.error);
    else if (ours.digest === theirs.digest && ours.nbytes === theirs.nbytes) counts.same++;
    else
      fail(
        chunk,
        `libblosc decodes to other bytes: ${theirs.nbytes} ${theirs.digest}, ours ${ours.nbytes} ${ours.digest}`,
      );
  }
}

function countLaw({ code, details, summary }) {
  counts.onlyTheirs++;
  // The reason without its numbers.
  const law = `${code} ${details.field ?? ""}: ${summary.replace(/\d+/g, "N")}`;
  laws.set(law, (laws.get(law) ?? 0) + 1);
}

function fail(chunk, message) {
  failures.push(message);
  console.error(
    `FAILURE ${failures.length}: ${message}\n  ${Buffer.from(chunk).toString("base64").slice(0, 4000)}`,
  );
  if (options.save !== undefined) {
    mkdirSync(options.save, { recursive: true });
    writeFileSync(`${options.save}/failure-${failures.length}.blosc`, chunk);
  }
  if (failures.length >= 20) {
    report();
    process.exit(1);
  }
}

function report() {
  const seconds = (performance.now() - start) / 1000;
  console.log(`${counts.chunks} damaged chunks in ${seconds.toFixed(1)} s, seed ${options.seed}`);
  console.log(`we accept ${counts.accepted}, refuse ${counts.refused}`);
  if (reference !== undefined) {
    console.log(
      `both accept, same bytes: ${counts.same}; only we accept: ${counts.onlyOurs}; libblosc crashed: ${counts.crashed}`,
    );
    console.log(`only we refuse: ${counts.onlyTheirs}, for`);
    for (const [law, times] of [...laws].sort((a, b) => b[1] - a[1]))
      console.log(`  ${String(times).padStart(7)}  ${law}`);
  }
  console.log(failures.length === 0 ? "no failure" : `${failures.length} FAILURES`);
  process.exitCode = failures.length === 0 ? 0 : 1;
}

function readOriginals() {
  const folder = new URL("../../fixtures/blosc/", import.meta.url);
  const chunks = [];
  for (const name of readdirSync(folder).filter((file) => /^c-blosc-.*\.json$/.test(file))) {
    const bytes = readFileSync(new URL(name.replace(/json$/, "bin"), folder));
    const { chunks: entries } = JSON.parse(readFileSync(new URL(name, folder), "utf8"));
    for (const { offset, length } of entries)
      chunks.push(Uint8Array.from(bytes.subarray(offset, offset + length)));
  }
  return chunks;
}

/** Our own chunks with longer streams than the fixtures have: they use all parts of zstd's and zlib's formats. */
async function makeOriginals() {
  const chunks = [];
  for (const sample of [...Object.values(SAMPLES), ...Object.values(EXTREMES)]) {
    const { typesize } = sample;
    const data = makeSample(sample, 24_000);
    for (const [cname, clevel] of [
      ["lz4", 5],
      ["blosclz", 5],
      ["snappy", 5],
      ["zlib", 1],
      ["zlib", 9],
      ["zstd", 1],
      ["zstd", 7],
    ]) {
      for (const shuffle of ["noshuffle", "shuffle"]) {
        chunks.push(await blosc.encode(data, { cname, clevel, shuffle, typesize }));
      }
    }
  }
  return chunks;
}

function nbytesOf(chunk) {
  return new DataView(chunk.buffer, chunk.byteOffset).getUint32(4, true);
}

function digestOf(bytes) {
  return createHash("sha256").update(bytes).digest("hex").slice(0, 32);
}

/**
 * Decoding compared with libblosc and numcodecs.js: `node bench/codec/decode.mjs [--size BYTES] [--rounds N] [--json FILE]
 * [NAME…]`.
 *
 * All decode the same chunks, 4 MiB in turn, into a reused buffer; least times, one thread. Prints losses against the bars. Names select works
 * or samples: "lz4 shuffle", "categories uint8".
 */
import { writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import Blosc from "numcodecs/blosc";
import { EXTREMES, makeChunks, makeSample, SAMPLES } from "../samples.mjs";
import { startLibblosc } from "./libblosc.mjs";
import { printSummary } from "./summary.mjs";
import { leastSeconds } from "./timing.mjs";

const { values: options, positionals: only } = parseArgs({
  allowPositionals: true,
  options: {
    size: { type: "string", default: String(1 << 20) },
    rounds: { type: "string", default: "41" },
    json: { type: "string" },
    library: { type: "string", default: "superchunk/blosc" },
  },
});
const blosc = await import(options.library);
const size = Number(options.size);
const rounds = Number(options.rounds);
const peer = Blosc.fromConfig({ id: "blosc", cname: "lz4", clevel: 5, shuffle: 1, blocksize: 0 });

const SETTINGS = ["lz4", "lz4hc", "blosclz", "zstd"].flatMap((cname) => [
  { cname, shuffle: "shuffle" },
  { cname, shuffle: "bitshuffle" },
]);
SETTINGS.push({ cname: "zlib", shuffle: "shuffle" });

const nameOf = ({ cname, shuffle }) => `decode ${cname} ${shuffle}`;
const bars = Object.fromEntries(
  SETTINGS.filter(({ cname }) => cname !== "zlib").map((setting) => [
    nameOf(setting),
    { each: 0.8, middle: 1.1 },
  ]),
);
const isWanted = (...names) =>
  only.length === 0 || names.some((name) => only.some((part) => name.includes(part)));

const libblosc = await startLibblosc();
const results = [];
for (const setting of SETTINGS) {
  for (const [sample, what] of Object.entries({ ...SAMPLES, ...EXTREMES })) {
    const work = nameOf(setting);
    if (!isWanted(work, sample)) continue;
    const pieces = makeChunks(what, size);
    const { length } = pieces[0];
    const out = new Uint8Array(length);
    const chunks = [];
    for (const data of pieces) {
      const chunk = await blosc.encode(data, { ...setting, clevel: 5, typesize: what.typesize });
      await blosc.decode(chunk, { out });
      if (Buffer.compare(out, data) !== 0) throw new Error(`${work} ${sample}: decoded to other bytes`);
      chunks.push(chunk);
    }
    const native = await libblosc?.prepare({ work: "decode", chunks, nbytes: length });
    const [ours, theirs, natives] = await leastSeconds(
      [
        () => {
          for (const chunk of chunks) blosc.decodeSync(chunk, { out });
        },
        async () => {
          for (const chunk of chunks) await peer.decode(chunk, out);
        },
        ...(native === undefined ? [] : [native]),
      ],
      { rounds },
    );
    const nbytes = chunks.length * length;
    results.push({
      work,
      sample,
      ratio: nbytes / chunks.reduce((sum, chunk) => sum + chunk.length, 0),
      mbPerSecond: nbytes / ours / 1e6,
      times: theirs / ours,
      timesLibblosc: natives === undefined ? undefined : natives / ours,
    });
  }
}

// Reading one element decodes one block, so the comparison depends on the block size. Like c-blosc, the encoder multiplies it
// by the typesize if blocks are split (not with zstd). 0 is the automatic size.
const elements = [];
for (const sample of ["prices float64", "wide walk float64"]) {
  const data = makeSample({ ...SAMPLES, ...EXTREMES }[sample], 1 << 20);
  for (const cname of ["lz4", "blosclz", "zstd"]) {
    for (const blocksize of [cname === "zstd" ? 1 << 16 : 1 << 13, 0]) {
      const work = `one element, ${cname}`;
      if (!isWanted(work, sample)) continue;
      const chunk = await blosc.encode(data, {
        cname,
        clevel: 5,
        shuffle: "shuffle",
        typesize: 8,
        blocksize,
      });
      const out = new Uint8Array(data.length);
      const element = new Uint8Array(8);
      const [whole, one] = await leastSeconds([
        () => blosc.decodeSync(chunk, { out }),
        () => blosc.decodeRangeSync(chunk, 500_000, 8, { out: element }),
      ]);
      elements.push({
        work,
        sample,
        nblocks: blosc.info(chunk).nblocks,
        micros: one * 1e6,
        times: whole / one,
      });
    }
  }
}

libblosc?.end();
console.log(
  libblosc === undefined
    ? "libblosc is absent: npm run test:interop installs it"
    : `libblosc ${libblosc.version}, one thread, chunks of ${size} bytes`,
);
printSummary(results, bars);
for (const { work, sample, nblocks, micros, times } of elements) {
  console.log(
    `${work.padEnd(22)} ${sample.padEnd(18)} ${String(nblocks).padStart(3)} blocks ${micros.toFixed(1).padStart(8)} µs, a ${times.toFixed(1)}th of the chunk`,
  );
}
if (options.json)
  await writeFile(options.json, JSON.stringify({ node: process.version, size, results, elements }, null, 1));

/**
 * Decoding against numcodecs.js: `node bench/codec/decode.mjs [--size BYTES] [--json FILE] [--library MODULE]`.
 *
 * Both decode the same chunks into a buffer that is used again; medians, one thread. Losses against the bars are printed.
 */
import { writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import Blosc from "numcodecs/blosc";
import { startLibblosc } from "./libblosc.mjs";
import { SAMPLES } from "./samples.mjs";
import { medianSeconds } from "./timing.mjs";

const { values: options } = parseArgs({
  options: {
    size: { type: "string", default: String(1 << 20) },
    json: { type: "string" },
    library: { type: "string", default: "superchunk/blosc" },
  },
});
const blosc = await import(options.library);
const size = Number(options.size);
const peer = Blosc.fromConfig({ id: "blosc", cname: "lz4", clevel: 5, shuffle: 1, blocksize: 0 });

const SETTINGS = [
  { cname: "lz4", shuffle: "shuffle" },
  { cname: "blosclz", shuffle: "shuffle" },
  { cname: "lz4", shuffle: "bitshuffle" },
  { cname: "zstd", shuffle: "shuffle" },
  { cname: "zlib", shuffle: "shuffle" },
];

const libblosc = await startLibblosc();
const results = [];
for (const setting of SETTINGS) {
  for (const [sample, { typesize, make }] of Object.entries(SAMPLES)) {
    const data = make(size);
    const chunk = await blosc.encode(data, { ...setting, clevel: 5, typesize });
    const out = new Uint8Array(size);
    await blosc.decode(chunk, { out });
    if (Buffer.compare(out, data) !== 0)
      throw new Error(`${setting.cname} ${sample}: decoded to other bytes`);
    const native = await libblosc?.prepare({ work: "decode", data: chunk, nbytes: size });
    const [ours, theirs, natives] = await medianSeconds([
      () => blosc.decodeSync(chunk, { out }),
      () => peer.decode(chunk, out),
      ...(native === undefined ? [] : [native]),
    ]);
    const bar = barOf(setting, sample);
    results.push({
      work: `decode ${setting.cname} ${setting.shuffle}`,
      sample,
      ratio: size / chunk.length,
      mbPerSecond: size / ours / 1e6,
      peerMbPerSecond: size / theirs / 1e6,
      times: theirs / ours,
      timesLibblosc: natives === undefined ? undefined : natives / ours,
      bar,
    });
  }
}

function barOf({ cname, shuffle }, sample) {
  if (shuffle === "bitshuffle") return 5;
  if (cname === "zstd" || cname === "zlib") return 2;
  return sample === "text" || sample === "random bytes" ? 2 : 8;
}

// One element costs one block, so how it compares with the whole is a question of the block size. Like c-blosc, the encoder
// multiplies it by the typesize where blocks are split (not with zstd). 0 is the automatic one.
const data = SAMPLES["prices float64"].make(1 << 20);
for (const cname of ["lz4", "blosclz", "zstd"]) {
  for (const blocksize of [cname === "zstd" ? 1 << 16 : 1 << 13, 0]) {
    const chunk = await blosc.encode(data, { cname, clevel: 5, shuffle: "shuffle", typesize: 8, blocksize });
    const out = new Uint8Array(data.length);
    const element = new Uint8Array(8);
    const [whole, one] = await medianSeconds([
      () => blosc.decodeSync(chunk, { out }),
      () => blosc.decodeRangeSync(chunk, 500_000, 8, { out: element }),
    ]);
    const { nblocks } = blosc.info(chunk);
    const bar = blocksize === 0 ? undefined : 10;
    results.push({
      work: `one element, ${cname}, ${nblocks} blocks`,
      sample: "prices float64",
      times: whole / one,
      bar,
    });
  }
}

libblosc?.end();
console.log(
  libblosc === undefined
    ? "libblosc is absent: npm run test:interop installs it"
    : `libblosc ${libblosc.version}, one thread`,
);

for (const { work, sample, ratio, mbPerSecond, peerMbPerSecond, times, timesLibblosc, bar } of results) {
  const rates =
    mbPerSecond === undefined
      ? ""
      : `ratio ${ratio.toFixed(1).padStart(6)} ${mbPerSecond.toFixed(0).padStart(7)} MB/s, numcodecs.js ${peerMbPerSecond.toFixed(0).padStart(5)} MB/s`;
  const besides = timesLibblosc === undefined ? "" : `  ${timesLibblosc.toFixed(2)} x libblosc`;
  const verdict = bar === undefined || times >= bar ? "" : `  LOSS: the bar is ${bar}`;
  console.log(
    `${work.padEnd(28)} ${sample.padEnd(15)} ${rates.padEnd(52)} ${times.toFixed(1).padStart(6)} x${besides}${verdict}`,
  );
}
if (options.json)
  await writeFile(options.json, JSON.stringify({ node: process.version, size, results }, null, 1));

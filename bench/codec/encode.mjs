/**
 * Encoding against numcodecs.js: `node bench/codec/encode.mjs [--size BYTES] [--json FILE] [--library MODULE]`.
 *
 * Both encode the same data with the same compressor, level and shuffle; numcodecs.js always takes four bytes for an
 * element, so its chunks are larger where elements are not. Medians, one thread. Losses against the bars are printed.
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

const SHUFFLES = ["noshuffle", "shuffle", "bitshuffle"];
const SETTINGS = [
  { cname: "lz4", shuffle: "shuffle", clevel: 5 },
  { cname: "lz4", shuffle: "bitshuffle", clevel: 5 },
  { cname: "lz4", shuffle: "shuffle", clevel: 9 },
  { cname: "blosclz", shuffle: "shuffle", clevel: 5 },
  { cname: "lz4hc", shuffle: "shuffle", clevel: 5 },
  { cname: "zlib", shuffle: "shuffle", clevel: 5 },
  { cname: "zstd", shuffle: "shuffle", clevel: 3 },
];

const libblosc = await startLibblosc();
const results = [];
for (const setting of SETTINGS) {
  const { cname, clevel, shuffle } = setting;
  await blosc.prepareEncode(cname);
  const peer = Blosc.fromConfig({
    id: "blosc",
    cname,
    clevel,
    shuffle: SHUFFLES.indexOf(shuffle),
    blocksize: 0,
  });
  for (const [sample, { typesize, make }] of Object.entries(SAMPLES)) {
    const data = make(size);
    const chunk = blosc.encodeSync(data, { ...setting, typesize });
    if (Buffer.compare(await blosc.decode(chunk), data) !== 0)
      throw new Error(`${cname} ${sample}: encoded to something else`);
    const native = await libblosc?.prepare({ work: "encode", data, typesize, clevel, shuffle, cname });
    const [ours, theirs, natives] = await medianSeconds([
      () => blosc.encodeSync(data, { ...setting, typesize }),
      () => peer.encode(data),
      ...(native === undefined ? [] : [native]),
    ]);
    results.push({
      work: `encode ${cname} ${clevel} ${shuffle}`,
      sample,
      ratio: size / chunk.length,
      peerRatio: size / (await peer.encode(data)).length,
      mbPerSecond: size / ours / 1e6,
      peerMbPerSecond: size / theirs / 1e6,
      times: theirs / ours,
      timesLibblosc: natives === undefined ? undefined : natives / ours,
      libbloscRatio: native === undefined ? undefined : size / native.size,
      bar: barOf(setting, sample),
    });
  }
}

function barOf({ cname, clevel, shuffle }, sample) {
  if (cname !== "lz4" || clevel !== 5 || shuffle !== "shuffle") return undefined;
  return sample === "text" || sample === "random bytes" ? 1 : 5;
}

libblosc?.end();
console.log(
  libblosc === undefined
    ? "libblosc is absent: npm run test:interop installs it"
    : `libblosc ${libblosc.version}, one thread`,
);

for (const {
  work,
  sample,
  ratio,
  peerRatio,
  mbPerSecond,
  peerMbPerSecond,
  times,
  timesLibblosc,
  bar,
} of results) {
  const ours = `ratio ${ratio.toFixed(1).padStart(6)} ${mbPerSecond.toFixed(0).padStart(5)} MB/s`;
  const theirs = `numcodecs.js ratio ${peerRatio.toFixed(1).padStart(6)} ${peerMbPerSecond.toFixed(0).padStart(5)} MB/s`;
  const besides = timesLibblosc === undefined ? "" : `  ${timesLibblosc.toFixed(2)} x libblosc`;
  const verdict = bar === undefined || times >= bar ? "" : `  LOSS: the bar is ${bar}`;
  console.log(
    `${work.padEnd(26)} ${sample.padEnd(15)} ${ours}, ${theirs} ${times.toFixed(1).padStart(6)} x${besides}${verdict}`,
  );
}
if (options.json)
  await writeFile(options.json, JSON.stringify({ node: process.version, size, results }, null, 1));

/**
 * Encoding compared with libblosc and numcodecs.js: `node bench/codec/encode.mjs [--size BYTES] [--rounds N] [--json FILE]
 * [NAME…]`.
 *
 * All encode the same chunks, 4 MiB in turn, with the same compressor, level and shuffle; superchunk and libblosc into reused memory. numcodecs.js
 * always uses a typesize of four bytes, so its chunks are larger for other elements. Least times, one thread. Prints losses
 * against the bars. Names select works or samples: "lz4 5 shuffle", "categories uint8".
 */
import { writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import Blosc from "numcodecs/blosc";
import { EXTREMES, makeChunks, SAMPLES } from "../samples.mjs";
import { startLibblosc } from "./libblosc.mjs";
import { printSummary } from "./summary.mjs";
import { leastSeconds } from "./timing.mjs";

const { values: options, positionals: only } = parseArgs({
  allowPositionals: true,
  options: {
    size: { type: "string", default: String(1 << 20) },
    rounds: { type: "string", default: "41" },
    json: { type: "string" },
    library: { type: "string", default: "../../build/src/codec/index.js" },
  },
});
const blosc = await import(options.library);
const size = Number(options.size);
const rounds = Number(options.rounds);

const SHUFFLES = ["noshuffle", "shuffle", "bitshuffle"];
const SETTINGS = [
  { cname: "lz4", shuffle: "shuffle", clevel: 5, bar: { each: 0.8, middle: 1 } },
  { cname: "lz4", shuffle: "bitshuffle", clevel: 5, bar: { each: 0.8, middle: 1 } },
  { cname: "lz4", shuffle: "shuffle", clevel: 9 },
  { cname: "blosclz", shuffle: "shuffle", clevel: 5, bar: { each: 0.8, middle: 1 } },
  { cname: "lz4hc", shuffle: "shuffle", clevel: 5, bar: { each: 0.7 } },
  { cname: "zlib", shuffle: "shuffle", clevel: 5 },
  { cname: "zstd", shuffle: "shuffle", clevel: 3, bar: { each: 0.7 } },
];

const nameOf = ({ cname, clevel, shuffle }) => `encode ${cname} ${clevel} ${shuffle}`;
const bars = Object.fromEntries(
  SETTINGS.flatMap((setting) => (setting.bar === undefined ? [] : [[nameOf(setting), setting.bar]])),
);
const isWanted = (...names) =>
  only.length === 0 || names.some((name) => only.some((part) => name.includes(part)));

const libblosc = await startLibblosc();
const results = [];
const room = new Uint8Array(size + 16);
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
  for (const [sample, what] of Object.entries({ ...SAMPLES, ...EXTREMES })) {
    const work = nameOf(setting);
    if (!isWanted(work, sample)) continue;
    const { typesize } = what;
    const chunks = makeChunks(what, size);
    const nbytes = chunks.length * chunks[0].length;
    const encode = (data) => blosc.encodeInto(data, room, { cname, clevel, shuffle, typesize });
    let made = 0;
    for (const data of chunks) {
      const chunk = encode(data);
      made += chunk.length;
      if (Buffer.compare(await blosc.decode(chunk), data) !== 0)
        throw new Error(`${work} ${sample}: encoded to something else`);
    }
    const native = await libblosc?.prepare({ work: "encode", chunks, typesize, clevel, shuffle, cname });
    const [ours, theirs, natives] = await leastSeconds(
      [
        () => chunks.forEach(encode),
        async () => {
          for (const data of chunks) await peer.encode(data);
        },
        ...(native === undefined ? [] : [native]),
      ],
      { rounds },
    );
    results.push({
      work,
      sample,
      ratio: nbytes / made,
      mbPerSecond: nbytes / ours / 1e6,
      times: theirs / ours,
      timesLibblosc: natives === undefined ? undefined : natives / ours,
      sizes: native === undefined ? undefined : native.size / made,
    });
  }
}

libblosc?.end();
console.log(
  libblosc === undefined
    ? "libblosc is absent: npm run test:interop installs it"
    : `libblosc ${libblosc.version}, one thread, chunks of ${size} bytes`,
);
printSummary(results, bars);
if (options.json)
  await writeFile(options.json, JSON.stringify({ node: process.version, size, results }, null, 1));

/** The archives of the reading benchmarks: made once by fixed rules, into a folder that is kept between runs. */
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { encodeSync } from "../../dist/src/codec/index.js";
import { encodeHeader } from "../../dist/src/format/header.js";
import { encodeSection } from "../../dist/src/format/metadata.js";
import { encodeOffsets } from "../../dist/src/format/offsets.js";
import { randomNumbers } from "../codec/samples.mjs";

/** Values of the large array: 954 chunks of 1 MiB, the last one short. */
export const LARGE = { items: 125_000_000, chunkItems: 131_072, typesize: 8 };

/** Chunks of a random walk of prices in cents, as float64, one after the other. The buffer is used again. */
function* priceChunks({ items, chunkItems }) {
  const next = randomNumbers(1);
  const values = new Float64Array(chunkItems);
  let cents = 10_000;
  for (let at = 0; at < items; at += chunkItems) {
    const length = Math.min(chunkItems, items - at);
    for (let i = 0; i < length; i++) {
      cents += Math.round((next() - 0.5) * 20);
      values[i] = cents / 100;
    }
    yield new Uint8Array(values.buffer, 0, length * 8);
  }
}

/** Makes what is at `path` by `make`, which writes to the path that it is given, unless it is there. */
async function once(path, make) {
  if (existsSync(path)) return path;
  mkdirSync(dirname(path), { recursive: true });
  const draft = `${path}.draft`;
  rmSync(draft, { recursive: true, force: true });
  await make(draft);
  renameSync(draft, path);
  return path;
}

/** A carray folder, as bcolz has it. */
export function makeCarray(path, size, encoding) {
  return once(path, (draft) => {
    mkdirSync(join(draft, "meta"), { recursive: true });
    mkdirSync(join(draft, "data"));
    const prologue = encodeHeader({
      version: 1,
      nchunks: 1,
      offsets: false,
      metadata: false,
      checksum: "None",
    });
    let cbytes = 0;
    let index = 0;
    for (const data of priceChunks(size)) {
      const chunk = encodeSync(data, {
        cname: "lz4",
        clevel: 5,
        shuffle: "shuffle",
        typesize: 8,
        ...encoding,
      });
      writeFileSync(join(draft, "data", `__${index++}.blp`), Buffer.concat([prologue, chunk]));
      cbytes += chunk.length + prologue.length;
    }
    const sizes = { shape: [size.items], nbytes: size.items * 8, cbytes };
    const cparams = { clevel: 5, shuffle: 1, cname: "lz4", quantize: 0 };
    const storage = {
      dtype: "float64",
      cparams,
      chunklen: size.chunkItems,
      expectedlen: size.items,
      dflt: 0.0,
    };
    writeFileSync(join(draft, "meta", "sizes"), JSON.stringify(sizes));
    writeFileSync(join(draft, "meta", "storage"), JSON.stringify(storage));
    writeFileSync(join(draft, "__attrs__"), "{}"); // bcolz does not open without it
  });
}

/** A Bloscpack file with offsets, holding a numpy array. */
export function makeBloscpack(path, size, encoding) {
  return once(path, async (draft) => {
    const nchunks = Math.ceil(size.items / size.chunkItems);
    const section = await encodeSection({
      container: "numpy",
      dtype: "<f8",
      shape: [size.items],
      order: "C",
    });
    const last = (size.items - (nchunks - 1) * size.chunkItems) * 8;
    const header = encodeHeader({
      version: 3,
      offsets: true,
      metadata: true,
      checksum: "None",
      typesize: 8,
      chunkSize: size.chunkItems * 8,
      lastChunk: last,
      nchunks,
      maxAppChunks: 0,
      metaSize: 0,
    });
    const tableAt = header.length + section.length;
    const offsets = [];
    let at = tableAt + nchunks * 8;
    const file = openSync(draft, "w");
    let pieces = [];
    let pending = 0;
    writeSync(file, Buffer.concat([header, section, Buffer.alloc(nchunks * 8)]));
    const flush = () => {
      writeSync(file, Buffer.concat(pieces));
      pieces = [];
      pending = 0;
    };
    for (const data of priceChunks(size)) {
      const chunk = encodeSync(data, {
        cname: "lz4",
        clevel: 5,
        shuffle: "shuffle",
        typesize: 8,
        ...encoding,
      });
      offsets.push(at);
      at += chunk.length;
      pieces.push(chunk);
      pending += chunk.length;
      if (pending > 4 << 20) flush();
    }
    flush();
    writeSync(file, encodeOffsets(offsets), 0, nchunks * 8, tableAt);
    closeSync(file);
  });
}

/** The archives of the reading benchmarks: made once by fixed rules, in a folder that is kept between runs. */
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
import { encodeSync } from "../../build/src/codec/index.js";
import { encodeFileHeader, encodeOffsets, encodeSection } from "../../build/src/format/encode-file.js";
import { SAMPLES } from "../samples.mjs";

const prices = SAMPLES["prices float64"];

/** Prices of the large array: 954 chunks of 1 MiB, the last one short. */
export const LARGE = { items: 125_000_000, chunkItems: 131_072 };

/** An array of one of the samples: whole chunks of about 1 MiB. */
export function arrayOf(sample, nbytes) {
  const chunkItems = Math.floor((1 << 20) / sample.typesize);
  return { items: Math.floor(nbytes / (chunkItems * sample.typesize)) * chunkItems, chunkItems, sample };
}

/** Bytes of an array's chunks, one after the other. The buffer is reused. */
function* chunksOf({ items, chunkItems, sample = prices }) {
  const width = sample.typesize / sample.type.BYTES_PER_ELEMENT;
  const values = new sample.type(chunkItems * width);
  const fill = sample.start();
  for (let at = 0; at < items; at += chunkItems) {
    const part = values.subarray(0, Math.min(chunkItems, items - at) * width);
    fill(part);
    yield new Uint8Array(part.buffer, 0, part.byteLength);
  }
}

/** Makes the file at `path` with `make`, which writes to the given path, unless it exists. */
async function once(path, make) {
  if (existsSync(path)) return path;
  mkdirSync(dirname(path), { recursive: true });
  const draft = `${path}.draft`;
  rmSync(draft, { recursive: true, force: true });
  await make(draft);
  renameSync(draft, path);
  return path;
}

/** A carray folder, as bcolz writes it. */
export function makeCarray(path, size, encoding) {
  const { dtype, typesize } = size.sample ?? prices;
  return once(path, (draft) => {
    mkdirSync(join(draft, "meta"), { recursive: true });
    mkdirSync(join(draft, "data"));
    const prologue = encodeFileHeader({
      version: 1,
      nchunks: 1,
      offsets: false,
      metadata: false,
      checksum: "None",
    });
    let cbytes = 0;
    let index = 0;
    for (const data of chunksOf(size)) {
      const chunk = encodeSync(data, {
        cname: "lz4",
        clevel: 5,
        shuffle: "shuffle",
        typesize,
        ...encoding,
      });
      writeFileSync(join(draft, "data", `__${index++}.blp`), Buffer.concat([prologue, chunk]));
      cbytes += chunk.length + prologue.length;
    }
    const sizes = { shape: [size.items], nbytes: size.items * typesize, cbytes };
    const cparams = { clevel: 5, shuffle: 1, cname: "lz4", quantize: 0 };
    const storage = {
      dtype,
      cparams,
      chunklen: size.chunkItems,
      expectedlen: size.items,
      dflt: dtype.includes("S") ? "" : 0,
    };
    writeFileSync(join(draft, "meta", "sizes"), JSON.stringify(sizes));
    writeFileSync(join(draft, "meta", "storage"), JSON.stringify(storage));
    writeFileSync(join(draft, "__attrs__"), "{}"); // bcolz does not open without it
  });
}

/** A Bloscpack file with offsets, holding a numpy array of prices. */
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
    const header = encodeFileHeader({
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
    for (const data of chunksOf(size)) {
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

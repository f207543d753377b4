/** Small HDF5 files for the fuzzer: damaged in their structures, and read. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { hashOf } from "../../build/src/hdf5/file.js";
import { openArray } from "../../build/src/open/open.js";
import { MemoryStore } from "../../build/src/store/memory.js";

/** Signatures of structures that end with a checksum. */
const SIGNATURES = [
  "OHDR",
  "OCHK",
  "FRHP",
  "FHIB",
  "FHDB",
  "BTHD",
  "BTIN",
  "BTLF",
  "FAHD",
  "FADB",
  "EAHD",
  "EAIB",
  "EASB",
  "EADB",
];
/** Bytes that one mutation looks at. */
const WINDOW = 48;

const folder = new URL("../../fixtures/hdf5/small/", import.meta.url);

/** The files: each has a dataset "x". */
export const files = readdirSync(folder)
  .filter((name) => name.endsWith(".h5"))
  .map((name) => {
    const bytes = Uint8Array.from(readFileSync(new URL(name, folder)));
    return { kind: 2, name, bytes, sums: sumsOf(bytes) };
  });

/** Where checksums are: a structure's first byte, and its length without the checksum. */
function sumsOf(bytes) {
  const text = Buffer.from(bytes).toString("latin1");
  const view = new DataView(bytes.buffer);
  const sums = [];
  const starts = SIGNATURES.flatMap((signature) => [...text.matchAll(signature)].map(({ index }) => index));
  for (const start of [0, ...starts])
    for (let length = 8; start + length + 4 <= bytes.length; length++)
      if (hashOf(bytes.subarray(start, start + length)) === view.getUint32(start + length, true)) {
        sums.push({ start, length });
        break;
      }
  return sums;
}

/** Damages a file in a part that is not empty; every second time its checksums are corrected. */
export function mutateFile(bytes, sums, mutate) {
  const out = Uint8Array.from(bytes);
  // The mutator draws the numbers, so that a seed gives the same mutations.
  const draw = mutate(Uint8Array.from({ length: 64 }, (_, i) => (i * 37) & 255));
  let state = [...draw].reduce((sum, byte) => (sum * 31 + byte) >>> 0, 7);
  const below = (n) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * n);
  };
  for (let times = 1 + below(3); times > 0; times--) {
    let at = below(out.length - WINDOW);
    while (out.subarray(at, at + WINDOW).every((byte) => byte === 0)) at = below(out.length - WINDOW);
    const part = mutate(out.subarray(at, at + 4 + below(WINDOW - 4)));
    out.set(part.subarray(0, Math.min(part.length, out.length - at)), at);
  }
  if (below(2) === 0) {
    const view = new DataView(out.buffer);
    for (const { start, length } of sums)
      view.setUint32(start + length, hashOf(out.subarray(start, start + length)), true);
  }
  return below(20) === 0 ? out.subarray(0, below(out.length)) : out;
}

/** Values of the dataset, with its shape in front as int64; nothing if they exceed the limit. */
export async function decodeFile(bytes, maxNbytes) {
  const array = await openArray(new MemoryStore(new Map([["f.h5", bytes]])), "f.h5/x");
  if (array.nbytes > maxNbytes || array.shape.includes(0)) return { nbytes: 0, digest: "", isOpen: true };
  const shape = new Uint8Array(BigInt64Array.from(array.shape, BigInt).buffer);
  const values = await array.getBytes();
  const digest = createHash("sha256").update(shape).update(values).digest("hex").slice(0, 32);
  // h5py shows zeros after the end of a zero-terminated text; here are the stored bytes. It gives text of variable length as objects.
  return { nbytes: shape.length + values.length, digest, isOpen: hasText(array.dtype) };
}

function hasText({ kind, fields = [] }) {
  return kind === "bytes" || kind === "unicode" || fields.some(({ dtype }) => hasText(dtype));
}

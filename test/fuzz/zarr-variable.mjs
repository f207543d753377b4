/** Values of variable length: what is stored is read, and mutated chunks end in values, or in an error that names the chunk. */
import { MemoryStore } from "../../build/src/store/memory.js";
import { openZarrArray } from "../../build/src/zarr/read/open.js";
import { CRC, choicesFrom } from "./zarr-chains.mjs";

const LETTERS = ["a", "z", "é", "東", "😀", " ", "\n", "\ufeff", "\0b"];
const WORDS = [0, 1, 2, 4, 5, 0xff, 2 ** 18, 2 ** 18 + 1, 2 ** 27, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1];
/** Most bytes that reading a chunk of a few hundred bytes may take. */
const MOST = 256 << 20;

/** Stores random values, reads them, mutates a chunk, and reads again. Throws if a result or an error is wrong. */
export async function fuzzVariable(seed) {
  const choices = choicesFrom(seed);
  const { below, pick } = choices;
  const isText = below(3) > 0;
  const length = 1 + below(12);
  const values = Array.from({ length: 2 * length }, () => randomValue(isText, choices));
  const codec = isText ? "vlen-utf8" : "vlen-bytes";
  const isVersion2 = below(3) === 0;
  const isSummed = !isVersion2 && below(4) === 0;
  const document = isVersion2
    ? {
        ...{
          zarr_format: 2,
          shape: [2 * length],
          chunks: [length],
          dtype: "|O",
          order: "C",
          compressor: null,
        },
        ...{ fill_value: pick([null, 0, ""]), filters: [{ id: codec }] },
      }
    : {
        ...{ zarr_format: 3, node_type: "array", shape: [2 * length], fill_value: "" },
        data_type: isText ? "string" : pick(["bytes", "variable_length_bytes"]),
        chunk_grid: { name: "regular", configuration: { chunk_shape: [length] } },
        chunk_key_encoding: { name: "v2" },
        codecs: isSummed ? [codec, CRC] : [codec],
      };
  const chunks = [encode(values.slice(0, length)), encode(values.slice(length))];
  const store = new MemoryStore();
  await store.put(isVersion2 ? ".zarray" : "zarr.json", new TextEncoder().encode(JSON.stringify(document)));
  const { crc32c } = await import("../../build/src/bytes/checksum.js");
  const put = async (i, bytes) => {
    const sum = isSummed ? new Uint8Array(Uint32Array.of(await crc32c(bytes)).buffer) : new Uint8Array();
    await store.put(String(i), Uint8Array.from([...bytes, ...sum]));
  };
  for (const [i, bytes] of chunks.entries()) await put(i, bytes);
  try {
    const whole = await read(store, 0, 2 * length);
    if (whole.join("|") !== values.map(shownAs).join("|"))
      throw new Error(`read ${whole}, not ${values.map(shownAs)}`);
    for (let round = 0; round < 8; round++) {
      await put(0, mutate(chunks[0], choices));
      const before = process.memoryUsage().arrayBuffers;
      const rest = await read(store, length, 2 * length);
      if (rest.join("|") !== values.slice(length).map(shownAs).join("|"))
        throw new Error("another chunk has other values");
      const found = await read(store, 0, length);
      if (found !== undefined && found.length !== length) throw new Error(`${found.length} values`);
      const { ok } = await (await openZarrArray(store)).verify();
      if (ok !== (found !== undefined)) throw new Error(`verify says ${ok}`);
      const taken = process.memoryUsage().arrayBuffers - before;
      if (taken > MOST) throw new Error(`reading took ${taken} bytes`);
    }
  } catch (cause) {
    throw new Error(`seed ${seed}, ${JSON.stringify(document)}`, { cause });
  }
}

function randomValue(isText, { below, pick }) {
  const count = pick([0, 0, 1, 2, 5, 40]);
  if (isText) return Array.from({ length: count }, () => pick(LETTERS)).join("");
  return Uint8Array.from({ length: count }, (_, i) => (i === count - 1 ? 1 + below(255) : below(256)));
}

function shownAs(value) {
  return typeof value === "string" ? value : String.fromCharCode(...value);
}

function encode(values) {
  const word = (n) => [...new Uint8Array(Uint32Array.of(n).buffer)];
  const parts = values.map((each) => (typeof each === "string" ? new TextEncoder().encode(each) : each));
  return Uint8Array.from([
    ...word(values.length),
    ...parts.flatMap((part) => [...word(part.length), ...part]),
  ]);
}

/** Values `[start, stop)`; undefined for a chunk that is refused. Throws every other error. */
async function read(store, start, stop) {
  try {
    const { data } = await (await openZarrArray(store)).get([{ start, stop, step: 1 }]);
    return [...data];
  } catch (error) {
    const isRefused = error.name === "SuperchunkError" && (error.isDamage || error.code === "UNSUPPORTED");
    if (isRefused && error.details.path?.endsWith("0")) return undefined;
    throw error;
  }
}

function mutate(chunk, { below, pick }) {
  const bytes = chunk.slice();
  const at = below(bytes.length);
  switch (below(5)) {
    case 0:
      bytes[at] ^= 1 << below(8);
      return bytes;
    case 1:
      return bytes.slice(0, at);
    case 2:
      return Uint8Array.from([
        ...bytes.slice(0, at),
        ...Array.from({ length: 1 + below(9) }, () => below(256)),
        ...bytes.slice(at),
      ]);
    case 3:
      return Uint8Array.from([...bytes.slice(0, at), ...bytes.slice(at + 1 + below(9))]);
    default:
      new DataView(bytes.buffer).setUint32(Math.min(at, bytes.length - 4), pick(WORDS), true);
      return bytes;
  }
}

/** Random Zarr arrays with known values: version 2 byte by byte, version 3 by random writes. */

import { deflateSync } from "node:zlib";
import { encode } from "superchunk/blosc";
import { randomItems, randomValues, toFortran } from "./archives.mjs";
import { openZarrWriter, randomDocument } from "./zarr-chains.mjs";

/** Of version 2: chunks of any shape, some of them missing. */
export async function makeZarr2(store, path, choices) {
  const { below, pick } = choices;
  const { spelled, dtype, shape } = randomValues(choices, pick([1, 1, 2, 3]), true);
  const chunks = shape.map((n) => 1 + below(pick([3, n + 3, 9])));
  const fill = randomItems(dtype, 1, choices);
  const hasFill = below(3) > 0 && ["int", "uint", "bytes", "void"].includes(dtype.kind);
  if (!hasFill) fill.fill(0);
  const order = pick(["C", "F"]);
  const compressor = pick([null, { id: "zlib", level: 1 }, ...new Array(3).fill({ id: "blosc" })]);
  if (compressor?.id === "blosc")
    Object.assign(compressor, {
      cname: pick(["lz4", "zstd", "blosclz"]),
      clevel: 5,
      shuffle: pick([0, 1, 2]),
      blocksize: 0,
    });
  const separator = pick([".", "/"]);
  const document = {
    ...{ zarr_format: 2, shape, chunks, dtype: spelled, order, compressor, filters: null },
    fill_value: hasFill ? fillWords(fill, dtype) : pick([null, zeroOf(dtype)]),
    dimension_separator: separator,
  };
  await store.put(`${path}/.zarray`, new TextEncoder().encode(JSON.stringify(document)));
  const items = shape.reduce((product, n) => product * n, 1);
  const bytes = new Uint8Array(items * dtype.itemSize);
  for (let at = 0; at < bytes.length; at += dtype.itemSize) bytes.set(fill, at);
  for (const position of positions(shape.map((n, d) => Math.ceil(n / chunks[d])))) {
    if (below(4) === 0) continue;
    const chunk = randomItems(
      dtype,
      chunks.reduce((product, n) => product * n, 1),
      choices,
    );
    for (const [index, inner] of positions(chunks).entries()) {
      const at = inner.map((n, d) => n + position[d] * chunks[d]);
      if (at.some((n, d) => n >= shape[d])) continue;
      const item = at.reduce((sum, n, d) => sum * shape[d] + n, 0);
      bytes.set(chunk.subarray(index * dtype.itemSize, (index + 1) * dtype.itemSize), item * dtype.itemSize);
    }
    const stored = order === "F" ? toFortran(chunk, chunks, dtype.itemSize) : chunk;
    await store.put(`${path}/${position.join(separator)}`, await compress(stored, compressor, dtype));
  }
  return { document, values: { dtype, shape, bytes } };
}

function compress(bytes, compressor, dtype) {
  if (compressor === null) return bytes;
  if (compressor.id === "zlib") return deflateSync(bytes);
  const shuffle = ["noshuffle", "shuffle", "bitshuffle"][compressor.shuffle];
  return encode(bytes, {
    cname: compressor.cname,
    clevel: 5,
    shuffle,
    typesize: Math.min(255, dtype.itemSize),
  });
}

function fillWords(item, { kind, byteOrder }) {
  if (kind === "bytes" || kind === "void") return Buffer.from(item).toString("base64");
  const number = (byteOrder === "big" ? item : item.slice().reverse()).reduce(
    (sum, byte) => sum * 256 + byte,
    0,
  );
  if (!Number.isSafeInteger(number)) {
    item.fill(0);
    return 0;
  }
  const half = 2 ** (item.length * 8 - 1);
  return kind === "int" && number >= half ? number - 2 * half : number;
}

function zeroOf({ kind }) {
  if (kind === "bool") return false;
  if (kind === "complex") return [0, 0];
  return ["bytes", "unicode", "void"].includes(kind) ? "" : 0;
}

/** Every position below a shape, in C order. */
function positions(shape) {
  return shape.reduce(
    (found, n) => found.flatMap((at) => Array.from({ length: n }, (_, i) => [...at, i])),
    [[]],
  );
}

/** Of version 3: any chain of codecs, parts of it written. */
export async function makeZarr3(store, path, choices) {
  const { below } = choices;
  const document = randomDocument(choices);
  document.attributes = { unit: "m" };
  await store.put(`${path}/zarr.json`, new TextEncoder().encode(JSON.stringify(document)));
  const { shape } = document;
  const model = new Int32Array(shape.reduce((product, n) => product * n, 1)).fill(-7);
  const writer = await openZarrWriter(store, path);
  for (let n = below(3); n > 0; n--) {
    const start = shape.map((length) => below(length));
    const counts = shape.map((length, d) => 1 + below(length - start[d]));
    const items = positions(counts).map((at) => at.reduce((sum, i, d) => sum * shape[d] + i + start[d], 0));
    const values = Int32Array.from(items, () => below(1000));
    for (const [i, item] of items.entries()) model[item] = values[i];
    await writer.set(
      start.map((from, d) => ({ start: from, stop: from + counts[d] })),
      values,
    );
  }
  const bytes = new Uint8Array(model.buffer);
  const dtype = { kind: "int", itemSize: 4, byteOrder: "little" };
  return { document, values: { dtype, shape, bytes, attrs: document.attributes } };
}

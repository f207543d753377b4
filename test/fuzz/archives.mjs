/** Random archives of every kind that can be written, with the bytes that they hold, without reading them back. */
import { compressBytes, edit, parseDType } from "superchunk";
import { createArray } from "../../build/src/write/array/create.js";
import { createCarray, createTable } from "../../build/src/write/bcolz/bcolz-create.js";

/** What an array may hold: numbers, texts, dates, raw bytes, structs with sub-arrays, in both byte orders. */
const TYPES = [
  ...["|b1", "|u1", "|i1", "<i2", ">i4", "<u8", ">f8", "<f4", ">f2", "<c8", ">c16"],
  ...["|S3", "<U2", ">U3", "<M8[ns]", ">M8[D]", "<m8[3s]", "|V5"],
  [
    ["a", "<i4"],
    ["b", "<f8"],
  ],
  [
    ["a", ">i2", [3]],
    ["s", "|S2"],
    ["t", "<M8[s]"],
  ],
  [
    [
      "n",
      [
        ["x", "<u2"],
        ["y", "|b1"],
      ],
    ],
    ["v", "<f4", [2, 2]],
  ],
];
const CODECS = ["lz4", "lz4hc", "zstd", "blosclz", "zlib", "snappy"];
const CHECKSUMS = ["None", "adler32", "crc32", "sha256"];

/** Random values: the dtype as numpy spells it and parsed, the shape, and the items in C order as stored. */
export function randomValues(choices, dimensions = choices.pick([1, 1, 2, 2, 3, 4]), isPlain = false) {
  const { below, pick } = choices;
  const spelled = pick(isPlain ? TYPES.filter((type) => typeof type === "string") : TYPES);
  const dtype = parseDType(spelled, "a random dtype");
  const rows = pick([0, 1, 2, below(12), below(60), below(200)]);
  const rowShape = Array.from({ length: dimensions - 1 }, () => 1 + below(4));
  const items = [rows, ...rowShape].reduce((product, n) => product * n, 1);
  return {
    spelled,
    dtype,
    rows,
    rowShape,
    shape: [rows, ...rowShape],
    bytes: randomItems(dtype, items, choices),
  };
}

/** So many items of a dtype, as stored. */
export function randomItems(dtype, count, choices) {
  const { below, pick } = choices;
  const bytes = new Uint8Array(count * dtype.itemSize);
  const kind = pick(["zeros", "few", "any"]);
  for (let at = 0; kind !== "zeros" && at < bytes.length; at += dtype.itemSize)
    putItem(
      bytes.subarray(at, at + dtype.itemSize),
      dtype,
      kind === "few" ? (n) => below(Math.min(n, 3)) : below,
    );
  return bytes;
}

function putItem(item, dtype, below) {
  if (dtype.kind === "struct") {
    for (const field of dtype.fields) {
      const size = field.dtype.itemSize;
      const length = field.shape.reduce((product, n) => product * n, 1);
      for (let i = 0; i < length; i++)
        putItem(item.subarray(field.offset + i * size, field.offset + (i + 1) * size), field.dtype, below);
    }
  } else if (dtype.kind === "bool") item[0] = below(2);
  else if (dtype.kind === "unicode") {
    const view = new DataView(item.buffer, item.byteOffset, item.length);
    for (let at = 0; at < item.length; at += 4)
      view.setUint32(at, 97 + below(0x2000), dtype.byteOrder !== "big");
  } else for (let i = 0; i < item.length; i++) item[i] = below(256);
}

/** Attributes that must survive every conversion. */
export function randomAttributes({ below, pick }) {
  if (below(2) === 0) return {};
  return pick([{ unit: "m" }, { n: 1, deep: { list: [1, "two", null, true] } }, { ü: "é", empty: {} }]);
}

/** Items in C order as Fortran order. */
export function toFortran(bytes, shape, itemSize) {
  const out = new Uint8Array(bytes.length);
  const strides = [];
  let stride = 1;
  for (const n of shape) {
    strides.push(stride);
    stride *= n;
  }
  const position = shape.map(() => 0);
  for (let at = 0; at < bytes.length; at += itemSize) {
    const place = position.reduce((sum, n, d) => sum + n * strides[d], 0);
    out.set(bytes.subarray(at, at + itemSize), place * itemSize);
    for (let d = shape.length - 1; d >= 0 && ++position[d] === shape[d]; d--) position[d] = 0;
  }
  return out;
}

/** An array at a key of a store, of a random kind unless one is given; returns what it holds, and how it was made. */
export async function makeArchive(
  store,
  path,
  choices,
  kind = choices.pick(["bloscpack", "carray", "superchunks", "superchunks"]),
) {
  const values = randomValues(choices, undefined, kind === "carray"); // bcolz opens no structs
  const attrs = kind === "bloscpack" ? {} : randomAttributes(choices);
  const made = { ...values, attrs, kind };
  if (kind === "bloscpack") await makeBloscpack(store, path, made, choices);
  else if (kind === "carray") await makeCarray(store, path, made, choices);
  else made.columns = await makeSuperchunks(store, path, made, choices);
  return made;
}

async function makeBloscpack(store, path, values, choices) {
  const { below, pick } = choices;
  const { dtype, shape, bytes } = values;
  values.order = shape.length > 1 && below(3) === 0 ? "F" : "C";
  const data = values.order === "F" ? toFortran(bytes, shape, dtype.itemSize) : bytes;
  const rowBytes = bytes.length / Math.max(1, shape[0]) || dtype.itemSize;
  values.chunkSize = pick([
    dtype.itemSize,
    rowBytes,
    rowBytes * (1 + below(9)),
    dtype.itemSize * (1 + below(50)),
  ]);
  await compressBytes(data, store, path, {
    array: { dtype, shape, order: values.order },
    chunkSize: values.chunkSize,
    checksum: pick(CHECKSUMS),
    offsets: below(3) > 0,
    ...compression(choices),
  });
}

async function makeCarray(store, path, values, choices) {
  const { below, pick } = choices;
  const { dtype, rowShape, rows, bytes, attrs } = values;
  const rowBytes = rowShape.reduce((product, n) => product * n, dtype.itemSize);
  const cuts = [0, below(rows + 1), below(rows + 1), rows].sort((a, b) => a - b);
  const part = (i) => bytes.slice(cuts[i] * rowBytes, cuts[i + 1] * rowBytes);
  const options = { chunkLength: 1 + below(pick([3, 20, 70])), compressor: compression(choices), attrs };
  values.made = options;
  await createCarray(store, path, { dtype, rowShape, data: part(0) }, options);
  const array = await edit(store, path);
  for (const i of [1, 2]) await array.append(part(i));
  await array.close();
}

async function makeSuperchunks(store, path, values, choices) {
  const { below, pick } = choices;
  const { spelled, dtype, rowShape, rows, bytes, attrs } = values;
  const options = {
    ...{ dtype: spelled, shape: [0, ...rowShape], attrs, columns: below(2) === 0 },
    chunkLength: 1 + below(pick([3, 20, 70])),
    superchunkLength: 1 + below(6),
    ...(below(3) === 0 ? { fillValue: randomDefault(dtype, choices) } : {}),
    checksum: pick(CHECKSUMS),
    compressor: compression(choices),
  };
  values.made = options;
  const array = await createArray(store, path, options);
  const rowBytes = rowShape.reduce((product, n) => product * n, dtype.itemSize);
  for (let at = 0; at < rows; ) {
    const next = Math.min(rows, at + 1 + below(rows));
    await array.append(bytes.slice(at * rowBytes, next * rowBytes));
    if (below(2) === 0) await array.flush();
    at = next;
  }
  if (rows > 0 && below(3) === 0) await setRows(array, values, choices);
  if (rows > 0 && below(4) === 0) {
    const start = below(rows);
    const stop = start + below(rows - start + 1);
    await array.deleteRows(start, stop);
    values.bytes = Uint8Array.from([
      ...values.bytes.slice(0, start * rowBytes),
      ...values.bytes.slice(stop * rowBytes),
    ]);
    values.rows = rows - (stop - start);
    values.shape = [values.rows, ...rowShape];
  }
  if (below(4) === 0) await array.compact();
  await array.close();
  return array.columnNames.length > 0 ? array.columnNames : undefined;
}

/** A default value of a dtype, as `meta/storage` spells it. */
function randomDefault(dtype, choices) {
  const { below, pick } = choices;
  const count = (of) => of.shape.reduce((product, n) => product * n, 1);
  const spread = (of) =>
    of.shape.reduceRight((part, n) => new Array(n).fill(part), randomDefault(of.dtype, choices));
  switch (dtype.kind) {
    case "bool":
      return below(2) === 0;
    case "float":
      return pick([1.5, "NaN", "Infinity", "-Infinity", -0.25]);
    case "complex":
      return [pick([0, 1.5]), pick([0, -2])];
    case "bytes":
    case "unicode":
      return pick(["", "a", "ab"]);
    case "void":
      return pick(["\x01\x02", "\xff", "abcde"]);
    case "datetime":
    case "timedelta":
      return pick(["NaT", 0, 77, -1]);
    case "struct":
      return dtype.fields.map((field) => (count(field) === 0 ? null : spread(field)));
    default:
      return below(100);
  }
}

/** Changes some rows, in the array and in its expected values. */
export async function setRows(array, values, choices) {
  const { below } = choices;
  const { dtype, rowShape, rows } = values;
  const rowBytes = rowShape.reduce((product, n) => product * n, dtype.itemSize);
  const start = below(rows);
  const stop = start + 1 + below(rows - start);
  const items = randomItems(dtype, ((stop - start) * rowBytes) / dtype.itemSize, choices);
  await array.set([{ start, stop }], items);
  values.bytes = values.bytes.slice();
  values.bytes.set(items, start * rowBytes);
}

/** A table of carrays; what each column holds. */
export async function makeTable(store, path, choices) {
  const { below } = choices;
  const { rows } = randomValues(choices, 1);
  const columns = Array.from({ length: 1 + below(4) }, (_, i) => {
    const values = randomValues(choices, choices.pick([1, 1, 2]), true);
    const items = rows * values.rowShape.reduce((product, n) => product * n, 1);
    return {
      ...values,
      ...{
        name: ["b", "a", "c_d", "d"][i],
        rows,
        shape: [rows, ...values.rowShape],
        attrs: randomAttributes(choices),
      },
      bytes: randomItems(values.dtype, items, choices),
    };
  });
  await createTable(
    store,
    path,
    columns.map(({ name, dtype, rowShape, bytes, attrs }) => {
      const options = { chunkLength: 1 + below(30), compressor: compression(choices), attrs };
      return { name, dtype, rowShape, data: bytes, options };
    }),
  );
  return columns;
}

function compression({ below, pick }) {
  return { cname: pick(CODECS), clevel: below(10), shuffle: pick(["shuffle", "noshuffle", "bitshuffle"]) };
}

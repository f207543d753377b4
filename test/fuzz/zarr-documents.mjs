/**
 * Documents of all versions with members that no program writes: right values or an error with a code, in little
 * memory and time.
 */

import { MemoryStore } from "../../build/src/store/memory.js";
import { openZarr } from "../../build/src/zarr/read/open.js";
import { blosc, CRC, choicesFrom, LITTLE, openZarrWriter, randomDocument, sharding } from "./zarr-chains.mjs";

const PROTOCOL = "https://purl.org/zarr/spec/protocol/core/3.0";
const ENTRY = {
  ...{ zarr_format: PROTOCOL, metadata_encoding: PROTOCOL, metadata_key_suffix: ".json", extensions: [] },
};
const V2 = {
  ...{ zarr_format: 2, shape: [13, 17], chunks: [8, 12], dtype: "<i4", fill_value: 3, order: "F" },
  compressor: { id: "blosc", cname: "lz4", clevel: 5, shuffle: 1, blocksize: 0 },
  ...{ filters: [{ id: "delta", dtype: "<i4", astype: "<i4" }], dimension_separator: "." },
};
const V2_STRUCT = {
  ...{ zarr_format: 2, shape: [13], chunks: [5], fill_value: null, order: "C", filters: null },
  ...{
    dtype: [
      ["a", "<i4"],
      ["b", ">f8", [2]],
    ],
    compressor: { id: "zlib", level: 1 },
  },
};
const TRANSFORMER = {
  ...{ shape: [13, 17], data_type: "<i4", chunk_memory_layout: "C", fill_value: 0, extensions: [] },
  chunk_grid: { type: "regular", chunk_shape: [2, 3], separator: "/" },
  compressor: { codec: "https://purl.org/zarr/spec/codec/zlib/1.0", configuration: { level: 1 } },
  attributes: { filters: [{ id: "shuffle", elementsize: 4 }] },
  storage_transformers: [
    {
      ...{ extension: "https://purl.org/zarr/spec/storage_transformers/sharding/1.0", type: "indexed" },
      configuration: { chunks_per_shard: [2, 3] },
    },
  ],
};
const STRUCT = {
  name: "struct",
  configuration: {
    fields: [
      { name: "a", data_type: "int32" },
      { name: "b", data_type: "float64" },
    ],
  },
};

/** The location of documents of each kind, the other objects, and which one is changed. */
const KINDS = [
  (choices) => ({ key: "a/zarr.json", document: randomDocument(choices) }),
  (choices) => ({
    key: "a/zarr.json",
    document: { ...randomDocument(choices), data_type: STRUCT, fill_value: { a: 1, b: "NaN" } },
  }),
  () => ({ key: "a/.zarray", document: V2 }),
  () => ({ key: "a/.zarray", document: V2_STRUCT }),
  () => ({ key: "meta/root/a.array.json", document: TRANSFORMER, others: { "zarr.json": ENTRY } }),
  () => ({ key: "zarr.json", document: ENTRY, others: { "meta/root/a.array.json": TRANSFORMER } }),
  (choices) => ({ key: "zarr.json", document: groupOf({ a: randomDocument(choices) }), path: "" }),
  () => ({
    ...{ key: ".zmetadata", path: "", others: { ".zgroup": { zarr_format: 2 } } },
    document: {
      zarr_consolidated_format: 1,
      metadata: { "a/.zarray": V2, "b/.zgroup": { zarr_format: 2 }, "b/c/.zarray": V2_STRUCT },
    },
  }),
];

function groupOf(metadata) {
  const consolidated = { kind: "inline", must_understand: false, metadata };
  return { zarr_format: 3, node_type: "group", attributes: {}, consolidated_metadata: consolidated };
}

/** JSON that is not a JavaScript value. */
class Raw {
  constructor(text) {
    this.text = text;
  }
}

const NUMBERS = [0, 1, -1, 2, 3, 1.5, 1000, 2 ** 31, 2 ** 31 - 1, 2 ** 32, 2 ** 40, 2 ** 53 - 1];
const TEXTS = [
  "",
  "x",
  "..",
  "a/../../b",
  "\0",
  "/",
  ".",
  "C",
  "F",
  "start",
  "<i4",
  "|O",
  "|V0",
  "<U99999999",
  "<M8[0ns]",
  "r8",
  "r0",
];
const VALUES = [
  ...NUMBERS,
  ...TEXTS,
  ...[
    "1.0",
    "-0",
    "1e400",
    "NaN",
    "-Infinity",
    "9007199254740993",
    "18446744073709551615",
    `1${"0".repeat(400)}`,
  ].map((text) => new Raw(text)),
  new Raw(`${"[".repeat(150)}${"]".repeat(150)}`),
  new Raw(`${"[".repeat(100_000)}${"]".repeat(100_000)}`),
  new Raw('{"__proto__":{"name":"bytes"}}'),
  ...[
    null,
    true,
    false,
    [],
    {},
    [[]],
    [null],
    [0],
    [2, 2],
    [1, 0],
    [-1, -1],
    [2 ** 53 - 1, 2 ** 53 - 1],
    [2 ** 31, 2],
  ],
  ...[
    "constructor",
    "__proto__",
    "int32",
    "complex128",
    "x".repeat(5000),
    { name: "bytes" },
    { name: null },
    { id: "x" },
  ],
  ...[Array(1000).fill(1), LITTLE, CRC, sharding([1, 1], [LITTLE])],
];

/**
 * Changes a document in one to three places, and does everything possible with it. Throws anything that is not a
 * SuperchunkError.
 */
export async function fuzzDocuments(seed) {
  const choices = choicesFrom(seed);
  const { key, document, others = {}, path = "a" } = choices.pick(KINDS)(choices);
  const store = new MemoryStore();
  for (const [name, other] of Object.entries(others)) await store.put(name, encodeDocument(other));
  for (const name of ["a/0.0", "a/0", "a/c/0/0", "a/c/0", "data/root/a/c0/0"])
    await store.put(
      name,
      Uint8Array.from({ length: 384 }, (_, i) => (choices.below(2) === 0 ? i : 255)),
    );
  const changed = mutateDocument(document, choices);
  await store.put(key, encodeDocument(changed));
  const begin = process.cpuUsage();
  try {
    const node = await orRefused(() => openZarr(store, path));
    if (node?.kind === "array") await useArray(store, path, node);
    else if (node !== undefined) {
      for (const name of (await orRefused(() => node.members())) ?? [])
        await orRefused(() => node.open(name));
    }
  } catch (cause) {
    throw new Error(`seed ${seed}, ${toText(changed).slice(0, 2000)}`, { cause });
  }
  const taken = process.cpuUsage(begin).user / 1000;
  if (taken > 5000) throw new Error(`seed ${seed} takes ${taken} ms: ${toText(changed).slice(0, 2000)}`);
}

async function useArray(store, path, array) {
  const { shape, dtype, nbytes } = array;
  const at = shape.map((length) => Math.max(0, Math.min(length - 1, length % 5)));
  const item = at.map((start) => ({ start, stop: start + 1, step: 1 }));
  await orRefused(() => array.get(at));
  await orRefused(() => array.get(nbytes < 1e6 ? null : item));
  for (const chunks of [array.listChunks(), array.listMissing()]) await orRefused(() => takeSome(chunks));
  await orRefused(() => array.verify());
  await orRefused(() => array.storedBytes());
  const writer = await orRefused(() => openZarrWriter(store, path));
  if (writer === undefined || shape.includes(0) || dtype.itemSize > 1e6) return;
  const bytes = new Uint8Array(dtype.itemSize).fill(1);
  for (const strategy of ["rewrite", "append", "fixed"]) {
    const isWritten = await orRefused(async () => {
      await writer.setBytes(item, bytes, { strategy });
      return true;
    });
    if (isWritten === true && Buffer.compare(await writer.getBytes(item), bytes) !== 0)
      throw new Error(`what was written by ${strategy} is not what is read`);
  }
}

async function takeSome(chunks) {
  let count = 0;
  for await (const _ of chunks) if (++count === 50) break;
}

async function orRefused(work) {
  try {
    return await work();
  } catch (error) {
    if (error.name !== "SuperchunkError" || error.code === "IO") throw error;
    if (error.details.path === undefined && error.code !== "BAD_ARGUMENT")
      throw new Error("the error does not say where", { cause: error });
    return undefined;
  }
}

/** A copy of a document with one to three members changed, removed, doubled or exchanged. */
export function mutateDocument(document, choices) {
  const { below, pick } = choices;
  const copy = structuredClone(document);
  for (let times = 1 + below(3); times > 0; times--) {
    const places = placesOf(copy);
    if (places.length === 0) break;
    const [holder, name] = pick(places);
    const [other, elsewhere] = pick(places);
    const way = below(6);
    if (way === 0 && Array.isArray(holder)) holder.splice(Number(name), 1);
    else if (way === 0) delete holder[name];
    else if (way === 1 && Array.isArray(holder)) holder.push(cloneOf(holder[name]));
    else if (way === 1) holder[`${name}x`] = cloneOf(holder[name]);
    else if (way === 2) holder[name] = cloneOf(other[elsewhere]);
    else if (way === 3 && typeof holder[name] === "number") holder[name] += pick([1, -1, 2 ** 32, 0.5]);
    else holder[name] = cloneOf(pick([...VALUES, blosc(choices)]));
  }
  return copy;
}

/** Members of objects and lists, at any depth. */
function placesOf(value) {
  if (typeof value !== "object" || value === null || value instanceof Raw) return [];
  return Object.keys(value).flatMap((name) => [[value, name], ...placesOf(value[name])]);
}

function cloneOf(value) {
  if (typeof value !== "object" || value === null || value instanceof Raw) return value;
  if (Array.isArray(value)) return value.map(cloneOf);
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, cloneOf(member)]));
}

function toText(value) {
  if (value instanceof Raw) return value.text;
  if (Array.isArray(value)) return `[${value.map(toText).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  return `{${Object.entries(value).map(([name, member]) => `${JSON.stringify(name)}:${toText(member)}`)}}`;
}

/** A document as bytes, including JSON that no JavaScript value expresses. */
export function encodeDocument(document) {
  return new TextEncoder().encode(toText(document));
}

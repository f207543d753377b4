/** Random writes, several concurrently, into random arrays: every reader sees what an array in memory has. */

import { MemoryStore } from "../../build/src/store/memory.js";
import { openZarrArray } from "../../build/src/zarr/read/open.js";
import { choicesFrom, openZarrWriter, randomDocument } from "./zarr-chains.mjs";

/** One array with some rounds of writes. Throws if a value is wrong. */
export async function fuzzWrites(seed) {
  const choices = choicesFrom(seed);
  const { below, pick } = choices;
  const document = randomDocument(choices);
  const { shape } = document;
  const memory = new MemoryStore();
  await memory.put("a/zarr.json", new TextEncoder().encode(JSON.stringify(document)));
  const settings = {
    chunkOrder: pick(["row-major", "morton", "as-written"]),
    writeEmptyChunks: below(3) === 0,
  };
  const writer = await openZarrWriter(memory, "a", settings);
  // Learns of the other's writes only by the objects' versions, and cannot write into objects.
  const other = await openZarrWriter(withoutRanges(memory), "a", settings);
  const readers = [writer, other];
  for (const cachedEntries of [0, 1, undefined]) {
    const read = { maxGap: pick([0, 10, 4096]), concurrency: pick([1, 8]), cachedEntries };
    readers.push(await openZarrArray(memory, "a", read));
  }
  const model = new Int32Array(shape.reduce((product, n) => product * n, 1)).fill(-7);
  try {
    for (let round = 0; round < 6; round++) {
      const changes = randomChanges(shape, choices);
      const after = model.slice();
      for (const { items, values } of changes)
        for (const [i, item] of items.entries()) after[item] = values[i];
      const strategies = below(3) === 0 && changes.length > 1 ? ["rewrite"] : ["rewrite", "append", "fixed"];
      await Promise.all([
        ...changes.map(({ selection, values }) => {
          const by = strategies.length === 1 ? pick([writer, other]) : writer;
          return by.set(selection, values, {
            strategy: pick(strategies),
            maxUnused: pick([undefined, 0, 50, 1000]),
          });
        }),
        readBetween(readers[2], model, after),
      ]);
      model.set(after);
      if (below(3) === 0 && document.codecs.at(-1).name === "sharding_indexed")
        await pick([writer, other]).compactShard(shape.map(() => 0));
      for (const reader of readers) await compare(reader, model, choices);
    }
    await compareListing(writer, model.length);
  } catch (cause) {
    throw new Error(`seed ${seed}, ${JSON.stringify(document)}`, { cause });
  }
}

/** Parts that do not overlap, with their items in C order. */
function randomChanges(shape, choices) {
  const { below, pick } = choices;
  const touched = new Set();
  const changes = [];
  for (let n = pick([1, 1, 2, 3]); n > 0; n--) {
    const selection = randomSelection(shape, choices);
    const items = itemsOf(selection, shape);
    if (items.some((item) => touched.has(item))) continue;
    for (const item of items) touched.add(item);
    const kind = below(3);
    const values = Int32Array.from(items, () => (kind === 0 ? -7 : kind === 1 ? n : below(1000)));
    changes.push({ selection, items, values });
  }
  return changes;
}

function randomSelection(shape, { below, pick }) {
  return shape.map((length) => {
    const start = below(length);
    return { start, stop: Math.min(length, start + 1 + below(length)), step: pick([1, 1, 1, 1, 2, 3]) };
  });
}

function itemsOf(selection, shape) {
  let items = [0];
  for (const [d, { start, stop, step }] of selection.entries()) {
    const along = [];
    for (let i = start; i < stop; i += step) along.push(i);
    items = items.flatMap((item) => along.map((i) => item * shape[d] + i));
  }
  return items;
}

/** While writers are at work every item is the old one or the new one; `fixed` may give the reader an error. */
async function readBetween(reader, before, after) {
  let data;
  try {
    ({ data } = await reader.get());
  } catch (error) {
    if (error.name !== "SuperchunkError") throw error;
    return;
  }
  for (let i = 0; i < before.length; i++) {
    if (data[i] === before[i] || data[i] === after[i]) continue;
    throw new Error(`item ${i} was ${before[i]}, becomes ${after[i]}, and is ${data[i]} in between`);
  }
}

async function compare(reader, model, choices) {
  const { shape } = reader;
  const { data } = await reader.get();
  for (let i = 0; i < model.length; i++)
    if (data[i] !== model[i]) throw new Error(`item ${i} is ${data[i]}, not ${model[i]}`);
  const selection = randomSelection(shape, choices);
  const part = (await reader.get(selection)).data;
  for (const [i, item] of itemsOf(selection, shape).entries())
    if (part[i] !== model[item]) throw new Error(`item ${item} of a part is ${part[i]}, not ${model[item]}`);
}

/** Stored and missing chunks together are the grid, each item once; and everything verifies. */
async function compareListing(array, length) {
  let listed = 0;
  for (const chunks of [array.listChunks(), array.listMissing()]) {
    for await (const { start, shape } of chunks)
      listed += shape.reduce((n, own, d) => n * Math.max(0, Math.min(own, array.shape[d] - start[d])), 1);
  }
  if (listed !== length) throw new Error(`${listed} items of ${length} are in chunks that are listed`);
  const { ok, findings } = await array.verify();
  if (!ok) throw new Error(`verify finds ${findings[0].message}`);
}

function withoutRanges(store) {
  return new Proxy(store, {
    get(target, name) {
      if (name === "writeRange") return undefined;
      const member = Reflect.get(target, name, target);
      return typeof member === "function" ? member.bind(target) : member;
    },
  });
}

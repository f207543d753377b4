/** Readers that hold an earlier document, while rows are removed and appended again. */
import { expect, test } from "vitest";
import { create as createArray } from "../../../src/node/edit.ts";
import { verifyLinkAt } from "../../../src/node/index.ts";
import { randomFrom } from "../../crash/random.ts";
import { sample } from "../../scope.ts";
import { type Document, readByDocument, readDocument } from "./foreign-reader.ts";
import { temporaryFolder } from "./support.ts";

const CHUNK = 5;
const FILL = -1;
const KEPT_DOCUMENTS = 8;

/** Row `i` is `100 * i` and how often it was set. */
function rows(first: number, count: number, times: number): Int32Array {
  return Int32Array.from({ length: count }, (_, i) => (first + i) * 100 + times);
}

/** Rows that a reader mistakes for others; errors do not count. */
function wrongRows(values: readonly (number | undefined)[]): number[] {
  return values.flatMap((value, row) =>
    value !== undefined && Math.floor(value / 100) !== row ? [row] : [],
  );
}

function makeArray(root: string): ReturnType<typeof createArray> {
  return createArray(root, {
    dtype: "<i4",
    chunkLength: CHUNK,
    superchunkLength: 4,
    fillValue: FILL,
    zarr: true,
    threads: 0,
  });
}

test("[FY-11] a chunk that is rewritten after a shrink shows the old items to readers with the old shape", async () => {
  const root = temporaryFolder();
  const array = await makeArray(root);
  await array.append(rows(0, 30, 0));
  await array.flush();
  const before = readDocument(root);
  await array.resize(21);
  await array.append(rows(21, 2, 7));
  await array.flush();
  const values = await readByDocument(root, before);
  expect(values).toEqual([...rows(0, 21, 0), ...rows(21, 2, 7), ...rows(23, 7, 0)]);
  await array.close();
  expect(await verifyLinkAt(root)).toEqual([]);
});

test("[FY-11] chunks of a shard that was removed and made again are errors to such readers, never missing", async () => {
  const root = temporaryFolder();
  const array = await makeArray(root);
  await array.append(rows(0, 60, 0));
  await array.flush();
  const before = readDocument(root);
  await array.resize(9);
  await array.append(rows(9, 16, 7));
  await array.flush();
  const values = await readByDocument(root, before);
  expect(values.slice(0, 25)).toEqual([...rows(0, 9, 0), ...rows(9, 16, 7)]);
  expect(values.slice(25)).toEqual(new Array(35).fill(undefined));
  await array.close();
  expect(await verifyLinkAt(root)).toEqual([]);
});

test.each(sample([1, 2, 3], 1))(
  "[FY-11] readers with any old shape get right values, errors, or the fill value at the end of one chunk (seed %i)",
  async (seed) => {
    const root = temporaryFolder();
    const array = await makeArray(root);
    const random = randomFrom(seed);
    const below = (limit: number): number => Math.floor(random() * Math.max(1, limit));
    await array.append(rows(0, 30, 0));
    const documents: Document[] = [];
    let [read, failed] = [0, 0];
    for (let i = 0; i < 150; i++) {
      const { length } = array;
      const kind = below(10);
      if (kind < 5 && length < 200) await array.append(rows(length, 1 + below(15), 0));
      else if (kind < 8 && length > 0) {
        const start = below(length);
        const count = 1 + below(Math.min(7, length - start));
        await array.set([{ start, stop: start + count, step: null }], rows(start, count, 1 + below(98)));
      } else if (kind === 8) await array.resize(length - below(length));
      else await array.compact();
      await array.flush();
      for (const document of documents.splice(0, documents.length - KEPT_DOCUMENTS)) {
        const values = await readByDocument(root, document);
        read += values.length;
        failed += values.filter((value) => value === undefined).length;
        const wrong = wrongRows(values);
        // Shrinking by whole shards and appending again ends in a chunk whose earlier contents are unknown; after
        // another shrink it may be past the last one.
        for (const row of wrong) expect([values[row], row >= array.length]).toEqual([FILL, true]);
        expect(new Set(wrong.map((row) => Math.floor(row / CHUNK))).size).toBeLessThan(2);
      }
      documents.push(readDocument(root));
    }
    expect(failed).toBeGreaterThan(0);
    expect(failed).toBeLessThan(read / 2);
    await array.close();
    expect(await verifyLinkAt(root)).toEqual([]);
  },
);

/**
 * Changes an array in every way, a given number of times, and then until its stdin ends; prints on stdout after each
 * change the generation and the hash of the rows that a model in memory has. Random numbers come from a seed.
 */
import { createHash } from "node:crypto";

const [, , path, entry, modify, steps, seed] = process.argv;
const { edit } = await import(entry);
const array = await edit(path, { threads: 0, modify });
let rows = new Int32Array(0);
let next = 1;
let random = Number(seed);
const pick = (count) => {
  random = (random * 48271) % 2147483647;
  return random % count;
};
const fresh = (count) => Int32Array.from({ length: count }, () => next++);
const tell = () =>
  process.stdout.write(`${array.generation} ${createHash("sha256").update(rows).digest("hex")}\n`);

let isEnough = false;
process.stdin.resume().once("end", () => {
  isEnough = true;
});
tell();
for (let step = 0; step < Number(steps) || !isEnough; step++) {
  const kind = pick(10);
  if (kind < 4 || rows.length < 20) {
    const more = fresh(1 + pick(200));
    await array.append(more);
    rows = Int32Array.from([...rows, ...more]);
    await array.flush();
  } else if (kind < 7) {
    const start = pick(rows.length);
    const stop = start + 1 + pick(rows.length - start);
    const values = fresh(Math.ceil((stop - start) / 3));
    await array.set([{ start, stop, step: 3 }], values);
    for (const [i, value] of values.entries()) rows[start + 3 * i] = value;
    await array.flush();
  } else if (kind === 7) {
    const length = Math.max(0, rows.length - pick(120));
    await array.resize(length);
    rows = rows.slice(0, length);
  } else if (kind === 8) {
    const start = pick(rows.length);
    const stop = Math.min(rows.length, start + 1 + pick(40));
    await array.deleteRows(start, stop);
    rows = Int32Array.from([...rows.subarray(0, start), ...rows.subarray(stop)]);
  } else await array.compact(pick(2) === 0 ? {} : { chunkLength: 8 + pick(9) });
  tell();
}
await array.close();
tell();

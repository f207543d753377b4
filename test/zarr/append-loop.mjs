/**
 * Appends rows to a Zarr array, until it has done so often enough, beside another process that does the same. Each try has its own value;
 * those that are there for good are printed.
 */
import { existsSync } from "node:fs";
import { setTimeout } from "node:timers/promises";

const [, , path, entry, own, rounds, start] = process.argv;
const { edit } = await import(entry);
process.stdout.write("ready\n");
while (!existsSync(start)) await setTimeout(1);
let value = Number(own);
for (let round = 0; round < Number(rounds); value++) {
  try {
    const array = await edit(path, { format: "zarr", threads: 0 });
    try {
      await array.append(Int32Array.from({ length: 5 }, () => value));
      await array.flush();
      process.stdout.write(`${value}\n`);
      round++;
    } finally {
      await array.close().catch(() => undefined);
    }
  } catch (error) {
    if (error.code !== "CONFLICT") throw error;
  }
}

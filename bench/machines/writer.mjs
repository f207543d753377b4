/**
 * One of several writers: `node writer.mjs ADDRESS WRITER COMMITS ROWS` appends its own numbers, ROWS in each commit, and prints its
 * processor seconds.
 */
import { edit } from "../../build/src/node/index.js";

const [address, writer, commits, rows] = [process.argv[2], ...process.argv.slice(3).map(Number)];
const array = await edit(address, { shared: true });
for (let k = 0; k < commits; k++) {
  const values = Float64Array.from({ length: rows }, (_, i) => writer * 1e9 + k * rows + i);
  await array.append(values);
  await array.flush();
}
await array.close();
const { user, system } = process.cpuUsage();
console.log((user + system) / 1e6);

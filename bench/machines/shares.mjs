/**
 * All shares of one conversion, one after another in one process, as a worker runs them that stays alive: `node shares.mjs SOURCE
 * DESTINATION PLAN SHARES` prints its processor seconds.
 */
import { finish, plan, runTasks } from "../../build/src/node/index.js";

const [source, destination, output] = process.argv.slice(2);
const n = Number(process.argv[5]);
await plan(source, destination, { output });
for (let k = 1; k <= n; k++) await runTasks(output, { share: { k, n } });
await finish(output);
const { user, system } = process.cpuUsage();
console.log((user + system) / 1e6);

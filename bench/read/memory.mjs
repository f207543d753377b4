/** Scans an array in a separate process and prints the peak memory of the process, in bytes. */
import { existsSync, readFileSync } from "node:fs";
import { open } from "../../build/src/node/index.js";

const [path = "", threads = ""] = process.argv.slice(2);
const archive = await open(path, threads === "" ? {} : { threads: Number(threads) });
let bytes = 0;
for await (const piece of archive.streamBytes()) bytes += piece.length;
if (bytes !== archive.nbytes) throw new Error(`${bytes} of ${archive.nbytes} bytes came`);
// Linux includes in a child's maxRSS the memory of its parent from before exec.
const status = existsSync("/proc/self/status") ? readFileSync("/proc/self/status", "utf8") : "";
const peak = /^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1] ?? process.resourceUsage().maxRSS;
console.log(Number(peak) * 1024);

/** Scans an array in a process of its own and prints the most memory that the process took, in bytes. */
import { open } from "../../dist/src/node/index.js";

const [path = "", threads = ""] = process.argv.slice(2);
const archive = await open(path, threads === "" ? {} : { threads: Number(threads) });
let bytes = 0;
for await (const piece of archive.streamBytes()) bytes += piece.length;
if (bytes !== archive.nbytes) throw new Error(`${bytes} of ${archive.nbytes} bytes came`);
console.log(process.resourceUsage().maxRSS * 1024);

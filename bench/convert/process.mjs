/** Runs the command as its own process and tells its peak memory. */
import { spawnSync } from "node:child_process";
import { openSync } from "node:fs";
import { fileURLToPath } from "node:url";

const main = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
const tellPeak = `data:text/javascript,import{writeSync}from"node:fs";process.on("exit",()=>writeSync(3,String(process.resourceUsage().maxRSS)))`;

/** Runs `superchunk` with these arguments; its output is thrown away. Throws where it fails. */
export function measure(args) {
  const nowhere = openSync("/dev/null", "w");
  const { status, output } = spawnSync(process.execPath, ["--import", tellPeak, main, ...args], {
    stdio: ["ignore", nowhere, "pipe", "pipe"],
    encoding: "utf8",
  });
  if (status !== 0) throw new Error(`superchunk ${args.join(" ")}: ${output[2]}`);
  return { peakMB: Math.round(Number(output[3]) / 1000) };
}

/** Runs the command as its own process and tells its peak memory. */
import { spawnSync } from "node:child_process";
import { openSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** The command that is measured; `COMMAND=package/dist/cli.js` takes the one that is published, which starts faster. */
const main = process.env.COMMAND ?? fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
const tellPeak = `data:text/javascript,import{writeSync}from"node:fs";process.on("exit",()=>{const u=process.resourceUsage();writeSync(3,u.maxRSS+" "+(u.userCPUTime+u.systemCPUTime))})`;

/** Runs `superchunk` with these arguments; its output is thrown away. Throws where it fails. */
export function measure(args) {
  const nowhere = openSync("/dev/null", "w");
  const { status, output } = spawnSync(process.execPath, ["--import", tellPeak, main, ...args], {
    stdio: ["ignore", nowhere, "pipe", "pipe"],
    encoding: "utf8",
  });
  if (status !== 0) throw new Error(`superchunk ${args.join(" ")}: ${output[2]}`);
  const [peak, processor] = output[3].split(" ").map(Number);
  return { peakMB: Math.round(peak / 1000), cpuSeconds: processor / 1e6 };
}

/** Runs the command in a separate process and measures its peak memory. */
import { spawn, spawnSync } from "node:child_process";
import { openSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** The published command. */
const main = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
const tellPeak = `data:text/javascript,import{writeSync}from"node:fs";process.on("exit",()=>{const u=process.resourceUsage();writeSync(3,u.maxRSS+" "+(u.userCPUTime+u.systemCPUTime))})`;

/** Runs `superchunk` with these arguments and discards its output. Throws if it fails. */
export function measure(args) {
  const nowhere = openSync("/dev/null", "w");
  const { status, output } = spawnSync(process.execPath, ["--import", tellPeak, main, ...args], {
    stdio: ["ignore", nowhere, "pipe", "pipe"],
    encoding: "utf8",
  });
  return figuresOf(args, status, output);
}

/** The same in parallel with others, optionally on one core (Linux). Resolves when the process has ended. */
export function measureAside(args, core) {
  const line = [process.execPath, "--import", tellPeak, main, ...args];
  const [program, ...words] = core === undefined ? line : ["taskset", "--cpu-list", `${core}`, ...line];
  const child = spawn(program, words, { stdio: ["ignore", "ignore", "pipe", "pipe"] });
  const output = ["", "", "", ""];
  for (const stream of [2, 3])
    child.stdio[stream].on("data", (piece) => {
      output[stream] += piece;
    });
  return new Promise((resolve, reject) => {
    child.once("close", (status) => {
      try {
        resolve(figuresOf(args, status, output));
      } catch (error) {
        reject(error);
      }
    });
  });
}

function figuresOf(args, status, output) {
  if (status !== 0) throw new Error(`superchunk ${args.join(" ")}: ${output[2]}`);
  const [peak, processor] = output[3].split(" ").map(Number);
  return { peakMB: Math.round(peak / 1000), cpuSeconds: processor / 1e6 };
}

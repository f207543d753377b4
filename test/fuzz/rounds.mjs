/**
 * Rounds of fuzzing: `[TARGET]… [--seconds S] [--seed N] [--round SEED]`.
 *
 * Each round depends only on its seed, which is printed on failure; `--round` repeats one.
 */
import { parseArgs } from "node:util";

/** More memory than this means it was allocated because a document claims it. */
const MAX_RSS = 1 << 30;
const MAX_FAILURES = 10;

/** Runs the targets that the command line names, or all, and sets the exit code. */
export async function runTargets(targets) {
  const { values: options, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      seconds: { type: "string", default: "20" },
      seed: { type: "string", default: "1" },
      round: { type: "string" },
    },
  });
  let failures = 0;
  for (const name of positionals.length > 0 ? positionals : Object.keys(targets)) {
    const target = targets[name];
    if (target === undefined)
      throw new Error(`no target "${name}"; there are ${Object.keys(targets).join(", ")}`);
    const until = performance.now() + 1000 * Number(options.seconds);
    let rounds = 0;
    for (; performance.now() < until && failures < MAX_FAILURES; rounds++) {
      try {
        await target(Number(options.round ?? Number(options.seed) * 1_000_000 + rounds));
        const { rss } = process.memoryUsage();
        if (rss > MAX_RSS) throw new Error(`round ${rounds} takes ${rss} bytes`);
      } catch (error) {
        failures++;
        console.error(
          `FAILURE ${failures} of ${name}: ${error.message}\n  ${error.cause?.stack ?? error.stack}`,
        );
      }
      if (options.round !== undefined) break;
    }
    console.log(`${name}: ${rounds} rounds, seed ${options.round ?? options.seed}`);
  }
  console.log(failures === 0 ? "no failure" : `${failures} FAILURES`);
  process.exitCode = failures === 0 ? 0 : 1;
}

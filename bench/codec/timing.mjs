/** The least times of calls that are measured in turn, so that whatever else the machine does falls on all alike. */

/**
 * The least seconds of one call of each work, of `rounds` rounds in which every work runs for about `roundSeconds`: a function
 * that may return a promise, or what measures itself, by `seconds(roundSeconds)`. Other programs only ever add to a time; rounds
 * are as short as the turns that a busy system gives a program.
 */
export async function leastSeconds(works, { rounds = 41, roundSeconds = 0.003 } = {}) {
  const measured = [];
  for (const work of works)
    measured.push(typeof work === "function" ? await measuring(work, roundSeconds) : work);
  const least = works.map(() => Number.POSITIVE_INFINITY);
  for (let round = 0; round < rounds; round++) {
    for (const [i, work] of measured.entries())
      least[i] = Math.min(least[i], await work.seconds(roundSeconds));
  }
  return least;
}

async function measuring(work, roundSeconds) {
  const calls = await countCalls(work, roundSeconds);
  // The engine compiles a function again while it runs: its last version is to be measured.
  await secondsOf(work, 10 * calls);
  return { seconds: async () => (await secondsOf(work, calls)) / calls };
}

/** How many calls take about that long; also warms up. */
async function countCalls(work, seconds) {
  let calls = 1;
  for (;;) {
    const taken = await secondsOf(work, calls);
    if (taken >= seconds / 2) return calls;
    calls = Math.ceil(calls * Math.min(10, seconds / Math.max(taken, 1e-6)));
  }
}

async function secondsOf(work, calls) {
  const start = process.hrtime.bigint();
  for (let i = 0; i < calls; i++) {
    const result = work();
    if (result instanceof Promise) await result;
  }
  return Number(process.hrtime.bigint() - start) / 1e9;
}

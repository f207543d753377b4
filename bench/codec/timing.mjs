/** The least times of calls that are measured alternately, so that other load affects all alike. */

/**
 * The least seconds of one call of each work, over `rounds` rounds in which every work runs for about `roundSeconds`. A work is
 * a function that may return a promise, or an object that measures itself with `seconds(roundSeconds)`. Other programs only ever
 * add to a time; rounds are as short as the time slices of a busy system.
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
  // The engine recompiles a function while it runs; the last version is measured.
  await secondsOf(work, 10 * calls);
  return { seconds: async () => (await secondsOf(work, calls)) / calls };
}

/** The number of calls that take about that long. Also warms up. */
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

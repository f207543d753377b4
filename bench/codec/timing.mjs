/** Medians of calls that are measured in turn, so that whatever else the machine does falls on all alike. */

/**
 * Median seconds of one call of each work (functions that may return a promise), over `rounds` rounds in which every
 * work runs for about `roundSeconds`.
 */
export async function medianSeconds(works, { rounds = 11, roundSeconds = 0.03 } = {}) {
  const calls = [];
  for (const work of works) calls.push(await countCalls(work, roundSeconds));
  const times = works.map(() => []);
  for (let round = 0; round < rounds; round++) {
    for (const [i, work] of works.entries()) times[i].push((await secondsOf(work, calls[i])) / calls[i]);
  }
  return times.map((all) => all.sort((a, b) => a - b)[Math.floor(rounds / 2)]);
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

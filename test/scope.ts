/**
 * How much of a sweep runs. `npm test` proves every law with a fixed sample of its cases, so that a contributor can
 * wait for it; `npm run test:all` tries all of them: every crash point, seed, schedule, and archive with every
 * option. A sweep is sampled by a number or a list from here, and never by leaving a law out.
 */

/** True in `npm run test:all`. */
export const isExhaustive: boolean = process.env["SUPERCHUNK_TESTS"] === "all";

/** The size of a sweep (runs, seeds, a stride over crash points): `all` in `npm run test:all`, otherwise `few`. */
export function sweep<T>(all: T, few: T): T {
  return isExhaustive ? all : few;
}

/** The cases of a sweep: all of them in `npm run test:all`, otherwise `few`, spread evenly from the first to the last. */
export function sample<T>(cases: readonly T[], few: number): readonly T[] {
  if (isExhaustive || cases.length <= few) return cases;
  if (few === 1) return cases.slice(0, 1);
  const chosen = new Set(
    Array.from({ length: few }, (_, i) => Math.round((i * (cases.length - 1)) / (few - 1))),
  );
  return cases.filter((_, i) => chosen.has(i));
}

/** Other numbers for all tests: `SEED=7 npx vitest run test/crash test/dual`. */
export const SEED: number = Number(process.env["SEED"] ?? 0);

/** Random numbers from 0 up to 1, determined by a seed (mulberry32). */
export function randomFrom(seed: number): () => number {
  let state = (seed + Math.imul(SEED, 0x9e3779b1)) >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

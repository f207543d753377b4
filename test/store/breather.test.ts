import * as fs from "node:fs";
import { afterEach, expect, test, vi } from "vitest";

afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
  vi.resetModules();
});

/** Read steps that are enough, and turns in which they must be done. */
const STEPS = 5;
const TURNS = 2000;

/** Reads in many steps next to a calculation that only yields; returns the steps done in its turns. */
async function stepsBeside(giveWay: () => Promise<void> | undefined): Promise<number> {
  let steps = 0;
  let isOver = false;
  const reading = (async () => {
    while (!isOver) {
      await fs.promises.stat(import.meta.filename);
      steps++;
    }
  })();
  for (let turns = 0; turns < TURNS && steps < STEPS; ) {
    const turn = giveWay();
    if (turn !== undefined) turns++;
    await turn;
  }
  const done = steps;
  isOver = true;
  await reading;
  return done;
}

for (const [where, globals] of [
  ["Node.js", {}],
  ["browsers", { setImmediate: undefined }],
] as const) {
  test(`a calculation that yields lets many other tasks run, as in ${where}`, async () => {
    vi.resetModules();
    for (const [name, value] of Object.entries(globals)) vi.stubGlobal(name, value);
    const { giveWay } = await import("../../src/store/pool.ts");
    expect(await stepsBeside(giveWay)).toBeGreaterThanOrEqual(STEPS);
  });
}

test("it yields only now and then", async () => {
  const { giveWay } = await import("../../src/store/pool.ts");
  const clock = vi.spyOn(performance, "now").mockReturnValue(1_000_000);
  await giveWay();
  clock.mockReturnValue(1_000_000.9);
  expect(giveWay()).toBeUndefined();
  clock.mockReturnValue(1_000_001);
  expect(giveWay()).toBeInstanceOf(Promise);
});

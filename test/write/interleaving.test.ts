/** One writer and readers, interleaved at every step, by random schedules. */
import { expect, test } from "vitest";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/archive/open/open.ts";
import { isSuperchunkError } from "../../src/errors.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { type Interceptor, interceptStore } from "../../src/store/wrappers/intercept.ts";
import { createArray, openWritable } from "../../src/write/array/create.ts";
import { imageOf } from "../crash/images.ts";
import { randomFrom } from "../crash/random.ts";
import { sweep } from "../scope.ts";

const SCHEDULES = Number(process.env["SCHEDULES"] ?? sweep(2000, 20));

/** Lets one actor at a time make its next store call. */
class Scheduler {
  readonly #random: () => number;
  readonly #waiting: { readonly actor: number; readonly go: () => void }[] = [];
  #running = 0;
  /** The actor that continues for the length of a burst: the others then sleep through whole operations. */
  #favourite = 0;
  #burst = 0;
  #held: Promise<void> = Promise.resolve();
  steps = 0;

  constructor(random: () => number) {
    this.#random = random;
  }

  /** No actor has a turn before this is done. */
  hold(work: Promise<void>): Promise<void> {
    this.#held = work;
    return work;
  }

  /** Waits for the caller's turn. */
  turn(actor: number): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push({ actor, go: resolve });
    });
  }

  async run(actors: readonly (() => Promise<void>)[]): Promise<void> {
    this.#running = actors.length;
    const failures: unknown[] = [];
    for (const actor of actors) {
      actor()
        .catch((error: unknown) => failures.push(error))
        .finally(() => {
          this.#running--;
        });
    }
    while (this.#running > 0) {
      // Waits until all actors reach their next call, or their end.
      await new Promise(setImmediate);
      await this.#held;
      if (--this.#burst <= 0) {
        this.#favourite = Math.floor(this.#random() * actors.length);
        this.#burst = 2 ** (this.#random() * 8);
      }
      const favourite = this.#waiting.findIndex(({ actor }) => actor === this.#favourite);
      const at = favourite >= 0 ? favourite : Math.floor(this.#random() * this.#waiting.length);
      const [next] = this.#waiting.splice(at, 1);
      this.steps++;
      next?.go();
    }
    if (failures.length > 0) throw failures[0];
  }
}

type Gated = ReturnType<typeof gated>;

/** The store as an actor sees it: every call waits for its turn. */
function gated(
  store: MemoryStore,
  scheduler: Scheduler,
  actor: number,
  onCall?: (method: string, key: string) => Promise<void>,
) {
  const interceptor: Interceptor = {
    async onCall(call, proceed) {
      await scheduler.turn(actor);
      const outcome = await proceed();
      await onCall?.(call.method, call.key);
      return outcome;
    },
    onSync: (_call, proceed) => proceed(),
    onList: () => scheduler.turn(actor),
  };
  return interceptStore(store, interceptor);
}

/** Without the calls that take no turn. */
function withoutSync(store: Gated): Omit<Gated, "readIntoSync"> {
  const { readIntoSync: _sync, ...rest } = store;
  return rest;
}

const totals = { reads: 0, stale: 0, refound: 0, steps: 0 };

async function play(seed: number): Promise<void> {
  const random = randomFrom(seed);
  const pick = (n: number): number => Math.floor(random() * n);
  const store = new MemoryStore();
  const modify = pick(4) === 0 ? "in-place" : "patch";
  // Chunks that are long enough to compress, so that some move.
  const scale = modify === "in-place" ? 24 : 1;
  const first = await createArray(store, "", {
    dtype: "<i4",
    ...(pick(3) === 0 ? { reserve: "50%" } : {}),
    chunkLength: scale * (1 + pick(4)),
    superchunkLength: 1 + pick(3),
  });
  let value = 0;
  const ramp = (count: number): Int32Array => Int32Array.from({ length: scale * count }, () => ++value);
  await first.append(ramp(5 + pick(30)));
  await first.close();

  const byGeneration = new Map<number, string>();
  const record = async (): Promise<void> => {
    const array = (await open(new MemoryStore(await imageOf(store)))) as ArrayArchive;
    byGeneration.set(array.generation ?? 0, Buffer.from(await array.getBytes()).toString("hex"));
  };
  await record();
  const scheduler = new Scheduler(random);

  const writer = async (): Promise<void> => {
    const array = await openWritable(
      gated(store, scheduler, 0, async (method, key) => {
        if (method === "put" && key === "meta/sizes") await scheduler.hold(record());
      }),
      "",
      { modify },
    );
    for (let i = 0; i < 6; i++) {
      const n = array.length;
      switch (pick(9)) {
        case 0:
          await array.resize(pick(n + 1));
          break;
        case 1:
          await array.set([{ start: pick(n + 1), stop: n, step: 1 + pick(4) }], ++value);
          if (n > 0) await array.set([pick(n)], pick(2 ** 31));
          if (pick(2) === 0)
            await array.set(
              null,
              Int32Array.from({ length: n }, () => pick(2 ** 31)),
            );
          await array.flush();
          break;
        case 2:
          await array.deleteRows(pick(n + 1), n);
          break;
        case 3:
          await array.compact();
          break;
        case 4:
          await array.compact({ chunkLength: 1 + pick(4), superchunkLength: 1 + pick(3) });
          break;
        default:
          await array.append(ramp(1 + pick(8)));
          await array.flush();
      }
    }
    await array.close();
  };

  const reader = async (actor: number): Promise<void> => {
    const gate = gated(store, scheduler, actor);
    const array = (await open(pick(2) === 0 ? gate : withoutSync(gate))) as ArrayArchive;
    let opened = array.generation ?? 0;
    for (let i = 0; i < 5; i++) {
      const expected = byGeneration.get(opened);
      try {
        const found = await readSomehow(array, pick(4));
        expect(found, `seed ${seed}, generation ${opened}`).toBe(expected);
        totals.reads++;
        if (array.generation !== opened) totals.refound++;
      } catch (error) {
        if (!isSuperchunkError(error, "STALE")) throw error;
        totals.stale++;
        await array.refresh?.();
        opened = array.generation ?? 0;
      }
    }
    if (pick(2) === 0) await verifyOrStale(array);
  };

  await scheduler.run([writer, () => reader(1), () => reader(2)]);
  totals.steps += scheduler.steps;
}

/** All rows, by one way of reading or another. */
async function readSomehow(array: ArrayArchive, way: number): Promise<string> {
  const parts: Uint8Array[] = [];
  if (way === 0) parts.push(await array.getBytes());
  else if (way === 1) for await (const part of array.streamBytes()) parts.push(part.slice());
  else if (way === 2)
    for (let i = 0; i < (array.shape[0] ?? 0); i += 50)
      parts.push(await array.getBytes([{ start: i, stop: i + 50, step: 1 }]));
  else
    for await (const { data } of array.chunks())
      parts.push(new Uint8Array((data as Int32Array).slice().buffer));
  return Buffer.concat(parts).toString("hex");
}

async function verifyOrStale(array: ArrayArchive): Promise<void> {
  try {
    expect((await array.verify()).findings).toEqual([]);
  } catch (error) {
    if (!isSuperchunkError(error, "STALE")) throw error;
  }
}

test("a reader gets its generation's rows, the same rows found again, or STALE, but never other rows", async () => {
  for (let seed = 1; seed <= SCHEDULES; seed++) await play(seed);
  expect(totals.reads).toBeGreaterThan(SCHEDULES);
  expect(totals.stale).toBeGreaterThan(SCHEDULES / 20);
  expect(totals.refound).toBeGreaterThan(SCHEDULES / 100);
});

/** Random operations on an array spread over places, whose stores fail, stop the process or lose power at any call, next to a model. */
import { expect, test } from "vitest";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/archive/open/open.ts";
import { isSuperchunkError, SuperchunkError } from "../../src/errors.ts";
import { objectOf, parseJson } from "../../src/format/json.ts";
import { parseLayout, type StoredLayout } from "../../src/format/layout.ts";
import type { OpenPlace } from "../../src/places/placed-store.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import type { WritableStore } from "../../src/store/types.ts";
import { interceptStore, isWriting } from "../../src/store/wrappers/intercept.ts";
import { createArray, openWritable } from "../../src/write/array/create.ts";
import { openShared } from "../../src/write/array/open-shared.ts";
import type { WritableArray } from "../../src/write/array/writable-array.ts";
import { type Image, imageOf } from "../crash/images.ts";
import { randomFrom } from "../crash/random.ts";
import { sweep } from "../scope.ts";
import { VolatileStore } from "../store/volatile.ts";
import { expectOnce } from "../write/acknowledged.ts";
import { COLD, placesIn, SLOW } from "./prefixed.ts";

const SEEDS = sweep(400, 5);
const NAMES = ["data", "cold", "slow", "third"];
const SESSIONS = 6;

const turn = (): Promise<void> => new Promise(setImmediate);
const text = (rows: readonly number[]): string => rows.join();
const totals = { acknowledged: 0, failed: 0, died: 0, cut: 0, refused: 0, read: 0 };

/** One life of a process: what its stores may do to it. */
interface Life {
  isDead: boolean;
  /** Failures of a call, from 0 to 1. */
  risk: number;
  /** The first part of the keys that cannot be reached at present. */
  absent: string | undefined;
}

function failing(store: WritableStore, random: () => number, life: Life): WritableStore {
  const fail = (what: string): SuperchunkError => new SuperchunkError("IO", what);
  const die = (): SuperchunkError => {
    life.isDead = true;
    totals.died++;
    return fail("the process is dead");
  };
  return interceptStore<WritableStore>(store, {
    async onCall(call, proceed) {
      for (let n = Math.floor(random() * 3); n > 0; n--) await turn();
      if (life.isDead) throw fail("the process is dead");
      if (life.absent !== undefined && call.key.startsWith(life.absent)) throw fail("the place is absent");
      const dice = random();
      if (dice > life.risk) return proceed();
      if (dice < life.risk / 4) throw die();
      if (dice < life.risk / 2) {
        if (call.method === "writeRange") {
          const [key, offset, bytes] = call.args as [string, number, Uint8Array];
          await store.writeRange?.(key, offset, bytes.subarray(0, bytes.length >> 1));
        } else if (isWriting(call.method)) await proceed();
        throw die();
      }
      totals.failed++;
      if (dice < (life.risk * 3) / 4 && isWriting(call.method)) await proceed();
      throw fail("the storage failed, or its answer was lost");
    },
    onSync(_call, proceed) {
      if (life.isDead) throw fail("the process is dead");
      return proceed();
    },
    onList({ key }) {
      if (life.isDead || (life.absent !== undefined && key.startsWith(life.absent)))
        throw fail("it cannot be listed");
    },
  });
}

function layoutOf(image: Image): StoredLayout {
  const path = "meta/sizes";
  return parseLayout(objectOf(parseJson(image.get(path) as Uint8Array, path)), path) as StoredLayout;
}

function namedFiles(image: Image): string[] {
  const layout = layoutOf(image);
  const folderOf = (number: number): string => {
    const span = layout.places?.find(({ first, count }) => number >= first && number < first + count);
    return span === undefined ? "data" : `${span.place}/${layout.id}`;
  };
  const numbers = [
    ...layout.runs.flatMap(({ first, count }) => Array.from({ length: count }, (_, i) => first + i)),
    ...(layout.patches ?? []).map(({ number }) => number),
  ];
  return numbers.map((number) => `${folderOf(number)}/__${number}__.bin`).sort();
}

const rowsOf = async (store: WritableStore, openPlace: OpenPlace): Promise<number[]> => {
  const array = (await open(store, "", { openPlace })) as ArrayArchive;
  return [...((await array.get()).data as Int32Array)];
};

class Run {
  readonly random: () => number;
  image: Image = new Map();
  /** What is acknowledged, and what a failed or unacknowledged operation may have made of it. */
  states: number[][] = [[]];
  serial = 0;
  trace: string[] = [];

  constructor(seed: number) {
    this.random = randomFrom(seed);
  }

  pick(n: number): number {
    return Math.floor(this.random() * n);
  }

  numbers(count: number): number[] {
    return Array.from({ length: count }, () => ++this.serial);
  }

  async create(): Promise<void> {
    const store = new MemoryStore();
    const array = await createArray(store, "", {
      dtype: "<i4",
      chunkLength: 1 + this.pick(4),
      superchunkLength: 1 + this.pick(4),
      compressor: { cname: "lz4", clevel: 1 },
      places: [COLD, SLOW],
      placeBy: (["round", "size", "tier"] as const)[this.pick(3)] ?? "round",
      openPlace: placesIn(store),
      ...(this.pick(3) === 0 ? { reserve: 8 } : {}),
    });
    await array.close();
    this.image = await imageOf(store);
  }

  /** The rows after an operation, given those before; the operation itself. */
  operation(rows: readonly number[]): {
    name: string;
    next: number[];
    isDurable: boolean;
    act: (array: WritableArray) => Promise<unknown>;
  } {
    const length = rows.length;
    switch (this.pick(13)) {
      case 0:
      case 1:
      case 2: {
        const more = this.numbers(1 + this.pick(30));
        return {
          name: `append ${more.length}`,
          next: [...rows, ...more],
          isDurable: false,
          act: (array) => array.append(Int32Array.from(more)),
        };
      }
      case 3: {
        const start = this.pick(length + 1);
        const stop = start + this.pick(length - start + 1);
        const values = this.numbers(stop - start);
        return {
          name: `set ${start}:${stop}`,
          next: [...rows.slice(0, start), ...values, ...rows.slice(stop)],
          isDurable: false,
          act: (array) => array.set([{ start, stop, step: 1 }], Int32Array.from(values)),
        };
      }
      case 4: {
        const end = this.pick(length + 1);
        return {
          name: `resize ${end}`,
          next: rows.slice(0, end),
          isDurable: true,
          act: (array) => array.resize(end),
        };
      }
      case 5: {
        const start = this.pick(length + 1);
        const stop = Math.min(length, start + this.pick(12));
        return {
          name: `delete ${start}:${stop}`,
          next: [...rows.slice(0, start), ...rows.slice(stop)],
          isDurable: true,
          act: (array) => array.deleteRows(start, stop),
        };
      }
      case 6:
      case 7: {
        const to = NAMES[this.pick(4)] ?? "data";
        const choice = this.pick(2) === 0 ? {} : { olderThan: 0 };
        return {
          name: `move to ${to}`,
          next: [...rows],
          isDurable: false,
          act: (array) => array.moveSuperchunks(to, choice as never),
        };
      }
      case 8: {
        const third = { name: "third", prefix: "file:///third/" };
        const changes = [
          { add: [third] },
          { remove: ["third"] },
          { rule: (["round", "size", "tier"] as const)[this.pick(3)] ?? "round" },
        ][this.pick(3)];
        return {
          name: `places ${JSON.stringify(changes)}`,
          next: [...rows],
          isDurable: false,
          act: (array) => array.changePlaces(changes as never),
        };
      }
      case 9:
        return { name: "compact", next: [...rows], isDurable: false, act: (array) => array.compact() };
      default:
        return { name: "flush", next: [...rows], isDurable: true, act: (array) => array.flush() };
    }
  }

  /** States, and with those of an append that was interrupted. */
  allowed(): Set<string> {
    const all = new Set(this.states.map(text));
    for (const [i, state] of this.states.entries()) {
      const before = this.states[i - 1] ?? [];
      if (state.length > before.length && text(state.slice(0, before.length)) === text(before))
        for (let end = before.length; end < state.length; end++) all.add(text(state.slice(0, end)));
    }
    return all;
  }

  assertAllowed(found: number[], label: string): void {
    if (!this.allowed().has(text(found)))
      throw new Error(`${label}: found ${text(found)}, allowed:\n${[...this.allowed()].join("\n")}`);
  }

  async alone(): Promise<void> {
    const { random } = this;
    const cuts = this.pick(3) === 0;
    const disk = new VolatileStore(this.image, {
      failAt: cuts ? 1 + this.pick(60) : Number.POSITIVE_INFINITY,
      random,
    });
    const life: Life = {
      isDead: false,
      risk: this.pick(3) === 0 ? 0 : 0.06 * random(),
      absent: undefined,
    };
    const store = failing(disk, random, life);
    const modify = this.pick(3) === 0 ? "in-place" : "patch";
    const dead = (): boolean => life.isDead || disk.isDead;
    this.trace.push(`session alone ${modify} cuts=${cuts}`);
    let array: WritableArray | undefined;
    let isUnsure = false;
    try {
      if (this.pick(6) === 0) life.absent = ["cold/", "slow/"][this.pick(2)];
      array = await openWritable(store, "", { modify, openPlace: placesIn(store) });
      const history = this.states.map(text);
      for (let n = 1 + this.pick(8); n > 0; n--) {
        life.absent = this.pick(8) === 0 ? ["cold/", "slow/"][this.pick(2)] : undefined;
        const rows = this.states.at(-1) ?? [];
        const { name, next, isDurable, act } = this.operation(rows);
        this.trace.push(`${name}${life.absent ?? ""}`);
        const before = this.states;
        this.states = [...before, next];
        history.push(...this.allowed());
        const reading = modify === "patch" && this.pick(3) === 0 ? this.readBeside(disk, history) : undefined;
        try {
          await act(array);
          if (isDurable) this.states = [next];
          totals.acknowledged++;
          await reading;
        } catch (error) {
          await reading;
          if (!isSuperchunkError(error)) throw error;
          this.trace.push(`  ${error.message}`);
          if (error.isDamage && !dead() && life.absent === undefined && life.risk === 0) throw error;
          if (dead()) break;
          isUnsure = this.pick(2) === 0;
          if (isUnsure) break;
          // The writer goes on: what it shows now counts.
          const { risk } = life;
          [life.risk, life.absent] = [0, undefined];
          const now = [...((await array.get()).data as Int32Array)];
          life.risk = risk;
          this.assertAllowed(now, `after a failed ${name}`);
          this.states = [now];
          history.push(text(now));
        }
      }
      life.absent = undefined;
      if (!dead()) {
        const last = this.states.at(-1) ?? [];
        if (!isUnsure && this.pick(2) === 0) {
          this.trace.push("close");
          await array.close();
          this.states = [last];
        } else await array.abandon();
      }
    } catch (error) {
      if (!isSuperchunkError(error)) throw error;
      this.trace.push(`  ${error.message}`);
      life.absent = undefined;
      life.risk = 0;
      if (!dead()) await array?.abandon().catch((e: unknown) => this.trace.push(`  abandon: ${e}`));
      totals.refused++;
    }
    if (disk.isDead) totals.cut++;
    this.image = disk.isDead ? disk.image() : await imageOf(disk as unknown as MemoryStore);
  }

  async readBeside(disk: WritableStore, history: string[]): Promise<void> {
    try {
      const reader = (await open(disk, "", { openPlace: placesIn(disk) })) as ArrayArchive;
      for (let n = this.pick(30); n > 0; n--) await turn();
      const found = text([...((await reader.get()).data as Int32Array)]);
      totals.read++;
      if (!history.includes(found)) throw new Error(`a reader found ${found}\n${history.join("\n")}`);
    } catch (error) {
      if (!isSuperchunkError(error)) throw error;
      if (error.code !== "STALE" && !/power is gone/.test(error.message))
        throw new Error(`reader: ${error.message}`, { cause: error });
    }
  }

  async shared(): Promise<void> {
    const { random } = this;
    const [base = []] = this.states;
    const disk = new VolatileStore(this.image, {
      failAt: this.pick(3) === 0 ? 1 + this.pick(80) : Number.POSITIVE_INFINITY,
      random,
    });
    const clock = {
      at: Date.now() - this.pick(3) * 1e9,
      now: () => clock.at,
      random,
      pause: async (ms: number) => {
        clock.at += ms;
        await turn();
      },
    };
    this.trace.push("session shared");
    const acknowledged: number[] = [];
    const sent: number[][] = [];
    const risk = this.pick(3) === 0 ? 0 : 0.06 * random();
    let moved = false;
    const mover = async (): Promise<void> => {
      for (let n = this.pick(40); n > 0; n--) await turn();
      const life: Life = { isDead: false, risk, absent: undefined };
      const store = failing(disk, random, life);
      try {
        const array = await openWritable(store, "", { openPlace: placesIn(store) });
        await array.moveSuperchunks(NAMES[this.pick(4)] ?? "data");
        await (this.pick(2) === 0 ? array.close() : array.abandon());
        moved = true;
      } catch (error) {
        if (!isSuperchunkError(error)) throw error;
        this.trace.push(`  mover: ${error.message}`);
      }
    };
    const write = async (): Promise<void> => {
      const life: Life = { isDead: false, risk, absent: undefined };
      const store = failing(disk, random, life);
      const own: number[] = [];
      sent.push(own);
      let waiting: number[] = [];
      try {
        const lease = 1 + this.pick(20);
        const array = await openShared(store, "", { clock, lease, openPlace: placesIn(store) });
        for (let n = 1 + this.pick(6); n > 0 && !life.isDead && !disk.isDead; n--) {
          const rows = this.numbers(1 + this.pick(20));
          own.push(...rows);
          waiting.push(...rows);
          if (this.pick(8) === 0) clock.at += lease * 3000 * random();
          life.absent = this.pick(8) === 0 ? ["cold/", "slow/"][this.pick(2)] : undefined;
          try {
            await array.append(Int32Array.from(rows));
            await array.flush();
            acknowledged.push(...waiting);
            waiting = [];
          } catch (error) {
            if (!isSuperchunkError(error)) throw error;
            this.trace.push(`  writer: ${error.message}`);
          }
        }
        life.absent = undefined;
        if (life.isDead || disk.isDead) return;
        if (this.pick(2) === 0) return;
        await array.close().then(
          () => acknowledged.push(...waiting),
          () => array.abandon(),
        );
      } catch (error) {
        if (!isSuperchunkError(error)) throw error;
        this.trace.push(`  open: ${error.message}`);
      }
    };
    await Promise.all([write(), write(), ...(this.pick(2) === 0 ? [mover()] : [])]);
    if (moved) this.trace.push("moved beside");
    if (disk.isDead) totals.cut++;
    this.image = disk.isDead ? disk.image() : await imageOf(disk as unknown as MemoryStore);
    const store = new MemoryStore(this.image);
    const found = await rowsOf(store, placesIn(store));
    expect(text(found.slice(0, base.length))).toBe(text(base));
    const added = found.slice(base.length);
    expectOnce(added, { acknowledged, sent: sent.flat() });
    for (const own of sent) {
      const mine = added.filter((value) => own.includes(value));
      expect(mine).toEqual([...mine].sort((a, b) => a - b));
    }
    this.states = [found];
  }

  /** After every session: the rows are allowed ones, everything named is there, and the next writer leaves nothing else. */
  async check(): Promise<void> {
    const store = new MemoryStore(this.image);
    const openPlace = placesIn(store);
    const missing = namedFiles(this.image).filter((key) => !this.image.has(key));
    expect(missing, "named superchunks").toEqual([]);
    const archive = (await open(store, "", { openPlace })) as ArrayArchive;
    const found = [...((await archive.get()).data as Int32Array)];
    this.assertAllowed(found, "reopened");
    const errors = (await archive.verify()).findings.filter(({ severity }) => severity === "error");
    expect(errors).toEqual([]);
    this.states = [found];
    if (this.pick(3) > 0) return;
    await (await openWritable(store, "", { openPlace })).abandon();
    const after = await imageOf(store);
    expect(text(await rowsOf(store, openPlace))).toBe(text(found));
    this.image = after;
    const reserved = (layoutOf(after).writers ?? []).filter(({ count }) => count > 0);
    if (reserved.length > 0) return;
    const files = [...after.keys()].filter((key) => key.endsWith(".bin")).sort();
    expect(files, "unnamed superchunks").toEqual(namedFiles(after));
  }
}

test("[FG-21] an array spread over places has what was acknowledged, whatever fails, dies or loses power", async () => {
  for (let seed = 1; seed <= SEEDS; seed++) {
    const run = new Run(seed);
    await run.create();
    for (let n = 0; n < SESSIONS; n++)
      try {
        await (run.pick(4) === 0 ? run.shared() : run.alone());
        await run.check();
      } catch (error) {
        throw new Error(`seed ${seed}\n${run.trace.join("\n")}`, { cause: error });
      }
  }
  for (const count of Object.values(totals)) expect(count).toBeGreaterThan(0);
});

test("of two exclusive writers at once, rows that one has acknowledged are there exactly once, where the commit says", async () => {
  const counts = { acknowledged: 0, conflicts: 0, compacted: 0 };
  for (let seed = 0; seed < sweep(2000, 18); seed++) {
    const random = randomFrom(seed);
    const pick = (n: number): number => Math.floor(random() * n);
    const memory = new MemoryStore();
    const reserve = pick(2) === 0 ? "50%" : undefined;
    const created = await createArray(memory, "", {
      ...{ dtype: "<i4", chunkLength: 4, superchunkLength: 2, places: [COLD, SLOW] },
      ...(reserve === undefined ? {} : { reserve }),
      openPlace: placesIn(memory),
    });
    await created.close();
    const acknowledged: number[] = [];
    const sent: number[] = [];
    let serial = 0;
    const writer = async (): Promise<void> => {
      for (let session = 0; session < 3; session++) {
        const life = { isDead: false, risk: 0, absent: undefined };
        const store = failing(memory, random, life);
        let array: WritableArray | undefined;
        const waiting: number[] = [];
        try {
          array = await openWritable(store, "", { openPlace: placesIn(store) });
          for (let step = 0; step < 4; step++) {
            const rows = Array.from({ length: 1 + pick(11) }, () => ++serial);
            sent.push(...rows);
            waiting.push(...rows);
            await array.append(Int32Array.from(rows));
            if (pick(3) > 0) {
              await array.flush();
              acknowledged.push(...waiting.splice(0));
            }
            if (pick(6) === 0) {
              await array.compact();
              counts.compacted++;
              acknowledged.push(...waiting.splice(0));
            }
          }
          if (pick(4) === 0) await array.abandon();
          else {
            await array.close();
            acknowledged.push(...waiting);
          }
        } catch (error) {
          if (!isSuperchunkError(error) || !["CONFLICT", "STALE", "NOT_FOUND"].includes(error.code))
            throw error;
          if (error.code === "CONFLICT") counts.conflicts++;
          await array?.abandon().catch(() => undefined);
        }
      }
    };
    try {
      await Promise.all([writer(), writer()]);
      const found = await rowsOf(memory, placesIn(memory));
      expectOnce(found, { acknowledged, sent });
      const image = await imageOf(memory);
      expect(namedFiles(image).filter((name) => !image.has(name))).toEqual([]);
      const opened = (await open(memory, "", { openPlace: placesIn(memory) })) as ArrayArchive;
      const { findings } = await opened.verify();
      expect(findings.filter(({ severity }) => severity === "error")).toEqual([]);
      // The next writer finds nothing in its way, and changes no row.
      await (await openWritable(memory, "", { openPlace: placesIn(memory) })).close();
      expect(await rowsOf(memory, placesIn(memory))).toEqual(found);
    } catch (error) {
      throw new Error(`seed ${seed}: ${error instanceof Error ? error.stack : error}`);
    }
    counts.acknowledged += acknowledged.length;
  }
  expect(counts.conflicts).toBeGreaterThan(0);
  expect(counts.compacted).toBeGreaterThan(0);
  expect(counts.acknowledged).toBeGreaterThan(1000);
}, 300_000);

/**
 * Readers that hold documents and indexes of any age, next to a writer that does anything: schedules drawn from a
 * seed. `SCHEDULES=300 npx vitest run test/dual/live/any-age` runs more of them.
 */
import { expect, test, vi } from "vitest";
import { isSuperchunkError, SuperchunkError } from "../../../src/errors.ts";
import type { DType } from "../../../src/format/types.ts";
import { verifyLinkAt } from "../../../src/node/index.ts";
import type { ArrayOptions } from "../../../src/write/array/create.ts";
import type { WritableArray } from "../../../src/write/array/writable-array.ts";
import type { PublishPolicy } from "../../../src/write/editable.ts";
import type { ChunkSettings } from "../../../src/write/layout/settings.ts";
import { randomFrom } from "../../crash/random.ts";
import { sweep } from "../../scope.ts";
import { blzValues, Readers, sorted, zarrValues } from "./readers.ts";
import { closeStores, copyOf, createWatched, isOutage, openWatched, temporaryFolder } from "./support.ts";

const SCHEDULES = Number(process.env["SCHEDULES"] ?? sweep(6, 2));
const STEPS = sweep(40, 13);
const MOST_ROWS = 80;
const INT: DType = { kind: "int", itemSize: 4, byteOrder: "little" };
const FILL = -1;

const KINDS: readonly (readonly [string, Partial<ArrayOptions>])[] = [
  ["rows of values", {}],
  ["rows with two dimensions", { shape: [0, 2, 1], chunkLength: 3, superchunkLength: 2 }],
  [
    "columns",
    {
      dtype: [
        ["a", "<i4"],
        ["v", "<i4", [2]],
      ],
      fillValue: [FILL, FILL],
    },
  ],
];
const POLICIES: readonly PublishPolicy[] = [
  "flush",
  "flush",
  "full",
  { everySeconds: 10 },
  { everySeconds: 1e6 },
];

class Outage extends Error {}

/** A writer's action, the same each time. */
interface Step {
  readonly name: string;
  run(array: WritableArray): Promise<void>;
}

/** An array, its writer, and readers of every age. */
class Schedule {
  readonly root: string = temporaryFolder();
  readonly random: () => number;
  readonly readers: Readers;
  readonly isTable: boolean;
  array!: WritableArray;
  policy: PublishPolicy = "flush";
  /** Changes that the writer makes before the power is cut. */
  left: number = Number.POSITIVE_INFINITY;
  /** True if only one of them fails, and the writer continues. */
  isFault = false;
  #value = 0;

  constructor(seed: number, isTable: boolean) {
    this.random = randomFrom(seed);
    this.isTable = isTable;
    this.readers = new Readers(this.root, randomFrom(~seed));
  }

  readonly tick = async (): Promise<void> => {
    if (this.left-- <= 0) {
      if (!this.isFault) throw new Outage();
      this.left = Number.POSITIVE_INFINITY;
      throw new SuperchunkError("IO", "the disk failed once");
    }
    await this.readers.look();
  };

  below(limit: number): number {
    return Math.floor(this.random() * limit);
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)] as T;
  }

  /** Values that were never there, none of them the fill value. */
  #values(count: number): Int32Array {
    this.#value += count;
    return Int32Array.from({ length: count }, (_, i) => this.#value - count + i);
  }

  /** The Zarr arrays, and the values that a row has in each. */
  #nodes({
    columnNames,
    shape,
  }: WritableArray): readonly { readonly node: string; readonly width: number }[] {
    if (this.isTable) return columnNames.map((node) => ({ node, width: node === "v" ? 2 : 1 }));
    return [{ node: "", width: shape.slice(1).reduce((product, n) => product * n, 1) }];
  }

  /** New rows for the array, announced to the readers. */
  #rows(array: WritableArray, first: number, count: number): unknown {
    const columns = this.#nodes(array).map(({ node, width }) => {
      const values = this.#values(count * width);
      this.readers.note(new Map([[node, values]]), first * width);
      return { width, values };
    });
    if (!this.isTable) return columns[0]?.values;
    return Array.from({ length: count }, (_, i) =>
      columns.map(({ width, values }) =>
        width === 1 ? values[i] : [...values.subarray(i * width, (i + 1) * width)],
      ),
    );
  }

  draw(): Step {
    const below = (limit: number): number => this.below(limit);
    const [kind, a, b] = [below(100), this.random(), this.random()];
    const isFlushed = below(4) > 0;
    if (kind < 34) {
      const count = 1 + Math.floor(a * a * 30);
      return {
        name: `append ${count}${isFlushed ? "" : ", no flush"}`,
        run: async (array) => {
          if (array.length > MOST_ROWS) return;
          await array.append(this.#rows(array, array.length, count) as Int32Array);
          if (isFlushed) await array.flush();
        },
      };
    }
    const between = ({ length }: WritableArray): { start: number; stop: number } => {
      const start = Math.floor(a * length);
      return { start, stop: start + 1 + Math.floor(b * b * (length - start - 1)) };
    };
    if (kind < 54)
      return {
        name: `set${isFlushed ? "" : ", no flush"}`,
        run: async (array) => {
          if (array.length === 0) return;
          const { start, stop } = between(array);
          await array.set([{ start, stop, step: null }], this.#rows(array, start, stop - start));
          if (isFlushed) await array.flush();
        },
      };
    if (kind < 68) {
      const isUp = below(3) === 0;
      return {
        name: "resize",
        run: async (array) => {
          const { length } = array;
          if (!isUp) return array.resize(Math.floor(a * (length + 1)));
          for (const { node, width } of this.#nodes(array))
            this.readers.note(new Map([[node, new Array<number>(25 * width).fill(FILL)]]), length * width);
          await array.resize(length + Math.floor(b * 25));
        },
      };
    }
    if (kind < 75)
      return {
        name: "delete rows",
        run: async (array) => {
          const { start, stop } = between(array);
          if (array.length > 0) await array.deleteRows(start, stop);
        },
      };
    if (kind < 82) return { name: "compact", run: (array) => array.compact() };
    if (kind < 85)
      return { name: "attributes", run: (array) => array.setAttributes({ n: Math.floor(a * 3) }) };
    if (kind < 93 || !this.isTable) {
      const changes: ChunkSettings = {
        ...(below(2) === 0 ? { chunkLength: 1 + below(7) } : {}),
        ...(below(2) === 0 ? { superchunkLength: 1 + below(5) } : {}),
        ...(below(3) === 0 ? { compressor: { cname: this.pick(["zstd", "lz4"] as const) } } : {}),
        ...(below(4) === 0 ? { checksum: this.pick(["None", "md5", "crc32"] as const) } : {}),
      };
      return { name: `compact ${JSON.stringify(changes)}`, run: (array) => array.compact(changes) };
    }
    const [from, to] = [this.pick(["a", "w", "x"]), this.pick(["a", "w", "x"])];
    if (kind < 96)
      return {
        name: `rename ${from} to ${to}`,
        run: async (array) => {
          if (array.columnNames.includes(from) && !array.columnNames.includes(to))
            await array.renameColumn(from, to);
        },
      };
    if (kind < 98)
      return {
        name: `delete ${from}`,
        run: async (array) => {
          if (array.columnNames.includes(from)) await array.deleteColumn(from);
        },
      };
    return {
      name: `add ${to}`,
      run: async (array) => {
        if (array.columnNames.includes(to)) return;
        const values = this.#values(array.length);
        this.readers.note(new Map([[to, values]]));
        await array.addColumn({ name: to, dtype: INT, fillValue: FILL }, values);
      },
    };
  }

  /** Takes a step; a change that other readers could mistake is refused. */
  async take(step: Step, array = this.array): Promise<void> {
    try {
      await step.run(array);
    } catch (error) {
      if (!isSuperchunkError(error, "UNSUPPORTED")) throw error;
    }
  }

  async openAgain(): Promise<void> {
    this.policy = this.pick(POLICIES);
    this.array = await openWatched(this.root, this.tick, this.policy);
  }

  /** Makes sure that everything is shown. */
  async showAll(): Promise<void> {
    if (this.policy === "flush" && this.below(2) === 0) return this.array.flush();
    await this.array.close();
    await this.openAgain();
  }

  /** Values that rows may have during the step: the step is first taken in a copy without readers. */
  async noteOutcome(step: Step): Promise<void> {
    const copy = copyOf(this.root);
    const other = await openWatched(copy, async () => undefined);
    await this.take(step, other);
    await other.close();
    this.readers.note(await blzValues(copy));
  }

  /** Lets the disk fail once during a step; the writer continues. */
  async fail(step: Step): Promise<void> {
    await this.array.flush();
    await this.noteOutcome(step);
    this.isFault = true;
    this.left = this.below(40);
    try {
      await this.take(step);
      await this.array.flush();
    } catch (error) {
      if (!isSuperchunkError(error, "IO")) throw error;
    }
    this.isFault = false;
    this.left = Number.POSITIVE_INFINITY;
    if (this.below(2) === 0) await this.array.flush();
  }

  /** Cuts the power during a step, perhaps also while the next writer begins. */
  async cut(step: Step): Promise<void> {
    await this.array.flush();
    await this.noteOutcome(step);
    this.left = this.below(40);
    try {
      await this.take(step);
      await this.array.flush();
    } catch (error) {
      if (!isOutage(error, Outage)) throw error;
    }
    this.left = 0;
    for (;;) {
      const again = this.below(3) === 0 ? this.below(10) : Number.POSITIVE_INFINITY;
      try {
        this.left = again;
        await this.openAgain();
        this.left = Number.POSITIVE_INFINITY;
        return;
      } catch (error) {
        if (!isOutage(error, Outage)) throw error;
      }
    }
  }
}

test.each(Array.from({ length: SCHEDULES }, (_, i) => i))(
  "[FY-03] [FY-09] [FY-11] whatever a writer does, readers with a document or index of any age get a value that their row had, or an error (schedule %i)",
  async (seed) => {
    const [name, options] = KINDS[seed % KINDS.length] ?? ["", {}];
    const schedule = new Schedule(seed, name === "columns");
    const { readers, root } = schedule;
    let now = 0;
    vi.spyOn(performance, "now").mockImplementation(() => now);
    const log: string[] = [];
    schedule.array = await createWatched(root, schedule.tick, { fillValue: FILL, ...options });
    let right = 0;
    for (let i = 0; i < STEPS; i++) {
      const step = schedule.draw();
      const way = schedule.below(12);
      log.push(`${way === 0 ? "cut in " : way === 1 ? "failed in " : ""}${step.name}`);
      const label = `${name}, after ${log.length} steps: ${log.slice(-6).join("; ")}`;
      try {
        if (way === 0) await schedule.cut(step);
        else await (way === 1 ? schedule.fail(step) : schedule.take(step));
        now += schedule.below(4) * 4000;
        const isWhole = schedule.below(3) === 0;
        if (isWhole) await schedule.showAll();
        const values = await blzValues(root);
        readers.note(values);
        await readers.look();
        right += await readers.check(label);
        if (!isWhole) continue;
        expect(sorted(await zarrValues(root)), label).toEqual(sorted(values));
        await readers.checkNow(label, values);
      } catch (error) {
        throw new Error(label, { cause: error });
      }
    }
    await schedule.array.close();
    const values = await blzValues(root);
    readers.note(values);
    await readers.check("at the end");
    await readers.checkNow("at the end", values);
    expect(sorted(await zarrValues(root))).toEqual(sorted(values));
    expect(await verifyLinkAt(root)).toEqual([]);
    expect(right).toBeGreaterThan(2 * STEPS);
    await closeStores();
    vi.restoreAllMocks();
  },
  600_000,
);

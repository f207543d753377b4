/**
 * A conversion as a plan that many processes share: its sources, the options, and its units of work with their sizes.
 *
 * A unit is a small source as a whole, or one task of a large one. The plan does not list tasks: every process that opens the
 * source derives the same ones, in the same order. So the plan of an array with a million shards has only a few bytes. Pure;
 * must not read or write.
 */
import { at, countLeading } from "../bytes/arrays.ts";
import type { ArrayRun, ConvertFormat, ConvertOptions, Failure, FoundAt, Task } from "../convert/pipeline.ts";
import { SuperchunkError } from "../errors.ts";
import { formatDType, parseDType } from "../format/dtype.ts";
import { parseJson, stringifyJson } from "../format/json.ts";
import type { JsonObject } from "../format/types.ts";
import type { ShareNumber } from "./receipts.ts";

/** Consecutive tasks of equal size: their number, and the uncompressed bytes of each. */
export type TaskRun = readonly [count: number, nbytes: number];

/** One source of a shared plan. */
export interface SharedSource {
  /** Name in messages. */
  readonly path: string;
  /** Path below the destination. */
  readonly node: string;
  readonly found?: FoundAt & {
    /** Its place, if the plan is not a conversion. */ readonly place?: number;
  };
  readonly renamedFrom?: string;
  readonly notes?: readonly string[];
  /** Digest that changes when the source does. */
  readonly fingerprint?: string;
  /** For a small archive that was examined but not opened: digest of the versions of its metadata. */
  readonly versions?: string;
  /** Uncompressed bytes. */
  readonly nbytes: number;
  /** Tasks of each array, each a unit; absent if the whole source is one unit. */
  readonly tasks?: readonly (readonly TaskRun[])[];
  /** Why it cannot be planned; it then has no unit. */
  readonly failure?: Failure;
}

/** What the units of a source depend on. */
export type SizedSource = Pick<SharedSource, "nbytes" | "tasks" | "failure">;

/** Digest of the source state that the plan is for; empty for a source that cannot be planned. */
export function taskStateOf({ versions, fingerprint }: SharedSource): string {
  return versions ?? fingerprint ?? "";
}

/** Options that decide the bytes of a conversion, as JSON. */
export type PackedOptions = JsonObject;

/** A conversion that many processes run together: JSON, never changed once made. */
export interface SharedPlan {
  readonly format: "superchunk-plan";
  readonly version: 1;
  /** Version of superchunk that made it. Another version may write other bytes. */
  readonly software: string;
  /** Absent for a conversion. */
  readonly command?: "verify" | "virtualize" | "repair";
  /** Digest of all other members. Receipts name it. */
  readonly id: string;
  /** Paths or addresses of the sources, and the destination's. */
  readonly from: readonly string[];
  readonly to: string;
  readonly options: PackedOptions;
  /** True if several sources may be found; each may then fail separately. */
  readonly isTree: boolean;
  /** True if the destination is in a Zarr group. */
  readonly isInGroup: boolean;
  readonly sources: readonly SharedSource[];
}

/** Packs the options of a conversion as JSON. Throws `UNSUPPORTED` for those that a plan cannot carry. */
export function packOptions(
  options: ConvertOptions & { readonly concat?: boolean | undefined },
): PackedOptions {
  const { signal, onProgress, onDamage, onReceipt, openPlace, encoder, dtype, ...more } = options;
  const { resume, overwrite, verifyOnly, ...others } = more;
  if (resume === true || overwrite === true || verifyOnly === true)
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      "a plan needs a destination that does not exist: it takes no resume, overwrite or verifyOnly; run it again to do the tasks that are left",
      { field: "resume, overwrite, verifyOnly" },
    );
  const packed = { ...others, ...(dtype === undefined ? {} : { dtype: formatDType(dtype) }) };
  const defined = Object.entries(packed).filter(([, value]) => value !== undefined);
  return parseJson(stringifyJson(Object.fromEntries(defined) as JsonObject), "options") as JsonObject;
}

export function unpackOptions({ dtype, ...others }: PackedOptions): ConvertOptions {
  return {
    ...(others as ConvertOptions),
    ...(dtype === undefined ? {} : { dtype: parseDType(dtype, "options.dtype") }),
  };
}

/** Throws `UNSUPPORTED` for the older form of Zarr, whose nodes share one hierarchy that every process would write. */
export function assertShareable(to: ConvertFormat = "zarr"): void {
  if (to !== "zarr3-transformer") return;
  throw new SuperchunkError(
    "UNSUPPORTED",
    "zarr3-transformer cannot be written by several processes; choose another format, or convert in one process",
    { field: "to", found: to },
  );
}

/** What a plan at `output` would spoil; undefined if nothing. */
export function spoiledBy(output: string, destination: string): string | undefined {
  const folderOf = (path: string): string => `${path.replaceAll("\\", "/").replace(/\/+$/, "")}/`;
  if (folderOf(output).startsWith(folderOf(destination))) return "a plan cannot be in its destination";
  const isDocument = /(^|[/\\])(zarr\.json|\.z[a-z]+)$/i.test(output);
  return isDocument ? "readers of Zarr would take the plan for metadata" : undefined;
}

/** The tasks of an array in an order that is the same in every process. */
export async function orderedTasks(run: ArrayRun, signal: AbortSignal | undefined): Promise<Iterable<Task>> {
  const tasks = run.tasks(signal);
  if (Symbol.iterator in tasks) return tasks;
  // A store may list in any order.
  const found: Task[] = [];
  for await (const task of tasks) found.push(task);
  return found.sort((a, b) => (a.key < b.key ? -1 : 1));
}

export function packTasks(tasks: Iterable<Task>): TaskRun[] {
  const runs: [count: number, nbytes: number][] = [];
  for (const { nbytes } of tasks) {
    const last = runs.at(-1);
    if (last !== undefined && last[1] === nbytes) last[0]++;
    else runs.push([1, nbytes]);
  }
  return runs;
}

/** The source of a unit; for a task also the number of its array, and its number there. */
export interface UnitPlace {
  readonly source: number;
  readonly task?: { readonly array: number; readonly index: number };
}

/** The units of a plan, numbered by sources, their arrays and tasks. */
export class Units {
  readonly count: number;
  /** Uncompressed bytes of each unit. */
  readonly sizes: Float64Array;
  readonly #sources: readonly SizedSource[];
  /** Number of the first unit of each source. */
  readonly #starts: Float64Array;

  constructor({ sources }: { readonly sources: readonly SizedSource[] }) {
    this.#sources = sources;
    this.#starts = new Float64Array(sources.length + 1);
    for (const [index, source] of sources.entries())
      this.#starts[index + 1] = at(this.#starts, index) + unitsIn(source);
    this.count = at(this.#starts, sources.length);
    this.sizes = new Float64Array(this.count);
    let unit = 0;
    for (const { tasks, nbytes, failure } of sources) {
      if (failure !== undefined) continue;
      if (tasks === undefined) this.sizes[unit++] = nbytes;
      else
        for (const [count, size] of tasks.flat()) {
          this.sizes.fill(size, unit, unit + count);
          unit += count;
        }
    }
  }

  /** The units of a source: from the first up to, but excluding, the end. */
  of(source: number): { readonly first: number; readonly end: number } {
    return { first: at(this.#starts, source), end: at(this.#starts, source + 1) };
  }

  place(unit: number): UnitPlace {
    const source = Math.max(0, countLeading(this.#sources.length, (i) => at(this.#starts, i) <= unit) - 1);
    const { tasks } = at(this.#sources, source);
    if (tasks === undefined) return { source };
    let index = unit - at(this.#starts, source);
    for (const [array, runs] of tasks.entries()) {
      const count = countTasks(runs);
      if (index < count) return { source, task: { array, index } };
      index -= count;
    }
    throw new RangeError(`the plan has no unit ${unit}`);
  }

  /**
   * The units of share `k` of `n` (from 0), in ascending order. They are dealt out by size, the largest first, in alternating
   * direction, so that shares are about equally large. The same in every process.
   */
  share(k: number, n: number): Uint32Array {
    const order = Uint32Array.from({ length: this.count }, (_, unit) => unit);
    if (n > 1) order.sort((a, b) => at(this.sizes, b) - at(this.sizes, a) || a - b);
    const mine: number[] = [];
    for (let first = 0, round = 0; first < order.length; first += n, round++) {
      const index = first + (round % 2 === 0 ? k : n - 1 - k);
      if (index < order.length) mine.push(at(order, index));
    }
    return Uint32Array.from(mine).sort();
  }
}

/** Throws `BAD_ARGUMENT` for a share that no plan has. */
export function assertShare({ k, n }: ShareNumber = { k: 1, n: 1 }): void {
  if (Number.isInteger(k) && Number.isInteger(n) && k >= 1 && k <= n) return;
  throw new SuperchunkError("BAD_ARGUMENT", "a share is K/N with K from 1 to N", {
    field: "share",
    found: `${k}/${n}`,
  });
}

function unitsIn({ tasks, failure }: SizedSource): number {
  if (failure !== undefined) return 0;
  return tasks === undefined ? 1 : tasks.reduce((sum, runs) => sum + countTasks(runs), 0);
}

export function countTasks(runs: readonly TaskRun[]): number {
  return runs.reduce((sum, [count]) => sum + count, 0);
}

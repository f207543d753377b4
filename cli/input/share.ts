/** The share of a plan that a process runs: typed, or set by a scheduler. */
import { InvalidArgumentError } from "commander";
import type { SuperchunkError } from "../../src/index.ts";
import { wrongUse } from "../failure.ts";

/** Share `k` of `n`, counted from 1. */
export interface Share {
  readonly k: number;
  readonly n: number;
}

const wrong = (reason: string): SuperchunkError => wrongUse("shares", reason);

type Numbers = (name: string, first?: number) => number | undefined;

/**
 * The share that is typed or set by a scheduler; undefined for all tasks. Throws `BAD_ARGUMENT` if only half of it is set, or if variables
 * contradict each other.
 */
export function shareOf(
  { task, shares }: { readonly task?: Share | undefined; readonly shares?: number | undefined },
  env: Readonly<Record<string, string | undefined>>,
): { readonly share?: Share; readonly source?: string } {
  if (task !== undefined) return { share: task };
  // Counted from 1, where the scheduler counts from `first`.
  const number: Numbers = (name, first = 1) => {
    const text = env[name] ?? "";
    if (text === "") return undefined;
    if (/^\d{1,15}$/.test(text)) return Number(text) + 1 - first;
    throw wrong(`${name} is ${JSON.stringify(text)}, and not a number; give --task K/N`);
  };
  const found: readonly (readonly [source: string, k: number | undefined, all?: number | undefined])[] = [
    ["SLURM_ARRAY_TASK_ID", ...slurmShare(number, shares)],
    ["AWS_BATCH_JOB_ARRAY_INDEX", number("AWS_BATCH_JOB_ARRAY_INDEX", 0), number("AWS_BATCH_JOB_ARRAY_SIZE")],
    ["JOB_COMPLETION_INDEX", number("JOB_COMPLETION_INDEX", 0)],
    ["PARALLEL_SEQ", shares && number("PARALLEL_SEQ")],
  ];
  for (const [source, k, n = shares] of found) {
    if (k === undefined) continue;
    if (n === undefined)
      throw wrong(`${source} names share ${k}, but not the number of shares; give --shares N`);
    if (shares !== undefined && n !== shares)
      throw wrong(`${source} is one of ${n}, but --shares says ${shares}`);
    if (k >= 1 && k <= n) return { share: { k, n }, source };
    throw wrong(`${source}=${env[source]} is share ${k} of ${n}: start as many processes as shares`);
  }
  if (shares === undefined) return {};
  throw wrong("--shares gives the number of shares, but no scheduler says which this is; give --task K/N");
}

/** The share of a task of a Slurm array, and how many there are. Other numbers of shares need several arrays: 1-1000, then 1001-2000. */
function slurmShare(
  number: Numbers,
  shares: number | undefined,
): readonly [k: number | undefined, n?: number | undefined] {
  const [id, first] = [number("SLURM_ARRAY_TASK_ID"), number("SLURM_ARRAY_TASK_MIN")];
  if (id === undefined) return [undefined];
  if (first === undefined)
    throw wrong("SLURM_ARRAY_TASK_ID is set without SLURM_ARRAY_TASK_MIN, its first value; give --task K/N");
  const [count, last] = [number("SLURM_ARRAY_TASK_COUNT"), number("SLURM_ARRAY_TASK_MAX")];
  if (shares !== undefined && shares !== count) {
    if (first > 0) return [id, shares];
    throw wrong(`a Slurm array with some of ${shares} shares must count them from 1: 1-1000, then 1001-2000`);
  }
  const step = number("SLURM_ARRAY_TASK_STEP") ?? 1;
  const k = (id - first) / step + 1;
  const hasGaps = last !== undefined && count !== undefined && (last - first) / step + 1 !== count;
  if (Number.isInteger(k) && !hasGaps) return [k, count];
  throw wrong(
    "the Slurm array has gaps, so its tasks are not shares; to run what is left, use an array without gaps, such as 1-10",
  );
}

export function parseShare(text: string): Share {
  const [, k, n] = /^(\d+)\/(\d+)$/.exec(text) ?? [];
  const share = { k: Number(k), n: Number(n) };
  if (k === undefined || share.k < 1 || share.k > share.n)
    throw new InvalidArgumentError("Expected K/N, with K from 1 to N, for example 3/50.");
  return share;
}

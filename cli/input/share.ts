/** The share of a plan that a process runs: typed, or set by a scheduler. */
import { InvalidArgumentError } from "commander";
import { wrongUse } from "../failure.ts";

/** Share `k` of `n`, counted from 1. */
export interface Share {
  readonly k: number;
  readonly n: number;
}

/** The share that is typed or set by a scheduler; undefined for all tasks. Throws `BAD_ARGUMENT` if only half of it is set. */
export function shareOf(
  { task, shares }: { readonly task?: Share | undefined; readonly shares?: number | undefined },
  env: Readonly<Record<string, string | undefined>>,
): { readonly share?: Share; readonly source?: string } {
  if (task !== undefined) return { share: task };
  const numberOf = (name: string): number | undefined => {
    const text = env[name];
    return text !== undefined && /^\d+$/.test(text) ? Number(text) : undefined;
  };
  const id = numberOf("SLURM_ARRAY_TASK_ID");
  const [batch, pod] = [numberOf("AWS_BATCH_JOB_ARRAY_INDEX"), numberOf("JOB_COMPLETION_INDEX")];
  const first = numberOf("SLURM_ARRAY_TASK_MIN") ?? 0;
  const step = numberOf("SLURM_ARRAY_TASK_STEP") ?? 1;
  const [last, count] = [numberOf("SLURM_ARRAY_TASK_MAX"), numberOf("SLURM_ARRAY_TASK_COUNT")];
  const hasGaps = last !== undefined && count !== undefined && (last - first) / step + 1 !== count;
  if (id !== undefined && shares === undefined && hasGaps)
    throw wrongUse(
      "shares",
      "the Slurm array has gaps, so its tasks are not shares; to run what is left, use an array without gaps, such as 1-10",
    );
  // With --shares, an array may be one of several: 1-1000, then 1001-2000.
  const inSlurm =
    id === undefined
      ? undefined
      : shares === undefined
        ? (id - first) / step + 1
        : id - Math.min(first, 1) + 1;
  const parallel = shares === undefined ? undefined : numberOf("PARALLEL_SEQ");
  const found: readonly (readonly [string, number | undefined, number | undefined])[] = [
    ["SLURM_ARRAY_TASK_ID", inSlurm, count],
    [
      "AWS_BATCH_JOB_ARRAY_INDEX",
      batch === undefined ? undefined : batch + 1,
      numberOf("AWS_BATCH_JOB_ARRAY_SIZE"),
    ],
    ["JOB_COMPLETION_INDEX", pod === undefined ? undefined : pod + 1, undefined],
    ["PARALLEL_SEQ", parallel, undefined],
  ];
  for (const [source, k, all] of found) {
    if (k === undefined) continue;
    const n = shares ?? all;
    if (n !== undefined) return { share: { k, n }, source };
    throw wrongUse("shares", `${source} names share ${k}, but not the number of shares; give --shares N`);
  }
  if (shares === undefined) return {};
  throw wrongUse(
    "shares",
    "--shares gives the number of shares, but no scheduler says which one this is; give --task K/N",
  );
}

export function parseShare(text: string): Share {
  const [, k, n] = /^(\d+)\/(\d+)$/.exec(text) ?? [];
  const share = { k: Number(k), n: Number(n) };
  if (k === undefined || share.k < 1 || share.k > share.n)
    throw new InvalidArgumentError("Expected K/N, with K from 1 to N, for example 3/50.");
  return share;
}

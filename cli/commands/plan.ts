/** `superchunk plan`, `run`, `finish` and `status`: a conversion that many processes and machines share, with any scheduler. */
import { setTimeout as wait } from "node:timers/promises";
import { Option } from "commander";
import { type HolePolicy, isSuperchunkError, SuperchunkError } from "../../src/index.ts";
import {
  finish,
  type PlanPathOptions,
  plan,
  planStatus,
  runTasks,
  type SharedStatus,
} from "../../src/node/index.ts";
import type { QueueStatus } from "../../src/queue/index.ts";
import { checkConversion } from "../actions/conversion.ts";
import {
  FINISHED_BEFORE,
  noteDead,
  queueFacts,
  runQueued,
  statusOfQueue,
  type WorkFlags,
  workQueued,
} from "../actions/queue.ts";
import { formNamed, printReferences } from "../actions/virtualization.ts";
import type { Command, Context, Switches } from "../context.ts";
import { EXIT, exitCodeOf, inCommandWords, wrongUse } from "../failure.ts";
import { printDamage } from "../input/damaged.ts";
import { splitPaths } from "../input/input.ts";
import { parseShare, type Share, shareOf } from "../input/share.ts";
import { formatClock, formatCount, formatPlural, formatSize, parseCount } from "../input/units.ts";
import {
  type ConvertFlags,
  noteFailures,
  printFailures,
  printResult,
  toOptions,
  withPlace,
} from "../output/convert-report.ts";
import { alignRows } from "../output/layout.ts";
import { withProgress } from "../output/progress.ts";
import { printable, quoted } from "../values/cell-text.ts";
import { addConversionOptions, readConversion, type TypedConvertFlags } from "./convert.ts";
import { HOLES, printRepairs } from "./repair.ts";
import { printReport } from "./verify.ts";

export function addPlan(program: Command, context: Context): void {
  const command = program
    .command("plan")
    .description("plan a job that many processes or machines share; nothing is written to DST")
    .usage("[options] <src...> <dst> -o <plan>")
    .argument(
      "<paths...>",
      "the archives, then the destination: paths that are the same on every machine, or addresses",
    )
    .requiredOption(
      "-o, --output <plan>",
      "where to write the plan: a file (.json), or a folder for very many archives",
    );
  addConversionOptions(command)
    .addOption(
      new Option(
        "--for <command>",
        "the job; for verify, DST is the file for its report (JSON lines); for repair, a folder for copies of damaged archives",
      )
        .choices(["convert", "verify", "virtualize", "repair"])
        .default("convert"),
    )
    .addOption(
      new Option(
        "--holes <how>",
        "with --for repair: what to do if a chunk is lost; without it, such archives are only named",
      ).choices(HOLES),
    )
    .option("--scan", "with --for repair: search files for chunks if nothing else says where they are")
    .option("--json", "print JSON")
    .notes(`
The plan never changes. "run" does a share of it, anywhere and in any order;
"finish" completes it. The result is that of "convert", byte for byte. With
"--for verify" it is what "verify SRC --report DST" writes and prints, with
"--for virtualize" the references that "virtualize" writes. "--for repair" puts
a repaired copy of each damaged archive below DST, and a report, repair.jsonl;
undamaged archives are not copied.

Examples:
  superchunk plan /data/bundles /data/bundles.zarr -o plan.json
  superchunk plan prices prices.zarr -o plan.json --shard-size 64MiB --verify
  superchunk plan s3://bucket/bundles s3://bucket/bundles.zarr -o s3://bucket/plan
  superchunk plan /data/bundles verify.jsonl -o plan.json --for verify
  superchunk plan /data/bundles refs.json -o plan.json --for virtualize
  superchunk plan /data/bundles /data/saved -o plan.json --for repair --holes fill`)
    .action((paths: string[], typed: PlanFlags) => {
      const { output, for: work, holes, scan, ...own } = typed;
      if (work !== "convert") return planWork(paths, { ...typed, for: work }, command, context);
      const wrong = holes === undefined ? "scan" : "holes";
      if (holes !== undefined || scan !== undefined) throw wrongUse(wrong, `--${wrong} is for --for repair`);
      const { sources, destination, flags } = readConversion(paths, own, command);
      checkConversion(sources, flags);
      const options = { ...toOptions(flags, context), skipFailed: true, output };
      return makePlan(sources, destination, options, own.json, context);
    });
}

interface PlanFlags extends TypedConvertFlags {
  readonly output: string;
  readonly for: "convert" | OtherWork;
  readonly holes?: HolePolicy;
  readonly scan?: boolean;
}

type OtherWork = "verify" | "virtualize" | "repair";

/** Options of conversions that also apply to other kinds of plan. */
const OWN_OPTIONS: { readonly [work in OtherWork]: readonly string[] } = {
  verify: ["allow"],
  virtualize: ["allow", "portable", "column", "dimensionNames"],
  repair: ["allow", "holes", "scan"],
};

/** Plans work other than conversions. Throws `BAD_ARGUMENT` for options of conversions. */
async function planWork(
  paths: readonly string[],
  flags: PlanFlags & { readonly for: OtherWork },
  command: Command,
  context: Context,
): Promise<void> {
  const { output, for: work, holes, scan, json, portable, column, dimensionNames, allow } = flags;
  const needs = `plan --for ${work} needs archives, and where the result goes: superchunk plan SRC... DST -o PLAN --for ${work}`;
  const { sources, destination } = splitPaths(paths, needs);
  const known = ["output", "for", "json", ...OWN_OPTIONS[work]];
  const wrong = command.options.find(
    (option) =>
      !known.includes(option.attributeName()) &&
      command.getOptionValueSource(option.attributeName()) === "cli",
  );
  if (wrong !== undefined) throw wrongUse(wrong.attributeName(), `${wrong.long} is not for --for ${work}`);
  const form = work === "virtualize" ? formNamed(destination) : undefined;
  const { signal } = context;
  const own = { command: work, form, holes, scan, portable, columns: column, dimensionNames, allow, signal };
  await makePlan(sources, destination, { ...own, output }, json, context);
  if (work === "repair" && holes === undefined)
    context.message(
      "without --holes, archives with lost chunks are only named, and not copied; to save their other rows, plan again with --holes fill, drop or cut",
    );
}

async function makePlan(
  sources: readonly string[],
  destination: string,
  options: PlanPathOptions & { readonly output: string },
  json: boolean | undefined,
  context: Context,
): Promise<void> {
  const made = await withProgress(context.io, "plan", { unit: "archives" }, (onProgress) =>
    plan(sources, destination, { ...options, onProgress }),
  );
  const { stage: _, ...status } = await planStatus(made);
  const failures = made.sources.flatMap(({ path, failure }) =>
    failure === undefined ? [] : [{ path, ...failure }],
  );
  noteFailures(failures, context);
  const { units, nbytes } = status;
  const archives = made.sources.length;
  const { output } = options;
  if (json === true)
    return context.json({ plan: output, id: made.id, archives, tasks: units, nbytes, failures });
  printFailures(failures, "not planned", context);
  await context.out.line(
    `${formatPlural(archives, "archive")}, ${formatPlural(units, "task")}, ${formatSize(nbytes)}`,
  );
  const name = quoted(output);
  context.message(
    `next: superchunk run ${name} --task K/N for each K from 1 to N; then superchunk finish ${name}`,
  );
}

interface RunFlags extends Switches<"retryFailed" | "exitZero" | "json"> {
  readonly task?: Share;
  readonly shares?: number;
  readonly jobs?: number;
  readonly queue?: string;
}

export function addRun(program: Command, context: Context): void {
  program
    .command("run")
    .description("run the tasks of a plan that are not done, or a share of them")
    .argument("<plan>", "the plan, a file or a folder")
    .addOption(
      new Option(
        "--task <k/n>",
        "share K of N, from 1/N to N/N (default: given by the scheduler, else all)",
      ).argParser(parseShare),
    )
    .addOption(
      new Option("--shares <n>", "number of shares, if the scheduler gives only the number of this one")
        .argParser(parseCount)
        .conflicts("task"),
    )
    .option("--jobs <n>", "tasks to run at the same time (default: 4)", parseCount)
    .option("--retry-failed", "run tasks again that failed permanently, after their cause is fixed")
    .option("--exit-zero", "exit with 0 if every task that failed would fail again; finish names them")
    .addOption(
      new Option(
        "--queue <url>",
        'put the tasks into a queue (redis://…) instead of running them; "work" runs them',
      ).conflicts(["task", "shares", "jobs"]),
    )
    .option("--json", "print JSON")
    .notes(`
The share is taken from the environment of Slurm arrays, indexed Kubernetes Jobs
(with --shares), AWS Batch arrays, and GNU parallel (with --shares). A task that
runs twice writes the same bytes. Exit code 1: a task failed; 3: an archive is
damaged, also if an earlier run found that. "finish" leaves out archives that
fail in every run, and names them. Schedulers that try a failed share again, or
wait until it succeeds, need --exit-zero: then only tasks that another run may
do count as failed.

Examples:
  superchunk run plan.json
  superchunk run plan.json --task 3/50
  seq 50 | parallel superchunk run plan.json --task {}/50
  superchunk run plan.json --queue redis://queue.example:6379`)
    .action((location: string, flags: RunFlags) => run(location, flags, context));
}

async function run(location: string, flags: RunFlags, context: Context): Promise<void> {
  const { queue } = flags;
  if (queue !== undefined) return runQueued(location, { ...flags, queue }, context);
  const { share, source } = shareOf(flags, process.env);
  if (source !== undefined && share !== undefined)
    context.message(`share ${share.k} of ${share.n}, as ${source} says`);
  const { jobs, retryFailed } = flags;
  const { io, signal } = context;
  const result = await withProgress(io, "run", {}, (onProgress) =>
    runTasks(location, { share, jobs, retryFailed, signal, onProgress }),
  );
  for (const { code, isFinal } of result.failures)
    if (!isFinal || flags.exitZero !== true)
      context.note(isFinal ? exitCodeOf(new SuperchunkError(code, "")) : EXIT.failed);
  if (flags.json === true) return context.json(result);
  printFailures(result.failures, "failed", context);
  const { units, done, kept, failed, failedBefore, nbytes } = result;
  const words = [
    `${formatCount(done)} of ${formatPlural(units, "task")} done`,
    formatSize(nbytes),
    ...(kept > failedBefore ? [`${formatCount(kept - failedBefore)} done before`] : []),
    ...(failed > 0 ? [`${formatCount(failed)} failed`] : []),
    ...(failedBefore > 0 ? [`${formatCount(failedBefore)} failed before`] : []),
  ];
  const empty = `nothing to do: ${share === undefined ? "the plan" : `share ${share.k} of ${share.n}`} has no tasks`;
  const none = result.finishedBefore ? FINISHED_BEFORE : empty;
  await context.out.line(units === 0 ? none : words.join(", "));
  if (done + kept + failed < units)
    context.message("stopped: another process has finished the plan in the meantime");
}

export function addWork(program: Command, context: Context): void {
  program
    .command("work")
    .description("run the tasks in a queue, of any plan, until SIGTERM or Ctrl-C")
    .requiredOption("--queue <url>", "redis:// or rediss:// address of the queue's server")
    .option("--concurrency <n>", "tasks to run at the same time (default: 4)", parseCount)
    .option("--rate <n>", "tasks per second, of all workers of the queue together", parseCount)
    .option(
      "--stalled-after <s>",
      "seconds after which the tasks of a silent worker go to another one (default: 30)",
      parseCount,
    )
    .option("--until-empty", "exit when the queue is empty")
    .option("--json", "print JSON")
    .notes(`
Needs the packages bullmq and ioredis. The server is Redis or Valkey; user and
password can also come from REDIS_USERNAME and REDIS_PASSWORD. "run PLAN
--queue" adds tasks. Failed tasks are tried again, after a growing delay; tasks
of a worker that dies go to another. The first signal lets running tasks end.

Examples:
  superchunk work --queue redis://queue.example:6379 --concurrency 8
  superchunk work --queue redis://queue.example:6379 --until-empty`)
    .action((flags: WorkFlags) => workQueued(flags, context));
}

export function addFinish(program: Command, context: Context): void {
  program
    .command("finish")
    .description("complete a plan when all its tasks are done: the result becomes visible, its root last")
    .argument("<plan>", "the plan, a file or a folder")
    .option(
      "--without-failed",
      "leave out archives that have changed, are missing, or could not be read, and name them",
    )
    .option("--json", "print JSON")
    .notes(`
If tasks are missing, the exit code is 1 and nothing becomes visible. The
command can be killed at any time and run again. Archives that fail in every
run are always left out and named. Give --without-failed only when no process
runs the plan any more.

Examples:
  superchunk finish plan.json
  superchunk finish plan.json --without-failed`)
    .action(
      async (location: string, flags: { readonly withoutFailed?: boolean; readonly json?: boolean }) => {
        try {
          const { io, signal } = context;
          const { withoutFailed } = flags;
          const ended = await withProgress(io, "finish", {}, (onProgress) =>
            finish(location, { signal, onProgress, withoutFailed }),
          );
          if (ended === undefined) {
            if (flags.json === true) return await context.json({ plan: location, finished: "before" });
            return await context.out.line(FINISHED_BEFORE);
          }
          const { plan: made, report, damage, ...result } = ended;
          if (result.references !== undefined) {
            const form = (made.options as Pick<PlanPathOptions, "form">).form ?? "icechunk";
            const shown = { ...flags, to: form, guard: true };
            return await printReferences(result.references, made.to, shown, context);
          }
          if (report !== undefined && made.command === "repair")
            return await printRepairs(report, flags, context);
          if (report !== undefined) return await printReport(report, flags, context);
          noteFailures(result.entries, context);
          printDamage(damage, (made.options as Pick<ConvertFlags, "damaged">).damaged, context);
          if (flags.json === true) return await context.json({ plan: location, finished: "now", ...result });
          // Options that the plan was made with.
          const asked = { to: "zarr", ...made.options } as Pick<ConvertFlags, "to" | "grid">;
          await printResult(result, { destination: made.to, flags: asked }, context);
        } catch (error) {
          if (!isSuperchunkError(error, "INCOMPLETE") || error.details.field !== "tasks") throw error;
          // Not a failure of the data: some tasks are not done yet.
          context.note(EXIT.failed);
          const message = inCommandWords(error.message);
          context.message(message);
          if (flags.json === true) await context.json({ plan: location, finished: "not yet", message });
        }
      },
    );
}

/** Most failures that `status` prints. */
const FAILURES = 20;
/** Milliseconds between updates. */
const WATCH_EVERY = 2000;

/** Milliseconds until the next look at a plan. One of 100,000 tasks takes seconds, and megabytes from S3: most of the time is a pause. */
export function watchPause(took: number): number {
  return Math.max(WATCH_EVERY, Math.min(60_000, 9 * took));
}

export function addStatus(program: Command, context: Context): void {
  program
    .command("status")
    .description("show the progress of a plan: tasks done, running and failed, rate, time left, processes")
    .argument("<plan>", "the plan, a file or a folder")
    .option(
      "--watch",
      "look again every two seconds (less often if a look takes long), until all tasks are done",
    )
    .option("--queue <url>", "also show the state of the queue (redis://…), with its dead letters")
    .option("--json", "print JSON, with --watch a line each time")
    .notes(`
Examples:
  superchunk status plan.json
  superchunk status plan.json --watch
  superchunk status plan.json --queue redis://queue.example:6379`)
    .action(async (location: string, flags: StatusFlags) => {
      for (;;) {
        const began = performance.now();
        const status = await planStatus(location);
        const queue = flags.queue === undefined ? undefined : await statusOfQueue(status.plan, flags.queue);
        const took = performance.now() - began;
        if (queue !== undefined) noteDead(queue, context);
        const lines = statusLines(status, queue, context.out.columns);
        if (flags.json === true) await context.json({ ...status, queue }, flags.watch !== true);
        else if (flags.watch === true) await context.out.picture(lines);
        else await context.out.lines(lines);
        await context.out.flush();
        const isDone = status.done + status.failed === status.units;
        if (isDone && status.stage !== "finished")
          context.message(`next: superchunk finish ${quoted(location)}`);
        if (flags.watch !== true || isDone) return;
        await wait(watchPause(took), undefined, { signal: context.signal });
      }
    });
}

interface StatusFlags extends Switches<"watch" | "json"> {
  readonly queue?: string;
}

function statusLines(
  status: SharedStatus,
  queue: QueueStatus | undefined,
  columns: number | undefined,
): string[] {
  const queued = queue === undefined ? undefined : queueFacts(queue);
  const { stage, units, done, failing, nbytes, nbytesDone, rate, secondsLeft, workers, failures } = status;
  const left = secondsLeft === undefined ? "" : `, ${formatClock(secondsLeft)} left`;
  const counts = `${formatCount(done)} of ${formatCount(units)} done, ${formatCount(status.running)} running, ${formatCount(status.failed)} failed`;
  const again = failing > 0 ? `, ${formatCount(failing)} to run again` : "";
  const speed = rate > 0 ? `, ${formatSize(rate)} a second${left}` : "";
  const now = Date.now();
  const active = workers.filter(({ ended }) => !ended).sort((a, b) => a.updated - b.updated);
  const silent = active.filter((worker) => worker.silent).length;
  const others = [
    ...(silent > 0 ? [`${formatCount(silent)} silent`] : []),
    `${formatCount(workers.length - active.length)} ended`,
  ];
  const facts = [
    ["stage", stage],
    ["tasks", stage === "finished" ? formatCount(units) : counts + again],
    ["size", `${formatSize(nbytesDone)} of ${formatSize(nbytes)}${speed}`],
    ...(workers.length === 0
      ? []
      : [["processes", `${formatCount(active.length - silent)} running, ${others.join(", ")}`]]),
    ...(queued?.facts ?? []),
  ];
  const ago = (time: number): string => `${formatClock((now - time) / 1000)} ago`;
  const rows = active.map(({ worker, running, updated, since, silent: isSilent }) => [
    printable(worker),
    formatPlural(running, "task"),
    ago(since),
    `${ago(updated)}${isSilent ? ", silent" : ""}`,
  ]);
  const table = [["process", "running", "last progress", "last report"], ...rows];
  return [
    ...alignRows(facts, new Set(), columns),
    ...(rows.length === 0 ? [] : ["", ...alignRows(table, new Set(), columns)]),
    ...failures
      .slice(0, FAILURES)
      .map(
        ({ path, code, message }) =>
          `failed: ${printable(withPlace(path, inCommandWords(message)))} (${code})`,
      ),
    ...(failures.length > FAILURES
      ? [`and ${formatCount(failures.length - FAILURES)} more failed: --json lists them`]
      : []),
    ...(queued?.letters ?? []),
  ];
}

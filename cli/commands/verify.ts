/** `superchunk verify`: checks everything that is stored. */

import {
  type ErrorDetails,
  type Finding,
  type JsonObject,
  type JsonValue,
  type LongOptions,
  SuperchunkError,
  stringifyJson,
  type VerifyReport,
} from "../../src/index.ts";
import { changedSources, type VerifiedArchive, verifyLinkAt } from "../../src/node/index.ts";
import { adviseOnSalvage, reportOf, type SalvageAdvice } from "../actions/salvage.ts";
import {
  type BatchItem,
  hasDamage,
  JOBS,
  openRecord,
  runBatch,
  type VerifyAway,
  verifyAway,
} from "../actions/verify-batch.ts";
import type { Command, Context, Switches } from "../context.ts";
import {
  EXIT,
  errorAsTyped,
  exitCodeOf,
  inCommandWords,
  messageAt,
  plain,
  stateOf,
  toJsonFailure,
  wrongUse,
} from "../failure.ts";
import { filesFromOption, readFilesFrom } from "../input/input.ts";
import { behindMetadata, behindText, closing, mayBeReferences } from "../input/opening.ts";
import {
  isUnfollowed,
  type LeftOut,
  type NamedArchive,
  noteLeftOut,
  unfinishedJson,
  unfinishedText,
  unfollowedText,
} from "../input/tree.ts";
import { formatCount, formatPlural, formatSize, parseCount } from "../input/units.ts";
import { findingAsTyped, findingLines } from "../output/archive-text.ts";
import { foldLine } from "../output/layout.ts";
import { withProgress } from "../output/progress.ts";
import { printable } from "../values/cell-text.ts";

interface VerifyOptions extends Switches<"json" | "resume" | "quiet" | "onlyDamaged"> {
  readonly allow?: readonly string[];
  readonly filesFrom?: string;
  readonly jobs?: number;
  readonly report?: string;
}

/** Sums over all archives. */
interface Totals {
  archives: number;
  damaged: number;
  failed: number;
  /** Undamaged, but their Zarr view is out of date, or references are. */
  behind: number;
  /** No damage found, but not everything could be checked. */
  partly: number;
  /** Conversions that have not ended, which count neither as archives nor as damage. */
  unfinished: number;
  /** Links out of the folder, which count neither as archives nor as damage. */
  notFollowed: number;
  chunks: number;
  digests: number;
  nbytes: number;
  cbytes: number;
  warnings: number;
  /** Archives that another path already led to. */
  same: number;
  /** Archives that an earlier run verified. */
  kept: number;
  dialects: Record<string, number>;
  /** Archives by error code. */
  codes: Record<string, number>;
}

export function addVerify(program: Command, context: Context): void {
  program
    .command("verify")
    .description(
      "check every header, size, offset, checksum and payload of archives and Zarr arrays; exit code 3 if something is damaged, 1 if a Zarr view is older than its archive, or a conversion has not ended",
    )
    .argument(
      "[path...]",
      "files, folders or URLs of archives, Zarr arrays and Zarr groups, or folders of many",
    )
    .addOption(filesFromOption())
    .option("--jobs <n>", "archives to verify at the same time", parseCount, JOBS)
    .option(
      "--report <file>",
      "write the result of each archive, and each unfinished conversion, to a file as it comes, one JSON line each",
    )
    .option("--resume", "skip unchanged archives that the --report of an earlier run has, and append to it")
    .option(
      "--only-damaged",
      "hide intact archives: print those with errors or warnings, unfinished conversions, links that were not followed, and the summary",
    )
    .option("--quiet", "print no results; the exit code tells what was found")
    .addAllowOption()
    .option("--json", "print JSON")
    .notes(`
Examples:
  superchunk verify prices.blp
  superchunk verify bundle.zarr
  superchunk verify /data/bundles --only-damaged --report verify.jsonl
  superchunk verify /data/bundles --only-damaged --report verify.jsonl --resume
  superchunk verify /data/bundles --json`)
    .action(async (typed: string[], options: VerifyOptions) => {
      const paths = [...typed, ...(await readFilesFrom(options.filesFrom, context))];
      if (paths.length === 0)
        throw wrongUse(
          "path",
          'verify needs a path (before --allow), or --files-from LIST with some; see "superchunk verify --help"',
        );
      if (options.resume === true && options.report === undefined)
        throw wrongUse("report", "--resume continues the --report of an earlier run: give --report too");
      const { json = false, quiet = false, onlyDamaged = false, resume = false, jobs = JOBS } = options;
      const totals: Totals = { ...NOTHING, dialects: {}, codes: {} };
      const record = options.report === undefined ? undefined : await openRecord(options.report, resume);
      const away = verifyAway(jobs);
      const leftOut: LeftOut = { packed: [], indexes: [] };
      const batch = runBatch<Outcome>({
        paths,
        jobs,
        context,
        allow: options.allow,
        leftOut,
        kept: record?.kept,
        verify: async (named, alone) =>
          withAdvice(await verifyOne(named, alone, away, context), alone, context),
        verifyPath: (path) => verifyLinkedPath(path, context),
        verifySet: (path) => verifySources(path, options.allow, context),
      });
      try {
        if (json) await context.out.text('{"archives": [');
        let printed = 0;
        for await (const item of batch) {
          countItem(item, totals);
          if (item.kind === "outcome") await record?.add(toJson(item.outcome), item.files);
          else if (item.kind === "unfinished") await record?.add(itemJson(item));
          const isHidden = onlyDamaged || (!json && item.kind === "outcome" && item.isIndex === true);
          if (quiet || (isHidden && isIntact(item))) continue;
          if (json) {
            if (item.kind === "kept") continue;
            await context.out.text(`${printed++ === 0 ? "" : ","}\n${stringifyJson(itemJson(item))}`);
          } else await printItem(item, context);
        }
      } finally {
        await record?.close();
      }
      await conclude(totals, options, context);
      const unlisted = json ? { ...leftOut, indexes: [] } : leftOut; // JSON lists the indexes too
      if (!quiet) await noteLeftOut(unlisted, "verified, listed only if damaged", context);
    });
}

/** Sets the exit code and prints the sums. */
async function conclude(totals: Totals, { quiet, json }: VerifyOptions, context: Context): Promise<void> {
  const { damaged, failed, behind, partly, unfinished } = totals;
  const others = failed + behind + partly + unfinished;
  if (damaged > 0) context.note(EXIT.damaged);
  else if (others > 0) context.note(EXIT.failed);
  const ok = damaged + others === 0;
  if (quiet === true) return;
  if (json === true) await context.out.line(`\n], "ok": ${ok}, "totals": ${stringifyJson({ ...totals })}}`);
  else await context.out.lines(summaryLines(totals));
  if (json === true || damaged < 2) return;
  await context.out.flush();
  context.message(
    'to save what is intact of all of them: "superchunk plan --for repair SRC… DST -o PLAN", then "run PLAN" and "finish PLAN"',
  );
}

/** Prints the report of a plan like `verify`, with advice on salvage for damaged archives. */
export async function printReport(
  lines: readonly JsonObject[],
  options: { readonly json?: boolean },
  context: Context,
): Promise<void> {
  const totals: Totals = { ...NOTHING, dialects: {}, codes: {} };
  if (options.json === true) await context.out.text('{"archives": [');
  for (const [index, line] of lines.entries()) {
    const outcome = await withAdvice(outcomeOf(line), false, context);
    count(outcome, totals);
    if (options.json === true) {
      const own = toJson(outcome) as JsonObject;
      const error = line["error"] === undefined ? {} : { error: line["error"] };
      await context.out.text(`${index === 0 ? "" : ","}\n${stringifyJson({ ...line, ...own, ...error })}`);
    } else await printItem({ kind: "outcome", outcome }, context);
  }
  await conclude(totals, options, context);
}

/** Converts a line of a report to an outcome. */
function outcomeOf({ path, dialect, error, notFollowed, ...report }: JsonObject): Outcome {
  const failed = (notFollowed ?? error) as
    | (ErrorDetails & Pick<SuperchunkError, "code" | "message">)
    | undefined;
  const details =
    failed?.field === undefined ? { found: failed?.found } : { field: failed.field, found: failed.found };
  return {
    path: String(path),
    dialect: typeof dialect === "string" ? dialect : undefined,
    report: failed === undefined ? (report as unknown as VerifyReport) : undefined,
    error: failed && new SuperchunkError(failed.code, inCommandWords(failed.message), details),
    isUnfollowed: notFollowed !== undefined,
  };
}

/** The sums before the first archive. */
const NOTHING: Totals = {
  ...{ archives: 0, damaged: 0, failed: 0, behind: 0, partly: 0, unfinished: 0, notFollowed: 0 },
  ...{ chunks: 0, digests: 0, nbytes: 0, cbytes: 0, warnings: 0, same: 0, kept: 0, dialects: {}, codes: {} },
};

async function printItem(item: BatchItem<Outcome>, context: Context): Promise<void> {
  if (item.kind === "kept") {
    const outcome = outcomeOf(item.line);
    if (isSound(outcome)) return;
    const { report } = outcome;
    const codes = [...new Set(report?.findings.map(({ code }) => code) ?? codesOf(outcome))].join(", ");
    const found = `${codes === "" ? "" : `${codes}; `}the report has the findings of the earlier run`;
    await context.out.verdict(`${verdictOf(outcome)}  ${printable(outcome.path)}  ${found}`);
    return;
  }
  if (item.kind === "unfinished") {
    const text = printable(unfinishedText(item.path, item.conversion));
    await context.out.verdict(`UNFINISHED  ${printable(item.path)}  ${text}`);
    return;
  }
  if (item.kind === "same") {
    await context.out.line(`SAME     ${printable(item.path)}  as ${printable(item.as)}`);
    return;
  }
  const [verdict = "", ...rest] = outcomeLines(item.outcome, context.out.columns);
  await context.out.verdict(verdict);
  await context.out.lines(rest);
  // What is wrong is seen at once, and not only when a buffer is full.
  if (!isSound(item.outcome)) await context.out.flush();
}

/** True for what `--only-damaged` hides. What a link leads to was not checked. */
function isIntact(item: BatchItem<Outcome>): boolean {
  if (item.kind !== "outcome") return item.kind === "same";
  return item.outcome.isUnfollowed !== true && isSound(item.outcome);
}

function isSound(outcome: Outcome): boolean {
  return (
    outcome.isUnfollowed === true ||
    (verdictOf(outcome).startsWith("ok") && outcome.report?.findings.length === 0)
  );
}

function itemJson(item: Exclude<BatchItem<Outcome>, { kind: "kept" }>): JsonValue {
  if (item.kind === "unfinished") return unfinishedJson(item.path, item.conversion);
  return item.kind === "same" ? { path: item.path, same: item.as } : toJson(item.outcome);
}

function countItem(item: BatchItem<Outcome>, totals: Totals): void {
  if (item.kind === "unfinished") totals.unfinished++;
  else if (item.kind === "same") totals.same++;
  else if (item.kind === "kept") {
    totals.kept++;
    countVerdict(outcomeOf(item.line), totals);
  } else count(item.outcome, totals);
}

interface Outcome {
  readonly path: string;
  readonly dialect: string | undefined;
  readonly report: VerifyReport | undefined;
  readonly error: SuperchunkError | undefined;
  /** True if the error is that a link was not followed. */
  readonly isUnfollowed?: boolean;
  /** Advice on salvage, if it is damaged. */
  readonly advice?: SalvageAdvice | undefined;
}

async function withAdvice(outcome: Outcome, alone: boolean, context: Context): Promise<Outcome> {
  const isDamaged = outcome.error?.isDamage ?? (outcome.report !== undefined && isWrong(outcome.report));
  if (!isDamaged || outcome.isUnfollowed === true) return outcome;
  const { path } = outcome;
  const { advice, found } = await adviseOnSalvage(path, context, alone ? context.io : undefined);
  return { ...outcome, report: reportOf(outcome, found, path) ?? outcome.report, advice };
}

const NO_CHUNKS: VerifyReport = { ok: true, chunks: 0, nbytes: 0, cbytes: 0, digests: 0, findings: [] };

/** Verifies a Zarr view that is linked to a file elsewhere; its folder is not an archive itself. */
async function verifyLinkedPath(path: string, context: Context): Promise<Outcome | undefined> {
  const linked = await verifyLinkAt(path, { signal: context.signal });
  if (linked === undefined) return undefined;
  return { path, dialect: "zarr3", report: withLink(NO_CHUNKS, linked), error: undefined };
}

/** Outcome for a set of references, or the metadata of a Zarr group, that are older than a change; undefined for others. */
async function verifySources(
  path: string,
  allow: readonly string[] | undefined,
  { signal }: Context,
): Promise<Outcome | undefined> {
  const isSet = mayBeReferences(path);
  const message = isSet
    ? behindText(await changedSources(path, { allow, signal }))
    : await behindMetadata(path, signal);
  if (message === undefined) return undefined;
  const finding: Finding = { severity: "warning", code: "BEHIND", message };
  const report = { ...NO_CHUNKS, findings: [finding] };
  return { path, dialect: isSet ? "references" : "zarr3", report, error: undefined };
}

async function verifyOne(
  named: NamedArchive,
  alone: boolean,
  away: VerifyAway,
  context: Context,
): Promise<Outcome> {
  const { path, where } = named;
  const elsewhere = alone ? undefined : await away(named, context.signal);
  const { dialect, report, linked, error } = elsewhere ?? (await verifyHere(named, alone, context));
  if (error !== undefined) {
    const unfollowed = where !== undefined && isUnfollowed(error, where);
    return { path, dialect, report: undefined, error: errorAsTyped(path, error), isUnfollowed: unfollowed };
  }
  const whole = report === undefined || linked === undefined ? report : withLink(report, linked);
  const findings = whole?.findings.map((each) => findingAsTyped(path, each));
  return { path, dialect, report: whole && { ...whole, findings: findings ?? [] }, error: undefined };
}

type Verified = Omit<VerifiedArchive, "dialect"> & { readonly dialect?: string };

async function verifyHere(named: NamedArchive, alone: boolean, context: Context): Promise<Verified> {
  const { path } = named;
  const { io, signal } = context;
  let opened: { readonly dialect?: string } = {};
  const verify = async (onProgress?: LongOptions["onProgress"]): Promise<Verified> =>
    closing(await named.open({ signal }), async (archive) => {
      opened = { dialect: archive.dialect };
      const report = await archive.verify({ signal, onProgress });
      const linked = await verifyLinkAt(path, { signal });
      return { ...opened, report, ...(linked === undefined ? {} : { linked }) };
    });
  try {
    return await (alone ? withProgress(io, "verify", { name: path }, verify) : verify());
  } catch (error) {
    if (!(error instanceof SuperchunkError)) throw error;
    return { ...opened, error };
  }
}

/** The findings about the archive, and about the Zarr array that it also is. */
function withLink(report: VerifyReport, linked: readonly Finding[]): VerifyReport {
  // The index is stored after the chunk of a linked carray file. What the archive reports of its view after a quick look is
  // replaced by the full check of the view.
  const own = report.findings.filter(({ code }) => code !== "TRAILING" && code !== "BEHIND");
  const isRight = linked.every(({ severity }) => severity !== "error");
  return { ...report, ok: report.ok && isRight, findings: [...own, ...linked] };
}

/** Counts an archive, but not what was read of it: an earlier run may have read it. */
function countVerdict(outcome: Outcome, totals: Totals): void {
  if (outcome.isUnfollowed === true) {
    totals.notFollowed++;
    return;
  }
  const { dialect, report, error } = outcome;
  const { dialects, codes } = totals;
  totals.archives++;
  if (dialect !== undefined) dialects[dialect] = (dialects[dialect] ?? 0) + 1;
  for (const code of new Set(codesOf(outcome))) codes[code] = (codes[code] ?? 0) + 1;
  if (error !== undefined) totals[exitCodeOf(error) === EXIT.damaged ? "damaged" : "failed"]++;
  else if (report?.ok === false) totals[isWrong(report) ? "damaged" : "failed"]++;
  else if (report !== undefined && isBehind(report)) totals.behind++;
  else if (report?.unchecked !== undefined) totals.partly++;
}

function count(outcome: Outcome, totals: Totals): void {
  countVerdict(outcome, totals);
  const { report, isUnfollowed: skipped } = outcome;
  if (report === undefined || skipped === true) return;
  totals.chunks += report.chunks;
  totals.digests += report.digests;
  totals.nbytes += report.nbytes;
  totals.cbytes += report.cbytes;
  totals.warnings += report.findings.filter((finding) => finding.severity === "warning").length;
}

function codesOf({ report, error }: Pick<Outcome, "report" | "error">): string[] {
  const wrong = (report?.findings ?? []).filter(({ severity }) => severity === "error");
  return [...(error === undefined ? [] : [error.code]), ...wrong.map(({ code }) => code)];
}

function isWrong(report: VerifyReport): boolean {
  return !report.ok && hasDamage(codesOf({ report, error: undefined }));
}

/** True if the archive is undamaged, but its Zarr view shows an earlier state. */
function isBehind({ findings }: VerifyReport): boolean {
  return findings.some(({ code }) => code === "BEHIND");
}

/** Width of the verdict, and of the indent of continuation lines. */
const VERDICT = 7;
const STATE = VERDICT + 2;

function outcomeLines(outcome: Outcome, columns: number | undefined): string[] {
  const { advice } = outcome;
  const saved =
    advice === undefined ? [] : [`  ${printable([advice.text, advice.command].filter(Boolean).join(": "))}`];
  return [...verdictLines(outcome, columns), ...saved];
}

function verdictLines(outcome: Outcome, columns: number | undefined): string[] {
  const { path, dialect, report, error, isUnfollowed: skipped } = outcome;
  const name = printable(path);
  if (skipped === true && error !== undefined)
    return foldLine(`LINK     ${name}`, printable(unfollowedText(error)), STATE, columns);
  const failed = error && `  error ${error.code}: ${printable(messageAt(path, error))}`;
  if (report === undefined) return failed === undefined ? [] : [`${verdictOf(outcome)}  ${name}`, failed];
  const sums = report.digests > 0 ? formatPlural(report.digests, "checksum") : "no checksums";
  const kind = dialect === undefined ? "" : `${dialect}, `;
  const facts = `${kind}${formatPlural(report.chunks, "chunk")}, ${sums}, ${formatSize(report.nbytes)}`;
  return [
    ...foldLine(`${verdictOf(outcome)}  ${name}`, facts, STATE, columns),
    ...(failed === undefined ? [] : [failed]),
    ...findingLines(report.findings),
  ];
}

/** The verdict, padded to the common width. */
function verdictOf({ report, error }: Outcome): string {
  if (error !== undefined) return stateOf(error).padEnd(VERDICT);
  if (report === undefined) return "";
  if (!report.ok) return isWrong(report) ? "DAMAGED" : "FAILED ";
  if (isBehind(report)) return "BEHIND ";
  return report.unchecked === undefined ? "ok     " : "PARTLY ";
}

function toJson({ path, dialect, report, error, isUnfollowed: skipped, advice }: Outcome): JsonValue {
  if (skipped === true) return { path, notFollowed: toJsonFailure(error) } as unknown as JsonValue;
  const findings = (report?.findings ?? []).map((each) => {
    return { ...each, expected: plain(each.expected), found: plain(each.found) };
  });
  const own = error === undefined || report !== undefined ? { ...report, findings } : {};
  const found = error === undefined ? own : { ...own, ok: false, error: toJsonFailure(error) };
  const saved = advice === undefined ? {} : { salvage: advice };
  return { path, dialect: dialect ?? null, ...found, ...saved } as JsonValue;
}

/** The summary; for several archives also their numbers by dialect and by error. */
function summaryLines(totals: Totals): string[] {
  const counts = (of: Readonly<Record<string, number>>): string =>
    Object.entries(of)
      .sort(([, a], [, b]) => b - a)
      .map(([name, count]) => `${name} ${formatCount(count)}`)
      .join(", ");
  const dialects = counts(totals.dialects);
  const codes = counts(totals.codes);
  const isMany = totals.archives > 1;
  return [
    ...(isMany && dialects !== "" ? [`dialects: ${dialects}`] : []),
    ...(isMany && codes !== "" ? [`archives with errors: ${codes}`] : []),
    summaryLine(totals),
  ];
}

function summaryLine(totals: Totals): string {
  const { archives, damaged, failed, behind, partly, notFollowed, chunks, digests, nbytes, warnings } =
    totals;
  const { same, kept } = totals;
  const words = [
    `${formatPlural(archives, "archive")}: ${formatCount(archives - damaged - failed - behind - partly)} ok`,
    ...(behind > 0 ? [`${formatCount(behind)} out of date`] : []),
    ...(partly > 0 ? [`${formatCount(partly)} checked in part`] : []),
    ...(damaged > 0 ? [`${formatCount(damaged)} damaged`] : []),
    ...(failed > 0 ? [`${formatCount(failed)} not readable`] : []),
    ...(totals.unfinished > 0 ? [formatPlural(totals.unfinished, "unfinished conversion")] : []),
    ...(notFollowed > 0 ? [`${formatPlural(notFollowed, "link")} not followed`] : []),
    ...(same > 0 ? [`${formatCount(same)} reached by a second path, counted once`] : []),
    ...(kept > 0 ? [`${formatCount(kept)} kept from the earlier run`] : []),
    formatPlural(chunks, "chunk"),
    `${formatPlural(digests, "checksum")} checked`,
    formatSize(nbytes),
    ...(warnings > 0 ? [formatPlural(warnings, "warning")] : []),
  ];
  return words.join(", ");
}

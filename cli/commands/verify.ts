/** `superchunk verify`: everything that is stored, checked. */

import type { Command } from "commander";
import {
  type Finding,
  type JsonValue,
  SuperchunkError,
  stringifyJson,
  type VerifyReport,
} from "../../src/index.ts";
import { verifyLinkAt } from "../../src/node/index.ts";
import type { Context } from "../context.ts";
import { EXIT, exitCodeOf, plain, stateOf, toJsonFailure } from "../failure.ts";
import { archivesUnder, isUnfollowed, type NamedArchive, unfollowedText } from "../input/tree.ts";
import { formatCount, formatPlural, formatSize } from "../input/units.ts";
import { foldLine } from "../output/layout.ts";
import { startProgress } from "../output/progress.ts";
import { adviseOnSalvage, type SalvageAdvice } from "../output/salvage-advice.ts";
import { printable } from "../values/cell-text.ts";

interface VerifyOptions {
  readonly json?: boolean;
}

/** What all archives together came to. */
interface Totals {
  archives: number;
  damaged: number;
  failed: number;
  /** Sound, with a Zarr view that is behind. */
  behind: number;
  /** Sound as far as it was checked, which is not all. */
  partly: number;
  /** Links that lead out of the folder: neither archives nor damage. */
  notFollowed: number;
  chunks: number;
  digests: number;
  nbytes: number;
  cbytes: number;
  warnings: number;
}

/** Adds `verify PATH…`. */
export function addVerify(program: Command, context: Context): void {
  program
    .command("verify")
    .description(
      "check every header, size, offset, checksum and payload of archives and Zarr arrays; exit code 3 where something is wrong, 1 where a Zarr view is behind its archive",
    )
    .argument(
      "<path...>",
      "files, folders or URLs of archives and of Zarr arrays and groups; folders of many",
    )
    .option("--json", "print JSON")
    .addHelpText(
      "after",
      `
Examples:
  superchunk verify prices.blp
  superchunk verify bundle.zarr
  superchunk verify /data/bundles --json`,
    )
    .action(async (paths: string[], options: VerifyOptions) => {
      const json = options.json === true;
      const totals: Totals = {
        archives: 0,
        damaged: 0,
        failed: 0,
        behind: 0,
        partly: 0,
        notFollowed: 0,
        chunks: 0,
        digests: 0,
        nbytes: 0,
        cbytes: 0,
        warnings: 0,
      };
      if (json) await context.out.text('{"archives": [');
      for (const path of paths) {
        for await (const outcome of outcomesOf(path, context)) {
          count(outcome, totals);
          if (json)
            await context.out.text(
              `${totals.archives + totals.notFollowed === 1 ? "" : ","}\n${stringifyJson(toJson(outcome))}`,
            );
          else for (const line of outcomeLines(outcome, context.out.columns)) await context.out.line(line);
        }
      }
      if (totals.damaged > 0) context.note(EXIT.damaged);
      else if (totals.failed + totals.behind + totals.partly > 0) context.note(EXIT.failed);
      const ok = totals.damaged + totals.failed + totals.behind + totals.partly === 0;
      if (json) await context.out.line(`\n], "ok": ${ok}, "totals": ${stringifyJson({ ...totals })}}`);
      else await context.out.line(summaryLine(totals));
    });
}

interface Outcome {
  readonly path: string;
  readonly dialect: string | undefined;
  readonly report: VerifyReport | undefined;
  readonly error: SuperchunkError | undefined;
  /** True where the error is that a link is not followed. */
  readonly isUnfollowed?: boolean;
  /** What can be saved, where it is damaged. */
  readonly advice?: SalvageAdvice | undefined;
}

async function* outcomesOf(path: string, context: Context): AsyncIterable<Outcome> {
  let seen = false;
  for await (const each of archivesUnder(path, context.signal)) {
    seen ||= each.path === path;
    // The arrays of a group follow it; that its document was read is all that there is to verify of it.
    if (each.group !== undefined) continue;
    const outcome = await verifyOne(each, context);
    const isDamaged = outcome.report?.ok === false || outcome.error?.isDamage === true;
    yield isDamaged && outcome.isUnfollowed !== true
      ? { ...outcome, advice: await adviseOnSalvage(each.path, context.signal) }
      : outcome;
  }
  // A file that is linked elsewhere has its Zarr view in a folder that is no archive of its own.
  const linked = seen ? undefined : await verifyLinkAt(path, { signal: context.signal });
  if (linked === undefined) return;
  const nothing: VerifyReport = { ok: true, chunks: 0, nbytes: 0, cbytes: 0, digests: 0, findings: [] };
  yield { path, dialect: "zarr3", report: withLink(nothing, linked), error: undefined };
}

async function verifyOne(named: NamedArchive, context: Context): Promise<Outcome> {
  const { path } = named;
  const bar = startProgress(context.io, "verify", { name: path });
  let dialect: string | undefined;
  try {
    const archive = await named.open({ signal: context.signal });
    dialect = archive.dialect;
    try {
      const report = await archive.verify({ signal: context.signal, onProgress: bar.onProgress });
      const linked = await verifyLinkAt(path, { signal: context.signal });
      return {
        path,
        dialect,
        report: linked === undefined ? report : withLink(report, linked),
        error: undefined,
      };
    } finally {
      await archive.close();
    }
  } catch (error) {
    if (!(error instanceof SuperchunkError)) throw error;
    const { where } = named;
    const unfollowed = where !== undefined && isUnfollowed(error, where);
    return { path, dialect, report: undefined, error, isUnfollowed: unfollowed };
  } finally {
    bar.finish();
  }
}

/** What was found of the archive, and of the Zarr array that it is as well. */
function withLink(report: VerifyReport, linked: readonly Finding[]): VerifyReport {
  // Behind the chunk of a linked carray file stands its index.
  // What the archive says of its view by one look, the view itself says after many.
  const own = report.findings.filter(({ code }) => code !== "TRAILING" && code !== "BEHIND");
  const isRight = linked.every(({ severity }) => severity !== "error");
  return { ...report, ok: report.ok && isRight, findings: [...own, ...linked] };
}

function count({ report, error, isUnfollowed: skipped }: Outcome, totals: Totals): void {
  if (skipped === true) {
    totals.notFollowed++;
    return;
  }
  totals.archives++;
  if (error !== undefined) {
    if (exitCodeOf(error) === EXIT.damaged) totals.damaged++;
    else totals.failed++;
  }
  if (report === undefined) return;
  if (!report.ok) totals.damaged++;
  else if (isBehind(report)) totals.behind++;
  else if (report.unchecked !== undefined) totals.partly++;
  totals.chunks += report.chunks;
  totals.digests += report.digests;
  totals.nbytes += report.nbytes;
  totals.cbytes += report.cbytes;
  totals.warnings += report.findings.filter((finding) => finding.severity === "warning").length;
}

/** True where the archive is sound, and its Zarr view shows what was there before, or some of it. */
function isBehind({ findings }: VerifyReport): boolean {
  return findings.some(({ code }) => code === "BEHIND");
}

/** Columns of a state, and of what stands before a line that belongs to the one above it. */
const STATE = 9;

function outcomeLines(outcome: Outcome, columns: number | undefined): string[] {
  const { advice } = outcome;
  const saved = advice === undefined ? [] : [`  ${printable(`${advice.text}: ${advice.command}`)}`];
  return [...verdictLines(outcome, columns), ...saved];
}

function verdictLines(
  { path, dialect, report, error, isUnfollowed: skipped }: Outcome,
  columns: number | undefined,
): string[] {
  const name = printable(path);
  if (skipped === true && error !== undefined)
    return foldLine(`LINK     ${name}`, printable(unfollowedText(error)), STATE, columns);
  if (error !== undefined) {
    return [`${stateOf(error)}  ${name}`, `  error ${error.code}: ${printable(error.message)}`];
  }
  if (report === undefined) return [];
  const sums = report.digests > 0 ? `${formatPlural(report.digests, "checksum")}` : "no checksums";
  const facts = `${dialect ?? ""}, ${formatPlural(report.chunks, "chunk")}, ${sums}, ${formatSize(report.nbytes)}`;
  return [...foldLine(`${wordOf(report)}  ${name}`, facts, STATE, columns), ...findingLines(report.findings)];
}

/** The verdict, as wide as the others. */
function wordOf(report: VerifyReport): string {
  if (!report.ok) return "DAMAGED";
  if (isBehind(report)) return "BEHIND ";
  return report.unchecked === undefined ? "ok     " : "PARTLY ";
}

/** Objects that do not belong to an archive may be many: more than this are told in one line. */
const NAMED = 5;

function findingLines(findings: readonly Finding[]): string[] {
  const left = findings.filter(({ code }) => code === "LEFTOVER");
  const [first] = left;
  if (first === undefined || left.length <= NAMED) return findings.map(findingLine);
  const names = left.slice(0, NAMED).map(({ path = "" }) => `    ${printable(path)}`);
  return [
    ...findings.filter(({ code }) => code !== "LEFTOVER").map(findingLine),
    `  ${first.severity} LEFTOVER: ${formatPlural(left.length, "object")} do not belong to the archive any more (left over from a trim, or another program's); --json names them all:`,
    ...names,
    `    and ${formatCount(left.length - NAMED)} more`,
  ];
}

function findingLine({ severity, code, message, path, chunk }: Finding): string {
  const place = [
    ...(path === undefined ? [] : [path]),
    ...(chunk === undefined ? [] : [`chunk ${chunk}`]),
  ].join(": ");
  const text = place === "" || message.startsWith(place) ? message : `${place}: ${message}`;
  return `  ${severity} ${code}: ${printable(text)}`;
}

function toJson({ path, dialect, report, error, isUnfollowed: skipped, advice }: Outcome): JsonValue {
  if (skipped === true) return { path, notFollowed: toJsonFailure(error) } as unknown as JsonValue;
  const found =
    error === undefined
      ? { ...report, findings: report?.findings.map(plainFinding) ?? [] }
      : { ok: false, error: toJsonFailure(error) };
  const saved = advice === undefined ? {} : { salvage: advice };
  return { path, dialect: dialect ?? null, ...found, ...saved } as JsonValue;
}

/** `expected` and `found` as JSON can hold them. */
function plainFinding(finding: Finding): Record<string, unknown> {
  const { expected, found, ...others } = finding;
  return {
    ...others,
    ...(expected === undefined ? {} : { expected: plain(expected) }),
    ...(found === undefined ? {} : { found: plain(found) }),
  };
}

function summaryLine(totals: Totals): string {
  const { archives, damaged, failed, behind, partly, notFollowed, chunks, digests, nbytes, warnings } =
    totals;
  const words = [
    `${formatPlural(archives, "archive")}: ${formatCount(archives - damaged - failed - behind - partly)} ok`,
    ...(behind > 0 ? [`${formatCount(behind)} with a Zarr view that is behind`] : []),
    ...(partly > 0 ? [`${formatCount(partly)} checked in part`] : []),
    ...(damaged > 0 ? [`${formatCount(damaged)} damaged`] : []),
    ...(failed > 0 ? [`${formatCount(failed)} not readable`] : []),
    ...(notFollowed > 0 ? [`${formatPlural(notFollowed, "link")} not followed`] : []),
    formatPlural(chunks, "chunk"),
    `${formatPlural(digests, "checksum")} checked`,
    formatSize(nbytes),
    ...(warnings > 0 ? [formatPlural(warnings, "warning")] : []),
  ];
  return words.join(", ");
}

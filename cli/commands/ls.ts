/** `superchunk ls`: lists the archives under a folder, one per line. */

import { Option } from "commander";
import { isSuperchunkError, SuperchunkError, stringifyJson } from "../../src/index.ts";
import type { ZarrGroup } from "../../src/zarr.ts";
import type { Command, Context, Switches } from "../context.ts";
import { EXIT, exitCodeOf, messageAt, stateOf, toJsonFailure } from "../failure.ts";
import { closing, type Subject } from "../input/opening.ts";
import {
  archivesUnder,
  isInIndex,
  isUnfollowed,
  type LeftOut,
  type NamedArchive,
  NOT_LISTED,
  noteLeftOut,
  realPathOf,
  unfinishedJson,
  unfinishedText,
  unfollowedText,
} from "../input/tree.ts";
import { formatCount, formatPlural, formatRatio, formatSize, ratioOf } from "../input/units.ts";
import { foldLine, jsonDType, knownBytes, shapeText, shortDType, variableName } from "../output/layout.ts";
import { JsonArray } from "../output/output.ts";
import { startProgress } from "../output/progress.ts";
import { type ListedFacts, Totals } from "../output/totals.ts";
import { csvCell, csvLine, printable, quoted } from "../values/cell-text.ts";

interface LsOptions extends Switches<"json" | "csv" | "totals" | "missing"> {
  readonly allow?: readonly string[];
}

export function addLs(program: Command, context: Context): void {
  program
    .command("ls")
    .description(
      "list all archives, Zarr arrays and groups in a folder and its subfolders, one per line; damaged ones too (exit code 3)",
    )
    .argument("<path>", "folder, or file or URL of one archive or Zarr hierarchy")
    .option("--missing", "also count the chunks that do not exist, without reading any")
    .addAllowOption()
    .option("--totals", "print totals by dialect, dtype and codec; reads one more header of each archive")
    .addOption(
      new Option("--csv", "print CSV, one archive per line, with its codec").conflicts(["json", "missing"]),
    )
    .option("--json", "print a JSON array, one archive per line")
    .notes(`
Examples:
  superchunk ls /data/bundles
  superchunk ls /data/bundles --totals
  superchunk ls /data/bundles --csv > bundles.csv
  superchunk ls /data/bundles --json
  superchunk ls bundle.zarr --missing
  superchunk ls s3://bucket/bundles`)
    .action((path: string, options: LsOptions) => list(path, options, context));
}

async function list(path: string, options: LsOptions, context: Context): Promise<void> {
  const { csv = false, missing = false } = options;
  const totals = options.totals === true ? new Totals() : undefined;
  const isText = !csv && options.json !== true && totals === undefined;
  const array = options.json === true && totals === undefined ? new JsonArray(context.out) : undefined;
  const places = new Set<string>();
  const shut = { found: 0, failed: 0 };
  let isFirst = true;
  const settings = { forPeople: isText, missing, withCodec: csv || totals !== undefined };
  const leftOut: LeftOut = { packed: [], indexes: [] };
  const opening = {
    signal: context.signal,
    allow: options.allow,
    measureText: false,
    onPacked: (file: string) => void leftOut.packed.push(file),
  };
  // Lines on a terminal show how far it is.
  const bar =
    isText && context.out.isTerminal ? undefined : startProgress(context.io, "ls", { unit: "archives" });
  for await (const each of archivesUnder(path, opening)) {
    if (isInIndex(each, leftOut)) continue;
    if (each.unfinished !== undefined) {
      const text = unfinishedText(each.path, each.unfinished);
      if (array !== undefined) await array.add(unfinishedJson(each.path, each.unfinished));
      else if (isText) await context.out.verdict(`UNFINISHED  ${printable(each.path)}  ${printable(text)}`);
      else context.message(`${each.path}: ${text}`);
      continue;
    }
    bar?.onProgress?.({ done: shut.found, total: shut.found, label: each.path, isOpen: true });
    shut.found++;
    if (totals !== undefined && each.error === undefined && each.group === undefined) {
      const place = realPathOf(each.path);
      if (places.has(place)) {
        totals.addSame();
        continue;
      }
      places.add(place);
    }
    const found = await describe(each, settings, context, () => shut.failed++);
    // A path that does not exist is an error, not a table.
    if (each.path === path && isSuperchunkError(each.error, "NOT_FOUND")) throw each.error;
    if (totals !== undefined) totals.add(found as ListedFacts);
    else if (array !== undefined) await array.add(found);
    else if (csv) {
      if (isFirst) await context.out.line(csvLine(CSV_COLUMNS));
      await context.out.line(csvLine(csvCells(found as ListedFacts).map(csvCell)));
    } else {
      const header = ["dialect", "dtype", "shape", "size", "ratio", missing ? "missing" : undefined];
      const lines = isFirst ? [lineOf(header, "path")] : [];
      for (const parts of [...lines, found as Line])
        for (const part of foldLine(...parts, INDENT, context.out.columns)) await context.out.verdict(part);
    }
    isFirst = false;
  }
  bar?.finish();
  await array?.end();
  if (totals !== undefined && options.json === true) await context.json(totals.toJson());
  else await context.out.lines(totals?.lines(context.out.columns) ?? []);
  await noteLeftOut(leftOut, NOT_LISTED, context);
  if (shut.failed === 0 || shut.found === 1) return;
  await context.out.flush();
  const names = `"superchunk verify ${quoted(path)} --only-damaged"`;
  context.message(
    `${formatCount(shut.failed)} of ${formatCount(shut.found)} cannot be opened: ${names} names them, and what can be saved`,
  );
}

/** Prints `ls --totals` for a folder of archives. Throws `NOT_FOUND` if there are none. */
export function listTotals(
  path: string,
  options: Pick<LsOptions, "allow" | "json">,
  context: Context,
): Promise<void> {
  return list(path, { ...options, totals: true }, context);
}

const CSV_COLUMNS = [
  "path",
  "dialect",
  "kind",
  "dtype",
  "shape",
  "nbytes",
  "cbytes",
  "ratio",
  "codec",
  "error",
];

function csvCells(facts: ListedFacts): string[] {
  const {
    path,
    dialect = "",
    kind = "",
    dtype = "",
    shape,
    nbytes,
    cbytes,
    ratio,
    codec,
    error,
    notFollowed,
  } = facts;
  const type = typeof dtype === "string" ? dtype : dtype === null ? "" : stringifyJson(dtype);
  const numbers = [nbytes, cbytes, ratio].map((value) => (value == null ? "" : String(value)));
  const code = (error ?? notFollowed)?.code ?? "";
  return [path, dialect, kind, type, shape?.join("x") ?? "", ...numbers, codec ?? "", code];
}

/** A line, and its last part, which moves to a line below on narrow terminals. */
type Line = readonly [first: string, last: string];

/** Indent of a part that moved below its line. */
const INDENT = 2;

/** How a line is printed. */
interface LineSettings {
  readonly forPeople: boolean;
  /** Count missing chunks. */
  readonly missing: boolean;
  /** Read a header to find the codec. */
  readonly withCodec: boolean;
}

/** What is printed for an archive, or for the reason why it cannot be opened. */
async function describe(
  named: NamedArchive,
  settings: LineSettings,
  context: Context,
  onFailure: () => void,
): Promise<unknown> {
  const { path, group } = named;
  const { forPeople, missing, withCodec } = settings;
  try {
    if (group !== undefined) return await describeNodes(path, group, settings);
    return await closing(await named.open({ signal: context.signal }), async (archive) => {
      const cbytes = await archive.storedBytes({ signal: context.signal });
      const absent = missing ? await countMissing(archive, context.signal) : undefined;
      return forPeople
        ? archiveLine(path, archive, cbytes, absent)
        : {
            ...archiveJson(path, archive, cbytes),
            missing: absent,
            codec: withCodec ? await codecOf(archive, context.signal) : undefined,
          };
    });
  } catch (error) {
    if (!(error instanceof SuperchunkError)) throw error;
    if (named.where !== undefined && isUnfollowed(error, named.where))
      return forPeople
        ? [`${"LINK".padEnd(17)}  ${printable(path)}`, printable(unfollowedText(error))]
        : { path, notFollowed: toJsonFailure(error) };
    onFailure();
    context.note(exitCodeOf(error) === EXIT.damaged ? EXIT.damaged : EXIT.failed);
    if (!forPeople) return { path, error: toJsonFailure(error) };
    return [
      `${stateOf(error).padEnd(17)}  ${printable(path)}`,
      `${error.code}: ${printable(messageAt(path, error))}`,
    ];
  }
}

/** A group: its arrays have the dtypes and sizes. */
async function describeNodes(
  path: string,
  group: ZarrGroup,
  { forPeople, missing }: LineSettings,
): Promise<unknown> {
  const { length: nodes } = await group.members();
  const { dialect } = group;
  if (forPeople)
    return lineOf([dialect, "group", formatPlural(nodes, "node"), "-", "-", missing ? "-" : undefined], path);
  const blank = { dtype: null, shape: null, nbytes: null, cbytes: null, ratio: null };
  return { path, dialect, kind: "group", ...blank, nodes };
}

/** The compressor of the first chunk; for a table, that of its first column. Null without chunks. */
async function codecOf(archive: Subject, signal: AbortSignal): Promise<string | null> {
  if (archive.kind === "group") return null;
  if (archive.kind !== "table") return (await archive.summary({ signal })).cname ?? null;
  const [first] = archive.names;
  return first === undefined ? null : ((await archive.column(first).summary({ signal })).cname ?? null);
}

/** Number of chunks that do not exist. Null for archives: there a missing chunk is damage, which is found only by checking every chunk. */
async function countMissing(archive: Subject, signal: AbortSignal): Promise<number | null> {
  if (archive.kind !== "array" || archive.countMissing === undefined) return null;
  return archive.countMissing({ signal });
}

/** Widths of the cells before the path; those of numbers, which are flush right, are negative. */
const WIDTHS = [17, 9, 14, -10, -6, -8];

/** A line of the table. Its last cell, the count of missing chunks, may be absent. */
function lineOf(cells: readonly (string | undefined)[], path: string): Line {
  const padded = WIDTHS.flatMap((width, i) => {
    const cell = cells[i];
    return cell === undefined ? [] : [width < 0 ? cell.padStart(-width) : cell.padEnd(width)];
  });
  return [padded.join("  "), printable(path)];
}

function archiveLine(
  path: string,
  archive: Subject,
  cbytes: number,
  missing: number | null | undefined,
): Line {
  const size = formatSize(archive.nbytes);
  const ratio = formatRatio(archive.nbytes, cbytes);
  const count = typeof missing === "number" ? formatCount(missing) : missing === null ? "-" : undefined;
  return lineOf([archive.dialect, ...dtypeAndShape(archive), size, ratio, count], path);
}

function dtypeAndShape(archive: Subject): [string, string] {
  if (archive.kind === "bytes") return ["bytes", String(archive.nbytes)];
  if (archive.kind === "table" || archive.kind === "group")
    return [formatPlural(archive.names.length, "col"), formatPlural(archive.length ?? 0, "row")];
  return [variableName(archive) ?? shortDType(archive.dtype), shapeText(archive.shape)];
}

function archiveJson(path: string, archive: Subject, cbytes: number): Record<string, unknown> {
  const { dialect, kind, nbytes } = archive;
  return {
    path,
    dialect,
    kind,
    dtype: archive.kind === "array" ? jsonDType(archive) : null,
    shape:
      archive.kind === "array" ? archive.shape : [archive.kind === "bytes" ? nbytes : (archive.length ?? 0)],
    nbytes: knownBytes(nbytes),
    cbytes,
    ratio: ratioOf(nbytes, cbytes),
  };
}

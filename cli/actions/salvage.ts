/** The advice after damage: what can be saved of an archive, and by which command. Knows `repair`; must not know who asks. */
import { resolve } from "node:path";
import {
  type ErrorCode,
  type Finding,
  isSuperchunkError,
  type Progress,
  type RepairReport,
  SuperchunkError,
  type VerifyReport,
} from "../../src/index.ts";
import { repairArray } from "../../src/node/index.ts";
import type { Context } from "../context.ts";
import { inCommandWords } from "../failure.ts";
import { realPathOf } from "../input/tree.ts";
import { formatCount, formatPlural } from "../input/units.ts";
import { findingAsTyped } from "../output/archive-text.ts";
import type { Io } from "../output/output.ts";
import { startProgress } from "../output/progress.ts";
import { quoted } from "../values/cell-text.ts";

export interface SalvageAdvice {
  /** Number of undamaged chunks; null if too little of the archive is known to look for them. */
  readonly whole: number | null;
  /** Number of missing or damaged chunks. */
  readonly gone: number;
  /** Command to run, with words in capitals for what only the user knows; absent if all chunks are damaged. */
  readonly command?: string;
  /** One sentence, without the command. */
  readonly text: string;
}

/** What a survey of a damaged archive found. */
interface Surveyed {
  /** Undefined if nothing needs repair, or nothing can be saved. */
  readonly advice: SalvageAdvice | undefined;
  /** Undefined if the archive cannot be surveyed. */
  readonly found?: RepairReport;
}

/**
 * Reads a damaged archive again to find what can be saved. `io`: where to draw a progress bar; undefined if another one is
 * shown.
 */
export async function adviseOnSalvage(
  path: string,
  { signal, allow = [] }: Pick<Context, "signal" | "allow">,
  io: Io | undefined,
): Promise<Surveyed> {
  const bar = io && startProgress(io, "what can be saved", { unit: "chunks" });
  const command = repairCommand(path, allow);
  try {
    const found = await repairArray(path, {
      dryRun: true,
      signal,
      allow,
      onProgress: bar?.onProgress,
    });
    return { advice: adviceOn(found, command), found };
  } catch (error) {
    if (!isSuperchunkError(error)) throw error;
    if (error.details.field === "hierarchy")
      return { advice: { whole: null, gone: 0, text: inCommandWords(error.summary) } };
    if (error.code !== "INCOMPLETE") return { advice: undefined };
    const advice = {
      whole: null,
      gone: 0,
      command: withNeeded(command, error.summary),
      text: `repair needs more information: ${inCommandWords(error.summary)}`,
    };
    return { advice };
  } finally {
    bar?.finish();
  }
}

function adviceOn(
  { whole, holes, lost, problems }: RepairReport,
  command: string,
): SalvageAdvice | undefined {
  const gone = holes.length;
  const needed = withNeeded(command, lost.join());
  if (gone > 0 && whole === 0) return { whole, gone, text: "no chunk is intact: nothing can be saved" };
  if (gone > 0) {
    const text = `${formatCount(whole)} of ${formatPlural(whole + gone, "chunk")} ${whole === 1 ? "is" : "are"} intact and can be saved`;
    return { whole, gone, command: `${needed} --holes fill`, text };
  }
  if (lost.length + problems.length === 0) return undefined;
  const text = lost.length > 0 ? `, but this is lost: ${inCommandWords(lost.join("; "))}` : "";
  return { whole, gone, command: needed, text: `every chunk is intact and can be saved${text}` };
}

/**
 * The report of an archive whose tables that locate chunks are damaged, with the chunks that a survey found: what it read of the
 * intact ones, and a finding for each of the others. Undefined if the report needs no other. `report`: undefined if the archive did
 * not open; the `error` that says why is then not among the findings. `typed`: the path as the user gave it.
 */
export function reportOf(
  {
    report,
    error,
  }: { readonly report: VerifyReport | undefined; readonly error: SuperchunkError | undefined },
  found: RepairReport | undefined,
  typed: string,
): VerifyReport | undefined {
  const isCut = report === undefined || report.unreached !== undefined;
  if (found?.intact === undefined || !isCut) return undefined;
  const { unreached: _, ...own } = report ?? { ok: false, findings: [] };
  const errors = own.findings.filter(({ severity }) => severity === "error");
  const known = [...errors, ...(error === undefined ? [] : [error.details])];
  const all = found.holes.map(
    ({ code, reason: message, path, chunk, offset }): Finding =>
      findingAsTyped(typed, {
        ...{ severity: "error", code, message, path, chunk },
        ...(offset === undefined ? {} : { offset }),
      }),
  );
  const others = all.filter(
    ({ path, chunk }) => !known.some((each) => each.path === path && each.chunk === chunk),
  );
  return { ...own, ...found.intact, ok: false, findings: [...own.findings, ...others] };
}

/**
 * How to go on after damage that ended a conversion; undefined if nothing helps. Finds out whether `repair` takes the archive, but does not
 * read its chunks, which may take hours. `again`: how to convert the rest; undefined if the conversion was asked to go on at damage.
 */
async function adviseConversion(
  path: string,
  again: string | undefined,
  { signal, allow = [] }: Pick<Context, "signal" | "allow">,
): Promise<string | undefined> {
  const command = repairCommand(path, allow);
  const convert = again === undefined ? undefined : `to convert what is intact${again}`;
  const seen = new AbortController();
  const own = AbortSignal.any([signal, seen.signal]);
  try {
    // While it looks for chunks, it counts bytes.
    const onProgress = ({ unit }: Progress): void => void (unit !== "bytes" && seen.abort());
    await repairArray(path, { dryRun: true, signal: own, allow, onProgress });
  } catch (error) {
    signal.throwIfAborted();
    if (!seen.signal.aborted) {
      if (isSuperchunkError(error, "INCOMPLETE"))
        return `to convert it, repair it first: ${withNeeded(command, error.summary)}`;
      // HDF5 files, and frames of Blosc2, are not repaired.
      return isSuperchunkError(error, "UNSUPPORTED") ? convert : undefined;
    }
  }
  const save = `to save what is intact in a copy: ${command} --holes fill`;
  return convert === undefined ? save : `${convert}; ${save}`;
}

/** The error of a conversion, with advice if it is about damage in one of the sources. `isStopped`: damage was to stop it. */
export async function withConversionAdvice(
  error: unknown,
  sources: readonly string[],
  isStopped: boolean,
  context: Context,
): Promise<unknown> {
  if (!isSuperchunkError(error) || !error.isDamage) return error;
  const { path: where = "" } = error.details;
  const isAt = (place: string): boolean =>
    where === place || where.startsWith(`${place.replace(/\/+$/, "")}/`);
  const source = sources.find((each) => [each, resolve(each), realPathOf(each)].some(isAt));
  const again = isStopped ? ', give {damaged: "fill"} or {damaged: "skip"}' : undefined;
  const advice = source === undefined ? undefined : await adviseConversion(source, again, context);
  if (advice === undefined) return error;
  return new SuperchunkError(error.code, `${error.summary.replace(/\.$/, "")}; ${advice}`, error.details);
}

/** One sentence about the damaged archives that a conversion of many has left out. `again` returns the command that converts one of them. */
export async function adviseLeftOut(
  leftOut: readonly { readonly path: string; readonly node: string; readonly code?: ErrorCode }[],
  again: ((path: string, node: string) => string) | undefined,
  context: Context,
): Promise<string | undefined> {
  const damaged = leftOut.filter(({ code }) => code !== undefined && new SuperchunkError(code, "").isDamage);
  const [first] = damaged;
  if (first === undefined) return undefined;
  const command = again && `: ${again(first.path, first.node)} --damaged fill, with the same options`;
  const advice = await adviseConversion(first.path, command, context);
  if (advice === undefined) return undefined;
  const count = damaged.length;
  return `${count === 1 ? "1 archive is" : `${formatCount(count)} archives are`} damaged. For ${first.path}, ${advice}`;
}

function repairCommand(path: string, allow: readonly string[]): string {
  const allowed = allow.length === 0 ? "" : ` --allow ${allow.map(quoted).join(" ")}`;
  return `superchunk repair ${quoted(path)} DST${allowed}`;
}

/** The command with the option that a message asks for, and words in capitals for what only the user knows. */
function withNeeded(command: string, message: string): string {
  const [, needed] = /\{(dtype|chunklen|scan)\b/.exec(message) ?? [];
  const values: Readonly<Record<string, string>> = { dtype: " DTYPE", chunklen: " ROWS" };
  return needed === undefined ? command : `${command} --${needed}${values[needed] ?? ""}`;
}
